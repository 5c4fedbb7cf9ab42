package deposit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// These are the defaults of RescreenConfig.
const (
	DefaultRescreenWindow   = 30 * 24 * time.Hour // after its deposit, a sender is screened for so long
	DefaultRescreenInterval = 24 * time.Hour
	DefaultRescreenPause    = 2 * time.Second // between two senders, for the whole installation
)

// FreshScreening is what screening says of a flagged deposit's sender since it was flagged.
type FreshScreening struct {
	Severity   string
	Score      *int
	Entity     *string
	Categories []string
	Provider   string
	Reference  *string
	ScreenedAt time.Time
}

// storedFreshScreening is a FreshScreening as freshVerdictJSON selects it.
type storedFreshScreening struct {
	Severity   string    `json:"severity"`
	Score      *int      `json:"score"`
	Entity     *string   `json:"entity"`
	Categories []string  `json:"categories"`
	Provider   string    `json:"provider"`
	Reference  *string   `json:"reference"`
	ScreenedAt time.Time `json:"screenedAt"`
}

// freshVerdictJSON selects a row of sender_verdicts as a storedFreshScreening.
const freshVerdictJSON = `jsonb_build_object('severity', v.severity, 'score', v.score, 'entity', v.entity, 'categories', v.categories,
	'provider', v.provider, 'reference', v.reference, 'screenedAt', v.given_at)`

const (
	enrollsPerInterval = 4                // searches for senders in each RescreenConfig.Interval
	rescreenRetryAfter = 30 * time.Minute // after no provider gave an answer
	rescreenIdlePause  = time.Minute      // between two searches when no sender is due
	leaseDuration      = 3 * time.Minute  // more than the longest question
	enrollStep         = 24 * time.Hour   // the deposits of so much time are read by one statement
)

// RescreenConfig sets how senders are screened again. Zero values are the defaults.
type RescreenConfig struct {
	Window   time.Duration // after the last deposit that screening let pass
	Interval time.Duration
	Pause    time.Duration // between two senders
}

// Rescreener asks the providers again about the senders of recent deposits that screening let pass,
// and of flagged deposits. It records the verdicts and alerts the operator if a sender is above the
// threshold now. It changes no deposit, and no decision reads what it records.
//
// Any number of processes may run one: the holder of the lease asks. A crash leaves a lease that
// expires and a sender that is asked about again. It is safe for concurrent use.
// Rules RISK-11 and RISK-12.
type Rescreener struct {
	db     *pg.DB
	policy risk.Policy
	conf   RescreenConfig
	log    *slog.Logger
	holder string
}

// NewRescreener returns a Rescreener. It asks the providers of the policy and never uses a cached
// answer.
func NewRescreener(db *pg.DB, policy risk.Policy, conf RescreenConfig, log *slog.Logger) *Rescreener {
	for _, setting := range []struct {
		of    *time.Duration
		usual time.Duration
	}{
		{&conf.Window, DefaultRescreenWindow},
		{&conf.Interval, DefaultRescreenInterval},
		{&conf.Pause, DefaultRescreenPause},
	} {
		if *setting.of <= 0 {
			*setting.of = setting.usual
		}
	}
	return &Rescreener{db: db, policy: policy.WithoutCache(), conf: conf, log: log, holder: id.New("rsc", db.Clock()())}
}

// Run screens one sender after the other, at the configured pace, until ctx ends. It returns nil.
func (r *Rescreener) Run(ctx context.Context) error {
	if !r.policy.Configured() {
		<-ctx.Done()
		return nil
	}
	defer r.releaseLease(context.WithoutCancel(ctx))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		asked, err := r.RescreenNext(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("deposit: screening senders again stopped early", "error", err)
		}
		pause := rescreenIdlePause
		if asked && err == nil {
			pause = r.conf.Pause
		}
		timer.Reset(pause)
	}
}

// watchedSender is a sender that is screened again.
type watchedSender struct {
	orgID                           string
	chain                           chain.Name
	address                         chain.Address
	credited, listsOnly, isEnrolled bool // isEnrolled: it has a row of sender_watch
	flagged                         bool
	nextAt                          time.Time
	threshold                       risk.Severity // "" for none
}

// RescreenNext screens one sender, if one is due and this process holds the lease.
func (r *Rescreener) RescreenNext(ctx context.Context) (asked bool, err error) {
	isHeld, enrolled, err := r.acquireLease(ctx)
	if err != nil || !isHeld {
		return false, err
	}
	now := r.db.Clock()()
	if enrolled == nil || now.Sub(*enrolled) >= r.conf.Interval/enrollsPerInterval {
		if err := r.enrollSenders(ctx, now); err != nil {
			return false, err
		}
	}
	s, ok, err := r.loadDueSender(ctx)
	if err != nil || !ok {
		return false, err
	}
	answer := r.askProviders(ctx, s)
	if ctx.Err() != nil {
		return false, nil // the service stops, and no provider has failed
	}
	_, err = r.recordAnswer(ctx, s, answer)
	return true, err
}

// acquireLease takes or renews the lease. isHeld is false while another process has it.
func (r *Rescreener) acquireLease(ctx context.Context) (isHeld bool, enrolled *time.Time, err error) {
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isHeld, enrolled = false, nil
		err := tx.QueryRow(ctx, `
			UPDATE sender_watch_lease SET holder = $1, until = $2 WHERE holder = $1 OR until < $3
			RETURNING enrolled_at`,
			r.holder, tx.Now.Add(leaseDuration+r.conf.Pause), tx.Now).Scan(&enrolled)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		isHeld = err == nil
		return err
	})
	if err != nil {
		return false, nil, fmt.Errorf("claim the turn to screen senders again: %w", err)
	}
	return isHeld, enrolled, nil
}

// releaseLease gives the lease back.
func (r *Rescreener) releaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE sender_watch_lease SET until = '-infinity' WHERE holder = $1`, r.holder)
		return err
	})
	if err != nil {
		r.log.Warn("deposit: cannot release the turn to screen senders again; it expires", "error", err)
	}
}

// enrollSenders enrolls the senders that are to be screened, a day of deposits at a time, and
// removes those that are not to be screened any more. A round that ends early starts again from the
// beginning.
func (r *Rescreener) enrollSenders(ctx context.Context, round time.Time) error {
	var orgs []org.Organization
	err := r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		orgs, err = org.ListAll(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for senders: %w", err)
	}
	for _, o := range orgs {
		for from := round.Add(-r.conf.Window); from.Before(round); from = from.Add(enrollStep) {
			err := r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx,
					enrollSQL(`d.created_at >= $4 AND d.created_at < $5 AND d.status = 'CREDITED' AND NOT d.is_flagged
					AND (d.screening ->> 'status' = 'PASSED' OR d.screening ->> 'status' = 'SKIPPED' AND d.screening ->> 'provider' IS NOT NULL)`),
					o.ID, round, r.conf.Interval, from, from.Add(enrollStep))
				return err
			})
			if err != nil {
				return fmt.Errorf("look for senders to %s: %w", o.ID, err)
			}
			// A round may take long, so the lease is renewed.
			if _, _, err := r.acquireLease(ctx); err != nil {
				return err
			}
		}
		err := r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(ctx, enrollSQL(`d.status = 'FLAGGED'`), o.ID, round, r.conf.Interval); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DELETE FROM sender_watch WHERE org_id = $1 AND enrolled_at < $2`, o.ID, round)
			return err
		})
		if err != nil {
			return fmt.Errorf("look for senders of flagged deposits of %s: %w", o.ID, err)
		}
	}
	return r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE sender_watch_lease SET enrolled_at = $2 WHERE holder = $1`, r.holder, round)
		return err
	})
}

// enrollSQL returns the statement that enrolls the senders of the deposits of a condition. A new
// sender is due once its last answer is RescreenConfig.Interval old. The sender of an arrival for a swap or a
// deposit swap is a solver or a bridge, and is left out.
func enrollSQL(condition string) string {
	return `
		INSERT INTO sender_watch AS w (org_id, chain, address, credited, lists_only, flagged, enrolled_at, next_at)
		SELECT d.org_id, d.chain, s.address, bool_or(d.status = 'CREDITED'), bool_and(d.status = 'CREDITED' AND d.screening ->> 'status' = 'SKIPPED'),
			bool_or(d.status = 'FLAGGED'), $2, greatest($2, max(coalesce(d.flagged_at, d.credited_at, d.created_at)) + $3::interval)
		FROM deposits d CROSS JOIN LATERAL unnest(` + sendersExpr + `) AS s (address)
		WHERE d.org_id = $1 AND d.purpose NOT IN ('TREASURY', 'CHANGE') AND d.swap_id IS NULL AND
			d.deposit_swap_id IS NULL AND s.address <> '' AND ` +
		condition + `
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
		ON CONFLICT (org_id, chain, address) DO UPDATE SET
			credited = excluded.credited OR w.enrolled_at = excluded.enrolled_at AND w.credited,
			lists_only = excluded.lists_only AND (w.enrolled_at <> excluded.enrolled_at OR w.lists_only),
			flagged = excluded.flagged OR w.enrolled_at = excluded.enrolled_at AND w.flagged,
			enrolled_at = excluded.enrolled_at`
}

// loadDueSender returns the sender that has been due for the longest time.
func (r *Rescreener) loadDueSender(ctx context.Context) (s watchedSender, ok bool, err error) {
	err = r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT org_id, chain, address, credited, lists_only, flagged, next_at FROM sender_watch WHERE next_at <= $1
			ORDER BY next_at, org_id, chain, address LIMIT 1`, tx.Now).
			Scan(&s.orgID, &s.chain, &s.address, &s.credited, &s.listsOnly, &s.flagged, &s.nextAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		ok, s.isEnrolled = true, true
		return s.loadThreshold(ctx, tx)
	})
	if err != nil {
		return s, false, fmt.Errorf("look for a sender to screen again: %w", err)
	}
	return s, ok, nil
}

// loadThreshold reads the severity threshold of the sender's organization.
func (s *watchedSender) loadThreshold(ctx context.Context, tx pg.Tx) error {
	settings, err := org.SettingsOf(ctx, tx, s.orgID)
	s.threshold = risk.Severity(settings.ScreeningSeverityThreshold)
	return err
}

// askProviders asks the providers that screened the sender's deposits, outside any transaction.
func (r *Rescreener) askProviders(ctx context.Context, s watchedSender) *risk.Answer {
	subject := risk.Subject{Chain: s.chain, Address: s.address, Direction: risk.Incoming}
	if s.listsOnly {
		return r.policy.ScreenLists(ctx, subject)
	}
	return r.policy.ScreenProviders(ctx, subject)
}

// recordAnswer records an answer, unless another process was first. isAnswered reports whether the
// providers said enough.
func (r *Rescreener) recordAnswer(ctx context.Context, s watchedSender, a *risk.Answer) (isAnswered bool, err error) {
	exceeds := s.threshold != "" && a.Exceeds(s.threshold, r.policy.UnknownAs)
	// Known findings count against an address even if other providers did not answer.
	isAnswered = a.IsComplete() || exceeds
	err = r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if s.isEnrolled {
			nextAt := tx.Now.Add(r.conf.Interval)
			if !isAnswered {
				nextAt = tx.Now.Add(min(rescreenRetryAfter, r.conf.Interval))
			}
			tag, err := tx.Exec(ctx,
				`UPDATE sender_watch SET next_at = $5 WHERE org_id = $1 AND chain = $2 AND address = $3 AND next_at = $4`,
				s.orgID, s.chain, s.address, s.nextAt, nextAt)
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
		}
		if !isAnswered {
			return nil
		}
		return r.writeVerdict(ctx, tx, s, a, exceeds)
	})
	if err != nil {
		return false, fmt.Errorf("write the latest screening of %s on %s: %w", s.address, s.chain, err)
	}
	if !isAnswered {
		r.log.Warn(
			"deposit: screening did not answer about a sender; a later cycle asks again", "organization", s.orgID,
			"chain", string(s.chain), "why", a.Unavailable,
		)
	}
	return isAnswered, nil
}

// writeVerdict records a verdict: every one about the sender of a flagged deposit, and for other
// senders only a changed one. It alerts the operator on such a change if a sender with credited
// deposits is above the threshold.
func (r *Rescreener) writeVerdict(ctx context.Context, tx pg.Tx, s watchedSender, a *risk.Answer, exceeds bool) error {
	var latest struct {
		above, credited bool
		severity        risk.Severity
	}
	err := tx.QueryRow(ctx, `
		SELECT above, credited, severity FROM sender_verdicts WHERE org_id = $1 AND chain = $2 AND address = $3 ORDER BY verdict_id DESC LIMIT 1`,
		s.orgID, s.chain, s.address).Scan(&latest.above, &latest.credited, &latest.severity)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	v := a.Verdict
	isNews := exceeds != latest.above || exceeds && (latest.severity != v.Severity || latest.credited != s.credited)
	if !s.flagged && !isNews {
		return nil
	}
	alert := exceeds && s.credited && isNews
	answerJSON, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO sender_verdicts (org_id, chain, address, at, severity, score, provider, entity, categories, reference, given_at, threshold, above, credited, alert, record)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), $9, nullif($10, ''), $11, nullif($12, ''), $13, $14, $15, $16)`,
		s.orgID, s.chain, s.address, tx.Now, v.Severity, v.Score, v.Provider, v.Entity,
		append([]string{}, v.Categories...), v.Reference, v.GivenAt, string(s.threshold),
		exceeds, s.credited, alert, string(answerJSON))
	if err != nil || !alert {
		return err
	}
	r.log.Error("deposit: a sender of credited deposits is above the threshold now; nothing was changed",
		"organization", s.orgID,
		"chain", string(s.chain), "address", string(s.address), "severity", string(v.Severity),
		"threshold", string(s.threshold))
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.orgID, Actor: systemActor, Action: "sender.above_threshold", ResourceKind: "SENDER",
		ResourceID: string(s.chain) + "/" + string(s.address),
		Detail: map[string]string{
			"severity": string(v.Severity), "threshold": string(s.threshold), "provider": v.Provider,
		},
	})
}

// RescreenDeposit screens the senders of a deposit that waits for a decision and returns the
// deposit with the new verdicts. It decides nothing and delays no one. Errors: faults NOT_FOUND,
// DEPOSIT_NOT_FLAGGED, and UNAVAILABLE if there is no answer about one of the senders; the verdicts
// about the others are recorded.
func (r *Rescreener) RescreenDeposit(
	ctx context.Context, depositID string, actor Actor,
) (object Deposit, err error) {
	d, err := (&Service{DB: r.db}).findFlagged(ctx, depositID, actor, "")
	if err != nil {
		return object, err
	}
	if d.status != Flagged {
		return object, newConflict(
			d.status, fault.DepositNotFlagged, fault.NothingWritten,
			"This deposit is %s and waits for no decision, so its sender is not screened again.",
			d.status,
		)
	}
	senders := d.senders
	if len(senders) == 0 {
		senders = []chain.Address{d.from}
	}
	var silentErr error
	for _, a := range senders {
		if err := r.rescreenSender(ctx, d, a); err != nil {
			silentErr = err
		}
	}
	if silentErr != nil {
		return object, silentErr
	}
	err = r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		objects, err := loadByID(ctx, tx, []storedDeposit{d})
		object = objects[d.id]
		return err
	})
	return object, err
}

// rescreenSender screens one sender of a flagged deposit and records the verdict.
func (r *Rescreener) rescreenSender(ctx context.Context, d storedDeposit, sender chain.Address) error {
	s := watchedSender{orgID: d.orgID, chain: d.chain, address: sender, flagged: true}
	err := r.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx, `SELECT credited FROM sender_watch WHERE org_id = $1 AND chain = $2 AND address = $3`, s.orgID,
			s.chain, s.address,
		).Scan(&s.credited)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return s.loadThreshold(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("read the first screening of the sender of deposit %s: %w", d.id, err)
	}
	a := r.askProviders(ctx, s)
	isAnswered, err := r.recordAnswer(ctx, s, a)
	if err != nil {
		return err
	}
	if !isAnswered {
		return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Undecided,
			"Screening does not answer about the sender now: %s.", risk.SanitizeText(a.Unavailable)).
			WithAdvice("It can be decided without the answer; or ask again later.")
	}
	return nil
}

// SenderAlert is a sender that was found above the threshold after its deposits were credited.
type SenderAlert struct {
	OrgID, Chain, Address string
	FoundAt               time.Time
	Severity, Threshold   string
	Provider              string
	Deposits              int // credited deposits of this sender
}

// senderAlertsMax bounds the result of ListSenderAlerts.
const senderAlertsMax = 200

// ListSenderAlerts returns the alerts after foundAfter, the latest first. It needs a system
// transaction.
func ListSenderAlerts(ctx context.Context, tx pg.Tx, foundAfter time.Time) ([]SenderAlert, error) {
	rows, err := tx.Query(ctx, `
		WITH found AS (
			SELECT org_id, chain, address, at, verdict_id, severity, threshold, provider FROM sender_verdicts
			WHERE alert AND at > $1 ORDER BY at DESC, verdict_id DESC LIMIT $2
		), sent AS (
			SELECT d.org_id, d.chain, f.address, count(*) AS n
			FROM (SELECT DISTINCT org_id, chain, address FROM found) f
			JOIN deposits d ON d.org_id = f.org_id AND d.chain = f.chain AND (d.from_address = f.address OR d.senders @> ARRAY[f.address]) AND d.status = 'CREDITED'
			GROUP BY 1, 2, 3
		)
		SELECT v.org_id, v.chain, v.address, v.at, v.severity, v.threshold, v.provider, coalesce(s.n, 0)
		FROM found v LEFT JOIN sent s ON s.org_id = v.org_id AND s.chain = v.chain AND s.address = v.address
		ORDER BY v.at DESC, v.verdict_id DESC`, foundAfter, senderAlertsMax)
	if err != nil {
		return nil, fmt.Errorf("list the senders above the threshold: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SenderAlert])
	if err != nil {
		return nil, fmt.Errorf("list the senders above the threshold: %w", err)
	}
	return found, nil
}
