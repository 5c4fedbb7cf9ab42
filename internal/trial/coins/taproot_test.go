package coins

import (
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// issue gives a customer's address as the service does where new ones have a form.
func (n node) issue(customer string, f chain.Form) deposit.Given {
	n.Helper()
	on := n.plan.Chain
	on.Addresses = f
	counter := &deposit.Counter{DB: n.db, Chains: chain.Chains{on.Name: on}, Wallets: n.Book}
	given, err := counter.Address(n.ctx, n.org, btc, customer, "")
	n.must(err)
	return given
}

// restored has the service go on with a backup and the signer's journal.
func (n node) restored(backup pgtest.Database) {
	n.Helper()
	n.db = pgtest.Open(n.T, backup, n.clock)
	n.plan.DB = n.db
	n.Works = works.Wire(n.plan)
	_, err := mirror.Restore(n.ctx, n.db, n.plan.Signer, n.Book, app.Restorer(n.Works.Pay, audit.Operator("op")), false)
	n.must(err)
}

// forms are the forms of the coins of an order's slot.
func (n node) forms(id string) (taproot, segwit int) {
	n.Helper()
	var lease string
	n.must(pgtest.Owner(n.T, n.db).QueryRow(n.ctx, `SELECT lease FROM dispatch_slots WHERE order_id = $1`, id).Scan(&lease))
	coins, err := n.plan.Chain.Pool.Spends(lease)
	n.must(err)
	for _, c := range coins {
		if bitcointx.IsTaproot(c.Holder) {
			taproot++
		} else {
			segwit++
		}
	}
	return taproot, segwit
}

// Rules DEP-44, COIN-1, COIN-2 and COIN-6, on a real chain with the real signer: a taproot
// deposit is credited, pays beside a SegWit one, outlives a database that never knew its
// address, and goes back when it is flagged.
func TestTaprootAndSegWitCoinsPayTogether(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	backup := pgtest.Copy(t, pgtest.Of(t, n.db))

	bob := n.issue("bob", chain.Taproot)
	if !strings.HasPrefix(string(bob.Address), "bcrt1p") || bob.PaymentURI != "bitcoin:"+string(bob.Address) {
		t.Fatalf("got %s and %s, want an address of bech32m", bob.Address, bob.PaymentURI)
	}
	if again := n.issue("bob", chain.Usual); again.Address != bob.Address {
		t.Errorf("bob asked again: got %s, want %s", again.Address, bob.Address)
	}
	if again := n.issue("alice", chain.Taproot); again.Address != n.alice.Address {
		t.Errorf("alice, who has one: got %s, want %s", again.Address, n.alice.Address)
	}
	n.pay(n.treasury, 300_000)
	n.pay(n.alice, 3_000_000)
	n.pay(wallet.Wallet{Address: bob.Address}, 7_000_000)
	n.final()
	n.coins("FREE 300000", "FREE 3000000", "FREE 7000000")
	n.sound()

	to := payee(t)
	key := "bobs"
	asked, _, err := n.Works.Pay.Request(n.ctx, n.org, withdrawal.Request{
		MintID: btc, CustomerID: "bob", Amount: "7000000", ToAddress: string(to), IdempotencyKey: &key, Actor: audit.APIKey(n.org),
	})
	n.must(err)
	id := asked.WithdrawalID
	n.step()
	n.want(id, "BROADCAST")
	if taproot, segwit := n.forms(id); taproot != 1 || segwit == 0 {
		t.Fatalf("it spends %d taproot coins and %d others, want both", taproot, segwit)
	}

	n.restored(backup)
	var form string
	n.must(pgtest.Owner(t, n.db).QueryRow(n.ctx, `SELECT form FROM wallets WHERE address = $1`, string(bob.Address)).Scan(&form))
	if form != string(chain.Taproot) {
		t.Errorf("after the restore: got form %q, want %s", form, chain.Taproot)
	}
	if again := n.issue("bob", chain.Usual); again.Address != bob.Address {
		t.Errorf("bob asked after the restore: got %s, want %s", again.Address, bob.Address)
	}
	n.final()
	n.final()
	n.want(id, "PAID")
	if got := n.has(to); got != money.Units(7_000_000) {
		t.Errorf("the payee has %v, want 7000000 once", got)
	}
	n.sound()

	rows, err := pgtest.Owner(t, n.db).Query(n.ctx, `SELECT DISTINCT from_address FROM deposits`)
	n.must(err)
	var senders []string
	for rows.Next() {
		var s string
		n.must(rows.Scan(&s))
		senders = append(senders, s)
	}
	if len(senders) != 1 {
		t.Fatalf("got senders %q, want the one who paid all", senders)
	}
	from := chain.Address(senders[0])
	n.says[from] = risk.Severe
	n.pay(wallet.Wallet{Address: bob.Address}, 20_000)
	n.final()
	flagged := n.flagged()
	_, err = n.Flags.Reject(n.ctx, flagged, deposit.Decider{Actor: audit.Operator("op_1")}, "")
	n.must(err)
	n.step()
	back := n.returning(flagged)
	n.want(back, "BROADCAST")
	if taproot, _ := n.forms(back); taproot != 1 || !slices.Contains(n.spends(back), money.Units(20_000)) {
		t.Errorf("the return spends %v, want the deposit's own coin among them", n.spends(back))
	}
	n.final()
	n.want(back, "PAID")
	if got := count(n.house, `SELECT count(*) FROM dispatch_orders WHERE order_id = $1 AND to_address = $2 AND amount = 20000`, back, string(from)); got != 1 {
		t.Error("the return does not bring what came to whoever sent it")
	}
	n.sound()
}
