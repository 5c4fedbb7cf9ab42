package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
)

// localTrigger causes failures that a backend meets in production.
type localTrigger struct {
	FailedPayout triggerFailedPayout `cmd:"" help:"Have a withdrawal of ETH reverted by the chain. It becomes FAILED, its amount returns to the balance, CUSTOMER_WITHDRAW_FAILED is sent, and the next withdrawal to that address waits for a person."`
	Reorg        triggerReorg        `cmd:"" help:"Have the block of a deposit of ETH replaced. The deposit is CONFIRMING and then ORPHANED, is never credited, and no event tells of it unless an endpoint named CUSTOMER_DEPOSIT_SEEN."`
	Outage       triggerOutage       `cmd:"" help:"Have the provider of a chain answer 503. Deposits are not seen, withdrawals are accepted and wait, estimates are 503 UNAVAILABLE; all go on when the time is over or with --end."`
}

// triggerFlags are the flags of the triggers that act for a customer.
type triggerFlags struct {
	Dir      string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
	Customer string `default:"trigger" help:"The customer that it happens to."`
}

func (c triggerFlags) newTrigger(std streams) (*localworld.Trigger, error) {
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return nil, err
	}
	return &localworld.Trigger{
		Info: info, Customer: c.Customer,
		Report: func(format string, args ...any) { fmt.Fprintf(std.out, "  "+format+"\n", args...) },
	}, nil
}

type triggerFailedPayout struct{ triggerFlags }

func (c triggerFailedPayout) Run(ctx context.Context, std streams) error {
	t, err := c.newTrigger(std)
	if err != nil {
		return err
	}
	w, err := t.FailedPayout(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, `%s is %s. Its amount is available to %s again, and CUSTOMER_WITHDRAW_FAILED tells of it.
The next withdrawal to %s waits for a person, for DESTINATION_ADDRESS.
`, w.WithdrawalID, formatStatus(w), c.Customer, w.ToAddress)
	return nil
}

type triggerReorg struct{ triggerFlags }

func (c triggerReorg) Run(ctx context.Context, std streams) error {
	t, err := c.newTrigger(std)
	if err != nil {
		return err
	}
	d, err := t.ReorgDeposit(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, `%s is %s and was never credited. Nothing has to be ended: the chain goes on without it.
`, d.DepositID, d.Status)
	return nil
}

type triggerOutage struct {
	Dir   string        `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
	Chain string        `default:"ETHEREUM" help:"The chain whose provider is out."`
	For   time.Duration `default:"30s" help:"How long, at most a day."`
	End   bool          `help:"End the outage now."`
}

// outageMax is the longest outage.
const outageMax = 24 * time.Hour

func (c triggerOutage) Run(std streams) error {
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	name := chain.Name(strings.ToUpper(c.Chain))
	if !slices.Contains(localworld.AllChains, name) {
		return fmt.Errorf("--chain %s: there is no local chain of it; name one of %v", c.Chain, localworld.AllChains)
	}
	if c.End {
		if err := info.SetOutage(name, time.Time{}); err != nil {
			return err
		}
		fmt.Fprintf(std.out, "The provider of %s answers again.\n", name)
		return nil
	}
	if c.For <= 0 || c.For > outageMax {
		return fmt.Errorf("--for %s: give a time up to %s, such as 30s", c.For, outageMax)
	}
	endsAt := time.Now().Add(c.For)
	if err := info.SetOutage(name, endsAt); err != nil {
		return err
	}
	fmt.Fprintf(std.out, `The provider of %s is out until %s. Until then deposits are not seen, withdrawals are
accepted and wait, and POST /withdraw/estimate answers 503 UNAVAILABLE. What waits goes on by itself afterwards;
coffer local trigger outage --chain %s --end ends it now.
`, name, endsAt.UTC().Format(time.TimeOnly), name)
	return nil
}
