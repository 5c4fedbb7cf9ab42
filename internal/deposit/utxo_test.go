package deposit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
)

const btc = 1

// These are change wallets. The last one is from before they were numbered.
var (
	change    = sim.Address("where the rest of the first slot comes back to")
	change2   = sim.Address("where the rest of the second slot comes back to")
	changeOld = sim.Address("where the rest of wd_2 comes back to")
)

// newUTXOEnv returns an environment on a UTXO chain that screens deposits above two dollars. One
// unit of the coin is worth one dollar.
func newUTXOEnv(t *testing.T, tiers ...chain.Tier) (*testEnv, *fakeScreener) {
	t.Helper()
	db := pgtest.New(t)
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	err = mint.Sync(t.Context(), db, []mint.Mint{{
		ID: btc, Chain: chain.Bitcoin, Network: chain.Local, Kind: mint.Native, Symbol: "BTC", Name: "Bitcoin",
		Decimals:   0,
		MinDeposit: money.Units(10), MinWithdraw: money.Units(10), ConfirmationsRequired: 3, Finality: "DEPTH",
	}})
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	says := &fakeScreener{says: map[chain.Address]risk.Severity{payer: risk.Low}}
	w := &testEnv{
		db: db, org: o.ID, c: sim.New(sim.Config{Name: chain.Bitcoin, FinalityDepth: 3, UTXO: true}),
		logs: &bytes.Buffer{}, attest: private,
	}
	for _, a := range []struct {
		id, purpose, subject string
		address              chain.Address
	}{
		{"adr_alice", wallet.CustomerDeposit, "alice", alice},
		{"adr_treasury", wallet.Treasury, "", treasury},
		{"adr_checkout", wallet.OrganizationDeposit, "CHECKOUT", checkout},
		{"adr_change", wallet.Change, "1", change},
		{"adr_change2", wallet.Change, "2", change2},
		{"adr_change_old", wallet.Change, "wd_2", changeOld},
	} {
		ref := signer.WalletRef{OrgID: o.ID, Family: chain.BitcoinFamily, Purpose: a.purpose, Subject: a.subject}
		w.execAsTableOwner(t,
			`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'BITCOIN', $3, $4, 'm/1', $5, $6, now())`, a.id, o.ID, a.purpose, a.subject, a.address,
			ed25519.Sign(private, signer.AttestedBytes(ref, "m/1", a.address)))
	}
	err = db.InOrg(t.Context(), o.ID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, o.ID, "alice", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.execAsTableOwner(
		t,
		`UPDATE organization_settings SET screening_severity_threshold = 'MEDIUM', screening_usd_threshold = 200, updated_at = now()`,
	)
	w.c.Mint(payer, "", money.Units(1_000_000_000))
	log := slog.New(slog.NewTextHandler(w.logs, nil))
	w.wallets = wallet.New(db, nil, public)
	on := w.c.ToChain()
	on.Tiers = tiers
	w.service = w.newService(
		risk.Policy{Providers: says, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour},
		price.Fixed{Prices: map[int]money.USD{btc: money.MustParseUSD("1")}},
	)
	w.service.Chains = chain.Chains{chain.Bitcoin: on}
	start := uint64(0)
	w.w = scan.New(
		db,
		scan.Config{
			Chain: chain.Bitcoin, Reader: w.c, Start: &start, FinalityListeners: []finality.Listener{w.service},
		},
		w.service, log,
	)
	w.walkBlocks(t)
	return w, says
}

func (w *testEnv) payTo(t *testing.T, to chain.Address, units uint64) chain.TxHash {
	t.Helper()
	hash := w.c.Pay(payer, to, "", units)
	w.c.Mine(4)
	w.walkBlocks(t)
	return hash
}

// wantOutputs checks all outputs, as "status amount at wallet", smallest first.
func (w *testEnv) wantOutputs(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	rows, err := pgtest.OwnerPool(t, w.db).Query(
		t.Context(), `SELECT status || ' ' || amount || ' at ' || wallet_id FROM utxos ORDER BY amount, wallet_id`,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("coins: got %q, want %q", got, want)
	}
}

// wantHoldings compares the funds of the treasury and of alice's address.
func (w *testEnv) wantHoldings(t *testing.T, treasury, gas, alices, held uint64) {
	t.Helper()
	f, a := w.loadFunds(t, "adr_treasury", btc), w.loadFunds(t, "adr_alice", btc)
	if got, want := []money.Amount{f.Spendable(), f.GasSpendable(), a.Spendable(), a.Held}, []money.Amount{
		money.Units(treasury), money.Units(gas), money.Units(alices), money.Units(held),
	}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf(
			"the treasury has %v and gas %v, the address %v and held %v; want %v", got[0], got[1], got[2], got[3], want,
		)
	}
}

// Rule COIN-1.
func TestWhatIsCreditedIsTheTreasurysAtOnceAndItsOutputMayBeChosen(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t)
	w.payTo(t, alice, 100)
	w.wantHoldings(t, 100, 0, 0, 0)
	w.payTo(t, checkout, 70)
	w.payTo(t, treasury, 50)
	w.wantHoldings(t, 170, 50, 0, 0)
	w.payTo(t, alice, 9) // below the minimum
	w.payTo(t, change, 30)
	w.wantHoldings(t, 170, 50, 0, 0)
	w.wantOutputs(
		t, "HELD 9 at adr_alice", "HELD 30 at adr_change", "FREE 50 at adr_treasury", "FREE 70 at adr_checkout",
		"FREE 100 at adr_alice",
	)
	if got := w.loadBalance(t, ledger.Customer, "alice", btc); got != money.Units(100) {
		t.Errorf("alice has %v, want 100", got)
	}
	if n := w.queryCount(
		t, `SELECT count(*) FROM deposits WHERE status = 'UNSUPPORTED' AND reason = 'CHANGE_ADDRESS'`,
	); n != 1 {
		t.Errorf("what somebody paid to an address of change: got %d deposits that count for nobody, want 1", n)
	}
	if got := w.listDeposits(t, deposit.Filter{}); len(got) != 3 {
		t.Errorf("the organization sees %d deposits, want the three of its customers and products", len(got))
	}
	// Reading again changes nothing.
	if err := w.w.Rewind(t.Context(), 2, operatorActor().Actor); err != nil {
		t.Fatal(err)
	}
	w.walkBlocks(t)
	w.wantOutputs(
		t, "HELD 9 at adr_alice", "HELD 30 at adr_change", "FREE 50 at adr_treasury", "FREE 70 at adr_checkout",
		"FREE 100 at adr_alice",
	)
	w.wantHoldings(t, 170, 50, 0, 0)
	pgtest.ExpectLockException(t, w.db, "deposit.lockUnchangedSettings")
	pgtest.ExpectLockException(t, w.db, "deposit.Service.OnFinal")
}

// Rule DEP-53. Two outputs of one transaction to one customer are two deposits, which differ by
// their output.
func TestEachDepositSaysWhichOutputItIs(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t)
	hash := w.c.SubmitTx(payer,
		sim.Move{
			To: alice, Amount: money.Units(30),
		}, sim.Move{To: payer, Amount: money.Units(5)}, sim.Move{To: alice, Amount: money.Units(30)})
	w.c.Mine(4)
	w.walkBlocks(t)
	got := w.listDeposits(t, deposit.Filter{TxHash: string(hash)})
	if len(got) != 2 {
		t.Fatalf("got %d deposits, want one for each output", len(got))
	}
	var outputs []int64
	for _, d := range got {
		if d.OutputIndex == nil || d.LogIndex != nil || d.Amount != "30" {
			t.Fatalf("got %+v, want the number of its output", d)
		}
		outputs = append(outputs, *d.OutputIndex)
	}
	slices.Sort(outputs)
	if !slices.Equal(outputs, []int64{0, 2}) {
		t.Errorf("got the outputs %v, want 0 and 2", outputs)
	}
}

// Rule COIN-1.
func TestWithoutATreasuryNothingIsCreditedWhereAccountsAreOutputs(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t)
	w.execAsTableOwner(t, `UPDATE wallets SET family = 'EVM' WHERE wallet_id = 'adr_treasury'`)
	w.payTo(t, alice, 100)
	w.wantOutputs(t, "HELD 100 at adr_alice")
	w.execAsTableOwner(t, `UPDATE wallets SET family = 'BITCOIN' WHERE wallet_id = 'adr_treasury'`)
	w.creditAll(t)
	w.wantOutputs(t, "FREE 100 at adr_alice")
	w.wantHoldings(t, 100, 0, 0, 0)
}

// Rule COIN-2.
func TestTheOutputOfAFlaggedDepositIsNotSpent(t *testing.T) {
	t.Parallel()
	w, says := newUTXOEnv(t)
	says.setSeverity(payer, risk.Severe)
	w.payTo(t, alice, 500)
	w.wantHoldings(t, 0, 0, 0, 500)
	w.wantOutputs(t, "HELD 500 at adr_alice")
	id := w.onlyDeposit(t).DepositID
	if _, err := w.service.Approve(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	w.wantHoldings(t, 500, 0, 0, 0)
	w.wantOutputs(t, "FREE 500 at adr_alice")
	if got := w.loadBalance(t, ledger.Customer, "alice", btc); got != money.Units(500) {
		t.Errorf("alice has %v, want 500", got)
	}
}

// Rule COIN-3.
func TestAnOutputWhoseBlockIsGoneIsNotSpent(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"found again": true, "gone for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, says := newUTXOEnv(t)
			hash := w.payTo(t, alice, 100)
			says.setSeverity(payer, risk.Severe)
			flagged := w.payTo(t, alice, 500)
			w.wantOutputs(t, "FREE 100 at adr_alice", "HELD 500 at adr_alice")
			var dropped []chain.TxHash
			if !again {
				dropped = []chain.TxHash{hash, flagged}
			}
			w.c.Fork(8, dropped...)
			w.c.Mine(10)
			w.partChain(t)
			w.wantOutputs(t, "FREE 100 at adr_alice", "HELD 500 at adr_alice") // no output is spent meanwhile
			w.repointChain(t)
			w.wantOutputs(t, "GONE 100 at adr_alice", "GONE 500 at adr_alice")
			w.c.Mine(10)
			w.walkFinal(t)
			w.settleReorgs(t)
			w.liftFreezes(t)
			if again {
				w.wantOutputs(t, "FREE 100 at adr_alice", "HELD 500 at adr_alice")
				w.wantHoldings(t, 100, 0, 0, 500)
			} else {
				w.wantOutputs(t, "GONE 100 at adr_alice", "GONE 500 at adr_alice")
				w.wantHoldings(t, 0, 0, 0, 0)
			}
		})
	}
}

// unasked writes past the triggers that check other rows.
func (w *testEnv) unasked(t *testing.T, sql string, args ...any) {
	t.Helper()
	tx, err := pgtest.OwnerPool(t, w.db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Rule COIN-4. An output is in one slot, even if two orders ask for it at the same time, and a
// reserved output stays there.
func TestTheTableGivesAnOutputToOneOrder(t *testing.T) {
	t.Parallel()
	w, says := newUTXOEnv(t)
	w.payTo(t, alice, 100)
	says.setSeverity(payer, risk.Severe)
	w.payTo(t, alice, 500)
	var paid, held string
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT outpoint FROM utxos WHERE status = 'FREE'`).Scan(&paid); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT outpoint FROM utxos WHERE status = 'HELD'`).Scan(&held)
	})
	for i, id := range []string{"wd_1", "wd_2"} {
		w.execAsTableOwner(t,
			`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, customer_id, status, attempt_after, created_at)
			VALUES ($1, $2, 'PAYMENT', 'BITCOIN', 'adr_treasury', 'x', 1, '', 50, 'alice', 'SLOTTED', now(), now())`,
			id, w.org)
		w.unasked(t,
			`INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, org_id, order_id, gas_reserved, created_at)
			VALUES ('adr_treasury', 'BITCOIN', $1, $2, $3, $4, 0, now())`,
			i, fmt.Sprintf("%s:100:%s %s:500:%s %d", paid, alice, held, alice, i), w.org, id)
	}
	take := func(order string, outpoint string) error {
		return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return utxo.Reserve(ctx, tx, chain.Bitcoin, order, []chain.Output{{Outpoint: outpoint}})
		})
	}
	// Of two at the same time the second waits for the first and finds the output reserved.
	results := make(chan error, 2)
	for _, id := range []string{"wd_1", "wd_2"} {
		go func() { results <- take(id, paid) }()
	}
	first, second := <-results, <-results
	if (first == nil) == (second == nil) {
		t.Fatalf("two orders take one coin at once: got %v and %v, want one refusal", first, second)
	}
	if err := take("wd_1", held); err == nil {
		t.Error("a held coin was given to a payment")
	}
	for name, c := range map[string]struct{ sql, constraint string }{
		"a coin of more":           {`UPDATE utxos SET amount = amount + 1`, "utxos_fixed"},
		"a coin of another wallet": {`UPDATE utxos SET wallet_id = 'adr_treasury'`, "utxos_fixed"},
		"a reserved coin let go": {
			`UPDATE utxos SET status = 'FREE', order_id = NULL WHERE status = 'RESERVED'`,
			"utxos_moves",
		},
		"a reserved coin for another order": {
			`UPDATE utxos SET order_id = CASE order_id WHEN 'wd_1' THEN 'wd_2' ELSE 'wd_1' END WHERE status = 'RESERVED'`,
			"utxos_kept",
		},
		"a coin spent without proof": {
			`UPDATE utxos SET status = 'SPENT', spent_tx_hash = 'x' WHERE status = 'RESERVED'`,
			"utxos_spent_when_proven",
		},
		"a held coin freed": {
			`UPDATE utxos SET status = 'FREE' WHERE status = 'HELD'`,
			"utxos_free_when_counted",
		},
		"a held coin for a payment": {
			`UPDATE utxos SET status = 'RESERVED', order_id = 'wd_1' WHERE status = 'HELD'`,
			"utxos_reserved_by_slot",
		},
		"a held coin that is kept for a payment": {
			`UPDATE utxos SET status = 'SPENT', order_id = 'wd_1', spent_tx_hash = 'x' WHERE status = 'HELD'`,
			"utxos_moves",
		},
		"a coin of no movement": {
			`INSERT INTO utxos SELECT chain, 'made:0', org_id, wallet_id, mint_id, amount, 'HELD', deposit_id, NULL, NULL, NULL, proof_id, height, now() FROM utxos WHERE status = 'HELD'`,
			"utxos_as_deposited",
		},
		"change of an order that never sent it": {
			`INSERT INTO utxos SELECT chain, 'made:0', org_id, 'adr_change', mint_id, amount, 'HELD', NULL, 'wd_1', NULL, NULL, proof_id, height, now() FROM utxos WHERE status = 'HELD'`,
			"utxos_as_change",
		},
		"a coin that only a journal knows, for all": {
			`INSERT INTO utxos SELECT chain, 'made:0', org_id, wallet_id, mint_id, amount, 'RESERVED', NULL, NULL, 'wd_1', NULL, NULL, NULL, now() FROM utxos WHERE status = 'HELD'`,
			"utxos_reserved_by_slot",
		},
		"a coin on a chain that has none": {`UPDATE utxos SET chain = 'ETHEREUM'`, "utxos_fixed"},
		"the same coin again": {
			`INSERT INTO utxos SELECT chain, outpoint, org_id, wallet_id, mint_id, amount, 'HELD', deposit_id, NULL, NULL, NULL, proof_id, height, now() FROM utxos WHERE status = 'HELD'`,
			"utxos_pkey",
		},
	} {
		err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", name, err, c.constraint)
		}
	}
	if err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM utxos`)
		return err
	}); err == nil {
		t.Error("coins were deleted")
	}
}

// newSlotEnv returns an environment with three outputs of alice that can be selected, of 100, 200
// and 300, and orders that wait for a slot.
func newSlotEnv(t *testing.T, orders ...string) (*testEnv, []chain.Output) {
	t.Helper()
	w, _ := newUTXOEnv(t)
	for _, units := range []uint64{100, 200, 300} {
		w.payTo(t, alice, units)
	}
	var all []chain.Output
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT outpoint, amount FROM utxos ORDER BY amount`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c chain.Output, err error) {
			c.Owner = alice
			return c, row.Scan(&c.Outpoint, &c.Amount)
		})
		return err
	})
	for _, id := range orders {
		w.execAsTableOwner(t,
			`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, customer_id, status, attempt_after, created_at)
			VALUES ($1, $2, 'PAYMENT', 'BITCOIN', 'adr_treasury', 'x', 1, '', 50, 'alice', 'SLOTTED', now(), now())`,
			id, w.org)
	}
	return w, all
}

// insertSlot inserts a slot that names outputs, and reserves some of them.
func (w *testEnv) insertSlot(t *testing.T, nonce int, order string, names, reserved []chain.Output) error {
	t.Helper()
	return w.insertSlotWithChange(t, []chain.Address{change, change2, changeOld}[nonce], nonce, order, names, reserved)
}

func (w *testEnv) insertSlotWithChange(
	t *testing.T, back chain.Address, nonce int, order string, names, reserved []chain.Output,
) error {
	t.Helper()
	slotKey := ""
	for _, c := range names {
		slotKey += fmt.Sprintf("%s:%v:%s ", c.Outpoint, c.Amount, c.Owner)
	}
	return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO dispatch_accounts (wallet_id, chain, org_id, next_nonce) VALUES ('adr_treasury', 'BITCOIN', $1, $2)
			ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = excluded.next_nonce`,
			w.org, nonce+1); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx,
			`INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, org_id, order_id, gas_reserved, created_at)
			VALUES ('adr_treasury', 'BITCOIN', $1, $2, $3, $4, 0, $5)`,
			nonce, slotKey+string(back), w.org, order, tx.Now); err != nil {
			return err
		}
		if len(reserved) == 0 {
			return nil
		}
		return utxo.Reserve(ctx, tx, chain.Bitcoin, order, reserved)
	})
}

// Rule COIN-7.
func TestASlotHasTheOutputsThatItNames(t *testing.T) {
	t.Parallel()
	w, all := newSlotEnv(t, "wd_1", "wd_2")
	more, other, long := all[0], all[0], all[0]
	more.Amount, other.Owner, long.Outpoint = money.Units(101), checkout, "0"+all[0].Outpoint
	for name, c := range map[string]struct{ names, reserved []chain.Output }{
		"none at all":                      {},
		"none of those that it names":      {all[:1], nil},
		"one of two":                       {all[:2], all[:1]},
		"one with another amount":          {[]chain.Output{more}, all[:1]},
		"one that another address has":     {[]chain.Output{other}, all[:1]},
		"one whose name ends as another's": {[]chain.Output{long, all[1]}, all[:2]},
		"one twice":                        {[]chain.Output{all[0], all[0]}, all[:1]},
	} {
		if err := w.insertSlot(t, 0, "wd_1", c.names, c.reserved); !pg.ViolatesConstraint(err, "utxos_match_slot") {
			t.Errorf("%s: got %v, want utxos_match_slot", name, err)
		}
	}
	if err := w.insertSlot(t, 0, "wd_1", all[:2], all[:2]); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		back       chain.Address
		constraint string
	}{
		"the wallet of another slot's rest": {change, "dispatch_slots_change_once"},
		"a customer":                        {alice, "dispatch_slots_change"},
		"the treasury":                      {treasury, "dispatch_slots_change"},
		"a stranger":                        {payer, "dispatch_slots_change"},
	} {
		if err := w.insertSlotWithChange(
			t, c.back, 1, "wd_2", all[2:], all[2:],
		); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("a rest that comes back to %s: got %v, want %s", name, err, c.constraint)
		}
	}
	if err := w.insertSlot(t, 1, "wd_2", all[1:], all[2:]); !pg.ViolatesConstraint(err, "utxos_match_slot") {
		t.Errorf("a slot with a coin that another order has: got %v, want utxos_match_slot", err)
	}
	// An output that a break of finality removed still belongs to the order.
	change := func(sql string) error {
		return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
	}
	if err := change(`UPDATE utxos SET status = 'GONE' WHERE amount < 300`); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ sql, constraint string }{
		"a coin given to nobody": {
			`UPDATE utxos SET order_id = NULL WHERE amount = 100`,
			"utxos_in_slot",
		},
		"a coin given to another order": {
			`UPDATE utxos SET order_id = 'wd_2' WHERE amount = 100`,
			"utxos_in_slot",
		},
		"a coin that may be chosen again": {
			`UPDATE utxos SET status = 'FREE', order_id = NULL WHERE amount = 100`,
			"utxos_in_slot",
		},
		"a coin that is held": {
			`UPDATE utxos SET status = 'HELD' WHERE amount = 100`,
			"utxos_in_slot",
		},
		"a coin more than the slot names, as one of it": {
			`UPDATE utxos SET status = 'RESERVED', order_id = 'wd_1' WHERE amount = 300`,
			"utxos_reserved_by_slot",
		},
	} {
		if err := change(c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", name, err, c.constraint)
		}
	}
	if err := change(`UPDATE utxos SET status = 'RESERVED' WHERE amount < 300`); err != nil {
		t.Errorf("found again: %v", err)
	}
	w.wantOutputs(t, "RESERVED 100 at adr_alice", "RESERVED 200 at adr_alice", "FREE 300 at adr_alice")
}
