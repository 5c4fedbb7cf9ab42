package console

import (
	"context"
	"strings"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// approverWords are the words in which the pages of approvers speak of operators.
var approverWords = approverpages.Words{
	ListLead: "Which operators sign redirects of flagged deposits and addresses of whitelists, with which passkey, " +
		"and how many have to. The signer has its own record of both and acts by that alone.",
	RuleLead: "How many operators sign a redirect of a flagged deposit and an address of a whitelist. A rule that " +
		"protects less holds only after a cooling-off.",
	WhyNone: "The signer's policy does not name these pages, so it would take no passkey of them. The operator's " +
		"guide says how to name them.",
	NoKeys: "Without one, redirects and addresses need no signatures. Make a passkey, and read its fingerprint to " +
		"the person at the signer's host.",
	Approve: "Approve as an operator", Enrol: "Change which operators approve",
	NoSuchKey: "No operator has such a passkey.",
	FirstRule: "Until the operators have their first rule, colleagues cannot admit a passkey.",
	Founding:  "A person at the signer's host founds it, or, once the operators have a rule, colleagues admit it.",
	NoRule:    "No redirect and no address needs a signature.",
	Rule:      "A redirect of a flagged deposit and an address of a whitelist need the signatures of %s.",
	Quorum:    "Operators who sign", Asks: "The operators' rule asks for the signatures of %s.",
	Pays: "Read each line. Your passkey signs these words, and the signer acts by them alone.",
}

// approvers are the pages of the operators' passkeys, which are of the console's host, and of their rule. Rules
// PAGE-114, PAGE-115 and PAGE-116.
func (c *console) approvers() *approverpages.Pages {
	return approverpages.New(approverpages.Config{
		DB: c.conf.DB, Approvers: c.conf.Approvers, Origin: c.conf.Origin.String(),
		RelyingParty: c.conf.Origin.Hostname(), Group: controlGroup, Reads: identity.ReadInstallation,
		Makes: identity.ReadInstallation, Signs: identity.SignAsOperator, Words: approverWords, Log: c.conf.Log,
		OrgID: func(*pages.Request) string { return signer.Operators },
		Read:  c.read,
		Person: func(r *pages.Request) approverpages.Person {
			return approverpages.Person{
				Actor: actor(r), Name: r.Session.Operator.Name, Email: r.Session.Operator.Email,
			}
		},
		LoadNames: func(r *pages.Request) (nameOf func(person string) string, err error) {
			err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
				names, err := loadHolders(ctx, tx)
				nameOf = func(person string) string { return nameOfPerson(r, names, person) }
				return err
			})
			return nameOf, err
		},
	})
}

// nameOfPerson writes the operator of a passkey or of a signature.
func nameOfPerson(r *pages.Request, names holders, person string) string {
	if person == approver.PersonName(actor(r)) {
		return "You"
	}
	kind, id, _ := strings.Cut(person, " ")
	return names.nameOf(audit.Actor{Kind: kind, ID: id})
}
