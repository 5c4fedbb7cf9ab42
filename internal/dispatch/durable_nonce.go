package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// durableNonce is the slot model of chains with durable nonce accounts. The slot key is a nonce
// account and its value. An order takes one whose value is final and proven, that no order had, and
// whose account no foreign transaction used. The slot is used once the account has another value,
// in the latest block or finally, and free until then. It is never released: the account serves
// again with its next value, and a slot key is never given out again. The creation of a nonce
// account has the address of that account as its slot key.
type durableNonce struct {
	nonceOnly
	prover   chain.SlotProver
	accounts chain.NonceAccounts // nil where no account can be created or watched
}

func (m durableNonce) whyNoneFree(ctx context.Context, acct chain.Account) (string, error) {
	free, err := m.freeSlotKeys(ctx, acct)
	if err != nil {
		return "", err
	}
	if free = m.withoutForeign(free); len(free) == 0 {
		return "every nonce account of its wallet on the chain is in use until the transaction in it is final", nil
	}
	if len(provenSlots(acct, free)) == 0 {
		return "no free nonce account of its wallet on the chain is proven yet: " + m.unprovenReason(free), nil
	}
	return "", nil
}

func (m durableNonce) take(
	ctx context.Context, tx pg.Tx, acct chain.Account, orders []Order, _ int, _ chain.Address, _ []chain.Payment,
	taken *takenSlot,
) error {
	lead := orders[0]
	if lead.Kind().SlotIsPayee {
		taken.Key = string(lead.To)
		return nil
	}
	freeKeys, err := queryFreeSlotKeys(ctx, tx, lead.Chain, acct)
	if err != nil {
		return err
	}
	proven := provenSlots(acct, m.withoutForeign(freeKeys))
	if len(proven) == 0 {
		return errNoFreeSlotKey
	}
	taken.Key, taken.proof = proven[0].Final, proven[0].Proof
	return nil
}

func (m durableNonce) leaveWithout(
	ctx context.Context, orders []Order, _ int, cause error,
) (unhandled, err error) {
	if !errors.Is(cause, errNoFreeSlotKey) {
		return cause, nil
	}
	return nil, m.d.leaveAllWaiting(ctx, orders, WaitSlot, cause.Error())
}

// errNoFreeSlotKey says that other orders took the last free slot of a wallet.
var errNoFreeSlotKey = errors.New("every nonce account of its wallet on the chain was taken in the meantime")

// freeSlotKeys returns the keys of an account's slots that no order has.
func (m durableNonce) freeSlotKeys(ctx context.Context, acct chain.Account) (slotKeys []string, err error) {
	err = m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		slotKeys, err = queryFreeSlotKeys(ctx, tx, m.d.chain.Name, acct)
		return err
	})
	return slotKeys, err
}

// queryFreeSlotKeys returns the slot keys of an account that are the same in the latest and the
// final block and that no order has, in the account's order. A slot key that was given out once is
// never given out again.
func queryFreeSlotKeys(ctx context.Context, tx pg.Tx, name chain.Name, acct chain.Account) (free []string, err error) {
	for _, l := range acct.Slots {
		if l.Latest == l.Final && l.Final != "" {
			free = append(free, l.Final)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT slot_key FROM dispatch_slots
		WHERE chain = $1 AND slot_key <> ''
			AND md5(slot_key) = ANY (ARRAY(SELECT md5(l) FROM unnest($2::text[]) l)) AND slot_key = ANY ($2)`,
		name, free)
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	return slices.DeleteFunc(free, func(l string) bool { return slices.Contains(taken, l) }), nil
}

// Where slots have keys, a provider could name a false value for which several transactions of one
// slot would be mined. So the signer requires a proof of a slot, and no order gets a slot without
// one. See docs/design/solana.md#proof-of-a-slot.

// slotProof is what is known of the proof of a slot key.
type slotProof struct {
	text          string        // "" while no provider has shown it
	missingReason string        // set while text is ""
	missingSince  time.Time     // since when the search has been in vain
	retryAt       time.Time     // when the search is repeated
	retryDelay    time.Duration // the pause before that, which grows
}

// unprovenAlarmAfter is how long the search for a proof may take before an alarm: providers show a
// block later than its effects.
const unprovenAlarmAfter = time.Minute

const (
	slotProofsMax = 4096 // slot keys that are kept in memory
	lastUsesMax   = 4    // how many of a nonce account's last orders may have given it its value
)

func (m durableNonce) proveFree(ctx context.Context, payer wallet.Wallet, acct *chain.Account) error {
	freeKeys, err := m.freeSlotKeys(ctx, *acct)
	if err != nil {
		return err
	}
	freeKeys = m.withoutForeign(freeKeys)
	// The providers may be slow, so the turn ends after one search in vain. The key that has waited
	// longest for a search comes first.
	slices.SortStableFunc(freeKeys, func(a, b string) int {
		x, _ := m.cachedProof(a)
		y, _ := m.cachedProof(b)
		return x.retryAt.Compare(y.retryAt)
	})
	for _, slotKey := range freeKeys {
		if _, isDue := m.cachedProof(slotKey); !isDue {
			continue
		}
		if p, err := m.findProof(ctx, payer, slotKey); err != nil {
			return err
		} else if p.text == "" {
			break
		}
	}
	now := m.d.db.Clock()()
	for i, l := range acct.Slots {
		if !slices.Contains(freeKeys, l.Final) {
			continue
		}
		p, _ := m.cachedProof(l.Final)
		if acct.Slots[i].Proof = p.text; p.missingReason != "" && now.Sub(p.missingSince) >= unprovenAlarmAfter {
			accountAddress, _, _ := strings.Cut(l.Final, " ")
			m.d.raiseAlarm(
				ctx, accountAddress,
				"a nonce account of a wallet is not used, because the block that proves its value is not found",
				"wallet", payer.ID, "place", accountAddress, "why", p.missingReason,
			)
		}
	}
	return nil
}

// provenSlots returns the slots of an account that have a proof.
func provenSlots(acct chain.Account, freeKeys []string) []chain.SlotState {
	var slots []chain.SlotState
	for _, l := range acct.Slots {
		if slices.Contains(freeKeys, l.Final) && l.Proof != "" {
			slots = append(slots, l)
		}
	}
	return slots
}

// unprovenReason returns why slot keys have no proof: the reason of the first one that was searched
// for.
func (m durableNonce) unprovenReason(slotKeys []string) string {
	for _, l := range slotKeys {
		if p, _ := m.cachedProof(l); p.missingReason != "" {
			return p.missingReason
		}
	}
	return "it was not looked for yet"
}

// cachedProof returns what is known of the proof of a slot key, and whether a search for it is due.
func (m durableNonce) cachedProof(slotKey string) (p slotProof, isDue bool) {
	now := m.d.db.Clock()()
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	p = m.d.slotProofs[slotKey]
	return p, p.text == "" && !now.Before(p.retryAt)
}

// findProof searches the proof of a slot key in memory, in the blocks that the nonce account's last
// orders ended in, and at the providers. A search in vain is repeated later.
func (m durableNonce) findProof(ctx context.Context, payer wallet.Wallet, slotKey string) (slotProof, error) {
	p, isDue := m.cachedProof(slotKey)
	if !isDue {
		return p, nil
	}
	var parents []string
	err := m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		parents, err = loadLastUseParents(ctx, tx, m.d.chain.Name, slotKey)
		return err
	})
	if err != nil {
		return slotProof{}, err
	}
	text, err := m.prover.ProveSlot(ctx, payer.Address, slotKey, parents...)
	if err != nil {
		now, missingSince := m.d.db.Clock()(), p.missingSince
		if missingSince.IsZero() {
			missingSince = now
		}
		retryDelay := min(max(2*p.retryDelay, m.d.conf.RetryAfter), m.d.conf.WatchEvery)
		p = slotProof{
			missingReason: err.Error(), missingSince: missingSince, retryAt: now.Add(retryDelay),
			retryDelay: retryDelay,
		}
	} else {
		p = slotProof{text: text}
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if len(m.d.slotProofs) >= slotProofsMax {
		clear(m.d.slotProofs) // each is found again
	}
	m.d.slotProofs[slotKey] = p
	return p, nil
}

// loadLastUseParents returns the parents of the blocks in which the last orders of a nonce account
// ended.
func loadLastUseParents(ctx context.Context, tx pg.Tx, name chain.Name, slotKey string) ([]string, error) {
	accountAddress, _, _ := strings.Cut(slotKey, " ")
	rows, err := tx.Query(ctx, `
		SELECT p.parent FROM (
			SELECT order_id, nonce FROM dispatch_slots
			WHERE chain = $1 AND chain = 'SOLANA' AND split_part(slot_key, ' ', 1) = $2 ORDER BY nonce DESC LIMIT $3
		) s JOIN dispatch_orders o USING (order_id) JOIN finality_proofs p ON p.chain = o.chain AND p.proof_id = o.proof_id
		ORDER BY s.nonce DESC`, name, accountAddress, lastUsesMax)
	if err != nil {
		return nil, fmt.Errorf("which blocks nonce account %s was used in: %w", accountAddress, err)
	}
	parents, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which blocks nonce account %s was used in: %w", accountAddress, err)
	}
	return parents, nil
}

func (m durableNonce) prove(ctx context.Context, payer wallet.Wallet, s *slot) error {
	if s.Proof != "" || s.Kind().SlotIsPayee {
		return nil
	}
	p, err := m.findProof(ctx, payer, s.ChainSlot.Key)
	if err != nil {
		return err
	}
	if p.text == "" {
		m.d.raiseAlarm(
			ctx, s.ID, "a slot is not proven, so no new transaction is signed in it", "order", s.ID,
			"slot", s.ChainSlot.String(), "why", p.missingReason,
		)
		return nil
	}
	err = m.d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET proof = $2 WHERE order_id = $1 AND proof = ''`, s.ID, p.text)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the proof of the slot of order %s: %w", s.ID, err)
	}
	s.Proof = p.text
	return nil
}
