package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	orgs "github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const reasonRunesMax = 500

// row is what the verbs need of a withdrawal that exists.
type row struct {
	id      string
	owner   owner
	mintID  int
	chain   chain.Name
	amount  money.Amount
	to      chain.Address
	key     *string
	status  Status
	txHash  *string
	reasons []Reason

	deducts  bool          // its customer pays the fee,
	deducted *money.Amount // this much of it: nil until the payment is ordered
	feeMax   *money.Amount // the caller's limit of the fee

	ending *ending // how people ended it, while the signer has not voided it yet
	void   bool    // it was taken back and is never paid

	required int    // approvals that it needs; 0: it was never held, or before they were counted
	round    int    // how often it was sent back to people
	mac      []byte // of the words that it was requested with

	charge  charge
	charged money.Amount // what its customer was charged by its end

	costMax *money.Amount // the most that the network would have taken when it was requested; nil: not known
}

// terms are the words that people approve.
func (r row) terms(org string, m mint.Mint) signer.Terms {
	t := signer.Terms{
		OrgID: org, WithdrawalID: r.id, Chain: r.chain, MintID: r.mintID, Contract: m.Contract, To: r.to, Amount: r.amount,
		FeeMode: parsed{deducts: r.deducts}.feeMode(), Product: r.owner.product, WhitelistedID: r.owner.listedID,
	}
	if r.feeMax != nil {
		t.FeeMax = *r.feeMax
	}
	return t
}

// asked is what the gates are asked about: what a customer pays, and what the
// destination of an organization's own receives.
func (r row) asked() money.Amount {
	if r.owner.product != "" {
		return r.pays()
	}
	return r.amount
}

// pays is what its order pays: the amount less the fee that comes out of it.
func (r row) pays() money.Amount {
	if r.deducted == nil {
		return r.amount
	}
	return less(r.amount, *r.deducted)
}

func find(ctx context.Context, tx pg.Tx, org, withdrawalID string) (row, error) {
	return read(ctx, tx, org, withdrawalID, "")
}

// locked is find under the row's lock.
func locked(ctx context.Context, tx pg.Tx, org, withdrawalID string) (row, error) {
	return read(ctx, tx, org, withdrawalID, " FOR NO KEY UPDATE")
}

func read(ctx context.Context, tx pg.Tx, org, withdrawalID, lock string) (row, error) {
	r := row{id: withdrawalID}
	if !id.Is("wd", withdrawalID) {
		return r, notFound()
	}
	var e ending
	err := tx.QueryRow(ctx, `
		SELECT coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), mint_id, chain, amount, to_address, idempotency_key, status, tx_hash, approval_reasons,
			fee_mode = 'DEDUCTED', fee_deducted, max_network_fee, approvals_required, approval_round, request_mac, cost_max,
			charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price, charged,
			coalesce(ends_as, ''), coalesce(ends_note, ''), coalesce(ends_by_kind, ''), coalesce(ends_by, ''), EXISTS (SELECT FROM dispatch_voids WHERE order_id = withdrawal_id)
		FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2`+lock, org, withdrawalID).
		Scan(&r.owner.customerID, &r.owner.product, &r.owner.listedID, &r.mintID, &r.chain, &r.amount, &r.to, &r.key, &r.status, &r.txHash, &r.reasons,
			&r.deducts, &r.deducted, &r.feeMax, &r.required, &r.round, &r.mac, &r.costMax,
			&r.charge.rent, &r.charge.held, &r.charge.failureMax, &r.charge.coinPrice, &r.charge.mintPrice, &r.charged,
			&e.as, &e.note, &e.by.Kind, &e.by.ID, &r.void)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, notFound()
	}
	if err != nil {
		return r, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	if e.as != "" {
		r.ending = &e
	}
	return r, nil
}

func notFound() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound,
		"Your organization has no withdrawal with this id. No money was touched. GET /withdrawals lists the ones there are.")
}

// invalidState is what the loser of a race hears, and everyone who comes late.
func invalidState(act string, now Status) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"Only a withdrawal that is AWAITING_APPROVAL can be %s, and this one is %s. This call changed nothing and moved no money. GET /withdrawals/{withdrawalId} shows how it stands.", act, now).
		Beside("currentStatus", string(now))
}

// underWay is what a person hears who would end a withdrawal that does not wait any more.
func underWay(act string) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"Only a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and waits before anything of it is signed, can be %s. This one is on its way. This call changed nothing and moved no money. GET /withdrawals/{withdrawalId} shows how it stands.", act).
		Beside("currentStatus", string(Processing))
}

// takenBack is the answer about a withdrawal that people took back and that still has its hold.
func takenBack() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"This withdrawal was taken back and is never paid; the amount is held until it is ended. This call changed nothing and moved no money. GET /withdrawals/{withdrawalId} shows how it stands.").
		Beside("currentStatus", string(AwaitingApproval))
}

// Approve is a person's approval of a held withdrawal, for the same amount to the same
// address. With the last that it needs it is ordered, and a fee that comes out of the
// amount is decided. What may have changed for the worse is asked again; when that
// refuses, the withdrawal stays as it was. Errors: faults NOT_FOUND, INVALID_STATE, also
// for a person's second approval, CUSTOMER_FROZEN, ORGANIZATION_FROZEN,
// WITHDRAWALS_SUSPENDED, APPROVAL_REFUSED, UNAVAILABLE.
func (s *Service) Approve(ctx context.Context, org, withdrawalID string, actor audit.Actor) (webhook.Withdrawal, error) {
	return s.ApproveSeen(ctx, org, withdrawalID, actor, "")
}

// ApproveSeen is Approve by a person who saw the words of this digest (Shown); "" is
// for whoever saw what is read now.
func (s *Service) ApproveSeen(ctx context.Context, org, withdrawalID string, actor audit.Actor, seen string) (webhook.Withdrawal, error) {
	var none, approved webhook.Withdrawal
	var r row
	f := facts{}
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if r, err = find(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		if r.status != AwaitingApproval {
			return invalidState("approved", r.status)
		}
		if r.void {
			return takenBack()
		}
		f.mint, err = mintOf(ctx, tx, r)
		return err
	})
	if err != nil {
		return none, err
	}
	if digest := r.terms(org, f.mint).Digest(); seen == "" {
		seen = digest
	} else if seen != digest {
		return none, changed()
	}
	_, f.chainRuns = s.Chains[r.chain]
	f.owner, f.amount, f.destination = r.owner, r.asked(), r.to
	// What was deducted once stays: the order has its amount for ever.
	f.deducts, f.feeMax = r.deducts && r.deducted == nil, r.feeMax
	if r.owner.product == "" {
		f.kept = r.deducted
	}
	f.costs = costs{known: true, except: r.id, most: r.costMax}
	if _, err := s.outside(ctx, org, &f, f.deducts); err != nil {
		return none, err
	}
	if s.Risk.Configured() {
		f.screen.Case.Answer = s.Risk.Ask(ctx, f.screen.Case.Subject)
	}
	treasury, err := s.treasury(ctx, org, r.chain)
	if err != nil {
		return none, err
	}
	crash.Point("A01")
	var doubt error
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		doubt = nil
		if err := orgs.HoldSettings(ctx, tx, org); err != nil {
			return err
		}
		now := f
		if err := s.current(ctx, tx, org, &now); err != nil {
			return err
		}
		held, err := locked(ctx, tx, org, r.id)
		if err != nil {
			return err
		}
		if held.status != AwaitingApproval {
			return invalidState("approved", held.status)
		}
		if held.void {
			return takenBack()
		}
		terms := held.terms(org, now.mint)
		if terms.Digest() != seen || !s.Grants.Requested(terms, held.required, held.mac) {
			return changed()
		}
		asked, found, refusal := recheck(now, held.reasons)
		if len(found) > 0 {
			doubt = refusal
			return s.doubt(ctx, tx, org, held, now, asked, found, actor)
		}
		if refusal != nil {
			return refusal
		}
		approved, err = s.approve(ctx, tx, org, held, now, asked, actor, treasury)
		if err != nil {
			return err
		}
		crash.Committing("A02")
		return nil
	})
	if err == nil {
		err = doubt
	}
	if err != nil {
		return none, err
	}
	crash.Point("A02")
	return approved, nil
}

// approve adds an approval, and orders the payment when that is enough. The row is
// locked: of several at once each sees those before it.
func (s *Service) approve(ctx context.Context, tx pg.Tx, org string, r row, f facts, asked []Step, actor audit.Actor, treasury wallet.Wallet) (webhook.Withdrawal, error) {
	var none webhook.Withdrawal
	terms := r.terms(org, f.mint)
	own := s.Grants.Approve(terms, r.round, approver(actor))
	_, err := tx.Exec(ctx, `
		INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, org, r.id, r.round, actor.Kind, actor.ID, tx.Now, terms.Digest(), own.MAC)
	switch {
	case pg.Violates(err, "withdrawal_approvals_pkey"):
		return none, fault.New(fault.Conflict, fault.InvalidState,
			"You have approved this withdrawal already, and a person counts once. This call changed nothing and moved no money. Somebody else has to approve it, too.").
			Beside("currentStatus", string(AwaitingApproval))
	case pg.Violates(err, "withdrawal_approvals_not_by_maker"), pg.Violates(err, "withdrawal_approvals_by_people"):
		return none, fault.New(fault.Conflict, fault.ApprovalRefused,
			"Whoever asked for a withdrawal cannot approve it, and only people can. Nothing was sent; the withdrawal still waits and the amount is still held. Somebody else has to approve it.")
	case err != nil:
		return none, fmt.Errorf("approve withdrawal %s: %w", r.id, err)
	}
	all, err := s.approvals(ctx, tx, org, r)
	if err != nil {
		return none, err
	}
	required := r.required
	if required == 0 { // held before approvals were counted
		required = f.quorum
	}
	detail := map[string]any{"reasons": r.reasons, "amount": r.amount, "toAddress": r.to, "digest": terms.Digest(), "round": r.round, "approvals": len(all), "required": required}
	if len(all) < required {
		if _, err := tx.Exec(ctx, `UPDATE withdrawals SET approvals_required = $3, screening = $4 WHERE org_id = $1 AND withdrawal_id = $2`,
			org, r.id, required, shownOf(f.screen.Decision)); err != nil {
			return none, fmt.Errorf("approve withdrawal %s: %w", r.id, err)
		}
		w, err := Object(ctx, tx, org, r.id)
		if err != nil {
			return none, err
		}
		return w, remember(ctx, tx, org, Decided{withdrawalID: r.id, Act: Added, Status: AwaitingApproval, Gates: asked, Actor: actor, Risk: &f.screen},
			"withdrawal.approval_added", detail)
	}
	if fee := f.deducted(); fee != nil {
		r.deducted = fee
	}
	err = become(ctx, tx, org, r.id, AwaitingApproval, Processing, "approved_at = $5, fee_deducted = $6, screening = $7, approvals_required = $8, cost_price = coalesce($9, cost_price)",
		tx.Now, r.deducted, shownOf(f.screen.Decision), required, f.costs.price())
	if err != nil {
		return none, err
	}
	if err := dispatch.Place(ctx, tx, s.order(org, r, f.mint, treasury, required, all)); err != nil {
		return none, err
	}
	w, err := Object(ctx, tx, org, r.id)
	if err != nil {
		return none, err
	}
	if err := tell(ctx, tx, org, move(AwaitingApproval, Processing), w); err != nil {
		return none, err
	}
	return w, remember(ctx, tx, org, Decided{withdrawalID: r.id, Act: Approved, Status: Processing, Gates: asked, Actor: actor, Risk: &f.screen},
		"withdrawal.approved", detail)
}

// approver names a person among those who approve.
func approver(a audit.Actor) string { return string(a.Kind) + " " + a.ID }

// approvals are those of the round that a withdrawal is in.
func (s *Service) approvals(ctx context.Context, tx pg.Tx, org string, r row) ([]signer.Approval, error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac FROM withdrawal_approvals
		WHERE org_id = $1 AND withdrawal_id = $2 AND round = $3 ORDER BY at, approver_kind, approver_id`, org, r.id, r.round)
	if err != nil {
		return nil, fmt.Errorf("read the approvals of %s: %w", r.id, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signer.Approval])
	if err != nil {
		return nil, fmt.Errorf("read the approvals of %s: %w", r.id, err)
	}
	return all, nil
}

// Shown is the digest of the words of a withdrawal as they are now, for whoever shows
// them to a person who approves. Error: fault NOT_FOUND.
func (s *Service) Shown(ctx context.Context, org, withdrawalID string) (digest string, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		r, err := find(ctx, tx, org, withdrawalID)
		if err != nil {
			return err
		}
		m, err := mintOf(ctx, tx, r)
		digest = r.terms(org, m).Digest()
		return err
	})
	return digest, err
}

func mintOf(ctx context.Context, tx pg.Tx, r row) (mint.Mint, error) {
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return mint.Mint{}, err
	}
	m, ok := mints.ByID(r.mintID)
	if !ok {
		return m, fmt.Errorf("mint %d has left the catalogue", r.mintID)
	}
	return m, nil
}

// changed is the answer where the words are not those that were shown or requested.
func changed() *fault.Fault {
	return fault.New(fault.Conflict, fault.ApprovalRefused,
		"The words of this withdrawal are not those that were shown or that it was requested with, or it was requested before this was written down. Nothing was sent; the withdrawal still waits and the amount is still held. Look at it again; if this stays, remove it and find out who changed it.")
}

// doubt leaves a withdrawal where it is, with what was found when it was to be
// approved, for everybody to see.
func (s *Service) doubt(ctx context.Context, tx pg.Tx, org string, r row, f facts, asked []Step, found []Reason, actor audit.Actor) error {
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET screening = $3,
			approval_reasons = approval_reasons || ARRAY(SELECT n FROM unnest($4::text[]) WITH ORDINALITY AS found (n, i) WHERE n <> ALL (approval_reasons) ORDER BY i)
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = 'AWAITING_APPROVAL'`, org, r.id, shownOf(f.screen.Decision), found)
	if err != nil {
		return fmt.Errorf("keep what was found about withdrawal %s: %w", r.id, err)
	}
	if tag.RowsAffected() != 1 {
		return s.late(ctx, tx, org, r.id, "approved")
	}
	return remember(ctx, tx, org, Decided{
		withdrawalID: r.id, Act: Doubted, Status: AwaitingApproval, Reasons: found, Gates: asked, Actor: actor, Risk: &f.screen,
	}, "withdrawal.approval_refused", map[string]any{"reasons": found, "amount": r.amount, "toAddress": r.to})
}

// Remove ends a withdrawal that is held, or that waits without a slot: the amount is the
// customer's to spend again.
// The reason is shown as rejectedReason and may be empty. Errors: faults
// NOT_FOUND, INVALID_STATE, INVALID_REQUEST, UNAVAILABLE when the signer has to void it and
// does not answer: then it is taken back as soon as it does.
func (s *Service) Remove(ctx context.Context, org, withdrawalID string, actor audit.Actor, reason string) (webhook.Withdrawal, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !plain(reason) {
		return webhook.Withdrawal{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A reason has at most %d characters of text. The withdrawal still waits and the amount is still held. Shorten the reason.", reasonRunesMax).On("reason")
	}
	return s.giveUp(ctx, org, withdrawalID, ending{as: Rejected, note: reason, by: actor})
}

// Cancel takes a withdrawal back that is held, or that waits without a slot: the amount is
// the customer's to spend again. Errors: faults NOT_FOUND, INVALID_STATE, also for one that
// is cancelled already, and UNAVAILABLE as Remove.
func (s *Service) Cancel(ctx context.Context, org, withdrawalID string, actor audit.Actor) (webhook.Withdrawal, error) {
	return s.giveUp(ctx, org, withdrawalID, ending{as: Cancelled, by: actor})
}

// ending is how people end a withdrawal that is held, or that waits without a slot.
type ending struct {
	as   Status
	note string
	by   audit.Actor
}

// verb is what somebody did who ends a withdrawal so.
func (e ending) verb() string {
	if e.as == Rejected {
		return "removed"
	}
	return "cancelled"
}

// giveUp ends a withdrawal that is held, or whose order waits without a slot, and gives its
// hold back, once. One that was let go has a grant: it is taken back first and keeps its hold
// until the signer has voided it.
func (s *Service) giveUp(ctx context.Context, org, withdrawalID string, e ending) (w webhook.Withdrawal, err error) {
	var waits, others bool
	begin := func(ctx context.Context, tx pg.Tx) error {
		waits, others = false, false
		r, err := s.endable(ctx, tx, org, withdrawalID, e.verb())
		if err != nil {
			return err
		}
		if others = r.ending != nil; others {
			return nil
		}
		void, err := dispatch.VoidOf(ctx, tx, r.id)
		if err != nil {
			return err
		}
		if waits = void == dispatch.NotVoided; !waits {
			w, err = s.end(ctx, tx, org, r, e)
			return err
		}
		if err := takeBack(ctx, tx, r.id); err != nil {
			return err
		}
		if err := intend(ctx, tx, org, r.id, r.status, e); err != nil {
			return err
		}
		crash.Committing("V01")
		return nil
	}
	if err = s.DB.InOrg(ctx, org, begin); errors.Is(err, errSentBack) {
		err = s.DB.InOrg(ctx, org, begin)
	}
	if errors.Is(err, errSentBack) {
		err = underWay(e.verb()) // it was let go again since
	}
	if err != nil || !waits && !others {
		return w, err
	}
	crash.Point("V01")
	if err := s.Voids.Finish(ctx, withdrawalID); err != nil {
		return w, endUnread(ctx, err)
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if others {
			return s.late(ctx, tx, org, withdrawalID, e.verb())
		}
		w, err = Object(ctx, tx, org, withdrawalID)
		return err
	})
	if err != nil && fault.Of(err) == nil {
		return webhook.Withdrawal{}, endUnread(ctx, err)
	}
	return w, err
}

// endUnread is the answer about a withdrawal that is taken back and whose end could not be
// written or read.
func endUnread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable,
		"The withdrawal is taken back: it will not be paid and cannot be approved any more. The signer or the database did not answer when its end was written down, so the amount may still be held. It is given back once, as soon as both answer, without another call; GET /withdrawals/{withdrawalId} shows it.")
}

// errSentBack says that a withdrawal which waited was sent back to people since it was read.
var errSentBack = errors.New("the withdrawal was sent back to people")

// endable reads, under its lock, a withdrawal that people can end. Also one whose end is
// decided, which has ending. Error: errSentBack, after which it can be asked again.
func (s *Service) endable(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) (row, error) {
	r, err := find(ctx, tx, org, withdrawalID)
	if err != nil {
		return r, err
	}
	if r.status == Processing && r.ending == nil {
		// An order that is in the queue is dispatch's, and so is the order of the locks. Of
		// ending it and giving it a slot the one that comes first wins.
		waits, err := dispatch.LockWaiting(ctx, tx, r.id)
		if err != nil {
			return r, err
		}
		if waits {
			return locked(ctx, tx, org, withdrawalID)
		}
		// Its row stays unlocked: the order is locked, and in what is held the row comes first.
		if r, err = find(ctx, tx, org, withdrawalID); err != nil {
			return r, err
		}
		if r.status == AwaitingApproval {
			return r, errSentBack
		}
	} else if r.status == AwaitingApproval {
		if r, err = locked(ctx, tx, org, withdrawalID); err != nil {
			return r, err
		}
	}
	switch {
	case r.status == AwaitingApproval, r.status == Processing && r.ending != nil:
		return r, nil
	case r.status == Processing:
		return r, underWay(act)
	}
	return r, invalidState(act, r.status)
}

// intend writes down how a withdrawal ends once the signer has voided it.
func intend(ctx context.Context, tx pg.Tx, org, withdrawalID string, from Status, e ending) error {
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET ends_as = $3, ends_note = nullif($4, ''), ends_by_kind = $5, ends_by = $6
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = $7 AND ends_as IS NULL`,
		org, withdrawalID, e.as, e.note, e.by.Kind, e.by.ID, from)
	if err != nil {
		return fmt.Errorf("take withdrawal %s back: %w", withdrawalID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("take withdrawal %s back: %w", withdrawalID, errLost)
	}
	return nil
}

// Voided implements dispatch.VoidListener: what people took back ends as they said. One that
// only a restored journal has as void waits for a person.
func (s *Service) Voided(ctx context.Context, tx pg.Tx, org, withdrawalID string) error {
	r, err := locked(ctx, tx, org, withdrawalID)
	if err != nil || r.ending == nil {
		return err
	}
	_, err = s.end(ctx, tx, org, r, *r.ending)
	return err
}

// end ends a withdrawal that has no slot and gives its hold back. The row is locked.
func (s *Service) end(ctx context.Context, tx pg.Tx, org string, r row, e ending) (webhook.Withdrawal, error) {
	var none webhook.Withdrawal
	set, args := "", []any(nil)
	d := Decided{withdrawalID: r.id, Act: Retracted, Status: e.as, Actor: e.by}
	detail := map[string]any{"amount": r.amount.String()}
	if e.as == Rejected {
		set, args = "rejected_reason = nullif($5, '')", []any{e.note}
		d.Act, d.Note, detail["reason"] = Removed, e.note, e.note
	}
	if err := become(ctx, tx, org, r.id, r.status, e.as, set, args...); err != nil {
		return none, err
	}
	if err := ledger.Post(ctx, tx, release(org, r)...); err != nil {
		return none, fmt.Errorf("release the hold of %s: %w", r.id, err)
	}
	w, err := Object(ctx, tx, org, r.id)
	if err != nil {
		return none, err
	}
	if err := tell(ctx, tx, org, move(r.status, e.as), w); err != nil {
		return none, err
	}
	return w, remember(ctx, tx, org, d, "withdrawal."+e.verb(), detail)
}

// takeBack ends the order of a withdrawal that was let go. Where it was sent back to people,
// the row is locked before the order here and in Approve, the other way round than in
// dispatch: no circle, because dispatch lets go of an order it refused and takes it up again
// only when it is placed again.
func takeBack(ctx context.Context, tx pg.Tx, withdrawalID string) error {
	if _, err := dispatch.Withdraw(ctx, tx, withdrawalID); err != nil {
		return err
	}
	var alive bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1 AND status <> 'WITHDRAWN')`,
		withdrawalID).Scan(&alive)
	if err != nil {
		return fmt.Errorf("order of %s: %w", withdrawalID, err)
	}
	if alive {
		return fmt.Errorf("withdrawal %s waits for approval and its order is under way: the hold stays", withdrawalID)
	}
	return nil
}

// late is what the loser of a race hears: read again, because the winner has
// committed by the time that the compare-and-swap lost.
func (s *Service) late(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) error {
	r, err := find(ctx, tx, org, withdrawalID)
	if err != nil {
		return err
	}
	return invalidState(act, r.status)
}

// order is the order of a payment that was let go: by nobody where none had to, else
// by these.
func (s *Service) order(org string, r row, m mint.Mint, treasury wallet.Wallet, required int, by []signer.Approval) dispatch.Order {
	o := dispatch.Order{
		ID: r.id, OrgID: org, Purpose: signer.Payment, Chain: r.chain, WalletID: treasury.ID,
		To: r.to, MintID: r.mintID, Contract: m.Contract, Amount: r.pays(),
		CustomerID: r.owner.customerID, Product: r.owner.product, WhitelistedID: r.owner.listedID, KeyHash: keyHash(r.key), FeeMax: r.feeMax,
	}
	if r.deducted != nil {
		o.FeeDeducted = *r.deducted
	}
	o.Grant = s.Grants.Grant(r.terms(org, m), o.FeeDeducted, r.round, required, by)
	return o
}

// release gives a hold back, less what its customer was charged; none when that is all. It
// has the same cause as the settlement, so that a hold cannot end twice.
func release(org string, r row) []ledger.Posting {
	all, err := r.amount.Add(r.charge.held)
	if err != nil {
		panic("withdrawal: a hold of more than any amount can be")
	}
	if all = less(all, r.charged); all.IsZero() {
		return nil
	}
	return []ledger.Posting{end(org, r, r.owner.spends(org, r.mintID), all)}
}

// settle ends a hold by what left our custody.
func settle(org string, r row) ledger.Posting {
	return end(org, r, ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Custody}, r.amount)
}

// kept is the fee that was held of a payment that was made: a customer's is the
// organization's own, which is billed what the network took. What the organization itself
// held for it is the operator's gas from now on, and is taken off that bill. nil without
// one.
func kept(org string, r row) []ledger.Posting {
	if r.deducted == nil || r.deducted.IsZero() {
		return nil
	}
	if r.owner.product != "" {
		one := func(kind ledger.CauseKind, debit, credit ledger.Kind) ledger.Posting {
			return ledger.Posting{
				Cause: ledger.Cause{Kind: kind, ID: r.id},
				Legs: []ledger.Leg{{
					Debit:  ledger.Account{OrgID: org, MintID: r.mintID, Kind: debit},
					Credit: ledger.Account{OrgID: org, MintID: r.mintID, Kind: credit},
					Amount: *r.deducted,
				}},
			}
		}
		return []ledger.Posting{
			one(ledger.WithdrawalFee, ledger.Custody, ledger.Gas),
			one(ledger.FeePrepaid, ledger.FeesBilled, ledger.FeesDue),
		}
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalFee, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Custody},
			Credit: ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Product, Subject: feeProduct},
			Amount: *r.deducted,
		}},
	}}
}

// feeProduct is the product whose balance receives what customers pay of fees.
const feeProduct = "CUSTODIAL"

func end(org string, r row, to ledger.Account, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  r.owner.holds(org, r.mintID),
			Credit: to,
			Amount: amount,
		}},
	}
}
