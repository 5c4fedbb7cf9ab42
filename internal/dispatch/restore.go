package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Restored is an order that Restore made, or brought to a slot.
type Restored struct {
	Order
	New bool
	// Signed says that its transaction may be out. One that is not signed pays
	// nobody until a person says so: it may have been taken back after the backup.
	Signed bool
	// Voided says that it was in the queue and people took it back after the backup was made.
	Voided bool
}

// Restorer is a feature that makes its own rows again for orders that are.
type Restorer interface {
	// Restored is told of all restored orders of its purpose in one call and returns
	// what has to be posted for them. It writes in the transaction and may run twice.
	Restored(ctx context.Context, tx pg.Tx, orders []Restored) ([]ledger.Posting, error)
}

// Journal makes orders again that the signer's journal remembers and a restored
// database lacks.
type Journal struct {
	Features map[signer.Purpose]Restorer
	// FeesOf reads the fees out of an unsigned transaction.
	FeesOf func(name chain.Name, payload []byte) (chain.Fees, error)
	// Spends reads the coins of a slot, on chains where it is made of them.
	Spends func(name chain.Name, lease string) ([]chain.Coin, error)
}

// restoredWhy stands with an order that the signer admitted and never signed.
const restoredWhy = "restored from the signer's journal, which has no signature of it"

// Restore makes the orders, slots and transactions that are missing, in the caller's
// transaction. What is there stays as it is. An order with a signature gets the slot
// and the bytes of the journal and is followed from there like any other; what it
// moves is not reserved yet, because the restored wallets may not hold it: see
// settleFunds. Its wallet takes no new order until then.
//
// An order that contradicts the journal is an error, and nothing is restored.
func (j Journal) Restore(ctx context.Context, tx pg.Tx, all []mirror.Remembered) error {
	byPurpose := map[signer.Purpose][]Restored{}
	type account struct{ wallet, chain string }
	touched := map[account]bool{}
	for _, m := range slices.SortedFunc(slices.Values(all), func(a, b mirror.Remembered) int { return cmp.Compare(a.ID, b.ID) }) {
		r, err := j.one(ctx, tx, m)
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
		// A nonce that nothing has would hold up every later one.
		var next, slots uint64
		err := tx.QueryRow(ctx, `
			SELECT coalesce((SELECT next_nonce FROM dispatch_accounts WHERE wallet_id = $1 AND chain = $2), 0),
				(SELECT count(*) FROM dispatch_slots WHERE wallet_id = $1 AND chain = $2)`, a.wallet, a.chain).Scan(&next, &slots)
		if err != nil {
			return fmt.Errorf("count the slots of wallet %s: %w", a.wallet, err)
		}
		if next != slots {
			return fmt.Errorf("wallet %s on %s has %d slots below nonce %d: the journal does not continue this database", a.wallet, a.chain, slots, next)
		}
	}
	var postings []ledger.Posting
	for _, purpose := range slices.Sorted(maps.Keys(byPurpose)) {
		more, err := j.Features[purpose].Restored(ctx, tx, byPurpose[purpose])
		if err != nil {
			return err
		}
		postings = append(postings, more...)
	}
	return ledger.Post(ctx, tx, postings...)
}

// one restores an order; nil when nothing of it is missing.
func (j Journal) one(ctx context.Context, tx pg.Tx, m mirror.Remembered) (*Restored, error) {
	r := &Restored{}
	rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders WHERE order_id = $1 FOR UPDATE`, m.ID)
	if err != nil {
		return nil, err
	}
	r.Order, err = pgx.CollectExactlyOneRow(rows, scanOrder)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if m.Intent == nil && m.Voided.Seq > 0 {
			return nil, nil // it was refused whenever it was asked for, and is never paid
		}
		if m.Intent == nil {
			return nil, errors.New("the journal admitted it before this backup was made, and the backup lacks it")
		}
		r.New = true
		if r.Order, err = queueAgain(ctx, tx, m); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case m.Intent != nil && (m.Intent.To != r.To || m.Intent.Amount != r.Amount || m.Intent.Contract != r.Contract || m.Intent.Purpose != r.Purpose ||
		m.Intent.Product != r.Product || m.Intent.WhitelistedID != r.WhitelistedID):
		return nil, fmt.Errorf("it pays %v to %s, and the journal admitted %v to %s", r.Amount, r.To, m.Intent.Amount, m.Intent.To)
	}
	if m.Rides != "" {
		joined, err := j.join(ctx, tx, r, m.Rides)
		if err != nil || joined {
			return r, err
		}
	}
	missing, err := j.unknown(ctx, tx, m)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		if r.New {
			r.Status = Refused
			if err := become(ctx, tx, r.ID, Queued, Refused, "last_error = $4", restoredWhy); err != nil {
				return nil, err
			}
		}
		if m.Voided.Seq > 0 {
			if err := voidAgain(ctx, tx, r, m.Voided); err != nil {
				return nil, err
			}
		}
		if !r.New && !r.Voided {
			return nil, nil
		}
		return r, nil
	}
	r.Signed = true
	if err := j.resume(ctx, tx, r, missing); err != nil {
		return nil, err
	}
	return r, nil
}

// voidAgain takes an order back that people took back after the backup was made. Who did, the
// journal does not say: what is held for it waits for a person.
//
// An order that was taken back before the backup was made keeps its open void: the Voider
// asks the signer again, which answers with the same entry, and tells the feature.
func voidAgain(ctx context.Context, tx pg.Tx, r *Restored, entry signer.Head) error {
	if r.Status == Withdrawn {
		return nil
	}
	if r.Status == Queued {
		if err := become(ctx, tx, r.ID, Queued, Refused, "last_error = $4", VoidedSince); err != nil {
			return err
		}
		r.Status, r.Voided = Refused, true
	}
	if r.Status == Refused {
		if _, err := Withdraw(ctx, tx, r.ID); err != nil {
			return err
		}
		r.Status = Withdrawn
	}
	if r.Status != Withdrawn {
		return fmt.Errorf("it is %s, and the journal says that it was taken back before it had a slot", r.Status)
	}
	_, err := tx.Exec(ctx, `UPDATE dispatch_voids SET journal_id = $2, journal_seq = $3, voided_at = $4 WHERE order_id = $1 AND journal_seq IS NULL`,
		r.ID, entry.JournalID, int64(entry.Seq), tx.Now)
	if err != nil {
		return fmt.Errorf("keep that it is void: %w", err)
	}
	return nil
}

// VoidedSince stands with an order that people took back after the backup was made.
const VoidedSince = "the signer's journal says that people took this payment back after the backup was made"

// join gives an order the slot of the one that it was signed with, which was restored
// before it since its id is lower. It is false when nothing of that was missing.
func (j Journal) join(ctx context.Context, tx pg.Tx, r *Restored, lead string) (bool, error) {
	native, err := nativeMint(ctx, tx, r.Chain)
	if err != nil {
		return false, err
	}
	var to Status
	var pending, had bool
	err = tx.QueryRow(ctx, `
		SELECT l.status, l.funds_pending, r.funds_pending FROM dispatch_orders l, dispatch_orders r WHERE l.order_id = $1 AND r.order_id = $2`, lead, r.ID).
		Scan(&to, &pending, &had)
	switch {
	case err != nil:
		return false, fmt.Errorf("read order %s, which it was signed with: %w", lead, err)
	case r.Rides != "" && r.Rides != lead:
		return false, fmt.Errorf("the journal signed it with %s, and it has its slot with %s", lead, r.Rides)
	case r.Rides == lead && (!pending || had):
		return false, nil
	case r.Rides == lead:
		if err := wallet.Move(ctx, tx, claims(r.Order, native, money.Zero, false)...); err != nil {
			return false, err
		}
		if _, err := tx.Exec(ctx, `UPDATE dispatch_orders SET funds_pending = true WHERE order_id = $1`, r.ID); err != nil {
			return false, err
		}
		if r.Status != to {
			err = become(ctx, tx, r.ID, r.Status, to, "")
		}
		r.Signed, r.Status = true, to
		return true, err
	case r.Status == Refused:
		if err := become(ctx, tx, r.ID, Refused, Queued, ""); err != nil {
			return false, err
		}
	case r.Status != Queued:
		return false, fmt.Errorf("it is %s, and the journal signed it with %s", r.Status, lead)
	}
	if !pending {
		return false, fmt.Errorf("the journal signed it with %s, whose slot the database has without it", lead)
	}
	if r.Purpose == signer.Sweep && !r.New {
		// They reserve when they are placed.
		if err := wallet.Move(ctx, tx, claims(r.Order, native, money.Zero, false)...); err != nil {
			return false, err
		}
	}
	if err := become(ctx, tx, r.ID, Queued, Slotted, "last_error = NULL, funds_pending = true, rides_id = $4", lead); err != nil {
		return false, err
	}
	if to != Slotted {
		if err := become(ctx, tx, r.ID, Slotted, to, ""); err != nil {
			return false, err
		}
	}
	r.Rides, r.Status, r.Signed = lead, to, true
	detail := map[string]any{"rides": lead, "restored": true}
	return true, remember(ctx, tx, r.Order, "slotted", detail)
}

// queueAgain inserts an order as the journal has it.
func queueAgain(ctx context.Context, tx pg.Tx, m mirror.Remembered) (Order, error) {
	i := m.Intent
	account, err := wallet.ByRef(ctx, tx, i.Account())
	if err != nil {
		return Order{}, fmt.Errorf("the wallet that pays: %w", err)
	}
	o := Order{
		ID: i.ID, OrgID: i.From.OrgID, Purpose: i.Purpose, Chain: i.Chain, WalletID: account.ID, To: i.To, MintID: i.MintID,
		Contract: i.Contract, Amount: i.Amount, CustomerID: i.CustomerID, KeyHash: i.IdempotencyKeyHash, Status: Queued, CreatedAt: m.At,
		FeeDeducted: i.FeeDeducted, Product: i.Product, WhitelistedID: i.WhitelistedID,
	}
	if !i.FeeMax.IsZero() {
		o.FeeMax = &i.FeeMax
	}
	if i.Payer != nil {
		from, err := wallet.ByRef(ctx, tx, i.From)
		if err != nil {
			return o, fmt.Errorf("the wallet that is emptied: %w", err)
		}
		o.FromID = from.ID
	}
	if i.ToWallet != nil {
		to, err := wallet.ByRef(ctx, tx, *i.ToWallet)
		if err != nil {
			return o, fmt.Errorf("the wallet that receives: %w", err)
		}
		o.ToWalletID = to.ID
	}
	at := tx
	at.Now = m.At
	return o, Place(ctx, at, o)
}

// unknown are the signed transactions of an order that the database lacks. One whose
// payload is there, unsigned, is not missing: dispatch asks for its bytes again.
func (j Journal) unknown(ctx context.Context, tx pg.Tx, m mirror.Remembered) ([]mirror.Signature, error) {
	attempts, err := attemptsOf(ctx, tx, m.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(m.Signed), func(s mirror.Signature) bool {
		return slices.ContainsFunc(attempts[m.ID], func(a attempt) bool { return string(a.Payload) == string(s.Payload) && a.Act == s.Act })
	}), nil
}

// resume gives an order its slot, unless it has it, and the transactions that were
// signed for it. What was reserved for it is let go: the restored books may hold less
// than the lost ones did, and settleFunds asks for all of it again.
func (j Journal) resume(ctx context.Context, tx pg.Tx, r *Restored, missing []mirror.Signature) error {
	native, err := nativeMint(ctx, tx, r.Chain)
	if err != nil {
		return err
	}
	var pending bool
	if err := tx.QueryRow(ctx, `SELECT funds_pending FROM dispatch_orders WHERE order_id = $1`, r.ID).Scan(&pending); err != nil {
		return err
	}
	at := missing[0].Slot
	var reserved money.Amount
	switch r.Status {
	case Refused:
		if err := become(ctx, tx, r.ID, Refused, Queued, ""); err != nil {
			return err
		}
		fallthrough
	case Queued:
		if (r.Purpose == signer.Sweep || r.Purpose == signer.Return) && !r.New {
			// They reserve when they are placed.
			if err := wallet.Move(ctx, tx, claims(r.Order, native, money.Zero, false)...); err != nil {
				return err
			}
		}
		if err := become(ctx, tx, r.ID, Queued, Slotted, "last_error = NULL, funds_pending = true"); err != nil {
			return err
		}
		if err := takeSlot(ctx, tx, r.Order, missing[0]); err != nil {
			return err
		}
		if err := j.claim(ctx, tx, r.Order, at, native); err != nil {
			return err
		}
		r.Status = Slotted
	case Slotted, Signed, Broadcast:
		var had chain.Slot
		if err := tx.QueryRow(ctx, `SELECT nonce, lease, gas_reserved FROM dispatch_slots WHERE order_id = $1`, r.ID).Scan(&had.Nonce, &had.Lease, &reserved); err != nil {
			return fmt.Errorf("read its slot: %w", err)
		}
		if had != at {
			return fmt.Errorf("the journal signed %v for it and it has %v", at, had)
		}
		if !pending {
			if err := wallet.Move(ctx, tx, claims(r.Order, native, reserved, false)...); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE dispatch_orders SET funds_pending = true WHERE order_id = $1`, r.ID); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("it is %s, and the journal has a transaction of it that the database lacks", r.Status)
	}
	if err := j.keep(ctx, tx, r.Order, at, reserved, missing); err != nil {
		return err
	}
	if r.Status == Slotted {
		if err := become(ctx, tx, r.ID, Slotted, Signed, ""); err != nil {
			return err
		}
		r.Status = Signed
	}
	return nil
}

// takeSlot writes a slot that the journal names and moves the nonce counter past it.
func takeSlot(ctx context.Context, tx pg.Tx, o Order, signed mirror.Signature) error {
	at := signed.Slot
	_, err := tx.Exec(ctx, `
		INSERT INTO dispatch_slots (wallet_id, chain, nonce, lease, proof, org_id, order_id, gas_reserved, created_at, orders)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9)`, o.WalletID, o.Chain, at.Nonce, at.Lease, signed.Proof, o.OrgID, o.ID, signed.At, 1+len(signed.With))
	if pg.Violates(err, "dispatch_slots_pkey") || pg.Violates(err, "dispatch_slots_lease_once") || pg.Violates(err, "dispatch_slots_change_once") {
		return fmt.Errorf("%v of its wallet belongs to another order, which this database made after it was restored: "+
			"restore the backup once more and let nothing run on it before the import: %w", at, err)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", at, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO dispatch_accounts AS a (wallet_id, chain, org_id, next_nonce) VALUES ($1, $2, $3, $4)
		ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = greatest(a.next_nonce, excluded.next_nonce)`,
		o.WalletID, o.Chain, o.OrgID, at.Nonce+1)
	if err != nil {
		return fmt.Errorf("move the counter past %v: %w", at, err)
	}
	detail := slotted(at, o, o)
	detail["restored"] = true
	return remember(ctx, tx, o, "slotted", detail)
}

// keep stores transactions that were signed, and what the dearest of them may cost.
func (j Journal) keep(ctx context.Context, tx pg.Tx, o Order, slot chain.Slot, reserved money.Amount, signed []mirror.Signature) error {
	var version int
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM dispatch_attempts WHERE order_id = $1`, o.ID).Scan(&version); err != nil {
		return err
	}
	most := reserved
	for _, s := range signed {
		if s.Slot != slot {
			return fmt.Errorf("the journal signed %v and %v for it", slot, s.Slot)
		}
		fees, err := j.FeesOf(o.Chain, s.Payload)
		if err != nil {
			return fmt.Errorf("read the fees of transaction %s: %w", s.Hash, err)
		}
		cost, err := fees.Max()
		if err != nil {
			return fmt.Errorf("what transaction %s may cost: %w", s.Hash, err)
		}
		if most.Less(cost) {
			most = cost
		}
		version++
		at := tx
		at.Now = s.At
		if err := insertAttempt(ctx, at, o, version, s.Act, forFirst, fees, s.Payload); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_attempts SET raw = $3, tx_hash = $4, signed_at = $5
			WHERE order_id = $1 AND version = $2 AND raw IS NULL`, o.ID, version, s.Raw, s.Hash, s.At)
		if err != nil {
			return fmt.Errorf("store transaction %s: %w", s.Hash, err)
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE dispatch_slots SET gas_reserved = $2 WHERE order_id = $1`, o.ID, most); err != nil {
		return fmt.Errorf("note what its slot may cost: %w", err)
	}
	return nil
}

// claims are what an order with a slot has reserved, to be taken or let go.
func claims(o Order, native int, gas money.Amount, take bool) []wallet.Movement {
	at := func(mintID int, part wallet.Part, a money.Amount) wallet.Movement {
		m := wallet.Movement{WalletID: o.WalletID, OrgID: o.OrgID, MintID: mintID, Part: part}
		if part != wallet.GasReserved {
			m.WalletID = o.Holder()
		}
		if take {
			m.Plus = a
		} else {
			m.Minus = a
		}
		return m
	}
	moves := []wallet.Movement{at(native, wallet.GasReserved, gas)}
	switch o.Purpose {
	case signer.Payment, signer.Sweep:
		moves = append(moves, at(o.MintID, wallet.Reserved, o.Amount))
	case signer.Return:
		// What is flagged is held while it is not reserved, or a sweep would take it.
		held := at(o.MintID, wallet.Held, o.Amount)
		held.Plus, held.Minus = held.Minus, held.Plus
		moves = append(moves, at(o.MintID, wallet.Reserved, o.Amount), held)
	case signer.Gas:
		moves = append(moves, at(native, wallet.GasReserved, o.Amount))
	}
	return moves
}

// settleFunds reserves what restored orders need, in the order of their nonces, as
// far as their wallet holds it by now: the final walk finds again what had arrived,
// and earlier orders end. waiting says that one still lacks something. They were all
// paid for once, in this order, so that each comes to its turn.
func (d *Desk) settleFunds(ctx context.Context, from wallet.Wallet, open []slot) (waiting bool, err error) {
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
			native, err := nativeMint(ctx, tx, s.Chain)
			if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `UPDATE dispatch_orders SET funds_pending = false WHERE order_id = ANY ($1) AND funds_pending`, idsOf(orders))
			if err != nil {
				return fmt.Errorf("reserve for restored order %s: %w", s.ID, err)
			}
			if tag.RowsAffected() != int64(len(orders)) {
				return fmt.Errorf("reserve for restored order %s: %w", s.ID, errLost)
			}
			var gas money.Amount
			if err := tx.QueryRow(ctx, `SELECT gas_reserved FROM dispatch_slots WHERE order_id = $1`, s.ID).Scan(&gas); err != nil {
				return fmt.Errorf("read the gas of restored order %s: %w", s.ID, err)
			}
			var moves []wallet.Movement
			for i, o := range orders {
				if i > 0 {
					gas = money.Zero // the slot's is that of all
				}
				moves = append(moves, claims(o, native, gas, true)...)
			}
			return wallet.Move(ctx, tx, moves...)
		})
		switch {
		case errors.Is(err, wallet.ErrShort):
			waiting = true
		case errors.Is(err, errLost):
			return true, nil
		case err != nil:
			return true, err
		default:
			s.FundsPending = false
			d.log.Info("restored order has its funds", "order", s.ID, "wallet", from.ID)
		}
	}
	return waiting, nil
}
