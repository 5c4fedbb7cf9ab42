// Package oneclick takes prices from the list of tokens of NEAR Intents 1Click, which
// needs no key.
//
// Written by its documentation and tested on answers written by hand; never tried
// against the live service. What never happens here: a price by a symbol, which
// anybody can give a token, instead of the asset that is configured.
package oneclick

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/outside"
	"github.com/cofferpay/coffer/internal/price"
)

// Name is the source, as a quote tells it.
const Name = "ONECLICK"

// URL is where the service is.
const URL = "https://1click.chaindefuser.com"

const (
	// KeepUsual is how long its answers are kept.
	KeepUsual = 30 * time.Second
	// AnswerBytesMax bounds the list, which has some hundred tokens.
	AnswerBytesMax = 4 << 20

	tokensMax = 20_000
)

// Client asks for the list.
type Client struct {
	Client *outside.Client
	Assets map[int]string // by mint: the asset's id there
}

// Source keeps answers for a while.
func (c Client) Source(keep time.Duration) *price.Table {
	return &price.Table{Fetch: c.Fetch, Keep: keep}
}

// Fetch asks for the list. A token without a price is left out.
func (c Client) Fetch(ctx context.Context) (map[int]price.Quote, error) {
	got, err := c.Client.Ask(ctx, http.MethodGet, "/v0/tokens", nil, nil)
	if err != nil {
		return nil, err
	}
	if !got.Is(http.StatusOK) {
		return nil, got.Wrong()
	}
	return c.decode(got)
}

type token struct {
	AssetID    *string         `json:"assetId"`
	Decimals   jsontext.Value  `json:"decimals"`
	Blockchain jsontext.Value  `json:"blockchain"`
	Symbol     jsontext.Value  `json:"symbol"`
	Price      *outside.Number `json:"price"`
	Updated    *string         `json:"priceUpdatedAt"`
	Contract   jsontext.Value  `json:"contractAddress"`
	CoinGecko  jsontext.Value  `json:"coingeckoId"`
}

func (c Client) decode(got outside.Reply) (map[int]price.Quote, error) {
	var all []token
	if got.Body.Kind() != '[' {
		return nil, errors.New("not a list of tokens")
	}
	if err := got.Decode(&all); err != nil {
		return nil, err
	}
	if len(all) > tokensMax {
		return nil, fmt.Errorf("a list of more than %d tokens", tokensMax)
	}
	wanted := map[string]bool{}
	for _, id := range c.Assets {
		wanted[id] = true
	}
	quotes, seen := map[string]price.Quote{}, map[string]bool{}
	for _, t := range all {
		if t.AssetID == nil {
			return nil, errors.New("a token without its id")
		}
		if !wanted[*t.AssetID] {
			continue
		}
		if seen[*t.AssetID] {
			return nil, fmt.Errorf("two prices of %s", *t.AssetID)
		}
		seen[*t.AssetID] = true
		if t.Price == nil || t.Updated == nil {
			continue
		}
		// One that makes no sense is missing, and takes the others' from nobody.
		if q, err := quote(*t.Price, *t.Updated); err == nil {
			quotes[*t.AssetID] = q
		}
	}
	out := map[int]price.Quote{}
	for mintID, id := range c.Assets {
		if q, ok := quotes[id]; ok {
			out[mintID] = q
		}
	}
	return out, nil
}

func quote(usd outside.Number, updated string) (price.Quote, error) {
	v, err := usd.Rat()
	if err != nil {
		return price.Quote{}, err
	}
	p, err := price.FromRat(v)
	if err != nil {
		return price.Quote{}, err
	}
	at, err := time.Parse(time.RFC3339, updated)
	if err != nil {
		return price.Quote{}, errors.New("a time that is none")
	}
	return price.Quote{Price: p, At: at.UTC(), Source: Name}, nil
}
