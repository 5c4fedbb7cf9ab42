package flags

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
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
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/trial/oracle"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const (
	eth      = 1
	usdc     = 2
	finality = 2 // blocks from the latest to the final one
	turn     = 5 * time.Second
	dollars  = 1_000_000 // units of the token
)

// opinions say of an address what a test wants; of any other nobody answers.
type opinions struct {
	mu   sync.Mutex
	says map[chain.Address]risk.Severity
}

func (o *opinions) Name() string           { return "OPINIONS" }
func (o *opinions) Covers(chain.Name) bool { return true }

func (o *opinions) set(a common.Address, s risk.Severity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.says[evmtx.Canonical(a)] = s
}

// Screen answers from the table.
func (o *opinions) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	severity, ok := o.says[s.Address]
	if !ok {
		return risk.Verdict{}, risk.Unavailable("nobody is there")
	}
	return risk.Verdict{Provider: "OPINIONS", Severity: severity, Known: true, At: time.Now()}, nil
}

// house is the service and a chain of its own, which makes a block when it is told to.
type house struct {
	*testing.T
	*works.Works
	opinions
	ctx      context.Context
	node     *anvil.Node
	db       *pg.DB
	org      string
	treasury wallet.Wallet
	token    common.Address
	plan     works.Plan
	steps    []works.Step
	oracle   *oracle.Chain

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

// open makes a house whose organization has deposits above ten dollars looked at.
// limit is the signer's, of the token; nil: none.
func open(t *testing.T, limit *local.Limit) *house {
	t.Helper()
	h := &house{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.says = map[chain.Address]risk.Severity{}
	h.node = anviltest.Start(t, anvil.Config{Manual: true, SlotsInEpoch: finality / 2})
	code, err := h.node.Deploy(h.ctx, evmtoken.FiatToken)
	h.must(err)
	h.token, err = h.node.Deploy(h.ctx, evmtoken.Proxy, code, h.node.FaucetAddress(),
		evmtoken.FiatToken.Call("initialize", "USD Coin", "USDC", uint8(6), h.node.FaucetAddress()))
	h.must(err)
	mints := []mint.Mint{
		{ID: eth, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18},
		{ID: usdc, Kind: mint.Token, Contract: evmtx.Canonical(h.token), Symbol: "USDC", Name: "USD Coin", Decimals: 6},
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.Finality = chain.Ethereum, chain.Local, "FINALIZED"
		m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw = true, true, money.Units(1), money.Units(1)
	}
	h.mine(finality)
	ch, err := evm.New(h.ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{h.node.URL}, Agree: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	h.must(err)
	h.db = pgtest.NewWithClock(t, h.clock)
	h.must(mint.Sync(h.ctx, h.db, mints))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.must(err)
	h.org = o.ID
	h.thresholds(`"MEDIUM"`, `"10"`)
	policy := local.Policy{Chains: map[chain.Name]local.ChainPolicy{
		signertest.Chain: {SignerID: "31337", FeeMax: signertest.FeeMax, GasMax: signertest.GasMax, Unlimited: true},
	}}
	if limit != nil {
		p := policy.Chains[signertest.Chain]
		p.Assets = map[chain.Address]local.Limit{evmtx.Canonical(h.token): *limit}
		policy.Chains[signertest.Chain] = p
	}
	sign, attest := signertest.Open(t, policy, h.clock)
	h.plan = works.Plan{
		DB: h.db, Chain: ch, Signer: sign, Attest: attest,
		Prices:  price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("3000"), usdc: money.MustParseUSD("1")}, Clock: h.clock},
		Screens: risk.Policy{Providers: &h.opinions, UnknownAs: risk.UnknownHolds, Grace: risk.GraceDefault},
	}
	h.Works = works.Wire(h.plan)
	h.steps = h.Steps(nil)
	h.oracle = oracle.Open(h.node.URL)
	h.must(mirror.Import(h.ctx, h.db, sign, h.Book))
	h.treasury, err = h.Book.Treasury(h.ctx, h.org, chain.EVM)
	h.must(err)
	_, err = h.node.Send(h.ctx, new(raw(h.treasury.Address)), big.NewInt(params.Ether), nil)
	h.must(err)
	h.pass(finality + 1)
	return h
}

func (h *house) thresholds(severity, usd string) {
	h.Helper()
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("trial"), h.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(severity), "screeningUsdThreshold": json.RawMessage(usd),
		})
		return err
	}))
}

func raw(a chain.Address) common.Address { return common.HexToAddress(string(a)) }

func lower(a common.Address) string { return strings.ToLower(a.Hex()) }

func (h *house) mine(blocks int) {
	h.Helper()
	h.must(h.node.Mine(h.ctx, blocks))
}

// stranger is an account with coin and tokens, of which a provider thinks so. The coin
// comes by no transaction, so that what it receives later is ours alone.
func (h *house) stranger(s risk.Severity) *ecdsa.PrivateKey {
	h.Helper()
	key, err := crypto.GenerateKey()
	h.must(err)
	at := crypto.PubkeyToAddress(key.PublicKey)
	h.must(h.node.SetBalance(h.ctx, at, new(big.Int).Mul(big.NewInt(10), big.NewInt(params.Ether))))
	h.act("mint", at, big.NewInt(1_000_000*dollars))
	h.mine(1)
	h.set(at, s)
	return key
}

func address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// act has the owner of the token call it.
func (h *house) act(method string, args ...any) {
	h.Helper()
	_, err := h.node.Send(h.ctx, &h.token, nil, evmtoken.FiatToken.Call(method, args...))
	h.must(err)
}

// pay leaves a payment of somebody's in the pool.
func (h *house) pay(from *ecdsa.PrivateKey, mintID int, to common.Address, units int64) {
	h.Helper()
	at, value, data := to, big.NewInt(units), []byte(nil)
	if mintID == usdc {
		at, value, data = h.token, nil, evmtoken.Token.Call("transfer", to, big.NewInt(units))
	}
	_, err := h.node.SendFrom(h.ctx, from, &at, value, data)
	h.must(err)
}

// through has the parts of the service do what there is to do, up to the one of this name.
func (h *house) through(name string) {
	h.Helper()
	for _, s := range h.steps {
		h.must(s.Do(h.ctx))
		if s.Name == name {
			return
		}
	}
	h.Fatalf("no part of the service is called %s", name)
}

// turn has every part of the service do what there is to do, and checks everything.
func (h *house) turn() {
	h.Helper()
	for _, s := range h.steps {
		if err := s.Do(h.ctx); err != nil {
			h.Fatalf("%s: %v", s.Name, err)
		}
	}
	_, err := h.Flags.Stick(h.ctx)
	h.must(err)
	h.sound()
}

// pass lets so many blocks go by, with a turn before each and one after the last.
func (h *house) pass(blocks int) {
	h.Helper()
	for range blocks {
		h.turn()
		h.mine(1)
		h.later(turn)
	}
	h.turn()
}

func (h *house) settle() { h.Helper(); h.pass(2 * (finality + 2)) }

// until lets blocks go by until a deposit has a status.
func (h *house) until(id, status string) webhook.Deposit {
	h.Helper()
	for range 40 {
		if d := h.deposit(id); d.Status == status {
			return d
		}
		h.pass(1)
	}
	h.Fatalf("deposit %s: got %s, want %s", id, h.deposit(id).Status, status)
	return webhook.Deposit{}
}

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

func (h *house) wallet(customerID string) string {
	h.Helper()
	return h.word(`SELECT wallet_id FROM wallets WHERE subject = $1`, customerID)
}

func (h *house) has(customerID string, mintID int, want int64) {
	h.Helper()
	h.holdsAccount(ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID}, money.Units(uint64(want)))
}

func (h *house) holdsAccount(a ledger.Account, want money.Amount) {
	h.Helper()
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, a)
		if err == nil && got != want {
			h.Errorf("%s %s in mint %d: got %v, want %v", a.Kind, a.Subject, a.MintID, got, want)
		}
		return err
	}))
}

func (h *house) deposits(f deposit.Filter) (items []webhook.Deposit) {
	h.Helper()
	h.must(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, h.org, f, page.Page{})
		items = found.Items
		return err
	}))
	return items
}

func (h *house) deposit(id string) webhook.Deposit {
	h.Helper()
	for _, d := range h.deposits(deposit.Filter{}) {
		if d.DepositID == id {
			return d
		}
	}
	h.Fatalf("there is no deposit %s", id)
	return webhook.Deposit{}
}

// flagged pays in and waits until that is flagged; it is the newest that is.
func (h *house) flagged(from *ecdsa.PrivateKey, mintID int, customerID string, units int64) string {
	h.Helper()
	h.pay(from, mintID, h.customer(customerID), units)
	for range 20 {
		h.pass(1)
		for _, d := range h.deposits(deposit.Filter{Status: "FLAGGED", CustomerID: customerID}) {
			if d.Amount == fmt.Sprint(units) && *d.MintID == mintID {
				return d.DepositID
			}
		}
	}
	h.Fatalf("%d of mint %d to %s is not flagged: %+v", units, mintID, customerID, h.deposits(deposit.Filter{CustomerID: customerID}))
	return ""
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

// told checks the events of a deposit, in their order.
func (h *house) told(id string, want ...string) {
	h.Helper()
	got := h.word(`SELECT coalesce(string_agg(type, ' ' ORDER BY sequence), '') FROM events WHERE resource_id = $1`, id)
	if got != strings.Join(want, " ") {
		h.Errorf("deposit %s: got the events %q, want %q", id, got, want)
	}
}

func (h *house) funds(customerID string, mintID int) (f wallet.Funds) {
	h.Helper()
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.FundsOf(ctx, tx, h.wallet(customerID), mintID)
		return err
	}))
	return f
}

// holds is what an address has on the newest block.
func (h *house) holds(mintID int, a common.Address) *big.Int {
	h.Helper()
	asset := ""
	if mintID == usdc {
		asset = lower(h.token)
	}
	height, err := h.oracle.Walk(h.ctx)
	h.must(err)
	got, err := h.oracle.Holds(h.ctx, asset, lower(a), height)
	h.must(err)
	return got
}

func (h *house) wantHolds(mintID int, a common.Address, want int64) {
	h.Helper()
	if got := h.holds(mintID, a); got.Cmp(big.NewInt(want)) != 0 {
		h.Errorf("%v holds %v of mint %d, want %d", a, got, mintID, want)
	}
}

// sound checks the books against themselves, against the chain, and what the oracle
// sees against both.
func (h *house) sound() {
	h.Helper()
	books, err := verify.Run(h.ctx, h.db)
	h.must(err)
	seen, err := verify.OnChain(h.ctx, h.db, h.Chains)
	h.must(err)
	for _, r := range []verify.Report{books, seen} {
		if !r.OK() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			h.must(err)
			_, words, _ := strings.Cut(b.String(), "BREACH")
			h.Fatalf("the books are not sound: %s", words)
		}
	}
	h.stays()
	h.left()
}

// stays asks of every deposit that nobody has sent away that it is still there.
func (h *house) stays() {
	h.Helper()
	type place struct {
		mint    int
		address string
	}
	flagged := map[place]*big.Int{}
	for _, d := range h.deposits(deposit.Filter{Status: "FLAGGED"}) {
		at := place{*d.MintID, d.Address}
		if flagged[at] == nil {
			flagged[at] = new(big.Int)
		}
		n, ok := new(big.Int).SetString(d.Amount, 10)
		if !ok {
			h.Fatalf("an amount is %q", d.Amount)
		}
		flagged[at].Add(flagged[at], n)
	}
	for at, want := range flagged {
		if got := h.holds(at.mint, common.HexToAddress(at.address)); got.Cmp(want) < 0 {
			h.Fatalf("%s holds %v of mint %d, and %v of it is flagged", at.address, got, at.mint, want)
		}
	}
}

// left compares what went from addresses of ours to strangers with the resolutions: each
// sends at most once, what it says, and nothing else has left.
func (h *house) left() {
	h.Helper()
	_, err := h.oracle.Walk(h.ctx)
	h.must(err)
	ours := map[string]bool{}
	for _, a := range strings.Fields(h.word(`SELECT string_agg(lower(address), ' ') FROM wallets`)) {
		ours[a] = true
	}
	wanted := strings.Fields(h.word(`
		SELECT coalesce(string_agg(lower(m.contract) || '|' || lower(r.to_address) || '|' || r.sent, ' '), '')
		FROM deposit_resolutions r JOIN mints m USING (mint_id) WHERE r.status <> 'FAILED' AND r.sent IS NOT NULL`))
	once := map[string]int{}
	for _, w := range wanted {
		once[w]++
	}
	for _, m := range h.oracle.Left(ours) {
		is := fmt.Sprintf("%s|%s|%v", m.Asset, m.To, m.Amount)
		if once[is]--; once[is] < 0 {
			h.Fatalf("%v of %q went from %s to %s in %s, and no resolution says so", m.Amount, m.Asset, m.From, m.To, m.Tx)
		}
	}
	done := int(h.number(`SELECT count(*) FROM deposit_resolutions WHERE status = 'DONE' AND sent IS NOT NULL`))
	if got := len(h.oracle.Left(ours)); got < done {
		h.Fatalf("%d payments have left, and %d resolutions say that they are done", got, done)
	}
}

func operator() deposit.Decider { return deposit.Decider{Actor: audit.Operator("op_1"), Name: "Olga"} }

func (h *house) organization() deposit.Decider {
	return deposit.Decider{Actor: audit.User("usr_1"), Name: "Uma", OrgID: h.org}
}

func (h *house) wantFault(err error, want fault.Code) {
	h.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != want {
		h.Fatalf("got %v, want %s", err, want)
	}
}
