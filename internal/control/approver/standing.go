package approver

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Standing is what a person with passkeys has to know at all times.
type Standing struct {
	IsEnrolled    bool           // the person has a passkey that the signer recorded
	Single        []signer.Right // for which the person has one passkey alone
	CoolingKeys   int            // passkeys of the organization that cool off
	IsRuleCooling bool           // a rule of the organization is recorded and does not hold yet
}

// LoadStanding returns what a person of an organization has to know. It decides nothing, so it checks no proof.
func (s *Service) LoadStanding(ctx context.Context, tx pg.Tx, orgID, person string) (standing Standing, err error) {
	var approve, enrol int
	err = tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE person = $2 AND key_right = 'APPROVE'),
			count(*) FILTER (WHERE person = $2 AND key_right = 'ENROL'), count(*) FILTER (WHERE usable_from > $3),
			EXISTS (SELECT FROM approval_rules r WHERE r.org_id = $1 AND r.usable_from > $3)
		FROM approver_keys WHERE org_id = $1 AND retired_at IS NULL AND refusal IS NULL AND proof IS NOT NULL`,
		orgID, person, tx.Now).Scan(&approve, &enrol, &standing.CoolingKeys, &standing.IsRuleCooling)
	if err != nil {
		return Standing{}, fmt.Errorf("read the passkeys of %s: %w", person, err)
	}
	standing.IsEnrolled = approve+enrol > 0
	for _, right := range []struct {
		name  signer.Right
		count int
	}{{signer.RightApprove, approve}, {signer.RightEnrol, enrol}} {
		if right.count == 1 {
			standing.Single = append(standing.Single, right.name)
		}
	}
	return standing, nil
}
