// Package evm is the adapter of Ethereum and similar chains. It reads blocks and sends payments
// through one or more JSON-RPC providers, a quorum of which has to agree on what is final.
//
// The adapter checks a provider's answers where it can. It recomputes a block's hash from its
// header, its transactions and receipts from the roots in it, and senders from their signatures.
// Balances and the transfers of calls are what a quorum of providers says. Which accounts a block
// changed is a provider's word, and the caller compares it with the balances. An answer that is
// missing, short or wrong is an error and never an empty block.
//
// The adapter holds no key and writes nothing down. It caches a few verified blocks in memory, by
// hash, so a crash loses nothing.
package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/fifo"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// Tracing says whether the adapter searches for internal transfers of native coin.
type Tracing string

// The tracing modes.
const (
	TraceAuto Tracing = ""    // if a provider offers debug_traceBlockByHash at start
	TraceOn   Tracing = "ON"  // always; without a provider that traces, the chain does not start
	TraceOff  Tracing = "OFF" // never
)

// Finality says which blocks are final.
type Finality struct {
	// Depth is how many blocks behind its head a provider calls a block final. Zero: the provider's
	// own tag "finalized".
	Depth uint64
}

const (
	timeoutDefault        = 15 * time.Second
	answerBytesMaxDefault = 64 << 20
	blockBytesMaxDefault  = 1 << 30 // the receipts of a block of 400 million gas full of logs have 430 MB
	blocksCached          = 16
)

// Config is a chain with its providers.
type Config struct {
	Name      chain.Name
	Network   chain.Network
	ChainID   uint64
	Endpoints []string // URLs, http or https; they may hold a secret and are never printed
	Quorum    int      // how many of the endpoints have to agree on what is final
	// Archives are endpoints of providers that keep the state of every block. They are asked after
	// the others, and only for balances and traces; the quorum is the same.
	Archives []string
	Finality Finality
	FeeCap   money.Amount // wei: the most that is paid per gas, tip included
	TipCap   money.Amount // wei: the most tip per gas that is offered, unless a replacement needs more
	Trace    Tracing
	// PayeeGasMax is the most gas that a payment of native coin may use above what the chain
	// charges for the transaction's own data; zero: PayeeGasDefault.
	PayeeGasMax uint64

	Timeout        time.Duration // of one request; zero: 15 seconds
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
	// BlockBytesMax bounds an answer about a whole block (its transactions, its receipts), which is
	// read as a stream and not held in memory. A longer answer is requested in parts. Zero: 1 GiB.
	BlockBytesMax int64
}

// allEndpoints returns the endpoints, archives last.
func (c Config) allEndpoints() []string { return slices.Concat(c.Endpoints, c.Archives) }

// validate returns every mistake in the configuration.
func (c Config) validate() error {
	var wrong []error
	addProblem := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.Name.Family() != chain.EVM {
		addProblem("name %q is not a chain of the EVM family", c.Name)
	}
	if c.ChainID == 0 {
		addProblem("chain id is missing")
	}
	if len(c.Endpoints) == 0 {
		addProblem("no endpoint is given")
	}
	isGiven := map[string]bool{}
	for i, e := range c.allEndpoints() {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			addProblem("endpoint %d is not an http or https URL", i+1)
		}
		if isGiven[e] {
			addProblem("endpoint %d is given twice: one provider cannot agree with itself", i+1)
		}
		isGiven[e] = true
	}
	if c.Quorum < 1 || c.Quorum > len(c.Endpoints) {
		addProblem("agree is %d: it has to be between 1 and the number of endpoints, %d", c.Quorum, len(c.Endpoints))
	}
	if c.FeeCap.IsZero() {
		addProblem("fee cap is missing: give the highest price per gas, in wei")
	}
	if c.TipCap.IsZero() || c.FeeCap.Less(c.TipCap) {
		addProblem("tip cap is %v: it has to be above zero and at most the fee cap %v", c.TipCap, c.FeeCap)
	}
	if c.PayeeGasMax > PayeeGasLimit {
		addProblem("payee gas is %d: it has to be at most %d", c.PayeeGasMax, uint64(PayeeGasLimit))
	}
	if c.Trace != TraceAuto && c.Trace != TraceOn && c.Trace != TraceOff {
		addProblem("trace is %q: it has to be ON, OFF or nothing", c.Trace)
	}
	return errors.Join(wrong...)
}

// adapter implements chain.Reader and chain.Sender.
type adapter struct {
	Config
	providers []*provider
	archives  []*provider
	signer    types.Signer // recovers senders; it signs nothing
	stack     stack
	// Shared by the walk to the head, the walk to the final block and the outcomes of payments.
	blocks        fifo.Cache[common.Hash, *verifiedBlock]
	firstProvider atomic.Uint32 // the provider that is asked first about what is not final
}

var (
	_ chain.Reader = (*adapter)(nil)
	_ chain.Tracer = (*adapter)(nil)
	_ chain.Sender = (*adapter)(nil)
)

// New checks the configuration and the providers and returns the chain. A provider of another chain
// is an error. Providers that do not answer are an error if fewer than the quorum answer. They are
// checked when they answer later, so the returned chain can be used with chain.ErrTooFewProviders.
func New(ctx context.Context, cfg Config) (chain.Chain, error) {
	if err := cfg.validate(); err != nil {
		return chain.Chain{}, fmt.Errorf("configuration of %s: %w", cfg.Name, err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	if cfg.AnswerBytesMax == 0 {
		cfg.AnswerBytesMax = answerBytesMaxDefault
	}
	if cfg.PayeeGasMax == 0 {
		cfg.PayeeGasMax = PayeeGasDefault
	}
	if cfg.BlockBytesMax == 0 {
		cfg.BlockBytesMax = blockBytesMaxDefault
	}
	a := &adapter{
		Config: cfg, stack: stackFor(cfg.Name),
		signer: types.LatestSignerForChainID(new(big.Int).SetUint64(cfg.ChainID)),
	}
	for i := range cfg.allEndpoints() {
		p, err := newProvider(cfg, i)
		if err != nil {
			return chain.Chain{}, err
		}
		a.providers = append(a.providers, p)
	}
	a.providers, a.archives = a.providers[:len(cfg.Endpoints):len(cfg.Endpoints)], a.providers[len(cfg.Endpoints):]
	err := a.handshakeAll(ctx)
	if err != nil {
		err = fmt.Errorf("providers of %s: %w", cfg.Name, err)
	}
	id := strconv.FormatUint(cfg.ChainID, 10)
	return chain.Chain{
		Name: cfg.Name, Network: cfg.Network, CAIP2: "eip155:" + id, SignerID: id,
		AddressCodec: evmtx.AddressCodec{ChainID: cfg.ChainID}, Reader: a, Sender: a,
		PayoutContract: payoutContract{a},
		SeesInternal:   func() bool { return len(a.tracingProviders()) > 0 },
		Providers:      endpoint.StatesOf(a.withArchives()),
	}, err
}

// withArchives returns all providers that may be asked for balances and traces, archives last.
func (a *adapter) withArchives() []*provider { return slices.Concat(a.providers, a.archives) }

func (a *adapter) handshakeAll(ctx context.Context) error {
	if err := quorum.HandshakeAll(ctx, a.providers, a.Quorum, func(ctx context.Context, p *provider) error {
		return p.ensureHandshake(ctx)
	}, a.archives...); err != nil {
		return err
	}
	if a.Trace != TraceOn {
		return nil
	}
	able, err := quorum.FirstAnswer(ctx, a.withArchives(), func(ctx context.Context, p *provider) (bool, error) {
		able, err := p.offersTraces(ctx)
		if err == nil && !able {
			err = fmt.Errorf("%s: does not offer %s", p.name, traceBlockMethod)
		}
		return able, err
	})
	if !able {
		return fmt.Errorf("trace is ON: use a provider that offers %s or set trace to OFF: %w", traceBlockMethod, err)
	}
	return nil
}

func block(h *types.Header, hash common.Hash) chain.Block {
	return chain.Block{
		Height: h.Number.Uint64(),
		Hash:   hash.Hex(),
		Parent: h.ParentHash.Hex(),
		Time:   time.Unix(int64(h.Time), 0).UTC(),
	}
}
