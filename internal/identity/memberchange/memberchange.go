// Package memberchange has the changes of settings that the people of an organization make on pages:
// thresholds, the approval allowlist and the quorum.
//
// What tightens a control is written at once. What loosens one waits in a request until another person with
// the right approves it. Where no other person has the right, the request takes effect by itself after a
// day, and those with the right get a mail. A request is never edited, decided twice, approved by its
// requester, or applied to settings that changed since. Package changerequest has the same for operators.
//
// A crash leaves a pending request, or a decided one with all its changes and its mails.
package memberchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// PendingPeriod is how long a request waits.
	PendingPeriod = 7 * 24 * time.Hour
	// DelayDefault is when the request of a person takes effect who is the only one with the right.
	DelayDefault = 24 * time.Hour
	pendingMax   = 20 // of one organization
	idPrefix     = "mch"
)

// Status is the state of a request.
type Status string

// The states. All but Pending are final.
const (
	Pending   Status = "PENDING"
	Approved  Status = "APPROVED"  // by another person
	Rejected  Status = "REJECTED"  // by another person
	Retracted Status = "RETRACTED" // by the requester
	Effective Status = "EFFECTIVE" // by itself, after the delay
	Expired   Status = "EXPIRED"   // neither approved nor effective in time
	Outdated  Status = "OUTDATED"  // the settings or the requester's right changed before it took effect
)

// Controls are the settings that people of the organization may change. Rule ROLE-4.
var Controls = []string{
	"screeningSeverityThreshold", "screeningUsdThreshold", "customerWithdrawUsdThreshold", "twoFactorUsdThreshold",
	"withdrawSeverityThreshold", "approvalAllowlist", "approvalQuorum",
}

// Request is a change that loosens a control.
type Request struct {
	ID            string // mch_…
	OrgID         string
	Before        org.Changes // the values when the change was requested
	Wanted        org.Changes
	RequestedBy   string // usr_…
	CreatedAt     time.Time
	TakesEffectAt *time.Time // nil: it waits for another person
	ExpiresAt     time.Time
	Status        Status
	DecidedBy     string // usr_…, or "" unless a person decided
	DecidedAt     *time.Time
}

// ChangedNames returns the names of what a request changes, sorted.
func (r Request) ChangedNames() []string { return slices.Sorted(maps.Keys(r.Wanted)) }

// Mailer puts a mail into the outbox, in the transaction of the change that it tells about.
type Mailer interface {
	Queue(ctx context.Context, tx pg.Tx, m mail.Message) error
}

// Service changes settings for the people of organizations. It is safe for concurrent use.
type Service struct {
	DB    *pg.DB
	Mails Mailer // nil in an installation that sends no mail
	// Delay is when the request of the only person with the right takes effect: 0 in the local world.
	Delay time.Duration
	// URL begins the link to the page of a request, to which the id is appended.
	URL string
}

// Outcome is the result of changes.
type Outcome struct {
	Settings org.Settings
	Waiting  *Request // what waits; nil if all is in force
}

// Change changes settings for a person of the organization. seenAt is the time of the settings that the
// person saw: what changed later is not overwritten. The same change again has the same outcome, so a second
// click changes nothing more. Errors:
//   - SCOPE_MISSING for a person without the right
//   - OPERATOR_ONLY for a setting that is the operator's
//   - INVALID_REQUEST on the setting
//   - INVALID_STATE if the settings changed after seenAt, or too many requests are pending
//
// Rules PAGE-24, PAGE-25 and PAGE-26.
func (s *Service) Change(
	ctx context.Context, m member.Member, c org.Changes, seenAt time.Time,
) (outcome Outcome, err error) {
	for name := range c {
		if !slices.Contains(Controls, name) {
			return outcome, fault.New(fault.Forbidden, fault.OperatorOnly, fault.NothingWritten,
				"The operator of this service changes the setting %.64q.", name).WithParam(name)
		}
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		outcome = Outcome{}
		colleagues, approvers, err := s.findColleagues(ctx, tx, m)
		if err != nil {
			return err
		}
		plan, err := org.PlanChange(ctx, tx, m.OrgID, c)
		if err != nil {
			return err
		}
		outcome.Settings = plan.Before
		immediate, err := plan.KeepSome(func(d org.Difference) bool { return !d.Loosening })
		if err != nil {
			return err
		}
		held, err := plan.KeepSome(func(d org.Difference) bool { return d.Loosening })
		if err != nil {
			return err
		}
		if len(held.Differences) > 0 {
			if outcome.Waiting, err = findEqual(ctx, tx, held); err != nil {
				return err
			}
		}
		isNew := len(immediate.Differences) > 0 || len(held.Differences) > 0 && outcome.Waiting == nil
		if isNew && !plan.Before.UpdatedAt.Equal(seenAt) {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The settings were changed after this page was loaded.").
				WithAdvice("Look at the present settings, and change them again if that is still needed.")
		}
		if outcome.Settings, err = immediate.Write(ctx, tx, m.Actor(), ""); err != nil {
			return err
		}
		if len(held.Differences) == 0 || outcome.Waiting != nil {
			return nil
		}
		return s.create(ctx, tx, m, colleagues, len(approvers) == 0, held, &outcome)
	})
	if err != nil {
		return Outcome{}, err
	}
	return outcome, nil
}

// findColleagues checks the right of a person again, and returns the others of the organization who have it
// and can sign in. The approvers among them have had their roles for the delay: an owner whose session is in
// other hands cannot invite an accomplice in order to shorten it.
func (s *Service) findColleagues(
	ctx context.Context, tx pg.Tx, m member.Member,
) (colleagues, approvers []member.Member, err error) {
	if err := member.CheckRight(ctx, tx, m, identity.ChangeControls); err != nil {
		return nil, nil, err
	}
	people, err := member.ListByOrg(ctx, tx, m.OrgID)
	if err != nil {
		return nil, nil, err
	}
	recent, err := s.findRecent(ctx, tx, m.OrgID)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range people {
		if p.ID == m.ID || p.AccountID == "" || !p.IsAllowed(identity.ChangeControls) {
			continue
		}
		colleagues = append(colleagues, p)
		if !slices.Contains(recent, p.ID) {
			approvers = append(approvers, p)
		}
	}
	return colleagues, approvers, nil
}

// findRecent returns the people who got their roles within the delay.
func (s *Service) findRecent(ctx context.Context, tx pg.Tx, orgID string) ([]string, error) {
	if s.Delay <= 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT p.user_id FROM people p JOIN audit_log a ON a.resource_id = p.user_id AND a.org_id = p.org_id
		WHERE p.org_id = $1 AND a.at > $2
			AND a.action IN ('person.added', 'person.roles_changed', 'person.access_restored')`,
		orgID, tx.Now.Add(-s.Delay))
	if err != nil {
		return nil, fmt.Errorf("look for people with recent roles in %s: %w", orgID, err)
	}
	recent, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for people with recent roles in %s: %w", orgID, err)
	}
	return recent, nil
}

// create writes a request. Without another person who could approve it, it takes effect after the delay.
func (s *Service) create(
	ctx context.Context, tx pg.Tx, m member.Member, colleagues []member.Member, isAlone bool, held org.Plan,
	outcome *Outcome,
) error {
	var pending int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM member_changes WHERE org_id = $1 AND status = 'PENDING' AND expires_at > $2`,
		m.OrgID, tx.Now).Scan(&pending)
	if err != nil {
		return fmt.Errorf("count the member changes of %s: %w", m.OrgID, err)
	}
	if pending >= pendingMax {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%d changes of the settings already wait.", pending).
			WithAdvice("Decide about some of them, or retract them.")
	}
	r := Request{
		ID: id.New(idPrefix, tx.Now), OrgID: m.OrgID, Before: org.Changes{}, Wanted: org.Changes{}, RequestedBy: m.ID,
		CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(PendingPeriod), Status: Pending,
	}
	for _, d := range held.Differences {
		r.Before[d.Setting], r.Wanted[d.Setting] = d.From, d.To
	}
	if isAlone {
		takesEffectAt := tx.Now.Add(s.Delay)
		r.TakesEffectAt = &takesEffectAt
	}
	isEffective := r.TakesEffectAt != nil && s.Delay <= 0
	if isEffective {
		r.Status, r.DecidedAt = Effective, &tx.Now
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO member_changes (change_id, org_id, before, wanted, requested_by, created_at, takes_effect_at,
			expires_at, status, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		r.ID, r.OrgID, r.Before, r.Wanted, r.RequestedBy, r.CreatedAt, r.TakesEffectAt, r.ExpiresAt, string(r.Status),
		r.DecidedAt)
	if err != nil {
		return fmt.Errorf("request a change of %s: %w", m.OrgID, err)
	}
	if isEffective {
		plan, _, err := planRequest(ctx, tx, r) // What is immediate is written already.
		if err != nil {
			return err
		}
		if outcome.Settings, err = plan.Write(ctx, tx, m.Actor(), r.ID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, r.auditEntry(m.Actor(), "requested"),
			r.auditEntry(audit.System("memberchange"), verbs[Effective]))
	}
	outcome.Waiting = &r
	if err := s.mailRequested(ctx, tx, r, m, colleagues); err != nil {
		return err
	}
	return audit.Record(ctx, tx, r.auditEntry(m.Actor(), "requested"))
}

func (r Request) auditEntry(actor audit.Actor, verb string) audit.Entry {
	return audit.Entry{
		OrgID: r.OrgID, Actor: actor, Action: "member_change." + verb, ResourceKind: "MEMBER_CHANGE", ResourceID: r.ID,
		Detail: map[string]any{
			"from": r.Before, "to": r.Wanted, "requestedBy": r.RequestedBy, "takesEffectAt": r.TakesEffectAt,
		},
	}
}

const selectRequests = `
	SELECT change_id, org_id, before, wanted, requested_by, created_at, takes_effect_at, expires_at,
		CASE WHEN status = 'PENDING' AND expires_at <= $1 THEN 'EXPIRED' ELSE status END, coalesce(decided_by, ''),
		CASE WHEN status = 'PENDING' AND expires_at <= $1 THEN expires_at ELSE decided_at END
	FROM member_changes`

func scanRequest(row pgx.CollectableRow) (r Request, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.Before, &r.Wanted, &r.RequestedBy, &r.CreatedAt, &r.TakesEffectAt, &r.ExpiresAt,
		&r.Status, &r.DecidedBy, &r.DecidedAt)
	return r, err
}

// findEqual returns a pending request of the same change, or nil. The settings are locked.
func findEqual(ctx context.Context, tx pg.Tx, held org.Plan) (*Request, error) {
	before, wanted := org.Changes{}, org.Changes{}
	for _, d := range held.Differences {
		before[d.Setting], wanted[d.Setting] = d.From, d.To
	}
	rows, err := tx.Query(ctx, selectRequests+`
		WHERE org_id = $2 AND status = 'PENDING' AND expires_at > $1 AND before = $3 AND wanted = $4
		ORDER BY change_id LIMIT 1`, tx.Now, held.OrgID, before, wanted)
	if err != nil {
		return nil, fmt.Errorf("look for an equal change of %s: %w", held.OrgID, err)
	}
	found, err := pgx.CollectRows(rows, scanRequest)
	if err != nil {
		return nil, fmt.Errorf("look for an equal change of %s: %w", held.OrgID, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// ByID reads a request of an organization. One whose time is over is EXPIRED, also before ApplyDue has
// written that. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, orgID, requestID string) (Request, error) {
	return loadRequest(ctx, tx, orgID, requestID, "")
}

func loadRequest(ctx context.Context, tx pg.Tx, orgID, requestID, lock string) (Request, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no such change request.")
	if !id.IsValid(idPrefix, requestID) {
		return Request{}, notFound
	}
	rows, err := tx.Query(ctx, selectRequests+` WHERE org_id = $2 AND change_id = $3`+lock, tx.Now, orgID, requestID)
	if err != nil {
		return Request{}, fmt.Errorf("read member change %s: %w", requestID, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRequest)
	if errors.Is(err, pgx.ErrNoRows) {
		return Request{}, notFound
	}
	if err != nil {
		return Request{}, fmt.Errorf("read member change %s: %w", requestID, err)
	}
	return r, nil
}

// ListPending returns the pending requests of an organization, oldest first. There are never many.
func ListPending(ctx context.Context, tx pg.Tx, orgID string) ([]Request, error) {
	rows, err := tx.Query(ctx, selectRequests+`
		WHERE org_id = $2 AND status = 'PENDING' AND expires_at > $1 ORDER BY created_at, change_id`, tx.Now, orgID)
	if err != nil {
		return nil, fmt.Errorf("list the member changes of %s: %w", orgID, err)
	}
	found, err := pgx.CollectRows(rows, scanRequest)
	if err != nil {
		return nil, fmt.Errorf("list the member changes of %s: %w", orgID, err)
	}
	return found, nil
}

// List returns a page of the requests of an organization.
func List(ctx context.Context, tx pg.Tx, orgID string, p pagination.Page) (pagination.Result[Request], error) {
	q := pagination.NewQuery(`
		SELECT change_id, org_id, before, wanted, requested_by, created_at, takes_effect_at, expires_at,
			CASE WHEN status = 'PENDING' AND expires_at <= ? THEN 'EXPIRED' ELSE status END, coalesce(decided_by, ''),
			CASE WHEN status = 'PENDING' AND expires_at <= ? THEN expires_at ELSE decided_at END
		FROM member_changes WHERE org_id = ?`, tx.Now, tx.Now, orgID)
	sql, args := q.BuildPage(p, "created_at", "change_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Request]{}, fmt.Errorf("list the member changes of %s: %w", orgID, err)
	}
	found, err := pgx.CollectRows(rows, scanRequest)
	if err != nil {
		return pagination.Result[Request]{}, fmt.Errorf("list the member changes of %s: %w", orgID, err)
	}
	return pagination.CutPage(p, found, func(r Request) pagination.Cursor {
		return pagination.Cursor{CreatedAt: r.CreatedAt, ID: r.ID}
	}), nil
}

// Approve approves the request of another person and writes its changes. Errors: SCOPE_MISSING, NOT_FOUND,
// INVALID_STATE if it is decided, expired, or outdated, APPROVAL_REFUSED for its requester. Rule PAGE-24.
func (s *Service) Approve(ctx context.Context, m member.Member, requestID string) (Request, error) {
	return s.decide(ctx, m, requestID, Approved, func(ctx context.Context, tx pg.Tx, r Request) error {
		recent, err := s.findRecent(ctx, tx, m.OrgID)
		if err != nil {
			return err
		}
		if slices.Contains(recent, m.ID) {
			return fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
				"You got your roles less than a day ago, and an approval needs a person who has had them longer.").
				WithAdvice("You can reject this change.")
		}
		plan, changed, err := planRequest(ctx, tx, r)
		if err != nil {
			return err
		}
		if changed != "" {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"%s changed after this request was made.", Label(changed)).
				WithAdvice("Its requester has to retract it and make a new one.")
		}
		_, err = plan.Write(ctx, tx, m.Actor(), r.ID)
		return err
	})
}

// Reject rejects the request of another person, whose changes are not written. Errors as of Approve.
func (s *Service) Reject(ctx context.Context, m member.Member, requestID string) (Request, error) {
	return s.decide(ctx, m, requestID, Rejected, func(context.Context, pg.Tx, Request) error { return nil })
}

// Retract ends the person's own request. Errors: SCOPE_MISSING, NOT_FOUND, INVALID_STATE, APPROVAL_REFUSED for
// every other person.
func (s *Service) Retract(ctx context.Context, m member.Member, requestID string) (Request, error) {
	return s.decide(ctx, m, requestID, Retracted, func(context.Context, pg.Tx, Request) error { return nil })
}

func (s *Service) decide(
	ctx context.Context, m member.Member, requestID string, decision Status,
	apply func(ctx context.Context, tx pg.Tx, r Request) error,
) (decided Request, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		colleagues, _, err := s.findColleagues(ctx, tx, m)
		if err != nil {
			return err
		}
		r, err := loadRequest(ctx, tx, m.OrgID, requestID, " FOR UPDATE")
		if err != nil {
			return err
		}
		if err := checkDecider(r, m, decision); err != nil {
			return err
		}
		if err := r.end(ctx, tx, decision, m.ID); err != nil {
			return err
		}
		if err := apply(ctx, tx, r); err != nil {
			return err
		}
		if err := s.mailDecided(ctx, tx, r, m, colleagues); err != nil {
			return err
		}
		decided = r
		return audit.Record(ctx, tx, r.auditEntry(m.Actor(), verbs[decision]))
	})
	if err != nil {
		return Request{}, err
	}
	return decided, nil
}

// verbs are the last words of the actions of the audit log.
var verbs = map[Status]string{
	Approved: "approved", Rejected: "rejected", Retracted: "retracted", Effective: "effective", Expired: "expired",
	Outdated: "outdated",
}

// checkDecider refuses the requester's own approval, and another person's retraction.
func checkDecider(r Request, m member.Member, decision Status) error {
	switch isOwn := r.RequestedBy == m.ID; {
	case isOwn && decision != Retracted:
		return fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
			"You requested this change, so another person has to decide about it.").
			WithAdvice("You can retract your request.")
	case !isOwn && decision == Retracted:
		return fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
			"Only the person who requested this change can retract it.").WithAdvice("You can reject it.")
	}
	return nil
}

// end moves a request out of PENDING, once. decidedBy is "" unless a person decides.
func (r *Request) end(ctx context.Context, tx pg.Tx, status Status, decidedBy string) error {
	newEnded := func(now Status) error {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This change was decided already.").WithExtra("currentStatus", string(now))
	}
	if r.Status != Pending {
		return newEnded(r.Status)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE member_changes SET status = $2, decided_by = nullif($3, ''), decided_at = $4
		WHERE change_id = $1 AND status = 'PENDING' AND (expires_at > $4) = ($2 <> 'EXPIRED')`,
		r.ID, string(status), decidedBy, tx.Now)
	if err != nil {
		return fmt.Errorf("end member change %s as %s: %w", r.ID, status, err)
	}
	if tag.RowsAffected() != 1 {
		return newEnded(Expired)
	}
	r.Status, r.DecidedBy, r.DecidedAt = status, decidedBy, &tx.Now
	return nil
}

// planRequest reads the changes of a request. changed is a setting that changed since the request, or "".
func planRequest(ctx context.Context, tx pg.Tx, r Request) (plan org.Plan, changed string, err error) {
	if plan, err = org.PlanChange(ctx, tx, r.OrgID, r.Wanted); err != nil {
		return plan, "", err
	}
	changed, err = plan.FindChanged(r.Before)
	return plan, changed, err
}

// takeEffect ends a request whose delay is over: its changes are written, unless the settings or the right of
// its requester changed since.
func (s *Service) takeEffect(ctx context.Context, tx pg.Tx, r Request) (settings org.Settings, err error) {
	requester := member.Member{ID: r.RequestedBy, OrgID: r.OrgID}
	err = member.CheckRight(ctx, tx, requester, identity.ChangeControls)
	isEntitled := err == nil
	if err != nil && !fault.HasCode(err, fault.ScopeMissing) {
		return settings, err
	}
	plan, changed, err := planRequest(ctx, tx, r)
	if err != nil {
		return settings, err
	}
	status := Effective
	if !isEntitled || changed != "" {
		status = Outdated
	}
	if err := r.end(ctx, tx, status, ""); err != nil {
		return settings, err
	}
	settings = plan.Before
	if status == Effective {
		if settings, err = plan.Write(ctx, tx, audit.User(r.RequestedBy), r.ID); err != nil {
			return settings, err
		}
	}
	if err := s.mailEffect(ctx, tx, r); err != nil {
		return settings, err
	}
	return settings, audit.Record(ctx, tx, r.auditEntry(audit.System("memberchange"), verbs[status]))
}

// ApplyDue lets every request take effect whose delay is over, and ends those whose time is over, each in a
// transaction of its own. Any number of processes may run it. Rule PAGE-25.
func (s *Service) ApplyDue(ctx context.Context) error {
	for {
		hasMore := false
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			hasMore = false
			rows, err := tx.Query(ctx, `
				SELECT change_id, org_id, before, wanted, requested_by, created_at, takes_effect_at, expires_at, status,
					coalesce(decided_by, ''), decided_at
				FROM member_changes WHERE status = 'PENDING' AND least(takes_effect_at, expires_at) <= $1
				ORDER BY least(takes_effect_at, expires_at), change_id LIMIT 1 FOR UPDATE SKIP LOCKED`, tx.Now)
			if err != nil {
				return fmt.Errorf("look for due member changes: %w", err)
			}
			found, err := pgx.CollectRows(rows, scanRequest)
			if err != nil || len(found) == 0 {
				return err
			}
			hasMore = true
			r := found[0]
			if !tx.Now.Before(r.ExpiresAt) {
				if err := r.end(ctx, tx, Expired, ""); err != nil {
					return err
				}
				return audit.Record(ctx, tx, r.auditEntry(audit.System("memberchange"), verbs[Expired]))
			}
			_, err = s.takeEffect(ctx, tx, r)
			return err
		})
		if err != nil || !hasMore {
			return err
		}
	}
}

// ShowValue writes the value of a setting as JSON, "null" for an absent one.
func ShowValue(c org.Changes, name string) json.RawMessage {
	if text, ok := c[name]; ok {
		return text
	}
	return json.RawMessage("null")
}
