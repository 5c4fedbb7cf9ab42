package trm

import (
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/risk"
)

// Config is the section of the screening.
type Config struct {
	risk.Service
	EmptyPassword       bool `toml:"empty_password,omitempty" comment:"the key is the user name, with an empty password"`
	CounterpartyPercent *int `toml:"counterparty_percent,omitempty" comment:"the share of an address's counterparties that counts"`
}

// IsList returns false.
func (*Config) IsList() bool { return false }

// Check reports what is wrong with the section.
func (c *Config) Check(check risk.VendorCheck) {
	c.Service.Check(check)
	if p := c.CounterpartyPercent; p != nil && (*p < 0 || *p > percentAll) {
		check.Report("counterparty_percent", "is %d; it has to be between 0 and 100", *p)
	}
}

// Open builds the screening.
func (c *Config) Open(e risk.VendorEnv) (risk.Member, error) {
	percent := percentAll
	if c.CounterpartyPercent != nil {
		percent = *c.CounterpartyPercent
	}
	return c.OpenMember(e, URL, risk.RateHigh, func(client *httpjson.Client) risk.Screener {
		return Screening{
			Client: client, Key: c.Key, EmptyPassword: c.EmptyPassword, CounterpartyPercent: percent,
		}
	})
}

// SanctionsConfig is the section of the list of sanctioned addresses.
type SanctionsConfig struct{ risk.Service }

// IsList returns true.
func (*SanctionsConfig) IsList() bool { return true }

// Check reports what is wrong with the section. The list also answers without a key.
func (c *SanctionsConfig) Check(check risk.VendorCheck) { c.CheckAddress(check) }

// Open builds the look-up in the list.
func (c *SanctionsConfig) Open(e risk.VendorEnv) (risk.Member, error) {
	return c.OpenMember(e, URL, risk.RateLow, func(client *httpjson.Client) risk.Screener {
		return Sanctions{Client: client, Key: c.Key}
	})
}
