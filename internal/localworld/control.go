package localworld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Interruption is a service that was killed, and the one that continues.
type Interruption struct {
	Killed  int `json:"killed"`  // the process that ended by SIGKILL
	Started int `json:"started"` // the process that answers now
}

// interruptPath is where the control of a world takes the command to kill its service.
const interruptPath = "/service/interrupt"

// errNoControl says that no process can be killed without the world.
var errNoControl = errors.New("the service of this world has no process of its own, so it cannot be killed alone: " +
	"start the world with make run, or bin/coffer local")

// Interrupt ends the service of a world with Options.Program as kill -9 does and starts it again. It returns when the
// service answers. Rule BP-82.
func (w *World) Interrupt(ctx context.Context) (i Interruption, err error) {
	w.childMu.Lock()
	defer w.childMu.Unlock()
	if w.child == nil {
		return i, errNoControl
	}
	i.Killed = w.child.cmd.Process.Pid
	if err := w.KillService(); err != nil {
		return i, fmt.Errorf("kill the service: %w", err)
	}
	if err := w.RestartService(ctx, w.opts.Env...); err != nil {
		return i, fmt.Errorf("start the service again: %w", err)
	}
	i.Started = w.child.cmd.Process.Pid
	return i, nil
}

// controlServer takes commands for a world at a unix socket, which only the user of the world can open.
type controlServer struct {
	server *http.Server
	ended  chan error
}

// controlSocket returns the path of the socket, which is in the world's folder.
func (w *World) controlSocket() string { return filepath.Join(w.dir, "world.sock") }

// openControl serves the commands until closeServer. They end with ctx, the world's, and not with their caller.
func (w *World) openControl(ctx context.Context) (*controlServer, error) {
	path := w.controlSocket()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the control of the world: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the control of the world: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("open the control of the world: %w", err), listener.Close())
	}
	routes := http.NewServeMux()
	routes.HandleFunc("POST "+interruptPath, func(answer http.ResponseWriter, _ *http.Request) {
		interruption, err := w.Interrupt(ctx)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(interruption)
	})
	c := &controlServer{
		server: &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}, ended: make(chan error, 1),
	}
	go func() { c.ended <- c.server.Serve(listener) }()
	w.Info.Control = path
	return c, nil
}

func (c *controlServer) closeServer() error {
	err := c.server.Close()
	if serving := <-c.ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

// InterruptService asks the running world to kill its service as kill -9 does, and to start it again.
func (i Info) InterruptService(ctx context.Context) (interruption Interruption, err error) {
	if i.Control == "" {
		return interruption, errNoControl
	}
	var dialer net.Dialer
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", i.Control)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://world"+interruptPath, nil)
	if err != nil {
		return interruption, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return interruption, fmt.Errorf("ask the world to kill the service: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, tailBytesMax+4096))
	if err != nil {
		return interruption, fmt.Errorf("ask the world to kill the service: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return interruption, fmt.Errorf("the world could not kill the service and start it again: %s", body)
	}
	if err := json.Unmarshal(body, &interruption); err != nil {
		return interruption, fmt.Errorf("ask the world to kill the service: %w", err)
	}
	return interruption, nil
}
