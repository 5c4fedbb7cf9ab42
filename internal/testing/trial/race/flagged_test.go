package race

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
)

// severeScreener returns the worst severity for every address.
type severeScreener struct{}

func (severeScreener) Name() string           { return "GRIM" }
func (severeScreener) Covers(chain.Name) bool { return true }

// Screen returns the worst severity.
func (severeScreener) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	return risk.Verdict{Provider: "GRIM", Severity: risk.Severe, IsKnown: true, GivenAt: time.Now()}, nil
}

// How many deposits are decided.
const (
	flaggedShort = 6
	flaggedLong  = 400
)

// I-27. 64 workers in two processes approve, reject and redirect the same deposit, for the
// organization and for the operator. One decision takes effect, in the tables and in the books.
func TestSixtyFourDecidersOfTwoProcessesResolveEachDepositOnce(t *testing.T) {
	t.Parallel()
	n := flaggedShort
	if *forFlag > 0 {
		n = flaggedLong
	}
	ctx := t.Context()
	data := pgtest.NewDatabase(t)
	db := pgtest.Open(t, data, time.Now)
	tk := flagMany(t, db, n)
	tk.URL = data.URL
	sum := result{Accepted: map[string]string{}, Decided: map[string]string{}, Resolved: map[string]string{}}
	began := time.Now()
	for _, r := range runBothProcesses(t, tk) {
		sum.addResult(r)
	}
	took := time.Since(began)
	for _, w := range sum.Wrong {
		t.Error(w)
	}
	if sum.Deadlocks != 0 {
		t.Errorf("got %d deadlocks, want none", sum.Deadlocks)
	}
	owner := pgtest.OwnerPool(t, db)
	num := func(sql string) (n int) {
		t.Helper()
		if err := owner.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for what, got := range map[string]int{
		"deposits that somebody was told are decided": len(sum.Resolved),
		"resolutions": num(`SELECT count(*) FROM deposit_resolutions`),
		"deposits with one": num(
			`SELECT count(DISTINCT deposit_id) FROM deposit_resolutions WHERE status IN ('OPEN', 'DONE')`,
		),
		"approved, or with an order": num(
			`SELECT count(*) FROM deposit_resolutions r WHERE (decision = 'APPROVED') <> EXISTS (SELECT FROM dispatch_orders o WHERE o.order_id = r.resolution_id AND o.purpose = 'RETURN')`,
		),
		"credits and holds": num(`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_HOLD'`),
	} {
		if got != n {
			t.Errorf("%s: got %d, want %d", what, got, n)
		}
	}
	for id, verb := range sum.Resolved {
		var is string
		if err := owner.QueryRow(
			ctx, `SELECT lower(decision) FROM deposit_resolutions WHERE deposit_id = $1`, id,
		).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is != verb {
			t.Errorf("%s: somebody was told that it is %s, and it is %s", id, verb, is)
		}
	}
	if got, want := num(
		`SELECT coalesce(sum(b.balance), 0)::bigint FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'CUSTOMER'`,
	),
		500*num(`SELECT count(*) FROM deposit_resolutions WHERE decision = 'APPROVED'`); got != want {
		t.Errorf("customers have %d, want %d: what was approved", got, want)
	}
	books, err := verify.RunChecks(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if !books.IsIntact() {
		var b bytes.Buffer
		_, _ = books.WriteTo(&b)
		t.Errorf("the books: %s", b.String())
	}
	if *forFlag > 0 {
		fmt.Printf("race: %d flagged deposits, %d workers in two processes: %d decisions came about or were repeated, %d were too late, %d waits given up, in %v\n",
			n, 2*workers, sum.Decisions, sum.DecisionsLate, sum.Vain, took.Round(time.Millisecond))
	}
}

// flagMany creates flagged deposits.
func flagMany(t *testing.T, db *pg.DB, n int) task {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	net := sim.New(sim.Config{})
	check(mint.Sync(ctx, db, []mint.Mint{{
		ID: token, Chain: net.ToChain().Name, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		ConfirmationsRequired: 3, Finality: "FINALIZED",
	}}))
	o, _, err := org.Create(ctx, db, "Acme")
	check(err)
	sign, attest := signertest.New(t)
	w := harness.New(harness.Config{
		DB: db, Chain: net.ToChain(), Signer: sign, AttestKey: attest,
		Prices: price.Fixed{Prices: map[int]money.USD{token: money.MustParseUSD("1")}},
		RiskPolicy: risk.Policy{
			Providers: severeScreener{}, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault,
		},
	})
	check(mirror.ImportJournal(ctx, db, sign, w.Wallets))
	check(db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("trial"), o.ID, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`), "screeningUsdThreshold": json.RawMessage(`"0"`),
		})
		return err
	}))
	_, err = w.Wallets.Treasury(ctx, o.ID, chain.EVM)
	check(err)
	check(db.InOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, o.ID, payer, "")
		return err
	}))
	at, err := w.Wallets.Address(ctx, signertest.Deposit(o.ID, payer))
	check(err)
	crook := sim.Address("crook")
	net.Mint(crook, signertest.Token, money.Units(uint64(500*n)))
	for range n {
		net.Pay(crook, at.Address, signertest.Token, 500)
	}
	net.Mine(10)
	tk := task{Org: o.ID, Attest: attest}
	for range 1 + n { // the deposits that a turn screens
		for _, s := range w.ListSteps(nil) {
			check(s.Run(ctx))
			if s.Name == "credits" {
				break
			}
		}
		tk.Flagged = nil
		check(db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, `SELECT deposit_id FROM deposits WHERE status = 'FLAGGED' ORDER BY deposit_id`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); err != nil {
					return err
				}
				tk.Flagged = append(tk.Flagged, id)
			}
			return rows.Err()
		}))
		if len(tk.Flagged) == n {
			return tk
		}
	}
	t.Fatalf("%d of %d deposits are flagged", len(tk.Flagged), n)
	return tk
}
