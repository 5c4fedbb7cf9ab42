// Package operator manages the keys of the operators. A key opens the operator's interface and
// nothing that an organization's key opens.
//
// A key is shown once and only its hash is kept. It carries the name of its holder, which stays
// when the key is rolled; the audit log names the key itself. A key is never in a log or in the
// database, an answer never says why a key is refused, and no key is cached between two requests. A
// crash may leave a key that was never shown, which is rolled.
package operator

import (
	"context"
	"crypto/subtle"
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
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	nameBytesMax = 200
	idPrefix     = "opk"
	// liveMax bounds the keys with which every request is compared.
	liveMax = 100
)

// Key describes a key without its secret.
type Key struct {
	ID        string // opk_…
	Name      string // the holder
	CreatedAt time.Time
	RevokedAt *time.Time // nil while it is live

	person *Person // who signed in and has no key; see Person.Holder
}

// Actor returns the key's holder as an actor of the audit log.
func (k Key) Actor() audit.Actor { return audit.Operator(k.ID) }

// IsAllowed reports whether the operator may take an action. A key without a holder is the terminal
// of the installation. Rule OP-9.
func (k Key) IsAllowed(action identity.Action) bool {
	p := identity.PermissionOf(action)
	switch {
	case k.person != nil:
		return k.person.IsAllowed(action)
	case k.ID == "" || k.Name == "":
		return p.Terminal
	}
	return p.Operator
}

// CreateKey creates a key for a holder who has none. Errors: INVALID_REQUEST for an invalid name,
// INVALID_STATE if that name has a live key or if there are too many keys.
func CreateKey(ctx context.Context, db *pg.DB, actor audit.Actor, name string) (Key, seal.Secret, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > nameBytesMax || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl) || strings.HasPrefix(name, idPrefix+"_") {
		return Key{}, seal.Secret{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The name of an operator's key is its holder, 1 to %d bytes without control characters.",
			nameBytesMax).WithParam("name")
	}
	var made Key
	var secret seal.Secret
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		var live int
		if err := tx.QueryRow(
			ctx, `SELECT count(*) FROM operator_keys WHERE revoked_at IS NULL`,
		).Scan(&live); err != nil {
			return fmt.Errorf("count the operators' keys: %w", err)
		}
		if live >= liveMax {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"There are %d operators' keys already.", live).
				WithAdvice("Revoke one that is not needed.")
		}
		if made, secret, err = insertKey(ctx, tx, name); err != nil {
			return err
		}
		return recordAudit(ctx, tx, actor, "operator_key.created", made)
	})
	if err != nil {
		return Key{}, seal.Secret{}, err
	}
	return made, secret, nil
}

// RollKey replaces the live key of a holder; the old one is refused from the commit on. The key is
// named by its id or by its holder. Error: NOT_FOUND, also if another operator rolled it at this
// moment.
func RollKey(ctx context.Context, db *pg.DB, actor audit.Actor, idOrName string) (Key, seal.Secret, error) {
	var made Key
	var secret seal.Secret
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		old, err := revokeKey(ctx, tx, idOrName)
		if err != nil {
			return err
		}
		if made, secret, err = insertKey(ctx, tx, old.Name); err != nil {
			return err
		}
		return recordAudit(ctx, tx, actor, "operator_key.rolled", made, old)
	})
	if err != nil {
		return Key{}, seal.Secret{}, err
	}
	return made, secret, nil
}

// RevokeKey revokes a live key, which is refused from the commit on. The key is named by its id or
// by its holder. Error: NOT_FOUND.
func RevokeKey(ctx context.Context, db *pg.DB, actor audit.Actor, idOrName string) (Key, error) {
	var revoked Key
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if revoked, err = revokeKey(ctx, tx, idOrName); err != nil {
			return err
		}
		return recordAudit(ctx, tx, actor, "operator_key.revoked", revoked)
	})
	return revoked, err
}

func insertKey(ctx context.Context, tx pg.Tx, name string) (Key, seal.Secret, error) {
	secret, hash := identity.OperatorKey.NewKey()
	k := Key{ID: id.New(idPrefix, tx.Now), Name: name, CreatedAt: tx.Now}
	_, err := tx.Exec(ctx, `INSERT INTO operator_keys (key_id, name, hash, created_at) VALUES ($1, $2, $3, $4)`, k.ID,
		k.Name, hash, k.CreatedAt)
	if pg.ViolatesConstraint(err, "operator_keys_one_live") {
		return Key{}, seal.Secret{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s has a live key.", name).
			WithAdvice("Roll it, or give the new key another name.").WithParam("name")
	}
	if err != nil {
		return Key{}, seal.Secret{}, fmt.Errorf("make an operator's key for %s: %w", name, err)
	}
	return k, secret, nil
}

func revokeKey(ctx context.Context, tx pg.Tx, idOrName string) (Key, error) {
	var k Key
	err := tx.QueryRow(ctx, `
		UPDATE operator_keys SET revoked_at = $2 WHERE (key_id = $1 OR name = $1) AND revoked_at IS NULL
		RETURNING key_id, name, created_at, revoked_at`, idOrName, tx.Now).Scan(&k.ID, &k.Name, &k.CreatedAt, &k.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return k, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"No live operator's key has the id or the name %s.", idOrName).
			WithAdvice("List the keys, and see whether another operator rolled it.")
	}
	if err != nil {
		return k, fmt.Errorf("revoke operator's key %s: %w", idOrName, err)
	}
	return k, nil
}

// recordAudit records a change of a key in the audit log, and the key that it replaced.
func recordAudit(ctx context.Context, tx pg.Tx, actor audit.Actor, action string, k Key, replaced ...Key) error {
	detail := map[string]string{"name": k.Name}
	for _, old := range replaced {
		detail["replaced"] = old.ID
	}
	return audit.Record(
		ctx, tx,
		audit.Entry{Actor: actor, Action: action, ResourceKind: "OPERATOR_KEY", ResourceID: k.ID, Detail: detail},
	)
}

// ListKeys returns all keys, the revoked ones included, oldest first.
func ListKeys(ctx context.Context, tx pg.Tx) ([]Key, error) {
	rows, err := tx.Query(
		ctx, `SELECT key_id, name, created_at, revoked_at FROM operator_keys ORDER BY created_at, key_id`,
	)
	if err != nil {
		return nil, fmt.Errorf("list the operators' keys: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("list the operators' keys: %w", err)
	}
	return found, nil
}

// Authenticate returns the presented key. It reads the live keys each time, so every request that
// starts after a revocation is refused. It compares the presented key with all of them, even after
// a match. A missing, malformed, unknown or revoked key takes the same path and gets the same
// refusal, UNAUTHORIZED. Any other error means that the answer is unknown. Rule OP-2.
func Authenticate(ctx context.Context, db *pg.DB, presented string) (Key, error) {
	sum := identity.OperatorKey.Hash(presented)
	var found Key
	err := db.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		b.Queue(
			`SELECT key_id, name, created_at, hash FROM operator_keys WHERE revoked_at IS NULL`,
		).Query(func(rows pgx.Rows) error {
			found = Key{}
			var k Key
			var hash []byte
			_, err := pgx.ForEachRow(rows, []any{&k.ID, &k.Name, &k.CreatedAt, &hash}, func() error {
				if subtle.ConstantTimeCompare(hash, sum[:]) == 1 {
					found = k
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return Key{}, fmt.Errorf("look for the operators' keys: %w", err)
	}
	if found.ID == "" {
		return Key{}, fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
			"The request has no valid operator's key.").WithStep(fault.SendOperatorKey)
	}
	return found, nil
}
