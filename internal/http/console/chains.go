package console

import (
	"context"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// chainsPage shows how far the scan of each chain is, its finality, and what is open there.
func (c *console) chainsPage() pages.Page {
	return pages.Page{
		Path: "/chains", Title: "Chains", Action: identity.ReadInstallation, Group: networkGroup, Icon: "history",
		Shortcut: "c", Live: []string{"CHAIN", "MINT", "order"}, Load: c.loadChains,
	}
}

// chainsView is what the page shows.
type chainsView struct {
	Chains, Breaks, Tokens table
	Forked                 []string // sentences about chains whose final chain parted
}

func (c *console) loadChains(r *pages.Request) (templ.Component, error) {
	names := c.chainNames()
	var states []report.ChainState
	var mints []report.MintState
	breaks := map[chain.Name][]finality.Break{}
	reasons := map[chain.Name]string{}
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if states, err = report.ListChainStates(ctx, tx, names); err != nil {
			return err
		}
		if mints, err = report.ListMintStates(ctx, tx); err != nil {
			return err
		}
		for _, name := range names {
			if breaks[name], err = finality.ListBreaks(ctx, tx, name); err != nil {
				return err
			}
			if reasons[name], err = finality.UnsettledReason(ctx, tx, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	view := chainsView{
		Chains: table{Caption: "Chains", Columns: []column{
			{Title: "Chain"},
			{Title: "State"},
			{Title: "Final block", IsNumber: true},
			{Title: "Behind the head", IsNumber: true},
			{Title: "Applied"},
			{Title: "Providers"},
			{Title: "Open orders", IsNumber: true},
		}},
		Breaks: table{Caption: "Breaks of finality", Columns: textColumns("Chain", "Blocks", "Reason", "When")},
		Tokens: table{Caption: "Tokens with a problem", Columns: textColumns("Token", "Problem", "Since")},
	}
	for _, s := range states {
		view.Chains.addRow(c.chainRow(r, s)...)
		if s.ForkedAbove != nil {
			view.Forked = append(view.Forked, networkName(s.Chain)+": the final chain parted above block "+
				strconv.FormatInt(*s.ForkedAbove, 10)+". Nothing above it counts until an operator decides "+
				"at the terminal.")
		} else if len(breaks[s.Chain]) > 0 && reasons[s.Chain] != "" {
			view.Forked = append(view.Forked, networkName(s.Chain)+": "+reasons[s.Chain]+".")
		}
		for _, b := range breaks[s.Chain] {
			view.Breaks.addRow(
				ui.Text(networkName(s.Chain)), breakBlocks(b), ui.Foreign(b.Reason), ui.When(r.Moment(b.CreatedAt)),
			)
		}
	}
	for _, m := range mints {
		view.addToken(r, m)
	}
	return chainsOverview(view), nil
}

func (c *console) chainRow(r *pages.Request, s report.ChainState) []templ.Component {
	lag := nothing("not known")
	if s.FinalHeight != nil && s.HeadHeight != nil {
		lag = ui.Text(strconv.FormatInt(max(0, *s.HeadHeight-*s.FinalHeight), 10))
	}
	height := nothing("none yet")
	if s.FinalHeight != nil {
		height = ui.Text(ui.GroupDigits(strconv.FormatInt(*s.FinalHeight, 10)))
	}
	open := s.Queued + s.Sent + s.Stuck
	orders := link(r.Path("orders")+"?"+url.Values{"chain": {string(s.Chain)}}.Encode(), ui.FormatCount(open, "order"))
	details := strconv.Itoa(s.Queued) + " in the queue, " + strconv.Itoa(s.Sent) + " sent, " + strconv.Itoa(s.Stuck) +
		" stuck"
	return []templ.Component{
		pair(ui.Text(networkName(s.Chain)), ui.Code(c.conf.Chains[s.Chain].CAIP2)), ui.StateChip(chainChip(s)),
		height, lag,
		whenOrNothing(r, s.AppliedAt, "never"), c.providersOf(s), pair(orders, ui.Text(details)),
	}
}

// providersOf says what the scan waits for from providers.
func (c *console) providersOf(s report.ChainState) templ.Component {
	text := "No transaction waits for a trace"
	if s.Untraced > 0 {
		text = ui.FormatCount(s.Untraced, "transaction") + " waits for a trace"
	}
	findings := "no unexplained balance in 30 days"
	if s.Findings > 0 {
		findings = ui.FormatCount(s.Findings, "unexplained balance") + " in 30 days"
	}
	return pair(ui.Text(text), ui.Text(findings))
}

func chainChip(s report.ChainState) ui.Chip {
	switch {
	case s.ForkedAbove != nil:
		return ui.Chip{Kind: ui.Bad, Word: "Finality broke"}
	case s.IsFrozen:
		return ui.Chip{Kind: ui.Bad, Word: "Frozen"}
	case s.Stuck > 0:
		return ui.Chip{Kind: ui.Bad, Word: "Stuck orders"}
	case s.FinalHeight == nil:
		return ui.Chip{Kind: ui.Wait, Word: "Not scanned yet"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Running"}
}

func (v *chainsView) addToken(r *pages.Request, m report.MintState) {
	token := pair(ui.Foreign(m.Mint.Symbol), ui.Text(networkName(m.Mint.Chain)))
	if m.QuarantinedAt != nil {
		v.Tokens.addRow(token, pair(
			ui.Text("Quarantine: "+ui.FormatCount(m.Waiting, "deposit")+" wait"), ui.Foreign(m.Reason),
		),
			ui.When(r.Moment(*m.QuarantinedAt)))
	}
	for _, funds := range m.Immovable {
		v.Tokens.addRow(token, pair(
			ui.Amount(
				funds.Amount.Decimal(m.Mint.Decimals), m.Mint.Symbol,
			), ui.Foreign("cannot be moved: "+funds.LastError)),
			nothing("not known"))
	}
	for _, o := range m.Stuck {
		v.Tokens.addRow(token, link(r.Path("orders", o.OrderID), "Stuck order "+o.OrderID), nothing("not known"))
	}
}

// breakBlocks says which blocks a break replaced.
func breakBlocks(b finality.Break) templ.Component {
	return pair(
		ui.Text("after "+strconv.FormatUint(b.Ancestor.Height, 10)+" to "+strconv.FormatUint(b.Tip.Height, 10)),
		ui.Text("settled at "+strconv.FormatUint(b.SettleHeight, 10)),
	)
}

// amountOf writes an amount of a mint for people.
func amountOf(mints mint.Catalogue, mintID int, atomic money.Amount) templ.Component {
	if m, ok := mints.ByID(mintID); ok {
		return ui.Amount(atomic.Decimal(m.Decimals), m.Symbol)
	}
	return ui.Amount(atomic.String(), "units")
}
