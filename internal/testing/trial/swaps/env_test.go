package swaps

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
)

// The mints of the tests. Dollars and euros have six decimals and one price.
const (
	dollars = 1
	ether   = 2
	euros   = 3
	coin    = 1_000_000_000_000_000_000
	million = 1_000_000
)

// amountIn, amountOut and minOut are those of the usual swap: the desk keeps half a percent, and one percent
// is the slippage.
const (
	amountIn  = 300 * million
	amountOut = 298_500_000
	minOut    = 295_515_000
	funded    = 1000 * million
)

// errDeskDown is what a desk says that gives no answer.
var errDeskDown = errors.New("no answer")

// desk is a provider that does what a test says. Its firm quotes are genuine: it signs them as 1Click does.
type desk struct {
	t     testing.TB
	name  string
	clock func() time.Time

	mu       sync.Mutex
	firm     func(provider.Ask) error                // refuses a firm question; nil: none
	dry      func(provider.Ask) error                // refuses a dry question; nil: none
	change   func(provider.Ask, *quotetest.OneClick) // changes what a firm quote signs
	price    func(provider.Ask) (out uint64)         // units out; nil: half a percent below the input
	lifetime time.Duration                           // of a firm quote
	asked    int                                     // firm questions
	dryAsked int
	status   func(provider.Ref) (provider.Report, error)
}

func (d *desk) Name() string { return d.name }

func (d *desk) Assets(context.Context) (assets []provider.Asset, err error) {
	for _, contract := range []chain.Address{"", signertest.Token, signertest.LimitedToken} {
		token := provider.Token{Chain: signertest.Chain, Contract: contract}.Canonical()
		assets = append(assets, provider.Asset{
			Token: token, ID: signertest.SwapAsset(signertest.Chain, contract), Accepts: true, Delivers: true,
		})
	}
	return assets, nil
}

func (d *desk) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := money.Zero
	if d.price != nil {
		out = money.Units(d.price(ask))
	} else {
		out, _ = ask.AmountIn.Bps(9950)
	}
	least, err := out.Bps(uint64(10_000 - ask.SlippageBps))
	if err != nil {
		return provider.Offer{}, err
	}
	if !ask.IsFirm {
		d.dryAsked++
		if d.dry != nil {
			if err := d.dry(ask); err != nil {
				return provider.Offer{}, err
			}
		}
		return provider.Offer{
			Provider: d.name, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: out, MinAmountOut: least,
			Estimate: 10 * time.Second,
		}, nil
	}
	d.asked++
	if d.firm != nil {
		if err := d.firm(ask); err != nil {
			return provider.Offer{}, err
		}
	}
	origin, destination := findID(ask.Origin), findID(ask.Destination)
	now := d.clock()
	quote := quotetest.OneClick{
		DepositAddress: string(signertest.SwapDepositAddress(fmt.Sprintf("%s %s %d", d.name, ask.Reference, d.asked))),
		OriginAsset:    origin, DestinationAsset: destination, AmountIn: ask.AmountIn, AmountOut: out,
		MinAmountOut: least, AmountInUSD: "10.00", AmountOutUSD: "9.90", Recipient: string(ask.Recipient),
		RefundTo: string(ask.RefundTo), SlippageBps: ask.SlippageBps, SignedAt: now, Deadline: now.Add(d.lifetime),
	}
	if d.change != nil {
		d.change(ask, &quote)
	}
	raw := quote.Sign(d.t, signertest.SwapProviderKey)
	signed, err := signedquote.VerifyOneClick(raw, []ed25519.PublicKey{
		signertest.SwapProviderKey.Public().(ed25519.PublicKey),
	})
	if err == nil {
		err = signed.CheckTerms(signedquote.Terms{
			OriginAsset: origin, DestinationAsset: destination, AmountIn: ask.AmountIn,
			Recipient: string(ask.Recipient),
			RefundTo:  string(ask.RefundTo), SlippageBpsMax: ask.SlippageBps,
		})
	}
	if err != nil {
		return provider.Offer{}, provider.CheckSigned(err)
	}
	return provider.NewFirmOffer(d.name, raw, signed), nil
}

// findID returns the name that the desk has for a token.
func findID(t provider.Token) string { return signertest.SwapAsset(t.Chain, t.Contract) }

func (d *desk) Status(_ context.Context, ref provider.Ref, _ chain.TxHash) (provider.Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status == nil {
		return d.report(provider.Processing, provider.RefundNone), nil
	}
	return d.status(ref)
}

func (d *desk) report(s provider.Status, refund provider.RefundReport) provider.Report {
	return provider.Report{
		Provider: d.name, Status: s, Word: strings.ToLower(string(s)), Refund: refund, Reason: "so says the desk",
		UpdatedAt: d.clock(), Raw: []byte(`{}`),
	}
}

// says makes the desk report a status of every swap.
func (d *desk) says(s provider.Status, refund provider.RefundReport) {
	d.set(func() {
		d.status = func(provider.Ref) (provider.Report, error) { return d.report(s, refund), nil }
	})
}

func (d *desk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// scriptedSigner is a signer that refuses what a test says.
type scriptedSigner struct {
	signer.Signer
	mu    sync.Mutex
	admit func(signer.Intent) error
	late  func(signer.Intent) // called after an admission
	sign  func(signer.SignRequest) error
}

func (s *scriptedSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	s.mu.Lock()
	refuse, after := s.admit, s.late
	s.mu.Unlock()
	if refuse != nil {
		if err := refuse(i); err != nil {
			return signer.Entry{}, err
		}
	}
	entry, err := s.Signer.AdmitIntent(ctx, i)
	if after != nil {
		after(i)
	}
	return entry, err
}

func (s *scriptedSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	s.mu.Lock()
	refuse := s.sign
	s.mu.Unlock()
	if refuse != nil && r.Act == signer.Pay {
		if err := refuse(r); err != nil {
			return signer.SignedTx{}, err
		}
	}
	return s.Signer.Sign(ctx, r)
}

// testEnv is an organization with a customer, ann, whose thousand dollars are in its treasury.
type testEnv struct {
	*testing.T
	*harness.Harness
	ctx      context.Context
	database pgtest.Database
	db       *pg.DB
	net      *sim.Chain
	signer   *scriptedSigner
	attest   ed25519.PublicKey
	grants   *signer.GrantKey
	desk     *desk
	others   []*desk              // further providers
	further  []provider.Member    // the same, which are no desks
	limits   map[string]money.USD // of providers, by name
	conf     service.SwapConfig
	prices   *priceTable
	org      string
	quick    bool // no check after each pass

	mu  sync.Mutex
	now time.Time
}

// priceTable is a source of prices that a test changes.
type priceTable struct {
	look   func() // called before each look, unless nil
	mu     sync.Mutex
	quotes map[int]price.Quote
	clock  func() time.Time
}

func (p *priceTable) USD(_ context.Context, mintID int) (price.Quote, error) {
	if p.look != nil {
		p.look()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.quotes[mintID]
	if !ok {
		return price.Quote{}, fmt.Errorf("mint %d: %w", mintID, price.ErrUnavailable)
	}
	if q.QuotedAt.IsZero() {
		q.QuotedAt = p.clock()
	}
	for i := range q.Components {
		q.Components = slices.Clone(q.Components)
		if q.Components[i].QuotedAt.IsZero() {
			q.Components[i].QuotedAt = p.clock()
		}
	}
	return q, nil
}

// forget removes the price of a mint and returns it.
func (p *priceTable) forget(mintID int) *price.Quote {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.quotes[mintID]
	delete(p.quotes, mintID)
	return &q
}

func (p *priceTable) set(mintID int, q *price.Quote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q == nil {
		delete(p.quotes, mintID)
		return
	}
	p.quotes[mintID] = *q
}

func (e *testEnv) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *testEnv) setClock(moment time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = moment
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// newUnfunded returns an environment whose customer has nothing.
func newUnfunded(t *testing.T, conf service.SwapConfig) *testEnv {
	t.Helper()
	return newUnfundedWith(t, conf, signertest.OpenUnlimited)
}

// openSigner opens a signer with an unlimited policy.
type openSigner func(testing.TB, *signer.GrantKey, func() time.Time) (*local.Signer, ed25519.PublicKey)

func newUnfundedWith(t *testing.T, conf service.SwapConfig, open openSigner) *testEnv {
	t.Helper()
	e := &testEnv{
		T: t, ctx: t.Context(), net: sim.New(sim.Config{FinalityDepth: 1, BlockTime: 5 * time.Second}),
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), conf: conf,
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	e.must(err)
	e.grants = grants
	sign, attest := open(t, grants, e.clock)
	e.signer, e.attest = &scriptedSigner{Signer: sign}, attest
	e.desk = &desk{t: t, name: signertest.SwapProvider, clock: e.clock, lifetime: 24 * time.Hour}
	e.prices = &priceTable{clock: e.clock, quotes: map[int]price.Quote{
		dollars: {Price: money.MustParseUSD("1"), Source: "fixed"}, euros: {
			Price:  money.MustParseUSD("1"),
			Source: "fixed",
		},
		ether: {Price: money.MustParseUSD("3000"), Source: "fixed"},
	}}
	e.database = pgtest.NewDatabase(t)
	e.db = pgtest.Open(t, e.database, e.clock)
	e.Harness = e.open(e.db)
	e.must(journal.Import(e.ctx, e.db, e.signer, e.Wallets))
	token := mint.Mint{
		ID: dollars, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "DAI",
		Name:   "Dollars", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(10),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 1, Finality: "FINALIZED",
	}
	native, other := token, token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = ether, mint.Native, "",
		"ETH", "Ether", 18
	other.ID, other.Contract, other.Symbol, other.Name = euros, signertest.LimitedToken, "EURX", "Euros"
	e.must(mint.Sync(e.ctx, e.db, []mint.Mint{token, native, other}))
	made, _, err := org.Create(e.ctx, e.db, "Acme")
	e.must(err)
	e.org = made.ID
	e.setting("customerSwapsEnabled", "true")
	e.setting("swappableMintIds", "[1, 2, 3]")
	e.setting("swapFeeBps", "25")
	treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
	e.must(err)
	for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
		e.net.Mint(solver, contract, money.Units(1_000_000*million))
	}
	e.net.Mint(solver, "", money.Units(10*coin))
	e.net.Pay(solver, treasury.Address, "", coin)
	return e
}

// solver has what a provider pays with.
var solver = sim.Address("solver")

// open builds another service on a database.
func (e *testEnv) open(db *pg.DB) *harness.Harness {
	var members []provider.Member
	for _, d := range append([]*desk{e.desk}, e.others...) {
		member := provider.Member{Provider: d}
		if limit, hasLimit := e.limits[d.name]; hasLimit {
			member.OutstandingUSDMax = &limit
		}
		members = append(members, member)
	}
	members = append(members, e.further...)
	return harness.New(harness.Config{
		DB: db, Chain: e.net.ToChain(), Signer: e.signer, AttestKey: e.attest, Grants: e.grants, Prices: e.prices,
		Swaps: e.conf, SwapProviders: members, Log: slog.New(slog.DiscardHandler),
	})
}

// newTestEnv returns an environment whose customer ann has a thousand dollars.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, service.SwapConfig{})
}

func newTestEnvWith(t *testing.T, conf service.SwapConfig) *testEnv {
	t.Helper()
	e := newUnfunded(t, conf)
	e.fund("ann", funded)
	return e
}

// fund deposits dollars for a customer, and sweeps them into the treasury.
func (e *testEnv) fund(customerID string, units uint64) {
	e.Helper()
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, customerID, "")
		return err
	}))
	w, err := e.Wallets.Address(e.ctx, signertest.Deposit(e.org, customerID))
	e.must(err)
	quick := e.quick
	e.quick = true
	e.net.Pay(solver, w.Address, signertest.Token, units)
	treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
	e.must(err)
	for range 20 {
		e.pass(1)
		if !e.net.Balance(treasury.Address, signertest.Token).Less(money.Units(units)) {
			break
		}
	}
	e.pass(2)
	e.quick = quick
	e.look("the funding")
}

func (e *testEnv) setting(name, value string) {
	e.Helper()
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), e.org, org.Changes{name: []byte(value)})
		return err
	})
}

func (e *testEnv) inSystem(fn func(context.Context, pg.Tx) error) {
	e.Helper()
	e.must(e.db.InSystem(e.ctx, fn))
}

// turn lets every part work once.
func (e *testEnv) turn() {
	e.Helper()
	for _, step := range e.ListSteps(nil) {
		if step.Loop == "deposit swaps" {
			continue // a test says when the worker looks
		}
		if err := step.Run(e.ctx); err != nil {
			e.Fatalf("%s: %v", step.Name, err)
		}
	}
	if _, err := e.Swaps.Follow(e.ctx); err != nil {
		e.Fatalf("swaps: %v", err)
	}
	if _, err := e.Swaps.CollectOwed(e.ctx); err != nil {
		e.Fatalf("owed: %v", err)
	}
}

// pass lets every part work, checks the books, and mines a block.
func (e *testEnv) pass(blocks int) {
	e.Helper()
	for range blocks {
		e.turn()
		if !e.quick {
			e.look("a pass")
		}
		e.net.Mine(1)
		e.mu.Lock()
		e.now = e.now.Add(5 * time.Second)
		e.mu.Unlock()
	}
}

// wait lets time pass, on the clock and on the chain.
func (e *testEnv) wait(d time.Duration) {
	e.Helper()
	e.mu.Lock()
	e.now = e.now.Add(d)
	e.mu.Unlock()
	e.net.SkipTime(d)
	e.net.Mine(2) // the first one is final
	e.turn()
	e.look("a while")
}

// look checks the books.
func (e *testEnv) look(when string) {
	e.Helper()
	r, err := verify.RunChecks(e.ctx, e.db, verify.WithoutSchema)
	e.must(err)
	if !r.IsIntact() {
		var b bytes.Buffer
		_, err := r.WriteTo(&b)
		e.must(err)
		e.Fatalf("after %s:\n%s", when, b.String())
	}
	e.checkInvariants(when)
}

// lookWithChain is look, and compares the holdings with the chain.
func (e *testEnv) lookWithChain(when string) {
	e.Helper()
	e.look(when)
	r, err := verify.CompareWithChains(e.ctx, e.db, e.Chains)
	e.must(err)
	if !r.IsIntact() {
		var b bytes.Buffer
		_, err := r.WriteTo(&b)
		e.must(err)
		e.Fatalf("after %s:\n%s", when, b.String())
	}
}

// checkInvariants checks the invariants of swaps with statements of its own.
func (e *testEnv) checkInvariants(when string) {
	e.Helper()
	for name, sql := range map[string]string{
		"I-60, claims on providers": `
			SELECT count(*) FROM (
				SELECT provider, from_mint_id AS mint,
					sum(CASE WHEN paid_at IS NULL THEN 0 ELSE amount_in END
						- CASE WHEN amount_out IS NOT NULL THEN amount_in ELSE 0 END
					- CASE WHEN EXISTS (SELECT FROM deposits d WHERE d.swap_id = s.swap_id
						AND d.arrival_role = 'REFUND') THEN refunded ELSE 0 END - short) AS due
				FROM swaps s WHERE provider IS NOT NULL GROUP BY 1, 2) c
			FULL JOIN (
				SELECT a.subject, a.mint_id,
					sum(CASE WHEN t.debit_account = a.account_id THEN t.amount ELSE -t.amount END) AS booked
				FROM ledger_accounts a JOIN ledger_transfers t ON a.account_id IN (t.debit_account, t.credit_account)
					WHERE a.kind = 'AT_PROVIDER' GROUP BY 1, 2) b
			ON b.subject = c.provider COLLATE "C" AND b.mint_id = c.mint WHERE coalesce(due, 0) <> coalesce(booked, 0)`,
		"I-61, held amounts": `
			SELECT count(*) FROM (
				SELECT CASE kind WHEN 'CUSTOMER' THEN 'IN_SWAP' ELSE 'PRODUCT_IN_SWAP' END AS kind,
					coalesce(customer_id, product) AS owner, from_mint_id AS mint,
					sum(CASE WHEN status IN ('AWAITING_APPROVAL', 'PENDING', 'DEPOSITING', 'PROCESSING')
							AND amount_out IS NULL THEN amount_in
						WHEN status = 'FAILED' AND amount_out IS NULL THEN amount_in - restored - short
						ELSE 0 END) AS due
						FROM swaps GROUP BY 1, 2, 3) c
			FULL JOIN (SELECT kind, subject, a.mint_id, balance FROM ledger_accounts a
				JOIN ledger_balances USING (account_id) WHERE kind IN ('IN_SWAP', 'PRODUCT_IN_SWAP')) b
			ON b.kind = c.kind AND b.subject = c.owner AND b.mint_id = c.mint
			WHERE coalesce(due, 0) <> coalesce(balance, 0)`,
		"I-63, one end": `
			SELECT count(*) FROM swaps s WHERE
				(SELECT count(*) FROM events WHERE resource_id = s.swap_id
					AND type = s.kind || '_SWAP_FAILED') <> (s.status = 'FAILED')::int
				OR s.kind = 'ORGANIZATION' AND (SELECT count(*) FROM events WHERE resource_id = s.swap_id
					AND type = 'ORGANIZATION_SWAP_COMPLETED') <> (s.status = 'COMPLETED')::int
				OR s.kind = 'CUSTOMER' AND (SELECT count(*) FROM events v
					JOIN deposits d ON v.resource_id = d.deposit_id
					WHERE d.swap_id = s.swap_id AND d.completes_swap AND v.type = 'CUSTOMER_DEPOSIT')
					<> (s.status = 'COMPLETED')::int`,
		"I-67, fees": `
			SELECT count(*) FROM swaps s WHERE (SELECT count(*) FROM fee_lines
				WHERE source_id = s.swap_id) <> (s.status = 'COMPLETED' AND s.kind = 'CUSTOMER')::int`,
		"I-69, strays": `
			SELECT count(*) FROM (SELECT d.mint_id AS mint, sum(d.amount) AS due FROM deposits d
				LEFT JOIN swap_arrivals a USING (deposit_id)
				WHERE a.role = 'STRAY' AND a.decision IS DISTINCT FROM 'CREDITED'
					OR d.status IN ('FLAGGED', 'REDIRECTING', 'RESOLUTION_STUCK') GROUP BY 1) c
			FULL JOIN (SELECT a.mint_id, sum(balance) AS balance FROM ledger_accounts a
				JOIN ledger_balances USING (account_id) WHERE kind = 'SUSPENSE' GROUP BY 1) b
			ON b.mint_id = c.mint WHERE coalesce(due, 0) <> coalesce(balance, 0)`,
	} {
		if n := e.number(sql); n != 0 {
			e.Fatalf("after %s: %s: %d breaches", when, name, n)
		}
	}
}

func (e *testEnv) number(sql string, args ...any) (n int64) {
	e.Helper()
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&n)
	}))
	return n
}

func (e *testEnv) texts(sql string, args ...any) (found []string) {
	e.Helper()
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	return found
}

// request is the usual request: three hundred dollars for euros.
func request(key string) swap.Request {
	return swap.Request{
		IdempotencyKey: key, CustomerID: "ann", FromMintID: dollars, ToMintID: euros, AmountIn: fmt.Sprint(amountIn),
		Actor: audit.APIKey("key"),
	}
}

// begin makes the usual swap.
func (e *testEnv) begin() swap.Swap {
	e.Helper()
	w, isReplayed, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	e.must(err)
	if isReplayed || w.Status != swap.Pending {
		e.Fatalf("a new swap is %s, replayed %v, want PENDING and new", w.Status, isReplayed)
	}
	e.look("the request")
	return w
}

// paid makes the usual swap, whose payment is final.
func (e *testEnv) paid() swap.Swap {
	e.Helper()
	w := e.begin()
	e.pay(w.ID)
	return e.load(w.ID)
}

// pay lets the payment of a swap become final.
func (e *testEnv) pay(swapID string) {
	e.Helper()
	quick := e.quick
	e.quick = true
	for range 12 {
		e.pass(1)
		if e.load(swapID).PaidAt != nil {
			break
		}
	}
	e.quick = quick
	e.turn()
	e.look("the payment")
	if w := e.load(swapID); w.PaidAt == nil {
		e.Fatalf("the payment of a swap is not final: it is %s, its order %v", w.Status, e.texts(
			`SELECT status || ' ' || coalesce(waiting_for, '') || ' ' || coalesce(last_error, '')
				FROM dispatch_orders WHERE order_id = $1`, swapID))
	}
}

func (e *testEnv) load(swapID string) swap.Swap {
	e.Helper()
	w, err := e.Swaps.ByID(e.ctx, e.org, swapID)
	e.must(err)
	return w
}

// address returns the address of a wallet.
func (e *testEnv) address(walletID string) chain.Address {
	e.Helper()
	found := e.texts(`SELECT address FROM wallets WHERE wallet_id = $1`, walletID)
	if len(found) != 1 {
		e.Fatalf("wallet %s has %d addresses", walletID, len(found))
	}
	return chain.Address(found[0])
}

// contractOf returns the contract of a mint.
func contractOf(mintID int) chain.Address {
	return map[int]chain.Address{dollars: signertest.Token, euros: signertest.LimitedToken}[mintID]
}

// arrive pays units of a mint to a wallet, and lets them become final.
func (e *testEnv) arrive(walletID string, mintID int, amounts ...uint64) {
	e.Helper()
	for _, units := range amounts {
		e.net.Pay(solver, e.address(walletID), contractOf(mintID), units)
	}
	e.settle()
}

// settle lets what is in the pool become final and be settled.
func (e *testEnv) settle() {
	e.Helper()
	quick := e.quick
	e.quick = true
	e.net.Mine(2)
	e.mu.Lock()
	e.now = e.now.Add(10 * time.Second)
	e.mu.Unlock()
	e.turn()
	e.turn()
	e.quick = quick
	e.look("an arrival")
}

// deliver pays euros to the delivery wallet of a swap.
func (e *testEnv) deliver(w swap.Swap, amounts ...uint64) {
	e.Helper()
	e.arrive(w.DeliveryWalletID, euros, amounts...)
}

// refund pays dollars to the refund wallet of a swap.
func (e *testEnv) refund(w swap.Swap, amounts ...uint64) {
	e.Helper()
	e.arrive(w.RefundWalletID, dollars, amounts...)
}

// want expects a status of a swap, and how far its refund is.
func (e *testEnv) want(swapID string, status swap.Status, refund swap.RefundStatus) swap.Swap {
	e.Helper()
	w := e.load(swapID)
	if w.Status != status || w.RefundStatus() != refund {
		e.Fatalf("got a swap that is %s with refund %s, want %s with %s", w.Status, w.RefundStatus(), status, refund)
	}
	return w
}

// wantReason expects why a swap failed.
func (e *testEnv) wantReason(swapID string, reason swap.FailureReason) {
	e.Helper()
	if w := e.load(swapID); w.FailureReason == nil || *w.FailureReason != string(reason) {
		e.Errorf("got the reason %v, want %s", deref(w.FailureReason), reason)
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// books are the balances of the accounts that swaps move, without those that are zero. AT_PROVIDER is what the
// provider has of ours.
type books map[string]int64

// wantBooks expects these balances.
func (e *testEnv) wantBooks(want books) {
	e.Helper()
	got := books{}
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.kind || ' ' || a.mint_id,
				sum(CASE WHEN t.credit_account = a.account_id THEN t.amount ELSE -t.amount END)::bigint
				* CASE WHEN a.kind IN ('AT_PROVIDER', 'SWAP_FEES_DUE') THEN -1 ELSE 1 END
			FROM ledger_accounts a JOIN ledger_transfers t ON a.account_id IN (t.debit_account, t.credit_account)
			WHERE a.kind IN ('CUSTOMER', 'IN_SWAP', 'PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP',
				'AT_PROVIDER', 'SUSPENSE', 'SWAP_FEES_DUE') GROUP BY a.kind,
				a.mint_id`)
		if err != nil {
			return err
		}
		var name string
		var balance int64
		_, err = pgx.ForEachRow(rows, []any{&name, &balance}, func() error {
			if balance != 0 {
				got[name] = balance
			}
			return nil
		})
		return err
	}))
	if !maps.Equal(got, want) {
		e.Errorf("got the books %v, want %v", got, want)
	}
}

// wantEvents expects the events of a swap and of the deposits at its wallets, in their order.
func (e *testEnv) wantEvents(swapID string, want ...string) {
	e.Helper()
	e.turn()
	// Nothing numbers events here. Those of one moment come in the order in which they were written.
	got := e.texts(`
		SELECT type FROM events WHERE resource_id = $1 OR resource_id IN (SELECT deposit_id FROM deposits
			WHERE swap_id = $1) ORDER BY created_at, ctid`, swapID)
	if !slices.Equal(got, want) {
		e.Errorf("got the events %v, want %v", got, want)
	}
}

// wantStrays expects the reasons of the stray arrivals.
func (e *testEnv) wantStrays(want ...string) {
	e.Helper()
	if got := e.texts(`SELECT reason FROM swap_arrivals WHERE role = 'STRAY' ORDER BY created_at,
		deposit_id`); !slices.Equal(got, want) {
		e.Errorf("got strays for %v, want %v", got, want)
	}
}

// wantFault expects a fault.
func (e *testEnv) wantFault(err error, code fault.Code) *fault.Fault {
	e.Helper()
	f := fault.Find(err)
	if f == nil || f.Code != code {
		e.Fatalf("got %v, want the fault %s", err, code)
	}
	return f
}

// wantNothing expects that a refused request left nothing in the database.
func (e *testEnv) wantNothing() {
	e.Helper()
	if n := e.number(`SELECT (SELECT count(*) FROM swaps) + (SELECT count(*) FROM dispatch_orders
		WHERE purpose = 'SWAP')
		+ (SELECT count(*) FROM ledger_transfers WHERE cause_kind LIKE 'SWAP%')`); n != 0 {
		e.Errorf("a refused request left %d rows", n)
	}
}

// suspension returns why the desk is suspended, or "".
func (e *testEnv) suspension() string {
	e.Helper()
	found := e.texts(`SELECT reason FROM swap_providers WHERE state = 'SUSPENDED'`)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// pricer returns the pricer of fees.
func (e *testEnv) pricer() *fee.Pricer {
	return &fee.Pricer{DB: e.db, Prices: e.prices, Log: slog.New(slog.DiscardHandler)}
}

// noSwaps is the configuration with the defaults of swaps.
var noSwaps = service.SwapConfig{}

func units(n uint64) money.Amount { return money.Units(n) }

// newUnswept returns an environment whose customer ann has a thousand dollars at its own address.
func newUnswept(t *testing.T) *testEnv {
	t.Helper()
	e := newUnfunded(t, service.SwapConfig{})
	e.creditUnswept("ann", funded)
	return e
}

// creditUnswept deposits dollars for a customer and leaves them at its address.
func (e *testEnv) creditUnswept(customerID string, n uint64) {
	e.Helper()
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, customerID, "")
		return err
	}))
	w, err := e.Wallets.Address(e.ctx, signertest.Deposit(e.org, customerID))
	e.must(err)
	e.net.Mine(1)
	e.net.Pay(solver, w.Address, signertest.Token, n)
	e.net.Mine(2)
	e.runSteps("sweeps", "dispatch")
}

// runSteps takes every step but those.
func (e *testEnv) runSteps(without ...string) {
	e.Helper()
	for _, step := range e.ListSteps(nil) {
		if step.Loop == "deposit swaps" {
			continue // a test says when the worker looks
		}
		if slices.Contains(without, step.Name) {
			continue
		}
		e.must(step.Run(e.ctx))
	}
}

// dispatchOnly lets the payments go on without a sweep.
func (e *testEnv) dispatchOnly(rounds int) {
	e.Helper()
	for range rounds {
		e.runSteps("sweeps", "voids")
		e.net.Mine(1)
	}
}
