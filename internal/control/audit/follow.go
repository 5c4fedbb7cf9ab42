package audit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	followInterval = 250 * time.Millisecond // between two looks at the sealed log
	followBatch    = 1000                   // rows of one look
	followMemory   = 8192                   // changes that stay in memory
	// followIdle is how long a follower goes on without a watch and without a page that was written.
	followIdle = time.Minute
)

// Change names a resource that an act concerned. It has no data of the resource.
type Change struct {
	Position     int64 // in the chain of the log
	OrgID        string
	ResourceKind string
	ResourceID   string
}

// Follower reads the sealed log while people look at pages, and tells watches which resources changed. It
// reads after the commit of a change and in the order of commits, so what a watch then loads has the
// change. Any number of processes may run one. A crash loses nothing: a watch names the position from
// which it goes on, and hears if the follower does not reach back so far.
//
// The log is read, and the database does not notify: NOTIFY takes one lock over all commits.
type Follower struct {
	DB  *pg.DB
	Log *slog.Logger // nil means the default

	mu      sync.Mutex
	wake    chan struct{} // closed when a sleeping follower has to begin
	news    chan struct{} // closed and replaced when end moves
	isAwake bool
	isOver  bool
	usedAt  time.Time
	watches int
	begin   int64 // changes after this position, up to end, are in memory
	end     int64 // 0: nothing is known yet
	recent  []Change
}

// NewFollower makes a follower that reads nothing until it is used.
func NewFollower(db *pg.DB, log *slog.Logger) *Follower {
	if log == nil {
		log = slog.Default()
	}
	return &Follower{DB: db, Log: log, wake: make(chan struct{}), news: make(chan struct{})}
}

// Run follows the log until ctx ends. It sleeps while the follower is not used.
func (f *Follower) Run(ctx context.Context) error {
	defer f.End()
	for {
		f.mu.Lock()
		wake, isAwake := f.wake, f.isAwake
		f.mu.Unlock()
		if !isAwake {
			select {
			case <-ctx.Done():
				return nil
			case <-wake:
			}
		}
		isFull, err := f.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			f.Log.LogAttrs(ctx, slog.LevelWarn, "the audit log could not be followed, so pages do not update",
				slog.Any("error", err))
		}
		pause := followInterval
		if isFull && err == nil {
			pause = 0
		} else if err != nil {
			pause = errorPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// End ends every watch. The server of the pages calls it when it stops.
func (f *Follower) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isOver {
		f.isOver = true
		close(f.news)
	}
}

// Position returns how far the log is known, and 0 if it is not. A page that is loaded afterwards shows
// every change up to that position. It wakes the follower.
func (f *Follower) Position() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.use()
	return f.end
}

// use wakes the follower. The caller holds the lock.
func (f *Follower) use() {
	f.usedAt = f.DB.Clock()()
	if !f.isAwake {
		f.isAwake = true
		close(f.wake)
	}
}

// step reads what was sealed since the last look.
func (f *Follower) step(ctx context.Context) (isFull bool, err error) {
	f.mu.Lock()
	after := f.end
	if f.watches == 0 && f.DB.Clock()().Sub(f.usedAt) > followIdle {
		f.isAwake, f.wake = false, make(chan struct{})
		f.begin, f.end, f.recent = 0, 0, nil
		f.mu.Unlock()
		return false, nil
	}
	f.mu.Unlock()
	var found []Change
	position := after
	err = f.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := tx.QueryRow(ctx, `SELECT position FROM audit_chain`).Scan(&position); err != nil {
			return fmt.Errorf("read the end of the chain: %w", err)
		}
		if after == 0 || position == after {
			return nil
		}
		isFull = position-after > followBatch
		position = min(position, after+followBatch)
		found, err = listSealed(ctx, tx, after+1, position)
		return err
	})
	if err != nil {
		return false, err
	}
	f.keep(found, after, position)
	return isFull, nil
}

// listSealed returns the changes from one position to another, in order.
func listSealed(ctx context.Context, tx pg.Tx, first, last int64) ([]Change, error) {
	rows, err := tx.Query(ctx, `
		SELECT s.position, coalesce(a.org_id, ''), a.resource_kind, a.resource_id
		FROM `+sealsBetween("$1", "$2")+` s
		CROSS JOIN LATERAL (SELECT * FROM audit_log l WHERE l.audit_id = s.audit_id LIMIT 1) a
		ORDER BY s.position`, first, last)
	if err != nil {
		return nil, fmt.Errorf("read the sealed rows from %d to %d: %w", first, last, err)
	}
	defer rows.Close()
	var found []Change
	for rows.Next() {
		var c Change
		if err := rows.Scan(&c.Position, &c.OrgID, &c.ResourceKind, &c.ResourceID); err != nil {
			return nil, fmt.Errorf("read the sealed rows from %d to %d: %w", first, last, err)
		}
		found = append(found, c)
	}
	return found, rows.Err()
}

// keep adds changes to the memory and tells the watches.
func (f *Follower) keep(found []Change, after, position int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isOver || position == after {
		return
	}
	if after == 0 {
		f.begin = position
	}
	f.end = position
	f.recent = append(f.recent, found...)
	if n := len(f.recent) - followMemory; n > 0 {
		f.begin = f.recent[n-1].Position
		f.recent = append([]Change(nil), f.recent[n:]...)
	}
	close(f.news)
	f.news = make(chan struct{})
}

// Watch is one reader of the changes. It is used by one goroutine and closed at the end.
type Watch struct {
	follower *Follower
	orgID    string
	after    int64
}

// StartWatch begins a watch of the changes of one organization after a position, of all organizations
// for "". Position 0 means that the caller does not know one.
func (f *Follower) StartWatch(orgID string, after int64) *Watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.use()
	f.watches++
	return &Watch{follower: f, orgID: orgID, after: after}
}

// Close ends the watch.
func (w *Watch) Close() {
	w.follower.mu.Lock()
	defer w.follower.mu.Unlock()
	w.follower.usedAt = w.follower.DB.Clock()()
	w.follower.watches--
}

// News is what happened since the last call of a watch.
type News struct {
	Changes  []Change
	Position int64 // up to which the changes are
	HasGap   bool  // there may be changes that are not in memory any more
	IsOver   bool  // no more news come
}

// Wait returns the news, without changes if none came until ctx ended.
func (w *Watch) Wait(ctx context.Context) News {
	f := w.follower
	for {
		f.mu.Lock()
		news := f.news
		n := News{Position: f.end, IsOver: f.isOver}
		if f.end > w.after || w.after > f.end && f.end > 0 {
			n.HasGap = w.after < f.begin || w.after > f.end
			first, _ := slices.BinarySearchFunc(f.recent, w.after+1, func(c Change, position int64) int {
				return cmp.Compare(c.Position, position)
			})
			for _, c := range f.recent[first:] {
				if w.orgID == "" || c.OrgID == w.orgID {
					n.Changes = append(n.Changes, c)
				}
			}
			w.after = f.end
		}
		f.mu.Unlock()
		if n.IsOver || n.HasGap || len(n.Changes) > 0 {
			return n
		}
		select {
		case <-ctx.Done():
			return n
		case <-news:
		}
	}
}
