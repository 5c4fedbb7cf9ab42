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
	FailedPayout triggerFailedPayout `cmd:"" help:"Make the chain revert a withdrawal of ETH. It becomes FAILED, its amount returns to the balance, CUSTOMER_WITHDRAW_FAILED is sent, and the next withdrawal to that address waits for an approval."`
	Reorg        triggerReorg        `cmd:"" help:"Replace the block of a deposit of ETH. The deposit is CONFIRMING and then ORPHANED, is never credited, and has no event, except for an endpoint that names CUSTOMER_DEPOSIT_SEEN."`
	Crash        triggerCrash        `cmd:"" help:"Kill the service as kill -9 does, and start it again. Callers get no answer meanwhile; what it has begun continues, and nothing is paid twice."`
	Outage       triggerOutage       `cmd:"" help:"Make the provider of a chain answer 503. The service sees no deposits, withdrawals are accepted and wait, estimates are 503 UNAVAILABLE; all continues after the time, or with --end."`
}

// triggerFlags are the flags of the triggers that act for a customer.
type triggerFlags struct {
	Dir      string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
	Customer string `default:"trigger" help:"The customer of the deposit or withdrawal."`
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
	fmt.Fprintf(std.out, `%s is %s. Its amount is available to %s again, and CUSTOMER_WITHDRAW_FAILED was sent.
The next withdrawal to %s waits for an approval, for DESTINATION_ADDRESS.
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
	fmt.Fprintf(std.out, `%s is %s and was never credited. There is nothing to end: the chain continues without it.
`, d.DepositID, d.Status)
	return nil
}

type triggerCrash struct {
	Dir string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
}

func (c triggerCrash) Run(ctx context.Context, std streams) error {
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	interruption, err := info.InterruptService(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Process %d was killed, and process %d continues.\n", interruption.Killed,
		interruption.Started)
	return nil
}

type triggerOutage struct {
	Dir   string        `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
	Chain string        `default:"ETHEREUM" help:"The chain whose provider does not answer."`
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
	fmt.Fprintf(std.out, `The provider of %s does not answer until %s. Until then the service sees no
deposits, withdrawals are accepted and wait, and POST /withdraw/estimate answers 503 UNAVAILABLE. Everything
continues by itself afterwards;
coffer local trigger outage --chain %s --end ends it now.
`, name, endsAt.UTC().Format(time.TimeOnly), name)
	return nil
}
