package mail

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

const token = "c0ffee-TOKEN-5e7a"

// sample is a mail with everything that an encoding can spoil.
func sample() Mail {
	return Mail{
		ID: "mail_01", Kind: "INVITATION", From: sender(), To: "ann@example.com",
		Subject: seal.NewSecret("Grüße aus Köln: your invitation"),
		Text: seal.NewSecret("Dear Ann,\n.\n.a line with a dot\n\nhttps://pay.example.com/join?a=1&t=" + token +
			"#" + strings.Repeat("x", 300) + "\n漢字 = fine\ttab\n"),
		CreatedAt: time.Date(2026, 11, 28, 1, 35, 40, 123e6, time.UTC),
	}
}

func sender() mail.Address {
	return mail.Address{Name: "Coffer at Köln", Address: "no-reply@pay.example.com"}
}

func (s *server) local() *SMTP { return &SMTP{Host: "127.0.0.1", Port: s.port()} }

// read parses a mail as a mail program does.
func read(t *testing.T, text string) (header mail.Header, subject, body string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, subject, string(content)
}

// Rule MAIL-1.
func TestAMailArrivesAsItWasWritten(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	for range 2 {
		if err := s.local().Send(t.Context(), sample()); err != nil {
			t.Fatal(err)
		}
	}
	got := s.texts()
	if len(got) != 2 || got[0] != got[1] {
		t.Fatalf("got %q, want the same bytes twice", got)
	}
	header, subject, body := read(t, got[0])
	if subject != sample().Subject.Reveal() {
		t.Errorf("got the subject %q, want %q", subject, sample().Subject.Reveal())
	}
	if want := sample().Text.Reveal(); strings.TrimRight(body, "\n") != strings.TrimRight(want, "\n") {
		t.Errorf("got %q, want %q", body, want)
	}
	for name, want := range map[string]string{
		"To": "<ann@example.com>", "Message-Id": "<mail_01@pay.example.com>", "Auto-Submitted": "auto-generated",
		"Content-Type": "text/plain; charset=UTF-8", "Date": "Sat, 28 Nov 2026 01:35:40 +0000",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if from, err := header.AddressList("From"); err != nil || len(from) != 1 || *from[0] != sender() {
		t.Errorf("From: got %v %v, want %v", from, err, sender())
	}
}

// Each failure has words of this program. The servers quote the text and the password, as some do.
// Rule MAIL-4.
func TestAFailureSaysWhyAndQuotesNoServer(t *testing.T) {
	t.Parallel()
	quoting := func(code, at string) func(step, line string) string {
		return func(step, line string) string {
			if step == at {
				return code + " 5.7.1 no, because of " + token + " in " + strings.ReplaceAll(line, "\n", " ")
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		reply     func(step, line string) string
		reason    string
		isRefused bool
	}{
		"no such mailbox":      {quoting("550", "rcpt"), "SMTP 550 in answer to the recipient", true},
		"a full mailbox":       {quoting("452", "rcpt"), "SMTP 452 in answer to the recipient", false},
		"a refused text":       {quoting("554", "text"), "SMTP 554 in answer to the text", true},
		"a text for later":     {quoting("451", "text"), "SMTP 451 in answer to the text", false},
		"a refused sender":     {quoting("553", "mail"), "SMTP 553 in answer to the sender", false},
		"no data":              {quoting("503", "data"), "SMTP 503 in answer to the announced text", true},
		"not now":              {quoting("421", "greeting"), "SMTP 421 before the mail", false},
		"a wrong password":     {quoting("535", "auth"), "SMTP 535 before the mail", false},
		"cut at the greeting":  {answer("greeting", cut), "no session with the mail server", false},
		"cut at the recipient": {answer("rcpt", cut), "the connection broke at the recipient", false},
		"cut in the text":      {answer("half", cut), "the connection broke at the text", false},
		"cut after the text":   {answer("text", cut), "the connection broke at the text", false},
		"slow":                 {answer("rcpt", stall), "the mail server was too slow", false},
		"slow at the greeting": {answer("greeting", stall), "the mail server was too slow", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&server{reply: c.reply}).start(t)
			transport := s.local()
			transport.User, transport.Password = "coffer", seal.NewSecret(token)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := transport.Send(ctx, sample())
			var failure *Failure
			if !errors.As(err, &failure) || !strings.HasPrefix(failure.Reason, c.reason) ||
				failure.IsRefused != c.isRefused {
				t.Fatalf("got %v, want %q, refused %v", err, c.reason, c.isRefused)
			}
			if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "5.7.1") {
				t.Errorf("got %v, want no word of the server", err)
			}
			if len(failure.Reason) > 200 {
				t.Errorf("got a reason of %d bytes, want at most 200", len(failure.Reason))
			}
		})
	}
}

// What fails after the acceptance does not send a mail again. Rule MAIL-1.
func TestAnAcceptedMailIsSentWhateverTheFarewell(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"quit", "other"} {
		s := (&server{reply: answer(at, cut)}).start(t)
		if err := s.local().Send(t.Context(), sample()); err != nil || len(s.texts()) != 1 {
			t.Errorf("cut at %s: got %v and %d mails, want it sent", at, err, len(s.texts()))
		}
	}
}

// A server that is not on this machine gets neither password nor text without TLS and a certificate
// for its name. Rule MAIL-4.
func TestAMailServerNeedsTLS(t *testing.T) {
	t.Parallel()
	const name = "mail.example.com"
	certificate, roots := selfSigned(t, name)
	_, strangers := selfSigned(t, name)
	other, otherRoots := selfSigned(t, "other.example.com")
	transport := func(s *server, port int) *SMTP {
		return &SMTP{
			Host: name, Port: port, User: "coffer", Password: seal.NewSecret("hunter2"), roots: roots,
			address: s.addr(),
		}
	}
	for port, implicit := range map[int]bool{587: false, 25: false, 465: true} {
		s := (&server{tls: certificate, implicit: implicit}).start(t)
		if err := transport(s, port).Send(t.Context(), sample()); err != nil || len(s.texts()) != 1 {
			t.Errorf("port %d: got %v and %d mails, want it sent", port, err, len(s.texts()))
		}
		if plain := s.plainLines(); strings.Contains(plain, "MAIL") || strings.Contains(plain, "AUTH") {
			t.Errorf("port %d: got %q without TLS, want nothing but STARTTLS", port, plain)
		}
		// A certificate of a stranger, and one for another name.
		distrusting := transport(s, port)
		distrusting.roots = strangers
		misnamed := (&server{tls: other, implicit: implicit}).start(t)
		another := transport(misnamed, port)
		another.roots = otherRoots
		for what, wrong := range map[string]*SMTP{"a stranger's": distrusting, "another name's": another} {
			err := wrong.Send(t.Context(), sample())
			if err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("port %d, %s certificate: got %v, want a refusal for it", port, what, err)
			}
		}
		if got := len(misnamed.texts()) + len(s.texts()); got != 1 {
			t.Errorf("port %d: got %d mails, want none more", port, got)
		}
	}
	// Without STARTTLS, as when an attacker removes it from the answer.
	s := (&server{}).start(t)
	if err := transport(s, 587).Send(t.Context(), sample()); err == nil || len(s.texts()) != 0 {
		t.Errorf("no STARTTLS: got %v and %d mails, want none", err, len(s.texts()))
	}
	if plain := s.plainLines(); strings.Contains(plain, "MAIL") || strings.Contains(plain, "AUTH") {
		t.Errorf("no STARTTLS: got %q, want neither password nor mail", plain)
	}
}

// The password goes to a server on this machine without TLS, and to no other. Rule MAIL-4.
func TestOnlyThisMachineNeedsNoTLS(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	transport := s.local()
	transport.User, transport.Password = "coffer", seal.NewSecret("hunter2")
	if err := transport.Send(t.Context(), sample()); err != nil || len(s.texts()) != 1 {
		t.Fatalf("got %v and %d mails, want it sent", err, len(s.texts()))
	}
	if !strings.Contains(s.plainLines(), "AUTH PLAIN "+credentials("coffer", "hunter2")) {
		t.Errorf("got %q, want the user and the password", s.plainLines())
	}
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost.example.com": false,
		"10.0.0.5": false, "mail.example.com": false, "": false, "0.0.0.0": false,
	} {
		if got := isLoopbackHost(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
	// localhost can resolve to another machine.
	if err := checkPlain(away{}, true); !errors.Is(err, errNotLocal) {
		t.Errorf("got %v, want the connection refused", err)
	}
}

// away is a connection to another machine.
type away struct{ net.Conn }

func (away) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 25} }
func (away) Close() error         { return nil }
