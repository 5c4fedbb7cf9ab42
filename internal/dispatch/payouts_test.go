package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// fakePayouts is a payout contract that answers as it is told.
type fakePayouts struct {
	isDeployed bool
	allowed    money.Amount
	err        error
}

func (fakePayouts) Address() chain.Address { return "payouts" }

func (f fakePayouts) IsDeployed(context.Context) (bool, error) { return f.isDeployed, nil }

func (f fakePayouts) Allowance(context.Context, chain.Address, chain.Address) (money.Amount, error) {
	return f.allowed, f.err
}

// Rows of one batch in one token share a transaction, and no other payment does. Rule BP-22.
func TestOnlyRowsOfOneBatchInOneTokenShareASlot(t *testing.T) {
	t.Parallel()
	d := &Worker{chain: chain.Chain{PayoutContract: fakePayouts{}}}
	row := func(id, batchID string, mintID int) Order {
		return Order{ID: id, MintID: mintID, Batch: &signer.BatchRow{BatchID: batchID, Row: 1}}
	}
	first, customers := row("a", "bp_1", 1), Order{ID: "e", MintID: 1}
	for name, c := range map[string]struct {
		a, b Order
		want bool
	}{
		"two rows":              {first, row("b", "bp_1", 1), true},
		"another batch":         {first, row("c", "bp_2", 1), false},
		"another token":         {first, row("d", "bp_1", 2), false},
		"a customer's payment":  {first, customers, false},
		"a row behind it":       {customers, first, false},
		"two of customers":      {customers, Order{ID: "f", MintID: 1}, false},
		"the payment by itself": {customers, customers, true},
	} {
		if got := d.mayShare(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// fakePayees tells which payees let their payments share a transaction.
type fakePayees struct {
	refusing chain.Address
	err      error
}

func (f fakePayees) CanShare(_ context.Context, ps []chain.Payment) ([]bool, error) {
	canShare := make([]bool, len(ps))
	for i, p := range ps {
		canShare[i] = p.To != f.refusing
	}
	return canShare, f.err
}

// On Solana the treasury's payments to others share a transaction if they are rows of one batch in one coin. What comes
// to the treasury goes together as before. Rule BP-41.
func TestOnSolanaRowsShareASlotAndSweepsAsBefore(t *testing.T) {
	t.Parallel()
	d := &Worker{chain: chain.Chain{PayeeAccounts: fakePayees{}}}
	order := func(id string, purpose signer.Purpose, batchID string, mintID int) Order {
		o := Order{ID: id, Purpose: purpose, MintID: mintID}
		if batchID != "" {
			o.Batch = &signer.BatchRow{BatchID: batchID, Row: 1}
		}
		return o
	}
	row, customers := order("a", signer.Payment, "bp_1", 1), order("e", signer.Payment, "", 1)
	for name, c := range map[string]struct {
		a, b Order
		want bool
	}{
		"two rows":             {row, order("b", signer.Payment, "bp_1", 1), true},
		"another batch":        {row, order("c", signer.Payment, "bp_2", 1), false},
		"another coin":         {row, order("d", signer.Payment, "bp_1", 2), false},
		"a customer's payment": {row, customers, false},
		"a row behind it":      {customers, row, false},
		"two of customers":     {customers, order("f", signer.Payment, "", 1), false},
		"two returns":          {order("g", signer.Return, "", 1), order("h", signer.Return, "", 1), false},
		"two sweeps":           {order("i", signer.Sweep, "", 1), order("j", signer.Sweep, "", 2), true},
		"two closes": {
			order("k", signer.CloseTokenAccount, "", 1), order("l", signer.CloseTokenAccount, "", 1), true,
		},
	} {
		if got := d.mayShare(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A row whose payee cannot share is alone, wherever it is in the queue, and so is every row without an answer. The
// others are together. Rule BP-42.
func TestARowWhosePayeeCannotShareIsAlone(t *testing.T) {
	t.Parallel()
	var queue []Order
	for _, id := range []string{"a", "b", "c", "d"} {
		queue = append(queue, Order{
			ID: id, Purpose: signer.Payment, To: chain.Address("to " + id),
			Batch: &signer.BatchRow{BatchID: "bp_1", Row: 1},
		})
	}
	for name, c := range map[string]struct {
		payees fakePayees
		want   [][]string
	}{
		"the first":  {fakePayees{refusing: "to a"}, [][]string{{"a"}, {"b", "c", "d"}}},
		"one amid":   {fakePayees{refusing: "to b"}, [][]string{{"a", "c", "d"}, {"b"}}},
		"none":       {fakePayees{}, [][]string{{"a", "b", "c", "d"}}},
		"no answers": {fakePayees{err: errors.New("down")}, [][]string{{"a"}, {"b"}, {"c"}, {"d"}}},
	} {
		d := &Worker{
			chain: chain.Chain{Name: chain.Solana, PayeeAccounts: c.payees, Sender: anySize{}},
			log:   slog.New(slog.DiscardHandler),
		}
		lone := d.findLone(t.Context(), wallet.Wallet{}, queue)
		var got [][]string
		for left := queue; len(left) > 0; {
			var group []Order
			group, left = d.nextGroup(wallet.Wallet{}, left, lone)
			got = append(got, orderIDs(group))
		}
		if !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// anySize is a Sender whose transactions make any number of payments.
type anySize struct{ chain.Sender }

func (anySize) BatchSize(ps []chain.Payment) int { return len(ps) }

// The contract makes payments if it is there and may move these and all that are under way. Rule BP-22.
func TestTheAllowanceCoversWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := pgtest.Superuser(t, db)
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved) VALUES ('w', 1, 'o', 1000, 300)`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	group := []Order{
		{ID: "a", MintID: 1, Amount: money.Units(100)}, {ID: "b", MintID: 1, Amount: money.Units(50)},
	}
	for name, c := range map[string]struct {
		contract fakePayouts
		want     bool
	}{
		"all of it":          {fakePayouts{true, money.Units(450), nil}, true},
		"a unit too little":  {fakePayouts{true, money.Units(449), nil}, false},
		"these alone":        {fakePayouts{true, money.Units(150), nil}, false},
		"no contract":        {fakePayouts{false, money.Units(1000), nil}, false},
		"no answer about it": {fakePayouts{true, money.Units(1000), errors.New("down")}, false},
	} {
		d := &Worker{db: db, chain: chain.Chain{PayoutContract: c.contract}, log: slog.New(slog.DiscardHandler)}
		if got := d.canPayOut(t.Context(), wallet.Wallet{ID: "w"}, group); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// The chain reverts what comes after the revocation of an allowance, so no payment uses one from the decision on. An
// ended revocation stops none: the allowance that the chain has counts. Rule BP-56.
func TestNoAllowanceIsUsedWhileItIsRevoked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := pgtest.Superuser(t, db)
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited) VALUES ('w', 1, 'o', 1000)`,
		`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract,
			amount, status, attempt_after, created_at, trigger)
		VALUES ('rv_1', 'o', 'REVOCATION', 'ETHEREUM', 'w', 'payouts', 1, 'token',
			0, 'QUEUED', now(), now(), 'DEMAND')`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	group := []Order{{ID: "a", MintID: 1, Amount: money.Units(1)}, {ID: "b", MintID: 1, Amount: money.Units(1)}}
	d := &Worker{
		db: db, log: slog.New(slog.DiscardHandler),
		chain: chain.Chain{Name: chain.Ethereum, PayoutContract: fakePayouts{true, money.Units(1000), nil}},
	}
	if d.canPayOut(t.Context(), wallet.Wallet{ID: "w"}, group) {
		t.Error("payments use an allowance that is being revoked")
	}
	if !d.canPayOut(t.Context(), wallet.Wallet{ID: "other"}, group) {
		t.Error("the revocation of one wallet stops another one")
	}
	_, err := owner.Exec(t.Context(),
		`UPDATE dispatch_orders SET status = 'REFUSED', ended_at = now(), last_error = 'x'`)
	if err != nil {
		t.Fatal(err)
	}
	if !d.canPayOut(t.Context(), wallet.Wallet{ID: "w"}, group) {
		t.Error("a revocation that was refused stops payments")
	}
}
