package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// MintState has what an operator needs to know about a mint.
type MintState struct {
	Mint          mint.Mint
	QuarantinedAt *time.Time // nil without a quarantine
	Reason        string     // of the quarantine
	// Waiting is the number of final deposits that are credited once the quarantine ends.
	Waiting int
	// Immovable has the funds of organizations in this mint that the chain does not release at
	// present. It leaves out what a quarantine stops.
	Immovable []ImmovableFunds
	// Stuck has the mint's stuck payments, sweeps and top-ups: their transactions contradict
	// themselves on the chain. They are neither paid nor failed until a person decides.
	Stuck []StuckOrder
}

// ImmovableFunds are the funds at an address from which no transfer succeeds.
type ImmovableFunds struct {
	OrgID, WalletID string
	Amount          money.Amount
	LastError       string // the latest answer of the chain or the signer
}

// StuckOrder is a stuck order, which waits for a person.
type StuckOrder struct {
	OrderID, OrgID, TxHash, LastError string
	Amount                            money.Amount
}

// ListMintStates returns the state of all mints, by id.
func ListMintStates(ctx context.Context, tx pg.Tx) ([]MintState, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	var states []MintState
	indexes := map[int]int{}
	for _, m := range mints.List(mint.Filter{}) {
		indexes[m.ID] = len(states)
		states = append(states, MintState{Mint: m})
	}
	fail := func(err error) ([]MintState, error) { return nil, fmt.Errorf("read the state of the mints: %w", err) }

	rows, err := tx.Query(ctx, `
		SELECT m.mint_id, m.quarantined_at, m.quarantine_reason,
			(SELECT count(*) FROM deposits d WHERE d.mint_id = m.mint_id AND d.status = 'SCREENING')
		FROM mints m WHERE m.quarantined_at IS NOT NULL`)
	if err != nil {
		return fail(err)
	}
	var mintID, waiting int
	var quarantined time.Time
	var reason string
	_, err = pgx.ForEachRow(rows, []any{&mintID, &quarantined, &reason, &waiting}, func() error {
		s, quarantinedAt := &states[indexes[mintID]], quarantined
		s.QuarantinedAt, s.Reason, s.Waiting = &quarantinedAt, reason, waiting
		return nil
	})
	if err != nil {
		return fail(err)
	}

	immovable, err := dispatch.ListImmovableFunds(ctx, tx, "", 0)
	if err != nil {
		return nil, err
	}
	for _, b := range immovable {
		funds := ImmovableFunds{OrgID: b.OrgID, WalletID: b.WalletID, LastError: b.LastError}
		err := tx.QueryRow(ctx, `
			SELECT coalesce(sum(greatest(credited - swept, 0)), 0) FROM address_funds WHERE wallet_id = $1 AND mint_id = $2`,
			b.WalletID, b.MintID).Scan(&funds.Amount)
		if err != nil {
			return fail(err)
		}
		s := &states[indexes[b.MintID]]
		s.Immovable = append(s.Immovable, funds)
	}

	rows, err = tx.Query(ctx, `
		SELECT mint_id, order_id, org_id, coalesce(tx_hash, ''), coalesce(last_error, ''), amount
		FROM dispatch_orders WHERE status = 'STUCK' ORDER BY order_id`)
	if err != nil {
		return fail(err)
	}
	var o StuckOrder
	_, err = pgx.ForEachRow(rows, []any{&mintID, &o.OrderID, &o.OrgID, &o.TxHash, &o.LastError, &o.Amount},
		func() error {
			s := &states[indexes[mintID]]
			s.Stuck = append(s.Stuck, o)
			return nil
		})
	if err != nil {
		return fail(err)
	}
	return states, nil
}
