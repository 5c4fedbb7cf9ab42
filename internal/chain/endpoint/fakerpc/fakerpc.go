// Package fakerpc is a proxy between an adapter and a node that speaks JSON-RPC; it changes the node's
// answers. It is for tests alone, and stores nothing.
package fakerpc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Node answers as its rules say, and as the node behind it where no rule applies.
type Node struct {
	URL string // contains what would be a secret

	upstream  string
	everyRule Rule
	mu        sync.Mutex
	rules     map[string]Rule
	counts    map[string]int
}

// Rule changes the answer to a method.
type Rule func(*Exchange)

// Exchange is one request with the node's answer to it.
type Exchange struct {
	Method string
	Params []json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	request  *http.Request
	dropped  bool
	writeRaw func(http.ResponseWriter) // answers with bytes of its own instead
}

// SetResult replaces the node's answer.
func (e *Exchange) SetResult(result string) { e.Result, e.Error = json.RawMessage(result), nil }

// SetError answers with an error.
func (e *Exchange) SetError(err string) { e.Result, e.Error = nil, json.RawMessage(err) }

// DropConnection drops the connection after the node has executed the request.
func (e *Exchange) DropConnection() { e.dropped = true }

// HangUntilCancelled gives no answer until the caller gives up.
func (e *Exchange) HangUntilCancelled() {
	<-e.request.Context().Done()
	e.dropped = true
}

// WriteRaw answers with the bytes that w writes, which may violate the protocol.
func (e *Exchange) WriteRaw(w func(http.ResponseWriter)) { e.writeRaw = w }

// EditResult changes an answer that is an object.
func (e *Exchange) EditResult(t testing.TB, change func(map[string]any)) {
	editDecoded(t, e, func(m map[string]any) map[string]any {
		change(m)
		return m
	})
}

// EditList changes an answer that is a list of objects.
func (e *Exchange) EditList(t testing.TB, change func([]map[string]any) []map[string]any) {
	editDecoded(t, e, change)
}

func editDecoded[T any](t testing.TB, e *Exchange, change func(T) T) {
	if len(e.Result) == 0 || string(e.Result) == "null" {
		return
	}
	d := json.NewDecoder(bytes.NewReader(e.Result))
	d.UseNumber()
	var v T
	if err := d.Decode(&v); err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
		return
	}
	b, err := json.Marshal(change(v))
	if err != nil {
		t.Errorf("answer to %s: %v", e.Method, err)
	}
	e.Result = b
}

// New starts a proxy for a node; without one ("") only its rules answer. always applies to every
// answer and before the other rules; it may be nil.
func New(t testing.TB, upstream string, always Rule) *Node {
	t.Helper()
	n := &Node{upstream: upstream, everyRule: always, rules: map[string]Rule{}, counts: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.serveRPC(t, w, r) }))
	t.Cleanup(srv.Close)
	n.URL = srv.URL + "/a-secret-key"
	return n
}

// SetRule sets the rule of a method. A rule for all methods ("*") replaces those of the methods.
// nil removes a rule.
func (n *Node) SetRule(method string, r Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules[method] = r
}

// CallCount returns the number of requests of a method.
func (n *Node) CallCount(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[method]
}

func (n *Node) ruleFor(method string) Rule {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[method]++
	if wildcard := n.rules["*"]; wildcard != nil {
		return wildcard
	}
	return n.rules[method]
}

type message struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method,omitempty"`
	Params  []json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   json.RawMessage   `json:"error,omitempty"`
}

func (n *Node) serveRPC(t testing.TB, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	batch := bytes.HasPrefix(bytes.TrimSpace(body), []byte("["))
	calls := make([]message, 1)
	if batch {
		err = json.Unmarshal(body, &calls)
	} else {
		err = json.Unmarshal(body, &calls[0])
	}
	if err != nil {
		t.Errorf("request %s: %v", body, err)
		panic(http.ErrAbortHandler)
	}
	var answers []message
	for _, q := range calls {
		e := Exchange{Method: q.Method, Params: q.Params, request: r}
		if n.upstream != "" {
			e.forwardCall(t, n.upstream, q)
		}
		if n.everyRule != nil {
			n.everyRule(&e)
		}
		if rule := n.ruleFor(q.Method); rule != nil {
			rule(&e)
		}
		if e.dropped {
			panic(http.ErrAbortHandler)
		}
		if e.writeRaw != nil {
			e.writeRaw(w)
			return
		}
		answers = append(answers, message{Version: "2.0", ID: q.ID, Result: e.Result, Error: e.Error})
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any = answers
	if !batch {
		answer = answers[0]
	}
	// The caller may be gone.
	_ = json.NewEncoder(w).Encode(answer)
}

func (e *Exchange) forwardCall(t testing.TB, upstream string, q message) {
	q.Version = "2.0"
	body, err := json.Marshal(q)
	if err != nil {
		t.Errorf("request %s: %v", q.Method, err)
	}
	resp, err := http.Post(upstream, "application/json", bytes.NewReader(body))
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
