package groupcommit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// serve notes groups of ten requests, each of which takes the milliseconds of its number of groups at once.
func (p *pace) serve(groups int, now *time.Time, one, two time.Duration) {
	for range groups {
		took := two
		if p.groupsMax() == 1 {
			took = one
		}
		*now = now.Add(took * time.Millisecond)
		p.note(*now, 10, true)
	}
}

const trial = 2 * (settleGroups + trialGroups)

func TestTheFasterNumberOfGroupsIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, two time.Duration
		want     int
	}{{5, 7, 1}, {7, 5, 2}, {5, 5, 2}} {
		var p pace
		now := time.Unix(0, 0)
		p.serve(trial-1, &now, c.one, c.two)
		if p.isKept {
			t.Errorf("%+v: kept before the trial has ended", c)
		}
		p.serve(keptGroups/2, &now, c.one, c.two)
		if got := p.groupsMax(); got != c.want || !p.isKept {
			t.Errorf("%+v: got %d groups, kept %t", c, got, p.isKept)
		}
	}
}

func TestAnotherTrialFollows(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(0, 0)
	p.serve(trial, &now, 5, 7)
	if p.groupsMax() != 1 {
		t.Fatalf("got %d groups, want one", p.groupsMax())
	}
	p.serve(keptGroups+trial, &now, 7, 5) // What was faster has become slower.
	if p.groupsMax() != 2 || !p.isKept {
		t.Errorf("got %d groups, kept %t, want two", p.groupsMax(), p.isKept)
	}
}

// A trial in which callers were missing for a while compares nothing.
func TestATrialThatWasInterruptedBeginsAgain(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(0, 0)
	p.serve(trial-1, &now, 5, 7)
	p.note(now, 1, false)
	p.serve(trial-1, &now, 5, 7)
	if p.isKept {
		t.Error("kept after a part of a trial")
	}
	p.serve(1, &now, 5, 7)
	if !p.isKept || p.groupsMax() != 1 {
		t.Errorf("got %d groups, kept %t, want one", p.groupsMax(), p.isKept)
	}
	p.note(now, 1, false)
	if !p.isKept || p.groupsMax() != 1 {
		t.Error("a quiet moment ends what was kept")
	}
}

// A Writer whose groups hinder each other serves one at a time, once it has measured that.
func TestGroupsThatHinderEachOtherAreServedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const groups = 4 * trial
		var serving, served, alone atomic.Int64
		w := Writer[int, int]{GroupMax: 4, WaitingMax: 64, SecondGroupMin: 2, WorkMax: time.Hour}
		w.ProcessGroup = func(_ context.Context, asked []int) []Answer[int] {
			serving.Add(1)
			<-time.After(time.Second)
			if serving.Load() > 1 { // They wait for each other.
				<-time.After(time.Minute)
			} else if n := served.Load(); n > 2*trial && n <= groups {
				alone.Add(1)
			}
			serving.Add(-1)
			served.Add(1)
			return make([]Answer[int], len(asked))
		}
		var callers sync.WaitGroup
		for range 32 {
			callers.Go(func() {
				for served.Load() <= groups {
					if _, err := w.SubmitAndWait(t.Context(), 1); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		if got := alone.Load(); got != groups-2*trial {
			t.Errorf("got %d of %d groups served alone after the trial", got, groups-2*trial)
		}
	})
}
