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
	// jumpMax is how much further the clock may be than the time that the signer has seen
	// pass. More than that may be a wrong clock, which would free the limits of a day.
	jumpMax = time.Hour
	// saidMax is how far the clock may be from the time that a person reads elsewhere.
	saidMax = 5 * time.Minute
	// seenEvery is how often the signer notes how far its time is.
	seenEvery = time.Minute
)

// SeenFile is where the signer notes how far its time is, beside a journal: an idle signer
// writes no entries. A file that is lost or older costs a confirmation at most.
func SeenFile(journal string) string { return journal + ".seen" }

// seen is the contents of that file. Seq tells whether a person confirmed the time since.
type seen struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	At        string `json:"at"`
}

// clock is the signer's time. It follows the system's clock as far as the signer has seen
// that the time passed, by a monotonic clock since it was opened and by what it noted before:
// whoever sets the system's clock moves it by jumpMax at most. It goes on while the system's
// clock is behind, so a limit always ends. Signer.mu guards it.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // since base
	base    time.Time
	path    string    // of the file with seen; "" where the clock is believed: in tests and rescues
	kept    time.Time // what is in it
}

// openClock takes up a journal whose last entry is head and has the time last. confirmed is
// the last entry in which a person confirmed the time, or 0.
func openClock(conf Config, head signer.Head, confirmed uint64, last time.Time) *clock {
	c := &clock{wall: func() time.Time {
		// Without the reading of the monotonic clock, which another process cannot compare.
		return conf.now().Round(0).UTC()
	}, base: last}
	wall := c.wall()
	if conf.Rescue || conf.Clock != nil && conf.Elapsed == nil {
		if wall.After(c.base) {
			c.base = wall
		}
		before, sum := wall, time.Duration(0)
		c.elapsed = func() time.Duration {
			now := c.wall()
			sum += max(0, now.Sub(before))
			before = now
			return sum
		}
		return c
	}
	c.path = SeenFile(conf.Journal)
	var noted seen
	if b, err := os.ReadFile(c.path); err == nil && json.Unmarshal(b, &noted) == nil &&
		noted.JournalID == head.JournalID && noted.Seq >= confirmed && noted.Seq <= head.Seq {
		if at, err := time.Parse(time.RFC3339Nano, noted.At); err == nil && at.After(c.base) {
			c.base = at
		}
	}
	if ahead := wall.Sub(c.base); ahead > 0 && ahead <= jumpMax {
		c.base = wall
	}
	since := conf.Elapsed
	if since == nil {
		opened := time.Now()
		since = func() time.Duration { return time.Since(opened) }
	}
	start := since()
	c.elapsed = func() time.Duration { return since() - start }
	return c
}

// now is the journal's time, never before its last entry's. ahead is how much further the
// system's clock is, where that is more than it may be; the time then is what surely passed.
func (c *clock) now(last time.Time) (at time.Time, ahead time.Duration) {
	least := c.base.Add(c.elapsed())
	if last.After(least) {
		least = last
	}
	wall := c.wall()
	switch ahead = wall.Sub(least); {
	case ahead > jumpMax:
		return least, ahead
	case ahead > 0:
		return wall, 0
	}
	return least, 0
}

// time is the journal's time as the rules ask for it. s.mu is held.
func (s *Signer) time() (at time.Time, ahead time.Duration) { return s.clock.now(s.journal.last()) }

// seen notes how far the time is, now and then. What cannot be noted is no trouble before
// the next start. s.mu is held.
func (s *Signer) seen(now bool) {
	at, _ := s.time()
	if s.clock.path == "" || !now && at.Sub(s.clock.kept) < seenEvery {
		return
	}
	s.clock.kept = at
	fresh := s.clock.path + ".new"
	err := os.WriteFile(fresh, mustJSON(seen{s.journal.id(), s.journal.seq(), stamp(at)}), 0o600)
	if err == nil {
		err = os.Rename(fresh, s.clock.path)
	}
	if err != nil {
		slog.Warn("the signer could not note the time; after a longer pause it will ask to have its clock confirmed", "err", err)
	}
}

// unconfirmed is the refusal of what is limited by time.
func (s *Signer) unconfirmed(ahead time.Duration) *signer.Refusal {
	return refuse(signer.RefusedClock, "the clock of the signer's host is %s further than the time that the signer has seen pass, and the limits of a day depend on it: nothing was taken and this waits. "+
		"Check that clock; when it is right, stop the signer and run `coffer signer clock confirm` on its host", ahead.Round(time.Second))
}

// timed tells whether a limit of time decides about an intent.
func (s *Signer) timed(policy ChainPolicy, i signer.Intent) bool {
	limit, _ := policy.limit(i.Contract)
	own := i.Purpose == signer.Payment && i.CustomerID == "" && !s.conf.Rescue
	return policy.feeDay() != nil || outward(i) && limit != nil || own && s.conf.Policy.coolingOff() > 0
}

// ClockStatus is how the signer's time stands.
type ClockStatus struct {
	Clock time.Time // the system's clock
	Last  time.Time // of the journal's last entry
	Now   time.Time // the journal's time
	// Ahead is how much further the clock is than the time that passed, and Behind how far it
	// is behind the last entry; zero where that is within what is allowed.
	Ahead, Behind time.Duration
}

// ClockStatus tells how the time stands.
func (s *Signer) ClockStatus() ClockStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ClockStatus{Clock: s.clock.wall(), Last: s.journal.last()}
	c.Now, c.Ahead = s.time()
	if behind := c.Last.Sub(c.Clock); behind > jumpMax {
		c.Behind = behind
	}
	return c
}

// ConfirmClock journals that a person at this host confirms the time: said is what they read
// elsewhere. Where the clock is ahead of the time that passed, the time goes on from it. Where
// entries are dated later, the clock was wrong when they were made: they count as made now.
// No caller on the network has it.
func (s *Signer) ConfirmClock(said time.Time, because string) (signer.Entry, error) {
	if because == "" || len(because) > becauseBytesMax || !utf8.ValidString(because) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "because: say why in 1 to %d bytes of UTF-8", becauseBytesMax)
	}
	now := s.ClockStatus()
	if off := now.Clock.Sub(said).Abs(); off > saidMax {
		return signer.Entry{}, fmt.Errorf("the clock of this host says %s and you say %s: set the clock first; nothing was journaled", stamp(now.Clock), stamp(said))
	}
	if now.Ahead == 0 && now.Behind == 0 {
		return signer.Entry{}, errors.New("the clock agrees with the journal: there is nothing to confirm, and nothing was journaled")
	}
	seq, err := s.confirmClock(now.Clock, because)
	if err != nil {
		return signer.Entry{}, err
	}
	return s.journal.durable(seq)
}

func (s *Signer) confirmClock(at time.Time, because string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := s.appendAt(at, signer.Record{Kind: signer.RecordClock, Clock: &signer.ClockBody{Because: because}})
	if err != nil {
		return 0, err
	}
	s.clock = openClock(s.conf, signer.Head{JournalID: s.journal.id(), Seq: seq}, seq, at)
	return seq, nil
}
