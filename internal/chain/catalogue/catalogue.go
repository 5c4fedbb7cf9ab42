// Package catalogue is the catalogue that comes with the program: the reviewed chains with their
// tokens, their finality and their costs. coffer config sample writes a configuration from it, and
// a configuration is checked against it. While the service runs, only the configuration counts.
//
// An id never becomes another token. The package writes nothing, so a crash leaves no trace.
package catalogue

import (
	"bytes"
	_ "embed" // the two lists
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// CustomIDsFrom is the first id for tokens that an operator adds; the catalogue never uses an id
// from there.
const CustomIDsFrom = 100_000

// Network is a chain on its main or on a test network.
type Network struct {
	Network       chain.Network `toml:"-"`
	Chain         chain.Name    `toml:"chain"`
	Name          string        `toml:"name"`          // its common name
	Explorer      string        `toml:"explorer"`      // the address of a transaction's page, with {tx} for its hash
	ChainID       uint64        `toml:"chain_id"`      // of EVM chains
	Genesis       string        `toml:"genesis"`       // of the others: the hash of the first block
	BlockTime     Duration      `toml:"block_time"`    // approximately
	Confirmations int           `toml:"confirmations"` // until it is usually final, as shown to people
	Finality      string        `toml:"finality"`      // FINALIZED, or DEPTH for a chain without the tag
	Depth         uint64        `toml:"depth"`         // blocks until final, with its own on Bitcoin; 0 with FINALIZED
	FinalityNote  string        `toml:"why"`           // why such a block is final, and how long that takes
	FeeCap        money.Amount  `toml:"fee_cap"`       // EVM: wei per gas
	TipCap        money.Amount  `toml:"tip_cap"`       // EVM: wei per gas
	PriceMax      uint64        `toml:"price_max"`     // Solana: millionths of a lamport for a compute unit
	CostMax       money.Amount  `toml:"cost_max"`      // of the others: what one transaction may cost, in atomic units
	Mints         []Mint        `toml:"mint"`          // the native coin first
}

// Mint is a token of a network.
type Mint struct {
	ID          int           `toml:"id"`       // never changes
	Contract    chain.Address `toml:"contract"` // "" for the native coin
	Program     string        `toml:"program"`  // Solana: TOKEN_2022, or "" for the original token program
	Symbol      string        `toml:"symbol"`
	Name        string        `toml:"name"`
	Decimals    int           `toml:"decimals"`
	MinDeposit  money.Amount  `toml:"min_deposit"`  // atomic units
	MinWithdraw money.Amount  `toml:"min_withdraw"` // atomic units
	PaymentMax  money.Amount  `toml:"payment_max"`  // atomic units: of one payment, in the sample policy of the signer
	Sources     []string      `toml:"sources"`      // at least two sources that name the contract
}

// Duration is a duration in the form of time.ParseDuration.
type Duration time.Duration

// UnmarshalText parses a duration.
func (s *Duration) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Duration(d)
	return err
}

//go:embed mainnet.toml
var mainnet []byte

//go:embed testnet.toml
var testnet []byte

var allNetworks = slices.Concat(parseNetworks(chain.Mainnet, mainnet), parseNetworks(chain.Testnet, testnet))

func parseNetworks(network chain.Network, text []byte) []Network {
	var list struct {
		Networks []Network `toml:"network"`
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&list); err != nil {
		panic(fmt.Sprintf("catalogue: the list of %s is not readable: %v", network, err))
	}
	for i := range list.Networks {
		list.Networks[i].Network = network
	}
	return list.Networks
}

// List returns the networks in the order of the catalogue, those of MAINNET first.
func List() []Network { return slices.Clone(allNetworks) }

// Find returns a chain on a network.
func Find(network chain.Network, name chain.Name) (Network, bool) {
	return findNetwork(func(n Network) bool { return n.Network == network && n.Chain == name })
}

// ByChainID returns an EVM network by its chain id, which is unique.
func ByChainID(id uint64) (Network, bool) {
	return findNetwork(func(n Network) bool { return id != 0 && n.ChainID == id })
}

// ByGenesis returns a network by the hash of its first block, which is unique. It does not find EVM
// networks: forks of one chain share that hash.
func ByGenesis(hash string) (Network, bool) {
	return findNetwork(func(n Network) bool { return hash != "" && n.Genesis == hash })
}

func findNetwork(matches func(Network) bool) (Network, bool) {
	i := slices.IndexFunc(allNetworks, matches)
	if i < 0 {
		return Network{}, false
	}
	return allNetworks[i], true
}

// ByID returns the mint with an id, and its network.
func ByID(id int) (Network, Mint, bool) {
	for _, n := range allNetworks {
		for _, m := range n.Mints {
			if m.ID == id {
				return n, m, true
			}
		}
	}
	return Network{}, Mint{}, false
}

// ExplorerURL returns the address of a transaction's page at an explorer, and "" if none is known.
func (n Network) ExplorerURL(tx chain.TxHash) string {
	if n.Explorer == "" {
		return ""
	}
	return strings.ReplaceAll(n.Explorer, "{tx}", url.PathEscape(string(tx)))
}

// ByContract returns the mint of a contract; "" is the native coin.
func (n Network) ByContract(contract chain.Address) (Mint, bool) {
	for _, m := range n.Mints {
		if m.Contract == contract {
			return m, true
		}
	}
	return Mint{}, false
}
