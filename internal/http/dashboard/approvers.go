package dashboard

import (
	"context"
	"strings"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// swapSignatureLasts is how far ahead the end of a signature of a swap is, whose output arrives and is paid later.
const swapSignatureLasts = approverpages.EnrolmentLasts

// signAgainText says to a person that an earlier signature counts no more.
const signAgainText = "Your signature has ended, or ends in a few minutes, and too few people have signed. It counts " +
	"no more: sign again."

// approverWords are the words in which the pages of approvers speak of an organization.
var approverWords = approverpages.Words{
	ListLead: "Who signs payments with which passkey, and which payments need it. The signer has its own record of " +
		"both and pays by that alone.",
	RuleLead: "Which payments need signatures, and of how many people. A rule that protects less holds only after a " +
		"cooling-off.",
	WhyNone: "The operator of this service has not named the site of approvers in the signer's policy. Approvals work " +
		"as the settings say.",
	NoKeys: "Without one, approvals work as the settings say. Make a passkey, and read its fingerprint to the person " +
		"at the signer's host.",
	Approve: "Approve payments", Enrol: "Change who approves",
	NoSuchKey: "Your organization has no such passkey.",
	FirstRule: "Until your organization has its first rule, colleagues cannot admit a passkey.",
	Founding:  "A person at the signer's host founds it, or, once your organization has a rule, colleagues admit it.",
	NoRule:    "No payment needs a signature.", Rule: "A payment needs the signatures of %s.",
	Quorum: "People who sign a payment", Asks: "Your organization's rule asks for the signatures of %s.",
	Pays: "Read each line. Your passkey signs these words, and the signer pays by them alone.",
}

// approvers are the pages of the organization's passkeys and rule.
func (d *dashboard) approvers() *approverpages.Pages {
	conf := approverpages.Config{
		DB: d.conf.DB, Approvers: d.conf.Approvers, Origin: d.conf.Origin.String(),
		RelyingParty: d.conf.relyingParty(), Group: "Organization", Reads: identity.ReadOrganization,
		Makes: identity.DecideWithdrawal, Signs: identity.DecideWithdrawal, Words: approverWords,
		ElsewhereURL: d.signingURL, Log: d.conf.Log,
		OrgID: func(r *pages.Request) string { return r.Session.OrgID },
		Read: func(r *pages.Request, work func(ctx context.Context, tx pg.Tx) error) error {
			return d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, work)
		},
		Person: func(r *pages.Request) approverpages.Person {
			return approverpages.Person{
				Actor: actor(r), Name: r.Session.Member.Name, Email: r.Session.Member.Email,
			}
		},
		LoadNames: func(r *pages.Request) (func(person string) string, error) {
			names, err := d.loadPeople(r)
			return func(person string) string {
				memberID := strings.TrimPrefix(person, approver.PersonName(audit.User("")))
				return names.nameOf(audit.User(memberID), r.Session)
			}, err
		},
		Assets: &approverpages.AssetRules{LoadMints: d.loadMints, NetworkName: networkName},
	}
	if d.conf.ApprovalsURL != "" {
		conf.EnrolURL = d.conf.ApprovalsURL + approverpages.NewPath
	}
	return approverpages.New(conf)
}
