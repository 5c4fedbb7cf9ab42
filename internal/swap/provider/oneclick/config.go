package oneclick

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// quotesUsual is how many quotes one process asks for in a minute. The provider documents no limit.
const quotesUsual = 300

// Config is the section of the provider.
type Config struct {
	provider.Service
	Keys   []string          `toml:"keys,omitempty" comment:"the keys with which it signs, such as ed25519:…; instead of the one that it publishes"`
	Assets map[string]string `toml:"assets,omitempty" comment:"by token, such as BITCOIN:native: the id of its asset, where the provider has several"`
}

var _ provider.Section = (*Config)(nil)

// Check reports what is wrong with the section.
func (c *Config) Check(check provider.SectionCheck) {
	c.CheckService(check)
	if _, err := c.parseKeys(); err != nil {
		check.Report("keys", "%v", err)
	}
	if _, err := c.parseAssets(); err != nil {
		check.Report("assets", "%v", err)
	}
	if check.Network != chain.Mainnet {
		return
	}
	for _, id := range slices.Sorted(maps.Values(c.Assets)) {
		if strings.HasPrefix(id, localPrefix) {
			check.Report("assets", "has %q, which only a local world has", id)
		}
	}
}

func (c *Config) parseKeys() (keys []ed25519.PublicKey, err error) {
	texts := c.Keys
	if len(texts) == 0 {
		texts = []string{Key}
	}
	for _, text := range texts {
		key, err := signedquote.ParseOneClickKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (c *Config) parseAssets() (map[provider.Token]string, error) {
	pins := map[provider.Token]string{}
	for _, text := range slices.Sorted(maps.Keys(c.Assets)) {
		token, err := provider.ParseToken(text)
		if err != nil {
			return nil, err
		}
		if pins[token] != "" || c.Assets[text] == "" {
			return nil, fmt.Errorf("%s has no asset, or two", token)
		}
		pins[token] = c.Assets[text]
	}
	return pins, nil
}

// Open builds the provider.
func (c *Config) Open(e provider.SectionEnv) (provider.Member, error) {
	keys, err := c.parseKeys()
	if err != nil {
		return provider.Member{}, fmt.Errorf("keys: %w", err)
	}
	pins, err := c.parseAssets()
	if err != nil {
		return provider.Member{}, fmt.Errorf("assets: %w", err)
	}
	member, err := c.OpenMember(URL, AnswerBytesMax, quotesUsual, func(client *httpjson.Client) provider.Provider {
		return New(client, c.Key, keys, pins, e.Network == chain.Mainnet)
	})
	if err != nil {
		return provider.Member{}, fmt.Errorf("url: %w", err)
	}
	return member, nil
}
