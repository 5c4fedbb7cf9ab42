package console

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// settingKind says how the value of a setting is typed.
type settingKind int

// How values are typed.
const (
	wordSetting   settingKind = iota // one of words; "" is null
	dollarSetting                    // an amount; "" is null
	numberSetting
	switchSetting
	numbersSetting   // separated by commas
	addressesSetting // separated by commas
	entriesSetting   // of the approval allowlist, separated by commas
)

// settingForm is how the pages show a setting.
type settingForm struct {
	Title, Hint string
	Kind        settingKind
	Words       []string
}

var (
	severityWords = []string{"NONE", "LOW", "MEDIUM", "HIGH", "SEVERE"}
	costWords     = []string{"NONE", "RENT", "RENT_AND_FAILURES"}
)

// settingForms has each setting of the interface.
var settingForms = map[string]settingForm{
	"screeningSeverityThreshold": {
		"Severity above which deposits are flagged", "Nothing chosen: no sender is screened.", wordSetting,
		severityWords,
	},
	"screeningUsdThreshold": {
		"Dollars above which deposits are screened", "Empty: no deposit is screened.", dollarSetting, nil,
	},
	"customerWithdrawUsdThreshold": {
		"Dollars above which withdrawals of customers wait", "Empty: none waits for its value.", dollarSetting, nil,
	},
	"twoFactorUsdThreshold": {
		"Dollars above which own withdrawals wait", "Empty: none waits for its value.", dollarSetting, nil,
	},
	"withdrawSeverityThreshold": {
		"Severity above which destinations are refused", "Nothing chosen: HIGH, where this service screens.",
		wordSetting, severityWords,
	},
	"approvalAllowlist": {
		"Approval allowlist", "E-mails, separated by commas. After an e-mail, a space and a customer id limit it to " +
			"that customer; a minus sign before it switches the entry off.", entriesSetting, nil,
	},
	"approvalQuorum":           {"Approvals that a withdrawal needs", "1 to 10.", numberSetting, nil},
	"ipAllowlist":              {"IP list", "Addresses and networks, separated by commas.", addressesSetting, nil},
	"customerSwapsEnabled":     {"Swaps of customers", "", switchSetting, nil},
	"organizationSwapsEnabled": {"Swaps of the organization", "", switchSetting, nil},
	"swappableMintIds": {
		"Tokens that can be swapped", "Numbers of tokens, separated by commas.", numbersSetting, nil,
	},
	"swapFeeBps":               {"Fee of swaps in basis points", "0 to 1000.", numberSetting, nil},
	"flaggedDepositApiEnabled": {"The API key decides about flagged deposits", "", switchSetting, nil},
	"autoRestoreFailedSwaps":   {"Failed swaps are restored by themselves", "", switchSetting, nil},
	"requireWithdrawIdempotency": {
		"Withdrawals need an idempotency key", "", switchSetting, nil,
	},
	"customerFeeDayUsd": {
		"Dollars that withdrawals of a customer may cost in a day", "Empty: no limit.", dollarSetting, nil,
	},
	"chargeCustomerCosts": {"Costs that customers pay", "", wordSetting, costWords},
	"additionalApiKeys":   {"Further API keys", "", switchSetting, nil},
	"batchAutoApproveUsd": {
		"Dollars below which a batch payout needs no person",
		"Empty: every batch needs people. The signer's policy has to name the coins in unapprovedBatches.",
		dollarSetting, nil,
	},
}

// switchWords are the words of a switch, for true and false.
const (
	onWord  = "on"
	offWord = "off"
)

// formatSetting writes a value as the form takes it.
func formatSetting(kind settingKind, value json.RawMessage) string {
	if bytes.Equal(value, []byte("null")) {
		return ""
	}
	switch kind {
	case wordSetting, dollarSetting:
		var text string
		if json.Unmarshal(value, &text) == nil {
			return text
		}
	case switchSetting:
		if bytes.Equal(value, []byte("true")) {
			return onWord
		}
		return offWord
	case numbersSetting:
		var list []int
		if json.Unmarshal(value, &list) == nil {
			texts := make([]string, 0, len(list))
			for _, n := range list {
				texts = append(texts, strconv.Itoa(n))
			}
			return strings.Join(texts, ", ")
		}
	case addressesSetting:
		var list []string
		if json.Unmarshal(value, &list) == nil {
			return strings.Join(list, ", ")
		}
	case entriesSetting:
		var list []org.AllowlistEntry
		if json.Unmarshal(value, &list) == nil {
			return formatEntries(list)
		}
	case numberSetting:
	}
	return string(value)
}

func formatEntries(list []org.AllowlistEntry) string {
	texts := make([]string, 0, len(list))
	for _, e := range list {
		text := e.Email
		if !e.Active {
			text = "-" + text
		}
		if e.CustomerID != "" {
			text += " " + e.CustomerID
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// parseSetting reads what the form has. The feature checks the value.
func parseSetting(kind settingKind, text string) (json.RawMessage, error) {
	var value any
	switch kind {
	case wordSetting, dollarSetting:
		value = text
		if text == "" {
			value = nil
		}
	case switchSetting:
		if text != onWord && text != offWord {
			return nil, newValueFault("Choose on or off.")
		}
		value = text == onWord
	case numberSetting:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, newValueFault("Enter a whole number.")
		}
		value = n
	case numbersSetting:
		list := []int{}
		for _, part := range splitList(text) {
			n, err := strconv.Atoi(part)
			if err != nil {
				return nil, newValueFault("Enter whole numbers, separated by commas.")
			}
			list = append(list, n)
		}
		value = list
	case addressesSetting:
		value = splitList(text)
	case entriesSetting:
		list := []org.AllowlistEntry{}
		for _, part := range splitList(text) {
			email, isOff := strings.CutPrefix(part, "-")
			email, customerID, _ := strings.Cut(email, " ")
			list = append(list, org.AllowlistEntry{
				Email: email, CustomerID: strings.TrimSpace(customerID), Active: !isOff,
			})
		}
		value = list
	}
	return json.Marshal(value)
}

func newValueFault(text string) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", text).WithParam("value")
}

// splitList splits a list at commas and at ends of lines, without empty parts.
func splitList(text string) []string {
	parts := []string{}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == ';' }) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// settingsTable shows the settings of an organization, each with the page that changes it.
func (c *console) settingsTable(r *pages.Request, name string, s org.Settings) table {
	t := table{Caption: "Settings", Columns: textColumns("Setting", "Value")}
	canChange := r.IsAllowed(identity.ChangeSettings)
	if canChange {
		t.Columns = append(t.Columns, column{Title: "Change", IsUnseen: true})
	}
	for _, item := range s.ListValues() {
		form := settingForms[item.Name]
		row := []templ.Component{
			pair(ui.Text(form.Title), ui.Code(item.Name)),
			foreignOrNothing(formatSetting(form.Kind, item.Value), "not set"),
		}
		if canChange {
			row = append(row, openLink(r.Path("organizations", name, "settings", item.Name), "Change", form.Title))
		}
		t.addRow(row...)
	}
	return t
}

// settingPage changes one setting of an organization.
func (c *console) settingPage() pages.Page {
	return pages.Page{
		Path: "/organizations/{organizationId}/settings/{setting}", Title: "Change a setting",
		Action: identity.ReadInstallation, Load: c.loadSetting,
		Live: []string{"ORGANIZATION", "CHANGE_REQUEST"}, LiveOfAll: true,
		Acts: []pages.Act{{
			Name: "change", Action: identity.ChangeSettings, StepUp: pages.SudoStepUp,
			Fields: []pages.Field{
				{Name: "value", BytesMax: valueBytesMax, Optional: true},
				{Name: "before", BytesMax: valueBytesMax, Missing: "Open the page again."},
			},
			Run: func(r *pages.Request) (string, error) {
				name, err := organizationID(r)
				if err != nil {
					return "", err
				}
				setting := r.PathParam("setting")
				wanted, err := parseSetting(settingForms[setting].Kind, r.Values["value"])
				if err != nil {
					return "", err
				}
				return c.changeSetting(r, name, setting, json.RawMessage(r.Values["before"]), wanted)
			},
		}},
	}
}

// changeSetting changes a setting whose value the operator saw. It returns the page that shows the result:
// that of the change request if another operator has to approve. The same change again, by a second click
// or an old tab, finds the first one.
func (c *console) changeSetting(
	r *pages.Request, name, setting string, before, wanted json.RawMessage,
) (string, error) {
	var outcome org.Outcome
	var pendingID string
	err := c.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		outcome, pendingID = org.Outcome{}, ""
		current, err := settingOf(ctx, tx, name, setting)
		if err != nil {
			return err
		}
		waiting, err := changerequest.ListPending(ctx, tx, name)
		if err != nil {
			return err
		}
		for _, request := range waiting {
			if bytes.Equal(request.Wanted[setting], wanted) && request.AuthorKey == holder(r).ID {
				pendingID = request.ID
				return nil
			}
		}
		switch {
		case bytes.Equal(current, wanted):
			return nil
		case !bytes.Equal(current, before):
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"This setting was changed after you opened the page.").
				WithAdvice("Look at its value before you change it again.")
		}
		outcome, err = org.RequestChange(ctx, tx, holder(r), c.conf.FourEyes, name, org.Changes{setting: wanted})
		return err
	})
	if f := fault.Find(err); f != nil && f.Param == setting {
		return "", f.WithParam("value")
	}
	if err != nil {
		return "", err
	}
	if outcome.Pending != nil {
		pendingID = outcome.Pending.ID
	}
	if pendingID != "" {
		return r.Path("changes", pendingID), nil
	}
	if setting == ipListSetting {
		return r.Path("organizations", name, "addresses"), nil
	}
	return r.Path("organizations", name), nil
}

// settingOf reads the value of a setting in JSON. Error: NOT_FOUND.
func settingOf(ctx context.Context, tx pg.Tx, name, setting string) (json.RawMessage, error) {
	s, err := org.SettingsOf(ctx, tx, name)
	if err != nil {
		return nil, err
	}
	for _, item := range s.ListValues() {
		if item.Name == setting {
			return item.Value, nil
		}
	}
	return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no such setting.")
}

// settingView is what the page shows.
type settingView struct {
	BackPath, Name, Title, Hint, Value string
	Change                             *actView
}

func (c *console) loadSetting(r *pages.Request) (templ.Component, error) {
	name, err := organizationID(r)
	if err != nil {
		return nil, err
	}
	setting := r.PathParam("setting")
	var value json.RawMessage
	var organization org.View
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if organization, err = org.LoadView(ctx, tx, name); err == nil {
			value, err = settingOf(ctx, tx, name, setting)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	form := settingForms[setting]
	view := settingView{
		BackPath: r.Path("organizations", name), Name: organization.Name, Title: form.Title, Hint: form.Hint,
		Value: formatSetting(form.Kind, value),
	}
	if r.IsAllowed(identity.ChangeSettings) {
		view.Change = newSettingForm(r, r.Path("organizations", name, "settings", setting), form, value)
	}
	return settingOverview(view), nil
}

func newSettingForm(r *pages.Request, path string, form settingForm, value json.RawMessage) *actView {
	present := formatSetting(form.Kind, value)
	act := &actView{
		Path: path, Act: "change", Form: r.Form, Button: "Change the setting", IsPrimary: true,
		Text:   "A change that loosens a control may need another operator.",
		Hidden: []hiddenField{{"before", string(value)}},
	}
	switch form.Kind {
	case wordSetting, switchSetting:
		words := optionsOf(form.Words...)
		if form.Kind == switchSetting {
			words = optionsOf(offWord, onWord)
		} else if !slices.Contains(form.Words, present) || form.Title != settingForms["chargeCustomerCosts"].Title {
			words = append([]option{{"", "not set"}}, words...)
		}
		act.Choices = []choice{{Act: "change", Name: "value", Label: form.Title, Value: present, Options: words}}
	default:
		if act.Form.Act != "change" {
			act.Form = ui.Form{Act: "change", Typed: map[string]string{"value": present}}
		}
		act.Inputs = []ui.Input{{
			Act: "change", Name: "value", Label: form.Title, Type: "text", Hint: form.Hint, Autocomplete: "off",
			Optional: form.Kind != numberSetting,
		}}
	}
	return act
}
