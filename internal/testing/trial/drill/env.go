package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/tied"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

const (
	blockEvery = 100 * time.Millisecond
	// blocksAheadMax is how many blocks of Ethereum the service may have to catch up: more than any drill needs.
	blocksAheadMax = 60
	callMax        = 20 * time.Second // one call of the API
	patience       = 10 * time.Minute // for a condition to come true
	commandMax     = 60 * time.Second
)

// drillEnv is a kept local world whose service is a real process, with its integrator and its
// oracle.
type drillEnv struct {
	program string
	output  io.Writer

	dir        string
	world      *localworld.World
	conf       app.Config
	oracle     *oracle.Chain // of Ethereum
	integrator *integrator
	mint       localworld.Mint // the mint of all payments
	chainName  chain.Name
	sideChain  chain.Name // of the world, whose blocks are mined, too; "": none
	net        network
	key        string // of the API

	standby  *local.Cluster // replicates the world's database, where a drill has one
	promoted *local.Cluster // the standby, once it is the primary

	mining     atomic.Bool
	stopMine   context.CancelFunc
	miningDone sync.WaitGroup

	payments []*payment
	deposits []*deposit
}

// playStep runs a step and prints how long it took.
func (h *drillEnv) playStep(title string, task func() error) error {
	began := time.Now()
	if err := task(); err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	fmt.Fprintf(h.output, "  %5.1fs  %s\n", time.Since(began).Seconds(), title)
	return nil
}

// playSteps plays steps in order.
func (h *drillEnv) playSteps(steps ...any) error {
	for i := 0; i < len(steps); i += 2 {
		if err := h.playStep(steps[i].(string), steps[i+1].(func() error)); err != nil {
			return err
		}
	}
	return nil
}

func (h *drillEnv) startWorld(ctx context.Context) (err error) {
	if h.dir, err = os.MkdirTemp("", "coffer-drill-"); err != nil {
		return err
	}
	// PostgreSQL runs as another user when the trial is root, and has to pass through the folder.
	if err := os.Chmod(h.dir, 0o755); err != nil {
		return err
	}
	h.world, err = localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Calm: true,
		Dir: h.dir, StateDir: filepath.Join(h.dir, "world"), Program: h.program, ManualBlocks: true, SingleRun: true,
		Chains: h.chains(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if h.conf, err = app.ReadConfig(h.world.Info.Config); err != nil {
		return err
	}
	h.key = h.world.Info.APIKey
	if slices.Contains(h.chains(), chain.Solana) && h.world.SolanaNode() == nil {
		return errors.New("surfpool, the local Solana chain, is not there for this system")
	}
	h.oracle = oracle.Open(h.world.EthereumNode().URL)
	h.net = h.newNetwork()
	for _, m := range h.world.Info.Mints {
		if m.Chain == string(h.chainName) && m.Symbol == h.net.mintSymbol() {
			h.mint = m
		}
	}
	h.startMining(ctx)
	if h.integrator, err = newIntegrator(); err != nil {
		return err
	}
	if err := h.registerWebhook(ctx); err != nil {
		return err
	}
	return h.net.waitFunded(ctx, h)
}

// chains returns the chains of the world.
func (h *drillEnv) chains() []chain.Name {
	if h.sideChain == "" {
		return []chain.Name{h.chainName}
	}
	return []chain.Name{h.chainName, h.sideChain}
}

// startMining mines blocks at the chain's interval while mining is on.
func (h *drillEnv) startMining(ctx context.Context) {
	ctx, h.stopMine = context.WithCancel(ctx)
	h.mining.Store(true)
	h.mineOn(ctx, h.net)
	if h.sideChain == chain.Solana {
		h.mineOn(ctx, &solana{node: h.world.SolanaNode()})
	}
}

// mineOn mines the blocks of one chain.
func (h *drillEnv) mineOn(ctx context.Context, net network) {
	h.miningDone.Go(func() {
		tick := time.NewTicker(net.blockInterval())
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if h.mining.Load() && !net.isTooFarAhead(ctx, h) {
					_ = net.mineBlock(ctx) // the next tick tries again
				}
			}
		}
	})
}

func (h *drillEnv) stopAll() error {
	var errs []error
	if h.stopMine != nil {
		h.stopMine()
		h.miningDone.Wait()
	}
	if h.integrator != nil {
		h.integrator.closeServer()
	}
	if h.world != nil {
		errs = append(errs, h.world.Stop())
	}
	if h.standby != nil {
		errs = append(errs, h.standby.Stop())
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}

func (h *drillEnv) readLog() string {
	if h.world == nil {
		return ""
	}
	text := h.world.ServiceLog()
	const bytesMax = 4 << 10
	if len(text) > bytesMax {
		text = text[len(text)-bytesMax:]
	}
	return text
}

// runCoffer runs a command as a person does, with the configuration of the world. The error has its
// output if it did not end with that code.
func (h *drillEnv) runCoffer(ctx context.Context, code int, args ...string) (output string, err error) {
	return h.runCommand(ctx, code, append(args, "--config", h.world.Info.Config)...)
}

// killCommand runs a command and kills it after a delay.
func (h *drillEnv) killCommand(ctx context.Context, delay time.Duration, args ...string) error {
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Dir = h.dir
	exited, exitError, err := tied.Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		return fmt.Errorf("coffer %s ended by itself: %w", strings.Join(args, " "), exitError())
	case <-time.After(delay):
	}
	err = cmd.Process.Kill()
	<-exited
	return err
}

func (h *drillEnv) runCommand(ctx context.Context, code int, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Dir = h.dir
	printed, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		return string(printed), fmt.Errorf(
			"coffer %s: got exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, printed,
		)
	}
	return string(printed), nil
}

// startsMax is how often a start is tried whose chain did not answer in time, as on a busy machine.
const startsMax = 3

// checkStartRefused checks that the service ends by itself at its start, and says why.
func (h *drillEnv) checkStartRefused(ctx context.Context, reason string) error {
	var err error
	for range startsMax {
		err = h.world.RestartService(ctx)
		if err == nil || !strings.Contains(err.Error(), chain.ErrTooFewProviders.Error()) {
			break
		}
	}
	switch {
	case err == nil:
		return errors.New("the service started")
	case !strings.Contains(err.Error(), reason):
		return fmt.Errorf("the service does not say %q: %w", reason, err)
	}
	return h.checkClosed(ctx)
}

// checkClosed checks that the API is closed.
func (h *drillEnv) checkClosed(ctx context.Context) error {
	if status, err := h.callOnce(ctx, http.MethodGet, "/mints", nil, nil); err == nil {
		return fmt.Errorf("the API answered %d", status)
	}
	return nil
}

var client = &http.Client{Timeout: callMax}

// callOnce calls the API once.
func (h *drillEnv) callOnce(ctx context.Context, method, path string, body, target any) (status int, err error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, method, h.world.Info.BaseURL+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("x-api-key", h.key)
	if method == http.MethodPost {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if target != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(answer, target)
	} else if resp.StatusCode >= 300 {
		target = nil
	}
	return resp.StatusCode, err
}

// callOperatorOnce calls the operator's interface once. Any answer but a success is an error.
func (h *drillEnv) callOperatorOnce(ctx context.Context, method, path string, body, target any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, h.world.Info.OperatorURL+"/v1"+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("x-operator-key", h.world.Info.Operator.APIKey)
	req.Header.Set("content-type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("status %d: %.300s", resp.StatusCode, answer)
	case target == nil:
		return nil
	}
	return json.Unmarshal(answer, target)
}

// callAPI calls the API until it answers, and requires that status.
func (h *drillEnv) callAPI(ctx context.Context, want int, method, path string, body, target any) error {
	var status int
	err := retryUntilDone(ctx, method+" "+path+" is answered", func(ctx context.Context) (err error) {
		status, err = h.callOnce(ctx, method, path, body, target)
		if err == nil && (status >= 500 || status == http.StatusTooManyRequests) {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	if err == nil && status != want {
		err = fmt.Errorf("%s %s: got %d, want %d", method, path, status, want)
	}
	return err
}

// queryRow reads one row from the database as its superuser.
func (h *drillEnv) queryRow(ctx context.Context, sql string, args []any, target ...any) error {
	conn, err := pgx.Connect(ctx, h.writeCluster().SuperURL(local.Database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, sql, args...).Scan(target...)
}

// openWork selects what is still under way, by kind; it is empty when nothing is.
const openWork = `
	SELECT coalesce(string_agg(kind || ' ' || n, ', '), '') FROM (
		SELECT 'order ' || status AS kind, count(*) AS n FROM dispatch_orders WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') GROUP BY status
		UNION ALL SELECT 'order without funds', count(*) FROM dispatch_orders WHERE funds_pending
		UNION ALL SELECT 'withdrawal ' || status, count(*) FROM withdrawals WHERE status IN ('PROCESSING', 'BROADCAST') GROUP BY status
		UNION ALL SELECT 'debt', count(*) FROM withdrawals WHERE owed > 0
		UNION ALL SELECT 'deposit ' || status, count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING') GROUP BY status
		UNION ALL SELECT 'swap', count(*) FROM swaps
			WHERE status NOT IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')
		UNION ALL SELECT 'sweep', count(*) FROM sweeps WHERE status = 'OPEN'
		UNION ALL SELECT 'top-up', count(*) FROM gas_top_ups WHERE status = 'OPEN'
		UNION ALL SELECT 'event', count(*) FROM events WHERE sequence IS NULL
		UNION ALL SELECT 'delivery', count(*) FROM deliveries WHERE status = 'PENDING'
		UNION ALL SELECT 'freeze: ' || reason, 1 FROM freezes WHERE lifted_at IS NULL
	) AS open WHERE n > 0`

// waitDrained waits until nothing is under way.
func (h *drillEnv) waitDrained(ctx context.Context) error {
	return retryUntilDone(ctx, "everything is done", func(ctx context.Context) error {
		var left string
		if err := h.queryRow(ctx, openWork, nil, &left); err != nil {
			return err
		}
		if left != "" {
			return errors.New("open: " + left)
		}
		return nil
	})
}

// retryUntilDone repeats a task until it succeeds. After the patience it returns the last error.
func retryUntilDone(ctx context.Context, title string, task func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := task(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("not within %s: %s: %w", patience, title, last)
		case <-timer.C:
		}
	}
}

// wholeUnits returns n of the units that the drills count in.
func (h *drillEnv) wholeUnits(n int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(n), big.NewInt(h.net.baseUnit()))
}
