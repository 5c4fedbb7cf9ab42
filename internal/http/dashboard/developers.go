package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// The names of the acts about keys.
const (
	createKeyAct = "create-key"
	rollKeyAct   = "roll"
	deleteKeyAct = "delete"
)

const (
	keyNameBytesMax = 200
	wordBytesMax    = 64
	apiVersion      = "v1"
	overlapField    = "overlapSeconds"
	expiryField     = "expiresAt"
)

// developersPage lists the API keys, and shows from where they work.
func (d *dashboard) developersPage() pages.Page {
	return pages.Page{
		Path: "/developers", Title: "Developers", Action: identity.ReadOrganization,
		Group: "Organization", Icon: "code", Shortcut: "d",
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadKeys, WriteCSV: d.writeKeys,
		Acts: []pages.Act{{
			Name: createKeyAct, Action: identity.ManageKeys, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				onceField,
				{Name: "name", BytesMax: keyNameBytesMax, Missing: "Give the key a name."},
				{Name: "scope", BytesMax: wordBytesMax, Missing: "Choose what the key may do."},
				{Name: expiryField, BytesMax: wordBytesMax, Optional: true},
			},
			Run: d.createKey,
		}},
	}
}

// keyPage shows one API key, rolls it and deletes it.
func (d *dashboard) keyPage() pages.Page {
	return pages.Page{
		Path: "/developers/keys/{keyId}", Title: "API key", Action: identity.ReadOrganization, Load: d.loadKey,
		Acts: []pages.Act{
			{
				Name: rollKeyAct, Action: identity.ManageKeys, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{
					seenField,
					{Name: overlapField, BytesMax: wordBytesMax, Missing: "Choose how long the old value works."},
				},
				Run: d.rollKey,
			},
			{
				Name: deleteKeyAct, Action: identity.ManageKeys, StepUp: pages.SudoStepUp,
				FindDone: d.findDeletion("keyId", "key", "api_key.deleted", "developers"), Run: d.deleteKey,
			},
		},
	}
}

// keyRow is an API key in the list.
type keyRow struct {
	Path, ID, Name, Scope string
	Chip                  ui.Chip
	HasUse, HasEnd        bool
	Used, Ends            ui.Moment
}

// keysView is what the list of keys shows.
type keysView struct {
	Tabs                []ui.Tab
	Rows                []keyRow
	FirstPath, NextPath string
	CSVPath, Path       string
	IPList              []string
	Payloads            string // the version of the webhooks' payloads
	CanManage           bool
	MayAdd              bool // the operator allows additional keys
	FormID              string
	Form                ui.Form
	Disabled            []disabledRow
	Calls               []string
}

// developerTabs are the tabs of Developers.
func developerTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: "API keys", Path: r.Path("developers")},
		{Title: "Webhooks", Path: r.Path("developers", "webhooks")},
		{Title: "Tokens", Path: r.Path("developers", "tokens")},
		{Title: "Events", Path: r.Path("developers", "events")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

func (d *dashboard) loadKeys(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	view := keysView{
		Tabs: developerTabs(r, "API keys"), CSVPath: r.CSVPath(), Path: r.Path("developers"),
		Payloads: event.APIVersion, CanManage: r.IsAllowed(identity.ManageKeys),
		FormID: formID(r, createKeyAct), Form: r.Form,
		Calls: []string{d.curl("GET", "/mints", ""), d.curl("GET", "/api-keys", "")},
	}
	var found pagination.Result[apikey.Key]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		settings, err := org.SettingsOf(ctx, tx, r.Session.OrgID)
		if err != nil {
			return err
		}
		view.MayAdd, view.IPList = settings.AdditionalAPIKeys, nil
		for _, prefix := range settings.IPAllowlist {
			view.IPList = append(view.IPList, prefix.String())
		}
		found, err = apikey.List(ctx, tx, r.Session.OrgID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, k := range found.Items {
		view.Rows = append(view.Rows, newKeyRow(r, k))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	if view.Disabled, err = d.findDisabled(r); err != nil {
		return nil, err
	}
	return keyList(view), nil
}

func newKeyRow(r *pages.Request, k apikey.Key) keyRow {
	row := keyRow{
		Path: r.Path("developers", "keys", k.ID), ID: k.ID, Name: k.Name, Scope: scopeText(k),
		Chip: keyChip(k.Status),
	}
	if k.LastUsedAt != nil {
		row.HasUse, row.Used = true, r.Moment(*k.LastUsedAt)
	}
	if k.ExpiresAt != nil {
		row.HasEnd, row.Ends = true, r.Moment(*k.ExpiresAt)
	}
	return row
}

var keyColumns = []kernel.Column[apikey.Key]{
	{Name: "apiKeyId", Cell: func(k apikey.Key) string { return k.ID }},
	{Name: "name", Cell: func(k apikey.Key) string { return k.Name }},
	{Name: "scope", Cell: func(k apikey.Key) string { return string(k.Scope) }},
	{Name: "status", Cell: func(k apikey.Key) string { return string(k.Status) }},
	{Name: "expiresAt", Cell: func(k apikey.Key) string { return timeOrEmpty(k.ExpiresAt) }},
	{Name: "lastUsedAt", Cell: func(k apikey.Key) string { return timeOrEmpty(k.LastUsedAt) }},
	{Name: "rolledAt", Cell: func(k apikey.Key) string { return timeOrEmpty(k.RolledAt) }},
	{Name: "createdAt", Cell: func(k apikey.Key) string { return webhook.At(k.CreatedAt).String() }},
}

func timeOrEmpty(t *time.Time) string {
	if t == nil {
		return ""
	}
	return webhook.At(*t).String()
}

func (d *dashboard) writeKeys(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, keyColumns, eachListed(d.conf.DB, r.Session.OrgID, apikey.List))
}

// eachListed returns the rows of a list as of one moment.
func eachListed[T any](
	db *pg.DB, orgID string,
	list func(ctx context.Context, tx pg.Tx, org string, p pagination.Page) (pagination.Result[T], error),
) kernel.Rows[T] {
	return func(ctx context.Context, desc bool, row func(T) error) error {
		return db.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			p := pagination.Page{Desc: desc, Limit: pagination.LimitMax}
			for {
				found, err := list(ctx, tx, orgID, p)
				if err != nil {
					return err
				}
				for _, item := range found.Items {
					if err := row(item); err != nil {
						return err
					}
				}
				if found.NextCursor == nil {
					return nil
				}
				p.Cursor = found.NextCursor
			}
		})
	}
}

// rowsOf returns the rows of a list that was read whole.
func rowsOf[T any](items []T) kernel.Rows[T] {
	return func(_ context.Context, _ bool, row func(T) error) error {
		for _, item := range items {
			if err := row(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// keyView is what the page of a key shows.
type keyView struct {
	ListPath, Path, Name, SeenText string
	Chip                           ui.Chip
	Facts                          []ui.Fact
	Steps                          []stepRow
	CanRoll, CanDelete             bool
	WhyNot                         string // why this person cannot roll it; "" if that is clear
	Overlaps                       optionInput
	Form                           ui.Form
	Calls                          []string
}

func (d *dashboard) loadKey(r *pages.Request) (templ.Component, error) {
	keyID := r.PathParam("keyId")
	var k apikey.Key
	var settings org.Settings
	var rows pagination.Result[audit.Row]
	canManage := r.IsAllowed(identity.ManageKeys)
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if k, err = apikey.ByID(ctx, tx, r.Session.OrgID, keyID); err != nil {
			return err
		}
		if settings, err = org.SettingsOf(ctx, tx, r.Session.OrgID); err != nil || !canManage {
			return err
		}
		f := audit.Filter{OrgID: r.Session.OrgID, ResourceID: k.ID}
		if k.IsMain() {
			f.ResourceID, f.Action = r.Session.OrgID, "api_key.rolled"
		}
		rows, err = audit.List(ctx, tx, f, pagination.Page{Desc: true, Limit: historyMax})
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := keyView{
		ListPath: r.Path("developers"), Path: r.Path("developers", "keys", k.ID), Name: k.Name,
		SeenText: writeSeen(k.RolledAt), Chip: keyChip(k.Status), Facts: aboutKey(r, k), Form: r.Form,
		Calls: []string{d.curl("POST", "/api-keys/"+k.ID+"/roll", `{"overlapSeconds":3600}`)},
	}
	if !k.IsMain() {
		view.Calls = append(view.Calls, d.curl("DELETE", "/api-keys/"+k.ID, ""))
	}
	for _, row := range rows.Items {
		view.Steps = append(view.Steps, stepRow{
			Title: keyActText(row.Action), Name: names.nameOf(row.Actor, r.Session), Moment: r.Moment(row.RecordedAt),
		})
	}
	view.explainRoll(k, settings, canManage)
	return keyDetail(view), nil
}

// historyMax is how many acts the history of a thing shows.
const historyMax = 20

// explainRoll says what this person can do with the key.
func (v *keyView) explainRoll(k apikey.Key, settings org.Settings, canManage bool) {
	v.CanDelete = canManage && !k.IsMain()
	v.CanRoll = canManage && k.Status == apikey.Active
	switch {
	case !canManage:
		v.WhyNot = "Your roles show the keys and do not change them."
	case k.Status == apikey.Revoked:
		v.WhyNot = "The operator of this service revoked this key, and only the operator gives your organization a " +
			"new one."
	case k.Status == apikey.Suspended:
		v.WhyNot = "Further keys are switched off for your organization. Delete this one, or ask the operator of " +
			"this service to switch them on."
	case k.Status == apikey.Expired:
		v.WhyNot = "This key has expired. Make another one."
	}
	v.Overlaps = optionInput{
		Act: rollKeyAct, Name: overlapField, Label: "The old value works", Chosen: "0",
		Options: []option{{"0", "no longer: it ends at once"}},
	}
	if settings.AdditionalAPIKeys && k.FormerEndsAt == nil {
		v.Overlaps.Options = append(v.Overlaps.Options,
			option{"3600", "for one more hour"}, option{strconv.Itoa(apikey.OverlapSecondsMax), "for 24 more hours"})
		v.Overlaps.Hint = "Use this time to give the new value to your programs."
	}
}

func aboutKey(r *pages.Request, k apikey.Key) []ui.Fact {
	facts := []ui.Fact{
		{Name: "Id", Value: ui.Code(k.ID)},
		{Name: "May", Value: ui.Text(scopeText(k))},
		{Name: "Made", Value: ui.When(r.Moment(k.CreatedAt))},
		{Name: "API version", Value: ui.Code(apiVersion)},
	}
	facts = append(facts,
		ui.Fact{Name: "Last used", Value: whenOr(r, k.LastUsedAt, "not since it has its present value")},
		ui.Fact{Name: "Last rolled", Value: whenOr(r, k.RolledAt, "never")},
		ui.Fact{Name: "Expires", Value: whenOr(r, k.ExpiresAt, "never")},
	)
	if k.FormerEndsAt != nil {
		facts = append(facts,
			ui.Fact{Name: "Old value works until", Value: ui.When(r.Moment(*k.FormerEndsAt))},
			ui.Fact{Name: "Old value last used", Value: whenOr(r, k.FormerLastUsedAt, "never")},
		)
	}
	return facts
}

// whenOr shows a time, or a text in place of one that is absent.
func whenOr(r *pages.Request, t *time.Time, absent string) templ.Component {
	if t == nil {
		return ui.Text(absent)
	}
	return ui.When(r.Moment(*t))
}

// keyValueView shows the value of a key, once.
type keyValueView struct {
	ListPath, Name, Title string
	Value                 seal.Secret
	HasFormer             bool
	FormerEnds            ui.Moment
}

func newKeyValue(r *pages.Request, k apikey.Key, value seal.Secret, title string) keyValueView {
	view := keyValueView{ListPath: r.Path("developers"), Name: k.Name, Title: title, Value: value}
	if k.FormerEndsAt != nil {
		view.HasFormer, view.FormerEnds = true, r.Moment(*k.FormerEndsAt)
	}
	return view
}

func (d *dashboard) createKey(r *pages.Request) (string, error) {
	wanted := apikey.NewKey{
		FormID: r.Values[onceName], Name: r.Values["name"], Scope: identity.Scope(r.Values["scope"]),
	}
	if text := r.Values[expiryField]; text != "" {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil || day.Year() < 1 || day.Year() > 9999 {
			return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"This is not a day such as 2026-12-31.").WithParam(expiryField)
		}
		wanted.ExpiresAt = &day
	}
	made, value, err := apikey.Create(r.Context(), d.conf.DB, apikey.ForMember(r.Session.Member), wanted)
	if err != nil {
		return "", err
	}
	r.ShowOnce(keyValue(newKeyValue(r, made, value, "The key is made")))
	return "", nil
}

// rollKey gives a key another value, unless it was rolled after the page was loaded. Rule PAGE-21.
func (d *dashboard) rollKey(r *pages.Request) (string, error) {
	seenTime, err := readSeen(r)
	if err != nil {
		return "", err
	}
	overlap, err := strconv.Atoi(r.Values[overlapField])
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Choose how long the old value works.").WithParam(overlapField)
	}
	rolled, value, err := apikey.RollAsSeen(
		r.Context(), d.conf.DB, apikey.ForMember(r.Session.Member), r.PathParam("keyId"), overlap, seenTime,
	)
	if err != nil {
		return "", err
	}
	if rolled.IsMain() && d.conf.KeyRolled != nil {
		d.conf.KeyRolled(r.Context(), r.Session.OrgID, value)
	}
	r.ShowOnce(keyValue(newKeyValue(r, rolled, value, "The key has a new value")))
	return "", nil
}

func (d *dashboard) deleteKey(r *pages.Request) (string, error) {
	err := apikey.Delete(r.Context(), d.conf.DB, apikey.ForMember(r.Session.Member), r.PathParam("keyId"))
	if err != nil {
		return "", err
	}
	return r.Path("developers"), nil
}

// findDeletion returns a function that finds, by the audit log of the organization, that the thing of the
// path is deleted already. Rule PAGE-3.
func (d *dashboard) findDeletion(
	parameter, prefix, action string, listPath ...string,
) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		resource := r.PathParam(parameter)
		if !id.IsValid(prefix, resource) {
			return "", nil
		}
		var found pagination.Result[audit.Row]
		err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = audit.List(ctx, tx, audit.Filter{
				OrgID: r.Session.OrgID, ResourceID: resource, Action: action,
			}, pagination.Page{Limit: 1})
			return err
		})
		if err != nil || len(found.Items) == 0 {
			return "", err
		}
		return r.Path(listPath...), nil
	}
}

// keyChip writes the status of a key for people.
func keyChip(status apikey.Status) ui.Chip {
	switch status {
	case apikey.Active:
		return ui.Chip{Kind: ui.Good, Word: "Works"}
	case apikey.Expired:
		return ui.Chip{Kind: ui.Quiet, Word: "Expired"}
	case apikey.Suspended:
		return ui.Chip{Kind: ui.Wait, Word: "Suspended"}
	case apikey.Revoked:
		return ui.Chip{Kind: ui.Bad, Word: "Revoked"}
	}
	return ui.Chip{}
}

// scopeOptions are the scopes that a further key can have, the least first.
var scopeOptions = []option{
	{string(identity.ScopeRead), "read, and change nothing"},
	{string(identity.ScopeNoMoneyOut), "everything that sends no money out"},
	{string(identity.ScopeFull), "everything, payments included"},
}

// scopeText says what a key may do.
func scopeText(k apikey.Key) string {
	if k.IsMain() {
		return "everything, keys included"
	}
	i := slices.IndexFunc(scopeOptions, func(o option) bool { return o.Value == string(k.Scope) })
	if i < 0 {
		return string(k.Scope)
	}
	return scopeOptions[i].Text
}

// keyActText says what happened to a key.
func keyActText(action string) string {
	switch action {
	case "api_key.created":
		return "Made"
	case "api_key.rolled":
		return "Rolled"
	case "api_key.deleted":
		return "Deleted"
	case "api_key.revoked":
		return "Revoked"
	}
	return action
}
