package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"sync/atomic"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	withdrawalsGoal   = 1_000 // accepted a second
	newAddressesGoal  = 1_000 // issued a second through the interface
	withdrawCustomers = 1_000
	withdrawPayees    = 5_000
)

// benchWithdrawals measures what the interface accepts of withdrawals from many customers and from one, and
// the addresses that it issues. No dispatcher runs beside it.
func benchWithdrawals(ctx context.Context, w *benchEnv) (err error) {
	e, err := w.newCheckoutEnv(ctx, "withdrawals")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.closeAll()) }()
	if err := e.fundCustomers(ctx, w); err != nil {
		return err
	}
	server := httptest.NewServer(api.New(api.Config{
		DB: e.db, Chains: chain.Chains{chain.Ethereum: e.net.ToChain()}, Withdrawals: e.Withdrawals, Wallets: e.Wallets,
		CursorKey: []byte("the key of this run's cursors"), BaseURL: "http://bench/v1",
		Log: slog.New(slog.DiscardHandler),
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	for _, c := range []struct {
		key, name string
		hot       bool
	}{
		{key: "spread", name: fmt.Sprintf("spread over %d customers", withdrawCustomers)},
		{key: "hot", name: "all from one balance", hot: true},
	} {
		r, err := w.benchPosts(ctx, e, server.Listener.Addr().String(), c.key, func(*httpCaller) (string, any) {
			customerID := fmt.Sprint("c", rand.IntN(withdrawCustomers))
			if c.hot {
				customerID = "c0"
			}
			return "/v1/withdraw", map[string]any{
				"mintId": checkoutToken, "customerId": customerID, "amount": "1",
				"toAddress": string(sim.Address(fmt.Sprint("payee ", rand.IntN(withdrawPayees)))),
			}
		}, withdrawalsGoal)
		if err != nil {
			return fmt.Errorf("withdrawals %s: %w", c.name, err)
		}
		r.figure = fmt.Sprintf("POST /withdraw, %d connections, %s", connections, c.name)
		w.table.addRow(r)
	}
	r, err := w.benchPosts(ctx, e, server.Listener.Addr().String(), "address", func(c *httpCaller) (string, any) {
		return "/v1/deposit", map[string]any{"mintId": checkoutToken, "customerId": c.nextKey()}
	}, newAddressesGoal)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	r.figure = fmt.Sprintf("POST /deposit, %d connections, each a customer and an address of its own", connections)
	w.table.addRow(r)
	return nil
}

// benchPosts posts what content returns from many connections, first for a moment that the tables fill in, and
// compares the rate with a goal. A post without a key gets one.
func (w *benchEnv) benchPosts(
	ctx context.Context, e *checkoutEnv, address, name string, content func(*httpCaller) (string, any), goal float64,
) (r row, err error) {
	var made atomic.Int64
	callers := make([]*httpCaller, connections)
	defer func() {
		for _, c := range callers {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}()
	for i := range callers {
		if callers[i], err = dialCaller(ctx, address, e.key, fmt.Sprint(name, "-", i), &made); err != nil {
			return r, err
		}
	}
	post := func(_ context.Context, i int) error {
		path, posted := content(callers[i])
		if body, isMap := posted.(map[string]any); isMap && path == "/v1/withdraw" {
			body["idempotencyKey"] = callers[i].nextKey()
		}
		return callers[i].post(path, posted)
	}
	workBefore := w.readWork()
	took, n, err := runCallers(ctx, connections, w.duration, post)
	if err != nil {
		return r, err
	}
	spent := w.readWork().subtract(workBefore)
	return row{
		result: fmt.Sprintf("%.0f/s, p50 %s, p99 %s", n, formatDuration(took.percentile(0.5)),
			formatDuration(took.percentile(0.99))),
		compared: joinParts(formatRatio(n, w.table.tpcb8, "pgbench at 8 clients"), spent.formatEach(int(made.Load()))),
		target:   formatTarget(n >= goal, fmt.Sprintf("%.0f/s", goal)),
	}, nil
}

// fundCustomers gives every customer a balance, and the treasury what it owes them.
func (e *checkoutEnv) fundCustomers(ctx context.Context, w *benchEnv) error {
	treasury, err := e.Wallets.Treasury(ctx, e.org, chain.EVM)
	if err != nil {
		return err
	}
	err = e.db.InOrg(ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO customers (org_id, customer_id, created_at, updated_at)
			SELECT $1, 'c' || n, $3, $3 FROM generate_series(0, $2 - 1) n`, e.org, withdrawCustomers, tx.Now)
		if err != nil {
			return err
		}
		var postings []ledger.Posting
		for i := range withdrawCustomers {
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprint("dep_", i)},
				Legs: []ledger.Leg{{
					Debit: ledger.Account{OrgID: e.org, MintID: checkoutToken, Kind: ledger.Custody},
					Credit: ledger.Account{
						OrgID: e.org, MintID: checkoutToken, Kind: ledger.Customer, Subject: fmt.Sprint("c", i),
					},
					Amount: money.Units(customerUnits),
				}},
			})
		}
		return ledgertest.PostWithCauses(ctx, tx, postings...)
	})
	if err != nil {
		return err
	}
	return w.execAsSuperuser(ctx, "withdrawals", fmt.Sprintf(`
		INSERT INTO address_funds (wallet_id, org_id, mint_id, credited) VALUES ('%s', '%s', %d, %d)
		ON CONFLICT (wallet_id, mint_id) DO UPDATE SET credited = excluded.credited`,
		treasury.ID, e.org, checkoutToken, int64(customerUnits)*withdrawCustomers))
}
