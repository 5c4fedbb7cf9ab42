package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// Limit of all database queries of a scrape.
	readTimeout = 4 * time.Second
	// A scrape within it gets the results of the last one.
	readInterval = 5 * time.Second
)

// Metrics holds the metrics of /metrics. Values with an age or a state are read from the database
// on a scrape, so that every process reports the same and a new process knows them too. What a
// process does itself is counted here.
type Metrics struct {
	db       *pg.DB
	log      *slog.Logger
	registry *prometheus.Registry

	requests *prometheus.HistogramVec
	scans    *prometheus.CounterVec
	calls    *prometheus.CounterVec
	refusals *prometheus.CounterVec
	attempts *prometheus.CounterVec
	reports  prometheus.Counter
	tampered prometheus.Counter

	mu      sync.Mutex
	readAt  time.Time
	cached  []prometheus.Metric
	readErr error
}

// NewMetrics creates the metrics of a process; roles are the roles that it runs.
func NewMetrics(db *pg.DB, roles []string, log *slog.Logger) *Metrics {
	m := &Metrics{
		db: db, log: log, registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coffer_http_request_seconds",
			Help:    "Requests that were answered, by the route's pattern and the status.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60},
		}, []string{"method", "route", "status"}),
		scans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coffer_scan_errors_total",
			Help: "Failed steps of a scan, by cause.",
		}, []string{"chain", "walk", "kind"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coffer_signer_calls_total", Help: "Calls to the signer, by outcome.",
		}, []string{"call", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coffer_signer_refusals_total", Help: "Refusals of the signer, by reason.",
		}, []string{"code"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coffer_webhook_attempts_total",
			Help: "Webhook posts of this process, including samples, by outcome.",
		}, []string{"result"}),
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coffer_page_policy_reports_total",
			Help: "Reports of browsers that a page did what its policy forbids. Anyone can send one.",
		}),
		tampered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coffer_deposit_swaps_tampered_total",
			Help: "Reads of deposit swaps whose address was not shown, because the row does not hold together.",
		}),
	}
	roleGauge := prometheus.NewGaugeVec(
		prometheus.GaugeOpts{Name: "coffer_role", Help: "1 for every part that this process runs."}, []string{"role"},
	)
	for _, r := range roles {
		roleGauge.WithLabelValues(r).Set(1)
	}
	m.registry.MustRegister(roleGauge, m.requests, m.scans, m.calls, m.refusals, m.attempts, m.reports,
		m.tampered,
		(*databaseCollector)(
			m,
		), poolCollector{db},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) newHandler() http.Handler {
	return promhttp.HandlerFor(m.registry,
		promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)})
}

// CountPolicyReport counts a report of a browser about the policy of the pages.
func (m *Metrics) CountPolicyReport() { m.reports.Inc() }

// CountTamperedDepositSwap counts a read of a deposit swap whose address was not shown. The log names it.
func (m *Metrics) CountTamperedDepositSwap(string) { m.tampered.Inc() }

// CountRequest counts an answered request. route is its pattern, "" if there is none.
func (m *Metrics) CountRequest(method, route string, status int, took time.Duration) {
	if route == "" {
		route, method = "none", "any" // callers can invent any others
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// ObserveRequest calls CountRequest for api.Config, with a span around the request.
func (m *Metrics) ObserveRequest(ctx context.Context) (context.Context, func(method, route string, status int)) {
	began := time.Now()
	ctx, span := trace.Start(ctx, "request")
	return ctx, func(method, route string, status int) {
		m.CountRequest(method, route, status, time.Since(began))
		span.Rename(strings.TrimSpace(method + " " + route))
		span.SetAttribute("status", strconv.Itoa(status))
		span.End(nil)
	}
}

// CountScanError counts a failed step of a walk.
func (m *Metrics) CountScanError(name chain.Name, walk string, err error) {
	kind := "other"
	for _, k := range []struct {
		is   error
		kind string
	}{
		{chain.ErrDisagreement, "disagreement"},
		{chain.ErrUndecodable, "undecodable"},
		{chain.ErrStateGone, "state_gone"},
		{chain.ErrNotYet, "not_yet"},
	} {
		if errors.Is(err, k.is) {
			kind = k.kind
			break
		}
	}
	m.scans.WithLabelValues(string(name), walk, kind).Inc()
}

// CountWebhookAttempt counts a post of a webhook. result is one of a few words.
func (m *Metrics) CountWebhookAttempt(result string) { m.attempts.WithLabelValues(result).Inc() }

// Certificate is a certificate by which this process and the remote signer authenticate each other.
type Certificate struct {
	Role     string // "server", "client" or "authority"
	Name     string // its owner
	NotAfter time.Time
}

// RegisterCertificates adds the remaining validity of the certificates that read returns on a
// scrape. It is called once. No two certificates of one read may have the same Role and Name.
func (m *Metrics) RegisterCertificates(read func() []Certificate) {
	m.registry.MustRegister(certificateCollector(read))
}

type certificateCollector func() []Certificate

var daysDesc = newDesc(
	"coffer_signer_certificate_days_left",
	"Days until a certificate between this process and the signer expires; negative after it has.",
	"of", "name",
)

// Describe implements prometheus.Collector.
func (certificateCollector) Describe(sink chan<- *prometheus.Desc) { sink <- daysDesc }

// Collect implements prometheus.Collector.
func (c certificateCollector) Collect(sink chan<- prometheus.Metric) {
	for _, certificate := range c() {
		sink <- prometheus.MustNewConstMetric(daysDesc, prometheus.GaugeValue,
			time.Until(certificate.NotAfter).Hours()/24, certificate.Role, certificate.Name)
	}
}

// RegisterSwapProviders adds whether this process asks each provider of swaps. read returns since when it
// does not, by provider; the zero time means that it does. It is called once.
func (m *Metrics) RegisterSwapProviders(read func() map[string]time.Time) {
	m.registry.MustRegister(breakerCollector(read))
}

type breakerCollector func() map[string]time.Time

var breakerDesc = newDesc("coffer_swap_breaker_open_seconds",
	"Time since this process stopped asking a provider of swaps because it failed too often; 0 while it asks.",
	"provider")

// Describe implements prometheus.Collector.
func (breakerCollector) Describe(sink chan<- *prometheus.Desc) { sink <- breakerDesc }

// Collect implements prometheus.Collector.
func (c breakerCollector) Collect(sink chan<- prometheus.Metric) {
	for provider, openedAt := range c() {
		open := 0.0
		if !openedAt.IsZero() {
			open = max(0, time.Since(openedAt).Seconds())
		}
		sink <- prometheus.MustNewConstMetric(breakerDesc, prometheus.GaugeValue, open, provider)
	}
}

// AddressFilter describes the filter before the index of all addresses.
type AddressFilter struct {
	Addresses int
	Bytes     int
	BuiltAt   time.Time
}

// RegisterAddressFilter adds the filter of addresses of this process. read returns false without one. It is
// called once.
func (m *Metrics) RegisterAddressFilter(read func() (AddressFilter, bool)) {
	m.registry.MustRegister(filterCollector(read))
}

type filterCollector func() (AddressFilter, bool)

var (
	filterReadyDesc = newDesc("coffer_address_filter_ready",
		"1 while a filter answers before the index of all addresses; 0 while the index answers alone.")
	filterAddressesDesc = newDesc("coffer_address_filter_addresses", "Addresses in the filter.")
	filterBytesDesc     = newDesc("coffer_address_filter_bytes", "Memory of the filter.")
	filterAgeDesc       = newDesc("coffer_address_filter_age_seconds", "Time since the filter was built.")
)

// Describe implements prometheus.Collector.
func (filterCollector) Describe(sink chan<- *prometheus.Desc) {
	sink <- filterReadyDesc
	sink <- filterAddressesDesc
	sink <- filterBytesDesc
	sink <- filterAgeDesc
}

// Collect implements prometheus.Collector.
func (c filterCollector) Collect(sink chan<- prometheus.Metric) {
	filter, ok := c()
	if !ok {
		sink <- prometheus.MustNewConstMetric(filterReadyDesc, prometheus.GaugeValue, 0)
		return
	}
	sink <- prometheus.MustNewConstMetric(filterReadyDesc, prometheus.GaugeValue, 1)
	sink <- prometheus.MustNewConstMetric(filterAddressesDesc, prometheus.GaugeValue, float64(filter.Addresses))
	sink <- prometheus.MustNewConstMetric(filterBytesDesc, prometheus.GaugeValue, float64(filter.Bytes))
	sink <- prometheus.MustNewConstMetric(filterAgeDesc, prometheus.GaugeValue, time.Since(filter.BuiltAt).Seconds())
}

// SwapExposure is what is with a provider of swaps, or is about to be paid to it.
type SwapExposure struct {
	Provider string
	USD      money.USD
	Unvalued int        // swaps without any value, which USD does not contain
	USDMax   *money.USD // its limit; nil: it has none
}

// RegisterSwapExposures adds what is with each provider of swaps. read may ask sources of prices; its answer is
// kept for a few seconds. It is called once.
func (m *Metrics) RegisterSwapExposures(read func(context.Context) ([]SwapExposure, error)) {
	m.registry.MustRegister(&exposureCollector{read: read, log: m.log})
}

type exposureCollector struct {
	read func(context.Context) ([]SwapExposure, error)
	log  *slog.Logger

	mu     sync.Mutex
	cached []SwapExposure
	readAt time.Time
}

// exposureTimeout is how long a scrape waits for the prices.
const exposureTimeout = 3 * time.Second

var (
	outstandingDesc = newDesc("coffer_swap_outstanding_usd",
		"What is with a provider of swaps, or is about to be paid to it, in dollars by prices of the moment.",
		"provider")
	unvaluedDesc = newDesc("coffer_swap_outstanding_unvalued",
		"Swaps without any value of a provider that has a limit, which coffer_swap_outstanding_usd does not contain.",
		"provider")
	limitDesc = newDesc("coffer_swap_outstanding_usd_max",
		"The most that may be with a provider of swaps; absent for one without a limit.", "provider")
)

// Describe implements prometheus.Collector.
func (*exposureCollector) Describe(sink chan<- *prometheus.Desc) {
	sink <- outstandingDesc
	sink <- unvaluedDesc
	sink <- limitDesc
}

// Collect implements prometheus.Collector. Without an answer it omits the values.
func (c *exposureCollector) Collect(sink chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readAt.IsZero() || time.Since(c.readAt) >= readInterval {
		ctx, cancel := context.WithTimeout(context.Background(), exposureTimeout)
		defer cancel()
		var err error
		if c.cached, err = c.read(ctx); err != nil {
			c.cached = nil
			c.log.Warn("what is with the providers of swaps is not known for the metrics", "error", err)
		}
		c.readAt = time.Now()
	}
	for _, x := range c.cached {
		sink <- prometheus.MustNewConstMetric(outstandingDesc, prometheus.GaugeValue, number(x.USD), x.Provider)
		if x.USDMax != nil {
			sink <- prometheus.MustNewConstMetric(unvaluedDesc, prometheus.GaugeValue, float64(x.Unvalued), x.Provider)
			sink <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, number(*x.USDMax), x.Provider)
		}
	}
}

// number returns the number that is nearest to a value, which a metric needs. Nothing is decided by it.
func number(value money.USD) float64 {
	nearest, _ := strconv.ParseFloat(value.String(), 64) // the text is always a number
	return nearest
}

// WrapSigner returns a signer whose answers are counted, and traced with spans.
func (m *Metrics) WrapSigner(s signer.Signer) signer.Signer { return countedSigner{s, m} }

type countedSigner struct {
	signer.Signer
	metrics *Metrics
}

func (w countedSigner) countCall(call string, err error) {
	outcome := "ok"
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal):
		outcome = "refused"
		w.metrics.refusals.WithLabelValues(refusal.Code).Inc()
	case err != nil:
		outcome = "error"
	}
	w.metrics.calls.WithLabelValues(call, outcome).Inc()
}

// countQuestion is countCall for a call that the service repeats until people have signed or a person at the signer's
// host has ordered it. Its refusal says that this is not so yet, and no alert.
func (w countedSigner) countQuestion(call string, err error) {
	var refusal *signer.Refusal
	if errors.As(err, &refusal) && (refusal.Code == signer.RefusedApprover || refusal.Code == signer.RefusedSignature) {
		w.metrics.calls.WithLabelValues(call, "waits").Inc()
		return
	}
	w.countCall(call, err)
}

// IssueAddress implements signer.Signer.
func (w countedSigner) IssueAddress(ctx context.Context, r signer.WalletRef) (signer.IssuedAddress, error) {
	result, err := w.Signer.IssueAddress(ctx, r)
	w.countCall("issue", err)
	return result, err
}

// AdmitIntent implements signer.Signer.
func (w countedSigner) AdmitIntent(ctx context.Context, intent signer.Intent) (signer.Entry, error) {
	ctx, span := trace.StartAbout(ctx, "signer admit", intent.ID)
	result, err := w.Signer.AdmitIntent(ctx, intent)
	span.End(err)
	w.countCall("admit", err)
	return result, err
}

// Sign implements signer.Signer.
func (w countedSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	ctx, span := trace.StartAbout(ctx, "signer sign", r.IntentID)
	result, err := w.Signer.Sign(ctx, r)
	span.End(err)
	w.countCall("sign", err)
	return result, err
}

// EndorseAddress implements signer.Signer.
func (w countedSigner) EndorseAddress(ctx context.Context, e signer.Endorsement) (signer.EndorsedAddress, error) {
	result, err := w.Signer.EndorseAddress(ctx, e)
	w.countQuestion("endorse", err)
	return result, err
}

// RevokeEndorsement implements signer.Signer.
func (w countedSigner) RevokeEndorsement(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	result, err := w.Signer.RevokeEndorsement(ctx, r)
	w.countCall("revoke", err)
	return result, err
}

// VoidIntent implements signer.Signer.
func (w countedSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	ctx, span := trace.StartAbout(ctx, "signer void", v.ID)
	result, err := w.Signer.VoidIntent(ctx, v)
	span.End(err)
	w.countCall("void", err)
	return result, err
}

// EnrolKey implements signer.Signer.
func (w countedSigner) EnrolKey(ctx context.Context, e signer.EnrolRequest) (signer.EnrolledKey, error) {
	result, err := w.Signer.EnrolKey(ctx, e)
	w.countQuestion("enrol", err)
	return result, err
}

// RetireKey implements signer.Signer.
func (w countedSigner) RetireKey(ctx context.Context, r signer.RetireRequest) (signer.Entry, error) {
	result, err := w.Signer.RetireKey(ctx, r)
	if r.SignedBy == nil && len(r.MAC) == 0 { // asks whether the host ordered it
		w.countQuestion("retire", err)
	} else {
		w.countCall("retire", err)
	}
	return result, err
}

// SetRule implements signer.Signer.
func (w countedSigner) SetRule(ctx context.Context, r signer.RuleRequest) (signer.RecordedRule, error) {
	result, err := w.Signer.SetRule(ctx, r)
	if len(r.SignedBy) == 0 { // asks whether it was recorded
		w.countQuestion("rule", err)
	} else {
		w.countCall("rule", err)
	}
	return result, err
}

// Wording implements signer.Signer.
func (w countedSigner) Wording(ctx context.Context) (signer.Wording, error) {
	result, err := w.Signer.Wording(ctx)
	w.countCall("wording", err)
	return result, err
}

// Head implements signer.Signer.
func (w countedSigner) Head(ctx context.Context) (signer.Head, error) {
	result, err := w.Signer.Head(ctx)
	w.countCall("head", err)
	return result, err
}

// poolCollector collects the counters of this process's database pool.
type poolCollector struct{ db *pg.DB }

var (
	rerunDesc = newDesc("coffer_db_transactions_rerun_total",
		"Transactions of this process that were repeated, by cause; a deadlock is a bug in an order of locks.", "cause")
	unknownDesc = newDesc("coffer_db_commits_unknown_total",
		"Commits of this process whose outcome had to be looked up.")
	connDesc = newDesc("coffer_db_connections", "Connections of this process's pool.", "state")

	// Only a process with a replica has these.
	replicaStateDesc = newDesc("coffer_db_replica_state",
		"1 for what this process's last check of the replica found; it answers reads in FOLLOWS alone.", "state")
	replicaLagDesc = newDesc("coffer_db_replica_lag_seconds",
		"Time from a commit on the primary to its replay, in the last check that found it on the replica.")
	replicaReadsDesc = newDesc("coffer_db_replica_reads_total",
		"Reads of this process that the replica may answer, by who answered, and why if it was the primary.",
		"answered_by", "reason")
	replicaWaitDesc = newDesc("coffer_db_replica_wait_seconds_total",
		"Time that reads waited until the replica had what they may not miss.")
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c poolCollector) Describe(sink chan<- *prometheus.Desc) {
	sink <- rerunDesc
	sink <- unknownDesc
	sink <- connDesc
	sink <- replicaStateDesc
	sink <- replicaLagDesc
	sink <- replicaReadsDesc
	sink <- replicaWaitDesc
}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(sink chan<- prometheus.Metric) {
	n, pool := c.db.Counts(), c.db.PoolStat()
	sink <- prometheus.MustNewConstMetric(rerunDesc, prometheus.CounterValue, float64(n.Deadlocks), "deadlock")
	sink <- prometheus.MustNewConstMetric(rerunDesc, prometheus.CounterValue, float64(n.Serializations),
		"serialization")
	sink <- prometheus.MustNewConstMetric(unknownDesc, prometheus.CounterValue, float64(n.CommitsUnknown))
	sink <- prometheus.MustNewConstMetric(connDesc, prometheus.GaugeValue, float64(pool.AcquiredConns()), "used")
	sink <- prometheus.MustNewConstMetric(connDesc, prometheus.GaugeValue, float64(pool.IdleConns()), "idle")
	sink <- prometheus.MustNewConstMetric(connDesc, prometheus.GaugeValue, float64(pool.MaxConns()), "max")
	if r, ok := c.db.ReplicaStat(); ok {
		collectReplica(r, sink)
	}
}

func collectReplica(r pg.ReplicaStat, sink chan<- prometheus.Metric) {
	for _, s := range pg.ReplicaStates {
		value := 0.0
		if s == r.State {
			value = 1
		}
		sink <- prometheus.MustNewConstMetric(replicaStateDesc, prometheus.GaugeValue, value, string(s))
	}
	sink <- prometheus.MustNewConstMetric(replicaLagDesc, prometheus.GaugeValue, r.Lag.Seconds())
	sink <- prometheus.MustNewConstMetric(replicaReadsDesc, prometheus.CounterValue, float64(r.Replica), "replica", "")
	for _, reason := range pg.PrimaryReasons {
		sink <- prometheus.MustNewConstMetric(replicaReadsDesc, prometheus.CounterValue, float64(r.Primary[reason]),
			"primary", string(reason))
	}
	sink <- prometheus.MustNewConstMetric(replicaWaitDesc, prometheus.CounterValue, r.Waited.Seconds())
}

// gauge is a query whose rows are values of one metric: first the labels, as text, and the value
// last. now() is the time of the transaction, by our clock.
type gauge struct {
	desc     *prometheus.Desc
	labels   int
	sql      string
	needsNow bool
}

func newGauge(name, help, query string, labels ...string) gauge {
	return gauge{
		newDesc(name, help, labels...), len(labels), strings.ReplaceAll(query, "now()", "$1::timestamptz"),
		strings.Contains(query, "now()"),
	}
}

// openOrders are the open orders of every kind; those of payments are found by their withdrawals. Each
// part reads an index of what is open: those of orders are of queued orders
// and orders with a slot, and of orders in transactions.
const openOrders = `
	(SELECT withdrawal_id AS order_id FROM withdrawals WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST')
	 UNION ALL SELECT order_id FROM dispatch_orders
		WHERE purpose <> 'PAYMENT' AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')
	 UNION ALL SELECT order_id FROM dispatch_orders
		WHERE purpose <> 'PAYMENT' AND status = 'STUCK') AS open
	JOIN dispatch_orders AS o USING (order_id)
	WHERE o.status NOT IN ('PAID', 'FAILED', 'WITHDRAWN')
	GROUP BY o.chain, o.purpose, o.status, coalesce(o.waiting_for, '')`

// gasHistoryMax is how many of a chain's latest payments determine the gas consumption of a wallet.
const gasHistoryMax = 2000

// gauges are read together, in one transaction. Each uses an index of open rows or a small table.
var gauges = []gauge{
	newGauge("coffer_deposits_unfinal_oldest_seconds", "Age of the oldest deposit that was seen and is not final.", `
		SELECT chain, extract(epoch FROM now() - min(created_at))::float8 FROM deposits
		WHERE status IN ('DETECTED', 'CONFIRMING') GROUP BY chain`, "chain"),
	newGauge("coffer_deposits_uncredited_oldest_seconds",
		"Age of the oldest final deposit without a decision.", `
		SELECT chain, extract(epoch FROM now() - min(coalesce(confirmed_at, created_at)))::float8 FROM deposits
		WHERE status = 'SCREENING' GROUP BY chain`, "chain"),
	newGauge("coffer_events_unnumbered_oldest_seconds",
		"Age of the oldest event without a number; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM events WHERE sequence IS NULL`),
	newGauge("coffer_events_undelivered_oldest_seconds",
		"Age of the oldest event that an enabled endpoint has not received; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(d.created_at)), 0)::float8
		FROM deliveries d JOIN webhook_endpoints e USING (org_id, endpoint_id) WHERE d.status = 'PENDING' AND e.status = 'ENABLED'`),
	newGauge("coffer_webhook_deliveries_pending",
		"Deliveries to enabled endpoints that are due or waiting, by whether an attempt has failed.", `
		SELECT CASE WHEN d.attempts > 0 THEN 'yes' ELSE 'no' END, count(*)::float8
		FROM deliveries d JOIN webhook_endpoints e USING (org_id, endpoint_id) WHERE d.status = 'PENDING' AND e.status = 'ENABLED' GROUP BY 1`,
		"failing"),
	newGauge("coffer_webhook_endpoints", "Endpoints, by their status.", `
		SELECT status, count(*)::float8 FROM webhook_endpoints WHERE deleted_at IS NULL GROUP BY status`, "status"),
	newGauge("coffer_mails_queued", "Mails that wait to be sent, by whether an attempt has failed.", `
		SELECT CASE WHEN last_error IS NOT NULL THEN 'yes' ELSE 'no' END, count(*)::float8
		FROM mails WHERE status = 'QUEUED' GROUP BY 1`, "failing"),
	newGauge("coffer_mails_queued_oldest_seconds", "Age of the oldest of them; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM mails WHERE status = 'QUEUED'`),
	newGauge("coffer_mails_unsent",
		"Mails of the last day that ended without being sent, by kind: given up, or suppressed because the address "+
			"got too many.", `
		SELECT kind, lower(status), count(*)::float8 FROM mails
		WHERE status IN ('GIVEN_UP', 'SUPPRESSED') AND ended_at > now() - interval '24 hours' GROUP BY 1, 2`,
		"kind", "status"),
	newGauge("coffer_scan_cursor_age_seconds", "Time since the final scan applied a block.", `
		SELECT chain, extract(epoch FROM now() - updated_at)::float8 FROM scan_cursors`, "chain"),
	newGauge("coffer_scan_block_age_seconds", "Age of the newest block that the final scan has applied.", `
		SELECT c.chain, extract(epoch FROM now() - p.block_time)::float8
		FROM scan_cursors c JOIN finality_proofs p ON p.chain = c.chain AND p.height = c.height AND p.hash = c.hash`,
		"chain"),
	newGauge("coffer_scan_blocks_behind_head",
		"Blocks between the newest seen block and the last final one that was applied.", `
		SELECT c.chain, greatest(0, (SELECT max(h.height) FROM scan_heads h WHERE h.chain = c.chain) - c.height)::float8
		FROM scan_cursors c WHERE EXISTS (SELECT FROM scan_heads h WHERE h.chain = c.chain)`, "chain"),
	newGauge("coffer_scan_untraced", "Transactions, or whole blocks, whose calls still have to be traced.", `
		SELECT p.chain, count(*)::float8 FROM scan_untraced u JOIN finality_live p USING (proof_id) WHERE u.status = 'DUE' GROUP BY p.chain`,
		"chain"),
	newGauge("coffer_scan_untraced_oldest_seconds", "Age of the oldest of them.", `
		SELECT p.chain, extract(epoch FROM now() - min(u.created_at))::float8
		FROM scan_untraced u JOIN finality_live p USING (proof_id) WHERE u.status = 'DUE' GROUP BY p.chain`, "chain"),
	newGauge("coffer_memos_due", "Transactions whose memo still has to be read.", `
		SELECT chain, count(*)::float8 FROM transaction_memos WHERE status = 'DUE' GROUP BY chain`, "chain"),
	newGauge("coffer_memos_due_oldest_seconds", "Age of the oldest of them.", `
		SELECT chain, extract(epoch FROM now() - min(created_at))::float8 FROM transaction_memos WHERE status = 'DUE' GROUP BY chain`,
		"chain"),
	newGauge("coffer_memos_abandoned",
		"Transactions whose memo the service gave up reading in the last day, because no provider showed them.", `
		SELECT chain, count(*)::float8 FROM transaction_memos WHERE status = 'ABANDONED' AND ended_at > now() - interval '1 day' GROUP BY chain`,
		"chain"),
	newGauge("coffer_orders_open",
		"Orders of every kind that have not ended, by status and wait reason.", `
		SELECT o.chain, lower(o.purpose), o.status, coalesce(o.waiting_for, ''), count(*)::float8 FROM `+openOrders,
		"chain", "purpose", "status", "waiting_for"),
	newGauge("coffer_orders_open_oldest_seconds", "Age of the oldest of them.", `
		SELECT o.chain, lower(o.purpose), o.status, coalesce(o.waiting_for, ''), extract(epoch FROM now() - min(o.created_at))::float8 FROM `+openOrders,
		"chain", "purpose", "status", "waiting_for"),
	newGauge("coffer_orders_in_question",
		"Payments that ended on a block that the chain replaced after it was final, by wait reason.", `
		SELECT chain, coalesce(waiting_for, ''), count(*)::float8 FROM dispatch_reorged GROUP BY 1, 2`,
		"chain", "waiting_for"),
	newGauge("coffer_withdrawals_open", "Withdrawals that have not ended.", `
		SELECT status, count(*)::float8 FROM withdrawals WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST') GROUP BY status`,
		"status"),
	newGauge("coffer_withdrawals_open_oldest_seconds", "Age of the oldest of them.", `
		SELECT status, extract(epoch FROM now() - min(created_at))::float8 FROM withdrawals
		WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST') GROUP BY status`, "status"),
	newGauge("coffer_batch_payouts",
		"Batch payouts that are checked, wait for people or are paid, by whether they are paused.", `
		SELECT status, CASE WHEN paused_at IS NULL THEN 'no' ELSE 'yes' END, count(*)::float8 FROM payout_batches
		WHERE status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING') GROUP BY 1, 2`, "status", "paused"),
	newGauge("coffer_batch_payouts_oldest_seconds", "Time since the oldest of them was made.", `
		SELECT status, extract(epoch FROM now() - min(created_at))::float8 FROM payout_batches
		WHERE status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING') GROUP BY status`, "status"),
	// Rule BP-93.
	newGauge("coffer_batch_payout_progress_age_seconds",
		"Time since a batch payout that is checked or paid, and that no person paused, went on; the longest.", `
		SELECT b.status, extract(epoch FROM now() - min(greatest(b.updated_at, (
				SELECT max(i.checked_at) FROM payout_items i WHERE i.batch_id = b.batch_id), (
				SELECT max(greatest(w.created_at, w.broadcast_at, w.completed_at)) FROM withdrawals w
				WHERE w.batch_id = b.batch_id))))::float8
		FROM payout_batches b WHERE b.status IN ('VALIDATING', 'PROCESSING') AND b.paused_at IS NULL GROUP BY b.status`,
		"status"),
	newGauge("coffer_batch_payout_orders_waiting_oldest_seconds",
		"Age of the oldest payment of a row of a batch payout that waits in the queue, by wait reason.", `
		SELECT o.chain, o.waiting_for, extract(epoch FROM now() - min(o.created_at))::float8 FROM dispatch_orders o
		WHERE o.status = 'QUEUED' AND o.waiting_for IS NOT NULL AND o.batch IS NOT NULL GROUP BY 1, 2`,
		"chain", "waiting_for"),
	newGauge("coffer_batch_payout_rows_waiting",
		"Rows without a payment of batch payouts that are being paid, by whether the batch is paused.", `
		SELECT CASE WHEN b.paused_at IS NULL THEN 'no' ELSE 'yes' END, count(*)::float8
		FROM payout_batches b JOIN payout_items i USING (batch_id)
		WHERE b.status = 'PROCESSING' AND i.included AND i.refused IS NULL AND NOT EXISTS (SELECT FROM withdrawals w
			WHERE w.batch_id = i.batch_id AND w.batch_row = i.row_no) GROUP BY 1`, "paused"),
	// A wallet spends its fees; the treasury also spends the gas that it sends to other wallets.
	// The window is a day, or as much of it as the latest payments of the chain cover.
	newGauge("coffer_gas_hours_left",
		"How long the gas of a wallet lasts at the consumption of the last day. Wallets without consumption are not "+
			"listed.",
		fmt.Sprintf(`
		SELECT s.chain, s.wallet_id,
			(greatest(0, f.gas - f.gas_reserved) / (s.spent / greatest(1, extract(epoch FROM now() - CASE WHEN s.n = %d THEN s.since ELSE now() - interval '24 hours' END) / 3600)))::float8
		FROM (
			SELECT l.chain, l.wallet_id, sum(l.fee + CASE WHEN l.purpose = 'GAS' AND l.status = 'PAID' THEN l.amount ELSE 0 END) AS spent, max(l.n) AS n, min(l.since) AS since
			FROM (
				SELECT c.chain, r.*, count(*) OVER (PARTITION BY c.chain) AS n, min(r.ended_at) OVER (PARTITION BY c.chain) AS since
				FROM scan_cursors c CROSS JOIN LATERAL (
					SELECT wallet_id, fee, purpose, status, amount, ended_at FROM dispatch_orders o
					WHERE o.chain = c.chain AND o.status IN ('PAID', 'FAILED') ORDER BY o.proof_id DESC LIMIT %d) AS r
			) AS l
			WHERE l.ended_at > now() - interval '24 hours' GROUP BY l.chain, l.wallet_id
		) AS s
		JOIN wallets w USING (wallet_id)
		JOIN mints m ON m.chain = s.chain AND m.contract = ''
		JOIN address_funds f ON f.wallet_id = s.wallet_id AND f.mint_id = m.mint_id
		WHERE w.purpose = 'TREASURY' AND s.spent > 0
		ORDER BY 3 LIMIT 50`, gasHistoryMax, gasHistoryMax), "chain", "wallet"),
	newGauge("coffer_freezes", "Freezes in force, by scope and source.", `
		SELECT lower(scope), source, count(*)::float8 FROM freezes WHERE lifted_at IS NULL GROUP BY 1, 2`,
		"scope", "source"),
	newGauge("coffer_verify_breached", "1 while payments are stopped because the books and the chains differ.", `
		SELECT count(*)::float8 FROM (SELECT FROM freezes WHERE lifted_at IS NULL AND source = 'VERIFY' LIMIT 1) AS f`),
	newGauge("coffer_verify_age_seconds", "Time since the last completed check of the books; absent before the first.",
		`
		SELECT extract(epoch FROM now() - max(finalized_at))::float8 FROM river_job WHERE kind = 'verify' AND state = 'completed'
		HAVING max(finalized_at) IS NOT NULL`),
	newGauge("coffer_audit_unsealed_oldest_seconds",
		"Age of the oldest unsealed row of the audit log; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - (`+audit.OldestUnsealed+`)), 0)::float8`),
	newGauge("coffer_audit_unanchored_oldest_seconds",
		"Age of the oldest row of the audit log's chain that the signer has not signed; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - (`+audit.OldestUnanchored+`)), 0)::float8`),
	newGauge("coffer_audit_contradicted", "1 while the last anchor of the audit log contradicts the log.",
		`
		SELECT count(*)::float8 FROM (SELECT position, hash, chain_id FROM audit_anchors ORDER BY number DESC LIMIT 1) a
		WHERE a.position > 0 AND NOT EXISTS (SELECT FROM audit_chain c
			WHERE c.chain_id = a.chain_id AND encode(`+audit.HashAt("a.position")+`, 'hex') = a.hash)`),
	newGauge("coffer_jobs_given_up", "Jobs of the last day that failed and are not repeated.", `
		SELECT kind, count(*)::float8 FROM river_job WHERE state = 'discarded' AND finalized_at > now() - interval '24 hours' GROUP BY kind`,
		"kind"),
	newGauge("coffer_sender_alerts",
		"Senders of credited deposits that were found above their organization's threshold in the last day.", `
		SELECT count(*)::float8 FROM sender_verdicts WHERE alert AND at > now() - interval '24 hours'`),
	newGauge("coffer_rescreening_overdue_seconds",
		"How long the most overdue sender has waited to be screened again; 0 when none is overdue.", `
		SELECT greatest(0, coalesce(extract(epoch FROM now() - (SELECT min(next_at) FROM sender_watch)), 0))::float8`),
	newGauge("coffer_unknown_tokens_dropped",
		"Addresses that received transfers of unknown tokens in the last day which are not recorded.", `
		SELECT chain, count(*)::float8 FROM unknown_token_counts WHERE dropped_at > now() - interval '24 hours' GROUP BY 1`,
		"chain"),
	newGauge("coffer_swap_claims", "Swaps whose value is with a provider.", `
		SELECT provider, count(*)::float8 FROM swaps
		WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in GROUP BY 1`, "provider"),
	newGauge("coffer_swap_claims_oldest_seconds", "Time since the oldest of these was paid.", `
		SELECT provider, extract(epoch FROM now() - min(paid_at))::float8 FROM swaps
		WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in GROUP BY 1`, "provider"),
	newGauge("coffer_swap_providers_suspended",
		"1 for each provider that gets no new swaps, by whether a person or the service suspended it.", `
		SELECT provider, CASE WHEN changed_by LIKE 'SYSTEM %' THEN 'service' ELSE 'operator' END, 1::float8
		FROM swap_providers WHERE state = 'SUSPENDED'`, "provider", "source"),
	newGauge("coffer_swap_arrivals_open",
		"Stray arrivals at addresses of swaps about which no person has decided.", `
		SELECT count(*)::float8 FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL`),
	newGauge("coffer_swap_arrivals_open_oldest_seconds", "Age of the oldest of them; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM swap_arrivals
		WHERE role = 'STRAY' AND decision IS NULL`),
	newGauge("coffer_invoices_issued", "Invoices that were issued in the last day.", `
		SELECT count(*)::float8 FROM invoices WHERE issued_at > now() - interval '24 hours'`),
	newGauge("coffer_invoices_unpaid", "Invoices that are not marked as paid.", `
		SELECT count(*)::float8 FROM invoices WHERE status = 'ISSUED'`),
	newGauge("coffer_invoices_unpaid_usd", "What is left to pay of them in dollars, for graphs.", `
		SELECT coalesce(sum(i.total - n.credited), 0)::float8 FROM invoices i CROSS JOIN LATERAL (
			SELECT coalesce(sum(c.total), 0) AS credited FROM credit_notes c WHERE c.invoice_id = i.invoice_id) n
		WHERE i.status = 'ISSUED'`),
	newGauge("coffer_invoices_unpaid_oldest_seconds", "Age of the oldest of them; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(issued_at)), 0)::float8 FROM invoices WHERE status = 'ISSUED'`),
	newGauge("coffer_fee_lines_unpriced",
		"Fees older than a quarter of an hour that have no value, and are on no invoice until they have one.", `
		SELECT count(*)::float8 FROM fee_lines
		WHERE usd_value IS NULL AND incurred_at < now() - interval '15 minutes'`),
	newGauge("coffer_fee_lines_unpriced_oldest_seconds", "Age of the oldest of them; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(incurred_at)), 0)::float8 FROM fee_lines
		WHERE usd_value IS NULL AND incurred_at < now() - interval '15 minutes'`),
	newGauge("coffer_price_mark_age_seconds",
		"Time since the newest stored price of a chain's coin, by which its network fees get their value.", `
		SELECT m.chain, extract(epoch FROM now() - p.created_at)::float8
		FROM mints m JOIN scan_cursors c ON c.chain = m.chain CROSS JOIN LATERAL (
			SELECT created_at FROM price_marks WHERE mint_id = m.mint_id ORDER BY created_at DESC LIMIT 1) p
		WHERE m.kind = 'NATIVE' AND c.updated_at > now() - interval '24 hours'`, "chain"),
	// Rule SA-16.
	newGauge("coffer_approver_keys",
		"Passkeys of approvers, by right and state. One is contradicted if the signer refuses it after it counted.", `
		SELECT lower(key_right), CASE WHEN refusal IS NOT NULL AND proof IS NOT NULL THEN 'contradicted'
				WHEN refusal IS NOT NULL THEN 'refused' WHEN proof IS NULL THEN 'waiting'
				WHEN usable_from > now() THEN 'cooling_off' ELSE 'usable' END, count(*)::float8
		FROM approver_keys WHERE retired_at IS NULL GROUP BY 1, 2`, "right", "status"),
	newGauge("coffer_approver_keys_retired", "Passkeys of approvers that were retired in the last day.", `
		SELECT count(*)::float8 FROM approver_keys WHERE retired_at > now() - interval '24 hours'`),
	newGauge("coffer_approver_keys_kept_oldest_seconds",
		"Time since the oldest retirement that the signer has not recorded; 0 when there is none.", `
		SELECT coalesce(extract(epoch FROM now() - min(retired_at)), 0)::float8 FROM approver_keys
		WHERE retired_at IS NOT NULL AND retired_seq IS NULL AND proof IS NOT NULL`),
	newGauge("coffer_approvers_with_one_key",
		"People with fewer than two passkeys of a right, who lose the right with the passkey.", `
		SELECT lower(key_right), count(*)::float8 FROM (
			SELECT org_id, key_right, email FROM approver_keys
			WHERE retired_at IS NULL AND refusal IS NULL AND proof IS NOT NULL
			GROUP BY 1, 2, 3 HAVING count(*) = 1) p GROUP BY 1`, "right"),
	newGauge("coffer_approval_rules_refused", "Rules on approvals of the last day that the signer refused.", `
		SELECT count(*)::float8 FROM approval_rules
		WHERE refusal IS NOT NULL AND asked_at > now() - interval '24 hours'`),
	newGauge("coffer_mints_quarantined", "Quarantined mints, of which nothing is credited or paid.", `
		SELECT count(*)::float8 FROM mints WHERE quarantined_at IS NOT NULL`),
}

var (
	readOKDesc      = newDesc("coffer_db_look_ok", "1 when the database answered all queries of this scrape.")
	readSecondsDesc = newDesc("coffer_db_look_seconds", "Duration of these queries.")
)

// databaseCollector is Metrics as a collector of the values in the database.
type databaseCollector Metrics

// Describe implements prometheus.Collector.
func (l *databaseCollector) Describe(sink chan<- *prometheus.Desc) {
	sink <- readOKDesc
	sink <- readSecondsDesc
	for _, g := range gauges {
		sink <- g.desc
	}
}

// Collect implements prometheus.Collector. If the database does not answer, it omits the values and
// reports that: no figure is better than an old one.
func (l *databaseCollector) Collect(sink chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readAt.IsZero() || time.Since(l.readAt) >= readInterval {
		began := time.Now()
		l.cached, l.readErr = readGauges(l.db)
		l.readAt = time.Now()
		l.cached = append(l.cached, prometheus.MustNewConstMetric(readSecondsDesc, prometheus.GaugeValue,
			time.Since(began).Seconds()))
		if l.readErr != nil {
			l.log.Warn("the database does not answer for the metrics", "error", l.readErr)
		}
	}
	ok := 1.0
	if l.readErr != nil {
		ok = 0
	}
	sink <- prometheus.MustNewConstMetric(readOKDesc, prometheus.GaugeValue, ok)
	for _, m := range l.cached {
		sink <- m
	}
}

// readGauges reads all gauges in one batch.
func readGauges(db *pg.DB) (metrics []prometheus.Metric, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout) // a scrape has no context
	defer cancel()
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		metrics = nil
		batch := &pgx.Batch{}
		for _, g := range gauges {
			if g.needsNow {
				batch.Queue(g.sql, tx.Now)
			} else {
				batch.Queue(g.sql)
			}
		}
		results := tx.SendBatch(ctx, batch)
		defer results.Close()
		for _, g := range gauges {
			rows, err := results.Query()
			if err != nil {
				return fmt.Errorf("%s: %w", g.desc, err)
			}
			labels, targets, value := make([]string, g.labels), make([]any, g.labels+1), 0.0
			for i := range labels {
				targets[i] = &labels[i]
			}
			targets[g.labels] = &value
			_, err = pgx.ForEachRow(rows, targets, func() error {
				metric, err := prometheus.NewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
				metrics = append(metrics, metric)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", g.desc, err)
			}
		}
		return results.Close()
	})
	return metrics, err
}
