// Package kept remembers what was found out last, a bounded number of things, in memory.
// It is for what never changes, as blocks by their hashes: what is gone from here is asked
// for again, so a crash loses nothing.
package kept

import (
	"slices"
	"sync"
)

// Cache are the things that were kept last. Its zero value is empty.
type Cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
	keys   []K // oldest first
}

// Get is what was kept under a key.
func (cache *Cache[K, V]) Get(key K) (V, bool) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	v, ok := cache.values[key]
	return v, ok
}

// Put keeps so many at most, this one among them; each call may name another number. What
// was under its key goes.
func (cache *Cache[K, V]) Put(key K, v V, sizeMax int) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.values == nil {
		cache.values = map[K]V{}
	}
	if _, exists := cache.values[key]; exists {
		cache.keys = slices.DeleteFunc(cache.keys, func(k K) bool { return k == key })
	}
	for len(cache.keys) >= max(1, sizeMax) {
		delete(cache.values, cache.keys[0])
		cache.keys = slices.Delete(cache.keys, 0, 1)
	}
	cache.values[key], cache.keys = v, append(cache.keys, key)
}
