package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
)

// parseSources returns the parsed Go files of a tree of packages, without tests.
func parseSources(t *testing.T, root string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// declaredReasons returns the constants of the wait reasons by their names.
func declaredReasons(t *testing.T) map[string]dispatch.WaitReason {
	t.Helper()
	reasons := map[string]dispatch.WaitReason{}
	for _, file := range parseSources(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "WaitReason" {
				value := spec.Values[0].(*ast.BasicLit).Value
				reasons[spec.Names[0].Name] = dispatch.WaitReason(strings.Trim(value, `"`))
			}
			return true
		})
	}
	return reasons
}

func TestEveryWaitReasonHasOneCauseAndIsUsed(t *testing.T) {
	t.Parallel()
	entries := map[dispatch.WaitReason]int{}
	for _, c := range dispatch.WaitCauses() {
		entries[c.Reason]++
	}
	used := map[string]bool{}
	for path, file := range parseSources(t, ".") {
		if path == "wait.go" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	reasons := declaredReasons(t)
	for name, reason := range reasons {
		if entries[reason] != 1 {
			t.Errorf("%s has %d causes, want one", name, entries[reason])
		}
		if !used[name] {
			t.Errorf("no order waits for %s", name)
		}
	}
	if len(entries) != len(reasons) {
		t.Errorf("got causes for %d reasons, and %d are declared", len(entries), len(reasons))
	}
}

func TestEveryWaitCauseIsWhole(t *testing.T) {
	t.Parallel()
	for _, c := range dispatch.WaitCauses() {
		if c.Concerns == "" || c.EndedBy == "" || !c.Queued && !c.Ended {
			t.Errorf("%q concerns no one, is ended by nothing, or no order waits for it: %+v", c.Reason, c)
		}
		if (c.Sentence != "") != c.Queued {
			t.Errorf("%q: its sentence is missing, or no queued order waits for it: %+v", c.Reason, c)
		}
		if c.HoldsUpLater && !c.Ended || c.Missing != dispatch.MissingNothing && !c.Queued {
			t.Errorf("%q says of orders in the queue what is about ended ones, or the reverse: %+v", c.Reason, c)
		}
		amount := c.Missing == dispatch.MissingAmount || c.Missing == dispatch.MissingGas
		if brings := c.Remedy == dispatch.RemedySweep || c.Remedy == dispatch.RemedyTopUp; brings != amount {
			t.Errorf("%q: a sweep and a top-up bring a missing amount, and nothing else does: %+v", c.Reason, c)
		}
	}
}

var comparedInSQL = regexp.MustCompile(`waiting_for(, '')?\)?\s*(=|<>|IN|NOT IN|IS (NOT )?DISTINCT FROM|WHEN)\s*\(?'`)

// Code and statements ask the cause of a wait for a property.
func TestOnlyTheTableNamesWaitReasonsToCompareThem(t *testing.T) {
	t.Parallel()
	reasons := declaredReasons(t)
	compared := func(e ast.Expr) bool {
		if selector, ok := e.(*ast.SelectorExpr); ok {
			e = selector.Sel
		}
		name, ok := e.(*ast.Ident)
		if !ok {
			return false
		}
		_, found := reasons[name.Name]
		return found
	}
	files := 0
	for path, file := range parseSources(t, "..") {
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (compared(n.X) || compared(n.Y)) {
					t.Errorf("%s compares a wait reason", path)
				}
			case *ast.CaseClause:
				if slices.ContainsFunc(n.List, compared) {
					t.Errorf("%s branches on a wait reason", path)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && comparedInSQL.MatchString(n.Value) {
					t.Errorf("%s compares a wait reason in a statement: %s", path, n.Value)
				}
			}
			return true
		})
	}
	if files < 100 {
		t.Errorf("got %d files, want those of every package", files)
	}
}

// The database accepts the waits of the table and no others, in the queue and after an end.
func TestTheDatabaseKnowsTheWaitCauses(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.submitOrder(b.newOrder("wd_2", sim.Address("customer"), 400))
	owner := pgtest.OwnerPool(t, b.db)
	accepts := func(id, reason string, missing any) bool {
		tx, err := owner.Begin(b.ctx)
		b.must(err)
		defer tx.Rollback(b.ctx)
		_, err = tx.Exec(b.ctx, `ALTER TABLE dispatch_orders DISABLE TRIGGER USER`)
		b.must(err)
		_, err = tx.Exec(
			b.ctx, `UPDATE dispatch_orders SET waiting_for = nullif($2, ''), missing_amount = $3 WHERE order_id = $1`,
			id, reason, missing,
		)
		if err != nil && !pg.ViolatesConstraint(err, "dispatch_orders_waiting_known") {
			t.Fatal(err)
		}
		return err == nil
	}
	for _, c := range dispatch.WaitCauses() {
		always := c.Missing == dispatch.MissingAmount || c.Missing == dispatch.MissingGas
		for _, try := range []struct {
			id      string
			missing any
			want    bool
		}{
			{"wd_2", nil, c.Queued && !always},
			{"wd_2", 5, c.Queued && c.Missing != dispatch.MissingNothing},
			{"wd_2", 0, false},
			{"wd_1", nil, c.Ended},
			{"wd_1", 5, false},
		} {
			if got := accepts(try.id, string(c.Reason), try.missing); got != try.want {
				t.Errorf(
					"%s waits for %q and lacks %v: accepted %v, want %v", try.id, c.Reason, try.missing, got, try.want,
				)
			}
		}
	}
	if accepts("wd_2", "WEATHER", nil) || accepts("wd_1", "WEATHER", nil) {
		t.Error("the database accepts a wait without a cause")
	}
}

// submitInternal submits an order that the service plans itself.
func (b *testEnv) submitInternal(o dispatch.Order) {
	b.Helper()
	o.Trigger = dispatch.TriggerValue
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if err := dispatch.Submit(ctx, tx, o); err != nil {
			return err
		}
		if _, err := tx.Exec(
			ctx, `INSERT INTO internal_orders (order_id, org_id, purpose, trigger) VALUES ($1, $2, $3, $4)`,
			o.ID, o.OrgID, o.Purpose, o.Trigger,
		); err != nil || !o.Kind().ReservedBySubmitter {
			return err
		}
		return wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: o.SourceWalletID(), OrgID: b.org, MintID: o.MintID, Part: o.Kind().Reserves, Plus: o.Amount,
		})
	})
}

// depositWallet returns a customer's address with this gas and these tokens.
func (b *testEnv) depositWallet(customer string, gas, tokens uint64) wallet.Wallet {
	b.Helper()
	w, err := b.book.Address(b.ctx, signer.WalletRef{
		OrgID: b.org, Family: b.name.Family(), Purpose: wallet.CustomerDeposit, Subject: customer,
	})
	b.must(err)
	b.fundWallet(w, gas, tokens)
	return w
}

// newSweep returns the sweep of tokens at a deposit address that pays its own fee.
func (b *testEnv) newSweep(id string, from wallet.Wallet, units uint64) dispatch.Order {
	return dispatch.Order{
		ID: id, OrgID: b.org, Purpose: signer.Sweep, Chain: b.name, WalletID: from.ID, ToWalletID: b.treasury.ID,
		To: b.treasury.Address, MintID: usdc, Contract: b.token, Amount: money.Units(units),
	}
}

// Rule WD-43. A person can end an order of any kind without a slot, whatever it waits for. Nothing of
// it is signed afterwards, and the audit log names the person. A hold is released once.
func TestAPersonEndsAnOrderOfAnyKindWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	other := b.depositWallet("eve", 0, 1_000_000)
	orders := map[signer.Purpose]func(id string) dispatch.Order{
		signer.Payment: func(id string) dispatch.Order { return b.newOrder(id, sim.Address(id), 1) },
		signer.Sweep:   func(id string) dispatch.Order { return b.newSweep(id, other, 1) },
		signer.GasTopUp: func(id string) dispatch.Order {
			return dispatch.Order{
				ID: id, OrgID: b.org, Purpose: signer.GasTopUp, Chain: b.name, WalletID: b.treasury.ID,
				ToWalletID: other.ID, To: other.Address, MintID: native, Amount: money.Units(1),
			}
		},
		signer.CreateNonceAccount: func(id string) dispatch.Order {
			return dispatch.Order{
				ID: id, OrgID: b.org, Purpose: signer.CreateNonceAccount, Chain: b.name, WalletID: b.treasury.ID,
				To: sim.Address(id), MintID: native, Amount: money.Units(1),
			}
		},
		signer.CloseTokenAccount: func(id string) dispatch.Order {
			return dispatch.Order{
				ID: id, OrgID: b.org, Purpose: signer.CloseTokenAccount, Chain: b.name, WalletID: b.treasury.ID,
				FromWalletID: other.ID, ToWalletID: b.treasury.ID, To: b.treasury.Address, MintID: usdc,
				Contract: b.token, Amount: money.Units(1),
			}
		},
	}
	// A return needs its flagged deposit and a consolidation a chain with outputs; recallOrder knows
	// no kind, and their features end them in the tests of deposit and of trial/utxo.
	listeners := map[signer.Purpose]dispatch.Listener{}
	for purpose := range orders {
		listeners[purpose] = b.feature
	}
	b.worker = dispatch.New(
		b.db, b.chain.ToChain(), b.signer, journal.RecordEntry, listeners, dispatch.Config{},
		slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(b.signer)),
	)
	payments, ended := 0, 0
	for _, cause := range dispatch.WaitCauses() {
		if !cause.Queued {
			continue
		}
		for purpose, newOrder := range orders {
			id := strings.ToLower(fmt.Sprintf("%s_%s", purpose, cause.Reason))
			if purpose == signer.Payment {
				payments++
				b.submitOrder(newOrder(id))
			} else {
				b.submitInternal(newOrder(id))
			}
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(
					ctx,
					`UPDATE dispatch_orders SET waiting_for = nullif($1, ''), missing_amount = $2 WHERE order_id = $3`,
					cause.Reason, missingUnit(cause), id,
				)
				return err
			})
			if said := b.loadView(id).DescribeWait(); !strings.HasPrefix(said, cause.Sentence) || said == "nothing" {
				t.Errorf("%s: a person reads that it waits for %q", id, said)
			}
			if ok, err := b.worker.CancelOrder(b.ctx, id, operatorActor); err != nil || !ok {
				t.Fatalf("end %s: got %v %v, want true", id, ok, err)
			}
			if ok, err := b.worker.CancelOrder(b.ctx, id, operatorActor); ok {
				t.Errorf("end %s again: got %v %v, want nothing done", id, ok, err)
			}
			b.wantStatus(id, dispatch.Recalled)
			ended++
		}
	}
	b.clock.advance(time.Hour)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_orders WHERE status = 'WITHDRAWN'`); n != ended || ended < 50 {
		t.Errorf("got %d orders that stay ended, want %d", n, ended)
	}
	if n := b.queryCount(
		`SELECT (SELECT count(*) FROM dispatch_slots) + (SELECT count(*) FROM dispatch_attempts)`,
	); n != 0 {
		t.Errorf("got %d slots and transactions, want none", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END'`); n != payments {
		t.Errorf("got %d releases, want one of each of %d payments", n, payments)
	}
	b.wantAudit("order.withdrawn", "OPERATOR", ended)
}

// stoppableSigner is a signer that refuses to admit one order while stop returns an error.
type stoppableSigner struct {
	signer.Signer
	stop func(id string) error
}

func (s stoppableSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	if err := s.stop(i.ID); err != nil {
		return signer.Entry{}, err
	}
	return s.Signer.AdmitIntent(ctx, i)
}

// brokenSender is a chain that cannot build a transaction that pays one address.
type brokenSender struct {
	chain.Sender
	payee chain.Address
	err   error
}

func (s brokenSender) Build(
	from chain.Address, slot chain.Slot, fees chain.Fees, ps ...chain.Payment,
) ([]byte, error) {
	if slices.ContainsFunc(ps, func(p chain.Payment) bool { return p.To == s.payee }) {
		return nil, s.err
	}
	return s.Sender.Build(from, slot, fees, ps...)
}

// waitScenario has a cause begin, makes orders wait for it, and has happen what ends it.
type waitScenario struct {
	solana, noGas bool
	begin         func(b *testEnv)            // nil: the orders suffice
	submit        func(b *testEnv, id string) // nil: submitPayment
	end           func(b *testEnv)
	// other submits an order of the organization that the cause does not concern, as wd_2. It is nil
	// where the cause concerns all orders of the chain.
	other func(b *testEnv)
}

var waitingPayee = sim.Address("customer")

func submitPayment(b *testEnv, id string) { b.submitOrder(b.newOrder(id, waitingPayee, 100)) }

// waitScenarios has one scenario for each cause of the queue. The waits for outputs need a chain
// that has some: see TestAPaymentIsMadeOfADepositsOutputAndItsRestPaysTheNext and
// TestAPaymentOfMoreOutputsThanATransactionSpendsHasThemConsolidated of trial/utxo.
func waitScenarios() map[dispatch.WaitReason]waitScenario {
	stopped := errors.New("no answer")
	submitOther := func(b *testEnv, mintID int, contract chain.Address) {
		o := b.newOrder("wd_2", sim.Address("other"), 7)
		o.MintID, o.Contract, o.CustomerID = mintID, contract, "bob"
		b.submitOrder(o)
	}
	payOther := func(b *testEnv) { submitOther(b, usdc, b.token) }
	payNative := func(b *testEnv) {
		amount := money.Units(7)
		b.chain.Mint(b.treasury.Address, "", amount)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			return wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: b.treasury.ID, OrgID: b.org, MintID: native, Part: wallet.Credited, Plus: amount,
			})
		})
		submitOther(b, native, "")
	}
	sweepOther := func(b *testEnv) { b.submitInternal(b.newSweep("wd_2", b.depositWallet("bob", coin, 7), 7)) }
	refuse := func(reason string, others ...chain.Address) func(b *testEnv) {
		return func(b *testEnv) {
			for _, p := range append(others, b.treasury.Address) {
				b.chain.RefuseTransfers(b.token, p, reason)
			}
			b.chain.Mine(1)
		}
	}
	restart := func(b *testEnv) { b.newWorker(dispatch.Config{}) }
	refusedBySigner := func(refusal error, other func(b *testEnv)) waitScenario {
		return waitScenario{
			begin: func(b *testEnv) {
				b.newWorkerWith(stoppableSigner{b.signer, func(id string) error {
					if strings.HasPrefix(id, "wd_1") {
						return refusal
					}
					return nil
				}}, dispatch.Config{})
			},
			end: restart, other: other,
		}
	}
	return map[dispatch.WaitReason]waitScenario{
		dispatch.WaitNone: {
			begin: func(b *testEnv) {
				b.newWorker(dispatch.Config{InFlightMax: 1})
				b.submitOrder(b.newOrder("wd_0", waitingPayee, 1))
				b.runRounds()
			},
			end: restart, other: sweepOther,
		},
		dispatch.WaitFunds: {
			submit: func(b *testEnv, id string) { b.submitOrder(b.newOrder(id, waitingPayee, 1500)) },
			end:    func(b *testEnv) { b.fundWallet(b.treasury, 0, 1000) },
			other:  payOther,
		},
		dispatch.WaitGas: {
			noGas: true, end: func(b *testEnv) { b.fundWallet(b.treasury, coin, 0) }, other: sweepOther,
		},
		dispatch.WaitSlot: {
			solana: true,
			begin: func(b *testEnv) {
				for i := range 8 {
					b.submitOrder(b.newOrder(fmt.Sprint("wd_0", i), payeeAddress("earlier"), 1))
				}
				b.runRounds()
			},
			submit: func(b *testEnv, id string) { b.submitOrder(b.newOrder(id, payeeAddress("customer"), 100)) },
			end: func(b *testEnv) {
				b.mineAndProve(6)
				b.runRounds()
			},
		},
		dispatch.WaitFreeze: {
			begin: func(b *testEnv) {
				b.putFreeze(freeze.Freeze{
					Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "ann", Source: freeze.SourceOperator,
					Actor: operatorActor,
				})
			},
			end: func(b *testEnv) { b.liftFreezes() }, other: payOther,
		},
		dispatch.WaitQuarantine: {
			begin: func(b *testEnv) {
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return mint.Quarantine(ctx, tx, usdc, "its events lie")
				})
			},
			end: func(b *testEnv) {
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return mint.ReleaseQuarantine(ctx, tx, usdc, operatorActor, "looked at")
				})
			},
			other: payNative,
		},
		dispatch.WaitPaused: {begin: refuse("paused", waitingPayee), end: refuse("", waitingPayee), other: payNative},
		dispatch.WaitSimulation: {
			begin: refuse("blocked"),
			submit: func(b *testEnv, id string) {
				b.submitInternal(b.newSweep(id, b.depositWallet("payer of "+id, coin, 100), 100))
			},
			end: refuse(""), other: payOther,
		},
		dispatch.WaitProviders: {
			begin: func(b *testEnv) { b.chain.Provider(0).SetDown(stopped) },
			end:   func(b *testEnv) { b.chain.Provider(0).SetDown(nil) },
		},
		dispatch.WaitSigner: refusedBySigner(stopped, nil),
		dispatch.WaitClock: refusedBySigner(
			&signer.Refusal{Code: signer.RefusedClock, Message: "confirm it"}, nil,
		),
		dispatch.WaitFeeLimit: refusedBySigner(
			&signer.Refusal{Code: signer.FeeLimit, Message: "feeDayMax"}, sweepOther,
		),
		dispatch.WaitError: {
			begin: func(b *testEnv) { b.breakPayee(waitingPayee, errors.New("no such payee")) },
			end:   restart, other: payOther,
		},
	}
}

// breakPayee makes a Worker whose chain cannot build a transaction that pays an address. nil mends it.
func (b *testEnv) breakPayee(payee chain.Address, err error) {
	ch := b.chain.ToChain()
	if err != nil {
		ch.Sender = brokenSender{ch.Sender, payee, err}
	}
	b.worker = dispatch.New(
		b.db, ch, b.rowsTo(b.signer), journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
		dispatch.Config{}, slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(b.signer)),
	)
}

func newScenarioEnv(t *testing.T, s waitScenario) *testEnv {
	if !s.solana {
		b, gas := newTestEnv(t, openPolicy()), uint64(coin)
		if s.noGas {
			gas = 0
		}
		b.fundWallet(b.treasury, gas, 1000)
		return b
	}
	b := newTestEnvOn(t, signpolicy.Chain{
		SignerID: string(sim.SolanaAddress("network")), FeeMax: money.Units(coin), GasMax: money.Units(coin),
		Unlimited: true,
	}, sim.Config{Name: chain.Solana})
	b.fundWallet(b.treasury, coin, 1000)
	b.mineAndProve(4)
	return b
}

// look runs rounds in which an order may end in an error.
func (b *testEnv) look() {
	b.Helper()
	for range 4 {
		_, _ = b.worker.RunRound(b.ctx)
		b.clock.advance(3 * time.Second)
	}
}

// wantWait expects an order in the queue, which waits for a reason.
func (b *testEnv) wantWait(id string, want dispatch.WaitReason) {
	b.Helper()
	if status, waits := b.orderStatus(id); status != dispatch.Queued || waits != string(want) {
		b.Fatalf("%s: got %s waiting for %q (%s), want it to wait for %q", id, status, waits, b.lastError(id), want)
	}
}

// OUT-R9. What the table says of a cause is so: an order that the cause does not concern is paid
// meanwhile, and an order goes on by itself once what ends the cause has happened. An order that a
// person ends before that stays unpaid.
func TestEveryWaitEndsAsTheTableSays(t *testing.T) {
	t.Parallel()
	scenarios := waitScenarios()
	for _, cause := range dispatch.WaitCauses() {
		s, found := scenarios[cause.Reason]
		if !found {
			if cause.Queued && !cause.LacksOutputs {
				t.Errorf("no test makes an order wait for %s", cause.Reason)
			}
			continue
		}
		concernsAll := cause.Concerns == dispatch.ConcernsChain || cause.Concerns == dispatch.ConcernsInstallation
		if s.other == nil && !concernsAll && !s.solana {
			t.Errorf("%s concerns the %s, and no test has an order of others", cause.Reason, cause.Concerns)
		}
		t.Run(string(cause.Reason), func(t *testing.T) {
			t.Parallel()
			b := newScenarioEnv(t, s)
			if s.begin != nil {
				s.begin(b)
			}
			submit := submitPayment
			if s.submit != nil {
				submit = s.submit
			}
			submit(b, "wd_1")
			submit(b, "wd_1_ended")
			b.look()
			b.wantWait("wd_1", cause.Reason)
			b.wantWait("wd_1_ended", cause.Reason)
			if s.other != nil {
				s.other(b)
				b.look()
				b.wantStatus("wd_2", dispatch.Broadcast)
				b.wantStatus("wd_1", dispatch.Queued)
			}
			if ok, err := b.worker.CancelOrder(b.ctx, "wd_1_ended", operatorActor); err != nil || !ok {
				t.Fatalf("end it: got %v %v, want true", ok, err)
			}
			s.end(b)
			b.clock.advance(5 * time.Minute)
			for range 2 {
				b.look()
				b.mineAndProve(6)
			}
			b.look()
			b.wantStatus("wd_1", dispatch.Paid)
			b.wantStatus("wd_1_ended", dispatch.Recalled)
			if n := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE order_id = 'wd_1_ended'`); n != 0 {
				t.Errorf("got %d slots of what a person ended, want none", n)
			}
			if s.other != nil {
				b.wantStatus("wd_2", dispatch.Paid)
			}
		})
	}
}

// OUT-R9. In a transaction of several payments, one that fails for an unknown reason is left out of
// the next one, and the others are paid.
func TestAnOrderThatFailsForAnUnknownReasonHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.breakPayee(payeeAddress("wd_2"), errors.New("no such payee"))
	b.submitThree()
	for range 3 {
		b.look()
	}
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.wantStatus("wd_3", dispatch.Broadcast)
	b.wantWait("wd_2", dispatch.WaitError)
	if said := b.lastError("wd_2"); !strings.Contains(said, "no such payee") {
		t.Errorf("it says %q, want the error", said)
	}
}

// An error of the database says nothing about the orders, so they still share one transaction and its
// fee afterwards.
func TestAnErrorOfTheDatabaseKeepsOrdersTogether(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.breakPayee(payeeAddress("wd_2"), fmt.Errorf("commit: %w", pg.ErrCommitUnknown))
	b.submitThree()
	b.look()
	b.wantWait("wd_2", dispatch.WaitNone)
	b.breakPayee("", nil)
	b.look()
	b.wantStatus("wd_2", dispatch.Broadcast)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE orders = 3`); n != 1 {
		t.Errorf("got %d slots of all three orders, want 1", n)
	}
}

// A refusal for one payee or one amount leaves the queue, and the next payment of the wallet is made.
func TestARefusalForOnePayeeStopsNoOtherPayment(t *testing.T) {
	t.Parallel()
	for _, c := range dispatch.RefusalCauses() {
		if c.Concerns != dispatch.ConcernsPayee && c.Concerns != dispatch.ConcernsCustomer &&
			c.Concerns != dispatch.ConcernsOrder {
			t.Errorf("%s concerns the %s, whose other orders stay in the queue", c.Code, c.Concerns)
		}
	}
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.chain.RefuseTransfers(b.token, sim.Address("blocked"), "blacklisted")
	b.chain.SetTransferMax(b.token, money.Units(500))
	b.chain.Mine(1)
	b.submitOrder(b.newOrder("wd_1", sim.Address("blocked"), 100))
	b.submitOrder(b.newOrder("wd_2", sim.Address("customer"), 600))
	b.submitOrder(b.newOrder("wd_3", sim.Address("customer"), 100))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Refused)
	b.wantStatus("wd_2", dispatch.Refused)
	b.wantStatus("wd_3", dispatch.Broadcast)
}

// Rule WD-17. The last sweep of an address says whether its funds can be moved, whatever became of
// those before it.
func TestTheLastSweepSaysWhatCannotBeMoved(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	from := b.depositWallet("eve", coin, 100)
	refuse := func(reason string) {
		b.chain.RefuseTransfers(b.token, b.treasury.Address, reason)
		b.chain.Mine(1)
	}
	sweep := func(id string) {
		b.clock.advance(time.Minute)
		b.submitInternal(b.newSweep(id, from, 50))
		b.look()
	}
	wantImmovable := func(when string, want int) {
		t.Helper()
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			immovable, err := dispatch.ListImmovableFunds(ctx, tx, b.org, usdc)
			if len(immovable) != want {
				t.Errorf("%s: got %+v, want %d", when, immovable, want)
			}
			return err
		})
	}
	refuse("blocked")
	sweep("sw_1")
	b.wantWait("sw_1", dispatch.WaitSimulation)
	wantImmovable("while it would revert", 1)
	if ok, err := b.worker.CancelOrder(b.ctx, "sw_1", operatorActor); err != nil || !ok {
		t.Fatalf("end it: got %v %v, want true", ok, err)
	}
	wantImmovable("after a person ended it", 1)
	refuse("")
	sweep("sw_2")
	b.wantStatus("sw_2", dispatch.Broadcast)
	wantImmovable("once another is out", 0)
}

var refusalCode = regexp.MustCompile(`(?m)^\s*(?:const )?(\w+(?:Refused|Taken|Failed|Limit|Held)) += "(\w+)"$`)

// The codes of refusals that the service gives are each in the table.
func TestEveryRefusalOfTheServiceHasACause(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("wait.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := refusalCode.FindAllStringSubmatch(string(source), -1)
	if len(codes) != 8 {
		t.Errorf("got %d codes, want 8", len(codes))
	}
	for _, code := range codes {
		if n := len(slices.DeleteFunc(dispatch.RefusalCauses(), func(c dispatch.RefusalCause) bool {
			return c.Code != code[2]
		})); n != 1 {
			t.Errorf("%s has %d causes, want one", code[1], n)
		}
	}
}

// What a remedy brings ends the waits for it, and no other wait of the wallet.
func TestARemedyEndsItsOwnWaits(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	remedies := []dispatch.Remedy{
		dispatch.RemedySweep, dispatch.RemedyTopUp, dispatch.RemedyNonceAccount, dispatch.RemedyConsolidation,
	}
	for i, remedy := range remedies {
		for _, c := range dispatch.WaitCauses() {
			if !c.Queued || c.Reason == dispatch.WaitNone {
				continue
			}
			id := fmt.Sprintf("wd_%d_%s", i, c.Reason)
			b.submitOrder(b.newOrder(id, sim.Address("customer"), 1))
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(
					ctx, `UPDATE dispatch_orders SET waiting_for = $1, missing_amount = $2 WHERE order_id = $3`,
					c.Reason, missingUnit(c), id,
				)
				return err
			})
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				return dispatch.EndWaits(ctx, tx, b.treasury.ID, b.name, remedy)
			})
			_, waits := b.orderStatus(id)
			if ended := waits == ""; ended != (c.Remedy == remedy) {
				t.Errorf("after a %s: the wait for %s ended: %v", remedy, c.Reason, ended)
			}
		}
	}
}

// missingUnit returns a missing amount for a cause that may have one.
func missingUnit(c dispatch.WaitCause) *money.Amount {
	if c.Missing == dispatch.MissingNothing {
		return nil
	}
	one := money.Units(1)
	return &one
}
