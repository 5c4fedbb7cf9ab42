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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// The mints of every run.
const (
	tokenID   = 1 // a token
	nativeID  = 2 // native
	limitedID = 3 // a token that the signer's policy limits
)

const orgID = "org_soak"

// screeningGrace is how long a deposit waits for a verdict: shorter than a fault may last, so that
// silence sometimes flags a deposit.
const screeningGrace = 45 * time.Second

// wei is one whole native coin.
const wei = 1_000_000_000_000_000_000

// tokens are the contracts of the mints; the address of a contract follows from its name.
var tokens = map[int]chain.Address{tokenID: sim.Address("dollar"), nativeID: "", limitedID: sim.Address("limited")}

// unlistedToken is a token that no catalogue lists.
var unlistedToken = sim.Address("alien")

// soakRun is one run: the service in parts, its surroundings, and the requests that the generator
// remembers.
type soakRun struct {
	t    testing.TB
	ctx  context.Context
	seed uint64
	rng  *rand.Rand
	statistics

	net       *sim.Chain
	finalLag  uint64
	liars     bool // a false provider would be found out
	providers int
	highest   uint64 // the highest block so far

	data          pgtest.Database
	serviceURL    string // of the database, through the proxy
	deadlocks     int64  // of databases that a backup has replaced
	isRestored    bool   // the database was replaced by a backup
	databaseProxy *databaseProxy
	superPool     *pgxpool.Pool // superuser without proxy, which sees every row
	db            *pg.DB
	check         *pg.DB // without proxy, for the service's own checks

	seedKeys keys.Seed
	policy   local.Config
	inner    *local.Signer
	signer   *faultySigner
	seal     *seal.Keyset
	hookKey  webhook.Key
	hooks    *receiver

	processes []*serviceProcess // two processes of the service

	customers        []string
	addresses        map[string]chain.Address // by customer, and by product; "" is the treasury
	ownAddresses     map[chain.Address]bool
	payers           int
	requests         []*request
	transferRequests []*transferRequest
	byID             map[string]*request
	madePayments     []madePayment // deposits made, for forks to change
	refusals         []chain.Holding
	standing         map[string]lastingFault // faults that last, by name
	external         *externalServices
	provider         *swapProvider
	swapRequests     []*swapRequest
	ownSwaps         []*ownSwap
	batches          []*batchRequest
	batchPayees      map[chain.Address]*batchPayee
	families         int // lists that batches pay
	flexRequests     []*flexRequest
	flexAddresses    map[chain.Address]*flexRequest // the wallets of deposit swaps
	swapAddresses    map[chain.Address]bool         // the wallets of swaps
	grants           *signer.GrantKey
	spite            bool                   // the payee of the next broadcast return refuses it
	strict           bool                   // every drawn setting has the strict run's thresholds
	approvals        map[movementID]bool    // flagged deposits that were approved, or for which that was tried
	decisions        map[decidedPayout]bool // and those that were sent away, or for which that was tried
	arrivals         arrivalOracle
	shop             shopState

	mu    sync.Mutex
	base  time.Time
	ticks int

	step    int
	audited int // the commits that the last check of the books saw
	trace   []string
	errs    map[string]int
}

// serviceProcess is a process: everything that it has in memory.
type serviceProcess struct {
	*harness.Harness
	steps []harness.Step
}

// lastingFault is a fault that lasts for some steps.
type lastingFault struct {
	endStep int
	end     func()
}

type madePayment struct {
	hash  chain.TxHash
	payer chain.Address
	moves []sim.Move
}

// tickClock returns the time and moves it by a millisecond, so that no two events are simultaneous
// and their order is unique. A step has a second for that.
func (w *soakRun) tickClock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = min(w.ticks+1, 950)
	return w.base.Add(time.Duration(w.ticks) * time.Millisecond)
}

// readClock returns the time without moving it.
func (w *soakRun) readClock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

func (w *soakRun) advanceClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base, w.ticks = w.base.Add(max(d, time.Second)), 0
}

func (w *soakRun) addTrace(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%4d  ", w.step)+fmt.Sprintf(format, args...))
}

// failure is a broken promise. It travels as a panic to the end of the run.
type failure struct{ message string }

func (w *soakRun) failRun(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (w *soakRun) mustSucceed(err error, act string) {
	if err != nil {
		w.failRun("%s: %v", act, err)
	}
}

// drawNumber draws a number below n.
func (w *soakRun) drawNumber(n int) int { return w.rng.IntN(n) }

// drawChance is true in so many cases of a hundred.
func (w *soakRun) drawChance(percent int) bool { return w.rng.IntN(100) < percent }

func drawFrom[T any](w *soakRun, choices []T) T { return choices[w.rng.IntN(len(choices))] }

func newSoakRun(t testing.TB, seed uint64) *soakRun {
	w := &soakRun{
		t: t, ctx: t.Context(), seed: seed, rng: rand.New(rand.NewPCG(seed, 0x50a4)),
		base: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), statistics: newStatistics(),
		addresses: map[string]chain.Address{}, ownAddresses: map[chain.Address]bool{}, byID: map[string]*request{},
		standing: map[string]lastingFault{}, errs: map[string]int{}, approvals: map[movementID]bool{},
		decisions: map[decidedPayout]bool{},
	}
	w.strict, w.spite = w.drawChance(60), w.drawChance(50)
	w.external = &externalServices{seed: seed, faults: w.faults, prices: price.Fixed{Prices: map[int]money.USD{
		tokenID: money.MustParseUSD("1"), nativeID: money.MustParseUSD("3000"), limitedID: money.MustParseUSD("2"),
	}, Clock: w.readClock}}
	w.arrivals, w.shop = newOracle(), newShopState(seed)
	w.provider, w.swapAddresses = newSwapProvider(t, seed, w.readClock), map[chain.Address]bool{}
	w.flexAddresses, w.batchPayees = map[chain.Address]*flexRequest{}, map[chain.Address]*batchPayee{}
	w.providers = 1 + w.drawNumber(3)
	agree := 1 + w.drawNumber(w.providers)
	w.liars, w.finalLag = agree > 1, uint64(2+w.drawNumber(5))
	w.net = sim.New(sim.Config{Providers: w.providers, Quorum: agree, FinalityDepth: w.finalLag})

	data := pgtest.NewDatabase(t)
	w.databaseProxy, _ = openDatabaseProxy(t, data.URL, w.faults)
	w.openDatabase(data)

	home := makeTempDir(t)
	entropy := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("soak "), seed))
	phrase, err := bip39.NewMnemonic(entropy[:])
	w.mustSucceed(err, "create the words of the seed")
	w.seedKeys, err = keys.SeedFromWords(phrase)
	w.mustSucceed(err, "create the seed")
	w.grants, err = signer.NewGrantKey(entropy[:])
	w.mustSucceed(err, "create the key of grants")
	w.policy = local.Config{
		Journal: filepath.Join(home, "journal"), Clock: w.readClock, Grants: w.grants,
		Policy: signpolicy.Policy{
			Swaps: w.provider.policy(), WhitelistCoolingOff: "0s",
			Chains: map[chain.Name]signpolicy.Chain{chain.Ethereum: {
				SignerID: "31337", FeeMax: money.Units(wei / 100), GasMax: money.Units(wei), Unlimited: true,
				Assets: map[chain.Address]signpolicy.Limit{
					tokens[limitedID]: {
						PaymentMax: money.Units(300_000_000), OrganizationMax: money.Units(600_000_000),
						OverallMax: money.Units(600_000_000),
					},
				},
			}},
		},
	}
	w.mustSucceed(local.CreateJournal(w.policy, w.seedKeys), "create the journal")
	w.mustSucceed(seal.CreateKeyset(filepath.Join(home, "seal")), "create the sealing key")
	w.seal, err = seal.OpenKeyset(filepath.Join(home, "seal"))
	w.mustSucceed(err, "open the sealing key")
	w.hookKey, err = delivery.OpenOrCreateKey(filepath.Join(home, "hooks"))
	w.mustSucceed(err, "create the webhook key")
	w.signer = &faultySigner{faults: w.faults}
	w.hooks = newReceiver(w.faults)
	return w
}

// openDatabase opens a database for the oracle and the checks, and says where the service finds it.
func (w *soakRun) openDatabase(data pgtest.Database) {
	var err error
	w.data = data
	w.serviceURL, err = pgtest.ThroughProxy(data.URL, w.databaseProxy.listener.Addr())
	w.mustSucceed(err, "put a proxy in front of the database")
	w.superPool, err = pgxpool.New(w.ctx, data.SuperURL)
	w.mustSucceed(err, "open the oracle's database")
	// The same statements run thousands of times, and planning them costs more than running them.
	_, err = w.superPool.Exec(w.ctx, `ALTER DATABASE `+data.Name+` SET plan_cache_mode = force_generic_plan`)
	w.mustSucceed(err, "store the plans")
	w.check, err = pg.Open(w.ctx, pg.Config{URL: data.URL, MaxConns: 1}, w.readClock)
	w.mustSucceed(err, "open the database for the checks")
}

// makeTempDir creates a directory in memory, if the machine has one: a run waits for its journal's
// disk thousands of times.
func makeTempDir(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "coffer-soak-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// openProcesses starts both processes, and imports the journal.
func (w *soakRun) openProcesses() {
	w.buildProcesses()
	w.mustSucceed(journal.Import(w.ctx, w.db, w.inner, w.processes[0].Wallets), "import the journal")
}

// buildProcesses builds both processes: every object is new, and the journal is read from its file.
func (w *soakRun) buildProcesses() {
	var err error
	w.inner, err = local.Open(w.policy, w.seedKeys)
	w.mustSucceed(err, "open the signer")
	w.signer.Signer = w.inner
	if w.db == nil {
		w.db, err = pg.Open(w.ctx, pg.Config{URL: w.serviceURL, MaxConns: 2}, w.tickClock)
		w.mustSucceed(err, "open the database")
	}
	w.processes = nil
	for range 2 {
		parts := harness.New(harness.Config{
			DB: w.db, Chain: w.net.ToChain(), Signer: w.signer, AttestKey: w.seedKeys.AttestKey().PublicKey(),
			Prices: w.external,
			RiskPolicy: risk.Policy{
				Providers: w.external, UnknownAs: risk.TreatUnknownAsHold, Grace: screeningGrace,
			},
			SwapProviders: []provider.Member{{Provider: w.provider}},
			Grants:        w.grants, Seal: w.seal, WebhookKeys: []webhook.Key{w.hookKey},
			// One wallet at a time, so that the seed decides what is sent first.
			Dispatch: dispatch.Config{WalletsMax: 1, InFlightMax: 4}, Sweep: sweep.Config{RetryAfterFail: time.Minute},
		})
		parts.Swaps.Whitelist, parts.Withdrawals.Whitelist = swapWhitelist{soakWhitelist{w}}, soakWhitelist{w}
		parts.DepositSwaps.Destination = provider.Token{Chain: chain.Ethereum, Contract: tokens[tokenID]}
		parts.Checkouts.NewID = w.newShopID
		process := &serviceProcess{Harness: parts, steps: parts.ListSteps(nil)}
		for i := range process.steps {
			if process.steps[i].Loop == "deposit swaps" {
				process.steps[i].Run = func(ctx context.Context) error { return w.followDepositSwaps(ctx, process) }
			}
		}
		process.steps = append(process.steps, harness.Step{
			Name: "swaps", Loop: "swaps", Run: func(ctx context.Context) error { return w.followSwaps(ctx, process) },
		}, harness.Step{
			Name: "checkouts", Loop: "checkouts",
			Run: func(ctx context.Context) error { return w.followCheckouts(ctx, process) },
		}, w.newBatchStep(process), harness.Step{
			Name: "debts", Loop: "restored", Run: func(ctx context.Context) error {
				_, err := process.Withdrawals.CollectOwed(ctx)
				return err
			},
		})
		w.processes = append(w.processes, process)
	}
}

// closeSigner discards everything in memory but the connections. They remember nothing, and opening
// one costs the server more than all its statements; separate faults cut them.
func (w *soakRun) closeSigner() {
	if w.inner != nil {
		w.mustSucceed(w.inner.Close(), "close the signer")
		w.inner = nil
	}
}

func (w *soakRun) closeAll() {
	w.closeSigner()
	if w.db != nil {
		w.db.Close()
	}
	w.check.Close()
	w.hooks.Close()
	w.databaseProxy.closeProxy()
	w.superPool.Close()
}

// createOrganization creates the organization, its customers and their addresses.
func (w *soakRun) createOrganization() {
	w.syncMints(0)
	// Its id is fixed, because keys, and so addresses and transactions, follow from it.
	w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'Soak', $2)`, orgID, tx.Now,
		); err != nil {
			return err
		}
		if _, err := tx.Exec(
			ctx, `INSERT INTO organization_settings (org_id, updated_at) VALUES ($1, $2)`, orgID, tx.Now,
		); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Actor: audit.System("soak"), Action: "organization.created", ResourceKind: "ORGANIZATION",
			ResourceID: orgID,
		})
	}), "create the organization")
	if w.drawChance(50) {
		threshold := money.MustParseUSD(fmt.Sprint(50 + w.drawNumber(300)))
		w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
			return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), orgID, &threshold)
		}), "set the threshold")
	}
	if w.strict || w.drawChance(60) {
		w.mustSucceed(w.changeSettings(w.ctx, w.drawScreening()), "set the screening")
	}
	w.enableSwaps()
	w.enableOwnSwaps()
	w.mustSucceed(w.db.InOrg(w.ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := w.processes[0].Endpoints.Create(ctx, tx, orgID, audit.APIKey(orgID), delivery.NewEndpoint{
			URL: w.hooks.URL, Events: event.AllTypes(),
		})
		return err
	}), "create the webhook endpoint")
	w.customers = []string{}
	w.issueAddress("")
	for _, product := range ledger.Products {
		w.issueAddress(product)
	}
	for range 2 + w.drawNumber(3) {
		w.addCustomer()
	}
	w.openShop()
	if w.drawChance(80) { // batches pay from the beginning
		for _, mintID := range []int{tokenID, nativeID, limitedID} {
			w.makePayment(sim.Move{
				Contract: tokens[mintID], To: w.addresses[ledger.BatchProduct], Amount: w.amountOf(mintID),
			})
		}
	}
	// Sometimes too little for the run.
	w.makePayment(sim.Move{To: w.addresses[""], Amount: money.Units(uint64(1+w.drawNumber(30)) * wei / 2000)})
	w.net.Mine(1)
}

// syncMints writes the catalogue with one mint disabled or, with 0, none.
func (w *soakRun) syncMints(disabledID int) {
	ch := w.net.ToChain()
	token := mint.Mint{
		ID: tokenID, Chain: ch.Name, Network: chain.Local, Kind: mint.Token, Contract: tokens[tokenID], Symbol: "DAI",
		Name: "Dai", Decimals: 6,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(dustBelow), MinWithdraw: money.Units(10),
		ConfirmationsRequired: 3, Finality: "FINALIZED",
	}
	native, second := token, token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals =
		nativeID, mint.Native, "", "ETH", "Ether", 18
	second.ID, second.Contract, second.Symbol, second.Name = limitedID, tokens[limitedID], "LIM", "Limited"
	mints := []mint.Mint{token, native, second}
	for i := range mints {
		mints[i].WithdrawEnabled, mints[i].DepositEnabled = mints[i].ID != disabledID, mints[i].ID != disabledID
	}
	w.mustSucceed(mint.Sync(w.ctx, w.db, mints), "sync the mints")
}

// drawPayees lists the payees of deposits: customers, and sometimes the organization itself.
func (w *soakRun) drawPayees() []string {
	if w.drawChance(20) {
		return ledger.Products
	}
	return w.customers
}

func (w *soakRun) addCustomer() {
	name := fmt.Sprintf("customer %d", len(w.customers)+1)
	w.mustSucceed(w.db.InOrg(w.ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, orgID, name, "")
		return err
	}), "create a customer")
	w.issueAddress(name)
	w.customers = append(w.customers, name)
}

func (w *soakRun) issueAddress(name string) {
	ref := signer.WalletRef{OrgID: orgID, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: name}
	switch {
	case name == "":
		ref.Purpose = wallet.Treasury
	case slices.Contains(ledger.Products, name):
		ref.Purpose = wallet.OrganizationDeposit
	}
	got, err := w.processes[0].Wallets.Address(w.ctx, ref)
	w.mustSucceed(err, "issue an address")
	w.addresses[name] = got.Address
	w.ownAddresses[got.Address] = true
	w.advanceClock(time.Second)
}

// makePayment makes one transaction from a new external account.
func (w *soakRun) makePayment(moves ...sim.Move) chain.TxHash {
	w.payers++
	payer := sim.Address(fmt.Sprintf("payer %d", w.payers))
	for _, m := range moves {
		w.net.Mint(payer, m.Contract, m.Amount)
	}
	hash := w.net.SubmitTx(payer, moves...)
	w.madePayments = append(w.madePayments, madePayment{hash, payer, moves})
	w.deposits += len(moves)
	return hash
}

// recordBlock records the block in the trace, and the highest block.
func (w *soakRun) recordBlock() {
	b := w.net.Latest()
	w.highest = max(w.highest, b.Height)
	w.addTrace("  block %d %s, %d waiting", b.Height, b.Hash[:12], len(w.net.Mempool()))
}

// traceDigest is equal for two runs of one seed.
func (w *soakRun) traceDigest() string {
	sum := sha256.Sum256([]byte(strings.Join(w.trace, "\n")))
	return hex.EncodeToString(sum[:8])
}

// recordError counts an error of a part. It fails the run for an error while nothing misbehaves,
// and for errors that are never allowed.
func (w *soakRun) recordError(part string, err error, calm bool) {
	if err == nil {
		return
	}
	if journal.IsContradiction(err) {
		w.failRun("%s: %v", part, err)
	}
	if calm && !errors.Is(err, context.Canceled) {
		w.failRun("%s fails, and the books and the chain are right: %v", part, err)
	}
	w.errs[part]++
}

// isCalm reports that nothing misbehaves.
func (w *soakRun) isCalm() bool { return len(w.standing) == 0 }

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}
