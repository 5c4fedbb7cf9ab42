package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// RestoredOrder is an order that Restore inserted or gave a slot.
type RestoredOrder struct {
	Order
	IsNew bool
	// Signed says that its transaction may have been sent. An unsigned order pays no one until a
	// person decides: it may have been recalled after the backup was made.
	Signed bool
	// Voided says that it was queued and that people recalled it after the backup was made.
	Voided bool
}

// RestoreListener is a feature that inserts its own rows for restored orders.
type RestoreListener interface {
	// OnRestored gets all restored orders of its purpose in one call and returns the postings for
	// them. It writes in the transaction and may run twice.
	OnRestored(ctx context.Context, tx pg.Tx, orders []RestoredOrder) ([]ledger.Posting, error)
}

// JournalRestorer restores the orders that the signer's journal records and a restored database
// lacks.
type JournalRestorer struct {
	Features map[signer.Purpose]RestoreListener
	// ReadFees reads the fees from an unsigned transaction.
	ReadFees func(name chain.Name, payload []byte) (chain.Fees, error)
	// ReadInputs reads the outputs that a slot spends, on UTXO chains.
	ReadInputs func(name chain.Name, slotKey string) ([]chain.Output, error)
}

// restoredNote is the error text of an order that the signer admitted and never signed.
const restoredNote = "restored from the signer's journal, which has no signature of it"

// Restore inserts the missing orders, slots and transactions, in the caller's transaction. Existing
// rows stay as they are. An order with a signature gets the slot and the bytes of the journal and
// is followed from there like any other. What it moves is not reserved yet, because the restored
// wallets may not hold it: see reserveRestored. Until then its wallet takes no new order.
//
// An order that contradicts the journal is an error, and nothing is restored.
func (j JournalRestorer) Restore(ctx context.Context, tx pg.Tx, intents []journal.Intent) error {
	byPurpose := map[signer.Purpose][]RestoredOrder{}
	type account struct{ wallet, chain string }
	touched := map[account]bool{}
	for _, m := range slices.SortedFunc(
		slices.Values(intents), func(a, b journal.Intent) int { return cmp.Compare(a.ID, b.ID) },
	) {
		r, err := j.restoreOrder(ctx, tx, m)
		if err != nil {
			return fmt.Errorf("restore order %s: %w", m.ID, err)
		}
		if r == nil {
			continue
		}
		byPurpose[r.Purpose] = append(byPurpose[r.Purpose], *r)
		touched[account{r.WalletID, string(r.Chain)}] = true
	}
	for a := range touched {
		// A nonce without a slot would hold up every later one.
		var nextNonce, slots uint64
		err := tx.QueryRow(ctx, `
			SELECT coalesce((SELECT next_nonce FROM dispatch_accounts WHERE wallet_id = $1 AND chain = $2), 0),
				(SELECT count(*) FROM dispatch_slots WHERE wallet_id = $1 AND chain = $2)`,
			a.wallet, a.chain).Scan(&nextNonce, &slots)
		if err != nil {
			return fmt.Errorf("count the slots of wallet %s: %w", a.wallet, err)
		}
		if nextNonce != slots {
			return fmt.Errorf(
				"wallet %s on %s has %d slots below nonce %d: the journal does not continue this database", a.wallet,
				a.chain, slots, nextNonce,
			)
		}
	}
	var postings []ledger.Posting
	for _, purpose := range slices.Sorted(maps.Keys(byPurpose)) {
		featurePostings, err := j.Features[purpose].OnRestored(ctx, tx, byPurpose[purpose])
		if err != nil {
			return err
		}
		postings = append(postings, featurePostings...)
	}
	return ledger.Post(ctx, tx, postings...)
}

// restoreOrder restores an order. It returns nil if nothing of it is missing.
func (j JournalRestorer) restoreOrder(ctx context.Context, tx pg.Tx, m journal.Intent) (*RestoredOrder, error) {
	r := &RestoredOrder{}
	rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders WHERE order_id = $1 FOR UPDATE`, m.ID)
	if err != nil {
		return nil, err
	}
	r.Order, err = pgx.CollectExactlyOneRow(rows, scanOrder)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if m.Intent == nil && m.Voided.Seq > 0 {
			return nil, nil // the signer refused every request for it, so it is never paid
		}
		if m.Intent == nil {
			return nil, errors.New("the journal admitted it before this backup was made, and the backup lacks it")
		}
		r.IsNew = true
		if r.Order, err = insertRestored(ctx, tx, m); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case m.Intent != nil &&
		(m.Intent.To != r.To || m.Intent.Amount != r.Amount || m.Intent.Contract != r.Contract ||
			m.Intent.Purpose != r.Purpose || m.Intent.Product != r.Product ||
			m.Intent.WhitelistedID != r.WhitelistedID || !m.Intent.Swap.Equal(r.Swap) ||
			!m.Intent.Refund.Equal(r.Refund) || !m.Intent.Batch.Equal(r.Batch) ||
			differsInPayout(*m.Intent, r.Order)):
		return nil, fmt.Errorf(
			"it pays %v to %s, and the journal admitted %v to %s", r.Amount, r.To, m.Intent.Amount, m.Intent.To,
		)
	}
	if m.TxLeadID != "" {
		joined, err := j.restoreMember(ctx, tx, r, m.TxLeadID)
		if err != nil || joined {
			return r, err
		}
	}
	signatures, err := j.missingSignatures(ctx, tx, m)
	if err != nil {
		return nil, err
	}
	if len(signatures) == 0 {
		if r.IsNew {
			r.Status = Refused
			if err := setRefused(ctx, tx, r.Order, restoredNote, ""); err != nil {
				return nil, err
			}
		}
		if m.Voided.Seq > 0 {
			if err := restoreVoid(ctx, tx, r, m.Voided); err != nil {
				return nil, err
			}
		}
		if !r.IsNew && !r.Voided {
			return nil, nil
		}
		return r, nil
	}
	r.Signed = true
	if err := j.resumeOrder(ctx, tx, r, signatures); err != nil {
		return nil, err
	}
	return r, nil
}

// restoreVoid recalls an order that people recalled after the backup was made. The journal does not
// say who did so; the hold waits for a person.
//
// An order that was recalled before the backup keeps its open void. The Voider asks the signer
// again, gets the same entry, and notifies the feature.
func restoreVoid(ctx context.Context, tx pg.Tx, r *RestoredOrder, entry signer.Head) error {
	if r.Status == Recalled {
		return nil
	}
	if r.Status == Queued {
		if err := setRefused(ctx, tx, r.Order, VoidedAfterBackup, ""); err != nil {
			return err
		}
		r.Status, r.Voided = Refused, true
	}
	if r.Status == Refused {
		if _, err := Recall(ctx, tx, r.ID); err != nil {
			return err
		}
		r.Status = Recalled
	}
	if r.Status != Recalled {
		return fmt.Errorf("it is %s, and the journal has a void from before it had a slot", r.Status)
	}
	_, err := tx.Exec(ctx,
		`UPDATE dispatch_voids SET journal_id = $2, journal_seq = $3, voided_at = $4 WHERE order_id = $1 AND journal_seq IS NULL`,
		r.ID, entry.JournalID, int64(entry.Seq), tx.Now)
	if err != nil {
		return fmt.Errorf("record that it is void: %w", err)
	}
	return nil
}

// VoidedAfterBackup is the error text of an order that people recalled after the backup was made.
const VoidedAfterBackup = "the signer's journal voided this payment after the backup was made"

// restoreMember gives an order the slot of the lead order that it was signed with. The lead was
// restored first, since its id is lower. restoreMember returns false if nothing of that was
// missing.
func (j JournalRestorer) restoreMember(ctx context.Context, tx pg.Tx, r *RestoredOrder, lead string) (bool, error) {
	native, err := loadNativeMint(ctx, tx, r.Chain)
	if err != nil {
		return false, err
	}
	var leadStatus Status
	var pending, memberPending bool
	err = tx.QueryRow(ctx, `
		SELECT l.status, l.funds_pending, r.funds_pending FROM dispatch_orders l, dispatch_orders r WHERE l.order_id = $1 AND r.order_id = $2`,
		lead, r.ID).
		Scan(&leadStatus, &pending, &memberPending)
	switch {
	case err != nil:
		return false, fmt.Errorf("read order %s, with which it was signed: %w", lead, err)
	case r.TxLeadID != "" && r.TxLeadID != lead:
		return false, fmt.Errorf("the journal signed it with %s, and it shares its slot with %s", lead, r.TxLeadID)
	case r.TxLeadID == lead && (!pending || memberPending):
		return false, nil
	case r.TxLeadID == lead:
		if err := wallet.MoveFunds(ctx, tx, reservationMovements(r.Order, native, money.Zero, false)...); err != nil {
			return false, err
		}
		if _, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET funds_pending = true WHERE order_id = $1`, r.ID,
		); err != nil {
			return false, err
		}
		if r.Status != leadStatus {
			err = setStatus(ctx, tx, r.ID, r.Status, leadStatus, "")
		}
		r.Signed, r.Status = true, leadStatus
		return true, err
	case r.Status == Refused:
		if err := setStatus(ctx, tx, r.ID, Refused, Queued, ""); err != nil {
			return false, err
		}
	case r.Status != Queued:
		return false, fmt.Errorf("it is %s, and the journal signed it with %s", r.Status, lead)
	}
	if !pending {
		return false, fmt.Errorf("the journal signed it with %s, whose slot the database has without it", lead)
	}
	if r.Kind().ReservedBySubmitter && !r.IsNew {
		if err := wallet.MoveFunds(ctx, tx, reservationMovements(r.Order, native, money.Zero, false)...); err != nil {
			return false, err
		}
	}
	if err := setStatus(
		ctx, tx, r.ID, Queued, Slotted, "last_error = NULL, funds_pending = true, tx_lead_id = $4", lead,
	); err != nil {
		return false, err
	}
	if leadStatus != Slotted {
		if err := setStatus(ctx, tx, r.ID, Slotted, leadStatus, ""); err != nil {
			return false, err
		}
	}
	r.TxLeadID, r.Status, r.Signed = lead, leadStatus, true
	detail := map[string]any{"rides": lead, "restored": true}
	return true, recordAudit(ctx, tx, r.Order, "slotted", detail)
}

// differsInPayout reports whether people approved another payout of an organization's swap than the journal has. An
// order of a payment may have been granted anew since the backup, so its grant is no part of what it pays.
func differsInPayout(intent signer.Intent, o Order) bool {
	stored := signer.Intent{Grant: o.Grant}
	return intent.Swap != nil && !intent.SwapPayout().Equal(stored.SwapPayout())
}

// insertRestored inserts an order as the journal records it. Of its grant that is what people approved of an
// organization's swap; the signer asks for no grant of what it has admitted.
func insertRestored(ctx context.Context, tx pg.Tx, m journal.Intent) (Order, error) {
	intent := m.Intent
	account, err := wallet.ByRef(ctx, tx, intent.Account())
	if err != nil {
		return Order{}, fmt.Errorf("the paying wallet: %w", err)
	}
	o := Order{
		ID: intent.ID, OrgID: intent.From.OrgID, Purpose: intent.Purpose, Chain: intent.Chain, WalletID: account.ID,
		To: intent.To, MintID: intent.MintID,
		Contract: intent.Contract, Amount: intent.Amount, CustomerID: intent.CustomerID,
		KeyHash: intent.IdempotencyKeyHash, Status: Queued, CreatedAt: m.AdmittedAt,
		FeeDeducted: intent.FeeDeducted, Product: intent.Product, WhitelistedID: intent.WhitelistedID,
		Grant: intent.Grant, Swap: intent.Swap, Refund: intent.Refund, Batch: intent.Batch,
	}
	if o.Swap != nil {
		if o.PayBy, err = time.Parse(time.RFC3339Nano, o.Swap.PayBy); err != nil {
			return o, fmt.Errorf("read the time by which it is paid: %w", err)
		}
	}
	if o.Kind().isInternal() {
		o.Trigger = TriggerRestore
	}
	if !intent.FeeMax.IsZero() {
		o.FeeMax = &intent.FeeMax
	}
	if intent.Payer != nil {
		from, err := wallet.ByRef(ctx, tx, intent.From)
		if err != nil {
			return o, fmt.Errorf("the emptied wallet: %w", err)
		}
		o.FromWalletID = from.ID
	}
	if intent.ToWallet != nil {
		to, err := wallet.ByRef(ctx, tx, *intent.ToWallet)
		if err != nil {
			return o, fmt.Errorf("the receiving wallet: %w", err)
		}
		o.ToWalletID = to.ID
	}
	pastTx := tx
	pastTx.Now = m.AdmittedAt
	return o, Submit(ctx, pastTx, o)
}

// missingSignatures returns the signed transactions of an order that the database lacks. A
// transaction whose payload is there, unsigned, is not missing: dispatch asks for its bytes again.
func (j JournalRestorer) missingSignatures(
	ctx context.Context, tx pg.Tx, m journal.Intent,
) ([]journal.Signature, error) {
	attempts, err := loadAttempts(ctx, tx, m.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(m.Signed), func(s journal.Signature) bool {
		return slices.ContainsFunc(
			attempts[m.ID], func(a attempt) bool { return string(a.Payload) == string(s.Payload) && a.Act == s.Act },
		)
	}), nil
}

// resumeOrder gives an order its slot, unless it has it, and the transactions that were signed for
// it. It releases what was reserved for the order. The restored books may hold less than the lost
// ones did, and reserveRestored reserves all of it again.
func (j JournalRestorer) resumeOrder(
	ctx context.Context, tx pg.Tx, r *RestoredOrder, signatures []journal.Signature,
) error {
	native, err := loadNativeMint(ctx, tx, r.Chain)
	if err != nil {
		return err
	}
	var pending bool
	if err := tx.QueryRow(
		ctx, `SELECT funds_pending FROM dispatch_orders WHERE order_id = $1`, r.ID,
	).Scan(&pending); err != nil {
		return err
	}
	chainSlot := signatures[0].Slot
	var reserved money.Amount
	switch r.Status {
	case Refused:
		if err := setStatus(ctx, tx, r.ID, Refused, Queued, ""); err != nil {
			return err
		}
		fallthrough
	case Queued:
		if r.Kind().ReservedBySubmitter && !r.IsNew {
			if err := wallet.MoveFunds(
				ctx, tx, reservationMovements(r.Order, native, money.Zero, false)...,
			); err != nil {
				return err
			}
		}
		if err := setStatus(ctx, tx, r.ID, Queued, Slotted, "last_error = NULL, funds_pending = true"); err != nil {
			return err
		}
		if err := restoreSlot(ctx, tx, r.Order, signatures[0]); err != nil {
			return err
		}
		if err := j.claimOutputs(ctx, tx, r.Order, chainSlot, native); err != nil {
			return err
		}
		r.Status = Slotted
	case Slotted, Signed, Broadcast:
		var existing chain.Slot
		if err := tx.QueryRow(
			ctx, `SELECT nonce, slot_key, gas_reserved FROM dispatch_slots WHERE order_id = $1`, r.ID,
		).Scan(&existing.Nonce, &existing.Key, &reserved); err != nil {
			return fmt.Errorf("read its slot: %w", err)
		}
		if existing != chainSlot {
			return fmt.Errorf("the journal signed %v for it and it has %v", chainSlot, existing)
		}
		if !pending {
			if err := wallet.MoveFunds(ctx, tx, reservationMovements(r.Order, native, reserved, false)...); err != nil {
				return err
			}
			if _, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET funds_pending = true WHERE order_id = $1`, r.ID,
			); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("it is %s, and the journal has a transaction of it that the database lacks", r.Status)
	}
	if err := j.storeAttempts(ctx, tx, r.Order, chainSlot, reserved, signatures); err != nil {
		return err
	}
	if r.Status == Slotted {
		if err := setStatus(ctx, tx, r.ID, Slotted, Signed, ""); err != nil {
			return err
		}
		r.Status = Signed
	}
	return nil
}

// restoreSlot inserts a slot that the journal names and moves the nonce counter past it.
func restoreSlot(ctx context.Context, tx pg.Tx, o Order, signed journal.Signature) error {
	chainSlot := signed.Slot
	_, err := tx.Exec(ctx, `
		INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, proof, org_id, order_id, gas_reserved, created_at, orders)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9)`,
		o.WalletID, o.Chain, chainSlot.Nonce, chainSlot.Key, signed.Proof, o.OrgID, o.ID, signed.SignedAt,
		1+len(signed.TxMemberIDs))
	if pg.ViolatesConstraint(err, "dispatch_slots_pkey") || pg.ViolatesConstraint(err, "dispatch_slots_key_once") ||
		pg.ViolatesConstraint(err, "dispatch_slots_change_once") {
		return fmt.Errorf("%v of its wallet belongs to another order, which this database made after the restore: "+
			"restore the backup again and run nothing on it before the import: %w", chainSlot, err)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", chainSlot, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO dispatch_accounts AS a (wallet_id, chain, org_id, next_nonce) VALUES ($1, $2, $3, $4)
		ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = greatest(a.next_nonce, excluded.next_nonce)`,
		o.WalletID, o.Chain, o.OrgID, chainSlot.Nonce+1)
	if err != nil {
		return fmt.Errorf("move the counter past %v: %w", chainSlot, err)
	}
	detail := slotDetail(chainSlot, o, o)
	detail["restored"] = true
	return recordAudit(ctx, tx, o, "slotted", detail)
}

// storeAttempts stores signed transactions, and the highest of their maximum costs as the slot's
// reserved gas.
func (j JournalRestorer) storeAttempts(
	ctx context.Context, tx pg.Tx, o Order, slot chain.Slot, reserved money.Amount, signed []journal.Signature,
) error {
	var version int
	if err := tx.QueryRow(
		ctx, `SELECT coalesce(max(version), 0) FROM dispatch_attempts WHERE order_id = $1`, o.ID,
	).Scan(&version); err != nil {
		return err
	}
	costMax := reserved
	for _, s := range signed {
		if s.Slot != slot {
			return fmt.Errorf("the journal signed %v and %v for it", slot, s.Slot)
		}
		fees, err := j.ReadFees(o.Chain, s.Payload)
		if err != nil {
			return fmt.Errorf("read the fees of transaction %s: %w", s.Hash, err)
		}
		cost, err := fees.Max()
		if err != nil {
			return fmt.Errorf("read the highest cost of transaction %s: %w", s.Hash, err)
		}
		if costMax.Less(cost) {
			costMax = cost
		}
		version++
		pastTx := tx
		pastTx.Now = s.SignedAt
		if err := insertAttempt(ctx, pastTx, o, version, s.Act, reasonFirst, fees, s.Payload); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_attempts SET raw = $3, tx_hash = $4, signed_at = $5
			WHERE order_id = $1 AND version = $2 AND raw IS NULL`, o.ID, version, s.Raw, s.Hash, s.SignedAt)
		if err != nil {
			return fmt.Errorf("store transaction %s: %w", s.Hash, err)
		}
	}
	if _, err := tx.Exec(
		ctx, `UPDATE dispatch_slots SET gas_reserved = $2 WHERE order_id = $1`, o.ID, costMax,
	); err != nil {
		return fmt.Errorf("record the highest cost of its slot: %w", err)
	}
	return nil
}

// reservationMovements returns what an order with a slot has reserved: as reservations, or as
// releases without reserve.
func reservationMovements(o Order, native int, gas money.Amount, reserve bool) []wallet.Movement {
	newMovement := func(walletID string, mintID int, part wallet.Part, a money.Amount) wallet.Movement {
		m := wallet.Movement{WalletID: walletID, OrgID: o.OrgID, MintID: mintID, Part: part}
		if reserve {
			m.Plus = a
		} else {
			m.Minus = a
		}
		return m
	}
	moves := []wallet.Movement{newMovement(o.WalletID, native, wallet.GasReserved, gas)}
	kind, source := o.Kind(), o.SourceWalletID()
	if kind.Reserves != "" {
		moves = append(moves, newMovement(source, o.MintID, kind.Reserves, o.Amount))
	}
	if kind.MovesFlagged {
		// A flagged amount is held while it is not reserved, or a sweep would take it.
		held := newMovement(source, o.MintID, wallet.Held, o.Amount)
		held.Plus, held.Minus = held.Minus, held.Plus
		moves = append(moves, held)
	}
	return moves
}

// reserveRestored reserves what restored orders need, by nonce, as far as their wallet holds it by
// now. The final walk finds again what had arrived, and earlier orders end. waiting says that an
// order still lacks something. All of them were paid for once, in this order, so each gets its
// turn.
func (d *Worker) reserveRestored(ctx context.Context, payer wallet.Wallet, open []slot) (waiting bool, err error) {
	for i := range open {
		s := &open[i]
		if !s.FundsPending {
			continue
		}
		if waiting {
			continue
		}
		err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			orders, err := lockSlot(ctx, tx, s.ID)
			if err != nil {
				return err
			}
			native, err := loadNativeMint(ctx, tx, s.Chain)
			if err != nil {
				return err
			}
			tag, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET funds_pending = false WHERE order_id = ANY ($1) AND funds_pending`,
				orderIDs(orders),
			)
			if err != nil {
				return fmt.Errorf("reserve for restored order %s: %w", s.ID, err)
			}
			if tag.RowsAffected() != int64(len(orders)) {
				return fmt.Errorf("reserve for restored order %s: %w", s.ID, errLostRace)
			}
			var gas money.Amount
			if err := tx.QueryRow(
				ctx, `SELECT gas_reserved FROM dispatch_slots WHERE order_id = $1`, s.ID,
			).Scan(&gas); err != nil {
				return fmt.Errorf("read the gas of restored order %s: %w", s.ID, err)
			}
			var moves []wallet.Movement
			for i, o := range orders {
				if i > 0 {
					gas = money.Zero // the slot's gas covers all its orders
				}
				moves = append(moves, reservationMovements(o, native, gas, true)...)
			}
			return wallet.MoveFunds(ctx, tx, moves...)
		})
		switch {
		case errors.Is(err, wallet.ErrInsufficient):
			waiting = true
		case errors.Is(err, errLostRace):
			return true, nil
		case err != nil:
			return true, err
		default:
			s.FundsPending = false
			d.log.Info("restored order has its funds", "order", s.ID, "wallet", payer.ID)
		}
	}
	return waiting, nil
}
