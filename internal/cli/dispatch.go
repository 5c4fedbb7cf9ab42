package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// listMax is how many orders a list shows.
const listMax = 200

type dispatchCmd struct {
	List    dispatchList    `cmd:"" default:"withargs" help:"Show every order that has not ended, and what it waits for (the default)."`
	Show    dispatchShow    `cmd:"" help:"Show one order with every transaction in its slot."`
	Bump    dispatchBump    `cmd:"" help:"Replace what is out by the same payment with a higher fee, in the same slot."`
	Cancel  dispatchCancel  `cmd:"" help:"End an order: at once where it has no slot yet, else by a transaction that pays nobody. What is out may still be mined."`
	Resolve dispatchResolve `cmd:"" help:"End a stuck order by what the balances of its block prove."`
}

type dispatchList struct{ installation }

func (c dispatchList) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	var open []dispatch.Shown
	var more bool
	var mints mint.Catalogue
	var now time.Time
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		now = tx.Now
		if open, more, err = dispatch.Open(ctx, tx, listMax); err == nil {
			mints, err = mint.All(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(open) == 0 {
		fmt.Fprintln(std.out, "Nothing is on its way out.")
		return nil
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORDER\tFOR\tCHAIN\tWALLET\tNONCE\tSTATE\tAGE\tTRANSACTION\tFEE AT MOST\tWAITS FOR")
	for _, s := range open {
		nonce, fee := "-", "-"
		if s.At != nil {
			nonce = fmt.Sprint(s.At.Nonce)
		}
		if len(s.Transactions) > 0 {
			fee = costs(mints, s.Chain, s.Transactions[0].Fees)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Purpose, s.Chain, brief(string(s.Address)), nonce, s.Status,
			age(now.Sub(s.CreatedAt)), brief(string(s.Hash)), fee, s.WaitsFor())
	}
	if more {
		fmt.Fprintf(w, "There are more than these %d.\n", listMax)
	}
	return w.Flush()
}

// order is what the verbs on one order take.
type order struct {
	installation
	ID string `arg:"" help:"The order, which has the id of its withdrawal, sweep, top-up or place: wd_…, sw_…, gas_…, place_…"`
}

// desk opens the tools and finds the desk of the order's chain.
func (c order) desk(ctx context.Context) (a *app.App, d *dispatch.Desk, s dispatch.Shown, err error) {
	if a, err = c.tools(ctx); err != nil {
		return nil, nil, s, err
	}
	if s, err = c.read(ctx, a); err == nil {
		if d = a.Desk(s.Chain); d == nil {
			err = fmt.Errorf("order %s is on %s, which this configuration does not have; nothing was changed", c.ID, s.Chain)
		}
	}
	if err != nil {
		a.Close()
		return nil, nil, s, err
	}
	return a, d, s, nil
}

func (c order) read(ctx context.Context, a *app.App) (s dispatch.Shown, err error) {
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = dispatch.Show(ctx, tx, c.ID)
		return err
	})
	return s, err
}

type dispatchShow struct{ order }

func (c dispatchShow) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	s, err := c.read(ctx, a)
	if err != nil {
		return err
	}
	var mints mint.Catalogue
	var now time.Time
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		now = tx.Now
		mints, err = mint.All(ctx, tx)
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
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	line("order", "%s, %s of %s", s.ID, s.Purpose, s.OrgID)
	line("pays", "%s to %s on %s", amount, s.To, s.Chain)
	line("from", "%s (%s)", s.Address, s.WalletID)
	if s.At != nil {
		line("slot", "%v, %s of gas promised", *s.At, coins(mints, s.Chain, s.GasReserved))
		if len(s.With) > 0 {
			line("together", "one transaction pays it and %s, or none of them", strings.Join(s.With, ", "))
		}
	} else {
		line("slot", "none: nothing is signed and nothing is out")
	}
	line("state", "%s, %s old", s.Status, age(now.Sub(s.CreatedAt)))
	if s.EndedAt != nil {
		line("ended", "%s", s.EndedAt.UTC().Format(time.RFC3339))
	}
	if s.EndedAt == nil || s.VoidOpen {
		line("waits for", "%s", s.WaitsFor())
	}
	if s.Said != "" {
		line("said last", "%s", s.Said)
	}
	if s.Fee != nil {
		line("cost", "%s", coins(mints, s.Chain, *s.Fee))
	}
	if err := w.Flush(); err != nil || len(s.Transactions) == 0 {
		return err
	}
	fmt.Fprintln(std.out)
	w = tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tDOES\tMADE FOR\tFEE AT MOST\tA GAS\tMADE\tSENT LAST\tTRANSACTION")
	for _, t := range s.Transactions {
		sent, hash, because := "never", "not signed", "the order"
		if t.LastSent != nil {
			sent = age(now.Sub(*t.LastSent)) + " ago"
		}
		if t.Hash != "" {
			hash = string(t.Hash)
		}
		switch t.MadeFor {
		case "FEE":
			because = "a higher fee"
		case "OPERATOR":
			because = "an operator"
		case "REFUSAL":
			because = "the signer's no"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%v\t%s ago\t%s\t%s\n", t.Version, t.Act, because, costs(mints, s.Chain, t.Fees), t.Fees.FeeCap,
			age(now.Sub(t.CreatedAt)), sent, hash)
	}
	return w.Flush()
}

type dispatchBump struct{ order }

func (c dispatchBump) Run(ctx context.Context, std streams) error {
	a, d, s, err := c.desk(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	fees, err := d.Bump(ctx, c.ID, operator)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Order %s gets a transaction of %v a gas in %v, after one of %v. The running service has it signed and sends it; one of them is mined, never both.\n",
		c.ID, fees.FeeCap, *s.At, s.Transactions[len(s.Transactions)-1].Fees.FeeCap)
	return nil
}

type dispatchCancel struct{ order }

func (c dispatchCancel) Run(ctx context.Context, std streams) error {
	a, d, s, err := c.desk(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	ok, err := d.Cancel(ctx, c.ID, operator)
	if err != nil {
		return err
	}
	if !ok {
		if s, err = c.read(ctx, a); err != nil {
			return err
		}
		return cannotCancel(s)
	}
	if s.At == nil {
		if s, err = c.read(ctx, a); err != nil {
			return err
		}
	}
	if s.Status == dispatch.Withdrawn {
		fmt.Fprintf(std.out, "Order %s had no slot and has ended: nothing of it is signed, nothing is out, and nobody is paid. %s\n", c.ID, whatEnded(s))
		return nil
	}
	out := "Nothing of it was signed, so nobody is paid"
	for _, t := range s.Transactions {
		if t.Hash != "" && t.Act != "CANCEL" {
			out = "What is out may still be mined first; then it is paid, and this did nothing"
		}
	}
	fmt.Fprintf(std.out, "The slot of order %s, %v, is filled with a transaction that pays nobody. %s. Its amount stays held until either is final.\n", c.ID, *s.At, out)
	if len(s.With) > 0 {
		fmt.Fprintf(std.out, "That is the slot of %s too: what becomes of one becomes of all.\n", strings.Join(s.With, ", "))
	}
	return nil
}

// whatEnded says what became of what an order was for that ended without a slot.
func whatEnded(s dispatch.Shown) string {
	switch s.Purpose {
	case signer.Payment:
		return "Its withdrawal is REJECTED and its amount may be spent again."
	case signer.Return:
		return "Its deposit is FLAGGED still and waits for another decision."
	}
	return "Its amount is where it was, and the service plans it again when it is worth it."
}

// cannotCancel says what became of the money of an order without an open slot.
func cannotCancel(s dispatch.Shown) error {
	switch s.Status {
	case dispatch.Refused:
		return fmt.Errorf("order %s has no slot to cancel: the signer refused it before it had one. Nothing is out. "+
			"A withdrawal waits in AWAITING_APPROVAL: coffer withdrawals remove %s gives its amount back", s.ID, s.ID)
	case dispatch.Stuck:
		return fmt.Errorf("order %s is final on the chain and cannot be cancelled. Its amount stays held; coffer dispatch resolve %s looks at what it did", s.ID, s.ID)
	}
	return fmt.Errorf("order %s is %s: it has ended and nothing was done", s.ID, s.Status)
}

type dispatchResolve struct {
	order
	Short   bool   `xor:"how" help:"Take a payment of which all left and less arrived for paid."`
	As      string `xor:"how" enum:"paid,unpaid," default:"" placeholder:"paid|unpaid" help:"End it as you have found it to be, where the balances prove neither; with --because."`
	Because string `placeholder:"WHY" help:"What you have found, for the audit log."`
}

func (c dispatchResolve) Run(ctx context.Context, std streams) error {
	a, d, _, err := c.desk(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	switch {
	case (c.As == "") != (c.Because == ""):
		return errors.New("nothing was done: --as paid or --as unpaid goes with --because WHY, and neither without the other")
	case c.As != "":
		if err := a.Decide(ctx, c.ID, c.As == "paid", operator, c.Because); err != nil {
			return err
		}
		fmt.Fprintf(std.out, "Order %s has ended as %s, by your word. Run coffer verify to see whether the chain agrees.\n", c.ID, c.As)
		return nil
	}
	status, err := d.Resolve(ctx, c.ID, operator, c.Short)
	if err != nil {
		return err
	}
	became := "Its amount left the wallet and is booked as paid."
	if status == dispatch.Failed {
		became = "Nothing had moved, and its amount was given back."
	}
	fmt.Fprintf(std.out, "Order %s is %s by the balances of its block. %s The token stays in quarantine.\n", c.ID, status, became)
	return nil
}

// operator is whoever runs a command on this machine.
var operator = audit.Operator("cli")

// costs is what a transaction costs at most, in its chain's coin.
func costs(mints mint.Catalogue, name chain.Name, fees chain.Fees) string {
	most, err := fees.Max()
	if err != nil {
		return "beyond any number"
	}
	return coins(mints, name, most)
}

func coins(mints mint.Catalogue, name chain.Name, units money.Amount) string {
	if m, ok := mints.Native(name); ok {
		return units.Decimal(m.Decimals) + " " + m.Symbol
	}
	return units.String() + " units"
}

// brief is the beginning and the end of an address or a hash; show gives it whole.
func brief(s string) string {
	const head, tail = 8, 6
	if s == "" {
		return "-"
	}
	if len(s) <= head+tail {
		return s
	}
	return s[:head] + "…" + s[len(s)-tail:]
}

// age is a duration as a person says it.
func age(d time.Duration) string {
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
