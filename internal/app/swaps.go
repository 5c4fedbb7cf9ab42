package app

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Swaps configures which providers swap, and when the service looks at a swap as delayed or stuck. Without
// providers there are no swaps.
type Swaps struct {
	PayWindow        Duration `toml:"pay_window,omitempty" comment:"how long the payment to a provider may wait; a later one is not made, and the swap fails"`
	PayWindowBitcoin Duration `toml:"pay_window_bitcoin,omitempty" comment:"the same for swaps from BITCOIN, whose blocks are slow"`
	// MaxLossBps is a pointer, because 0 differs from an unset value.
	MaxLossBps    *int     `toml:"max_loss_bps,omitempty" comment:"how much less than the amount in the least amount out may be worth besides the slippage, in hundredths of a percent"`
	DelayedAfter  Duration `toml:"delayed_after,omitempty" comment:"a swap that a provider has for longer is announced as delayed"`
	StuckAfter    Duration `toml:"stuck_after,omitempty" comment:"how long a provider has to have a swap before an operator may fail it"`
	RefundGrace   Duration `toml:"refund_grace,omitempty" comment:"how long a failed swap waits for its refund before the failure is announced"`
	WithoutPrices bool     `toml:"without_prices,omitempty" comment:"also swap mints without a price to compare offers with"`

	Providers SwapProviders `toml:"providers,omitempty"`
}

// The defaults of swaps.
const (
	payWindowDefault        = 30 * time.Minute
	payWindowBitcoinDefault = 90 * time.Minute
	maxLossBpsDefault       = 300
	delayedAfterDefault     = 30 * time.Minute
	stuckAfterDefault       = 24 * time.Hour
	refundGraceDefault      = 5 * time.Minute
)

// The bounds of swaps.
const (
	// payWindowMax is the most that the signer accepts after the time of a quote.
	payWindowMax    = 6 * time.Hour
	maxLossBpsMax   = 1000 // a tenth
	stuckAfterMax   = 30 * 24 * time.Hour
	refundGraceMax  = 24 * time.Hour
	delayedAfterMin = time.Minute // sooner, most swaps would be announced
)

// AddOneClick adds a provider that answers as NEAR Intents 1Click does, at a URL. keys are those with which it
// signs, and assets are the ids of its assets by token.
func (p *SwapProviders) AddOneClick(url string, keys []string, assets map[string]string) {
	p.OneClick = newOneClickSection(url, keys, assets)
}

// swapConfig returns the settings of swaps with their defaults.
func (s Swaps) swapConfig() service.SwapConfig {
	conf := service.SwapConfig{
		PayWindow:        cmp.Or(time.Duration(s.PayWindow), payWindowDefault),
		PayWindowBitcoin: cmp.Or(time.Duration(s.PayWindowBitcoin), payWindowBitcoinDefault),
		MaxLossBps:       maxLossBpsDefault,
		DelayedAfter:     cmp.Or(time.Duration(s.DelayedAfter), delayedAfterDefault),
		StuckAfter:       cmp.Or(time.Duration(s.StuckAfter), stuckAfterDefault),
		RefundGrace:      cmp.Or(time.Duration(s.RefundGrace), refundGraceDefault),
		WithoutPrices:    s.WithoutPrices,
	}
	if s.MaxLossBps != nil {
		conf.MaxLossBps = *s.MaxLossBps
	}
	return conf
}

func (c Config) checkSwaps(errs *configErrors) {
	conf := c.Swaps.swapConfig()
	for _, bound := range []struct {
		setting    string
		value, max time.Duration
		reason     string
	}{
		{"pay_window", conf.PayWindow, payWindowMax, "because the signer makes no later payment"},
		{"pay_window_bitcoin", conf.PayWindowBitcoin, payWindowMax, "because the signer makes no later payment"},
		{"stuck_after", conf.StuckAfter, stuckAfterMax, "so that a person looks at it"},
		{"refund_grace", conf.RefundGrace, refundGraceMax, "because the customer waits for the announcement"},
	} {
		if bound.value > bound.max {
			errs.addProblem("swaps."+bound.setting, "is %s; set it to %s at most, %s", bound.value, bound.max,
				bound.reason)
		}
	}
	if conf.DelayedAfter < delayedAfterMin {
		errs.addProblem("swaps.delayed_after", "is %s; set it to %s at least, because a usual swap takes that long",
			conf.DelayedAfter, delayedAfterMin)
	}
	if conf.StuckAfter <= conf.DelayedAfter {
		errs.addProblem("swaps.stuck_after", "is %s and swaps.delayed_after %s; a swap is delayed before it is stuck",
			conf.StuckAfter, conf.DelayedAfter)
	}
	if conf.MaxLossBps < 0 || conf.MaxLossBps > maxLossBpsMax {
		errs.addProblem("swaps.max_loss_bps", "is %d; set it between 0 and %d, which is a tenth", conf.MaxLossBps,
			maxLossBpsMax)
	}
	for _, section := range c.Swaps.Providers.list() {
		section.value.Check(provider.SectionCheck{
			Network: c.Network,
			Report: func(setting, format string, args ...any) {
				errs.addProblem("swaps.providers."+section.name+"."+setting, format, args...)
			},
		})
	}
}

// readKeys reads the secrets of the providers. content reads a file.
func (s *Swaps) readKeys(content func(setting, file string, needed bool) string) {
	for _, section := range s.Providers.list() {
		section.value.ReadSecrets(func(setting, file string) string {
			return content("swaps.providers."+section.name+"."+setting, file, true)
		})
	}
}

// openSwapProviders builds the providers of a checked configuration, in the order in which equal offers are
// taken. It asks none of them.
func (c Config) openSwapProviders() (members []provider.Member, err error) {
	for _, section := range c.Swaps.Providers.list() {
		member, err := section.value.Open(provider.SectionEnv{Network: c.Network})
		if err != nil {
			return nil, fmt.Errorf("swaps.providers.%s.%w", section.name, err)
		}
		members = append(members, member)
	}
	return members, nil
}
