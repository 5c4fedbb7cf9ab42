package checkouts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/webhook"
)

// The mints of the tests. Dollars exist on three chains and are pegged; euros are in the catalogue, and no product
// accepts them.
const (
	dollars       = 1
	ether         = 2
	baseDollars   = 3
	euros         = 4
	solanaDollars = 5
	bitcoin       = 6
	twin          = 7 // another token of Ethereum whose symbol is that of the dollars

	million   = 1_000_000
	milliCoin = 1_000_000_000_000_000
	blockTime = 5 * time.Second
	finality  = 3 // blocks from the latest to the final one
)

var (
	start        = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	payer        = sim.Address("payer")
	thief        = sim.Address("flagged payer")
	unknownToken = sim.Address("a token that is not in the catalogue")
	twinToken    = sim.Address("another token named USDC")
	solanaToken  = sim.SolanaAddress("dollars")
)

// priceTable is a source of prices that a test changes.
type priceTable struct {
	mu     sync.Mutex
	quotes map[int]price.Quote
	clock  func() time.Time
}

// USD implements price.Source.
func (p *priceTable) USD(_ context.Context, mintID int) (price.Quote, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.quotes[mintID]
	if !ok {
		return price.Quote{}, fmt.Errorf("mint %d: %w", mintID, price.ErrUnavailable)
	}
	if q.QuotedAt.IsZero() {
		q.QuotedAt = p.clock()
	}
	return q, nil
}

// set says what a mint is worth; "" is nothing that any source knows.
func (p *priceTable) set(mintID int, usd string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.quotes, mintID)
	if usd != "" {
		p.quotes[mintID] = price.Quote{Price: money.MustParseUSD(usd), Source: "table"}
	}
}

// freeze makes a price as old as it is now.
func (p *priceTable) freeze(mintID int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.quotes[mintID]
	q.QuotedAt = p.clock()
	p.quotes[mintID] = q
}

// watchman is a risk provider that flags the payments of the thief.
type watchman struct{}

// Name implements risk.Screener.
func (watchman) Name() string { return "WATCHMAN" }

// Covers implements risk.Screener.
func (watchman) Covers(chain.Name) bool { return true }

// Screen implements risk.Screener.
func (watchman) Screen(_ context.Context, subject risk.Subject) (risk.Verdict, error) {
	v := risk.Verdict{
		Provider: "WATCHMAN", Severity: risk.Low, IsKnown: true, Categories: []string{}, GivenAt: start,
	}
	if subject.Address == thief {
		v.Severity, v.Categories = risk.Severe, []string{"theft"}
	}
	return v, nil
}

// testEnv is a shop. Time passes on the clock and on the chains together.
type testEnv struct {
	*testing.T
	*service.Service
	ctx      context.Context
	database pgtest.Database
	db       *pg.DB
	nets     map[chain.Name]*sim.Chain
	signer   signer.Signer
	attest   ed25519.PublicKey
	grants   *signer.GrantKey
	prices   *priceTable
	org      string
	other    string // another organization
	stopped  map[chain.Name]bool

	mu  sync.Mutex
	now time.Time
}

func (e *testEnv) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func catalogue() []mint.Mint {
	token := mint.Mint{
		ID: dollars, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "Dollars", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(100_000), MinWithdraw: money.Units(10), ConfirmationsRequired: finality,
		Finality: "FINALIZED",
	}
	native, base, euro, solana, btc, twins := token, token, token, token, token, token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = ether, mint.Native, "",
		"ETH", "Ether", 18
	native.MinDeposit = money.Units(milliCoin / 10)
	base.ID, base.Chain = baseDollars, chain.Base
	euro.ID, euro.Contract, euro.Symbol, euro.Name = euros, signertest.LimitedToken, "EURX", "Euros"
	solana.ID, solana.Chain, solana.Contract = solanaDollars, chain.Solana, solanaToken
	btc.ID, btc.Chain, btc.Kind, btc.Contract, btc.Symbol, btc.Name, btc.Decimals = bitcoin, chain.Bitcoin,
		mint.Native, "", "BTC", "Bitcoin", 8
	btc.MinDeposit, btc.Finality = money.Units(1000), "DEPTH"
	twins.ID, twins.Contract, twins.Name = twin, twinToken, "Other dollars"
	return []mint.Mint{token, native, base, euro, solana, btc, twins}
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	e := &testEnv{
		T: t, ctx: t.Context(), now: start, nets: map[chain.Name]*sim.Chain{}, stopped: map[chain.Name]bool{},
	}
	for _, name := range []chain.Name{chain.Ethereum, chain.Base, chain.Solana, chain.Bitcoin} {
		e.nets[name] = sim.New(sim.Config{
			Name: name, FinalityDepth: finality, BlockTime: blockTime, Start: start, TracesOff: true,
			UTXO: name == chain.Bitcoin,
		})
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	e.must(err)
	e.grants = grants
	e.openSigner()
	e.prices = &priceTable{clock: e.clock, quotes: map[int]price.Quote{}}
	for mintID, usd := range map[int]string{
		dollars: "1", ether: "2000", baseDollars: "1", euros: "1.1", solanaDollars: "1", bitcoin: "50000", twin: "0.5",
	} {
		e.prices.set(mintID, usd)
	}
	e.database = pgtest.NewDatabase(t)
	e.db = pgtest.Open(t, e.database, e.clock)
	e.Service = e.open(e.db)
	e.must(journal.Import(e.ctx, e.db, e.signer, e.Wallets))
	e.must(mint.Sync(e.ctx, e.db, catalogue()))
	for _, orgID := range []*string{&e.org, &e.other} {
		made, _, err := org.Create(e.ctx, e.db, "Acme")
		e.must(err)
		*orgID = made.ID
		for _, family := range []chain.Family{chain.EVM, chain.SolanaFamily, chain.BitcoinFamily} {
			_, err := e.Wallets.Treasury(e.ctx, made.ID, family)
			e.must(err)
		}
	}
	for _, hand := range []chain.Address{payer, thief} {
		for _, token := range []chain.Address{signertest.Token, signertest.LimitedToken, unknownToken, twinToken} {
			e.nets[chain.Ethereum].Mint(hand, token, money.Units(1_000_000*million))
			e.nets[chain.Base].Mint(hand, token, money.Units(1_000_000*million))
		}
		e.nets[chain.Ethereum].Mint(hand, "", money.Units(9000*milliCoin))
		e.nets[chain.Solana].Mint(hand, solanaToken, money.Units(1_000_000*million))
		e.nets[chain.Bitcoin].Mint(hand, "", money.Units(1_000_000*million))
	}
	e.turn()
	return e
}

// openSigner makes a signer with a seed of every family.
func (e *testEnv) openSigner() {
	e.Helper()
	seed, err := keys.NewSeed()
	e.must(err)
	seed = seed.ForNetwork(chain.Local)
	conf := local.Config{
		Journal: filepath.Join(e.TempDir(), "journal"), Clock: e.clock, Policy: signertest.NewPolicy(),
		Grants: e.grants,
	}
	e.must(local.CreateJournal(conf, seed))
	opened, err := local.Open(conf, seed)
	e.must(err)
	e.Cleanup(func() { e.must(opened.Close()) })
	e.signer, e.attest = opened, seed.AttestKey().PublicKey()
}

// open builds another service on a database, as a second process has one.
func (e *testEnv) open(db *pg.DB) *service.Service {
	chains, confs := chain.Chains{}, map[chain.Name]service.ChainConfig{}
	for name, net := range e.nets {
		chains[name], confs[name] = net.ToChain(), service.ChainConfig{Start: new(uint64)}
	}
	return service.New(service.Config{
		Environment: webhook.Test, DevelopmentWebhooks: true, Chains: confs,
		IsPegged: func(mintID int) bool {
			return mintID == dollars || mintID == baseDollars || mintID == solanaDollars
		},
	}, service.Parts{
		DB: db, Signer: e.signer, AttestKey: e.attest, Grants: e.grants, Chains: chains, Prices: e.prices,
		Risk: risk.Policy{Providers: watchman{}, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault},
		Log:  slog.New(slog.DiscardHandler),
	})
}

// screen switches the screening on, for every amount.
func (e *testEnv) screen() {
	e.Helper()
	for name, value := range map[string]string{
		"screeningUsdThreshold": `"0"`, "screeningSeverityThreshold": `"MEDIUM"`,
	} {
		e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), e.org, org.Changes{name: []byte(value)})
			return err
		}))
	}
}

const turnsMax = 200

// walk lets the walks that are not stopped see everything that the chains have.
func (e *testEnv) walk() {
	e.Helper()
	for name := range e.nets {
		if e.stopped[name] {
			continue
		}
		walker := e.Walker(name)
		for _, step := range []func(context.Context) (bool, error){walker.StepHead, walker.StepFinal} {
			for range turnsMax {
				moved, err := step(e.ctx)
				e.must(err)
				if !moved {
					break
				}
			}
		}
	}
}

// turn lets every part work until nothing is left to do.
func (e *testEnv) turn() {
	e.Helper()
	e.walk()
	_, err := e.Deposits.CreditWaiting(e.ctx)
	e.must(err)
	e.settle()
	for range turnsMax {
		numbered, err := e.Sequencer.Step(e.ctx)
		e.must(err)
		if numbered == 0 {
			break
		}
	}
	e.look()
}

// settle lets the checkouts know of their payments, and ends those whose time is over.
func (e *testEnv) settle() {
	e.Helper()
	for {
		claimed, err := e.Checkouts.SettleDue(e.ctx)
		e.must(err)
		if claimed == 0 {
			break
		}
	}
	e.must(e.Checkouts.ExpireDue(e.ctx))
}

// mine makes blocks on every chain without looking at them.
func (e *testEnv) mine(blocks int) {
	for _, net := range e.nets {
		net.Mine(blocks)
	}
	e.mu.Lock()
	e.now = e.now.Add(time.Duration(blocks) * blockTime)
	e.mu.Unlock()
}

// block makes one block on every chain, and lets everything see it.
func (e *testEnv) block() {
	e.Helper()
	e.mine(1)
	e.turn()
}

// finalize makes what is in blocks final.
func (e *testEnv) finalize() {
	e.Helper()
	e.mine(finality)
	e.turn()
}

// pass lets time pass, on the clock and on the chains.
func (e *testEnv) pass(d time.Duration) {
	e.Helper()
	e.skip(d)
	e.turn()
}

// skip is pass without a look.
func (e *testEnv) skip(d time.Duration) {
	for _, net := range e.nets {
		net.SkipTime(d - blockTime)
		net.Mine(1)
	}
	e.mu.Lock()
	e.now = e.now.Add(d)
	e.mu.Unlock()
}

// tick lets time pass on the clock alone.
func (e *testEnv) tick(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
}

// look checks the books.
func (e *testEnv) look() {
	e.Helper()
	r, err := verify.RunChecks(e.ctx, e.db, verify.WithoutSchema)
	e.must(err)
	if !r.IsIntact() {
		var b bytes.Buffer
		_, err := r.WriteTo(&b)
		e.must(err)
		e.Fatalf("the books are not sound:\n%s", b.String())
	}
}

// product makes a product for a hundred dollars, which is paid in dollars of three chains, ether or bitcoin.
func (e *testEnv) product(changes ...func(*checkout.Draft)) string {
	e.Helper()
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price = "Gold plan", checkout.FixedPrice, new("100")
	d.AcceptedMintIDs, d.MaxQuantity = []int{dollars, ether, solanaDollars, bitcoin}, 10
	for _, change := range changes {
		change(&d)
	}
	p, _, err := e.Checkouts.Create(e.ctx, e.org, checkout.Request{Draft: d, Actor: audit.APIKey("key")})
	e.must(err)
	return p.ID
}

func withTolerance(bps int) func(*checkout.Draft) {
	return func(d *checkout.Draft) { d.UnderpaymentToleranceBps = bps }
}

func holdingLate(d *checkout.Draft) { d.LatePaymentPolicy = checkout.HoldLate }

func oncePerReference(d *checkout.Draft) { d.OnePerReference = true }

// The handles of the usual checkout, which each of its events has.
const (
	usualReference = "order-1"
	usualKey       = "key-1"
)

// request asks for the usual checkout of a product: half an hour for a hundred dollars.
func request(productID string, changes ...func(*checkout.CheckoutRequest)) checkout.CheckoutRequest {
	r := checkout.CheckoutRequest{
		Items:     []checkout.ItemRequest{{ProductID: productID, Quantity: 1}},
		Reference: new(usualReference), IdempotencyKey: new(usualKey), Metadata: map[string]string{"cart": "7"},
		Actor: audit.APIKey("key"),
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// checkout makes a checkout, and opens options.
func (e *testEnv) checkout(r checkout.CheckoutRequest, mintIDs ...int) string {
	e.Helper()
	c, isReplayed, err := e.Checkouts.CreateCheckout(e.ctx, e.org, r)
	e.must(err)
	if isReplayed || c.Status != outcome.Open {
		e.Fatalf("a new checkout is %s, replayed %v, want OPEN and new", c.Status, isReplayed)
	}
	for _, mintID := range mintIDs {
		_, err := e.Checkouts.OpenOption(e.ctx, e.org, c.ID, mintID)
		e.must(err)
	}
	return c.ID
}

// usual makes the usual checkout, of a product with these changes, that can be paid in dollars and ether.
func (e *testEnv) usual(changes ...func(*checkout.Draft)) string {
	e.Helper()
	return e.checkout(request(e.product(changes...)), dollars, ether)
}

func (e *testEnv) load(checkoutID string) checkout.Checkout {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	return c
}

func (e *testEnv) option(checkoutID string, mintID int) checkout.Option {
	e.Helper()
	options := e.load(checkoutID).Options
	i := slices.IndexFunc(options, func(o checkout.Option) bool { return o.Mint.ID == mintID })
	if i < 0 {
		e.Fatalf("checkout %s has no option in mint %d", checkoutID, mintID)
	}
	return options[i]
}

// address returns the address of a checkout on the chains of a family.
func (e *testEnv) address(checkoutID string, family chain.Family) chain.Address {
	e.Helper()
	found := e.texts(`SELECT address FROM wallets WHERE purpose = 'CHECKOUT' AND subject = $1 AND family = $2`,
		checkoutID, string(family))
	if len(found) != 1 {
		e.Fatalf("checkout %s has %d wallets of %s, want one", checkoutID, len(found), family)
	}
	return chain.Address(found[0])
}

func mintOf(mintID int) mint.Mint {
	all := catalogue()
	return all[slices.IndexFunc(all, func(m mint.Mint) bool { return m.ID == mintID })]
}

// pay puts a payment to the address of a checkout into the pool.
func (e *testEnv) pay(checkoutID string, mintID int, units uint64) chain.TxHash {
	e.Helper()
	return e.payFrom(payer, checkoutID, mintID, units)
}

func (e *testEnv) payFrom(from chain.Address, checkoutID string, mintID int, units uint64) chain.TxHash {
	e.Helper()
	m := mintOf(mintID)
	return e.nets[m.Chain].Pay(from, e.address(checkoutID, m.Chain.Family()), m.Contract, units)
}

// seen pays, and lets a block show it.
func (e *testEnv) seen(checkoutID string, mintID int, units uint64) chain.TxHash {
	e.Helper()
	hash := e.pay(checkoutID, mintID, units)
	e.block()
	return hash
}

// paid pays, and lets it become final and credited.
func (e *testEnv) paid(checkoutID string, mintID int, units uint64) chain.TxHash {
	e.Helper()
	hash := e.seen(checkoutID, mintID, units)
	e.finalize()
	return hash
}

// fork removes the last blocks of a chain.
func (e *testEnv) fork(name chain.Name, blocks int, dropped ...chain.TxHash) {
	e.nets[name].Fork(blocks, dropped...)
	e.nets[name].Mine(blocks)
}

// deposits returns the deposits with a status, the oldest first.
func (e *testEnv) deposits(status string) []string {
	e.Helper()
	return e.texts(`SELECT deposit_id FROM deposits WHERE status = $1 ORDER BY created_at, deposit_id`, status)
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

// exec writes as the owner of the tables.
func (e *testEnv) exec(sql string, args ...any) {
	e.Helper()
	_, err := pgtest.OwnerPool(e.T, e.db).Exec(e.ctx, sql, args...)
	e.must(err)
}

// is expects a status with these exceptions, the most severe first.
func (e *testEnv) is(checkoutID string, status outcome.Status, exceptions ...outcome.Exception) checkout.Checkout {
	e.Helper()
	c := e.load(checkoutID)
	if c.Status != status || !slices.Equal(c.Exceptions, exceptions) {
		e.Fatalf("got a checkout that is %s with %v, want %s with %v", c.Status, c.Exceptions, status, exceptions)
	}
	return c
}

// ending is what a story leaves.
type ending struct {
	status        outcome.Status
	exceptions    []outcome.Exception
	seen, counted string        // in the currency of the checkout
	payments      []string      // "CREDITED 100" and so on, see describe
	events        []string      // without CHECKOUT_, in their order
	actions       []string      // of the audit log, in their order
	books         map[int]int64 // PRODUCT/CHECKOUT by mint, without zeros
	check         func(checkout.Checkout)
}

// describe says of a payment what it is to the checkout.
func describe(p checkout.Payment) string {
	text := string(p.Status)
	if p.Counted == nil {
		return text + " unvalued"
	}
	text += " " + p.Counted.Text()
	if p.QuoteSeq != nil {
		text += fmt.Sprintf(" by quote %d", *p.QuoteSeq)
	} else {
		text += " by market"
	}
	if !p.IsInTime {
		text += " late"
	}
	if !p.IsAccepted {
		text += " not accepted"
	}
	if !p.Counts {
		text += " not counted"
	}
	return text
}

// ends expects how a story ends. Settling again changes nothing.
func (e *testEnv) ends(checkoutID string, want ending) {
	e.Helper()
	c := e.is(checkoutID, want.status, want.exceptions...)
	if c.SeenSum.Text() != want.seen || c.Counted.Text() != want.counted {
		e.Errorf("seen %s and counted %s, want %s and %s", c.SeenSum.Text(), c.Counted.Text(), want.seen, want.counted)
	}
	var payments []string
	for _, p := range c.Payments {
		payments = append(payments, describe(p))
	}
	// Those of one moment have no order.
	slices.Sort(payments)
	slices.Sort(want.payments)
	if !slices.Equal(payments, want.payments) {
		e.Errorf("got the payments\n%s\nwant\n%s", strings.Join(payments, "\n"), strings.Join(want.payments, "\n"))
	}
	e.wantEvents(c, want.events...)
	actions := e.texts(`SELECT action || coalesce(' ' || (detail->>'from') || ' ' || (detail->>'to'), '')
		FROM audit_log WHERE resource_id = $1 ORDER BY audit_id`, checkoutID)
	for i := range actions {
		actions[i] = strings.TrimPrefix(actions[i], "checkout.")
	}
	actions = slices.DeleteFunc(actions, func(a string) bool { return a == "created" || a == "option_opened" })
	if !slices.Equal(actions, want.actions) {
		e.Errorf("got the audit rows %q, want %q", actions, want.actions)
	}
	e.wantBooks(want.books)
	if want.check != nil {
		want.check(c)
	}
	e.wantStable(checkoutID)
}

// wantEvents expects the events of a checkout, each with the caller's own words.
func (e *testEnv) wantEvents(c checkout.Checkout, want ...string) {
	e.Helper()
	var got []string
	for _, text := range e.texts(`SELECT type || ' ' || convert_from(data, 'UTF8') FROM events
		WHERE resource_id = $1 ORDER BY resource_seq`, c.ID) {
		name, data, _ := strings.Cut(text, " ")
		got = append(got, strings.TrimPrefix(name, "CHECKOUT_"))
		var body struct {
			CheckoutID     string            `json:"checkoutId"`
			Reference      *string           `json:"reference"`
			IdempotencyKey *string           `json:"idempotencyKey"`
			Metadata       map[string]string `json:"metadata"`
			Status         string            `json:"status"`
			Exception      string            `json:"exception"`
		}
		e.must(json.Unmarshal([]byte(data), &body))
		if name != "CHECKOUT_EXCEPTION" && name != "CHECKOUT_"+body.Status ||
			name == "CHECKOUT_EXCEPTION" && body.Exception == "NONE" {
			e.Errorf("%s says that the checkout is %s with %s", name, body.Status, body.Exception)
		}
		if body.CheckoutID != c.ID || body.Metadata["cart"] != "7" || body.Status == "" ||
			!isSame(body.Reference, c.Reference) || body.IdempotencyKey == nil ||
			*body.IdempotencyKey != c.IdempotencyKey {
			e.Errorf("%s says %s, which lacks what the caller sent", name, data)
		}
	}
	if !slices.Equal(got, want) {
		e.Errorf("got the events %q, want %q", got, want)
	}
}

func isSame(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// wantBooks expects what the product has of each mint.
func (e *testEnv) wantBooks(want map[int]int64) {
	e.Helper()
	got := map[int]int64{}
	e.must(e.db.ReadSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.mint_id, b.balance::bigint FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.kind = 'PRODUCT' AND a.subject = 'CHECKOUT' AND b.balance <> 0`)
		if err != nil {
			return err
		}
		var mintID int
		var balance int64
		_, err = pgx.ForEachRow(rows, []any{&mintID, &balance}, func() error {
			got[mintID] = balance
			return nil
		})
		return err
	}))
	if len(want) == 0 {
		want = map[int]int64{}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("the product has %v, want %v", got, want)
	}
}

// wantStable expects that a further settlement changes nothing.
func (e *testEnv) wantStable(checkoutID string) {
	e.Helper()
	before := e.snapshot()
	e.tick(time.Second)
	e.must(e.Checkouts.Settle(e.ctx, checkoutID))
	e.must(e.Checkouts.ExpireDue(e.ctx))
	if after := e.snapshot(); after != before {
		e.Errorf("settling again changed%s", compare(before, after))
	}
}

// snapshot returns all that a settlement may write.
func (e *testEnv) snapshot() string {
	e.Helper()
	var all []string
	for _, sql := range []string{
		`SELECT to_jsonb(c)::text FROM checkouts c ORDER BY checkout_id`,
		`SELECT to_jsonb(p)::text FROM checkout_payments p ORDER BY deposit_id`,
		`SELECT json_build_object('events', count(*))::text FROM events`,
		`SELECT json_build_object('audit rows', count(*))::text FROM audit_log`,
	} {
		all = append(all, e.texts(sql)...)
	}
	return strings.Join(all, "\n")
}

// compare names the members of rows that differ.
func compare(before, after string) (differences string) {
	rows := strings.Split(after, "\n")
	for i, text := range strings.Split(before, "\n") {
		was, is := map[string]any{}, map[string]any{}
		if i >= len(rows) || json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal([]byte(rows[i]), &is) != nil {
			return differences + "\nrows: " + before + "\ninto " + after
		}
		for name := range is {
			if fmt.Sprint(was[name]) != fmt.Sprint(is[name]) {
				differences += fmt.Sprintf("\n%s: %v into %v", name, was[name], is[name])
			}
		}
	}
	return differences
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
