package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
)

// localSwaps controls the swap provider of the local world.
type localSwaps struct {
	Behave swapsBehave `cmd:"" help:"Make the local swap provider misbehave, or end that with none."`
	Price  swapsPrice  `cmd:"" help:"Set the price at which the local swap provider quotes a mint."`
	Show   swapsShow   `cmd:"" help:"Show the behaviour, the prices and the swaps of the local swap provider."`
}

// swapsFlags find the local world.
type swapsFlags struct {
	Dir string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
}

type swapsBehave struct {
	swapsFlags
	Mode  string `arg:"" help:"How it misbehaves: refund, fail, stall, short, split, double, over, late, other-token, other-chain, lie-success, lie-refunded, refund-other, bad-signature, other-recipient, our-address, price, reject, down, slow, garbage; none ends it."`
	Count int    `name:"next" placeholder:"N" help:"Only for the next N firm quotes, or N calls with reject, down, slow and garbage; for all if left out."`
	Mint  int    `placeholder:"ID" xor:"asset" help:"Only for swaps from or to this mint."`
	Token string `placeholder:"SYMBOL" xor:"asset" help:"Only for swaps from this token, which is no mint, such as LINK."`
}

func (c swapsBehave) Run(ctx context.Context, std streams) error {
	modes := localworld.SwapModes()
	if !slices.Contains(modes, c.Mode) {
		return fmt.Errorf("%s is no behaviour of the local swap provider; name one of %s. Nothing was changed", c.Mode,
			strings.Join(modes, ", "))
	}
	if c.Count < 0 {
		return fmt.Errorf("--next %d: give a number above 0, or leave it out. Nothing was changed", c.Count)
	}
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	if _, isKnown := info.FindMint(c.Mint); c.Mint != 0 && !isKnown {
		return fmt.Errorf("there is no mint %d; %s lists the mints. Nothing was changed", c.Mint, localworld.InfoFile)
	}
	set := func() error { return info.SetSwapBehaviour(ctx, c.Mode, c.Count, c.Mint) }
	if c.Token != "" {
		token, isKnown := info.FindSwapToken(c.Token)
		if !isKnown {
			return fmt.Errorf("the swap provider takes no %s beside the mints; %s lists what it takes. "+
				"Nothing was changed", c.Token, localworld.InfoFile)
		}
		set = func() error { return info.SetAssetBehaviour(ctx, c.Mode, c.Count, token.AssetID) }
	}
	if err := set(); err != nil {
		return err
	}
	state, err := info.ReadSwapProvider(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, formatBehaviour(state))
	if c.Mode != modes[0] {
		fmt.Fprintf(std.out, "coffer local swaps behave %s ends it.\n", modes[0])
	}
	return nil
}

// formatBehaviour says how the provider behaves.
func formatBehaviour(state localworld.SwapProviderState) string {
	b := state.Behaviour
	if string(b.Mode) == localworld.SwapModes()[0] {
		return "The local swap provider does what it promises."
	}
	text := fmt.Sprintf("The local swap provider misbehaves: %s", b.Mode)
	if b.Mint != 0 {
		text += fmt.Sprintf(", with mint %d", b.Mint)
	}
	if b.Asset != "" {
		text += ", with " + b.Asset
	}
	switch {
	case b.Remaining == 1:
		text += ", the next time"
	case b.Remaining > 1:
		text += fmt.Sprintf(", the next %d times", b.Remaining)
	}
	return text + "."
}

type swapsPrice struct {
	swapsFlags
	Mint  int    `arg:"" help:"The mint's id."`
	Price string `arg:"" optional:"" help:"Dollars for one whole token, such as 3100.00; the usual price if left out."`
}

func (c swapsPrice) Run(ctx context.Context, std streams) error {
	var price *money.USD
	if c.Price != "" {
		value, err := money.ParseUSD(c.Price)
		if err != nil || value.Cmp(money.USD{}) <= 0 {
			return fmt.Errorf("%q is not a price in dollars such as 3100.00. Nothing was changed", c.Price)
		}
		price = &value
	}
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	asset, err := info.SetSwapPrice(ctx, c.Mint, price)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"The local swap provider quotes %s on %s at $%s. The prices of the service stay as they are.\n",
		asset.Symbol, strings.ToLower(string(asset.Chain)), asset.Price)
	return nil
}

type swapsShow struct{ swapsFlags }

// swapsShownMax is how many swaps are shown, the newest ones.
const swapsShownMax = 20

func (c swapsShow) Run(ctx context.Context, std streams) error {
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	state, err := info.ReadSwapProvider(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s\n\n", formatBehaviour(state))
	t := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  API\t%s\n  control\t%s\n  key\t%s\n", info.Swaps.URL, info.Swaps.ControlURL, state.PublicKey)
	for _, a := range state.Assets {
		name := fmt.Sprintf("mint %d", a.Mint)
		if a.Mint == 0 {
			name = "no mint"
		}
		fmt.Fprintf(t, "  %s\t%s on %s  $%s\n", name, a.Symbol, strings.ToLower(string(a.Chain)), a.Price)
	}
	t.Flush()
	fmt.Fprintln(std.out)
	printSwaps(std.out, state)
	return nil
}

// printSwaps prints the newest swaps, the last one at the end.
func printSwaps(output io.Writer, state localworld.SwapProviderState) {
	if len(state.Swaps) == 0 {
		fmt.Fprintln(output, "There are no swaps.")
		return
	}
	if former := len(state.Swaps) - swapsShownMax; former > 0 {
		fmt.Fprintf(output, "%d earlier swaps are not shown.\n", former)
		state.Swaps = state.Swaps[former:]
	}
	amount := func(assetID string, units money.Amount) string {
		for _, a := range state.Assets {
			if a.AssetID == assetID {
				return fmt.Sprintf("%s %s on %s", units.Decimal(a.Decimals), a.Symbol, strings.ToLower(string(a.Chain)))
			}
		}
		return units.String() + " of " + assetID
	}
	t := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  STATUS\tBEHAVIOUR\tTAKES\tPAYS\tDEPOSIT ADDRESS")
	for _, s := range state.Swaps {
		status := s.Status
		if !s.IsDone && status != "PENDING_DEPOSIT" {
			status += " (open)"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", status, s.Mode, amount(s.Origin, s.AmountIn),
			amount(s.Destination, s.AmountOut), s.DepositAddress)
	}
	t.Flush()
}
