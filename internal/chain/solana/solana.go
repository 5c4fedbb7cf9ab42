// Package solana is the adapter of Solana. It reads blocks and sends payments through one or more
// JSON-RPC providers, a quorum of which has to agree on what is final.
//
// A block cannot be recomputed from what a provider gives of it, so no single provider is trusted.
// A quorum of providers gives the same hash for a slot and the same block before it, and a quorum
// gives the same contents. Transfers are derived from the balances that a block carries for each
// transaction. A slot without a block is believed when the next block names a parent below it. With
// one configured provider all this is that provider's word.
//
// Blocks come from getBlock. A stream (Yellowstone, Geyser) could feed the same decoder and would
// change nothing of this. Histories of addresses are no evidence of money here. They serve only to
// look up who signed for a nonce account, see nonce_history.go.
//
// Payments have a durable nonce (package solanatx), so none expires and none is ever signed again
// because of time. Their slot is the nonce account with its value. Of a payment and its
// replacements in the same slot at most one is ever mined.
//
// Several payments share a transaction if they go to the account that pays for them, or if that account makes all of
// them; see BatchSize.
//
// The creation of a nonce account is the one exception: it names a recent block, expires, and is
// built again in the slot that is the account's address; see nonce_creation.go.
//
// Build asks no provider and remembers nothing, and a payment lacks three facts.
//   - The program of a token and its decimals are reviewed facts of Config.Mints. Quote refuses a
//     payment if the chain contradicts them. A cache that Quote fills was rejected: after a restart
//     the same input would give an error, or other bytes.
//   - The fees, which are kept with the order, say whether the receiver's token account has to be
//     created: Fees.NonGas has room for its rent only if Quote found none, and Bump keeps that
//     room. Creating it always was rejected: every payment would reserve its rent.
//
// An answer that is missing, short or wrong is an error and never an empty block. The adapter holds
// no key and writes nothing down; a crash loses the hashes of a few blocks.
package solana

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/fifo"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	timeoutDefault        = 15 * time.Second
	answerBytesMaxDefault = 64 << 20 // a full block has ten megabytes
	caip2Chars            = 32       // of the first block's hash
)

// Config is a chain with its providers.
type Config struct {
	Network chain.Network
	// Genesis is the hash of the network's first block. Only a local network may leave it out,
	// because it has a new one each time.
	Genesis   string
	Endpoints []string // URLs, http or https; they may hold a secret and are never printed
	Quorum    int      // how many of the endpoints have to agree on what is final

	// Mints are the tokens that may be paid, by their addresses. They are reviewed facts of the
	// catalogue and never change.
	Mints map[chain.Address]Mint
	// PriceMin and PriceMax bound the price that is offered for a compute unit, in millionths of a
	// lamport; zero: 10,000 and 5,000,000.
	PriceMin, PriceMax uint64
	// CostMax is the most lamports that a transaction may cost, with the rent of a token account
	// that it creates; zero: 10,000,000. A more expensive transaction is not quoted.
	CostMax money.Amount
	// LagMax is how far the final state of a provider may be behind our clock if the provider is to
	// have a say in which nonces are used. Zero: two minutes, and any lag on a local network, whose
	// blocks are made on demand.
	LagMax time.Duration

	Timeout        time.Duration // of one request; zero: 15 seconds
	AnswerBytesMax int64         // of one answer; zero: 64 MiB
}

// validate returns every mistake in the configuration.
func (c Config) validate() error {
	var wrong []error
	addProblem := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if _, err := solanatx.Bytes(chain.Address(c.Genesis)); err != nil && (c.Genesis != "" || c.Network != chain.Local) {
		addProblem("genesis %.60q is not the hash of a network's first block, 32 bytes in base58", c.Genesis)
	}
	if len(c.Endpoints) == 0 {
		addProblem("no endpoint is given")
	}
	for i, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			addProblem("endpoint %d is not an http or https URL", i+1)
		}
		if slices.Contains(c.Endpoints[:i], e) {
			addProblem("endpoint %d is given twice: one provider cannot agree with itself", i+1)
		}
	}
	if c.Quorum < 1 || c.Quorum > len(c.Endpoints) {
		addProblem("agree is %d: it has to be between 1 and the number of endpoints, %d", c.Quorum, len(c.Endpoints))
	}
	for address, m := range c.Mints {
		if _, err := solanatx.ParseMint(string(address)); err != nil {
			addProblem("mint %.60q: %v", string(address), err)
		}
		if m.Program != solanatx.TokenProgram && m.Program != solanatx.Token2022Program {
			addProblem("mint %.60q: %.60q is not a token program", string(address), string(m.Program))
		}
		for _, kind := range m.Allow {
			if !CanAllowExtension(kind) {
				addProblem("mint %.60q: extension %d of Token-2022 cannot be allowed: the amount that arrives could "+
					"differ from the payment",
					string(address), kind)
			}
		}
	}
	if c.PriceMax > priceLimit || c.PriceMin > cmp.Or(c.PriceMax, priceMaxDefault) {
		addProblem("price is %d to %d: the lowest may not be above the highest, and the highest not above %d", c.PriceMin,
			c.PriceMax, uint64(priceLimit))
	}
	if c.LagMax < 0 {
		addProblem("behind is %v: it may not be negative", c.LagMax)
	}
	return errors.Join(wrong...)
}

// Mint holds the facts of a token that a payment needs.
type Mint struct {
	Program  chain.Address // the program that owns it: solanatx.TokenProgram or solanatx.Token2022Program
	Decimals uint8
	// Allow lists the Token-2022 extensions that the mint may have in addition to the harmless
	// ones, by their numbers.
	Allow []uint16
}

// Client is a chain with its providers. It implements chain.Reader and chain.Sender.
type Client struct {
	Config
	providers     []*provider
	firstProvider atomic.Uint32              // the provider that is asked first about what is not final
	finalHashes   fifo.Cache[uint64, string] // the hashes that were agreed on last, by slot
}

var _ chain.Reader = (*Client)(nil)

// New checks the configuration and the providers. A provider of another network is an error.
// Providers that do not answer are an error if fewer than the quorum answer. They are checked when
// they answer later, so the client can be used with chain.ErrTooFewProviders.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", chain.Solana, err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	if cfg.AnswerBytesMax == 0 {
		cfg.AnswerBytesMax = answerBytesMaxDefault
	}
	cfg.PriceMin = cmp.Or(cfg.PriceMin, min(priceMinDefault, cmp.Or(cfg.PriceMax, priceMaxDefault)))
	cfg.PriceMax = cmp.Or(cfg.PriceMax, priceMaxDefault)
	if cfg.CostMax.IsZero() {
		cfg.CostMax = money.Units(costMaxDefault)
	}
	if cfg.LagMax == 0 && cfg.Network != chain.Local {
		cfg.LagMax = lagMaxDefault
	}
	c := &Client{Config: cfg}
	for i := range cfg.Endpoints {
		p, err := newProvider(cfg, i)
		if err != nil {
			return nil, err
		}
		c.providers = append(c.providers, p)
	}
	if err := quorum.HandshakeAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) error {
		return p.ensureHandshake(ctx)
	}); err != nil {
		return c, fmt.Errorf("providers of %s: %w", chain.Solana, err)
	}
	return c, nil
}

// Chain returns the chain with this client as its reader and its sender.
func (c *Client) Chain() chain.Chain {
	id := "localnet" // only Coffer uses this name
	if c.Genesis != "" {
		id = c.Genesis[:min(len(c.Genesis), caip2Chars)]
	}
	return chain.Chain{
		Name: chain.Solana, Network: c.Network, CAIP2: "solana:" + id, SignerID: c.Genesis,
		AddressCodec: solanatx.AddressCodec{}, Reader: c, Sender: c, SeparateFeePayer: true,
		MinBalance: money.Units(solanatx.WalletRent), MinPayment: c, NonceAccounts: c, SlotProver: c,
		TokenAccounts: c, PayeeAccounts: c, Memos: c, Providers: endpoint.StatesOf(c.providers),
	}
}

// Demote makes another provider the first one from now on.
func (c *Client) Demote() { c.firstProvider.Add(1) }

// providersByTrust returns the providers in the order in which they are asked about what is not
// final.
func (c *Client) providersByTrust() []*provider {
	return quorum.Rotate(c.providers, c.firstProvider.Load())
}
