package customer

import (
	"context"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// CoolingOff is how long a changed e-mail is not trusted.
const CoolingOff = 24 * time.Hour

const reasonRunesMax = 500 // of the reason of a freeze

const resourceKind = "CUSTOMER"

// TrustedEmail returns the e-mail that a rule may rely on at now, in the form of FoldEmail. It
// returns "" if no e-mail is known, if it is not plain, or if it was changed less than coolingOff
// ago. A coolingOff of zero trusts every plain e-mail. A clock that goes back trusts nothing
// earlier. Rules CUS-4 and CUS-7.
func (c Customer) TrustedEmail(now time.Time, coolingOff time.Duration) string {
	if !PlainEmail(c.Email) {
		return ""
	}
	if c.Email == "" || coolingOff > 0 && c.EmailChangedAt != nil && now.Before(c.EmailChangedAt.Add(coolingOff)) {
		return ""
	}
	return FoldEmail(c.Email)
}

// Change holds the wanted changes of a customer; a nil member stays.
type Change struct {
	Email    *string
	Metadata map[string]string // replaces all of it
}

func (ch Change) validateChange() error {
	if ch.Email != nil {
		if err := CheckNewEmail(*ch.Email); err != nil {
			return err
		}
	}
	return request.CheckMetadata(ch.Metadata, fault.NothingWritten)
}

// Edit changes a customer and returns the result. No rule trusts another e-mail than the known one
// until the cooling-off ends: the time of the change is written with it. The same e-mail in another
// letter case is no change. Errors: NOT_FOUND, INVALID_REQUEST. Rules CUS-4 and CUS-5.
func Edit(ctx context.Context, tx pg.Tx, org, id string, actor audit.Actor, ch Change) (Customer, error) {
	if err := ch.validateChange(); err != nil {
		return Customer{}, err
	}
	if CheckID(id) == nil {
		// FOR NO KEY UPDATE does not block transactions that only reference the customer.
		if _, err := tx.Exec(
			ctx, `SELECT FROM customers WHERE org_id = $1 AND customer_id = $2 FOR NO KEY UPDATE`, org, id,
		); err != nil {
			return Customer{}, fmt.Errorf("lock customer %q: %w", id, err)
		}
	}
	before, err := ByID(ctx, tx, org, id)
	if err != nil {
		return Customer{}, err
	}
	var entries []audit.Entry
	addEntry := func(action string, detail any) {
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: actor, Action: action, ResourceKind: resourceKind, ResourceID: id, Detail: detail,
		})
	}
	after := before
	// A transaction that waited for this row may have begun before the one that held it. The times
	// of changes increase all the same.
	after.UpdatedAt = tx.Now
	if before.EmailChangedAt != nil && !after.UpdatedAt.After(*before.EmailChangedAt) {
		after.UpdatedAt = before.EmailChangedAt.Add(time.Microsecond)
	}
	if ch.Email != nil && !SameEmail(*ch.Email, before.Email) {
		after.Email = *ch.Email
		if before.Email == "" && before.EmailChangedAt == nil {
			addEntry("customer.email_added", map[string]any{"email": after.Email})
		} else {
			after.EmailChangedAt = &after.UpdatedAt
			addEntry("customer.email_changed", map[string]any{"from": before.Email, "to": after.Email})
		}
	}
	if ch.Metadata != nil && !maps.Equal(ch.Metadata, before.Metadata) {
		after.Metadata = ch.Metadata
		addEntry("customer.metadata_changed", map[string]any{"from": before.Metadata, "to": after.Metadata})
	}
	if len(entries) == 0 {
		return before, nil
	}
	_, err = tx.Exec(ctx, `
		UPDATE customers SET email = nullif($3, ''), email_changed_at = $4, metadata = $5, updated_at = $6
		WHERE org_id = $1 AND customer_id = $2`,
		org, id, after.Email, after.EmailChangedAt, after.Metadata, after.UpdatedAt)
	if pg.ViolatesConstraint(err, "customers_email_plain") {
		return Customer{}, newNotPlain()
	}
	if err != nil {
		return Customer{}, fmt.Errorf("change customer %q: %w", id, err)
	}
	return after, audit.Record(ctx, tx, entries...)
}

// Freeze stops everything that leaves a customer's balances, in the organization's name, and
// returns the customer. After the commit no payment leaves that was not accepted before. While the
// organization's freeze of the customer is active, another call changes nothing: the first reason
// stays. Errors: NOT_FOUND, INVALID_REQUEST. Rule CUS-6.
func Freeze(ctx context.Context, tx pg.Tx, org, id string, actor audit.Actor, reason string) (Customer, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !request.IsPlainText(reason) {
		return Customer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A reason may have at most %d characters, without control characters.", reasonRunesMax).
			WithAdvice("Shorten or clean it, or leave it out.").
			WithParam("reason")
	}
	if _, err := ByID(ctx, tx, org, id); err != nil {
		return Customer{}, err
	}
	if reason == "" {
		reason = "frozen by the organization"
	}
	err := freeze.Create(ctx, tx, freeze.Freeze{
		Scope: freeze.ScopeCustomer, OrgID: org, CustomerID: id, Source: freeze.SourceOrganization, Reason: reason,
		Actor: actor,
	})
	if err != nil {
		return Customer{}, err
	}
	return ByID(ctx, tx, org, id)
}

// Unfreeze lifts the organization's own freeze of a customer and returns the customer, who stays
// frozen while a freeze of another source is active. Errors: NOT_FOUND; OPERATOR_ONLY when none of
// the active freezes is the organization's. Rule CUS-6.
func Unfreeze(ctx context.Context, tx pg.Tx, org, id string, actor audit.Actor) (Customer, error) {
	if _, err := ByID(ctx, tx, org, id); err != nil {
		return Customer{}, err
	}
	active, err := freeze.ListOfCustomer(ctx, tx, org, id)
	if err != nil {
		return Customer{}, err
	}
	isOwn := false
	for _, f := range active {
		isOwn = isOwn || identity.PermissionOf(f.Source.LiftAction()).Key != ""
	}
	if !isOwn && len(active) > 0 {
		return Customer{}, fault.New(fault.Forbidden, fault.OperatorOnly, fault.NothingWritten,
			"Your organization did not freeze this customer, so your organization cannot lift the freeze.").
			WithAdvice("Ask the operator of this service.")
	}
	if err := freeze.LiftByOrganization(ctx, tx, org, id, actor); err != nil {
		return Customer{}, err
	}
	return ByID(ctx, tx, org, id)
}
