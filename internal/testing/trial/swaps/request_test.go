package swaps

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// Rule SWAP-5: a quote writes nothing, asks for no wallet, and says what a swap brings.
func TestAQuoteWritesNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	wallets := e.number(`SELECT count(*) FROM wallets`)
	q, err := e.Swaps.Quote(e.ctx, e.org, swap.QuoteRequest{
		FromMintID: dollars, ToMintID: euros,
		AmountIn: fmt.Sprint(amountIn),
	})
	e.must(err)
	if q.EstimatedOut != units(amountOut) || q.MinOut != units(minOut) || q.FeeAmount != units(750_000) ||
		q.FeeBps != 25 ||
		q.Rate != "0.995" || deref(q.PriceImpactBps) != 50 || deref(q.EstimatedSeconds) != 10 ||
		q.Provider != e.desk.name ||
		q.USDValue == nil || *q.USDValue != money.MustParseUSD("300") {
		t.Errorf("got %+v", q)
	}
	if n := e.number(`SELECT count(*) FROM wallets`); n != wallets || e.desk.asked != 0 {
		t.Errorf("a quote made %d wallets and %d firm questions, want none", n-wallets, e.desk.asked)
	}
	e.wantNothing()
	_, err = e.Swaps.Quote(e.ctx, e.org, swap.QuoteRequest{
		CustomerID: new(""), FromMintID: dollars, ToMintID: euros, AmountIn: "1000000",
	})
	e.wantFault(err, fault.InvalidRequest)
	e.setting("customerSwapsEnabled", "false")
	_, err = e.Swaps.Quote(e.ctx, e.org, swap.QuoteRequest{FromMintID: dollars, ToMintID: euros, AmountIn: "1000000"})
	e.wantFault(err, fault.SwapsDisabled)
}

// The answer to a new request is made of what was written, and not read again.
func TestTheAnswerToARequestIsTheStoredSwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	ask := request("key")
	ask.Metadata, ask.MinAmountOut, ask.SlippageBps = map[string]string{"order": "7 \"é\""}, new("1"), new(50)
	made, _, err := e.Swaps.Request(e.ctx, e.org, ask)
	e.must(err)
	if stored := e.load(made.ID); !reflect.DeepEqual(made, stored) {
		t.Errorf("a customer's swap: the answer is %+v, and stored is %+v", made, stored)
	}
	o := newOwnEnv(t)
	for _, key := range []string{"offered", "awaiting"} {
		made := o.requestOwn(o.ownRequest(key))
		if stored := o.own(made.ID); !reflect.DeepEqual(made, stored) {
			t.Errorf("a swap of an organization, %s: the answer is %+v, and stored is %+v", key, made, stored)
		}
		o.setting("twoFactorUsdThreshold", `"100"`)
	}
}

// Rules SWAP-1, SWAP-2, SWAP-4, SWAP-7, SWAP-8 and SWAP-9: a refused request leaves no row and no hold, and its
// key is free.
func TestARefusedRequestLeavesNothing(t *testing.T) {
	t.Parallel()
	freezeScope := func(f freeze.Freeze) func(*testEnv, *swap.Request) {
		return func(e *testEnv, _ *swap.Request) {
			f.Source, f.Reason, f.Actor = freeze.SourceOperator, "test", audit.Operator("op")
			if f.Scope != freeze.ScopeChain {
				f.OrgID = e.org
			}
			e.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
		}
	}
	change := func(fn func(*swap.Request)) func(*testEnv, *swap.Request) {
		return func(_ *testEnv, r *swap.Request) { fn(r) }
	}
	quoted := func(fn func(e *testEnv, q *quotetest.OneClick)) func(*testEnv, *swap.Request) {
		return func(e *testEnv, _ *swap.Request) {
			e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { fn(e, q) }
		}
	}
	for name, c := range map[string]struct {
		prepare   func(*testEnv, *swap.Request)
		code      fault.Code
		param     string
		suspended bool
	}{
		"no key": {
			change(func(r *swap.Request) { r.IdempotencyKey = "" }), fault.InvalidRequest,
			"idempotencyKey", false,
		},
		"a key with a space": {
			change(func(r *swap.Request) { r.IdempotencyKey = "a b" }), fault.InvalidRequest,
			"idempotencyKey", false,
		},
		"no customer": {
			change(func(r *swap.Request) { r.CustomerID = "" }), fault.InvalidRequest,
			"customerId", false,
		},
		"an e-mail that is none": {
			change(func(r *swap.Request) { r.CustomerEmail = new("ann") }),
			fault.InvalidRequest, "customerEmail", false,
		},
		"an unknown customer": {
			change(func(r *swap.Request) { r.CustomerID = "stranger" }),
			fault.InsufficientBalance, "amountIn", false,
		},
		"an unknown source": {
			change(func(r *swap.Request) { r.FromMintID = 77 }), fault.MintNotFound,
			"fromMintId", false,
		},
		"a source that no id can be": {
			change(func(r *swap.Request) { r.FromMintID = 1 << 40 }), fault.MintNotFound,
			"fromMintId", false,
		},
		"an unknown destination": {
			change(func(r *swap.Request) { r.ToMintID = 77 }), fault.MintNotFound, "toMintId",
			false,
		},
		"one currency": {
			change(func(r *swap.Request) { r.ToMintID = dollars }), fault.InvalidPair, "",
			false,
		},
		"no amount": {
			change(func(r *swap.Request) { r.AmountIn = "" }), fault.InvalidAmount,
			"amountIn", false,
		},
		"an amount of nothing": {
			change(func(r *swap.Request) { r.AmountIn = "0" }), fault.InvalidAmount,
			"amountIn", false,
		},
		"half a unit": {
			change(func(r *swap.Request) { r.AmountIn = "1.5" }), fault.InvalidAmount,
			"amountIn", false,
		},
		"a minimum that is none": {
			change(func(r *swap.Request) { r.MinAmountOut = new("x") }), fault.InvalidAmount,
			"minAmountOut", false,
		},
		"no slippage": {
			change(func(r *swap.Request) { r.SlippageBps = new(0) }), fault.InvalidRequest,
			"slippageBps", false,
		},
		"all as slippage": {
			change(func(r *swap.Request) { r.SlippageBps = new(10_000) }),
			fault.InvalidRequest, "slippageBps", false,
		},
		"a unit more than the balance": {
			change(func(r *swap.Request) { r.AmountIn = fmt.Sprint(funded + 1) }), fault.InsufficientBalance,
			"amountIn", false,
		},
		"a minimum above the offer": {
			change(func(r *swap.Request) { r.MinAmountOut = new(fmt.Sprint(minOut + 1)) }), fault.QuoteRejected, "",
			false,
		},
		"the budget of the caller": {change(func(r *swap.Request) {
			r.Limit = func() error { return fault.New(fault.Limited, fault.RateLimited, fault.NothingHeld, "Slower.") }
		}), fault.RateLimited, "", false},
		"swaps are switched off": {
			func(e *testEnv, _ *swap.Request) {
				e.setting("customerSwapsEnabled",
					"false")
			}, fault.SwapsDisabled, "", false,
		},
		"a mint is not in the list": {
			func(e *testEnv, _ *swap.Request) { e.setting("swappableMintIds", "[1,2]") }, fault.InvalidPair, "", false,
		},
		"a mint is quarantined": {func(e *testEnv, _ *swap.Request) {
			e.inSystem(func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, euros, "it lies") })
		}, fault.InvalidPair, "", false},
		"the customer is frozen": {
			freezeScope(freeze.Freeze{
				Scope:      freeze.ScopeCustomer,
				CustomerID: "ann",
			}), fault.CustomerFrozen, "customerId", false,
		},
		"the organization is frozen": {
			freezeScope(freeze.Freeze{Scope: freeze.ScopeOrganization}), fault.OrganizationFrozen, "", false,
		},
		"the chain is frozen": {
			freezeScope(freeze.Freeze{
				Scope: freeze.ScopeChain,
				Chain: chain.Ethereum,
			}), fault.WithdrawalsSuspended, "fromMintId", false,
		},
		"the provider refuses": {func(e *testEnv, _ *swap.Request) {
			e.desk.dry = func(provider.Ask) error { return provider.Refused(e.desk.name, "too small") }
		}, fault.QuoteRejected, "", false},
		"the provider is down": {func(e *testEnv, _ *swap.Request) {
			e.desk.dry = func(provider.Ask) error { return provider.Unavailable("no answer") }
		}, fault.CodeUnavailable, "", false},
		"the provider does not answer in time": {func(e *testEnv, _ *swap.Request) {
			e.desk.dry = func(provider.Ask) error { return provider.Unavailable("%w", context.DeadlineExceeded) }
		}, fault.ProviderTimeout, "", false},
		"the provider answers nonsense": {func(e *testEnv, _ *swap.Request) {
			e.desk.dry = func(provider.Ask) error { return provider.Malformed("a page") }
		}, fault.ProviderError, "", false},
		"the price is off by a fifth": {func(e *testEnv, _ *swap.Request) {
			e.desk.price = func(a provider.Ask) uint64 { return amountIn / 5 * 4 }
		}, fault.QuoteRejected, "", false},
		"the price moves between dry and firm": {func(e *testEnv, _ *swap.Request) {
			e.desk.price = func(a provider.Ask) uint64 {
				if a.IsFirm {
					return amountIn / 10 * 9
				}
				return amountOut
			}
		}, fault.QuoteRejected, "", false},
		"the firm offer is below the minimum": {func(e *testEnv, r *swap.Request) {
			r.MinAmountOut = new(fmt.Sprint(minOut))
			e.desk.price = func(a provider.Ask) uint64 {
				if a.IsFirm {
					return amountOut - 1_000_000
				}
				return amountOut
			}
		}, fault.QuoteRejected, "", false},
		"there is no price": {
			func(e *testEnv, _ *swap.Request) { e.prices.set(euros, nil) }, fault.CodeUnavailable, "", false,
		},
		"the price is old": {func(e *testEnv, _ *swap.Request) {
			e.prices.set(euros, &price.Quote{
				Price: money.MustParseUSD("1"), Source: "fixed",
				QuotedAt: e.clock().Add(-6 * time.Minute),
			})
		}, fault.CodeUnavailable, "", false},
		"the only price is the provider's": {func(e *testEnv, _ *swap.Request) {
			e.prices.set(euros, &price.Quote{Price: money.MustParseUSD("1"), Source: "one_click"})
		}, fault.CodeUnavailable, "", false},
		"the offer leaves no time": {
			func(e *testEnv, _ *swap.Request) { e.desk.lifetime = 34 * time.Minute },
			fault.CodeUnavailable, "", false,
		},
		"the deposit address is ours": {quoted(func(e *testEnv, q *quotetest.OneClick) {
			w, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
			e.must(err)
			q.DepositAddress = string(w.Address)
		}), fault.ProviderError, "", true},
		"the deposit address is a token": {quoted(func(_ *testEnv, q *quotetest.OneClick) {
			q.DepositAddress = string(signertest.LimitedToken)
		}), fault.ProviderError, "", true},
		"the deposit address has no key": {quoted(func(_ *testEnv, q *quotetest.OneClick) {
			q.DepositAddress = "0x0000000000000000000000000000000000000000"
		}), fault.ProviderError, "", true},
		"the deposit address is " +
			"none": {
			quoted(func(_ *testEnv, q *quotetest.OneClick) { q.DepositAddress = "somewhere" }),
			fault.ProviderError, "", false,
		},
		"the quote is for another recipient": {quoted(func(_ *testEnv, q *quotetest.OneClick) {
			q.Recipient = string(signertest.Stranger)
		}), fault.ProviderError, "", true},
		"the quote is for another " +
			"amount": {
			quoted(func(_ *testEnv, q *quotetest.OneClick) { q.AmountIn = units(1) }),
			fault.ProviderError, "", true,
		},
		"the quote is for another asset": {quoted(func(_ *testEnv, q *quotetest.OneClick) {
			q.DestinationAsset = signertest.SwapAsset(chain.Ethereum, "")
		}), fault.ProviderError, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			r := request("key")
			c.prepare(e, &r)
			_, isReplayed, err := e.Swaps.Request(e.ctx, e.org, r)
			if f := e.wantFault(err, c.code); c.param != "" && f.Param != c.param {
				t.Errorf("got the parameter %q, want %q", f.Param, c.param)
			}
			if isReplayed {
				t.Error("a refused request is called replayed")
			}
			e.wantNothing()
			e.wantBooks(whole)
			if n := e.number(`SELECT count(*) FROM customers WHERE customer_id <> 'ann'`); n != 0 {
				t.Errorf("a refused request made %d customers", n)
			}
			if isSuspended := e.suspension() != ""; isSuspended != c.suspended {
				t.Errorf("suspended: %q, want %v", e.suspension(), c.suspended)
			}
			e.look("the refusal")
		})
	}
}

// Rule SWAP-8: an operator may let swaps pass without a price.
func TestASwapWithoutAPricePassesWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	e := newTestEnvWith(t, service.SwapConfig{WithoutPrices: true})
	e.prices.set(euros, nil)
	w, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	e.must(err)
	e.look("the request")
	if n := e.number(`SELECT count(*) FROM swap_offers WHERE swap_id = $1 AND price_in IS NULL`, w.ID); n != 1 {
		t.Error("an offer has a price that there was not")
	}
}

// Rule SWAP-8: the provider's own price does not count, and the others do.
func TestAnOfferIsJudgedByThePricesOfOthers(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.prices.set(euros, &price.Quote{Price: money.MustParseUSD("0.9"), Source: "median", Components: []price.Quote{
		{Price: money.MustParseUSD("0.8"), Source: "one_click"}, {Price: money.MustParseUSD("1"), Source: "other"},
	}})
	e.desk.price = func(provider.Ask) uint64 { return 280 * million } // 7 % below the other price, above its own
	_, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	e.wantFault(err, fault.QuoteRejected)
	e.desk.set(func() { e.desk.price = nil })
	e.mu.Lock()
	e.now = e.now.Add(10 * time.Second) // dry quotes are shared for three seconds
	e.mu.Unlock()
	w, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	e.must(err)
	if sources := e.texts(`SELECT price_source FROM swap_offers WHERE swap_id = $1`,
		w.ID); sources[0] != "fixed; other" {
		t.Errorf("judged by %q, want by fixed and other", sources[0])
	}
}

// Rules SWAP-1 and SWAP-2: a known key returns its swap before anything refuses.
func TestAKnownKeyReturnsItsSwapBeforeAnythingRefuses(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	for name, refuse := range map[string]func(){
		"nothing has changed":    func() {},
		"swaps are switched off": func() { e.setting("customerSwapsEnabled", "false") },
		"the customer is frozen": func() {
			e.inSystem(func(ctx context.Context, tx pg.Tx) error {
				return freeze.Create(ctx, tx, freeze.Freeze{
					Scope: freeze.ScopeCustomer, OrgID: e.org, CustomerID: "ann", Source: freeze.SourceOperator,
					Reason: "test",
					Actor:  audit.Operator("op"),
				})
			})
		},
		"the provider is suspended": func() { e.must(e.Swaps.Suspend(e.ctx, e.desk.name, "test")) },
	} {
		refuse()
		r := request("key")
		r.AmountIn = "17"
		r.Limit = func() error { return fault.New(fault.Limited, fault.RateLimited, fault.NothingHeld, "Slower.") }
		again, isReplayed, err := e.Swaps.Request(e.ctx, e.org, r)
		if err != nil || !isReplayed || again.ID != w.ID || !again.Differs(r) {
			t.Errorf("%s: got %s replayed %v %v, want %s", name, again.ID, isReplayed, err, w.ID)
		}
	}
	if e.desk.asked != 1 {
		t.Errorf("the provider was asked %d times, want once", e.desk.asked)
	}
}

// Rule SWAP-1: one key makes one swap, for all callers, in any number of processes.
func TestManyCallersOfOneKeyMakeOneSwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	other := e.open(pgtest.Open(t, e.database, e.clock))
	const callers = 64
	ids, errs, replays := make([]string, callers), make([]error, callers), make([]bool, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			s, r := e.Swaps, request("key")
			if i%2 == 1 {
				s = other.Swaps
			}
			if i%4 >= 2 {
				r.AmountIn = "200000000"
			}
			var w swap.Swap
			w, replays[i], errs[i] = s.Request(e.ctx, e.org, r)
			ids[i] = w.ID
		})
	}
	wg.Wait()
	made := 0
	for i := range callers {
		if errs[i] != nil || ids[i] != swap.ID(e.org, "key") {
			t.Errorf("caller %d: got %s %v", i, ids[i], errs[i])
		}
		if !replays[i] {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d callers are told that they made the swap, want one", made)
	}
	for name, sql := range map[string]string{
		"swaps": `SELECT count(*) FROM swaps`, "orders": `SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWAP'`,
		"holds":            `SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'SWAP_HOLD'`,
		"pairs of wallets": `SELECT count(*) FROM wallets WHERE purpose = 'SWAP_DELIVERY'`,
	} {
		if n := e.number(sql); n != 1 {
			t.Errorf("got %d %s, want 1", n, name)
		}
	}
	e.look("the callers")
}

// Two swaps of one customer that together exceed its balance: one is made.
func TestSwapsCannotSpendABalanceTwice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	const callers = 6
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r := request(fmt.Sprint("key", i))
			r.AmountIn = "400000000"
			_, _, errs[i] = e.Swaps.Request(e.ctx, e.org, r)
		})
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			e.wantFault(err, fault.InsufficientBalance)
		}
	}
	if made != 2 {
		t.Errorf("%d swaps were made, want 2", made)
	}
	e.wantBooks(books{"CUSTOMER 1": 200 * million, "IN_SWAP 1": 800 * million})
	e.look("the callers")
}

// A deposit address is paid once: the same one again suspends the provider.
func TestADepositAddressIsTakenOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) {
		q.DepositAddress = string(signertest.SwapDepositAddress("the same"))
	}
	r := request("one")
	r.AmountIn = "100000000"
	_, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	r.IdempotencyKey = "two"
	_, _, err = e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.ProviderError)
	if e.suspension() == "" || e.number(`SELECT count(*) FROM swaps`) != 1 {
		t.Error("an address was taken twice, or its provider is not suspended")
	}
}

// A provider that gives one deposit address to two swaps at once is suspended like any other that cannot be
// trusted: the second swap goes to the next provider, or is refused.
func TestADepositAddressIsTakenOnceBySwapsAtOneMoment(t *testing.T) {
	t.Parallel()
	for name, hasNext := range map[string]bool{"there is a next provider": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			twice := e.desk
			if hasNext {
				twice = &desk{
					t: t, name: "BEST", clock: e.clock, lifetime: 24 * time.Hour,
					price: func(ask provider.Ask) uint64 { return ask.AmountIn.Big().Uint64()/10_000*9_950 + 1 },
				}
				e.others = append(e.others, twice)
				e.Harness = e.open(e.db)
			}
			twice.change = func(_ provider.Ask, q *quotetest.OneClick) {
				q.DepositAddress = string(signertest.SwapDepositAddress("the same"))
			}
			// Both swaps have their offers checked before either is written: a price is read in between.
			var offers, checked sync.WaitGroup
			offers.Add(2)
			checked.Add(2)
			var isChecking atomic.Bool
			var passes atomic.Int64
			twice.firm = func(ask provider.Ask) error {
				if ask.IsFirm {
					twice.mu.Unlock()
					defer twice.mu.Lock()
					offers.Done()
					offers.Wait()
					isChecking.Store(true)
				}
				return nil
			}
			e.prices.look = func() {
				if isChecking.Load() && passes.Add(1) <= 2 {
					checked.Done()
					checked.Wait()
				}
			}
			requests := make([]<-chan outcome, 2)
			for i := range requests {
				r := request(fmt.Sprint("key", i))
				r.AmountIn = "100000000"
				requests[i] = e.start(e.Swaps, r)
			}
			var made []string
			for _, ended := range requests {
				if o := <-ended; hasNext || o.err == nil {
					e.must(o.err)
					made = append(made, o.Provider)
				} else {
					e.wantFault(o.err, fault.ProviderError)
				}
			}
			slices.Sort(made)
			want := []string{twice.name}
			if hasNext {
				want = append(want, e.desk.name)
			}
			if !slices.Equal(made, want) {
				t.Errorf("got swaps with %v, want %v", made, want)
			}
			suspended := e.texts(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED'`)
			if !slices.Equal(suspended, []string{twice.name}) {
				t.Errorf("suspended are %v, want %s", suspended, twice.name)
			}
			if n := e.number(`SELECT count(*) FROM swaps`); n != int64(len(want)) {
				t.Errorf("got %d swaps, want %d", n, len(want))
			}
			e.look("the requests")
		})
	}
}

// Rule SWAP-9: the least amount out is the caller's where that is more than the provider's, and the payment has
// to be made before the provider stops taking it.
func TestTheTermsOfASwapAreTheStricterOnes(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.lifetime = 50 * time.Minute
	r := request("key")
	r.MinAmountOut = new(fmt.Sprint(minOut - 5))
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	if w.MinOut != units(minOut) || w.EstimatedOut != units(amountOut) || w.FeeAmount != units(750_000) {
		t.Errorf("got at least %v of %v and a fee of %v", w.MinOut, w.EstimatedOut, w.FeeAmount)
	}
	if want := e.clock().Add(20 * time.Minute); !w.PayBy.Equal(want) ||
		!w.ExpiresAt.Equal(e.clock().Add(50*time.Minute)) {
		t.Errorf("pay by %v until %v, want %v and half an hour later", w.PayBy, w.ExpiresAt, want)
	}
	other, err := e.Swaps.ByID(e.ctx, "org_other", w.ID)
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization reads %s: %v", other.ID, err)
	}
	for _, id := range []string{"cs_nothing", "", w.ID + "x"} {
		_, err := e.Swaps.ByID(e.ctx, e.org, id)
		e.wantFault(err, fault.CodeNotFound)
	}
}

// Rule SWAP-9: if the best provider gives no firm offer, the next one is asked.
func TestTheNextProviderIsAskedWhereTheBestGivesNone(t *testing.T) {
	t.Parallel()
	firmly := func(fn func() error) func(provider.Ask) error {
		return func(ask provider.Ask) error {
			if !ask.IsFirm {
				return nil
			}
			return fn()
		}
	}
	for name, c := range map[string]struct {
		prepare   func(best *desk)
		suspended bool
	}{
		"it refuses": {func(best *desk) {
			best.firm = firmly(func() error { return provider.Refused(best.name, "no") })
		}, false},
		"it is down": {func(best *desk) {
			best.firm = firmly(func() error { return provider.Unavailable("no answer") })
		}, false},
		"it cannot be trusted": {func(best *desk) {
			best.change = func(_ provider.Ask, q *quotetest.OneClick) { q.Recipient = string(signertest.Stranger) }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			best := &desk{
				t: t, name: "BEST", clock: e.clock, lifetime: time.Hour,
				price: func(provider.Ask) uint64 { return amountIn },
			}
			c.prepare(best)
			e.others = append(e.others, best)
			e.Harness = e.open(e.db)
			w, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
			e.must(err)
			if w.Provider != e.desk.name || best.dryAsked != 1 || w.EstimatedOut != units(amountOut) {
				t.Errorf("the swap is with %s after %d questions to the best", w.Provider, best.dryAsked)
			}
			if isSuspended := e.suspension() != ""; isSuspended != c.suspended {
				t.Errorf("suspended: %q, want %v", e.suspension(), c.suspended)
			}
			e.look("the request")
		})
	}
	t.Run("the best one gives its offer", func(t *testing.T) {
		t.Parallel()
		e := newUnswept(t)
		e.others = append(e.others, &desk{
			t: t, name: "WORSE", clock: e.clock, lifetime: time.Hour,
			price: func(provider.Ask) uint64 { return amountOut - 1 },
		})
		e.Harness = e.open(e.db)
		w, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
		e.must(err)
		if w.Provider != e.desk.name || e.others[0].asked != 0 {
			t.Errorf("the swap is with %s", w.Provider)
		}
	})
}

// Rule SWAP-9: a provider whose firm offer is further below its dry one than the slippage gives no offer. It is not
// suspended, because prices move.
func TestAFirmOfferBelowItsDryOneGoesToTheNextProvider(t *testing.T) {
	t.Parallel()
	for name, hasNext := range map[string]bool{"there is a next provider": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			bait := e.desk
			if hasNext {
				bait = &desk{t: t, name: "BAIT", clock: e.clock, lifetime: 24 * time.Hour}
				e.others = append(e.others, bait)
				e.Harness = e.open(e.db)
			}
			bait.price = func(ask provider.Ask) uint64 {
				if ask.IsFirm {
					return 292 * million // the limit of the price allows it
				}
				return amountIn
			}
			w, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
			if hasNext {
				e.must(err)
				if w.Provider != e.desk.name {
					t.Errorf("the swap is with %s, want the next provider", w.Provider)
				}
			} else {
				e.wantFault(err, fault.CodeUnavailable)
				e.wantNothing()
			}
			if bait.asked != 1 || e.suspension() != "" {
				t.Errorf("asked %d times, suspended: %q; want once and no suspension", bait.asked, e.suspension())
			}
			e.look("the request")
		})
	}
}

// Rule SWAP-7: a refusal is the answer only if every provider gave one.
func TestASilentProviderIsNoRefusal(t *testing.T) {
	t.Parallel()
	firmly := func(err error) func(provider.Ask) error { return func(provider.Ask) error { return err } }
	for name, c := range map[string]struct {
		best, worse error // of the firm question
		want        fault.Code
	}{
		"the best one is silent":  {context.DeadlineExceeded, provider.Refused("DESK", "no"), fault.ProviderTimeout},
		"the other one is silent": {provider.Refused("BEST", "no"), context.DeadlineExceeded, fault.ProviderTimeout},
		"the best one is unclear": {provider.Malformed("no"), provider.Refused("DESK", "no"), fault.ProviderError},
		"both refuse": {
			provider.Refused("BEST", "no"), provider.Refused("DESK", "no"), fault.QuoteRejected,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			best := &desk{
				t: t, name: "BEST", clock: e.clock, lifetime: time.Hour,
				price: func(provider.Ask) uint64 { return amountIn }, firm: firmly(c.best),
			}
			e.desk.firm = firmly(c.worse)
			e.others = append(e.others, best)
			e.Harness = e.open(e.db)
			_, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
			e.wantFault(err, c.want)
			e.wantNothing()
			if best.asked != 1 || e.desk.asked != 1 {
				t.Errorf("asked %d and %d times, want each once", best.asked, e.desk.asked)
			}
		})
	}
}

// Rule SWAP-7: an offer that is not taken is a refusal like any other, so a provider that was silent before
// decides the answer.
func TestAnOfferThatIsNotTakenHidesNoSilentProvider(t *testing.T) {
	t.Parallel()
	tooLow := func(provider.Ask) uint64 { return amountIn / 5 * 4 }
	refusesFirm := func(ask provider.Ask) error {
		if ask.IsFirm {
			return provider.Refused("BEST", "no")
		}
		return nil
	}
	for name, c := range map[string]struct {
		silent error // of the other provider's dry question
		price  func(provider.Ask) uint64
		firm   func(provider.Ask) error
		want   fault.Code
	}{
		"too low, the other in no time":     {context.DeadlineExceeded, tooLow, nil, fault.ProviderTimeout},
		"too low, the other unclear":        {provider.Malformed("no"), tooLow, nil, fault.ProviderError},
		"too low, the other down":           {provider.Unavailable("no"), tooLow, nil, fault.CodeUnavailable},
		"too low, the other refuses":        {provider.Refused("DESK", "no"), tooLow, nil, fault.QuoteRejected},
		"not made, the other in no time":    {context.DeadlineExceeded, nil, refusesFirm, fault.ProviderTimeout},
		"not made, the other does not swap": {provider.ErrNotServed, nil, refusesFirm, fault.QuoteRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			best := &desk{t: t, name: "BEST", clock: e.clock, lifetime: time.Hour, price: c.price, firm: c.firm}
			e.desk.dry = func(provider.Ask) error { return c.silent }
			e.others = append(e.others, best)
			e.Harness = e.open(e.db)
			_, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
			e.wantFault(err, c.want)
			e.wantNothing()
		})
	}
}

// Rule SWAP-8: an operator may allow no loss besides the slippage.
func TestALossOfNothingIsASetting(t *testing.T) {
	t.Parallel()
	e := newUnfunded(t, service.SwapConfig{PayWindow: time.Hour})
	e.creditUnswept("ann", funded)
	_, _, err := e.Swaps.Request(e.ctx, e.org, request("key")) // half a percent, and the slippage
	e.wantFault(err, fault.QuoteRejected)
	e.wantNothing()
}
