package withdrawal

import (
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Approvers knows an organization's rule and the passkeys of its people, as the signer recorded them.
type Approvers interface {
	// LoadRule returns the rule that holds as the transaction sees it, or nil.
	LoadRule(ctx context.Context, tx pg.Tx, org string) (*signer.ApprovalRule, error)
	// CheckSignature verifies a signature as the signer will. A fault says in plain words why it is not valid; any
	// other error leaves that open.
	CheckSignature(ctx context.Context, tx pg.Tx, org, person string, right signer.Right, signature signer.KeySignature,
		statement func(signer.StatementContext) signer.Statement) error
	// LoadSigned returns a checked signature with its words and its passkey, for the audit log.
	LoadSigned(ctx context.Context, tx pg.Tx, org string, signature signer.KeySignature,
		statement func(signer.StatementContext) signer.Statement) (*signer.SignedStatement, error)
	// AskToSign mails those whose passkeys approve payments, without one person.
	AskToSign(ctx context.Context, tx pg.Tx, org, skippedPerson, subject, text string) error
	// AssetWords returns how the signer's policy names a network and writes the amounts of an asset; a nil token is
	// written in atomic units. Fault: UNAVAILABLE while the signer has not said it.
	AssetWords(name chain.Name, contract chain.Address) (network string, token *signer.Token, err error)
	// Context returns what a statement says beside what it is about.
	Context(person, notAfter string) signer.StatementContext
}

// ruleFacts are what decides whether people have to sign a payment. The signer decides by its own journal: where the
// sum here is smaller than its own, it refuses the payment, which goes back to people.
type ruleFacts struct {
	rule        *signer.ApprovalRule // nil: no rule holds
	unsigned    money.Amount         // what was paid of the asset without signatures in a day
	batchSigned int                  // people who signed the batch of which the payment is a row
}

// loadRule loads the rule and what it counts, without the withdrawal excludedID.
func (s *Service) loadRule(
	ctx context.Context, tx pg.Tx, org string, mintID int, excludedID string,
) (r ruleFacts, err error) {
	if s.Approvers == nil {
		return r, nil
	}
	if r.rule, err = s.Approvers.LoadRule(ctx, tx, org); err != nil {
		return r, fmt.Errorf("load the rule of %s: %w", org, err)
	}
	if r.rule == nil || r.rule.Quorum == 0 {
		return ruleFacts{}, nil
	}
	if r.unsigned, err = approver.SumUnsigned(ctx, tx, org, mintID, excludedID); err != nil {
		return r, err
	}
	return r, nil
}

// countBatchSigned returns how many people signed a batch with signatures that have not ended.
func countBatchSigned(ctx context.Context, tx pg.Tx, batchID string) (n int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT count(DISTINCT (approver_kind, approver_id)) FROM payout_approvals
		WHERE batch_id = $1 AND (signature ->> 'notAfter')::timestamptz > $2`, batchID, tx.Now).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count who signed batch %s: %w", batchID, err)
	}
	return n, nil
}

// batchID returns the batch whose row the facts are about, or "".
func (f Facts) batchID() string {
	if f.request.batch != nil {
		return f.request.batch.Row.BatchID
	}
	if f.approval != nil {
		return f.approval.row.batchID()
	}
	return ""
}

// loadRuleFacts loads what the rule asks about one payment.
func (s *Service) loadRuleFacts(ctx context.Context, tx pg.Tx, org string, f *Facts) (err error) {
	if f.ruleFacts, err = s.loadRule(ctx, tx, org, f.mint.ID, f.costs.excludedID); err != nil || f.rule == nil {
		return err
	}
	if batchID := f.batchID(); batchID != "" {
		f.batchSigned, err = countBatchSigned(ctx, tx, batchID)
	}
	return err
}

// peopleByRule returns how many people have to sign the payment by the organization's rule.
func (f Facts) peopleByRule() int {
	if f.rule == nil {
		return 0
	}
	amount := f.amount
	switch {
	case f.approval != nil:
		amount = f.approval.row.amount
		if slices.Contains(f.approval.row.reasons, ReasonApprovalRule) {
			return f.rule.Quorum // the signer asked for them, or the request did
		}
	case f.owner.IsOrganization():
		debit, err := f.debitAmount()
		if err != nil {
			return f.rule.Quorum
		}
		amount = debit
	}
	intent := signer.Intent{
		Purpose: signer.Payment, Chain: f.mint.Chain, Contract: f.mint.Contract, Amount: amount,
		CustomerID: f.owner.CustomerID(),
	}
	if f.owner.IsRefund() {
		intent.Refund = &signer.RefundOf{}
	}
	if f.owner.IsBatch() {
		intent.Batch = &signer.BatchRow{}
	}
	return f.rule.PeopleFor(intent, f.unsigned)
}

// maker returns the person who asks for an organization's own payment while a rule holds, or "". The terms have the
// name, so that the signer refuses this person's signature.
func (f Facts) maker() string {
	actor := f.request.Actor
	if f.request.payout != nil {
		actor = f.request.payout.Requester
	}
	isPerson := actor.Kind == audit.User("").Kind || actor.Kind == audit.Operator("").Kind
	if f.rule == nil || !f.owner.NeedsWhitelist() || !isPerson {
		return ""
	}
	return approverName(actor)
}

// checkRule holds a payment that people have to sign. Without a rule it leaves no trace. Rule SA-1.
func checkRule(f Facts) (Step, *fault.Fault) {
	people := f.peopleByRule()
	if f.rule == nil {
		return Step{}, nil
	}
	s := Step{Gate: GateApprovalRule, Result: ResultPass, Inputs: map[string]string{
		"version": fmt.Sprint(f.rule.Version), "people": fmt.Sprint(people), "unsignedInDay": f.unsigned.String(),
	}}
	switch {
	case people == 0:
	case f.owner.IsBatch() && f.batchSigned >= people:
		s.Result, s.Inputs["why"] = ResultSkipped, "People signed it with batch "+f.batchID()+"."
	case f.swapSigned() >= people:
		s.Result, s.Inputs["why"] = ResultSkipped, "People signed it with swap "+f.request.payout.SwapID+"."
	default:
		s.Result, s.Reason = ResultHold, ReasonApprovalRule
	}
	return s, nil
}

// recheckRule refuses an approval that lacks the signature which the rule asks for, or has one that is not valid.
func recheckRule(f Facts) (Step, *fault.Fault) {
	a, people := f.approval, f.peopleByRule()
	s := Step{Gate: GateApprovalRule, Result: ResultRefuse, Inputs: map[string]string{"people": fmt.Sprint(people)}}
	switch {
	case a.signatureFault != nil:
		return s, a.signatureFault
	case people == 0:
		return Step{}, nil
	case a.row.batch != nil && f.batchSigned < people:
		return s, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"Your organization's rule asks for the signatures of %d people, this is a row of batch payout %s, and %d "+
				"people signed that batch. A signature of the row alone is not enough.", people, a.row.batch.BatchID,
			f.batchSigned).
			WithAdvice("Remove it, and pay the row with a new batch payout that people sign.")
	case a.row.batch == nil && a.signature == nil:
		return s, newUnsigned(people, a.page)
	}
	s.Result = ResultPass
	return s, nil
}

// newUnsigned returns the answer to an approval without the signature that the rule asks for. page is where people
// sign, or "".
func newUnsigned(people int, page string) *fault.Fault {
	advice := "Approve it with your passkey on the page Approvals of the dashboard."
	if page != "" {
		advice = "Approve it with your passkey on the page " + page
	}
	return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
		"Your organization's rule asks for the signatures of %d people for this payment, and this approval has none.",
		people).WithAdvice("%s", advice)
}

// newStatement returns the words that a person signs who approves a withdrawal: those that the signer builds from the
// intent of its order.
func (s *Service) newStatement(
	ctx context.Context, tx pg.Tx, org string, r storedWithdrawal, m mint.Mint,
) (func(signer.StatementContext) signer.Statement, error) {
	if r.batch != nil {
		if s.Batches == nil {
			return nil, fmt.Errorf("withdrawal %s pays a row of a batch, and nothing proves rows", r.id)
		}
		proofs, err := s.Batches.LoadProofs(ctx, tx, org, r.batch.BatchID, r.batch.Row)
		if err != nil {
			return nil, fmt.Errorf("prove withdrawal %s: %w", r.id, err)
		}
		return func(c signer.StatementContext) signer.Statement {
			return signer.BatchStatement(proofs[0].Grant.Header, c)
		}, nil
	}
	return s.newPaymentStatement(org, r, m)
}

func (s *Service) newPaymentStatement(
	org string, r storedWithdrawal, m mint.Mint,
) (func(signer.StatementContext) signer.Statement, error) {
	words, err := s.newPaymentWords(org, r, m)
	if err != nil {
		return nil, err
	}
	return func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) }, nil
}

func (s *Service) newPaymentWords(org string, r storedWithdrawal, m mint.Mint) (signer.PaymentWords, error) {
	network, token, err := s.Approvers.AssetWords(r.chain, m.Contract)
	return signer.PaymentWords{
		Terms: r.signedTerms(org, m), Purpose: signer.Payment, CustomerID: r.owner.CustomerID(),
		Round: r.approvalRound, Network: network, Token: token,
	}, err
}

// checkSignature verifies the signature of an approval of a locked withdrawal. The fault says why it is not valid.
func (s *Service) checkSignature(
	ctx context.Context, tx pg.Tx, org, person string, signature signer.KeySignature, r storedWithdrawal, m mint.Mint,
) (*signer.SignedStatement, *fault.Fault, error) {
	if s.Approvers == nil {
		return nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"This installation has no passkeys of approvers, and the approval has a signature of one.").
			WithAdvice("Approve it without a signature."), nil
	}
	statement, err := s.newStatement(ctx, tx, org, r, m)
	if err != nil {
		return nil, nil, err
	}
	err = s.Approvers.CheckSignature(ctx, tx, org, person, signer.RightApprove, signature, statement)
	if refusal := fault.Find(err); refusal != nil {
		return nil, refusal, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("verify the signature of withdrawal %s: %w", r.id, err)
	}
	signed, err := s.Approvers.LoadSigned(ctx, tx, org, signature, statement)
	if err != nil {
		return nil, nil, fmt.Errorf("read the signature of withdrawal %s: %w", r.id, err)
	}
	return signed, nil, nil
}

// askToSign mails the people who have to sign a withdrawal by the organization's rule. A row of a batch is signed with
// its batch. Rule SA-15.
func (s *Service) askToSign(ctx context.Context, tx pg.Tx, org string, w Withdrawal, maker string) error {
	if s.Approvers == nil || w.Status != AwaitingApproval || w.ApprovalFingerprint == "" || w.BatchID != "" {
		return nil
	}
	amount := w.Amount.Decimal(w.Mint.Decimals) + " " + signer.EscapeText(w.Mint.Symbol)
	text := fmt.Sprintf("Withdrawal %s of %s on %s to\n\n%s\n\nneeds signatures of people by your organization's "+
		"rule.\n\nApproval fingerprint: %s\n\nThe page shows the same fingerprint. If it shows another one, do not "+
		"sign, and tell the operator.", w.ID, amount, w.Mint.Chain, signer.EscapeText(string(w.ToAddress)),
		w.ApprovalFingerprint)
	if s.ApprovalPage != nil {
		text += "\n\n" + s.ApprovalPage(w.ID)
	}
	if err := s.Approvers.AskToSign(ctx, tx, org, maker, "A withdrawal needs your signature", text); err != nil {
		return fmt.Errorf("ask people to sign %s: %w", w.ID, err)
	}
	return nil
}

// returnedRequired returns how many approvals a withdrawal needs by the rule after the signer returned it for lack of
// signatures.
func (s *Service) returnedRequired(ctx context.Context, tx pg.Tx, org string, refused *signer.Refusal) (int, error) {
	if s.Approvers == nil || refused.Code != signer.RefusedSignature {
		return 0, nil
	}
	rule, err := s.Approvers.LoadRule(ctx, tx, org)
	if err != nil || rule == nil {
		return 0, err
	}
	return rule.Quorum, nil
}
