package apikey

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The limits of an Authenticator.
const (
	lookupBatchMax    = 256              // keys that are looked up in one batch
	lookupsWaitingMax = 4096             // requests that may wait for a look-up
	lookupTimeout     = 10 * time.Second // one look-up
)

// Authenticator returns the key that a request presented. It looks up simultaneous requests
// together, each by a look-up that starts after the request came. It caches nothing between two
// look-ups. It is safe for concurrent use.
type Authenticator struct {
	db      *pg.DB
	batcher groupcommit.Writer[[sha256.Size]byte, keyHolder]

	mu         sync.Mutex
	writingUse map[[sha256.Size]byte]bool // hashes of values whose use a request records now
}

// keyHolder is the key to which a value belongs, and the addresses from which it may be used.
type keyHolder struct {
	Caller          // without an organization if the value belongs to no key
	allowedPrefixes []netip.Prefix
}

// NewAuthenticator creates an Authenticator on a database.
func NewAuthenticator(db *pg.DB) *Authenticator {
	d := &Authenticator{db: db, writingUse: map[[sha256.Size]byte]bool{}}
	d.batcher.GroupMax, d.batcher.WaitingMax, d.batcher.WorkMax = lookupBatchMax, lookupsWaitingMax, lookupTimeout
	d.batcher.ProcessGroup = func(ctx context.Context, hashes [][sha256.Size]byte) []groupcommit.Answer[keyHolder] {
		owners, err := findOwners(ctx, db, hashes)
		answers := make([]groupcommit.Answer[keyHolder], len(hashes))
		for i, hash := range hashes {
			answers[i] = groupcommit.Answer[keyHolder]{Value: owners[hash], Err: err}
		}
		return answers
	}
	return d
}

// findOwners returns the valid keys whose values have these hashes. Validity follows the database's
// clock, and whether the organization may have more than its main key. Rules KEY-4 and KEY-6.
func findOwners(ctx context.Context, db *pg.DB, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]keyHolder, error) {
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	found := map[[sha256.Size]byte]keyHolder{}
	var position pg.Position
	err := db.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		db.QueuePosition(b, &position)
		b.Queue(`
			SELECT k.hash, k.org_id, k.key_id, k.scope, coalesce(u.last_used_at <= now() - interval '1 minute', true), s.ip_allowlist
			FROM (
				SELECT hash, org_id, '`+MainID+`' AS key_id, 'FULL' AS scope, rolled_at IS NULL AS main
				FROM api_keys
				WHERE hash = ANY ($1) AND (rolled_at IS NULL OR ends_at > now())
				UNION ALL
				SELECT hash, org_id, key_id, scope, false
				FROM additional_api_keys
				WHERE hash = ANY ($1) AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
				UNION ALL
				SELECT former_hash, org_id, key_id, scope, false
				FROM additional_api_keys
				WHERE former_hash = ANY ($1) AND former_ends_at > now() AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())
			) k
			JOIN organization_settings s ON s.org_id = k.org_id
			LEFT JOIN api_key_uses u ON u.hash = k.hash
			WHERE k.main OR s.additional_api_keys`, wanted).Query(func(rows pgx.Rows) error {
			var h keyHolder
			_, err := pgx.ForEachRow(rows,
				[]any{&h.hash, &h.OrgID, &h.KeyID, &h.Scope, &h.needsUseNote, &h.allowedPrefixes}, func() error {
					h.position = position
					found[[sha256.Size]byte(h.hash)] = h
					h.hash, h.allowedPrefixes = nil, nil // the next row does not write into them
					return nil
				})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	return found, nil
}

// Authenticate returns the key that a request from addr presented; addr is the zero Addr if it is
// unknown. It reads the key's row and the organization's IP list each time. Every request that
// starts after a key was rolled or deleted is therefore refused, and so is every request from an
// address after its removal from the list.
//
// A missing, malformed, unknown, rolled, expired, deleted or suspended key takes the same path and
// gets the same refusal, UNAUTHORIZED. A valid key from an address outside the list gets
// IP_NOT_ALLOWED. Any other error means that the answer is unknown. Rules AUTH-1 and AUTH-3.
// Rule OP-2.
func (d *Authenticator) Authenticate(ctx context.Context, presented string, addr netip.Addr) (Caller, error) {
	h, err := d.batcher.SubmitAndWait(ctx, identity.APIKey.Hash(presented))
	if errors.Is(err, groupcommit.ErrFull) || errors.Is(err, groupcommit.ErrAbandoned) {
		return Caller{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unprocessed,
			"More requests are waiting than the service can accept.").
			WithStep(fault.RepeatWithSameKey)
	}
	if err != nil {
		return Caller{}, err
	}
	if h.OrgID == "" {
		return Caller{}, newUnauthorized()
	}
	if !allowsAddr(h.allowedPrefixes, addr) {
		return Caller{}, fault.New(fault.Forbidden, fault.IPNotAllowed, fault.Unprocessed,
			"The organization does not allow this key from the address of the request.").
			WithAdvice("Call from an address on your organization's list, or ask the operator of this service to " +
				"add this one.")
	}
	return h.Caller, nil
}

func newUnauthorized() error {
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.Unprocessed,
		"The request has no valid API key.").WithStep(fault.SendKey)
}

// RecordUse records that an admitted key was used, at most once a minute for each of its values.
// One request of this process does it; the others go on meanwhile. Rule KEY-8.
func (d *Authenticator) RecordUse(ctx context.Context, c Caller) error {
	if !c.needsUseNote {
		return nil
	}
	hash := [sha256.Size]byte(c.hash)
	d.mu.Lock()
	begin := !d.writingUse[hash]
	d.writingUse[hash] = true
	d.mu.Unlock()
	if !begin {
		return nil
	}
	defer func() {
		d.mu.Lock()
		delete(d.writingUse, hash)
		d.mu.Unlock()
	}()
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO api_key_uses AS u (hash, org_id, last_used_at) VALUES ($1, $2, now())
			ON CONFLICT (hash) DO UPDATE SET last_used_at = excluded.last_used_at
			WHERE u.last_used_at <= excluded.last_used_at - interval '1 minute'`, c.hash, c.OrgID)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the last use of %s of %s: %w", c.KeyID, c.OrgID, err)
	}
	return nil
}

// allowsAddr reports whether a list contains an address. An unknown address is on no list.
// Rule AUTH-3.
func allowsAddr(list []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	return len(list) == 0 || slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}
