// Package forks plays forks on anvil, a real Ethereum node, against everything that moves money:
// deposits that a fork removes, moves or replaces, payments of ours that it removes, and forks
// below finality. An oracle that reads the chain on its own says what is true.
//
// The tests never tell the scan about a fork. A crash leaves a database server and a node that end
// with the test.
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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
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
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	tokenID  = 1 // a token
	nativeID = 2 // native

	confirmations = 64 // blocks that a fork may remove before they are final
	outsiders     = 8
	gasOfPay      = 300_000
	millionUnits  = 1_000_000_000_000 // dollars, in atomic units
)

// forkEnv is the service in parts, with a chain that makes blocks when told.
type forkEnv struct {
	testing.TB
	ctx         context.Context
	node        *anvil.Node
	chainOracle *oracle.Chain
	db          *pg.DB
	sign        signer.Signer
	attest      []byte
	org         string
	*harness.Harness
	token, batch common.Address
	// payers are external accounts. Each one pays once a scene, so that no payment waits for
	// another's nonce when a fork removes it.
	payers       []*ecdsa.PrivateKey
	ann          wallet.Wallet
	eve          wallet.Wallet // in scenes with her
	treasury     wallet.Wallet
	requestCount int // withdrawals so far

	mu        sync.Mutex
	clockTime time.Time
}

// newForkEnv creates a world whose chain is final so many blocks behind its head.
func newForkEnv(t testing.TB, final uint64) *forkEnv {
	t.Helper()
	w := &forkEnv{TB: t, ctx: t.Context(), clockTime: time.Now()}
	node, tokens := anviltest.StartWithTokens(t, anvil.Config{Manual: true})
	w.node, w.chainOracle, w.token = node, oracle.Open(node.URL), tokens.USDC.Address
	var err error
	w.batch, err = node.DeployContract(w.ctx, evmtoken.Batch)
	w.mustSucceed(err)
	rich := new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))
	for range outsiders {
		key, err := crypto.GenerateKey()
		w.mustSucceed(err)
		payer := crypto.PubkeyToAddress(key.PublicKey)
		w.mustSucceed(node.SetBalance(w.ctx, payer, rich))
		_, err = node.SendTx(w.ctx, &w.token, nil, evmtoken.Token.CallData("transfer", payer, big.NewInt(millionUnits)))
		w.mustSucceed(err)
		w.payers = append(w.payers, key)
	}
	w.mineBlocks(1)

	w.db = pgtest.NewWithClock(t, w.readClock)
	w.sign, w.attest = signertest.New(t)
	w.mustSucceed(mirror.ImportJournal(w.ctx, w.db, w.sign, wallet.New(w.db, w.sign, w.attest)))
	token := mint.Mint{
		ID: tokenID, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: evmtx.Canonical(w.token),
		Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		ConfirmationsRequired: confirmations, Finality: "DEPTH",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals =
		nativeID, mint.Native, "", "ETH", "Ether", 18
	w.mustSucceed(mint.Sync(w.ctx, w.db, []mint.Mint{token, native}))
	o, _, err := org.Create(w.ctx, w.db, "Acme")
	w.mustSucceed(err)
	w.org = o.ID
	w.buildHarness(final)
	w.mustSucceed(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, "ann", "")
		return err
	}))
	w.ann, err = w.Wallets.Address(w.ctx, signertest.Deposit(w.org, "ann"))
	w.mustSucceed(err)
	w.treasury, err = w.Wallets.Treasury(w.ctx, w.org, chain.EVM)
	w.mustSucceed(err)
	return w
}

// buildHarness creates the parts of the service, with a chain that is final so many blocks behind
// its head. A second call is a restart with another configuration.
func (w *forkEnv) buildHarness(final uint64) {
	w.Helper()
	c, err := evm.New(w.ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{w.node.URL},
		Quorum:   1,
		Finality: evm.Finality{Depth: final}, FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	w.mustSucceed(err)
	prices := price.Fixed{
		Prices: map[int]money.USD{tokenID: money.MustParseUSD("1"), nativeID: money.MustParseUSD("3000")},
		Clock:  w.readClock,
	}
	w.Harness = harness.New(harness.Config{
		DB: w.db, Chain: c, Signer: w.sign, AttestKey: w.attest, Prices: prices,
	})
}

// newFundedEnv gives ann a million dollars, swept into the treasury, and the treasury gas, as
// payments need. The chain is final two blocks behind until then.
func newFundedEnv(t testing.TB, final uint64) *forkEnv {
	t.Helper()
	w := newForkEnv(t, 2)
	_, err := w.node.SendTx(w.ctx, addressOf(w.treasury.Address), big.NewInt(10*params.Ether/2), nil)
	w.mustSucceed(err)
	_, err = w.node.SendTx(
		w.ctx, &w.token, nil, evmtoken.Token.CallData("transfer", addressOf(w.ann.Address), big.NewInt(millionUnits)),
	)
	w.mustSucceed(err)
	for range 20 {
		w.mineBlocks(1)
		w.runSteps()
	}
	if n := w.queryNumber(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWEEP' AND status = 'PAID'`); n != 1 {
		t.Fatalf("got %d sweeps, want one", n)
	}
	w.mineBlocks(int(final))
	w.buildHarness(final)
	w.runSteps()
	return w
}

func (w *forkEnv) readClock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.clockTime }

func (w *forkEnv) advanceClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clockTime = w.clockTime.Add(d)
}

func (w *forkEnv) mustSucceed(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func addressOf(a chain.Address) *common.Address {
	address := common.HexToAddress(string(a))
	return &address
}

func (w *forkEnv) mineBlocks(blocks int) {
	w.Helper()
	w.mustSucceed(w.node.MineBlocks(w.ctx, blocks))
}

// walkAll walks the new blocks and credits their deposits.
func (w *forkEnv) walkAll() {
	w.Helper()
	w.walkHead()
	w.mustSucceed(w.walkFinal())
	_, err := w.Deposits.CreditWaiting(w.ctx)
	w.mustSucceed(err)
}

func (w *forkEnv) walkHead() {
	w.Helper()
	for moved := true; moved; {
		var err error
		moved, err = w.Walker.StepHead(w.ctx)
		w.mustSucceed(err)
	}
}

func (w *forkEnv) walkFinal() error {
	for {
		if moved, err := w.Walker.StepFinal(w.ctx); err != nil || !moved {
			return err
		}
	}
}

// runSteps runs every part once.
func (w *forkEnv) runSteps() {
	w.Helper()
	for _, step := range w.ListSteps(nil) {
		if err := step.Run(w.ctx); err != nil {
			w.Fatalf("%s: %v", step.Name, err)
		}
	}
}

// signTransaction signs a transaction of an external account and sends it to no node.
func (w *forkEnv) signTransaction(
	key *ecdsa.PrivateKey, nonce uint64, recipient common.Address, value int64, data []byte,
) *types.Transaction {
	return types.MustSignNewTx(key, types.LatestSignerForChainID(w.node.ChainID), &types.DynamicFeeTx{
		ChainID: w.node.ChainID, Nonce: nonce, To: &recipient, Value: big.NewInt(value), Data: data, Gas: gasOfPay,
		GasTipCap: big.NewInt(params.GWei), GasFeeCap: big.NewInt(1000 * params.GWei),
	})
}

func (w *forkEnv) pendingNonce(key *ecdsa.PrivateKey) uint64 {
	w.Helper()
	n, err := w.node.Eth.PendingNonceAt(w.ctx, crypto.PubkeyToAddress(key.PublicKey))
	w.mustSucceed(err)
	return n
}

// sendPayment sends an external account's transaction to the mempool.
func (w *forkEnv) sendPayment(payer int, recipient common.Address, value int64, data []byte) *types.Transaction {
	w.Helper()
	tx := w.signTransaction(w.payers[payer], w.pendingNonce(w.payers[payer]), recipient, value, data)
	w.mustSucceed(w.node.Eth.SendTransaction(w.ctx, tx))
	return tx
}

// transferData returns the call data of a token transfer.
func transferData(recipient common.Address, units int64) []byte {
	return evmtoken.Token.CallData("transfer", recipient, big.NewInt(units))
}

func reorgTransaction(tx *types.Transaction, offset int) anvil.ReorgTx {
	b, err := tx.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return anvil.ReorgTx{Raw: b, Offset: offset}
}

func (w *forkEnv) replaceBlocks(depth int, txs ...anvil.ReorgTx) {
	w.Helper()
	w.mustSucceed(w.node.ReplaceBlocks(w.ctx, depth, txs...))
}

func (w *forkEnv) listDeposits() (found []deposit.Deposit) {
	w.Helper()
	w.mustSucceed(w.db.ReadOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		l, err := deposit.List(ctx, tx, w.org, deposit.Filter{CustomerID: "ann"},
			pagination.Page{Limit: pagination.LimitMax})
		found = l.Items
		return err
	}))
	return found
}

// depositsByTx returns ann's deposits in a transaction.
func (w *forkEnv) depositsByTx(hash common.Hash) (found []deposit.Deposit) {
	w.Helper()
	for _, d := range w.listDeposits() {
		if string(d.TxHash) == hash.Hex() {
			found = append(found, d)
		}
	}
	return found
}

func (w *forkEnv) queryNumber(sql string, args ...any) (n int) {
	w.Helper()
	w.mustSucceed(w.db.ReadSystem(
		w.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) },
	))
	return n
}

// dumpMoney returns every figure of the books in one text: it must not change while nothing may be
// credited or paid.
func (w *forkEnv) dumpMoney() (text string) {
	w.Helper()
	w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce((SELECT string_agg(concat_ws(' ', account_id, balance), ';' ORDER BY account_id) FROM ledger_balances), '')
				|| ' | ' || (SELECT count(*) FROM ledger_transfers)
				|| ' | ' || coalesce((SELECT string_agg(concat_ws(' ', wallet_id, mint_id, credited, swept, gas), ';' ORDER BY wallet_id, mint_id) FROM address_funds), '')`).
			Scan(&text)
	}))
	return text
}

// requestWithdrawal requests a withdrawal of ann's to an address that never received anything.
func (w *forkEnv) requestWithdrawal(units int64) (withdrawalID string, recipient common.Address) {
	w.Helper()
	w.requestCount++
	recipient = common.BytesToAddress(crypto.Keccak256([]byte(fmt.Sprint("payee ", w.requestCount)))[:20])
	key := fmt.Sprint("withdrawal-", w.requestCount)
	got, _, err := w.Withdrawals.Request(w.ctx, w.org, withdrawal.Request{
		MintID: tokenID, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: recipient.Hex(),
		IdempotencyKey: &key, Actor: audit.APIKey(w.org),
	})
	w.mustSucceed(err)
	return got.ID, recipient
}

func (w *forkEnv) loadWithdrawal(id string) withdrawal.Withdrawal {
	w.Helper()
	got, err := w.Withdrawals.ByID(w.ctx, w.org, id)
	w.mustSucceed(err)
	return got
}

// ownAddresses returns the addresses whose keys the signer has, in the oracle's form.
func (w *forkEnv) ownAddresses() map[string]bool {
	addresses := map[string]bool{
		strings.ToLower(string(w.ann.Address)): true, strings.ToLower(string(w.treasury.Address)): true,
	}
	if w.eve.Address != "" {
		addresses[strings.ToLower(string(w.eve.Address))] = true
	}
	return addresses
}

// checkBooks compares the books with themselves and with the balances on the chain, and ann's
// deposits with the arrivals that the oracle saw. Nothing may be under way on the chain.
func (w *forkEnv) checkBooks() {
	w.Helper()
	r, err := verify.RunChecks(w.ctx, w.db, verify.WithoutSchema)
	w.mustSucceed(err)
	c, err := verify.CompareWithChains(w.ctx, w.db, w.Chains)
	w.mustSucceed(err)
	for _, r := range []verify.Report{r, c} {
		if !r.IsIntact() {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			w.mustSucceed(err)
			w.Errorf("the books do not agree:\n%s", b.String())
		}
	}
	_, err = w.chainOracle.Walk(w.ctx)
	w.mustSucceed(err)
	want := map[string]int{}
	for _, asset := range []common.Address{w.token, {}} {
		name := ""
		if asset != (common.Address{}) {
			name = strings.ToLower(asset.Hex())
		}
		for _, m := range w.chainOracle.ReceivedBy(name, strings.ToLower(string(w.ann.Address))) {
			if !w.ownAddresses()[m.From] {
				want[fmt.Sprint(m.Tx, " ", m.Block, " ", m.Amount)]++
			}
		}
	}
	for _, d := range w.listDeposits() {
		if d.Status != "CREDITED" {
			continue
		}
		credit := fmt.Sprint(strings.ToLower(string(d.TxHash)), " ", d.BlockNumber, " ", d.Amount)
		if want[credit]--; want[credit] < 0 {
			w.Errorf("credited %s: the chain does not have it, or not so often", credit)
		}
	}
	for credit, n := range want {
		if n > 0 {
			w.Errorf("%s arrived and was not credited", credit)
		}
	}
}

// checkOracle compares every withdrawal with the payments that the oracle saw.
func (w *forkEnv) checkOracle() {
	w.Helper()
	_, err := w.chainOracle.Walk(w.ctx)
	w.mustSucceed(err)
	var claims []oracle.Claim
	w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(
			ctx,
			`SELECT order_id, to_address, amount::text, status, coalesce(tx_hash, '') FROM dispatch_orders WHERE purpose = 'PAYMENT' ORDER BY order_id`,
		)
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
	for _, wrong := range w.chainOracle.Judge(claims, w.ownAddresses()) {
		w.Error(wrong)
	}
}
