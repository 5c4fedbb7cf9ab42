package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/freeport"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

const (
	callMax         = time.Minute // one call of the API
	farPollInterval = 300 * time.Millisecond
	slowTicks       = 10 // ticks for a block while the service is far behind
	// serviceConns is how many sessions a service may open. Each service that a cell starts anew pays for
	// its sessions and their plans, which is more than they save here.
	serviceConns    = 6
	answerMax       = 5 * time.Minute // until the API has answered, restarts included
	drainMax        = 5 * time.Minute // until nothing is open any more
	serviceStartMax = 5 * time.Minute // for a process to answer
	hookPath        = "/hooks"
	richCustomer    = "user_rich" // the customer whose money the payments are
)

// scenario is a world with the service as real processes: a signer, a service, sometimes a second
// service, and connections between them that can be cut. The scenario mines the blocks, so it can
// stop the chain.
type scenario struct {
	site          site
	net           network
	world         *localworld.World
	conf          app.Config // the world's own: the signer's files, no proxies
	dir           string
	program       string
	points        string // the folder with the files that arm the processes
	socket        string
	log           *tail // of the service, over all its processes
	signer        *process
	service       *process
	second        *process
	databaseProxy *databaseProxy
	provider      *providerProxy
	receiver      *receiver
	tools         *app.App
	superConnMu   sync.Mutex
	superConn     *pgx.Conn // the superuser's, for query; nil until it is needed
	oracle        truth
	mining        atomic.Bool
	stopMine      context.CancelFunc
	miningDone    sync.WaitGroup
	farAhead      bool // at farCheckedAt; only the miner uses these two
	farCheckedAt  time.Time

	mint           localworld.Mint // what the scenes pay
	swapTo         localworld.Mint // what the swaps of the scenes bring, where customers swap
	swaps          []*customerSwap
	ownSwaps       []*ownSwap // of the organization
	depositSwaps   []*depositSwap
	sales          []*sale // checkouts of the organization
	refunds        []*saleRefund
	claims         []*payment
	sentAway       []oracle.Claim // flagged deposits that were sent to an address
	transferredOut *big.Int       // of the mint, what the rich customer has transferred to others
	deposited      *big.Int       // of the mint, what was sent to our addresses
	cells          int            // how many cells were played
	strangers      int            // how many addresses were made up
}

// newScenario starts everything and gives one customer money.
func newScenario(ctx context.Context, program string, chainSite site) (t *scenario, err error) {
	t = &scenario{
		site: chainSite, program: program, log: &tail{}, deposited: new(big.Int), transferredOut: new(big.Int),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stopAll())
			t = nil
		}
	}()
	if t.dir, err = os.MkdirTemp("", "coffer-crash-"); err != nil {
		return t, err
	}
	t.points, t.socket = filepath.Join(t.dir, "points"), filepath.Join(t.dir, "signer.sock")
	if err := os.Mkdir(t.points, 0o700); err != nil {
		return t, err
	}
	t.world, err = localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.dir, WithoutService: true, ManualBlocks: true,
		Chains: []chain.Name{chainSite.chain}, WithoutSwaps: !chainSite.withSwaps, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return t, err
	}
	if t.conf, err = app.ReadConfig(t.world.Info.Config); err != nil {
		return t, err
	}
	t.net = chainSite.openNetwork(t.world)
	t.startMining(ctx)
	if chainSite.withSwaps && chainSite.chain != chain.Ethereum {
		t.startMiningEthereum(ctx)
	}
	if err := t.openProxies(); err != nil {
		return t, err
	}
	if err := t.writeConfigs(); err != nil {
		return t, err
	}
	if err := t.startSigner(ctx); err != nil {
		return t, err
	}
	if err := t.startService(ctx); err != nil {
		return t, err
	}
	if t.tools, err = app.OpenTools(ctx, t.conf, slog.New(slog.DiscardHandler)); err != nil {
		return t, err
	}
	var hook struct{ EndpointID, Secret string }
	eventTypes := []webhook.Type{
		webhook.CustomerDeposit, webhook.CustomerDepositApproved, webhook.CustomerDepositRejected,
		webhook.CustomerDepositRedirected, webhook.CustomerWithdrawAwaitingApproval, webhook.CustomerWithdraw,
		webhook.CustomerWithdrawApproved, webhook.CustomerWithdrawRejected, webhook.CustomerWithdrawCancelled,
		webhook.CustomerWithdrawFailed, webhook.CustomerWithdrawCompleted,
		webhook.TransferCompleted, webhook.CustomerSwapFailed, webhook.CustomerSwapRefunded,
		webhook.CustomerSwapDelayed, webhook.OrganizationDeposit, webhook.OrganizationWithdraw,
		webhook.OrganizationWithdrawCompleted, webhook.OrganizationSwapCompleted, webhook.OrganizationSwapFailed,
		webhook.CheckoutProcessing, webhook.CheckoutCompleted, webhook.CheckoutExpired, webhook.CheckoutException,
		webhook.CheckoutRefunded, webhook.InvoiceIssued, webhook.CreditNoteIssued,
	}
	if status, err := t.callAPI(
		ctx, http.MethodPost, "/webhook-endpoints",
		map[string]any{"url": t.receiver.url + hookPath, "events": eventTypes}, &hook,
	); err != nil || status != http.StatusCreated {
		return t, fmt.Errorf("register the webhook: %d %w", status, err)
	}
	t.receiver.expectPath(hookPath, hook.Secret, false)
	if err := t.net.waitReady(ctx, t); err != nil {
		return t, err
	}
	d := &deposit{customer: richCustomer, units: chainSite.richUnits}
	if err := t.payIn(ctx, d); err != nil {
		return t, err
	}
	// The treasury has to have what the payments are made from: a scene that stops mining would
	// stop its sweep, and wait for it.
	if !chainSite.chain.IsUTXO() {
		if err := t.waitSwept(ctx, d); err != nil {
			return t, err
		}
	}
	if err := t.changeSettings(ctx, org.Changes{"flaggedDepositApiEnabled": json.RawMessage("true")}); err != nil {
		return t, err
	}
	return t, t.waitDrained(ctx, drainMax)
}

// startMining mines blocks at the chain's interval while mining is on. A service that is far behind gets
// them more slowly: on a busy machine the work for blocks would otherwise take the time of the work that
// the cells wait for, which makes them wait for more blocks.
func (t *scenario) startMining(ctx context.Context) {
	ctx, t.stopMine = context.WithCancel(ctx)
	t.mining.Store(true)
	t.miningDone.Go(func() {
		tick := time.NewTicker(t.net.blockInterval())
		defer tick.Stop()
		for skipped := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !t.mining.Load() {
					continue
				}
				if skipped++; t.isTooFarAhead(ctx) && (t.net.stopsAhead() || skipped < slowTicks) {
					continue
				}
				skipped = 0
				_ = t.net.mineBlock(ctx) // the next tick tries again
			}
		}
	})
}

// ethereumBlockTime is between two blocks of Ethereum where it is the destination of swaps from other chains.
const ethereumBlockTime = 400 * time.Millisecond

// startMiningEthereum mines blocks of Ethereum, where the swaps of another chain arrive. No scene stops them.
func (t *scenario) startMiningEthereum(ctx context.Context) {
	stopMine := t.stopMine
	ctx, stop := context.WithCancel(ctx)
	t.stopMine = func() { stopMine(); stop() }
	node := t.world.EthereumNode()
	t.miningDone.Go(func() {
		tick := time.NewTicker(ethereumBlockTime)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = node.MineBlocks(ctx, 1) // the next tick tries again
			}
		}
	})
}

// isTooFarAhead reports whether the newest block is too far ahead of the service's walk. An error
// changes nothing: the chain does not stop for a database that is down.
func (t *scenario) isTooFarAhead(ctx context.Context) bool {
	aheadMax := t.net.blocksAheadMax()
	if time.Since(t.farCheckedAt) < farPollInterval {
		return t.farAhead
	}
	t.farCheckedAt = time.Now()
	head, _, err := t.net.readHead(ctx)
	var height uint64
	if err == nil {
		err = t.queryRow(ctx, `SELECT height FROM scan_cursors WHERE chain = $1`, []any{t.site.chain}, &height)
	}
	if err == nil {
		t.farAhead = head > height+aheadMax
	}
	return t.farAhead
}

func (t *scenario) openProxies() (err error) {
	db, err := url.Parse(t.conf.Database.URL)
	if err != nil {
		return err
	}
	if t.databaseProxy, err = newDatabaseProxy(db.Host); err != nil {
		return err
	}
	if t.provider, err = newProviderProxy(t.net); err != nil {
		return err
	}
	if t.receiver, err = newReceiver(); err != nil {
		return err
	}
	for _, m := range t.world.Info.Mints {
		if m.Symbol == t.site.mintSymbol && m.Chain == string(t.site.chain) {
			t.mint = m
		}
		if m.Symbol == swapToSymbol && m.Chain == string(chain.Ethereum) {
			t.swapTo = m
		}
	}
	t.oracle = t.net.openOracle()
	return nil
}

func (t *scenario) configPath(name string) string { return filepath.Join(t.dir, name+".toml") }

// writeConfigs writes the configuration of each process. The signer has the keys, the services have
// its socket; the first service uses the proxies.
func (t *scenario) writeConfigs() error {
	t.conf.Intervals = app.Intervals{
		Scan: 5 * tenth, Dispatch: 5 * tenth, Sweep: 8 * tenth, Verify: 600 * tenth,
		Resend: 10 * tenth, Bump: 20 * tenth,
		Anchor: 20 * tenth, Events: 3 * tenth,
	}
	if err := app.WriteConfig(t.configPath("signer"), t.conf); err != nil {
		return err
	}
	second := t.conf
	second.Signer = app.Signer{Socket: t.socket}
	second.Database.MaxConns = serviceConns
	first := second
	var err error
	for _, listen := range []*string{&second.API.Listen, &second.Ops.Listen, &second.Operator.Listen} {
		if *listen, err = freeport.FindAddress(); err != nil {
			return err
		}
	}
	if err := app.WriteConfig(t.configPath("second"), second); err != nil {
		return err
	}
	db, err := url.Parse(first.Database.URL)
	if err != nil {
		return err
	}
	db.Host = t.databaseProxy.listenAddress()
	first.Database.URL = db.String()
	chainConf := first.Chains[t.site.chain]
	chainConf.Endpoints = []string{t.provider.url}
	first.Chains = maps.Clone(first.Chains)
	first.Chains[t.site.chain] = chainConf
	return app.WriteConfig(t.configPath("service"), first)
}

const tenth = app.Duration(100 * time.Millisecond)

func (t *scenario) failpointEnv() []string { return []string{"COFFER_CRASH_DIR=" + t.points} }

func (t *scenario) startSigner(ctx context.Context) (err error) {
	t.signer, err = launchProcess(
		"signer", t.program, t.log, t.failpointEnv(), "signer", "serve", "--config", t.configPath("signer"), "--socket",
		t.socket,
	)
	if err != nil {
		return err
	}
	return waitUntil(ctx, "the signer answers", serviceStartMax, func(ctx context.Context) (bool, error) {
		if !t.signer.isAlive() {
			return false, fmt.Errorf("it ended with %w", orClean(t.signer.err()))
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", t.socket)
		if err != nil {
			return false, err
		}
		return true, c.Close()
	})
}

func (t *scenario) startService(ctx context.Context) (err error) {
	t.service, err = launchProcess(
		"service", t.program, t.log, t.failpointEnv(), "serve", "--config", t.configPath("service"),
	)
	if err != nil {
		return err
	}
	return waitReady(ctx, t.service, t.conf.Ops.Listen)
}

func (t *scenario) startSecond(ctx context.Context) (err error) {
	conf, err := app.ReadConfig(t.configPath("second"))
	if err != nil {
		return err
	}
	if t.second, err = launchProcess(
		"second service", t.program, nil, t.failpointEnv(), "serve", "--config", t.configPath("second"),
	); err != nil {
		return err
	}
	return waitReady(ctx, t.second, conf.Ops.Listen)
}

func (t *scenario) endSecond() error {
	if t.second == nil {
		return nil
	}
	err := t.second.stopProcess()
	if err == nil && t.second.err() != nil {
		err = fmt.Errorf("the second service ended with %w:\n%s", t.second.err(), t.second.log)
	}
	t.second = nil
	return err
}

func orClean(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func waitReady(ctx context.Context, p *process, ops string) error {
	return waitUntil(ctx, "the "+p.name+" is ready", serviceStartMax, func(ctx context.Context) (bool, error) {
		if !p.isAlive() {
			return false, fmt.Errorf("it ended with %w:\n%s", orClean(p.err()), p.log)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
}

// stopAll ends everything that newScenario started.
func (t *scenario) stopAll() error {
	var errs []error
	for _, p := range []*process{t.second, t.service, t.signer} {
		if p != nil {
			errs = append(errs, p.killProcess())
		}
	}
	if t.stopMine != nil {
		t.stopMine()
		t.miningDone.Wait()
	}
	if t.superConn != nil {
		_ = t.superConn.Close(context.Background()) // it only read
	}
	if t.tools != nil {
		errs = append(errs, t.tools.Close())
	}
	if t.provider != nil {
		t.provider.closeServer()
	}
	if t.databaseProxy != nil {
		t.databaseProxy.closeProxy()
	}
	if t.receiver != nil {
		t.receiver.closeServer()
	}
	if t.world != nil {
		errs = append(errs, t.world.Stop())
	}
	if t.dir != "" {
		errs = append(errs, os.RemoveAll(t.dir))
	}
	return errors.Join(errs...)
}

var impatient = &http.Client{Timeout: callMax}

// endpoint is an interface of the service with a key for it.
type endpoint struct{ url, header, key string }

// callAPI calls the API until it answers: the service may be dead at any moment, and the same
// request with the same key may always be sent again.
func (t *scenario) callAPI(ctx context.Context, method, path string, body, target any) (status int, err error) {
	return callUntilAnswered(
		ctx, endpoint{t.world.Info.BaseURL, "x-api-key", t.world.Info.APIKey}, method, path, body, target,
	)
}

// callOperator calls the operator's interface until it answers.
func (t *scenario) callOperator(ctx context.Context, method, path string, body, target any) (status int, err error) {
	return callUntilAnswered(
		ctx, endpoint{t.world.Info.OperatorURL + "/v1", "x-operator-key", t.world.Info.Operator.APIKey}, method, path,
		body, target,
	)
}

func callUntilAnswered(
	ctx context.Context, e endpoint, method, path string, body, target any,
) (status int, err error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	err = waitUntil(ctx, method+" "+path+" is answered", answerMax, func(ctx context.Context) (bool, error) {
		status, err = e.callOnce(ctx, method, path, payload, target)
		if err == nil && (status >= 500 || status == http.StatusTooManyRequests) {
			err = fmt.Errorf("status %d", status)
		}
		return err == nil, err
	})
	return status, err
}

func (e endpoint) callOnce(ctx context.Context, method, path string, payload []byte, target any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set(e.header, e.key)
	if method == http.MethodPost || method == http.MethodPut {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := impatient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || target == nil || len(b) == 0 || resp.StatusCode >= 300 {
		if resp.StatusCode >= 400 && resp.StatusCode < 500 && err == nil {
			err = nil
		}
		return resp.StatusCode, err
	}
	return resp.StatusCode, json.Unmarshal(b, target)
}

// queryRow reads one row from the database as its superuser, or changes something. It keeps the
// connection. After an error it opens a new one and repeats the statement once, because the server
// may have been killed since.
func (t *scenario) queryRow(ctx context.Context, sql string, args []any, target ...any) (err error) {
	t.superConnMu.Lock()
	defer t.superConnMu.Unlock()
	for retry := t.superConn != nil; ; retry = false {
		if t.superConn == nil {
			if t.superConn, err = pgx.Connect(ctx, t.world.DatabaseCluster().SuperURL(local.Database)); err != nil {
				return err
			}
		}
		if len(target) == 0 {
			_, err = t.superConn.Exec(ctx, sql, args...)
		} else {
			err = t.superConn.QueryRow(ctx, sql, args...).Scan(target...)
		}
		if err == nil {
			return nil
		}
		_ = t.superConn.Close(context.WithoutCancel(ctx)) // the connection has failed
		t.superConn = nil
		if !retry {
			return err
		}
	}
}

// openWork selects what is still under way, by kind; it is empty when nothing is.
const openWork = `
	SELECT coalesce(string_agg(kind || ' ' || n, ', '), '') FROM (
		SELECT 'order ' || status AS kind, count(*) AS n FROM dispatch_orders WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') GROUP BY status
		UNION ALL SELECT 'withdrawal ' || status, count(*) FROM withdrawals WHERE status IN ('PROCESSING', 'BROADCAST') GROUP BY status
		UNION ALL SELECT 'deposit ' || status, count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING', 'REJECTING', 'REDIRECTING') GROUP BY status
		UNION ALL SELECT 'swap ' || status, count(*) FROM swaps WHERE status NOT IN ('COMPLETED', 'FAILED') GROUP BY status
		UNION ALL SELECT 'deposit swap ' || status, count(*) FROM deposit_swaps
			WHERE status NOT IN ('AWAITING_DEPOSIT', 'COMPLETED') GROUP BY status
		UNION ALL SELECT 'checkout ' || status, count(*) FROM checkouts WHERE status = 'PROCESSING' GROUP BY status
		UNION ALL SELECT 'payment of a checkout', count(*) FROM checkout_payments WHERE try_at IS NOT NULL
		UNION ALL SELECT 'refund ' || status, count(*) FROM refunds WHERE status IN ('REQUESTED', 'SENT')
			GROUP BY status
		UNION ALL SELECT 'sweep', count(*) FROM sweeps WHERE status = 'OPEN'
		UNION ALL SELECT 'top-up', count(*) FROM gas_top_ups WHERE status = 'OPEN'
		UNION ALL SELECT 'event', count(*) FROM events WHERE sequence IS NULL
		UNION ALL SELECT 'delivery', count(*) FROM deliveries WHERE status = 'PENDING'
		UNION ALL SELECT 'freeze: ' || reason, 1 FROM freezes WHERE lifted_at IS NULL
	) AS open WHERE n > 0`

// describeOpen lists what has not ended, with the providers' last words.
func (t *scenario) describeOpen(ctx context.Context) error {
	var description string
	err := t.queryRow(ctx, `
		SELECT coalesce(string_agg(concat_ws(' ', order_id, o.status, waiting_for, 'version', a.version, a.act, a.tx_hash, a.last_answer), '; '), '')
		FROM dispatch_orders o LEFT JOIN dispatch_attempts a USING (order_id) WHERE o.status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')`,
		nil, &description)
	if err == nil && description != "" {
		err = errors.New("open: " + description)
	}
	return err
}

// waitDrained waits until nothing is under way.
func (t *scenario) waitDrained(ctx context.Context, patience time.Duration) error {
	return waitUntil(ctx, "everything is done", patience, func(ctx context.Context) (bool, error) {
		var left string
		if err := t.queryRow(ctx, openWork, nil, &left); err != nil {
			return false, err
		}
		if left != "" {
			return false, errors.New("open: " + left)
		}
		return true, nil
	})
}

// expireLeases ends the leases of deliveries, of payments, and of looks at swaps and refunds, as a minute does: their
// holders are dead.
func (t *scenario) expireLeases(ctx context.Context) error {
	return t.queryRow(ctx, `
		UPDATE deliveries SET leased_until = now(), attempt_after = now()
		WHERE status = 'PENDING' AND lease IS NOT NULL;
		UPDATE swaps SET look_at = now() WHERE look_at > now();
		UPDATE checkout_payments SET try_at = now() WHERE try_at > now();
		UPDATE refunds SET look_at = now() WHERE look_at > now() AND status IN ('REQUESTED', 'SENT');
		UPDATE refund_turns SET look_at = now() WHERE look_at > now();
		UPDATE deposit_swaps SET look_at = now() WHERE look_at > now()`, nil)
}

// loadOwnAddresses loads the addresses on the scenario's chain whose keys are ours.
func (t *scenario) loadOwnAddresses(ctx context.Context) (map[string]bool, error) {
	var addresses []string
	err := t.queryRow(ctx,
		`SELECT array_agg(address) FROM (SELECT address FROM wallets WHERE family = $1 UNION SELECT address FROM nonce_accounts WHERE chain = $2) AS ours`,
		[]any{t.site.chain.Family(), t.site.chain}, &addresses)
	if err != nil {
		return nil, err
	}
	result := map[string]bool{}
	for _, a := range addresses {
		result[t.normalizeAddress(a)] = true
	}
	return result, nil
}

// normalizeAddress returns an address in the oracle's form.
func (t *scenario) normalizeAddress(address string) string {
	if t.site.chain.Family() == chain.EVM {
		return strings.ToLower(address)
	}
	return address
}

func (t *scenario) assetID() string { return t.normalizeAddress(t.contractAddress()) }

// contractAddress returns the contract or the mint of what is paid; "" for the native coin.
func (t *scenario) contractAddress() string {
	if t.mint.ContractAddress == nil {
		return ""
	}
	return *t.mint.ContractAddress
}
