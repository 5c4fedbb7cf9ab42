// Package utxo keeps the outputs of an organization on UTXO chains: every output of Coffer that
// became final, and the order that spends it. See docs/design/bitcoin.md#states-of-an-output.
//
// These things never happen here:
//
//   - an output is in the slots of two orders;
//   - an output is taken from a slot without proof;
//   - an output is chosen for a payment before its deposit is credited.
//
// A crash leaves nothing of its own here, because this package begins no transaction: its callers
// do.
package utxo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Status says what an output may be used for.
type Status string

// The statuses of an output. states.md draws the changes between them, and the table enforces them.
const (
	Held     Status = "HELD"     // not to be chosen: its deposit waits, is flagged or dust, or its order is open
	Free     Status = "FREE"     // any payment of the organization may spend it
	Reserved Status = "RESERVED" // in the slot of an order, which never releases it
	Spent    Status = "SPENT"    // spent by that order's transaction, finally
	Reorged  Status = "GONE"     // finality broke, and its block is not on the chain
)

// transition is a change of status that an output may make, with its cause.
type transition struct {
	From, To Status
	Cause    string
}

// transitions lists every allowed change of status.
var transitions = []transition{
	{Held, Free, "its deposit is credited, or the order whose change output it is has ended"},
	{Held, Reserved, "the return for which it is held has its slot, or the journal says that it was signed for that " +
		"return"},
	{Free, Reserved, "chosen for an order, with its slot"},
	{Reserved, Spent, "its order ended, with proof"},
	{Held, Reorged, "finality break below its block"},
	{Free, Reorged, "finality break below its block"},
	{Reserved, Reorged, "finality break below its block"},
	{Reorged, Held, "found again"},
	{Reorged, Free, "found again"},
	{Reorged, Reserved, "found again, and an order has it"},
	{Reorged, Spent, "its order ended, with proof"},
}

// ErrTaken says that an output changed since it was chosen: another order has it.
var ErrTaken = errors.New("another order took an output")

// Output is an output of Coffer in a final block.
type Output struct {
	Chain           chain.Name
	Tx              chain.TxHash
	Position        string // the output's number in its transaction
	OrgID, WalletID string
	MintID          int
	Amount          money.Amount
	// DepositID is the deposit that the output makes. ChangeOf is the order whose change it is.
	DepositID, ChangeOf string
	// IsFree says that it may be chosen at once, because its deposit is credited. For change, the
	// status of the order decides instead.
	IsFree  bool
	ProofID int64
	Height  uint64
}

func (f Output) outpoint() string { return string(f.Tx) + ":" + f.Position }

// slotJoin is the SQL that joins an output c with the order that has it in its slot.
const slotJoin = `dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE s.order_id = c.order_id AND strpos(s.slot_key, c.outpoint || ':') > 0`

// AddFinal inserts outputs in the transaction that makes them final. An output that a reorg removed
// returns to the order that had it, and is spent if that order has ended. An output that only the
// signer's journal knew becomes proven. Adding an output again changes nothing. The caller has
// written the deposit rows before. Rule COIN-3.
func AddFinal(ctx context.Context, tx pg.Tx, outputs ...Output) error {
	for _, f := range slices.SortedFunc(
		slices.Values(outputs), func(a, b Output) int { return compareOutpoints(a.outpoint(), b.outpoint()) },
	) {
		status := Held
		if f.IsFree {
			status = Free
		}
		if f.ChangeOf != "" {
			var isEnded bool
			err := tx.QueryRow(ctx, `
				SELECT status IN ('PAID', 'FAILED') AND NOT (purpose = 'RETURN' AND status = 'FAILED')
				FROM dispatch_orders WHERE order_id = $1`, f.ChangeOf).Scan(&isEnded)
			if err != nil {
				return fmt.Errorf("look up the order of change output %s: %w", f.outpoint(), err)
			}
			if isEnded {
				status = Free
			}
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO utxos AS c (chain, outpoint, org_id, wallet_id, mint_id, amount, status, deposit_id, change_of, proof_id, height, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), nullif($9, ''), $10, $11, $12)
			ON CONFLICT (chain, outpoint) DO UPDATE SET
				status = CASE WHEN c.status <> 'GONE' THEN c.status ELSE coalesce((
					SELECT CASE WHEN o.status IN ('PAID', 'FAILED') THEN 'SPENT' ELSE 'RESERVED' END FROM `+slotJoin+`), excluded.status) END,
				spent_tx_hash = CASE WHEN c.status <> 'GONE' THEN c.spent_tx_hash ELSE (
					SELECT o.tx_hash FROM `+slotJoin+` AND o.status IN ('PAID', 'FAILED')) END,
				deposit_id = excluded.deposit_id, change_of = excluded.change_of, proof_id = excluded.proof_id, height = excluded.height
			WHERE (c.org_id, c.wallet_id, c.mint_id, c.amount) = (excluded.org_id, excluded.wallet_id, excluded.mint_id, excluded.amount)`,
			f.Chain, f.outpoint(), f.OrgID, f.WalletID, f.MintID, f.Amount, status, f.DepositID, f.ChangeOf, f.ProofID,
			f.Height, tx.Now)
		if err != nil {
			return fmt.Errorf("insert output %s: %w", f.outpoint(), err)
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("insert output %s: it exists with other values", f.outpoint())
		}
	}
	return nil
}

func compareOutpoints(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ChangeTarget is the order of a transaction and the address that its slot names for the change
// output.
type ChangeTarget struct {
	OrderID string
	Address chain.Address
}

// ChangeTargets returns the change targets of those transactions that are Coffer's. An output of
// such a transaction to its change address is no deposit.
func ChangeTargets(
	ctx context.Context, tx pg.Tx, ch chain.Name, hashes []chain.TxHash,
) (map[chain.TxHash]ChangeTarget, error) {
	rows, err := tx.Query(ctx, `
		SELECT a.tx_hash, a.order_id, split_part(s.slot_key, ' ', -1) FROM dispatch_attempts a JOIN dispatch_slots s USING (order_id)
		WHERE a.tx_hash = ANY ($1) AND s.chain = $2`, hashes, ch)
	if err != nil {
		return nil, fmt.Errorf("look up transactions of this installation on %s: %w", ch, err)
	}
	targets := map[chain.TxHash]ChangeTarget{}
	var hash chain.TxHash
	var target ChangeTarget
	_, err = pgx.ForEachRow(rows, []any{&hash, &target.OrderID, &target.Address}, func() error {
		targets[hash] = target
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up transactions of this installation on %s: %w", ch, err)
	}
	return targets, nil
}

// FreeCredited makes the outputs of deposits free, in the transaction that credits the deposits.
// Rule COIN-2.
func FreeCredited(ctx context.Context, tx pg.Tx, depositIDs ...string) error {
	_, err := tx.Exec(ctx, `
		UPDATE utxos SET status = 'FREE', order_id = NULL
		WHERE (chain, outpoint) IN (SELECT chain, outpoint FROM utxos WHERE deposit_id = ANY ($1) AND status = 'HELD' ORDER BY chain, outpoint FOR UPDATE)`,
		depositIDs)
	if err != nil {
		return fmt.Errorf("free the outputs of %d deposits from %s on: %w", len(depositIDs), depositIDs[0], err)
	}
	return nil
}

// AssignHeld keeps the output of a held deposit for the order that returns it, and the change that
// earlier such orders left of it. It returns an error if there is none. Rule COIN-2.
func AssignHeld(ctx context.Context, tx pg.Tx, depositID, orderID string, earlier ...string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE utxos SET order_id = $2
		WHERE (chain, outpoint) IN (SELECT chain, outpoint FROM utxos
			WHERE (deposit_id = $1 OR change_of = ANY ($3)) AND status = 'HELD' ORDER BY chain, outpoint FOR UPDATE)`,
		depositID, orderID, earlier)
	if err != nil {
		return fmt.Errorf("hold the output of deposit %s: %w", depositID, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("hold the output of deposit %s for order %s: it does not exist", depositID, orderID)
	}
	return nil
}

// UnassignHeld undoes AssignHeld for an order that ended before it had a slot.
func UnassignHeld(ctx context.Context, tx pg.Tx, orderID string) error {
	if _, err := tx.Exec(
		ctx, `UPDATE utxos SET order_id = NULL WHERE order_id = $1 AND status IN ('HELD', 'GONE')`, orderID,
	); err != nil {
		return fmt.Errorf("release the output that was held for order %s: %w", orderID, err)
	}
	return nil
}

// candidatesMax bounds the free outputs, the largest ones, that one selection considers.
const candidatesMax = 500

// LockCandidates locks the outputs that may pay an order: those kept for it, which it has to spend,
// and free ones of the organization. The largest come first, so that few inputs pay much. It skips
// outputs that another transaction has locked, because they are being chosen there; a moment later
// they are free again or taken. It also skips outputs of frozen wallets.
func LockCandidates(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID int, orderID string,
) (assigned, free []chain.Output, err error) {
	const columns = `SELECT c.outpoint, w.address, c.amount FROM utxos c JOIN wallets w USING (wallet_id) WHERE `
	if assigned, err = queryOutputs(
		ctx, tx, columns+`c.order_id = $1 AND c.status = 'HELD' ORDER BY c.chain, c.outpoint FOR UPDATE OF c`, orderID,
	); err != nil {
		return nil, nil, err
	}
	free, err = queryOutputs(ctx, tx, columns+`c.org_id = $1 AND c.chain = $2 AND c.mint_id = $3 AND c.status = 'FREE'
			AND NOT EXISTS (SELECT FROM freezes f WHERE f.scope = 'WALLET' AND f.wallet_id = c.wallet_id AND f.lifted_at IS NULL)
		ORDER BY c.amount DESC, c.outpoint LIMIT $4 FOR UPDATE OF c SKIP LOCKED`, org, ch, mintID, candidatesMax)
	return assigned, free, err
}

// LockSmall locks free outputs of an organization that hold more than lower and at most upper, the
// smallest first, at most limit. It also returns what all of its free outputs hold. It skips the
// outputs that LockCandidates skips.
func LockSmall(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID int, lower, upper money.Amount, limit int,
) (small []chain.Output, total money.Amount, err error) {
	return querySmall(ctx, tx, ch, org, mintID, lower, upper, limit, " FOR UPDATE OF c SKIP LOCKED")
}

// ListSmall does the same without locks, for callers that only look.
func ListSmall(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID int, lower, upper money.Amount, limit int,
) (small []chain.Output, total money.Amount, err error) {
	return querySmall(ctx, tx, ch, org, mintID, lower, upper, limit, "")
}

// LockUnreached locks the largest free outputs of an organization after the first reached ones, if
// they hold more than lower, at most limit. No payment spends those until some of them are
// consolidated. It skips the outputs that LockCandidates skips. Rule COIN-10.
func LockUnreached(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID, reached int, lower money.Amount, limit int,
) ([]chain.Output, error) {
	return queryUnreached(ctx, tx, ch, org, mintID, reached, lower, limit, " FOR UPDATE OF c SKIP LOCKED")
}

// ListUnreached does the same without locks, for callers that only look.
func ListUnreached(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID, reached int, lower money.Amount, limit int,
) ([]chain.Output, error) {
	return queryUnreached(ctx, tx, ch, org, mintID, reached, lower, limit, "")
}

func queryUnreached(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID, reached int, lower money.Amount, limit int,
	lock string,
) ([]chain.Output, error) {
	return queryOutputs(ctx, tx, `
		SELECT c.outpoint, w.address, c.amount`+freeOutputsFrom+`
			AND c.outpoint = ANY (ARRAY(SELECT c.outpoint`+freeOutputsFrom+` AND c.amount > $4 ORDER BY c.amount DESC, c.outpoint OFFSET $5 LIMIT $6))
		ORDER BY c.amount DESC, c.outpoint`+lock, org, ch, mintID, lower, reached, limit)
}

const freeOutputsFrom = ` FROM utxos c JOIN wallets w USING (wallet_id) WHERE c.org_id = $1 AND c.chain = $2 AND c.mint_id = $3 AND c.status = 'FREE'
	AND NOT EXISTS (SELECT FROM freezes f WHERE f.scope = 'WALLET' AND f.wallet_id = c.wallet_id AND f.lifted_at IS NULL)`

func querySmall(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID int, lower, upper money.Amount, limit int,
	lock string,
) (small []chain.Output, total money.Amount, err error) {
	small, err = queryOutputs(ctx, tx,
		`SELECT c.outpoint, w.address, c.amount`+freeOutputsFrom+` AND c.amount > $4 AND c.amount <= $5 ORDER BY c.amount, c.outpoint LIMIT $6`+lock,
		org, ch, mintID, lower, upper, limit)
	if err != nil {
		return nil, money.Zero, err
	}
	if err := tx.QueryRow(
		ctx, `SELECT coalesce(sum(c.amount), 0)`+freeOutputsFrom, org, ch, mintID,
	).Scan(&total); err != nil {
		return nil, money.Zero, fmt.Errorf("sum up the free outputs of %s: %w", org, err)
	}
	return small, total, nil
}

func queryOutputs(ctx context.Context, tx pg.Tx, sql string, args ...any) ([]chain.Output, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read outputs: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c chain.Output, err error) {
		err = row.Scan(&c.Outpoint, &c.Owner, &c.Amount)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read outputs: %w", err)
	}
	return found, nil
}

// Reserve gives outputs to an order, in the transaction that writes its slot and after the slot.
// Error: ErrTaken. Rule COIN-4.
func Reserve(ctx context.Context, tx pg.Tx, ch chain.Name, orderID string, chosen []chain.Output) error {
	outpoints := make([]string, len(chosen))
	for i, c := range chosen {
		outpoints[i] = c.Outpoint
	}
	tag, err := tx.Exec(ctx, `
		UPDATE utxos SET status = 'RESERVED', order_id = $2
		WHERE chain = $1 AND outpoint = ANY ($3) AND (status = 'FREE' OR status = 'HELD' AND order_id = $2)`,
		ch, orderID, outpoints)
	if err != nil {
		return fmt.Errorf("reserve %d outputs for order %s: %w", len(chosen), orderID, err)
	}
	if tag.RowsAffected() != int64(len(chosen)) {
		return fmt.Errorf("reserve %d outputs for order %s: %w", len(chosen), orderID, ErrTaken)
	}
	return nil
}

// ReserveJournaled reserves the outputs of a slot that the signer's journal records and a restored
// database lacks. Outputs that arrived after the backup are inserted as the journal records them;
// the walk finds and proves them. It returns an error if another order has an output, if the output
// differs here, or if its owner is no wallet of the organization. Rule COIN-6.
func ReserveJournaled(
	ctx context.Context, tx pg.Tx, ch chain.Name, org string, mintID int, orderID string, signed time.Time,
	inputs []chain.Output,
) error {
	for _, l := range slices.SortedFunc(
		slices.Values(inputs), func(a, b chain.Output) int { return compareOutpoints(a.Outpoint, b.Outpoint) },
	) {
		tag, err := tx.Exec(ctx, `
			INSERT INTO utxos AS c (chain, outpoint, org_id, wallet_id, mint_id, amount, status, order_id, created_at)
			SELECT $1, $2, w.org_id, w.wallet_id, $5, $6, 'RESERVED', $7, $8 FROM wallets w WHERE w.org_id = $3 AND w.family = $4 AND w.address = $9
			ON CONFLICT (chain, outpoint) DO UPDATE SET status = 'RESERVED', order_id = excluded.order_id
			WHERE (c.org_id, c.wallet_id, c.mint_id, c.amount) = (excluded.org_id, excluded.wallet_id, excluded.mint_id, excluded.amount)
				AND (c.status IN ('FREE', 'HELD', 'GONE') OR c.status = 'RESERVED' AND c.order_id = excluded.order_id)`,
			ch, l.Outpoint, org, ch.Family(), mintID, l.Amount, orderID, signed, l.Owner)
		if err != nil {
			return fmt.Errorf("output %s, for which the journal signed: %w", l.Outpoint, err)
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf(
				"output %s, for which the journal signed, belongs to another organization or order here, or has "+
					"other values than in the journal",
				l.Outpoint,
			)
		}
	}
	return nil
}

// MarkSpent records that the outputs of an order are spent by a final transaction. That includes an
// output that a break of finality removed and that was not found again, because the same
// transaction proves it. It frees the order's change, unless holdChange says that the change is the
// deposit that should have been returned. It runs in the transaction that ends the order, after the
// change of the order's status. Rule COIN-5.
func MarkSpent(ctx context.Context, tx pg.Tx, orderID string, hash chain.TxHash, holdChange bool) error {
	if _, err := tx.Exec(ctx, `
		UPDATE utxos SET status = 'SPENT', spent_tx_hash = $2
		WHERE (chain, outpoint) IN (SELECT c.chain, c.outpoint FROM utxos c
			WHERE c.order_id = $1 AND c.status IN ('RESERVED', 'GONE') AND EXISTS (SELECT FROM `+slotJoin+`) ORDER BY c.chain, c.outpoint FOR UPDATE)`,
		orderID, hash); err != nil {
		return fmt.Errorf("mark the outputs of order %s as spent: %w", orderID, err)
	}
	if holdChange {
		return nil
	}
	return FreeChange(ctx, tx, orderID)
}

// FreeChange frees the change of orders that have ended. Rule COIN-5.
func FreeChange(ctx context.Context, tx pg.Tx, orderIDs ...string) error {
	_, err := tx.Exec(ctx, `
		UPDATE utxos SET status = 'FREE', order_id = NULL
		WHERE (chain, outpoint) IN (SELECT chain, outpoint FROM utxos WHERE change_of = ANY ($1) AND status = 'HELD' ORDER BY chain, outpoint FOR UPDATE)`,
		orderIDs)
	if err != nil {
		return fmt.Errorf("free the change output of order %s: %w", orderIDs, err)
	}
	return nil
}

// RemoveReorged removes the outputs above ancestorHeight, the last block that both forks of a chain
// have. Spent outputs stay spent: their order is a reorged order. Rule COIN-3.
func RemoveReorged(ctx context.Context, tx pg.Tx, ch chain.Name, ancestorHeight uint64) error {
	_, err := tx.Exec(ctx, `
		UPDATE utxos SET status = 'GONE'
		WHERE (chain, outpoint) IN (SELECT chain, outpoint FROM utxos
			WHERE chain = $1 AND height > $2 AND status IN ('HELD', 'FREE', 'RESERVED') ORDER BY chain, outpoint FOR UPDATE)`,
		ch, ancestorHeight)
	if err != nil {
		return fmt.Errorf("remove the outputs above block %d of %s: %w", ancestorHeight, ch, err)
	}
	return nil
}
