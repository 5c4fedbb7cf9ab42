package swap

import (
	"context"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// WhitelistEntry is an address on an organization's whitelist that may be paid now.
type WhitelistEntry struct {
	Chain   chain.Name
	Address chain.Address // in its canonical form
}

// Whitelist says where an organization's own money may go.
type Whitelist interface {
	// Usable returns an entry that may be paid as the transaction sees it. A fault says why the entry may
	// not be paid, and the transaction goes on.
	Usable(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, error)
}

// PayoutState is how far the payment of an organization's output has come.
type PayoutState string

// The states.
const (
	PayoutOpen  PayoutState = "OPEN"
	PayoutPaid  PayoutState = "PAID"
	PayoutEnded PayoutState = "ENDED" // it is never paid, and its amount is in the product again
)

// Payout is the payment of a swap's output to the whitelist entry of the swap.
type Payout struct {
	OrgID, SwapID, Product string
	MintID                 int
	Amount                 money.Amount // what arrived; for a native coin the network fee comes out of it
	WhitelistedID          string
	Key                    string          // the idempotency key, which follows from the swap
	Approved               *ApprovedPayout // what people approved; nil: the swap needed no approval
}

// ApprovedPayout is what people approved with the swap, and their approvals.
type ApprovedPayout struct {
	Approvals []signer.Approval
	Required  int
}

// Payouts pays the outputs of swaps of organizations. Its calls may be repeated after any error.
type Payouts interface {
	// RequestPayout requests a payment, or returns the one that the key has. A fault says that the
	// payment is refused now and why.
	RequestPayout(ctx context.Context, p Payout) (payoutID string, err error)
	// PayoutState returns how far a payment has come, and why it ended.
	PayoutState(ctx context.Context, org, payoutID string) (state PayoutState, message string, err error)
}
