package dashboard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
)

// The names of the acts of the page of a batch payout, besides approveAct.
const (
	submitPayoutAct = "submit"
	rejectPayoutAct = "reject"
	cancelPayoutAct = "cancel"
	pausePayoutAct  = "pause"
	resumePayoutAct = "resume"
	retryPayoutAct  = "retry"
)

// The fields of the submission.
const (
	tickedName    = "ticked"      // the boxes of look-alikes
	duplicateName = "duplicateOf" // the batch of the same list
	// existingName is what a refusal named, for the page that shows the form again. No form has it.
	existingName = "existing"
)

// payoutReasonMax is how many characters the feature takes of a reason.
const payoutReasonMax = 500

// payoutActs are what people do with a batch payout. Rules PAGE-102 and PAGE-103.
func (d *dashboard) payoutActs() []pages.Act {
	digest := pages.Field{Name: "digest", BytesMax: digestBytes, Missing: "Open the page again."}
	return []pages.Act{
		{
			Name: submitPayoutAct, Action: identity.ManageBatchPayouts, StepUp: pages.ActStepUp,
			// Each of the rows may have a box.
			BodyBytesMax: rowfile.RowsMax*32 + 64<<10,
			Fields: []pages.Field{
				digest,
				{Name: tickedName, BytesMax: rowfile.RowsMax * 8, Optional: true, HasBoxes: true},
				{Name: duplicateName, BytesMax: wordBytesMax, Optional: true, Checkbox: true},
			},
			FindDone: d.findPayout(func(_ *pages.Request, b payout.Batch) bool { return b.Status != payout.Draft }),
			Run:      d.submitPayout,
		},
		{
			Name: approveAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
			Fields: []pages.Field{digest}, FindDone: d.findPayoutDecision, Run: d.approvePayout,
		},
		{
			Name: signAct, Action: identity.DecideWithdrawal, Fields: approverpages.SignatureFields(digest),
			FindDone: d.findPayoutDecision, Run: d.signPayout,
		},
		{
			Name: rejectPayoutAct, Action: identity.DecideWithdrawal, StepUp: pages.ActStepUp,
			Fields: []pages.Field{{Name: "reason", BytesMax: noteBytesMax, Missing: "Enter why."}},
			FindDone: d.findPayout(func(_ *pages.Request, b payout.Batch) bool {
				return b.Status != payout.AwaitingApproval
			}),
			Run: func(r *pages.Request) (string, error) {
				reason := strings.ReplaceAll(r.Values["reason"], "\r\n", "\n")
				b, err := d.conf.Payouts.Reject(r.Context(), r.Session.OrgID, payoutID(r), reason, actor(r))
				return resultOfPayout(r)(b, err)
			},
		},
		{
			Name: cancelPayoutAct, Action: identity.StopBatchPayout, StepUp: pages.ActStepUp,
			FindDone: d.findPayout(func(_ *pages.Request, b payout.Batch) bool {
				return b.EndedAt != nil || b.StoppedAt != nil
			}),
			Run: func(r *pages.Request) (string, error) {
				return resultOfPayout(r)(d.conf.Payouts.Cancel(r.Context(), r.Session.OrgID, payoutID(r), actor(r)))
			},
		},
		{
			Name: pausePayoutAct, Action: identity.StopBatchPayout, StepUp: pages.ActStepUp,
			FindDone: d.findPayout(func(_ *pages.Request, b payout.Batch) bool {
				return b.EndedAt != nil || b.PausedAt != nil
			}),
			Run: func(r *pages.Request) (string, error) {
				return resultOfPayout(r)(d.conf.Payouts.Pause(r.Context(), r.Session.OrgID, payoutID(r), actor(r)))
			},
		},
		{
			Name: resumePayoutAct, Action: identity.ManageBatchPayouts, StepUp: pages.ActStepUp,
			FindDone: d.findPayout(func(_ *pages.Request, b payout.Batch) bool {
				return b.EndedAt != nil || b.Status == payout.Processing && b.PausedAt == nil
			}),
			Run: func(r *pages.Request) (string, error) {
				return resultOfPayout(r)(d.conf.Payouts.Resume(r.Context(), r.Session.OrgID, payoutID(r), actor(r)))
			},
		},
		{
			Name: retryPayoutAct, Action: identity.ManageBatchPayouts, StepUp: pages.ActStepUp, Keyed: true,
			FindDone: func(*pages.Request) (string, error) { return "", nil }, // Retry finds what the key made.
			Run:      d.retryPayout,
		},
	}
}

func payoutID(r *pages.Request) string { return r.PathParam("batchId") }

func (d *dashboard) payoutOf(r *pages.Request) (payout.Batch, error) {
	return d.conf.Payouts.ByID(r.Context(), r.Session.OrgID, payoutID(r))
}

// findPayout returns the page of a batch payout for which an act is done or does not come any more.
func (d *dashboard) findPayout(
	isDone func(r *pages.Request, b payout.Batch) bool,
) func(*pages.Request) (string, error) {
	return func(r *pages.Request) (string, error) {
		b, err := d.payoutOf(r)
		if err != nil || !isDone(r, b) {
			return "", err
		}
		return payoutPath(r, b.ID), nil
	}
}

// findPayoutDecision returns the page of a batch payout that does not wait for this person any more.
func (d *dashboard) findPayoutDecision(r *pages.Request) (string, error) {
	b, err := d.payoutOf(r)
	if err != nil {
		return "", err
	}
	if b.Status == payout.AwaitingApproval {
		log, err := d.loadPayoutLog(r, b)
		if err != nil {
			return "", err
		}
		if _, counts := log.findApproval(r); !counts {
			return "", nil
		}
	}
	return payoutPath(r, b.ID), nil
}

// resultOfPayout returns the page of a batch payout that an act changed.
func resultOfPayout(r *pages.Request) func(payout.Batch, error) (string, error) {
	return func(b payout.Batch, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return payoutPath(r, b.ID), nil
	}
}

// payoutDigest writes a content hash for the field of a form, and readPayoutDigest reads it.
func payoutDigest(hash contenthash.Hash) string { return fmt.Sprintf("%x", hash[:]) }

func readPayoutDigest(r *pages.Request) (hash contenthash.Hash, err error) {
	if hash, err = contenthash.Parse("sha256:" + r.Values["digest"]); err != nil {
		return hash, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	return hash, nil
}

// submitPayout submits a draft. What the feature says in the words of the interface is said in those of the page.
func (d *dashboard) submitPayout(r *pages.Request) (string, error) {
	hash, err := readPayoutDigest(r)
	if err != nil {
		return "", err
	}
	var ticked []int
	for _, text := range r.ListTicked(tickedName) {
		row, err := strconv.Atoi(text)
		if err != nil {
			return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"This form is not one of this page.")
		}
		ticked = append(ticked, row)
	}
	b, err := d.conf.Payouts.Submit(r.Context(), r.Session.OrgID, payoutID(r), payout.SubmitRequest{
		ContentHash: hash, AcknowledgeDuplicateOf: r.Values[duplicateName], Ticked: ticked, Actor: actor(r),
	})
	f := fault.Find(err)
	if f == nil {
		return resultOfPayout(r)(b, err)
	}
	unticked, _ := f.Details[payout.UntickedDetail].([]int)
	missing, _ := f.Details["shortfall"].([]payout.Shortfall)
	existingID, _ := f.Extra["existingId"].(string)
	switch {
	case f.Code == fault.DuplicateBatch && existingID != "":
		r.Form.Typed[existingName] = existingID
		return "", fault.New(f.Kind, f.Code, f.Effect, "%s", f.Reason).
			WithAdvice("Look at it first. If the list has to be paid once more, tick the box and submit it again.").
			WithParam(duplicateName)
	case len(unticked) > 0:
		return "", fault.New(f.Kind, f.Code, f.Effect, "The addresses of %s look like other ones and have no tick.",
			countRows(len(unticked))).
			WithAdvice("Compare every character of each address, and tick its row.").WithParam(tickedName)
	case len(missing) > 0:
		reason, err := d.describeShortfall(r, missing)
		if err != nil {
			return "", err
		}
		return "", fault.New(f.Kind, f.Code, f.Effect, "%s", reason).
			WithAdvice("Move money to this balance, or pay a shorter list.")
	case f.Code == fault.ApprovalRefused:
		return "", fault.New(f.Kind, f.Code, f.Effect, "This draft is not the one that this page showed.").
			WithAdvice("Look at it again before you submit it.")
	}
	return "", err
}

// describeShortfall says in whole coins what the balance of batch payouts lacks.
func (d *dashboard) describeShortfall(r *pages.Request, missing []payout.Shortfall) (string, error) {
	mints, err := d.loadMints(r)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, s := range missing {
		m, _ := mints.ByID(s.MintID)
		parts = append(parts, s.Missing.Decimal(m.Decimals)+" "+ui.EscapeForeign(m.Symbol)+" on "+networkName(m.Chain))
	}
	return "The balance of batch payouts lacks " + strings.Join(parts, ", ") + ".", nil
}

func (d *dashboard) approvePayout(r *pages.Request) (string, error) {
	return d.approvePayoutWith(r, nil)
}

// signPayout approves with the signature of the person's passkey over the words on the page. Rule PAGE-110.
func (d *dashboard) signPayout(r *pages.Request) (string, error) {
	signature, err := approverpages.ReadSignature(r)
	if err != nil {
		return "", err
	}
	return d.approvePayoutWith(r, &signature)
}

func (d *dashboard) approvePayoutWith(r *pages.Request, signature *signer.KeySignature) (string, error) {
	hash, err := readPayoutDigest(r)
	if err != nil {
		return "", err
	}
	b, err := d.conf.Payouts.ApproveSigned(r.Context(), r.Session.OrgID, payoutID(r), hash, actor(r), signature)
	if err != nil {
		return "", err
	}
	trace.LinkTo(r.Context(), b.ID) // Rule PAGE-65.
	return payoutPath(r, b.ID), nil
}

func (d *dashboard) retryPayout(r *pages.Request) (string, error) {
	b, err := d.conf.Payouts.Retry(r.Context(), r.Session.OrgID, payoutID(r), new(r.Key()), actor(r))
	if f := fault.Find(err); f != nil && f.Code == fault.IdempotencyConflict {
		existingID, _ := f.Extra["existingId"].(string)
		return "", r.NewKeyConflict("the batch payout "+existingID, payoutPath(r, existingID))
	}
	return resultOfPayout(r)(b, err)
}
