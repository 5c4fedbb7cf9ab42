package apikey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// MainID is the id of the main key in every organization.
const MainID = "key_main"

const (
	keyIDPrefix = "key"
	// AdditionalMax bounds the additional keys that neither expired nor were deleted.
	AdditionalMax = 20
	// OverlapSecondsMax bounds how long the earlier value of a key works after a roll, in seconds.
	OverlapSecondsMax = 24 * 60 * 60
	mainKeyName       = "Main key"
	nameBytesMax      = 200
)

// Status says whether a key works.
type Status string

// The statuses of a key. The main key is REVOKED after the operator revoked it, until it is rolled.
const (
	Active    Status = "ACTIVE"
	Expired   Status = "EXPIRED"
	Suspended Status = "SUSPENDED"
	Revoked   Status = "REVOKED"
)

// Statuses lists all statuses.
var Statuses = []string{string(Active), string(Expired), string(Suspended), string(Revoked)}

// Caller is a presented key that was admitted.
type Caller struct {
	OrgID string
	KeyID string
	Scope identity.Scope

	// The member who manages the keys on a page, in place of a key; nil for a key.
	person *member.Member

	hash     []byte
	position pg.Position
	// Its last use is not recorded, or was recorded at least a minute ago.
	needsUseNote bool
}

// Position is how far the primary was when the key was looked up.
func (c Caller) Position() pg.Position { return c.position }

// ForMember returns a member as the caller of Create, Roll and Delete. The caller checked the right of the
// member; each change looks at it again in its transaction. Rule PAGE-20.
func ForMember(m member.Member) Caller { return Caller{OrgID: m.OrgID, person: &m} }

// IsAllowed reports whether the key may take an action. Rule KEY-2.
func (c Caller) IsAllowed(action identity.Action) bool {
	if c.person != nil {
		return action == identity.ManageKeys && c.person.IsAllowed(action)
	}
	needed := identity.PermissionOf(action).Key
	if c.KeyID == MainID {
		return needed != ""
	}
	granted, required := slices.Index(identity.Scopes, c.Scope), slices.Index(identity.Scopes, needed)
	return required >= 0 && granted >= required
}

// Actor returns the key as an actor of the audit log. The main key appears there as its
// organization. Rule KEY-9.
func (c Caller) Actor() audit.Actor {
	if c.person != nil {
		return c.person.Actor()
	}
	if c.KeyID == MainID {
		return audit.APIKey(c.OrgID)
	}
	return audit.AdditionalAPIKey(c.KeyID)
}

// Key describes an API key without its value.
type Key struct {
	ID         string // key_…
	Name       string
	Scope      identity.Scope
	Status     Status
	ExpiresAt  *time.Time // nil: never
	LastUsedAt *time.Time // of the present value, to the minute
	RolledAt   *time.Time
	// Of the key, not of its value; the main key has the organization's time.
	CreatedAt time.Time
	// The end and the last use of the replaced value, while it still works.
	FormerEndsAt     *time.Time
	FormerLastUsedAt *time.Time
}

// IsMain reports whether it is the organization's main key.
func (k Key) IsMain() bool { return k.ID == MainID }

// NewKey describes a key to create.
type NewKey struct {
	// FormID is the id of the form of a page; the key's id follows from it, so that one form makes one key. ""
	// for a program.
	FormID    string
	Name      string
	Scope     identity.Scope
	ExpiresAt *time.Time // nil: never
}

func (n NewKey) checkValues() error {
	if strings.TrimSpace(n.Name) != n.Name || n.Name == "" || len(n.Name) > nameBytesMax || !utf8.ValidString(n.Name) ||
		strings.ContainsFunc(n.Name, unicode.IsControl) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The name of a key has to have 1 to %d bytes, without control characters and without space "+
				"around it.", nameBytesMax).
			WithAdvice("Give it another name.").
			WithParam("name")
	}
	if !slices.Contains(identity.Scopes, n.Scope) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The scope has to be READ, NO_MONEY_OUT or FULL.").
			WithAdvice("Give one of them.").WithParam("scope")
	}
	return nil
}

// Create creates an additional key. Its value cannot be read later. Errors:
//   - INVALID_REQUEST with the parameter
//   - FEATURE_DISABLED
//   - INVALID_STATE for an organization that has AdditionalMax keys
//   - UNAUTHORIZED if the caller's key ended meanwhile
func Create(ctx context.Context, db *pg.DB, caller Caller, n NewKey) (Key, seal.Secret, error) {
	if err := n.checkValues(); err != nil {
		return Key{}, seal.Secret{}, err
	}
	value, hash := identity.APIKey.NewKey()
	var made Key
	err := db.InOrg(ctx, caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
		if err := caller.lockMainKey(ctx, tx); err != nil {
			return err
		}
		if err := requireAdditionalKeys(
			ctx, tx, caller.OrgID,
			"Your organization has one API key: additionalApiKeys is off.",
			"Ask the operator of this service to switch it on.",
		); err != nil {
			return err
		}
		keyID := id.New(keyIDPrefix, tx.Now)
		if n.FormID != "" {
			keyID = id.Derive(keyIDPrefix, caller.OrgID, n.FormID)
		}
		_, err := tx.Exec(ctx,
			`INSERT INTO additional_api_keys (key_id, org_id, name, scope, hash, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			keyID, caller.OrgID, n.Name, n.Scope, hash, n.ExpiresAt)
		switch {
		case pg.ViolatesConstraint(err, "additional_api_keys_pkey"):
			return newFormUsed()
		case pg.ViolatesConstraint(err, "additional_api_keys_ahead"):
			return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"expiresAt has passed.").
				WithAdvice("Give a later time, or leave it out for a key that does not expire.").WithParam("expiresAt")
		case pg.ViolatesConstraint(err, "additional_api_keys_most"):
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"An organization may have at most %d API keys besides its main key.", AdditionalMax).
				WithAdvice("Delete a key that no program needs.")
		case err != nil:
			return fmt.Errorf("create an API key of %s: %w", caller.OrgID, err)
		}
		if made, err = ByID(ctx, tx, caller.OrgID, keyID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, made.auditEntry(caller.OrgID, caller.Actor(), "api_key.created",
			map[string]any{"name": n.Name, "scope": n.Scope, "expiresAt": n.ExpiresAt}))
	})
	if err != nil {
		return Key{}, seal.Secret{}, err
	}
	return made, value, nil
}

// newFormUsed refuses a form that made its key before. Rule PAGE-21.
func newFormUsed() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This form has made its key already, and the value of a key is shown once.").
		WithAdvice("Look for the key in the list. If you did not see its value, roll the key.")
}

// QueueMain queues the first value of an organization's main key.
func QueueMain(b *pgx.Batch, org string, hash []byte, now time.Time) {
	b.Queue(`INSERT INTO api_keys (org_id, hash, created_at) VALUES ($1, $2, $3)`, org, hash, now)
}

// Rule KEY-9.
func (k Key) auditEntry(org string, actor audit.Actor, action string, detail map[string]any) audit.Entry {
	e := audit.Entry{
		OrgID: org, Actor: actor, Action: action, ResourceKind: "API_KEY", ResourceID: k.ID, Detail: detail,
	}
	if k.IsMain() {
		e.ResourceKind, e.ResourceID = "ORGANIZATION", org
	}
	return e
}

func keysLockName(org string) string { return "API keys of " + org }

// lockMainKey locks the main key's value until the transaction ends, and refuses a caller whose
// value ended since it was admitted. After a roll has committed, the value that it ended can
// therefore neither create nor roll a key. Rule KEY-3.
func (c Caller) lockMainKey(ctx context.Context, tx pg.Tx) error {
	if err := pg.LockShared(ctx, tx, keysLockName(c.OrgID)); err != nil {
		return err
	}
	return c.checkStillValid(ctx, tx)
}

func (c Caller) checkStillValid(ctx context.Context, tx pg.Tx) error {
	if c.person != nil {
		return member.CheckRight(ctx, tx, *c.person, identity.ManageKeys)
	}
	var works bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM api_keys k JOIN organization_settings s ON s.org_id = k.org_id
			WHERE k.org_id = $1 AND k.hash = $2 AND (k.rolled_at IS NULL OR k.ends_at > now() AND s.additional_api_keys))`, c.OrgID, c.hash).Scan(&works)
	if err != nil {
		return fmt.Errorf("check whether the caller's key still works: %w", err)
	}
	if !works {
		return newUnauthorized()
	}
	return nil
}

// Rule KEY-1.
func requireAdditionalKeys(ctx context.Context, tx pg.Tx, org, reason, advice string) error {
	if err := pg.LockShared(ctx, tx, identity.SettingsLock(org)); err != nil {
		return err
	}
	var allowed bool
	err := tx.QueryRow(
		ctx, `SELECT additional_api_keys FROM organization_settings WHERE org_id = $1`, org,
	).Scan(&allowed)
	if err != nil {
		return fmt.Errorf("read whether %s may have additional keys: %w", org, err)
	}
	if !allowed {
		return fault.New(fault.Forbidden, fault.FeatureDisabled, fault.NothingWritten,
			"%s", reason).WithAdvice("%s", advice)
	}
	return nil
}

// Roll gives a key another value. The value before it works until the overlap ends; earlier
// values end at once. Errors:
//   - NOT_FOUND
//   - INVALID_REQUEST for an invalid overlap
//   - FEATURE_DISABLED
//   - UNAUTHORIZED if the caller's key ended meanwhile
//   - INVALID_STATE if another request rolled the key at this moment, if it expired, and for an
//     overlap while an earlier value still works
func Roll(
	ctx context.Context, db *pg.DB, caller Caller, keyID string, overlapSeconds int,
) (Key, seal.Secret, error) {
	return rollKey(ctx, db, caller, keyID, overlapSeconds, func(Key) error { return nil })
}

// RollAsSeen does what Roll does, if the key was last rolled at the time that the caller saw, nil for
// never. So an old page, a second click and a colleague roll once. Error: INVALID_STATE in addition.
// Rule PAGE-21.
func RollAsSeen(
	ctx context.Context, db *pg.DB, caller Caller, keyID string, overlapSeconds int, seenRolledAt *time.Time,
) (Key, seal.Secret, error) {
	return rollKey(ctx, db, caller, keyID, overlapSeconds, func(before Key) error {
		if (before.RolledAt == nil) != (seenRolledAt == nil) ||
			seenRolledAt != nil && !before.RolledAt.Equal(*seenRolledAt) {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The key was rolled after this page was loaded, and a value is shown once.").
				WithAdvice("If you did not see the new value, roll the key again.")
		}
		return nil
	})
}

func rollKey(
	ctx context.Context, db *pg.DB, caller Caller, keyID string, overlapSeconds int, checkSeen func(before Key) error,
) (Key, seal.Secret, error) {
	if overlapSeconds < 0 || overlapSeconds > OverlapSecondsMax {
		return Key{}, seal.Secret{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"overlapSeconds has to be a whole number from 0 to %d.", OverlapSecondsMax).
			WithAdvice("Correct it.").WithParam("overlapSeconds")
	}
	value, hash := identity.APIKey.NewKey()
	var rolled Key
	roll := func(ctx context.Context, tx pg.Tx) (err error) {
		rolled, err = rollAdditional(ctx, tx, caller, keyID, hash, overlapSeconds, checkSeen)
		return err
	}
	var err error
	if keyID == MainID {
		// The database role of an organization's requests may not write a value of the main key.
		err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			rolled, err = rollMain(ctx, tx, caller.Actor(), caller.OrgID, hash, overlapSeconds, func() error {
				if err := caller.checkStillValid(ctx, tx); err != nil {
					return err
				}
				before, err := ByID(ctx, tx, caller.OrgID, MainID)
				if err != nil {
					return err
				}
				return checkSeen(before)
			})
			return err
		})
	} else {
		err = db.InOrg(ctx, caller.OrgID, roll)
	}
	if err != nil {
		return Key{}, seal.Secret{}, err
	}
	return rolled, value, nil
}

func newRolledMeanwhile() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"Another request rolled or ended the key at the same time.").
		WithAdvice("List the keys, and roll again if it is still needed.")
}

func newFormerWorks() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"The earlier value of this key still works.").
		WithAdvice("Wait until its overlap ends, or roll with overlapSeconds 0, which ends both values at once.")
}

// rollMain replaces the value of the main key, in a transaction of the system. checkCaller may be
// nil. It runs once no other roll can come between, and its error refuses the roll. Rule KEY-5.
func rollMain(
	ctx context.Context, tx pg.Tx, actor audit.Actor, org string, hash []byte, overlapSeconds int,
	checkCaller func() error,
) (Key, error) {
	var currentID *int64
	const present = `SELECT max(api_key_id) FROM api_keys WHERE org_id = $1 AND rolled_at IS NULL`
	if err := tx.QueryRow(ctx, present, org).Scan(&currentID); err != nil {
		return Key{}, fmt.Errorf("look up the key of %s: %w", org, err)
	}
	if err := pg.LockExclusive(ctx, tx, keysLockName(org)); err != nil {
		return Key{}, err
	}
	if checkCaller != nil {
		var latestID *int64
		if err := tx.QueryRow(ctx, present, org).Scan(&latestID); err != nil {
			return Key{}, fmt.Errorf("look up the key of %s: %w", org, err)
		}
		if latestID == nil || currentID == nil || *latestID != *currentID {
			return Key{}, newRolledMeanwhile()
		}
		if err := checkCaller(); err != nil {
			return Key{}, err
		}
	}
	if overlapSeconds > 0 {
		if err := requireAdditionalKeys(
			ctx, tx, org,
			"Your organization has one API key, and its roll ends the old value at once: additionalApiKeys is off.",
			"Roll it with overlapSeconds 0, or ask the operator of this "+
				"service to switch additionalApiKeys on.",
		); err != nil {
			return Key{}, err
		}
	}
	_, err := tx.Exec(
		ctx,
		`UPDATE api_keys SET ends_at = NULL WHERE org_id = $1 AND ends_at IS NOT NULL AND ($2 OR ends_at <= now())`,
		org, overlapSeconds == 0,
	)
	if err != nil {
		return Key{}, fmt.Errorf("end the former key of %s: %w", org, err)
	}
	if currentID != nil {
		tag, err := tx.Exec(ctx, `
			UPDATE api_keys SET rolled_at = now(), ends_at = CASE WHEN $2::bigint > 0 THEN now() + make_interval(secs => $2::bigint) END
			WHERE api_key_id = $1 AND rolled_at IS NULL`, *currentID, overlapSeconds)
		switch {
		case pg.ViolatesConstraint(err, "api_keys_one_former"):
			return Key{}, newFormerWorks()
		case err != nil:
			return Key{}, fmt.Errorf("roll the key of %s: %w", org, err)
		case tag.RowsAffected() != 1:
			return Key{}, newRolledMeanwhile()
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO api_keys (org_id, hash, created_at) VALUES ($1, $2, $3)`, org, hash, tx.Now)
	if pg.ViolatesConstraint(err, "api_keys_one_live") {
		return Key{}, newRolledMeanwhile()
	}
	if err != nil {
		return Key{}, fmt.Errorf("roll the key of %s: %w", org, err)
	}
	rolled, err := ByID(ctx, tx, org, MainID)
	if err != nil {
		return Key{}, err
	}
	return rolled, audit.Record(ctx, tx, rolled.auditEntry(org, actor, "api_key.rolled",
		map[string]any{"overlapSeconds": overlapSeconds}))
}

// rollAdditional replaces the value of an additional key, in a transaction of its organization.
// Rule KEY-5.
func rollAdditional(
	ctx context.Context, tx pg.Tx, caller Caller, keyID string, hash []byte, overlapSeconds int,
	checkSeen func(before Key) error,
) (Key, error) {
	key, rolls, err := byID(ctx, tx, caller.OrgID, keyID)
	if err != nil {
		return Key{}, err
	}
	if err := caller.lockMainKey(ctx, tx); err != nil {
		return Key{}, err
	}
	if err := checkSeen(key); err != nil {
		return Key{}, err
	}
	if err := requireAdditionalKeys(
		ctx, tx, caller.OrgID,
		"This key is suspended: additionalApiKeys is off for your organization.",
		"Delete it, or ask the operator of this service to switch additionalApiKeys on.",
	); err != nil {
		return Key{}, err
	}
	if key.Status == Expired {
		return Key{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This key has expired.").
			WithAdvice("Make another one.").WithExtra("currentStatus", string(Expired))
	}
	tag, err := tx.Exec(ctx, `
		UPDATE additional_api_keys SET hash = $3, rolls = rolls + 1, rolled_at = now(),
			former_hash = CASE WHEN $4::bigint > 0 THEN hash END,
			former_ends_at = CASE WHEN $4::bigint > 0 THEN now() + make_interval(secs => $4::bigint) END
		WHERE key_id = $1 AND rolls = $2 AND deleted_at IS NULL AND ($4::bigint = 0 OR former_ends_at IS NULL OR former_ends_at <= now())`,
		keyID, rolls, hash, overlapSeconds)
	if err != nil {
		return Key{}, fmt.Errorf("roll API key %s: %w", keyID, err)
	}
	if tag.RowsAffected() != 1 {
		_, rollsNow, err := byID(ctx, tx, caller.OrgID, keyID)
		if err == nil && rollsNow == rolls {
			return Key{}, newFormerWorks()
		}
		if err == nil {
			err = newRolledMeanwhile()
		}
		return Key{}, err
	}
	rolled, err := ByID(ctx, tx, caller.OrgID, keyID)
	if err != nil {
		return Key{}, err
	}
	return rolled, audit.Record(ctx, tx, rolled.auditEntry(caller.OrgID, caller.Actor(), "api_key.rolled",
		map[string]any{"overlapSeconds": overlapSeconds}))
}

// RollMain gives the main key a new value for an operator, in a transaction of the system; every
// earlier one is refused from the commit on. Error: INVALID_STATE if another request rolled it at
// this moment.
func RollMain(ctx context.Context, tx pg.Tx, actor audit.Actor, org string) (seal.Secret, error) {
	value, hash := identity.APIKey.NewKey()
	if _, err := rollMain(ctx, tx, actor, org, hash, 0, nil); err != nil {
		return seal.Secret{}, err
	}
	return value, nil
}

// Delete deletes an additional key with all its values, from the commit on. Errors: NOT_FOUND,
// INVALID_STATE for the main key, UNAUTHORIZED if the caller's key ended meanwhile. Rule KEY-6.
func Delete(ctx context.Context, db *pg.DB, caller Caller, keyID string) error {
	if keyID == MainID {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The main key of an organization cannot be deleted.").
			WithAdvice("Roll it, which ends its value, or ask the operator of this service to revoke it.")
	}
	return db.InOrg(ctx, caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
		if err := caller.lockMainKey(ctx, tx); err != nil {
			return err
		}
		return deleteKey(ctx, tx, caller.Actor(), caller.OrgID, keyID, "api_key.deleted")
	})
}

func deleteKey(ctx context.Context, tx pg.Tx, actor audit.Actor, org, keyID, action string) error {
	k, err := ByID(ctx, tx, org, keyID)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(
		ctx,
		`UPDATE additional_api_keys SET deleted_at = now() WHERE org_id = $1 AND key_id = $2 AND deleted_at IS NULL`,
		org, keyID,
	)
	if err != nil {
		return fmt.Errorf("delete API key %s: %w", keyID, err)
	}
	if tag.RowsAffected() != 1 {
		return newKeyNotFound()
	}
	return audit.Record(ctx, tx, k.auditEntry(org, actor, action, map[string]any{"name": k.Name}))
}

// Revoke ends a key of an organization for an operator, in a transaction of the system. A revoked
// main key leaves the organization without one until it is rolled. Errors: NOT_FOUND, INVALID_STATE
// for a main key that is already revoked. Rule KEY-6.
func Revoke(ctx context.Context, tx pg.Tx, actor audit.Actor, org, keyID string) error {
	if keyID != MainID {
		return deleteKey(ctx, tx, actor, org, keyID, "api_key.revoked")
	}
	if err := pg.LockExclusive(ctx, tx, keysLockName(org)); err != nil {
		return err
	}
	if _, err := tx.Exec(
		ctx, `UPDATE api_keys SET ends_at = NULL WHERE org_id = $1 AND ends_at IS NOT NULL`, org,
	); err != nil {
		return fmt.Errorf("end the former key of %s: %w", org, err)
	}
	tag, err := tx.Exec(ctx, `UPDATE api_keys SET rolled_at = now() WHERE org_id = $1 AND rolled_at IS NULL`, org)
	if err != nil {
		return fmt.Errorf("revoke the key of %s: %w", org, err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The main key of %s is already revoked.", org).
			WithAdvice("Roll it to give the organization a new value.")
	}
	return audit.Record(ctx, tx, Key{ID: MainID}.auditEntry(org, actor, "api_key.revoked", nil))
}

func newKeyNotFound() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This API key does not exist.").
		WithAdvice("List the keys.")
}

// selectKeys reads the keys of an organization that are not deleted. It compares times with the
// database's clock.
const selectKeys = `
	SELECT key_id, name, scope, status, expires_at, last_used_at, rolled_at, created_at, former_ends_at, former_last_used_at, rolls FROM (
		SELECT o.org_id, '` + MainID + `' AS key_id, '` + mainKeyName + `' AS name, 'FULL' AS scope,
			CASE WHEN k.hash IS NULL THEN 'REVOKED' ELSE 'ACTIVE' END AS status, NULL::timestamptz AS expires_at, u.last_used_at,
			(SELECT max(r.rolled_at) FROM api_keys r WHERE r.org_id = o.org_id) AS rolled_at, o.created_at,
			f.ends_at AS former_ends_at, fu.last_used_at AS former_last_used_at, 0 AS rolls
		FROM organizations o
		JOIN organization_settings s ON s.org_id = o.org_id
		LEFT JOIN api_keys k ON k.org_id = o.org_id AND k.rolled_at IS NULL
		LEFT JOIN api_keys f ON f.org_id = o.org_id AND f.ends_at > now() AND s.additional_api_keys
		LEFT JOIN api_key_uses u ON u.hash = k.hash
		LEFT JOIN api_key_uses fu ON fu.hash = f.hash
		UNION ALL
		SELECT k.org_id, k.key_id, k.name, k.scope,
			CASE WHEN k.expires_at <= now() THEN 'EXPIRED' WHEN s.additional_api_keys THEN 'ACTIVE' ELSE 'SUSPENDED' END, k.expires_at, u.last_used_at,
			k.rolled_at, k.created_at, CASE WHEN k.former_ends_at > now() THEN k.former_ends_at END,
			CASE WHEN k.former_ends_at > now() THEN fu.last_used_at END, k.rolls
		FROM additional_api_keys k
		JOIN organization_settings s ON s.org_id = k.org_id
		LEFT JOIN api_key_uses u ON u.hash = k.hash
		LEFT JOIN api_key_uses fu ON fu.hash = k.former_hash
		WHERE k.deleted_at IS NULL
	) keys
	WHERE `

type keyRow struct {
	Key
	rolls int
}

func scanKey(row pgx.CollectableRow) (k keyRow, err error) {
	err = row.Scan(&k.ID, &k.Name, &k.Scope, &k.Status, &k.ExpiresAt, &k.LastUsedAt, &k.RolledAt, &k.CreatedAt,
		&k.FormerEndsAt, &k.FormerLastUsedAt, &k.rolls)
	return k, err
}

// ByID reads a key of an organization. Error: NOT_FOUND, also for a deleted key.
func ByID(ctx context.Context, tx pg.Tx, org, keyID string) (Key, error) {
	k, _, err := byID(ctx, tx, org, keyID)
	return k, err
}

func byID(ctx context.Context, tx pg.Tx, org, keyID string) (k Key, rolls int, err error) {
	if keyID != MainID && !id.IsValid(keyIDPrefix, keyID) {
		return Key{}, 0, newKeyNotFound()
	}
	rows, err := tx.Query(ctx, selectKeys+`org_id = $1 AND key_id = $2`, org, keyID)
	if err != nil {
		return Key{}, 0, fmt.Errorf("read API key %s: %w", keyID, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanKey)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, 0, newKeyNotFound()
	}
	if err != nil {
		return Key{}, 0, fmt.Errorf("read API key %s: %w", keyID, err)
	}
	return found.Key, found.rolls, nil
}

// List returns a page of an organization's keys, without the deleted ones.
func List(ctx context.Context, tx pg.Tx, org string, p pagination.Page) (pagination.Result[Key], error) {
	q := pagination.NewQuery(selectKeys+`org_id = ?`, org)
	sql, args := q.BuildPage(p, "created_at", "key_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Key]{}, fmt.Errorf("list the API keys of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Key, error) {
		k, err := scanKey(row)
		return k.Key, err
	})
	if err != nil {
		return pagination.Result[Key]{}, fmt.Errorf("list the API keys of %s: %w", org, err)
	}
	return pagination.CutPage(p, found, func(k Key) pagination.Cursor {
		return pagination.Cursor{CreatedAt: k.CreatedAt, ID: k.ID}
	}), nil
}
