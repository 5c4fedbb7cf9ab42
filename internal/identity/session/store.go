package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	// sudoLasts is how long a factor is enough for keys, secrets, team and settings.
	sudoLasts = 10 * time.Minute
	// waitingIdle ends a session that waits for its second factor.
	waitingIdle = 15 * time.Minute
	// touchInterval is how often a use is written.
	touchInterval  = time.Minute
	deviceCharsMax = 200
	// waitingMax bounds the sessions of an account that wait for a factor. The oldest end.
	waitingMax = 10
	// endedStay is how long an ended session can be looked at.
	endedStay = 90 * 24 * time.Hour
)

// limits returns the idle and the absolute limit of a side. Rule SIGN-13.
func limits(side account.Side) (idle, absolute time.Duration) {
	if side == account.OperatorSide {
		return 15 * time.Minute, 8 * time.Hour
	}
	return 30 * time.Minute, 12 * time.Hour
}

// Browser is what a session remembers of its browser, for people to read, and the pages that it opened.
type Browser struct {
	UserAgent string
	Addr      netip.Addr
	Audience  Audience // "" is ForPages
}

// Refusal returns the answer to a token that opens nothing, or does so no longer.
func Refusal() error {
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
		"The session has ended.").WithAdvice("Sign in.")
}

// IsRefusal reports whether an error is Refusal.
func IsRefusal(err error) bool {
	f := fault.Find(err)
	return f != nil && f.Kind == fault.Unauthorized
}

// Create makes a session of an account. A state other than OPEN has no factor yet.
func Create(
	ctx context.Context, tx pg.Tx, a account.Account, state State, factor account.FactorKind, b Browser,
) (string, seal.Secret, error) {
	token, hash := account.NewToken()
	sessionID := id.New("ses", tx.Now)
	_, absolute := limits(a.Side)
	var factorText *string
	var factorAt *time.Time
	if factor != "" {
		text := string(factor)
		factorText, factorAt = &text, &tx.Now
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO sessions (session_id, account_id, hash, state, device, address, created_at, last_seen_at,
			expires_at, factor, factor_at, audience)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11)`,
		sessionID, a.ID, hash, state, cutDevice(b.UserAgent), b.Addr.String(), tx.Now, tx.Now.Add(absolute),
		factorText, factorAt, cmp.Or(b.Audience, ForPages)); err != nil {
		return "", seal.Secret{}, fmt.Errorf("begin a session of %s: %w", a.ID, err)
	}
	if state == Open {
		return sessionID, token, nil
	}
	if _, err := tx.Exec(ctx, `
		UPDATE sessions SET state = 'ENDED', ended_at = $2, end_reason = 'REPLACED' WHERE session_id IN (
			SELECT session_id FROM sessions WHERE account_id = $1 AND state IN ('AWAITING_FACTOR', 'MUST_ENROL')
			ORDER BY created_at DESC, session_id DESC OFFSET $3)`, a.ID, tx.Now, waitingMax); err != nil {
		return "", seal.Secret{}, fmt.Errorf("end old sessions of %s: %w", a.ID, err)
	}
	return sessionID, token, nil
}

// cutDevice keeps what people can read of a user agent.
func cutDevice(text string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	return string(letters[:min(len(letters), deviceCharsMax)])
}

const selectSession = `
	SELECT s.session_id, s.state, s.hash, s.audience, s.device, s.address, s.created_at, s.last_seen_at, s.expires_at,
		s.factor, s.factor_at, s.ended_at, s.end_reason, a.account_id, a.side, a.email, a.name, a.time_zone,
		a.created_at,
		a.restricted_until, p.user_id, p.org_id, g.name, p.name, p.roles, p.created_at,
		o.operator_id, o.name, o.roles, o.created_at,
		EXISTS (SELECT FROM account_totps t WHERE t.account_id = a.account_id AND t.confirmed_at IS NOT NULL),
		EXISTS (SELECT FROM account_passkeys k WHERE k.account_id = a.account_id)
	FROM sessions s
	JOIN accounts a ON a.account_id = s.account_id
	LEFT JOIN people p ON p.user_id = s.member_id AND p.account_id = s.account_id AND p.ended_at IS NULL
	LEFT JOIN organizations g ON g.org_id = p.org_id
	LEFT JOIN operators o ON o.account_id = s.account_id AND o.ended_at IS NULL`

func scanSession(row pgx.CollectableRow) (Session, error) {
	var s Session
	var addr string
	var factor, reason, memberID, orgID, orgName, memberName, operatorID, operatorName *string
	var factorAt, endedAt, restricted, memberSince, operatorSince *time.Time
	var roles, operatorRoles []string
	if err := row.Scan(&s.ID, &s.State, &s.tokenHash, &s.Audience, &s.Device, &addr, &s.CreatedAt, &s.LastSeenAt,
		&s.ExpiresAt, &factor, &factorAt, &endedAt, &reason, &s.Account.ID, &s.Account.Side, &s.Account.Email,
		&s.Account.Name,
		&s.Account.TimeZone, &s.Account.CreatedAt, &restricted, &memberID, &orgID, &orgName, &memberName, &roles,
		&memberSince, &operatorID, &operatorName, &operatorRoles, &operatorSince, &s.HasTOTP, &s.HasPasskey,
	); err != nil {
		return Session{}, err
	}
	s.Addr, _ = netip.ParseAddr(addr)
	s.Account.RestrictedUntil, s.EndedAt, s.FactorAt = orZero(restricted), orZero(endedAt), orZero(factorAt)
	if factor != nil {
		s.Factor, s.SudoUntil = account.FactorKind(*factor), s.FactorAt.Add(sudoLasts)
	}
	if reason != nil {
		s.EndReason = EndReason(*reason)
	}
	idle, _ := limits(s.Account.Side)
	if s.State != Open {
		idle = waitingIdle
	}
	s.IdleAt = s.LastSeenAt.Add(idle)
	if s.State == Open && memberID != nil {
		s.OrgID, s.OrgName = *orgID, *orgName
		s.Member.ID, s.Member.OrgID, s.Member.Email, s.Member.Name = *memberID, *orgID, s.Account.Email, *memberName
		s.Member.AccountID, s.Member.CreatedAt = s.Account.ID, *memberSince
		for _, r := range roles {
			s.Member.Roles = append(s.Member.Roles, identity.Role(r))
		}
	}
	if s.State == Open && operatorID != nil {
		s.Operator = operator.Person{
			ID: *operatorID, AccountID: s.Account.ID, Email: s.Account.Email, Name: *operatorName,
			CreatedAt: *operatorSince,
		}
		for _, r := range operatorRoles {
			s.Operator.Roles = append(s.Operator.Roles, operator.Role(r))
		}
	}
	return s, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// isOver reports whether a limit of time has ended the session, whatever its row says.
func (s Session) isOver(now time.Time) bool { return !now.Before(s.IdleAt) || !now.Before(s.ExpiresAt) }

// Find returns the live session of a token on one side and of its pages, by one statement, and writes its use at most
// once a minute. Error: UNAUTHORIZED, the same for a token that is unknown, one of other pages and a session that
// ended. Rules SIGN-11, SIGN-13 and PAGE-119.
func Find(
	ctx context.Context, db *pg.DB, side account.Side, audience Audience, token seal.Secret,
) (Session, error) {
	s, err := Look(ctx, db, side, audience, token)
	now := db.Clock()().UTC()
	if err != nil || now.Sub(s.LastSeenAt) < touchInterval {
		return s, err
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE sessions SET last_seen_at = $2 WHERE session_id = $1 AND last_seen_at < $2 AND state <> 'ENDED'`,
			s.ID, tx.Now)
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("note the use of session %s: %w", s.ID, err)
	}
	idle := s.IdleAt.Sub(s.LastSeenAt)
	s.LastSeenAt = now
	s.IdleAt = now.Add(idle)
	return s, nil
}

// Look returns the live session of a token as Find does, and does not count as a use: a page that loads
// itself again says nothing about its person. Rules SIGN-11 and PAGE-8.
func Look(
	ctx context.Context, db *pg.DB, side account.Side, audience Audience, token seal.Secret,
) (Session, error) {
	hash := account.HashToken(token)
	var found []Session
	var position pg.Position
	if err := db.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		db.QueuePosition(b, &position)
		b.Queue(selectSession+` WHERE s.hash = $1 AND s.state <> 'ENDED' AND a.side = $2 AND s.audience = $3`,
			hash, side, cmp.Or(audience, ForPages)).
			Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.CollectRows(rows, scanSession)
				return err
			})
	}); err != nil {
		return Session{}, fmt.Errorf("look for a session: %w", err)
	}
	now := db.Clock()().UTC()
	if len(found) != 1 || found[0].isOver(now) {
		return Session{}, Refusal()
	}
	s := found[0]
	s.Position = position
	// A member whose access ended has no rights; the session of an operator without access shows nothing.
	if s.IsOpen() && side == account.OperatorSide && s.Operator.ID == "" {
		return Session{}, Refusal()
	}
	return s, nil
}

// Load returns a session as it is in this transaction.
func Load(ctx context.Context, tx pg.Tx, sessionID string) (Session, error) {
	rows, err := tx.Query(ctx, selectSession+` WHERE s.session_id = $1`, sessionID)
	if err != nil {
		return Session{}, fmt.Errorf("read session %s: %w", sessionID, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanSession)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, Refusal()
	}
	if err != nil {
		return Session{}, fmt.Errorf("read session %s: %w", sessionID, err)
	}
	return s, nil
}

// CheckLive refuses a session that has ended or has another token or state than when it was found. A
// transaction that writes for a session begins with it. Error: UNAUTHORIZED.
func CheckLive(ctx context.Context, tx pg.Tx, s Session) error {
	var state State
	err := tx.QueryRow(ctx, `SELECT state FROM sessions WHERE session_id = $1 AND hash = $2`, s.ID, s.tokenHash).
		Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && state != s.State {
		return Refusal()
	}
	if err != nil {
		return fmt.Errorf("read session %s: %w", s.ID, err)
	}
	if s.isOver(tx.Now) {
		return Refusal()
	}
	return nil
}

// Rotate notes a factor, opens the session if it waited, and gives it a new token. It is a
// compare-and-swap on the token: of two that use one token, one gets UNAUTHORIZED. An empty factor
// only changes the token. Rule SIGN-12.
func Rotate(ctx context.Context, tx pg.Tx, s Session, factor account.FactorKind) (seal.Secret, error) {
	token, hash := account.NewToken()
	tag, err := tx.Exec(ctx, `
		UPDATE sessions SET hash = $3, state = 'OPEN', last_seen_at = greatest(last_seen_at, $4), wrong_codes = 0,
			factor = CASE WHEN $5 = '' THEN factor ELSE $5 END, factor_at = CASE WHEN $5 = '' THEN factor_at ELSE $4 END
		WHERE session_id = $1 AND hash = $2 AND state = $6`,
		s.ID, s.tokenHash, hash, tx.Now, string(factor), s.State)
	if err != nil {
		return seal.Secret{}, fmt.Errorf("change the token of session %s: %w", s.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return seal.Secret{}, Refusal()
	}
	return token, nil
}

// ChooseMember makes the session act as a person of its account, with a new token. Error:
// UNAUTHORIZED.
func ChooseMember(ctx context.Context, tx pg.Tx, s Session, memberID string) (seal.Secret, error) {
	token, hash := account.NewToken()
	tag, err := tx.Exec(ctx, `
		UPDATE sessions SET hash = $3, member_id = $4 WHERE session_id = $1 AND hash = $2 AND state = 'OPEN'`,
		s.ID, s.tokenHash, hash, memberID)
	if err != nil {
		return seal.Secret{}, fmt.Errorf("choose the person of session %s: %w", s.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return seal.Secret{}, Refusal()
	}
	return token, nil
}

// SetMember makes a session that has just opened act as a person of its account.
func SetMember(ctx context.Context, tx pg.Tx, sessionID, memberID string) error {
	if _, err := tx.Exec(ctx, `UPDATE sessions SET member_id = $2 WHERE session_id = $1 AND state = 'OPEN'`,
		sessionID, memberID); err != nil {
		return fmt.Errorf("choose the person of session %s: %w", sessionID, err)
	}
	return nil
}

// CountWrongCode counts a wrong code. The session ends with the last one that max allows.
func CountWrongCode(ctx context.Context, tx pg.Tx, s Session, maxCodes int) (hasEnded bool, err error) {
	var state State
	err = tx.QueryRow(ctx, `
		UPDATE sessions SET wrong_codes = wrong_codes + 1,
			state = CASE WHEN wrong_codes + 1 >= $3 THEN 'ENDED' ELSE state END,
			ended_at = CASE WHEN wrong_codes + 1 >= $3 THEN $4::timestamptz END,
			end_reason = CASE WHEN wrong_codes + 1 >= $3 THEN 'TOO_MANY_CODES' END
		WHERE session_id = $1 AND hash = $2 AND state <> 'ENDED' RETURNING state`,
		s.ID, s.tokenHash, maxCodes, tx.Now).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("count a wrong code of session %s: %w", s.ID, err)
	}
	return state == Ended, nil
}

const endSessions = `
	UPDATE sessions SET state = 'ENDED', ended_at = $1, end_reason = $2 WHERE session_id IN (
		SELECT session_id FROM sessions WHERE state <> 'ENDED' AND `

// End ends one live session of an account; hasEnded is false if the account has none with that id.
func End(ctx context.Context, tx pg.Tx, accountID, sessionID string, reason EndReason) (hasEnded bool, err error) {
	n, err := endAll(ctx, tx, reason, `account_id = $3 AND session_id = $4`, accountID, sessionID)
	return n == 1, err
}

// EndOthers ends the live sessions of an account except one, and returns how many.
func EndOthers(ctx context.Context, tx pg.Tx, accountID, exceptID string, reason EndReason) (int, error) {
	return endAll(ctx, tx, reason, `account_id = $3 AND session_id <> $4`, accountID, exceptID)
}

// EndOfMember ends the live sessions that act as a person, and returns how many. Rule SIGN-11.
func EndOfMember(ctx context.Context, tx pg.Tx, memberID string, reason EndReason) (int, error) {
	return endAll(ctx, tx, reason, `member_id = $3`, memberID)
}

func endAll(ctx context.Context, tx pg.Tx, reason EndReason, condition string, args ...any) (int, error) {
	tag, err := tx.Exec(ctx, endSessions+condition+` ORDER BY session_id FOR NO KEY UPDATE) AND state <> 'ENDED'`,
		append([]any{tx.Now, reason}, args...)...)
	if err != nil {
		return 0, fmt.Errorf("end sessions (%s): %w", reason, err)
	}
	return int(tag.RowsAffected()), nil
}

// ListLive returns the live sessions of accounts, latest first. Sessions that a limit of time has
// ended are left out.
func ListLive(ctx context.Context, tx pg.Tx, accountIDs ...string) ([]Session, error) {
	rows, err := tx.Query(ctx, selectSession+`
		WHERE s.account_id = ANY ($1) AND s.state <> 'ENDED' ORDER BY s.created_at DESC, s.session_id DESC`, accountIDs)
	if err != nil {
		return nil, fmt.Errorf("list the sessions of %d accounts: %w", len(accountIDs), err)
	}
	found, err := pgx.CollectRows(rows, scanSession)
	if err != nil {
		return nil, fmt.Errorf("list the sessions of %d accounts: %w", len(accountIDs), err)
	}
	var live []Session
	for _, s := range found {
		if !s.isOver(tx.Now) {
			s.tokenHash = nil
			live = append(live, s)
		}
	}
	return live, nil
}

// Prune ends the sessions that a limit of time has ended, and deletes those that ended long ago.
func Prune(ctx context.Context, tx pg.Tx) error {
	idle, _ := limits(account.MemberSide)
	b := &pgx.Batch{}
	b.Queue(`
		UPDATE sessions SET state = 'ENDED', ended_at = $1, end_reason = CASE
			WHEN last_seen_at <= $2 AND last_seen_at + ($1 - $2::timestamptz) < expires_at THEN 'IDLE'
			ELSE 'TOO_OLD' END
		WHERE session_id IN (
			SELECT session_id FROM sessions WHERE state <> 'ENDED' AND (expires_at <= $1 OR last_seen_at <= $2)
			ORDER BY session_id FOR NO KEY UPDATE) AND state <> 'ENDED'`, tx.Now, tx.Now.Add(-idle))
	b.Queue(`DELETE FROM sessions WHERE state = 'ENDED' AND ended_at <= $1`, tx.Now.Add(-endedStay))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("prune sessions: %w", err)
	}
	return nil
}
