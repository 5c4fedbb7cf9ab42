package verify

import (
	"context"
	"crypto/hmac"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// newApprovedSwapCheck compares each swap of an organization, and each approval of one, with its MAC. A row that is
// restored from the journal has the MAC of the terms that the signer admitted.
func newApprovedSwapCheck(k *signer.GrantKey) Check {
	return Check{
		ID: "I-73-bound",
		Promise: "every swap of an organization has the terms that it was requested with and that people approved, " +
			"by the MACs of the service's own key",
		inspect: func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
			rows, err := tx.Query(ctx, `
				SELECT s.org_id, s.swap_id, s.product, s.from_mint_id, s.to_mint_id, s.amount_in, s.min_out,
					s.payout_max,
					s.whitelisted_address_id, s.payout_address, s.payout_until, s.approvals_required, s.request_mac,
					coalesce(a.approver_kind || ' ' || a.approver_id, ''), coalesce(a.digest, ''), coalesce(a.mac, '')
				FROM swaps s LEFT JOIN swap_approvals a ON a.org_id = s.org_id AND a.swap_id = s.swap_id
				WHERE s.kind = 'ORGANIZATION' ORDER BY s.swap_id, a.approver_kind, a.approver_id`)
			if err != nil {
				return nil, err
			}
			var p signer.SwapPayout
			var notAfter time.Time
			var required int
			var requestMAC, approvalMAC []byte
			var approver, digest, checked string
			_, err = pgx.ForEachRow(rows, []any{
				&p.OrgID, &p.SwapID, &p.Product, &p.FromMintID, &p.ToMintID, &p.AmountIn, &p.MinOut, &p.MaxOut,
				&p.WhitelistedID, &p.To, &notAfter, &required, &requestMAC, &approver, &digest, &approvalMAC,
			}, func() error {
				p.NotAfter = signer.FormatMicros(notAfter)
				add := func(detail string) {
					found = append(found, Breach{OrgID: p.OrgID, Subject: "swap " + p.SwapID, Detail: detail})
				}
				if p.SwapID != checked && !k.VerifySwapRequest(p, required, requestMAC) {
					add(fmt.Sprintf("was not requested so: %v of mint %d of %s to %s, with %d approvals", p.AmountIn,
						p.FromMintID, p.Product, p.To, required))
				}
				checked = p.SwapID
				if approver != "" && (digest != p.ComputeDigest() ||
					!hmac.Equal(k.MakePayoutApproval(p, approver).MAC, approvalMAC)) {
					add(fmt.Sprintf("was not approved so by %s", approver))
				}
				return nil
			})
			return found, err
		},
	}
}
