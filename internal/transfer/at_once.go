package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Most groups have nothing that would refuse one of their requests: no freeze, no debt, new keys, balances that
// suffice. Such a group is decided on these premises, by the same function as any other, and sent in one round trip.
// transfers_guard, the unique key and the ledger refuse the whole group where a premise is wrong; it is then looked up
// and decided anew. The guard decides about no request.

// premises are what the writers remember of earlier look-ups.
type premises struct {
	accounts ledger.AccountMemory

	mu    sync.Mutex
	mints map[int]rememberedMint
}

// rememberedMint is a mint with the fingerprint of its row, or of an earlier one.
type rememberedMint struct {
	mint        mint.Mint
	fingerprint string
}

// remember keeps what a look-up found.
func (p *premises) remember(f groupFacts) {
	p.accounts.Remember(f.accounts)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mints == nil {
		p.mints = map[int]rememberedMint{}
	}
	for id, fingerprint := range f.fingerprints {
		if m, ok := f.mints.ByID(id); ok {
			p.mints[id] = rememberedMint{m, fingerprint}
		}
	}
}

// balanceAssumed is larger than any balance: the ledger refuses what a balance does not cover.
var balanceAssumed = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")

// assume returns the facts of a group without anything unusual, and lists the accounts that are not remembered and
// are taken to exist. ok is false if a mint is not remembered.
func (p *premises) assume(requests []*pendingRequest) (f groupFacts, missing []ledger.Account, ok bool) {
	accounts := make([]ledger.Account, 0, 2*len(requests))
	for _, a := range requests {
		if a.parseErr != nil {
			return f, nil, false
		}
		accounts = append(accounts, a.from, a.to)
	}
	f.accounts, missing = p.accounts.Find(accounts...)
	for _, a := range accounts {
		k := f.accounts[a]
		k.Balance = balanceAssumed
		f.accounts[a] = k
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.stored, f.freezes, f.fingerprints = map[string]knownTransfer{}, &freeze.ActiveSet{}, map[int]string{}
	var mints []mint.Mint
	for _, a := range requests {
		if _, isKnown := f.fingerprints[a.MintID]; isKnown {
			continue
		}
		m, ok := p.mints[a.MintID]
		if !ok {
			return f, nil, false
		}
		f.fingerprints[a.MintID] = m.fingerprint
		mints = append(mints, m.mint)
	}
	catalogue := mint.NewCatalogue(mints...)
	f.mints = &catalogue
	return f, missing, true
}

// forget drops the accounts of a group that was refused: one of them may be another account since.
func (p *premises) forget(requests []*pendingRequest) {
	for _, a := range requests {
		p.accounts.Forget(a.from, a.to)
	}
}

// pausesMax bounds how many groups of an organization are looked up after one that was refused at once.
const pausesMax = 64

// shortcut says whether the next group of an organization is sent at once. An organization whose groups keep being
// refused pays for one refusal in so many groups.
type shortcut struct {
	mu             sync.Mutex
	pause, waiting int
}

func (s *shortcut) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > 0 {
		s.waiting--
		return false
	}
	return true
}

func (s *shortcut) record(written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written {
		s.pause = 0
		return
	}
	s.pause = min(max(1, 2*s.pause), pausesMax)
	s.waiting = s.pause
}

// errUnusual says that a group cannot be sent at once. Nothing was sent.
var errUnusual = errors.New("the group has something unusual")

// writeAtOnce writes a group without anything unusual in one round trip. It reports false when the group has to be
// looked up and decided anew: nothing was written. An error means that the outcome of the COMMIT is unknown.
// Rule TR-12.
func (s *Service) writeAtOnce(ctx context.Context, w *orgWriter, requests []*pendingRequest) (written bool, err error) {
	if !w.shortcut.isOpen() {
		return false, nil
	}
	f, missing, ok := s.premises.assume(requests)
	if !ok {
		return false, nil
	}
	var found ledger.KnownAccounts // of the missing
	err = s.db.InOrgAtOnce(ctx, w.org, func(now time.Time, b *pgx.Batch) error {
		rows := decideGroup(f, requests, now)
		if len(rows) < len(requests) {
			return errUnusual
		}
		queueGuard(b, w.org, f, requests)
		post := func(postings []ledger.Posting) error { return ledger.QueueKnown(b, now, f.accounts, postings...) }
		if len(missing) > 0 {
			// It is remembered once the group is written; nothing of the group rests on it.
			found = ledger.QueueLookup(b, nil, missing)
			post = func(postings []ledger.Posting) error { return ledger.QueueNamed(b, now, postings...) }
		}
		if err := s.queueInserts(b, now, w.org, rows, post); err != nil {
			return err
		}
		failpoint.Hit("T01")
		failpoint.HitBeforeCommit("T02")
		return nil
	})
	switch {
	case err == nil:
		failpoint.Hit("T02")
		s.premises.accounts.Remember(found)
		w.shortcut.record(true)
		return true, nil
	case errors.Is(err, pg.ErrCommitUnknown):
		return false, fmt.Errorf("write %d transfers of %s at once: %w", len(requests), w.org, err)
	case !errors.Is(err, errUnusual):
		w.shortcut.record(false)
		s.premises.forget(requests)
	}
	return false, nil
}

// queueGuard queues the check of the premises, behind the lock that keeps new freezes out.
func queueGuard(b *pgx.Batch, org string, f groupFacts, requests []*pendingRequest) {
	var customers, products []string
	for _, a := range requests {
		if a.from.Kind == ledger.Customer {
			customers = append(customers, a.from.Subject)
		} else {
			products = append(products, a.from.Subject)
		}
	}
	var mints []int
	var fingerprints []string
	for id, fingerprint := range f.fingerprints {
		mints, fingerprints = append(mints, id), append(fingerprints, fingerprint)
	}
	freeze.QueueLock(b)
	b.Queue(`SELECT transfers_guard($1, $2, $3, $4, $5)`,
		org, sortedUnique(customers), sortedUnique(products), mints, fingerprints)
}
