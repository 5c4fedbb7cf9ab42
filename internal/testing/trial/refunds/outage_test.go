package refunds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

var errAway = errors.New("no one answers")

// outside is what a service asks beside its database and its chain, each of which may be away.
type outside struct {
	signer.Signer
	prices price.Source

	isScreeningAway, arePricesAway, isSignerAway atomic.Bool
	calls                                        [3]atomic.Int32 // that got no answer
}

func (o *outside) USD(ctx context.Context, mintID int) (price.Quote, error) {
	if o.arePricesAway.Load() {
		o.calls[1].Add(1)
		return price.Quote{}, price.ErrUnavailable
	}
	return o.prices.USD(ctx, mintID)
}

// absentable is a risk provider that may be away.
type absentable struct {
	watchman
	outside *outside
}

// Screen implements risk.Screener.
func (s absentable) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	if s.outside.isScreeningAway.Load() {
		s.outside.calls[0].Add(1)
		return risk.Verdict{}, risk.Unavailable("no one answers")
	}
	return s.watchman.Screen(ctx, subject)
}

func (o *outside) callSigner() error {
	if o.isSignerAway.Load() {
		o.calls[2].Add(1)
		return errAway
	}
	return nil
}

func (o *outside) IssueAddress(ctx context.Context, w signer.WalletRef) (signer.IssuedAddress, error) {
	if err := o.callSigner(); err != nil {
		return signer.IssuedAddress{}, err
	}
	return o.Signer.IssueAddress(ctx, w)
}

func (o *outside) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	if err := o.callSigner(); err != nil {
		return signer.Entry{}, err
	}
	return o.Signer.AdmitIntent(ctx, i)
}

func (o *outside) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	if err := o.callSigner(); err != nil {
		return signer.SignedTx{}, err
	}
	return o.Signer.Sign(ctx, r)
}

// What may be away, by its place in outside.calls.
var outages = []string{"screening", "prices", "signer"}

func (o *outside) setAway(i int, isAway bool) {
	[]*atomic.Bool{&o.isScreeningAway, &o.arePricesAway, &o.isSignerAway}[i].Store(isAway)
}

// withOutside lets the service of an environment ask what may be away.
func (e *testEnv) withOutside() *outside {
	o := &outside{Signer: e.signer, prices: price.Fixed{Prices: map[int]money.USD{
		dollars: money.MustParseUSD("1"), ether: money.MustParseUSD("2000"),
	}, Clock: e.clock}}
	e.Harness = harness.New(harness.Config{
		DB: e.db, Chain: e.net.ToChain(), Signer: o, AttestKey: e.attest, Grants: e.grants, Prices: o,
		RiskPolicy: risk.Policy{
			Providers: absentable{outside: o}, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour,
		},
	})
	return o
}

// struggle lets every part work, a few times, and mines so many blocks after each. Parts fail while something is away.
func (e *testEnv) struggle(blocks int) {
	e.Helper()
	for range 4 {
		steps := e.ListSteps(nil)
		for _, step := range append(steps,
			harness.Step{Run: func(ctx context.Context) error { _, err := e.Checkouts.SettleDue(ctx); return err }},
			harness.Step{Run: e.Checkouts.ExpireDue}, harness.Step{Run: e.Checkouts.FollowRefunds},
		) {
			_ = step.Run(e.ctx) // the next time goes on
		}
		e.look()
		e.net.Mine(blocks)
		e.advance(20 * time.Second)
	}
}

// tellEnding says how a checkout and its refund ended.
func (e *testEnv) tellEnding(checkoutID, refundID string) string {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	r := e.load(refundID)
	lines := []string{fmt.Sprintf("%s %v counts %s; refund %s of %s to %s, attempt %d", c.Status, c.Exceptions,
		c.Counted.Text(), r.Status, r.Amount, r.ToAddress, r.Attempt)}
	for _, p := range c.Payments {
		lines = append(lines, fmt.Sprintf("%s %s counts %s in time %v refunded %s", p.Status, p.Amount,
			p.Counted.Text(), p.IsInTime, p.Refunded))
	}
	for _, event := range e.events(checkoutID) {
		if event != "CHECKOUT_PROCESSING" { // without a price until the payment is final, no one can tell that
			lines = append(lines, event)
		}
	}
	return strings.Join(append(lines, fmt.Sprint(e.net.Balance(home, signertest.Token))), "\n")
}

// playOutages sells, is paid and gives back, while what order names goes away one after the other and comes back one
// after the other, twice. It returns how that ended, and adds up the questions that got no answer.
func playOutages(t *testing.T, order []int, asked *[3]atomic.Int32) string {
	t.Helper()
	e := newTestEnv(t)
	e.setting("screeningUsdThreshold", `"0"`)
	e.setting("screeningSeverityThreshold", `"MEDIUM"`)
	o := e.withOutside()
	id := e.newCheckout()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	var refund checkout.Refund
	acts := []func(){
		func() { // no quote is valid any more, so that a price is needed
			e.advance(17 * time.Minute)
			e.net.SkipTime(17 * time.Minute)
			e.net.Mine(1)
			e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 100*million)
		},
		func() {
			r, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, to(home)))
			e.must(err)
			refund = r
		},
	}
	for _, act := range acts {
		for i, outage := range order {
			o.setAway(outage, true)
			if i == 0 {
				act()
			}
			e.struggle(0)
		}
		if len(order) == 0 {
			act()
		}
		for _, outage := range order {
			e.struggle(1)
			o.setAway(outage, false)
		}
		for range 4 {
			e.struggle(1)
		}
	}
	// Without an answer about its destination, a payment waits for a person.
	for _, withdrawalID := range e.texts(`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL'`) {
		_, err := e.Withdrawals.Approve(e.ctx, e.org, withdrawalID, audit.User("ann"))
		e.must(err)
	}
	e.until(refund.ID, checkout.RefundCompleted)
	for i := range outages {
		asked[i].Add(o.calls[i].Load())
	}
	e.books(dollars, 0, 0)
	return e.tellEnding(id, refund.ID)
}

// Screening, prices and the signer go away in every order and come back in the same one, while a checkout is paid and
// while it is refunded. It ends as it does without that, and its payer gets the money back once. Rules CO-12 and CO-85.
func TestACheckoutEndsAlikeAfterOutagesInEveryOrder(t *testing.T) {
	t.Parallel()
	var asked [3]atomic.Int32
	want := playOutages(t, nil, &asked)
	if !strings.Contains(want, "COMPLETED [REFUNDED] counts 100") {
		t.Fatalf("without an outage it ends as\n%s", want)
	}
	t.Run("orders", func(t *testing.T) {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var names []string
			for _, outage := range order {
				names = append(names, outages[outage])
			}
			t.Run(strings.Join(names, ", "), func(t *testing.T) {
				t.Parallel()
				if got := playOutages(t, order, &asked); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	})
	for i, name := range outages {
		if asked[i].Load() == 0 {
			t.Errorf("no one asked for %s while that was away", name)
		}
	}
}
