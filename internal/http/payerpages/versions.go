package payerpages

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
)

const (
	// versionTimeout is how long the question for versions may take.
	versionTimeout = 10 * time.Second
	// versionsMax is for how many checkouts one question asks.
	versionsMax = 1000
	// checkoutKind names checkouts in the audit log.
	checkoutKind = "CHECKOUT"
)

// versionFeed knows the versions of the checkouts that are open on pages. It asks for all of them together, so that ten
// thousand pages are no ten thousand questions, and at once for those whose change is in the audit log. It asks for
// nothing while no page is open.
type versionFeed struct {
	ask      func(ctx context.Context, checkoutIDs []string) (map[string]int64, error)
	changes  *audit.Follower // may be nil
	interval time.Duration
	log      *slog.Logger

	asking sync.Mutex // one question at a time, so that no answer replaces a newer one

	mu    sync.Mutex
	pages map[string]*openCheckout
	stop  context.CancelFunc // nil while no page is open
}

// openCheckout is a checkout that is open on some pages.
type openCheckout struct {
	streams int
	version int64
	isKnown bool          // version is an answer
	isGone  bool          // there is no such checkout any more
	changed chan struct{} // closed and replaced when the version changes
}

// versionWatch is one page's look at a checkout.
type versionWatch struct {
	feed       *versionFeed
	checkoutID string
	page       *openCheckout
}

// watch begins a watch. The caller closes it.
func (f *versionFeed) watch(checkoutID string) *versionWatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.pages[checkoutID]
	if page == nil {
		page = &openCheckout{changed: make(chan struct{})}
		f.pages[checkoutID] = page
	}
	page.streams++
	if f.stop == nil {
		var ctx context.Context
		ctx, f.stop = context.WithCancel(context.Background())
		go f.poll(ctx)
		if f.changes != nil {
			go f.follow(ctx)
		}
	}
	return &versionWatch{feed: f, checkoutID: checkoutID, page: page}
}

// close ends a watch, and with the last one the questions.
func (w *versionWatch) close() {
	f := w.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.page.streams--; w.page.streams > 0 {
		return
	}
	delete(f.pages, w.checkoutID)
	if len(f.pages) == 0 {
		f.stop()
		f.stop = nil
	}
}

// read returns the last known version and a channel that is closed when there is another one.
func (w *versionWatch) read() (version int64, isKnown, isGone bool, changed <-chan struct{}) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	return w.page.version, w.page.isKnown, w.page.isGone, w.page.changed
}

// poll asks for all versions at an interval: a block more under a payment is no change in the audit log.
func (f *versionFeed) poll(ctx context.Context) {
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.refresh(ctx, nil)
		}
	}
}

// follow asks for the versions of the checkouts that the audit log names.
func (f *versionFeed) follow(ctx context.Context) {
	watch := f.changes.StartWatch("", f.changes.Position())
	defer watch.Close()
	for {
		news := watch.Wait(ctx)
		if ctx.Err() != nil || news.IsOver {
			return
		}
		if news.HasGap {
			f.refresh(ctx, nil)
			continue
		}
		var changed []string
		for _, c := range news.Changes {
			if c.ResourceKind == checkoutKind {
				changed = append(changed, c.ResourceID)
			}
		}
		if len(changed) > 0 {
			f.refresh(ctx, changed)
		}
	}
}

// refresh asks for the versions of those of some checkouts that are open, and of all open ones for nil. Where the
// question fails, pages stay as new as they can be, and the next question follows.
func (f *versionFeed) refresh(ctx context.Context, checkoutIDs []string) {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.mu.Lock()
	var ids []string
	if checkoutIDs == nil {
		ids = slices.Collect(maps.Keys(f.pages))
	} else {
		for _, checkoutID := range checkoutIDs {
			if f.pages[checkoutID] != nil {
				ids = append(ids, checkoutID)
			}
		}
	}
	f.mu.Unlock()
	for chunk := range slices.Chunk(ids, versionsMax) {
		asked, cancel := context.WithTimeout(ctx, versionTimeout)
		found, err := f.ask(asked, chunk)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "payerpages: the versions of open checkouts are unknown",
				slog.Any("error", err))
			return
		}
		f.note(chunk, found)
	}
}

// note keeps the answer to a question and tells the pages whose checkout changed.
func (f *versionFeed) note(ids []string, found map[string]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, checkoutID := range ids {
		page := f.pages[checkoutID]
		if page == nil {
			continue
		}
		version, isThere := found[checkoutID]
		if page.isKnown && page.version == version && page.isGone == !isThere {
			continue
		}
		page.version, page.isKnown, page.isGone = version, isThere, !isThere
		close(page.changed)
		page.changed = make(chan struct{})
	}
}
