package local

import (
	"bufio"
	"bytes"
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
	ErrMissing = errors.New("the signer's journal is missing: restore it from a copy, or let `coffer signer adopt` rebuild it; " +
		"`coffer signer init` makes a new one for an installation that has never issued an address")
	// ErrLocked says that another signer has the journal open.
	ErrLocked = errors.New("another signer has the journal open: stop it first, because an installation has exactly " +
		"one signer")
	// ErrDamaged says that the journal is not what was written.
	ErrDamaged = errors.New("the signer's journal is damaged, so the signer signs nothing; restore the file from a " +
		"copy, or move it away and let `coffer signer adopt` rebuild it from its mirror in the database")
)

// lineBytesMax bounds one entry in the file.
const lineBytesMax = 1 << 20

// journal is the open file. An append gives the entry its position at once and makes it durable
// later: callers wait until syncedSeq reaches their entry. One fsync thus serves all callers that
// arrived in the meantime (group commit).
type journal struct {
	file *os.File
	sync func() error // of the file; tests let it fail

	mu         sync.Mutex
	head       signer.Head // includes entries that are not synced yet
	lastTime   time.Time   // of the last entry
	endOffsets []int64     // endOffsets[n-1] is where entry n ends in the file
	pending    []byte      // lines that are not written yet
	syncedSeq  uint64      // entries up to here are on disk
	syncing    bool
	syncDone   *sync.Cond // broadcast when syncedSeq or failure changes
	failure    error      // a failed write: the contents of the file are unknown

	// afterSync runs between the fsync and the answer; tests crash there.
	afterSync func()
}

// createJournalFile makes a journal with its first entry and refuses to replace a file. A crash
// leaves no file, or a complete one.
func createJournalFile(path string, now time.Time, first signer.Record) error {
	first.Kind, first.RecordedAt = signer.RecordGenesis, formatTime(now)
	e, err := newEntry(signer.Head{JournalID: id.New("jrn", now)}, first)
	if err != nil {
		return err
	}
	return keys.CreateFile(path, append(mustJSON(e), '\n'), 0o600)
}

// openJournalFile locks a journal, checks all of it and passes every record to replay. A last line
// without its end was never acknowledged and is cut off.
func openJournalFile(path string, replay func(signer.Entry, signer.Record) error) (_ *journal, err error) {
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

	j := &journal{file: f, sync: f.Sync, afterSync: func() {}}
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
				return nil, fmt.Errorf("%s: %w: its first line has no end", path, ErrDamaged)
			}
			if err := f.Truncate(offset); err != nil {
				return nil, fmt.Errorf("cut off the torn last line of the signer's journal: %w", err)
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: byte %d: %v", path, ErrDamaged, offset, err)
		}
		if err := j.replayLine(line, replay); err != nil {
			return nil, fmt.Errorf("%s: %w: line %d, byte %d: %v", path, ErrDamaged, len(j.endOffsets)+1, offset, err)
		}
		offset += int64(len(line))
		j.endOffsets = append(j.endOffsets, offset)
	}
	if j.head.Seq == 0 {
		return nil, fmt.Errorf("%s: %w: it is empty", path, ErrDamaged)
	}
	// What the last process wrote but did not sync before it ended counts from now on.
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync the signer's journal: %w", err)
	}
	j.syncedSeq = j.head.Seq
	return j, nil
}

func (j *journal) replayLine(line []byte, replay func(signer.Entry, signer.Record) error) error {
	var e signer.Entry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return err
	}
	// The line has to be exactly the one that this package writes, so that nothing is hidden next
	// to the entry.
	if !bytes.Equal(append(mustJSON(e), '\n'), line) {
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
	if err := replay(e, record); err != nil {
		return err
	}
	j.head, j.lastTime = e.Head(), recordedAt
	return nil
}

// lastEntryTime returns the time of the last entry.
func (j *journal) lastEntryTime() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastTime
}

// journalID returns the id of the journal.
func (j *journal) journalID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head.JournalID
}

// lastSeq returns the number of the last entry.
func (j *journal) lastSeq() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head.Seq
}

// appendRecord gives a record its position. The caller holds the signer's lock, so that the
// journal's order is the order of the checks.
func (j *journal) appendRecord(recordedAt time.Time, record signer.Record) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure != nil {
		return 0, j.failure
	}
	record.RecordedAt = formatTime(recordedAt)
	e, err := newEntry(j.head, record)
	if err != nil {
		return 0, err
	}
	line := append(mustJSON(e), '\n')
	if len(line) > lineBytesMax {
		return 0, fmt.Errorf("a journal entry of %d bytes is too long", len(line))
	}
	end := int64(len(line)) + j.endOffsets[len(j.endOffsets)-1]
	j.pending = append(j.pending, line...)
	j.endOffsets = append(j.endOffsets, end)
	j.head, j.lastTime = e.Head(), recordedAt
	return e.Seq, nil
}

// waitDurable waits until an entry is on disk and reads it. A caller that finds no sync in progress
// writes for all waiting callers.
func (j *journal) waitDurable(seq uint64) (signer.Entry, error) {
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
	j.afterSync()
	return j.readEntry(seq)
}

func (j *journal) writeLines(lines []byte) error {
	if _, err := j.file.Write(lines); err != nil {
		return err
	}
	return j.sync()
}

// readEntry reads a synced entry from the file.
func (j *journal) readEntry(seq uint64) (signer.Entry, error) {
	j.mu.Lock()
	var start int64
	if seq > 1 {
		start = j.endOffsets[seq-2]
	}
	line := make([]byte, j.endOffsets[seq-1]-start)
	j.mu.Unlock()
	var e signer.Entry
	if _, err := j.file.ReadAt(line, start); err != nil {
		return e, fmt.Errorf("read entry %d of the signer's journal: %w", seq, err)
	}
	if err := json.Unmarshal(line, &e); err != nil || e.Seq != seq || e.Hash != e.ComputeHash() {
		return e, fmt.Errorf("%w: entry %d changed since it was written", ErrDamaged, seq)
	}
	return e, nil
}

// durableSeq returns the number of the last entry on disk.
func (j *journal) durableSeq() (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncedSeq, j.failure
}

func (j *journal) closeFile() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.syncDone.Wait()
	}
	if j.failure == nil {
		j.failure = errors.New("the signer is closed")
	}
	j.syncDone.Broadcast()
	return j.file.Close()
}

func newEntry(prev signer.Head, record signer.Record) (signer.Entry, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return signer.Entry{}, fmt.Errorf("encode a journal record: %w", err)
	}
	e := signer.Entry{JournalID: prev.JournalID, Seq: prev.Seq + 1, Prev: prev.Hash, Body: body}
	e.Hash = e.ComputeHash()
	return e, nil
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("local: cannot encode a journal entry: %v", err))
	}
	return b
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
