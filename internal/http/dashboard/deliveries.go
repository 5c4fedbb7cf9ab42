package dashboard

import (
	"context"
	"strconv"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// resendAct is the name of the act that sends an event again.
const resendAct = "resend"

// deliveriesPage is the log of the attempts to reach an endpoint.
func (d *dashboard) deliveriesPage() pages.Page {
	return pages.Page{
		Path: "/developers/webhooks/{endpointId}/deliveries", Title: "Deliveries", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{
			{Name: "status", Kind: kernel.WordParameter, Enum: []string{delivery.Delivered, delivery.Failed}},
			{Name: "type", Kind: kernel.WordParameter, Enum: typeNames()},
			{Name: "eventId", Kind: kernel.TextParameter, Max: wordBytesMax},
			pages.CursorParameter,
		},
		Load: d.loadDeliveries, WriteCSV: d.writeAttempts,
	}
}

// deliveryPage shows every attempt to deliver one event to one endpoint, with request and answer.
func (d *dashboard) deliveryPage() pages.Page {
	return pages.Page{
		Path: "/developers/webhooks/{endpointId}/deliveries/{eventId}", Title: "Delivery",
		Action: identity.ReadOrganization, Load: d.loadDelivery,
		Acts: []pages.Act{{Name: resendAct, Action: identity.ResendEvents, Run: d.resendEvent}},
	}
}

// jobPage shows how far events that are sent again have come.
func (d *dashboard) jobPage() pages.Page {
	return pages.Page{
		Path: "/developers/jobs/{jobId}", Title: "Events sent again", Action: identity.ReadOrganization,
		Load: d.loadJob,
	}
}

func typeNames() (names []string) {
	for _, t := range event.AllTypes() {
		names = append(names, string(t))
	}
	return names
}

// attemptRow is an attempt in a list.
type attemptRow struct {
	Path, EventID, Type string
	Outcome             ui.Chip
	Answer, Took        string
	Number              string
	IsSample            bool
	Sent                ui.Moment
}

func newAttemptRow(r *pages.Request, endpointID string, attempt delivery.Attempt) attemptRow {
	return attemptRow{
		Path:    r.Path("developers", "webhooks", endpointID, "deliveries", attempt.EventID),
		EventID: attempt.EventID, Type: string(attempt.Type), Outcome: outcomeChip(attempt.Outcome()),
		Answer: answerText(attempt), Took: formatSeconds(attempt.Duration), Number: strconv.Itoa(attempt.Number),
		IsSample: attempt.Test, Sent: r.Moment(attempt.SentAt),
	}
}

// answerText says what came back.
func answerText(attempt delivery.Attempt) string {
	if attempt.Status == 0 {
		return "no answer"
	}
	return "answer " + strconv.Itoa(attempt.Status)
}

// outcomeChip writes the outcome of an attempt for people.
func outcomeChip(outcome string) ui.Chip {
	if outcome == delivery.Delivered {
		return ui.Chip{Kind: ui.Good, Word: "Delivered"}
	}
	return ui.Chip{Kind: ui.Bad, Word: "Failed"}
}

// deliveryStateText writes the state of a delivery for people.
func deliveryStateText(state string) string {
	switch state {
	case "PENDING":
		return "Waits for the next attempt"
	case delivery.Delivered:
		return "Delivered"
	case delivery.Failed:
		return "Failed after the whole schedule"
	case "CANCELLED":
		return "Cancelled with its webhook"
	}
	return state
}

// deliveriesView is what the log shows.
type deliveriesView struct {
	BackPath, Path, CSVPath string
	URL                     string
	Rows                    []attemptRow
	FirstPath, NextPath     string
	Filter                  ui.Form
	Status, Types           optionInput
	IsFiltered              bool
	Calls                   []string
}

// filterAct is the name under which the fields of a filter have their ids.
const filterAct = "filter"

func readAttemptFilter(r *pages.Request) delivery.AttemptFilter {
	return delivery.AttemptFilter{
		Outcome: r.Query["status"], EventID: r.Query["eventId"], Type: event.Type(r.Query["type"]),
	}
}

func (d *dashboard) loadDeliveries(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	endpointID := r.PathParam("endpointId")
	var e delivery.Endpoint
	var found pagination.Result[delivery.Attempt]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if e, err = d.conf.Endpoints.ByID(ctx, tx, r.Session.OrgID, endpointID); err != nil {
			return err
		}
		found, err = d.conf.Endpoints.Log(ctx, tx, r.Session.OrgID, endpointID, readAttemptFilter(r), p)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := deliveriesView{
		BackPath: r.Path("developers", "webhooks", e.ID), CSVPath: r.CSVPath(), URL: e.URL,
		Path:   r.Path("developers", "webhooks", e.ID, "deliveries"),
		Filter: ui.Form{Act: filterAct, Typed: r.Query},
		Status: optionInput{Act: filterAct, Name: "status", Label: "Outcome", Options: []option{
			{"", "all"}, {delivery.Delivered, "delivered"}, {delivery.Failed, "failed"},
		}},
		Types:      optionInput{Act: filterAct, Name: "type", Label: "Event", Options: typeOptions()},
		IsFiltered: r.Query["status"] != "" || r.Query["type"] != "" || r.Query["eventId"] != "",
		Calls:      []string{d.curl("GET", "/webhook-endpoints/"+e.ID+"/deliveries?status=FAILED", "")},
	}
	for _, attempt := range found.Items {
		view.Rows = append(view.Rows, newAttemptRow(r, e.ID, attempt))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return deliveryLog(view), nil
}

// typeOptions are the types of events for a filter.
func typeOptions() []option {
	options := []option{{"", "all"}}
	for _, t := range event.AllTypes() {
		options = append(options, option{string(t), string(t)})
	}
	return options
}

var attemptColumns = []kernel.Column[delivery.Attempt]{
	{Name: "eventId", Cell: func(a delivery.Attempt) string { return a.EventID }},
	{Name: "type", Cell: func(a delivery.Attempt) string { return string(a.Type) }},
	{Name: "test", Cell: func(a delivery.Attempt) string { return strconv.FormatBool(a.Test) }},
	{Name: "attempt", Cell: func(a delivery.Attempt) string { return strconv.Itoa(a.Number) }},
	{Name: "status", Cell: func(a delivery.Attempt) string { return a.Outcome() }},
	{Name: "deliveryStatus", Cell: func(a delivery.Attempt) string { return a.Delivery }},
	{Name: "nextAttemptAt", Cell: func(a delivery.Attempt) string { return timeOrEmpty(a.NextAt) }},
	{Name: "url", Cell: func(a delivery.Attempt) string { return a.URL }},
	{Name: "statusCode", Cell: func(a delivery.Attempt) string {
		if a.Status == 0 {
			return ""
		}
		return strconv.Itoa(a.Status)
	}},
	{Name: "error", Cell: func(a delivery.Attempt) string { return a.Error }},
	{Name: "durationMs", Cell: func(a delivery.Attempt) string {
		return strconv.FormatInt(a.Duration.Milliseconds(), 10)
	}},
	{Name: "createdAt", Cell: func(a delivery.Attempt) string { return webhook.At(a.SentAt).String() }},
}

func (d *dashboard) writeAttempts(r *pages.Request, w *kernel.StreamWriter) error {
	endpointID, filter := r.PathParam("endpointId"), readAttemptFilter(r)
	return kernel.WriteTable(r.Context(), w, true, attemptColumns, eachListed(d.conf.DB, r.Session.OrgID,
		func(
			ctx context.Context, tx pg.Tx, org string, p pagination.Page,
		) (pagination.Result[delivery.Attempt], error) {
			return d.conf.Endpoints.Log(ctx, tx, org, endpointID, filter, p)
		}))
}

// attemptView is an attempt with its request and its answer.
type attemptView struct {
	Row             attemptRow
	Facts           []ui.Fact
	Headers         []ui.Fact
	Body, Response  string // whole and escaped
	HasBody, IsOpen bool
	HasAnswer       bool
}

// deliveryView is what the page of a delivery shows.
type deliveryView struct {
	BackPath, Path, EventPath string
	EventID, Type, URL        string
	Chip                      ui.Chip
	State                     string
	IsSample                  bool
	Attempts                  []attemptView
	CanResend                 bool
	Form                      ui.Form
	Calls                     []string
}

// attemptsShown is how many attempts the page of a delivery shows: more than a schedule has.
const attemptsShown = 50

func (d *dashboard) loadDelivery(r *pages.Request) (templ.Component, error) {
	endpointID, eventID := r.PathParam("endpointId"), r.PathParam("eventId")
	var e delivery.Endpoint
	var found pagination.Result[delivery.Attempt]
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = d.conf.Endpoints.ByID(ctx, tx, r.Session.OrgID, endpointID)
		if err != nil || !id.IsValid("evt", eventID) {
			return err
		}
		found, err = d.conf.Endpoints.Log(
			ctx, tx, r.Session.OrgID, endpointID, delivery.AttemptFilter{EventID: eventID},
			pagination.Page{Desc: true, Limit: attemptsShown},
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly,
			"No attempt to deliver this event to this webhook is on record.").WithStep(fault.ListEndpoints)
	}
	last := found.Items[0]
	view := deliveryView{
		BackPath: r.Path("developers", "webhooks", e.ID, "deliveries"), URL: e.URL,
		Path:      r.Path("developers", "webhooks", e.ID, "deliveries", last.EventID),
		EventPath: r.Path("developers", "events", last.EventID), EventID: last.EventID, Type: string(last.Type),
		Chip: outcomeChip(last.Outcome()), State: deliveryStateText(last.Delivery), IsSample: last.Test, Form: r.Form,
		CanResend: r.IsAllowed(identity.ResendEvents) && !last.Test &&
			(e.Status == delivery.Enabled || e.Status == delivery.Paused),
		Calls: []string{d.curl("GET", "/webhook-endpoints/"+e.ID+"/deliveries?eventId="+last.EventID, "")},
	}
	if !last.Test {
		view.Calls = append(view.Calls,
			d.curl("POST", "/events/"+last.EventID+"/resend", `{"endpointId":"`+e.ID+`"}`))
	}
	for i, attempt := range found.Items {
		view.Attempts = append(view.Attempts, newAttemptView(r, e.ID, attempt, i == 0))
	}
	return deliveryDetail(view), nil
}

func newAttemptView(r *pages.Request, endpointID string, attempt delivery.Attempt, isLast bool) attemptView {
	view := attemptView{
		Row: newAttemptRow(r, endpointID, attempt), HasBody: attempt.Body != nil, IsOpen: isLast,
		HasAnswer: attempt.Status != 0,
	}
	view.Body, view.Response = escapeLines(string(attempt.Body)), escapeLines(attempt.Response)
	view.Facts = append(view.Facts,
		ui.Fact{Name: "Sent", Value: ui.When(r.Moment(attempt.SentAt))},
		ui.Fact{Name: "To", Value: ui.Foreign(attempt.URL)},
		ui.Fact{Name: "Took", Value: ui.Text(formatSeconds(attempt.Duration))},
	)
	if attempt.Error != "" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Why it failed", Value: ui.Foreign(attempt.Error)})
	}
	if attempt.NextAt != nil {
		view.Facts = append(view.Facts, ui.Fact{Name: "Next attempt", Value: ui.When(r.Moment(*attempt.NextAt))})
	}
	for _, name := range kernel.SortedKeys(attempt.Headers) {
		view.Headers = append(view.Headers, ui.Fact{Name: name, Value: ui.Foreign(attempt.Headers[name])})
	}
	return view
}

// escapeLines escapes a text of a stranger and keeps the ends of its lines. Rule PAGE-4.
func escapeLines(text string) string {
	var out []byte
	start := 0
	for i := range len(text) {
		if text[i] == '\n' {
			out = append(out, ui.EscapeForeign(text[start:i])...)
			out = append(out, '\n')
			start = i + 1
		}
	}
	return string(append(out, ui.EscapeForeign(text[start:])...))
}

func (d *dashboard) resendEvent(r *pages.Request) (string, error) {
	var job delivery.Job
	err := d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		job, err = d.conf.Endpoints.Resend(
			ctx, tx, r.Session.OrgID, actor(r), r.PathParam("eventId"), r.PathParam("endpointId"),
		)
		return err
	})
	if err != nil {
		return "", err
	}
	return r.Path("developers", "jobs", job.ID), nil
}

// jobView is what the page of a job shows.
type jobView struct {
	BackPath, BackText string
	Path               string
	Chip               ui.Chip
	Facts              []ui.Fact
	Counts             []ui.Fact
	IsDone             bool
	Calls              []string
}

func (d *dashboard) loadJob(r *pages.Request) (templ.Component, error) {
	var job delivery.Job
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		job, err = d.conf.Endpoints.JobByID(ctx, tx, r.Session.OrgID, r.PathParam("jobId"))
		return err
	})
	if err != nil {
		return nil, err
	}
	view := jobView{
		BackPath: r.Path("developers", "webhooks"), BackText: "Webhooks", Path: r.Path("developers", "jobs", job.ID),
		Chip: jobChip(job), IsDone: job.Status == delivery.Completed && job.Pending == 0,
		Calls: []string{d.curl("GET", "/webhook-jobs/"+job.ID, "")},
	}
	if job.EndpointID != "" {
		view.BackPath, view.BackText = r.Path("developers", "webhooks", job.EndpointID), "Webhook"
	}
	view.Facts = []ui.Fact{
		{Name: "Id", Value: ui.Code(job.ID)}, {Name: "Begun", Value: ui.When(r.Moment(job.CreatedAt))},
	}
	if job.EventID != "" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Event", Value: ui.Code(job.EventID)})
	}
	if job.Since != nil {
		view.Facts = append(view.Facts,
			ui.Fact{Name: "Events since", Value: ui.When(r.Moment(*job.Since))},
			ui.Fact{Name: "Events before", Value: whenOr(r, job.Until, "the beginning of this")},
			ui.Fact{Name: "Which", Value: ui.Text(whichText(job))},
		)
	}
	for _, count := range []struct {
		name string
		n    int64
	}{
		{"Looked at", job.Examined},
		{"To be sent", job.Queued},
		{"Still waiting", job.Pending},
		{"Delivered", job.Delivered},
		{"Failed", job.Failed},
	} {
		view.Counts = append(view.Counts, ui.Fact{Name: count.name, Value: ui.Text(strconv.FormatInt(count.n, 10))})
	}
	return jobDetail(view), nil
}

func whichText(job delivery.Job) string {
	if job.OnlyFailed {
		return "those that were never delivered"
	}
	return "all, also those that were delivered"
}

// jobChip writes the state of a job for people.
func jobChip(job delivery.Job) ui.Chip {
	switch {
	case job.Status == delivery.Running:
		return ui.Chip{Kind: ui.Info, Word: "Looking for the events"}
	case job.Pending > 0:
		return ui.Chip{Kind: ui.Info, Word: "Being sent"}
	case job.Failed > 0:
		return ui.Chip{Kind: ui.Bad, Word: "Done, with failures"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Done"}
}
