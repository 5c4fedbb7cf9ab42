package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// databaseProxy stands between the service and PostgreSQL. It can cut every connection, and it can
// drop the answers to COMMIT: the server sends them, and the service never receives them.
type databaseProxy struct {
	listener       net.Listener
	target         string
	dropAnswers    atomic.Bool  // drops the answers to COMMIT
	droppedAnswers atomic.Int64 // how many were dropped

	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newDatabaseProxy(target string) (*databaseProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &databaseProxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.proxyConn(c) })
		}
	})
	return w, nil
}

func (w *databaseProxy) listenAddress() string { return w.listener.Addr().String() }

func (w *databaseProxy) closeProxy() {
	w.listener.Close()
	w.cutConns()
	w.wg.Wait()
}

// cutConns closes every connection, on both sides.
func (w *databaseProxy) cutConns() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

func (w *databaseProxy) trackConn(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
}

func (w *databaseProxy) proxyConn(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer server.Close()
	w.trackConn(client)
	w.trackConn(server)
	var silent atomic.Bool
	var pipes sync.WaitGroup
	pipes.Go(func() {
		defer server.Close()
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if n > 0 {
				if w.dropAnswers.Load() && bytes.Contains(buf[:n], []byte("commit\x00")) {
					silent.Store(true)
				}
				if _, err := server.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	pipes.Go(func() {
		defer server.Close()
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if n > 0 {
				if silent.Load() {
					w.droppedAnswers.Add(1)
				} else if _, err := client.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	pipes.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, client)
	delete(w.conns, server)
}

// providerFault is what a provider does with a transaction that it receives.
type providerFault string

const (
	noFault         providerFault = ""
	answerUnread    providerFault = "W15" // accepts it, and the answer is not read
	answerError     providerFault = "W16" // accepts it and answers with an error
	answerForgotten providerFault = "W17" // answers that it accepted it, and forgets it
)

// providerProxy stands between the service and the chain.
type providerProxy struct {
	net    network
	server *http.Server
	url    string
	client *http.Client

	mu             sync.Mutex
	conns          map[net.Conn]bool
	fault          providerFault
	reached        chan struct{} // closed when a fault was reached
	released       chan struct{} // closed to let the faulty call go on
	corruptAddress string        // corrupts blocks with something for this address
	forgets        bool          // accepts transactions, and forgets them all
	isDown         bool
}

func newProviderProxy(target network) (*providerProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &providerProxy{
		net: target, url: "http://" + l.Addr().String(), conns: map[net.Conn]bool{},
		client: &http.Client{Timeout: 30 * time.Second},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serveRequest), ReadHeaderTimeout: 10 * time.Second,
		ConnState: func(c net.Conn, s http.ConnState) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s == http.StateClosed || s == http.StateHijacked {
				delete(p.conns, c)
			} else {
				p.conns[c] = true
			}
		},
	}
	go func() { _ = p.server.Serve(l) }() // it ends with close
	return p, nil
}

func (p *providerProxy) closeServer() { _ = p.server.Close() }

func (p *providerProxy) cutConns() {
	p.mu.Lock()
	conns := p.conns
	p.conns = map[net.Conn]bool{}
	p.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// armFault arms a fault for the next transaction. reached is closed when that arrives; restore lets
// it go on and makes the provider correct again.
func (p *providerProxy) armFault(l providerFault) (reached <-chan struct{}, restore func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.reached, p.released = l, make(chan struct{}), make(chan struct{})
	released := p.released
	return p.reached, sync.OnceFunc(func() { close(released) })
}

// corruptBlocks corrupts blocks with something for an address; "" ends it.
func (p *providerProxy) corruptBlocks(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.corruptAddress = address
}

// setForgetting lets the provider accept and forget transactions, or ends that.
func (p *providerProxy) setForgetting(enabled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets = enabled
}

func (p *providerProxy) setDown(down bool) {
	p.mu.Lock()
	p.isDown = down
	p.mu.Unlock()
	if down {
		p.cutConns()
	}
}

// request is a JSON-RPC call, as far as the proxy reads it.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []any           `json:"params"`
}

func (p *providerProxy) serveRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var call request
	_ = json.Unmarshal(body, &call) // the proxy passes a batch on unread
	p.mu.Lock()
	isDown, fault, reached, released := p.isDown, noFault, p.reached, p.released
	sends := call.Method == p.net.sendMethod()
	if sends {
		fault, p.fault = p.fault, noFault
	}
	garbled, forgets := p.corruptAddress, p.forgets
	p.mu.Unlock()
	if isDown {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	var answer []byte
	if fault == answerForgotten || sends && forgets {
		answer, err = p.fakeAccepted(call)
	} else {
		answer, err = p.forwardRequest(body)
		if err == nil && sends {
			err = p.settleRun(r.Context(), call, answer)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if fault != noFault {
		close(reached)
		<-released
	}
	if fault == answerError {
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	}
	if garbled != "" {
		if nonsense, ok := p.net.corruptAnswer(call.Method, answer, garbled); ok {
			answer, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": nonsense})
		}
		if err != nil {
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (p *providerProxy) forwardRequest(body []byte) ([]byte, error) {
	resp, err := p.client.Post(p.net.nodeURL(), "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// settleRun does with an accepted transaction what a real chain does and the node does not.
func (p *providerProxy) settleRun(ctx context.Context, call request, answer []byte) error {
	var response struct{ Error json.RawMessage }
	if err := json.Unmarshal(answer, &response); err != nil || len(call.Params) == 0 || len(response.Error) > 0 &&
		string(response.Error) != "null" {
		return nil // it was not accepted, and the caller sees why
	}
	text, _ := call.Params[0].(string)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.Timeout)
	defer cancel()
	return p.net.settleRun(ctx, text)
}

// fakeAccepted returns the answer of a provider that accepted a transaction.
func (p *providerProxy) fakeAccepted(call request) ([]byte, error) {
	if len(call.Params) == 0 {
		return nil, errors.New("a transaction was sent without parameters")
	}
	text, _ := call.Params[0].(string)
	id, err := p.net.transactionID(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": id})
}
