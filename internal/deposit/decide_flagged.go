package deposit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// These are the decisions about a flagged deposit.
const (
	decisionApproved   = "APPROVED"
	decisionRejected   = "REJECTED"
	decisionRedirected = "REDIRECTED"
)

// These are the reasons for which the operator redirects a flagged deposit.
const (
	ComplianceHold = "COMPLIANCE_HOLD"
	LawEnforcement = "LAW_ENFORCEMENT"
)

// NoteRunesMax is the maximum length, in runes, of a note about a decision and of the reference of
// a redirect.
const NoteRunesMax = 500

const (
	stuckAfter        = time.Hour        // the operator has to look at a transfer that is not final after this time
	stuckPollInterval = 30 * time.Second // between two searches for overdue transfers
	sendTriesMax      = 4                // attempts for a deposit that returns to the queue meanwhile
)

// Actor is the person or program that decides about a flagged deposit.
type Actor struct {
	audit.Actor
	Name string // a person's name; "" when there is none
	// OrgID is the organization that decides. It is "" for the operator, who decides for all
	// organizations.
	OrgID string
}

func (d Actor) isOperator() bool { return d.OrgID == "" }

// isAllowed reports whether an operator, or else a key or a member of an organization, may take an
// action. The surface has checked which key or which member.
func (d Actor) isAllowed(action identity.Action) bool {
	p := identity.PermissionOf(action)
	if d.isOperator() {
		return p.Operator || p.Terminal
	}
	return p.Key != "" || len(p.Roles) > 0
}

// RunOverdue marks overdue transfers of flagged deposits as stuck until ctx ends. It returns nil.
func (s *Service) RunOverdue(ctx context.Context) error {
	tick := time.NewTicker(stuckPollInterval)
	defer tick.Stop()
	for {
		if _, err := s.MarkOverdueStuck(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("deposit: cannot look for resolutions that do not finish", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Approve credits a flagged deposit. From the commit on the customer owns it, and it is swept like
// any other. Approving it again returns the same answer. Errors: faults NOT_FOUND,
// DEPOSIT_NOT_FLAGGED, RESOLUTION_IN_PROGRESS, RESOLUTION_STUCK, INVALID_REQUEST,
// DEPOSITS_SUSPENDED. Rule DEP-29.
func (s *Service) Approve(
	ctx context.Context, depositID string, actor Actor, note string,
) (Deposit, error) {
	var object Deposit
	unlocked, err := s.findFlagged(ctx, depositID, actor, note)
	if err == nil {
		err = s.voidRefused(ctx, unlocked)
	}
	if err != nil {
		return object, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		d, isRepeated, err := s.lockFlagged(ctx, tx, depositID, decisionApproved)
		if err != nil || isRepeated {
			return s.loadObject(ctx, tx, d, &object, err)
		}
		if err := checkNoRequest(ctx, tx, d); err != nil {
			return err
		}
		if isDeep, err := d.isDeepEnough(ctx, tx); err != nil {
			return err
		} else if !isDeep {
			return newNotDeep(d)
		}
		// A flag without a MAC forbids a return. An approval sends nothing, so it needs none.
		if d.flag.mac != nil {
			if err := s.verifyFlag(d, actor); err != nil {
				return err
			}
		}
		w, err := wallet.ByID(ctx, tx, d.walletID)
		if err != nil {
			return err
		}
		if !d.isReceivedBy(w) {
			return fmt.Errorf("deposit %s: its wallet is not the one that received it", d.id)
		}
		if err := s.Wallets.VerifyAttestation(w); err != nil {
			return fmt.Errorf("deposit %s: %w", d.id, err)
		}
		now := tx.Now
		if err := s.insertResolution(
			ctx, tx, d,
			resolution{id: id.New("res", now), decision: decisionApproved, status: "DONE", note: note, actor: actor},
		); err != nil {
			return err
		}
		after := d
		after.status, after.creditedAt = Credited, &now
		if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
			return err
		}
		wallets, err := creditWalletsFor(ctx, tx, after)
		if err != nil {
			return err
		}
		if _, hasTreasury := wallets.walletFor(after); !hasTreasury {
			return fmt.Errorf("deposit %s: its organization has no treasury", d.id)
		}
		credit := credits{owners: s.Owners, wallets: wallets}
		credit.addApproval(after)
		if err := credit.postCredits(ctx, tx, nil); err != nil {
			return err
		}
		if err := s.publishDecision(ctx, tx, after, event.CustomerDepositApproved); err != nil {
			return err
		}
		if err := recordAudit(
			ctx, tx,
			[]audit.Entry{
				newDecisionEntry(
					after, actor, "approved", map[string]string{"note": note, "amount": after.amount.String()},
				),
			},
		); err != nil {
			return err
		}
		if err := s.loadObject(ctx, tx, after, &object, nil); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("F01")
		return nil
	})
	if err != nil {
		return Deposit{}, s.mapConflict(ctx, depositID, actor, decisionApproved, &object, err)
	}
	failpoint.Hit("F01")
	return object, nil
}

// Reject returns a flagged deposit to the address that sent it. If the deposit is of the native
// coin and its address pays the fee, the network's fee is deducted. The deposit is REJECTING until
// the transfer is final. Rejecting it again returns the same answer. An attempt that cannot be made
// is recorded and the deposit stays FLAGGED. Errors:
//   - those of Approve
//   - OPERATOR_ONLY, INSUFFICIENT_GAS, DESTINATION_NOT_ALLOWED, UNAVAILABLE
//   - INVALID_STATE for the operator, if the deposit has no single sender
//   - INVALID_STATE if the organization's rule asks for signatures: AskReturn asks people for them
//   - REJECT_BLOCKED_SANCTIONS with BlockSanctioned
//
// Rules DEP-31 and CO-147.
func (s *Service) Reject(ctx context.Context, depositID string, actor Actor, note string) (Deposit, error) {
	return s.sendAway(ctx, depositID, resolution{decision: decisionRejected, note: note, actor: actor})
}

// Redirection says where the operator sends a flagged deposit, and why.
type Redirection struct {
	ToAddress string
	Reason    string // COMPLIANCE_HOLD or LAW_ENFORCEMENT
	Reference string // the court order or the case; required
	Note      string
}

// Redirect sends a flagged deposit to another address. Only the operator can redirect. Errors:
//   - those of Reject, INVALID_ADDRESS, DESTINATION_NOT_ALLOWED
//   - INVALID_STATE if the operators' rule asks for signatures: AskRedirect asks operators for them
//
// Rules DEP-31, DEP-55 and SA-17.
func (s *Service) Redirect(
	ctx context.Context, depositID string, actor Actor, redirection Redirection,
) (Deposit, error) {
	return s.redirect(ctx, depositID, actor, redirection, false)
}

func (s *Service) redirect(
	ctx context.Context, depositID string, actor Actor, redirection Redirection, mayAsk bool,
) (Deposit, error) {
	switch {
	case !actor.isAllowed(identity.RedirectFlaggedDeposit):
		return Deposit{}, newOperatorOnly(
			"Only the operator of this service can redirect a flagged deposit.",
		)
	case redirection.Reason != ComplianceHold && redirection.Reason != LawEnforcement:
		return Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.Undecided,
			"The reason of a redirect has to be %s or %s.", ComplianceHold, LawEnforcement).WithParam("reason")
	case redirection.Reference == "" || !isPlainText(redirection.Reference):
		return Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.Undecided,
			"A redirect needs the reference of the case or order, in at most %d characters of text.",
			NoteRunesMax).WithParam("reference")
	}
	return s.sendAway(
		ctx, depositID,
		resolution{
			decision: decisionRedirected, note: redirection.Note, reason: redirection.Reason,
			reference: redirection.Reference, toAddress: chain.Address(redirection.ToAddress), actor: actor,
			mayAsk: mayAsk,
		},
	)
}

// Complete sends a stuck resolution again, to the same address, after its transaction provably
// failed on the chain. Only the operator can complete. Errors: NOT_FOUND, OPERATOR_ONLY,
// INVALID_STATE, and RESOLUTION_IN_PROGRESS while its transaction may still become final.
// Rules DEP-32 and DEP-55.
func (s *Service) Complete(
	ctx context.Context, depositID string, actor Actor, note string,
) (Deposit, error) {
	var object Deposit
	if !actor.isAllowed(identity.CompleteResolution) {
		return object, newOperatorOnly("Only the operator of this service can complete a stuck resolution.")
	}
	unlocked, err := s.findFlagged(ctx, depositID, actor, note)
	if err != nil {
		return object, err
	}
	_, payerID, err := s.loadPayer(ctx, unlocked)
	if err != nil {
		return object, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		var previousID, orderStatus string
		var grant *signer.Grant
		err := tx.QueryRow(ctx, `
			SELECT r.resolution_id, o.status, o.authority FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.deposit_id = $1 AND r.status = 'STUCK' FOR UPDATE OF o`, depositID).Scan(&previousID, &orderStatus, &grant)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		d, err := lockDeposit(ctx, tx, depositID)
		if err != nil {
			return err
		}
		switch {
		case d.status == Rejected || d.status == Redirected:
			return s.loadObject(ctx, tx, d, &object, nil)
		case d.chainStatus == chainReorged:
			return newSuspended()
		case d.status != ResolutionStuck || previousID == "":
			return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
				"Only a deposit that is RESOLUTION_STUCK can be completed, and this one is %s.", d.status)
		case orderStatus != string(dispatch.Failed):
			return newConflict(d.status, fault.ResolutionInProgress, fault.NothingWritten,
				"Its transaction can still become final, so no other transaction is sent.").
				WithAdvice("When the transaction is final, the deposit is resolved or can be completed here.").
				WithStep(fault.ShowOrder).WithSubject(previousID)
		}
		retry, err := loadResolution(ctx, tx, previousID)
		if err != nil {
			return err
		}
		if err := s.verifyDecision(d, retry, actor, grant); err != nil {
			return err
		}
		if err := endResolution(
			ctx, tx, previousID, "STUCK", "FAILED", "", money.Zero, "REVERTED",
			"its transaction did not make the payment that it was made for",
		); err != nil {
			return err
		}
		retry.id, retry.actor, retry.note = id.New("res", tx.Now), actor, note
		return s.startTransfer(ctx, tx, d, retry, payerID, &object)
	})
	if err != nil {
		return Deposit{}, err
	}
	return object, nil
}

// loadPayer returns the chain of a deposit and the wallet that pays the fee of a transfer from its
// address. walletID is "" if the address itself pays. On chains with a separate fee payer the
// address never pays, because the fee would come out of a customer's deposit. Rule DEP-39.
func (s *Service) loadPayer(ctx context.Context, d storedDeposit) (ch chain.Chain, walletID string, err error) {
	ch, ok := s.Chains[d.chain]
	if !ok {
		return ch, "", fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"This installation does not run %s now, and the deposit is still %s.", d.chain, d.status)
	}
	if !ch.SeparateFeePayer {
		return ch, "", nil
	}
	treasury, err := s.Wallets.Treasury(ctx, d.orgID, d.chain.Family())
	if err != nil {
		return ch, "", fmt.Errorf("treasury of %s, which pays the fee of deposit %s: %w", d.orgID, d.id, err)
	}
	return ch, treasury.ID, nil
}

// quoteFeeKept returns how much of a native-coin deposit is not sent away. If the address pays the
// fee, this is the highest fee. If the treasury pays it, this is what the remaining funds of the
// address lack to the chain's minimum balance: usually nothing. Rules DEP-39 and DEP-40.
func (s *Service) quoteFeeKept(ctx context.Context, ch chain.Chain, d storedDeposit) (money.Amount, error) {
	if !ch.SeparateFeePayer {
		fees, err := ch.Sender.TransferFees(ctx)
		if err != nil {
			return money.Zero, err
		}
		return fees.Max()
	}
	var f wallet.Funds
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, d.walletID, *d.mintID)
		return err
	})
	if err != nil {
		return money.Zero, err
	}
	remainder, err := f.Spendable().Add(f.Dust)
	return ch.Shortfall(remainder), err
}

// resolution is a row of deposit_resolutions, with the fields that are decided so far.
type resolution struct {
	id, decision, status    string
	reason, reference, note string
	actor                   Actor
	toAddress               chain.Address
	sent, feeKept           money.Amount

	// Of a return or a redirect that people sign: who asked for it, as approvals name a person, the approvals, and how
	// many it needs.
	madeBy    string
	approvals []signer.Approval
	required  int
	// mayAsk says that the caller can wait for signatures.
	mayAsk bool
}

// errRequeued says that the deposit returned to the queue between its first read and its lock.
var errRequeued = errors.New("the deposit is in the queue again")

// sendAway decides that a flagged deposit leaves. It retries if the deposit returned to the queue
// meanwhile: trySendAway looks up less for a deposit that is not in the queue.
func (s *Service) sendAway(
	ctx context.Context, depositID string, res resolution,
) (object Deposit, err error) {
	for range sendTriesMax {
		if object, err = s.trySendAway(ctx, depositID, res); !errors.Is(err, errRequeued) {
			return object, err
		}
	}
	return object, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
		"This deposit changes too often to be decided now.").WithAdvice("Ask again later.")
}

// trySendAway decides that a flagged deposit leaves, and submits the order of its transfer. It
// returns errRequeued if the deposit changed between its first read and its lock.
func (s *Service) trySendAway(ctx context.Context, depositID string, res resolution) (Deposit, error) {
	var object Deposit
	unlocked, err := s.findFlagged(ctx, depositID, res.actor, res.note)
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
	if res.decision == decisionRejected && unlocked.status == Flagged {
		if unlocked.flag.returnTo == "" || unlocked.flag.returnRisk == returnRiskInputs && !res.actor.isOperator() {
			return object, newNoSender(unlocked, res.actor)
		}
		if s.BlockSanctioned {
			if err := refuseSanctioned(unlocked); err != nil {
				return object, err
			}
		}
		res.toAddress = chain.Address(unlocked.flag.returnTo)
	}
	if res.decision == decisionRedirected {
		if res.toAddress, err = s.parsePayee(ch, string(res.toAddress), unlocked); err != nil {
			return object, err
		}
	}
	res.sent = unlocked.amount
	if unlocked.contract == "" && unlocked.status == Flagged {
		if res.feeKept, err = s.quoteFeeKept(ctx, ch, unlocked); err != nil {
			s.Log.Warn("deposit: the chain does not say what a transfer costs", "deposit", depositID, "error", err)
			return object, newNoFee(unlocked)
		}
		if res.sent, err = unlocked.amount.Sub(res.feeKept); err != nil || res.sent.IsZero() {
			return object, s.recordInsufficient(ctx, ch, depositID, res)
		}
		minimum, err := ch.MinPaymentTo(ctx, unlocked.contract, res.toAddress)
		if err != nil {
			s.Log.Warn(
				"deposit: the chain does not say how much reaches an address",
				"deposit", depositID, "to", string(res.toAddress),
				"error", err,
			)
			return object, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Undecided,
				"The chain %s does not say now how large a payment has to be to reach the address.", unlocked.chain).
				WithAdvice("Ask again later.")
		}
		if res.sent.Less(minimum) {
			return object, s.recordTooSmall(ctx, depositID, res,
				fmt.Sprintf(
					"the payment would be %v units, and %s requires at least %v to reach %s",
					res.sent, ch.Name, minimum,
					res.toAddress,
				),
				fmt.Sprintf(
					"The payment of this deposit would be %v units, and %s requires at least %v to reach %s.", res.sent,
					ch.Name, minimum, res.toAddress,
				))
		}
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		d, isRepeated, err := s.lockFlagged(ctx, tx, depositID, res.decision)
		if err != nil || isRepeated {
			return s.loadObject(ctx, tx, d, &object, err)
		}
		if unlocked.status != Flagged {
			return errRequeued
		}
		if res.decision == decisionRejected {
			if err := s.verifyFlag(d, res.actor); err != nil {
				return err
			}
			if d.flag.returnTo != string(res.toAddress) {
				return errRequeued
			}
		}
		if _, isOwn, err := findOwnAddress(ctx, tx, d, res.toAddress); err != nil {
			return err
		} else if isOwn {
			refusal := newOwnAddress(res.toAddress)
			if res.decision == decisionRedirected {
				refusal = refusal.WithParam("toAddress")
			}
			return refusal
		}
		res.id = id.New("res", tx.Now)
		hold := s.holdForPeople
		if res.decision == decisionRedirected {
			hold = s.holdForOperators
		}
		if isHeld, err := hold(ctx, tx, d, res); err != nil || isHeld {
			return s.loadObject(ctx, tx, d, &object, err)
		}
		if err := s.startTransfer(ctx, tx, d, res, payerID, &object); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("F02")
		return nil
	})
	if pg.ViolatesConstraint(err, "deposit_resolutions_void_first") {
		// Another decision was refused meanwhile, and its grant has to be voided first.
		return Deposit{}, errRequeued
	}
	if err != nil {
		return Deposit{}, s.mapConflict(ctx, depositID, res.actor, res.decision, &object, err)
	}
	failpoint.Hit("F02")
	return object, nil
}

// macInput returns the values of a flag that its MAC covers.
func (d storedDeposit) macInput() (signer.FlaggedDeposit, error) {
	var reason storedFlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return signer.FlaggedDeposit{}, fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	return signer.FlaggedDeposit{
		OrgID: d.orgID, DepositID: d.id, Chain: d.chain, WalletID: d.walletID, MintID: *d.mintID, Amount: d.amount,
		Senders: d.senders, ReturnTo: d.flag.returnTo, ReturnRisk: d.flag.returnRisk, Sanctioned: reason.Sanctioned,
	}, nil
}

// verifyFlag refuses a deposit that differs from what was flagged, by the MAC of a key that is not
// in the database. The operator can redirect such a deposit to an address given with the decision,
// after finding out who changed it. Rule DEP-35.
func (s *Service) verifyFlag(d storedDeposit, actor Actor) error {
	macInput, err := d.macInput()
	if err == nil && s.GrantKey.VerifyFlag(macInput, d.flag.mac) {
		return nil
	}
	if d.flag.mac == nil {
		const reason = "This deposit was flagged before the service protected the sender with a MAC, so it is not " +
			"proven that the address is still the sender's."
		if !actor.isOperator() {
			return newOperatorOnly(reason)
		}
		return newConflict(d.status, fault.InvalidState, fault.Undecided, "%s", reason).
			WithAdvice("Look up the sender on the chain, and redirect the deposit to it.")
	}
	s.Log.Error("deposit: a flag differs from its MAC; the database was changed by hand",
		"deposit", d.id, "asked", actor.ID, "returnTo", d.flag.returnTo, "error", err)
	return newConflict(d.status, fault.InvalidState, fault.Undecided,
		"This deposit differs from what was flagged: its sender, its amount or its owner was changed in the "+
			"database.").
		WithAdvice("Tell the operator of this service, who can find out who changed it and can redirect the deposit.")
}

// verifyDecision refuses to send again if the transfer is not what was decided. It checks the grant
// of the transfer that failed. A transfer that was restored from the journal has no grant. Then
// only a return to the sender of the verified flag is allowed. Rule DEP-35.
func (s *Service) verifyDecision(d storedDeposit, res resolution, actor Actor, grant *signer.Grant) error {
	checkErr := s.GrantKey.CheckGrant(signer.Intent{
		ID: res.id, Purpose: signer.Return, Chain: d.chain, From: signer.WalletRef{OrgID: d.orgID},
		To: res.toAddress, Contract: d.contract, Amount: res.sent, MintID: *d.mintID, Grant: grant,
	})
	if checkErr == nil {
		return nil
	}
	if res.decision == decisionRejected && string(res.toAddress) == d.flag.returnTo && s.verifyFlag(d, actor) == nil {
		return nil
	}
	s.Log.Error(
		"deposit: a resolution differs from its MAC; the database was changed by hand, or restored without the "+
			"decision",
		"deposit", d.id, "resolution", res.id, "to", string(res.toAddress), "error", checkErr)
	return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
		"The destination of this deposit differs from the decision, or the decision was restored from the signer's "+
			"journal and has no other record.").WithAdvice("Find out who changed it.")
}

// refuseSanctioned refuses to return a deposit that came from an address on a sanctions list.
// Rule DEP-34.
func refuseSanctioned(d storedDeposit) error {
	var reason storedFlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	if !reason.Sanctioned {
		return nil
	}
	return newConflict(d.status, fault.RejectBlockedSanctions, fault.Undecided,
		"The sender is on a sanctions list, and this installation sends nothing back to it.").
		WithAdvice("The operator of this service can redirect it.")
}

// startTransfer inserts a resolution and submits the order of its transfer. The wallet payerID pays
// the fee; if payerID is "", the deposit's own wallet pays it. The deposit is locked.
func (s *Service) startTransfer(
	ctx context.Context, tx pg.Tx, d storedDeposit, res resolution, payerID string, object *Deposit,
) error {
	after := d
	after.status = Rejecting
	if res.decision == decisionRedirected {
		after.status = Redirecting
	}
	res.status = "OPEN"
	if err := s.insertResolution(ctx, tx, d, res); err != nil {
		return err
	}
	if err := s.applyChanges(ctx, tx, change{d, after}); err != nil {
		return err
	}
	// The order names no customer: a freeze of the customer does not stop money that is not the
	// customer's.
	o := dispatch.Order{
		ID: res.id, OrgID: d.orgID, Purpose: signer.Return, Chain: d.chain, WalletID: d.walletID, To: res.toAddress,
		MintID: *d.mintID, Contract: d.contract, Amount: res.sent,
		Grant: s.GrantKey.MakeGrant(returnTerms(d, res), money.Zero, 0, res.required, res.approvals),
	}
	if payerID != "" {
		o.WalletID, o.FromWalletID = payerID, d.walletID
	}
	if err := dispatch.Submit(ctx, tx, o); err != nil {
		return err
	}
	if d.chain.IsUTXO() {
		if err := reserveOutput(ctx, tx, d.id, res.id); err != nil {
			return err
		}
	}
	// The part of a native coin that is not sent stays held until the transfer is final.
	if err := wallet.MoveFunds(ctx, tx,
		wallet.Movement{WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Held, Minus: res.sent},
		wallet.Movement{
			WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Reserved, Plus: res.sent,
		}); err != nil {
		return err
	}
	if err := recordAudit(ctx, tx,
		[]audit.Entry{newDecisionEntry(after, res.actor, auditActions[after.status], map[string]string{
			"resolution": res.id, "toAddress": string(res.toAddress), "amount": res.sent.String(), "reason": res.reason,
			"reference": res.reference, "note": res.note,
		})}); err != nil {
		return err
	}
	return s.loadObject(ctx, tx, after, object, nil)
}

// findFlagged reads the deposit of a decision, before any row is locked and any provider is asked.
func (s *Service) findFlagged(
	ctx context.Context, depositID string, actor Actor, note string,
) (d storedDeposit, err error) {
	if !isPlainText(note) {
		return d, fault.New(fault.Invalid, fault.InvalidRequest, fault.Undecided,
			"A note may have at most %d characters of text.", NoteRunesMax).WithParam("note")
	}
	if !id.IsValid("dep", depositID) {
		return d, newNotFound()
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(
			ctx,
			`SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND ($2 = '' OR org_id = $2) AND NOT is_hidden AND purpose NOT IN ('TREASURY', 'CHANGE')`,
			depositID, actor.OrgID,
		)
		if err != nil {
			return err
		}
		d, err = pgx.CollectExactlyOneRow(rows, scanDeposit)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, newNotFound()
	}
	if err != nil {
		return d, fmt.Errorf("read deposit %s: %w", depositID, err)
	}
	if d.flag == nil {
		return d, newConflict(d.status, fault.DepositNotFlagged, fault.NothingWritten,
			"This deposit is %s and was never flagged, so there is nothing to decide.", d.status)
	}
	return d, nil
}

func newNotFound() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This deposit does not exist.").
		WithStep(fault.ListFlaggedDeposits)
}

// checkDecidable refuses a decision while the chain or the mint of the deposit is in question. It
// takes its locks before any deposit is locked.
func (s *Service) checkDecidable(ctx context.Context, tx pg.Tx, d storedDeposit) error {
	if err := freeze.LockShared(ctx, tx); err != nil {
		return err
	}
	broken, err := finality.LockShared(ctx, tx, d.chain)
	if err != nil {
		return err
	}
	usable, err := mint.Usable(ctx, tx, []int{*d.mintID})
	if err != nil {
		return err
	}
	if broken || !usable[*d.mintID] {
		return newSuspended()
	}
	return nil
}

func newSuspended() *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DepositsSuspended, fault.Undecided,
		"The chain or the token of this deposit is under review by the operator now.").
		WithAdvice("Decide when the review has ended.")
}

// newNotDeep returns the fault for a flagged deposit that another fork has put into a block with
// too few confirmations.
func newNotDeep(d storedDeposit) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DepositsSuspended, fault.Undecided,
		"The chain has moved this deposit to another block, and an amount like this needs %d "+
			"confirmations.", d.depth).
		WithAdvice("Approve it when it has them.")
}

func lockDeposit(ctx context.Context, tx pg.Tx, depositID string) (storedDeposit, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 FOR UPDATE`, depositID)
	if err != nil {
		return storedDeposit{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
	if err != nil {
		return storedDeposit{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	return d, nil
}

// outcomeStatuses maps a decision to the statuses that it leads to.
var outcomeStatuses = map[string][]Status{
	decisionApproved: {Credited, Reversed}, decisionRejected: {Rejecting, Rejected},
	decisionRedirected: {Redirecting, Redirected},
}

// lockFlagged locks a flagged deposit. isRepeated is true if the same decision was made before.
// Rule DEP-30.
func (s *Service) lockFlagged(
	ctx context.Context, tx pg.Tx, depositID, decision string,
) (d storedDeposit, isRepeated bool, err error) {
	if d, err = lockDeposit(ctx, tx, depositID); err != nil {
		return d, false, err
	}
	for _, outcome := range outcomeStatuses[decision] {
		if d.status == outcome {
			return d, true, nil
		}
	}
	switch d.status {
	case Flagged:
		// The chain status is checked again under the lock: the finality may have broken after
		// findFlagged.
		if d.chainStatus == chainReorged {
			return d, false, newSuspended()
		}
		return d, false, nil
	case Rejecting, Redirecting:
		return d, false, newConflict(d.status, fault.ResolutionInProgress, fault.NothingWritten,
			"The service is carrying out another decision about this deposit: it is %s.", d.status)
	case ResolutionStuck:
		return d, false, newConflict(d.status, fault.ResolutionStuckCode, fault.NothingWritten,
			"This deposit was decided, and its transfer failed.").
			WithAdvice("The operator of this service can complete it.")
	default:
		return d, false, newConflict(d.status, fault.DepositNotFlagged, fault.NothingWritten,
			"This deposit is resolved: it is %s.", d.status)
	}
}

func newConflict(
	status Status, code fault.Code, effect fault.Effect, reason string, args ...any,
) *fault.Fault {
	return fault.New(fault.Conflict, code, effect, reason, args...).WithExtra("currentStatus", string(status))
}

// newNoFee returns the fault for a chain that does not say what a transfer costs.
func newNoFee(d storedDeposit) *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Undecided,
		"The chain %s does not say what a transfer costs now.", d.chain).
		WithAdvice("Ask again later.")
}

func newOwnAddress(a chain.Address) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.Undecided,
		"%s is an address of this service.", a)
}

func newOperatorOnly(reason string) *fault.Fault {
	return fault.New(fault.Forbidden, fault.OperatorOnly, fault.NothingWritten, "%s", reason).
		WithAdvice("Ask the operator of this service.")
}

// newNoSender returns the fault for a rejected deposit that has no single sender. It tells the
// operator to redirect, and tells an organization to ask the operator. Rule RISK-14.
func newNoSender(d storedDeposit, actor Actor) error {
	reason := "This deposit has no single sender to which it could go back."
	if d.flag.returnRisk == returnRiskSolver {
		reason = "A swap provider sent this deposit, so it would not go back to who paid."
	}
	if !actor.isOperator() {
		return newOperatorOnly(reason)
	}
	return newConflict(d.status, fault.InvalidState, fault.Undecided, "%s", reason).
		WithStep(fault.RedirectDeposit)
}

// loadObject stores the deposit as it is at the end of the transaction in object. It returns err
// unchanged if there is one.
func (s *Service) loadObject(ctx context.Context, tx pg.Tx, d storedDeposit, object *Deposit, err error) error {
	if err != nil {
		return err
	}
	objects, err := loadByID(ctx, tx, []storedDeposit{d})
	if err != nil {
		return err
	}
	*object = objects[d.id]
	return nil
}

// mapConflict maps the unique violation of deposit_resolutions_one to RESOLUTION_IN_PROGRESS.
func (s *Service) mapConflict(
	ctx context.Context, depositID string, actor Actor, decision string, object *Deposit, err error,
) error {
	if pg.ViolatesConstraint(err, "deposit_resolutions_one") {
		return newConflict(
			Flagged, fault.ResolutionInProgress, fault.NothingWritten,
			"Another decision about this deposit was first.",
		)
	}
	return err
}

// insertResolution inserts a resolution.
func (s *Service) insertResolution(ctx context.Context, tx pg.Tx, d storedDeposit, res resolution) error {
	var sent *money.Amount
	if res.decision != decisionApproved {
		sent = &res.sent
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
			decided_by_kind, decided_by, decided_by_name, chain, wallet_id, mint_id, to_address, sent, fee_kept, ended_at)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), nullif($8, ''), $9, $10, $11, nullif($12, ''), $13, $14, $15, nullif($16, ''), $17, $18,
			CASE WHEN $5 = 'DONE' THEN $9::timestamptz END)`,
		res.id, d.orgID, d.id, res.decision, res.status, res.reason, res.reference, res.note, tx.Now,
		res.actor.Kind, res.actor.ID, res.actor.Name, d.chain, d.walletID, *d.mintID, string(res.toAddress), sent,
		res.feeKept)
	if err != nil {
		return fmt.Errorf("resolve deposit %s: %w", d.id, err)
	}
	return nil
}

// recordInsufficient records a failed attempt: the deposit does not exceed the amount that is not
// sent. It returns the fault.
func (s *Service) recordInsufficient(ctx context.Context, ch chain.Chain, depositID string, res resolution) error {
	message := fmt.Sprintf("the deposit does not cover the network fee of %s units", res.feeKept)
	detail := fmt.Sprintf("This deposit is smaller than the network fee for sending it, %s units.", res.feeKept)
	if ch.SeparateFeePayer {
		message = fmt.Sprintf(
			"the address also has other money, so the chain requires %s units to stay on it",
			res.feeKept,
		)
		detail = fmt.Sprintf(
			"The address of this deposit also has other money, and %s refuses an account with less than %v units. %v "+
				"units would have to stay, and the deposit is no larger than that.",
			ch.Name, ch.MinBalance, res.feeKept,
		)
	}
	return s.recordTooSmall(ctx, depositID, res, message, detail)
}

// recordTooSmall records a failed attempt for a deposit that is too small. message is for the
// record and detail is for the actor. The deposit stays FLAGGED. It returns the fault
// INSUFFICIENT_GAS. Rule DEP-45.
func (s *Service) recordTooSmall(
	ctx context.Context, depositID string, res resolution, message, detail string,
) error {
	const reason = "INSUFFICIENT_GAS"
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		d, isRepeated, err := s.lockFlagged(ctx, tx, depositID, res.decision)
		if err != nil || isRepeated {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
				decided_by_kind, decided_by, decided_by_name, chain, wallet_id, mint_id, to_address, ended_at, failure, failure_message)
			VALUES ($1, $2, $3, $4, 'FAILED', nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, nullif($11, ''), $12, $13, $14, nullif($15, ''), $8, $16, $17)`,
			id.New("res", tx.Now), d.orgID, d.id, res.decision, res.reason, res.reference, res.note, tx.Now,
			res.actor.Kind, res.actor.ID, res.actor.Name, d.chain, d.walletID, *d.mintID, string(res.toAddress), reason,
			message)
		if err != nil {
			return fmt.Errorf("record the attempt to resolve deposit %s: %w", d.id, err)
		}
		return recordAudit(
			ctx, tx,
			[]audit.Entry{
				newDecisionEntry(
					d, res.actor, "resolution_failed", map[string]string{"reason": reason, "message": message},
				),
			},
		)
	})
	if err != nil {
		return err
	}
	return fault.New(fault.Unprocessable, fault.InsufficientGas, fault.AttemptRecorded, "%s", detail)
}

// parsePayee parses the address to which the operator redirects a deposit. It refuses unspendable
// addresses, the token's contract and the deposit's own address.
func (s *Service) parsePayee(ch chain.Chain, text string, d storedDeposit) (chain.Address, error) {
	a, err := ch.AddressCodec.Parse(text)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidAddress, fault.Undecided,
			"toAddress is not an address on %s: %s.", d.chain, err).WithParam("toAddress")
	}
	if ch.AddressCodec.IsUnspendable(a) || a == d.contract || a == d.address {
		return "", fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.Undecided,
			"Money sent to %s would be lost, or would stay where it is.", a).WithParam("toAddress")
	}
	return a, nil
}

func findOwnAddress(ctx context.Context, tx pg.Tx, d storedDeposit, a chain.Address) (wallet.Wallet, bool, error) {
	wallets, err := wallet.ByAddresses(ctx, tx, d.chain.Family(), []chain.Address{a})
	if err != nil {
		return wallet.Wallet{}, false, err
	}
	w, found := wallets[a]
	return w, found, nil
}

// isPlainText reports whether a text that a person wrote is short and printable.
func isPlainText(s string) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > NoteRunesMax {
		return false
	}
	for _, c := range s {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// newDecisionEntry returns the audit entry of an actor's decision about a flagged deposit.
func newDecisionEntry(d storedDeposit, actor Actor, verb string, detail map[string]string) audit.Entry {
	return audit.Entry{
		OrgID: d.orgID, Actor: actor.Actor, Action: "deposit." + verb, ResourceKind: resourceKind, ResourceID: d.id,
		Detail: detail,
	}
}

// newReleasePosting returns the posting that ends the hold of a flagged deposit.
func newReleasePosting(d storedDeposit) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.DepositRelease, ID: d.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Suspense},
			Credit: ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Custody}, Amount: d.amount,
		}},
	}
}

// publishDecision records an event about a flagged deposit, if its organization is notified of this
// type.
func (s *Service) publishDecision(ctx context.Context, tx pg.Tx, d storedDeposit, eventType event.Type) error {
	if s.Owners.eventFor(d, eventType) == "" {
		return nil
	}
	return s.publishEvents(
		ctx, tx, []storedDeposit{d}, loadByID,
		func(d storedDeposit) event.Type { return s.Owners.eventFor(d, eventType) },
	)
}
