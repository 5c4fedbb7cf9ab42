package kernel

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterTakesABurstAndThenItsRate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Rate{Count: 2, Period: time.Second, Burst: 3}, func() time.Time { return now })
	for i := range 3 {
		if v := l.countRequest("a"); !v.allowed || v.remaining != 2-i {
			t.Fatalf("request %d: got %+v, want it taken and %d left", i, v, 2-i)
		}
	}
	if v := l.countRequest("a"); v.allowed || v.retry != 500*time.Millisecond || v.reset != 1500*time.Millisecond {
		t.Errorf("one too many: got %+v, want a wait of half a second", v)
	}
	if v := l.countRequest("b"); !v.allowed {
		t.Error("another caller: got a refusal, want it taken")
	}
	now = now.Add(500 * time.Millisecond)
	if v := l.countRequest("a"); !v.allowed || v.remaining != 0 {
		t.Errorf("after the wait: got %+v, want it taken", v)
	}
	if v := l.countRequest("a"); v.allowed {
		t.Error("again at once: got it taken, want a refusal")
	}
	now = now.Add(time.Hour)
	if v := l.countRequest("a"); !v.allowed || v.remaining != 2 {
		t.Errorf("after a long time: got %+v, want a full burst and no more", v)
	}
	now = now.Add(-time.Minute)
	if v := l.countRequest("c"); !v.allowed {
		t.Error("a clock that went back: got a refusal of a new caller")
	}
}

func TestARequestThatIsTakenBackLeavesItsRoom(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Rate{Count: 2, Period: time.Second, Burst: 3}, func() time.Time { return now })
	l.uncountRequest("new")
	for range 3 {
		l.countRequest("a")
	}
	l.uncountRequest("a")
	if v := l.countRequest("a"); !v.allowed || v.remaining != 0 {
		t.Errorf("got %+v, want it taken in the room of the other", v)
	}
	if v := l.countRequest("a"); v.allowed {
		t.Error("got one more taken, want a refusal")
	}
	if v := l.countRequest("new"); !v.allowed || v.remaining != 2 {
		t.Errorf("got %+v, want a full burst and no more", v)
	}
}

// The bound holds for any number of addresses of one party, even while each of them waits.
func TestLimiterRemembersSoManyCallersAtMost(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	l := newLimiter(Rate{Count: 1, Period: time.Hour, Burst: 1}, func() time.Time { return now })
	for i := range 3 * bucketsMax {
		if i%(bucketsMax/3) == 0 {
			if v := l.countRequest("again and again"); v.allowed != (i == 0) {
				t.Fatalf("after %d callers: got %+v for one who has to wait", i, v)
			}
		}
		l.countRequest(fmt.Sprint(i))
		if n := len(l.recent) + len(l.older); n > bucketsMax {
			t.Fatalf("after %d callers: got %d remembered, want at most %d", i, n, bucketsMax)
		}
	}
}

// Rule LIM-4.
func TestTheUsualRatesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	want := Limits{
		Reads: Rate{200, time.Second, 400}, Writes: Rate{100, time.Second, 200}, Quotes: Rate{20, time.Second, 40},
		Exports: Rate{5, time.Second, 5}, Failures: Rate{20, time.Minute, 20},
	}
	if UsualLimits != want {
		t.Errorf("got %+v, want %+v", UsualLimits, want)
	}
}
