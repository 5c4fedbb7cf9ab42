package crashes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Fault is what happens at a point.
type Fault string

// The faults.
const (
	Kill     Fault = "kill"     // the service is killed
	Signer   Fault = "signer"   // the signer's process is killed
	Postgres Fault = "postgres" // PostgreSQL is killed
	Cut      Fault = "cut"      // the connections to PostgreSQL and to the chain's provider are cut
	Stop     Fault = "stop"     // the service is stopped, a second one takes over, then the first goes on
)

// Faults are all of them, in the order of the table.
var Faults = []Fault{Kill, Signer, Postgres, Cut, Stop}

const (
	reachMax = time.Minute
	muteMax  = 10 * time.Second
	muteMore = 100 * time.Millisecond // after the first answer that was taken away, for the other connections
	stopped  = 6 * time.Second        // how long the second service has for the work of the first
)

// stage is one point with one fault in one town.
type stage struct {
	*town
	point point
	fault Fault
	name  string // unique in the town, for customers and keys

	// held is done while the process stands at the point, before the fault.
	held func(ctx context.Context) error
	// meanwhile is done once the fault is there, before anything is waited for.
	meanwhile func(ctx context.Context) error
	// whole is how long a stopped service stays stopped; zero until all is done.
	whole time.Duration

	reached bool
	back    chan error // of what begin started
}

func (t *town) path(name, state string) string { return filepath.Join(t.points, name+"."+state) }

func (t *town) arm(name, what string) error {
	if err := t.disarm(name); err != nil {
		return err
	}
	temp := t.path(name, "new")
	if err := os.WriteFile(temp, []byte(what), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, t.path(name, "armed"))
}

func (t *town) disarm(name string) error {
	var errs []error
	for _, state := range []string{"armed", "reached", "go"} {
		if err := os.Remove(t.path(name, state)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *town) arrived(ctx context.Context, name string) error {
	return until(ctx, "point "+name+" is reached", reachMax, func(context.Context) (bool, error) {
		_, err := os.Lstat(t.path(name, "reached"))
		return err == nil, nil
	})
}

func (t *town) release(name string) error { return os.WriteFile(t.path(name, "go"), nil, 0o600) }

// hold stops whoever passes a point next, without a fault, and returns how to
// let it go on.
func (t *town) hold(ctx context.Context, name string, begin func(ctx context.Context) error) (func() error, error) {
	if err := t.arm(name, "wait"); err != nil {
		return nil, err
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if err := t.arrived(ctx, name); err != nil {
		return nil, err
	}
	return func() error { return t.release(name) }, nil
}

// through plays the fault at a point of the source that begin leads to.
func (s *stage) through(ctx context.Context, name string, begin func(ctx context.Context) error) error {
	file, what := name, "wait"
	switch {
	case s.point.commit && (s.fault == Cut || s.fault == Postgres):
		file = name + ".commit"
	case s.held == nil && s.dies():
		what = "kill"
	}
	if err := s.arm(file, what); err != nil {
		return err
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if err := s.arrived(ctx, file); err != nil {
		return err
	}
	s.reached = true
	if s.held != nil {
		if err := s.held(ctx); err != nil {
			return fmt.Errorf("at %s: %w", name, err)
		}
	}
	if what == "kill" {
		return s.buried(ctx)
	}
	if file != name {
		return s.unanswered(ctx, file)
	}
	return s.inflict(ctx, func() error { return s.release(file) })
}

// dies tells that the process that stands at the point is the one to be killed.
func (s *stage) dies() bool {
	if s.point.at == inSigner {
		return s.fault == Signer
	}
	return s.point.at == inService && s.fault == Kill
}

// buried waits for the death of the process at the point and starts it again.
func (s *stage) buried(ctx context.Context) error {
	if s.point.at == inSigner {
		if err := s.signer.killed(ctx); err != nil {
			return err
		}
		return errors.Join(s.later(ctx), s.startSigner(ctx))
	}
	at, start := s.service, s.startService
	if s.second != nil {
		// Either of the two may have been the one at the point.
		select {
		case <-s.second.done:
			at, start = s.second, s.startSecond
		case <-s.service.done:
		case <-time.After(dieMax):
		}
	}
	if err := at.killed(ctx); err != nil {
		return err
	}
	return errors.Join(s.later(ctx), start(ctx), s.expire(ctx))
}

func (s *stage) later(ctx context.Context) error {
	if s.meanwhile == nil {
		return nil
	}
	return s.meanwhile(ctx)
}

// unanswered lets a commit through whose answer never comes.
func (s *stage) unanswered(ctx context.Context, file string) error {
	before := s.wire.muted.Load()
	s.wire.mute.Store(true)
	defer s.wire.mute.Store(false)
	if err := s.release(file); err != nil {
		return err
	}
	err := until(ctx, "a commit has gone through", muteMax, func(context.Context) (bool, error) {
		return s.wire.muted.Load() > before, nil
	})
	if err != nil {
		return err
	}
	pause(ctx, muteMore)
	// Its answer is gone. What is asked anew over other connections is to be heard:
	// a repetition that is not would hang until its caller gives up.
	s.wire.mute.Store(false)
	if err := s.inflict(ctx, func() error { return nil }); err != nil {
		return err
	}
	return s.expire(ctx) // a claim of deliveries may have been among the commits
}

// inflict plays the fault while a process stands somewhere, or nowhere, and
// makes everything whole again; release lets it go on.
func (s *stage) inflict(ctx context.Context, release func() error) error {
	s.reached = true
	switch s.fault {
	case Kill:
		if err := s.service.kill(); err != nil {
			return err
		}
		return errors.Join(release(), s.later(ctx), s.startService(ctx), s.expire(ctx))
	case Signer:
		if err := s.signer.kill(); err != nil {
			return err
		}
		return errors.Join(release(), s.later(ctx), s.startSigner(ctx))
	case Postgres:
		if err := s.world.Database().Kill(); err != nil {
			return err
		}
		s.wire.cut()
		return errors.Join(release(), s.later(ctx), s.world.Database().Restart(ctx), s.expire(ctx))
	case Cut:
		s.wire.cut()
		s.provider.cut()
		// Whoever could not record a delivery leaves its lease behind, as the dead do.
		return errors.Join(release(), s.later(ctx), s.expire(ctx))
	case Stop:
		return s.sleep(ctx, release)
	}
	return fmt.Errorf("no fault is called %q", s.fault)
}

// sleep stops the service where it stands. Its connections end, as they do when
// a machine is away, so the locks they held are free; a second service does the
// work. Then the first wakes up in the middle of its step.
func (s *stage) sleep(ctx context.Context, release func() error) error {
	if err := s.startSecond(ctx); err != nil {
		return err
	}
	if err := s.service.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.wire.cut()
	err := s.later(ctx)
	if err == nil && s.whole > 0 {
		pause(ctx, s.whole)
	} else if err == nil {
		_ = s.drained(ctx, stopped) // what is not done by then goes on with both
	}
	err = errors.Join(err, release(), s.service.signal(syscall.SIGCONT), ready(ctx, s.service, s.conf.Ops.Listen))
	if err == nil {
		err = s.drained(ctx, drainMax)
	}
	return errors.Join(err, s.endSecond())
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// together starts something that may be held up at a point, and goes on.
func (s *stage) together(do func() error) {
	s.back = make(chan error, 1)
	go func() { s.back <- do() }()
}

// returned waits for it.
func (s *stage) returned(ctx context.Context) error {
	if s.back == nil {
		return nil
	}
	select {
	case err := <-s.back:
		s.back = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run plays the stage and checks everything afterwards.
func (s *stage) run(ctx context.Context) error {
	if err := s.point.play(ctx, s); err != nil {
		return err
	}
	if !s.reached {
		return errors.New("the point was not reached")
	}
	if err := s.drained(ctx, drainMax); err != nil {
		return err
	}
	return s.sound(ctx)
}

// outside plays the fault where nothing of ours stands.
func (s *stage) outside(ctx context.Context) error {
	return s.inflict(ctx, func() error { return nil })
}

// accepted asks for a payment until it is answered.
func (t *town) accepted(ctx context.Context, p *payment) error {
	status, err := t.call(ctx, http.MethodPost, "/withdraw", p.body, &p.made)
	if err != nil {
		return err
	}
	if status != http.StatusAccepted {
		return fmt.Errorf("POST /withdraw: got %d, want 202", status)
	}
	return nil
}
