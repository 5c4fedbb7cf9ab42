// Package report combines the data of several features for the surfaces that show it: balances,
// reserves, needs of treasuries and states of mints.
//
// The package writes nothing and decides nothing. It reads everything in the caller's transaction,
// so that what is shown together was true at the same time. A crash leaves no trace.
package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// Balance is a customer's balance of one mint, in its atomic units.
type Balance struct {
	Mint            mint.Mint
	Available       money.Amount // may be spent
	PendingWithdraw money.Amount // held for withdrawals that have not ended
	InSwap          money.Amount // held for swaps that have not ended, or not restored yet
	PendingDeposit  money.Amount // seen and not credited yet; it may still disappear
	Held            money.Amount // flagged, and not resolved or not returned yet; part of no total
	Total           money.Amount // Available, PendingWithdraw and InSwap
}

// LoadBalances returns a customer's balances by mint. It has a row for each mint that the customer
// has used. Rule CUS-3.
func LoadBalances(ctx context.Context, tx pg.Tx, org, customerID string) ([]Balance, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows := map[int]*Balance{}
	ensureRow := func(mintID int) (*Balance, error) {
		if b, ok := rows[mintID]; ok {
			return b, nil
		}
		m, ok := mints.ByID(mintID)
		if !ok {
			return nil, fmt.Errorf("the books name mint %d, which is not in the catalogue", mintID)
		}
		rows[mintID] = &Balance{Mint: m}
		return rows[mintID], nil
	}

	held, err := ledger.CustomerBalances(ctx, tx, org, customerID)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		b, err := ensureRow(h.MintID)
		if err != nil {
			return nil, err
		}
		switch h.Kind {
		case ledger.Customer:
			b.Available = h.Balance
		case ledger.Withdrawing:
			b.PendingWithdraw = h.Balance
		case ledger.InSwap:
			b.InSwap = h.Balance
		}
	}
	pending, err := deposit.UncreditedByMint(ctx, tx, org, customerID)
	if err != nil {
		return nil, err
	}
	for mintID, amounts := range pending {
		b, err := ensureRow(mintID)
		if err != nil {
			return nil, err
		}
		b.PendingDeposit, b.Held = amounts.Pending, amounts.Flagged
	}

	balances := make([]Balance, 0, len(rows))
	for _, b := range rows {
		if b.Total, err = sumAmounts(b.Available, b.PendingWithdraw, b.InSwap); err != nil {
			return nil, fmt.Errorf("total of mint %d: %w", b.Mint.ID, err)
		}
		balances = append(balances, *b)
	}
	slices.SortFunc(balances, func(a, b Balance) int { return cmp.Compare(a.Mint.ID, b.Mint.ID) })
	return balances, nil
}

// ProductBalance is an organization's balance of one mint in one product, in its atomic units.
type ProductBalance struct {
	Product   string
	Mint      mint.Mint
	Available money.Amount // free to be moved
	Pending   money.Amount // held for the organization's own withdrawals and swaps that have not ended
	Total     money.Amount // Available and Pending
	// PendingDeposit is seen at the product's addresses and not credited yet. It may still
	// disappear, and Available does not include it.
	PendingDeposit money.Amount
	// Owed is set for CUSTODIAL: what customers have, available, being withdrawn or in swaps. It is theirs,
	// and Available does not include it.
	Owed money.Amount
}

// custodial is the product whose rows also show what customers own.
const custodial = "CUSTODIAL"

// LoadProductBalances returns an organization's own balances by mint and product. It has a row for
// each used pair, and a row of CUSTODIAL for each mint of which customers own an amount. Rule BAL-1.
func LoadProductBalances(ctx context.Context, tx pg.Tx, org string) ([]ProductBalance, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	totals, err := ledger.LoadTotals(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	type balanceKey struct {
		mint    int
		product string
	}
	rows := map[balanceKey]*ProductBalance{}
	ensureRow := func(key balanceKey) error {
		if rows[key] != nil {
			return nil
		}
		m, ok := mints.ByID(key.mint)
		if !ok {
			return fmt.Errorf("the books name mint %d, which is not in the catalogue", key.mint)
		}
		rows[key] = &ProductBalance{Product: key.product, Mint: m}
		return nil
	}
	for _, t := range totals {
		key := balanceKey{t.MintID, custodial}
		switch t.Kind {
		case ledger.Product, ledger.ProductWithdrawing, ledger.ProductInSwap, ledger.RefundOwed, ledger.BatchHeld:
			key.product = t.Subject
		case ledger.Customer, ledger.Withdrawing, ledger.InSwap:
		default:
			continue
		}
		if err := ensureRow(key); err != nil {
			return nil, err
		}
		switch t.Kind {
		case ledger.Product:
			rows[key].Available = t.Balance
		case ledger.ProductWithdrawing, ledger.ProductInSwap, ledger.RefundOwed, ledger.BatchHeld:
			if rows[key].Pending, err = rows[key].Pending.Add(t.Balance); err != nil {
				return nil, fmt.Errorf("what %s holds of mint %d: %w", t.Subject, t.MintID, err)
			}
		default:
			if rows[key].Owed, err = rows[key].Owed.Add(t.Balance); err != nil {
				return nil, fmt.Errorf("what customers have of mint %d: %w", t.MintID, err)
			}
		}
	}
	pending, err := deposit.PendingByProduct(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		key := balanceKey{p.MintID, p.Product}
		if err := ensureRow(key); err != nil {
			return nil, err
		}
		rows[key].PendingDeposit = p.Amount
	}
	balances := make([]ProductBalance, 0, len(rows))
	for _, b := range rows {
		if b.Total, err = b.Available.Add(b.Pending); err != nil {
			return nil, fmt.Errorf("total of %s in mint %d: %w", b.Product, b.Mint.ID, err)
		}
		balances = append(balances, *b)
	}
	slices.SortFunc(balances, func(a, b ProductBalance) int {
		return cmp.Or(cmp.Compare(a.Mint.ID, b.Mint.ID), cmp.Compare(a.Product, b.Product))
	})
	return balances, nil
}

// LoadProductBalance returns an organization's own balance of one mint in one product. A pair that was
// never used has a balance of zero. Error: fault NOT_FOUND for an unknown product or mint.
func LoadProductBalance(ctx context.Context, tx pg.Tx, org, product string, mintID int) (ProductBalance, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return ProductBalance{}, err
	}
	m, isKnown := mints.ByID(mintID)
	if !isKnown || !slices.Contains(ledger.Products, product) {
		return ProductBalance{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly,
			"There is no such balance.").WithStep(fault.LookAtBalances)
	}
	balances, err := LoadProductBalances(ctx, tx, org)
	if err != nil {
		return ProductBalance{}, err
	}
	for _, b := range balances {
		if b.Product == product && b.Mint.ID == mintID {
			return b, nil
		}
	}
	return ProductBalance{Product: product, Mint: m}, nil
}

// USDValue returns the value of an amount for display, or nil if no source has a price.
func USDValue(ctx context.Context, prices price.Source, m mint.Mint, a money.Amount) *money.USD {
	if prices == nil {
		return nil
	}
	q, err := prices.USD(ctx, m.ID)
	if err != nil {
		return nil
	}
	v, err := money.ValueOf(a, m.Decimals, q.Price)
	if err != nil {
		return nil
	}
	return &v
}
