package leases

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// An account of a token takes 2,039,280 lamports, which are 407,856 units of a dollar coin at
// 200 dollars for one SOL.
const rentInUSDC = "407856"

// charging is a world whose treasury has coin and whose customer has ten dollars, of an
// organization that charges its customers for accounts.
func charging(t *testing.T) *world {
	t.Helper()
	w := open(t, 2)
	w.work()
	var err error
	w.treasury, err = w.Book.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.must(err)
	_, err = w.node.Pay(w.ctx, w.treasury.Address, surfpool.LamportsPerSOL)
	w.must(err)
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 10_000_000)
	w.must(err)
	for range 4 {
		w.settle()
	}
	w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("op"), w.org, org.Changes{"chargeCustomerCosts": json.RawMessage(`"RENT_AND_FAILURES"`)})
		return err
	}))
	return w
}

const charged = `SELECT concat_ws(' ', status, charge_rent, charge_held, charge_cost, charged) FROM withdrawals WHERE withdrawal_id = $1`

func (w *world) balance(kind, subject, want string) {
	w.Helper()
	w.want(kind+" "+subject, want, `SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = $1 AND a.subject = $2 AND a.mint_id = $3`, kind, subject, usdc)
}

// askFor is ask for an address that is known.
func (w *world) askFor(to chain.Address, units int64) string {
	w.Helper()
	w.asked++
	key := fmt.Sprint("withdrawal-", w.asked)
	got, _, err := w.Pay.Request(w.ctx, w.org, withdrawal.Request{
		MintID: usdc, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key, Actor: audit.APIKey(w.org),
	})
	w.must(err)
	return got.WithdrawalID
}

// closes has a payee burn the unit in their token account, and close it for its rent.
func (w *world) closes(k ed25519.PrivateKey) {
	w.Helper()
	of := surfpool.AddressOf(k)
	m := surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}
	_, err := w.node.Do(w.ctx, surfpool.Transaction{Keys: []ed25519.PrivateKey{k}, Instructions: []surfpool.Instruction{
		m.Burn(m.Account(of), of, 1), m.Close(m.Account(of), of, of),
	}})
	w.must(err)
}

// Rule WD-54. A customer that opens accounts for new wallets and keeps their rent pays for it.
func TestTheRentOfATokenAccountIsItsCustomers(t *testing.T) {
	t.Parallel()
	w := charging(t)
	first, to := w.ask(usdc, 10_000)
	w.want("held", "417856", `SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'WITHDRAWING' AND a.mint_id = $1`, usdc)
	// Requested together: the first of them makes the account, and the other did not cost it.
	second := w.askFor(to, 10_000)
	for range 3 {
		w.settle()
	}
	paid, not := fmt.Sprintf("COMPLETED 2039280 %s 2039280 %s", rentInUSDC, rentInUSDC), fmt.Sprintf("COMPLETED 2039280 %s 0 0", rentInUSDC)
	a, b := w.text(charged, first), w.text(charged, second)
	if !(a == paid && b == not || a == not && b == paid) {
		t.Errorf("got %q and %q, want one that is charged %s", a, b, rentInUSDC)
	}
	if got := w.holds(to, usdc); got != 20_000 {
		t.Errorf("the payee has %d, want 20000", got)
	}
	// It has an account: there is nothing to hold.
	third := w.askFor(to, 10_000)
	for range 2 {
		w.settle()
	}
	w.want("an account that is there", "COMPLETED 0 0 0 0", charged, third)
	w.balance("CUSTOMER", "ann", "9562144")
	w.balance("WITHDRAWING", "ann", "0")
	w.balance("PRODUCT", "CUSTODIAL", rentInUSDC)
	w.sound()
}

// Rule WD-54. The payee has an account when the withdrawal is requested, and closes it.
func TestAnAccountThatIsClosedAfterTheRequestIsNotMadeUnasked(t *testing.T) {
	t.Parallel()
	w := charging(t)
	k, err := surfpool.NewKey()
	w.must(err)
	to := surfpool.AddressOf(k)
	_, err = w.node.Pay(w.ctx, to, surfpool.LamportsPerSOL)
	w.must(err)
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, to, 1)
	w.must(err)
	w.mine(2)
	id := w.askFor(to, 10_000)
	w.want("its account is there", "PROCESSING 0 0 0 0", charged, id)
	w.closes(k)
	w.settle()
	w.want("back with people", "AWAITING_APPROVAL {POLICY_LIMIT}", `SELECT concat_ws(' ', status, approval_reasons) FROM withdrawals WHERE withdrawal_id = $1`, id)

	_, err = w.Pay.Approve(w.ctx, w.org, id, audit.Operator("op"))
	w.must(err)
	for range 2 {
		w.settle()
	}
	w.want("approved, and the organization's", "COMPLETED 0 0 0 0", charged, id)
	w.want("what it cost", "2039280", `SELECT rent FROM dispatch_orders WHERE order_id = $1`, id)
	w.balance("CUSTOMER", "ann", "9990000")
	w.sound()
}

// Rule WD-54. It dies at one call after the other between the block and the books, and
// starts again.
func TestAChargeIsPostedOnceWhereverTheServiceDies(t *testing.T) {
	t.Parallel()
	w := charging(t)
	id, to := w.ask(usdc, 10_000)
	for call := 1; call <= 6; call++ {
		w.fate.at = len(w.fate.calls) + call
		w.pass(5 * time.Second)
		if err := w.turn(); err != nil && !w.fate.dead {
			t.Fatal(err)
		}
		w.start()
		w.mine(surfpool.Finality + 1)
	}
	for range 3 {
		w.settle()
	}
	w.want("charged", fmt.Sprintf("COMPLETED 2039280 %s 2039280 %s", rentInUSDC, rentInUSDC), charged, id)
	w.want("postings", "3", `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1 AND cause_kind LIKE 'WITHDRAWAL%'`, id)
	if got := w.holds(to, usdc); got != 10_000 {
		t.Errorf("the payee has %d, want 10000", got)
	}
	w.balance("PRODUCT", "CUSTODIAL", rentInUSDC)
	w.sound()
}
