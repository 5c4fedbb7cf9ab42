package withdrawal

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
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

// house is an organization with a customer who has money, all of it on the
// treasury, and the service that pays it out.
type house struct {
	*Service
	t    *testing.T
	org  string
	book *wallet.Book
}

func mints() []mint.Mint {
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAddress, Symbol: "USDC", Name: "USD Coin",
		Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(10), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	return []mint.Mint{token, coin}
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h, _ := newHouseWith(t, nil)
	return h
}

// newHouseWith is a house whose signer asks who let payments go, unless grants is nil.
func newHouseWith(t *testing.T, grants *signer.GrantKey) (*house, signer.Signer) {
	t.Helper()
	db := pgtest.New(t)
	if err := mint.Sync(t.Context(), db, mints()); err != nil {
		t.Fatal(err)
	}
	made, _, err := org.Create(t.Context(), db, "house")
	if err != nil {
		t.Fatal(err)
	}
	s, attest := signertest.Asking(t, grants)
	h := &house{t: t, org: made.ID, book: wallet.New(db, s, attest)}
	if err := mirror.Import(t.Context(), db, s, h.book); err != nil {
		t.Fatal(err)
	}
	h.Service = &Service{
		DB: db, Wallets: h.book,
		Chains: chain.Chains{chain.Ethereum: {Name: chain.Ethereum, Network: chain.Local, Grammar: evmtx.Grammar{ChainID: signertest.ChainID}}},
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
	}
	h.Grants = grants
	h.Voids = &dispatch.Voider{DB: db, Signer: s, Grants: grants, Listeners: map[signer.Purpose]dispatch.VoidListener{signer.Payment: h.Service}, Log: slog.New(slog.DiscardHandler)}
	h.deposit(alice, usdc, 1_000_000)
	return h, s
}

// deposit credits a customer as a deposit would, on the treasury.
func (h *house) deposit(customerID string, mintID int, n uint64) {
	h.t.Helper()
	treasury, err := h.book.Treasury(h.t.Context(), h.org, chain.EVM)
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
	h.system(func(ctx context.Context, tx pg.Tx) error {
		if err := wallet.Move(ctx, tx, wallet.Movement{WalletID: treasury.ID, OrgID: h.org, MintID: mintID, Part: wallet.Credited, Plus: money.Units(n)}); err != nil {
			return err
		}
		return ledgertest.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_" + customerID + time.Now().String()},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Custody},
				Credit: ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID},
				Amount: money.Units(n),
			}},
		})
	})
}

func (h *house) system(fn func(context.Context, pg.Tx) error) {
	h.t.Helper()
	if err := h.DB.InSystem(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// want is a request that passes every gate.
func (h *house) want() Request {
	return Request{MintID: usdc, CustomerID: alice, Amount: "1000", ToAddress: stranger, Actor: audit.APIKey(h.org)}
}

func (h *house) request(r Request) webhook.Withdrawal {
	h.t.Helper()
	w, _, err := h.Request(h.t.Context(), h.org, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// held is a withdrawal that waits for a person.
func (h *house) held() webhook.Withdrawal {
	h.t.Helper()
	r := h.want()
	r.RequireApproval = true
	return h.request(r)
}

func (h *house) balance(kind ledger.Kind) string {
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

// balances compares what the customer may spend and what is held.
func (h *house) balances(available, held string) {
	h.t.Helper()
	if got := h.balance(ledger.Customer); got != available {
		h.t.Errorf("available: got %v, want %v", got, available)
	}
	if got := h.balance(ledger.Withdrawing); got != held {
		h.t.Errorf("held: got %v, want %v", got, held)
	}
}

// rows counts everything that a request could have written.
func (h *house) rows() string {
	h.t.Helper()
	var counts string
	err := pgtest.Owner(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT format('withdrawals %s, transfers %s, accounts %s, orders %s, events %s, audit %s, customers %s, wallets %s',
			(SELECT count(*) FROM withdrawals), (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM ledger_accounts),
			(SELECT count(*) FROM dispatch_orders), (SELECT count(*) FROM events), (SELECT count(*) FROM audit_log),
			(SELECT count(*) FROM customers), (SELECT count(*) FROM wallets))`).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// told are the events of a withdrawal, in order, with the status each shows.
func (h *house) told(withdrawalID string) []string {
	h.t.Helper()
	rows, err := pgtest.Owner(h.t, h.DB).Query(h.t.Context(), `SELECT type, data FROM events WHERE resource_id = $1 ORDER BY resource_seq`, withdrawalID)
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

func (h *house) heard(withdrawalID string, want ...string) {
	h.t.Helper()
	if got := h.told(withdrawalID); !slices.Equal(got, want) {
		h.t.Errorf("events: got %v, want %v", got, want)
	}
}

func (h *house) orders(withdrawalID string) (status string) {
	h.t.Helper()
	err := pgtest.Owner(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT coalesce((SELECT status FROM dispatch_orders WHERE order_id = $1), 'none')`, withdrawalID).Scan(&status)
	if err != nil {
		h.t.Fatal(err)
	}
	return status
}

func (h *house) order(w webhook.Withdrawal) dispatch.Order {
	return dispatch.Order{ID: w.WithdrawalID, OrgID: h.org}
}

func refused(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if !fault.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// crowd runs fn n times at once.
func crowd(n int, fn func(i int)) {
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
