package dashboard

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// homePage shows what waits for the person and the wallet balance card.
func (d *dashboard) homePage() pages.Page {
	return pages.Page{
		Path: "/", Title: "Home", Action: identity.ReadOrganization, Icon: "home", Shortcut: "h", Load: d.loadHome,
		Live: []string{"WITHDRAWAL", "DEPOSIT", "SWAP", "TRANSFER", checkoutKind, payoutKind},
	}
}

// homeView is what the page shows.
type homeView struct {
	Greeting                   string
	ApprovalsPath, FlaggedPath string
	SwapsPath, OwnSwapsPath    string
	Approvals, Flagged, Swaps  string // how many wait; "" for none
	OwnSwaps                   string
	CheckoutsPath, Checkouts   string
	PayoutsPath, Payouts       string
	Products                   []productCard
	Disabled                   []disabledRow
}

// productCard is the balances of one product, or what belongs to customers.
type productCard struct {
	Name, Text, Total string // the total in dollars; "" if a price is missing
	Rows              []balanceRow
}

// balanceRow is the balance of one token.
type balanceRow struct{ Figure, Symbol, Network, Pending, Dollars string }

// waitingMax is how many waiting things are counted.
const waitingMax = 99

func (d *dashboard) loadHome(r *pages.Request) (templ.Component, error) {
	view := homeView{
		Greeting: r.Session.OrgName, ApprovalsPath: r.Path("approvals"), FlaggedPath: r.Path("approvals", "flagged"),
		SwapsPath: r.Path("approvals", "swaps"), OwnSwapsPath: r.Path("approvals", "organization-swaps"),
		CheckoutsPath: r.Path("checkouts", "decisions"), PayoutsPath: r.Path("approvals", "payouts"),
	}
	held, err := d.conf.Withdrawals.List(
		r.Context(), r.Session.OrgID, heldFilter, pagination.Page{Limit: waitingMax, Desc: true},
	)
	if err != nil {
		return nil, err
	}
	var flagged pagination.Result[deposit.Deposit]
	var balances []report.ProductBalance
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p := pagination.Page{Limit: waitingMax, Desc: true}
		flagged, err = deposit.List(ctx, tx, r.Session.OrgID, flaggedFilter, p)
		if err != nil {
			return err
		}
		balances, err = report.LoadProductBalances(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(held.Items) > 0 {
		view.Approvals = countNoun("withdrawal", len(held.Items), held.NextCursor != nil) + " to approve"
	}
	if len(flagged.Items) > 0 {
		view.Flagged = countNoun("flagged deposit", len(flagged.Items), flagged.NextCursor != nil)
	}
	failed, err := d.conf.Swaps.List(
		r.Context(), r.Session.OrgID, swapsToRestore, pagination.Page{Limit: waitingMax, Desc: true},
	)
	if err != nil {
		return nil, err
	}
	if len(failed.Items) > 0 {
		view.Swaps = countNoun("failed swap", len(failed.Items), failed.NextCursor != nil) + " to restore"
	}
	ownSwaps, err := d.conf.Swaps.ListOrganization(
		r.Context(), r.Session.OrgID, swapsToApprove, pagination.Page{Limit: waitingMax, Desc: true},
	)
	if err != nil {
		return nil, err
	}
	if len(ownSwaps.Items) > 0 {
		count := countNoun("swap", len(ownSwaps.Items), ownSwaps.NextCursor != nil)
		view.OwnSwaps = count + " of your own money to approve"
	}
	if view.Payouts, err = d.countPayoutsToApprove(r); err != nil {
		return nil, err
	}
	checkouts, hasMore, err := d.countDecisions(r)
	if err != nil {
		return nil, err
	}
	if checkouts > 0 {
		view.Checkouts = countNoun("checkout", checkouts, hasMore) + " to decide"
	}
	if view.Disabled, err = d.findDisabled(r); err != nil {
		return nil, err
	}
	view.Products = d.productCards(r.Context(), balances)
	return homeOverview(view), nil
}

// productCards makes the wallet balance card: one part for each product, and one for what belongs to
// customers, which is none of the organization's own money.
func (d *dashboard) productCards(ctx context.Context, balances []report.ProductBalance) []productCard {
	cards := []productCard{
		{Name: productName("CUSTODIAL"), Text: "Your own money in custody."},
		{Name: productName("CHECKOUT"), Text: "Payments of the checkout."},
		{Name: productName("BATCH_PAYOUT"), Text: "Money for batch payouts."},
		{Name: "Owed to customers", Text: "The balances of your customers. They are not yours to withdraw."},
	}
	totals, isPriced := make([]money.USD, len(cards)), []bool{true, true, true, true}
	add := func(i int, b report.ProductBalance, total, pending money.Amount) {
		row := balanceRow{
			Figure: total.Decimal(b.Mint.Decimals), Symbol: b.Mint.Symbol, Network: networkName(b.Mint.Chain),
		}
		if !pending.IsZero() {
			row.Pending = pending.Decimal(b.Mint.Decimals)
		}
		value := report.USDValue(ctx, d.conf.Prices, b.Mint, total)
		if value == nil {
			isPriced[i] = isPriced[i] && total.IsZero()
		} else {
			row.Dollars = value.Cents()
			if sum, err := totals[i].Add(*value); err == nil {
				totals[i] = sum
			} else {
				isPriced[i] = false
			}
		}
		cards[i].Rows = append(cards[i].Rows, row)
	}
	for _, b := range balances {
		for i := range cards[:3] {
			if cards[i].Name == productName(b.Product) && (!b.Total.IsZero() || !b.Pending.IsZero()) {
				add(i, b, b.Total, b.Pending)
			}
		}
		if !b.Owed.IsZero() {
			add(len(cards)-1, b, b.Owed, money.Amount{})
		}
	}
	for i := range cards {
		if isPriced[i] {
			cards[i].Total = totals[i].Cents()
		}
	}
	return cards
}
