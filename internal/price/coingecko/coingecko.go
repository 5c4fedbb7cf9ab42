// Package coingecko reads prices from CoinGecko.
//
// It follows the published documentation and is tested on hand-written answers; it was never tried
// against the live service. No price passes through a floating-point number, and no price is
// without its time.
package coingecko

import (
	"context"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
)

// Name is the name of the source in quotes.
const Name = "COINGECKO"

// URLs of the service, without and with a paid key.
const (
	URL    = "https://api.coingecko.com"
	ProURL = "https://pro-api.coingecko.com"
)

// DefaultTTL is how long its answers are cached. The service updates its prices about so often and
// counts each request.
const DefaultTTL = time.Minute

// Client reads the prices of coins.
type Client struct {
	Client *httpjson.Client
	Key    seal.Secret    // may be empty
	Pro    bool           // whether the key is a paid one
	Coins  map[int]string // CoinGecko's id of the coin, by mint
}

// Source returns a source that caches answers for ttl.
func (c Client) Source(ttl time.Duration) *price.CachedTable {
	return &price.CachedTable{Fetch: c.FetchAll, TTL: ttl}
}

// FetchAll reads all prices in one request. It leaves out coins without a price.
func (c Client) FetchAll(ctx context.Context) (map[int]price.Quote, error) {
	var ids []string
	for _, id := range c.Coins {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	header := http.Header{}
	if key := c.Key.Reveal(); key != "" && c.Pro {
		header.Set("x-cg-pro-api-key", key)
	} else if key != "" {
		header.Set("x-cg-demo-api-key", key)
	}
	reply, err := c.Client.SendRequest(
		ctx, http.MethodGet,
		"/api/v3/simple/price?ids="+url.QueryEscape(
			strings.Join(slices.Compact(ids), ","),
		)+"&vs_currencies=usd&include_last_updated_at=true",
		header, nil,
	)
	if err != nil {
		return nil, err
	}
	if !reply.HasStatus(http.StatusOK) {
		return nil, reply.UnexpectedStatus()
	}
	return c.decodeQuotes(reply)
}

func (c Client) decodeQuotes(reply httpjson.Reply) (map[int]price.Quote, error) {
	var coins map[string]struct {
		USD     *httpjson.Number `json:"usd"`
		Updated *httpjson.Number `json:"last_updated_at"`
	}
	if reply.Body.Kind() != '{' {
		return nil, errors.New("not a list of coins")
	}
	if err := reply.Decode(&coins); err != nil {
		return nil, err
	}
	quotes := map[int]price.Quote{}
	for mintID, id := range c.Coins {
		coin, ok := coins[id]
		if !ok || coin.USD == nil || coin.Updated == nil {
			continue
		}
		// An invalid price counts as missing and does not affect the others.
		if q, err := parseQuote(*coin.USD, *coin.Updated); err == nil {
			quotes[mintID] = q
		}
	}
	return quotes, nil
}

func parseQuote(usd, updated httpjson.Number) (price.Quote, error) {
	v, err := usd.Rat()
	if err != nil {
		return price.Quote{}, err
	}
	p, err := price.FromRat(v)
	if err != nil {
		return price.Quote{}, err
	}
	updatedAt, err := updated.Rat()
	if err != nil || !updatedAt.IsInt() || updatedAt.Sign() <= 0 || updatedAt.Cmp(big.NewRat(1<<40, 1)) > 0 {
		return price.Quote{}, errors.New("an invalid time")
	}
	return price.Quote{Price: p, QuotedAt: time.Unix(updatedAt.Num().Int64(), 0).UTC(), Source: Name}, nil
}
