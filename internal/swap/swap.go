// Package swap converts a balance of a customer into another asset of the same customer, or a balance of
// the organization itself into another asset that is paid to its whitelist, through a provider that is not
// trusted. Coffer pays the provider on one chain, and the provider pays wallets
// of Coffer on another. The package handles the quote, the request, what dispatch reports about the
// payment, what arrives at the wallets of the swap, and what a person decides about a stray arrival.
//
// Invariants:
//
//   - A word of a provider credits nothing, and fails or returns nothing where a final block can
//     decide it.
//   - A row has its hold and its order, and they have their row.
//   - A refused request writes nothing, and a known key returns its swap before anything refuses.
//   - A swap does not fail because of its age while its value is with a provider.
//   - Each amount that came back is restored once.
//
// After a crash the whole request is there (row, offer, hold, order, audit) or none of it but two
// addresses and a deposit address that is never paid. A later crash leaves a row whose worker goes on.
package swap

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/turn"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Config has the limits of swaps. A zero value means the default; no loss at all is a pointer to 0.
type Config struct {
	// PayWindow is how long the payment to a provider may wait, and PayWindowBitcoin the same on
	// chains with slow blocks.
	PayWindow, PayWindowBitcoin time.Duration
	// MaxLossBps is how much less than the second price a swap may bring, in basis points, in
	// addition to the slippage.
	MaxLossBps *int
	// WithoutPrices lets a swap pass for which no second price is known.
	WithoutPrices bool
	// DelayedAfter is after what time the organization is told that a swap takes long.
	DelayedAfter time.Duration
	// StuckAfter is after what time with a provider an operator may end a swap as failed.
	StuckAfter time.Duration
	// RefundGrace is how long a confirmed failure waits for its refund to arrive.
	RefundGrace time.Duration
	// TurnHold is for how long a key waits whose process died while it made the swap; 0: see turn.Queue.
	TurnHold time.Duration
}

// The defaults of Config, and limits that are no setting.
const (
	payWindowDefault        = 30 * time.Minute
	payWindowBitcoinDefault = 90 * time.Minute
	maxLossBpsDefault       = 300
	delayedAfterDefault     = 30 * time.Minute
	stuckAfterDefault       = 24 * time.Hour
	refundGraceDefault      = 5 * time.Minute

	// slippageBpsDefault is used for a request that names none.
	slippageBpsDefault = 100
	slippageBpsMax     = 1000
	// slippageAskedMax is the most that a provider is asked for: the signer's policy allows no more
	// unless a person raises it.
	slippageAskedMax = 300
	// partialWait is how long a delivery below the minimum waits for its rest once the provider has
	// reported success.
	partialWait = 30 * time.Minute
	// failureConfirm is how long a provider has to stand by the report of a failure.
	failureConfirm = time.Minute
	// delayedFactor is how many times the provider's estimate a swap may take before it counts as
	// delayed.
	delayedFactor = 3
	// refundLeastBps is the least part of the amount that counts as a refund, in basis points, unless it
	// completes the refund.
	refundLeastBps = 10
	// refundFeeMaxBps is the most that a provider may keep of a refund, in basis points of the amount.
	refundFeeMaxBps = 1_000
	// overDeliveryBps is the most that a delivery may have over the offer, in basis points of the
	// offer. More belongs to no one until a person decides.
	overDeliveryBps = 11_000
	wholeBps        = 10_000
	priceAgeMax     = 5 * time.Minute
)

func (c Config) withDefaults() Config {
	setDuration := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	setDuration(&c.PayWindow, payWindowDefault)
	setDuration(&c.PayWindowBitcoin, payWindowBitcoinDefault)
	setDuration(&c.DelayedAfter, delayedAfterDefault)
	setDuration(&c.StuckAfter, stuckAfterDefault)
	setDuration(&c.RefundGrace, refundGraceDefault)
	if c.MaxLossBps == nil {
		c.MaxLossBps = new(maxLossBpsDefault)
	}
	return c
}

// payWindow returns how long a payment on a chain may wait.
func (c Config) payWindow(name chain.Name) time.Duration {
	if name.IsUTXO() {
		return c.PayWindowBitcoin
	}
	return c.PayWindow
}

// WalletService issues the wallets of swaps, and returns them and treasuries. *wallet.Service implements it.
// The calls may be repeated after any error.
type WalletService interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
	Addresses(ctx context.Context, refs ...signer.WalletRef) ([]wallet.Wallet, error)
}

// StrayCreditor shows a stray arrival to its organization, and returns what its credit posts and
// records. It writes through tx.
type StrayCreditor interface {
	CreditStray(ctx context.Context, tx pg.Tx, depositID string, requester audit.Actor) (CreditedStray, error)
}

// CreditedStray is what the credit of a stray arrival posts and records.
type CreditedStray struct {
	Posting ledger.Posting
	Event   event.Event
	Audit   audit.Entry
}

// Service accepts swaps and carries them to their end. It is safe for concurrent use, by any number of
// processes. NewService makes one.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets WalletService
	Panel   *provider.Panel
	Prices  price.Source
	Events  event.Recorder
	// PriceAge returns the greatest age of a mint's price that decides; nil: five minutes.
	PriceAge func(mintID int) time.Duration
	// GrantKey binds the payment to the terms of the swap, for the signer; nil if the signer requires
	// no grants.
	GrantKey *signer.GrantKey
	// Voider has the signer void payments that were recalled; nil in a process without a signer.
	Voider *dispatch.Voider
	// Deposits credits stray arrivals that a person decided about.
	Deposits StrayCreditor
	// Payouts pays what swaps of organizations bring; nil: in a process that makes none.
	Payouts Payouts
	// Whitelist says where the output of an organization's swap may go; nil: to no address.
	Whitelist Whitelist
	// Approvers says which swaps of organizations people have to sign; nil: none.
	Approvers Approvers
	// ApprovalPage returns the page on which people sign a swap; nil: unknown.
	ApprovalPage func(swapID string) string
	// Seal seals the answers of providers as they came; nil: they are not stored.
	Seal *seal.Keyset
	Log  *slog.Logger

	conf   Config
	gate   turn.Gate
	judged judgedStrays
}

// NewService returns a Service with the settings of conf; the caller sets the exported fields before
// the first call.
func NewService(conf Config) *Service {
	return &Service{conf: conf.withDefaults(), Log: slog.Default()}
}

// Service listens to dispatch and owns what arrives at the wallets of swaps.
var (
	_ dispatch.Listener        = (*Service)(nil)
	_ dispatch.VoidListener    = (*Service)(nil)
	_ dispatch.RestoreListener = (*Service)(nil)
)

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

// Swap is a swap as an organization sees it.
type Swap struct {
	ID             string
	OrgID          string
	IdempotencyKey string // "" if it was restored from the signer's journal, which has only the hash
	Kind           Kind
	CustomerID     string    // of a customer's swap
	Product        string    // of an organization's swap
	From, To       mint.Mint // id, chain, contract, symbol, name and decimals; nothing else of it is read
	AmountIn       money.Amount
	EstimatedOut   money.Amount
	MinOut         money.Amount
	AmountOut      *money.Amount // what arrived; nil until it has
	Provider       string
	Status         Status

	FeeAmount        money.Amount // in units of From
	FeeBps           int
	USDValue         *money.USD // of AmountIn at the creation, for display
	EstimatedSeconds *int

	OriginTxHash, DestinationTxHash, RefundTxHash *chain.TxHash

	FailureReason, FailureMessage *string

	Refunded     money.Amount // what came back
	Restored     money.Amount // what of it the customer or the product has again
	Short        money.Amount // what the provider keeps for good
	RefundReport provider.RefundReport

	DepositID *string // of the delivery that completes it
	Metadata  map[string]string

	CreatedAt, UpdatedAt             time.Time
	CompletedAt, FailedAt            *time.Time
	RestoredAt, DelayedAt, PaidAt    *time.Time
	PayBy, ExpiresAt                 time.Time
	DepositAddress                   string // of the provider; the organization never sees it
	DeliveryWalletID, RefundWalletID string // never shown
	LookAt                           *time.Time

	// Of an organization's swap: where its output goes, who asked for it, and who has to agree.
	WhitelistedID     string
	PayoutAddress     chain.Address // of the entry when the swap was requested
	PayoutMax         *money.Amount // the most that its approvals let go
	PayoutUntil       *time.Time    // until when
	PayoutID          *string       // the withdrawal that pays the output; nil until there is one
	DeliveredAt       *time.Time    // when the output was credited
	ApprovedAt        *time.Time    // when the last approval that it needs was given
	ApprovalsRequired int           // 0: no person has to approve it
	ApprovalCount     int
	Approvers         []audit.Actor // whose approvals count, first one first
	ToSignAgain       []audit.Actor // whose signatures of a swap that waits have too little time left
	Requester         audit.Actor   // zero if it was restored from the signer's journal
	RejectedNote      *string       // why a person rejected it

	digest      []byte // of the caller's parameters; nil if it was restored
	refundFee   money.Amount
	slippageBps *int   // of an organization's swap that was not restored
	mac         []byte // of what is approved of an organization's swap, as it was requested
}

// RefundFee returns what the provider keeps of a refund, as it signed.
func (w Swap) RefundFee() money.Amount { return w.refundFee }

// RefundStatus is how far a refund has come.
type RefundStatus string

// The refund statuses.
const (
	RefundNone        RefundStatus = "NONE"
	RefundPending     RefundStatus = "PENDING"
	RefundPartial     RefundStatus = "PARTIAL"     // a part came back
	RefundComplete    RefundStatus = "REFUNDED"    // all came back, less what the provider keeps
	RefundRestored    RefundStatus = "RESTORED"    // the customer has what came back
	RefundUnavailable RefundStatus = "UNAVAILABLE" // the provider says that there will be none
	RefundManual      RefundStatus = "MANUAL"      // a person at the provider decides
)

// RefundStatus computes how far the refund has come, from what final blocks show. Only where nothing
// came back is the provider's word shown. Rule SWAP-50.
func (w Swap) RefundStatus() RefundStatus {
	settled, err := w.Refunded.Add(w.Short)
	switch {
	case !w.Refunded.IsZero() && w.Restored == w.Refunded:
		return RefundRestored
	case !w.Refunded.IsZero() && err == nil && settled == w.AmountIn:
		return RefundComplete
	case !w.Refunded.IsZero():
		return RefundPartial
	}
	return RefundStatus(w.RefundReport)
}

// RefundedAmount returns what came back, or nil if nothing has.
func (w Swap) RefundedAmount() *money.Amount {
	if w.Refunded.IsZero() {
		return nil
	}
	return &w.Refunded
}

// owner returns whose balance pays.
func (w Swap) owner() ledger.Owner { return ledger.OwnerOf(w.CustomerID, w.Product) }

// isOfOrganization reports whether it is the organization's own money.
func (w Swap) isOfOrganization() bool { return w.Kind == OrganizationSwap }

// isDelivered reports whether the output has arrived and is credited.
func (w Swap) isDelivered() bool { return w.AmountOut != nil }

// isUnderway reports whether the swap has no end yet and waits for its output.
func (w Swap) isUnderway() bool { return w.Status.isOpen() && !w.isDelivered() }

// hasOffer reports whether a provider has made the offer that the swap pays.
func (w Swap) hasOffer() bool { return w.Provider != "" }

// Failed is what the organization is told of a failed or refunded swap.
type Failed struct {
	Swap     Swap
	Refunded *money.Amount // what had come back; nil if nothing had
}

// Report is one report of a provider as it was stored.
type Report struct {
	Number    int
	Status    provider.Status
	Word      string
	Refund    provider.RefundReport
	Reason    string
	TxHashes  []string
	CreatedAt time.Time
}

// actor is this package as an actor of the audit log.
var actor = audit.System("swap")

// resourceKind names swaps in the audit log.
const resourceKind = "SWAP"

// eventResource names swaps in events.
const eventResource = "swap"

func newEntry(w Swap, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: w.OrgID, Actor: requester, Action: "swap." + verb, ResourceKind: resourceKind, ResourceID: w.ID,
		Detail: detail,
	}
}

func encodeMetadata(m map[string]string) json.RawMessage {
	if len(m) == 0 {
		return json.RawMessage(`{}`)
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic("swap: metadata of strings cannot be encoded: " + err.Error())
	}
	return text
}
