// Package journalfile keeps the signer's journal: a file of hash-chained entries, one a line, that
// one process has open.
//
// It never allows:
//   - an entry that is acknowledged before it is on disk
//   - a write after one whose outcome is unknown
//   - a second process on one journal
//   - an entry that differs from the one that was written
//
// A crash leaves whole entries that the caller may not know, or a torn last line that was never
// acknowledged and that is cut off.
package journalfile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// Errors of opening a journal.
var (
	// ErrMissing says that there is no journal. An empty file counts as damage: a journal is never
	// shorter than its first entry.
	ErrMissing = errors.New("the signer's journal is missing: restore it from a copy, or let `coffer signer adopt` " +
		"rebuild it; `coffer signer init` makes a new one for an installation that has never issued an address")
	// ErrLocked says that another signer has the journal open.
	ErrLocked = errors.New("another signer has the journal open: stop it first, because an installation has exactly " +
		"one signer")
)

const (
	lineBytesMax = 1 << 20 // one entry in the file
	entriesMax   = 1000    // entries in one answer
)

// Disk is the file as the operating system gives it. Tests replace it by one that fails.
type Disk interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Close() error
}

// File is the open journal. An append gives the entry its position at once and makes it durable
// later: callers wait until syncedSeq reaches their entry. One fsync thus serves all callers that
// arrived in the meantime (group commit).
type File struct {
	Disk Disk
	// AfterSync runs between the fsync and the answer; tests crash there.
	AfterSync func()

	mu         sync.Mutex
	head       signer.Head // includes entries that are not synced yet
	lastTime   time.Time   // of the last entry
	endOffsets []int64     // endOffsets[n-1] is where entry n ends in the file
	pending    []byte      // lines that are not written yet
	syncedSeq  uint64      // entries up to here are on disk
	syncing    bool
	syncDone   *sync.Cond // broadcast when syncedSeq or failure changes
	failure    error      // a failed write: the contents of the file are unknown
}

// Create makes a journal with its first entry and refuses to replace a file. A crash
// leaves no file, or a complete one.
func Create(path string, now time.Time, first signer.Record) error {
	first.Kind, first.RecordedAt = signer.RecordGenesis, signer.FormatTime(now)
	e, err := NewEntry(signer.Head{JournalID: id.New("jrn", now)}, first)
	if err != nil {
		return err
	}
	return keys.CreateFile(path, EncodeLine(e), 0o600)
}

// Replay takes over a record that was read: its number and its time.
type Replay func(seq uint64, recordedAt time.Time, r signer.Record) error

// Open locks a journal, checks all of it and passes every record to replay. A last line
// without its end was never acknowledged and is cut off.
func Open(path string, replay Replay) (_ *File, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open the signer's journal: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// The lock ends with the process, in every case.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	} else if err != nil {
		return nil, fmt.Errorf("lock the signer's journal: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the state of the signer's journal: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read or write the signer's journal %s: chmod 600 %s", path, path)
	}

	j := &File{Disk: f, AfterSync: func() {}}
	j.syncDone = sync.NewCond(&j.mu)
	r := bufio.NewReaderSize(f, lineBytesMax)
	offset := int64(0)
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if len(line) == 0 {
				break
			}
			if j.head.Seq == 0 {
				return nil, fmt.Errorf("%s: %w: its first line has no end", path, signer.ErrDamaged)
			}
			if err := f.Truncate(offset); err != nil {
				return nil, fmt.Errorf("cut off the torn last line of the signer's journal: %w", err)
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: byte %d: %v", path, signer.ErrDamaged, offset, err)
		}
		if err := j.replayLine(line, replay); err != nil {
			return nil, fmt.Errorf("%s: %w: line %d, byte %d: %v", path, signer.ErrDamaged, len(j.endOffsets)+1, offset,
				err)
		}
		offset += int64(len(line))
		j.endOffsets = append(j.endOffsets, offset)
	}
	if j.head.Seq == 0 {
		return nil, fmt.Errorf("%s: %w: it is empty", path, signer.ErrDamaged)
	}
	// What the last process wrote but did not sync before it ended counts from now on.
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync the signer's journal: %w", err)
	}
	j.syncedSeq = j.head.Seq
	return j, nil
}

func (j *File) replayLine(line []byte, replay Replay) error {
	var e signer.Entry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return err
	}
	// The line has to be exactly the one that this package writes, so that nothing is hidden next
	// to the entry.
	if !bytes.Equal(EncodeLine(e), line) {
		return errors.New("it does not have the form in which the signer writes it")
	}
	record, err := e.VerifyAfter(j.head)
	if err != nil {
		return err
	}
	recordedAt, err := time.Parse(time.RFC3339Nano, record.RecordedAt)
	if err != nil || recordedAt.Before(j.lastTime) && record.Kind != signer.RecordClock {
		return fmt.Errorf("its time %q does not follow the time before it", record.RecordedAt)
	}
	if err := replay(e.Seq, recordedAt, record); err != nil {
		return err
	}
	j.head, j.lastTime = e.Head(), recordedAt
	return nil
}

// LastTime returns the time of the last entry.
func (j *File) LastTime() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastTime
}

// Head returns the last entry, which may not be on disk yet.
func (j *File) Head() signer.Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// Append gives a record its position. The caller holds the signer's lock, so that the journal's
// order is the order of the checks.
func (j *File) Append(recordedAt time.Time, record signer.Record) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure != nil {
		return 0, j.failure
	}
	record.RecordedAt = signer.FormatTime(recordedAt)
	e, err := NewEntry(j.head, record)
	if err != nil {
		return 0, err
	}
	line := EncodeLine(e)
	if len(line) > lineBytesMax {
		return 0, fmt.Errorf("a journal entry of %d bytes is too long", len(line))
	}
	end := int64(len(line)) + j.endOffsets[len(j.endOffsets)-1]
	j.pending = append(j.pending, line...)
	j.endOffsets = append(j.endOffsets, end)
	j.head, j.lastTime = e.Head(), recordedAt
	return e.Seq, nil
}

// WaitDurable waits until an entry is on disk and reads it. A caller that finds no sync in progress
// writes for all waiting callers.
func (j *File) WaitDurable(seq uint64) (signer.Entry, error) {
	j.mu.Lock()
	for j.syncedSeq < seq && j.failure == nil {
		if j.syncing {
			j.syncDone.Wait()
			continue
		}
		lines, upTo := j.pending, j.head.Seq
		j.pending, j.syncing = nil, true
		j.mu.Unlock()
		err := j.writeLines(lines)
		j.mu.Lock()
		if j.syncing = false; err != nil {
			// Part of the lines may be in the file, and a second fsync may report success for what
			// the first one lost. Opening the file again reads what is really there.
			j.failure = fmt.Errorf("%w: write its journal: %w; the signer signs nothing more until it is started again",
				signer.ErrUnavailable, err)
		} else {
			j.syncedSeq = upTo
		}
		j.syncDone.Broadcast()
	}
	err := j.failure
	j.mu.Unlock()
	if err != nil {
		return signer.Entry{}, err
	}
	j.AfterSync()
	return j.readEntry(seq)
}

func (j *File) writeLines(lines []byte) error {
	if _, err := j.Disk.Write(lines); err != nil {
		return err
	}
	return j.Disk.Sync()
}

// readEntry reads a synced entry from the file.
func (j *File) readEntry(seq uint64) (signer.Entry, error) {
	j.mu.Lock()
	var start int64
	if seq > 1 {
		start = j.endOffsets[seq-2]
	}
	line := make([]byte, j.endOffsets[seq-1]-start)
	j.mu.Unlock()
	var e signer.Entry
	if _, err := j.Disk.ReadAt(line, start); err != nil {
		return signer.Entry{}, fmt.Errorf("read entry %d of the signer's journal: %w", seq, err)
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Seq != seq || e.Hash != e.ComputeHash() {
		return signer.Entry{}, fmt.Errorf("%w: entry %d changed since it was written", signer.ErrDamaged, seq)
	}
	return e, nil
}

// durableSeq returns the number of the last entry on disk.
func (j *File) durableSeq() (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncedSeq, j.failure
}

// DurableHead returns the last entry on disk.
func (j *File) DurableHead() (signer.Head, error) {
	last, err := j.durableSeq()
	if err != nil {
		return signer.Head{}, err
	}
	e, err := j.readEntry(last)
	if err != nil {
		return signer.Head{}, err
	}
	return e.Head(), nil
}

// EntriesAfter returns the entries on disk after a sequence number, at most 1000.
func (j *File) EntriesAfter(ctx context.Context, afterSeq uint64, limit int) ([]signer.Entry, error) {
	last, err := j.durableSeq()
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > entriesMax {
		limit = entriesMax
	}
	var entries []signer.Entry
	for seq := afterSeq + 1; afterSeq < last && seq <= last && len(entries) < limit; seq++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := j.readEntry(seq)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Close waits for a write in progress and unlocks the journal.
func (j *File) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.syncDone.Wait()
	}
	if j.failure == nil {
		j.failure = errors.New("the signer is closed")
	}
	j.syncDone.Broadcast()
	return j.Disk.Close()
}

// NewEntry returns the entry of a record after the one at prev.
func NewEntry(prev signer.Head, record signer.Record) (signer.Entry, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return signer.Entry{}, fmt.Errorf("encode a journal record: %w", err)
	}
	e := signer.Entry{JournalID: prev.JournalID, Seq: prev.Seq + 1, Prev: prev.Hash, Body: body}
	e.Hash = e.ComputeHash()
	return e, nil
}

// EncodeLine returns the line of an entry, with its end.
func EncodeLine(e signer.Entry) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("journalfile: cannot encode a journal entry: %v", err))
	}
	return append(b, '\n')
}
