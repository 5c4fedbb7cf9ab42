package localworld

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/freeport"
)

// outageProxy forwards the service's connections to the node of a chain, byte for byte. It answers
// 503 while a file says that the provider has an outage.
type outageProxy struct {
	file     string // contains the end of an outage
	node     string // host and port
	url      string
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// outageFile returns the path of the file with the end of a chain's outage. It is in the world's
// folder, like the configuration file.
func outageFile(config string, name chain.Name) string {
	return filepath.Join(filepath.Dir(config), "outage."+strings.ToLower(string(name)))
}

// openOutageProxy opens a proxy in front of the node at a URL.
func openOutageProxy(node, file string) (*outageProxy, error) {
	target, err := url.Parse(node)
	if err != nil {
		return nil, fmt.Errorf("read the node's URL: %w", err)
	}
	address, err := freeport.FindAddress()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen in front of a chain's node: %w", err)
	}
	proxyURL := url.URL{Scheme: "http", Host: l.Addr().String(), User: target.User}
	g := &outageProxy{file: file, node: target.Host, url: proxyURL.String(), listener: l, open: map[net.Conn]bool{}}
	g.serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			g.serving.Go(func() { g.proxyConn(client) })
		}
	})
	return g, nil
}

const outageAnswer = "the provider does not answer, as coffer local trigger outage requested\n"

// proxyConn serves one connection until either side closes it or an outage begins.
func (g *outageProxy) proxyConn(client net.Conn) {
	defer client.Close()
	node, err := net.Dial("tcp", g.node)
	if err != nil {
		return
	}
	defer node.Close()
	if !g.trackConns(client, node) {
		return
	}
	defer g.untrackConns(client, node)
	g.serving.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, node)
	})
	request := make([]byte, 32<<10)
	for {
		n, err := client.Read(request)
		if err != nil {
			return
		}
		if outageEnd(g.file).After(time.Now()) {
			fmt.Fprintf(
				client,
				"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: "+
					"close\r\n\r\n%s",
				len(outageAnswer), outageAnswer,
			)
			return
		}
		if _, err := node.Write(request[:n]); err != nil {
			return
		}
	}
}

// trackConns records connections for close. It returns false if the proxy is closed.
func (g *outageProxy) trackConns(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.open[c] = true
	}
	return !g.closed
}

func (g *outageProxy) untrackConns(conns ...net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		delete(g.open, c)
	}
}

// endOutage lets the service reach the node again.
func (g *outageProxy) endOutage() error { return endOutage(g.file) }

func endOutage(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the outage: %w", err)
	}
	return nil
}

func (g *outageProxy) closeProxy() error {
	err := g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.open {
		c.Close()
	}
	g.mu.Unlock()
	g.serving.Wait()
	return err
}

// outageEnd returns the end of an outage, or the zero time if there is none.
func outageEnd(file string) time.Time {
	b, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}
	}
	end, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(b)))
	if err != nil {
		return time.Time{}
	}
	return end
}

// SetOutage makes the provider of a chain answer 503 to the service until a time. A past time ends
// the outage. Only a world with Options.OutageProxies can do that.
func (i Info) SetOutage(name chain.Name, end time.Time) error {
	if _, ok := i.Chains[string(name)]; !ok {
		return fmt.Errorf("this world has no chain %s", name)
	}
	file := outageFile(i.Config, name)
	if !i.OutageProxies {
		return errors.New(
			"this world has no proxy between the service and its chains: start it with make run, or bin/coffer local",
		)
	}
	if !end.After(time.Now()) {
		return endOutage(file)
	}
	return replaceFile(file, []byte(end.Format(time.RFC3339Nano)+"\n"))
}

// proxyChains puts a proxy in front of each chain of a configuration.
func (w *World) proxyChains(conf app.Config) error {
	if !w.opts.OutageProxies {
		return nil
	}
	for name, c := range conf.Chains {
		file := outageFile(w.configFile(), name)
		if err := endOutage(file); err != nil { // of an earlier start
			return err
		}
		g, err := openOutageProxy(c.Endpoints[0], file)
		if err != nil {
			return err
		}
		w.outageProxies = append(w.outageProxies, g)
		c.Endpoints = []string{g.url}
		conf.Chains[name] = c
	}
	return nil
}
