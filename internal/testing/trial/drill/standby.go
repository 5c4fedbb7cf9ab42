package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/webhook"
)

// loadEvery is the time between two payments of one caller.
const loadEvery = 100 * time.Millisecond

// standbyName is the name under which the standby connects to the primary.
const standbyName = "standby"

// writeCluster returns the server that the service writes to.
func (h *drillEnv) writeCluster() *local.Cluster {
	if h.promoted != nil {
		return h.promoted
	}
	return h.world.DatabaseCluster()
}

// startStandby starts a second server that streams from the first.
func (h *drillEnv) startStandby(ctx context.Context) (err error) {
	primary := h.world.DatabaseCluster()
	primaryURL, err := url.Parse(primary.SuperURL(""))
	if err != nil {
		return err
	}
	q := primaryURL.Query()
	q.Set("application_name", standbyName)
	primaryURL.RawQuery = q.Encode()
	dir := filepath.Join(h.dir, standbyName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err = errors.Join(
		runTool(ctx, nil, "pg_basebackup", "--dbname", primaryURL.String(), "--pgdata", filepath.Join(dir, "data"),
			"--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf"),
		// The passwords are the primary's.
		runQuietly(exec.CommandContext(ctx, "cp", filepath.Join(primary.Dir(), "coffer.json"), dir)),
	)
	if err != nil {
		return err
	}
	credential, err := fileOwner(primary.Dir())
	if err != nil {
		return err
	}
	if credential != nil {
		if err := runQuietly(exec.CommandContext(
			ctx, "chown", "-R", fmt.Sprintf("%d:%d", credential.Uid, credential.Gid), dir,
		)); err != nil {
			return err
		}
	}
	if h.standby, err = local.Start(
		ctx, local.Options{Dir: dir, TCP: true, Log: slog.New(slog.DiscardHandler)},
	); err != nil {
		return err
	}
	return h.waitReplication(ctx, "state = 'streaming'")
}

// waitReplication waits until the condition holds for the primary's row about its standby.
func (h *drillEnv) waitReplication(ctx context.Context, condition string) error {
	return retryUntilDone(ctx, "the standby's "+condition, func(ctx context.Context) error {
		var n int
		err := h.queryRow(
			ctx, `SELECT count(*) FROM pg_stat_replication WHERE application_name = $1 AND `+condition,
			[]any{standbyName}, &n,
		)
		if err == nil && n != 1 {
			err = fmt.Errorf("the primary has %d such", n)
		}
		return err
	})
}

// execStatements sends statements to a server as its superuser, one after another.
func execStatements(ctx context.Context, server *local.Cluster, statements ...string) error {
	conn, err := pgx.Connect(ctx, server.SuperURL(""))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// configureBothServers writes both servers into the configuration; the service uses the one that
// accepts writes.
func (h *drillEnv) configureBothServers() error {
	text, err := os.ReadFile(h.world.Info.Config)
	if err != nil {
		return err
	}
	primary := h.world.DatabaseCluster()
	config := string(text)
	for primaryURL, standbyURL := range map[string]string{
		primary.URL(local.Database):      h.standby.URL(local.Database),
		primary.OwnerURL(local.Database): h.standby.OwnerURL(local.Database),
	} {
		combined, err := eitherOf(primaryURL, standbyURL)
		if err != nil {
			return err
		}
		if !strings.Contains(config, primaryURL) {
			return fmt.Errorf("%s does not name the database by %s", h.world.Info.Config, primaryURL)
		}
		config = strings.ReplaceAll(config, primaryURL, combined)
	}
	return os.WriteFile(h.world.Info.Config, []byte(config), 0o600)
}

// eitherOf joins the URLs of two servers that differ in host and port.
func eitherOf(firstURL, secondURL string) (string, error) {
	first, err := url.Parse(firstURL)
	if err != nil {
		return "", err
	}
	second, err := url.Parse(secondURL)
	if err != nil {
		return "", err
	}
	q := first.Query()
	q.Set("host", first.Hostname()+","+second.Hostname())
	q.Set("port", first.Port()+","+second.Port())
	q.Set("target_session_attrs", "read-write")
	first.Host, first.RawQuery = "", q.Encode()
	return first.String(), nil
}

// promoteStandby makes the standby the primary.
func (h *drillEnv) promoteStandby(ctx context.Context) error {
	credential, err := fileOwner(h.standby.Dir())
	if err != nil {
		return err
	}
	if err := runTool(
		ctx, credential, "pg_ctl", "promote", "--pgdata", filepath.Join(h.standby.Dir(), "data"),
	); err != nil {
		return err
	}
	h.promoted = h.standby
	return nil
}

// paymentLoad requests small payments from several callers at once. Each caller repeats a request
// until it is answered.
type paymentLoad struct {
	stop    context.CancelFunc
	callers sync.WaitGroup

	mu       sync.Mutex
	accepted []*payment
	failed   error
}

func (h *drillEnv) startLoad(ctx context.Context, customer string) *paymentLoad {
	// A caller repeats its request until it is answered, also after stop.
	asking := ctx
	ctx, stop := context.WithCancel(ctx)
	l := &paymentLoad{stop: stop}
	for caller := range 4 {
		l.callers.Go(func() {
			pace := time.NewTicker(loadEvery)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-pace.C
				key := fmt.Sprintf("load-%d-%d", caller, n)
				p := &payment{
					key: key, customer: customer, units: new(big.Int).Add(h.wholeUnits(1), big.NewInt(int64(n))),
					recipient: h.net.unusedAddress([]byte(h.dir + key)),
				}
				for asking.Err() == nil {
					var w webhook.Withdrawal
					status, err := h.callOnce(asking, http.MethodPost, "/withdraw", p.requestBody(h), &w)
					if err == nil && status == http.StatusAccepted {
						p.id = w.WithdrawalID
						break
					}
					if err == nil && status < 500 && status != http.StatusTooManyRequests {
						l.mu.Lock()
						l.failed = fmt.Errorf("%s: got %d", key, status)
						l.mu.Unlock()
						return
					}
				}
				l.mu.Lock()
				if p.id != "" {
					l.accepted = append(l.accepted, p)
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// waitAccepted waits until n more payments are accepted.
func (l *paymentLoad) waitAccepted(ctx context.Context, n int) error {
	l.mu.Lock()
	want := len(l.accepted) + n
	l.mu.Unlock()
	return retryUntilDone(ctx, "payments are accepted", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed == nil && len(l.accepted) < want {
			return fmt.Errorf("%d of %d", len(l.accepted), want)
		}
		return l.failed
	})
}

// stopLoad stops the callers, each after the answer to its last payment, and adds the accepted
// payments to the drill's.
func (l *paymentLoad) stopLoad(h *drillEnv) error {
	l.stop()
	l.callers.Wait()
	h.payments = append(h.payments, l.accepted...)
	return l.failed
}

// approveHeld approves the payments that wait for a person: the service holds a payment when it
// could not record the verdict of a screening.
func (h *drillEnv) approveHeld(ctx context.Context) error {
	for _, p := range h.payments {
		var w webhook.Withdrawal
		if err := h.callAPI(ctx, http.StatusOK, http.MethodGet, "/withdrawals/"+p.id, nil, &w); err != nil {
			return err
		}
		if w.Status == "AWAITING_APPROVAL" {
			if err := h.approvePayment(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// playStandby loses the primary under load. A synchronous standby has all acknowledged writes, so
// the service continues with it by itself.
func playStandby(ctx context.Context, h *drillEnv) error {
	held, err := h.setUpMoney(ctx)
	if err != nil {
		return err
	}
	var l *paymentLoad
	return h.playSteps(
		"a second server follows, and every COMMIT waits for it", func() error {
			if err := h.startStandby(ctx); err != nil {
				return err
			}
			err := execStatements(
				ctx, h.world.DatabaseCluster(), "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'",
				"SELECT pg_reload_conf()",
			)
			return errors.Join(err, h.waitReplication(ctx, "sync_state = 'sync'"))
		},
		"the service starts with both servers in its configuration", func() error {
			return errors.Join(h.world.StopService(), h.configureBothServers(), h.world.RestartService(ctx))
		},
		"callers send payments", func() error {
			l = h.startLoad(ctx, "ann")
			return l.waitAccepted(ctx, 20)
		},
		"the primary dies and the standby is promoted", func() error {
			return errors.Join(h.world.DatabaseCluster().Kill(), h.promoteStandby(ctx))
		},
		"the service goes on by itself, and callers are served", func() error { return l.waitAccepted(ctx, 20) },
		"callers are done", func() error { return l.stopLoad(h) },
		"people approve the payment that waited, and those that could not be screened meanwhile", func() error {
			return errors.Join(
				h.approvePayment(ctx, held), h.waitPaymentStatus(ctx, held, "COMPLETED"), h.approveHeld(ctx),
			)
		},
		"every payment that was acknowledged is made, once",
		func() error { return errors.Join(h.replayPayments(ctx), h.waitPaymentsDone(ctx)) },
		"every deposit is there", func() error { return h.waitDepositsCredited(ctx) },
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
		"customers pay in and are paid", func() error {
			return errors.Join(
				h.payIn(ctx, "dan", h.wholeUnits(900)), h.payAndWait(ctx, "after", "dan", h.wholeUnits(350)),
				h.checkEverything(ctx),
			)
		},
	)
}

// playLaggingStandby loses the primary while its asynchronous standby lacks the last hour. The
// signer's journal has that hour, and the restore of an older backup begins with the promoted
// standby.
func playLaggingStandby(ctx context.Context, h *drillEnv) error {
	held, err := h.setUpMoney(ctx)
	if err != nil {
		return err
	}
	err = h.playSteps(
		"a second server follows, and no COMMIT waits for it", func() error { return h.startStandby(ctx) },
		"the service starts with both servers in its configuration", func() error {
			return errors.Join(h.world.StopService(), h.configureBothServers(), h.world.RestartService(ctx))
		},
		"the standby hears no more of the primary", func() error {
			err := execStatements(ctx, h.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
			return errors.Join(err, retryUntilDone(ctx, "it has gone", func(ctx context.Context) error {
				var n int
				err := h.queryRow(ctx, `SELECT count(*) FROM pg_stat_replication`, nil, &n)
				if err == nil && n != 0 {
					err = errors.New("it is connected")
				}
				return err
			}))
		},
	)
	if err != nil {
		return err
	}
	if err := h.lostHour(ctx, held); err != nil {
		return err
	}
	return h.playSteps(
		"the primary dies, the service is stopped, the standby is promoted", func() error {
			return errors.Join(h.world.DatabaseCluster().Kill(), h.world.StopService(), h.promoteStandby(ctx))
		},
		"the service refuses to start and the API stays closed",
		func() error { return h.checkStartRefused(ctx, notImported) },
		"coffer signer import says what it would do, then does it", func() error { return h.importJournal(ctx) },
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every key of the lost hour leads to its payment", func() error { return h.replayPayments(ctx) },
		"every payment and deposit comes to its end", func() error {
			h.mining.Store(true)
			return errors.Join(h.waitPaymentsDone(ctx), h.waitDepositsCredited(ctx))
		},
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
		"customers pay in and are paid", func() error {
			return errors.Join(
				h.payIn(ctx, "dan", h.wholeUnits(900)), h.payAndWait(ctx, "after", "dan", h.wholeUnits(350)),
				h.checkEverything(ctx),
			)
		},
	)
}
