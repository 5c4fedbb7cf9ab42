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
	reachMax         = 5 * time.Minute
	muteMax          = 10 * time.Second
	muteMore         = 100 * time.Millisecond // after the first lost answer, for the other connections
	secondServiceMax = 6 * time.Second        // how long the second service has for the work of the first
)

// cellRun plays one point with one fault in one scenario.
type cellRun struct {
	*scenario
	point point
	fault Fault
	name  string // unique in the scenario, for customers and keys

	// atPoint runs while the process waits at the point, before the fault.
	atPoint func(ctx context.Context) error
	// afterFault runs after the fault, before the scene waits for anything.
	afterFault func(ctx context.Context) error
	// stopDuration is how long a stopped service stays stopped; zero until all is done.
	stopDuration time.Duration

	reached     bool
	asyncResult chan error // the result of startAsync
}

func (t *scenario) failpointFile(name, state string) string {
	return filepath.Join(t.points, name+"."+state)
}

func (t *scenario) armFailpoint(name, action string) error {
	if err := t.disarmFailpoint(name); err != nil {
		return err
	}
	temp := t.failpointFile(name, "new")
	if err := os.WriteFile(temp, []byte(action), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, t.failpointFile(name, "armed"))
}

func (t *scenario) disarmFailpoint(name string) error {
	var errs []error
	for _, state := range []string{"armed", "reached", "go"} {
		if err := os.Remove(t.failpointFile(name, state)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *scenario) waitReached(ctx context.Context, name string) error {
	return waitUntil(ctx, "point "+name+" is reached", reachMax, func(context.Context) (bool, error) {
		_, err := os.Lstat(t.failpointFile(name, "reached"))
		return err == nil, nil
	})
}

func (t *scenario) releaseFailpoint(name string) error {
	return os.WriteFile(t.failpointFile(name, "go"), nil, 0o600)
}

// holdAtFailpoint stops the next process that reaches a point, without a fault, and returns the
// function that releases it.
func (t *scenario) holdAtFailpoint(
	ctx context.Context, name string, begin func(ctx context.Context) error,
) (func() error, error) {
	if err := t.armFailpoint(name, "wait"); err != nil {
		return nil, err
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if err := t.waitReached(ctx, name); err != nil {
		return nil, err
	}
	return func() error { return t.releaseFailpoint(name) }, nil
}

// playThrough plays the fault at a point of the source that begin leads to.
func (s *cellRun) playThrough(ctx context.Context, name string, begin func(ctx context.Context) error) error {
	file, action := name, "wait"
	switch {
	case s.point.commit && (s.fault == Cut || s.fault == Postgres):
		file = name + ".commit"
	case s.atPoint == nil && s.killsAtPoint():
		action = "kill"
	}
	if err := s.armFailpoint(file, action); err != nil {
		return err
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if err := s.waitReached(ctx, file); err != nil {
		return err
	}
	s.reached = true
	if s.atPoint != nil {
		if err := s.atPoint(ctx); err != nil {
			return fmt.Errorf("at %s: %w", name, err)
		}
	}
	if action == "kill" {
		return s.restartKilled(ctx)
	}
	if file != name {
		return s.loseCommitAnswer(ctx, file)
	}
	return s.inflictFault(ctx, func() error { return s.releaseFailpoint(file) })
}

// killsAtPoint reports whether the fault kills the process at the point.
func (s *cellRun) killsAtPoint() bool {
	if s.point.location == inSigner {
		return s.fault == Signer
	}
	return s.point.location == inService && s.fault == Kill
}

// restartKilled waits for the death of the process at the point and starts it again.
func (s *cellRun) restartKilled(ctx context.Context) error {
	if s.point.location == inSigner {
		if err := s.signer.waitKilled(ctx); err != nil {
			return err
		}
		return errors.Join(s.runAfterFault(ctx), s.startSigner(ctx))
	}
	victim, start := s.service, s.startService
	if s.second != nil {
		// Either of the two may have been the one at the point.
		select {
		case <-s.second.exited:
			victim, start = s.second, s.startSecond
		case <-s.service.exited:
		case <-time.After(dieMax):
		}
	}
	if err := victim.waitKilled(ctx); err != nil {
		return err
	}
	return errors.Join(s.runAfterFault(ctx), start(ctx), s.expireLeases(ctx))
}

func (s *cellRun) runAfterFault(ctx context.Context) error {
	if s.afterFault == nil {
		return nil
	}
	return s.afterFault(ctx)
}

// loseCommitAnswer lets a commit succeed and drops its answer.
func (s *cellRun) loseCommitAnswer(ctx context.Context, file string) error {
	droppedBefore := s.databaseProxy.droppedAnswers.Load()
	s.databaseProxy.dropAnswers.Store(true)
	defer s.databaseProxy.dropAnswers.Store(false)
	if err := s.releaseFailpoint(file); err != nil {
		return err
	}
	err := waitUntil(ctx, "a commit has gone through", muteMax, func(context.Context) (bool, error) {
		return s.databaseProxy.droppedAnswers.Load() > droppedBefore, nil
	})
	if err != nil {
		return err
	}
	sleepContext(ctx, muteMore)
	// The answer is lost. Answers to repeated statements on other connections have to arrive: a
	// repetition without an answer would hang until its caller gives up.
	s.databaseProxy.dropAnswers.Store(false)
	if err := s.inflictFault(ctx, func() error { return nil }); err != nil {
		return err
	}
	return s.expireLeases(ctx) // a claim of deliveries may have been among the commits
}

// inflictFault plays the fault, whether or not a process waits at a point, and restarts what it
// stopped. release lets the waiting process go on.
func (s *cellRun) inflictFault(ctx context.Context, release func() error) error {
	s.reached = true
	switch s.fault {
	case Kill:
		if err := s.service.killProcess(); err != nil {
			return err
		}
		return errors.Join(release(), s.runAfterFault(ctx), s.startService(ctx), s.expireLeases(ctx))
	case Signer:
		if err := s.signer.killProcess(); err != nil {
			return err
		}
		return errors.Join(release(), s.runAfterFault(ctx), s.startSigner(ctx))
	case Postgres:
		if err := s.world.DatabaseCluster().Kill(); err != nil {
			return err
		}
		s.databaseProxy.cutConns()
		return errors.Join(release(), s.runAfterFault(ctx), s.world.DatabaseCluster().Restart(ctx), s.expireLeases(ctx))
	case Cut:
		s.databaseProxy.cutConns()
		s.provider.cutConns()
		// A service that could not record a delivery leaves its lease behind, as a dead one does.
		return errors.Join(release(), s.runAfterFault(ctx), s.expireLeases(ctx))
	case Stop:
		return s.inflictStop(ctx, release)
	}
	return fmt.Errorf("no fault is called %q", s.fault)
}

// inflictStop stops the service at the point. Its connections end, as they do when a machine is
// unreachable, so its locks are free; a second service does the work. Then the first continues in
// the middle of its step.
func (s *cellRun) inflictStop(ctx context.Context, release func() error) error {
	if err := s.startSecond(ctx); err != nil {
		return err
	}
	if err := s.service.sendSignal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.databaseProxy.cutConns()
	err := s.runAfterFault(ctx)
	if err == nil && s.stopDuration > 0 {
		sleepContext(ctx, s.stopDuration)
	} else if err == nil {
		_ = s.waitDrained(ctx, secondServiceMax) // both services do what is not done by then
	}
	err = errors.Join(
		err, release(), s.service.sendSignal(syscall.SIGCONT), waitReady(ctx, s.service, s.conf.Ops.Listen),
	)
	if err == nil {
		err = s.waitDrained(ctx, drainMax)
	}
	return errors.Join(err, s.endSecond())
}

func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// startAsync starts a task that may wait at a point, and returns.
func (s *cellRun) startAsync(task func() error) {
	s.asyncResult = make(chan error, 1)
	go func() { s.asyncResult <- task() }()
}

// waitAsync waits for the task.
func (s *cellRun) waitAsync(ctx context.Context) error {
	if s.asyncResult == nil {
		return nil
	}
	select {
	case err := <-s.asyncResult:
		s.asyncResult = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// playCell plays the scene and checks everything afterwards.
func (s *cellRun) playCell(ctx context.Context) error {
	if err := s.point.play(ctx, s); err != nil {
		return err
	}
	if !s.reached {
		return errors.New("the point was not reached")
	}
	if err := s.waitDrained(ctx, drainMax); err != nil {
		return err
	}
	return s.checkEverything(ctx)
}

// inflictOutside plays the fault while no process of ours waits at a point.
func (s *cellRun) inflictOutside(ctx context.Context) error {
	return s.inflictFault(ctx, func() error { return nil })
}

// requestPayment requests a payment until it is answered.
func (t *scenario) requestPayment(ctx context.Context, p *payment) error {
	status, err := t.callAPI(ctx, http.MethodPost, "/withdraw", p.body, &p.created)
	if err != nil {
		return err
	}
	if status != http.StatusAccepted {
		return fmt.Errorf("POST /withdraw: got %d, want 202", status)
	}
	return nil
}
