package mail

import (
	"cmp"
	"net/mail"
	"strings"

	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Config is the section [mail]. Without it no process sends mails.
type Config struct {
	Sender       string      `toml:"from,omitempty" comment:"sender of every mail, such as Coffer <no-reply@pay.example.com>"`
	Host         string      `toml:"host,omitempty" comment:"mail server; TLS is required unless it is this machine"`
	Port         int         `toml:"port,omitempty" comment:"587; 465 speaks TLS from the first byte, every other port STARTTLS"`
	User         string      `toml:"user,omitempty" comment:"for a server that asks for a user and a password"`
	PasswordFile string      `toml:"password_file,omitempty"`
	Files        string      `toml:"files,omitempty" comment:"folder for mails as files, instead of a mail server; not on MAINNET"`
	Password     seal.Secret `toml:"-"`
}

// IsEnabled reports whether the section is there.
func (c Config) IsEnabled() bool {
	return c.Sender != "" || c.Host != "" || c.Port != 0 || c.User != "" || c.PasswordFile != "" || c.Files != ""
}

// Check reports what is wrong with the section. allowsFiles says that mails may be files here.
func (c Config) Check(report config.Report, allowsFiles bool) {
	if !c.IsEnabled() {
		return
	}
	if _, err := c.SenderAddress(); err != nil {
		report("mail.from", "is %q; set it to the sender of the mails, such as Coffer <no-reply@pay.example.com>",
			c.Sender)
	}
	switch {
	case c.Files != "" && (c.Host != "" || c.Port != 0 || c.User != "" || c.PasswordFile != ""):
		report("mail.files", "is set together with a mail server; remove one of them")
		return
	case c.Files != "" && !allowsFiles:
		report("mail.files", "is not for network MAINNET: its files have links that sign people in; set mail.host")
		return
	case c.Files != "":
		return
	case c.Host == "":
		report("mail.host", "is missing; set it to the name of your mail server, or mail.files to a folder")
		return
	}
	if strings.ContainsAny(c.Host, "/ []") || strings.Count(c.Host, ":") == 1 {
		report("mail.host", "%q is not the name of a mail server; give the name alone and the port in mail.port",
			c.Host)
	}
	if c.Port < 0 || c.Port > 65535 {
		report("mail.port", "is %d; leave it out for %d, or set 465", c.Port, submissionPort)
	}
	switch {
	case c.User != "" && c.PasswordFile == "":
		report("mail.password_file", "is missing; name the file with the password of mail.user")
	case c.User == "" && c.PasswordFile != "":
		report("mail.user", "is missing although mail.password_file is set; set the user of the mail server")
	}
}

// NewTransport builds the transport of a checked section.
func (c Config) NewTransport() Transport {
	if c.Files != "" {
		return &Folder{Dir: c.Files}
	}
	return &SMTP{Host: c.Host, Port: cmp.Or(c.Port, submissionPort), User: c.User, Password: c.Password}
}

// SenderAddress reads the sender, with or without a display name.
func (c Config) SenderAddress() (mail.Address, error) {
	parsed, err := mail.ParseAddress(c.Sender)
	if err != nil {
		return mail.Address{}, err
	}
	return *parsed, CheckAddress(parsed.Address)
}
