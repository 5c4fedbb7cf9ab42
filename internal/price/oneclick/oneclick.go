// Package oneclick reads prices from the token list of NEAR Intents 1Click, which needs no key.
//
// It follows the published documentation and is tested on hand-written answers; it was never tried
// against the live service. It never takes a price by a symbol, which any issuer can give a token,
// but by the configured asset.
package oneclick

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/price"
)

// Name is the name of the source in quotes.
const Name = "ONECLICK"

// URL is the address of the service.
const URL = "https://1click.chaindefuser.com"

const (
	// DefaultTTL is how long its answers are cached.
	DefaultTTL = 30 * time.Second
	// AnswerBytesMax bounds the list, which has some hundred tokens.
	AnswerBytesMax = 4 << 20

	tokensMax = 20_000
)

// Client reads the list.
type Client struct {
	Client *httpjson.Client
	Assets map[int]string // 1Click's id of the asset, by mint
}

// Source returns a source that caches answers for ttl.
func (c Client) Source(ttl time.Duration) *price.CachedTable {
	return &price.CachedTable{Fetch: c.FetchAll, TTL: ttl}
}

// FetchAll reads the list. It leaves out tokens without a price.
func (c Client) FetchAll(ctx context.Context) (map[int]price.Quote, error) {
	reply, err := c.Client.SendRequest(ctx, http.MethodGet, "/v0/tokens", nil, nil)
	if err != nil {
		return nil, err
	}
	if !reply.HasStatus(http.StatusOK) {
		return nil, reply.UnexpectedStatus()
	}
	return c.decodeQuotes(reply)
}

type token struct {
	AssetID    *string          `json:"assetId"`
	Decimals   jsontext.Value   `json:"decimals"`
	Blockchain jsontext.Value   `json:"blockchain"`
	Symbol     jsontext.Value   `json:"symbol"`
	Price      *httpjson.Number `json:"price"`
	Updated    *string          `json:"priceUpdatedAt"`
	Contract   jsontext.Value   `json:"contractAddress"`
	CoinGecko  jsontext.Value   `json:"coingeckoId"`
}

func (c Client) decodeQuotes(reply httpjson.Reply) (map[int]price.Quote, error) {
	var tokens []token
	if reply.Body.Kind() != '[' {
		return nil, errors.New("not a list of tokens")
	}
	if err := reply.Decode(&tokens); err != nil {
		return nil, err
	}
	if len(tokens) > tokensMax {
		return nil, fmt.Errorf("a list of more than %d tokens", tokensMax)
	}
	wanted := map[string]bool{}
	for _, id := range c.Assets {
		wanted[id] = true
	}
	quotes, seenIDs := map[string]price.Quote{}, map[string]bool{}
	for _, t := range tokens {
		if t.AssetID == nil {
			return nil, errors.New("a token without its id")
		}
		if !wanted[*t.AssetID] {
			continue
		}
		if seenIDs[*t.AssetID] {
			return nil, fmt.Errorf("two prices of %s", *t.AssetID)
		}
		seenIDs[*t.AssetID] = true
		if t.Price == nil || t.Updated == nil {
			continue
		}
		// An invalid price counts as missing and does not affect the others.
		if q, err := parseQuote(*t.Price, *t.Updated); err == nil {
			quotes[*t.AssetID] = q
		}
	}
	byMint := map[int]price.Quote{}
	for mintID, id := range c.Assets {
		if q, ok := quotes[id]; ok {
			byMint[mintID] = q
		}
	}
	return byMint, nil
}

func parseQuote(usd httpjson.Number, updated string) (price.Quote, error) {
	v, err := usd.Rat()
	if err != nil {
		return price.Quote{}, err
	}
	p, err := price.FromRat(v)
	if err != nil {
		return price.Quote{}, err
	}
	updatedAt, err := time.Parse(time.RFC3339, updated)
	if err != nil {
		return price.Quote{}, errors.New("an invalid time")
	}
	return price.Quote{Price: p, QuotedAt: updatedAt.UTC(), Source: Name}, nil
}
