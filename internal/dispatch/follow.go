package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
)

// followSlots takes a wallet's slots a step forward. It signs what is committed, broadcasts what is
// stored, settles what is final, and replaces what pays too low a fee. The slots come by nonce and
// none is skipped, because a gap would hold up the rest.
//
// It returns the account's state, or nil after an error or a change.
func (d *Worker) followSlots(
	ctx context.Context, payer wallet.Wallet, open []slot,
) (acct *chain.Account, busy bool, err error) {
	// A signer that refuses or does not answer stops new bytes. Transactions that were sent are
	// followed all the same: a block may contain them, and their end must not wait.
	var signErr error
	for i := range open {
		signed, err := d.signSlot(ctx, payer, &open[i])
		busy = busy || signed
		var refusal *signer.Refusal
		switch {
		case errors.Is(err, errLostRace):
			return nil, busy, err
		case errors.As(err, &refusal):
			filled, err := d.handleSignerRefusal(ctx, payer, open[i], refusal)
			if err != nil || filled {
				return nil, busy || filled, err // the rows changed
			}
		case err != nil:
			signErr = err
		}
		if signErr != nil {
			break
		}
		if open[i].isSequential() && len(open[i].signedHashes()) == 0 {
			// No later slot is signed before this one. So the journal has no nonce without all
			// those below it, whichever backup of the database it meets.
			break
		}
	}
	if _, err := d.reserveRestored(ctx, payer, open); err != nil {
		return nil, busy, err
	}
	acct, moved, err := d.followSigned(ctx, payer, open)
	return acct, busy || moved, errors.Join(signErr, err)
}

// followSigned takes the signed slots a step forward, up to the first unsigned slot that later ones
// depend on.
func (d *Worker) followSigned(
	ctx context.Context, payer wallet.Wallet, open []slot,
) (_ *chain.Account, busy bool, err error) {
	acct, err := d.chain.Sender.Account(ctx, payer.Address, chainSlots(open)...)
	if err != nil {
		return nil, busy, fmt.Errorf("%w: %w", errNoAccountState, err)
	}
	if err := d.guardNonce(ctx, payer, acct); err != nil {
		return nil, busy, err
	}
	known, err := d.horizon(ctx)
	if err != nil {
		return nil, busy, err
	}
	pushed := 0
	for _, s := range open {
		if len(s.signedHashes()) == 0 { // frozen or refused before it was signed
			if s.isSequential() {
				return &acct, busy, nil
			}
			continue
		}
		var moved bool
		if used, _ := acct.IsUsed(s.ChainSlot); used || s.Purpose == signer.CreateNonceAccount {
			if in, ok := d.seen(s.ID); ok && used && known.holds(in) {
				continue
			}
			moved, err = d.settleSlot(ctx, payer, s, acct)
		} else {
			// A reorg may have taken back what had used its slot.
			d.see(s.ID, nil)
			if pushed++; s.isSequential() && pushed > d.conf.UnminedMax {
				// A reorg returned more transactions than a mempool keeps. The earlier ones go
				// first.
				continue
			}
			if err = d.noteMissing(ctx, s, nil); err == nil {
				moved, err = d.resendOrBump(ctx, payer, s, acct.IsNext(s.ChainSlot))
			}
		}
		busy = busy || moved
		if errors.Is(err, errLostRace) {
			return nil, true, nil // the caller reads the rows again
		}
		if err != nil {
			return nil, busy, fmt.Errorf("order %s: %w", s.ID, err)
		}
	}
	return &acct, busy, nil
}

// signSlot has the signer sign every committed transaction of a slot and stores the bytes. A
// repeated request returns the same bytes.
func (d *Worker) signSlot(ctx context.Context, payer wallet.Wallet, s *slot) (busy bool, err error) {
	for i, attempt := range s.Attempts {
		if attempt.Raw != nil || s.isSuperseded(attempt) {
			continue
		}
		var reason string
		err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			reason, err = d.freezeReason(ctx, tx, s.ordersToFreeze()...)
			return err
		})
		if err != nil {
			return busy, err
		}
		if reason != "" {
			return busy, nil
		}
		if err := d.proveSlot(ctx, payer, s); err != nil {
			return busy, err
		}
		hitBeforeSign(s.Order)
		signed, err := d.signer.Sign(ctx, signer.SignRequest{
			IntentID: s.ID, TxMemberIDs: s.memberIDs(), Slot: s.ChainSlot, Act: attempt.Act, Payload: attempt.Payload,
			Proof: s.Proof,
		})
		if err != nil {
			return busy, fmt.Errorf("sign attempt %d of order %s: %w", attempt.Version, s.ID, err)
		}
		hitAfterSign(attempt)
		if err := d.storeSigned(ctx, *s, attempt, signed); err != nil {
			return busy, err
		}
		failpoint.Hit("W13")
		hitAfterStore(s.Order)
		s.Attempts[i].Raw, s.Attempts[i].Hash = signed.Raw, signed.Hash
		if s.Status == Slotted {
			s.Status = Signed
			for j := range s.TxMembers {
				s.TxMembers[j].Status = Signed
			}
		}
		busy = true
	}
	return busy, nil
}

// storeSigned stores the signed bytes before anything may send them.
func (d *Worker) storeSigned(ctx context.Context, s slot, attempt attempt, signed signer.SignedTx) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET raw = $3, tx_hash = $4, signed_at = $5
			WHERE order_id = $1 AND version = $2 AND raw IS NULL`,
			s.ID, attempt.Version, signed.Raw, signed.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("store attempt %d of order %s: %w", attempt.Version, s.ID, err)
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("store attempt %d of order %s: %w", attempt.Version, s.ID, errLostRace)
		}
		if orders[0].Status == Slotted {
			if err := setStatuses(ctx, tx, orderIDs(orders), Slotted, Signed, ""); err != nil {
				return err
			}
		}
		if attempt.Act == signer.Pay {
			// The reason for a cancel stays on the order; the reason why a signature waited does
			// not.
			if _, err := tx.Exec(
				ctx,
				`UPDATE dispatch_orders SET last_error = NULL WHERE order_id = ANY ($1) AND last_error IS NOT NULL`,
				orderIDs(orders),
			); err != nil {
				return fmt.Errorf("clear the wait reason of order %s: %w", s.ID, err)
			}
		}
		if err := d.mirror(ctx, tx, signed.Entry); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("W13")
		return nil
	})
}

// handleSignerRefusal handles a transaction that the signer refuses in a slot. A payment that was
// never signed and that the policy no longer allows can only be ended by a cancel in its slot,
// because the signer gives an intent one slot, forever. After every other refusal the slot waits
// and an alarm is raised; time, a new policy or a person ends the wait.
func (d *Worker) handleSignerRefusal(
	ctx context.Context, payer wallet.Wallet, s slot, refusal *signer.Refusal,
) (filled bool, err error) {
	message := "the signer refuses to sign in a slot: later transactions of this wallet wait"
	switch {
	case len(s.signedHashes()) > 0:
		message = "the signer refuses a replacement" // the transaction that it would replace can still be mined
	case refusal.Code == signer.RefusedSlot:
		// The journal records something else for this nonce. A database as recent as the journal
		// would know it.
		if err := d.freezeAll(
			ctx,
			refusal.Message+"; the database is older than the signer's journal: stop the service, restore the backup again and run `coffer signer import`",
		); err != nil {
			return false, err
		}
	case s.Purpose == signer.CreateNonceAccount: // no cancel can take such a slot, and it holds up nothing
	case s.Purpose == signer.Consolidate: // a cancel would be the same transaction
	case refusal.Code == signer.PolicyLimit || refusal.Code == signer.RefusedFee:
		if filled, err = d.cancelSlot(ctx, payer, s, refusal); filled || err != nil {
			return filled, err
		}
	}
	d.raiseAlarm(
		ctx, s.ID, message, "order", s.ID, "wallet", payer.ID, "slot", s.ChainSlot.String(), "code", refusal.Code,
		"why", refusal.Message,
	)
	return false, d.noteError(ctx, s, refusal.Error())
}

// cancelSlot commits a cancel to a slot whose payment was never signed and never will be. If the
// signer refuses the cancel for its fee as well, cancelSlot makes a new one once fees have fallen.
func (d *Worker) cancelSlot(ctx context.Context, payer wallet.Wallet, s slot, refusal *signer.Refusal) (bool, error) {
	last := s.newestAttempt()
	isRetry := last.Act == signer.Cancel
	if s.FundsPending || isRetry &&
		(refusal.Code != signer.RefusedFee || d.db.Clock()().Sub(last.CreatedAt) < d.conf.BumpAfter) {
		return false, nil
	}
	fees, err := d.chain.Sender.Quote(ctx, chain.Payment{From: payer.Address, To: payer.Address})
	if err != nil {
		return false, d.noteError(ctx, s, fmt.Sprintf("%v; and its slot cannot be cancelled yet: %v", refusal, err))
	}
	cost, err := fees.Max()
	if err != nil {
		return false, fmt.Errorf("fee of a cancel of order %s: %w", s.ID, err)
	}
	if lastCost, err := last.Fees.Max(); isRetry && (err != nil || !cost.Less(lastCost)) {
		return false, nil
	}
	err = d.commitAttempt(ctx, payer, s, signer.Cancel, fees, replacementRequest{
		reason: reasonRefusal, actor: systemActor, note: refusal.Error(),
	})
	if errors.Is(err, wallet.ErrInsufficient) {
		return false, nil
	}
	if err == nil {
		d.log.Error(
			"the signer's policy does not allow a payment any more: its slot is cancelled and the payment fails",
			"order", s.ID,
			"code", refusal.Code, "why", refusal.Message,
		)
	}
	return err == nil, err
}

// noteError stores with the open orders of a slot what they wait for, where a person looks.
func (d *Worker) noteError(ctx context.Context, s slot, detail string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_orders SET last_error = $2
			WHERE order_id = ANY ($1) AND status IN ('SLOTTED', 'SIGNED', 'BROADCAST') AND last_error IS DISTINCT FROM $2`,
			orderIDs(orders), truncateError(detail))
		if err != nil {
			return fmt.Errorf("record the wait reason of order %s: %w", s.ID, err)
		}
		return nil
	})
}

// guardNonce freezes a wallet whose account has used a nonce that Coffer never assigned. Either a
// third party signs with its key, or this database is older than the chain.
func (d *Worker) guardNonce(ctx context.Context, payer wallet.Wallet, acct chain.Account) error {
	var nextNonce uint64
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx, `SELECT next_nonce FROM dispatch_accounts WHERE wallet_id = $1 AND chain = $2`, payer.ID, d.chain.Name,
		).Scan(&nextNonce)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the next nonce: %w", err)
	}
	if acct.KeyedSlots || acct.Latest <= nextNonce { // the use of a keyed slot is noticed by the order that has it
		return nil
	}
	return d.freezeWallet(
		ctx, payer,
		fmt.Sprintf(
			"the chain is at nonce %d, and no order of this installation has a nonce above %d",
			acct.Latest, nextNonce,
		),
	)
}

func (d *Worker) freezeWallet(ctx context.Context, payer wallet.Wallet, reason string) error {
	d.log.Error(
		"wallet frozen: a transaction of another program used its key", "wallet", payer.ID,
		"address", string(payer.Address), "why", reason,
	)
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, d.newWalletFreeze(payer, reason))
	})
	if err != nil {
		return fmt.Errorf("freeze wallet %s: %w", payer.ID, err)
	}
	return nil
}

// newWalletFreeze returns a freeze of a wallet with this package as its source.
func (d *Worker) newWalletFreeze(target wallet.Wallet, reason string) freeze.Freeze {
	return freeze.Freeze{
		Scope: freeze.ScopeWallet, OrgID: target.OrgID, WalletID: target.ID, Chain: d.chain.Name,
		Source: freeze.SourceDispatch, Reason: reason,
	}
}

// resendOrBump resends a slot's newest signed bytes when they are due. It adds a replacement with a
// higher fee if they waited too long as the first unmined transaction of the wallet.
func (d *Worker) resendOrBump(ctx context.Context, payer wallet.Wallet, s slot, isHead bool) (busy bool, err error) {
	now := d.db.Clock()()
	attempt := s.newestSigned()
	if isHead && !s.FundsPending && attempt.Version == s.newestAttempt().Version && attempt.SentAt != nil &&
		now.Sub(*attempt.SentAt) >= d.conf.BumpAfter {
		shouldBump := true
		if s.Purpose == signer.Consolidate {
			if shouldBump, err = d.delaysPayments(ctx, s); err != nil {
				return false, err
			}
		}
		// Whether or not the replacement succeeds, the stored bytes are sent again.
		if shouldBump {
			busy, err = d.bumpHead(ctx, payer, s)
		}
		if errors.Is(err, errLostRace) {
			return busy, err
		}
	}
	if busy || sinceLastSend(now, attempt) < d.conf.ResendAfter {
		return busy, err
	}
	sent, sendErr := d.sendAttempt(ctx, s, attempt)
	return sent, errors.Join(err, sendErr)
}

// sendAttempt sends stored bytes to the providers. Only the answers Accepted and Known change the
// order; after any other answer it stays as it is and is sent again. Rule OP-5.
func (d *Worker) sendAttempt(ctx context.Context, s slot, attempt attempt) (busy bool, err error) {
	ctx, span := trace.StartAbout(ctx, "dispatch send", s.ID)
	defer func() { span.End(err) }()
	var reason string
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := freeze.LockShared(ctx, tx); err != nil {
			return err
		}
		if reason, err = d.freezeReason(ctx, tx, s.ordersToFreeze()...); err != nil || reason != "" {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_attempts SET sent_at = coalesce(sent_at, $3), last_sent_at = $3
			WHERE order_id = $1 AND version = $2`, s.ID, attempt.Version, tx.Now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("mark attempt %d as sent: %w", attempt.Version, err)
	}
	if reason != "" {
		return false, nil
	}
	answer, detail := d.chain.Sender.Send(ctx, attempt.Raw)
	hitAfterSend(s.Order)
	taken := answer == chain.Accepted || answer == chain.Known
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if taken && s.Status == Signed {
			if err := d.markBroadcast(ctx, tx, s, attempt); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET last_answer = $3 WHERE order_id = $1 AND version = $2`,
			s.ID, attempt.Version, truncateError(detail)); err != nil {
			return fmt.Errorf("store the answer to attempt %d: %w", attempt.Version, err)
		}
		failpoint.HitBeforeCommit("W19")
		return nil
	})
	if err == nil {
		failpoint.Hit("W19")
	}
	return taken && s.Status == Signed, err
}

// markBroadcast records that a transaction was sent, and notifies the feature of a payment. A
// cancel is not reported: the feature hears of it when the order has ended.
func (d *Worker) markBroadcast(ctx context.Context, tx pg.Tx, s slot, attempt attempt) error {
	orders, err := lockSlot(ctx, tx, s.ID)
	if err != nil {
		return err
	}
	if err := setStatuses(
		ctx, tx, orderIDs(orders), Signed, Broadcast, "broadcast_at = $4, tx_hash = $5", tx.Now, attempt.Hash,
	); err != nil {
		return err
	}
	for _, o := range orders {
		o.Status = Broadcast
		if attempt.Act == signer.Pay {
			if err := d.listeners[o.Purpose].OnBroadcast(ctx, tx, o, attempt.Hash); err != nil {
				return err
			}
		}
		if err := recordAudit(
			ctx, tx, o, "broadcast", map[string]any{"hash": attempt.Hash, "act": attempt.Act},
		); err != nil {
			return err
		}
	}
	return nil
}

// bumpHead raises the fee of the wallet's first unmined transaction, if the fee cap and the
// wallet's gas allow it.
func (d *Worker) bumpHead(ctx context.Context, payer wallet.Wallet, s slot) (bool, error) {
	err := d.addReplacement(ctx, payer, s, s.newestAttempt().Act, replacementRequest{
		reason: reasonFee, actor: systemActor,
	})
	switch {
	case errors.Is(err, errFeeCapped), errors.Is(err, errOutputsExhausted):
		d.raiseAlarm(
			ctx, s.ID, "a transaction waits and its fee is at its limit", "order", s.ID,
			"hash", string(s.newestAttempt().Hash), "why", err.Error(),
		)
		return false, d.noteError(ctx, s, err.Error())
	case errors.Is(err, wallet.ErrInsufficient):
		d.raiseAlarm(
			ctx, s.ID, "a transaction waits and its wallet lacks the gas for a fee bump", "order", s.ID,
			"wallet", payer.ID,
		)
		return false, d.noteError(ctx, s, "its wallet lacks the gas for a fee bump")
	}
	return err == nil, err
}

// errFeeCapped says that the configured cap, or the order's own limit, forbids a higher fee.
var errFeeCapped = errors.New(
	"its fee is at the configured cap, or at the limit of its request, and is not raised further",
)

// errOutputsExhausted says that the outputs of a slot, which takes no others, cannot pay a higher
// fee.
var errOutputsExhausted = errors.New(
	"the outputs of its slot leave too little for a higher fee, so it is not raised further",
)

// systemActor is this package as an actor of the audit log.
var systemActor = audit.System("dispatch")

// replacementRequest says why a transaction is added to a slot, and on whose behalf.
type replacementRequest struct {
	reason attemptReason
	actor  audit.Actor
	note   string // stored with the order, unless ""
}

// addReplacement commits a transaction to a slot, with a fee high enough to replace the one that
// waits there: the same payment, or a cancel. It is signed and sent like the first one. Errors:
// errFeeCapped, errOutputsExhausted, wallet.ErrInsufficient for gas, errLostRace.
func (d *Worker) addReplacement(
	ctx context.Context, payer wallet.Wallet, s slot, act signer.Act, request replacementRequest,
) error {
	fees, ok, err := d.chain.Sender.Bump(ctx, s.newestAttempt().Fees)
	if err != nil {
		return fmt.Errorf("price a replacement: %w", err)
	}
	if !ok {
		return errFeeCapped
	}
	if act == signer.Pay {
		cost, err := fees.Max()
		share := signer.MaxFeeShare(cost, 1+len(s.TxMembers))
		if err != nil || slices.ContainsFunc(s.allOrders(), func(o Order) bool { return o.exceedsFeeMax(share) }) {
			return errFeeCapped
		}
	}
	return d.commitAttempt(ctx, payer, s, act, fees, request)
}

func (d *Worker) commitAttempt(
	ctx context.Context, payer wallet.Wallet, s slot, act signer.Act, fees chain.Fees, request replacementRequest,
) error {
	var payments []chain.Payment
	if act == signer.Pay {
		payments = s.chainPayments(payer.Address)
	}
	payload, err := d.chain.Sender.Build(payer.Address, s.ChainSlot, fees, payments...)
	var insufficient *chain.InsufficientOutputsError
	if errors.As(err, &insufficient) {
		return errOutputsExhausted
	}
	if err != nil {
		return fmt.Errorf("build a replacement: %w", err)
	}
	cost, err := fees.Max()
	if err != nil {
		return fmt.Errorf("fee of a replacement: %w", err)
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		o := orders[0]
		// Only a signed payment is replaced. A slot without a signature only gets a cancel.
		if o.Status != Signed && o.Status != Broadcast && (o.Status != Slotted || act == signer.Pay) {
			return fmt.Errorf("replace in order %s: %w", o.ID, errLostRace)
		}
		if extraGas := shortfall(cost, s.GasReserved); !extraGas.IsZero() {
			native, err := loadNativeMint(ctx, tx, o.Chain)
			if err != nil {
				return err
			}
			if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: payer.ID, OrgID: o.OrgID, MintID: native, Part: wallet.GasReserved, Plus: extraGas,
			}); err != nil {
				return err
			}
			tag, err := tx.Exec(
				ctx, `UPDATE dispatch_slots SET gas_reserved = $2 WHERE order_id = $1 AND gas_reserved = $3`, o.ID,
				cost, s.GasReserved,
			)
			if err != nil {
				return fmt.Errorf("reserve gas for a replacement: %w", err)
			}
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("reserve gas for a replacement: %w", errLostRace)
			}
		}
		version := s.newestAttempt().Version + 1
		if err := insertAttempt(ctx, tx, o, version, act, request.reason, fees, payload); err != nil {
			return err
		}
		if request.note != "" {
			if _, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET last_error = $2 WHERE order_id = ANY ($1)`, orderIDs(orders),
				truncateError(request.note),
			); err != nil {
				return fmt.Errorf("record why order %s is replaced: %w", o.ID, err)
			}
		}
		detail := map[string]any{"act": act, "version": version, "feeCap": fees.FeeCap}
		if request.note != "" {
			detail["why"] = request.note
		}
		for _, o := range orders {
			if err := recordAuditBy(ctx, tx, request.actor, o, "replaced", detail); err != nil {
				return err
			}
		}
		return nil
	})
}

// settleSlot looks for a slot's transaction in a block and ends the order once that block is proven
// final. Rules WD-7 and WD-9.
func (d *Worker) settleSlot(
	ctx context.Context, payer wallet.Wallet, s slot, acct chain.Account,
) (busy bool, err error) {
	payments := s.chainPayments(payer.Address)
	outcome, err := d.chain.Sender.Outcome(ctx, s.signedHashes(), payments...)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil // no provider has the results of its block yet
	}
	if err != nil {
		return false, fmt.Errorf("look up its transaction: %w", err)
	}
	if outcome == nil && s.Purpose == signer.CreateNonceAccount {
		return d.followExpiring(ctx, payer, s)
	}
	if outcome == nil {
		return false, d.checkUnknownUse(ctx, payer, s, acct)
	}
	if err := d.noteMissing(ctx, s, nil); err != nil {
		return false, err
	}
	if s.Status == Signed {
		return true, d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return d.markBroadcast(ctx, tx, s, s.findAttempt(outcome.Tx))
		})
	}
	var (
		proof  int64
		broken bool
	)
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if broken, err = freeze.IsFinalityBroken(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT proof_id FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`,
			d.chain.Name, outcome.Block.Height, outcome.Block.Hash).Scan(&proof)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look up the proof of its block: %w", err)
	}
	if broken {
		// The proven block may not be on the chain any more, and neither a settlement nor a release
		// can be taken back.
		return false, nil
	}
	if proof == 0 {
		failpoint.Hit("W22")
		err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			orders, err := lockSlot(ctx, tx, s.ID)
			if err != nil || orders[0].Status != Broadcast {
				return err
			}
			for _, o := range orders {
				if err := d.listeners[o.Purpose].OnIncluded(ctx, tx, o, outcome.Tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			d.see(s.ID, &inclusion{outcome.Block.Height, outcome.Block.Hash})
		}
		return false, err
	}
	d.see(s.ID, nil)
	if s.FundsPending {
		return false, nil // its funds are not reserved again yet
	}
	if s.findAttempt(outcome.Tx).Act == signer.Pay && outcome.Succeeded {
		reasons, err := d.findContradictions(ctx, payments, *outcome)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil // the head fell behind a proven block and will grow again
		}
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(reasons, func(reason string) bool { return reason != "" }) {
			return true, d.markStuck(ctx, s, *outcome, proof, reasons)
		}
	}
	hitAfterProof(s.Order, outcome.Succeeded)
	return true, d.endSlot(ctx, payer, s, *outcome, proof)
}

// checkUnknownUse freezes the wallet if its used nonce belongs to no transaction of Coffer.
func (d *Worker) checkUnknownUse(ctx context.Context, payer wallet.Wallet, s slot, acct chain.Account) error {
	if foreign, err := d.isForeignUse(ctx, s, acct); err != nil || !foreign {
		return err
	}
	return d.freezeWallet(
		ctx, payer,
		fmt.Sprintf("%v is used on the chain, and by none of the transactions of order %s", s.ChainSlot, s.ID),
	)
}

// isForeignUse reports whether a used nonce without a transaction of Coffer counts as foreign. A
// provider may lag, so this has to last for ForeignAfter, at a final nonce. The row stores since
// when it lasts; otherwise a service that restarts again and again would never reach the end of
// that time.
func (d *Worker) isForeignUse(ctx context.Context, s slot, acct chain.Account) (bool, error) {
	if _, used := acct.IsUsed(s.ChainSlot); !used {
		return false, d.noteMissing(ctx, s, nil)
	}
	now := d.db.Clock()().UTC()
	if s.MissingSince == nil {
		return false, d.noteMissing(ctx, s, &now)
	}
	return now.Sub(*s.MissingSince) >= d.conf.ForeignAfter, nil
}

// noteMissing stores since when a slot's transaction is missing; nil says that it is not.
func (d *Worker) noteMissing(ctx context.Context, s slot, missingSince *time.Time) error {
	if missingSince == nil && s.MissingSince == nil {
		return nil
	}
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET missing_since = $2 WHERE order_id = $1`, s.ID, missingSince)
		return err
	})
	if err != nil {
		return fmt.Errorf("record that no transaction of the order is in the slot of order %s: %w", s.ID, err)
	}
	return nil
}

// endSlot ends the orders of a slot in one transaction: their status, the wallets' funds, the
// postings of their feature, and the fee.
func (d *Worker) endSlot(
	ctx context.Context, payer wallet.Wallet, s slot, outcome chain.Outcome, proof int64,
) (err error) {
	ctx, span := trace.StartAbout(ctx, "dispatch end", s.ID)
	defer func() { span.End(err) }()
	act := s.findAttempt(outcome.Tx).Act
	e := End{
		Paid: act == signer.Pay && outcome.Succeeded, Cancelled: act == signer.Cancel, Hash: outcome.Tx,
		Fee: outcome.Fee, ProofID: proof, Block: outcome.Block,
	}
	e.Refused = e.Cancelled && s.findAttempt(outcome.Tx).Reason == reasonRefusal
	e.PayeeFailed = act == signer.Pay && !outcome.Succeeded && d.isPayeeFailure(ctx, payer, s)
	e.Rent = s.payeeRent(outcome)
	e.Replaced = s.otherHashes(outcome.Tx)
	status := Failed
	if e.Paid {
		status = Paid
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// Locked before the orders: a break of finality that is decided meanwhile waits, so the
		// proof is live at the commit.
		if broken, err := finality.LockShared(ctx, tx, s.Chain); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("end order %s during a finality break: %w", s.ID, errLostRace)
		}
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		ends := make([]orderEnd, len(orders))
		for i, o := range orders {
			o.Status = Broadcast // if the row differs, the compare-and-swap fails
			ends[i] = orderEnd{o, e}
			if ends[i].Fee, err = equalShare(e.Fee, len(orders), i == 0); err != nil {
				return err
			}
		}
		if err := d.finishOrders(ctx, tx, ends...); err != nil {
			return err
		}
		hitBeforeEnd(e)
		return nil
	})
	if err != nil {
		return err
	}
	hitAfterEnd(s.Order, e)
	d.log.Info(
		"order ended", "order", s.ID, "with", s.memberIDs(), "status", string(status), "hash", string(e.Hash),
		"fee", e.Fee.String(),
	)
	return nil
}

// payeeRent returns the rent that a payment left in an account that it created for its payee. It is
// zero where several payments share a transaction, because the rent cannot be assigned to one of
// them. No chain that has such accounts batches payments to third parties.
func (s slot) payeeRent(outcome chain.Outcome) money.Amount {
	if s.Purpose != signer.Payment || len(s.TxMembers) > 0 {
		return money.Zero
	}
	return outcome.Rent
}

// isPayeeFailure reports whether the chain refused a payment because of its payee. A native
// transfer on EVM runs the payee's code and nothing else that could refuse it. For anything else,
// the function asks whether the chain would still refuse this payment but not one to the wallet
// itself. It is false where no provider answers, and where other orders were in the transaction.
// Rule WD-55.
func (d *Worker) isPayeeFailure(ctx context.Context, payer wallet.Wallet, s slot) bool {
	if s.Purpose != signer.Payment || len(s.TxMembers) > 0 {
		return false
	}
	if s.Contract == "" && s.Chain.Family() == chain.EVM {
		return true
	}
	_, err := d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	var reverted *chain.RevertedError
	if !errors.As(err, &reverted) {
		return false
	}
	cause, err := d.findRevertCause(ctx, payer, candidate{Order: s.Order}, reverted)
	return err == nil && (cause == chain.CausePayee || cause == chain.CauseAmount)
}

// orderEnd is an order with its end; Fee is the order's share.
type orderEnd struct {
	Order
	End
}

// finishOrders ends locked orders of one slot: their status, the postings of their feature, the
// wallets' funds, and the fee.
func (d *Worker) finishOrders(ctx context.Context, tx pg.Tx, ends ...orderEnd) error {
	native, err := loadNativeMint(ctx, tx, ends[0].Chain)
	if err != nil {
		return err
	}
	var postings []ledger.Posting
	var moves []wallet.Movement
	for i := range ends {
		o, e := &ends[i].Order, ends[i].End
		before, after := o.Status, Failed
		if e.Paid {
			after = Paid
		}
		if err := setStatus(
			ctx, tx, o.ID, before, after,
			"ended_at = $4, tx_hash = $5, fee = $6, proof_id = $7, rent = $8, payee_failed = $9", tx.Now, e.Hash, e.Fee,
			e.ProofID, e.Rent, e.PayeeFailed,
		); err != nil {
			return err
		}
		o.Status = after
		featurePostings, err := d.listeners[o.Purpose].OnEnded(ctx, tx, *o, e)
		if err != nil {
			return err
		}
		postings = append(postings, featurePostings...)
		if !e.Fee.IsZero() {
			postings = append(postings, newFeePosting(*o, native, e.Fee))
		}
		reserved, err := loadGasShare(ctx, tx, *o)
		if err != nil {
			return err
		}
		moves = append(moves, endMovements(*o, e, native, reserved)...)
		if listener, ok := d.listeners[o.Purpose].(FundsListener); ok {
			extra, err := listener.EndMovements(ctx, tx, *o, e)
			if err != nil {
				return err
			}
			moves = append(moves, extra...)
		}
	}
	// The rows of all features come before the outputs.
	for _, end := range ends {
		if end.Chain.IsUTXO() { // the lead's outputs; members have none
			if err := utxo.MarkSpent(ctx, tx, end.ID, end.Hash, end.Purpose == signer.Return && !end.Paid); err != nil {
				return err
			}
		}
	}
	if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return err
	}
	for _, end := range ends {
		if err := recordAudit(ctx, tx, end.Order, "ended", map[string]any{
			"status": end.Status, "hash": end.Hash, "fee": end.Fee, "block": end.Block.Hash,
		}); err != nil {
			return err
		}
	}
	return nil
}

// loadGasShare returns an order's share of the gas that its slot has reserved.
func loadGasShare(ctx context.Context, tx pg.Tx, o Order) (money.Amount, error) {
	var whole money.Amount
	var orders int
	err := tx.QueryRow(
		ctx, `SELECT gas_reserved, orders FROM dispatch_slots WHERE order_id = coalesce(nullif($2, ''), $1)`, o.ID,
		o.TxLeadID,
	).Scan(&whole, &orders)
	if err != nil {
		return whole, fmt.Errorf("read the gas reserved for order %s: %w", o.ID, err)
	}
	return equalShare(whole, orders, o.TxLeadID == "")
}

// endMovements returns how the end of an order changes the wallets' funds.
func endMovements(o Order, e End, native int, gasReserved money.Amount) []wallet.Movement {
	newMovement := func(walletID string, mintID int, part wallet.Part) wallet.Movement {
		return wallet.Movement{WalletID: walletID, OrgID: o.OrgID, MintID: mintID, Part: part}
	}
	plus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Plus = a; return m }
	minus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Minus = a; return m }

	moves := []wallet.Movement{
		minus(newMovement(o.WalletID, native, wallet.GasReserved), gasReserved),
		minus(newMovement(o.WalletID, native, wallet.Gas), e.Fee),
	}
	switch o.Purpose {
	case signer.Payment, signer.Sweep, signer.Return:
		moves = append(moves, minus(newMovement(o.SourceWalletID(), o.MintID, wallet.Reserved), o.Amount))
		if e.Paid {
			moves = append(moves, plus(newMovement(o.SourceWalletID(), o.MintID, wallet.Swept), o.Amount))
		} else if o.Purpose == signer.Return {
			// flagged, as before
			moves = append(moves, plus(newMovement(o.SourceWalletID(), o.MintID, wallet.Held), o.Amount))
		}
		if e.Paid && o.Purpose == signer.Sweep {
			moves = append(moves, plus(newMovement(o.ToWalletID, o.MintID, wallet.Credited), o.Amount))
		}
	case signer.GasTopUp:
		moves = append(moves, minus(newMovement(o.WalletID, native, wallet.GasReserved), o.Amount))
		if e.Paid {
			moves = append(moves,
				minus(newMovement(o.WalletID, native, wallet.Gas), o.Amount),
				plus(newMovement(o.ToWalletID, native, wallet.Gas), o.Amount))
		}
	}
	return moves
}

// newFeePosting returns the posting of a network fee. It takes the actual fee from the operator's
// gas and records it as owed by the organization, whether the transaction succeeded or not.
// Rule WD-10.
func newFeePosting(o Order, native int, fee money.Amount) ledger.Posting {
	account := func(k ledger.Kind) ledger.Account { return ledger.Account{OrgID: o.OrgID, MintID: native, Kind: k} }
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.NetworkFee, ID: o.ID},
		Legs: []ledger.Leg{
			{Debit: account(ledger.Gas), Credit: account(ledger.Custody), Amount: fee},
			{Debit: account(ledger.FeesDue), Credit: account(ledger.FeesBilled), Amount: fee},
		},
	}
}

// markStuck keeps the orders of a final transaction that succeeded and did not move what it should
// have moved. Nothing is released or settled: the token is quarantined and a person decides. All
// payments of the transaction become stuck, and each is decided separately. reasons holds what
// contradicts each payment, "" for nothing. Rule WD-15.
func (d *Worker) markStuck(ctx context.Context, s slot, outcome chain.Outcome, proof int64, reasons []string) error {
	quarantines := map[int]string{} // by mint
	for i, o := range s.allOrders() {
		if reasons[i] != "" && quarantines[o.MintID] == "" {
			quarantines[o.MintID] = fmt.Sprintf("order %s: %s succeeded, but %s", o.ID, outcome.Tx, reasons[i])
		}
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The mints come before the orders, as where a stuck return is completed.
		for _, mintID := range slices.Sorted(maps.Keys(quarantines)) {
			if err := mint.Quarantine(ctx, tx, mintID, quarantines[mintID]); err != nil {
				return err
			}
		}
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		if len(orders) != len(reasons) {
			return fmt.Errorf("the slot of order %s: %w", s.ID, errLostRace)
		}
		for i, o := range orders {
			fee, err := equalShare(outcome.Fee, len(orders), i == 0)
			if err != nil {
				return err
			}
			reason := reasons[i]
			if reason == "" {
				reason = "another payment of its transaction is not as it should be"
			}
			if err := setStatus(
				ctx, tx, o.ID, Broadcast, Stuck, "tx_hash = $4, fee = $5, proof_id = $6, last_error = $7, rent = $8",
				outcome.Tx, fee, proof, truncateError(reason), s.payeeRent(outcome),
			); err != nil {
				return err
			}
			if err := recordAudit(ctx, tx, o, "stuck", map[string]any{
				"hash": outcome.Tx, "block": outcome.Block.Hash, "why": reason,
			}); err != nil {
				return err
			}
			d.log.Error(
				"a payment succeeded on chain without its effect", "order", o.ID, "hash", string(outcome.Tx),
				"why", reason,
			)
		}
		return nil
	})
}

// OldestOrderAge returns the age of the chain's oldest open order, and zero if there is none.
// Consolidations do not count, because no customer or feature waits for them.
func (d *Worker) OldestOrderAge(ctx context.Context) (age time.Duration, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var oldest *time.Time
		if err := tx.QueryRow(ctx, `
			SELECT min(created_at) FROM dispatch_orders
			WHERE chain = $1 AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST') AND purpose <> 'MERGE'`,
			d.chain.Name).Scan(&oldest); err != nil {
			return err
		}
		if oldest != nil {
			age = tx.Now.Sub(*oldest)
		}
		return nil
	})
	return age, err
}
