package dispatch

import (
	"context"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
)

// slotModel says how orders get a slot on a chain. Every slot has a nonce, the wallet's own count;
// a model adds what else the slot takes.
type slotModel interface {
	// whyNoneFree returns why an account has no slot for another order now, or "".
	whyNoneFree(ctx context.Context, acct chain.Account) (string, error)
	// changeAddress returns the address for the change of a slot, before its transaction begins, or
	// "" where slots have none.
	changeAddress(ctx context.Context, lead Order) (chain.Address, error)
	// take completes a slot that has its nonce, under the lock of the row that counts nonces. It
	// may change the fees and the cost.
	take(
		ctx context.Context, tx pg.Tx, acct chain.Account, orders []Order, native int, change chain.Address,
		payments []chain.Payment, taken *takenSlot,
	) error
	// reserve reserves what the slot takes for its lead, after the slot is written.
	reserve(ctx context.Context, tx pg.Tx, lead Order, s chain.Slot) error
	// leaveWithout leaves orders waiting, or ends one, that got no slot for a cause of the model.
	// unhandled is cause, if that is an error of another kind.
	leaveWithout(ctx context.Context, orders []Order, native int, cause error) (unhandled, err error)
}

// takenSlot is a slot that is not written yet, and what its transaction costs.
type takenSlot struct {
	chain.Slot
	proof string // see slot.Proof
	fees  chain.Fees
	cost  money.Amount // the most that fees come to
}

// newSlotModel returns the model of the Worker's chain: it follows from the ports that the chain
// has.
func newSlotModel(d *Worker) slotModel {
	switch {
	case d.chain.UTXO != nil:
		return utxoSet{d}
	case d.chain.SlotProver != nil:
		return durableNonce{d}
	default:
		return accountNonce{}
	}
}
