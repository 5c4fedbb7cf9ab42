package swaps

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// The story of a deposit swap: the customer pays the provider, the provider pays our wallet, and the arrival is an
// ordinary deposit of the customer. Rule DSW-5.
func TestAPaymentToTheProviderBecomesADepositOfTheCustomer(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	r := flexRequest("key")
	r.CustomerEmail = new("ann@example.com")
	r.AmountIn = new("33000000000000000")
	d := e.request(r)
	if d.Token.ID != "ethereum:native" || d.Token.Symbol != "ETH" || d.To.ID != dollars || d.RefundAddress !=
		string(refundTo) || d.AmountIn.String() != "33000000000000000" || d.MinOut != units(98_010_000) ||
		d.EstimatedOut != units(99*million) || d.Provider != signertest.SwapProvider || d.DepositAddress == "" {
		t.Errorf("got %+v", d)
	}
	hash := e.payDesk(d, payer, coin/30)
	e.follow()
	paid := e.wantFlex(d.ID, depositswap.Processing)
	if paid.Received == nil || *paid.Received != units(coin/30) || *paid.OriginTxHash != hash {
		t.Errorf("got received %v in %v, want what the chain shows", paid.Received, paid.OriginTxHash)
	}
	if payers, source := paid.Payers(); !slices.Equal(payers, []chain.Address{payer}) || source != depositswap.OwnNode {
		t.Errorf("got the payers %v by %s, want the sender by our node", payers, source)
	}
	e.deliverFlex(d.ID, 99*million)
	done := e.wantFlex(d.ID, depositswap.Completed)
	arrived := e.one(deposit.Credited)
	if arrived.Source != "DEPOSIT_SWAP" || arrived.DepositSwapID != d.ID || arrived.Swap != nil ||
		*arrived.CustomerID != "ann" || *arrived.CustomerEmail != "ann@example.com" {
		t.Errorf("got the deposit %+v", arrived)
	}
	if done.AmountOut == nil || *done.AmountOut != units(99*million) || done.CompletedAt == nil ||
		*done.DestinationTxHash != arrived.TxHash || !slices.Equal(done.DepositIDs, []string{arrived.ID}) {
		t.Errorf("got the completed deposit swap %+v", done)
	}
	e.wantBalance("ann", 99*million)
	if got := e.texts(`SELECT type FROM events WHERE resource_id = $1`, arrived.ID); !slices.Equal(got,
		[]string{"CUSTOMER_DEPOSIT"}) {
		t.Errorf("got the events %v", got)
	}
	e.pass(4)
	e.lookWithChain("the sweep")
}

// A known key returns its deposit swap, whatever else the request says. Rule DSW-4.
func TestAKeyMakesOneDepositSwap(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	e.till.refusal = provider.Unavailable("down")
	changed := flexRequest("key")
	changed.CustomerID, changed.OriginTokenID = "bob", "nothing"
	changed.Limit = func() error { t.Error("a replay counts against the limit"); return nil }
	for name, r := range map[string]depositswap.Request{"the same": flexRequest("key"), "another": changed} {
		again, isReplayed, _, err := e.DepositSwaps.Request(e.ctx, e.org, r)
		if err != nil || !isReplayed || again.ID != d.ID || again.DepositAddress != d.DepositAddress {
			t.Errorf("%s: got %+v, replayed %v, and %v; want the first one", name, again, isReplayed, err)
		}
		if got := again.Differs(r); got != (name == "another") {
			t.Errorf("%s: differs %v", name, got)
		}
	}
	e.till.refusal = nil
	plain := flexRequest("")
	plain.IdempotencyKey = nil
	if a, b := e.request(plain), e.request(plain); a.ID == b.ID || a.DepositAddress == b.DepositAddress {
		t.Errorf("two requests without a key made %s and %s", a.ID, b.ID)
	}
	byKey := depositswap.Filter{IdempotencyKey: "key"}
	page, err := e.DepositSwaps.List(e.ctx, e.org, byKey, pagination.Page{Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != d.ID {
		t.Errorf("got %+v and %v, want the one of the key", page, err)
	}
	count := 0
	e.must(e.DepositSwaps.ForEach(e.ctx, e.org, depositswap.Filter{CustomerID: "ann"}, true,
		func(depositswap.DepositSwap) error { count++; return nil }))
	if count != 3 {
		t.Errorf("got %d deposit swaps of the customer, want 3", count)
	}
}

// Callers that meet with one key make one deposit swap, and all get its address.
func TestCallersWithOneKeyGetOneAddress(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	const callers = 8
	var wg sync.WaitGroup
	got := make([]depositswap.DepositSwap, callers)
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() { got[i], _, _, errs[i] = e.DepositSwaps.Request(e.ctx, e.org, flexRequest("key")) })
	}
	wg.Wait()
	for i := range callers {
		if errs[i] != nil || got[i].DepositAddress != got[0].DepositAddress {
			t.Errorf("caller %d got %s and %v, want %s", i, got[i].DepositAddress, errs[i], got[0].DepositAddress)
		}
	}
	if n := e.number(`SELECT count(*) FROM deposit_swaps`); n != 1 {
		t.Errorf("got %d rows, want one", n)
	}
	e.look("the callers")
}

// A refused request leaves no row and no customer. Rule DSW-3.
func TestARefusedDepositSwapLeavesNothing(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
	e.must(err)
	set := func(change func(*depositswap.Request)) depositswap.Request {
		r := flexRequest("key")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		request depositswap.Request
		prepare func()
		code    fault.Code
		param   string
	}{
		"no customer": {
			request: set(func(r *depositswap.Request) { r.CustomerID = "" }), code: fault.InvalidRequest,
			param: "customerId",
		},
		"an id of a path": {
			request: set(func(r *depositswap.Request) { r.CustomerID = ".." }), code: fault.InvalidRequest,
			param: "customerId",
		},
		"an unknown token": {
			request: set(func(r *depositswap.Request) { r.OriginTokenID = "ethereum:0x01" }),
			code:    fault.InvalidRequest, param: "originTokenId",
		},
		"no token": {
			request: set(func(r *depositswap.Request) { r.OriginTokenID = "ETH" }), code: fault.InvalidRequest,
			param: "originTokenId",
		},
		"the destination itself": {
			request: set(func(r *depositswap.Request) {
				r.OriginTokenID = "ethereum:" + strings.ToLower(string(signertest.Token))
			}), code: fault.InvalidRequest, param: "originTokenId",
		},
		"an amount of zero": {
			request: set(func(r *depositswap.Request) { r.AmountIn = new("0") }), code: fault.InvalidAmount,
			param: "amountIn",
		},
		"a token without a price": {
			request: set(func(r *depositswap.Request) { r.OriginTokenID = "near:odd.near" }),
			code:    fault.InvalidRequest, param: "amountIn",
		},
		"no refund address": {
			request: set(func(r *depositswap.Request) { r.RefundAddress = "" }), code: fault.InvalidAddress,
			param: "refundAddress",
		},
		"a refund address of another form": {
			request: set(func(r *depositswap.Request) { r.RefundAddress = "bob.near" }), code: fault.InvalidAddress,
			param: "refundAddress",
		},
		"our own refund address": {
			request: set(func(r *depositswap.Request) { r.RefundAddress = string(treasury.Address) }),
			code:    fault.DestinationNotAllowed, param: "refundAddress",
		},
		"our own refund address on a chain that we do not read": {
			request: set(func(r *depositswap.Request) {
				r.OriginTokenID, r.RefundAddress = "near:native", strings.ToLower(string(treasury.Address))
			}), code: fault.DestinationNotAllowed, param: "refundAddress",
		},
		"a refusal of the provider": {
			request: flexRequest("key"), prepare: func() {
				e.till.refusal = provider.Refused(e.till.Name(), "Amount is too low, try at least 8300")
			}, code: fault.QuoteRejected,
		},
		"no provider": {
			request: flexRequest("key"), prepare: func() { e.till.refusal = provider.Unavailable("down") },
			code: fault.CodeUnavailable,
		},
		"no answer": {
			request: flexRequest("key"), prepare: func() { e.till.refusal = provider.Malformed("a page") },
			code: fault.ProviderError,
		},
		"a limit": {
			request: set(func(r *depositswap.Request) {
				r.Limit = func() error { return fault.New(fault.Limited, fault.RateLimited, fault.NothingWritten, "x") }
			}), code: fault.RateLimited,
		},
	} {
		e.till.refusal = nil
		if c.prepare != nil {
			c.prepare()
		}
		_, _, _, err := e.DepositSwaps.Request(e.ctx, e.org, c.request)
		f := fault.Find(err)
		if f == nil || f.Code != c.code || f.Param != c.param {
			t.Errorf("%s: got %v, want %s about %q", name, err, c.code, c.param)
		}
		if name == "a refusal of the provider" && f.Extra["providerMessage"] != "Amount is too low, try at least 8300" {
			t.Errorf("got %v, want the provider's words", f.Extra)
		}
		// A provider that fails too often is not asked for a while.
		e.setClock(e.clock().Add(5 * time.Minute))
	}
	if n := e.number(`SELECT (SELECT count(*) FROM deposit_swaps) + (SELECT count(*) FROM customers)
		+ (SELECT count(*) FROM wallets WHERE purpose = 'DEPOSIT_SWAP')`); n != 0 {
		t.Errorf("refused requests left %d rows", n)
	}
}

// A quote that its provider signed for another one is not shown, and the provider gets no new swaps.
func TestAQuoteForAnotherRecipientMakesNoDepositSwap(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*flexEnv, *quotetest.OneClick){
		"another recipient": func(_ *flexEnv, q *quotetest.OneClick) { q.Recipient = string(otherHand) },
		"another refund":    func(_ *flexEnv, q *quotetest.OneClick) { q.RefundTo = string(otherHand) },
		"one amount alone":  func(_ *flexEnv, q *quotetest.OneClick) { q.IsFlexible = false },
		"our own address": func(e *flexEnv, q *quotetest.OneClick) {
			treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
			e.must(err)
			q.DepositAddress = string(treasury.Address)
		},
		"the contract of a token": func(_ *flexEnv, q *quotetest.OneClick) {
			q.DepositAddress = string(signertest.LimitedToken)
		},
		"the contract of a token in another spelling": func(_ *flexEnv, q *quotetest.OneClick) {
			q.DepositAddress = strings.ToLower(string(signertest.LimitedToken))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			e.till.change = func(_ provider.Ask, q *quotetest.OneClick) { change(e, q) }
			_, _, _, err := e.DepositSwaps.Request(e.ctx, e.org, flexRequest("key"))
			e.wantFault(err, fault.ProviderError)
			if n := e.number(`SELECT count(*) FROM deposit_swaps`); n != 0 || e.suspension() == "" {
				t.Errorf("got %d rows and the suspension %q, want none and one", n, e.suspension())
			}
		})
	}
}

// An address of a provider belongs to one deposit swap, however the provider spells it.
func TestADepositSwapHasAnAddressThatNoOtherOneHas(t *testing.T) {
	t.Parallel()
	address := string(signertest.SwapDepositAddress("the same"))
	for name, second := range map[string]string{"as before": address, "in another spelling": strings.ToLower(address)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			given := address
			e.till.change = func(_ provider.Ask, q *quotetest.OneClick) { q.DepositAddress = given }
			if d := e.request(flexRequest("one")); d.DepositAddress != address {
				t.Errorf("got the address %s, want it as the provider signed it: %s", d.DepositAddress, address)
			}
			given = second
			_, _, _, err := e.DepositSwaps.Request(e.ctx, e.org, flexRequest("two"))
			e.wantFault(err, fault.ProviderError)
			if n := e.number(`SELECT count(*) FROM deposit_swaps`); n != 1 || e.suspension() == "" {
				t.Errorf("got %d rows and the suspension %q, want one and one", n, e.suspension())
			}
		})
	}
}

// A provider that gives one address to two deposit swaps at once is suspended like any other that cannot be trusted:
// the second one goes to the next provider, or is refused.
func TestAnAddressIsTakenOnceByDepositSwapsAtOneMoment(t *testing.T) {
	t.Parallel()
	for name, hasNext := range map[string]bool{"there is a next provider": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			want := []string{e.till.Name()}
			if hasNext {
				want = append([]string{e.addNext().Name()}, want...)
			}
			e.till.change = func(_ provider.Ask, q *quotetest.OneClick) {
				q.DepositAddress = string(signertest.SwapDepositAddress("the same"))
			}
			type outcome struct {
				depositswap.DepositSwap
				err error
			}
			ended := make(chan outcome, 2)
			owner := pgtest.OwnerPool(t, e.db)
			// Both have their addresses checked, and wait where freezes are read before either is written.
			e.inSystem(func(ctx context.Context, tx pg.Tx) error {
				if err := freeze.LockExclusive(ctx, tx); err != nil {
					return err
				}
				for i := range 2 {
					go func() {
						d, _, _, err := e.DepositSwaps.Request(e.ctx, e.org, flexRequest(fmt.Sprint("key", i)))
						ended <- outcome{d, err}
					}()
				}
				pgtest.Eventually(t, func() bool {
					var n int
					e.must(owner.QueryRow(e.ctx, `SELECT count(*) FROM pg_stat_activity
						WHERE datname = current_database() AND wait_event = 'advisory'`).Scan(&n))
					return n == 2 || len(ended) > 0
				}, "both wait to be written")
				return nil
			})
			var made []string
			for range 2 {
				if o := <-ended; hasNext || o.err == nil {
					e.must(o.err)
					made = append(made, o.Provider)
				} else {
					e.wantFault(o.err, fault.ProviderError)
				}
			}
			slices.Sort(made)
			if !slices.Equal(made, want) {
				t.Errorf("got deposit swaps with %v, want %v", made, want)
			}
			suspended := e.texts(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED'`)
			if !slices.Equal(suspended, []string{e.till.Name()}) {
				t.Errorf("suspended are %v, want %s", suspended, e.till.Name())
			}
			if n := e.number(`SELECT count(*) FROM deposit_swaps`); n != int64(len(want)) {
				t.Errorf("got %d rows, want %d", n, len(want))
			}
			e.look("the requests")
		})
	}
}

// A provider that is suspended between its firm quote and the commit gets no deposit swap: the next provider gets it,
// and without one the caller repeats the request later. Rule SWAP-28.
func TestASuspensionAfterTheFirmQuoteMovesADepositSwapOn(t *testing.T) {
	t.Parallel()
	for name, hasNext := range map[string]bool{"there is a next provider": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			if hasNext {
				e.addNext()
			}
			e.till.firm = func() error {
				return e.Swaps.SuspendProvider(e.ctx, e.till.Name(), "a person saw something", audit.Operator("op"))
			}
			d, _, _, err := e.DepositSwaps.Request(e.ctx, e.org, flexRequest("key"))
			if hasNext {
				e.must(err)
				if d.Provider != "NEXT" {
					t.Errorf("the deposit swap is with %s, want the next provider", d.Provider)
				}
				return
			}
			e.wantFault(err, fault.CodeUnavailable)
			if n := e.number(`SELECT (SELECT count(*) FROM deposit_swaps) + (SELECT count(*) FROM customers)
				+ (SELECT count(*) FROM swap_turns)`); n != 0 {
				t.Errorf("a refused request left %d rows", n)
			}
			e.must(e.Swaps.ResumeProvider(e.ctx, e.till.Name(), "it was nothing", audit.Operator("op")))
			e.till.firm = nil
			e.request(flexRequest("key"))
		})
	}
}

// The address of a deposit swap is not paid for a swap of a customer: what arrives there is the payer's. Rule SWAP-9.
func TestASwapHasNoAddressOfADepositSwap(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	e.creditUnswept("ann", funded)
	address := string(signertest.SwapDepositAddress("the same"))
	e.till.change = func(_ provider.Ask, q *quotetest.OneClick) { q.DepositAddress = strings.ToLower(address) }
	e.request(flexRequest("key"))
	e.desk.name = "OTHER"
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { q.DepositAddress = address }
	s := e.openFlexWith(e.db, provider.Member{Provider: e.till}, provider.Member{Provider: e.desk}).Swaps
	_, _, err := s.Request(e.ctx, e.org, request("key"))
	e.wantFault(err, fault.ProviderError)
	suspended := e.texts(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED'`)
	if n := e.number(`SELECT count(*) FROM swaps`); n != 0 || !slices.Equal(suspended, []string{e.desk.name}) {
		t.Errorf("got %d swaps, and suspended are %v; want none and %s", n, suspended, e.desk.name)
	}
}

// An attacker who can write to the database cannot make the service show another address. Rule DSW-6.
func TestAnAddressIsNotShownAfterTheRowWasChanged(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	good, other := e.request(flexRequest("key")), e.request(flexRequest("other"))
	e.till.key = quotetest.NewOneClickKey(t)
	forged := quotetest.OneClick{
		DepositAddress: string(otherHand), OriginAsset: flexAsset(etherToken),
		DestinationAsset: flexAsset(e.DepositSwaps.Destination), AmountIn: units(coin), AmountOut: good.EstimatedOut,
		MinAmountOut: good.MinOut, Recipient: string(e.walletOf(good.ID)), RefundTo: good.RefundAddress,
		SlippageBps: 100,
		IsFlexible:  true, SignedAt: e.clock(), Deadline: good.ExpiresAt,
	}
	genuine := forged
	genuine.DepositAddress = string(otherHand) // signed by the provider, for a payment to another address
	for name, sql := range map[string]string{
		"its address":      `SET deposit_address = '` + string(otherHand) + `'`,
		"its refund":       `SET refund_address = '` + string(otherHand) + `'`,
		"its customer":     `SET customer_id = 'bob'`,
		"its expiry":       `SET expires_at = expires_at + '1 day'`,
		"its minimum":      `SET min_out = min_out - 1`,
		"its amount":       `SET amount_in = 5`,
		"its token":        `SET origin_contract = '0x01'`,
		"its provider":     `SET provider = 'RELAY'`,
		"its MAC":          `SET mac = '\x00'`,
		"its wallet":       `SET wallet_id = (SELECT wallet_id FROM wallets WHERE purpose = 'TREASURY' LIMIT 1)`,
		"a forged quote":   quoteSQL(forged.Sign(t, e.till.key), otherHand),
		"a genuine quote":  quoteSQL(genuine.Sign(t, signertest.SwapProviderKey), otherHand),
		"half a signature": `SET signed_quote = substr(signed_quote, 1, 100)`,
	} {
		backup := e.texts(`SELECT to_jsonb(s)::text FROM deposit_swaps s WHERE deposit_swap_id = $1`, good.ID)
		e.asOwner(`UPDATE deposit_swaps ` + sql + ` WHERE deposit_swap_id = '` + good.ID + `'`)
		e.tampered = nil
		_, err := e.DepositSwaps.ByID(e.ctx, e.org, good.ID)
		_, _, _, replayErr := e.DepositSwaps.Request(e.ctx, e.org, flexRequest("key"))
		_, listErr := e.DepositSwaps.List(e.ctx, e.org, depositswap.Filter{}, pagination.Page{Limit: 10})
		for call, err := range map[string]error{"a read": err, "a replay": replayErr, "a list": listErr} {
			if err == nil || fault.Find(err) != nil {
				t.Errorf("%s changed: %s got %v, want an internal error", name, call, err)
			}
		}
		if !slices.Contains(e.tampered, good.ID) {
			t.Errorf("%s changed: nothing is counted", name)
		}
		if _, err := e.DepositSwaps.ByID(e.ctx, e.org, other.ID); err != nil {
			t.Errorf("%s changed: another deposit swap is not shown: %v", name, err)
		}
		e.asOwner(`UPDATE deposit_swaps s SET (deposit_address, refund_address, customer_id, expires_at, min_out,
			amount_in, origin_contract, provider, mac, wallet_id, signed_quote) =
			(SELECT r.deposit_address, r.refund_address,
			r.customer_id, r.expires_at, r.min_out, r.amount_in, r.origin_contract, r.provider, r.mac, r.wallet_id,
			r.signed_quote FROM jsonb_populate_record(NULL::deposit_swaps, '` + backup[0] + `') r)
			WHERE deposit_swap_id = '` + good.ID + `'`)
	}
	e.asOwner(`UPDATE wallets SET address = '` + string(otherHand) + `' WHERE subject = '` + good.ID + `'`)
	if _, err := e.DepositSwaps.ByID(e.ctx, e.org, good.ID); err == nil || fault.Find(err) != nil {
		t.Errorf("another address of the wallet: got %v, want an internal error", err)
	}
}

// rekeyed is a flexDesk in a configuration that has another key of it.
type rekeyed struct{ *flexDesk }

func (rekeyed) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := signedquote.VerifyOneClick(raw, []ed25519.PublicKey{make([]byte, ed25519.PublicKeySize)})
	return q, provider.CheckSigned(err)
}

// A deposit swap whose provider, or whose key, was removed from the configuration is not shown while a customer may pay
// it. Once it has ended it is shown without its address, so it fails no list. Rule DSW-6.
func TestAnEndedDepositSwapOfARemovedProviderIsShownWithoutItsAddress(t *testing.T) {
	t.Parallel()
	for name, providers := range map[string]func(*flexEnv) []provider.Member{
		"the provider is removed": func(*flexEnv) []provider.Member { return nil },
		"its key is removed": func(e *flexEnv) []provider.Member {
			return []provider.Member{{Provider: rekeyed{e.till}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			done := e.request(flexRequest("done"))
			e.payDesk(done, payer, coin/30)
			e.deliverFlex(done.ID, 99*million)
			e.follow()
			e.wantFlex(done.ID, depositswap.Completed)
			open := e.request(flexRequest("open"))
			s := e.openFlexWith(e.db, providers(e)...).DepositSwaps
			page := pagination.Page{Limit: 10}
			withheld := func(d depositswap.DepositSwap, err error) {
				t.Helper()
				if err != nil || d.DepositAddress != "" || d.RefundAddress != string(refundTo) || d.ID == "" {
					t.Errorf("got %s with the address %q and %v, want it without one", d.ID, d.DepositAddress, err)
				}
			}
			withheld(s.ByID(e.ctx, e.org, done.ID))
			withheld(s.ByIDForOperator(e.ctx, done.ID))
			replayed, isReplayed, _, err := s.Request(e.ctx, e.org, flexRequest("done"))
			withheld(replayed, err)
			found, err := s.List(e.ctx, e.org, depositswap.Filter{Status: "COMPLETED"}, page)
			if err != nil || len(found.Items) != 1 || !isReplayed {
				t.Fatalf("got %d of the list and %v, replayed %v", len(found.Items), err, isReplayed)
			}
			withheld(found.Items[0], nil)
			_, err = s.ByID(e.ctx, e.org, open.ID)
			_, listErr := s.List(e.ctx, e.org, depositswap.Filter{}, page)
			for _, err := range []error{err, listErr} {
				if err == nil || fault.Find(err) != nil {
					t.Errorf("got %v of one that can be paid, want an internal error", err)
				}
			}
			e.setClock(open.ExpiresAt)
			withheld(s.ByID(e.ctx, e.org, open.ID))
			found, err = s.List(e.ctx, e.org, depositswap.Filter{}, page)
			if err != nil || len(found.Items) != 2 {
				t.Errorf("got %d of the list and %v, want both", len(found.Items), err)
			}
			all, err := s.ListAll(e.ctx, depositswap.OperatorFilter{}, page)
			if err != nil || len(all.Items) != 2 || all.Items[0].DepositAddress != "" {
				t.Errorf("got %d of the list of the operator and %v, want both", len(all.Items), err)
			}
			e.must(s.ForEach(e.ctx, e.org, depositswap.Filter{}, false, func(d depositswap.DepositSwap) error {
				withheld(d, nil)
				return nil
			}))
			// The service that has the key shows the address of an ended one.
			known, err := e.DepositSwaps.ByID(e.ctx, e.org, open.ID)
			if err != nil || known.DepositAddress != open.DepositAddress {
				t.Errorf("got the address %q and %v with the key, want %q", known.DepositAddress, err,
					open.DepositAddress)
			}
			// The MAC still holds the row together.
			e.asOwner(`UPDATE deposit_swaps SET refund_address = 'x' WHERE deposit_swap_id = '` + done.ID + `'`)
			if _, err := s.ByID(e.ctx, e.org, done.ID); err == nil || fault.Find(err) != nil {
				t.Errorf("got %v of a changed row, want an internal error", err)
			}
		})
	}
}

func quoteSQL(raw []byte, address chain.Address) string {
	return fmt.Sprintf(`SET deposit_address = '%s', signed_quote = '\x%x'`, address, raw)
}

// asOwner changes rows as an attacker does who has the database: without triggers.
func (e *flexEnv) asOwner(sql string) {
	e.Helper()
	owner := pgtest.OwnerPool(e, e.db)
	for _, statement := range []string{
		`ALTER TABLE deposit_swaps DISABLE TRIGGER ALL`, `ALTER TABLE wallets DISABLE TRIGGER ALL`, sql,
		`ALTER TABLE deposit_swaps ENABLE TRIGGER ALL`, `ALTER TABLE wallets ENABLE TRIGGER ALL`,
	} {
		_, err := owner.Exec(e.ctx, statement)
		e.must(err)
	}
}

// Everything that is final at the wallet is the customer's: a late arrival, a second one, and another mint.
func TestEveryArrivalBelongsToTheCustomer(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	e.setClock(d.ExpiresAt.Add(time.Hour))
	e.follow()
	e.wantFlex(d.ID, depositswap.Expired)
	e.deliverFlex(d.ID, 40*million)
	e.wantFlex(d.ID, depositswap.Completed)
	e.till.says(provider.Failed, nil)
	e.deliverFlex(d.ID, 5, 59*million)
	e.net.Pay(solver, e.walletOf(d.ID), signertest.LimitedToken, 7*million)
	e.settle()
	done := e.wantFlex(d.ID, depositswap.Completed)
	if *done.AmountOut != units(99*million+5) || len(done.DepositIDs) != 4 {
		t.Errorf("got %s out in %d deposits, want all dollars in 4", done.AmountOut, len(done.DepositIDs))
	}
	e.wantBalance("ann", 99*million+5)
	if n := e.number(`SELECT count(*) FROM deposits WHERE mint_id = $1 AND customer_id = 'ann' AND status = 'CREDITED'
		AND deposit_swap_id = $2`, euros, d.ID); n != 1 {
		t.Errorf("got %d credited deposits of the other mint, want one", n)
	}
	e.pass(3)
	e.lookWithChain("the sweeps")
}

// Another mint does not complete a deposit swap.
func TestAnotherMintCompletesNothing(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	e.net.Pay(solver, e.walletOf(d.ID), signertest.LimitedToken, 7*million)
	e.settle()
	if got := e.wantFlex(d.ID, depositswap.AwaitingDeposit); got.AmountOut != nil || len(got.DepositIDs) != 1 {
		t.Errorf("got %v out with the deposits %v, want none and the one", got.AmountOut, got.DepositIDs)
	}
}

// An arrival without a row, as after a crash before the commit, waits. The repeated request makes it the
// customer's.
func TestAnArrivalBeforeTheRowWaitsForIt(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	e.screen()
	id := depositswap.ID(e.org, "key")
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, "bob", "")
		return err
	}))
	w, err := e.Wallets.Address(e.ctx, depositSwapRef(e.org, id))
	e.must(err)
	e.net.Pay(solver, w.Address, signertest.Token, 99*million)
	e.settle()
	e.settle()
	e.wait(time.Hour)
	if got := e.texts(`SELECT status || ' ' || coalesce(customer_id, 'no one') || ' ' || is_hidden
		FROM deposits WHERE deposit_swap_id IS NOT NULL`); !slices.Equal(
		got, []string{"SCREENING no one true"}) {
		t.Fatalf("got %v, want an arrival that waits and belongs to no one", got)
	}
	if found := e.deposits(); len(found) != 0 {
		t.Errorf("the organization sees %+v", found)
	}
	d := e.request(flexRequest("key"))
	if d.ID != id || e.walletOf(id) != w.Address {
		t.Fatalf("got %s, want the deposit swap of the wallet", d.ID)
	}
	e.turn()
	e.payDesk(d, payer, coin/30)
	e.follow()
	e.one(deposit.Credited)
	e.wantFlex(d.ID, depositswap.Completed)
	e.wantBalance("ann", 99*million)
	e.wantBalance("bob", 0)
}

// Screening asks about who paid the provider, and never about the provider. Rule DSW-7.
func TestScreeningAsksAboutTheTruePayer(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	e.screen()
	e.watch.flagged = map[chain.Address]bool{solver: true} // who delivers says nothing
	clean := e.request(flexRequest("clean"))
	e.payDesk(clean, payer, coin/30)
	e.deliverFlex(clean.ID, 99*million)
	if got := e.one(deposit.Screening); got.ID == "" || len(e.watch.addresses()) != 0 {
		t.Errorf("a deposit whose payer is not known yet is %s, and the provider was asked about %v", got.Status,
			e.watch.addresses())
	}
	e.follow()
	e.one(deposit.Credited)
	if got := e.watch.addresses(); !slices.Equal(got, []chain.Address{payer}) {
		t.Errorf("the provider was asked about %v, want the payer alone", got)
	}
	if got := e.texts(`SELECT record #>> '{case,payerSource}' FROM deposit_decisions`); !slices.Equal(got,
		[]string{"OWN_NODE"}) {
		t.Errorf("got the sources %v of the decisions", got)
	}
	// A second payment, by another person, is screened by itself.
	e.watch.flagged[otherHand] = true
	e.payDesk(clean, otherHand, coin/30)
	e.deliverFlex(clean.ID, 98*million)
	if n := e.number(`
		SELECT count(*) FROM deposits WHERE status = 'CREDITED' AND deposit_swap_id IS NOT NULL`); n != 1 {
		t.Errorf("%d deposits are credited before the second payer is known, want one", n)
	}
	e.follow()
	got := e.texts(`
		SELECT status FROM deposits WHERE deposit_swap_id IS NOT NULL ORDER BY created_at, deposit_id`)
	if !slices.Equal(got, []string{"CREDITED", "FLAGGED"}) {
		t.Errorf("got the deposits %v, want the second one flagged", got)
	}
	if got := e.wantFlex(clean.ID, depositswap.Completed); *got.AmountOut != units(197*million) ||
		*got.Received != units(coin/30*2) {
		t.Errorf("got %s out and %s received", got.AmountOut, got.Received)
	}
}

// A completion that does not change the row, which has to have the status that was read, is an error: its transaction
// writes nothing else either.
func TestACompletionThatIsNotStoredIsAnError(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	owner := pgtest.OwnerPool(t, e.db)
	for _, statement := range []string{
		`CREATE FUNCTION keep_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`CREATE TRIGGER keep_row BEFORE UPDATE ON deposit_swaps FOR EACH ROW EXECUTE FUNCTION keep_row()`,
	} {
		_, err := owner.Exec(e.ctx, statement)
		e.must(err)
	}
	mintID := dollars
	err := e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		return e.DepositSwaps.OnArrivals(ctx, tx, []depositswap.Arrival{{
			DepositSwapID: d.ID, DepositID: "dep_x", MintID: &mintID, Amount: units(1), Tx: "0x1", IsDecided: true,
		}})
	})
	if err == nil {
		t.Error("a completion that changed no row is no error")
	}
	e.till.says(provider.Processing, nil)
	if err := e.DepositSwaps.Look(e.ctx, d.ID); err == nil {
		t.Error("a report that changed no row is no error")
	}
	if n := e.number(`SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action <> 'deposit_swap.requested'`,
		d.ID); n != 0 {
		t.Errorf("%d changes are in the audit log, and none is stored", n)
	}
}

// flaggedEnv returns an environment with a flagged deposit of a deposit swap.
func flaggedEnv(t *testing.T) (*flexEnv, deposit.Deposit) {
	t.Helper()
	e := newFlexEnv(t)
	e.screen()
	e.watch.flagged[payer] = true
	d := e.request(flexRequest("key"))
	e.payDesk(d, payer, coin/30)
	e.deliverFlex(d.ID, 99*million)
	e.follow()
	held := e.one(deposit.Flagged)
	if held.ReturnAddressRisk != "SWAP_SOLVER" || held.ReturnTo != "" || held.RiskOfFunds != "SEVERE" {
		t.Errorf("got the flag %+v", held)
	}
	e.wantFlex(d.ID, depositswap.Completed)
	e.wantBalance("ann", 0)
	return e, held
}

// A flagged deposit of a deposit swap never goes back to the provider: the organization approves it, and only the
// operator sends it elsewhere.
func TestAFlaggedDepositSwapIsApprovedOrRedirected(t *testing.T) {
	t.Parallel()
	t.Run("approved", func(t *testing.T) {
		t.Parallel()
		e, held := flaggedEnv(t)
		member := deposit.Actor{Actor: audit.User("usr_1"), OrgID: e.org}
		_, err := e.Deposits.Reject(e.ctx, held.ID, member, "")
		e.wantFault(err, fault.OperatorOnly)
		_, err = e.Deposits.Approve(e.ctx, held.ID, member, "")
		e.must(err)
		e.turn()
		e.look("the approval")
		e.wantBalance("ann", 99*million)
		got := e.texts(`SELECT type FROM events WHERE resource_id = $1 ORDER BY ctid`, held.ID)
		if !slices.Equal(got, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_APPROVED"}) {
			t.Errorf("got the events %v", got)
		}
	})
	t.Run("redirected", func(t *testing.T) {
		t.Parallel()
		e, held := flaggedEnv(t)
		operator := deposit.Actor{Actor: audit.Operator("op")}
		_, err := e.Deposits.Reject(e.ctx, held.ID, operator, "")
		e.wantFault(err, fault.InvalidState)
		treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
		e.must(err)
		e.net.Pay(solver, treasury.Address, "", coin)
		e.pass(2)
		_, err = e.Deposits.Redirect(e.ctx, held.ID, operator, deposit.Redirection{
			ToAddress: string(otherHand), Reason: deposit.ComplianceHold, Reference: "case 7",
		})
		e.must(err)
		e.pass(10)
		e.one(deposit.Redirected)
		e.wantBalance("ann", 0)
		if got := e.net.Received(otherHand, signertest.Token); got != units(99*million) {
			t.Errorf("the operator's address got %s", got)
		}
	})
}

// A payer that no one knows counts like an answer with an unknown severity, after the time in which it may become
// known.
func TestAnUnknownPayerIsTreatedAsTheSettingSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		low    bool
		status deposit.Status
	}{"held": {false, deposit.Flagged}, "low": {true, deposit.Credited}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			if c.low {
				e.policy.UnknownAs = "LOW"
				e.Harness = e.openFlex(e.db)
			}
			e.screen()
			d := e.request(flexRequest("key"))
			// The provider names a payment that did not reach its address.
			lie := e.net.Pay(payer, otherHand, "", 5)
			e.net.Mine(2)
			e.till.says(provider.Processing, func(r *provider.Report) {
				r.OriginTxs, r.Payers = []chain.TxHash{lie}, []chain.Address{payer}
			})
			e.deliverFlex(d.ID, 99*million)
			e.follow()
			e.one(deposit.Screening)
			e.wait(16 * time.Minute)
			got := e.one(c.status)
			if len(e.watch.addresses()) != 0 {
				t.Errorf("the risk provider was asked about %v", e.watch.addresses())
			}
			if !c.low && (got.RiskOfFunds != "UNKNOWN" || got.FlagReason.Code != "SCREENING_UNAVAILABLE") {
				t.Errorf("got the flag %+v", got.FlagReason)
			}
		})
	}
}

// On a chain that the installation does not read, the provider's word is taken, and marked as that.
func TestThePayersOfAForeignChainAreTheProvidersWord(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	e.screen()
	r := flexRequest("key")
	r.OriginTokenID, r.RefundAddress = "near:native", "ann.near"
	d := e.request(r)
	e.watch.flagged["mallory.near"] = true
	e.till.says(provider.Success, func(r *provider.Report) {
		r.OriginTxs, r.Payers = []chain.TxHash{"H1"}, []chain.Address{"ann.near", "mallory.near"}
	})
	e.deliverFlex(d.ID, 99*million)
	e.follow()
	e.one(deposit.Flagged)
	asked := e.watch.addresses()
	slices.Sort(asked)
	if !slices.Equal(asked, []chain.Address{"ann.near", "mallory.near"}) || e.watch.asked[0].Chain != foreignChain {
		t.Errorf("the risk provider was asked about %v on %s, want both payers", asked, e.watch.asked[0].Chain)
	}
	if got := e.texts(`SELECT record #>> '{case,payerSource}' FROM deposit_decisions`); !slices.Equal(got,
		[]string{"PROVIDER"}) {
		t.Errorf("got the sources %v", got)
	}
	if got := e.loadFlex(d.ID); got.Received != nil {
		t.Errorf("got %s received, and no node of ours saw it", got.Received)
	}
}

// What a provider reports moves the status that is shown, also back from an end, and never a completion. Rule DSW-8.
func TestReportsMoveTheStatusAndNeverACompletion(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	for _, step := range []struct {
		said provider.Status
		want depositswap.Status
	}{
		{provider.Waiting, depositswap.AwaitingDeposit},
		{provider.Incomplete, depositswap.Underpaid},
		{provider.Waiting, depositswap.Underpaid},
		{provider.Processing, depositswap.Processing},
		{provider.Waiting, depositswap.Processing}, // right before a success
		{provider.Incomplete, depositswap.Processing},
		{provider.Failed, depositswap.Failed},
		{provider.Refunded, depositswap.Refunded},
		{provider.Success, depositswap.Processing}, // it takes its refund back, and paid nothing yet
		{provider.Refunded, depositswap.Refunded},
	} {
		e.till.says(step.said, nil)
		e.follow()
		if got := e.loadFlex(d.ID); got.Status != step.want {
			t.Fatalf("after %s: got %s, want %s", step.said, got.Status, step.want)
		}
	}
	if got := e.loadFlex(d.ID); got.FailureReason == nil || *got.FailureReason != "PROVIDER_REFUNDED" {
		t.Errorf("got the reason %v", deref(got.FailureReason))
	}
	refund := e.net.Pay(solver, refundTo, "", coin/40)
	e.net.Mine(2)
	e.till.says(provider.Refunded, func(r *provider.Report) { r.RefundTxs = []chain.TxHash{refund} })
	e.follow()
	e.follow()
	if got := e.loadFlex(d.ID); got.Refunded == nil || *got.Refunded != units(coin/40) {
		t.Errorf("got %v refunded, want what our node saw, once", got.Refunded)
	}
	e.deliverFlex(d.ID, 99*million)
	for _, said := range provider.Statuses {
		e.till.says(said, nil)
		e.follow()
		if got := e.wantFlex(d.ID, depositswap.Completed); got.FailureReason != nil {
			t.Errorf("a completed deposit swap has the reason %s", *got.FailureReason)
		}
	}
	e.wantBalance("ann", 99*million)
}

// A deposit swap whose time is over is expired, and completed by a payment nevertheless.
func TestAnExpiredDepositSwapIsStillPaid(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	d := e.request(flexRequest("key"))
	e.setClock(d.ExpiresAt)
	e.follow()
	e.wantFlex(d.ID, depositswap.AwaitingDeposit)
	e.setClock(d.ExpiresAt.Add(31 * time.Minute))
	e.follow()
	e.wantFlex(d.ID, depositswap.Expired)
	e.payDesk(d, payer, coin/30)
	e.follow()
	e.wantFlex(d.ID, depositswap.Processing)
	e.deliverFlex(d.ID, 99*million)
	e.wantFlex(d.ID, depositswap.Completed)
	e.wantBalance("ann", 99*million)
}

// An organization sees and finds its own deposit swaps alone.
func TestOrganizationsHaveTheirOwnDepositSwaps(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	other, _, err := org.Create(e.ctx, e.db, "Other")
	e.must(err)
	mine := e.request(flexRequest("key"))
	theirs, isReplayed, _, err := e.DepositSwaps.Request(e.ctx, other.ID, flexRequest("key"))
	e.must(err)
	if isReplayed || theirs.ID == mine.ID || theirs.DepositAddress == mine.DepositAddress {
		t.Errorf("two organizations share %s and %s", mine.ID, theirs.ID)
	}
	_, err = e.DepositSwaps.ByID(e.ctx, other.ID, mine.ID)
	e.wantFault(err, fault.CodeNotFound)
	page, err := e.DepositSwaps.List(e.ctx, other.ID, depositswap.Filter{}, pagination.Page{Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != theirs.ID {
		t.Errorf("got %+v and %v, want the other organization's one", page.Items, err)
	}
	e.deliverFlex(theirs.ID, 99*million)
	e.wantBalance("ann", 0)
	if n := e.number(`SELECT count(*) FROM deposits WHERE org_id = $1 AND status = 'CREDITED'`, other.ID); n != 1 {
		t.Errorf("got %d deposits of the other organization, want one", n)
	}
}

// The list of tokens has what the provider takes in any amount, but the mint that it delivers. Rules DSW-1 and DSW-2.
func TestTheTokensAreThoseThatAProviderTakes(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	for name, c := range map[string]struct {
		filter depositswap.TokenFilter
		want   []string
	}{
		"all":       {depositswap.TokenFilter{}, []string{"ethereum:native", "near:native", "near:odd.near"}},
		"a chain":   {depositswap.TokenFilter{Chain: "near"}, []string{"near:native", "near:odd.near"}},
		"a symbol":  {depositswap.TokenFilter{Search: "et"}, []string{"ethereum:native"}},
		"an id":     {depositswap.TokenFilter{Search: "ODD"}, []string{"near:odd.near"}},
		"no match":  {depositswap.TokenFilter{Chain: "solana"}, nil},
		"no symbol": {depositswap.TokenFilter{Search: "usdc"}, nil},
	} {
		tokens, err := e.DepositSwaps.ListTokens(e.ctx, c.filter)
		e.must(err)
		var got []string
		for _, token := range tokens {
			got = append(got, token.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	q, err := e.DepositSwaps.Quote(e.ctx, e.org, depositswap.QuoteRequest{OriginTokenID: "ethereum:native"})
	e.must(err)
	if q.AmountIn.String() != "33333333333333334" || q.EstimatedOut != units(99*million) || q.USDValue == nil ||
		*q.EstimatedSeconds != 20 {
		t.Errorf("got the quote %+v, want one for a hundred dollars of ether", q)
	}
	if n := e.number(`SELECT count(*) FROM wallets WHERE purpose = 'DEPOSIT_SWAP'`); n != 0 || e.till.asked != 0 {
		t.Errorf("a quote made %d wallets and %d addresses", n, e.till.asked)
	}
}

// The database refuses by itself what no code of the service does.
func TestTheDatabaseKeepsTheRowsOfDepositSwaps(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	open, done := e.request(flexRequest("open")), e.request(flexRequest("done"))
	e.deliverFlex(done.ID, 99*million)
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, "bob", "")
		return err
	}))
	w, err := e.Wallets.Address(e.ctx, depositSwapRef(e.org, "ds_new"))
	e.must(err)
	insert := func(id, status, walletID string) string {
		return `INSERT INTO deposit_swaps (deposit_swap_id, org_id, customer_id, request_digest, origin_chain,
			origin_contract, origin_symbol, origin_decimals, to_mint_id, to_chain, estimated_out, min_out,
			refund_address, wallet_id, provider, scheme, deposit_address, signed_quote, origin_asset, destination_asset,
			expires_at, mac, status, created_at,
			updated_at)
			SELECT ` + id + `, org_id, customer_id, request_digest, origin_chain, origin_contract, origin_symbol,
			origin_decimals, to_mint_id, to_chain, estimated_out, min_out, refund_address, ` + walletID + `, provider,
			scheme, 'elsewhere', signed_quote, origin_asset, destination_asset, expires_at, mac,
			` + status + `, created_at, updated_at
			FROM deposit_swaps WHERE deposit_swap_id = $swap`
	}
	const app, system = false, true
	for name, c := range map[string]struct {
		asSystem bool
		id       string
		sql      string
		want     string
	}{
		"a status by the app": {
			app, open.ID, `UPDATE deposit_swaps SET status = 'COMPLETED', completed_at = now(), amount_out = 1
			WHERE deposit_swap_id = $swap`, denied,
		},
		"payers by the app": {
			app, open.ID, `UPDATE deposit_swaps SET origin_payers = '{x}', payer_source = 'OWN_NODE', payers_at = now()
			WHERE deposit_swap_id = $swap`, denied,
		},
		"terms by the app": {
			app, open.ID, `UPDATE deposit_swaps SET deposit_address = 'x' WHERE deposit_swap_id = $swap`, denied,
		},
		"terms by the system": {
			system, open.ID, `UPDATE deposit_swaps SET deposit_address = 'x' WHERE deposit_swap_id = $swap`, denied,
		},
		"a row by the system": {system, open.ID, insert("'ds_new'", "'AWAITING_DEPOSIT'", "'"+w.ID+"'"), denied},
		"a row with a status": {
			app, open.ID, insert("'ds_new'", "'PROCESSING'", "'"+w.ID+"'"), "deposit_swaps_begin",
		},
		"the wallet of another one": {
			app, open.ID, insert("'ds_other'", "'AWAITING_DEPOSIT'", "'"+w.ID+"'"), "deposit_swaps_own_wallet",
		},
		"an end without an arrival": {
			system, open.ID, `UPDATE deposit_swaps SET status = 'COMPLETED', completed_at = now(), amount_out = 1
			WHERE deposit_swap_id = $swap`, "deposit_swaps_delivered",
		},
		"an end without an amount": {
			system, open.ID, `UPDATE deposit_swaps SET status = 'COMPLETED', completed_at = now()
			WHERE deposit_swap_id = $swap`, "deposit_swaps_completed",
		},
		"more than arrived": {
			system, done.ID, `UPDATE deposit_swaps SET amount_out = amount_out + 1 WHERE deposit_swap_id = $swap`,
			"deposit_swaps_delivered",
		},
		"less than arrived": {
			system, done.ID, `UPDATE deposit_swaps SET amount_out = amount_out - 1 WHERE deposit_swap_id = $swap`,
			"deposit_swaps_numbers_forward",
		},
		"back from the end": {
			system, done.ID, `UPDATE deposit_swaps SET status = 'FAILED', completed_at = NULL, amount_out = NULL
			WHERE deposit_swap_id = $swap`, "deposit_swaps_completed_once",
		},
		"a payer taken away": {
			system, open.ID, `UPDATE deposit_swaps SET origin_payers = '{x,y}', payer_source = 'PROVIDER',
				payers_at = now() WHERE deposit_swap_id = $swap;
			UPDATE deposit_swaps SET origin_payers = '{y}' WHERE deposit_swap_id = $swap`,
			"deposit_swaps_numbers_forward",
		},
		"no row": {system, open.ID, `DELETE FROM deposit_swaps WHERE deposit_swap_id = $swap`, denied},
		"a deposit of another customer": {
			system, done.ID, `UPDATE deposits SET customer_id = 'bob' WHERE deposit_swap_id = $swap`,
			"deposits_identity_fixed",
		},
		"a deposit of no one": {
			system, done.ID, `UPDATE deposits SET customer_id = NULL, is_hidden = true WHERE deposit_swap_id = $swap`,
			"deposits_identity_fixed",
		},
		"a deposit of another deposit swap": {
			system, done.ID, `UPDATE deposits SET deposit_swap_id = 'ds_new' WHERE deposit_swap_id = $swap`,
			"deposits_identity_fixed",
		},
	} {
		if got := e.attack(c.asSystem, e.statements(c.id, c.sql)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	e.look("the attacks")
}

// An arrival that waits for its row can be given to the customer of that row alone.
func TestTheDatabaseGivesAnArrivalToNoOtherCustomer(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	id := depositswap.ID(e.org, "key")
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, "bob", "")
		return err
	}))
	w, err := e.Wallets.Address(e.ctx, depositSwapRef(e.org, id))
	e.must(err)
	e.net.Pay(solver, w.Address, signertest.Token, 99*million)
	e.settle()
	const toBob = `UPDATE deposits SET customer_id = 'bob', is_hidden = false WHERE deposit_swap_id = $swap`
	if got := e.attack(true, e.statements(id, toBob)); got != "deposit_swaps_delivered" {
		t.Errorf("without a row: got %s", got)
	}
	e.request(flexRequest("key"))
	if got := e.attack(true, e.statements(id, toBob)); got != "deposit_swaps_delivered" {
		t.Errorf("with the row of ann: got %s", got)
	}
	e.turn()
	e.one(deposit.Credited)
	e.wantBalance("ann", 99*million)
}
