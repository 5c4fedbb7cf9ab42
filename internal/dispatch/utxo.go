package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
)

// On UTXO chains, a slot is the set of outputs that its transactions spend. They are chosen and
// reserved in the transaction that writes the slot. See docs/design/bitcoin.md#slots.

// utxoSet is the slot model of UTXO chains. The slot key names the outputs that the slot spends and
// its change address. An order takes free outputs and reserves them. The slot is used once one of
// them is spent, in the latest block or finally, and free until then. At the end of the order, the
// outputs are released as spent, and the change becomes free, unless it is a flagged deposit.
type utxoSet struct {
	nonceOnly
	outputs chain.UTXOModel
}

// changeWalletTries is how often a slot is tried again after another slot got its change wallet.
const changeWalletTries = 5

func (utxoSet) create(write func() error) error {
	for range changeWalletTries {
		if err := write(); !pg.ViolatesConstraint(err, "dispatch_slots_change_once") {
			return err
		}
	}
	return errChangeWalletTaken
}

func (m utxoSet) take(
	ctx context.Context, tx pg.Tx, _ chain.Account, orders []Order, native int, change chain.Address,
	payments []chain.Payment, taken *takenSlot,
) (err error) {
	taken.Key, taken.fees, err = m.selectOutputs(ctx, tx, orders[0], native, change, taken.fees, payments...)
	if err != nil {
		return err
	}
	taken.cost, err = checkSlotCost(ctx, tx, orders, native, taken.fees)
	return err
}

// release marks the lead's outputs as spent; members have none.
func (utxoSet) release(ctx context.Context, tx pg.Tx, end orderEnd) error {
	return utxo.MarkSpent(ctx, tx, end.ID, end.Hash, end.Kind().MovesFlagged && !end.Paid)
}

// WalletIssuer issues wallets. wallet.Service is one.
type WalletIssuer interface {
	Address(ctx context.Context, ref signer.WalletRef) (wallet.Wallet, error)
}

// Option changes a Worker.
type Option func(*Worker)

// WithChangeWallets sets the issuer of change wallets. Without it, the Worker pays nothing on UTXO
// chains.
func WithChangeWallets(issuer WalletIssuer) Option {
	return func(d *Worker) { d.changeWallets = issuer }
}

// WithVoider sets the Voider that has the signer void orders that people recall. Without it, the
// Voider that runs elsewhere does so.
func WithVoider(voider *Voider) Option { return func(d *Worker) { d.voider = voider } }

// The reasons why an order has no slot on a UTXO chain.
type (
	selectionError       struct{ cause error }       // no suitable outputs
	changeWalletError    struct{ cause error }       // no change wallet could be issued
	feeLimitError        struct{ cost money.Amount } // the cost of the outputs exceeds the order's own limit
	insufficientGasError struct{ cost money.Amount } // the cost of the outputs exceeds the wallet's gas
)

func (e *selectionError) Error() string { return e.cause.Error() }
func (e *selectionError) Unwrap() error { return e.cause }
func (e *changeWalletError) Error() string {
	return "the wallet of its change output: " + e.cause.Error()
}
func (e *changeWalletError) Unwrap() error { return e.cause }
func (e *feeLimitError) Error() string     { return fmt.Sprintf("its outputs cost up to %v", e.cost) }

func (e *insufficientGasError) Error() string {
	return fmt.Sprintf("its outputs cost up to %v", e.cost)
}

// errNoFlaggedOutput says that the output of a flagged deposit is not there to be returned.
var errNoFlaggedOutput = errors.New(
	"the output that has to be spent is not there: there was a finality break below it, or it is not final again",
)

// errChangeWalletTaken says that another slot got the change wallet of this one, in every try.
var errChangeWalletTaken = errors.New("another slot took the change wallet, repeatedly")

// changeLookback is how many of an organization's change wallets, the newest ones, NextChangeWallet
// considers. An unused one is among them, because every slot takes the first unused one.
const changeLookback = 100

// NextChangeWallet returns the wallet for the change output of the next slot, or for the output of
// a consolidation. It is the organization's first change wallet that no slot and no queued
// consolidation names, else the next number. Two callers may get the same wallet, and one of them
// keeps it: see dispatch_slots_change_once and docs/design/bitcoin.md#change-wallets. Rule COIN-9.
func NextChangeWallet(ctx context.Context, tx pg.Tx, ch chain.Name, org string) (signer.WalletRef, error) {
	var number uint64
	err := tx.QueryRow(ctx, `
		WITH numbered AS (
			SELECT subject::bigint AS number, wallet_id, address FROM wallets
			WHERE org_id = $1 AND family = $2 AND purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$'
			ORDER BY length(subject) DESC, subject DESC LIMIT $4)
		SELECT coalesce(
			(SELECT min(number) FROM numbered w
				WHERE NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.chain = $3 AND is_utxo(s.chain) AND split_part(s.slot_key, ' ', -1) = w.address)
				AND NOT EXISTS (SELECT FROM dispatch_orders o WHERE o.to_wallet_id = w.wallet_id AND o.purpose = 'MERGE' AND o.status = 'QUEUED')),
			(SELECT max(number) + 1 FROM numbered), 1)`, org, string(ch.Family()), ch, changeLookback).Scan(&number)
	if err != nil {
		return signer.WalletRef{}, fmt.Errorf("find a change wallet for outputs of %s: %w", org, err)
	}
	return signer.WalletRef{
		OrgID: org, Family: ch.Family(), Purpose: wallet.Change, Subject: strconv.FormatUint(number, 10),
	}, nil
}

// changeAddress returns the address of an order's change output. The address of a consolidation was
// chosen when it was planned.
func (m utxoSet) changeAddress(ctx context.Context, o Order) (chain.Address, error) {
	if m.d.changeWallets == nil {
		return "", &changeWalletError{errors.New("this service does not issue it")}
	}
	var ref signer.WalletRef
	err := m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if !o.Kind().Consolidates {
			ref, err = NextChangeWallet(ctx, tx, o.Chain, o.OrgID)
			return err
		}
		w, err := wallet.ByID(ctx, tx, o.ToWalletID)
		ref = w.Ref()
		return err
	})
	if err != nil {
		return "", err
	}
	w, err := m.d.changeWallets.Address(ctx, ref)
	if err != nil {
		return "", &changeWalletError{err}
	}
	return w.Address, nil
}

// selectOutputs locks outputs and picks those that make the payments of an order and of its
// members. It returns the slot key and the cost. price holds the quoted fees.
func (m utxoSet) selectOutputs(
	ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees, ps ...chain.Payment,
) (string, chain.Fees, error) {
	if o.Kind().Consolidates {
		return m.selectConsolidation(ctx, tx, o, native, change, price)
	}
	reserved, free, err := utxo.LockCandidates(ctx, tx, o.Chain, o.OrgID, native, o.ID)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if o.Kind().MovesFlagged && len(reserved) == 0 {
		return "", chain.Fees{}, errNoFlaggedOutput
	}
	slotKey, fees, err := m.outputs.SelectOutputs(reserved, free, change, price, ps...)
	if err != nil {
		return "", fees, &selectionError{err}
	}
	return slotKey, fees, nil
}

// reserve reserves the outputs of a slot for its order, after the slot was written.
func (m utxoSet) reserve(ctx context.Context, tx pg.Tx, o Order, chainSlot chain.Slot) error {
	outputs, err := m.outputs.Inputs(chainSlot.Key)
	if err != nil {
		return fmt.Errorf("read the slot of order %s: %w", o.ID, err)
	}
	return utxo.Reserve(ctx, tx, o.Chain, o.ID, outputs)
}

// errSplitGroup says that no outputs suffice for the orders together, but may for each alone.
var errSplitGroup = errors.New("their outputs are too small for all of them")

// leaveWithout leaves orders waiting, or ends one, that got no slot because of the outputs. For
// several orders it may return errSplitGroup, so that the caller tries them in parts. unhandled is
// cause, if that is an error of another kind.
func (m utxoSet) leaveWithout(ctx context.Context, orders []Order, native int, cause error) (unhandled, err error) {
	o := orders[0]
	var insufficient *chain.InsufficientOutputsError
	var selection *selectionError
	var changeWallet *changeWalletError
	var feeLimit *feeLimitError
	var insufficientGas *insufficientGasError
	var notConsolidated *notConsolidatedError
	switch {
	case o.Kind().IsOptional &&
		(errors.As(cause, &notConsolidated) || errors.As(cause, &insufficientGas) || errors.Is(cause, utxo.ErrTaken) ||
			errors.Is(cause, errChangeWalletTaken)):
		return nil, m.d.refuseConsolidation(ctx, o, cause)
	case errors.As(cause, &changeWallet):
		for _, o := range orders {
			err = errors.Join(err, m.d.leaveWaiting(ctx, o, WaitSigner, money.Zero, cause.Error()))
		}
		return nil, err
	case len(orders) > 1 &&
		(errors.As(cause, &selection) || errors.As(cause, &feeLimit) || errors.As(cause, &insufficientGas)):
		return nil, errSplitGroup
	case errors.As(cause, &insufficient) && insufficient.TooManyInputs && m.d.chain.Consolidator != nil:
		return nil, m.d.leaveWaiting(ctx, o, WaitConsolidation, insufficient.Missing, cause.Error())
	case errors.As(cause, &insufficient):
		return nil, m.d.leaveWaiting(ctx, o, WaitOutputs, insufficient.Missing, cause.Error())
	case errors.As(cause, &selection), errors.Is(cause, errNoFlaggedOutput), errors.Is(cause, utxo.ErrTaken),
		errors.Is(cause, errChangeWalletTaken):
		for _, o := range orders {
			err = errors.Join(err, m.d.leaveWaiting(ctx, o, WaitOutputs, money.Zero, cause.Error()))
		}
		return nil, err
	case errors.As(cause, &feeLimit):
		return nil, m.d.refuseOrder(ctx, o, &signer.Refusal{
			Code:    FeeRefused,
			Message: fmt.Sprintf("its outputs can cost up to %v, and the request allows %v", feeLimit.cost, *o.FeeMax),
		})
	case errors.As(cause, &insufficientGas):
		return nil, m.d.leaveUnderfunded(
			ctx, o, WaitGas, native, insufficientGas.cost, "the wallet cannot pay for the outputs yet",
		)
	}
	return cause, nil
}

// checkSlotCost returns the most that a slot of orders may cost. Errors: feeLimitError if an
// order's share exceeds its limit, insufficientGasError if the wallet lacks the gas. Rule WD-40.
func checkSlotCost(ctx context.Context, tx pg.Tx, orders []Order, native int, fees chain.Fees) (money.Amount, error) {
	cost, err := fees.Max()
	if err != nil {
		return cost, fmt.Errorf("fee of order %s: %w", orders[0].ID, err)
	}
	share := signer.MaxFeeShare(cost, len(orders))
	for _, o := range orders {
		if o.exceedsFeeMax(share) {
			return cost, &feeLimitError{share}
		}
	}
	funds, err := wallet.LoadFunds(ctx, tx, orders[0].WalletID, native)
	if err != nil {
		return cost, err
	}
	if !shortfall(cost, funds.GasSpendable()).IsZero() {
		return cost, &insufficientGasError{cost}
	}
	return cost, nil
}

// claimOutputs reserves for a restored order the outputs that the journal's signature spends.
func (j JournalRestorer) claimOutputs(ctx context.Context, tx pg.Tx, o Order, chainSlot chain.Slot, native int) error {
	if !o.Chain.IsUTXO() {
		return nil
	}
	if j.ReadInputs == nil {
		return fmt.Errorf("%s is not configured, and its outputs cannot be read", o.Chain)
	}
	outputs, err := j.ReadInputs(o.Chain, chainSlot.Key)
	if err != nil {
		return fmt.Errorf("read the outputs of %v: %w", chainSlot, err)
	}
	return utxo.ReserveJournaled(ctx, tx, o.Chain, o.OrgID, native, o.ID, o.CreatedAt, outputs)
}

// chainSlots returns the chain slots of slots, for chains that know a slot by its key alone.
func chainSlots[S interface{ chainSlot() chain.Slot }](slots []S) []chain.Slot {
	result := make([]chain.Slot, len(slots))
	for i, s := range slots {
		result[i] = s.chainSlot()
	}
	return result
}

func (s slot) chainSlot() chain.Slot { return s.ChainSlot }
