package withdrawal

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const (
	usdc        = 1
	eth         = 2
	usdcAddress = chain.Address("0x8617E340B3D01FA5F11F306F4090FD50E238070D")
	alice       = "alice"
	stranger    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
)

// testEnv is an organization with a customer who has a balance, all of it on the treasury, and the
// service that pays withdrawals.
type testEnv struct {
	*Service
	t       *testing.T
	org     string
	wallets *wallet.Service
}

func newMints() []mint.Mint {
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAddress,
		Symbol: "USDC", Name: "USD Coin",
		Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1),
		MinWithdraw: money.Units(10), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	return []mint.Mint{token, coin}
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	h, _ := newTestEnvWith(t, nil)
	return h
}

// newTestEnvWith returns an environment whose signer requires grants, unless grants is nil.
func newTestEnvWith(t *testing.T, grants *signer.GrantKey) (*testEnv, signer.Signer) {
	t.Helper()
	s, attest := signertest.NewWithGrants(t, grants)
	return newTestEnvOf(t, grants, s, attest), s
}

// newTestEnvOf returns an environment of a signer.
func newTestEnvOf(t *testing.T, grants *signer.GrantKey, s signer.Signer, attest ed25519.PublicKey) *testEnv {
	t.Helper()
	db := pgtest.New(t)
	if err := mint.Sync(t.Context(), db, newMints()); err != nil {
		t.Fatal(err)
	}
	made, _, err := org.Create(t.Context(), db, "house")
	if err != nil {
		t.Fatal(err)
	}
	h := &testEnv{t: t, org: made.ID, wallets: wallet.New(db, s, attest)}
	if err := journal.Import(t.Context(), db, s, h.wallets); err != nil {
		t.Fatal(err)
	}
	h.Service = &Service{
		DB: db, Wallets: h.wallets, Events: NewTestRecorder(),
		Chains: chain.Chains{
			chain.Ethereum: {Name: chain.Ethereum, Network: chain.Local, AddressCodec: evmtx.AddressCodec{
				ChainID: signertest.ChainID,
			}},
		},
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
	}
	h.GrantKey = grants
	h.Voider = &dispatch.Voider{
		DB: db, Signer: s, Grants: grants,
		Listeners: map[signer.Purpose]dispatch.VoidListener{signer.Payment: h.Service},
		Log:       slog.New(slog.DiscardHandler),
	}
	h.creditDeposit(alice, usdc, 1_000_000)
	return h
}

// creditDeposit credits a customer as a deposit on the treasury would.
func (h *testEnv) creditDeposit(customerID string, mintID int, n uint64) {
	h.t.Helper()
	treasury, err := h.wallets.Treasury(h.t.Context(), h.org, chain.EVM)
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.DB.InOrg(h.t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, customerID, "")
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if err := wallet.MoveFunds(
			ctx, tx,
			wallet.Movement{
				WalletID: treasury.ID, OrgID: h.org, MintID: mintID, Part: wallet.Credited,
				Plus: money.Units(n),
			},
		); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_" + customerID + time.Now().String()},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID},
				Amount: money.Units(n),
			}},
		})
	})
}

func (h *testEnv) inSystem(fn func(context.Context, pg.Tx) error) {
	h.t.Helper()
	if err := h.DB.InSystem(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// newRequest returns a request that passes every gate.
func (h *testEnv) newRequest() Request {
	return Request{MintID: usdc, CustomerID: alice, Amount: "1000", ToAddress: stranger, Actor: audit.APIKey(h.org)}
}

func (h *testEnv) mustRequest(r Request) Withdrawal {
	h.t.Helper()
	w, _, err := h.Request(h.t.Context(), h.org, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// requestHeld makes a withdrawal that waits for approval.
func (h *testEnv) requestHeld() Withdrawal {
	h.t.Helper()
	r := h.newRequest()
	r.RequireApproval = true
	return h.mustRequest(r)
}

func (h *testEnv) loadBalance(kind ledger.Kind) string {
	h.t.Helper()
	var a money.Amount
	err := h.DB.ReadOrg(h.t.Context(), h.org, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, ledger.Account{OrgID: h.org, MintID: usdc, Kind: kind, Subject: alice})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a.String()
}

// wantBalances checks the customer's available and held balances.
func (h *testEnv) wantBalances(available, held string) {
	h.t.Helper()
	if got := h.loadBalance(ledger.Customer); got != available {
		h.t.Errorf("available: got %v, want %v", got, available)
	}
	if got := h.loadBalance(ledger.Withdrawing); got != held {
		h.t.Errorf("held: got %v, want %v", got, held)
	}
}

// dumpRows returns the counts of all rows that a request can write.
func (h *testEnv) dumpRows() string {
	h.t.Helper()
	var counts string
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT format('withdrawals %s, transfers %s, accounts %s, orders %s, events %s, audit %s, customers %s, wallets %s',
			(SELECT count(*) FROM withdrawals), (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM ledger_accounts),
			(SELECT count(*) FROM dispatch_orders), (SELECT count(*) FROM events), (SELECT count(*) FROM audit_log),
			(SELECT count(*) FROM customers), (SELECT count(*) FROM wallets))`).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// eventTypes returns the events of a withdrawal in order, each with the status that it shows.
func (h *testEnv) eventTypes(withdrawalID string) []string {
	h.t.Helper()
	rows, err := pgtest.OwnerPool(h.t, h.DB).Query(
		h.t.Context(), `SELECT type, data FROM events WHERE resource_id = $1 ORDER BY resource_seq`,
		withdrawalID,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	told := []string{}
	for rows.Next() {
		var kind string
		var data []byte
		if err := rows.Scan(&kind, &data); err != nil {
			h.t.Fatal(err)
		}
		var w webhook.Withdrawal
		if err := json.Unmarshal(data, &w); err != nil {
			h.t.Fatal(err)
		}
		told = append(told, kind+" "+w.Status)
	}
	return told
}

func (h *testEnv) wantEvents(withdrawalID string, want ...string) {
	h.t.Helper()
	if got := h.eventTypes(withdrawalID); !slices.Equal(got, want) {
		h.t.Errorf("events: got %v, want %v", got, want)
	}
}

func (h *testEnv) orderStatus(withdrawalID string) (status string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT coalesce((SELECT status FROM dispatch_orders WHERE order_id = $1), 'none')`, withdrawalID).Scan(&status)
	if err != nil {
		h.t.Fatal(err)
	}
	return status
}

func (h *testEnv) loadOrder(w Withdrawal) dispatch.Order {
	return dispatch.Order{ID: w.ID, OrgID: h.org}
}

func wantFault(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if !fault.HasCode(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// runParallel runs fn n times at once.
func runParallel(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func reasonTexts(reasons []Reason) []string {
	texts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		texts = append(texts, string(r))
	}
	return texts
}
