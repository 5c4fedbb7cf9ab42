package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Prover checks whether our signer attested a wallet's address for exactly its owner; otherwise it
// returns wallet.ErrProof. *wallet.Service implements it.
type Prover interface {
	VerifyAttestation(w wallet.Wallet) error
}

// CheckAddresses checks the proof of every wallet, including those that were not used since their
// row was altered. It takes time where there are many. Once a day is enough, because a proof is
// checked at every use.
func CheckAddresses(ctx context.Context, db *pg.DB, prover Prover) (Report, error) {
	c := Check{ID: "I-15", Promise: "the service's signer issued every address to its owner"}
	r, began := Report{CheckedAt: db.Clock()().UTC()}, time.Now()
	var found []Breach
	count, total := 0, 0
	err := db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		found, count, total = nil, 0, 0
		orgs, err := org.ListAll(ctx, tx)
		if err != nil {
			return err
		}
		for _, o := range orgs {
			p := pagination.Page{Limit: pagination.LimitMax}
			for {
				wallets, err := wallet.List(ctx, tx, o.ID, p)
				if err != nil {
					return err
				}
				for _, w := range wallets.Items {
					total++
					err := prover.VerifyAttestation(w)
					if errors.Is(err, wallet.ErrProof) {
						if count++; count <= breachesShownMax {
							found = append(found, Breach{OrgID: o.ID, Subject: "wallet " + w.ID, Detail: fmt.Sprintf(
								"%s is not what was issued to %s %q", w.Address, w.Purpose, w.Subject,
							)})
						}
					} else if err != nil {
						return fmt.Errorf("prove wallet %s: %w", w.ID, err)
					}
				}
				if wallets.NextCursor == nil {
					break
				}
				p.Cursor = wallets.NextCursor
			}
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("check %s: %w", c.ID, err)
	}
	r.addOutcome(c, found, count, fmt.Sprintf("%d wallets", total), time.Since(began))
	return r, nil
}
