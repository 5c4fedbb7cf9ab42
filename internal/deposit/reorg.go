package deposit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/utxo"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

var _ finality.Listener = (*Service)(nil)

// hiddenStray is the SQL condition of a stray arrival of which its customer has nothing.
const hiddenStray = `(is_hidden AND arrival_role = 'STRAY')`

// OnForked implements finality.Listener. It freezes every customer whose credited deposits may be
// gone, at once: the money must not leave by another chain while a person looks. An organization
// that was credited itself is frozen as a whole. Otherwise the missing amount of its product could
// be transferred to one of its customers. See decision 0026. Rules DEP-11 and DEP-26.
func (s *Service) OnForked(ctx context.Context, tx pg.Tx, ch chain.Name, ancestorHeight uint64) error {
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT org_id, coalesce(customer_id, '') AS customer FROM deposits
		WHERE chain = $1 AND height > $2 AND proof_id IS NOT NULL AND status = 'CREDITED' AND (customer_id IS NOT NULL OR product IS NOT NULL)
			AND NOT `+hiddenStray+`
		ORDER BY org_id, customer`, ch, ancestorHeight)
	if err != nil {
		return fmt.Errorf("look for customers credited above block %d of %s: %w", ancestorHeight, ch, err)
	}
	type owner struct{ OrgID, CustomerID string }
	owners, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owner])
	if err != nil {
		return fmt.Errorf("look for customers credited above block %d of %s: %w", ancestorHeight, ch, err)
	}
	for _, o := range owners {
		f := freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: o.OrgID, CustomerID: o.CustomerID, Source: freeze.SourceFinality,
			Reason: fmt.Sprintf(
				"received a credit from a block above block %d of %s, and that block is not final any more",
				ancestorHeight, ch,
			),
		}
		if o.CustomerID == "" {
			f.Scope = freeze.ScopeOrganization
		}
		if err := freeze.Create(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// OnBroken implements finality.Listener. It orphans the deposits above the ancestor that are not in
// the ledger, as if they had never been final. It puts the others in question, until the new fork
// shows them again or has passed without them.
func (s *Service) OnBroken(ctx context.Context, tx pg.Tx, b finality.Break) error {
	if err := s.OnForked(ctx, tx, b.Chain, b.Ancestor.Height); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM deposits
		WHERE chain = $1 AND height > $2 AND proof_id IS NOT NULL AND chain_status = 'FINALIZED'
		ORDER BY deposit_id FOR UPDATE`, b.Chain, b.Ancestor.Height)
	if err != nil {
		return fmt.Errorf("look for deposits above block %d of %s: %w", b.Ancestor.Height, b.Chain, err)
	}
	reorgedDeposits, err := pgx.CollectRows(rows, scanDeposit)
	if err != nil {
		return fmt.Errorf("look for deposits above block %d of %s: %w", b.Ancestor.Height, b.Chain, err)
	}
	var (
		changes []change
		dust    []wallet.Movement
		entries []audit.Entry
	)
	for _, before := range reorgedDeposits {
		after := before
		after.chainStatus = chainReorged
		if !bookedStatuses[before.status] {
			after.status, after.proofID, after.confirmedAt = Orphaned, nil, nil
		}
		changes = append(changes, change{before, after})
		if before.status == BelowMinimum {
			dust = append(
				dust,
				wallet.Movement{
					WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Dust,
					Minus: after.amount,
				},
			)
		}
		e := newStatusEntry(after)
		if bookedStatuses[after.status] {
			e.Action = "deposit.in_question"
		}
		entries = append(entries, e)
	}
	if err := s.applyChanges(ctx, tx, changes...); err != nil {
		return err
	}
	if b.Chain.IsUTXO() {
		if err := utxo.RemoveReorged(ctx, tx, b.Chain, b.Ancestor.Height); err != nil {
			return err
		}
	}
	if err := wallet.MoveFunds(ctx, tx, dust...); err != nil {
		return err
	}
	return recordAudit(ctx, tx, entries)
}

// findReproven returns the deposit that a final movement proves again, among the removed deposits
// that are in the ledger: the same amount to the same account. It returns nil if there is none.
// Rule DEP-21.
func findReproven(removed []storedDeposit, f scan.Arrival) *storedDeposit {
	if f.Mint == nil || f.Doubt != "" {
		return nil
	}
	sender, senders := splitSenders(f)
	for i, r := range removed {
		if bookedStatuses[r.status] && r.lostAt == nil && r.address == f.To && r.contract == f.Contract &&
			r.amount == f.Amount && *r.mintID == f.Mint.ID && r.walletID == f.Wallet.ID &&
			// A flag names its sender, so a flagged deposit must have the same senders.
			(r.flag == nil || r.from == sender && slices.Equal(r.senders, senders)) {
			return &removed[i]
		}
	}
	return nil
}

// ReverseReorged reverses credited deposits that are no longer on the chain. It waits until the
// scan has passed the height at which it would have found them. Each reversal is a transaction of
// its own. It returns how many it reversed.
func (s *Service) ReverseReorged(ctx context.Context) (reversed int, err error) {
	var depositIDs []string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN finality_proofs p ON p.proof_id = d.proof_id
			JOIN scan_cursors c ON c.chain = d.chain AND c.forked_above IS NULL
			WHERE d.status = 'CREDITED' AND d.chain_status = 'REORGED'
				AND c.height >= (SELECT max(b.settle_height) FROM finality_breaks b
					WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height)
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		depositIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for deposits to reverse: %w", err)
	}
	return s.settleEach(ctx, depositIDs, s.reverseDeposit)
}

// reverseDeposit reverses one deposit: it takes what its owner still has, and posts the rest as a
// loss. A payment of the owner at the same moment makes it fail; the next run reads the balance
// again. Rules DEP-22 and DEP-26.
func (s *Service) reverseDeposit(ctx context.Context, depositID string) (isReversed bool, err error) {
	var taken money.Amount
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isReversed = false
		// The chain is locked first, as everywhere. The chain of a deposit never changes.
		var ch chain.Name
		if err := tx.QueryRow(
			ctx, `SELECT chain FROM deposits WHERE deposit_id = $1`, depositID,
		).Scan(&ch); err != nil {
			return err
		}
		if _, err := finality.LockShared(ctx, tx, ch); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND status = 'CREDITED' AND chain_status = 'REORGED' FOR UPDATE`, depositID)
		if err != nil {
			return err
		}
		before, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // found again, or another process was first
		}
		if err != nil {
			return err
		}
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		m, ok := catalogue.ByID(*before.mintID)
		if !ok {
			return fmt.Errorf("its mint %d does not exist", *before.mintID)
		}
		if err := before.loadProvider(ctx, tx); err != nil {
			return err
		}
		account, part := s.Owners.accountFor(before, m.Kind == mint.Native)
		wallets, err := creditWalletsFor(ctx, tx, before)
		if err != nil {
			return err
		}
		walletID, hasTreasury := wallets.walletFor(before)
		if !hasTreasury {
			return errors.New("its organization has no treasury")
		}
		// A claim has no floor: the provider owes the amount again.
		if taken = before.amount; account.Kind.HasFloor() {
			balance, err := ledger.Balance(ctx, tx, account)
			if err != nil {
				return err
			}
			taken = minAmount(balance, before.amount)
		}
		lost, err := before.amount.Sub(taken)
		if err != nil {
			return err
		}
		after, now := before, tx.Now
		after.status, after.reversedAt, after.takenBack = Reversed, &now, &taken
		if err := s.applyChanges(ctx, tx, change{before, after}); err != nil {
			return err
		}
		reversedPart := wallet.Reversed
		if part == wallet.Gas {
			reversedPart = wallet.GasReversed
		}
		if err := wallet.MoveFunds(
			ctx, tx,
			wallet.Movement{
				WalletID: walletID, OrgID: after.orgID, MintID: m.ID, Part: reversedPart, Plus: after.amount,
			},
		); err != nil {
			return err
		}
		custody := ledger.Account{OrgID: after.orgID, MintID: m.ID, Kind: ledger.Custody}
		var legs []ledger.Leg
		if !taken.IsZero() {
			legs = append(legs, ledger.Leg{Debit: account, Credit: custody, Amount: taken})
		}
		if !lost.IsZero() {
			legs = append(legs, ledger.Leg{Debit: lossAccount(account), Credit: custody, Amount: lost})
		}
		if err := ledger.Post(
			ctx, tx, ledger.Posting{Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: after.id}, Legs: legs},
		); err != nil {
			return err
		}
		if eventType := s.Owners.eventFor(after, event.CustomerDepositReversed); eventType != "" {
			if err := s.publishEvents(
				ctx, tx, []storedDeposit{after}, loadByID, func(storedDeposit) event.Type { return eventType },
			); err != nil {
				return err
			}
		}
		e := newStatusEntry(after)
		e.Detail = map[string]string{
			"txHash": string(after.tx), "amount": after.amount.String(), "takenBack": taken.String(),
			"lost": lost.String(),
		}
		isReversed = true
		return recordAudit(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("reverse deposit %s: %w", depositID, err)
	}
	if isReversed {
		s.Log.Warn("deposit: reversed after a finality break", "deposit", depositID, "taken", taken.String())
	}
	return isReversed, nil
}

// AbandonFlagged ends flagged deposits that are no longer on the chain, and returns how many. It
// waits until the scan has passed the height at which it would have found them.
//   - A deposit that was not sent away becomes ORPHANED, and its hold ends.
//   - A returned or redirected deposit keeps its status, and its amount is the operator's loss.
//   - A deposit with a transfer on its way waits until that transfer ended.
//
// It records no event. Rule DEP-38.
func (s *Service) AbandonFlagged(ctx context.Context) (ended int, err error) {
	var depositIDs []string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN finality_proofs p ON p.proof_id = d.proof_id
			JOIN scan_cursors c ON c.chain = d.chain AND c.forked_above IS NULL
			WHERE d.is_flagged AND d.chain_status = 'REORGED' AND `+abandonedCondition+`
				AND c.height >= (SELECT max(b.settle_height) FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height)
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		depositIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for flagged deposits to close: %w", err)
	}
	return s.settleEach(ctx, depositIDs, s.abandonDeposit)
}

// abandonedCondition is the SQL condition of flagged deposits without a transfer on its way. A
// failed transfer counts only if a living block proves the failure.
const abandonedCondition = `(d.status = 'FLAGGED' OR d.status IN ('REJECTED', 'REDIRECTED') AND d.lost_at IS NULL
	OR d.status = 'RESOLUTION_STUCK' AND EXISTS (
		SELECT FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id JOIN finality_live l ON l.proof_id = o.proof_id
		WHERE r.deposit_id = d.deposit_id AND r.status = 'STUCK' AND o.status = 'FAILED'))`

func (s *Service) abandonDeposit(ctx context.Context, depositID string) (isAbandoned bool, err error) {
	var isSentAway bool
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isAbandoned = false
		var ch chain.Name
		if err := tx.QueryRow(
			ctx, `SELECT chain FROM deposits WHERE deposit_id = $1`, depositID,
		).Scan(&ch); err != nil {
			return err
		}
		if _, err := finality.LockShared(ctx, tx, ch); err != nil {
			return err
		}
		// An order is locked before its deposit.
		if _, err := tx.Exec(ctx, `
			SELECT FROM dispatch_orders WHERE order_id IN (SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'STUCK') FOR UPDATE`, depositID); err != nil {
			return err
		}
		rows, err := tx.Query(
			ctx,
			`SELECT `+columns+` FROM deposits d WHERE deposit_id = $1 AND is_flagged AND chain_status = 'REORGED' AND `+abandonedCondition+` FOR UPDATE`,
			depositID,
		)
		if err != nil {
			return err
		}
		before, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // found again, or another process was first
		}
		if err != nil {
			return err
		}
		after, now := before, tx.Now
		funds := []wallet.Movement{
			{
				WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Reversed,
				Plus: after.amount,
			},
		}
		posting, verb := newReleasePosting(after), "orphaned"
		if isSentAway = before.status == Rejected || before.status == Redirected; isSentAway {
			custody := ledger.Account{OrgID: after.orgID, MintID: *after.mintID, Kind: ledger.Custody}
			posting = ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: after.id},
				Legs:  []ledger.Leg{{Debit: lossAccount(custody), Credit: custody, Amount: after.amount}},
			}
			after.lostAt, verb = &now, "lost"
		} else {
			if before.status == ResolutionStuck {
				if err := failStuckResolution(ctx, tx, depositID); err != nil {
					return err
				}
				// The change output of a cancelled transfer is no longer reserved.
				if ch.IsUTXO() {
					if err := freeChangeOutputs(ctx, tx, depositID); err != nil {
						return err
					}
				}
			}
			after.status, after.proofID, after.confirmedAt = Orphaned, nil, nil
			funds = append(
				funds,
				wallet.Movement{
					WalletID: after.walletID, OrgID: after.orgID, MintID: *after.mintID, Part: wallet.Held,
					Minus: after.amount,
				},
			)
		}
		if err := s.applyChanges(ctx, tx, change{before, after}); err != nil {
			return err
		}
		if err := wallet.MoveFunds(ctx, tx, funds...); err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, posting); err != nil {
			return err
		}
		e := newStatusEntry(after)
		e.Action = "deposit." + verb
		isAbandoned = true
		return recordAudit(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("close deposit %s: %w", depositID, err)
	}
	if isAbandoned {
		s.Log.Warn(
			"deposit: closed a flagged deposit that the chain does not have any more",
			"deposit", depositID, "sentAway", isSentAway,
		)
	}
	return isAbandoned, nil
}

// failStuckResolution ends the stuck resolution of a deposit of which nothing can be sent any more.
func failStuckResolution(ctx context.Context, tx pg.Tx, depositID string) error {
	var resID string
	if err := tx.QueryRow(
		ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'STUCK'`, depositID,
	).Scan(&resID); err != nil {
		return fmt.Errorf("look up its resolution: %w", err)
	}
	return endResolution(
		ctx, tx, resID, "STUCK", "FAILED", "", money.Zero, "REVERTED",
		"its transaction failed, and the deposit is not on the chain any more",
	)
}

// lossAccount returns the loss account for a credited amount that is gone.
func lossAccount(account ledger.Account) ledger.Account {
	account.Kind, account.Subject = ledger.ReorgLoss, ""
	return account
}

func minAmount(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return a
	}
	return b
}

// ClaimLosses takes, from a frozen customer or product, the part of a reversal's loss that their
// balance now covers. It does so only while the freeze of that reversal stands: a released hold,
// for example, gives back an amount that the chain took away. Lifting the freeze waives the
// remaining loss. It returns from how many deposits it claimed a part. Rule DEP-23.
func (s *Service) ClaimLosses(ctx context.Context) (claimed int, err error) {
	var depositIDs []string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN freezes f ON `+freezeJoin+`
			JOIN ledger_accounts a ON a.org_id = d.org_id AND a.mint_id = d.mint_id
				AND a.kind = CASE WHEN d.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AND a.subject = coalesce(d.customer_id, d.product)
			JOIN ledger_balances b ON b.account_id = a.account_id AND b.balance > 0
			WHERE d.status = 'REVERSED' AND d.taken_back < d.amount AND d.reversed_at >= f.created_at
				AND NOT d.is_hidden
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		depositIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for losses to claim: %w", err)
	}
	return s.settleEach(ctx, depositIDs, s.claimLoss)
}

// settleEach settles deposits one by one, each in its own transactions, and returns how many it
// settled. A failed deposit does not stop the others; the errors are joined.
func (s *Service) settleEach(
	ctx context.Context, depositIDs []string, settle func(ctx context.Context, depositID string) (bool, error),
) (n int, err error) {
	var errs []error
	for _, depositID := range depositIDs {
		isSettled, err := settle(ctx, depositID)
		if err != nil {
			s.Log.Error("deposit: not settled after a finality break", "deposit", depositID, "error", err)
			errs = append(errs, err)
			continue
		}
		if isSettled {
			n++
		}
	}
	return n, errors.Join(errs...)
}

// freezeJoin joins a deposit with the freeze of the customer or organization that it was credited
// to.
const freezeJoin = `f.org_id = d.org_id AND f.source = 'FINALITY' AND f.lifted_at IS NULL
	AND (f.scope = 'CUSTOMER' AND f.customer_id = d.customer_id OR f.scope = 'ORGANIZATION' AND d.product IS NOT NULL)`

func (s *Service) claimLoss(ctx context.Context, depositID string) (isClaimed bool, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isClaimed = false
		rows, err := tx.Query(
			ctx, `
			SELECT `+columns+` FROM deposits
			WHERE deposit_id = $1 AND status = 'REVERSED' AND NOT is_hidden FOR UPDATE`, depositID,
		)
		if err != nil {
			return err
		}
		before, err := pgx.CollectExactlyOneRow(rows, scanDeposit)
		if err != nil {
			return err
		}
		// The freeze allows the claim, so its row is locked: it cannot be lifted meanwhile.
		var isFrozen bool
		err = tx.QueryRow(ctx, `
			SELECT true FROM freezes f JOIN deposits d ON `+freezeJoin+`
			WHERE d.deposit_id = $1 AND f.created_at <= d.reversed_at FOR SHARE OF f`, before.id).Scan(&isFrozen)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		account, _ := s.Owners.accountFor(before, false)
		balance, err := ledger.Balance(ctx, tx, account)
		if err != nil {
			return err
		}
		remaining, err := before.amount.Sub(*before.takenBack)
		if err != nil {
			return err
		}
		taken := minAmount(balance, remaining)
		if taken.IsZero() {
			return nil
		}
		sum, err := before.takenBack.Add(taken)
		if err != nil {
			return err
		}
		after := before
		after.takenBack, after.claimCount = &sum, before.claimCount+1
		if err := s.applyChanges(ctx, tx, change{before, after}); err != nil {
			return err
		}
		err = ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: fmt.Sprintf("%s/%d", after.id, after.claimCount)},
			Legs:  []ledger.Leg{{Debit: account, Credit: lossAccount(account), Amount: taken}},
		})
		if err != nil {
			return err
		}
		e := newStatusEntry(after)
		e.Action = "deposit.loss_claimed"
		e.Detail = map[string]string{"amount": taken.String(), "takenBack": sum.String()}
		isClaimed = true
		return recordAudit(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("claim the loss of deposit %s: %w", depositID, err)
	}
	return isClaimed, nil
}

// LiftFreezes lifts the freezes of customers and organizations whose deposits are all on the chain
// again. A freeze with a later reversal stands until a person has looked.
func (s *Service) LiftFreezes(ctx context.Context) (released int, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		released = 0
		var hasFreezes bool
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM freezes WHERE scope IN ('CUSTOMER', 'ORGANIZATION') AND source = 'FINALITY' AND lifted_at IS NULL)`).Scan(&hasFreezes)
		if err != nil || !hasFreezes {
			return err
		}
		// A chain that parts meanwhile waits for these locks and then freezes again, or the query
		// below sees it.
		if _, err := tx.Exec(ctx, `SELECT FROM scan_cursors ORDER BY chain FOR KEY SHARE`); err != nil {
			return fmt.Errorf("lock the finality of every chain: %w", err)
		}
		rows, err := tx.Query(ctx, `
			SELECT f.freeze_id FROM freezes f
			WHERE f.scope IN ('CUSTOMER', 'ORGANIZATION') AND f.source = 'FINALITY' AND f.lifted_at IS NULL
				AND NOT `+existsForFrozen(`deposits d`, `(d.status = 'CREDITED' AND d.chain_status = 'REORGED' OR d.status = 'REVERSED' AND d.reversed_at >= f.created_at) AND NOT `+hiddenStray)+`
				-- Where nobody has decided yet nothing is in question, and all of it is.
				AND NOT `+existsForFrozen(`deposits d JOIN scan_cursors c ON c.chain = d.chain AND d.height > c.forked_above`, `d.status = 'CREDITED' AND NOT `+hiddenStray)+`
			ORDER BY f.freeze_id FOR UPDATE OF f SKIP LOCKED`)
		if err != nil {
			return fmt.Errorf("look for freezes to lift: %w", err)
		}
		freezeIDs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for freezes to lift: %w", err)
		}
		for _, freezeID := range freezeIDs {
			if err := freeze.Lift(ctx, tx, freezeID, systemActor); err != nil {
				return err
			}
		}
		released = len(freezeIDs)
		return nil
	})
	return released, err
}

// existsForFrozen returns the SQL condition that the customer or organization of freeze f has such
// deposits. Each half uses an index of its own.
func existsForFrozen(tables, condition string) string {
	return `(EXISTS (SELECT FROM ` + tables + ` WHERE d.org_id = f.org_id AND d.customer_id = f.customer_id AND ` +
		condition + `)
		OR f.scope = 'ORGANIZATION' AND EXISTS (SELECT FROM ` + tables + ` WHERE d.org_id = f.org_id AND d.product IS NOT NULL AND ` + condition + `))`
}

// SettleReorgs finishes what a broken finality left to do: it reverses credited deposits, abandons
// flagged ones, claims losses and lifts freezes.
func (s *Service) SettleReorgs(ctx context.Context) error {
	_, reverseErr := s.ReverseReorged(ctx)
	_, abandonErr := s.AbandonFlagged(ctx)
	_, claimErr := s.ClaimLosses(ctx)
	_, liftErr := s.LiftFreezes(ctx)
	return errors.Join(reverseErr, abandonErr, claimErr, liftErr)
}
