package console

import (
	"context"
	"fmt"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// addressPage shows one address of a whitelist. Where the operators have a rule, they sign it there. Rule PAGE-124.
func (c *console) addressPage() pages.Page {
	return pages.Page{
		Path: "/organizations/{organizationId}/addresses/{whitelistedAddressId}", Title: "Address of a whitelist",
		Action: identity.ReadInstallation, Live: []string{"WHITELISTED_ADDRESS"}, Load: c.loadAddress,
		Acts: []pages.Act{{
			Name: approverpages.SignAct, Action: identity.SignAsOperator, Fields: approverpages.SignatureFields(),
			FindDone: c.findSignedAddress, Run: c.signAddress,
		}},
	}
}

// loadSigning reads the address of the path, with who has to sign it.
func (c *console) loadSigning(ctx context.Context, tx pg.Tx, r *pages.Request) (s whitelist.Signing, err error) {
	orgID, err := organizationID(r)
	if err != nil {
		return s, err
	}
	return c.conf.Whitelist.LoadSigning(ctx, tx, orgID, r.PathParam("whitelistedAddressId"))
}

func addressPath(r *pages.Request) string {
	return r.Path("organizations", r.PathParam("organizationId"), "addresses", r.PathParam("whitelistedAddressId"))
}

// findSignedAddress returns the page of an address that waits for no signature of this operator any more.
func (c *console) findSignedAddress(r *pages.Request) (path string, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) error {
		path = ""
		s, err := c.loadSigning(ctx, tx, r)
		if err == nil && s.People > 0 && !s.IsWanted(approver.PersonName(actor(r)), tx.Now) {
			path = addressPath(r)
		}
		return err
	})
	return path, err
}

func (c *console) signAddress(r *pages.Request) (string, error) {
	orgID, err := organizationID(r)
	if err != nil {
		return "", err
	}
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	name := r.PathParam("whitelistedAddressId")
	err = c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		return c.conf.Whitelist.SignEntry(ctx, tx, actor(r), orgID, name, signature)
	})
	if err != nil {
		return "", err
	}
	c.requestEndorsement(r.Context(), name)
	return addressPath(r), nil
}

// addressView is what the page shows.
type addressView struct {
	BackPath, OrgName string
	Chip              ui.Chip
	Facts             []ui.Fact
	Form              ui.Form
	IsWaiting         bool // for signatures
	SignedText        string
	Sign              *approverpages.SignerView // nil: this operator does not sign it
	WhyNot            string                    // why not
}

func (c *console) loadAddress(r *pages.Request) (templ.Component, error) {
	view := addressView{BackPath: r.Path("organizations", r.PathParam("organizationId"), "addresses"), Form: r.Form}
	var s whitelist.Signing
	var names holders
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if s, err = c.loadSigning(ctx, tx, r); err != nil {
			return err
		}
		owner, err := org.ByID(ctx, tx, s.Entry.OrgID)
		if err != nil {
			return err
		}
		view.OrgName = owner.Name
		names, err = loadHolders(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	e, person := s.Entry, approver.PersonName(actor(r))
	view.Chip = entryChip(e, r.Now)
	view.Facts = []ui.Fact{
		{Name: "Address", Value: ui.Address(string(e.Address))},
		{Name: "Network", Value: ui.Text(networkName(e.Chain))},
		{Name: "Owner", Value: ui.Foreign(e.Label)},
		{Name: "Added by", Value: ui.Foreign(nameOfHolder(names, e.CreatedBy))},
		{Name: "Added", Value: ui.When(r.Moment(e.CreatedAt))},
		{Name: "Usable from", Value: ui.When(r.Moment(e.UsableFrom))},
		{Name: "Id", Value: ui.Code(e.ID)},
	}
	if e.Refusal != "" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Refused because", Value: ui.Foreign(e.Refusal)})
	}
	if view.IsWaiting = s.People > 0 && e.Status(r.Now) == whitelist.StatusWaiting; !view.IsWaiting {
		return addressOverview(view), nil
	}
	view.SignedText = fmt.Sprintf("%d of %d signatures are there. Signed by: %s.", len(s.SignedBy), s.People,
		signersText(r, names, s.SignedBy))
	switch {
	case !r.IsAllowed(identity.SignAsOperator):
		view.WhyNot = "Your role shows this address and does not sign it."
	case !s.IsWanted(person, r.Now):
		view.WhyNot = "You signed it. Another operator has to sign it, too."
	default:
		view.Sign, err = c.approvers().NewSignerView(r, s.People, ui.SignView{
			Form: r.Form, Act: approverpages.SignAct, Path: addressPath(r) + "/" + approverpages.SignAct,
			Words:  approverpages.WordsOf(r, actor(r), s.Statement),
			Button: "Sign this address",
		})
	}
	if err != nil {
		return nil, err
	}
	return addressOverview(view), nil
}
