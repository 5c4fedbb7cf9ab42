package refunds

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
)

// The mints of the tests: dollars with six decimals, and the native coin.
const (
	dollars   = 1
	ether     = 2
	million   = 1_000_000
	milliCoin = 1_000_000_000_000_000
	blockTime = 5 * time.Second
)

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	payer  = sim.Address("payer")
	home   = sim.Address("where the payer wants it")
	second = sim.Address("another address of the payer")
	thief  = sim.Address("sanctioned payer")
)

// watchman is a risk provider that blocks the thief.
type watchman struct{}

// Name implements risk.Screener.
func (watchman) Name() string { return "WATCHMAN" }

// Covers implements risk.Screener.
func (watchman) Covers(chain.Name) bool { return true }

// Screen implements risk.Screener.
func (watchman) Screen(_ context.Context, subject risk.Subject) (risk.Verdict, error) {
	v := risk.Verdict{Provider: "WATCHMAN", Severity: risk.Low, IsKnown: true, Categories: []string{}, GivenAt: start}
	if subject.Address == thief {
		v.Severity, v.Categories = risk.Severe, []string{"theft"}
	}
	return v, nil
}

// testEnv is a shop whose checkouts are paid in dollars and ether. Time passes on the clock and on the chain together.
type testEnv struct {
	*testing.T
	*harness.Harness
	ctx      context.Context
	database pgtest.Database
	db       *pg.DB
	net      *sim.Chain
	signer   signer.Signer
	attest   ed25519.PublicKey
	grants   *signer.GrantKey
	org      string

	mu  sync.Mutex
	now time.Time
}

func (e *testEnv) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvOf(t, func(t testing.TB, grants *signer.GrantKey, now func() time.Time) (
		signer.Signer, ed25519.PublicKey,
	) {
		return signertest.OpenUnlimited(t, grants, now)
	})
}

// newTestEnvOf returns an environment of a signer.
func newTestEnvOf(
	t *testing.T, open func(testing.TB, *signer.GrantKey, func() time.Time) (signer.Signer, ed25519.PublicKey),
) *testEnv {
	t.Helper()
	e := &testEnv{
		T: t, ctx: t.Context(), now: start,
		net: sim.New(sim.Config{FinalityDepth: 1, BlockTime: blockTime, Start: start}),
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	e.must(err)
	e.grants = grants
	e.signer, e.attest = open(t, grants, e.clock)
	e.database = pgtest.NewDatabase(t)
	e.db = pgtest.Open(t, e.database, e.clock)
	e.Harness = e.open(e.db)
	e.must(journal.Import(e.ctx, e.db, e.signer, e.Wallets))
	token := mint.Mint{
		ID: dollars, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "Dollars", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(10), MinWithdraw: money.Units(10), ConfirmationsRequired: 1, Finality: "FINALIZED",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = ether, mint.Native, "",
		"ETH", "Ether", 18
	e.must(mint.Sync(e.ctx, e.db, []mint.Mint{token, native}))
	made, _, err := org.Create(e.ctx, e.db, "Acme")
	e.must(err)
	e.org = made.ID
	treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
	e.must(err)
	e.net.Mint(payer, signertest.Token, money.Units(1_000_000*million))
	e.net.Mint(payer, "", money.Units(9000*milliCoin))
	e.net.Pay(payer, treasury.Address, "", 1000*milliCoin)
	e.pass(3)
	return e
}

// open builds another service on a database, as a second process has one.
func (e *testEnv) open(db *pg.DB) *harness.Harness {
	return harness.New(harness.Config{
		DB: db, Chain: e.net.ToChain(), Signer: e.signer, AttestKey: e.attest, Grants: e.grants,
		Prices: price.Fixed{Prices: map[int]money.USD{
			dollars: money.MustParseUSD("1"), ether: money.MustParseUSD("2000"),
		}, Clock: e.clock},
		RiskPolicy: risk.Policy{Providers: watchman{}, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault},
		Log:        slog.New(slog.DiscardHandler),
	})
}

func (e *testEnv) setting(name, value string) {
	e.Helper()
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), e.org, org.Changes{name: []byte(value)})
		return err
	}))
}

// turn lets every part work once.
func (e *testEnv) turn() {
	e.Helper()
	for _, step := range e.ListSteps(nil) {
		if err := step.Run(e.ctx); err != nil {
			e.Fatalf("%s: %v", step.Name, err)
		}
	}
	_, err := e.Checkouts.SettleDue(e.ctx)
	e.must(err)
	e.must(e.Checkouts.ExpireDue(e.ctx))
	e.must(e.Checkouts.RefundAutomatically(e.ctx))
	e.must(e.Checkouts.FollowRefunds(e.ctx))
	_, err = e.Withdrawals.CollectOwed(e.ctx)
	e.must(err)
}

// walk lets the walks and the checkouts see the chain, and nothing be swept or paid.
func (e *testEnv) walk() {
	e.Helper()
	for _, step := range []func(context.Context) (bool, error){e.Walker.StepHead, e.Walker.StepFinal} {
		for range 50 {
			moved, err := step(e.ctx)
			e.must(err)
			if !moved {
				break
			}
		}
	}
	_, err := e.Deposits.CreditWaiting(e.ctx)
	e.must(err)
	_, err = e.Checkouts.SettleDue(e.ctx)
	e.must(err)
	e.look()
}

// pass lets every part work, checks the books, and mines a block, as often as that.
func (e *testEnv) pass(blocks int) {
	e.Helper()
	for range blocks {
		e.turn()
		e.look()
		e.net.Mine(1)
		e.advance(blockTime)
	}
}

func (e *testEnv) advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
}

// wait lets time pass, on the clock and on the chain.
func (e *testEnv) wait(d time.Duration) {
	e.Helper()
	e.advance(d)
	e.net.SkipTime(d)
	e.net.Mine(2)
	e.pass(1)
}

// look checks the books.
func (e *testEnv) look() {
	e.Helper()
	r, err := verify.RunChecks(e.ctx, e.db, verify.WithoutSchema)
	e.must(err)
	if !r.IsIntact() {
		var b bytes.Buffer
		_, err := r.WriteTo(&b)
		e.must(err)
		e.Fatalf("the books are not sound:\n%s", b.String())
	}
}

// newCheckout makes a checkout for a hundred dollars, with options in both mints.
func (e *testEnv) newCheckout(changes ...func(*checkout.CheckoutRequest)) string {
	e.Helper()
	r := checkout.CheckoutRequest{
		AdHoc:           &checkout.AdHocItem{Name: "Gold plan", Price: "100", Currency: "USD"},
		AcceptedMintIDs: []int{dollars, ether}, ExpiresIn: new(3600), Actor: audit.APIKey(e.org),
	}
	for _, change := range changes {
		change(&r)
	}
	c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, r)
	e.must(err)
	for _, mintID := range []int{dollars, ether} {
		_, err := e.Checkouts.OpenOption(e.ctx, e.org, c.ID, mintID)
		e.must(err)
	}
	return c.ID
}

// pay pays a checkout, and lets the payment be credited and swept into the treasury.
func (e *testEnv) pay(checkoutID string, mintID int, units uint64) {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	contract := chain.Address("")
	if mintID == dollars {
		contract = signertest.Token
	}
	e.net.Pay(payer, c.Options[0].Wallet.Address, contract, units)
	e.pass(8)
}

// paid makes a checkout that was paid in dollars.
func (e *testEnv) paid(units uint64) string {
	e.Helper()
	id := e.newCheckout()
	e.pay(id, dollars, units)
	return id
}

// request asks for a refund.
func request(checkoutID string, changes ...func(*checkout.RefundRequest)) checkout.RefundRequest {
	r := checkout.RefundRequest{CheckoutID: checkoutID, Kind: checkout.FullRefund, Actor: audit.APIKey("key")}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func amount(units uint64) func(*checkout.RefundRequest) {
	return func(r *checkout.RefundRequest) { r.Kind, r.Amount = "", new(fmt.Sprint(units)) }
}

func overpaid(r *checkout.RefundRequest) { r.Kind = checkout.OverpaidRefund }

func inMint(mintID int) func(*checkout.RefundRequest) {
	return func(r *checkout.RefundRequest) { r.MintID = &mintID }
}

func to(address chain.Address) func(*checkout.RefundRequest) {
	return func(r *checkout.RefundRequest) { r.ToAddress = new(string(address)) }
}

func deducted(r *checkout.RefundRequest) { r.FeeMode = checkout.FeeDeducted }

// refund makes a refund and returns its claim key.
func (e *testEnv) refund(r checkout.RefundRequest) (checkout.Refund, string) {
	e.Helper()
	refund, key, isReplayed, err := e.Checkouts.RequestRefund(e.ctx, e.org, r)
	e.must(err)
	if isReplayed {
		e.Fatal("a new refund is replayed")
	}
	e.look()
	return refund, key
}

// claim says where a refund goes, as its payer does.
func (e *testEnv) claim(refundID, key string, address chain.Address) error {
	_, err := e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{
		RefundID: refundID, Key: key, Address: string(address),
	})
	return err
}

func (e *testEnv) load(refundID string) checkout.Refund {
	e.Helper()
	r, err := e.Checkouts.RefundByID(e.ctx, e.org, refundID)
	e.must(err)
	return r
}

// is expects a status of a refund.
func (e *testEnv) is(refundID string, want checkout.RefundStatus) checkout.Refund {
	e.Helper()
	r := e.load(refundID)
	if r.Status != want {
		e.Fatalf("refund %s is %s (%s), want %s", refundID, r.Status, r.Problem, want)
	}
	return r
}

// until lets blocks pass until a refund has a status.
func (e *testEnv) until(refundID string, want checkout.RefundStatus) checkout.Refund {
	e.Helper()
	for range 30 {
		if r := e.load(refundID); r.Status == want {
			return r
		}
		e.pass(1)
	}
	return e.is(refundID, want)
}

// has expects what an address has of a mint.
func (e *testEnv) has(address chain.Address, mintID int, units uint64) {
	e.Helper()
	contract := chain.Address("")
	if mintID == dollars {
		contract = signertest.Token
	}
	if got := e.net.Balance(address, contract); got != money.Units(units) {
		e.Errorf("%s has %s of mint %d, want %d", address, got, mintID, units)
	}
}

// books expects what the product has of a mint, and what is owed to payers.
func (e *testEnv) books(mintID int, product, owed uint64) {
	e.Helper()
	got := map[string]string{}
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.kind, b.balance::text FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.mint_id = $1 AND a.subject = 'CHECKOUT' AND b.balance > 0`, mintID)
		if err != nil {
			return err
		}
		var kind, balance string
		_, err = pgx.ForEachRow(rows, []any{&kind, &balance}, func() error {
			got[kind] = balance
			return nil
		})
		return err
	}))
	want := map[string]string{}
	if product > 0 {
		want["PRODUCT"] = fmt.Sprint(product)
	}
	if owed > 0 {
		want["REFUND_OWED"] = fmt.Sprint(owed)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("the books of mint %d have %v, want %v", mintID, got, want)
	}
}

// events returns the events of a checkout, in their order.
func (e *testEnv) events(checkoutID string) (types []string) {
	e.Helper()
	return e.texts(`SELECT type FROM events WHERE resource_id = $1 ORDER BY resource_seq`, checkoutID)
}

func (e *testEnv) texts(sql string, args ...any) (found []string) {
	e.Helper()
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	return found
}

// exceptions expects what is unusual about a checkout.
func (e *testEnv) exceptions(checkoutID string, want ...outcome.Exception) {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	if fmt.Sprint(c.Exceptions) != fmt.Sprint(want) {
		e.Errorf("the checkout has %v, want %v", c.Exceptions, want)
	}
}

// liftFreezes lifts every freeze of the organization, as the operator does.
func (e *testEnv) liftFreezes() {
	e.Helper()
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT freeze_id FROM freezes WHERE scope = 'ORGANIZATION' AND org_id = $1 AND lifted_at IS NULL`, e.org)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			err = errors.Join(err, freeze.Lift(ctx, tx, id, audit.Operator("op")))
		}
		return err
	}))
}

// wantFault expects a fault.
func (e *testEnv) wantFault(err error, code fault.Code) *fault.Fault {
	e.Helper()
	f := fault.Find(err)
	if f == nil || f.Code != code {
		e.Fatalf("got %v, want the fault %s", err, code)
	}
	return f
}
