package utxo

import (
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// issueAddress issues a customer's address as a service does whose new addresses have a form.
func (n btcdEnv) issueAddress(customer string, f chain.Form) deposit.IssuedAddress {
	n.Helper()
	on := n.plan.Chain
	on.Addresses = f
	counter := &deposit.AddressService{DB: n.db, Chains: chain.Chains{on.Name: on}, Wallets: n.Wallets}
	given, err := counter.IssueForCustomer(n.ctx, n.org, btc, customer, "")
	n.mustSucceed(err)
	return given
}

// restoreBackup restarts the service with a backup and the signer's journal.
func (n btcdEnv) restoreBackup(backup pgtest.Database) {
	n.Helper()
	n.db = pgtest.Open(n.T, backup, n.readClock)
	n.plan.DB = n.db
	n.Harness = harness.New(n.plan)
	_, err := mirror.RestoreDatabase(
		n.ctx, n.db, n.plan.Signer, n.Wallets, n.NewRestorer(audit.Operator("op")), false,
	)
	n.mustSucceed(err)
}

// countForms counts the outputs of an order's slot by their form.
func (n btcdEnv) countForms(id string) (taproot, segwit int) {
	n.Helper()
	var slotKey string
	n.mustSucceed(pgtest.OwnerPool(n.T, n.db).QueryRow(
		n.ctx, `SELECT slot_key FROM dispatch_slots WHERE order_id = $1`, id,
	).Scan(&slotKey))
	coins, err := n.plan.Chain.UTXO.Inputs(slotKey)
	n.mustSucceed(err)
	for _, c := range coins {
		if bitcointx.IsTaproot(c.Owner) {
			taproot++
		} else {
			segwit++
		}
	}
	return taproot, segwit
}

// Rules DEP-44, COIN-1, COIN-2 and COIN-6, on a real chain with the real signer. A taproot deposit
// is credited, pays together with a SegWit output, survives a restore to a database without its
// address, and returns when it is flagged.
func TestTaprootAndSegWitOutputsPayTogether(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	backup := pgtest.CopyDatabase(t, pgtest.DatabaseOf(t, n.db))

	bob := n.issueAddress("bob", chain.Taproot)
	if !strings.HasPrefix(string(bob.Address), "bcrt1p") || bob.PaymentURI != "bitcoin:"+string(bob.Address) {
		t.Fatalf("got %s and %s, want an address of bech32m", bob.Address, bob.PaymentURI)
	}
	if again := n.issueAddress("bob", chain.Usual); again.Address != bob.Address {
		t.Errorf("bob asked again: got %s, want %s", again.Address, bob.Address)
	}
	if again := n.issueAddress("alice", chain.Taproot); again.Address != n.alice.Address {
		t.Errorf("alice, who has one: got %s, want %s", again.Address, n.alice.Address)
	}
	n.payWallet(n.treasury, 300_000)
	n.payWallet(n.alice, 3_000_000)
	n.payWallet(wallet.Wallet{Address: bob.Address}, 7_000_000)
	n.finalizeAll()
	n.wantOutputs("FREE 300000", "FREE 3000000", "FREE 7000000")
	n.checkBooks()

	to := newPayee(t)
	key := "bobs"
	asked, _, err := n.Harness.Withdrawals.Request(n.ctx, n.org, withdrawal.Request{
		MintID: btc, CustomerID: "bob", Amount: "7000000", ToAddress: string(to), IdempotencyKey: &key,
		Actor: audit.APIKey(n.org),
	})
	n.mustSucceed(err)
	id := asked.ID
	n.runAllSteps()
	n.wantStatus(id, "BROADCAST")
	if taproot, segwit := n.countForms(id); taproot != 1 || segwit == 0 {
		t.Fatalf("it spends %d taproot coins and %d others, want both", taproot, segwit)
	}

	n.restoreBackup(backup)
	var form string
	n.mustSucceed(pgtest.OwnerPool(t, n.db).QueryRow(
		n.ctx, `SELECT form FROM wallets WHERE address = $1`, string(bob.Address),
	).Scan(&form))
	if form != string(chain.Taproot) {
		t.Errorf("after the restore: got form %q, want %s", form, chain.Taproot)
	}
	if again := n.issueAddress("bob", chain.Usual); again.Address != bob.Address {
		t.Errorf("bob asked after the restore: got %s, want %s", again.Address, bob.Address)
	}
	n.finalizeAll()
	n.finalizeAll()
	n.wantStatus(id, "PAID")
	if got := n.finalBalance(to); got != money.Units(7_000_000) {
		t.Errorf("the payee has %v, want 7000000 once", got)
	}
	n.checkBooks()

	rows, err := pgtest.OwnerPool(t, n.db).Query(n.ctx, `SELECT DISTINCT from_address FROM deposits`)
	n.mustSucceed(err)
	var senders []string
	for rows.Next() {
		var s string
		n.mustSucceed(rows.Scan(&s))
		senders = append(senders, s)
	}
	if len(senders) != 1 {
		t.Fatalf("got senders %q, want the one who paid all", senders)
	}
	from := chain.Address(senders[0])
	n.severities[from] = risk.Severe
	n.payWallet(wallet.Wallet{Address: bob.Address}, 20_000)
	n.finalizeAll()
	flagged := n.onlyFlagged()
	_, err = n.Deposits.Reject(n.ctx, flagged, deposit.Actor{Actor: audit.Operator("op_1")}, "")
	n.mustSucceed(err)
	n.runAllSteps()
	back := n.returnOrder(flagged)
	n.wantStatus(back, "BROADCAST")
	if taproot, _ := n.countForms(back); taproot != 1 || !slices.Contains(n.spentAmounts(back), money.Units(20_000)) {
		t.Errorf("the return spends %v, want the deposit's own coin among them", n.spentAmounts(back))
	}
	n.finalizeAll()
	n.wantStatus(back, "PAID")
	if got := queryCount(
		n.testEnv, `SELECT count(*) FROM dispatch_orders WHERE order_id = $1 AND to_address = $2 AND amount = 20000`,
		back, string(from),
	); got != 1 {
		t.Error("the return does not bring what came to whoever sent it")
	}
	n.checkBooks()
}
