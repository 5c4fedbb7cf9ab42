package signpolicy

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// Swaps is what the signer allows of payments to swap providers. Without this section it makes none.
type Swaps struct {
	// SlippageBpsMax is how much less than the estimate a signed quote may deliver, in basis points. If
	// absent, it is slippageBpsDefault.
	SlippageBpsMax int `json:"slippageBpsMax,omitzero"`
	// LossBpsMax is how much less the output may be worth than the input, by the dollar values of the
	// signed quote, in basis points. If absent, it is lossBpsDefault. A quote without these values is not
	// compared.
	LossBpsMax int `json:"lossBpsMax,omitzero"`
	// PayWindowMax is how long after the quote a payment may still be signed, such as "6h". If absent, it
	// is payWindowLongest.
	PayWindowMax string `json:"payWindowMax,omitempty"`
	// Providers are the providers that may be paid, by their names, such as ONE_CLICK.
	Providers map[string]SwapProvider `json:"providers"`
}

// SwapProvider is what the signer knows about a provider by itself: who signs for it, how it names assets, and
// how much it may be paid.
type SwapProvider struct {
	Scheme signedquote.Scheme `json:"scheme"`
	// Keys are the keys that sign quotes of ONE_CLICK_V0. A former key stays here as long as a journal with
	// its quotes may have to be adopted.
	Keys []string `json:"keys,omitempty"`
	// Solvers are the addresses that sign orders of RELAY_ORDER_V1, and Chains are its chains by their names in
	// orders.
	Solvers []string             `json:"solvers,omitempty"`
	Chains  map[string]SwapChain `json:"chains,omitempty"`
	// Assets are the provider's names of assets by token, such as ETHEREUM:native or ETHEREUM:0xdac1….
	Assets map[string]string `json:"assets"`
	// Limits are the limits of payments to this provider by token. They are apart from those of other
	// payments. A token without a limit is never paid to the provider; it may be bought.
	Limits map[string]Limit `json:"limits"`
}

// SwapChain pins a chain of RELAY_ORDER_V1: see signedquote.RelayChain. A chain without the three addresses is
// delivered to, and never paid on.
type SwapChain struct {
	VM             signedquote.RelayVM `json:"vm"`
	Factory        string              `json:"factory,omitempty"`
	Implementation string              `json:"implementation,omitempty"`
	Depositor      string              `json:"depositor,omitempty"`
}

const (
	slippageBpsDefault = 300
	lossBpsDefault     = 500
	// bpsMax is the whole amount: a setting of that much would be none.
	bpsMax = 10_000
	// payWindowLongest is the default and the largest pay window.
	payWindowLongest = 6 * time.Hour

	nativeName = "native"
	// localAssetPrefix begins the assets of the provider that local worlds run.
	localAssetPrefix = "local:"
)

// providerNames is the form of a provider's name.
var providerNames = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,39}$`)

// EffectiveSlippageBps returns SlippageBpsMax, or its default.
func (s Swaps) EffectiveSlippageBps() int {
	if s.SlippageBpsMax == 0 {
		return slippageBpsDefault
	}
	return s.SlippageBpsMax
}

// EffectiveLossBps returns LossBpsMax, or its default.
func (s Swaps) EffectiveLossBps() int {
	if s.LossBpsMax == 0 {
		return lossBpsDefault
	}
	return s.LossBpsMax
}

// PayWindow returns PayWindowMax of a policy that was validated, or its default.
func (s Swaps) PayWindow() time.Duration {
	if s.PayWindowMax == "" {
		return payWindowLongest
	}
	d, err := time.ParseDuration(s.PayWindowMax)
	if err != nil {
		return 0 // nothing is paid
	}
	return d
}

// EffectiveSwaps returns the section of swaps; one without providers if the policy has none.
func (p Policy) EffectiveSwaps() Swaps {
	if p.Swaps == nil {
		return Swaps{}
	}
	return *p.Swaps
}

// TokenKey returns a token as the policy names it: the chain and the contract, or native. The case of letters
// does not matter in a hexadecimal contract, and matters in every other one.
func TokenKey(name chain.Name, contract chain.Address) string {
	text := string(contract)
	if contract == "" {
		text = nativeName
	}
	return canonicalKey(string(name) + ":" + text)
}

func canonicalKey(key string) string {
	name, contract, _ := strings.Cut(key, ":")
	if lower := strings.ToLower(contract); strings.HasPrefix(lower, "0x") &&
		strings.Trim(lower[2:], "0123456789abcdef") == "" {
		contract = lower
	}
	return name + ":" + contract
}

// findToken returns what a table has for a token.
func findToken[V any](table map[string]V, name chain.Name, contract chain.Address) (v V, ok bool) {
	want := TokenKey(name, contract)
	if v, ok = table[want]; ok {
		return v, true
	}
	for key, v := range table {
		if canonicalKey(key) == want {
			return v, true
		}
	}
	return v, false
}

// AssetID returns the provider's name of a token. The second result is false if the policy has none.
func (p SwapProvider) AssetID(name chain.Name, contract chain.Address) (string, bool) {
	return findToken(p.Assets, name, contract)
}

// AssetLimit returns the limit of payments of a token to the provider; nil means that it has none. The second
// result is false if the policy does not allow such payments.
func (p SwapProvider) AssetLimit(name chain.Name, contract chain.Address) (*Limit, bool) {
	l, ok := findToken(p.Limits, name, contract)
	if !ok || l.Unlimited {
		return nil, ok
	}
	return &l, true
}

// VerifyQuote verifies what the provider signed with the keys of the policy, and returns what it promises.
// Errors: those of package signedquote.
func (p SwapProvider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	switch p.Scheme {
	case signedquote.OneClickV0:
		var keys []ed25519.PublicKey
		for _, text := range p.Keys {
			key, err := signedquote.ParseOneClickKey(text)
			if err != nil {
				return signedquote.Quote{}, fmt.Errorf("%w: %w", signedquote.ErrUnsigned, err)
			}
			keys = append(keys, key)
		}
		return signedquote.VerifyOneClick(raw, keys)
	case signedquote.RelayOrderV1:
		pins := signedquote.RelayPins{Chains: map[string]signedquote.RelayChain{}}
		for _, solver := range p.Solvers {
			pins.Solvers = append(pins.Solvers, common.HexToAddress(solver))
		}
		for name, c := range p.Chains {
			pins.Chains[name] = signedquote.RelayChain{
				VM: c.VM, Factory: common.HexToAddress(c.Factory),
				Implementation: common.HexToAddress(c.Implementation), Depositor: common.HexToAddress(c.Depositor),
			}
		}
		return signedquote.VerifyRelay(raw, pins)
	}
	return signedquote.Quote{}, fmt.Errorf("%w: the scheme %q", signedquote.ErrMalformed, p.Scheme)
}

// NamesContract reports whether the policy knows an address as a token's contract.
func (p Policy) NamesContract(name chain.Name, address chain.Address) bool {
	if _, ok := p.Chains[name].Assets[address]; ok {
		return true
	}
	for _, provider := range p.EffectiveSwaps().Providers {
		if _, ok := provider.AssetID(name, address); ok {
			return true
		}
	}
	return false
}

// complaints collects what is wrong with a policy.
type complaints func(format string, args ...any)

// aboutPart returns complaints about a part of the policy.
func (c complaints) aboutPart(part string) complaints {
	part = strings.ReplaceAll(part, "%", "%%")
	return func(format string, args ...any) { c(part+format, args...) }
}

// validate complains about everything that is wrong with the section. chains are those of the policy.
func (s Swaps) validate(chains map[chain.Name]Chain, complain complaints) {
	if s.SlippageBpsMax < 0 || s.SlippageBpsMax >= bpsMax {
		complain("slippageBpsMax: got %d, want 1 to %d basis points", s.SlippageBpsMax, bpsMax-1)
	}
	if s.LossBpsMax < 0 || s.LossBpsMax >= bpsMax {
		complain("lossBpsMax: got %d, want 1 to %d basis points", s.LossBpsMax, bpsMax-1)
	}
	if d, err := time.ParseDuration(s.PayWindowMax); s.PayWindowMax != "" &&
		(err != nil || d <= 0 || d > payWindowLongest) {
		complain("payWindowMax: got %q, want a duration above 0s and up to %s, such as 1h", s.PayWindowMax,
			payWindowLongest)
	}
	if len(s.Providers) == 0 {
		complain("providers: name at least one, or leave swaps out")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		complainHere := complain.aboutPart("providers." + name + ".")
		if !providerNames.MatchString(name) {
			complain("providers: %q is not a name such as ONE_CLICK", name)
		}
		s.Providers[name].validateSigners(complainHere)
		s.Providers[name].validateAssets(chains, complainHere)
		s.Providers[name].validateLimits(chains, complainHere)
	}
}

// validateSigners checks who signs for the provider.
func (p SwapProvider) validateSigners(complain complaints) {
	switch p.Scheme {
	case signedquote.OneClickV0:
		if len(p.Keys) == 0 {
			complain("keys: name at least one, such as ed25519:…")
		}
		for _, key := range p.Keys {
			if _, err := signedquote.ParseOneClickKey(key); err != nil {
				complain("keys: %w", err)
			}
		}
		if len(p.Solvers) > 0 || len(p.Chains) > 0 {
			complain("solvers, chains: scheme %s has keys alone", p.Scheme)
		}
	case signedquote.RelayOrderV1:
		if len(p.Keys) > 0 {
			complain("keys: scheme %s has solvers instead", p.Scheme)
		}
		if len(p.Solvers) == 0 {
			complain("solvers: name at least one address")
		}
		for _, solver := range p.Solvers {
			if !isPinned(solver) {
				complain("solvers: %q is not an address such as 0x…", solver)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
			p.Chains[name].validate(complain.aboutPart("chains." + name + "."))
		}
	default:
		complain("scheme: got %q, want %s or %s", p.Scheme, signedquote.OneClickV0, signedquote.RelayOrderV1)
	}
}

func (c SwapChain) validate(complain complaints) {
	isEVM := c.VM == signedquote.RelayEthereum
	if !isEVM && c.VM != signedquote.RelaySolana && c.VM != signedquote.RelayBitcoin {
		complain("vm: got %q, want %s, %s or %s", c.VM, signedquote.RelayEthereum, signedquote.RelaySolana,
			signedquote.RelayBitcoin)
	}
	addresses := []string{c.Factory, c.Implementation, c.Depositor}
	someSet := slices.ContainsFunc(addresses, func(a string) bool { return a != "" })
	allPinned := !slices.ContainsFunc(addresses, func(a string) bool { return !isPinned(a) })
	if someSet && (!isEVM || !allPinned) {
		complain("factory, implementation, depositor: give three addresses such as 0x… on a chain of %s, or none",
			signedquote.RelayEthereum)
	}
}

// isPinned reports whether a text is an address of the EVM other than zero.
func isPinned(text string) bool {
	return strings.HasPrefix(text, "0x") && common.IsHexAddress(text) && common.HexToAddress(text) != common.Address{}
}

// validateAssets checks the table of assets.
func (p SwapProvider) validateAssets(chains map[chain.Name]Chain, complain complaints) {
	if len(p.Assets) == 0 {
		complain("assets: name at least one")
	}
	tokens, ids := map[string]bool{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Assets)) {
		id := p.Assets[key]
		signerID, err := checkToken(key, chains)
		if err != nil {
			complain("assets.%q: %w", key, err)
		}
		if id == "" || len(id) > 200 {
			complain("assets.%q: give the provider's name of it", key)
		}
		if tokens[canonicalKey(key)] || ids[id] {
			complain("assets.%q: the token or its name %q is already there", key, id)
		}
		tokens[canonicalKey(key)], ids[id] = true, true
		if strings.HasPrefix(id, localAssetPrefix) && isMainNetwork(signerID) {
			complain("assets.%q: %q is of the provider of local worlds, and signerId %s is a main network", key, id,
				signerID)
		}
		if name, _, _ := strings.Cut(id, ":"); p.Scheme == signedquote.RelayOrderV1 && p.Chains[name].VM == "" {
			complain("assets.%q: %q does not begin with one of chains", key, id)
		}
	}
}

// validateLimits checks the limits.
func (p SwapProvider) validateLimits(chains map[chain.Name]Chain, complain complaints) {
	tokens := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Limits)) {
		l := p.Limits[key]
		signerID, err := checkToken(key, chains)
		if err != nil {
			complain("limits.%q: %w", key, err)
		}
		name, contract, _ := strings.Cut(canonicalKey(key), ":")
		if contract == nativeName {
			contract = ""
		}
		if _, ok := p.AssetID(chain.Name(name), chain.Address(contract)); !ok {
			complain("limits.%q: assets has no such token", key)
		}
		if tokens[canonicalKey(key)] {
			complain("limits.%q: the token is already there", key)
		}
		tokens[canonicalKey(key)] = true
		if !l.isComplete() {
			complain("limits.%q: set paymentMax, organizationMax and overallMax, or unlimited alone", key)
		}
		if l.Unlimited && isMainNetwork(signerID) {
			complain("limits.%q.unlimited: is for local chains and test networks, and signerId %s is a main "+
				"network; set limits", key, signerID)
		}
	}
}

// checkToken checks the name of a token, and returns the signerId of its chain.
func checkToken(key string, chains map[chain.Name]Chain) (signerID string, err error) {
	name, contract, hasContract := strings.Cut(key, ":")
	c, isNamed := chains[chain.Name(name)]
	codec := txcodec.Find(chain.Name(name).Family())
	switch {
	case !hasContract || name == "" || contract == "":
		return "", fmt.Errorf("is not a token such as ETHEREUM:%s or ETHEREUM:0xdac1…", nativeName)
	case !isNamed || codec == nil:
		return "", fmt.Errorf("chains does not name %s", name)
	case contract == nativeName:
	case chain.Name(name).Family() == chain.EVM:
		if !isPinned(contract) {
			err = fmt.Errorf("%q is not a contract address", contract)
		}
	case chain.Name(name).Family() == chain.BitcoinFamily:
		err = fmt.Errorf("there are no tokens on %s", name)
	case !codec.IsCanonical(chain.Address(contract)):
		err = fmt.Errorf("%q is not a contract address in its canonical form", contract)
	}
	return c.SignerID, err
}

// unlimitedSetting returns the setting that removes a limit of a provider; "" if there is none.
func (s Swaps) unlimitedSetting() string {
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		limits := s.Providers[name].Limits
		for _, key := range slices.Sorted(maps.Keys(limits)) {
			if limits[key].Unlimited {
				return fmt.Sprintf("swaps.providers.%s.limits.%q.unlimited", name, key)
			}
		}
	}
	return ""
}
