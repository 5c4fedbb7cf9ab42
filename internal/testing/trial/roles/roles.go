// Package roles runs the service as many processes, each with one role and no more files than it
// needs, and kills some of them.
//
// It wires nothing itself. Every process is the program with a configuration that an operator could
// have written. A crash leaves files in a test's folder; the processes end with the test.
package roles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/tied"
	"github.com/cofferpay/coffer/internal/platform/freeport"
)

const (
	startMax     = 5 * time.Minute // for a process to be ready
	stopMax      = time.Minute     // for it to stop on request
	pollInterval = 50 * time.Millisecond
)

// Process is a running program.
type Process struct {
	Name string
	API  string // address of its API, empty for a role that has none
	// Approvals is the address of the pages of approvals, empty for a role that has none.
	Approvals string
	Ops       string

	cmd    *exec.Cmd
	log    *logBuffer
	exited <-chan struct{}
	err    func() error
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the buffer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// LogText returns what the process has written.
func (p *Process) LogText() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.buf.String()
}

// Start runs a command of the program.
func Start(program, name string, args ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, args...), log: &logBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	var err error
	if p.exited, p.err, err = tied.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Host is a folder with the configuration of one role and the files that it needs.
type Host struct {
	Role app.Role
	Dir  string
	Conf app.Config
}

// NewHost creates the folder of a role from a configuration that has everything. The new
// configuration and folder lack what the role does not use.
func NewHost(dir string, role app.Role, source app.Config) (Host, error) {
	h := Host{role, filepath.Join(dir, string(role)), source}
	c := &h.Conf
	keys := source.Keys
	c.Keys = app.Keys{}
	c.Roles = []app.Role{role}
	c.Database.OwnerURL = ""
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return h, err
	}
	copyKey := func(source string, target *string) error {
		b, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		*target = filepath.Join(h.Dir, filepath.Base(source))
		return os.WriteFile(*target, b, 0o600)
	}
	err := copyKey(keys.Attest, &c.Keys.Attest)
	switch role {
	case app.RoleAPI:
		err = errors.Join(err, copyKey(keys.Seal, &c.Keys.Seal), copyKey(keys.Cursor, &c.Keys.Cursor), copyKey(
			keys.Approvals, &c.Keys.Approvals,
		),
			copyKey(filepath.Join(filepath.Dir(keys.Webhook), "webhook.pub"), &c.Keys.WebhookPublic))
		c.Chains = map[chain.Name]app.Chain{}
		for name, ch := range source.Chains {
			ch.Endpoints = nil // it asks no chain
			c.Chains[name] = ch
		}
	case app.RoleApprovals:
		err = errors.Join(err, copyKey(keys.Seal, &c.Keys.Seal), copyKey(keys.Cursor, &c.Keys.Cursor),
			copyKey(keys.Approvals, &c.Keys.Approvals))
	case app.RoleWorkers:
		err = errors.Join(
			err, copyKey(keys.Seal, &c.Keys.Seal), copyKey(keys.Webhook, &c.Keys.Webhook),
			copyKey(keys.Approvals, &c.Keys.Approvals),
		)
	case app.RoleSigner:
		c.Database.URL = ""
		err = errors.Join(err, copyKey(keys.Approvals, &c.Keys.Approvals))
	}
	return h, err
}

// RunProcess starts a process of the role and returns when it is ready. A role that serves no API
// cannot listen at the API's address of its configuration: this process does, until that one ends.
func (h Host) RunProcess(ctx context.Context, program string, n int) (*Process, error) {
	conf := h.Conf
	conf.Operator, conf.Console = app.Operator{}, app.Console{} // two processes of a role cannot share its address
	var err error
	for _, listen := range []*string{&conf.API.Listen, &conf.Ops.Listen, &conf.Approvals.Listen} {
		if *listen, err = freeport.FindAddress(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("%s-%d", h.Role, n)
	file := filepath.Join(h.Dir, name+".toml")
	if err := app.WriteConfig(file, conf); err != nil {
		return nil, err
	}
	if output, err := exec.CommandContext(ctx, program, "config", "check", file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w\n%s", name, err, output)
	}
	var taken net.Listener
	if h.Role != app.RoleAPI {
		if taken, err = net.Listen("tcp", conf.API.Listen); err != nil {
			return nil, fmt.Errorf("take the address that %s may not serve: %w", name, err)
		}
	}
	p, err := Start(program, name, "serve", "--config", file)
	if err != nil {
		if taken != nil {
			err = errors.Join(err, taken.Close())
		}
		return nil, err
	}
	p.Ops = conf.Ops.Listen
	if h.Role == app.RoleApprovals {
		p.Approvals = conf.Approvals.Listen
	}
	if taken == nil {
		p.API = conf.API.Listen
	} else {
		go func() {
			<-p.exited
			_ = taken.Close()
		}()
	}
	return p, p.waitReady(ctx, h)
}

// waitReady waits until the process answers, at its own port or at the signer's.
func (p *Process) waitReady(ctx context.Context, h Host) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		if h.Role == app.RoleSigner && Reachable(ctx, h.Conf.Signer.Serve.Listen) || h.Role != app.RoleSigner &&
			isReady(ctx, p.Ops) {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %w\n%s", p.Name, p.err(), p.LogText())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready\n%s", p.Name, p.LogText())
		case <-time.After(pollInterval):
		}
	}
}

func isReady(ctx context.Context, ops string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// Reachable reports whether a process listens at an address.
func Reachable(ctx context.Context, address string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	return err == nil && c.Close() == nil
}

// KillProcess ends it as kill -9 does.
func (p *Process) KillProcess() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.exited
	return nil
}

// Stop asks the process to end and returns how it ended.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.exited:
		if err := p.err(); err != nil {
			return fmt.Errorf("%s ended: %w\n%s", p.Name, err, p.LogText())
		}
		return nil
	case <-time.After(stopMax):
		return errors.Join(fmt.Errorf("%s does not stop", p.Name), p.KillProcess())
	}
}

// WaitEnded waits for a process that has to end by itself, and returns how it ended.
func (p *Process) WaitEnded(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.err()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.KillProcess())
	}
}
