package console

import (
	"context"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

const (
	// alertPeriod is how far back the page shows senders that were found risky.
	alertPeriod = 7 * 24 * time.Hour
	// priceWait is how long the page waits for all prices.
	priceWait = 3 * time.Second
)

// screeningPage shows the age of risk lists and prices, and what screening found later.
func (c *console) screeningPage() pages.Page {
	return pages.Page{
		Path: "/screening", Title: "Risk lists and prices", Action: identity.ReadInstallation, Group: controlGroup,
		Icon: "info", Shortcut: "p", Live: []string{"SENDER", "SANCTIONS_LIST", "ADDRESS"}, Load: c.loadScreening,
	}
}

// screeningView is what the page shows.
type screeningView struct {
	ListChip       *ui.Chip
	ListFacts      []ui.Fact
	ListText       string // why no list is shown
	Prices, Alerts table
}

func (c *console) loadScreening(r *pages.Request) (templ.Component, error) {
	view := screeningView{
		Prices: table{Caption: "Prices", Columns: []column{
			{Title: "Token"}, {Title: "Price", IsNumber: true}, {Title: "State"}, {Title: "Source"}, {Title: "Quoted"},
		}},
		Alerts: table{
			Caption: "Senders found risky later", Columns: textColumns("Sender", "Organization", "Severity", "Found"),
		},
	}
	var mints mint.Catalogue
	var alerts []deposit.SenderAlert
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		alerts, err = deposit.ListSenderAlerts(ctx, tx, tx.Now.Add(-alertPeriod))
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	for _, a := range alerts {
		view.Alerts.addRow(ui.Address(a.Address), link(r.Path("organizations", a.OrgID), names.nameOf(a.OrgID)),
			pair(
				ui.Text(wordOf(a.Severity)+", above "+wordOf(a.Threshold)),
				ui.Text(ui.FormatCount(a.Deposits, "credited deposit")),
			),
			ui.When(r.Moment(a.FoundAt)))
	}
	c.addList(r, &view)
	c.addPrices(r, &view, mints)
	return screeningOverview(view), nil
}

// addList shows the newest list of sanctions and whether it is still used.
func (c *console) addList(r *pages.Request, view *screeningView) {
	if c.conf.LoadSanctions == nil {
		view.ListText = "Screening uses no list of sanctions that is imported here."
		return
	}
	list, err := c.conf.LoadSanctions(r.Context())
	if err != nil {
		view.ListText = "The list could not be read. The log has the reason."
		c.log().WarnContext(r.Context(), "cannot read the sanctions list for a page", "error", err)
		return
	}
	if list.ID == "" {
		view.ListText = "No list was imported yet. Import it at the terminal: coffer risk import."
		return
	}
	chip := ui.Chip{Kind: ui.Good, Word: "Recent"}
	if r.Now.Sub(list.PublishedAt) > list.MaxAge {
		chip = ui.Chip{Kind: ui.Bad, Word: "Too old, screening waits"}
	}
	view.ListChip = &chip
	view.ListFacts = []ui.Fact{
		{Name: "Published", Value: ui.When(r.Moment(list.PublishedAt))},
		{Name: "Imported", Value: ui.When(r.Moment(list.ImportedAt))},
		{Name: "List", Value: ui.Code(list.ID)},
	}
}

// addPrices shows the price of each token, or why there is none.
func (c *console) addPrices(r *pages.Request, view *screeningView, mints mint.Catalogue) {
	if c.conf.Prices == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), priceWait)
	defer cancel()
	for _, m := range mints.List(mint.Filter{}) {
		token := pair(ui.Foreign(m.Symbol), ui.Text(networkName(m.Chain)))
		quote, err := c.conf.Prices.USD(ctx, m.ID)
		if err != nil {
			view.Prices.addRow(token, nothing("no price"), ui.StateChip(
				ui.Chip{Kind: ui.Wait, Word: "Missing"},
			), nothing("none"),
				nothing("never"))
			continue
		}
		chip := ui.Chip{Kind: ui.Good, Word: "Recent"}
		if price.CheckFresh(quote, r.Now, c.conf.PriceAge(m.ID)) != nil {
			chip = ui.Chip{Kind: ui.Bad, Word: "Too old"}
		}
		view.Prices.addRow(token, ui.Amount(quote.Price.String(), "USD"), ui.StateChip(chip), ui.Foreign(quote.Source),
			ui.When(r.Moment(quote.QuotedAt)))
	}
}
