package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
)

const callers = 64

// newService returns a second process: a service with a pool of its own on the same database.
func (h *testEnv) newService() (*transfer.Service, *pg.DB) {
	h.t.Helper()
	db := pgtest.Open(h.t, pgtest.DatabaseOf(h.t, h.db), time.Now)
	return transfer.New(db, numberingRecorder()), db
}

// blockAccount blocks an organization's writer until the returned function is called: its first
// group waits for a row that another transaction has locked.
func (h *testEnv) blockAccount(p transfer.Party) (release func()) {
	h.t.Helper()
	tx := pgtest.BeginOwner(h.t, h.db)
	if _, err := tx.Exec(h.t.Context(), `LOCK TABLE transfers IN SHARE MODE`); err != nil {
		h.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.requestTransfer(newRequest("blocker", p, product("BATCH_PAYOUT"), "1"))
		done <- err
	}()
	pgtest.Eventually(h.t, func() bool { return h.countWriters() == 1 }, "the writer stands")
	return func() {
		if err := tx.Rollback(h.t.Context()); err != nil {
			h.t.Error(err)
		}
		if err := <-done; err != nil {
			h.t.Errorf("the first of all: got %v, want it made", err)
		}
	}
}

// countWriters returns how many wait for this database's table of transfers. The databases of tests
// are copies, so the table has the same number in each.
func (h *testEnv) countWriters() (n int) {
	h.t.Helper()
	err := h.owner.QueryRow(h.t.Context(), `
		SELECT count(*) FROM pg_locks
		WHERE NOT granted AND relation = 'transfers'::regclass
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
	if err != nil {
		h.t.Error(err)
	}
	return n
}

// runParallel sends requests that the writer takes as one group, in their order.
func (h *testEnv) runParallel(requests ...transfer.Request) []answer {
	h.t.Helper()
	h.fundParty(h.one, customer("blocker"), 1)
	release := h.blockAccount(customer("blocker"))
	answers := make([]answer, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { answers[i].Outcome, answers[i].err = h.requestTransfer(r) })
		pgtest.Eventually(h.t, func() bool { return h.service.Waiting(h.one) == i+1 }, "request %d waits", i)
	}
	release()
	wg.Wait()
	return answers
}

type answer struct {
	transfer.Outcome
	err error
}

// Rule TR-9.
func TestOneBadRequestInAGroupIsRefusedAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	got := h.runParallel(
		newRequest("a", ann, bob, "60"),
		newRequest("b", ann, bob, "60"), // too much after the first
		newRequest("c", ann, ann, "1"),
		newRequest("d", bob, custody, "50"), // from what the first brings
		newRequest("e", ann, bob, "x"),
		newRequest("f", ann, bob, "40"),
	)
	for i, want := range []fault.Code{"", fault.InsufficientBalance, fault.SameAccount, "", fault.InvalidAmount, ""} {
		if (want == "") != (got[i].err == nil) || want != "" && !fault.HasCode(got[i].err, want) {
			t.Errorf("request %d: got %v, want %q", i, got[i].err, want)
		}
	}
	h.wantBalance(h.one, ann, 0)
	h.wantBalance(h.one, bob, 50)
	h.wantBalance(h.one, custody, 50)
	h.wantTransfers(4)
	// One transaction wrote all of them: they have one time.
	var times int
	if err := h.owner.QueryRow(
		t.Context(), `SELECT count(DISTINCT created_at) FROM transfers`,
	).Scan(&times); err != nil || times != 2 {
		t.Errorf("got %d transactions (%v), want the first alone and the rest together", times, err)
	}
}

// Rules TR-6, TR-7, TR-9.
func TestTwoRequestsWithOneKeyInAGroupAreOneTransfer(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	got := h.runParallel(
		newRequest("k", ann, bob, "60"), newRequest("k", ann, bob, "60"), newRequest("k", ann, bob, "61"),
		// A refused request does not use up its key.
		newRequest("poor", ann, bob, "90"), newRequest("poor", ann, bob, "10"),
	)
	first := got[0].Transfer.ID
	if got[0].err != nil || got[1].err != nil || got[0].Replayed || !got[1].Replayed ||
		got[1].Transfer.ID != first {
		t.Errorf("got %+v and %+v, want one transfer and its replay", got[0], got[1])
	}
	if f := fault.Find(got[2].err); f == nil || f.Code != fault.IdempotencyConflict || f.Extra["existingId"] != first {
		t.Errorf("other parameters: got %v, want a conflict", got[2].err)
	}
	if !fault.HasCode(got[3].err, fault.InsufficientBalance) || got[4].err != nil {
		t.Errorf("got %v and %v, want a refusal and a transfer", got[3].err, got[4].err)
	}
	h.wantBalance(h.one, ann, 30)
	h.wantTransfers(3)
}

// Rule TR-9.
func TestAGroupThatTheDatabaseRefusesIsSplit(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 1000)
	// A balance that cannot take one unit more: only the database notices.
	err := h.db.InOrg(t.Context(), h.one, func(ctx context.Context, tx pg.Tx) error {
		if err := h.makeCustomer(ctx, tx, h.one, "full"); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_full"},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: h.one, MintID: usdc, Kind: ledger.Custody},
				Credit: h.partyAccount(h.one, customer("full")),
				Amount: money.MustParse(
					"115792089237316195423570985008687907853269984665640564039457584007913129639935",
				),
			}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var requests []transfer.Request
	for i := range 9 {
		to := bob
		if i == 5 {
			to = customer("full")
		}
		requests = append(requests, newRequest(fmt.Sprint("k", i), ann, to, "10"))
	}
	for i, got := range h.runParallel(requests...) {
		if i == 5 && !fault.HasCode(got.err, fault.InvalidAmount) || i != 5 && got.err != nil {
			t.Errorf("request %d: got %v, want only the sixth refused", i, got.err)
		}
	}
	h.wantBalance(h.one, bob, 80)
	h.wantTransfers(9)
}

// Rule TR-10.
func TestTooManyAreTurnedAwayAndNothingIsDone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 10_000)
	h.fundParty(h.two, ann, 10)
	h.fundParty(h.one, customer("blocker"), 1)
	release := h.blockAccount(customer("blocker"))
	var wg sync.WaitGroup
	var taken, turned atomic.Int64
	send := func(i int) {
		wg.Go(func() {
			_, err := h.requestTransfer(newRequest(fmt.Sprint("k", i), ann, bob, "1"))
			switch {
			case err == nil:
				taken.Add(1)
			case fault.HasCode(err, fault.CodeUnavailable) && fault.Find(err).Kind == fault.Unavailable:
				turned.Add(1)
			default:
				t.Errorf("got %v, want a transfer or UNAVAILABLE", err)
			}
		})
	}
	// This many start a second group, which then waits as well.
	for i := range transfer.BesideMin {
		send(-1 - i)
	}
	pgtest.Eventually(
		t, func() bool { return h.countWriters() == 2 && h.service.Waiting(h.one) == 0 },
		"the second group stands",
	)
	for i := range transfer.WaitingMax + 10 {
		send(i)
	}
	pgtest.Eventually(t, func() bool { return turned.Load() == 10 }, "ten are turned away")
	// A request that is cancelled before its turn has moved nothing either.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.service.Request(
		gone, h.one, newRequest("gone", ann, bob, "1"),
	); !fault.HasCode(err, fault.CodeUnavailable) {
		t.Errorf("got %v, want %v", err, fault.CodeUnavailable)
	}
	release()
	wg.Wait()
	const want = transfer.WaitingMax + transfer.BesideMin
	if taken.Load() != want {
		t.Errorf("got %d transfers, want %d", taken.Load(), want)
	}
	h.wantBalance(h.one, bob, want)
	h.wantTransfers(want + 1)
}

// Rules TR-4, TR-6, TR-9.
func TestTwoProcessesShareBalancesAndKeys(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	const start, keys = 500, 400
	h.fundParty(h.one, ann, start)
	second, db := h.newService()
	services := []*transfer.Service{h.service, second}
	// Both processes request every key; ann cannot pay them all.
	ids := [2][keys]string{}
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for i := w / 2; i < keys; i += callers / 2 {
				r := newRequest(fmt.Sprint("k", i), ann, bob, fmt.Sprint(i%5+1))
				out, err := services[w%2].Request(t.Context(), h.one, r)
				if err != nil && !fault.HasCode(err, fault.InsufficientBalance) {
					t.Errorf("key %d: %v", i, err)
				}
				ids[w%2][i] = out.Transfer.ID
			}
		})
	}
	wg.Wait()
	moved, made := 0, 0
	for i := range keys {
		a, b := ids[0][i], ids[1][i]
		if a != "" && b != "" && a != b {
			t.Errorf("key %d: got %s and %s, want one transfer", i, a, b)
		}
		if a != "" || b != "" {
			moved += i%5 + 1
			made++
		}
	}
	if moved > start || moved < start-5 {
		t.Errorf("got %d moved of %d", moved, start)
	}
	h.wantBalance(h.one, ann, uint64(start-moved))
	h.wantBalance(h.one, bob, uint64(moved))
	h.wantTransfers(made)
	h.wantNoDeadlock(db)
}

// A hot balance with payments in both directions, from two processes, and with postings like those
// of withdrawals in between: no deadlock, no unit lost.
func TestAHotBalanceBothWaysNeitherDeadlocksNorLoses(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	second, db := h.newService()
	services := []*transfer.Service{h.service, second}
	const people, rounds, each = 20, 12, 1000
	for i := range people {
		h.fundParty(h.one, customer(fmt.Sprint("c", i)), each)
	}
	h.fundParty(h.one, custody, each)
	var refused atomic.Int64
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for r := range rounds {
				one, n := customer(fmt.Sprint("c", rand.IntN(people))), fmt.Sprint(rand.IntN(200)+1)
				q := newRequest(fmt.Sprintf("%d-%d", w, r), one, custody, n)
				if r%2 == 1 {
					q = newRequest(fmt.Sprintf("%d-%d", w, r), custody, one, n)
				}
				if _, err := services[w%2].Request(t.Context(), h.one, q); fault.HasCode(
					err, fault.InsufficientBalance,
				) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
				if r%4 == 0 {
					hold := ledger.Posting{Cause: ledger.Cause{
						Kind: ledger.WithdrawalHold, ID: fmt.Sprintf("wd_%d_%d", w, r),
					}, Legs: []ledger.Leg{{
						Debit: h.partyAccount(h.one, one),
						Credit: ledger.Account{
							OrgID: h.one, MintID: usdc, Kind: ledger.Withdrawing, Subject: *one.CustomerID,
						}, Amount: money.Units(1),
					}}}
					err := h.db.InOrg(
						t.Context(), h.one,
						func(ctx context.Context, tx pg.Tx) error { return ledgertest.PostWithCauses(ctx, tx, hold) },
					)
					if err != nil && !errors.Is(err, ledger.ErrOverdraft) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	var sum uint64
	err := h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT sum(balance) FROM ledger_balances`).Scan(&sum)
	})
	if err != nil || sum != (people+1)*each {
		t.Errorf("got %d in all (%v), want %d", sum, err, (people+1)*each)
	}
	h.wantTransfers(callers*rounds - int(refused.Load()))
	h.wantNoDeadlock(db)
}

// Organizations have a writer each: a blocked one delays no other.
func TestAWriterThatStandsHoldsUpItsOrganizationAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	h.fundParty(h.two, ann, 100)
	// Another transaction moves the balances of the first organization.
	tx := pgtest.BeginOwner(t, h.db)
	if tag, err := tx.Exec(
		t.Context(), `SELECT FROM ledger_balances WHERE org_id = $1 FOR UPDATE`, h.one,
	); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("got %v, %v, want balances that are held", tag, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.requestTransfer(newRequest("k", ann, bob, "1"))
		done <- err
	}()
	for i := range 5 {
		if _, err := h.service.Request(t.Context(), h.two, newRequest(fmt.Sprint("k", i), ann, bob, "1")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("got %v, want the first organization to wait", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("got %v, want the transfer", err)
	}
}

// The COMMIT of a group gets no answer. Rules TR-6, TR-9.
//
//   - A written transfer is answered as made only where its row is visible.
//   - Otherwise no caller is told that it was made or that it was not, and the same key tells
//     later.
//   - A refused request is refused all the same.
func TestAGroupWhoseCommitIsUnknownIsAnsweredByItsRows(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]pgtest.Loss{
		"it is there":                                  {Action: pgtest.AnswerLost},
		"it is there, and cannot be looked up":         {Action: pgtest.AnswerLost, KeepDown: true},
		"it is not there":                              {Action: pgtest.CommitLost},
		"it is not there, and cannot be looked up":     {Action: pgtest.CommitLost, KeepDown: true},
		"it is not there yet":                          {Action: pgtest.CommitHeld},
		"it is not there yet, and cannot be looked up": {Action: pgtest.CommitHeld, KeepDown: true},
		"it is heard of, and could not be looked up":   {Action: pgtest.AnswerHeard, KeepDown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundParty(h.one, ann, 100)
			p := &pgtest.Proxy{}
			d := pgtest.DatabaseOf(t, h.db)
			d.URL = p.Start(t, d.URL)
			direct := h.service
			h.service = transfer.New(pgtest.Open(t, d, time.Now), numberingRecorder())
			loss.Nth = 2 // the first is that of the blocking transaction
			p.LoseNext(loss)
			requests := []transfer.Request{
				newRequest("a", ann, bob, "60"), newRequest("a", ann, bob, "60"), newRequest("a", ann, bob, "61"),
				newRequest("b", ann, bob, "60"), newRequest("c", ann, ann, "1"), newRequest("d", bob, custody, "50"),
			}
			want := []fault.Code{"", "", fault.IdempotencyConflict, fault.InsufficientBalance, fault.SameAccount, ""}
			got := h.runParallel(requests...)
			if !p.HasLost() {
				t.Fatal("no COMMIT was lost")
			}
			made := loss.Action == pgtest.AnswerHeard || loss.Action == pgtest.AnswerLost && !loss.KeepDown
			for i, a := range got {
				switch {
				case want[i] != "":
					if !fault.HasCode(a.err, want[i]) {
						t.Errorf("request %d: got %+v, want %s", i, a, want[i])
					}
				case made:
					if a.err != nil || a.Transfer.ID != got[0].Transfer.ID && i < 2 {
						t.Errorf("request %d: got %+v, want it made", i, a)
					}
				case !errors.Is(a.err, pg.ErrCommitUnknown) || fault.Find(a.err) != nil || a.Transfer.ID != "":
					t.Errorf("request %d: got %+v, want an unknown outcome", i, a)
				}
			}
			// A caller repeats the request while the commit may still arrive, and waits for the
			// outcome.
			again := make(chan answer, 1)
			go func() {
				out, err := direct.Request(t.Context(), h.one, requests[0])
				again <- answer{out, err}
			}()
			if loss.Action == pgtest.CommitHeld {
				pgtest.Eventually(t, func() bool {
					var waits bool
					err := h.owner.QueryRow(t.Context(), `
						SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
					return err == nil && waits
				}, "the repetition waits")
			}
			p.Restore()
			first := <-again
			if comes := loss.Action != pgtest.CommitLost; first.err != nil || first.Replayed != comes {
				t.Errorf("repeated: got %+v, want it replayed: %v", first, comes)
			}
			h.service = direct
			if last := h.mustTransfer(requests[5]); last.Transfer.Amount.String() != "50" {
				t.Errorf("repeated: got %+v, want the transfer", last)
			}
			h.wantBalance(h.one, ann, 40)
			h.wantBalance(h.one, bob, 10)
			h.wantBalance(h.one, custody, 50)
			h.wantTransfers(3)
		})
	}
}

// The statements of a look-up see what was committed before each of them. A request whose key another
// process uses between any two of them is a replay: it is never refused because its own transfer took
// the balance. Rule TR-9.
func TestAReplayBetweenTwoLookupsIsNoRefusal(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		h := newTestEnv(t)
		h.fundParty(h.one, customer("alice"), 100)
		r := newRequest("once", customer("alice"), product("BATCH_PAYOUT"), "100")
		other, _ := h.newService()
		_, isReached, err := h.service.DecideBetween(t.Context(), h.one, r, n, func() error {
			_, err := other.Request(t.Context(), h.one, r)
			return err
		})
		if err != nil {
			t.Errorf("a transfer of the same key before statement %d: got %v, want no refusal", n, err)
		}
		if !isReached {
			if n < 4 {
				t.Errorf("got %d statements, want at least four", n)
			}
			return
		}
	}
}
