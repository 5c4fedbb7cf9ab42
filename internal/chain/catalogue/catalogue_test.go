package catalogue

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// order is the order of the API's list of chains; it gives the ids.
var order = chain.Names

// Addresses of EVM chains have a checksum. Those of Solana have none, so the test checks their
// form. Bitcoin has no tokens.
func TestEveryContractHasTheFormOfItsFamily(t *testing.T) {
	t.Parallel()
	for _, n := range List() {
		for _, m := range n.Mints {
			switch {
			case m.Contract == "":
			case n.Chain.Family() == chain.EVM:
				// go-ethereum computes the checksum, so that the test does not depend on our parser
				// alone.
				if want := common.HexToAddress(string(m.Contract)).Hex(); string(m.Contract) != want {
					t.Errorf("%s on %s: got %s, want %s", m.Symbol, n.Name, m.Contract, want)
				}
			case n.Chain == chain.Solana:
				b, err := base58.Decode(string(m.Contract))
				if a, parsed := solanatx.ParseMint(string(m.Contract)); err != nil || len(b) != 32 || parsed != nil ||
					a != m.Contract {
					t.Errorf(
						"%s on %s: got %s (%v, %v), want the address of a mint", m.Symbol, n.Name, m.Contract, err,
						parsed,
					)
				}
			default:
				t.Errorf("%s on %s: got a contract, want none", m.Symbol, n.Name)
			}
			if m.Program != "" && (m.Program != "TOKEN_2022" || n.Chain != chain.Solana || m.Contract == "") {
				t.Errorf(
					"%s on %s: got program %q, want TOKEN_2022 of a token of Solana, or none", m.Symbol, n.Name,
					m.Program,
				)
			}
		}
	}
}

// The first block identifies a network without a chain id.
func TestEveryOtherNetworkIsKnownByItsFirstBlock(t *testing.T) {
	t.Parallel()
	bitcoin := map[chain.Network]string{
		chain.Mainnet: chaincfg.MainNetParams.GenesisHash.String(),
		chain.Testnet: chaincfg.TestNet4Params.GenesisHash.String(),
	}
	solana := map[chain.Network]string{
		chain.Mainnet: "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
		chain.Testnet: "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
	}
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		for name, want := range map[chain.Name]string{chain.Bitcoin: bitcoin[network], chain.Solana: solana[network]} {
			n, ok := Find(network, name)
			if !ok || n.Genesis != want || n.ChainID != 0 {
				t.Errorf("%s %s: got %q, %t, want %q and no chain id", network, name, n.Genesis, ok, want)
			}
			if got, ok := ByGenesis(want); !ok || got.Name != n.Name {
				t.Errorf("ByGenesis(%s): got %q, %t, want %q", want, got.Name, ok, n.Name)
			}
		}
	}
	if n, ok := ByGenesis(""); ok {
		t.Errorf("ByGenesis of nothing: got %q, want none", n.Name)
	}
	if n, ok := ByChainID(0); ok {
		t.Errorf("ByChainID of nothing: got %q, want none", n.Name)
	}
}

// Rule MINT-3. The file only grows: its entries are in the books of installations.
func TestAnIDIsOneTokenForEver(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, n := range List() {
		for _, m := range n.Mints {
			contract := string(m.Contract)
			if contract == "" {
				contract = "-"
			}
			id := n.Genesis
			if id == "" {
				id = fmt.Sprint(n.ChainID)
			}
			lines = append(lines, fmt.Sprintf("%d %s %s %s %s %d", m.ID, n.Network, n.Chain, id, contract, m.Decimals))
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
	ids, chains, places := map[int]string{}, map[string]string{}, map[string]bool{}
	for _, n := range List() {
		place := string(n.Network) + " " + string(n.Chain)
		id := fmt.Sprint(n.ChainID, n.Genesis)
		if other, twice := chains[id]; twice || places[place] {
			t.Errorf("%s: got chain id or genesis %s twice, of %s too, or the place twice", n.Name, id, other)
		}
		chains[id], places[place] = n.Name, true
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
			if m.ID <= base || m.ID >= base+100 || m.ID >= CustomIDsFrom {
				t.Errorf("%s: got id %d, want one between %d and %d", what, m.ID, base, base+100)
			}
			if _, found, ok := ByID(m.ID); !ok || found.Contract != m.Contract {
				t.Errorf("ByID(%d): got %v %v, want %s", m.ID, found, ok, what)
			}
		}
		if got, ok := ByChainID(n.ChainID); n.ChainID != 0 && (!ok || got.Name != n.Name) {
			t.Errorf("ByChainID(%d): got %v %v, want %s", n.ChainID, got.Name, ok, n.Name)
		}
	}
}

func TestEveryNetworkIsWhole(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		for _, name := range order[:9] {
			n, ok := Find(network, name)
			if !ok {
				t.Errorf("%s %s: got none, want it in the list", network, name)
				continue
			}
			checkNetwork(t, n)
			for i, m := range n.Mints {
				checkMint(t, n, i, m)
			}
			symbols := map[string]bool{}
			for _, m := range n.Mints {
				symbols[m.Symbol] = true
			}
			if name != chain.Bitcoin && (!symbols["USDC"] || network == chain.Mainnet && !symbols["USDT"]) {
				t.Errorf("%s: got %v, want USDC, and USDT on main networks", n.Name, symbols)
			}
		}
	}
}

func checkNetwork(t *testing.T, n Network) {
	t.Helper()
	slowest, evm := 15*time.Second, n.Chain.Family() == chain.EVM
	if n.Chain == chain.Bitcoin {
		slowest = 10 * time.Minute
	}
	if n.Name == "" || (n.ChainID == 0) == evm || (n.Genesis == "") != evm || n.FinalityNote == "" ||
		n.Confirmations < 1 ||
		time.Duration(n.BlockTime) < 100*time.Millisecond || time.Duration(n.BlockTime) > slowest {
		t.Errorf("%s: got %+v, want no part of it missing", n.Name, n)
	}
	if n.Finality != "FINALIZED" && n.Finality != "DEPTH" || (n.Finality == "DEPTH") != (n.Depth > 0) {
		t.Errorf("%s: got finality %s with depth %d, want the tag, or a depth", n.Name, n.Finality, n.Depth)
	}
	if evm && (n.TipCap.IsZero() || n.FeeCap.Less(n.TipCap)) || !evm &&
		(n.CostMax.IsZero() || !n.FeeCap.IsZero() || !n.TipCap.IsZero()) ||
		(n.PriceMax > 0) != (n.Chain == chain.Solana) {
		t.Errorf(
			"%s: got tip cap %v, fee cap %v, price %d and cost %v, want those of its family", n.Name, n.TipCap,
			n.FeeCap, n.PriceMax, n.CostMax,
		)
	}
}

func checkMint(t *testing.T, n Network, i int, m Mint) {
	t.Helper()
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
	switch {
	case n.Chain == chain.Solana && m.Contract == "":
		want = 9
	case n.Chain == chain.Bitcoin:
		want = 8
	case m.Contract == "" || n.Chain == chain.BSC:
		want = 18
	}
	if m.Decimals != want {
		t.Errorf("%s on %s: got %d decimals, want %d", m.Symbol, n.Name, m.Decimals, want)
	}
}

// The document of the API names the chains; the catalogue has no other.
func TestEveryChainIsOneOfTheAPI(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../http/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range List() {
		if !regexp.MustCompile(`"` + string(n.Chain) + `"`).Match(document) {
			t.Errorf("%s: got no %s in the document of the API", n.Name, n.Chain)
		}
	}
}
