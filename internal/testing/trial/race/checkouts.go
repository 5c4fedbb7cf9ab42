package race

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// checkoutTask is what the workers of both processes do about the same checkouts, at the same time.
type checkoutTask struct {
	Ahead     time.Duration // of the clock, after the ends of the checkouts
	GrantSeed []byte
	// Sales are checkouts that are paid, in part or not at all, and not settled; Claims are refunds with their keys,
	// and Unmatched are payments that no checkout has.
	Sales     []string
	Claims    []refundClaim
	Unmatched []string
}

type refundClaim struct{ RefundID, Key string }

// checkoutPrices are the prices of the race of checkouts.
var checkoutPrices = map[int]money.USD{token: money.MustParseUSD("1"), ether: money.MustParseUSD("3000")}

// checkoutProcess is a process that does everything about checkouts.
type checkoutProcess struct {
	*process
	*harness.Harness
	checkoutTask

	calls, refusals atomic.Uint64
	claimed         map[string]string // by refund: the address that was accepted
	assigned        map[string]string // by deposit: the checkout
}

// sellAll lets every worker do its own thing with every checkout, in the same order.
func sellAll(ctx context.Context, t task) (result, error) {
	s := *t.CheckoutRace
	clock := func() time.Time { return time.Now().Add(s.Ahead) }
	db, err := pg.Open(ctx, pg.Config{URL: t.URL, MaxConns: workers}, clock)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	grants, err := signer.NewGrantKey(s.GrantSeed)
	if err != nil {
		return result{}, err
	}
	p := &checkoutProcess{
		process: &process{task: t, db: db, accepted: map[string]string{}, decided: map[string]string{}},
		Harness: newCheckoutHarness(db, sim.New(sim.Config{}), t.Attest, grants, clock), checkoutTask: s,
		claimed: map[string]string{}, assigned: map[string]string{},
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for round, checkoutID := range s.Sales {
				p.goFor(ctx, w, round, checkoutID)
			}
		})
	}
	wg.Wait()
	for refundID, address := range p.claimed {
		p.decided[refundID] = address
	}
	return result{
		Requests: p.calls.Load(), Conflicts: p.refusals.Load(), Deadlocks: db.Counts().Deadlocks, Vain: p.vain.Load(),
		Accepted: p.accepted, Decided: p.decided, Resolved: p.assigned, Wrong: p.wrong,
	}, nil
}

// newCheckoutHarness builds a service without a signer: what the workers do needs none.
func newCheckoutHarness(
	db *pg.DB, net *sim.Chain, attest ed25519.PublicKey, grants *signer.GrantKey, clock func() time.Time,
) *harness.Harness {
	return harness.New(harness.Config{
		DB: db, Chain: net.ToChain(), AttestKey: attest, Grants: grants,
		Prices: price.Fixed{Prices: checkoutPrices, Clock: clock}, Log: slog.New(slog.DiscardHandler),
	})
}

// goFor does one thing about a checkout. Which one follows from the worker, so that several workers of both processes
// do the same thing at the same time.
func (p *checkoutProcess) goFor(ctx context.Context, worker, round int, checkoutID string) {
	person := audit.User(fmt.Sprintf("usr_%d", worker))
	shop := p.Checkouts
	var act string
	var err error
	switch worker % 11 {
	case 0:
		act, err = "settle", shop.Settle(ctx, checkoutID)
	case 1:
		act = "settle what is due"
		_, err = shop.SettleDue(ctx)
	case 2:
		act, err = "expire", shop.ExpireDue(ctx)
	case 3:
		act = "cancel"
		_, err = shop.CancelCheckout(ctx, p.Org, checkoutID, person)
	case 4:
		act = "refund with one key"
		var made checkout.Refund
		key := fmt.Sprintf("refund-%d", round)
		made, _, _, err = shop.RequestRefund(ctx, p.Org, checkout.RefundRequest{
			CheckoutID: checkoutID, Amount: new("9000000"), IdempotencyKey: &key, Actor: audit.APIKey(p.Org),
			ToAddress: new(string(sim.Address("home of " + key))),
		})
		if err == nil {
			p.checkSameID(p.accepted, key, made.ID)
		}
	case 5:
		act = "refund"
		_, _, _, err = shop.RequestRefund(ctx, p.Org, checkout.RefundRequest{
			CheckoutID: checkoutID, Amount: new("7000000"), Actor: audit.APIKey(p.Org),
			ToAddress: new(string(sim.Address(fmt.Sprintf("home %d %d %d", p.Process, worker, round)))),
		})
	case 6:
		act, err = "follow refunds", shop.FollowRefunds(ctx)
	case 7:
		act = "create with one key"
		err = p.createCheckout(ctx, fmt.Sprintf("sale-%d", round), fmt.Sprintf("order-%d", round))
	case 8:
		act = "create with one reference"
		err = p.createCheckout(ctx, fmt.Sprintf("rival-%d-%d-%d", p.Process, worker, round),
			fmt.Sprintf("order-%d", round))
	case 9:
		act, err = "claim", p.claim(ctx, worker, round)
	default:
		act, err = "assign", p.assign(ctx, worker, round)
	}
	p.calls.Add(1)
	switch f := fault.Find(err); {
	case err == nil:
	case isLockTimeout(err):
		p.vain.Add(1)
	case f == nil:
		p.addComplaint("%s checkout %d: %v", act, round, err)
	default:
		p.refusals.Add(1)
		switch f.Code {
		case fault.InvalidState, fault.RefundExceedsPayment, fault.InsufficientBalance, fault.ReferencePaid:
		default:
			p.addComplaint("%s checkout %d: %v", act, round, err)
		}
	}
}

// createCheckout makes a checkout of which its reference allows one.
func (p *checkoutProcess) createCheckout(ctx context.Context, key, reference string) error {
	made, _, err := p.Checkouts.CreateCheckout(ctx, p.Org, checkout.CheckoutRequest{
		AdHoc:           &checkout.AdHocItem{Name: "Gold plan", Price: "1", Currency: checkout.USD},
		AcceptedMintIDs: []int{token}, Reference: &reference, OnePerReference: new(true), IdempotencyKey: &key,
		Actor: audit.APIKey(p.Org),
	})
	if err == nil {
		p.checkSameID(p.accepted, key, made.ID)
	}
	return err
}

// claim gives a refund an address of this worker, or takes the refund back.
func (p *checkoutProcess) claim(ctx context.Context, worker, round int) error {
	c := p.Claims[round%len(p.Claims)]
	if worker == 9 && round%3 == 0 {
		_, err := p.Checkouts.CancelRefund(ctx, p.Org, c.RefundID, audit.User("usr_1"))
		return err
	}
	address := sim.Address(fmt.Sprintf("claim %d %d", p.Process, worker))
	_, err := p.Checkouts.ClaimRefund(ctx, checkout.RefundClaim{
		RefundID: c.RefundID, Key: c.Key, Address: string(address),
	})
	if err == nil {
		p.checkSameID(p.claimed, c.RefundID, string(address))
	}
	return err
}

// assign gives an unmatched payment to a checkout of this worker's choice.
func (p *checkoutProcess) assign(ctx context.Context, worker, round int) error {
	depositID := p.Unmatched[round%len(p.Unmatched)]
	checkoutID := p.Sales[(worker+7*p.Process)%len(p.Sales)]
	_, err := p.Checkouts.AssignUnmatched(ctx, p.Org, depositID, checkoutID, audit.User("usr_1"))
	if err == nil {
		p.checkSameID(p.assigned, depositID, checkoutID)
	}
	return err
}
