package console

import (
	"context"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/webhook"
)

// webhooksPage shows how the deliveries of all organizations go. Organizations manage their endpoints
// themselves, so it has no act.
func (c *console) webhooksPage() pages.Page {
	return pages.Page{
		Path: "/webhooks", Title: "Webhooks", Action: identity.ReadInstallation, Group: systemGroup, Icon: "arrow",
		Live: []string{"WEBHOOK_ENDPOINT"}, Load: c.loadWebhooks, WriteCSV: c.writeWebhooks,
	}
}

func (c *console) listEndpoints(r *pages.Request) (found []delivery.EndpointHealth, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = delivery.ListHealth(ctx, tx, rowsMax)
		return err
	})
	return found, err
}

func (c *console) loadWebhooks(r *pages.Request) (templ.Component, error) {
	found, err := c.listEndpoints(r)
	if err != nil {
		return nil, err
	}
	view := listView{CSVPath: r.CSVPath(), Table: table{Caption: "Webhooks", Columns: []column{
		{Title: "State"},
		{Title: "Organization"},
		{Title: "URL"},
		{Title: "Failing since"},
		{Title: "Waiting", IsNumber: true},
		{Title: "Oldest that waits"},
	}}}
	for _, h := range found {
		view.Table.addRow(ui.StateChip(endpointChip(h)), link(
			r.Path("organizations", h.OrgID), ui.EscapeForeign(h.OrgName),
		),
			pair(ui.Foreign(h.URL), ui.Code(h.EndpointID)), whenOrNothing(r, h.FailingSince, "not failing"),
			ui.Text(ui.GroupDigits(strconv.Itoa(h.Pending))), whenOrNothing(r, h.OldestPendingAt, "none"))
	}
	return webhooksOverview(view), nil
}

// endpointChip writes the state of an endpoint for people.
func endpointChip(h delivery.EndpointHealth) ui.Chip {
	switch h.Status {
	case delivery.DisabledByFailure:
		return ui.Chip{Kind: ui.Bad, Word: "Disabled: failed for days"}
	case delivery.DisabledGone:
		return ui.Chip{Kind: ui.Bad, Word: "Disabled: gone"}
	case delivery.Paused:
		return ui.Chip{Kind: ui.Quiet, Word: "Paused"}
	case delivery.Enabled:
		if h.FailingSince != nil {
			return ui.Chip{Kind: ui.Wait, Word: "Failing"}
		}
		return ui.Chip{Kind: ui.Good, Word: "Working"}
	}
	return ui.Chip{}
}

var endpointColumns = []kernel.Column[delivery.EndpointHealth]{
	{Name: "organizationId", Cell: func(h delivery.EndpointHealth) string { return h.OrgID }},
	{Name: "endpointId", Cell: func(h delivery.EndpointHealth) string { return h.EndpointID }},
	{Name: "url", Cell: func(h delivery.EndpointHealth) string { return h.URL }},
	{Name: "status", Cell: func(h delivery.EndpointHealth) string { return h.Status }},
	{Name: "failingSince", Cell: func(h delivery.EndpointHealth) string {
		if h.FailingSince == nil {
			return ""
		}
		return webhook.At(*h.FailingSince).String()
	}},
	{Name: "pending", Cell: func(h delivery.EndpointHealth) string { return strconv.Itoa(h.Pending) }},
}

func (c *console) writeWebhooks(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, false, endpointColumns,
		func(_ context.Context, _ bool, row func(delivery.EndpointHealth) error) error {
			found, err := c.listEndpoints(r)
			if err != nil {
				return err
			}
			for _, h := range found {
				if err := row(h); err != nil {
					return err
				}
			}
			return nil
		})
}
