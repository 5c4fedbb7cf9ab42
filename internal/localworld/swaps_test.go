package localworld_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// openSwapProvider builds the provider that a world's configuration names, as the service does.
func openSwapProvider(t *testing.T, w *localworld.World) (provider.Provider, app.Config) {
	t.Helper()
	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	member, err := conf.Swaps.Providers.OneClick.Open(provider.SectionEnv{Network: conf.Network})
	if err != nil {
		t.Fatal(err)
	}
	return member.Provider, conf
}

// The provider of a world swaps all its mints on its chains, and the service and the signer know it by its key
// and its assets.
func TestAWorldHasASwapProviderThatTheServiceAndTheSignerKnow(t *testing.T) {
	t.Parallel()
	n := buildScenario(t, localworld.Options{Chains: localworld.AllChains})
	swaps, conf := openSwapProvider(t, n.World)
	assets, err := swaps.Assets(n.ctx)
	if err != nil || len(assets) != len(conf.Mints)+1 {
		t.Fatalf("got %d assets %v, want one for each of %d mints, and one more", len(assets), err, len(conf.Mints))
	}
	text, err := os.ReadFile(conf.Signer.Policy)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := signpolicy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	pinned := policy.EffectiveSwaps().Providers[swaps.Name()]
	if keys := conf.Swaps.Providers.OneClick.Keys; len(keys) != 1 || !slices.Equal(pinned.Keys, keys) {
		t.Errorf("got the keys %v in the policy, want %v", pinned.Keys, keys)
	}
	var swappable []int
	for _, m := range conf.Mints {
		token := provider.Token{Chain: m.Chain, Contract: chain.Address(m.Contract)}
		asset, isServed := provider.FindAsset(assets, token)
		if !isServed || asset.Decimals != m.Decimals {
			t.Errorf("%s on %s: got %+v, want it served", m.Symbol, m.Chain, asset)
		}
		if id, isNamed := pinned.AssetID(m.Chain, token.Contract); !isNamed || id != asset.ID {
			t.Errorf("%s on %s: got %q in the policy, want %q", m.Symbol, m.Chain, id, asset.ID)
		}
		if limit, isAllowed := pinned.AssetLimit(m.Chain, token.Contract); !isAllowed || limit != nil {
			t.Errorf("%s on %s: got the limit %v, want none", m.Symbol, m.Chain, limit)
		}
		if m.Chain != chain.Ethereum || m.Symbol == "ETH" || m.Symbol == "DAI" {
			swappable = append(swappable, m.ID)
		}
	}

	var settings org.Settings
	if err := n.ServiceDB().ReadSystem(n.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		settings, err = org.SettingsOf(ctx, tx, n.Info.OrganizationID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !settings.CustomerSwapsEnabled || settings.SwapFeeBps != 25 ||
		!slices.Equal(settings.SwappableMintIDs, swappable) {
		t.Errorf("got %+v, want swaps of %v for 25 basis points", settings, swappable)
	}

	solanaKey, err := surfpool.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	bitcoinKey, err := btcd.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	// It pays on every chain, with coins and tokens of the faucets.
	refs := map[string]provider.Ref{}
	for _, c := range []struct {
		destination provider.Token
		recipient   chain.Address
	}{
		{provider.Token{Chain: chain.Solana}, surfpool.AddressOf(solanaKey)},
		{provider.Token{Chain: chain.Solana, Contract: surfpool.USDC}, surfpool.AddressOf(solanaKey)},
		{provider.Token{Chain: chain.Bitcoin}, btcd.KeyAddress(bitcoinKey)},
		{
			provider.Token{Chain: chain.Ethereum, Contract: chain.Address(*n.mintBySymbol("USDC").ContractAddress)},
			"0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
		},
	} {
		offer, err := swaps.Quote(n.ctx, provider.Ask{
			IsFirm: true, Origin: provider.Token{Chain: chain.Ethereum}, Destination: c.destination,
			AmountIn: money.Units(params.Ether), Recipient: c.recipient,
			RefundTo:    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
			SlippageBps: 100, Deadline: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatalf("%s: %v", c.destination, err)
		}
		address := offer.Signed.DepositAddress
		refs[c.destination.String()] = provider.Ref{DepositAddress: address, SignedQuote: offer.Raw}
		if _, err := n.Info.SendFromFaucet(
			n.ctx, n.mintBySymbol("ETH"), common.HexToAddress(address), big.NewInt(params.Ether),
		); err != nil {
			t.Fatal(err)
		}
	}
	for destination, ref := range refs {
		for {
			report, err := swaps.Status(n.ctx, ref, "")
			if err == nil && report.Status == provider.Success {
				break
			}
			n.pause(fmt.Errorf("the swap to %s: got %s %w, want SUCCESS", destination, report.Word, err))
		}
	}
}

// A token that no mint is pays in by a flexible quote: whatever is final at the provider's address, within its
// bounds, comes as USDC, and the rest goes back to its payer.
func TestTheSwapProviderTakesATokenThatTheServiceDoesNotKnow(t *testing.T) {
	t.Parallel()
	n := buildScenario(t, localworld.Options{Chains: []chain.Name{chain.Ethereum, chain.Solana}})
	swaps, conf := openSwapProvider(t, n.World)
	link, isKnown := n.Info.FindSwapToken("link")
	if !isKnown || link.Chain != string(chain.Ethereum) || link.Decimals != 18 || link.Price.String() != "15" {
		t.Fatalf("got %+v, want a token of Ethereum at $15", link)
	}
	origin := provider.Token{Chain: chain.Ethereum, Contract: chain.Address(link.ContractAddress)}
	assets, err := swaps.Assets(n.ctx)
	if err != nil {
		t.Fatal(err)
	}
	asset, isServed := provider.FindAsset(assets, origin)
	if !isServed || !asset.Accepts || !asset.AcceptsAny || asset.Symbol != "LINK" || asset.Decimals != 18 ||
		asset.ID != link.AssetID || asset.PriceUSD.Cmp(link.Price) != 0 {
		t.Errorf("got %+v, want the token with its price", asset)
	}
	for _, m := range conf.Mints {
		if strings.EqualFold(m.Contract, link.ContractAddress) {
			t.Errorf("got the mint %+v, want none of the token", m)
		}
	}

	payer, err := localworld.NewExternalAccount()
	if err != nil {
		t.Fatal(err)
	}
	whole := func(tenths int64) *big.Int {
		return new(big.Int).Mul(big.NewInt(tenths), big.NewInt(params.Ether/10))
	}
	for _, pay := range []struct {
		mint   localworld.Mint
		amount *big.Int
	}{{n.mintBySymbol("ETH"), whole(10)}, {link.FaucetMint(), whole(1000)}} {
		if _, err := n.Info.SendFromFaucet(n.ctx, pay.mint, payer.Address(), pay.amount); err != nil {
			t.Fatal(err)
		}
	}
	balance := func() *big.Int {
		t.Helper()
		units, err := n.EthereumNode().TokenBalance(n.ctx, common.HexToAddress(link.ContractAddress), payer.Address())
		if err != nil {
			t.Fatal(err)
		}
		return units
	}
	for balance().Cmp(whole(1000)) != 0 {
		n.pause(errors.New("the payer has no LINK"))
	}
	key, err := surfpool.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	recipient := surfpool.AddressOf(key)
	quote := func() provider.Ref {
		t.Helper()
		offer, err := swaps.Quote(n.ctx, provider.Ask{
			IsFirm: true, IsFlexible: true, Origin: origin,
			Destination: provider.Token{Chain: chain.Solana, Contract: surfpool.USDC},
			AmountIn:    money.MustParse(whole(100).String()), Recipient: recipient,
			RefundTo: chain.Address(payer.Address().Hex()), SlippageBps: 100, Deadline: time.Now().Add(time.Hour),
		})
		if err != nil || !offer.Signed.IsFlexible {
			t.Fatalf("got %+v and %v, want a flexible quote", offer.Signed, err)
		}
		return provider.Ref{DepositAddress: offer.Signed.DepositAddress, SignedQuote: offer.Raw}
	}
	pay := func(ref provider.Ref, tenths int64) string {
		t.Helper()
		hash, err := n.Info.PayFrom(
			n.ctx, payer, link.FaucetMint(), common.HexToAddress(ref.DepositAddress), whole(tenths),
		)
		if err != nil {
			t.Fatal(err)
		}
		return hash.Hex()
	}
	wait := func(ref provider.Ref, hash string, want provider.Status) {
		t.Helper()
		for {
			report, err := swaps.Status(n.ctx, ref, "")
			if err == nil && report.Status == want {
				if len(report.OriginTxs) != 1 || string(report.OriginTxs[0]) != hash {
					t.Errorf("%s: got the payments %v, want %s", want, report.OriginTxs, hash)
				}
				return
			}
			n.pause(fmt.Errorf("got %s %w, want %s", report.Word, err, want))
		}
	}
	delivered := func() money.Amount {
		t.Helper()
		transfers, err := n.Info.ListSwapTransfers(n.ctx)
		if err != nil {
			t.Fatal(err)
		}
		sum := money.Zero
		for _, transfer := range transfers.Transfers {
			if transfer.Kind == "DELIVERY" && transfer.IsFinal && transfer.Address == string(recipient) {
				if sum, err = sum.Add(transfer.Amount); err != nil {
					t.Fatal(err)
				}
			}
		}
		return sum
	}

	// Half as much again as was quoted: 15 LINK are $225, of which the provider keeps 0.2 % and a fee.
	more := quote()
	wait(more, pay(more, 150), provider.Success)
	if got := delivered(); got.Less(money.MustParse("224000000")) || money.MustParse("225000000").Less(got) {
		t.Errorf("got %s, want about 224 USDC", got)
	}
	// Less than the bounds waits for the rest, and goes back when it does not come.
	less := quote()
	hash := pay(less, 90)
	wait(less, hash, provider.Incomplete)
	released, err := n.Info.ReleaseSwaps(n.ctx)
	if err != nil || !slices.Equal(released, []string{less.DepositAddress}) {
		t.Errorf("got %v %v released, want %s", released, err, less.DepositAddress)
	}
	wait(less, hash, provider.Refunded)
	// 1000 − 150, and of 9 LINK all but the fee of the refund, $0.25.
	if left := new(big.Int).Sub(whole(850), balance()); left.Sign() <= 0 || left.Cmp(whole(1)) >= 0 {
		t.Errorf("the payer lacks %s units, want the fee of a refund", left)
	}
	// A behaviour may concern this token alone.
	if err := n.Info.SetAssetBehaviour(n.ctx, "refund", 1, link.AssetID); err != nil {
		t.Fatal(err)
	}
	refused := quote()
	wait(refused, pay(refused, 100), provider.Refunded)
}

// A kept world has the same provider again, with what it was told. A world that wants none has none.
func TestAKeptWorldKeepsItsSwapProvider(t *testing.T) {
	t.Parallel()
	opts := localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), StateDir: filepath.Join(t.TempDir(), "world"),
		BlockTime: 250 * time.Millisecond, Calm: true, Log: slog.New(slog.DiscardHandler),
	}
	start := func(opts localworld.Options) (w *localworld.World, stop func()) {
		t.Helper()
		w, err := localworld.Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		return w, func() {
			t.Helper()
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, stop := start(opts)
	_, conf := openSwapProvider(t, w)
	if err := w.Info.SetSwapBehaviour(t.Context(), "refund", 0, 4); err != nil {
		t.Fatal(err)
	}
	if described, err := localworld.ReadInfo(opts.Dir); err != nil ||
		!reflect.DeepEqual(described.Swaps, w.Info.Swaps) ||
		described.Swaps.ControlURL == "" || len(described.Swaps.Tokens) != 1 {
		t.Errorf("got %+v %v, want the provider described", described.Swaps, err)
	}
	foreign := w.Info.Swaps.Tokens
	stop()

	w, stop = start(opts)
	_, again := openSwapProvider(t, w)
	if want := conf.Swaps.Providers.OneClick.Keys; !slices.Equal(again.Swaps.Providers.OneClick.Keys, want) {
		t.Errorf("got the keys %v, want %v", again.Swaps.Providers.OneClick.Keys, want)
	}
	if desk, err := w.Info.ReadSwapProvider(t.Context()); err != nil || desk.Behaviour.Mode != "refund" ||
		desk.Behaviour.Mint != 4 {
		t.Errorf("got %+v %v, want the behaviour of before", desk.Behaviour, err)
	}
	if !reflect.DeepEqual(w.Info.Swaps.Tokens, foreign) {
		t.Errorf("got the tokens %+v, want those of before, %+v", w.Info.Swaps.Tokens, foreign)
	}
	stop()

	opts.WithoutSwaps = true
	w, stop = start(opts)
	if conf, err := app.ReadConfig(w.Info.Config); err != nil || conf.Swaps.Providers.OneClick != nil ||
		!reflect.DeepEqual(w.Info.Swaps, localworld.SwapProvider{}) {
		t.Errorf("got %+v %+v %v, want no provider", conf.Swaps, w.Info.Swaps, err)
	}
	stop()
}
