// Package catalogue is the catalogue that comes with the program: the chains that
// were looked at, with their tokens, how they become final and what they cost. A
// configuration is written from it (coffer config sample) and checked against it;
// while the service runs, the configuration alone counts.
//
// What never happens here: an id that becomes another token. Nothing is written
// down, so a crash leaves nothing.
package catalogue

import (
	"bytes"
	_ "embed" // the two lists
	"fmt"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// CustomIDsFrom is where the ids of tokens begin that an operator adds; the list never
// gives one from there.
const CustomIDsFrom = 100_000

// A Network is a chain on its main or on a test network.
type Network struct {
	Network       chain.Network `toml:"-"`
	Chain         chain.Name    `toml:"chain"`
	Name          string        `toml:"name"`          // as people call it
	ChainID       uint64        `toml:"chain_id"`      // of EVM chains
	Genesis       string        `toml:"genesis"`       // of the others: the hash of the first block
	BlockTime     Duration      `toml:"block_time"`    // about
	Confirmations int           `toml:"confirmations"` // until it is usually final; shown to people
	Finality      string        `toml:"finality"`      // FINALIZED, or DEPTH for a chain without the tag
	Depth         uint64        `toml:"depth"`         // blocks until final, on Bitcoin its own among them; 0 with FINALIZED
	FinalityNote  string        `toml:"why"`           // why that is final, and how long it takes
	FeeCap        money.Amount  `toml:"fee_cap"`       // EVM: wei per gas
	TipCap        money.Amount  `toml:"tip_cap"`       // EVM: wei per gas
	PriceMax      uint64        `toml:"price_max"`     // Solana: millionths of a lamport for a compute unit
	CostMax       money.Amount  `toml:"cost_max"`      // of the others: what one transaction may cost, in atomic units
	Mints         []Mint        `toml:"mint"`          // the native coin first
}

// A Mint is a token of a network.
type Mint struct {
	ID          int           `toml:"id"`       // for ever
	Contract    chain.Address `toml:"contract"` // "" for the native coin
	Program     string        `toml:"program"`  // Solana: TOKEN_2022, or "" for the token program of old
	Symbol      string        `toml:"symbol"`
	Name        string        `toml:"name"`
	Decimals    int           `toml:"decimals"`
	MinDeposit  money.Amount  `toml:"min_deposit"`  // atomic units
	MinWithdraw money.Amount  `toml:"min_withdraw"` // atomic units
	PaymentMax  money.Amount  `toml:"payment_max"`  // atomic units: what the sample of the signer's policy lets one payment be
	Sources     []string      `toml:"sources"`      // that name the contract, two at least
}

// A Span is a length of time in the form of time.ParseDuration.
type Duration time.Duration

// UnmarshalText reads it.
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

// List are the networks in the order of the list, those of MAINNET first.
func List() []Network { return slices.Clone(allNetworks) }

// Find finds a chain on a network.
func Find(network chain.Network, name chain.Name) (Network, bool) {
	return findNetwork(func(n Network) bool { return n.Network == network && n.Chain == name })
}

// ByChainID finds an EVM network by its chain id, which no two have.
func ByChainID(id uint64) (Network, bool) {
	return findNetwork(func(n Network) bool { return id != 0 && n.ChainID == id })
}

// ByGenesis finds a network by the hash of its first block, which no two have. EVM
// networks are not known by theirs: forks of one chain share it.
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

// ByID finds the mint with an id, and where it is.
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

// ByContract finds the mint of a contract; "" is the native coin.
func (n Network) ByContract(contract chain.Address) (Mint, bool) {
	for _, m := range n.Mints {
		if m.Contract == contract {
			return m, true
		}
	}
	return Mint{}, false
}
