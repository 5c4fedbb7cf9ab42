package localworld

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/loopback"
)

// gateHeaderMax is how long a gate waits for the headers of a request.
const gateHeaderMax = 10 * time.Second

// gate passes the service's calls on to the node of a chain, and answers 503 while a file
// says that the provider is out.
type gate struct {
	file   string // has the end of an outage
	server *http.Server
	url    string
	ended  chan struct{}
}

// outageFile has the end of a chain's outage. It is in the world's folder, as the
// configuration file is.
func outageFile(config string, name chain.Name) string {
	return filepath.Join(filepath.Dir(config), "outage."+strings.ToLower(string(name)))
}

// openGate stands before the node at a URL.
func openGate(node, file string) (*gate, error) {
	target, err := url.Parse(node)
	if err != nil {
		return nil, fmt.Errorf("read the node's URL: %w", err)
	}
	user := target.User // the service sends it; the proxy passes it on
	target.User = nil
	address, err := loopback.Address()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen before a chain's node: %w", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	at := url.URL{Scheme: "http", Host: l.Addr().String(), User: user}
	g := &gate{file: file, url: at.String(), ended: make(chan struct{})}
	g.server = &http.Server{ReadHeaderTimeout: gateHeaderMax, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if outUntil(file).After(time.Now()) {
			http.Error(w, "the provider is out, as coffer local trigger outage asked for", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() {
		defer close(g.ended)
		_ = g.server.Serve(l) // until close
	}()
	return g, nil
}

// endOutage has the service reach the node again.
func (g *gate) endOutage() error { return endOutage(g.file) }

func endOutage(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the outage: %w", err)
	}
	return nil
}

func (g *gate) close() error {
	err := g.server.Close()
	<-g.ended
	return err
}

// outUntil is the end of an outage; the zero time when there is none.
func outUntil(file string) time.Time {
	b, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}
	}
	until, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(b)))
	if err != nil {
		return time.Time{}
	}
	return until
}

// Outage has the provider of a chain answer 503 to the service until a time; one that has
// passed ends the outage. Only a world with Options.Gates has what does that.
func (i Info) Outage(name chain.Name, until time.Time) error {
	if _, ok := i.Chains[string(name)]; !ok {
		return fmt.Errorf("this world has no chain %s", name)
	}
	file := outageFile(i.Config, name)
	if !i.Gates {
		return errors.New("this world has nothing between the service and its chains: start it with make run, or bin/coffer local")
	}
	if !until.After(time.Now()) {
		return endOutage(file)
	}
	return replaceFile(file, []byte(until.Format(time.RFC3339Nano)+"\n"))
}

// gateChains puts a gate before each chain of a configuration.
func (w *World) gateChains(conf app.Config) error {
	if !w.opts.Gates {
		return nil
	}
	for name, c := range conf.Chains {
		file := outageFile(w.configFile(), name)
		if err := endOutage(file); err != nil { // of a former life
			return err
		}
		g, err := openGate(c.Endpoints[0], file)
		if err != nil {
			return err
		}
		w.gates = append(w.gates, g)
		c.Endpoints = []string{g.url}
		conf.Chains[name] = c
	}
	return nil
}
