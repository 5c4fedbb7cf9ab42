// Package depositswap turns a token of almost any chain into a deposit of a customer: the customer pays an
// address of a provider, which is not trusted, and the provider pays USDC to a wallet of Coffer that exists
// for this deposit swap alone.
//
// Invariants:
//
//   - A word of a provider credits nothing. Whatever is final at the wallet is a deposit of the customer, in
//     every status, also late and also another mint.
//   - An address is shown only if the provider's pinned key signed it for our wallet and for the caller's
//     refund address, and the MAC of the server holds the row together.
//   - An arrival without a row waits, and is credited to no guess.
//   - Screening asks about who paid the provider, and never about the provider.
//
// A crash before the one transaction of a request leaves a wallet and an address at a provider that is never
// shown. The same key finds the same wallet. A later crash leaves a row whose worker goes on.
package depositswap

import (
	"context"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/turn"
	"github.com/cofferpay/coffer/internal/wallet"
)

// WalletService issues the wallets of deposit swaps and verifies them. *wallet.Service implements it. The
// calls may be repeated after any error.
type WalletService interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
	VerifyAttestation(w wallet.Wallet) error
}

// Service accepts deposit swaps and follows them. It is safe for concurrent use, by any number of processes.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets WalletService
	Panel   *provider.Panel
	Prices  price.Source
	// PriceAge returns the greatest age of a mint's price; nil: five minutes.
	PriceAge func(mintID int) time.Duration
	// GrantKey makes the MAC that holds a row together; it is not in the database. nil in tests of other
	// subjects, where rows have no MAC.
	GrantKey *signer.GrantKey
	// Destination is the token that providers deliver; zero: the USDC of Solana in the catalogue.
	Destination provider.Token
	// OnTampered counts a row whose address is not shown, because its signed quote, its wallet or its MAC does
	// not hold; it may be nil.
	OnTampered func(depositSwapID string)
	// TurnHold is for how long a key waits whose process died while it made the deposit swap; 0: see turn.Queue.
	TurnHold time.Duration
	Log      *slog.Logger

	gate turn.Gate
}

// The defaults of deposit swaps.
const (
	slippageBps = 100
	// payTime is how long a provider is asked to wait for the payment. It signs a time of its own.
	payTime = 24 * time.Hour
	// payTimeLeast is the least time that a signed quote has to leave.
	payTimeLeast = 10 * time.Minute
	// quoteUSD is the amount in dollars of a question about a token for which the caller names no amount.
	quoteUSD    = 100
	priceAgeMax = 5 * time.Minute
)

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

// actor is this package as an actor of the audit log.
var actor = audit.System("depositswap")

// resourceKind names deposit swaps in the audit log.
const resourceKind = "DEPOSIT_SWAP"

// Token is a token that some provider takes.
type Token struct {
	// ID names the token in the API: chain and contract, such as ethereum:0x6b17… or bitcoin:native. The
	// chain is in lower case.
	ID string
	provider.Token
	Symbol   string // for display only
	Decimals int
	// MinAmount is the least amount that a provider takes; nil if none says so.
	MinAmount *money.Amount
}

// TokenFilter narrows the list of tokens. A zero field does not narrow it.
type TokenFilter struct {
	Chain  string // in any case of letters
	Search string // in the symbol or the contract, in any case of letters
}

// QuoteRequest asks what a deposit swap would bring.
type QuoteRequest struct {
	OriginTokenID string
	AmountIn      *string // atomic units of the token; nil: about 100 USD
}

// Quote is what a deposit swap would bring now. It binds no one.
type Quote struct {
	Token            Token
	To               mint.Mint
	AmountIn         money.Amount // that was asked about
	EstimatedOut     money.Amount
	MinOut           money.Amount
	EstimatedSeconds *int
	Provider         string
	Rate             string // whole tokens out for a whole token in
	QuotedAt         time.Time
	USDValue         *money.USD // of the estimate; nil: no price
}

// Request is a deposit swap as the caller asks for it.
type Request struct {
	IdempotencyKey *string // nil: each call makes another deposit swap
	CustomerID     string
	OriginTokenID  string
	AmountIn       *string // atomic units of the token; nil: the caller names none
	RefundAddress  string  // of the payer, on the chain of the token
	CustomerEmail  *string // written only if the customer has none
	// UntrustedEmail says that an e-mail that is written counts for no rule until its cooling-off is over.
	UntrustedEmail bool
	Actor          audit.Actor
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse the
	// request.
	Limit func() error
}

// DepositSwap is a deposit swap as an organization sees it.
type DepositSwap struct {
	ID             string
	OrgID          string
	CustomerID     string
	IdempotencyKey string // "" if the caller gave none
	Token          Token
	To             mint.Mint
	DepositAddress string        // of the provider: the customer pays it; "" for an ended one that cannot be verified
	AmountIn       *money.Amount // nil if the caller named none
	EstimatedOut   money.Amount
	MinOut         money.Amount
	ExpiresAt      time.Time // the provider takes no payment after it, as it signed
	RefundAddress  string
	Status         Status

	Received  *money.Amount // what our own node saw at the provider's address; nil: nothing, or no node of ours
	AmountOut *money.Amount // what arrived at our wallet and is final, in units of To; nil: nothing yet
	Refunded  *money.Amount // what our own node saw of a refund; nil: nothing, or no node of ours

	OriginTxHash, DestinationTxHash *chain.TxHash
	FailureReason                   *string

	DepositIDs []string // what arrived, oldest first
	Provider   string

	CreatedAt, UpdatedAt time.Time
	CompletedAt          *time.Time

	stored stored
}

// stored is what of a row only this package reads.
type stored struct {
	digest           []byte
	wallet           wallet.Wallet
	scheme           string
	signedQuote      []byte
	originAsset      string // the names that the provider has for both tokens
	destinationAsset string
	mac              []byte
	knownPayments    []chain.TxHash
	knownRefunds     []chain.TxHash
	payers           []chain.Address
	payerSource      PayerSource
	successSaidAt    *time.Time
	failureSaidAt    *time.Time
	lookCount        int
}

// terms returns the fields that the MAC covers.
func (d DepositSwap) terms() signer.DepositSwapTerms {
	return signer.DepositSwapTerms{
		OrgID: d.OrgID, DepositSwapID: d.ID, CustomerID: d.CustomerID, OriginChain: d.Token.Chain,
		OriginContract: d.Token.Contract, OriginAsset: d.stored.originAsset,
		DestinationAsset: d.stored.destinationAsset, OriginDecimals: d.Token.Decimals, ToMintID: d.To.ID,
		AmountIn: d.AmountIn, WalletID: d.stored.wallet.ID, WalletAddress: d.stored.wallet.Address,
		RefundAddress: d.RefundAddress, Provider: d.Provider, DepositAddress: d.DepositAddress,
		SignedQuote: d.stored.signedQuote,
	}
}

// Payers returns who paid the provider, and how that is known. The organization does not see it.
func (d DepositSwap) Payers() ([]chain.Address, PayerSource) {
	return d.stored.payers, d.stored.payerSource
}

func newEntry(d DepositSwap, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: d.OrgID, Actor: requester, Action: "deposit_swap." + verb, ResourceKind: resourceKind,
		ResourceID: d.ID, Detail: detail,
	}
}
