package checkout

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// PaymentStatus is what became of a payment, as far as a checkout cares.
type PaymentStatus string

// The statuses of a payment.
const (
	PaymentSeen     PaymentStatus = "SEEN"     // on the chain, and not decided
	PaymentCredited PaymentStatus = "CREDITED" // in the balance
	PaymentFlagged  PaymentStatus = "FLAGGED"  // held by screening, or on its way back or elsewhere
	PaymentReturned PaymentStatus = "RETURNED" // back at its sender, or at the operator's address
	PaymentOrphaned PaymentStatus = "ORPHANED" // its block is no longer on the chain
	PaymentReversed PaymentStatus = "REVERSED" // was in the balance until finality itself broke
	PaymentUnusable PaymentStatus = "UNUSABLE" // never credited: an unknown token, or below the minimum
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
	From, To         PaymentStatus // From is "" if the deposit is new
	// BlockTime is the time of the block that shows the deposit. It is zero for a change that comes from no block.
	BlockTime time.Time
	// References are the accounts that the transaction only names, in a change that comes from a block, if the
	// wallet is shared.
	References []string
}

// OnArrivals hears of changes of deposits at the wallets of checkouts, in the transaction that writes them. The rows
// of the deposits are locked. The transaction may run twice.
func (s *Service) OnArrivals(_ context.Context, _ pg.Tx, _ []Arrival) error { return nil }
