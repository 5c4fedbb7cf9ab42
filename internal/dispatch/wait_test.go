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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
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
			t.Errorf("%q: nobody is told what a queued order waits for, or for no order: %+v", c.Reason, c)
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
				t.Errorf("%s waits for %q and lacks %v: accepted %v, want %v", try.id, c.Reason, try.missing, got, try.want)
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
		b.db, b.chain.ToChain(), b.signer, mirror.RecordEntry, listeners, dispatch.Config{},
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
			var missing *money.Amount
			if one := money.Units(1); cause.Missing != dispatch.MissingNothing {
				missing = &one
			}
			b.inSystem(func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(
					ctx, `UPDATE dispatch_orders SET waiting_for = nullif($1, ''), missing_amount = $2 WHERE order_id = $3`,
					cause.Reason, missing, id,
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
	if n := b.queryCount(`SELECT (SELECT count(*) FROM dispatch_slots) + (SELECT count(*) FROM dispatch_attempts)`); n != 0 {
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
	payee *chain.Address
}

func (s brokenSender) Build(
	from chain.Address, slot chain.Slot, fees chain.Fees, ps ...chain.Payment,
) ([]byte, error) {
	if slices.ContainsFunc(ps, func(p chain.Payment) bool { return p.To == *s.payee }) {
		return nil, errors.New("no such payee")
	}
	return s.Sender.Build(from, slot, fees, ps...)
}

// waitScenario makes the order wd_1 wait for a cause, and then has happen what ends the cause.
type waitScenario struct {
	solana, noGas bool
	begin, end    func(b *testEnv)
	// other submits an order of the organization that the cause does not concern, as wd_2. It is nil
	// where the cause concerns all orders of the chain.
	other func(b *testEnv)
}

// waitScenarios has one scenario for each cause of the queue. The waits for outputs need a chain
// that has some: see TestAPaymentIsMadeOfADepositsOutputAndItsRestPaysTheNext and
// TestAPaymentOfMoreOutputsThanATransactionSpendsHasThemConsolidated of trial/utxo.
func waitScenarios() map[dispatch.WaitReason]waitScenario {
	to := sim.Address("customer")
	stopped := errors.New("no answer")
	pay := func(b *testEnv) { b.submitOrder(b.newOrder("wd_1", to, 100)) }
	payNative := func(b *testEnv) {
		o := b.newOrder("wd_2", sim.Address("other"), 7)
		o.MintID, o.Contract, o.CustomerID = native, "", "bob"
		b.chain.Mint(b.treasury.Address, "", o.Amount)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			return wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: b.treasury.ID, OrgID: b.org, MintID: native, Part: wallet.Credited, Plus: o.Amount,
			})
		})
		b.submitOrder(o)
	}
	payOther := func(b *testEnv) {
		o := b.newOrder("wd_2", sim.Address("other"), 7)
		o.CustomerID = "bob"
		b.submitOrder(o)
	}
	sweepOther := func(b *testEnv) { b.submitInternal(b.newSweep("wd_2", b.depositWallet("bob", coin, 7), 7)) }
	refuse := func(b *testEnv, reason string, payees ...chain.Address) {
		for _, p := range payees {
			b.chain.RefuseTransfers(b.token, p, reason)
		}
		b.chain.Mine(1)
	}
	bySigner := func(refusal error) waitScenario {
		return waitScenario{
			begin: func(b *testEnv) {
				b.newWorkerWith(stoppableSigner{b.signer, func(id string) error {
					if id == "wd_1" {
						return refusal
					}
					return nil
				}}, dispatch.Config{})
				pay(b)
			},
			end: func(b *testEnv) { b.newWorker(dispatch.Config{}) },
		}
	}
	feeLimit := bySigner(&signer.Refusal{Code: signer.FeeLimit, Message: "feeDayMax"})
	feeLimit.other = sweepOther
	return map[dispatch.WaitReason]waitScenario{
		dispatch.WaitNone: {
			begin: func(b *testEnv) {
				b.newWorker(dispatch.Config{InFlightMax: 1})
				b.submitOrder(b.newOrder("wd_0", to, 1))
				b.runRounds()
				pay(b)
			},
			end:   func(b *testEnv) { b.newWorker(dispatch.Config{}) },
			other: sweepOther,
		},
		dispatch.WaitFunds: {
			begin: func(b *testEnv) { b.submitOrder(b.newOrder("wd_1", to, 1500)) },
			end:   func(b *testEnv) { b.fundWallet(b.treasury, 0, 1000) },
			other: payOther,
		},
		dispatch.WaitGas: {
			noGas: true,
			begin: pay,
			end:   func(b *testEnv) { b.fundWallet(b.treasury, coin, 0) },
			other: sweepOther,
		},
		dispatch.WaitSlot: {
			solana: true,
			begin: func(b *testEnv) {
				for i := range 8 {
					b.submitOrder(b.newOrder(fmt.Sprint("wd_0", i), payeeAddress("earlier"), 1))
				}
				b.runRounds()
				b.submitOrder(b.newOrder("wd_1", payeeAddress("customer"), 100))
			},
			end: func(b *testEnv) {
				b.mineAndProve(6)
				b.runRounds()
				b.mineAndProve(6)
			},
		},
		dispatch.WaitFreeze: {
			begin: func(b *testEnv) {
				b.putFreeze(freeze.Freeze{
					Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "ann", Source: freeze.SourceOperator,
					Actor: audit.Operator("op"),
				})
				pay(b)
			},
			end:   func(b *testEnv) { b.liftFreezes() },
			other: payOther,
		},
		dispatch.WaitQuarantine: {
			begin: func(b *testEnv) {
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return mint.Quarantine(ctx, tx, usdc, "its events lie")
				})
				pay(b)
			},
			end: func(b *testEnv) {
				b.inSystem(func(ctx context.Context, tx pg.Tx) error {
					return mint.ReleaseQuarantine(ctx, tx, usdc, audit.Operator("op"), "looked at")
				})
			},
			other: payNative,
		},
		dispatch.WaitPaused: {
			begin: func(b *testEnv) {
				refuse(b, "paused", to, b.treasury.Address)
				pay(b)
			},
			end:   func(b *testEnv) { refuse(b, "", to, b.treasury.Address) },
			other: payNative,
		},
		dispatch.WaitSimulation: {
			begin: func(b *testEnv) {
				refuse(b, "blocked", b.treasury.Address)
				b.submitInternal(b.newSweep("wd_1", b.depositWallet("ann", coin, 100), 100))
			},
			end:   func(b *testEnv) { refuse(b, "", b.treasury.Address) },
			other: payOther,
		},
		dispatch.WaitProviders: {
			begin: func(b *testEnv) {
				b.chain.Provider(0).SetDown(stopped)
				pay(b)
			},
			end: func(b *testEnv) { b.chain.Provider(0).SetDown(nil) },
		},
		dispatch.WaitSigner:   bySigner(stopped),
		dispatch.WaitClock:    bySigner(&signer.Refusal{Code: signer.RefusedClock, Message: "confirm it"}),
		dispatch.WaitFeeLimit: feeLimit,
		dispatch.WaitError: {
			begin: func(b *testEnv) {
				ch := b.chain.ToChain()
				ch.Sender = brokenSender{ch.Sender, &to}
				b.worker = dispatch.New(
					b.db, ch, b.signer, mirror.RecordEntry, map[signer.Purpose]dispatch.Listener{
						signer.Payment: b.feature,
					}, dispatch.Config{}, slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(b.signer)),
				)
				pay(b)
			},
			end:   func(b *testEnv) { b.newWorker(dispatch.Config{}) },
			other: payOther,
		},
	}
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
	b := newTestEnvOn(t, local.ChainPolicy{
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

// OUT-R9. What the table says of a cause is so: an order that the cause does not concern is paid
// meanwhile, the order goes on by itself once what ends the cause has happened, and a person who ends
// it before keeps it unpaid.
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
		if alone := cause.Concerns == dispatch.ConcernsChain || cause.Concerns == dispatch.ConcernsInstallation; s.other == nil && !alone &&
			cause.Reason != dispatch.WaitSlot {
			t.Errorf("%s concerns %s, and no test has an order of somebody else", cause.Reason, cause.Concerns)
		}
		for _, act := range []string{"goes on", "is ended"} {
			t.Run(fmt.Sprintf("%s %s", cause.Reason, act), func(t *testing.T) {
				t.Parallel()
				b := newScenarioEnv(t, s)
				s.begin(b)
				b.look()
				if status, waits := b.orderStatus("wd_1"); status != dispatch.Queued || waits != string(cause.Reason) {
					t.Fatalf("got %s waiting for %q (%s), want it to wait for %q", status, waits, b.lastError("wd_1"), cause.Reason)
				}
				if s.other != nil {
					s.other(b)
					b.look()
					b.wantStatus("wd_2", dispatch.Broadcast)
					b.wantStatus("wd_1", dispatch.Queued)
				}
				want := dispatch.Paid
				if act == "is ended" {
					want = dispatch.Recalled
					if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor); err != nil || !ok {
						t.Fatalf("end it: got %v %v, want true", ok, err)
					}
				}
				s.end(b)
				b.clock.advance(5 * time.Minute)
				for range 3 {
					b.look()
					b.mineAndProve(6)
				}
				b.look()
				b.wantStatus("wd_1", want)
				if n := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE order_id = 'wd_1'`); (n == 1) != (want == dispatch.Paid) {
					t.Errorf("got %d slots of an order that is %s", n, want)
				}
				if s.other != nil {
					b.wantStatus("wd_2", dispatch.Paid)
				}
			})
		}
	}
}

// OUT-R9. In a transaction of several payments, one that fails for an unknown reason is left out of
// the next one, and the others are paid.
func TestAnOrderThatFailsForAnUnknownReasonHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	ch, payee := b.chain.ToChain(), payeeAddress("wd_2")
	ch.Sender = brokenSender{ch.Sender, &payee}
	b.worker = dispatch.New(
		b.db, ch, b.signer, mirror.RecordEntry, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
		dispatch.Config{}, slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(b.signer)),
	)
	b.submitThree()
	for range 3 {
		b.look()
		b.mineAndProve(6)
	}
	b.look()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_3", dispatch.Paid)
	if status, waits := b.orderStatus("wd_2"); status != dispatch.Queued || waits != string(dispatch.WaitError) ||
		!strings.Contains(b.lastError("wd_2"), "no such payee") {
		t.Errorf("got %s waiting for %q (%s), want ERROR", status, waits, b.lastError("wd_2"))
	}
}

// A refusal for one payee or one amount leaves the queue, and the next payment of the wallet is made.
func TestARefusalForOnePayeeStopsNoOtherPayment(t *testing.T) {
	t.Parallel()
	for _, c := range dispatch.RefusalCauses() {
		if c.Concerns != dispatch.ConcernsPayee && c.Concerns != dispatch.ConcernsCustomer &&
			c.Concerns != dispatch.ConcernsOrder {
			t.Errorf("%s concerns %s: an order that leaves the queue for it leaves the others behind", c.Code, c.Concerns)
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

// The codes of refusals that the service gives are each in the table.
func TestEveryRefusalOfTheServiceHasACause(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("wait.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\s*(?:const )?(\w+(?:Refused|Taken|Failed|Limit|Held)) += "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
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
