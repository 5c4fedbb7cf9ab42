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
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// OrderView is an order as the operator of the service sees it.
type OrderView struct {
	Order
	Address        chain.Address // of the paying wallet
	ChainSlot      *chain.Slot   // nil without a slot
	GasReserved    money.Amount  // native units, for the slot
	Reorged        bool          // ended on a block that a break of finality took back
	FundsPending   bool          // restored, and its funds are not reserved again yet
	VoidPending    bool          // recalled; its hold stays until the signer has journaled the void
	LastError      string        // why it made no progress last, or ""
	ProviderAnswer string        // what the providers last answered to its newest bytes, or ""
	Hash           chain.TxHash  // of the transaction that counts, or ""
	Fee            *money.Amount // the fee paid, once that is known
	EndedAt        *time.Time
	Transactions   []TransactionView // oldest first; in lists only the newest
	TxMemberIDs    []string          // the other orders of its slot; empty in lists
}

// TransactionView is one transaction of a slot.
type TransactionView struct {
	Version    int
	Act        signer.Act
	Reason     string // "", FEE, OPERATOR, REFUSAL, LAPSE
	Fees       chain.Fees
	Hash       chain.TxHash // "" until it is signed
	CreatedAt  time.Time
	SentAt     *time.Time // first and last time that a provider was asked to accept it
	LastSentAt *time.Time
}

// DescribeWait says in words what has to happen next.
func (s OrderView) DescribeWait() string {
	withError := func(text string) string {
		if s.LastError == "" {
			return text
		}
		return text + ": " + s.LastError
	}
	switch s.Status {
	case Queued:
		return withError(s.WaitingFor.Cause().Sentence)
	case Refused:
		return withError("its feature, because the signer refused")
	case Slotted:
		return withError("a signature")
	case Signed:
		if s.ProviderAnswer != "" {
			return "a provider that accepts it: " + s.ProviderAnswer
		}
		return withError("a provider that accepts it")
	case Broadcast:
		if s.FundsPending {
			return "its funds, which the scan of the chain has to find again"
		}
		return withError("a final block")
	case Stuck:
		return "a person: its final transaction does not show its payment; see coffer dispatch resolve"
	case Paid, Failed:
		if s.Reorged {
			return withError("a final block, because the chain replaced the one that ended it")
		}
	case Recalled:
		if s.VoidPending {
			return "the signer, which has to journal the void; until then its amount stays held"
		}
	}
	return "nothing"
}

const selectViews = `
	SELECT o.order_id, o.org_id, o.purpose, o.chain, o.wallet_id, coalesce(o.from_wallet_id, ''),
		coalesce((SELECT f.address FROM wallets f WHERE f.wallet_id = o.from_wallet_id), ''), coalesce(o.to_wallet_id, ''), o.to_address, o.mint_id,
		o.contract, o.amount, coalesce(o.customer_id, ''), coalesce(o.product, ''), coalesce(o.whitelisted_address_id, ''), o.key_hash, o.fee_max, o.fee_deducted, o.authority, o.status, coalesce(o.waiting_for, ''), o.created_at, coalesce(o.tx_lead_id, ''), o.pay_by, o.swap, o.refund, o.batch,
		w.address, s.nonce, coalesce(s.slot_key, ''), coalesce(s.gas_reserved, 0), o.funds_pending, coalesce(o.last_error, ''), coalesce(a.last_answer, ''),
		coalesce(o.tx_hash, a.tx_hash, ''), o.fee, CASE WHEN o.status <> 'REFUSED' THEN o.ended_at END,
		EXISTS (SELECT FROM dispatch_reorged r WHERE r.order_id = o.order_id),
		EXISTS (SELECT FROM dispatch_voids v WHERE v.order_id = o.order_id AND v.journal_seq IS NULL),
		a.version, a.act, coalesce(a.replace_reason, ''), a.gas_limit, a.tip_cap, a.fee_cap, coalesce(a.tx_hash, ''), a.created_at, a.sent_at, a.last_sent_at
	FROM dispatch_orders o JOIN wallets w USING (wallet_id) LEFT JOIN dispatch_slots s ON s.order_id = coalesce(o.tx_lead_id, o.order_id)
	LEFT JOIN LATERAL (SELECT * FROM dispatch_attempts a WHERE a.order_id = coalesce(o.tx_lead_id, o.order_id) ORDER BY a.version DESC LIMIT 1) a ON true`

func scanView(row pgx.CollectableRow) (OrderView, error) {
	var s OrderView
	var t TransactionView
	var version *int
	var act *signer.Act
	var gasLimit *uint64
	var tipCap, feeCap *money.Amount
	var created *time.Time
	var nonce *uint64
	var slotKey string
	err := row.Scan(append(s.scanTargets(), &s.Address, &nonce, &slotKey, &s.GasReserved, &s.FundsPending,
		&s.LastError, &s.ProviderAnswer, &s.Hash, &s.Fee, &s.EndedAt, &s.Reorged, &s.VoidPending,
		&version, &act, &t.Reason, &gasLimit, &tipCap, &feeCap, &t.Hash, &created, &t.SentAt, &t.LastSentAt)...)
	if nonce != nil {
		s.ChainSlot = &chain.Slot{Nonce: *nonce, Key: slotKey}
	}
	if err != nil || version == nil {
		return s, err
	}
	t.Version, t.Act, t.CreatedAt = *version, *act, *created
	t.Fees = chain.Fees{GasLimit: *gasLimit, TipCap: *tipCap, FeeCap: *feeCap}
	s.Transactions = []TransactionView{t}
	return s, nil
}

// ListOpen returns orders by chain, wallet and nonce, each with its newest transaction: those that
// have not ended, that ended on a block that is gone, or that are not void yet. It returns at most
// limit; truncated says that there are more.
func ListOpen(ctx context.Context, tx pg.Tx, limit int) (open []OrderView, truncated bool, err error) {
	rows, err := tx.Query(ctx, selectViews+`
		-- Each part is one read of an index. An array is planned for few orders, and a subquery for as many as
		-- have ended. Without a break of finality the orders that rest on proofs are not looked at.
		WHERE o.order_id = ANY (ARRAY(
			SELECT order_id FROM dispatch_orders WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')
			UNION ALL SELECT order_id FROM dispatch_orders WHERE status = 'STUCK'
			UNION ALL SELECT order_id FROM dispatch_reorged WHERE EXISTS (SELECT FROM finality_breaks)
			UNION ALL SELECT order_id FROM dispatch_voids WHERE journal_seq IS NULL))
		ORDER BY o.chain, o.wallet_id, s.nonce NULLS LAST, o.created_at, o.order_id LIMIT $1`, limit+1)
	if err == nil {
		open, err = pgx.CollectRows(rows, scanView)
	}
	if err != nil {
		return nil, false, fmt.Errorf("list open orders: %w", err)
	}
	if len(open) > limit {
		return open[:limit], true, nil
	}
	return open, false, nil
}

// LoadView returns an order with all its transactions. Error: fault NOT_FOUND.
func LoadView(ctx context.Context, tx pg.Tx, orderID string) (OrderView, error) {
	rows, err := tx.Query(ctx, selectViews+` WHERE o.order_id = $1`, orderID)
	if err != nil {
		return OrderView{}, fmt.Errorf("show order %s: %w", orderID, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanView)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, newUnknownOrder(orderID)
	}
	if err != nil {
		return s, fmt.Errorf("show order %s: %w", orderID, err)
	}
	lead := cmp.Or(s.TxLeadID, orderID)
	attempts, err := loadAttempts(ctx, tx, lead)
	if err != nil {
		return s, err
	}
	rows, err = tx.Query(ctx, `
		SELECT order_id FROM dispatch_orders WHERE (order_id = $1 OR tx_lead_id = $1) AND order_id <> $2 ORDER BY order_id COLLATE "C"`,
		lead, orderID)
	if err != nil {
		return s, fmt.Errorf("read the members of the slot of order %s: %w", orderID, err)
	}
	if s.TxMemberIDs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return s, fmt.Errorf("read the members of the slot of order %s: %w", orderID, err)
	}
	s.Transactions = nil
	for _, a := range attempts[lead] {
		s.Transactions = append(s.Transactions, TransactionView{
			Version: a.Version, Act: a.Act, Reason: string(a.Reason), Fees: a.Fees, Hash: a.Hash,
			CreatedAt: a.CreatedAt, SentAt: a.SentAt, LastSentAt: a.LastSentAt,
		})
	}
	return s, nil
}

func newUnknownOrder(orderID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "Order %s does not exist.", orderID).
		WithAdvice("An order has the id of its withdrawal, swap, sweep or top-up.").WithStep(fault.ListOrders)
}

// AttemptView is one transaction that was made for an order, as the organization of the order sees it.
type AttemptView struct {
	Version   int
	Act       signer.Act
	Reason    string       // why it replaces the one before: "", FEE, OPERATOR, REFUSAL, LAPSE
	Hash      chain.TxHash // "" until it is signed
	CreatedAt time.Time
	SignedAt  *time.Time
	SentAt    *time.Time // first time that a provider was asked to accept it
}

// ListAttempts returns the transactions of an organization's order, oldest first; none for an order that
// the organization does not have. The members of a batch have those of its lead. Rules PAGE-14 and PAGE-73.
func ListAttempts(ctx context.Context, tx pg.Tx, org, orderID string) ([]AttemptView, error) {
	// PostgreSQL takes coalesce for a function that may leak rows, so no index would find the attempts
	// under the row-level security policies.
	rows, err := tx.Query(ctx, `
		SELECT a.version, a.act, coalesce(a.replace_reason, ''), coalesce(a.tx_hash, ''),
			a.created_at, a.signed_at, a.sent_at
		FROM dispatch_orders o
		JOIN dispatch_attempts a ON a.order_id = CASE WHEN o.tx_lead_id IS NULL THEN o.order_id ELSE o.tx_lead_id END
		WHERE o.org_id = $1 AND o.order_id = $2 ORDER BY a.version`, org, orderID)
	if err != nil {
		return nil, fmt.Errorf("list the transactions of order %s: %w", orderID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AttemptView])
	if err != nil {
		return nil, fmt.Errorf("list the transactions of order %s: %w", orderID, err)
	}
	return found, nil
}
