package relay

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// quotesUsual is the documented limit without an account, less some for other processes.
const quotesUsual = 40

const decimalsMax = 77

// Config is the section of the provider.
type Config struct {
	provider.Service
	Solvers []string                `toml:"solvers,omitempty" comment:"the addresses of the solvers that sign its orders"`
	Chains  map[string]*ChainConfig `toml:"chains,omitempty" comment:"by the name of the chain, such as BASE"`
}

// ChainConfig is one chain of the section.
type ChainConfig struct {
	ID             int64            `toml:"id" comment:"in requests, such as 8453"`
	Name           string           `toml:"name" comment:"in orders, such as base"`
	VM             string           `toml:"vm" comment:"ethereum-vm, solana-vm or bitcoin-vm"`
	Native         string           `toml:"native" comment:"the address that stands for the coin of the chain"`
	Factory        string           `toml:"factory,omitempty" comment:"the contracts of strict deposit addresses; without them the provider only delivers on this chain"`
	Implementation string           `toml:"implementation,omitempty"`
	Depositor      string           `toml:"depositor,omitempty"`
	Currencies     []CurrencyConfig `toml:"currencies,omitempty" comment:"only those that its solvers hold: of any other the order has another currency"`
}

// CurrencyConfig is one token of a chain.
type CurrencyConfig struct {
	Contract string `toml:"contract" comment:"native for the coin of the chain"`
	Symbol   string `toml:"symbol"`
	Decimals int    `toml:"decimals"`
}

var _ provider.Section = (*Config)(nil)

// Check reports what is wrong with the section.
func (c *Config) Check(check provider.SectionCheck) {
	c.CheckService(check)
	if _, err := c.parseSolvers(); err != nil {
		check.Report("solvers", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		if _, _, err := c.Chains[name].parse(chain.Name(name)); err != nil {
			check.Report("chains."+name, "%v", err)
		}
	}
	if _, err := c.newProvider(nil); err != nil {
		check.Report("chains", "%v", err)
	}
}

func (c *Config) parseSolvers() ([]common.Address, error) {
	if len(c.Solvers) == 0 {
		return nil, errors.New("is empty; name the solvers whose orders are accepted")
	}
	solvers := make([]common.Address, len(c.Solvers))
	for i, text := range c.Solvers {
		var err error
		if solvers[i], err = parseAddress(text); err != nil {
			return nil, err
		}
	}
	return solvers, nil
}

func parseAddress(text string) (common.Address, error) {
	address := common.HexToAddress(text)
	if !common.IsHexAddress(text) || address == (common.Address{}) {
		return address, fmt.Errorf("%q is not an address", provider.CleanText(text))
	}
	return address, nil
}

// isOrigin reports whether the contracts of the chain are configured.
func (c *ChainConfig) isOrigin() bool {
	return c.Factory != "" || c.Implementation != "" || c.Depositor != ""
}

// parse returns the chain and its assets.
func (c *ChainConfig) parse(name chain.Name) (Chain, []provider.Asset, error) {
	if c == nil || c.ID <= 0 || c.Name == "" || c.Native == "" {
		return Chain{}, nil, errors.New("has no id, name or native; all three are needed")
	}
	parsed := Chain{
		ID: c.ID, Name: c.Name, Native: canonical(name, c.Native),
		RelayChain: signedquote.RelayChain{VM: signedquote.RelayVM(c.VM)},
	}
	switch parsed.VM {
	case signedquote.RelayEthereum, signedquote.RelaySolana, signedquote.RelayBitcoin:
	default:
		return Chain{}, nil, fmt.Errorf("has the vm %q; ethereum-vm, solana-vm and bitcoin-vm are known", c.VM)
	}
	if c.isOrigin() {
		if parsed.VM != signedquote.RelayEthereum {
			return Chain{}, nil, errors.New("has contracts of deposit addresses, which only ethereum-vm has")
		}
		for _, pin := range []struct {
			text   string
			target *common.Address
		}{{c.Factory, &parsed.Factory}, {c.Implementation, &parsed.Implementation}, {c.Depositor, &parsed.Depositor}} {
			var err error
			if *pin.target, err = parseAddress(pin.text); err != nil {
				return Chain{}, nil, fmt.Errorf("needs factory, implementation and depositor: %w", err)
			}
		}
	}
	var assets []provider.Asset
	for _, currency := range c.Currencies {
		token, err := provider.ParseToken(string(name) + ":" + currency.Contract)
		if err != nil {
			return Chain{}, nil, err
		}
		if currency.Decimals < 0 || currency.Decimals > decimalsMax {
			return Chain{}, nil, fmt.Errorf("has %d decimals of %s", currency.Decimals, token)
		}
		assets = append(assets, provider.Asset{
			Token: token, ID: newCurrency(parsed, token).asset(), Symbol: provider.CleanText(currency.Symbol),
			Decimals: currency.Decimals, Accepts: c.isOrigin(), Delivers: true,
		})
	}
	return parsed, assets, nil
}

// canonical returns an address in the form of signed orders.
func canonical(name chain.Name, address string) string {
	return string(provider.Token{Chain: name, Contract: chain.Address(address)}.Canonical().Contract)
}

func newCurrency(ch Chain, token provider.Token) currency {
	if token.Contract == "" {
		return currency{ch, ch.Native}
	}
	return currency{ch, string(token.Contract)}
}

func (c *Config) newProvider(client *httpjson.Client) (*Provider, error) {
	solvers, err := c.parseSolvers()
	if err != nil {
		return nil, fmt.Errorf("solvers: %w", err)
	}
	p := &Provider{
		client: client, key: c.Key, currencies: map[provider.Token]currency{},
		pins: signedquote.RelayPins{Solvers: solvers, Chains: map[string]signedquote.RelayChain{}},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		parsed, assets, err := c.Chains[name].parse(chain.Name(name))
		if err != nil {
			return nil, fmt.Errorf("chains.%s: %w", name, err)
		}
		if _, isKnown := p.pins.Chains[parsed.Name]; isKnown {
			return nil, fmt.Errorf("two chains have the name %s in orders", parsed.Name)
		}
		p.pins.Chains[parsed.Name] = parsed.RelayChain
		for _, asset := range assets {
			if _, isKnown := p.currencies[asset.Token]; isKnown {
				return nil, fmt.Errorf("%s stands there twice", asset.Token)
			}
			p.currencies[asset.Token] = newCurrency(parsed, asset.Token)
			p.assets = append(p.assets, asset)
		}
	}
	return p, nil
}

// Open builds the provider.
func (c *Config) Open(provider.SectionEnv) (provider.Member, error) {
	p, err := c.newProvider(nil)
	if err != nil {
		return provider.Member{}, err
	}
	member, err := c.OpenMember(URL, AnswerBytesMax, quotesUsual, func(client *httpjson.Client) provider.Provider {
		p.client = client
		return p
	})
	if err != nil {
		return provider.Member{}, fmt.Errorf("url: %w", err)
	}
	return member, nil
}
