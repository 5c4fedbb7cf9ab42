package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/platform/groupcommit"
)

// echo returns a writer whose work takes a second and answers each item with the item.
func echo(groups *[][]int) *groupcommit.Writer[int, int] {
	return &groupcommit.Writer[int, int]{
		WorkMax: time.Minute, GroupMax: 10, WaitingMax: 20,
		ProcessGroup: func(_ context.Context, asked []int) []groupcommit.Answer[int] {
			*groups = append(*groups, slices.Clone(asked))
			<-time.After(time.Second) // in the synctest bubble: no real time passes
			out := make([]groupcommit.Answer[int], len(asked))
			for i, q := range asked {
				out[i] = groupcommit.Answer[int]{Value: q}
				if q < 0 {
					out[i] = groupcommit.Answer[int]{Err: fmt.Errorf("refused %d", q)}
				}
			}
			return out
		},
	}
}

func TestWhatArrivedMeanwhileIsTheNextGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		l := echo(&groups)
		var wg sync.WaitGroup
		ask := func(q int) {
			wg.Go(func() {
				got, err := l.SubmitAndWait(t.Context(), q)
				if q < 0 && err == nil || q >= 0 && (err != nil || got != q) {
					t.Errorf("%d: got %v, %v", q, got, err)
				}
			})
			synctest.Wait()
		}
		start := time.Now()
		ask(1)
		ask(2)
		ask(-3)
		ask(4)
		wg.Wait()
		if want := [][]int{{1}, {2, -3, 4}}; !slices.EqualFunc(groups, want, slices.Equal) {
			t.Errorf("got groups %v, want %v", groups, want)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("got %v, want 2s: nobody waits for a clock", took)
		}
		ask(5)
		wg.Wait()
		if got := groups[len(groups)-1]; !slices.Equal(got, []int{5}) {
			t.Errorf("after a rest: got %v, want 5 alone", got)
		}
	})
}

func TestASecondGroupIsServedOnlyWhenEnoughWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		l := echo(&groups)
		l.SecondGroupMin = 3
		var wg sync.WaitGroup
		began := time.Now()
		var took [7]time.Duration
		ask := func(q int) {
			wg.Go(func() {
				if got, err := l.SubmitAndWait(t.Context(), q); err != nil || got != q {
					t.Errorf("%d: got %v, %v, want its answer", q, got, err)
				}
				took[q] = time.Since(began)
			})
			synctest.Wait()
		}
		// The first alone; three next to it; the others, although they are three again, after one
		// of the two.
		for q := range 7 {
			ask(q)
		}
		wg.Wait()
		if want := [][]int{{0}, {1, 2, 3}, {4, 5, 6}}; !slices.EqualFunc(groups, want, slices.Equal) {
			t.Errorf("got groups %v, want %v", groups, want)
		}
		for q, want := range [7]time.Duration{1, 1, 1, 1, 2, 2, 2} {
			if took[q] != want*time.Second {
				t.Errorf("%d: got %v, want %ds", q, took[q], want)
			}
		}
		// The items that are left when both have ended are served, in any number.
		began = time.Now()
		for q := range 5 {
			ask(q)
		}
		wg.Wait()
		if took[4] != 2*time.Second {
			t.Errorf("the last: got %v, want 2s", took[4])
		}
	})
}

func TestGroupsAndTheLineHaveAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		l := echo(&groups)
		var wg sync.WaitGroup
		for q := range 21 {
			wg.Go(func() {
				if _, err := l.SubmitAndWait(t.Context(), q); err != nil {
					t.Errorf("%d: got %v, want an answer", q, err)
				}
			})
			synctest.Wait()
		}
		if _, err := l.SubmitAndWait(t.Context(), 99); !errors.Is(err, groupcommit.ErrFull) {
			t.Errorf("got %v, want %v", err, groupcommit.ErrFull)
		}
		if got := l.WaitingCount(); got != 20 {
			t.Errorf("got %v waiting, want 20", got)
		}
		wg.Wait()
		if len(groups) != 3 || len(groups[1]) != 10 || len(groups[2]) != 10 {
			t.Errorf("got groups %v, want 1, 10 and 10", groups)
		}
	})
}

func TestACallerWhoLeavesKnowsWhetherItWasTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		l := echo(&groups)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := l.SubmitAndWait(ctx, 1); err != nil || got != 1 {
				t.Errorf("taken: got %v, %v, want its answer", got, err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := l.SubmitAndWait(ctx, 2); !errors.Is(err, groupcommit.ErrAbandoned) ||
				!errors.Is(err, context.Canceled) {
				t.Errorf("not taken: got %v, want %v", err, groupcommit.ErrAbandoned)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if len(groups) != 1 {
			t.Errorf("got groups %v, want the first alone", groups)
		}
	})
}

func TestAPanicOfTheWorkReachesItsCallersAndNobodyElse(t *testing.T) {
	t.Parallel()
	l := &groupcommit.Writer[int, int]{
		WorkMax: time.Minute, GroupMax: 10, WaitingMax: 10,
		ProcessGroup: func(_ context.Context, asked []int) []groupcommit.Answer[int] {
			if asked[0] == 0 {
				panic("impossible")
			}
			return make([]groupcommit.Answer[int], len(asked))
		},
	}
	func() {
		defer func() {
			if p := recover(); p != "impossible" {
				t.Errorf("got %v, want the panic", p)
			}
		}()
		_, _ = l.SubmitAndWait(t.Context(), 0)
	}()
	if _, err := l.SubmitAndWait(t.Context(), 1); err != nil {
		t.Errorf("got %v, want the line to go on", err)
	}
}
