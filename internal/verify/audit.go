package verify

import (
	"context"
	"errors"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// checkAuditChain recomputes the end of the audit log's chain, and another range of its earlier
// part each minute, and compares it with what the signer signed.
func checkAuditChain(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	end, err := audit.LoadEnd(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, part := range audit.RangesToExamine(end, tx.Now) {
		broken, err := audit.ExamineRange(ctx, tx, end.Chain, part[0], part[1])
		if err != nil {
			return nil, err
		}
		for _, text := range broken {
			found = append(found, Breach{Subject: "audit log", Detail: text})
		}
	}
	if err := audit.CompareAnchor(ctx, tx); errors.Is(err, audit.ErrContradicted) {
		found = append(found, Breach{Subject: "audit log", Detail: err.Error()})
	} else if err != nil {
		return nil, err
	}
	return found, nil
}
