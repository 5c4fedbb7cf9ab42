package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// The most mails of one kind that one address gets. Rule MAIL-2.
const (
	sentHourMax = 5
	sentDayMax  = 20
)

const (
	parallelMax = 8 // mails that one process sends at the same time
	sendTimeout = 5 * time.Minute
	// For how long a claimed mail is this process's; longer than an attempt with its record.
	leaseLength   = 10 * time.Minute
	idlePause     = 500 * time.Millisecond // between two looks for due mails
	errorPause    = 5 * time.Second
	recordTimeout = 10 * time.Second
	stopTimeout   = 20 * time.Second    // for mails that are being sent when the process stops
	endedKept     = 30 * 24 * time.Hour // rows of ended mails
	pruneMax      = 1000                // rows in one transaction
)

// Sender sends the mails that are due. Any number of processes may run one.
type Sender struct {
	DB        *pg.DB
	Seal      *seal.Keyset
	Transport Transport
	Address   mail.Address // the sender of every mail
	Log       *slog.Logger
}

// claimedMail is a mail that this process holds until its lease ends.
type claimedMail struct {
	Mail
	attempt int // its number, which no other claim of this mail has
	sealed  []byte
}

// Step sends the mails that are due, up to parallelMax, and returns how many attempts it made. Run
// does the same without waiting for the slowest of them.
func (s *Sender) Step(ctx context.Context) (attempts int, err error) {
	claimed, err := s.claimDue(ctx, parallelMax)
	if err != nil {
		return 0, err
	}
	var sends sync.WaitGroup
	for _, c := range claimed {
		sends.Go(func() { s.sendMail(ctx, c) })
	}
	sends.Wait()
	return len(claimed), nil
}

// Run sends mails until ctx ends. It then claims nothing more and waits a bounded time for the mails
// that are being sent. The lease of a mail that is cut off runs out.
func (s *Sender) Run(ctx context.Context) error {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	slots := make(chan struct{}, parallelMax)
	var sends sync.WaitGroup
	for ctx.Err() == nil {
		wait := idlePause
		claimed, err := s.claimDue(ctx, parallelMax-len(slots))
		if err != nil && ctx.Err() == nil {
			s.Log.LogAttrs(ctx, slog.LevelError, "cannot claim mails", slog.Any("error", err))
			wait = errorPause
		}
		for _, c := range claimed {
			slots <- struct{}{}
			sends.Go(func() {
				defer func() { <-slots }()
				s.sendMail(sending, c)
			})
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	patience := time.AfterFunc(stopTimeout, cut)
	sends.Wait()
	patience.Stop()
	return nil
}

// dueMail is a row of the queue whose time has come.
type dueMail struct {
	claimedMail
	isFirst bool // no attempt was made yet
}

// claimDue leases due mails, the longest due first. One process claims at a time: so the limits of
// an address count every mail whose first attempt another process has begun. A process that finds
// another one claiming claims nothing. Rules MAIL-2 and MAIL-3.
func (s *Sender) claimDue(ctx context.Context, limit int) (claimed []claimedMail, err error) {
	if limit <= 0 {
		return nil, nil
	}
	var ended []endedMail
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		claimed, ended = nil, nil
		var isTurn bool
		if err := tx.QueryRow(
			ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('coffer/mail/claim', 0))`,
		).Scan(&isTurn); err != nil || !isTurn {
			return err
		}
		queued, err := lockDue(ctx, tx, limit)
		if err != nil {
			return err
		}
		for _, d := range queued {
			if d.attempt > attemptsMax { // the process of the last attempt crashed
				ended = append(ended, endedMail{d.claimedMail, statusGivenUp, "the last attempt was interrupted"})
				continue
			}
			if d.isFirst {
				isAllowed, err := countSent(ctx, tx, d.claimedMail)
				if err != nil {
					return err
				}
				if !isAllowed {
					ended = append(ended, endedMail{d.claimedMail, statusSuppressed, reasonTooMany})
					continue
				}
			}
			if err := claimMail(ctx, tx, d.claimedMail); err != nil {
				return err
			}
			claimed = append(claimed, d.claimedMail)
		}
		for _, e := range ended {
			if err := endMail(ctx, tx, e.mail.ID, e.mail.attempt-1, e.status, e.reason); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, e := range ended {
		s.logEnd(ctx, e)
	}
	return claimed, nil
}

func lockDue(ctx context.Context, tx pg.Tx, limit int) ([]dueMail, error) {
	rows, err := tx.Query(ctx, `
		SELECT mail_id, kind, to_address, sealed, created_at, attempts + 1, first_attempt_at IS NULL
		FROM mails WHERE status = 'QUEUED' AND attempt_after <= $1
		ORDER BY attempt_after, mail_id LIMIT $2 FOR UPDATE SKIP LOCKED`, tx.Now, limit)
	if err != nil {
		return nil, fmt.Errorf("look for due mails: %w", err)
	}
	queued, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d dueMail, err error) {
		err = row.Scan(&d.ID, &d.Kind, &d.To, &d.sealed, &d.CreatedAt, &d.attempt, &d.isFirst)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for due mails: %w", err)
	}
	return queued, nil
}

// countSent reports whether the address may get another mail of the kind. A mail counts from its
// first attempt on. Rule MAIL-2.
func countSent(ctx context.Context, tx pg.Tx, c claimedMail) (isAllowed bool, err error) {
	var hour, day int
	err = tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE first_attempt_at > $3), count(*) FROM mails
		WHERE lower(to_address) = lower($1) AND kind = $2 AND first_attempt_at > $4`,
		c.To, c.Kind, tx.Now.Add(-time.Hour), tx.Now.Add(-24*time.Hour)).Scan(&hour, &day)
	if err != nil {
		return false, fmt.Errorf("count the mails of one address: %w", err)
	}
	return hour < sentHourMax && day < sentDayMax, nil
}

func claimMail(ctx context.Context, tx pg.Tx, c claimedMail) error {
	tag, err := tx.Exec(ctx, `
		UPDATE mails SET attempts = $2, attempt_after = $3, first_attempt_at = coalesce(first_attempt_at, $4)
		WHERE mail_id = $1 AND status = 'QUEUED' AND attempts = $2 - 1`,
		c.ID, c.attempt, tx.Now.Add(leaseLength), tx.Now)
	if err != nil {
		return fmt.Errorf("claim mail %s: %w", c.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("claim mail %s: %d rows changed", c.ID, tag.RowsAffected())
	}
	return nil
}

// The statuses of mails that ended. A mail has no text any more then.
const (
	statusSent       = "SENT"
	statusGivenUp    = "GIVEN_UP"
	statusSuppressed = "SUPPRESSED" // the address had got too many of its kind
)

const reasonTooMany = "the address got too many of this kind"

type endedMail struct {
	mail           claimedMail
	status, reason string
}

// endMail ends a mail whose last attempt has that number, and erases its text. It does nothing if
// another process has claimed the mail meanwhile. Rule MAIL-4.
func endMail(ctx context.Context, tx pg.Tx, mailID string, attempts int, status, reason string) error {
	_, err := tx.Exec(ctx, `
		UPDATE mails SET status = $3, ended_at = $4, sealed = NULL, last_error = nullif($5, '')
		WHERE mail_id = $1 AND status = 'QUEUED' AND attempts = $2`, mailID, attempts, status, tx.Now, reason)
	if err != nil {
		return fmt.Errorf("end mail %s as %s: %w", mailID, status, err)
	}
	return nil
}

// sendMail makes one attempt, outside of any transaction, and records its outcome. An attempt that
// the end of the process cuts off is not recorded: its outcome is unknown, and its lease runs out.
func (s *Sender) sendMail(ctx context.Context, c claimedMail) {
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	err := s.openAndSend(sending, c)
	cancel()
	if err != nil && ctx.Err() != nil {
		return
	}
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.recordAttempt(record, c, err); err != nil {
		// The lease runs out, and the mail is sent again.
		s.Log.LogAttrs(ctx, slog.LevelError, "cannot record what became of a mail", slog.String("mail", c.ID),
			slog.Any("error", err))
	}
}

func (s *Sender) openAndSend(ctx context.Context, c claimedMail) error {
	content, err := s.Seal.Unseal(c.sealed, bindContent(c.ID))
	if err != nil {
		return &Failure{Reason: "its text cannot be decrypted with the key of keys.seal"}
	}
	if c.Subject, c.Text, err = decodeContent(content); err != nil {
		return &Failure{Reason: "its text is damaged"}
	}
	c.From = s.Address
	return s.Transport.Send(ctx, c.Mail)
}

// recordAttempt writes the outcome of an attempt, unless the lease has ended and another process
// has claimed the mail. Rules MAIL-3 and MAIL-4.
func (s *Sender) recordAttempt(ctx context.Context, c claimedMail, sendErr error) error {
	e := endedMail{c, statusSent, ""}
	pause, isRetried := time.Duration(0), false
	if sendErr != nil {
		failure := &Failure{Reason: "an error without a reason"}
		_ = errors.As(sendErr, &failure)
		e.status, e.reason = statusGivenUp, failure.Reason
		pause, isRetried = retryPause(c.attempt, failure.IsRefused)
	}
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if !isRetried {
			return endMail(ctx, tx, c.ID, c.attempt, e.status, e.reason)
		}
		_, err := tx.Exec(ctx, `
			UPDATE mails SET attempt_after = $3, last_error = $4
			WHERE mail_id = $1 AND status = 'QUEUED' AND attempts = $2`, c.ID, c.attempt, tx.Now.Add(pause), e.reason)
		if err != nil {
			return fmt.Errorf("postpone mail %s: %w", c.ID, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if isRetried {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "a mail could not be sent and is tried again", slog.String("mail", c.ID),
			slog.String("kind", c.Kind), slog.Int("attempt", c.attempt), slog.String("reason", e.reason),
			slog.Duration("after", pause))
		return nil
	}
	s.logEnd(ctx, e)
	return nil
}

// logEnd logs the end of a mail that was not sent. It names no address. Rule MAIL-3.
func (s *Sender) logEnd(ctx context.Context, e endedMail) {
	level, text := slog.LevelError, "a mail was given up and not sent"
	switch e.status {
	case statusSent:
		return
	case statusSuppressed:
		level, text = slog.LevelWarn, "a mail was not sent, because its address got too many of its kind"
	}
	s.Log.LogAttrs(ctx, level, text, slog.String("mail", e.mail.ID), slog.String("kind", e.mail.Kind),
		slog.String("reason", e.reason))
}

// Prune deletes the rows of mails that ended 30 days ago. It is a periodic job: it may run at any
// time and in several processes, and each batch is a transaction of its own.
func Prune(ctx context.Context, db *pg.DB) error {
	for {
		deleted := int64(0)
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			tag, err := tx.Exec(ctx, `
				DELETE FROM mails WHERE mail_id IN (
					SELECT mail_id FROM mails WHERE status <> 'QUEUED' AND ended_at < $1
					ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, tx.Now.Add(-endedKept), pruneMax)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old mails: %w", err)
		}
		if deleted < pruneMax {
			return nil
		}
	}
}
