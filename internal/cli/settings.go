package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
)

type settingsCmd struct {
	Show settingsShow `cmd:"" help:"Show an organization's settings."`
	Set  settingsSet  `cmd:"" help:"Change settings of an organization, all or none: customerWithdrawUsdThreshold=10000.00 (or none), requireWithdrawIdempotency=true, ipAllowlist=203.0.113.7,10.0.0.0/8 (or none)."`
}

type settingsShow struct {
	installation
	Org string `arg:"" optional:"" help:"The organization, org_…; the one of the local world when it is not said."`
}

func (c settingsShow) Run(ctx context.Context, std streams) error {
	id, err := organization(c.Org)
	if err != nil {
		return err
	}
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return tellSettings(ctx, std, tx, id) })
}

type settingsSet struct {
	installation
	Words []string `arg:"" name:"org key=value" help:"The organization (left out: the one of the local world), then what to set. Keys: customerWithdrawUsdThreshold, a dollar amount such as 10000.00 or none; requireWithdrawIdempotency, true or false; ipAllowlist, addresses and networks with commas, or none."`
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
	id, err := organization(named)
	if err != nil {
		return err
	}
	a, err := c.tools(ctx)
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

// settable are the keys that this version acts on, each with how its value is read.
var settable = map[string]func(value string, into *org.Changes) error{
	"customerWithdrawUsdThreshold": func(value string, into *org.Changes) error {
		into.CustomerWithdrawUSDThreshold = &org.To[*money.USD]{}
		if value == "none" {
			return nil
		}
		v, err := money.ParseUSD(value)
		if err != nil {
			return errors.New("give dollars such as 10000.00, or none to hold no withdrawal for its value")
		}
		into.CustomerWithdrawUSDThreshold.Value = &v
		return nil
	},
	"ipAllowlist": func(value string, into *org.Changes) error {
		var texts []string
		if value != "none" {
			texts = strings.Split(value, ",")
		}
		list, err := org.ParseIPAllowlist(texts)
		if err != nil {
			return errors.New("give addresses and networks such as 203.0.113.7,10.0.0.0/8, or none to let every address in")
		}
		into.IPAllowlist = &org.To[[]netip.Prefix]{Value: list}
		return nil
	},
	"requireWithdrawIdempotency": func(value string, into *org.Changes) error {
		if value != "true" && value != "false" {
			return errors.New("give true or false")
		}
		into.RequireWithdrawIdempotency = &org.To[bool]{Value: value == "true"}
		return nil
	},
}

// readChanges reads key=value words. All of them are read before one is written.
func readChanges(words []string) (changes org.Changes, err error) {
	keys := strings.Join(slices.Sorted(maps.Keys(settable)), ", ")
	if len(words) == 0 {
		return changes, fmt.Errorf("nothing to set: give key=value, with one of %s as the key; nothing was changed", keys)
	}
	given := map[string]bool{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return changes, fmt.Errorf("%q is not key=value; nothing was changed", word)
		}
		if given[key] {
			return changes, fmt.Errorf("%s is given twice; nothing was changed", key)
		}
		given[key] = true
		read, known := settable[key]
		if !known && org.Later[key] != "" {
			return changes, org.NotYet(key)
		}
		if !known {
			return changes, fmt.Errorf("there is no setting %q: there are %s; nothing was changed", key, keys)
		}
		if err := read(value, &changes); err != nil {
			return changes, fmt.Errorf("%s=%s: %w; nothing was changed", key, value, err)
		}
	}
	return changes, nil
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
	threshold := "none"
	if s.CustomerWithdrawUSDThreshold != nil {
		threshold = s.CustomerWithdrawUSDThreshold.String()
	}
	list, err := org.IPAllowlist(ctx, tx, id)
	if err != nil {
		return err
	}
	callers := "none"
	for i, p := range list {
		if i == 0 {
			callers = p.String()
		} else {
			callers += "," + p.String()
		}
	}
	fmt.Fprintf(std.out, "%s\n  customerWithdrawUsdThreshold  %s\n  requireWithdrawIdempotency    %t\n  ipAllowlist                   %s\n", id, threshold, s.RequireWithdrawIdempotency, callers)
	return nil
}
