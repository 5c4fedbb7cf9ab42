package id_test

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/id"
)

func TestWhatIsFoundAgainHasTheSameId(t *testing.T) {
	t.Parallel()
	first := id.Of("dep", "org_1", "0xab", "3")
	if again := id.Of("dep", "org_1", "0xab", "3"); again != first {
		t.Errorf("got %v, want %v", again, first)
	}
	// For ever: integrators keep these.
	if want := "dep_4VCWZN37R22H95MR52K5S7CW2Q"; first != want {
		t.Errorf("got %v, want %v", first, want)
	}
	for _, other := range []string{
		id.Of("dep", "org_1", "0xab", "4"), id.Of("dep", "org_1", "0xab3"), id.Of("dep", "org_1", "0xab3", ""),
		id.Of("dep", "org_10xab", "3"), id.Of("evt", "org_1", "0xab", "3"),
	} {
		if other[4:] == first[4:] {
			t.Errorf("got %v for other parts", other)
		}
	}
}

func TestEveryIdHasTheFormOfOne(t *testing.T) {
	t.Parallel()
	for _, made := range []string{id.Of("dep"), id.Of("dep", "a", "b"), id.New("dep", time.Now())} {
		if !id.Is("dep", made) || id.Is("evt", made) {
			t.Errorf("%s: got Is %v for dep, %v for evt, want true, false", made, id.Is("dep", made), id.Is("evt", made))
		}
	}
}
