package customer

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
)

// CoolingOff is how long a changed e-mail is not trusted.
const CoolingOff = 24 * time.Hour

// The bounds of what an organization keeps with a customer, and of why it froze one.
const (
	metadataKeysMax       = 20
	metadataKeyRunesMax   = 40
	metadataValueRunesMax = 500
	reasonRunesMax        = 500
)

const resourceKind = "CUSTOMER"

const unwritten = " Nothing was written and no money moved."

// TrustedEmail is the e-mail by which a rule may let this customer pass at that
// moment, in the form that FoldEmail gives; "" while there is none: no e-mail is
// known, it is not plain, or it was changed less than coolingOff ago. Zero trusts every
// plain e-mail. A clock that goes back trusts nothing earlier.
func (c Customer) TrustedEmail(now time.Time, coolingOff time.Duration) string {
	if !PlainEmail(c.Email) {
		return ""
	}
	if c.Email == "" || coolingOff > 0 && c.EmailChangedAt != nil && now.Before(c.EmailChangedAt.Add(coolingOff)) {
		return ""
	}
	return FoldEmail(c.Email)
}

// Change is what a person or program wants to be otherwise; a nil member stays.
type Change struct {
	Email    *string
	Metadata map[string]string // replaces all of it
}

func (ch Change) check() error {
	if ch.Email != nil {
		if err := CheckNewEmail(*ch.Email); err != nil {
			return err
		}
	}
	ok := len(ch.Metadata) <= metadataKeysMax
	for k, v := range ch.Metadata {
		ok = ok && k != "" && utf8.RuneCountInString(k) <= metadataKeyRunesMax && utf8.RuneCountInString(v) <= metadataValueRunesMax && plain(k) && plain(v)
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"Metadata has at most %d keys of 1 to %d characters with values of at most %d characters, without control characters."+unwritten+" Make it smaller.",
			metadataKeysMax, metadataKeyRunesMax, metadataValueRunesMax).On("metadata")
	}
	return nil
}

func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) < 0
}

// Edit changes a customer, and shows it as it is then. Another e-mail than the
// known one is not trusted by any rule until the cooling-off is over: its moment
// is written with it. The same e-mail in other letters is no change. Errors:
// NOT_FOUND, INVALID_REQUEST.
func Edit(ctx context.Context, tx pg.Tx, org, id string, by audit.Actor, ch Change) (Customer, error) {
	if err := ch.check(); err != nil {
		return Customer{}, err
	}
	if CheckID(id) == nil {
		// Not against those who only name the customer in a row of theirs.
		if _, err := tx.Exec(ctx, `SELECT FROM customers WHERE org_id = $1 AND customer_id = $2 FOR NO KEY UPDATE`, org, id); err != nil {
			return Customer{}, fmt.Errorf("lock customer %q: %w", id, err)
		}
	}
	was, err := ByID(ctx, tx, org, id)
	if err != nil {
		return Customer{}, err
	}
	var entries []audit.Entry
	changed := func(action string, detail any) {
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: by, Action: action, ResourceKind: resourceKind, ResourceID: id, Detail: detail,
		})
	}
	now := was
	// A transaction that waited for this row may have begun before the one that held
	// it. The moments of changes go forward all the same.
	now.UpdatedAt = tx.Now
	if was.EmailChangedAt != nil && !now.UpdatedAt.After(*was.EmailChangedAt) {
		now.UpdatedAt = was.EmailChangedAt.Add(time.Microsecond)
	}
	if ch.Email != nil && !SameEmail(*ch.Email, was.Email) {
		now.Email = *ch.Email
		if was.Email == "" && was.EmailChangedAt == nil {
			changed("customer.email_added", map[string]any{"email": now.Email})
		} else {
			now.EmailChangedAt = &now.UpdatedAt
			changed("customer.email_changed", map[string]any{"from": was.Email, "to": now.Email})
		}
	}
	if ch.Metadata != nil && !maps.Equal(ch.Metadata, was.Metadata) {
		now.Metadata = ch.Metadata
		changed("customer.metadata_changed", map[string]any{"from": was.Metadata, "to": now.Metadata})
	}
	if len(entries) == 0 {
		return was, nil
	}
	_, err = tx.Exec(ctx, `
		UPDATE customers SET email = nullif($3, ''), email_changed_at = $4, metadata = $5, updated_at = $6
		WHERE org_id = $1 AND customer_id = $2`, org, id, now.Email, now.EmailChangedAt, now.Metadata, now.UpdatedAt)
	if pg.Violates(err, "customers_email_plain") {
		return Customer{}, notPlain()
	}
	if err != nil {
		return Customer{}, fmt.Errorf("change customer %q: %w", id, err)
	}
	return now, audit.Record(ctx, tx, entries...)
}

// Freeze stops what leaves a customer's balances, in the organization's name, and
// shows the customer. Whatever leaves after the commit was refused or came before
// it. While the organization's freeze stands it changes nothing: the first reason
// stays. Errors: NOT_FOUND, INVALID_REQUEST.
func Freeze(ctx context.Context, tx pg.Tx, org, id string, by audit.Actor, reason string) (Customer, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !plain(reason) {
		return Customer{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A reason has at most %d characters, without control characters."+unwritten+" Shorten or clean it, or leave it out.", reasonRunesMax).On("reason")
	}
	if _, err := ByID(ctx, tx, org, id); err != nil {
		return Customer{}, err
	}
	if reason == "" {
		reason = "frozen by the organization"
	}
	err := freeze.Put(ctx, tx, freeze.Freeze{
		Scope: freeze.Customer, OrgID: org, CustomerID: id, Source: freeze.ByOrganization, Reason: reason, By: by,
	})
	if err != nil {
		return Customer{}, err
	}
	return ByID(ctx, tx, org, id)
}

// Unfreeze lifts the organization's own freeze of a customer and shows the
// customer, who is still frozen when somebody else froze it as well. Errors:
// NOT_FOUND; OPERATOR_ONLY when the only freezes there are were not the
// organization's.
func Unfreeze(ctx context.Context, tx pg.Tx, org, id string, by audit.Actor) (Customer, error) {
	if _, err := ByID(ctx, tx, org, id); err != nil {
		return Customer{}, err
	}
	standing, err := freeze.OfCustomer(ctx, tx, org, id)
	if err != nil {
		return Customer{}, err
	}
	own := false
	for _, f := range standing {
		own = own || f.Source == freeze.ByOrganization
	}
	if !own && len(standing) > 0 {
		return Customer{}, fault.New(fault.Forbidden, fault.OperatorOnly,
			"This customer was not frozen by your organization, so your organization cannot lift it."+unwritten+" Ask the operator of this service.")
	}
	if err := freeze.LiftOwn(ctx, tx, org, id, by); err != nil {
		return Customer{}, err
	}
	return ByID(ctx, tx, org, id)
}
