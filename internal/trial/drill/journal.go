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
	"github.com/cofferpay/coffer/internal/pg/local"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
)

// lostJournal plays the loss of the signer's journal, first of its end, then of all
// of it, with a database that is up to date.
func lostJournal(ctx context.Context, h *house) error {
	journal := h.conf.Signer.Journal
	older := filepath.Join(h.dir, "journal.older")
	if _, err := h.before(ctx); err != nil {
		return err
	}
	return h.steps(
		"a payment is in the pool when the service stops", func() error {
			if err := copyFile(journal, older); err != nil {
				return err
			}
			if err := h.pay(ctx, "late", "ann", h.whole(1_000)); err != nil {
				return err
			}
			h.mining.Store(false)
			flying, err := h.ask(ctx, "flying", "bob", h.whole(50), false)
			if err != nil {
				return err
			}
			return errors.Join(h.reaches(ctx, flying, "BROADCAST"), h.world.End())
		},
		"an older copy of the journal: the service refuses to start", func() error {
			return errors.Join(os.Rename(journal, journal+".newest"), copyFile(older, journal), h.refused(ctx, "journal is older than the database"))
		},
		"no journal: the service and the signer refuse to start", func() error {
			if err := errors.Join(os.Remove(journal), h.refused(ctx, "coffer signer adopt")); err != nil {
				return err
			}
			said, err := h.coffer(ctx, 1, "signer", "serve", "--socket", h.socket())
			if err == nil && !strings.Contains(said, "coffer signer adopt") {
				err = fmt.Errorf("the signer says:\n%s", said)
			}
			return err
		},
		"coffer signer adopt says what it would do, then does it", func() error {
			if _, err := h.coffer(ctx, 1, "signer", "adopt"); err != nil {
				return err
			}
			if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("after a rehearsal there is a journal: %w", err)
			}
			_, err := h.coffer(ctx, 0, "signer", "adopt", "--yes")
			return err
		},
		"the service starts", func() error { return h.world.Restart(ctx) },
		"every key leads to its payment", func() error { return h.replayed(ctx) },
		"blocks go on: the payment in the pool is done, and another", func() error {
			h.mining.Store(true)
			for _, p := range h.payments {
				if !p.held {
					if err := h.reaches(ctx, p, "COMPLETED"); err != nil {
						return err
					}
				}
			}
			return errors.Join(h.payIn(ctx, "cid", h.whole(300)), h.pay(ctx, "after", "cid", h.whole(250)))
		},
		"books, chain, oracle and integrator agree", func() error { return h.sound(ctx) },
		"the signer answers what it signed with the same bytes, or refuses", func() error {
			return errors.Join(h.world.End(), h.signedAgain(ctx))
		},
		"the older journal is not taken back", func() error {
			return errors.Join(os.Rename(journal, journal+".adopted"), os.Rename(journal+".newest", journal), h.refused(ctx, "not the signer journal"))
		},
	)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

func (h *house) socket() string { return filepath.Join(h.dir, "signer.sock") }

// signedAgain starts the signer's own process and asks it again for every transaction
// that the database has, and for each of them in a slot that is not its own.
func (h *house) signedAgain(ctx context.Context) (err error) {
	own := app.Defaults()
	own.Keys.Attest, own.Keys.Approvals, own.Signer = h.conf.Keys.Attest, h.conf.Keys.Approvals, h.conf.Signer
	file := filepath.Join(h.dir, "signer.toml")
	if err := app.WriteConfig(file, own); err != nil {
		return err
	}
	cmd := exec.Command(h.program, "signer", "serve", "--config", file, "--socket", h.socket())
	done, _, err := tied.Start(cmd)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
		<-done
	}()
	asked := remote.Dial(h.socket())
	err = until(ctx, "the signer answers", func(ctx context.Context) error { _, err := asked.Head(ctx); return err })
	if err != nil {
		return err
	}
	attempts, err := h.attempts(ctx)
	if err != nil {
		return err
	}
	if len(attempts) == 0 {
		return errors.New("the database has no transaction")
	}
	for _, a := range attempts {
		got, err := asked.Sign(ctx, a.SignRequest)
		if err != nil || !bytes.Equal(got.Raw, a.raw) {
			return fmt.Errorf("%s in slot %d: got %x, %w, want %x", a.IntentID, a.Slot.Nonce, got.Raw, err, a.raw)
		}
		a.Slot.Nonce++
		var no *signer.Refusal
		if got, err := asked.Sign(ctx, a.SignRequest); !errors.As(err, &no) {
			return fmt.Errorf("%s in slot %d, which is not its own: got %x, %w, want a refusal", a.IntentID, a.Slot.Nonce, got.Raw, err)
		}
	}
	return nil
}

// attempt is a signed transaction as the database has it.
type attempt struct {
	signer.SignRequest
	raw []byte
}

func (h *house) attempts(ctx context.Context) (all []attempt, err error) {
	conn, err := pgx.Connect(ctx, h.cluster().SuperURL(local.Database))
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
