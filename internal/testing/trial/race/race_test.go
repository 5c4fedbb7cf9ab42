package race

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/localworld/tied"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

var forFlag = flag.Duration("race.for", 0, "how long to go on; 0: a few seconds, and silently")

// taskVariable makes a test binary one of the processes instead of a test.
const taskVariable = "COFFER_RACE_TASK"

const shortRace = 3 * time.Second

func TestMain(m *testing.M) {
	if words := os.Getenv(taskVariable); words != "" {
		var t task
		err := json.Unmarshal([]byte(words), &t)
		var r result
		do := runWorkers
		if len(t.Flagged) > 0 {
			do = resolveAllFlagged
		}
		if t.SwapRace != nil {
			do = swapAll
		}
		if t.CheckoutRace != nil {
			do = sellAll
		}
		if t.BatchRace != nil {
			do = payBatches
		}
		if err == nil {
			r, err = do(context.Background(), t)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(encodeJSON(r))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSixtyFourWorkersOfTwoProcessesNeitherOverdrawNorDouble(t *testing.T) {
	t.Parallel()
	length := *forFlag
	if length == 0 {
		length = shortRace
	}
	// Its own server, whose log can be read.
	cluster := pgtest.StartCluster(t, map[string]string{
		"wal_level": "logical", "max_wal_size": "2GB", "shared_buffers": "256MB", "checkpoint_timeout": "30min",
	})
	data := pgtest.Database{
		Name: local.Database, URL: cluster.URL(""), OwnerURL: cluster.OwnerURL(""),
		SuperURL: cluster.SuperURL(local.Database),
	}
	db := pgtest.Open(t, data, time.Now)
	tk := prepareTask(t, db)
	tk.URL, tk.For, tk.Rounds = data.URL, length, *forFlag > 0
	log, err := openWAL(t.Context(), data.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	ended, followed := make(chan struct{}), make(chan error, 1)
	go func() { followed <- log.followLog(t.Context(), ended) }()
	say := func(format string, args ...any) {
		if *forFlag > 0 {
			fmt.Printf(format+"\n", args...)
		}
	}
	say("race: two processes, %d workers each, for %v", workers, length)
	stopSaying := printProgress(t, db, *forFlag > 0)
	sum := result{Accepted: map[string]string{}, Decided: map[string]string{}}
	for _, r := range runBothProcesses(t, tk) {
		sum.addResult(r)
	}
	close(ended)
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	stopSaying()
	sum.Wrong = append(sum.Wrong, log.wrong...)
	for _, w := range sum.Wrong {
		t.Error(w)
	}
	checkSettled(t, db, tk, sum)
	if log.commits != sum.Commits {
		t.Errorf("the log has %d commits that moved the one balance, the workers made %d", log.commits, sum.Commits)
	}
	for _, row := range []struct {
		name string
		n    any
	}{
		{"spends of one balance", sum.Holds},
		{"  ended", sum.Ends},
		{"  refused for lack of money", sum.HoldsRefused},
		{"  where the twin was first", sum.HoldsTaken},
		{"requests", sum.Requests},
		{"  keys", len(sum.Accepted)},
		{"  refused for another body", sum.Conflicts},
		{"decisions", sum.Decisions},
		{"  too late", sum.DecisionsLate},
		{"reservations of one wallet", sum.Reserves},
		{"  refused as more than it holds", sum.ReservesShort},
		{"commits that moved that balance", log.commits},
		{"  balances written, all looked at", log.moves},
		{"  the least of all at any commit", log.lowest},
		{"snapshots looked at", sum.Looks},
		{"waits for a lock given up", sum.Vain},
		{"deadlocks", sum.Deadlocks},
	} {
		say("  %-32s %12v", row.name, row.n)
	}
	say("trial: %d holds and %d ends on one balance in two processes, least balance at any commit %v, "+
		"%d waits for a lock given up, %d deadlocks, %d breaches",
		sum.Holds, sum.Ends, log.lowest, sum.Vain, sum.Deadlocks, len(sum.Wrong))
}

// prepareTask creates what all workers compete for.
func prepareTask(t *testing.T, db *pg.DB) task {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ch := sim.New(sim.Config{}).ToChain()
	m := mint.Mint{
		ID: token, Chain: ch.Name, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token, Symbol: "USDC",
		Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		ConfirmationsRequired: 3, Finality: "FINALIZED",
	}
	check(mint.Sync(ctx, db, []mint.Mint{m}))
	o, _, err := org.Create(ctx, db, "Acme")
	check(err)
	sign, attest := signertest.New(t)
	book := wallet.New(db, sign, attest)
	check(journal.Import(ctx, db, sign, book))
	treasury, err := book.Treasury(ctx, o.ID, chain.EVM)
	check(err)
	check(db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var postings []ledger.Posting
		for name, units := range map[string]uint64{spender: balance, payer: fortune} {
			if _, _, err := customer.Ensure(ctx, tx, o.ID, name, ""); err != nil {
				return err
			}
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: "first of " + name},
				Legs: []ledger.Leg{{
					Debit: ledgerAccount(o.ID, ledger.Custody, ""), Credit: ledgerAccount(o.ID, ledger.Customer, name),
					Amount: money.Units(units),
				}},
			})
		}
		if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: o.ID, MintID: token, Part: wallet.Credited, Plus: money.Units(funds),
		}); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, postings...)
	}))
	return task{Org: o.ID, Treasury: treasury}
}

// runBothProcesses runs both processes and reads their results.
func runBothProcesses(t *testing.T, tk task) []result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var outs, errs [2]bytes.Buffer
	var done [2]<-chan struct{}
	var how [2]func() error
	for i := range done {
		tk.Process = i
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), taskVariable+"="+encodeJSON(tk))
		cmd.Stdout, cmd.Stderr = &outs[i], &errs[i]
		if done[i], how[i], err = tied.Start(cmd); err != nil {
			t.Fatalf("start process %d: %v", i, err)
		}
	}
	var all []result
	for i := range done {
		<-done[i]
		if err := how[i](); err != nil {
			t.Fatalf("process %d: %v: %s", i, err, errs[i].String())
		}
		var r result
		if err := json.Unmarshal(outs[i].Bytes(), &r); err != nil {
			t.Fatalf("process %d said %.200q: %v", i, outs[i].String(), err)
		}
		all = append(all, r)
	}
	return all
}

// printProgress prints now and then how far the race is.
func printProgress(t *testing.T, db *pg.DB, on bool) (stop func()) {
	if !on {
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		began, tick := time.Now(), time.NewTicker(10*time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var rows int64
			// An estimate: counting millions would be part of the race.
			err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
				return tx.QueryRow(ctx, `SELECT coalesce(max(transfer_id), 0) FROM ledger_transfers`).Scan(&rows)
			})
			if err == nil {
				fmt.Printf("  %v: about %d transfers\n", time.Since(began).Round(time.Second), rows)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// checkSettled compares the results with the database.
func checkSettled(t *testing.T, db *pg.DB, tk task, sum result) {
	t.Helper()
	owner := pgtest.OwnerPool(t, db)
	num := func(sql string, args ...any) (n int64) {
		t.Helper()
		if err := owner.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatalf("%.60s: %v", strings.TrimSpace(sql), err)
		}
		return n
	}
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	const ofSpender = ` FROM ledger_transfers t JOIN ledger_accounts d ON d.account_id = t.debit_account WHERE d.subject = '` + spender + `' AND t.cause_kind = `
	want("holds", num(`SELECT count(*)`+ofSpender+`'WITHDRAWAL_HOLD'`), int64(sum.Holds))
	want("ends", num(`SELECT count(*)`+ofSpender+`'WITHDRAWAL_END'`), int64(sum.Ends))
	want("holds that no process has ended", int64(sum.Holds-sum.Ends), num(`
		SELECT count(*) FROM ledger_transfers h WHERE h.cause_kind = 'WITHDRAWAL_HOLD' AND h.cause_id LIKE '%.%'
			AND NOT EXISTS (SELECT FROM ledger_transfers e WHERE e.org_id = h.org_id AND e.cause_kind = 'WITHDRAWAL_END' AND e.cause_id = h.cause_id)`))
	want("holds left over", int64(sum.Holds-sum.Ends), 0)
	want("balances that are not the sum of their transfers", num(`
		SELECT count(*) FROM ledger_balances b WHERE b.balance <>
			coalesce((SELECT sum(amount) FROM ledger_transfers WHERE credit_account = b.account_id), 0)
			- coalesce((SELECT sum(amount) FROM ledger_transfers WHERE debit_account = b.account_id), 0)`), 0)
	want(
		"what ann has",
		num(
			`SELECT b.balance::bigint FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'CUSTOMER' AND a.subject = $1`,
			spender,
		),
		balance,
	)
	want("withdrawals", num(`SELECT count(*) FROM withdrawals WHERE customer_id = $1`, payer), int64(len(sum.Accepted)))
	want(
		"decisions",
		num(`SELECT count(*) FROM withdrawals WHERE status <> 'AWAITING_APPROVAL' AND customer_id = $1`, payer),
		int64(len(sum.Decided)),
	)
	want("decisions that won", int64(sum.Decisions), int64(len(sum.Decided)))
	want(
		"orders", num(`SELECT count(*) FROM dispatch_orders`),
		num(`SELECT count(*) FROM withdrawals WHERE status = 'PROCESSING'`),
	)
	want("what bob has", num(
		`SELECT b.balance::bigint FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'CUSTOMER' AND a.subject = $1`,
		payer,
	),
		fortune-num(
			`SELECT coalesce(sum(amount), 0)::bigint FROM withdrawals WHERE status <> 'REJECTED' AND customer_id = $1`,
			payer,
		))
	want("reserved", num(`SELECT reserved::bigint FROM address_funds WHERE wallet_id = $1`, tk.Treasury.ID), 0)
	want("deadlocks", sum.Deadlocks, 0)
	// How often the workers met is a figure and no assertion: on a busy machine they meet less.
	if sum.Holds == 0 || sum.Requests == 0 || sum.Reserves == 0 || sum.Looks == 0 {
		t.Errorf("somebody did nothing: %s", encodeJSON(sum))
	}
}
