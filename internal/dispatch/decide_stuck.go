package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// ErrNotStuck says that an order is not stuck, so there is nothing to decide.
var ErrNotStuck = errors.New("the order does not wait for a decision")

// DecideStuck ends a stuck order as a person found it: paid or not paid. Its transaction is final
// in either case, so its fee is posted and its slot is used. What the order held is settled or
// released, once. Other orders of its slot stay stuck; each needs its own decision. Error:
// ErrNotStuck.
func DecideStuck(
	ctx context.Context, db *pg.DB, listeners map[signer.Purpose]Listener, orderID string, paid bool, actor audit.Actor,
	reason string,
) error {
	d := &Worker{db: db, listeners: listeners}
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var chainName chain.Name
		err := tx.QueryRow(
			ctx, `SELECT chain FROM dispatch_orders WHERE order_id = $1 AND status = 'STUCK'`, orderID,
		).Scan(&chainName)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotStuck
		}
		if err != nil {
			return err
		}
		if broken, err := finality.LockShared(ctx, tx, chainName); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("%s has a finality break, and its block may be gone", chainName)
		}
		o, err := lockOrder(ctx, tx, orderID)
		if err != nil {
			return err
		}
		if o.Status != Stuck {
			return ErrNotStuck // another person was first
		}
		e := End{Paid: paid}
		err = tx.QueryRow(ctx, `
			SELECT o.tx_hash, o.fee, o.rent, p.proof_id, p.height, p.hash
			FROM dispatch_orders o JOIN finality_live p USING (proof_id) WHERE o.order_id = $1`, o.ID).
			Scan(&e.Hash, &e.Fee, &e.Rent, &e.ProofID, &e.Block.Height, &e.Block.Hash)
		if err != nil {
			return fmt.Errorf("read the proof of its block, which has to be on the chain: %w", err)
		}
		lead := o.ID
		if o.TxLeadID != "" {
			lead = o.TxLeadID
		}
		attempts, err := loadAttempts(ctx, tx, lead)
		if err != nil {
			return err
		}
		for _, h := range (slot{Attempts: attempts[lead]}).signedHashes() {
			if h != e.Hash {
				e.Replaced = append(e.Replaced, h)
			}
		}
		if err := d.finishOrders(ctx, tx, orderEnd{o, e}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: o.OrgID, Actor: actor, Action: "order.decided", ResourceKind: "order", ResourceID: o.ID,
			Detail: map[string]any{"paid": paid, "reason": reason, "hash": e.Hash},
		})
	})
	if err != nil {
		return fmt.Errorf("decide about order %s: %w", orderID, err)
	}
	return nil
}
