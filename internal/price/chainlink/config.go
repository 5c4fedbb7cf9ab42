package chainlink

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/price"
)

// Config is the section of the source: its feeds, by mint id.
type Config map[string]FeedConfig

// FeedConfig configures a feed.
type FeedConfig struct {
	Chain     chain.Name      `toml:"chain"`
	Contract  string          `toml:"contract"`
	Heartbeat config.Duration `toml:"heartbeat" comment:"longest time between two updates, according to the feed's page"`
	Sequencer string          `toml:"sequencer,omitempty" comment:"the feed of the chain's sequencer, on a chain that has one"`
}

// MintIDs returns the mints that have a feed.
func (c *Config) MintIDs() (setting string, ids []string) { return "", slices.Sorted(maps.Keys(*c)) }

// ReadSecrets reads nothing.
func (*Config) ReadSecrets(func(setting, file string) string) {}

// Check reports what is wrong with the section.
func (c *Config) Check(check price.SectionCheck) {
	for id, f := range *c {
		if !check.HasChain(f.Chain) {
			check.Report(id+".chain", "%q is not among chains; a feed needs a configured chain", f.Chain)
		}
		if _, err := evmtx.Bytes(chain.Address(f.Contract)); err != nil {
			check.Report(id+".contract", "%q is not an address with its checksum", f.Contract)
		}
		if _, err := evmtx.Bytes(chain.Address(f.Sequencer)); f.Sequencer != "" && err != nil {
			check.Report(id+".sequencer", "%q is not an address with its checksum", f.Sequencer)
		}
		if f.Heartbeat == 0 {
			check.Report(id+".heartbeat", "is missing; see the feed's page, such as 1h")
		}
	}
}

// Open builds the source.
func (c *Config) Open(e price.SectionEnv) (price.NamedSource, error) {
	feeds := map[int]Feed{}
	for id, f := range price.KeyByMint(*c) {
		caller, err := e.ContractCaller(f.Chain)
		if err != nil {
			return price.NamedSource{}, fmt.Errorf("%d: %w", id, err)
		}
		feeds[id] = Feed{
			Caller: caller, Contract: chain.Address(f.Contract), Heartbeat: time.Duration(f.Heartbeat),
			Sequencer: chain.Address(f.Sequencer),
		}
	}
	return price.NamedSource{Name: Name, Source: price.Coalesce(Source{Feeds: feeds})}, nil
}
