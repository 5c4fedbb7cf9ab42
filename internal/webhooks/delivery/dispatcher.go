package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	claimMax  = 512                   // deliveries in one claim
	recordMax = 512                   // outcomes in one transaction
	idlePause = 50 * time.Millisecond // Dispatcher.IdlePause if that is 0
	// While there is much to do, claims and records are made at this interval instead of at every
	// answer: a transaction costs about the same for one delivery and for a hundred.
	busyPause  = 10 * time.Millisecond
	errorPause = time.Second
	// The pause between two looks for deliveries whose endpoint is gone.
	maintenanceInterval = time.Second
	cancelMax           = 1000 // of them in one transaction
	// Deliveries of a resource that are postponed behind one that failed.
	postponedMax  = 100
	stopTimeout   = 20 * time.Second // for posts in flight when the program stops
	recordTimeout = 10 * time.Second
)

// Dispatcher posts the deliveries that are due. Any number of processes may run one.
type Dispatcher struct {
	DB   *pg.DB
	Seal *seal.Keyset
	Key  webhook.Key // the installation's key, for the asymmetric signature
	// FormerKeys sign in addition to Key until every receiver knows Key.
	FormerKeys []webhook.Key
	// Development also allows http to this machine's loopback addresses.
	Development bool
	Log         *slog.Logger // nil means the default
	// IdlePause is the time between two looks for due deliveries without a call of Wake; 0 is 50 ms.
	IdlePause time.Duration
	// Observe receives the result of every post in one word: 2xx, 3xx, 4xx, 5xx, forbidden,
	// timeout, name, refused, reset, other, or ours if a local fault prevented the post. It may be
	// nil.
	Observe func(result string)
	// Mails tells an organization's people that an endpoint is disabled; nil in an installation that sends no
	// mail.
	Mails Mailer
	// EndpointURL begins the link to an endpoint's page, to which the id is appended; "" without pages.
	EndpointURL string

	// Tests set a resolver of their own and shorter limits. Zero values mean the system's resolver
	// and the limits of this package.
	resolver  *net.Resolver
	answerMax time.Duration
	stopMax   time.Duration

	openOnce  sync.Once
	wakeups   chan struct{}
	transport *outbound.Transport
	windows   windows
	secrets   sync.Map // secretKey -> opened
}

func (d *Dispatcher) ensureOpen() {
	d.openOnce.Do(func() {
		d.transport = outbound.New(outbound.Config{
			Development: d.Development, Resolver: d.resolver,
			HostConns: inFlightMax, // several endpoints may share a host
		})
		d.wakeups = make(chan struct{}, 1)
		if d.Log == nil {
			d.Log = slog.Default()
		}
	})
}

// Wake signals new work to Run. It only saves time: Run polls by itself.
func (d *Dispatcher) Wake() {
	d.ensureOpen()
	select {
	case d.wakeups <- struct{}{}:
	default:
	}
}

// claimedDelivery is a delivery that this process holds until its lease ends.
type claimedDelivery struct {
	id       int64
	orgID    string
	endpoint string
	target
	eventID        string
	body           []byte
	attempts       int        // number of attempts before this one
	scheduleBase   int        // number of those before the present run of the schedule
	firstAttemptAt *time.Time // time of the first one
	lease          [16]byte
	leasedUntil    time.Time
}

// outcome is the result of an attempt. An abandoned attempt was not made, or may or may not have
// arrived: its lease is given back.
type outcome struct {
	claimedDelivery
	sentAt     time.Time
	abandoned  bool
	ownFault   bool // a local fault prevented the attempt
	status     int  // of the answer; 0 when there was none
	err        string
	cause      string // of err, in one word
	response   string
	retryAfter time.Duration
	took       time.Duration
}

// Rule EVT-5.
func (o outcome) isDelivered() bool { return o.status >= 200 && o.status < 300 }

// isGone reports whether the receiver refuses all further events (410).
func (o outcome) isGone() bool { return o.status == 410 }

// Step claims the deliveries that are due, posts them, records the outcomes, and returns the number
// of posts. Run does the same without waiting for the slowest post of each round.
func (d *Dispatcher) Step(ctx context.Context) (int, error) {
	d.ensureOpen()
	for hasMore := true; hasMore; {
		var err error
		if hasMore, err = d.runMaintenance(ctx); err != nil {
			return 0, err
		}
	}
	batch, err := d.claimDue(ctx)
	if err != nil {
		return 0, err
	}
	outcomes := make([]outcome, len(batch))
	var posts sync.WaitGroup
	for i, c := range batch {
		posts.Go(func() {
			outcomes[i] = d.postDelivery(ctx, c)
			d.windows.finishPost(c.endpoint, outcomes[i])
		})
	}
	posts.Wait()
	for remaining := outcomes; len(remaining) > 0; {
		n := min(len(remaining), recordMax)
		if err := d.recordOutcomes(context.WithoutCancel(ctx), remaining[:n]); err != nil {
			return 0, err
		}
		remaining = remaining[n:]
	}
	return len(batch), nil
}

// Run posts deliveries until ctx ends. It then claims nothing more, waits a bounded time for posts
// in flight, records them, and gives back the leases of the others.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.ensureOpen()
	defer d.transport.CloseIdle()

	// Posts may outlive ctx for a short time.
	posting, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	outcomes := make(chan outcome, inFlightMax)
	recorded := make(chan struct{}, 1) // window slots are free, or a successor is due
	var posts, recorder sync.WaitGroup
	recorder.Go(func() { d.recordAll(context.WithoutCancel(ctx), outcomes, recorded) })

	// A goroutine that has posted takes the next delivery, so its grown stack is reused.
	todo := make(chan claimedDelivery)
	work := func(c claimedDelivery) {
		for ok := true; ok; c, ok = <-todo {
			o := d.postDelivery(posting, c)
			d.windows.finishPost(c.endpoint, o)
			outcomes <- o
		}
	}
	maintainedAt := time.Time{}
	for ctx.Err() == nil {
		began, wait := time.Now(), cmp.Or(d.IdlePause, idlePause)
		if began.Sub(maintainedAt) >= maintenanceInterval {
			hasMore, err := d.runMaintenance(ctx)
			if err != nil && ctx.Err() == nil {
				d.Log.LogAttrs(ctx, slog.LevelError, "cannot maintain the queues of endpoints",
					slog.Any("error", err))
			}
			if maintainedAt = time.Now(); hasMore {
				maintainedAt, wait = time.Time{}, 0 // alternates with due deliveries
			}
		}
		batch, err := d.claimDue(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.Log.LogAttrs(ctx, slog.LevelError, "cannot claim deliveries", slog.Any("error", err))
			wait = errorPause
		case len(batch) == claimMax:
			wait = 0
		}
		for _, c := range batch {
			select {
			case todo <- c:
			default:
				posts.Go(func() { work(c) })
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-recorded:
			pauseFor(ctx, busyPause-time.Since(began))
		case <-d.wakeups:
			pauseFor(ctx, busyPause-time.Since(began))
		case <-timer.C:
		}
		timer.Stop()
	}
	close(todo)

	patience := time.AfterFunc(cmp.Or(d.stopMax, stopTimeout), cut)
	posts.Wait()
	patience.Stop()
	close(outcomes)
	recorder.Wait()
	return nil
}

// pauseFor waits for d, or returns at once if d is not positive.
func pauseFor(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// recordAll records outcomes in batches: the first of a rush at once, those that arrive meanwhile
// together.
func (d *Dispatcher) recordAll(ctx context.Context, outcomes <-chan outcome, recorded chan<- struct{}) {
	began := time.Time{}
	for first := range outcomes {
		pauseFor(ctx, busyPause-time.Since(began))
		began = time.Now()
		batch := []outcome{first}
	more:
		for len(batch) < recordMax {
			select {
			case o, ok := <-outcomes:
				if !ok {
					break more
				}
				batch = append(batch, o)
			default:
				break more
			}
		}
		if err := d.recordOutcomes(ctx, batch); err != nil {
			// The leases run out, and the deliveries are posted again.
			d.Log.LogAttrs(ctx, slog.LevelError, "cannot record the outcomes of deliveries",
				slog.Int("deliveries", len(batch)), slog.Any("error", err))
		}
		select {
		case recorded <- struct{}{}:
		default:
		}
	}
}

// claimDue leases deliveries that are due. It leases at most one process's free window for each
// endpoint, in turns: the first of every endpoint before the second of any.
//
// It reads only endpoints with pending deliveries, which it finds by skipping along the index. A
// claim moves attempt_after to the end of the lease, so that later claims skip leased deliveries
// until then. Rule EVT-3.
func (d *Dispatcher) claimDue(ctx context.Context) ([]claimedDelivery, error) {
	endpoints, freeSlots, free := d.windows.freeSlots()
	if free <= 0 {
		return nil, nil
	}
	lease := newLease()
	var batch []claimedDelivery
	err := d.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := setPlanner(ctx, tx); err != nil {
			return err
		}
		leasedUntil := tx.Now.Add(leaseLength)
		rows, err := tx.Query(ctx, `
			WITH RECURSIVE `+busyEndpoints+`, open AS MATERIALIZED (
				SELECT e.endpoint_id, coalesce(r.room, $3) AS room
				FROM busy JOIN webhook_endpoints e USING (endpoint_id)
				LEFT JOIN unnest($1::text[], $2::int[]) AS r (endpoint_id, room) USING (endpoint_id)
				WHERE e.status = 'ENABLED' AND e.deleted_at IS NULL
			), due AS MATERIALIZED (
				SELECT d.delivery_id, d.turn
				FROM open o CROSS JOIN LATERAL (
					SELECT l.delivery_id, row_number() OVER (ORDER BY l.attempt_after, l.delivery_id) AS turn
					FROM (
						SELECT p.delivery_id, p.attempt_after FROM deliveries p
						WHERE p.endpoint_id = o.endpoint_id AND p.status = 'PENDING' AND p.attempt_after <= $4
						  AND (SELECT b.delivery_id FROM deliveries b
						       WHERE b.endpoint_id = p.endpoint_id AND b.resource_id = p.resource_id AND b.resource_seq < p.resource_seq
						         AND b.status = 'PENDING' AND (b.first_attempt_at IS NULL OR b.first_attempt_at > $5)
						       ORDER BY b.endpoint_id, b.resource_id, b.resource_seq LIMIT 1) IS NULL
						ORDER BY p.attempt_after, p.delivery_id LIMIT o.room
						FOR UPDATE OF p SKIP LOCKED
					) l
				) d
				ORDER BY d.turn LIMIT $6
			)
			UPDATE deliveries d
			SET lease = $7, leased_until = $8, attempt_after = $8
			FROM due, events v
			WHERE d.delivery_id = due.delivery_id AND v.event_id = d.event_id
			RETURNING d.delivery_id, d.org_id, d.endpoint_id, d.event_id, v.body, d.attempts, d.schedule_base, d.first_attempt_at`,
			endpoints, freeSlots, windowSizeStart, tx.Now, tx.Now.Add(-orderWaitMax), min(free, claimMax), lease,
			leasedUntil)
		if err != nil {
			return fmt.Errorf("claim deliveries: %w", err)
		}
		batch, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (claimedDelivery, error) {
			c := claimedDelivery{lease: lease, leasedUntil: leasedUntil}
			err := row.Scan(&c.id, &c.orgID, &c.endpoint, &c.eventID, &c.body, &c.attempts, &c.scheduleBase,
				&c.firstAttemptAt)
			return c, err
		})
		if err != nil {
			return fmt.Errorf("claim deliveries: %w", err)
		}
		if len(batch) == 0 {
			return nil
		}
		var names []string
		for _, c := range batch {
			if !slices.Contains(names, c.endpoint) {
				names = append(names, c.endpoint)
			}
		}
		targetsByID, err := readTargets(ctx, tx, names)
		if err != nil {
			return err
		}
		for i := range batch {
			batch[i].target = targetsByID[batch[i].endpoint]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(batch) > 0 {
		failpoint.Hit("K02")
	}
	for _, c := range batch {
		d.windows.addInFlight(c.endpoint)
	}
	return batch, nil
}

// setPlanner fixes the planner's settings for the rest of the transaction. A plan cached while the
// tables were small would be used, until the next ANALYZE, while they grow, and would read them
// completely for each claim. Every statement here is written so that one plan over indexes is right
// at any size, and planning costs more than running it.
func setPlanner(ctx context.Context, tx pg.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
		       set_config('enable_bitmapscan', 'off', true), set_config('enable_mergejoin', 'off', true),
		       set_config('enable_hashjoin', 'off', true)`)
	if err != nil {
		return fmt.Errorf("set the planner: %w", err)
	}
	return nil
}

func newLease() [16]byte {
	var lease [16]byte
	_, _ = rand.Read(lease[:])
	return lease
}

// recordOutcomes writes outcomes and their attempts, each only while the lease of its claim is
// current. An attempt that outlived its lease is ignored, because another process has the delivery.
func (d *Dispatcher) recordOutcomes(ctx context.Context, batch []outcome) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	failpoint.Hit("K04")
	for {
		err := d.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			if err := d.writeOutcomes(ctx, tx, batch); err != nil {
				return err
			}
			failpoint.HitBeforeCommit("K05")
			return nil
		})
		if err == nil {
			failpoint.Hit("K05")
			return nil
		}
		// Writing it twice changes nothing: the second time no lease matches.
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// writeOutcomes is the transaction of recordOutcomes.
//
// It postpones deliveries that wait behind a failed one until they can be due. Otherwise every
// claim would read them, and an endpoint with many of them would slow the others down. That only
// saves time: the claim alone keeps the order.
func (d *Dispatcher) writeOutcomes(ctx context.Context, tx pg.Tx, batch []outcome) error {
	if err := setPlanner(ctx, tx); err != nil {
		return err
	}
	slices.SortFunc(batch, func(a, b outcome) int { return cmp.Compare(a.id, b.id) }) // the order of the locks
	n := len(batch)
	ids, leases := make([]int64, n), make([][16]byte, n)
	statuses, attempts, attemptAfter := make([]string, n), make([]int32, n), make([]time.Time, n)
	ended, made, sentAt := make([]*time.Time, n), make([]bool, n), make([]time.Time, n)
	codes, errs, responses, took := make([]*int32, n), make([]*string, n), make([]*string, n), make([]int32, n)
	orgs, urls, free := make([]string, n), make([]string, n), make([]time.Time, n)
	var goneEndpoints, goneURLs []string
	for i, o := range batch {
		ids[i], leases[i], orgs[i], urls[i], sentAt[i] = o.id, o.lease, o.orgID, o.url, o.sentAt
		statuses[i], attempts[i], attemptAfter[i] = "PENDING", int32(o.attempts), tx.Now
		if o.abandoned {
			continue
		}
		made[i] = true
		attempts[i]++
		took[i] = int32(o.took.Milliseconds())
		if o.status != 0 {
			code := int32(o.status)
			codes[i] = &code
		}
		if o.err != "" {
			errs[i] = &o.err
		}
		if o.response != "" {
			responses[i] = &o.response
		}
		first := o.sentAt
		if o.firstAttemptAt != nil {
			first = *o.firstAttemptAt
		}
		elapsed := o.sentAt.Sub(first)
		free[i] = first.Add(orderWaitMax)
		wait, canRetry := retryDelay(int(attempts[i])-o.scheduleBase, elapsed, o.retryAfter)
		switch {
		case o.isDelivered():
			statuses[i], ended[i] = "DELIVERED", &tx.Now
		case o.isGone():
			statuses[i], ended[i] = "CANCELLED", &tx.Now
			goneEndpoints, goneURLs = append(goneEndpoints, o.endpoint), append(goneURLs, o.url)
		case !canRetry:
			statuses[i], ended[i] = "FAILED", &tx.Now
			d.Log.LogAttrs(ctx, slog.LevelWarn, "a delivery has failed after its whole schedule",
				slog.String("organization", o.orgID), slog.String("endpoint", o.endpoint),
				slog.String("event", o.eventID))
		default:
			attemptAfter[i] = o.sentAt.Add(wait)
		}
	}
	health := summarizeHealth(batch)
	if err := lockEndpoints(ctx, tx, health, goneEndpoints); err != nil {
		return err
	}
	entries, err := d.disableGone(ctx, tx, goneEndpoints, goneURLs)
	if err != nil {
		return err
	}
	failing, err := d.updateHealth(ctx, tx, health)
	if err != nil {
		return err
	}
	entries = append(entries, failing...)
	_, err = tx.Exec(ctx, `
		WITH outcome AS MATERIALIZED (
			SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::int[], $5::timestamptz[], $6::timestamptz[], $7::boolean[],
			                     $8::timestamptz[], $9::int[], $10::text[], $11::text[], $12::int[], $13::text[], $14::timestamptz[], $15::text[])
				AS o (delivery_id, lease, status, attempts, attempt_after, ended_at, made,
				      at, code, error, response, took, org_id, free_at, url)
		), done AS (
			UPDATE deliveries d
			SET status = o.status, attempts = o.attempts, attempt_after = o.attempt_after, ended_at = o.ended_at,
			    first_attempt_at = CASE WHEN o.made THEN coalesce(d.first_attempt_at, o.at) ELSE d.first_attempt_at END,
			    lease = NULL, leased_until = NULL
			FROM outcome o
			WHERE d.delivery_id = o.delivery_id AND d.lease = o.lease
			RETURNING o.*, d.endpoint_id, d.resource_id, d.resource_seq
		), waiting AS (
			UPDATE deliveries f
			SET attempt_after = w.until
			FROM done CROSS JOIN LATERAL (
				SELECT s.delivery_id, least(done.attempt_after, done.free_at) AS until FROM deliveries s
				WHERE s.endpoint_id = done.endpoint_id AND s.resource_id = done.resource_id AND s.resource_seq > done.resource_seq
				  AND s.status = 'PENDING' AND s.lease IS NULL AND s.attempts = 0
				  AND s.attempt_after < least(done.attempt_after, done.free_at)
				ORDER BY s.endpoint_id, s.resource_id, s.resource_seq LIMIT $16
			) w
			WHERE done.status = 'PENDING' AND done.made AND f.delivery_id = w.delivery_id
		)
		INSERT INTO delivery_attempts (delivery_id, attempt, org_id, endpoint_id, url, at, status_code, error, response, duration_ms)
		SELECT delivery_id, attempts, org_id, endpoint_id, url, at, code, error, response, took FROM done WHERE made`,
		ids, leases, statuses, attempts, attemptAfter, ended, made, sentAt, codes, errs, responses, took, orgs, free,
		urls, postponedMax)
	if err != nil {
		return fmt.Errorf("record %d deliveries: %w", n, err)
	}
	if len(entries) == 0 {
		return nil
	}
	return audit.Record(ctx, tx, entries...)
}

// busyEndpoints skips along the index from one endpoint with pending deliveries to the next.
const busyEndpoints = `busy AS (
		(SELECT endpoint_id FROM deliveries WHERE status = 'PENDING' ORDER BY endpoint_id LIMIT 1)
		UNION ALL
		SELECT (SELECT n.endpoint_id FROM deliveries n
		        WHERE n.status = 'PENDING' AND n.endpoint_id > b.endpoint_id ORDER BY n.endpoint_id LIMIT 1)
		FROM busy b WHERE b.endpoint_id IS NOT NULL
	)`
