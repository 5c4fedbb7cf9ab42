// Package groupcommit serves callers who arrive at the same time together (group commit). The callers who
// arrive while one group is served are the next group. No caller waits for a clock: a single caller
// is served alone and at once. The group grows exactly as far as the work is slower than the
// callers.
//
// The queue is always bounded. A request that was not taken gets no answer of the work, and every
// caller learns whether its request was taken. A crash loses the queue, which is memory alone. The
// work itself says what it made durable.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrFull is the error for a caller for whom the queue has no room: nothing was done.
var ErrFull = errors.New("too many are waiting")

// ErrAbandoned is the error for a caller whose context ended before its request was taken: nothing
// was done. The context's own error comes with it.
var ErrAbandoned = errors.New("left before it was taken")

// Answer is the work's answer to one caller.
type Answer[A any] struct {
	Value A
	Err   error
}

// Writer serves callers in the order of their arrival, one group at a time, or two. Its fields are
// set before its first use. It is safe for concurrent use.
type Writer[Q, A any] struct {
	// ProcessGroup serves a group. It returns one answer for each request, in their order. Its
	// context ends after WorkMax and is independent of every caller's.
	ProcessGroup func(ctx context.Context, asked []Q) []Answer[A]
	WorkMax      time.Duration
	// GroupMax is how many requests are served together, and WaitingMax how many may wait.
	GroupMax, WaitingMax int
	// SecondGroupMin is how many requests must wait before a second group is served in parallel to
	// the first; zero: never. It should be high enough that the second group is worth its fixed
	// costs. The answers of the two groups then come in no order. Where measurement shows that one
	// group at a time serves more requests, no second one begins.
	SecondGroupMin int

	mu      sync.Mutex
	pace    pace
	waiting []*caller[Q, A]
	serving int // groups
}

type caller[Q, A any] struct {
	question Q
	answered chan reply[A] // has room for one answer
}

type reply[A any] struct {
	Answer[A]
	panicked any
}

// SubmitAndWait waits in the queue and for the answer. Once a request was taken into a group, only
// the work answers it, whatever happens to ctx meanwhile. Errors: ErrFull, ErrAbandoned, and those
// of the work. If the work panics, every caller of the group panics.
//
// The Writer works in a goroutine that exists only while a caller waits here. So a process that has
// waited for its callers has also waited for that goroutine.
func (l *Writer[Q, A]) SubmitAndWait(ctx context.Context, q Q) (A, error) {
	c := &caller[Q, A]{question: q, answered: make(chan reply[A], 1)}
	var zero A
	l.mu.Lock()
	if len(l.waiting) >= l.WaitingMax {
		l.mu.Unlock()
		return zero, ErrFull
	}
	l.waiting = append(l.waiting, c)
	shouldServe := l.startGroup()
	l.mu.Unlock()
	if shouldServe {
		go l.serveGroups()
	}
	select {
	case r := <-c.answered:
		return r.unwrap()
	case <-ctx.Done():
		if l.removeWaiting(c) {
			return zero, fmt.Errorf("%w: %w", ErrAbandoned, context.Cause(ctx))
		}
		return (<-c.answered).unwrap()
	}
}

func (r reply[A]) unwrap() (A, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.Value, r.Err
}

// removeWaiting removes a caller from the queue, unless its group is being served.
func (l *Writer[Q, A]) removeWaiting(c *caller[Q, A]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// startGroup reports whether one more group is to be served now, and counts it. Other callers are
// served after a group ends: the goroutine that ends last leaves no caller behind.
func (l *Writer[Q, A]) startGroup() bool {
	isDue := len(l.waiting) > 0 &&
		(l.serving == 0 || l.serving < l.pace.groupsMax() && l.SecondGroupMin > 0 && len(l.waiting) >= l.SecondGroupMin)
	if isDue {
		l.serving++
	}
	return isDue
}

// serveGroups works until no group is to be served.
func (l *Writer[Q, A]) serveGroups() {
	for {
		l.mu.Lock()
		n := min(len(l.waiting), l.GroupMax)
		taken := slices.Clone(l.waiting[:n])
		l.waiting = slices.Delete(l.waiting, 0, n)
		l.mu.Unlock()
		if n > 0 { // 0: the callers have left
			l.answerGroup(taken)
		}
		l.mu.Lock()
		l.notePace(n)
		l.serving--
		isDue := l.startGroup()
		l.mu.Unlock()
		if !isDue {
			return
		}
	}
}

// notePace counts a group that was served.
func (l *Writer[Q, A]) notePace(requests int) {
	if requests == 0 || l.SecondGroupMin == 0 {
		return
	}
	l.pace.note(time.Now(), requests, l.serving > 1 || len(l.waiting) >= l.SecondGroupMin)
}

func (l *Writer[Q, A]) answerGroup(taken []*caller[Q, A]) {
	defer func() {
		if p := recover(); p != nil {
			for _, c := range taken {
				c.answered <- reply[A]{panicked: p}
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), l.WorkMax)
	defer cancel()
	questions := make([]Q, len(taken))
	for i, c := range taken {
		questions[i] = c.question
	}
	answers := l.ProcessGroup(ctx, questions)
	if len(answers) != len(taken) {
		panic(fmt.Sprintf("groupcommit: %d answers to %d questions", len(answers), len(taken)))
	}
	for i, c := range taken {
		c.answered <- reply[A]{Answer: answers[i]}
	}
}

// WaitingCount returns how many requests wait and were not taken.
func (l *Writer[Q, A]) WaitingCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
