package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/pg"
)

// Status is how far an order came.
type Status string

// The statuses.
const (
	Queued    Status = "QUEUED"    // placed; nothing is reserved and nothing signed
	Refused   Status = "REFUSED"   // the signer's policy said no, or the payee cannot be paid, or not this amount; may be placed again
	Recalled  Status = "WITHDRAWN" // taken back before it had a slot
	Slotted   Status = "SLOTTED"   // has its slot and its first unsigned transaction
	Signed    Status = "SIGNED"    // bytes are stored and may be out
	Broadcast Status = "BROADCAST" // a provider took them, or a block has them
	Paid      Status = "PAID"      // final, and did what it had to do
	Failed    Status = "FAILED"    // final, the slot was used and did not pay
	Stuck     Status = "STUCK"     // final, and what it did contradicts itself: a person decides
)

// A transition is a move that an order may make, and why.
type transition struct {
	From, To Status
	Cause    string
}

// transitions are all the moves there are. The table is drawn in states.md and
// the database refuses the ones that would give a slot back.
var transitions = []transition{
	{Queued, Slotted, "admitted by the signer, funds and gas reserved"},
	{Queued, Refused, "the signer's policy says no, or the chain would because of the payee or the amount, or has something where it would make a place, or there is nothing to merge now"},
	{Queued, Recalled, "taken back by its feature, or ended by a person"},
	{Refused, Queued, "placed again"},
	{Refused, Recalled, "taken back by its feature"},
	{Slotted, Signed, "the signed bytes are stored"},
	{Signed, Broadcast, "a provider took them, or a block has them"},
	{Broadcast, Paid, "final, succeeded, its effects and the balances show the payment"},
	{Broadcast, Failed, "final, reverted, or our own cancel"},
	{Broadcast, Stuck, "final, succeeded, and its effects or the balances do not show the payment"},
	{Stuck, Paid, "a person has found it paid"},
	{Stuck, Failed, "a person has found it not paid"},
}

// errLostRace says that an order was not in the state that a step started from:
// another process, or this one before a crash, was there first. The step is
// dropped and the row read again.
var errLostRace = errors.New("order is in another state")

// setStatus is the compare-and-swap of an order's status. set continues the UPDATE
// with further columns, its parameters from $4 on.
func setStatus(ctx context.Context, tx pg.Tx, orderID string, from, to Status, set string, args ...any) error {
	return setStatuses(ctx, tx, []string{orderID}, from, to, set, args...)
}

// setStatuses is the same of several orders: all of them or none.
func setStatuses(ctx context.Context, tx pg.Tx, orderIDs []string, from, to Status, set string, args ...any) error {
	if !slices.ContainsFunc(transitions, func(t transition) bool { return t.From == from && t.To == to }) {
		panic(fmt.Sprintf("dispatch: no way from %s to %s", from, to))
	}
	if set != "" {
		set = ", " + set
	}
	tag, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET status = $3, waiting_for = NULL, short_by = NULL`+set+`
		WHERE order_id = ANY ($1) AND status = $2`, append([]any{orderIDs, from, to}, args...)...)
	if err != nil {
		return fmt.Errorf("order %s from %s to %s: %w", strings.Join(orderIDs, ", "), from, to, err)
	}
	if tag.RowsAffected() != int64(len(orderIDs)) {
		return fmt.Errorf("order %s from %s to %s: %w", strings.Join(orderIDs, ", "), from, to, errLostRace)
	}
	return nil
}
