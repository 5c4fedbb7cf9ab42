// Package verify checks the books: it reads everything that the service has recorded and reports
// where the parts contradict each other or the chain.
//
// RunChecks reads one snapshot of the database under the read-only role. CompareWithChains compares
// the expected holdings of our addresses with their balances in a final block. CheckAndFreeze does
// both on a schedule and stops all outgoing payments when something does not match.
//
// It never repairs anything and never lifts a freeze. It writes only that freeze, and the
// quarantine of a mint whose token returns no balance. A crash leaves nothing; the next run checks
// again.
package verify

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// breachesShownMax is how many breaches of one check a report lists; all are counted.
const breachesShownMax = 20

// Check is one promise, and how to check it.
type Check struct {
	ID      string // stable, named after the invariant
	Promise string // what holds if nothing is found
	// breachSQL returns a row (organization, subject, detail) for every breach.
	breachSQL string
	// openSQL returns such a row for everything that is no breach and waits for a person; the
	// report counts them.
	openSQL string
	// inspect makes checks that SQL cannot express.
	inspect func(ctx context.Context, tx pg.Tx) ([]Breach, error)
	// guardKind is the kind of guards that are compared with the result of the migrations.
	guardKind string
}

// Breach is a state that must never exist.
type Breach struct {
	Check   string // its id
	OrgID   string // "" if it concerns no single one
	Subject string // the row or account
	Detail  string // the actual and the expected state
}

// Outcome is the result of one check.
type Outcome struct {
	ID, Promise string
	Breaches    int
	Remarks     int
	NotChecked  bool   // there was no answer, so it is not known whether the promise holds
	Note        string // what was left out, or why nothing could be compared
	Duration    time.Duration
}

// Report is the result of a run.
type Report struct {
	CheckedAt time.Time
	Outcomes  []Outcome
	Breaches  []Breach // at most breachesShownMax of each check
	// Remarks are states that a person should know and that are no breach, because anyone can cause them from outside.
	// No payment stops for them.
	Remarks []Breach

	doubtful     map[int]string // mints whose token returns no balances, and why
	unknownSteps []int64        // steps of the schema that this program does not know
}

// IsIntact reports whether no breach was found.
func (r Report) IsIntact() bool { return len(r.Breaches) == 0 }

func (r *Report) addOutcome(c Check, found []Breach, count int, note string, took time.Duration) {
	for i := range found {
		found[i].Check = c.ID
	}
	r.Outcomes = append(r.Outcomes, Outcome{ID: c.ID, Promise: c.Promise, Breaches: count, Note: note, Duration: took})
	r.Breaches = append(r.Breaches, found...)
}

// Option changes the list of checks.
type Option func(*[]Check)

// WithGrants adds the checks that need the service's own key: they compare every flagged deposit, every
// deposit swap and every swap of an organization with its MAC. With nil it changes nothing.
func WithGrants(k *signer.GrantKey) Option {
	return func(checks *[]Check) {
		if k != nil {
			*checks = append(*checks, newFlagCheck(k), newDepositSwapCheck(k), newApprovedSwapCheck(k))
		}
	}
}

// WithoutSchema leaves out the checks of the schema, which take as long as all others together. It
// is for a trial that checks after every step and never changes the schema.
func WithoutSchema(checks *[]Check) { *checks = slices.DeleteFunc(*checks, isSchemaCheck) }

func isSchemaCheck(c Check) bool { return c.guardKind != "" }

// RunChecks makes every check on one snapshot. An error means that it could not check, and does not
// say what it would have found.
func RunChecks(ctx context.Context, db *pg.DB, options ...Option) (Report, error) {
	var r Report
	checks := AllChecks()
	for _, apply := range options {
		apply(&checks)
	}
	runOnce := func() error {
		return db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = examineSnapshot(ctx, tx, checks)
			return err
		})
	}
	err := runOnce()
	// PostgreSQL prints the present definition, independent of the snapshot. A migration that
	// commits meanwhile therefore looks like tampering. The second run shows what it is.
	if err == nil && slices.ContainsFunc(checks, func(c Check) bool {
		return isSchemaCheck(c) && slices.ContainsFunc(r.Breaches, func(b Breach) bool { return b.Check == c.ID })
	}) {
		err = runOnce()
	}
	return r, err
}

func examineSnapshot(ctx context.Context, tx pg.Tx, checks []Check) (Report, error) {
	r := Report{CheckedAt: tx.Now}
	var s schema
	if slices.ContainsFunc(checks, isSchemaCheck) {
		var err error
		if s, err = readSchema(ctx, tx); err != nil {
			return Report{}, err
		}
		r.unknownSteps = s.unknownSteps
	}
	for _, c := range checks {
		began := time.Now()
		var found []Breach
		var count int
		var err error
		note := ""
		switch {
		case isSchemaCheck(c):
			found = s.compareGuards(c.guardKind)
			if len(s.unknownSteps) > 0 {
				note = fmt.Sprintf("not compared, because the schema has steps of a newer program: %v", s.unknownSteps)
			}
		case c.inspect != nil:
			found, err = c.inspect(ctx, tx)
		default:
			found, count, err = queryBreaches(ctx, tx, c.breachSQL)
		}
		if err != nil {
			return Report{}, fmt.Errorf("check %s: %w", c.ID, err)
		}
		count = max(count, len(found))
		found = found[:min(len(found), breachesShownMax)]
		if c.openSQL != "" {
			items, open, err := queryBreaches(ctx, tx, c.openSQL)
			if err != nil {
				return Report{}, fmt.Errorf("check %s: %w", c.ID, err)
			}
			if open > 0 {
				note = fmt.Sprintf("%d open, such as %s %s", open, items[0].Subject, items[0].Detail)
			}
		}
		r.addOutcome(c, found, count, note, time.Since(began))
	}
	return r, nil
}

func queryBreaches(ctx context.Context, tx pg.Tx, sql string) (found []Breach, count int, err error) {
	rows, err := tx.Query(ctx, `
		SELECT coalesce(org_id, ''), coalesce(subject, ''), coalesce(detail, ''), count(*) OVER ()
		FROM (`+sql+`) AS breach (org_id, subject, detail)
		ORDER BY 1, 2, 3 LIMIT $1`, breachesShownMax)
	if err != nil {
		return nil, 0, err
	}
	found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Breach, err error) {
		err = row.Scan(&b.OrgID, &b.Subject, &b.Detail, &count)
		return b, err
	})
	return found, count, err
}

// WriteTo writes the report as text for a person.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	var n int64
	var err error
	print := func(format string, args ...any) {
		if err == nil {
			var m int
			m, err = fmt.Fprintf(w, format, args...)
			n += int64(m)
		}
	}
	print("checked as of %s\n\n", r.CheckedAt.UTC().Format(time.RFC3339))
	for _, o := range r.Outcomes {
		verdict := "ok"
		switch {
		case o.Breaches > 0:
			verdict = "BREACH"
		case o.NotChecked:
			verdict = "UNKNOWN"
		case o.Remarks > 0:
			verdict = "REMARK"
		case o.Note != "":
			verdict = "ok*"
		}
		print("%-7s %-16s %s", verdict, o.ID, o.Promise)
		if o.Note != "" {
			print(" (%s)", o.Note)
		}
		print("\n")
		for _, b := range slices.Concat(r.Breaches, r.Remarks) {
			if b.Check != o.ID {
				continue
			}
			print("          %s", b.Subject)
			if b.OrgID != "" {
				print(" [%s]", b.OrgID)
			}
			print(": %s\n", b.Detail)
		}
		if hidden := o.Breaches - breachesShownMax; hidden > 0 {
			print("          and %d more\n", hidden)
		}
	}
	unknown := 0
	for _, o := range r.Outcomes {
		if o.NotChecked {
			unknown++
		}
	}
	switch {
	case r.IsIntact() && unknown > 0:
		print("\n%d of %d checks hold, and %d could not be made\n", len(r.Outcomes)-unknown, len(r.Outcomes), unknown)
	case r.IsIntact():
		print("\nall %d checks hold\n", len(r.Outcomes))
	default:
		broken := 0
		for _, o := range r.Outcomes {
			if o.Breaches > 0 {
				broken++
			}
		}
		print("\n%d of %d checks fail: stop, and find out why before any payment is sent\n", broken,
			len(r.Outcomes))
	}
	return n, err
}

// AllChecks lists the checks of RunChecks, for documentation and tests.
func AllChecks() []Check { return append([]Check(nil), checks...) }
