package service_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const coin = 1_000_000_000_000_000_000

// restoreEnv is what no backup of the database contains: the chain, the signer with its journal,
// and the time.
type restoreEnv struct {
	*testing.T
	net    *sim.Chain
	signer *refusingSigner
	attest []byte
	mu     sync.Mutex
	now    time.Time
}

func (o *restoreEnv) clock() time.Time { o.mu.Lock(); defer o.mu.Unlock(); return o.now }

func (o *restoreEnv) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// refusingSigner is a signer that refuses to sign some intents.
type refusingSigner struct {
	signer.Signer
	mu     sync.Mutex
	refuse map[string]bool
	full   map[string]bool // ids that the policy has no limit left for
	mute   bool            // it voids nothing
}

func (s *refusingSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	s.mu.Lock()
	no := s.mute
	s.mu.Unlock()
	if no {
		return signer.Entry{}, errors.New("the signer does not answer")
	}
	return s.Signer.VoidIntent(ctx, v)
}

func (s *refusingSigner) deaf(id string) { s.mu.Lock(); defer s.mu.Unlock(); s.refuse[id] = true }

func (s *refusingSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	s.mu.Lock()
	no := s.refuse[r.IntentID]
	s.mu.Unlock()
	if no {
		return signer.SignedTx{}, errors.New("the signer does not answer")
	}
	return s.Signer.Sign(ctx, r)
}

// AdmitIntent refuses the intents in full for their amount, like an exhausted limit.
func (s *refusingSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	s.mu.Lock()
	no := s.full[i.ID]
	s.mu.Unlock()
	if no {
		return signer.Entry{}, &signer.Refusal{Code: signer.PolicyLimit, Message: "nothing is left for today"}
	}
	return s.Signer.AdmitIntent(ctx, i)
}

func newRestoreEnv(t *testing.T) *restoreEnv {
	t.Helper()
	sign, attest := signertest.New(t)
	return &restoreEnv{
		T: t, net: sim.New(sim.Config{}), signer: &refusingSigner{Signer: sign, refuse: map[string]bool{}},
		attest: attest,
		now:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// restoredService is the service on one database. A test runs it one step at a time, with a check
// of the books after each.
type restoredService struct {
	*restoreEnv
	*service.Service
	ctx   context.Context
	db    *pg.DB
	org   string
	steps []func(context.Context) error
	quick bool // no check after each step
}

func (o *restoreEnv) on(d pgtest.Database, orgID string) *restoredService {
	o.Helper()
	s := &restoredService{restoreEnv: o, ctx: o.Context(), db: pgtest.Open(o, d, o.clock), org: orgID}
	parts := harness.New(harness.Config{
		DB: s.db, Chain: o.net.ToChain(), Signer: o.signer, AttestKey: o.attest,
		Prices: price.Fixed{
			Prices: map[int]money.USD{1: money.MustParseUSD("1"), 2: money.MustParseUSD("3000")}, Clock: o.clock,
		},
	})
	s.Service = parts.Service
	for _, step := range parts.ListSteps(nil) {
		run := step.Run
		switch step.Name {
		case "sweeps":
			s.steps = append(s.steps, func(ctx context.Context) error {
				_, err := s.Withdrawals.CollectOwed(ctx)
				return err
			})
		case "dispatch":
			run = func(ctx context.Context) error {
				err := step.Run(ctx)
				if err != nil && strings.Contains(err.Error(), "the signer does not answer") {
					return nil
				}
				return err
			}
		case "voids":
			continue // the test that has voids says when the signer answers
		}
		s.steps = append(s.steps, run)
	}
	return s
}

func (s *restoredService) look(when string) {
	s.Helper()
	r, err := verify.RunChecks(s.ctx, s.db, verify.WithoutSchema)
	s.must(err)
	onChain, err := verify.CompareWithChains(s.ctx, s.db, s.Chains)
	s.must(err)
	for _, r := range []verify.Report{r, onChain} {
		if !r.IsIntact() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			s.must(err)
			s.Fatalf("after %s:\n%s", when, b.String())
		}
	}
}

func (s *restoredService) pass(blocks int) {
	s.Helper()
	for range blocks {
		for _, step := range s.steps {
			s.must(step(s.ctx))
			if !s.quick {
				s.look("a step")
			}
		}
		s.net.Mine(1)
		s.mu.Lock()
		s.now = s.now.Add(5 * time.Second)
		s.mu.Unlock()
	}
}

func (s *restoredService) address(customerID string) chain.Address {
	s.Helper()
	s.must(s.db.InOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, s.org, customerID, "")
		return err
	}))
	w, err := s.Wallets.Address(s.ctx, signertest.Deposit(s.org, customerID))
	s.must(err)
	return w.Address
}

func (s *restoredService) ask(key, customerID, amount string, to chain.Address, approval bool) (string, error) {
	w, _, err := s.Withdrawals.Request(s.ctx, s.org, withdrawal.Request{
		MintID: 1, CustomerID: customerID, Amount: amount, ToAddress: string(to), RequireApproval: approval,
		IdempotencyKey: &key, Reference: &key, Actor: audit.APIKey(s.org),
	})
	return w.ID, err
}

func (s *restoredService) withdraw(key, customerID, amount string, to chain.Address, approval bool) string {
	s.Helper()
	id, err := s.ask(key, customerID, amount, to, approval)
	s.must(err)
	return id
}

func (s *restoredService) want(withdrawalID, status string) {
	s.Helper()
	w, err := s.Withdrawals.ByID(s.ctx, s.org, withdrawalID)
	s.must(err)
	if string(w.Status) != status {
		s.Errorf("withdrawal %s: got %v (%v), want %v", withdrawalID, w.Status, w.ApprovalReasons, status)
	}
}

func (s *restoredService) has(customerID string, want uint64) {
	s.Helper()
	s.must(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx,
			ledger.Account{OrgID: s.org, MintID: 1, Kind: ledger.Customer, Subject: customerID})
		if err == nil && got != money.Units(want) {
			s.Errorf("%s has %v, want %v", customerID, got, want)
		}
		return err
	}))
}

func (s *restoredService) number(sql string, args ...any) (n int64) {
	s.Helper()
	s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&n)
	}))
	return n
}

// readEvents returns the ids of the deposits by their movement, and the ids of the events about
// each.
func (s *restoredService) readEvents() (deposits, events map[string]string) {
	s.Helper()
	deposits, events = map[string]string{}, map[string]string{}
	s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.chain || ' ' || d.tx_hash || ' ' || d.kind || ' ' || d.position, d.deposit_id, coalesce(e.event_id, '')
			FROM deposits d LEFT JOIN events e ON e.org_id = d.org_id AND e.resource_id = d.deposit_id`)
		if err != nil {
			return err
		}
		var movement, depositID, eventID string
		_, err = pgx.ForEachRow(rows, []any{&movement, &depositID, &eventID}, func() error {
			deposits[movement], events[movement] = depositID, eventID
			return nil
		})
		return err
	}))
	return deposits, events
}

// start creates a service: two customers with money that was swept, and one completed payment.
func start(t *testing.T) (*restoredService, pgtest.Database) {
	t.Helper()
	o := newRestoreEnv(t)
	d := pgtest.NewDatabase(t)
	s := o.on(d, "")
	s.quick = true
	s.must(mirror.ImportJournal(s.ctx, s.db, o.signer, s.Wallets))
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(10), MinWithdraw: money.Units(10),
		ConfirmationsRequired: 3, Finality: "FINALIZED",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = 2, mint.Native, "", "ETH",
		"Ether", 18
	s.must(mint.Sync(s.ctx, s.db, []mint.Mint{token, native}))
	made, _, err := org.Create(s.ctx, s.db, "Acme")
	s.must(err)
	s.org = made.ID
	treasury, err := s.Wallets.Treasury(s.ctx, s.org, chain.EVM)
	s.must(err)
	rich := sim.Address("rich")
	s.net.Mint(rich, signertest.Token, money.Units(10_000_000_000))
	s.net.Mint(rich, "", money.Units(10*coin))
	s.net.Pay(rich, treasury.Address, "", coin)
	s.net.Pay(rich, s.address("ann"), signertest.Token, 500_000_000)
	s.net.Pay(rich, s.address("bob"), signertest.Token, 80_000_000)
	s.pass(14)
	early := s.withdraw("early", "ann", "50000000", sim.Address("shop"), false)
	s.pass(8)
	s.want(early, "COMPLETED")
	s.has("ann", 450_000_000)
	return s, d
}

// I-16, I-20 and O08. A backup from before several payments is restored. Nothing is paid twice,
// every key returns its payment, and the books become what the lost ones would have become.
func TestARestoredBackupPaysNothingTwice(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	shop, rich := sim.Address("shop"), sim.Address("rich")
	held := live.withdraw("held", "bob", "5000000", sim.Address("held"), true)
	backup := pgtest.CopyDatabase(t, d)

	// Payments that only the lost database has.
	cid := live.address("cid")
	live.net.Pay(rich, cid, signertest.Token, 300_000_000)
	live.net.Pay(rich, live.address("ann"), signertest.Token, 200_000_000)
	live.pass(14) // credited, topped up and swept
	_, err := live.Withdrawals.Approve(live.ctx, live.org, held, audit.User("usr_1"))
	live.must(err)
	final := live.withdraw("final", "ann", "600000000", shop, false)
	newcomer := live.withdraw("newcomer", "cid", "120000000", sim.Address("newcomer"), false)
	live.pass(8)
	live.want(final, "COMPLETED")
	live.want(held, "COMPLETED")
	flying := live.withdraw("flying", "bob", "60000000", sim.Address("flying"), false)
	live.pass(1)
	live.want(flying, "BROADCAST")
	live.net.Provider(0).Swallow(true) // accepted, with no effect
	unsent := live.withdraw("unsent", "cid", "20000000", sim.Address("unsent"), false)
	for _, step := range live.steps {
		live.must(step(live.ctx))
	}
	live.net.Provider(0).Swallow(false)
	unsigned := live.withdraw("unsigned", "ann", "10000000", sim.Address("unsigned"), false)
	live.signer.deaf(unsigned)
	for _, step := range live.steps {
		live.must(step(live.ctx))
	}
	live.look("the last step of the lost database")
	lastNumber := live.number(`SELECT max(sequence) FROM events`)
	deposits, tellings := live.readEvents()
	if n := live.number(`SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, unsigned); n != 1 {
		t.Fatalf("the payment that was never signed has %d slots, want 1", n)
	}
	live.db.Close()

	s := live.on(backup, live.org)
	s.signer.refuse = map[string]bool{}
	var unknown *mirror.UnknownError
	if err := mirror.CheckJournal(s.ctx, s.db, s.signer, s.Wallets); !errors.As(err, &unknown) {
		t.Fatalf("the older database: got %v, want *UnknownError", err)
	}
	wanted := []string{final, newcomer, flying, unsent, unsigned, held}
	for _, id := range wanted {
		if !slices.Contains(unknown.Intents, id) {
			t.Errorf("the error does not name %s: %v", id, unknown.Intents)
		}
	}
	by := audit.Operator("op")
	for range 2 {
		before := s.number(`SELECT count(*) FROM audit_log`)
		_, err = mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(by), true)
		if !errors.Is(err, mirror.ErrRehearsed) || s.number(`SELECT count(*) FROM audit_log`) != before {
			t.Fatalf("a rehearsal: got %v, want ErrRehearsed and nothing written", err)
		}
	}
	done, err := mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(by), false)
	s.must(err)
	if n := s.number(
		`SELECT count(*) FROM audit_log WHERE (actor_kind, actor_id, action, resource_kind, resource_id) = ('OPERATOR', 'op', $1, 'JOURNAL', 'signer')`,
		"journal.imported",
	); n != 1 {
		t.Errorf("got %d rows of the import in the audit log, want one", n)
	}
	if len(done.Missing.Intents) < len(wanted) {
		t.Errorf("restored %v, want at least %v", done.Missing.Intents, wanted)
	}
	s.must(mirror.CheckJournal(s.ctx, s.db, s.signer, s.Wallets))
	s.look("the import")
	s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		f, err := freeze.Active(ctx, tx, freeze.Target{OrgID: s.org})
		if f != nil {
			t.Errorf("frozen after the import: %+v", f)
		}
		return err
	}))

	// The keys return their payments, and the owed money cannot be spent.
	for key, c := range map[string]struct {
		id, customer, amount, to string
	}{
		"final": {final, "ann", "600000000", "shop"}, "flying": {flying, "bob", "60000000", "flying"},
		"unsent": {unsent, "cid", "20000000", "unsent"}, "unsigned": {unsigned, "ann", "10000000", "unsigned"},
	} {
		for _, approval := range []bool{false, true} {
			if got, err := s.ask(key, c.customer, c.amount, sim.Address(c.to), approval); err != nil || got != c.id {
				t.Errorf("key %s: got %s %v, want %s", key, got, err, c.id)
			}
		}
		var f *fault.Fault
		if got, err := s.ask(key, c.customer, c.amount+"0", sim.Address(c.to), false); !errors.As(err, &f) ||
			f.Code != fault.IdempotencyConflict {
			t.Errorf("key %s for another payment: got %s %v, want %s", key, got, err, fault.IdempotencyConflict)
		}
	}
	s.has("ann", 0)
	s.want(unsigned, "AWAITING_APPROVAL")
	s.want(held, "PROCESSING")
	if owed := s.number(`SELECT coalesce(sum(owed), 0)::bigint FROM withdrawals`); owed == 0 {
		t.Error("nothing is owed, and the backup lacks the deposits that paid")
	}
	if _, err := s.ask("greedy", "ann", "100000000", shop, false); err == nil {
		t.Error("what is owed could be withdrawn")
	}

	s.pass(26)
	for _, id := range []string{final, held, newcomer, flying, unsent} {
		s.want(id, "COMPLETED")
	}
	for to, want := range map[string]uint64{
		"shop": 650_000_000, "held": 5_000_000, "newcomer": 120_000_000, "flying": 60_000_000, "unsent": 20_000_000,
		"unsigned": 0,
	} {
		if got := s.net.Received(sim.Address(to), signertest.Token); got != money.Units(want) {
			t.Errorf("%s received %v, want %d", to, got, want)
		}
	}
	s.has("ann", 40_000_000) // the payment that was never signed holds 10,000,000
	s.has("bob", 15_000_000)
	s.has("cid", 160_000_000)
	for what, sql := range map[string]string{
		"owed":            `SELECT coalesce(sum(owed), 0)::bigint FROM withdrawals`,
		"without funds":   `SELECT count(*) FROM dispatch_orders WHERE funds_pending`,
		"open":            `SELECT count(*) FROM dispatch_orders WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')`,
		"open sweeps":     `SELECT count(*) FROM sweeps WHERE status = 'OPEN'`,
		"numbers re-used": `SELECT count(*) FROM event_gaps g JOIN events e ON e.sequence > g.after AND e.sequence <= g.resumed_at`,
	} {
		if n := s.number(sql); n != 0 {
			t.Errorf("%s: got %d, want 0", what, n)
		}
	}
	if first := s.number(
		`SELECT min(sequence) FROM events WHERE sequence > (SELECT max(after) FROM event_gaps)`,
	); first <= lastNumber {
		t.Errorf("numbers go on at %d, and the lost database gave up to %d", first, lastNumber)
	}

	// Rule DEP-13. A deposit that is found again has the ids that integrators know.
	foundAgain, toldAgain := s.readEvents()
	if !maps.Equal(foundAgain, deposits) || len(deposits) == 0 {
		t.Errorf("deposits: got %v, want %v as before", foundAgain, deposits)
	}
	if !maps.Equal(toldAgain, tellings) || len(tellings) == 0 {
		t.Errorf("events of deposits: got %v, want %v as before", toldAgain, tellings)
	}

	// A person decides about payments that were never signed.
	_, err = s.Withdrawals.Approve(s.ctx, s.org, unsigned, audit.User("usr_1"))
	s.must(err)
	s.pass(8)
	s.want(unsigned, "COMPLETED")
	if got := s.net.Received(sim.Address("unsigned"), signertest.Token); got != money.Units(10_000_000) {
		t.Errorf("the approved payment moved %v, want 10000000", got)
	}

	// The path of an address decides its owner: an address that the lost database issued is its
	// customer's.
	if got := s.address("cid"); got != cid {
		t.Errorf("cid's address is %s, was %s", got, cid)
	}
	if s.address("dan") == cid {
		t.Error("the address of one customer was given to another")
	}
	after := s.withdraw("after", "cid", "30000000", shop, false)
	s.pass(8)
	s.want(after, "COMPLETED")
}

// A customer made two payments after the backup: the restored balance covers each of them, and not
// both. Both have their holds, and the missing amount is owed once.
func TestTwoLostPaymentsThatTogetherExceedTheRestoredBalanceAreBothHeld(t *testing.T) {
	t.Parallel()
	live, d := start(t) // ann has 450
	backup := pgtest.CopyDatabase(t, d)
	live.net.Pay(sim.Address("rich"), live.address("ann"), signertest.Token, 400_000_000)
	live.pass(14)
	live.has("ann", 850_000_000)
	one := live.withdraw("one", "ann", "400000000", sim.Address("one"), false)
	two := live.withdraw("two", "ann", "300000000", sim.Address("two"), false)
	live.pass(8)
	live.want(one, "COMPLETED")
	live.want(two, "COMPLETED")
	live.db.Close()

	s := live.on(backup, live.org)
	s.has("ann", 450_000_000)
	_, err := mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), false)
	s.must(err)
	s.look("the import")
	s.has("ann", 0)
	if owed := s.number(`SELECT coalesce(sum(owed), 0)::bigint FROM withdrawals`); owed != 250_000_000 {
		t.Errorf("owed: got %d, want 250000000", owed)
	}
	if held := s.number(
		`SELECT sum(balance)::bigint FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'WITHDRAWING'`,
	); held != 700_000_000 {
		t.Errorf("held: got %d, want 700000000", held)
	}
	if _, err := s.ask(
		"greedy", "ann", "10", sim.Address("shop"), false,
	); !fault.HasCode(err, fault.InsufficientBalance) {
		t.Errorf("a further payment: got %v, want %s", err, fault.InsufficientBalance)
	}
	s.pass(26)
	for _, id := range []string{one, two} {
		s.want(id, "COMPLETED")
	}
	s.has("ann", 150_000_000)
	if owed := s.number(`SELECT coalesce(sum(owed), 0)::bigint FROM withdrawals`); owed != 0 {
		t.Errorf("owed at the end: got %d, want 0", owed)
	}
	for to, want := range map[string]uint64{"one": 400_000_000, "two": 300_000_000} {
		if got := s.net.Received(sim.Address(to), signertest.Token); got != money.Units(want) {
			t.Errorf("%s received %v, want %d", to, got, want)
		}
	}
	pgtest.ExpectLockException(t, s.db, "mirror.RestoreDatabase")
}

// The database is restored under a running service. A caller that repeats its request gets a new
// id, and nothing is paid again before a person looks.
func TestARequestRepeatedOnARestoredDatabaseIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	backup := pgtest.CopyDatabase(t, d)
	shop := sim.Address("shop")
	lost := live.withdraw("again", "ann", "30000000", shop, false)
	live.signer.deaf(lost) // admitted: another order may take its slot
	for _, step := range live.steps {
		live.must(step(live.ctx))
	}
	live.db.Close()
	paid := live.net.Received(shop, signertest.Token)

	s := live.on(backup, live.org)
	s.quick = true
	repeated := s.withdraw("again", "ann", "30000000", shop, false)
	if repeated == lost {
		t.Fatal("the restored database knows the payment")
	}
	s.pass(2)
	s.want(repeated, "AWAITING_APPROVAL")
	w, err := s.Withdrawals.ByID(s.ctx, s.org, repeated)
	s.must(err)
	if !slices.Equal(w.ApprovalReasons, []withdrawal.Reason{"DUPLICATE_KEY"}) {
		t.Errorf("reasons: got %v, want DUPLICATE_KEY", w.ApprovalReasons)
	}
	if n := s.number(
		`SELECT count(*) FROM freezes WHERE scope = 'ALL' AND source = 'SIGNER' AND lifted_at IS NULL AND reason LIKE '%' || $1 || '%signer import%'`,
		lost,
	); n != 1 {
		t.Errorf("got %d freezes of everything that name %s and what to do, want 1", n, lost)
	}
	if n := s.number(
		`SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'order.refused' AND detail->>'why' LIKE '%signer import%'`,
		repeated,
	); n != 1 {
		t.Errorf("got %d audit rows that say what to do, want 1", n)
	}
	s.pass(8)
	if got := s.net.Received(shop, signertest.Token); got != paid {
		t.Errorf("the shop has %v, want %v: the payment went out again", got, paid)
	}
	// Rows that the database created after the restore contradict the journal; the error says to
	// restore it once more.
	_, err = mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), true)
	if err == nil || !strings.Contains(err.Error(), "restore the backup again") {
		t.Errorf("import: got %v, want it to ask for the backup once more", err)
	}
}

// A backup has a queued payment, and another that waits for its first approval. Both were refused
// for a limit and cancelled after the backup. The import refuses to go on without an operator, and
// neither is ever paid.
func TestABackupFromBeforeAPaymentWasTakenBackPaysItNever(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	gone := live.withdraw("gone", "ann", "60000000", sim.Address("gone"), false)
	held := live.withdraw("held", "bob", "5000000", sim.Address("gone"), true)
	live.signer.full = map[string]bool{gone: true, held: true}
	backup := pgtest.CopyDatabase(t, d)
	_, err := live.Withdrawals.Approve(live.ctx, live.org, held, audit.User("usr_1"))
	live.must(err)
	for range 3 {
		for _, step := range live.steps {
			live.must(step(live.ctx))
		}
	}
	for _, id := range []string{gone, held} {
		live.want(id, "AWAITING_APPROVAL")
		if _, err := live.Withdrawals.Cancel(live.ctx, live.org, id, audit.APIKey(live.org)); err != nil {
			t.Fatal(err)
		}
	}
	live.has("ann", 450_000_000)
	live.look("the payments were taken back")
	live.db.Close()

	s := live.on(backup, live.org)
	s.signer.full = nil
	var unknown *mirror.UnknownError
	if err := mirror.CheckJournal(s.ctx, s.db, s.signer, s.Wallets); !errors.As(err, &unknown) ||
		!slices.Contains(unknown.Intents, gone) || !slices.Contains(unknown.Intents, held) {
		t.Fatalf("the older database: got %v, want *UnknownError with %s and %s", err, gone, held)
	}
	_, err = mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), false)
	s.must(err)
	s.must(mirror.CheckJournal(s.ctx, s.db, s.signer, s.Wallets))
	s.look("the import")
	s.want(gone, "AWAITING_APPROVAL")
	_, err = s.Withdrawals.Approve(s.ctx, s.org, gone, audit.User("usr_1"))
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("approve what was taken back: got %v, want %s", err, fault.InvalidState)
	}
	// The journal knows only this payment, so it can be approved once more, and is not paid.
	if _, err := s.Withdrawals.Approve(s.ctx, s.org, held, audit.User("usr_1")); err != nil {
		t.Fatal(err)
	}
	s.pass(8)
	s.want(held, "AWAITING_APPROVAL")
	for _, id := range []string{gone, held} {
		w, err := s.Withdrawals.Cancel(s.ctx, s.org, id, audit.APIKey(s.org))
		if err != nil || w.Status != "CANCELLED" {
			t.Errorf("%s: got %v %v, want it cancelled", id, w.Status, err)
		}
	}
	s.has("ann", 450_000_000)
	s.look("both ended")
	if got := s.net.Received(sim.Address("gone"), signertest.Token); !got.IsZero() {
		t.Errorf("got %v paid, want nothing", got)
	}
}

// A backup from between the decision and the signer's answer is completed like any other: the
// import leaves the void to the loop, which releases the hold.
func TestABackupFromBeforeTheSignerVoidedAPaymentEndsItOnce(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	gone := live.withdraw("gone", "ann", "60000000", sim.Address("gone"), false)
	live.signer.full = map[string]bool{gone: true}
	for range 3 {
		for _, step := range live.steps {
			live.must(step(live.ctx))
		}
	}
	live.want(gone, "AWAITING_APPROVAL")
	live.signer.mute = true
	if _, err := live.Withdrawals.Cancel(
		live.ctx, live.org, gone, audit.APIKey(live.org),
	); !fault.HasCode(err, fault.CodeUnavailable) {
		t.Fatalf("cancel while the signer is away: got %v, want %s", err, fault.CodeUnavailable)
	}
	backup := pgtest.CopyDatabase(t, d)
	live.signer.mute = false
	live.must(live.Withdrawals.Voider.RunPass(live.ctx))
	live.want(gone, "CANCELLED")
	live.look("the signer voided it")
	live.db.Close()

	s := live.on(backup, live.org)
	s.signer.full = nil
	s.want(gone, "AWAITING_APPROVAL")
	_, err := mirror.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), false)
	s.must(err)
	s.must(mirror.CheckJournal(s.ctx, s.db, s.signer, s.Wallets))
	s.must(s.Voider.RunPass(s.ctx))
	s.want(gone, "CANCELLED")
	s.has("ann", 450_000_000)
	s.look("it ended")
}
