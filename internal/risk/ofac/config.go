package ofac

import (
	"cmp"
	"time"

	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/risk"
)

// Config is the section of the provider.
type Config struct {
	AgeMax config.Duration `toml:"age_max,omitempty" comment:"an older list does not count"`
}

// IsList returns true.
func (*Config) IsList() bool { return true }

// ReadSecrets reads nothing.
func (*Config) ReadSecrets(func(setting, file string) string) {}

// Check reports nothing: every age is possible.
func (*Config) Check(risk.VendorCheck) {}

// MaxAge returns the configured maximum age of a list, or the usual one.
func (c *Config) MaxAge() time.Duration { return cmp.Or(time.Duration(c.AgeMax), AgeMaxDefault) }

// Open builds the provider. It reads the list each time: that costs nothing, and an import takes
// effect at once.
func (c *Config) Open(e risk.VendorEnv) (risk.Member, error) {
	return risk.Member{Screener: &Screener{Store: &Store{DB: e.DB, Seal: e.Seal}, AgeMax: c.MaxAge()}}, nil
}
