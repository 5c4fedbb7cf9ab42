package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service/servicetest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// onCatalogue returns the configuration of all chains of a network that the catalogue has, with
// providers that do not answer.
func onCatalogue(t *testing.T, network chain.Network) Config {
	t.Helper()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "away", http.StatusBadGateway)
	}))
	t.Cleanup(away.Close)
	text, err := SampleConfig(network)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(filled(t, text))
	if err != nil {
		t.Fatal(err)
	}
	c.Database.URL = pgtest.NewDatabase(t).URL
	c.Keys, c.Signer = KeyFiles(filepath.Join(t.TempDir(), "keys"))
	if err := CreateKeys(c.Keys, c.Signer); err != nil {
		t.Fatal(err)
	}
	for name, ch := range c.Chains {
		ch.Endpoints, ch.Agree = []string{away.URL}, 1
		c.Chains[name] = ch
	}
	return c
}

// openWith opens a process of some roles as a command is opened, which does without its providers.
func openWith(t *testing.T, c Config, roles ...Role) *App {
	t.Helper()
	c.Roles = roles
	a, err := OpenTools(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// For each chain of the catalogue, the loops that use what the chain offers run: in one process
// with all roles, in processes with one role each, and as steps of the trials. A command has the
// workers of each chain.
func TestWhatAChainOffersHasItsLoops(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		t.Run(string(network), func(t *testing.T) {
			t.Parallel()
			conf := onCatalogue(t, network)
			tools := openWith(t, conf)
			loops := map[string][]string{}
			for process, roles := range map[string][][]Role{
				"one process":      {allRoles},
				"split into roles": {{RoleAPI}, {RoleApprovals}, {RoleWorkers}, {RoleScan}, {RoleDispatch}},
			} {
				for _, r := range roles {
					for _, l := range openWith(t, conf, r...).roleLoops() {
						loops[process] = append(loops[process], l.String())
					}
				}
			}
			offered := map[string]bool{}
			for _, n := range catalogue.List() {
				if n.Network != network {
					continue
				}
				ch, ok := tools.Chains[n.Chain]
				if !ok {
					t.Errorf("%s: got no chain, want that of the sample", n.Name)
					continue
				}
				for _, c := range servicetest.Capabilities {
					offered[c.Name] = offered[c.Name] || c.IsOffered(ch)
				}
				trial := harness.New(harness.Config{
					DB: tools.DB(), Chain: ch, AttestKey: tools.parts.AttestKey, Prices: tools.parts.Prices,
				})
				loops["trials"] = nil
				for _, s := range trial.ListSteps(nil) {
					loops["trials"] = append(loops["trials"], s.Loop)
				}
				for caller, names := range loops {
					for _, missing := range servicetest.MissingLoops(ch, names) {
						t.Errorf("%s: %s; it has %q", caller, missing, names)
					}
				}
				if tools.Walker(n.Chain) == nil || tools.DispatchWorker(n.Chain) == nil ||
					tools.Sweeper(n.Chain) == nil {
					t.Errorf("a command: got %s without its workers", n.Name)
				}
			}
			for _, c := range servicetest.Capabilities {
				// The catalogue has no tiers: an operator sets them.
				if !offered[c.Name] && c.Name != "Tiers" {
					t.Errorf("%s: got no chain that offers it, want one", c.Name)
				}
			}
		})
	}
}
