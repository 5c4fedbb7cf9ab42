package payout

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// sharedCost is what rows cost in transactions of a chain, in gas, virtual bytes or transactions. make bench measures
// it.
type sharedCost struct {
	alone    uint64 // a row in a transaction of its own
	increase uint64 // each further row of a transaction
	rows     int    // the most rows of a transaction
}

// The costs of rows that share transactions. On EVM chains they are those of a plain token paid to new payees, which
// saves the least. On Solana a transaction of several rows costs as much as one of a single row.
var (
	tokenCosts       = sharedCost{alone: 51_460, increase: 26_713, rows: 24}
	outputCosts      = sharedCost{alone: 209, increase: 32, rows: 100}
	solCosts         = sharedCost{alone: 1, rows: 19}
	solanaTokenCosts = sharedCost{alone: 1, rows: 17}
)

// deployedTimeout limits the time in which providers say whether a chain has the payout contract.
const deployedTimeout = 2 * time.Second

// SharedFee returns what the network takes for rows of one coin that share transactions, if it takes alone for a row
// in a transaction of its own. canShare is false for a single row, and where no rows of the coin can share one now:
// on an EVM chain unless a quorum of its providers says in time that the payout contract stands there. Whether a row
// has to be alone because of its payee or its amount is not asked. Rule BP-91.
func (s *Service) SharedFee(
	ctx context.Context, m mint.Mint, alone money.Amount, rows int,
) (fee money.Amount, canShare bool) {
	if rows < 2 {
		return money.Zero, false
	}
	ch := s.Chains[m.Chain]
	switch {
	case ch.UTXO != nil:
		return outputCosts.fee(alone, rows)
	case ch.PayoutContract != nil && m.Contract != "":
		ctx, cancel := context.WithTimeout(ctx, deployedTimeout)
		defer cancel()
		if isDeployed, err := ch.PayoutContract.IsDeployed(ctx); err != nil || !isDeployed {
			return money.Zero, false
		}
		return tokenCosts.fee(alone, rows)
	case ch.PayeeAccounts != nil && m.Contract == "":
		return solCosts.fee(alone, rows)
	case ch.PayeeAccounts != nil:
		return solanaTokenCosts.fee(alone, rows)
	}
	return money.Zero, false
}

// fee returns the fee of rows, rounded up: it is a multiple of the thousandth part of alone, because more digits would
// say more than is known. isKnown is false if no amount is as large.
func (c sharedCost) fee(alone money.Amount, rows int) (fee money.Amount, isKnown bool) {
	const parts = 1000
	transactions := (rows + c.rows - 1) / c.rows
	units := uint64(transactions)*c.alone + uint64(rows-transactions)*c.increase
	scaled, err := alone.Mul((units*parts + c.alone - 1) / c.alone)
	if err != nil {
		return money.Zero, false
	}
	fee, rest := scaled.Split(parts)
	if !rest.IsZero() {
		if fee, err = fee.Add(money.Units(1)); err != nil {
			return money.Zero, false
		}
	}
	return fee, true
}
