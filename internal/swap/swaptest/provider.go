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

// ScriptedName is the name of a ScriptedProvider.
const ScriptedName = "ONE_CLICK"

// offerTime is how long an offer of a ScriptedProvider can be paid.
const offerTime = 3 * time.Hour

// ScriptedProvider swaps its assets one for one, less half a percent. Nothing signs its quotes, and it believes
// each of them: it serves tests of what shows swaps, and no signer pays it.
type ScriptedProvider struct {
	Clock  func() time.Time
	Listed []provider.Asset

	mu      sync.Mutex
	refusal error
	made    int // firm quotes
}

var (
	_ provider.Provider = (*ScriptedProvider)(nil)
	_ provider.Verifier = (*ScriptedProvider)(nil)
)

// NewAsset returns an asset of a ScriptedProvider.
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

// Name returns ScriptedName.
func (*ScriptedProvider) Name() string { return ScriptedName }

// Assets returns the listed ones.
func (p *ScriptedProvider) Assets(context.Context) ([]provider.Asset, error) { return p.Listed, nil }

// Refuse makes the provider answer each question with an error; nil ends that.
func (p *ScriptedProvider) Refuse(refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal = refusal
}

// Quote offers half a percent less than the amount in.
func (p *ScriptedProvider) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal != nil {
		return provider.Offer{}, p.refusal
	}
	origin, destination, err := provider.FindPair(p.Listed, ask)
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
			Provider: ScriptedName, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn,
			AmountOut: out, MinAmountOut: leastOut, Estimate: 20 * time.Second,
		}, nil
	}
	p.made++
	now := p.Clock().UTC().Truncate(time.Millisecond)
	quote := signedquote.Quote{
		Scheme: signedquote.OneClickV0, IsFlexible: ask.IsFlexible,
		DepositAddress: "0x" + hex.EncodeToString(sha256Of(fmt.Sprint(ask.Reference, p.made)))[:40],
		OriginAsset:    origin.ID, DestinationAsset: destination.ID, AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn,
		AmountOut: out, MinAmountOut: leastOut,
		Recipient: string(ask.Recipient), RefundTo: []string{string(ask.RefundTo)},
		SlippageBps: ask.SlippageBps, SignedAt: now, Deadline: now.Add(offerTime), Estimate: 20 * time.Second,
	}
	raw, err := json.Marshal(quote)
	if err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(ScriptedName, raw, quote), nil
}

// scale returns an amount less half a percent, in units of a token with other decimals.
func scale(amount money.Amount, decimals, otherDecimals int) (money.Amount, error) {
	net, err := amount.Bps(9_950)
	if err != nil {
		return money.Zero, err
	}
	whole, fraction, _ := strings.Cut(net.Decimal(decimals), ".")
	fraction = fraction[:min(len(fraction), otherDecimals)]
	return money.ParseDecimal(strings.TrimSuffix(whole+"."+fraction, "."), otherDecimals)
}

// VerifyQuote reads a quote that the provider made.
func (*ScriptedProvider) VerifyQuote(raw []byte) (quote signedquote.Quote, err error) {
	return quote, json.Unmarshal(raw, &quote)
}

// Status says that no payment was seen.
func (p *ScriptedProvider) Status(context.Context, provider.Ref, chain.TxHash) (provider.Report, error) {
	return provider.Report{
		Provider: ScriptedName, Status: provider.Waiting, Word: "PENDING_DEPOSIT", Refund: provider.RefundNone,
		UpdatedAt: p.Clock(), Raw: []byte(`{}`),
	}, nil
}
