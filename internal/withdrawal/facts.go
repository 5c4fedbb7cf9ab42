package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// gather reads the facts that lie in the organization's own rows. It locks the
// customer's row against removal, nothing else: the balance is decided by the
// posting, and a freeze that comes a moment later is obeyed by dispatch.
func gather(ctx context.Context, tx pg.Tx, orgID, customerID string, f *facts) error {
	if err := current(ctx, tx, orgID, customerID, f); err != nil {
		return err
	}
	settings, err := org.SettingsOf(ctx, tx, orgID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", orgID, err)
	}
	f.keyNeeded = settings.RequireWithdrawIdempotency
	f.threshold = settings.CustomerWithdrawUSDThreshold
	f.balance, err = ledger.Balance(ctx, tx, ledger.Account{OrgID: orgID, MintID: f.mint.ID, Kind: ledger.Customer, Subject: customerID})
	if err != nil {
		return fmt.Errorf("balance of a customer of %s: %w", orgID, err)
	}
	if f.liquid, err = liquid(ctx, tx, orgID, f.mint.ID); err != nil {
		return err
	}
	f.resembles, err = resembled(ctx, tx, orgID, f.mint.Chain.Family(), f.destination)
	return err
}

// current reads what an approval looks at again.
func current(ctx context.Context, tx pg.Tx, orgID, customerID string, f *facts) error {
	var err error
	if f.frozen, err = freeze.Standing(ctx, tx, freeze.Of{OrgID: orgID, CustomerID: customerID, Chain: f.mint.Chain}); err != nil {
		return err
	}
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return err
	}
	m, ok := mints.ByID(f.mint.ID)
	if !ok {
		return fmt.Errorf("mint %d has left the catalogue", f.mint.ID)
	}
	f.mint = m // as it is now: it may have been quarantined since
	f.token = false
	for _, m := range mints.List(mint.Filter{}) {
		f.token = f.token || m.Contract != "" && m.Contract == f.destination && m.Chain.Family() == f.mint.Chain.Family()
	}
	return nil
}

// liquid is what could pay a withdrawal: everything credited to the
// organization's wallets that is neither promised nor gone, and what is on its
// way to the treasury, less what is ordered and has no slot yet. It is a
// prediction; only dispatch reserves.
func liquid(ctx context.Context, tx pg.Tx, orgID string, mintID int) (money.Amount, error) {
	var have, moving, ordered money.Amount
	err := tx.QueryRow(ctx, `
		SELECT
			(SELECT coalesce(sum(credited - held - reserved - swept), 0) FROM address_funds
			 WHERE org_id = $1 AND mint_id = $2),
			(SELECT coalesce(sum(amount), 0) FROM dispatch_orders
			 WHERE org_id = $1 AND mint_id = $2 AND purpose = 'SWEEP' AND status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')),
			(SELECT coalesce(sum(amount), 0) FROM dispatch_orders
			 WHERE org_id = $1 AND mint_id = $2 AND purpose = 'PAYMENT' AND status = 'QUEUED')`,
		orgID, mintID).Scan(&have, &moving, &ordered)
	if err != nil {
		return money.Zero, fmt.Errorf("liquidity of mint %d: %w", mintID, err)
	}
	sum, err := have.Add(moving)
	if err != nil {
		return money.Zero, fmt.Errorf("liquidity of mint %d: %w", mintID, err)
	}
	left, err := sum.Sub(ordered)
	if errors.Is(err, money.ErrNegative) {
		return money.Zero, nil
	}
	return left, err
}

// How much of an address a person compares: what wallets and explorers show of
// a long one.
const (
	shownHead = 4
	shownTail = 4
)

// resembled finds a known destination with the same beginning and end as this
// address and another middle: the address that a poisoned history offers.
// Known are the organization's earlier destinations and its own wallets. An
// address that is itself known resembles nothing.
func resembled(ctx context.Context, tx pg.Tx, orgID string, family chain.Family, a chain.Address) (chain.Address, error) {
	head, tail, ok := shown(family, a)
	if !ok {
		return "", nil
	}
	var found chain.Address
	err := tx.QueryRow(ctx, `
		WITH known AS (
			SELECT to_address AS address FROM withdrawals
			WHERE org_id = $1 AND status NOT IN ('REJECTED', 'CANCELLED')
			UNION
			SELECT address FROM wallets WHERE org_id = $1 AND family = $2
		)
		SELECT address FROM known
		WHERE left(lower(address), $3) = $4 AND right(lower(address), $5) = $6 AND lower(address) <> lower($7)
			AND NOT EXISTS (SELECT FROM known k WHERE lower(k.address) = lower($7))
		ORDER BY address LIMIT 1`,
		orgID, family, len(head), head, len(tail), tail, string(a)).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for addresses like %s: %w", a, err)
	}
	return found, nil
}

// shown is the beginning and the end of an address that a person reads, in
// lower case, with the prefix that all addresses of the family share.
func shown(family chain.Family, a chain.Address) (head, tail string, ok bool) {
	s := strings.ToLower(string(a))
	prefix := 0
	if family == chain.EVM {
		prefix = len("0x")
	}
	if len(s) < prefix+shownHead+shownTail {
		return "", "", false
	}
	return s[:prefix+shownHead], s[len(s)-shownTail:], true
}

// fresh tells whether a price may decide about a threshold.
func fresh(q price.Quote, now time.Time, ageMax time.Duration) bool {
	return price.Fresh(q, now, ageMax) == nil
}
