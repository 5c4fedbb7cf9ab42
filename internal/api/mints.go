package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Mint is a token on a chain.
type Mint struct {
	ID                    int           `json:"id"`
	Decimals              int           `json:"decimals"`
	Swappable             bool          `json:"swappable"`
	Symbol                string        `json:"symbol"`
	Name                  string        `json:"name"`
	Chain                 string        `json:"chain"`
	CAIP2                 *string       `json:"caip2"`
	ContractAddress       *string       `json:"contractAddress"`
	Kind                  string        `json:"kind"`
	Network               string        `json:"network"`
	LogoURL               *string       `json:"logoUrl"`
	DepositEnabled        bool          `json:"depositEnabled"`
	WithdrawEnabled       bool          `json:"withdrawEnabled"`
	MinDepositAmount      string        `json:"minDepositAmount"`
	MinWithdrawAmount     string        `json:"minWithdrawAmount"`
	ConfirmationsRequired int           `json:"confirmationsRequired"`
	Finality              string        `json:"finality"`
	MemoRequired          bool          `json:"memoRequired"`
	USDPrice              *string       `json:"usdPrice"`
	USDPriceAt            *webhook.Time `json:"usdPriceAt"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *api) showMint(ctx context.Context, m mint.Mint) Mint {
	out := Mint{
		ID: m.ID, Decimals: m.Decimals, Symbol: m.Symbol, Name: m.Name, Chain: string(m.Chain),
		ContractAddress: optional(string(m.Contract)), Kind: string(m.Kind), Network: string(m.Network), LogoURL: optional(m.LogoURL),
		DepositEnabled:   m.DepositEnabled && !m.Quarantined,
		WithdrawEnabled:  m.WithdrawEnabled && !m.Quarantined,
		MinDepositAmount: m.MinDeposit.String(), MinWithdrawAmount: m.MinWithdraw.String(),
		ConfirmationsRequired: m.ConfirmationsRequired, Finality: m.Finality,
	}
	if c, ok := a.conf.Chains[m.Chain]; ok {
		out.CAIP2 = optional(c.CAIP2)
	}
	if a.conf.Prices == nil {
		return out
	}
	if q, err := a.conf.Prices.USD(ctx, m.ID); err == nil {
		text, at := q.Price.String(), webhook.At(q.At)
		out.USDPrice, out.USDPriceAt = &text, &at
	}
	return out
}

func (a *api) mints(ctx context.Context, org string) (mints mint.Catalogue, err error) {
	err = a.conf.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.All(ctx, tx)
		return err
	})
	return mints, err
}

// A catalogue is small and asked for often.
const mintsCache = "private, max-age=60"

func (a *api) listMints(c *call) (answer, error) {
	p, err := a.place(c, "mints")
	if err != nil {
		return answer{}, err
	}
	mints, err := a.mints(c.Context(), c.org)
	if err != nil {
		return answer{}, err
	}
	all := mints.List(mint.Filter{
		Chain: chain.Name(c.query["chain"]), Symbol: c.query["symbol"],
		Swappable: c.query.flag("swappable"), DepositEnabled: c.query.flag("depositEnabled"),
	})
	if p.Cursor != nil {
		after, err := strconv.Atoi(p.Cursor.ID)
		if err != nil {
			return answer{}, fmt.Errorf("a cursor that we signed is no mint: %w", err)
		}
		all = slices.DeleteFunc(all, func(m mint.Mint) bool { return m.ID <= after })
	}
	found := page.Result[mint.Mint]{Items: all}
	if p.Limit != 0 {
		found = page.Cut(p, all, func(m mint.Mint) page.Cursor { return page.Cursor{ID: strconv.Itoa(m.ID)} })
	}
	body := listed(a, c, "mints", found, func(m mint.Mint) Mint { return a.showMint(c.Context(), m) })
	tag := mintsTag(body)
	c.warn.Set("ETag", tag)
	c.warn.Set("Cache-Control", mintsCache)
	if matches(c.Header.Values("If-None-Match"), tag) {
		return answer{status: http.StatusNotModified}, nil
	}
	return answer{status: http.StatusOK, body: body}, nil
}

// mintsTag is weak: the moment of a price is left out, for a price that was
// asked again and is the same makes no other catalogue.
func mintsTag(p Page[Mint]) string {
	timeless := p
	timeless.Data = slices.Clone(p.Data)
	for i := range timeless.Data {
		timeless.Data[i].USDPriceAt = nil
	}
	raw, err := json.Marshal(timeless)
	if err != nil {
		panic("api: mints cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

func matches(values []string, tag string) bool {
	weak := strings.TrimPrefix(tag, "W/")
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == weak {
				return true
			}
		}
	}
	return false
}

func (a *api) getMint(c *call) (answer, error) {
	mints, err := a.mints(c.Context(), c.org)
	if err != nil {
		return answer{}, err
	}
	text := c.param("mintId")
	n, err := strconv.Atoi(text)
	if err == nil && strconv.Itoa(n) == text {
		if m, ok := mints.ByID(n); ok {
			c.warn.Set("Cache-Control", mintsCache)
			return answer{status: http.StatusOK, body: a.showMint(c.Context(), m)}, nil
		}
	}
	return answer{}, fault.New(fault.NotFound, fault.CodeNotFound, "There is no such mint. You only read, so nothing was changed. GET /mints lists the ones there are.")
}
