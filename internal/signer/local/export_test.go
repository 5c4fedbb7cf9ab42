package local

// AfterSync puts f between the fsync of an entry and the answer.
func (s *Signer) AfterSync(f func()) { s.journal.afterSync = f }

// BreakDisk lets every further write fail.
func (s *Signer) BreakDisk() { s.journal.file.Close() }

// Index is what the rules know.
func (s *Signer) Index() any { return s.index }
