package nonceaccounts

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// A token account takes 2,039,280 lamports, which are 407,856 units of a dollar coin at 200 dollars
// for one SOL.
const rentInUSDC = "407856"

// newChargingEnv creates a world whose treasury has coin and whose customer has ten dollars, in an
// organization that charges its customers for accounts.
func newChargingEnv(t *testing.T) *testEnv {
	t.Helper()
	w := newTestEnv(t, 2)
	w.mustRunAll()
	var err error
	w.treasury, err = w.Wallets.Treasury(w.ctx, w.org, chain.SolanaFamily)
	w.mustSucceed(err)
	_, err = w.node.PayLamports(w.ctx, w.treasury.Address, surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 10_000_000)
	w.mustSucceed(err)
	for range 4 {
		w.settleAll()
	}
	w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(
			ctx, tx, audit.Operator("op"), w.org,
			org.Changes{"chargeCustomerCosts": json.RawMessage(`"RENT_AND_FAILURES"`)},
		)
		return err
	}))
	return w
}

const charged = `SELECT concat_ws(' ', status, charge_rent, charge_held, charge_cost, charged) FROM withdrawals WHERE withdrawal_id = $1`

func (w *testEnv) wantBalance(kind, subject, want string) {
	w.Helper()
	w.wantText(
		kind+" "+subject, want,
		`SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = $1 AND a.subject = $2 AND a.mint_id = $3`,
		kind, subject, usdc,
	)
}

// askFor is requestWithdrawal to a given address.
func (w *testEnv) askFor(to chain.Address, units int64) string {
	w.Helper()
	w.asked++
	key := fmt.Sprint("withdrawal-", w.asked)
	got, _, err := w.Withdrawals.Request(w.ctx, w.org, withdrawal.Request{
		MintID: usdc, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key,
		Actor: audit.APIKey(w.org),
	})
	w.mustSucceed(err)
	return got.ID
}

// closeTokenAccount lets a payee burn the unit in their token account, and close it for its rent.
func (w *testEnv) closeTokenAccount(k ed25519.PrivateKey) {
	w.Helper()
	of := surfpool.AddressOf(k)
	m := surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}
	_, err := w.node.SendAndCheck(w.ctx, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{k},
		Instructions: []surfpool.Instruction{
			m.BurnTokens(m.AssociatedAccount(of), of, 1), m.CloseAccount(m.AssociatedAccount(of), of, of),
		},
	})
	w.mustSucceed(err)
}

// Rule WD-54. A customer that opens accounts for new wallets and keeps their rent pays for it.
func TestTheRentOfATokenAccountIsItsCustomers(t *testing.T) {
	t.Parallel()
	w := newChargingEnv(t)
	first, to := w.requestWithdrawal(usdc, 10_000)
	w.wantText(
		"held", "417856",
		`SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'WITHDRAWING' AND a.mint_id = $1`,
		usdc,
	)
	// Two withdrawals are requested together: the first creates the account, and the other causes
	// no rent.
	second := w.askFor(to, 10_000)
	for range 3 {
		w.settleAll()
	}
	paid, not := fmt.Sprintf("COMPLETED 2039280 %s 2039280 %s", rentInUSDC, rentInUSDC),
		fmt.Sprintf("COMPLETED 2039280 %s 0 0", rentInUSDC)
	a, b := w.queryText(charged, first), w.queryText(charged, second)
	if !(a == paid && b == not || a == not && b == paid) {
		t.Errorf("got %q and %q, want one that is charged %s", a, b, rentInUSDC)
	}
	if got := w.chainBalance(to, usdc); got != 20_000 {
		t.Errorf("the payee has %d, want 20000", got)
	}
	// The payee has an account, so no rent is held.
	third := w.askFor(to, 10_000)
	for range 2 {
		w.settleAll()
	}
	w.wantText("an account that is there", "COMPLETED 0 0 0 0", charged, third)
	w.wantBalance("CUSTOMER", "ann", "9562144")
	w.wantBalance("WITHDRAWING", "ann", "0")
	w.wantBalance("PRODUCT", "CUSTODIAL", rentInUSDC)
	w.checkBooks()
}

// Rule WD-54. The payee has an account when the withdrawal is requested, and closes it.
func TestAnAccountThatIsClosedAfterTheRequestIsNotMadeUnasked(t *testing.T) {
	t.Parallel()
	w := newChargingEnv(t)
	k, err := surfpool.NewKey()
	w.mustSucceed(err)
	to := surfpool.AddressOf(k)
	_, err = w.node.PayLamports(w.ctx, to, surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, to, 1)
	w.mustSucceed(err)
	w.mineBlocks(2)
	id := w.askFor(to, 10_000)
	w.wantText("its account is there", "PROCESSING 0 0 0 0", charged, id)
	w.closeTokenAccount(k)
	w.settleAll()
	w.wantText(
		"back with people", "AWAITING_APPROVAL {POLICY_LIMIT}",
		`SELECT concat_ws(' ', status, approval_reasons) FROM withdrawals WHERE withdrawal_id = $1`, id,
	)

	_, err = w.Withdrawals.Approve(w.ctx, w.org, id, audit.Operator("op"))
	w.mustSucceed(err)
	for range 2 {
		w.settleAll()
	}
	w.wantText("approved, and the organization's", "COMPLETED 0 0 0 0", charged, id)
	w.wantText("what it cost", "2039280", `SELECT rent FROM dispatch_orders WHERE order_id = $1`, id)
	w.wantBalance("CUSTOMER", "ann", "9990000")
	w.checkBooks()
}

// Rule WD-54. The service dies at one call after the other between the block and the books, and
// starts again.
func TestAChargeIsPostedOnceWhereverTheServiceDies(t *testing.T) {
	t.Parallel()
	w := newChargingEnv(t)
	id, to := w.requestWithdrawal(usdc, 10_000)
	for call := 1; call <= 6; call++ {
		w.crashPlan.at = len(w.crashPlan.calls) + call
		w.advanceClock(5 * time.Second)
		if err := w.runAllSteps(); err != nil && !w.crashPlan.dead {
			t.Fatal(err)
		}
		w.startParts()
		w.mineBlocks(surfpool.Finality + 1)
	}
	for range 3 {
		w.settleAll()
	}
	w.wantText("charged", fmt.Sprintf("COMPLETED 2039280 %s 2039280 %s", rentInUSDC, rentInUSDC), charged, id)
	w.wantText(
		"postings", "3", `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1 AND cause_kind LIKE 'WITHDRAWAL%'`,
		id,
	)
	if got := w.chainBalance(to, usdc); got != 10_000 {
		t.Errorf("the payee has %d, want 10000", got)
	}
	w.wantBalance("PRODUCT", "CUSTODIAL", rentInUSDC)
	w.checkBooks()
}
