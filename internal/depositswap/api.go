package depositswap

import (
	"context"
	"errors"

	"github.com/cofferpay/coffer/internal/platform/pagination"
)

type storedTerms struct{}

var errAbsent = errors.New("depositswap: not built yet")

// ListTokens returns what healthy providers take for the USDC that they deliver to us, by chain and symbol.
func (s *Service) ListTokens(ctx context.Context, f TokenFilter) ([]Token, error) {
	return nil, errAbsent
}

// Quote returns the best offer. It writes nothing. Errors: the faults of Request that no customer causes.
func (s *Service) Quote(ctx context.Context, orgID string, r QuoteRequest) (Quote, error) {
	return Quote{}, errAbsent
}

// FindByKey returns the deposit swap of an idempotency key.
func (s *Service) FindByKey(ctx context.Context, orgID, key string) (d DepositSwap, isKnown bool, err error) {
	return d, false, errAbsent
}

// Request makes a deposit swap.
func (s *Service) Request(
	ctx context.Context, orgID string, r Request,
) (d DepositSwap, isReplayed, isEmailIgnored bool, err error) {
	return d, false, false, errAbsent
}

// Differs reports whether a request has other parameters than the one that made the deposit swap.
func (d DepositSwap) Differs(r Request) bool { return false }

// ByID returns a deposit swap as it is now. Error: fault NOT_FOUND, also for the id of another organization.
func (s *Service) ByID(ctx context.Context, orgID, depositSwapID string) (d DepositSwap, err error) {
	return d, errAbsent
}

// List returns a page of an organization's deposit swaps in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, orgID string, f Filter, p pagination.Page,
) (page pagination.Result[DepositSwap], err error) {
	return page, errAbsent
}

// ForEach calls fn for all of an organization's deposit swaps that match the filter, in list order and from
// one snapshot. The first error of fn ends it.
func (s *Service) ForEach(ctx context.Context, orgID string, f Filter, desc bool, fn func(DepositSwap) error) error {
	return errAbsent
}

// Run follows deposit swaps until ctx ends: it asks the providers and finds who paid them.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
