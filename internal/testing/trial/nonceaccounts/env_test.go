package nonceaccounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	usdc = 1
	sol  = 2

	genesis = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" // of a test network: any value works
	// Blocks after which no transaction can name the earlier one.
	longAgo = 200
)

// testEnv is the service in parts, with a chain that makes blocks when told.
type testEnv struct {
	*testing.T
	ctx       context.Context
	node      *surfpool.Node
	db        *pg.DB
	seed      keys.Seed
	conf      local.Config
	sign      *local.Signer
	chainConf chain.Chain // the chain itself
	org       string
	*harness.Harness
	crashPlan     *crashPlan
	nonceAccounts int
	closeAfter    time.Duration
	prices        map[int]money.USD
	first         uint64 // the first block of the walk
	ann, treasury wallet.Wallet
	customers     []wallet.Wallet
	asked         int
	afterLook     func() // happens once, after the accounts of payees were read

	log bytes.Buffer // of the parts of the service

	mu        sync.Mutex
	clockTime time.Time
}

func newTestEnv(t *testing.T, places int) *testEnv {
	t.Helper()
	return newGrantedEnv(t, places, nil)
}

// newGrantedEnv creates a service like newTestEnv whose signer checks grants, unless the key is nil.
func newGrantedEnv(t *testing.T, places int, grants *signer.GrantKey) *testEnv {
	t.Helper()
	w := &testEnv{
		T: t, ctx: t.Context(), node: surfpooltest.Start(t, surfpool.Config{}), clockTime: time.Now(),
		nonceAccounts: places, crashPlan: &crashPlan{},
		prices: map[int]money.USD{usdc: money.MustParseUSD("1"), sol: money.MustParseUSD("200")},
	}
	w.mustSucceed(w.node.MineBlocks(w.ctx, 2))
	w.first = w.node.CurrentSlot() - 1
	client, err := solana.New(w.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{w.node.URL}, Quorum: 1,
		Mints: map[chain.Address]solana.Mint{surfpool.USDC: {Program: solanatx.TokenProgram, Decimals: 6}},
	})
	w.mustSucceed(err)
	w.chainConf = client.Chain()
	w.db = pgtest.NewWithClock(t, w.readClock)
	w.seed, err = keys.NewSeed()
	w.mustSucceed(err)
	w.conf = local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Clock: w.readClock, Grants: grants, Policy: signpolicy.Policy{
			WhitelistCoolingOff: "0s",
			Chains: map[chain.Name]signpolicy.Chain{chain.Solana: {
				SignerID: genesis, FeeMax: money.Units(10_000_000), GasMax: money.Units(surfpool.LamportsPerSOL),
				Unlimited: true,
			}},
		},
	}
	w.mustSucceed(local.CreateJournal(w.conf, w.seed))
	w.startParts()
	t.Cleanup(func() { w.mustSucceed(w.sign.Close()) })
	w.mustSucceed(journal.Import(w.ctx, w.db, w.sign, w.Wallets))
	token := mint.Mint{
		ID: usdc, Chain: chain.Solana, Network: chain.Local, Kind: mint.Token, Contract: surfpool.USDC, Symbol: "USDC",
		Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		ConfirmationsRequired: surfpool.Finality, Finality: "FINALIZED",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals =
		sol, mint.Native, "", "SOL", "Solana", 9
	w.mustSucceed(mint.Sync(w.ctx, w.db, []mint.Mint{token, native}))
	o, _, err := org.Create(w.ctx, w.db, "Acme")
	w.mustSucceed(err)
	w.org = o.ID
	w.ann = w.newCustomer("ann")
	return w
}

// newCustomer returns the deposit wallet of a new customer.
func (w *testEnv) newCustomer(name string) wallet.Wallet {
	w.Helper()
	w.mustSucceed(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, name, "")
		return err
	}))
	of, err := w.Wallets.Address(w.ctx, signer.WalletRef{
		OrgID: w.org, Family: chain.SolanaFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: name,
	})
	w.mustSucceed(err)
	w.customers = append(w.customers, of)
	return of
}

// startParts creates the parts of the service; a second call is a restart after they died.
func (w *testEnv) startParts() {
	w.Helper()
	if w.sign != nil {
		w.mustSucceed(w.sign.Close())
	}
	var err error
	w.sign, err = local.Open(w.conf, w.seed)
	w.mustSucceed(err)
	w.crashPlan = &crashPlan{}
	c := w.chainConf
	c.Sender, c.NonceAccounts, c.SlotProver = crashingSender{c.Sender, w.crashPlan}, crashingNonceAccounts{
		c.NonceAccounts, w.crashPlan,
	}, crashingProver{c.SlotProver, w.crashPlan}
	c.PayeeAccounts = changingPayees{c.PayeeAccounts, &w.afterLook}
	prices := price.Fixed{Prices: w.prices, Clock: w.readClock}
	w.Harness = harness.New(harness.Config{
		DB: w.db, Chain: c, Start: w.first, Signer: crashingSigner{w.sign, w.crashPlan},
		AttestKey: w.seed.AttestKey().PublicKey(), Prices: prices, Grants: w.conf.Grants,
		Log:      slog.New(slog.NewTextHandler(&w.log, nil)),
		Dispatch: dispatch.Config{ResendAfter: time.Second, RetryAfter: time.Millisecond},
		Sweep:    sweep.Config{NonceAccounts: w.nonceAccounts, CloseAfter: w.closeAfter},
	})
}

func (w *testEnv) readClock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.clockTime }

func (w *testEnv) advanceClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clockTime = w.clockTime.Add(d)
}

func (w *testEnv) mustSucceed(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// runAllSteps runs every part once.
func (w *testEnv) runAllSteps() error {
	for _, step := range w.ListSteps(nil) {
		if err := step.Run(w.ctx); err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return nil
}

func (w *testEnv) mustRunAll() {
	w.Helper()
	w.advanceClock(5 * time.Second)
	w.mustSucceed(w.runAllSteps())
}

func (w *testEnv) mineBlocks(blocks int) {
	w.Helper()
	w.mustSucceed(w.node.MineBlocks(w.ctx, blocks))
}

// settleAll runs the parts and mines blocks until everything under way has ended.
func (w *testEnv) settleAll() {
	w.Helper()
	w.mustRunAll()
	w.mineBlocks(surfpool.Finality + 1)
	w.mustRunAll()
	w.mustRunAll()
}

func (w *testEnv) queryNumber(sql string, args ...any) (n int) {
	w.Helper()
	w.mustSucceed(w.db.ReadSystem(
		w.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) },
	))
	return n
}

func (w *testEnv) queryText(sql string, args ...any) (s string) {
	w.Helper()
	w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce((`+sql+`)::text, '')`, args...).Scan(&s)
	}))
	return s
}

func (w *testEnv) wantText(what, want, sql string, args ...any) {
	w.Helper()
	if got := w.queryText(sql, args...); got != want {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// requestWithdrawal requests a withdrawal of ann's to an address that never received anything.
func (w *testEnv) requestWithdrawal(mintID int, units int64) (withdrawalID string, to chain.Address) {
	w.Helper()
	w.asked++
	k, err := surfpool.NewKey()
	w.mustSucceed(err)
	to = surfpool.AddressOf(k)
	key := fmt.Sprint("withdrawal-", w.asked)
	got, _, err := w.Withdrawals.Request(w.ctx, w.org, withdrawal.Request{
		MintID: mintID, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key,
		Actor: audit.APIKey(w.org),
	})
	w.mustSucceed(err)
	return got.ID, to
}

// chainBalance returns the present balance of an address in a mint, by the chain.
func (w *testEnv) chainBalance(a chain.Address, mintID int) uint64 {
	w.Helper()
	var got struct{ Value uint64 }
	if mintID == sol {
		w.mustSucceed(w.node.RPC.CallContext(
			w.ctx, &got, "getBalance", a, map[string]string{"commitment": "processed"},
		))
		return got.Value
	}
	at, err := solanatx.AssociatedAccount(a, surfpool.USDC, solanatx.TokenProgram)
	w.mustSucceed(err)
	var tokens struct{ Value struct{ Amount money.Amount } }
	if err := w.node.RPC.CallContext(w.ctx, &tokens, "getTokenAccountBalance", at); err != nil &&
		strings.HasSuffix(err.Error(), "not found") {
		return 0
	} else if err != nil {
		w.Fatal(err)
	}
	n, _ := tokens.Value.Amount.Uint64()
	return n
}

// checkBooks compares all books with one another, and with the present state of the chain: nothing
// may be under way.
func (w *testEnv) checkBooks() {
	w.Helper()
	r, err := verify.RunChecks(w.ctx, w.db, verify.WithoutSchema)
	w.mustSucceed(err)
	for _, b := range r.Breaches {
		w.Errorf("got breach %+v, want none", b)
	}
	for _, of := range append(slices.Clone(w.customers), w.treasury) {
		for _, m := range []int{sol, usdc} {
			w.wantText(fmt.Sprintf("mint %d of %s in the books", m, of.Purpose),
				fmt.Sprint(w.chainBalance(of.Address, m)), `
				SELECT coalesce(sum(credited - swept + gas + dust), 0) FROM address_funds WHERE wallet_id = $1 AND mint_id = $2`,
				of.ID, m)
		}
	}
	w.wantText(
		"reserved", "0 0 0", `SELECT concat_ws(' ', sum(reserved), sum(gas_reserved), sum(held)) FROM address_funds`,
	)
}

// crashPlan says at which call to the signer or the chain the service dies, and whether before or
// after it. Nothing that it does afterwards leaves it.
type crashPlan struct {
	mu    sync.Mutex
	calls []string
	at    int    // 0: it survives
	name  string // it dies at the first call of this name; "" for none
	after bool
	dead  bool

	silent bool // what is sent reaches no provider
	lost   bool // what is sent is accepted, and the answer is lost
	mute   bool // the signer does not answer a request to sign
	knows  bool // it dies after it has read the proof of a nonce account
}

var errDead = errors.New("the service has died")

// runCall makes a call, or fails as the plan says.
func (f *crashPlan) runCall(name string, do func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	mine := f.at == len(f.calls) || f.name != "" && f.name == name
	if f.dead || mine && !f.after {
		f.dead = true
		f.mu.Unlock()
		return errDead
	}
	f.mu.Unlock()
	err := do()
	if mine {
		f.mu.Lock()
		f.dead = true
		f.mu.Unlock()
		return errDead
	}
	return err
}

type crashingSigner struct {
	signer.Signer
	*crashPlan
}

func (s crashingSigner) AdmitIntent(ctx context.Context, i signer.Intent) (e signer.Entry, err error) {
	err = s.runCall("admit", func() (err error) { e, err = s.Signer.AdmitIntent(ctx, i); return err })
	return e, err
}

func (s crashingSigner) Sign(ctx context.Context, r signer.SignRequest) (out signer.SignedTx, err error) {
	if s.mute {
		return out, errors.New("the signer does not answer")
	}
	err = s.runCall("sign", func() (err error) { out, err = s.Signer.Sign(ctx, r); return err })
	return out, err
}

type crashingSender struct {
	chain.Sender
	*crashPlan
}

func (s crashingSender) Quote(ctx context.Context, ps ...chain.Payment) (f chain.Fees, err error) {
	err = s.runCall("quote", func() (err error) { f, err = s.Sender.Quote(ctx, ps...); return err })
	return f, err
}

func (s crashingSender) Send(ctx context.Context, raw []byte) (a chain.Answer, said string) {
	switch {
	case s.silent:
		return chain.Unknown, "nobody answers"
	case s.lost:
		s.Sender.Send(ctx, raw)
		return chain.Unknown, "the answer is lost"
	}
	if err := s.runCall("send", func() error { a, said = s.Sender.Send(ctx, raw); return nil }); err != nil {
		return chain.Unknown, err.Error()
	}
	return a, said
}

func (s crashingSender) Outcome(
	ctx context.Context, txs []chain.TxHash, ps ...chain.Payment,
) (o *chain.Outcome, err error) {
	err = s.runCall("outcome", func() (err error) { o, err = s.Sender.Outcome(ctx, txs, ps...); return err })
	return o, err
}

// changingPayees are accounts that change once, after a look.
type changingPayees struct {
	chain.PayeeAccounts
	change *func()
}

func (p changingPayees) CanShare(ctx context.Context, ps []chain.Payment) ([]bool, error) {
	canShare, err := p.PayeeAccounts.CanShare(ctx, ps)
	if change := *p.change; change != nil {
		*p.change = nil
		change()
	}
	return canShare, err
}

type crashingNonceAccounts struct {
	chain.NonceAccounts
	*crashPlan
}

func (p crashingNonceAccounts) Expired(ctx context.Context, txs []chain.TxHash, until uint64) (yes bool, err error) {
	err = p.runCall("lapsed", func() (err error) { yes, err = p.NonceAccounts.Expired(ctx, txs, until); return err })
	return yes, err
}

type crashingProver struct {
	chain.SlotProver
	*crashPlan
}

func (p crashingProver) ProveSlot(
	ctx context.Context, account chain.Address, slotKey string, known ...string,
) (string, error) {
	proof, err := p.SlotProver.ProveSlot(ctx, account, slotKey, known...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.knows && err == nil {
		p.dead = true
	}
	if p.dead {
		return "", errDead
	}
	return proof, err
}

// walletKey returns the key of one of our wallets, which a thief would have.
func (w *testEnv) walletKey(of wallet.Wallet) keys.WalletKey {
	w.Helper()
	k, err := w.seed.DeriveWallet(of.Ref())
	w.mustSucceed(err)
	return k
}

// planSweeps runs the parts that only plan.
func (w *testEnv) planSweeps() error {
	w.advanceClock(5 * time.Second)
	_, err := w.Sweeper.Plan(w.ctx)
	return err
}

// useNonceAccount uses a nonce account of the treasury, as a thief with its key would.
func (w *testEnv) useNonceAccount(at chain.Address, value string) chain.TxHash {
	w.Helper()
	payload, err := solanatx.Tx{Payer: w.treasury.Address, NonceAccount: at, NonceValue: value, Limit: 10_000}.Payload()
	w.mustSucceed(err)
	raw, hash, err := solanatx.AttachSignatures(payload, w.walletKey(w.treasury).SignMessage(payload))
	w.mustSucceed(err)
	_, err = w.node.SendRaw(w.ctx, raw)
	w.mustSucceed(err)
	return hash
}
