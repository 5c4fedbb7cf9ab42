package networks

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
)

// order is that of the API's list of chains; ids are counted by it.
var order = chain.Names

func TestEveryContractHasItsChecksum(t *testing.T) {
	t.Parallel()
	for _, n := range All() {
		for _, m := range n.Mints {
			// go-ethereum computes the checksum, so that this does not prove our parser by itself.
			if m.Contract != "" && string(m.Contract) != common.HexToAddress(string(m.Contract)).Hex() {
				t.Errorf("%s on %s: got %s, want %s", m.Symbol, n.Name, m.Contract, common.HexToAddress(string(m.Contract)).Hex())
			}
		}
	}
}

// Rule MINT-3. The file is added to and never changed: what stands in it stands in
// the books of installations.
func TestAnIDIsOneTokenForEver(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, n := range All() {
		for _, m := range n.Mints {
			contract := string(m.Contract)
			if contract == "" {
				contract = "-"
			}
			lines = append(lines, fmt.Sprintf("%d %s %s %d %s %d", m.ID, n.Network, n.Chain, n.ChainID, contract, m.Decimals))
		}
	}
	want, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, "\n") + "\n"; got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNoTwoShareAnIDOrAChainID(t *testing.T) {
	t.Parallel()
	ids, chains, places := map[int]string{}, map[uint64]string{}, map[string]bool{}
	for _, n := range All() {
		place := string(n.Network) + " " + string(n.Chain)
		if other, twice := chains[n.ChainID]; twice || places[place] {
			t.Errorf("%s: got chain id %d twice, of %s too, or the place twice", n.Name, n.ChainID, other)
		}
		chains[n.ChainID], places[place] = n.Name, true
		contracts := map[chain.Address]bool{}
		base := 100 * (1 + slices.Index(order, n.Chain))
		if n.Network == chain.Testnet {
			base += 10_000
		}
		for _, m := range n.Mints {
			what := m.Symbol + " on " + n.Name
			if other, twice := ids[m.ID]; twice || contracts[m.Contract] {
				t.Errorf("%s: got id %d or its contract twice, %s too", what, m.ID, other)
			}
			ids[m.ID], contracts[m.Contract] = what, true
			if m.ID <= base || m.ID >= base+100 || m.ID >= OwnIDs {
				t.Errorf("%s: got id %d, want one between %d and %d", what, m.ID, base, base+100)
			}
			if _, found, ok := ByID(m.ID); !ok || found.Contract != m.Contract {
				t.Errorf("ByID(%d): got %v %v, want %s", m.ID, found, ok, what)
			}
		}
		if got, ok := ByChainID(n.ChainID); !ok || got.Name != n.Name {
			t.Errorf("ByChainID(%d): got %v %v, want %s", n.ChainID, got.Name, ok, n.Name)
		}
	}
}

func TestEveryNetworkIsWhole(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		for _, name := range order[:7] {
			n, ok := Of(network, name)
			if !ok || name.Family() != chain.EVM {
				t.Errorf("%s %s: got none, want it in the list", network, name)
				continue
			}
			if n.Name == "" || n.ChainID == 0 || n.Why == "" || n.Confirmations < 1 || time.Duration(n.BlockTime) < 100*time.Millisecond || time.Duration(n.BlockTime) > 15*time.Second {
				t.Errorf("%s: got %+v, want no part of it missing", n.Name, n)
			}
			if n.Finality != "FINALIZED" && n.Finality != "DEPTH" || (n.Finality == "DEPTH") != (n.Depth > 0) {
				t.Errorf("%s: got finality %s with depth %d, want the tag, or a depth", n.Name, n.Finality, n.Depth)
			}
			if n.TipCap.IsZero() || n.FeeCap.Less(n.TipCap) {
				t.Errorf("%s: got tip cap %v and fee cap %v, want the first above 0 and not above the second", n.Name, n.TipCap, n.FeeCap)
			}
			symbols := map[string]bool{}
			for i, m := range n.Mints {
				symbols[m.Symbol] = true
				if (i == 0) != (m.Contract == "") {
					t.Errorf("%s: got %s in place %d, want the native coin first and once", n.Name, m.Symbol, i)
				}
				if m.MinDeposit.IsZero() || m.MinWithdraw.IsZero() || m.PaymentMax.Less(m.MinWithdraw) || m.Name == "" {
					t.Errorf("%s on %s: got %+v, want minimums above 0 and below what may be paid", m.Symbol, n.Name, m)
				}
				if m.Contract != "" && len(slices.Compact(slices.Sorted(slices.Values(m.Sources)))) < 2 {
					t.Errorf("%s on %s: got sources %q, want two", m.Symbol, n.Name, m.Sources)
				}
				want := 6
				if m.Contract == "" || n.Chain == chain.BSC {
					want = 18
				}
				if m.Decimals != want {
					t.Errorf("%s on %s: got %d decimals, want %d", m.Symbol, n.Name, m.Decimals, want)
				}
			}
			if !symbols["USDC"] || network == chain.Mainnet && !symbols["USDT"] {
				t.Errorf("%s: got %v, want USDC, and USDT on main networks", n.Name, symbols)
			}
		}
	}
}

// The contract of the API names the chains; the list knows no other.
func TestEveryChainIsOneOfTheAPI(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range All() {
		if !regexp.MustCompile(`"` + string(n.Chain) + `"`).Match(document) {
			t.Errorf("%s: got no %s in the document of the API", n.Name, n.Chain)
		}
	}
}
