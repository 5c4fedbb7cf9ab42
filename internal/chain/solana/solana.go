// Package solana is the adapter of Solana. It reads blocks through one or more
// JSON-RPC providers, of which a configured number has to agree on what is final.
//
// A block cannot be recomputed from what a provider gives of it, so nobody is believed
// alone: the configured number of providers name the same hash for a slot and the same
// block before it, and as many of them give the same contents. What moved is read off
// the balances that a block carries for each transaction. A slot without a block is
// believed when the next block says that it stands on one below it. With one provider
// configured all this is that provider's word.
//
// Blocks come from getBlock. A stream (Yellowstone, Geyser) could feed the same decoder
// and would change nothing of this; histories of addresses are never asked for.
//
// An answer that is missing, short or wrong is an error and never an empty block. No
// key is held and nothing is written down; a crash loses the hashes of a few blocks.
package solana

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

const (
	timeoutDefault        = 15 * time.Second
	answerBytesMaxDefault = 64 << 20 // a full block has ten megabytes
	caip2Chars            = 32       // of the first block's hash
)

// Config is a chain with its providers.
type Config struct {
	Network chain.Network
	// Genesis is the hash of the network's first block. Only a local network may leave
	// it out, which has another one each time.
	Genesis   string
	Endpoints []string // URLs, http or https; they may hold a secret and are never printed
	Agree     int      // how many of the endpoints have to agree on what is final

	Timeout        time.Duration // of one request; zero: 15 seconds
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
}

// check finds every mistake in the configuration.
func (c Config) check() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if _, err := solanatx.Bytes(chain.Address(c.Genesis)); err != nil && (c.Genesis != "" || c.Network != chain.Local) {
		say("genesis %.60q is not the hash of a network's first block, 32 bytes in base58", c.Genesis)
	}
	if len(c.Endpoints) == 0 {
		say("no endpoint is given")
	}
	for i, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			say("endpoint %d is not an http or https URL", i+1)
		}
		if slices.Contains(c.Endpoints[:i], e) {
			say("endpoint %d is given twice: one provider cannot agree with itself", i+1)
		}
	}
	if c.Agree < 1 || c.Agree > len(c.Endpoints) {
		say("agree is %d: it has to be between 1 and the number of endpoints, %d", c.Agree, len(c.Endpoints))
	}
	return errors.Join(wrong...)
}

// A Client is a chain with its providers. It implements chain.Reader.
type Client struct {
	Config
	providers []*provider
	shows     atomic.Uint32 // the provider that is asked first for what is not final
	final     recently      // blocks that were agreed on
}

var _ chain.Reader = (*Client)(nil)

// New checks the configuration and the providers. A provider of another network is an
// error; providers that do not answer are one when fewer than Agree do. Those are
// checked when they answer later.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", chain.Solana, err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	if cfg.AnswerBytesMax == 0 {
		cfg.AnswerBytesMax = answerBytesMaxDefault
	}
	c := &Client{Config: cfg}
	for i := range cfg.Endpoints {
		p, err := newProvider(cfg, i)
		if err != nil {
			return nil, err
		}
		c.providers = append(c.providers, p)
	}
	if err := c.greet(ctx); err != nil {
		return nil, fmt.Errorf("providers of %s: %w", chain.Solana, err)
	}
	return c, nil
}

// Chain is the chain with this client for its reader.
func (c *Client) Chain() chain.Chain {
	id := "localnet" // nobody but us names it
	if c.Genesis != "" {
		id = c.Genesis[:min(len(c.Genesis), caip2Chars)]
	}
	return chain.Chain{
		Name: chain.Solana, Network: c.Network, CAIP2: "solana:" + id, SignerID: id,
		Grammar: solanatx.Grammar{}, Reader: c,
	}
}

func (c *Client) greet(ctx context.Context) error {
	answers := several.Ask(ctx, c.providers, len(c.providers), func(ctx context.Context, p *provider) (struct{}, error) {
		return struct{}{}, p.greet(ctx)
	})
	var wrong, silent []error
	for _, g := range answers {
		var w *wrongNetworkError
		switch {
		case g.Err == nil:
		case errors.As(g.Err, &w):
			wrong = append(wrong, g.Err)
		default:
			silent = append(silent, g.Err)
		}
	}
	if len(wrong) > 0 || len(c.providers)-len(silent) < c.Agree {
		return errors.Join(append(wrong, silent...)...)
	}
	return nil
}

// Distrust asks another provider first from now on.
func (c *Client) Distrust() { c.shows.Add(1) }

// showing are the providers in the order in which they are asked for what is not
// final.
func (c *Client) showing() []*provider { return several.From(c.providers, c.shows.Load()) }
