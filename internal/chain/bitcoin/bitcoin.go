// Package bitcoin is the adapter of Bitcoin. It reads blocks through the RPC of one or more nodes,
// bitcoind or btcd, a quorum of which has to agree on what is final. Servers of Esplora's HTTP
// interface count among the nodes.
//
// The adapter checks a node's answers where it can, and it can check nearly all. It reads a block
// from its bytes: the header gives the hash and shows its proof of work, and the transactions give
// the root in the header. Witnesses are skipped, because that root does not cover them and nothing
// is read from them. Other transactions are checked by their hash. Only balances rest on the word
// of the nodes, of which a quorum has to agree. An answer that is missing, short or wrong is an
// error and never an empty block.
//
// The adapter ignores what is not in a block. It sees no waiting payment, so none that is replaced,
// dropped or sent again in other bytes has to be reverted.
//
// It broadcasts transactions that spend an organization's outputs. The slot of such a transaction
// is the set of its inputs. The slot key contains all that is known of them, so Build and UTXOModel
// ask no node. Whether a slot is used depends on whether a block has spent one of its inputs.
//
// The adapter holds no key and writes nothing down. It caches a few verified blocks in memory, by
// hash, so a crash loses nothing.
package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/fifo"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	timeoutDefault     = 15 * time.Second
	scanTimeoutDefault = 5 * time.Minute
	// A block of four megabytes has eight in hexadecimal, and thirty with the outputs that it
	// spends.
	answerBytesMaxDefault = 64 << 20
	caip2Chars            = 32 // of the first block's hash, as CAIP-2 defines for BIP-122
	blocksCached          = 16
	rewardsCached         = 256
)

// ConfirmationsDefault is the default of Config.Confirmations.
const ConfirmationsDefault = 3

// tiersDefault follows from what a fork of Bitcoin costs its miner: up to 1 BTC, a deposit is worth
// less than the reward of three blocks.
var tiersDefault = chain.Tiers{{Above: money.Units(100_000_000), Depth: 6}}

// Config is a network of Bitcoin with its nodes.
type Config struct {
	Network chain.Network
	// Endpoints are URLs, http or https, with the user and the password in them; they are never
	// printed.
	//   - A node has to keep the index of all transactions: bitcoind with txindex=1; btcd with
	//     txindex and, for balances, addrindex.
	//   - "esplora+https://" (or http) is a server of Esplora's HTTP interface, up to where its
	//     paths begin. There has to be a node too, except on a local network.
	Endpoints []string
	Quorum    int // how many of the endpoints have to agree on what is final
	// Confirmations make a block final: itself and those after it. Zero: 3. It applies to all
	// amounts, to payments and to the organization's outputs.
	Confirmations uint64
	// Tiers are the amounts whose deposits need more confirmations. nil: 6 above 1 BTC.
	Tiers chain.Tiers
	// Genesis is the hash of the first block, for a network that is not the usual one of its kind.
	// The usual TESTNET is testnet4.
	Genesis string

	// RateMin and RateMax bound the fee rate, in satoshi per thousand virtual bytes, independently
	// of the nodes' estimates and of how long a payment waits. Zero: 1000, and 500,000.
	RateMin, RateMax uint64
	// UsualRate is the fee rate of usual times, at which outputs that are not spent now are assumed
	// to be spent later. Zero: 10,000.
	UsualRate uint64
	// ConsolidationRate is the rate, in satoshi per thousand virtual bytes, to which the estimate
	// for a day has to fall before small outputs are consolidated. ConsolidationMin is the number
	// of outputs that this needs. Zero: 2000, and 20. A rate below RateMin consolidates none.
	ConsolidationRate uint64
	ConsolidationMin  int
	// CostMax is the most that one transaction may cost, in satoshi. Zero: 5,000,000.
	CostMax money.Amount
	// Target is the number of blocks within which a payment shall be mined, as nodes estimate it.
	// Zero: 3.
	Target int

	Timeout        time.Duration // of one request; zero: 15 seconds
	ScanTimeout    time.Duration // of a scan of all unspent outputs; zero: 5 minutes
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
}

// validate returns every mistake in the configuration.
func (c Config) validate() error {
	var wrong []error
	addProblem := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if _, err := bitcointx.Params(c.Network); err != nil {
		addProblem("network: %w", err)
	}
	if len(c.Endpoints) == 0 {
		addProblem("no endpoint is given")
	}
	isGiven := map[string]bool{}
	nodes := 0
	for i, e := range c.Endpoints {
		e, esplora := CutEsploraPrefix(e)
		if !esplora {
			nodes++
		}
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			addProblem("endpoint %d is not an http or https URL", i+1)
			continue
		}
		if esplora && u.RawQuery != "" {
			addProblem("endpoint %d is of Esplora and has a query: paths are added to its URL", i+1)
		}
		if isGiven[u.Host+u.Path] {
			addProblem("endpoint %d is given twice: one node cannot agree with itself", i+1)
		}
		isGiven[u.Host+u.Path] = true
	}
	if nodes == 0 && len(c.Endpoints) > 0 && c.Network != chain.Local {
		addProblem("all endpoints are of Esplora: at least one has to be a node")
	}
	if c.Quorum < 1 || c.Quorum > len(c.Endpoints) {
		addProblem("agree is %d: it has to be between 1 and the number of endpoints, %d", c.Quorum, len(c.Endpoints))
	}
	if _, err := chainhash.NewHashFromStr(c.Genesis); c.Genesis != "" &&
		(err != nil || len(c.Genesis) != chainhash.MaxHashStringSize) {
		addProblem("genesis is not the hash of a block")
	}
	if low, high := cmp.Or(c.RateMin, RateMinDefault), cmp.Or(c.RateMax, RateMaxDefault); low > high ||
		high > bitcointx.RateMax {
		addProblem("rates from %d to %d are not from 1 to %d", low, high, bitcointx.RateMax)
	}
	if c.UsualRate > bitcointx.RateMax {
		addProblem("the usual rate %d is above %d", c.UsualRate, bitcointx.RateMax)
	}
	if c.ConsolidationRate > bitcointx.RateMax {
		addProblem("the rate of consolidations %d is above %d", c.ConsolidationRate, bitcointx.RateMax)
	}
	if c.ConsolidationMin < 0 || c.ConsolidationMin == 1 || c.ConsolidationMin > ConsolidationMax {
		addProblem(
			"a consolidation of %d outputs: it has to have between 2 and %d",
			c.ConsolidationMin, ConsolidationMax,
		)
	}
	if c.Target < 0 || c.Target > TargetMax {
		addProblem("a payment shall be mined within %d blocks: it has to be between 1 and %d", c.Target, TargetMax)
	}
	return errors.Join(wrong...)
}

// withDefaults returns the configuration with its bounds of rates and costs.
func (c Config) withDefaults() Config {
	c.RateMin, c.RateMax = cmp.Or(c.RateMin, RateMinDefault), cmp.Or(c.RateMax, RateMaxDefault)
	c.UsualRate, c.Target = cmp.Or(c.UsualRate, UsualRateDefault), cmp.Or(c.Target, TargetDefault)
	c.ConsolidationRate, c.ConsolidationMin =
		cmp.Or(c.ConsolidationRate, ConsolidationRateDefault), cmp.Or(c.ConsolidationMin, ConsolidationMinDefault)
	if c.CostMax.IsZero() {
		c.CostMax = money.Units(CostMaxDefault)
	}
	return c
}

// genesisHash returns the hash of the configured network's first block.
func (c Config) genesisHash(p *chaincfg.Params) string {
	switch {
	case c.Genesis != "":
		return c.Genesis
	case c.Network == chain.Testnet:
		return chaincfg.TestNet4Params.GenesisHash.String()
	}
	return p.GenesisHash.String()
}

// adapter implements chain.Reader and chain.Sender.
type adapter struct {
	Config
	params    *chaincfg.Params
	providers []*provider
	blocks    fifo.Cache[chainhash.Hash, *verifiedBlock] // shared by the walks to the head and to the final block
	// Rewards of miners: each is requested when it is new and when it is a hundred blocks old.
	rewards       fifo.Cache[chainhash.Hash, []chain.Transfer]
	firstProvider atomic.Uint32 // the provider that is asked first about what is not final
}

var _ chain.Reader = (*adapter)(nil)

// New checks the configuration and the nodes and returns the chain. A node of another network is an
// error. Nodes that do not answer are an error if fewer than the quorum answer. They are checked
// when they answer later, so the returned chain can be used with chain.ErrTooFewProviders.
func New(ctx context.Context, cfg Config) (chain.Chain, error) {
	if err := cfg.validate(); err != nil {
		return chain.Chain{}, fmt.Errorf("configuration of %s: %w", chain.Bitcoin, err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	if cfg.ScanTimeout == 0 {
		cfg.ScanTimeout = scanTimeoutDefault
	}
	if cfg.AnswerBytesMax == 0 {
		cfg.AnswerBytesMax = answerBytesMaxDefault
	}
	cfg.Confirmations = cmp.Or(cfg.Confirmations, ConfirmationsDefault)
	if cfg.Tiers == nil {
		cfg.Tiers = tiersDefault
	}
	cfg = cfg.withDefaults()
	p, err := bitcointx.Params(cfg.Network)
	if err != nil {
		return chain.Chain{}, err
	}
	genesis := cfg.genesisHash(p)
	a := &adapter{Config: cfg, params: p}
	for i := range cfg.Endpoints {
		n, err := newProvider(cfg, p, genesis, i)
		if err != nil {
			return chain.Chain{}, err
		}
		a.providers = append(a.providers, n)
	}
	err = quorum.HandshakeAll(ctx, a.providers, a.Quorum, func(ctx context.Context, p *provider) error {
		return p.ensureHandshake(ctx)
	})
	if err != nil {
		err = fmt.Errorf("nodes of %s: %w", chain.Bitcoin, err)
	}
	return chain.Chain{
		Name: chain.Bitcoin, Network: cfg.Network, CAIP2: "bip122:" + genesis[:caip2Chars], SignerID: genesis,
		AddressCodec: bitcointx.AddressCodec{Network: cfg.Network}, Reader: a, Sender: a, UTXO: NewUTXOModel(cfg),
		Consolidator: consolidator{a}, MinPayment: a, SeparateFeePayer: true, Tiers: cfg.Tiers,
		Providers: endpoint.StatesOf(a.providers),
	}, err
}

// Demote makes another provider the first one from now on.
func (a *adapter) Demote() { a.firstProvider.Add(1) }

// providersByTrust returns the providers in the order in which they are asked about what is not
// final.
func (a *adapter) providersByTrust() []*provider {
	return quorum.Rotate(a.providers, a.firstProvider.Load())
}

// finalHeight returns the final height if latest is the newest. The first block is always final.
func (c Config) finalHeight(latest uint64) uint64 {
	if latest < c.Confirmations-1 {
		return 0
	}
	return latest - (c.Confirmations - 1)
}

// Kind always returns KeyAccount: Bitcoin's scripts are conditions on keys.
func (a *adapter) Kind(context.Context, chain.Block, chain.Address) (chain.AccountKind, error) {
	return chain.KeyAccount, nil
}
