// Package app wires all parts together, in order, and runs them: coffer serve and the local world
// start exactly this.
//
// It makes no decision. A crash leaves rows from which the next start continues; there is no
// recovery beyond the normal work.
package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/api"
	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/inbound"
	"github.com/cofferpay/coffer/internal/jobs"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/ops"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/seal"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/trace/otlp"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/whitelist"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	headerReadMax = 10 * time.Second // to send the headers of a request
	requestMax    = 60 * time.Second // to answer one
	// The pause between two test writes by which /readyz checks that the database takes writes.
	writableInterval = 2 * time.Second
	shutdownMax      = 20 * time.Second // for requests under way when the service stops
	idleMax          = 2 * time.Minute  // for a connection without requests
	headerBytesMax   = 16 << 10
	mirrorInterval   = 30 * time.Second // between two comparisons with the signer's journal

	// To wait for a body, in addition to the time that its bytes take.
	bodyWaitMax  = 10 * time.Second
	bodyRateMin  = 64 << 10 // bytes of a body per second
	privateConns = 256      // open at once on a listener that is not for organizations
)

// privateConnections limits the connections of the operators' and the health listeners.
var privateConnections = inbound.Limits{Connections: privateConns, BodyWait: bodyWaitMax, BodyRate: bodyRateMin}

// App is the wired service.
type App struct {
	conf        Config
	log         *slog.Logger
	db          *pg.DB
	signer      signer.Signer
	attestKey   ed25519.PublicKey
	closers     []func() error
	chains      chain.Chains
	wallets     *wallet.Service
	prices      price.Source
	sweepers    map[chain.Name]*sweep.Sweeper
	walkers     map[chain.Name]*scan.Walker
	withdrawals *withdrawal.Service
	deposits    *deposit.Service
	whitelist   *whitelist.Service
	screening   risk.Policy
	grants      *signer.GrantKey // nil where this process approves no payments and flags no deposits
	voider      *dispatch.Voider
	isTool      bool // a command next to the running service

	metrics                  *ops.Metrics
	apiListener, opsListener net.Listener
	apiHandler, opsHandler   http.Handler
	operatorListener         net.Listener // nil if there is no operators' listener
	keyRolled                func(ctx context.Context, org string, key seal.Secret)
	operatorHandler          http.Handler
	loops                    []loop
	jobs                     *jobs.Runner
	dispatcher               *delivery.Dispatcher // nil where no webhooks are posted
	sequencer                *event.Sequencer     // nil without the role of workers
	ready                    atomic.Bool
	opened                   chan struct{}
}

// loop is a part that works until its context ends.
type loop struct {
	name string
	run  func(ctx context.Context) error
}

// New wires the service: it opens the database, the signer, the chains and the listeners, and
// starts no loop. Close releases them.
func New(ctx context.Context, conf Config, log *slog.Logger) (service *App, err error) {
	if err := conf.checkPolicy(); err != nil {
		return nil, err
	}
	if conf.IsSignerOnly() {
		return nil, errors.New("this configuration is for a signer only")
	}
	sign, attest, closeSigner, err := OpenSigner(conf)
	if err != nil {
		return nil, err
	}
	service = newApp(conf, log, closeSigner)
	defer func() {
		if err != nil {
			err = errors.Join(err, service.Close())
			service = nil
		}
	}()
	if err := service.openCore(ctx, sign, attest); err != nil {
		return service, err
	}
	if err := service.openTrace(ctx); err != nil {
		return service, err
	}
	// Before a payment goes out or an address is issued, the database must have all entries of the
	// signer's journal. Otherwise it is older than the signer.
	if err := mirror.ImportJournal(ctx, service.db, service.signer, service.wallets); err != nil {
		return service, fmt.Errorf("compare the database with the signer's journal: %w", err)
	}
	mints, err := conf.mintCatalogue(service.chains)
	if err != nil {
		return service, err
	}
	if err := mint.Sync(ctx, service.db, mints); err != nil {
		return service, err
	}
	service.runAs(RoleWorkers, loop{"deposit", service.deposits.Run}, loop{"memos", service.deposits.RunMemos},
		loop{"resolutions", service.deposits.RunOverdue}, loop{"whitelist", service.whitelist.RunMaintenance},
		loop{"voids", service.voider.Run}, loop{"restored", func(ctx context.Context) error {
			return service.withdrawals.RunCollectOwed(ctx, log)
		}})
	if !conf.Risk.Rescreen.Disabled {
		service.runAs(RoleWorkers, loop{"rescreening", service.NewRescreener().Run})
	}
	for name, ch := range service.chains {
		service.wireChain(name, ch)
	}
	// Every process watches the journal, because each would go on with a database that was
	// replaced.
	service.loops = append(service.loops, loop{"journal", func(ctx context.Context) error {
		mirror.WatchJournal(ctx, service.db, service.signer, service.wallets, mirrorInterval)
		return nil
	}})
	return service, service.wireEdges(ctx)
}

// runAs adds loops if this process has their role.
func (a *App) runAs(role Role, loops ...loop) {
	if a.conf.hasRole(role) {
		a.loops = append(a.loops, loops...)
	}
}

// OpenTools wires what a command needs next to a running service: everything but the signer, the
// loops and the listeners. It writes rows on which the service then works; actions that need a
// signer are refused.
func OpenTools(ctx context.Context, conf Config, log *slog.Logger) (*App, error) {
	attest, err := keys.ReadAttestKey(conf.Keys.Attest)
	if err != nil {
		return nil, fmt.Errorf("keys.attest: %w", err)
	}
	service := newApp(conf, log, func() error { return nil })
	service.isTool = true
	if err := service.openCore(ctx, noSigner{}, attest); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	for name, ch := range service.chains {
		if !name.IsUTXO() {
			service.sweepers[name] = sweep.New(service.db, ch, service.wallets, service.prices, sweep.Config{},
				service.log)
		}
		service.walkers[name] = scan.New(
			service.db, scan.Config{Chain: name, Reader: ch.Reader, FinalityListeners: service.finalityListeners()},
			service.deposits, service.log,
		)
	}
	return service, nil
}

// voidWaitMax is how long a command waits until the running service has voided a payment.
const voidWaitMax = 10 * time.Second

// noSigner is the signer of a process without one.
type noSigner struct{ signer.Signer }

// ErrNoSigner says that a wallet does not exist yet and that tools cannot create one.
var ErrNoSigner = errors.New("this command has no signer: start the service, which makes the wallet, and try again")

func (noSigner) IssueAddress(context.Context, signer.WalletRef) (signer.IssuedAddress, error) {
	return signer.IssuedAddress{}, ErrNoSigner
}

func (noSigner) VoidIntent(context.Context, signer.Void) (signer.Entry, error) {
	return signer.Entry{}, errors.New("this command has no signer: the running service asks it")
}

func newApp(conf Config, log *slog.Logger, closeSigner func() error) *App {
	return &App{
		conf: conf, log: log, opened: make(chan struct{}), closers: []func() error{closeSigner},
		sweepers: map[chain.Name]*sweep.Sweeper{}, walkers: map[chain.Name]*scan.Walker{},
		prices: price.Fixed{Prices: conf.fixedPrices()},
	}
}

// openCore opens the database and the chains and builds the services on them.
func (a *App) openCore(ctx context.Context, sign signer.Signer, attest ed25519.PublicKey) (err error) {
	a.db, err = pg.Open(ctx, pg.Config{URL: a.conf.Database.URL, MaxConns: a.conf.Database.MaxConns}, time.Now)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	var roles []string
	for _, r := range a.conf.ActiveRoles() {
		roles = append(roles, string(r))
	}
	a.metrics = ops.NewMetrics(a.db, roles, a.log)
	if source, ok := sign.(interface{ Certificates() []remote.Certificate }); ok {
		a.metrics.RegisterCertificates(convertCertificates(source.Certificates))
	}
	sign = a.metrics.WrapSigner(sign)
	a.signer, a.attestKey, a.wallets = sign, attest, wallet.New(a.db, sign, attest)
	if err := a.openChains(ctx); err != nil {
		return err
	}
	if err := a.openPrices(); err != nil {
		return err
	}
	if err := a.openRisk(); err != nil {
		return err
	}
	var grants *signer.GrantKey
	if a.conf.hasRole(RoleAPI, RoleWorkers) {
		if grants, err = readGrantKey(a.conf.Keys.Approvals); err != nil {
			return err
		}
	}
	a.grants = grants
	a.voider = &dispatch.Voider{DB: a.db, Signer: sign, Grants: grants, Log: a.log}
	if a.isTool {
		a.voider.WaitMax = voidWaitMax
	}
	a.deposits = &deposit.Service{
		DB: a.db, Chains: a.chains, Wallets: a.wallets, Prices: a.prices, PriceAge: a.conf.PriceAge(),
		Risk: a.screening, GrantKey: grants, Voider: a.voider,
		BlockSanctioned: a.conf.Risk.SanctionedReject == "BLOCK", Log: a.log,
	}
	a.whitelist = whitelist.New(a.db, sign, whitelist.Config{
		AttestKey: attest, GrantKey: grants, Chains: a.chains, CoolingOff: a.conf.Operator.coolingOff(),
	}, a.log)
	a.withdrawals = &withdrawal.Service{
		DB: a.db, Chains: a.chains, Wallets: a.wallets, Prices: a.prices, PriceAge: a.conf.PriceAge(),
		HasPriceSource: a.conf.pricedMints(),
		Risk:           a.screening, GrantKey: grants, Whitelist: whitelistAdapter{a.whitelist}, Voider: a.voider,
	}
	a.voider.Listeners = VoidListeners(a.withdrawals, a.deposits)
	return nil
}

// whitelistAdapter adapts the whitelist to the withdrawals of organizations.
type whitelistAdapter struct{ service *whitelist.Service }

// Usable implements withdrawal.Whitelist.
func (l whitelistAdapter) Usable(
	ctx context.Context, tx pg.Tx, org, listedID string,
) (withdrawal.WhitelistEntry, error) {
	address, err := l.service.Usable(ctx, tx, org, listedID)
	if err != nil {
		return withdrawal.WhitelistEntry{}, err
	}
	return withdrawal.WhitelistEntry{Chain: address.Chain, Address: address.Address}, nil
}

// convertCertificates converts the remote signer's certificates for the metrics.
func convertCertificates(read func() []remote.Certificate) func() []ops.Certificate {
	return func() (certificates []ops.Certificate) {
		for _, c := range read() {
			certificates = append(certificates, ops.Certificate(c))
		}
		return certificates
	}
}

// openTrace starts sending spans, if the configuration names an endpoint.
func (a *App) openTrace(ctx context.Context) error {
	if a.conf.Trace.Endpoint == "" {
		return nil
	}
	closing, err := otlp.Open(ctx, a.conf.Trace.Endpoint, a.conf.Trace.sampleRatio(), formatRoles(a.conf.ActiveRoles()),
		a.log)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, closing)
	return nil
}

func (a *App) openChains(ctx context.Context) error {
	a.chains = chain.Chains{}
	for name, c := range a.conf.Chains {
		ch := a.conf.offlineChain(name)
		if len(c.Endpoints) > 0 || a.conf.asksChains() {
			var err error
			ch, err = a.conf.openChain(ctx, name)
			if a.isTool && errors.Is(err, chain.ErrTooFewProviders) {
				// Commands such as a freeze, or ending an order that waits for these providers, do
				// not ask them.
				a.log.WarnContext(ctx, "a command continues without the providers of a chain; calls that need them "+
					"fail",
					"chain", name, "error", err)
				err = nil
			}
			if err != nil {
				return fmt.Errorf("chains.%s: %w", name, err)
			}
		}
		ch.Addresses = addressForms[c.Addresses]
		a.chains[name] = ch
	}
	return nil
}

func (a *App) wireChain(name chain.Name, ch chain.Chain) {
	paces := a.conf.Intervals
	walk := scan.Config{
		Chain: name, Reader: ch.Reader, PollInterval: time.Duration(paces.Scan),
		FinalityListeners: a.finalityListeners(),
	}
	walk.OnError = func(walk string, err error) { a.metrics.CountScanError(name, walk, err) }
	if start := a.conf.Chains[name].StartHeight; start > 0 {
		parent := start - 1
		walk.Start = &parent
	}
	a.walkers[name] = scan.New(a.db, walk, a.deposits, a.log)
	a.runAs(RoleScan, loop{"scan " + string(name), a.walkers[name].Run})
	a.runAs(RoleDispatch, loop{"dispatch " + string(name), a.DispatchWorker(name).Run})
	sweeper := sweep.New(a.db, ch, a.wallets, a.prices,
		sweep.Config{PollInterval: time.Duration(paces.Sweep), CloseAfter: a.conf.Chains[name].closeIdle()}, a.log)
	if !name.IsUTXO() {
		// On a chain with UTXOs a person has nothing to sweep: every UTXO pays from where it is.
		a.sweepers[name] = sweeper
	}
	a.runAs(RoleWorkers, loop{"sweep " + string(name), sweeper.Run})
}

// finalityListeners returns the parts that rely on final blocks, in the order in which they are
// notified of removed blocks.
func (a *App) finalityListeners() []finality.Listener {
	return []finality.Listener{a.deposits}
}

// verifyBooksJob runs the verifier.
type verifyBooksJob struct{}

// Kind returns the job's permanent name.
func (verifyBooksJob) Kind() string { return "verify" }

// verifyAddressesJob verifies every address.
type verifyAddressesJob struct{}

// Kind returns the job's permanent name.
func (verifyAddressesJob) Kind() string { return "verify_addresses" }

// expireChangesJob ends change requests that were not approved in time.
type expireChangesJob struct{}

// Kind returns the job's permanent name.
func (expireChangesJob) Kind() string { return "end_change_requests" }

// FourEyes returns whether a change that loosens a control needs a second operator here.
func (a *App) FourEyes() changerequest.Rule { return a.conf.Operator.fourEyesRule() }

func (o Operator) fourEyesRule() changerequest.Rule { return changerequest.Rule{Enabled: o.FourEyes} }

// verifyAddressesInterval is how often every address is verified. A used address is verified on
// use, so this is for those that wait for a payment.
const verifyAddressesInterval = 24 * time.Hour

// pruneInterval is how often old data is deleted from the feed and the log of webhooks.
const pruneInterval = time.Hour

// pruneAnswersJob deletes answers of risk providers to which nothing refers.
type pruneAnswersJob struct{}

// Kind returns the job's permanent name.
func (pruneAnswersJob) Kind() string { return "retire_risk_answers" }

// pruneWebhooksJob deletes old data from the feed and the log of webhooks.
type pruneWebhooksJob struct{}

// Kind returns the job's permanent name.
func (pruneWebhooksJob) Kind() string { return "retire_webhooks" }

// wireEdges wires the external interfaces: events, webhooks, the listeners.
func (a *App) wireEdges(ctx context.Context) (err error) {
	if a.conf.hasRole(RoleWorkers) {
		if err := a.wireWorkers(); err != nil {
			return err
		}
	}
	if a.conf.hasRole(RoleAPI) {
		if err := a.wireAPI(); err != nil {
			return err
		}
	}
	if a.conf.hasRole(RoleSigner) {
		watch := &remote.CertificateWatch{}
		a.metrics.RegisterCertificates(convertCertificates(watch.Certificates))
		answers, err := a.conf.Signer.Serve.openServers(ctx, a.signer, watch)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			a.loops = append(a.loops, loop{"signer", answer})
		}
	}
	a.opsHandler = ops.NewHandler(map[string]ops.Check{
		"service": a.CheckReady, "database": a.db.WritableCheck(writableInterval), "signer": a.checkSignerAnswers,
	}, a.metrics)
	if a.opsListener, err = net.Listen("tcp", a.conf.Ops.Listen); err != nil {
		return fmt.Errorf("ops.listen: %w", err)
	}
	return nil
}

// openDispatcher builds the dispatcher of webhooks with the installation's keys, once per process.
// keys are their public halves, newest first.
func (a *App) openDispatcher(sealed *seal.Keyset) (d *delivery.Dispatcher, keys []string, err error) {
	key, err := delivery.OpenKey(a.conf.Keys.Webhook)
	if err != nil {
		return nil, nil, fmt.Errorf("keys.webhook: %w", err)
	}
	keys = []string{key.Public()}
	var former []webhook.Key
	if a.conf.Keys.WebhookFormer != "" {
		old, err := delivery.OpenKey(a.conf.Keys.WebhookFormer)
		if err != nil {
			return nil, nil, fmt.Errorf("keys.webhook_former: %w", err)
		}
		former, keys = append(former, old), append(keys, old.Public())
	}
	if a.dispatcher == nil {
		a.dispatcher = &delivery.Dispatcher{
			DB: a.db, Seal: sealed, Key: key, FormerKeys: former, Development: a.conf.Webhooks.Development, Log: a.log,
			Observe: a.metrics.CountWebhookAttempt,
		}
	}
	return a.dispatcher, keys, nil
}

// wireWorkers wires the sequencer, the deliveries and the periodic jobs.
func (a *App) wireWorkers() error {
	sealed, err := a.openSeal()
	if err != nil {
		return err
	}
	dispatcher, _, err := a.openDispatcher(sealed)
	if err != nil {
		return err
	}
	environment := webhook.Test
	if a.conf.Network == chain.Mainnet {
		environment = webhook.Live
	}
	sequencer := &event.Sequencer{DB: a.db, Environment: environment, Listener: delivery.FanOut{}, Log: a.log}
	sequencer.OnNumbered = dispatcher.Wake
	a.sequencer = sequencer
	a.jobs = jobs.New(a.db, a.log)
	jobs.HandlePeriodic(a.jobs, time.Duration(a.conf.Intervals.Verify), verifyBooksJob{},
		func(ctx context.Context) error {
			_, err := verify.CheckAndFreeze(ctx, a.db, a.chains, a.log, verify.WithGrants(a.grants))
			return err
		})
	jobs.HandlePeriodic(a.jobs, verifyAddressesInterval, verifyAddressesJob{}, func(ctx context.Context) error {
		_, err := verify.CheckAddressesAndFreeze(ctx, a.db, a.wallets, a.log)
		return err
	})
	jobs.HandlePeriodic(a.jobs, pruneInterval, expireChangesJob{}, func(ctx context.Context) error {
		return changerequest.Expire(ctx, a.db)
	})
	jobs.HandlePeriodic(a.jobs, pruneInterval, pruneAnswersJob{}, func(ctx context.Context) error {
		return risk.PruneAnswers(ctx, a.db, cmp.Or(time.Duration(a.conf.Risk.AnswersKept), risk.RetentionDefault))
	})
	jobs.HandlePeriodic(a.jobs, pruneInterval, pruneWebhooksJob{}, func(ctx context.Context) error {
		return delivery.Prune(ctx, a.db, a.log)
	})
	a.loops = append(a.loops, loop{"sequencer", sequencer.Run}, loop{"delivery", dispatcher.Run},
		loop{"jobs", a.jobs.Run})
	sealer, anchorer := audit.Sealer{DB: a.db, Log: a.log}, audit.Anchorer{
		DB: a.db, Signer: a.signer, Key: a.attestKey, Interval: time.Duration(a.conf.Intervals.Anchor), Log: a.log,
	}
	a.loops = append(a.loops, loop{"audit", sealer.Run}, loop{"anchors", anchorer.Run})
	folder := ledger.Folder{DB: a.db, Log: a.log}
	a.loops = append(a.loops, loop{"totals", folder.Run})
	return nil
}

// wireAPI wires the organizations' interface. If it has only the public halves of the webhook keys,
// it shows them and posts no samples.
func (a *App) wireAPI() error {
	sealed, err := a.openSeal()
	if err != nil {
		return err
	}
	var posts *delivery.Dispatcher
	var keys []string
	if a.conf.Keys.WebhookPublic != "" && !a.conf.hasRole(RoleWorkers) {
		keys, err = readWebhookPublic(a.conf.Keys.WebhookPublic)
	} else {
		posts, keys, err = a.openDispatcher(sealed)
	}
	if err != nil {
		return err
	}
	cursor, err := readCursorKey(a.conf.Keys.Cursor)
	if err != nil {
		return err
	}
	trusted, err := parseProxies(a.conf.API.TrustedProxies)
	if err != nil {
		return fmt.Errorf("api.trusted_proxies: %w", err)
	}
	keyRolled := func(ctx context.Context, org string, key seal.Secret) {
		if a.keyRolled != nil {
			a.keyRolled(ctx, org, key)
		}
	}
	a.apiHandler = api.New(api.Config{
		KeyRolled: keyRolled,
		Limits:    a.conf.API.Limits.apiLimits(a.conf.Network), Proxies: trusted,
		DB: a.db, Chains: a.chains, Withdrawals: a.withdrawals, Transfers: transfer.New(a.db), Wallets: a.wallets,
		Prices: a.prices, WebhookKeys: keys,
		Deposits:  a.deposits,
		Endpoints: &delivery.Endpoints{Seal: sealed, Development: a.conf.Webhooks.Development, Posts: posts},
		CursorKey: cursor, BaseURL: a.conf.API.URL + "/v1", Log: a.log, Observe: a.metrics.ObserveRequest,
	})
	if a.conf.Operator.Listen != "" {
		allowed, err := a.conf.Operator.allowedPrefixes()
		if err != nil {
			return fmt.Errorf("operator.allow: %w", err)
		}
		operatorProxies, err := parseProxies(a.conf.Operator.TrustedProxies)
		if err != nil {
			return fmt.Errorf("operator.trusted_proxies: %w", err)
		}
		a.operatorHandler = api.NewOperator(api.OperatorConfig{
			Proxies:  operatorProxies,
			FourEyes: a.conf.Operator.fourEyesRule(), Whitelist: a.whitelist,
			DB: a.db, Chains: a.chains, Withdrawals: a.withdrawals, Deposits: a.deposits,
			Rescreens: a.NewRescreener(), AllowedPrefixes: allowed, CursorKey: cursor,
			BaseURL:   a.conf.Operator.publicURL() + "/v1",
			Limits:    a.conf.API.Limits.apiLimits(a.conf.Network),
			LocalRisk: slices.Contains(a.conf.Risk.Providers, riskLocal), Log: a.log,
			KeyRolled: keyRolled,
		})
		if a.operatorListener, err = net.Listen("tcp", a.conf.Operator.Listen); err != nil {
			return fmt.Errorf("operator.listen: %w", err)
		}
	}
	if a.apiListener, err = net.Listen("tcp", a.conf.API.Listen); err != nil {
		return fmt.Errorf("api.listen: %w", err)
	}
	return nil
}

func (a *App) openSeal() (*seal.Keyset, error) {
	sealed, err := seal.OpenKeyset(a.conf.Keys.Seal)
	if err != nil {
		return nil, fmt.Errorf("keys.seal: %w", err)
	}
	return sealed, nil
}

// OnKeyRolled registers f, which receives each main API key that an operator or its organization
// rolls through this process. It is called before Run.
func (a *App) OnKeyRolled(f func(ctx context.Context, org string, key seal.Secret)) { a.keyRolled = f }

// SetIdlePause sets how long the sequencer and the deliveries wait between two polls while there is
// nothing to do. It is called before Run, and is for worlds that wait most of the time.
func (a *App) SetIdlePause(pause time.Duration) {
	if a.sequencer != nil {
		a.sequencer.IdlePause, a.dispatcher.IdlePause = pause, pause
	}
}

// Run works until ctx ends or a part fails. It then stops the parts in order: first no new
// requests, then the loops.
func (a *App) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	for _, l := range a.loops {
		g.Go(func() error {
			if err := l.run(loops); err != nil && loops.Err() == nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			return nil
		})
	}
	var servers []*http.Server
	serve := func(l net.Listener, h http.Handler, limits inbound.Limits) {
		s := a.newServer(h)
		servers = append(servers, s)
		g.Go(func() error {
			if err := s.Serve(inbound.GuardListener(l, limits, a.log)); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	attrs := []any{
		"roles",
		formatRoles(a.conf.ActiveRoles()), "ops", a.opsListener.Addr().String(), "network", string(a.conf.Network),
	}
	if a.apiListener != nil {
		serve(a.apiListener, a.apiHandler, a.conf.API.connectionLimits())
		attrs = append(attrs, "api", a.apiListener.Addr().String())
	}
	if a.operatorListener != nil {
		serve(a.operatorListener, a.operatorHandler, privateConnections)
		attrs = append(attrs, "operator", a.operatorListener.Addr().String())
	}
	serve(a.opsListener, a.opsHandler, privateConnections)
	a.ready.Store(true)
	close(a.opened)
	a.log.Info("serving", attrs...)
	g.Go(func() error {
		<-ctx.Done()
		a.ready.Store(false)
		a.log.Info("stopping")
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownMax)
		defer cancel()
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Shutdown(stopping))
		}
		stopLoops()
		return errors.Join(errs...)
	})
	return g.Wait()
}

func (a *App) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerReadMax, ReadTimeout: requestMax, WriteTimeout: requestMax,
		IdleTimeout:    idleMax,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// Close releases what New opened. The caller calls it after Run has returned, or without Run.
func (a *App) Close() error {
	var errs []error
	for _, l := range []net.Listener{a.apiListener, a.opsListener, a.operatorListener} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, c := range a.closers {
		errs = append(errs, c())
	}
	if a.db != nil {
		a.db.Close()
	}
	return errors.Join(errs...)
}

// WaitReady waits until the listeners answer.
func (a *App) WaitReady(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.opened:
		return nil
	}
}

// CheckReady returns nil if the service takes requests; otherwise the error says why not.
func (a *App) CheckReady(context.Context) error {
	if !a.ready.Load() {
		return errors.New("starting or stopping")
	}
	return nil
}

func (a *App) checkSignerAnswers(ctx context.Context) error {
	_, err := a.signer.Head(ctx)
	return err
}

// LoopNames returns the names of the loops that this process runs. A chain's loop has the name of
// the chain after a space.
func (a *App) LoopNames() []string {
	names := make([]string, len(a.loops))
	for i, l := range a.loops {
		names[i] = l.name
	}
	return names
}

// DB returns the service's database.
func (a *App) DB() *pg.DB { return a.db }

// GrantKey returns the key that authenticates decisions; nil if this process needs none.
func (a *App) GrantKey() *signer.GrantKey { return a.grants }

// WalletService returns the wallet service. That of tools creates no wallets: it returns
// ErrNoSigner.
func (a *App) WalletService() *wallet.Service { return a.wallets }

// Chains returns the configured chains.
func (a *App) Chains() chain.Chains { return a.chains }

// WhitelistService returns the service for the addresses to which organizations may be paid out.
func (a *App) WhitelistService() *whitelist.Service { return a.whitelist }

// WithdrawalService returns the withdrawal service.
func (a *App) WithdrawalService() *withdrawal.Service { return a.withdrawals }

// DepositService returns the service that records, credits and resolves deposits.
func (a *App) DepositService() *deposit.Service { return a.deposits }

// DecideStuck ends a stuck payment, sweep or top-up as a person has found it on the chain: paid or
// not paid. Error: dispatch.ErrNotStuck.
func (a *App) DecideStuck(ctx context.Context, orderID string, paid bool, actor audit.Actor, reason string) error {
	return dispatch.DecideStuck(ctx, a.db, OrderListeners(a.withdrawals, a.deposits), orderID, paid, actor, reason)
}

// Sweeper returns the sweeper of a chain, or nil where nothing is swept.
func (a *App) Sweeper(name chain.Name) *sweep.Sweeper { return a.sweepers[name] }

// Walker returns the walker of a chain, or nil.
func (a *App) Walker(name chain.Name) *scan.Walker { return a.walkers[name] }

// DispatchWorker returns the dispatch worker of a chain, or nil. Without a signer it assigns
// transactions to slots; the running service has them signed and broadcasts them.
func (a *App) DispatchWorker(name chain.Name) *dispatch.Worker {
	ch, ok := a.chains[name]
	if !ok {
		return nil
	}
	paces := a.conf.Intervals
	listeners := OrderListeners(a.withdrawals, a.deposits)
	return dispatch.New(a.db, ch, a.signer, mirror.RecordEntry, listeners, dispatch.Config{
		Poll: time.Duration(paces.Dispatch), RetryAfter: 2 * time.Duration(paces.Dispatch),
		ResendAfter: time.Duration(paces.Resend), BumpAfter: time.Duration(paces.Bump),
		InFlightMax: a.conf.Chains[name].InFlightMax, UnminedMax: a.conf.Chains[name].UnminedMax,
	}, a.log, dispatch.WithChangeWallets(a.wallets), dispatch.WithVoider(a.voider))
}

// CostMax returns the maximum cost of a transaction with that much gas on a chain. On a chain
// without gas it is the maximum cost of any transaction. Error: money.ErrRange.
func (a *App) CostMax(name chain.Name, gas uint64) (money.Amount, error) {
	ch := a.conf.Chains[name]
	if name.Family() == chain.EVM {
		return money.MustParse(ch.FeeCap).Mul(gas)
	}
	return ch.costMax(name), nil
}

// TreasuryWallet returns the wallet from which an organization's payments on a chain come, and to
// which its operator sends gas.
func (a *App) TreasuryWallet(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	return a.wallets.Treasury(ctx, org, name.Family())
}
