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

// wire stands between the service and PostgreSQL. It can cut every connection,
// and it can take away the answers to COMMIT: the server has them, the service
// never hears.
type wire struct {
	listener net.Listener
	target   string
	mute     atomic.Bool  // answers to COMMIT do not come through
	muted    atomic.Int64 // how many did not

	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newWire(target string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: l, target: target, conns: map[net.Conn]bool{}}
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.serve(c) })
		}
	})
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) close() {
	w.listener.Close()
	w.cut()
	w.wg.Wait()
}

// cut closes every connection, on both sides.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

func (w *wire) track(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
}

func (w *wire) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer server.Close()
	w.track(client)
	w.track(server)
	var silent atomic.Bool
	var pipes sync.WaitGroup
	pipes.Go(func() {
		defer server.Close()
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if n > 0 {
				if w.mute.Load() && bytes.Contains(buf[:n], []byte("commit\x00")) {
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
					w.muted.Add(1)
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

// lie is what a provider does with a transaction that it is given.
type lie string

const (
	honest  lie = ""
	unread  lie = "W15" // takes it, and the answer is not read
	refused lie = "W16" // takes it and answers with an error
	swallow lie = "W17" // answers that it took it, and forgets it
)

// provider stands between the service and the chain.
type provider struct {
	net    network
	server *http.Server
	url    string
	client *http.Client

	mu      sync.Mutex
	conns   map[net.Conn]bool
	lie     lie
	met     chan struct{} // closed when a lie was reached
	open    chan struct{} // closed to let the lie go on
	garbled string        // blocks with something for this address are nonsense
	forgets bool          // takes transactions, and forgets them all
	down    bool
}

func newProvider(of network) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{net: of, url: "http://" + l.Addr().String(), conns: map[net.Conn]bool{}, client: &http.Client{Timeout: 30 * time.Second}}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second, ConnState: func(c net.Conn, s http.ConnState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s == http.StateClosed || s == http.StateHijacked {
			delete(p.conns, c)
		} else {
			p.conns[c] = true
		}
	}}
	go func() { _ = p.server.Serve(l) }() // it ends with close
	return p, nil
}

func (p *provider) close() { _ = p.server.Close() }

func (p *provider) cut() {
	p.mu.Lock()
	conns := p.conns
	p.conns = map[net.Conn]bool{}
	p.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// tell arms a lie for the next transaction; met is closed when it came, and
// calling honestly lets it go on and makes the provider honest.
func (p *provider) tell(l lie) (met <-chan struct{}, honestly func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lie, p.met, p.open = l, make(chan struct{}), make(chan struct{})
	open := p.open
	return p.met, sync.OnceFunc(func() { close(open) })
}

// garble makes blocks with something for an address nonsense; "" ends it.
func (p *provider) garble(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.garbled = address
}

// forget has transactions taken and forgotten, until it is over.
func (p *provider) forget(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets = on
}

func (p *provider) away(on bool) {
	p.mu.Lock()
	p.down = on
	p.mu.Unlock()
	if on {
		p.cut()
	}
}

// request is a JSON-RPC call as far as the provider cares.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []any           `json:"params"`
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var call request
	_ = json.Unmarshal(body, &call) // a batch is passed on as it is
	p.mu.Lock()
	down, mine, met, open := p.down, honest, p.met, p.open
	sends := call.Method == p.net.sends()
	if sends {
		mine, p.lie = p.lie, honest
	}
	garbled, forgets := p.garbled, p.forgets
	p.mu.Unlock()
	if down {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	var answer []byte
	if mine == swallow || sends && forgets {
		answer, err = p.taken(call)
	} else {
		answer, err = p.pass(body)
		if err == nil && sends {
			err = p.ran(r.Context(), call, answer)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if mine != honest {
		close(met)
		<-open
	}
	if mine == refused {
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	}
	if garbled != "" {
		if nonsense, ok := p.net.spoil(call.Method, answer, garbled); ok {
			answer, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": nonsense})
		}
		if err != nil {
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (p *provider) pass(body []byte) ([]byte, error) {
	resp, err := p.client.Post(p.net.url(), "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// ran has the chain do what its node does not with a transaction that it took.
func (p *provider) ran(ctx context.Context, call request, answer []byte) error {
	var said struct{ Error json.RawMessage }
	if err := json.Unmarshal(answer, &said); err != nil || len(call.Params) == 0 || len(said.Error) > 0 && string(said.Error) != "null" {
		return nil // it was not taken, and whoever asked sees why
	}
	text, _ := call.Params[0].(string)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.Timeout)
	defer cancel()
	return p.net.ran(ctx, text)
}

// taken is the answer of a provider that took a transaction.
func (p *provider) taken(call request) ([]byte, error) {
	if len(call.Params) == 0 {
		return nil, errors.New("a transaction was sent without parameters")
	}
	text, _ := call.Params[0].(string)
	id, err := p.net.id(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": id})
}
