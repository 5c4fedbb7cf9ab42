package report

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Exposure has what rests on final blocks above a height.
type Exposure struct {
	Deposits []ExposedDeposit
	Orders   []ExposedOrder
}

// ExposedDeposit is a deposit whose block was proven final.
type ExposedDeposit struct {
	DepositID string
	Owner     string // the customer or product and the organization, or the organization's treasury
	MintID    int    // 0 for a token that is not in the catalogue
	Amount    money.Amount
	Height    uint64
	Status    string
}

// ExposedOrder is a payment, sweep or top-up whose final block was proven.
type ExposedOrder struct {
	OrderID, Purpose string
	MintID           int
	Amount           money.Amount
	Height           uint64
	Status           string
}

// LoadExposure returns what rests on valid finality proofs of a chain above a height.
func LoadExposure(ctx context.Context, tx pg.Tx, ch chain.Name, height uint64) (s Exposure, err error) {
	rows, err := tx.Query(ctx, `
		SELECT d.deposit_id, coalesce(d.customer_id, d.product, 'the treasury') || ' of ' || d.org_id, coalesce(d.mint_id, 0), d.amount, d.height, d.status
		FROM deposits d JOIN finality_live p ON p.proof_id = d.proof_id
		WHERE d.chain = $1 AND d.height > $2 ORDER BY d.height, d.deposit_id`, ch, height)
	if err == nil {
		s.Deposits, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ExposedDeposit])
	}
	if err != nil {
		return s, fmt.Errorf("read the deposits above block %d of %s: %w", height, ch, err)
	}
	rows, err = tx.Query(ctx, `
		SELECT o.order_id, o.purpose, o.mint_id, o.amount, p.height, o.status
		FROM dispatch_orders o JOIN finality_live p ON p.proof_id = o.proof_id
		WHERE o.chain = $1 AND p.height > $2 ORDER BY p.height, o.order_id`, ch, height)
	if err == nil {
		s.Orders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ExposedOrder])
	}
	if err != nil {
		return s, fmt.Errorf("read the payments above block %d of %s: %w", height, ch, err)
	}
	return s, nil
}

// Reversals are deposits that a finality break reversed, and deposits whose amount had already been
// returned or redirected when the finality broke.
type Reversals []Reversal

// Reversal is one such deposit.
type Reversal struct {
	DepositID               string
	Owner                   string
	MintID                  int
	Amount, TakenBack, Lost money.Amount
}

// ListReversals returns the reversals on a chain, oldest first.
func ListReversals(ctx context.Context, tx pg.Tx, ch chain.Name) (Reversals, error) {
	rows, err := tx.Query(ctx, `
		SELECT deposit_id, coalesce(customer_id, product, 'the treasury') || ' of ' || org_id, mint_id, amount, coalesce(taken_back, 0), amount - coalesce(taken_back, 0)
		FROM deposits WHERE chain = $1 AND (status = 'REVERSED' OR lost_at IS NOT NULL) ORDER BY coalesce(reversed_at, lost_at), deposit_id`,
		ch)
	if err != nil {
		return nil, fmt.Errorf("read the reversals on %s: %w", ch, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Reversal])
	if err != nil {
		return nil, fmt.Errorf("read the reversals on %s: %w", ch, err)
	}
	return found, nil
}

// ReorgedOrder is an order whose final block was replaced.
type ReorgedOrder struct {
	OrderID, Purpose    string
	Owner               string // the customer and organization, or the organization
	MintID              int
	Amount              money.Amount
	Status              string // in the ledger
	TxHash              string // of the transaction that ended the order
	WaitsFor, LastError string // "" before the worker looked at it
}

// ListReorgedOrders returns the orders of a chain whose settlement is disputed after a reorg,
// oldest first.
func ListReorgedOrders(ctx context.Context, tx pg.Tx, ch chain.Name) ([]ReorgedOrder, error) {
	rows, err := tx.Query(ctx, `
		SELECT o.order_id, o.purpose, coalesce(o.customer_id || ' of ', '') || o.org_id, o.mint_id, o.amount, o.status, o.tx_hash,
			coalesce(o.waiting_for, ''), coalesce(o.last_error, '')
		FROM dispatch_reorged q JOIN dispatch_orders o USING (order_id)
		WHERE q.chain = $1 ORDER BY o.created_at, o.order_id`, ch)
	if err != nil {
		return nil, fmt.Errorf("read the disputed orders on %s: %w", ch, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ReorgedOrder])
	if err != nil {
		return nil, fmt.Errorf("read the disputed orders on %s: %w", ch, err)
	}
	return found, nil
}
