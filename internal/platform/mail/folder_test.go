package mail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Rules MAIL-1 and MAIL-4.
func TestAFolderHasOnePrivateReadableFileForAMail(t *testing.T) {
	t.Parallel()
	f := &Folder{Dir: filepath.Join(t.TempDir(), "mail")}
	first, second := sample(), sample()
	second.ID, second.CreatedAt, second.Subject = "mail_00", first.CreatedAt.Add(time.Second), seal.NewSecret("Later")
	for _, m := range []Mail{second, first, first} {
		if err := f.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v %v, want mode 0600", e.Name(), info, err)
		}
	}
	if want := []string{
		"20261128T013540.123Z-invitation-mail_01.eml", "20261128T013541.123Z-invitation-mail_00.eml",
	}; !slices.Equal(names, want) {
		t.Fatalf("got %v, want %v", names, want)
	}
	if info, err := os.Stat(f.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: got %v %v, want mode 0700", info, err)
	}
	text, err := os.ReadFile(filepath.Join(f.Dir, names[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"To: ann@example.com", "Subject: Grüße aus Köln: your invitation", "Message-ID: <mail_01@pay.example.com>",
		"https://pay.example.com/join?a=1&t=" + token,
	} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("got %s, want the line %q", text, line)
		}
	}
	if err := (&Folder{Dir: filepath.Join(f.Dir, names[0], "x")}).Send(t.Context(), first); err == nil ||
		strings.Contains(err.Error(), token) {
		t.Errorf("a folder that cannot be: got %v, want an error without the text", err)
	}
}
