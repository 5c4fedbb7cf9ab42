package deposit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

var _ finality.Concerned = (*Desk)(nil)

// Parted implements finality.Concerned: who was credited with what may be gone
// is frozen at once, so that it cannot leave by another chain while a person looks.
// An organization that was credited itself is frozen as a whole: what its product
// lacks could otherwise be handed to a customer of its own. See decision 0026.
func (d *Desk) Parted(ctx context.Context, tx pg.Tx, ch chain.Name, above uint64) error {
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT org_id, coalesce(customer_id, '') AS customer FROM deposits
		WHERE chain = $1 AND height > $2 AND proof_id IS NOT NULL AND status = 'CREDITED' AND (customer_id IS NOT NULL OR product IS NOT NULL)
		ORDER BY org_id, customer`, ch, above)
	if err != nil {
		return fmt.Errorf("look for who was credited above block %d of %s: %w", above, ch, err)
	}
	type owner struct{ OrgID, CustomerID string }
	owners, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owner])
	if err != nil {
		return fmt.Errorf("look for who was credited above block %d of %s: %w", above, ch, err)
	}
	for _, o := range owners {
		f := freeze.Freeze{
			Scope: freeze.Customer, OrgID: o.OrgID, CustomerID: o.CustomerID, Source: freeze.ByFinality,
			Reason: fmt.Sprintf("was credited with what stood above block %d of %s, which is not final any more", above, ch),
		}
		if o.CustomerID == "" {
			f.Scope = freeze.Organization
		}
		if err := freeze.Put(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// Broken implements finality.Concerned: what was not credited is as if it had
// never been final, and what was credited is in question until the new fork has
// shown it again or has not.
func (d *Desk) Broken(ctx context.Context, tx pg.Tx, b finality.Break) error {
	if err := d.Parted(ctx, tx, b.Chain, b.Ancestor.Height); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM deposits
		WHERE chain = $1 AND height > $2 AND proof_id IS NOT NULL AND chain_status = 'FINALIZED'
		ORDER BY deposit_id FOR UPDATE`, b.Chain, b.Ancestor.Height)
	if err != nil {
		return fmt.Errorf("look for deposits above block %d of %s: %w", b.Ancestor.Height, b.Chain, err)
	}
	gone, err := pgx.CollectRows(rows, scanned)
	if err != nil {
		return fmt.Errorf("look for deposits above block %d of %s: %w", b.Ancestor.Height, b.Chain, err)
	}
	var (
		changes []change
		dust    []wallet.Movement
		entries []audit.Entry
	)
	for _, was := range gone {
		is := was
		is.chainStatus = reorged
		if !counted[was.status] {
			is.status, is.proofID, is.confirmedAt = Orphaned, nil, nil
		}
		changes = append(changes, change{was, is})
		if was.status == BelowMinimum {
			dust = append(dust, wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Dust, Minus: is.amount})
		}
		e := changed(is)
		if counted[is.status] {
			e.Action = "deposit.in_question"
		}
		entries = append(entries, e)
	}
	if err := become(ctx, tx, changes...); err != nil {
		return err
	}
	if b.Chain.Pooled() {
		if err := coin.Broken(ctx, tx, b.Chain, b.Ancestor.Height); err != nil {
			return err
		}
	}
	if err := wallet.Move(ctx, tx, dust...); err != nil {
		return err
	}
	return record(ctx, tx, entries)
}

// returned is the deposit that a final movement is, of those that were credited
// and are in question: the same money to the same account. nil when it is none.
func returned(gone []row, f scan.Found) *row {
	if f.Mint == nil || f.Doubt != "" {
		return nil
	}
	from, several := senders(f)
	for i, r := range gone {
		if counted[r.status] && r.lostAt == nil && r.address == f.To && r.contract == f.Contract && r.amount == f.Amount && *r.mintID == f.Mint.ID && r.walletID == f.Wallet.ID &&
			(r.flag == nil || r.from == from && slices.Equal(r.senders, several)) { // a flag is of its sender
			return &gone[i]
		}
	}
	return nil
}

// Reverse takes back what was credited and is not on the chain any more, once
// the walk is so far that it would have been found, and returns how many it took
// back. Each is a transaction of its own.
func (d *Desk) Reverse(ctx context.Context) (reversed int, err error) {
	var due []string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN finality_proofs p ON p.proof_id = d.proof_id
			JOIN scan_cursors c ON c.chain = d.chain AND c.parted_above IS NULL
			WHERE d.status = 'CREDITED' AND d.chain_status = 'REORGED'
				AND c.height >= (SELECT max(b.settle_height) FROM finality_breaks b
					WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height)
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for deposits to reverse: %w", err)
	}
	return d.each(ctx, due, d.reverse)
}

// reverse takes one deposit back: what its owner still has is taken, the rest is
// a loss. A payment of the owner's at the same moment makes it fail, and the next
// run asks for the balance again.
func (d *Desk) reverse(ctx context.Context, depositID string) (done bool, err error) {
	var taken money.Amount
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		done = false
		// The chain first, as everywhere; its name never changes.
		var ch chain.Name
		if err := tx.QueryRow(ctx, `SELECT chain FROM deposits WHERE deposit_id = $1`, depositID).Scan(&ch); err != nil {
			return err
		}
		if _, err := finality.Hold(ctx, tx, ch); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND status = 'CREDITED' AND chain_status = 'REORGED' FOR UPDATE`, depositID)
		if err != nil {
			return err
		}
		was, err := pgx.CollectExactlyOneRow(rows, scanned)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // found again, or somebody else was first
		}
		if err != nil {
			return err
		}
		catalogue, err := mint.All(ctx, tx)
		if err != nil {
			return err
		}
		m, ok := catalogue.ByID(*was.mintID)
		if !ok {
			return fmt.Errorf("its mint %d does not exist", *was.mintID)
		}
		from, part := owner(was, m.Kind == mint.Native)
		keeps, err := keepersOf(ctx, tx, was)
		if err != nil {
			return err
		}
		at, known := keeps.of(was)
		if !known {
			return errors.New("its organization has no treasury")
		}
		balance, err := ledger.Balance(ctx, tx, from)
		if err != nil {
			return err
		}
		taken = least(balance, was.amount)
		lost, err := was.amount.Sub(taken)
		if err != nil {
			return err
		}
		is, now := was, tx.Now
		is.status, is.reversedAt, is.takenBack = Reversed, &now, &taken
		if err := become(ctx, tx, change{was, is}); err != nil {
			return err
		}
		back := wallet.Reversed
		if part == wallet.Gas {
			back = wallet.GasReversed
		}
		if err := wallet.Move(ctx, tx, wallet.Movement{WalletID: at, OrgID: is.orgID, MintID: m.ID, Part: back, Plus: is.amount}); err != nil {
			return err
		}
		custody := ledger.Account{OrgID: is.orgID, MintID: m.ID, Kind: ledger.Custody}
		var legs []ledger.Leg
		if !taken.IsZero() {
			legs = append(legs, ledger.Leg{Debit: from, Credit: custody, Amount: taken})
		}
		if !lost.IsZero() {
			legs = append(legs, ledger.Leg{Debit: loss(from), Credit: custody, Amount: lost})
		}
		if err := ledger.Post(ctx, tx, ledger.Posting{Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: is.id}, Legs: legs}); err != nil {
			return err
		}
		if told := is.told(event.CustomerDepositReversed); told != "" {
			if err := tell(ctx, tx, []row{is}, byID, func(row) event.Type { return told }); err != nil {
				return err
			}
		}
		e := changed(is)
		e.Detail = map[string]string{
			"txHash": string(is.tx), "amount": is.amount.String(), "takenBack": taken.String(), "lost": lost.String(),
		}
		done = true
		return record(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("reverse deposit %s: %w", depositID, err)
	}
	if done {
		d.log.Warn("deposit: reversed, the chain has taken it back", "deposit", depositID, "taken", taken.String())
	}
	return done, nil
}

// GiveUp ends what was flagged and is not on the chain any more, once the walk is so far
// that it would have been found, and returns how many. What nobody sent away is ORPHANED,
// and its hold ends; what was sent back or elsewhere is the operator's loss, and stays
// what it is. Nothing is told. What is on its way is looked at when its transfer has ended.
func (d *Desk) GiveUp(ctx context.Context) (ended int, err error) {
	var due []string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN finality_proofs p ON p.proof_id = d.proof_id
			JOIN scan_cursors c ON c.chain = d.chain AND c.parted_above IS NULL
			WHERE d.is_flagged AND d.chain_status = 'REORGED' AND `+givenUp+`
				AND c.height >= (SELECT max(b.settle_height) FROM finality_breaks b WHERE b.chain = p.chain AND b.fork > p.fork AND b.ancestor_height < p.height)
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for flagged deposits to give up: %w", err)
	}
	return d.each(ctx, due, d.giveUp)
}

// givenUp are in SQL the flagged deposits that nothing is on its way of. A transfer that
// failed counts where a living block proves it.
const givenUp = `(d.status = 'FLAGGED' OR d.status IN ('REJECTED', 'REDIRECTED') AND d.lost_at IS NULL
	OR d.status = 'RESOLUTION_STUCK' AND EXISTS (
		SELECT FROM deposit_resolutions r JOIN dispatch_orders o ON o.order_id = r.resolution_id JOIN finality_live l ON l.proof_id = o.proof_id
		WHERE r.deposit_id = d.deposit_id AND r.status = 'STUCK' AND o.status = 'FAILED'))`

func (d *Desk) giveUp(ctx context.Context, depositID string) (done bool, err error) {
	var sent bool
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		done = false
		var ch chain.Name
		if err := tx.QueryRow(ctx, `SELECT chain FROM deposits WHERE deposit_id = $1`, depositID).Scan(&ch); err != nil {
			return err
		}
		if _, err := finality.Hold(ctx, tx, ch); err != nil {
			return err
		}
		// An order comes before its deposit.
		if _, err := tx.Exec(ctx, `
			SELECT FROM dispatch_orders WHERE order_id IN (SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'STUCK') FOR UPDATE`, depositID); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits d WHERE deposit_id = $1 AND is_flagged AND chain_status = 'REORGED' AND `+givenUp+` FOR UPDATE`, depositID)
		if err != nil {
			return err
		}
		was, err := pgx.CollectExactlyOneRow(rows, scanned)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // found again, or somebody else was first
		}
		if err != nil {
			return err
		}
		is, now := was, tx.Now
		funds := []wallet.Movement{{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Reversed, Plus: is.amount}}
		posting, verb := released(is), "orphaned"
		if sent = was.status == Rejected || was.status == Redirected; sent {
			custody := ledger.Account{OrgID: is.orgID, MintID: *is.mintID, Kind: ledger.Custody}
			posting = ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: is.id},
				Legs:  []ledger.Leg{{Debit: loss(custody), Credit: custody, Amount: is.amount}},
			}
			is.lostAt, verb = &now, "lost"
		} else {
			if was.status == ResolutionStuck {
				if err := failed(ctx, tx, depositID); err != nil {
					return err
				}
				if ch.Pooled() { // what a cancel brought back is kept for nobody any more
					if err := letBack(ctx, tx, depositID); err != nil {
						return err
					}
				}
			}
			is.status, is.proofID, is.confirmedAt = Orphaned, nil, nil
			funds = append(funds, wallet.Movement{WalletID: is.walletID, OrgID: is.orgID, MintID: *is.mintID, Part: wallet.Held, Minus: is.amount})
		}
		if err := become(ctx, tx, change{was, is}); err != nil {
			return err
		}
		if err := wallet.Move(ctx, tx, funds...); err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, posting); err != nil {
			return err
		}
		e := changed(is)
		e.Action = "deposit." + verb
		done = true
		return record(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("give up deposit %s: %w", depositID, err)
	}
	if done {
		d.log.Warn("deposit: flagged, and the chain has taken it back", "deposit", depositID, "sentAway", sent)
	}
	return done, nil
}

// failed ends the stuck resolution of a deposit that there is nothing to send of.
func failed(ctx context.Context, tx pg.Tx, depositID string) error {
	var resID string
	if err := tx.QueryRow(ctx, `SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'STUCK'`, depositID).Scan(&resID); err != nil {
		return fmt.Errorf("look for its resolution: %w", err)
	}
	return endResolution(ctx, tx, resID, "STUCK", "FAILED", "", money.Zero, "REVERTED", "its transaction failed, and the deposit is not on the chain any more")
}

// loss is the account of what was credited and is gone.
func loss(of ledger.Account) ledger.Account {
	of.Kind, of.Subject = ledger.ReorgLoss, ""
	return of
}

func least(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return a
	}
	return b
}

// Claim takes what a customer or a product has of the loss that a reversal left,
// while the freeze that came with it stands: what a hold gives back was credited for
// nothing. Whoever lifts the freeze lets the rest go. It returns how many
// deposits it took something for.
func (d *Desk) Claim(ctx context.Context) (claimed int, err error) {
	var due []string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id FROM deposits d
			JOIN freezes f ON `+theirs+`
			JOIN ledger_accounts a ON a.org_id = d.org_id AND a.mint_id = d.mint_id
				AND a.kind = CASE WHEN d.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AND a.subject = coalesce(d.customer_id, d.product)
			JOIN ledger_balances b ON b.account_id = a.account_id AND b.balance > 0
			WHERE d.status = 'REVERSED' AND d.taken_back < d.amount AND d.reversed_at >= f.created_at
			ORDER BY d.deposit_id`)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for losses to claim: %w", err)
	}
	return d.each(ctx, due, d.claim)
}

// each settles deposits one by one, each in transactions of its own, and says how many
// it settled: one that cannot be does not keep the others.
func (d *Desk) each(ctx context.Context, due []string, settle func(ctx context.Context, depositID string) (bool, error)) (n int, err error) {
	var errs []error
	for _, depositID := range due {
		done, err := settle(ctx, depositID)
		if err != nil {
			d.log.Error("deposit: not settled after a broken finality", "deposit", depositID, "error", err)
			errs = append(errs, err)
			continue
		}
		if done {
			n++
		}
	}
	return n, errors.Join(errs...)
}

// theirs joins a deposit with the freeze of whoever it was credited to.
const theirs = `f.org_id = d.org_id AND f.source = 'FINALITY' AND f.lifted_at IS NULL
	AND (f.scope = 'CUSTOMER' AND f.customer_id = d.customer_id OR f.scope = 'ORGANIZATION' AND d.product IS NOT NULL)`

func (d *Desk) claim(ctx context.Context, depositID string) (done bool, err error) {
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		done = false
		rows, err := tx.Query(ctx, `SELECT `+columns+` FROM deposits WHERE deposit_id = $1 AND status = 'REVERSED' FOR UPDATE`, depositID)
		if err != nil {
			return err
		}
		was, err := pgx.CollectExactlyOneRow(rows, scanned)
		if err != nil {
			return err
		}
		// The freeze is what allows it: nobody lifts it meanwhile.
		var stands bool
		err = tx.QueryRow(ctx, `
			SELECT true FROM freezes f JOIN deposits d ON `+theirs+`
			WHERE d.deposit_id = $1 AND f.created_at <= d.reversed_at FOR SHARE OF f`, was.id).Scan(&stands)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		from, _ := owner(was, false)
		balance, err := ledger.Balance(ctx, tx, from)
		if err != nil {
			return err
		}
		open, err := was.amount.Sub(*was.takenBack)
		if err != nil {
			return err
		}
		more := least(balance, open)
		if more.IsZero() {
			return nil
		}
		sum, err := was.takenBack.Add(more)
		if err != nil {
			return err
		}
		is := was
		is.takenBack, is.claims = &sum, was.claims+1
		if err := become(ctx, tx, change{was, is}); err != nil {
			return err
		}
		err = ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.DepositReversal, ID: fmt.Sprintf("%s/%d", is.id, is.claims)},
			Legs:  []ledger.Leg{{Debit: from, Credit: loss(from), Amount: more}},
		})
		if err != nil {
			return err
		}
		e := changed(is)
		e.Action = "deposit.loss_claimed"
		e.Detail = map[string]string{"amount": more.String(), "takenBack": sum.String()}
		done = true
		return record(ctx, tx, []audit.Entry{e})
	})
	if err != nil {
		return false, fmt.Errorf("claim the loss of deposit %s: %w", depositID, err)
	}
	return done, nil
}

// Release lifts the freezes of customers and organizations all of whose deposits
// turned out to be on the chain. One with a reversal since stays frozen until a
// person has looked.
func (d *Desk) Release(ctx context.Context) (released int, err error) {
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		released = 0
		var frozen bool
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM freezes WHERE scope IN ('CUSTOMER', 'ORGANIZATION') AND source = 'FINALITY' AND lifted_at IS NULL)`).Scan(&frozen)
		if err != nil || !frozen {
			return err
		}
		// A chain that parts meanwhile waits and freezes anew, or is seen below.
		if _, err := tx.Exec(ctx, `SELECT FROM scan_cursors ORDER BY chain FOR KEY SHARE`); err != nil {
			return fmt.Errorf("hold the finality of every chain: %w", err)
		}
		rows, err := tx.Query(ctx, `
			SELECT f.freeze_id FROM freezes f
			WHERE f.scope IN ('CUSTOMER', 'ORGANIZATION') AND f.source = 'FINALITY' AND f.lifted_at IS NULL
				AND NOT `+some(`deposits d`, `(d.status = 'CREDITED' AND d.chain_status = 'REORGED' OR d.status = 'REVERSED' AND d.reversed_at >= f.created_at)`)+`
				-- Where nobody has decided yet nothing is in question, and all of it is.
				AND NOT `+some(`deposits d JOIN scan_cursors c ON c.chain = d.chain AND d.height > c.parted_above`, `d.status = 'CREDITED'`)+`
			ORDER BY f.freeze_id FOR UPDATE OF f SKIP LOCKED`)
		if err != nil {
			return fmt.Errorf("look for freezes to lift: %w", err)
		}
		over, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for freezes to lift: %w", err)
		}
		for _, freezeID := range over {
			if err := freeze.Lift(ctx, tx, freezeID, actor); err != nil {
				return err
			}
		}
		released = len(over)
		return nil
	})
	return released, err
}

// some tells in SQL whether there are such deposits of whoever freeze f stops, a
// customer or an organization: each half finds them by an index of its own.
func some(from, such string) string {
	return `(EXISTS (SELECT FROM ` + from + ` WHERE d.org_id = f.org_id AND d.customer_id = f.customer_id AND ` + such + `)
		OR f.scope = 'ORGANIZATION' AND EXISTS (SELECT FROM ` + from + ` WHERE d.org_id = f.org_id AND d.product IS NOT NULL AND ` + such + `))`
}

// Settle does what a broken finality leaves to do: it reverses, gives up what was
// flagged, claims and releases.
func (d *Desk) Settle(ctx context.Context) error {
	_, reversed := d.Reverse(ctx)
	_, given := d.GiveUp(ctx)
	_, claimed := d.Claim(ctx)
	_, released := d.Release(ctx)
	return errors.Join(reversed, given, claimed, released)
}
