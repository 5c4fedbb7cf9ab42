package flagged

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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
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
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	eth      = 1
	usdc     = 2
	finality = 2 // blocks from the latest to the final one
	turn     = 5 * time.Second
	dollars  = 1_000_000 // units of the token
)

// fakeScreener returns the verdicts that a test sets; about any other address it does not answer.
type fakeScreener struct {
	mu         sync.Mutex
	severities map[chain.Address]risk.Severity
}

func (o *fakeScreener) Name() string           { return "OPINIONS" }
func (o *fakeScreener) Covers(chain.Name) bool { return true }

func (o *fakeScreener) setSeverity(a common.Address, s risk.Severity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.severities[evmtx.Canonical(a)] = s
}

// Screen answers from the table.
func (o *fakeScreener) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	severity, ok := o.severities[s.Address]
	if !ok {
		return risk.Verdict{}, risk.Unavailable("nobody is there")
	}
	return risk.Verdict{Provider: "OPINIONS", Severity: severity, IsKnown: true, GivenAt: time.Now()}, nil
}

// testEnv is the service and its own chain, which makes a block when a test tells it to.
type testEnv struct {
	*testing.T
	*harness.Harness
	fakeScreener
	ctx      context.Context
	node     *anvil.Node
	db       *pg.DB
	org      string
	treasury wallet.Wallet
	token    common.Address
	plan     harness.Config
	steps    []harness.Step
	oracle   *oracle.Chain

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

// newTestEnv creates a service whose organization screens deposits above ten dollars. limit is the
// signer's limit of the token; nil: none.
func newTestEnv(t *testing.T, limit *local.Limit) *testEnv {
	t.Helper()
	h := &testEnv{T: t, ctx: t.Context(), clockTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.severities = map[chain.Address]risk.Severity{}
	h.node = anviltest.Start(t, anvil.Config{Manual: true, SlotsInEpoch: finality / 2})
	code, err := h.node.DeployContract(h.ctx, evmtoken.FiatToken)
	h.mustSucceed(err)
	h.token, err = h.node.DeployContract(h.ctx, evmtoken.Proxy, code, h.node.FaucetAddress(),
		evmtoken.FiatToken.CallData("initialize", "USD Coin", "USDC", uint8(6), h.node.FaucetAddress()))
	h.mustSucceed(err)
	mints := []mint.Mint{
		{ID: eth, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18},
		{ID: usdc, Kind: mint.Token, Contract: evmtx.Canonical(h.token), Symbol: "USDC", Name: "USD Coin", Decimals: 6},
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.Finality = chain.Ethereum, chain.Local, "FINALIZED"
		m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw = true, true, money.Units(1), money.Units(1)
	}
	h.mineBlocks(finality)
	ch, err := evm.New(h.ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{h.node.URL},
		Quorum: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	h.mustSucceed(err)
	h.db = pgtest.NewWithClock(t, h.readClock)
	h.mustSucceed(mint.Sync(h.ctx, h.db, mints))
	o, _, err := org.Create(h.ctx, h.db, "Acme")
	h.mustSucceed(err)
	h.org = o.ID
	h.setThresholds(`"MEDIUM"`, `"10"`)
	policy := local.Policy{Chains: map[chain.Name]local.ChainPolicy{
		signertest.Chain: {SignerID: "31337", FeeMax: signertest.FeeMax, GasMax: signertest.GasMax, Unlimited: true},
	}}
	if limit != nil {
		p := policy.Chains[signertest.Chain]
		p.Assets = map[chain.Address]local.Limit{evmtx.Canonical(h.token): *limit}
		policy.Chains[signertest.Chain] = p
	}
	sign, attest := signertest.Open(t, policy, h.readClock)
	h.plan = harness.Config{
		DB: h.db, Chain: ch, Signer: sign, AttestKey: attest,
		Prices: price.Fixed{
			Prices: map[int]money.USD{eth: money.MustParseUSD("3000"), usdc: money.MustParseUSD("1")},
			Clock:  h.readClock,
		},
		RiskPolicy: risk.Policy{
			Providers: &h.fakeScreener, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault,
		},
	}
	h.Harness = harness.New(h.plan)
	h.steps = h.ListSteps(nil)
	h.oracle = oracle.Open(h.node.URL)
	h.mustSucceed(mirror.ImportJournal(h.ctx, h.db, sign, h.Wallets))
	h.treasury, err = h.Wallets.Treasury(h.ctx, h.org, chain.EVM)
	h.mustSucceed(err)
	_, err = h.node.SendTx(h.ctx, new(evmAddress(h.treasury.Address)), big.NewInt(params.Ether), nil)
	h.mustSucceed(err)
	h.passBlocks(finality + 1)
	return h
}

func (h *testEnv) setThresholds(severity, usd string) {
	h.Helper()
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("trial"), h.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(severity), "screeningUsdThreshold": json.RawMessage(usd),
		})
		return err
	}))
}

func evmAddress(a chain.Address) common.Address { return common.HexToAddress(string(a)) }

func lowerHex(a common.Address) string { return strings.ToLower(a.Hex()) }

func (h *testEnv) mineBlocks(blocks int) {
	h.Helper()
	h.mustSucceed(h.node.MineBlocks(h.ctx, blocks))
}

// newStranger creates an external account with coin and tokens and a severity. The coin arrives
// without a transaction, so that later payments to the account come from us alone.
func (h *testEnv) newStranger(s risk.Severity) *ecdsa.PrivateKey {
	h.Helper()
	key, err := crypto.GenerateKey()
	h.mustSucceed(err)
	at := crypto.PubkeyToAddress(key.PublicKey)
	h.mustSucceed(h.node.SetBalance(h.ctx, at, new(big.Int).Mul(big.NewInt(10), big.NewInt(params.Ether))))
	h.callToken("mint", at, big.NewInt(1_000_000*dollars))
	h.mineBlocks(1)
	h.setSeverity(at, s)
	return key
}

func keyAddress(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// callToken calls the token as its owner.
func (h *testEnv) callToken(method string, args ...any) {
	h.Helper()
	_, err := h.node.SendTx(h.ctx, &h.token, nil, evmtoken.FiatToken.CallData(method, args...))
	h.mustSucceed(err)
}

// sendPayment leaves a payment of an external account in the mempool.
func (h *testEnv) sendPayment(from *ecdsa.PrivateKey, mintID int, to common.Address, units int64) {
	h.Helper()
	at, value, data := to, big.NewInt(units), []byte(nil)
	if mintID == usdc {
		at, value, data = h.token, nil, evmtoken.Token.CallData("transfer", to, big.NewInt(units))
	}
	_, err := h.node.SendTxFrom(h.ctx, from, &at, value, data)
	h.mustSucceed(err)
}

// runStepsUpTo runs the parts of the service in order, up to the one with this name.
func (h *testEnv) runStepsUpTo(name string) {
	h.Helper()
	for _, s := range h.steps {
		h.mustSucceed(s.Run(h.ctx))
		if s.Name == name {
			return
		}
	}
	h.Fatalf("no part of the service is called %s", name)
}

// runAllSteps runs every part of the service, and checks everything.
func (h *testEnv) runAllSteps() {
	h.Helper()
	for _, s := range h.steps {
		if err := s.Run(h.ctx); err != nil {
			h.Fatalf("%s: %v", s.Name, err)
		}
	}
	_, err := h.Deposits.MarkOverdueStuck(h.ctx)
	h.mustSucceed(err)
	h.checkBooks()
}

// passBlocks mines so many blocks, and runs the service before each and after the last.
func (h *testEnv) passBlocks(blocks int) {
	h.Helper()
	for range blocks {
		h.runAllSteps()
		h.mineBlocks(1)
		h.advanceClock(turn)
	}
	h.runAllSteps()
}

func (h *testEnv) settleAll() { h.Helper(); h.passBlocks(2 * (finality + 2)) }

// waitStatus mines blocks until a deposit has a status.
func (h *testEnv) waitStatus(id, status string) webhook.Deposit {
	h.Helper()
	for range 40 {
		if d := h.loadDeposit(id); d.Status == status {
			return d
		}
		h.passBlocks(1)
	}
	h.Fatalf("deposit %s: got %s, want %s", id, h.loadDeposit(id).Status, status)
	return webhook.Deposit{}
}

func (h *testEnv) customerAddress(id string) common.Address {
	h.Helper()
	h.mustSucceed(h.db.InOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, id, "")
		return err
	}))
	w, err := h.Wallets.Address(h.ctx, signertest.Deposit(h.org, id))
	h.mustSucceed(err)
	return evmAddress(w.Address)
}

func (h *testEnv) walletID(customerID string) string {
	h.Helper()
	return h.queryText(`SELECT wallet_id FROM wallets WHERE subject = $1`, customerID)
}

func (h *testEnv) wantBalance(customerID string, mintID int, want int64) {
	h.Helper()
	h.holdsAccount(
		ledger.Account{OrgID: h.org, MintID: mintID, Kind: ledger.Customer, Subject: customerID},
		money.Units(uint64(want)),
	)
}

func (h *testEnv) holdsAccount(a ledger.Account, want money.Amount) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, a)
		if err == nil && got != want {
			h.Errorf("%s %s in mint %d: got %v, want %v", a.Kind, a.Subject, a.MintID, got, want)
		}
		return err
	}))
}

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

func (h *testEnv) loadDeposit(id string) webhook.Deposit {
	h.Helper()
	for _, d := range h.listDeposits(deposit.Filter{}) {
		if d.DepositID == id {
			return d
		}
	}
	h.Fatalf("there is no deposit %s", id)
	return webhook.Deposit{}
}

// flagDeposit makes a deposit and waits until it is flagged. It returns the newest flagged deposit.
func (h *testEnv) flagDeposit(from *ecdsa.PrivateKey, mintID int, customerID string, units int64) string {
	h.Helper()
	h.sendPayment(from, mintID, h.customerAddress(customerID), units)
	for range 20 {
		h.passBlocks(1)
		for _, d := range h.listDeposits(deposit.Filter{Status: "FLAGGED", CustomerID: customerID}) {
			if d.Amount == fmt.Sprint(units) && *d.MintID == mintID {
				return d.DepositID
			}
		}
	}
	h.Fatalf(
		"%d of mint %d to %s is not flagged: %+v", units, mintID, customerID,
		h.listDeposits(deposit.Filter{CustomerID: customerID}),
	)
	return ""
}

func (h *testEnv) queryNumber(sql string, args ...any) (n int64) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(
		h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) },
	))
	return n
}

func (h *testEnv) queryText(sql string, args ...any) (s string) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(
		h.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&s) },
	))
	return s
}

// wantEvents checks the events of a deposit, in their order.
func (h *testEnv) wantEvents(id string, want ...string) {
	h.Helper()
	got := h.queryText(
		`SELECT coalesce(string_agg(type, ' ' ORDER BY sequence), '') FROM events WHERE resource_id = $1`, id,
	)
	if got != strings.Join(want, " ") {
		h.Errorf("deposit %s: got the events %q, want %q", id, got, want)
	}
}

func (h *testEnv) loadFunds(customerID string, mintID int) (f wallet.Funds) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = wallet.LoadFunds(ctx, tx, h.walletID(customerID), mintID)
		return err
	}))
	return f
}

// chainBalance returns the balance of an address at the newest block.
func (h *testEnv) chainBalance(mintID int, a common.Address) *big.Int {
	h.Helper()
	asset := ""
	if mintID == usdc {
		asset = lowerHex(h.token)
	}
	height, err := h.oracle.Walk(h.ctx)
	h.mustSucceed(err)
	got, err := h.oracle.Holds(h.ctx, asset, lowerHex(a), height)
	h.mustSucceed(err)
	return got
}

func (h *testEnv) wantHolds(mintID int, a common.Address, want int64) {
	h.Helper()
	if got := h.chainBalance(mintID, a); got.Cmp(big.NewInt(want)) != 0 {
		h.Errorf("%v holds %v of mint %d, want %d", a, got, mintID, want)
	}
}

// checkBooks checks the books against themselves and against the chain, and the oracle's view
// against both.
func (h *testEnv) checkBooks() {
	h.Helper()
	books, err := verify.RunChecks(h.ctx, h.db, verify.WithoutSchema)
	h.mustSucceed(err)
	seen, err := verify.CompareWithChains(h.ctx, h.db, h.Chains)
	h.mustSucceed(err)
	for _, r := range []verify.Report{books, seen} {
		if !r.IsIntact() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			h.mustSucceed(err)
			_, words, _ := strings.Cut(b.String(), "BREACH")
			h.Fatalf("the books are not sound: %s", words)
		}
	}
	h.wantFlaggedKept()
	h.compareOutflows()
}

// wantFlaggedKept checks that every deposit without a decision to send it is still at its address.
func (h *testEnv) wantFlaggedKept() {
	h.Helper()
	type place struct {
		mint    int
		address string
	}
	flagged := map[place]*big.Int{}
	for _, d := range h.listDeposits(deposit.Filter{Status: "FLAGGED"}) {
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
		if got := h.chainBalance(at.mint, common.HexToAddress(at.address)); got.Cmp(want) < 0 {
			h.Fatalf("%s holds %v of mint %d, and %v of it is flagged", at.address, got, at.mint, want)
		}
	}
}

// compareOutflows compares the payments from our addresses to external ones with the resolutions:
// each sends at most once, what it says, and nothing else has left.
func (h *testEnv) compareOutflows() {
	h.Helper()
	_, err := h.oracle.Walk(h.ctx)
	h.mustSucceed(err)
	ours := map[string]bool{}
	for _, a := range strings.Fields(h.queryText(`SELECT string_agg(lower(address), ' ') FROM wallets`)) {
		ours[a] = true
	}
	wanted := strings.Fields(h.queryText(`
		SELECT coalesce(string_agg(lower(m.contract) || '|' || lower(r.to_address) || '|' || r.sent, ' '), '')
		FROM deposit_resolutions r JOIN mints m USING (mint_id) WHERE r.status <> 'FAILED' AND r.sent IS NOT NULL`))
	once := map[string]int{}
	for _, w := range wanted {
		once[w]++
	}
	for _, m := range h.oracle.MovedOut(ours) {
		is := fmt.Sprintf("%s|%s|%v", m.Asset, m.To, m.Amount)
		if once[is]--; once[is] < 0 {
			h.Fatalf(
				"%v of %q went from %s to %s in %s, and no resolution says so", m.Amount, m.Asset, m.From, m.To, m.Tx,
			)
		}
	}
	done := int(h.queryNumber(`SELECT count(*) FROM deposit_resolutions WHERE status = 'DONE' AND sent IS NOT NULL`))
	if got := len(h.oracle.MovedOut(ours)); got < done {
		h.Fatalf("%d payments have left, and %d resolutions say that they are done", got, done)
	}
}

func operatorDecider() deposit.Actor {
	return deposit.Actor{Actor: audit.Operator("op_1"), Name: "Olga"}
}

func (h *testEnv) organizationDecider() deposit.Actor {
	return deposit.Actor{Actor: audit.User("usr_1"), Name: "Uma", OrgID: h.org}
}

func (h *testEnv) wantFault(err error, want fault.Code) {
	h.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != want {
		h.Fatalf("got %v, want %s", err, want)
	}
}
