package depositswap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Arrival is a deposit at the wallet of a deposit swap, in the transaction that changes it.
type Arrival struct {
	DepositSwapID string
	DepositID     string
	MintID        *int // nil: the token is not in the catalogue
	Amount        money.Amount
	Tx            chain.TxHash
	IsFinal       bool // it is final, and waits for its decision
	IsDecided     bool // it is credited or flagged now
}

// OnArrivals hears of deposits at the wallets of deposit swaps, in the system transaction that writes them. A
// decided one of the mint completes its deposit swap; a final one makes the worker look for who paid. One without a
// row waits for it, so it changes nothing here. The deposits are locked. Rule DSW-5.
func (s *Service) OnArrivals(ctx context.Context, tx pg.Tx, arrivals []Arrival) error {
	grouped := map[string][]Arrival{}
	for _, a := range arrivals {
		if a.IsFinal || a.IsDecided {
			grouped[a.DepositSwapID] = append(grouped[a.DepositSwapID], a)
		}
	}
	for _, depositSwapID := range slices.Sorted(maps.Keys(grouped)) {
		if err := s.arrive(ctx, tx, depositSwapID, grouped[depositSwapID]); err != nil {
			return fmt.Errorf("arrivals for deposit swap %s: %w", depositSwapID, err)
		}
	}
	return nil
}

func (s *Service) arrive(ctx context.Context, tx pg.Tx, depositSwapID string, arrivals []Arrival) error {
	var toMintID int
	var status Status
	var amountOut *money.Amount
	err := tx.QueryRow(ctx, `
		SELECT to_mint_id, status, amount_out FROM deposit_swaps WHERE deposit_swap_id = $1 FOR NO KEY UPDATE`,
		depositSwapID).Scan(&toMintID, &status, &amountOut)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var first *Arrival
	for i, a := range arrivals {
		if !a.IsDecided || a.MintID == nil || *a.MintID != toMintID {
			continue
		}
		if first == nil {
			first = &arrivals[i]
		}
		total := a.Amount
		if amountOut != nil {
			if total, err = amountOut.Add(a.Amount); err != nil {
				return err
			}
		}
		amountOut = &total
	}
	if first == nil {
		_, err := tx.Exec(ctx, `UPDATE deposit_swaps SET look_at = $2 WHERE deposit_swap_id = $1`, depositSwapID,
			tx.Now)
		return err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE deposit_swaps SET status = 'COMPLETED', amount_out = $2, updated_at = $3, failure_reason = NULL,
			completed_at = coalesce(completed_at, $3),
			destination_tx_hash = CASE WHEN status = 'COMPLETED' THEN destination_tx_hash ELSE $4 END
		WHERE deposit_swap_id = $1 AND status = $5`, depositSwapID, amountOut, tx.Now, first.Tx, status)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil || status == Completed {
		return err
	}
	completed, err := load(ctx, tx, depositSwapID)
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, newEntry(completed, actor, "completed", map[string]any{
		"depositId": first.DepositID, "amountOut": amountOut, "from": status,
	}))
}
