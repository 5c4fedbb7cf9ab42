package evm_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

// proxy is a provider that stands between the adapter and an anvil, and
// answers as its rules have it.
type proxy struct {
	URL string

	mu    sync.Mutex
	rules map[string]rule
	asked map[string]int
}

// A rule changes what is answered to a method.
type rule func(*exchange)

// exchange is one request with the answer that anvil gave to it.
type exchange struct {
	Method string
	Params []json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	r    *http.Request
	drop bool
	wire func(http.ResponseWriter) // answers instead, with bytes of its own
}

// Say puts an answer in the place of anvil's.
func (e *exchange) Say(result string) { e.Result, e.Error = json.RawMessage(result), nil }

// Refuse answers with an error.
func (e *exchange) Refuse(err string) { e.Result, e.Error = nil, json.RawMessage(err) }

// Lose drops the connection after anvil has done what was asked.
func (e *exchange) Lose() { e.drop = true }

// Hang answers nothing until the asker has left.
func (e *exchange) Hang() {
	<-e.r.Context().Done()
	e.drop = true
}

// Write answers with whatever is written, as no node should.
func (e *exchange) Write(w func(http.ResponseWriter)) { e.wire = w }

// Edit changes an answer that is an object.
func (e *exchange) Edit(t testing.TB, change func(map[string]any)) {
	var m map[string]any
	if !e.read(t, &m) {
		return
	}
	change(m)
	e.write(t, m)
}

// EditList changes an answer that is a list of objects.
func (e *exchange) EditList(t testing.TB, change func([]map[string]any) []map[string]any) {
	var l []map[string]any
	if !e.read(t, &l) {
		return
	}
	e.write(t, change(l))
}

func (e *exchange) read(t testing.TB, into any) bool {
	if len(e.Result) == 0 || string(e.Result) == "null" {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(e.Result))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
		return false
	}
	return true
}

func (e *exchange) write(t testing.TB, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
	}
	e.Result = b
}

func newProxy(t testing.TB, node *anvil.Node) *proxy {
	t.Helper()
	p := &proxy{rules: map[string]rule{}, asked: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(t, node.URL, w, r) }))
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

type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

func (p *proxy) serve(t testing.TB, to string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	batch := bytes.HasPrefix(bytes.TrimSpace(body), []byte("["))
	var requests []request
	var responses []response
	if batch {
		err = json.Unmarshal(body, &requests)
	} else {
		requests = make([]request, 1)
		err = json.Unmarshal(body, &requests[0])
	}
	if err != nil {
		t.Errorf("request %s: %v", body, err)
		panic(http.ErrAbortHandler)
	}
	for _, q := range requests {
		e := exchange{Method: q.Method, Params: q.Params, r: r}
		e.forward(t, to, q)
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
		responses = append(responses, response{"2.0", q.ID, e.Result, e.Error})
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any = responses
	if !batch {
		answer = responses[0]
	}
	// The asker may have left.
	_ = json.NewEncoder(w).Encode(answer)
}

func (e *exchange) forward(t testing.TB, to string, q request) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "method": q.Method, "params": q.Params})
	if err != nil {
		t.Errorf("request %s: %v", q.Method, err)
	}
	resp, err := http.Post(to, "application/json", bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	var got response
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		panic(http.ErrAbortHandler)
	}
	if e.Result, e.Error = got.Result, got.Error; e.Result == nil && e.Error == nil {
		e.Result = json.RawMessage("null")
	}
}
