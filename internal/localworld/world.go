// Package localworld runs the whole service against real chains on this machine. It starts a
// private PostgreSQL, anvil with test tokens, surfpool with USDC and USDT at their real addresses,
// btcd, and a swap provider on these chains. It makes an organization with a key and people, and
// wires the service as coffer serve does.
//
// The package never connects beyond this machine. After a crash, the child processes end with their
// parent. The world's folder and .coffer/local.json may remain, and the next start replaces them.
package localworld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/console"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/platform/freeport"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

// Options describe the world to start. The zero value is a new world on free ports.
type Options struct {
	Dir          string        // of .coffer/local.json; "" is the working directory
	StateDir     string        // folder that preserves the world over restarts; "" deletes the world at its end
	Port         int           // of the API; 0 is a free one
	OperatorPort int           // of the operator's interface; 0 is a free one
	OpsPort      int           // of health and metrics; 0 is a free one
	ChainPort    int           // of anvil; 0 is a free one
	DatabasePort int           // of PostgreSQL; 0 is a free one
	BlockTime    time.Duration // 1 s
	// Program is a coffer binary. The service runs it in its own process, which can be killed; ""
	// runs the service in this process.
	Program string
	Env     []string // added to the environment of Program
	// Output receives what Program prints, in addition to ServiceLog; nil: nothing does.
	Output io.Writer
	// LogLevel is the level of the log of Program; "" is the usual one.
	LogLevel string
	// PayoutContract deploys the payout contract on the EVM chains of the world.
	PayoutContract bool
	// SignerProcess runs the signer as a separate process of Program, too. It can be killed apart
	// from the service.
	SignerProcess bool
	// WithoutService starts everything except the service. The caller runs the service with the
	// world's configuration file, as often as necessary.
	WithoutService bool
	// ExistingDatabase starts a kept world with WithoutService and does not touch its database: an
	// earlier program made it, and the caller upgrades it.
	ExistingDatabase bool
	// SingleRun says that a kept world is started only once. It may then have a chain that loses
	// its state when it ends.
	SingleRun bool
	// Chains are the chains to run. Ethereum always runs; an empty list is Ethereum alone.
	Chains        []chain.Name
	OutageProxies bool // the service reaches its chains through proxies, which Info.SetOutage controls
	Limits        bool // the API limits its callers as on a main network; false: no limits
	ManualBlocks  bool // only the caller makes blocks; BlockTime has no effect then
	// SlotTime is the time between two blocks of Solana. Zero: a quarter of a second.
	SlotTime     time.Duration
	WithoutSwaps bool // the world has no swap provider, and its configuration names none
	// Calm makes the service look for work less often: a test that waits for blocks and for people
	// pays for each look of a service that has nothing to do.
	Calm bool
	// QuickBlocks makes Solana and Bitcoin make blocks quickly while a transaction waits for its finality, and
	// seldom otherwise. It is for tests that wait for many final payments and need no person to see them before.
	QuickBlocks bool
	// PrepareDatabase fills the folder of a new world's database before PostgreSQL starts in it. A
	// caller that starts many worlds can copy a cluster that was made and migrated once. nil: the
	// world makes and migrates the database.
	PrepareDatabase func(dir string) error
	Log             *slog.Logger
	// Progress receives a line for each step.
	Progress func(format string, args ...any)
}

const (
	// slotsInEpoch puts the finalized block four blocks behind the latest, so that a deposit is
	// seen before it is final.
	slotsInEpoch = 2
	// treasuryCoins is the gas that this world's operator deposits, in whole coins.
	treasuryCoins = 100
	// calmPause is the pause between two polls for events with Options.Calm.
	calmPause = app.Duration(300 * time.Millisecond)
	// calmVerifyInterval is the pause between two checks of the books with Options.Calm: each costs as much as
	// hundreds of requests. The first is at the start.
	calmVerifyInterval = app.Duration(5 * time.Minute)

	orgName      = "Example Marketplace"
	operatorName = "local operator"
)

// World is a running local world.
type World struct {
	Info Info

	opts          Options
	dir           string
	lock          *os.File // the lock on .coffer: only one world runs in this folder
	chain         *anvil.Node
	otherChains   otherChains
	swapProvider  *swapdesk.Server // the swap provider; nil with Options.WithoutSwaps
	swapAssets    []swapdesk.Asset
	database      *local.Cluster
	app           *app.App
	stop          context.CancelFunc
	running       bool
	started       bool // Start has succeeded, and Stop has not been called
	serviceEnded  chan error
	child         *child     // with Options.Program
	childMu       sync.Mutex // held by Interrupt and Stop, which end the child
	control       *controlServer
	signer        *child // with Options.SignerProcess
	outageProxies []*outageProxy
}

// Start starts a world and returns when it is usable. Stop ends it, or the end of ctx.
func Start(ctx context.Context, opts Options) (w *World, err error) {
	if opts.BlockTime == 0 {
		opts.BlockTime = time.Second
	}
	if opts.Progress == nil {
		opts.Progress = func(string, ...any) {}
	}
	if opts.Dir == "" {
		if opts.Dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	w = &World{opts: opts, serviceEnded: make(chan error, 1)}
	ctx, w.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
			w = nil
		}
	}()
	if w.lock, err = lockFolder(ctx, opts); err != nil {
		return w, err
	}
	if w.dir = opts.StateDir; w.dir == "" {
		if w.dir, err = os.MkdirTemp("", "coffer-world-"); err != nil {
			return w, fmt.Errorf("make the world's folder: %w", err)
		}
	} else if w.dir, err = filepath.Abs(w.dir); err != nil {
		return w, err
	}
	// If this process is root, PostgreSQL runs as another user, which has to be able to enter the
	// folder.
	if err := errors.Join(os.MkdirAll(w.dir, 0o755), os.Chmod(w.dir, 0o755)); err != nil {
		return w, fmt.Errorf("make the world's folder: %w", err)
	}
	tokens, err := w.startDependencies(ctx)
	if err != nil {
		return w, err
	}
	conf, err := w.writeServiceConfig(tokens)
	if err != nil {
		return w, err
	}
	if opts.SignerProcess {
		if err := w.RestartSigner(ctx); err != nil {
			return w, err
		}
	}
	if opts.ExistingDatabase {
		if err := w.loadSavedWorld(); err != nil {
			return w, err
		}
		w.fillInfo(conf, tokens)
		return w, w.Info.writeFile(opts.Dir)
	}
	opts.Progress("starting the service")
	if err := pg.Migrate(ctx, pg.Config{URL: conf.Database.URL, OwnerURL: conf.Database.OwnerURL}); err != nil {
		return w, err
	}
	if w.app, err = app.New(ctx, conf, opts.Log); err != nil {
		return w, err
	}
	if err := w.ensureAccounts(ctx, conf.Mints); err != nil {
		return w, err
	}
	if err := w.fundTreasury(ctx); err != nil {
		return w, err
	}
	w.fillInfo(conf, tokens)
	if err := w.writePayoutTemplate(); err != nil {
		return w, err
	}
	if err := w.startService(ctx); err != nil {
		return w, err
	}
	w.started = true
	return w, w.Info.writeFile(opts.Dir)
}

// startService runs the service, in this process or in its own.
func (w *World) startService(ctx context.Context) error {
	if w.opts.Program != "" || w.opts.WithoutService {
		err := w.app.Close()
		w.app = nil
		if err != nil || w.opts.WithoutService {
			return err
		}
		if err := w.RestartService(ctx, w.opts.Env...); err != nil {
			return err
		}
		w.control, err = w.openControl(ctx)
		return err
	}
	service := w.app
	if err := EquipService(service, w.configFile(), w.opts.Log); err != nil {
		return err
	}
	w.running = true
	go func() { w.serviceEnded <- service.Run(ctx) }()
	return w.app.WaitReady(ctx)
}

// startDependencies starts PostgreSQL concurrently with the chains and, on them, the swap provider.
func (w *World) startDependencies(ctx context.Context) (tokens anvil.Tokens, err error) {
	w.dropUnavailableChains()
	w.opts.Progress("starting PostgreSQL and a local chain for %s", w.chainList())
	g, gctx := errgroup.WithContext(ctx)
	chains, chainsCtx := errgroup.WithContext(gctx)
	w.startOtherChains(ctx, chains)
	g.Go(func() (err error) {
		dir := filepath.Join(w.dir, "postgres")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && w.opts.PrepareDatabase != nil {
			if err := w.opts.PrepareDatabase(dir); err != nil {
				return fmt.Errorf("set up the world's database: %w", err)
			}
		}
		// The children outlive ctx: the service stops before the database and the chains.
		w.database, err = local.Start(context.WithoutCancel(ctx), local.Options{
			Dir: dir, Ephemeral: w.opts.StateDir == "", TCP: true, Port: w.opts.DatabasePort, Log: w.opts.Log,
		})
		return err
	})
	chains.Go(func() (err error) {
		conf := anvil.Config{
			BlockTime: w.opts.BlockTime, Manual: w.opts.ManualBlocks, SlotsInEpoch: slotsInEpoch,
			Port: w.opts.ChainPort,
		}
		fresh := true
		if w.opts.StateDir != "" {
			conf.State = filepath.Join(w.dir, "ethereum.json")
			_, err := os.Stat(conf.State)
			fresh = errors.Is(err, fs.ErrNotExist)
		}
		if w.chain, err = anvil.Start(context.WithoutCancel(ctx), conf); err != nil {
			return err
		}
		file := filepath.Join(w.dir, "tokens.json")
		if !fresh {
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &tokens)
			}
			if err != nil {
				return err
			}
			return w.deployPayoutContract(chainsCtx)
		}
		if tokens, err = w.chain.DeployTokens(chainsCtx); err != nil {
			return err
		}
		b, err := json.Marshal(tokens)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			return err
		}
		return w.deployPayoutContract(chainsCtx)
	})
	g.Go(func() error {
		if err := chains.Wait(); err != nil {
			return err
		}
		return w.startSwapProvider(gctx, tokens)
	})
	return tokens, g.Wait()
}

// writeServiceConfig writes the service's configuration file, and the keys if they do not exist.
func (w *World) writeServiceConfig(tokens anvil.Tokens) (conf app.Config, err error) {
	conf = app.DefaultConfig()
	conf.Network = chain.Local
	conf.Database.URL = w.database.URL(local.Database)
	conf.Database.OwnerURL = w.database.OwnerURL(local.Database)
	if conf.API.Listen, err = findListenAddress(w.opts.Port); err != nil {
		return conf, err
	}
	conf.API.URL = "http://" + conf.API.Listen
	if _, port, err := net.SplitHostPort(conf.API.Listen); err == nil {
		conf.Dashboard.Origin = "http://localhost:" + port
	}
	conf.Checkout.Origin = conf.API.URL
	if conf.Mail.Files, err = filepath.Abs(filepath.Join(w.opts.Dir, MailFolder)); err != nil {
		return conf, err
	}
	conf.Mail.Sender = "Coffer <no-reply@localhost>"
	if conf.Operator.Listen, err = findListenAddress(w.opts.OperatorPort); err != nil {
		return conf, err
	}
	if conf.Ops.Listen, err = findListenAddress(w.opts.OpsPort); err != nil {
		return conf, err
	}
	if _, port, err := net.SplitHostPort(conf.Operator.Listen); err == nil {
		conf.Console.Origin = "http://localhost:" + port
	}
	conf.Operator.WhitelistCoolingOff = "0s" // tests and demonstrations cannot wait a day
	conf.Keys, conf.Signer = app.KeyFiles(filepath.Join(w.dir, "keys"))
	if err := app.CreateKeys(conf.Keys, conf.Signer); err != nil {
		return conf, err
	}
	w.configureChains(&conf, tokens)
	if err := w.writePolicy(conf); err != nil {
		return conf, err
	}
	if w.opts.SignerProcess {
		signerConf := app.DefaultConfig()
		signerConf.Network = conf.Network
		signerConf.Keys.Attest, signerConf.Keys.Approvals, signerConf.Signer = conf.Keys.Attest, conf.Keys.Approvals, conf.Signer
		if err := app.WriteConfig(w.signerFile(), signerConf); err != nil {
			return conf, err
		}
		conf.Signer = app.Signer{Socket: w.socketPath()}
	}
	w.configureSwaps(&conf)
	if err := w.proxyChains(conf); err != nil {
		return conf, err
	}
	conf.Risk.Providers = []string{"local"}
	conf.Webhooks.Development = true
	if w.opts.Limits {
		conf.API.Limits = app.UsualLimits()
	}
	if w.opts.LogLevel != "" {
		conf.Log.Level = w.opts.LogLevel
	}
	second := app.Duration(time.Second)
	conf.Intervals = app.Intervals{
		Scan: second / 5, Dispatch: second / 5, Sweep: second / 2, Verify: 30 * second,
		Resend: 5 * second, Bump: 15 * second, Anchor: 60 * second,
	}
	if w.opts.Calm {
		conf.Intervals.Scan, conf.Intervals.Dispatch, conf.Intervals.Sweep = second/2, second/2, second
		conf.Intervals.Verify, conf.Intervals.Events = calmVerifyInterval, calmPause
	}
	if err := conf.Check(); err != nil {
		return conf, fmt.Errorf("the local world's own configuration: %w", err)
	}
	return conf, app.WriteConfig(w.configFile(), conf)
}

func (w *World) configFile() string { return filepath.Join(w.dir, "coffer.toml") }
func (w *World) signerFile() string { return filepath.Join(w.dir, signerFileName) }
func (w *World) socketPath() string { return filepath.Join(w.dir, "signer.sock") }

// findListenAddress returns the address on which a server of the world will listen: the requested
// port, which has to be free, or a free one for 0.
func findListenAddress(port int) (string, error) {
	if port == 0 {
		return freeport.FindAddress()
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", fmt.Errorf("port %d: %w", port, err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// configureChains adds the chains with their mints and prices.
func (w *World) configureChains(conf *app.Config, tokens anvil.Tokens) {
	conf.Chains = map[chain.Name]app.Chain{chain.Ethereum: {
		ChainID: anvil.DefaultChainID, Endpoints: []string{w.chain.URL}, Agree: 1, FeeCap: "500000000000",
		StartHeight: 1, Trace: "on",
	}}
	conf.Mints = evmMints(tokens)
	conf.Prices.Fixed = map[string]string{"1": "1.00", "2": "1.00", "3": "1.00", "4": "3000.00"}
	conf.Prices.Pegged = []int{1, 2, 3}
	w.configureOtherChains(conf)
}

// evmMints returns the mints of the local Ethereum. The ids must never change.
func evmMints(tokens anvil.Tokens) []app.Mint {
	base := app.Mint{
		Chain: chain.Ethereum, DepositEnabled: true, WithdrawEnabled: true, ConfirmationsRequired: 2 * slotsInEpoch,
		Finality: "FINALIZED",
	}
	mints := []app.Mint{}
	for i, t := range tokens.List() {
		m := base
		m.ID, m.Contract, m.Symbol, m.Name, m.Decimals = i+1, t.Address.Hex(), t.Symbol, t.Name, int(t.Decimals)
		m.MinDeposit = new(big.Int).Div(t.AtomicUnits(1), big.NewInt(100)).String() // a cent
		m.MinWithdraw = m.MinDeposit
		mints = append(mints, m)
	}
	eth := base
	eth.ID, eth.Symbol, eth.Name, eth.Decimals = 4, "ETH", "Ether", 18
	eth.MinDeposit, eth.MinWithdraw = "10000000000000", "10000000000000" // 0.00001
	return append(mints, eth)
}

// ensureAccounts makes the organization, its key, its people and the operators with their key, or loads them.
func (w *World) ensureAccounts(ctx context.Context, mints []app.Mint) error {
	if err := w.loadSavedWorld(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k := savedWorld{
		OrganizationID: w.Info.OrganizationID, APIKey: w.Info.APIKey, OperatorKey: w.Info.Operator.APIKey,
		Description: filepath.Join(w.opts.Dir, InfoFile),
	}
	actor := audit.Operator("local world")
	if k.OrganizationID == "" {
		o, key, err := org.Create(ctx, w.app.DB(), orgName)
		if err != nil {
			return err
		}
		k.OrganizationID, k.APIKey = o.ID, key.Reveal()
		if err := w.enableSwaps(ctx, actor, o.ID, mints); err != nil {
			return err
		}
	}
	if k.Users = w.Info.Users; len(k.Users) < len(people) {
		var err error
		if k.Users, err = w.makePeople(ctx, k.OrganizationID); err != nil {
			return err
		}
	}
	if k.Operators = w.Info.Operators; len(k.Operators) < len(operators) {
		var err error
		if k.Operators, err = w.makeOperators(ctx); err != nil {
			return err
		}
	}
	if k.OperatorKey == "" {
		_, key, err := operator.CreateKey(ctx, w.app.DB(), actor, operatorName)
		if fault.HasCode(err, fault.InvalidState) { // made by a start that was stopped before it stored it
			_, key, err = operator.RollKey(ctx, w.app.DB(), actor, operatorName)
		}
		if err != nil {
			return err
		}
		k.OperatorKey = key.Reveal()
	}
	if err := k.writeFile(savedWorldFile(w.dir)); err != nil {
		return err
	}
	return w.loadSavedWorld()
}

// loadSavedWorld loads what a kept world remembers from its previous start.
func (w *World) loadSavedWorld() error {
	k, err := readSavedWorld(savedWorldFile(w.dir))
	if err != nil {
		return err
	}
	w.Info.OrganizationID, w.Info.APIKey, w.Info.Operator = k.OrganizationID, k.APIKey, Operator{APIKey: k.OperatorKey}
	w.Info.Users, w.Info.Operators = k.Users, k.Operators
	if len(k.Users) == 0 { // of an earlier version
		w.Info.Users = []User{{Email: people[0].email, Roles: []string{string(people[0].role)}}}
	}
	return nil
}

// fundTreasury does what an operator does first: it sends gas to the treasury. The coins arrive in
// the usual way, in a block that becomes final.
func (w *World) fundTreasury(ctx context.Context) error {
	if err := w.fundOtherTreasuries(ctx); err != nil {
		return err
	}
	treasury, err := w.app.Wallets.Treasury(ctx, w.Info.OrganizationID, chain.EVM)
	if err != nil {
		return err
	}
	address := common.HexToAddress(string(treasury.Address))
	balance, err := w.chain.Eth.BalanceAt(ctx, address, nil)
	if err != nil {
		return fmt.Errorf("read the treasury: %w", err)
	}
	coins := new(big.Int).Mul(big.NewInt(treasuryCoins), big.NewInt(1e18))
	if balance.Cmp(new(big.Int).Div(coins, big.NewInt(2))) >= 0 {
		return nil
	}
	w.opts.Progress("the operator sends %d ETH of gas to the treasury %s", treasuryCoins, treasury.Address)
	if _, err := w.chain.SendTx(ctx, &address, coins, nil); err != nil {
		return fmt.Errorf("fund the treasury: %w", err)
	}
	return w.chain.MineBlocks(ctx, 2*slotsInEpoch+1)
}

func (w *World) fillInfo(conf app.Config, tokens anvil.Tokens) {
	w.Info.BaseURL = conf.API.URL + "/v1"
	w.Info.OpenAPIURL = conf.API.URL + "/openapi.json"
	w.Info.DashboardURL = conf.Dashboard.Origin + dashboard.Prefix
	w.Info.CheckoutURL = conf.Checkout.Origin
	w.Info.OperatorURL = "http://" + conf.Operator.Listen
	w.Info.ConsoleURL = conf.Console.Origin + console.Prefix
	w.Info.OpsURL = "http://" + conf.Ops.Listen
	w.Info.Chains = map[string]Endpoint{string(chain.Ethereum): {
		RPCURL: w.chain.URL, WSURL: w.chain.WSURL, ChainID: anvil.DefaultChainID, FaucetKey: "0x" + anvil.FaucetKey,
	}}
	w.describeOtherChains()
	if w.swapProvider != nil {
		w.Info.Swaps = w.describeSwapProvider()
	}
	for _, m := range conf.Mints {
		line := Mint{ID: m.ID, Symbol: m.Symbol, Chain: string(m.Chain), Decimals: m.Decimals}
		if m.Contract != "" {
			line.ContractAddress = &m.Contract
		}
		w.Info.Mints = append(w.Info.Mints, line)
	}
	w.Info.Database = Database{URL: conf.Database.URL}
	w.Info.Config = w.configFile()
	w.Info.OutageProxies = w.opts.OutageProxies
}

// ServiceDB returns the database of the service that runs in this process, or nil if it runs in
// another.
func (w *World) ServiceDB() *pg.DB {
	if w.app == nil {
		return nil
	}
	return w.app.DB()
}

// DatabaseCluster returns the world's PostgreSQL for callers that stop and start it.
func (w *World) DatabaseCluster() *local.Cluster { return w.database }

// EthereumNode returns the world's Ethereum node for callers that control it.
func (w *World) EthereumNode() *anvil.Node { return w.chain }

// SolanaNode returns the world's Solana node for callers that control it, or nil if the world has
// none.
func (w *World) SolanaNode() *surfpool.Node { return w.otherChains.solana }

// BitcoinNode returns the world's Bitcoin node for callers that control it, or nil if the world has
// none.
func (w *World) BitcoinNode() *btcd.Node { return w.otherChains.bitcoin }

// WaitEnd returns when ctx ends, or with an error when a part of the world ends.
func (w *World) WaitEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.serviceEnded:
		w.serviceEnded <- err
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("the service ended: %w", err)
	case <-w.chain.Done():
		if ctx.Err() != nil {
			return nil
		}
		return errors.New("anvil ended")
	case name := <-w.otherChains.watchExits(ctx):
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s ended", name)
	case <-w.database.Done():
		if ctx.Err() != nil {
			return nil
		}
		return errors.New("PostgreSQL ended")
	}
}

// Stop ends the world: the service first, then the swap provider, the database and the chains. It may be called at any
// time and more than once.
func (w *World) Stop() error {
	var errs []error
	if w.lock != nil {
		if err := os.Remove(filepath.Join(w.opts.Dir, InfoFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	w.stop()
	if w.control != nil {
		errs = append(errs, w.control.closeServer())
		w.control = nil
	}
	w.childMu.Lock()
	if w.child != nil {
		errs = append(errs, w.child.stopProcess())
		w.child = nil
	}
	w.childMu.Unlock()
	if w.signer != nil {
		errs = append(errs, w.signer.stopProcess())
		w.signer = nil
	}
	if w.running {
		errs = append(errs, <-w.serviceEnded)
		w.running = false
	}
	errs = append(errs, w.stopSwapProvider(), w.finalizeBlocks())
	w.started = false
	if w.app != nil {
		errs = append(errs, w.app.Close())
		w.app = nil
	}
	for _, g := range w.outageProxies {
		errs = append(errs, g.closeProxy())
	}
	w.outageProxies = nil
	if w.chain != nil {
		errs = append(errs, w.chain.Stop())
		w.chain = nil
	}
	errs = append(errs, w.otherChains.stopNodes())
	if w.database != nil {
		errs = append(errs, w.database.Stop())
		w.database = nil
	}
	if w.opts.StateDir == "" && w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	if w.lock != nil {
		errs = append(errs, w.lock.Close())
		w.lock = nil
	}
	return errors.Join(errs...)
}
