package provider

import (
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Section is the section of one provider in the configuration, which builds the provider. The package of the
// provider has it; the list of all sections is in package app.
type Section interface {
	// ReadSecrets reads the files that the section names. read returns a file's content, or "".
	ReadSecrets(read func(setting, file string) string)
	// Check reports what is wrong with the section.
	Check(c SectionCheck)
	// Open builds the provider from a checked section. The error begins with the setting.
	Open(e SectionEnv) (Member, error)
}

// SectionCheck is what the check of a section depends on.
type SectionCheck struct {
	Network chain.Network
	Report  config.Report // settings are named within the section
}

// SectionEnv is what a provider is built from, besides its section.
type SectionEnv struct {
	Network chain.Network
}

// Service has the settings of every provider.
type Service struct {
	URL     string `toml:"url,omitempty" comment:"instead of the provider's own"`
	KeyFile string `toml:"key_file,omitempty" comment:"the key of the account at the provider"`
	Quotes  *int   `toml:"quotes_per_minute,omitempty" comment:"how many quotes one process asks for; 0 means no limit"`
	// OutstandingUSDMax is a pointer, because without a limit there is none.
	OutstandingUSDMax *money.USD `toml:"outstanding_usd_max,omitempty" comment:"the most in dollars that may be with the provider at once; a swap that would exceed it goes to another provider"`
	Ignore            []string   `toml:"ignore,omitempty" comment:"fields of its answers that you have checked and that do not matter; any other new field makes an answer invalid"`

	Key seal.Secret `toml:"-"` // the content of KeyFile
}

// quotesMax is more than any provider answers.
const quotesMax = 100_000

// ReadSecrets reads the key.
func (s *Service) ReadSecrets(read func(setting, file string) string) {
	if text := strings.TrimSpace(read("key_file", s.KeyFile)); text != "" {
		s.Key = seal.NewSecret(text)
	}
}

// CheckService reports what is wrong with the settings that every provider has.
func (s *Service) CheckService(c SectionCheck) {
	if s.URL != "" {
		if _, err := httpjson.NewClient(s.URL, 0); err != nil {
			c.Report("url", "%v", err)
		} else if c.Network == chain.Mainnet && !strings.HasPrefix(s.URL, "https://") {
			c.Report("url", "has to be https on a main network")
		}
	}
	if n := s.Quotes; n != nil && (*n < 0 || *n > quotesMax) {
		c.Report("quotes_per_minute", "is %d; set it between 1 and %d, or to 0 for no limit", *n, quotesMax)
	}
	if limit := s.OutstandingUSDMax; limit != nil && *limit == (money.USD{}) {
		c.Report("outstanding_usd_max", "is 0; set it above 0, leave it out for no limit, or suspend the provider")
	}
}

// OpenMember makes the client at the configured URL or the provider's own, and the member with the configured
// budget or the usual one. bytesMax bounds an answer.
func (s *Service) OpenMember(
	url string, bytesMax int64, quotes int, newProvider func(*httpjson.Client) Provider,
) (Member, error) {
	if s.URL != "" {
		url = s.URL
	}
	if s.Quotes != nil {
		quotes = *s.Quotes
	}
	client, err := httpjson.NewClient(url, bytesMax, s.Ignore...)
	if err != nil {
		return Member{}, err
	}
	return Member{
		Provider: newProvider(client), QuotesPerMinute: quotes, OutstandingUSDMax: s.OutstandingUSDMax,
	}, nil
}
