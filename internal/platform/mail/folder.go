package mail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Folder writes each mail as a file that a person can read, for a network without real money. The
// names sort by time. A file is complete as soon as it has its name, and a mail that is sent again
// replaces its own file.
type Folder struct {
	Dir string // created if it does not exist
}

// Send implements Transport.
func (f *Folder) Send(_ context.Context, m Mail) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return &Failure{Reason: "the folder for mails cannot be created"}
	}
	name := m.CreatedAt.UTC().Format("20060102T150405.000Z") + "-" + strings.ToLower(m.Kind) + "-" + m.ID + ".eml"
	if err := writeWhole(f.Dir, name, formatMail(m)); err != nil {
		return &Failure{Reason: "the file of the mail cannot be written"}
	}
	return nil
}

// formatMail writes a mail with its headers. Subject and text stay in UTF-8 as they are.
func formatMail(m Mail) string {
	return fmt.Sprintf("From: %s\nTo: %s\nSubject: %s\nDate: %s\nMessage-ID: <%s>\n"+
		"Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n%s\n",
		m.From.String(), m.To, m.Subject.Reveal(), m.CreatedAt.UTC().Format(time.RFC1123Z), m.messageID(),
		strings.TrimSuffix(m.Text.Reveal(), "\n"))
}

// writeWhole writes a file with mode 0600 that gets its name when it is complete and on disk.
func writeWhole(dir, name, content string) error {
	fresh, err := os.CreateTemp(dir, ".mail-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.WriteString(content)
	if err := errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), filepath.Join(dir, name))
}
