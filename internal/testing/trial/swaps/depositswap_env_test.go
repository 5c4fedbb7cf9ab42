package swaps

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
)

// foreignChain is a chain that the installation does not read.
const foreignChain chain.Name = "NEAR"

// The tokens that customers pay with: ether of the chain that the installation reads, and the coin of one that it
// does not read.
var (
	etherToken   = provider.Token{Chain: signertest.Chain}
	foreignToken = provider.Token{Chain: foreignChain}
)

// The addresses of those who pay, and where a refund goes.
var (
	payer     = sim.Address("payer")
	otherHand = sim.Address("another payer")
	refundTo  = sim.Address("refunds of the payer")
)

// flexDesk is a provider that swaps any amount and does what a test says. It signs as 1Click does.
type flexDesk struct {
	t     testing.TB
	clock func() time.Time
	key   ed25519.PrivateKey // that signs
	name  string             // "": that of the provider of the tests

	mu      sync.Mutex
	refusal error                                   // of each question
	change  func(provider.Ask, *quotetest.OneClick) // what a firm quote signs
	firm    func() error                            // called for each firm question
	asked   int                                     // firm questions
	status  func(provider.Ref) (provider.Report, error)
}

func (d *flexDesk) Name() string {
	if d.name != "" {
		return d.name
	}
	return signertest.SwapProvider
}

func flexAsset(t provider.Token) string {
	return "test:" + strings.ToLower(t.String())
}

func (d *flexDesk) Assets(context.Context) ([]provider.Asset, error) {
	newAsset := func(t provider.Token, symbol string, decimals int, usd string) provider.Asset {
		return provider.Asset{
			Token: t.Canonical(), ID: flexAsset(t.Canonical()), Symbol: symbol, Decimals: decimals, Accepts: true,
			Delivers: true, AcceptsAny: true, PriceUSD: parseUSD(usd),
		}
	}
	return []provider.Asset{
		newAsset(etherToken, "ETH", 18, "3000"), newAsset(foreignToken, "NEAR", 24, "2.5"),
		newAsset(provider.Token{Chain: foreignChain, Contract: "odd.near"}, "ODD", 6, ""),
		newAsset(provider.Token{Chain: signertest.Chain, Contract: signertest.Token}, "DAI", 6, "1"),
	}, nil
}

func (d *flexDesk) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusal != nil {
		return provider.Offer{}, d.refusal
	}
	out, least := units(99*million), units(98_010_000)
	if !ask.IsFirm {
		return provider.Offer{
			Provider: d.Name(), AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: out, MinAmountOut: least,
			Estimate: 20 * time.Second,
		}, nil
	}
	d.asked++
	if d.firm != nil {
		if err := d.firm(); err != nil {
			return provider.Offer{}, err
		}
	}
	now := d.clock()
	quote := quotetest.OneClick{
		DepositAddress: string(signertest.SwapDepositAddress(fmt.Sprintf("%s %d", ask.Reference, d.asked))),
		OriginAsset:    flexAsset(ask.Origin), DestinationAsset: flexAsset(ask.Destination), AmountIn: ask.AmountIn,
		AmountOut: out, MinAmountOut: least, AmountInUSD: "100", AmountOutUSD: "99", Recipient: string(ask.Recipient),
		RefundTo: string(ask.RefundTo), SlippageBps: ask.SlippageBps, IsFlexible: ask.IsFlexible, SignedAt: now,
		Deadline: now.Add(24 * time.Hour),
	}
	if d.change != nil {
		d.change(ask, &quote)
	}
	raw := quote.Sign(d.t, d.key)
	signed, err := d.VerifyQuote(raw)
	if err == nil {
		err = provider.CheckSigned(signed.CheckTerms(signedquote.Terms{
			IsFlexible: true, OriginAsset: flexAsset(ask.Origin), DestinationAsset: flexAsset(ask.Destination),
			Recipient: string(ask.Recipient), RefundTo: string(ask.RefundTo), SlippageBpsMax: ask.SlippageBps,
		}))
	}
	if err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(d.Name(), raw, signed), nil
}

// VerifyQuote knows the key of the tests alone.
func (*flexDesk) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := signedquote.VerifyOneClick(raw, []ed25519.PublicKey{
		signertest.SwapProviderKey.Public().(ed25519.PublicKey),
	})
	return q, provider.CheckSigned(err)
}

func (d *flexDesk) Status(_ context.Context, ref provider.Ref, _ chain.TxHash) (provider.Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status == nil {
		return d.report(provider.Waiting), nil
	}
	return d.status(ref)
}

func (d *flexDesk) report(s provider.Status) provider.Report {
	return provider.Report{
		Provider: d.Name(), Status: s, Word: strings.ToLower(string(s)), Refund: provider.RefundNone,
		UpdatedAt: d.clock(), Raw: []byte(`{}`),
	}
}

// says makes the desk report a status of every deposit swap, with what change adds.
func (d *flexDesk) says(s provider.Status, change func(*provider.Report)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = func(provider.Ref) (provider.Report, error) {
		r := d.report(s)
		if change != nil {
			change(&r)
		}
		return r, nil
	}
}

// watchman is a risk provider that flags the addresses that a test names, and remembers about whom it was asked.
type watchman struct {
	mu      sync.Mutex
	flagged map[chain.Address]bool
	asked   []risk.Subject
}

// Name implements risk.Screener.
func (*watchman) Name() string { return "WATCHMAN" }

// Covers implements risk.Screener.
func (*watchman) Covers(chain.Name) bool { return true }

// Screen implements risk.Screener.
func (w *watchman) Screen(_ context.Context, subject risk.Subject) (risk.Verdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, subject)
	v := risk.Verdict{
		Provider: "WATCHMAN", Severity: risk.Low, IsKnown: true, Categories: []string{},
		GivenAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	if w.flagged[subject.Address] {
		v.Severity, v.Categories = risk.Severe, []string{"theft"}
	}
	return v, nil
}

func (w *watchman) addresses() (asked []chain.Address) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.asked {
		asked = append(asked, s.Address)
	}
	return asked
}

// flexEnv is an organization whose customers pay a flexDesk. Its dollars are what the desk delivers.
type flexEnv struct {
	*testEnv
	till     *flexDesk
	watch    *watchman
	policy   risk.Policy
	tampered []string
}

func newFlexEnv(t *testing.T) *flexEnv {
	t.Helper()
	base := newUnfunded(t, noSwaps)
	e := &flexEnv{
		testEnv: base, till: &flexDesk{t: t, clock: base.clock, key: signertest.SwapProviderKey},
		watch: &watchman{flagged: map[chain.Address]bool{}},
	}
	e.policy = risk.Policy{Providers: e.watch, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault}
	e.Harness = e.openFlex(e.db)
	e.net.Mint(payer, "", units(10*coin))
	e.net.Mint(otherHand, "", units(10*coin))
	e.net.Mine(2)
	e.turn()
	return e
}

// openFlex builds another service on a database.
func (e *flexEnv) openFlex(db *pg.DB) *harness.Harness {
	return e.openFlexWith(db, provider.Member{Provider: e.till})
}

// openFlexWith is openFlex with other providers.
func (e *flexEnv) openFlexWith(db *pg.DB, providers ...provider.Member) *harness.Harness {
	h := harness.New(harness.Config{
		DB: db, Chain: e.net.ToChain(), Signer: e.signer, AttestKey: e.attest, Grants: e.grants, Prices: e.prices,
		RiskPolicy: e.policy, SwapProviders: providers, Log: slog.New(slog.DiscardHandler),
		OnTamperedDepositSwap: func(id string) { e.tampered = append(e.tampered, id) },
	})
	h.DepositSwaps.Destination = provider.Token{Chain: signertest.Chain, Contract: signertest.Token}
	return h
}

// addNext adds a provider that is asked after the till.
func (e *flexEnv) addNext() *flexDesk {
	next := &flexDesk{t: e.T, clock: e.clock, key: signertest.SwapProviderKey, name: "NEXT"}
	e.Harness = e.openFlexWith(e.db, provider.Member{Provider: e.till}, provider.Member{Provider: next})
	return next
}

// screen switches the screening on, for every amount.
func (e *flexEnv) screen() {
	e.Helper()
	e.setting("screeningUsdThreshold", `"0"`)
	e.setting("screeningSeverityThreshold", `"MEDIUM"`)
}

// flexRequest is the usual request: ether of the payer for ann.
func flexRequest(key string) depositswap.Request {
	return depositswap.Request{
		IdempotencyKey: &key, CustomerID: "ann", OriginTokenID: "ethereum:native", RefundAddress: string(refundTo),
		Actor: audit.APIKey("key"),
	}
}

// request makes a deposit swap.
func (e *flexEnv) request(r depositswap.Request) depositswap.DepositSwap {
	e.Helper()
	d, isReplayed, _, err := e.DepositSwaps.Request(e.ctx, e.org, r)
	e.must(err)
	if isReplayed || d.Status != depositswap.AwaitingDeposit {
		e.Fatalf("a new deposit swap is %s, replayed %v, want AWAITING_DEPOSIT and new", d.Status, isReplayed)
	}
	e.look("the request")
	return d
}

func (e *flexEnv) loadFlex(id string) depositswap.DepositSwap {
	e.Helper()
	d, err := e.DepositSwaps.ByID(e.ctx, e.org, id)
	e.must(err)
	return d
}

// walletOf returns the address at which the desk delivers.
func (e *flexEnv) walletOf(id string) chain.Address {
	e.Helper()
	found := e.texts(`SELECT address FROM wallets WHERE purpose = 'DEPOSIT_SWAP' AND subject = $1`, id)
	if len(found) != 1 {
		e.Fatalf("deposit swap %s has %d wallets, want one", id, len(found))
	}
	return chain.Address(found[0])
}

// payDesk pays ether to the desk, and makes it report that.
func (e *flexEnv) payDesk(d depositswap.DepositSwap, from chain.Address, amount uint64) chain.TxHash {
	e.Helper()
	hash := e.net.Pay(from, chain.Address(d.DepositAddress), "", amount)
	e.net.Mine(2)
	e.till.says(provider.Processing, func(r *provider.Report) { r.OriginTxs = []chain.TxHash{hash} })
	return hash
}

// deliverFlex pays dollars to the wallet of a deposit swap, and lets them become final.
func (e *flexEnv) deliverFlex(id string, amounts ...uint64) {
	e.Helper()
	for _, amount := range amounts {
		e.net.Pay(solver, e.walletOf(id), signertest.Token, amount)
	}
	e.settle()
}

// follow lets the worker look at every deposit swap now, and the deposits be decided.
func (e *flexEnv) follow() {
	e.Helper()
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposit_swaps SET look_at = $1 WHERE look_at IS NOT NULL`, tx.Now)
		return err
	}))
	_, err := e.DepositSwaps.Follow(e.ctx)
	e.must(err)
	e.turn()
	e.look("a look")
}

// onlyDeposit returns the one deposit of an organization.
func (e *flexEnv) deposits() (found []deposit.Deposit) {
	e.Helper()
	e.must(e.db.ReadOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		found = nil
		return deposit.ForEach(ctx, tx, e.org, deposit.Filter{}, false, func(d deposit.Deposit) error {
			found = append(found, d)
			return nil
		})
	}))
	return found
}

func parseUSD(text string) (usd money.USD) {
	if text != "" {
		usd = money.MustParseUSD(text)
	}
	return usd
}

// one returns the one deposit of the organization, with a status.
func (e *flexEnv) one(status deposit.Status) deposit.Deposit {
	e.Helper()
	found := e.deposits()
	if len(found) != 1 || found[0].Status != status {
		e.Fatalf("got the deposits %+v, want one that is %s", found, status)
	}
	return found[0]
}

// wantFlex expects the status of a deposit swap.
func (e *flexEnv) wantFlex(id string, want depositswap.Status) depositswap.DepositSwap {
	e.Helper()
	d := e.loadFlex(id)
	if d.Status != want {
		e.Fatalf("got a deposit swap that is %s, want %s", d.Status, want)
	}
	return d
}

// wantBalance expects what a customer has of the dollars.
func (e *flexEnv) wantBalance(customerID string, want int64) {
	e.Helper()
	got := e.number(`
		SELECT coalesce(sum(b.balance), 0)::bigint FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
		WHERE a.org_id = $1 AND a.kind = 'CUSTOMER' AND a.subject = $2 AND a.mint_id = $3`, e.org, customerID, dollars)
	if got != want {
		e.Errorf("%s has %d, want %d", customerID, got, want)
	}
}

// depositSwapRef names the wallet of a deposit swap.
func depositSwapRef(orgID, id string) signer.WalletRef {
	return signer.WalletRef{OrgID: orgID, Family: chain.EVM, Purpose: wallet.DepositSwap, Subject: id}
}
