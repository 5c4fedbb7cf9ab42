package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/member"
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
	Approve   swapApprove      `cmd:"" help:"Approve a swap of the organization's own money that waits for it: the approval covers the payment of its output."`
	Reject    swapReject       `cmd:"" help:"Reject a swap that waits for an approval: its amount returns to the product."`
	Deposit   depositSwapsCmd  `cmd:"" help:"Show the deposit swaps: addresses of providers that customers pay in other tokens."`
	Look      swapLook         `cmd:"" help:"Have the running service ask the provider about a swap at once. It decides nothing."`
	Fail      swapFail         `cmd:"" help:"End a swap that makes no progress as failed. The claim on its provider stays open."`
	WriteOff  swapWriteOff     `cmd:"" help:"Give up what a provider owes of a failed swap. A second operator may have to approve."`
	Arrivals  swapArrivalsCmd  `cmd:"" help:"Show the arrivals that no open swap expects, and decide about them."`
	Providers swapProvidersCmd `cmd:"" help:"Show the providers of swaps and what is with each; suspend and resume one."`
}

type swapList struct {
	listFlags
	Customer   string `help:"Only of this customer."`
	Kind       string `help:"Only CUSTOMER or ORGANIZATION: swaps of customers, or of an organization's own money."`
	Status     string `help:"Only in this status, such as PROCESSING or FAILED."`
	Provider   string `help:"Only through this provider, such as ONE_CLICK."`
	OpenClaims bool   `help:"Only swaps whose value is with a provider."`
}

func (c swapList) Run(ctx context.Context, std streams) error {
	kind := swap.Kind(strings.ToUpper(c.Kind))
	if kind != "" && kind != swap.CustomerSwap && kind != swap.OrganizationSwap {
		return fmt.Errorf("--kind %s: name CUSTOMER or ORGANIZATION", c.Kind)
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	f := swap.OperatorFilter{
		Filter: swap.Filter{CustomerID: c.Customer, Status: strings.ToUpper(c.Status)},
		OrgID:  c.Org, Provider: strings.ToUpper(c.Provider), Kind: kind, OpenClaims: c.OpenClaims,
	}
	return printList(std.out, c.listFlags,
		"SWAP\tKIND\tOF\tGIVES\tGETS\tPROVIDER\tSTATUS\tWITH THE PROVIDER\tMADE",
		"There is no such swap.",
		func(p pagination.Page) (pagination.Result[swap.Swap], error) { return tools.Swaps.ListAll(ctx, f, p) },
		func(w swap.Swap) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", w.ID, w.Kind, swapOwner(w),
				formatUnits(w.AmountIn, w.From), formatOutput(w), cmp.Or(w.Provider, "-"), w.Status,
				formatUnits(w.OpenClaim(), w.From), formatTime(w.CreatedAt))
		},
		func(w swap.Swap) any {
			return struct { // as in the operator's interface
				OrganizationID string `json:"organizationId"`
				Kind           string `json:"kind"`
				webhook.CustomerSwap
				CustomerID           *string `json:"customerId"`
				Product              *string `json:"product"`
				WhitelistedAddressID *string `json:"whitelistedAddressId"`
				ToAddress            *string `json:"toAddress"`
				WithdrawalID         *string `json:"withdrawalId"`
				OpenClaim            string  `json:"openClaim"`
			}{
				w.OrgID, string(w.Kind), wire.CustomerSwap(w), resource.OptionalText(w.CustomerID),
				resource.OptionalText(w.Product), resource.OptionalText(w.WhitelistedID),
				resource.OptionalText(string(w.PayoutAddress)), w.PayoutID, w.OpenClaim().String(),
			}
		})
}

// swapOwner returns whose balance a swap converts.
func swapOwner(w swap.Swap) string { return cmp.Or(w.CustomerID, w.Product) }

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
	ID string `arg:"" help:"The swap, cs_… or os_…"`
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
	line("swap", "%s of %q, of %s", d.ID, swapOwner(d.Swap), d.OrgID)
	line("gives", "%s on %s", formatUnits(d.AmountIn, d.From), d.From.Chain)
	line("gets", "%s on %s, at least %s", formatOutput(d.Swap), d.To.Chain, formatUnits(d.MinOut, d.To))
	if d.Kind == swap.OrganizationSwap {
		printPayout(line, d.Swap)
	} else {
		line("fee", "%s, %d basis points, billed to the organization", formatUnits(d.FeeAmount, d.From), d.FeeBps)
	}
	line("state", "%s", d.Status)
	if d.FailureReason != nil {
		line("failed", "%s: %s", *d.FailureReason, textOrDash(d.FailureMessage))
	}
	line("refund", "%s: %s came back, %s restored, %s kept for good", d.RefundStatus(),
		formatUnits(d.Refunded, d.From), formatUnits(d.Restored, d.From), formatUnits(d.Short, d.From))
	holder := cmp.Or(d.Provider, "a provider")
	if open := d.OpenClaim(); !open.IsZero() {
		line("with "+holder, "%s, for %s", formatUnits(open, d.From), formatAge(now.Sub(*d.PaidAt)))
	} else {
		line("with "+holder, "nothing")
	}
	if d.LookAt != nil {
		line("looked at", "next at %s", formatTime(*d.LookAt))
	} else {
		line("looked at", "no more: nothing is expected")
	}

	if d.Provider != "" {
		fmt.Fprintf(w, "\nTo tell %s:\n", d.Provider)
		line("deposit address", "%s on %s", d.ProviderAddress, d.From.Chain)
		line("paid", "%s in %s", formatUnits(d.AmountIn, d.From), hashOrDash(d.OriginTxHash))
		line("deliver to", "%s on %s", d.DeliveryAddress, d.To.Chain)
		line("refund to", "%s on %s", d.RefundAddress, d.From.Chain)
	}

	fmt.Fprintln(w, "\nTimes:")
	for _, moment := range []struct {
		label string
		time  *time.Time
	}{
		{"made", &d.CreatedAt},
		{"to be approved by", d.ApprovableUntil()},
		{"approved", d.ApprovedAt},
		{"to be paid by", timeOrNil(d.PayBy)},
		{"payment final", d.PaidAt},
		{"provider's deadline", timeOrNil(d.ExpiresAt)},
		{"announced as delayed", d.DelayedAt},
		{"output in the product", productTime(d.Swap)},
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

// printPayout prints what becomes of the output of a swap of an organization's own money, and who agreed.
func printPayout(line func(label, format string, args ...any), w swap.Swap) {
	line("paid out to", "%s on %s, %s of the whitelist", w.PayoutAddress, w.To.Chain, w.WhitelistedID)
	line("withdrawal", "%s", textOrDash(w.PayoutID))
	if w.ApprovalsRequired == 0 {
		line("approvals", "none needed")
		return
	}
	names := []string{}
	for _, approver := range w.Approvers {
		names = append(names, approver.Kind+" "+approver.ID)
	}
	line("approvals", "%d of %d  %s", w.ApprovalCount, w.ApprovalsRequired, strings.Join(names, ", "))
	if w.PayoutMax != nil && w.PayoutUntil != nil {
		line("cover", "a withdrawal of up to %s until %s", formatUnits(*w.PayoutMax, w.To), formatTime(*w.PayoutUntil))
	}
	if w.RejectedNote != nil {
		line("rejected", "%s", *w.RejectedNote)
	}
}

// timeOrNil returns nil for no time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// productTime returns when the output of an organization's swap arrived; nil before, and of a customer's swap,
// which is completed then.
func productTime(w swap.Swap) *time.Time {
	if w.Kind != swap.OrganizationSwap {
		return nil
	}
	return w.DeliveredAt
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
	fmt.Fprintf(std.out, "Written off: %s owes nothing of %s any more, and keeps %s for good. %q got nothing for "+
		"it.\n", w.Provider, w.ID, formatUnits(w.Short, w.From), swapOwner(w))
	return nil
}

type swapArrivalsCmd struct {
	List   swapArrivalsList   `cmd:"" default:"withargs" help:"Show the arrivals about which no one has decided (the default)."`
	Decide swapArrivalsDecide `cmd:"" help:"Decide about an arrival, once: credit it to the customer or the product of its swap, or keep it in suspense."`
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
				fmt.Fprintln(w, "ARRIVAL\tAMOUNT\tCHAIN\tSWAP\tOF\tARRIVED\tTRANSACTION\tWHY")
			}
			customer := cmp.Or(a.CustomerID, a.Product, "unknown")
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
	Decision string `arg:"" enum:"credited,kept" help:"credited: to the customer or the product of its swap. kept: it stays in suspense for good."`
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
			cmp.Or(a.CustomerID, a.Product))
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
	fmt.Fprintln(w, "PROVIDER\tSTATE\tSINCE\tOPEN CLAIMS\tOLDEST\tUSD\tLIMIT\tBY\tREASON")
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
		outstanding, limit := p.Outstanding.USD.Cents(), "-"
		if p.Outstanding.Unvalued > 0 {
			outstanding += fmt.Sprintf(" + %d without a price", p.Outstanding.Unvalued)
		}
		if p.OutstandingUSDMax != nil {
			limit = p.OutstandingUSDMax.Cents()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", p.Name, state, changed, p.OpenSwaps, oldest,
			outstanding, limit, p.ChangedBy, p.Reason)
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

// swapDecisionFlags are the flags of a person's decision about a swap that waits for approvals.
type swapDecisionFlags struct {
	configFlags
	ID    string `arg:"" help:"The swap of an organization, os_…"`
	Email string `name:"as" placeholder:"EMAIL" help:"The person who decides; the first person of the local world if left out."`
}

// openFor opens the tools and finds the person who decides.
func (d swapDecisionFlags) openFor(ctx context.Context) (tools *app.App, p member.Member, err error) {
	if tools, err = d.openTools(ctx); err != nil {
		return nil, p, err
	}
	decision := decisionFlags{configFlags: d.configFlags, ID: d.ID, As: d.Email}
	if p, err = decision.findPerson(ctx, tools.DB()); err != nil {
		tools.Close()
		return nil, p, err
	}
	return tools, p, nil
}

// describeError adds the given id to an error of a decision if there is no such swap.
func (d swapDecisionFlags) describeError(err error, p member.Member) error {
	if fault.HasCode(err, fault.CodeNotFound) {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"The organization of %s has no swap of its own money %.64q.", p.Email, d.ID).
			WithAdvice("Coffer swaps list --kind ORGANIZATION shows these swaps.")
	}
	return err
}

type swapApprove struct{ swapDecisionFlags }

func (c swapApprove) Run(ctx context.Context, std streams) error {
	tools, p, err := c.openFor(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w, err := tools.Swaps.ApproveOrganization(ctx, p.OrgID, c.ID, "", p)
	if err != nil {
		return c.describeError(err, p)
	}
	fmt.Fprintf(std.out, "%s of %s to at least %s for %s is %s, approved by %s.\n", w.ID,
		formatUnits(w.AmountIn, w.From), formatUnits(w.MinOut, w.To), w.PayoutAddress, w.Status, p.Email)
	if missing := w.ApprovalsRequired - w.ApprovalCount; missing > 0 && w.Status == swap.AwaitingApproval {
		fmt.Fprintf(std.out, "It has %d of the %d approvals that it needs: other people have to approve it, too.\n",
			w.ApprovalCount, w.ApprovalsRequired)
	}
	return nil
}

type swapReject struct {
	swapDecisionFlags
	Note string `required:"" help:"Why, for the organization and the audit log."`
}

func (c swapReject) Run(ctx context.Context, std streams) error {
	tools, p, err := c.openFor(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w, err := tools.Swaps.RejectOrganization(ctx, p.OrgID, c.ID, c.Note, p)
	if err != nil {
		return c.describeError(err, p)
	}
	fmt.Fprintf(std.out, "%s is %s by %s; %s is available to %s again.\n", w.ID, w.Status, p.Email,
		formatUnits(w.AmountIn, w.From), w.Product)
	return nil
}
