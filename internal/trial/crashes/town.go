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
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/loopback"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg/local"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

const (
	callMax   = 20 * time.Second // one call of the API
	askEvery  = 300 * time.Millisecond
	answerMax = 60 * time.Second // until the API has answered, over restarts
	drainMax  = 60 * time.Second // until nothing is open any more
	upMax     = 30 * time.Second // for a process to answer
	hookPath  = "/hooks"
	rich      = "user_rich" // the customer whose money the payments are
)

// town is a world with the service as real processes: a signer, a service, now
// and then a second one, and wires between them that can be cut. Its clock of
// blocks is ours, so that the chain can be stopped.
type town struct {
	site     site
	net      network
	world    *localworld.World
	conf     app.Config // as the world has it: the signer's files, no wires
	dir      string
	program  string
	points   string // the folder that arms the processes
	socket   string
	log      *tail // of the service, over its lives
	signer   *process
	service  *process
	second   *process
	wire     *wire
	provider *provider
	receiver *receiver
	tools    *app.App
	looking  sync.Mutex
	eye      *pgx.Conn // the superuser's, for query; nil until it is needed
	oracle   truth
	mining   atomic.Bool
	stopMine context.CancelFunc
	mined    sync.WaitGroup
	far      bool // as of asked; both are the miner's
	asked    time.Time

	mint      localworld.Mint // what is paid
	claims    []*payment
	sentAway  []oracle.Claim // flagged deposits that went to somebody
	given     *big.Int       // of it, that the rich customer has transferred to others
	deposited *big.Int       // of it, that was sent to addresses of ours
	cells     int            // played here
	strangers int            // addresses that were made up here
}

// newTown starts everything and makes one customer rich.
func newTown(ctx context.Context, program string, at site) (t *town, err error) {
	t = &town{site: at, program: program, log: &tail{}, deposited: new(big.Int), given: new(big.Int)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
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
	t.world, err = localworld.Start(ctx, localworld.Options{Furnish: pgtest.Furnish, Dir: t.dir, Bare: true, Manual: true, Chains: []chain.Name{at.chain}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return t, err
	}
	if t.conf, err = app.ReadConfig(t.world.Info.Config); err != nil {
		return t, err
	}
	t.net = at.open(t.world)
	t.mine(ctx)
	if err := t.connect(); err != nil {
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
	every := []webhook.Type{
		webhook.CustomerDeposit, webhook.CustomerDepositApproved, webhook.CustomerDepositRejected, webhook.CustomerDepositRedirected, webhook.CustomerWithdrawAwaitingApproval, webhook.CustomerWithdraw,
		webhook.CustomerWithdrawApproved, webhook.CustomerWithdrawRejected, webhook.CustomerWithdrawCancelled, webhook.CustomerWithdrawFailed, webhook.CustomerWithdrawCompleted,
		webhook.TransferCompleted,
	}
	if status, err := t.call(ctx, http.MethodPost, "/webhook-endpoints", map[string]any{"url": t.receiver.url + hookPath, "events": every}, &hook); err != nil || status != http.StatusCreated {
		return t, fmt.Errorf("register the webhook: %d %w", status, err)
	}
	t.receiver.expect(hookPath, hook.Secret, false)
	if err := t.net.readied(ctx, t); err != nil {
		return t, err
	}
	d := &deposit{customer: rich, units: big.NewInt(at.rich)}
	if err := t.payIn(ctx, d); err != nil {
		return t, err
	}
	// What the payments are made from has to be in the treasury: a scene that lets nothing
	// be mined would hold up its sweep, and wait for it.
	if !at.chain.Pooled() {
		if err := t.emptied(ctx, d); err != nil {
			return t, err
		}
	}
	if err := t.set(ctx, org.Changes{"flaggedDepositApiEnabled": json.RawMessage("true")}); err != nil {
		return t, err
	}
	return t, t.drained(ctx, drainMax)
}

// mine makes a block now and then while mining is on.
func (t *town) mine(ctx context.Context) {
	ctx, t.stopMine = context.WithCancel(ctx)
	t.mining.Store(true)
	t.mined.Go(func() {
		tick := time.NewTicker(t.net.every())
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if t.mining.Load() && !t.tooFar(ctx) {
					_ = t.net.mine(ctx) // the next tick tries again
				}
			}
		}
	})
}

// tooFar tells whether the service has to walk before there are more blocks. What cannot
// be known changes nothing: the chain does not stop for a database that is down.
func (t *town) tooFar(ctx context.Context) bool {
	most := t.net.ahead()
	if most == 0 || time.Since(t.asked) < askEvery {
		return t.far
	}
	t.asked = time.Now()
	head, _, err := t.net.head(ctx)
	var at uint64
	if err == nil {
		err = t.query(ctx, `SELECT height FROM scan_cursors WHERE chain = $1`, []any{t.site.chain}, &at)
	}
	if err == nil {
		t.far = head > at+most
	}
	return t.far
}

func (t *town) connect() (err error) {
	db, err := url.Parse(t.conf.Database.URL)
	if err != nil {
		return err
	}
	if t.wire, err = newWire(db.Host); err != nil {
		return err
	}
	if t.provider, err = newProvider(t.net); err != nil {
		return err
	}
	if t.receiver, err = newReceiver(); err != nil {
		return err
	}
	for _, m := range t.world.Info.Mints {
		if m.Symbol == t.site.mint && m.Chain == string(t.site.chain) {
			t.mint = m
		}
	}
	t.oracle = t.net.truth()
	return nil
}

func (t *town) file(name string) string { return filepath.Join(t.dir, name+".toml") }

// writeConfigs writes what each process runs with: the signer has the keys, the
// services have its socket; the first service has the wires.
func (t *town) writeConfigs() error {
	t.conf.Paces = app.Paces{
		Scan: tenth, Dispatch: tenth, Sweep: 3 * tenth, Verify: 50 * tenth, Resend: 10 * tenth, Bump: 20 * tenth, Anchor: 20 * tenth,
	}
	if err := app.WriteConfig(t.file("signer"), t.conf); err != nil {
		return err
	}
	second := t.conf
	second.Signer = app.Signer{Socket: t.socket}
	second.Database.MaxConns = 10
	first := second
	var err error
	for _, listen := range []*string{&second.API.Listen, &second.Ops.Listen, &second.Operator.Listen} {
		if *listen, err = loopback.Address(); err != nil {
			return err
		}
	}
	if err := app.WriteConfig(t.file("second"), second); err != nil {
		return err
	}
	db, err := url.Parse(first.Database.URL)
	if err != nil {
		return err
	}
	db.Host = t.wire.address()
	first.Database.URL = db.String()
	ours := first.Chains[t.site.chain]
	ours.Endpoints = []string{t.provider.url}
	first.Chains = maps.Clone(first.Chains)
	first.Chains[t.site.chain] = ours
	return app.WriteConfig(t.file("service"), first)
}

const tenth = app.Duration(100 * time.Millisecond)

func (t *town) env() []string { return []string{"COFFER_CRASH_DIR=" + t.points} }

func (t *town) startSigner(ctx context.Context) (err error) {
	t.signer, err = launch("signer", t.program, t.log, t.env(), "signer", "serve", "--config", t.file("signer"), "--socket", t.socket)
	if err != nil {
		return err
	}
	return until(ctx, "the signer answers", upMax, func(ctx context.Context) (bool, error) {
		if !t.signer.alive() {
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

func (t *town) startService(ctx context.Context) (err error) {
	t.service, err = launch("service", t.program, t.log, t.env(), "serve", "--config", t.file("service"))
	if err != nil {
		return err
	}
	return ready(ctx, t.service, t.conf.Ops.Listen)
}

func (t *town) startSecond(ctx context.Context) (err error) {
	conf, err := app.ReadConfig(t.file("second"))
	if err != nil {
		return err
	}
	if t.second, err = launch("second service", t.program, nil, t.env(), "serve", "--config", t.file("second")); err != nil {
		return err
	}
	return ready(ctx, t.second, conf.Ops.Listen)
}

func (t *town) endSecond() error {
	if t.second == nil {
		return nil
	}
	err := t.second.end()
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

func ready(ctx context.Context, p *process, ops string) error {
	return until(ctx, "the "+p.name+" is ready", upMax, func(ctx context.Context) (bool, error) {
		if !p.alive() {
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

// stop ends everything that newTown started.
func (t *town) stop() error {
	var errs []error
	for _, p := range []*process{t.second, t.service, t.signer} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	if t.stopMine != nil {
		t.stopMine()
		t.mined.Wait()
	}
	if t.eye != nil {
		_ = t.eye.Close(context.Background()) // it was for looking
	}
	if t.tools != nil {
		errs = append(errs, t.tools.Close())
	}
	if t.provider != nil {
		t.provider.close()
	}
	if t.wire != nil {
		t.wire.close()
	}
	if t.receiver != nil {
		t.receiver.close()
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

// call calls the API until it answers: the service may be dead at any moment,
// and the same request with the same key may always be sent again.
func (t *town) call(ctx context.Context, method, path string, body, into any) (status int, err error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	err = until(ctx, method+" "+path+" is answered", answerMax, func(ctx context.Context) (bool, error) {
		status, err = t.try(ctx, method, path, payload, into)
		if err == nil && (status >= 500 || status == http.StatusTooManyRequests) {
			err = fmt.Errorf("status %d", status)
		}
		return err == nil, err
	})
	return status, err
}

func (t *town) try(ctx context.Context, method, path string, payload []byte, into any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.world.Info.BaseURL+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("x-api-key", t.world.Info.APIKey)
	if method == http.MethodPost {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := impatient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || into == nil || len(b) == 0 || resp.StatusCode >= 300 {
		if resp.StatusCode >= 400 && resp.StatusCode < 500 && err == nil {
			err = nil
		}
		return resp.StatusCode, err
	}
	return resp.StatusCode, json.Unmarshal(b, into)
}

// query reads one row from the database as its superuser, or changes something. The
// connection is kept; one that fails is given up, and what it was for is asked once
// more, because the server may have been killed since.
func (t *town) query(ctx context.Context, sql string, args []any, into ...any) (err error) {
	t.looking.Lock()
	defer t.looking.Unlock()
	for again := t.eye != nil; ; again = false {
		if t.eye == nil {
			if t.eye, err = pgx.Connect(ctx, t.world.Database().SuperURL(local.Database)); err != nil {
				return err
			}
		}
		if len(into) == 0 {
			_, err = t.eye.Exec(ctx, sql, args...)
		} else {
			err = t.eye.QueryRow(ctx, sql, args...).Scan(into...)
		}
		if err == nil {
			return nil
		}
		_ = t.eye.Close(context.WithoutCancel(ctx)) // it has failed
		t.eye = nil
		if !again {
			return err
		}
	}
}

// open is what is still under way, by kind; empty when nothing is.
const openWork = `
	SELECT coalesce(string_agg(kind || ' ' || n, ', '), '') FROM (
		SELECT 'order ' || status AS kind, count(*) AS n FROM dispatch_orders WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') GROUP BY status
		UNION ALL SELECT 'withdrawal ' || status, count(*) FROM withdrawals WHERE status IN ('PROCESSING', 'BROADCAST') GROUP BY status
		UNION ALL SELECT 'deposit ' || status, count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING', 'REJECTING', 'REDIRECTING') GROUP BY status
		UNION ALL SELECT 'sweep', count(*) FROM sweeps WHERE status = 'OPEN'
		UNION ALL SELECT 'top-up', count(*) FROM gas_top_ups WHERE status = 'OPEN'
		UNION ALL SELECT 'event', count(*) FROM events WHERE sequence IS NULL
		UNION ALL SELECT 'delivery', count(*) FROM deliveries WHERE status = 'PENDING'
		UNION ALL SELECT 'freeze: ' || reason, 1 FROM freezes WHERE lifted_at IS NULL
	) AS open WHERE n > 0`

// waits is what has not ended, with the last words of the providers.
func (t *town) waits(ctx context.Context) error {
	var said string
	err := t.query(ctx, `
		SELECT coalesce(string_agg(concat_ws(' ', order_id, o.status, waiting_for, 'version', a.version, a.act, a.tx_hash, a.last_answer), '; '), '')
		FROM dispatch_orders o LEFT JOIN dispatch_attempts a USING (order_id) WHERE o.status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')`, nil, &said)
	if err == nil && said != "" {
		err = errors.New("open: " + said)
	}
	return err
}

// drained waits until nothing is under way any more.
func (t *town) drained(ctx context.Context, patience time.Duration) error {
	return until(ctx, "everything is done", patience, func(ctx context.Context) (bool, error) {
		var left string
		if err := t.query(ctx, openWork, nil, &left); err != nil {
			return false, err
		}
		if left != "" {
			return false, errors.New("open: " + left)
		}
		return true, nil
	})
}

// expire lets the leases of deliveries run out, as a minute does: who held them
// is dead.
func (t *town) expire(ctx context.Context) error {
	return t.query(ctx, `UPDATE deliveries SET leased_until = now(), attempt_after = now() WHERE status = 'PENDING' AND lease IS NOT NULL`, nil)
}

// ours are the addresses on the town's chain that our keys control.
func (t *town) ours(ctx context.Context) (map[string]bool, error) {
	var all []string
	err := t.query(ctx, `SELECT array_agg(address) FROM (SELECT address FROM wallets WHERE family = $1 UNION SELECT address FROM places WHERE chain = $2) AS ours`,
		[]any{t.site.chain.Family(), t.site.chain}, &all)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, a := range all {
		out[t.written(a)] = true
	}
	return out, nil
}

// written is an address as the oracle has it.
func (t *town) written(address string) string {
	if t.site.chain.Family() == chain.EVM {
		return strings.ToLower(address)
	}
	return address
}

func (t *town) asset() string { return t.written(t.token()) }

// token is the contract or the mint of what is paid; "" for the chain's own coin.
func (t *town) token() string {
	if t.mint.ContractAddress == nil {
		return ""
	}
	return *t.mint.ContractAddress
}
