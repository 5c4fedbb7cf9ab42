package leases

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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	usdc = 1
	sol  = 2

	genesis = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" // of a test network: any will do
	longAgo = 200                                            // blocks after which nothing can name the one before
)

// world is the service in parts beside a chain that makes blocks when told.
type world struct {
	*testing.T
	ctx  context.Context
	node *surfpool.Node
	db   *pg.DB
	seed keys.Seed
	conf local.Config
	sign *local.Signer
	far  chain.Chain // the chain itself
	org  string
	*works.Works
	fate          *fate
	places        int
	closeAfter    time.Duration
	first         uint64 // the block that the walk begins at
	ann, treasury wallet.Wallet
	customers     []wallet.Wallet
	asked         int

	log bytes.Buffer // of the parts of the service

	mu  sync.Mutex
	now time.Time
}

func open(t *testing.T, places int) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), node: surfpooltest.Start(t, surfpool.Config{}), now: time.Now(), places: places, fate: &fate{}}
	w.must(w.node.Mine(w.ctx, 2))
	w.first = w.node.Slot() - 1
	client, err := solana.New(w.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{w.node.URL}, Agree: 1,
		Mints: map[chain.Address]solana.Mint{surfpool.USDC: {Program: solanatx.TokenProgram, Decimals: 6}},
	})
	w.must(err)
	w.far = client.Chain()
	w.db = pgtest.NewWithClock(t, w.clock)
	w.seed, err = keys.NewSeed()
	w.must(err)
	w.conf = local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Clock: w.clock, Policy: local.Policy{
		WhitelistCoolingOff: "0s",
		Chains: map[chain.Name]local.ChainPolicy{chain.Solana: {
			SignerID: genesis, FeeMax: money.Units(10_000_000), GasMax: money.Units(surfpool.LamportsPerSOL), Unlimited: true,
		}},
	}}
	w.must(local.Create(w.conf, w.seed))
	w.start()
	t.Cleanup(func() { w.must(w.sign.Close()) })
	w.must(mirror.Import(w.ctx, w.db, w.sign, w.Book))
	token := mint.Mint{
		ID: usdc, Chain: chain.Solana, Network: chain.Local, Kind: mint.Token, Contract: surfpool.USDC, Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), ConfirmationsRequired: surfpool.Finality, Finality: "FINALIZED",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = sol, mint.Native, "", "SOL", "Solana", 9
	w.must(mint.Sync(w.ctx, w.db, []mint.Mint{token, native}))
	o, _, err := org.Create(w.ctx, w.db, "Acme")
	w.must(err)
	w.org = o.ID
	w.ann = w.customer("ann")
	return w
}

// customer is a new one's deposit wallet.
func (w *world) customer(name string) wallet.Wallet {
	w.Helper()
	w.must(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, name, "")
		return err
	}))
	of, err := w.Book.Address(w.ctx, signer.WalletRef{OrgID: w.org, Family: chain.SolanaFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: name})
	w.must(err)
	w.customers = append(w.customers, of)
	return of
}

// start makes the parts of the service; again it is a restart after they died.
func (w *world) start() {
	w.Helper()
	if w.sign != nil {
		w.must(w.sign.Close())
	}
	var err error
	w.sign, err = local.Open(w.conf, w.seed)
	w.must(err)
	w.fate = &fate{}
	c := w.far
	c.Sender, c.Places, c.Proofs = mortalSender{c.Sender, w.fate}, mortalPlaces{c.Places, w.fate}, mortalProofs{c.Proofs, w.fate}
	prices := price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), sol: money.MustParseUSD("200")}, Clock: w.clock}
	w.Works = works.Wire(works.Plan{
		DB: w.db, Chain: c, Start: w.first, Signer: mortalSigner{w.sign, w.fate}, Attest: w.seed.Attest().Public(), Prices: prices,
		Log:      slog.New(slog.NewTextHandler(&w.log, nil)),
		Dispatch: dispatch.Config{ResendAfter: time.Second, RetryAfter: time.Millisecond}, Sweep: sweep.Config{Places: w.places, CloseAfter: w.closeAfter},
	})
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) pass(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.now = w.now.Add(d) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// turn is one of every part.
func (w *world) turn() error {
	for _, step := range w.Steps(nil) {
		if err := step.Do(w.ctx); err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return nil
}

func (w *world) work() {
	w.Helper()
	w.pass(5 * time.Second)
	w.must(w.turn())
}

func (w *world) mine(blocks int) {
	w.Helper()
	w.must(w.node.Mine(w.ctx, blocks))
}

// settle works and makes blocks until what is under way has ended.
func (w *world) settle() {
	w.Helper()
	w.work()
	w.mine(surfpool.Finality + 1)
	w.work()
	w.work()
}

func (w *world) number(sql string, args ...any) (n int) {
	w.Helper()
	w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(&n) }))
	return n
}

func (w *world) text(sql string, args ...any) (s string) {
	w.Helper()
	w.must(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce((`+sql+`)::text, '')`, args...).Scan(&s)
	}))
	return s
}

func (w *world) want(what, want, sql string, args ...any) {
	w.Helper()
	if got := w.text(sql, args...); got != want {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// ask makes a withdrawal of ann's to an address that nothing was ever sent to.
func (w *world) ask(mintID int, units int64) (withdrawalID string, to chain.Address) {
	w.Helper()
	w.asked++
	k, err := surfpool.NewKey()
	w.must(err)
	to = surfpool.AddressOf(k)
	key := fmt.Sprint("withdrawal-", w.asked)
	got, _, err := w.Pay.Request(w.ctx, w.org, withdrawal.Request{
		MintID: mintID, CustomerID: "ann", Amount: fmt.Sprint(units), ToAddress: string(to), IdempotencyKey: &key, Actor: audit.APIKey(w.org),
	})
	w.must(err)
	return got.WithdrawalID, to
}

// holds is what an address has of a mint by the chain, as it is now.
func (w *world) holds(a chain.Address, mintID int) uint64 {
	w.Helper()
	var got struct{ Value uint64 }
	if mintID == sol {
		w.must(w.node.RPC.CallContext(w.ctx, &got, "getBalance", a, map[string]string{"commitment": "processed"}))
		return got.Value
	}
	at, err := solanatx.AssociatedAccount(a, surfpool.USDC, solanatx.TokenProgram)
	w.must(err)
	var tokens struct{ Value struct{ Amount money.Amount } }
	if err := w.node.RPC.CallContext(w.ctx, &tokens, "getTokenAccountBalance", at); err != nil && strings.HasSuffix(err.Error(), "not found") {
		return 0
	} else if err != nil {
		w.Fatal(err)
	}
	n, _ := tokens.Value.Amount.Uint64()
	return n
}

// sound compares all books with one another, and with what the chain has as it is now:
// nothing may be under way.
func (w *world) sound() {
	w.Helper()
	r, err := verify.Run(w.ctx, w.db)
	w.must(err)
	for _, b := range r.Breaches {
		w.Errorf("got breach %+v, want none", b)
	}
	for _, of := range append(slices.Clone(w.customers), w.treasury) {
		for _, m := range []int{sol, usdc} {
			w.want(fmt.Sprintf("mint %d of %s in the books", m, of.Purpose), fmt.Sprint(w.holds(of.Address, m)), `
				SELECT coalesce(sum(credited - swept + gas + dust), 0) FROM address_funds WHERE wallet_id = $1 AND mint_id = $2`, of.ID, m)
		}
	}
	w.want("reserved", "0 0 0", `SELECT concat_ws(' ', sum(reserved), sum(gas_reserved), sum(held)) FROM address_funds`)
}

// fate is what becomes of a service: it dies before or after one of the calls that it
// makes to the signer and the chain, and nothing that it does afterwards leaves it.
type fate struct {
	mu    sync.Mutex
	calls []string
	at    int // 0: it lives on
	after bool
	dead  bool

	silent bool // what is sent reaches nobody
	lost   bool // what is sent is taken, and the answer is lost
	mute   bool // the signer does not answer when it is to sign
	knows  bool // it dies when it has the proof of a place
}

var errDead = errors.New("the service has died")

// meet is a call, and what comes of it.
func (f *fate) meet(name string, do func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	mine := f.at == len(f.calls)
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

type mortalSigner struct {
	signer.Signer
	*fate
}

func (s mortalSigner) Admit(ctx context.Context, i signer.Intent) (e signer.Entry, err error) {
	err = s.meet("admit", func() (err error) { e, err = s.Signer.Admit(ctx, i); return err })
	return e, err
}

func (s mortalSigner) Sign(ctx context.Context, r signer.SignRequest) (out signer.Signed, err error) {
	if s.mute {
		return out, errors.New("the signer does not answer")
	}
	err = s.meet("sign", func() (err error) { out, err = s.Signer.Sign(ctx, r); return err })
	return out, err
}

type mortalSender struct {
	chain.Sender
	*fate
}

func (s mortalSender) Quote(ctx context.Context, ps ...chain.Payment) (f chain.Fees, err error) {
	err = s.meet("quote", func() (err error) { f, err = s.Sender.Quote(ctx, ps...); return err })
	return f, err
}

func (s mortalSender) Send(ctx context.Context, raw []byte) (a chain.Answer, said string) {
	switch {
	case s.silent:
		return chain.Unknown, "nobody answers"
	case s.lost:
		s.Sender.Send(ctx, raw)
		return chain.Unknown, "the answer is lost"
	}
	if err := s.meet("send", func() error { a, said = s.Sender.Send(ctx, raw); return nil }); err != nil {
		return chain.Unknown, err.Error()
	}
	return a, said
}

func (s mortalSender) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (o *chain.Outcome, err error) {
	err = s.meet("outcome", func() (err error) { o, err = s.Sender.Outcome(ctx, txs, ps...); return err })
	return o, err
}

type mortalPlaces struct {
	chain.Places
	*fate
}

func (p mortalPlaces) Lapsed(ctx context.Context, txs []chain.TxHash, until uint64) (yes bool, err error) {
	err = p.meet("lapsed", func() (err error) { yes, err = p.Places.Lapsed(ctx, txs, until); return err })
	return yes, err
}

type mortalProofs struct {
	chain.Proofs
	*fate
}

func (p mortalProofs) Proof(ctx context.Context, account chain.Address, lease string, known ...string) (string, error) {
	proof, err := p.Proofs.Proof(ctx, account, lease, known...)
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

// key is the key of one of our wallets: whoever has it as well is a thief.
func (w *world) key(of wallet.Wallet) keys.WalletKey {
	w.Helper()
	k, err := w.seed.Wallet(of.Ref())
	w.must(err)
	return k
}

// sweeps is a turn of what plans alone.
func (w *world) sweeps() error {
	w.pass(5 * time.Second)
	_, err := w.Sweeper.Plan(w.ctx)
	return err
}

// take fills a place of the treasury, as somebody with its key would.
func (w *world) take(at chain.Address, value string) chain.TxHash {
	w.Helper()
	payload, err := solanatx.Tx{Payer: w.treasury.Address, NonceAccount: at, NonceValue: value, Limit: 10_000}.Payload()
	w.must(err)
	raw, hash, err := solanatx.Attach(payload, w.key(w.treasury).SignMessage(payload))
	w.must(err)
	_, err = w.node.SendRaw(w.ctx, raw)
	w.must(err)
	return hash
}
