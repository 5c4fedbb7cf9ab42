package oracle

import (
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/risk"
)

// Config is the section of the provider.
type Config struct {
	Contracts map[string]string `toml:"contracts,omitempty" comment:"by chain; default: the known ones"`
}

// IsList returns true.
func (*Config) IsList() bool { return true }

// ReadSecrets reads nothing.
func (*Config) ReadSecrets(func(setting, file string) string) {}

// Check reports what is wrong with the section.
func (c *Config) Check(check risk.VendorCheck) {
	for name, contract := range c.Contracts {
		if !check.HasChain(chain.Name(name)) {
			check.Report("contracts", "%s is not among chains; configure it, or remove the contract", name)
		} else if _, err := evmtx.Bytes(chain.Address(contract)); err != nil {
			check.Report("contracts", "%q of %s is not an address with its checksum", contract, name)
		}
	}
	if check.IsNamed && len(c.Contracts) == 0 && check.Network != chain.Mainnet {
		check.Report("contracts", "is missing; the known contracts are those of main networks")
	}
}

// Open builds the provider on the configured contracts, or on the known ones of the chains that run.
// Lists of this installation are read each time: that costs nothing, and a change takes effect at
// once.
func (c *Config) Open(e risk.VendorEnv) (risk.Member, error) {
	contracts := c.Contracts
	if len(contracts) == 0 {
		contracts = map[string]string{}
		for _, name := range e.Chains {
			switch name {
			case chain.Base:
				contracts[string(name)] = BaseContract
			case chain.Ethereum, chain.Arbitrum, chain.Optimism, chain.Polygon, chain.BSC, chain.Avalanche:
				contracts[string(name)] = DefaultContract
			}
		}
	}
	feeds := map[chain.Name]Feed{}
	for name, contract := range contracts {
		caller, err := e.ContractCaller(chain.Name(name))
		if err != nil {
			return risk.Member{}, err
		}
		feeds[chain.Name(name)] = Feed{Caller: caller, Contract: chain.Address(contract)}
	}
	return risk.Member{Screener: Screener{Feeds: feeds}}, nil
}
