package verify

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// newFlagCheck compares each flag with its MAC. A flag from before the MACs has none; the tables
// accept no new one without a MAC.
func newFlagCheck(k *signer.GrantKey) Check {
	return Check{
		ID:      "I-30-bound",
		Promise: "every flagged deposit has the content of its flag, by the MAC of the service's own key",
		inspect: func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
			rows, err := tx.Query(ctx, `
				SELECT org_id, deposit_id, chain, wallet_id, mint_id, amount, coalesce(return_to, ''), coalesce(return_risk, ''), senders, flag_reason, return_mac
				FROM deposits WHERE is_flagged AND return_mac IS NOT NULL ORDER BY deposit_id`)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var f signer.FlaggedDeposit
				var reason struct{ Sanctioned bool }
				var text, mac []byte
				if err := rows.Scan(
					&f.OrgID, &f.DepositID, &f.Chain, &f.WalletID, &f.MintID, &f.Amount, &f.ReturnTo, &f.ReturnRisk,
					&f.Senders, &text, &mac,
				); err != nil {
					return nil, err
				}
				err := json.Unmarshal(text, &reason)
				f.Sanctioned = reason.Sanctioned
				if err != nil || !k.VerifyFlag(f, mac) {
					found = append(found, Breach{
						OrgID: f.OrgID, Subject: "deposit " + f.DepositID,
						Detail: fmt.Sprintf("was not flagged as %v of mint %d that go back to %q",
							f.Amount, f.MintID, f.ReturnTo),
					})
				}
			}
			return found, rows.Err()
		},
	}
}
