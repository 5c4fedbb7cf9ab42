package deposit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where accounts are coins, any coin of an organization pays anything: what is credited
// counts at its treasury from the credit on, wherever its coin lies, and no sweep moves
// it. What is flagged stays at the address that received it. See
// docs/design/bitcoin.md#books.

// creditWallets are the wallets at which what is credited counts on such chains.
type creditWallets map[creditWalletKey]string

type creditWalletKey struct {
	org    string
	family chain.Family
}

// walletFor is the wallet at which a credited deposit counts, unless its organization has no
// treasury yet where it needs one: then it cannot be credited.
func (k creditWallets) walletFor(d Deposit) (walletID string, found bool) {
	if !d.chain.IsUTXO() {
		return d.walletID, true
	}
	walletID, found = k[creditWalletKey{d.orgID, d.chain.Family()}]
	return walletID, found
}

func creditWalletsFor(ctx context.Context, tx pg.Tx, deposits ...Deposit) (creditWallets, error) {
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
	var deposits []Deposit
	for _, f := range found {
		deposits = append(deposits, Deposit{chain: ch, orgID: f.Wallet.OrgID})
	}
	return creditWalletsFor(ctx, tx, deposits...)
}

// recordOutputs takes in the coins that final deposits are. Who is credited at once may be paid
// out at once; every other coin waits for what becomes of its deposit.
func recordOutputs(ctx context.Context, tx pg.Tx, changes []change) error {
	var found []coin.Output
	for _, c := range changes {
		after := c.after
		if after.proofID == nil || after.mintID == nil || after.chainStatus != chainFinalized {
			continue
		}
		found = append(found, coin.Output{
			Chain: after.chain, Tx: after.tx, Position: after.position, OrgID: after.orgID, WalletID: after.walletID, MintID: *after.mintID, Amount: after.amount,
			DepositID: after.id, IsFree: after.status == Credited, ProofID: *after.proofID, Height: after.height,
		})
	}
	return coin.AddFinal(ctx, tx, found...)
}

// takeChangeOutputs takes what our own transactions bring back to the addresses made for that out of
// what a block shows: it is no deposit and nothing in the books, which never gave it away.
// Final, it is a coin again.
func takeChangeOutputs(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Arrival) (remaining []scan.Arrival, err error) {
	var hashes []chain.TxHash
	for _, f := range found {
		if f.Wallet.Purpose == wallet.Change {
			hashes = append(hashes, f.Tx)
		}
	}
	if len(hashes) == 0 {
		return found, nil
	}
	changes, err := coin.ChangeTargets(ctx, tx, ch, hashes)
	if err != nil {
		return nil, err
	}
	var outputs []coin.Output
	for _, f := range found {
		if f.Wallet.Purpose != wallet.Change || changes[f.Tx].Address != f.Wallet.Address {
			remaining = append(remaining, f)
			continue
		}
		if proof == nil || f.Mint == nil {
			continue
		}
		outputs = append(outputs, coin.Output{
			Chain: ch, Tx: f.Tx, Position: f.Position, OrgID: f.Wallet.OrgID, WalletID: f.Wallet.ID, MintID: f.Mint.ID, Amount: f.Amount,
			ChangeOf: changes[f.Tx].OrderID, ProofID: *proof, Height: b.Height,
		})
	}
	return remaining, coin.AddFinal(ctx, tx, outputs...)
}

// reserveOutput keeps the coin of a flagged deposit for the order that sends it away, or what came
// back of it when an earlier order was cancelled.
func reserveOutput(ctx context.Context, tx pg.Tx, depositID, orderID string) error {
	earlierIDs, err := loadResolutionIDs(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return coin.AssignHeld(ctx, tx, depositID, orderID, earlierIDs...)
}

// freeChangeOutputs frees what came back of a deposit that nothing is to be sent of any more.
func freeChangeOutputs(ctx context.Context, tx pg.Tx, depositID string) error {
	earlierIDs, err := loadResolutionIDs(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return coin.FreeChange(ctx, tx, earlierIDs...)
}

// loadResolutionIDs are the orders that were to send a deposit away.
func loadResolutionIDs(ctx context.Context, tx pg.Tx, depositID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1`, depositID)
	if err != nil {
		return nil, fmt.Errorf("read what was decided about deposit %s: %w", depositID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read what was decided about deposit %s: %w", depositID, err)
	}
	return found, nil
}
