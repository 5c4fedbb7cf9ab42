package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// swapListener is the feature of swaps: it keeps the rows of swaps where their orders are, and records
// what it hears.
type swapListener struct{ *recordingListener }

func (l swapListener) OnBroadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	_, err := tx.Exec(ctx, `
		UPDATE swaps SET status = 'DEPOSITING', origin_tx_hash = $2
		WHERE swap_id = $1 AND status = 'PENDING'`, o.ID, hash)
	return errors.Join(err, l.record("broadcast %s", o.ID))
}

func (l swapListener) OnEnded(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]ledger.Posting, error) {
	if err := l.record("ended %s paid=%v cancelled=%v", o.ID, e.Paid, e.Cancelled); err != nil {
		return nil, err
	}
	if !e.Paid {
		return nil, failSwap(ctx, tx, o.ID, "DEADLINE_EXPIRED")
	}
	_, err := tx.Exec(ctx, `
		UPDATE swaps SET status = 'PROCESSING', paid_at = $2, origin_tx_hash = $3
		WHERE swap_id = $1`, o.ID, tx.Now, e.Hash)
	account := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: o.OrgID, MintID: o.MintID, Kind: k, Subject: subject}
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.SwapPaid, ID: o.ID},
		Legs: []ledger.Leg{{
			Debit: account(ledger.AtProvider, o.Swap.Provider), Credit: account(ledger.Custody, ""), Amount: o.Amount,
		}},
	}}, err
}

func (l swapListener) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	recalled, err := dispatch.Recall(ctx, tx, o.ID)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE swaps SET end_reason = 'ORIGIN_TX_FAILED' WHERE swap_id = $1`, o.ID)
	}
	return errors.Join(err, l.record("refused %s %s recalled=%v", o.ID, r.Code, recalled))
}

func (l swapListener) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, actor audit.Actor) error {
	_, err := tx.Exec(ctx, `UPDATE swaps SET end_reason = 'DEADLINE_EXPIRED' WHERE swap_id = $1`, o.ID)
	return errors.Join(err, l.record("withdrawn %s by %s", o.ID, actor.ID))
}

func (l swapListener) OnVoided(ctx context.Context, tx pg.Tx, _, id string) error {
	return errors.Join(failSwap(ctx, tx, id, "ORIGIN_TX_FAILED"), l.record("voided %s", id))
}

// failSwap ends a swap whose payment was not made: its whole amount is here.
func failSwap(ctx context.Context, tx pg.Tx, id, reason string) error {
	_, err := tx.Exec(ctx, `
		UPDATE swaps SET status = 'FAILED', refunded = amount_in, failed_at = $2, failure_reason = $3
		WHERE swap_id = $1`, id, tx.Now, reason)
	return err
}

// payWindow is how long the swaps of these tests may be paid.
const payWindow = 30 * time.Minute

// newSwapEnv is newTestEnv with a signer that pays a swap provider.
func newSwapEnv(t *testing.T) *testEnv {
	t.Helper()
	b := newTestEnv(t, openPolicy())
	b.allowSwaps()
	return b
}

// allowSwaps restarts the signer with a policy that lets the provider be paid.
func (b *testEnv) allowSwaps() {
	b.Helper()
	b.must(b.signer.Close())
	b.conf.Policy.Swaps = signertest.NewSwaps(map[chain.Name][]chain.Address{b.name: {"", b.token}})
	b.openSigner()
	b.newWorker(dispatch.Config{})
}

// newSwap returns the order of a swap of tokens into the native coin, with a genuine quote. It issues
// the wallets of the swap.
func (b *testEnv) newSwap(id string, units uint64) dispatch.Order {
	b.Helper()
	deliveryRef, refundRef := signertest.SwapWallets(b.org, id, b.name.Family(), b.name.Family())
	delivery, err := b.book.Address(b.ctx, deliveryRef)
	b.must(err)
	refund, err := b.book.Address(b.ctx, refundRef)
	b.must(err)
	now := b.clock.now()
	to := signertest.SwapDepositAddress(b.org + id)
	if b.name == chain.Solana {
		to = sim.SolanaAddress(id)
	}
	quote := quotetest.OneClick{
		DepositAddress: string(to), OriginAsset: signertest.SwapAsset(b.name, b.token),
		DestinationAsset: signertest.SwapAsset(b.name, ""), AmountIn: money.Units(units),
		AmountOut: money.Units(1000), MinAmountOut: money.Units(990), AmountInUSD: "10.00", AmountOutUSD: "9.90",
		Recipient: string(delivery.Address), RefundTo: string(refund.Address), SlippageBps: 100, SignedAt: now,
		Deadline: now.Add(2 * time.Hour),
	}
	o := b.newOrder(id, to, units)
	o.Purpose, o.PayBy = signer.SwapPayment, now.Add(payWindow)
	o.Swap = &signer.SwapTerms{
		Provider: signertest.SwapProvider, Scheme: signedquote.OneClickV0,
		SignedQuote: quote.Sign(b, signertest.SwapProviderKey), Delivery: deliveryRef, Refund: refundRef,
		ToMintID: native, ToChain: b.name, EstimatedOut: money.Units(1000), MinOut: money.Units(980),
		PayBy: signer.FormatMicros(o.PayBy),
	}
	return o
}

// submitSwap writes a swap with its hold and its order, as the feature does.
func (b *testEnv) submitSwap(o dispatch.Order) {
	b.Helper()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if err := dispatch.Submit(ctx, tx, o); err != nil {
			return err
		}
		return insertSwap(ctx, tx, o, false)
	})
}

// insertSwap inserts the swap of an order, its hold, and the deposit that funds it.
func insertSwap(ctx context.Context, tx pg.Tx, o dispatch.Order, isRestored bool) error {
	account := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: o.OrgID, MintID: o.MintID, Kind: k, Subject: subject}
	}
	newPosting := func(kind ledger.CauseKind, id string, debit, credit ledger.Account) ledger.Posting {
		return ledger.Posting{
			Cause: ledger.Cause{Kind: kind, ID: id},
			Legs:  []ledger.Leg{{Debit: debit, Credit: credit, Amount: o.Amount}},
		}
	}
	deposited := newPosting(
		ledger.Deposit, "for "+o.ID, account(ledger.Custody, ""), account(ledger.Customer, o.CustomerID),
	)
	if err := ledgertest.InsertCauses(ctx, tx, deposited); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest,
			from_mint_id, to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider,
			deposit_address, delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status,
			created_at, updated_at, imported_at)
		SELECT $1, $2, $3, CASE WHEN $13 THEN NULL ELSE $1 END, encode(sha256($1::bytea), 'hex'),
			CASE WHEN $13 THEN NULL ELSE ''::bytea END, $4, $5, $6, $7, $8, 1000, 980, $9, $10, d.wallet_id,
			r.wallet_id,
			$11, $11, 0, 0, 'PENDING', $12, $12, CASE WHEN $13 THEN $12::timestamptz END
		FROM wallets d, wallets r
		WHERE (d.org_id, d.purpose, d.subject) = ($2, 'SWAP_DELIVERY', $1)
			AND (r.org_id, r.purpose, r.subject) = ($2, 'SWAP_REFUND', $1)`,
		o.ID, o.OrgID, o.CustomerID, o.MintID, o.Swap.ToMintID, o.Chain, o.Swap.ToChain, o.Amount, o.Swap.Provider,
		o.To, o.PayBy, tx.Now, isRestored)
	if err != nil {
		return fmt.Errorf("insert swap %s: %w", o.ID, err)
	}
	if err := ledger.Post(ctx, tx, deposited); err != nil {
		return err
	}
	return ledger.Post(ctx, tx, newPosting(
		ledger.SwapHold, o.ID, account(ledger.Customer, o.CustomerID), account(ledger.InSwap, o.CustomerID),
	))
}

// wantSwap expects a status of a swap, and how much of it came back.
func (b *testEnv) wantSwap(id, status string, refunded int) {
	b.Helper()
	if n := b.queryCount(
		`SELECT count(*) FROM swaps WHERE swap_id = $1 AND status = $2 AND refunded = $3`, id, status, refunded,
	); n != 1 {
		got := b.queryText(`SELECT string_agg(format('%s %s %s', swap_id, status, refunded), ', ') FROM swaps`)
		b.Errorf("swap %s: got %s, want %s with %d refunded", id, got, status, refunded)
	}
}

// wantHeard expects what the feature heard of a swap, in this order.
func (b *testEnv) wantHeard(want ...string) {
	b.Helper()
	if !slices.Equal(b.feature.lines, want) {
		b.Errorf("the feature heard %q, want %q", b.feature.lines, want)
	}
}

// scriptedSigner records what it is asked to admit and refuses what the test says.
type scriptedSigner struct {
	signer.Signer
	mu     sync.Mutex
	asked  []signer.Intent
	admit  func() error // nil: the signer decides
	sign   func() error // nil: the signer decides
	signed func()       // called after a signature
}

func (s *scriptedSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	s.mu.Lock()
	s.asked = append(s.asked, i)
	s.mu.Unlock()
	if s.admit != nil {
		if err := s.admit(); err != nil {
			return signer.Entry{}, err
		}
	}
	return s.Signer.AdmitIntent(ctx, i)
}

func (s *scriptedSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	if s.sign != nil && r.Act == signer.Pay {
		if err := s.sign(); err != nil {
			return signer.SignedTx{}, err
		}
	}
	signed, err := s.Signer.Sign(ctx, r)
	if s.signed != nil {
		s.signed()
	}
	return signed, err
}

func TestASwapPaymentIsPaidAndTheSignerGetsWhatItBuys(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 1000)
	s := &scriptedSigner{Signer: b.signer}
	b.newWorkerWith(s, dispatch.Config{})
	o := b.newSwap("cs_1", 400)
	b.submitSwap(o)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Broadcast)
	b.wantSwap("cs_1", "DEPOSITING", 0)
	want, err := json.Marshal(o.Swap)
	b.must(err)
	for _, intent := range s.asked {
		if got, err := json.Marshal(intent.Swap); err != nil || string(got) != string(want) {
			t.Errorf("the signer was asked about %s %v, want %s", got, err, want)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("the signer was asked %d times, want once", len(s.asked))
	}
	if shown := b.loadView("cs_1"); !shown.PayBy.Equal(o.PayBy) || !shown.Swap.Equal(o.Swap) {
		t.Errorf("the order has %v and %+v, want %v and %+v", shown.PayBy, shown.Swap, o.PayBy, o.Swap)
	}
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Paid)
	b.wantSwap("cs_1", "PROCESSING", 0)
	b.wantReceived(o.To, 400)
	b.wantHeard("broadcast cs_1", "ended cs_1 paid=true cancelled=false")
	b.checkBooks(b.treasury)
}

// A payment that is late and has no slot is not made, whatever it waits for.
func TestASwapPaymentWithoutASlotEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	down := errors.New("no answer")
	for name, c := range map[string]struct {
		block, unblock func(b *testEnv)
		waits          dispatch.WaitReason
	}{
		"it waits for funds": {
			func(b *testEnv) { b.fundWallet(b.treasury, coin, 100) },
			func(b *testEnv) { b.fundWallet(b.treasury, 0, 900) }, dispatch.WaitFunds,
		},
		"it waits for gas": {
			func(b *testEnv) { b.fundWallet(b.treasury, 0, 1000) },
			func(b *testEnv) { b.fundWallet(b.treasury, coin, 0) }, dispatch.WaitGas,
		},
		"the providers are silent": {
			func(b *testEnv) { b.fundWallet(b.treasury, coin, 1000); b.chain.Provider(0).SetDown(down) },
			func(b *testEnv) { b.chain.Provider(0).SetDown(nil) }, dispatch.WaitProviders,
		},
		"the signer is silent": {
			func(b *testEnv) {
				b.fundWallet(b.treasury, coin, 1000)
				b.newWorkerWith(
					&scriptedSigner{Signer: b.signer, admit: func() error { return down }}, dispatch.Config{},
				)
			},
			func(b *testEnv) { b.newWorker(dispatch.Config{}) }, dispatch.WaitSigner,
		},
		"its customer is frozen": {
			func(b *testEnv) {
				b.fundWallet(b.treasury, coin, 1000)
				b.freezeAnn()
			},
			func(*testEnv) {}, dispatch.WaitFreeze,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSwapEnv(t)
			c.block(b)
			o := b.newSwap("cs_1", 400)
			b.submitSwap(o)
			b.runRounds()
			b.clock.advance(payWindow - time.Second)
			b.runRounds()
			if s, waits := b.orderStatus("cs_1"); s != dispatch.Queued || waits != string(c.waits) {
				t.Fatalf("before its time: got %v waiting for %q, want QUEUED waiting for %s", s, waits, c.waits)
			}
			b.clock.advance(time.Second)
			b.runRounds()
			b.wantStatus("cs_1", dispatch.Recalled)
			b.wantHeard("withdrawn cs_1 by dispatch")
			b.wantSwap("cs_1", "PENDING", 0) // until the signer has journaled the void
			b.must(b.voider(b.signer).RunPass(b.ctx))
			b.wantHeard("withdrawn cs_1 by dispatch", "voided cs_1")
			b.wantSwap("cs_1", "FAILED", 400)
			b.wantAudit("order.withdrawn", "SYSTEM", 1)
			c.unblock(b)
			b.clock.advance(time.Minute)
			b.runRounds()
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("cs_1", dispatch.Recalled)
			b.wantReceived(o.To, 0)
			if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 0 {
				t.Errorf("got %d slots, want none", n)
			}
			b.checkBooks(b.treasury)
		})
	}
}

func (b *testEnv) freezeAnn() {
	b.Helper()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "ann", Source: freeze.SourceOperator, Reason: "test",
			Actor: audit.Operator("op"),
		})
	})
}

// The signer's clock is not that of the Worker: what it calls late ends, and goes to no person.
func TestASwapPaymentThatTheSignerCallsLateEnds(t *testing.T) {
	t.Parallel()
	late := func() error { return signer.Refuse(signer.RefusedLate, "it had to be signed before") }
	t.Run("before it has a slot", func(t *testing.T) {
		t.Parallel()
		b := newSwapEnv(t)
		b.fundWallet(b.treasury, coin, 1000)
		b.newWorkerWith(&scriptedSigner{Signer: b.signer, admit: late}, dispatch.Config{})
		b.submitSwap(b.newSwap("cs_1", 400))
		b.runRounds()
		b.wantStatus("cs_1", dispatch.Recalled)
		b.wantHeard("withdrawn cs_1 by dispatch")
	})
	t.Run("in its slot", func(t *testing.T) {
		t.Parallel()
		b := newSwapEnv(t)
		b.fundWallet(b.treasury, coin, 1000)
		b.newWorkerWith(&scriptedSigner{Signer: b.signer, sign: late}, dispatch.Config{})
		o := b.newSwap("cs_1", 400)
		b.submitSwap(o)
		b.runRounds()
		b.mineAndProve(6)
		b.runRounds()
		b.wantStatus("cs_1", dispatch.Failed)
		b.wantHeard("ended cs_1 paid=false cancelled=true")
		b.wantSwap("cs_1", "FAILED", 400)
		b.wantReceived(o.To, 0)
		b.checkBooks(b.treasury)
	})
}

// Its time ends while the signer answers: the slot's transaction sees it.
func TestASwapPaymentThatIsLateWhenItsSlotIsWrittenGetsNone(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 1000)
	b.newWorkerWith(&hookedSigner{Signer: b.signer, hook: func() { b.clock.advance(payWindow) }}, dispatch.Config{})
	b.submitSwap(b.newSwap("cs_1", 400))
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Recalled)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 0 {
		t.Errorf("got %d slots, want none", n)
	}
	b.must(b.voider(b.signer).RunPass(b.ctx))
	b.wantSwap("cs_1", "FAILED", 400)
}

// A payment that is late in its slot and in no block is cancelled, once.
func TestASwapPaymentInItsSlotIsCancelledWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bring func(b *testEnv, o dispatch.Order)
		from  dispatch.Status
		heard []string
	}{
		"it has no signature": {func(b *testEnv, o dispatch.Order) {
			down := errors.New("no answer")
			b.newWorkerWith(
				&hookedSigner{Signer: b.signer, refuse: func(signer.SignRequest) error { return down }},
				dispatch.Config{},
			)
			b.submitSwap(o)
			for range 2 {
				if _, err := b.worker.RunRound(b.ctx); err != nil && !errors.Is(err, down) {
					b.Fatal(err)
				}
			}
			b.newWorker(dispatch.Config{})
		}, dispatch.Slotted, nil},
		"its bytes were never sent": {func(b *testEnv, o dispatch.Order) {
			b.newWorkerWith(&scriptedSigner{Signer: b.signer, signed: func() {
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return freeze.Create(ctx, tx, freeze.Freeze{
						Scope: freeze.ScopeAll, Source: freeze.SourceOperator, Reason: "test", Actor: operatorActor,
					})
				})
			}}, dispatch.Config{})
			b.submitSwap(o)
			b.runRounds()
			b.clock.advance(payWindow)
			b.runRounds()
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				var id string
				if err := tx.QueryRow(ctx, `SELECT freeze_id FROM freezes`).Scan(&id); err != nil {
					return err
				}
				return freeze.Lift(ctx, tx, id, operatorActor)
			})
			b.newWorker(dispatch.Config{})
		}, dispatch.Signed, nil},
		"no provider took its bytes": {func(b *testEnv, o dispatch.Order) {
			b.chain.Provider(0).RefuseSend("not now")
			b.submitSwap(o)
			b.runRounds()
			b.chain.Provider(0).RefuseSend("")
		}, dispatch.Signed, nil},
		"it is in no block": {func(b *testEnv, o dispatch.Order) {
			b.submitSwap(o)
			b.runRounds()
		}, dispatch.Broadcast, []string{"broadcast cs_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSwapEnv(t)
			b.fundWallet(b.treasury, coin, 1000)
			o := b.newSwap("cs_1", 400)
			c.bring(b, o)
			b.wantStatus("cs_1", c.from)
			if now := b.clock.now(); now.Before(o.PayBy) {
				b.clock.advance(o.PayBy.Sub(now))
			}
			b.runRounds()
			b.clock.advance(time.Minute)
			b.runRounds()
			if n := b.queryCount(
				`SELECT count(*) FROM dispatch_attempts
				WHERE order_id = 'cs_1' AND act = 'CANCEL' AND replace_reason = 'REFUSAL'`,
			); n != 1 {
				t.Errorf("got %d cancels because of its time, want 1", n)
			}
			if said := b.lastError("cs_1"); !strings.Contains(said, "had to be paid by") {
				t.Errorf("the order says %q, want that it was late", said)
			}
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("cs_1", dispatch.Failed)
			b.wantHeard(append(c.heard, "ended cs_1 paid=false cancelled=true")...)
			b.wantSwap("cs_1", "FAILED", 400)
			b.wantReceived(o.To, 0)
			b.checkBooks(b.treasury)

			payee := sim.Address("customer")
			b.submitOrder(b.newOrder("wd_1", payee, 300))
			b.runRounds()
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Paid)
			b.wantReceived(payee, 300)
			b.checkBooks(b.treasury)
		})
	}
}

// The final block decides what happened, not the time.
func TestASwapPaymentThatABlockHasIsPaidHoweverLate(t *testing.T) {
	t.Parallel()
	t.Run("mined in time, final after it", func(t *testing.T) {
		t.Parallel()
		b := newSwapEnv(t)
		b.fundWallet(b.treasury, coin, 1000)
		o := b.newSwap("cs_1", 400)
		b.submitSwap(o)
		b.runRounds()
		b.mineAndProve(1)
		b.runRounds()
		b.clock.advance(2 * payWindow)
		b.runRounds()
		if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
			t.Errorf("got %d transactions, want the payment alone", n)
		}
		b.mineAndProve(5)
		b.runRounds()
		b.wantStatus("cs_1", dispatch.Paid)
		b.wantHeard("broadcast cs_1", "ended cs_1 paid=true cancelled=false")
		b.wantReceived(o.To, 400)
		b.checkBooks(b.treasury)
	})
	t.Run("mined before its cancel", func(t *testing.T) {
		t.Parallel()
		b := newSwapEnv(t)
		b.fundWallet(b.treasury, coin, 1000)
		o := b.newSwap("cs_1", 400)
		b.submitSwap(o)
		b.runRounds()
		b.clock.advance(payWindow)
		_, err := b.worker.RunRound(b.ctx) // writes the cancel, and sends nothing yet
		b.must(err)
		_, err = b.worker.BumpFee(b.ctx, "cs_1", 1, operatorActor)
		b.wantFault("a fee raised before the cancel", err, fault.InvalidState, fault.NothingWritten, "in the meantime")
		b.mineAndProve(6)
		b.runRounds()
		b.wantStatus("cs_1", dispatch.Paid)
		b.wantHeard("broadcast cs_1", "ended cs_1 paid=true cancelled=false")
		b.wantSwap("cs_1", "PROCESSING", 0)
		b.wantReceived(o.To, 400)
		b.checkBooks(b.treasury)
	})
}

func TestTheFeeOfALateSwapPaymentIsNotRaised(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 1000)
	b.submitSwap(b.newSwap("cs_1", 400))
	b.runRounds()
	b.clock.advance(payWindow)
	_, err := b.worker.BumpFee(b.ctx, "cs_1", dispatch.AnyVersion, operatorActor)
	b.wantFault("a late payment", err, fault.InvalidState, fault.NothingWritten, "had to be paid by")
}

// A swap that cannot be paid fails at once. No person approves it again.
func TestARefusedSwapPaymentIsRecalledByItsFeature(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(b *testEnv, o dispatch.Order)
		code   string
	}{
		"by the signer": {func(b *testEnv, _ dispatch.Order) {
			b.newWorkerWith(&scriptedSigner{Signer: b.signer, admit: func() error {
				return signer.Refuse(signer.RefusedSignedQuote, "another recipient")
			}}, dispatch.Config{})
		}, signer.RefusedSignedQuote},
		"by the token": {func(b *testEnv, o dispatch.Order) {
			b.chain.RefuseTransfers(b.token, o.To, "blacklisted")
			b.chain.Mine(1)
		}, dispatch.PayeeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSwapEnv(t)
			b.fundWallet(b.treasury, coin, 1000)
			o := b.newSwap("cs_1", 400)
			c.refuse(b, o)
			b.submitSwap(o)
			b.runRounds()
			b.wantStatus("cs_1", dispatch.Recalled)
			b.wantHeard("refused cs_1 " + c.code + " recalled=true")
			b.must(b.voider(b.signer).RunPass(b.ctx))
			b.wantSwap("cs_1", "FAILED", 400)
			b.wantAudit("order.refused", "SYSTEM", 1)
			b.checkBooks(b.treasury)
		})
	}
}

// It is cancelled alone, so it is alone where payments share a transaction.
func TestASwapPaymentSharesItsTransactionWithNone(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.allowSwaps()
	b.submitThree()
	swaps := []dispatch.Order{b.newSwap("cs_1", 40), b.newSwap("cs_2", 50)}
	for _, o := range swaps {
		b.submitSwap(o)
	}
	b.runRounds()
	b.wantAll(dispatch.Broadcast)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 3 {
		t.Errorf("got %d slots, want one for the payments and one for each swap", n)
	}
	for _, o := range swaps {
		if shown := b.loadView(o.ID); shown.Status != dispatch.Broadcast || len(shown.TxMemberIDs) != 0 {
			t.Errorf("%s is %s with %v, want it sent alone", o.ID, shown.Status, shown.TxMemberIDs)
		}
	}
	b.mineAndProve(6)
	b.runRounds()
	b.wantReceived(swaps[0].To, 40)
	b.wantReceived(swaps[1].To, 50)
	b.checkBooks(b.treasury)
}

// restoredSwaps is the feature of swaps during a restore.
type restoredSwaps struct{}

func (restoredSwaps) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.IsNew {
			continue
		}
		if err := insertSwap(ctx, tx, o.Order, true); err != nil {
			return nil, err
		}
		if !o.Signed {
			if _, err := dispatch.Recall(ctx, tx, o.ID); err != nil {
				return nil, err
			}
			if _, err := tx.Exec(
				ctx, `UPDATE swaps SET end_reason = 'ORIGIN_TX_FAILED' WHERE swap_id = $1`, o.ID,
			); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// A provider that delivers without our payment gets none when its time is over, however far the swap is.
func TestASwapThatWasDeliveredBeforeItsPaymentIsNotPaidLate(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 100)
	o := b.newSwap("cs_1", 400)
	b.submitSwap(o)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE swaps SET status = 'PROCESSING' WHERE swap_id = 'cs_1'`)
		return err
	})
	b.clock.advance(payWindow)
	b.runRounds()
	b.fundWallet(b.treasury, 0, 900)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Recalled)
	b.wantReceived(o.To, 0)
}

// admitAtSigner has the signer admit a swap that this database does not have, and returns what the
// journal says of it.
func (b *testEnv) admitAtSigner(o dispatch.Order) journal.Intent {
	b.Helper()
	intent := signer.Intent{
		ID: o.ID, Purpose: o.Purpose, Chain: o.Chain, From: b.treasury.Ref(), To: o.To, Contract: o.Contract,
		Amount: o.Amount, CustomerID: o.CustomerID, MintID: o.MintID, Swap: o.Swap,
	}
	_, err := b.signer.AdmitIntent(b.ctx, intent)
	b.must(err)
	return journal.Intent{ID: o.ID, Intent: &intent, AdmittedAt: b.clock.now()}
}

// signAtSigner has the signer sign the first transaction of the treasury for an admitted swap. It
// returns what the journal says of the swap, and what restores it.
func (b *testEnv) signAtSigner(o dispatch.Order) (journal.Intent, dispatch.JournalRestorer) {
	b.Helper()
	r := b.admitAtSigner(o)
	fees, err := b.chain.Quote(b.ctx, b.paymentOf(o))
	b.must(err)
	payload, err := b.chain.Build(b.treasury.Address, chain.Slot{}, fees, b.paymentOf(o))
	b.must(err)
	signed, err := b.signer.Sign(b.ctx, signer.SignRequest{IntentID: o.ID, Act: signer.Pay, Payload: payload})
	b.must(err)
	r.Signed = []journal.Signature{{
		SignBody: signer.SignBody{IntentID: o.ID, Act: signer.Pay, Payload: payload, Hash: signed.Hash},
		SignedAt: b.clock.now(), Raw: signed.Raw,
	}}
	return r, dispatch.JournalRestorer{
		Features: map[signer.Purpose]dispatch.RestoreListener{signer.SwapPayment: restoredSwaps{}},
		ReadFees: func(chain.Name, []byte) (chain.Fees, error) { return fees, nil },
	}
}

// A backup from before the swaps meets a journal that has them.
func TestARestoreBringsBackUntilWhenASwapIsPaidAndWhatItBuys(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 1000)
	orders := []dispatch.Order{b.newSwap("cs_1", 400), b.newSwap("cs_2", 400)}
	first, restorer := b.signAtSigner(orders[0])
	remembered := []journal.Intent{first, b.admitAtSigner(orders[1])}
	for range 2 { // the second time nothing is missing
		b.inSystem(func(ctx context.Context, tx pg.Tx) error { return restorer.Restore(ctx, tx, remembered) })
		b.wantStatus("cs_1", dispatch.Signed)
		b.wantStatus("cs_2", dispatch.Recalled)
	}
	for _, o := range orders {
		if shown := b.loadView(o.ID); !shown.PayBy.Equal(o.PayBy) || !shown.Swap.Equal(o.Swap) {
			t.Errorf("%s has %v and %+v, want %v and %+v", o.ID, shown.PayBy, shown.Swap, o.PayBy, o.Swap)
		}
	}
	other, terms := *first.Intent, *first.Intent.Swap
	terms.SignedQuote = []byte("another quote")
	other.Swap = &terms
	err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		return restorer.Restore(ctx, tx, []journal.Intent{{ID: "cs_1", Intent: &other}})
	})
	if err == nil || !strings.Contains(err.Error(), "and the journal admitted") {
		t.Errorf("a journal with another quote: got %v, want that it contradicts the row", err)
	}
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Paid)
	b.wantReceived(orders[0].To, 400)
	b.wantReceived(orders[1].To, 0)
	b.checkBooks(b.treasury)
}

// It may have been sent before the restore or not. So its bytes stay here until a cancel, which needs
// the funds of the wallet, takes the slot.
func TestARestoredSwapPaymentThatIsLateIsNotSent(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.chain.Mint(b.treasury.Address, "", money.Units(coin))
	b.chain.Mint(b.treasury.Address, b.token, money.Units(1000))
	b.chain.Mine(1)
	o := b.newSwap("cs_1", 400)
	signed, restorer := b.signAtSigner(o)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return restorer.Restore(ctx, tx, []journal.Intent{signed})
	})
	b.clock.advance(payWindow)
	b.runRounds()
	b.clock.advance(time.Minute)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Signed)
	if n := len(b.chain.Mempool()); n != 0 {
		t.Errorf("got %d transactions out, want none", n)
	}
	b.fundWallet(b.treasury, coin, 1000)
	b.runRounds()
	b.mineAndProve(8)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Failed)
	b.wantHeard("ended cs_1 paid=false cancelled=true")
	b.wantSwap("cs_1", "FAILED", 400)
	b.wantReceived(o.To, 0)
}

// A demand for funds names the swap like a payment, so that a sweep brings them; then it is paid.
func TestASwapPaymentThatLacksFundsIsADemandForThem(t *testing.T) {
	t.Parallel()
	b := newSwapEnv(t)
	b.fundWallet(b.treasury, coin, 100)
	o := b.newSwap("cs_1", 400)
	b.submitSwap(o)
	b.runRounds()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		lacking, err := dispatch.ListUnderfunded(ctx, tx, b.name, dispatch.RemedySweep, 10)
		if err == nil && (len(lacking) != 1 || lacking[0].ID != "cs_1" || lacking[0].Missing != money.Units(300)) {
			t.Errorf("got %+v, want the swap with 300 missing", lacking)
		}
		return err
	})
	b.fundWallet(b.treasury, 0, 300)
	b.clock.advance(time.Minute)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("cs_1", dispatch.Paid)
	b.wantReceived(o.To, 400)
	b.checkBooks(b.treasury)
}
