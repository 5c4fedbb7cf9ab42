package localworld

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/localworld/tied"
)

const (
	serviceStartMax = 60 * time.Second // until a service answers
	serviceStopMax  = 30 * time.Second // until it stops when asked to
)

// child is the service or the signer in its own process.
type child struct {
	cmd    *exec.Cmd
	log    *tail
	exited <-chan struct{}
	err    func() error // how it ended, once exited is closed
	ending atomic.Bool  // this process ends it
}

// tail has the last output of a process.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytesMax = 64 << 10

// Write appends to the output and drops the oldest bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if excess := t.buf.Len() - tailBytesMax; excess > 0 {
		t.buf.Next(excess)
	}
	return len(p), nil
}

// String returns the stored output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// RestartService starts the service of a world with Options.Program, with env added to its
// environment. It returns when the service answers. The previous process has to have ended.
func (w *World) RestartService(ctx context.Context, env ...string) error {
	if w.child.isRunning() {
		return errors.New("the service is still running")
	}
	var err error
	w.child, err = launchProgram(w.opts.Program, w.opts.Output, env, "serve", "--config", w.configFile())
	if err != nil {
		return err
	}
	go w.reportExit(w.child)
	return w.child.waitReady(ctx, func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Info.OpsURL+"/readyz", nil)
		if err != nil {
			return false
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// RestartSigner starts the signer of a world with Options.SignerProcess and returns when it
// answers. The previous process has to have ended.
func (w *World) RestartSigner(ctx context.Context) error {
	if w.signer.isRunning() {
		return errors.New("the signer is still running")
	}
	var err error
	if w.signer, err = launchProgram(
		w.opts.Program, w.opts.Output, nil, "signer", "serve", "--config", w.signerFile(), "--socket", w.socketPath(),
	); err != nil {
		return err
	}
	return w.signer.waitReady(ctx, func(ctx context.Context) bool {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", w.socketPath())
		return err == nil && conn.Close() == nil
	})
}

// reportExit tells WaitEnd of a service that ended without being told to.
func (w *World) reportExit(c *child) {
	<-c.exited
	if c.ending.Load() {
		return
	}
	select {
	case w.serviceEnded <- fmt.Errorf("%w\n%s", cmp.Or(c.err(), errEndedByItself), c.log):
	default:
	}
}

var errEndedByItself = errors.New("it ended by itself")

// KillSigner ends the signer as kill -9 does and returns when it has ended.
func (w *World) KillSigner() error { return w.signer.killProcess() }

// launchProgram starts the program with env added to its environment. output receives what it prints, unless it is nil.
// The program ends with this process.
func launchProgram(program string, output io.Writer, env []string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), log: &tail{}}
	c.cmd.Env = append(os.Environ(), env...)
	var printed io.Writer = c.log
	if output != nil {
		printed = io.MultiWriter(c.log, output)
	}
	c.cmd.Stdout, c.cmd.Stderr = printed, printed
	var err error
	if c.exited, c.err, err = tied.Start(c.cmd); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", program, args[0], err)
	}
	return c, nil
}

func (c *child) isRunning() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// waitReady polls until the process is ready. Its error contains the end of the log.
func (c *child) waitReady(ctx context.Context, isReady func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, serviceStartMax)
	defer cancel()
	for !isReady(ctx) {
		select {
		case <-c.exited:
			return fmt.Errorf("%s ended with %v:\n%s", c.cmd.Args[1], c.err(), c.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer:\n%s", c.cmd.Args[1], c.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (c *child) killProcess() error {
	c.ending.Store(true)
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.exited
	return nil
}

// KillService ends the service as kill -9 does and returns when it has ended.
func (w *World) KillService() error { return w.child.killProcess() }

// StopService asks the service to stop, as a person does, and returns when it has ended.
func (w *World) StopService() error { return w.child.stopProcess() }

// WaitKilled waits until a signal has killed the service. The error says how else it ended, or that
// it is still running.
func (w *World) WaitKilled(ctx context.Context) error {
	select {
	case <-w.child.exited:
	case <-ctx.Done():
		return fmt.Errorf("the service is running:\n%s", w.child.log)
	}
	var exit *exec.ExitError
	if errors.As(w.child.err(), &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() &&
			status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the service ended with %v:\n%s", w.child.err(), w.child.log)
}

// ServiceLog returns the end of the service's output.
func (w *World) ServiceLog() string {
	if w.child == nil {
		return ""
	}
	return w.child.log.String()
}

func (c *child) stopProcess() error {
	if !c.isRunning() {
		return nil
	}
	c.ending.Store(true)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(serviceStopMax):
		err := c.cmd.Process.Kill()
		<-c.exited
		return errors.Join(fmt.Errorf("the service did not stop within %s", serviceStopMax), err)
	}
}
