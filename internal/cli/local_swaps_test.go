package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
)

// idleChain is a chain on which nothing happens.
type idleChain struct{ swapdesk.Chain }

func (idleChain) Name() chain.Name            { return chain.Ethereum }
func (idleChain) WalletAddress(uint32) string { return "the desk's address" }
func (idleChain) CheckAddress(string) error   { return nil }
func (idleChain) CloseClient()                {}

// describeDesk writes the description of a world whose swap provider answers, and returns its folder and the
// provider's API.
func describeDesk(t *testing.T) (dir string, api *httptest.Server) {
	t.Helper()
	dir = t.TempDir()
	desk, err := swapdesk.New(swapdesk.Config{
		State: filepath.Join(dir, "swaps.jsonl"),
		Assets: []swapdesk.Asset{
			{
				Mint: 3, Chain: chain.Ethereum, Blockchain: "eth", Symbol: "DAI", Decimals: 18,
				Contract: "0x00000000000000000000000000000000000000d1", Price: money.MustParseUSD("1.00"),
			},
			{
				Mint: 4, Chain: chain.Ethereum, Blockchain: "eth", Symbol: "ETH", Decimals: 18,
				Price: money.MustParseUSD("3000.00"),
			},
		},
		Chains: func(swapdesk.Seed) ([]swapdesk.Chain, error) { return []swapdesk.Chain{idleChain{}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := desk.CloseState(); err != nil {
			t.Error(err)
		}
	})
	api, control := httptest.NewServer(desk.API()), httptest.NewServer(desk.Control())
	t.Cleanup(api.Close)
	t.Cleanup(control.Close)
	text, err := json.Marshal(localworld.Info{
		Mints: []localworld.Mint{
			{ID: 3, Symbol: "DAI", Chain: "ETHEREUM", Decimals: 18},
			{ID: 4, Symbol: "ETH", Chain: "ETHEREUM", Decimals: 18},
		},
		Swaps: localworld.SwapProvider{URL: api.URL, ControlURL: control.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, localworld.InfoFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, api
}

func TestTheLocalSwapProviderDoesWhatItsCommandsSay(t *testing.T) {
	t.Parallel()
	dir, api := describeDesk(t)
	swaps := func(want string, args ...string) string {
		t.Helper()
		code, out, err := run(t, append(append([]string{"local", "swaps"}, args...), "--dir", dir)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("%v: got %d %q %q, want %q", args, code, out, err, want)
		}
		return out
	}
	swaps("does what it promises", "show")
	for _, want := range []string{"There are no swaps.", "$3000", api.URL, "ed25519:"} {
		swaps(want, "show")
	}
	for _, mode := range localworld.SwapModes()[1:] {
		swaps("misbehaves: "+mode+".", "behave", mode)
	}
	swaps("misbehaves: refund, with mint 4, the next time.", "behave", "refund", "--next", "1", "--mint", "4")
	swaps("ETH on ethereum at $3100", "price", "4", "3100.00")
	swaps("$3100", "show")

	quote := strings.NewReader(`{"dry":false,"swapType":"EXACT_INPUT","slippageTolerance":100,
		"originAsset":"local:ethereum:native","depositType":"ORIGIN_CHAIN","amount":"1000000000000000000",
		"destinationAsset":"local:ethereum:0x00000000000000000000000000000000000000d1","refundTo":"a",
		"refundType":"ORIGIN_CHAIN","recipient":"b","recipientType":"DESTINATION_CHAIN",
		"deadline":"2100-01-01T00:00:00Z"}`)
	answer, err := api.Client().Post(api.URL+"/v0/quote", "application/json", quote)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	out := swaps("1 ETH on ethereum", "show")
	for _, want := range []string{"PENDING_DEPOSIT", "refund", "DAI on ethereum", "the desk's address"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q in it", out, want)
		}
	}
	// One quote was the next one.
	swaps("does what it promises", "show")

	swaps("ETH on ethereum at $3000", "price", "4")
	swaps("misbehaves: down.", "behave", "down")
	swaps("does what it promises", "behave", "none")
}

func TestACommandForTheLocalSwapProviderSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir, _ := describeDesk(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"name one of none, refund,", []string{"behave", "explode"}},
		{"--next -1", []string{"behave", "refund", "--next=-1"}},
		{"no mint 9", []string{"behave", "refund", "--mint", "9"}},
		{"not a price", []string{"price", "4", "cheap"}},
		{"not a price", []string{"price", "4", "0"}},
		{"no asset with this mint", []string{"price", "9", "1.00"}},
	} {
		code, _, err := run(t, append(append([]string{"local", "swaps"}, c.args...), "--dir", dir)...)
		if code == 0 || !strings.Contains(err, c.want) {
			t.Errorf("%v: got %d %q, want %q", c.args, code, err, c.want)
		}
	}
	empty := t.TempDir()
	if err := os.MkdirAll(filepath.Join(empty, ".coffer"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(empty, localworld.InfoFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, err := run(t, "local", "swaps", "show", "--dir", empty); code != 1 ||
		!strings.Contains(err, "no swap provider") {
		t.Errorf("got %d %q, want that the world has no swap provider", code, err)
	}
}

// The help and the page on testing have every mode.
func TestEveryModeOfTheLocalSwapProviderIsExplained(t *testing.T) {
	t.Parallel()
	_, help, _ := run(t, "local", "swaps", "behave", "--help")
	help = strings.Join(strings.Fields(help), " ")
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range localworld.SwapModes() {
		if !strings.Contains(help, mode) {
			t.Errorf("got %q, want %s in the help", help, mode)
		}
		if !strings.Contains(string(page), "| `"+mode+"` |") {
			t.Errorf("docs/testing.md: got no row of %s", mode)
		}
	}
}
