package risk

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Vendor is the section of one provider in the configuration, which builds the provider. The
// package of the provider has it; the list of all sections is in package app.
type Vendor interface {
	// IsList reports whether the provider only reads lists of sanctioned addresses.
	IsList() bool
	// ReadSecrets reads the files that the section names. read returns a file's content, or "".
	ReadSecrets(read func(setting, file string) string)
	// Check reports what is wrong with the section.
	Check(c VendorCheck)
	// Open builds the provider from a checked section.
	Open(e VendorEnv) (Member, error)
}

// VendorCheck is what the check of a section depends on.
type VendorCheck struct {
	Name     string // of the section, and of the provider in risk.providers
	IsNamed  bool   // risk.providers has it
	IsAsked  bool   // and this process asks it
	Network  chain.Network
	HasChain func(chain.Name) bool
	Report   config.Report // settings are named within the section
}

// VendorEnv is what a provider is built from, besides its section.
type VendorEnv struct {
	DB             *pg.DB
	Seal           *seal.Keyset
	TTL            time.Duration // how long an answer of a service may be reused
	Chains         []chain.Name  // that run here
	ContractCaller func(chain.Name) (chain.ContractCaller, error)
}

// The usual rates of services. They are below the documented limits, because there may be several
// processes.
var (
	RateLow  = config.Rate{Count: 1, Period: config.Duration(time.Second), Burst: 1}
	RateHigh = config.Rate{Count: 10, Period: config.Duration(time.Second), Burst: 20}
)

// Service is the section of a provider that is asked over HTTPS.
type Service struct {
	URL     string       `toml:"url,omitempty" comment:"instead of the provider's own"`
	KeyFile string       `toml:"key_file,omitempty"`
	Rate    *config.Rate `toml:"rate,omitempty" comment:"how often one process asks it"`
	Ignore  []string     `toml:"ignore,omitempty" comment:"fields of its answers that you have checked and that do not matter; any other new field makes an answer invalid"`

	Key seal.Secret `toml:"-"` // the content of KeyFile
}

// ReadSecrets reads the key.
func (s *Service) ReadSecrets(read func(setting, file string) string) {
	if text := read("key_file", s.KeyFile); text != "" {
		s.Key = seal.NewSecret(text)
	}
}

// Check reports what is wrong with the section, a missing key included.
func (s *Service) Check(c VendorCheck) {
	s.CheckAddress(c)
	if c.IsAsked && s.Key.IsEmpty() {
		c.Report("key_file",
			"is missing while %s is among risk.providers; write the key into a file (mode 0600) and name it", c.Name)
	}
}

// CheckAddress reports what is wrong with the URL and the rate.
func (s *Service) CheckAddress(c VendorCheck) {
	if s.URL != "" {
		if _, err := httpjson.NewClient(s.URL, 0); err != nil {
			c.Report("url", "%v", err)
		}
	}
	if s.Rate != nil {
		s.Rate.Check("rate", c.Report)
	}
}

// OpenMember builds the provider at the configured URL or its own, with the configured rate or the
// usual one.
func (s *Service) OpenMember(
	e VendorEnv, url string, usual config.Rate, newScreener func(*httpjson.Client) Screener,
) (Member, error) {
	m := Member{TTL: e.TTL}
	if s.URL != "" {
		url = s.URL
	}
	client, err := httpjson.NewClient(url, 0, s.Ignore...)
	if err != nil {
		return m, err
	}
	m.Screener = newScreener(client)
	if s.Rate != nil {
		usual = *s.Rate
	}
	if usual.Count > 0 {
		m.Limit = rate.NewLimiter(rate.Every(time.Duration(usual.Period)/time.Duration(usual.Count)), usual.Burst)
	}
	return m, nil
}
