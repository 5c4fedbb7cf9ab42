// Package forks plays forks on anvil, a real Ethereum node, against everything
// that moves money: deposits that a fork removes, moves or replaces, payments of
// ours that it takes back, and forks below what was final. An oracle that reads
// the chain on its own says what is true.
//
// What never happens here: a fork that the scan is told of. A crash leaves a
// database server and a node that end with the test.
package forks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
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
	"github.com/cofferpay/coffer/internal/trial/oracle"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	dollar = 1 // a token
	coin   = 2 // native

	deepest   = 64 // blocks that a fork may take away before they are final
	outsiders = 8
	gasOfPay  = 300_000
	million   = 1_000_000_000_000 // dollars, in atomic units
)

// world is the service in parts beside a chain that makes blocks when told.
type world struct {
	testing.TB
	ctx    context.Context
	node   *anvil.Node
	truth  *oracle.Chain
	db     *pg.DB
	sign   signer.Signer
	attest []byte
	org    string
	*works.Works
	token, batch common.Address
	// payers are strangers. Each one pays once a scene, so that no payment of one
	// waits for another's nonce when a fork takes it away.
	payers   []*ecdsa.PrivateKey
	ann      wallet.Wallet
	eve      wallet.Wallet // of the scenes that have her
	treasury wallet.Wallet
	asked    int // withdrawals so far

	mu  sync.Mutex
	now time.Time
}

// open makes a world whose chain is final so many blocks behind its head.
func open(t testing.TB, final uint64) *world {
	t.Helper()
	w := &world{TB: t, ctx: t.Context(), now: time.Now()}
	node, tokens := anviltest.Tokens(t, anvil.Config{Manual: true})
	w.node, w.truth, w.token = node, oracle.Open(node.URL), tokens.USDC.Address
	var err error
	w.batch, err = node.Deploy(w.ctx, evmtoken.Batch)
	w.must(err)
	rich := new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))
	for range outsiders {
		key, err := crypto.GenerateKey()
		w.must(err)
		who := crypto.PubkeyToAddress(key.PublicKey)
		w.must(node.SetBalance(w.ctx, who, rich))
		_, err = node.Send(w.ctx, &w.token, nil, evmtoken.Token.Call("transfer", who, big.NewInt(million)))
		w.must(err)
		w.payers = append(w.payers, key)
	}
	w.mine(1)

	w.db = pgtest.NewWithClock(t, w.clock)
	w.sign, w.attest = signertest.New(t)
	w.must(mirror.Import(w.ctx, w.db, w.sign, wallet.New(w.db, w.sign, w.attest)))
	token := mint.Mint{
		ID: dollar, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: evmtx.Canonical(w.token), Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), ConfirmationsRequired: deepest, Finality: "DEPTH",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = coin, mint.Native, "", "ETH", "Ether", 18
	w.must(mint.Sync(w.ctx, w.db, []mint.Mint{token, native}))
	o, _, err := org.Create(w.ctx, w.db, "Acme")
	w.must(err)
	w.org = o.ID
	w.wire(final)
	w.must(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, "ann", "")
		return err
	}))
	w.ann, err = w.Book.Address(w.ctx, signertest.Deposit(w.org, "ann"))
	w.must(err)
	w.treasury, err = w.Book.Treasury(w.ctx, w.org, chain.EVM)
	w.must(err)
	return w
}

// wire makes the parts of the service, with a chain that is final so many blocks
// behind its head. Doing so again is a restart with another configuration.
func (w *world) wire(final uint64) {
	w.Helper()
	c, err := evm.New(w.ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{w.node.URL}, Agree: 1,
		Finality: evm.Finality{Depth: final}, FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	w.must(err)
	prices := price.Fixed{Prices: map[int]money.USD{dollar: money.MustParseUSD("1"), coin: money.MustParseUSD("3000")}, Clock: w.clock}
	w.Works = works.Wire(works.Plan{DB: w.db, Chain: c, Signer: w.sign, Attest: w.attest, Prices: prices})
}

// furnish gives ann a million dollars, swept into the treasury, and the treasury
// gas: what payments need. The chain is final two blocks behind until then.
func furnish(t testing.TB, final uint64) *world {
	t.Helper()
	w := open(t, 2)
	_, err := w.node.Send(w.ctx, at(w.treasury.Address), big.NewInt(10*params.Ether/2), nil)
	w.must(err)
	_, err = w.node.Send(w.ctx, &w.token, nil, evmtoken.Token.Call("transfer", at(w.ann.Address), big.NewInt(million)))
	w.must(err)
	for range 20 {
		w.mine(1)
		w.work()
	}
	if n := w.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'PAID'`); n != 1 {
		t.Fatalf("got %d sweeps, want one", n)
	}
	w.mine(int(final))
	w.wire(final)
	w.work()
	return w
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) pass(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.now = w.now.Add(d) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func at(a chain.Address) *common.Address {
	address := common.HexToAddress(string(a))
	return &address
}

func (w *world) mine(blocks int) {
	w.Helper()
	w.must(w.node.Mine(w.ctx, blocks))
}

// walk takes in what is new and credits it.
func (w *world) walk() {
	w.Helper()
	w.head()
	w.must(w.final())
	_, err := w.Deposits.Credit(w.ctx)
	w.must(err)
}

func (w *world) head() {
	w.Helper()
	for moved := true; moved; {
		var err error
		moved, err = w.Walk.Head(w.ctx)
		w.must(err)
	}
}

func (w *world) final() error {
	for {
		if moved, err := w.Walk.Final(w.ctx); err != nil || !moved {
			return err
		}
	}
}

// work is a turn of every part.
func (w *world) work() {
	w.Helper()
	for _, step := range w.Steps(nil) {
		if err := step.Do(w.ctx); err != nil {
			w.Fatalf("%s: %v", step.Name, err)
		}
	}
}

// signed is a transaction of a stranger that nobody has seen.
func (w *world) signed(key *ecdsa.PrivateKey, nonce uint64, to common.Address, value int64, data []byte) *types.Transaction {
	return types.MustSignNewTx(key, types.LatestSignerForChainID(w.node.ChainID), &types.DynamicFeeTx{
		ChainID: w.node.ChainID, Nonce: nonce, To: &to, Value: big.NewInt(value), Data: data, Gas: gasOfPay,
		GasTipCap: big.NewInt(params.GWei), GasFeeCap: big.NewInt(1000 * params.GWei),
	})
}

func (w *world) nonce(key *ecdsa.PrivateKey) uint64 {
	w.Helper()
	n, err := w.node.Eth.PendingNonceAt(w.ctx, crypto.PubkeyToAddress(key.PublicKey))
	w.must(err)
	return n
}

// pay puts a stranger's transaction into the pool.
func (w *world) pay(payer int, to common.Address, value int64, data []byte) *types.Transaction {
	w.Helper()
	tx := w.signed(w.payers[payer], w.nonce(w.payers[payer]), to, value, data)
	w.must(w.node.Eth.SendTransaction(w.ctx, tx))
	return tx
}

// dollars is the call that moves tokens.
func dollars(to common.Address, units int64) []byte {
	return evmtoken.Token.Call("transfer", to, big.NewInt(units))
}

func raw(tx *types.Transaction, offset int) anvil.ReorgTx {
	b, err := tx.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return anvil.ReorgTx{Raw: b, Offset: offset}
}

func (w *world) reorg(depth int, txs ...anvil.ReorgTx) {
	w.Helper()
	w.must(w.node.Reorg(w.ctx, depth, txs...))
}

func (w *world) deposits() (found []webhook.Deposit) {
	w.Helper()
	w.must(w.db.ReadOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		l, err := deposit.List(ctx, tx, w.org, deposit.Filter{CustomerID: "ann"}, page.Page{Limit: page.LimitMax})
		found = l.Items
		return err
	}))
	return found
}

// of are ann's deposits by a transaction.
func (w *world) of(hash common.Hash) (found []webhook.Deposit) {
	w.Helper()
	for _, d := range w.deposits() {
		if d.TxHash == hash.Hex() {
			found = append(found, d)
		}
	}
	return found
}

func (w *world) number(sql string, args ...any) (n int) {
	w.Helper()
	w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) }))
	return n
}

// money is every figure of the books in one text: what may not change while
// nothing may be credited or paid.
func (w *world) money() (text string) {
	w.Helper()
	w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce((SELECT string_agg(concat_ws(' ', account_id, balance), ';' ORDER BY account_id) FROM ledger_balances), '')
				|| ' | ' || (SELECT count(*) FROM ledger_transfers)
				|| ' | ' || coalesce((SELECT string_agg(concat_ws(' ', wallet_id, mint_id, credited, swept, gas), ';' ORDER BY wallet_id, mint_id) FROM address_funds), '')`).
			Scan(&text)
	}))
	return text
}

// ask makes a withdrawal of ann's to an address that nothing was ever sent to.
func (w *world) ask(units int64) (withdrawalID string, to common.Address) {
	w.Helper()
	w.asked++
	to = common.BytesToAddress(crypto.Keccak256([]byte(fmt.Sprint("payee ", w.asked)))[:20])
	key := fmt.Sprint("withdrawal-", w.asked)
	got, _, err := w.Pay.Request(w.ctx, w.org, withdrawal.Request{
		MintID: dollar, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: to.Hex(), IdempotencyKey: &key, Actor: audit.APIKey(w.org),
	})
	w.must(err)
	return got.WithdrawalID, to
}

func (w *world) withdrawal(id string) webhook.Withdrawal {
	w.Helper()
	got, err := w.Pay.ByID(w.ctx, w.org, id)
	w.must(err)
	return got
}

// ours are the addresses whose keys the signer holds, as the oracle writes them.
func (w *world) ours() map[string]bool {
	all := map[string]bool{strings.ToLower(string(w.ann.Address)): true, strings.ToLower(string(w.treasury.Address)): true}
	if w.eve.Address != "" {
		all[strings.ToLower(string(w.eve.Address))] = true
	}
	return all
}

// agree compares the books with themselves, with the balances of the chain, and
// ann's deposits with what the oracle saw arrive. The chain has to be at rest.
func (w *world) agree() {
	w.Helper()
	r, err := verify.Run(w.ctx, w.db)
	w.must(err)
	c, err := verify.OnChain(w.ctx, w.db, w.Chains)
	w.must(err)
	for _, r := range []verify.Report{r, c} {
		if !r.OK() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			w.must(err)
			w.Errorf("the books do not agree:\n%s", b.String())
		}
	}
	_, err = w.truth.Walk(w.ctx)
	w.must(err)
	want := map[string]int{}
	for _, asset := range []common.Address{w.token, {}} {
		name := ""
		if asset != (common.Address{}) {
			name = strings.ToLower(asset.Hex())
		}
		for _, m := range w.truth.Received(name, strings.ToLower(string(w.ann.Address))) {
			if !w.ours()[m.From] {
				want[fmt.Sprint(m.Tx, " ", m.Block, " ", m.Amount)]++
			}
		}
	}
	for _, d := range w.deposits() {
		if d.Status != "CREDITED" {
			continue
		}
		what := fmt.Sprint(strings.ToLower(d.TxHash), " ", *d.BlockNumber, " ", d.Amount)
		if want[what]--; want[what] < 0 {
			w.Errorf("credited %s: the chain does not have it, or not so often", what)
		}
	}
	for what, n := range want {
		if n > 0 {
			w.Errorf("%s arrived and was not credited", what)
		}
	}
}

// judge compares every withdrawal with what the oracle saw leave.
func (w *world) judge() {
	w.Helper()
	_, err := w.truth.Walk(w.ctx)
	w.must(err)
	var claims []oracle.Claim
	w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT order_id, to_address, amount::text, status, coalesce(tx_hash, '') FROM dispatch_orders WHERE purpose = 'PAYMENT' ORDER BY order_id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c := oracle.Claim{Asset: strings.ToLower(w.token.Hex())}
			var amount, status string
			if err := rows.Scan(&c.ID, &c.To, &amount, &status, &c.Tx); err != nil {
				return err
			}
			c.Amount, _ = new(big.Int).SetString(amount, 10)
			c.Paid = status == "PAID"
			claims = append(claims, c)
		}
		return rows.Err()
	}))
	for _, wrong := range w.truth.Judge(claims, w.ours()) {
		w.Error(wrong)
	}
}
