package verify

import (
	"context"
	"errors"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/pg"
)

// auditChain computes the end of the chain of the audit log anew, and another part of
// the rest each minute, and compares it with what the signer signed.
func auditChain(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	end, err := audit.EndOf(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, part := range audit.Examined(end, tx.Now) {
		broken, err := audit.Examine(ctx, tx, end.Chain, part[0], part[1])
		if err != nil {
			return nil, err
		}
		for _, what := range broken {
			found = append(found, Breach{Subject: "audit log", Detail: what})
		}
	}
	if err := audit.Compare(ctx, tx); errors.Is(err, audit.ErrContradicted) {
		found = append(found, Breach{Subject: "audit log", Detail: err.Error()})
	} else if err != nil {
		return nil, err
	}
	return found, nil
}
