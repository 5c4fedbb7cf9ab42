package depositswap

import (
	"context"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OperatorFilter narrows the list of an operator. A zero field does not narrow it.
type OperatorFilter struct {
	Filter
	OrgID, Provider string
}

// ListAll returns a page of the deposit swaps of all organizations. Error: one whose address may not be shown
// fails the page. Rule DSW-6.
func (s *Service) ListAll(
	ctx context.Context, f OperatorFilter, p pagination.Page,
) (page pagination.Result[DepositSwap], err error) {
	q := f.narrow(pagination.NewQuery(selectDepositSwaps + ` WHERE true`))
	if f.OrgID != "" {
		q.AddCondition("s.org_id = ?", f.OrgID)
	}
	if f.Provider != "" {
		q.AddCondition("s.provider = ?", f.Provider)
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		page, err = listPage(ctx, tx, q, p)
		return err
	})
	return s.verifyPage(ctx, page, err)
}

// ByIDForOperator returns a deposit swap of any organization as it is now. Error: fault NOT_FOUND. Rule DSW-6.
func (s *Service) ByIDForOperator(ctx context.Context, depositSwapID string) (d DepositSwap, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		d, err = load(ctx, tx, depositSwapID)
		return err
	})
	if err != nil {
		return DepositSwap{}, err
	}
	if err := s.verify(ctx, &d); err != nil {
		return DepositSwap{}, err
	}
	return d, nil
}
