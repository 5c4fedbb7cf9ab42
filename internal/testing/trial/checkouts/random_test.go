package checkouts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
)

// randomRuns is how many random stories are played; COFFER_CHECKOUT_STORIES is another number.
const randomRuns = 4

// Random stories: payments, forks, outages, prices, decisions and people in any order. Whatever happens, the states
// agree with the payments once everything is known, and nothing is told twice. Rules CO-10, CO-14 and CO-15.
func TestWhateverHappensTheStatesAgreeWithThePayments(t *testing.T) {
	t.Parallel()
	runs := randomRuns
	if text := os.Getenv("COFFER_CHECKOUT_STORIES"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range runs {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			playRandomStory(t, rand.New(rand.NewPCG(uint64(seed), 7)))
		})
	}
}

func playRandomStory(t *testing.T, r *rand.Rand) {
	t.Helper()
	e := newTestEnv(t)
	e.screen()
	e.mine(5)
	productID := e.product(func(d *checkout.Draft) {
		if r.IntN(2) == 0 {
			d.LatePaymentPolicy = checkout.HoldLate
		}
		d.OnePerReference = r.IntN(2) == 0
	})
	ids := []string{e.checkout(request(productID), dollars, ether, solanaDollars)}
	ids = append(ids, e.checkout(request(productID, otherOf("key-2"), func(r *checkout.CheckoutRequest) {
		r.Reference = new("order-2")
	}), dollars, ether, solanaDollars))
	story := []string{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(story, "\n"))
		}
	})
	note := func(format string, args ...any) { story = append(story, fmt.Sprintf(format, args...)) }
	for range 40 {
		id := ids[r.IntN(len(ids))]
		switch op := r.IntN(23); {
		case op < 7:
			from := payer
			if r.IntN(6) == 0 {
				from = thief
			}
			mintID := []int{dollars, dollars, ether, ether, baseDollars, euros, twin}[r.IntN(7)]
			units := []uint64{20, 50, 50, 100, 120}[r.IntN(5)] * million
			if mintID == ether {
				units = units / (2000 * million / 1000) * milliCoin / 1000 * 1000
			}
			if r.IntN(10) == 0 {
				units = 1
			}
			note("pay %d of mint %d to %s from %s", units, mintID, id, from)
			e.payFrom(from, id, mintID, units)
		case op == 7:
			note("pay an unknown token to %s", id)
			e.nets[chain.Ethereum].Pay(payer, e.address(id, chain.EVM), unknownToken, million)
		case op < 11:
			note("a block")
			e.mine(1)
		case op == 11:
			note("time")
			e.skip(time.Duration(1+r.IntN(20)) * time.Minute)
		case op == 12:
			name := []chain.Name{chain.Ethereum, chain.Base}[r.IntN(2)]
			e.stopped[name] = !e.stopped[name]
			note("the walk of %s stops: %v", name, e.stopped[name])
		case op == 13 && !e.stopped[chain.Ethereum]:
			net, dropped := e.nets[chain.Ethereum], []chain.TxHash(nil)
			for _, moved := range net.BlockAt(net.Latest().Height).Transfers {
				if r.IntN(2) == 0 {
					dropped = append(dropped, moved.Tx)
				}
			}
			note("a fork without %d", len(dropped))
			net.Fork(1, dropped...)
			if r.IntN(2) == 0 {
				net.Mine(2)
			} else {
				net.MineEmpty(2)
			}
		case op == 14:
			price := []string{"", "1500", "1990", "2000", "2500"}[r.IntN(5)]
			note("ether is worth %q", price)
			e.prices.set(ether, price)
		case op == 15:
			price := []string{"", "0.98", "1"}[r.IntN(3)]
			note("dollars of Base are worth %q", price)
			e.prices.set(baseDollars, price)
		case op == 16:
			_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
			note("cancel %s: %v", id, err)
			if err != nil {
				e.wantFault(err, fault.InvalidState)
			}
		case op == 17 && r.IntN(3) == 0:
			_, err := e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "so be it", audit.Operator("ann"))
			note("accept %s: %v", id, err)
			if f := fault.Find(err); err != nil && (f == nil || f.Code != fault.ReferencePaid) {
				e.wantFault(err, fault.InvalidState)
			}
		case op == 20:
			key := fmt.Sprint("key-", len(ids)+1)
			c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, request(productID, otherOf(key)))
			note("another checkout of the reference: %s %v", c.ID, err)
			if err != nil {
				e.wantFault(err, fault.ReferencePaid)
				break
			}
			_, err = e.Checkouts.OpenOption(e.ctx, e.org, c.ID, dollars)
			e.must(err)
			ids = append(ids, c.ID)
		case op > 20:
			var references []chain.Address
			for _, named := range ids[:2] {
				if r.IntN(2) == 0 {
					references = append(references, e.referenceOf(named))
				}
			}
			note("pay the shared address with %d references", len(references))
			e.payShared(50*million, references...)
		case op == 18:
			note("renew the quotes of %s", id)
			_, err := e.Checkouts.Refresh(e.ctx, e.load(id))
			e.must(err)
		case op == 19:
			for _, depositID := range e.deposits("FLAGGED") {
				note("approve %s", depositID)
				_, err := e.Deposits.Approve(e.ctx, depositID, decider(), "")
				e.must(err)
			}
		}
		if r.IntN(2) == 0 {
			note("a turn")
			e.turn()
		}
	}
	note("the end")
	clear(e.stopped)
	e.prices.set(ether, "2000")
	e.prices.set(baseDollars, "1")
	e.turn()
	e.finalize()
	e.pass(11 * time.Minute) // the greatest pause before a price is asked for again
	for _, depositID := range e.deposits("FLAGGED") {
		_, err := e.Deposits.Approve(e.ctx, depositID, decider(), "")
		e.must(err)
	}
	e.turn()
	e.pass(45 * time.Minute)
	for _, id := range ids {
		e.wantAgreement(id)
		e.wantStable(id)
	}
	if left := e.texts(`SELECT deposit_id FROM checkout_payments WHERE told_status IS DISTINCT FROM status
		OR try_at IS NOT NULL`); len(left) != 0 {
		t.Errorf("got %d payments that are not told, want none", len(left))
	}
	differ := e.texts(`SELECT deposit_id FROM deposits d FULL JOIN checkout_payments p USING (deposit_id)
		LEFT JOIN checkout_unmatched u USING (deposit_id)
		WHERE p.deposit_id IS NULL AND u.deposit_id IS NULL
			OR p.deposit_id IS NOT NULL AND (d.deposit_id IS NULL OR d.amount <> p.amount
				OR d.status <> CASE WHEN p.status <> 'UNUSABLE' THEN p.status WHEN d.mint_id IS NULL THEN 'UNSUPPORTED'
					ELSE 'BELOW_MINIMUM' END)`)
	if len(differ) != 0 {
		t.Errorf("got %d payments that are not as their deposits, want none", len(differ))
	}
}

// wantAgreement expects that a checkout is what its payments say.
func (e *testEnv) wantAgreement(checkoutID string) {
	e.Helper()
	c := e.load(checkoutID)
	var seen, counted, mustCount checkout.Price
	for _, p := range c.Payments {
		isAlive := p.Status == outcome.PaymentSeen || p.Status == outcome.PaymentCredited
		if isAlive && p.Mint != nil && p.Counted == nil {
			e.Errorf("payment %s has no value", p.DepositID)
		}
		if p.Counts {
			seen, _ = seen.Add(*p.Counted)
			if p.Status == outcome.PaymentCredited {
				counted, _ = counted.Add(*p.Counted)
			}
		}
		if p.Counts && !isAlive {
			e.Errorf("payment %s counts and is %s", p.DepositID, p.Status)
		}
		if isAlive && p.Counted != nil && p.IsAccepted && p.IsInTime {
			mustCount, _ = mustCount.Add(*p.Counted)
			if !p.Counts {
				e.Errorf("payment %s is in time and does not count", p.DepositID)
			}
		}
	}
	if seen.Cmp(c.SeenSum) != 0 || counted.Cmp(c.Counted) != 0 {
		e.Errorf("seen %s and credited %s, and its payments say %s and %s", c.SeenSum.Text(), c.Counted.Text(),
			seen.Text(), counted.Text())
	}
	isTaken := c.OnePerReference && len(c.Exceptions) > 0 && len(e.texts(`SELECT checkout_id FROM checkouts
		WHERE reference = $1 AND checkout_id <> $2 AND status IN ('OPEN', 'PROCESSING', 'COMPLETED')`,
		c.Reference, c.ID)) > 0
	if mustCount.Cmp(c.Need) >= 0 && c.Status != outcome.Completed && !isTaken {
		e.Errorf("it is %s although %s was paid in time", c.Status, mustCount.Text())
	}
	if c.Status == outcome.Completed && c.DecidedBy == "" && counted.Cmp(c.Need) < 0 &&
		!slices.Contains(c.Exceptions, outcome.Reversed) {
		e.Errorf("it is completed with %s", counted.Text())
	}
	if c.Status == outcome.Open || c.Status == outcome.Processing {
		e.Errorf("it is still %s long after its end", c.Status)
	}
	// Each event says a transition, and completion is told once.
	changes := e.texts(`SELECT (detail->>'from') || ' ' || (detail->>'to') FROM audit_log
		WHERE resource_id = $1 AND action = 'checkout.changed' ORDER BY audit_id`, checkoutID)
	statuses := map[string]int{}
	at := outcome.Open
	for _, change := range changes {
		from, to, _ := strings.Cut(change, " ")
		if outcome.Status(from) != at && !(from == "CANCELLED" && at == outcome.Open) {
			e.Errorf("it goes on from %s after %s", from, at)
		}
		if from != to {
			statuses[to]++
			if !outcome.IsTransition(outcome.Status(from), outcome.Status(to)) {
				e.Errorf("it went from %s to %s", from, to)
			}
		}
		at = outcome.Status(to)
	}
	for _, status := range []string{"PROCESSING", "COMPLETED", "EXPIRED"} {
		told := len(e.texts(`SELECT event_id FROM events WHERE resource_id = $1 AND type = $2`, checkoutID,
			"CHECKOUT_"+status))
		if told != statuses[status] || status == "COMPLETED" && told > 1 {
			e.Errorf("%s is told %d times, and reached %d times", status, told, statuses[status])
		}
	}
}
