package coins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	btc = 1
	fee = 10 // of every transaction
)

var payer = sim.Address("payer")

// stamp is a signer that issues real addresses and signs whatever it is given: the chain
// asks for no signature. What it journals beside addresses is one entry.
type stamp struct {
	*local.Signer
	entry signer.Entry
}

func (s *stamp) Admit(context.Context, signer.Intent) (signer.Entry, error) { return s.entry, nil }

func (s *stamp) Sign(_ context.Context, r signer.SignRequest) (signer.Signed, error) {
	raw, hash := sim.Signed(r.Payload)
	return signer.Signed{Raw: raw, Hash: hash, Entry: s.entry}, nil
}

// opinions say of an address what a test wants.
type opinions struct {
	mu   sync.Mutex
	says map[chain.Address]risk.Severity
}

func (o *opinions) Name() string           { return "OPINIONS" }
func (o *opinions) Covers(chain.Name) bool { return true }
func (o *opinions) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	severity := risk.Low
	if said, ok := o.says[s.Address]; ok {
		severity = said
	}
	return risk.Verdict{Provider: "OPINIONS", Severity: severity, Known: true, At: time.Now()}, nil
}

// house is the service on such a chain.
type house struct {
	*testing.T
	*works.Works
	opinions
	ctx             context.Context
	db              *pg.DB
	net             *sim.Chain
	plan            works.Plan
	org             string
	treasury, alice wallet.Wallet
	mu              sync.Mutex
	now             time.Time
	asked           int
	seed            keys.Seed
	dir             string // where the seed's files and the journal are
}

func (h *house) clock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }

func (h *house) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func open(t *testing.T) *house { return openWith(t, sim.Config{}) }

// openWith is open where the chain has more to it.
func openWith(t *testing.T, conf sim.Config) *house {
	t.Helper()
	conf.Name, conf.Coins, conf.BaseFee, conf.FeeCap = chain.Bitcoin, true, fee, 1000
	net := sim.New(conf)
	net.Mint(payer, "", money.Units(1_000_000))
	h := build(t, net.Configured(), 0, local.Policy{Chains: map[chain.Name]local.ChainPolicy{
		chain.Ethereum: {SignerID: "31337", FeeMax: money.Units(1), GasMax: money.Units(1), Unlimited: true}, // a policy names a chain; the stamp asks it nothing
	}}, func(s *local.Signer, entry signer.Entry) signer.Signer { return &stamp{s, entry} })
	h.net = net
	h.step()
	return h
}

// build furnishes the service on a chain, whose walk begins behind a block.
func build(t *testing.T, on chain.Chain, start uint64, policy local.Policy, signs func(*local.Signer, signer.Entry) signer.Signer) *house {
	t.Helper()
	h := &house{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.says = map[chain.Address]risk.Severity{payer: risk.Low}
	h.db = pgtest.NewWithClock(t, h.clock)
	h.must(mint.Sync(h.ctx, h.db, []mint.Mint{{
		ID: btc, Chain: chain.Bitcoin, Network: chain.Local, Kind: mint.Native, Symbol: "BTC", Name: "Bitcoin", Decimals: 0, Finality: "DEPTH", ConfirmationsRequired: 3,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5), MinWithdraw: money.Units(1),
	}}))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.must(err)
	h.org = o.ID
	h.must(h.db.InOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, "alice", "")
		return err
	}))
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("trial"), h.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`), "screeningUsdThreshold": json.RawMessage(`"5000"`),
		})
		return err
	}))
	h.dir = t.TempDir()
	files := keys.Files{Key: filepath.Join(h.dir, "seed.sealed"), KEK: filepath.Join(h.dir, "seed.key"), Attest: filepath.Join(h.dir, "attest.pub")}
	_, err = keys.Create(files, time.Now())
	h.must(err)
	seed, err := keys.Open(files)
	h.must(err)
	seed = seed.On(chain.Local)
	h.seed = seed
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	h.must(err)
	conf := local.Config{Journal: filepath.Join(h.dir, "journal"), Clock: h.clock, Policy: policy, Grants: grants}
	h.must(local.Create(conf, seed))
	s, err := local.Open(conf, seed)
	h.must(err)
	t.Cleanup(func() { s.Close() })
	issued, err := s.Issue(h.ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Treasury})
	h.must(err)
	h.plan = works.Plan{
		Grants: grants,
		DB:     h.db, Chain: on, Start: start, Signer: signs(s, issued.Entry), Attest: seed.Attest().Public(), Screens: risk.Policy{Providers: &h.opinions, UnknownAs: risk.UnknownHolds},
		Prices: price.Fixed{Prices: map[int]money.USD{btc: money.MustParseUSD("1")}}, Dispatch: dispatch.Config{BumpAfter: time.Hour},
	}
	h.Works = works.Wire(h.plan)
	h.must(mirror.Import(h.ctx, h.db, s, h.Book))
	h.treasury, err = h.Book.Treasury(h.ctx, h.org, chain.BitcoinFamily)
	h.must(err)
	h.alice, err = h.Book.Address(h.ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.CustomerDeposit, Subject: "alice"})
	h.must(err)
	return h
}

// step has every part work until nothing changes by itself.
func (h *house) step() {
	h.Helper()
	for range 3 {
		h.later(3 * time.Second)
		for _, s := range h.Steps(nil) {
			if err := s.Do(h.ctx); err != nil {
				h.Fatalf("%s: %v", s.Name, err)
			}
		}
	}
}

// mine makes blocks until what waits is final, or one.
func (h *house) mine(n int) {
	h.Helper()
	h.net.Mine(n)
	h.step()
}

// arrives brings coins to a wallet, finally.
func (h *house) arrives(to wallet.Wallet, units ...uint64) {
	h.Helper()
	for _, u := range units {
		h.net.Pay(payer, to.Address, "", u)
	}
	h.mine(4)
}

func (h *house) withdraw(units uint64) string {
	h.Helper()
	h.asked++
	return h.withdrawTo(units, h.payee())
}

func (h *house) withdrawTo(units uint64, to chain.Address) string {
	h.Helper()
	key := fmt.Sprint("key-", to)
	got, _, err := h.Pay.Request(h.ctx, h.org, withdrawal.Request{
		MintID: btc, CustomerID: "alice", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key, Actor: audit.APIKey(h.org),
	})
	h.must(err)
	return got.WithdrawalID
}

// payee is who the latest withdrawal pays.
func (h *house) payee() chain.Address { return sim.Address(fmt.Sprint("payee ", h.asked)) }

func (h *house) status(id string) (s string) {
	h.Helper()
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, `SELECT status || coalesce(' ' || waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id).Scan(&s))
	return s
}

func (h *house) want(id, status string) {
	h.Helper()
	if got := h.status(id); got != status {
		var why string
		_ = pgtest.Owner(h.T, h.db).QueryRow(h.ctx, `SELECT coalesce(last_error, '') FROM dispatch_orders WHERE order_id = $1`, id).Scan(&why)
		h.Fatalf("order %s is %q (%s), want %q", id, got, why, status)
	}
}

// coins are all coins as "status amount", the smallest first.
func (h *house) coins(want ...string) {
	h.Helper()
	rows, err := pgtest.Owner(h.T, h.db).Query(h.ctx, `SELECT status || ' ' || amount FROM coins ORDER BY amount`)
	h.must(err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var s string
		h.must(rows.Scan(&s))
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		h.Errorf("coins: got %q, want %q", got, want)
	}
}

// sound has the checker look at all there is.
func (h *house) sound() {
	h.Helper()
	r, err := verify.Run(h.ctx, h.db)
	h.must(err)
	on, err := verify.OnChain(h.ctx, h.db, h.Chains)
	h.must(err)
	for _, b := range append(r.Breaches, on.Breaches...) {
		h.Errorf("%s: %s %s", b.Check, b.Subject, b.Detail)
	}
}

// Rules COIN-1, COIN-4 and COIN-5.
func TestAPaymentIsMadeOfADepositsOutputAndItsRestPaysTheNext(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100) // gas
	h.arrives(h.alice, 1000)
	h.coins("FREE 100", "FREE 1000")
	h.sound()
	first := h.withdraw(300)
	h.step()
	h.want(first, "BROADCAST")
	h.coins("FREE 100", "RESERVED 1000")
	h.sound()
	second := h.withdraw(400)
	h.step()
	h.want(second, "QUEUED COINS") // the books have it, and its coin is not final
	h.net.Mine(1)
	h.step()
	h.coins("FREE 100", "RESERVED 1000")
	h.sound()
	h.mine(3)
	h.want(first, "PAID")
	if got := h.net.Received(sim.Address("payee 1"), ""); got != money.Units(300) {
		t.Errorf("the payee has %v, want 300", got)
	}
	h.want(second, "BROADCAST")
	h.coins("FREE 100", "RESERVED 690", "SPENT 1000")
	h.sound()
	h.mine(4)
	h.want(second, "PAID")
	h.coins("FREE 100", "FREE 280", "SPENT 690", "SPENT 1000")
	h.sound()
	if n := count(h, `SELECT count(*) FROM sweeps`); n != 0 {
		t.Errorf("got %d sweeps, want none", n)
	}
	if n := count(h, `SELECT count(*) FROM deposits`); n != 2 {
		t.Errorf("got %d deposits, want the two that came from outside", n)
	}
}

// Coins of a wallet that is frozen are offered to no payment, however large they are, and to
// no merge; those of other wallets of the organization are, and all of them when it is lifted.
func TestCoinsOfAFrozenWalletPayNothing(t *testing.T) {
	t.Parallel()
	h := openWith(t, merging)
	h.arrives(h.treasury, 400)
	frozen := freeze.Of{OrgID: h.org, Chain: chain.Bitcoin, WalletID: h.alice.ID}
	h.system(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.Wallet, OrgID: h.org, WalletID: h.alice.ID, Chain: chain.Bitcoin, Source: freeze.ByOperator, Reason: "trial"})
	})
	h.arrives(h.alice, 1000, 40, 40, 40)
	first := h.withdraw(300)
	h.step()
	h.want(first, "BROADCAST")
	h.coins("FREE 40", "FREE 40", "FREE 40", "RESERVED 400", "FREE 1000")
	second := h.withdraw(500)
	h.mine(4)
	h.want(first, "PAID")
	h.later(11 * time.Minute)
	h.step()
	h.want(second, "QUEUED COINS")
	h.merged("")
	if n := count(h, `SELECT count(*) FROM coins WHERE wallet_id = $1 AND status <> 'FREE'`, h.alice.ID); n != 0 {
		t.Errorf("got %d coins of the frozen wallet that something has, want none", n)
	}
	h.sound()
	h.system(func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Standing(ctx, tx, frozen)
		if err != nil || f == nil {
			t.Fatalf("got %v, %v, want the freeze", f, err)
		}
		return freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
	})
	h.step()
	h.want(second, "BROADCAST")
	h.mine(4)
	h.want(second, "PAID")
	h.sound()
}

func count(h *house, sql string, args ...any) (n int) {
	h.Helper()
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, sql, args...).Scan(&n))
	return n
}

// Rule COIN-4. A slot takes no further coins, so where they are used up the first fee is
// the last, and the payment is made at it.
func TestAPaymentWhoseCoinsAreUsedUpKeepsItsFeeAndIsPaid(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	id := h.withdraw(1000 - fee)
	h.step()
	h.want(id, "BROADCAST")
	h.coins("FREE 100", "RESERVED 1000")
	h.later(2 * time.Hour)
	h.step()
	h.want(id, "BROADCAST")
	if _, err := h.Out.Bump(h.ctx, id, audit.Operator("trial")); !fault.Is(err, fault.InvalidState) || !strings.Contains(err.Error(), "leave too little") {
		t.Errorf("a higher fee by a person: got %v, want it refused for its coins", err)
	}
	if n := count(h, `SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions, want the one that is out", n)
	}
	if n := count(h, `SELECT count(*) FROM dispatch_orders WHERE last_error LIKE '%leave too little%'`); n != 1 {
		t.Error("the order does not say why its fee is not raised")
	}
	h.sound()
	h.mine(4)
	h.want(id, "PAID")
	h.coins("FREE 100", "SPENT 1000")
	h.sound()
}

// Rule COIN-4.
func TestTwoProcessesThatPayAtOnceSpendNoCoinTwice(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 500)
	h.arrives(h.alice, 100, 100, 100, 100)
	var ids []string
	for range 4 {
		ids = append(ids, h.withdraw(60))
	}
	other := works.Wire(h.plan)
	for range 20 {
		h.later(3 * time.Second)
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Desk{h.Out, other.Out} {
			wg.Go(func() {
				if _, err := d.Round(h.ctx); err != nil {
					t.Errorf("round: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if n := count(h, `SELECT count(*) FROM dispatch_orders WHERE status = 'BROADCAST'`); n != 4 {
		t.Fatalf("got %d payments that are out, want 4", n)
	}
	h.sound()
	h.mine(4)
	for _, id := range ids {
		h.want(id, "PAID")
	}
	for i := range ids {
		if got := h.net.Received(sim.Address(fmt.Sprint("payee ", i+1)), ""); got != money.Units(60) {
			t.Errorf("payee %d has %v, want 60", i+1, got)
		}
	}
	h.sound()
}

// Rule COIN-9. A wallet for change that a crash left without its slot is the next order's;
// after that each order has the next, whoever asks at the same moment.
func TestWalletsForChangeAreTakenInTheirOrder(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 500)
	h.arrives(h.alice, 100, 100, 100, 100)
	if _, err := h.Book.Address(h.ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: "1"}); err != nil {
		t.Fatal(err)
	}
	other := works.Wire(h.plan)
	for n := range 4 {
		h.withdraw(60)
		h.later(3 * time.Second)
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Desk{h.Out, other.Out} {
			wg.Go(func() {
				if _, err := d.Round(h.ctx); err != nil {
					t.Errorf("round: %v", err)
				}
			})
		}
		wg.Wait()
		h.step()
		if got := count(h, `SELECT count(*) FROM dispatch_slots s JOIN wallets w ON w.address = split_part(s.lease, ' ', -1)
			WHERE w.purpose = 'CHANGE' AND w.subject = (s.nonce + 1)::text`); got != n+1 {
			t.Fatalf("got %d slots with the number of their turn, want %d", got, n+1)
		}
	}
	if got := count(h, `SELECT count(*) FROM wallets WHERE purpose = 'CHANGE'`); got != 4 {
		t.Errorf("got %d wallets for change, want 4", got)
	}
	h.sound()
}

// Rule COIN-2.
func TestAFlaggedDepositGoesBackByItsOwnCoin(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 4000)
	h.says[payer] = risk.Severe
	h.arrives(h.alice, 6000)
	h.coins("FREE 100", "FREE 4000", "HELD 6000")
	h.sound()
	paid := h.withdraw(3000)
	h.step()
	h.mine(4)
	h.want(paid, "PAID")
	h.coins("FREE 100", "FREE 990", "SPENT 4000", "HELD 6000")
	flagged := h.flagged()
	operator := deposit.Decider{Actor: audit.Operator("op_1")}
	_, err := h.Flags.Reject(h.ctx, flagged, operator, "")
	h.must(err)
	h.sound()
	h.step()
	returned := h.returning(flagged)
	h.want(returned, "BROADCAST")
	h.coins("FREE 100", "RESERVED 990", "SPENT 4000", "RESERVED 6000")
	h.sound()
	// It is cancelled: what came back is the deposit's still, and the next attempt sends it.
	_, err = h.Out.Cancel(h.ctx, returned, audit.Operator("op_1"))
	h.must(err)
	h.step()
	h.mine(4)
	h.want(returned, "FAILED")
	h.coins("FREE 100", "SPENT 990", "SPENT 4000", "SPENT 6000", "HELD 6978")
	h.sound()
	_, err = h.Flags.Complete(h.ctx, flagged, operator, "")
	h.must(err)
	h.step()
	h.coins("FREE 100", "SPENT 990", "SPENT 4000", "SPENT 6000", "RESERVED 6978")
	h.mine(4)
	h.want(h.returning(flagged), "PAID")
	h.coins("FREE 100", "FREE 968", "SPENT 990", "SPENT 4000", "SPENT 6000", "SPENT 6978")
	if got := h.net.Received(payer, ""); got != money.Units(6000) {
		t.Errorf("the sender has %v back, want 6000", got)
	}
	h.sound()
}

func (h *house) flagged() (id string) {
	h.Helper()
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, `SELECT deposit_id FROM deposits WHERE status = 'FLAGGED'`).Scan(&id))
	return id
}

// returning is the order that sends a deposit away.
func (h *house) returning(depositID string) (id string) {
	h.Helper()
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status <> 'FAILED'`, depositID).Scan(&id))
	return id
}

// Rule COIN-4.
func TestACoinThatSomebodyElseSpendsFreezesTheTreasury(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	id := h.withdraw(300)
	h.step()
	h.want(id, "BROADCAST")
	var lease string
	h.must(pgtest.Owner(t, h.db).QueryRow(h.ctx, `SELECT lease FROM dispatch_slots`).Scan(&lease))
	spends, err := h.plan.Chain.Pool.Spends(lease)
	h.must(err)
	h.net.Steal(sim.Address("thief"), spends...)
	h.mine(4)
	h.later(2 * time.Minute)
	h.step()
	h.want(id, "BROADCAST") // nothing is given back
	h.coins("FREE 100", "RESERVED 1000")
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Standing(ctx, tx, freeze.Of{OrgID: h.org, Chain: chain.Bitcoin, WalletID: h.treasury.ID})
		if err == nil && f == nil {
			t.Error("the treasury is not frozen")
		}
		return err
	}))
}

// Rule COIN-6.
func TestARestoredOrderHasTheCoinsThatTheJournalSignedFor(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	pool := h.plan.Chain.Pool
	journal := dispatch.Journal{
		Features: map[signer.Purpose]dispatch.Restorer{signer.Payment: h.Pay},
		FeesOf:   func(chain.Name, []byte) (chain.Fees, error) { return chain.Fees{Beside: money.Units(fee)}, nil },
		Spends:   func(_ chain.Name, lease string) ([]chain.Coin, error) { return pool.Spends(lease) },
	}
	restore := func(id, lease string, n uint64) error {
		payee := sim.Address("payee of " + id)
		payment := chain.Payment{From: h.treasury.Address, To: payee, Amount: money.Units(300)}
		payload, err := h.plan.Chain.Sender.Build(h.treasury.Address, chain.Slot{Nonce: n, Lease: lease}, chain.Fees{Beside: money.Units(fee)}, payment)
		h.must(err)
		raw, hash := sim.Signed(payload)
		return h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
			return journal.Restore(ctx, tx, []mirror.Remembered{{
				ID: id, At: tx.Now,
				Intent: &signer.Intent{
					ID: id, Purpose: signer.Payment, Chain: chain.Bitcoin, From: h.treasury.Ref(), To: payee, Amount: money.Units(300), MintID: btc, CustomerID: "alice",
					IdempotencyKeyHash: fmt.Sprintf("%064x", n+1),
				},
				Signed: []mirror.Signature{{
					SignBody: signer.SignBody{IntentID: id, Slot: chain.Slot{Nonce: n, Lease: lease}, Act: signer.Pay, Payload: payload, Hash: hash}, At: tx.Now, Raw: raw,
				}},
			}})
		})
	}
	var had string
	h.must(pgtest.Owner(t, h.db).QueryRow(h.ctx, `SELECT outpoint FROM coins WHERE amount = 1000`).Scan(&had))
	rest, err := h.Book.Address(h.ctx, signer.WalletRef{OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: "1"})
	h.must(err)
	// One that the backup has, and one that arrived after it.
	later := h.net.Pay(payer, h.alice.Address, "", 200)
	lease := fmt.Sprintf("%s:1000:%s %s:0:200:%s %s", had, h.alice.Address, later, h.alice.Address, rest.Address)
	for name, wrong := range map[string]string{
		"another amount":       fmt.Sprintf("%s:1001:%s %s", had, h.alice.Address, h.treasury.Address),
		"another holder":       fmt.Sprintf("%s:1000:%s %s", had, h.treasury.Address, h.treasury.Address),
		"a holder of nobody's": fmt.Sprintf("%s:1000:%s %s", had, payer, h.treasury.Address),
	} {
		if err := restore("wd_wrong", wrong, 0); err == nil {
			t.Errorf("%s: was restored", name)
		}
	}
	h.must(restore("wd_01ARZ3NDEKTSV4RRFFQ69G5FAV", lease, 0))
	h.coins("FREE 100", "RESERVED 200", "RESERVED 1000")
	if err := restore("wd_01ARZ3NDEKTSV4RRFFQ69G5FAW", fmt.Sprintf("%s:1000:%s %s", had, h.alice.Address, h.alice.Address), 1); err == nil {
		t.Error("a coin was restored to two orders")
	}
	h.mine(4)
	h.mine(4)
	h.want("wd_01ARZ3NDEKTSV4RRFFQ69G5FAV", "PAID")
	h.sound()
}

// Rule COIN-3.
func TestAPaymentKeepsItsCoinThroughABrokenFinality(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	id := h.withdraw(300)
	h.step()
	h.want(id, "BROADCAST")
	h.net.Fork(4)
	h.net.MineEmpty(8)
	for {
		moved, err := h.Walk.Final(h.ctx)
		if errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
		if h.must(err); !moved {
			t.Fatal("the walk does not see that finality broke")
		}
	}
	at, err := h.Walk.Parting(h.ctx)
	h.must(err)
	_, err = h.Walk.Repoint(h.ctx, at, 2, audit.Operator("op"))
	h.must(err)
	h.coins("FREE 100", "GONE 1000")
	h.step()
	h.want(id, "BROADCAST")
	h.coins("FREE 100", "GONE 1000")
	h.net.Mine(1) // the deposit is there again, and the payment after it
	h.mine(6)
	h.coins("FREE 100", "HELD 690", "RESERVED 1000")
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
	h.mine(6)
	h.want(id, "PAID")
	h.coins("FREE 100", "FREE 690", "SPENT 1000")
	h.sound()
}

// found is what the walk knows of the coin of an amount.
func (h *house) found(amount int) (f coin.Found) {
	h.Helper()
	var outpoint string
	h.must(pgtest.Owner(h.T, h.db).QueryRow(h.ctx, `
		SELECT chain, outpoint, org_id, wallet_id, mint_id, amount, deposit_id, proof_id, height FROM coins WHERE amount = $1`, amount).
		Scan(&f.Chain, &outpoint, &f.OrgID, &f.WalletID, &f.MintID, &f.Amount, &f.DepositID, &f.ProofID, &f.Height))
	hash, position, _ := strings.Cut(outpoint, ":")
	f.Tx, f.Position, f.Free = chain.TxHash(hash), position, true
	return f
}

func (h *house) system(do func(context.Context, pg.Tx) error) {
	h.Helper()
	h.must(h.db.InSystem(h.ctx, do))
}

// Rule COIN-3. The order's transaction is the proof, whoever finds the coin when.
func TestACoinThatIsFoundAgainAfterItsOrderEndedIsSpent(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	id := h.withdraw(300)
	h.step()
	h.want(id, "BROADCAST")
	deposit := h.found(1000)
	h.system(func(ctx context.Context, tx pg.Tx) error {
		return coin.Broken(ctx, tx, chain.Bitcoin, deposit.Height-1)
	})
	h.coins("FREE 100", "GONE 1000")
	h.mine(4)
	h.want(id, "PAID")
	again := func() {
		t.Helper()
		h.system(func(ctx context.Context, tx pg.Tx) error { return coin.Find(ctx, tx, deposit) })
		h.coins("FREE 100", "FREE 690", "SPENT 1000")
		h.sound()
	}
	again()
	// A database that an older program left with it.
	owner, err := pgtest.Owner(t, h.db).Begin(h.ctx)
	h.must(err)
	_, err = owner.Exec(h.ctx, `SET LOCAL session_replication_role = replica`)
	h.must(err)
	_, err = owner.Exec(h.ctx, `UPDATE coins SET status = 'GONE', spent_by = NULL WHERE status = 'SPENT'`)
	h.must(err)
	h.must(owner.Commit(h.ctx))
	again()
}

// Rule COIN-7. Who may write orders ends none whose coins are not spent with it.
func TestAnOrderDoesNotEndBeforeItsCoins(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 100)
	h.arrives(h.alice, 1000)
	id := h.withdraw(300)
	h.step()
	h.want(id, "BROADCAST")
	err := h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET status = 'PAID', ended_at = now(), fee = $2, proof_id = (SELECT max(proof_id) FROM finality_proofs),
				tx_hash = (SELECT tx_hash FROM dispatch_attempts WHERE order_id = $1) WHERE order_id = $1`, id, fee)
		return err
	})
	if !pg.Violates(err, "coins_as_leased") {
		t.Errorf("got %v, want coins_as_leased", err)
	}
}
