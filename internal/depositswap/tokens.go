package depositswap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// destinationSymbol and destinationChain name the mint of the catalogue that providers deliver.
const (
	destinationSymbol = "USDC"
	destinationChain  = chain.Solana
)

// tokenID returns the name of a token in the API.
func tokenID(t provider.Token) string {
	name, contract, _ := strings.Cut(t.String(), ":")
	return strings.ToLower(name) + ":" + contract
}

// parseTokenID parses the name of a token. The chain may be in any case of letters.
func parseTokenID(text string) (provider.Token, error) {
	name, contract, hasContract := strings.Cut(text, ":")
	if !hasContract {
		return provider.Token{}, errors.New("it has no colon")
	}
	return provider.ParseToken(strings.ToUpper(name) + ":" + contract)
}

func newToken(a provider.Asset) Token {
	return Token{ID: tokenID(a.Token), Token: a.Token, Symbol: a.Symbol, Decimals: a.Decimals}
}

// loadDestination returns the mint that providers deliver. Error: fault DEPOSITS_SUSPENDED if it cannot be
// delivered now.
func (s *Service) loadDestination(mints mint.Catalogue) (mint.Mint, error) {
	for _, m := range mints.List(mint.Filter{}) {
		isDestination := m.Symbol == destinationSymbol && m.Chain == destinationChain
		if s.Destination != (provider.Token{}) {
			isDestination = mintToken(m) == s.Destination.Canonical()
		}
		if !isDestination {
			continue
		}
		if _, isRunning := s.Chains[m.Chain]; !isRunning || m.Quarantined || !m.DepositEnabled {
			break
		}
		return m, nil
	}
	return mint.Mint{}, fault.New(fault.Unprocessable, fault.DepositsSuspended, fault.NothingHeld,
		"The service takes no deposits of the mint that deposit swaps bring now.").
		WithAdvice("Ask the operator of this service.")
}

func mintToken(m mint.Mint) provider.Token {
	return provider.Token{Chain: m.Chain, Contract: m.Contract}.Canonical()
}

// findDestination reads the catalogue and returns the mint that providers deliver.
func (s *Service) findDestination(ctx context.Context) (m mint.Mint, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		m, err = s.loadDestination(mints)
		return err
	})
	return m, err
}

// ListTokens returns what healthy providers take for the mint that they deliver to us, by chain and symbol. Errors:
// faults UNAVAILABLE, DEPOSITS_SUSPENDED. Rule DSW-1.
func (s *Service) ListTokens(ctx context.Context, f TokenFilter) ([]Token, error) {
	delivered, err := s.findDestination(ctx)
	if err != nil {
		return nil, err
	}
	assets, err := s.listAssets(ctx, delivered)
	if err != nil {
		return nil, err
	}
	search := strings.ToLower(strings.TrimSpace(f.Search))
	tokens := []Token{}
	for _, a := range assets {
		if f.Chain != "" && !strings.EqualFold(f.Chain, string(a.Chain)) ||
			!strings.Contains(strings.ToLower(a.Symbol), search) &&
				!strings.Contains(strings.ToLower(string(a.Contract)), search) {
			continue
		}
		tokens = append(tokens, newToken(a))
	}
	slices.SortFunc(tokens, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Symbol, b.Symbol), cmp.Compare(a.ID, b.ID))
	})
	return tokens, nil
}

func (s *Service) listAssets(ctx context.Context, delivered mint.Mint) ([]provider.Asset, error) {
	assets, err := s.Panel.ListAssets(ctx, mintToken(delivered))
	if errors.Is(err, provider.ErrUnavailable) && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "depositswap: no provider lists its tokens", "error", err)
		return nil, newProvidersDown()
	}
	if err != nil {
		return nil, fmt.Errorf("list the tokens of providers: %w", err)
	}
	return assets, nil
}

// parsed holds the values of a question that follow its form.
type parsed struct {
	asset     provider.Asset
	delivered mint.Mint
	amountIn  *money.Amount // nil: the caller names none
	asked     money.Amount  // what providers are asked about
}

// parseQuestion finds the token of a question and the amount that providers are asked about. Errors: faults
// INVALID_REQUEST, INVALID_AMOUNT, UNAVAILABLE, DEPOSITS_SUSPENDED.
func (s *Service) parseQuestion(ctx context.Context, originTokenID string, amountIn *string) (p parsed, err error) {
	unknown := fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
		"There is no token %q for a deposit swap now.", provider.CleanText(originTokenID)).
		WithAdvice("Take originTokenId from the list of tokens.").WithParam("originTokenId")
	token, err := parseTokenID(originTokenID)
	if err != nil {
		return p, unknown
	}
	if amountIn != nil {
		amount, err := parseAmount(*amountIn)
		if err != nil {
			return p, err
		}
		p.amountIn, p.asked = &amount, amount
	}
	if p.delivered, err = s.findDestination(ctx); err != nil {
		return p, err
	}
	assets, err := s.listAssets(ctx, p.delivered)
	if err != nil {
		return p, err
	}
	asset, isListed := provider.FindAsset(assets, token)
	if !isListed {
		return p, unknown
	}
	p.asset = asset
	if amountIn == nil {
		if p.asked, err = usualAmount(asset); err != nil {
			return p, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
				"No provider says what %s is worth, so the service cannot choose an amount to ask about.",
				asset.Symbol).
				WithAdvice("Name amountIn.").WithParam("amountIn")
		}
	}
	return p, nil
}

// usualAmount returns how many units of a token are worth about a hundred dollars. Error: the provider has no
// price.
func usualAmount(a provider.Asset) (money.Amount, error) {
	if a.PriceUSD == (money.USD{}) {
		return money.Zero, errors.New("it has no price")
	}
	amount, err := money.Convert(money.Units(quoteUSD), 0, money.MustParseUSD("1"), a.Decimals, a.PriceUSD)
	if err != nil {
		return money.Zero, err
	}
	if amount.IsZero() {
		return money.Zero, errors.New("a unit is worth more")
	}
	return amount, nil
}

func parseAmount(text string) (money.Amount, error) {
	amount, err := money.Parse(text)
	if err != nil || amount.IsZero() {
		return amount, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingHeld,
			"amountIn is not a whole number of atomic units above zero, such as \"5000000\".").
			WithAdvice("Use ASCII digits only, without sign, point, exponent, separator or leading zero.").
			WithParam("amountIn")
	}
	return amount, nil
}
