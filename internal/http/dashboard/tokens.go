package dashboard

import (
	"context"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// tokensPage lists the tokens that programs may name, with the ids and the limits that they need.
func (d *dashboard) tokensPage() pages.Page {
	return pages.Page{
		Path: "/developers/tokens", Title: "Tokens", Action: identity.ReadOrganization,
		Load: d.loadTokens, WriteCSV: d.writeTokens,
	}
}

// tokensView is what the list shows.
type tokensView struct {
	Tabs    []ui.Tab
	CSVPath string
	Rows    []mint.Mint
	Calls   []string
}

func (d *dashboard) listTokens(r *pages.Request) (found []mint.Mint, err error) {
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		found = mints.List(mint.Filter{})
		return err
	})
	return found, err
}

func (d *dashboard) loadTokens(r *pages.Request) (templ.Component, error) {
	found, err := d.listTokens(r)
	if err != nil {
		return nil, err
	}
	return tokenList(tokensView{
		Tabs: developerTabs(r, "Tokens"), CSVPath: r.CSVPath(), Rows: found,
		Calls: []string{d.curl("GET", "/mints", "")},
	}), nil
}

// tokenChip says what the service accepts in a token.
func tokenChip(m mint.Mint) ui.Chip {
	switch {
	case m.Quarantined:
		return ui.Chip{Kind: ui.Bad, Word: "Stopped"}
	case m.DepositEnabled && m.WithdrawEnabled:
		return ui.Chip{Kind: ui.Good, Word: "In use"}
	case m.DepositEnabled:
		return ui.Chip{Kind: ui.Quiet, Word: "Deposits only"}
	case m.WithdrawEnabled:
		return ui.Chip{Kind: ui.Quiet, Word: "Withdrawals only"}
	}
	return ui.Chip{Kind: ui.Quiet, Word: "Switched off"}
}

var tokenColumns = []kernel.Column[mint.Mint]{
	{Name: "id", Cell: func(m mint.Mint) string { return strconv.Itoa(m.ID) }},
	{Name: "symbol", Cell: func(m mint.Mint) string { return m.Symbol }},
	{Name: "name", Cell: func(m mint.Mint) string { return m.Name }},
	{Name: "chain", Cell: func(m mint.Mint) string { return string(m.Chain) }},
	{Name: "contractAddress", Cell: func(m mint.Mint) string { return string(m.Contract) }},
	{Name: "decimals", Cell: func(m mint.Mint) string { return strconv.Itoa(m.Decimals) }},
	{Name: "minDepositAmount", Cell: func(m mint.Mint) string { return m.MinDeposit.String() }},
	{Name: "minWithdrawAmount", Cell: func(m mint.Mint) string { return m.MinWithdraw.String() }},
}

func (d *dashboard) writeTokens(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, tokenColumns,
		func(_ context.Context, _ bool, row func(mint.Mint) error) error {
			found, err := d.listTokens(r)
			for _, m := range found {
				if err == nil {
					err = row(m)
				}
			}
			return err
		})
}
