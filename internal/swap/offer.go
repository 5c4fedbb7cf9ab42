package swap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/wallet"
)

// askDeadline is until when a provider is asked to keep an offer open after the payment window.
const askDeadline = 6 * time.Hour

// settleMargin returns how long before the provider's deadline a payment on a chain has to be sent: it
// has to become final in time, also with a fee that is raised.
func settleMargin(name chain.Name) time.Duration {
	if name.IsUTXO() {
		return 3 * time.Hour
	}
	return 30 * time.Minute
}

// payWindowLeast is the least time that a provider's offer has to leave for a payment, unless the configured
// window is shorter.
const payWindowLeast = 5 * time.Minute

// secondPrice is what both mints are worth by sources other than the provider's own.
type secondPrice struct {
	inUSD, outUSD money.USD // of a whole token
	source        string
	quotedAt      time.Time // of the older one
	isKnown       bool
}

// loadPrices returns the prices of both mints as all sources have them; the quotes name their
// components.
func (s *Service) loadPrices(ctx context.Context, from, to mint.Mint) (inPrice, outPrice price.Quote, err error) {
	if inPrice, err = s.Prices.USD(ctx, from.ID); err != nil {
		return inPrice, outPrice, err
	}
	outPrice, err = s.Prices.USD(ctx, to.ID)
	return inPrice, outPrice, err
}

// isOwnSource reports whether a price source belongs to a provider: its name has the same letters.
func isOwnSource(source, providerName string) bool {
	return strings.EqualFold(strings.ReplaceAll(source, "_", ""), strings.ReplaceAll(providerName, "_", ""))
}

// withoutOwn returns the price by which an offer of a provider is judged. It is not known if a price
// is missing or old, or if only the provider itself gives one. Rule SWAP-8.
func (s *Service) withoutOwn(
	inPrice, outPrice price.Quote, priceErr error, providerName string, from, to mint.Mint,
) secondPrice {
	if priceErr != nil {
		return secondPrice{}
	}
	now := s.DB.Clock()()
	var quotes [2]price.Quote
	for i, q := range []price.Quote{inPrice, outPrice} {
		independent, err := price.WithoutSource(q, func(source string) bool {
			return isOwnSource(source, providerName)
		})
		if err == nil {
			err = price.CheckFresh(independent, now, s.priceAge([]int{from.ID, to.ID}[i]))
		}
		if err != nil {
			return secondPrice{}
		}
		quotes[i] = independent
	}
	p := secondPrice{inUSD: quotes[0].Price, outUSD: quotes[1].Price, quotedAt: quotes[0].QuotedAt, isKnown: true}
	if quotes[1].QuotedAt.Before(p.quotedAt) {
		p.quotedAt = quotes[1].QuotedAt
	}
	p.source = quotes[0].Source
	if quotes[1].Source != p.source {
		p.source += "; " + quotes[1].Source
	}
	return p
}

// expected returns how much of the destination mint an amount is worth at the second price.
func (p secondPrice) expected(amountIn money.Amount, from, to mint.Mint) (money.Amount, error) {
	return money.Convert(amountIn, from.Decimals, p.inUSD, to.Decimals, p.outUSD)
}

// lossBps returns by how many basis points an amount out is below what is expected, 0 if it is not.
func lossBps(expected, out money.Amount) int {
	missing := money.SubOrZero(expected, out)
	if missing.IsZero() || expected.IsZero() {
		return 0
	}
	n := missing.Big()
	n.Mul(n, money.Units(wholeBps).Big()).Div(n, expected.Big())
	return int(n.Int64())
}

// errTooLow says that an offer brings much less than the second price.
var errTooLow = errors.New("the offer is too far below the price of other sources")

// errTooHigh says that a dry offer promises much more than the second price.
var errTooHigh = errors.New("the offer is too far above the price of other sources to be believed")

// checkBelievable refuses a dry offer whose least amount is further above the second price than an offer may be below
// it. No one signed a dry offer, and its numbers become what people approve: a promise that no provider keeps would
// let the approved swap wait for an offer in vain. A firm offer may promise anything. Error: errTooHigh. Rule SWAP-8.
func (s *Service) checkBelievable(p secondPrice, offer provider.Offer, from, to mint.Mint) error {
	if !p.isKnown {
		return nil // checkPrice decides whether a price is needed
	}
	expected, err := p.expected(offer.AmountIn, from, to)
	if err != nil {
		return fmt.Errorf("value of a swap of mint %d for mint %d: %w", from.ID, to.ID, err)
	}
	believed, err := expected.Bps(uint64(wholeBps + *s.conf.MaxLossBps))
	if err != nil {
		return fmt.Errorf("the most that is believed of a swap of mint %d for mint %d: %w", from.ID, to.ID, err)
	}
	if !expected.IsZero() && believed.Less(offer.MinAmountOut) {
		return fmt.Errorf("it promises at least %s where %s are expected: %w", offer.MinAmountOut, expected, errTooHigh)
	}
	return nil
}

// checkPrice judges an offer by the second price, and by what the provider keeps of a refund: a provider
// that may keep all of it owes nothing. Errors: errTooLow, price.ErrUnavailable. Rule SWAP-8.
func (s *Service) checkPrice(p secondPrice, ask provider.Ask, offer provider.Offer, from, to mint.Mint) error {
	feeMax, err := offer.AmountIn.Bps(refundFeeMaxBps)
	if err != nil {
		return fmt.Errorf("the most that a provider keeps of a refund of mint %d: %w", from.ID, err)
	}
	if feeMax.Less(offer.RefundFee) {
		return fmt.Errorf("it keeps %s of a refund of %s: %w", offer.RefundFee, offer.AmountIn, errTooLow)
	}
	if !p.isKnown {
		if s.conf.WithoutPrices {
			return nil
		}
		return price.ErrUnavailable
	}
	expected, err := p.expected(offer.AmountIn, from, to)
	if err != nil {
		return fmt.Errorf("value of a swap of mint %d for mint %d: %w", from.ID, to.ID, err)
	}
	if lossBps(expected, offer.MinAmountOut) > *s.conf.MaxLossBps+ask.SlippageBps {
		return errTooLow
	}
	return nil
}

func token(m mint.Mint) provider.Token {
	return provider.Token{Chain: m.Chain, Contract: m.Contract}.Canonical()
}

// newAsk returns the question for a swap.
func (s *Service) newAsk(p parsed, recipient, refundTo chain.Address, now time.Time, reference string) provider.Ask {
	return provider.Ask{
		Origin: token(p.from), Destination: token(p.to), AmountIn: p.amountIn, Recipient: recipient,
		RefundTo: refundTo, SlippageBps: min(p.slippageBps, slippageAskedMax), MinAmountOut: p.minOut,
		Deadline:  now.Add(s.conf.payWindow(p.from.Chain) + settleMargin(p.from.Chain) + askDeadline),
		Reference: reference,
	}
}

// compare asks all healthy providers for dry quotes and returns the offers that a second price
// accepts, the best one first. treasuries are the organization's. It writes nothing. Errors: faults
// QUOTE_REJECTED, PROVIDER_ERROR, PROVIDER_TIMEOUT, UNAVAILABLE.
func (s *Service) compare(
	ctx context.Context, treasuries map[chain.Family]chain.Address, p parsed,
) ([]judgedOffer, error) {
	offers, _, err := s.compareAll(ctx, treasuries, p)
	return offers, err
}

// compareAll is compare for a caller that may get none of the offers. silence is then its answer, where a
// provider that gave no answer might have made one; it is nil if all answered. Rule SWAP-7.
func (s *Service) compareAll(
	ctx context.Context, treasuries map[chain.Family]chain.Address, p parsed,
) (offers []judgedOffer, silence, err error) {
	recipient, refundTo := s.dryAddress(treasuries, p.to.Chain), s.dryAddress(treasuries, p.from.Chain)
	inPrice, outPrice, priceErr := s.loadPrices(ctx, p.from, p.to)
	ask := s.newAsk(p, recipient, refundTo, s.DB.Clock()(), "dry")
	found, silent, err := s.Panel.CompareAll(ctx, ask)
	if err != nil {
		return nil, nil, s.refusalOf(ctx, err)
	}
	if silent != nil {
		silence = s.refusalOf(ctx, silent)
	}
	refusal := silence
	for _, offer := range found {
		second := s.withoutOwn(inPrice, outPrice, priceErr, offer.Provider, p.from, p.to)
		err := s.checkPrice(second, ask, offer, p.from, p.to)
		if err == nil {
			err = s.checkBelievable(second, offer, p.from, p.to)
		}
		if err != nil {
			s.Log.WarnContext(ctx, "swap: an offer is not taken", "provider", offer.Provider, "error", err)
			refusal = s.chooseRefusal(ctx, refusal, err)
			continue
		}
		offers = append(offers, judgedOffer{Offer: offer, second: second})
	}
	offers, limited, err := s.filterByLimit(ctx, p, offers)
	if err != nil {
		return nil, nil, err
	}
	if limited != nil && silence == nil { // a provider at its limit might make an offer later
		silence, refusal = limited, limited
	}
	if len(offers) == 0 {
		return nil, nil, refusal
	}
	return offers, silence, nil
}

// chooseRefusal returns the answer for a caller after one more provider gave no offer. QUOTE_REJECTED is final,
// so it is the answer only if every provider gave one: another one might have made an offer. Rule SWAP-7.
func (s *Service) chooseRefusal(ctx context.Context, before, err error) error {
	if f := fault.Find(before); before != nil && (f == nil || f.Code != fault.QuoteRejected) {
		return before
	}
	return s.refusalOf(ctx, err)
}

// judgedOffer is an offer with the price by which it was judged.
type judgedOffer struct {
	provider.Offer
	second secondPrice
	limit  *providerLimit // nil: the provider has none
	dryOut money.Amount   // of a firm offer: what the provider said before
}

// withFirm returns the firm offer of the same provider, judged alike.
func (o judgedOffer) withFirm(firm provider.Offer) judgedOffer {
	o.dryOut, o.Offer = o.AmountOut, firm
	return o
}

// checkKept checks that a firm offer keeps what the provider said before, within the slippage that was asked for: the
// provider was chosen for that. One that does not gives no answer now; a price may move, so it is not suspended.
// Error: provider.ErrUnavailable. Rule SWAP-9.
func (o judgedOffer) checkKept(slippageBps int) error {
	floor, err := o.dryOut.Bps(uint64(wholeBps - slippageBps))
	if err != nil {
		return fmt.Errorf("the least of the dry offer of %s: %w", o.Provider, err)
	}
	if o.AmountOut.Less(floor) {
		return provider.Unavailable("it offers %s, after %s a moment ago", o.AmountOut, o.dryOut)
	}
	return nil
}

// dryAddress returns the address for a question that leaves no state: that of the organization's treasury,
// or one that no person can spend from where it has none yet. Nothing is ever paid to it.
func (s *Service) dryAddress(treasuries map[chain.Family]chain.Address, name chain.Name) chain.Address {
	if address, hasTreasury := treasuries[name.Family()]; hasTreasury {
		return address
	}
	return s.Chains[name].AddressCodec.SampleAddress()
}

// loadTreasuries returns the addresses of an organization's treasuries as their rows say.
func (s *Service) loadTreasuries(ctx context.Context, orgID string) (map[chain.Family]chain.Address, error) {
	var treasuries func() map[chain.Family]chain.Address
	err := s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) { treasuries = wallet.QueueTreasuries(b, orgID) })
	if err != nil {
		return nil, fmt.Errorf("treasuries of %s: %w", orgID, err)
	}
	return treasuries(), nil
}

// refusalOf turns what the panel says into the answer for a caller. Rule SWAP-7.
func (s *Service) refusalOf(ctx context.Context, err error) error {
	var noOffer *provider.NoOfferError
	var refused *provider.RefusedError
	rejected := func(message string) error {
		f := fault.New(fault.Unprocessable, fault.QuoteRejected, fault.NothingHeld,
			"No provider offers this swap on these terms.").
			WithAdvice("Ask for a quote and change the amount, minAmountOut or slippageBps.")
		if message != "" {
			f = f.WithExtra("providerMessage", message)
		}
		return f
	}
	switch {
	case errors.As(err, &refused):
		return rejected(refused.Message)
	case errors.Is(err, errTooLow), errors.Is(err, errTooHigh):
		return rejected("")
	case errors.Is(err, price.ErrUnavailable):
		return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
			"There is no recent price of both mints to judge an offer by.").
			WithStep(fault.RepeatLaterWithSameKey)
	case errors.As(err, &noOffer):
		s.Log.InfoContext(ctx, "swap: no offer", "outcome", string(noOffer.Outcome), "reasons", noOffer.Reasons)
		switch noOffer.Outcome {
		case provider.Rejected:
			return rejected(noOffer.Message)
		case provider.NoProvider:
			return rejected("")
		case provider.TimedOut:
			return newProviderTimeout()
		case provider.NotUnderstood:
			return newProviderError()
		}
		return newProvidersDown()
	case errors.Is(err, provider.ErrNotServed):
		return rejected("")
	case errors.Is(err, provider.ErrMalformed), errors.Is(err, provider.ErrUntrusted):
		return newProviderError()
	case errors.Is(err, context.DeadlineExceeded):
		return newProviderTimeout()
	case errors.Is(err, provider.ErrUnavailable):
		return newProvidersDown()
	}
	return err
}

func newProviderTimeout() error {
	return fault.New(fault.GatewayTimeout, fault.ProviderTimeout, fault.Unknown,
		"The swap provider did not answer in time.").WithStep(fault.RepeatWithSameKey)
}

func newProviderError() error {
	return fault.New(fault.BadGateway, fault.ProviderError, fault.Unknown,
		"The swap provider answered what is no answer.").WithStep(fault.RepeatWithSameKey)
}

func newProvidersDown() error {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unknown,
		"No swap provider can be asked now.").WithStep(fault.RepeatWithSameKey)
}
