package depositswap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Quote returns the best offer. It writes nothing. Errors: the faults of Request that no customer and no refund
// address causes. Rule DSW-2.
func (s *Service) Quote(ctx context.Context, orgID string, r QuoteRequest) (Quote, error) {
	if err := s.checkOrganization(ctx, orgID); err != nil {
		return Quote{}, err
	}
	p, err := s.parseQuestion(ctx, r.OriginTokenID, r.AmountIn)
	if err != nil {
		return Quote{}, err
	}
	offers, err := s.compare(ctx, orgID, p)
	if err != nil {
		return Quote{}, err
	}
	best := offers[0]
	return Quote{
		Token: newToken(p.asset), To: p.delivered, AmountIn: p.asked, EstimatedOut: best.AmountOut,
		MinOut:           best.MinAmountOut,
		EstimatedSeconds: estimatedSeconds(best.Estimate), Provider: best.Provider,
		Rate:     provider.FormatRate(p.asked, best.AmountOut, p.asset.Decimals, p.delivered.Decimals),
		QuotedAt: s.DB.Clock()().UTC(), USDValue: s.valueOut(ctx, p.delivered, best.AmountOut),
	}, nil
}

// valueOut returns what an amount of a mint is worth, for display; nil without a fresh price.
func (s *Service) valueOut(ctx context.Context, m mint.Mint, amount money.Amount) *money.USD {
	q, err := s.Prices.USD(ctx, m.ID)
	if err != nil || price.CheckFresh(q, s.DB.Clock()(), s.priceAge(m.ID)) != nil {
		return nil
	}
	value, err := money.ValueOf(amount, m.Decimals, q.Price)
	if err != nil {
		return nil
	}
	return &value
}

func estimatedSeconds(d time.Duration) *int {
	if d <= 0 {
		return nil
	}
	seconds := int((d + time.Second - 1) / time.Second)
	return &seconds
}

// newAsk returns the question for a deposit swap. The payment may have any amount.
func (s *Service) newAsk(p parsed, recipient, refundTo chain.Address, reference string) provider.Ask {
	return provider.Ask{
		IsFlexible: true, Origin: p.asset.Token, Destination: mintToken(p.delivered), AmountIn: p.asked,
		Recipient: recipient, RefundTo: refundTo, SlippageBps: slippageBps, Deadline: s.DB.Clock()().Add(payTime),
		Reference: reference,
	}
}

// compare asks all healthy providers for dry quotes and returns their offers, the best one first. The refund
// address is one of the origin chain if the service knows its form, and the recipient is a treasury, so the
// question leaves no state. Errors: faults QUOTE_REJECTED, PROVIDER_ERROR, PROVIDER_TIMEOUT, UNAVAILABLE.
func (s *Service) compare(ctx context.Context, orgID string, p parsed) ([]provider.Offer, error) {
	recipient, err := s.dryRecipient(ctx, orgID, p.delivered.Chain)
	if err != nil {
		return nil, err
	}
	refundTo := recipient
	if codec := s.codecFor(p.asset.Chain); codec != nil {
		refundTo = codec.SampleAddress()
	}
	return s.compareFor(ctx, p, recipient, refundTo)
}

func (s *Service) compareFor(
	ctx context.Context, p parsed, recipient, refundTo chain.Address,
) ([]provider.Offer, error) {
	offers, err := s.Panel.Compare(ctx, s.newAsk(p, recipient, refundTo, "dry"))
	if err != nil {
		return nil, s.refusalOf(ctx, err)
	}
	return offers, nil
}

// codecFor returns the codec of a chain's addresses; nil if the service does not know their form.
func (s *Service) codecFor(name chain.Name) chain.AddressCodec {
	if name.Family() == "" {
		return nil
	}
	return s.Chains.AddressCodec(name.Family())
}

// dryRecipient returns an address for a question that leaves no state: the organization's treasury, or an
// address that no person can spend from where it has none yet.
func (s *Service) dryRecipient(
	ctx context.Context, orgID string, name chain.Name,
) (recipient chain.Address, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		ids, err := wallet.TreasuryIDs(ctx, tx, name.Family(), orgID)
		if err != nil {
			return err
		}
		walletID, hasTreasury := ids[orgID]
		if !hasTreasury {
			recipient = s.Chains[name].AddressCodec.SampleAddress()
			return nil
		}
		w, err := wallet.ByID(ctx, tx, walletID)
		recipient = w.Address
		return err
	})
	return recipient, err
}

// takeOffer asks for a firm quote of the best provider and checks it. If it fails, the next provider is asked.
// Rule DSW-3.
func (s *Service) takeOffer(
	ctx context.Context, p parsed, offers []provider.Offer, w wallet.Wallet, refundTo chain.Address, id string,
) (provider.Offer, error) {
	var refusal error
	for _, dry := range offers {
		firm, err := s.Panel.Firm(ctx, dry.Provider, s.newAsk(p, w.Address, refundTo, id))
		if err == nil {
			if err = s.checkFirm(ctx, p, firm, id); err == nil {
				return firm, nil
			}
		}
		if ctx.Err() != nil {
			return provider.Offer{}, ctx.Err()
		}
		s.Log.WarnContext(ctx, "depositswap: no firm offer", "depositSwap", id, "provider", dry.Provider, "error", err)
		refusal = s.chooseRefusal(ctx, refusal, err)
	}
	return provider.Offer{}, refusal
}

// checkFirm checks of a signed offer what the panel cannot know: the time that the payer has, and that the deposit
// address belongs to the provider alone.
func (s *Service) checkFirm(ctx context.Context, p parsed, offer provider.Offer, id string) error {
	if offer.Signed.Deadline.Before(s.DB.Clock()().Add(payTimeLeast)) {
		return provider.Unavailable("its offer ends at %s, which leaves no time to pay",
			offer.Signed.Deadline.Format(time.RFC3339))
	}
	problem, err := s.checkDepositAddress(ctx, p, offer, id)
	if err != nil || problem == "" {
		return err
	}
	return s.rejectAddress(ctx, offer, id, problem)
}

// addressOfAnother is why a deposit address that was given out before cannot be taken.
const addressOfAnother = "it is that of another swap"

// rejectAddress suspends a provider for a deposit address that it cannot have. Error: provider.ErrUntrusted.
func (s *Service) rejectAddress(ctx context.Context, offer provider.Offer, id, problem string) error {
	cause := fmt.Errorf("%w: its deposit address %s: %s", provider.ErrUntrusted,
		provider.CleanText(offer.Signed.DepositAddress), problem)
	s.Panel.SuspendFor(ctx, offer.Provider, id, cause)
	return cause
}

// checkDepositAddress returns why an address cannot be the deposit address of a provider, or "". Error:
// ErrMalformed if it is no address of the chain.
func (s *Service) checkDepositAddress(
	ctx context.Context, p parsed, offer provider.Offer, id string,
) (problem string, err error) {
	codec := s.codecFor(p.asset.Chain)
	address, err := parseProviderAddress(codec, offer.Signed.DepositAddress)
	if err != nil {
		return "", provider.Malformed("its deposit address: %v", err)
	}
	if codec != nil && codec.IsUnspendable(address) {
		return "it is an address that no one can spend from", nil
	}
	isOwn, err := s.isOwnAddress(ctx, string(address))
	if err != nil || isOwn {
		return "it is an address of this installation", err
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		isUsed, err := isPaid(ctx, tx, codec, p.asset.Chain, address, id)
		switch {
		case err != nil:
			return fmt.Errorf("look for what is paid at %s: %w", address, err)
		case mints.IsContract(p.asset.Chain.Family(), address):
			problem = "it is the contract of a token"
		case isUsed:
			problem = addressOfAnother
		}
		return nil
	})
	return problem, err
}

// parseProviderAddress returns an address of a provider in the form in which addresses are compared. codec is nil if
// the service does not know the form of the chain: then the case of letters does not matter in a hexadecimal address
// alone.
func parseProviderAddress(codec chain.AddressCodec, text string) (chain.Address, error) {
	if codec == nil {
		return provider.Token{Contract: chain.Address(text)}.Canonical().Contract, nil
	}
	return codec.Parse(text)
}

// isPaid reports whether a swap, or another deposit swap, has the address of a provider. A swap stores it in its
// canonical form, and a deposit swap as the provider wrote it: the spellings of one address differ by the case of their
// letters alone.
func isPaid(
	ctx context.Context, tx pg.Tx, codec chain.AddressCodec, name chain.Name, address chain.Address, id string,
) (isUsed bool, err error) {
	rows, err := tx.Query(ctx, `
		SELECT deposit_address FROM swaps WHERE from_chain = $1 AND deposit_address = $2
		UNION ALL
		SELECT deposit_address FROM deposit_swaps
		WHERE origin_chain = $1 AND lower(deposit_address) = lower($2) AND deposit_swap_id <> $3`, name, address, id)
	if err != nil {
		return false, err
	}
	var text string
	_, err = pgx.ForEachRow(rows, []any{&text}, func() error {
		taken, err := parseProviderAddress(codec, text)
		isUsed = isUsed || err == nil && taken == address
		return nil
	})
	return isUsed, err
}

// isOwnAddress reports whether a text is an address of a wallet of this installation, on whatever chain it is
// meant: a key of ours also has its address on chains that we do not run.
func (s *Service) isOwnAddress(ctx context.Context, text string) (isOwn bool, err error) {
	families := map[chain.Family]chain.Address{}
	for name := range s.Chains {
		address, err := s.Chains[name].AddressCodec.Parse(text)
		if err == nil {
			families[name.Family()] = address
		}
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isOwn = false
		for family, address := range families {
			found, err := wallet.ByAddresses(ctx, tx, family, []chain.Address{address})
			if err != nil {
				return err
			}
			isOwn = isOwn || len(found) > 0
		}
		return nil
	})
	return isOwn, err
}

// chooseRefusal returns the answer for a caller after one more provider gave no offer. QUOTE_REJECTED is final,
// so it is the answer only if every provider gave one.
func (s *Service) chooseRefusal(ctx context.Context, before, err error) error {
	if f := fault.Find(before); before != nil && (f == nil || f.Code != fault.QuoteRejected) {
		return before
	}
	return s.refusalOf(ctx, err)
}

// refusalOf turns what the panel says into the answer for a caller. Rule DSW-3.
func (s *Service) refusalOf(ctx context.Context, err error) error {
	var noOffer *provider.NoOfferError
	var refused *provider.RefusedError
	rejected := func(message string) error {
		f := fault.New(fault.Unprocessable, fault.QuoteRejected, fault.NothingHeld,
			"No provider offers this deposit swap on these terms.").
			WithAdvice("Ask for a quote and change the token, amountIn or refundAddress.")
		if message != "" {
			f = f.WithExtra("providerMessage", message)
		}
		return f
	}
	switch {
	case errors.As(err, &refused):
		return rejected(refused.Message)
	case errors.As(err, &noOffer):
		s.Log.InfoContext(ctx, "depositswap: no offer", "outcome", string(noOffer.Outcome), "reasons", noOffer.Reasons)
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
	return fault.New(fault.GatewayTimeout, fault.ProviderTimeout, fault.NothingHeld,
		"The swap provider did not answer in time.").WithStep(fault.RepeatLaterWithSameKey)
}

func newProviderError() error {
	return fault.New(fault.BadGateway, fault.ProviderError, fault.NothingHeld,
		"The swap provider answered what is no answer.").WithStep(fault.RepeatLaterWithSameKey)
}

func newProvidersDown() error {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
		"No swap provider can be asked now.").WithStep(fault.RepeatLaterWithSameKey)
}
