// Package group lets callers who come at the same time be served together: what
// has arrived while a group was being served is the next group. Nobody waits for
// a clock, so a caller who is alone is served alone and at once, and the group
// grows exactly as far as the work is slower than the callers.
//
// What never happens here: a queue without an end, an answer for something that
// was not taken, a caller who leaves without knowing whether it was. What a
// crash leaves: nothing; a line is memory, and what its work made durable is for
// the work to say.
package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrFull is the answer to a caller for whom there is no room: nothing was done.
var ErrFull = errors.New("too many are waiting")

// ErrLeft is the answer to a caller whose context ended before it was its turn:
// nothing was done. It comes with the context's own error.
var ErrLeft = errors.New("left before it was taken")

// Answer is what the work says to one caller.
type Answer[A any] struct {
	Value A
	Err   error
}

// Line serves callers in the order in which they came, one group at a time, or two.
// Its members are set before its first use. Safe for concurrent use.
type Line[Q, A any] struct {
	// Work serves a group: one answer for each question, in their order. Its
	// context ends after WorkMax and with no caller.
	Work    func(ctx context.Context, asked []Q) []Answer[A]
	WorkMax time.Duration
	// GroupMax is how many are served together, WaitingMax how many may wait.
	GroupMax, WaitingMax int
	// BesideMin, unless zero, is how many have to wait for a second group to be served
	// beside the first: enough that it is worth more to them than what comes with
	// every group. Then the answers of the two come in no order.
	BesideMin int

	mu      sync.Mutex
	waiting []*caller[Q, A]
	serving int // groups
}

type caller[Q, A any] struct {
	asked    Q
	answered chan reply[A] // has room for the one answer
}

type reply[A any] struct {
	Answer[A]
	panicked any
}

// Ask waits in line and for the answer. Once a question was taken into a group
// only the work answers it, whatever happens to ctx meanwhile. Errors: ErrFull,
// ErrLeft, and those of the work. When the work panics, every caller of the
// group does.
//
// The line works in a goroutine that lives only while somebody waits here: who
// waits for the callers has waited for it.
func (l *Line[Q, A]) Ask(ctx context.Context, q Q) (A, error) {
	c := &caller[Q, A]{asked: q, answered: make(chan reply[A], 1)}
	var none A
	l.mu.Lock()
	if len(l.waiting) >= l.WaitingMax {
		l.mu.Unlock()
		return none, ErrFull
	}
	l.waiting = append(l.waiting, c)
	begin := l.begin()
	l.mu.Unlock()
	if begin {
		go l.serve()
	}
	select {
	case r := <-c.answered:
		return r.result()
	case <-ctx.Done():
		if l.leave(c) {
			return none, fmt.Errorf("%w: %w", ErrLeft, context.Cause(ctx))
		}
		return (<-c.answered).result()
	}
}

func (r reply[A]) result() (A, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.Value, r.Err
}

// leave takes a caller out of the line, unless its group is under way.
func (l *Line[Q, A]) leave(c *caller[Q, A]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// begin tells whether one more group is to be served now, and counts it. Who waits for
// more is served when the group before is: the last to end never leaves anybody.
func (l *Line[Q, A]) begin() bool {
	begin := len(l.waiting) > 0 && (l.serving == 0 || l.serving == 1 && l.BesideMin > 0 && len(l.waiting) >= l.BesideMin)
	if begin {
		l.serving++
	}
	return begin
}

// serve works until no group is to be served.
func (l *Line[Q, A]) serve() {
	for {
		l.mu.Lock()
		n := min(len(l.waiting), l.GroupMax)
		taken := slices.Clone(l.waiting[:n])
		l.waiting = slices.Delete(l.waiting, 0, n)
		l.mu.Unlock()
		if n > 0 { // else they have left
			l.answer(taken)
		}
		l.mu.Lock()
		l.serving--
		again := l.begin()
		l.mu.Unlock()
		if !again {
			return
		}
	}
}

func (l *Line[Q, A]) answer(taken []*caller[Q, A]) {
	defer func() {
		if p := recover(); p != nil {
			for _, c := range taken {
				c.answered <- reply[A]{panicked: p}
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), l.WorkMax)
	defer cancel()
	asked := make([]Q, len(taken))
	for i, c := range taken {
		asked[i] = c.asked
	}
	answers := l.Work(ctx, asked)
	if len(answers) != len(taken) {
		panic(fmt.Sprintf("group: %d answers to %d questions", len(answers), len(taken)))
	}
	for i, c := range taken {
		c.answered <- reply[A]{Answer: answers[i]}
	}
}

// Waiting is how many wait and were not taken yet.
func (l *Line[Q, A]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
