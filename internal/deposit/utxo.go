package deposit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
)

// On UTXO chains any output of an organization can pay any order. A credited deposit counts at the
// treasury from its credit on, at whichever address its output lies, and no sweep moves it. A
// flagged deposit stays at the address that received it. See docs/design/bitcoin.md#books.

// creditWallets maps an organization and a chain family to the wallet at which credited deposits
// count on UTXO chains: the treasury. Rule COIN-1.
type creditWallets map[creditWalletKey]string

type creditWalletKey struct {
	org    string
	family chain.Family
}

// walletFor returns the wallet at which a credited deposit counts. found is false if the deposit
// needs a treasury and its organization has none yet: then the deposit cannot be credited.
func (k creditWallets) walletFor(d storedDeposit) (walletID string, found bool) {
	if !d.chain.IsUTXO() {
		return d.walletID, true
	}
	walletID, found = k[creditWalletKey{d.orgID, d.chain.Family()}]
	return walletID, found
}

func creditWalletsFor(ctx context.Context, tx pg.Tx, deposits ...storedDeposit) (creditWallets, error) {
	orgs := map[chain.Family][]string{}
	for _, d := range deposits {
		if f := d.chain.Family(); d.chain.IsUTXO() && !slices.Contains(orgs[f], d.orgID) {
			orgs[f] = append(orgs[f], d.orgID)
		}
	}
	wallets := creditWallets{}
	for family, orgIDs := range orgs {
		found, err := wallet.TreasuryIDs(ctx, tx, family, orgIDs...)
		if err != nil {
			return nil, err
		}
		for org, walletID := range found {
			wallets[creditWalletKey{org, family}] = walletID
		}
	}
	return wallets, nil
}

func creditWalletsOn(ctx context.Context, tx pg.Tx, ch chain.Name, found []scan.Arrival) (creditWallets, error) {
	var deposits []storedDeposit
	for _, f := range found {
		deposits = append(deposits, storedDeposit{chain: ch, orgID: f.Wallet.OrgID})
	}
	return creditWalletsFor(ctx, tx, deposits...)
}

// recordOutputs records the outputs of final deposits. The output of a credited deposit can be
// spent at once. Every other output waits until its deposit is decided. Rules COIN-1 and COIN-2.
func recordOutputs(ctx context.Context, tx pg.Tx, changes []change) error {
	var found []utxo.Output
	for _, c := range changes {
		after := c.after
		if after.proofID == nil || after.mintID == nil || after.chainStatus != chainFinalized {
			continue
		}
		found = append(found, utxo.Output{
			Chain: after.chain, Tx: after.tx, Position: after.position, OrgID: after.orgID,
			WalletID: after.walletID, MintID: *after.mintID, Amount: after.amount,
			DepositID: after.id, IsFree: after.status == Credited, ProofID: *after.proofID, Height: after.height,
		})
	}
	return utxo.AddFinal(ctx, tx, found...)
}

// takeChangeOutputs removes the change outputs of our own transactions from the arrivals of a
// block. A change output is no deposit and has no posting, because the ledger never gave it away.
// In a final block it becomes an output that can be spent.
func takeChangeOutputs(
	ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Arrival,
) (remaining []scan.Arrival, err error) {
	var hashes []chain.TxHash
	for _, f := range found {
		if f.Wallet.Purpose == wallet.Change {
			hashes = append(hashes, f.Tx)
		}
	}
	if len(hashes) == 0 {
		return found, nil
	}
	changes, err := utxo.ChangeTargets(ctx, tx, ch, hashes)
	if err != nil {
		return nil, err
	}
	var outputs []utxo.Output
	for _, f := range found {
		if f.Wallet.Purpose != wallet.Change || changes[f.Tx].Address != f.Wallet.Address {
			remaining = append(remaining, f)
			continue
		}
		if proof == nil || f.Mint == nil {
			continue
		}
		outputs = append(outputs, utxo.Output{
			Chain: ch, Tx: f.Tx, Position: f.Position, OrgID: f.Wallet.OrgID, WalletID: f.Wallet.ID,
			MintID: f.Mint.ID, Amount: f.Amount,
			ChangeOf: changes[f.Tx].OrderID, ProofID: *proof, Height: b.Height,
		})
	}
	return remaining, utxo.AddFinal(ctx, tx, outputs...)
}

// reserveOutput assigns the output of a flagged deposit to the order that sends it away. If an
// earlier order was cancelled, it assigns the change output of that order.
func reserveOutput(ctx context.Context, tx pg.Tx, depositID, orderID string) error {
	earlierIDs, err := loadResolutionIDs(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return utxo.AssignHeld(ctx, tx, depositID, orderID, earlierIDs...)
}

// freeChangeOutputs frees the change outputs of the orders of a deposit from which nothing is sent
// any more.
func freeChangeOutputs(ctx context.Context, tx pg.Tx, depositID string) error {
	earlierIDs, err := loadResolutionIDs(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return utxo.FreeChange(ctx, tx, earlierIDs...)
}

// loadResolutionIDs returns the ids of the resolutions of a deposit, which are also the ids of
// their orders.
func loadResolutionIDs(ctx context.Context, tx pg.Tx, depositID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1`, depositID)
	if err != nil {
		return nil, fmt.Errorf("read the resolution of deposit %s: %w", depositID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the resolution of deposit %s: %w", depositID, err)
	}
	return found, nil
}
