package soak

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tyler-smith/go-bip39"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/seal"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// The mints of every run.
const (
	dollar  = 1 // a token
	coin    = 2 // native
	limited = 3 // a token that the signer's policy limits
)

const orgID = "org_soak"

// screeningGrace is how long a deposit waits for somebody to say something: shorter than
// a fault may last, so that silence flags now and then.
const screeningGrace = 45 * time.Second

// wei is one whole native coin.
const wei = 1_000_000_000_000_000_000

// tokens are the contracts; a contract is its name's address.
var tokens = map[int]chain.Address{dollar: sim.Address("dollar"), coin: "", limited: sim.Address("limited")}

// alien is a token that is in no catalogue.
var alien = sim.Address("alien")

// world is one run: the service in parts, what surrounds it, and what the
// generator remembers of what it asked for.
type world struct {
	t    testing.TB
	ctx  context.Context
	seed uint64
	rng  *rand.Rand
	figures

	net       *sim.Chain
	behind    uint64
	liars     bool // a liar would be found out
	providers int
	highest   uint64 // the highest block that ever was

	data  pgtest.Database
	line  *line
	eye   *pgxpool.Pool // sees all, past the line and every role
	db    *pg.DB
	check *pg.DB // past the line, for the service's own checks

	seedKeys keys.Seed
	policy   local.Config
	inner    *local.Signer
	signer   *shaky
	seal     *seal.Keyset
	hookKey  webhook.Key
	hooks    *receiver

	houses []*house // two processes of the service

	customers []string
	addresses map[string]chain.Address // by customer, and by product; "" is the treasury
	ours      map[chain.Address]bool
	payers    int
	requests  []*request
	handOvers []*handOver
	byID      map[string]*request
	paidIns   []paidIn // deposits made, for forks to play with
	refusals  []chain.Holding
	standing  map[string]standing // faults that last, by name
	outside   *outside
	grants    *signer.GrantKey
	spite     bool           // the payee of the next return that is out refuses it
	strict    bool           // the day's thresholds are set at every time
	approvals map[place]bool // flagged deposits that somebody approved, or meant to
	wishes    map[wish]bool  // and that somebody sent away, or meant to
	arrivals  oracle

	mu    sync.Mutex
	base  time.Time
	ticks int

	step    int
	audited int // the commits that the last check of the books saw
	trace   []string
	errs    map[string]int
}

// house is a process: all it has in memory.
type house struct {
	*works.Works
	steps     []works.Step
	posts     *delivery.Dispatcher
	transfers *transfer.Service
}

// standing is a fault that lasts for some steps.
type standing struct {
	until int
	end   func()
}

type paidIn struct {
	hash  chain.TxHash
	from  chain.Address
	moves []sim.Move
}

// now moves by a millisecond with every look, so that nothing happens at once and
// everything has one order; a step has its second for that.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = min(w.ticks+1, 950)
	return w.base.Add(time.Duration(w.ticks) * time.Millisecond)
}

// still is the time without moving it.
func (w *world) still() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base, w.ticks = w.base.Add(max(d, time.Second)), 0
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%4d  ", w.step)+fmt.Sprintf(format, args...))
}

// failure is a run that broke a promise. It travels as a panic to the run's end.
type failure struct{ what string }

func (w *world) fail(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (w *world) must(err error, act string) {
	if err != nil {
		w.fail("%s: %v", act, err)
	}
}

// pick is a number below n.
func (w *world) pick(n int) int { return w.rng.IntN(n) }

// chance is true in so many cases of a hundred.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func draw[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, ctx: t.Context(), seed: seed, rng: rand.New(rand.NewPCG(seed, 0x50a4)),
		base: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), figures: newFigures(),
		addresses: map[string]chain.Address{}, ours: map[chain.Address]bool{}, byID: map[string]*request{},
		standing: map[string]standing{}, errs: map[string]int{}, approvals: map[place]bool{}, wishes: map[wish]bool{},
	}
	w.strict, w.spite = w.chance(60), w.chance(50)
	w.outside = &outside{seed: seed, faults: w.faults, prices: price.Fixed{Prices: map[int]money.USD{
		dollar: money.MustParseUSD("1"), coin: money.MustParseUSD("3000"), limited: money.MustParseUSD("2"),
	}, Clock: w.still}}
	w.arrivals = newOracle()
	w.providers = 1 + w.pick(3)
	agree := 1 + w.pick(w.providers)
	w.liars, w.behind = agree > 1, uint64(2+w.pick(5))
	w.net = sim.New(sim.Config{Providers: w.providers, Agree: agree, Behind: w.behind})

	w.data = pgtest.Fresh(t)
	straight := w.data.URL
	w.line, w.data.URL = openLine(t, straight, w.faults)
	eye, err := pgxpool.New(w.ctx, w.data.SuperURL)
	w.must(err, "open the oracle's eye")
	w.eye = eye
	// The same statements come thousands of times, and planning them costs more than they do.
	_, err = eye.Exec(w.ctx, `ALTER DATABASE `+w.data.Name+` SET plan_cache_mode = force_generic_plan`)
	w.must(err, "keep the plans")
	w.check, err = pg.Open(w.ctx, pg.Config{URL: straight, MaxConns: 1}, w.still)
	w.must(err, "open the database for the checks")

	home := workplace(t)
	entropy := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("soak "), seed))
	phrase, err := bip39.NewMnemonic(entropy[:])
	w.must(err, "make the words of the seed")
	w.seedKeys, err = keys.SeedFromWords(phrase)
	w.must(err, "make the seed")
	w.grants, err = signer.NewGrantKey(entropy[:])
	w.must(err, "make the key of grants")
	w.policy = local.Config{Journal: filepath.Join(home, "journal"), Clock: w.still, Grants: w.grants, Policy: local.Policy{
		Chains: map[chain.Name]local.ChainPolicy{chain.Ethereum: {
			SignerID: "31337", FeeMax: money.Units(wei / 100), GasMax: money.Units(wei), Unlimited: true,
			Assets: map[chain.Address]local.Limit{
				tokens[limited]: {PaymentMax: money.Units(300_000_000), OrganizationMax: money.Units(600_000_000), OverallMax: money.Units(600_000_000)},
			},
		}},
	}}
	w.must(local.Create(w.policy, w.seedKeys), "create the journal")
	w.must(seal.Create(filepath.Join(home, "seal")), "create the sealing key")
	w.seal, err = seal.Open(filepath.Join(home, "seal"))
	w.must(err, "open the sealing key")
	w.hookKey, err = delivery.OpenOrCreateKey(filepath.Join(home, "hooks"))
	w.must(err, "make the webhook key")
	w.signer = &shaky{faults: w.faults}
	w.hooks = newReceiver(w.faults)
	return w
}

// workplace is a directory in memory where there is one: a run waits for its
// journal's disk thousands of times.
func workplace(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "coffer-soak-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// open starts both processes: every object anew, the journal read from its file.
func (w *world) open() {
	var err error
	w.inner, err = local.Open(w.policy, w.seedKeys)
	w.must(err, "open the signer")
	w.signer.Signer = w.inner
	if w.db == nil {
		w.db, err = pg.Open(w.ctx, pg.Config{URL: w.data.URL, MaxConns: 2}, w.now)
		w.must(err, "open the database")
	}
	w.houses = nil
	for range 2 {
		parts := works.Wire(works.Plan{
			DB: w.db, Chain: w.net.Configured(), Signer: w.signer, Attest: w.seedKeys.Attest().Public(), Prices: w.outside,
			Screens: risk.Policy{Providers: w.outside, UnknownAs: risk.UnknownHolds, Grace: screeningGrace}, Grants: w.grants,
			// One wallet at a time: what is sent first is the seed's to say.
			Dispatch: dispatch.Config{WalletsMax: 1, InFlightMax: 4}, Sweep: sweep.Config{RestAfterFail: time.Minute},
		})
		w.houses = append(w.houses, &house{
			Works: parts, steps: parts.Steps(nil),
			posts: &delivery.Dispatcher{DB: w.db, Seal: w.seal, Key: w.hookKey, Development: true, Log: silent},

			transfers: transfer.New(w.db),
		})
	}
	w.must(mirror.Import(w.ctx, w.db, w.inner, w.houses[0].Book), "import the journal")
}

// shut throws away everything in memory but the connections, which remember nothing
// and cost the server more than all that is asked through them: faults of their own
// cut them.
func (w *world) shut() {
	if w.inner != nil {
		w.must(w.inner.Close(), "close the signer")
		w.inner = nil
	}
}

func (w *world) close() {
	w.shut()
	if w.db != nil {
		w.db.Close()
	}
	w.check.Close()
	w.hooks.Close()
	w.line.close()
	w.eye.Close()
}

// found makes the organization, its customers and their addresses.
func (w *world) found() {
	w.sync(0)
	// Its id is fixed: keys, and so addresses and transactions, follow from it.
	w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'Soak', $2)`, orgID, tx.Now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO organization_settings (org_id, updated_at) VALUES ($1, $2)`, orgID, tx.Now); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Actor: audit.System("soak"), Action: "organization.created", ResourceKind: "ORGANIZATION", ResourceID: orgID,
		})
	}), "make the organization")
	if w.chance(50) {
		threshold := money.MustParseUSD(fmt.Sprint(50 + w.pick(300)))
		w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), orgID, &threshold)
		}), "set the threshold")
	}
	if w.strict || w.chance(60) {
		w.must(w.change(w.ctx, w.screening()), "set what is screened")
	}
	endpoints := &delivery.Endpoints{Seal: w.seal, Development: true}
	w.must(w.db.InOrg(w.ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := endpoints.Create(ctx, tx, orgID, audit.APIKey(orgID), delivery.New{URL: w.hooks.URL, Events: event.Types()})
		return err
	}), "make the webhook endpoint")
	w.customers = []string{}
	w.address("")
	for _, product := range ledger.Products {
		w.address(product)
	}
	for range 2 + w.pick(3) {
		w.customer()
	}
	// Sometimes too little for what is to come.
	w.pay(sim.Move{To: w.addresses[""], Amount: money.Units(uint64(1+w.pick(30)) * wei / 2000)})
	w.net.Mine(1)
}

// sync writes the catalogue, one of its mints switched off or, with 0, none.
func (w *world) sync(off int) {
	ch := w.net.Configured()
	token := mint.Mint{
		ID: dollar, Chain: ch.Name, Network: chain.Local, Kind: mint.Token, Contract: tokens[dollar], Symbol: "USDC", Name: "USD Coin", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(dustBelow), MinWithdraw: money.Units(10), ConfirmationsRequired: 3, Finality: "FINALIZED",
	}
	native, second := token, token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = coin, mint.Native, "", "ETH", "Ether", 18
	second.ID, second.Contract, second.Symbol, second.Name = limited, tokens[limited], "LIM", "Limited"
	all := []mint.Mint{token, native, second}
	for i := range all {
		all[i].WithdrawEnabled, all[i].DepositEnabled = all[i].ID != off, all[i].ID != off
	}
	w.must(mint.Sync(w.ctx, w.db, all), "sync the mints")
}

// payees are whoever may be paid at an address of ours: customers, and now and
// then the organization itself.
func (w *world) payees() []string {
	if w.chance(20) {
		return ledger.Products
	}
	return w.customers
}

func (w *world) customer() {
	name := fmt.Sprintf("customer %d", len(w.customers)+1)
	w.must(w.db.InOrg(w.ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, orgID, name, "")
		return err
	}), "make a customer")
	w.address(name)
	w.customers = append(w.customers, name)
}

func (w *world) address(name string) {
	ref := signer.WalletRef{OrgID: orgID, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: name}
	switch {
	case name == "":
		ref.Purpose = wallet.Treasury
	case slices.Contains(ledger.Products, name):
		ref.Purpose = wallet.OrganizationDeposit
	}
	got, err := w.houses[0].Book.Address(w.ctx, ref)
	w.must(err, "issue an address")
	w.addresses[name] = got.Address
	w.ours[got.Address] = true
	w.later(time.Second)
}

// pay has somebody who never paid before make one transaction.
func (w *world) pay(moves ...sim.Move) chain.TxHash {
	w.payers++
	from := sim.Address(fmt.Sprintf("payer %d", w.payers))
	for _, m := range moves {
		w.net.Mint(from, m.Contract, m.Amount)
	}
	hash := w.net.Do(from, moves...)
	w.paidIns = append(w.paidIns, paidIn{hash, from, moves})
	w.deposits += len(moves)
	return hash
}

// mined keeps the trace and the highest block.
func (w *world) mined() {
	b := w.net.Latest()
	w.highest = max(w.highest, b.Height)
	w.note("  block %d %s, %d waiting", b.Height, b.Hash[:12], len(w.net.Pool()))
}

// digest is what two runs of one seed must agree on.
func (w *world) digest() string {
	sum := sha256.Sum256([]byte(strings.Join(w.trace, "\n")))
	return hex.EncodeToString(sum[:8])
}

// heard counts an error of a part. While nothing misbehaves there is no reason for
// one; and some may never come.
func (w *world) heard(part string, err error, calm bool) {
	if err == nil {
		return
	}
	if mirror.Fatal(err) {
		w.fail("%s: %v", part, err)
	}
	if calm && !errors.Is(err, context.Canceled) {
		w.fail("%s fails and nothing is wrong: %v", part, err)
	}
	w.errs[part]++
}

// calm tells that nothing misbehaves.
func (w *world) calm() bool { return len(w.standing) == 0 }

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
