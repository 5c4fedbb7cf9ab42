package solana_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// proxy is a provider that stands between the adapter and a node, and answers as its
// rules have it.
type proxy struct {
	URL string

	mu    sync.Mutex
	rules map[string]rule
	asked map[string]int
}

// A rule changes what is answered to a method.
type rule func(*exchange)

// exchange is one request with the answer that the node gave to it.
type exchange struct {
	Method string
	Params []json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	r    *http.Request
	drop bool
	wire func(http.ResponseWriter) // answers instead, with bytes of its own
}

// Say puts an answer in the place of the node's.
func (e *exchange) Say(result string) { e.Result, e.Error = json.RawMessage(result), nil }

// Refuse answers with an error.
func (e *exchange) Refuse(err string) { e.Result, e.Error = nil, json.RawMessage(err) }

// Hang answers nothing until the asker has left.
func (e *exchange) Hang() {
	<-e.r.Context().Done()
	e.drop = true
}

// Write answers with whatever is written, as no node should.
func (e *exchange) Write(w func(http.ResponseWriter)) { e.wire = w }

// Slot is the first parameter, for methods that ask about one.
func (e *exchange) Slot(t testing.TB) (slot uint64) {
	if err := json.Unmarshal(e.Params[0], &slot); err != nil {
		t.Errorf("%s of %s: %v", e.Method, e.Params[0], err)
	}
	return slot
}

// Edit changes an answer that is an object.
func (e *exchange) Edit(t testing.TB, change func(map[string]any)) {
	if len(e.Result) == 0 || string(e.Result) == "null" {
		return
	}
	d := json.NewDecoder(bytes.NewReader(e.Result))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
		return
	}
	change(m)
	b, err := json.Marshal(m)
	if err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
	}
	e.Result = b
}

func newProxy(t testing.TB, node string, always rule) *proxy {
	t.Helper()
	p := &proxy{rules: map[string]rule{}, asked: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(t, node, always, w, r) }))
	t.Cleanup(srv.Close)
	p.URL = srv.URL + "/a-secret-key"
	return p
}

// On sets the rule of a method; nil takes it away.
func (p *proxy) On(method string, r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules[method] = r
}

// Asked is how often a method was asked.
func (p *proxy) Asked(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[method]
}

func (p *proxy) rule(method string) rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[method]++
	if all := p.rules["*"]; all != nil {
		return all
	}
	return p.rules[method]
}

type message struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method,omitempty"`
	Params  []json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   json.RawMessage   `json:"error,omitempty"`
}

func (p *proxy) serve(t testing.TB, to string, always rule, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var q message
	if err := json.Unmarshal(body, &q); err != nil {
		t.Errorf("request %s: %v", body, err)
		panic(http.ErrAbortHandler)
	}
	e := exchange{Method: q.Method, Params: q.Params, r: r}
	if to != "" {
		e.forward(to, body)
	}
	if always != nil {
		always(&e)
	}
	if rule := p.rule(q.Method); rule != nil {
		rule(&e)
	}
	if e.drop {
		panic(http.ErrAbortHandler)
	}
	if e.wire != nil {
		e.wire(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The asker may have left.
	_ = json.NewEncoder(w).Encode(message{Version: "2.0", ID: q.ID, Result: e.Result, Error: e.Error})
}

func (e *exchange) forward(to string, body []byte) {
	resp, err := http.Post(to, "application/json", bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	var got message
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		panic(http.ErrAbortHandler)
	}
	if e.Result, e.Error = got.Result, got.Error; e.Result == nil && e.Error == nil {
		e.Result = json.RawMessage("null")
	}
}
