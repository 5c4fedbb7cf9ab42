package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The number of sales is counted on every read: a counter in the row would make all sales of a link wait for each
// other.
const selectLinks = `
	SELECT l.link_id, l.org_id, l.version, l.slug, l.status, l.line_items, l.max_completed, (
			SELECT count(*) FROM checkouts c WHERE c.link_id = l.link_id AND c.status IN ('PROCESSING', 'COMPLETED')
		)::integer, l.expires_at, l.after_text, l.success_url, coalesce(l.idempotency_key, ''), l.request_digest,
		l.created_at, l.updated_at, l.ended_at
	FROM payment_links l`

func scanLink(row pgx.CollectableRow) (l Link, err error) {
	var items []byte
	err = row.Scan(&l.ID, &l.OrgID, &l.Version, &l.Slug, &l.Status, &items, &l.MaxCompleted, &l.CompletedCount,
		&l.ExpiresAt, &l.AfterText, &l.SuccessURL, &l.IdempotencyKey, &l.digest, &l.CreatedAt, &l.UpdatedAt, &l.EndedAt)
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(items, &l.Items); err != nil {
		return l, fmt.Errorf("read the items of payment link %s: %w", l.ID, err)
	}
	return l, nil
}

// loadLink returns the link that a condition names. Error: pgx.ErrNoRows.
func loadLink(ctx context.Context, tx pg.Tx, condition string, args ...any) (Link, error) {
	rows, err := tx.Query(ctx, selectLinks+` WHERE `+condition, args...)
	if err != nil {
		return Link{}, fmt.Errorf("read a payment link: %w", err)
	}
	l, err := pgx.CollectExactlyOneRow(rows, scanLink)
	if err != nil {
		return Link{}, fmt.Errorf("read a payment link: %w", err)
	}
	return l, nil
}

func newLinkGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such payment link.")
}

// completeLink adds what no row has.
func (s *Service) completeLink(l Link) Link {
	if s.LinkURL != nil && l.Slug != "" {
		l.URL = s.LinkURL(l.Slug)
	}
	return l
}

// LinkByID returns a payment link as it is now. Error: fault NOT_FOUND, also for the id of another organization. Rule
// CO-66.
func (s *Service) LinkByID(ctx context.Context, orgID, linkID string) (l Link, err error) {
	if !id.IsValid(linkPrefix, linkID) {
		return l, newLinkGone()
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		l, err = loadLink(ctx, tx, `l.org_id = $1 AND l.link_id = $2`, orgID, linkID)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Link{}, newLinkGone()
	}
	return s.completeLink(l), err
}

// LinkFilter narrows a list of payment links. A zero field does not narrow it.
type LinkFilter struct {
	Status        string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

func (f LinkFilter) query(orgID string) *pagination.Query {
	q := pagination.NewQuery(selectLinks+` WHERE l.org_id = ?`, orgID)
	if f.Status != "" {
		q.AddCondition("l.status = ?", f.Status)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// ListLinks returns a page of an organization's payment links in the order of (creation time, id).
func (s *Service) ListLinks(
	ctx context.Context, orgID string, f LinkFilter, p pagination.Page,
) (page pagination.Result[Link], err error) {
	q := f.query(orgID)
	sql, args := q.BuildPage(p, "l.created_at", "l.link_id")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanLink)
		if err != nil {
			return err
		}
		for i := range found {
			found[i] = s.completeLink(found[i])
		}
		page = pagination.CutPage(p, found, func(l Link) pagination.Cursor {
			return pagination.Cursor{CreatedAt: l.CreatedAt, ID: l.ID}
		})
		return nil
	})
	if err != nil {
		return page, fmt.Errorf("list the payment links of %s: %w", orgID, err)
	}
	return page, nil
}

// ForEachLink calls fn for all of an organization's payment links that match the filter, in list order and from one
// snapshot. The first error ends it.
func (s *Service) ForEachLink(ctx context.Context, orgID string, f LinkFilter, desc bool, fn func(Link) error) error {
	sql, args := f.query(orgID).BuildAll(desc, "l.created_at", "l.link_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanLink, func(l Link) error { return fn(s.completeLink(l)) })
	})
	if err != nil {
		return fmt.Errorf("read the payment links of %s: %w", orgID, err)
	}
	return nil
}

// LinkChange names what becomes different; everything else stays.
type LinkChange struct {
	MaxCompleted Nullable[int]
	ExpiresAt    Nullable[time.Time]
	AfterText    Nullable[string]
	SuccessURL   Nullable[string]
	// SeenVersion is the version that the author of the change saw. A later one is not overwritten. nil: no check,
	// because the change names only what its author means.
	SeenVersion *int64
}

// lockLink returns a link that no other transaction changes until this one ends.
func lockLink(ctx context.Context, tx pg.Tx, orgID, linkID string) (Link, error) {
	if !id.IsValid(linkPrefix, linkID) {
		return Link{}, asWritten(newLinkGone())
	}
	_, err := tx.Exec(ctx, `SELECT FROM payment_links WHERE org_id = $1 AND link_id = $2 FOR NO KEY UPDATE`,
		orgID, linkID)
	if err != nil {
		return Link{}, fmt.Errorf("lock payment link %s: %w", linkID, err)
	}
	l, err := loadLink(ctx, tx, `l.org_id = $1 AND l.link_id = $2`, orgID, linkID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Link{}, asWritten(newLinkGone())
	}
	return l, err
}

// PatchLink changes what a change names, and returns the link. A change that changes nothing writes nothing. Errors:
// faults NOT_FOUND, INVALID_REQUEST; INVALID_STATE for a link that is ended, and if a later version than the seen one
// is the present one. Rules CO-61 and CO-65.
func (s *Service) PatchLink(
	ctx context.Context, orgID, linkID string, requester audit.Actor, ch LinkChange,
) (after Link, err error) {
	if err := s.checkLinkTerms(ch.MaxCompleted.Value, ch.AfterText.Value, ch.SuccessURL.Value); err != nil {
		return Link{}, err
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		before, err := lockLink(ctx, tx, orgID, linkID)
		if err != nil {
			return err
		}
		if err := refuseEnded(before); err != nil {
			return err
		}
		if ch.SeenVersion != nil && *ch.SeenVersion != before.Version {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"This payment link was changed since you opened it.").
				WithAdvice("Look at its present state and make your change again.")
		}
		if err := checkLinkEnd(ch.ExpiresAt.Value, tx.Now); err != nil {
			return err
		}
		after = before
		replaceNullable(&after.MaxCompleted, ch.MaxCompleted)
		replaceNullable(&after.ExpiresAt, ch.ExpiresAt)
		replaceNullable(&after.AfterText, ch.AfterText)
		replaceNullable(&after.SuccessURL, ch.SuccessURL)
		from, to := before.auditDetail(), after.auditDetail()
		maps.DeleteFunc(from, func(name string, value any) bool { return reflect.DeepEqual(value, to[name]) })
		maps.DeleteFunc(to, func(name string, _ any) bool { _, isChanged := from[name]; return !isChanged })
		if len(to) == 0 {
			after = before
			return nil
		}
		changed, err := tx.Exec(ctx, `
			UPDATE payment_links SET version = version + 1, max_completed = $4, expires_at = $5, after_text = $6,
				success_url = $7, updated_at = greatest($8, updated_at)
			WHERE org_id = $1 AND link_id = $2 AND version = $3`,
			orgID, linkID, before.Version, after.MaxCompleted, after.ExpiresAt, after.AfterText, after.SuccessURL,
			tx.Now)
		if err == nil && changed.RowsAffected() != 1 {
			err = errLostRace
		}
		if err != nil {
			return fmt.Errorf("update payment link %s: %w", linkID, err)
		}
		if after, err = loadLink(ctx, tx, `l.org_id = $1 AND l.link_id = $2`, orgID, linkID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newLinkEntry(after, requester, "changed", map[string]any{
			"version": after.Version, "from": from, "to": to,
		}))
	})
	if err != nil {
		return Link{}, fmt.Errorf("change payment link %s: %w", linkID, err)
	}
	return s.completeLink(after), nil
}

func refuseEnded(l Link) error {
	if l.Status != LinkEnded {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, "This payment link is ended for good.").
		WithAdvice("Make another one.").WithDetail("status", string(l.Status))
}

// PauseLink stops a link from selling. A paused one stays as it is. Errors: faults NOT_FOUND, and INVALID_STATE for a
// link that is ended. Rule CO-65.
func (s *Service) PauseLink(ctx context.Context, orgID, linkID string, requester audit.Actor) (Link, error) {
	return s.setLinkStatus(ctx, orgID, linkID, requester, LinkPaused, "paused")
}

// ResumeLink lets a paused link sell again. An active one stays as it is. Errors: faults NOT_FOUND, and INVALID_STATE
// for a link that is ended. Rule CO-65.
func (s *Service) ResumeLink(ctx context.Context, orgID, linkID string, requester audit.Actor) (Link, error) {
	return s.setLinkStatus(ctx, orgID, linkID, requester, LinkActive, "resumed")
}

// EndLink stops a link from selling for good. An ended one stays as it is. Error: fault NOT_FOUND. Rule CO-65.
func (s *Service) EndLink(ctx context.Context, orgID, linkID string, requester audit.Actor) (Link, error) {
	return s.setLinkStatus(ctx, orgID, linkID, requester, LinkEnded, "ended")
}

func (s *Service) setLinkStatus(
	ctx context.Context, orgID, linkID string, requester audit.Actor, wanted LinkStatus, verb string,
) (l Link, err error) {
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		before, err := lockLink(ctx, tx, orgID, linkID)
		if err != nil {
			return err
		}
		if l = before; before.Status == wanted {
			return nil
		}
		if err := refuseEnded(before); err != nil {
			return err
		}
		var endedAt *time.Time
		if wanted == LinkEnded {
			endedAt = &tx.Now
		}
		changed, err := tx.Exec(ctx, `
			UPDATE payment_links SET version = version + 1, status = $4, ended_at = $5,
				updated_at = greatest($6, updated_at)
			WHERE org_id = $1 AND link_id = $2 AND version = $3 AND status = $7`,
			orgID, linkID, before.Version, wanted, endedAt, tx.Now, before.Status)
		if err == nil && changed.RowsAffected() != 1 {
			err = errLostRace
		}
		if err != nil {
			return fmt.Errorf("update payment link %s: %w", linkID, err)
		}
		if l, err = loadLink(ctx, tx, `l.org_id = $1 AND l.link_id = $2`, orgID, linkID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newLinkEntry(l, requester, verb, map[string]any{"version": l.Version}))
	})
	if err != nil {
		return Link{}, err
	}
	return s.completeLink(l), nil
}

// ProductNames returns the names of products by their ids. It has no name of what the organization does not have.
func (s *Service) ProductNames(ctx context.Context, orgID string, ids []string) (names map[string]string, err error) {
	var products []Product
	err = s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		products = nil
		queueProducts(b, orgID, ids, &products)
	})
	if err != nil {
		return nil, fmt.Errorf("read the names of products of %s: %w", orgID, err)
	}
	names = map[string]string{}
	for _, p := range products {
		names[p.ID] = p.Name
	}
	return names, nil
}
