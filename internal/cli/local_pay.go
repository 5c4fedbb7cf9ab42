package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld"
)

// localPay plays a payer of a checkout.
type localPay struct {
	Dir      string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
	Checkout string `arg:"" help:"The checkout's id, co_…."`
	Scenario string `default:"exact" help:"How it is paid: exact, under, over, twice, late, wrong-token, other-network, below-minimum, flagged, reorged."`
	Mint     int    `required:"" help:"The mint whose option is opened and paid."`
}

func (c localPay) Run(ctx context.Context, std streams) error {
	i := slices.IndexFunc(localworld.PayScenarios, func(s localworld.PayScenario) bool { return s.Name == c.Scenario })
	if i < 0 {
		var names []string
		for _, s := range localworld.PayScenarios {
			names = append(names, s.Name)
		}
		return fmt.Errorf("--scenario %s: there is none; name one of %s. Nothing was sent", c.Scenario,
			strings.Join(names, ", "))
	}
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	scenario := localworld.PayScenarios[i]
	fmt.Fprintf(std.out, "The payer %s.\n", scenario.Action)
	payer := localworld.Payer{
		Info:   info,
		Report: func(format string, args ...any) { fmt.Fprintf(std.out, "  "+format+"\n", args...) },
	}
	paid, err := payer.Pay(ctx, c.Checkout, c.Mint, scenario.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is %s, exception %s. Expect: %s.\n", paid.CheckoutID, paid.Status, paid.Exception,
		scenario.Outcome)
	return nil
}
