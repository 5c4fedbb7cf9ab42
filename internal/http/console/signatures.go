package console

import (
	"context"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// signaturesPage lists what waits for signatures of operators. Rule PAGE-123.
func (c *console) signaturesPage() pages.Page {
	return pages.Page{
		Path: "/signatures", Title: "Waits for signatures", Action: identity.ReadInstallation, Group: controlGroup,
		Icon: "approve", Live: []string{"DEPOSIT", "WHITELISTED_ADDRESS"}, Load: c.loadSignatures,
	}
}

// signaturesView is what the page shows.
type signaturesView struct {
	RuleText, RulePath   string
	Redirects, Addresses table
}

// signersText writes who has signed.
func signersText(r *pages.Request, names holders, signedBy []string) string {
	if len(signedBy) == 0 {
		return "no one yet"
	}
	people := make([]string, 0, len(signedBy))
	for _, person := range signedBy {
		people = append(people, ui.EscapeForeign(nameOfPerson(r, names, person)))
	}
	return strings.Join(people, ", ")
}

func (c *console) loadSignatures(r *pages.Request) (templ.Component, error) {
	view := signaturesView{RuleText: approverWords.NoRule, RulePath: r.Path("approvers", "rule")}
	organizations, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
		names, err := loadHolders(ctx, tx)
		if err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		if c.conf.Approvers != nil {
			rule, err := c.conf.Approvers.LoadRule(ctx, tx, signer.Operators)
			if err != nil {
				return err
			}
			if rule != nil {
				view.RuleText = approverWords.RuleText(rule.Quorum)
			}
		}
		redirects, err := deposit.ListWaitingRedirects(ctx, tx, rowsMax)
		if err != nil {
			return err
		}
		entries, err := whitelist.ListUnsigned(ctx, tx, rowsMax)
		if err != nil {
			return err
		}
		view.addRedirects(r, redirects, names, organizations, mints)
		view.addAddresses(r, entries, names, organizations)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return signaturesOverview(view), nil
}

func (v *signaturesView) addRedirects(
	r *pages.Request, redirects []deposit.WaitingRedirect, names holders, organizations orgNames, mints mint.Catalogue,
) {
	v.Redirects = table{Caption: "Redirects that wait for signatures", Columns: []column{
		{Title: "Amount", IsNumber: true},
		{Title: "Organization"},
		{Title: "To"},
		{Title: "Asked for by"},
		{Title: "Signed by"},
		{Title: "Asked for"},
		{Title: "Review", IsUnseen: true},
	}}
	for _, w := range redirects {
		figure, symbol := w.Amount.String(), "units"
		if w.MintID != nil {
			if m, ok := mints.ByID(*w.MintID); ok {
				figure, symbol = w.Amount.Decimal(m.Decimals), m.Symbol
			}
		}
		signedBy := make([]string, 0, len(w.SignedBy))
		for _, person := range w.SignedBy {
			signedBy = append(signedBy, approver.PersonName(person))
		}
		v.Redirects.addRow(
			ui.Amount(figure, symbol), link(r.Path("organizations", w.OrgID), organizations.nameOf(w.OrgID)),
			ui.ShortAddress(string(w.ToAddress)),
			ui.Foreign(nameOfPerson(r, names, approver.PersonName(w.AskedBy))),
			ui.Text(signersText(r, names, signedBy)), ui.When(r.Moment(w.AskedAt)),
			openLink(r.Path("flagged", w.DepositID), "Review", "the redirect of "+figure+" "+ui.EscapeForeign(symbol)),
		)
	}
}

func (v *signaturesView) addAddresses(
	r *pages.Request, entries []whitelist.Signing, names holders, organizations orgNames,
) {
	v.Addresses = table{Caption: "Addresses that wait for signatures", Columns: append(
		textColumns("Address", "Organization", "Owner", "Added by", "Signed by", "Added"),
		column{Title: "Review", IsUnseen: true})}
	for _, s := range entries {
		e := s.Entry
		v.Addresses.addRow(
			pair(ui.ShortAddress(string(e.Address)), ui.Text(networkName(e.Chain))),
			link(r.Path("organizations", e.OrgID), organizations.nameOf(e.OrgID)), ui.Foreign(e.Label),
			ui.Foreign(nameOfHolder(names, e.CreatedBy)), ui.Text(signersText(r, names, s.SignedBy)),
			ui.When(r.Moment(e.CreatedAt)),
			openLink(r.Path("organizations", e.OrgID, "addresses", e.ID), "Review", "the address "+string(e.Address)),
		)
	}
}
