package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
)

type settingsCmd struct {
	Show settingsShow `cmd:"" help:"Show an organization's settings."`
	Set  settingsSet  `cmd:"" help:"Change settings of an organization, all or none: customerWithdrawUsdThreshold=10000.00 (or none), requireWithdrawIdempotency=true."`
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
	Words []string `arg:"" name:"org key=value" help:"The organization (left out: the one of the local world), then what to set. Keys: customerWithdrawUsdThreshold, a dollar amount such as 10000.00 or none; requireWithdrawIdempotency, true or false."`
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
	return a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, change := range changes {
			if err := change(ctx, tx, id); err != nil {
				return err
			}
		}
		return tellSettings(ctx, std, tx, id)
	})
}

// change is one setting to write.
type change func(ctx context.Context, tx pg.Tx, orgID string) error

// readChanges reads key=value words. All of them are read before one is written.
func readChanges(words []string) ([]change, error) {
	if len(words) == 0 {
		return nil, errors.New("nothing to set: give key=value, with customerWithdrawUsdThreshold or requireWithdrawIdempotency as the key; nothing was changed")
	}
	by := audit.Operator("cli")
	given := map[string]bool{}
	var changes []change
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not key=value; nothing was changed", word)
		}
		if given[key] {
			return nil, fmt.Errorf("%s is given twice; nothing was changed", key)
		}
		given[key] = true
		switch key {
		case "customerWithdrawUsdThreshold":
			var threshold *money.USD
			if value != "none" {
				v, err := money.ParseUSD(value)
				if err != nil {
					return nil, fmt.Errorf("%s=%s: give dollars such as 10000.00, or none to hold no withdrawal for its value; nothing was changed", key, value)
				}
				threshold = &v
			}
			changes = append(changes, func(ctx context.Context, tx pg.Tx, id string) error {
				return org.SetWithdrawThreshold(ctx, tx, by, id, threshold)
			})
		case "requireWithdrawIdempotency":
			if value != "true" && value != "false" {
				return nil, fmt.Errorf("%s=%s: give true or false; nothing was changed", key, value)
			}
			changes = append(changes, func(ctx context.Context, tx pg.Tx, id string) error {
				return org.SetRequireWithdrawIdempotency(ctx, tx, by, id, value == "true")
			})
		default:
			return nil, fmt.Errorf("there is no setting %q: there are customerWithdrawUsdThreshold and requireWithdrawIdempotency; nothing was changed", key)
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
	fmt.Fprintf(std.out, "%s\n  customerWithdrawUsdThreshold  %s\n  requireWithdrawIdempotency    %t\n", id, threshold, s.RequireWithdrawIdempotency)
	return nil
}
