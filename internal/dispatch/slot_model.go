package dispatch

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// slotModel says how orders get a slot on a chain, and what happens to it until its release. Every
// slot has a nonce, the wallet's own count; a model adds what else the slot takes. Every model
// embeds nonceOnly and states what it has besides. chain.Account says of a slot of any model
// whether it is used.
type slotModel interface {
	// whyNoneFree returns why an account has no slot for another order now, or "".
	whyNoneFree(ctx context.Context, acct chain.Account) (string, error)
	// changeAddress returns the address for the change of a slot, before its transaction begins, or
	// "" where slots have none.
	changeAddress(ctx context.Context, lead Order) (chain.Address, error)
	// create runs the transaction that writes a slot, again where another slot was first with what
	// it takes.
	create(write func() error) error
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

	// isSequential reports whether the chain numbers an account's transactions. Then those in later
	// slots cannot be mined before one in an earlier slot.
	isSequential() bool

	// proveFree adds the proofs to the free slots of an account. A slot without a proof is reported
	// and left out; the others stay usable.
	proveFree(ctx context.Context, payer wallet.Wallet, acct *chain.Account) error
	// prove searches the proof of a slot that was written without one, by an earlier version or
	// from an earlier journal. Without a proof, the signer refuses to sign anything new in the slot.
	prove(ctx context.Context, payer wallet.Wallet, s *slot) error

	// watch checks the slots of the wallets that are due, whether or not they have orders.
	watch(ctx context.Context) error
	// checkCreatable reports whether an order can create its slot. free: nothing exists at the
	// address, in the latest block and finally. taken: something exists there, for good.
	checkCreatable(ctx context.Context, acct chain.Account, o Order) (free, taken bool, err error)
	// followExpiring rebroadcasts the transaction that creates a slot, and rebuilds it once it
	// expired.
	followExpiring(ctx context.Context, payer wallet.Wallet, s slot) (busy bool, err error)

	// release releases what the slot of an order that ended took. The rows of all features are
	// written before, and the Worker may lack its chain.
	release(ctx context.Context, tx pg.Tx, end orderEnd) error
}

// takenSlot is a slot that is not written yet, and what its transaction costs.
type takenSlot struct {
	chain.Slot
	proof string // see slot.Proof
	fees  chain.Fees
	cost  money.Amount // the most that fees come to
}

// newSlotModel returns the model of a chain.
func newSlotModel(d *Worker, name chain.Name) slotModel {
	nonce := nonceOnly{d}
	switch name.Family() {
	case chain.BitcoinFamily:
		return utxoSet{nonce, d.chain.UTXO}
	case chain.SolanaFamily:
		return durableNonce{nonce, d.chain.SlotProver, d.chain.NonceAccounts}
	default:
		return accountNonce{nonce}
	}
}

// The most orders that share one slot, however many payments a transaction could make. All orders of
// a slot end together, and each adds to the rows that are locked at once. On UTXO chains the outputs
// that an organization has free limit how much it pays at a time, so more orders share them there.
const (
	ordersPerTxMax     = 24
	ordersPerUTXOTxMax = 100
)

// OrdersPerTxMax returns the most orders that share one slot on a chain. Rule BP-20.
func OrdersPerTxMax(name chain.Name) int {
	if name.IsUTXO() {
		return ordersPerUTXOTxMax
	}
	return ordersPerTxMax
}

// nonceOnly is a model whose slots take the nonce and nothing else, and need no proof.
type nonceOnly struct{ d *Worker }

func (nonceOnly) whyNoneFree(context.Context, chain.Account) (string, error) { return "", nil }

func (nonceOnly) changeAddress(context.Context, Order) (chain.Address, error) { return "", nil }

func (nonceOnly) create(write func() error) error { return write() }

func (nonceOnly) take(
	context.Context, pg.Tx, chain.Account, []Order, int, chain.Address, []chain.Payment, *takenSlot,
) error {
	return nil
}

func (nonceOnly) reserve(context.Context, pg.Tx, Order, chain.Slot) error { return nil }

func (nonceOnly) leaveWithout(_ context.Context, _ []Order, _ int, cause error) (unhandled, err error) {
	return cause, nil
}

func (nonceOnly) isSequential() bool { return false }

func (nonceOnly) proveFree(context.Context, wallet.Wallet, *chain.Account) error { return nil }

func (nonceOnly) prove(context.Context, wallet.Wallet, *slot) error { return nil }

func (nonceOnly) watch(context.Context) error { return nil }

func (nonceOnly) checkCreatable(_ context.Context, _ chain.Account, o Order) (free, taken bool, err error) {
	return false, false, fmt.Errorf("no nonce accounts can be created on %s", o.Chain)
}

func (m nonceOnly) followExpiring(ctx context.Context, payer wallet.Wallet, s slot) (busy bool, err error) {
	return m.d.resendOrBump(ctx, payer, s, false)
}

func (nonceOnly) release(context.Context, pg.Tx, orderEnd) error { return nil }
