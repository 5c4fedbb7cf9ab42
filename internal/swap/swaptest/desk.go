package swaptest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// DeskName is the name of a Desk.
const DeskName = "ONE_CLICK"

// deskTime is how long an offer of a Desk can be paid.
const deskTime = 3 * time.Hour

// Desk is a provider that swaps its assets one for one, less half a percent. Nothing signs its quotes, and it
// believes each of them: it serves tests of what shows swaps, and no signer pays it.
type Desk struct {
	Clock  func() time.Time
	Listed []provider.Asset

	mu      sync.Mutex
	refusal error
	made    int // firm quotes
}

var (
	_ provider.Provider = (*Desk)(nil)
	_ provider.Verifier = (*Desk)(nil)
)

// NewAsset returns an asset of a Desk.
func NewAsset(token provider.Token, symbol string, decimals int) provider.Asset {
	price, err := money.ParseUSD("1")
	if err != nil {
		panic(err)
	}
	return provider.Asset{
		Token: token.Canonical(), ID: "test:" + strings.ToLower(token.Canonical().String()), Symbol: symbol,
		Decimals: decimals, Accepts: true, Delivers: true, AcceptsAny: true, PriceUSD: price,
	}
}

// Name returns DeskName.
func (*Desk) Name() string { return DeskName }

// Assets returns the listed ones.
func (d *Desk) Assets(context.Context) ([]provider.Asset, error) { return d.Listed, nil }

// Refuse makes the desk answer each question with an error; nil ends that.
func (d *Desk) Refuse(refusal error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusal = refusal
}

// Quote offers half a percent less than the amount in.
func (d *Desk) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusal != nil {
		return provider.Offer{}, d.refusal
	}
	origin, destination, err := provider.FindPair(d.Listed, ask)
	if err != nil {
		return provider.Offer{}, err
	}
	out, err := scale(ask.AmountIn, origin.Decimals, destination.Decimals)
	if err != nil {
		return provider.Offer{}, err
	}
	leastOut, err := out.Bps(uint64(provider.SlippageBpsMax - ask.SlippageBps))
	if err != nil {
		return provider.Offer{}, err
	}
	if !ask.IsFirm {
		return provider.Offer{
			Provider: DeskName, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: out, MinAmountOut: leastOut,
			Estimate: 20 * time.Second,
		}, nil
	}
	d.made++
	now := d.Clock().UTC().Truncate(time.Millisecond)
	quote := signedquote.Quote{
		Scheme: signedquote.OneClickV0, IsFlexible: ask.IsFlexible,
		DepositAddress: "0x" + hex.EncodeToString(sha256Of(fmt.Sprint(ask.Reference, d.made)))[:40],
		OriginAsset:    origin.ID, DestinationAsset: destination.ID, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn,
		AmountOut: out, MinAmountOut: leastOut, Recipient: string(ask.Recipient), RefundTo: []string{string(ask.RefundTo)},
		SlippageBps: ask.SlippageBps, SignedAt: now, Deadline: now.Add(deskTime), Estimate: 20 * time.Second,
	}
	raw, err := json.Marshal(quote)
	if err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(DeskName, raw, quote), nil
}

// scale returns an amount less half a percent, in units of a token with other decimals.
func scale(amount money.Amount, decimals, otherDecimals int) (money.Amount, error) {
	net, err := amount.Bps(9_950)
	if err != nil {
		return money.Zero, err
	}
	whole, fraction, _ := strings.Cut(net.Decimal(decimals), ".")
	return money.ParseDecimal(strings.TrimSuffix(whole+"."+fraction[:min(len(fraction), otherDecimals)], "."), otherDecimals)
}

// VerifyQuote reads a quote that the desk made.
func (*Desk) VerifyQuote(raw []byte) (quote signedquote.Quote, err error) {
	return quote, json.Unmarshal(raw, &quote)
}

// Status says that no payment was seen.
func (d *Desk) Status(context.Context, provider.Ref, chain.TxHash) (provider.Report, error) {
	return provider.Report{
		Provider: DeskName, Status: provider.Waiting, Word: "PENDING_DEPOSIT", Refund: provider.RefundNone,
		UpdatedAt: d.Clock(), Raw: []byte(`{}`),
	}, nil
}
