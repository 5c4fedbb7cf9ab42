// Package report puts together what several features know, for surfaces to
// show: balances now, statements and reserves later.
//
// What never happens here: a write, a decision. Everything is read in the
// caller's transaction, so that what is shown together was true together. A
// crash leaves nothing.
package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// Balance is what a customer has of one mint, in its atomic units.
type Balance struct {
	Mint            mint.Mint
	Available       money.Amount // may be spent
	PendingWithdraw money.Amount // held for withdrawals that have not ended
	PendingDeposit  money.Amount // seen and not credited yet; nothing of it is certain
	Held            money.Amount // flagged, and not resolved or not gone yet; in no total
	Total           money.Amount // Available and PendingWithdraw
}

// Balances are a customer's balances, by mint: a row for each mint that
// anything of the customer's has touched.
func Balances(ctx context.Context, tx pg.Tx, org, customerID string) ([]Balance, error) {
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows := map[int]*Balance{}
	row := func(mintID int) (*Balance, error) {
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

	held, err := ledger.Balances(ctx, tx, org, customerID)
	if err != nil {
		return nil, err
	}
	for _, h := range held {
		b, err := row(h.MintID)
		if err != nil {
			return nil, err
		}
		switch h.Kind {
		case ledger.Customer:
			b.Available = h.Balance
		case ledger.Withdrawing:
			b.PendingWithdraw = h.Balance
		}
	}
	pending, err := deposit.Pending(ctx, tx, org, customerID)
	if err != nil {
		return nil, err
	}
	for mintID, of := range pending {
		b, err := row(mintID)
		if err != nil {
			return nil, err
		}
		b.PendingDeposit, b.Held = of.Pending, of.Flagged
	}

	all := make([]Balance, 0, len(rows))
	for _, b := range rows {
		if b.Total, err = b.Available.Add(b.PendingWithdraw); err != nil {
			return nil, fmt.Errorf("total of mint %d: %w", b.Mint.ID, err)
		}
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Balance) int { return cmp.Compare(a.Mint.ID, b.Mint.ID) })
	return all, nil
}

// ProductBalance is what an organization has of one mint in one product, in its
// atomic units.
type ProductBalance struct {
	Product   string
	Mint      mint.Mint
	Available money.Amount // may be moved
	Pending   money.Amount // held for withdrawals of the organization's own that have not ended
	Total     money.Amount // both
	// PendingDeposit is seen on its addresses and not credited yet; nothing of it is
	// certain, and it is no part of Available.
	PendingDeposit money.Amount
	Owed           money.Amount // CUSTODIAL: what customers have, available or being withdrawn; it is theirs, and no part of Available
}

// custodial is the product beside which the customers' money is shown.
const custodial = "CUSTODIAL"

// Products are an organization's own balances, by mint and product: a row for
// each that anything has touched, and one of CUSTODIAL for each mint that is owed
// to customers.
func Products(ctx context.Context, tx pg.Tx, org string) ([]ProductBalance, error) {
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	totals, err := ledger.Totals(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	type place struct {
		mint    int
		product string
	}
	rows := map[place]*ProductBalance{}
	open := func(at place) error {
		if rows[at] != nil {
			return nil
		}
		m, ok := mints.ByID(at.mint)
		if !ok {
			return fmt.Errorf("the books name mint %d, which is not in the catalogue", at.mint)
		}
		rows[at] = &ProductBalance{Product: at.product, Mint: m}
		return nil
	}
	for _, t := range totals {
		at := place{t.MintID, custodial}
		switch t.Kind {
		case ledger.Product, ledger.ProductWithdrawing:
			at.product = t.Subject
		case ledger.Customer, ledger.Withdrawing:
		default:
			continue
		}
		if err := open(at); err != nil {
			return nil, err
		}
		switch t.Kind {
		case ledger.Product:
			rows[at].Available = t.Balance
		case ledger.ProductWithdrawing:
			rows[at].Pending = t.Balance
		default:
			if rows[at].Owed, err = rows[at].Owed.Add(t.Balance); err != nil {
				return nil, fmt.Errorf("what customers have of mint %d: %w", t.MintID, err)
			}
		}
	}
	pending, err := deposit.PendingOfProducts(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		at := place{p.MintID, p.Product}
		if err := open(at); err != nil {
			return nil, err
		}
		rows[at].PendingDeposit = p.Amount
	}
	all := make([]ProductBalance, 0, len(rows))
	for _, b := range rows {
		if b.Total, err = b.Available.Add(b.Pending); err != nil {
			return nil, fmt.Errorf("total of %s in mint %d: %w", b.Product, b.Mint.ID, err)
		}
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b ProductBalance) int {
		return cmp.Or(cmp.Compare(a.Mint.ID, b.Mint.ID), cmp.Compare(a.Product, b.Product))
	})
	return all, nil
}

// Value is what an amount is worth, for display; nil when nothing says so.
func Value(ctx context.Context, prices price.Source, m mint.Mint, a money.Amount) *money.USD {
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
