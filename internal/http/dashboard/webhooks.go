package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// EndpointPath begins the path of a webhook's page, to which its id is appended. A mail links it.
const EndpointPath = Prefix + "/developers/webhooks/"

// The names of the acts about webhooks.
const (
	createEndpointAct = "register"
	changeEndpointAct = "change"
	enableEndpointAct = "enable"
	pauseEndpointAct  = "pause"
	deleteEndpointAct = "delete"
	rotateSecretAct   = "rotate"
	testEndpointAct   = "test"
	recoverAct        = "recover"
)

const (
	urlBytesMax         = 2048
	descriptionBytesMax = 500
	customerIDBytesMax  = 512
)

// Which events an endpoint receives.
const (
	standardEvents = "STANDARD" // those of the interface without extensions
	everyEvent     = "EVERY"
	chosenEvents   = "CHOSEN"
)

// endpointFields are the fields that describe an endpoint. Each type of event is a box.
func endpointFields(first pages.Field) []pages.Field {
	fields := []pages.Field{
		first,
		{Name: "url", BytesMax: urlBytesMax, Missing: "Give the URL of your receiver."},
		{Name: "description", BytesMax: descriptionBytesMax, Optional: true},
		{Name: "events", BytesMax: wordBytesMax, Missing: "Choose which events it receives."},
		{Name: "customerId", BytesMax: customerIDBytesMax, Optional: true},
		{Name: "chain", BytesMax: wordBytesMax, Optional: true},
	}
	for _, t := range event.AllTypes() {
		fields = append(fields, pages.Field{Name: string(t), BytesMax: wordBytesMax, Optional: true, Checkbox: true})
	}
	return fields
}

// webhooksPage lists the endpoints and registers new ones.
func (d *dashboard) webhooksPage() pages.Page {
	return pages.Page{
		Path: "/developers/webhooks", Title: "Webhooks", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadWebhooks, WriteCSV: d.writeEndpoints,
		Acts: []pages.Act{{
			Name: createEndpointAct, Action: identity.ManageWebhooks, StepUp: pages.SudoStepUp,
			Fields: endpointFields(onceField), Run: d.createEndpoint,
		}},
	}
}

// webhookPage shows one endpoint with what can be done about it.
func (d *dashboard) webhookPage() pages.Page {
	sudo := func(
		name string, action identity.Action, run func(*pages.Request) (string, error), fields ...pages.Field,
	) pages.Act {
		return pages.Act{Name: name, Action: action, StepUp: pages.SudoStepUp, Fields: fields, Run: run}
	}
	deletion := sudo(deleteEndpointAct, identity.ManageWebhooks, d.deleteEndpoint)
	deletion.FindDone = d.findDeletion(
		"endpointId", "we", "webhook_endpoint.deleted", "developers", "webhooks",
	)
	return pages.Page{
		Path: "/developers/webhooks/{endpointId}", Title: "Webhook", Action: identity.ReadOrganization,
		Load: d.loadWebhook,
		Acts: []pages.Act{
			sudo(changeEndpointAct, identity.ManageWebhooks, d.changeEndpoint, endpointFields(seenField)...),
			sudo(enableEndpointAct, identity.ManageWebhooks, d.setEndpoint(delivery.Enabled)),
			sudo(pauseEndpointAct, identity.ManageWebhooks, d.setEndpoint(delivery.Paused)),
			deletion,
			sudo(rotateSecretAct, identity.ReplaceWebhookSecret, d.rotateSecret, seenField),
			sudo(
				testEndpointAct, identity.ManageWebhooks, d.testEndpoint,
				pages.Field{Name: "type", BytesMax: wordBytesMax, Missing: "Choose an event."},
			),
			{
				Name: recoverAct, Action: identity.ResendEvents,
				Fields: []pages.Field{
					{Name: "since", BytesMax: wordBytesMax, Missing: "Give the time from which events are sent again."},
					{Name: "until", BytesMax: wordBytesMax, Optional: true},
					{Name: "all", BytesMax: wordBytesMax, Optional: true, Checkbox: true},
				},
				Run: d.recoverEndpoint,
			},
		},
	}
}

// endpointRow is an endpoint in the list.
type endpointRow struct {
	Path, ID, URL, Description, Events, Version string
	Chip                                        ui.Chip
	IsFailing                                   bool
	FailingSince                                ui.Moment
}

// endpointForm is the form that describes an endpoint.
type endpointForm struct {
	Act      string
	Form     ui.Form
	Choice   optionInput
	Chains   optionInput
	Types    []typeBox
	Hidden   string // the name of the first field
	HiddenID string
}

// typeBox is the box of a type of event.
type typeBox struct {
	Name     string
	IsTicked bool
}

// webhooksView is what the list of endpoints shows.
type webhooksView struct {
	Tabs                []ui.Tab
	Rows                []endpointRow
	FirstPath, NextPath string
	CSVPath, Path       string
	CanManage           bool
	Register            endpointForm
	Disabled            []disabledRow
	Calls               []string
}

// disabledRow is an endpoint that failures disabled.
type disabledRow struct {
	Path, URL    string
	FailingSince ui.Moment
	HasSince     bool
}

// findDisabled returns the endpoints that failures disabled. Rule PAGE-22.
func (d *dashboard) findDisabled(r *pages.Request) (rows []disabledRow, err error) {
	if d.conf.Endpoints == nil {
		return nil, nil
	}
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		rows = nil
		found, err := d.conf.Endpoints.List(ctx, tx, r.Session.OrgID, pagination.Page{Limit: pagination.LimitMax})
		for _, e := range found.Items {
			if e.Status == delivery.DisabledByFailure {
				row := disabledRow{Path: r.Path("developers", "webhooks", e.ID), URL: e.URL}
				if e.FailingSince != nil {
					row.HasSince, row.FailingSince = true, r.Moment(*e.FailingSince)
				}
				rows = append(rows, row)
			}
		}
		return err
	})
	return rows, err
}

func (d *dashboard) loadWebhooks(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	view := webhooksView{
		Tabs: developerTabs(r, "Webhooks"), CSVPath: r.CSVPath(), Path: r.Path("developers", "webhooks"),
		CanManage: r.IsAllowed(identity.ManageWebhooks),
		Register:  newEndpointForm(r, createEndpointAct, delivery.Endpoint{}),
		Calls: []string{
			d.curl("GET", "/webhook-endpoints", ""),
			d.curl("POST", "/webhook-endpoints", `{"url":"https://example.com/hooks/coffer","events":[]}`),
		},
	}
	view.Register.Hidden, view.Register.HiddenID = onceName, formID(r, createEndpointAct)
	var found pagination.Result[delivery.Endpoint]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = d.conf.Endpoints.List(ctx, tx, r.Session.OrgID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range found.Items {
		row := endpointRow{
			Path: r.Path("developers", "webhooks", e.ID), ID: e.ID, URL: e.URL, Description: e.Description,
			Events: eventsText(e.Events), Version: e.APIVersion, Chip: endpointChip(e.Status),
		}
		if e.FailingSince != nil {
			row.IsFailing, row.FailingSince = true, r.Moment(*e.FailingSince)
		}
		view.Rows = append(view.Rows, row)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	if view.Disabled, err = d.findDisabled(r); err != nil {
		return nil, err
	}
	return webhookList(view), nil
}

// newEndpointForm makes the form with the values of an endpoint, or empty.
func newEndpointForm(r *pages.Request, act string, e delivery.Endpoint) endpointForm {
	chosen := standardEvents
	switch {
	case slices.Contains(e.Events, event.EveryType):
		chosen = everyEvent
	case len(e.Events) > 0:
		chosen = chosenEvents
	}
	form := endpointForm{
		Act: act,
		Form: ui.Filled(r.Form, act, map[string]string{
			"url": e.URL, "description": e.Description, "customerId": e.Filters.CustomerID,
			"chain": string(e.Filters.Chain), "events": chosen,
		}),
		Choice: optionInput{Act: act, Name: "events", Label: "It receives", Chosen: chosen, Options: []option{
			{standardEvents, "the seven events of the interface"},
			{everyEvent, "every event, also those of later versions"},
			{chosenEvents, "the events that are ticked below"},
		}},
		Chains: optionInput{
			Act: act, Name: "chain", Label: "Only of one network", Chosen: string(e.Filters.Chain),
			Options: []option{{"", "all networks"}},
		},
	}
	for _, name := range chain.Names {
		form.Chains.Options = append(form.Chains.Options, option{string(name), networkName(name)})
	}
	for _, t := range event.AllTypes() {
		isTicked := slices.Contains(e.Events, t)
		if r.Form.Act == act {
			isTicked = r.Form.Value(act, string(t)) != ""
		} else if isTicked {
			form.Form.Typed[string(t)] = "on"
		}
		form.Types = append(form.Types, typeBox{string(t), isTicked})
	}
	return form
}

// readEndpoint reads the form of an endpoint.
func readEndpoint(r *pages.Request) (delivery.NewEndpoint, error) {
	wanted := delivery.NewEndpoint{
		URL: r.Values["url"], Description: r.Values["description"],
		Filters: delivery.Filters{CustomerID: r.Values["customerId"], Chain: chain.Name(r.Values["chain"])},
	}
	switch r.Values["events"] {
	case standardEvents:
	case everyEvent:
		wanted.Events = []event.Type{event.EveryType}
	case chosenEvents:
		for _, t := range event.AllTypes() {
			if r.Values[string(t)] != "" {
				wanted.Events = append(wanted.Events, t)
			}
		}
		if len(wanted.Events) == 0 {
			return wanted, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"Tick at least one event.").WithParam("events")
		}
	default:
		return wanted, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose which events it receives.").WithParam("events")
	}
	return wanted, nil
}

// atFilter returns an error at the field of the form whose name the feature gives with its group.
func atFilter(err error) error {
	if f := fault.Find(err); f != nil && strings.HasPrefix(f.Param, "filters.") {
		return f.WithParam(strings.TrimPrefix(f.Param, "filters."))
	}
	return err
}

// secretView shows the secret of an endpoint, once.
type secretView struct {
	Path, Title, URL string
	Secret           seal.Secret
	HasFormer        bool
	FormerUntil      ui.Moment
}

func (d *dashboard) createEndpoint(r *pages.Request) (string, error) {
	wanted, err := readEndpoint(r)
	if err != nil {
		return "", err
	}
	wanted.FormID = r.Values[onceName]
	var made delivery.Endpoint
	var secret seal.Secret
	err = d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		made, secret, err = d.conf.Endpoints.Create(ctx, tx, r.Session.OrgID, actor(r), wanted)
		return err
	})
	if err != nil {
		return "", atFilter(err)
	}
	r.ShowOnce(endpointSecret(secretView{
		Path: r.Path("developers", "webhooks", made.ID), Title: "The webhook is registered", URL: made.URL,
		Secret: secret,
	}))
	return "", nil
}

func (d *dashboard) changeEndpoint(r *pages.Request) (string, error) {
	wanted, err := readEndpoint(r)
	if err != nil {
		return "", err
	}
	seenTime, err := readSeen(r)
	if err != nil {
		return "", err
	}
	return d.updateEndpoint(r, delivery.Change{
		URL: &wanted.URL, Description: &wanted.Description, Events: &wanted.Events, Filters: &wanted.Filters,
		SeenAt: seenTime,
	})
}

func (d *dashboard) setEndpoint(status string) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		return d.updateEndpoint(r, delivery.Change{Status: &status})
	}
}

func (d *dashboard) updateEndpoint(r *pages.Request, change delivery.Change) (string, error) {
	endpointID := r.PathParam("endpointId")
	err := d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		_, err := d.conf.Endpoints.Update(ctx, tx, r.Session.OrgID, actor(r), endpointID, change)
		return err
	})
	if err != nil {
		return "", atFilter(err)
	}
	return r.Path("developers", "webhooks", endpointID), nil
}

func (d *dashboard) deleteEndpoint(r *pages.Request) (string, error) {
	err := d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		return d.conf.Endpoints.Delete(ctx, tx, r.Session.OrgID, actor(r), r.PathParam("endpointId"))
	})
	if err != nil {
		return "", err
	}
	return r.Path("developers", "webhooks"), nil
}

func (d *dashboard) rotateSecret(r *pages.Request) (string, error) {
	seenTime, err := strconv.Atoi(r.Values[seenName])
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	view := secretView{Title: "The webhook has a new secret", HasFormer: true}
	err = d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		e, secret, formerUntil, err := d.conf.Endpoints.RotateAsSeen(
			ctx, tx, r.Session.OrgID, actor(r), r.PathParam("endpointId"), seenTime,
		)
		view.Path, view.URL = r.Path("developers", "webhooks", e.ID), e.URL
		view.Secret, view.FormerUntil = secret, r.Moment(formerUntil)
		return err
	})
	if err != nil {
		return "", err
	}
	r.ShowOnce(endpointSecret(view))
	return "", nil
}

// testEndpoint sends a sample and leads to what the receiver answered.
func (d *dashboard) testEndpoint(r *pages.Request) (string, error) {
	endpointID := r.PathParam("endpointId")
	attempt, err := d.conf.Endpoints.Test(
		r.Context(), d.conf.DB, r.Session.OrgID, actor(r), endpointID, event.Type(r.Values["type"]),
	)
	if err != nil {
		return "", err
	}
	return r.Path("developers", "webhooks", endpointID, "deliveries", attempt.EventID), nil
}

func (d *dashboard) recoverEndpoint(r *pages.Request) (string, error) {
	sinceTime, err := readLocalTime("since", r.Values["since"])
	if err != nil {
		return "", err
	}
	var untilTime *time.Time
	if text := r.Values["until"]; text != "" {
		end, err := readLocalTime("until", text)
		if err != nil {
			return "", err
		}
		untilTime = &end
	}
	var job delivery.Job
	err = d.conf.DB.InOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		job, err = d.conf.Endpoints.Recover(
			ctx, tx, r.Session.OrgID, actor(r), r.PathParam("endpointId"), sinceTime, untilTime, r.Values["all"] == "",
		)
		return err
	})
	if err != nil {
		return "", err
	}
	return r.Path("developers", "jobs", job.ID), nil
}

// readLocalTime reads a time that a person typed in UTC: with a browser's field, or as the pages write it.
func readLocalTime(name, text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"This is not a time such as 2026-12-31 08:00.").WithParam(name)
}

// webhookView is what the page of an endpoint shows.
type webhookView struct {
	ListPath, Path, LogPath       string
	ID, URL, SecretVersion        string
	Chip                          ui.Chip
	IsEnabled                     bool
	DisabledTitle, DisabledText   string
	Facts                         []ui.Fact
	Change                        endpointForm
	Form                          ui.Form
	CanManage, CanRotate, CanSend bool
	CanRecover                    bool // it is not disabled
	Types                         optionInput
	Recent                        []attemptRow
	Calls                         []string
}

// recentMax is how many attempts the page of an endpoint shows.
const recentMax = 5

func (d *dashboard) loadWebhook(r *pages.Request) (templ.Component, error) {
	endpointID := r.PathParam("endpointId")
	var e delivery.Endpoint
	var log pagination.Result[delivery.Attempt]
	var version int
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if e, err = d.conf.Endpoints.ByID(ctx, tx, r.Session.OrgID, endpointID); err != nil {
			return err
		}
		if version, err = d.conf.Endpoints.SecretVersion(ctx, tx, r.Session.OrgID, endpointID); err != nil {
			return err
		}
		log, err = d.conf.Endpoints.Log(
			ctx, tx, r.Session.OrgID, endpointID, delivery.AttemptFilter{},
			pagination.Page{Desc: true, Limit: recentMax},
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := webhookView{
		ListPath: r.Path("developers", "webhooks"), Path: r.Path("developers", "webhooks", e.ID),
		LogPath: r.Path("developers", "webhooks", e.ID, "deliveries"), ID: e.ID, URL: e.URL,
		SecretVersion: strconv.Itoa(version), Chip: endpointChip(e.Status),
		IsEnabled: e.Status == delivery.Enabled, Facts: aboutEndpoint(r, e),
		Change: newEndpointForm(r, changeEndpointAct, e), Form: r.Form,
		CanManage: r.IsAllowed(identity.ManageWebhooks), CanRotate: r.IsAllowed(identity.ReplaceWebhookSecret),
		CanSend:    r.IsAllowed(identity.ResendEvents),
		CanRecover: e.Status == delivery.Enabled || e.Status == delivery.Paused,
		Types:      optionInput{Act: testEndpointAct, Name: "type", Label: "Event"},
		Calls: []string{
			d.curl("GET", "/webhook-endpoints/"+e.ID, ""),
			d.curl("PATCH", "/webhook-endpoints/"+e.ID, `{"status":"ENABLED"}`),
			d.curl("POST", "/webhook-endpoints/"+e.ID+"/rotate-secret", ""),
			d.curl("POST", "/webhook-endpoints/"+e.ID+"/test", `{"type":"CUSTOMER_DEPOSIT"}`),
			d.curl("POST", "/webhook-endpoints/"+e.ID+"/recover", `{"since":"2026-01-31T12:00:00.000Z"}`),
		},
	}
	view.Change.Hidden, view.Change.HiddenID = seenName, writeSeen(&e.UpdatedAt)
	for _, t := range event.AllTypes() {
		view.Types.Options = append(view.Types.Options, option{string(t), string(t)})
	}
	for _, attempt := range log.Items {
		view.Recent = append(view.Recent, newAttemptRow(r, e.ID, attempt))
	}
	switch e.Status {
	case delivery.DisabledByFailure:
		view.DisabledTitle = "Failures have disabled this webhook"
		view.DisabledText = "Its events wait. Repair the receiver, then enable it: they are sent in their order."
	case delivery.DisabledGone:
		view.DisabledTitle = "The receiver answered 410, so this webhook is disabled"
		view.DisabledText = "The events that waited are cancelled. Enable it, then recover what it missed."
	}
	return webhookDetail(view), nil
}

func aboutEndpoint(r *pages.Request, e delivery.Endpoint) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Id", Value: ui.Code(e.ID)},
		{Name: "Receives", Value: ui.Text(eventsText(e.Events))},
		{Name: "Only of customer", Value: foreignOr(e.Filters.CustomerID, "every customer")},
		{Name: "Only of network", Value: ui.Text(cmp.Or(networkText(e.Filters.Chain), "every network"))},
		{Name: "API version", Value: ui.Code(e.APIVersion)},
		{Name: "Registered", Value: ui.When(r.Moment(e.CreatedAt))},
		{Name: "Changed", Value: ui.When(r.Moment(e.UpdatedAt))},
	}
	if e.FailingSince != nil {
		facts = append(facts, ui.Fact{Name: "Failing since", Value: ui.When(r.Moment(*e.FailingSince))})
	}
	return facts
}

// foreignOr shows a text of a stranger, or a text of ours in place of an absent one.
func foreignOr(text, absent string) templ.Component {
	if text == "" {
		return ui.Text(absent)
	}
	return ui.Foreign(text)
}

func networkText(name chain.Name) string {
	if name == "" {
		return ""
	}
	return networkName(name)
}

// eventsText says which events an endpoint receives.
func eventsText(types []event.Type) string {
	switch {
	case len(types) == 0:
		return "the seven events of the interface"
	case slices.Contains(types, event.EveryType):
		return "every event"
	}
	return ui.FormatCount(len(types), "event")
}

// endpointChip writes the status of an endpoint for people.
func endpointChip(status string) ui.Chip {
	switch status {
	case delivery.Enabled:
		return ui.Chip{Kind: ui.Good, Word: "Enabled"}
	case delivery.Paused:
		return ui.Chip{Kind: ui.Quiet, Word: "Paused"}
	case delivery.DisabledGone:
		return ui.Chip{Kind: ui.Bad, Word: "Disabled: answered 410"}
	case delivery.DisabledByFailure:
		return ui.Chip{Kind: ui.Bad, Word: "Disabled by failures"}
	}
	return ui.Chip{}
}

var endpointColumns = []kernel.Column[delivery.Endpoint]{
	{Name: "endpointId", Cell: func(e delivery.Endpoint) string { return e.ID }},
	{Name: "url", Cell: func(e delivery.Endpoint) string { return e.URL }},
	{Name: "description", Cell: func(e delivery.Endpoint) string { return e.Description }},
	{Name: "events", Cell: func(e delivery.Endpoint) string {
		names := make([]string, len(e.Events))
		for i, t := range e.Events {
			names[i] = string(t)
		}
		return strings.Join(names, " ")
	}},
	{Name: "customerId", Cell: func(e delivery.Endpoint) string { return e.Filters.CustomerID }},
	{Name: "chain", Cell: func(e delivery.Endpoint) string { return string(e.Filters.Chain) }},
	{Name: "status", Cell: func(e delivery.Endpoint) string { return e.Status }},
	{Name: "failingSince", Cell: func(e delivery.Endpoint) string { return timeOrEmpty(e.FailingSince) }},
	{Name: "apiVersion", Cell: func(e delivery.Endpoint) string { return e.APIVersion }},
	{Name: "createdAt", Cell: func(e delivery.Endpoint) string { return webhook.At(e.CreatedAt).String() }},
	{Name: "updatedAt", Cell: func(e delivery.Endpoint) string { return webhook.At(e.UpdatedAt).String() }},
}

func (d *dashboard) writeEndpoints(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(
		r.Context(), w, true, endpointColumns, eachListed(d.conf.DB, r.Session.OrgID, d.conf.Endpoints.List),
	)
}

// formatSeconds writes a duration for people.
func formatSeconds(took time.Duration) string {
	return strconv.FormatInt(took.Milliseconds(), 10) + " ms"
}
