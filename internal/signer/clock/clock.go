// Package clock is the signer's time, which cannot be set back and which a set clock moves by an
// hour at most.
//
// It follows the system's clock only as far as the signer has seen time pass: by a monotonic clock
// since it was opened, and by a note in a file before that. It continues while the system's clock is
// behind, so a limit always ends.
//
// A crash leaves a note that is older. A lost or older note costs at most one confirmation.
package clock

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// jumpMax is how much further the clock may be than the time that the signer has seen pass. A
	// larger jump may be a wrong clock, which would free the limits of a day.
	jumpMax = time.Hour
	// statedTimeDiffMax is how far the clock may be from the time that a person reads elsewhere.
	statedTimeDiffMax = 5 * time.Minute
	// noteInterval is how often the signer writes its time to the clock file.
	noteInterval = time.Minute
)

// NotePath returns the path of the file next to a journal in which the signer notes its time,
// because an idle signer writes no entries.
func NotePath(journal string) string { return journal + ".seen" }

// note is the contents of that file. Seq shows whether a person confirmed the time since.
type note struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	NotedAt   string `json:"at"`
}

// Config configures a clock.
type Config struct {
	System func() time.Time // the system's clock
	// Elapsed returns the time since a fixed moment, by a clock that cannot be set. nil means the
	// system's monotonic clock.
	Elapsed func() time.Duration
	// IsTrusted says that System is believed: in tests and rescues. No note is read or written then.
	IsTrusted bool
	Journal   string // path of the journal
}

// Clock is the signer's time. It is not safe for concurrent use.
type Clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // since base
	base    time.Time
	path    string    // of the clock file; "" where the clock is trusted
	notedAt time.Time // the time in the clock file
}

// Open starts the clock of a journal with the last entry head at the time last. confirmed is the
// last entry in which a person confirmed the time, or 0.
func Open(conf Config, head signer.Head, confirmed uint64, last time.Time) *Clock {
	c := &Clock{wall: func() time.Time {
		// Without the reading of the monotonic clock, which another process cannot compare.
		return conf.System().Round(0).UTC()
	}, base: last}
	wall := c.wall()
	if conf.IsTrusted {
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
	c.path = NotePath(conf.Journal)
	var noted note
	if b, err := os.ReadFile(c.path); err == nil && json.Unmarshal(b, &noted) == nil &&
		noted.JournalID == head.JournalID && noted.Seq >= confirmed && noted.Seq <= head.Seq {
		if notedAt, err := time.Parse(time.RFC3339Nano, noted.NotedAt); err == nil && notedAt.After(c.base) {
			c.base = notedAt
		}
	}
	if ahead := wall.Sub(c.base); ahead > 0 && ahead <= jumpMax {
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

// Now returns the journal's time, which is never before last, the time of its last entry. ahead is
// how much further the system's clock is, if that is more than allowed; the time is then the one
// that certainly passed.
func (c *Clock) Now(last time.Time) (now time.Time, ahead time.Duration) {
	earliest := c.base.Add(c.elapsed())
	if last.After(earliest) {
		earliest = last
	}
	wall := c.wall()
	switch ahead = wall.Sub(earliest); {
	case ahead > jumpMax:
		return earliest, ahead
	case ahead > 0:
		return wall, 0
	}
	return earliest, 0
}

// Note writes the time to the clock file at intervals, or always with force. head and last are the
// journal's last entry and its time. A failure has no effect before the next start.
func (c *Clock) Note(head signer.Head, last time.Time, force bool) {
	now, _ := c.Now(last)
	if c.path == "" || !force && now.Sub(c.notedAt) < noteInterval {
		return
	}
	c.notedAt = now
	fresh := c.path + ".new"
	contents, err := json.Marshal(note{head.JournalID, head.Seq, signer.FormatTime(now)})
	if err == nil {
		err = os.WriteFile(fresh, contents, 0o600)
	}
	if err == nil {
		err = os.Rename(fresh, c.path)
	}
	if err != nil {
		slog.Warn("the signer could not record the time; after a longer pause it asks for a confirmation of its clock",
			"err", err)
	}
}

// Status is the state of the signer's time.
type Status struct {
	SystemTime  time.Time // of the system's clock
	LastEntry   time.Time // of the journal's last entry
	JournalTime time.Time // the journal's time
	// AheadBy is how much further the clock is than the time that passed. BehindBy is how far it is
	// behind the last entry. Both are zero within what is allowed.
	AheadBy, BehindBy time.Duration
}

// Status returns the state of the time of a journal whose last entry has the time last.
func (c *Clock) Status(last time.Time) Status {
	s := Status{SystemTime: c.wall(), LastEntry: last}
	s.JournalTime, s.AheadBy = c.Now(last)
	if lag := last.Sub(s.SystemTime); lag > jumpMax {
		s.BehindBy = lag
	}
	return s
}

// CheckConfirmation returns why a person does not confirm this time with statedTime, which the
// person reads elsewhere.
func (s Status) CheckConfirmation(statedTime time.Time) error {
	if difference := s.SystemTime.Sub(statedTime).Abs(); difference > statedTimeDiffMax {
		return fmt.Errorf("the clock of this host says %s and you say %s: set the clock first; nothing was journaled",
			signer.FormatTime(s.SystemTime), signer.FormatTime(statedTime))
	}
	if s.AheadBy == 0 && s.BehindBy == 0 {
		return errors.New("the clock agrees with the journal: there is nothing to confirm, and nothing was journaled")
	}
	return nil
}
