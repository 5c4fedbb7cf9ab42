package swaps

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// outcome is what a request returned.
type outcome struct {
	swap.Swap
	isReplayed bool
	err        error
}

// start begins a request at a service.
func (e *testEnv) start(s *swap.Service, r swap.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		w, isReplayed, err := s.Request(e.ctx, e.org, r)
		ended <- outcome{w, isReplayed, err}
	}()
	return ended
}

// holdFirm makes the desk keep the first firm question until end is called, and answer the others as refuse
// says. asked is closed when the first one is asked.
func (e *testEnv) holdFirm(first, others error) (asked <-chan struct{}, end func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	count := 0
	e.desk.set(func() {
		e.desk.firm = func(provider.Ask) error {
			if count++; count > 1 {
				return others
			}
			close(arrived)
			e.desk.mu.Unlock() // so that the desk answers others meanwhile
			defer e.desk.mu.Lock()
			<-released
			return first
		}
	})
	return arrived, func() { close(released) }
}

// exec runs a statement as the organization.
func (e *testEnv) exec(sql string, args ...any) {
	e.Helper()
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	}))
}

// impatient is a context that ends long before the provider answers.
func impatient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Rule SWAP-4: a refusal says that no other process is making the swap.
func TestNoProcessRefusesAKeyThatAnotherOneIsMakingASwapOf(t *testing.T) {
	t.Parallel()
	e := newUnswept(t)
	other := e.open(pgtest.Open(t, e.database, e.clock))
	asked, end := e.holdFirm(nil, provider.Refused(e.desk.name, "no"))
	making := e.start(e.Swaps, request("key"))
	<-asked
	_, _, err := other.Swaps.Request(impatient(t), e.org, request("key"))
	if err == nil || fault.Find(err) != nil {
		t.Errorf("got %v while another process asks the provider, want no answer", err)
	}
	// Another key does not wait.
	_, _, err = other.Swaps.Request(e.ctx, e.org, request("another"))
	e.wantFault(err, fault.QuoteRejected)
	waiting := e.start(other.Swaps, request("key"))
	end()
	made, found := <-making, <-waiting
	if made.err != nil || found.err != nil {
		t.Fatalf("got the errors %v and %v, want the swap twice", made.err, found.err)
	}
	if made.isReplayed || !found.isReplayed || made.ID != found.ID {
		t.Errorf("got %s replayed %t, then %s replayed %t", made.ID, made.isReplayed, found.ID, found.isReplayed)
	}
	if n := e.number(`SELECT count(*) FROM swap_turns`); n != 0 {
		t.Errorf("%d turns are left", n)
	}
	e.look("the requests")
}

// Rule SWAP-4: a caller that waited gets a turn of its own after a refusal.
func TestACallerThatWaitedAsksAfterARefusal(t *testing.T) {
	t.Parallel()
	e := newUnswept(t)
	other := e.open(pgtest.Open(t, e.database, e.clock))
	asked, end := e.holdFirm(provider.Refused(e.desk.name, "no"), nil)
	refused := e.start(e.Swaps, request("key"))
	<-asked
	waiting := e.start(other.Swaps, request("key"))
	end()
	e.wantFault((<-refused).err, fault.QuoteRejected)
	made := <-waiting
	if made.err != nil || made.isReplayed {
		t.Errorf("got replayed %t %v, want a swap", made.isReplayed, made.err)
	}
	e.look("the requests")
}

// The turn of a process that died is taken over when its time is over, and not before.
func TestATurnOfADeadProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	e := newUnswept(t)
	leave := func(key, endsIn string) {
		e.exec(`
			INSERT INTO swap_turns (org_id, swap_id, holder, ends_at) VALUES ($1, $2, 'dead', now() + $3::interval)`,
			e.org, swap.ID(e.org, key), endsIn)
	}
	leave("key", "1 minute")
	if _, _, err := e.Swaps.Request(impatient(t), e.org, request("key")); err == nil || fault.Find(err) != nil {
		t.Errorf("got %v in the turn of another process, want no answer", err)
	}
	e.exec(`UPDATE swap_turns SET ends_at = now()`)
	w, isReplayed, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	if err != nil || isReplayed || w.ID != swap.ID(e.org, "key") {
		t.Errorf("got %s replayed %t %v, want a swap", w.ID, isReplayed, err)
	}
	e.look("the request")
}

// Rule SWAP-4: a caller that lost its turn writes nothing and refuses nothing.
func TestACallerThatLostItsTurnNeitherMakesNorRefusesASwap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		limit  string
	}{
		"the provider offers":                  {},
		"the provider offers, and has a limit": {limit: "1000"},
		"the provider refuses":                 {answer: provider.Refused("DESK", "no")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			if c.limit != "" {
				e.limit(e.desk, c.limit)
			}
			asked, end := e.holdFirm(c.answer, nil)
			lost := e.start(e.Swaps, request("key"))
			<-asked
			e.exec(`UPDATE swap_turns SET holder = 'another', ends_at = now() + interval '1 minute'`)
			end()
			e.wantFault((<-lost).err, fault.CodeUnavailable)
			e.wantNothing()
			e.wantBooks(whole)
			if n := e.number(`SELECT count(*) FROM swap_turns WHERE holder = 'another'`); n != 1 {
				t.Error("the turn of another process was ended")
			}
			e.look("the request")
		})
	}
}

// A caller that works keeps its turn, however long the provider takes.
func TestATurnIsProlongedWhileItsCallerWorks(t *testing.T) {
	t.Parallel()
	e := newUnswept(t)
	asked, end := e.holdFirm(nil, nil)
	making := e.start(e.Swaps, request("key"))
	<-asked
	const left = `SELECT floor(extract(epoch FROM ends_at) * 1000000)::bigint FROM swap_turns`
	first := e.number(left)
	pgtest.Eventually(t, func() bool { return e.number(left) > first }, "the turn ends later than it did")
	end()
	e.must((<-making).err)
	e.look("the request")
}

// flexOutcome is what a request for a deposit swap returned.
type flexOutcome struct {
	depositswap.DepositSwap
	isReplayed bool
	err        error
}

// startFlex begins a request for a deposit swap at a service.
func (e *flexEnv) startFlex(s *depositswap.Service, r depositswap.Request) <-chan flexOutcome {
	ended := make(chan flexOutcome, 1)
	go func() {
		d, isReplayed, _, err := s.Request(e.ctx, e.org, r)
		ended <- flexOutcome{d, isReplayed, err}
	}()
	return ended
}

// holdFlex makes the desk keep the first firm question until end is called, and answer the others as others says.
// asked is closed when the first one is asked.
func (e *flexEnv) holdFlex(first, others error) (asked <-chan struct{}, end func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	count := 0
	e.till.mu.Lock()
	defer e.till.mu.Unlock()
	e.till.firm = func() error {
		if count++; count > 1 {
			return others
		}
		close(arrived)
		e.till.mu.Unlock() // so that the desk answers others meanwhile
		defer e.till.mu.Lock()
		<-released
		return first
	}
	return arrived, func() { close(released) }
}

// Rule DSW-4: a refusal says that no other process is making the deposit swap.
func TestNoProcessRefusesAKeyThatAnotherOneIsMakingADepositSwapOf(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	other := e.openFlex(pgtest.Open(t, e.database, e.clock))
	asked, end := e.holdFlex(nil, provider.Refused(e.till.Name(), "no"))
	making := e.startFlex(e.DepositSwaps, flexRequest("key"))
	<-asked
	_, _, _, err := other.DepositSwaps.Request(impatient(t), e.org, flexRequest("key"))
	if err == nil || fault.Find(err) != nil {
		t.Errorf("got %v while another process asks the provider, want no answer", err)
	}
	// Another key does not wait, and neither does a request without one.
	for _, r := range []depositswap.Request{flexRequest("another"), withoutKey()} {
		_, _, _, err = other.DepositSwaps.Request(e.ctx, e.org, r)
		e.wantFault(err, fault.QuoteRejected)
	}
	waiting := e.startFlex(other.DepositSwaps, flexRequest("key"))
	end()
	made, found := <-making, <-waiting
	if made.err != nil || found.err != nil {
		t.Fatalf("got the errors %v and %v, want the deposit swap twice", made.err, found.err)
	}
	if made.isReplayed || !found.isReplayed || made.ID != found.ID || made.DepositAddress != found.DepositAddress {
		t.Errorf("got %s replayed %t, then %s replayed %t", made.ID, made.isReplayed, found.ID, found.isReplayed)
	}
	if n := e.number(`SELECT count(*) FROM swap_turns`); n != 0 {
		t.Errorf("%d turns are left", n)
	}
	e.look("the requests")
}

func withoutKey() depositswap.Request {
	r := flexRequest("")
	r.IdempotencyKey = nil
	return r
}

// Rule DSW-4: a caller that waited gets a turn of its own after a refusal.
func TestACallerThatWaitedAsksForADepositSwapAfterARefusal(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	other := e.openFlex(pgtest.Open(t, e.database, e.clock))
	asked, end := e.holdFlex(provider.Refused(e.till.Name(), "no"), nil)
	refused := e.startFlex(e.DepositSwaps, flexRequest("key"))
	<-asked
	waiting := e.startFlex(other.DepositSwaps, flexRequest("key"))
	end()
	e.wantFault((<-refused).err, fault.QuoteRejected)
	made := <-waiting
	if made.err != nil || made.isReplayed {
		t.Errorf("got replayed %t %v, want a deposit swap", made.isReplayed, made.err)
	}
	e.look("the requests")
}

// A crash in a turn keeps the key of a deposit swap from others until the turn is over, and not longer.
func TestATurnOfADeadProcessEndsForADepositSwap(t *testing.T) {
	t.Parallel()
	e := newFlexEnv(t)
	e.exec(`
		INSERT INTO swap_turns (org_id, swap_id, holder, ends_at) VALUES ($1, $2, 'dead', now() + interval '1 minute')`,
		e.org, depositswap.ID(e.org, "key"))
	_, _, _, err := e.DepositSwaps.Request(impatient(t), e.org, flexRequest("key"))
	if err == nil || fault.Find(err) != nil {
		t.Errorf("got %v in the turn of another process, want no answer", err)
	}
	e.exec(`UPDATE swap_turns SET ends_at = now()`)
	d := e.request(flexRequest("key"))
	if d.ID != depositswap.ID(e.org, "key") {
		t.Errorf("got %s", d.ID)
	}
}

// Rule DSW-4: a caller that lost its turn writes nothing and refuses nothing.
func TestACallerThatLostItsTurnNeitherMakesNorRefusesADepositSwap(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"the provider offers": nil, "the provider refuses": provider.Refused(signertest.SwapProvider, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newFlexEnv(t)
			asked, end := e.holdFlex(answer, nil)
			lost := e.startFlex(e.DepositSwaps, flexRequest("key"))
			<-asked
			e.exec(`UPDATE swap_turns SET holder = 'another', ends_at = now() + interval '1 minute'`)
			end()
			e.wantFault((<-lost).err, fault.CodeUnavailable)
			if n := e.number(`SELECT (SELECT count(*) FROM deposit_swaps) + (SELECT count(*) FROM customers)`); n != 0 {
				t.Errorf("a caller that lost its turn wrote %d rows", n)
			}
			if n := e.number(`SELECT count(*) FROM swap_turns WHERE holder = 'another'`); n != 1 {
				t.Error("the turn of another process was ended")
			}
			e.look("the request")
		})
	}
}
