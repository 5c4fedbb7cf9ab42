package deposit

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
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
	// AssetWords returns how the signer's policy names a network and writes the amounts of an asset; a nil token is
	// written in atomic units. Fault: UNAVAILABLE while the signer has not said it.
	AssetWords(name chain.Name, contract chain.Address) (network string, token *signer.Token, err error)
	// Context returns what a statement says beside what it is about.
	Context(person, notAfter string) signer.StatementContext
}

// ReturnRequest is a return or a redirect of a flagged deposit that a person asked for. It waits for the signatures of
// other people, and then becomes the resolution of the same id.
type ReturnRequest struct {
	ID string
	// IsRedirect says that it goes to another address than the sender, and that operators sign it.
	IsRedirect bool
	Reason     string // of a redirect
	Reference  string // of a redirect
	ToAddress  chain.Address
	Amount     money.Amount // what leaves
	FeeKept    money.Amount // of a native coin, for the network
	Note       string
	AskedBy    audit.Actor
	AskedName  string // of the person; "" when there is none
	AskedAt    time.Time
	SignedBy   []audit.Actor // whose signatures still count, in the order in which they came
}

// IsSignedBy reports whether a signature of this person counts.
func (q ReturnRequest) IsSignedBy(person audit.Actor) bool {
	return slices.Contains(q.SignedBy, person)
}

// ReturnReview is what a person sees before the return or the redirect of a flagged deposit. It is read in one
// transaction.
type ReturnReview struct {
	// People is how many people have to sign a return by the organization's rule, or operators a redirect by theirs; 0:
	// it needs no signature.
	People int
	// Request waits for signatures; nil: no one has asked for it.
	Request *ReturnRequest
	// NoWords says why no one can sign it now; nil: its words are known.
	NoWords   *fault.Fault
	statement func(person, notAfter string) signer.Statement
}

// Statement returns the words that a person signs, nil without a request. The signer builds the same words.
func (r ReturnReview) Statement(person, notAfter string) signer.Statement {
	if r.statement == nil {
		return nil
	}
	return r.statement(person, notAfter)
}

const (
	requestOpen      = "OPEN"
	requestSigned    = "SIGNED"
	requestWithdrawn = "WITHDRAWN"
	requestRestored  = "RESTORED"

	// signatureMargin is how long before its end a signature of a return counts no more: the signer verifies it when it
	// admits the return, which comes later.
	signatureMargin = 2 * time.Minute
)

// LoadReturn returns who has to sign the return of a deposit, and the words of one that waits for signatures. Error:
// fault NOT_FOUND, also for a deposit of another organization.
func (s *Service) LoadReturn(ctx context.Context, org, depositID string) (r ReturnReview, err error) {
	d, err := s.findFlagged(ctx, depositID, Actor{OrgID: org}, "")
	if err != nil || d.status != Flagged || s.Approvers == nil {
		return r, err
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		r = ReturnReview{}
		if r.People, err = s.countPeople(ctx, tx, d, d.amount); err != nil {
			return err
		}
		return s.loadRequest(ctx, tx, d, false, &r)
	})
	if err != nil {
		return ReturnReview{}, fmt.Errorf("look at the return of deposit %s: %w", depositID, err)
	}
	return r, nil
}

// loadRequest stores in a review the return or the redirect that waits for signatures, with its words.
func (s *Service) loadRequest(
	ctx context.Context, tx pg.Tx, d storedDeposit, isRedirect bool, r *ReturnReview,
) error {
	q, err := loadReturnRequest(ctx, tx, d.id, "")
	if err != nil || q == nil || q.IsRedirect != isRedirect {
		return err
	}
	approvals, err := s.loadSignatures(ctx, tx, d, *q)
	if err != nil {
		return err
	}
	for _, a := range approvals {
		kind, personID, _ := strings.Cut(a.Approver, " ")
		q.SignedBy = append(q.SignedBy, audit.Actor{Kind: kind, ID: personID})
	}
	r.Request = q
	words, err := s.newReturnStatement(d, q.resolution())
	if r.NoWords = fault.Find(err); err != nil {
		return ignoreFault(err)
	}
	r.statement = func(person, notAfter string) signer.Statement {
		return words(s.Approvers.Context(person, notAfter))
	}
	return nil
}

// ignoreFault returns an error that is no fault.
func ignoreFault(err error) error {
	if fault.Find(err) != nil {
		return nil
	}
	return err
}

// AskReturn returns a flagged deposit like Reject. Where the organization's rule asks for people, nothing leaves: the
// return waits for their signatures, and the person who asked for it is none of them. Asking again changes nothing.
// Errors: those of Reject. Rule CO-145.
func (s *Service) AskReturn(ctx context.Context, depositID string, actor Actor, note string) (Deposit, error) {
	return s.sendAway(ctx, depositID, resolution{decision: decisionRejected, note: note, actor: actor, mayAsk: true})
}

// countPeople returns how many people have to sign the return of an amount by the organization's rule. After the signer
// asked for signatures it is the quorum.
func (s *Service) countPeople(ctx context.Context, tx pg.Tx, d storedDeposit, amount money.Amount) (int, error) {
	if s.Approvers == nil {
		return 0, nil
	}
	rule, err := s.Approvers.LoadRule(ctx, tx, d.orgID)
	if err != nil || rule == nil || rule.Quorum == 0 {
		return 0, err
	}
	var isAsked bool
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'FAILED' AND failure = $2)`,
		d.id, signer.RefusedSignature).Scan(&isAsked)
	if err != nil {
		return 0, fmt.Errorf("look for attempts that lacked signatures: %w", err)
	}
	if isAsked {
		return rule.Quorum, nil
	}
	unsigned, err := approver.SumUnsigned(ctx, tx, d.orgID, *d.mintID, "")
	if err != nil {
		return 0, err
	}
	return rule.PeopleFor(signer.Intent{
		Purpose: signer.Return, Chain: d.chain, Contract: d.contract, Amount: amount,
	}, unsigned), nil
}

// holdForPeople keeps a return from leaving where the organization's rule asks for people: it writes the request, or
// refuses a caller that cannot ask. isHeld is false where no one has to sign. The deposit is locked and flagged.
func (s *Service) holdForPeople(
	ctx context.Context, tx pg.Tx, d storedDeposit, res resolution,
) (isHeld bool, err error) {
	people, err := s.countPeople(ctx, tx, d, res.sent)
	if err != nil {
		return false, err
	}
	waiting, err := loadReturnRequest(ctx, tx, d.id, "")
	switch {
	case err != nil:
		return false, err
	case people > 0 && !res.mayAsk:
		return false, s.newUnsignedReturn(d, people)
	case waiting != nil && people > 0 && !waiting.IsRedirect:
		return true, nil
	case waiting != nil:
		return false, newReturnWaits(d, *waiting)
	case people == 0:
		return false, nil
	}
	return true, insertReturnRequest(ctx, tx, d, res, people)
}

// insertReturnRequest writes that a return or a redirect waits for the signatures of people.
func insertReturnRequest(ctx context.Context, tx pg.Tx, d storedDeposit, res resolution, people int) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO return_requests (request_id, org_id, deposit_id, status, to_address, sent, fee_kept, note, asked_at,
			asked_by_kind, asked_by, asked_by_name, decision, reason, reference)
		VALUES ($1, $2, $3, 'OPEN', $4, $5, $6, nullif($7, ''), $8, $9, $10, nullif($11, ''), $12, nullif($13, ''),
			nullif($14, ''))`,
		res.id, d.orgID, d.id, string(res.toAddress), res.sent, res.feeKept, res.note, tx.Now, res.actor.Kind,
		res.actor.ID, res.actor.Name, res.decision, res.reason, res.reference)
	if err != nil {
		return fmt.Errorf("ask for the return of deposit %s: %w", d.id, err)
	}
	detail := map[string]string{
		"resolution": res.id, "toAddress": string(res.toAddress), "amount": res.sent.String(), "note": res.note,
		"required": fmt.Sprint(people),
	}
	if res.decision == decisionRedirected {
		detail["reason"], detail["reference"] = res.reason, res.reference
	}
	return recordAudit(ctx, tx, []audit.Entry{
		newDecisionEntry(d, res.actor, requestVerbs[res.decision]+"_requested", detail),
	})
}

// requestVerbs name what waits for signatures in the audit log.
var requestVerbs = map[string]string{decisionRejected: "return", decisionRedirected: "redirect"}

// newUnsignedReturn returns the answer to a rejection by a caller that cannot ask people for signatures.
func (s *Service) newUnsignedReturn(d storedDeposit, people int) *fault.Fault {
	advice := "Ask for the return on the deposit's page of the dashboard, where your colleagues sign it."
	if s.ReturnPage != nil {
		advice = "Ask for the return on the page " + s.ReturnPage(d.id) + ", where people of the organization sign it."
	}
	return newConflict(d.status, fault.InvalidState, fault.Undecided,
		"The organization's rule asks for the signatures of %d people for this return, and only its pages take them.",
		people).WithAdvice("%s", advice)
}

// newReturnWaits returns the answer to another decision while a return or a redirect waits for signatures.
func newReturnWaits(d storedDeposit, q ReturnRequest) *fault.Fault {
	if q.IsRedirect {
		return newConflict(d.status, fault.ResolutionInProgress, fault.NothingWritten,
			"An operator asked to send this deposit to another address, and that waits for signatures of operators.").
			WithAdvice("The operators sign it on the deposit's page of the console, or take it back there.")
	}
	return newConflict(d.status, fault.ResolutionInProgress, fault.NothingWritten,
		"A person asked for the return of this deposit, and the return waits for signatures.").
		WithAdvice("Sign it on the deposit's page of the dashboard, or take it back there first.")
}

// checkNoRequest refuses a decision about a locked deposit while a return of it waits for signatures.
func checkNoRequest(ctx context.Context, tx pg.Tx, d storedDeposit) error {
	q, err := loadReturnRequest(ctx, tx, d.id, "")
	if err == nil && q != nil {
		return newReturnWaits(d, *q)
	}
	return err
}

// loadReturnRequest returns the request of a deposit that waits for signatures, or nil. With an id, it returns only the
// one with this id.
func loadReturnRequest(ctx context.Context, tx pg.Tx, depositID, requestID string) (*ReturnRequest, error) {
	var q ReturnRequest
	err := tx.QueryRow(ctx, `
		SELECT request_id, to_address, sent, fee_kept, coalesce(note, ''), asked_by_kind, asked_by,
			coalesce(asked_by_name, ''), asked_at, decision = 'REDIRECTED', coalesce(reason, ''),
			coalesce(reference, '')
		FROM return_requests WHERE deposit_id = $1 AND status = 'OPEN' AND $2 IN ('', request_id)`,
		depositID, requestID).
		Scan(&q.ID, &q.ToAddress, &q.Amount, &q.FeeKept, &q.Note, &q.AskedBy.Kind, &q.AskedBy.ID, &q.AskedName,
			&q.AskedAt, &q.IsRedirect, &q.Reason, &q.Reference)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a return of deposit %s that waits for signatures: %w", depositID, err)
	}
	return &q, nil
}

// resolution returns the resolution that the request becomes.
func (q ReturnRequest) resolution() resolution {
	return resolution{
		id: q.ID, decision: q.decision(), reason: q.Reason, reference: q.Reference, note: q.Note,
		actor: Actor{Actor: q.AskedBy, Name: q.AskedName}, toAddress: q.ToAddress, sent: q.Amount, feeKept: q.FeeKept,
		madeBy: approver.PersonName(q.AskedBy),
	}
}

func (q ReturnRequest) decision() string {
	if q.IsRedirect {
		return decisionRedirected
	}
	return decisionRejected
}

// signersOf returns the organization whose people sign, or signer.Operators.
func (q ReturnRequest) signersOf(d storedDeposit) string {
	if q.IsRedirect {
		return signer.Operators
	}
	return d.orgID
}

// returnTerms returns the terms of the order of a resolution: what people sign of a return or a redirect.
func returnTerms(d storedDeposit, res resolution) signer.Terms {
	t := signer.Terms{
		OrgID: d.orgID, WithdrawalID: res.id, Chain: d.chain, MintID: *d.mintID, Contract: d.contract,
		To: res.toAddress, Amount: res.sent, MadeBy: res.madeBy,
	}
	if res.decision == decisionRedirected {
		t.Redirect = &signer.RedirectOf{DepositID: d.id, Reason: res.reason, Reference: res.reference}
	}
	return t
}

// newReturnStatement returns the words that a person signs who approves a return: those that the signer builds from the
// intent of its order.
func (s *Service) newReturnStatement(
	d storedDeposit, res resolution,
) (func(signer.StatementContext) signer.Statement, error) {
	network, token, err := s.Approvers.AssetWords(d.chain, d.contract)
	if err != nil {
		return nil, err
	}
	words := signer.PaymentWords{
		Terms: returnTerms(d, res), Purpose: signer.Return, Network: network, Token: token,
	}
	if words.Redirect != nil {
		return func(c signer.StatementContext) signer.Statement { return signer.RedirectStatement(words, c) }, nil
	}
	return func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) }, nil
}

// loadSignatures returns the approvals of a request whose signatures still count, one of each person, the first one
// first.
func (s *Service) loadSignatures(
	ctx context.Context, tx pg.Tx, d storedDeposit, q ReturnRequest,
) (approvals []signer.Approval, err error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac, signature FROM (
			SELECT DISTINCT ON (approver_kind, approver_id) * FROM return_signatures
			WHERE request_id = $1 AND not_after > $2 ORDER BY approver_kind, approver_id, not_after DESC
		) g ORDER BY at, approver_kind, approver_id`, q.ID, tx.Now.Add(signatureMargin))
	if err != nil {
		return nil, fmt.Errorf("read the signatures of return %s: %w", q.ID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signer.Approval])
	if err != nil {
		return nil, fmt.Errorf("read the signatures of return %s: %w", q.ID, err)
	}
	terms := returnTerms(d, q.resolution())
	for _, a := range found {
		if !hmac.Equal(s.GrantKey.MakeApproval(terms, 0, a.Approver).MAC, a.MAC) {
			s.Log.ErrorContext(ctx, "deposit: a signature of a return is of another content", "return", q.ID,
				"approver", a.Approver)
			continue
		}
		approvals = append(approvals, a)
	}
	return approvals, nil
}

// SignReturn records a person's signature of a return that waits for it. With the last one that the organization's
// rule asks for, the return leaves like one of Reject. A repeated call after that returns the deposit as it is. Errors:
// those of Reject, INVALID_STATE for a return that does not wait any more and for a person's second signature, and
// INVALID_REQUEST for a signature that is not valid. Rules CO-145, CO-146 and SA-7.
func (s *Service) SignReturn(
	ctx context.Context, depositID, requestID string, actor Actor, signature signer.KeySignature,
) (Deposit, error) {
	return s.signRequest(ctx, depositID, requestID, actor, signature, decisionRejected)
}

// signRequest is SignReturn, also of a redirect.
func (s *Service) signRequest(
	ctx context.Context, depositID, requestID string, actor Actor, signature signer.KeySignature, decision string,
) (object Deposit, err error) {
	unlocked, err := s.findFlagged(ctx, depositID, actor, "")
	if err == nil {
		err = s.voidRefused(ctx, unlocked)
	}
	if err != nil {
		return object, err
	}
	ch, payerID, err := s.loadPayer(ctx, unlocked)
	if err != nil {
		return object, err
	}
	var feeKept money.Amount
	if unlocked.contract == "" && unlocked.status == Flagged {
		if feeKept, err = s.quoteFeeKept(ctx, ch, unlocked); err != nil {
			s.Log.Warn("deposit: the chain does not say what a transfer costs", "deposit", depositID, "error", err)
			return object, newNoFee(unlocked)
		}
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		d, isRepeated, err := s.lockFlagged(ctx, tx, depositID, decision)
		if err != nil || isRepeated {
			return s.loadObject(ctx, tx, d, &object, err)
		}
		if unlocked.status != Flagged {
			return newNoRequest(d) // it came back meanwhile, and what the network asks for was not read
		}
		q, err := s.loadSignable(ctx, tx, d, requestID, actor, feeKept, decision)
		if err != nil {
			return err
		}
		return s.signReturn(ctx, tx, d, *q, actor, signature, payerID, &object)
	})
	if pg.ViolatesConstraint(err, "deposit_resolutions_void_first") {
		// Another decision was refused meanwhile, and its grant has to be voided first.
		return Deposit{}, newNoRequest(unlocked)
	}
	if err != nil {
		return Deposit{}, s.mapConflict(ctx, depositID, actor, decision, &object, err)
	}
	return object, nil
}

// signReturn writes the signature of a return of a locked deposit, and lets the return go with the last one.
func (s *Service) signReturn(
	ctx context.Context, tx pg.Tx, d storedDeposit, q ReturnRequest, actor Actor, signature signer.KeySignature,
	payerID string, object *Deposit,
) error {
	res, person := q.resolution(), approver.PersonName(actor.Actor)
	statement, err := s.newReturnStatement(d, res)
	if err != nil {
		return err
	}
	err = s.Approvers.CheckSignature(ctx, tx, q.signersOf(d), person, signer.RightApprove, signature, statement)
	if err != nil {
		return fmt.Errorf("verify the signature of return %s: %w", q.ID, err)
	}
	if err := s.writeSignature(ctx, tx, d, q, actor, signature); err != nil {
		return err
	}
	people, err := s.countSigners(ctx, tx, d, q)
	if err != nil {
		return err
	}
	if res.approvals, err = s.loadSignatures(ctx, tx, d, q); err != nil {
		return err
	}
	res.required = max(people, 1)
	signed, err := s.Approvers.LoadSigned(ctx, tx, q.signersOf(d), signature, statement)
	if err != nil {
		return fmt.Errorf("read the signature of return %s: %w", q.ID, err)
	}
	entry := newDecisionEntry(d, actor, requestVerbs[res.decision]+"_signed", nil)
	entry.Detail = map[string]any{
		"resolution": q.ID, "toAddress": string(q.ToAddress), "amount": q.Amount.String(),
		"approvals": fmt.Sprint(len(res.approvals)), "required": fmt.Sprint(res.required), "people": people,
		"signed": signed,
	}
	if err := recordAudit(ctx, tx, []audit.Entry{entry}); err != nil {
		return err
	}
	if len(res.approvals) < res.required {
		return s.loadObject(ctx, tx, d, object, nil)
	}
	if err := endReturnRequest(ctx, tx, q.ID, requestSigned, actor.Actor); err != nil {
		return err
	}
	return s.startTransfer(ctx, tx, d, res, payerID, object)
}

// loadSignable returns the request of a locked deposit that a person may sign. feeKept is what the network asks for
// now.
func (s *Service) loadSignable(
	ctx context.Context, tx pg.Tx, d storedDeposit, requestID string, actor Actor, feeKept money.Amount,
	decision string,
) (*ReturnRequest, error) {
	q, err := loadReturnRequest(ctx, tx, d.id, requestID)
	switch {
	case err != nil:
		return nil, err
	case q == nil || requestID == "" || q.decision() != decision:
		return nil, newNoRequest(d)
	case s.Approvers == nil:
		return nil, newConflict(d.status, fault.InvalidState, fault.Undecided,
			"This installation has no passkeys of approvers, and a return waits for their signatures.").
			WithAdvice("Take the return back and reject the deposit without a signature.")
	case q.AskedBy == actor.Actor:
		return nil, newConflict(d.status, fault.InvalidState, fault.Undecided,
			"You asked for this %s, so another person signs it.", requestVerbs[decision])
	case q.FeeKept.Less(feeKept):
		return nil, newConflict(d.status, fault.InvalidState, fault.Undecided,
			"The network now asks for %v units to send this deposit, and the return keeps %v for it.", feeKept,
			q.FeeKept).
			WithAdvice("Sign it when the network costs less, or take it back and ask for the return again.")
	}
	if err := s.checkSender(d, *q, actor); err != nil {
		return nil, err
	}
	if _, isOwn, err := findOwnAddress(ctx, tx, d, q.ToAddress); err != nil {
		return nil, err
	} else if isOwn {
		return nil, newOwnAddress(q.ToAddress)
	}
	return q, nil
}

// checkSender refuses a return that would not go to the sender, or would go to one on a sanctions list. A redirect goes
// where operators say.
func (s *Service) checkSender(d storedDeposit, q ReturnRequest, actor Actor) error {
	if q.IsRedirect {
		return nil
	}
	if err := s.verifyFlag(d, actor); err != nil {
		return err
	}
	if d.flag.returnTo != string(q.ToAddress) {
		return newNoRequest(d)
	}
	if s.BlockSanctioned {
		return refuseSanctioned(d)
	}
	return nil
}

// countSigners returns how many people have to sign a request by the rule that holds now.
func (s *Service) countSigners(ctx context.Context, tx pg.Tx, d storedDeposit, q ReturnRequest) (int, error) {
	if q.IsRedirect {
		return s.countOperators(ctx, tx)
	}
	return s.countPeople(ctx, tx, d, q.Amount)
}

func (s *Service) writeSignature(
	ctx context.Context, tx pg.Tx, d storedDeposit, q ReturnRequest, actor Actor, signature signer.KeySignature,
) error {
	approvals, err := s.loadSignatures(ctx, tx, d, q)
	if err != nil {
		return err
	}
	person := approver.PersonName(actor.Actor)
	if slices.ContainsFunc(approvals, func(a signer.Approval) bool { return a.Approver == person }) {
		return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
			"You have already signed this %s, and each person counts once.", requestVerbs[q.decision()]).
			WithAdvice("Another person has to sign it, too.")
	}
	notAfter, err := time.Parse(time.RFC3339Nano, signature.NotAfter)
	if err != nil {
		return fmt.Errorf("the signature of return %s has no end: %w", q.ID, err)
	}
	terms := returnTerms(d, q.resolution())
	_, err = tx.Exec(ctx, `
		INSERT INTO return_signatures (org_id, request_id, approver_kind, approver_id, not_after, at, digest, mac,
			signature)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		d.orgID, q.ID, actor.Kind, actor.ID, notAfter, tx.Now, terms.ComputeDigest(),
		s.GrantKey.MakeApproval(terms, 0, person).MAC, signature)
	switch {
	case pg.ViolatesConstraint(err, "return_signatures_by_people"):
		return newConflict(d.status, fault.InvalidState, fault.Undecided,
			"Only people of the organization sign the return of a deposit, and only operators a redirect.")
	case err != nil:
		return fmt.Errorf("sign the return of deposit %s: %w", d.id, err)
	}
	return nil
}

// WithdrawReturn takes a return back that waits for signatures; an operator takes back a redirect, too. The deposit
// stays flagged, and nothing was sent. Errors: those of AskReturn, and INVALID_STATE for a return that does not wait
// any more. Rule CO-145.
func (s *Service) WithdrawReturn(
	ctx context.Context, depositID, requestID string, actor Actor,
) (object Deposit, err error) {
	if _, err = s.findFlagged(ctx, depositID, actor, ""); err != nil {
		return object, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		d, err := lockDeposit(ctx, tx, depositID)
		if err != nil {
			return err
		}
		q, err := loadReturnRequest(ctx, tx, d.id, requestID)
		if err != nil {
			return err
		}
		switch {
		case q == nil || requestID == "":
			return newNoRequest(d)
		case q.IsRedirect && !actor.isAllowed(identity.RedirectFlaggedDeposit):
			return newOperatorOnly("Only operators of this service take a redirect back.")
		}
		if err := endReturnRequest(ctx, tx, q.ID, requestWithdrawn, actor.Actor); err != nil {
			return err
		}
		verb := requestVerbs[q.decision()] + "_withdrawn"
		err = recordAudit(ctx, tx, []audit.Entry{newDecisionEntry(d, actor, verb, map[string]string{
			"resolution": q.ID, "toAddress": string(q.ToAddress), "amount": q.Amount.String(),
		})})
		if err != nil {
			return err
		}
		return s.loadObject(ctx, tx, d, &object, nil)
	})
	if err != nil {
		return Deposit{}, err
	}
	return object, nil
}

func newNoRequest(d storedDeposit) *fault.Fault {
	return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
		"This return does not wait for signatures any more.").
		WithAdvice("Open the page of the deposit again.")
}

// endReturnRequest ends a request by compare-and-swap.
func endReturnRequest(ctx context.Context, tx pg.Tx, requestID, status string, actor audit.Actor) error {
	tag, err := tx.Exec(ctx, `
		UPDATE return_requests SET status = $2, ended_at = $3, ended_by_kind = $4, ended_by = $5
		WHERE request_id = $1 AND status = 'OPEN'`, requestID, status, tx.Now, actor.Kind, actor.ID)
	if err != nil {
		return fmt.Errorf("end return %s: %w", requestID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("return %s does not wait for signatures any more", requestID)
	}
	return nil
}

// restoreReturnRequest ends the request of a return that the signer's journal has and the database did not. It returns
// what was asked for, "" if the database has no such request.
func restoreReturnRequest(ctx context.Context, tx pg.Tx, resolutionID string) (decision string, _ error) {
	_, err := tx.Exec(ctx, `
		UPDATE return_requests SET status = $2, ended_at = $3, ended_by_kind = $4, ended_by = $5
		WHERE request_id = $1 AND status = 'OPEN'`, resolutionID, requestRestored, tx.Now, systemActor.Kind,
		systemActor.ID)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT coalesce(max(decision), '') FROM return_requests WHERE request_id = $1`,
			resolutionID).Scan(&decision)
	}
	if err != nil {
		return "", fmt.Errorf("restore the request of return %s: %w", resolutionID, err)
	}
	return decision, nil
}
