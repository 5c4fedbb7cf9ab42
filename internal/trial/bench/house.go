package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/trial/works"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// house is the service on a real chain, with a database and a signer of its own, driven
// one turn at a time by a clock of its own.
type house struct {
	*works.Works
	db       *pg.DB
	signer   *local.Signer
	org      string
	treasury wallet.Wallet
	mine     func(context.Context) error // a block

	mu  sync.Mutex
	now time.Time
}

// plot is what a house is built on.
type plot struct {
	name   string
	on     chain.Chain
	start  uint64 // the block after which it looks
	policy local.ChainPolicy
	mints  []mint.Mint
	prices map[int]money.USD
	mine   func(context.Context) error
}

func (h *house) clock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }

func (h *house) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (w *world) build(ctx context.Context, p plot) (h *house, err error) {
	h = &house{mine: p.mine, now: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if err := w.super(ctx, "", `CREATE DATABASE `+p.name+` OWNER coffer_owner`); err != nil {
		return h, err
	}
	conf := pg.Config{URL: w.cluster.URL(p.name), OwnerURL: w.cluster.OwnerURL(p.name)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return h, err
	}
	if h.db, err = pg.Open(ctx, conf, h.clock); err != nil {
		return h, err
	}
	for i := range p.mints {
		m := &p.mints[i]
		m.Chain, m.Network, m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw = p.on.Name, chain.Local, true, true, money.Units(1), money.Units(1)
	}
	if err := mint.Sync(ctx, h.db, p.mints); err != nil {
		return h, err
	}
	made, _, err := org.Create(ctx, h.db, "bench")
	if err != nil {
		return h, err
	}
	h.org = made.ID
	seed, err := keys.NewSeed()
	if err != nil {
		return h, err
	}
	seed = seed.On(chain.Local)
	secret := sha256.Sum256([]byte(made.ID))
	grants, err := signer.NewGrantKey(secret[:])
	if err != nil {
		return h, err
	}
	signs := local.Config{Journal: filepath.Join(w.dir, p.name+".journal"), Clock: h.clock, Grants: grants, Policy: local.Policy{
		WhitelistCoolingOff: "0s", Chains: map[chain.Name]local.ChainPolicy{p.on.Name: p.policy},
	}}
	if err := local.Create(signs, seed); err != nil {
		return h, err
	}
	if h.signer, err = local.Open(signs, seed); err != nil {
		return h, err
	}
	h.Works = works.Wire(works.Plan{
		DB: h.db, Chain: p.on, Start: p.start, Signer: h.signer, Attest: seed.Attest().Public(), Grants: grants,
		Prices: price.Fixed{Prices: p.prices, Clock: h.clock},
	})
	if err := mirror.Import(ctx, h.db, h.signer, h.Book); err != nil {
		return h, err
	}
	h.treasury, err = h.Book.Treasury(ctx, h.org, p.on.Name.Family())
	return h, err
}

func (h *house) close() error {
	if h.db != nil {
		h.db.Close()
	}
	if h.signer != nil {
		return h.signer.Close()
	}
	return nil
}

// address is a new customer's.
func (h *house) address(ctx context.Context, customerID string) (wallet.Wallet, error) {
	err := h.db.InOrg(ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, customerID, "")
		return err
	})
	if err != nil {
		return wallet.Wallet{}, err
	}
	return h.Book.Address(ctx, signer.WalletRef{OrgID: h.org, Family: h.treasury.Family, Purpose: wallet.CustomerDeposit, Subject: customerID})
}

func (h *house) withdraw(ctx context.Context, customerID string, mintID int, amount uint64, to chain.Address) error {
	key := "to-" + string(to)
	_, _, err := h.Pay.Request(ctx, h.org, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: fmt.Sprint(amount), ToAddress: string(to), IdempotencyKey: &key, Actor: audit.APIKey(h.org),
	})
	return err
}

// until has every part work and makes blocks, until a statement counts so many.
func (h *house) until(ctx context.Context, want int, what, sql string) error {
	var got int
	for range 200 {
		for _, s := range h.Steps(nil) {
			if err := s.Do(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		err := h.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql).Scan(&got) })
		if err != nil || got >= want {
			return err
		}
		if err := h.mine(ctx); err != nil {
			return err
		}
		h.later(5 * time.Second)
	}
	return fmt.Errorf("%d of %d %s", got, want, what)
}

// hashes are those of the transactions that orders of these purposes came to.
func (h *house) hashes(ctx context.Context, purposes ...signer.Purpose) (of []string, err error) {
	err = h.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(array_agg(DISTINCT tx_hash), '{}') FROM dispatch_orders WHERE status = 'PAID' AND purpose = ANY ($1)`, purposes).Scan(&of)
	})
	return of, err
}

// beside is what each of n came to, beside the naive way. The target, unless empty, is
// that it is less.
func beside(what string, n int, unit string, ours, naive uint64, target string) row {
	r := row{
		figure: unit + " " + what, here: fmt.Sprint(ours / uint64(n)),
		compared: fmt.Sprintf("%.2f of the naive way, %d", float64(ours)/float64(naive), naive/uint64(n)),
	}
	if target != "" {
		r.target = reached(ours < naive, target)
	}
	return r
}
