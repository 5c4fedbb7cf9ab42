// Package kept remembers what was found out last, a bounded number of things, in memory.
// It is for what never changes, as blocks by their hashes: what is gone from here is asked
// for again, so a crash loses nothing.
package kept

import (
	"slices"
	"sync"
)

// Last are the things that were kept last. Its zero value is empty.
type Last[K comparable, V any] struct {
	mu   sync.Mutex
	of   map[K]V
	keys []K // oldest first
}

// Find is what was kept under a key.
func (l *Last[K, V]) Find(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.of[key]
	return v, ok
}

// Keep keeps so many at most, this one among them; each call may name another number. What
// was under its key goes.
func (l *Last[K, V]) Keep(key K, v V, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[K]V{}
	}
	if _, again := l.of[key]; again {
		l.keys = slices.DeleteFunc(l.keys, func(k K) bool { return k == key })
	}
	for len(l.keys) >= max(1, most) {
		delete(l.of, l.keys[0])
		l.keys = slices.Delete(l.keys, 0, 1)
	}
	l.of[key], l.keys = v, append(l.keys, key)
}
