package flagged

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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	sol     = 11
	solUSDC = 12
	solOdd  = 13                                             // a Token-2022 token that is sound, for now
	solBad  = 14                                             // one whose issuer may seize any balance
	genesis = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" // no code compares it here
)

var usdCoin = surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}

// solanaEnv is the service and a Solana chain, which makes blocks when a test tells it to.
type solanaEnv struct {
	*testing.T
	*harness.Harness
	fakeScreener
	ctx      context.Context
	node     *surfpool.Node
	db       *pg.DB
	org      string
	seed     keys.Seed
	treasury wallet.Wallet
	steps    []harness.Step
	odd      surfpool.Mint

	mu        sync.Mutex
	clockTime time.Time
}

func (s *solanaEnv) readClock() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.clockTime }

func (s *solanaEnv) mustSucceed(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// newSolanaEnv creates a service whose organization screens all deposits above a dollar, and whose
// treasury has coin and nonce accounts.
func newSolanaEnv(t *testing.T) *solanaEnv {
	t.Helper()
	s := &solanaEnv{
		T: t, ctx: t.Context(), clockTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), node: surfpooltest.Borrow(t),
	}
	s.severities = map[chain.Address]risk.Severity{}
	var err error
	s.seed, err = keys.NewSeed()
	s.mustSucceed(err)
	conf := local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Clock: s.readClock, Policy: local.Policy{
		Chains: map[chain.Name]local.ChainPolicy{chain.Solana: {
			SignerID: genesis, FeeMax: money.Units(10_000_000), GasMax: money.Units(1), Unlimited: true,
		}},
	}}
	s.mustSucceed(local.CreateJournal(conf, s.seed))
	sign, err := local.Open(conf, s.seed)
	s.mustSucceed(err)
	t.Cleanup(func() { _ = sign.Close() })
	s.db = pgtest.NewWithClock(t, s.readClock)
	coin := mint.Mint{
		ID: sol, Kind: mint.Native, Symbol: "SOL", Name: "Solana", Decimals: 9, Chain: chain.Solana,
		Network: chain.Local, Finality: "FINALIZED",
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1_000_000),
		MinWithdraw: money.Units(1_000_000),
	}
	token := coin
	token.ID, token.Kind, token.Contract, token.Symbol, token.Name, token.Decimals =
		solUSDC, mint.Token, usdCoin.Address, "USDC", "USD Coin", 6
	s.odd = s.token2022(surfpool.Extension{Type: 18, Data: make([]byte, 64)})
	bad := s.token2022(surfpool.PermanentDelegate(s.node.FaucetAddress()))
	odd, worse := token, token
	odd.ID, odd.Contract, odd.Symbol, worse.ID, worse.Contract, worse.Symbol =
		solOdd, s.odd.Address, "ODD", solBad, bad.Address, "BAD"
	s.mustSucceed(mint.Sync(s.ctx, s.db, []mint.Mint{coin, token, odd, worse}))
	o, _, err := org.Create(s.ctx, s.db, "Acme")
	s.mustSucceed(err)
	s.org = o.ID
	s.mustSucceed(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("trial"), s.org, org.Changes{
			"screeningSeverityThreshold": json.RawMessage(`"MEDIUM"`), "screeningUsdThreshold": json.RawMessage(`"1"`),
		})
		return err
	}))
	s.mineBlocks(surfpool.Finality)
	c, err := solana.New(s.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{s.node.URL}, Quorum: 1,
		Mints: map[chain.Address]solana.Mint{
			usdCoin.Address: {Program: usdCoin.Program, Decimals: usdCoin.Decimals},
			s.odd.Address:   {Program: s.odd.Program, Decimals: s.odd.Decimals},
			bad.Address:     {Program: bad.Program, Decimals: bad.Decimals},
		},
	})
	s.mustSucceed(err)
	heads, err := c.Heads(s.ctx)
	s.mustSucceed(err)
	s.Harness = harness.New(harness.Config{
		DB: s.db, Chain: c.Chain(), Start: heads.Final.Height, Signer: sign, AttestKey: s.seed.AttestKey().PublicKey(),
		Prices: price.Fixed{
			Prices: map[int]money.USD{
				sol: money.MustParseUSD("1000"), solUSDC: money.MustParseUSD("1"), solOdd: money.MustParseUSD("1"),
			},
			Clock: s.readClock,
		},
		RiskPolicy: risk.Policy{
			Providers: &s.fakeScreener, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault,
		},
	})
	s.steps = s.ListSteps(nil)
	s.mustSucceed(mirror.ImportJournal(s.ctx, s.db, sign, s.Wallets))
	s.treasury, err = s.Wallets.Treasury(s.ctx, s.org, chain.SolanaFamily)
	s.mustSucceed(err)
	_, err = s.node.PayLamports(s.ctx, s.treasury.Address, 10*surfpool.LamportsPerSOL)
	s.mustSucceed(err)
	s.finalizeAll()
	s.finalizeAll() // which pays for its nonce accounts
	return s
}

func (s *solanaEnv) mineBlocks(blocks int) {
	s.Helper()
	s.mustSucceed(s.node.MineBlocks(s.ctx, blocks))
}

// token2022 creates a mint of Token-2022.
func (s *solanaEnv) token2022(extensions ...surfpool.Extension) surfpool.Mint {
	s.Helper()
	k, err := surfpool.NewKey()
	s.mustSucceed(err)
	m := surfpool.Mint{
		Address: surfpool.AddressOf(k), Program: solanatx.Token2022Program, Decimals: 6, Extensions: extensions,
	}
	s.mustSucceed(s.node.PlaceMint(s.ctx, m))
	return m
}

// runAllSteps runs every part of the service, and checks the books.
func (s *solanaEnv) runAllSteps() {
	s.Helper()
	for _, step := range s.steps {
		if err := step.Run(s.ctx); err != nil {
			s.Fatalf("%s: %v", step.Name, err)
		}
	}
	books, err := verify.RunChecks(s.ctx, s.db, verify.WithoutSchema)
	s.mustSucceed(err)
	if !books.IsIntact() {
		var b strings.Builder
		_, err := books.WriteTo(&b)
		s.mustSucceed(err)
		_, words, _ := strings.Cut(b.String(), "BREACH")
		s.Fatalf("the books are not sound: %s", words)
	}
}

// finalizeAll makes what was sent final, and lets the service send all that follows from it.
func (s *solanaEnv) finalizeAll() {
	s.Helper()
	for range 2 {
		s.runAllSteps()
		s.mineBlocks(surfpool.Finality + 1)
		s.mu.Lock()
		s.clockTime = s.clockTime.Add(turn)
		s.mu.Unlock()
	}
	s.runAllSteps()
}

func (s *solanaEnv) customerWallet(id string) wallet.Wallet {
	s.Helper()
	s.mustSucceed(s.db.InOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, s.org, id, "")
		return err
	}))
	w, err := s.Wallets.Address(s.ctx, signer.WalletRef{
		OrgID: s.org, Family: chain.SolanaFamily, Purpose: wallet.CustomerDeposit, Subject: id,
	})
	s.mustSucceed(err)
	return w
}

// newStranger creates an external account with coin and tokens.
func (s *solanaEnv) newStranger(severity risk.Severity) (ed25519.PrivateKey, chain.Address) {
	s.Helper()
	k, err := surfpool.NewKey()
	s.mustSucceed(err)
	a := surfpool.AddressOf(k)
	s.mustSucceed(s.node.SetLamports(s.ctx, a, 100*surfpool.LamportsPerSOL))
	s.mustSucceed(s.node.MintTo(s.ctx, usdCoin, a, 1_000_000*dollars))
	s.fakeScreener.mu.Lock()
	defer s.fakeScreener.mu.Unlock()
	s.severities[a] = severity
	return k, a
}

func (s *solanaEnv) sendInstructions(by ed25519.PrivateKey, ins ...surfpool.Instruction) {
	s.Helper()
	_, err := s.node.SendAndCheck(s.ctx, surfpool.Transaction{Keys: []ed25519.PrivateKey{by}, Instructions: ins})
	s.mustSucceed(err)
}

// accountBalance returns the balance of an account in lamports, or of a token account in units.
func (s *solanaEnv) accountBalance(account chain.Address, units bool) uint64 {
	s.Helper()
	if !units {
		var lamports struct{ Value uint64 }
		s.mustSucceed(s.node.RPC.CallContext(s.ctx, &lamports, "getBalance", account))
		return lamports.Value
	}
	var tokens struct{ Value struct{ Amount string } }
	s.mustSucceed(s.node.RPC.CallContext(s.ctx, &tokens, "getTokenAccountBalance", account))
	amount, ok := money.MustParse(tokens.Value.Amount).Uint64()
	if !ok {
		s.Fatalf("%s holds %s", account, tokens.Value.Amount)
	}
	return amount
}

func (s *solanaEnv) wantBalance(what string, account chain.Address, units bool, want uint64) {
	s.Helper()
	if got := s.accountBalance(account, units); got != want {
		s.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func (s *solanaEnv) listDeposits(status string) (items []webhook.Deposit) {
	s.Helper()
	s.mustSucceed(s.db.ReadOrg(s.ctx, s.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.List(ctx, tx, s.org, deposit.Filter{Status: status}, pagination.Page{})
		for _, d := range found.Items {
			items = append(items, wire.Deposit(d))
		}
		return err
	}))
	return items
}

// onlyFlagged returns the one deposit that waits for a decision.
func (s *solanaEnv) onlyFlagged() webhook.Deposit {
	s.Helper()
	got := s.listDeposits("FLAGGED")
	if len(got) != 1 {
		s.Fatalf("got %+v flagged, want one", got)
	}
	return got[0]
}

func (s *solanaEnv) queryText(sql string, args ...any) string {
	s.Helper()
	var word string
	s.mustSucceed(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&word)
	}))
	return word
}

// Rules DEP-31, DEP-39 and DEP-40 on a real chain, and invariant I-26. A return sends a flagged
// deposit whole, the treasury pays, and no fee is paid with a customer's coin.
func TestOnSolanaTheTreasuryPaysForWhatGoesBack(t *testing.T) {
	t.Parallel()
	s := newSolanaEnv(t)
	ann := s.customerWallet("ann")
	bad, badAt := s.newStranger(risk.Severe)
	reject := func(id string) webhook.Deposit {
		t.Helper()
		_, err := s.Deposits.Reject(s.ctx, id, operatorDecider(), "")
		s.mustSucceed(err)
		s.finalizeAll()
		for _, d := range s.listDeposits("REJECTED") {
			if d.DepositID == id {
				return d
			}
		}
		t.Fatalf("deposit %s is %s, want it REJECTED; its order waits: %s", id, s.queryText(
			`SELECT status FROM deposits WHERE deposit_id = $1`, id,
		),
			s.queryText(
				`SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE purpose = 'RETURN' ORDER BY order_id DESC LIMIT 1`,
			))
		return webhook.Deposit{}
	}

	// A token.
	s.sendInstructions(
		bad, usdCoin.CreateAccount(badAt, ann.Address),
		usdCoin.TransferTokens(
			usdCoin.AssociatedAccount(badAt), usdCoin.AssociatedAccount(ann.Address), badAt, 700*dollars,
		),
	)
	s.finalizeAll()
	had := s.accountBalance(usdCoin.AssociatedAccount(badAt), true)
	d := reject(s.onlyFlagged().DepositID)
	s.wantBalance("the sender's token", usdCoin.AssociatedAccount(badAt), true, had+700*dollars)
	s.wantBalance("ann's token", usdCoin.AssociatedAccount(ann.Address), true, 0)
	s.wantBalance("ann's coin", ann.Address, false, 0)
	if *d.Resolution.Amount != fmt.Sprint(700*dollars) || d.Resolution.NetworkFee == nil {
		t.Errorf("got %+v, want all of it and what the network took", d.Resolution)
	}

	// All of the coin: nothing stays at the address, which then has no account.
	s.sendInstructions(bad, surfpool.TransferLamports(badAt, ann.Address, 2_000_000_000))
	s.finalizeAll()
	had = s.accountBalance(badAt, false)
	reject(s.onlyFlagged().DepositID)
	s.wantBalance("the sender's coin", badAt, false, had+2_000_000_000)
	s.wantBalance("ann's coin", ann.Address, false, 0)

	// An external account left a lamport there that does not count, so the address keeps the
	// minimum balance. The event reports it, it belongs to the organization, and no sweep ever
	// takes it.
	s.sendInstructions(bad, surfpool.TransferLamports(badAt, ann.Address, 2_000_000_000))
	s.sendInstructions(bad, surfpool.TransferLamports(badAt, ann.Address, 1))
	s.finalizeAll()
	had = s.accountBalance(badAt, false)
	d = reject(s.onlyFlagged().DepositID)
	const stays = solanatx.WalletRent - 1
	s.wantBalance("the sender's coin", badAt, false, had+2_000_000_000-stays)
	s.wantBalance("ann's coin", ann.Address, false, solanatx.WalletRent)
	if *d.Resolution.NetworkFee != fmt.Sprint(stays) {
		t.Errorf("got %s told as the fee, want %d", *d.Resolution.NetworkFee, stays)
	}
	s.fakeScreener.mu.Lock()
	s.severities[badAt] = risk.Low
	s.fakeScreener.mu.Unlock()
	s.sendInstructions(bad, surfpool.TransferLamports(badAt, ann.Address, 3_000_000_000))
	s.finalizeAll()
	s.finalizeAll()
	s.wantBalance("ann's coin, swept", ann.Address, false, solanatx.WalletRent)
	if n := s.queryText(`SELECT count(*)::text FROM dispatch_orders WHERE wallet_id = $1`, ann.ID); n != "0" {
		t.Errorf("got %s orders that ann's address paid for, want none", n)
	}
}

// Rules DEP-41 and DEP-42, hostile H-64.
func TestOnSolanaATokenCountsWhereItCanBePaidFromAndWhileItIsMoney(t *testing.T) {
	t.Parallel()
	s := newSolanaEnv(t)
	ann, bob := s.customerWallet("ann"), s.customerWallet("bob")
	key, at := s.newStranger(risk.Low)
	statuses := func(customerID string) string {
		return s.queryText(
			`SELECT coalesce(string_agg(concat_ws(' ', (amount / 1000000)::bigint, status, reason), ', ' ORDER BY amount), '') FROM deposits WHERE customer_id = $1`,
			customerID,
		)
	}

	// The catalogue was checked before any deposit arrived.
	if got := s.queryText(
		`SELECT string_agg(concat_ws(' ', mint_id, quarantine_reason), ', ' ORDER BY mint_id) FROM mints WHERE quarantined_at IS NOT NULL`,
	); !strings.HasPrefix(got, fmt.Sprint(solBad)) ||
		!strings.Contains(got, "a permanent delegate") || strings.Contains(got, ", 1") {
		t.Errorf("got %q under quarantine, want the one with a delegate and why", got)
	}

	// Ann gets one as usual, one in an account that a stranger created for her, and one in an
	// account that the stranger handed over to her.
	made, err := surfpool.NewKey()
	s.mustSucceed(err)
	given, err := surfpool.NewKey()
	s.mustSucceed(err)
	for account, owner := range map[*ed25519.PrivateKey]chain.Address{&made: ann.Address, &given: at} {
		_, err := s.node.SendAndCheck(s.ctx, surfpool.Transaction{
			Keys: []ed25519.PrivateKey{key, *account},
			Instructions: []surfpool.Instruction{
				surfpool.CreateAccount(
					at, surfpool.AddressOf(*account), solanatx.TokenProgram, surfpool.RentOfTokenAccount, 165,
				),
				usdCoin.InitializeAccount(surfpool.AddressOf(*account), owner),
			},
		})
		s.mustSucceed(err)
	}
	s.sendInstructions(
		key, usdCoin.CreateAccount(at, ann.Address),
		usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), usdCoin.AssociatedAccount(ann.Address), at, 100*dollars),
	)
	s.sendInstructions(
		key, usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), surfpool.AddressOf(made), at, 200*dollars),
	)
	s.sendInstructions(
		key, usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), surfpool.AddressOf(given), at, 300*dollars),
	)
	s.sendInstructions(key, usdCoin.SetOwner(surfpool.AddressOf(given), at, ann.Address))

	// The issuer freezes Bob's account after his deposit has arrived.
	s.sendInstructions(
		key, usdCoin.CreateAccount(at, bob.Address),
		usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), usdCoin.AssociatedAccount(bob.Address), at, 100*dollars),
	)
	s.sendInstructions(
		s.node.FaucetPrivateKey(),
		usdCoin.FreezeAccount(usdCoin.AssociatedAccount(bob.Address), s.node.FaucetAddress()),
	)
	s.finalizeAll()
	s.finalizeAll()
	if got, want := statuses("ann"),
		"100 CREDITED, 200 UNSUPPORTED TOKEN_ACCOUNT, 300 UNSUPPORTED TOKEN_ACCOUNT"; got != want {
		t.Errorf("ann's: got %s, want %s", got, want)
	}
	s.wantBalance("ann's account", usdCoin.AssociatedAccount(ann.Address), true, 0)
	s.wantBalance("the treasury's account", usdCoin.AssociatedAccount(s.treasury.Address), true, 100*dollars)
	if got := s.queryText(
		`SELECT concat_ws(' ', status, waiting_for, last_error) FROM dispatch_orders WHERE from_wallet_id = $1`, bob.ID,
	); !strings.HasPrefix(got, "QUEUED SIMULATION") || !strings.Contains(got, "frozen") {
		t.Errorf("the sweep of what is frozen: got %s, want it to wait and say why", got)
	}
	s.sendInstructions(s.node.FaucetPrivateKey(), surfpool.Instruction{
		Program: usdCoin.Program,
		Accounts: []surfpool.Meta{
			{Address: usdCoin.AssociatedAccount(bob.Address), Writable: true},
			{Address: usdCoin.Address},
			{Address: s.node.FaucetAddress(), Signer: true},
		}, Data: []byte{11},
	}) // ThawAccount
	s.finalizeAll()
	s.finalizeAll()
	s.wantBalance(
		"the treasury's account, when bob's is thawed", usdCoin.AssociatedAccount(s.treasury.Address), true,
		200*dollars,
	)

	// A token changes after its review. Earlier deposits are credited; later ones wait until a
	// person has looked.
	s.mustSucceed(s.node.MintTo(s.ctx, s.odd, at, 1000*dollars))
	s.sendInstructions(
		key, s.odd.CreateAccount(at, bob.Address),
		s.odd.TransferTokens(s.odd.AssociatedAccount(at), s.odd.AssociatedAccount(bob.Address), at, 400*dollars),
	)
	s.finalizeAll()
	s.odd.Extensions = append(s.odd.Extensions, surfpool.TransferFee(100, 5))
	s.mustSucceed(s.node.PlaceMint(s.ctx, s.odd))
	s.mustSucceed(s.node.MintTo(s.ctx, s.odd, bob.Address, 500*dollars))
	s.finalizeAll()
	if got, want := statuses("bob"), "100 CREDITED, 400 CREDITED, 500 SCREENING"; got != want {
		t.Errorf("bob's: got %s, want %s", got, want)
	}
	if got := s.queryText(
		`SELECT quarantine_reason FROM mints WHERE mint_id = $1`, solOdd,
	); !strings.Contains(got, "a fee on transfers") {
		t.Errorf("got quarantine for %q, want the fee", got)
	}
}
