package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// clockJumpMax is how much further the clock may be than the time that the signer has seen
	// pass. More than that may be a wrong clock, which would free the limits of a day.
	clockJumpMax = time.Hour
	// statedTimeDiffMax is how far the clock may be from the time that a person reads elsewhere.
	statedTimeDiffMax = 5 * time.Minute
	// clockNoteInterval is how often the signer notes how far its time is.
	clockNoteInterval = time.Minute
)

// ClockFile is where the signer notes how far its time is, beside a journal: an idle signer
// writes no entries. A file that is lost or older costs a confirmation at most.
func ClockFile(journal string) string { return journal + ".seen" }

// clockNote is the contents of that file. Seq tells whether a person confirmed the time since.
type clockNote struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	NotedAt   string `json:"at"`
}

// clock is the signer's time. It follows the system's clock as far as the signer has seen
// that the time passed, by a monotonic clock since it was opened and by what it noted before:
// whoever sets the system's clock moves it by clockJumpMax at most. It goes on while the system's
// clock is behind, so a limit always ends. Signer.mu guards it.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // since base
	base    time.Time
	path    string    // of the file with seen; "" where the clock is believed: in tests and rescues
	notedAt time.Time // what is in it
}

// openClock takes up a journal whose last entry is head and has the time last. confirmed is
// the last entry in which a person confirmed the time, or 0.
func openClock(conf Config, head signer.Head, confirmed uint64, last time.Time) *clock {
	c := &clock{wall: func() time.Time {
		// Without the reading of the monotonic clock, which another process cannot compare.
		return conf.currentTime().Round(0).UTC()
	}, base: last}
	wall := c.wall()
	if conf.Rescue || conf.Clock != nil && conf.Elapsed == nil {
		if wall.After(c.base) {
			c.base = wall
		}
		previous, sum := wall, time.Duration(0)
		c.elapsed = func() time.Duration {
			now := c.wall()
			sum += max(0, now.Sub(previous))
			previous = now
			return sum
		}
		return c
	}
	c.path = ClockFile(conf.Journal)
	var noted clockNote
	if b, err := os.ReadFile(c.path); err == nil && json.Unmarshal(b, &noted) == nil &&
		noted.JournalID == head.JournalID && noted.Seq >= confirmed && noted.Seq <= head.Seq {
		if notedAt, err := time.Parse(time.RFC3339Nano, noted.NotedAt); err == nil && notedAt.After(c.base) {
			c.base = notedAt
		}
	}
	if ahead := wall.Sub(c.base); ahead > 0 && ahead <= clockJumpMax {
		c.base = wall
	}
	monotonic := conf.Elapsed
	if monotonic == nil {
		opened := time.Now()
		monotonic = func() time.Duration { return time.Since(opened) }
	}
	start := monotonic()
	c.elapsed = func() time.Duration { return monotonic() - start }
	return c
}

// currentTime is the journal's time, never before its last entry's. ahead is how much further the
// system's clock is, where that is more than it may be; the time then is what surely passed.
func (c *clock) currentTime(last time.Time) (result time.Time, ahead time.Duration) {
	earliest := c.base.Add(c.elapsed())
	if last.After(earliest) {
		earliest = last
	}
	wall := c.wall()
	switch ahead = wall.Sub(earliest); {
	case ahead > clockJumpMax:
		return earliest, ahead
	case ahead > 0:
		return wall, 0
	}
	return earliest, 0
}

// journalTime is the journal's time as the rules ask for it. s.mu is held.
func (s *Signer) journalTime() (now time.Time, ahead time.Duration) {
	return s.clock.currentTime(s.journal.lastEntryTime())
}

// noteTime notes how far the time is, now and then. What cannot be noted is no trouble before
// the next start. s.mu is held.
func (s *Signer) noteTime(force bool) {
	now, _ := s.journalTime()
	if s.clock.path == "" || !force && now.Sub(s.clock.notedAt) < clockNoteInterval {
		return
	}
	s.clock.notedAt = now
	fresh := s.clock.path + ".new"
	err := os.WriteFile(fresh, mustJSON(clockNote{s.journal.journalID(), s.journal.lastSeq(), formatTime(now)}), 0o600)
	if err == nil {
		err = os.Rename(fresh, s.clock.path)
	}
	if err != nil {
		slog.Warn("the signer could not note the time; after a longer pause it will ask to have its clock confirmed", "err", err)
	}
}

// refuseUnconfirmed is the refusal of what is limited by time.
func (s *Signer) refuseUnconfirmed(ahead time.Duration) *signer.Refusal {
	return refuse(signer.RefusedClock, "the clock of the signer's host is %s further than the time that the signer has seen pass, and the limits of a day depend on it: nothing was taken and this waits. "+
		"Check that clock; when it is right, stop the signer and run `coffer signer clock confirm` on its host", ahead.Round(time.Second))
}

// isTimeLimited tells whether a limit of time decides about an intent.
func (s *Signer) isTimeLimited(policy ChainPolicy, intent signer.Intent) bool {
	limit, _ := policy.assetLimit(intent.Contract)
	isOwnPayment := intent.Purpose == signer.Payment && intent.CustomerID == "" && !s.conf.Rescue
	return policy.feeDayLimit() != nil || isOutgoing(intent) && limit != nil || isOwnPayment && s.conf.Policy.coolingOff() > 0
}

// ClockStatus is how the signer's time stands.
type ClockStatus struct {
	SystemTime  time.Time // the system's clock
	LastEntry   time.Time // of the journal's last entry
	JournalTime time.Time // the journal's time
	// AheadBy is how much further the clock is than the time that passed, and Behind how far it
	// is behind the last entry; zero where that is within what is allowed.
	AheadBy, BehindBy time.Duration
}

// ClockStatus tells how the time stands.
func (s *Signer) ClockStatus() ClockStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ClockStatus{SystemTime: s.clock.wall(), LastEntry: s.journal.lastEntryTime()}
	c.JournalTime, c.AheadBy = s.journalTime()
	if lag := c.LastEntry.Sub(c.SystemTime); lag > clockJumpMax {
		c.BehindBy = lag
	}
	return c
}

// ConfirmClock journals that a person at this host confirms the time: said is what they read
// elsewhere. Where the clock is ahead of the time that passed, the time goes on from it. Where
// entries are dated later, the clock was wrong when they were made: they count as made now.
// No caller on the network has it.
func (s *Signer) ConfirmClock(statedTime time.Time, reason string) (signer.Entry, error) {
	if reason == "" || len(reason) > reasonBytesMax || !utf8.ValidString(reason) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "because: say why in 1 to %d bytes of UTF-8", reasonBytesMax)
	}
	status := s.ClockStatus()
	if difference := status.SystemTime.Sub(statedTime).Abs(); difference > statedTimeDiffMax {
		return signer.Entry{}, fmt.Errorf("the clock of this host says %s and you say %s: set the clock first; nothing was journaled", formatTime(status.SystemTime), formatTime(statedTime))
	}
	if status.AheadBy == 0 && status.BehindBy == 0 {
		return signer.Entry{}, errors.New("the clock agrees with the journal: there is nothing to confirm, and nothing was journaled")
	}
	seq, err := s.recordClock(status.SystemTime, reason)
	if err != nil {
		return signer.Entry{}, err
	}
	return s.journal.waitDurable(seq)
}

func (s *Signer) recordClock(confirmed time.Time, reason string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := s.appendRecordAt(confirmed, signer.Record{Kind: signer.RecordClock, Clock: &signer.ClockBody{Reason: reason}})
	if err != nil {
		return 0, err
	}
	s.clock = openClock(s.conf, signer.Head{JournalID: s.journal.journalID(), Seq: seq}, seq, confirmed)
	return seq, nil
}
