package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// ChangePath begins the path of the page of a change of settings, to which its id is appended. A mail links it.
const ChangePath = Prefix + "/settings/changes/"

// The names of the acts about settings.
const (
	changeSettingsAct = "change"
	approveChangeAct  = "approve"
	rejectChangeAct   = "reject"
	retractChangeAct  = "retract"
)

const allowlistBytesMax = 60_000

// settingsPage shows all settings and changes those that are the organization's own.
func (d *dashboard) settingsPage() pages.Page {
	fields := []pages.Field{seenField}
	for _, name := range memberchange.Controls {
		f := pages.Field{Name: name, BytesMax: wordBytesMax, Optional: true}
		switch name {
		case "approvalAllowlist":
			f.BytesMax = allowlistBytesMax
		case "approvalQuorum":
			f.Optional, f.Missing = false, "Give a whole number from 1 to 10."
		}
		fields = append(fields, f)
	}
	return pages.Page{
		Path: "/settings", Title: "Settings", Action: identity.ReadOrganization,
		Group: "Organization", Icon: "settings", Shortcut: "e", Live: []string{"MEMBER_CHANGE", "ORGANIZATION"},
		Load: d.loadSettings,
		Acts: []pages.Act{{
			Name: changeSettingsAct, Action: identity.ChangeControls, StepUp: pages.SudoStepUp, Fields: fields,
			Run: d.changeSettings,
		}},
	}
}

// changePage shows one change of settings that waits or was decided.
func (d *dashboard) changePage() pages.Page {
	return pages.Page{
		Path: "/settings/changes/{changeId}", Title: "Change of settings", Action: identity.ReadOrganization,
		Live: []string{"MEMBER_CHANGE"}, Load: d.loadChange,
		Acts: []pages.Act{
			d.changeAct(approveChangeAct, (*memberchange.Service).Approve),
			d.changeAct(rejectChangeAct, (*memberchange.Service).Reject),
			d.changeAct(retractChangeAct, (*memberchange.Service).Retract),
		},
	}
}

// changeAct decides about a change of settings.
func (d *dashboard) changeAct(
	name string,
	decide func(*memberchange.Service, context.Context, member.Member, string) (memberchange.Request, error),
) pages.Act {
	return pages.Act{
		Name: name, Action: identity.ChangeControls, StepUp: pages.SudoStepUp, FindDone: d.findDecidedChange,
		Run: func(r *pages.Request) (string, error) {
			decided, err := decide(d.conf.SettingChanges, r.Context(), r.Session.Member, r.PathParam("changeId"))
			if err != nil {
				return "", err
			}
			return r.Path("settings", "changes", decided.ID), nil
		},
	}
}

// settingsHistoryPage lists the changes of the settings that are in force or were.
func (d *dashboard) settingsHistoryPage() pages.Page {
	return pages.Page{
		Path: "/settings/history", Title: "History of settings", Action: identity.ReadOrganization,
		Query: []kernel.Parameter{pages.CursorParameter},
		Load:  d.loadSettingsHistory, WriteCSV: d.writeSettingsHistory,
	}
}

// settingRow is a setting with its value.
type settingRow struct {
	Label, Note string
	Value       templ.Component
}

// changeRow is a change of settings in a list.
type changeRow struct {
	Path, Labels, Author string
	Chip                 ui.Chip
	Requested            ui.Moment
	HasEffect            bool
	TakesEffect          ui.Moment
}

// settingsView is what the page of settings shows.
type settingsView struct {
	Tabs               []ui.Tab
	Path               string
	Pending            []changeRow
	OwnRows, Operators []settingRow
	CanChange          bool
	Form               ui.Form
	SeenText           string
	Severities         []optionInput // the two thresholds of risk
	Allowlist          ui.AreaInput
	Loosening          string // what happens to a change that loosens a control
	WhoMay             string
	IsFormTooNarrow    bool
}

func settingsTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: "Settings", Path: r.Path("settings")}, {Title: "History", Path: r.Path("settings", "history")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

func (d *dashboard) loadSettings(r *pages.Request) (templ.Component, error) {
	var settings org.Settings
	var pending []memberchange.Request
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if settings, err = org.SettingsOf(ctx, tx, r.Session.OrgID); err != nil {
			return err
		}
		pending, err = memberchange.ListPending(ctx, tx, r.Session.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := settingsView{
		Tabs: settingsTabs(r, "Settings"), Path: r.Path("settings"), CanChange: r.IsAllowed(identity.ChangeControls),
		SeenText: writeSeen(&settings.UpdatedAt),
		Loosening: "A change that loosens a control waits until another owner or admin approves it. Without another " +
			d.waitText(),
		WhoMay: "An owner or admin of your organization changes these.",
	}
	for _, request := range pending {
		view.Pending = append(view.Pending, newChangeRow(r, request, names))
	}
	typed := map[string]string{}
	for _, setting := range settings.ListValues() {
		row := settingRow{Label: settingText(setting.Name), Value: settingValue(setting.Name, setting.Value)}
		if missing := org.UnavailableSettings[setting.Name]; missing != "" {
			row.Note = "No effect yet: this version has no " + missing + "."
		}
		if slices.Contains(memberchange.Controls, setting.Name) {
			view.OwnRows = append(view.OwnRows, row)
			typed[setting.Name] = fieldText(setting.Name, settings, setting.Value)
		} else {
			view.Operators = append(view.Operators, row)
		}
	}
	view.Form = ui.Filled(r.Form, changeSettingsAct, typed)
	view.IsFormTooNarrow = len(typed["approvalAllowlist"]) > allowlistBytesMax
	for _, name := range []string{"screeningSeverityThreshold", "withdrawSeverityThreshold"} {
		input := optionInput{Act: changeSettingsAct, Name: name, Label: settingText(name), Options: []option{
			{"", unsetText(name)},
		}}
		for _, severity := range org.Severities {
			input.Options = append(input.Options, option{string(severity), severityText(severity)})
		}
		view.Severities = append(view.Severities, input)
	}
	view.Allowlist = ui.AreaInput{
		Act: changeSettingsAct, Name: "approvalAllowlist", Label: settingText("approvalAllowlist"),
		Hint: "One e-mail a line. A customer's id after the e-mail means this customer alone; the word off before it " +
			"means that the line has no effect.",
	}
	return settingsOverview(view), nil
}

// waitText says when a change takes effect that no other person can approve.
func (d *dashboard) waitText() string {
	if d.conf.SettingChanges.Delay <= 0 {
		return "it takes effect at once."
	}
	return "it takes effect after " + strconv.Itoa(int(d.conf.SettingChanges.Delay.Hours())) + " hours."
}

// fieldText writes a value for the field of its setting.
func fieldText(name string, settings org.Settings, raw json.RawMessage) string {
	if name == "approvalAllowlist" {
		return writeAllowlist(settings.ApprovalAllowlist)
	}
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		return textOrEmpty(text)
	}
	return string(raw)
}

const inactivePrefix = "off "

// writeAllowlist writes the allowlist for its field: an entry a line.
func writeAllowlist(list []org.AllowlistEntry) string {
	var lines []string
	for _, entry := range list {
		line := entry.Email
		if entry.CustomerID != "" {
			line += " " + entry.CustomerID
		}
		if !entry.Active {
			line = inactivePrefix + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// readAllowlist reads what writeAllowlist writes. Package org checks the entries.
func readAllowlist(text string) []org.AllowlistEntry {
	list := []org.AllowlistEntry{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line, isInactive := strings.CutPrefix(line, inactivePrefix)
		email, customerID, _ := strings.Cut(strings.TrimSpace(line), " ")
		list = append(list, org.AllowlistEntry{
			Email: email, CustomerID: strings.TrimSpace(customerID), Active: !isInactive,
		})
	}
	return list
}

// readChanges reads the form of the settings.
func readChanges(r *pages.Request) (org.Changes, error) {
	c := org.Changes{}
	for _, name := range memberchange.Controls {
		text := r.Values[name]
		var value any
		switch {
		case name == "approvalAllowlist":
			value = readAllowlist(text)
		case name == "approvalQuorum":
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, newSettingFault(name, "")
			}
			value = n
		case text != "":
			value = text
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		c[name] = raw
	}
	return c, nil
}

// newSettingFault says in the words of the pages what is wrong with a setting.
func newSettingFault(name, reason string) error {
	switch name {
	case "approvalQuorum":
		reason = "Give a whole number from 1 to " + strconv.Itoa(org.ApprovalQuorumMax) + "."
	case "screeningSeverityThreshold", "withdrawSeverityThreshold":
		reason = "Choose one of the list."
	case "approvalAllowlist":
		reason = strings.ReplaceAll(reason, "approvalAllowlist", "the list")
	default:
		reason = "Give an amount in dollars such as 10000.00, or nothing."
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(name)
}

// changeSettings changes what differs from the present settings. Rules PAGE-24 and PAGE-26.
func (d *dashboard) changeSettings(r *pages.Request) (string, error) {
	seenTime, err := readSeen(r)
	if err != nil {
		return "", err
	}
	c, err := readChanges(r)
	if err != nil {
		return "", err
	}
	if seenTime == nil {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	outcome, err := d.conf.SettingChanges.Change(r.Context(), r.Session.Member, c, *seenTime)
	if f := fault.Find(err); f != nil && f.Code == fault.InvalidRequest && f.Param != "" {
		return "", newSettingFault(f.Param, f.Reason)
	}
	if err != nil {
		return "", err
	}
	if outcome.Waiting != nil {
		return r.Path("settings", "changes", outcome.Waiting.ID), nil
	}
	return r.Path("settings"), nil
}

func newChangeRow(r *pages.Request, request memberchange.Request, names people) changeRow {
	row := changeRow{
		Path: r.Path("settings", "changes", request.ID), Labels: changedLabels(request),
		Author: names.nameOf(audit.User(request.RequestedBy), r.Session), Chip: changeChip(request.Status),
		Requested: r.Moment(request.CreatedAt),
	}
	if request.TakesEffectAt != nil {
		row.HasEffect, row.TakesEffect = true, r.Moment(*request.TakesEffectAt)
	}
	return row
}

func changedLabels(request memberchange.Request) string {
	var labels []string
	for _, name := range request.ChangedNames() {
		labels = append(labels, settingText(name))
	}
	return strings.Join(labels, "; ")
}

// changeView is what the page of a change shows.
type changeView struct {
	ListPath, Path        string
	Chip                  ui.Chip
	Changes               []settingChange
	Facts                 []ui.Fact
	CanDecide, CanRetract bool
	WhyNot                string
	Form                  ui.Form
	DecidedText, WaitText string
}

// settingChange is a setting before and after a change.
type settingChange struct {
	Label    string
	From, To templ.Component
}

func (d *dashboard) loadChange(r *pages.Request) (templ.Component, error) {
	var request memberchange.Request
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		request, err = memberchange.ByID(ctx, tx, r.Session.OrgID, r.PathParam("changeId"))
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	row := newChangeRow(r, request, names)
	view := changeView{
		ListPath: r.Path("settings"), Path: row.Path, Chip: row.Chip, Form: r.Form,
		Facts: []ui.Fact{
			{Name: "Requested by", Value: ui.Foreign(row.Author)}, {Name: "Requested", Value: ui.When(row.Requested)},
		},
	}
	for _, name := range request.ChangedNames() {
		view.Changes = append(view.Changes, settingChange{
			Label: settingText(name), From: settingValue(name, memberchange.ShowValue(request.Before, name)),
			To: settingValue(name, memberchange.ShowValue(request.Wanted, name)),
		})
	}
	if request.Status != memberchange.Pending {
		view.DecidedText = "By the service itself"
		if request.DecidedBy != "" {
			view.DecidedText = "By " + names.nameOf(audit.User(request.DecidedBy), r.Session)
		}
		if request.DecidedAt != nil {
			view.DecidedText += ", " + ui.FormatAge(r.Moment(*request.DecidedAt))
		}
		view.DecidedText += "."
		return changeDetail(view), nil
	}
	view.Facts = append(view.Facts, ui.Fact{
		Name: "Ends without a decision", Value: ui.When(r.Moment(request.ExpiresAt)),
	})
	if row.HasEffect {
		view.Facts = append(view.Facts, ui.Fact{Name: "Takes effect", Value: ui.When(row.TakesEffect)})
		view.WaitText = "No other person of your organization could approve it, so it takes effect by itself."
	}
	isOwn, mayChange := request.RequestedBy == r.Session.Member.ID, r.IsAllowed(identity.ChangeControls)
	view.CanRetract, view.CanDecide = isOwn && mayChange, !isOwn && mayChange
	switch {
	case !mayChange:
		view.WhyNot = "Your roles show this change and do not decide about it."
	case isOwn:
		view.WhyNot = "You requested this change, so another person decides about it."
	}
	return changeDetail(view), nil
}

// findDecidedChange returns the page of a change that does not wait any more. Rule PAGE-3.
func (d *dashboard) findDecidedChange(r *pages.Request) (string, error) {
	var request memberchange.Request
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		request, err = memberchange.ByID(ctx, tx, r.Session.OrgID, r.PathParam("changeId"))
		return err
	})
	if err != nil || request.Status == memberchange.Pending {
		return "", err
	}
	return r.Path("settings", "changes", request.ID), nil
}

// historyRow is a change of one setting.
type historyRow struct {
	settingChange
	Author, RequestPath string
	Changed             ui.Moment
}

// settingsHistoryView is what the history shows.
type settingsHistoryView struct {
	Tabs                         []ui.Tab
	Rows                         []historyRow
	FirstPath, NextPath, CSVPath string
}

func (d *dashboard) loadSettingsHistory(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	var found pagination.Result[org.HistoryRow]
	err = d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.SettingsHistory(ctx, tx, r.Session.OrgID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	names, err := d.loadPeople(r)
	if err != nil {
		return nil, err
	}
	view := settingsHistoryView{Tabs: settingsTabs(r, "History"), CSVPath: r.CSVPath()}
	for _, h := range found.Items {
		row := historyRow{
			settingChange: settingChange{
				Label: settingText(h.Setting), From: settingValue(h.Setting, h.From), To: settingValue(h.Setting, h.To),
			},
			Author: names.nameOf(h.Actor, r.Session), Changed: r.Moment(h.ChangedAt),
		}
		if h.MemberChange != "" {
			row.RequestPath = r.Path("settings", "changes", h.MemberChange)
		}
		view.Rows = append(view.Rows, row)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return settingsHistory(view), nil
}

var settingColumns = []kernel.Column[org.HistoryRow]{
	{Name: "setting", Cell: func(h org.HistoryRow) string { return h.Setting }},
	{Name: "from", Cell: func(h org.HistoryRow) string { return string(h.From) }},
	{Name: "to", Cell: func(h org.HistoryRow) string { return string(h.To) }},
	{Name: "changedByType", Cell: func(h org.HistoryRow) string { return h.Actor.Kind }},
	{Name: "changedById", Cell: func(h org.HistoryRow) string { return h.Actor.ID }},
	{Name: "changedAt", Cell: func(h org.HistoryRow) string { return webhook.At(h.ChangedAt).String() }},
	{Name: "changeRequestId", Cell: func(h org.HistoryRow) string { return h.ChangeRequest + h.MemberChange }},
}

func (d *dashboard) writeSettingsHistory(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(
		r.Context(), w, true, settingColumns, eachListed(d.conf.DB, r.Session.OrgID, org.SettingsHistory),
	)
}

// settingValue shows the value of a setting, which is JSON.
func settingValue(name string, raw json.RawMessage) templ.Component {
	if name == "approvalAllowlist" {
		var list []org.AllowlistEntry
		if json.Unmarshal(raw, &list) == nil {
			return allowlistValue(list)
		}
	}
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text == nil {
			return ui.Text(unsetText(name))
		}
		if usd, err := money.ParseUSD(*text); err == nil {
			return ui.Dollars(usd.String())
		}
		if strings.HasSuffix(name, "SeverityThreshold") {
			return ui.Text(severityText(org.Severity(*text)))
		}
		if name == "chargeCustomerCosts" {
			return ui.Text(costsText(org.ChargedCosts(*text)))
		}
		return ui.Foreign(*text)
	}
	var isOn bool
	if json.Unmarshal(raw, &isOn) == nil {
		return ui.Text(onOff(isOn))
	}
	var words []string
	if json.Unmarshal(raw, &words) == nil && len(words) > 0 {
		return ui.Foreign(strings.Join(words, ", "))
	}
	switch {
	case name == "ipAllowlist" && string(raw) == "[]":
		return ui.Text("every address")
	case string(raw) == "[]":
		return ui.Text("none")
	}
	return ui.Foreign(string(raw))
}

// settingText names a setting for people.
func settingText(name string) string {
	if label := memberchange.Label(name); label != "" {
		return label
	}
	switch name {
	case "ipAllowlist":
		return "Addresses from which API keys work"
	case "customerSwapsEnabled":
		return "Customers may swap"
	case "organizationSwapsEnabled":
		return "The organization may swap"
	case "swappableMintIds":
		return "Tokens that may be swapped"
	case "swapFeeBps":
		return "Fee of a swap in hundredths of a percent"
	case "flaggedDepositApiEnabled":
		return "API keys may decide about flagged deposits"
	case "autoRestoreFailedSwaps":
		return "A failed swap gives the money back by itself"
	case "requireWithdrawIdempotency":
		return "A withdrawal needs an idempotency key"
	case "customerFeeDayUsd":
		return "Network fees that one customer may cost in a day"
	case "chargeCustomerCosts":
		return "Costs that customers pay themselves"
	case "additionalApiKeys":
		return "Further API keys"
	case "batchAutoApproveUsd":
		return "Payouts below this amount need no person"
	}
	return ""
}

// unsetText says what holds while a setting has no value.
func unsetText(name string) string {
	switch name {
	case "screeningSeverityThreshold":
		return "not set: flags none"
	case "screeningUsdThreshold":
		return "not set: screens none"
	case "customerWithdrawUsdThreshold", "twoFactorUsdThreshold":
		return "not set: holds none"
	case "withdrawSeverityThreshold":
		return "not set: high, where this service screens"
	case "customerFeeDayUsd":
		return "not set: no limit"
	case "batchAutoApproveUsd":
		return "not set: every payout needs people"
	}
	return "not set"
}

// costsText says which costs customers pay themselves.
func costsText(costs org.ChargedCosts) string {
	switch costs {
	case org.ChargeNone:
		return "none"
	case org.ChargeRent:
		return "the rent of accounts made for payees"
	case org.ChargeRentAndFailures:
		return "that rent, and the fees of payments that failed because of the payee"
	}
	return string(costs)
}

// severityText writes a threshold of risk for people.
func severityText(severity org.Severity) string {
	text := string(severity)
	if text == "NONE" {
		return "none: the least"
	}
	return strings.ToLower(text)
}

// changeChip writes the state of a change for people.
func changeChip(status memberchange.Status) ui.Chip {
	switch status {
	case memberchange.Pending:
		return ui.Chip{Kind: ui.Wait, Word: "Waits"}
	case memberchange.Approved:
		return ui.Chip{Kind: ui.Good, Word: "Approved"}
	case memberchange.Rejected:
		return ui.Chip{Kind: ui.Bad, Word: "Rejected"}
	case memberchange.Retracted:
		return ui.Chip{Kind: ui.Quiet, Word: "Retracted"}
	case memberchange.Effective:
		return ui.Chip{Kind: ui.Good, Word: "Took effect"}
	case memberchange.Expired:
		return ui.Chip{Kind: ui.Quiet, Word: "Expired"}
	case memberchange.Outdated:
		return ui.Chip{Kind: ui.Bad, Word: "Outdated, not in force"}
	}
	return ui.Chip{}
}
