package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

// follow takes a wallet's slots a step on: signs what is committed, sends what
// is stored, ends what is final, replaces what is too cheap. The slots come in
// the order of their nonces, and none is skipped: a hole would hold up the rest.
//
// It says where the account stands, unless something went wrong or changed.
func (d *Desk) follow(ctx context.Context, from wallet.Wallet, open []slot) (acct *chain.Account, busy bool, err error) {
	// A signer that says no or nothing stops new bytes. What is out already is
	// followed all the same: it may be in a block, and its end must not wait.
	var unsigned error
	for i := range open {
		signed, err := d.sign(ctx, from, &open[i])
		busy = busy || signed
		var refusal *signer.Refusal
		switch {
		case errors.Is(err, errLost):
			return nil, busy, err
		case errors.As(err, &refusal):
			filled, err := d.declined(ctx, from, open[i], refusal)
			if err != nil || filled {
				return nil, busy || filled, err // the rows changed
			}
		case err != nil:
			unsigned = err
		}
		if unsigned != nil {
			break
		}
		if open[i].leads() && len(open[i].signed()) == 0 {
			// Nothing behind it is signed before it is: the journal has no nonce
			// without all below it, whatever backup of the database meets it.
			break
		}
	}
	if _, err := d.settleFunds(ctx, from, open); err != nil {
		return nil, busy, err
	}
	acct, moved, err := d.followSigned(ctx, from, open)
	return acct, busy || moved, errors.Join(unsigned, err)
}

// followSigned takes the slots on that have bytes, up to the first that has none and
// leads others.
func (d *Desk) followSigned(ctx context.Context, from wallet.Wallet, open []slot) (_ *chain.Account, busy bool, err error) {
	acct, err := d.chain.Sender.Account(ctx, from.Address, placesOf(open)...)
	if err != nil {
		return nil, busy, fmt.Errorf("%w: %w", errUnheard, err)
	}
	if err := d.guardNonce(ctx, from, acct); err != nil {
		return nil, busy, err
	}
	known, err := d.horizon(ctx)
	if err != nil {
		return nil, busy, err
	}
	pushed := 0
	for _, s := range open {
		if len(s.signed()) == 0 { // frozen or refused before it was signed
			if s.leads() {
				return &acct, busy, nil
			}
			continue
		}
		var moved bool
		if used, _ := acct.Used(s.At); used || s.Purpose == signer.Place {
			if in, ok := d.seen(s.ID); ok && used && known.holds(in) {
				continue
			}
			moved, err = d.settle(ctx, from, s, acct)
		} else {
			// A fork may have taken back what had used its slot.
			d.see(s.ID, nil)
			if pushed++; s.leads() && pushed > d.conf.UnminedMax {
				// A fork gave back more than a mempool keeps. What stands before it goes first.
				continue
			}
			if err = d.absence(ctx, s, nil); err == nil {
				moved, err = d.push(ctx, from, s, acct.Next(s.At))
			}
		}
		busy = busy || moved
		if errors.Is(err, errLost) {
			return nil, true, nil // read the rows again
		}
		if err != nil {
			return nil, busy, fmt.Errorf("order %s: %w", s.ID, err)
		}
	}
	return &acct, busy, nil
}

// sign has the signer sign every committed transaction of a slot and stores the
// bytes. Asking again gives the same bytes.
func (d *Desk) sign(ctx context.Context, from wallet.Wallet, s *slot) (busy bool, err error) {
	for i, a := range s.Attempts {
		if a.Raw != nil || s.superseded(a) {
			continue
		}
		var reason string
		err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			reason, err = d.stopped(ctx, tx, s.committed()...)
			return err
		})
		if err != nil {
			return busy, err
		}
		if reason != "" {
			return busy, nil
		}
		if err := d.proveSlot(ctx, from, s); err != nil {
			return busy, err
		}
		atSign(s.Order)
		signed, err := d.signer.Sign(ctx, signer.SignRequest{IntentID: s.ID, With: s.with(), Slot: s.At, Act: a.Act, Payload: a.Payload, Proof: s.Proof})
		if err != nil {
			return busy, fmt.Errorf("sign attempt %d of order %s: %w", a.Version, s.ID, err)
		}
		atSigned(a)
		if err := d.store(ctx, *s, a, signed); err != nil {
			return busy, err
		}
		crash.Point("W13")
		atStored(s.Order)
		s.Attempts[i].Raw, s.Attempts[i].Hash = signed.Raw, signed.Hash
		if s.Status == Slotted {
			s.Status = Signed
			for j := range s.Riders {
				s.Riders[j].Status = Signed
			}
		}
		busy = true
	}
	return busy, nil
}

// store keeps the signed bytes before anything may send them.
func (d *Desk) store(ctx context.Context, s slot, a attempt, signed signer.Signed) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET raw = $3, tx_hash = $4, signed_at = $5
			WHERE order_id = $1 AND version = $2 AND raw IS NULL`, s.ID, a.Version, signed.Raw, signed.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("store attempt %d of order %s: %w", a.Version, s.ID, err)
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("store attempt %d of order %s: %w", a.Version, s.ID, errLost)
		}
		if orders[0].Status == Slotted {
			if err := becomeAll(ctx, tx, idsOf(orders), Slotted, Signed, ""); err != nil {
				return err
			}
		}
		if a.Act == signer.Pay {
			// Why a payment was cancelled stays for whoever asks; what kept a signature
			// waiting does not.
			if _, err := tx.Exec(ctx, `UPDATE dispatch_orders SET last_error = NULL WHERE order_id = ANY ($1) AND last_error IS NOT NULL`, idsOf(orders)); err != nil {
				return fmt.Errorf("forget what order %s waited for: %w", s.ID, err)
			}
		}
		if err := d.mirror(ctx, tx, signed.Entry); err != nil {
			return err
		}
		crash.Committing("W13")
		return nil
	})
}

// declined is what becomes of a slot in which the signer refuses a transaction. A
// payment that the policy does not allow any more, and that was never signed, can
// only be ended by filling its slot: the signer gives an intent one slot for ever.
// Every other refusal waits, in sight: time, the policy or a person ends it.
func (d *Desk) declined(ctx context.Context, from wallet.Wallet, s slot, r *signer.Refusal) (filled bool, err error) {
	what := "the signer refuses to sign in a slot: nothing behind it goes out of this wallet"
	switch {
	case len(s.signed()) > 0:
		what = "the signer refuses a replacement" // what it replaces can still be mined
	case r.Code == signer.RefusedSlot:
		// The journal has another story of this nonce, and the database would know it if
		// it were as young.
		if err := d.freezeAll(ctx, r.Message+"; the database is older than the signer's journal: stop the service, restore the backup again and run `coffer signer import`"); err != nil {
			return false, err
		}
	case s.Purpose == signer.Place: // nothing fills such a slot, and it holds up nothing
	case s.Purpose == signer.Merge: // what would fill it is the same
	case r.Code == signer.PolicyLimit || r.Code == signer.RefusedFee:
		if filled, err = d.fill(ctx, from, s, r); filled || err != nil {
			return filled, err
		}
	}
	d.alarm(ctx, s.ID, what, "order", s.ID, "wallet", from.ID, "slot", s.At.String(), "code", r.Code, "why", r.Message)
	return false, d.note(ctx, s, r.Error())
}

// fill commits a cancel to a slot whose payment was never signed and never will be.
// One that is refused for its fee as well is made anew when the market has become
// cheaper.
func (d *Desk) fill(ctx context.Context, from wallet.Wallet, s slot, r *signer.Refusal) (bool, error) {
	last := s.newest()
	again := last.Act == signer.Cancel
	if s.FundsPending || again && (r.Code != signer.RefusedFee || d.db.Clock()().Sub(last.CreatedAt) < d.conf.BumpAfter) {
		return false, nil
	}
	fees, err := d.chain.Sender.Quote(ctx, chain.Payment{From: from.Address, To: from.Address})
	if err != nil {
		return false, d.note(ctx, s, fmt.Sprintf("%v; and its slot cannot be filled yet: %v", r, err))
	}
	now, err := fees.Max()
	if err != nil {
		return false, fmt.Errorf("fee of a cancel of order %s: %w", s.ID, err)
	}
	if before, err := last.Fees.Max(); again && (err != nil || !now.Less(before)) {
		return false, nil
	}
	err = d.attempt(ctx, from, s, signer.Cancel, fees, reason{made: forRefusal, by: dispatcher, why: r.Error()})
	if errors.Is(err, wallet.ErrShort) {
		return false, nil
	}
	if err == nil {
		d.log.Error("the signer's policy does not let a payment pass any more: its slot is filled and it fails", "order", s.ID, "code", r.Code, "why", r.Message)
	}
	return err == nil, err
}

// note keeps what the open orders of a slot wait for where a person looks.
func (d *Desk) note(ctx context.Context, s slot, why string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_orders SET last_error = $2
			WHERE order_id = ANY ($1) AND status IN ('SLOTTED', 'SIGNED', 'BROADCAST') AND last_error IS DISTINCT FROM $2`, idsOf(orders), bounded(why))
		if err != nil {
			return fmt.Errorf("note why order %s waits: %w", s.ID, err)
		}
		return nil
	})
}

// guardNonce freezes a wallet whose account has used a nonce that we never gave
// to anything: somebody else signs with its key, or this database is older than
// the chain.
func (d *Desk) guardNonce(ctx context.Context, from wallet.Wallet, acct chain.Account) error {
	var next uint64
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT next_nonce FROM dispatch_accounts WHERE wallet_id = $1 AND chain = $2`, from.ID, d.chain.Name).Scan(&next)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the next nonce: %w", err)
	}
	if acct.Leased || acct.Latest <= next { // what takes a lease is seen by whoever has it
		return nil
	}
	return d.freezeWallet(ctx, from, fmt.Sprintf("the chain is at nonce %d, and nothing of ours has a nonce above %d", acct.Latest, next))
}

func (d *Desk) freezeWallet(ctx context.Context, from wallet.Wallet, why string) error {
	d.log.Error("wallet frozen: a transaction that is not ours used its key", "wallet", from.ID, "address", string(from.Address), "why", why)
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, d.frozen(from, why))
	})
	if err != nil {
		return fmt.Errorf("freeze wallet %s: %w", from.ID, err)
	}
	return nil
}

// frozen is a freeze of a wallet by this package.
func (d *Desk) frozen(of wallet.Wallet, why string) freeze.Freeze {
	return freeze.Freeze{Scope: freeze.Wallet, OrgID: of.OrgID, WalletID: of.ID, Chain: d.chain.Name, Source: freeze.ByDispatch, Reason: why}
}

// push sends a slot's newest bytes when it is time, and makes a replacement
// with a higher fee when they have waited too long at the head of the line.
func (d *Desk) push(ctx context.Context, from wallet.Wallet, s slot, head bool) (busy bool, err error) {
	now := d.db.Clock()()
	a := s.newestSigned()
	if head && !s.FundsPending && a.Version == s.newest().Version && a.SentAt != nil && now.Sub(*a.SentAt) >= d.conf.BumpAfter {
		due := true
		if s.Purpose == signer.Merge {
			if due, err = d.hinders(ctx, s); err != nil {
				return false, err
			}
		}
		// Whatever became of the replacement, the bytes that are there are sent again.
		if due {
			busy, err = d.replace(ctx, from, s)
		}
		if errors.Is(err, errLost) {
			return busy, err
		}
	}
	if busy || silence(now, a) < d.conf.ResendAfter {
		return busy, err
	}
	sent, sendErr := d.send(ctx, s, a)
	return sent, errors.Join(err, sendErr)
}

// send gives stored bytes to the providers. Only "taken" and "have it" change
// the order; every other answer leaves it as it is, to be sent again.
func (d *Desk) send(ctx context.Context, s slot, a attempt) (busy bool, err error) {
	ctx, span := trace.About(ctx, "dispatch send", s.ID)
	defer func() { span.End(err) }()
	var reason string
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := freeze.Hold(ctx, tx); err != nil {
			return err
		}
		if reason, err = d.stopped(ctx, tx, s.committed()...); err != nil || reason != "" {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_attempts SET sent_at = coalesce(sent_at, $3), last_sent_at = $3
			WHERE order_id = $1 AND version = $2`, s.ID, a.Version, tx.Now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("mark attempt %d as sent: %w", a.Version, err)
	}
	if reason != "" {
		return false, nil
	}
	answer, words := d.chain.Sender.Send(ctx, a.Raw)
	atSent(s.Order)
	taken := answer == chain.Accepted || answer == chain.Known
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if taken && s.Status == Signed {
			if err := d.broadcast(ctx, tx, s, a); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET last_answer = $3 WHERE order_id = $1 AND version = $2`, s.ID, a.Version, bounded(words)); err != nil {
			return fmt.Errorf("keep the answer to attempt %d: %w", a.Version, err)
		}
		crash.Committing("W19")
		return nil
	})
	if err == nil {
		crash.Point("W19")
	}
	return taken && s.Status == Signed, err
}

// broadcast tells that a transaction is out. That a slot is being filled with nothing
// is no news of a payment: its feature hears of that when it has ended.
func (d *Desk) broadcast(ctx context.Context, tx pg.Tx, s slot, a attempt) error {
	orders, err := lockSlot(ctx, tx, s.ID)
	if err != nil {
		return err
	}
	if err := becomeAll(ctx, tx, idsOf(orders), Signed, Broadcast, "broadcast_at = $4, tx_hash = $5", tx.Now, a.Hash); err != nil {
		return err
	}
	for _, o := range orders {
		o.Status = Broadcast
		if a.Act == signer.Pay {
			if err := d.listeners[o.Purpose].Broadcast(ctx, tx, o, a.Hash); err != nil {
				return err
			}
		}
		if err := remember(ctx, tx, o, "broadcast", map[string]any{"hash": a.Hash, "act": a.Act}); err != nil {
			return err
		}
	}
	return nil
}

// replace raises the fee of what waits at the head of the line, when the cap and the
// wallet's gas allow it.
func (d *Desk) replace(ctx context.Context, from wallet.Wallet, s slot) (bool, error) {
	err := d.raise(ctx, from, s, s.newest().Act, reason{made: forFee, by: dispatcher})
	switch {
	case errors.Is(err, errCapped), errors.Is(err, errUsedUp):
		d.alarm(ctx, s.ID, "a transaction waits and its fee may not be raised further", "order", s.ID, "hash", string(s.newest().Hash), "why", err.Error())
		return false, d.note(ctx, s, err.Error())
	case errors.Is(err, wallet.ErrShort):
		d.alarm(ctx, s.ID, "a transaction waits and its wallet lacks the gas to raise its fee", "order", s.ID, "wallet", from.ID)
		return false, d.note(ctx, s, "its wallet lacks the gas to raise its fee")
	}
	return err == nil, err
}

// errCapped says that the configured cap, or the order's own limit, forbids a higher fee.
var errCapped = errors.New("its fee is at the configured cap, or at the limit of its request, and is not raised further")

// errUsedUp says that the coins of a slot, which takes no others, do not pay a higher fee.
var errUsedUp = errors.New("the coins of its slot leave too little for a higher fee, so it is not raised further")

// dispatcher is this package as an actor.
var dispatcher = audit.System("dispatch")

// reason is why a transaction is added to a slot, and who wants it.
type reason struct {
	made madeFor
	by   audit.Actor
	why  string // kept with the order, unless ""
}

// raise commits a transaction to a slot that is priced to replace what waits there:
// the same payment, or a cancel. It is signed and sent like the first. Errors:
// errCapped, errUsedUp, wallet.ErrShort for gas, errLost.
func (d *Desk) raise(ctx context.Context, from wallet.Wallet, s slot, act signer.Act, because reason) error {
	fees, ok, err := d.chain.Sender.Bump(ctx, s.newest().Fees)
	if err != nil {
		return fmt.Errorf("price a replacement: %w", err)
	}
	if !ok {
		return errCapped
	}
	if act == signer.Pay {
		cost, err := fees.Max()
		part := signer.Part(cost, 1+len(s.Riders))
		if err != nil || slices.ContainsFunc(s.orders(), func(o Order) bool { return o.dear(part) }) {
			return errCapped
		}
	}
	return d.attempt(ctx, from, s, act, fees, because)
}

func (d *Desk) attempt(ctx context.Context, from wallet.Wallet, s slot, act signer.Act, fees chain.Fees, because reason) error {
	var payments []chain.Payment
	if act == signer.Pay {
		payments = s.payments(from.Address)
	}
	payload, err := d.chain.Sender.Build(from.Address, s.At, fees, payments...)
	var short *chain.ShortError
	if errors.As(err, &short) {
		return errUsedUp
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
		// A payment is replaced when it is signed; a slot without a signature is only filled.
		if o.Status != Signed && o.Status != Broadcast && (o.Status != Slotted || act == signer.Pay) {
			return fmt.Errorf("replace in order %s: %w", o.ID, errLost)
		}
		if more := missing(cost, s.GasReserved); !more.IsZero() {
			native, err := nativeMint(ctx, tx, o.Chain)
			if err != nil {
				return err
			}
			if err := wallet.Move(ctx, tx, wallet.Movement{WalletID: from.ID, OrgID: o.OrgID, MintID: native, Part: wallet.GasReserved, Plus: more}); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `UPDATE dispatch_slots SET gas_reserved = $2 WHERE order_id = $1 AND gas_reserved = $3`, o.ID, cost, s.GasReserved)
			if err != nil {
				return fmt.Errorf("reserve gas for a replacement: %w", err)
			}
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("reserve gas for a replacement: %w", errLost)
			}
		}
		version := s.newest().Version + 1
		if err := insertAttempt(ctx, tx, o, version, act, because.made, fees, payload); err != nil {
			return err
		}
		if because.why != "" {
			if _, err := tx.Exec(ctx, `UPDATE dispatch_orders SET last_error = $2 WHERE order_id = ANY ($1)`, idsOf(orders), bounded(because.why)); err != nil {
				return fmt.Errorf("note why order %s is replaced: %w", o.ID, err)
			}
		}
		detail := map[string]any{"act": act, "version": version, "feeCap": fees.FeeCap}
		if because.why != "" {
			detail["why"] = because.why
		}
		for _, o := range orders {
			if err := rememberBy(ctx, tx, because.by, o, "replaced", detail); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle looks for a slot's transaction in a block and ends the order when that
// block is proven final.
func (d *Desk) settle(ctx context.Context, from wallet.Wallet, s slot, acct chain.Account) (busy bool, err error) {
	payments := s.payments(from.Address)
	out, err := d.chain.Sender.Outcome(ctx, s.signed(), payments...)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil // it is in a block that nobody has the results of yet
	}
	if err != nil {
		return false, fmt.Errorf("look for its transaction: %w", err)
	}
	if out == nil && s.Purpose == signer.Place {
		return d.renew(ctx, from, s)
	}
	if out == nil {
		return false, d.absent(ctx, from, s, acct)
	}
	if err := d.absence(ctx, s, nil); err != nil {
		return false, err
	}
	if s.Status == Signed {
		return true, d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return d.broadcast(ctx, tx, s, s.attempt(out.Tx)) })
	}
	var (
		proof  int64
		broken bool
	)
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if broken, err = freeze.FinalityBroken(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT proof_id FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`,
			d.chain.Name, out.Block.Height, out.Block.Hash).Scan(&proof)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for the proof of its block: %w", err)
	}
	if broken {
		// The proven block may not be on the chain any more: neither a settlement
		// nor a release can be taken back.
		return false, nil
	}
	if proof == 0 {
		crash.Point("W22")
		err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			orders, err := lockSlot(ctx, tx, s.ID)
			if err != nil || orders[0].Status != Broadcast {
				return err
			}
			for _, o := range orders {
				if err := d.listeners[o.Purpose].Included(ctx, tx, o, out.Tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			d.see(s.ID, &inclusion{out.Block.Height, out.Block.Hash})
		}
		return false, err
	}
	d.see(s.ID, nil)
	if s.FundsPending {
		return false, nil // its funds are still to be found again
	}
	if s.attempt(out.Tx).Act == signer.Pay && out.Succeeded {
		whys, err := d.contradictions(ctx, payments, *out)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil // the head went back behind a block that is proven, and grows again
		}
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(whys, func(why string) bool { return why != "" }) {
			return true, d.stick(ctx, s, *out, proof, whys)
		}
	}
	atFinal(s.Order, out.Succeeded)
	return true, d.end(ctx, from, s, *out, proof)
}

// absent is a used nonce without a transaction of ours.
func (d *Desk) absent(ctx context.Context, from wallet.Wallet, s slot, acct chain.Account) error {
	if foreign, err := d.foreign(ctx, s, acct); err != nil || !foreign {
		return err
	}
	return d.freezeWallet(ctx, from, fmt.Sprintf("%v is used on the chain, and by none of the transactions of order %s", s.At, s.ID))
}

// foreign tells whether a used nonce that has no transaction of ours counts as
// somebody else's. A provider may lag, so it has to stay so for a while, at a final
// nonce. The row remembers since when: a service that is restarted again and again
// would otherwise never come to the end of the while.
func (d *Desk) foreign(ctx context.Context, s slot, acct chain.Account) (bool, error) {
	if _, used := acct.Used(s.At); !used {
		return false, d.absence(ctx, s, nil)
	}
	now := d.db.Clock()().UTC()
	if s.AbsentSince == nil {
		return false, d.absence(ctx, s, &now)
	}
	return now.Sub(*s.AbsentSince) >= d.conf.ForeignAfter, nil
}

// absence writes down since when a slot's transaction is missing, or nil that it is not.
func (d *Desk) absence(ctx context.Context, s slot, since *time.Time) error {
	if since == nil && s.AbsentSince == nil {
		return nil
	}
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET absent_since = $2 WHERE order_id = $1`, s.ID, since)
		return err
	})
	if err != nil {
		return fmt.Errorf("note that nothing of ours is in the slot of order %s: %w", s.ID, err)
	}
	return nil
}

// end settles an order in one transaction: its status, what the wallets hold,
// what its feature posts, the fee.
func (d *Desk) end(ctx context.Context, from wallet.Wallet, s slot, out chain.Outcome, proof int64) (err error) {
	ctx, span := trace.About(ctx, "dispatch end", s.ID)
	defer func() { span.End(err) }()
	act := s.attempt(out.Tx).Act
	e := End{Paid: act == signer.Pay && out.Succeeded, Cancelled: act == signer.Cancel, Hash: out.Tx, Fee: out.Fee, ProofID: proof, Block: out.Block}
	e.Refused = e.Cancelled && s.attempt(out.Tx).MadeFor == forRefusal
	e.PayeeFailed = act == signer.Pay && !out.Succeeded && d.payeeFailed(ctx, from, s)
	e.Rent = s.rent(out)
	e.Replaced = s.others(out.Tx)
	to := Failed
	if e.Paid {
		to = Paid
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// Held before the order: a break that is decided meanwhile waits, and the
		// proof is alive at the commit.
		if broken, err := finality.Hold(ctx, tx, s.Chain); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("end order %s while the chain's finality is broken: %w", s.ID, errLost)
		}
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		ends := make([]ending, len(orders))
		for i, o := range orders {
			o.Status = Broadcast // or it is not what was read, and the swap says so
			ends[i] = ending{o, e}
			if ends[i].Fee, err = share(e.Fee, len(orders), i == 0); err != nil {
				return err
			}
		}
		if err := d.finish(ctx, tx, ends...); err != nil {
			return err
		}
		atEnding(e)
		return nil
	})
	if err != nil {
		return err
	}
	atEnded(s.Order, e)
	d.log.Info("order ended", "order", s.ID, "with", s.with(), "status", string(to), "hash", string(e.Hash), "fee", e.Fee.String())
	return nil
}

// rent is what a payment that had its transaction to itself left in an account that it made
// for its payee. Of several it is unknown whose it is, and no chain that has such accounts
// pays strangers together.
func (s slot) rent(out chain.Outcome) money.Amount {
	if s.Purpose != signer.Payment || len(s.Riders) > 0 {
		return money.Zero
	}
	return out.Rent
}

// payeeFailed tells whether a payment that the chain has refused was refused because of its
// payee. Native coin runs the payee's code and nothing else that could refuse it. Of
// anything else the chain is asked whether it would refuse this payment still, and not one
// to ourselves. It is false where no provider answers, and where others were in the transaction.
func (d *Desk) payeeFailed(ctx context.Context, from wallet.Wallet, s slot) bool {
	if s.Purpose != signer.Payment || len(s.Riders) > 0 {
		return false
	}
	if s.Contract == "" && s.Chain.Family() == chain.EVM {
		return true
	}
	_, err := d.chain.Sender.Quote(ctx, s.payment(from.Address))
	var reverted *chain.RevertedError
	if !errors.As(err, &reverted) {
		return false
	}
	cause, err := d.cause(ctx, from, candidate{Order: s.Order}, reverted)
	return err == nil && (cause == chain.CausePayee || cause == chain.CauseAmount)
}

// An ending is an order with its end, in which the fee is its share.
type ending struct {
	Order
	End
}

// finish ends orders of one slot that are locked: their status, what their feature posts,
// what the wallets hold, the fee.
func (d *Desk) finish(ctx context.Context, tx pg.Tx, ends ...ending) error {
	native, err := nativeMint(ctx, tx, ends[0].Chain)
	if err != nil {
		return err
	}
	var postings []ledger.Posting
	var moves []wallet.Movement
	for i := range ends {
		o, e := &ends[i].Order, ends[i].End
		was, to := o.Status, Failed
		if e.Paid {
			to = Paid
		}
		if err := become(ctx, tx, o.ID, was, to, "ended_at = $4, tx_hash = $5, fee = $6, proof_id = $7, rent = $8, payee_failed = $9", tx.Now, e.Hash, e.Fee, e.ProofID, e.Rent, e.PayeeFailed); err != nil {
			return err
		}
		o.Status = to
		more, err := d.listeners[o.Purpose].Ended(ctx, tx, *o, e)
		if err != nil {
			return err
		}
		postings = append(postings, more...)
		if !e.Fee.IsZero() {
			postings = append(postings, feePosting(*o, native, e.Fee))
		}
		reserved, err := gasReserved(ctx, tx, *o)
		if err != nil {
			return err
		}
		moves = append(moves, moved(*o, e, native, reserved)...)
		if o.Chain.Pooled() { // the lead's; who rides has none
			if err := coin.Ended(ctx, tx, o.ID, e.Hash, o.Purpose == signer.Return && !e.Paid); err != nil {
				return err
			}
		}
	}
	if err := wallet.Move(ctx, tx, moves...); err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return err
	}
	for _, end := range ends {
		if err := remember(ctx, tx, end.Order, "ended", map[string]any{"status": end.Status, "hash": end.Hash, "fee": end.Fee, "block": end.Block.Hash}); err != nil {
			return err
		}
	}
	return nil
}

// gasReserved is an order's share of what its slot has reserved.
func gasReserved(ctx context.Context, tx pg.Tx, o Order) (money.Amount, error) {
	var whole money.Amount
	var orders int
	err := tx.QueryRow(ctx, `SELECT gas_reserved, orders FROM dispatch_slots WHERE order_id = coalesce(nullif($2, ''), $1)`, o.ID, o.Rides).Scan(&whole, &orders)
	if err != nil {
		return whole, fmt.Errorf("read the gas reserved for order %s: %w", o.ID, err)
	}
	return share(whole, orders, o.Rides == "")
}

// moved is what the end of an order does to what the wallets hold.
func moved(o Order, e End, native int, gasReserved money.Amount) []wallet.Movement {
	at := func(walletID string, mintID int, part wallet.Part) wallet.Movement {
		return wallet.Movement{WalletID: walletID, OrgID: o.OrgID, MintID: mintID, Part: part}
	}
	plus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Plus = a; return m }
	minus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Minus = a; return m }

	moves := []wallet.Movement{
		minus(at(o.WalletID, native, wallet.GasReserved), gasReserved),
		minus(at(o.WalletID, native, wallet.Gas), e.Fee),
	}
	switch o.Purpose {
	case signer.Payment, signer.Sweep, signer.Return:
		moves = append(moves, minus(at(o.Holder(), o.MintID, wallet.Reserved), o.Amount))
		if e.Paid {
			moves = append(moves, plus(at(o.Holder(), o.MintID, wallet.Swept), o.Amount))
		} else if o.Purpose == signer.Return {
			moves = append(moves, plus(at(o.Holder(), o.MintID, wallet.Held), o.Amount)) // flagged, as before
		}
		if e.Paid && o.Purpose == signer.Sweep {
			moves = append(moves, plus(at(o.ToWalletID, o.MintID, wallet.Credited), o.Amount))
		}
	case signer.Gas:
		moves = append(moves, minus(at(o.WalletID, native, wallet.GasReserved), o.Amount))
		if e.Paid {
			moves = append(moves,
				minus(at(o.WalletID, native, wallet.Gas), o.Amount),
				plus(at(o.ToWalletID, native, wallet.Gas), o.Amount))
		}
	}
	return moves
}

// feePosting takes the actual fee from the operator's gas and notes it as owed
// by the organization, whether the transaction succeeded or not.
func feePosting(o Order, native int, fee money.Amount) ledger.Posting {
	account := func(k ledger.Kind) ledger.Account { return ledger.Account{OrgID: o.OrgID, MintID: native, Kind: k} }
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.NetworkFee, ID: o.ID},
		Legs: []ledger.Leg{
			{Debit: account(ledger.Gas), Credit: account(ledger.Custody), Amount: fee},
			{Debit: account(ledger.FeesDue), Credit: account(ledger.FeesBilled), Amount: fee},
		},
	}
}

// stick keeps a final transaction that succeeded and did not move what it was made
// to move. Nothing is released and nothing settled: the token is quarantined and a
// person decides. The transaction of several payments keeps all of them, and each is
// decided by itself; whys says what speaks against which, "" for nothing.
func (d *Desk) stick(ctx context.Context, s slot, out chain.Outcome, proof int64, whys []string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		if len(orders) != len(whys) {
			return fmt.Errorf("the slot of order %s: %w", s.ID, errLost)
		}
		quarantined := map[int]bool{}
		for i, o := range orders {
			fee, err := share(out.Fee, len(orders), i == 0)
			if err != nil {
				return err
			}
			why := whys[i]
			if why == "" {
				why = "another payment of its transaction is not what it says"
			}
			if err := become(ctx, tx, o.ID, Broadcast, Stuck, "tx_hash = $4, fee = $5, proof_id = $6, last_error = $7, rent = $8", out.Tx, fee, proof, bounded(why), s.rent(out)); err != nil {
				return err
			}
			if whys[i] != "" && !quarantined[o.MintID] {
				quarantined[o.MintID] = true
				if err := mint.Quarantine(ctx, tx, o.MintID, fmt.Sprintf("order %s: %s succeeded, but %s", o.ID, out.Tx, why)); err != nil {
					return err
				}
			}
			if err := remember(ctx, tx, o, "stuck", map[string]any{"hash": out.Tx, "block": out.Block.Hash, "why": why}); err != nil {
				return err
			}
			d.log.Error("a payment succeeded on chain and did not do what it says", "order", o.ID, "hash", string(out.Tx), "why", why)
		}
		return nil
	})
}

// Age is how long the oldest order of the chain has been open that somebody waits for; zero
// when none is. Nobody waits for a merge.
func (d *Desk) Age(ctx context.Context) (age time.Duration, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var oldest *time.Time
		if err := tx.QueryRow(ctx, `
			SELECT min(created_at) FROM dispatch_orders
			WHERE chain = $1 AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST') AND purpose <> 'MERGE'`, d.chain.Name).Scan(&oldest); err != nil {
			return err
		}
		if oldest != nil {
			age = tx.Now.Sub(*oldest)
		}
		return nil
	})
	return age, err
}
