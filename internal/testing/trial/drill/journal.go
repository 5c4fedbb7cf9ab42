package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld/tied"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
)

// playLostJournal plays the loss of the signer's journal, first of its end, then of all of it, with
// a current database.
func playLostJournal(ctx context.Context, h *drillEnv) error {
	journal := h.conf.Signer.Journal
	older := filepath.Join(h.dir, "journal.older")
	if _, err := h.setUpMoney(ctx); err != nil {
		return err
	}
	return h.playSteps(
		"a payment is in the pool when the service stops", func() error {
			if err := copyFile(journal, older); err != nil {
				return err
			}
			if err := h.payAndWait(ctx, "late", "ann", h.wholeUnits(1_000)); err != nil {
				return err
			}
			h.mining.Store(false)
			flying, err := h.requestPayment(ctx, "flying", "bob", h.wholeUnits(50), false)
			if err != nil {
				return err
			}
			return errors.Join(h.waitPaymentStatus(ctx, flying, "BROADCAST"), h.world.StopService())
		},
		"an older copy of the journal: the service refuses to start", func() error {
			return errors.Join(
				os.Rename(journal, journal+".newest"), copyFile(older, journal),
				h.checkStartRefused(ctx, "journal is older than the database"),
			)
		},
		"no journal: the service and the signer refuse to start", func() error {
			if err := errors.Join(os.Remove(journal), h.checkStartRefused(ctx, "coffer signer adopt")); err != nil {
				return err
			}
			output, err := h.runCoffer(ctx, 1, "signer", "serve", "--socket", h.socketPath())
			if err == nil && !strings.Contains(output, "coffer signer adopt") {
				err = fmt.Errorf("the signer says:\n%s", output)
			}
			return err
		},
		"coffer signer adopt says what it would do, then does it", func() error {
			if _, err := h.runCoffer(ctx, 1, "signer", "adopt"); err != nil {
				return err
			}
			if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("after a rehearsal there is a journal: %w", err)
			}
			_, err := h.runCoffer(ctx, 0, "signer", "adopt", "--yes")
			return err
		},
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every key leads to its payment", func() error { return h.replayPayments(ctx) },
		"blocks go on: the payment in the pool is done, and another", func() error {
			h.mining.Store(true)
			for _, p := range h.payments {
				if !p.held {
					if err := h.waitPaymentStatus(ctx, p, "COMPLETED"); err != nil {
						return err
					}
				}
			}
			return errors.Join(
				h.payIn(ctx, "cid", h.wholeUnits(300)), h.payAndWait(ctx, "after", "cid", h.wholeUnits(250)),
			)
		},
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
		"the signer answers what it signed with the same bytes, or refuses", func() error {
			return errors.Join(h.world.StopService(), h.checkSignedAgain(ctx))
		},
		"the older journal is not taken back", func() error {
			return errors.Join(
				os.Rename(journal, journal+".adopted"), os.Rename(journal+".newest", journal),
				h.checkStartRefused(ctx, "not the signer journal"),
			)
		},
	)
}

func copyFile(source, target string) error {
	b, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, b, 0o600)
}

func (h *drillEnv) socketPath() string { return filepath.Join(h.dir, "signer.sock") }

// checkSignedAgain starts the signer's own process. It asks again for every transaction that the
// database has, and for each of them in a slot of another order.
func (h *drillEnv) checkSignedAgain(ctx context.Context) (err error) {
	signerConf := app.DefaultConfig()
	signerConf.Keys.Attest, signerConf.Keys.Approvals, signerConf.Signer =
		h.conf.Keys.Attest, h.conf.Keys.Approvals, h.conf.Signer
	file := filepath.Join(h.dir, "signer.toml")
	if err := app.WriteConfig(file, signerConf); err != nil {
		return err
	}
	cmd := exec.Command(h.program, "signer", "serve", "--config", file, "--socket", h.socketPath())
	exited, _, err := tied.Start(cmd)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
		<-exited
	}()
	signerClient := remote.DialSocket(h.socketPath())
	err = retryUntilDone(
		ctx, "the signer answers", func(ctx context.Context) error { _, err := signerClient.Head(ctx); return err },
	)
	if err != nil {
		return err
	}
	attempts, err := h.listAttempts(ctx)
	if err != nil {
		return err
	}
	if len(attempts) == 0 {
		return errors.New("the database has no transaction")
	}
	for _, a := range attempts {
		got, err := signerClient.Sign(ctx, a.SignRequest)
		if err != nil || !bytes.Equal(got.Raw, a.raw) {
			return fmt.Errorf("%s in slot %d: got %x, %w, want %x", a.IntentID, a.Slot.Nonce, got.Raw, err, a.raw)
		}
		a.Slot.Nonce++
		var refusal *signer.Refusal
		if got, err := signerClient.Sign(ctx, a.SignRequest); !errors.As(err, &refusal) {
			return fmt.Errorf(
				"%s in slot %d, which is not its own: got %x, %w, want a refusal", a.IntentID, a.Slot.Nonce, got.Raw,
				err,
			)
		}
	}
	return nil
}

// attempt is a signed transaction in the database.
type attempt struct {
	signer.SignRequest
	raw []byte
}

func (h *drillEnv) listAttempts(ctx context.Context) (attempts []attempt, err error) {
	conn, err := pgx.Connect(ctx, h.writeCluster().SuperURL(local.Database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `
		SELECT a.order_id, s.nonce, a.act, a.payload, a.raw FROM dispatch_attempts a JOIN dispatch_slots s USING (order_id)
		WHERE a.raw IS NOT NULL ORDER BY a.order_id, a.version`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a attempt, err error) {
		return a, row.Scan(&a.IntentID, &a.Slot.Nonce, &a.Act, &a.Payload, &a.raw)
	})
}
