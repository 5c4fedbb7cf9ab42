package mail

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a small mail server on loopback that follows a script.
type server struct {
	t        *testing.T
	listener net.Listener
	tls      *tls.Config // for STARTTLS; nil: it offers none
	implicit bool        // TLS from the first byte
	// reply returns the answer to a step: greeting, auth, mail, rcpt, data, or text, for which line is
	// the whole text. "" is the usual answer, cut ends the connection, and stall never answers.
	reply func(step, line string) string

	mu       sync.Mutex
	accepted []string // texts with their headers
	plain    []string // lines that came without TLS
	closing  chan struct{}
	sessions sync.WaitGroup
}

const (
	cut   = "cut"
	stall = "stall"
)

// start serves until the end of the test.
func (s *server) start(t *testing.T) *server {
	t.Helper()
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.t, s.closing = t, make(chan struct{})
	if s.reply == nil {
		s.reply = func(string, string) string { return "" }
	}
	s.sessions.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.sessions.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		close(s.closing)
		_ = s.listener.Close()
		s.sessions.Wait()
	})
	return s
}

func (s *server) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *server) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.accepted...)
}

func (s *server) plainLines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.plain, "\n")
}

func (s *server) serve(conn net.Conn) {
	ended := make(chan struct{})
	defer close(ended)
	go func() { // an open session does not outlive the test
		select {
		case <-s.closing:
		case <-ended:
		}
		_ = conn.Close()
	}()
	var stream io.ReadWriter = conn
	isTLS := false
	if s.implicit {
		stream, isTLS = tls.Server(conn, s.tls), true
	}
	r := textproto.NewReader(bufio.NewReader(stream))
	say := func(step, line, usual string) bool {
		answer := s.reply(step, line)
		switch answer {
		case "":
			answer = usual
		case cut:
			return false
		case stall:
			<-s.closing
			return false
		}
		_, err := io.WriteString(stream, answer+"\r\n")
		return err == nil
	}
	if !say("greeting", "", "220 test ESMTP") {
		return
	}
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		if !isTLS {
			s.mu.Lock()
			s.plain = append(s.plain, line)
			s.mu.Unlock()
		}
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		going := false
		switch verb {
		case "EHLO":
			extensions := "250-test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-AUTH PLAIN LOGIN\r\n"
			if s.tls != nil && !isTLS {
				extensions += "250-STARTTLS\r\n"
			}
			going = say("ehlo", line, extensions+"250 ENHANCEDSTATUSCODES")
		case "STARTTLS":
			going = say("starttls", line, "220 go on")
			stream, isTLS = tls.Server(conn, s.tls), true
			r = textproto.NewReader(bufio.NewReader(stream))
		case "AUTH":
			going = say("auth", line, "235 welcome")
		case "MAIL":
			going = say("mail", line, "250 ok")
		case "RCPT":
			going = say("rcpt", line, "250 ok")
		case "DATA":
			if going = say("data", line, "354 go on"); going {
				going = s.takeText(r, say)
			}
		case "QUIT":
			say("quit", line, "221 bye")
		default:
			going = say("other", line, "250 ok")
		}
		if !going {
			return
		}
	}
}

// takeText reads the text of a mail. The step half comes before its end.
func (s *server) takeText(r *textproto.Reader, say func(step, line, usual string) bool) bool {
	if s.reply("half", "") == cut {
		_, _ = r.ReadLine()
		return false
	}
	text, err := r.ReadDotBytes()
	if err != nil {
		return false
	}
	if answer := s.reply("text", string(text)); !strings.HasPrefix(answer, "4") && !strings.HasPrefix(answer, "5") {
		s.mu.Lock()
		s.accepted = append(s.accepted, string(text))
		s.mu.Unlock()
	}
	return say("text", string(text), "250 queued")
}

// answer returns a script that gives one answer at one step.
func answer(at, text string) func(step, line string) string {
	return func(step, _ string) string {
		if step == at {
			return text
		}
		return ""
	}
}

// selfSigned returns a certificate for a name, and the pool that trusts it.
func selfSigned(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// credentials returns what AUTH PLAIN sends.
func credentials(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
}

func (s *server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port()) }
