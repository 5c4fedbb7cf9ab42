package deposit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	eth  = 1
	usdc = 2
)

var (
	usdcAt   = sim.Address("usdc")
	payer    = sim.Address("payer")
	alice    = sim.Address("alice's deposit address")
	bob      = sim.Address("bob's deposit address")
	treasury = sim.Address("treasury")
	checkout = sim.Address("the organization's own, for CHECKOUT")
)

type testEnv struct {
	db      *pg.DB
	org     string
	c       *sim.Chain
	w       *scan.Walker
	service *deposit.Service
	wallets *wallet.Service
	logs    *bytes.Buffer
	sign    *offlineVoidSigner // voids earlier decisions
	voids   *dispatch.Voider   // asks that signer
	attest  ed25519.PrivateKey
}

// offlineVoidSigner is a signer that can be offline.
type offlineVoidSigner struct {
	signer.Signer
	gone atomic.Bool
}

func (a *offlineVoidSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	if a.gone.Load() {
		return signer.Entry{}, errors.New("no answer")
	}
	return a.Signer.VoidIntent(ctx, v)
}

// newService returns another deposit service on the chain of the environment.
func (w *testEnv) newService(screens risk.Policy, prices price.Source) *deposit.Service {
	return &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     w.db, Chains: chain.Chains{chain.Ethereum: w.c.ToChain()}, Wallets: w.wallets,
		Owners: deposit.NewOwners(owners()), Prices: prices, Risk: screens, GrantKey: grantKey(), Voider: w.voids,
		Log: slog.New(slog.NewTextHandler(w.logs, nil)),
	}
}

// owners returns the owners that the service registers.
func owners() map[string]deposit.Owner {
	return map[string]deposit.Owner{
		wallet.CustomerDeposit: deposit.CustomerOwner{}, wallet.OrganizationDeposit: deposit.ProductOwner{},
		wallet.Treasury: deposit.TreasuryOwner{}, wallet.Change: deposit.ChangeOwner{},
		wallet.SwapDelivery: swapSettler{}, wallet.SwapRefund: swapSettler{},
		wallet.DepositSwap:    depositSwapOwner{},
		wallet.Checkout:       notedPayments{noted: new([]deposit.Update)},
		wallet.CheckoutShared: notedPayments{deposit.CheckoutOwner{IsShared: true}, new([]deposit.Update)},
	}
}

// notedPayments notes what the owner of checkouts hears of, and matches no arrival with a checkout. One whose
// transaction runs twice is noted twice.
type notedPayments struct {
	deposit.CheckoutOwner
	noted *[]deposit.Update
}

func (o notedPayments) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	*o.noted = append(*o.noted, updates...)
	for _, u := range updates {
		if u.From != "" {
			continue
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO checkout_unmatched (deposit_id, org_id, checkout_id, mint_id, amount, reason, seen_at)
			VALUES ($1, $2, nullif($3, ''), $4, $5, CASE $3 WHEN '' THEN 'NO_REFERENCE' ELSE 'NO_CHECKOUT' END, $6)`,
			u.DepositID, u.OrgID, u.CheckoutID, u.MintID, u.Amount, tx.Now)
		if err != nil {
			return err
		}
	}
	return nil
}

// depositSwapOwner owns the arrivals for deposit swaps, of which these tests have none. trial/swaps has them.
type depositSwapOwner struct{ deposit.DepositSwapOwner }

func (depositSwapOwner) OnUpdates(context.Context, pg.Tx, []deposit.Update) error { return nil }

// grantKey returns the grant key of the service, which is not in the database.
func grantKey() *signer.GrantKey {
	k, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		panic(err)
	}
	return k
}

// newTestEnv returns an environment with an organization, two customers and a treasury, on a chain
// whose final block is three blocks behind its tip.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, risk.Policy{})
}

// newTestEnvWith is newTestEnv with a risk policy.
func newTestEnvWith(t *testing.T, screens risk.Policy) *testEnv {
	t.Helper()
	return openOn(t, pgtest.New(t), screens)
}

// openOn is newTestEnvWith on a given database.
func openOn(t *testing.T, db *pg.DB, screens risk.Policy) *testEnv {
	t.Helper()
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatalf("create an organization: %v", err)
	}
	err = mint.Sync(t.Context(), db, []mint.Mint{
		{
			ID: eth, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether",
			Decimals:   18,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
		{
			ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAt,
			Symbol: "USDC", Name: "USD Coin", Decimals: 6,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), ConfirmationsRequired: 3, Finality: "FINALIZED",
		},
	})
	if err != nil {
		t.Fatalf("sync the mints: %v", err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	super := pgtest.OwnerPool(t, db)
	for _, a := range []struct {
		id, purpose, subject string
		address              chain.Address
	}{
		{"adr_alice", wallet.CustomerDeposit, "alice", alice},
		{"adr_bob", wallet.CustomerDeposit, "bob", bob},
		{"adr_treasury", wallet.Treasury, "", treasury},
		{"adr_checkout", wallet.OrganizationDeposit, "CHECKOUT", checkout},
	} {
		ref := signer.WalletRef{OrgID: o.ID, Family: chain.EVM, Purpose: a.purpose, Subject: a.subject}
		proof := ed25519.Sign(private, signer.AttestedBytes(ref, "m/1", a.address))
		_, err := super.Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'EVM', $3, $4, 'm/1', $5, $6, now())`, a.id, o.ID, a.purpose, a.subject, a.address, proof)
		if err != nil {
			t.Fatalf("insert a wallet: %v", err)
		}
	}
	// Bob has no customer row: his wallet was restored from the signer's journal.
	err = db.InOrg(t.Context(), o.ID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, o.ID, "alice", "alice@example.com")
		return err
	})
	if err != nil {
		t.Fatalf("make a customer: %v", err)
	}
	c := sim.New(sim.Config{FinalityDepth: 3})
	c.Mint(payer, "", money.Units(1_000_000_000))
	c.Mint(payer, usdcAt, money.Units(1_000_000_000))
	w := &testEnv{db: db, org: o.ID, c: c, logs: &bytes.Buffer{}, attest: private}
	log := slog.New(slog.NewTextHandler(w.logs, nil))
	w.wallets = wallet.New(db, nil, public)
	asked, _ := signertest.NewWithGrants(t, grantKey())
	w.sign = &offlineVoidSigner{Signer: asked}
	w.voids = &dispatch.Voider{DB: db, Signer: w.sign, Grants: grantKey(), Log: log}
	w.service = w.newService(screens, price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}})
	w.voids.Listeners = map[signer.Purpose]dispatch.VoidListener{signer.Return: w.service}
	w.w = w.newWalker(w.service)
	w.walkBlocks(t)
	head, err := asked.Head(t.Context())
	if err == nil {
		_, err = super.Exec(
			t.Context(),
			`INSERT INTO signer_identity (one, journal_id, imported_seq, imported_hash) VALUES (true, $1, 0, '')`,
			head.JournalID,
		)
	}
	if err != nil {
		t.Fatalf("bind the database to a signer's journal: %v", err)
	}
	return w
}

func (w *testEnv) newWalker(l scan.Listener) *scan.Walker {
	start := uint64(0)
	return scan.New(
		w.db, scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: &start}, l, slog.New(slog.DiscardHandler),
	)
}

func (w *testEnv) walkFinal(t *testing.T) {
	t.Helper()
	for moved := true; moved; {
		var err error
		if moved, err = w.w.StepFinal(t.Context()); err != nil {
			t.Fatalf("final walk: %v", err)
		}
	}
}

// withoutDecisions reports each block a second time before it is written, as if its first
// transaction had failed. So its deposits wait in SCREENING.
type withoutDecisions struct{ *deposit.Service }

func (u withoutDecisions) OnFinal(ctx context.Context, ch chain.Name, b chain.Block, f []scan.Arrival) scan.Apply {
	u.Service.OnFinal(ctx, ch, b, f)
	return u.Service.OnFinal(ctx, ch, b, f)
}

// wantWaiting walks the final blocks so that their deposits wait for CreditWaiting.
func (w *testEnv) wantWaiting(t *testing.T) {
	t.Helper()
	before := w.w
	w.w = w.newWalker(withoutDecisions{w.service})
	w.walkFinal(t)
	w.w = before
}

func (w *testEnv) readHead(t *testing.T) {
	t.Helper()
	for moved := true; moved; {
		var err error
		if moved, err = w.w.StepHead(t.Context()); err != nil {
			t.Fatalf("head walk: %v", err)
		}
	}
}

// walkBlocks takes all steps that are possible.
func (w *testEnv) walkBlocks(t *testing.T) {
	t.Helper()
	w.walkFinal(t)
	w.readHead(t)
	w.creditAll(t)
}

func (w *testEnv) creditAll(t *testing.T) int {
	t.Helper()
	n, err := w.service.CreditWaiting(t.Context())
	if err != nil {
		t.Fatalf("Credit: %v", err)
	}
	return n
}

func (w *testEnv) readOrg(t *testing.T, fn func(ctx context.Context, tx pg.Tx) error) {
	t.Helper()
	if err := w.db.ReadSystem(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// listDeposits returns the deposits that the organization sees.
func (w *testEnv) listDeposits(t *testing.T, f deposit.Filter) (items []webhook.Deposit) {
	t.Helper()
	err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, w.org, f, pagination.Page{})
		for _, d := range found.Items {
			items = append(items, wire.Deposit(d))
		}
		return err
	})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return items
}

// onlyDeposit returns the only deposit that the organization sees.
func (w *testEnv) onlyDeposit(t *testing.T) webhook.Deposit {
	t.Helper()
	all := w.listDeposits(t, deposit.Filter{})
	if len(all) != 1 {
		t.Fatalf("got %d deposits, want one: %+v", len(all), all)
	}
	return all[0]
}

func (w *testEnv) loadBalance(t *testing.T, kind ledger.Kind, subject string, mintID int) (a money.Amount) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, ledger.Account{OrgID: w.org, MintID: mintID, Kind: kind, Subject: subject})
		return err
	})
	return a
}

func (w *testEnv) loadFunds(t *testing.T, walletID string, mintID int) (f wallet.Funds) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, walletID, mintID)
		return err
	})
	return f
}

func (w *testEnv) queryCount(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := pgtest.OwnerPool(t, w.db).QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// wantCredited checks that alice has this amount of a mint, from this number of deposits, in the
// ledger, in the funds of her address and in the events.
func (w *testEnv) wantCredited(t *testing.T, mintID int, units uint64, deposits int) {
	t.Helper()
	want := money.Units(units)
	if got := w.loadBalance(t, ledger.Customer, "alice", mintID); got != want {
		t.Errorf("balance: got %v, want %v", got, want)
	}
	if got := w.loadFunds(t, "adr_alice", mintID).Credited; got != want {
		t.Errorf("credited on the address: got %v, want %v", got, want)
	}
	if got := w.queryCount(t, `SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT'`); got != deposits {
		t.Errorf("postings: got %d, want %d", got, deposits)
	}
	if got := w.queryCount(t, `SELECT count(*) FROM events`); got != deposits {
		t.Errorf("events: got %d, want %d", got, deposits)
	}
}

// Rules DEP-3, DEP-12.
func TestADepositIsShownAtOnceAndCreditedWhenItsBlockIsFinal(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	hash := w.c.Pay(payer, alice, usdcAt, 2_500_000)
	w.c.Mine(1)
	for _, confirmations := range []int64{1, 2, 3} {
		w.walkBlocks(t)
		d := w.onlyDeposit(t)
		if d.Status != "CONFIRMING" || d.ChainStatus != "INCLUDED" || d.Confirmations != confirmations {
			t.Errorf(
				"got %s, %s, %d confirmations, want CONFIRMING, INCLUDED, %d", d.Status, d.ChainStatus,
				d.Confirmations, confirmations,
			)
		}
		w.wantCredited(t, usdc, 0, 0)
		err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
			sums, err := deposit.UncreditedByMint(ctx, tx, w.org, "alice")
			if want := money.Units(2_500_000); len(sums) != 1 || sums[usdc].Pending != want ||
				!sums[usdc].Flagged.IsZero() {
				t.Errorf("pending: got %v, want %v", sums, want)
			}
			return err
		})
		if err != nil {
			t.Fatalf("Pending: %v", err)
		}
		w.c.Mine(1)
	}
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 2_500_000, 1)
	d := w.onlyDeposit(t)
	if d.Status != "CREDITED" || d.ChainStatus != "FINALIZED" || d.TxHash != string(hash) || d.Amount != "2500000" ||
		*d.AmountDecimal != "2.5" || *d.USDValue != "2.50" || *d.CustomerID != "alice" || d.Product != nil ||
		*d.CustomerEmail != "alice@example.com" ||
		d.MintID == nil || *d.MintID != usdc || d.Mint.Symbol != "USDC" || *d.Mint.ContractAddress != string(usdcAt) ||
		d.Address != string(alice) || d.FromAddresses[0] != string(payer) || d.LogIndex == nil ||
		*d.LogIndex != 0 || *d.BlockNumber != 1 ||
		d.Screening.Status != "NOT_CONFIGURED" || d.IsFlagged || d.ConfirmationsRequired != 3 ||
		d.Source != "EXTERNAL" ||
		d.ConfirmedAt == nil || d.CreditedAt == nil || d.SweepTxHash != nil || d.UnsupportedReason != nil {
		t.Errorf("got %+v", d)
	}
	var told webhook.Deposit
	var data []byte
	err := pgtest.OwnerPool(t, w.db).QueryRow(
		t.Context(), `SELECT data FROM events WHERE type = 'CUSTOMER_DEPOSIT'`,
	).Scan(&data)
	if err != nil {
		t.Fatalf("read the event: %v", err)
	}
	if err := json.Unmarshal(data, &told); err != nil {
		t.Fatalf("decode the event: %v", err)
	}
	if fmt.Sprintf("%+v", told.DepositID+told.Status+told.Amount) != d.DepositID+"CREDITED"+"2500000" ||
		*told.CreditedAt != *d.CreditedAt {
		t.Errorf("event: got %+v, want the deposit as it is shown", told)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM audit_log WHERE resource_id = $1`, d.DepositID); n != 2 {
		t.Errorf("audit rows: got %d, want 2", n)
	}
}

func TestNativeCoinIsCreditedWhetherSentOrMovedByAContract(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.SubmitTx(payer, sim.Move{To: alice, Amount: money.Units(100)},
		sim.Move{Kind: chain.Internal, To: alice, Amount: money.Units(30)},
		sim.Move{Kind: chain.Internal, To: alice, Amount: money.Units(500), Reverted: true})
	w.c.SubmitFailing(sim.Address("somebody"), sim.Move{To: alice, Amount: money.Units(1000)})
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, eth, 130, 2)
	for _, d := range w.listDeposits(t, deposit.Filter{}) {
		if d.LogIndex != nil || d.USDValue != nil || d.Mint.ContractAddress != nil {
			t.Errorf("got %+v, want neither a log nor a value nor a contract", d)
		}
	}
}

func TestManyMovementsOfOneTransactionAreManyDeposits(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	var moves []sim.Move
	for i := range 20 {
		to := []chain.Address{alice, sim.Address("stranger"), bob}[i%3]
		moves = append(moves, sim.Move{Contract: usdcAt, To: to, Amount: money.Units(100)})
	}
	w.c.SubmitTx(payer, moves...)
	w.c.Mine(4)
	w.walkBlocks(t)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(700) {
		t.Errorf("alice: got %v, want 700", got)
	}
	if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(600) {
		t.Errorf("bob: got %v, want 600", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 13 {
		t.Errorf("events: got %d, want 13", n)
	}
}

// Rule DEP-9.
func TestADepositThatAForkRemovesIsNeverCredited(t *testing.T) {
	t.Parallel()
	for _, shown := range []bool{true, false} {
		t.Run(fmt.Sprintf("shown before %v", shown), func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			hash := w.c.Pay(payer, alice, usdcAt, 100)
			w.c.Mine(2)
			if shown {
				w.walkBlocks(t)
			}
			w.c.Fork(2, hash)
			w.c.Mine(10)
			w.walkBlocks(t)
			w.wantCredited(t, usdc, 0, 0)
			if !shown {
				if got := w.listDeposits(t, deposit.Filter{}); len(got) != 0 {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if d := w.onlyDeposit(t); d.Status != "ORPHANED" || d.ChainStatus != "REORGED" || d.Confirmations != 0 {
				t.Errorf(
					"got %s, %s, %d confirmations, want ORPHANED, REORGED, 0", d.Status, d.ChainStatus, d.Confirmations,
				)
			}
		})
	}
}

func TestAForkThatTheHeadWalkNeverSawOrphansAllTheSame(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	hash := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	w.c.Fork(1, hash)
	w.c.Mine(8)
	w.walkFinal(t) // the head walk did not run meanwhile
	if d := w.onlyDeposit(t); d.Status != "ORPHANED" {
		t.Errorf("got %s, want ORPHANED", d.Status)
	}
}

// Rule DEP-4.
func TestADepositThatMovesToAnotherBlockIsCreditedOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Mint(sim.Address("somebody"), usdcAt, money.Units(5))
	other := w.c.Pay(sim.Address("somebody"), sim.Address("nobody"), usdcAt, 5)
	hash := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.MineOnly(hash, other)
	w.walkBlocks(t)
	first := w.onlyDeposit(t)
	w.c.Fork(1)
	w.walkBlocks(t) // gone for a moment
	if d := w.onlyDeposit(t); d.Status == "CREDITED" {
		t.Errorf("got %s, want it not credited", d.Status)
	}
	w.c.MineEmpty(1)
	w.c.MineOnly(other, hash) // later, and at another position in its block
	w.walkBlocks(t)
	if d := w.onlyDeposit(t); d.Status != "CONFIRMING" || d.DepositID != first.DepositID ||
		*d.BlockNumber == *first.BlockNumber || *d.LogIndex == *first.LogIndex {
		t.Errorf("got %+v, want the same deposit in another block", d)
	}
	w.c.Mine(5)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 100, 1)
	d := w.onlyDeposit(t)
	if d.DepositID != first.DepositID || *d.BlockNumber == *first.BlockNumber {
		t.Errorf("got %+v, want the same deposit in another block", d)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposits`); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// Rule DEP-4.
func TestReadingBlocksAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	for i := range 5 {
		w.c.Pay(payer, alice, usdcAt, uint64(100+i))
		w.c.Pay(payer, bob, "", 1)
		w.c.Mine(2)
	}
	w.c.Mine(4)
	w.walkBlocks(t)
	before := w.digestTables(t)
	for _, height := range []uint64{1, 5, 9} {
		if err := w.w.Rewind(t.Context(), height, audit.Operator("op")); err != nil {
			t.Fatalf("Rewind: %v", err)
		}
		w.walkBlocks(t)
	}
	if after := w.digestTables(t); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
	w.wantCredited(t, usdc, 510, 5)
}

// digestTables returns all rows of the tables that record money, as one text.
func (w *testEnv) digestTables(t *testing.T) string {
	t.Helper()
	var s string
	err := pgtest.OwnerPool(t, w.db).QueryRow(t.Context(), `
		SELECT md5(concat(
			(SELECT string_agg(d::text, '|' ORDER BY deposit_id) FROM deposits d),
			(SELECT string_agg(f::text, '|' ORDER BY wallet_id, mint_id) FROM address_funds f),
			(SELECT string_agg(l::text, '|' ORDER BY transfer_id) FROM ledger_transfers l),
			(SELECT string_agg(e::text, '|' ORDER BY event_id) FROM events e),
			(SELECT count(*) FROM audit_log WHERE resource_kind = 'DEPOSIT')))`).Scan(&s)
	if err != nil {
		t.Fatalf("digest: %v", err)
	}
	return s
}

// Rule DEP-4.
func TestManyWalkersAndCreditorsCreditOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	for range 10 {
		w.c.Pay(payer, alice, usdcAt, 100)
		w.c.Pay(payer, alice, "", 50)
		w.c.Mine(1)
	}
	w.c.Mine(3)
	var running sync.WaitGroup
	for range 3 {
		walker := w.newWalker(w.service)
		running.Go(func() {
			for moved := true; moved; {
				final, err := walker.StepFinal(t.Context())
				if err != nil {
					t.Errorf("final walk: %v", err)
				}
				head, err := walker.StepHead(t.Context())
				if err != nil {
					t.Errorf("head walk: %v", err)
				}
				if _, err := w.service.CreditWaiting(t.Context()); err != nil {
					t.Errorf("Credit: %v", err)
				}
				moved = final || head
			}
		})
	}
	running.Wait()
	w.walkBlocks(t)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1000) {
		t.Errorf("usdc: got %v, want 1000", got)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(500) {
		t.Errorf("eth: got %v, want 500", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 20 {
		t.Errorf("events: got %d, want 20", n)
	}
	if got := w.db.Counts().Deadlocks; got != 0 {
		t.Errorf("got %d deadlocks, want none", got)
	}
}

// Rules DEP-5 and DEP-15.
func TestWhatTheBalanceDoesNotShowIsNotCredited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	nothing := money.Zero
	w.c.SubmitTx(payer, sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(100), ActualAmount: &nothing})
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 0, 0)
	if d := w.onlyDeposit(t); d.Status != "UNSUPPORTED" || *d.UnsupportedReason != scan.DoubtBalanceDelta {
		t.Errorf("got %+v, want it UNSUPPORTED", d)
	}
	if d := w.onlyDeposit(t); d.Screening.Status != "SKIPPED" {
		t.Errorf("got the screening %+v, want none: nobody will ever look at it", d.Screening)
	}
	// Later transfers of this token are not believed either, until a person has released it. Then a
	// deposit that the balances of its own block show is credited, and one that they do not show
	// never is.
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 0, 0)
	w.releaseMint(t, usdc)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 100, 1)
	if got := w.listDeposits(t, deposit.Filter{Status: "UNSUPPORTED"}); len(got) != 1 {
		t.Errorf("got %d UNSUPPORTED, want the one that the balance did not show", len(got))
	}
}

func (w *testEnv) releaseMint(t *testing.T, mintID int) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return mint.ReleaseQuarantine(ctx, tx, mintID, audit.Operator("op"), "looked at it")
	})
	if err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func TestAQuarantineStopsWhatIsFinalAndNotCredited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return mint.Quarantine(ctx, tx, usdc, "somebody looked")
	})
	if err != nil {
		t.Fatalf("Quarantine: %v", err)
	}
	if n := w.creditAll(t); n != 0 {
		t.Errorf("got %d credited, want none", n)
	}
	w.releaseMint(t, usdc)
	if n := w.creditAll(t); n != 1 {
		t.Errorf("released: got %d credited, want 1", n)
	}
}

// Rule DEP-15: a quarantine that is committed before a credit wins, however late it is.
func TestAQuarantineThatIsUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	owner := pgtest.OwnerPool(t, w.db)
	other, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(
		t.Context(), `UPDATE mints SET quarantined_at = now(), quarantine_reason = 'test' WHERE mint_id = $1`, usdc,
	); err != nil {
		t.Fatal(err)
	}
	credited := make(chan int, 1)
	go func() {
		n, err := w.service.CreditWaiting(t.Context())
		if err != nil {
			t.Errorf("Credit: %v", err)
		}
		credited <- n
	}()
	pgtest.Eventually(t, func() bool {
		return len(credited) > 0 ||
			w.queryCount(
				t,
				`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
			) > 0
	}, "the credit waits for the quarantine")
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-credited; n != 0 {
		t.Errorf("got %d credited beside the quarantine, want none", n)
	}
	w.releaseMint(t, usdc)
	if n := w.creditAll(t); n != 1 {
		t.Errorf("released: got %d credited, want 1", n)
	}
}

// Rule DEP-7.
func TestATokenThatIsNotInTheCatalogueIsShownAndNotCredited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	fake := sim.Address("a token called USDC")
	w.c.Mint(payer, fake, money.Units(1000))
	w.c.Pay(payer, alice, fake, 1000)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 0, 0)
	d := w.onlyDeposit(t)
	if d.Status != "UNSUPPORTED" || *d.UnsupportedReason != deposit.UnknownToken ||
		*d.ContractAddress != string(fake) ||
		d.MintID != nil || d.Mint != nil || d.AmountDecimal != nil || d.Amount != "1000" {
		t.Errorf("got %+v, want it UNSUPPORTED without a mint", d)
	}
}

// Rule DEP-6.
func TestWhatIsBelowTheMinimumIsKeptAsDust(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 9)
	w.c.Pay(payer, alice, usdcAt, 0)
	w.c.Pay(payer, alice, usdcAt, 10)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 10, 1)
	if got := w.loadFunds(t, "adr_alice", usdc).Dust; got != money.Units(9) {
		t.Errorf("dust: got %v, want 9", got)
	}
	if got := w.listDeposits(t, deposit.Filter{Status: "BELOW_MINIMUM"}); len(got) != 1 || got[0].Amount != "9" {
		t.Errorf("got %+v, want the 9", got)
	}
}

func TestATreasuryTakesGasAndKeepsTokensInSuspense(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, treasury, "", 5)
	w.c.Pay(payer, treasury, usdcAt, 7)
	w.c.Mine(4)
	w.walkBlocks(t)
	if got := w.loadBalance(t, ledger.Gas, "", eth); got != money.Units(5) {
		t.Errorf("gas: got %v, want 5", got)
	}
	if got := w.loadFunds(t, "adr_treasury", eth); got.Gas != money.Units(5) || !got.Credited.IsZero() {
		t.Errorf("native on the treasury: got %+v, want 5 of gas", got)
	}
	if got := w.loadBalance(t, ledger.Suspense, "", usdc); got != money.Units(7) {
		t.Errorf("suspense: got %v, want 7", got)
	}
	if got := w.loadFunds(t, "adr_treasury", usdc).Credited; got != money.Units(7) {
		t.Errorf("token on the treasury: got %v, want 7", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("events: got %d, want none", n)
	}
	if got := w.listDeposits(t, deposit.Filter{}); len(got) != 0 {
		t.Errorf("got %+v shown to the organization, want nothing", got)
	}
}

// Rule DEP-8.
func TestWhatOurOwnWalletsSendIsNoDeposit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Mint(alice, usdcAt, money.Units(100))
	w.c.Mint(treasury, "", money.Units(100))
	w.c.Pay(alice, treasury, usdcAt, 100)
	w.c.Pay(treasury, alice, "", 100)
	w.c.Pay(alice, alice, "", 50)
	w.c.Mine(4)
	w.walkBlocks(t)
	if n := w.queryCount(t, `SELECT count(*) FROM deposits`); n != 0 {
		t.Errorf("got %d deposits, want none", n)
	}
}

// Rule DEP-2.
func TestAWalletThatTheSignerDidNotIssueIsNotCredited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Pay(payer, bob, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	// The owners of two addresses are swapped in the database.
	super := pgtest.OwnerPool(t, w.db)
	if _, err := super.Exec(t.Context(), `
		UPDATE wallets SET subject = 'x' WHERE wallet_id = 'adr_alice';
		UPDATE wallets SET subject = 'alice' WHERE wallet_id = 'adr_bob'`); err != nil {
		t.Fatalf("tamper: %v", err)
	}
	if n := w.creditAll(t); n != 0 {
		t.Errorf("got %d credited, want none", n)
	}
	if !bytes.Contains(w.logs.Bytes(), []byte("level=ERROR")) {
		t.Errorf("got log %q, want an error", w.logs)
	}
	if _, err := super.Exec(t.Context(), `
		UPDATE wallets SET subject = 'bob' WHERE wallet_id = 'adr_bob'`); err != nil {
		t.Fatalf("mend: %v", err)
	}
	if n := w.creditAll(t); n != 1 {
		t.Errorf("one mended: got %d credited, want that one", n)
	}
}

// Rule EVT-1.
func TestADepositThatCannotBeCreditedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	super := pgtest.OwnerPool(t, w.db)
	_, err := super.Exec(t.Context(), `
		CREATE FUNCTION break_event() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'broken'; END $$;
		CREATE TRIGGER break_event BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.customer_id = 'bob') EXECUTE FUNCTION break_event()`)
	if err != nil {
		t.Fatalf("break the events of one customer: %v", err)
	}
	for range 3 {
		w.c.Pay(payer, alice, usdcAt, 100)
		w.c.Pay(payer, bob, usdcAt, 100)
	}
	w.c.Mine(4)
	w.wantWaiting(t)
	if n, err := w.service.CreditWaiting(t.Context()); n != 3 || err == nil {
		t.Errorf("got %d credited, %v, want 3 and an error", n, err)
	}
	w.wantCredited(t, usdc, 300, 3)
	if got := w.loadFunds(t, "adr_bob", usdc).Credited; !got.IsZero() {
		t.Errorf("bob's address: got %v credited, want nothing without the event", got)
	}
	if _, err := super.Exec(t.Context(), `DROP TRIGGER break_event ON events`); err != nil {
		t.Fatalf("mend the events: %v", err)
	}
	if n := w.creditAll(t); n != 3 {
		t.Errorf("mended: got %d credited, want 3", n)
	}
	if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(300) {
		t.Errorf("bob: got %v, want 300", got)
	}
}

// Rule DEP-15, for deposits that would be credited with their block.
func TestWhatAQuarantineStopsIsNotCreditedWithItsBlock(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return mint.Quarantine(ctx, tx, usdc, "somebody looked")
	})
	if err != nil {
		t.Fatalf("Quarantine: %v", err)
	}
	w.walkFinal(t)
	w.wantCredited(t, usdc, 0, 0)
	w.releaseMint(t, usdc)
	if n := w.creditAll(t); n != 1 {
		t.Errorf("released: got %d credited, want 1", n)
	}
}

// A deposit that cannot be credited must not stop the walk. The second time, the deposits of its
// block are only recorded, and the valid ones are credited on their own.
func TestABlockWhoseCreditsCannotBeBookedIsTakenInWithoutThem(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	super := pgtest.OwnerPool(t, w.db)
	_, err := super.Exec(t.Context(), `
		CREATE FUNCTION break_event() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'broken'; END $$;
		CREATE TRIGGER break_event BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.customer_id = 'bob') EXECUTE FUNCTION break_event()`)
	if err != nil {
		t.Fatalf("break the events of one customer: %v", err)
	}
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Pay(payer, bob, usdcAt, 100)
	w.c.Mine(4)
	if _, err := w.w.StepFinal(t.Context()); err == nil {
		t.Error("the first time: got no error, want that of the event")
	}
	w.wantCredited(t, usdc, 0, 0)
	w.walkFinal(t)
	if got := w.listDeposits(t, deposit.Filter{Status: "SCREENING"}); len(got) != 2 {
		t.Errorf("the second time: got %d that wait, want both", len(got))
	}
	if n, err := w.service.CreditWaiting(t.Context()); n != 1 || err == nil {
		t.Errorf("got %d credited, %v, want alice's and an error", n, err)
	}
	w.wantCredited(t, usdc, 100, 1)
}

func TestNothingIsCreditedOnAChainWhoseFinalityBroke(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(6)
	w.wantWaiting(t)
	w.c.Fork(6)
	w.c.Mine(12)
	if _, err := w.w.StepFinal(t.Context()); err == nil {
		t.Fatal("got no error, want a broken finality")
	}
	if n := w.creditAll(t); n != 0 {
		t.Errorf("got %d credited, want none", n)
	}
}

func TestTheSamePlaceOfATransactionMayPayAnotherAddressOnAnotherFork(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	hash := w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	// The effect of a contract call can depend on its block.
	w.c.Fork(1, hash)
	w.c.ResubmitTx(hash, payer, sim.Move{Contract: usdcAt, To: bob, Amount: money.Units(90)})
	w.c.Mine(5)
	w.walkFinal(t)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 0, 1)
	if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(90) {
		t.Errorf("bob: got %v, want 90", got)
	}
	if got := w.listDeposits(t, deposit.Filter{CustomerID: "alice"}); len(got) != 1 || got[0].Status != "ORPHANED" {
		t.Errorf("alice: got %+v, want hers orphaned", got)
	}
}

// Rule LIST-1.
func TestAListIsFilteredAndWalkedByPlace(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	var hashes []string
	for i := range 7 {
		to := []chain.Address{alice, bob}[i%2]
		hashes = append(hashes, string(w.c.Pay(payer, to, usdcAt, uint64(100+i))))
		w.c.Mine(1)
		w.walkBlocks(t)
	}
	w.c.Pay(payer, alice, "", 100)
	w.c.Mine(5)
	w.walkBlocks(t)
	for _, tt := range []struct {
		name string
		f    deposit.Filter
		want int
	}{
		{"all", deposit.Filter{}, 8},
		{"customer", deposit.Filter{CustomerID: "bob"}, 3},
		{"mint", deposit.Filter{MintID: eth}, 1},
		{"status", deposit.Filter{Status: "CREDITED"}, 8},
		{"another status", deposit.Filter{Status: "CONFIRMING"}, 0},
		{"chain", deposit.Filter{Chain: "BASE"}, 0},
		{"transaction", deposit.Filter{TxHash: hashes[3]}, 1},
		{"address", deposit.Filter{Address: string(alice), MintID: usdc}, 4},
	} {
		if got := w.listDeposits(t, tt.f); len(got) != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, len(got), tt.want)
		}
	}
	var walked []string
	p := pagination.Page{Limit: 3, Desc: true}
	for {
		var found pagination.Result[deposit.Deposit]
		err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = deposit.List(ctx, tx, w.org, deposit.Filter{}, p)
			return err
		})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, d := range found.Items {
			walked = append(walked, d.ID)
		}
		if found.NextCursor == nil {
			break
		}
		p.Cursor = found.NextCursor
	}
	all := w.listDeposits(t, deposit.Filter{})
	if len(walked) != len(all) {
		t.Fatalf("got %d walked, want %d", len(walked), len(all))
	}
	for i := range walked {
		if want := all[len(all)-1-i].DepositID; walked[i] != want {
			t.Errorf("place %d: got %s, want %s", i, walked[i], want)
		}
	}
}

// Rule AUTH-2.
func TestAnotherOrganizationSeesNoDeposit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	ours := w.onlyDeposit(t)
	other, _, err := org.Create(t.Context(), w.db, "Other")
	if err != nil {
		t.Fatalf("create an organization: %v", err)
	}
	absent := ""
	for _, depositID := range []string{"dep_01ARZ3NDEKTSV4RRFFQ69G5FAV", ours.DepositID, "dep_", "'; --"} {
		err := w.db.ReadOrg(t.Context(), other.ID, func(ctx context.Context, tx pg.Tx) error {
			d, err := deposit.Load(ctx, tx, other.ID, depositID)
			if err == nil {
				t.Errorf("got %+v, want nothing", d)
			}
			if absent == "" {
				absent = fmt.Sprint(err) // the answer for an id that never existed
			}
			if !fault.HasCode(err, fault.CodeNotFound) || fmt.Sprint(err) != absent {
				t.Errorf("%s: got %v, want %s", depositID, err, absent)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
