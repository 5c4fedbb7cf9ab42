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
	// pass. A larger jump may be a wrong clock, which would free the limits of a day.
	clockJumpMax = time.Hour
	// statedTimeDiffMax is how far the clock may be from the time that a person reads elsewhere.
	statedTimeDiffMax = 5 * time.Minute
	// clockNoteInterval is how often the signer writes its time to the clock file.
	clockNoteInterval = time.Minute
)

// ClockFile returns the path of the file next to a journal in which the signer notes its time,
// because an idle signer writes no entries. A lost or older file costs at most one confirmation.
func ClockFile(journal string) string { return journal + ".seen" }

// clockNote is the contents of that file. Seq shows whether a person confirmed the time since.
type clockNote struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	NotedAt   string `json:"at"`
}

// clock is the signer's time. It follows the system's clock only as far as the signer has seen time
// pass: by a monotonic clock since it was opened, and by the noted time before that. Setting the
// system's clock thus moves it by at most clockJumpMax. It continues while the system's clock is
// behind, so a limit always ends. Signer.mu guards it.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // since base
	base    time.Time
	path    string    // of the clock file; "" where the clock is trusted: in tests and rescues
	notedAt time.Time // the time in the clock file
}

// openClock starts the clock of a journal with the last entry head at the time last. confirmed is
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

// currentTime returns the journal's time, which is never before its last entry's. ahead is how much
// further the system's clock is, if that is more than allowed; the time is then the one that
// certainly passed.
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

// journalTime returns the journal's time, by which the rules are checked. s.mu is held.
func (s *Signer) journalTime() (now time.Time, ahead time.Duration) {
	return s.clock.currentTime(s.journal.lastEntryTime())
}

// noteTime writes the time to the clock file at intervals. A failure has no effect before the next
// start. s.mu is held.
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
		slog.Warn("the signer could not record the time; after a longer pause it asks for a confirmation of its clock",
			"err", err)
	}
}

// refuseUnconfirmed returns the refusal of an intent that depends on a limit of time.
func (s *Signer) refuseUnconfirmed(ahead time.Duration) *signer.Refusal {
	return refuse(signer.RefusedClock,
		"the clock of the signer's host is %s ahead of the time that the signer has seen pass, and the daily limits "+
			"depend on it: nothing was admitted and this payment waits. Check that clock; when it is right, stop the "+
			"signer and run `coffer signer clock confirm` on its host",
		ahead.Round(time.Second))
}

// isTimeLimited reports whether a limit of time applies to an intent.
func (s *Signer) isTimeLimited(policy ChainPolicy, intent signer.Intent) bool {
	limit, _ := policy.assetLimit(intent.Contract)
	isOwnPayment := paysOwnMoney(intent) && !s.conf.Rescue
	return policy.feeDayLimit() != nil || isOutgoing(intent) && limit != nil ||
		isOwnPayment && s.conf.Policy.coolingOff() > 0
}

// ClockStatus is the state of the signer's time.
type ClockStatus struct {
	SystemTime  time.Time // of the system's clock
	LastEntry   time.Time // of the journal's last entry
	JournalTime time.Time // the journal's time
	// AheadBy is how much further the clock is than the time that passed. BehindBy is how far it is
	// behind the last entry. Both are zero within what is allowed.
	AheadBy, BehindBy time.Duration
}

// ClockStatus returns the state of the signer's time.
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

// ConfirmClock journals that a person at this host confirms the time; statedTime is what the person
// reads elsewhere. If the clock is ahead of the time that passed, the time continues from the
// clock. If entries are dated later, the clock was wrong when they were made, and they count as
// made now. It is not reachable over the network.
func (s *Signer) ConfirmClock(statedTime time.Time, reason string) (signer.Entry, error) {
	if reason == "" || len(reason) > reasonBytesMax || !utf8.ValidString(reason) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "because: give a reason of 1 to %d bytes of UTF-8",
			reasonBytesMax)
	}
	status := s.ClockStatus()
	if difference := status.SystemTime.Sub(statedTime).Abs(); difference > statedTimeDiffMax {
		return signer.Entry{},
			fmt.Errorf("the clock of this host says %s and you say %s: set the clock first; nothing was journaled",
				formatTime(status.SystemTime), formatTime(statedTime))
	}
	if status.AheadBy == 0 && status.BehindBy == 0 {
		return signer.Entry{},
			errors.New("the clock agrees with the journal: there is nothing to confirm, and nothing was journaled")
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
	seq, err := s.appendRecordAt(confirmed, signer.Record{
		Kind:  signer.RecordClock,
		Clock: &signer.ClockBody{Reason: reason},
	})
	if err != nil {
		return 0, err
	}
	s.clock = openClock(s.conf, signer.Head{JournalID: s.journal.journalID(), Seq: seq}, seq, confirmed)
	return seq, nil
}
