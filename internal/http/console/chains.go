package console

import (
	"context"
	"net/url"
	"strconv"
	"time"

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
	Providers              table
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
			{Title: "Waits for providers"},
			{Title: "Open orders", IsNumber: true},
		}},
		Providers: table{Caption: "Providers", Columns: []column{
			{Title: "Provider"},
			{Title: "State"},
			{Title: "Newest block", IsNumber: true},
			{Title: "Behind", IsNumber: true},
			{Title: "Final block", IsNumber: true},
			{Title: "Last answer"},
			{Title: "Last failure"},
		}},
		Breaks: table{Caption: "Breaks of finality", Columns: textColumns("Chain", "Blocks", "Reason", "When")},
		Tokens: table{Caption: "Tokens with a problem", Columns: textColumns("Token", "Problem", "Since")},
	}
	for _, name := range names {
		view.addProviders(r, name, c.conf.Chains[name].Providers)
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

// contradictionShown is how long a provider that contradicted the others is shown as such.
const contradictionShown = 24 * time.Hour

// addProviders adds what this process has seen of the providers of a chain. Their names are their hosts: a URL
// may have a key in it. Rule PAGE-70.
func (v *chainsView) addProviders(r *pages.Request, name chain.Name, list func() []chain.ProviderState) {
	if list == nil {
		return
	}
	states := list()
	newest := uint64(0)
	for _, s := range states {
		newest = max(newest, s.Latest)
	}
	for _, s := range states {
		latest, lag, final := nothing("not asked here"), nothing("not known"), nothing("not asked here")
		if !s.HeadsAt.IsZero() {
			latest = pair(ui.Text(ui.GroupDigits(formatInt(s.Latest))), ui.When(r.Moment(s.HeadsAt)))
			lag = ui.Text(ui.GroupDigits(formatInt(newest - s.Latest)))
			final = ui.Text(ui.GroupDigits(formatInt(s.Final)))
		}
		failure := nothing("none")
		if !s.FailedAt.IsZero() {
			failure = pair(ui.Foreign(s.Failure), ui.When(r.Moment(s.FailedAt)))
		}
		v.Providers.addRow(
			pair(ui.Foreign(s.Name), ui.Text(networkName(name))), providerState(r, s), latest, lag, final,
			momentOrNothing(r, s.AnsweredAt, "never"), failure,
		)
	}
}

// failuresMax is the number of failures in a row from which on a provider counts as silent.
const failuresMax = 3

// providerState says how a provider does, and until when it is left alone.
func providerState(r *pages.Request, s chain.ProviderState) templ.Component {
	switch {
	case s.ContradictedAt.After(r.Now.Add(-contradictionShown)):
		return pair(ui.StateChip(ui.Chip{Kind: ui.Bad, Word: "Contradicts the others"}),
			ui.When(r.Moment(s.ContradictedAt)))
	case s.PausedUntil.After(r.Now):
		return pair(ui.StateChip(ui.Chip{Kind: ui.Wait, Word: "Left alone: it asked for a pause"}),
			join(ui.Text("until "), ui.When(r.Moment(s.PausedUntil))))
	case s.Failures >= failuresMax:
		return pair(ui.StateChip(ui.Chip{Kind: ui.Bad, Word: "Does not answer"}),
			ui.Text(ui.FormatCount(s.Failures, "failure")+" in a row"))
	case s.Failures > 0:
		return ui.StateChip(ui.Chip{Kind: ui.Wait, Word: "Failed last"})
	case !s.IsIdentified:
		return ui.StateChip(ui.Chip{Kind: ui.Quiet, Word: "Not asked yet"})
	}
	return ui.StateChip(ui.Chip{Kind: ui.Good, Word: "Answers"})
}

// momentOrNothing shows a time, of which zero means never.
func momentOrNothing(r *pages.Request, moment time.Time, absent string) templ.Component {
	if moment.IsZero() {
		return nothing(absent)
	}
	return ui.When(r.Moment(moment))
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
