package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// What an ended order waits for whose proof is dead, beside WantFreeze, WantGas,
// WantSimulation and WantChain.
const (
	WantBlock   Want = "BLOCK"   // its transaction is out again, or in a block that is not proven yet
	WantEarlier Want = "EARLIER" // an earlier nonce of its wallet cannot be sent again yet
	WantPerson  Want = "PERSON"  // the chain has ended its slot in another way than the books
)

// personAgain is how often a slot is looked at that waits for a person: the chain
// may yet change its mind.
const personAgain = time.Minute

// Repricer is a Listener that shows what its orders cost.
type Repricer interface {
	// Repriced tells that the transaction of an ended order was proven in another
	// block and has cost this there. The difference is posted by dispatch.
	Repriced(ctx context.Context, tx pg.Tx, o Order, fee money.Amount) error
}

// A question is an order that ended on a proof that is dead now: finality broke
// below it. Nothing of its end is undone. It is answered when the transaction that
// ended it is proven again.
//
// Each order of a slot is one of its own, as each has a fee and a proof; what is sent
// again is the transaction of all.
type question struct {
	Of Order
	slot
	Hash    chain.TxHash // of the transaction that ended it
	Fee     money.Amount // as it was posted
	ProofID int64        // dead
	Due     bool
}

// questions are a wallet's orders in question, by the number of their slots. While nobody has decided
// where the walk goes on there are none: the blocks may come back.
func questions(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) ([]question, error) {
	slots, err := slotsBy(ctx, tx, selectSlots+`
		WHERE o.order_id IN (SELECT coalesce(r.rides_id, r.order_id) FROM dispatch_in_question q JOIN dispatch_orders r USING (order_id) WHERE q.chain = $1 AND q.wallet_id = $2)
			AND NOT EXISTS (SELECT FROM scan_cursors c WHERE c.chain = $1 AND c.parted_above IS NOT NULL)
		ORDER BY s.nonce`, name, walletID)
	if err != nil {
		return nil, fmt.Errorf("orders in question: %w", err)
	}
	var found []question
	for _, s := range slots {
		for _, o := range s.orders() {
			q := question{slot: s, Of: o}
			err := tx.QueryRow(ctx, `
				SELECT tx_hash, fee, proof_id, attempt_after <= $2 FROM dispatch_orders
				WHERE order_id = $1 AND order_id IN (SELECT order_id FROM dispatch_in_question WHERE chain = $3)`, o.ID, tx.Now, name).
				Scan(&q.Hash, &q.Fee, &q.ProofID, &q.Due)
			if errors.Is(err, pgx.ErrNoRows) {
				continue // proven again already, or a person has not decided about it yet
			}
			if err != nil {
				return nil, fmt.Errorf("how order %s ended: %w", o.ID, err)
			}
			found = append(found, q)
		}
	}
	return found, nil
}

// answer takes a wallet's orders in question a step on, in the order of their
// nonces. What cannot be sent again holds up what stands behind it.
func (d *Desk) answer(ctx context.Context, from wallet.Wallet, all []question) (busy bool, err error) {
	due := false
	for _, q := range all {
		due = due || q.Due
	}
	if !due {
		return false, nil
	}
	acct, err := d.chain.Sender.Account(ctx, from.Address, placesOf(all)...)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errUnheard, err)
	}
	held, stopped := false, false
	for i, q := range all {
		if i > 0 && q.At != all[i-1].At {
			held = stopped // those of one slot hold up one another by nothing
		}
		proven, stops, err := d.answerOne(ctx, from, q, acct, held)
		if err != nil {
			return busy, fmt.Errorf("order %s in question: %w", q.Of.ID, err)
		}
		busy, stopped = busy || proven, stopped || stops
	}
	return busy, nil
}

// answerOne looks where the chain has an order's slot now. stops says that the slot
// is empty and nothing can be sent into it.
func (d *Desk) answerOne(ctx context.Context, from wallet.Wallet, q question, acct chain.Account, held bool) (proven, stops bool, err error) {
	payments := q.payments(from.Address)
	out, err := d.chain.Sender.Outcome(ctx, q.signed(), payments...)
	if err != nil {
		return false, false, fmt.Errorf("look for its transaction: %w", err)
	}
	used, _ := acct.Used(q.At)
	switch {
	case out == nil && q.Purpose == signer.Place:
		// It names a block that is too old, and the books have it made.
		return false, false, d.dispute(ctx, from, q, fmt.Sprintf("nothing has %v, and what made it cannot be sent again", q.At))
	case out == nil && !used:
		if err := d.absence(ctx, q.slot, nil); err != nil {
			return false, false, err
		}
		stops, err = d.sendAgain(ctx, from, q, held)
		return false, stops, err
	case out == nil:
		if foreign, err := d.foreign(ctx, q.slot, acct); err != nil {
			return false, false, err
		} else if foreign {
			return false, false, d.dispute(ctx, from, q, fmt.Sprintf("%v is used on the chain, and by none of its transactions", q.At))
		}
		return false, false, d.waits(ctx, q, WantBlock, fmt.Sprintf("%v is used on the chain and its transaction is not found yet", q.At))
	}
	if err := d.absence(ctx, q.slot, nil); err != nil {
		return false, false, err
	}
	var proof int64
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		proof, err = finality.Proof(ctx, tx, d.chain.Name, out.Block.Height, out.Block.Hash)
		return err
	})
	if err != nil {
		return false, false, err
	}
	if proof == 0 {
		return false, false, d.waits(ctx, q, WantBlock, fmt.Sprintf("%s is in block %d, which is not proven yet", out.Tx, out.Block.Height))
	}
	why, err := d.otherwise(ctx, q, payments, *out)
	if errors.Is(err, chain.ErrNotYet) {
		return false, false, d.waits(ctx, q, WantBlock, fmt.Sprintf("%s is in block %d, and the head is behind what made that final", out.Tx, out.Block.Height))
	}
	if err != nil {
		return false, false, err
	}
	if why != "" {
		return false, false, d.dispute(ctx, from, q, fmt.Sprintf("in block %d %s", out.Block.Height, why))
	}
	return d.proveAgain(ctx, q, *out, proof)
}

// otherwise tells in which way a final outcome is another than the one that the
// books have, or "".
func (d *Desk) otherwise(ctx context.Context, q question, ps []chain.Payment, out chain.Outcome) (string, error) {
	act := q.attempt(out.Tx).Act
	switch {
	case out.Tx != q.Hash:
		return fmt.Sprintf("%s has its slot (%s, succeeded: %v)", out.Tx, act, out.Succeeded), nil
	case act == signer.Cancel:
		return "", nil
	case out.Succeeded != (q.Of.Status == Paid):
		return fmt.Sprintf("%s has its slot (succeeded: %v)", out.Tx, out.Succeeded), nil
	case !out.Succeeded:
		return "", nil
	}
	whys, err := d.contradictions(ctx, ps, out)
	if err != nil {
		return "", err
	}
	for i, o := range q.orders() {
		if i < len(whys) && o.ID == q.Of.ID && whys[i] != "" { // a merge makes no payment
			return fmt.Sprintf("%s succeeded, but %s", out.Tx, whys[i]), nil
		}
	}
	return "", nil
}

// proveAgain gives an ended order the proof that is alive now. Its end was posted
// and told once; only what it costs now is posted.
func (d *Desk) proveAgain(ctx context.Context, q question, out chain.Outcome, proof int64) (proven, stops bool, err error) {
	var fee money.Amount
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The chain's freeze does not matter, which stands until a person lifts it: a
		// proof of the fork that was decided for is as good as any.
		if parted, err := finality.Parted(ctx, tx, q.Chain); err != nil {
			return err
		} else if parted {
			return fmt.Errorf("order %s while its chain has parted: %w", q.Of.ID, errLost)
		}
		o, err := lockOrder(ctx, tx, q.Of.ID)
		if err != nil {
			return err
		}
		fee, err = share(out.Fee, 1+len(q.Riders), o.Rides == "")
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET proof_id = $2, fee = $3, waiting_for = NULL, last_error = NULL
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $4 AND tx_hash = $5 AND fee = $6`,
			o.ID, proof, fee, q.ProofID, out.Tx, q.Fee)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errLost
		}
		if err := d.reprice(ctx, tx, o, q.Fee, fee, proof); err != nil {
			return err
		}
		return remember(ctx, tx, o, "proven_again", map[string]any{"hash": out.Tx, "fee": fee, "block": out.Block.Hash})
	})
	switch {
	case errors.Is(err, errLost):
		return true, false, nil // somebody else was first
	case errors.Is(err, wallet.ErrShort), errors.Is(err, ledger.ErrOverdraft):
		return false, false, d.waits(ctx, q, WantGas, "it has cost more than before, and the gas for that is not there: "+err.Error())
	case err != nil:
		return false, false, fmt.Errorf("prove it again: %w", err)
	}
	d.log.Info("order proven again", "order", q.Of.ID, "hash", string(out.Tx), "fee", fee.String())
	return true, false, nil
}

// reprice posts by how much the fee of a transaction that is in another block now
// is another one.
func (d *Desk) reprice(ctx context.Context, tx pg.Tx, o Order, was, is money.Amount, proof int64) error {
	more, less := missing(is, was), missing(was, is)
	if more.IsZero() && less.IsZero() {
		return nil
	}
	if l, ok := d.listeners[o.Purpose].(Repricer); ok {
		if err := l.Repriced(ctx, tx, o, is); err != nil {
			return err
		}
	}
	native, err := nativeMint(ctx, tx, o.Chain)
	if err != nil {
		return err
	}
	if err := wallet.Move(ctx, tx, wallet.Movement{WalletID: o.WalletID, OrgID: o.OrgID, MintID: native, Part: wallet.Gas, Plus: less, Minus: more}); err != nil {
		return err
	}
	var fork int
	if err := tx.QueryRow(ctx, `SELECT fork FROM finality_proofs WHERE proof_id = $1`, proof).Scan(&fork); err != nil {
		return err
	}
	p := feePosting(o, native, more)
	if more.IsZero() {
		p = feePosting(o, native, less)
		for i, l := range p.Legs {
			p.Legs[i].Debit, p.Legs[i].Credit = l.Credit, l.Debit
		}
	}
	p.Cause = ledger.Cause{Kind: ledger.FeeChange, ID: fmt.Sprintf("%s/%d", o.ID, fork)}
	return ledger.Post(ctx, tx, p)
}

// sendAgain sends the very bytes that had ended an order, unless something stands
// against it: a freeze, of its customer too, or a simulation that ends in another
// way than the books.
func (d *Desk) sendAgain(ctx context.Context, from wallet.Wallet, q question, held bool) (stops bool, err error) {
	a := q.attempt(q.Hash)
	if held {
		return true, d.waits(ctx, q, WantEarlier, "an earlier nonce of its wallet is not out")
	}
	var reason string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		reason, err = d.stopped(ctx, tx, q.committed()...)
		return err
	})
	if err != nil {
		return true, err
	}
	if reason != "" {
		return true, d.waits(ctx, q, WantFreeze, reason)
	}
	if silence(d.db.Clock()(), a) < d.conf.ResendAfter {
		return false, d.waits(ctx, q, WantBlock, "it is out")
	}
	if a.Act == signer.Pay {
		_, err := d.chain.Sender.Quote(ctx, q.payments(from.Address)...)
		var reverted *chain.RevertedError
		ended := func(s Status) bool {
			return slices.ContainsFunc(q.orders(), func(o Order) bool { return o.Status == s })
		}
		switch {
		case errors.As(err, &reverted) && ended(Paid):
			return true, d.waits(ctx, q, WantSimulation, "it would not pay now: "+reverted.Reason)
		case errors.As(err, &reverted):
		case err != nil:
			return true, d.waits(ctx, q, WantChain, err.Error())
		case ended(Failed):
			// Its amount was given back. Sent now, it would pay all the same.
			return true, d.waits(ctx, q, WantSimulation, "it failed, its amount was given back, and it would pay now")
		}
	}
	if _, err := d.send(ctx, q.slot, a); err != nil {
		return true, err
	}
	now := d.db.Clock()()
	for i := range q.Attempts { // which the others of its slot look at as well
		if q.Attempts[i].Hash == a.Hash {
			q.Attempts[i].LastSentAt = &now
		}
	}
	return false, d.waits(ctx, q, WantBlock, "it was sent again")
}

// waits writes down what an order in question waits for.
func (d *Desk) waits(ctx context.Context, q question, want Want, why string) error {
	next := d.conf.RetryAfter
	if want == WantPerson {
		next = max(next, personAgain)
	}
	if q.Of.WaitingFor != want {
		d.log.Warn("order in question", "order", q.Of.ID, "for", string(want), "why", why)
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = $2, last_error = $3, attempt_after = $4
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $5`, q.Of.ID, want, bounded(why), tx.Now.Add(next), q.ProofID)
		if err != nil {
			return fmt.Errorf("note what it waits for: %w", err)
		}
		return nil
	})
}

// dispute leaves an order to a person whose slot the chain has ended in another way
// than the books. Its wallet is frozen, once: whoever lifts that has seen it.
func (d *Desk) dispute(ctx context.Context, from wallet.Wallet, q question, chainSays string) error {
	why := fmt.Sprintf("the books have it %s by %s; the chain: %s", q.Of.Status, q.Hash, chainSays)
	if q.Of.WaitingFor == WantPerson {
		return d.waits(ctx, q, WantPerson, why)
	}
	d.log.Error("an order ended in another way after finality broke", "order", q.Of.ID, "wallet", from.ID, "why", why)
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o, err := lockOrder(ctx, tx, q.Of.ID)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = 'PERSON', last_error = $2, attempt_after = $3
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $4 AND waiting_for IS DISTINCT FROM 'PERSON'`,
			o.ID, bounded(why), tx.Now.Add(personAgain), q.ProofID)
		if err != nil {
			return fmt.Errorf("leave it to a person: %w", err)
		}
		if tag.RowsAffected() != 1 {
			return nil // somebody else was first
		}
		if err := freeze.Put(ctx, tx, freeze.Freeze{
			Scope: freeze.Wallet, OrgID: from.OrgID, WalletID: from.ID, Chain: d.chain.Name, Source: freeze.ByDispatch,
			Reason: fmt.Sprintf("order %s: %s", o.ID, why),
		}); err != nil {
			return err
		}
		return remember(ctx, tx, o, "disputed", map[string]any{"why": why})
	})
}
