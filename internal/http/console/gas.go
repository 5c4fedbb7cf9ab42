package console

import (
	"context"
	"net/url"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/wallet"
)

// gasPage lists the treasuries that pay network fees, with what they lack.
func (c *console) gasPage() pages.Page {
	return pages.Page{
		Path: "/gas", Title: "Gas stations", Action: identity.ReadInstallation, Group: networkGroup, Icon: "info",
		Shortcut: "g", Live: []string{"DEPOSIT", "WITHDRAWAL", "order"}, Load: c.loadGas,
	}
}

// gasView is what the page shows.
type gasView struct {
	Stations, Needs table
}

func (c *console) loadGas(r *pages.Request) (templ.Component, error) {
	var stations []report.GasStation
	var needs []report.TreasuryNeed
	var mints mint.Catalogue
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if stations, err = report.ListGasStations(ctx, tx, rowsMax); err != nil {
			return err
		}
		if needs, err = report.ListTreasuryNeeds(ctx, tx); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := gasView{
		Stations: table{Caption: "Gas stations", Columns: []column{
			{Title: "State"},
			{Title: "Organization"},
			{Title: "Gas", IsNumber: true},
			{Title: "Missing", IsNumber: true},
			{Title: "Address"},
			{Title: "Open", IsUnseen: true},
		}},
		Needs: table{Caption: "What treasuries need", Columns: []column{
			{Title: "Organization"}, {Title: "Needs", IsNumber: true}, {Title: "Why"},
		}},
	}
	for _, s := range stations {
		missing := nothing("nothing")
		if !s.Missing.IsZero() {
			missing = pair(amountOf(mints, s.MintID, s.Missing), ui.Text(ui.FormatCount(s.Waiting, "order")+" wait"))
		}
		view.Stations.addRow(
			ui.StateChip(gasChip(s)),
			pair(link(r.Path("organizations", s.OrgID), names.nameOf(s.OrgID)), ui.Text(networkName(s.Chain))),
			pair(amountOf(mints, s.MintID, s.Gas), join(amountOf(mints, s.MintID, s.Reserved), ui.Text(" reserved"))),
			missing,
			ui.ShortAddress(string(s.Address)),
			openLink(r.Path("gas", s.WalletID)+"?"+url.Values{"mintId": {mintText(s.MintID)}}.Encode(), "Send gas",
				"to "+string(s.Address)),
		)
	}
	for _, n := range needs {
		view.Needs.addRow(link(r.Path("organizations", n.OrgID), names.nameOf(n.OrgID)),
			amountOf(mints, n.MintID, n.Amount), ui.Text(needText(n)))
	}
	return gasOverview(view), nil
}

func gasChip(s report.GasStation) ui.Chip {
	switch {
	case s.Waiting > 0:
		return ui.Chip{Kind: ui.Bad, Word: "Orders wait"}
	case s.Gas.IsZero():
		return ui.Chip{Kind: ui.Wait, Word: "Empty"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Has gas"}
}

// needText says why a treasury needs an amount.
func needText(n report.TreasuryNeed) string {
	orders := ui.FormatCount(n.Orders, "order")
	switch n.Cause {
	case report.CauseGas:
		return "Gas for " + orders
	case report.CauseFunds:
		return "Funds for " + orders
	case report.CauseShortfall:
		return "Finality broke, and promised amounts are gone"
	}
	return wordOf(n.Cause)
}

// gasStationPage shows the address of a gas station, for the person who sends gas.
func (c *console) gasStationPage() pages.Page {
	return pages.Page{
		Path: "/gas/{walletId}", Title: "Gas station", Action: identity.ReadInstallation,
		Query: mintQuery(), Live: []string{"DEPOSIT", "WITHDRAWAL", "order"}, LiveOfAll: true, Load: c.loadGasStation,
	}
}

// stationView is what the page shows.
type stationView struct {
	OrgName, OrgPath, Address, Network, Symbol string
	Facts                                      []ui.Fact
	QRPath, QRBox                              string
}

func (c *console) loadGasStation(r *pages.Request) (templ.Component, error) {
	var w wallet.Wallet
	var funds wallet.Funds
	var native mint.Mint
	err := c.read(r, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		isKnown := false
		if n := r.Query.NumberValue("mintId"); n != nil {
			native, isKnown = mints.ByID(*n)
		}
		found, err := wallet.ByID(ctx, tx, r.PathParam("walletId"))
		switch {
		case err != nil && fault.Find(err) == nil || !isKnown || native.Contract != "" ||
			found.Purpose != "TREASURY" || found.Family != native.Chain.Family():
			return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no such gas station.")
		case err != nil:
			return err
		}
		w = found
		funds, err = wallet.LoadFunds(ctx, tx, w.ID, native.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	picture, box, err := ui.EncodeQR(string(w.Address))
	if err != nil {
		return nil, err
	}
	amount := func(a money.Amount) templ.Component { return ui.Amount(a.Decimal(native.Decimals), native.Symbol) }
	view := stationView{
		OrgName: names.nameOf(w.OrgID), OrgPath: r.Path("organizations", w.OrgID), Address: string(w.Address),
		Network: networkName(native.Chain), Symbol: native.Symbol, QRPath: picture, QRBox: box,
		Facts: []ui.Fact{
			{Name: "Gas", Value: amount(funds.Gas)},
			{Name: "Reserved for transactions", Value: amount(funds.GasReserved)},
			{Name: "Free", Value: amount(funds.GasSpendable())},
			{Name: "Wallet", Value: ui.Code(w.ID)},
		},
	}
	return stationOverview(view), nil
}
