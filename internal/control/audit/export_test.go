package audit

// Hasten makes batches small and disables the lock that keeps two sealers from the same work.
func (s *Sealer) Hasten(batch int) { s.batch, s.skipLock = batch, true }
