// Package approverpages has the pages of passkeys with which people sign approvals, and of the rule that says when
// signatures are needed. The dashboard mounts them for the people of an organization, and the console for operators:
// a Config says who acts, and in which words the pages speak of them.
//
// The package has no SQL and decides nothing: every step is a call of package approver. A crash leaves nothing behind.
package approverpages

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// The paths of the pages, below the prefix of their surface.
const (
	ListPath = "/approvers"
	NewPath  = "/approvers/new"
	RulePath = "/approvers/rule"
	KeyPath  = "/approvers/{approverKeyId}"
)

// SignAct is the name of an act that a passkey signs.
const SignAct = "sign"

const (
	// SignatureLasts is how far ahead the end of a signature is that a page asks for.
	SignatureLasts = time.Hour
	// EnrolmentLasts is that of an enrolment, which other people have to admit meanwhile.
	EnrolmentLasts = approver.SignatureMax - 5*time.Minute

	wordBytesMax = 64
	// base64BytesMax bounds a field of a signature, and publicKeyBytesMax a public key.
	base64BytesMax    = 4096
	publicKeyBytesMax = 2048
	// keysEnough is how many passkeys for a right a person needs: with one, a lost device takes the right away.
	keysEnough = 2
)

// Person is the one who acts.
type Person struct {
	Actor       audit.Actor
	Name, Email string
}

// Words are the sentences in which the people of an organization and operators differ.
type Words struct {
	ListLead, RuleLead string // below the titles of the list and of the rule
	WhyNone            string // why there are no passkeys
	NoKeys             string // where no one has one yet
	Approve, Enrol     string // what a passkey of each right is for, as the system's own prompt names it
	NoSuchKey          string // that the passkey of a path is not one of these
	FirstRule          string // why no colleague admits a passkey before the first rule
	Founding           string // who admits a passkey that waits
	NoRule, Rule       string // the rule; Rule has %s for the people
	Quorum             string // the label of their number
	Asks               string // that the rule asks for signatures; it has %s for the people
	Pays               string // what a signature does
}

// AssetRules lets a rule name assets, own payments and returns.
type AssetRules struct {
	LoadMints   func(*pages.Request) (mint.Catalogue, error)
	NetworkName func(chain.Name) string
}

// Config says whose passkeys and rule the pages show, and who acts on them. Every field is required unless its comment
// says otherwise.
type Config struct {
	DB        *pg.DB
	Approvers *approver.Service // nil: this installation has no passkeys of approvers
	// Origin is the scheme, host and port at which browsers reach the pages, and RelyingParty the host name for which
	// passkeys are made.
	Origin, RelyingParty string
	Group                string // of the menu
	// Reads opens the pages, Makes the one that makes passkeys, and Signs is what those do who make passkeys and sign.
	Reads, Makes, Signs identity.Action
	// OrgID returns the organization whose passkeys and rule the pages show.
	OrgID func(*pages.Request) string
	// Read runs a read that sees this organization.
	Read   func(r *pages.Request, work func(ctx context.Context, tx pg.Tx) error) error
	Person func(*pages.Request) Person
	// LoadNames returns what writes the person of a passkey.
	LoadNames func(*pages.Request) (func(person string) string, error)
	Assets    *AssetRules // nil: a rule names people alone
	Words     Words
	// ElsewhereURL returns the address of the page of a request where people sign; nil, or "": they sign here.
	ElsewhereURL func(*pages.Request) string
	// EnrolURL is the address at which people make passkeys, if it is another one; "": they make them here.
	EnrolURL string
	Log      *slog.Logger // nil means the default
}

// Pages has the functions of the pages.
type Pages struct{ conf Config }

// New returns the pages.
func New(conf Config) *Pages { return &Pages{conf} }

// List returns the table of the pages.
func (p *Pages) List() []pages.Page {
	return []pages.Page{p.listPage(), p.newPage(), p.rulePage(), p.keyPage()}
}

func (p *Pages) log() *slog.Logger {
	if p.conf.Log == nil {
		return slog.Default()
	}
	return p.conf.Log
}

// actor returns the person of a request as an actor of the audit log.
func (p *Pages) actor(r *pages.Request) audit.Actor { return p.conf.Person(r).Actor }

// personName returns the person of a request as statements name people.
func (p *Pages) personName(r *pages.Request) string { return approver.PersonName(p.actor(r)) }

// RightText says what a passkey is for, in the words that the system's own prompt shows.
func (w Words) RightText(right signer.Right) string {
	switch right {
	case signer.RightApprove:
		return w.Approve
	case signer.RightEnrol:
		return w.Enrol
	}
	return ""
}

// RuleText says that a rule asks for a number of people.
func (w Words) RuleText(people int) string { return fmt.Sprintf(w.Rule, CountSigners(people)) }

// AskText says how many people the rule asks for.
func (w Words) AskText(people int) string { return fmt.Sprintf(w.Asks, CountSigners(people)) }

// SignatureFields are the fields of a signature, which the script fills in, behind others.
func SignatureFields(first ...pages.Field) []pages.Field {
	for _, name := range ui.SignatureNames {
		first = append(first, pages.Field{Name: name, BytesMax: base64BytesMax, Optional: true, Scripted: true})
	}
	return first
}

// ReadSignature returns the signature of a form. Fault: INVALID_REQUEST for one that is missing or malformed.
func ReadSignature(r *pages.Request) (s signer.KeySignature, err error) {
	s.KeyID, s.NotAfter = r.Values[ui.KeyIDName], r.Values[ui.NotAfterName]
	for name, part := range map[string]*[]byte{
		ui.CredentialIDName: &s.Assertion.CredentialID, ui.AuthenticatorDataName: &s.Assertion.AuthenticatorData,
		ui.ClientDataJSONName: &s.Assertion.ClientDataJSON, ui.SignatureName: &s.Assertion.Signature,
	} {
		if *part, err = base64.RawURLEncoding.DecodeString(r.Values[name]); err != nil || len(*part) == 0 {
			return s, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"The form came without the signature of a passkey, which needs scripts.").
				WithAdvice("Allow scripts for this page, and sign what it shows.")
		}
	}
	return s, nil
}

// StatementWords writes a statement for a page.
func StatementWords(s signer.Statement) (words []ui.StatementWord) {
	for _, w := range s {
		words = append(words, ui.StatementWord{Name: w.Name, Text: w.Text})
	}
	return words
}

// WordsOf writes for a page what a person signs now.
func WordsOf(
	r *pages.Request, person audit.Actor, statement func(person, notAfter string) signer.Statement,
) []ui.StatementWord {
	return StatementWords(statement(approver.PersonName(person), NewNotAfter(r, SignatureLasts)))
}

// NewNotAfter returns the end of a signature that a page asks for now.
func NewNotAfter(r *pages.Request, lasts time.Duration) string {
	return signer.FormatMicros(r.Now.Add(lasts))
}

// CountSigners writes how many people sign.
func CountSigners(n int) string {
	if n == 1 {
		return "one person"
	}
	return strconv.Itoa(n) + " people"
}
