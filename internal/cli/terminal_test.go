package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

// screen is what a command writes while it runs.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The terminal of make run: a line for each event, one when an endpoint begins to fail, however
// often it does, and one when it answers again. The world has the requested limits.
func TestTheTerminalTellsWhatHappens(t *testing.T) {
	node, err := anvil.Find()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("COFFER_ANVIL", node)
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer stop()
	out, ended := &screen{}, make(chan int, 1)
	go func() {
		ended <- cli.Run(running, []string{"local", "--chains", "ETHEREUM", "--limits"}, out, os.Stderr)
	}()
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			select {
			case code := <-ended:
				t.Fatalf("coffer local ended with %d while a test waited until %s:\n%s", code, what, out)
			case <-ctx.Done():
				t.Fatalf("waited too long until %s:\n%s", what, out)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	var info localworld.Info
	until("the world is up", func() bool { info, err = localworld.ReadInfo("."); return err == nil })
	api, err := client.New(info.BaseURL, info.APIKey)
	if err != nil {
		t.Fatal(err)
	}
	var answer client.Response
	if _, err := api.ListMints(ctx, client.ListMintsParams{}, client.WithResponse(&answer)); err != nil ||
		answer.Header.Get("RateLimit-Limit") == "" {
		t.Errorf("got %v %v, want the headers of a limit", answer.Header, err)
	}

	var well atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	endpoint, err := api.CreateWebhookEndpoint(ctx, client.EndpointRequest{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	for i, customer := range []string{"ann", "bob"} {
		address, err := api.CreateDepositAddress(ctx, client.DepositRequest{MintID: 1, CustomerID: customer})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := info.SendFromFaucet(
			ctx, info.Mints[0], common.HexToAddress(address.Address), big.NewInt(int64(i+1)*1_000_000),
		); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("CUSTOMER_DEPOSIT  %d USDC on ETHEREUM for %s, CREDITED  dep_", i+1, customer)
		until("a deposit is told", func() bool { return strings.Contains(out.String(), line) })
		until("its delivery has failed", func() bool {
			attempts, err := api.ListWebhookDeliveries(ctx, endpoint.EndpointID, client.ListWebhookDeliveriesParams{})
			return err == nil && len(attempts.Data) > i
		})
		until("the failure is told", func() bool {
			return strings.Contains(out.String(), "webhook FAILS to "+receiver.URL)
		})
	}
	well.Store(true)
	if _, err := api.RecoverWebhookEndpoint(
		ctx, endpoint.EndpointID, client.RecoverRequest{Since: endpoint.CreatedAt},
	); err != nil {
		t.Fatal(err)
	}
	until("the recovery is told", func() bool {
		return strings.Contains(out.String(), "webhook delivered again to "+receiver.URL)
	})
	if n := strings.Count(out.String(), "webhook FAILS"); n != 1 {
		t.Errorf("got %d lines of one endpoint that fails, want 1:\n%s", n, out)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("coffer local ended with %d:\n%s", code, out)
	}
}
