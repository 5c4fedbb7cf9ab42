// Package fifo is a bounded cache in memory of the newest entries. It is for facts that never
// change, such as blocks by their hashes. A fact that was evicted is requested again, so a crash
// loses nothing.
package fifo

import (
	"slices"
	"sync"
)

// Cache holds the entries that were put last. Its zero value is empty.
type Cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
	keys   []K // oldest first
}

// Get returns the value of a key.
func (cache *Cache[K, V]) Get(key K) (V, bool) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	v, ok := cache.values[key]
	return v, ok
}

// Put stores a value, replaces an earlier one of its key, and keeps at most sizeMax entries with
// it. Each call may give another maximum.
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
