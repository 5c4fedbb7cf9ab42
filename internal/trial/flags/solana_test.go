package flags

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const (
	sol     = 11
	solUSDC = 12
	solOdd  = 13                                             // a token of Token-2022 that is as good as any, for now
	solBad  = 14                                             // one whose issuer may take what anybody has
	genesis = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" // nobody compares it here
)

var usdCoin = surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}

// shore is the service and a chain of Solana, whose blocks come when they are told to.
type shore struct {
	*testing.T
	*works.Works
	opinions
	ctx      context.Context
	node     *surfpool.Node
	db       *pg.DB
	org      string
	seed     keys.Seed
	treasury wallet.Wallet
	steps    []works.Step
	odd      surfpool.Mint

	mu  sync.Mutex
	now time.Time
}

func (s *shore) clock() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }

func (s *shore) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// land makes a shore whose organization has all deposits above a dollar looked at, and
// whose treasury has coin and places to pay from.
func land(t *testing.T) *shore {
	t.Helper()
	s := &shore{T: t, ctx: t.Context(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), node: surfpooltest.Borrow(t)}
	s.says = map[chain.Address]risk.Severity{}
	var err error
	s.seed, err = keys.NewSeed()
	s.must(err)
	conf := local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Clock: s.clock, Policy: local.Policy{
		Chains: map[chain.Name]local.ChainPolicy{chain.Solana: {SignerID: genesis, FeeMax: money.Units(10_000_000), GasMax: money.Units(1), Unlimited: true}},
	}}
	s.must(local.Create(conf, s.seed))
	sign, err := local.Open(conf, s.seed)
	s.must(err)
	t.Cleanup(func() { _ = sign.Close() })
	s.db = pgtest.NewWithClock(t, s.clock)
	coin := mint.Mint{
		ID: sol, Kind: mint.Native, Symbol: "SOL", Name: "Solana", Decimals: 9, Chain: chain.Solana, Network: chain.Local, Finality: "FINALIZED",
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1_000_000), MinWithdraw: money.Units(1_000_000),
	}
	token := coin
	token.ID, token.Kind, token.Contract, token.Symbol, token.Name, token.Decimals = solUSDC, mint.Token, usdCoin.Address, "USDC", "USD Coin", 6
	s.odd = s.token2022(surfpool.Extension{Type: 18, Data: make([]byte, 64)})
	bad := s.token2022(surfpool.PermanentDelegate(s.node.FaucetAddress()))
	odd, worse := token, token
	odd.ID, odd.Contract, odd.Symbol, worse.ID, worse.Contract, worse.Symbol = solOdd, s.odd.Address, "ODD", solBad, bad.Address, "BAD"
	s.must(mint.Sync(s.ctx, s.db, []mint.Mint{coin, token, odd, worse}))
	o, _, err := org.Create(s.ctx, s.db, "Acme")
	s.must(err)
	s.org = o.ID
	s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("trial"), s.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`), "screeningUsdThreshold": json.RawMessage(`"1"`),
		})
		return err
	}))
	s.mine(surfpool.Finality)
	c, err := solana.New(s.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{s.node.URL}, Agree: 1,
		Mints: map[chain.Address]solana.Mint{
			usdCoin.Address: {Program: usdCoin.Program, Decimals: usdCoin.Decimals},
			s.odd.Address:   {Program: s.odd.Program, Decimals: s.odd.Decimals},
			bad.Address:     {Program: bad.Program, Decimals: bad.Decimals},
		},
	})
	s.must(err)
	heads, err := c.Heads(s.ctx)
	s.must(err)
	s.Works = works.Wire(works.Plan{
		DB: s.db, Chain: c.Chain(), Start: heads.Final.Height, Signer: sign, Attest: s.seed.Attest().Public(),
		Prices:  price.Fixed{Prices: map[int]money.USD{sol: money.MustParseUSD("1000"), solUSDC: money.MustParseUSD("1"), solOdd: money.MustParseUSD("1")}, Clock: s.clock},
		Screens: risk.Policy{Providers: &s.opinions, UnknownAs: risk.UnknownHolds, Grace: risk.GraceDefault},
	})
	s.steps = s.Steps(nil)
	s.must(mirror.Import(s.ctx, s.db, sign, s.Book))
	s.treasury, err = s.Book.Treasury(s.ctx, s.org, chain.SolanaFamily)
	s.must(err)
	_, err = s.node.Pay(s.ctx, s.treasury.Address, 10*surfpool.LamportsPerSOL)
	s.must(err)
	s.final()
	s.final() // with that it makes its places
	return s
}

func (s *shore) mine(blocks int) {
	s.Helper()
	s.must(s.node.Mine(s.ctx, blocks))
}

// token2022 places a mint of Token-2022.
func (s *shore) token2022(extensions ...surfpool.Extension) surfpool.Mint {
	s.Helper()
	k, err := surfpool.NewKey()
	s.must(err)
	m := surfpool.Mint{Address: surfpool.AddressOf(k), Program: solanatx.Token2022Program, Decimals: 6, Extensions: extensions}
	s.must(s.node.PlaceMint(s.ctx, m))
	return m
}

// turn has every part of the service do what there is to do, and checks the books.
func (s *shore) turn() {
	s.Helper()
	for _, step := range s.steps {
		if err := step.Do(s.ctx); err != nil {
			s.Fatalf("%s: %v", step.Name, err)
		}
	}
	books, err := verify.Run(s.ctx, s.db)
	s.must(err)
	if !books.OK() {
		var b strings.Builder
		_, err := books.WriteTo(&b)
		s.must(err)
		_, words, _ := strings.Cut(b.String(), "BREACH")
		s.Fatalf("the books are not sound: %s", words)
	}
}

// final lets what was sent become final, and all that follows from it be sent.
func (s *shore) final() {
	s.Helper()
	for range 2 {
		s.turn()
		s.mine(surfpool.Finality + 1)
		s.mu.Lock()
		s.now = s.now.Add(turn)
		s.mu.Unlock()
	}
	s.turn()
}

func (s *shore) customer(id string) wallet.Wallet {
	s.Helper()
	s.must(s.db.InOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, s.org, id, "")
		return err
	}))
	w, err := s.Book.Address(s.ctx, signer.WalletRef{OrgID: s.org, Family: chain.SolanaFamily, Purpose: wallet.CustomerDeposit, Subject: id})
	s.must(err)
	return w
}

// stranger has coin and tokens.
func (s *shore) stranger(severity risk.Severity) (ed25519.PrivateKey, chain.Address) {
	s.Helper()
	k, err := surfpool.NewKey()
	s.must(err)
	a := surfpool.AddressOf(k)
	s.must(s.node.SetLamports(s.ctx, a, 100*surfpool.LamportsPerSOL))
	s.must(s.node.MintTo(s.ctx, usdCoin, a, 1_000_000*dollars))
	s.opinions.mu.Lock()
	defer s.opinions.mu.Unlock()
	s.says[a] = severity
	return k, a
}

func (s *shore) does(by ed25519.PrivateKey, ins ...surfpool.Instruction) {
	s.Helper()
	_, err := s.node.Do(s.ctx, surfpool.Transaction{Keys: []ed25519.PrivateKey{by}, Instructions: ins})
	s.must(err)
}

// has is what an account holds, in lamports, and a token account in units.
func (s *shore) has(account chain.Address, units bool) uint64 {
	s.Helper()
	if !units {
		var lamports struct{ Value uint64 }
		s.must(s.node.RPC.CallContext(s.ctx, &lamports, "getBalance", account))
		return lamports.Value
	}
	var tokens struct{ Value struct{ Amount string } }
	s.must(s.node.RPC.CallContext(s.ctx, &tokens, "getTokenAccountBalance", account))
	amount, ok := money.MustParse(tokens.Value.Amount).Uint64()
	if !ok {
		s.Fatalf("%s holds %s", account, tokens.Value.Amount)
	}
	return amount
}

func (s *shore) wantHas(what string, account chain.Address, units bool, want uint64) {
	s.Helper()
	if got := s.has(account, units); got != want {
		s.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func (s *shore) deposits(status string) (items []webhook.Deposit) {
	s.Helper()
	s.must(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, s.org, deposit.Filter{Status: status}, page.Page{})
		items = found.Items
		return err
	}))
	return items
}

// flagged is the one deposit that waits for a decision.
func (s *shore) flagged() webhook.Deposit {
	s.Helper()
	got := s.deposits("FLAGGED")
	if len(got) != 1 {
		s.Fatalf("got %+v flagged, want one", got)
	}
	return got[0]
}

func (s *shore) one(sql string, args ...any) string {
	s.Helper()
	var word string
	s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&word)
	}))
	return word
}

// Rules DEP-31, DEP-39 and DEP-40 on a real chain, and invariant I-26: what is flagged goes
// back whole, the treasury pays, and nobody's coin is spent on a fee.
func TestOnSolanaTheTreasuryPaysForWhatGoesBack(t *testing.T) {
	t.Parallel()
	s := land(t)
	ann := s.customer("ann")
	bad, badAt := s.stranger(risk.Severe)
	reject := func(id string) webhook.Deposit {
		t.Helper()
		_, err := s.Flags.Reject(s.ctx, id, operator(), "")
		s.must(err)
		s.final()
		for _, d := range s.deposits("REJECTED") {
			if d.DepositID == id {
				return d
			}
		}
		t.Fatalf("deposit %s is %s, want it REJECTED; its order waits: %s", id, s.one(`SELECT status FROM deposits WHERE deposit_id = $1`, id),
			s.one(`SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE purpose = 'RETURN' ORDER BY order_id DESC LIMIT 1`))
		return webhook.Deposit{}
	}

	// A token.
	s.does(bad, usdCoin.Create(badAt, ann.Address), usdCoin.Transfer(usdCoin.Account(badAt), usdCoin.Account(ann.Address), badAt, 700*dollars))
	s.final()
	had := s.has(usdCoin.Account(badAt), true)
	d := reject(s.flagged().DepositID)
	s.wantHas("the sender's token", usdCoin.Account(badAt), true, had+700*dollars)
	s.wantHas("ann's token", usdCoin.Account(ann.Address), true, 0)
	s.wantHas("ann's coin", ann.Address, false, 0)
	if *d.Resolution.Amount != fmt.Sprint(700*dollars) || d.Resolution.NetworkFee == nil {
		t.Errorf("got %+v, want all of it and what the network took", d.Resolution)
	}

	// The coin, all of it: nothing stays on the address, which is no account then.
	s.does(bad, surfpool.Transfer(badAt, ann.Address, 2_000_000_000))
	s.final()
	had = s.has(badAt, false)
	reject(s.flagged().DepositID)
	s.wantHas("the sender's coin", badAt, false, had+2_000_000_000)
	s.wantHas("ann's coin", ann.Address, false, 0)

	// Somebody left a lamport there that does not count: as much stays as the chain wants.
	// It is told, it is the organization's, and no sweep ever takes it.
	s.does(bad, surfpool.Transfer(badAt, ann.Address, 2_000_000_000))
	s.does(bad, surfpool.Transfer(badAt, ann.Address, 1))
	s.final()
	had = s.has(badAt, false)
	d = reject(s.flagged().DepositID)
	const stays = solanatx.WalletRent - 1
	s.wantHas("the sender's coin", badAt, false, had+2_000_000_000-stays)
	s.wantHas("ann's coin", ann.Address, false, solanatx.WalletRent)
	if *d.Resolution.NetworkFee != fmt.Sprint(stays) {
		t.Errorf("got %s told as the fee, want %d", *d.Resolution.NetworkFee, stays)
	}
	s.opinions.mu.Lock()
	s.says[badAt] = risk.Low
	s.opinions.mu.Unlock()
	s.does(bad, surfpool.Transfer(badAt, ann.Address, 3_000_000_000))
	s.final()
	s.final()
	s.wantHas("ann's coin, swept", ann.Address, false, solanatx.WalletRent)
	if n := s.one(`SELECT count(*)::text FROM dispatch_orders WHERE wallet_id = $1`, ann.ID); n != "0" {
		t.Errorf("got %s orders that ann's address paid for, want none", n)
	}
}

// Rules DEP-41 and DEP-42, hostile H-64.
func TestOnSolanaATokenCountsWhereItCanBePaidFromAndWhileItIsMoney(t *testing.T) {
	t.Parallel()
	s := land(t)
	ann, bob := s.customer("ann"), s.customer("bob")
	key, at := s.stranger(risk.Low)
	statuses := func(customerID string) string {
		return s.one(`SELECT coalesce(string_agg(concat_ws(' ', (amount / 1000000)::bigint, status, reason), ', ' ORDER BY amount), '') FROM deposits WHERE customer_id = $1`, customerID)
	}

	// The catalogue was looked at before anything came.
	if got := s.one(`SELECT string_agg(concat_ws(' ', mint_id, quarantine_reason), ', ' ORDER BY mint_id) FROM mints WHERE quarantined_at IS NOT NULL`); !strings.HasPrefix(got, fmt.Sprint(solBad)) ||
		!strings.Contains(got, "a permanent delegate") || strings.Contains(got, ", 1") {
		t.Errorf("got %q under quarantine, want the one with a delegate and why", got)
	}

	// Ann gets one as usual, one in an account that a stranger made for her, and one that
	// was the stranger's and was handed over.
	made, err := surfpool.NewKey()
	s.must(err)
	given, err := surfpool.NewKey()
	s.must(err)
	for account, owner := range map[*ed25519.PrivateKey]chain.Address{&made: ann.Address, &given: at} {
		_, err := s.node.Do(s.ctx, surfpool.Transaction{Keys: []ed25519.PrivateKey{key, *account}, Instructions: []surfpool.Instruction{
			surfpool.CreateAccount(at, surfpool.AddressOf(*account), solanatx.TokenProgram, surfpool.RentOfTokenAccount, 165),
			usdCoin.Initialize(surfpool.AddressOf(*account), owner),
		}})
		s.must(err)
	}
	s.does(key, usdCoin.Create(at, ann.Address), usdCoin.Transfer(usdCoin.Account(at), usdCoin.Account(ann.Address), at, 100*dollars))
	s.does(key, usdCoin.Transfer(usdCoin.Account(at), surfpool.AddressOf(made), at, 200*dollars))
	s.does(key, usdCoin.Transfer(usdCoin.Account(at), surfpool.AddressOf(given), at, 300*dollars))
	s.does(key, usdCoin.HandOver(surfpool.AddressOf(given), at, ann.Address))

	// Bob's account is frozen by the issuer when his has come.
	s.does(key, usdCoin.Create(at, bob.Address), usdCoin.Transfer(usdCoin.Account(at), usdCoin.Account(bob.Address), at, 100*dollars))
	s.does(s.node.Faucet(), usdCoin.Freeze(usdCoin.Account(bob.Address), s.node.FaucetAddress()))
	s.final()
	s.final()
	if got, want := statuses("ann"), "100 CREDITED, 200 UNSUPPORTED TOKEN_ACCOUNT, 300 UNSUPPORTED TOKEN_ACCOUNT"; got != want {
		t.Errorf("ann's: got %s, want %s", got, want)
	}
	s.wantHas("ann's account", usdCoin.Account(ann.Address), true, 0)
	s.wantHas("the treasury's account", usdCoin.Account(s.treasury.Address), true, 100*dollars)
	if got := s.one(`SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE from_wallet_id = $1`, bob.ID); !strings.HasPrefix(got, "QUEUED SIMULATION") || !strings.Contains(got, "frozen") {
		t.Errorf("the sweep of what is frozen: got %s, want it to wait and say why", got)
	}
	s.does(s.node.Faucet(), surfpool.Instruction{Program: usdCoin.Program, Accounts: []surfpool.Meta{
		{Address: usdCoin.Account(bob.Address), Writable: true}, {Address: usdCoin.Address}, {Address: s.node.FaucetAddress(), Signer: true},
	}, Data: []byte{11}}) // ThawAccount
	s.final()
	s.final()
	s.wantHas("the treasury's account, when bob's is thawed", usdCoin.Account(s.treasury.Address), true, 200*dollars)

	// A token changes after it was reviewed: what came before is credited, what comes then
	// is kept until a person has looked.
	s.must(s.node.MintTo(s.ctx, s.odd, at, 1000*dollars))
	s.does(key, s.odd.Create(at, bob.Address), s.odd.Transfer(s.odd.Account(at), s.odd.Account(bob.Address), at, 400*dollars))
	s.final()
	s.odd.Extensions = append(s.odd.Extensions, surfpool.TransferFee(100, 5))
	s.must(s.node.PlaceMint(s.ctx, s.odd))
	s.must(s.node.MintTo(s.ctx, s.odd, bob.Address, 500*dollars))
	s.final()
	if got, want := statuses("bob"), "100 CREDITED, 400 CREDITED, 500 SCREENING"; got != want {
		t.Errorf("bob's: got %s, want %s", got, want)
	}
	if got := s.one(`SELECT quarantine_reason FROM mints WHERE mint_id = $1`, solOdd); !strings.Contains(got, "a fee on transfers") {
		t.Errorf("got quarantine for %q, want the fee", got)
	}
}
