package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// newDepositSwapCheck compares each deposit swap with its MAC.
func newDepositSwapCheck(k *signer.GrantKey) Check {
	return Check{
		ID:      "I-71-bound",
		Promise: "every deposit swap has the terms that it was made with, by the MAC of the service's own key",
		inspect: func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
			rows, err := tx.Query(ctx, `
				SELECT s.org_id, s.deposit_swap_id, s.customer_id, s.origin_chain, s.origin_contract, s.origin_asset,
					s.destination_asset, s.origin_decimals, s.to_mint_id, s.amount_in, w.wallet_id, w.address,
					s.refund_address, s.provider, s.deposit_address, s.signed_quote, s.mac
				FROM deposit_swaps s JOIN wallets w ON w.wallet_id = s.wallet_id ORDER BY s.deposit_swap_id`)
			if err != nil {
				return nil, err
			}
			var t signer.DepositSwapTerms
			var mac []byte
			_, err = pgx.ForEachRow(rows, []any{
				&t.OrgID, &t.DepositSwapID, &t.CustomerID, &t.OriginChain, &t.OriginContract, &t.OriginAsset,
				&t.DestinationAsset, &t.OriginDecimals, &t.ToMintID, &t.AmountIn, &t.WalletID, &t.WalletAddress,
				&t.RefundAddress, &t.Provider, &t.DepositAddress, &t.SignedQuote, &mac,
			}, func() error {
				if !k.VerifyDepositSwap(t, mac) {
					found = append(found, Breach{
						OrgID: t.OrgID, Subject: "deposit swap " + t.DepositSwapID,
						Detail: fmt.Sprintf("was not made for %s with the address %s of %s", t.CustomerID,
							t.DepositAddress, t.Provider),
					})
				}
				return nil
			})
			return found, err
		},
	}
}

// depositSwapChecks are the checks of deposit swaps.
var depositSwapChecks = []Check{
	{
		ID: "I-71",
		Promise: "a deposit swap has a wallet of its own, an address of its provider that is none of ours, and the " +
			"final deposits of its customer", breachSQL: `
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, format('has wallet %s, which is a %s of %s', s.wallet_id,
			coalesce(w.purpose, 'missing one'), coalesce(w.subject, 'no one'))
		FROM deposit_swaps s LEFT JOIN wallets w ON w.wallet_id = s.wallet_id
		WHERE (w.org_id, w.purpose, w.subject) IS DISTINCT FROM (s.org_id, 'DEPOSIT_SWAP', s.deposit_swap_id COLLATE "C")
		UNION ALL
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, format('has %s %s, which is our wallet %s', k.what, k.address,
			w.wallet_id)
		FROM deposit_swaps s
		CROSS JOIN LATERAL (VALUES ('deposit address', s.deposit_address), ('refund address', s.refund_address)) AS k (what, address)
		JOIN wallets w ON w.address = k.address
		UNION ALL
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, 'has the deposit address of swap ' || o.swap_id
		FROM deposit_swaps s JOIN swaps o ON o.deposit_address = s.deposit_address AND o.from_chain = s.origin_chain
		UNION ALL
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, format('is %s with %s out, and %s arrived', s.status,
			coalesce(s.amount_out, 0), n.arrived)
		FROM deposit_swaps s
		CROSS JOIN LATERAL (SELECT coalesce(sum(d.amount), 0) AS arrived FROM deposits d
			WHERE d.deposit_swap_id = s.deposit_swap_id AND d.mint_id = s.to_mint_id
				AND (d.is_flagged OR d.status IN ('CREDITED', 'REVERSED'))) n
		WHERE coalesce(s.amount_out, 0) <> n.arrived OR (s.status = 'COMPLETED') <> (n.arrived > 0)
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id, format('is %s for customer %s, and deposit swap %s is of %s', d.status,
			d.customer_id, d.deposit_swap_id, coalesce(s.customer_id, 'no one'))
		FROM deposits d LEFT JOIN deposit_swaps s ON s.deposit_swap_id = d.deposit_swap_id
		WHERE d.deposit_swap_id IS NOT NULL AND d.customer_id IS NOT NULL
			AND (s.org_id, s.customer_id, s.wallet_id) IS DISTINCT FROM (d.org_id, d.customer_id, d.wallet_id)
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id, 'could go back to the provider of deposit swap ' || d.deposit_swap_id
		FROM deposits d WHERE d.deposit_swap_id IS NOT NULL AND d.is_flagged
			AND (d.return_to IS NOT NULL OR d.return_risk IS DISTINCT FROM 'SWAP_SOLVER')`,
	},
}
