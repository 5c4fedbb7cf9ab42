package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/pg"
)

// durableNonce is the slot model of chains with durable nonce accounts. The slot key is a nonce
// account and its value. A slot is taken when the value is final, no order has it, and it is
// proven. It is used once the account has another value, and a slot key is never given out again.
// The creation of a nonce account has the address of that account as its slot key.
type durableNonce struct {
	nonceOnly
	prover chain.SlotProver
}

func (m durableNonce) whyNoneFree(ctx context.Context, acct chain.Account) (string, error) {
	free, err := m.freeSlotKeys(ctx, acct)
	if err != nil {
		return "", err
	}
	if free = m.d.withoutForeign(free); len(free) == 0 {
		return "every nonce account of its wallet on the chain is in use until the transaction in it is final", nil
	}
	if len(provenSlots(acct, free)) == 0 {
		return "no free nonce account of its wallet on the chain is proven yet: " + m.unprovenReason(free), nil
	}
	return "", nil
}

func (m durableNonce) take(
	ctx context.Context, tx pg.Tx, acct chain.Account, orders []Order, _ int, _ chain.Address, _ []chain.Payment,
	taken *takenSlot,
) error {
	lead := orders[0]
	if lead.Kind().SlotIsPayee {
		taken.Key = string(lead.To)
		return nil
	}
	freeKeys, err := queryFreeSlotKeys(ctx, tx, lead.Chain, acct)
	if err != nil {
		return err
	}
	proven := provenSlots(acct, m.d.withoutForeign(freeKeys))
	if len(proven) == 0 {
		return errNoFreeSlotKey
	}
	taken.Key, taken.proof = proven[0].Final, proven[0].Proof
	return nil
}

func (m durableNonce) leaveWithout(
	ctx context.Context, orders []Order, _ int, cause error,
) (unhandled, err error) {
	if !errors.Is(cause, errNoFreeSlotKey) {
		return cause, nil
	}
	return nil, m.d.leaveAllWaiting(ctx, orders, WaitSlot, cause.Error())
}

// errNoFreeSlotKey says that other orders took the last free slot of a wallet.
var errNoFreeSlotKey = errors.New("every nonce account of its wallet on the chain was taken in the meantime")

// freeSlotKeys returns the keys of an account's slots that no order has.
func (m durableNonce) freeSlotKeys(ctx context.Context, acct chain.Account) (slotKeys []string, err error) {
	err = m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		slotKeys, err = queryFreeSlotKeys(ctx, tx, m.d.chain.Name, acct)
		return err
	})
	return slotKeys, err
}

// queryFreeSlotKeys returns the slot keys of an account that are the same in the latest and the
// final block and that no order has, in the account's order. A slot key that was given out once is
// never given out again.
func queryFreeSlotKeys(ctx context.Context, tx pg.Tx, name chain.Name, acct chain.Account) (free []string, err error) {
	for _, l := range acct.Slots {
		if l.Latest == l.Final && l.Final != "" {
			free = append(free, l.Final)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT slot_key FROM dispatch_slots
		WHERE chain = $1 AND slot_key <> ''
			AND md5(slot_key) = ANY (ARRAY(SELECT md5(l) FROM unnest($2::text[]) l)) AND slot_key = ANY ($2)`,
		name, free)
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	return slices.DeleteFunc(free, func(l string) bool { return slices.Contains(taken, l) }), nil
}
