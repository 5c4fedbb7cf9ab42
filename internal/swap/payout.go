package swap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

const (
	// offerWait is how long after its approval a swap waits for an offer.
	offerWait = 30 * time.Minute
	// offerPause is how long the worker waits before it asks again.
	offerPause = 15 * time.Second
	// payoutPause is how long the worker waits before it looks at a payout again, and payoutPauseRare how
	// long once the payout takes long: a person may have to approve it.
	payoutPause     = 3 * time.Second
	payoutPauseRare = time.Minute
)

// WhitelistEntry is an address on an organization's whitelist that may be paid now.
type WhitelistEntry struct {
	Chain   chain.Name
	Address chain.Address // in its canonical form
}

// Whitelist says where an organization's own money may go.
type Whitelist interface {
	// Usable returns an entry that may be paid as the transaction sees it. The entry stays usable until the
	// transaction ends. A fault says why the entry may not be paid, and the transaction goes on.
	Usable(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, error)
}

// PayoutState is how far the payment of an organization's output has come.
type PayoutState string

// The states.
const (
	PayoutOpen  PayoutState = "OPEN"
	PayoutPaid  PayoutState = "PAID"
	PayoutEnded PayoutState = "ENDED" // it is never paid, and its amount is in the product again
)

// Payout is the payment of a swap's output to the whitelist entry of the swap.
type Payout struct {
	OrgID, SwapID, Product string
	MintID                 int
	Amount                 money.Amount // what arrived; for a native coin the network fee comes out of it
	WhitelistedID          string
	Key                    string          // the idempotency key, which follows from the swap
	Approved               *ApprovedPayout // what people approved; nil: the swap needed no approval
	Requester              audit.Actor     // who asked for the swap; zero if it was restored
}

// ApprovedPayout is what people approved with the swap, and their approvals.
type ApprovedPayout struct {
	Terms     signer.SwapPayout
	Approvals []signer.Approval
	Required  int
}

// Payouts pays the outputs of swaps of organizations. Its calls may be repeated after any error.
type Payouts interface {
	// RequestPayout requests a payment, or returns the one that the key has. A fault says that the
	// payment is refused now and why.
	RequestPayout(ctx context.Context, p Payout) (payoutID string, err error)
	// FindPayout returns the payment that a key has, as the transaction sees it.
	FindPayout(ctx context.Context, tx pg.Tx, org, key string) (payoutID string, isKnown bool, err error)
	// PayoutState returns how far a payment has come, and why it ended.
	PayoutState(ctx context.Context, org, payoutID string) (state PayoutState, message string, err error)
}

// payoutKey returns the idempotency key of the payment of a swap's output. A caller's key has no space, so
// no caller can take it.
func payoutKey(swapID string) string { return "swap " + swapID }

// lookForOffer takes an offer for a swap that was approved, and makes its order. Without an offer in time
// the swap fails, and its amount is available again.
func (s *Service) lookForOffer(ctx context.Context, w Swap) error {
	if w.Status != Pending || w.ApprovedAt == nil {
		return nil
	}
	now := s.DB.Clock()()
	if !now.Before(w.ApprovedAt.Add(offerWait)) {
		return s.failUnoffered(ctx, w.ID, NoLiquidity, "No provider made an offer for the approved swap in time.")
	}
	refusal, err := s.takeApproved(ctx, w)
	if err != nil && ctx.Err() != nil {
		return err
	}
	switch {
	case err == nil && refusal != "":
		return s.failUnoffered(ctx, w.ID, DestinationUnavailable, refusal)
	case err == nil, errors.Is(err, errLostRace):
		return nil
	}
	s.Log.WarnContext(ctx, "swap: no offer for an approved swap", "swap", w.ID, "error", err)
	return s.lookAgain(ctx, w.ID, offerPause)
}

// lookAgain makes the worker look at a swap after a pause.
func (s *Service) lookAgain(ctx context.Context, swapID string, pause time.Duration) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE swaps SET look_at = $2 WHERE swap_id = $1 AND look_at IS NOT NULL`,
			swapID, tx.Now.Add(pause))
		if err != nil {
			return fmt.Errorf("look at swap %s again: %w", swapID, err)
		}
		return nil
	})
}

// takeApproved takes a firm offer for an approved swap outside any transaction, and writes it with the
// order in one. refusal says why the output cannot be paid any more.
func (s *Service) takeApproved(ctx context.Context, w Swap) (refusal string, err error) {
	var p parsed
	var approvals []signer.Approval
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if p, approvals, refusal, err = s.checkApproved(ctx, tx, w); err != nil || refusal != "" {
			return err
		}
		return s.checkStillAllowed(ctx, tx, w)
	})
	if err != nil || refusal != "" {
		return refusal, err
	}
	treasuries, err := s.loadTreasuries(ctx, w.OrgID)
	if err != nil {
		return "", err
	}
	offers, err := s.compare(ctx, treasuries, p)
	if err != nil {
		return "", err
	}
	wallets, err := s.issueWallets(ctx, w.OrgID, w.ID, p)
	if err != nil {
		return "", err
	}
	firm, err := s.takeOffer(ctx, p, offers, wallets, w.ID)
	if err != nil {
		return "", err
	}
	// People approved this least amount, also if the offer promises more.
	firm.minOut = w.MinOut
	refusal, err = writeWithin(firm.limit, func() (refusal string, err error) {
		err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			if err := org.LockSettingsShared(ctx, tx, w.OrgID); err != nil {
				return err
			}
			if _, approvals, refusal, err = s.checkApproved(ctx, tx, w); err != nil || refusal != "" {
				return err
			}
			if err := freeze.LockShared(ctx, tx); err != nil {
				return err
			}
			if err := s.checkStillAllowed(ctx, tx, w); err != nil {
				return err
			}
			if err := s.checkInside(ctx, tx, firm.limit); err != nil {
				return err
			}
			if err := checkSuspended(ctx, tx, firm.Provider); err != nil {
				return err
			}
			return s.writeApprovedOffer(ctx, tx, w, p, firm, wallets, approvals)
		})
		return refusal, err
	})
	if isAddressTaken(err) {
		// The provider gave the address to another swap, which was written since it was checked.
		err = s.rejectAddress(ctx, firm.Provider, firm.payee, addressOfAnother)
	}
	return refusal, err
}

// checkApproved checks that a swap is what people approved, and that the entry of its output may still be
// paid. refusal says that it may not.
func (s *Service) checkApproved(
	ctx context.Context, tx pg.Tx, w Swap,
) (p parsed, approvals []signer.Approval, refusal string, err error) {
	if approvals, err = s.loadApprovals(ctx, tx, w); err != nil {
		return p, nil, "", err
	}
	if !s.isAsRequested(w) || len(approvals) < w.ApprovalsRequired || w.slippageBps == nil {
		s.Log.ErrorContext(ctx, "swap: the row differs from what was requested and approved", "swap", w.ID)
		return p, nil, "", fmt.Errorf("swap %s differs from what was requested and approved", w.ID)
	}
	err = s.recheckEntry(ctx, tx, w)
	if f := fault.Find(err); f != nil {
		return p, nil, "The whitelist does not allow the destination of the output any more.", nil
	}
	if err != nil {
		return p, nil, "", err
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return p, nil, "", err
	}
	p = parsed{amountIn: w.AmountIn, minOut: w.MinOut, slippageBps: *w.slippageBps}
	var isFromListed, isToListed bool
	p.from, isFromListed = mints.ByID(w.From.ID)
	p.to, isToListed = mints.ByID(w.To.ID)
	if !isFromListed || !isToListed || !s.isServed(p.from) || !s.isServed(p.to) {
		return p, nil, "", fmt.Errorf("swap %s: a mint of it is not served now", w.ID)
	}
	return p, approvals, "", nil
}

// checkStillAllowed refuses a payment while the organization's swaps are switched off, or frozen.
func (s *Service) checkStillAllowed(ctx context.Context, tx pg.Tx, w Swap) error {
	settings, err := org.SettingsOf(ctx, tx, w.OrgID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", w.OrgID, err)
	}
	if err := checkOrganizationEnabled(settings); err != nil {
		return err
	}
	if err := checkFrozen(ctx, tx, w.OrgID, ""); err != nil {
		return err
	}
	return checkStopped(ctx, tx, w.OrgID, "", w.From)
}

// writeApprovedOffer writes the offer of an approved swap and its order.
func (s *Service) writeApprovedOffer(
	ctx context.Context, tx pg.Tx, w Swap, p parsed, f firmOffer, wallets swapWallets, approvals []signer.Approval,
) error {
	var hash string
	err := tx.QueryRow(ctx, `SELECT key_hash FROM swaps WHERE swap_id = $1 FOR UPDATE`, w.ID).Scan(&hash)
	if err != nil {
		return fmt.Errorf("lock swap %s: %w", w.ID, err)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET provider = $2, deposit_address = $3, refund_fee = $4, pay_by = $5, expires_at = $6,
			estimated_seconds = $7, estimated_out = $8, look_at = NULL, updated_at = $9
		WHERE swap_id = $1 AND status = 'PENDING' AND provider IS NULL`,
		w.ID, f.Provider, f.payee, f.RefundFee, f.payBy, f.Signed.Deadline, estimatedSeconds(f.Estimate), f.AmountOut,
		tx.Now)
	if err != nil {
		return fmt.Errorf("write the offer of swap %s: %w", w.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("write the offer of swap %s: %w", w.ID, errLostRace)
	}
	var b pgx.Batch
	queueOffer(&b, tx.Now, w.OrgID, w.ID, f)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("insert the offer of swap %s: %w", w.ID, err)
	}
	order := s.newOrder(w.OrgID, w.ID, w.owner(), hash, p, f, wallets)
	order.Grant = s.GrantKey.MakePayoutGrant(order.terms, w.payout(), money.Zero, w.ApprovalsRequired, approvals)
	if err := dispatch.Submit(ctx, tx, order.Order); err != nil {
		return err
	}
	return audit.Record(ctx, tx, newEntry(w, actor, "offered", map[string]any{
		"provider": f.Provider, "minOut": w.MinOut, "estimatedOut": f.AmountOut,
	}))
}

// failUnoffered ends an approved swap that no provider has an offer for.
func (s *Service) failUnoffered(ctx context.Context, swapID string, reason FailureReason, message string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		w, err := lock(ctx, tx, swapID)
		if err != nil || w.Status != Pending || w.hasOffer() {
			return err
		}
		postings, err := s.failUnpaid(ctx, tx, w, reason, message)
		if err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, postings...); err != nil {
			return fmt.Errorf("fail swap %s: %w", swapID, err)
		}
		return nil
	})
}

// markDelivered stores that the output of an organization's swap has arrived. The worker pays it out next.
func markDelivered(ctx context.Context, tx pg.Tx, w Swap, sum money.Amount, last, originTx chain.TxHash) error {
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET amount_out = $2, destination_tx_hash = $3, origin_tx_hash = $4, delivered_at = $5,
			look_at = $5, look_count = 0, updated_at = $5
		WHERE swap_id = $1 AND status = 'PROCESSING' AND amount_out IS NULL`, w.ID, sum, last, originTx, tx.Now)
	if err != nil {
		return fmt.Errorf("swap %s is delivered: %w", w.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("swap %s is delivered: %w", w.ID, errLostRace)
	}
	return nil
}

// followPayout pays the output of an organization's swap to its whitelist entry, and follows the payment.
// A crash between the delivery and the payment's request is found by the key of that payment. Rule SWAP-37.
func (s *Service) followPayout(ctx context.Context, w Swap) error {
	if s.Payouts == nil {
		return s.lookAgain(ctx, w.ID, payoutPauseRare)
	}
	if w.PayoutID == nil {
		failpoint.Hit("Q24")
		return s.requestPayout(ctx, w)
	}
	state, message, err := s.Payouts.PayoutState(ctx, w.OrgID, *w.PayoutID)
	if err != nil {
		return fmt.Errorf("payout of swap %s: %w", w.ID, err)
	}
	switch state {
	case PayoutPaid:
		return s.completePaid(ctx, w.ID)
	case PayoutEnded:
		return s.failEnded(ctx, w.ID, message)
	}
	pause := payoutPause
	if w.DeliveredAt != nil && s.DB.Clock()().Sub(*w.DeliveredAt) > lookRareAfter {
		pause = payoutPauseRare
	}
	return s.lookAgain(ctx, w.ID, pause)
}

// requestPayout requests the payment of an output.
func (s *Service) requestPayout(ctx context.Context, w Swap) error {
	p := Payout{
		OrgID: w.OrgID, SwapID: w.ID, Product: w.Product, MintID: w.To.ID, Amount: *w.AmountOut,
		WhitelistedID: w.WhitelistedID, Key: payoutKey(w.ID), Requester: w.Requester,
	}
	now := s.DB.Clock()()
	if w.ApprovalsRequired > 0 && s.isAsRequested(w) && !w.isApprovalOver(now) {
		err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			approvals, err := s.loadApprovals(ctx, tx, w)
			for n := range approvals { // the signer refuses a payment with a signature that ended
				if !approver.HasTimeLeft(approvals[n].Signature, now, signatureMargin) {
					approvals[n].Signature = nil
				}
			}
			if err == nil && len(approvals) >= w.ApprovalsRequired {
				p.Approved = &ApprovedPayout{Terms: w.payout(), Approvals: approvals, Required: w.ApprovalsRequired}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	payoutID, err := s.Payouts.RequestPayout(ctx, p)
	f := fault.Find(err)
	switch {
	case err == nil:
		return s.setPayout(ctx, w.ID, payoutID)
	case f == nil:
		return fmt.Errorf("request the payout of swap %s: %w", w.ID, err)
	case isRefusedForGood(f, w.isApprovalOver(now)):
		return s.failUnrequested(ctx, w.ID, f.Reason)
	}
	s.Log.WarnContext(ctx, "swap: the output cannot be paid out yet", "swap", w.ID, "code", string(f.Code),
		"why", f.Reason)
	return s.lookAgain(ctx, w.ID, payoutPauseRare)
}

// isRefusedForGood reports whether a refused payout is never paid. The balance may come back until the time
// of the payout is over; a freeze or an outage only delays it.
func isRefusedForGood(f *fault.Fault, isOver bool) bool {
	switch f.Code {
	case fault.AddressNotWhitelisted, fault.DestinationNotAllowed, fault.AmountBelowMinimum, fault.InvalidRequest,
		fault.MintNotFound, fault.WithdrawalRiskBlocked:
		return true
	case fault.InsufficientBalance:
		return isOver
	}
	return false
}

// setPayout stores which withdrawal pays the output.
func (s *Service) setPayout(ctx context.Context, swapID, payoutID string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		w, err := lock(ctx, tx, swapID)
		if err != nil || w.Status != Processing || !w.isDelivered() || w.PayoutID != nil {
			return err
		}
		return storePayout(ctx, tx, w, payoutID)
	})
}

// storePayout stores which withdrawal pays the output of a swap that is locked and has none.
func storePayout(ctx context.Context, tx pg.Tx, w Swap, payoutID string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET payout_id = $2, look_at = $3, updated_at = $4
		WHERE swap_id = $1 AND status = 'PROCESSING' AND payout_id IS NULL`,
		w.ID, payoutID, tx.Now.Add(payoutPause), tx.Now)
	if err != nil {
		return fmt.Errorf("store the payout of swap %s: %w", w.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("store the payout of swap %s: %w", w.ID, errLostRace)
	}
	return audit.Record(ctx, tx, newEntry(w, actor, "payout_requested", map[string]any{"payout": payoutID}))
}

// completePaid ends a swap whose output is paid, and tells the organization once.
func (s *Service) completePaid(ctx context.Context, swapID string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		w, err := lock(ctx, tx, swapID)
		if err != nil || w.Status != Processing || w.PayoutID == nil {
			return err
		}
		err = setStatus(ctx, tx, swapID, Processing, Completed, "completed_at = $4, look_at = NULL")
		if err != nil {
			return err
		}
		if w, err = loadAny(ctx, tx, swapID); err != nil {
			return err
		}
		t := findTransition(Processing, Completed)
		if err := s.publish(ctx, tx, w, t.OwnEvent, w); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(w, actor, "completed", map[string]any{
			"amountOut": *w.AmountOut, "payout": *w.PayoutID,
		}))
	})
}

// failUnrequested ends a swap whose payout was refused, unless another process has requested the payout meanwhile: that
// payout is followed instead. One that requests it later than this is refused by the database.
func (s *Service) failUnrequested(ctx context.Context, swapID, message string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// A withdrawal that is being requested holds the row, so the look at the key comes after its commit.
		w, err := lock(ctx, tx, swapID)
		if err != nil || w.Status != Processing || !w.isDelivered() || w.PayoutID != nil {
			return err
		}
		payoutID, isKnown, err := s.Payouts.FindPayout(ctx, tx, w.OrgID, payoutKey(swapID))
		if err != nil {
			return fmt.Errorf("look for the payout of swap %s: %w", swapID, err)
		}
		if isKnown {
			return storePayout(ctx, tx, w, payoutID)
		}
		return s.failDelivered(ctx, tx, w, message)
	})
}

// failEnded ends a swap whose payout ended without paying.
func (s *Service) failEnded(ctx context.Context, swapID, message string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		w, err := lock(ctx, tx, swapID)
		if err != nil || w.Status != Processing || w.PayoutID == nil {
			return err
		}
		return s.failDelivered(ctx, tx, w, message)
	})
}

// failDelivered ends a swap that is locked and whose output cannot be paid out. The output stays in the product's
// balance. Rule SWAP-38.
func (s *Service) failDelivered(ctx context.Context, tx pg.Tx, w Swap, message string) error {
	postings, err := s.fail(ctx, tx, w, failure{
		reason: DestinationUnavailable, message: message, refunded: w.Refunded, refundReport: provider.RefundNone,
	})
	if err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return fmt.Errorf("fail swap %s: %w", w.ID, err)
	}
	return nil
}
