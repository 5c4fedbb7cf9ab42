// Package org stores the organizations that use this service: their names and their settings.
//
// Every organization begins with its main key; package identity/apikey has what follows. A crash
// leaves a complete organization or none. It may leave one whose key its caller has not seen; the
// key is rolled.
package org

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const nameBytesMax = 200

// Organization is one tenant of this service.
type Organization struct {
	ID        string // org_…
	Name      string
	CreatedAt time.Time
}

// Create creates an organization with its settings and its first key, which cannot be read later.
// Error: INVALID_REQUEST for an invalid name.
func Create(ctx context.Context, db *pg.DB, name string) (Organization, seal.Secret, error) {
	return CreateBy(ctx, db, audit.System("org"), name)
}

// CreateBy does what Create does, with the actor that the audit log names.
func CreateBy(ctx context.Context, db *pg.DB, actor audit.Actor, name string) (Organization, seal.Secret, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > nameBytesMax || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return Organization{}, seal.Secret{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The name of an organization has to have 1 to %d bytes without control characters.", nameBytesMax).
			WithAdvice("Give it another name.").
			WithParam("name")
	}
	key, hash := identity.APIKey.NewKey()
	var o Organization
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o = Organization{ID: id.New("org", tx.Now), Name: name, CreatedAt: tx.Now}
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO organizations (org_id, name, created_at) VALUES ($1, $2, $3)`, o.ID, o.Name, o.CreatedAt)
		b.Queue(`INSERT INTO organization_settings (org_id, updated_at) VALUES ($1, $2)`, o.ID, tx.Now)
		apikey.QueueMain(b, o.ID, hash, tx.Now)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("create organization %s: %w", o.ID, err)
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: o.ID, Actor: actor, Action: "organization.created",
			ResourceKind: "ORGANIZATION", ResourceID: o.ID, Detail: map[string]string{"name": name},
		})
	})
	if err != nil {
		return Organization{}, seal.Secret{}, err
	}
	return o, key, nil
}

// RestoreOrganizations creates organizations of which only the ids are known, without a key:
// RollKey gives each a new one. It changes no existing organization.
func RestoreOrganizations(ctx context.Context, tx pg.Tx, ids []string) error {
	for _, org := range ids {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO organizations (org_id, name, created_at) VALUES ($1, $2, $3)`, org, "restored "+org,
			tx.Now)
		b.Queue(`INSERT INTO organization_settings (org_id, updated_at) VALUES ($1, $2)`, org, tx.Now)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("restore organization %s: %w", org, err)
		}
		err := audit.Record(ctx, tx, audit.Entry{
			OrgID: org, Actor: audit.System("restore"), Action: "organization.created",
			ResourceKind: "ORGANIZATION", ResourceID: org, Detail: map[string]bool{"restored": true},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ByID reads an organization. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, org string) (Organization, error) {
	var o Organization
	err := tx.QueryRow(ctx, `SELECT org_id, name, created_at FROM organizations WHERE org_id = $1`, org).
		Scan(&o.ID, &o.Name, &o.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, newNotFound()
	}
	if err != nil {
		return o, fmt.Errorf("read organization %s: %w", org, err)
	}
	return o, nil
}

// ListAll returns the organizations that the transaction sees, oldest first.
func ListAll(ctx context.Context, tx pg.Tx) ([]Organization, error) {
	rows, err := tx.Query(ctx, `SELECT org_id, name, created_at FROM organizations ORDER BY created_at, org_id`)
	if err != nil {
		return nil, fmt.Errorf("list the organizations: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Organization])
	if err != nil {
		return nil, fmt.Errorf("list the organizations: %w", err)
	}
	return found, nil
}

// RollKey gives the main key a new value; every earlier one is refused from the commit on. Errors:
// NOT_FOUND, INVALID_STATE if another request rolled it at this moment.
func RollKey(ctx context.Context, db *pg.DB, actor audit.Actor, org string) (seal.Secret, error) {
	var key seal.Secret
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := ByID(ctx, tx, org)
		if err == nil {
			key, err = apikey.RollMain(ctx, tx, actor, org)
		}
		return err
	})
	if err != nil {
		return seal.Secret{}, err
	}
	return key, nil
}

// RevokeKey ends a key of an organization for an operator, from the commit on. Errors: NOT_FOUND,
// and those of apikey.Revoke.
func RevokeKey(ctx context.Context, db *pg.DB, actor audit.Actor, org, keyID string) error {
	return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := ByID(ctx, tx, org); err != nil {
			return err
		}
		return apikey.Revoke(ctx, tx, actor, org, keyID)
	})
}
