package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
)

// MintStanding is what an operator has to know of a mint.
type MintStanding struct {
	Mint   mint.Mint
	Since  *time.Time // of its quarantine, or nil
	Reason string     // of its quarantine
	// Waiting are the final deposits that are credited once the quarantine ends.
	Waiting int
	// Illiquid is what organizations own of it and the chain does not let go as
	// things stand, beside what a quarantine stops.
	Illiquid []Illiquid
	// Stuck are its payments, sweeps and top-ups that contradict themselves on the
	// chain: neither paid nor failed until a person has decided.
	Stuck []Stuck
}

// Illiquid is an address that cannot part with what it holds.
type Illiquid struct {
	OrgID, WalletID string
	Amount          money.Amount
	Why             string // what the chain or the signer said last
}

// Stuck is an order that waits for a person.
type Stuck struct {
	OrderID, OrgID, TxHash, Why string
	Amount                      money.Amount
}

// MintStandings are all mints, by id.
func MintStandings(ctx context.Context, tx pg.Tx) ([]MintStanding, error) {
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	var all []MintStanding
	at := map[int]int{}
	for _, m := range mints.List(mint.Filter{}) {
		at[m.ID] = len(all)
		all = append(all, MintStanding{Mint: m})
	}
	fail := func(err error) ([]MintStanding, error) { return nil, fmt.Errorf("how the mints stand: %w", err) }

	rows, err := tx.Query(ctx, `
		SELECT m.mint_id, m.quarantined_at, m.quarantine_reason,
			(SELECT count(*) FROM deposits d WHERE d.mint_id = m.mint_id AND d.status = 'SCREENING')
		FROM mints m WHERE m.quarantined_at IS NOT NULL`)
	if err != nil {
		return fail(err)
	}
	var mintID, waiting int
	var since time.Time
	var reason string
	_, err = pgx.ForEachRow(rows, []any{&mintID, &since, &reason, &waiting}, func() error {
		s, when := &all[at[mintID]], since
		s.Since, s.Reason, s.Waiting = &when, reason, waiting
		return nil
	})
	if err != nil {
		return fail(err)
	}

	blocked, err := dispatch.Blocked(ctx, tx, "", 0)
	if err != nil {
		return nil, err
	}
	for _, b := range blocked {
		i := Illiquid{OrgID: b.OrgID, WalletID: b.WalletID, Why: b.Why}
		err := tx.QueryRow(ctx, `
			SELECT coalesce(sum(greatest(credited - swept, 0)), 0) FROM address_funds WHERE wallet_id = $1 AND mint_id = $2`, b.WalletID, b.MintID).Scan(&i.Amount)
		if err != nil {
			return fail(err)
		}
		s := &all[at[b.MintID]]
		s.Illiquid = append(s.Illiquid, i)
	}

	rows, err = tx.Query(ctx, `
		SELECT mint_id, order_id, org_id, coalesce(tx_hash, ''), coalesce(last_error, ''), amount
		FROM dispatch_orders WHERE status = 'STUCK' ORDER BY order_id`)
	if err != nil {
		return fail(err)
	}
	var o Stuck
	_, err = pgx.ForEachRow(rows, []any{&mintID, &o.OrderID, &o.OrgID, &o.TxHash, &o.Why, &o.Amount}, func() error {
		s := &all[at[mintID]]
		s.Stuck = append(s.Stuck, o)
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return all, nil
}
