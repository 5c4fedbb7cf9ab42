package deposit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
)

// Any sender can deploy a contract that emits transfers of its own token to our addresses, as many
// as the gas of a block allows. On a rollup, one transaction with tens of thousands of them costs
// cents. So these limits bound the recorded deposits of tokens that are not in the catalogue.
const (
	unknownPerTokenMax  = 20   // of one token to one wallet, in one block
	unknownPerBlockMax  = 1000 // in one block
	unknownPerWalletMax = 1000 // to one wallet on one chain, in all blocks
)

// unknownTokenCount counts the transfers of unknown tokens to a wallet on one chain: the recorded
// ones, the dropped ones, and the last block with a dropped one.
type unknownTokenCount struct {
	recorded, dropped int
	lastBlock         uint64
}

// limitUnknownTokens drops the transfers of unknown tokens beyond the limits, and counts them. It
// never drops a transfer of a token of the catalogue, and such a transfer counts for no limit. It
// keeps the first ones of a block, so that applying a block again keeps the same ones. It keeps
// transfers that are recorded already. Rule DEP-52.
func limitUnknownTokens(
	ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, found []scan.Arrival, recorded func(scan.Arrival) bool,
) ([]scan.Arrival, error) {
	var wallets []string // with a new transfer of an unknown token
	for _, f := range found {
		if f.Mint == nil && !recorded(f) {
			wallets = append(wallets, f.Wallet.ID)
		}
	}
	if len(wallets) == 0 {
		return found, nil
	}
	slices.Sort(wallets)
	wallets = slices.Compact(wallets)
	counts, err := loadUnknownCounts(ctx, tx, ch, wallets)
	if err != nil {
		return nil, err
	}
	type token struct {
		wallet   string
		contract chain.Address
	}
	added := map[string]unknownTokenCount{}
	ofToken, ofBlock := map[token]int{}, 0
	found = slices.DeleteFunc(found, func(f scan.Arrival) bool {
		if f.Mint != nil {
			return false
		}
		key := token{f.Wallet.ID, f.Contract}
		if !recorded(f) {
			n := added[key.wallet]
			isFull := counts[key.wallet].recorded+n.recorded >= unknownPerWalletMax
			if isFull || ofToken[key] >= unknownPerTokenMax || ofBlock >= unknownPerBlockMax {
				n.dropped++
				added[key.wallet] = n
				return true
			}
			n.recorded++
			added[key.wallet] = n
		}
		ofToken[key]++
		ofBlock++
		return false
	})
	return found, storeUnknownCounts(ctx, tx, ch, b, wallets, counts, added)
}

// loadUnknownCounts reads the counts of wallets. The cursor of the chain is locked, so the counts
// do not change meanwhile.
func loadUnknownCounts(
	ctx context.Context, tx pg.Tx, ch chain.Name, wallets []string,
) (map[string]unknownTokenCount, error) {
	counts := map[string]unknownTokenCount{}
	rows, err := tx.Query(ctx, `
		SELECT wallet_id, recorded, coalesce(dropped_last, 0) FROM unknown_token_counts
		WHERE chain = $1 AND wallet_id = ANY ($2)`, ch, wallets)
	if err == nil {
		var walletID string
		var n unknownTokenCount
		_, err = pgx.ForEachRow(rows, []any{&walletID, &n.recorded, &n.lastBlock}, func() error {
			counts[walletID] = n
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the counts of unknown tokens on %s: %w", ch, err)
	}
	return counts, nil
}

// storeUnknownCounts adds the counts of a block to those of the wallets. Transfers that are dropped
// again because the block is applied again are not counted again.
func storeUnknownCounts(
	ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, wallets []string,
	counts, added map[string]unknownTokenCount,
) error {
	recorded, dropped := make([]int, len(wallets)), make([]int, len(wallets))
	for i, walletID := range wallets {
		recorded[i] = added[walletID].recorded
		if b.Height > counts[walletID].lastBlock {
			dropped[i] = added[walletID].dropped
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO unknown_token_counts AS c (wallet_id, chain, recorded, dropped, dropped_first, dropped_last, dropped_at)
		SELECT wallet_id, $1, recorded, dropped, CASE WHEN dropped > 0 THEN $5::bigint END, CASE WHEN dropped > 0 THEN $5::bigint END, CASE WHEN dropped > 0 THEN $6::timestamptz END
		FROM unnest($2::text[], $3::int[], $4::bigint[]) AS n (wallet_id, recorded, dropped)
		WHERE recorded > 0 OR dropped > 0
		ON CONFLICT (wallet_id, chain) DO UPDATE SET
			recorded = c.recorded + excluded.recorded, dropped = c.dropped + excluded.dropped,
			dropped_first = coalesce(c.dropped_first, excluded.dropped_first),
			dropped_last = coalesce(excluded.dropped_last, c.dropped_last),
			dropped_at = coalesce(excluded.dropped_at, c.dropped_at)`,
		ch, wallets, recorded, dropped, b.Height, tx.Now)
	if err != nil {
		return fmt.Errorf("count transfers of unknown tokens on %s: %w", ch, err)
	}
	return nil
}
