// Package tron is the adapter of TRON. It reads blocks and makes payments through the HTTP
// interface of one or more nodes (java-tron's /wallet and /walletsolidity), of which a
// configured number has to agree on what is final. Final is what nodes call solidified.
//
// It was never run against a real node. It was written by the published sources of
// java-tron, is proven against a scripted fake of its interface (the tests here), and its
// words against blocks and transactions of the public networks. No installation can
// configure it yet: decision 0054 says what is missing.
//
// A block is checked against its identifier: that is the hash of its header, which names
// the block before and the root of its transactions with their signatures and with
// whether each failed. What a transaction did inside contracts (logs, TRX that contracts
// sent, its fee) no header proves, so as many providers as have to agree have to give the
// same. With one provider configured that is its word.
//
// A payment takes one transaction, which nothing replaces and nothing cancels: it is
// mined or it expires (package trontx, decision 0054). Lapsed proves the latter.
//
// An answer that is missing, short or wrong is an error and never an empty block. No key
// is held and nothing is written down; a crash loses what was remembered of some blocks.
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

// Config is a network of TRON with its providers.
type Config struct {
	Network chain.Network
	// Genesis is the identifier of the network's first block. Only a local network may
	// leave it out.
	Genesis   string
	Endpoints []string // URLs before /wallet, http or https; they may hold a secret and are never printed
	Quorum    int      // how many of the endpoints have to agree on what is final

	// Internal says that all endpoints keep internal transactions (java-tron's
	// vm.saveInternalTx, which is off by default): then TRX that contracts send is looked
	// for. No answer tells whether a node does, so it is never assumed.
	Internal bool

	// TxLifetime is how long a payment may be mined after the newest final block of when it was
	// made; zero: ten minutes.
	TxLifetime time.Duration
	// PriceMax is the most sun that is paid for a unit of energy or a byte; zero: 2,000.
	// Above it nothing is quoted.
	PriceMax uint64
	// CostMax is the most sun that a transaction may cost; zero: 100 TRX.
	CostMax money.Amount

	Timeout        time.Duration // of one request; zero: 15 seconds
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
}

// validate finds every mistake in the configuration.
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
		addProblem("life is %v: it has to be between %v and %v", c.TxLifetime, txLifetimeMin, trontx.LifetimeMax-time.Hour)
	}
	if c.PriceMax > priceLimit {
		addProblem("price is %d: it may not be above %d", c.PriceMax, uint64(priceLimit))
	}
	return errors.Join(wrong...)
}

// A Client is the chain with its providers. It implements chain.Reader and chain.Sender.
type Client struct {
	Config
	providers     []*provider
	firstProvider atomic.Uint32 // the provider that is asked first for what is not final
	blockCache    slotCache     // the places that blocks have taken
}

var (
	_ chain.Reader = (*Client)(nil)
	_ chain.Sender = (*Client)(nil)
)

// New checks the configuration and the providers. A provider of another network is an
// error; providers that do not answer are one when fewer than Agree do. Those are checked
// when they answer later.
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
	if err := quorum.HandshakeAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) error { return p.ensureHandshake(ctx) }); err != nil {
		return c, fmt.Errorf("providers of %s: %w", chain.Tron, err)
	}
	return c, nil
}

// Chain is the chain with this client for its reader and its sender.
func (c *Client) Chain() chain.Chain {
	id := "0x00000000" // nobody but us names a local network
	if c.Genesis != "" {
		id = "0x" + c.Genesis[len(c.Genesis)-networkDigits:]
	}
	return chain.Chain{
		Name: chain.Tron, Network: c.Network, CAIP2: "tron:" + id, SignerID: id,
		AddressCodec: trontx.AddressCodec{}, Reader: c, Sender: c,
	}
}

// Demote asks another provider first from now on.
func (c *Client) Demote() { c.firstProvider.Add(1) }

// providersByTrust are the providers in the order in which they are asked for what is not final.
func (c *Client) providersByTrust() []*provider {
	return quorum.Rotate(c.providers, c.firstProvider.Load())
}

// parseBlockID reads the identifier of a block.
func parseBlockID(s string) (id [idBytes]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != idBytes || hex.EncodeToString(b) != s {
		return id, fmt.Errorf("%.70q is no identifier of a block", s)
	}
	return [idBytes]byte(b), nil
}
