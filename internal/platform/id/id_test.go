package id_test

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/id"
)

func TestWhatIsFoundAgainHasTheSameId(t *testing.T) {
	t.Parallel()
	first := id.Derive("dep", "org_1", "0xab", "3")
	if again := id.Derive("dep", "org_1", "0xab", "3"); again != first {
		t.Errorf("got %v, want %v", again, first)
	}
	// The form never changes, because integrators store these ids.
	if want := "dep_4VCWZN37R22H95MR52K5S7CW2Q"; first != want {
		t.Errorf("got %v, want %v", first, want)
	}
	for _, other := range []string{
		id.Derive("dep", "org_1", "0xab", "4"), id.Derive("dep", "org_1", "0xab3"),
		id.Derive("dep", "org_1", "0xab3", ""),
		id.Derive("dep", "org_10xab", "3"), id.Derive("evt", "org_1", "0xab", "3"),
	} {
		if other[4:] == first[4:] {
			t.Errorf("got %v for other parts", other)
		}
	}
}

func TestEveryIdHasTheFormOfOne(t *testing.T) {
	t.Parallel()
	for _, made := range []string{id.Derive("dep"), id.Derive("dep", "a", "b"), id.New("dep", time.Now())} {
		if !id.IsValid("dep", made) || id.IsValid("evt", made) {
			t.Errorf(
				"%s: got Is %v for dep, %v for evt, want true, false", made, id.IsValid("dep", made),
				id.IsValid("evt", made),
			)
		}
	}
}
