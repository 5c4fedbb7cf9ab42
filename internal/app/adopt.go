package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// Adoption is a lost journal that can be rebuilt, from the database's copy of it and from what the
// chains report about every paying wallet. PrepareAdoption writes nothing.
type Adoption struct {
	Journal  string // the file that WriteJournal creates
	Lost     string // id of the journal that the new one continues
	Entries  int    // entries of the lost journal that the database has
	Last     uint64 // number of the last of them
	Accounts []PayingAccount

	conf    local.Config
	seed    keys.Seed
	copied  []signer.Entry
	nonces  []local.ChainNonce
	anchors []signer.Anchor // of the audit log, from the database's copy
	release func()
	tools   *App
}

// PayingAccount is a paying wallet, with the number of payments that its chain has from it.
type PayingAccount struct {
	Wallet  signer.WalletRef
	Chain   chain.Name
	Address chain.Address
	Paid    uint64
}

// PrepareAdoption reads all that a rebuilt journal needs, and makes sure that no payment is made
// until Close. It refuses if the journal exists, if a service works on the database, or if a chain
// cannot be asked about a wallet.
func PrepareAdoption(ctx context.Context, conf Config, log *slog.Logger) (_ *Adoption, err error) {
	if !conf.hasRole(RoleSigner) {
		return nil, errors.New(
			"signer." + conf.Signer.remoteSetting() +
				": this configuration points to another signer; use one with the seed, the journal and the policy",
		)
	}
	switch _, err := os.Stat(conf.Signer.Journal); {
	case err == nil:
		return nil, fmt.Errorf(
			"the journal %s exists, so it does not have to be rebuilt; if it is not the right one, move it away first",
			conf.Signer.Journal,
		)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("signer.journal: %w", err)
	}
	adoption := &Adoption{Journal: conf.Signer.Journal}
	if adoption.seed, adoption.conf, err = openSeed(conf); err != nil {
		return nil, err
	}
	if adoption.tools, err = OpenTools(ctx, conf, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, adoption.Close())
		}
	}()
	if err := adoption.lockWorkers(ctx); err != nil {
		return nil, err
	}
	if adoption.copied, err = mirror.CopiedEntries(ctx, adoption.tools.parts.DB); err != nil {
		return nil, err
	}
	err = adoption.tools.parts.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		adoption.anchors, err = audit.CopiedAnchors(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(adoption.copied) == 0 {
		return nil, errors.New("the database has no entry of a journal: it never worked with one")
	}
	last := adoption.copied[len(adoption.copied)-1]
	adoption.Lost, adoption.Entries, adoption.Last = last.JournalID, len(adoption.copied), last.Seq
	return adoption, adoption.readPaymentCounts(ctx)
}

// lockWorkers takes the lock of every dispatch worker, which a running service would hold.
func (a *Adoption) lockWorkers(ctx context.Context) error {
	for name := range a.tools.parts.Chains {
		lock, ok, err := a.tools.parts.DB.AdvisoryLock(ctx, dispatch.LockName(name))
		if err != nil {
			return fmt.Errorf("make sure that no payment is in progress: %w", err)
		}
		if !ok {
			return fmt.Errorf("a service is making payments on %s: stop every service and every signer of this "+
				"installation first",
				name)
		}
		previous := a.release
		a.release = func() {
			lock.Release()
			if previous != nil {
				previous()
			}
		}
	}
	return nil
}

// readPaymentCounts asks each chain about each wallet that pays on it. It derives the address from
// the seed, so that a tampered row of the database cannot substitute another account.
func (a *Adoption) readPaymentCounts(ctx context.Context) error {
	payers, err := mirror.ListPayingWallets(ctx, a.tools.parts.DB)
	if err != nil {
		return err
	}
	asked := map[local.ChainNonce]bool{}
	for _, p := range payers {
		chainNames := []chain.Name{p.Chain}
		if p.Chain == "" {
			chainNames = nil
			for name := range a.tools.parts.Chains {
				if name.Family() == p.Wallet.Family {
					chainNames = append(chainNames, name)
				}
			}
			slices.Sort(chainNames)
		}
		for _, name := range chainNames {
			key := local.ChainNonce{Wallet: p.Wallet, Chain: name}
			if asked[key] {
				continue
			}
			asked[key] = true
			ch, ok := a.tools.parts.Chains[name]
			if !ok {
				return fmt.Errorf(
					"wallets pay on %s, which is not configured: add it under chains, so that the command can ask it",
					name,
				)
			}
			address, err := local.DeriveAddress(a.seed, p.Wallet)
			if err != nil {
				return err
			}
			account, err := ch.Sender.Account(ctx, address)
			if err != nil {
				return fmt.Errorf("ask %s how often %s has paid: %w", name, address, err)
			}
			if account.KeyedSlots {
				// The chain does not count the payments of a wallet. A missing payment in the copy
				// could not be detected, and would be made again.
				return fmt.Errorf(
					"%s does not number the payments of %s: it cannot be proven that the mirror is complete, so no "+
						"journal is rebuilt from it",
					name, address,
				)
			}
			key.NextNonce = account.Latest
			a.nonces = append(a.nonces, key)
			a.Accounts = append(a.Accounts,
				PayingAccount{Wallet: p.Wallet, Chain: name, Address: address, Paid: account.Latest})
		}
	}
	return nil
}

// WriteJournal creates the journal. It also restores the anchors of the audit log, if their file
// was lost with it. It never replaces a file.
func (a *Adoption) WriteJournal() error {
	if err := local.AdoptJournal(a.conf, a.seed, a.copied, a.nonces); err != nil {
		return err
	}
	sign, err := local.Open(a.conf, a.seed)
	if err != nil {
		return fmt.Errorf("open the rebuilt journal: %w", err)
	}
	_, err = sign.RestoreAnchors(a.anchors)
	return errors.Join(err, sign.Close())
}

// Close lets services pay again.
func (a *Adoption) Close() error {
	if a.release != nil {
		a.release()
	}
	return a.tools.Close()
}
