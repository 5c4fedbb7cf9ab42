package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Shown is an order as a person who runs the service sees it.
type Shown struct {
	Order
	Address      chain.Address // of the wallet that pays
	At           *chain.Slot   // nil without a slot
	GasReserved  money.Amount  // native units, of the slot
	InQuestion   bool          // ended on a block that finality has taken back
	FundsPending bool          // restored, and its funds are still to be found again
	VoidOpen     bool          // withdrawn, and held until the signer has journaled that it is void
	Said         string        // what stood in its way last, or ""
	Answer       string        // what the providers last said to its newest bytes, or ""
	Hash         chain.TxHash  // of the transaction that counts, or ""
	Fee          *money.Amount // what it cost, once that is known
	EndedAt      *time.Time
	Transactions []ShownTransaction // oldest first; empty in lists but for the newest
	With         []string           // other orders that its transactions pay, empty in lists
}

// ShownTransaction is one transaction of a slot.
type ShownTransaction struct {
	Version   int
	Act       signer.Act
	MadeFor   string // "", FEE, OPERATOR, REFUSAL
	Fees      chain.Fees
	Hash      chain.TxHash // "" until it is signed
	CreatedAt time.Time
	SentAt    *time.Time // first and last time that a provider was asked to take it
	LastSent  *time.Time
}

// WaitsFor says in words what has to happen next.
func (s Shown) WaitsFor() string {
	because := func(what string) string {
		if s.Said == "" {
			return what
		}
		return what + ": " + s.Said
	}
	switch s.Status {
	case Queued:
		switch s.WaitingFor {
		case WantNothing:
			return because("its turn")
		case WantFunds:
			return because("funds on its wallet")
		case WantGas:
			return because("gas on its wallet")
		case WantFreeze:
			return because("somebody to lift what stops it")
		case WantSimulation:
			return because("the chain, which says that it would revert")
		case WantChain:
			return because("the providers")
		case WantSigner:
			return because("the signer")
		case WantSlot:
			return because("a free place of its wallet on the chain")
		case WantCoins:
			return because("coins that can be spent")
		case WantMerge:
			return because("small coins to become one, for it needs more of them than one transaction spends")
		}
	case Refused:
		return because("its feature, since the signer said no")
	case Slotted:
		return because("a signature")
	case Signed:
		if s.Answer != "" {
			return "a provider that takes it: " + s.Answer
		}
		return because("a provider that takes it")
	case Broadcast:
		if s.FundsPending {
			return "its funds, which the walk of the chain has to find again"
		}
		return because("a final block")
	case Stuck:
		return "a person: it contradicts itself on the chain; see coffer dispatch resolve"
	case Paid, Failed:
		if s.InQuestion {
			return because("a block that is final, as the one that ended it is gone")
		}
	case Withdrawn:
		if s.VoidOpen {
			return "the signer, which has to write down that it was taken back; until then what was held for it is held"
		}
	}
	return "nothing"
}

const selectShown = `
	SELECT o.order_id, o.org_id, o.purpose, o.chain, o.wallet_id, coalesce(o.from_wallet_id, ''),
		coalesce((SELECT f.address FROM wallets f WHERE f.wallet_id = o.from_wallet_id), ''), coalesce(o.to_wallet_id, ''), o.to_address, o.mint_id,
		o.contract, o.amount, coalesce(o.customer_id, ''), coalesce(o.product, ''), coalesce(o.whitelisted_address_id, ''), o.key_hash, o.fee_max, o.fee_deducted, o.authority, o.status, coalesce(o.waiting_for, ''), o.created_at, coalesce(o.rides_id, ''),
		w.address, s.nonce, coalesce(s.lease, ''), coalesce(s.gas_reserved, 0), o.funds_pending, coalesce(o.last_error, ''), coalesce(a.last_answer, ''),
		coalesce(o.tx_hash, a.tx_hash, ''), o.fee, o.ended_at,
		o.order_id IN (SELECT order_id FROM dispatch_in_question), o.order_id IN (SELECT order_id FROM dispatch_voids WHERE journal_seq IS NULL),
		a.version, a.act, coalesce(a.made_for, ''), a.gas_limit, a.tip_cap, a.fee_cap, coalesce(a.tx_hash, ''), a.created_at, a.sent_at, a.last_sent_at
	FROM dispatch_orders o JOIN wallets w USING (wallet_id) LEFT JOIN dispatch_slots s ON s.order_id = coalesce(o.rides_id, o.order_id)
	LEFT JOIN LATERAL (SELECT * FROM dispatch_attempts a WHERE a.order_id = coalesce(o.rides_id, o.order_id) ORDER BY a.version DESC LIMIT 1) a ON true`

func scanShown(row pgx.CollectableRow) (Shown, error) {
	var s Shown
	var t ShownTransaction
	var version *int
	var act *signer.Act
	var gas *uint64
	var tip, most *money.Amount
	var created *time.Time
	var nonce *uint64
	var lease string
	err := row.Scan(append(s.columns(), &s.Address, &nonce, &lease, &s.GasReserved, &s.FundsPending, &s.Said, &s.Answer, &s.Hash, &s.Fee, &s.EndedAt, &s.InQuestion, &s.VoidOpen,
		&version, &act, &t.MadeFor, &gas, &tip, &most, &t.Hash, &created, &t.SentAt, &t.LastSent)...)
	if nonce != nil {
		s.At = &chain.Slot{Nonce: *nonce, Lease: lease}
	}
	if err != nil || version == nil {
		return s, err
	}
	t.Version, t.Act, t.CreatedAt = *version, *act, *created
	t.Fees = chain.Fees{GasLimit: *gas, TipCap: *tip, FeeCap: *most}
	s.Transactions = []ShownTransaction{t}
	return s, nil
}

// Open are the orders that have not ended, ended on a block that is gone, or are not void yet, by chain, wallet and nonce,
// each with its newest transaction. At most limit; more says that there are others.
func Open(ctx context.Context, tx pg.Tx, limit int) (open []Shown, more bool, err error) {
	rows, err := tx.Query(ctx, selectShown+`
		WHERE o.status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') OR o.order_id IN (SELECT order_id FROM dispatch_in_question)
			OR o.order_id IN (SELECT order_id FROM dispatch_voids WHERE journal_seq IS NULL)
		ORDER BY o.chain, o.wallet_id, s.nonce NULLS LAST, o.created_at, o.order_id LIMIT $1`, limit+1)
	if err == nil {
		open, err = pgx.CollectRows(rows, scanShown)
	}
	if err != nil {
		return nil, false, fmt.Errorf("list open orders: %w", err)
	}
	if len(open) > limit {
		return open[:limit], true, nil
	}
	return open, false, nil
}

// Show is an order with all its transactions. Error: fault NOT_FOUND.
func Show(ctx context.Context, tx pg.Tx, orderID string) (Shown, error) {
	rows, err := tx.Query(ctx, selectShown+` WHERE o.order_id = $1`, orderID)
	if err != nil {
		return Shown{}, fmt.Errorf("show order %s: %w", orderID, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanShown)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, unknownOrder(orderID)
	}
	if err != nil {
		return s, fmt.Errorf("show order %s: %w", orderID, err)
	}
	lead := cmp.Or(s.Rides, orderID)
	attempts, err := attemptsOf(ctx, tx, lead)
	if err != nil {
		return s, err
	}
	rows, err = tx.Query(ctx, `
		SELECT order_id FROM dispatch_orders WHERE (order_id = $1 OR rides_id = $1) AND order_id <> $2 ORDER BY order_id COLLATE "C"`, lead, orderID)
	if err != nil {
		return s, fmt.Errorf("who is in the slot of order %s: %w", orderID, err)
	}
	if s.With, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return s, fmt.Errorf("who is in the slot of order %s: %w", orderID, err)
	}
	s.Transactions = nil
	for _, a := range attempts[lead] {
		s.Transactions = append(s.Transactions, ShownTransaction{
			Version: a.Version, Act: a.Act, MadeFor: string(a.MadeFor), Fees: a.Fees, Hash: a.Hash,
			CreatedAt: a.CreatedAt, SentAt: a.SentAt, LastSent: a.LastSentAt,
		})
	}
	return s, nil
}

func unknownOrder(orderID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound,
		"There is no order %s; nothing was changed. `coffer dispatch list` names those that are open, and an order has the id of its withdrawal, sweep or top-up.", orderID)
}
