package elliptic

import (
	"fmt"
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

// rateUsual is below the documented limit, because there may be several processes.
var rateUsual = config.Rate{Count: 7, Period: config.Duration(time.Second), Burst: 7}

// Config is the section of the provider.
type Config struct {
	risk.Service
	SecretFile   string `toml:"secret_file,omitempty"`
	Milliseconds bool   `toml:"milliseconds,omitempty" comment:"the signed time is in milliseconds"`
	Medium       string `toml:"medium,omitempty" comment:"the scores of 10 from which on an answer is MEDIUM, HIGH and SEVERE"`
	High         string `toml:"high,omitempty"`
	Severe       string `toml:"severe,omitempty"`

	secret seal.Secret // the content of SecretFile
}

// IsList returns false.
func (*Config) IsList() bool { return false }

// ReadSecrets reads the key and the secret.
func (c *Config) ReadSecrets(read func(setting, file string) string) {
	c.Service.ReadSecrets(read)
	if text := read("secret_file", c.SecretFile); text != "" {
		c.secret = seal.NewSecret(text)
	}
}

// Check reports what is wrong with the section.
func (c *Config) Check(check risk.VendorCheck) {
	c.Service.Check(check)
	if check.IsAsked && c.secret.IsEmpty() {
		check.Report("secret_file",
			"is missing while elliptic is among risk.providers; write the secret into a file (mode 0600) and name it")
	}
	if _, err := c.thresholds(); err != nil {
		check.Report("severe", "%v", err)
	}
}

// thresholds returns the scores from which a severity applies.
func (c *Config) thresholds() (Thresholds, error) {
	cuts := DefaultThresholds
	for _, s := range []struct {
		text string
		cut  **big.Rat
	}{{c.Medium, &cuts.Medium}, {c.High, &cuts.High}, {c.Severe, &cuts.Severe}} {
		if s.text == "" {
			continue
		}
		v, err := httpjson.Number(s.text).Rat()
		if err != nil {
			return cuts, fmt.Errorf("%q is not a score such as 7.5", s.text)
		}
		*s.cut = v
	}
	return cuts, cuts.Validate()
}

// Open builds the provider.
func (c *Config) Open(e risk.VendorEnv) (risk.Member, error) {
	cuts, err := c.thresholds()
	if err != nil {
		return risk.Member{}, err
	}
	return c.OpenMember(e, URL, rateUsual, func(client *httpjson.Client) risk.Screener {
		return Screener{
			Client: client, Key: c.Key, Secret: c.secret, Thresholds: cuts, Milliseconds: c.Milliseconds,
		}
	})
}
