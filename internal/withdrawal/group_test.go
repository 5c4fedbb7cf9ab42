package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// newGroupEnv returns an environment that accepts requests together.
func newGroupEnv(t *testing.T) *testEnv {
	t.Helper()
	h := newTestEnv(t)
	h.Groups = NewGroups()
	return h
}

// pend returns a request on its way through a group, as createWithdrawal makes it.
func (h *testEnv) pend(r Request) *pendingRequest {
	h.t.Helper()
	f, err := h.loadRequest(h.t.Context(), h.org, r, false)
	if err == nil {
		err = f.parseErr
	}
	if err == nil {
		err = h.loadExternalFacts(h.t.Context(), h.org, &f, false)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	treasury, err := h.loadTreasury(h.t.Context(), h.org, chain.Ethereum)
	if err != nil {
		h.t.Fatal(err)
	}
	return &pendingRequest{withdrawalID: id.New("wd", time.Now()), facts: f, treasury: treasury}
}

// Rule WD-2.
func TestManyWithdrawalsOfOneBalanceTakeItOnceAndNoMore(t *testing.T) {
	t.Parallel()
	h := newGroupEnv(t)
	const asked, covered = 60, 25
	errs, ids := make([]error, asked), make([]string, asked)
	runParallel(asked, func(i int) {
		r := h.newRequest()
		r.Amount, r.IdempotencyKey = fmt.Sprint(1_000_000/covered), new(fmt.Sprint("key-", i))
		w, _, err := h.Request(t.Context(), h.org, r)
		ids[i], errs[i] = w.ID, err
	})
	accepted := 0
	for i, err := range errs {
		switch {
		case err == nil:
			accepted++
			if got := h.orderStatus(ids[i]); got != "QUEUED" {
				t.Errorf("order of %s: got %s, want QUEUED", ids[i], got)
			}
		case !fault.HasCode(err, fault.InsufficientBalance):
			t.Errorf("got %v, want %s", err, fault.InsufficientBalance)
		}
	}
	if accepted != covered {
		t.Errorf("%d were accepted, want %d", accepted, covered)
	}
	h.wantBalances("0", "1000000")
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("%d transactions waited for each other, want none", n)
	}
}

// Rules IDEM-1 and IDEM-4.
func TestOneKeyAtOnceIsOneWithdrawal(t *testing.T) {
	t.Parallel()
	h := newGroupEnv(t)
	const calls = 24
	ids, replays, errs := make([]string, calls), make([]bool, calls), make([]error, calls)
	runParallel(calls, func(i int) {
		r := h.newRequest()
		r.IdempotencyKey = new(fmt.Sprint("key-", i%3))
		w, isReplay, err := h.Request(t.Context(), h.org, r)
		ids[i], replays[i], errs[i] = w.ID, isReplay, err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	written := 0
	for i, isReplay := range replays {
		if !isReplay {
			written++
		}
		if ids[i] != ids[i%3] {
			t.Errorf("call %d: got %s, want the one of its key, %s", i, ids[i], ids[i%3])
		}
	}
	if written != 3 {
		t.Errorf("%d calls say that they made a withdrawal, want 3", written)
	}
	h.wantBalances("997000", "3000")
}

func TestAGroupDecidesEachRequestOnWhatThoseBeforeItLeave(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	first, second, third, small := h.newRequest(), h.newRequest(), h.newRequest(), h.newRequest()
	first.Amount, second.Amount, third.Amount, small.Amount = "600000", "600000", "400000", "1" // too small
	first.IdempotencyKey, third.IdempotencyKey = new("one"), new("two")
	group := []*pendingRequest{h.pend(first), h.pend(second), h.pend(small), h.pend(third)}
	h.runGroup(t.Context(), h.org, group)
	for i, want := range []fault.Code{"", fault.InsufficientBalance, fault.AmountBelowMinimum, ""} {
		switch err := group[i].err; {
		case want == "" && err != nil:
			t.Errorf("request %d: got %v", i, err)
		case want != "" && !fault.HasCode(err, want):
			t.Errorf("request %d: got %v, want %s", i, err, want)
		}
	}
	h.wantBalances("0", "1000000")
	for _, i := range []int{0, 3} {
		stored, err := h.ByID(t.Context(), h.org, group[i].withdrawalID)
		if err != nil || !reflect.DeepEqual(stored, group[i].created) {
			t.Errorf("request %d: got %+v, %v, want what it was answered, %+v", i, stored, err, group[i].created)
		}
		h.wantEvents(group[i].withdrawalID)
	}
}

// Rules WD-12 and WD-53.
func TestWhatAGroupCannotDecideIsDecidedAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	alike, plain := h.newRequest(), h.newRequest()
	twin := h.newRequest()
	twin.ToAddress = strings.ToLower(stranger[:20] + "0" + stranger[21:])
	plain.ToAddress = "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984"
	repeated := plain
	plain.IdempotencyKey, repeated.IdempotencyKey = new("one"), new("one")
	group := []*pendingRequest{h.pend(alike), h.pend(twin), h.pend(plain), h.pend(repeated)}
	h.runGroup(t.Context(), h.org, group)
	for i, isAlone := range []bool{true, true, false, true} {
		if got := errors.Is(group[i].err, errAlone); got != isAlone {
			t.Errorf("request %d: got %v, want alone %v", i, group[i].err, isAlone)
		}
	}
	h.wantBalances("999000", "1000")

	// Alone, the second of two destinations that look alike waits for a person.
	if w := h.mustRequest(alike); w.Status != Processing {
		t.Errorf("got %s, want the first one to be let go", w.Status)
	}
	if w := h.mustRequest(twin); !slices.Contains(w.ApprovalReasons, ReasonDestinationAddress) {
		t.Errorf("got %s %v, want it held for its looks", w.Status, w.ApprovalReasons)
	}
}

// Rule WD-53.
func TestWithdrawalsBelowALimitOnCostsAreDecidedAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.System("test"), h.org, org.Changes{
			"customerFeeDayUsd": []byte(`"5"`),
		})
		return err
	})
	h.HasPriceSource = func(int) bool { return true }
	p := h.pend(h.newRequest())
	h.runGroup(t.Context(), h.org, []*pendingRequest{p})
	if !errors.Is(p.err, errAlone) {
		t.Errorf("got %v, want %v: the sum is added up behind a lock of its customer", p.err, errAlone)
	}
}

// Rule IDEM-7.
func TestAGroupWhoseCommitIsUnknownIsLookedUp(t *testing.T) {
	t.Parallel()
	for mode, atCommit := range pgtest.CommitLosses {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h, _ := newVoidEnv(t)
			h.mustRequest(h.newRequest()) // its treasury exists
			p := &pgtest.Proxy{}
			s := h.serviceThrough(p, func() {})
			s.Groups = NewGroups()
			p.CommitAction.Store(atCommit)
			r := h.newRequest()
			r.IdempotencyKey = new("one")
			w, _, err := s.Request(t.Context(), h.org, r)
			p.CommitAction.Store(pgtest.CommitPasses)
			if atCommit == pgtest.AnswerLost && err == nil {
				if _, err := h.ByID(t.Context(), h.org, w.ID); err != nil {
					t.Errorf("it answered %s: %v", w.ID, err)
				}
			} else if !errors.Is(err, pg.ErrCommitUnknown) && !fault.HasCode(err, fault.CodeUnavailable) {
				t.Errorf("got %v, want %v", err, pg.ErrCommitUnknown)
			}
			again, _, err := h.Request(t.Context(), h.org, r)
			if err != nil || w.ID != "" && again.ID != w.ID {
				t.Errorf("again: got %s, %v, want one withdrawal for the key, %s", again.ID, err, w.ID)
			}
			h.wantBalances("998000", "2000")
		})
	}
}

// sentLog notes what a connection sends.
type sentLog struct {
	mu      sync.Mutex
	sends   int
	batches [][]string
}

func (l *sentLog) add(batch []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sends++
	l.batches = append(l.batches, batch)
}

func (l *sentLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	l.add([]string{data.SQL})
	return ctx
}

func (*sentLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *sentLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var batch []string
	for _, q := range data.Batch.QueuedQueries {
		batch = append(batch, q.SQL)
	}
	l.add(batch)
	return ctx
}

func (*sentLog) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*sentLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Rule WD-2.
func TestOneRowThatTheDatabaseRefusesKeepsNoOtherFromBeingPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.execAsOwner(`ALTER TABLE withdrawals ADD CONSTRAINT refused_here CHECK (amount <> 2222)`)
	var group []*pendingRequest
	for _, amount := range []string{"1111", "2222", "3333"} {
		r := h.newRequest()
		r.Amount = amount
		group = append(group, h.pend(r))
	}
	h.runGroup(t.Context(), h.org, group)
	for i, p := range group {
		if !errors.Is(p.err, errAlone) {
			t.Errorf("request %d: got %v, want it decided alone", i, p.err)
		}
		w, err := h.acceptAlone(t.Context(), h.org, p)
		isRefused := i == 1
		if pg.ViolatesConstraint(err, "refused_here") != isRefused || !isRefused && w.Status != Processing {
			t.Errorf("request %d: got %s, %v, want it refused: %v", i, w.Status, err, isRefused)
		}
	}
	h.wantBalances("995556", "4444")
}

func TestALookThatSeveralRequestsShareAnswersEachOfThem(t *testing.T) {
	t.Parallel()
	h := newGroupEnv(t)
	h.creditDeposit("bob", usdc, 1_000)
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: "bob", Source: freeze.SourceOperator,
			Reason: "test", Actor: audit.Operator("op"),
		})
	})
	known := h.newRequest()
	known.IdempotencyKey = new("known")
	first := h.mustRequest(known)
	looks := []*requestLook{
		{key: new("new"), customerID: alice}, {key: known.IdempotencyKey, customerID: alice}, {customerID: "bob"}, {},
	}
	if err := h.lookUpRequests(t.Context(), h.org, looks); err != nil {
		t.Fatal(err)
	}
	for i, l := range looks {
		isKnown := i == 1
		if l.accepted != nil != isKnown || isKnown && l.accepted.ID != first.ID {
			t.Errorf("look %d: got %+v, want a withdrawal %v", i, l.accepted, isKnown)
		}
		got := l.freezes.FindFor(freeze.Target{OrgID: h.org, CustomerID: l.customerID})
		if got != nil != (l.customerID == "bob") {
			t.Errorf("look %d: got freeze %+v for %q", i, got, l.customerID)
		}
	}
	treasury, err := h.wallets.Treasury(t.Context(), h.org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	payees := []*payeeLook{
		{payee: payee{chain.Ethereum, stranger}, isPaying: true}, {payee: payee{chain.Ethereum, treasury.Address}},
	}
	if err := h.lookUpPayees(t.Context(), h.org, payees); err != nil {
		t.Fatal(err)
	}
	for i, l := range payees {
		if l.isOurs != (i == 1) || l.treasury.ID != treasury.ID || l.payerAddress != treasury.Address {
			t.Errorf("payee %d: got %+v", i, l)
		}
	}
}

// What a group sends does not grow with it: a statement for each table, whatever the number of requests.
func TestTheStatementsOfAGroupDoNotGrowWithIt(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	sent := &sentLog{}
	s := *h.Service
	s.DB = pgtest.OpenTraced(t, pgtest.DatabaseOf(t, h.DB), time.Now, sent)
	count := func(n int) (statements, roundTrips int) {
		var group []*pendingRequest
		var looks []*requestLook
		var payees []*payeeLook
		for i := range n {
			r := h.newRequest()
			r.RequireApproval = i%2 == 0 // these have events
			r.IdempotencyKey = new(fmt.Sprint("key-", n, "-", i))
			group = append(group, h.pend(r))
			looks = append(looks, &requestLook{key: r.IdempotencyKey, customerID: alice})
			payees = append(payees, &payeeLook{payee: payee{chain.Ethereum, stranger}, isPaying: true})
		}
		sent.batches, sent.sends = nil, 0
		err := errors.Join(s.lookUpRequests(t.Context(), h.org, looks), s.lookUpPayees(t.Context(), h.org, payees))
		if err != nil {
			t.Fatal(err)
		}
		s.runGroup(t.Context(), h.org, group)
		for i, p := range group {
			if p.err != nil {
				t.Fatalf("request %d of %d: %v", i, n, p.err)
			}
		}
		for _, batch := range sent.batches {
			statements += len(batch)
		}
		return statements, sent.sends
	}
	count(2) // the first posting opens the account of what is held, and the connections prepare their statements
	statements, roundTrips := count(10)
	if moreStatements, moreTrips := count(groupMax); moreStatements != statements || moreTrips != roundTrips {
		t.Errorf("%d requests took %d statements in %d round trips and %d took %d in %d, want as many",
			10, statements, roundTrips, groupMax, moreStatements, moreTrips)
	}
}

// Nothing locks a balance over a round trip, and one request takes eight of them.
func TestThePostingOfAWithdrawalIsSentWithTheCommit(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.mustRequest(h.newRequest())
	sent := &sentLog{}
	s := *h.Service
	s.DB = pgtest.OpenTraced(t, pgtest.DatabaseOf(t, h.DB), time.Now, sent)
	alone := h.newRequest()
	alone.RequireApproval = true
	for _, r := range []Request{h.newRequest(), alone} {
		if _, _, err := s.Request(t.Context(), h.org, r); err != nil { // the connections prepare their statements
			t.Fatal(err)
		}
		sent.batches, sent.sends = nil, 0
		if _, _, err := s.Request(t.Context(), h.org, r); err != nil {
			t.Fatal(err)
		}
		const roundTrips = 8 // the treasury is asked of h.wallets, which has another connection
		if sent.sends > roundTrips {
			t.Errorf("a request took %d round trips, want %d at most", sent.sends, roundTrips)
		}
		postings := 0
		for _, batch := range sent.batches {
			for i, sql := range batch {
				if !strings.Contains(sql, "INSERT INTO ledger_transfers") {
					continue
				}
				if postings++; i != len(batch)-2 || !strings.HasSuffix(batch[len(batch)-1], "commit") {
					t.Errorf("the posting is statement %d of %d, want it right before the COMMIT", i+1, len(batch))
				}
			}
		}
		if postings != 1 {
			t.Errorf("got %d postings, want one", postings)
		}
	}
}
