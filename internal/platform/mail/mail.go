// Package mail sends mails to people: plain text in UTF-8 to one address.
//
// A mail is a row, which Outbox.Queue writes in the transaction of the change that causes it, so
// that no mail reports a change that was rolled back. Sender is the loop that sends. It claims the
// due rows with SKIP LOCKED, which is also a lease, gives each to a Transport outside of any
// transaction, and records the outcome by compare-and-swap on the number of attempts. Any number of
// processes may run one.
//
// A mail can contain a link that signs its reader in. Its subject and text are sealed in the row,
// and erased when it ends. They are in no log, no error and no other column. The package stores no
// text of a mail server either, because a server may quote what it refuses.
//
// A mail is sent at least once. After a crash between the server's acceptance and the record, the
// lease runs out and the mail is sent again, with the same bytes and the same Message-ID, by which
// mail systems recognize the copy. A mail that no attempt could send ends as GIVEN_UP, with a log
// line and a metric. Rules MAIL-1, MAIL-2, MAIL-3, MAIL-4 and MAIL-5.
package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	kindBytesMax    = 40
	addressBytesMax = 254 // RFC 5321, a path less its brackets
	subjectBytesMax = 200
	textBytesMax    = 16 << 10
)

type (
	// Message is a mail that a feature wants to send.
	Message struct {
		Kind    string // what the mail is about, in the form PASSWORD_RESET; the limits count by it
		To      string // one address without a display name
		Subject string // one line
		Text    string // lines end with "\n"
	}

	// Mail is a queued mail, as a Transport gets it.
	Mail struct {
		ID        string // mail_…
		Kind      string
		From      mail.Address
		To        string
		Subject   seal.Secret
		Text      seal.Secret
		CreatedAt time.Time
	}
)

// Format prints the kind alone, whatever the verb, because the text may contain a link.
func (m Message) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "mail "+m.Kind) }

// Transport sends one mail. It may be asked for the same mail again, also after it succeeded, and
// sends the same bytes then. It is safe for concurrent use, and it ends with the context. An error
// that is no *Failure counts as one without a reason.
type Transport interface {
	Send(ctx context.Context, m Mail) error
}

// Failure is why a mail was not sent. It has no text of a server and none of the mail.
type Failure struct {
	Reason string // such as "SMTP 550 in answer to the recipient"
	// IsRefused says that the server refuses this mail permanently: repeating it rarely helps.
	IsRefused bool
}

// Error returns the reason.
func (f *Failure) Error() string { return f.Reason }

// check refuses a message that the outbox does not take. Rule MAIL-5.
func (m Message) check() error {
	if !isKind(m.Kind) {
		return fmt.Errorf("a mail of kind %q: it has to be 1 to %d capital letters, digits and underscores",
			m.Kind, kindBytesMax)
	}
	if err := CheckAddress(m.To); err != nil {
		return err
	}
	if m.Subject == "" || len(m.Subject) > subjectBytesMax || !isPrintable(m.Subject, "") {
		return fmt.Errorf("a mail of kind %s: its subject has to be one line of 1 to %d bytes", m.Kind, subjectBytesMax)
	}
	if m.Text == "" || len(m.Text) > textBytesMax || !isPrintable(m.Text, "\n\t") {
		return fmt.Errorf("a mail of kind %s: its text has to be 1 to %d bytes without control characters",
			m.Kind, textBytesMax)
	}
	return nil
}

// CheckAddress refuses what is not one plain e-mail address: a display name, a list, a comment, a
// quoted part, blanks and control characters. Error: INVALID_REQUEST on email. Rule MAIL-5.
func CheckAddress(address string) error {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || len(address) > addressBytesMax || !isPrintable(address, "") ||
		strings.ContainsAny(address, ` "<>()[]:;,\`) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%+q is not one e-mail address such as ann@example.com.", address).WithParam("email")
	}
	return nil
}

func isKind(text string) bool {
	if text == "" || len(text) > kindBytesMax || text[0] < 'A' || text[0] > 'Z' {
		return false
	}
	for _, b := range []byte(text) {
		if (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' {
			return false
		}
	}
	return true
}

// isPrintable reports whether a text is valid UTF-8 of letters, marks, numbers, punctuation,
// symbols, spaces and the allowed characters. Everything that ends a header or a line is none of
// them.
func isPrintable(text, allowed string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r) {
			return false
		}
	}
	return true
}

// messageID returns the identifier of a mail without its brackets. It is the same at each attempt,
// so that mail systems show a mail that was sent twice once.
func (m Mail) messageID() string { return m.ID + "@" + m.domain() }

// domain returns the domain of the sender's address.
func (m Mail) domain() string {
	_, domain, _ := strings.Cut(m.From.Address, "@")
	return domain
}

// encodeContent joins the subject and the text, which are sealed as one value.
func encodeContent(m Message) []byte { return []byte(m.Subject + "\n" + m.Text) }

func decodeContent(content []byte) (subject, text seal.Secret, err error) {
	first, remainder, found := strings.Cut(string(content), "\n")
	if !found {
		return subject, text, errors.New("the content of a mail has no subject")
	}
	return seal.NewSecret(first), seal.NewSecret(remainder), nil
}

// bindContent returns the place of the sealed content of a mail.
func bindContent(id string) seal.Binding { return seal.Binding{Kind: "mail", ID: id, Version: 1} }
