package dispatch

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Rule WD-15.
func TestAPaymentIsWeighedByTheBalancesOfItsBlock(t *testing.T) {
	t.Parallel()
	const token, other = "token", "other"
	from, to := chain.Holding{Address: "ours", Contract: token}, chain.Holding{Address: "theirs", Contract: token}
	move := func(contract, from, to chain.Address, units uint64) chain.Transfer {
		return chain.Transfer{Contract: contract, From: from, To: to, Amount: money.Units(units)}
	}
	pair := func(before, after uint64) [2]money.Amount {
		return [2]money.Amount{money.Units(before), money.Units(after)}
	}
	payment := []chain.Transfer{
		move(token, "ours", "theirs", 100), move(other, "ours", "theirs", 7), move(token, "x", "y", 9),
	}
	for _, c := range []struct {
		name         string
		block        []chain.Transfer
		ours, theirs [2]money.Amount
		sound        bool
	}{
		{"as it says", payment, pair(500, 400), pair(0, 100), true},
		{
			"beside others of the block",
			append(
				payment, move(token, "deposit", "ours", 30), move(token, "ours", "shop", 50),
				move(token, "theirs", "z", 60),
			),
			pair(500, 380), pair(10, 50), true,
		},
		{"the payee got more", payment, pair(500, 400), pair(0, 300), true},
		{"nothing moved", payment, pair(500, 500), pair(0, 0), false},
		{"a fee from the payee", payment, pair(500, 400), pair(0, 99), false},
		{"a fee from us", payment, pair(500, 399), pair(0, 100), false},
		{"all balances doubled", payment, pair(500, 800), pair(0, 200), false},
		{"all balances halved", payment, pair(500, 200), pair(0, 50), false},
		{
			"the event alone, beside another payment", append(payment, move(token, "ours", "theirs", 100)),
			pair(500, 400), pair(0, 100), false,
		},
	} {
		if why := compareBalances(c.block, from, to, c.ours, c.theirs); (why == "") != c.sound {
			t.Errorf("%s: got %q, want sound: %v", c.name, why, c.sound)
		}
	}
}
