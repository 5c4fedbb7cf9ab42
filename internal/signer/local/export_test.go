package local

// AfterSync runs f between the fsync of an entry and the answer.
func (s *Signer) AfterSync(f func()) { s.journal.afterSync = f }

// BreakDisk makes every further write fail.
func (s *Signer) BreakDisk() { s.journal.file.Close() }

// FailSync makes the next fsync fail and every later one succeed, like a kernel that has reported
// its lost pages once.
func (s *Signer) FailSync(err error) {
	works := s.journal.sync
	s.journal.sync = func() error {
		s.journal.sync = works
		return err
	}
}

// Index returns the journal index, which the rules read.
func (s *Signer) Index() any { return s.index }
