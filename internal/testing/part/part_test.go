package part

import (
	"slices"
	"testing"
)

func TestTheDaysTogetherPlayEveryCaseOnce(t *testing.T) {
	t.Parallel()
	cases := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for parts := 1; parts <= len(cases); parts++ {
		var played []string
		for day := 20_000; day < 20_000+parts; day++ {
			chosen := choose(cases, day, parts)
			if len(chosen) == 0 || len(chosen) > len(cases)/parts+1 {
				t.Errorf("got %v on day %d of %d parts, want about the same number every day", chosen, day, parts)
			}
			played = append(played, chosen...)
		}
		if slices.Sort(played); !slices.Equal(played, cases) {
			t.Errorf("got %v in %d days, want every case once", played, parts)
		}
	}
}

func TestAllCasesAreStillPlayedAtOnceOnRequest(t *testing.T) {
	t.Setenv(AllEnv, "all")
	cases := []int{1, 2, 3, 4, 5}
	if got := OfToday(t, cases, 3); !slices.Equal(got, cases) {
		t.Errorf("got %v, want %v", got, cases)
	}
	t.Setenv(AllEnv, "")
	if got := OfToday(t, cases, 3); len(got) != 1 && len(got) != 2 {
		t.Errorf("got %v, want a third", got)
	}
}
