package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/textproto"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	// stepTimeout is for the whole begin of a connection, and then for each mail on it. A server may
	// examine a mail for long before it accepts it.
	stepTimeout = 2 * time.Minute
	// implicitTLSPort is the port on which a server speaks TLS from the first byte (RFC 8314). On every
	// other port TLS begins with STARTTLS.
	implicitTLSPort = 465
	submissionPort  = 587
)

// SMTP sends mails through a mail server, each on a connection of its own.
//
// It speaks to a server only with TLS and a valid certificate for the server's name. The exception
// is a server on this machine, which is named localhost or by a loopback address. Rule MAIL-4.
type SMTP struct {
	Host     string
	Port     int
	User     string // "" for a server that asks for none
	Password seal.Secret

	// Tests set certificates of their own, and the address of their server.
	roots   *x509.CertPool
	address string
}

// Send implements Transport.
func (s *SMTP) Send(ctx context.Context, m Mail) error {
	message, err := compose(m)
	if err != nil {
		return &Failure{Reason: "the mail cannot be written as a message"}
	}
	client, release, err := s.newClient(ctx, m.domain())
	if err != nil {
		return &Failure{Reason: "the settings of the mail server are not usable"}
	}
	defer release()
	err = client.DialAndSendWithContext(ctx, message)
	// What fails after the acceptance, such as the farewell, does not concern the mail.
	if err == nil || message.IsDelivered() {
		return nil
	}
	return describeFailure(ctx, err)
}

// compose builds the message. The same mail always has the same bytes. Rule MAIL-1.
func compose(m Mail) (*gomail.Msg, error) {
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(&m.From)
	message.ToMailAddress(&mail.Address{Address: m.To})
	message.Subject(m.Subject.Reveal())
	message.SetDateWithValue(m.CreatedAt.UTC())
	message.SetMessageIDWithValue(m.messageID())
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no vacation answers
	message.SetBodyString(gomail.TypeTextPlain, m.Text.Reveal())
	if _, err := message.GetRecipients(); err != nil {
		return nil, err
	}
	return message, nil
}

// newClient builds a client for one mail, which greets the server with the sender's domain. release
// ends what watches ctx.
func (s *SMTP) newClient(ctx context.Context, domain string) (client *gomail.Client, release func(), err error) {
	config := &tls.Config{ServerName: s.Host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	isLocal, isImplicit := isLoopbackHost(s.Host), s.Port == implicitTLSPort
	stop := func() bool { return true }
	dial := func(ctxDial context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctxDial, network, cmp.Or(s.address, address))
		if err != nil {
			return nil, err
		}
		stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
		if !isImplicit {
			return conn, checkPlain(conn, isLocal)
		}
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctxDial); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secured, nil
	}
	options := []gomail.Option{
		gomail.WithPort(s.Port), gomail.WithTimeout(stepTimeout), gomail.WithHELO(domain), gomail.WithTLSConfig(config),
		gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithDialContextFunc(dial), gomail.WithoutNoop(),
	}
	switch {
	case isImplicit:
		options = append(options, gomail.WithSSL())
	case isLocal:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.User != "" {
		options = append(options, gomail.WithUsername(s.User), gomail.WithPassword(s.Password.Reveal()),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
	client, err = gomail.NewClient(s.Host, options...)
	return client, func() { stop() }, err
}

// errNotLocal is the error of a connection without TLS that left this machine.
var errNotLocal = errors.New("the server is not on this machine")

// checkPlain refuses a connection to a server that counts as local and is not on this machine,
// whatever its name resolves to. Rule MAIL-4.
func checkPlain(conn net.Conn, isLocal bool) error {
	if !isLocal {
		return nil // STARTTLS follows
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if ok && remote.IP.IsLoopback() {
		return nil
	}
	return errors.Join(errNotLocal, conn.Close())
}

// isLoopbackHost reports whether a host names this machine.
func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// answeredSteps are the steps of a session that a server answers, in words for a person.
var answeredSteps = map[gomail.SendErrReason]string{
	gomail.ErrSMTPMailFrom:  "the sender",
	gomail.ErrSMTPRcptTo:    "the recipient",
	gomail.ErrSMTPData:      "the announced text",
	gomail.ErrWriteContent:  "the text",
	gomail.ErrSMTPDataClose: "the text",
	gomail.ErrConnCheck:     "the connection",
}

const permanentCodeMin = 500 // RFC 5321: a server's permanent refusals are 500 to 599

// describeFailure says in words of our own why a mail was not sent. The server's words are left out,
// because a server may quote the text of a mail or the password. Rule MAIL-4.
func describeFailure(ctx context.Context, err error) *Failure {
	var sendErr *gomail.SendError
	var answer *textproto.Error
	var netErr net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &sendErr) && sendErr.ErrorCode() != 0:
		code := sendErr.ErrorCode()
		isAboutMail := sendErr.Reason == gomail.ErrSMTPRcptTo || sendErr.Reason == gomail.ErrSMTPDataClose ||
			sendErr.Reason == gomail.ErrSMTPData
		return &Failure{
			Reason:    fmt.Sprintf("SMTP %d in answer to %s", code, answeredSteps[sendErr.Reason]),
			IsRefused: code >= permanentCodeMin && isAboutMail,
		}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Failure{Reason: "the mail server was too slow"}
	case errors.As(err, &sendErr):
		return &Failure{
			Reason: "the connection broke at " + cmp.Or(answeredSteps[sendErr.Reason], "the end of the session"),
		}
	case errors.As(err, &answer):
		return &Failure{Reason: "SMTP " + strconv.Itoa(answer.Code) + " before the mail"}
	case errors.As(err, &certificate):
		return &Failure{Reason: "the certificate of the mail server is not valid for its name"}
	case errors.Is(err, errNotLocal):
		return &Failure{Reason: "the mail server is not on this machine, and has no TLS"}
	case errors.As(err, &netErr) && netErr.Timeout():
		return &Failure{Reason: "the mail server does not answer"}
	}
	return &Failure{Reason: "no session with the mail server: it cannot be reached, has no TLS, or takes no password"}
}
