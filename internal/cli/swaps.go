package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

type swapsCmd struct {
	List      swapList         `cmd:"" default:"withargs" help:"Show swaps, newest first (the default)."`
	Show      swapShow         `cmd:"" help:"Show one swap: its times, what its provider has, what to tell the provider."`
	Look      swapLook         `cmd:"" help:"Have the running service ask the provider about a swap at once. It decides nothing."`
	Fail      swapFail         `cmd:"" help:"End a swap that makes no progress as failed. The claim on its provider stays open."`
	WriteOff  swapWriteOff     `cmd:"" help:"Give up what a provider owes of a failed swap. A second operator may have to approve."`
	Arrivals  swapArrivalsCmd  `cmd:"" help:"Show the arrivals that no open swap expects, and decide about them."`
	Providers swapProvidersCmd `cmd:"" help:"Show the providers of swaps and what is with each; suspend and resume one."`
}

type swapList struct {
	listFlags
	Customer   string `help:"Only of this customer."`
	Status     string `help:"Only in this status, such as PROCESSING or FAILED."`
	Provider   string `help:"Only through this provider, such as ONE_CLICK."`
	OpenClaims bool   `help:"Only swaps whose value is with a provider."`
}

func (c swapList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := swap.OperatorFilter{
		Filter: swap.Filter{CustomerID: c.Customer, Status: strings.ToUpper(c.Status)},
		OrgID:  c.Org, Provider: strings.ToUpper(c.Provider), OpenClaims: c.OpenClaims,
	}
	return printList(std.out, c.listFlags, "SWAP\tCUSTOMER\tGIVES\tGETS\tPROVIDER\tSTATUS\tWITH THE PROVIDER\tMADE",
		"There is no such swap.",
		func(p pagination.Page) (pagination.Result[swap.Swap], error) { return tools.Swaps.ListAll(ctx, f, p) },
		func(w swap.Swap) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", w.ID, w.CustomerID, formatUnits(w.AmountIn, w.From),
				formatOutput(w), w.Provider, w.Status, formatUnits(w.OpenClaim(), w.From), formatTime(w.CreatedAt))
		},
		func(w swap.Swap) any {
			return struct { // as in the operator's interface
				OrganizationID string `json:"organizationId"`
				webhook.CustomerSwap
				OpenClaim string `json:"openClaim"`
			}{w.OrgID, wire.CustomerSwap(w), w.OpenClaim().String()}
		})
}

// formatUnits formats an amount of a mint in whole tokens.
func formatUnits(amount money.Amount, m mint.Mint) string {
	return amount.Decimal(m.Decimals) + " " + m.Symbol
}

// formatOutput formats what arrived of a swap, or what is expected.
func formatOutput(w swap.Swap) string {
	if w.AmountOut != nil {
		return formatUnits(*w.AmountOut, w.To)
	}
	return "~" + formatUnits(w.EstimatedOut, w.To)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// swapFlags are the flags of the verbs on one swap.
type swapFlags struct {
	configFlags
	ID string `arg:"" help:"The swap, cs_…"`
}

type swapShow struct{ swapFlags }

func (c swapShow) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	d, err := tools.Swaps.ByIDForOperator(ctx, c.ID)
	if err != nil {
		return err
	}
	now, err := readNow(ctx, tools)
	if err != nil {
		return err
	}
	return printSwap(std.out, d, now)
}

// readNow returns the time of a transaction, by which the service decides.
func readNow(ctx context.Context, tools *app.App) (now time.Time, err error) {
	err = tools.DB().ReadSystem(ctx, func(_ context.Context, tx pg.Tx) error {
		now = tx.Now
		return nil
	})
	return now, err
}

// printSwap prints what a person needs who asks the provider about a swap.
func printSwap(out io.Writer, d swap.Detail, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	line("swap", "%s of %q, of %s", d.ID, d.CustomerID, d.OrgID)
	line("gives", "%s on %s", formatUnits(d.AmountIn, d.From), d.From.Chain)
	line("gets", "%s on %s, at least %s", formatOutput(d.Swap), d.To.Chain, formatUnits(d.MinOut, d.To))
	line("fee", "%s, %d basis points, billed to the organization", formatUnits(d.FeeAmount, d.From), d.FeeBps)
	line("state", "%s", d.Status)
	if d.FailureReason != nil {
		line("failed", "%s: %s", *d.FailureReason, textOrDash(d.FailureMessage))
	}
	line("refund", "%s: %s came back, %s restored, %s kept for good", d.RefundStatus(),
		formatUnits(d.Refunded, d.From), formatUnits(d.Restored, d.From), formatUnits(d.Short, d.From))
	if open := d.OpenClaim(); !open.IsZero() {
		line("with "+d.Provider, "%s, for %s", formatUnits(open, d.From), formatAge(now.Sub(*d.PaidAt)))
	} else {
		line("with "+d.Provider, "nothing")
	}
	if d.LookAt != nil {
		line("looked at", "next at %s", formatTime(*d.LookAt))
	} else {
		line("looked at", "no more: nothing is expected")
	}

	fmt.Fprintf(w, "\nTo tell %s:\n", d.Provider)
	line("deposit address", "%s on %s", d.ProviderAddress, d.From.Chain)
	line("paid", "%s in %s", formatUnits(d.AmountIn, d.From), hashOrDash(d.OriginTxHash))
	line("deliver to", "%s on %s", d.DeliveryAddress, d.To.Chain)
	line("refund to", "%s on %s", d.RefundAddress, d.From.Chain)

	fmt.Fprintln(w, "\nTimes:")
	for _, moment := range []struct {
		label string
		time  *time.Time
	}{
		{"made", &d.CreatedAt},
		{"to be paid by", &d.PayBy},
		{"payment final", d.PaidAt},
		{"provider's deadline", &d.ExpiresAt},
		{"announced as delayed", d.DelayedAt},
		{"completed", d.CompletedAt},
		{"failed", d.FailedAt},
		{"restored", d.RestoredAt},
	} {
		if moment.time != nil {
			line(moment.label, "%s", formatTime(*moment.time))
		}
	}
	if len(d.Reports) > 0 {
		fmt.Fprintf(w, "\nWhat %s reported:\n", d.Provider)
		for _, r := range d.Reports {
			line(formatTime(r.CreatedAt), "%s (%s), refund %s  %s  %s", r.Status, r.Word, r.Refund, r.Reason,
				strings.Join(r.TxHashes, " "))
		}
	}
	if len(d.Arrivals) > 0 {
		fmt.Fprintln(w, "\nWhat arrived:")
		for _, a := range d.Arrivals {
			line(formatTime(a.CreatedAt), "%s %s on %s in %s, %s%s", a.Amount.Decimal(a.Decimals), a.Symbol, a.Chain,
				a.TxHash, a.Role, formatDecision(a))
		}
	}
	return w.Flush()
}

func hashOrDash[T ~string](hash *T) string {
	if hash == nil {
		return "-"
	}
	return string(*hash)
}

// formatDecision formats why an arrival is a stray, and what became of it.
func formatDecision(a swap.Arrival) string {
	switch {
	case a.Role != string(swap.Stray):
		return ""
	case a.Decision == nil:
		return fmt.Sprintf(" (%s): no one has decided", a.Reason)
	}
	return fmt.Sprintf(" (%s): %s by %s, %q", a.Reason, *a.Decision, textOrDash(a.DecidedBy), textOrDash(a.Note))
}

type swapLook struct{ swapFlags }

func (c swapLook) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w, err := tools.Swaps.LookNow(ctx, c.ID, operator)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The running service looks at %s (%s) now: coffer swaps show %s has what the provider "+
		"reports.\n", w.ID, w.Status, w.ID)
	return nil
}

type swapFail struct {
	swapFlags
	Note string `required:"" help:"Why, for the audit log."`
}

func (c swapFail) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w, err := tools.Swaps.Fail(ctx, c.ID, c.Note, operator)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is %s, and the organization is told. %s owes %s: a refund that arrives is counted, and a "+
		"later delivery waits in coffer swaps arrivals.\n", w.ID, w.Status, w.Provider,
		formatUnits(w.OpenClaim(), w.From))
	return nil
}

type swapWriteOff struct {
	swapFlags
	operatorFlags
	Note string `required:"" help:"Why, for the audit log."`
}

func (c swapWriteOff) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var outcome swap.WriteOffOutcome
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = tools.Swaps.RequestWriteOff(ctx, tx, key, tools.FourEyes(), c.ID, c.Note)
		return err
	})
	if err != nil {
		return err
	}
	if outcome.PendingChange != nil {
		fmt.Fprintln(std.out, "It waits until another operator approves it, with coffer changes approve.")
		printChange(std, *outcome.PendingChange)
		return nil
	}
	w := outcome.Swap
	fmt.Fprintf(std.out, "Written off: %s owes nothing of %s any more, and keeps %s for good. The customer %q got "+
		"nothing for it.\n", w.Provider, w.ID, formatUnits(w.Short, w.From), w.CustomerID)
	return nil
}

type swapArrivalsCmd struct {
	List   swapArrivalsList   `cmd:"" default:"withargs" help:"Show the arrivals about which no one has decided (the default)."`
	Decide swapArrivalsDecide `cmd:"" help:"Decide about an arrival, once: credit it to the customer of its swap, or keep it in suspense."`
}

type swapArrivalsList struct {
	configFlags
	IncludesDecided bool `name:"all" help:"Also those that were decided."`
}

func (c swapArrivalsList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	shown := 0
	for p := (pagination.Page{Limit: pagination.LimitMax}); ; {
		found, err := tools.Swaps.ListStrays(ctx, !c.IncludesDecided, p)
		if err != nil {
			return err
		}
		for _, a := range found.Items {
			if shown++; shown == 1 {
				fmt.Fprintln(w, "ARRIVAL\tAMOUNT\tCHAIN\tSWAP\tCUSTOMER\tARRIVED\tTRANSACTION\tWHY")
			}
			customer := a.CustomerID
			if customer == "" {
				customer = "unknown"
			}
			fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.DepositID, a.Amount.Decimal(a.Decimals), a.Symbol,
				a.Chain, a.SwapID, customer, formatTime(a.CreatedAt), shorten(string(a.TxHash)),
				strings.TrimSpace(formatDecision(a)))
		}
		if p.Cursor = found.NextCursor; p.Cursor == nil {
			break
		}
	}
	if shown == 0 {
		fmt.Fprintln(w, "No arrival waits for a decision.")
	}
	return w.Flush()
}

type swapArrivalsDecide struct {
	configFlags
	ID       string `arg:"" help:"The arrival, dep_…"`
	Decision string `arg:"" enum:"credited,kept" help:"credited: to the customer of its swap. kept: it stays in suspense for good."`
	Note     string `required:"" help:"Why, for the audit log."`
}

func (c swapArrivalsDecide) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	a, err := tools.Swaps.DecideArrival(ctx, c.ID, swap.ArrivalDecision(strings.ToUpper(c.Decision)), c.Note, operator)
	if err != nil {
		return err
	}
	amount := a.Amount.Decimal(a.Decimals) + " " + a.Symbol
	if c.Decision == "credited" {
		fmt.Fprintf(std.out, "%s of %s is credited to %q, and the organization is told.\n", amount, a.SwapID,
			a.CustomerID)
		return nil
	}
	fmt.Fprintf(std.out, "%s of %s stays in suspense for good.\n", amount, a.SwapID)
	return nil
}

type swapProvidersCmd struct {
	List    swapProvidersList    `cmd:"" default:"withargs" help:"Show the providers, their states and what is with each (the default)."`
	Suspend swapProvidersSuspend `cmd:"" help:"Give a provider no new swaps. Its open ones go on."`
	Resume  swapProvidersResume  `cmd:"" help:"Give a provider new swaps again."`
}

type swapProvidersList struct{ configFlags }

func (c swapProvidersList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	found, err := tools.Swaps.ListProviders(ctx)
	if err != nil {
		return err
	}
	now, err := readNow(ctx, tools)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintln(std.out, "No provider of swaps is configured.")
		return nil
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tSTATE\tSINCE\tOPEN CLAIMS\tOLDEST\tBY\tREASON")
	for _, p := range found {
		state, changed, oldest := "ACTIVE", "-", "-"
		if p.IsSuspended {
			state = "SUSPENDED"
		}
		if p.ChangedAt != nil {
			changed = formatTime(*p.ChangedAt)
		}
		if p.OldestAt != nil {
			oldest = formatAge(now.Sub(*p.OldestAt))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", p.Name, state, changed, p.OpenSwaps, oldest, p.ChangedBy,
			p.Reason)
	}
	return w.Flush()
}

// swapProviderFlags are the flags of the verbs on one provider.
type swapProviderFlags struct {
	configFlags
	Provider string `arg:"" help:"The provider, such as ONE_CLICK."`
	Reason   string `name:"because" required:"" placeholder:"WHY" help:"Why, for the next person and the audit log."`
}

type swapProvidersSuspend struct{ swapProviderFlags }

func (c swapProvidersSuspend) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	name := strings.ToUpper(c.Provider)
	if err := tools.Swaps.SuspendProvider(ctx, name, c.Reason, operator); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is suspended: it gets no new swaps, and its open ones go on.\n", name)
	return nil
}

type swapProvidersResume struct{ swapProviderFlags }

func (c swapProvidersResume) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	name := strings.ToUpper(c.Provider)
	if err := tools.Swaps.ResumeProvider(ctx, name, c.Reason, operator); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is active: it gets new swaps.\n", name)
	return nil
}
