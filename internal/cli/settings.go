package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
)

type settingsCmd struct {
	Show settingsShow `cmd:"" help:"Show an organization's settings."`
	Set  settingsSet  `cmd:"" help:"Change settings of an organization, all or none."`
}

type settingsShow struct{ aboutOrg }

func (c settingsShow) Run(ctx context.Context, std streams) error {
	id, a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return tellSettings(ctx, std, tx, id) })
}

type settingsSet struct {
	installation
	Words []string `arg:"" name:"org key=value" help:"The organization (left out: the one of the local world), then what to set. Keys are those of coffer settings show. A threshold is dollars such as 10000.00, or a severity, or none; a list has commas, or is none: ipAllowlist=203.0.113.7,10.0.0.0/8 swappableMintIds=1,2 approvalAllowlist=ann@example.com,bob@example.com:user_42, the last one for that customer only."`
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
	err = a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, operator, id, changes)
		return err
	})
	if err != nil {
		return err
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

func orNull(value string) any {
	if value == none {
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
