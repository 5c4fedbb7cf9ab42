// Package freeze is what is stopped, by whom and why. Whoever is about to let
// money out asks here, in the transaction that decides and again before each
// signature and each send.
//
// What never happens here: a freeze that is deleted or lifts itself. Each
// source has a freeze of its own, so that lifting one leaves the others. What a
// crash leaves: a freeze that stands or was never put; putting it again adds
// nothing.
package freeze

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/pg"
)

// Scope is how much a freeze stops.
type Scope string

// The scopes, widest first.
const (
	ScopeAll          Scope = "ALL"
	ScopeChain        Scope = "CHAIN"
	ScopeOrganization Scope = "ORGANIZATION"
	ScopeCustomer     Scope = "CUSTOMER"
	ScopeWallet       Scope = "WALLET" // one wallet on one chain
)

// Source is who stopped it, and thereby who may lift it.
type Source string

// The sources. The last four are this program, which lifts nothing but the freeze
// of a customer whose deposits all turned out to be on the chain.
const (
	SourceOrganization Source = "ORGANIZATION"
	SourceOperator     Source = "OPERATOR"
	SourceVerify       Source = "VERIFY"
	SourceFinality     Source = "FINALITY"
	SourceDispatch     Source = "DISPATCH"
	SourceSigner       Source = "SIGNER"
)

// Freeze is one stop. The members that its scope does not name are empty.
type Freeze struct {
	ID         string // given by Put
	Scope      Scope
	OrgID      string // ORGANIZATION, CUSTOMER; also of a WALLET
	CustomerID string
	Chain      chain.Name // CHAIN, WALLET
	WalletID   string
	Source     Source
	Reason     string      // a sentence for the operator
	Actor      audit.Actor // who; needed for ORGANIZATION and OPERATOR
	CreatedAt  time.Time
	LiftedAt   *time.Time
	LiftedBy   string
}

// Target is what somebody is about to touch; empty members are not touched.
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

// Active is the widest freeze that stops what somebody is about to touch, or
// nil when nothing does.
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

// QueueActive are the freezes that stop something of an organization, of these
// customers of it, or of everybody: what Standing looks through, for many at
// once. It holds new freezes out as Hold does, so it comes before any lock that a
// payment takes. The answer is there when the batch was sent.
func QueueActive(b *pgx.Batch, org string, customers []string) *ActiveSet {
	active := &ActiveSet{}
	pg.QueueLockShared(b, lockName)
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

// ActiveSet is what Standings found.
type ActiveSet struct{ freezes []Freeze }

// FindFor is Standing, for a customer and a chain that the board was read for.
func (b *ActiveSet) FindFor(target Target) *Freeze {
	for _, f := range b.freezes {
		switch {
		case f.Scope == ScopeChain && f.Chain != target.Chain, f.Scope == ScopeCustomer && f.CustomerID != target.CustomerID:
		default:
			return &f
		}
	}
	return nil
}

// lockName is what those share who let money out, and what a freeze is put through alone.
const lockName = "freezes"

// LockShared keeps new freezes out until the transaction ends. Whoever lets money go one
// step further calls it before it asks Standing, and before any lock that a payment
// takes: a freeze that has committed is then seen by every such step that commits
// after it. Lifting waits for nobody.
func LockShared(ctx context.Context, tx pg.Tx) error { return pg.LockShared(ctx, tx, lockName) }

// IsFinalityBroken tells whether blocks of a chain that were proven final may not
// be on it any more, until a person has lifted that freeze. Nothing may be
// credited or ended by such a proof.
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

// List are the freezes that stand, oldest first.
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

// Create stops something. While a freeze of the same scope, target and source
// stands, it changes nothing: the first reason stays. It waits for the payments that
// have passed Hold, so the caller has not locked what those lock, and commits soon.
func Create(ctx context.Context, tx pg.Tx, f Freeze) error {
	_, err := insertFreeze(ctx, tx, f)
	return err
}

// WasLifted tells whether somebody has lifted a freeze of the same scope, target and source
// that was put with these very words.
func WasLifted(ctx context.Context, tx pg.Tx, f Freeze) (isLifted bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM freezes WHERE lifted_at IS NOT NULL AND scope = $1 AND source = $2 AND reason = $3
			AND (coalesce(org_id, ''), coalesce(customer_id, ''), coalesce(chain, ''), coalesce(wallet_id, '')) = ($4, $5, $6, $7))`,
		string(f.Scope), string(f.Source), f.Reason, f.OrgID, f.CustomerID, string(f.Chain), f.WalletID).Scan(&isLifted)
	if err != nil {
		return false, fmt.Errorf("ask what a person has lifted: %w", err)
	}
	return isLifted, nil
}

// insertFreeze is Put, and tells whether it wrote.
func insertFreeze(ctx context.Context, tx pg.Tx, f Freeze) (isNew bool, err error) {
	if err := pg.LockExclusive(ctx, tx, lockName); err != nil {
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
		f.ID, string(f.Scope), emptyAsNull(f.OrgID), emptyAsNull(f.CustomerID), emptyAsNull(string(f.Chain)), emptyAsNull(f.WalletID),
		string(f.Source), f.Reason, tx.Now)
	if err != nil {
		return false, fmt.Errorf("put a freeze of scope %s: %w", f.Scope, err)
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

// Lift ends a freeze, in a transaction of the system or, its own freeze of a
// customer, of an organization. Who may lift which is the caller's to check. Errors: NOT_FOUND when it never was, INVALID_STATE when it
// was lifted before, or is that of a chain whose broken finality is not settled:
// the transaction is over then.
func Lift(ctx context.Context, tx pg.Tx, freezeID string, actor audit.Actor) error {
	var org string
	err := tx.QueryRow(ctx, `
		UPDATE freezes SET lifted_at = $2, lifted_by = $3
		WHERE freeze_id = $1 AND lifted_at IS NULL
		RETURNING coalesce(org_id, '')`, freezeID, tx.Now, actor.Kind+" "+actor.ID).Scan(&org)
	if pg.ViolatesConstraint(err, "freezes_settled") {
		// The sentence of the table says what is open.
		refused, _ := errors.AsType[*pgconn.PgError](err)
		return fault.New(fault.Conflict, fault.InvalidState, "Freeze %s was not lifted: %s. Nothing was changed and no money moved.", freezeID, refused.Message)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM freezes WHERE freeze_id = $1)`, freezeID).Scan(&exists); err != nil {
			return fmt.Errorf("look for freeze %s: %w", freezeID, err)
		}
		if exists {
			return fault.New(fault.Conflict, fault.InvalidState, "Freeze %s was lifted before. Nothing was changed and no money moved.", freezeID)
		}
		return fault.New(fault.NotFound, fault.CodeNotFound, "There is no freeze %s. Nothing was changed and no money moved.", freezeID)
	}
	if err != nil {
		return fmt.Errorf("lift freeze %s: %w", freezeID, err)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "freeze.lifted", ResourceKind: "FREEZE", ResourceID: freezeID,
	})
}

// ListOfCustomer are the freezes of one customer that stand, oldest first.
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

// LiftByOrganization ends the freeze that an organization put on its customer, in a
// transaction of that organization. What anybody else stopped stays stopped: the
// tables let an organization lift nothing else. It changes nothing when there is
// none.
func LiftByOrganization(ctx context.Context, tx pg.Tx, org, customerID string, actor audit.Actor) error {
	active, err := ListOfCustomer(ctx, tx, org, customerID)
	if err != nil {
		return err
	}
	for _, f := range active {
		if f.Source != SourceOrganization {
			continue
		}
		// Whoever lifted it at this moment wanted the same.
		if err := Lift(ctx, tx, f.ID, actor); err != nil && !fault.HasCode(err, fault.InvalidState) {
			return err
		}
	}
	return nil
}
