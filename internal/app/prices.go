package app

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
)

// Prices configures the sources of dollar values. If several know a mint, their median counts.
type Prices struct {
	Fixed        map[string]string `toml:"fixed,omitempty" comment:"by mint id: dollars for one whole token"`
	MaxAge       Duration          `toml:"max_age" comment:"older prices count as missing"`
	MaxAgePegged Duration          `toml:"max_age_pegged,omitempty" comment:"for tokens pegged to the dollar"`
	Pegged       []int             `toml:"pegged,omitempty" comment:"pegged mint ids besides those of the catalogue"`
	Required     int               `toml:"required,omitempty" comment:"how many sources of a mint need a recent price"`

	PriceSources
}

// maxAgePegged is the maximum age of a price of a token pegged to the dollar.
const maxAgePegged = time.Hour

func (c Config) checkPrices(errs *configErrors) {
	p := c.Prices
	sources := map[int]int{}
	ids := func(setting string, texts []string) {
		for _, text := range texts {
			n, err := strconv.Atoi(text)
			if err != nil || strconv.Itoa(n) != text {
				errs.addProblem(setting, "%q is not a mint id", text)
				continue
			}
			sources[n]++
		}
	}
	ids("prices.fixed", sortedKeys(p.Fixed))
	for id, text := range p.Fixed {
		if _, err := money.ParseUSD(text); err != nil {
			errs.addProblem("prices.fixed."+id, "%q is not a number of dollars such as \"0.9998\"", text)
		}
	}
	for _, source := range p.list() {
		prefix := "prices." + source.name
		setting, texts := source.value.MintIDs()
		ids(strings.TrimSuffix(prefix+"."+setting, "."), texts)
		source.value.Check(price.SectionCheck{
			HasChain: func(name chain.Name) bool { _, ok := c.Chains[name]; return ok },
			Report: func(setting, format string, args ...any) {
				errs.addProblem(prefix+"."+setting, format, args...)
			},
		})
	}
	if count := len(p.list()) + 1; p.Required < 0 || p.Required > count { // with the fixed prices
		errs.addProblem("prices.required", "is %d; set it between 1 and %d, the number of sources", p.Required, count)
		return
	}
	for _, id := range sortedInts(sources) {
		if sources[id] < p.Required {
			errs.addProblem("prices.required", "is %d and mint %d has %d sources; give it more, or none", p.Required,
				id, sources[id])
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortedInts[V any](m map[int]V) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readKeys reads the secrets of the sources that have mints. content reads a file.
func (p *Prices) readKeys(content func(setting, file string, needed bool) string) {
	for _, source := range p.list() {
		_, ids := source.value.MintIDs()
		source.value.ReadSecrets(func(setting, file string) string {
			return content("prices."+source.name+"."+setting, file, len(ids) > 0)
		})
	}
}

// pricedMints returns a function that reports whether a mint has a price source.
func (c Config) pricedMints() func(mintID int) bool {
	hasPrice := map[int]bool{}
	for id := range c.fixedPrices() {
		hasPrice[id] = true
	}
	for _, source := range c.Prices.list() {
		_, ids := source.value.MintIDs()
		for _, id := range ids {
			n, err := strconv.Atoi(id)
			if err != nil {
				panic("app: unchecked configuration: " + err.Error())
			}
			hasPrice[n] = true
		}
	}
	return func(mintID int) bool { return hasPrice[mintID] }
}

// peggedMints returns a function that reports whether a mint is meant to be worth a dollar.
func (c Config) peggedMints() func(mintID int) bool {
	isPegged := map[int]bool{}
	for _, n := range catalogue.List() {
		for _, m := range n.Mints {
			if n.Network == c.Network && m.Contract != "" { // every token of the list is a dollar token
				isPegged[m.ID] = true
			}
		}
	}
	for _, id := range c.Prices.Pegged {
		isPegged[id] = true
	}
	return func(mintID int) bool { return isPegged[mintID] }
}

// PriceAge returns the maximum age of a mint's price. Rule PRICE-2.
func (c Config) PriceAge() func(mintID int) time.Duration {
	pegged := c.peggedMints()
	return func(mintID int) time.Duration {
		if pegged(mintID) {
			return cmp.Or(time.Duration(c.Prices.MaxAgePegged), maxAgePegged)
		}
		return time.Duration(c.Prices.MaxAge)
	}
}

// openPrices builds the price source: the median of all configured ones.
func (a *App) openPrices() error {
	conf := a.conf.Prices
	fixed := price.Fixed{Prices: a.conf.fixedPrices()}
	m := price.Median{Required: conf.Required, AgeMax: a.conf.PriceAge(), Pegged: a.conf.peggedMints()}
	for _, source := range conf.list() {
		if _, ids := source.value.MintIDs(); len(ids) == 0 {
			continue
		}
		opened, err := source.value.Open(price.SectionEnv{ContractCaller: a.contractCaller})
		if err != nil {
			return fmt.Errorf("prices.%s.%w", source.name, err)
		}
		m.Sources = append(m.Sources, opened)
	}
	if len(m.Sources) == 0 && conf.Required <= 1 {
		a.parts.Prices = fixed // there is no other source to compare with
		return nil
	}
	m.Sources = append(m.Sources, price.NamedSource{Name: "fixed", Source: fixed})
	a.parts.Prices = m
	return nil
}
