package withdrawal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
)

// swapActor is the actor of withdrawals that pay the output of a swap.
var swapActor = audit.System("swap")

// SwapPayoutRequest asks for the payment of what a swap of the organization's own money brought.
type SwapPayoutRequest struct {
	SwapID        string
	Product       string
	MintID        int
	Total         money.Amount // what leaves the balance; of a native coin the network fee comes out of it
	WhitelistedID string
	// Key identifies the payment: payoutKeyPrefix and the swap. It has a space, so no caller can take it.
	Key      string
	Approved *SwapApprovals // nil: no person approved the swap
	// Requester is who asked for the swap. While a rule holds, this person's signature of the payment is refused.
	Requester audit.Actor
}

// payoutKeyPrefix begins the key of a withdrawal that pays the output of a swap.
const payoutKeyPrefix = "swap "

// setSwap sets the swap whose output a withdrawal pays; named is the one whose row names the withdrawal. That row does
// so only after the first event of the withdrawal, whose key covers the time before. A withdrawal that was restored
// has no key. The key is no name that a caller gave, so it is not shown.
func (w *Withdrawal) setSwap(named *string) {
	if named != nil {
		w.SwapID = *named
	}
	if w.IdempotencyKey == nil {
		return
	}
	if swapID, isPayout := strings.CutPrefix(*w.IdempotencyKey, payoutKeyPrefix); isPayout {
		w.SwapID, w.IdempotencyKey = swapID, nil
	}
}

// SwapApprovals are what people approved with a swap, and their approvals.
type SwapApprovals struct {
	Terms     signer.SwapPayout
	Approvals []signer.Approval
	Required  int
}

// RequestSwapPayout accepts the payment of a swap's output, with the gates of every withdrawal of the
// organization's own money. The approvals of the swap stand for those that the threshold asks for, within the
// bounds that were approved; every other reason holds it for people. A key that is known has its withdrawal,
// which may be one that screening blocked. Errors: the faults of RequestOrganization.
func (s *Service) RequestSwapPayout(ctx context.Context, org string, r SwapPayoutRequest) (w Withdrawal, err error) {
	if r.Approved != nil && (r.Approved.Terms.OrgID != org || r.Approved.Terms.SwapID != r.SwapID) {
		return w, fmt.Errorf("the approvals are of swap %s and not of %s", r.Approved.Terms.SwapID, r.SwapID)
	}
	if r.Key != payoutKeyPrefix+r.SwapID {
		return w, fmt.Errorf("the key %q is not that of the payout of swap %s", r.Key, r.SwapID)
	}
	w, _, err = s.Request(ctx, org, Request{
		MintID: r.MintID, Amount: r.Total.String(), IdempotencyKey: &r.Key, Actor: swapActor,
		owner: ledger.ProductOwner(r.Product), listedID: r.WhitelistedID, payout: &r,
	})
	if !fault.HasCode(err, fault.WithdrawalRiskBlocked) {
		return w, err
	}
	blocked := err
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		var accepted *request.Accepted
		if accepted, err = lookupKey(ctx, tx, org, &r.Key); err != nil {
			return err
		}
		if accepted == nil {
			return blocked
		}
		w, err = Load(ctx, tx, org, accepted.ID)
		return err
	})
	return w, err
}

// FindSwapPayout returns the payment that the key of a payout has, as the transaction sees it.
func (s *Service) FindSwapPayout(ctx context.Context, tx pg.Tx, org, key string) (string, bool, error) {
	accepted, err := lookupKey(ctx, tx, org, &key)
	if err != nil || accepted == nil {
		return "", false, err
	}
	return accepted.ID, true, nil
}

// isCovered reports whether the approvals of a swap cover a payment: it is what they approved, in time, and
// at least as many people approved it as the organization requires now. Rule SWAP-36.
func (f Facts) isCovered() bool {
	if f.request.payout == nil || f.request.payout.Approved == nil {
		return false
	}
	approved := f.request.payout.Approved
	t := approved.Terms
	end, err := time.Parse(time.RFC3339Nano, t.NotAfter)
	if err != nil || f.screening.Case.Now.After(end) {
		return false
	}
	taken, err := f.debitAmount()
	if err != nil || taken.Less(t.MinOut) || t.MaxOut.Less(taken) {
		return false
	}
	people := map[string]bool{}
	for _, a := range approved.Approvals {
		people[a.Approver] = true
	}
	return len(people) >= f.coveringRequired() && t.Product == f.owner.Subject && t.ToMintID == f.mint.ID &&
		t.WhitelistedID == f.listedID && t.To == f.destination
}

// signatureMargin is how long before its end the signature of a swap covers no payment: the signer verifies it when it
// admits the payment, which comes later.
const signatureMargin = 5 * time.Minute

// swapSigned returns how many people signed the swap whose output is paid within its bounds, with signatures that have
// not ended.
func (f Facts) swapSigned() int {
	if !f.isCovered() {
		return 0
	}
	people := map[string]bool{}
	for _, a := range f.request.payout.Approved.Approvals {
		if a.Signature == nil {
			continue
		}
		end, err := time.Parse(time.RFC3339Nano, a.Signature.NotAfter)
		if err == nil && f.screening.Case.Now.Add(signatureMargin).Before(end) {
			people[a.Approver] = true
		}
	}
	return len(people)
}

// coveringRequired returns how many people have to have approved a swap for its approvals to cover its payout.
func (f Facts) coveringRequired() int {
	return max(f.quorum, f.request.payout.Approved.Required, 1)
}

// skipIfCovered turns a hold of the threshold into SKIPPED if the approvals of a swap or of a batch cover it.
func skipIfCovered(f Facts, s Step) Step {
	if b := f.request.batch; s.Result == ResultHold && b != nil && !b.IsUnapproved {
		// The batch is PROCESSING, or the insert is refused: enough people approved it with this row.
		s.Result, s.Reason = ResultSkipped, ""
		s.Inputs["why"] = "People approved it with batch " + b.Row.BatchID + "."
		return s
	}
	if s.Result == ResultHold && f.isCovered() {
		s.Result, s.Reason = ResultSkipped, ""
		s.Inputs["why"] = "People approved it with swap " + f.request.payout.SwapID + "."
	}
	return s
}

// coverGrant replaces the grant of a payment by one with the approvals of its swap.
func (s *Service) coverGrant(org string, row storedWithdrawal, f Facts, deducted money.Amount) *signer.Grant {
	approved := f.request.payout.Approved
	return s.GrantKey.MakePayoutGrant(row.signedTerms(org, f.mint), approved.Terms, deducted,
		f.coveringRequired(), approved.Approvals)
}
