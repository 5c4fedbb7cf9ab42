package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// onThisMachine returns the configuration of a service on a chain and a database of this machine.
func onThisMachine(t *testing.T, node *anvil.Node) Config {
	t.Helper()
	c := DefaultConfig()
	c.Network = chain.Local
	c.Database.URL, c.Database.MaxConns = pgtest.NewDatabase(t).URL, 8
	c.API.Listen, c.Ops.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Keys, c.Signer = KeyFiles(filepath.Join(t.TempDir(), "keys"))
	if err := CreateKeys(c.Keys, c.Signer); err != nil {
		t.Fatal(err)
	}
	c.Signer = withPolicy(t, c.Signer)
	c.Chains = map[chain.Name]Chain{chain.Ethereum: {
		ChainID: anvil.DefaultChainID, Endpoints: []string{node.URL}, Agree: 1, FeeCap: "500000000000", Trace: "on",
	}}
	c.Mints = []Mint{{
		ID: 1, Chain: chain.Ethereum, Symbol: "ETH", Name: "Ether", Decimals: 18, MinDeposit: "1", MinWithdraw: "1",
		DepositEnabled: true, WithdrawEnabled: true, Finality: "FINALIZED",
	}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// whatRuns lists the goroutines that the check for leaks ignores: those that already run, and idle
// connections.
func whatRuns() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreCurrent(),
		// Idle connections to a chain's providers close by themselves.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}

// It runs alone, because it looks for leaked goroutines.
func TestAStopFinishesWhatIsUnderWayAndLeavesNothing(t *testing.T) {
	conf := onThisMachine(t, anviltest.Start(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1}))
	before := whatRuns()
	a, err := New(t.Context(), conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := org.Create(t.Context(), a.DB(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.CheckReady(t.Context()); err != nil {
		t.Errorf("got %v, want it ready", err)
	}

	via := &http.Transport{ExpectContinueTimeout: time.Minute}
	client := &http.Client{Transport: via}
	// A request whose body arrives in two halves, with the request to stop between them. The first
	// half leaves only when the service has asked for the body.
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+a.apiListener.Addr().String()+"/v1/deposit", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", key.Reveal())
	req.Header.Set("content-type", "application/json")
	req.Header.Set("expect", "100-continue")
	type reply struct {
		status  int
		address string
		err     error
	}
	answered := make(chan reply, 1)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			answered <- reply{err: err}
			return
		}
		defer resp.Body.Close()
		var got struct{ Address string }
		err = json.NewDecoder(resp.Body).Decode(&got)
		answered <- reply{resp.StatusCode, got.Address, err}
	}()
	if _, err := io.WriteString(send, `{"mintId": 1, "customer`); err != nil {
		t.Fatal(err)
	}
	stop()
	pgtest.Eventually(t, func() bool { return a.CheckReady(t.Context()) != nil },
		"the service says that it is stopping")
	var d net.Dialer
	pgtest.Eventually(t, func() bool {
		conn, err := d.DialContext(t.Context(), "tcp", a.apiListener.Addr().String())
		return err != nil || conn.Close() != nil
	}, "no new connection is taken")
	select {
	case err := <-ended:
		t.Errorf("Run returned with a request under way: %v", err)
	default:
	}
	if _, err := io.WriteString(send, `Id": "user_42"}`); err != nil {
		t.Fatal(err)
	}
	send.Close()
	if got := <-answered; got.err != nil || got.status != http.StatusOK || got.address == "" {
		t.Errorf("the request under way: got %+v, want its answer", got)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run: got %v, want no error", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Run does not return")
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close: got %v, want no error", err)
	}
	via.CloseIdleConnections()
	goleak.VerifyNone(t, before...)
}

// Every listener of the service has the guard before it.
// Rule REQ-8.
func TestEveryListenerRefusesTwoLengths(t *testing.T) {
	conf := onThisMachine(t, anviltest.Start(t, anvil.Config{BlockTime: time.Second}))
	conf.Operator.Listen = "127.0.0.1:0"
	a, err := New(t.Context(), conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]net.Listener{
		"api": a.apiListener, "operator": a.operatorListener, "ops": a.opsListener,
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		const request = "POST /v1/withdraw/preview HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		// The status arrives whether or not the server closes with a reset.
		got, err := io.ReadAll(conn)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(string(got), "HTTP/1.1 400") ||
			strings.Count(string(got), "HTTP/1.1") != 1 {
			t.Errorf("%s: got %q and %v, want 400 alone and the connection closed", name, got, err)
		}
		conn.Close()
	}
	stop()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
}

func TestAServiceThatCannotStartSaysWhyAndLeavesNothing(t *testing.T) {
	node := anviltest.Start(t, anvil.Config{BlockTime: time.Second})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for setting, change := range map[string]func(*Config){
		"keys.attest":    func(c *Config) { c.Keys.Attest += ".gone" },
		"signer.seed":    func(c *Config) { c.Signer.Seed += ".gone" },
		"signer.policy":  func(c *Config) { c.Signer.Policy += ".gone" },
		"keys.seal":      func(c *Config) { c.Keys.Seal += ".gone" },
		"keys.webhook":   func(c *Config) { c.Keys.Webhook += ".gone" },
		"keys.cursor":    func(c *Config) { c.Keys.Cursor += ".gone" },
		"keys.approvals": func(c *Config) { c.Keys.Approvals += ".gone" },
		"ops.listen":     func(c *Config) { c.Ops.Listen = taken.Addr().String() },
		"database":       func(c *Config) { c.Database.URL = "postgres://nobody@127.0.0.1:1/nothing" },
		"chains.ETHEREUM": func(c *Config) {
			changeChain(c, func(ch *Chain) { ch.Endpoints = []string{"http://127.0.0.1:1"} })
		},
	} {
		conf := onThisMachine(t, node)
		change(&conf)
		before := whatRuns()
		a, err := New(t.Context(), conf, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), setting+": ") {
			t.Errorf("%s: got %v, want it told by its name", setting, err)
		}
		if a != nil {
			t.Errorf("%s: got a service beside the error", setting)
		}
		goleak.VerifyNone(t, before...)
	}
}
