package coingecko

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
)

// Config is the section of the source.
type Config struct {
	URL     string            `toml:"url,omitempty" comment:"instead of its own"`
	KeyFile string            `toml:"key_file,omitempty"`
	Pro     bool              `toml:"pro,omitempty" comment:"the key is a paid one"`
	Keep    config.Duration   `toml:"keep,omitempty" comment:"how long its answer is reused"`
	Coins   map[string]string `toml:"coins,omitempty" comment:"by mint id: CoinGecko's id of the coin"`

	key seal.Secret // the content of KeyFile
}

// MintIDs returns the mints that have a coin.
func (c *Config) MintIDs() (setting string, ids []string) {
	return "coins", slices.Sorted(maps.Keys(c.Coins))
}

// ReadSecrets reads the key.
func (c *Config) ReadSecrets(read func(setting, file string) string) {
	if text := read("key_file", c.KeyFile); text != "" {
		c.key = seal.NewSecret(text)
	}
}

// Check reports what is wrong with the section.
func (c *Config) Check(check price.SectionCheck) { check.CheckService(c.URL, c.Keep) }

// Open builds the source.
func (c *Config) Open(price.SectionEnv) (price.NamedSource, error) {
	url := URL
	if c.Pro {
		url = ProURL
	}
	client, err := httpjson.NewClient(cmp.Or(c.URL, url), 0)
	if err != nil {
		return price.NamedSource{}, fmt.Errorf("url: %w", err)
	}
	source := Client{Client: client, Key: c.key, Pro: c.Pro, Coins: price.KeyByMint(c.Coins)}.
		Source(cmp.Or(time.Duration(c.Keep), DefaultTTL))
	return price.NamedSource{Name: Name, Source: source}, nil
}
