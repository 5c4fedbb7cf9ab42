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
	approved   = "APPROVED"
	rejected   = "REJECTED"
	redirected = "REDIRECTED"
)

// The reasons for which the operator sends a flagged deposit elsewhere.
const (
	ComplianceHold = "COMPLIANCE_HOLD"
	LawEnforcement = "LAW_ENFORCEMENT"
)

// NoteRunesMax bounds a note about a decision, and the reference of a redirect.
const NoteRunesMax = 500

const (
	stuckAfter = time.Hour        // a transfer that is out for so long is for the operator to look at
	stuckLooks = 30 * time.Second // between two looks for such
	movesMax   = 4                // tries at a deposit that comes back into the queue meanwhile
)

// Decider is who decides about a flagged deposit.
type Decider struct {
	audit.Actor
	Name string // for people; "" when there is none
	// OrgID is the organization that decides, "" for the operator, who decides for all.
	OrgID string
}

func (d Decider) operator() bool { return d.OrgID == "" }

// Resolutions resolves flagged deposits: each once, by whoever is first. It is the
// feature behind orders that send one away. Safe for concurrent use.
type Resolutions struct {
	db      *pg.DB
	chains  chain.Chains
	wallets Book
	log     *slog.Logger
	// keepSanctioned refuses to send back what came from an address on a list of sanctions.
	keepSanctioned bool
	grants         *signer.GrantKey // nil: none, as in tests of other things
	voids          *dispatch.Voider // has the signer void what was refused before; nil: nothing was
}

// ResolutionsOption changes how flagged deposits are resolved.
type ResolutionsOption func(*Resolutions)

// Granted binds what was decided to the words of the transfer, for the signer: who
// writes the database alone sends nothing anywhere.
func Granted(k *signer.GrantKey) ResolutionsOption {
	return func(r *Resolutions) { r.grants = k }
}

// KeepSanctioned refuses to reject what came from an address that is itself on a list
// of sanctions, whoever asks: to send blocked property back may be forbidden. Redirect
// is left.
func KeepSanctioned(r *Resolutions) { r.keepSanctioned = true }

// Voiding has the signer void what was decided before and refused, so that no deposit is
// credited whose return could still be paid.
func Voiding(v *dispatch.Voider) ResolutionsOption {
	return func(r *Resolutions) { r.voids = v }
}

var (
	_ dispatch.Listener     = (*Resolutions)(nil)
	_ dispatch.VoidListener = (*Resolutions)(nil)
	_ dispatch.Restorer     = (*Resolutions)(nil)
)

// NewResolutions makes the feature.
func NewResolutions(db *pg.DB, chains chain.Chains, wallets Book, log *slog.Logger, options ...ResolutionsOption) *Resolutions {
	r := &Resolutions{db: db, chains: chains, wallets: wallets, log: log}
	for _, change := range options {
		change(r)
	}
	return r
}

// Run looks for transfers that are out for too long, until ctx ends; it returns nil.
func (r *Resolutions) Run(ctx context.Context) error {
	tick := time.NewTicker(stuckLooks)
	defer tick.Stop()
	for {
		if _, err := r.Stick(ctx); err != nil && ctx.Err() == nil {
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
func (r *Resolutions) Approve(ctx context.Context, depositID string, by Decider, note string) (webhook.Deposit, error) {
	var shown webhook.Deposit
	was, err := r.find(ctx, depositID, by, note)
	if err == nil {
		err = r.voidRefused(ctx, was)
	}
	if err != nil {
		return shown, err
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.sound(ctx, tx, was); err != nil {
			return err
		}
		d, again, err := r.lock(ctx, tx, depositID, approved)
		if err != nil || again {
			return r.show(ctx, tx, d, &shown, err)
		}
		if deep, err := d.deep(ctx, tx); err != nil {
			return err
		} else if !deep {
			return notDeep(d)
		}
		if d.flag.mac != nil { // without one nothing is sent, and nothing is sent here
			if err := r.genuine(d, by); err != nil {
				return err
			}
		}
		w, err := wallet.ByID(ctx, tx, d.walletID)
		if err != nil {
			return err
		}
		if !d.reached(w) {
			return fmt.Errorf("deposit %s: its wallet is another than the one that received", d.id)
		}
		if err := r.wallets.Prove(w); err != nil {
			return fmt.Errorf("deposit %s: %w", d.id, err)
		}
		now := tx.Now
		if err := r.insert(ctx, tx, d, resolution{id: id.New("res", now), decision: approved, status: "DONE", note: note, by: by}); err != nil {
			return err
		}
		is := d
		is.status, is.creditedAt = Credited, &now
		if err := become(ctx, tx, change{d, is}); err != nil {
			return err
		}
		at, err := keepersOf(ctx, tx, is)
		if err != nil {
			return err
		}
		keeps, known := at.of(is)
		if !known {
			return fmt.Errorf("deposit %s: its organization has no treasury", d.id)
		}
		moves := []wallet.Movement{{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Held, Minus: is.amount}}
		if keeps != is.walletID {
			moves = append(moves,
				wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Credited, Minus: is.amount},
				wallet.Movement{WalletID: keeps, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Credited, Plus: is.amount})
			if err := coin.Credited(ctx, tx, is.id); err != nil {
				return err
			}
		}
		if err := wallet.Move(ctx, tx, moves...); err != nil {
			return err
		}
		credit := credits{at: at}
		credit.add(is, false) // no treasury is ever flagged
		if err := ledger.Post(ctx, tx, append(credit.postings, released(is))...); err != nil {
			return err
		}
		if err := r.tell(ctx, tx, is, event.CustomerDepositApproved); err != nil {
			return err
		}
		if err := record(ctx, tx, []audit.Entry{decidedBy(is, by, "approved", map[string]string{"note": note, "amount": is.amount.String()})}); err != nil {
			return err
		}
		if err := r.show(ctx, tx, is, &shown, nil); err != nil {
			return err
		}
		crash.Committing("F01")
		return nil
	})
	if err != nil {
		return webhook.Deposit{}, r.raced(ctx, depositID, by, approved, &shown, err)
	}
	crash.Point("F01")
	return shown, nil
}

// Reject sends a flagged deposit back to the address that it came from, less the
// network's fee when it is a native coin whose address pays that. It is REJECTING until the transfer is final.
// Rejecting it again answers the same. An attempt that cannot be made is kept and the
// deposit stays in the queue. Errors: those of Approve, OPERATOR_ONLY, INSUFFICIENT_GAS,
// INVALID_STATE for the operator of a deposit without a single sender,
// REJECT_BLOCKED_SANCTIONS with KeepSanctioned, DESTINATION_NOT_ALLOWED, UNAVAILABLE.
func (r *Resolutions) Reject(ctx context.Context, depositID string, by Decider, note string) (webhook.Deposit, error) {
	return r.send(ctx, depositID, resolution{decision: rejected, note: note, by: by})
}

// Redirection is where the operator sends a flagged deposit, and why.
type Redirection struct {
	To        string
	Reason    string // COMPLIANCE_HOLD or LAW_ENFORCEMENT
	Reference string // of the order or the case; required
	Note      string
}

// Redirect sends a flagged deposit to another address. It is the operator's alone.
// Errors: those of Reject, INVALID_ADDRESS, DESTINATION_NOT_ALLOWED.
func (r *Resolutions) Redirect(ctx context.Context, depositID string, by Decider, to Redirection) (webhook.Deposit, error) {
	switch {
	case !by.operator():
		return webhook.Deposit{}, operatorOnly("Only the operator of the service sends a flagged deposit to another address.")
	case to.Reason != ComplianceHold && to.Reason != LawEnforcement:
		return webhook.Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"The reason of a redirect is %s or %s. Nothing was decided, and the deposit is still flagged.", ComplianceHold, LawEnforcement).On("reason")
	case to.Reference == "" || !plain(to.Reference):
		return webhook.Deposit{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A redirect names the case or order that it follows, in at most %d characters of text. Nothing was decided, and the deposit is still flagged.", NoteRunesMax).On("reference")
	}
	return r.send(ctx, depositID, resolution{decision: redirected, note: to.Note, reason: to.Reason, reference: to.Reference, to: chain.Address(to.To), by: by})
}

// Complete has a stuck resolution carried out: what failed on the chain, provenly, is
// sent again, to the same address. It is the operator's alone. Errors: NOT_FOUND,
// OPERATOR_ONLY, INVALID_STATE, RESOLUTION_IN_PROGRESS while its transaction may still
// become final.
func (r *Resolutions) Complete(ctx context.Context, depositID string, by Decider, note string) (webhook.Deposit, error) {
	var shown webhook.Deposit
	if !by.operator() {
		return shown, operatorOnly("Only the operator of the service completes a resolution that is stuck.")
	}
	was, err := r.find(ctx, depositID, by, note)
	if err != nil {
		return shown, err
	}
	_, pays, err := r.payer(ctx, was)
	if err != nil {
		return shown, err
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.sound(ctx, tx, was); err != nil {
			return err
		}
		var old, ended string
		var grant *signer.Grant
		err := tx.QueryRow(ctx, `
			SELECT r.resolution_id, o.status, o.authority FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE r.deposit_id = $1 AND r.status = 'STUCK' FOR UPDATE OF o`, depositID).Scan(&old, &ended, &grant)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		d, err := locked(ctx, tx, depositID)
		if err != nil {
			return err
		}
		switch {
		case d.status == Rejected || d.status == Redirected:
			return r.show(ctx, tx, d, &shown, nil)
		case d.chainStatus == reorged:
			return inQuestion()
		case d.status != ResolutionStuck || old == "":
			return notThere(d.status, fault.InvalidState, "Only a deposit that is RESOLUTION_STUCK is completed, and this one is %s. Nothing was changed.", d.status)
		case ended != string(dispatch.Failed):
			return notThere(d.status, fault.ResolutionInProgress,
				"Its transaction may still become final, so nothing else is sent in its place: `coffer dispatch show %s` tells where it stands, and bumps or cancels it. When it is final the deposit is resolved, or can be completed here.", old)
		}
		next, err := resolutionOf(ctx, tx, old)
		if err != nil {
			return err
		}
		if err := r.decidedSo(d, next, by, grant); err != nil {
			return err
		}
		if err := endResolution(ctx, tx, old, "STUCK", "FAILED", "", money.Zero, "REVERTED", "its transaction did not do what it was made for"); err != nil {
			return err
		}
		next.id, next.by, next.note = id.New("res", tx.Now), by, note
		return r.begin(ctx, tx, d, next, pays, &shown)
	})
	if err != nil {
		return webhook.Deposit{}, err
	}
	return shown, nil
}

// payer is the chain of a deposit and the wallet that pays for what is sent from its
// address, "" for that itself. On chains that know payers it never is: a customer's coin
// would pay a fee.
func (r *Resolutions) payer(ctx context.Context, d row) (ch chain.Chain, walletID string, err error) {
	ch, ok := r.chains[d.chain]
	if !ok {
		return ch, "", fault.New(fault.Unavailable, fault.CodeUnavailable, "%s is not run by this installation at the moment. Nothing was decided, and the deposit is %s still.", d.chain, d.status)
	}
	if !ch.OthersPay {
		return ch, "", nil
	}
	treasury, err := r.wallets.Treasury(ctx, d.orgID, d.chain.Family())
	if err != nil {
		return ch, "", fmt.Errorf("treasury of %s, which pays for what is sent from deposit %s: %w", d.orgID, d.id, err)
	}
	return ch, treasury.ID, nil
}

// kept is what of a deposit of the native coin is not sent away. Where its address pays,
// that is the fee. Where the treasury does, it is what the chain would miss at the address
// beside the rest that is there: as a rule nothing.
func (r *Resolutions) kept(ctx context.Context, ch chain.Chain, d row) (money.Amount, error) {
	if !ch.OthersPay {
		fees, err := ch.Sender.TransferFees(ctx)
		if err != nil {
			return money.Zero, err
		}
		return fees.Max()
	}
	var f wallet.Funds
	err := r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.FundsOf(ctx, tx, d.walletID, *d.mintID)
		return err
	})
	if err != nil {
		return money.Zero, err
	}
	rest, err := f.Spendable().Add(f.Dust)
	return ch.Stays(rest), err
}

// resolution is a row of deposit_resolutions, as far as it is decided.
type resolution struct {
	id, decision, status    string
	reason, reference, note string
	by                      Decider
	to                      chain.Address
	sent, kept              money.Amount
}

// errMoved says that a deposit came back into the queue between the look at it and its
// lock.
var errMoved = errors.New("the deposit is in the queue again")

// send decides that a flagged deposit leaves. What was looked up for a deposit that was
// not in the queue is not enough for one that came back meanwhile: it is looked up again.
func (r *Resolutions) send(ctx context.Context, depositID string, res resolution) (shown webhook.Deposit, err error) {
	for range movesMax {
		if shown, err = r.sendOnce(ctx, depositID, res); !errors.Is(err, errMoved) {
			return shown, err
		}
	}
	return shown, fault.New(fault.Unavailable, fault.CodeUnavailable,
		"This deposit changes all the time. Nothing was decided here, and no money moved by this call; ask again in a while.")
}

// sendOnce decides that a flagged deposit leaves, and orders the transfer.
func (r *Resolutions) sendOnce(ctx context.Context, depositID string, res resolution) (webhook.Deposit, error) {
	var shown webhook.Deposit
	was, err := r.find(ctx, depositID, res.by, res.note)
	if err == nil {
		err = r.voidRefused(ctx, was)
	}
	if err != nil {
		return shown, err
	}
	ch, pays, err := r.payer(ctx, was)
	if err != nil {
		return shown, err
	}
	if res.decision == rejected && was.status == Flagged {
		if was.flag.returnTo == "" || was.flag.returnRisk == returnSeveral && !res.by.operator() {
			return shown, noSender(was, res.by)
		}
		if r.keepSanctioned {
			if err := blocked(was); err != nil {
				return shown, err
			}
		}
		res.to = chain.Address(was.flag.returnTo)
	}
	if res.decision == redirected {
		if res.to, err = r.payee(ch, string(res.to), was); err != nil {
			return shown, err
		}
	}
	res.sent = was.amount
	if was.contract == "" && was.status == Flagged {
		if res.kept, err = r.kept(ctx, ch, was); err != nil {
			r.log.Warn("deposit: nobody says what a transfer costs", "deposit", depositID, "error", err)
			return shown, fault.New(fault.Unavailable, fault.CodeUnavailable,
				"Nobody says at the moment what a transfer on %s costs. Nothing was decided, and the deposit is still flagged; ask again in a while.", was.chain)
		}
		if res.sent, err = was.amount.Sub(res.kept); err != nil || res.sent.IsZero() {
			return shown, r.poor(ctx, ch, depositID, res)
		}
		least, err := ch.Minimum(ctx, was.contract, res.to)
		if err != nil {
			r.log.Warn("deposit: nobody says what reaches an address", "deposit", depositID, "to", string(res.to), "error", err)
			return shown, fault.New(fault.Unavailable, fault.CodeUnavailable,
				"Nobody says at the moment how much has to be sent on %s to reach the address. Nothing was decided, and the deposit is still flagged; ask again in a while.", was.chain)
		}
		if res.sent.Less(least) {
			return shown, r.tooSmall(ctx, depositID, res,
				fmt.Sprintf("%v units would be sent, and %s lets no less than %v reach %s", res.sent, ch.Name, least, res.to),
				fmt.Sprintf("Of this deposit %v units would be sent, and %s lets no less than %v reach %s.", res.sent, ch.Name, least, res.to))
		}
	}
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := r.sound(ctx, tx, was); err != nil {
			return err
		}
		d, again, err := r.lock(ctx, tx, depositID, res.decision)
		if err != nil || again {
			return r.show(ctx, tx, d, &shown, err)
		}
		if was.status != Flagged {
			return errMoved
		}
		if res.decision == rejected {
			if err := r.genuine(d, res.by); err != nil {
				return err
			}
			if d.flag.returnTo != string(res.to) {
				return errMoved
			}
		}
		if _, ours, err := ourAddress(ctx, tx, d, res.to); err != nil {
			return err
		} else if ours {
			refused := fault.New(fault.Unprocessable, fault.DestinationNotAllowed,
				"%s is an address of this service. Nothing was decided, and the deposit is still flagged.", res.to)
			if res.decision == redirected {
				refused = refused.On("toAddress")
			}
			return refused
		}
		res.id = id.New("res", tx.Now)
		if err := r.begin(ctx, tx, d, res, pays, &shown); err != nil {
			return err
		}
		crash.Committing("F02")
		return nil
	})
	if pg.Violates(err, "deposit_resolutions_void_first") {
		return webhook.Deposit{}, errMoved // another decision was refused meanwhile, and is to be voided
	}
	if err != nil {
		return webhook.Deposit{}, r.raced(ctx, depositID, res.by, res.decision, &shown, err)
	}
	crash.Point("F02")
	return shown, nil
}

// bound are the words of a flag that its MAC is of.
func (d row) bound() (signer.Flag, error) {
	var reason webhook.FlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return signer.Flag{}, fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	return signer.Flag{
		OrgID: d.orgID, DepositID: d.id, Chain: d.chain, WalletID: d.walletID, MintID: *d.mintID, Amount: d.amount,
		Senders: d.senders, ReturnTo: d.flag.returnTo, ReturnRisk: d.flag.returnRisk, Sanctioned: reason.Sanctioned,
	}, nil
}

// genuine refuses a deposit that is not what it was flagged as, by the word of the key
// that is not in the database. The operator can redirect it, to an address that is given
// with the decision, once it is known who changed what.
func (r *Resolutions) genuine(d row, by Decider) error {
	words, err := d.bound()
	if err == nil && r.grants.Flagged(words, d.flag.mac) {
		return nil
	}
	if d.flag.mac == nil {
		const old = "This deposit was flagged before its sender was bound by a key, so nobody can say that the address is still that of its sender."
		if !by.operator() {
			return operatorOnly(old)
		}
		return notThere(d.status, fault.InvalidState, old+" Nothing was decided, and the deposit is still flagged. Look at the chain for who sent it, and redirect it there.")
	}
	r.log.Error("deposit: a flag is not in the words that it was made with; somebody changed the database",
		"deposit", d.id, "asked", by.ID, "returnTo", d.flag.returnTo, "error", err)
	return notThere(d.status, fault.InvalidState,
		"This deposit is not in the words that it was flagged with: its sender, its amount or whose it is was changed in the database since. "+
			"Nothing was decided, no money moved, and the deposit is still flagged. Tell the operator of the service, who looks at who changed it and can redirect the deposit.")
}

// decidedSo refuses to send again what is not what was decided, by the grant of the
// transfer that failed. One that was restored from the journal has none, and then only
// what goes back to the sender of its flag is known to be that.
func (r *Resolutions) decidedSo(d row, res resolution, by Decider, grant *signer.Grant) error {
	refused := r.grants.Check(signer.Intent{
		ID: res.id, Purpose: signer.Return, Chain: d.chain, From: signer.WalletRef{OrgID: d.orgID}, To: res.to, Contract: d.contract, Amount: res.sent, MintID: *d.mintID, Grant: grant,
	})
	if refused == nil {
		return nil
	}
	if res.decision == rejected && string(res.to) == d.flag.returnTo && r.genuine(d, by) == nil {
		return nil
	}
	r.log.Error("deposit: a resolution is not in the words that it was decided in; somebody changed the database, or it was restored without them",
		"deposit", d.id, "resolution", res.id, "to", string(res.to), "error", refused)
	return notThere(d.status, fault.InvalidState,
		"Where this deposit goes is not what was decided, or the decision was restored from the signer's journal and nothing else knows it. "+
			"Nothing was sent and nothing was changed. Find out who changed it.")
}

// blocked refuses to send back what came from an address on a list of sanctions.
func blocked(d row) error {
	var reason webhook.FlagReason
	if err := json.Unmarshal(d.flag.reason, &reason); err != nil {
		return fmt.Errorf("read why deposit %s was flagged: %w", d.id, err)
	}
	if !reason.Sanctioned {
		return nil
	}
	return notThere(d.status, fault.RejectBlockedSanctions,
		"Its sender is on a list of sanctions, and this installation sends nothing back there. Nothing was decided, and the deposit is still flagged. The operator of the service can redirect it.")
}

// begin writes a resolution down and orders its transfer, which the wallet pays pays for
// unless it is "". The deposit is locked.
func (r *Resolutions) begin(ctx context.Context, tx pg.Tx, d row, res resolution, pays string, shown *webhook.Deposit) error {
	is := d
	is.status = Rejecting
	if res.decision == redirected {
		is.status = Redirecting
	}
	res.status = "OPEN"
	if err := r.insert(ctx, tx, d, res); err != nil {
		return err
	}
	if err := become(ctx, tx, change{d, is}); err != nil {
		return err
	}
	// What is kept of a native coin stays held until the transfer is final.
	if err := wallet.Move(ctx, tx,
		wallet.Movement{WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Held, Minus: res.sent},
		wallet.Movement{WalletID: d.walletID, OrgID: d.orgID, MintID: *d.mintID, Part: wallet.Reserved, Plus: res.sent}); err != nil {
		return err
	}
	// Nobody's freeze of a customer keeps what is not the customer's here.
	o := dispatch.Order{
		ID: res.id, OrgID: d.orgID, Purpose: signer.Return, Chain: d.chain, WalletID: d.walletID, To: res.to, MintID: *d.mintID, Contract: d.contract, Amount: res.sent,
		Grant: r.grants.Grant(signer.Terms{
			OrgID: d.orgID, WithdrawalID: res.id, Chain: d.chain, MintID: *d.mintID, Contract: d.contract, To: res.to, Amount: res.sent,
		}, money.Zero, 0, 0, nil),
	}
	if pays != "" {
		o.WalletID, o.FromID = pays, d.walletID
	}
	if err := dispatch.Place(ctx, tx, o); err != nil {
		return err
	}
	if d.chain.Pooled() {
		if err := keep(ctx, tx, d.id, res.id); err != nil {
			return err
		}
	}
	if err := record(ctx, tx, []audit.Entry{decidedBy(is, res.by, action[is.status], map[string]string{
		"resolution": res.id, "toAddress": string(res.to), "amount": res.sent.String(), "reason": res.reason, "reference": res.reference, "note": res.note,
	})}); err != nil {
		return err
	}
	return r.show(ctx, tx, is, shown, nil)
}

// find reads what is to be decided about, before anything is locked or asked.
func (r *Resolutions) find(ctx context.Context, depositID string, by Decider, note string) (d row, err error) {
	if !plain(note) {
		return d, fault.New(fault.Invalid, fault.InvalidRequest, "A note has at most %d characters of text. Nothing was decided.", NoteRunesMax).On("note")
	}
	if !id.Is("dep", depositID) {
		return d, absent()
	}
	err = r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND ($2 = '' OR org_id = $2) AND purpose NOT IN ('TREASURY', 'CHANGE')`, depositID, by.OrgID)
		if err != nil {
			return err
		}
		d, err = pgx.CollectExactlyOneRow(rows, scanned)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, absent()
	}
	if err != nil {
		return d, fmt.Errorf("read deposit %s: %w", depositID, err)
	}
	if d.flag == nil {
		return d, notThere(d.status, fault.DepositNotFlagged, "This deposit is %s and was never flagged, so there is nothing to decide. Nothing was changed.", d.status)
	}
	return d, nil
}

func absent() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound, "There is no deposit with this id. Nothing was decided and no money moved. GET /deposits?status=FLAGGED lists those that wait for a decision.")
}

// sound refuses a decision while the chain or the token is in question. It comes
// before any deposit's lock.
func (r *Resolutions) sound(ctx context.Context, tx pg.Tx, d row) error {
	if err := freeze.Hold(ctx, tx); err != nil {
		return err
	}
	broken, err := finality.Hold(ctx, tx, d.chain)
	if err != nil {
		return err
	}
	sound, err := mint.Sound(ctx, tx, []int{*d.mintID})
	if err != nil {
		return err
	}
	if broken || !sound[*d.mintID] {
		return inQuestion()
	}
	return nil
}

func inQuestion() *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DepositsSuspended,
		"The chain or the token of this deposit is in question at the moment, and a person looks at it. Nothing was decided, and the deposit is still flagged; decide when it is released.")
}

// notDeep is of a deposit that was flagged, and that another fork has in a block which is
// not yet as deep.
func notDeep(d row) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DepositsSuspended,
		"The chain has put this deposit into another block, and an amount like this waits for %d confirmations. Nothing was decided, and the deposit is still flagged; approve it when it has them.", d.depth)
}

func locked(ctx context.Context, tx pg.Tx, depositID string) (row, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 FOR UPDATE`, depositID)
	if err != nil {
		return row{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanned)
	if err != nil {
		return row{}, fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	return d, nil
}

// outcomes are the states that a decision leads to.
var outcomes = map[string][]Status{approved: {Credited, Reversed}, rejected: {Rejecting, Rejected}, redirected: {Redirecting, Redirected}}

// lock locks a flagged deposit. again says that this very decision was made before.
func (r *Resolutions) lock(ctx context.Context, tx pg.Tx, depositID, decision string) (d row, again bool, err error) {
	if d, err = locked(ctx, tx, depositID); err != nil {
		return d, false, err
	}
	for _, s := range outcomes[decision] {
		if d.status == s {
			return d, true, nil
		}
	}
	switch d.status {
	case Flagged:
		if d.chainStatus == reorged { // asked under its lock: a break may have come since it was found
			return d, false, inQuestion()
		}
		return d, false, nil
	case Rejecting, Redirecting:
		return d, false, notThere(d.status, fault.ResolutionInProgress,
			"Another decision about this deposit is being carried out: it is %s. This one changed nothing.", d.status)
	case ResolutionStuck:
		return d, false, notThere(d.status, fault.ResolutionStuckCode,
			"This deposit was decided, and its transfer did not come about. The operator of the service completes it. Nothing was changed.")
	default:
		return d, false, notThere(d.status, fault.DepositNotFlagged, "This deposit was resolved: it is %s. Nothing was changed.", d.status)
	}
}

func notThere(now Status, code fault.Code, format string, args ...any) *fault.Fault {
	return fault.New(fault.Conflict, code, format, args...).Beside("currentStatus", string(now))
}

func operatorOnly(why string) *fault.Fault {
	return fault.New(fault.Forbidden, fault.OperatorOnly, "%s Nothing was decided, and the deposit is as it was. Ask the operator of the service.", why)
}

// noSender refuses to send a deposit back that has no single sender. The operator needs
// another act, and the organization needs the operator.
func noSender(d row, by Decider) error {
	const why = "This deposit has no single sender to whom it could go back."
	if !by.operator() {
		return operatorOnly(why)
	}
	return notThere(d.status, fault.InvalidState,
		why+" Nothing was decided, and the deposit is still flagged. Send it to an address of your choice with POST /deposits/{depositId}/redirect, or coffer deposits redirect.")
}

// show ends a transaction with the deposit as it then is, unless there is an error.
func (r *Resolutions) show(ctx context.Context, tx pg.Tx, d row, into *webhook.Deposit, err error) error {
	if err != nil {
		return err
	}
	objects, err := byID(ctx, tx, []row{d})
	if err != nil {
		return err
	}
	*into = objects[d.id]
	return nil
}

// raced makes of the constraint that lets one resolution stand what its loser is told.
func (r *Resolutions) raced(ctx context.Context, depositID string, by Decider, decision string, shown *webhook.Deposit, err error) error {
	if pg.Violates(err, "deposit_resolutions_one") {
		return notThere(Flagged, fault.ResolutionInProgress, "Another decision about this deposit was first. This one changed nothing.")
	}
	return err
}

// insert writes a resolution down.
func (r *Resolutions) insert(ctx context.Context, tx pg.Tx, d row, res resolution) error {
	var sent *money.Amount
	if res.decision != approved {
		sent = &res.sent
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
			decided_by_kind, decided_by, decided_by_name, chain, wallet_id, mint_id, to_address, sent, fee_kept, ended_at)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), nullif($8, ''), $9, $10, $11, nullif($12, ''), $13, $14, $15, nullif($16, ''), $17, $18,
			CASE WHEN $5 = 'DONE' THEN $9::timestamptz END)`,
		res.id, d.orgID, d.id, res.decision, res.status, res.reason, res.reference, res.note, tx.Now,
		res.by.Kind, res.by.ID, res.by.Name, d.chain, d.walletID, *d.mintID, string(res.to), sent, res.kept)
	if err != nil {
		return fmt.Errorf("resolve deposit %s: %w", d.id, err)
	}
	return nil
}

// poor keeps an attempt that a deposit is too small for, because of what is not sent of it.
func (r *Resolutions) poor(ctx context.Context, ch chain.Chain, depositID string, res resolution) error {
	message := fmt.Sprintf("the deposit does not cover the network's fee of %s units", res.kept)
	told := fmt.Sprintf("This deposit is smaller than the network's fee for sending it, %s units.", res.kept)
	if ch.OthersPay {
		message = fmt.Sprintf("something else is on the address, and with it %s units would have to stay", res.kept)
		told = fmt.Sprintf("Something else is on the address of this deposit, and %s leaves no account with less than %v units: %v would have to stay, and the deposit is no more than that.", ch.Name, ch.Keeps, res.kept)
	}
	return r.tooSmall(ctx, depositID, res, message, told)
}

// tooSmall keeps an attempt that a deposit is too small for, with why for the record and
// for whoever asked. It stays in the queue.
func (r *Resolutions) tooSmall(ctx context.Context, depositID string, res resolution, message, told string) error {
	const reason = "INSUFFICIENT_GAS"
	err := r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		d, again, err := r.lock(ctx, tx, depositID, res.decision)
		if err != nil || again {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason, reference, note, decided_at,
				decided_by_kind, decided_by, decided_by_name, chain, wallet_id, mint_id, to_address, ended_at, failure, failure_message)
			VALUES ($1, $2, $3, $4, 'FAILED', nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, nullif($11, ''), $12, $13, $14, nullif($15, ''), $8, $16, $17)`,
			id.New("res", tx.Now), d.orgID, d.id, res.decision, res.reason, res.reference, res.note, tx.Now,
			res.by.Kind, res.by.ID, res.by.Name, d.chain, d.walletID, *d.mintID, string(res.to), reason, message)
		if err != nil {
			return fmt.Errorf("keep the attempt to resolve deposit %s: %w", d.id, err)
		}
		return record(ctx, tx, []audit.Entry{decidedBy(d, res.by, "resolution_failed", map[string]string{"reason": reason, "message": message})})
	})
	if err != nil {
		return err
	}
	return fault.New(fault.Unprocessable, fault.InsufficientGas, "%s The attempt is kept, nothing moved, and the deposit is still flagged.", told)
}

// payee reads where the operator sends a deposit.
func (r *Resolutions) payee(ch chain.Chain, to string, d row) (chain.Address, error) {
	a, err := ch.Grammar.Parse(to)
	if err != nil {
		return "", fault.New(fault.Invalid, fault.InvalidAddress, "toAddress is no address of %s: %s. Nothing was decided.", d.chain, err).On("toAddress")
	}
	if ch.Grammar.Burns(a) || a == d.contract || a == d.address {
		return "", fault.New(fault.Unprocessable, fault.DestinationNotAllowed, "What goes to %s is lost or stays where it is. Nothing was decided, and the deposit is still flagged.", a).On("toAddress")
	}
	return a, nil
}

func ourAddress(ctx context.Context, tx pg.Tx, d row, a chain.Address) (wallet.Wallet, bool, error) {
	ours, err := wallet.Known(ctx, tx, d.chain.Family(), []chain.Address{a})
	if err != nil {
		return wallet.Wallet{}, false, err
	}
	w, is := ours[a]
	return w, is, nil
}

// plain tells whether a text of a person's is short and printable.
func plain(s string) bool {
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

// decidedBy is the audit row of what somebody did about a flagged deposit.
func decidedBy(d row, by Decider, verb string, detail map[string]string) audit.Entry {
	return audit.Entry{OrgID: d.orgID, Actor: by.Actor, Action: "deposit." + verb, ResourceKind: resourceKind, ResourceID: d.id, Detail: detail}
}

// released is the posting that ends the hold of a flagged deposit.
func released(d row) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.DepositRelease, ID: d.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Suspense},
			Credit: ledger.Account{OrgID: d.orgID, MintID: *d.mintID, Kind: ledger.Custody}, Amount: d.amount,
		}},
	}
}

// tell tells the organization of a flagged deposit, when it is one that is told of this.
func (r *Resolutions) tell(ctx context.Context, tx pg.Tx, d row, of event.Type) error {
	if d.told(of) == "" {
		return nil
	}
	return tell(ctx, tx, []row{d}, byID, func(d row) event.Type { return d.told(of) })
}
