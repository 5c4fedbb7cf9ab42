// Package freeze records what is stopped, by whom and why. Code that lets money out asks this
// package in the transaction that decides, and again before each signature and each broadcast.
//
// The package never deletes a freeze, and no freeze lifts itself. Each source has a freeze of its
// own, so lifting one leaves the others. A crash leaves a freeze that is active or was never
// created. Creating it again adds nothing.
package freeze

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Scope says how much a freeze stops.
type Scope string

// These are the scopes, widest first.
const (
	ScopeAll          Scope = "ALL"
	ScopeChain        Scope = "CHAIN"
	ScopeOrganization Scope = "ORGANIZATION"
	ScopeCustomer     Scope = "CUSTOMER"
	ScopeWallet       Scope = "WALLET" // one wallet on one chain
)

// Source says who created the freeze, and thereby who may lift it.
type Source string

// These are the sources. The last four are this program. It lifts only the freeze of a customer or
// an organization whose deposits are all on the chain again.
const (
	SourceOrganization Source = "ORGANIZATION"
	SourceOperator     Source = "OPERATOR"
	SourceVerify       Source = "VERIFY"
	SourceFinality     Source = "FINALITY"
	SourceDispatch     Source = "DISPATCH"
	SourceSigner       Source = "SIGNER"
)

// LiftAction returns what a caller does who lifts a freeze of the source. Rule OP-5.
func (s Source) LiftAction() identity.Action {
	if s == SourceOrganization {
		return identity.UnfreezeCustomer
	}
	return identity.LiftFreeze
}

// Freeze is one stop. Fields that its scope does not use are empty.
type Freeze struct {
	ID         string // set by Create
	Scope      Scope
	OrgID      string // for ORGANIZATION and CUSTOMER; also for a WALLET
	CustomerID string
	Chain      chain.Name // for CHAIN and WALLET
	WalletID   string
	Source     Source
	Reason     string      // a sentence for the operator
	Actor      audit.Actor // required for ORGANIZATION and OPERATOR
	CreatedAt  time.Time
	LiftedAt   *time.Time
	LiftedBy   string
}

// Target is what a payment is about to touch. Empty fields are not touched.
type Target struct {
	OrgID      string
	CustomerID string // of OrgID
	Chain      chain.Name
	WalletID   string
}

const columns = `freeze_id, scope, coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, ''),
	source, reason, created_at, lifted_at, coalesce(lifted_by, '')`

func scanFreeze(row pgx.CollectableRow) (f Freeze, err error) {
	err = row.Scan(&f.ID, &f.Scope, &f.OrgID, &f.CustomerID, &f.Chain, &f.WalletID,
		&f.Source, &f.Reason, &f.CreatedAt, &f.LiftedAt, &f.LiftedBy)
	return f, err
}

// Active returns the widest active freeze that stops the target, or nil if there is none.
// Rule OP-5.
func Active(ctx context.Context, tx pg.Tx, target Target) (*Freeze, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM freezes
		WHERE lifted_at IS NULL AND (
			scope = 'ALL'
			OR scope = 'CHAIN' AND chain = $3
			OR scope = 'ORGANIZATION' AND org_id = $1
			OR scope = 'CUSTOMER' AND org_id = $1 AND customer_id = $2
			OR scope = 'WALLET' AND wallet_id = $4 AND ($3 = '' OR chain = $3))
		ORDER BY array_position(ARRAY['ALL', 'CHAIN', 'ORGANIZATION', 'CUSTOMER', 'WALLET'], scope), created_at
		LIMIT 1`, target.OrgID, target.CustomerID, string(target.Chain), target.WalletID)
	if err != nil {
		return nil, fmt.Errorf("look for freezes: %w", err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, scanFreeze)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for freezes: %w", err)
	}
	return &f, nil
}

// QueueActive queues the query for the active freezes that can stop an organization or these
// customers of it: Active for many targets at once. It locks as LockShared does, so it comes before
// any lock that a payment takes. The result is filled when the batch is sent.
func QueueActive(b *pgx.Batch, org string, customers []string) *ActiveSet {
	QueueLock(b)
	return QueueLook(b, org, customers)
}

// QueueLock queues LockShared.
func QueueLock(b *pgx.Batch) { pg.QueueLockShared(b, lockName) }

// QueueLook queues the query of QueueActive without its lock, for a look that decides nothing for good.
func QueueLook(b *pgx.Batch, org string, customers []string) *ActiveSet {
	active := &ActiveSet{}
	b.Queue(`
		SELECT `+columns+` FROM freezes
		WHERE lifted_at IS NULL AND (
			scope IN ('ALL', 'CHAIN')
			OR scope = 'ORGANIZATION' AND org_id = $1
			OR scope = 'CUSTOMER' AND org_id = $1 AND customer_id = ANY ($2))
		ORDER BY array_position(ARRAY['ALL', 'CHAIN', 'ORGANIZATION', 'CUSTOMER', 'WALLET'], scope), created_at`,
		org, customers).Query(func(rows pgx.Rows) (err error) {
		active.freezes, err = pgx.CollectRows(rows, scanFreeze)
		return err
	})
	return active
}

// ActiveSet is the result of QueueActive and QueueLook.
type ActiveSet struct{ freezes []Freeze }

// FindFor does what Active does, for a customer and a chain that the set was loaded for.
func (b *ActiveSet) FindFor(target Target) *Freeze {
	for _, f := range b.freezes {
		switch {
		case f.Scope == ScopeChain && f.Chain != target.Chain,
			f.Scope == ScopeCustomer && f.CustomerID != target.CustomerID:
		default:
			return &f
		}
	}
	return nil
}

// lockName is the advisory lock of all freezes. Code that lets money out takes it shared; Create
// takes it exclusively.
const lockName = "freezes"

// LockShared keeps new freezes out until the transaction ends. Code that moves money one step
// further calls it before Active, and before any lock that a payment takes. Then every such step
// that commits after a freeze has seen the freeze. Lifting waits for no lock. Rule WD-38.
func LockShared(ctx context.Context, tx pg.Tx) error { return pg.LockShared(ctx, tx, lockName) }

// LockExclusive takes the lock of Create. A transaction that locks rows before it calls Create takes
// the lock first: a step that shares it may wait for those rows.
func LockExclusive(ctx context.Context, tx pg.Tx) error { return pg.LockExclusive(ctx, tx, lockName) }

// IsFinalityBroken reports whether proven final blocks of a chain may no longer be on it. It is
// true until a person lifts that freeze. Meanwhile nothing may be credited or settled by such a
// proof.
func IsFinalityBroken(ctx context.Context, tx pg.Tx, name chain.Name) (bool, error) {
	var isBroken bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM freezes WHERE scope = 'CHAIN' AND chain = $1 AND source = 'FINALITY' AND lifted_at IS NULL)`,
		string(name)).Scan(&isBroken)
	if err != nil {
		return false, fmt.Errorf("ask whether the finality of %s is broken: %w", name, err)
	}
	return isBroken, nil
}

// List returns the active freezes, oldest first.
func List(ctx context.Context, tx pg.Tx) ([]Freeze, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM freezes WHERE lifted_at IS NULL ORDER BY created_at, freeze_id`)
	if err != nil {
		return nil, fmt.Errorf("list the freezes: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanFreeze)
	if err != nil {
		return nil, fmt.Errorf("list the freezes: %w", err)
	}
	return found, nil
}

// Create creates a freeze. If a freeze of the same scope, target and source is active, it changes
// nothing, and the first reason stays. It waits for all transactions that have called LockShared.
// So the caller must not have locked rows that those lock, and should commit soon.
func Create(ctx context.Context, tx pg.Tx, f Freeze) error {
	_, err := insertFreeze(ctx, tx, f)
	return err
}

// WasLifted reports whether a freeze of the same scope, target and source, created with this exact
// reason, was lifted.
func WasLifted(ctx context.Context, tx pg.Tx, f Freeze) (isLifted bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM freezes WHERE lifted_at IS NOT NULL AND scope = $1 AND source = $2 AND reason = $3
			AND (coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, '')) = ($4, $5, $6, $7))`,
		string(f.Scope), string(f.Source), f.Reason, f.OrgID, f.CustomerID, string(f.Chain), f.WalletID).Scan(&isLifted)
	if err != nil {
		return false, fmt.Errorf("look for freezes that a person lifted: %w", err)
	}
	return isLifted, nil
}

// insertFreeze does what Create does, and reports whether it inserted a row.
func insertFreeze(ctx context.Context, tx pg.Tx, f Freeze) (isNew bool, err error) {
	if err := LockExclusive(ctx, tx); err != nil {
		return false, err
	}
	f.ID = id.New("frz", tx.Now)
	actor := f.Actor
	if actor == (audit.Actor{}) {
		actor = audit.System(strings.ToLower(string(f.Source)))
	}
	emptyAsNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO freezes (freeze_id, scope, org_id, customer_id, chain, wallet_id, source, reason, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (scope, source, coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, ''))
			WHERE lifted_at IS NULL DO NOTHING`,
		f.ID, string(f.Scope), emptyAsNull(f.OrgID), emptyAsNull(f.CustomerID), emptyAsNull(string(f.Chain)),
		emptyAsNull(f.WalletID),
		string(f.Source), f.Reason, tx.Now)
	if err != nil {
		return false, fmt.Errorf("create a freeze of scope %s: %w", f.Scope, err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	return true, audit.Record(ctx, tx, audit.Entry{
		OrgID: f.OrgID, Actor: actor, Action: "freeze.put", ResourceKind: "FREEZE", ResourceID: f.ID,
		Detail: map[string]string{
			"scope": string(f.Scope), "customerId": f.CustomerID, "chain": string(f.Chain), "walletId": f.WalletID,
			"source": string(f.Source), "reason": f.Reason,
		},
	})
}

// Lift ends a freeze. It needs a system transaction; for an organization's own freeze of a
// customer, a transaction of that organization is enough. The caller checks who may lift which
// freeze. Errors:
//   - NOT_FOUND if there is no such freeze
//   - INVALID_STATE if it was lifted before, or if it is the freeze of a chain whose broken
//     finality is not settled; the
//
// latter aborts the transaction
func Lift(ctx context.Context, tx pg.Tx, freezeID string, actor audit.Actor) error {
	var org string
	err := tx.QueryRow(ctx, `
		UPDATE freezes SET lifted_at = $2, lifted_by = $3
		WHERE freeze_id = $1 AND lifted_at IS NULL
		RETURNING coalesce(org_id, '')`, freezeID, tx.Now, actor.Kind+" "+actor.ID).Scan(&org)
	if pg.ViolatesConstraint(err, "freezes_settled") {
		// The message of the trigger says what is open.
		refused, _ := errors.AsType[*pgconn.PgError](err)
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Freeze %s was not lifted: %s.", freezeID, refused.Message)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		var exists bool
		if err := tx.QueryRow(
			ctx, `SELECT EXISTS (SELECT FROM freezes WHERE freeze_id = $1)`, freezeID,
		).Scan(&exists); err != nil {
			return fmt.Errorf("look for freeze %s: %w", freezeID, err)
		}
		if exists {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"Freeze %s is already lifted.", freezeID)
		}
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"Freeze %s does not exist.", freezeID)
	}
	if err != nil {
		return fmt.Errorf("lift freeze %s: %w", freezeID, err)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "freeze.lifted", ResourceKind: "FREEZE", ResourceID: freezeID,
	})
}

// ListOfCustomer returns the active freezes of one customer, oldest first.
func ListOfCustomer(ctx context.Context, tx pg.Tx, org, customerID string) ([]Freeze, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM freezes
		WHERE scope = 'CUSTOMER' AND org_id = $1 AND customer_id = $2 AND lifted_at IS NULL
		ORDER BY created_at, freeze_id`, org, customerID)
	if err != nil {
		return nil, fmt.Errorf("look for freezes of customer %q: %w", customerID, err)
	}
	found, err := pgx.CollectRows(rows, scanFreeze)
	if err != nil {
		return nil, fmt.Errorf("look for freezes of customer %q: %w", customerID, err)
	}
	return found, nil
}

// LiftByOrganization ends the freeze that an organization created for its customer, in a
// transaction of that organization. Freezes of other sources stay active: the tables let an
// organization lift no other freeze. It changes nothing if there is none. Rule CUS-6.
func LiftByOrganization(ctx context.Context, tx pg.Tx, org, customerID string, actor audit.Actor) error {
	active, err := ListOfCustomer(ctx, tx, org, customerID)
	if err != nil {
		return err
	}
	for _, f := range active {
		if f.Source != SourceOrganization {
			continue
		}
		// A concurrent lift has the same result.
		if err := Lift(ctx, tx, f.ID, actor); err != nil && !fault.HasCode(err, fault.InvalidState) {
			return err
		}
	}
	return nil
}
