package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/testing/trial/pageset"
)

const (
	depositsDefault = 1_000_000
	pageWarm        = 12 // requests before those that count: the server has cached its plans by then
	pageCounted     = 60
	pageTarget      = 50 * time.Millisecond // p95 on the server
	firstVisitMax   = 60 << 10              // bytes of a first visit: HTML, style sheet and script
	streamsOpen     = 1_000
	streamsPerUser  = 3  // that a session may have
	streamsRead     = 10 // whose messages are timed
	streamMemoryMax = 64 << 20
	changesCounted  = 100
	changePause     = 137 * time.Millisecond // no divisor of the interval at which the log is read
	screenTarget    = 600 * time.Millisecond // p95 from a commit to the page
)

// benchPages measures every page of both surfaces with a million deposits: the time on the server, its
// bytes, what open streams cost, and how soon a change is on the screen.
func benchPages(ctx context.Context, w *benchEnv) (err error) {
	deposits, err := countOfEnv("BENCH_CUSTOMERS", depositsDefault)
	if err != nil {
		return err
	}
	crowd, err := w.newCrowd(ctx, fmt.Sprint("pages", deposits), deposits)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.closeAll(ctx)) }()
	printProgress("      seal the audit log")
	if err := crowd.sealAll(ctx); err != nil {
		return err
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := audit.NewFollower(crowd.db, slog.New(slog.DiscardHandler))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	loops.Go(func() { _ = changes.Run(work) })
	loops.Go(func() { _ = (&audit.Sealer{DB: crowd.db}).Run(work) })
	for changes.Position() == 0 { // Streams begin where the follower is.
		if sleepContext(ctx, idlePause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	set, err := pageset.New(ctx, pageset.Config{
		DB: crowd.db, Super: crowd.super, OrgID: crowd.orgID, Customers: min(deposits, activeMax), Dir: crowd.dir,
		Changes: changes,
	})
	if err != nil {
		return err
	}
	if _, err := crowd.super.Exec(ctx, `VACUUM ANALYZE`); err != nil {
		return err
	}
	lookUp, err := crowd.timeLookUp(ctx)
	if err != nil {
		return err
	}
	for _, face := range set.Surfaces {
		if err := w.timePages(ctx, face, deposits, lookUp); err != nil {
			return err
		}
	}
	return w.timeStreams(ctx, crowd, set)
}

// timeLookUp returns the p95 of one read of a row by its key, through the same pool. Pages are compared with
// it.
func (c *crowd) timeLookUp(ctx context.Context) (time.Duration, error) {
	var took durations
	for range pageWarm + 10*pageCounted {
		began := time.Now()
		err := c.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			var name string
			return tx.QueryRow(ctx, `SELECT name FROM organizations WHERE org_id = $1`, c.orgID).Scan(&name)
		})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return took[pageWarm:].percentile(0.95), nil
}

// sealAll gives every row of the audit log its position, as the service would have done by then.
func (c *crowd) sealAll(ctx context.Context) error {
	sealer := &audit.Sealer{DB: c.db}
	for idle := 0; idle < 3; {
		n, err := sealer.Step(ctx)
		if err != nil {
			return err
		}
		if idle++; n > 0 {
			idle = 0
		}
	}
	return nil
}

// timePages measures each page of the table of a surface, one request after the other.
func (w *benchEnv) timePages(ctx context.Context, face *pageset.Surface, deposits int, lookUp time.Duration) error {
	server := httptest.NewServer(face.Handler)
	defer server.Close()
	visits, err := face.ListVisits()
	if err != nil {
		return err
	}
	filtered, err := face.ListFiltered()
	if err != nil {
		return err
	}
	for _, visit := range filtered {
		if !visit.IsOfTransactions() {
			continue
		}
		isRefused, err := isRefusedFilter(ctx, face, server.URL, visit)
		if err != nil {
			return err
		}
		if !isRefused {
			visits = append(visits, visit)
		}
	}
	var slowest, largest pageFigure
	missed := 0
	for _, visit := range visits {
		figure, err := timePage(ctx, face, server.URL, visit)
		if err != nil {
			return err
		}
		if figure.p95 > slowest.p95 {
			slowest = figure
		}
		if figure.packed > largest.packed {
			largest = figure
		}
		if figure.p95 > pageTarget {
			missed++
		}
		w.table.addRow(row{
			figure: fmt.Sprintf("%s, %s, with %d deposits", face.Name, figure.name, deposits),
			result: fmt.Sprintf("p50 %s, p95 %s; %.1f KB of HTML, %.1f KB compressed", formatDuration(figure.p50),
				formatDuration(figure.p95), float64(figure.plain)/1024, float64(figure.packed)/1024),
			compared: fmt.Sprintf("%.1f times a look-up by key, %s", float64(figure.p95)/float64(lookUp),
				formatDuration(lookUp)),
			target: formatTarget(figure.p95 <= pageTarget, "p95 of 50 ms"),
		})
	}
	assets, err := measureAssets(ctx, face, server.URL)
	if err != nil {
		return err
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("%s, all %d pages and lists", face.Name, len(visits)),
		result: fmt.Sprintf("the slowest p95 %s (%s); the largest %.1f KB compressed (%s), and %.1f KB of style sheet "+
			"and script", formatDuration(slowest.p95), slowest.name, float64(largest.packed)/1024, largest.name,
			float64(assets)/1024),
		compared: fmt.Sprintf("%d over 50 ms", missed),
		target:   formatTarget(largest.packed+assets <= firstVisitMax, "a first visit of 60 KB"),
	})
	return nil
}

// isRefusedFilter reports whether a list refuses a filter because its kind does not have it.
func isRefusedFilter(ctx context.Context, face *pageset.Surface, base string, visit pageset.Visit) (bool, error) {
	r, err := face.NewRequest(ctx, base, visit.Path)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	return resp.StatusCode == http.StatusBadRequest, resp.Body.Close()
}

// pageFigure is what was measured of a page.
type pageFigure struct {
	name          string
	p50, p95      time.Duration
	plain, packed int // bytes of HTML
}

func timePage(ctx context.Context, face *pageset.Surface, base string, visit pageset.Visit) (f pageFigure, err error) {
	f.name = visit.Name()
	var took durations
	var body []byte
	for n := range pageWarm + pageCounted {
		r, err := face.NewRequest(ctx, base, visit.Path)
		if err != nil {
			return f, err
		}
		began := time.Now()
		if body, err = answered(http.DefaultClient, r); err != nil {
			return f, fmt.Errorf("%s: %w", visit.Path, err)
		}
		if n >= pageWarm {
			took = append(took, time.Since(began))
		}
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(body); err != nil {
		return f, err
	}
	if err := writer.Close(); err != nil {
		return f, err
	}
	f.p50, f.p95, f.plain, f.packed = took.percentile(0.5), took.percentile(0.95), len(body), packed.Len()
	return f, nil
}

var assetPath = regexp.MustCompile(`(?:href|src)="([^"]*/assets/[^"]*\.(?:css|js))"`)

// measureAssets returns the bytes of the style sheet and the script as a browser gets them.
func measureAssets(ctx context.Context, face *pageset.Surface, base string) (total int, err error) {
	r, err := face.NewRequest(ctx, base, face.Prefix)
	if err != nil {
		return 0, err
	}
	body, err := answered(http.DefaultClient, r)
	if err != nil {
		return 0, err
	}
	for _, found := range assetPath.FindAllSubmatch(body, -1) {
		r, err := face.NewRequest(ctx, base, string(found[1]))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Accept-Encoding", "gzip") // the client then leaves the body as it is
		asset, err := answered(http.DefaultClient, r)
		if err != nil {
			return 0, err
		}
		total += len(asset)
	}
	return total, nil
}

var liveAttribute = regexp.MustCompile(`data-live="([^"]+)"`)

// openStreams are streams whose other end does nothing: what they cost is the cost of the service.
type openStreams struct{ conns []net.Conn }

func (s *openStreams) closeAll() {
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// timeStreams opens a thousand streams and measures what they cost, and how soon each change is named.
func (w *benchEnv) timeStreams(ctx context.Context, c *crowd, set *pageset.Set) error {
	face := set.Surfaces[0]
	server := httptest.NewServer(face.Handler)
	defer server.Close()
	list := face.Prefix + "/approvals"
	r, err := face.NewRequest(ctx, server.URL, list)
	if err != nil {
		return err
	}
	body, err := answered(http.DefaultClient, r)
	if err != nil {
		return err
	}
	found := liveAttribute.FindSubmatch(body)
	if found == nil {
		return fmt.Errorf("the page %s has no stream", list)
	}
	path := html.UnescapeString(string(found[1]))
	idleBefore, err := c.measureIdle(ctx, w.duration)
	if err != nil {
		return err
	}
	var streams openStreams
	defer streams.closeAll()
	began := time.Now()
	var cookie string
	for i := range streamsOpen {
		if i%streamsPerUser == 0 {
			token, err := set.NewSession(ctx)
			if err != nil {
				return err
			}
			cookie = pages.SessionCookie + "=" + token
		}
		conn, err := openStream(ctx, server.Listener.Addr().String(), face.Host, path, cookie)
		if err != nil {
			return fmt.Errorf("stream %d: %w", i+1, err)
		}
		streams.conns = append(streams.conns, conn)
	}
	opened := time.Since(began)
	idleAfter, err := c.measureIdle(ctx, w.duration)
	if err != nil {
		return err
	}
	memory := max(0, idleAfter.memory-idleBefore.memory)
	work := idleAfter.work.subtract(idleBefore.work)
	ofEach := func(d time.Duration) string { // in a second
		return formatDuration(time.Duration(float64(max(0, d)) / w.duration.Seconds() / streamsOpen))
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("%d open streams", streamsOpen),
		result: fmt.Sprintf("%.1f MB, %.1f KB each; opened in %s; %d and %d connections to PostgreSQL without and "+
			"with them", float64(memory)/(1<<20), float64(memory)/streamsOpen/1024, formatDuration(opened),
			idleBefore.conns,
			idleAfter.conns),
		compared: fmt.Sprintf("CPU of each in a second: %s here, %s in the database", ofEach(work.process),
			ofEach(work.database)),
		target: formatTarget(memory <= streamMemoryMax && idleAfter.conns <= idleBefore.conns+1,
			"64 MB, and no more connections"),
	})
	return w.timeChanges(ctx, c, face, server.URL, list, streams.conns)
}

// openStream opens a stream by hand, so that this end has no buffers and no goroutines.
func openStream(ctx context.Context, addr, host, path, cookie string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", path, host, cookie)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	head := make([]byte, 0, 4096)
	for !bytes.Contains(head, []byte("\r\n\r\n")) || !bytes.Contains(head, []byte(": \n\n")) {
		n, err := conn.Read(head[len(head):cap(head)])
		if err != nil || len(head)+n == cap(head) {
			return nil, errors.Join(fmt.Errorf("no stream: %q", head), err, conn.Close())
		}
		head = head[:len(head)+n]
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return nil, errors.Join(fmt.Errorf("no stream: %.200q", head), conn.Close())
	}
	return conn, nil
}

// idleFigure is what the process has and spends while no one asks for anything.
type idleFigure struct {
	memory int64
	conns  int
	work   work
}

func (c *crowd) measureIdle(ctx context.Context, duration time.Duration) (f idleFigure, err error) {
	before := readWork(c.cluster)
	sleepContext(ctx, duration)
	f.work = readWork(c.cluster).subtract(before)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.memory = int64(m.HeapAlloc + m.StackInuse)
	err = c.super.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`).
		Scan(&f.conns)
	return f, errors.Join(err, ctx.Err())
}

// timeChanges commits changes while all streams are open, and measures when some of the streams name each,
// and when the page has been loaded again.
func (w *benchEnv) timeChanges(
	ctx context.Context, c *crowd, face *pageset.Surface, base, list string, conns []net.Conn,
) error {
	var mu sync.Mutex
	committed := map[string]time.Time{}
	var named, loaded durations
	var failed error
	var readers sync.WaitGroup
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range streamsRead {
		conn := conns[i*(len(conns)/streamsRead)]
		readers.Go(func() {
			err := readNames(work, conn, func(name string, readAt time.Time) {
				mu.Lock()
				began, isKnown := committed[name]
				if isKnown {
					named = append(named, readAt.Sub(began))
				}
				mu.Unlock()
				if !isKnown || i > 0 {
					return
				}
				r, err := face.NewRequest(ctx, base, list)
				if err == nil {
					r.Header.Set(pages.LiveHeader, "1")
					_, err = answered(http.DefaultClient, r)
				}
				mu.Lock()
				loaded, failed = append(loaded, time.Since(began)), errors.Join(failed, err)
				mu.Unlock()
			})
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		})
	}
	for i := range changesCounted {
		name := fmt.Sprintf("wd_bench%d", i)
		mu.Lock()
		err := c.db.InOrg(ctx, c.orgID, func(ctx context.Context, tx pg.Tx) error {
			return audit.Record(ctx, tx, audit.Entry{
				OrgID: c.orgID, Actor: audit.APIKey(c.orgID), Action: "withdrawal.requested",
				ResourceKind: "WITHDRAWAL", ResourceID: name,
			})
		})
		committed[name] = time.Now() // A reader that has the name already waits for the lock.
		mu.Unlock()
		if err != nil {
			return err
		}
		sleepContext(ctx, changePause)
	}
	sleepContext(ctx, 2*time.Second)
	cancel()
	readers.Wait()
	if failed != nil {
		return failed
	}
	if len(named) < changesCounted*streamsRead {
		return fmt.Errorf("%d of %d changes were named", len(named), changesCounted*streamsRead)
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("from the commit of a change to the stream that names it, %d streams open", streamsOpen),
		result: fmt.Sprintf("p50 %s, p95 %s", formatDuration(named.percentile(0.5)),
			formatDuration(named.percentile(0.95))),
		compared: fmt.Sprintf("to the page that was loaded again: p50 %s, p95 %s",
			formatDuration(loaded.percentile(0.5)), formatDuration(loaded.percentile(0.95))),
		target: formatTarget(loaded.percentile(0.95) <= screenTarget, "p95 of 600 ms to the page"),
	})
	return nil
}

// readPause is how often a reader looks whether it has to end.
const readPause = time.Second

// readNames calls fn for each change that a stream names, until ctx ends.
func readNames(ctx context.Context, conn net.Conn, fn func(name string, readAt time.Time)) error {
	var rest []byte
	buffer := make([]byte, 4096)
	for ctx.Err() == nil {
		if err := conn.SetReadDeadline(time.Now().Add(readPause)); err != nil {
			return err
		}
		n, err := conn.Read(buffer)
		readAt := time.Now()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		rest = append(rest, buffer[:n]...)
		for {
			line, after, isWhole := bytes.Cut(rest, []byte("\n"))
			if !isWhole {
				break
			}
			rest = after
			if name, isName := strings.CutPrefix(strings.TrimSpace(string(line)), "data: WITHDRAWAL "); isName {
				fn(name, readAt)
			}
		}
	}
	return nil
}
