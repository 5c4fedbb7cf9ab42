package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
)

// payoutRowPage shows a row of a batch payout, with the proof that people approved it. Rule PAGE-105.
func (d *dashboard) payoutRowPage() pages.Page {
	return pages.Page{
		Path: "/payouts/{batchId}/rows/{row}", Title: "Row of a payout", Action: identity.ReadOrganization,
		Live: []string{payoutKind, "WITHDRAWAL"}, LiveOfAll: true, Load: d.loadPayoutRow,
	}
}

// payoutRowView is what the page of a row shows.
type payoutRowView struct {
	payoutItem

	BackPath string
	Facts    []ui.Fact
	Proof    string // as JSON; "" before the payout is submitted, and for rows that prove nothing
	WhyNot   string // why there is no proof
	IsBroken bool   // the row is not the one that the hash covers
	Calls    []string
}

func (d *dashboard) loadPayoutRow(r *pages.Request) (templ.Component, error) {
	b, err := d.payoutOf(r)
	if err != nil {
		return nil, err
	}
	items, err := d.conf.Payouts.Items(r.Context(), r.Session.OrgID, b.ID)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(r.PathParam("row"))
	if err != nil || number < 1 || number > len(items) || strconv.Itoa(number) != r.PathParam("row") {
		return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "This payout has no such row.")
	}
	mints, err := d.loadMints(r)
	if err != nil {
		return nil, err
	}
	i := items[number-1]
	view := payoutRowView{
		payoutItem: d.newPayoutItem(r, b, i, mints), BackPath: payoutPath(r, b.ID),
		Calls: []string{d.callText("GET", fmt.Sprintf("/batch-payouts/%s/items/%d/proof", b.ID, number), "")},
	}
	m, _ := mints.ByID(i.MintID)
	view.Facts = []ui.Fact{
		{Name: "Amount", Value: amountWord(view.Figure, view.Symbol, i.Amount.String())},
		{Name: "To", Value: ui.Address(view.Address)},
		{Name: "Coin", Value: mintWord(m.Symbol, view.Network, m.ID, m.Decimals)},
		{Name: "Line of the list", Value: ui.Text(view.Line)},
	}
	for _, label := range []struct{ name, text string }{
		{"Reference", i.Reference}, {"Customer, in your words", i.CustomerID},
	} {
		if label.text != "" {
			view.Facts = append(view.Facts, ui.Fact{Name: label.name, Value: ui.Foreign(label.text)})
		}
	}
	if view.Reason != "" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Why", Value: ui.Foreign(view.Reason)})
	}
	if view.WithdrawalPath != "" {
		view.Facts = append(view.Facts, ui.Fact{
			Name: "Payment", Value: pathLink(view.WithdrawalPath, "Show its withdrawal"),
		})
	}
	if view.Hash != "" {
		view.Facts = append(view.Facts, ui.Fact{
			Name: "Transaction", Value: chainTransaction(view.Hash, view.ExplorerURL),
		})
	}
	if err := d.addProof(r, &view, b, number); err != nil {
		return nil, err
	}
	return payoutRowOverview(view), nil
}

// addProof adds the proof of a row, or says why there is none.
func (d *dashboard) addProof(r *pages.Request, view *payoutRowView, b payout.Batch, number int) error {
	if b.ApprovedAt == nil {
		view.WhyNot = "A row is proven once its payout is approved: until then the hash may change."
		return nil
	}
	proof, err := d.conf.Payouts.RowProof(r.Context(), r.Session.OrgID, b.ID, number)
	if errors.Is(err, contenthash.ErrHeader) || errors.Is(err, contenthash.ErrPath) ||
		errors.Is(err, contenthash.ErrList) {
		view.IsBroken = true
		return nil
	}
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(proof, "", "  ")
	view.Proof = string(text)
	return err
}
