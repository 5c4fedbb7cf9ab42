package local

import (
	"reflect"

	"github.com/cofferpay/coffer/internal/signer/journalfile"
)

// AfterSync runs f between the fsync of an entry and the answer.
func (s *Signer) AfterSync(f func()) { s.journal.AfterSync = f }

// BreakDisk makes every further write fail.
func (s *Signer) BreakDisk() { s.journal.Disk.Close() }

// FailSync makes the next fsync fail and every later one succeed, like a kernel that has reported
// its lost pages once.
func (s *Signer) FailSync(err error) {
	s.journal.Disk = &failingDisk{Disk: s.journal.Disk, err: err}
}

type failingDisk struct {
	journalfile.Disk
	err error
}

func (d *failingDisk) Sync() error {
	err := d.err
	if d.err = nil; err == nil {
		return d.Disk.Sync()
	}
	return err
}

// Index returns the journal as the rules know it.
func (s *Signer) Index() any {
	index := reflect.ValueOf(s.rules).Elem().FieldByName("index")
	return reflect.NewAt(index.Type(), index.Addr().UnsafePointer()).Elem().Interface()
}
