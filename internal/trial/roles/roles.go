// Package roles runs the service as many processes, each with one role and no more
// files than it needs, and kills some of them.
//
// What never happens here: wiring. Every process is the program with a configuration
// that an operator could have written. A crash leaves files in a test's folder; the
// processes end with the test.
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
	"github.com/cofferpay/coffer/internal/loopback"
)

const (
	upMax   = 2 * time.Minute // for a process to be ready
	downMax = time.Minute     // for it to stop when it is asked to
	look    = 50 * time.Millisecond
)

// Process is the program, running.
type Process struct {
	Name string
	API  string // where its API would be
	Ops  string

	cmd  *exec.Cmd
	log  *log
	done <-chan struct{}
	err  func() error
}

// log keeps what a process writes.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps it.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// Log is what the process has written.
func (p *Process) Log() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.buf.String()
}

// Start runs a command of the program.
func Start(program, name string, args ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, args...), log: &log{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	var err error
	if p.done, p.err, err = tied.Start(p.cmd); err != nil {
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

// NewHost makes the folder of a role from a configuration that has everything: what
// the role does not use is neither named nor there.
func NewHost(dir string, role app.Role, from app.Config) (Host, error) {
	h := Host{role, filepath.Join(dir, string(role)), from}
	c := &h.Conf
	keys := from.Keys
	c.Keys = app.Keys{}
	c.Roles = []app.Role{role}
	c.Database.OwnerURL = ""
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return h, err
	}
	bring := func(from string, to *string) error {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		*to = filepath.Join(h.Dir, filepath.Base(from))
		return os.WriteFile(*to, b, 0o600)
	}
	err := bring(keys.Attest, &c.Keys.Attest)
	switch role {
	case app.RoleAPI:
		err = errors.Join(err, bring(keys.Seal, &c.Keys.Seal), bring(keys.Cursor, &c.Keys.Cursor), bring(keys.Approvals, &c.Keys.Approvals),
			bring(filepath.Join(filepath.Dir(keys.Webhook), "webhook.pub"), &c.Keys.WebhookPublic))
		c.Chains = map[chain.Name]app.Chain{}
		for name, ch := range from.Chains {
			ch.Endpoints = nil // it asks no chain
			c.Chains[name] = ch
		}
	case app.RoleWorkers:
		err = errors.Join(err, bring(keys.Seal, &c.Keys.Seal), bring(keys.Webhook, &c.Keys.Webhook), bring(keys.Approvals, &c.Keys.Approvals))
	case app.RoleSigner:
		c.Database.URL = ""
		err = errors.Join(err, bring(keys.Approvals, &c.Keys.Approvals))
	}
	return h, err
}

// Run starts a process of the role and returns when it is ready.
func (h Host) Run(ctx context.Context, program string, n int) (*Process, error) {
	conf := h.Conf
	conf.Operator = app.Operator{} // two processes of a role cannot share its address
	var err error
	for _, listen := range []*string{&conf.API.Listen, &conf.Ops.Listen} {
		if *listen, err = loopback.Address(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("%s-%d", h.Role, n)
	file := filepath.Join(h.Dir, name+".toml")
	if err := app.WriteConfig(file, conf); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, program, "config", "check", file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w\n%s", name, err, out)
	}
	p, err := Start(program, name, "serve", "--config", file)
	if err != nil {
		return nil, err
	}
	p.API, p.Ops = conf.API.Listen, conf.Ops.Listen
	return p, p.up(ctx, h)
}

// up waits until the process answers: at its own port, or at the signer's.
func (p *Process) up(ctx context.Context, h Host) error {
	ctx, cancel := context.WithTimeout(ctx, upMax)
	defer cancel()
	for {
		if h.Role == app.RoleSigner && Reachable(ctx, h.Conf.Signer.Serve.Listen) || h.Role != app.RoleSigner && ready(ctx, p.Ops) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.Name, p.err(), p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready\n%s", p.Name, p.Log())
		case <-time.After(look):
		}
	}
}

func ready(ctx context.Context, ops string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// Reachable tells whether somebody listens at an address.
func Reachable(ctx context.Context, address string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	return err == nil && c.Close() == nil
}

// Kill ends it as kill -9 does.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// Stop asks it to end and says how it did.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		if err := p.err(); err != nil {
			return fmt.Errorf("%s ended: %w\n%s", p.Name, err, p.Log())
		}
		return nil
	case <-time.After(downMax):
		return errors.Join(fmt.Errorf("%s does not stop", p.Name), p.Kill())
	}
}

// Ended waits for a process that has to end by itself, and says how it did.
func (p *Process) Ended(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Kill())
	}
}
