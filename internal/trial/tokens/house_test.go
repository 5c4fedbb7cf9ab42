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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
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

// house is the service and a chain of its own, which makes a block when it is told to.
type house struct {
	*testing.T
	*works.Works
	ctx      context.Context
	node     *anvil.Node
	db       *pg.DB
	org      string
	treasury wallet.Wallet
	at       map[int]common.Address // tokens in the catalogue
	steps    []works.Step
	sign     signer.Signer

	mu  sync.Mutex
	now time.Time
}

func (h *house) clock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }

func (h *house) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// listed are tokens to be made and put into the catalogue.
type listed map[int]func(h *house) common.Address

// usual is a token of one of the contracts, with plenty of it at the faucet.
func usual(c evmtoken.Contract) func(h *house) common.Address {
	return func(h *house) common.Address {
		h.Helper()
		at, err := h.node.Deploy(h.ctx, c, "A token", "TOK", uint8(6))
		h.must(err)
		h.send(at, 0, evmtoken.Token.Call("mint", h.node.FaucetAddress(), big.NewInt(1_000_000_000)))
		return at
	}
}

// fiat is a token like USDC: behind a proxy, with a pause and a list of the blocked.
func fiat(h *house) common.Address {
	h.Helper()
	code, err := h.node.Deploy(h.ctx, evmtoken.FiatToken)
	h.must(err)
	at, err := h.node.Deploy(h.ctx, evmtoken.Proxy, code, h.node.FaucetAddress(),
		evmtoken.FiatToken.Call("initialize", "USD Coin", "USDC", uint8(6), h.node.FaucetAddress()))
	h.must(err)
	h.send(at, 0, evmtoken.FiatToken.Call("mint", h.node.FaucetAddress(), big.NewInt(1_000_000_000)))
	return at
}

// open makes a house with an organization whose treasury has gas. Each of with changes
// how the service speaks to the chain.
func open(t *testing.T, tokens listed, with ...func(*evm.Config)) *house {
	t.Helper()
	h := &house{T: t, ctx: t.Context(), at: map[int]common.Address{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.node = anviltest.Start(t, anvil.Config{Manual: true, SlotsInEpoch: finality / 2})
	mints := []mint.Mint{{ID: eth, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18}}
	for id, deploy := range tokens {
		h.at[id] = deploy(h)
		mints = append(mints, mint.Mint{ID: id, Kind: mint.Token, Contract: evmtx.Canonical(h.at[id]), Symbol: "TOK", Name: "A token", Decimals: 6})
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.Finality = chain.Ethereum, chain.Local, "FINALIZED"
		m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw = true, true, money.Units(least), money.Units(1)
	}
	h.mine(finality)
	conf := evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{h.node.URL}, Agree: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	}
	for _, change := range with {
		change(&conf)
	}
	ch, err := evm.New(h.ctx, conf)
	h.must(err)
	h.db = pgtest.NewWithClock(t, h.clock)
	h.must(mint.Sync(h.ctx, h.db, mints))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.must(err)
	h.org = o.ID
	sign, attest := signertest.New(t)
	h.sign = sign
	prices := price.Fixed{Prices: map[int]money.USD{}, Clock: h.clock}
	h.Works = works.Wire(works.Plan{DB: h.db, Chain: ch, Signer: sign, Attest: attest, Prices: prices})
	h.steps = h.Steps(nil)
	h.must(mirror.Import(h.ctx, h.db, sign, h.Book))
	h.treasury, err = h.Book.Treasury(h.ctx, h.org, chain.EVM)
	h.must(err)
	h.coin(raw(h.treasury.Address), params.Ether)
	h.pass(finality + 1)
	return h
}

func raw(a chain.Address) common.Address { return common.HexToAddress(string(a)) }

func (h *house) mine(blocks int) {
	h.Helper()
	h.must(h.node.Mine(h.ctx, blocks))
}

// send leaves a transaction of the faucet in the pool.
func (h *house) send(to common.Address, value int64, data []byte) common.Hash {
	h.Helper()
	hash, err := h.node.Send(h.ctx, &to, big.NewInt(value), data)
	h.must(err)
	return hash
}

func (h *house) coin(to common.Address, wei int64) { h.Helper(); h.send(to, wei, nil) }

// act has the faucet call a token of the catalogue, of which it is the owner.
func (h *house) act(mintID int, c evmtoken.Contract, method string, args ...any) {
	h.Helper()
	h.send(h.at[mintID], 0, c.Call(method, args...))
}

// pay has the faucet transfer units of a token to an address.
func (h *house) pay(mintID int, to common.Address, units int64) {
	h.Helper()
	h.act(mintID, evmtoken.Token, "transfer", to, big.NewInt(units))
}

// turn has every part of the service do what there is to do.
func (h *house) turn() {
	h.Helper()
	for _, s := range h.steps {
		if err := s.Do(h.ctx); err != nil {
			h.Fatalf("%s: %v", s.Name, err)
		}
	}
}

// pass lets so many blocks go by, with a turn of the service before each and one
// after the last.
func (h *house) pass(blocks int) {
	h.Helper()
	for range blocks {
		h.turn()
		h.mine(1)
		h.later(turn)
	}
	h.turn()
}

// settle lets blocks go by until what was sent has been credited or has ended.
func (h *house) settle() { h.Helper(); h.pass(2 * (finality + 2)) }

// ends lets blocks go by until a withdrawal is neither on its way nor out.
func (h *house) ends(id string) {
	h.Helper()
	for range 40 {
		if w := h.withdrawal(id); w.Status != "PROCESSING" && w.Status != "BROADCAST" {
			return
		}
		h.pass(1)
	}
}

// customer is a customer's deposit address.
func (h *house) customer(id string) common.Address {
	h.Helper()
	h.must(h.db.InOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, id, "")
		return err
	}))
	w, err := h.Book.Address(h.ctx, signertest.Deposit(h.org, id))
	h.must(err)
	return raw(w.Address)
}

// has checks what a customer may spend.
func (h *house) has(customerID string, mintID int, want uint64) {
	h.Helper()
	h.must(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID})
		if err == nil && got != money.Units(want) {
			h.Errorf("%s in mint %d: got a balance of %v, want %d", customerID, mintID, got, want)
		}
		return err
	}))
}

// deposits are what the organization is shown of a customer, newest last.
func (h *house) deposits(f deposit.Filter) (items []webhook.Deposit) {
	h.Helper()
	h.must(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, h.org, f, page.Page{})
		items = found.Items
		return err
	}))
	return items
}

// shows checks the states of a customer's deposits, in any order, each with its reason.
func (h *house) shows(customerID string, want ...string) {
	h.Helper()
	left := map[string]int{}
	for _, w := range want {
		left[w]++
	}
	for _, d := range h.deposits(deposit.Filter{CustomerID: customerID}) {
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

func (h *house) number(sql string, args ...any) (n int64) {
	h.Helper()
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) }))
	return n
}

func (h *house) word(sql string, args ...any) (s string) {
	h.Helper()
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&s) }))
	return s
}

func (h *house) funds(w wallet.Wallet, mintID int) (f wallet.Funds) {
	h.Helper()
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.FundsOf(ctx, tx, w.ID, mintID)
		return err
	}))
	return f
}

func (h *house) quarantined(mintID int) bool {
	h.Helper()
	return h.number(`SELECT count(*) FROM mints WHERE mint_id = $1 AND quarantined_at IS NOT NULL`, mintID) == 1
}

// wantQuarantine checks which mints are under quarantine, and no others.
func (h *house) wantQuarantine(want ...int) {
	h.Helper()
	for id := range h.at {
		is, should := h.quarantined(id), false
		for _, w := range want {
			should = should || w == id
		}
		if is != should {
			h.Errorf("mint %d under quarantine: got %v, want %v", id, is, should)
		}
	}
}

// release is what an operator does who has looked at a mint.
func (h *house) release(mintID int) {
	h.Helper()
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return mint.Release(ctx, tx, mintID, audit.Operator("op"), "looked at it")
	}))
}

// sound checks the books against themselves and against the chain.
func (h *house) sound() {
	h.Helper()
	books, err := verify.Run(h.ctx, h.db)
	h.must(err)
	for _, r := range []verify.Report{books, h.onChain()} {
		if !r.OK() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			h.must(err)
			h.Errorf("the books are not sound:\n%s", b.String())
		}
	}
}

func (h *house) onChain() verify.Report {
	h.Helper()
	r, err := verify.OnChain(h.ctx, h.db, h.Chains)
	h.must(err)
	return r
}

// ask requests a withdrawal.
func (h *house) ask(customerID string, mintID int, amount string, to common.Address) (webhook.Withdrawal, error) {
	w, _, err := h.Pay.Request(h.ctx, h.org, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: amount, ToAddress: to.Hex(), Actor: audit.APIKey(h.org),
	})
	return w, err
}

// withdraw requests a withdrawal that is accepted.
func (h *house) withdraw(customerID string, mintID int, amount string, to common.Address) string {
	h.Helper()
	w, err := h.ask(customerID, mintID, amount, to)
	h.must(err)
	return w.WithdrawalID
}

func (h *house) withdrawal(id string) webhook.Withdrawal {
	h.Helper()
	w, err := h.Pay.ByID(h.ctx, h.org, id)
	h.must(err)
	return w
}

func (h *house) wantWithdrawal(id, status string, reasons ...string) {
	h.Helper()
	w := h.withdrawal(id)
	same := w.Status == status && len(w.ApprovalReasons) == len(reasons)
	for i := 0; same && i < len(reasons); i++ {
		same = w.ApprovalReasons[i] == reasons[i]
	}
	if !same {
		h.Errorf("withdrawal %s: got %s %v, want %s %v", id, w.Status, w.ApprovalReasons, status, reasons)
	}
}

// holds is what an address holds of a token (or of the coin) on the latest block.
func (h *house) holds(mintID int, a common.Address, want int64) {
	h.Helper()
	var got *big.Int
	var err error
	if mintID == eth {
		got, err = h.node.Eth.BalanceAt(h.ctx, a, nil)
	} else {
		got, err = h.node.TokenBalance(h.ctx, h.at[mintID], a)
	}
	h.must(err)
	if got.Cmp(big.NewInt(want)) != 0 {
		h.Errorf("%v holds %v of mint %d, want %d", a, got, mintID, want)
	}
}
