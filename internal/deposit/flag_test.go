package deposit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wire"
)

// fakeScreener is a provider that gives the test's verdict about each address.
type fakeScreener struct {
	mu   sync.Mutex
	says map[chain.Address]risk.Severity // an address without one: not available
	owns map[chain.Address]string        // the category of the owner of an address
	list map[chain.Address]bool          // addresses on a sanctions list
	n    int
}

func (o *fakeScreener) Name() string           { return "OPINIONS" }
func (o *fakeScreener) Covers(chain.Name) bool { return true }
func (o *fakeScreener) setSeverity(a chain.Address, s risk.Severity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.says[a] = s
}

func (o *fakeScreener) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	severity, ok := o.says[s.Address]
	if !ok {
		return risk.Verdict{}, risk.Unavailable("nobody is there")
	}
	score := 90
	var owner []string
	if c := o.owns[s.Address]; c != "" {
		owner = []string{c}
	}
	v := risk.Verdict{
		OwnerCategories: owner, Provider: "OPINIONS", Severity: severity, IsKnown: severity != risk.Unknown,
		Score: &score, Entity: "a mixer", Categories: []string{"EXCHANGE", "MIXING"}, GivenAt: time.Now(),
	}
	if o.list[s.Address] {
		v.Direct, v.Categories = true, []string{"SANCTIONS"}
	}
	return v, nil
}

// newScreenedEnv returns an environment that screens deposits above two dollars and flags those
// above MEDIUM.
func newScreenedEnv(t *testing.T) (*testEnv, *fakeScreener) {
	t.Helper()
	o := &fakeScreener{says: map[chain.Address]risk.Severity{payer: risk.Low}}
	w := newTestEnvWith(t, risk.Policy{Providers: o, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour})
	if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		UPDATE organization_settings SET screening_severity_threshold = 'MEDIUM', screening_usd_threshold = 0.0001, updated_at = now()`); err != nil {
		t.Fatal(err)
	}
	return w, o
}

func operatorActor() deposit.Actor { return deposit.Actor{Actor: audit.Operator("op_1"), Name: "Olga"} }

// flagDeposit makes a flagged deposit of alice and returns its id.
func (w *testEnv) flagDeposit(t *testing.T, o *fakeScreener, units uint64) string {
	t.Helper()
	o.setSeverity(payer, risk.Severe)
	w.c.Pay(payer, alice, usdcAt, units)
	w.c.Mine(4)
	w.walkBlocks(t)
	got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 {
		t.Fatalf("got %d flagged, want one", len(got))
	}
	return got[0].DepositID
}

// Rules RISK-1 to RISK-5, in the order in which they apply.
func TestADepositIsCreditedOnlyWhenItsScreeningLetsItPass(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100) // worth too little: no provider is asked
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantCredited(t, usdc, 100, 1)
	if o.n != 0 {
		t.Errorf("asked %d times about what is below the threshold, want never", o.n)
	}
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantCredited(t, usdc, 100, 1) // not with its block
	w.creditAll(t)
	w.wantCredited(t, usdc, 600, 2)

	delete(o.says, payer) // no provider answers
	w.c.Pay(payer, alice, usdcAt, 700)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.wantCredited(t, usdc, 600, 2)
	if got := w.listDeposits(t, deposit.Filter{Status: "SCREENING"}); len(got) != 1 ||
		got[0].Screening.Status != "UNAVAILABLE" {
		t.Fatalf("got %+v, want one that waits", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposit_decisions WHERE outcome = 'WAIT'`); n != 1 {
		t.Errorf("decisions kept: got %d, want one that waits", n)
	}
	o.setSeverity(payer, risk.Medium) // at the threshold passes
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE deposits SET screen_after = NULL WHERE status = 'SCREENING'`,
	); err != nil {
		t.Fatal(err)
	}
	w.creditAll(t)
	w.wantCredited(t, usdc, 1300, 3)
	var records [][]byte
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT record FROM deposit_decisions ORDER BY decision_id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r []byte
			if err := rows.Scan(&r); err != nil {
				return err
			}
			records = append(records, r)
		}
		return rows.Err()
	})
	if len(records) != 4 {
		t.Errorf(
			"got %d decisions, want the small one, the one that passed, the one that waited and its credit",
			len(records),
		)
	}
	for _, r := range records {
		if _, err := risk.ReplayDeposit(r); err != nil {
			t.Errorf("replay %s: %v", r, err)
		}
	}
}

// A deposit that cannot be credited stops neither the screening nor the credit of others.
func TestADepositThatCannotBeBookedKeepsNoOtherFromBeingScreened(t *testing.T) {
	t.Parallel()
	w, _ := newScreenedEnv(t)
	_, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		CREATE FUNCTION break_event() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'broken'; END $$;
		CREATE TRIGGER break_event BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.customer_id = 'bob') EXECUTE FUNCTION break_event()`)
	if err != nil {
		t.Fatalf("break the events of one customer: %v", err)
	}
	w.c.Pay(payer, bob, usdcAt, 100)   // no provider is asked about it
	w.c.Pay(payer, alice, usdcAt, 500) // a provider is asked about it
	w.c.Mine(4)
	w.wantWaiting(t)
	if n, err := w.service.CreditWaiting(t.Context()); n != 1 || err == nil {
		t.Errorf("got %d credited, %v, want alice's and an error", n, err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(500) {
		t.Errorf("alice: got %v, want 500", got)
	}
}

// Rule DEP-28.
func TestAFlaggedDepositIsHeldAndToldOnce(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	w.walkBlocks(t)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
		t.Errorf("alice: got %v, want nothing", got)
	}
	funds := w.loadFunds(t, "adr_alice", usdc)
	if funds.Held != money.Units(500) || !funds.Spendable().IsZero() {
		t.Errorf("got %+v, want all of it held", funds)
	}
	d := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})[0]
	if !d.IsFlagged || d.RiskOfFunds == nil || *d.RiskOfFunds != "SEVERE" || d.FlagReason == nil ||
		d.FlagReason.Code != "SEVERITY_ABOVE_THRESHOLD" ||
		*d.FlagReason.Entity != "a mixer" || d.Resolution != nil {
		t.Errorf("got %+v, want it flagged with its reason", d)
	}
	if n := w.queryCount(
		t, `SELECT count(*) FROM events WHERE resource_id = $1 AND data::text IS NOT NULL`, id,
	); n != 1 {
		t.Errorf("got %d events, want one and then silence", n)
	}
}

// Rule DEP-36.
func TestWhoSentAFlaggedDepositIsToldFromAContract(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	named := func(name string) chain.Address {
		a := sim.Address(name)
		w.c.Mint(a, usdcAt, money.Units(1000))
		o.setSeverity(a, risk.Severe)
		return a
	}
	person, vault, market, dealt := named("a person"), named("a vault"), named("an exchange"),
		named("a customer of an exchange")
	o.owns = map[chain.Address]string{market: "Exchange (no KYC)", vault: "exchange", dealt: "unnamed service"}
	w.c.DeployContract(vault)
	want := map[chain.Address]string{person: "NONE", vault: "CONTRACT", market: "KNOWN_EXCHANGE", dealt: "NONE"}
	for a := range want {
		w.c.Pay(a, alice, usdcAt, 500)
	}
	w.c.Mine(1)
	w.c.Mine(4)
	w.walkBlocks(t)
	late, gone := named("a person while nobody answers"), named("a person of a chain that is not here")
	w.c.Pay(late, alice, usdcAt, 500)
	w.c.Mine(4)
	w.walkFinal(t)
	w.c.Provider(0).SetDown(errors.New("connection refused"))
	w.creditAll(t)
	w.c.Provider(0).SetDown(nil)
	w.c.Pay(gone, alice, usdcAt, 500)
	w.c.Mine(4)
	w.walkFinal(t)
	blind := &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     w.db, Wallets: w.wallets, Owners: deposit.NewOwners(owners()),
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
		Risk:   risk.Policy{Providers: o, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour},
		Log:    slog.New(slog.DiscardHandler),
	}
	if _, err := blind.CreditWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	want[late], want[gone] = "CONTRACT", "CONTRACT"
	got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != len(want) {
		t.Fatalf("got %d flagged, want %d", len(got), len(want))
	}
	for _, d := range got {
		if from := chain.Address(d.FromAddresses[0]); d.ReturnAddressRisk == nil || *d.ReturnAddressRisk != want[from] {
			t.Errorf("%s: got %v, want %s", from, *d.ReturnAddressRisk, want[from])
		}
	}
}

// Rule DEP-29.
func TestAnApprovedDepositIsCreditedOnce(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	r := w.service
	const racers = 16
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			_, errs[i] = r.Approve(t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org}, "")
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Errorf("the same decision again: got %v, want the same answer", err)
		}
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(500) {
		t.Errorf("alice: got %v, want 500", got)
	}
	d := w.listDeposits(t, deposit.Filter{Status: "CREDITED"})[0]
	if !d.IsFlagged || d.Resolution == nil || d.Resolution.Decision != "APPROVED" ||
		d.Resolution.DecidedBy.ID != "usr_1" {
		t.Errorf("got %+v, want the flag kept and who approved", d.Resolution)
	}
	if got := w.loadFunds(t, "adr_alice", usdc); !got.Held.IsZero() || got.Spendable() != money.Units(500) {
		t.Errorf("got %+v, want nothing held", got)
	}
	if n := w.queryCount(
		t, `SELECT count(*) FROM events WHERE resource_id = $1 AND type = 'CUSTOMER_DEPOSIT_APPROVED'`, id,
	); n != 1 {
		t.Errorf("got %d events of the approval, want one", n)
	}
	for name, act := range map[string]func() error{
		"reject": func() error { _, err := r.Reject(t.Context(), id, operatorActor(), ""); return err },
		"redirect": func() error {
			_, err := r.Redirect(
				t.Context(), id, operatorActor(),
				deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"},
			)
			return err
		},
	} {
		var f *fault.Fault
		if err := act(); !errors.As(err, &f) || f.Code != fault.DepositNotFlagged {
			t.Errorf("%s after the approval: got %v, want DEPOSIT_NOT_FLAGGED", name, err)
		}
	}
}

// Rule DEP-30: of several decisions at the same time one succeeds.
func TestOfManyDecisionsOneComesAbout(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	r := w.service
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			var err error
			kind := []string{"APPROVED", "REJECTED", "REDIRECTED"}[i%3]
			switch kind {
			case "APPROVED":
				_, err = r.Approve(t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org}, "")
			case "REJECTED":
				_, err = r.Reject(t.Context(), id, operatorActor(), "")
			default:
				_, err = r.Redirect(
					t.Context(), id, operatorActor(),
					deposit.Redirection{ToAddress: string(payer), Reason: deposit.LawEnforcement, Reference: "case 1"},
				)
			}
			var f *fault.Fault
			switch {
			case err == nil:
				won.Store(kind, true)
			case !errors.As(err, &f) || f.Kind != fault.Conflict:
				t.Errorf("%s: got %v, want a conflict", kind, err)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if got := w.queryCount(t, `SELECT count(*) FROM deposit_resolutions WHERE status <> 'FAILED'`); n != 1 || got != 1 {
		t.Errorf("got %d kinds of decision that came about and %d rows, want one", n, got)
	}
}

// Rules DEP-31 and DEP-32.
func TestAReturnIsOrderedAndWhatIsRefusedComesBackToTheQueue(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	r := w.service
	d, err := r.Reject(t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org}, "not ours")
	if err != nil || d.Status != "REJECTING" {
		t.Fatalf("Reject: got %v, %v, want REJECTING", d.Status, err)
	}
	if got := w.loadFunds(t, "adr_alice", usdc); got.Reserved != money.Units(500) || !got.Held.IsZero() {
		t.Errorf("got %+v, want it reserved for its return", got)
	}
	pgtest.ExpectLockException(t, w.db, "dispatch.Submit")
	if n := w.queryCount(
		t, `SELECT count(*) FROM dispatch_orders WHERE purpose = 'RETURN' AND to_address = $1 AND amount = 500`,
		string(payer),
	); n != 1 {
		t.Errorf("got %d orders back to the sender, want one", n)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
		t.Errorf("alice: got %v, want nothing", got)
	}
	// The signer refuses before anything could reach the chain.
	err = w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		err := tx.QueryRow(
			ctx,
			`UPDATE dispatch_orders SET status = 'REFUSED' WHERE purpose = 'RETURN' RETURNING order_id, org_id, wallet_id, mint_id, amount`,
		).
			Scan(&o.ID, &o.OrgID, &o.WalletID, &o.MintID, &o.Amount)
		if err != nil {
			return err
		}
		return r.OnRefused(ctx, tx, o, &signer.Refusal{Code: signer.PolicyLimit, Message: "too much for today"})
	})
	if err != nil {
		t.Fatalf("Refused: %v", err)
	}
	got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || len(got[0].ResolutionAttempts) != 1 ||
		got[0].ResolutionAttempts[0].Reason != "POLICY_LIMIT" || got[0].Resolution != nil {
		t.Errorf("got %+v, want it in the queue with its attempt", got)
	}
	if got := w.loadFunds(t, "adr_alice", usdc); got.Held != money.Units(500) || !got.Reserved.IsZero() {
		t.Errorf("got %+v, want it held again", got)
	}
	if d, err = r.Reject(t.Context(), id, operatorActor(), ""); err != nil || d.Status != "REJECTING" {
		t.Errorf("again: got %v, %v, want REJECTING", d.Status, err)
	}
}

// Rule DEP-50: a refused return had a grant. So the deposit is credited or sent elsewhere only
// after the signer has journaled that the return is void.
func TestADepositWhoseReturnWasRefusedIsDecidedAnewOnceThatIsVoid(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	r := w.service
	if _, err := r.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	var order dispatch.Order
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx,
			`UPDATE dispatch_orders SET status = 'REFUSED' WHERE purpose = 'RETURN' RETURNING order_id, org_id, wallet_id, mint_id, amount`,
		).
			Scan(&order.ID, &order.OrgID, &order.WalletID, &order.MintID, &order.Amount)
		if err != nil {
			return err
		}
		return r.OnRefused(ctx, tx, order, &signer.Refusal{Code: signer.PolicyLimit, Message: "too much for today"})
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sign.gone.Store(true)
	if _, err := r.Approve(t.Context(), id, operatorActor(), ""); !fault.HasCode(err, fault.CodeUnavailable) {
		t.Errorf("while the signer is away: got %v, want %s", err, fault.CodeUnavailable)
	}
	// The tables allow no credit either.
	unsure := w.newService(risk.Policy{}, price.Fixed{})
	unsure.Voider = &dispatch.Voider{
		DB: w.db, Signer: silentVoidSigner{w.sign.Signer}, Log: slog.New(slog.DiscardHandler),
		Listeners: w.voids.Listeners,
	}
	if _, err := unsure.Approve(t.Context(), id, operatorActor(), ""); err == nil {
		t.Error("a signer that says what it has not journaled: got the deposit credited")
	}
	if got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"}); len(got) != 1 {
		t.Fatalf("got %+v, want it flagged still", got)
	}
	w.sign.gone.Store(false)
	if d, err := r.Approve(t.Context(), id, operatorActor(), ""); err != nil || d.Status != "CREDITED" {
		t.Fatalf("got %v %v, want it credited", d.Status, err)
	}
	_, err = w.sign.AdmitIntent(
		t.Context(),
		signer.Intent{
			ID: order.ID, Purpose: signer.Return, Chain: chain.Ethereum, From: signertest.Deposit(w.org, "alice"),
			To: payer, Amount: money.Units(500),
		},
	)
	var no *signer.Refusal
	if !errors.As(err, &no) || no.Code != signer.RefusedVoid {
		t.Errorf("the return that was refused: got %v, want it void", err)
	}
}

// silentVoidSigner is a signer that answers with an entry about something else.
type silentVoidSigner struct{ signer.Signer }

func (s silentVoidSigner) VoidIntent(ctx context.Context, _ signer.Void) (signer.Entry, error) {
	all, err := s.EntriesAfter(ctx, 0, 1)
	if err != nil {
		return signer.Entry{}, err
	}
	return all[0], nil
}

// Rule DEP-30: facts that were looked up during another attempt are not enough for a deposit that
// returned to the queue meanwhile.
func TestARejectThatWaitsForAnAttemptThatComesBackIsWhole(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	r := w.service
	if _, err := r.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatalf("Reject: %v", err)
	}
	second := make(chan error, 1)
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		err := tx.QueryRow(
			ctx,
			`UPDATE dispatch_orders SET status = 'REFUSED' WHERE purpose = 'RETURN' RETURNING order_id, org_id, wallet_id, mint_id, amount`,
		).
			Scan(&o.ID, &o.OrgID, &o.WalletID, &o.MintID, &o.Amount)
		if err != nil {
			return err
		}
		if err := r.OnRefused(
			ctx, tx, o, &signer.Refusal{Code: signer.PolicyLimit, Message: "too much for today"},
		); err != nil {
			return err
		}
		go func() {
			_, err := r.Reject(t.Context(), id, operatorActor(), "again")
			second <- err
		}()
		// The reject has read REJECTING and waits for this transaction.
		deadline := time.Now().Add(30 * time.Second)
		for waits := 0; waits == 0; {
			waits = w.queryCount(
				t,
				`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'SELECT deposit_id%'`,
			)
			if time.Now().After(deadline) {
				t.Fatal("the second decision never waited")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("Refused: %v", err)
	}
	if err := <-second; err != nil {
		t.Fatalf("the second decision: got %v, want it made", err)
	}
	got := w.listDeposits(t, deposit.Filter{Status: "REJECTING"})
	if len(got) != 1 || got[0].Resolution == nil || *got[0].Resolution.ToAddress != string(payer) ||
		len(got[0].ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it on its way to the sender, with the attempt before", got)
	}
}

// Rule DEP-34.
func TestOnlyWhoIsOnAListItselfIsSanctioned(t *testing.T) {
	t.Parallel()
	listed := risk.Verdict{
		Provider: "LIST", Severity: risk.Severe, IsKnown: true, Categories: []string{"Sanctions"}, Direct: true,
	}
	dealt, mixer, clean := listed, listed, listed
	dealt.Direct, mixer.Categories, clean.Severity = false, []string{"MIXING"}, risk.None
	for name, c := range map[string]struct {
		v    risk.Verdict
		want bool
	}{
		"on a list":      {listed, true},
		"dealt with one": {dealt, false},
		"something else": {mixer, false},
		"clean":          {clean, false},
		"one of several": {risk.Verdict{
			Severity: risk.Severe, IsKnown: true, Categories: []string{"SANCTIONS"},
			Parts: []risk.Verdict{dealt, listed},
		}, true},
		"none of several": {risk.Verdict{
			Severity: risk.Severe, IsKnown: true,
			Parts: []risk.Verdict{dealt, mixer},
		}, false},
		"nobody said what it is": {risk.Verdict{Severity: risk.Severe, Direct: true}, false},
	} {
		if got := deposit.Sanctioned(c.v); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
