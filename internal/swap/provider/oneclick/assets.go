package oneclick

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// chains are the chains that have another name here than at the provider.
var chains = map[string]chain.Name{
	"eth": chain.Ethereum, "base": chain.Base, "arb": chain.Arbitrum, "op": chain.Optimism, "pol": chain.Polygon,
	"bsc": chain.BSC, "avax": chain.Avalanche, "sol": chain.Solana, "btc": chain.Bitcoin, "tron": chain.Tron,
}

const (
	// localPrefix begins the ids of assets that only a provider of a local world has.
	localPrefix = "local:"

	decimalsMax  = 77
	idBytesMax   = 200
	chainNameMax = 40
)

type token struct {
	AssetID    *string          `json:"assetId"`
	Decimals   *httpjson.Number `json:"decimals"`
	Blockchain *string          `json:"blockchain"`
	Symbol     *string          `json:"symbol"`
	Price      jsontext.Value   `json:"price"`
	Updated    jsontext.Value   `json:"priceUpdatedAt"`
	Contract   *string          `json:"contractAddress"`
	CoinGecko  jsontext.Value   `json:"coingeckoId"`
}

// decodeAssets reads the list of tokens. It leaves out a token that the list has under several ids unless one
// of them is pinned: nothing says which one a swap would deliver.
func decodeAssets(
	reply httpjson.Reply, pins map[provider.Token]string, hidesLocal bool,
) ([]provider.Asset, error) {
	var tokens []token
	if reply.Body.Kind() != '[' {
		return nil, provider.Malformed("not a list of tokens")
	}
	if err := reply.Decode(&tokens); err != nil {
		return nil, provider.Malformed("%w", err)
	}
	byToken, ids := map[provider.Token][]provider.Asset{}, map[string]bool{}
	var order []provider.Token
	for _, t := range tokens {
		asset, err := t.asset()
		if err != nil {
			return nil, err
		}
		if ids[asset.ID] {
			return nil, provider.Malformed("two assets with the id %s", asset.ID)
		}
		ids[asset.ID] = true
		if asset.Chain == "" || hidesLocal && strings.HasPrefix(asset.ID, localPrefix) {
			continue
		}
		if byToken[asset.Token] == nil {
			order = append(order, asset.Token)
		}
		byToken[asset.Token] = append(byToken[asset.Token], asset)
	}
	assets := []provider.Asset{}
	for _, t := range order {
		candidates := byToken[t]
		if pin, isPinned := pins[t]; isPinned {
			candidates = slices.DeleteFunc(candidates, func(a provider.Asset) bool { return a.ID != pin })
		}
		if len(candidates) == 1 {
			assets = append(assets, candidates[0])
		}
	}
	return assets, nil
}

// asset returns the asset of an entry. Its chain is "" if the provider's name for it is that of another chain.
func (t token) asset() (provider.Asset, error) {
	switch {
	case t.AssetID == nil || *t.AssetID == "" || len(*t.AssetID) > idBytesMax || !isPlainText(*t.AssetID):
		return provider.Asset{}, provider.Malformed("a token without its id")
	case t.Blockchain == nil || *t.Blockchain == "" || len(*t.Blockchain) > chainNameMax || !isPlainText(*t.Blockchain):
		return provider.Asset{}, provider.Malformed("a token without its chain")
	case t.Decimals == nil || t.Symbol == nil:
		return provider.Asset{}, provider.Malformed("a token without its decimals or symbol")
	}
	decimals, err := t.Decimals.Int()
	if err != nil || decimals < 0 || decimals > decimalsMax {
		return provider.Asset{}, provider.Malformed("a token of %s decimals", *t.Decimals)
	}
	asset := provider.Asset{
		ID: *t.AssetID, Symbol: provider.CleanText(*t.Symbol), Decimals: decimals, Accepts: true, Delivers: true,
		AcceptsAny: true, PriceUSD: t.readPrice(),
	}
	name, isKnown := chains[*t.Blockchain]
	if !isKnown {
		name = chain.Name(strings.ToUpper(*t.Blockchain))
		if slices.Contains(chain.Names, name) {
			name = ""
		}
	}
	asset.Token = provider.Token{Chain: name}
	if t.Contract != nil {
		if len(*t.Contract) > idBytesMax || !isPlainText(*t.Contract) {
			return provider.Asset{}, provider.Malformed("a token with a contract of %d bytes", len(*t.Contract))
		}
		asset.Contract = chain.Address(*t.Contract)
	}
	asset.Token = asset.Token.Canonical()
	return asset, nil
}

// priceDigits is how many digits of a price count after the point.
const priceDigits = 18

// readPrice returns the price of an entry. What is no number such as 0.99 is no price: it only helps to choose
// an amount.
func (t token) readPrice() money.USD {
	whole, fraction, hasFraction := strings.Cut(string(t.Price), ".")
	text := whole
	if hasFraction {
		text += "." + fraction[:min(len(fraction), priceDigits)]
	}
	price, err := money.ParseUSD(text)
	if err != nil {
		return money.USD{}
	}
	return price
}

// isPlainText reports whether a text has only characters that the provider can sign.
func isPlainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
