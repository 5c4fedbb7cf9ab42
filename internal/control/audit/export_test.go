package audit

import "github.com/cofferpay/coffer/internal/platform/pagination"

// Hasten makes batches small and disables the lock that keeps two sealers from the same work.
func (s *Sealer) Hasten(batch int) { s.batch, s.skipLock = batch, true }

// Query returns the query of the entries that match the filter.
func (f Filter) Query() *pagination.Query { return f.query() }

// SealOf, Places and IsSealed return SQL of places.
var (
	SealOf       = sealOf
	SealsBetween = sealsBetween
	IsSealed     = isSealed
)
