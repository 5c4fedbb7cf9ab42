package deposit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// The decisions about a flagged deposit.
const (
	decisionApproved   = "APPROVED"
	decisionRejected   = "REJECTED"
	decisionRedirected = "REDIRECTED"
)

// The reasons for which the operator sends a flagged deposit elsewhere.
const (
	ComplianceHold = "COMPLIANCE_HOLD"
	LawEnforcement = "LAW_ENFORCEMENT"
)

// NoteRunesMax bounds a note about a decision, and the reference of a redirect.
const NoteRunesMax = 500

const (
	stuckAfter        = time.Hour        // a transfer that is out for so long is for the operator to look at
	stuckPollInterval = 30 * time.Second // between two looks for such
	sendTriesMax      = 4                // tries at a deposit that comes back into the queue meanwhile
)

// Actor is who decides about a flagged deposit.
type Actor struct {
	audit.Actor
	Name string // for people; "" when there is none
	// OrgID is the organization that decides, "" for the operator, who decides for all.
	OrgID string
}

func (d Actor) isOperator() bool { return d.OrgID == "" }

// Resolutions resolves flagged deposits: each once, by whoever is first. It is the
// feature behind orders that send one away. Safe for concurrent use.
type Resolutions struct {
	db      *pg.DB
	chains  chain.Chains
	wallets WalletService
	log     *slog.Logger
	// blockSanctioned refuses to send back what came from an address on a list of sanctions.
	blockSanctioned bool
	grantKey        *signer.GrantKey // nil: none, as in tests of other things
	voider          *dispatch.Voider // has the signer void what was refused before; nil: nothing was
}

// ResolutionsOption changes how flagged deposits are resolved.
type ResolutionsOption func(*Resolutions)

// WithGrantKey binds what was decided to the words of the transfer, for the signer: who
// writes the database alone sends nothing anywhere.
func WithGrantKey(k *signer.GrantKey) ResolutionsOption {
	return func(r *Resolutions) { r.grantKey = k }
}

// WithSanctionsBlock refuses to reject what came from an address that is itself on a list
// of sanctions, whoever asks: to send blocked property back may be forbidden. Redirect
// is left.
func WithSanctionsBlock(r *Resolutions) { r.blockSanctioned = true }

// WithVoider has the signer void what was decided before and refused, so that no deposit is
// credited whose return could still be paid.
func WithVoider(v *dispatch.Voider) ResolutionsOption {
	return func(r *Resolutions) { r.voider = v }
}

var (
	_ dispatch.Listener        = (*Resolutions)(nil)
	_ dispatch.VoidListener    = (*Resolutions)(nil)
	_ dispatch.RestoreListener = (*Resolutions)(nil)
)

// NewResolutions makes the feature.
func NewResolutions(db *pg.DB, chains chain.Chains, wallets WalletService, log *slog.Logger, options ...ResolutionsOption) *Resolutions {
	r := &Resolutions{db: db, chains: chains, wallets: wallets, log: log}
	for _, apply := range options {
		apply(r)
	}
	return r
}

// Run looks for transfers that are out for too long, until ctx ends; it returns nil.
func (r *Resolutions) Run(ctx context.Context) error {
	tick := time.NewTicker(stuckPollInterval)
	defer tick.Stop()
	for {
		if _, err := r.MarkOverdueStuck(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("deposit: look for resolutions that do not come about", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Approve credits a flagged deposit: it is the customer's from the commit on, and is
// swept like any other. Approving it again answers the same. Errors: faults NOT_FOUND,
// DEPOSIT_NOT_FLAGGED, RESOLUTION_IN_PROGRESS, RESOLUTION_STUCK, INVALID_REQUEST,
// DEPOSITS_SUSPENDED.
func (r *Resolutions) Approve(ctx context.Context, depositID string, actor Actor, note string) (webhook.Deposit, error) {
	var object webhook.Deposit
	unlocked, err := r.findFlagged(ctx, depositID, actor, note)
	if err == nil {
		err = r.voidRefused(ctx, unlocked)
	}
	if err != nil {
		return object, err
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		d, isRepeated, err := r.lockFlagged(ctx, tx, depositID, decisionApproved)
		if err != nil || isRepeated {
			return r.loadObject(ctx, tx, d, &object, err)
		}
		if isDeep, err := d.isDeepEnough(ctx, tx); err != nil {
			return err
		} else if !isDeep {
			return newNotDeep(d)
		}
		if d.flag.mac != nil { // without one nothing is sent, and nothing is sent here
			if err := r.verifyFlag(d, actor); err != nil {
				return err
			}
		}
		w, err := wallet.ByID(ctx, tx, d.walletID)
		if err != nil {
			return err
		}
		if !d.isReceivedBy(w) {
			return fmt.Errorf("deposit %s: its wallet is another than the one that received", d.id)
		}
		if err := r.wallets.VerifyAttestation(w); err != nil {
			return fmt.Errorf("deposit %s: %w", d.id, err)
		}
		now := tx.Now
		if err := r.insertResolution(ctx, tx, d, resolution{id: id.New("res", now), decision: decisionApproved, status: "DONE", note: note, actor: actor}); err != nil {
			return err
		}
		after := d
		after.status, after.creditedAt = Credited, &now
		if err := applyChanges(ctx, tx, change{d, after}); err != nil {
			return err
		}
		wallets, err := creditWalletsFor(ctx, tx, after)
		if err != nil {
			return err
		}
		walletID, hasTreasury := wallets.walletFor(after)
		if !hasTreasury {
			return fmt.Errorf("deposit %s: its organization has no treasury", d.id)
		}
		moves := []wallet.Movement{{WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Held, Minus: after.amount}}
		if walletID != after.walletID {
			moves = append(moves,
				wallet.Movement{WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Credited, Minus: after.amount},
				wallet.Movement{WalletID: walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Credited, Plus: after.amount})
			if err := coin.FreeCredited(ctx, tx, after.id); err != nil {
				return err
			}
		}
		if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
			return err
		}
		credit := credits{wallets: wallets}
		credit.addCredit(after, false) // no treasury is ever flagged
		if err := ledger.Post(ctx, tx, append(credit.postings, newReleasePosting(after))...); err != nil {
			return err
		}
		if err := r.publishDecision(ctx, tx, after, event.CustomerDepositApproved); err != nil {
			return err
		}
		if err := recordAudit(ctx, tx, []audit.Entry{newDecisionEntry(after, actor, "approved", map[string]string{"note": note, "amount": after.amount.String()})}); err != nil {
			return err
		}
		if err := r.loadObject(ctx, tx, after, &object, nil); err != nil {
			return err
		}
		crash.HitBeforeCommit("F01")
		return nil
	})
	if err != nil {
		return webhook.Deposit{}, r.mapConflict(ctx, depositID, actor, decisionApproved, &object, err)
	}
	crash.Hit("F01")
	return object, nil
}

// Reject sends a flagged deposit back to the address that it came from, less the
// network's fee when it is a native coin whose address pays that. It is REJECTING until the transfer is final.
// Rejecting it again answers the same. An attempt that cannot be made is kept and the
// deposit stays in the queue. Errors: those of Approve, OPERATOR_ONLY, INSUFFICIENT_GAS,
// INVALID_STATE for the operator of a deposit without a single sender,
// REJECT_BLOCKED_SANCTIONS with WithSanctionsBlock, DESTINATION_NOT_ALLOWED, UNAVAILABLE.
func (r *Resolutions) Reject(ctx context.Context, depositID string, actor Actor, note string) (webhook.Deposit, error) {
	return r.sendAway(ctx, depositID, resolution{decision: decisionRejected, note: note, actor: actor})
}

// Redirection is where the operator sends a flagged deposit, and why.
type Redirection struct {
	ToAddress string
	Reason    string // COMPLIANCE_HOLD or LAW_ENFORCEMENT
	Reference string // of the order or the case; required
	Note      string
}

// Redirect sends a flagged deposit to another address. It is the operator's alone.
// Errors: those of Reject, INVALID_ADDRESS, DESTINATION_NOT_ALLOWED.
func (r *Resolutions) Redirect(ctx context.Context, depositID string, actor Actor, redirection Redirection) (webhook.Deposit, error) {
	switch {
	case !actor.isOperator():
		return webhook.Deposit{}, newOperatorOnly("Only the operator of the service sends a flagged deposit to another address.")
	case redirection.Reason != ComplianceHold && redirection.Reason != LawEnforcement:
		return webhook.Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"The reason of a redirect is %s or %s. Nothing was decided, and the deposit is still flagged.", ComplianceHold, LawEnforcement).WithParam("reason")
	case redirection.Reference == "" || !isPlainText(redirection.Reference):
		return webhook.Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A redirect names the case or order that it follows, in at most %d characters of text. Nothing was decided, and the deposit is still flagged.", NoteRunesMax).WithParam("reference")
	}
	return r.sendAway(ctx, depositID, resolution{decision: decisionRedirected, note: redirection.Note, reason: redirection.Reason, reference: redirection.Reference, toAddress: chain.Address(redirection.ToAddress), actor: actor})
}

// Complete has a stuck resolution carried out: what failed on the chain, provenly, is
// sent again, to the same address. It is the operator's alone. Errors: NOT_FOUND,
// OPERATOR_ONLY, INVALID_STATE, RESOLUTION_IN_PROGRESS while its transaction may still
// become final.
func (r *Resolutions) Complete(ctx context.Context, depositID string, actor Actor, note string) (webhook.Deposit, error) {
	var object webhook.Deposit
	if !actor.isOperator() {
		return object, newOperatorOnly("Only the operator of the service completes a resolution that is stuck.")
	}
	unlocked, err := r.findFlagged(ctx, depositID, actor, note)
	if err != nil {
		return object, err
	}
	_, payerID, err := r.loadPayer(ctx, unlocked)
	if err != nil {
		return object, err
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.checkDecidable(ctx, tx, unlocked); err != nil {
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
			return r.loadObject(ctx, tx, d, &object, nil)
		case d.chainStatus == chainReorged:
			return newSuspended()
		case d.status != ResolutionStuck || previousID == "":
			return newConflict(d.status, fault.InvalidState, "Only a deposit that is RESOLUTION_STUCK is completed, and this one is %s. Nothing was changed.", d.status)
		case orderStatus != string(dispatch.Failed):
			return newConflict(d.status, fault.ResolutionInProgress,
				"Its transaction may still become final, so nothing else is sent in its place: `coffer dispatch show %s` tells where it stands, and bumps or cancels it. When it is final the deposit is resolved, or can be completed here.", previousID)
		}
		retry, err := loadResolution(ctx, tx, previousID)
		if err != nil {
			return err
		}
		if err := r.verifyDecision(d, retry, actor, grant); err != nil {
			return err
		}
		if err := endResolution(ctx, tx, previousID, "STUCK", "FAILED", "", money.Zero, "REVERTED", "its transaction did not do what it was made for"); err != nil {
			return err
		}
		retry.id, retry.actor, retry.note = id.New("res", tx.Now), actor, note
		return r.startTransfer(ctx, tx, d, retry, payerID, &object)
	})
	if err != nil {
		return webhook.Deposit{}, err
	}
	return object, nil
}

// loadPayer is the chain of a deposit and the wallet that pays for what is sent from its
// address, "" for that itself. On chains that know payers it never is: a customer's coin
// would pay a fee.
func (r *Resolutions) loadPayer(ctx context.Context, d Deposit) (ch chain.Chain, walletID string, err error) {
	ch, ok := r.chains[d.chain]
	if !ok {
		return ch, "", fault.New(fault.Unavailable, fault.CodeUnavailable, "%s is not run by this installation at the moment. Nothing was decided, and the deposit is %s still.", d.chain, d.status)
	}
	if !ch.SeparateFeePayer {
		return ch, "", nil
	}
	treasury, err := r.wallets.Treasury(ctx, d.orgID, d.chain.Family())
	if err != nil {
		return ch, "", fmt.Errorf("treasury of %s, which pays for what is sent from deposit %s: %w", d.orgID, d.id, err)
	}
	return ch, treasury.ID, nil
}

// quoteFeeKept is what of a deposit of the native coin is not sent away. Where its address pays,
// that is the fee. Where the treasury does, it is what the chain would miss at the address
// beside the rest that is there: as a rule nothing.
func (r *Resolutions) quoteFeeKept(ctx context.Context, ch chain.Chain, d Deposit) (money.Amount, error) {
	if !ch.SeparateFeePayer {
		fees, err := ch.Sender.TransferFees(ctx)
		if err != nil {
			return money.Zero, err
		}
		return fees.Max()
	}
	var f wallet.Funds
	err := r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, d.walletID, *d.mintID)
		return err
	})
	if err != nil {
		return money.Zero, err
	}
	remainder, err := f.Spendable().Add(f.Dust)
	return ch.Shortfall(remainder), err
}

// resolution is a row of deposit_resolutions, as far as it is decided.
type resolution struct {
	id, decision, status    string
	reason, reference, note string
	actor                   Actor
	toAddress               chain.Address
	sent, feeKept           money.Amount
}

// errRequeued says that a deposit came back into the queue between the look at it and its
// lock.
var errRequeued = errors.New("the deposit is in the queue again")

// sendAway decides that a flagged deposit leaves. What was looked up for a deposit that was
// not in the queue is not enough for one that came back meanwhile: it is looked up again.
func (r *Resolutions) sendAway(ctx context.Context, depositID string, res resolution) (object webhook.Deposit, err error) {
	for range sendTriesMax {
		if object, err = r.trySendAway(ctx, depositID, res); !errors.Is(err, errRequeued) {
			return object, err
		}
	}
	return object, fault.New(fault.Unavailable, fault.CodeUnavailable,
		"This deposit changes all the time. Nothing was decided here, and no money moved by this call; ask again in a while.")
}

// trySendAway decides that a flagged deposit leaves, and orders the transfer.
func (r *Resolutions) trySendAway(ctx context.Context, depositID string, res resolution) (webhook.Deposit, error) {
	var object webhook.Deposit
	unlocked, err := r.findFlagged(ctx, depositID, res.actor, res.note)
	if err == nil {
		err = r.voidRefused(ctx, unlocked)
	}
	if err != nil {
		return object, err
	}
	ch, payerID, err := r.loadPayer(ctx, unlocked)
	if err != nil {
		return object, err
	}
	if res.decision == decisionRejected && unlocked.status == Flagged {
		if unlocked.flag.returnTo == "" || unlocked.flag.returnRisk == returnRiskSeveral && !res.actor.isOperator() {
			return object, newNoSender(unlocked, res.actor)
		}
		if r.blockSanctioned {
			if err := refuseSanctioned(unlocked); err != nil {
				return object, err
			}
		}
		res.toAddress = chain.Address(unlocked.flag.returnTo)
	}
	if res.decision == decisionRedirected {
		if res.toAddress, err = r.parsePayee(ch, string(res.toAddress), unlocked); err != nil {
			return object, err
		}
	}
	res.sent = unlocked.amount
	if unlocked.contract == "" && unlocked.status == Flagged {
		if res.feeKept, err = r.quoteFeeKept(ctx, ch, unlocked); err != nil {
			r.log.Warn("deposit: nobody says what a transfer costs", "deposit", depositID, "error", err)
			return object, fault.New(fault.Unavailable, fault.CodeUnavailable,
				"Nobody says at the moment what a transfer on %s costs. Nothing was decided, and the deposit is still flagged; ask again in a while.", unlocked.chain)
		}
		if res.sent, err = unlocked.amount.Sub(res.feeKept); err != nil || res.sent.IsZero() {
			return object, r.recordInsufficient(ctx, ch, depositID, res)
		}
		minimum, err := ch.MinPaymentTo(ctx, unlocked.contract, res.toAddress)
		if err != nil {
			r.log.Warn("deposit: nobody says what reaches an address", "deposit", depositID, "to", string(res.toAddress), "error", err)
			return object, fault.New(fault.Unavailable, fault.CodeUnavailable,
				"Nobody says at the moment how much has to be sent on %s to reach the address. Nothing was decided, and the deposit is still flagged; ask again in a while.", unlocked.chain)
		}
		if res.sent.Less(minimum) {
			return object, r.recordTooSmall(ctx, depositID, res,
				fmt.Sprintf("%v units would be sent, and %s lets no less than %v reach %s", res.sent, ch.Name, minimum, res.toAddress),
				fmt.Sprintf("Of this deposit %v units would be sent, and %s lets no less than %v reach %s.", res.sent, ch.Name, minimum, res.toAddress))
		}
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.checkDecidable(ctx, tx, unlocked); err != nil {
			return err
		}
		d, isRepeated, err := r.lockFlagged(ctx, tx, depositID, res.decision)
		if err != nil || isRepeated {
			return r.loadObject(ctx, tx, d, &object, err)
		}
		if unlocked.status != Flagged {
			return errRequeued
		}
		if res.decision == decisionRejected {
			if err := r.verifyFlag(d, res.actor); err != nil {
				return err
			}
			if d.flag.returnTo != string(res.toAddress) {
				return errRequeued
			}
		}
		if _, isOwn, err := findOwnAddress(ctx, tx, d, res.toAddress); err != nil {
			return err
		} else if isOwn {
			refusal := fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
				"%s is an address of this service. Nothing was decided, and the deposit is still flagged.", res.toAddress)
			if res.decision == decisionRedirected {
				refusal = refusal.WithParam("toAddress")
			}
			return refusal
		}
		res.id = id.New("res", tx.Now)
		if err := r.startTransfer(ctx, tx, d, res, payerID, &object); err != nil {
			return err
		}
		crash.HitBeforeCommit("F02")
		return nil
	})
	if pg.ViolatesConstraint(err, "deposit_resolutions_void_first") {
		return webhook.Deposit{}, errRequeued // another decision was refused meanwhile, and is to be voided
	}
	if err != nil {
		return webhook.Deposit{}, r.mapConflict(ctx, depositID, res.actor, res.decision, &object, err)
	}
	crash.Hit("F02")
	return object, nil
}

// macInput are the words of a flag that its MAC is of.
func (d Deposit) macInput() (signer.FlaggedDeposit, error) {
	var reason webhook.FlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return signer.FlaggedDeposit{}, fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	return signer.FlaggedDeposit{
		OrgID: d.orgID, DepositID: d.id, Chain: d.chain, WalletID: d.walletID, MintID: *d.mintID, Amount: d.amount,
		Senders: d.senders, ReturnTo: d.flag.returnTo, ReturnRisk: d.flag.returnRisk, Sanctioned: reason.Sanctioned,
	}, nil
}

// verifyFlag refuses a deposit that is not what it was flagged as, by the word of the key
// that is not in the database. The operator can redirect it, to an address that is given
// with the decision, once it is known who changed what.
func (r *Resolutions) verifyFlag(d Deposit, actor Actor) error {
	macInput, err := d.macInput()
	if err == nil && r.grantKey.VerifyFlag(macInput, d.flag.mac) {
		return nil
	}
	if d.flag.mac == nil {
		const reason = "This deposit was flagged before its sender was bound by a key, so nobody can say that the address is still that of its sender."
		if !actor.isOperator() {
			return newOperatorOnly(reason)
		}
		return newConflict(d.status, fault.InvalidState, reason+" Nothing was decided, and the deposit is still flagged. Look at the chain for who sent it, and redirect it there.")
	}
	r.log.Error("deposit: a flag is not in the words that it was made with; somebody changed the database",
		"deposit", d.id, "asked", actor.ID, "returnTo", d.flag.returnTo, "error", err)
	return newConflict(d.status, fault.InvalidState,
		"This deposit is not in the words that it was flagged with: its sender, its amount or whose it is was changed in the database since. "+
			"Nothing was decided, no money moved, and the deposit is still flagged. Tell the operator of the service, who looks at who changed it and can redirect the deposit.")
}

// verifyDecision refuses to send again what is not what was decided, by the grant of the
// transfer that failed. One that was restored from the journal has none, and then only
// what goes back to the sender of its flag is known to be that.
func (r *Resolutions) verifyDecision(d Deposit, res resolution, actor Actor, grant *signer.Grant) error {
	checkErr := r.grantKey.CheckGrant(signer.Intent{
		ID: res.id, Purpose: signer.Return, Chain: d.chain, From: signer.WalletRef{OrgID: d.orgID}, To: res.toAddress, Contract: d.contract, Amount: res.sent, MintID: *d.mintID, Grant: grant,
	})
	if checkErr == nil {
		return nil
	}
	if res.decision == decisionRejected && string(res.toAddress) == d.flag.returnTo && r.verifyFlag(d, actor) == nil {
		return nil
	}
	r.log.Error("deposit: a resolution is not in the words that it was decided in; somebody changed the database, or it was restored without them",
		"deposit", d.id, "resolution", res.id, "to", string(res.toAddress), "error", checkErr)
	return newConflict(d.status, fault.InvalidState,
		"Where this deposit goes is not what was decided, or the decision was restored from the signer's journal and nothing else knows it. "+
			"Nothing was sent and nothing was changed. Find out who changed it.")
}

// refuseSanctioned refuses to send back what came from an address on a list of sanctions.
func refuseSanctioned(d Deposit) error {
	var reason webhook.FlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	if !reason.Sanctioned {
		return nil
	}
	return newConflict(d.status, fault.RejectBlockedSanctions,
		"Its sender is on a list of sanctions, and this installation sends nothing back there. Nothing was decided, and the deposit is still flagged. The operator of the service can redirect it.")
}

// startTransfer writes a resolution down and orders its transfer, which the wallet pays pays for
// unless it is "". The deposit is locked.
func (r *Resolutions) startTransfer(ctx context.Context, tx pg.Tx, d Deposit, res resolution, payerID string, object *webhook.Deposit) error {
	after := d
	after.status = Rejecting
	if res.decision == decisionRedirected {
		after.status = Redirecting
	}
	res.status = "OPEN"
	if err := r.insertResolution(ctx, tx, d, res); err != nil {
		return err
	}
	if err := applyChanges(ctx, tx, change{d, after}); err != nil {
		return err
	}
	// What is kept of a native coin stays held until the transfer is final.
	if err := wallet.MoveFunds(ctx, tx,
		wallet.Movement{WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Held, Minus: res.sent},
		wallet.Movement{WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Reserved, Plus: res.sent}); err != nil {
		return err
	}
	// Nobody's freeze of a customer keeps what is not the customer's here.
	o := dispatch.Order{
		ID: res.id, OrgID: d.orgID, Purpose: signer.Return, Chain: d.chain, WalletID: d.walletID, To: res.toAddress, MintID: *d.mintID, Contract: d.contract, Amount: res.sent,
		Grant: r.grantKey.MakeGrant(signer.Terms{
			OrgID: d.orgID, WithdrawalID: res.id, Chain: d.chain, MintID: *d.mintID, Contract: d.contract, To: res.toAddress, Amount: res.sent,
		}, money.Zero, 0, 0, nil),
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
	if err := recordAudit(ctx, tx, []audit.Entry{newDecisionEntry(after, res.actor, auditActions[after.status], map[string]string{
		"resolution": res.id, "toAddress": string(res.toAddress), "amount": res.sent.String(), "reason": res.reason, "reference": res.reference, "note": res.note,
	})}); err != nil {
		return err
	}
	return r.loadObject(ctx, tx, after, object, nil)
}

// findFlagged reads what is to be decided about, before anything is locked or asked.
func (r *Resolutions) findFlagged(ctx context.Context, depositID string, actor Actor, note string) (d Deposit, err error) {
	if !isPlainText(note) {
		return d, fault.New(fault.Invalid, fault.InvalidRequest, "A note has at most %d characters of text. Nothing was decided.", NoteRunesMax).WithParam("note")
	}
	if !id.IsValid("dep", depositID) {
		return d, newNotFound()
	}
	err = r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND ($2 = '' OR org_id = $2) AND purpose NOT IN ('TREASURY', 'CHANGE')`, depositID, actor.OrgID)
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
		return d, newConflict(d.status, fault.DepositNotFlagged, "This deposit is %s and was never flagged, so there is nothing to decide. Nothing was changed.", d.status)
	}
	return d, nil
}

func newNotFound() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound, "There is no deposit with this id. Nothing was decided and no money moved. GET /deposits?status=FLAGGED lists those that wait for a decision.")
}

// checkDecidable refuses a decision while the chain or the token is in question. It comes
// before any deposit's lock.
func (r *Resolutions) checkDecidable(ctx context.Context, tx pg.Tx, d Deposit) error {
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
	return fault.New(fault.Unprocessable, fault.DepositsSuspended,
		"The chain or the token of this deposit is in question at the moment, and a person looks at it. Nothing was decided, and the deposit is still flagged; decide when it is released.")
}

// newNotDeep is of a deposit that was flagged, and that another fork has in a block which is
// not yet as deep.
func newNotDeep(d Deposit) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DepositsSuspended,
		"The chain has put this deposit into another block, and an amount like this waits for %d confirmations. Nothing was decided, and the deposit is still flagged; approve it when it has them.", d.depth)
}

func lockDeposit(ctx context.Context, tx pg.Tx, depositID string) (Deposit, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 FOR UPDATE`, depositID)
	if err != nil {
		return Deposit{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
	if err != nil {
		return Deposit{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	return d, nil
}

// outcomeStatuses are the states that a decision leads to.
var outcomeStatuses = map[string][]Status{decisionApproved: {Credited, Reversed}, decisionRejected: {Rejecting, Rejected}, decisionRedirected: {Redirecting, Redirected}}

// lockFlagged locks a flagged deposit. again says that this very decision was made before.
func (r *Resolutions) lockFlagged(ctx context.Context, tx pg.Tx, depositID, decision string) (d Deposit, isRepeated bool, err error) {
	if d, err = lockDeposit(ctx, tx, depositID); err != nil {
		return d, false, err
	}
	for _, s := range outcomeStatuses[decision] {
		if d.status == s {
			return d, true, nil
		}
	}
	switch d.status {
	case Flagged:
		if d.chainStatus == chainReorged { // asked under its lock: a break may have come since it was found
			return d, false, newSuspended()
		}
		return d, false, nil
	case Rejecting, Redirecting:
		return d, false, newConflict(d.status, fault.ResolutionInProgress,
			"Another decision about this deposit is being carried out: it is %s. This one changed nothing.", d.status)
	case ResolutionStuck:
		return d, false, newConflict(d.status, fault.ResolutionStuckCode,
			"This deposit was decided, and its transfer did not come about. The operator of the service completes it. Nothing was changed.")
	default:
		return d, false, newConflict(d.status, fault.DepositNotFlagged, "This deposit was resolved: it is %s. Nothing was changed.", d.status)
	}
}

func newConflict(status Status, code fault.Code, format string, args ...any) *fault.Fault {
	return fault.New(fault.Conflict, code, format, args...).WithExtra("currentStatus", string(status))
}

func newOperatorOnly(reason string) *fault.Fault {
	return fault.New(fault.Forbidden, fault.OperatorOnly, "%s Nothing was decided, and the deposit is as it was. Ask the operator of the service.", reason)
}

// newNoSender refuses to send a deposit back that has no single sender. The operator needs
// another act, and the organization needs the operator.
func newNoSender(d Deposit, actor Actor) error {
	const reason = "This deposit has no single sender to whom it could go back."
	if !actor.isOperator() {
		return newOperatorOnly(reason)
	}
	return newConflict(d.status, fault.InvalidState,
		reason+" Nothing was decided, and the deposit is still flagged. Send it to an address of your choice with POST /deposits/{depositId}/redirect, or coffer deposits redirect.")
}

// loadObject ends a transaction with the deposit as it then is, unless there is an error.
func (r *Resolutions) loadObject(ctx context.Context, tx pg.Tx, d Deposit, object *webhook.Deposit, err error) error {
	if err != nil {
		return err
	}
	objects, err := objectsByID(ctx, tx, []Deposit{d})
	if err != nil {
		return err
	}
	*object = objects[d.id]
	return nil
}

// mapConflict makes of the constraint that lets one resolution stand what its loser is told.
func (r *Resolutions) mapConflict(ctx context.Context, depositID string, actor Actor, decision string, object *webhook.Deposit, err error) error {
	if pg.ViolatesConstraint(err, "deposit_resolutions_one") {
		return newConflict(Flagged, fault.ResolutionInProgress, "Another decision about this deposit was first. This one changed nothing.")
	}
	return err
}

// insertResolution writes a resolution down.
func (r *Resolutions) insertResolution(ctx context.Context, tx pg.Tx, d Deposit, res resolution) error {
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
		res.actor.Kind, res.actor.ID, res.actor.Name, d.chain, d.walletID, *d.mintID, string(res.toAddress), sent, res.feeKept)
	if err != nil {
		return fmt.Errorf("resolve deposit %s: %w", d.id, err)
	}
	return nil
}

// recordInsufficient keeps an attempt that a deposit is too small for, because of what is not sent of it.
func (r *Resolutions) recordInsufficient(ctx context.Context, ch chain.Chain, depositID string, res resolution) error {
	message := fmt.Sprintf("the deposit does not cover the network's fee of %s units", res.feeKept)
	detail := fmt.Sprintf("This deposit is smaller than the network's fee for sending it, %s units.", res.feeKept)
	if ch.SeparateFeePayer {
		message = fmt.Sprintf("something else is on the address, and with it %s units would have to stay", res.feeKept)
		detail = fmt.Sprintf("Something else is on the address of this deposit, and %s leaves no account with less than %v units: %v would have to stay, and the deposit is no more than that.", ch.Name, ch.MinBalance, res.feeKept)
	}
	return r.recordTooSmall(ctx, depositID, res, message, detail)
}

// recordTooSmall keeps an attempt that a deposit is too small for, with why for the record and
// for whoever asked. It stays in the queue.
func (r *Resolutions) recordTooSmall(ctx context.Context, depositID string, res resolution, message, detail string) error {
	const reason = "INSUFFICIENT_GAS"
	err := r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		d, isRepeated, err := r.lockFlagged(ctx, tx, depositID, res.decision)
		if err != nil || isRepeated {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
				decided_by_kind, decided_by, decided_by_name, chain, wallet_id, mint_id, to_address, ended_at, failure, failure_message)
			VALUES ($1, $2, $3, $4, 'FAILED', nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, nullif($11, ''), $12, $13, $14, nullif($15, ''), $8, $16, $17)`,
			id.New("res", tx.Now), d.orgID, d.id, res.decision, res.reason, res.reference, res.note, tx.Now,
			res.actor.Kind, res.actor.ID, res.actor.Name, d.chain, d.walletID, *d.mintID, string(res.toAddress), reason, message)
		if err != nil {
			return fmt.Errorf("keep the attempt to resolve deposit %s: %w", d.id, err)
		}
		return recordAudit(ctx, tx, []audit.Entry{newDecisionEntry(d, res.actor, "resolution_failed", map[string]string{"reason": reason, "message": message})})
	})
	if err != nil {
		return err
	}
	return fault.New(fault.Unprocessable, fault.InsufficientGas, "%s The attempt is kept, nothing moved, and the deposit is still flagged.", detail)
}

// parsePayee reads where the operator sends a deposit.
func (r *Resolutions) parsePayee(ch chain.Chain, text string, d Deposit) (chain.Address, error) {
	a, err := ch.AddressCodec.Parse(text)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidAddress, "toAddress is no address of %s: %s. Nothing was decided.", d.chain, err).WithParam("toAddress")
	}
	if ch.AddressCodec.IsUnspendable(a) || a == d.contract || a == d.address {
		return "", fault.New(fault.Unprocessable, fault.DestinationNotAllowed, "What goes to %s is lost or stays where it is. Nothing was decided, and the deposit is still flagged.", a).WithParam("toAddress")
	}
	return a, nil
}

func findOwnAddress(ctx context.Context, tx pg.Tx, d Deposit, a chain.Address) (wallet.Wallet, bool, error) {
	wallets, err := wallet.ByAddresses(ctx, tx, d.chain.Family(), []chain.Address{a})
	if err != nil {
		return wallet.Wallet{}, false, err
	}
	w, found := wallets[a]
	return w, found, nil
}

// isPlainText tells whether a text of a person's is short and printable.
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

// newDecisionEntry is the audit row of what somebody did about a flagged deposit.
func newDecisionEntry(d Deposit, actor Actor, verb string, detail map[string]string) audit.Entry {
	return audit.Entry{OrgID: d.orgID, Actor: actor.Actor, Action: "deposit." + verb, ResourceKind: resourceKind, ResourceID: d.id, Detail: detail}
}

// newReleasePosting is the posting that ends the hold of a flagged deposit.
func newReleasePosting(d Deposit) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.DepositRelease, ID: d.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Suspense},
			Credit: ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Custody}, Amount: d.amount,
		}},
	}
}

// publishDecision tells the organization of a flagged deposit, when it is one that is told of this.
func (r *Resolutions) publishDecision(ctx context.Context, tx pg.Tx, d Deposit, eventType event.Type) error {
	if d.eventFor(eventType) == "" {
		return nil
	}
	return publishEvents(ctx, tx, []Deposit{d}, objectsByID, func(d Deposit) event.Type { return d.eventFor(eventType) })
}
