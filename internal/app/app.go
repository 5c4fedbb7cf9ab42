// Package app wires everything together, in order, and runs it: what coffer
// serve and the local world start is this and nothing else.
//
// What never happens here: a decision. What a crash leaves: rows, from which the
// next start continues; there is no recovery that normal work would not do.
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
	"github.com/cofferpay/coffer/internal/foureyes"
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
	writableEvery = 2 * time.Second  // between two writes that show /readyz whether the database takes any
	shutdownMax   = 20 * time.Second // for requests under way when the service stops
	idleMax       = 2 * time.Minute  // for a connection without requests
	headerBytes   = 16 << 10
	mirrorEvery   = 30 * time.Second // between two comparisons with the signer's journal

	bodyWaitMax  = 10 * time.Second // to wait for a body, beyond what its bytes take
	bodyRateMin  = 64 << 10         // bytes of a body in a second
	privateConns = 256              // open at once on a listener that is not for organizations
)

// privateConnections are what the listeners of operators and of health take.
var privateConnections = inbound.Limits{Connections: privateConns, BodyWait: bodyWaitMax, BodyRate: bodyRateMin}

// App is the service, wired.
type App struct {
	conf     Config
	log      *slog.Logger
	db       *pg.DB
	signer   signer.Signer
	attest   ed25519.PublicKey
	closers  []func() error
	chains   chain.Chains
	book     *wallet.Book
	prices   price.Source
	sweepers map[chain.Name]*sweep.Sweeper
	walkers  map[chain.Name]*scan.Walker
	withdraw *withdrawal.Service
	flags    *deposit.Resolutions
	white    *whitelist.Book
	screens  risk.Policy
	grants   *signer.GrantKey // nil where nothing is decided or flagged
	voids    *dispatch.Voider
	tools    bool // a command beside the running service

	metrics           *ops.Metrics
	listener, private net.Listener
	public, ops       http.Handler
	desk              net.Listener // of the operators; nil: there is none
	keyRolled         func(ctx context.Context, org string, key seal.Secret)
	operators         http.Handler
	loops             []loop
	jobs              *jobs.Runner
	posts             *delivery.Dispatcher // nil where no webhook is posted
	ready             atomic.Bool
	opened            chan struct{}
}

// A loop is a part that works until its context ends.
type loop struct {
	name string
	run  func(ctx context.Context) error
}

// New wires the service: it opens the database, the signer, the chains and the
// listeners, and starts nothing. Close releases them.
func New(ctx context.Context, conf Config, log *slog.Logger) (a *App, err error) {
	if err := conf.policyFits(); err != nil {
		return nil, err
	}
	if conf.SignerAlone() {
		return nil, errors.New("this configuration is of a signer alone")
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
	if err := a.open(ctx, sign, attest); err != nil {
		return a, err
	}
	if err := a.openTrace(ctx); err != nil {
		return a, err
	}
	// Before anything may go out or be issued, the database has to know all
	// that the signer remembers: else it is older than the signer.
	if err := mirror.Import(ctx, a.db, a.signer, a.book); err != nil {
		return a, fmt.Errorf("compare the database with the signer's journal: %w", err)
	}
	mints, err := conf.catalogue(a.chains)
	if err != nil {
		return a, err
	}
	if err := mint.Sync(ctx, a.db, mints); err != nil {
		return a, err
	}
	deposits := a.deposits()
	a.runAs(RoleWorkers, loop{"deposit", deposits.Run}, loop{"memos", deposits.RunMemos}, loop{"resolutions", a.flags.Run}, loop{"whitelist", a.white.Keep}, loop{"voids", a.voids.Run}, loop{"restored", func(ctx context.Context) error {
		return a.withdraw.RunCollect(ctx, log)
	}})
	if !conf.Risk.Rescreen.Off {
		a.runAs(RoleWorkers, loop{"rescreening", a.Rescreener().Run})
	}
	for name, ch := range a.chains {
		a.wireChain(name, ch, deposits)
	}
	// Every process looks, for each would go on with a database that was replaced.
	a.loops = append(a.loops, loop{"journal", func(ctx context.Context) error {
		mirror.Watch(ctx, a.db, a.signer, a.book, mirrorEvery)
		return nil
	}})
	return a, a.wireEdges(ctx)
}

// deposits takes deposits in, by the prices and on the chains of the configuration.
func (a *App) deposits() *deposit.Desk {
	return deposit.New(a.db, a.book, a.prices, a.screens, a.log, deposit.Bound(a.grants), deposit.PriceAge(a.conf.PriceAge()), deposit.Senders(a.chains))
}

// runAs adds loops when this process has their role.
func (a *App) runAs(role Role, loops ...loop) {
	if a.conf.has(role) {
		a.loops = append(a.loops, loops...)
	}
}

// OpenTools wires what a command needs beside a running service: everything but
// the signer, the loops and the listeners. It writes rows that the service then
// works on; what only a signer can do is refused.
func OpenTools(ctx context.Context, conf Config, log *slog.Logger) (*App, error) {
	attest, err := keys.ReadAttest(conf.Keys.Attest)
	if err != nil {
		return nil, fmt.Errorf("keys.attest: %w", err)
	}
	a := newApp(conf, log, func() error { return nil })
	a.tools = true
	if err := a.open(ctx, noSigner{}, attest); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	deposits := a.deposits()
	for name, ch := range a.chains {
		if !name.Pooled() {
			a.sweepers[name] = sweep.New(a.db, ch, a.book, a.prices, sweep.Config{}, a.log)
		}
		a.walkers[name] = scan.New(a.db, scan.Config{Chain: name, Reader: ch.Reader, Concerned: concerned(deposits)}, deposits, a.log)
	}
	return a, nil
}

// voidWait is how long a command waits for the running service to have a payment voided.
const voidWait = 10 * time.Second

// noSigner is the signer of a process that has none.
type noSigner struct{ signer.Signer }

// ErrNoSigner says that a wallet does not exist yet, of tools, which cannot make one.
var ErrNoSigner = errors.New("this command has no signer: start the service, which makes the wallet, and try again")

func (noSigner) Issue(context.Context, signer.WalletRef) (signer.Issued, error) {
	return signer.Issued{}, ErrNoSigner
}

func (noSigner) Void(context.Context, signer.Void) (signer.Entry, error) {
	return signer.Entry{}, errors.New("this command has no signer: the running service asks it")
}

func newApp(conf Config, log *slog.Logger, closeSigner func() error) *App {
	return &App{
		conf: conf, log: log, opened: make(chan struct{}), closers: []func() error{closeSigner},
		sweepers: map[chain.Name]*sweep.Sweeper{}, walkers: map[chain.Name]*scan.Walker{}, prices: price.Fixed{Prices: conf.fixedPrices()},
	}
}

// open opens the database and the chains and makes what stands on both.
func (a *App) open(ctx context.Context, sign signer.Signer, attest ed25519.PublicKey) (err error) {
	a.db, err = pg.Open(ctx, pg.Config{URL: a.conf.Database.URL, MaxConns: a.conf.Database.MaxConns}, time.Now)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	var roles []string
	for _, r := range a.conf.Running() {
		roles = append(roles, string(r))
	}
	a.metrics = ops.NewMetrics(a.db, roles, a.log)
	if of, ok := sign.(interface{ Certificates() []remote.Certificate }); ok {
		a.metrics.Certificates(certificatesOf(of.Certificates))
	}
	sign = a.metrics.Watched(sign)
	a.signer, a.attest, a.book = sign, attest, wallet.New(a.db, sign, attest)
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
	if a.conf.has(RoleAPI, RoleWorkers) {
		if grants, err = readGrantKey(a.conf.Keys.Approvals); err != nil {
			return err
		}
	}
	a.grants = grants
	a.voids = &dispatch.Voider{DB: a.db, Signer: sign, Grants: grants, Log: a.log}
	if a.tools {
		a.voids.Wait = voidWait
	}
	options := []deposit.ResolutionsOption{deposit.Granted(grants), deposit.Voiding(a.voids)}
	if a.conf.Risk.SanctionedReject == "BLOCK" {
		options = append(options, deposit.KeepSanctioned)
	}
	a.flags = deposit.NewResolutions(a.db, a.chains, a.book, a.log, options...)
	a.white = whitelist.New(a.db, sign, whitelist.Config{
		AttestKey: attest, Grants: grants, Chains: a.chains, CoolingOff: a.conf.Operator.coolingOff(),
	}, a.log)
	a.withdraw = &withdrawal.Service{
		DB: a.db, Chains: a.chains, Wallets: a.book, Prices: a.prices, PriceAge: a.conf.PriceAge(), Priced: a.conf.priced(),
		Risk: a.screens, Grants: grants, Whitelist: listed{a.white}, Voids: a.voids,
	}
	a.voids.Listeners = map[signer.Purpose]dispatch.VoidListener{signer.Payment: a.withdraw, signer.Return: a.flags}
	return nil
}

// listed is the whitelist as withdrawals of organizations ask it.
type listed struct{ book *whitelist.Book }

// Usable implements withdrawal.Whitelist.
func (l listed) Usable(ctx context.Context, tx pg.Tx, org, listedID string) (withdrawal.Listed, error) {
	a, err := l.book.Usable(ctx, tx, org, listedID)
	if err != nil {
		return withdrawal.Listed{}, err
	}
	return withdrawal.Listed{Chain: a.Chain, Address: a.Address}, nil
}

// certificatesOf are those of the signer on the network in the words of the metrics.
func certificatesOf(read func() []remote.Certificate) func() []ops.Certificate {
	return func() (all []ops.Certificate) {
		for _, c := range read() {
			all = append(all, ops.Certificate(c))
		}
		return all
	}
}

// openTrace has spans sent when the configuration says where.
func (a *App) openTrace(ctx context.Context) error {
	if a.conf.Trace.Endpoint == "" {
		return nil
	}
	closing, err := otlp.Open(ctx, a.conf.Trace.Endpoint, a.conf.Trace.share(), rolesText(a.conf.Running()), a.log)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, closing)
	return nil
}

func (a *App) openChains(ctx context.Context) error {
	a.chains = chain.Chains{}
	for name, c := range a.conf.Chains {
		ch := a.conf.words(name)
		if len(c.Endpoints) > 0 || a.conf.onChains() {
			var err error
			ch, err = a.conf.openChain(ctx, name)
			if a.tools && errors.Is(err, chain.ErrSilent) {
				// A freeze, or the end of an order that waits for these providers, asks them nothing.
				a.log.WarnContext(ctx, "a command goes on without a chain's providers; what has to ask them fails", "chain", name, "error", err)
				err = nil
			}
			if err != nil {
				return fmt.Errorf("chains.%s: %w", name, err)
			}
		}
		ch.Addresses = forms[c.Addresses]
		a.chains[name] = ch
	}
	return nil
}

func (a *App) wireChain(name chain.Name, ch chain.Chain, deposits *deposit.Desk) {
	paces := a.conf.Paces
	walk := scan.Config{Chain: name, Reader: ch.Reader, Poll: time.Duration(paces.Scan), Concerned: concerned(deposits)}
	walk.Trouble = func(walk string, err error) { a.metrics.Scan(name, walk, err) }
	if start := a.conf.Chains[name].StartHeight; start > 0 {
		before := start - 1
		walk.Start = &before
	}
	a.walkers[name] = scan.New(a.db, walk, deposits, a.log)
	a.runAs(RoleScan, loop{"scan " + string(name), a.walkers[name].Run})
	a.runAs(RoleDispatch, loop{"dispatch " + string(name), a.Desk(name).Run})
	sweeper := sweep.New(a.db, ch, a.book, a.prices, sweep.Config{Poll: time.Duration(paces.Sweep), CloseAfter: a.conf.Chains[name].closeIdle()}, a.log)
	if !name.Pooled() {
		a.sweepers[name] = sweeper // with UTXOs a person has nothing to sweep: any UTXO pays where it lies
	}
	a.runAs(RoleWorkers, loop{"sweep " + string(name), sweeper.Run})
}

// concerned are all that have built on final blocks, in the order in which they
// are told that some are gone.
func concerned(deposits *deposit.Desk) []finality.Concerned {
	return []finality.Concerned{deposits}
}

// checkBooks is the chore of the verifier.
type checkBooks struct{}

// Kind names it for ever.
func (checkBooks) Kind() string { return "verify" }

// checkAddresses is the chore that looks at every address.
type checkAddresses struct{}

// Kind names it for ever.
func (checkAddresses) Kind() string { return "verify_addresses" }

// endChanges is the chore that ends change requests nobody agreed to in time.
type endChanges struct{}

// Kind names it for ever.
func (endChanges) Kind() string { return "end_change_requests" }

// FourEyes is whether what loosens a control needs a second operator here.
func (a *App) FourEyes() foureyes.Rule { return a.conf.Operator.rule() }

func (o Operator) rule() foureyes.Rule { return foureyes.Rule{On: o.FourEyes} }

// addressesEvery is how often every address is looked at. One that is used is looked at
// then, so this is for those that wait for a payment.
const addressesEvery = 24 * time.Hour

// retireEvery is how often what is old leaves the feed and the log of webhooks.
const retireEvery = time.Hour

// retireAnswers is the chore that takes away what providers said and nothing refers to.
type retireAnswers struct{}

// Kind names it for ever.
func (retireAnswers) Kind() string { return "retire_risk_answers" }

// retireWebhooks is the chore that takes it away.
type retireWebhooks struct{}

// Kind names it for ever.
func (retireWebhooks) Kind() string { return "retire_webhooks" }

// wireEdges wires what the outside meets: events, webhooks, the listeners.
func (a *App) wireEdges(ctx context.Context) (err error) {
	if a.conf.has(RoleWorkers) {
		if err := a.wireWorkers(); err != nil {
			return err
		}
	}
	if a.conf.has(RoleAPI) {
		if err := a.wireAPI(); err != nil {
			return err
		}
	}
	if a.conf.has(RoleSigner) {
		watch := &remote.Watch{}
		a.metrics.Certificates(certificatesOf(watch.Certificates))
		answers, err := a.conf.Signer.Serve.answers(ctx, a.signer, watch)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			a.loops = append(a.loops, loop{"signer", answer})
		}
	}
	a.ops = ops.New(map[string]ops.Check{"service": a.Ready, "database": a.db.Writable(writableEvery), "signer": a.signerAnswers}, a.metrics)
	if a.private, err = net.Listen("tcp", a.conf.Ops.Listen); err != nil {
		return fmt.Errorf("ops.listen: %w", err)
	}
	return nil
}

// openDispatcher makes what posts webhooks, with the installation's keys, once for a
// process. keys are their public halves, newest first.
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
	if a.posts == nil {
		a.posts = &delivery.Dispatcher{DB: a.db, Seal: sealed, Key: key, FormerKeys: former, Development: a.conf.Webhooks.Development, Log: a.log, Observe: a.metrics.Attempt}
	}
	return a.posts, keys, nil
}

// wireWorkers wires what numbers events, delivers them and does the chores.
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
	sequencer := &event.Sequencer{DB: a.db, Environment: environment, Listener: delivery.Fan{}, Log: a.log}
	sequencer.Numbered = dispatcher.Wake
	a.jobs = jobs.New(a.db, a.log)
	jobs.Every(a.jobs, time.Duration(a.conf.Paces.Verify), checkBooks{}, func(ctx context.Context) error {
		_, err := verify.Watch(ctx, a.db, a.chains, a.log, verify.WithGrants(a.grants))
		return err
	})
	jobs.Every(a.jobs, addressesEvery, checkAddresses{}, func(ctx context.Context) error {
		_, err := verify.WatchAddresses(ctx, a.db, a.book, a.log)
		return err
	})
	jobs.Every(a.jobs, retireEvery, endChanges{}, func(ctx context.Context) error { return foureyes.Expire(ctx, a.db) })
	jobs.Every(a.jobs, retireEvery, retireAnswers{}, func(ctx context.Context) error {
		return risk.Retire(ctx, a.db, cmp.Or(time.Duration(a.conf.Risk.AnswersKept), risk.KeptUsual))
	})
	jobs.Every(a.jobs, retireEvery, retireWebhooks{}, func(ctx context.Context) error { return delivery.Retire(ctx, a.db, a.log) })
	a.loops = append(a.loops, loop{"sequencer", sequencer.Run}, loop{"delivery", dispatcher.Run}, loop{"jobs", a.jobs.Run})
	sealer, anchorer := audit.Sealer{DB: a.db, Log: a.log}, audit.Anchorer{DB: a.db, Signer: a.signer, Key: a.attest, Every: time.Duration(a.conf.Paces.Anchor), Log: a.log}
	a.loops = append(a.loops, loop{"audit", sealer.Run}, loop{"anchors", anchorer.Run})
	folder := ledger.Folder{DB: a.db, Log: a.log}
	a.loops = append(a.loops, loop{"totals", folder.Run})
	return nil
}

// wireAPI wires what organizations call. With the public halves of the keys of webhooks
// alone it shows them, and posts no samples.
func (a *App) wireAPI() error {
	sealed, err := a.openSeal()
	if err != nil {
		return err
	}
	var posts *delivery.Dispatcher
	var keys []string
	if a.conf.Keys.WebhookPublic != "" && !a.conf.has(RoleWorkers) {
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
	trusted, err := proxies(a.conf.API.TrustedProxies)
	if err != nil {
		return fmt.Errorf("api.trusted_proxies: %w", err)
	}
	keyRolled := func(ctx context.Context, org string, key seal.Secret) {
		if a.keyRolled != nil {
			a.keyRolled(ctx, org, key)
		}
	}
	a.public = api.New(api.Config{
		KeyRolled: keyRolled,
		Limits:    a.conf.API.Limits.rates(a.conf.Network), Proxies: trusted,
		DB: a.db, Chains: a.chains, Withdrawals: a.withdraw, Transfers: transfer.New(a.db), Wallets: a.book, Prices: a.prices, WebhookKeys: keys,
		Flagged:   a.flags,
		Endpoints: &delivery.Endpoints{Seal: sealed, Development: a.conf.Webhooks.Development, Posts: posts},
		CursorKey: cursor, BaseURL: a.conf.API.URL + "/v1", Log: a.log, Observe: a.metrics.Observe,
	})
	if a.conf.Operator.Listen != "" {
		from, err := a.conf.Operator.from()
		if err != nil {
			return fmt.Errorf("operator.allow: %w", err)
		}
		between, err := proxies(a.conf.Operator.TrustedProxies)
		if err != nil {
			return fmt.Errorf("operator.trusted_proxies: %w", err)
		}
		a.operators = api.NewOperator(api.OperatorConfig{
			Proxies:  between,
			FourEyes: a.conf.Operator.rule(), Whitelist: a.white,
			DB: a.db, Chains: a.chains, Withdrawals: a.withdraw, Flagged: a.flags, Rescreens: a.Rescreener(), From: from, CursorKey: cursor, BaseURL: a.conf.Operator.url() + "/v1",
			Limits: a.conf.API.Limits.rates(a.conf.Network), LocalRisk: slices.Contains(a.conf.Risk.Providers, riskLocal), Log: a.log,
			KeyRolled: keyRolled,
		})
		if a.desk, err = net.Listen("tcp", a.conf.Operator.Listen); err != nil {
			return fmt.Errorf("operator.listen: %w", err)
		}
	}
	if a.listener, err = net.Listen("tcp", a.conf.API.Listen); err != nil {
		return fmt.Errorf("api.listen: %w", err)
	}
	return nil
}

func (a *App) openSeal() (*seal.Keyset, error) {
	sealed, err := seal.Open(a.conf.Keys.Seal)
	if err != nil {
		return nil, fmt.Errorf("keys.seal: %w", err)
	}
	return sealed, nil
}

// OnKeyRolled has f hear of each main API key that an operator or its organization rolls
// through this process. It is called before Run.
func (a *App) OnKeyRolled(f func(ctx context.Context, org string, key seal.Secret)) { a.keyRolled = f }

// Run works until ctx ends or a part fails, then stops everything in order:
// no new requests first, then the loops.
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
		s := a.server(h)
		servers = append(servers, s)
		g.Go(func() error {
			if err := s.Serve(inbound.Listen(l, limits, a.log)); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	at := []any{"roles", rolesText(a.conf.Running()), "ops", a.private.Addr().String(), "network", string(a.conf.Network)}
	if a.listener != nil {
		serve(a.listener, a.public, a.conf.API.connections())
		at = append(at, "api", a.listener.Addr().String())
	}
	if a.desk != nil {
		serve(a.desk, a.operators, privateConnections)
		at = append(at, "operator", a.desk.Addr().String())
	}
	serve(a.private, a.ops, privateConnections)
	a.ready.Store(true)
	close(a.opened)
	a.log.Info("serving", at...)
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

func (a *App) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerReadMax, ReadTimeout: requestMax, WriteTimeout: requestMax, IdleTimeout: idleMax,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// Close releases what New opened. Run has returned, or was never called.
func (a *App) Close() error {
	var errs []error
	for _, l := range []net.Listener{a.listener, a.private, a.desk} {
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

// WaitReady returns when the listeners answer.
func (a *App) WaitReady(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.opened:
		return nil
	}
}

// Ready tells whether the service takes requests; the error says why not.
func (a *App) Ready(context.Context) error {
	if !a.ready.Load() {
		return errors.New("starting or stopping")
	}
	return nil
}

func (a *App) signerAnswers(ctx context.Context) error {
	_, err := a.signer.Head(ctx)
	return err
}

// Loops are the names of the parts that this process works on until it stops, a chain's
// with the name of the chain behind a space.
func (a *App) Loops() []string {
	names := make([]string, len(a.loops))
	for i, l := range a.loops {
		names[i] = l.name
	}
	return names
}

// DB is the service's database.
func (a *App) DB() *pg.DB { return a.db }

// Grants is the key that binds what is decided; nil where this process needs none.
func (a *App) Grants() *signer.GrantKey { return a.grants }

// Book knows the wallets. That of tools makes none: ErrNoSigner.
func (a *App) Book() *wallet.Book { return a.book }

// Chains are the configured chains.
func (a *App) Chains() chain.Chains { return a.chains }

// Whitelist keeps the addresses that organizations may be paid out to.
func (a *App) Whitelist() *whitelist.Book { return a.white }

// Withdrawals is the feature of that name.
func (a *App) Withdrawals() *withdrawal.Service { return a.withdraw }

// FlaggedDeposits is the feature that resolves flagged deposits.
func (a *App) FlaggedDeposits() *deposit.Resolutions { return a.flags }

// payers are the features whose orders dispatch carries out.
func (a *App) payers() map[signer.Purpose]dispatch.Listener {
	return map[signer.Purpose]dispatch.Listener{
		signer.Payment: a.withdraw, signer.Sweep: sweep.Sweeps{}, signer.Gas: sweep.TopUps{}, signer.Place: sweep.Places{}, signer.Close: sweep.Closes{}, signer.Merge: sweep.Merges{}, signer.Return: a.flags,
	}
}

// Decide ends a payment, sweep or top-up that contradicts itself on the chain, as
// a person has found it to be. Error: dispatch.ErrNotStuck.
func (a *App) Decide(ctx context.Context, orderID string, paid bool, by audit.Actor, why string) error {
	return dispatch.Decide(ctx, a.db, a.payers(), orderID, paid, by, why)
}

// Sweeper is the sweeper of a chain, or nil where nothing is swept.
func (a *App) Sweeper(name chain.Name) *sweep.Sweeper { return a.sweepers[name] }

// Walker is the walker of a chain, or nil.
func (a *App) Walker(name chain.Name) *scan.Walker { return a.walkers[name] }

// Desk is the desk of a chain, or nil. Without a signer it commits transactions to
// slots, and the running service has them signed and sends them.
func (a *App) Desk(name chain.Name) *dispatch.Desk {
	ch, ok := a.chains[name]
	if !ok {
		return nil
	}
	paces := a.conf.Paces
	return dispatch.New(a.db, ch, a.signer, mirror.Record, a.payers(), dispatch.Config{
		Poll: time.Duration(paces.Dispatch), RetryAfter: 2 * time.Duration(paces.Dispatch),
		ResendAfter: time.Duration(paces.Resend), BumpAfter: time.Duration(paces.Bump),
		InFlightMax: a.conf.Chains[name].InFlightMax, UnminedMax: a.conf.Chains[name].UnminedMax,
	}, a.log, dispatch.Rests(a.book), dispatch.Voiding(a.voids))
}

// CostMax is the most that a transaction with so much gas may cost on a chain: any
// transaction where there is no gas. Error: money.ErrRange.
func (a *App) CostMax(name chain.Name, gas uint64) (money.Amount, error) {
	ch := a.conf.Chains[name]
	if name.Family() == chain.EVM {
		return money.MustParse(ch.FeeCap).Mul(gas)
	}
	return ch.costMax(name), nil
}

// Treasury is the wallet that an organization's payments on a chain come from,
// and that its operator sends gas to.
func (a *App) Treasury(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	return a.book.Treasury(ctx, org, name.Family())
}
