package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// slot is the position on the chain that an order has once and for all, with the transactions made
// for it, oldest first. Where one transaction makes several payments, the slot has further orders,
// its members. The members are fixed when the slot is written. They always have the status of the
// lead order and end as it ends.
type slot struct {
	Order               // the lead: it owns the slot and the transactions
	TxMembers   []Order // by id, which is also the order of the payments
	ChainSlot   chain.Slot
	Proof       string // proves ChainSlot where the signer requires it, see chain.SlotProver; "" until found
	GasReserved money.Amount
	Attempts    []attempt
	// FundsPending says that the slot was restored from the signer's journal and that nothing is
	// reserved for it yet. Its bytes are sent, but it cannot end. See reserveRestored.
	FundsPending bool
	// MissingSince is the time since when the slot is used, finally, by no transaction of Coffer.
	MissingSince *time.Time
}

// attempt is one complete transaction in a slot: unsigned when it is committed, signed when its
// bytes are stored, sent after that.
type attempt struct {
	OrderID    string
	Version    int
	Act        signer.Act
	Reason     attemptReason
	Fees       chain.Fees
	Payload    []byte
	Raw        []byte // nil until it is signed
	Hash       chain.TxHash
	CreatedAt  time.Time
	SentAt     *time.Time
	LastSentAt *time.Time
}

// attemptReason says why a slot got another transaction.
type attemptReason string

const (
	reasonFirst    attemptReason = ""         // the first one of its slot, or one that a restore inserted
	reasonFee      attemptReason = "FEE"      // the previous one waited too long at its fee
	reasonOperator attemptReason = "OPERATOR" // a person asked for it
	// reasonRefusal says that the payment is not allowed any more: by the signer's policy, or because its
	// PayBy has passed.
	reasonRefusal attemptReason = "REFUSAL"
	reasonExpired attemptReason = "LAPSE" // the previous one named a block that is too old now, and was not mined
)

// allOrders returns all orders of the slot, in the order of their payments.
func (s slot) allOrders() []Order { return append([]Order{s.Order}, s.TxMembers...) }

// memberIDs returns the ids of the orders that share the slot with its lead.
func (s slot) memberIDs() []string {
	var ids []string
	for _, o := range s.TxMembers {
		ids = append(ids, o.ID)
	}
	return ids
}

// chainPayments returns the payments of the slot's transactions; a consolidation makes none.
func (s slot) chainPayments(account chain.Address) []chain.Payment {
	return buildPayments(s.allOrders(), account)
}

func buildPayments(orders []Order, account chain.Address) []chain.Payment {
	var ps []chain.Payment
	for _, o := range orders {
		if !o.Kind().Consolidates {
			ps = append(ps, o.chainPayment(account))
		}
	}
	return ps
}

func orderIDs(orders []Order) []string {
	ids := make([]string, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	return ids
}

// equalShare returns one order's share of an amount that all orders of a slot bear. The shares are
// equal; the lead order takes the remainder of the division.
func equalShare(whole money.Amount, orders int, isLead bool) (money.Amount, error) {
	part, remainder := whole.Split(uint64(orders))
	if isLead {
		return part.Add(remainder)
	}
	return part, nil
}

func (s slot) newestAttempt() attempt { return s.Attempts[len(s.Attempts)-1] }

func (s slot) newestSigned() attempt {
	for i := len(s.Attempts) - 1; ; i-- {
		if s.Attempts[i].Raw != nil {
			return s.Attempts[i]
		}
	}
}

// isSuperseded reports whether the signer is no longer asked to sign an attempt, because a later
// cancel is to take the slot. A late answer to an earlier request may still sign it; the end of
// that transaction is recognized all the same.
func (s slot) isSuperseded(attempt attempt) bool {
	return attempt.Raw == nil && attempt.Version < s.newestAttempt().Version && s.newestAttempt().Act == signer.Cancel
}

// ordersToFreeze returns the orders for a freeze check after they got their slot. It clears the
// customer: a customer's freeze comes too late then, because an unused slot would hold up every
// later payment of the wallet. An order that has ended and is sent again keeps its customer, since
// that is a new payment: the customer may be frozen because the reorg took their deposit.
// Rules WD-39 and CUS-6.
func (s slot) ordersToFreeze() []Order {
	orders := s.allOrders()
	for i, o := range orders {
		if o.Status != Paid && o.Status != Failed {
			orders[i].CustomerID = ""
		}
	}
	return orders
}

// signedHashes returns the hashes of the transactions that may have been sent.
func (s slot) signedHashes() []chain.TxHash {
	var hashes []chain.TxHash
	for _, a := range s.Attempts {
		if a.Raw != nil {
			hashes = append(hashes, a.Hash)
		}
	}
	return hashes
}

// wasSent reports whether a transaction of the slot was sent, as far as the database knows.
func (s slot) wasSent() bool {
	return s.Status == Broadcast || slices.ContainsFunc(s.Attempts, func(a attempt) bool { return a.SentAt != nil })
}

// otherHashes returns the hashes of the signed transactions other than the one that ended the slot.
func (s slot) otherHashes(endHash chain.TxHash) []chain.TxHash {
	return slices.DeleteFunc(s.signedHashes(), func(h chain.TxHash) bool { return h == endHash })
}

func (s slot) findAttempt(hash chain.TxHash) attempt {
	for _, a := range s.Attempts {
		if a.Raw != nil && a.Hash == hash {
			return a
		}
	}
	panic(fmt.Sprintf("dispatch: order %s has no transaction %s", s.ID, hash))
}

// assignSlot gives orders their slot, in the order of their ids. It returns false if they have to
// wait for it.
func (d *Worker) assignSlot(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, candidates []candidate, fees chain.Fees,
	admitted []signer.Entry,
) (bool, error) {
	orders := candidateOrders(candidates)
	err := d.slots.create(func() error {
		return d.createSlot(ctx, payer, acct, orders, candidates[0].nativeMintID, fees, admitted)
	})
	if err == nil {
		return true, nil
	}
	unhandled, waitErr := d.slots.leaveWithout(ctx, orders, candidates[0].nativeMintID, err)
	if unhandled == nil {
		return false, waitErr
	}
	var stopped *stoppedError
	var late *lateError
	switch {
	case errors.As(err, &late):
		return false, d.recallLate(ctx, late.order.ID)
	case errors.As(err, &stopped):
		return false, d.leaveWaiting(ctx, stopped.order, stopped.reason, money.Zero, stopped.detail)
	case errors.Is(err, wallet.ErrInsufficient):
		// Another order of this wallet took the funds since they were read.
		return false, d.leaveAllWaiting(
			ctx, orders, WaitNone, "the wallet's funds are reserved for another order",
		)
	default:
		return false, err
	}
}

// leaveAllWaiting leaves orders waiting for the same reason, up to the first error.
func (d *Worker) leaveAllWaiting(ctx context.Context, orders []Order, reason WaitReason, detail string) error {
	for _, o := range orders {
		if err := d.leaveWaiting(ctx, o, reason, money.Zero, detail); err != nil {
			return err
		}
	}
	return nil
}

// createSlot commits the slot together with the complete unsigned transaction. It reserves what the
// transaction moves and what it may cost. The first order becomes the lead.
func (d *Worker) createSlot(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, orders []Order, native int, fees chain.Fees,
	admitted []signer.Entry,
) error {
	lead := orders[0]
	cost, err := fees.Max()
	if err != nil {
		return fmt.Errorf("fee of order %s: %w", lead.ID, err)
	}
	payments := buildPayments(orders, payer.Address)
	var mints []int
	for _, o := range orders {
		mints = append(mints, o.MintID)
	}
	change, err := d.slots.changeAddress(ctx, lead)
	if err != nil {
		return err
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// No freeze and no quarantine can come between here and the commit. The transaction that
		// creates one either waits until the slot is there, or is seen here.
		if err := freeze.LockShared(ctx, tx); err != nil {
			return err
		}
		if _, err := mint.Usable(ctx, tx, mints); err != nil {
			return err
		}
		for _, o := range orders { // by id
			if _, err := lockOrder(ctx, tx, o.ID); err != nil {
				return err
			}
			// Checked again: the chain and the signer took their time, and a customer's freeze no
			// longer applies once there is a slot.
			if err := d.checkStopped(ctx, tx, o); err != nil {
				return err
			}
			if o.isLate(tx.Now) {
				return &lateError{o}
			}
		}
		if err := setStatus(ctx, tx, lead.ID, Queued, Slotted, ""); err != nil {
			return err
		}
		if len(orders) > 1 {
			if err := setStatuses(
				ctx, tx, orderIDs(orders[1:]), Queued, Slotted, "tx_lead_id = $4", lead.ID,
			); err != nil {
				return err
			}
		}
		taken := takenSlot{fees: fees, cost: cost}
		if taken.Nonce, err = takeNonce(ctx, tx, payer, lead.Chain); err != nil {
			return err
		}
		if err := d.slots.take(ctx, tx, acct, orders, native, change, payments, &taken); err != nil {
			return err
		}
		payload, err := d.chain.Sender.Build(payer.Address, taken.Slot, taken.fees, payments...)
		if err != nil {
			return fmt.Errorf("build order %s: %w", lead.ID, err)
		}
		moves := []wallet.Movement{{
			WalletID: payer.ID, OrgID: lead.OrgID, MintID: native, Part: wallet.GasReserved, Plus: taken.cost,
		}}
		for _, o := range orders {
			if kind := o.Kind(); kind.Reserves != "" && !kind.ReservedBySubmitter {
				moves = append(moves, wallet.Movement{
					WalletID: o.SourceWalletID(), OrgID: o.OrgID, MintID: o.MintID, Part: kind.Reserves,
					Plus: o.Amount,
				})
			}
		}
		if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, proof, org_id, order_id, gas_reserved, created_at, orders)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			payer.ID, lead.Chain, taken.Nonce, taken.Key, taken.proof, lead.OrgID, lead.ID, taken.cost, tx.Now,
			len(orders)); err != nil {
			return fmt.Errorf("%v of order %s: %w", taken.Slot, lead.ID, err)
		}
		if err := d.slots.reserve(ctx, tx, lead, taken.Slot); err != nil {
			return err
		}
		if err := insertAttempt(ctx, tx, lead, 1, signer.Pay, reasonFirst, taken.fees, payload); err != nil {
			return err
		}
		for _, e := range admitted {
			if err := d.mirror(ctx, tx, e); err != nil {
				return err
			}
		}
		for _, o := range orders {
			if err := recordAudit(ctx, tx, o, "slotted", slotDetail(taken.Slot, o, lead)); err != nil {
				return err
			}
		}
		failpoint.HitBeforeCommit("W08")
		return nil
	})
	if err == nil {
		failpoint.Hit("W08")
	}
	return err
}

// slotDetail returns what the audit log records of a slot.
func slotDetail(chainSlot chain.Slot, o, lead Order) map[string]any {
	detail := map[string]any{"nonce": chainSlot.Nonce}
	if chainSlot.Key != "" {
		detail["lease"] = chainSlot.Key
	}
	if o.ID != lead.ID {
		detail["rides"] = lead.ID
	}
	return detail
}

func loadNativeMint(ctx context.Context, tx pg.Tx, name chain.Name) (int, error) {
	var id int
	if err := tx.QueryRow(
		ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, name,
	).Scan(&id); err != nil {
		return 0, fmt.Errorf("native coin of %s: %w", name, err)
	}
	return id, nil
}

// lockSlot reads all orders of a slot under their row locks. It locks them by id, as every caller
// locks orders; the lead order has the lowest id and comes first.
func lockSlot(ctx context.Context, tx pg.Tx, leadID string) ([]Order, error) {
	rows, err := tx.Query(
		ctx,
		selectOrders+` FROM dispatch_orders WHERE order_id = $1 OR tx_lead_id = $1 ORDER BY order_id COLLATE "C" FOR UPDATE`,
		leadID,
	)
	if err != nil {
		return nil, fmt.Errorf("lock the slot of order %s: %w", leadID, err)
	}
	orders, err := pgx.CollectRows(rows, scanOrder)
	if err != nil {
		return nil, fmt.Errorf("lock the slot of order %s: %w", leadID, err)
	}
	if len(orders) == 0 || orders[0].ID != leadID {
		return nil, fmt.Errorf("lock the slot of order %s: it does not lead a transaction", leadID)
	}
	return orders, nil
}

// noteError stores with the open orders of a slot what they wait for, where a person looks.
func (d *Worker) noteError(ctx context.Context, s slot, detail string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_orders SET last_error = $2
			WHERE order_id = ANY ($1) AND status IN ('SLOTTED', 'SIGNED', 'BROADCAST') AND last_error IS DISTINCT FROM $2`,
			orderIDs(orders), truncateError(detail))
		if err != nil {
			return fmt.Errorf("record the wait reason of order %s: %w", s.ID, err)
		}
		return nil
	})
}

const selectSlots = `
	SELECT o.order_id, o.org_id, o.purpose, o.chain, o.wallet_id, coalesce(o.from_wallet_id, ''),
		coalesce((SELECT f.address FROM wallets f WHERE f.wallet_id = o.from_wallet_id), ''), coalesce(o.to_wallet_id, ''), o.to_address, o.mint_id,
	       o.contract, o.amount, coalesce(o.customer_id, ''), coalesce(o.product, ''), coalesce(o.whitelisted_address_id, ''), o.key_hash, o.fee_max, o.fee_deducted, o.authority, o.status, coalesce(o.waiting_for, ''), o.created_at, coalesce(o.tx_lead_id, ''), o.pay_by, o.swap, o.refund, o.batch,
	       s.nonce, s.slot_key, s.proof, s.gas_reserved, o.funds_pending, s.missing_since
	FROM dispatch_orders o JOIN dispatch_slots s USING (order_id)`

// loadOpenSlots returns a wallet's slots whose orders have not ended, by nonce.
func loadOpenSlots(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) ([]slot, error) {
	slots, err := querySlots(ctx, tx, selectSlots+`
		WHERE o.chain = $1 AND o.wallet_id = $2 AND o.status IN ('SLOTTED', 'SIGNED', 'BROADCAST')
		ORDER BY s.nonce`, name, walletID)
	if err != nil {
		return nil, fmt.Errorf("open slots: %w", err)
	}
	return slots, nil
}

func querySlots(ctx context.Context, tx pg.Tx, query string, args ...any) ([]slot, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	slots, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (slot, error) {
		var s slot
		return s, row.Scan(append(
			s.scanTargets(), &s.ChainSlot.Nonce, &s.ChainSlot.Key, &s.Proof, &s.GasReserved, &s.FundsPending,
			&s.MissingSince,
		)...)
	})
	if err != nil {
		return nil, err
	}
	if err := loadTxMembers(ctx, tx, slots); err != nil {
		return nil, err
	}
	leads := make([]string, len(slots))
	for i := range slots {
		leads[i] = slots[i].ID
	}
	attempts, err := loadAttempts(ctx, tx, leads...)
	if err != nil {
		return nil, err
	}
	for i := range slots {
		slots[i].Attempts = attempts[slots[i].ID]
	}
	return slots, nil
}

// loadTxMembers reads the member orders of slots.
func loadTxMembers(ctx context.Context, tx pg.Tx, slots []slot) error {
	slotsByID := map[string]*slot{}
	leadIDs := make([]string, len(slots))
	for i := range slots {
		slotsByID[slots[i].ID], leadIDs[i] = &slots[i], slots[i].ID
	}
	rows, err := tx.Query(
		ctx, selectOrders+` FROM dispatch_orders WHERE tx_lead_id = ANY ($1) ORDER BY order_id COLLATE "C"`, leadIDs,
	)
	if err != nil {
		return fmt.Errorf("read the members of slots: %w", err)
	}
	members, err := pgx.CollectRows(rows, scanOrder)
	if err != nil {
		return fmt.Errorf("read the members of slots: %w", err)
	}
	for _, o := range members {
		slotsByID[o.TxLeadID].TxMembers = append(slotsByID[o.TxLeadID].TxMembers, o)
	}
	return nil
}

// loadAttempts returns the transactions of orders, each order's oldest first.
func loadAttempts(ctx context.Context, tx pg.Tx, orderIDs ...string) (map[string][]attempt, error) {
	rows, err := tx.Query(ctx, `
		SELECT order_id, version, act, coalesce(replace_reason, ''), gas_limit, tip_cap, fee_cap, non_gas_fee, coalesce(last_valid_block, 0), payload, raw, coalesce(tx_hash, ''), created_at, sent_at, last_sent_at
		FROM dispatch_attempts WHERE order_id = ANY ($1) ORDER BY order_id, version`, orderIDs)
	if err != nil {
		return nil, fmt.Errorf("transactions of orders: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (attempt, error) {
		var a attempt
		return a, row.Scan(&a.OrderID, &a.Version, &a.Act, &a.Reason, &a.Fees.GasLimit, &a.Fees.TipCap, &a.Fees.FeeCap,
			&a.Fees.NonGas, &a.Fees.LastValidBlock,
			&a.Payload, &a.Raw, &a.Hash, &a.CreatedAt, &a.SentAt, &a.LastSentAt)
	})
	if err != nil {
		return nil, fmt.Errorf("transactions of orders: %w", err)
	}
	attempts := map[string][]attempt{}
	for _, a := range all {
		attempts[a.OrderID] = append(attempts[a.OrderID], a)
	}
	return attempts, nil
}

// insertAttempt inserts a complete unsigned transaction into its slot. Error: errLostRace if that
// version exists.
func insertAttempt(
	ctx context.Context, tx pg.Tx, o Order, version int, act signer.Act, reason attemptReason, fees chain.Fees,
	payload []byte,
) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO dispatch_attempts (order_id, version, org_id, act, replace_reason, gas_limit, tip_cap, fee_cap, non_gas_fee, last_valid_block, payload, created_at)
		VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7, $8, $9, nullif($10::bigint, 0), $11, $12)`,
		o.ID, version, o.OrgID, act, reason, fees.GasLimit, fees.TipCap, fees.FeeCap, fees.NonGas, fees.LastValidBlock,
		payload, tx.Now)
	if pg.ViolatesConstraint(err, "dispatch_attempts_pkey") {
		return fmt.Errorf("attempt %d of order %s: %w", version, o.ID, errLostRace)
	}
	if err != nil {
		return fmt.Errorf("attempt %d of order %s: %w", version, o.ID, err)
	}
	return nil
}
