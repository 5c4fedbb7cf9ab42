// Package app opens the parts that a configuration names, builds the service from them, and runs the
// loops and listeners of the process's roles: coffer serve and the local world start exactly this.
//
// It makes no decision. A crash leaves rows from which the next start continues; there is no
// recovery beyond the normal work.
package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/console"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/http/payerpages"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/ops"
	"github.com/cofferpay/coffer/internal/platform/inbound"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/platform/trace/otlp"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
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

// App is the service with its listeners.
type App struct {
	*service.Service
	changes *audit.Follower // tells open pages what changed; nil without pages
	// SignIn signs the people of organizations in; nil without pages.
	SignIn *signin.Service
	// OperatorSignIn signs operators in; nil without a console.
	OperatorSignIn *signin.Service

	hasher  *password.Hasher // of both sides; nil until it is needed
	conf    Config
	log     *slog.Logger
	parts   service.Parts
	closers []func() error
	isTool  bool // a command next to the running service

	metrics                  *ops.Metrics
	apiListener, opsListener net.Listener
	apiHandler, opsHandler   http.Handler
	operatorListener         net.Listener // nil if there is no operators' listener
	keyRolled                func(ctx context.Context, org string, key seal.Secret)
	operatorHandler          http.Handler
	approvalsListener        net.Listener // nil without the role
	approvalsHandler         http.Handler
	webhookKeys              []string // public halves, newest first
	loops                    []service.Loop
	cases                    atomic.Pointer[payerpages.Cases] // how the local world plays payers
	ready                    atomic.Bool
	opened                   chan struct{}
	stopped                  chan struct{} // closed when the servers end, so that no live page holds them up
	stopOnce                 sync.Once
}

// New opens the database, the signer, the chains and the listeners, and builds the service. It
// starts no loop. Close releases them.
func New(ctx context.Context, conf Config, log *slog.Logger) (a *App, err error) {
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
	a = newApp(conf, log, closeSigner)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
			a = nil
		}
	}()
	if err := a.openWebhookKeys(); err != nil {
		return a, err
	}
	if err := a.openMail(); err != nil {
		return a, err
	}
	if err := a.openCore(ctx, sign, attest); err != nil {
		return a, err
	}
	if err := a.openTrace(ctx); err != nil {
		return a, err
	}
	// Before a payment goes out or an address is issued, the database must have all entries of the
	// signer's journal. Otherwise it is older than the signer.
	importedAt := a.parts.DB.Clock()()
	if err := journal.Import(ctx, a.parts.DB, a.parts.Signer, a.Wallets); err != nil {
		return a, fmt.Errorf("compare the database with the signer's journal: %w", err)
	}
	mints, err := conf.mintCatalogue(a.Chains)
	if err != nil {
		return a, err
	}
	if err := mint.Sync(ctx, a.parts.DB, mints); err != nil {
		return a, err
	}
	// A payment names its checkout by a reference that the database has to know before the chain is walked.
	if err := a.Checkouts.RestoreOptions(ctx, importedAt); err != nil {
		return a, err
	}
	a.loops = a.roleLoops()
	return a, a.wireEdges(ctx)
}

// roleLoops returns the loops of this process's roles.
func (a *App) roleLoops() []service.Loop {
	loops := []service.Loop{a.JournalLoop()}
	if _, hasReplica := a.parts.DB.ReplicaStat(); hasReplica {
		loops = append(loops, service.Loop{Name: "replica", Run: func(ctx context.Context) error {
			a.parts.DB.WatchReplica(ctx, a.log)
			return nil
		}})
	}
	if a.conf.hasRole(RoleScan) {
		loops = append(loops, a.ScanLoops()...)
	}
	if a.conf.hasRole(RoleDispatch) {
		loops = append(loops, a.DispatchLoops()...)
	}
	if a.conf.hasRole(RoleWorkers) {
		loops = append(loops, a.WorkerLoops()...)
	}
	return loops
}

// OpenTools opens what a command needs next to a running service: everything but the signer, the
// loops and the listeners. It writes rows on which the service then works; actions that need a
// signer are refused.
func OpenTools(ctx context.Context, conf Config, log *slog.Logger) (*App, error) {
	attest, err := keys.ReadAttestKey(conf.Keys.Attest)
	if err != nil {
		return nil, fmt.Errorf("keys.attest: %w", err)
	}
	a := newApp(conf, log, func() error { return nil })
	a.isTool = true
	if err := a.openCore(ctx, nil, attest); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// voidWaitMax is how long a command waits until the running service has voided a payment.
const voidWaitMax = 10 * time.Second

func newApp(conf Config, log *slog.Logger, closeSigner func() error) *App {
	return &App{
		conf: conf, log: log, opened: make(chan struct{}), stopped: make(chan struct{}),
		closers: []func() error{closeSigner},
		parts:   service.Parts{Prices: price.Fixed{Prices: conf.fixedPrices()}, Log: log},
	}
}

// openCore opens the database, the chains and the providers, and builds the service on them. sign
// is nil for a command.
func (a *App) openCore(ctx context.Context, sign signer.Signer, attest ed25519.PublicKey) (err error) {
	conf := pg.Config{URL: a.conf.Database.URL, MaxConns: a.conf.Database.MaxConns}
	if a.conf.hasRole(RoleAPI) && !a.isTool {
		conf.ReadURL = a.conf.Database.ReadURL
	}
	a.parts.DB, err = pg.Open(ctx, conf, time.Now)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	var roles []string
	for _, r := range a.conf.ActiveRoles() {
		roles = append(roles, string(r))
	}
	a.metrics = ops.NewMetrics(a.parts.DB, roles, a.log)
	a.parts.OnScanError, a.parts.OnWebhook = a.metrics.CountScanError, a.metrics.CountWebhookAttempt
	a.parts.OnTamperedDepositSwap = a.metrics.CountTamperedDepositSwap
	if source, ok := sign.(interface{ Certificates() []remote.Certificate }); ok {
		a.metrics.RegisterCertificates(convertCertificates(source.Certificates))
	}
	if sign != nil {
		a.parts.Signer = a.metrics.WrapSigner(sign)
	}
	a.parts.AttestKey = attest
	if err := a.openChains(ctx); err != nil {
		return err
	}
	if err := a.openPrices(); err != nil {
		return err
	}
	if err := a.openRisk(); err != nil {
		return err
	}
	if a.conf.hasRole(RoleAPI, RoleApprovals, RoleWorkers) {
		if a.parts.Grants, err = readGrantKey(a.conf.Keys.Approvals); err != nil {
			return err
		}
	}
	if a.conf.hasRole(RoleAPI, RoleWorkers) {
		if a.parts.SwapProviders, err = a.conf.openSwapProviders(); err != nil {
			return err
		}
	}
	serviceConf := a.conf.serviceConfig()
	if err = a.conf.addCheckoutPages(&serviceConf); err != nil {
		return err
	}
	if a.isTool {
		serviceConf.VoidWaitMax = voidWaitMax
	}
	a.Service = service.New(serviceConf, a.parts)
	a.metrics.RegisterSwapProviders(a.readBreakers)
	a.metrics.RegisterSwapExposures(a.readExposures)
	return nil
}

// readBreakers returns since when this process asks no provider of swaps, for the metrics.
func (a *App) readBreakers() map[string]time.Time {
	opened := map[string]time.Time{}
	for _, h := range a.Swaps.Panel.ListHealth() {
		opened[h.Provider] = h.OpenSince
	}
	return opened
}

// readExposures returns what is with each provider of swaps, for the metrics.
func (a *App) readExposures(ctx context.Context) ([]ops.SwapExposure, error) {
	providers, err := a.Swaps.ListProviders(ctx)
	if err != nil {
		return nil, err
	}
	exposures := make([]ops.SwapExposure, len(providers))
	for i, p := range providers {
		exposures[i] = ops.SwapExposure{
			Provider: p.Name, USD: p.Outstanding.USD, Unvalued: p.Outstanding.Unvalued, USDMax: p.OutstandingUSDMax,
		}
	}
	return exposures, nil
}

// serviceConfig returns the settings of the features and their loops.
func (c Config) serviceConfig() service.Config {
	conf := service.Config{
		Environment: webhook.Test, PriceAge: c.PriceAge(), HasPriceSource: c.pricedMints(),
		IsPegged:        c.peggedMints(),
		BlockSanctioned: c.Risk.SanctionedReject == "BLOCK", CoolingOff: c.Operator.coolingOff(),
		Rescreen: c.Risk.Rescreen.rescreenConfig(), NoRescreening: c.Risk.Rescreen.Disabled,
		DevelopmentWebhooks: c.Webhooks.Development, IsLocal: c.Network == chain.Local,
		VerifyInterval: time.Duration(c.Intervals.Verify), AnchorInterval: time.Duration(c.Intervals.Anchor),
		EventPause:      time.Duration(c.Intervals.Events),
		RiskAnswersKept: time.Duration(c.Risk.AnswersKept),
		Swaps:           c.Swaps.swapConfig(),
		Chains:          map[chain.Name]service.ChainConfig{},
	}
	if c.Network == chain.Mainnet {
		conf.Environment = webhook.Live
	}
	if c.Dashboard.Origin != "" {
		conf.EndpointURL = c.Dashboard.Origin + dashboard.EndpointPath
		conf.ChangeURL = c.Dashboard.Origin + dashboard.ChangePath
	}
	conf.PagesURL = c.approvalsURL()
	if c.Console.Origin != "" {
		conf.ConsoleURL = c.Console.Origin + console.Prefix
	}
	conf.QueuesMail, conf.ChangeDelay = c.Mail.IsEnabled(), memberchange.DelayDefault
	if c.Network == chain.Local {
		conf.ChangeDelay = 0 // tests and demonstrations cannot wait a day
	}
	for name, ch := range c.Chains {
		conf.Chains[name] = c.chainConfig(ch)
	}
	return conf
}

// chainConfig returns the settings of a chain's loops.
func (c Config) chainConfig(ch Chain) service.ChainConfig {
	conf := service.ChainConfig{
		ScanInterval: time.Duration(c.Intervals.Scan),
		Dispatch: dispatch.Config{
			Poll: time.Duration(c.Intervals.Dispatch), RetryAfter: 2 * time.Duration(c.Intervals.Dispatch),
			ResendAfter: time.Duration(c.Intervals.Resend), BumpAfter: time.Duration(c.Intervals.Bump),
			InFlightMax: ch.InFlightMax, UnminedMax: ch.UnminedMax,
		},
		Sweep: sweep.Config{PollInterval: time.Duration(c.Intervals.Sweep), CloseAfter: ch.closeIdle()},
	}
	if ch.StartHeight > 0 {
		parent := ch.StartHeight - 1
		conf.Start = &parent
	}
	return conf
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
	a.parts.Chains = chain.Chains{}
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
		a.parts.Chains[name] = ch
	}
	return nil
}

// FourEyes returns whether a change that loosens a control needs a second operator here.
func (a *App) FourEyes() changerequest.Rule { return a.conf.Operator.fourEyesRule() }

func (o Operator) fourEyesRule() changerequest.Rule { return changerequest.Rule{Enabled: o.FourEyes} }

// wireEdges wires the external interfaces: events, webhooks, the listeners.
func (a *App) wireEdges(ctx context.Context) (err error) {
	if a.conf.hasRole(RoleAPI) {
		if err := a.wireAPI(); err != nil {
			return err
		}
	}
	if a.conf.hasRole(RoleApprovals) {
		if err := a.wireApprovals(ctx); err != nil {
			return err
		}
	}
	if a.conf.hasRole(RoleSigner) {
		watch := &remote.CertificateWatch{}
		a.metrics.RegisterCertificates(convertCertificates(watch.Certificates))
		answers, err := a.conf.Signer.Serve.openServers(ctx, a.parts.Signer, watch)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			a.loops = append(a.loops, service.Loop{Name: "signer", Run: answer})
		}
	}
	a.opsHandler = ops.NewHandler(map[string]ops.Check{
		"service": a.CheckReady, "database": a.parts.DB.WritableCheck(writableInterval), "signer": a.checkSignerAnswers,
	}, a.metrics)
	if a.opsListener, err = net.Listen("tcp", a.conf.Ops.Listen); err != nil {
		return fmt.Errorf("ops.listen: %w", err)
	}
	return nil
}

// openWebhookKeys opens the key of sealed secrets, and the installation's keys for webhooks in a process that shows
// them or signs with them. If the API has only the public halves, it shows them and posts no samples.
func (a *App) openWebhookKeys() (err error) {
	if !a.conf.hasRole(RoleAPI, RoleApprovals, RoleWorkers) {
		return nil
	}
	if a.parts.Seal, err = a.openSeal(); err != nil || !a.conf.hasRole(RoleAPI, RoleWorkers) {
		return err
	}
	if a.conf.Keys.WebhookPublic != "" && !a.conf.hasRole(RoleWorkers) {
		a.webhookKeys, err = readWebhookPublic(a.conf.Keys.WebhookPublic)
		return err
	}
	key, err := delivery.OpenKey(a.conf.Keys.Webhook)
	if err != nil {
		return fmt.Errorf("keys.webhook: %w", err)
	}
	a.parts.WebhookKeys = []webhook.Key{key}
	if a.conf.Keys.WebhookFormer != "" {
		former, err := delivery.OpenKey(a.conf.Keys.WebhookFormer)
		if err != nil {
			return fmt.Errorf("keys.webhook_former: %w", err)
		}
		a.parts.WebhookKeys = append(a.parts.WebhookKeys, former)
	}
	for _, k := range a.parts.WebhookKeys {
		a.webhookKeys = append(a.webhookKeys, k.Public())
	}
	return nil
}

// openMail builds the transport of mails, in a process that sends them.
func (a *App) openMail() (err error) {
	if !a.conf.Mail.IsEnabled() || !a.conf.hasRole(RoleWorkers) {
		return nil
	}
	if a.parts.MailAddress, err = a.conf.Mail.SenderAddress(); err != nil {
		return fmt.Errorf("mail.from: %w", err)
	}
	a.parts.Mail = a.conf.Mail.NewTransport()
	return nil
}

// wireAPI wires the interfaces of the organizations and of the operators.
func (a *App) wireAPI() error {
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
		DB: a.parts.DB, Chains: a.Chains, Withdrawals: a.Withdrawals, Transfers: a.Transfers,
		Swaps: a.Swaps, DepositSwaps: a.DepositSwaps, Checkouts: a.Checkouts, Payouts: a.Payouts,
		Whitelist: a.Whitelist, Wallets: a.Wallets,
		Prices: a.parts.Prices, WebhookKeys: a.webhookKeys,
		Receipts: receipt.Signer{Keys: a.parts.WebhookKeys}, Environment: a.conf.serviceConfig().Environment,
		Deposits:  a.Deposits,
		Endpoints: a.Endpoints,
		CursorKey: cursor, BaseURL: a.conf.API.URL + "/v1", Log: a.log, Observe: a.metrics.ObserveRequest,
	})
	if err := a.wireDashboard(cursor, trusted, keyRolled); err != nil {
		return err
	}
	if err := a.wireCheckout(trusted); err != nil {
		return err
	}
	if a.conf.Operator.Listen != "" {
		allowed, err := a.conf.Operator.allowedPrefixes()
		if err != nil {
			return fmt.Errorf("operator.allow: %w", err)
		}
		operatorProxies, err := parseProxies(a.conf.Operator.TrustedProxies)
		if err != nil {
			return fmt.Errorf("operator.trusted_proxies: %w", err)
		}
		a.operatorHandler = operatorapi.New(operatorapi.Config{
			Proxies:  operatorProxies,
			FourEyes: a.conf.Operator.fourEyesRule(), Whitelist: a.Whitelist, Swaps: a.Swaps,
			DepositSwaps: a.DepositSwaps, Billing: a.Billing,
			DB: a.parts.DB, Chains: a.Chains, Withdrawals: a.Withdrawals, Deposits: a.Deposits,
			Rescreens: a.NewRescreener(), AllowedPrefixes: allowed, CursorKey: cursor,
			BaseURL:   a.conf.Operator.publicURL() + "/v1",
			Limits:    a.conf.API.Limits.apiLimits(a.conf.Network),
			LocalRisk: slices.Contains(a.conf.Risk.Providers, riskLocal), Log: a.log,
			KeyRolled: keyRolled,
		})
		if err := a.wireConsole(cursor, operatorProxies, allowed, keyRolled); err != nil {
			return err
		}
		if a.operatorListener, err = net.Listen("tcp", a.conf.Operator.Listen); err != nil {
			return fmt.Errorf("operator.listen: %w", err)
		}
	}
	if a.SignIn != nil || a.OperatorSignIn != nil {
		a.loops = append(a.loops, service.Loop{Name: "sign-in", Run: a.pruneSignIn})
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

// Run works until ctx ends or a part fails. It then stops the parts in order: first no new
// requests, then the loops.
func (a *App) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	for _, l := range a.loops {
		g.Go(func() error {
			if err := l.Run(loops); err != nil && loops.Err() == nil {
				return fmt.Errorf("%s: %w", l, err)
			}
			return nil
		})
	}
	var servers []*http.Server
	serve := func(l net.Listener, h http.Handler, limits inbound.Limits) {
		s := a.newServer(h)
		if a.changes != nil {
			s.RegisterOnShutdown(a.changes.End) // Streams end, so the server waits for none.
		}
		s.RegisterOnShutdown(func() { a.stopOnce.Do(func() { close(a.stopped) }) })
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
	if a.approvalsListener != nil {
		serve(a.approvalsListener, a.approvalsHandler, a.conf.approvalsConnections())
		attrs = append(attrs, "approvals", a.approvalsListener.Addr().String())
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
	for _, l := range []net.Listener{a.apiListener, a.opsListener, a.operatorListener, a.approvalsListener} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, c := range a.closers {
		errs = append(errs, c())
	}
	if a.parts.DB != nil {
		a.parts.DB.Close()
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
	_, err := a.parts.Signer.Head(ctx)
	return err
}

// LoopNames returns the names of the loops that this process runs. A chain's loop has the name of
// the chain after a space.
func (a *App) LoopNames() []string {
	names := make([]string, len(a.loops))
	for i, l := range a.loops {
		names[i] = l.String()
	}
	return names
}

// DB returns the service's database.
func (a *App) DB() *pg.DB { return a.parts.DB }

// GrantKey returns the key that authenticates decisions; nil if this process needs none.
func (a *App) GrantKey() *signer.GrantKey { return a.parts.Grants }

// AttestKey returns the public key by which the signer's records are verified.
func (a *App) AttestKey() ed25519.PublicKey { return a.parts.AttestKey }

// CostMax returns the maximum cost of a transaction with that much gas on a chain. On a chain
// without gas it is the maximum cost of any transaction. Error: money.ErrRange.
func (a *App) CostMax(name chain.Name, gas uint64) (money.Amount, error) {
	ch := a.conf.Chains[name]
	if name.Family() == chain.EVM {
		return money.MustParse(ch.FeeCap).Mul(gas)
	}
	return ch.costMax(name), nil
}
