package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
)

// Chain configures one chain. Settings of one family are refused for the others.
type Chain struct {
	ChainID       uint64   `toml:"chain_id,omitempty" comment:"of EVM chains"`
	Genesis       string   `toml:"genesis,omitempty" comment:"SOLANA, BITCOIN: hash of the first block; default: that of the network"`
	Endpoints     []string `toml:"endpoints,omitempty" comment:"JSON-RPC URLs, on BITCOIN also of Esplora as esplora+https://…; or endpoints_file, one per line"`
	EndpointsFile string   `toml:"endpoints_file,omitempty"`
	Archives      []string `toml:"archives,omitempty" comment:"further JSON-RPC URLs that keep the state of every block, for balances and traces of old blocks; or archives_file"`
	ArchivesFile  string   `toml:"archives_file,omitempty"`
	Agree         int      `toml:"agree" comment:"how many endpoints must agree on a final block"`
	Depth         uint64   `toml:"depth,omitempty" comment:"blocks until final, for a chain without the finalized tag; 0 uses the tag, on BITCOIN 3"`
	Tiers         []Tier   `toml:"tiers,omitempty" comment:"BITCOIN: amounts whose deposits need more than depth; default: 6 above 1 BTC, [] for none"`
	FeeCap        string   `toml:"fee_cap,omitempty" comment:"highest price per gas, in wei"`
	TipCap        string   `toml:"tip_cap,omitempty" comment:"highest tip per gas, in wei; 3 gwei"`
	PayeeGasMax   uint64   `toml:"payee_gas_max,omitempty" comment:"most gas that a contract may use when it receives native coin, in addition to the gas for the transaction's data; 100000"`
	PriceMax      uint64   `toml:"price_max,omitempty" comment:"SOLANA: highest price of a compute unit, in millionths of a lamport; 5000000"`
	CostMax       string   `toml:"cost_max,omitempty" comment:"highest cost of a transaction; SOLANA: in lamports, 10000000; BITCOIN: in satoshi, 5000000"`
	CloseIdle     string   `toml:"close_idle_after,omitempty" comment:"SOLANA: a token account that received nothing for this long is closed for its rent; 720h, 0s never"`
	RateMin       uint64   `toml:"rate_min,omitempty" comment:"BITCOIN: lowest fee rate, in satoshi per thousand virtual bytes; 1000"`
	RateMax       uint64   `toml:"rate_max,omitempty" comment:"BITCOIN: highest fee rate; 500000"`
	RateUsual     uint64   `toml:"rate_usual,omitempty" comment:"BITCOIN: usual fee rate, for coin selection; 10000"`
	MergeRate     uint64   `toml:"merge_rate,omitempty" comment:"BITCOIN: small outputs are consolidated while the nodes expect no higher rate for a day; 2000, and below rate_min never"`
	MergeFrom     int      `toml:"merge_from,omitempty" comment:"BITCOIN: least number of small outputs for a consolidation; 20"`
	Target        int      `toml:"target,omitempty" comment:"BITCOIN: number of blocks within which a payment shall be mined; 3"`
	Addresses     string   `toml:"addresses,omitempty" comment:"BITCOIN: form of new deposit addresses, segwit or taproot; segwit. Existing addresses stay as they are"`
	StartHeight   uint64   `toml:"start_height,omitempty" comment:"first block to read; 0 begins at the final block of the first start"`
	InFlightMax   int      `toml:"in_flight_max,omitempty" comment:"transactions of one wallet that are not final; 1024"`
	UnminedMax    int      `toml:"unmined_max,omitempty" comment:"of them in no block; 16, which every node keeps per account"`
	Trace         string   `toml:"trace,omitempty" comment:"auto, on or off: whether to look for native coin that contracts move"`
}

// Tier is an amount above which deposits wait for more blocks.
type Tier struct {
	AmountAbove string `toml:"above" comment:"satoshi"`
	Depth       uint64 `toml:"depth" comment:"blocks: the block of the deposit and those after it"`
}

// confirmationTiers returns the configured tiers of a checked configuration, or nil if there are
// none.
func (ch Chain) confirmationTiers() chain.Tiers {
	if ch.Tiers == nil {
		return nil
	}
	tiers := chain.Tiers{}
	for _, t := range ch.Tiers {
		tiers = append(tiers, chain.Tier{Above: money.MustParse(t.AmountAbove), Depth: t.Depth})
	}
	return tiers
}

// addressForms are the values of Addresses.
var addressForms = map[string]chain.Form{"": chain.Usual, "segwit": chain.Usual, "taproot": chain.Taproot}

const (
	// tipCapDefault is enough for the next blocks of every known chain.
	tipCapDefault = "3000000000"
	// solanaCostMax is in lamports: a cent for each dollar that a SOL costs.
	solanaCostMax = "10000000"
	caip2Chars    = 32 // of the first block's hash
	// closeIdleDefault is how long a token account is idle before it is closed. closeIdleMin is the
	// least that is not a mistake, since a customer may pay in twice a day.
	closeIdleDefault, closeIdleMin = 30 * 24 * time.Hour, 24 * time.Hour
)

// closeIdle returns CloseIdle of a checked configuration.
func (ch Chain) closeIdle() time.Duration {
	if d, err := time.ParseDuration(ch.CloseIdle); err == nil {
		return d
	}
	return closeIdleDefault
}

func (ch Chain) tipCap() money.Amount {
	return money.MustParse(cmp.Or(ch.TipCap, tipCapDefault))
}

// costMax returns the maximum cost of a transaction on a chain without gas.
func (ch Chain) costMax(name chain.Name) money.Amount {
	if ch.CostMax == "" && name.Family() == chain.BitcoinFamily {
		return money.Units(bitcoin.CostMaxDefault)
	}
	return money.MustParse(cmp.Or(ch.CostMax, solanaCostMax))
}

// bitcoinConfig returns the configuration of the Bitcoin adapter.
func (c Config) bitcoinConfig(name chain.Name) bitcoin.Config {
	ch := c.Chains[name]
	return bitcoin.Config{
		Network: c.Network, Genesis: c.genesisHash(name), Endpoints: ch.Endpoints, Quorum: ch.Agree,
		Confirmations: ch.Depth, Tiers: ch.confirmationTiers(),
		RateMin: ch.RateMin, RateMax: ch.RateMax, UsualRate: ch.RateUsual, CostMax: ch.costMax(name), Target: ch.Target,
		ConsolidationRate: ch.MergeRate, ConsolidationMin: ch.MergeFrom,
	}
}

// genesisHash returns the hash of the first block of a chain without a chain id: the configured
// one, or that of the known network of this name. It returns "" for a network without a known one.
func (c Config) genesisHash(name chain.Name) string {
	if set := c.Chains[name].Genesis; set != "" {
		return set
	}
	if n, ok := catalogue.Find(c.Network, name); ok {
		return n.Genesis
	}
	if p, err := bitcointx.Params(c.Network); err == nil && name == chain.Bitcoin {
		return p.GenesisHash.String()
	}
	return ""
}

// signerID returns the network of a chain as the signer's policy names it.
func (c Config) signerID(name chain.Name) string {
	if name.Family() == chain.EVM {
		return strconv.FormatUint(c.Chains[name].ChainID, 10)
	}
	return c.genesisHash(name)
}

// knownNetwork returns the network of a chain in the built-in list.
func (c Config) knownNetwork(name chain.Name) (catalogue.Network, bool) {
	if name.Family() == chain.EVM {
		return catalogue.ByChainID(c.Chains[name].ChainID)
	}
	return catalogue.ByGenesis(c.genesisHash(name))
}

// addressCodec returns the codec for addresses of a chain, which needs no provider. It returns nil
// for a chain that this version does not support.
func (c Config) addressCodec(name chain.Name) chain.AddressCodec {
	switch name.Family() {
	case chain.EVM:
		return evmtx.AddressCodec{ChainID: c.Chains[name].ChainID}
	case chain.SolanaFamily:
		return solanatx.AddressCodec{}
	case chain.BitcoinFamily:
		return bitcointx.AddressCodec{Network: c.Network}
	}
	return nil
}

// openChain opens the adapter of a chain.
func (c Config) openChain(ctx context.Context, name chain.Name) (chain.Chain, error) {
	ch := c.Chains[name]
	switch name.Family() {
	case chain.SolanaFamily:
		client, err := solana.New(ctx, solana.Config{
			Network: c.Network, Genesis: c.genesisHash(name), Endpoints: ch.Endpoints, Quorum: ch.Agree,
			Mints: c.solanaMints(), PriceMax: ch.PriceMax, CostMax: ch.costMax(name),
		})
		if client == nil {
			return chain.Chain{}, err
		}
		return client.Chain(), err
	case chain.BitcoinFamily:
		return bitcoin.New(ctx, c.bitcoinConfig(name))
	}
	trace := map[string]evm.Tracing{
		"": evm.TraceAuto, "auto": evm.TraceAuto, "on": evm.TraceOn, "off": evm.TraceOff,
	}[ch.Trace]
	return evm.New(ctx, evm.Config{
		Name: name, Network: c.Network, ChainID: ch.ChainID, Endpoints: ch.Endpoints, Quorum: ch.Agree,
		Archives: ch.Archives,
		Finality: evm.Finality{Depth: ch.Depth}, FeeCap: money.MustParse(ch.FeeCap), TipCap: ch.tipCap(), Trace: trace,
		PayeeGasMax: ch.PayeeGasMax,
	})
}

// offlineChain returns a chain without endpoints. It handles addresses completely and asks no
// provider.
func (c Config) offlineChain(name chain.Name) chain.Chain {
	client := offlineClient{fmt.Errorf("this process has no endpoint of %s", name)}
	id := c.signerID(name)
	offline := chain.Chain{
		Name: name, Network: c.Network, CAIP2: "eip155:" + id, SignerID: id, AddressCodec: c.addressCodec(name),
		Reader: client, Sender: client,
	}
	switch name.Family() {
	case chain.SolanaFamily:
		offline.CAIP2, offline.SeparateFeePayer, offline.MinBalance = "solana:"+id[:min(len(id), caip2Chars)], true,
			money.Units(solanatx.WalletRent)
	case chain.BitcoinFamily:
		offline.CAIP2, offline.SeparateFeePayer, offline.UTXO = "bip122:"+id[:min(len(id), caip2Chars)], true,
			bitcoin.NewUTXOModel(c.bitcoinConfig(name))
	}
	return offline
}

// token2022 is the value of Mint.Program for tokens of the newer of Solana's two token programs.
const token2022 = "TOKEN_2022"

// solanaMints returns the reviewed facts about Solana's tokens, from a checked configuration.
func (c Config) solanaMints() map[chain.Address]solana.Mint {
	mints := map[chain.Address]solana.Mint{}
	for _, m := range c.Mints {
		if m.Chain != chain.Solana || m.Contract == "" {
			continue
		}
		program := solanatx.TokenProgram
		if m.Program == token2022 {
			program = solanatx.Token2022Program
		}
		mints[chain.Address(m.Contract)] = solana.Mint{
			Program: program, Decimals: uint8(m.Decimals), Allow: m.Extensions,
		}
	}
	return mints
}

// checkChain checks the settings of a chain; asksChains says whether this process asks its
// providers.
func (ch Chain) checkChain(path string, name chain.Name, asksChains bool, errs *configErrors) {
	ch.checkFamily(path, name.Family(), errs)
	ch.checkEndpoints(path, name.Family(), asksChains, errs)
	ch.checkInFlight(path, errs)
	switch name.Family() {
	case chain.EVM:
		ch.checkEVM(path, errs)
	case chain.SolanaFamily:
		if n, err := money.Parse(cmp.Or(ch.CostMax, solanaCostMax)); err != nil || n.IsZero() {
			errs.addProblem(path+".cost_max", "%q is not a number of lamports above 0; 0.01 SOL is \"10000000\"",
				ch.CostMax)
		} else if n.Less(money.Units(solanaCostMin)) {
			errs.addProblem(
				path+".cost_max",
				"is %s lamports; a payment that creates its payee's token account costs %d, and the service's own "+
					"accounts cost half of that: set it to more, 0.01 SOL is \"10000000\"",
				ch.CostMax, uint64(solanaCostMin),
			)
		}
		if d, err := time.ParseDuration(ch.CloseIdle); ch.CloseIdle != "" &&
			(err != nil || d != 0 && d < closeIdleMin) {
			errs.addProblem(
				path+".close_idle_after",
				"%q is not a duration of at least %v; a month is \"720h\", and \"0s\" closes no account", ch.CloseIdle,
				closeIdleMin,
			)
		}
		if ch.PriceMax > solanaPriceLimit {
			errs.addProblem(path+".price_max", "is %d; it is in millionths of a lamport per compute unit, at most %d",
				ch.PriceMax, uint64(solanaPriceLimit))
		}
	case chain.BitcoinFamily:
		if ch.Depth > bitcoinDepthLimit {
			errs.addProblem(
				path+".depth", "is %d; set the number of blocks that make a payment final, the block itself "+
					"included, at most %d",
				ch.Depth, bitcoinDepthLimit,
			)
		}
		ch.checkTiers(path, errs)
		if ch.StartHeight == 1 {
			errs.addProblem(path+".start_height",
				"is 1; the first block does not have its height in it: set a later block, or 0")
		}
		ch.checkRates(path, errs)
		if _, listed := addressForms[ch.Addresses]; !listed {
			errs.addProblem(path+".addresses", "is %q; set it to segwit or taproot", ch.Addresses)
		}
	default:
		errs.addProblem(path, "is not a chain that this version runs")
	}
}

// inFlightLimit is the number of transactions of one wallet that a round of dispatch reads.
const inFlightLimit = 8192

// checkInFlight checks how many transactions of a wallet may be in flight.
func (ch Chain) checkInFlight(path string, errs *configErrors) {
	if ch.InFlightMax < 0 || ch.InFlightMax > inFlightLimit {
		errs.addProblem(
			path+".in_flight_max", "is %d; set how many transactions of one wallet may wait for finality, at most %d",
			ch.InFlightMax, inFlightLimit,
		)
	}
	if limit := cmp.Or(ch.InFlightMax, dispatch.InFlightDefault); ch.UnminedMax < 0 || ch.UnminedMax > limit {
		errs.addProblem(
			path+".unmined_max",
			"is %d; set how many transactions of one wallet may be in no block, at most in_flight_max, %d",
			ch.UnminedMax, limit,
		)
	}
}

// checkTiers finds misleading tiers: a larger amount that waits for fewer blocks, or a tier that
// waits for no more than every amount does.
func (ch Chain) checkTiers(path string, errs *configErrors) {
	amountBelow, depth := money.Zero, cmp.Or(ch.Depth, bitcoin.ConfirmationsDefault)
	for i, t := range ch.Tiers {
		path := fmt.Sprintf("%s.tiers[%d]", path, i)
		n, err := money.Parse(t.AmountAbove)
		switch {
		case err != nil:
			errs.addProblem(path+".above", "%q is not a number of satoshi; 1 BTC is \"100000000\"", t.AmountAbove)
		case !amountBelow.Less(n):
			errs.addProblem(path+".above", "is %s; set each to more than the one before, the first above 0",
				t.AmountAbove)
		}
		if t.Depth <= depth || t.Depth > bitcoinDepthLimit {
			errs.addProblem(
				path+".depth",
				"is %d; set it to more than the one before it, the first to more than depth, and to %d at most",
				t.Depth, bitcoinDepthLimit,
			)
		}
		amountBelow, depth = n, t.Depth
	}
}

// checkRates checks the limits on the cost of Bitcoin's payments.
func (ch Chain) checkRates(path string, errs *configErrors) {
	if n, err := money.Parse(ch.CostMax); ch.CostMax != "" && (err != nil || n.IsZero()) {
		errs.addProblem(path+".cost_max", "%q is not a number of satoshi above 0; 0.002 BTC is \"200000\"", ch.CostMax)
	}
	low, high := cmp.Or(ch.RateMin, bitcoin.RateMinDefault), cmp.Or(ch.RateMax, bitcoin.RateMaxDefault)
	if high > bitcointx.RateMax {
		errs.addProblem(path+".rate_max", "is %d; it is in satoshi per thousand virtual bytes, at most %d", high,
			bitcointx.RateMax)
	}
	if low > high {
		errs.addProblem(path+".rate_min", "is %d, more than rate_max, %d; lower the one or raise the other", low, high)
	}
	if ch.RateUsual > bitcointx.RateMax {
		errs.addProblem(path+".rate_usual", "is %d; it is in satoshi per thousand virtual bytes, at most %d",
			ch.RateUsual, bitcointx.RateMax)
	}
	if ch.MergeRate > bitcointx.RateMax {
		errs.addProblem(path+".merge_rate", "is %d; it is in satoshi per thousand virtual bytes, at most %d",
			ch.MergeRate, bitcointx.RateMax)
	}
	if ch.MergeFrom < 0 || ch.MergeFrom == 1 || ch.MergeFrom > bitcoin.ConsolidationMax {
		errs.addProblem(path+".merge_from", "is %d; set from how many outputs on a consolidation is worth it, from 2 "+
			"to %d",
			ch.MergeFrom, bitcoin.ConsolidationMax)
	}
	if ch.Target < 0 || ch.Target > bitcoin.TargetMax {
		errs.addProblem(path+".target", "is %d; set the number of blocks within which a payment shall be mined, at "+
			"most %d",
			ch.Target, bitcoin.TargetMax)
	}
}

const (
	// A price of a lamport or more for each compute unit is a mistake.
	solanaPriceLimit = 1_000_000_000_000
	// solanaCostMin is the rent of the largest account that a payment creates, plus the fee of two
	// signatures. A nonce account costs less.
	solanaCostMin     = solanatx.Token2022AccountRent + 2*5_000
	bitcoinDepthLimit = 1000
)

// checkFamily finds settings that a chain's family does not have. Without effect, such a setting
// would look as if it applied.
func (ch Chain) checkFamily(path string, family chain.Family, errs *configErrors) {
	nonEVM := []chain.Family{chain.SolanaFamily, chain.BitcoinFamily}
	for setting, s := range map[string]struct {
		set bool
		of  []chain.Family
	}{
		"chain_id":         {ch.ChainID != 0, []chain.Family{chain.EVM}},
		"archives":         {len(ch.Archives) > 0, []chain.Family{chain.EVM}},
		"archives_file":    {ch.ArchivesFile != "", []chain.Family{chain.EVM}},
		"fee_cap":          {ch.FeeCap != "", []chain.Family{chain.EVM}},
		"tip_cap":          {ch.TipCap != "", []chain.Family{chain.EVM}},
		"payee_gas_max":    {ch.PayeeGasMax != 0, []chain.Family{chain.EVM}},
		"trace":            {ch.Trace != "", []chain.Family{chain.EVM}},
		"depth":            {ch.Depth != 0, []chain.Family{chain.EVM, chain.BitcoinFamily}},
		"tiers":            {ch.Tiers != nil, []chain.Family{chain.BitcoinFamily}},
		"genesis":          {ch.Genesis != "", nonEVM},
		"price_max":        {ch.PriceMax != 0, []chain.Family{chain.SolanaFamily}},
		"cost_max":         {ch.CostMax != "", nonEVM},
		"close_idle_after": {ch.CloseIdle != "", []chain.Family{chain.SolanaFamily}},
		"rate_min":         {ch.RateMin != 0, []chain.Family{chain.BitcoinFamily}},
		"rate_max":         {ch.RateMax != 0, []chain.Family{chain.BitcoinFamily}},
		"rate_usual":       {ch.RateUsual != 0, []chain.Family{chain.BitcoinFamily}},
		"merge_rate":       {ch.MergeRate != 0, []chain.Family{chain.BitcoinFamily}},
		"merge_from":       {ch.MergeFrom != 0, []chain.Family{chain.BitcoinFamily}},
		"target":           {ch.Target != 0, []chain.Family{chain.BitcoinFamily}},
		"addresses":        {ch.Addresses != "", []chain.Family{chain.BitcoinFamily}},
	} {
		if s.set && family != "" && !slices.Contains(s.of, family) {
			errs.addProblem(path+"."+setting, "does not apply to this chain, only to chains of the family %v; remove "+
				"it",
				s.of)
		}
	}
}

func (ch Chain) checkEndpoints(path string, family chain.Family, asksChains bool, errs *configErrors) {
	if unread := len(ch.Endpoints) == 0 && (ch.EndpointsFile != "" || !asksChains); !unread {
		if len(ch.Endpoints) == 0 {
			errs.addProblem(path+".endpoints", "is empty; name at least one JSON-RPC URL")
		}
		if ch.Agree < 1 || ch.Agree > len(ch.Endpoints) {
			errs.addProblem(path+".agree", "is %d with %d endpoints; set it between 1 and their number", ch.Agree,
				len(ch.Endpoints))
		}
	}
	urls := slices.Concat(ch.Endpoints, ch.Archives)
	nodes := len(urls)
	for i, e := range urls {
		setting := path + ".endpoints"
		if i >= len(ch.Endpoints) {
			setting = path + ".archives"
		}
		if slices.Contains(urls[:i], e) {
			errs.addProblem(setting, "contains one of them twice; a provider cannot agree with itself")
		}
		if nodeURL, esplora := bitcoin.CutEsploraPrefix(e); esplora && family == chain.BitcoinFamily {
			e = nodeURL
			nodes--
		}
		// The URL may contain a provider's key, so the error does not repeat it.
		if u, err := url.Parse(e); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs.addProblem(setting, "contains an address that is not an http or https URL")
		}
	}
	if nodes == 0 && len(urls) > 0 {
		errs.addProblem(path+".endpoints", "contains only Esplora; add at least one node")
	}
}

func (ch Chain) checkEVM(path string, errs *configErrors) {
	if ch.ChainID == 0 {
		errs.addProblem(path+".chain_id", "is missing; Ethereum's main network is 1")
	}
	feeCap, err := money.Parse(ch.FeeCap)
	if err != nil || feeCap.IsZero() {
		errs.addProblem(path+".fee_cap", "%q is not a number of wei per gas; 200 gwei is \"200000000000\"", ch.FeeCap)
	}
	tip := cmp.Or(ch.TipCap, tipCapDefault)
	if n, tipErr := money.Parse(tip); tipErr != nil || n.IsZero() {
		errs.addProblem(path+".tip_cap", "%q is not a number of wei per gas above 0", ch.TipCap)
	} else if err == nil && feeCap.Less(n) {
		errs.addProblem(path+".tip_cap", "%s is more than fee_cap, %s; lower the one or raise the other", tip,
			ch.FeeCap)
	}
	if ch.PayeeGasMax > evm.PayeeGasLimit {
		errs.addProblem(path+".payee_gas_max", "is %d; it is at most %d, and no payment of native coin needs more",
			ch.PayeeGasMax, uint64(evm.PayeeGasLimit))
	}
	if !slices.Contains([]string{"", "auto", "on", "off"}, ch.Trace) {
		errs.addProblem(path+".trace", "is %q; set it to auto, on or off", ch.Trace)
	}
}

// checkGenesis compares first blocks with the built-in list, for the reason of checkNetworks.
func (c Config) checkGenesis(name chain.Name, errs *configErrors) {
	path, hash := "chains."+string(name)+".genesis", c.genesisHash(name)
	known, listed := catalogue.Find(c.Network, name)
	real, ok := catalogue.ByGenesis(hash)
	switch {
	case hash == "":
		errs.addProblem(
			path, "is missing; set it to the hash of the network's first block, by a node's getGenesisHash",
		)
	case !validGenesis(name, hash):
		errs.addProblem(path, "%.80q is not the hash of a first block of this chain", hash)
	case c.Network == chain.Mainnet && listed && hash != known.Genesis:
		errs.addProblem(path, "is %s; the first block of %s is %s", hash, known.Name, known.Genesis)
	case (c.Network == chain.Testnet || c.Network == chain.Local) && ok && real.Network == chain.Mainnet:
		errs.addProblem(path, "is that of %s, while network is %s; set network to MAINNET or use a test network",
			real.Name, c.Network)
	}
}

func validGenesis(name chain.Name, hash string) bool {
	if name == chain.Bitcoin {
		return isBlockHash(hash)
	}
	_, err := solanatx.Bytes(chain.Address(hash))
	return err == nil
}

// isBlockHash reports whether a text is 32 bytes in lower-case hexadecimal.
func isBlockHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && hex.EncodeToString(b) == s
}
