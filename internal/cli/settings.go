package cli

import (
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
	"github.com/cofferpay/coffer/internal/foureyes"
	"github.com/cofferpay/coffer/internal/localworld"
	operators "github.com/cofferpay/coffer/internal/operator"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

type settingsCmd struct {
	Show    settingsShow    `cmd:"" help:"Show an organization's settings."`
	Set     settingsSet     `cmd:"" help:"Change settings of an organization, all or none."`
	History settingsHistory `cmd:"" help:"Show every change of an organization's settings, and who made it."`
}

type settingsHistory struct {
	installation
	Org string `arg:"" optional:"" help:"The organization, org_…; the one of the local world when it is not said."`
}

func (c settingsHistory) Run(ctx context.Context, std streams) error {
	id, err := organization(c.Org)
	if err != nil {
		return err
	}
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	p := page.Page{Limit: page.LimitMax}
	for {
		var found page.Result[org.HistoryRow]
		err := a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = org.History(ctx, tx, id, p)
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
			fmt.Fprintf(std.out, "%s  %s  %s -> %s  by %s %s%s\n", h.At.UTC().Format(time.RFC3339), h.Setting, plain(h.From), plain(h.To), h.By.Kind, h.By.ID, agreed)
		}
		if found.Next == nil {
			return nil
		}
		p.Cursor = found.Next
	}
}

// identity is who acts as an operator. At a terminal somebody is whoever has the
// configuration; where four eyes are wanted, they say who they are.
type identity struct {
	KeyFile string `type:"existingfile" help:"A file with your operator's key, where the installation wants four eyes on what loosens a control."`
}

func (i identity) who(ctx context.Context, a *app.App) (operators.Key, error) {
	if i.KeyFile == "" {
		return operators.Key{ID: operator.ID}, nil // known as the terminal, and to no second pair of eyes
	}
	text, err := os.ReadFile(i.KeyFile)
	if err != nil {
		return operators.Key{}, fmt.Errorf("--key-file: %w", err)
	}
	return operators.Authenticate(ctx, a.DB(), strings.TrimSpace(string(text)))
}

type changesCmd struct {
	List     changesList     `cmd:"" help:"Show what waits for a second operator, and what did."`
	Approve  changesApprove  `cmd:"" help:"Agree to a change that another operator asked for: it holds from then on."`
	Withdraw changesWithdraw `cmd:"" help:"Take back a change that you asked for."`
}

type changesList struct {
	installation
	All bool `help:"Also what was decided, or whose time is over."`
}

func (c changesList) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	f, p := foureyes.Filter{Status: foureyes.Pending}, page.Page{Limit: page.LimitMax}
	if c.All {
		f.Status = ""
	}
	for {
		var found page.Result[foureyes.Request]
		err := a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = foureyes.List(ctx, tx, f, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range found.Items {
			tellChange(std, r)
		}
		if found.Next == nil {
			return nil
		}
		p.Cursor = found.Next
	}
}

func tellChange(std streams, r foureyes.Request) {
	fmt.Fprintf(std.out, "%s  %s  %s  asked for by %s, until %s\n", r.ID, r.Status, r.OrgID, r.Author, r.ExpiresAt.UTC().Format(time.RFC3339))
	for _, name := range r.Names() {
		fmt.Fprintf(std.out, "  %s  %s -> %s\n", name, plain(r.Was[name]), plain(r.Wanted[name]))
	}
}

type changesApprove struct {
	installation
	identity
	ID string `arg:"" help:"The change request, chg_…"`
}

func (c changesApprove) Run(ctx context.Context, std streams) error {
	return decideChange(ctx, std, c.installation, c.identity, func(ctx context.Context, tx pg.Tx, a *app.App, by operators.Key) (foureyes.Request, error) {
		return foureyes.Approve(ctx, tx, by, c.ID, map[foureyes.Kind]func(context.Context, pg.Tx, foureyes.Request) error{
			foureyes.Settings: org.Agree(by), foureyes.WhitelistedAddress: a.Whitelist().Agree(by),
		})
	})
}

type changesWithdraw struct {
	installation
	identity
	ID string `arg:"" help:"The change request, chg_…"`
}

func (c changesWithdraw) Run(ctx context.Context, std streams) error {
	return decideChange(ctx, std, c.installation, c.identity, func(ctx context.Context, tx pg.Tx, _ *app.App, by operators.Key) (foureyes.Request, error) {
		return foureyes.Withdraw(ctx, tx, by, c.ID)
	})
}

func decideChange(ctx context.Context, std streams, i installation, who identity, verb func(context.Context, pg.Tx, *app.App, operators.Key) (foureyes.Request, error)) error {
	a, err := i.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	by, err := who.who(ctx, a)
	if err != nil {
		return err
	}
	var r foureyes.Request
	err = a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = verb(ctx, tx, a, by)
		return err
	})
	if err != nil {
		return err
	}
	tellChange(std, r)
	return nil
}

type settingsShow struct{ aboutOrg }

func (c settingsShow) Run(ctx context.Context, std streams) error {
	id, a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := tellSettings(ctx, std, tx, id); err != nil {
			return err
		}
		return tellNotPlain(ctx, std, tx, id)
	})
}

// notPlainMax is how many customers are named whose e-mails no rule trusts.
const notPlainMax = 100

// tellNotPlain names the customers whom the approval allowlist cannot have, in escapes
// where their e-mails look like other ones.
func tellNotPlain(ctx context.Context, std streams, tx pg.Tx, id string) error {
	found, err := customer.NotPlain(ctx, tx, id, notPlainMax)
	for _, c := range found {
		fmt.Fprintf(std.out, "customer %s has the e-mail %+q, which can be mistaken for another one: the approval allowlist does not count it; write another one with PATCH /customers\n", c.ID, c.Email)
	}
	return err
}

type settingsSet struct {
	installation
	identity
	Words []string `arg:"" name:"org key=value" help:"The organization (left out: the one of the local world), then what to set. Keys are those of coffer settings show. A threshold is dollars such as 10000.00, or a severity, or none, which may also be written null; a list has commas, or is none: ipAllowlist=203.0.113.7,10.0.0.0/8 swappableMintIds=1,2 approvalAllowlist=ann@example.com,bob@example.com:user_42, the last one for that customer only."`
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
	id, a, err := aboutOrg{c.installation, named}.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	by, err := c.who(ctx, a)
	if err != nil {
		return err
	}
	var out org.Outcome
	err = a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		out, err = org.Ask(ctx, tx, by, a.FourEyes(), id, changes)
		return err
	})
	if err != nil {
		return err
	}
	if out.Waits != nil {
		fmt.Fprintln(std.out, "This loosens a control: it waits until another operator agrees, with coffer changes approve. What else was named holds.")
		tellChange(std, *out.Waits)
		return nil
	}
	fmt.Fprintln(std.out, "Changed. What is decided from now on is decided by it.")
	return a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return tellSettings(ctx, std, tx, id) })
}

// inJSON are the forms in which a terminal writes settings that are no plain JSON.
var inJSON = map[string]func(value string) any{
	"screeningSeverityThreshold":   orNull,
	"screeningUsdThreshold":        orNull,
	"customerWithdrawUsdThreshold": orNull,
	"twoFactorUsdThreshold":        orNull,
	"withdrawSeverityThreshold":    orNull,
	"customerFeeDayUsd":            orNull,
	"chargeCustomerCosts":          orNull,
	"ipAllowlist":                  func(value string) any { return commas(value) },
	"swappableMintIds": func(value string) any {
		ids := []any{}
		for _, word := range commas(value) {
			ids = append(ids, json.RawMessage(word))
		}
		return ids
	},
	"approvalAllowlist": func(value string) any {
		if strings.HasPrefix(value, "[") {
			return json.RawMessage(value) // what e-mails and commas cannot say
		}
		entries := []any{}
		for _, word := range commas(value) {
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

const none = "none"

// orNull reads what a setting shows as none, also as the interface writes it.
func orNull(value string) any {
	if value == none || value == "null" {
		return nil
	}
	return value
}

func commas(value string) []string {
	if value == none {
		return []string{}
	}
	return strings.Split(value, ",")
}

// readChanges reads key=value words. All of them are read before one is written.
func readChanges(words []string) (org.Changes, error) {
	keys := strings.Join(org.Names(), ", ")
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
		if !slices.Contains(org.Names(), key) {
			return nil, fmt.Errorf("there is no setting %q: there are %s; nothing was changed", key, keys)
		}
		text := json.RawMessage(value)
		if form := inJSON[key]; form != nil {
			var err error
			if text, err = json.Marshal(form(value)); err != nil {
				text = json.RawMessage(strconv.Quote(value)) // which the setting refuses in its own words
			}
		}
		changes[key] = text
	}
	return changes, changes.Check()
}

// organization is the one that is named, or the one of the local world here.
func organization(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	info, err := localworld.Read(".")
	if err != nil {
		return "", fmt.Errorf("say which organization, org_…: %w", err)
	}
	return info.OrganizationID, nil
}

func tellSettings(ctx context.Context, std streams, tx pg.Tx, id string) error {
	s, err := org.SettingsOf(ctx, tx, id)
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, id)
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, m := range s.Members() {
		line := "  " + m.Name + "\t" + plain(m.Value)
		if what, later := org.Later[m.Name]; later {
			line += "\tkept for later: this version does not have " + what
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// plain shows a setting as a terminal writes it.
func plain(value json.RawMessage) string {
	var word *string
	if json.Unmarshal(value, &word) == nil {
		if word == nil {
			return none
		}
		return *word
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return string(value)
	}
	if len(list) == 0 {
		return none
	}
	words := make([]string, 0, len(list))
	for _, one := range list {
		if one[0] == '{' {
			return string(value)
		}
		words = append(words, plain(one))
	}
	return strings.Join(words, ",")
}
