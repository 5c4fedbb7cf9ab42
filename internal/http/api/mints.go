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
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Mint is a token on a chain.
type Mint struct {
	ID                    int           `json:"id"`
	Decimals              int           `json:"decimals"`
	Swappable             bool          `json:"swappable" doc:"Whether customer swaps of your organization may use the mint; false for every mint while swaps are off."`
	Symbol                string        `json:"symbol"`
	Name                  string        `json:"name" doc:"The name, for people." example:"USD Coin"`
	Chain                 string        `json:"chain"`
	CAIP2                 *string       `json:"caip2" doc:"The network by its CAIP-2 name; null for a chain that does not run here." example:"eip155:1"`
	ContractAddress       *string       `json:"contractAddress"`
	Kind                  string        `json:"kind" doc:"NATIVE is the native coin of the chain." enum:"NATIVE,TOKEN"`
	Network               string        `json:"network" doc:"The network of the chain that this installation uses." enum:"MAINNET,TESTNET,LOCAL"`
	LogoURL               *string       `json:"logoUrl" doc:"The address of a picture, or null." format:"uri"`
	DepositEnabled        bool          `json:"depositEnabled" doc:"Whether deposit addresses are available."`
	WithdrawEnabled       bool          `json:"withdrawEnabled" doc:"Whether withdrawals are accepted."`
	MinDepositAmount      string        `json:"minDepositAmount"`
	MinWithdrawAmount     string        `json:"minWithdrawAmount" doc:"The smallest withdrawal, in atomic units." form:"amount"`
	ConfirmationsRequired int           `json:"confirmationsRequired"`
	Finality              string        `json:"finality" doc:"What makes a block final on this chain." example:"FINALIZED"`
	MemoRequired          bool          `json:"memoRequired" doc:"Whether a deposit needs a memo besides the address."`
	USDPrice              *string       `json:"usdPrice" doc:"The dollar price of one whole token, for display; null when it is not known." form:"decimal" example:"0.9998"`
	USDPriceAt            *webhook.Time `json:"usdPriceAt" doc:"The time of the price."`
}

func (a *api) showMint(ctx context.Context, m mint.Mint, settings org.Settings) Mint {
	shown := Mint{
		ID: m.ID, Decimals: m.Decimals, Swappable: a.conf.Swaps.IsSwappable(m, settings), Symbol: m.Symbol,
		Name: m.Name, Chain: string(m.Chain),
		ContractAddress: resource.OptionalText(string(m.Contract)), Kind: string(m.Kind), Network: string(m.Network),
		LogoURL:          resource.OptionalText(m.LogoURL),
		DepositEnabled:   m.DepositEnabled && !m.Quarantined,
		WithdrawEnabled:  m.WithdrawEnabled && !m.Quarantined,
		MinDepositAmount: m.MinDeposit.String(), MinWithdrawAmount: m.MinWithdraw.String(),
		ConfirmationsRequired: m.ConfirmationsRequired, Finality: m.Finality,
	}
	if c, ok := a.conf.Chains[m.Chain]; ok {
		shown.CAIP2 = resource.OptionalText(c.CAIP2)
	}
	if a.conf.Prices == nil {
		return shown
	}
	if q, err := a.conf.Prices.USD(ctx, m.ID); err == nil {
		text, priceAt := q.Price.String(), webhook.At(q.QuotedAt)
		shown.USDPrice, shown.USDPriceAt = &text, &priceAt
	}
	return shown
}

// loadMints reads the catalogue, and the settings that say what of it an organization can swap.
func (a *api) loadMints(
	ctx context.Context, orgID string,
) (mints mint.Catalogue, settings org.Settings, err error) {
	err = a.conf.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if settings, err = org.SettingsOf(ctx, tx, orgID); err != nil {
			return fmt.Errorf("settings of %s: %w", orgID, err)
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return mints, settings, err
}

// mintsCache lets clients cache the catalogue, which is small and often read.
const mintsCache = "private, max-age=60"

func (a *api) listMints(c *call) (kernel.Page[Mint], error) {
	p, err := c.ReadPage("mints")
	if err != nil {
		return kernel.Page[Mint]{}, err
	}
	mints, settings, err := a.loadMints(c.Context(), c.Caller.OrgID)
	if err != nil {
		return kernel.Page[Mint]{}, err
	}
	filtered := mints.List(mint.Filter{
		Chain: chain.Name(c.Query["chain"]), Symbol: c.Query["symbol"],
		Swappable: c.Query.FlagValue("swappable"), DepositEnabled: c.Query.FlagValue("depositEnabled"),
		IsSwappable: func(m mint.Mint) bool { return a.conf.Swaps.IsSwappable(m, settings) },
	})
	if p.Cursor != nil {
		afterID, err := strconv.Atoi(p.Cursor.ID)
		if err != nil {
			return kernel.Page[Mint]{}, fmt.Errorf("a cursor that we signed names no mint: %w", err)
		}
		filtered = slices.DeleteFunc(filtered, func(m mint.Mint) bool { return m.ID <= afterID })
	}
	found := pagination.Result[mint.Mint]{Items: filtered}
	if p.Limit != 0 {
		found = pagination.CutPage(p, filtered, func(m mint.Mint) pagination.Cursor {
			return pagination.Cursor{ID: strconv.Itoa(m.ID)}
		})
	}
	body := kernel.NewPage(c.Request, "mints", found,
		func(m mint.Mint) Mint { return a.showMint(c.Context(), m, settings) })
	tag := mintsTag(body)
	c.AnswerHeader.Set("ETag", tag)
	c.AnswerHeader.Set("Cache-Control", mintsCache)
	if matchesETag(c.Header.Values("If-None-Match"), tag) {
		c.AnswerWith(http.StatusNotModified)
	}
	return body, nil
}

// mintsTag returns a weak tag. It ignores the time of a price, because a price that was fetched
// again and did not change does not change the catalogue.
func mintsTag(p kernel.Page[Mint]) string {
	timeless := p
	timeless.Data = slices.Clone(p.Data)
	for i := range timeless.Data {
		timeless.Data[i].USDPriceAt = nil
	}
	raw, err := json.Marshal(timeless)
	if err != nil {
		panic("api: cannot encode the mints: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

func matchesETag(values []string, tag string) bool {
	weak := strings.TrimPrefix(tag, "W/")
	for _, value := range values {
		for candidate := range strings.SplitSeq(value, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == weak {
				return true
			}
		}
	}
	return false
}

func (a *api) getMint(c *call) (Mint, error) {
	mints, settings, err := a.loadMints(c.Context(), c.Caller.OrgID)
	if err != nil {
		return Mint{}, err
	}
	text := c.PathParam("mintId")
	n, err := strconv.Atoi(text)
	if err == nil && strconv.Itoa(n) == text {
		if m, ok := mints.ByID(n); ok {
			c.AnswerHeader.Set("Cache-Control", mintsCache)
			return a.showMint(c.Context(), m, settings), nil
		}
	}
	return Mint{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly,
		"This mint does not exist.").
		WithStep(fault.ListMints)
}
