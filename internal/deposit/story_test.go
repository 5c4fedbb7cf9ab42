package deposit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// TestWhateverTheChainDoesTheBooksAreWhatBecameFinal plays random stories of payments, forks, lying
// and lagging providers, rewound cursors and failing steps. It then compares the ledger with the
// chain itself.
func TestWhateverTheChainDoesTheBooksAreWhatBecameFinal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			playRandom(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func playRandom(t *testing.T, r *rand.Rand) {
	const (
		acts   = 150
		behind = 3
	)
	w := newTestEnv(t)
	super := pgtest.OwnerPool(t, w.db)
	// Events of one customer cannot be written while this trigger refuses them. The credit then
	// fails after all its other writes.
	_, err := super.Exec(t.Context(), `
		CREATE TABLE broken (on_off boolean NOT NULL);
		INSERT INTO broken VALUES (false);
		GRANT SELECT ON broken TO coffer_system;
		CREATE FUNCTION break_event() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT on_off FROM broken) AND NEW.customer_id = 'bob' THEN RAISE EXCEPTION 'broken'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER break_event BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION break_event()`)
	if err != nil {
		t.Fatalf("make events breakable: %v", err)
	}
	var (
		highest uint64 // the highest tip that was ever shown
		hashes  []chain.TxHash
		people  = []chain.Address{alice, bob, treasury, checkout, sim.Address("stranger")}
		tokens  = []chain.Address{"", usdcAt, sim.Address("unknown")}
	)
	w.c.Mint(payer, tokens[2], money.Units(1_000_000))
	pay := func() []sim.Move {
		var moves []sim.Move
		for i := range 1 + r.IntN(3) {
			m := sim.Move{
				Contract: tokens[r.IntN(3)], To: people[r.IntN(len(people))], Amount: money.Units(5 + r.Uint64N(100)),
			}
			if m.Contract == "" && (i > 0 || r.IntN(2) == 0) {
				m.Kind = chain.Internal
			}
			m.Reverted = r.IntN(8) == 0
			moves = append(moves, m)
		}
		return moves
	}
	for range acts {
		switch r.IntN(14) {
		case 0, 1, 2:
			hashes = append(hashes, w.c.SubmitTx(payer, pay()...))
		case 3, 4, 5:
			w.c.Mine(1 + r.IntN(3))
			highest = max(highest, w.c.Latest().Height)
		case 6, 7:
			// The fork never goes below the block that was final when the chain was at its highest.
			if depth := int(w.c.Latest().Height) - max(0, int(highest)-behind); depth > 0 {
				var dropped []chain.TxHash
				if len(hashes) > 0 && r.IntN(2) == 0 {
					dropped = append(dropped, hashes[len(hashes)-1])
				}
				w.c.Fork(1+r.IntN(depth), dropped...)
			}
			// The first transaction that is mined again has another effect on this fork.
			if pool := w.c.Mempool(); len(pool) > 0 && r.IntN(2) == 0 {
				for _, h := range pool {
					w.c.DropTx(h)
				}
				w.c.ResubmitTx(pool[0], payer, pay()...)
			}
		case 8:
			p := w.c.Provider(0)
			switch height := w.c.Latest().Height; r.IntN(4) {
			case 0:
				p.SetLag(r.Uint64N(4))
			case 1:
				p.LieEmpty(height, true)
				defer p.LieEmpty(height, false)
			case 2:
				p.SetDown(errors.New("no route to host"))
			case 3:
				p.Prune(true)
			}
			w.tryMoves(t, 3)
			p.SetLag(0)
			p.SetDown(nil)
			p.Prune(false)
			p.LieEmpty(w.c.Latest().Height, false)
		case 9:
			if _, err := super.Exec(t.Context(), `UPDATE broken SET on_off = NOT on_off`); err != nil {
				t.Fatal(err)
			}
		case 10:
			_ = w.w.Rewind(t.Context(), r.Uint64N(highest+1), audit.Operator("op"))
		default:
			w.tryMoves(t, 1+r.IntN(6))
		}
	}
	if _, err := super.Exec(t.Context(), `UPDATE broken SET on_off = false`); err != nil {
		t.Fatal(err)
	}
	for h := range highest + 1 {
		w.c.Provider(0).LieEmpty(h, false)
	}
	w.c.Mine(1 + int(highest-w.c.Latest().Height))
	w.c.MineEmpty(behind)
	w.walkBlocks(t)

	check := func(what string, kind ledger.Kind, subject string, mintID int, want money.Amount) {
		t.Helper()
		if got := w.loadBalance(t, kind, subject, mintID); got != want {
			t.Errorf("%s: got %v in the books, want %v as on the chain", what, got, want)
		}
	}
	credited := func(to, contract chain.Address) money.Amount {
		sum := money.Zero
		for _, tr := range w.c.Transfers(to, contract) {
			if to != treasury && tr.Amount.Less(money.Units(10)) {
				continue // dust
			}
			var err error
			if sum, err = sum.Add(tr.Amount); err != nil {
				t.Fatal(err)
			}
		}
		return sum
	}
	check("alice's coins", ledger.Customer, "alice", eth, credited(alice, ""))
	check("alice's tokens", ledger.Customer, "alice", usdc, credited(alice, usdcAt))
	check("bob's coins", ledger.Customer, "bob", eth, credited(bob, ""))
	check("bob's tokens", ledger.Customer, "bob", usdc, credited(bob, usdcAt))
	check("checkout's coins", ledger.Product, "CHECKOUT", eth, credited(checkout, ""))
	check("checkout's tokens", ledger.Product, "CHECKOUT", usdc, credited(checkout, usdcAt))
	check("gas", ledger.Gas, "", eth, credited(treasury, ""))
	check("suspense", ledger.Suspense, "", usdc, credited(treasury, usdcAt))
	for walletID, address := range map[string]chain.Address{
		"adr_alice": alice, "adr_bob": bob, "adr_treasury": treasury, "adr_checkout": checkout,
	} {
		for mintID, contract := range map[int]chain.Address{eth: "", usdc: usdcAt} {
			f := w.loadFunds(t, walletID, mintID)
			sum, err := f.Credited.Add(f.Gas)
			if err == nil {
				sum, err = sum.Add(f.Dust)
			}
			if got := w.c.Balance(address, contract); err != nil || got != sum {
				t.Errorf("%s, mint %d: got %v accounted for, want %v as on the chain", walletID, mintID, sum, got)
			}
		}
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING')`); n != 0 {
		t.Errorf("got %d deposits that nothing became of, want none", n)
	}
	if got, want := w.queryCount(t, `SELECT count(*) FROM events`),
		len(w.listDeposits(t, deposit.Filter{Status: "CREDITED"})); got != want {
		t.Errorf("got %d events, want %d", got, want)
	}
	if n := w.queryCount(
		t, `SELECT count(*) FROM scan_findings`,
	) + w.queryCount(t, `SELECT count(*) FROM freezes`); n != 0 {
		t.Errorf("got %d findings and freezes, want none", n)
	}
}

// tryMoves takes steps that may fail.
func (w *testEnv) tryMoves(t *testing.T, steps int) {
	t.Helper()
	for range steps {
		_, _ = w.w.StepFinal(t.Context())
		_, _ = w.w.StepHead(t.Context())
		_, _ = w.service.CreditWaiting(t.Context())
	}
}
