package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// serviceEnv is the service on a real chain, with its own database and signer. Its own clock drives
// it one turn at a time.
type serviceEnv struct {
	*harness.Harness
	db        *pg.DB
	signer    *local.Signer
	org       string
	treasury  wallet.Wallet
	mineBlock func(context.Context) error // mines a block

	mu        sync.Mutex
	clockTime time.Time
}

// envConfig configures a serviceEnv.
type envConfig struct {
	name        string
	chainConf   chain.Chain
	startHeight uint64 // the block after which the walk begins
	policy      local.ChainPolicy
	mints       []mint.Mint
	prices      map[int]money.USD
	mineBlock   func(context.Context) error
}

func (h *serviceEnv) readClock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.clockTime }

func (h *serviceEnv) advanceClock(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clockTime = h.clockTime.Add(d)
}

func (w *benchEnv) newServiceEnv(ctx context.Context, p envConfig) (h *serviceEnv, err error) {
	h = &serviceEnv{mineBlock: p.mineBlock, clockTime: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.closeAll())
		}
	}()
	if err := w.execAsSuperuser(ctx, "", `CREATE DATABASE `+p.name+` OWNER coffer_owner`); err != nil {
		return h, err
	}
	conf := pg.Config{URL: w.cluster.URL(p.name), OwnerURL: w.cluster.OwnerURL(p.name)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return h, err
	}
	if h.db, err = pg.Open(ctx, conf, h.readClock); err != nil {
		return h, err
	}
	for i := range p.mints {
		m := &p.mints[i]
		m.Chain, m.Network, m.DepositEnabled, m.WithdrawEnabled, m.MinDeposit, m.MinWithdraw =
			p.chainConf.Name, chain.Local, true, true, money.Units(1), money.Units(1)
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
	seed = seed.ForNetwork(chain.Local)
	secret := sha256.Sum256([]byte(made.ID))
	grants, err := signer.NewGrantKey(secret[:])
	if err != nil {
		return h, err
	}
	signs := local.Config{
		Journal: filepath.Join(w.dir, p.name+".journal"), Clock: h.readClock, Grants: grants,
		Policy: local.Policy{
			WhitelistCoolingOff: "0s", Chains: map[chain.Name]local.ChainPolicy{p.chainConf.Name: p.policy},
		},
	}
	if err := local.CreateJournal(signs, seed); err != nil {
		return h, err
	}
	if h.signer, err = local.Open(signs, seed); err != nil {
		return h, err
	}
	h.Harness = harness.New(harness.Config{
		DB: h.db, Chain: p.chainConf, Start: p.startHeight, Signer: h.signer, AttestKey: seed.AttestKey().PublicKey(),
		Grants: grants,
		Prices: price.Fixed{Prices: p.prices, Clock: h.readClock},
	})
	if err := mirror.ImportJournal(ctx, h.db, h.signer, h.Wallets); err != nil {
		return h, err
	}
	h.treasury, err = h.Wallets.Treasury(ctx, h.org, p.chainConf.Name.Family())
	return h, err
}

func (h *serviceEnv) closeAll() error {
	if h.db != nil {
		h.db.Close()
	}
	if h.signer != nil {
		return h.signer.Close()
	}
	return nil
}

// createDepositAddress creates the deposit address of a new customer.
func (h *serviceEnv) createDepositAddress(ctx context.Context, customerID string) (wallet.Wallet, error) {
	err := h.db.InOrg(ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, customerID, "")
		return err
	})
	if err != nil {
		return wallet.Wallet{}, err
	}
	return h.Wallets.Address(ctx, signer.WalletRef{
		OrgID: h.org, Family: h.treasury.Family, Purpose: wallet.CustomerDeposit, Subject: customerID,
	})
}

func (h *serviceEnv) requestWithdrawal(
	ctx context.Context, customerID string, mintID int, amount uint64, recipient chain.Address,
) error {
	key := "to-" + string(recipient)
	_, _, err := h.Withdrawals.Request(ctx, h.org, withdrawal.Request{
		MintID: mintID, CustomerID: customerID, Amount: fmt.Sprint(amount), ToAddress: string(recipient),
		IdempotencyKey: &key, Actor: audit.APIKey(h.org),
	})
	return err
}

// stepUntil runs every part and makes blocks until the statement counts want rows.
func (h *serviceEnv) stepUntil(ctx context.Context, want int, title, sql string) error {
	var got int
	for range 200 {
		for _, s := range h.ListSteps(nil) {
			if err := s.Run(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		err := h.db.ReadSystem(
			ctx, func(ctx context.Context, tx pg.Tx) error { return tx.QueryRow(ctx, sql).Scan(&got) },
		)
		if err != nil || got >= want {
			return err
		}
		if err := h.mineBlock(ctx); err != nil {
			return err
		}
		h.advanceClock(5 * time.Second)
	}
	return fmt.Errorf("%d of %d %s", got, want, title)
}

// listTxHashes lists the hashes of the transactions of the orders with these purposes.
func (h *serviceEnv) listTxHashes(ctx context.Context, purposes ...signer.Purpose) (hashes []string, err error) {
	err = h.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(array_agg(DISTINCT tx_hash), '{}') FROM dispatch_orders WHERE status = 'PAID' AND purpose = ANY ($1)`,
			purposes).Scan(&hashes)
	})
	return hashes, err
}

// compareToNaive formats what each of n deposits cost and what the naive way costs. The target,
// unless empty, is that it costs less than the naive way.
func compareToNaive(title string, n int, unit string, own, naive uint64, target string) row {
	r := row{
		figure: unit + " " + title, result: fmt.Sprint(own / uint64(n)),
		compared: fmt.Sprintf("%.2f of the naive way, %d", float64(own)/float64(naive), naive/uint64(n)),
	}
	if target != "" {
		r.target = formatTarget(own < naive, target)
	}
	return r
}
