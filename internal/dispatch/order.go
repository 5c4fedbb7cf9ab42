// Package dispatch submits, signs, sends and settles every outgoing transaction of Coffer; there is
// no other way out. A feature submits an order in its own transaction. From there on, dispatch
// takes these steps:
//
//   - It gives the order a slot.
//   - It has the signer sign the transaction.
//   - It stores the signed bytes, then broadcasts them.
//   - It follows the transaction, and replaces it in the same slot when its fee is too low.
//   - It ends the order once a block with its transaction is proven final.
//
// These things never happen here:
//
//   - an order gets a second slot;
//   - the signer signs a payload that is not committed;
//   - bytes are sent before they are stored;
//   - an order fails because of a time-out or of anything a node says.
//
// A crash leaves a row that holds the order's progress. The next step starts there and sends the
// same bytes again, never others.
//
// The files follow the life of a payment:
//
//   - order.go and state.go: the order, its statuses, and what its feature implements;
//   - kind.go: what differs between kinds of orders;
//   - worker.go: the rounds of a chain, and the steps of one wallet in a round;
//   - wait.go: the causes of waits and refusals, whom each concerns and what ends it;
//   - queue.go: which orders are next, and why an order waits or is refused;
//   - admit.go: what is checked before orders get a slot, last by the signer;
//   - slot.go: the slot, and its commit together with the unsigned transaction;
//   - sign.go: the signatures, the storing of the bytes, and the signer's refusals;
//   - broadcast.go: the sending of stored bytes;
//   - confirm.go, included.go and balance_check.go: the block that contains the transaction, what
//     it shows, and a slot that a foreign transaction used;
//   - replace.go: the resending, and another transaction in the slot, with a higher fee or to
//     cancel;
//   - settle.go: the end on a proven block, with funds, postings and fee, or a stuck order;
//   - reorg.go: the ended orders whose proof is no longer live.
//
// The other files hold parts of these steps:
//
//   - freeze.go: the freezes that stop orders, and those that dispatch creates;
//   - late.go: the orders whose time to be paid has passed;
//   - void.go: the voids of recalled orders at the signer;
//   - slot_model.go and account_nonce.go: how an order gets a slot on each kind of chain;
//   - durable_nonce.go, nonce_account.go and idle_nonce_account.go: slots with nonce accounts;
//   - utxo.go and consolidation.go: slots made of outputs;
//   - operator.go, decide_stuck.go and view.go: what a person does and sees;
//   - restore.go: the orders that a restored database lacks;
//   - failpoints.go: the points at which tests crash the process.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Order is a payment that has to reach a chain. Its ID is the id of its cause (a withdrawal, a
// sweep, a gas top-up). One cause has one order, and one order has at most one slot, which never
// changes.
type Order struct {
	ID           string
	OrgID        string
	Purpose      signer.Purpose
	Chain        chain.Name
	WalletID     string // has the slot and pays the fee
	FromWalletID string // holds the amount, if that is another wallet: see SourceWalletID
	ToWalletID   string // receives the amount, if it is a wallet of Coffer; else ""
	To           chain.Address
	MintID       int
	Contract     chain.Address // "" for the native coin
	Amount       money.Amount  // zero for an order that moves nothing; native units for the close of a token account
	CustomerID   string        // the customer whose balance pays; "" for orders of no customer
	// Product is the product whose balance pays an organization's own payment. WhitelistedID is the
	// whitelist entry that it pays. Both are "" for every other order.
	Product, WhitelistedID string
	KeyHash                string // hex SHA-256 of the caller's idempotency key, or ""
	// FeeMax is the most that a paying transaction may cost, in native units; nil sets no limit.
	// FeeDeducted is the part of that fee that the customer pays on top of Amount. Dispatch only
	// passes FeeDeducted on to the signer's journal.
	FeeMax      *money.Amount
	FeeDeducted money.Amount
	// Grant is the approval that the signer checks before it admits a payment; dispatch passes it
	// on.
	Grant *signer.Grant
	// PayBy is the time after which the payment is not made any more, unless its slot was sent before;
	// zero sets no time. Swap says for the signer what a payment to a swap provider buys. Only that kind
	// has both, and PayBy is that of Swap.
	PayBy time.Time
	Swap  *signer.SwapTerms
	// Refund is the refund of a checkout that a payment makes; nil for every other order. WhitelistedID is "" then.
	Refund *signer.RefundOf
	// Batch is the row of a batch that a payment makes, in place of a WhitelistedID.
	Batch *signer.BatchRow
	// Trigger says why the service planned an internal order. It is "" for the other kinds, and for
	// an order that was read from its row.
	Trigger Trigger

	Status     Status
	WaitingFor WaitReason
	CreatedAt  time.Time
	// TxLeadID is the order that owns this order's slot, whose transaction makes this payment too.
	// It is "" for an order that has a slot of its own, or none yet.
	TxLeadID string

	fromAddress chain.Address // the address of FromWalletID
	readAt      time.Time     // the time at which the queue was read
}

// SourceWalletID returns the wallet whose amount the order moves.
func (o Order) SourceWalletID() string {
	if o.FromWalletID != "" {
		return o.FromWalletID
	}
	return o.WalletID
}

// Trigger says why the service planned an internal order.
type Trigger string

// The triggers.
const (
	TriggerValue   Trigger = "VALUE"    // it is worth its fee
	TriggerDemand  Trigger = "DEMAND"   // another order needs it
	TriggerPerson  Trigger = "PERSON"   // a person asked for it
	TriggerRestore Trigger = "RESTORED" // it was restored from the signer's journal
)

// ImmovableFunds is one token at one address that cannot be moved at present.
type ImmovableFunds struct {
	OrgID, WalletID string
	MintID          int
	LastError       string // what the chain or the signer said last
}

// ListImmovableFunds returns the addresses of an organization ("" for all) whose units of a mint (0
// for all) the chain would not move, judged by the last attempt:
//
//   - a sweep that would revert, did revert or was refused;
//   - a payment that waits because the token would let no amount go to any payee.
//
// It leaves out payments that are refused for their payee or their amount: those go back to people,
// see handleNoQuote. Rule WD-17.
func ListImmovableFunds(ctx context.Context, tx pg.Tx, org string, mintID int) ([]ImmovableFunds, error) {
	rows, err := tx.Query(ctx, `
		SELECT f.org_id, f.wallet_id, f.mint_id, coalesce(o.last_error, '')
		-- Few sweeps did not pay, and many addresses hold something. The first two conditions are those of the
		-- index.
		FROM dispatch_orders o JOIN address_funds f ON f.mint_id = o.mint_id
			AND f.wallet_id = CASE WHEN o.from_wallet_id IS NULL THEN o.wallet_id ELSE o.from_wallet_id END
		WHERE o.purpose = 'SWEEP' AND o.status <> 'PAID' AND ($1 = '' OR o.org_id = $1) AND ($2 = 0 OR o.mint_id = $2)
			AND (order_outcome(o.status) = 'FAILED' OR o.status = 'STUCK'
				OR o.status = 'QUEUED' AND o.waiting_for = ANY ($3))
			AND f.credited > f.swept
			AND NOT EXISTS (SELECT FROM sweeps s WHERE s.wallet_id = f.wallet_id AND s.mint_id = f.mint_id
				AND (s.created_at, s.sweep_id) > (o.created_at, o.order_id))
		UNION
		SELECT w.org_id, w.wallet_id, w.mint_id, max(w.last_error) FROM unnest($3::text[]) AS r (reason)
		CROSS JOIN LATERAL (SELECT org_id, wallet_id, mint_id, last_error FROM dispatch_orders
			WHERE ($1 = '' OR org_id = $1) AND ($2 = 0 OR mint_id = $2) AND purpose IN ('PAYMENT', 'SWAP')
				AND status = 'QUEUED' AND `+pg.ByKey("waiting_for", "r.reason")+`) w
		GROUP BY w.org_id, w.wallet_id, w.mint_id
		ORDER BY 1, 3, 2`, org, mintID, ReasonsReverting())
	if err != nil {
		return nil, fmt.Errorf("read what cannot be moved: %w", err)
	}
	immovable, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ImmovableFunds])
	if err != nil {
		return nil, fmt.Errorf("read what cannot be moved: %w", err)
	}
	return immovable, nil
}

// End says how an order ended on a proven block.
type End struct {
	Paid      bool
	Cancelled bool // a cancel transaction took the slot
	// Refused says that the cancel was sent because the payment was not allowed any more: by the
	// signer's policy, or because its PayBy had passed.
	Refused bool
	// PayeeFailed says that the chain refused the payment because of its payee, and that the
	// payment was alone in its transaction. It is also false where the cause is unknown.
	PayeeFailed bool
	Hash        chain.TxHash
	Replaced    []chain.TxHash // the other transactions that were signed for the slot
	Fee         money.Amount   // native units, paid by the order's wallet
	Rent        money.Amount   // the part of Fee that stays in an account created for the payee alone
	ProofID     int64
	Block       chain.Block
}

// Listener is the feature that submitted an order. Its methods write in the transaction that
// changes the order. They may run twice and do no other I/O.
type Listener interface {
	// OnBroadcast reports that a provider accepted the order's transaction, or that a block
	// contained it before any provider said so.
	OnBroadcast(ctx context.Context, tx pg.Tx, o Order, hash chain.TxHash) error
	// OnIncluded reports that the transaction is in a block that is not final yet.
	OnIncluded(ctx context.Context, tx pg.Tx, o Order, hash chain.TxHash) error
	// OnEnded reports the end of the order and returns the feature's postings. Dispatch posts them
	// together with the fee and moves the wallets' funds.
	OnEnded(ctx context.Context, tx pg.Tx, o Order, e End) ([]ledger.Posting, error)
	// OnRefused reports a refusal before anything was journaled. Submitting the order again tries
	// again. The code says who refused:
	//
	//   - PayeeRefused or AmountRefused: the chain would refuse;
	//   - FeeRefused: the chain asks for too high a fee;
	//   - NonceAccountTaken: an account exists at that address already;
	//   - ConsolidationRefused: no outputs are consolidated now;
	//   - a code of a Reviewer: the order goes back to a person;
	//   - every other code: the signer's policy refused.
	//
	// A feature that does not submit the order again recalls it here.
	OnRefused(ctx context.Context, tx pg.Tx, o Order, r *signer.Refusal) error
	// OnRecalled reports that a person ended the order while it had no slot, or that dispatch did so
	// because its PayBy had passed. Nothing of it was signed and nothing will be. The feature releases
	// here, once, what it held for the order. The hold of an order with a grant waits for
	// VoidListener.OnVoided instead.
	OnRecalled(ctx context.Context, tx pg.Tx, o Order, actor audit.Actor) error
}

// FundsListener is a Listener whose end of an order moves more funds than the order itself.
type FundsListener interface {
	// EndMovements returns these movements, after OnEnded. Dispatch makes them together with those
	// of the order: a transaction locks the funds that it moves in one statement.
	EndMovements(ctx context.Context, tx pg.Tx, o Order, e End) ([]wallet.Movement, error)
}

// Reviewer is a Listener that checks an order again before it gets a slot: much may have happened
// since it was submitted.
type Reviewer interface {
	// ReviewOrder returns why an order has to go back to a person, or nil. It only reads.
	ReviewOrder(ctx context.Context, tx pg.Tx, o Order) (*signer.Refusal, error)
	// ReviewRent does the same for a payment that would leave this rent in an account that it
	// creates for its payee.
	ReviewRent(ctx context.Context, tx pg.Tx, o Order, rent money.Amount) (*signer.Refusal, error)
}

const insertOrders = `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address,
			mint_id, contract, amount, customer_id, key_hash, status, attempt_after, created_at, fee_max, fee_deducted,
			authority, product, whitelisted_address_id, from_wallet_id, trigger, pay_by, swap, refund, batch)
		SELECT o.order_id, o.org_id, o.purpose, o.chain, o.wallet_id, nullif(o.to_wallet_id, ''), o.to_address,
			o.mint_id, o.contract, o.amount, nullif(o.customer_id, ''), o.key_hash, 'QUEUED', $1, $1, o.fee_max, o.fee_deducted,
			o.authority::jsonb, nullif(o.product, ''), nullif(o.whitelisted_address_id, ''), nullif(o.from_wallet_id, ''),
			nullif(o.trigger, ''), o.pay_by, o.swap::jsonb, o.refund::jsonb, o.batch::jsonb
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
			$9::int[], $10::text[], $11::numeric[], $12::text[], $13::text[], $14::numeric[], $15::numeric[],
			$16::text[], $17::text[], $18::text[], $19::text[],
			$20::text[], $21::timestamptz[], $22::text[], $23::text[], $24::text[]) WITH ORDINALITY
			AS o (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address,
				mint_id, contract, amount, customer_id, key_hash, fee_max, fee_deducted,
				authority, product, whitelisted_address_id, from_wallet_id,
				trigger, pay_by, swap, refund, batch, nth)
		ORDER BY o.nth`

// insertArgs returns the arguments of insertOrders: the time, and a column for each of the others.
func insertArgs(now time.Time, orders []Order) ([]any, error) {
	n := len(orders)
	text := func() []string { return make([]string, n) }
	optional := func() []*string { return make([]*string, n) }
	ids, orgs, purposes, chains, wallets, toWallets, payees := text(), text(), text(), text(), text(), text(), text()
	mints, contracts, customers, hashes, products, listed := make([]int, n), text(), text(), text(), text(), text()
	fromWallets, triggers, payBy := text(), text(), make([]zeronull.Timestamptz, n)
	amounts, feesDeducted, feesMax := make([]money.Amount, n), make([]money.Amount, n), make([]*money.Amount, n)
	grants, swaps, refunds, batches := optional(), optional(), optional(), optional()
	for i, o := range orders {
		ids[i], orgs[i], purposes[i], chains[i], wallets[i], toWallets[i], payees[i] = o.ID, o.OrgID, string(o.Purpose),
			string(o.Chain), o.WalletID, o.ToWalletID, string(o.To)
		mints[i], contracts[i], amounts[i], customers[i], hashes[i] = o.MintID, string(o.Contract), o.Amount,
			o.CustomerID, o.KeyHash
		feesMax[i], feesDeducted[i], products[i], listed[i] = o.FeeMax, o.FeeDeducted, o.Product, o.WhitelistedID
		fromWallets[i], triggers[i], payBy[i] = o.FromWalletID, string(o.Trigger), zeronull.Timestamptz(o.PayBy)
		for _, c := range []struct {
			isSet  bool
			value  any
			column []*string
		}{
			{o.Grant != nil, o.Grant, grants},
			{o.Swap != nil, o.Swap, swaps},
			{o.Refund != nil, o.Refund, refunds},
			{o.Batch != nil, o.Batch, batches},
		} {
			if !c.isSet {
				continue
			}
			encoded, err := json.Marshal(c.value)
			if err != nil {
				return nil, fmt.Errorf("write order %s: %w", o.ID, err)
			}
			c.column[i] = new(string(encoded))
		}
	}
	return []any{
		now, ids, orgs, purposes, chains, wallets, toWallets, payees, mints, contracts, amounts, customers, hashes,
		feesMax, feesDeducted, grants, products, listed, fromWallets, triggers, payBy, swaps, refunds, batches,
	}, nil
}

// Submit queues an order in the caller's transaction. An order that was refused is queued again if
// its terms are unchanged. Any other order with that id is an error.
func Submit(ctx context.Context, tx pg.Tx, o Order) error {
	args, err := insertArgs(tx.Now, []Order{o})
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, insertOrders+`
		ON CONFLICT (order_id) DO UPDATE
		SET status = 'QUEUED', waiting_for = NULL, last_error = NULL, attempt_after = excluded.attempt_after, authority = excluded.authority
		WHERE dispatch_orders.status = 'REFUSED' AND dispatch_orders.amount = excluded.amount
		  AND dispatch_orders.to_address = excluded.to_address AND dispatch_orders.fee_deducted = excluded.fee_deducted
		  AND dispatch_orders.fee_max IS NOT DISTINCT FROM excluded.fee_max
		  AND dispatch_orders.pay_by IS NOT DISTINCT FROM excluded.pay_by
		  AND dispatch_orders.swap IS NOT DISTINCT FROM excluded.swap
		  AND dispatch_orders.refund IS NOT DISTINCT FROM excluded.refund
		  AND dispatch_orders.batch IS NOT DISTINCT FROM excluded.batch`, args...)
	if err != nil {
		return fmt.Errorf("submit order %s: %w", o.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("submit order %s: it is already submitted", o.ID)
	}
	return nil
}

// QueueNew adds to a batch the statement that submits orders that were never submitted, in their order; now is the
// time of the transaction. The batch fails if there is an order with one of these ids.
func QueueNew(b *pgx.Batch, now time.Time, orders ...Order) error {
	if len(orders) == 0 {
		return nil
	}
	args, err := insertArgs(now, orders)
	if err == nil {
		b.Queue(insertOrders, args...)
	}
	return err
}

// turnAfter is how long an order is due before LockWaiting counts it as waiting. Before that, the
// order is about to get its slot; after it, it waits behind the wallet's orders in flight.
const turnAfter = 10 * time.Second

// LockWaiting locks an order and reports whether it waits without a slot. That is so once dispatch
// wrote down what the order lacks, or has not looked at it for turnAfter. A transaction that
// changes both locks the order before the feature's row, as dispatch does. Rule WD-43.
func LockWaiting(ctx context.Context, tx pg.Tx, orderID string) (bool, error) {
	var waiting bool
	err := tx.QueryRow(ctx, `
		SELECT status = 'QUEUED' AND (waiting_for IS NOT NULL OR attempt_after <= $2)
		FROM dispatch_orders WHERE order_id = $1 FOR UPDATE`, orderID, tx.Now.Add(-turnAfter)).Scan(&waiting)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether order %s waits: %w", orderID, err)
	}
	return waiting, nil
}

// Recall ends an order that has no slot, in the caller's transaction. It returns false if the order
// is past that; then only its slot ends it. An order has no other way to end without a slot. Of
// Recall and a step that assigns a slot at the same moment, one wins and the other sees its result.
//
// An order with a grant, such as a payment, keeps its hold until the signer has voided the grant.
// After the commit the caller calls Voider.FinishVoid, which notifies the feature, or leaves that to
// Voider.Run.
func Recall(ctx context.Context, tx pg.Tx, orderID string) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET status = 'WITHDRAWN', waiting_for = NULL, missing_amount = NULL, ended_at = $2
		WHERE order_id = $1 AND status IN ('QUEUED', 'REFUSED')`, orderID, tx.Now)
	if err != nil {
		return false, fmt.Errorf("recall order %s: %w", orderID, err)
	}
	if tag.RowsAffected() != 1 {
		return false, nil
	}
	return true, requestVoid(ctx, tx, orderID)
}

// UnderfundedOrder is a queued order whose wallet lacks funds or gas.
type UnderfundedOrder struct {
	Order
	Missing money.Amount // units of the order's mint, or native units where gas is missing
}

// ListUnderfunded returns the queued orders of a chain that wait for a remedy, oldest first, with the
// amount that it has to bring.
func ListUnderfunded(
	ctx context.Context, tx pg.Tx, name chain.Name, remedy Remedy, limit int,
) ([]UnderfundedOrder, error) {
	rows, err := tx.Query(ctx, selectOrders+`, missing_amount FROM dispatch_orders
		WHERE chain = $1 AND status = 'QUEUED' AND waiting_for = ANY ($2) AND missing_amount > 0
		ORDER BY created_at, order_id LIMIT $3`, name, ReasonsOf(remedy), limit)
	if err != nil {
		return nil, fmt.Errorf("orders of %s that wait for a %s: %w", name, remedy, err)
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (UnderfundedOrder, error) {
		var order UnderfundedOrder
		return order, row.Scan(append(order.scanTargets(), &order.Missing)...)
	})
	if err != nil {
		return nil, fmt.Errorf("orders of %s that wait for a %s: %w", name, remedy, err)
	}
	return orders, nil
}

// NeedsRemedy reports whether a queued order still waits for a remedy.
func NeedsRemedy(ctx context.Context, tx pg.Tx, orderID string, remedy Remedy) (bool, error) {
	var needed bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1 AND status = 'QUEUED' AND waiting_for = ANY ($2))`,
		orderID, ReasonsOf(remedy)).Scan(&needed)
	if err != nil {
		return false, fmt.Errorf("read the wait reason of order %s: %w", orderID, err)
	}
	return needed, nil
}

// EndWaits makes the wallet's orders that wait for a remedy due now, because it was brought. Until
// dispatch looks at them again, they lack nothing that is known. It locks the wallet's other queued
// orders as well. So an order that is about to note that it lacks this either noted it before, or
// sees what arrived.
func EndWaits(ctx context.Context, tx pg.Tx, walletID string, name chain.Name, remedy Remedy) error {
	_, err := tx.Exec(ctx, `
		SELECT FROM dispatch_orders WHERE wallet_id = $1 AND chain = $2 AND status = 'QUEUED' ORDER BY order_id FOR UPDATE`,
		walletID, name)
	if err == nil {
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = NULL, missing_amount = NULL, attempt_after = $4
			WHERE wallet_id = $1 AND chain = $2 AND status = 'QUEUED' AND waiting_for = ANY ($3)`,
			walletID, name, ReasonsOf(remedy), tx.Now)
	}
	if err != nil {
		return fmt.Errorf("have the worker examine the orders of wallet %s again: %w", walletID, err)
	}
	return nil
}

const selectOrders = `SELECT order_id, org_id, purpose, chain, wallet_id, coalesce(from_wallet_id, ''),
	coalesce((SELECT w.address FROM wallets w WHERE w.wallet_id = dispatch_orders.from_wallet_id), ''), coalesce(to_wallet_id, ''), to_address, mint_id,
	contract, amount, coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), key_hash, fee_max, fee_deducted, authority, status, coalesce(waiting_for, ''), created_at, coalesce(tx_lead_id, ''), pay_by, swap, refund, batch`

func (o *Order) scanTargets() []any {
	return []any{
		&o.ID, &o.OrgID, &o.Purpose, &o.Chain, &o.WalletID, &o.FromWalletID, &o.fromAddress, &o.ToWalletID, &o.To,
		&o.MintID,
		&o.Contract, &o.Amount, &o.CustomerID, &o.Product, &o.WhitelistedID, &o.KeyHash, &o.FeeMax, &o.FeeDeducted,
		&o.Grant, &o.Status, &o.WaitingFor, &o.CreatedAt, &o.TxLeadID, (*zeronull.Timestamptz)(&o.PayBy), &o.Swap,
		&o.Refund, &o.Batch,
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

// exceedsFeeMax reports whether a cost is above the order's own limit. Rule WD-26.
func (o Order) exceedsFeeMax(cost money.Amount) bool { return o.FeeMax != nil && o.FeeMax.Less(cost) }

func (o Order) chainPayment(account chain.Address) chain.Payment {
	kind := o.Kind()
	p := chain.Payment{
		From: account, To: o.To, Contract: o.Contract, Amount: o.Amount,
		CreatesNonceAccount: kind.CreatesNonceAccount, CreatesTokenAccount: kind.CreatesTokenAccount,
		ClosesTokenAccount: kind.ClosesTokenAccount, GrantsAllowance: kind.GrantsAllowance,
		RevokesAllowance: kind.RevokesAllowance,
	}
	if o.FromWalletID != "" {
		p.From, p.Payer = o.fromAddress, account
	}
	return p
}

// systemActor is this package as an actor of the audit log.
var systemActor = audit.System("dispatch")

// recordAudit writes an order's audit row.
func recordAudit(ctx context.Context, tx pg.Tx, o Order, verb string, detail map[string]any) error {
	return recordAuditBy(ctx, tx, systemActor, o, verb, detail)
}

func recordAuditBy(
	ctx context.Context, tx pg.Tx, actor audit.Actor, o Order, verb string, detail map[string]any,
) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: o.OrgID, Actor: actor, Action: "order." + verb, ResourceKind: "order", ResourceID: o.ID, Detail: detail,
	})
}
