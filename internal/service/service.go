// Package service builds the features and the loops that run them, from a configuration and from
// parts such as a database, chains and a signer. It is the only place that does: coffer serve, the
// commands, a restore and the trials all use what New returns.
//
// It knows which feature owns the orders of a purpose, which parts rely on final blocks, and which
// loops a chain needs. It opens nothing, starts nothing and writes nothing, so a crash leaves no
// trace of it.
package service

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"maps"
	netmail "net/mail"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// Config holds the settings of the features and of their loops. A zero value means the default of
// the feature.
type Config struct {
	Environment string // webhook.Live or webhook.Test, in every event
	// PriceAge returns the maximum age of a mint's price.
	PriceAge func(mintID int) time.Duration
	// HasPriceSource reports whether a mint has a price source.
	HasPriceSource func(mintID int) bool
	// IsPegged reports whether a mint is meant to be worth a dollar; nil: none is.
	IsPegged func(mintID int) bool
	// CheckoutURL returns where payers pay a checkout; nil without pages.
	CheckoutURL func(checkoutID string) string
	// ClaimURL returns where a payer claims a refund; nil without pages.
	ClaimURL    func(refundID, claimKey string) string
	LinkURL     func(slug string) string // the address of a payment link; nil without pages
	NonceSecret []byte                   // of the forms of payment links; nil without pages
	// IsPageKey reports whether a text is the key of a checkout's page; nil without pages.
	IsPageKey   func(checkoutID, key string) bool
	ProofSecret []byte // of the texts that payers sign with their addresses; nil without pages
	PayerHost   string // of the pages, as those texts name it
	// CountOpening counts an opening of an option by a payer for an organization; nil: no limit.
	CountOpening func(orgID string) bool
	// LinkCheckoutsMax is how many unpaid open checkouts the payment links of an organization may have; 0: no limit.
	LinkCheckoutsMax int
	BlockSanctioned  bool          // no deposit of a sanctioned sender is rejected
	CoolingOff       time.Duration // of a new address of the whitelist
	VoidWaitMax      time.Duration // for another process to void an order; 0 where this one has a signer
	Rescreen         deposit.RescreenConfig
	NoRescreening    bool // senders are screened again on request only
	// DevelopmentWebhooks also allows http to this machine's loopback addresses.
	DevelopmentWebhooks bool
	// IsLocal says that the installation is a local network, where URLs of products may be http.
	IsLocal     bool
	QueuesMail  bool   // some process of the installation sends mails
	EndpointURL string // begins the link to the page of an endpoint; "" without pages
	ChangeURL   string // begins the link to the page of a change of settings; "" without pages
	PagesURL    string // begins the links to pages on which people sign; "" without pages
	ConsoleURL  string // begins the links to pages on which operators sign; "" without pages

	ChangeDelay     time.Duration // until a change takes effect that its requester alone may approve
	VerifyInterval  time.Duration // between two runs of the verifier
	AnchorInterval  time.Duration // between two anchors of the audit log
	EventPause      time.Duration // between two looks for events to number and to post; 0 is 50 ms
	RiskAnswersKept time.Duration // until an answer to which nothing refers is deleted
	Swaps           SwapConfig
	Chains          map[chain.Name]ChainConfig
}

// SwapConfig holds the settings of swaps. Without any of them, they are the defaults of package swap. With
// some, a loss of 0 is 0.
type SwapConfig struct {
	PayWindow        time.Duration // for the payment to a provider
	PayWindowBitcoin time.Duration // the same on Bitcoin
	MaxLossBps       int           // how much less the least amount out may be worth, besides the slippage
	DelayedAfter     time.Duration // until a swap at a provider is announced as delayed
	StuckAfter       time.Duration // until an operator may fail a swap
	RefundGrace      time.Duration // for a refund, before a failure is announced
	WithoutPrices    bool          // a mint without a price is swapped, too
}

// ChainConfig holds the settings of the loops of one chain.
type ChainConfig struct {
	Start        *uint64       // the block after which the first walk begins; nil is the final block of that moment
	ScanInterval time.Duration // pause of the walks when there is no new block
	Dispatch     dispatch.Config
	Sweep        sweep.Config
}

// Parts are what the features work with. The caller opens and closes them.
type Parts struct {
	DB        *pg.DB
	Signer    signer.Signer // nil in a process without one; what needs it fails then, see ErrNoSigner
	AttestKey ed25519.PublicKey
	Grants    *signer.GrantKey // nil where this process approves no payments and flags no deposits
	Chains    chain.Chains
	Prices    price.Source
	Risk      risk.Policy
	Log       *slog.Logger

	// SwapProviders are the providers of swaps; the order decides between equal offers. None: no swaps.
	SwapProviders []provider.Member

	// Seal and WebhookKeys are nil in a process that shows no endpoints and posts no webhooks. The
	// first key signs, and the others sign in addition.
	Seal        *seal.Keyset
	WebhookKeys []webhook.Key

	// Mail sends mails to people; nil in a process that sends none. It needs Seal. MailAddress is
	// their sender.
	Mail        mail.Transport
	MailAddress netmail.Address

	// OnScanError and OnWebhook count; they may be nil. See scan.Config and delivery.Dispatcher.
	OnScanError func(name chain.Name, walk string, err error)
	OnWebhook   func(result string)
	// OnTamperedDepositSwap counts, too. See depositswap.Service.
	OnTamperedDepositSwap func(depositSwapID string)
}

// Service is the features and their loops, built once per process.
type Service struct {
	Chains      chain.Chains
	Wallets     *wallet.Service
	Matcher     *wallet.Matcher // of the walks of all chains
	Deposits    *deposit.Service
	Withdrawals *withdrawal.Service
	Transfers   *transfer.Service
	Swaps       *swap.Service
	// DepositSwaps also follows the deposit swaps that it made.
	DepositSwaps *depositswap.Service
	Checkouts    *checkout.Service
	Billing      *billing.Service
	Payouts      *payout.Service
	Whitelist    *whitelist.Service
	Approvers    *approver.Service
	Voider       *dispatch.Voider
	Sequencer    *event.Sequencer
	Endpoints    *delivery.Endpoints
	Dispatcher   *delivery.Dispatcher // nil without WebhookKeys
	Changes      *memberchange.Service
	Outbox       *mail.Outbox // nil without Seal
	MailSender   *mail.Sender // nil without Mail

	conf            Config
	parts           Parts
	walkers         map[chain.Name]*scan.Walker
	dispatchWorkers map[chain.Name]*dispatch.Worker
	sweepers        map[chain.Name]*sweep.Sweeper
}

// clock returns the clock of the database, or the machine's without a database.
func (p Parts) clock() func() time.Time {
	if p.DB == nil {
		return time.Now
	}
	return p.DB.Clock()
}

// New builds the features, and the workers of each chain.
func New(conf Config, parts Parts) *Service {
	if parts.Signer == nil {
		parts.Signer = noSigner{}
	}
	numbering := wire.NewRecorder()
	numbering.Environment = conf.Environment
	s := &Service{
		Chains: parts.Chains, Wallets: wallet.New(parts.DB, parts.Signer, parts.AttestKey),
		Matcher:   wallet.NewMatcher(parts.DB, parts.Log),
		Transfers: transfer.New(parts.DB, numbering), conf: conf, parts: parts,
		walkers: map[chain.Name]*scan.Walker{}, dispatchWorkers: map[chain.Name]*dispatch.Worker{},
		sweepers: map[chain.Name]*sweep.Sweeper{},
	}
	s.Voider = &dispatch.Voider{
		DB: parts.DB, Signer: parts.Signer, Grants: parts.Grants, WaitMax: conf.VoidWaitMax, Log: parts.Log,
	}
	s.buildSwaps()
	s.buildDepositSwaps()
	s.Checkouts = &checkout.Service{
		DB: parts.DB, IsLocal: conf.IsLocal,
		Images:  outbound.New(outbound.Config{Development: conf.DevelopmentWebhooks}),
		Wallets: s.Wallets, Chains: s.Chains, Prices: parts.Prices, PriceAge: conf.PriceAge, IsPegged: conf.IsPegged,
		Costs:  newTransferFees(s.Chains, parts.clock()),
		Events: wire.NewRecorder(), PageURL: conf.CheckoutURL, ClaimURL: conf.ClaimURL, LinkURL: conf.LinkURL,
		NonceSecret: conf.NonceSecret, IsPageKey: conf.IsPageKey, ProofSecret: conf.ProofSecret,
		PayerHost: conf.PayerHost, Risk: parts.Risk, CountOpening: conf.CountOpening,
		LinkCheckoutsMax: conf.LinkCheckoutsMax, PaymentStatuses: paymentStatusTexts(), Log: parts.Log,
	}
	s.Deposits = &deposit.Service{
		DB: parts.DB, Chains: s.Chains, Wallets: s.Wallets,
		Owners: deposit.NewOwners(depositOwners(s.Swaps, s.DepositSwaps, s.Checkouts)),
		Events: wire.NewRecorder(),
		Prices: parts.Prices, PriceAge: conf.PriceAge, Risk: parts.Risk, GrantKey: parts.Grants, Voider: s.Voider,
		BlockSanctioned: conf.BlockSanctioned, Log: parts.Log,
	}
	s.Swaps.Deposits = strayCreditor{s.Deposits}
	approvers := approver.Config{AttestKey: parts.AttestKey, GrantKey: parts.Grants, Chains: s.Chains}
	if conf.QueuesMail && parts.Seal != nil {
		approvers.Mails = &mail.Outbox{Seal: parts.Seal}
	}
	s.Approvers = approver.New(parts.DB, parts.Signer, approvers, parts.Log)
	s.Whitelist = whitelist.New(parts.DB, parts.Signer, whitelist.Config{
		AttestKey: parts.AttestKey, GrantKey: parts.Grants, Chains: s.Chains, CoolingOff: conf.CoolingOff,
		Approvers: s.Approvers,
	}, parts.Log)
	s.Withdrawals = &withdrawal.Service{
		DB: parts.DB, Chains: s.Chains, Wallets: s.Wallets, Events: wire.NewRecorder(), Prices: parts.Prices,
		PriceAge: conf.PriceAge, HasPriceSource: conf.HasPriceSource,
		Risk: parts.Risk, GrantKey: parts.Grants, Whitelist: whitelistAdapter{s.Whitelist}, Voider: s.Voider,
		Approvers: s.Approvers, Groups: withdrawal.NewGroups(),
	}
	s.Swaps.Whitelist, s.Swaps.Payouts = swapWhitelist{whitelistAdapter{s.Whitelist}}, swapPayouts{s.Withdrawals}
	s.Checkouts.Payouts, s.Withdrawals.Refunds = refundPayouts{s.Withdrawals}, refundRestorer{s.Checkouts}
	s.Payouts = NewPayouts(parts.DB, s.Chains, s.Withdrawals, parts.Grants, parts.Log)
	s.Payouts.Approvers, s.Deposits.Approvers, s.Swaps.Approvers = s.Approvers, s.Approvers, s.Approvers
	// Rule PAGE-122.
	if conf.ConsoleURL != "" {
		s.Deposits.RedirectPage = func(id string) string { return conf.ConsoleURL + "/flagged/" + id }
	}
	if conf.PagesURL != "" {
		s.Withdrawals.ApprovalPage = func(id string) string { return conf.PagesURL + "/approvals/withdrawals/" + id }
		s.Payouts.ApprovalPage = func(id string) string { return conf.PagesURL + "/payouts/" + id }
		s.Swaps.ApprovalPage = func(id string) string { return conf.PagesURL + "/organization-swaps/" + id }
		s.Deposits.ReturnPage = func(id string) string { return conf.PagesURL + "/approvals/deposits/" + id }
	}
	s.Voider.Listeners = s.voidListeners()
	s.Changes = &memberchange.Service{DB: parts.DB, Delay: conf.ChangeDelay, URL: conf.ChangeURL}
	s.Billing = &billing.Service{
		DB: parts.DB, Prices: parts.Prices, PriceAge: conf.PriceAge, Chains: slices.Sorted(maps.Keys(s.Chains)),
		Events: wire.NewRecorder(), FeeReaders: s.feeReader, IsLocal: conf.IsLocal, Log: parts.Log,
	}
	s.buildEvents()
	s.buildMail()
	for name, ch := range s.Chains {
		s.buildChain(name, ch)
	}
	return s
}

// buildEvents builds what numbers events and posts them.
func (s *Service) buildEvents() {
	s.Sequencer = &event.Sequencer{
		DB: s.parts.DB, Environment: s.conf.Environment, Listener: delivery.FanOut{}, Log: s.parts.Log,
		IdlePause: s.conf.EventPause,
	}
	if keys := s.parts.WebhookKeys; len(keys) > 0 {
		s.Dispatcher = &delivery.Dispatcher{
			DB: s.parts.DB, Seal: s.parts.Seal, Key: keys[0], FormerKeys: keys[1:],
			Development: s.conf.DevelopmentWebhooks, Log: s.parts.Log, Observe: s.parts.OnWebhook,
			IdlePause: s.conf.EventPause,
		}
		s.Sequencer.OnNumbered = s.Dispatcher.Wake
	}
	s.Endpoints = &delivery.Endpoints{
		Seal: s.parts.Seal, Development: s.conf.DevelopmentWebhooks, Posts: s.Dispatcher,
	}
}

// buildMail builds what queues mails and sends them.
func (s *Service) buildMail() {
	if s.parts.Seal == nil {
		return
	}
	s.Outbox = &mail.Outbox{Seal: s.parts.Seal}
	if s.conf.QueuesMail {
		s.Changes.Mails = s.Outbox
		if s.Dispatcher != nil {
			s.Dispatcher.Mails, s.Dispatcher.EndpointURL = s.Outbox, s.conf.EndpointURL
		}
	}
	if s.parts.Mail != nil {
		s.MailSender = &mail.Sender{
			DB: s.parts.DB, Seal: s.parts.Seal, Transport: s.parts.Mail, Address: s.parts.MailAddress,
			Log: s.parts.Log,
		}
	}
}

// NewRescreener builds the rescreener of senders, which runs on request.
func (s *Service) NewRescreener() *deposit.Rescreener {
	return deposit.NewRescreener(s.parts.DB, s.parts.Risk, s.conf.Rescreen, s.parts.Log)
}

// whitelistAdapter adapts the whitelist to the withdrawals of organizations.
type whitelistAdapter struct{ service *whitelist.Service }

// Usable implements withdrawal.Whitelist.
func (l whitelistAdapter) Usable(
	ctx context.Context, tx pg.Tx, org, listedID string,
) (withdrawal.WhitelistEntry, error) {
	address, err := l.service.Usable(ctx, tx, org, listedID)
	if err != nil {
		return withdrawal.WhitelistEntry{}, err
	}
	return withdrawal.WhitelistEntry{Chain: address.Chain, Address: address.Address}, nil
}
