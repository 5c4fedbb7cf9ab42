package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Status is the state of an order.
type Status string

// The statuses of an order.
const (
	Queued Status = "QUEUED" // submitted; nothing is reserved and nothing is signed
	// Refused says that the signer's policy refused the order, or that the chain would refuse its
	// payee or its amount. The order may be submitted again.
	Refused   Status = "REFUSED"
	Recalled  Status = "WITHDRAWN" // recalled before it had a slot
	Slotted   Status = "SLOTTED"   // has its slot and its first unsigned transaction
	Signed    Status = "SIGNED"    // the signed bytes are stored and may have been sent
	Broadcast Status = "BROADCAST" // a provider accepted the bytes, or a block contains the transaction
	Paid      Status = "PAID"      // final, and the transaction paid
	Failed    Status = "FAILED"    // final; the slot is used and the transaction did not pay
	Stuck     Status = "STUCK"     // final, and the effects contradict the payment: a person decides
)

// transition is a change of status that an order may make, with its cause.
type transition struct {
	From, To Status
	Cause    string
}

// transitions lists every allowed change of status. states.md draws the table. The database refuses
// the changes that would take a slot away from an order.
var transitions = []transition{
	{Queued, Slotted, "admitted by the signer, funds and gas reserved"},
	{
		Queued, Refused,
		"the signer's policy refuses it, or the chain would because of the payee or the amount, or its nonce account " +
			"exists already, or there is nothing to consolidate now",
	},
	{Queued, Recalled, "recalled by its feature, ended by a person, or its time to be paid passed"},
	{Refused, Queued, "submitted again"},
	{Refused, Recalled, "recalled by its feature"},
	{Slotted, Signed, "the signed bytes are stored"},
	{Signed, Broadcast, "a provider accepted them, or a block has them"},
	{Broadcast, Paid, "final, succeeded, its effects and the balances show the payment"},
	{Broadcast, Failed, "final, reverted, or a cancel transaction of the service"},
	{Broadcast, Stuck, "final, succeeded, and its effects or the balances do not show the payment"},
	{Stuck, Paid, "a person found it paid"},
	{Stuck, Failed, "a person found it not paid"},
}

// errLostRace says that an order was not in the status that a step started from. Another process,
// or this one before a crash, was first. The caller drops the step and reads the row again.
var errLostRace = errors.New("order is in another state")

// setStatus changes an order's status by compare-and-swap. set continues the UPDATE with further
// columns; its parameters start at $4. Error: errLostRace.
func setStatus(ctx context.Context, tx pg.Tx, orderID string, from, to Status, set string, args ...any) error {
	return setStatuses(ctx, tx, []string{orderID}, from, to, set, args...)
}

// setStatuses changes the status of several orders as setStatus does: all of them or none.
func setStatuses(ctx context.Context, tx pg.Tx, orderIDs []string, from, to Status, set string, args ...any) error {
	if !slices.ContainsFunc(transitions, func(t transition) bool { return t.From == from && t.To == to }) {
		panic(fmt.Sprintf("dispatch: no way from %s to %s", from, to))
	}
	if set != "" {
		set = ", " + set
	}
	tag, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET status = $3, waiting_for = NULL, missing_amount = NULL`+set+`
		WHERE order_id = ANY ($1) AND status = $2`, append([]any{orderIDs, from, to}, args...)...)
	if err != nil {
		return fmt.Errorf("order %s from %s to %s: %w", strings.Join(orderIDs, ", "), from, to, err)
	}
	if tag.RowsAffected() != int64(len(orderIDs)) {
		return fmt.Errorf("order %s from %s to %s: %w", strings.Join(orderIDs, ", "), from, to, errLostRace)
	}
	return nil
}
