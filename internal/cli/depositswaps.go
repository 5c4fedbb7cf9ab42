package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

type depositSwapsCmd struct {
	List depositSwapList `cmd:"" default:"withargs" help:"Show deposit swaps, newest first (the default)."`
	Show depositSwapShow `cmd:"" help:"Show one deposit swap: its address, what was paid, and what arrived."`
}

type depositSwapList struct {
	listFlags
	Customer string `help:"Only of this customer."`
	Status   string `help:"Only in this status, such as AWAITING_DEPOSIT or COMPLETED."`
	Provider string `help:"Only through this provider, such as ONE_CLICK."`
}

func (c depositSwapList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := depositswap.OperatorFilter{
		Filter: depositswap.Filter{CustomerID: c.Customer, Status: strings.ToUpper(c.Status)},
		OrgID:  c.Org, Provider: strings.ToUpper(c.Provider),
	}
	return printList(std.out, c.listFlags,
		"DEPOSIT SWAP\tCUSTOMER\tTAKES\tON\tBRINGS\tPROVIDER\tSTATUS\tMADE", "There is no such deposit swap.",
		func(p pagination.Page) (pagination.Result[depositswap.DepositSwap], error) {
			return tools.DepositSwaps.ListAll(ctx, f, p)
		},
		func(d depositswap.DepositSwap) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", d.ID, d.CustomerID, formatAsked(d), d.Token.Chain,
				formatBrought(d), d.Provider, d.Status, formatTime(d.CreatedAt))
		},
		func(d depositswap.DepositSwap) any {
			return struct { // as in the operator's interface
				OrganizationID string `json:"organizationId"`
				webhook.DepositSwap
			}{d.OrgID, wire.DepositSwap(d)}
		})
}

// formatToken formats an amount of the token that the customer pays in whole tokens.
func formatToken(amount money.Amount, t depositswap.Token) string {
	return amount.Decimal(t.Decimals) + " " + t.Symbol
}

// formatAsked formats what the request named, which the customer need not keep to.
func formatAsked(d depositswap.DepositSwap) string {
	if d.AmountIn == nil {
		return "any " + d.Token.Symbol
	}
	return formatToken(*d.AmountIn, d.Token)
}

// formatBrought formats what arrived, or what is expected.
func formatBrought(d depositswap.DepositSwap) string {
	if d.AmountOut != nil {
		return formatUnits(*d.AmountOut, d.To)
	}
	return "~" + formatUnits(d.EstimatedOut, d.To)
}

type depositSwapShow struct {
	configFlags
	ID string `arg:"" help:"The deposit swap, ds_…"`
}

func (c depositSwapShow) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	d, err := tools.DepositSwaps.ByIDForOperator(ctx, c.ID)
	if err != nil {
		return err
	}
	return printDepositSwap(std.out, d)
}

// printDepositSwap prints what a person needs who asks the provider about a deposit swap. The address was verified
// when it was read.
func printDepositSwap(out io.Writer, d depositswap.DepositSwap) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	line("deposit swap", "%s of %q, of %s", d.ID, d.CustomerID, d.OrgID)
	line("takes", "%s on %s, %s", formatAsked(d), d.Token.Chain, d.Token.ID)
	line("brings", "%s on %s, at least %s for the amount of the offer", formatBrought(d), d.To.Chain,
		formatUnits(d.MinOut, d.To))
	line("state", "%s", d.Status)
	if d.FailureReason != nil {
		line("reason", "%s", *d.FailureReason)
	}
	fmt.Fprintf(w, "\nTo tell %s:\n", d.Provider)
	line("deposit address", "%s on %s", cmp.Or(d.DepositAddress, "(withheld: no key of its provider verifies it)"),
		d.Token.Chain)
	line("paid", "%s in %s", formatSeen(d.Received, d.Token), hashOrDash(d.OriginTxHash))
	line("refund address", "%s on %s, %s came back", d.RefundAddress, d.Token.Chain, formatSeen(d.Refunded, d.Token))
	line("delivered in", "%s", hashOrDash(d.DestinationTxHash))
	line("deposits", "%s", cmp.Or(strings.Join(d.DepositIDs, " "), "-"))

	fmt.Fprintln(w, "\nTimes:")
	for _, moment := range []struct {
		label string
		time  *time.Time
	}{{"made", &d.CreatedAt}, {"provider's deadline", &d.ExpiresAt}, {"completed", d.CompletedAt}} {
		if moment.time != nil {
			line(moment.label, "%s", formatTime(*moment.time))
		}
	}
	return w.Flush()
}

// formatSeen formats what our own node saw of a payment of the token.
func formatSeen(amount *money.Amount, t depositswap.Token) string {
	if amount == nil {
		return "nothing that a node of ours saw"
	}
	return formatToken(*amount, t)
}
