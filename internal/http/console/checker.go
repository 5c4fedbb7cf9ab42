package console

import (
	"context"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// checkerLate is how long ago the last check may be; the alert CofferBooksUnchecked has the same bound.
const checkerLate = 30 * time.Minute

// checkerPage shows when the books were last compared with the chains, and what differed.
func (c *console) checkerPage() pages.Page {
	return pages.Page{
		Path: "/checker", Title: "Checker", Action: identity.ReadInstallation, Group: controlGroup, Icon: "good",
		Shortcut: "k", Live: []string{"FREEZE"}, Load: c.loadChecker,
	}
}

// checkerView is what the page shows.
type checkerView struct {
	Chip     ui.Chip
	LastRun  templ.Component
	Breaches table
}

func (c *console) loadChecker(r *pages.Request) (templ.Component, error) {
	var last *time.Time
	var active []freeze.Freeze
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if last, err = jobs.LastCompleted(ctx, tx, "verify"); err != nil {
			return err
		}
		isActive := true
		found, err := freeze.ListPage(ctx, tx, freeze.Filter{Source: freeze.SourceVerify, IsActive: &isActive},
			pagination.Page{Limit: rowsMax})
		active = found.Items
		return err
	})
	if err != nil {
		return nil, err
	}
	view := checkerView{
		Chip:    ui.Chip{Kind: ui.Good, Word: "The books and the chains agree"},
		LastRun: whenOrNothing(r, last, "not yet"),
		Breaches: table{Caption: "Freezes of the checker", Columns: append(textColumns("What differs", "Since"),
			column{Title: "Open", IsUnseen: true})},
	}
	for _, f := range active {
		view.Breaches.addRow(ui.Foreign(f.Reason), ui.When(r.Moment(f.CreatedAt)),
			openLink(r.Path("freezes", f.ID), "Open", "the freeze "+f.ID))
	}
	switch {
	case len(view.Breaches.Rows) > 0:
		view.Chip = ui.Chip{Kind: ui.Bad, Word: "The books and a chain differ"}
	case last == nil:
		view.Chip = ui.Chip{Kind: ui.Wait, Word: "Not checked yet"}
	case r.Now.Sub(*last) > checkerLate:
		view.Chip = ui.Chip{Kind: ui.Bad, Word: "Not checked for half an hour"}
	}
	return checkerOverview(view), nil
}
