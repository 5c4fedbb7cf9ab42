package console

import (
	"context"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// auditPage shows the audit log of all organizations and its seal.
func (c *console) auditPage() pages.Page {
	return pages.Page{
		Path: "/audit", Title: "Audit log", Action: identity.ReadInstallation, Group: controlGroup, Icon: "history",
		Shortcut: "a", Query: []kernel.Parameter{textFilter("resourceId"), beforeParameter},
		Load: c.loadAudit, WriteCSV: c.writeAudit,
	}
}

func (c *console) listAudit(r *pages.Request, beforeID int64, limit int) (found []audit.Row, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = audit.ListNewest(ctx, tx, r.Query["resourceId"], beforeID, limit)
		return err
	})
	return found, err
}

// auditView is what the page shows.
type auditView struct {
	List listView
	Seal []ui.Fact
}

func (c *console) loadAudit(r *pages.Request) (templ.Component, error) {
	found, err := c.listAudit(r, beforeOf(r), numberedRows+1)
	if err != nil {
		return nil, err
	}
	var names holders
	var state audit.State
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if names, err = loadHolders(ctx, tx); err != nil {
			return err
		}
		state, err = audit.LoadState(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := auditView{
		List: listView{
			Path: r.Path("audit"), CSVPath: r.CSVPath(),
			Filters: filtersOf(r, filter{Name: "resourceId", Label: "Id of a thing"}),
			Table: table{
				Caption: "Audit log", Columns: textColumns("Row", "When", "Who", "What", "About", "Details"),
			},
		},
		Seal: []ui.Fact{
			{Name: "Sealed up to position", Value: ui.Text(ui.GroupDigits(formatInt(state.End.Position)))},
			{Name: "Hash of the end", Value: ui.Code(state.End.Hash.String())},
			{Name: "Oldest row without a seal", Value: whenOrNothing(r, state.OldestUnsealedAt, "none")},
			{Name: "Signed by the signer up to", Value: ui.Text(ui.GroupDigits(formatInt(state.LastAnchor.Position)))},
		},
	}
	shown := found[:min(len(found), numberedRows)]
	for _, row := range shown {
		view.List.Table.addRow(ui.Code(formatInt(row.ID)), ui.When(
			r.Moment(row.RecordedAt),
		), ui.Foreign(names.nameOf(row.Actor)),
			ui.Code(row.Action), pair(ui.Text(wordOf(row.ResourceKind)), ui.Code(ui.EscapeForeign(row.ResourceID))),
			foreignOrNothing(string(row.Detail), "none"))
	}
	if len(shown) > 0 {
		view.List.FirstPath, view.List.NextPath = numberedPaths(r, shown[len(shown)-1].ID, len(found) > len(shown))
	}
	return auditOverview(view), nil
}

func formatInt[N ~int | ~int64 | ~uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

var auditColumns = []kernel.Column[audit.Row]{
	{Name: "row", Cell: func(r audit.Row) string { return formatInt(r.ID) }},
	{Name: "at", Cell: func(r audit.Row) string { return webhook.At(r.RecordedAt).String() }},
	{Name: "organizationId", Cell: func(r audit.Row) string { return r.OrgID }},
	{Name: "actorType", Cell: func(r audit.Row) string { return r.Actor.Kind }},
	{Name: "actorId", Cell: func(r audit.Row) string { return r.Actor.ID }},
	{Name: "action", Cell: func(r audit.Row) string { return r.Action }},
	{Name: "resourceKind", Cell: func(r audit.Row) string { return r.ResourceKind }},
	{Name: "resourceId", Cell: func(r audit.Row) string { return r.ResourceID }},
	{Name: "detail", Cell: func(r audit.Row) string { return string(r.Detail) }},
}

// auditBatch is the number of rows that are read at a time for a table.
const auditBatch = 1000

func (c *console) writeAudit(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, auditColumns,
		func(_ context.Context, _ bool, row func(audit.Row) error) error {
			for beforeID := int64(0); ; {
				found, err := c.listAudit(r, beforeID, auditBatch)
				if err != nil {
					return err
				}
				for _, item := range found {
					if err := row(item); err != nil {
						return err
					}
					beforeID = item.ID
				}
				if len(found) < auditBatch {
					return nil
				}
			}
		})
}
