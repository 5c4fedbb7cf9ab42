package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
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

// newDepositSwapQuoteCheck verifies the quote of each deposit swap again, and compares it with the row: the customer
// pays the address that the quote names, and the provider pays the wallet that it names.
func newDepositSwapQuoteCheck(verify VerifyQuote) Check {
	return Check{
		ID: "I-71-signed",
		Promise: "the provider of every deposit swap signed its address, with our wallet as the recipient and the " +
			"payer's address for a refund",
		inspect: func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
			rows, err := tx.Query(ctx, `
				SELECT s.org_id, s.deposit_swap_id, s.provider, s.scheme, s.signed_quote, s.deposit_address,
					w.address,
					s.refund_address, s.origin_asset, s.destination_asset, s.estimated_out, s.min_out, s.expires_at
				FROM deposit_swaps s JOIN wallets w ON w.wallet_id = s.wallet_id ORDER BY s.deposit_swap_id`)
			if err != nil {
				return nil, err
			}
			var o depositSwapOffer
			var orgID, depositSwapID, provider string
			var scheme signedquote.Scheme
			var raw []byte
			_, err = pgx.ForEachRow(rows, []any{
				&orgID, &depositSwapID, &provider, &scheme, &raw, &o.depositAddress, &o.recipient, &o.refundTo,
				&o.originAsset, &o.destinationAsset, &o.amountOut, &o.minOut, &o.expiresAt,
			}, func() error {
				problem := "its quote does not verify"
				q, err := verify(provider, scheme, raw)
				if err == nil {
					problem = o.findDifference(q)
				} else {
					problem += ": " + err.Error()
				}
				if problem != "" {
					found = append(found, Breach{
						OrgID: orgID, Subject: "deposit swap " + depositSwapID, Detail: problem,
					})
				}
				return nil
			})
			return found, err
		},
	}
}

// depositSwapOffer is what the row of a deposit swap says of its quote.
type depositSwapOffer struct {
	depositAddress, refundTo, originAsset, destinationAsset string
	recipient                                               chain.Address // of our wallet
	amountOut, minOut                                       money.Amount
	expiresAt                                               time.Time
}

// findDifference returns where a row does not say what its provider signed, or "".
func (o depositSwapOffer) findDifference(q signedquote.Quote) string {
	switch {
	case q.DepositAddress != o.depositAddress:
		return fmt.Sprintf("shows the address %s, and the provider signed %s", o.depositAddress, q.DepositAddress)
	case !isSameAddress(chain.Address(q.Recipient), o.recipient):
		return fmt.Sprintf("is delivered to %s, and its wallet is %s", q.Recipient, o.recipient)
	case len(q.RefundTo) != 1 || q.RefundTo[0] != o.refundTo:
		return fmt.Sprintf("is refunded to %v, and the payer's address is %s", q.RefundTo, o.refundTo)
	case q.OriginAsset != o.originAsset || q.DestinationAsset != o.destinationAsset:
		return fmt.Sprintf("was offered for %s and %s, and swaps %s to %s", q.OriginAsset, q.DestinationAsset,
			o.originAsset, o.destinationAsset)
	case q.AmountOut != o.amountOut || q.MinAmountOut != o.minOut || !q.Deadline.Equal(o.expiresAt):
		return fmt.Sprintf("was offered %v and at least %v until %s, and says %v, %v and %s", q.AmountOut,
			q.MinAmountOut, q.Deadline, o.amountOut, o.minOut, o.expiresAt)
	}
	return ""
}

// depositSwapChecks are the checks of deposit swaps.
var depositSwapChecks = []Check{
	{
		ID: "I-71",
		Promise: "a deposit swap has a wallet of its own, an address of its provider that is none of ours, and the " +
			"final deposits of its customer", breachSQL: `
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, format('has wallet %s, which is a %s of %s',
			s.wallet_id,
			coalesce(w.purpose, 'missing one'), coalesce(w.subject, 'no one'))
		FROM deposit_swaps s LEFT JOIN wallets w ON w.wallet_id = s.wallet_id
		WHERE (w.org_id, w.purpose, w.subject) IS DISTINCT FROM
			(s.org_id, 'DEPOSIT_SWAP', s.deposit_swap_id COLLATE "C")
		UNION ALL
		SELECT s.org_id, 'deposit swap ' || s.deposit_swap_id, 
			format('has %s %s, which is our wallet %s', k.what, k.address, w.wallet_id)
		FROM deposit_swaps s
		CROSS JOIN LATERAL (VALUES ('deposit address', s.deposit_address), ('refund address', s.refund_address))
			AS k (what, address)
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
		SELECT d.org_id, 'deposit ' || d.deposit_id, 
			format('is %s for customer %s, and deposit swap %s is of %s', d.status, d.customer_id,
				d.deposit_swap_id, coalesce(s.customer_id, 'no one'))
		FROM deposits d LEFT JOIN deposit_swaps s ON s.deposit_swap_id = d.deposit_swap_id
		WHERE d.deposit_swap_id IS NOT NULL AND d.customer_id IS NOT NULL
			AND (s.org_id, s.customer_id, s.wallet_id) IS DISTINCT FROM (d.org_id, d.customer_id, d.wallet_id)
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id, format('is %s at wallet %s and belongs to no customer', d.status,
			d.wallet_id)
		FROM deposits d WHERE d.purpose = 'DEPOSIT_SWAP' AND (d.deposit_swap_id IS NULL OR d.customer_id IS NULL
			AND d.status NOT IN ('DETECTED', 'CONFIRMING', 'SCREENING', 'ORPHANED', 'UNSUPPORTED',
				'BELOW_MINIMUM'))
		UNION ALL
		SELECT min(org_id), 'deposit address ' || deposit_address,
			'is that of deposit swaps ' || string_agg(deposit_swap_id, ', ' ORDER BY deposit_swap_id)
		FROM deposit_swaps GROUP BY deposit_address, origin_chain HAVING count(*) > 1
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id, 'could go back to the provider of deposit swap ' ||
			d.deposit_swap_id
		FROM deposits d WHERE d.deposit_swap_id IS NOT NULL AND d.is_flagged
			AND (d.return_to IS NOT NULL OR d.return_risk IS DISTINCT FROM 'SWAP_SOLVER')`,
	},
}
