package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	operators "github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

type settingsCmd struct {
	Show    settingsShow    `cmd:"" help:"Show an organization's settings."`
	Set     settingsSet     `cmd:"" help:"Change settings of an organization, all or none."`
	History settingsHistory `cmd:"" help:"Show every change of an organization's settings, and who made it."`
}

type settingsHistory struct {
	configFlags
	Org string `arg:"" optional:"" help:"The organization, org_…; the one of the local world if left out."`
}

func (c settingsHistory) Run(ctx context.Context, std streams) error {
	id, err := resolveOrg(c.Org)
	if err != nil {
		return err
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p := pagination.Page{Limit: pagination.LimitMax}
	for {
		var found pagination.Result[org.HistoryRow]
		err := tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = org.SettingsHistory(ctx, tx, id, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, h := range found.Items {
			agreed := ""
			if h.ChangeRequest != "" {
				agreed = " (" + h.ChangeRequest + ")"
			}
			fmt.Fprintf(std.out, "%s  %s  %s -> %s  by %s %s%s\n", h.ChangedAt.UTC().Format(time.RFC3339), h.Setting,
				formatSetting(h.From), formatSetting(h.To), h.Actor.Kind, h.Actor.ID, agreed)
		}
		if found.NextCursor == nil {
			return nil
		}
		p.Cursor = found.NextCursor
	}
}

// operatorFlags identify the operator. At a terminal that is the person with access to the
// configuration; under dual control an operator's key identifies them.
type operatorFlags struct {
	KeyFile string `type:"existingfile" help:"A file with your operator's key, if the installation requires four eyes to loosen a control."`
}

func (i operatorFlags) authenticate(ctx context.Context, tools *app.App) (operators.Key, error) {
	if i.KeyFile == "" {
		// It identifies the terminal, which does not count under dual control.
		return operators.Key{ID: operator.ID}, nil
	}
	text, err := os.ReadFile(i.KeyFile)
	if err != nil {
		return operators.Key{}, fmt.Errorf("--key-file: %w", err)
	}
	return operators.Authenticate(ctx, tools.DB(), strings.TrimSpace(string(text)))
}

type changesCmd struct {
	List     changesList     `cmd:"" help:"Show change requests that wait for a second operator, and those that have ended."`
	Approve  changesApprove  `cmd:"" help:"Approve a change that another operator requested: it takes effect at once."`
	Withdraw changesWithdraw `cmd:"" help:"Withdraw your own change request."`
}

type changesList struct {
	configFlags
	All bool `help:"Also those that were decided or have expired."`
}

func (c changesList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f, p := changerequest.Filter{Status: changerequest.Pending}, pagination.Page{Limit: pagination.LimitMax}
	if c.All {
		f.Status = ""
	}
	for {
		var found pagination.Result[changerequest.Request]
		err := tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = changerequest.List(ctx, tx, f, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range found.Items {
			printChange(std, r)
		}
		if found.NextCursor == nil {
			return nil
		}
		p.Cursor = found.NextCursor
	}
}

func printChange(std streams, r changerequest.Request) {
	fmt.Fprintf(std.out, "%s  %s  %s  requested by %s, until %s\n", r.ID, r.Status,
		cmp.Or(r.OrgID, "installation"), r.Author,
		r.ExpiresAt.UTC().Format(time.RFC3339))
	for _, name := range r.ChangedNames() {
		fmt.Fprintf(std.out, "  %s  %s -> %s\n", name, formatSetting(r.Before[name]), formatSetting(r.Wanted[name]))
	}
}

type changesApprove struct {
	configFlags
	operatorFlags
	ID string `arg:"" help:"The change request, chg_…"`
}

func (c changesApprove) Run(ctx context.Context, std streams) error {
	return decideChange(ctx, std, c.configFlags, c.operatorFlags,
		func(ctx context.Context, tx pg.Tx, tools *app.App, approver operators.Key) (changerequest.Request, error) {
			return changerequest.Approve(ctx, tx, approver, c.ID,
				map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
					changerequest.Settings:           org.ApplyApproved(approver),
					changerequest.WhitelistedAddress: tools.Whitelist.ApplyApproved(approver),
					changerequest.SwapWriteOff:       tools.Swaps.ApplyApproved(approver),
					changerequest.BillingTerms:       tools.Billing.ApplyApproved(approver),
				})
		})
}

type changesWithdraw struct {
	configFlags
	operatorFlags
	ID string `arg:"" help:"The change request, chg_…"`
}

func (c changesWithdraw) Run(ctx context.Context, std streams) error {
	return decideChange(ctx, std, c.configFlags, c.operatorFlags,
		func(ctx context.Context, tx pg.Tx, _ *app.App, author operators.Key) (changerequest.Request, error) {
			return changerequest.Retract(ctx, tx, author, c.ID)
		})
}

func decideChange(
	ctx context.Context, std streams, i configFlags, flags operatorFlags,
	verb func(context.Context, pg.Tx, *app.App, operators.Key) (changerequest.Request, error),
) error {
	tools, err := i.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := flags.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var r changerequest.Request
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = verb(ctx, tx, tools, key)
		return err
	})
	if err != nil {
		return err
	}
	printChange(std, r)
	return nil
}

type settingsShow struct{ orgFlags }

func (c settingsShow) Run(ctx context.Context, std streams) error {
	id, tools, err := c.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := printSettings(ctx, std, tx, id); err != nil {
			return err
		}
		return printUntrustedEmails(ctx, std, tx, id)
	})
}

// untrustedEmailsMax bounds the listed customers with untrusted e-mails.
const untrustedEmailsMax = 100

// printUntrustedEmails lists the customers that the approval allowlist cannot match. It escapes
// e-mails that look like other ones.
func printUntrustedEmails(ctx context.Context, std streams, tx pg.Tx, id string) error {
	found, err := customer.ListNotPlain(ctx, tx, id, untrustedEmailsMax)
	for _, c := range found {
		fmt.Fprintf(
			std.out,
			"customer %s has the e-mail %+q, which looks like another one: the approval allowlist does not count it; "+
				"write another one with PATCH /customers\n",
			c.ID, c.Email,
		)
	}
	return err
}

type settingsSet struct {
	configFlags
	operatorFlags
	Words []string `arg:"" name:"org key=value" help:"The organization (the one of the local world if left out), then the settings. Keys are those of coffer settings show. A threshold is dollars such as 10000.00, or a severity, or none, also written null; a list has commas, or is none: ipAllowlist=203.0.113.7,10.0.0.0/8 swappableMintIds=1,2 approvalAllowlist=ann@example.com,bob@example.com:user_42, where the last entry is for that customer only."`
}

func (c settingsSet) Run(ctx context.Context, std streams) error {
	words, named := c.Words, ""
	if !strings.Contains(words[0], "=") {
		named, words = words[0], words[1:]
	}
	changes, err := readChanges(words)
	if err != nil {
		return err
	}
	id, tools, err := orgFlags{c.configFlags, named}.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var outcome org.Outcome
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = org.RequestChange(ctx, tx, key, tools.FourEyes(), id, changes)
		return err
	})
	if err != nil {
		return err
	}
	if outcome.Pending != nil {
		fmt.Fprintln(
			std.out,
			"This loosens a control: it waits until another operator approves it, with coffer changes approve. The "+
				"other settings are in force.",
		)
		printChange(std, *outcome.Pending)
		return nil
	}
	fmt.Fprintln(std.out, "Changed. Every later decision uses the new settings.")
	return tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return printSettings(ctx, std, tx, id)
	})
}

// settingForms are the terminal's forms of settings that are not plain JSON.
var settingForms = map[string]func(value string) any{
	"screeningSeverityThreshold":   nullIfNone,
	"screeningUsdThreshold":        nullIfNone,
	"customerWithdrawUsdThreshold": nullIfNone,
	"twoFactorUsdThreshold":        nullIfNone,
	"withdrawSeverityThreshold":    nullIfNone,
	"customerFeeDayUsd":            nullIfNone,
	"batchAutoApproveUsd":          nullIfNone,
	"chargeCustomerCosts":          nullIfNone,
	"ipAllowlist":                  func(value string) any { return splitList(value) },
	"swappableMintIds": func(value string) any {
		ids := []any{}
		for _, word := range splitList(value) {
			ids = append(ids, json.RawMessage(word))
		}
		return ids
	},
	"approvalAllowlist": func(value string) any {
		if strings.HasPrefix(value, "[") {
			return json.RawMessage(value) // JSON, for entries that the short form cannot express
		}
		entries := []any{}
		for _, word := range splitList(value) {
			entry := map[string]string{}
			email, customerID, bound := strings.Cut(word, ":")
			if entry["email"] = email; bound {
				entry["customerId"] = customerID
			}
			entries = append(entries, entry)
		}
		return entries
	},
}

const noneWord = "none"

// nullIfNone converts "none", and the interface's "null", to nil.
func nullIfNone(value string) any {
	if value == noneWord || value == "null" {
		return nil
	}
	return value
}

func splitList(value string) []string {
	if value == noneWord {
		return []string{}
	}
	return strings.Split(value, ",")
}

// readChanges reads key=value words. It reads all of them before one is written.
func readChanges(words []string) (org.Changes, error) {
	keys := strings.Join(org.SettingNames(), ", ")
	if len(words) == 0 {
		return nil, fmt.Errorf("nothing to set: give key=value, with one of %s as the key; nothing was changed", keys)
	}
	changes := org.Changes{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not key=value; nothing was changed", word)
		}
		if changes[key] != nil {
			return nil, fmt.Errorf("%s is given twice; nothing was changed", key)
		}
		if !slices.Contains(org.SettingNames(), key) {
			return nil, fmt.Errorf("there is no setting %q; the settings are %s; nothing was changed", key, keys)
		}
		text := json.RawMessage(value)
		if form := settingForms[key]; form != nil {
			var err error
			if text, err = json.Marshal(form(value)); err != nil {
				text = json.RawMessage(strconv.Quote(value)) // the setting refuses it with its own message
			}
		}
		changes[key] = text
	}
	return changes, changes.Check()
}

// resolveOrg returns the named organization, or that of the local world here.
func resolveOrg(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	info, err := localworld.ReadInfo(".")
	if err != nil {
		return "", fmt.Errorf("name the organization, org_…: %w", err)
	}
	return info.OrganizationID, nil
}

func printSettings(ctx context.Context, std streams, tx pg.Tx, id string) error {
	s, err := org.SettingsOf(ctx, tx, id)
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, id)
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, m := range s.ListValues() {
		line := "  " + m.Name + "\t" + formatSetting(m.Value)
		if feature, later := org.UnavailableSettings[m.Name]; later {
			line += "\tstored for later: this version does not have " + feature
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// formatSetting formats a setting in the terminal's form.
func formatSetting(value json.RawMessage) string {
	var word *string
	if json.Unmarshal(value, &word) == nil {
		if word == nil {
			return noneWord
		}
		return *word
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return string(value)
	}
	if len(list) == 0 {
		return noneWord
	}
	words := make([]string, 0, len(list))
	for _, item := range list {
		if item[0] == '{' {
			return string(value)
		}
		words = append(words, formatSetting(item))
	}
	return strings.Join(words, ",")
}
