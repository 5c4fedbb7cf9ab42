// Package tron adapts TRON to the ports Reader and Sender. It reads blocks and makes payments
// through the HTTP interface of one or more nodes (java-tron's /wallet and /walletsolidity). A
// configured number of them has to agree on what is final. A final block is one that nodes call
// solidified.
//
// It was never run against a real node. It follows the published sources of java-tron. Its tests
// run it against a scripted fake of that interface and check its encoding against blocks and
// transactions of the public networks. No installation can configure it yet: decision 0054 says
// what is missing.
//
// The adapter checks a block against its identifier, which is the hash of its header. The header
// names the parent block and the root of the transactions with their signatures, and with whether
// each one failed. No header proves what a transaction did inside contracts: logs, TRX that
// contracts sent, and its fee. So the quorum of providers has to give the same results. With one
// provider configured, that provider is believed.
//
// A payment takes one transaction, which cannot be replaced or cancelled: it is mined or it expires
// (package trontx, decision 0054). ProveExpired proves the latter.
//
// An answer that is missing, short or wrong is an error and never an empty block. The adapter has
// no keys and stores nothing; a crash loses only its cache of blocks.
package tron

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	timeoutDefault        = 15 * time.Second
	answerBytesMaxDefault = 64 << 20
	txLifetimeDefault     = 10 * time.Minute
	txLifetimeMin         = 5 * time.Minute // a final block is a minute old already
	priceMaxDefault       = 2_000
	costMaxDefault        = 100_000_000 // sun
	idBytes               = 32
	networkDigits         = 8 // of the end of the first block's identifier, in CAIP-2
)

// Config describes a network of TRON and its providers.
type Config struct {
	Network chain.Network
	// Genesis is the identifier of the network's first block. Only a local network may leave it
	// out.
	Genesis   string
	Endpoints []string // URLs before /wallet, http or https; they may hold a secret and are never printed
	Quorum    int      // how many of the endpoints have to agree on what is final

	// Internal says that all endpoints store internal transactions (java-tron's vm.saveInternalTx,
	// which is off by default). The adapter then looks for TRX that contracts send. No answer shows
	// whether a node stores them, so the adapter never assumes it.
	Internal bool

	// TxLifetime is the time after the newest final block in which a payment may be mined, counted
	// from the block that was final when the payment was built; zero: ten minutes.
	TxLifetime time.Duration
	// PriceMax is the most sun that a unit of energy or a byte may cost; zero: 2,000. Above it the
	// adapter quotes nothing.
	PriceMax uint64
	// CostMax is the most sun that a transaction may cost; zero: 100 TRX.
	CostMax money.Amount

	Timeout        time.Duration // of one request; zero: 15 seconds
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
}

// validate returns every mistake in the configuration.
func (c Config) validate() error {
	var wrong []error
	addProblem := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if _, err := parseBlockID(c.Genesis); err != nil && (c.Genesis != "" || c.Network != chain.Local) {
		addProblem("genesis %.70q is not the identifier of a network's first block, 64 hexadecimal digits", c.Genesis)
	}
	if len(c.Endpoints) == 0 {
		addProblem("no endpoint is given")
	}
	for i, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
			addProblem("endpoint %d is not an http or https URL", i+1)
		}
		if slices.Contains(c.Endpoints[:i], e) {
			addProblem("endpoint %d is given twice: one provider cannot agree with itself", i+1)
		}
	}
	if c.Quorum < 1 || c.Quorum > len(c.Endpoints) {
		addProblem("agree is %d: it has to be between 1 and the number of endpoints, %d", c.Quorum, len(c.Endpoints))
	}
	if c.TxLifetime != 0 && (c.TxLifetime < txLifetimeMin || c.TxLifetime > trontx.LifetimeMax-time.Hour) {
		addProblem(
			"life is %v: it has to be between %v and %v", c.TxLifetime, txLifetimeMin, trontx.LifetimeMax-time.Hour,
		)
	}
	if c.PriceMax > priceLimit {
		addProblem("price is %d: it may not be above %d", c.PriceMax, uint64(priceLimit))
	}
	return errors.Join(wrong...)
}

// Client is the chain with its providers. It implements chain.Reader and chain.Sender.
type Client struct {
	Config
	providers     []*provider
	firstProvider atomic.Uint32 // provider that is asked first for blocks that are not final
	blockCache    slotCache     // blocks with the slots that their transactions take
}

var (
	_ chain.Reader = (*Client)(nil)
	_ chain.Sender = (*Client)(nil)
)

// New checks the configuration and the providers. It returns an error for a provider of another
// network, and when fewer providers than the quorum answer. A provider that does not answer is
// checked when it answers later.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", chain.Tron, err)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, timeoutDefault)
	cfg.AnswerBytesMax = cmp.Or(cfg.AnswerBytesMax, answerBytesMaxDefault)
	cfg.TxLifetime = cmp.Or(cfg.TxLifetime, txLifetimeDefault)
	cfg.PriceMax = cmp.Or(cfg.PriceMax, priceMaxDefault)
	if cfg.CostMax.IsZero() {
		cfg.CostMax = money.Units(costMaxDefault)
	}
	c := &Client{Config: cfg}
	for i := range cfg.Endpoints {
		p, err := newProvider(cfg, i)
		if err != nil {
			return nil, err
		}
		c.providers = append(c.providers, p)
	}
	if err := quorum.HandshakeAll(
		ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) error { return p.ensureHandshake(ctx) },
	); err != nil {
		return c, fmt.Errorf("providers of %s: %w", chain.Tron, err)
	}
	return c, nil
}

// Chain returns the chain with this client as its reader and its sender.
func (c *Client) Chain() chain.Chain {
	id := "0x00000000" // only Coffer names a local network
	if c.Genesis != "" {
		id = "0x" + c.Genesis[len(c.Genesis)-networkDigits:]
	}
	return chain.Chain{
		Name: chain.Tron, Network: c.Network, CAIP2: "tron:" + id, SignerID: id,
		AddressCodec: trontx.AddressCodec{}, Reader: c, Sender: c,
	}
}

// Demote makes another provider the first that is asked.
func (c *Client) Demote() { c.firstProvider.Add(1) }

// providersByTrust returns the providers in the order in which they are asked for blocks that are
// not final.
func (c *Client) providersByTrust() []*provider {
	return quorum.Rotate(c.providers, c.firstProvider.Load())
}

// parseBlockID parses the identifier of a block.
func parseBlockID(s string) (id [idBytes]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != idBytes || hex.EncodeToString(b) != s {
		return id, fmt.Errorf("%.70q is not an identifier of a block", s)
	}
	return [idBytes]byte(b), nil
}
