package localworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

const (
	// providerCoins and providerTokens are what the swap provider gets on Ethereum at the start, in whole coins and
	// tokens. It then seldom uses the account of the faucet, whose nonce it would share with every payer.
	providerCoins  = 100_000
	providerTokens = 100_000_000
	// calmProviderInterval is the pause between two looks of the swap provider with Options.Calm.
	calmProviderInterval = 500 * time.Millisecond
	// worldRefundGrace is how long a confirmed failure waits for its refund: tests and demonstrations do not
	// wait for one that never comes.
	worldRefundGrace = time.Second
	// worldSwapFeeBps is the platform's fee for a swap in a local world.
	worldSwapFeeBps = 25

	// providerName is the name of the provider, whose adapter the service uses.
	providerName = "ONE_CLICK"

	// lateDelay is longer than any step that waits for the failure which a late provider reports.
	lateDelay = 10 * time.Minute

	// swapTokensFile has the tokens that only the swap provider takes, so that a kept world has them again.
	swapTokensFile = "swap_tokens.json"

	providerAnswerMax = 10 * time.Second
	providerBytesMax  = 64 << 20
)

// blockchainNames are the names of the chains in the API of 1Click.
var blockchainNames = map[chain.Name]string{chain.Ethereum: "eth", chain.Solana: "sol", chain.Bitcoin: "btc"}

// foreignToken is a token that the service does not know: a customer can pay it in by a deposit swap alone.
var foreignToken = anvil.Token{Symbol: "LINK", Name: "ChainLink Token", Decimals: 18, Contract: evmtoken.Token}

// foreignTokenPrice is what the swap provider says that one of them is worth.
var foreignTokenPrice = money.MustParseUSD("15.00")

// SwapProvider says where the world's swap provider is.
type SwapProvider struct {
	URL        string `json:"url"`        // as the service calls it
	ControlURL string `json:"controlUrl"` // makes it misbehave, and shows what it did
	// Tokens are those that the provider takes and the catalogue does not have. The faucet has plenty of them.
	Tokens []SwapToken `json:"tokens,omitempty"`
}

// SwapToken is a token that only the swap provider takes.
type SwapToken struct {
	Symbol          string    `json:"symbol"`
	Chain           string    `json:"chain"`
	Decimals        int       `json:"decimals"`
	ContractAddress string    `json:"contractAddress"`
	AssetID         string    `json:"assetId"` // as the provider names it
	Price           money.USD `json:"price"`   // of a whole token
}

// FaucetMint returns the token in the form in which the faucet pays it. It is no mint of the catalogue.
func (t SwapToken) FaucetMint() Mint {
	return Mint{Symbol: t.Symbol, Chain: t.Chain, Decimals: t.Decimals, ContractAddress: &t.ContractAddress}
}

// FindSwapToken returns a token that only the swap provider takes, by its symbol or its contract.
func (i Info) FindSwapToken(name string) (SwapToken, bool) {
	for _, t := range i.Swaps.Tokens {
		if strings.EqualFold(t.Symbol, name) || strings.EqualFold(t.ContractAddress, name) {
			return t, true
		}
	}
	return SwapToken{}, false
}

// listSwapAssets returns every mint of a configuration, and the foreign token, as assets of the swap provider.
func listSwapAssets(conf app.Config, foreign anvil.Token) (assets []swapdesk.Asset) {
	for _, m := range conf.Mints {
		assets = append(assets, swapdesk.Asset{
			Mint: m.ID, Chain: m.Chain, Blockchain: blockchainNames[m.Chain], Contract: m.Contract, Symbol: m.Symbol,
			Decimals: m.Decimals, Price: money.MustParseUSD(conf.Prices.Fixed[strconv.Itoa(m.ID)]),
		})
	}
	return append(assets, swapdesk.Asset{
		Chain: chain.Ethereum, Blockchain: blockchainNames[chain.Ethereum], Contract: foreign.Address.Hex(),
		Symbol: foreign.Symbol, Decimals: int(foreign.Decimals), Price: foreignTokenPrice,
	})
}

// isForeign reports whether the catalogue does not have an asset.
func isForeign(a swapdesk.Asset) bool { return a.Mint == 0 }

// assetIDs returns the ids of the provider's assets by token, without the foreign ones: the service never pays
// them.
func assetIDs(assets []swapdesk.Asset) map[string]string {
	ids := map[string]string{}
	for _, a := range assets {
		if !isForeign(a) {
			ids[tokenText(a)] = a.ID()
		}
	}
	return ids
}

// ensureForeignToken creates the foreign token, or finds the one of an earlier start.
func (w *World) ensureForeignToken(ctx context.Context) (anvil.Token, error) {
	file := filepath.Join(w.dir, swapTokensFile)
	saved, err := os.ReadFile(file)
	switch {
	case err == nil:
		t := foreignToken
		if err := json.Unmarshal(saved, &t.Address); err != nil {
			return t, fmt.Errorf("read %s: %w", file, err)
		}
		return t, nil
	case !errors.Is(err, fs.ErrNotExist):
		return anvil.Token{}, fmt.Errorf("read the tokens of the swap provider: %w", err)
	}
	t, err := w.chain.DeployToken(ctx, foreignToken)
	if err != nil {
		return t, err
	}
	text, err := json.Marshal(t.Address)
	if err == nil {
		err = replaceFile(file, text)
	}
	return t, err
}

// tokenText returns an asset's token as a configuration names it.
func tokenText(a swapdesk.Asset) string {
	return provider.Token{Chain: a.Chain, Contract: chain.Address(a.Contract)}.Canonical().String()
}

// startSwapProvider starts the swap provider on the world's chains, which run. A kept world continues with the
// provider's own state.
func (w *World) startSwapProvider(ctx context.Context, tokens anvil.Tokens) error {
	if w.opts.WithoutSwaps {
		return nil
	}
	conf := app.Config{}
	w.configureChains(&conf, tokens)
	foreign, err := w.ensureForeignToken(ctx)
	if err != nil {
		return err
	}
	w.swapAssets = listSwapAssets(conf, foreign)
	var wallet common.Address // pays on Ethereum
	providerConf := swapdesk.Config{
		State: filepath.Join(w.dir, "swaps.jsonl"), Assets: w.swapAssets, Fund: w.fundSwapProvider, Log: w.opts.Log,
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			chains, err := w.dialSwapChains(ctx, seed)
			if err == nil {
				wallet = common.HexToAddress(chains[0].WalletAddress(0))
			}
			return chains, err
		},
	}
	if w.opts.Calm {
		providerConf.Interval = calmProviderInterval
	}
	if w.swapProvider, err = swapdesk.Start(ctx, providerConf); err != nil {
		return fmt.Errorf("start the swap provider: %w", err)
	}
	balance, err := w.chain.Eth.BalanceAt(ctx, wallet, nil)
	if err != nil {
		return fmt.Errorf("read the wallet of the swap provider: %w", err)
	}
	if balance.Sign() > 0 {
		return nil // of an earlier start
	}
	for _, a := range w.swapAssets {
		if a.Chain != chain.Ethereum {
			continue
		}
		whole := int64(providerTokens)
		if a.Contract == "" {
			whole = providerCoins
		}
		units := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(a.Decimals)), nil)
		amount, err := money.FromBig(units.Mul(units, big.NewInt(whole)))
		if err == nil {
			err = w.fundSwapProvider(ctx, a, wallet.Hex(), amount)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dialSwapChains connects the swap provider to the nodes, Ethereum first. No proxy is between them: an outage
// is the service's alone.
func (w *World) dialSwapChains(ctx context.Context, seed swapdesk.Seed) ([]swapdesk.Chain, error) {
	ethereum, err := swapdesk.DialEVM(ctx, chain.Ethereum, w.chain.URL, seed)
	if err != nil {
		return nil, err
	}
	chains := []swapdesk.Chain{ethereum}
	if n := w.otherChains.solana; n != nil {
		solana, err := swapdesk.DialSolana(ctx, n.URL, seed)
		if err != nil {
			ethereum.CloseClient()
			return nil, err
		}
		chains = append(chains, solana)
	}
	if n := w.otherChains.bitcoin; n != nil {
		chains = append(chains, swapdesk.DialBitcoin(n.URL, n.Password, seed))
	}
	return chains, nil
}

// fundSwapProvider sends an amount from the faucet of a chain to the swap provider's wallet.
func (w *World) fundSwapProvider(ctx context.Context, a swapdesk.Asset, recipient string, amount money.Amount) error {
	var err error
	switch a.Chain {
	case chain.Ethereum:
		wallet := common.HexToAddress(recipient)
		target, value, data := wallet, amount.Big(), []byte(nil)
		if a.Contract != "" {
			target, value = common.HexToAddress(a.Contract), nil
			data = evmtoken.Token.CallData("transfer", wallet, amount.Big())
		}
		_, err = w.chain.SendTx(ctx, &target, value, data)
	case chain.Solana:
		units, isSmall := amount.Uint64()
		switch {
		case !isSmall:
			err = errors.New("no amount there has more than 64 bits")
		case a.Contract == "":
			_, err = w.otherChains.solana.PayLamports(ctx, chain.Address(recipient), units)
		default:
			_, err = w.otherChains.solana.PayToken(ctx, chain.Address(a.Contract), chain.Address(recipient), units)
		}
	case chain.Bitcoin:
		satoshi, isSmall := amount.Uint64()
		if !isSmall || satoshi >= 1<<63 {
			err = errors.New("no amount there has more than 63 bits")
		} else {
			_, err = w.otherChains.bitcoin.PayAddress(ctx, chain.Address(recipient), int64(satoshi))
		}
	}
	if err != nil {
		return fmt.Errorf("fund the swap provider with %s on %s: %w", a.Symbol, a.Chain, err)
	}
	return nil
}

// stopSwapProvider ends the swap provider. Its state remains in its file.
func (w *World) stopSwapProvider() error {
	if w.swapProvider == nil {
		return nil
	}
	err := w.swapProvider.Stop()
	w.swapProvider = nil
	return err
}

// describeSwapProvider returns the description of the running swap provider.
func (w *World) describeSwapProvider() SwapProvider {
	d := SwapProvider{URL: w.swapProvider.URL(), ControlURL: w.swapProvider.ControlURL()}
	for _, a := range w.swapAssets {
		if isForeign(a) {
			d.Tokens = append(d.Tokens, SwapToken{
				Symbol: a.Symbol, Chain: string(a.Chain), Decimals: a.Decimals, ContractAddress: a.Contract,
				AssetID: a.ID(), Price: a.Price,
			})
		}
	}
	return d
}

// configureSwaps names the swap provider in the service's configuration.
func (w *World) configureSwaps(conf *app.Config) {
	if w.swapProvider != nil {
		conf.Swaps.RefundGrace = app.Duration(worldRefundGrace)
		conf.Swaps.Providers.AddOneClick(
			w.swapProvider.URL(), []string{w.swapProvider.PublicKey()}, assetIDs(w.swapAssets),
		)
	}
}

// swapPolicy returns the part of the signer's policy that lets it pay the swap provider; nil without one. It
// has no limits, since nothing here has a value.
func (w *World) swapPolicy() *signpolicy.Swaps {
	if w.swapProvider == nil {
		return nil
	}
	limits := map[string]signpolicy.Limit{}
	for _, a := range w.swapAssets {
		if isForeign(a) {
			continue
		}
		limits[signpolicy.TokenKey(a.Chain, chain.Address(a.Contract))] = signpolicy.Limit{Unlimited: true}
	}
	return &signpolicy.Swaps{Providers: map[string]signpolicy.SwapProvider{providerName: {
		Scheme: signedquote.OneClickV0, Keys: []string{w.swapProvider.PublicKey()}, Assets: assetIDs(w.swapAssets),
		Limits: limits,
	}}}
}

// isSwappable reports whether a mint may be swapped: dollar tokens of issuers with several chains only on
// Solana.
func isSwappable(m app.Mint) bool {
	return m.Chain == chain.Solana || m.Symbol != "USDC" && m.Symbol != "USDT"
}

// enableSwaps lets customers of the new organization swap.
func (w *World) enableSwaps(ctx context.Context, actor audit.Actor, orgID string, mints []app.Mint) error {
	if w.swapProvider == nil {
		return nil
	}
	swappable := []int{}
	for _, m := range mints {
		if isSwappable(m) {
			swappable = append(swappable, m.ID)
		}
	}
	changes := org.Changes{}
	for setting, value := range map[string]any{
		"customerSwapsEnabled": true, "swappableMintIds": swappable, "swapFeeBps": worldSwapFeeBps,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write the setting %s: %w", setting, err)
		}
		changes[setting] = text
	}
	return w.app.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, actor, orgID, changes)
		return err
	})
}

// SwapProviderState is what the swap provider says of itself.
type SwapProviderState struct {
	swapdesk.Info
	Swaps []swapdesk.SwapInfo
}

// SwapModes returns the ways in which the swap provider can depart from what it should do; the first one ends
// a departure.
func SwapModes() (modes []string) {
	for _, mode := range swapdesk.ListModes() {
		modes = append(modes, string(mode))
	}
	return modes
}

// SetSwapBehaviour makes the swap provider depart from what it should do in a way of SwapModes. count is how
// many firm quotes, or calls, that concerns; 0 means all of them. mint restricts it to swaps from or to one
// mint; 0 means all of them.
func (i Info) SetSwapBehaviour(ctx context.Context, mode string, count, mint int) error {
	return i.callSwapProvider(ctx, http.MethodPut, "/behaviour", swapdesk.Behaviour{
		Mode: swapdesk.Mode(mode), Remaining: count, Mint: mint,
	}, nil)
}

// SetAssetBehaviour is SetSwapBehaviour for swaps from or to one asset of the provider, which need not be a mint.
func (i Info) SetAssetBehaviour(ctx context.Context, mode string, count int, assetID string) error {
	return i.callSwapProvider(ctx, http.MethodPut, "/behaviour", swapdesk.Behaviour{
		Mode: swapdesk.Mode(mode), Remaining: count, Asset: assetID,
	}, nil)
}

// SetLateSwap makes the swap provider report that the next swap failed, keep its deposit, and deliver when
// ReleaseSwaps is called, or ten minutes later.
func (i Info) SetLateSwap(ctx context.Context) error {
	body := map[string]any{"mode": swapdesk.ModeLate, "next": 1, "delay": lateDelay.String()}
	return i.callSwapProvider(ctx, http.MethodPut, "/behaviour", body, nil)
}

// ReleaseSwaps makes the swap provider deliver what it keeps back, and refund what was too little. It returns
// the deposit addresses of these swaps.
func (i Info) ReleaseSwaps(ctx context.Context) (addresses []string, err error) {
	var answer struct{ Released []string }
	err = i.callSwapProvider(ctx, http.MethodPost, "/release", map[string]any{}, &answer)
	return answer.Released, err
}

// ListSwapTransfers returns what the swap provider received, delivered and refunded.
func (i Info) ListSwapTransfers(ctx context.Context) (transfers swapdesk.Transfers, err error) {
	return transfers, i.callSwapProvider(ctx, http.MethodGet, "/transfers", nil, &transfers)
}

// SetSwapPrice sets the price at which the swap provider quotes a mint; nil sets the usual one. It returns the
// asset with its price.
func (i Info) SetSwapPrice(ctx context.Context, mint int, price *money.USD) (asset swapdesk.AssetInfo, err error) {
	body := map[string]any{"mint": mint, "price": price}
	return asset, i.callSwapProvider(ctx, http.MethodPut, "/prices", body, &asset)
}

// SetAssetPrice is SetSwapPrice for one asset of the provider, which need not be a mint.
func (i Info) SetAssetPrice(
	ctx context.Context, assetID string, price *money.USD,
) (asset swapdesk.AssetInfo, err error) {
	body := map[string]any{"asset": assetID, "price": price}
	return asset, i.callSwapProvider(ctx, http.MethodPut, "/prices", body, &asset)
}

// ReadSwapProvider returns the behaviour, the prices and the swaps of the swap provider.
func (i Info) ReadSwapProvider(ctx context.Context) (state SwapProviderState, err error) {
	if err := i.callSwapProvider(ctx, http.MethodGet, "/desk", nil, &state.Info); err != nil {
		return state, err
	}
	var list struct{ Swaps []swapdesk.SwapInfo }
	err = i.callSwapProvider(ctx, http.MethodGet, "/swaps", nil, &list)
	state.Swaps = list.Swaps
	return state, err
}

// callSwapProvider calls the control listener of the swap provider.
func (i Info) callSwapProvider(ctx context.Context, method, path string, body, result any) error {
	if i.Swaps.ControlURL == "" {
		return errors.New("this world has no swap provider: start it with make run, or bin/coffer local")
	}
	ctx, cancel := context.WithTimeout(ctx, providerAnswerMax)
	defer cancel()
	payload, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask the swap provider: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, i.Swaps.ControlURL+path, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("ask the swap provider: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the swap provider: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, providerBytesMax))
	if err != nil {
		return fmt.Errorf("ask the swap provider: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct{ Message string }
		if err := json.Unmarshal(text, &refusal); err != nil || refusal.Message == "" {
			return fmt.Errorf("the swap provider answers %s to %s %s", resp.Status, method, path)
		}
		return fmt.Errorf("the swap provider refuses: %s", refusal.Message)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("read the answer of the swap provider: %w", err)
	}
	return nil
}
