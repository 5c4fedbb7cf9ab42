package wallet

import (
	"errors"
	"sync"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
)

// filter is a Bloom filter of the addresses that a snapshot of the database shows, and of later ones. It has
// every address that its base shows.
type filter struct {
	source   string
	capacity int
	builtAt  time.Time

	mu    sync.RWMutex
	bits  *bloom.BloomFilter
	count int
	base  string // a pg_snapshot
	// pending becomes the base as soon as the write-ahead log is on disk up to pendingEnd. A server that crashes
	// gives out again the numbers of transactions whose end it lost, and then the pending snapshot would hide them.
	pending    string
	pendingEnd int64
}

const (
	// With so many bits and hashes for each address, a full filter takes one of 1,300 strangers for ours.
	bitsPerAddress, hashesPerAddress = 15, 10
	// capacityMin is the least number of addresses for which a filter is made.
	capacityMin = 10_000
	// A filter is made for more addresses than there are, by a part of them.
	headroomNumerator, headroomDenominator = 13, 10
)

// newFilter returns an empty filter for a number of addresses, and for more. Its base is the position at which
// the build begins.
func newFilter(addresses int, start reading) *filter {
	capacity := max(addresses*headroomNumerator/headroomDenominator, capacityMin)
	f := &filter{
		source: start.source, capacity: capacity, builtAt: time.Now(),
		bits:    bloom.New(uint(capacity)*bitsPerAddress, hashesPerAddress),
		pending: start.snapshot, pendingEnd: start.inserted,
	}
	f.promote(start)
	return f
}

var (
	errOtherSource = errors.New("the database was restarted, restored or replaced since its snapshot")
	errUnstamped   = errors.New("the trigger wallets_written of wallets is missing or does not always fire")
)

// checkSource refuses a reading of another database, or of another start of its server.
func (f *filter) checkSource(now reading) error {
	switch {
	case now.source == "":
		return errUnstamped
	case now.source != f.source:
		return errOtherSource
	}
	return nil
}

// promote makes the pending snapshot the base if its part of the write-ahead log is on disk.
func (f *filter) promote(now reading) {
	if f.pending != "" && now.flushed >= f.pendingEnd {
		f.base, f.pending = f.pending, ""
	}
}

func (f *filter) currentBase() position {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return position{f.source, f.base}
}

// advance adds what was committed between a base of the filter and a reading.
func (f *filter) advance(base position, now reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range now.created {
		f.addKey([]byte(key))
	}
	f.promote(now)
	// Without a base the reading has nothing of what was committed while the filter was built.
	if f.pending == "" && base.snapshot != "" {
		f.pending, f.pendingEnd = now.snapshot, now.inserted
	}
}

// sift returns those addresses that may be ours.
func (f *filter) sift(family chain.Family, addresses []chain.Address) (candidates []chain.Address) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var key []byte
	for _, a := range addresses {
		if key = filterKey(key[:0], family, string(a)); f.bits.Test(key) {
			candidates = append(candidates, a)
		}
	}
	return candidates
}

// filterKey appends the key of an address, as readingSQL returns it.
func filterKey(key []byte, family chain.Family, address string) []byte {
	return append(append(append(key, family...), ' '), address...)
}

// addRows adds the addresses of rows of a family and an address.
func (f *filter) addRows(rows pgx.Rows) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var key []byte
	for rows.Next() {
		columns := rows.RawValues() // text is the same in both formats
		key = append(append(append(key[:0], columns[0]...), ' '), columns[1]...)
		f.addKey(key)
	}
	return rows.Err()
}

// addKey adds a key, under the lock.
func (f *filter) addKey(key []byte) {
	if !f.bits.TestAndAdd(key) {
		f.count++
	}
}

// isFull reports whether the filter has more addresses than it was made for. It still misses none.
func (f *filter) isFull() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.count > f.capacity
}

func (f *filter) stats() FilterStats {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return FilterStats{Addresses: f.count, Bytes: int(f.bits.Cap() / 8), BuiltAt: f.builtAt}
}
