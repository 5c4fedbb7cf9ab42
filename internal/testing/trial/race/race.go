// Package race lets two processes of 32 workers each compete for the same things: one balance, one
// idempotency key, one approval, one wallet. All of them use one PostgreSQL, through the service's
// own code.
//
// A long race has rounds. For most of each round, all 64 workers spend the one balance. In the
// remaining time, some request withdrawals and decide about them, some reserve the wallet's funds,
// and the others go on spending. The balances after every commit are read from the server's log
// (see wal.go), so that no moment is missed.
//
// Both processes give the same holds the same names, so at least two workers want every hold, every
// end of one, every key and every decision. The winners' counts are added up and compared with the
// database. In addition, all 64 workers decide about flagged deposits, one after the other, each in
// its own way (see flagged.go), and do everything at once that can be done about the same checkouts (see
// checkouts.go), and about the same batch payouts (see batches.go).
//
// No worker waits for its turn. A crash leaves a database of a cluster that ends with the test; the
// second process dies with the first.
package race

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// What all workers compete for.
const (
	token   = 1     // the mint
	spender = "ann" // the customer whose balance is spent
	payer   = "bob" // the customer whose withdrawals are requested
	balance = 2_500 // ann's balance with her holds; it never changes
	fortune = 1_000_000_000
	funds   = 1_000 // the funds of the wallet
)

// The workers of one process.
const (
	spenders  = 18
	askers    = 8
	reservers = 6
	workers   = spenders + askers + reservers
)

// batchMax is how many holds one transaction makes at most, amountMax what each takes at most: some
// workers that spend at once find enough, and some do not.
const (
	batchMax  = 128
	amountMax = 3
)

// The length of a round in a long race, and the part of it in which all workers spend. A short race
// has no rounds: every worker starts with its own task.
const (
	roundLength  = 10 * time.Second
	spendingPart = 8 * time.Second
)

// watchInterval is the pause between two queries; the log shows what happens in between.
const watchInterval = 50 * time.Millisecond

// roundsMin is how often every worker tries at least, however short the race.
const roundsMin = 2

// task is a process's input.
type task struct {
	URL      string
	Org      string
	Rounds   bool // all workers spend for most of the time
	Treasury wallet.Wallet
	For      time.Duration
	Process  int

	// Flagged are deposits to decide about, instead of everything else.
	Flagged []string
	Attest  ed25519.PublicKey

	// SwapRace has swaps that the workers make, instead of everything else; nil: no swaps.
	SwapRace *swapTask

	// CheckoutRace has checkouts about which the workers do everything, instead of everything else; nil: none.
	CheckoutRace *checkoutTask

	// BatchRace has batch payouts about which the workers do everything, instead of everything else; nil: none.
	BatchRace *batchTask
}

// result is what a process has done and seen.
type result struct {
	Holds, HoldsRefused, HoldsTaken uint64 // made; lacked the money; a rival was first
	Ends, EndsTaken                 uint64
	Requests, Conflicts             uint64
	Decisions, DecisionsLate        uint64
	Vain                            uint64 // statements that gave up waiting for a lock
	Reserves, ReservesShort         uint64
	Commits                         uint64 // that moved the one balance
	Looks                           uint64
	Deadlocks                       int64
	Accepted                        map[string]string // by key: the withdrawal
	Decided                         map[string]string // by withdrawal: the decision that won
	// By flagged deposit: the decision that won, or that stood when it was repeated.
	Resolved map[string]string
	Wrong    []string
}

// process is one of the two.
type process struct {
	task
	db        *pg.DB
	pay       *withdrawal.Service
	deadline  context.Context
	startedAt time.Time

	holds, holdsRefused, holdsTaken, ends, endsTaken                     atomic.Uint64
	requests, conflicts, decisions, decisionsLate, reserves, short, vain atomic.Uint64
	looks, commits                                                       atomic.Uint64

	mu       sync.Mutex
	accepted map[string]string
	decided  map[string]string
	wrong    []string
}

// addresses has the only wallet.
type addresses struct{ treasury wallet.Wallet }

func (a addresses) Address(context.Context, signer.WalletRef) (wallet.Wallet, error) {
	return a.treasury, nil
}

// runWorkers runs the workers until the time is up.
func runWorkers(ctx context.Context, t task) (result, error) {
	db, err := pg.Open(ctx, pg.Config{URL: t.URL, MaxConns: workers + 2}, time.Now)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	deadline, cancel := context.WithTimeout(ctx, t.For)
	defer cancel()
	ch := sim.New(sim.Config{}).ToChain()
	p := &process{
		task: t, db: db, deadline: deadline, startedAt: time.Now(), accepted: map[string]string{},
		decided: map[string]string{},
		pay: &withdrawal.Service{
			DB: db, Chains: chain.Chains{ch.Name: ch}, Wallets: addresses{t.Treasury},
			Events: wire.NewRecorder(),
			Prices: price.Fixed{Prices: map[int]money.USD{token: money.MustParseUSD("1")}},
		},
	}
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go p.lookAtOrders(looking)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			ownTask := p.askOnce
			switch {
			case w < spenders:
				ownTask = nil
			case w >= spenders+askers:
				ownTask = p.reserveOnce
			}
			p.runWorker(ctx, w, ownTask)
		})
	}
	wg.Go(func() { p.watchCommits(ctx) })
	wg.Wait()
	return result{
		Holds: p.holds.Load(), HoldsRefused: p.holdsRefused.Load(), HoldsTaken: p.holdsTaken.Load(),
		Ends: p.ends.Load(), EndsTaken: p.endsTaken.Load(),
		Requests: p.requests.Load(), Conflicts: p.conflicts.Load(), Decisions: p.decisions.Load(),
		DecisionsLate: p.decisionsLate.Load(),
		Reserves:      p.reserves.Load(), ReservesShort: p.short.Load(),
		Looks: p.looks.Load(), Commits: p.commits.Load(),
		Deadlocks: db.Counts().Deadlocks, Vain: p.vain.Load(),
		Accepted: p.accepted, Decided: p.decided, Wrong: p.wrong,
	}, nil
}

func (p *process) addComplaint(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wrong) < 20 {
		p.wrong = append(p.wrong, fmt.Sprintf("process %d: ", p.Process)+fmt.Sprintf(format, args...))
	}
}

func ledgerAccount(org string, kind ledger.Kind, subject string) ledger.Account {
	return ledger.Account{OrgID: org, MintID: token, Kind: kind, Subject: subject}
}

// runWorker runs its own task, or spends when it has none or when all spend. It ends with the first
// broken invariant.
func (p *process) runWorker(ctx context.Context, w int, ownTask func(ctx context.Context, worker, round int) bool) {
	spent, ownRounds := 0, 0
	for p.deadline.Err() == nil || ownRounds < roundsMin && (ownTask != nil || spent < roundsMin) {
		ok := false
		if ownTask == nil || p.Rounds && p.deadline.Err() == nil && time.Since(p.startedAt)%roundLength < spendingPart {
			ok = p.spendOnce(ctx, w, spent)
			spent++
		} else {
			ok = ownTask(ctx, w-spenders, ownRounds)
			ownRounds++
		}
		if !ok {
			return
		}
	}
}

// spendOnce makes holds on the one balance and ends them. The worker with the same number in the
// other process wants the same holds.
func (p *process) spendOnce(ctx context.Context, worker, round int) bool {
	customer, held, owned := ledgerAccount(p.Org, ledger.Customer, spender),
		ledgerAccount(p.Org, ledger.Withdrawing, spender), ledgerAccount(p.Org, ledger.Custody, "")
	// Both workers draw the same numbers.
	dice := rand.New(rand.NewPCG(uint64(worker), uint64(round)))
	n, amount, settles := 1+dice.IntN(batchMax), money.Units(1+dice.Uint64N(amountMax)), dice.IntN(8) == 0
	var holds, ends []ledger.Posting
	for i := range n {
		id := fmt.Sprintf("%d.%d.%d", worker, round, i)
		holds = append(holds, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: id},
			Legs:  []ledger.Leg{{Debit: customer, Credit: held, Amount: amount}},
		})
		end := ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: id},
			Legs:  []ledger.Leg{{Debit: held, Credit: customer, Amount: amount}},
		}
		if settles {
			// An amount that leaves is deposited again at once, so that the sum is the same at
			// every commit.
			end.Legs[0].Credit = owned
			ends = append(ends, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: id},
				Legs:  []ledger.Leg{{Debit: owned, Credit: customer, Amount: amount}},
			})
		}
		ends = append(ends, end)
	}
	switch err := p.postWithRetry(ctx, holds); {
	case err == nil:
		p.holds.Add(uint64(n))
	case errors.Is(err, ledger.ErrPosted):
		p.holdsTaken.Add(uint64(n))
	case errors.Is(err, ledger.ErrOverdraft):
		p.holdsRefused.Add(uint64(n))
		return true
	default:
		p.addComplaint("hold: %v", err)
		return false
	}
	switch err := p.postWithRetry(ctx, ends); {
	case err == nil:
		p.ends.Add(uint64(n))
	case errors.Is(err, ledger.ErrPosted), errors.Is(err, ledger.ErrOverdraft):
		p.endsTaken.Add(uint64(n)) // the other worker was first
	default:
		p.addComplaint("end: %v", err)
		return false
	}
	return true
}

// isLockTimeout reports that PostgreSQL gave a statement up: it waited too long for one lock or,
// for several in turn, longer than a statement may take. Its transaction is rolled back. That
// happens on a machine with too much other work.
func isLockTimeout(err error) bool {
	gaveUp, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (gaveUp.Code == "55P03" || gaveUp.Code == "57014")
}

// postWithRetry posts, and repeats a posting that PostgreSQL gave up.
func (p *process) postWithRetry(ctx context.Context, postings []ledger.Posting) error {
	for {
		err := p.db.InOrg(
			ctx, p.Org,
			func(ctx context.Context, tx pg.Tx) error { return ledgertest.PostWithCauses(ctx, tx, postings...) },
		)
		if isLockTimeout(err) && ctx.Err() == nil {
			p.vain.Add(1)
			continue
		}
		if err == nil {
			p.commits.Add(1)
		}
		return err
	}
}

// lookAtOrders replaces dispatch, which looks at every order within seconds. Without it, the order
// of an approved withdrawal would count as waiting after a while, and could be removed.
func (p *process) lookAtOrders(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `
				UPDATE dispatch_orders SET attempt_after = $1
				WHERE order_id IN (SELECT order_id FROM dispatch_orders
					WHERE status = 'QUEUED' AND attempt_after < $2 FOR UPDATE SKIP LOCKED)`,
				tx.Now.Add(time.Hour), tx.Now)
			return err
		})
		if err != nil && ctx.Err() == nil {
			p.addComplaint("look at the orders: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// askOnce requests withdrawals under keys that all workers of this task in both processes use, in
// the same order, and then decides about them.
func (p *process) askOnce(ctx context.Context, worker, round int) bool {
	const asked = "7"
	key := fmt.Sprintf("key-%d", round)
	r := withdrawal.Request{
		MintID: token, CustomerID: payer, Amount: asked, ToAddress: string(sim.Address("shop")), RequireApproval: true,
		IdempotencyKey: &key, Actor: audit.APIKey(p.Org),
	}
	if worker == 0 && round%3 == 0 {
		r.Amount = "8" // another body under the same key
	}
	made, _, err := p.pay.Request(ctx, p.Org, r)
	p.requests.Add(1)
	switch {
	case err == nil:
		p.checkSameID(p.accepted, key, made.ID)
	case fault.HasCode(err, fault.IdempotencyConflict):
		p.conflicts.Add(1)
		return true
	default:
		p.addComplaint("request %s: %v", key, err)
		return false
	}
	verdict := "approved"
	if (worker+p.Process)%2 == 0 {
		verdict = "removed"
		_, err = p.pay.Remove(ctx, p.Org, made.ID, audit.User("usr_1"), "no")
	} else {
		_, err = p.pay.Approve(ctx, p.Org, made.ID, audit.User("usr_1"))
	}
	switch {
	case err == nil:
		p.decisions.Add(1)
		p.mu.Lock()
		if earlier, ok := p.decided[made.ID]; ok {
			p.wrong = append(p.wrong, fmt.Sprintf("%s was %s and then %s", made.ID, earlier, verdict))
		}
		p.decided[made.ID] = verdict
		p.mu.Unlock()
	case fault.HasCode(err, fault.InvalidState):
		p.decisionsLate.Add(1)
	default:
		p.addComplaint("decide on %s: %v", made.ID, err)
		return false
	}
	return true
}

func (p *process) checkSameID(ids map[string]string, key, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier, ok := ids[key]; ok && earlier != id {
		p.wrong = append(p.wrong, fmt.Sprintf("%s is both %s and %s", key, earlier, id))
	}
	ids[key] = id
}

// reserveOnce reserves the wallet's funds, and releases them.
func (p *process) reserveOnce(ctx context.Context, _, _ int) bool {
	amount := money.Units(1 + rand.Uint64N(funds/2))
	move := func(m wallet.Movement) error {
		m.WalletID, m.OrgID, m.MintID, m.Part = p.Treasury.ID, p.Org, token, wallet.Reserved
		return p.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return wallet.MoveFunds(ctx, tx, m) })
	}
	err := move(wallet.Movement{Plus: amount})
	if errors.Is(err, wallet.ErrInsufficient) {
		p.short.Add(1)
		return true
	}
	if err == nil {
		p.reserves.Add(1)
		err = move(wallet.Movement{Minus: amount})
	}
	if err != nil {
		p.addComplaint("reserve: %v", err)
		return false
	}
	return true
}

// watchCommits reads the committed balances again and again: the sum is the same at every commit,
// and no balance is negative.
func (p *process) watchCommits(ctx context.Context) {
	for round := 0; round < roundsMin || p.deadline.Err() == nil; round++ {
		err := p.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
			var sum, lowest, reserved int64
			err := tx.QueryRow(ctx, `
				SELECT (SELECT sum(b.balance) FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.subject = $1),
					(SELECT min(balance) FROM ledger_balances), (SELECT sum(reserved) FROM address_funds)`,
				spender).Scan(&sum, &lowest, &reserved)
			if err == nil && (sum != balance || lowest < 0 || reserved < 0 || reserved > funds) {
				p.addComplaint(
					"after a commit %d of %d are left, the lowest balance is %d, and %d of %d are reserved",
					sum, balance, lowest, reserved,
					funds,
				)
			}
			return err
		})
		if err != nil {
			p.addComplaint("look: %v", err)
			return
		}
		p.looks.Add(1)
		select {
		case <-p.deadline.Done():
		case <-time.After(watchInterval):
		}
	}
}

// addResult adds the result of the other process.
func (r *result) addResult(o result) {
	r.Holds += o.Holds
	r.HoldsRefused += o.HoldsRefused
	r.HoldsTaken += o.HoldsTaken
	r.Ends += o.Ends
	r.EndsTaken += o.EndsTaken
	r.Requests += o.Requests
	r.Conflicts += o.Conflicts
	r.Decisions += o.Decisions
	r.DecisionsLate += o.DecisionsLate
	r.Vain += o.Vain
	r.Reserves += o.Reserves
	r.ReservesShort += o.ReservesShort
	r.Looks += o.Looks
	r.Commits += o.Commits
	r.Deadlocks += o.Deadlocks
	r.Wrong = append(r.Wrong, o.Wrong...)
	for key, id := range o.Accepted {
		if earlier, ok := r.Accepted[key]; ok && earlier != id {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s is %s in one process and %s in the other", key, earlier, id))
		}
		r.Accepted[key] = id
	}
	for id, verdict := range o.Decided {
		if earlier, ok := r.Decided[id]; ok {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s was %s in one process and %s in the other", id, earlier, verdict))
		}
		r.Decided[id] = verdict
	}
	for id, verb := range o.Resolved {
		if earlier, ok := r.Resolved[id]; ok && earlier != verb {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s was %s in one process and %s in the other", id, earlier, verb))
		}
		r.Resolved[id] = verb
	}
}

func encodeJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("race: %v", err))
	}
	return string(b)
}
