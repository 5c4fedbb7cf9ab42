// Package operator is the keys of those who run this service: what opens the
// operator's interface, and nothing that an organization's key opens.
//
// A key is shown once and only its hash is kept. It has the name of who holds
// it, which stays when the key is rolled; the audit log names the key itself.
// What never happens here: a key in a log or in the database, an answer that
// tells why a key is refused, a key that is remembered between two requests.
// What a crash leaves: a key that nobody may have seen, which is rolled.
package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
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
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/seal"
)

const (
	// KeyPrefix begins every operator's key.
	KeyPrefix    = "cok_"
	keyBytes     = 32
	keyTextBytes = len(KeyPrefix) + (keyBytes*8+5)/6
	nameBytesMax = 200
	idPrefix     = "opk"
	// liveMax bounds the keys that every request is compared with.
	liveMax = 100
)

// Key is a key without what opens.
type Key struct {
	ID        string // opk_…
	Name      string // who holds it
	CreatedAt time.Time
	RevokedAt *time.Time // nil while it is live
}

// Actor is the key's holder in the audit log.
func (k Key) Actor() audit.Actor { return audit.Operator(k.ID) }

// newSecret makes a key, cok_ and 43 characters, and the hash that is kept of it.
func newSecret() (seal.Secret, []byte) {
	var b [keyBytes]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends when there is no randomness
	k := KeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(k))
	return seal.NewSecret(k), sum[:]
}

// CreateKey makes a key for somebody who has none. Errors: INVALID_REQUEST for a
// name that cannot be one, INVALID_STATE when that name has a live key, or when
// there are too many.
func CreateKey(ctx context.Context, db *pg.DB, actor audit.Actor, name string) (Key, seal.Secret, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > nameBytesMax || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.HasPrefix(name, idPrefix+"_") {
		return Key{}, seal.Secret{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A key has the name of who holds it, 1 to %d bytes without control characters. Nothing was made.", nameBytesMax).WithParam("name")
	}
	var made Key
	var secret seal.Secret
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		var live int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM operator_keys WHERE revoked_at IS NULL`).Scan(&live); err != nil {
			return fmt.Errorf("count the operators' keys: %w", err)
		}
		if live >= liveMax {
			return fault.New(fault.Conflict, fault.InvalidState, "There are %d operators' keys already. Nothing was made. Revoke one that is not needed.", live)
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

// RollKey gives the holder of a live key another one; the old one is refused from
// the commit on. The key is named by its id or by its holder. Error: NOT_FOUND,
// also when somebody else rolled it at this moment.
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

// RevokeKey ends a live key, which is refused from the commit on. The key is named
// by its id or by its holder. Error: NOT_FOUND.
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
	secret, hash := newSecret()
	k := Key{ID: id.New(idPrefix, tx.Now), Name: name, CreatedAt: tx.Now}
	_, err := tx.Exec(ctx, `INSERT INTO operator_keys (key_id, name, hash, created_at) VALUES ($1, $2, $3, $4)`, k.ID, k.Name, hash, k.CreatedAt)
	if pg.ViolatesConstraint(err, "operator_keys_one_live") {
		return Key{}, seal.Secret{}, fault.New(fault.Conflict, fault.InvalidState,
			"%s has a live key. Nothing was made. Roll it, or give the new one another name.", name).WithParam("name")
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
		return k, fault.New(fault.NotFound, fault.CodeNotFound, "No live operator's key has the id or the name %s. Nothing was changed. List them, and see whether somebody else rolled it.", idOrName)
	}
	if err != nil {
		return k, fmt.Errorf("revoke operator's key %s: %w", idOrName, err)
	}
	return k, nil
}

// recordAudit writes what was done to a key, and which one it replaced.
func recordAudit(ctx context.Context, tx pg.Tx, actor audit.Actor, action string, k Key, replaced ...Key) error {
	detail := map[string]string{"name": k.Name}
	for _, old := range replaced {
		detail["replaced"] = old.ID
	}
	return audit.Record(ctx, tx, audit.Entry{Actor: actor, Action: action, ResourceKind: "OPERATOR_KEY", ResourceID: k.ID, Detail: detail})
}

// ListKeys are all keys, the revoked ones included, oldest first.
func ListKeys(ctx context.Context, tx pg.Tx) ([]Key, error) {
	rows, err := tx.Query(ctx, `SELECT key_id, name, created_at, revoked_at FROM operator_keys ORDER BY created_at, key_id`)
	if err != nil {
		return nil, fmt.Errorf("list the operators' keys: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("list the operators' keys: %w", err)
	}
	return found, nil
}

// Authenticate tells whose key was presented. It reads the live keys each time,
// so a key is refused by every request that starts after it was revoked, and
// compares the presented one with all of them, whatever it finds. A missing,
// malformed, unknown or revoked key takes the same way through here and gets the
// same refusal, UNAUTHORIZED; any other error means "unknown".
func Authenticate(ctx context.Context, db *pg.DB, presented string) (Key, error) {
	// What is too long is not hashed whole, and cannot be a key either way.
	sum := sha256.Sum256([]byte(presented[:min(len(presented), keyTextBytes+1)]))
	var found Key
	err := db.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT key_id, name, created_at, hash FROM operator_keys WHERE revoked_at IS NULL`).Query(func(rows pgx.Rows) error {
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
		return Key{}, fault.New(fault.Unauthorized, fault.CodeUnauthorized,
			"Send a valid operator's key in the header x-operator-key. Nothing was done.")
	}
	return found, nil
}
