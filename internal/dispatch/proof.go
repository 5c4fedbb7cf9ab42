package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where places are names, a provider could name something else, in which several
// transactions of a slot would be mined. So the signer wants a slot proven, and no order
// gets a place whose proof is not known. See docs/design/solana.md#proof-of-a-slot.

// A proof is what is known of that of a lease.
type proof struct {
	of    string        // "" while nobody has it
	why   string        // then
	since time.Time     // it has been looked for in vain
	again time.Time     // and when it is looked for again
	rests time.Duration // which was so long after the last time
}

// unprovenMax is how long a proof may be looked for before that is an alarm: providers show a
// block later than what it changed.
const unprovenMax = time.Minute

const (
	proofsMax   = 4096 // leases that are kept in memory
	lastUsesMax = 4    // how many of the last orders of a place may have given it what it has
)

// prove gives the free places of an account their proofs. What has none is told and left out,
// and others go on.
func (d *Desk) prove(ctx context.Context, from wallet.Wallet, acct *chain.Account) error {
	if d.chain.Proofs == nil || !acct.Leased {
		return nil
	}
	free, err := d.free(ctx, *acct)
	if err != nil {
		return err
	}
	free = d.sound(free)
	// The providers may be slow, so one look in vain is enough for a turn. What has waited
	// longest for one comes first.
	slices.SortStableFunc(free, func(a, b string) int {
		x, _ := d.remembered(a)
		y, _ := d.remembered(b)
		return x.again.Compare(y.again)
	})
	for _, lease := range free {
		if _, due := d.remembered(lease); !due {
			continue
		}
		if p, err := d.proofOf(ctx, from, lease); err != nil {
			return err
		} else if p.of == "" {
			break
		}
	}
	now := d.db.Clock()()
	for i, l := range acct.Leases {
		if !slices.Contains(free, l.Final) {
			continue
		}
		p, _ := d.remembered(l.Final)
		if acct.Leases[i].Proof = p.of; p.why != "" && now.Sub(p.since) >= unprovenMax {
			at, _, _ := strings.Cut(l.Final, " ")
			d.alarm(ctx, at, "a place of a wallet is not used, since the block that proves its value is not found", "wallet", from.ID, "place", at, "why", p.why)
		}
	}
	return nil
}

// proven are the leases of an account that have a proof, where that is asked for.
func (d *Desk) proven(acct chain.Account, free []string) []chain.Lease {
	var out []chain.Lease
	for _, l := range acct.Leases {
		if slices.Contains(free, l.Final) && (d.chain.Proofs == nil || l.Proof != "") {
			out = append(out, l)
		}
	}
	return out
}

// unproven says why leases have no proof, by the first that was looked for.
func (d *Desk) unproven(leases []string) string {
	for _, l := range leases {
		if p, _ := d.remembered(l); p.why != "" {
			return p.why
		}
	}
	return "it is not looked for yet"
}

// remembered is what is known of the proof of a lease, and whether it is to be looked for.
func (d *Desk) remembered(lease string) (p proof, due bool) {
	now := d.db.Clock()()
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.proofs[lease]
	return p, p.of == "" && !now.Before(p.again)
}

// proofOf looks for the proof of a lease: in memory, in the blocks that the last orders of
// the place ended in, and at the providers. What is not found is looked for again later.
func (d *Desk) proofOf(ctx context.Context, from wallet.Wallet, lease string) (proof, error) {
	p, due := d.remembered(lease)
	if !due {
		return p, nil
	}
	var parents []string
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		parents, err = lastUses(ctx, tx, d.chain.Name, lease)
		return err
	})
	if err != nil {
		return proof{}, err
	}
	of, err := d.chain.Proofs.Proof(ctx, from.Address, lease, parents...)
	if err != nil {
		now, since := d.db.Clock()(), p.since
		if since.IsZero() {
			since = now
		}
		rests := min(max(2*p.rests, d.conf.RetryAfter), d.conf.WatchEvery)
		p = proof{why: err.Error(), since: since, again: now.Add(rests), rests: rests}
	} else {
		p = proof{of: of}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.proofs) >= proofsMax {
		clear(d.proofs) // each is found again
	}
	d.proofs[lease] = p
	return p, nil
}

// lastUses are the parents of the blocks in which the last orders of a place ended.
func lastUses(ctx context.Context, tx pg.Tx, name chain.Name, lease string) ([]string, error) {
	at, _, _ := strings.Cut(lease, " ")
	rows, err := tx.Query(ctx, `
		SELECT p.parent FROM (
			SELECT order_id, nonce FROM dispatch_slots
			WHERE chain = $1 AND chain = 'SOLANA' AND split_part(lease, ' ', 1) = $2 ORDER BY nonce DESC LIMIT $3
		) s JOIN dispatch_orders o USING (order_id) JOIN finality_proofs p ON p.chain = o.chain AND p.proof_id = o.proof_id
		ORDER BY s.nonce DESC`, name, at, lastUsesMax)
	if err != nil {
		return nil, fmt.Errorf("which blocks place %s was used in: %w", at, err)
	}
	parents, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which blocks place %s was used in: %w", at, err)
	}
	return parents, nil
}

// proveSlot looks for the proof of a slot that was written without, by a version of before
// or from a journal of before. Without one the signer signs nothing in it that it has not
// signed already, and says so.
func (d *Desk) proveSlot(ctx context.Context, from wallet.Wallet, s *slot) error {
	if d.chain.Proofs == nil || s.Proof != "" || s.Purpose == signer.Place {
		return nil
	}
	p, err := d.proofOf(ctx, from, s.At.Lease)
	if err != nil {
		return err
	}
	if p.of == "" {
		d.alarm(ctx, s.ID, "a slot is not proven, so nothing new is signed in it", "order", s.ID, "slot", s.At.String(), "why", p.why)
		return nil
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET proof = $2 WHERE order_id = $1 AND proof = ''`, s.ID, p.of)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the proof of the slot of order %s: %w", s.ID, err)
	}
	s.Proof = p.of
	return nil
}
