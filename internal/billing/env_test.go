package billing_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/wire"
)

const (
	ether = 1
	sol   = 2
)

var person = audit.Operator("opk_ann")

// testEnv is a database with two organizations that have billing terms, two coins, and a clock that stands in January.
type testEnv struct {
	testing.TB
	db         *pg.DB
	one, other string
	owner      *pgx.Conn // without triggers and foreign keys: for what other features write
	orders     int

	mu     sync.Mutex
	now    time.Time
	quotes map[int]price.Quote
}

func (e *testEnv) clock() time.Time { e.mu.Lock(); defer e.mu.Unlock(); return e.now }

func (e *testEnv) set(now time.Time) { e.mu.Lock(); defer e.mu.Unlock(); e.now = now }

// USD implements price.Source.
func (e *testEnv) USD(_ context.Context, mintID int) (price.Quote, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, ok := e.quotes[mintID]
	if !ok {
		return q, price.ErrUnavailable
	}
	q.QuotedAt = e.now
	return q, nil
}

func (e *testEnv) setPrice(mintID int, dollars string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quotes[mintID] = price.Quote{Price: money.MustParseUSD(dollars), Source: "fixed"}
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	e := &testEnv{TB: t, now: day(1, 10), quotes: map[int]price.Quote{}}
	e.db = pgtest.NewWithClock(t, e.clock)
	coin := func(id int, name chain.Name, symbol string, decimals int) mint.Mint {
		return mint.Mint{
			ID: id, Chain: name, Network: chain.Local, Kind: mint.Native, Symbol: symbol, Name: symbol,
			Decimals:       decimals,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			Finality: "FINALIZED",
		}
	}
	e.must(mint.Sync(t.Context(), e.db, []mint.Mint{
		coin(ether, chain.Ethereum, "ETH", 18), coin(sol, chain.Solana, "SOL", 9),
	}))
	for _, into := range []*string{&e.one, &e.other} {
		made, _, err := org.Create(t.Context(), e.db, "Acme")
		e.must(err)
		*into = made.ID
	}
	e.owner = pgtest.Superuser(t, e.db)
	t.Cleanup(func() { _ = e.owner.Close(context.Background()) })
	e.exec(`SET session_replication_role = replica`)
	e.saveTerms("", 0, "Seller")
	e.saveTerms(e.one, 0, "One")
	e.saveTerms(e.other, 0, "Other")
	return e
}

// day is a moment at noon of a day of 2026.
func day(month, dayOfMonth int) time.Time {
	return time.Date(2026, time.Month(month), dayOfMonth, 12, 0, 0, 0, time.UTC)
}

func (e *testEnv) exec(sql string, args ...any) {
	e.Helper()
	_, err := e.owner.Exec(e.Context(), sql, args...)
	e.must(err)
}

func (e *testEnv) text(sql string, args ...any) (found string) {
	e.Helper()
	e.must(e.owner.QueryRow(e.Context(), `SELECT (`+sql+`)::text`, args...).Scan(&found))
	return found
}

func (e *testEnv) service() *billing.Service {
	return &billing.Service{
		DB: e.db, Prices: e, Chains: []chain.Name{chain.Ethereum, chain.Solana}, Events: wire.NewRecorder(),
		Log: slog.New(slog.DiscardHandler),
	}
}

func (e *testEnv) saveTerms(orgID string, taxBps int, name string) {
	e.Helper()
	e.must(e.trySaveTerms(billing.Terms{
		OrgID: orgID, Party: document.Party{Name: name, Address: []string{"1 Street", "Town"}}, TaxRateBps: new(taxBps),
	}))
}

func (e *testEnv) trySaveTerms(terms billing.Terms) error {
	return e.db.InSystem(e.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := e.service().SaveTerms(ctx, tx, operator.Key{}, changerequest.Rule{}, terms)
		return err
	})
}

// insertFee posts a network fee of an order as the books have it, and returns the order.
func (e *testEnv) insertFee(orgID string, mintID int, amount string, at time.Time) (order string) {
	e.Helper()
	e.orders++
	order = fmt.Sprintf("ord_%04d", e.orders)
	name := map[int]chain.Name{ether: chain.Ethereum, sol: chain.Solana}[mintID]
	e.exec(`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract,
		amount,
			status, attempt_after, created_at, ended_at, tx_hash, fee, proof_id, trigger)
		VALUES ($1, $2, 'PLACE', $3, 'wal', '0xto' || $1, $4, '', 1, 'PAID', $5, $5, $5, '0x' || $1, $6, $7, 'VALUE')`,
		order, orgID, string(name), mintID, at, amount, e.orders)
	e.post(orgID, mintID, "FEES_DUE", "FEES_BILLED", amount, "NETWORK_FEE", order, 1, at)
	return order
}

// post writes one row of the ledger.
func (e *testEnv) post(orgID string, mintID int, debit, credit, amount, kind, cause string, leg int, at time.Time) {
	e.Helper()
	for _, account := range []string{debit, credit} {
		e.exec(`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
			VALUES ($1, $2, $3, '', false, $4) ON CONFLICT DO NOTHING`, orgID, mintID, account, at)
	}
	e.exec(`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
		cause_id, leg,
			created_at)
		SELECT $1, $2, d.account_id, c.account_id, $5::numeric, $6, $7, $8, $9 FROM ledger_accounts d, ledger_accounts c
		WHERE (d.org_id, d.mint_id, d.kind, c.org_id, c.mint_id, c.kind) = ($1, $2, $3, $1, $2, $4)`,
		orgID, mintID, debit, credit, amount, kind, cause, leg, at)
}

// insertMark stores a price as of a moment.
func (e *testEnv) insertMark(mintID int, dollars string, at time.Time) {
	e.Helper()
	e.exec(`INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at) VALUES ($1, $2::numeric, 'test',
		$3, $3)`,
		mintID, dollars, at)
}

// collect writes and values all lines.
func (e *testEnv) collect() {
	e.Helper()
	_, err := e.service().CollectLines(e.Context(), time.Time{})
	e.must(err)
	_, err = e.service().PriceLines(e.Context(), time.Time{})
	e.must(err)
}

func (e *testEnv) run(month string) billing.RunResult {
	e.Helper()
	r, err := e.service().IssueInvoices(e.Context(), month, "", person)
	e.must(err)
	return r
}

// bill issues the invoice of an organization for January, which is over then.
func (e *testEnv) bill(orgID string) billing.Invoice {
	e.Helper()
	e.set(day(2, 3))
	for _, inv := range e.run("2026-01").Invoices {
		if inv.OrgID == orgID {
			return inv
		}
	}
	e.Fatalf("%s has no invoice of January", orgID)
	return billing.Invoice{}
}

func (e *testEnv) wantCode(err error, code fault.Code) {
	e.Helper()
	if !fault.HasCode(err, code) {
		e.Errorf("got %v, want %s", err, code)
	}
}

// wantDue expects what the books say is due, credits minus debits being negative for what is owed.
func (e *testEnv) wantDue(orgID string, mintID int, want string) {
	e.Helper()
	got := e.text(`SELECT coalesce(sum(CASE WHEN a.account_id = t.debit_account THEN t.amount ELSE -t.amount END), 0)
		FROM ledger_accounts a JOIN ledger_transfers t ON a.account_id IN (t.debit_account, t.credit_account)
		WHERE a.org_id = $1 AND a.mint_id = $2 AND a.kind = 'FEES_DUE'`, orgID, mintID)
	if got != want {
		e.Errorf("the books say that %s of mint %d are due, want %s", got, mintID, want)
	}
}

func (e *testEnv) verify(inv billing.Invoice, want string) {
	e.Helper()
	v, err := e.service().Verify(e.Context(), inv.ID)
	e.must(err)
	if (want == "") != (v.Difference == "") || want != "" && !contains(v.Difference, want) {
		e.Errorf("got the difference %q, want %q", v.Difference, want)
	}
}

func partyOf(name string) document.Party {
	return document.Party{Name: name, Address: []string{"1 Street"}}
}
