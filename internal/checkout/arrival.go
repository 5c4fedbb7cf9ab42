package checkout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Arrival is a deposit at a wallet of checkouts that changes.
type Arrival struct {
	DepositID, OrgID string
	CheckoutID       string // "" at the wallet that checkouts share
	IsShared         bool   // the wallet is the one that checkouts share
	MintID           *int   // nil if the token is unknown
	Chain            chain.Name
	Amount           money.Amount
	Tx               chain.TxHash
	IsNew            bool
	IsRecent         bool // its block is not final
	Status           outcome.PaymentStatus
	// BlockTime is the time of the block that shows the deposit. It is zero for a change that comes from no block.
	BlockTime time.Time
	// References are the accounts that the transaction only names, in a change that comes from a block, if the
	// wallet is shared.
	References []chain.Address
}

// Reasons for which an arrival is no payment of a checkout.
const (
	NoReference    = "NO_REFERENCE"       // it was paid to the shared address and names no checkout
	ManyReferences = "SEVERAL_REFERENCES" // it names several
	NoCheckout     = "NO_CHECKOUT"        // the database lacks the checkout, after a restore
	// OtherReference: its final block names another checkout than the recent one did.
	OtherReference = "OTHER_REFERENCE"
)

// liveMax is how long ago the walk of recent blocks may have had the newest one for a payment that it finds to be as
// new as it looks.
const liveMax = time.Minute

// OnArrivals hears of changes of deposits at the wallets of checkouts, in the transaction that writes them: it writes
// their payments, and leaves everything else to the worker. So neither a lock of a checkout nor a defect of its rules
// delays a block. The rows of the deposits are locked. The transaction may run twice. Rules CO-10 and CO-11.
func (s *Service) OnArrivals(ctx context.Context, tx pg.Tx, arrivals []Arrival) error {
	var added, changed arrivalRows
	for _, a := range arrivals {
		if !slices.Contains(outcome.PaymentStatuses, a.Status) {
			// It counts for nothing. An error here would stop the walk of the chain.
			s.Log.ErrorContext(ctx, "checkout: a deposit has a status that no payment has", "deposit", a.DepositID,
				"status", a.Status)
			a.Status = outcome.PaymentUnusable
		}
		if !a.IsNew {
			changed.add(a, "", "", tx.Now)
			if a.IsShared && !a.IsRecent && !a.BlockTime.IsZero() {
				if err := s.checkReference(ctx, tx, a); err != nil {
					return err
				}
			}
			continue
		}
		checkoutID, reason, err := findCheckout(ctx, tx, a)
		if err != nil {
			return err
		}
		added.add(a, checkoutID, reason, tx.Now)
	}
	if len(added.depositIDs) > 0 {
		if err := added.insert(ctx, tx); err != nil {
			return err
		}
	}
	if len(changed.depositIDs) > 0 {
		return changed.update(ctx, tx)
	}
	return nil
}

// findCheckout returns the checkout of a new arrival, or why it has none. A payment to the shared address belongs to a
// checkout only if its transaction names the key of exactly one. Rule CO-11.
func findCheckout(ctx context.Context, tx pg.Tx, a Arrival) (checkoutID, reason string, err error) {
	if !a.IsShared {
		var exists bool
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM checkouts WHERE org_id = $1 AND checkout_id = $2)`,
			a.OrgID, a.CheckoutID).Scan(&exists)
		if err != nil {
			return "", "", fmt.Errorf("look for checkout %s: %w", a.CheckoutID, err)
		}
		if !exists {
			return a.CheckoutID, NoCheckout, nil
		}
		return a.CheckoutID, "", nil
	}
	var keys [][]byte
	for _, account := range a.References {
		if key, err := base58.Decode(string(account)); err == nil && len(key) == referenceBytes {
			keys = append(keys, key)
		}
	}
	var count int
	err = tx.QueryRow(ctx, `
		SELECT count(DISTINCT checkout_id), coalesce(min(checkout_id), '')
		FROM checkout_options WHERE org_id = $1 AND reference = ANY ($2)`, a.OrgID, keys).Scan(&count, &checkoutID)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("look for the checkout of deposit %s: %w", a.DepositID, err)
	case count == 0:
		return "", NoReference, nil
	case count > 1:
		return "", ManyReferences, nil
	}
	return checkoutID, "", nil
}

// checkReference compares the checkout of a payment to the shared address with what the final block says: one provider
// alone says what a recent block has, and a quorum agrees on a final one. A payment that names another checkout, or
// none any more, counts for neither; a person decides. One that named none and names a checkout now is its payment.
// What a person assigned stays. Rules CO-11 and CO-104.
func (s *Service) checkReference(ctx context.Context, tx pg.Tx, a Arrival) error {
	checkoutID, _, err := findCheckout(ctx, tx, a)
	if err != nil {
		return err
	}
	if checkoutID != "" {
		if err := s.matchLate(ctx, tx, a, checkoutID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO checkout_unmatched (deposit_id, org_id, mint_id, amount, reason, seen_at)
		SELECT p.deposit_id, p.org_id, p.mint_id, $3, 'OTHER_REFERENCE', $4 FROM checkout_payments p
		WHERE p.deposit_id = $1 AND p.checkout_id <> $2
		ON CONFLICT (deposit_id) DO NOTHING`, a.DepositID, checkoutID, a.Amount, tx.Now)
	if err != nil {
		return fmt.Errorf("compare the reference of deposit %s: %w", a.DepositID, err)
	}
	return nil
}

const referenceBytes = 32

// arrivalRows are arrivals as columns.
type arrivalRows struct {
	depositIDs, orgIDs, checkoutIDs, reasons []string
	mintIDs                                  []*int
	chains, amounts, statuses                []string
	blockTimes                               []time.Time
	areRecent                                []bool
}

func (r *arrivalRows) add(a Arrival, checkoutID, reason string, now time.Time) {
	blockTime := a.BlockTime
	if blockTime.IsZero() {
		blockTime = now
	}
	r.depositIDs, r.orgIDs = append(r.depositIDs, a.DepositID), append(r.orgIDs, a.OrgID)
	r.checkoutIDs, r.reasons = append(r.checkoutIDs, checkoutID), append(r.reasons, reason)
	r.mintIDs, r.chains = append(r.mintIDs, a.MintID), append(r.chains, string(a.Chain))
	r.amounts, r.statuses = append(r.amounts, a.Amount.String()), append(r.statuses, string(a.Status))
	r.blockTimes, r.areRecent = append(r.blockTimes, blockTime), append(r.areRecent, a.IsRecent)
}

// insert writes new payments, and what belongs to no checkout.
func (r *arrivalRows) insert(ctx context.Context, tx pg.Tx) error {
	_, err := tx.Exec(ctx, `
		WITH arrived AS (
			SELECT a.*, is_recent AND coalesce(
				(SELECT t.caught_up_at >= $12 FROM scan_head_times t WHERE t.chain = a.chain), false) AS was_live
			FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[],
				$7::numeric[], $8::timestamptz[], $9::text[], $10::boolean[])
				AS a (deposit_id, org_id, checkout_id, reason, mint_id, chain, amount, block_time, status, is_recent)
		), paid AS (
			INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, seen_at,
				was_live, status, try_at)
			SELECT deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, $11, was_live, status, $11
			FROM arrived WHERE reason = ''
			ON CONFLICT (deposit_id) DO NOTHING
		)
		INSERT INTO checkout_unmatched (deposit_id, org_id, checkout_id, mint_id, amount, reason, seen_at, block_time,
			was_live)
		SELECT deposit_id, org_id, nullif(checkout_id, ''), mint_id, amount, reason, $11, block_time, was_live
		FROM arrived WHERE reason <> ''
		ON CONFLICT (deposit_id) DO NOTHING`,
		r.depositIDs, r.orgIDs, r.checkoutIDs, r.reasons, r.mintIDs, r.chains, r.amounts, r.blockTimes, r.statuses,
		r.areRecent, tx.Now, tx.Now.Add(-liveMax))
	if err != nil {
		return fmt.Errorf("write %d payments of checkouts: %w", len(r.depositIDs), err)
	}
	return nil
}

// update changes the status of payments. Another amount, of another fork, is valued anew. Once a payment was final its
// amount stays: deposits do not change it either, and a refusal would stop the walk of the chain. What turned out to be
// no payment of its checkout is as if it had not been made.
func (r *arrivalRows) update(ctx context.Context, tx pg.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT FROM checkout_payments WHERE deposit_id = ANY ($1) ORDER BY deposit_id FOR NO KEY UPDATE`, r.depositIDs)
	if err != nil {
		return fmt.Errorf("lock %d payments of checkouts: %w", len(r.depositIDs), err)
	}
	_, err = tx.Exec(ctx, `
		UPDATE checkout_payments p
		SET status = a.status, try_at = $4, tries = 0, amount = a.amount,
			counts = p.counts AND p.amount = a.amount,
			quote_seq = CASE WHEN p.amount = a.amount THEN p.quote_seq END,
			price = CASE WHEN p.amount = a.amount THEN p.price END,
			currency_price = CASE WHEN p.amount = a.amount THEN p.currency_price END,
			price_source = CASE WHEN p.amount = a.amount THEN p.price_source END,
			priced_at = CASE WHEN p.amount = a.amount THEN p.priced_at END,
			counted = CASE WHEN p.amount = a.amount THEN p.counted END
		FROM (
			SELECT a.deposit_id, CASE WHEN u.deposit_id IS NULL THEN a.status ELSE 'ORPHANED' END AS status,
				CASE WHEN o.status IN ('SEEN', 'ORPHANED') THEN a.amount ELSE o.amount END AS amount
			FROM unnest($1::text[], $2::text[], $3::numeric[]) AS a (deposit_id, status, amount)
			JOIN checkout_payments o ON o.deposit_id = a.deposit_id
			LEFT JOIN checkout_unmatched u ON u.deposit_id = a.deposit_id AND u.assigned_to IS NULL) a
		WHERE p.deposit_id = a.deposit_id AND (p.status, p.amount) IS DISTINCT FROM (a.status, a.amount)`,
		r.depositIDs, r.statuses, r.amounts, tx.Now)
	if err != nil {
		return fmt.Errorf("change %d payments of checkouts: %w", len(r.depositIDs), err)
	}
	return nil
}
