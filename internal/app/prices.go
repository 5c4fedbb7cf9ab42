package app

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/httpjson"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/price/chainlink"
	"github.com/cofferpay/coffer/internal/price/coingecko"
	"github.com/cofferpay/coffer/internal/price/oneclick"
	"github.com/cofferpay/coffer/internal/seal"
)

// Prices configures the sources of dollar values. If several know a mint, their median counts.
type Prices struct {
	Fixed        map[string]string `toml:"fixed,omitempty" comment:"by mint id: dollars for one whole token"`
	MaxAge       Duration          `toml:"max_age" comment:"older prices count as missing"`
	MaxAgePegged Duration          `toml:"max_age_pegged,omitempty" comment:"for tokens pegged to the dollar"`
	Pegged       []int             `toml:"pegged,omitempty" comment:"pegged mint ids besides those of the catalogue"`
	Required     int               `toml:"required,omitempty" comment:"how many sources of a mint need a recent price"`

	Chainlink map[string]PriceFeed `toml:"chainlink,omitempty" comment:"by mint id"`
	CoinGecko PriceCoinGecko       `toml:"coingecko,omitempty"`
	OneClick  PriceOneClick        `toml:"oneclick,omitempty"`
}

// PriceFeed configures a Chainlink feed.
type PriceFeed struct {
	Chain     chain.Name `toml:"chain"`
	Contract  string     `toml:"contract"`
	Heartbeat Duration   `toml:"heartbeat" comment:"longest time between two updates, according to the feed's page"`
	Sequencer string     `toml:"sequencer,omitempty" comment:"the feed of the chain's sequencer, on a chain that has one"`
}

// PriceCoinGecko configures CoinGecko.
type PriceCoinGecko struct {
	URL     string            `toml:"url,omitempty" comment:"instead of its own"`
	KeyFile string            `toml:"key_file,omitempty"`
	Pro     bool              `toml:"pro,omitempty" comment:"the key is a paid one"`
	Keep    Duration          `toml:"keep,omitempty" comment:"how long its answer is reused"`
	Coins   map[string]string `toml:"coins,omitempty" comment:"by mint id: CoinGecko's id of the coin"`

	key seal.Secret
}

// PriceOneClick configures 1Click's list of tokens.
type PriceOneClick struct {
	URL    string            `toml:"url,omitempty" comment:"instead of its own"`
	Keep   Duration          `toml:"keep,omitempty" comment:"how long its answer is reused"`
	Assets map[string]string `toml:"assets,omitempty" comment:"by mint id: the id of the asset"`
}

// maxAgePegged is the maximum age of a price of a token pegged to the dollar.
const maxAgePegged = time.Hour

// priceKeepMax bounds how long answers are reused; older ones would be stale.
const priceKeepMax = 5 * time.Minute

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
	ids("prices.chainlink", sortedKeys(p.Chainlink))
	for id, f := range p.Chainlink {
		path := "prices.chainlink." + id
		if _, ok := c.Chains[f.Chain]; !ok {
			errs.addProblem(path+".chain", "%q is not among chains; a feed needs a configured chain",
				f.Chain)
		}
		if _, err := evmtx.Bytes(chain.Address(f.Contract)); err != nil {
			errs.addProblem(path+".contract", "%q is not an address with its checksum", f.Contract)
		}
		if _, err := evmtx.Bytes(chain.Address(f.Sequencer)); f.Sequencer != "" && err != nil {
			errs.addProblem(path+".sequencer", "%q is not an address with its checksum", f.Sequencer)
		}
		if f.Heartbeat == 0 {
			errs.addProblem(path+".heartbeat", "is missing; see the feed's page, such as 1h")
		}
	}
	ids("prices.coingecko.coins", sortedKeys(p.CoinGecko.Coins))
	ids("prices.oneclick.assets", sortedKeys(p.OneClick.Assets))
	for path, url := range map[string]string{
		"prices.coingecko.url": p.CoinGecko.URL, "prices.oneclick.url": p.OneClick.URL,
	} {
		if _, err := httpjson.NewClient(url, 0); url != "" && err != nil {
			errs.addProblem(path, "%v", err)
		}
	}
	for path, keep := range map[string]Duration{
		"prices.coingecko.keep": p.CoinGecko.Keep, "prices.oneclick.keep": p.OneClick.Keep,
	} {
		if time.Duration(keep) > priceKeepMax {
			errs.addProblem(path, "is %s; set it to %s at most", time.Duration(keep), priceKeepMax)
		}
	}
	if p.Required < 0 || p.Required > 4 {
		errs.addProblem("prices.required", "is %d; set it between 1 and 4, the number of sources", p.Required)
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

// keyByMint converts a table of the configuration to mint ids as keys.
func keyByMint[V any](m map[string]V) map[int]V {
	values := map[int]V{}
	for id, v := range m {
		n, err := strconv.Atoi(id)
		if err != nil {
			panic("app: unchecked configuration: " + err.Error())
		}
		values[n] = v
	}
	return values
}

// pricedMints returns a function that reports whether a mint has a price source.
func (c Config) pricedMints() func(mintID int) bool {
	hasPrice := map[int]bool{}
	for _, ids := range [][]int{
		sortedInts(keyByMint(c.Prices.Fixed)), sortedInts(keyByMint(c.Prices.Chainlink)),
		sortedInts(keyByMint(c.Prices.CoinGecko.Coins)), sortedInts(keyByMint(c.Prices.OneClick.Assets)),
	} {
		for _, id := range ids {
			hasPrice[id] = true
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
	if len(conf.Chainlink) > 0 {
		feeds := map[int]chainlink.Feed{}
		for id, f := range keyByMint(conf.Chainlink) {
			c, err := a.contractCaller(f.Chain)
			if err != nil {
				return fmt.Errorf("prices.chainlink.%d: %w", id, err)
			}
			feeds[id] = chainlink.Feed{
				Caller: c, Contract: chain.Address(f.Contract), Heartbeat: time.Duration(f.Heartbeat),
				Sequencer: chain.Address(f.Sequencer),
			}
		}
		m.Sources = append(
			m.Sources, price.NamedSource{Name: chainlink.Name, Source: price.Coalesce(chainlink.Source{Feeds: feeds})},
		)
	}
	if len(conf.CoinGecko.Coins) > 0 {
		url := coingecko.URL
		if conf.CoinGecko.Pro {
			url = coingecko.ProURL
		}
		client, err := httpjson.NewClient(cmp.Or(conf.CoinGecko.URL, url), 0)
		if err != nil {
			return fmt.Errorf("prices.coingecko.url: %w", err)
		}
		c := coingecko.Client{
			Client: client, Key: conf.CoinGecko.key, Pro: conf.CoinGecko.Pro, Coins: keyByMint(conf.CoinGecko.Coins),
		}
		m.Sources = append(m.Sources, price.NamedSource{
			Name: coingecko.Name, Source: c.Source(cmp.Or(time.Duration(conf.CoinGecko.Keep), coingecko.DefaultTTL)),
		})
	}
	if len(conf.OneClick.Assets) > 0 {
		client, err := httpjson.NewClient(cmp.Or(conf.OneClick.URL, oneclick.URL), oneclick.AnswerBytesMax)
		if err != nil {
			return fmt.Errorf("prices.oneclick.url: %w", err)
		}
		c := oneclick.Client{Client: client, Assets: keyByMint(conf.OneClick.Assets)}
		m.Sources = append(m.Sources, price.NamedSource{
			Name: oneclick.Name, Source: c.Source(cmp.Or(time.Duration(conf.OneClick.Keep), oneclick.DefaultTTL)),
		})
	}
	if len(m.Sources) == 0 && conf.Required <= 1 {
		a.prices = fixed // there is no other source to compare with
		return nil
	}
	m.Sources = append(m.Sources, price.NamedSource{Name: "fixed", Source: fixed})
	a.prices = m
	return nil
}
