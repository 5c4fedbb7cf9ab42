package tokens

import (
	"bytes"
	"context"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	eth      = 1 // the coin; tokens have the ids that a test gives them
	usdc     = 2
	finality = 2 // blocks from the latest to the final one
	least    = 100
	turn     = 5 * time.Second // of the service's time, from one block to the next
)

// testEnv is the service and its own chain, which makes a block when a test tells it to.
type testEnv struct {
	*testing.T
	*harness.Harness
	ctx            context.Context
	node           *anvil.Node
	db             *pg.DB
	org            string
	treasury       wallet.Wallet
	tokenAddresses map[int]common.Address // tokens in the catalogue
	steps          []harness.Step
	sign           signer.Signer

	mu        sync.Mutex
	clockTime time.Time
}

func (h *testEnv) readClock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.clockTime }

func (h *testEnv) advanceClock(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clockTime = h.clockTime.Add(d)
}

func (h *testEnv) mustSucceed(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// tokenList has the tokens that a test deploys and lists in the catalogue.
type tokenList map[int]func(h *testEnv) common.Address

// newUsualToken deploys a token of one of the contracts, with a large balance at the faucet.
func newUsualToken(c evmtoken.Contract) func(h *testEnv) common.Address {
	return func(h *testEnv) common.Address {
		h.Helper()
		at, err := h.node.DeployContract(h.ctx, c, "A token", "TOK", uint8(6))
		h.mustSucceed(err)
		h.sendTransaction(at, 0, evmtoken.Token.CallData("mint", h.node.FaucetAddress(), big.NewInt(1_000_000_000)))
		return at
	}
}

// newFiatToken deploys a token like USDC: behind a proxy, with a pause and a block list.
func newFiatToken(h *testEnv) common.Address {
	h.Helper()
	code, err := h.node.DeployContract(h.ctx, evmtoken.FiatToken)
	h.mustSucceed(err)
	at, err := h.node.DeployContract(h.ctx, evmtoken.Proxy, code, h.node.FaucetAddress(),
		evmtoken.FiatToken.CallData("initialize", "USD Coin", "USDC", uint8(6), h.node.FaucetAddress()))
	h.mustSucceed(err)
	h.sendTransaction(at, 0, evmtoken.FiatToken.CallData("mint", h.node.FaucetAddress(), big.NewInt(1_000_000_000)))
	return at
}

// newTestEnv creates a service with an organization whose treasury has gas. with changes how the
// service connects to the chain.
func newTestEnv(t *testing.T, tokens tokenList, with ...func(*evm.Config)) *testEnv {
	t.Helper()
	return newGrantedEnv(t, nil, tokens, with...)
}

// newGrantedEnv creates a service like newTestEnv whose signer checks grants, unless the key is nil.
func newGrantedEnv(t *testing.T, grants *signer.GrantKey, tokens tokenList, with ...func(*evm.Config)) *testEnv {
	t.Helper()
	h := &testEnv{
		T: t, ctx: t.Context(), tokenAddresses: map[int]common.Address{},
		clockTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	h.node = anviltest.Start(t, anvil.Config{Manual: true, SlotsInEpoch: finality / 2})
	mints := []mint.Mint{{ID: eth, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18}}
	for id, deploy := range tokens {
		h.tokenAddresses[id] = deploy(h)
		mints = append(mints, mint.Mint{
			ID: id, Kind: mint.Token, Contract: evmtx.Canonical(h.tokenAddresses[id]), Symbol: "TOK", Name: "A token",
			Decimals: 6,
		})
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.Finality = chain.Ethereum, chain.Local, "FINALIZED"
		m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw =
			true, true, money.Units(least), money.Units(1)
	}
	h.mine(finality)
	conf := evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{h.node.URL},
		Quorum: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	}
	for _, change := range with {
		change(&conf)
	}
	ch, err := evm.New(h.ctx, conf)
	h.mustSucceed(err)
	h.db = pgtest.NewWithClock(t, h.readClock)
	h.mustSucceed(mint.Sync(h.ctx, h.db, mints))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.mustSucceed(err)
	h.org = o.ID
	sign, attest := signertest.NewWithGrants(t, grants)
	h.sign = sign
	prices := price.Fixed{Prices: map[int]money.USD{}, Clock: h.readClock}
	h.Harness = harness.New(harness.Config{
		DB: h.db, Chain: ch, Signer: sign, AttestKey: attest, Prices: prices, Grants: grants,
	})
	h.steps = h.ListSteps(nil)
	h.mustSucceed(journal.Import(h.ctx, h.db, sign, h.Wallets))
	h.treasury, err = h.Wallets.Treasury(h.ctx, h.org, chain.EVM)
	h.mustSucceed(err)
	h.sendCoin(raw(h.treasury.Address), params.Ether)
	h.passBlocks(finality + 1)
	return h
}

func raw(a chain.Address) common.Address { return common.HexToAddress(string(a)) }

func (h *testEnv) mine(blocks int) {
	h.Helper()
	h.mustSucceed(h.node.MineBlocks(h.ctx, blocks))
}

// sendTransaction leaves a transaction of the faucet in the mempool.
func (h *testEnv) sendTransaction(to common.Address, value int64, data []byte) common.Hash {
	h.Helper()
	hash, err := h.node.SendTx(h.ctx, &to, big.NewInt(value), data)
	h.mustSucceed(err)
	return hash
}

func (h *testEnv) sendCoin(to common.Address, wei int64) { h.Helper(); h.sendTransaction(to, wei, nil) }

// callToken calls a token of the catalogue as the faucet, which owns it.
func (h *testEnv) callToken(mintID int, c evmtoken.Contract, method string, args ...any) {
	h.Helper()
	h.sendTransaction(h.tokenAddresses[mintID], 0, c.CallData(method, args...))
}

// sendTokens transfers units of a token from the faucet to an address.
func (h *testEnv) sendTokens(mintID int, to common.Address, units int64) {
	h.Helper()
	h.callToken(mintID, evmtoken.Token, "transfer", to, big.NewInt(units))
}

// runAllSteps runs every part of the service.
func (h *testEnv) runAllSteps() {
	h.Helper()
	for _, s := range h.steps {
		if err := s.Run(h.ctx); err != nil {
			h.Fatalf("%s: %v", s.Name, err)
		}
	}
}

// passBlocks mines so many blocks, and runs the service before each and after the last.
func (h *testEnv) passBlocks(blocks int) {
	h.Helper()
	for range blocks {
		h.runAllSteps()
		h.mine(1)
		h.advanceClock(turn)
	}
	h.runAllSteps()
}

// settleAll mines blocks until what was sent has been credited or has ended.
func (h *testEnv) settleAll() { h.Helper(); h.passBlocks(2 * (finality + 2)) }

// waitWithdrawalEnd mines blocks until a withdrawal is no longer on its way.
func (h *testEnv) waitWithdrawalEnd(id string) {
	h.Helper()
	for range 40 {
		if w := h.loadWithdrawal(id); w.Status != "PROCESSING" && w.Status != "BROADCAST" {
			return
		}
		h.passBlocks(1)
	}
}

// customerAddress returns a customer's deposit address.
func (h *testEnv) customerAddress(id string) common.Address {
	h.Helper()
	h.mustSucceed(h.db.InOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, id, "")
		return err
	}))
	w, err := h.Wallets.Address(h.ctx, signertest.Deposit(h.org, id))
	h.mustSucceed(err)
	return raw(w.Address)
}

// wantBalance checks a customer's available balance.
func (h *testEnv) wantBalance(customerID string, mintID int, want uint64) {
	h.Helper()
	h.mustSucceed(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, ledger.Account{
			OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID,
		})
		if err == nil && got != money.Units(want) {
			h.Errorf("%s in mint %d: got a balance of %v, want %d", customerID, mintID, got, want)
		}
		return err
	}))
}

// listDeposits returns a customer's deposits as the organization sees them, newest last.
func (h *testEnv) listDeposits(f deposit.Filter) (items []webhook.Deposit) {
	h.Helper()
	h.mustSucceed(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, h.org, f, pagination.Page{})
		for _, d := range found.Items {
			items = append(items, wire.Deposit(d))
		}
		return err
	}))
	return items
}

// wantDeposits checks the states of a customer's deposits, in any order, each with its reason.
func (h *testEnv) wantDeposits(customerID string, want ...string) {
	h.Helper()
	left := map[string]int{}
	for _, w := range want {
		left[w]++
	}
	for _, d := range h.listDeposits(deposit.Filter{CustomerID: customerID}) {
		is := d.Status
		if d.UnsupportedReason != nil {
			is += " " + *d.UnsupportedReason
		}
		if left[is]--; left[is] < 0 {
			h.Errorf("%s: got a deposit %s of %s (%s), want only %v", customerID, d.DepositID, d.Amount, is, want)
		}
	}
	for is, n := range left {
		if n > 0 {
			h.Errorf("%s: got %d deposits %s too few", customerID, n, is)
		}
	}
}

func (h *testEnv) number(sql string, args ...any) (n int64) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(
		h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) },
	))
	return n
}

func (h *testEnv) word(sql string, args ...any) (s string) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(
		h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&s) },
	))
	return s
}

func (h *testEnv) loadFunds(w wallet.Wallet, mintID int) (f wallet.Funds) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, w.ID, mintID)
		return err
	}))
	return f
}

func (h *testEnv) isQuarantined(mintID int) bool {
	h.Helper()
	return h.number(`SELECT count(*) FROM mints WHERE mint_id = $1 AND quarantined_at IS NOT NULL`, mintID) == 1
}

// wantQuarantine checks which mints are under quarantine, and no others.
func (h *testEnv) wantQuarantine(want ...int) {
	h.Helper()
	for id := range h.tokenAddresses {
		is, should := h.isQuarantined(id), false
		for _, w := range want {
			should = should || w == id
		}
		if is != should {
			h.Errorf("mint %d under quarantine: got %v, want %v", id, is, should)
		}
	}
}

// releaseMint releases a mint, as an operator does after looking at it.
func (h *testEnv) releaseMint(mintID int) {
	h.Helper()
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return mint.ReleaseQuarantine(ctx, tx, mintID, audit.Operator("op"), "looked at it")
	}))
}

// checkBooks checks the books against themselves and against the chain.
func (h *testEnv) checkBooks() {
	h.Helper()
	books, err := verify.RunChecks(h.ctx, h.db, verify.WithoutSchema)
	h.mustSucceed(err)
	for _, r := range []verify.Report{books, h.checkOnChain()} {
		if !r.IsIntact() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			h.mustSucceed(err)
			h.Errorf("the books are not sound:\n%s", b.String())
		}
	}
}

func (h *testEnv) checkOnChain() verify.Report {
	h.Helper()
	r, err := verify.CompareWithChains(h.ctx, h.db, h.Chains)
	h.mustSucceed(err)
	return r
}

// requestWithdrawal requests a withdrawal.
func (h *testEnv) requestWithdrawal(
	customerID string, mintID int, amount string, to common.Address,
) (webhook.Withdrawal, error) {
	w, _, err := h.Withdrawals.Request(h.ctx, h.org, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: amount, ToAddress: to.Hex(), Actor: audit.APIKey(h.org),
	})
	return wire.Withdrawal(w), err
}

// mustWithdraw requests a withdrawal that is accepted.
func (h *testEnv) mustWithdraw(customerID string, mintID int, amount string, to common.Address) string {
	h.Helper()
	w, err := h.requestWithdrawal(customerID, mintID, amount, to)
	h.mustSucceed(err)
	return w.WithdrawalID
}

func (h *testEnv) loadWithdrawal(id string) webhook.Withdrawal {
	h.Helper()
	w, err := h.Withdrawals.ByID(h.ctx, h.org, id)
	h.mustSucceed(err)
	return wire.Withdrawal(w)
}

func (h *testEnv) wantWithdrawal(id, status string, reasons ...string) {
	h.Helper()
	w := h.loadWithdrawal(id)
	same := w.Status == status && len(w.ApprovalReasons) == len(reasons)
	for i := 0; same && i < len(reasons); i++ {
		same = w.ApprovalReasons[i] == reasons[i]
	}
	if !same {
		h.Errorf("withdrawal %s: got %s %v, want %s %v", id, w.Status, w.ApprovalReasons, status, reasons)
	}
}

// wantChainBalance checks the balance of an address in a token (or the coin) at the latest block.
func (h *testEnv) wantChainBalance(mintID int, a common.Address, want int64) {
	h.Helper()
	var got *big.Int
	var err error
	if mintID == eth {
		got, err = h.node.Eth.BalanceAt(h.ctx, a, nil)
	} else {
		got, err = h.node.TokenBalance(h.ctx, h.tokenAddresses[mintID], a)
	}
	h.mustSucceed(err)
	if got.Cmp(big.NewInt(want)) != 0 {
		h.Errorf("%v holds %v of mint %d, want %d", a, got, mintID, want)
	}
}
