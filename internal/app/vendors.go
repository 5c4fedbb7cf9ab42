package app

import (
	"reflect"
	"strings"

	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/price/chainlink"
	"github.com/cofferpay/coffer/internal/price/coingecko"
	"github.com/cofferpay/coffer/internal/price/oneclick"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/chainalysis"
	"github.com/cofferpay/coffer/internal/risk/elliptic"
	"github.com/cofferpay/coffer/internal/risk/ofac"
	"github.com/cofferpay/coffer/internal/risk/oracle"
	"github.com/cofferpay/coffer/internal/risk/trm"
	"github.com/cofferpay/coffer/internal/swap/provider"
	swaponeclick "github.com/cofferpay/coffer/internal/swap/provider/oneclick"
	"github.com/cofferpay/coffer/internal/swap/provider/relay"
)

// RiskVendors has the section of each risk provider. A new provider is a line here: a pointer to its
// section is a risk.Vendor.
type RiskVendors struct {
	Chainalysis          chainalysis.Config          `toml:"chainalysis,omitempty"`
	ChainalysisSanctions chainalysis.SanctionsConfig `toml:"chainalysis_sanctions,omitempty"`
	TRM                  trm.Config                  `toml:"trm,omitempty"`
	TRMSanctions         trm.SanctionsConfig         `toml:"trm_sanctions,omitempty"`
	Elliptic             elliptic.Config             `toml:"elliptic,omitempty"`
	Oracle               oracle.Config               `toml:"oracle,omitempty"`
	OFAC                 ofac.Config                 `toml:"ofac,omitempty"`
}

// PriceSources has the section of each price source. A new source is a line here: a pointer to its
// section is a price.Section.
type PriceSources struct {
	Chainlink chainlink.Config `toml:"chainlink,omitempty" comment:"by mint id"`
	CoinGecko coingecko.Config `toml:"coingecko,omitempty"`
	OneClick  oneclick.Config  `toml:"oneclick,omitempty"`
}

// SwapProviders has the section of each swap provider; a provider without its section is not used. A new
// provider is a line here: a pointer to its section, which is a provider.Section. The order decides between
// equal offers.
type SwapProviders struct {
	OneClick *swaponeclick.Config `toml:"one_click,omitempty"`
	Relay    *relay.Config        `toml:"relay,omitempty"`
}

// newOneClickSection returns the section of 1Click with what AddOneClick says.
func newOneClickSection(url string, keys []string, assets map[string]string) *swaponeclick.Config {
	return &swaponeclick.Config{Service: provider.Service{URL: url}, Keys: keys, Assets: assets}
}

// section is a field of a list of sections, under its name in the file.
type section[T any] struct {
	name  string
	value T
}

// listSections returns the fields of a struct of sections, in order, without the nil pointers. A field that
// is no T, and whose pointer is none, panics.
func listSections[T any](sections any) (list []section[T]) {
	v := reflect.ValueOf(sections).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		field := v.Field(i)
		if field.Kind() != reflect.Pointer {
			field = field.Addr()
		}
		if !field.IsNil() {
			list = append(list, section[T]{name, field.Interface().(T)})
		}
	}
	return list
}

func (v *RiskVendors) list() []section[risk.Vendor] { return listSections[risk.Vendor](v) }

func (p *PriceSources) list() []section[price.Section] { return listSections[price.Section](p) }

func (p *SwapProviders) list() []section[provider.Section] { return listSections[provider.Section](p) }
