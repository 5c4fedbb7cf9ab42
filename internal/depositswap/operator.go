package depositswap

import (
	"context"

	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// OperatorFilter narrows the list of an operator. A zero field does not narrow it.
type OperatorFilter struct {
	Filter
	OrgID, Provider string
}

// ListAll returns a page of the deposit swaps of all organizations.
func (s *Service) ListAll(
	ctx context.Context, f OperatorFilter, p pagination.Page,
) (page pagination.Result[DepositSwap], err error) {
	return page, errAbsent
}

// ByIDForOperator returns a deposit swap of any organization as it is now. Error: fault NOT_FOUND.
func (s *Service) ByIDForOperator(ctx context.Context, depositSwapID string) (d DepositSwap, err error) {
	return d, errAbsent
}
