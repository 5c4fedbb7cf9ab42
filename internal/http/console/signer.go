package console

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// signerPage shows what this database knows of the signer: its journal, the orders that wait for it, and
// what it signed of the audit log. The signer's policy is at its own host, where the server cannot change it.
func (c *console) signerPage() pages.Page {
	return pages.Page{
		Path: "/signer", Title: "Signer", Action: identity.ReadInstallation, Group: systemGroup, Icon: "shield",
		Load: c.loadSigner,
	}
}

// signerView is what the page shows.
type signerView struct {
	Journal, Anchor []ui.Fact
	Waiting         int
	OrdersPath      string
}

func (c *console) loadSigner(r *pages.Request) (templ.Component, error) {
	var mirror journal.Mirror
	var state audit.State
	var found []report.Attention
	err := c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if mirror, err = journal.LoadMirror(ctx, tx); err != nil {
			return err
		}
		if state, err = audit.LoadState(ctx, tx); err != nil {
			return err
		}
		found, err = report.ListAttention(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := signerView{OrdersPath: r.Path("orders") + "?status=QUEUED"}
	for _, a := range found {
		if a.Cause == report.SignerWaits {
			view.Waiting = a.Count
		}
	}
	view.Journal = []ui.Fact{
		{Name: "Journal", Value: codeOrNothing(mirror.JournalID, "none yet")},
		{Name: "Entries copied", Value: ui.Text(ui.GroupDigits(formatInt(mirror.ImportedSeq)))},
		{Name: "Last entry copied", Value: whenOrNothing(r, mirror.LastStoredAt, "never")},
	}
	view.Anchor = []ui.Fact{
		{Name: "Anchors", Value: ui.Text(ui.GroupDigits(formatInt(int64(state.LastAnchor.Number))))},
		{Name: "Signed up to row", Value: ui.Text(ui.GroupDigits(formatInt(state.LastAnchor.Position)))},
		{Name: "End of the log", Value: ui.Text(ui.GroupDigits(formatInt(state.End.Position)))},
	}
	return signerOverview(view), nil
}
