package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
)

// tripCounter counts the batches that are sent, and those of them that have the guard.
type tripCounter struct{ batches, atOnce atomic.Int64 }

func (c *tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (c *tripCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *tripCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (c *tripCounter) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData,
) context.Context {
	c.batches.Add(1)
	for _, q := range b.Batch.QueuedQueries {
		if strings.Contains(q.SQL, "transfers_guard") {
			c.atOnce.Add(1)
		}
	}
	return ctx
}

// newCountedService returns a service whose batches are counted and that remembers ann, bob and custody.
func (h *testEnv) newCountedService() (*transfer.Service, *tripCounter) {
	h.t.Helper()
	c := &tripCounter{}
	db := pgtest.OpenTraced(h.t, pgtest.DatabaseOf(h.t, h.db), time.Now, c)
	s := transfer.New(db, numberingRecorder())
	h.fundParty(h.one, ann, 100)
	h.fundParty(h.one, bob, 100)
	h.fundParty(h.one, custody, 100)
	for i, p := range [][2]transfer.Party{{ann, bob}, {bob, custody}, {custody, ann}} {
		if _, err := s.Request(h.t.Context(), h.one, newRequest(fmt.Sprint("warm", i), p[0], p[1], "1")); err != nil {
			h.t.Fatal(err)
		}
	}
	c.batches.Store(0)
	c.atOnce.Store(0)
	return s, c
}

// Rule TR-12.
func TestAGroupWithoutAnythingUnusualTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, c := h.newCountedService()
	for i, p := range [][2]transfer.Party{{ann, bob}, {custody, bob}, {bob, ann}} {
		got, err := s.Request(t.Context(), h.one, newRequest(fmt.Sprint("k", i), p[0], p[1], "3"))
		if err != nil || got.Replayed || got.Transfer.Amount.String() != "3" {
			t.Errorf("transfer %d: got %+v (%v), want it made", i, got, err)
		}
	}
	if c.batches.Load() != 3 || c.atOnce.Load() != 3 {
		t.Errorf("got %d batches, %d of them at once, want 3 and 3", c.batches.Load(), c.atOnce.Load())
	}
	h.wantBalance(h.one, ann, 100)
	h.wantBalance(h.one, bob, 103)
	h.wantBalance(h.one, custody, 97)
	h.wantTransfers(6)
}

// Accounts that are not remembered are looked up by the postings themselves, and remembered then. Rule TR-12.
func TestAccountsThatAreNotRememberedTakeNoRoundTrip(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, c := h.newCountedService()
	for _, name := range []string{"eve", "dan"} {
		h.fundParty(h.one, customer(name), 50)
	}
	for i := range 3 {
		r := newRequest(fmt.Sprint("k", i), customer("eve"), customer("dan"), "10")
		if _, err := s.Request(t.Context(), h.one, r); err != nil {
			t.Fatal(err)
		}
	}
	if c.batches.Load() != 3 || c.atOnce.Load() != 3 {
		t.Errorf("got %d batches, %d of them at once, want 3 and 3", c.batches.Load(), c.atOnce.Load())
	}
	h.wantBalance(h.one, customer("eve"), 20)
	h.wantBalance(h.one, customer("dan"), 80)
	// An account that does not exist is opened by the look-up.
	if _, err := s.Request(t.Context(), h.one, newRequest("new", ann, customer("zoe"), "5")); err != nil {
		t.Fatal(err)
	}
	if c.batches.Load() < 5 {
		t.Errorf("got %d batches, want a look-up behind the fourth", c.batches.Load())
	}
	h.wantBalance(h.one, customer("zoe"), 5)
	h.wantTransfers(7)
}

// owe writes down that a payer owes an amount for a payment that a restored backup lacked.
func (h *testEnv) owe(column, subject string, amount int) {
	h.t.Helper()
	_, err := h.owner.Exec(h.t.Context(), fmt.Sprintf(`
		DO $$
		DECLARE
			r record;
		BEGIN
			ALTER TABLE withdrawals DISABLE TRIGGER USER;
			FOR r IN SELECT conname FROM pg_constraint
				WHERE conrelid = 'withdrawals'::regclass AND contype IN ('c', 'f') LOOP
				EXECUTE format('ALTER TABLE withdrawals DROP CONSTRAINT %%I', r.conname);
			END LOOP;
			FOR r IN SELECT attname FROM pg_attribute
				WHERE attrelid = 'withdrawals'::regclass AND attnotnull AND attnum > 0
					AND attname NOT IN (SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
					AND a.attnum = ANY (i.indkey) WHERE i.indrelid = 'withdrawals'::regclass AND i.indisprimary) LOOP
				EXECUTE format('ALTER TABLE withdrawals ALTER COLUMN %%I DROP NOT NULL', r.attname);
			END LOOP;
			INSERT INTO withdrawals (withdrawal_id, org_id, %s, mint_id, owed) VALUES ('wd_1', '%s', '%s', 1, %d);
		END $$`, column, h.one, subject, amount))
	if err != nil {
		h.t.Fatal(err)
	}
}

// Whatever is unusual refuses a group that is sent at once, and a look-up decides: the answer is that of a service
// that remembers nothing. Rule TR-12.
func TestWhatIsUnusualIsDecidedByALookUp(t *testing.T) {
	t.Parallel()
	freezeBy := func(f freeze.Freeze) func(*testEnv) {
		return func(h *testEnv) {
			if f.Scope == freeze.ScopeCustomer || f.Scope == freeze.ScopeOrganization {
				f.OrgID = h.one
			}
			h.createFreeze(f)
		}
	}
	execute := func(h *testEnv, sql string) {
		if _, err := h.owner.Exec(h.t.Context(), sql); err != nil {
			h.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change  func(h *testEnv)
		request transfer.Request
		code    fault.Code // of the refusal, or "" for what is made
		atOnce  bool       // nothing is unusual after all
	}{
		"a frozen customer": {
			change: freezeBy(freeze.Freeze{
				Scope: freeze.ScopeCustomer, CustomerID: "ann", Source: freeze.SourceOrganization,
			}), code: fault.CustomerFrozen,
		},
		"another frozen customer": {
			change: freezeBy(freeze.Freeze{
				Scope: freeze.ScopeCustomer, CustomerID: "bob", Source: freeze.SourceOrganization,
			}), atOnce: true,
		},
		"a frozen organization": {
			change: freezeBy(freeze.Freeze{Scope: freeze.ScopeOrganization, Source: freeze.SourceOperator}),
			code:   fault.OrganizationFrozen,
		},
		"a stopped chain": {
			change: freezeBy(freeze.Freeze{
				Scope: freeze.ScopeChain, Chain: chain.Ethereum, Source: freeze.SourceFinality,
			}), code: fault.WithdrawalsSuspended,
		},
		"another stopped chain": {
			change: freezeBy(freeze.Freeze{Scope: freeze.ScopeChain, Chain: "SOLANA", Source: freeze.SourceFinality}),
		},
		"everything stopped": {
			change: freezeBy(freeze.Freeze{Scope: freeze.ScopeAll, Source: freeze.SourceVerify}),
			code:   fault.WithdrawalsSuspended,
		},
		"a quarantined mint": {
			change: func(h *testEnv) {
				err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
					return mint.Quarantine(ctx, tx, usdc, "test")
				})
				if err != nil {
					h.t.Fatal(err)
				}
			}, code: fault.WithdrawalsSuspended,
		},
		"a mint with another logo": {
			change: func(h *testEnv) { execute(h, `UPDATE mints SET logo_url = 'https://x.example/a.svg'`) },
		},
		"a debt of the customer, and the rest suffices": {
			change: func(h *testEnv) { h.owe("customer_id", "ann", 10) },
		},
		"a debt of the customer that leaves too little": {
			change: func(h *testEnv) { h.owe("customer_id", "ann", 95) }, code: fault.InsufficientBalance,
		},
		"a debt of another customer": {
			change: func(h *testEnv) { h.owe("customer_id", "bob", 95) }, atOnce: true,
		},
		"a debt of the product": {
			change:  func(h *testEnv) { h.owe("product", "CUSTODIAL", 95) },
			request: newRequest("k", custody, ann, "7"), code: fault.InsufficientBalance,
		},
		"a known key":            {request: newRequest("warm0", ann, bob, "1")},
		"a known key of another": {request: newRequest("warm0", ann, bob, "2"), code: fault.IdempotencyConflict},
		"too small a balance":    {request: newRequest("k", ann, bob, "101"), code: fault.InsufficientBalance},
		"the whole balance":      {request: newRequest("k", ann, bob, "100"), atOnce: true},
		"a new customer":         {request: newRequest("k", ann, customer("new"), "1")},
		"no amount":              {request: newRequest("k", ann, bob, "0"), code: fault.InvalidAmount},
		"an unknown payer":       {request: newRequest("k", customer("no"), bob, "1"), code: fault.InsufficientBalance},
		"an account with another number since a restore": {
			change: func(h *testEnv) {
				execute(h, `ALTER TABLE ledger_accounts DISABLE TRIGGER USER;
					UPDATE ledger_accounts SET subject = 'moved' WHERE kind = 'CUSTOMER' AND subject = 'bob';
					UPDATE ledger_accounts SET subject = 'bob' WHERE kind = 'CUSTOMER' AND subject = 'eve';
					UPDATE ledger_accounts SET subject = 'eve' WHERE kind = 'CUSTOMER' AND subject = 'moved';
					ALTER TABLE ledger_accounts ENABLE TRIGGER USER`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundParty(h.one, customer("eve"), 5)
			s, counter := h.newCountedService()
			if c.change != nil {
				c.change(h)
			}
			r := c.request
			if r.IdempotencyKey == "" {
				r = newRequest("k", ann, bob, "7")
			}
			got, err := s.Request(t.Context(), h.one, r)
			f := fault.Find(err)
			switch {
			case c.code != "" && (f == nil || f.Code != c.code):
				t.Errorf("got %+v (%v), want %s", got, err, c.code)
			case c.code == "" && err != nil:
				t.Errorf("got %v, want the transfer", err)
			}
			if isReplay := r.IdempotencyKey == "warm0" && c.code == ""; got.Replayed != isReplay {
				t.Errorf("got replayed %v, want %v", got.Replayed, isReplay)
			}
			if batches := counter.batches.Load(); (batches == 1 && counter.atOnce.Load() == 1) != c.atOnce {
				t.Errorf("got %d batches, %d at once; want it at once: %v", batches, counter.atOnce.Load(), c.atOnce)
			}
			want := 3
			if c.code == "" && r.IdempotencyKey == "k" {
				want++
			}
			h.wantTransfers(want)
			if strings.HasPrefix(name, "an account") {
				h.wantBalance(h.one, bob, 12) // whose account had 5
				h.wantBalance(h.one, customer("eve"), 100)
			}
		})
	}
}

// One of many requests that is unusual changes no other answer, and a key that is twice in a group is one transfer.
func TestAnUnusualRequestRefusesNoOtherOfItsGroup(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	h.fundParty(h.one, bob, 100)
	for i, p := range [][2]transfer.Party{{ann, bob}, {bob, custody}, {custody, ann}} {
		h.mustTransfer(newRequest(fmt.Sprint("warm", i), p[0], p[1], "1"))
	}
	got := h.runParallel(
		newRequest("a", ann, bob, "60"), newRequest("b", ann, bob, "60"), newRequest("c", bob, ann, "10"),
		newRequest("c", bob, ann, "10"), newRequest("warm0", ann, bob, "1"),
	)
	for i, want := range []fault.Code{"", fault.InsufficientBalance, "", "", ""} {
		if want == "" && got[i].err != nil || want != "" && !fault.HasCode(got[i].err, want) {
			t.Errorf("request %d: got %+v, want %q", i, got[i], want)
		}
	}
	h.wantBalance(h.one, ann, 50)
	h.wantBalance(h.one, bob, 150)
}

// A replay is free although its group was counted before its key was known. Rules TR-12 and LIM-1.
func TestAReplayThatWasSentAtOnceIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, c := h.newCountedService()
	counted := 0
	request := func(key string) {
		t.Helper()
		r := newRequest(key, ann, bob, "1")
		r.Limit, r.Unlimit = func() error { counted++; return nil }, func() { counted-- }
		if _, err := s.Request(t.Context(), h.one, r); err != nil {
			t.Fatal(err)
		}
	}
	request("k")
	if counted != 1 || c.atOnce.Load() != 1 {
		t.Errorf("got %d counted and %d at once, want 1 and 1", counted, c.atOnce.Load())
	}
	request("k")
	if counted != 1 || c.atOnce.Load() != 2 {
		t.Errorf("got %d counted and %d at once after the replay, want 1 and 2", counted, c.atOnce.Load())
	}
	// A limit that refuses leaves the answer to the look-up.
	limited := newRequest("k", ann, bob, "1")
	limited.Limit = func() error { return errors.New("over the rate") }
	if got, err := s.Request(t.Context(), h.one, limited); err != nil || !got.Replayed {
		t.Errorf("got %+v (%v), want the replay at any rate", got, err)
	}
}

// An organization whose groups keep being refused is looked up, so that it does not do its work twice; after a while it
// is tried again.
func TestAGroupThatKeepsBeingRefusedIsSentAtOnceRarely(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, c := h.newCountedService()
	for i := range 200 {
		if _, err := s.Request(
			t.Context(), h.one, newRequest(fmt.Sprint("k", i), ann, bob, "1000"),
		); !fault.HasCode(err, fault.InsufficientBalance) {
			t.Fatalf("request %d: got %v, want %s", i, err, fault.InsufficientBalance)
		}
	}
	if n := c.atOnce.Load(); n < 3 || n > 9 {
		t.Errorf("got %d of 200 groups sent at once, want some and few", n)
	}
	for i := range 70 {
		if _, err := s.Request(t.Context(), h.one, newRequest(fmt.Sprint("good", i), ann, bob, "1")); err != nil {
			t.Fatal(err)
		}
	}
	before, all := c.atOnce.Load(), c.batches.Load()
	if _, err := s.Request(t.Context(), h.one, newRequest("last", ann, bob, "1")); err != nil {
		t.Fatal(err)
	}
	if c.atOnce.Load() != before+1 || c.batches.Load() != all+1 {
		t.Errorf("got %d more at once and %d more batches, want 1 and 1", c.atOnce.Load()-before, c.batches.Load()-all)
	}
}

// The COMMIT of a group that was sent at once gets no answer. Rules TR-6 and TR-9.
func TestAGroupAtOnceWhoseCommitIsUnknownIsAnsweredByItsRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loss pgtest.Loss
		made bool // and known to be
		late bool // it is made, and no one knows
	}{
		"it is there": {loss: pgtest.Loss{Action: pgtest.AnswerLost, Nth: 1}, made: true},
		"it is there, and cannot be looked up": {
			loss: pgtest.Loss{Action: pgtest.AnswerLost, Nth: 1, KeepDown: true}, late: true,
		},
		"it is not there": {loss: pgtest.Loss{Action: pgtest.CommitLost, Nth: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			h.fundParty(h.one, ann, 100)
			h.fundParty(h.one, bob, 100)
			p := &pgtest.Proxy{}
			d := pgtest.DatabaseOf(t, h.db)
			d.URL = p.Start(t, d.URL)
			s := transfer.New(pgtest.Open(t, d, time.Now), numberingRecorder())
			if _, err := s.Request(t.Context(), h.one, newRequest("warm", ann, bob, "1")); err != nil {
				t.Fatal(err)
			}
			p.LoseNext(c.loss)
			got, err := s.Request(t.Context(), h.one, newRequest("k", ann, bob, "5"))
			if !p.HasLost() {
				t.Fatal("no COMMIT was lost")
			}
			if c.made && (err != nil || got.Transfer.ID == "") ||
				!c.made && (!errors.Is(err, pg.ErrCommitUnknown) || fault.Find(err) != nil || got.Transfer.ID != "") {
				t.Errorf("got %+v (%v), want it made: %v, or else unknown", got, err, c.made)
			}
			p.Restore()
			again, err := s.Request(t.Context(), h.one, newRequest("k", ann, bob, "5"))
			if err != nil || again.Replayed != (c.made || c.late) {
				t.Errorf("repeated: got %+v (%v), want it replayed: %v", again, err, c.made || c.late)
			}
			h.wantBalance(h.one, ann, 94)
			h.wantTransfers(2)
		})
	}
}

// Writers that remember, in two processes, lose and double nothing.
func TestTwoProcessesThatRememberShareBalancesAndKeys(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 300)
	h.fundParty(h.one, bob, 300)
	other, db := h.newService()
	services := []*transfer.Service{h.service, other}
	for i, s := range services {
		if _, err := s.Request(t.Context(), h.one, newRequest(fmt.Sprint("warm", i), ann, bob, "1")); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var made atomic.Int64
	for i := range 200 {
		wg.Go(func() {
			r := newRequest(fmt.Sprint("k", i/2), ann, bob, "4") // each key in both processes
			if i%4 > 1 {
				r.From, r.To = bob, ann
			}
			switch out, err := services[i%2].Request(t.Context(), h.one, r); {
			case err == nil && !out.Replayed:
				made.Add(1)
			case err != nil && !fault.HasCode(err, fault.InsufficientBalance):
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	h.wantTransfers(int(made.Load()) + 2)
	if n := made.Load(); n != 100 {
		t.Errorf("got %d made, want one for each of 100 keys", n)
	}
	h.wantBalance(h.one, ann, 298)
	h.wantBalance(h.one, bob, 302)
	h.wantNoDeadlock(db)
}
