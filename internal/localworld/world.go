// Package localworld runs the whole service against real chains on this
// machine: a private PostgreSQL, anvil with tokens of our own, surfpool with USDC
// and USDT at their real addresses, btcd, an organization with a key and a person,
// and the same wiring that coffer serve has.
//
// What never happens here: a connection beyond this machine. What a crash
// leaves: the children end with their parent; the world's folder and
// .coffer/local.json may stay and are replaced by the next start.
package localworld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeport"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/local"
	"github.com/cofferpay/coffer/internal/seal"
)

// Options say what world to start. The zero value is a fresh one on free ports.
type Options struct {
	Dir          string        // where .coffer/local.json goes; "" is the working directory
	StateDir     string        // a folder that the world is kept in over restarts; "" throws it away
	Port         int           // of the API; 0 is a free one
	OperatorPort int           // of the operator's interface; 0 is a free one
	OpsPort      int           // of health and metrics; 0 is a free one
	ChainPort    int           // of anvil; 0 is a free one
	DatabasePort int           // of PostgreSQL; 0 is a free one
	BlockTime    time.Duration // 1 s
	// Program is a coffer binary that the service runs as, in a process that can
	// be killed; "" runs it in this one.
	Program string
	Env     []string // added to the environment of Program
	// SignerProcess runs the signer as a Program of its own, too, which can be
	// killed apart from the service.
	SignerProcess bool
	// WithoutService starts everything but the service: the caller runs it, as often and
	// in whatever way it wants, with the world's configuration file.
	WithoutService bool
	// ExistingDatabase starts a kept, Bare world without touching its database: an earlier
	// program made it, and the caller upgrades it.
	ExistingDatabase bool
	// SingleRun is said of a kept world that is started once, so that a chain may be in it which
	// forgets everything when it ends.
	SingleRun bool
	// Chains are those that run; none named is Ethereum alone, which is there always.
	Chains        []chain.Name
	OutageProxies bool // the service reaches its chains through gates, which Info.SetOutage closes
	Limits        bool // the API limits its callers as on a main network; else not at all
	ManualBlocks  bool // blocks are made by the caller alone; BlockTime says nothing then
	// PrepareDatabase fills the folder of a new world's database before PostgreSQL starts in it:
	// who starts many worlds copies a cluster that was made and migrated once. nil: it is
	// made there, and migrated.
	PrepareDatabase func(dir string) error
	Log             *slog.Logger
	// Progress is told what is being done, a line each.
	Progress func(format string, args ...any)
}

const (
	// slotsInEpoch puts the finalized block four blocks behind the latest, so
	// that a deposit is seen before it is final.
	slotsInEpoch = 2
	// treasuryCoins is the gas that the operator of this world puts in, in whole coins.
	treasuryCoins = 100
	orgName       = "Example Marketplace"
	ownerEmail    = "owner@example.test"
	operatorName  = "local operator"
)

// World is a running local world.
type World struct {
	Info Info

	opts          Options
	dir           string
	lock          *os.File // the lock on .coffer: this folder's world is this one
	chain         *anvil.Node
	otherChains   otherChains
	database      *local.Cluster
	app           *app.App
	stop          context.CancelFunc
	running       bool
	started       bool // Start has succeeded, and Stop was not called yet
	serviceEnded  chan error
	child         *child // with Options.Program
	signer        *child // with Options.SignerProcess
	outageProxies []*outageProxy
}

// Start brings a world up and returns when it can be used. It ends with Stop,
// or when ctx does.
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
	// PostgreSQL runs as another user when we are root and has to get through.
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
	if err := w.ensureAccounts(ctx); err != nil {
		return w, err
	}
	if err := w.fundTreasury(ctx); err != nil {
		return w, err
	}
	w.fillInfo(conf, tokens)
	if err := w.startService(ctx); err != nil {
		return w, err
	}
	w.started = true
	return w, w.Info.writeFile(opts.Dir)
}

// startService runs the service, here or in a process of its own.
func (w *World) startService(ctx context.Context) error {
	if w.opts.Program != "" || w.opts.WithoutService {
		err := w.app.Close()
		w.app = nil
		if err != nil || w.opts.WithoutService {
			return err
		}
		return w.RestartService(ctx, w.opts.Env...)
	}
	service := w.app
	service.OnKeyRolled(func(ctx context.Context, org string, key seal.Secret) {
		if _, err := SaveAPIKey(w.configFile(), org, key); err != nil {
			w.opts.Log.WarnContext(ctx, "the local world could not write down a rolled key", "error", err)
		}
	})
	w.running = true
	go func() { w.serviceEnded <- service.Run(ctx) }()
	return w.app.WaitReady(ctx)
}

// startDependencies starts PostgreSQL and the chains side by side.
func (w *World) startDependencies(ctx context.Context) (tokens anvil.Tokens, err error) {
	w.dropUnavailableChains()
	w.opts.Progress("starting PostgreSQL and a local chain for %s", w.chainList())
	g, gctx := errgroup.WithContext(ctx)
	w.startOtherChains(ctx, g)
	g.Go(func() (err error) {
		dir := filepath.Join(w.dir, "postgres")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && w.opts.PrepareDatabase != nil {
			if err := w.opts.PrepareDatabase(dir); err != nil {
				return fmt.Errorf("furnish the world's database: %w", err)
			}
		}
		// The children outlive ctx: the service is stopped before what it stands on.
		w.database, err = local.Start(context.WithoutCancel(ctx), local.Options{
			Dir: dir, Ephemeral: w.opts.StateDir == "", TCP: true, Port: w.opts.DatabasePort, Log: w.opts.Log,
		})
		return err
	})
	g.Go(func() (err error) {
		conf := anvil.Config{BlockTime: w.opts.BlockTime, Manual: w.opts.ManualBlocks, SlotsInEpoch: slotsInEpoch, Port: w.opts.ChainPort}
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
			return err
		}
		if tokens, err = w.chain.DeployTokens(gctx); err != nil {
			return err
		}
		b, err := json.Marshal(tokens)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		return err
	})
	return tokens, g.Wait()
}

// writeServiceConfig writes the configuration file that the service runs with, and the
// keys when there are none.
func (w *World) writeServiceConfig(tokens anvil.Tokens) (conf app.Config, err error) {
	conf = app.DefaultConfig()
	conf.Network = chain.Local
	conf.Database.URL = w.database.URL(local.Database)
	conf.Database.OwnerURL = w.database.OwnerURL(local.Database)
	if conf.API.Listen, err = findListenAddress(w.opts.Port); err != nil {
		return conf, err
	}
	conf.API.URL = "http://" + conf.API.Listen
	if conf.Operator.Listen, err = findListenAddress(w.opts.OperatorPort); err != nil {
		return conf, err
	}
	if conf.Ops.Listen, err = findListenAddress(w.opts.OpsPort); err != nil {
		return conf, err
	}
	conf.Operator.WhitelistCoolingOff = "0s" // nobody waits a day here
	conf.Keys, conf.Signer = app.KeyFiles(filepath.Join(w.dir, "keys"))
	if err := app.CreateKeys(conf.Keys, conf.Signer); err != nil {
		return conf, err
	}
	if err := w.writePolicy(conf.Signer.Policy); err != nil {
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
	conf.Chains = map[chain.Name]app.Chain{chain.Ethereum: {
		ChainID: anvil.DefaultChainID, Endpoints: []string{w.chain.URL}, Agree: 1, FeeCap: "500000000000", StartHeight: 1, Trace: "on",
	}}
	conf.Mints = evmMints(tokens)
	conf.Prices.Fixed = map[string]string{"1": "1.00", "2": "1.00", "3": "1.00", "4": "3000.00"}
	w.configureOtherChains(&conf)
	if err := w.proxyChains(conf); err != nil {
		return conf, err
	}
	conf.Risk.Providers = []string{"local"}
	conf.Webhooks.Development = true
	if w.opts.Limits {
		conf.API.Limits = app.UsualLimits()
	}
	second := app.Duration(time.Second)
	conf.Intervals = app.Intervals{
		Scan: second / 5, Dispatch: second / 5, Sweep: second / 2, Verify: 30 * second,
		Resend: 5 * second, Bump: 15 * second, Anchor: 60 * second,
	}
	if err := conf.Check(); err != nil {
		return conf, fmt.Errorf("the local world's own configuration: %w", err)
	}
	return conf, app.WriteConfig(w.configFile(), conf)
}

func (w *World) configFile() string { return filepath.Join(w.dir, "coffer.toml") }
func (w *World) signerFile() string { return filepath.Join(w.dir, "signer.toml") }
func (w *World) socketPath() string { return filepath.Join(w.dir, "signer.sock") }

// findListenAddress is where a server of the world will listen: at the port that was asked
// for, when it is free, else at any.
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

// evmMints has the mints of the local Ethereum. The ids are for ever.
func evmMints(tokens anvil.Tokens) []app.Mint {
	base := app.Mint{Chain: chain.Ethereum, DepositEnabled: true, WithdrawEnabled: true, ConfirmationsRequired: 2 * slotsInEpoch, Finality: "FINALIZED"}
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

// ensureAccounts makes the organization, its key, its person and the operator's key, or
// finds them again.
func (w *World) ensureAccounts(ctx context.Context) error {
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
		err = w.app.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := member.Add(ctx, tx, actor, o.ID, ownerEmail, "Olivia Owner", member.Owner)
			return err
		})
		if err != nil {
			return err
		}
	}
	if k.OperatorKey == "" {
		_, key, err := operator.CreateKey(ctx, w.app.DB(), actor, operatorName)
		if fault.HasCode(err, fault.InvalidState) { // made by a start that was stopped before it had written it down
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

// loadSavedWorld reads what a kept world has to know of its former life.
func (w *World) loadSavedWorld() error {
	k, err := readSavedWorld(savedWorldFile(w.dir))
	if err != nil {
		return err
	}
	w.Info.OrganizationID, w.Info.APIKey, w.Info.Operator = k.OrganizationID, k.APIKey, Operator{APIKey: k.OperatorKey}
	w.Info.Users = []User{{Email: ownerEmail, Roles: []string{string(member.Owner)}}}
	return nil
}

// fundTreasury does what an operator does first: it sends gas to the treasury. The
// coins go the ordinary way, through a block that becomes final.
func (w *World) fundTreasury(ctx context.Context) error {
	if err := w.fundOtherTreasuries(ctx); err != nil {
		return err
	}
	treasury, err := w.app.TreasuryWallet(ctx, w.Info.OrganizationID, chain.Ethereum)
	if err != nil {
		return err
	}
	address := common.HexToAddress(string(treasury.Address))
	balance, err := w.chain.Eth.BalanceAt(ctx, address, nil)
	if err != nil {
		return fmt.Errorf("look at the treasury: %w", err)
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
	w.Info.OperatorURL = "http://" + conf.Operator.Listen
	w.Info.OpsURL = "http://" + conf.Ops.Listen
	w.Info.Chains = map[string]Endpoint{string(chain.Ethereum): {
		RPCURL: w.chain.URL, WSURL: w.chain.WSURL, ChainID: anvil.DefaultChainID, FaucetKey: "0x" + anvil.FaucetKey,
	}}
	w.describeOtherChains()
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

// ServiceDB is the database of the service that runs in this process; nil when it runs in another.
func (w *World) ServiceDB() *pg.DB {
	if w.app == nil {
		return nil
	}
	return w.app.DB()
}

// DatabaseCluster is the world's PostgreSQL, for who has to stop and start it.
func (w *World) DatabaseCluster() *local.Cluster { return w.database }

// EthereumNode is the world's Ethereum, for who has to steer it.
func (w *World) EthereumNode() *anvil.Node { return w.chain }

// SolanaNode is the world's, for who has to steer it; nil when it has none.
func (w *World) SolanaNode() *surfpool.Node { return w.otherChains.solana }

// BitcoinNode is the world's, for who has to steer it; nil when it has none.
func (w *World) BitcoinNode() *btcd.Node { return w.otherChains.bitcoin }

// WaitEnd returns when ctx ends or when a part of the world does, which is an error.
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

// Stop ends the world: the service first, then what it stands on. It may be
// called at any time, and more than once.
func (w *World) Stop() error {
	var errs []error
	if w.lock != nil {
		if err := os.Remove(filepath.Join(w.opts.Dir, InfoFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	w.stop()
	if w.child != nil {
		errs = append(errs, w.child.stopProcess())
		w.child = nil
	}
	if w.signer != nil {
		errs = append(errs, w.signer.stopProcess())
		w.signer = nil
	}
	if w.running {
		errs = append(errs, <-w.serviceEnded)
		w.running = false
	}
	errs = append(errs, w.finalizeBlocks())
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
