package oneclick

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/price"
)

// Config is the section of the source.
type Config struct {
	URL    string            `toml:"url,omitempty" comment:"instead of its own"`
	Keep   config.Duration   `toml:"keep,omitempty" comment:"how long its answer is reused"`
	Assets map[string]string `toml:"assets,omitempty" comment:"by mint id: the id of the asset"`
}

// MintIDs returns the mints that have an asset.
func (c *Config) MintIDs() (setting string, ids []string) {
	return "assets", slices.Sorted(maps.Keys(c.Assets))
}

// ReadSecrets reads nothing.
func (*Config) ReadSecrets(func(setting, file string) string) {}

// Check reports what is wrong with the section.
func (c *Config) Check(check price.SectionCheck) { check.CheckService(c.URL, c.Keep) }

// Open builds the source.
func (c *Config) Open(price.SectionEnv) (price.NamedSource, error) {
	client, err := httpjson.NewClient(cmp.Or(c.URL, URL), AnswerBytesMax)
	if err != nil {
		return price.NamedSource{}, fmt.Errorf("url: %w", err)
	}
	source := Client{Client: client, Assets: price.KeyByMint(c.Assets)}.
		Source(cmp.Or(time.Duration(c.Keep), DefaultTTL))
	return price.NamedSource{Name: Name, Source: source}, nil
}
