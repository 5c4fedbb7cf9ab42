package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// listMax bounds the orders in a list.
const listMax = 200

type dispatchCmd struct {
	List    dispatchList    `cmd:"" default:"withargs" help:"Show every order that has not ended, and its wait reason (the default)."`
	Show    dispatchShow    `cmd:"" help:"Show one order with every transaction in its slot."`
	Bump    dispatchBump    `cmd:"" help:"Replace the transaction of an order by the same payment with a higher fee, in the same slot."`
	Cancel  dispatchCancel  `cmd:"" help:"End an order: at once if it has no slot yet, otherwise with a cancel transaction. An earlier transaction can still be mined."`
	Resolve dispatchResolve `cmd:"" help:"End a stuck order by what the balances of its block prove."`
}

type dispatchList struct{ configFlags }

func (c dispatchList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var open []dispatch.OrderView
	var truncated bool
	var mints mint.Catalogue
	var readAt time.Time
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		readAt = tx.Now
		if open, truncated, err = dispatch.ListOpen(ctx, tx, listMax); err == nil {
			mints, err = mint.LoadCatalogue(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(open) == 0 {
		fmt.Fprintln(std.out, "There are no outgoing orders.")
		return nil
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORDER\tFOR\tCHAIN\tWALLET\tNONCE\tSTATE\tAGE\tTRANSACTION\tFEE AT MOST\tWAITS FOR")
	for _, s := range open {
		nonce, fee := "-", "-"
		if s.ChainSlot != nil {
			nonce = fmt.Sprint(s.ChainSlot.Nonce)
		}
		if len(s.Transactions) > 0 {
			fee = formatCostMax(mints, s.Chain, s.Transactions[0].Fees)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Purpose, s.Chain, shorten(
			string(s.Address),
		), nonce, s.Status,
			formatAge(readAt.Sub(s.CreatedAt)), shorten(string(s.Hash)), fee, s.DescribeWait())
	}
	if truncated {
		fmt.Fprintf(w, "There are more than these %d.\n", listMax)
	}
	return w.Flush()
}

// orderFlags are the flags of the verbs on one order.
type orderFlags struct {
	configFlags
	ID string `arg:"" help:"The order. It has the id of its withdrawal, swap, sweep, top-up or nonce account: wd_…, cs_…, sw_…, gas_…, place_…"`
}

// openWorker opens the tools and finds the dispatch worker of the order's chain.
func (c orderFlags) openWorker(
	ctx context.Context,
) (tools *app.App, d *dispatch.Worker, s dispatch.OrderView, err error) {
	if tools, err = c.openTools(ctx); err != nil {
		return nil, nil, s, err
	}
	if s, err = c.loadOrder(ctx, tools); err == nil {
		if d = tools.DispatchWorker(s.Chain); d == nil {
			err = fmt.Errorf("order %s is on %s, which this configuration does not have; nothing was changed", c.ID,
				s.Chain)
		}
	}
	if err != nil {
		tools.Close()
		return nil, nil, s, err
	}
	return tools, d, s, nil
}

func (c orderFlags) loadOrder(ctx context.Context, tools *app.App) (s dispatch.OrderView, err error) {
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = dispatch.LoadView(ctx, tx, c.ID)
		return err
	})
	return s, err
}

type dispatchShow struct{ orderFlags }

func (c dispatchShow) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	s, err := c.loadOrder(ctx, tools)
	if err != nil {
		return err
	}
	var mints mint.Catalogue
	var readAt time.Time
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		readAt = tx.Now
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	amount := s.Amount.String() + " units"
	if m, ok := mints.ByID(s.MintID); ok {
		amount = s.Amount.Decimal(m.Decimals) + " " + m.Symbol
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	line("order", "%s, %s of %s", s.ID, s.Purpose, s.OrgID)
	line("pays", "%s to %s on %s", amount, s.To, s.Chain)
	line("from", "%s (%s)", s.Address, s.WalletID)
	if s.ChainSlot != nil {
		line("slot", "%v, %s of gas reserved", *s.ChainSlot, formatNative(mints, s.Chain, s.GasReserved))
		if len(s.TxMemberIDs) > 0 {
			line("together", "one transaction pays it and %s, or none of them", strings.Join(s.TxMemberIDs, ", "))
		}
	} else {
		line("slot", "none: nothing is signed and nothing was sent")
	}
	line("state", "%s, %s old", s.Status, formatAge(readAt.Sub(s.CreatedAt)))
	if s.EndedAt != nil {
		line("ended", "%s", s.EndedAt.UTC().Format(time.RFC3339))
	}
	if s.EndedAt == nil || s.VoidPending {
		line("waits for", "%s", s.DescribeWait())
	}
	if s.LastError != "" {
		line("last error", "%s", s.LastError)
	}
	if s.Fee != nil {
		line("cost", "%s", formatNative(mints, s.Chain, *s.Fee))
	}
	if err := w.Flush(); err != nil || len(s.Transactions) == 0 {
		return err
	}
	fmt.Fprintln(std.out)
	w = tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tDOES\tMADE FOR\tFEE AT MOST\tA GAS\tMADE\tSENT LAST\tTRANSACTION")
	for _, t := range s.Transactions {
		sent, hash, reason := "never", "not signed", "the order"
		if t.LastSentAt != nil {
			sent = formatAge(readAt.Sub(*t.LastSentAt)) + " ago"
		}
		if t.Hash != "" {
			hash = string(t.Hash)
		}
		switch t.Reason {
		case "FEE":
			reason = "a higher fee"
		case "OPERATOR":
			reason = "an operator"
		case "REFUSAL":
			reason = "a refusal, or the end of its time"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%v\t%s ago\t%s\t%s\n", t.Version, t.Act, reason, formatCostMax(
			mints, s.Chain, t.Fees,
		), t.Fees.FeeCap,
			formatAge(readAt.Sub(t.CreatedAt)), sent, hash)
	}
	return w.Flush()
}

type dispatchBump struct{ orderFlags }

func (c dispatchBump) Run(ctx context.Context, std streams) error {
	tools, d, s, err := c.openWorker(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	fees, err := d.BumpFee(ctx, c.ID, dispatch.AnyVersion, operator)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"Order %s gets a transaction of %v a gas in %v, after one of %v. The running service has the signer sign it, "+
			"and sends it. At most one of them is mined.\n",
		c.ID, fees.FeeCap, *s.ChainSlot, s.Transactions[len(s.Transactions)-1].Fees.FeeCap)
	return nil
}

type dispatchCancel struct{ orderFlags }

func (c dispatchCancel) Run(ctx context.Context, std streams) error {
	tools, d, s, err := c.openWorker(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	ok, err := d.CancelOrder(ctx, c.ID, operator)
	if err != nil {
		return err
	}
	if !ok {
		if s, err = c.loadOrder(ctx, tools); err != nil {
			return err
		}
		return newCannotCancel(s)
	}
	if s.ChainSlot == nil {
		if s, err = c.loadOrder(ctx, tools); err != nil {
			return err
		}
	}
	if s.Status == dispatch.Recalled {
		fmt.Fprintf(
			std.out,
			"Order %s had no slot and has ended: nothing of it was signed or sent, and no payment is made. %s\n",
			c.ID, s.Kind().AfterRecall,
		)
		return nil
	}
	consequence := "Nothing of it was signed, so no payment is made"
	for _, t := range s.Transactions {
		if t.Hash != "" && t.Act != "CANCEL" {
			consequence = "An earlier transaction can still be mined first; then the payment is made, and the cancel " +
				"has no effect"
		}
	}
	fmt.Fprintf(
		std.out,
		"Order %s gets a cancel transaction in its slot %v. %s. Its amount stays held until one of them is final.\n",
		c.ID, *s.ChainSlot, consequence,
	)
	if len(s.TxMemberIDs) > 0 {
		fmt.Fprintf(std.out, "%s uses the same slot: both have the same outcome.\n",
			strings.Join(s.TxMemberIDs, ", "))
	}
	return nil
}

// newCannotCancel describes what happened to the money of an order without an open slot.
func newCannotCancel(s dispatch.OrderView) error {
	switch s.Status {
	case dispatch.Refused:
		return fmt.Errorf("order %s has no slot to cancel: the signer refused it before it had one. Nothing was "+
			"sent. A withdrawal waits in AWAITING_APPROVAL: coffer withdrawals remove %s returns its "+
			"amount", s.ID, s.ID)
	case dispatch.Stuck:
		return fmt.Errorf(
			"order %s is final on the chain and cannot be cancelled. Its amount stays held; coffer dispatch resolve "+
				"%s checks its outcome",
			s.ID, s.ID,
		)
	}
	return fmt.Errorf("order %s is %s: it has ended and nothing was done", s.ID, s.Status)
}

type dispatchResolve struct {
	orderFlags
	Short   bool   `xor:"how" help:"Count a payment as paid although less arrived than left."`
	As      string `xor:"how" enum:"paid,unpaid," default:"" placeholder:"paid|unpaid" help:"End it with the outcome that you found, if the balances prove none; with --because."`
	Because string `placeholder:"WHY" help:"What you found, for the audit log."`
}

func (c dispatchResolve) Run(ctx context.Context, std streams) error {
	tools, d, _, err := c.openWorker(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	switch {
	case (c.As == "") != (c.Because == ""):
		return errors.New(
			"nothing was done: --as paid or --as unpaid needs --because WHY, and --because needs --as",
		)
	case c.As != "":
		if err := tools.DecideStuck(ctx, c.ID, c.As == "paid", operator, c.Because); err != nil {
			return err
		}
		fmt.Fprintf(
			std.out, "Order %s has ended as %s, by your decision. Run coffer verify to see whether the chain agrees.\n",
			c.ID, c.As,
		)
		return nil
	}
	status, err := d.ResolveStuck(ctx, c.ID, operator, c.Short)
	if err != nil {
		return err
	}
	became := "Its amount left the wallet and is booked as paid."
	if status == dispatch.Failed {
		became = "Its amount did not move and is available again."
	}
	fmt.Fprintf(std.out, "Order %s is %s by the balances of its block. %s The token stays in quarantine.\n", c.ID,
		status, became)
	return nil
}

// operator is the person who runs a command on this machine.
var operator = audit.Operator("cli")

// formatCostMax formats the maximum cost of a transaction, in its chain's native coin.
func formatCostMax(mints mint.Catalogue, name chain.Name, fees chain.Fees) string {
	cost, err := fees.Max()
	if err != nil {
		return "beyond any number"
	}
	return formatNative(mints, name, cost)
}

func formatNative(mints mint.Catalogue, name chain.Name, units money.Amount) string {
	if m, ok := mints.Native(name); ok {
		return units.Decimal(m.Decimals) + " " + m.Symbol
	}
	return units.String() + " units"
}

// shorten returns the beginning and the end of an address or a hash; the show command prints it
// completely.
func shorten(s string) string {
	const head, tail = 8, 6
	if s == "" {
		return "-"
	}
	if len(s) <= head+tail {
		return s
	}
	return s[:head] + "…" + s[len(s)-tail:]
}

// formatAge formats a duration for people.
func formatAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
