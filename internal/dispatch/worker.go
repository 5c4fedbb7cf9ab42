package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Config holds the intervals and limits of a Worker. A zero value means the default.
type Config struct {
	Poll        time.Duration // pause between two rounds when there is nothing to do; 1 s
	RetryAfter  time.Duration // before a waiting queued order is looked at again; 2 s
	ResendAfter time.Duration // before bytes that are in no block are sent again; 15 s
	BumpAfter   time.Duration // before the oldest unmined transaction gets a higher fee; 60 s
	// ForeignAfter is how long a used nonce may lack a transaction of Coffer before its wallet is
	// frozen; 60 s.
	ForeignAfter time.Duration
	WatchEvery   time.Duration // between two checks of a wallet's idle nonce accounts; 1 min
	UnminedMax   int           // transactions of one wallet that are in no block; UnminedDefault
	InFlightMax  int           // transactions of one wallet that are not final, in a block or not; InFlightDefault
	WalletsMax   int           // wallets processed in parallel, per chain; 8
}

const (
	// UnminedDefault is the number of transactions that every EVM node keeps of one account,
	// however full its mempool is: geth's txpool limit accountslots. A node may drop what exceeds
	// it.
	UnminedDefault = 16
	// InFlightDefault suffices for 4,000 payments an hour where finality takes a quarter of an
	// hour. A transaction in a block takes no room in a mempool, but the gas reserved for it is
	// released only when it is final.
	InFlightDefault = 1024
)

func (c Config) withDefaults() Config {
	setDefault := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	setDefault(&c.Poll, time.Second)
	setDefault(&c.RetryAfter, 2*time.Second)
	setDefault(&c.ResendAfter, 15*time.Second)
	setDefault(&c.BumpAfter, time.Minute)
	setDefault(&c.ForeignAfter, time.Minute)
	setDefault(&c.WatchEvery, time.Minute)
	if c.InFlightMax <= 0 {
		c.InFlightMax = InFlightDefault
	}
	if c.UnminedMax <= 0 {
		c.UnminedMax = UnminedDefault
	}
	if c.WalletsMax <= 0 {
		c.WalletsMax = 8
	}
	return c
}

// MirrorFunc copies a journal entry of the signer into the database, in the caller's transaction.
// An error says that the journal is not the one that this database belongs to.
type MirrorFunc func(ctx context.Context, tx pg.Tx, e signer.Entry) error

// Worker takes the orders of one chain forward.
type Worker struct {
	db            *pg.DB
	chain         chain.Chain
	slots         slotModel
	signer        signer.Signer
	mirror        MirrorFunc
	listeners     map[signer.Purpose]Listener
	conf          Config
	log           *slog.Logger
	changeWallets WalletIssuer // nil if the Worker has none
	voider        *Voider      // nil if another process has the signer void orders

	mu           sync.Mutex
	lastAlarms   map[string]time.Time   // order -> time of its last alarm; may be lost
	included     map[string]inclusion   // order -> the block, not final yet, of its transaction; may be lost
	nextWatch    map[string]time.Time   // wallet -> time of the next check of its idle nonce accounts; may be lost
	idleAccounts map[string]idleAccount // nonce account -> result of its last check; may be lost
	slotProofs   map[string]slotProof   // slot key -> its proof, or why it has none; may be lost
}

// New makes the Worker of a chain. It does nothing until Run or RunRound is called.
func New(
	db *pg.DB, ch chain.Chain, s signer.Signer, m MirrorFunc, listeners map[signer.Purpose]Listener, conf Config,
	log *slog.Logger, options ...Option,
) *Worker {
	d := &Worker{
		db: db, chain: ch, signer: s, mirror: m, listeners: listeners, conf: conf.withDefaults(),
		log: log.With("chain", string(ch.Name)), lastAlarms: map[string]time.Time{}, included: map[string]inclusion{},
		nextWatch: map[string]time.Time{}, idleAccounts: map[string]idleAccount{}, slotProofs: map[string]slotProof{},
	}
	d.slots = newSlotModel(d, ch.Name)
	for _, apply := range options {
		apply(d)
	}
	return d
}

// LockName returns the name of the advisory lock that the Worker of a chain holds while it works,
// in any process. A process that can take the lock knows that no payment is in progress.
func LockName(name chain.Name) string { return "dispatch/" + string(name) }

// Run works until ctx ends. Any number of processes may run it. One at a time holds the chain's
// advisory lock, which only saves work. Two holders do no harm because of the compare-and-swaps,
// the slots' unique key and the signer's journal.
func (d *Worker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lock, ok, err := d.db.AdvisoryLock(ctx, LockName(d.chain.Name))
		if err != nil && ctx.Err() == nil {
			d.log.Warn("dispatch waits for the database", "err", err)
		}
		if err != nil || !ok {
			sleep(ctx, d.conf.Poll)
			continue
		}
		for lock.Context().Err() == nil && ctx.Err() == nil {
			lockCtx, cancel := context.WithCancel(lock.Context())
			stop := context.AfterFunc(ctx, cancel)
			busy, err := d.RunRound(lockCtx)
			stop()
			cancel()
			if err != nil && ctx.Err() == nil {
				d.log.Warn("dispatch round", "err", err)
			}
			if !busy || err != nil {
				sleep(ctx, d.conf.Poll)
			}
		}
		lock.Release()
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// RunRound takes every wallet that has open orders one step forward. busy says that something
// changed, so another round is worthwhile at once. An error in one wallet does not stop the others.
func (d *Worker) RunRound(ctx context.Context) (busy bool, err error) {
	recalled, lateErr := d.recallAllLate(ctx)
	var wallets []string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT wallet_id FROM (
				SELECT wallet_id, created_at FROM dispatch_orders
				WHERE chain = $1 AND (status IN ('SLOTTED', 'SIGNED', 'BROADCAST') OR status = 'QUEUED' AND attempt_after <= $2)
				UNION ALL
				SELECT o.wallet_id, o.created_at FROM dispatch_reorged q JOIN dispatch_orders o USING (order_id)
				WHERE q.chain = $1 AND o.attempt_after <= $2
			) AS open GROUP BY wallet_id ORDER BY min(created_at)`, d.chain.Name, tx.Now)
		if err != nil {
			return err
		}
		wallets, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return recalled, errors.Join(lateErr, fmt.Errorf("find wallets with orders: %w", err))
	}
	// First, so that a nonce account that a foreign transaction used is known before it is given
	// out.
	watchErr := d.slots.watch(ctx)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, d.conf.WalletsMax)
		errs  = []error{lateErr, watchErr}
	)
	busy = recalled
	for _, id := range wallets {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			walletBusy, walletErr := d.stepWallet(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			busy = busy || walletBusy
			if walletErr != nil && !errors.Is(walletErr, errLostRace) {
				errs = append(errs, fmt.Errorf("wallet %s: %w", id, walletErr))
			}
		})
	}
	wg.Wait()
	return busy, errors.Join(errs...)
}

// alarmInterval is how often a lasting problem is reported again.
const alarmInterval = time.Minute

// raiseAlarm reports a problem that needs the operator, at most once per alarmInterval and order.
func (d *Worker) raiseAlarm(ctx context.Context, orderID, message string, args ...any) {
	now := d.db.Clock()()
	d.mu.Lock()
	last, found := d.lastAlarms[orderID]
	isDue := !found || now.Sub(last) >= alarmInterval
	if isDue {
		d.lastAlarms[orderID] = now
	}
	for id, alarmedAt := range d.lastAlarms {
		if now.Sub(alarmedAt) >= 2*alarmInterval {
			delete(d.lastAlarms, id)
		}
	}
	d.mu.Unlock()
	if isDue {
		d.log.ErrorContext(ctx, message, args...)
	}
}

// errNoAccountState says that the providers did not return the state of an account.
var errNoAccountState = errors.New("read the state of the account")

// stepWallet takes one wallet's orders a step forward:
//
//   - first the orders that ended on a proof that is no longer live, because their nonces are the
//     lowest;
//   - then the orders with a slot, by nonce;
//   - then the queue.
func (d *Worker) stepWallet(ctx context.Context, walletID string) (busy bool, err error) {
	var (
		payer   wallet.Wallet
		reorged []reorgedOrder
		open    []slot
		limit   int
	)
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if payer, err = wallet.ByID(ctx, tx, walletID); err != nil {
			return err
		}
		if reorged, err = loadReorgedOrders(ctx, tx, d.chain.Name, walletID); err != nil {
			return err
		}
		open, err = loadOpenSlots(ctx, tx, d.chain.Name, walletID)
		return err
	})
	if err != nil {
		return false, err
	}
	busy, resettleErr := d.resettleOrders(ctx, payer, reorged)
	if errors.Is(resettleErr, errNoAccountState) {
		return busy, errors.Join(resettleErr, d.noteProvidersSilent(ctx, payer, resettleErr))
	}
	var acct *chain.Account
	if len(open) > 0 {
		var followed bool
		acct, followed, err = d.followSlots(ctx, payer, open)
		busy = busy || followed
		if errors.Is(err, errNoAccountState) {
			err = errors.Join(err, d.noteProvidersSilent(ctx, payer, err))
		}
		if err != nil {
			return busy, errors.Join(resettleErr, err)
		}
	}
	if busy || resettleErr != nil {
		return busy, resettleErr
	}
	if slices.ContainsFunc(reorged, func(q reorgedOrder) bool { return q.EndedOrder.WaitingFor.Cause().HoldsUpLater }) {
		return busy, nil // a later nonce could not be mined anyway
	}
	if slices.ContainsFunc(open, func(s slot) bool { return s.FundsPending }) {
		return busy, nil // the wallet's funds may be promised to restored orders
	}
	limit = min(d.conf.InFlightMax-len(open), d.conf.UnminedMax-unmined(open, acct))
	return d.admitQueued(ctx, payer, limit, acct)
}

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
		var late *lateError
		switch {
		case errors.Is(err, errLostRace):
			return nil, busy, err
		case errors.As(err, &late):
			filled, err := d.cancelLate(ctx, payer, open[i])
			if err != nil || filled {
				return nil, busy || filled, err // the rows changed
			}
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
		if d.slots.isSequential() && len(open[i].signedHashes()) == 0 {
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
			if d.slots.isSequential() {
				return &acct, busy, nil
			}
			continue
		}
		var moved bool
		if used, _ := acct.IsUsed(s.ChainSlot); used || s.Kind().Expires {
			if in, ok := d.seen(s.ID); ok && used && known.holds(in) {
				continue
			}
			moved, err = d.settleSlot(ctx, payer, s, acct)
		} else {
			// A reorg may have taken back what had used its slot.
			d.see(s.ID, nil)
			if pushed++; d.slots.isSequential() && pushed > d.conf.UnminedMax {
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
