// Package dispatch is the only way out: every transaction of ours goes through
// it. An order is placed in the transaction of the feature that wants it; from
// there on dispatch gives it a slot, has it signed, stores the bytes, sends
// them, follows them, replaces them in the same slot when their fee is too low,
// and ends the order on proof.
//
// What never happens here: a second slot for an order, a signature for a
// payload that is not committed, bytes sent before they are stored, an order
// called failed because of a time-out or of anything a node said. What a crash
// leaves: a row that says how far the order came; the next step is taken from
// there, and ends in sending the same bytes again, never others.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Order is a payment that has to reach a chain. Its ID is the id of what caused
// it (a withdrawal, a sweep, a top-up): one cause, one order, one slot, for ever.
type Order struct {
	ID           string
	OrgID        string
	Purpose      signer.Purpose
	Chain        chain.Name
	WalletID     string // has the slot and pays the fee
	FromWalletID string // whose amount it moves, where that is another wallet: see Holder
	ToWalletID   string // receives, when it is ours; else ""
	To           chain.Address
	MintID       int
	Contract     chain.Address // "" for the native coin
	Amount       money.Amount  // zero of a merge, in native units of a close
	CustomerID   string        // whose money it is, "" when nobody's in particular
	// Product is whose balance pays an organization's own payment, and WhitelistedID the
	// entry of its list that is paid; both "" for every other order.
	Product, WhitelistedID string
	KeyHash                string // hex SHA-256 of the caller's idempotency key, or ""
	// FeeMax is the most that a transaction which pays may cost, in native units; nil
	// for no limit of its own. FeeDeducted is what its customer pays of that, beside
	// Amount; dispatch only hands it on, to the signer's memory.
	FeeMax      *money.Amount
	FeeDeducted money.Amount
	// Grant is what the signer checks before it admits a payment; dispatch hands it on.
	Grant *signer.Grant

	Status     Status
	WaitingFor WaitReason
	CreatedAt  time.Time
	// TxLeadID is the order that has the slot of this one, whose transaction makes its payment
	// too; "" for one that has its own, or none yet.
	TxLeadID string

	fromAddress chain.Address // of FromWalletID
	readAt      time.Time     // when the queue was read
}

// SourceWalletID is the wallet whose amount the order moves.
func (o Order) SourceWalletID() string {
	if o.FromWalletID != "" {
		return o.FromWalletID
	}
	return o.WalletID
}

// WaitReason says what a queued order waits for.
type WaitReason string

// The wants. Funds and Gas come with how much is missing.
const (
	WaitNone       WaitReason = ""
	WaitFunds      WaitReason = "FUNDS"      // its wallet does not hold the amount yet
	WaitGas        WaitReason = "GAS"        // its wallet cannot pay the fee yet
	WaitFreeze     WaitReason = "FREEZE"     // something is frozen
	WaitSimulation WaitReason = "SIMULATION" // the chain says that it would revert: of a payment, because of its token or the wallet as a whole
	WaitProviders  WaitReason = "CHAIN"      // the providers do not answer
	WaitSlot       WaitReason = "SLOT"       // its wallet has no free place on the chain
	WaitSigner     WaitReason = "SIGNER"     // the signer does not answer, or signs for no more fees of this wallet today
)

// WaitReasons are all that a queued order may wait for. A person can end it whichever it is.
var WaitReasons = []WaitReason{
	WaitNone, WaitFunds, WaitGas, WaitFreeze, WaitSimulation, WaitProviders, WaitSlot, WaitSigner, WaitOutputs, WaitConsolidation,
}

// PayeeRefused is the code of a refusal that is not the signer's: as things stand
// the chain takes the payment for another payee and not for this one.
const PayeeRefused = "PAYEE"

// AmountRefused is the code of one more: as things stand the chain takes another amount to
// this payee, and not this one.
const AmountRefused = "AMOUNT"

// FeeRefused is the code of another one: the chain asks for more than the order's FeeMax.
const FeeRefused = "FEE_MAX"

// NonceAccountTaken is the code of a third: where the order would make a place there is
// something else, for good.
const NonceAccountTaken = "PLACE_TAKEN"

// Codes of a Reviewer's refusals.
const (
	// PayeeFailed: a payment to the same destination has failed since this one was ordered.
	PayeeFailed = "PAYEE_FAILED"
	// CustomerCostLimit: the customer's withdrawals have caused as many costs as they may in a day.
	CustomerCostLimit = "CUSTOMER_COSTS"
	// RentNotHeld: the payment would make an account for its payee, whose rent its customer
	// is to pay and which was not held for when it was requested.
	RentNotHeld = "RENT_NOT_HELD"
)

// A Block is what cannot be moved as things stand.
type ImmovableFunds struct {
	OrgID, WalletID string
	MintID          int
	LastError       string // what the chain or the signer said last
}

// ListImmovableFunds are the addresses of an organization ("" for all) whose units of a mint
// (0 for all) the chain would not move, by the last that was tried: a sweep that
// would revert, did, or was refused, or a payment that waits because the token
// would let no amount go to anybody. A payment that is refused for its payee or its
// amount is never among them: it goes back to people, see unquoted.
func ListImmovableFunds(ctx context.Context, tx pg.Tx, org string, mintID int) ([]ImmovableFunds, error) {
	rows, err := tx.Query(ctx, `
		SELECT f.org_id, f.wallet_id, f.mint_id, coalesce(o.last_error, '')
		FROM address_funds f
		CROSS JOIN LATERAL (SELECT sweep_id, status FROM sweeps s WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id
			ORDER BY s.created_at DESC, s.sweep_id DESC LIMIT 1) last
		JOIN dispatch_orders o ON o.order_id = last.sweep_id
		WHERE ($1 = '' OR f.org_id = $1) AND ($2 = 0 OR f.mint_id = $2) AND f.credited > f.swept
			AND (last.status = 'FAILED' OR o.status = 'STUCK' OR o.status = 'QUEUED' AND o.waiting_for = 'SIMULATION')
		UNION
		SELECT org_id, wallet_id, mint_id, max(last_error) FROM dispatch_orders
		WHERE ($1 = '' OR org_id = $1) AND ($2 = 0 OR mint_id = $2)
			AND purpose = 'PAYMENT' AND status = 'QUEUED' AND waiting_for = 'SIMULATION'
		GROUP BY org_id, wallet_id, mint_id
		ORDER BY 1, 3, 2`, org, mintID)
	if err != nil {
		return nil, fmt.Errorf("what cannot be moved: %w", err)
	}
	immovable, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ImmovableFunds])
	if err != nil {
		return nil, fmt.Errorf("what cannot be moved: %w", err)
	}
	return immovable, nil
}

// End is how an order ended, on a proven block.
type End struct {
	Paid      bool
	Cancelled bool // the slot was filled by a cancel
	Refused   bool // and that because the signer's policy did not let it pay any more
	// PayeeFailed: a payment that had its transaction to itself was refused by the chain, and
	// because of its payee. False also where that is unknown.
	PayeeFailed bool
	Hash        chain.TxHash
	Replaced    []chain.TxHash // the other transactions that were signed for the slot
	Fee         money.Amount   // native units, paid by the order's wallet
	Rent        money.Amount   // of that, what stays in an account that was made for the payee alone
	ProofID     int64
	Block       chain.Block
}

// Listener is the feature that placed an order. Its methods write in the
// transaction that changes the order and may run twice; they do no I/O else.
type Listener interface {
	// OnBroadcast tells that a provider took the order's transaction, or that it
	// was found in a block before any provider said so.
	OnBroadcast(ctx context.Context, tx pg.Tx, o Order, hash chain.TxHash) error
	// OnIncluded tells that the transaction is in a block that is not final yet.
	OnIncluded(ctx context.Context, tx pg.Tx, o Order, hash chain.TxHash) error
	// OnEnded tells the end and returns what has to be posted for it. Dispatch
	// posts it together with the fee and moves what the wallets hold.
	OnEnded(ctx context.Context, tx pg.Tx, o Order, e End) ([]ledger.Posting, error)
	// OnRefused tells that the signer's policy said no, or with PayeeRefused or AmountRefused
	// that the chain would, or with FeeRefused that it asks for too much, or with NonceAccountTaken that
	// there is something already, or with ConsolidationRefused that nothing is merged now, before anything was journaled. Placing the order again asks again.
	OnRefused(ctx context.Context, tx pg.Tx, o Order, r *signer.Refusal) error
	// OnRecalled tells that a person ended the order, which had no slot: nothing of it was
	// signed and nothing will be. What the feature held for it is given back here, once.
	OnRecalled(ctx context.Context, tx pg.Tx, o Order, actor audit.Actor) error
}

// Reviewer is a Listener that looks at an order again before it gets a slot: much may have
// happened since it was placed.
type Reviewer interface {
	// ReviewOrder is why an order has to go back to a person, or nil. It only reads.
	ReviewOrder(ctx context.Context, tx pg.Tx, o Order) (*signer.Refusal, error)
	// ReviewRent is Review of a payment that would leave this rent in an account that it
	// makes for its payee.
	ReviewRent(ctx context.Context, tx pg.Tx, o Order, rent money.Amount) (*signer.Refusal, error)
}

// Submit queues an order in the caller's transaction. An order that the signer
// refused is queued again; any other order with that id is an error.
func Submit(ctx context.Context, tx pg.Tx, o Order) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address,
		                             mint_id, contract, amount, customer_id, key_hash, status, attempt_after, created_at, fee_max, fee_deducted, authority,
		                             product, whitelisted_address_id, from_wallet_id)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, $10, nullif($11, ''), $12, 'QUEUED', $13, $13, $14, $15, $16, nullif($17, ''), nullif($18, ''), nullif($19, ''))
		ON CONFLICT (order_id) DO UPDATE
		SET status = 'QUEUED', waiting_for = NULL, last_error = NULL, attempt_after = excluded.attempt_after, authority = excluded.authority
		WHERE dispatch_orders.status = 'REFUSED' AND dispatch_orders.amount = excluded.amount
		  AND dispatch_orders.to_address = excluded.to_address AND dispatch_orders.fee_deducted = excluded.fee_deducted
		  AND dispatch_orders.fee_max IS NOT DISTINCT FROM excluded.fee_max`,
		o.ID, o.OrgID, o.Purpose, o.Chain, o.WalletID, o.ToWalletID, o.To,
		o.MintID, o.Contract, o.Amount, o.CustomerID, o.KeyHash, tx.Now, o.FeeMax, o.FeeDeducted, o.Grant, o.Product, o.WhitelistedID, o.FromWalletID)
	if err != nil {
		return fmt.Errorf("place order %s: %w", o.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("place order %s: it is placed already", o.ID)
	}
	return nil
}

// turnAfter is how long an order is due before it counts as one that waits for its turn,
// behind what its wallet has in flight, and not as one that is about to have its slot.
const turnAfter = 10 * time.Second

// LockWaiting locks an order and tells whether it waits without a slot: dispatch has looked
// at it and written down what it lacks, or has not come to it for a while. In a transaction that changes both, the order's lock
// comes before that of its feature's row, as it does in dispatch.
func LockWaiting(ctx context.Context, tx pg.Tx, orderID string) (bool, error) {
	var waiting bool
	err := tx.QueryRow(ctx, `
		SELECT status = 'QUEUED' AND (waiting_for IS NOT NULL OR attempt_after <= $2)
		FROM dispatch_orders WHERE order_id = $1 FOR UPDATE`, orderID, tx.Now.Add(-turnAfter)).Scan(&waiting)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether order %s waits: %w", orderID, err)
	}
	return waiting, nil
}

// Recall takes back an order that has no slot, in the caller's transaction.
// It is false when the order is past that: then only its slot ends it. It is the only way
// in which an order ends without a slot: whoever slots it at the same moment finds it
// withdrawn, or this finds its slot. A payment or return had a grant, so nothing that was
// held for it may be given back before the signer has voided it: whoever commits calls
// Voider.FinishVoid, which tells its feature.
func Recall(ctx context.Context, tx pg.Tx, orderID string) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET status = 'WITHDRAWN', waiting_for = NULL, short_by = NULL, ended_at = $2
		WHERE order_id = $1 AND status IN ('QUEUED', 'REFUSED')`, orderID, tx.Now)
	if err != nil {
		return false, fmt.Errorf("withdraw order %s: %w", orderID, err)
	}
	if tag.RowsAffected() != 1 {
		return false, nil
	}
	return true, requestVoid(ctx, tx, orderID)
}

// UnderfundedOrder is a queued order that lacks funds or gas on its wallet.
type UnderfundedOrder struct {
	Order
	Missing money.Amount // units of the order's mint for FUNDS, of the native coin for GAS
}

// ListUnderfunded are the queued orders of a chain that wait for funds or gas, oldest
// first: what a sweep on demand or a top-up has to bring.
func ListUnderfunded(ctx context.Context, tx pg.Tx, name chain.Name, reason WaitReason, limit int) ([]UnderfundedOrder, error) {
	rows, err := tx.Query(ctx, selectOrders+`, short_by FROM dispatch_orders
		WHERE chain = $1 AND status = 'QUEUED' AND waiting_for = $2 AND short_by > 0
		ORDER BY created_at, order_id LIMIT $3`, name, reason, limit)
	if err != nil {
		return nil, fmt.Errorf("orders of %s that wait for %s: %w", name, reason, err)
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (UnderfundedOrder, error) {
		var order UnderfundedOrder
		return order, row.Scan(append(order.scanTargets(), &order.Missing)...)
	})
	if err != nil {
		return nil, fmt.Errorf("orders of %s that wait for %s: %w", name, reason, err)
	}
	return orders, nil
}

// IsUnderfunded tells whether a queued order waits for this still.
func IsUnderfunded(ctx context.Context, tx pg.Tx, orderID string, reason WaitReason) (bool, error) {
	var underfunded bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1 AND status = 'QUEUED' AND waiting_for = $2 AND short_by > 0)`,
		orderID, reason).Scan(&underfunded)
	if err != nil {
		return false, fmt.Errorf("ask what order %s waits for: %w", orderID, err)
	}
	return underfunded, nil
}

// FundsArrived has the orders of a wallet that wait for this looked at again, because
// what they lacked has come. Until then they lack nothing that is known. It locks
// the others that are queued as well: one that is about to say that it lacks this
// has said so before, or sees what came.
func FundsArrived(ctx context.Context, tx pg.Tx, walletID string, name chain.Name, reason WaitReason) error {
	_, err := tx.Exec(ctx, `
		SELECT FROM dispatch_orders WHERE wallet_id = $1 AND chain = $2 AND status = 'QUEUED' ORDER BY order_id FOR UPDATE`, walletID, name)
	if err == nil {
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = NULL, short_by = NULL, attempt_after = $4
			WHERE wallet_id = $1 AND chain = $2 AND status = 'QUEUED' AND waiting_for = $3`, walletID, name, reason, tx.Now)
	}
	if err != nil {
		return fmt.Errorf("have the orders of wallet %s looked at again: %w", walletID, err)
	}
	return nil
}

const selectOrders = `SELECT order_id, org_id, purpose, chain, wallet_id, coalesce(from_wallet_id, ''),
	coalesce((SELECT w.address FROM wallets w WHERE w.wallet_id = dispatch_orders.from_wallet_id), ''), coalesce(to_wallet_id, ''), to_address, mint_id,
	contract, amount, coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), key_hash, fee_max, fee_deducted, authority, status, coalesce(waiting_for, ''), created_at, coalesce(rides_id, '')`

func (o *Order) scanTargets() []any {
	return []any{
		&o.ID, &o.OrgID, &o.Purpose, &o.Chain, &o.WalletID, &o.FromWalletID, &o.fromAddress, &o.ToWalletID, &o.To, &o.MintID,
		&o.Contract, &o.Amount, &o.CustomerID, &o.Product, &o.WhitelistedID, &o.KeyHash, &o.FeeMax, &o.FeeDeducted, &o.Grant, &o.Status, &o.WaitingFor, &o.CreatedAt, &o.TxLeadID,
	}
}

func scanOrder(row pgx.CollectableRow) (Order, error) {
	var o Order
	return o, row.Scan(o.scanTargets()...)
}

// lockOrder reads an order under its row lock: the first lock of every
// transaction that changes one.
func lockOrder(ctx context.Context, tx pg.Tx, orderID string) (Order, error) {
	rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders WHERE order_id = $1 FOR UPDATE`, orderID)
	if err != nil {
		return Order{}, fmt.Errorf("lock order %s: %w", orderID, err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, scanOrder)
	if err != nil {
		return Order{}, fmt.Errorf("lock order %s: %w", orderID, err)
	}
	return o, nil
}

// exceedsFeeMax tells whether a transaction that may cost this is above the order's own limit.
func (o Order) exceedsFeeMax(cost money.Amount) bool { return o.FeeMax != nil && o.FeeMax.Less(cost) }

func (o Order) chainPayment(account chain.Address) chain.Payment {
	p := chain.Payment{From: account, To: o.To, Contract: o.Contract, Amount: o.Amount, CreatesNonceAccount: o.Purpose == signer.CreateNonceAccount, ClosesTokenAccount: o.Purpose == signer.CloseTokenAccount}
	if o.FromWalletID != "" {
		p.From, p.Payer = o.fromAddress, account
	}
	return p
}

// recordAudit writes an order's audit row.
func recordAudit(ctx context.Context, tx pg.Tx, o Order, verb string, detail map[string]any) error {
	return recordAuditBy(ctx, tx, systemActor, o, verb, detail)
}

func recordAuditBy(ctx context.Context, tx pg.Tx, actor audit.Actor, o Order, verb string, detail map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: o.OrgID, Actor: actor, Action: "order." + verb, ResourceKind: "order", ResourceID: o.ID, Detail: detail,
	})
}
