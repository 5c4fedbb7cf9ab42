package fifo

import "testing"

func TestWhatWasKeptLastIsThere(t *testing.T) {
	t.Parallel()
	var cache Cache[string, int]
	if _, ok := cache.Get("a"); ok {
		t.Error("got something out of nothing")
	}
	for i, k := range []string{"a", "b", "a", "c"} {
		cache.Put(k, i, 2)
	}
	for _, c := range []struct {
		key  string
		want int
		ok   bool
	}{{"a", 2, true}, {"b", 0, false}, {"c", 3, true}} {
		if got, ok := cache.Get(c.key); got != c.want || ok != c.ok {
			t.Errorf("%s: got %d, %v, want %d, %v", c.key, got, ok, c.want, c.ok)
		}
	}
	if len(cache.values) != len(cache.keys) {
		t.Errorf("got %d things under %d keys", len(cache.values), len(cache.keys))
	}
}
