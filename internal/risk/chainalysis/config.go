package chainalysis

import (
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/risk"
)

// Config is the section of the screening.
type Config struct{ risk.Service }

// IsList returns false.
func (*Config) IsList() bool { return false }

// Open builds the screening.
func (c *Config) Open(e risk.VendorEnv) (risk.Member, error) {
	return c.OpenMember(e, ScreeningURL, risk.RateHigh, func(client *httpjson.Client) risk.Screener {
		return Screening{Client: client, Key: c.Key}
	})
}

// SanctionsConfig is the section of the list of sanctioned addresses.
type SanctionsConfig struct{ risk.Service }

// IsList returns true.
func (*SanctionsConfig) IsList() bool { return true }

// Open builds the look-up in the list.
func (c *SanctionsConfig) Open(e risk.VendorEnv) (risk.Member, error) {
	return c.OpenMember(e, SanctionsURL, risk.RateHigh, func(client *httpjson.Client) risk.Screener {
		return Sanctions{Client: client, Key: c.Key}
	})
}
