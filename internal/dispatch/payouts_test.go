package dispatch

import (
	"context"
	"errors"
	"log/slog"
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
