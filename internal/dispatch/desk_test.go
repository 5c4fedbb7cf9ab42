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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	usdc   = 1
	native = 2
	coin   = 1_000_000_000_000_000_000
)

// heard is a feature that remembers what dispatch tells it, and does to withdrawals
// what theirs would.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) say(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
	return nil
}

func (h *heard) Broadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	_, err := tx.Exec(ctx, `UPDATE withdrawals SET status = 'BROADCAST', tx_hash = $2 WHERE withdrawal_id = $1 AND status = 'PROCESSING'`, o.ID, hash)
	return errors.Join(err, h.say("broadcast %s", o.ID))
}

func (h *heard) Included(context.Context, pg.Tx, dispatch.Order, chain.TxHash) error { return nil }

func (h *heard) Ended(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
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
	_, err := tx.Exec(ctx, `UPDATE withdrawals SET status = $2, tx_hash = $3 WHERE withdrawal_id = $1`, o.ID, status, e.Hash)
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: o.ID},
		Legs:  []ledger.Leg{{Debit: account(ledger.Withdrawing, o.CustomerID), Credit: to, Amount: o.Amount}},
	}}, errors.Join(err, h.say("ended %s paid=%v cancelled=%v%s", o.ID, e.Paid, e.Cancelled, refused))
}

func (h *heard) Refused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	_, err := tx.Exec(ctx, `
		UPDATE withdrawals SET status = 'AWAITING_APPROVAL', requires_approval = true, approved_at = NULL, approval_reasons = '{POLICY_LIMIT}'
		WHERE withdrawal_id = $1`, o.ID)
	return errors.Join(err, h.say("refused %s %s", o.ID, r.Code))
}

func (h *heard) Withdrawn(ctx context.Context, tx pg.Tx, o dispatch.Order, by audit.Actor) error {
	_, err := tx.Exec(ctx, `
		UPDATE withdrawals SET ends_as = 'REJECTED', ends_by_kind = $2, ends_by = $3
		WHERE withdrawal_id = $1 AND status = 'PROCESSING'`, o.ID, by.Kind, by.ID)
	return errors.Join(err, h.say("withdrawn %s by %s", o.ID, by.ID))
}

func (h *heard) Voided(ctx context.Context, tx pg.Tx, org, id string) error {
	var o dispatch.Order
	err := tx.QueryRow(ctx, `
		UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = $1 AND status = 'PROCESSING'
		RETURNING mint_id, customer_id, amount`, id).Scan(&o.MintID, &o.CustomerID, &o.Amount)
	if err == nil {
		err = ledgertest.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: id},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: org, MintID: o.MintID, Kind: ledger.Withdrawing, Subject: o.CustomerID},
				Credit: ledger.Account{OrgID: org, MintID: o.MintID, Kind: ledger.Customer, Subject: o.CustomerID}, Amount: o.Amount,
			}},
		})
	}
	return errors.Join(err, h.say("voided %s", id))
}

// clock is the desk's time, moved by the test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a desk with everything real but the chain.
type bench struct {
	*testing.T
	ctx      context.Context
	db       *pg.DB
	chain    *sim.Chain
	signer   *local.Signer
	book     *wallet.Book
	desk     *dispatch.Desk
	feature  *heard
	conf     local.Config
	seed     keys.Seed
	clock    *clock
	org      string
	treasury wallet.Wallet
	token    chain.Address
	proven   uint64
	name     chain.Name
}

func newBench(t *testing.T, policy local.ChainPolicy) *bench {
	t.Helper()
	return newBenchOn(t, policy, sim.Config{})
}

func newBenchOn(t *testing.T, policy local.ChainPolicy, net sim.Config) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context(), feature: &heard{}, clock: &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, token: sim.Address("USDC"), name: chain.Ethereum}
	if net.Name != "" {
		b.name, b.token = net.Name, sim.SolanaAddress("USDC")
	}
	b.db = pgtest.NewWithClock(t, b.clock.now)
	b.chain = sim.New(net)
	seed, err := keys.NewSeed()
	b.must(err)
	conf := local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Clock: b.clock.now,
		Policy: local.Policy{Chains: map[chain.Name]local.ChainPolicy{b.name: policy}},
	}
	b.must(local.Create(conf, seed))
	b.conf, b.seed = conf, seed
	b.signer, err = local.Open(conf, seed)
	b.must(err)
	t.Cleanup(func() { b.signer.Close() })
	b.book = wallet.New(b.db, b.signer, seed.Attest().Public())
	b.must(mirror.Import(b.ctx, b.db, b.signer, b.book))
	b.must(mint.Sync(b.ctx, b.db, []mint.Mint{
		{
			ID: usdc, Chain: b.name, Network: chain.Local, Kind: mint.Token, Contract: b.token, Symbol: "USDC", Name: "USD Coin", Decimals: 6,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
		{
			ID: native, Chain: b.name, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
	}))
	o, _, err := org.Create(b.ctx, b.db, "Test")
	b.must(err)
	b.org = o.ID
	b.treasury, err = b.book.Treasury(b.ctx, b.org, b.name.Family())
	b.must(err)
	b.newDesk(dispatch.Config{})
	return b
}

// policy starts the signer again with another policy, and the desk with it.
func (b *bench) policy(p local.ChainPolicy) {
	b.Helper()
	b.must(b.signer.Close())
	b.conf.Policy = local.Policy{Chains: map[chain.Name]local.ChainPolicy{b.name: p}}
	var err error
	b.signer, err = local.Open(b.conf, b.seed)
	b.must(err)
	b.newDesk(dispatch.Config{})
}

// open is a policy that allows everything.
func open() local.ChainPolicy {
	return local.ChainPolicy{SignerID: "31337", FeeMax: money.Units(coin), GasMax: money.Units(coin), Unlimited: true}
}

func (b *bench) newDesk(conf dispatch.Config) { b.newDeskWith(b.signer, conf) }

func (b *bench) newDeskWith(s signer.Signer, conf dispatch.Config) {
	b.desk = dispatch.New(b.db, b.chain.Configured(), s, mirror.Record, map[signer.Purpose]dispatch.Listener{
		signer.Payment: b.feature, signer.Sweep: b.feature, signer.Gas: b.feature,
	}, conf, slog.New(slog.DiscardHandler), dispatch.Voiding(b.voider(s)))
}

// voider has the signer void what was ended without a slot.
func (b *bench) voider(s signer.Signer) *dispatch.Voider {
	return &dispatch.Voider{
		DB: b.db, Signer: s, Listeners: map[signer.Purpose]dispatch.VoidListener{signer.Payment: b.feature}, Log: slog.New(slog.DiscardHandler),
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) system(fn func(ctx context.Context, tx pg.Tx) error) {
	b.Helper()
	b.must(b.db.InSystem(b.ctx, fn))
}

// give puts gas and tokens on a wallet, on the chain and in the books.
func (b *bench) give(w wallet.Wallet, gas, tokens uint64) {
	b.Helper()
	b.chain.Mint(w.Address, "", money.Units(gas))
	b.chain.Mint(w.Address, b.token, money.Units(tokens))
	b.system(func(ctx context.Context, tx pg.Tx) error {
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
			moves = append(moves, wallet.Movement{WalletID: w.ID, OrgID: b.org, MintID: native, Part: wallet.Gas, Plus: money.Units(gas)})
		}
		if tokens > 0 {
			arrived(usdc, ledger.Suspense, tokens)
			moves = append(moves, wallet.Movement{WalletID: w.ID, OrgID: b.org, MintID: usdc, Part: wallet.Credited, Plus: money.Units(tokens)})
		}
		if err := wallet.Move(ctx, tx, moves...); err != nil {
			return err
		}
		return ledgertest.Post(ctx, tx, postings...)
	})
}

func (b *bench) order(id string, to chain.Address, units uint64) dispatch.Order {
	return dispatch.Order{
		ID: id, OrgID: b.org, Purpose: signer.Payment, Chain: b.name, WalletID: b.treasury.ID,
		To: to, MintID: usdc, Contract: b.token, Amount: money.Units(units), CustomerID: "ann",
	}
}

func (b *bench) place(o dispatch.Order) {
	b.Helper()
	b.system(func(ctx context.Context, tx pg.Tx) error {
		if err := b.accept(ctx, tx, o); err != nil {
			return err
		}
		return dispatch.Place(ctx, tx, o)
	})
}

// accept makes the withdrawal that an order pays.
func (b *bench) accept(ctx context.Context, tx pg.Tx, o dispatch.Order) error {
	return ledgertest.Accept(ctx, tx, ledgertest.Withdrawal{
		ID: o.ID, OrgID: o.OrgID, CustomerID: o.CustomerID, To: string(o.To), MintID: o.MintID, Amount: o.Amount, FeeMax: o.FeeMax,
	})
}

// round works until nothing changes any more.
func (b *bench) round() {
	b.Helper()
	for range 50 {
		busy, err := b.desk.Round(b.ctx)
		b.must(err)
		if !busy {
			return
		}
	}
	b.Fatal("the desk does not come to rest")
}

// mine makes blocks and proves those that are final, as the final walk does.
func (b *bench) mine(n int) {
	b.Helper()
	b.chain.Mine(n)
	b.prove()
}

func (b *bench) prove() {
	b.Helper()
	heads, err := b.chain.Heads(b.ctx)
	b.must(err)
	for b.proven < heads.Final.Height {
		c, err := b.chain.Final(b.ctx, b.proven+1)
		b.must(err)
		b.system(func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at)
				VALUES ($5, $1, $2, $3, $4, 1, 'sim', $4)`, c.Height, c.Hash, c.Parent, tx.Now, b.name)
			return err
		})
		b.proven++
	}
}

func (b *bench) status(id string) (s dispatch.Status, want string) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT status, coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id).Scan(&s, &want)
	}))
	return s, want
}

func (b *bench) wantStatus(id string, want dispatch.Status) {
	b.Helper()
	if got, waits := b.status(id); got != want {
		b.Fatalf("order %s: got %v (waiting for %q), want %v", id, got, waits, want)
	}
}

func (b *bench) funds(w wallet.Wallet, mintID int) (f wallet.Funds) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.FundsOf(ctx, tx, w.ID, mintID)
		return err
	}))
	return f
}

// agree compares what the wallet holds by the books with the chain, and what
// the books promise with nothing.
func (b *bench) agree(w wallet.Wallet) {
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

func (b *bench) received(to chain.Address, want uint64) {
	b.Helper()
	if got := b.chain.Received(to, b.token); got != money.Units(want) {
		b.Errorf("%s received %v, want %d", to, got, want)
	}
}

func (b *bench) count(sql string, args ...any) (n int) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) }))
	return n
}

// Rules WD-7, WD-10.
func TestAnOrderIsPaidOnceAndTheBooksAgree(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast)
	if f := b.funds(b.treasury, usdc); f.Reserved != money.Units(400) {
		t.Errorf("reserved while it is out: got %v, want 400", f.Reserved)
	}
	b.mine(1)
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast) // in a block, not final
	b.mine(5)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
	want := []string{"broadcast wd_1", "ended wd_1 paid=true cancelled=false"}
	if fmt.Sprint(b.feature.said) != fmt.Sprint(want) {
		t.Errorf("the feature heard %v, want %v", b.feature.said, want)
	}
}

// Rule WD-7: a provider that takes the bytes and answers with an error has not
// refused them.
func TestALostAnswerEndsInTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).LoseAnswers(true)
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.wantStatus("wd_1", dispatch.Signed)
	for range 3 {
		b.clock.move(time.Minute / 2)
		b.round()
	}
	if n := len(b.chain.Pool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want 1", n)
	}
	b.mine(1)
	b.round()
	b.mine(5)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
}

func TestBytesThatAProviderForgotAreSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).Swallow(true)
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast) // so it said
	if n := len(b.chain.Pool()); n != 0 {
		t.Fatalf("the pool has %d transactions, want none", n)
	}
	b.chain.Provider(0).Swallow(false)
	b.clock.move(20 * time.Second)
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
}

// Rule WD-9.
func TestARevertedPaymentFailsOnlyOnceItIsFinal(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.chain.Refuse(b.token, to, "blacklisted") // after the simulation passed
	b.mine(1)
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.mine(5)
	b.round()
	b.wantStatus("wd_1", dispatch.Failed)
	b.received(to, 0)
	b.agree(b.treasury)
	if f := b.funds(b.treasury, usdc); f.Spendable() != money.Units(1000) {
		t.Errorf("spendable after the failure: got %v, want 1000", f.Spendable())
	}
	if f := b.funds(b.treasury, native); f.Gas == money.Units(coin) {
		t.Error("the failed transaction cost nothing in the books")
	}
}

func TestAHopelessPaymentIsHeldBeforeItHasASlot(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Refuse(b.token, to, "blacklisted")
	b.chain.Mine(1)
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.wantStatus("wd_1", dispatch.Refused)
	if got := fmt.Sprint(b.feature.said); got != "[refused wd_1 PAYEE]" {
		t.Errorf("the feature heard %s, want that the payee cannot be paid", got)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_slots`); n != 0 {
		t.Errorf("got %d slots, want none", n)
	}
	// Placed again it is asked again.
	b.chain.Refuse(b.token, to, "")
	b.chain.Mine(1)
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
}

// Rules WD-16, WD-17 and WD-41. What the chain refuses a payment for decides what becomes of
// it, and only what concerns the token or the wallet as a whole is said of all payments.
func TestWhatAPaymentIsRefusedForDecidesWhatBecomesOfIt(t *testing.T) {
	t.Parallel()
	const amount = 400
	to := sim.Address("customer")
	for _, c := range []struct {
		name    string
		mint    int
		stop    func(b *bench)
		want    string
		code    string
		blocked int
	}{
		{"this payee", usdc, func(b *bench) { b.chain.Refuse(b.token, to, "blacklisted") }, "REFUSED ", dispatch.PayeeRefused, 0},
		{"this amount, and less would pass", usdc, func(b *bench) { b.chain.Limit(b.token, money.Units(amount-1)) }, "REFUSED ", dispatch.AmountRefused, 0},
		{"this amount, and more would pass", usdc, func(b *bench) { b.chain.Floor(b.token, money.Units(amount+1)) }, "REFUSED ", dispatch.AmountRefused, 0},
		{"an amount that no new account may hold", native, func(*bench) {}, "REFUSED ", dispatch.AmountRefused, 0},
		{"everybody", usdc, func(b *bench) {
			b.chain.Refuse(b.token, to, "paused")
			b.chain.Refuse(b.token, b.treasury.Address, "paused")
		}, "QUEUED SIMULATION", "", 1},
		{
			"a provider shows less than the books have", usdc, func(b *bench) {
				b.chain.Do(sim.Address("issuer"), sim.Move{Kind: chain.Token, Contract: b.token, From: b.treasury.Address, To: sim.Address("thief"), Amount: money.Units(700)})
			},
			"QUEUED CHAIN", "", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, open(), sim.Config{Least: 1000})
			b.give(b.treasury, coin, 1000)
			if c.mint == native {
				b.give(b.treasury, coin, 0)
			}
			c.stop(b)
			b.chain.Mine(1)
			o := b.order("wd_1", to, amount)
			if c.mint == native {
				o.MintID, o.Contract = native, ""
				b.system(func(ctx context.Context, tx pg.Tx) error {
					return wallet.Move(ctx, tx, wallet.Movement{WalletID: b.treasury.ID, OrgID: b.org, MintID: native, Part: wallet.Credited, Plus: money.Units(amount)})
				})
			}
			b.place(o)
			b.round()
			s, waits := b.status("wd_1")
			if got := string(s) + " " + waits; got != c.want {
				t.Errorf("got %q (%s), want %q", got, b.word(`SELECT coalesce(last_error, '') FROM dispatch_orders`), c.want)
			}
			said := strings.Join(b.feature.said, "; ")
			if want := "refused wd_1 " + c.code; c.code != "" && said != want {
				t.Errorf("the feature heard %q, want %q", said, want)
			}
			b.system(func(ctx context.Context, tx pg.Tx) error {
				blocked, err := dispatch.Blocked(ctx, tx, b.org, c.mint)
				if len(blocked) != c.blocked {
					t.Errorf("got %+v for blocked, want %d", blocked, c.blocked)
				}
				return err
			})
		})
	}
}

// What a token refuses to everybody ends by itself, and is looked at less and less often.
func TestAPaymentOfATokenThatRefusesEverybodyWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	for _, payee := range []chain.Address{to, b.treasury.Address} {
		b.chain.Refuse(b.token, payee, "paused")
	}
	b.chain.Mine(1)
	b.place(b.order("wd_1", to, 400))
	looks := 0
	next := func() string {
		return b.word(`SELECT attempt_after::text FROM dispatch_orders`)
	}
	for range 4 * 60 * 4 { // four hours, a quarter of a minute at a time
		before := next()
		b.round()
		if next() != before {
			looks++
		}
		b.clock.move(15 * time.Second)
	}
	if s, waits := b.status("wd_1"); s != dispatch.Queued || waits != string(dispatch.WantSimulation) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for SIMULATION", s, waits)
	}
	if looks > 4*40 {
		t.Errorf("got %d looks in four hours, want fewer: it does not get likelier", looks)
	}
	for _, payee := range []chain.Address{to, b.treasury.Address} {
		b.chain.Refuse(b.token, payee, "")
	}
	b.mine(1)
	b.clock.move(5 * time.Minute)
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
}

func (b *bench) word(sql string) (s string) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql).Scan(&s) }))
	return s
}

// Rule WD-7.
func TestATransactionThatIsTooCheapIsReplacedInItsSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.chain.SetBaseFee(3_000_000_000)
	b.chain.MineEmpty(1)
	b.clock.move(2 * time.Minute)
	b.round()
	if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1' AND raw IS NOT NULL`); n != 2 {
		t.Fatalf("got %d transactions in the slot, want 2", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Fatalf("got %d slots, want 1", n)
	}
	b.mine(1)
	b.round()
	b.mine(5)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
}

// Rule WD-9.
func TestACancelEndsInFailureOnlyWhenItIsWhatWasMined(t *testing.T) {
	t.Parallel()
	for _, payFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("the payment is mined %v", payFirst), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, open())
			b.give(b.treasury, coin, 1000)
			to := sim.Address("customer")
			b.place(b.order("wd_1", to, 400))
			b.round()
			payment := b.chain.Pool()[0]
			if payFirst {
				b.chain.MineOnly(payment)
			}
			if ok, err := b.desk.Cancel(b.ctx, "wd_1", audit.Operator("op")); err != nil || !ok {
				t.Fatalf("cancel: got %v %v, want true", ok, err)
			}
			b.round()
			b.mine(1)
			b.round()
			b.mine(5)
			b.round()
			if payFirst {
				b.wantStatus("wd_1", dispatch.Paid)
				b.received(to, 400)
			} else {
				b.wantStatus("wd_1", dispatch.Failed)
				b.received(to, 0)
			}
			b.agree(b.treasury)
		})
	}
}

func TestAPaymentThatAForkTookBackIsSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	hash := b.chain.Pool()[0]
	b.chain.Mine(1)
	b.round()
	b.chain.Fork(1, hash)
	b.chain.MineEmpty(2)
	b.clock.move(20 * time.Second)
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
}

func TestAForeignTransactionFromOurKeyFreezesTheWallet(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.chain.Foreign(b.treasury.Address, sim.Move{From: b.treasury.Address, To: sim.Address("thief"), Contract: b.token, Amount: money.Units(500)})
	b.mine(6)
	b.round()
	b.clock.move(2 * time.Minute)
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast) // neither paid nor failed: nobody knows
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Standing(ctx, tx, freeze.Of{OrgID: b.org, Chain: chain.Ethereum, WalletID: b.treasury.ID})
		if err == nil && (f == nil || f.Scope != freeze.Wallet) {
			t.Errorf("got freeze %+v, want the wallet's", f)
		}
		return err
	}))
	b.place(b.order("wd_2", to, 1))
	b.clock.move(time.Minute)
	b.round()
	if s, waits := b.status("wd_2"); s != dispatch.Queued || waits != string(dispatch.WantFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
}

// A service that is restarted every half minute finds it out all the same.
func TestAForeignTransactionIsFoundHoweverOftenTheServiceRestarts(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.place(b.order("wd_1", sim.Address("customer"), 400))
	b.round()
	b.chain.Foreign(b.treasury.Address, sim.Move{From: b.treasury.Address, To: sim.Address("thief"), Contract: b.token, Amount: money.Units(500)})
	b.mine(6)
	for range 4 {
		b.newDesk(dispatch.Config{})
		b.round()
		b.clock.move(30 * time.Second)
	}
	if n := b.count(`SELECT count(*) FROM freezes WHERE scope = 'WALLET' AND wallet_id = $1`, b.treasury.ID); n != 1 {
		t.Errorf("got %d freezes of the wallet, want one", n)
	}
}

// waits tells whether somebody in this database waits for a lock of that kind.
func (b *bench) waits(owner *pgxpool.Pool, kind string) bool {
	var n int
	b.must(owner.QueryRow(b.ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = $1`, kind).Scan(&n))
	return n > 0
}

// A freeze that has committed is seen by every slot that commits after it: two
// transactions are held so that one is amid the other.
func TestNoSlotCommitsAfterAFreezeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.place(b.order("wd_1", sim.Address("customer"), 100))
	b.round() // the treasury has its counter of nonces
	// Somebody holds that counter, so that the next slot stops after it looked for freezes.
	owner := pgtest.Owner(t, b.db)
	holder, err := owner.Begin(b.ctx)
	b.must(err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(b.ctx)) }()
	_, err = holder.Exec(b.ctx, `SELECT FROM dispatch_accounts FOR UPDATE`)
	b.must(err)
	b.place(b.order("wd_2", sim.Address("customer"), 200))
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.desk.Round(b.ctx); err != nil {
			t.Error(err)
		}
	})
	pgtest.Eventually(t, func() bool { return b.waits(owner, "transactionid") || b.waits(owner, "tuple") }, "the slot waits for the counter")
	put := make(chan struct{})
	wg.Go(func() {
		defer close(put)
		b.system(func(ctx context.Context, tx pg.Tx) error {
			return freeze.Put(ctx, tx, freeze.Freeze{
				Scope: freeze.Customer, OrgID: b.org, CustomerID: "ann", Source: freeze.ByOperator, Reason: "test", By: audit.Operator("op"),
			})
		})
		if s, _ := b.status("wd_2"); s == dispatch.Queued {
			t.Errorf("the freeze has committed and the order is %v: its slot will come after it", s)
		}
	})
	pgtest.Eventually(t, func() bool {
		select {
		case <-put:
			return true
		default:
			return b.waits(owner, "advisory")
		}
	}, "the freeze waits for the slot, or does not")
	b.must(holder.Rollback(b.ctx))
	wg.Wait()
	b.place(b.order("wd_3", sim.Address("customer"), 300))
	b.round()
	if s, waits := b.status("wd_3"); s != dispatch.Queued || waits != string(dispatch.WantFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
}

func TestOrdersWaitForFundsAndForGasAndSayHowMuchIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, 0, 100)
	b.place(b.order("wd_1", sim.Address("customer"), 400))
	b.place(b.order("wd_2", sim.Address("customer"), 50))
	b.round()
	shorts := func(want dispatch.Want) (out []dispatch.Short) {
		b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			out, err = dispatch.Shorts(ctx, tx, chain.Ethereum, want, 10)
			return err
		}))
		return out
	}
	if got := shorts(dispatch.WantFunds); len(got) != 1 || got[0].ID != "wd_1" || got[0].By != money.Units(300) {
		t.Errorf("short of funds: got %+v, want wd_1 by 300", got)
	}
	if got := shorts(dispatch.WantGas); len(got) != 1 || got[0].ID != "wd_2" || got[0].By.IsZero() {
		t.Errorf("short of gas: got %+v, want wd_2", got)
	}
	b.give(b.treasury, coin, 300)
	b.clock.move(time.Minute)
	b.round()
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_2", dispatch.Queued) // 0 left
	b.agree(b.treasury)
}

// quoting is a chain on which something happens while it is asked for a quote.
type quoting struct {
	chain.Sender
	amid func()
}

func (q quoting) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	q.amid()
	return q.Sender.Quote(ctx, ps...)
}

// Whatever the clock says: the transaction that brings it may have begun before the
// order was read, and commits after that.
func TestWhatCameWhileTheChainWasAskedIsNotBroughtAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, 0, 100)
	b.place(b.order("wd_1", sim.Address("customer"), 50))
	ch := b.chain.Configured()
	came := false
	ch.Sender = quoting{ch.Sender, func() {
		if came {
			return
		}
		came = true
		b.give(b.treasury, coin, 0)
		b.system(func(ctx context.Context, tx pg.Tx) error {
			tx.Now = tx.Now.Add(-time.Second)
			return dispatch.Brought(ctx, tx, b.treasury.ID, chain.Ethereum, dispatch.WantGas)
		})
	}}
	b.desk = dispatch.New(b.db, ch, b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	b.round()
	if s, waits := b.status("wd_1"); s == dispatch.Queued && waits == string(dispatch.WantGas) || !came {
		t.Errorf("got %v waiting for %q, want nothing asked for that has come", s, waits)
	}
	b.clock.move(time.Minute)
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast)
}

func TestTheSignersRefusalTakesNoSlotAndMayBeAskedAgain(t *testing.T) {
	t.Parallel()
	policy := open()
	policy.Unlimited = false
	policy.Assets = map[chain.Address]local.Limit{sim.Address("USDC"): {PaymentMax: money.Units(100), OrganizationMax: money.Units(1000), OverallMax: money.Units(1000)}}
	b := newBench(t, policy)
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.place(b.order("wd_1", to, 400))
	b.place(b.order("wd_2", to, 100))
	b.round()
	b.wantStatus("wd_1", dispatch.Refused)
	b.wantStatus("wd_2", dispatch.Broadcast)
	if n := b.count(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want 1: a refused order must not take one", n)
	}
	b.place(b.order("wd_1", to, 400)) // placed again, refused again
	b.wantStatus("wd_1", dispatch.Queued)
	b.clock.move(time.Minute)
	b.round()
	b.wantStatus("wd_1", dispatch.Refused)
}

// Rule WD-7.
func TestTwoDesksPayOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 100_000)
	var want uint64
	to := sim.Address("customer")
	for i := range 20 {
		b.place(b.order(fmt.Sprintf("wd_%02d", i), to, uint64(100+i)))
		want += uint64(100 + i)
	}
	other := dispatch.New(b.db, b.chain.Configured(), b.signer, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	for range 12 {
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Desk{b.desk, other} {
			wg.Go(func() {
				if _, err := d.Round(b.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.mine(2)
		b.clock.move(5 * time.Second)
	}
	b.mine(5)
	b.round()
	if n := b.count(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`); n != 20 {
		t.Errorf("got %d paid, want 20", n)
	}
	b.received(to, want)
	b.agree(b.treasury)
}

// dying is a signer that does its work and then loses the answer, as a crash
// between the journal and the caller does.
type dying struct {
	signer.Signer
	mu   sync.Mutex
	lose map[string]int
}

var errDied = errors.New("connection lost")

func (d *dying) lost(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose[what]--
	return d.lose[what] >= 0
}

func (d *dying) Admit(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	e, err := d.Signer.Admit(ctx, i)
	if err == nil && d.lost("admit") {
		return signer.Entry{}, errDied
	}
	return e, err
}

func (d *dying) Sign(ctx context.Context, r signer.SignRequest) (signer.Signed, error) {
	s, err := d.Signer.Sign(ctx, r)
	if err == nil && d.lost("sign") {
		return signer.Signed{}, errDied
	}
	return s, err
}

func TestALostAnswerOfTheSignerEndsInOnePayment(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	flaky := &dying{Signer: b.signer, lose: map[string]int{"admit": 2, "sign": 2}}
	b.desk = dispatch.New(b.db, b.chain.Configured(), flaky, mirror.Record, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
	b.place(b.order("wd_1", to, 400))
	for range 8 {
		if _, err := b.desk.Round(b.ctx); err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		b.clock.move(5 * time.Second)
	}
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
	// Everything the journal knows is in the mirror.
	head, err := b.signer.Head(b.ctx)
	b.must(err)
	b.must(mirror.Import(b.ctx, b.db, b.signer, b.book))
	if n := b.count(`SELECT count(*) FROM signer_journal`); uint64(n) != head.Seq {
		t.Errorf("the mirror has %d entries, the journal %d", n, head.Seq)
	}
}

// What the signer has admitted or signed is used only with its entry in the mirror of the
// journal: one without the other would be unknown to a restored database.
func TestNothingIsUsedWhoseEntryTheMirrorDoesNotTake(t *testing.T) {
	t.Parallel()
	for kind, used := range map[signer.RecordKind]string{
		signer.RecordAdmit: `SELECT count(*) FROM dispatch_slots`,
		signer.RecordSign:  `SELECT count(*) FROM dispatch_attempts WHERE raw IS NOT NULL OR tx_hash IS NOT NULL OR sent_at IS NOT NULL`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, open())
			b.give(b.treasury, coin, 1000)
			b.must(mirror.Import(b.ctx, b.db, b.signer, b.book))
			to := sim.Address("customer")
			full, refused := errors.New("the mirror takes nothing"), 0
			b.desk = dispatch.New(b.db, b.chain.Configured(), b.signer, func(ctx context.Context, tx pg.Tx, e signer.Entry) error {
				var rec signer.Record
				err := json.Unmarshal(e.Body, &rec)
				if err == nil && rec.Kind == kind && refused < 3 {
					refused++
					return full
				}
				return errors.Join(err, mirror.Record(ctx, tx, e))
			}, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{}, slog.New(slog.DiscardHandler))
			b.place(b.order("wd_1", to, 400))
			for rounds := 0; refused < 3; rounds++ {
				before := refused
				if _, err := b.desk.Round(b.ctx); errors.Is(err, full) != (refused > before) || rounds > 10 {
					t.Fatalf("round %d: got %v, and the mirror refused %d before and %d after", rounds, err, before, refused)
				}
				if got := b.count(used); got != 0 {
					t.Errorf("round %d: got %d rows of what the mirror does not have, want none", rounds, got)
				}
				b.clock.move(time.Minute)
			}
			b.round()
			b.wantStatus("wd_1", dispatch.Broadcast)
			b.mine(6)
			b.round()
			b.wantStatus("wd_1", dispatch.Paid)
			b.received(to, 400)
			head, err := b.signer.Head(b.ctx)
			b.must(err)
			if n := b.count(`SELECT count(*) FROM signer_journal`); uint64(n) != head.Seq {
				t.Errorf("the mirror has %d entries, the journal %d", n, head.Seq)
			}
		})
	}
}

func TestAFreezeStopsAnOrderAndItsEndLetsItGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.system(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.All, Source: freeze.ByVerify, Reason: "test"})
	})
	b.place(b.order("wd_1", sim.Address("customer"), 400))
	b.round()
	if s, waits := b.status("wd_1"); s != dispatch.Queued || waits != string(dispatch.WantFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
	if head, err := b.signer.Head(b.ctx); err != nil || head.Seq > 2 {
		t.Errorf("the signer was asked during a freeze: %+v %v", head, err)
	}
}

func TestTheDatabaseKeepsAnOrderToItsSlot(t *testing.T) {
	t.Parallel()
	b := newBench(t, open())
	b.give(b.treasury, coin, 1000)
	b.place(b.order("wd_1", sim.Address("customer"), 400))
	b.round()
	for name, c := range map[string]struct{ sql, constraint string }{
		"back to the queue":   {`UPDATE dispatch_orders SET status = 'QUEUED' WHERE order_id = 'wd_1'`, "dispatch_orders_slot_kept"},
		"another amount":      {`UPDATE dispatch_orders SET amount = 1 WHERE order_id = 'wd_1'`, "dispatch_orders_payment_fixed"},
		"another payee":       {`UPDATE dispatch_orders SET to_address = '0x1' WHERE order_id = 'wd_1'`, "dispatch_orders_payment_fixed"},
		"paid without proof":  {`UPDATE dispatch_orders SET status = 'PAID' WHERE order_id = 'wd_1'`, "dispatch_orders_end_proven"},
		"other bytes":         {`UPDATE dispatch_attempts SET raw = '\x00' WHERE order_id = 'wd_1'`, "dispatch_attempts_fixed"},
		"another transaction": {`UPDATE dispatch_attempts SET payload = '\x00' WHERE order_id = 'wd_1'`, "dispatch_attempts_fixed"},
		"a second slot": {`INSERT INTO dispatch_slots (wallet_id, chain, nonce, org_id, order_id, gas_reserved, created_at)
			SELECT wallet_id, chain, nonce + 1, org_id, order_id, 0, created_at FROM dispatch_slots`, "dispatch_slots_order_once"},
	} {
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if !pg.Violates(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
}
