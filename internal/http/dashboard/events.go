package dashboard

import (
	"context"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// eventsPage is the feed of events, the newest first.
func (d *dashboard) eventsPage() pages.Page {
	return pages.Page{
		Path: "/developers/events", Title: "Events", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{
			{Name: "type", Kind: kernel.WordParameter, Enum: typeNames()}, pages.CursorParameter,
		},
		Load: d.loadEvents, WriteCSV: d.writeEvents,
	}
}

// eventPage shows one event and sends it again.
func (d *dashboard) eventPage() pages.Page {
	return pages.Page{
		Path: "/developers/events/{eventId}", Title: "Event", Action: identity.ReadOrganization, Load: d.loadEvent,
		// Without the parameter endpointId it is sent to every endpoint that receives it.
		Acts: []pages.Act{{Name: resendAct, Action: identity.ResendEvents, Run: d.resendEvent}},
	}
}

// eventRow is an event in the feed.
type eventRow struct {
	Path, Sequence, ID, Type string
	Resource, Customer       string
	Happened                 ui.Moment
}

// eventsView is what the feed shows.
type eventsView struct {
	Tabs                []ui.Tab
	Rows                []eventRow
	Path, CSVPath       string
	FirstPath, NextPath string
	Filter              ui.Form
	Types               optionInput
	IsFiltered          bool
	Calls               []string
}

// listEvents returns a page of the feed. Its cursor is the number of the last event of the page before.
func listEvents(
	ctx context.Context, tx pg.Tx, orgID string, t event.Type, p pagination.Page,
) (found pagination.Result[event.Recorded], err error) {
	belowSeq := int64(0)
	if p.Cursor != nil {
		if belowSeq, err = strconv.ParseInt(p.Cursor.ID, 10, 64); err != nil {
			return found, err
		}
	}
	items, hasMore, err := event.ListRecent(ctx, tx, orgID, belowSeq, t, p.Limit)
	if err != nil {
		return found, err
	}
	found.Items = items
	if hasMore {
		last := items[len(items)-1]
		found.NextCursor = &pagination.Cursor{CreatedAt: last.CreatedAt, ID: strconv.FormatInt(last.Sequence, 10)}
	}
	return found, nil
}

func (d *dashboard) loadEvents(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	t := event.Type(r.Query["type"])
	view := eventsView{
		Tabs: developerTabs(r, "Events"), Path: r.Path("developers", "events"), CSVPath: r.CSVPath(),
		Filter:     ui.Form{Act: filterAct, Typed: r.Query},
		Types:      optionInput{Act: filterAct, Name: "type", Label: "Event", Options: typeOptions()},
		IsFiltered: t != "", Calls: []string{d.curl("GET", "/events?after=0&limit=50", "")},
	}
	var found pagination.Result[event.Recorded]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = listEvents(ctx, tx, r.Session.OrgID, t, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range found.Items {
		view.Rows = append(view.Rows, eventRow{
			Path: r.Path("developers", "events", e.ID), Sequence: strconv.FormatInt(e.Sequence, 10), ID: e.ID,
			Type: string(e.Type), Resource: e.ResourceID, Customer: e.CustomerID, Happened: r.Moment(e.CreatedAt),
		})
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return eventFeed(view), nil
}

var eventColumns = []kernel.Column[event.Recorded]{
	{Name: "sequence", Cell: func(e event.Recorded) string { return strconv.FormatInt(e.Sequence, 10) }},
	{Name: "id", Cell: func(e event.Recorded) string { return e.ID }},
	{Name: "type", Cell: func(e event.Recorded) string { return string(e.Type) }},
	{Name: "timestamp", Cell: func(e event.Recorded) string { return webhook.At(e.CreatedAt).String() }},
	{Name: "resourceId", Cell: func(e event.Recorded) string { return e.ResourceID }},
	{Name: "customerId", Cell: func(e event.Recorded) string { return e.CustomerID }},
	{Name: "chain", Cell: func(e event.Recorded) string { return e.Chain }},
}

func (d *dashboard) writeEvents(r *pages.Request, w *kernel.StreamWriter) error {
	t := event.Type(r.Query["type"])
	return kernel.WriteTable(r.Context(), w, true, eventColumns, eachListed(d.conf.DB, r.Session.OrgID,
		func(
			ctx context.Context, tx pg.Tx, org string, p pagination.Page,
		) (pagination.Result[event.Recorded], error) {
			return listEvents(ctx, tx, org, t, p)
		}))
}

// eventView is what the page of an event shows.
type eventView struct {
	BackPath, Path   string
	ID, Type         string
	Facts            []ui.Fact
	Body             string // escaped
	HasBody          bool
	CanResend        bool
	Form             ui.Form
	Webhooks         []endpointRow // with the path of the event's delivery
	Calls            []string
	IsWithoutWebhook bool
}

func (d *dashboard) loadEvent(r *pages.Request) (templ.Component, error) {
	var e event.Recorded
	var endpoints pagination.Result[delivery.Endpoint]
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if e, err = event.LoadRecorded(ctx, tx, r.Session.OrgID, r.PathParam("eventId")); err != nil {
			return err
		}
		endpoints, err = d.conf.Endpoints.List(ctx, tx, r.Session.OrgID, pagination.Page{Limit: pagination.LimitMax})
		return err
	})
	if err != nil {
		return nil, err
	}
	view := eventView{
		BackPath: r.Path("developers", "events"), Path: r.Path("developers", "events", e.ID), ID: e.ID,
		Type: string(e.Type), HasBody: e.Body != nil, Body: escapeLines(string(e.Body)), Form: r.Form,
		CanResend: r.IsAllowed(identity.ResendEvents) && e.Body != nil, IsWithoutWebhook: len(endpoints.Items) == 0,
		Calls: []string{d.curl("POST", "/events/"+e.ID+"/resend", "{}")},
		Facts: []ui.Fact{
			{Name: "Happened", Value: ui.When(r.Moment(e.CreatedAt))},
			{Name: "Resource", Value: ui.Code(e.ResourceID)},
			{Name: "Customer", Value: foreignOr(e.CustomerID, "none")},
		},
	}
	number := "not numbered yet"
	if e.Sequence > 0 {
		number = strconv.FormatInt(e.Sequence, 10)
		after := strconv.FormatInt(e.Sequence-1, 10)
		view.Calls = append(view.Calls, d.curl("GET", "/events?after="+after+"&limit=1", ""))
	}
	view.Facts = append(view.Facts, ui.Fact{Name: "Number", Value: ui.Text(number)})
	for _, endpoint := range endpoints.Items {
		view.Webhooks = append(view.Webhooks, endpointRow{
			Path: r.Path("developers", "webhooks", endpoint.ID, "deliveries") + "?eventId=" + e.ID, ID: endpoint.ID,
			URL: endpoint.URL,
		})
	}
	return eventDetail(view), nil
}
