package crashes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/localworld/tied"
)

const (
	tailBytesMax    = 64 << 10
	stopMax         = 2 * time.Minute // for a process that was asked to end
	dieMax          = 2 * time.Minute // for a process that has to die at its point
	pollIntervalMin = 5 * time.Millisecond
)

// process is a running coffer.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    *tail
	exited <-chan struct{}
	err    func() error
}

// tail keeps the end of what a process writes.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends, and keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if excess := t.buf.Len() - tailBytesMax; excess > 0 {
		t.buf.Next(excess)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// launchProcess starts the program; log continues that of an earlier process, if there was one.
func launchProcess(name, program string, log *tail, env []string, args ...string) (*process, error) {
	if log == nil {
		log = &tail{}
	}
	p := &process{name: name, cmd: exec.Command(program, args...), log: log}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	var err error
	if p.exited, p.err, err = tied.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return p, nil
}

func (p *process) isAlive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// killProcess ends it as kill -9 does, also when it is stopped.
func (p *process) killProcess() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// stopProcess asks the process to shut down in order.
func (p *process) stopProcess() error {
	if !p.isAlive() {
		return nil
	}
	if err := p.sendSignal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopMax):
		return errors.Join(fmt.Errorf("the %s did not stop within %s", p.name, stopMax), p.killProcess())
	}
}

func (p *process) sendSignal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the %s: %w", p.name, err)
	}
	return nil
}

// waitKilled waits until a signal has killed the process; any other end is an error.
func (p *process) waitKilled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dieMax)
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("the %s lives", p.name)
	}
	var exit *exec.ExitError
	if errors.As(p.err(), &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() &&
			status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the %s ended with %w", p.name, p.err())
}

// waitUntil polls until a condition is true. The error is the last one that the check returned.
func waitUntil(
	ctx context.Context, title string, patience time.Duration, condition func(ctx context.Context) (bool, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for wait := pollIntervalMin; ; wait = min(2*wait, 100*time.Millisecond) {
		ok, err := condition(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return fmt.Errorf("not within %s: %s", patience, title)
			}
			return fmt.Errorf("not within %s: %s: %w", patience, title, last)
		case <-time.After(wait):
		}
	}
}
