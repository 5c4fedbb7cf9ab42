package payout

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// autoSetting is the setting of the operator below which a batch needs no person.
const autoSetting = "batchAutoApproveUsd"

// errFrozen says that a freeze leaves a batch without its next state.
var errFrozen = errors.New("a freeze stops the batch")

// autoApproval says why a batch needs no person.
type autoApproval struct {
	limit, value money.USD
	prices       map[int]money.USD // of a whole unit, by mint
}

// loadPrices returns the fresh prices of the mints of a batch, outside of any transaction; none where the operator has
// set no amount. A mint without a fresh price is not among them.
func (s *Service) loadPrices(ctx context.Context, b Batch) (map[int]money.USD, error) {
	var settings org.Settings
	err := s.DB.ReadOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		settings, err = org.SettingsOf(ctx, tx, b.OrgID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", b.OrgID, err)
	}
	if settings.BatchAutoApproveUSD == nil {
		return nil, nil
	}
	prices := map[int]money.USD{}
	for _, t := range b.Header.Totals {
		if price, isFresh := s.Payments.FreshPrice(ctx, t.MintID); isFresh {
			prices[t.MintID] = price
		}
	}
	return prices, nil
}

// lockRules locks and loads what decides whether a batch needs a person, in the order in which payments lock it.
func lockRules(ctx context.Context, tx pg.Tx, orgID string) (settings org.Settings, _ *freeze.ActiveSet, err error) {
	if err := org.LockSettingsShared(ctx, tx, orgID); err != nil {
		return settings, nil, err
	}
	if settings, err = org.SettingsOf(ctx, tx, orgID); err != nil {
		return settings, nil, fmt.Errorf("settings of %s: %w", orgID, err)
	}
	queue := &pgx.Batch{}
	active := freeze.QueueActive(queue, orgID, nil)
	if err := tx.SendBatch(ctx, queue).Close(); err != nil {
		return settings, nil, fmt.Errorf("look for freezes of %s: %w", orgID, err)
	}
	return settings, active, nil
}

// judge decides whether a locked batch needs a person, by what this transaction sees. It needs none if the operator has
// set an amount, every mint has a fresh price, and the batch is worth less than that amount. People look at a batch all
// the same if
//
//   - the organization's own threshold of withdrawals would hold the whole,
//   - an address looks like another one, or was never paid,
//   - it pays again what an earlier batch did not pay,
//   - rows or terms differ from what was submitted,
//   - the signer holds up such rows of an earlier batch in one of its coins: its policy does not allow more.
//
// A freeze leaves it waiting, as it leaves every batch. Rules BP-63 to BP-67.
func (s *Service) judge(
	ctx context.Context, tx pg.Tx, b Batch, items []Item, settings org.Settings, active *freeze.ActiveSet,
	prices map[int]money.USD, c *checked,
) error {
	bound := settings.BatchAutoApproveUSD
	if bound == nil {
		return nil
	}
	if _, isStopped := sortFreezes(b.OrgID, active, items); isStopped {
		return errFrozen
	}
	value, reason, err := valueTotals(ctx, tx, c.header.Totals, prices)
	if err != nil {
		return err
	}
	switch threshold := settings.TwoFactorUSDThreshold; {
	case reason != "":
	case value.Cmp(*bound) >= 0:
		reason = fmt.Sprintf("It is worth %s dollars, and %s is %s.", value, autoSetting, bound)
	case threshold != nil && // Rule BP-65.
		value.Cmp(*threshold) > 0:
		reason = fmt.Sprintf("It is worth %s dollars, and twoFactorUsdThreshold of the organization is %s.", value,
			threshold)
	case b.RetryOf != "":
		reason = "It pays again what an earlier batch did not pay."
	case len(c.excluded) == 0 && !s.isIntact(b, items): // exclude has compared them otherwise
		reason = "Its rows or terms differ from what was submitted."
	default: // Rules BP-64 and BP-66.
		people, err := s.peopleByRule(ctx, tx, b, items)
		if err != nil {
			return err
		}
		if people > 0 { // Rule SA-1.
			reason = fmt.Sprintf("The organization's rule asks for the signatures of %d people.", people)
			break
		}
		if reason, err = findSuspicious(ctx, tx, b, items); err == nil && reason == "" {
			reason, err = findHeldBySigner(ctx, tx, b.OrgID, c.header.Totals)
		}
	}
	if err != nil {
		return err
	}
	if c.people = reason; reason == "" {
		c.auto = &autoApproval{limit: *bound, value: value, prices: prices}
	}
	return nil
}

// valueTotals returns what totals are worth in dollars. reason says what keeps them from having a value, or is "".
func valueTotals(
	ctx context.Context, tx pg.Tx, totals []contenthash.Total, prices map[int]money.USD,
) (value money.USD, reason string, err error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return value, "", err
	}
	for _, t := range totals {
		price, hasPrice := prices[t.MintID]
		m, isKnown := mints.ByID(t.MintID)
		if !hasPrice || !isKnown {
			return value, fmt.Sprintf("Mint %d has no price that is recent enough.", t.MintID), nil
		}
		part, err := money.ValueOf(t.Amount, m.Decimals, price)
		if err == nil {
			value, err = value.Add(part)
		}
		if err != nil {
			return value, fmt.Sprintf("What it pays of mint %d is worth too much to be added.", t.MintID), nil
		}
	}
	return value, "", nil
}

// findSuspicious returns why a person has to look at the included rows, or "". What was warned of at the submission
// counts, and what is to be warned of now.
func findSuspicious(ctx context.Context, tx pg.Tx, b Batch, items []Item) (reason string, err error) {
	warnings, err := loadWarnings(ctx, tx, b.ID)
	if err != nil {
		return "", err
	}
	present, err := findWarnings(ctx, tx, b, items)
	if err != nil {
		return "", err
	}
	for _, w := range append(warnings, present...) {
		if !items[w.Row-1].IsIncluded {
			continue
		}
		switch w.Kind {
		case LookAlike:
			return fmt.Sprintf("The address of row %d looks like another one.", w.Row), nil
		case FirstPayment:
			return fmt.Sprintf("Nothing was paid to the address of row %d before.", w.Row), nil
		}
	}
	return "", nil
}

// findHeldBySigner returns why another batch without a person would not be paid: rows of one wait for the signer in one
// of these coins. "" says that none do.
func findHeldBySigner(
	ctx context.Context, tx pg.Tx, orgID string, totals []contenthash.Total,
) (reason string, err error) {
	mintIDs := make([]int, 0, len(totals))
	for _, t := range totals {
		mintIDs = append(mintIDs, t.MintID)
	}
	var batchID string
	err = tx.QueryRow(ctx, `
		SELECT b.batch_id FROM payout_batches b JOIN withdrawals w ON w.batch_id = b.batch_id
			JOIN dispatch_orders o ON o.order_id = w.withdrawal_id
		WHERE b.org_id = $1 AND b.status = 'PROCESSING' AND b.auto_below IS NOT NULL AND w.mint_id = ANY ($2)
			AND w.status = 'PROCESSING' AND o.waiting_for = ANY ($3)
		ORDER BY b.batch_id LIMIT 1`, orgID, mintIDs, dispatch.ReasonsLimited()).Scan(&batchID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for batches of %s that the signer holds up: %w", orgID, err)
	}
	return fmt.Sprintf("A limit of the signer holds up batch %s.", batchID), nil
}
