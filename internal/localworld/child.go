package localworld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/localworld/tied"
)

const (
	upMax   = 60 * time.Second // for a service to answer
	downMax = 30 * time.Second // for it to stop when it is asked to
)

// child is the service in a process of its own.
type child struct {
	cmd  *exec.Cmd
	log  *tail
	done <-chan struct{}
	err  func() error // how it ended, once done is closed
}

// tail keeps the end of what a process writes.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytesMax = 64 << 10

// Write keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - tailBytesMax; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// Restart starts the service of a world that has a Program, with env added to
// its environment, and returns when it answers. What ran before has ended.
func (w *World) Restart(ctx context.Context, env ...string) error {
	if w.child != nil {
		select {
		case <-w.child.done:
		default:
			return errors.New("the service is still running")
		}
	}
	c := &child{cmd: exec.Command(w.opts.Program, "serve", "--config", w.configFile()), log: &tail{}}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	var err error
	if c.done, c.err, err = tied.Start(c.cmd); err != nil {
		return fmt.Errorf("start %s: %w", w.opts.Program, err)
	}
	w.child = c
	ctx, cancel := context.WithTimeout(ctx, upMax)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Info.OpsURL+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.done:
			return fmt.Errorf("the service ended with %v:\n%s", c.err(), c.log)
		case <-ctx.Done():
			return fmt.Errorf("the service does not answer:\n%s", c.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the service as kill -9 does and returns when it is gone.
func (w *World) Kill() error {
	if err := w.child.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-w.child.done
	return nil
}

// Killed waits until the service has been killed by a signal; the error says how
// else it ended, or that it lives.
func (w *World) Killed(ctx context.Context) error {
	select {
	case <-w.child.done:
	case <-ctx.Done():
		return fmt.Errorf("the service lives:\n%s", w.child.log)
	}
	var exit *exec.ExitError
	if errors.As(w.child.err(), &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the service ended with %v:\n%s", w.child.err(), w.child.log)
}

// Log is the end of what the service wrote.
func (w *World) Log() string {
	if w.child == nil {
		return ""
	}
	return w.child.log.String()
}

func (c *child) stop() error {
	select {
	case <-c.done:
		return nil
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(downMax):
		err := c.cmd.Process.Kill()
		<-c.done
		return errors.Join(fmt.Errorf("the service did not stop within %s", downMax), err)
	}
}
