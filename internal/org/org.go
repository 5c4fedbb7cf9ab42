// Package org stores the organizations that use this service: their names, their API keys and their
// settings.
//
// A key is shown once and only its hash is kept. An organization has one main key, and additional
// keys with a scope if the operator allows them. A key is never in a log or in the database, and an
// answer never says why a key is refused. A crash may leave a key that its caller has not seen,
// which is rolled or deleted.
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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/seal"
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
		return Organization{}, seal.Secret{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"The name of an organization has to have 1 to %d bytes without control characters. Nothing was "+
				"made. Give it another name.", nameBytesMax).
			WithParam("name")
	}
	key, hash := identity.APIKey.NewKey()
	var o Organization
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o = Organization{ID: id.New("org", tx.Now), Name: name, CreatedAt: tx.Now}
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO organizations (org_id, name, created_at) VALUES ($1, $2, $3)`, o.ID, o.Name, o.CreatedAt)
		b.Queue(`INSERT INTO organization_settings (org_id, updated_at) VALUES ($1, $2)`, o.ID, tx.Now)
		b.Queue(`INSERT INTO api_keys (org_id, hash, created_at) VALUES ($1, $2, $3)`, o.ID, hash, tx.Now)
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
	key, hash := identity.APIKey.NewKey()
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := rollMain(ctx, tx, actor, org, hash, 0, nil)
		return err
	})
	if err != nil {
		return seal.Secret{}, err
	}
	return key, nil
}
