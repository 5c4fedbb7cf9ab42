package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	usdc   = 1
	native = 2
	coin   = 1_000_000_000_000_000_000
)

// recordingListener is a feature that records the calls of dispatch, and changes withdrawals as
// their feature would.
type recordingListener struct {
	mu    sync.Mutex
	lines []string
}

func (h *recordingListener) record(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
	return nil
}

func (h *recordingListener) OnBroadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	_, err := tx.Exec(
		ctx,
		`UPDATE withdrawals SET status = 'BROADCAST', tx_hash = $2 WHERE withdrawal_id = $1 AND status = 'PROCESSING'`,
		o.ID, hash,
	)
	return errors.Join(err, h.record("broadcast %s", o.ID))
}

func (h *recordingListener) OnIncluded(context.Context, pg.Tx, dispatch.Order, chain.TxHash) error {
	return nil
}

func (h *recordingListener) OnEnded(
	ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End,
) ([]ledger.Posting, error) {
	account := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: o.OrgID, MintID: o.MintID, Kind: k, Subject: subject}
	}
	refused := ""
	if e.Refused {
		refused = " refused"
	}
	status, to := "FAILED", account(ledger.Customer, o.CustomerID)
	if e.Paid {
		status, to = "COMPLETED", account(ledger.Custody, "")
	}
	_, err := tx.Exec(
		ctx, `UPDATE withdrawals SET status = $2, tx_hash = $3 WHERE withdrawal_id = $1`, o.ID, status, e.Hash,
	)
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: o.ID},
		Legs:  []ledger.Leg{{Debit: account(ledger.Withdrawing, o.CustomerID), Credit: to, Amount: o.Amount}},
	}}, errors.Join(err, h.record("ended %s paid=%v cancelled=%v%s", o.ID, e.Paid, e.Cancelled, refused))
}

func (h *recordingListener) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	_, err := tx.Exec(ctx, `
		UPDATE withdrawals SET status = 'AWAITING_APPROVAL', requires_approval = true, approved_at = NULL, approval_reasons = '{POLICY_LIMIT}'
		WHERE withdrawal_id = $1`, o.ID)
	return errors.Join(err, h.record("refused %s %s", o.ID, r.Code))
}

func (h *recordingListener) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, actor audit.Actor) error {
	_, err := tx.Exec(ctx, `
		UPDATE withdrawals SET end_status = 'REJECTED', end_actor_kind = $2, end_actor = $3
		WHERE withdrawal_id = $1 AND status = 'PROCESSING'`, o.ID, actor.Kind, actor.ID)
	return errors.Join(err, h.record("withdrawn %s by %s", o.ID, actor.ID))
}

func (h *recordingListener) OnVoided(ctx context.Context, tx pg.Tx, org, id string) error {
	var o dispatch.Order
	err := tx.QueryRow(ctx, `
		UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = $1 AND status = 'PROCESSING'
		RETURNING mint_id, customer_id, amount`, id).Scan(&o.MintID, &o.CustomerID, &o.Amount)
	if err == nil {
		err = ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: id},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: org, MintID: o.MintID, Kind: ledger.Withdrawing, Subject: o.CustomerID},
				Credit: ledger.Account{OrgID: org, MintID: o.MintID, Kind: ledger.Customer, Subject: o.CustomerID},
				Amount: o.Amount,
			}},
		})
	}
	return errors.Join(err, h.record("voided %s", id))
}

// clock is the Worker's clock, which the test moves.
type clock struct {
	mu      sync.Mutex
	current time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.current }
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = c.current.Add(d)
}

// testEnv is a Worker with everything real but the chain.
type testEnv struct {
	*testing.T
	ctx      context.Context
	db       *pg.DB
	chain    *sim.Chain
	signer   *local.Signer
	book     *wallet.Service
	worker   *dispatch.Worker
	feature  *recordingListener
	conf     local.Config
	seed     keys.Seed
	clock    *clock
	org      string
	treasury wallet.Wallet
	token    chain.Address
	proven   uint64
	name     chain.Name
	asRows   bool // see rowSigner
}

func newTestEnv(t *testing.T, policy signpolicy.Chain) *testEnv {
	t.Helper()
	return newTestEnvOn(t, policy, sim.Config{})
}

func newTestEnvOn(t *testing.T, policy signpolicy.Chain, net sim.Config) *testEnv {
	t.Helper()
	b := &testEnv{
		T: t, ctx: t.Context(), feature: &recordingListener{},
		clock: &clock{current: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, token: sim.Address("USDC"),
		name: chain.Ethereum,
	}
	if net.Name != "" {
		b.name, b.token = net.Name, sim.SolanaAddress("USDC")
	}
	b.db = pgtest.NewWithClock(t, b.clock.now)
	b.chain = sim.New(net)
	seed, err := keys.NewSeed()
	b.must(err)
	conf := local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Clock: b.clock.now,
		Policy: signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{b.name: policy}},
	}
	b.must(local.CreateJournal(conf, seed))
	b.conf, b.seed = conf, seed
	b.signer, err = local.Open(conf, seed)
	b.must(err)
	t.Cleanup(func() { b.signer.Close() })
	b.book = wallet.New(b.db, b.signer, seed.AttestKey().PublicKey())
	b.must(journal.Import(b.ctx, b.db, b.signer, b.book))
	b.must(mint.Sync(b.ctx, b.db, []mint.Mint{
		{
			ID: usdc, Chain: b.name, Network: chain.Local, Kind: mint.Token, Contract: b.token, Symbol: "USDC",
			Name: "USD Coin", Decimals: 6,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
		{
			ID: native, Chain: b.name, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether",
			Decimals:       18,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
	}))
	o, _, err := org.Create(b.ctx, b.db, "Test")
	b.must(err)
	b.org = o.ID
	b.treasury, err = b.book.Treasury(b.ctx, b.org, b.name.Family())
	b.must(err)
	b.newWorker(dispatch.Config{})
	return b
}

// restartWithPolicy restarts the signer with another policy, and the Worker with it.
func (b *testEnv) restartWithPolicy(p signpolicy.Chain) {
	b.Helper()
	b.must(b.signer.Close())
	b.conf.Policy = signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{b.name: p}}
	b.openSigner()
	b.newWorker(dispatch.Config{})
}

// openSigner opens the closed signer again, with its configuration.
func (b *testEnv) openSigner() {
	b.Helper()
	var err error
	b.signer, err = local.Open(b.conf, b.seed)
	b.must(err)
	b.book = wallet.New(b.db, b.signer, b.seed.AttestKey().PublicKey())
}

// openPolicy returns a policy that allows everything.
func openPolicy() signpolicy.Chain {
	return signpolicy.Chain{SignerID: "31337", FeeMax: money.Units(coin), GasMax: money.Units(coin), Unlimited: true}
}

func (b *testEnv) newWorker(conf dispatch.Config) { b.newWorkerWith(b.signer, conf) }

func (b *testEnv) newWorkerWith(s signer.Signer, conf dispatch.Config) {
	s = b.rowsTo(s)
	b.worker = dispatch.New(b.db, b.chain.ToChain(), s, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{
		signer.Payment: b.feature, signer.Sweep: sweepListener{b.feature}, signer.GasTopUp: b.feature,
		signer.SwapPayment: swapListener{b.feature},
	}, conf, slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(s)))
}

// voider returns a Voider for orders that were ended without a slot.
func (b *testEnv) voider(s signer.Signer) *dispatch.Voider {
	return &dispatch.Voider{
		DB: b.db, Signer: s, Listeners: map[signer.Purpose]dispatch.VoidListener{
			signer.Payment: b.feature, signer.SwapPayment: swapListener{b.feature},
		},
		Log: slog.New(slog.DiscardHandler),
	}
}

func (b *testEnv) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *testEnv) inSystem(fn func(ctx context.Context, tx pg.Tx) error) {
	b.Helper()
	b.must(b.db.InSystem(b.ctx, fn))
}

// fundWallet puts gas and tokens on a wallet, on the chain and in the books.
func (b *testEnv) fundWallet(w wallet.Wallet, gas, tokens uint64) {
	b.Helper()
	b.chain.Mint(w.Address, "", money.Units(gas))
	b.chain.Mint(w.Address, b.token, money.Units(tokens))
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		account := func(m int, k ledger.Kind) ledger.Account { return ledger.Account{OrgID: b.org, MintID: m, Kind: k} }
		var postings []ledger.Posting
		arrived := func(m int, k ledger.Kind, n uint64) {
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: id.New("given", tx.Now)},
				Legs:  []ledger.Leg{{Debit: account(m, ledger.Custody), Credit: account(m, k), Amount: money.Units(n)}},
			})
		}
		var moves []wallet.Movement
		if gas > 0 {
			arrived(native, ledger.Gas, gas)
			moves = append(moves, wallet.Movement{
				WalletID: w.ID, OrgID: b.org, MintID: native, Part: wallet.Gas, Plus: money.Units(gas),
			})
		}
		if tokens > 0 {
			arrived(usdc, ledger.Suspense, tokens)
			moves = append(moves, wallet.Movement{
				WalletID: w.ID, OrgID: b.org, MintID: usdc, Part: wallet.Credited, Plus: money.Units(tokens),
			})
		}
		if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, postings...)
	})
}

func (b *testEnv) newOrder(id string, to chain.Address, units uint64) dispatch.Order {
	return dispatch.Order{
		ID: id, OrgID: b.org, Purpose: signer.Payment, Chain: b.name, WalletID: b.treasury.ID,
		To: to, MintID: usdc, Contract: b.token, Amount: money.Units(units), CustomerID: "ann",
	}
}

func (b *testEnv) submitOrder(o dispatch.Order) {
	b.Helper()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if err := b.insertWithdrawal(ctx, tx, o); err != nil {
			return err
		}
		return dispatch.Submit(ctx, tx, o)
	})
}

// insertWithdrawal inserts the withdrawal that an order pays.
func (b *testEnv) insertWithdrawal(ctx context.Context, tx pg.Tx, o dispatch.Order) error {
	return ledgertest.InsertAccepted(ctx, tx, ledgertest.Withdrawal{
		ID: o.ID, OrgID: o.OrgID, CustomerID: o.CustomerID, ToAddress: string(o.To), MintID: o.MintID,
		Amount: o.Amount, FeeMax: o.FeeMax,
	})
}

// runRounds runs rounds until nothing changes any more.
func (b *testEnv) runRounds() {
	b.Helper()
	for range 50 {
		busy, err := b.worker.RunRound(b.ctx)
		b.must(err)
		if !busy {
			return
		}
	}
	b.Fatal("the desk does not come to rest")
}

// mineAndProve mines blocks and proves the final ones, as the final walk does.
func (b *testEnv) mineAndProve(n int) {
	b.Helper()
	b.chain.Mine(n)
	b.proveFinal()
}

func (b *testEnv) proveFinal() {
	b.Helper()
	heads, err := b.chain.Heads(b.ctx)
	b.must(err)
	for b.proven < heads.Final.Height {
		c, err := b.chain.Final(b.ctx, b.proven+1)
		b.must(err)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx,
				`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at)
				VALUES ($5, $1, $2, $3, $4, 1, 'sim', $4)`, c.Height, c.Hash, c.Parent, tx.Now, b.name)
			return err
		})
		b.proven++
	}
}

func (b *testEnv) orderStatus(id string) (s dispatch.Status, want string) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx, `SELECT status, coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id,
		).Scan(&s, &want)
	}))
	return s, want
}

func (b *testEnv) wantStatus(id string, want dispatch.Status) {
	b.Helper()
	if got, waits := b.orderStatus(id); got != want {
		b.Fatalf("order %s: got %v (waiting for %q), want %v", id, got, waits, want)
	}
}

func (b *testEnv) funds(w wallet.Wallet, mintID int) (f wallet.Funds) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, w.ID, mintID)
		return err
	}))
	return f
}

// checkBooks compares what the wallet holds by the books with the chain, and expects nothing
// reserved.
func (b *testEnv) checkBooks(w wallet.Wallet) {
	b.Helper()
	for id, contract := range map[int]chain.Address{usdc: b.token, native: ""} {
		f := b.funds(w, id)
		if !f.Reserved.IsZero() || !f.GasReserved.IsZero() {
			b.Errorf("mint %d: got %v and gas %v still reserved, want nothing", id, f.Reserved, f.GasReserved)
		}
		books, err := f.Credited.Sub(f.Swept)
		b.must(err)
		books, err = books.Add(f.Gas)
		b.must(err)
		if got := b.chain.Balance(w.Address, contract); got != books {
			b.Errorf("mint %d: the chain has %v, the books %v", id, got, books)
		}
	}
}

func (b *testEnv) wantReceived(to chain.Address, want uint64) {
	b.Helper()
	if got := b.chain.Received(to, b.token); got != money.Units(want) {
		b.Errorf("%s received %v, want %d", to, got, want)
	}
}

func (b *testEnv) queryCount(sql string, args ...any) (n int) {
	b.Helper()
	b.must(b.db.ReadSystem(
		b.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) },
	))
	return n
}

// Rules WD-7, WD-10.
func TestAnOrderIsPaidOnceAndTheBooksAgree(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	if f := b.funds(b.treasury, usdc); f.Reserved != money.Units(400) {
		t.Errorf("reserved while it is out: got %v, want 400", f.Reserved)
	}
	b.mineAndProve(1)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast) // in a block, not final
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
	want := []string{"broadcast wd_1", "ended wd_1 paid=true cancelled=false"}
	if fmt.Sprint(b.feature.lines) != fmt.Sprint(want) {
		t.Errorf("the feature heard %v, want %v", b.feature.lines, want)
	}
}

// Rule WD-7: a provider that accepts the bytes and answers with an error has not refused them.
func TestALostAnswerEndsInTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).LoseAnswers(true)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Signed)
	for range 3 {
		b.clock.advance(time.Minute / 2)
		b.runRounds()
	}
	if n := len(b.chain.Mempool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want 1", n)
	}
	b.mineAndProve(1)
	b.runRounds()
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
}

func TestBytesThatAProviderForgotAreSentAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).Swallow(true)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast) // by the provider's answer
	if n := len(b.chain.Mempool()); n != 0 {
		t.Fatalf("the pool has %d transactions, want none", n)
	}
	b.chain.Provider(0).Swallow(false)
	b.clock.advance(20 * time.Second)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
}

// Rule WD-9.
func TestARevertedPaymentFailsOnlyOnceItIsFinal(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.chain.RefuseTransfers(b.token, to, "blacklisted") // after the simulation passed
	b.mineAndProve(1)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Failed)
	b.wantReceived(to, 0)
	b.checkBooks(b.treasury)
	if f := b.funds(b.treasury, usdc); f.Spendable() != money.Units(1000) {
		t.Errorf("spendable after the failure: got %v, want 1000", f.Spendable())
	}
	if f := b.funds(b.treasury, native); f.Gas == money.Units(coin) {
		t.Error("the failed transaction cost nothing in the books")
	}
}

func TestAHopelessPaymentIsHeldBeforeItHasASlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.RefuseTransfers(b.token, to, "blacklisted")
	b.chain.Mine(1)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Refused)
	if got := fmt.Sprint(b.feature.lines); got != "[refused wd_1 PAYEE]" {
		t.Errorf("the feature heard %s, want that the payee cannot be paid", got)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 0 {
		t.Errorf("got %d slots, want none", n)
	}
	// Submitted again, it is tried again.
	b.chain.RefuseTransfers(b.token, to, "")
	b.chain.Mine(1)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
}

// Rules WD-16, WD-17 and WD-41. The cause of the chain's refusal decides what happens to a payment.
// Only a refusal that concerns the token or the wallet as a whole is reported for all payments.
func TestWhatAPaymentIsRefusedForDecidesWhatBecomesOfIt(t *testing.T) {
	t.Parallel()
	const amount = 400
	to := sim.Address("customer")
	for _, c := range []struct {
		name    string
		mint    int
		stop    func(b *testEnv)
		want    string
		code    string
		blocked int
	}{
		{
			"this payee", usdc, func(b *testEnv) { b.chain.RefuseTransfers(b.token, to, "blacklisted") }, "REFUSED ",
			dispatch.PayeeRefused, 0,
		},
		{
			"this amount, and less would pass", usdc,
			func(b *testEnv) { b.chain.SetTransferMax(b.token, money.Units(amount-1)) }, "REFUSED ",
			dispatch.AmountRefused, 0,
		},
		{
			"this amount, and more would pass", usdc,
			func(b *testEnv) { b.chain.SetTransferMin(b.token, money.Units(amount+1)) }, "REFUSED ",
			dispatch.AmountRefused, 0,
		},
		{"an amount that no new account may hold", native, func(*testEnv) {}, "REFUSED ", dispatch.AmountRefused, 0},
		{"everybody", usdc, func(b *testEnv) {
			b.chain.RefuseTransfers(b.token, to, "paused")
			b.chain.RefuseTransfers(b.token, b.treasury.Address, "paused")
		}, "QUEUED PAUSED", "", 1},
		{
			"a provider shows less than the books have", usdc, func(b *testEnv) {
				b.chain.SubmitTx(sim.Address("issuer"), sim.Move{
					Kind: chain.Token, Contract: b.token, From: b.treasury.Address, To: sim.Address("thief"),
					Amount: money.Units(700),
				})
			},
			"QUEUED CHAIN", "", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnvOn(t, openPolicy(), sim.Config{MinPayment: 1000})
			b.fundWallet(b.treasury, coin, 1000)
			if c.mint == native {
				b.fundWallet(b.treasury, coin, 0)
			}
			c.stop(b)
			b.chain.Mine(1)
			o := b.newOrder("wd_1", to, amount)
			if c.mint == native {
				o.MintID, o.Contract = native, ""
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return wallet.MoveFunds(ctx, tx, wallet.Movement{
						WalletID: b.treasury.ID, OrgID: b.org, MintID: native, Part: wallet.Credited,
						Plus: money.Units(amount),
					})
				})
			}
			b.submitOrder(o)
			b.runRounds()
			s, waits := b.orderStatus("wd_1")
			if got := string(s) + " " + waits; got != c.want {
				t.Errorf(
					"got %q (%s), want %q", got, b.queryText(`SELECT coalesce(last_error, '') FROM dispatch_orders`),
					c.want,
				)
			}
			said := strings.Join(b.feature.lines, "; ")
			if want := "refused wd_1 " + c.code; c.code != "" && said != want {
				t.Errorf("the feature heard %q, want %q", said, want)
			}
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				blocked, err := dispatch.ListImmovableFunds(ctx, tx, b.org, c.mint)
				if len(blocked) != c.blocked {
					t.Errorf("got %+v for blocked, want %d", blocked, c.blocked)
				}
				return err
			})
		})
	}
}

// A token's refusal of every payee ends by itself, and the order is looked at less and less often.
func TestAPaymentOfATokenThatRefusesEverybodyWaits(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	for _, payee := range []chain.Address{to, b.treasury.Address} {
		b.chain.RefuseTransfers(b.token, payee, "paused")
	}
	b.chain.Mine(1)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	looks := 0
	next := func() string {
		return b.queryText(`SELECT attempt_after::text FROM dispatch_orders`)
	}
	for range 4 * 60 * 4 { // four hours, a quarter of a minute at a time
		before := next()
		b.runRounds()
		if next() != before {
			looks++
		}
		b.clock.advance(15 * time.Second)
	}
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitPaused) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for PAUSED", s, waits)
	}
	if looks > 4*40 {
		t.Errorf("got %d looks in four hours, want fewer: it does not get likelier", looks)
	}
	for _, payee := range []chain.Address{to, b.treasury.Address} {
		b.chain.RefuseTransfers(b.token, payee, "")
	}
	b.mineAndProve(1)
	b.clock.advance(5 * time.Minute)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
}

func (b *testEnv) queryText(sql string) (s string) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql).Scan(&s) }))
	return s
}

// Rule WD-7.
func TestATransactionThatIsTooCheapIsReplacedInItsSlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.chain.SetBaseFee(3_000_000_000)
	b.chain.MineEmpty(1)
	b.clock.advance(2 * time.Minute)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1' AND raw IS NOT NULL`); n != 2 {
		t.Fatalf("got %d transactions in the slot, want 2", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Fatalf("got %d slots, want 1", n)
	}
	b.mineAndProve(1)
	b.runRounds()
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
}

// Rule WD-9.
func TestACancelEndsInFailureOnlyWhenItIsWhatWasMined(t *testing.T) {
	t.Parallel()
	for _, payFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("the payment is mined %v", payFirst), func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, openPolicy())
			b.fundWallet(b.treasury, coin, 1000)
			to := sim.Address("customer")
			b.submitOrder(b.newOrder("wd_1", to, 400))
			b.runRounds()
			payment := b.chain.Mempool()[0]
			if payFirst {
				b.chain.MineOnly(payment)
			}
			if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", audit.Operator("op")); err != nil || !ok {
				t.Fatalf("cancel: got %v %v, want true", ok, err)
			}
			b.runRounds()
			b.mineAndProve(1)
			b.runRounds()
			b.mineAndProve(5)
			b.runRounds()
			if payFirst {
				b.wantStatus("wd_1", dispatch.Paid)
				b.wantReceived(to, 400)
			} else {
				b.wantStatus("wd_1", dispatch.Failed)
				b.wantReceived(to, 0)
			}
			b.checkBooks(b.treasury)
		})
	}
}

func TestAPaymentThatAForkTookBackIsSentAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	hash := b.chain.Mempool()[0]
	b.chain.Mine(1)
	b.runRounds()
	b.chain.Fork(1, hash)
	b.chain.MineEmpty(2)
	b.clock.advance(20 * time.Second)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
}

func TestAForeignTransactionFromOurKeyFreezesTheWallet(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.chain.SubmitForeign(b.treasury.Address, sim.Move{
		From: b.treasury.Address, To: sim.Address("thief"), Contract: b.token, Amount: money.Units(500),
	})
	b.mineAndProve(6)
	b.runRounds()
	b.clock.advance(2 * time.Minute)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast) // neither paid nor failed: the outcome is unknown
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Active(ctx, tx, freeze.Target{OrgID: b.org, Chain: chain.Ethereum, WalletID: b.treasury.ID})
		if err == nil && (f == nil || f.Scope != freeze.ScopeWallet) {
			t.Errorf("got freeze %+v, want the wallet's", f)
		}
		return err
	}))
	b.submitOrder(b.newOrder("wd_2", to, 1))
	b.clock.advance(time.Minute)
	b.runRounds()
	if s, waits := b.orderStatus("wd_2"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
}

// A service that restarts every half minute finds it out all the same.
func TestAForeignTransactionIsFoundHoweverOftenTheServiceRestarts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.chain.SubmitForeign(b.treasury.Address, sim.Move{
		From: b.treasury.Address, To: sim.Address("thief"), Contract: b.token, Amount: money.Units(500),
	})
	b.mineAndProve(6)
	for range 4 {
		b.newWorker(dispatch.Config{})
		b.runRounds()
		b.clock.advance(30 * time.Second)
	}
	if n := b.queryCount(
		`SELECT count(*) FROM freezes WHERE scope = 'WALLET' AND wallet_id = $1`, b.treasury.ID,
	); n != 1 {
		t.Errorf("got %d freezes of the wallet, want one", n)
	}
}

// hasWaitEvent reports whether a session in this database waits for a lock of that kind.
func (b *testEnv) hasWaitEvent(owner *pgxpool.Pool, kind string) bool {
	var n int
	b.must(owner.QueryRow(
		b.ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = $1`, kind,
	).Scan(&n))
	return n > 0
}

// Every slot that commits after a freeze sees that freeze. The test holds two transactions so that
// one runs within the other.
func TestNoSlotCommitsAfterAFreezeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 100))
	b.runRounds() // creates the treasury's nonce counter
	// A lock on that counter stops the next slot after it looked for freezes.
	owner := pgtest.OwnerPool(t, b.db)
	holder, err := owner.Begin(b.ctx)
	b.must(err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(b.ctx)) }()
	_, err = holder.Exec(b.ctx, `SELECT FROM dispatch_accounts FOR UPDATE`)
	b.must(err)
	b.submitOrder(b.newOrder("wd_2", sim.Address("customer"), 200))
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.worker.RunRound(b.ctx); err != nil {
			t.Error(err)
		}
	})
	pgtest.Eventually(
		t, func() bool { return b.hasWaitEvent(owner, "transactionid") || b.hasWaitEvent(owner, "tuple") },
		"the slot waits for the counter",
	)
	put := make(chan struct{})
	wg.Go(func() {
		defer close(put)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			return freeze.Create(ctx, tx, freeze.Freeze{
				Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "ann", Source: freeze.SourceOperator,
				Reason: "test", Actor: audit.Operator("op"),
			})
		})
		if s, _ := b.orderStatus("wd_2"); s == dispatch.Queued {
			t.Errorf("the freeze has committed and the order is %v: its slot will come after it", s)
		}
	})
	pgtest.Eventually(t, func() bool {
		select {
		case <-put:
			return true
		default:
			return b.hasWaitEvent(owner, "advisory")
		}
	}, "the freeze waits for the slot, or does not")
	b.must(holder.Rollback(b.ctx))
	wg.Wait()
	b.submitOrder(b.newOrder("wd_3", sim.Address("customer"), 300))
	b.runRounds()
	if s, waits := b.orderStatus("wd_3"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
}

func TestOrdersWaitForFundsAndForGasAndSayHowMuchIsMissing(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, 0, 100)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.submitOrder(b.newOrder("wd_2", sim.Address("customer"), 50))
	b.runRounds()
	shorts := func(want dispatch.Remedy) (out []dispatch.UnderfundedOrder) {
		b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			out, err = dispatch.ListUnderfunded(ctx, tx, chain.Ethereum, want, 10)
			return err
		}))
		return out
	}
	if got := shorts(dispatch.RemedySweep); len(got) != 1 || got[0].ID != "wd_1" || got[0].Missing != money.Units(300) {
		t.Errorf("short of funds: got %+v, want wd_1 by 300", got)
	}
	if got := shorts(dispatch.RemedyTopUp); len(got) != 1 || got[0].ID != "wd_2" || got[0].Missing.IsZero() {
		t.Errorf("short of gas: got %+v, want wd_2", got)
	}
	b.fundWallet(b.treasury, coin, 300)
	b.clock.advance(time.Minute)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_2", dispatch.Queued) // 0 left
	b.checkBooks(b.treasury)
}

// hookedSender is a chain that runs a hook while it is asked for a quote.
type hookedSender struct {
	chain.Sender
	hook func()
}

func (q hookedSender) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	q.hook()
	return q.Sender.Quote(ctx, ps...)
}

// This holds whatever the clock says: the transaction that brings the funds may have begun before
// the order was read, and commits after that.
func TestWhatCameWhileTheChainWasAskedIsNotBroughtAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, 0, 100)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 50))
	ch := b.chain.ToChain()
	came := false
	ch.Sender = hookedSender{ch.Sender, func() {
		if came {
			return
		}
		came = true
		b.fundWallet(b.treasury, coin, 0)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			tx.Now = tx.Now.Add(-time.Second)
			return dispatch.EndWaits(ctx, tx, b.treasury.ID, chain.Ethereum, dispatch.RemedyTopUp)
		})
	}}
	b.worker = dispatch.New(
		b.db, ch, b.signer, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
		dispatch.Config{}, slog.New(slog.DiscardHandler),
	)
	b.runRounds()
	if s, waits := b.orderStatus("wd_1"); s == dispatch.Queued && waits == string(dispatch.WaitGas) || !came {
		t.Errorf("got %v waiting for %q, want nothing asked for that has come", s, waits)
	}
	b.clock.advance(time.Minute)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
}

func TestTheSignersRefusalTakesNoSlotAndMayBeAskedAgain(t *testing.T) {
	t.Parallel()
	policy := openPolicy()
	policy.Unlimited = false
	policy.Assets = map[chain.Address]signpolicy.Limit{sim.Address("USDC"): {
		PaymentMax: money.Units(100), OrganizationMax: money.Units(1000), OverallMax: money.Units(1000),
	}}
	b := newTestEnv(t, policy)
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.submitOrder(b.newOrder("wd_2", to, 100))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Refused)
	b.wantStatus("wd_2", dispatch.Broadcast)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want 1: a refused order must not take one", n)
	}
	b.submitOrder(b.newOrder("wd_1", to, 400)) // submitted again, refused again
	b.wantStatus("wd_1", dispatch.Queued)
	b.clock.advance(time.Minute)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Refused)
}

// Rule WD-7.
func TestTwoWorkersPayOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 100_000)
	var want uint64
	to := sim.Address("customer")
	for i := range 20 {
		b.submitOrder(b.newOrder(fmt.Sprintf("wd_%02d", i), to, uint64(100+i)))
		want += uint64(100 + i)
	}
	other := dispatch.New(
		b.db, b.chain.ToChain(), b.signer, journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{},
		slog.New(slog.DiscardHandler),
	)
	for range 12 {
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Worker{b.worker, other} {
			wg.Go(func() {
				if _, err := d.RunRound(b.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.mineAndProve(2)
		b.clock.advance(5 * time.Second)
	}
	b.mineAndProve(5)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`); n != 20 {
		t.Errorf("got %d paid, want 20", n)
	}
	b.wantReceived(to, want)
	b.checkBooks(b.treasury)
}

// failingSigner is a signer that does its work and then loses the answer, as a crash between the
// journal and the caller does.
type failingSigner struct {
	signer.Signer
	mu   sync.Mutex
	lose map[string]int
}

var errDied = errors.New("connection lost")

func (d *failingSigner) shouldFail(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose[what]--
	return d.lose[what] >= 0
}

func (d *failingSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	e, err := d.Signer.AdmitIntent(ctx, i)
	if err == nil && d.shouldFail("admit") {
		return signer.Entry{}, errDied
	}
	return e, err
}

func (d *failingSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	s, err := d.Signer.Sign(ctx, r)
	if err == nil && d.shouldFail("sign") {
		return signer.SignedTx{}, errDied
	}
	return s, err
}

func TestALostAnswerOfTheSignerEndsInOnePayment(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	flaky := &failingSigner{Signer: b.signer, lose: map[string]int{"admit": 2, "sign": 2}}
	b.worker = dispatch.New(
		b.db, b.chain.ToChain(), flaky, journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{},
		slog.New(slog.DiscardHandler),
	)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	for range 8 {
		if _, err := b.worker.RunRound(b.ctx); err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		b.clock.advance(5 * time.Second)
	}
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
	// Every entry of the journal is in the mirror.
	head, err := b.signer.Head(b.ctx)
	b.must(err)
	b.must(journal.Import(b.ctx, b.db, b.signer, b.book))
	if n := b.queryCount(`SELECT count(*) FROM signer_journal`); uint64(n) != head.Seq {
		t.Errorf("the mirror has %d entries, the journal %d", n, head.Seq)
	}
}

// What the signer admitted or signed is used only with its entry in the mirror of the journal.
// Without that entry, a restored database would not know it.
func TestNothingIsUsedWhoseEntryTheMirrorDoesNotTake(t *testing.T) {
	t.Parallel()
	for kind, used := range map[signer.RecordKind]string{
		signer.RecordAdmit: `SELECT count(*) FROM dispatch_slots`,
		signer.RecordSign:  `SELECT count(*) FROM dispatch_attempts WHERE raw IS NOT NULL OR tx_hash IS NOT NULL OR sent_at IS NOT NULL`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, openPolicy())
			b.fundWallet(b.treasury, coin, 1000)
			b.must(journal.Import(b.ctx, b.db, b.signer, b.book))
			to := sim.Address("customer")
			full, refused := errors.New("the mirror takes nothing"), 0
			b.worker = dispatch.New(b.db, b.chain.ToChain(), b.signer,
				func(ctx context.Context, tx pg.Tx, e signer.Entry) error {
					var rec signer.Record
					err := json.Unmarshal(e.Body, &rec)
					if err == nil && rec.Kind == kind && refused < 3 {
						refused++
						return full
					}
					return errors.Join(err, journal.RecordEntry(ctx, tx, e))
				}, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(
					slog.DiscardHandler,
				))
			b.submitOrder(b.newOrder("wd_1", to, 400))
			for rounds := 0; refused < 3; rounds++ {
				before := refused
				if _, err := b.worker.RunRound(b.ctx); errors.Is(err, full) != (refused > before) || rounds > 10 {
					t.Fatalf(
						"round %d: got %v, and the mirror refused %d before and %d after", rounds, err, before, refused,
					)
				}
				if got := b.queryCount(used); got != 0 {
					t.Errorf("round %d: got %d rows of what the mirror does not have, want none", rounds, got)
				}
				b.clock.advance(time.Minute)
			}
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Broadcast)
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Paid)
			b.wantReceived(to, 400)
			head, err := b.signer.Head(b.ctx)
			b.must(err)
			if n := b.queryCount(`SELECT count(*) FROM signer_journal`); uint64(n) != head.Seq {
				t.Errorf("the mirror has %d entries, the journal %d", n, head.Seq)
			}
		})
	}
}

func TestAFreezeStopsAnOrderAndItsEndLetsItGo(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeAll, Source: freeze.SourceVerify, Reason: "test",
		})
	})
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
	if head, err := b.signer.Head(b.ctx); err != nil || head.Seq > 2 {
		t.Errorf("the signer was asked during a freeze: %+v %v", head, err)
	}
}

func TestTheDatabaseKeepsAnOrderToItsSlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	for name, c := range map[string]struct{ sql, constraint string }{
		"back to the queue": {
			`UPDATE dispatch_orders SET status = 'QUEUED' WHERE order_id = 'wd_1'`, "dispatch_orders_slot_kept",
		},
		"another amount": {
			`UPDATE dispatch_orders SET amount = 1 WHERE order_id = 'wd_1'`, "dispatch_orders_payment_fixed",
		},
		"another payee": {
			`UPDATE dispatch_orders SET to_address = '0x1' WHERE order_id = 'wd_1'`, "dispatch_orders_payment_fixed",
		},
		"paid without proof": {
			`UPDATE dispatch_orders SET status = 'PAID' WHERE order_id = 'wd_1'`, "dispatch_orders_end_proven",
		},
		"other bytes": {
			`UPDATE dispatch_attempts SET raw = '\x00' WHERE order_id = 'wd_1'`, "dispatch_attempts_fixed",
		},
		"another transaction": {
			`UPDATE dispatch_attempts SET payload = '\x00' WHERE order_id = 'wd_1'`, "dispatch_attempts_fixed",
		},
		"a second slot": {
			`INSERT INTO dispatch_slots (wallet_id, chain, nonce, org_id, order_id, gas_reserved, created_at)
			SELECT wallet_id, chain, nonce + 1, org_id, order_id, 0, created_at FROM dispatch_slots`,
			"dispatch_slots_order_once",
		},
	} {
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
}
