package signpolicy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

const (
	tether    = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
	usdc      = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	firstKey  = "ed25519:5J5tkaxyPoR3Q9S8LXfo5bWnXK5Z2bctJ4mB9gENh7co"
	oneClick  = "ONE_CLICK"
	mainID    = `"signerId":"1"`
	testID    = `"signerId":"31337"`
	baseChain = `"BASE":{"signerId":"8453","feeMax":"1","gasMax":"1"}`
)

const relayAssets = `"BASE:native":"base:0x0000000000000000000000000000000000000000","SOLANA:` + usdc + `":"solana:` +
	usdc + `"`

// policyText has a provider of each scheme on a local chain of Ethereum and on the main networks of the others.
const policyText = `{"chains":{
	"ETHEREUM":{` + testID + `,"feeMax":"1","gasMax":"1"},` + baseChain + `,
	"SOLANA":{"signerId":"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d","feeMax":"1","gasMax":"1"},
	"BITCOIN":{"signerId":"0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206","feeMax":"1",
		"gasMax":"1"}
},"swaps":{"slippageBpsMax":200,"lossBpsMax":400,"payWindowMax":"1h","providers":{
	"ONE_CLICK":{"scheme":"ONE_CLICK_V0","keys":["` + firstKey + `"],
		"assets":{"ETHEREUM:native":"local:eth","ETHEREUM:` + tether + `":"nep141:usdt",
			"SOLANA:` + usdc + `":"nep141:usdc","BITCOIN:native":"nep141:btc","BASE:native":"nep141:base"},
		"limits":{"ETHEREUM:native":{"paymentMax":"10","organizationMax":"20","overallMax":"30"},
			"ETHEREUM:` + tether + `":{"paymentMax":"0","organizationMax":"0","overallMax":"0","unlimited":true}}},
	"RELAY":{"scheme":"RELAY_ORDER_V1","solvers":["0xf70da97812cb96acdf810712aa562db8dfa3dbef"],
		"chains":{"base":{"vm":"ethereum-vm","factory":"0xfac0000000000000000000000000000000000001",
			"implementation":"0x1e70000000000000000000000000000000000002",
			"depositor":"0xdeb0000000000000000000000000000000000003"},"solana":{"vm":"solana-vm"}},
		"assets":{` + relayAssets + `},
		"limits":{"BASE:native":{"paymentMax":"1","organizationMax":"2","overallMax":"3"}}}}}}`

func TestAPolicyOfSwapsIsRead(t *testing.T) {
	t.Parallel()
	p, err := signpolicy.Parse([]byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	s := p.EffectiveSwaps()
	if s.EffectiveSlippageBps() != 200 || s.EffectiveLossBps() != 400 || s.PayWindow() != time.Hour {
		t.Errorf("got %+v", s)
	}
	var absent signpolicy.Swaps
	if absent.EffectiveSlippageBps() != 300 || absent.EffectiveLossBps() != 500 || absent.PayWindow() != 6*time.Hour {
		t.Errorf("without settings: got %d, %d, %s", absent.EffectiveSlippageBps(), absent.EffectiveLossBps(),
			absent.PayWindow())
	}
	provider := s.Providers[oneClick]
	for _, c := range []struct {
		name     chain.Name
		contract chain.Address
		id       string
		limit    money.Amount
		isPaid   bool
	}{
		{chain.Ethereum, "", "local:eth", money.Units(10), true},
		{chain.Ethereum, tether, "nep141:usdt", money.Zero, true},
		{chain.Ethereum, chain.Address(strings.ToLower(tether)), "nep141:usdt", money.Zero, true},
		{chain.Solana, usdc, "nep141:usdc", money.Zero, false},
		{chain.Solana, chain.Address(strings.ToLower(usdc)), "", money.Zero, false},
		{chain.Base, tether, "", money.Zero, false},
		{chain.Solana, "", "", money.Zero, false},
	} {
		id, ok := provider.AssetID(c.name, c.contract)
		limit, isPaid := provider.AssetLimit(c.name, c.contract)
		if id != c.id || ok != (c.id != "") || isPaid != c.isPaid || (limit != nil) != !c.limit.IsZero() ||
			limit != nil && limit.PaymentMax != c.limit {
			t.Errorf("%s %s: got %q, limit %+v, paid %v, want %+v", c.name, c.contract, id, limit, isPaid, c)
		}
	}
	if got := p.UnlimitedSetting(); !strings.HasPrefix(got, "swaps.providers.ONE_CLICK.limits") {
		t.Errorf("the setting without a limit: got %q", got)
	}
	if _, isNamed := (signpolicy.Policy{}).EffectiveSwaps().Providers[oneClick]; isNamed {
		t.Error("a policy without swaps names a provider")
	}
}

func TestAPolicyOfSwapsTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	pinned := `"factory":"0xfac0000000000000000000000000000000000001"`
	for name, c := range map[string]struct{ old, replacement, want string }{
		"more slippage than all":  {`"slippageBpsMax":200`, `"slippageBpsMax":10000`, "slippageBpsMax"},
		"negative slippage":       {`"slippageBpsMax":200`, `"slippageBpsMax":-1`, "slippageBpsMax"},
		"half a basis point":      {`"slippageBpsMax":200`, `"slippageBpsMax":0.5`, "slippageBpsMax"},
		"a loss of everything":    {`"lossBpsMax":400`, `"lossBpsMax":10000`, "lossBpsMax"},
		"a negative loss":         {`"lossBpsMax":400`, `"lossBpsMax":-1`, "lossBpsMax"},
		"no window":               {`"payWindowMax":"1h"`, `"payWindowMax":"0s"`, "payWindowMax"},
		"a negative window":       {`"payWindowMax":"1h"`, `"payWindowMax":"-1h"`, "payWindowMax"},
		"a long window":           {`"payWindowMax":"1h"`, `"payWindowMax":"6h1s"`, "payWindowMax"},
		"a window of no time":     {`"payWindowMax":"1h"`, `"payWindowMax":"soon"`, "payWindowMax"},
		"an unknown member":       {`"payWindowMax"`, `"payWindow"`, "payWindow"},
		"a provider without name": {`"RELAY":{`, `"%d relay":{`, `"%d relay" is not a name`},
		"an unknown scheme":       {`"ONE_CLICK_V0"`, `"ONE_CLICK_V1"`, "ONE_CLICK.scheme"},
		"no key":                  {`["` + firstKey + `"]`, `[]`, "ONE_CLICK.keys"},
		"a bad key":               {firstKey, "ed25519:abc", "ONE_CLICK.keys"},
		"a key without its kind":  {firstKey, firstKey[8:], "ONE_CLICK.keys"},
		"solvers beside keys": {
			`"ONE_CLICK_V0",`,
			`"ONE_CLICK_V0","solvers":["0x1"],`,
			"scheme ONE_CLICK_V0 has keys",
		},
		"keys beside solvers": {`"RELAY_ORDER_V1",`, `"RELAY_ORDER_V1","keys":["x"],`, "has solvers instead"},
		"no solver":           {`["0xf70da97812cb96acdf810712aa562db8dfa3dbef"]`, `[]`, "RELAY.solvers"},
		"a bad solver":        {"0xf70da97812", "0xf70da97", "RELAY.solvers"},
		"the solver zero": {
			"0xf70da97812cb96acdf810712aa562db8dfa3dbef",
			"0x" + strings.Repeat("0", 40),
			"RELAY.solvers",
		},
		"an unknown machine":    {`"vm":"ethereum-vm"`, `"vm":"tron-vm"`, "chains.base.vm"},
		"half of the contracts": {`"depositor":"0xdeb`, `"depositor":"0xde`, "chains.base.factory"},
		"contracts without EVM": {
			`{"vm":"solana-vm"}`,
			`{"vm":"solana-vm",` + pinned + `}`,
			"chains.solana.factory",
		},
		"a chain of no name":      {`"chains":{"base"`, `"chains":{"optimism"`, "begin with one of chains"},
		"no assets":               {relayAssets, ``, "RELAY.assets"},
		"an asset of no chain":    {`"BITCOIN:native":`, `"TRON:native":`, "TRON"},
		"an asset of another one": {`"BITCOIN:native":`, `"OPTIMISM:native":`, "chains does not name OPTIMISM"},
		"a token on Bitcoin":      {`"BITCOIN:native":`, `"BITCOIN:ordi":`, "no tokens on BITCOIN"},
		"an asset without token":  {`"BITCOIN:native":`, `"BITCOIN":`, "is not a token"},
		"a contract that is none": {
			`"ETHEREUM:` + tether + `":"nep141:usdt"`,
			`"ETHEREUM:USDT":"nep141:usdt"`,
			"is not a contract address",
		},
		"a contract on Solana": {
			`"SOLANA:` + usdc + `":"nep141:usdc"`,
			`"SOLANA:0x1":"nep141:usdc"`,
			"canonical form",
		},
		"an asset of no name": {`"nep141:btc"`, `""`, "the provider's name"},
		"a name twice":        {`"nep141:btc"`, `"nep141:usdt"`, "already there"},
		"a token twice": {
			`"BITCOIN:native":`,
			`"ETHEREUM:` + strings.ToLower(tether) + `":`,
			"already there",
		},
		"a limit of no asset": {
			`"limits":{"BASE:native"`,
			`"limits":{"ETHEREUM:native"`,
			"assets has no such token",
		},
		"a limit of no chain": {
			`"limits":{"BASE:native"`,
			`"limits":{"OPTIMISM:native"`,
			"chains does not name OPTIMISM",
		},
		"half a limit":     {`"organizationMax":"20",`, ``, "paymentMax, organizationMax and overallMax"},
		"a limit and none": {`"overallMax":"30"`, `"overallMax":"30","unlimited":true`, "unlimited alone"},
		"no limit on a main chain": {
			`{"paymentMax":"1","organizationMax":"2","overallMax":"3"}`,
			`{"unlimited":true}`,
			"unlimited: is for local chains",
		},
		"no limit on Ethereum": {testID, mainID, "unlimited: is for local chains"},
		"a local asset":        {`"nep141:base"`, `"local:base"`, "local worlds"},
	} {
		if !strings.Contains(policyText, c.old) {
			t.Fatalf("%s: the policy does not have %s", name, c.old)
		}
		_, err := signpolicy.Parse([]byte(strings.Replace(policyText, c.old, c.replacement, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it refused with %q", name, err, c.want)
		}
	}
	none := policyText[:strings.Index(policyText, `"providers":{`)] + `"providers":{}}}`
	if _, err := signpolicy.Parse([]byte(none)); err == nil || !strings.Contains(err.Error(), "providers") {
		t.Errorf("no provider: got %v, want it refused", err)
	}
}

// A quote is verified by the scheme and with the keys of the policy alone.
func TestAQuoteIsVerifiedWithThePinsOfThePolicy(t *testing.T) {
	t.Parallel()
	now := time.Now()
	former, present := quotetest.NewOneClickKey(t), quotetest.NewOneClickKey(t)
	raw := quotetest.OneClick{
		DepositAddress: "d", OriginAsset: "a", DestinationAsset: "b", AmountIn: money.Units(5),
		AmountOut: money.Units(4), MinAmountOut: money.Units(3), Recipient: "r", RefundTo: "f", SignedAt: now,
		Deadline: now.Add(time.Hour),
	}.Sign(t, former)
	p := signpolicy.SwapProvider{Scheme: signedquote.OneClickV0, Keys: []string{quotetest.FormatOneClickKey(present)}}
	if _, err := p.VerifyQuote(raw); !errors.Is(err, signedquote.ErrUnsigned) {
		t.Errorf("a key that is not pinned: got %v, want %v", err, signedquote.ErrUnsigned)
	}
	p.Keys = append(p.Keys, quotetest.FormatOneClickKey(former))
	if q, err := p.VerifyQuote(raw); err != nil || q.DepositAddress != "d" || q.AmountIn != money.Units(5) {
		t.Errorf("a pinned key: got %+v, %v", q, err)
	}

	solver, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	zero := common.Address{}.Hex()
	order := quotetest.Relay{
		Origin: "base", Destination: "base", OriginCurrency: zero, DestinationCurrency: tether,
		AmountIn: money.Units(5), AmountOut: money.Units(4), MinAmountOut: money.Units(4), Recipient: zero[:41] + "1",
		RefundTo: zero[:41] + "2", Deadline: now.Add(time.Hour),
		Factory:        "0xfac0000000000000000000000000000000000001",
		Implementation: "0x1e70000000000000000000000000000000000002",
		Depositor:      "0xdeb0000000000000000000000000000000000003",
	}
	raw, address := order.Sign(t, solver)
	relay := signpolicy.SwapProvider{
		Scheme: signedquote.RelayOrderV1, Solvers: []string{crypto.PubkeyToAddress(solver.PublicKey).Hex()},
		Chains: map[string]signpolicy.SwapChain{"base": {
			VM: signedquote.RelayEthereum, Factory: order.Factory, Implementation: order.Implementation,
			Depositor: order.Depositor,
		}},
	}
	if q, err := relay.VerifyQuote(raw); err != nil || q.DepositAddress != address {
		t.Errorf("a pinned solver: got %+v, %v, want the address %s", q, err, address)
	}
	c := relay.Chains["base"]
	c.Factory = order.Depositor
	relay.Chains["base"] = c
	if _, err := relay.VerifyQuote(raw); !errors.Is(err, signedquote.ErrUnsigned) {
		t.Errorf("another factory: got %v, want %v", err, signedquote.ErrUnsigned)
	}
	relay.Scheme = signedquote.OneClickV0
	if _, err := relay.VerifyQuote(raw); err == nil {
		t.Error("another scheme: got no error")
	}
	relay.Scheme = "OTHER"
	if _, err := relay.VerifyQuote(raw); !errors.Is(err, signedquote.ErrMalformed) {
		t.Errorf("an unknown scheme: got %v, want %v", err, signedquote.ErrMalformed)
	}
}
