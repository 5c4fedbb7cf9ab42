package checkouts

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/fault"
)

// Rules CO-6 and CO-7.
func TestAnOptionWithoutAPriceIsNotOffered(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		mintID int
		change func(e *testEnv)
	}{
		"NO_PRICE": {ether, func(e *testEnv) { e.prices.set(ether, "") }},
		"OFF_PEG":  {dollars, func(e *testEnv) { e.prices.set(dollars, "0.99") }},
		"CLOSED": {ether, func(e *testEnv) {
			e.exec(`UPDATE mints SET deposit_enabled = false WHERE mint_id = $1`, ether)
		}},
		"BELOW_MINIMUM": {ether, func(e *testEnv) {
			e.exec(`UPDATE mints SET min_deposit = $2 WHERE mint_id = $1`, ether, "60000000000000000")
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.checkout(request(e.product()))
			c.change(e)
			_, err := e.Checkouts.OpenOption(e.ctx, e.org, id, c.mintID)
			if f := e.wantFault(err, fault.OptionUnavailable); f.Details["reason"] != reason {
				t.Errorf("got the reason %v, want %s", f.Details["reason"], reason)
			}
			if n := len(e.texts(`SELECT wallet_id FROM wallets WHERE purpose = 'CHECKOUT'`)); n != 0 {
				t.Errorf("got %d addresses of an option that is not offered, want none", n)
			}
		})
	}
}

// While a payment in time waits for its price the checkout does not expire, and no price is guessed. Rules CO-12
// and CO-13.
func TestAPaymentWithoutAPriceWaitsForOne(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]func(e *testEnv){
		"no price": func(e *testEnv) { e.prices.set(baseDollars, "") },
		"a stale one": func(e *testEnv) {
			e.prices.freeze(baseDollars)
			e.pass(6 * time.Minute)
		},
		"off peg": func(e *testEnv) { e.prices.set(baseDollars, "0.98") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual()
			without(e)
			e.paid(id, baseDollars, 100*million)
			e.pass(40 * time.Minute)
			c := e.is(id, outcome.Open)
			if got := describe(c.Payments[0]); got != "CREDITED unvalued" {
				t.Errorf("got %s, want a credit without a value", got)
			}
			quotes := len(e.option(id, ether).Quotes)
			_, err := e.Checkouts.Refresh(e.ctx, c)
			e.must(err)
			if n := len(e.option(id, ether).Quotes); n != quotes {
				t.Errorf("got %d quotes while it is not known what remains, want %d", n, quotes)
			}
			e.wantStable(id) // asking in vain writes nothing before its next turn
			e.prices.set(baseDollars, "1.001")
			e.pass(11 * time.Minute) // the greatest pause before it asks again
			e.ends(id, ending{
				status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by market"},
				events: []string{"COMPLETED"}, actions: []string{"changed OPEN COMPLETED"},
				books: map[int]int64{baseDollars: 100 * million},
			})
		})
	}
}

// A quote that a payer accepted stays valid while the mint is off its peg.
func TestAQuoteHoldsWhileTheMintIsOffItsPeg(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.prices.set(dollars, "0.9")
	e.paid(id, dollars, 100*million)
	e.is(id, outcome.Completed)
	e.wantStable(id)
}

// Rule CO-7.
func TestAQuoteIsRenewedOnceItIsOver(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(14 * time.Minute)
	refresh := func() {
		t.Helper()
		_, err := e.Checkouts.Refresh(e.ctx, e.load(id))
		e.must(err)
	}
	refresh()
	if n := len(e.option(id, ether).Quotes); n != 1 {
		t.Fatalf("got %d quotes within its time, want one", n)
	}
	e.stopped[chain.Ethereum] = true
	e.pay(id, ether, 20*milliCoin) // at the first quote, and noticed later
	e.mine(1)
	e.pass(2 * time.Minute)
	e.prices.set(ether, "2500")
	refresh()
	refresh()
	quotes := e.option(id, ether).Quotes
	if len(quotes) != 2 || quotes[1].Amount.String() != "40000000000000000" || len(e.option(id, dollars).Quotes) != 1 {
		t.Fatalf("got the quotes %+v, want a second one of 0.04 ether, and none of dollars", quotes)
	}
	e.pay(id, ether, 24*milliCoin)
	e.mine(1)
	e.stopped[chain.Ethereum] = false
	e.turn()
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100",
		payments: []string{"CREDITED 40 by quote 1", "CREDITED 60 by quote 2"}, events: paidEvents,
		actions: paidActions, books: map[int]int64{ether: 44 * milliCoin},
	})
}

// The clocks of two processes differ. The quotes of an option stand in the order of their times all the same, because a
// payment is priced by the quote of its moment.
func TestAProcessWhoseClockIsBehindKeepsTheOrderOfQuotes(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	c := e.load(id)
	e.seen(id, dollars, 40*million)
	const behind = 10 * time.Second
	e.tick(-behind)
	_, err := e.Checkouts.Refresh(e.ctx, e.load(id))
	e.must(err)
	quotes := e.option(id, ether).Quotes
	if len(quotes) != 2 || e.clock().After(c.CreatedAt) || quotes[1].ValidFrom.Before(quotes[0].ValidFrom) {
		t.Errorf("got the quotes %+v at %v, want a second one that is not before the first", quotes, e.clock())
	}
	e.look()
}

// No new quote is made in a mint that takes no deposits any more.
func TestAClosedMintGetsNoNewQuote(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.exec(`UPDATE mints SET deposit_enabled = false WHERE mint_id = $1`, ether)
	e.pass(16 * time.Minute)
	_, err := e.Checkouts.Refresh(e.ctx, e.load(id))
	e.must(err)
	if n := len(e.option(id, ether).Quotes); n != 1 {
		t.Errorf("got %d quotes, want the first one alone", n)
	}
}

// Within the grace of a quote the market applies if it moved against the shop: a quote is no free option. Rule
// CO-12.
func TestAPaymentInTheGraceHasTheMarketPriceIfThatMoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		price, want string
		status      outcome.Status
	}{
		"against the shop":    {"1900", "CREDITED 95 by market", outcome.Open},
		"a little":            {"1990", "CREDITED 100 by quote 1", outcome.Completed},
		"in the shop's favor": {"2500", "CREDITED 100 by quote 1", outcome.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual()
			e.pass(15*time.Minute + 30*time.Second)
			e.prices.set(ether, c.price)
			e.paid(id, ether, 50*milliCoin)
			got := e.load(id)
			if describe(got.Payments[0]) != c.want || got.Status != c.status {
				t.Errorf("got %s and %s, want %s and %s", describe(got.Payments[0]), got.Status, c.want, c.status)
			}
			e.wantStable(id)
		})
	}
}

// The price of long after says nothing about a payment in the grace of its quote: it has the price of the quote.
// Rule CO-12.
func TestAPaymentInTheGraceThatIsNoticedLateHasItsQuote(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(15*time.Minute + 30*time.Second)
	e.stopped[chain.Ethereum] = true
	e.pay(id, ether, 50*milliCoin)
	e.mine(1)
	e.pass(20 * time.Minute)
	e.prices.set(ether, "1900")
	e.stopped[chain.Ethereum] = false
	e.turn()
	e.finalize()
	if got := describe(e.is(id, outcome.Completed).Payments[0]); got != "CREDITED 100 by quote 1" {
		t.Errorf("got %s, want the price of the quote, in time", got)
	}
}

// The clock of a block of Bitcoin may be hours off. A payment is never after its first sight, and never before its
// address.
func TestABlockWhoseClockIsOffIsJudgedByItsFirstSight(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"hours behind": -100 * time.Minute, "hours ahead": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			e.skip(3 * time.Hour)
			e.turn()
			id := e.checkout(request(e.product(holdingLate)), bitcoin)
			e.prices.set(bitcoin, "40000") // the quote is of 50000
			e.pass(25 * time.Minute)
			e.pay(id, bitcoin, 200_000)
			e.nets[chain.Bitcoin].SkipTime(off)
			e.block()
			e.nets[chain.Bitcoin].SkipTime(-off)
			e.is(id, outcome.Processing)
			e.finalize()
			c := e.is(id, outcome.Completed)
			if got := describe(c.Payments[0]); got != "CREDITED 100 by quote 1" {
				t.Errorf("got %s, want the price of the quote, in time", got)
			}
			e.wantStable(id)
		})
	}
}

// A payer is quicker than a block: its block's clock may be seconds before the address.
func TestABlockThatBeginsBeforeTheAddressHasTheFirstQuote(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.tick(4 * time.Second)
	id := e.usual()
	e.prices.set(ether, "1000")
	e.pay(id, ether, 50*milliCoin)
	e.nets[chain.Ethereum].SkipTime(-3 * time.Second)
	e.block()
	c := e.is(id, outcome.Processing)
	if got := describe(c.Payments[0]); got != "SEEN 100 by quote 1" {
		t.Errorf("got %s, want the price of the quote", got)
	}
}

// A currency that no accepted mint has can never be paid.
func TestACheckoutKeepsAMintOfItsCurrency(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product(func(d *checkout.Draft) { d.Currency, d.Price = "ETH", new("0.05") })
	_, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, request(productID, func(r *checkout.CheckoutRequest) {
		r.AcceptedMintIDs = []int{dollars}
	}))
	e.wantFault(err, fault.InvalidRequest)
	id := e.checkout(request(productID), dollars, ether)
	quote, _ := e.option(id, ether).Quote()
	if quote.Amount.String() != "50000000000000000" || quote.Rate.Source != "OWN_SYMBOL" {
		t.Errorf("got %s by %s, want the amount due itself", quote.Amount, quote.Rate.Source)
	}
	e.paid(id, dollars, 50*million)
	e.prices.set(ether, "")
	e.paid(id, ether, 25*milliCoin)
	e.ends(id, ending{
		status: outcome.Completed, seen: "0.05", counted: "0.05",
		payments: []string{"CREDITED 0.025 by quote 1", "CREDITED 0.025 by quote 1"},
		events:   []string{"EXCEPTION", "PROCESSING", "COMPLETED"},
		actions:  append([]string{"changed OPEN OPEN"}, paidActions...),
		books:    map[int]int64{dollars: 50 * million, ether: 25 * milliCoin},
	})
}

// A walk that stood still shows a payment without a quote when its moment is long gone. No one says what the coin was
// worth then, so it is treated as a late one: by the price of now, and by the policy for late payments. It keeps no
// checkout open forever.
func TestAPaymentThatNoPriceReachesAnyMoreIsTreatedAsLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*checkout.Draft)
		status  outcome.Status
		payment string
	}{
		"accepted": {func(*checkout.Draft) {}, outcome.Completed, "CREDITED 90 by market late"},
		"held":     {holdingLate, outcome.Expired, "CREDITED 90 by market late not counted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual(c.change, withTolerance(1000))
			e.pass(20 * time.Minute)
			e.stopped[chain.Ethereum] = true
			e.pay(id, ether, 50*milliCoin)
			e.mine(1)
			e.pass(40 * time.Minute)
			e.prices.set(ether, "1800")
			e.stopped[chain.Ethereum] = false
			e.turn()
			e.finalize()
			got := e.is(id, c.status, outcome.PaidLate)
			if describe(got.Payments[0]) != c.payment {
				t.Errorf("got %s, want %s", describe(got.Payments[0]), c.payment)
			}
			e.wantStable(id)
		})
	}
}
