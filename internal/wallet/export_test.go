package wallet

import "github.com/cofferpay/coffer/internal/chain"

// CreatedMax is how many new addresses a match reads.
const CreatedMax = createdMax

// AddToFilter makes the filter take an address for ours.
func (m *Matcher) AddToFilter(f chain.Family, a chain.Address) {
	m.filter.mu.Lock()
	defer m.filter.mu.Unlock()
	m.filter.addKey(filterKey(nil, f, string(a)))
}

// Source returns the database of the filter.
func (m *Matcher) Source() string {
	if f := m.currentFilter(); f != nil {
		return f.source
	}
	return ""
}

// Snapshot returns the base of the filter.
func (m *Matcher) Snapshot() string { return m.filter.currentBase().snapshot }

// SyntheticFilter is a filter that no database fills.
type SyntheticFilter struct{ f *filter }

// NewSyntheticFilter returns one for a number of addresses.
func NewSyntheticFilter(addresses int) SyntheticFilter {
	return SyntheticFilter{newFilter(addresses, reading{})}
}

// Add adds an address.
func (s SyntheticFilter) Add(f chain.Family, a string) { s.f.addKey(filterKey(nil, f, a)) }

// Sift returns those addresses that may be ours.
func (s SyntheticFilter) Sift(f chain.Family, addresses []chain.Address) []chain.Address {
	return s.f.sift(f, addresses)
}

// Bytes is the size of the filter in memory.
func (s SyntheticFilter) Bytes() int { return s.f.stats().Bytes }
