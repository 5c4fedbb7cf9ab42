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

// keepers are the wallets at which what is credited counts on such chains.
type keepers map[keeping]string

type keeping struct {
	org    string
	family chain.Family
}

// of is the wallet at which a credited deposit counts, unless its organization has no
// treasury yet where it needs one: then it cannot be credited.
func (k keepers) of(d row) (walletID string, known bool) {
	if !d.chain.Pooled() {
		return d.walletID, true
	}
	walletID, known = k[keeping{d.orgID, d.chain.Family()}]
	return walletID, known
}

func keepersOf(ctx context.Context, tx pg.Tx, of ...row) (keepers, error) {
	orgs := map[chain.Family][]string{}
	for _, d := range of {
		if f := d.chain.Family(); d.chain.Pooled() && !slices.Contains(orgs[f], d.orgID) {
			orgs[f] = append(orgs[f], d.orgID)
		}
	}
	k := keepers{}
	for family, named := range orgs {
		found, err := wallet.Treasuries(ctx, tx, family, named...)
		if err != nil {
			return nil, err
		}
		for org, walletID := range found {
			k[keeping{org, family}] = walletID
		}
	}
	return k, nil
}

func keepersOn(ctx context.Context, tx pg.Tx, ch chain.Name, found []scan.Found) (keepers, error) {
	var of []row
	for _, f := range found {
		of = append(of, row{chain: ch, orgID: f.Wallet.OrgID})
	}
	return keepersOf(ctx, tx, of...)
}

// outputs takes in the coins that final deposits are. Who is credited at once may be paid
// out at once; every other coin waits for what becomes of its deposit.
func outputs(ctx context.Context, tx pg.Tx, changes []change) error {
	var found []coin.Found
	for _, c := range changes {
		is := c.is
		if is.proofID == nil || is.mintID == nil || is.chainStatus != finalized {
			continue
		}
		found = append(found, coin.Found{
			Chain: is.chain, Tx: is.tx, Position: is.position, OrgID: is.orgID, WalletID: is.walletID, MintID: *is.mintID, Amount: is.amount,
			DepositID: is.id, Free: is.status == Credited, ProofID: *is.proofID, Height: is.height,
		})
	}
	return coin.Find(ctx, tx, found...)
}

// rests takes what our own transactions bring back to the addresses made for that out of
// what a block shows: it is no deposit and nothing in the books, which never gave it away.
// Final, it is a coin again.
func rests(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, proof *int64, found []scan.Found) (others []scan.Found, err error) {
	var hashes []chain.TxHash
	for _, f := range found {
		if f.Wallet.Purpose == wallet.Change {
			hashes = append(hashes, f.Tx)
		}
	}
	if len(hashes) == 0 {
		return found, nil
	}
	ours, err := coin.Rests(ctx, tx, ch, hashes)
	if err != nil {
		return nil, err
	}
	var back []coin.Found
	for _, f := range found {
		if f.Wallet.Purpose != wallet.Change || ours[f.Tx].To != f.Wallet.Address {
			others = append(others, f)
			continue
		}
		if proof == nil || f.Mint == nil {
			continue
		}
		back = append(back, coin.Found{
			Chain: ch, Tx: f.Tx, Position: f.Position, OrgID: f.Wallet.OrgID, WalletID: f.Wallet.ID, MintID: f.Mint.ID, Amount: f.Amount,
			ChangeOf: ours[f.Tx].OrderID, ProofID: *proof, Height: b.Height,
		})
	}
	return others, coin.Find(ctx, tx, back...)
}

// keep keeps the coin of a flagged deposit for the order that sends it away, or what came
// back of it when an earlier order was cancelled.
func keep(ctx context.Context, tx pg.Tx, depositID, orderID string) error {
	earlier, err := attempts(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return coin.Keep(ctx, tx, depositID, orderID, earlier...)
}

// letBack frees what came back of a deposit that nothing is to be sent of any more.
func letBack(ctx context.Context, tx pg.Tx, depositID string) error {
	earlier, err := attempts(ctx, tx, depositID)
	if err != nil {
		return err
	}
	return coin.Back(ctx, tx, earlier...)
}

// attempts are the orders that were to send a deposit away.
func attempts(ctx context.Context, tx pg.Tx, depositID string) ([]string, error) {
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
