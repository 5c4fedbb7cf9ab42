package app

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
)

// Rule WD-43. An order waits for CHAIN because its providers do not answer, and then an operator
// ends it or freezes: a command opens without the providers of any chain. A service does not start
// without them, and nothing opens on another network.
func TestACommandOpensWhileTheProvidersAreAway(t *testing.T) {
	t.Parallel()
	node := anviltest.Start(t, anvil.Config{})
	conf := onThisMachine(t, node)
	log := slog.New(slog.DiscardHandler)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "away", http.StatusBadGateway)
	}))
	defer away.Close()
	ours := conf.Chains[chain.Ethereum]
	on := func(endpoint string, chainID uint64) Config {
		c, eth := conf, ours
		eth.Endpoints, eth.ChainID = []string{endpoint}, chainID
		c.Chains = map[chain.Name]Chain{chain.Ethereum: eth}
		return c
	}

	if a, err := New(t.Context(), on(away.URL, ours.ChainID), log); !errors.Is(err, chain.ErrTooFewProviders) {
		t.Errorf("a service: got %v %v, want %v", a, err, chain.ErrTooFewProviders)
	}
	a, err := OpenTools(t.Context(), on(away.URL, ours.ChainID), log)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// The command reads and writes the database, and what asks the chain fails.
	if _, err := a.DispatchWorker(chain.Ethereum).CancelOrder(
		t.Context(), "wd_none", audit.Operator("op"),
	); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("end an order that is not there: got %v, want %s", err, fault.CodeNotFound)
	}
	if heads, err := a.Chains[chain.Ethereum].Reader.Heads(t.Context()); err == nil {
		t.Errorf("ask the chain: got %+v, want an error", heads)
	}
	if b, err := OpenTools(
		t.Context(), on(node.URL, ours.ChainID+1), log,
	); !errors.As(err, new(*quorum.WrongNetworkError)) {
		t.Errorf("another network: got %v %v, want it refused", b, err)
	}
}
