package utxo

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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	btc = 1
	fee = 10 // of every transaction
)

var payer = sim.Address("payer")

// fakeSigner issues real addresses and signs everything that it is given: the chain checks no
// signature. Apart from addresses it journals one entry.
type fakeSigner struct {
	*local.Signer
	entry signer.Entry
}

func (s *fakeSigner) AdmitIntent(context.Context, signer.Intent) (signer.Entry, error) {
	return s.entry, nil
}

func (s *fakeSigner) Sign(_ context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	raw, hash := sim.SignPayload(r.Payload)
	return signer.SignedTx{Raw: raw, Hash: hash, Entry: s.entry}, nil
}

// fakeScreener returns the verdicts about addresses that a test sets.
type fakeScreener struct {
	mu         sync.Mutex
	severities map[chain.Address]risk.Severity
}

func (o *fakeScreener) Name() string           { return "OPINIONS" }
func (o *fakeScreener) Covers(chain.Name) bool { return true }
func (o *fakeScreener) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	severity := risk.Low
	if said, ok := o.severities[s.Address]; ok {
		severity = said
	}
	return risk.Verdict{Provider: "OPINIONS", Severity: severity, IsKnown: true, GivenAt: time.Now()}, nil
}

// testEnv is the service on such a chain.
type testEnv struct {
	*testing.T
	*harness.Harness
	fakeScreener
	ctx             context.Context
	db              *pg.DB
	net             *sim.Chain
	plan            harness.Config
	org             string
	treasury, alice wallet.Wallet
	mu              sync.Mutex
	clockTime       time.Time
	asked           int
	seed            keys.Seed
	dir             string // has the seed's files and the journal
}

func (h *testEnv) readClock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.clockTime }

func (h *testEnv) advanceClock(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clockTime = h.clockTime.Add(d)
}

func (h *testEnv) mustSucceed(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func newTestEnv(t *testing.T) *testEnv { return newTestEnvWith(t, sim.Config{}) }

// newTestEnvWith is newTestEnv on a chain with this configuration.
func newTestEnvWith(t *testing.T, conf sim.Config) *testEnv {
	t.Helper()
	conf.Name, conf.UTXO, conf.BaseFee, conf.FeeCap = chain.Bitcoin, true, fee, 1000
	net := sim.New(conf)
	net.Mint(payer, "", money.Units(1_000_000))
	h := buildTestEnv(t, net.ToChain(), 0, signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{
		// A policy names a chain; the signer never asks it.
		chain.Ethereum: {SignerID: "31337", FeeMax: money.Units(1), GasMax: money.Units(1), Unlimited: true},
	}}, func(s *local.Signer, entry signer.Entry) signer.Signer { return &fakeSigner{s, entry} })
	h.net = net
	h.runAllSteps()
	return h
}

// buildTestEnv builds the service on a chain whose walk begins after a block.
func buildTestEnv(
	t *testing.T, on chain.Chain, start uint64, policy signpolicy.Policy,
	signs func(*local.Signer, signer.Entry) signer.Signer,
) *testEnv {
	t.Helper()
	h := &testEnv{T: t, ctx: t.Context(), clockTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.severities = map[chain.Address]risk.Severity{payer: risk.Low}
	h.db = pgtest.NewWithClock(t, h.readClock)
	h.mustSucceed(mint.Sync(h.ctx, h.db, []mint.Mint{{
		ID: btc, Chain: chain.Bitcoin, Network: chain.Local, Kind: mint.Native, Symbol: "BTC", Name: "Bitcoin",
		Decimals: 0, Finality: "DEPTH", ConfirmationsRequired: 3,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5), MinWithdraw: money.Units(1),
	}}))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.mustSucceed(err)
	h.org = o.ID
	h.mustSucceed(h.db.InOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, "alice", "")
		return err
	}))
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("trial"), h.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`),
			"screeningUsdThreshold":      json.RawMessage(`"5000"`),
		})
		return err
	}))
	h.dir = t.TempDir()
	files := keys.Files{
		Key: filepath.Join(h.dir, "seed.sealed"), KEK: filepath.Join(h.dir, "seed.key"),
		Attest: filepath.Join(h.dir, "attest.pub"),
	}
	_, err = keys.CreateSeed(files, time.Now())
	h.mustSucceed(err)
	seed, err := keys.OpenSeed(files)
	h.mustSucceed(err)
	seed = seed.ForNetwork(chain.Local)
	h.seed = seed
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	h.mustSucceed(err)
	conf := local.Config{Journal: filepath.Join(h.dir, "journal"), Clock: h.readClock, Policy: policy, Grants: grants}
	h.mustSucceed(local.CreateJournal(conf, seed))
	s, err := local.Open(conf, seed)
	h.mustSucceed(err)
	t.Cleanup(func() { s.Close() })
	issued, err := s.IssueAddress(h.ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Treasury,
	})
	h.mustSucceed(err)
	h.plan = harness.Config{
		Grants: grants,
		DB:     h.db, Chain: on, Start: start, Signer: signs(s, issued.Entry), AttestKey: seed.AttestKey().PublicKey(),
		RiskPolicy: risk.Policy{Providers: &h.fakeScreener, UnknownAs: risk.TreatUnknownAsHold},
		Prices:     price.Fixed{Prices: map[int]money.USD{btc: money.MustParseUSD("1")}},
		Dispatch:   dispatch.Config{BumpAfter: time.Hour},
	}
	h.Harness = harness.New(h.plan)
	h.mustSucceed(journal.Import(h.ctx, h.db, s, h.Wallets))
	h.treasury, err = h.Wallets.Treasury(h.ctx, h.org, chain.BitcoinFamily)
	h.mustSucceed(err)
	h.alice, err = h.Wallets.Address(h.ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.CustomerDeposit, Subject: "alice",
	})
	h.mustSucceed(err)
	return h
}

// runAllSteps runs every part until nothing changes by itself.
func (h *testEnv) runAllSteps() {
	h.Helper()
	for range 3 {
		h.advanceClock(3 * time.Second)
		for _, s := range h.ListSteps(nil) {
			if err := s.Run(h.ctx); err != nil {
				h.Fatalf("%s: %v", s.Name, err)
			}
		}
	}
}

// mineUntilFinal mines n blocks, which makes what waits final, and then runs every part.
func (h *testEnv) mineUntilFinal(n int) {
	h.Helper()
	h.net.Mine(n)
	h.runAllSteps()
}

// depositOutputs pays outputs to a wallet and makes them final.
func (h *testEnv) depositOutputs(to wallet.Wallet, units ...uint64) {
	h.Helper()
	for _, u := range units {
		h.net.Pay(payer, to.Address, "", u)
	}
	h.mineUntilFinal(4)
}

func (h *testEnv) requestWithdrawal(units uint64) string {
	h.Helper()
	h.asked++
	return h.requestWithdrawalTo(units, h.latestPayee())
}

func (h *testEnv) requestWithdrawalTo(units uint64, to chain.Address) string {
	h.Helper()
	key := fmt.Sprint("key-", to)
	got, _, err := h.Withdrawals.Request(h.ctx, h.org, withdrawal.Request{
		MintID: btc, CustomerID: "alice", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key,
		Actor: audit.APIKey(h.org),
	})
	h.mustSucceed(err)
	return got.ID
}

// latestPayee returns the payee of the latest withdrawal.
func (h *testEnv) latestPayee() chain.Address { return sim.Address(fmt.Sprint("payee ", h.asked)) }

func (h *testEnv) withdrawalStatus(id string) (s string) {
	h.Helper()
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(
		h.ctx, `SELECT status || coalesce(' ' || waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id,
	).Scan(&s))
	return s
}

func (h *testEnv) wantStatus(id, status string) {
	h.Helper()
	if got := h.withdrawalStatus(id); got != status {
		var why string
		_ = pgtest.OwnerPool(h.T, h.db).QueryRow(
			h.ctx, `SELECT coalesce(last_error, '') FROM dispatch_orders WHERE order_id = $1`, id,
		).Scan(&why)
		h.Fatalf("order %s is %q (%s), want %q", id, got, why, status)
	}
}

// wantOutputs compares all outputs, as "status amount", the smallest first.
func (h *testEnv) wantOutputs(want ...string) {
	h.Helper()
	rows, err := pgtest.OwnerPool(h.T, h.db).Query(h.ctx, `SELECT status || ' ' || amount FROM utxos ORDER BY amount`)
	h.mustSucceed(err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var s string
		h.mustSucceed(rows.Scan(&s))
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		h.Errorf("coins: got %q, want %q", got, want)
	}
}

// checkBooks runs all checks of the data. No role of the service may change the schema.
func (h *testEnv) checkBooks() {
	h.Helper()
	r, err := verify.RunChecks(h.ctx, h.db, verify.WithoutSchema)
	h.mustSucceed(err)
	on, err := verify.CompareWithChains(h.ctx, h.db, h.Chains)
	h.mustSucceed(err)
	for _, b := range append(r.Breaches, on.Breaches...) {
		h.Errorf("%s: %s %s", b.Check, b.Subject, b.Detail)
	}
}

// Rules COIN-1, COIN-4 and COIN-5.
func TestAPaymentIsMadeOfADepositsOutputAndItsRestPaysTheNext(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100) // gas
	h.depositOutputs(h.alice, 1000)
	h.wantOutputs("FREE 100", "FREE 1000")
	h.checkBooks()
	first := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(first, "BROADCAST")
	h.wantOutputs("FREE 100", "RESERVED 1000")
	h.checkBooks()
	second := h.requestWithdrawal(400)
	h.runAllSteps()
	h.wantStatus(second, "QUEUED COINS") // the books have it, and its output is not final
	h.net.Mine(1)
	h.runAllSteps()
	h.wantOutputs("FREE 100", "RESERVED 1000")
	h.checkBooks()
	h.mineUntilFinal(3)
	h.wantStatus(first, "PAID")
	if got := h.net.Received(sim.Address("payee 1"), ""); got != money.Units(300) {
		t.Errorf("the payee has %v, want 300", got)
	}
	h.wantStatus(second, "BROADCAST")
	h.wantOutputs("FREE 100", "RESERVED 690", "SPENT 1000")
	h.checkBooks()
	h.mineUntilFinal(4)
	h.wantStatus(second, "PAID")
	h.wantOutputs("FREE 100", "FREE 280", "SPENT 690", "SPENT 1000")
	h.checkBooks()
	if n := queryCount(h, `SELECT count(*) FROM sweeps`); n != 0 {
		t.Errorf("got %d sweeps, want none", n)
	}
	if n := queryCount(h, `SELECT count(*) FROM deposits`); n != 2 {
		t.Errorf("got %d deposits, want the two that came from outside", n)
	}
}

// Outputs of a frozen wallet pay nothing, however large they are, and no consolidation spends them.
// The outputs of the organization's other wallets do, and all of them after the freeze is lifted.
func TestOutputsOfAFrozenWalletPayNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, merging)
	h.depositOutputs(h.treasury, 400)
	frozen := freeze.Target{OrgID: h.org, Chain: chain.Bitcoin, WalletID: h.alice.ID}
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeWallet, OrgID: h.org, WalletID: h.alice.ID, Chain: chain.Bitcoin,
			Source: freeze.SourceOperator, Reason: "trial",
		})
	})
	h.depositOutputs(h.alice, 1000, 40, 40, 40)
	first := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(first, "BROADCAST")
	h.wantOutputs("FREE 40", "FREE 40", "FREE 40", "RESERVED 400", "FREE 1000")
	second := h.requestWithdrawal(500)
	h.mineUntilFinal(4)
	h.wantStatus(first, "PAID")
	h.advanceClock(11 * time.Minute)
	h.runAllSteps()
	h.wantStatus(second, "QUEUED COINS")
	h.wantConsolidations("")
	if n := queryCount(h, `SELECT count(*) FROM utxos WHERE wallet_id = $1 AND status <> 'FREE'`, h.alice.ID); n != 0 {
		t.Errorf("got %d coins of the frozen wallet that something has, want none", n)
	}
	h.checkBooks()
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Active(ctx, tx, frozen)
		if err != nil || f == nil {
			t.Fatalf("got %v, %v, want the freeze", f, err)
		}
		return freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
	})
	h.runAllSteps()
	h.wantStatus(second, "BROADCAST")
	h.mineUntilFinal(4)
	h.wantStatus(second, "PAID")
	h.checkBooks()
}

func queryCount(h *testEnv, sql string, args ...any) (n int) {
	h.Helper()
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(h.ctx, sql, args...).Scan(&n))
	return n
}

// Rule COIN-4. A slot takes no further outputs. Where they are used up, the first fee is the last,
// and the payment is made at it.
func TestAPaymentWhoseOutputsAreUsedUpKeepsItsFeeAndIsPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	id := h.requestWithdrawal(1000 - fee)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	h.wantOutputs("FREE 100", "RESERVED 1000")
	h.advanceClock(2 * time.Hour)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	if _, err := h.DispatchWorker.BumpFee(
		h.ctx, id, dispatch.AnyVersion, audit.Operator("trial"),
	); !fault.HasCode(err, fault.InvalidState) || !strings.Contains(err.Error(), "leave too little") {
		t.Errorf("a higher fee by a person: got %v, want it refused for its coins", err)
	}
	if n := queryCount(h, `SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d transactions, want the one that is out", n)
	}
	if n := queryCount(h, `SELECT count(*) FROM dispatch_orders WHERE last_error LIKE '%leave too little%'`); n != 1 {
		t.Error("the order does not say why its fee is not raised")
	}
	h.checkBooks()
	h.mineUntilFinal(4)
	h.wantStatus(id, "PAID")
	h.wantOutputs("FREE 100", "SPENT 1000")
	h.checkBooks()
}

// Rule COIN-4.
func TestTwoProcessesThatPayAtOnceSpendNoOutputTwice(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 500)
	h.depositOutputs(h.alice, 100, 100, 100, 100)
	var ids []string
	for range 4 {
		ids = append(ids, h.requestWithdrawal(60))
	}
	other := harness.New(h.plan)
	for range 20 {
		h.advanceClock(3 * time.Second)
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Worker{h.DispatchWorker, other.DispatchWorker} {
			wg.Go(func() {
				if _, err := d.RunRound(h.ctx); err != nil {
					t.Errorf("round: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if n := queryCount(h, `SELECT count(*) FROM dispatch_orders WHERE status = 'BROADCAST'`); n != 4 {
		t.Fatalf("got %d payments that are out, want 4", n)
	}
	h.checkBooks()
	h.mineUntilFinal(4)
	for _, id := range ids {
		h.wantStatus(id, "PAID")
	}
	for i := range ids {
		if got := h.net.Received(sim.Address(fmt.Sprint("payee ", i+1)), ""); got != money.Units(60) {
			t.Errorf("payee %d has %v, want 60", i+1, got)
		}
	}
	h.checkBooks()
}

// Rule COIN-9. The next order takes a change wallet that a crash left without its slot. After that
// each order takes the next one, also when two workers ask at the same moment.
func TestWalletsForChangeAreTakenInTheirOrder(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 500)
	h.depositOutputs(h.alice, 100, 100, 100, 100)
	if _, err := h.Wallets.Address(h.ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: "1",
	}); err != nil {
		t.Fatal(err)
	}
	other := harness.New(h.plan)
	for n := range 4 {
		h.requestWithdrawal(60)
		h.advanceClock(3 * time.Second)
		var wg sync.WaitGroup
		for _, d := range []*dispatch.Worker{h.DispatchWorker, other.DispatchWorker} {
			wg.Go(func() {
				if _, err := d.RunRound(h.ctx); err != nil {
					t.Errorf("round: %v", err)
				}
			})
		}
		wg.Wait()
		h.runAllSteps()
		if got := queryCount(h,
			`SELECT count(*) FROM dispatch_slots s JOIN wallets w ON w.address = split_part(s.slot_key, ' ', -1)
			WHERE w.purpose = 'CHANGE' AND w.subject = (s.nonce + 1)::text`); got != n+1 {
			t.Fatalf("got %d slots with the number of their turn, want %d", got, n+1)
		}
	}
	// A worker that asks after the other's commit gets the wallet of the next order.
	got := queryCount(h, `SELECT count(*) FROM wallets WHERE purpose = 'CHANGE'`)
	if got < 4 || got > 5 {
		t.Errorf("got %d wallets for change, want those of 4 slots and at most one for the next", got)
	}
	if last := queryCount(h, `SELECT max(subject::int) FROM wallets WHERE purpose = 'CHANGE'`); last != got {
		t.Errorf("got %d as the number of the last of %d wallets for change, want no gap", last, got)
	}
	h.checkBooks()
}

// Rule COIN-2.
func TestAFlaggedDepositGoesBackByItsOwnOutput(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 4000)
	h.severities[payer] = risk.Severe
	h.depositOutputs(h.alice, 6000)
	h.wantOutputs("FREE 100", "FREE 4000", "HELD 6000")
	h.checkBooks()
	paid := h.requestWithdrawal(3000)
	h.runAllSteps()
	h.mineUntilFinal(4)
	h.wantStatus(paid, "PAID")
	h.wantOutputs("FREE 100", "FREE 990", "SPENT 4000", "HELD 6000")
	flagged := h.onlyFlagged()
	operator := deposit.Actor{Actor: audit.Operator("op_1")}
	_, err := h.Deposits.Reject(h.ctx, flagged, operator, "")
	h.mustSucceed(err)
	h.checkBooks()
	h.runAllSteps()
	returned := h.returnOrder(flagged)
	h.wantStatus(returned, "BROADCAST")
	h.wantOutputs("FREE 100", "RESERVED 990", "SPENT 4000", "RESERVED 6000")
	h.checkBooks()
	// The return is cancelled: its change still belongs to the deposit, and the next attempt sends
	// it.
	_, err = h.DispatchWorker.CancelOrder(h.ctx, returned, audit.Operator("op_1"))
	h.mustSucceed(err)
	h.runAllSteps()
	h.mineUntilFinal(4)
	h.wantStatus(returned, "FAILED")
	h.wantOutputs("FREE 100", "SPENT 990", "SPENT 4000", "SPENT 6000", "HELD 6978")
	h.checkBooks()
	_, err = h.Deposits.Complete(h.ctx, flagged, operator, "")
	h.mustSucceed(err)
	h.runAllSteps()
	h.wantOutputs("FREE 100", "SPENT 990", "SPENT 4000", "SPENT 6000", "RESERVED 6978")
	h.mineUntilFinal(4)
	h.wantStatus(h.returnOrder(flagged), "PAID")
	h.wantOutputs("FREE 100", "FREE 968", "SPENT 990", "SPENT 4000", "SPENT 6000", "SPENT 6978")
	if got := h.net.Received(payer, ""); got != money.Units(6000) {
		t.Errorf("the sender has %v back, want 6000", got)
	}
	h.checkBooks()
}

func (h *testEnv) onlyFlagged() (id string) {
	h.Helper()
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(
		h.ctx, `SELECT deposit_id FROM deposits WHERE status = 'FLAGGED'`,
	).Scan(&id))
	return id
}

// returnOrder returns the id of the order that returns a deposit.
func (h *testEnv) returnOrder(depositID string) (id string) {
	h.Helper()
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(
		h.ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status <> 'FAILED'`, depositID,
	).Scan(&id))
	return id
}

// Rule COIN-4.
func TestAnOutputThatAForeignTransactionSpendsFreezesTheTreasury(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	id := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	var slotKey string
	h.mustSucceed(pgtest.OwnerPool(t, h.db).QueryRow(h.ctx, `SELECT slot_key FROM dispatch_slots`).Scan(&slotKey))
	spends, err := h.plan.Chain.UTXO.Inputs(slotKey)
	h.mustSucceed(err)
	h.net.StealOutputs(sim.Address("thief"), spends...)
	h.mineUntilFinal(4)
	h.advanceClock(2 * time.Minute)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST") // the order keeps its outputs
	h.wantOutputs("FREE 100", "RESERVED 1000")
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Active(ctx, tx, freeze.Target{OrgID: h.org, Chain: chain.Bitcoin, WalletID: h.treasury.ID})
		if err == nil && f == nil {
			t.Error("the treasury is not frozen")
		}
		return err
	}))
}

// Rule COIN-6.
func TestARestoredOrderHasTheOutputsThatTheJournalSignedFor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	pool := h.plan.Chain.UTXO
	restorer := dispatch.JournalRestorer{
		Features:   map[signer.Purpose]dispatch.RestoreListener{signer.Payment: h.Withdrawals},
		ReadFees:   func(chain.Name, []byte) (chain.Fees, error) { return chain.Fees{NonGas: money.Units(fee)}, nil },
		ReadInputs: func(_ chain.Name, slotKey string) ([]chain.Output, error) { return pool.Inputs(slotKey) },
	}
	restore := func(id, slotKey string, n uint64) error {
		payee := sim.Address("payee of " + id)
		payment := chain.Payment{From: h.treasury.Address, To: payee, Amount: money.Units(300)}
		payload, err := h.plan.Chain.Sender.Build(
			h.treasury.Address, chain.Slot{Nonce: n, Key: slotKey}, chain.Fees{NonGas: money.Units(fee)}, payment,
		)
		h.mustSucceed(err)
		raw, hash := sim.SignPayload(payload)
		return h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
			return restorer.Restore(ctx, tx, []journal.Intent{{
				ID: id, AdmittedAt: tx.Now,
				Intent: &signer.Intent{
					ID: id, Purpose: signer.Payment, Chain: chain.Bitcoin, From: h.treasury.Ref(), To: payee,
					Amount: money.Units(300), MintID: btc, CustomerID: "alice",
					IdempotencyKeyHash: fmt.Sprintf("%064x", n+1),
				},
				Signed: []journal.Signature{{
					SignBody: signer.SignBody{
						IntentID: id, Slot: chain.Slot{Nonce: n, Key: slotKey}, Act: signer.Pay, Payload: payload,
						Hash: hash,
					}, SignedAt: tx.Now, Raw: raw,
				}},
			}})
		})
	}
	var had string
	h.mustSucceed(pgtest.OwnerPool(t, h.db).QueryRow(h.ctx, `SELECT outpoint FROM utxos WHERE amount = 1000`).Scan(
		&had,
	))
	rest, err := h.Wallets.Address(h.ctx, signer.WalletRef{
		OrgID: h.org, Family: chain.BitcoinFamily, Purpose: wallet.Change, Subject: "1",
	})
	h.mustSucceed(err)
	// One deposit that the backup has, and one that arrived after it.
	later := h.net.Pay(payer, h.alice.Address, "", 200)
	slotKey := fmt.Sprintf("%s:1000:%s %s:0:200:%s %s", had, h.alice.Address, later, h.alice.Address, rest.Address)
	for name, wrong := range map[string]string{
		"another amount":       fmt.Sprintf("%s:1001:%s %s", had, h.alice.Address, h.treasury.Address),
		"another holder":       fmt.Sprintf("%s:1000:%s %s", had, h.treasury.Address, h.treasury.Address),
		"a holder of nobody's": fmt.Sprintf("%s:1000:%s %s", had, payer, h.treasury.Address),
	} {
		if err := restore("wd_wrong", wrong, 0); err == nil {
			t.Errorf("%s: was restored", name)
		}
	}
	h.mustSucceed(restore("wd_01ARZ3NDEKTSV4RRFFQ69G5FAV", slotKey, 0))
	h.wantOutputs("FREE 100", "RESERVED 200", "RESERVED 1000")
	if err := restore(
		"wd_01ARZ3NDEKTSV4RRFFQ69G5FAW", fmt.Sprintf("%s:1000:%s %s", had, h.alice.Address, h.alice.Address), 1,
	); err == nil {
		t.Error("a coin was restored to two orders")
	}
	h.mineUntilFinal(4)
	h.mineUntilFinal(4)
	h.wantStatus("wd_01ARZ3NDEKTSV4RRFFQ69G5FAV", "PAID")
	h.checkBooks()
}

// Rule COIN-3.
func TestAPaymentKeepsItsOutputThroughABrokenFinality(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	id := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	h.net.Fork(4)
	h.net.MineEmpty(8)
	for {
		moved, err := h.Walker.StepFinal(h.ctx)
		if errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
		if h.mustSucceed(err); !moved {
			t.Fatal("the walk does not see that finality broke")
		}
	}
	at, err := h.Walker.FindFork(h.ctx)
	h.mustSucceed(err)
	_, err = h.Walker.Repoint(h.ctx, at, 2, audit.Operator("op"))
	h.mustSucceed(err)
	h.wantOutputs("FREE 100", "GONE 1000")
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	h.wantOutputs("FREE 100", "GONE 1000")
	h.net.Mine(1) // the deposit exists again, and then the payment
	h.mineUntilFinal(6)
	h.wantOutputs("FREE 100", "HELD 690", "RESERVED 1000")
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
	h.mineUntilFinal(6)
	h.wantStatus(id, "PAID")
	h.wantOutputs("FREE 100", "FREE 690", "SPENT 1000")
	h.checkBooks()
}

// findOutput returns what the walk knows of the output with an amount.
func (h *testEnv) findOutput(amount int) (f utxo.Output) {
	h.Helper()
	var outpoint string
	h.mustSucceed(pgtest.OwnerPool(h.T, h.db).QueryRow(h.ctx, `
		SELECT chain, outpoint, org_id, wallet_id, mint_id, amount, deposit_id, proof_id, height FROM utxos WHERE amount = $1`,
		amount).
		Scan(&f.Chain, &outpoint, &f.OrgID, &f.WalletID, &f.MintID, &f.Amount, &f.DepositID, &f.ProofID, &f.Height))
	hash, position, _ := strings.Cut(outpoint, ":")
	f.Tx, f.Position, f.IsFree = chain.TxHash(hash), position, true
	return f
}

func (h *testEnv) inSystem(do func(context.Context, pg.Tx) error) {
	h.Helper()
	h.mustSucceed(h.db.InSystem(h.ctx, do))
}

// Rule COIN-3. The order's transaction proves that the output is spent, whichever scan finds the
// output again.
func TestAnOutputThatIsFoundAgainAfterItsOrderEndedIsSpent(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	id := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	deposit := h.findOutput(1000)
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return utxo.RemoveReorged(ctx, tx, chain.Bitcoin, deposit.Height-1)
	})
	h.wantOutputs("FREE 100", "GONE 1000")
	h.mineUntilFinal(4)
	h.wantStatus(id, "PAID")
	again := func() {
		t.Helper()
		h.inSystem(func(ctx context.Context, tx pg.Tx) error { return utxo.AddFinal(ctx, tx, deposit) })
		h.wantOutputs("FREE 100", "FREE 690", "SPENT 1000")
		h.checkBooks()
	}
	again()
	// An older program left a database with the output in that state.
	owner, err := pgtest.OwnerPool(t, h.db).Begin(h.ctx)
	h.mustSucceed(err)
	_, err = owner.Exec(h.ctx, `SET LOCAL session_replication_role = replica`)
	h.mustSucceed(err)
	_, err = owner.Exec(h.ctx, `UPDATE utxos SET status = 'GONE', spent_tx_hash = NULL WHERE status = 'SPENT'`)
	h.mustSucceed(err)
	h.mustSucceed(owner.Commit(h.ctx))
	again()
}

// Rule COIN-7. A role that may write orders cannot end one whose outputs are not spent with it.
func TestAnOrderDoesNotEndBeforeItsOutputs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 100)
	h.depositOutputs(h.alice, 1000)
	id := h.requestWithdrawal(300)
	h.runAllSteps()
	h.wantStatus(id, "BROADCAST")
	err := h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET status = 'PAID', ended_at = now(), fee = 0, proof_id = (SELECT max(proof_id) FROM finality_proofs),
				tx_hash = (SELECT tx_hash FROM dispatch_attempts WHERE order_id = $1) WHERE order_id = $1`, id)
		return err // without a fee, the books lack nothing
	})
	if !pg.ViolatesConstraint(err, "utxos_match_slot") {
		t.Errorf("got %v, want utxos_match_slot", err)
	}
}

// A hundred payments share a transaction, and the next ones another. Rule BP-20.
func TestAHundredPaymentsShareATransaction(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 20_000, 20_000)
	h.depositOutputs(h.alice, 20_000)
	var ids []string
	for range 105 {
		ids = append(ids, h.requestWithdrawal(60))
	}
	h.runAllSteps()
	for orders, want := range map[int]int{100: 1, 5: 1} {
		if n := queryCount(h, fmt.Sprintf(`SELECT count(*) FROM dispatch_slots WHERE orders = %d`, orders)); n != want {
			t.Errorf("got %d transactions of %d payments, want %d", n, orders, want)
		}
	}
	h.mineUntilFinal(4)
	for i, id := range ids {
		h.wantStatus(id, "PAID")
		if got := h.net.Received(sim.Address(fmt.Sprint("payee ", i+1)), ""); got != money.Units(60) {
			t.Errorf("payee %d has %v, want 60", i+1, got)
		}
	}
	h.checkBooks()
}
