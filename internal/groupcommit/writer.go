// Package groupcommit lets callers who come at the same time be served together: what
// has arrived while a group was being served is the next group. Nobody waits for
// a clock, so a caller who is alone is served alone and at once, and the group
// grows exactly as far as the work is slower than the callers.
//
// What never happens here: a queue without an end, an answer for something that
// was not taken, a caller who leaves without knowing whether it was. What a
// crash leaves: nothing; a line is memory, and what its work made durable is for
// the work to say.
package groupcommit

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

// ErrAbandoned is the answer to a caller whose context ended before it was its turn:
// nothing was done. It comes with the context's own error.
var ErrAbandoned = errors.New("left before it was taken")

// Answer is what the work says to one caller.
type Answer[A any] struct {
	Value A
	Err   error
}

// Writer serves callers in the order in which they came, one group at a time, or two.
// Its members are set before its first use. Safe for concurrent use.
type Writer[Q, A any] struct {
	// ProcessGroup serves a group: one answer for each question, in their order. Its
	// context ends after WorkMax and with no caller.
	ProcessGroup func(ctx context.Context, asked []Q) []Answer[A]
	WorkMax      time.Duration
	// GroupMax is how many are served together, WaitingMax how many may wait.
	GroupMax, WaitingMax int
	// SecondGroupMin, unless zero, is how many have to wait for a second group to be served
	// beside the first: enough that it is worth more to them than what comes with
	// every group. Then the answers of the two come in no order.
	SecondGroupMin int

	mu      sync.Mutex
	waiting []*caller[Q, A]
	serving int // groups
}

type caller[Q, A any] struct {
	question Q
	answered chan reply[A] // has room for the one answer
}

type reply[A any] struct {
	Answer[A]
	panicked any
}

// SubmitAndWait waits in line and for the answer. Once a question was taken into a group
// only the work answers it, whatever happens to ctx meanwhile. Errors: ErrFull,
// ErrAbandoned, and those of the work. When the work panics, every caller of the
// group does.
//
// The line works in a goroutine that lives only while somebody waits here: who
// waits for the callers has waited for it.
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

// removeWaiting takes a caller out of the line, unless its group is under way.
func (l *Writer[Q, A]) removeWaiting(c *caller[Q, A]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// startGroup tells whether one more group is to be served now, and counts it. Who waits for
// more is served when the group before is: the last to end never leaves anybody.
func (l *Writer[Q, A]) startGroup() bool {
	isDue := len(l.waiting) > 0 && (l.serving == 0 || l.serving == 1 && l.SecondGroupMin > 0 && len(l.waiting) >= l.SecondGroupMin)
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
		if n > 0 { // else they have left
			l.answerGroup(taken)
		}
		l.mu.Lock()
		l.serving--
		isDue := l.startGroup()
		l.mu.Unlock()
		if !isDue {
			return
		}
	}
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

// WaitingCount is how many wait and were not taken yet.
func (l *Writer[Q, A]) WaitingCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
