package checkout

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// restoredAttemptsMax is how many attempts later than those of a backup are looked for.
const restoredAttemptsMax = 20

// restoreActor is the actor of what a restore does.
var restoreActor = audit.System("restore")

// RestoredRefund is the payment of a refund that a database from a backup lacks.
type RestoredRefund struct {
	RefundID  string
	MintID    int
	Amount    money.Amount // what was owed
	ToAddress chain.Address
	// HasKey reports whether the payment is that of an attempt.
	HasKey func(attempt int) bool
}

// RestoreRefund makes a refund of the backup wait for a payment that the signer's journal has, and reports whether it
// does: the payment then spends what is owed. A backup from before the claim lacks its address. A backup may lack the
// refund, or know a later state of it; no one can claim what the database lacks, and an attempt that the database
// knows has one payment by its key, so nothing is paid twice.
func (s *Service) RestoreRefund(ctx context.Context, tx pg.Tx, restored RestoredRefund) (isOwed bool, err error) {
	r, err := lockRefundAlone(ctx, tx, restored.RefundID)
	if errors.Is(err, pgx.ErrNoRows) || fault.HasCode(err, fault.CodeNotFound) {
		return false, nil
	}
	if err != nil || r.Mint.ID != restored.MintID || r.Amount != restored.Amount {
		return false, err
	}
	if r.Status == RefundRequested {
		return r.ToAddress == restored.ToAddress && restored.HasKey(r.Attempt), nil
	}
	if r.Status != RefundAwaitingAddress {
		return false, nil
	}
	attempt := r.Attempt + 1
	for ; !restored.HasKey(attempt); attempt++ {
		if attempt > r.Attempt+restoredAttemptsMax {
			return false, nil
		}
	}
	for r.Attempt < attempt { // an attempt is counted only with an address
		if r.Status == RefundRequested {
			err := setRefund(ctx, tx, r, RefundAwaitingAddress, `to_address = NULL, look_at = expires_at`)
			if err != nil {
				return false, err
			}
			r.Version, r.Status = r.Version+1, RefundAwaitingAddress
		}
		err := setRefund(ctx, tx, r, RefundRequested, `to_address = $5, attempt = attempt + 1, look_at = $4`,
			restored.ToAddress)
		if err != nil {
			return false, err
		}
		r.Version, r.Status, r.Attempt = r.Version+1, RefundRequested, r.Attempt+1
	}
	return true, audit.Record(ctx, tx, newRefundEntry(r, restoreActor, "addressed", map[string]any{
		"toAddress": restored.ToAddress, "attempt": attempt, "restored": true,
	}))
}
