package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where accounts are coins, a slot is the set of coins that its transactions spend: they
// are chosen and reserved in the transaction that writes it. See
// docs/design/bitcoin.md#slots.

// WaitOutputs is what an order waits for whose wallet holds the amount by the books, while
// too few coins can be spent: the rest of earlier payments is not final yet, or another
// desk is choosing.
const WaitOutputs WaitReason = "COINS"

// WaitConsolidation is what an order waits for whose wallet has the amount in more coins than one
// transaction spends: that some of them become one. It has that done at once, at the rate of
// payments; see docs/design/bitcoin.md#consolidation-on-demand.
const WaitConsolidation WaitReason = "MERGE"

// WalletIssuer gives out wallets. wallet.Service is one.
type WalletIssuer interface {
	Address(ctx context.Context, ref signer.WalletRef) (wallet.Wallet, error)
}

// Option changes a desk.
type Option func(*Worker)

// WithChangeWallets says who gives out the wallets to which the rest of coins comes back. Without it
// nothing is paid where accounts are coins.
func WithChangeWallets(issuer WalletIssuer) Option {
	return func(d *Worker) { d.changeWallets = issuer }
}

// WithVoider says who has the signer void what people end without a slot. Without it, the one
// that runs does.
func WithVoider(voider *Voider) Option { return func(d *Worker) { d.voider = voider } }

// Why an order has no slot where accounts are coins.
type (
	selectionError       struct{ cause error }       // no coins that would do
	changeWalletError    struct{ cause error }       // nobody gives out the wallet of its rest
	feeLimitError        struct{ cost money.Amount } // what its coins cost is above its own limit
	insufficientGasError struct{ cost money.Amount } // what its coins cost is more than its wallet has
)

func (e *selectionError) Error() string    { return e.cause.Error() }
func (e *selectionError) Unwrap() error    { return e.cause }
func (e *changeWalletError) Error() string { return "the wallet of its rest: " + e.cause.Error() }
func (e *changeWalletError) Unwrap() error { return e.cause }
func (e *feeLimitError) Error() string     { return fmt.Sprintf("its coins cost up to %v", e.cost) }

func (e *insufficientGasError) Error() string { return fmt.Sprintf("its coins cost up to %v", e.cost) }

// errNoFlaggedOutput says that the coin of a flagged deposit is not there to be sent away.
var errNoFlaggedOutput = errors.New("the coin that is to go away is not there: finality broke below it, or it is not final again")

// errChangeWalletTaken says that another slot got the wallet that the rest was to come back to.
var errChangeWalletTaken = errors.New("the wallet for its rest was taken by another slot, again and again")

// changeLookback is how many of an organization's wallets for change are looked at, the newest:
// one that no slot names lies among them, for whoever comes next takes the first.
const changeLookback = 100

// NextChangeWallet names the wallet to which the next slot's rest comes back, or the coin that a
// merge makes: the first of an organization's that neither a slot names nor a merge is to
// have, else the next number. Two may come to the same one, and one of them gets it: see
// dispatch_slots_change_once and docs/design/bitcoin.md#change-wallets.
func NextChangeWallet(ctx context.Context, tx pg.Tx, ch chain.Name, org string) (signer.WalletRef, error) {
	var number uint64
	err := tx.QueryRow(ctx, `
		WITH numbered AS (
			SELECT subject::bigint AS number, wallet_id, address FROM wallets
			WHERE org_id = $1 AND family = $2 AND purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$'
			ORDER BY length(subject) DESC, subject DESC LIMIT $4)
		SELECT coalesce(
			(SELECT min(number) FROM numbered w
				WHERE NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.chain = $3 AND pooled(s.chain) AND split_part(s.lease, ' ', -1) = w.address)
				AND NOT EXISTS (SELECT FROM dispatch_orders o WHERE o.to_wallet_id = w.wallet_id AND o.purpose = 'MERGE' AND o.status = 'QUEUED')),
			(SELECT max(number) + 1 FROM numbered), 1)`, org, string(ch.Family()), ch, changeLookback).Scan(&number)
	if err != nil {
		return signer.WalletRef{}, fmt.Errorf("find a wallet for the rest of coins of %s: %w", org, err)
	}
	return signer.WalletRef{OrgID: org, Family: ch.Family(), Purpose: wallet.Change, Subject: strconv.FormatUint(number, 10)}, nil
}

// changeAddress is the address to which the rest of an order's coins comes back; that of a merge
// was found when it was planned.
func (d *Worker) changeAddress(ctx context.Context, o Order) (chain.Address, error) {
	if d.changeWallets == nil {
		return "", &changeWalletError{errors.New("nobody gives it out here")}
	}
	var ref signer.WalletRef
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if o.Purpose != signer.Consolidate {
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
	w, err := d.changeWallets.Address(ctx, ref)
	if err != nil {
		return "", &changeWalletError{err}
	}
	return w.Address, nil
}

// selectOutputs locks coins, and picks those that make payments of an order and of those that go
// with it: the name of their slot and what it costs. price are fees that were quoted.
func (d *Worker) selectOutputs(ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees, ps ...chain.Payment) (string, chain.Fees, error) {
	if o.Purpose == signer.Consolidate {
		return d.selectConsolidation(ctx, tx, o, native, change, price)
	}
	reserved, free, err := coin.LockCandidates(ctx, tx, o.Chain, o.OrgID, native, o.ID)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if o.Purpose == signer.Return && len(reserved) == 0 {
		return "", chain.Fees{}, errNoFlaggedOutput
	}
	slotKey, fees, err := d.chain.UTXO.SelectOutputs(reserved, free, change, price, ps...)
	if err != nil {
		return "", fees, &selectionError{err}
	}
	return slotKey, fees, nil
}

// reserveOutputs gives an order the coins of its slot, which is written.
func (d *Worker) reserveOutputs(ctx context.Context, tx pg.Tx, o Order, chainSlot chain.Slot) error {
	outputs, err := d.chain.UTXO.Inputs(chainSlot.Key)
	if err != nil {
		return fmt.Errorf("read the slot of order %s: %w", o.ID, err)
	}
	return coin.Reserve(ctx, tx, o.Chain, o.ID, outputs)
}

// errSplitGroup says that orders have no coins together, and may have some one by one.
var errSplitGroup = errors.New("their coins do not do for all of them")

// handleNoOutputs leaves or ends what has no slot because of the coins: an order, while several
// are tried in parts. other is an error of another kind.
func (d *Worker) handleNoOutputs(ctx context.Context, orders []Order, native int, cause error) (unhandled, err error) {
	o := orders[0]
	var insufficient *chain.InsufficientOutputsError
	var selection *selectionError
	var changeWallet *changeWalletError
	var feeLimit *feeLimitError
	var insufficientGas *insufficientGasError
	var notConsolidated *notConsolidatedError
	switch {
	case o.Purpose == signer.Consolidate && (errors.As(cause, &notConsolidated) || errors.As(cause, &insufficientGas) || errors.Is(cause, coin.ErrTaken) || errors.Is(cause, errChangeWalletTaken)):
		return nil, d.refuseConsolidation(ctx, o, cause)
	case errors.As(cause, &changeWallet):
		for _, o := range orders {
			err = errors.Join(err, d.leaveWaiting(ctx, o, WaitSigner, money.Zero, cause.Error()))
		}
		return nil, err
	case len(orders) > 1 && (errors.As(cause, &selection) || errors.As(cause, &feeLimit) || errors.As(cause, &insufficientGas)):
		return nil, errSplitGroup
	case errors.As(cause, &insufficient) && insufficient.TooManyInputs && d.chain.Consolidator != nil:
		return nil, d.leaveWaiting(ctx, o, WaitConsolidation, insufficient.Missing, cause.Error())
	case errors.As(cause, &insufficient):
		return nil, d.leaveWaiting(ctx, o, WaitOutputs, insufficient.Missing, cause.Error())
	case errors.As(cause, &selection), errors.Is(cause, errNoFlaggedOutput), errors.Is(cause, coin.ErrTaken), errors.Is(cause, errChangeWalletTaken):
		for _, o := range orders {
			err = errors.Join(err, d.leaveWaiting(ctx, o, WaitOutputs, money.Zero, cause.Error()))
		}
		return nil, err
	case errors.As(cause, &feeLimit):
		return nil, d.refuseOrder(ctx, o, &signer.Refusal{Code: FeeRefused, Message: fmt.Sprintf("its coins may cost up to %v, and the request allows %v", feeLimit.cost, *o.FeeMax)})
	case errors.As(cause, &insufficientGas):
		return nil, d.leaveUnderfunded(ctx, o, WaitGas, native, insufficientGas.cost, "the wallet cannot pay for the coins yet")
	}
	return cause, nil
}

// checkSlotCost is what a slot of orders may cost, of what their wallet has.
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

// claimOutputs gives a restored order the coins that the journal signed for.
func (j JournalRestorer) claimOutputs(ctx context.Context, tx pg.Tx, o Order, chainSlot chain.Slot, native int) error {
	if !o.Chain.IsUTXO() {
		return nil
	}
	if j.ReadInputs == nil {
		return fmt.Errorf("%s is not configured, and its coins cannot be read", o.Chain)
	}
	outputs, err := j.ReadInputs(o.Chain, chainSlot.Key)
	if err != nil {
		return fmt.Errorf("the coins of %v: %w", chainSlot, err)
	}
	return coin.ReserveJournaled(ctx, tx, o.Chain, o.OrgID, native, o.ID, o.CreatedAt, outputs)
}

// chainSlots are the places of slots, for chains that know them by name alone.
func chainSlots[S interface{ chainSlot() chain.Slot }](slots []S) []chain.Slot {
	result := make([]chain.Slot, len(slots))
	for i, s := range slots {
		result[i] = s.chainSlot()
	}
	return result
}

func (s slot) chainSlot() chain.Slot { return s.ChainSlot }
