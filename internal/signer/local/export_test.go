package local

// AfterSync puts f between the fsync of an entry and the answer.
func (s *Signer) AfterSync(f func()) { s.journal.afterSync = f }

// BreakDisk lets every further write fail.
func (s *Signer) BreakDisk() { s.journal.file.Close() }

// FailSync lets the next fsync fail and every later one work, as a kernel does that has
// told of what it lost.
func (s *Signer) FailSync(err error) {
	works := s.journal.sync
	s.journal.sync = func() error {
		s.journal.sync = works
		return err
	}
}

// Index is what the rules know.
func (s *Signer) Index() any { return s.index }
