package signin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// foldTyped folds what a person typed as the e-mail. What is none belongs to no account, and takes
// the same path.
func foldTyped(email string) string {
	if folded, err := account.FoldEmail(email); err == nil {
		return folded
	}
	return fmt.Sprintf("no e-mail: %x", sha256.Sum256([]byte(email)))
}

// StartWithPassword is the first step with e-mail and password. The session is then AWAITING_FACTOR,
// or MUST_ENROL if the account has no second factor. Errors: UNAUTHORIZED, the same for every reason
// (IsRefused); RATE_LIMITED if this unknown device needs a mailed link first (NeedsLink), which does
// not say whether the account exists; UNAVAILABLE if too many passwords are being checked. Rule SIGN-1.
func (s *Service) StartWithPassword(ctx context.Context, c Client, email string, pass seal.Secret) (Result, error) {
	folded := foldTyped(email)
	if err := s.chargeAttempt(ctx, c, folded); err != nil {
		return Result{}, err
	}
	var a account.Stored
	if err := s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		a, _, err = account.LoadByEmail(ctx, tx, s.conf.Side, folded)
		return err
	}); err != nil {
		return Result{}, err
	}
	isRight, err := s.conf.Hasher.Verify(ctx, a.PasswordHash, pass)
	if err != nil {
		return Result{}, s.refundUnchecked(ctx, c, folded, err)
	}
	var made Result
	if err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		made = Result{}
		if !isRight {
			return s.recordFailure(ctx, tx, c, a.ID, "PASSWORD")
		}
		locked, isSame, err := account.LockUnchanged(ctx, tx, a)
		if err != nil || !isSame {
			return err // the password changed meanwhile: the answer is a refusal
		}
		state := session.MustEnrol
		if locked.HasSecondFactor {
			state = session.AwaitingFactor
		}
		var sessionID string
		if sessionID, made.Token, err = session.Create(ctx, tx, a.Account, state, "", s.newBrowser(c)); err != nil {
			return err
		}
		if made.Session, err = session.Load(ctx, tx, sessionID); err != nil {
			return err
		}
		return s.recordSession(ctx, tx, made.Session, "session.begun", map[string]any{"state": state})
	}); err != nil {
		return Result{}, err
	}
	if made.Token.IsEmpty() {
		return Result{}, refusal()
	}
	return made, nil
}

// refundUnchecked takes back an attempt whose password was not looked at, and returns the reason.
func (s *Service) refundUnchecked(ctx context.Context, c Client, email string, reason error) error {
	if err := s.conf.DB.InSystem(context.WithoutCancel(ctx), func(ctx context.Context, tx pg.Tx) error {
		return s.refundAttempt(ctx, tx, c, email)
	}); err != nil {
		return fmt.Errorf("%w (and the attempt stays counted: %w)", reason, err)
	}
	return reason
}

// recordFailure writes a failed sign-in into the audit log, for unknown accounts as well. What was
// typed is never written: people type passwords into the wrong field.
func (s *Service) recordFailure(ctx context.Context, tx pg.Tx, c Client, accountID, step string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Actor: audit.System("sign_in"), Action: "sign_in.failed", ResourceKind: "ACCOUNT", ResourceID: accountID,
		Detail: map[string]any{"side": s.conf.Side, "step": step, "network": networkOf(c.Addr).String()},
	})
}

// recordSession writes an act of a session into the audit log, of its organization if it has one.
func (s *Service) recordSession(
	ctx context.Context, tx pg.Tx, sess session.Session, action string, detail map[string]any,
) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: sess.OrgID, Actor: actorOf(sess), Action: action, ResourceKind: "SESSION", ResourceID: sess.ID,
		Detail: detail,
	})
}

// actorOf returns the author of an act in a session: the person of the organization, the operator, or
// the account.
func actorOf(sess session.Session) audit.Actor {
	switch {
	case sess.Member.ID != "":
		return sess.Member.Actor()
	case sess.Operator.ID != "":
		return sess.Operator.Actor()
	}
	return sess.Account.Actor()
}

// useProof reports whether a factor is right, and uses it up. Rules SIGN-4 and SIGN-5.
func (s *Service) useProof(
	ctx context.Context, tx pg.Tx, sess session.Session, c account.Ceremony, p Proof,
) (account.FactorKind, bool, error) {
	hasCode, hasAssertion := !p.Code.IsEmpty(), len(p.Assertion) > 0
	switch {
	case hasCode && !hasAssertion:
		isRight, err := account.UseTOTP(ctx, tx, s.conf.Keys, sess.Account.ID, p.Code)
		return account.TOTPFactor, isRight, err
	case hasAssertion && !hasCode:
		_, isRight, err := s.party.FinishAssertion(ctx, tx, c, sess.Account.ID, p.Assertion)
		return account.PasskeyFactor, isRight, err
	}
	return "", false, nil
}

// withFactor runs fn in a transaction if the session lives and check finds a right factor. A wrong one
// is counted and committed: after Limits.Codes of them the session ends, and its owner gets a mail.
func (s *Service) withFactor(
	ctx context.Context, c Client, sess session.Session,
	check func(context.Context, pg.Tx) (account.FactorKind, bool, error),
	fn func(context.Context, pg.Tx, account.FactorKind) error,
) error {
	isWrong := false
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isWrong = false
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		factor, isRight, err := check(ctx, tx)
		if err != nil {
			return err
		}
		if isRight {
			return fn(ctx, tx, factor)
		}
		isWrong = true
		if err := s.chargeWrongCode(ctx, tx, c, sess.Account.Email); err != nil {
			return err
		}
		hasEnded, err := session.CountWrongCode(ctx, tx, sess, s.conf.Limits.Codes)
		if err != nil {
			return err
		}
		if hasEnded {
			if err := s.mail(ctx, tx, "WRONG_CODES", sess.Account.Email, "Wrong codes", fmt.Sprintf(
				"A browser has shown the right password or session of your account and %d wrong codes after it. "+
					"Its session has ended.\n\nIf it was not you, change your password.\n\nBrowser: %s\nAddress: %s\n",
				s.conf.Limits.Codes, sess.Device, c.Addr)); err != nil {
				return err
			}
		}
		return s.recordFailure(ctx, tx, c, sess.Account.ID, "FACTOR")
	})
	if err == nil && isWrong {
		return refusal()
	}
	return err
}

// ConfirmFactor is the second step: a TOTP code or a passkey's answer opens the session. Errors:
// UNAUTHORIZED for a wrong or used code (IsRefused); after too many the session has ended.
func (s *Service) ConfirmFactor(ctx context.Context, c Client, sess session.Session, p Proof) (Result, error) {
	if sess.State != session.AwaitingFactor {
		return Result{}, session.Refusal()
	}
	var made Result
	err := s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		return s.useProof(ctx, tx, sess, account.Ceremony{Purpose: account.ForStepUp, SessionID: sess.ID}, p)
	}, func(ctx context.Context, tx pg.Tx, factor account.FactorKind) (err error) {
		made, err = s.openSession(ctx, tx, c, sess, factor)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// openSession opens a session with a factor: it makes the device known, takes the attempt back and
// chooses the organization where there is only one.
func (s *Service) openSession(
	ctx context.Context, tx pg.Tx, c Client, sess session.Session, factor account.FactorKind,
) (made Result, err error) {
	memberID, err := s.onlyMember(ctx, tx, sess.Account)
	if err != nil {
		return Result{}, err
	}
	if made.Device, err = s.completeAttempt(ctx, tx, c, sess.Account); err != nil {
		return Result{}, err
	}
	if made.Token, err = session.Rotate(ctx, tx, sess, factor); err != nil {
		return Result{}, err
	}
	return s.finishOpening(ctx, tx, made, sess.ID, memberID, factor)
}

func (s *Service) finishOpening(
	ctx context.Context, tx pg.Tx, made Result, sessionID, memberID string, factor account.FactorKind,
) (_ Result, err error) {
	if memberID != "" {
		if err := session.SetMember(ctx, tx, sessionID, memberID); err != nil {
			return Result{}, err
		}
	}
	if made.Session, err = session.Load(ctx, tx, sessionID); err != nil {
		return Result{}, err
	}
	if s.conf.Side == account.OperatorSide && made.Session.Operator.ID == "" {
		return Result{}, refusal() // the operator's access has ended
	}
	return made, s.recordSession(ctx, tx, made.Session, "session.opened", map[string]any{"factor": factor})
}

// onlyMember returns the person of an account that has only one organization, and locks it against a
// change of roles.
func (s *Service) onlyMember(ctx context.Context, tx pg.Tx, a account.Account) (string, error) {
	if s.conf.Side != account.MemberSide {
		return "", nil
	}
	people, err := member.ListByAccount(ctx, tx, a.ID)
	if err != nil || len(people) != 1 {
		return "", err
	}
	p, err := member.LockChosen(ctx, tx, a.ID, people[0].OrgID)
	if fault.HasCode(err, fault.CodeNotFound) {
		return "", nil // the access ended a moment ago
	}
	return p.ID, err
}

// UseRecoveryCode is the second step with a recovery code. It ends all other sessions of the account,
// mails the person and restricts the account for Config.Restriction. Rule SIGN-6.
func (s *Service) UseRecoveryCode(
	ctx context.Context, c Client, sess session.Session, code seal.Secret,
) (Result, error) {
	if sess.State != session.AwaitingFactor {
		return Result{}, session.Refusal()
	}
	var made Result
	err := s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		if _, err := account.LockByID(ctx, tx, sess.Account.ID); err != nil {
			return "", false, err
		}
		isRight, err := account.UseRecoveryCode(ctx, tx, sess.Account.ID, code)
		return account.RecoveryCodeFactor, isRight, err
	}, func(ctx context.Context, tx pg.Tx, factor account.FactorKind) (err error) {
		if err := account.Restrict(ctx, tx, sess.Account.ID, tx.Now.Add(s.conf.Restriction)); err != nil {
			return err
		}
		if made, err = s.openSession(ctx, tx, c, sess, factor); err != nil {
			return err
		}
		ended, err := session.EndOthers(ctx, tx, sess.Account.ID, sess.ID, session.RecoveryUsed)
		if err != nil {
			return err
		}
		if err := s.mail(ctx, tx, "RECOVERY_CODE_USED", sess.Account.Email, "A recovery code was used", fmt.Sprintf(
			"A recovery code of your account was used to sign in. Your other sessions have ended, and acts of "+
				"money and security are refused until %s.\n\nIf it was not you, ask an owner of your organization, "+
				"or your operator, to end your access at once.\n\nBrowser: %s\nAddress: %s\n",
			tx.Now.Add(s.conf.Restriction).Format(time.RFC1123), sess.Device, c.Addr)); err != nil {
			return err
		}
		return s.record(ctx, tx, sess.Account, "recovery_code.used", map[string]any{"sessionsEnded": ended})
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// StartPasskey makes the options of a sign-in with a passkey alone.
func (s *Service) StartPasskey(ctx context.Context, _ Client) (options PasskeyOptions, err error) {
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		options, err = s.party.StartAssertion(ctx, tx, account.Ceremony{Purpose: account.ForSignIn}, "")
		return err
	})
	return options, err
}

// FinishPasskey signs in with a passkey alone; the session is OPEN. Error: UNAUTHORIZED (IsRefused).
// Rule SIGN-5.
func (s *Service) FinishPasskey(ctx context.Context, c Client, assertion []byte) (Result, error) {
	var made Result
	isWrong := false
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		made, isWrong = Result{}, false
		a, isRight, err := s.party.FinishAssertion(ctx, tx, account.Ceremony{Purpose: account.ForSignIn}, "", assertion)
		if err != nil {
			return err
		}
		if !isRight {
			isWrong = true // commits, because the challenge is used up
			return s.recordFailure(ctx, tx, c, "", "PASSKEY")
		}
		memberID, err := s.onlyMember(ctx, tx, a.Account)
		if err != nil {
			return err
		}
		if made.Device, _, err = s.keepDevice(ctx, tx, c, a.ID, 0); err != nil {
			return err
		}
		var sessionID string
		sessionID, made.Token, err = session.Create(ctx, tx, a.Account, session.Open, account.PasskeyFactor,
			s.newBrowser(c))
		if err != nil {
			return err
		}
		made, err = s.finishOpening(ctx, tx, made, sessionID, memberID, account.PasskeyFactor)
		return err
	})
	switch {
	case err != nil:
		return Result{}, err
	case isWrong:
		return Result{}, refusal()
	}
	return made, nil
}

// SignOut ends the session.
func (s *Service) SignOut(ctx context.Context, sess session.Session) error {
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		hasEnded, err := session.End(ctx, tx, sess.Account.ID, sess.ID, session.SignedOut)
		if err != nil || !hasEnded {
			return err
		}
		return s.recordSession(ctx, tx, sess, "session.ended", map[string]any{"reason": session.SignedOut})
	})
}

// Membership is one organization of an account.
type Membership struct {
	OrgName string
	Member  member.Member
}

// ListOrganizations returns the account's persons with access, by name of the organization.
func (s *Service) ListOrganizations(ctx context.Context, sess session.Session) (memberships []Membership, err error) {
	if !sess.IsOpen() {
		return nil, session.Refusal()
	}
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		memberships = nil
		people, err := member.ListByAccount(ctx, tx, sess.Account.ID)
		if err != nil {
			return err
		}
		for _, p := range people {
			m := Membership{Member: p}
			if err := tx.QueryRow(ctx, `SELECT name FROM organizations WHERE org_id = $1`,
				p.OrgID).Scan(&m.OrgName); err != nil {
				return fmt.Errorf("read the name of %s: %w", p.OrgID, err)
			}
			memberships = append(memberships, m)
		}
		return nil
	})
	return memberships, err
}

// ChooseOrganization makes the session act in an organization of the account, with a new token. A
// session with only one has chosen it when it opens. Error: NOT_FOUND.
func (s *Service) ChooseOrganization(
	ctx context.Context, _ Client, sess session.Session, orgID string,
) (Result, error) {
	var made Result
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		p, err := member.LockChosen(ctx, tx, sess.Account.ID, orgID)
		if err != nil {
			return err
		}
		if made.Token, err = session.ChooseMember(ctx, tx, sess, p.ID); err != nil {
			return err
		}
		if made.Session, err = session.Load(ctx, tx, sess.ID); err != nil {
			return err
		}
		return s.recordSession(ctx, tx, made.Session, "session.organization_chosen", nil)
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// ceremonyOf returns what a passkey confirms: sudo for a zero act, else the act.
func ceremonyOf(sess session.Session, act Act) account.Ceremony {
	c := account.Ceremony{Purpose: account.ForStepUp, SessionID: sess.ID}
	if act.Action == "" {
		return c
	}
	c.Purpose = account.ForAct
	h := sha256.New()
	for _, part := range [][]byte{[]byte(act.Action), []byte(act.Resource), act.Digest} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	copy(c.Act[:], h.Sum(nil))
	return c
}

// StepUpOptions makes the options with which a passkey confirms: a sign-in's second step, sudo (a
// zero Act), or one act.
func (s *Service) StepUpOptions(
	ctx context.Context, sess session.Session, act Act,
) (options PasskeyOptions, err error) {
	if sess.State != session.Open && (sess.State != session.AwaitingFactor || act.Action != "") {
		return nil, session.Refusal()
	}
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		options, err = s.party.StartAssertion(ctx, tx, ceremonyOf(sess, act), sess.Account.ID)
		return err
	})
	return options, err
}

// StepUp shows a factor again, which holds for ten minutes (Session.IsSudo), and gives a new token.
// While a recovery code restricts the account, it is enough for the person's own factors alone. Error:
// UNAUTHORIZED (IsRefused). Rule SIGN-10.
func (s *Service) StepUp(ctx context.Context, c Client, sess session.Session, p Proof) (Result, error) {
	if !sess.IsOpen() {
		return Result{}, session.Refusal()
	}
	var made Result
	err := s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		return s.useProof(ctx, tx, sess, ceremonyOf(sess, Act{}), p)
	}, func(ctx context.Context, tx pg.Tx, factor account.FactorKind) (err error) {
		if made.Token, err = session.Rotate(ctx, tx, sess, factor); err != nil {
			return err
		}
		if made.Session, err = session.Load(ctx, tx, sess.ID); err != nil {
			return err
		}
		return s.recordSession(ctx, tx, made.Session, "session.stepped_up", map[string]any{"factor": factor})
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// ConfirmAct uses a factor up for one act. It commits before the act begins, so a crash between the
// two costs a code and never repeats an act. Errors: UNAUTHORIZED (IsRefused); Forbidden while a
// recovery code restricts the account (IsRestricted). Rule SIGN-10.
func (s *Service) ConfirmAct(
	ctx context.Context, c Client, sess session.Session, act Act, p Proof,
) (Confirmation, error) {
	if !sess.IsOpen() || act.Action == "" {
		return Confirmation{}, session.Refusal()
	}
	if sess.IsRestricted(s.now()) {
		return Confirmation{}, restricted(sess.Account.RestrictedUntil)
	}
	var made Confirmation
	err := s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		return s.useProof(ctx, tx, sess, ceremonyOf(sess, act), p)
	}, func(ctx context.Context, tx pg.Tx, factor account.FactorKind) error {
		made = Confirmation{Act: act, Factor: factor, ConfirmedAt: tx.Now}
		return s.recordSession(ctx, tx, sess, "act.confirmed", map[string]any{
			"action": act.Action, "resource": act.Resource, "factor": factor,
		})
	})
	if err != nil {
		return Confirmation{}, err
	}
	return made, nil
}

// ListSessions returns the live sessions of the account, latest first.
func (s *Service) ListSessions(ctx context.Context, sess session.Session) (live []session.Session, err error) {
	if !sess.IsOpen() {
		return nil, session.Refusal()
	}
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		live, err = session.ListLive(ctx, tx, sess.Account.ID)
		return err
	})
	return live, err
}

// EndSession ends one session of the account. Error: NOT_FOUND.
func (s *Service) EndSession(ctx context.Context, sess session.Session, sessionID string) error {
	if !sess.IsOpen() {
		return session.Refusal()
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		hasEnded, err := session.End(ctx, tx, sess.Account.ID, sessionID, session.EndedByPerson)
		if err != nil {
			return err
		}
		if !hasEnded {
			return noSession(sessionID)
		}
		return s.recordSession(ctx, tx, sess, "session.ended", map[string]any{
			"session": sessionID, "reason": session.EndedByPerson,
		})
	})
}

func noSession(sessionID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no live session %s.",
		sessionID)
}

// EndOtherSessions ends all sessions of the account except this one, and returns how many.
func (s *Service) EndOtherSessions(ctx context.Context, sess session.Session) (ended int, err error) {
	if !sess.IsOpen() {
		return 0, session.Refusal()
	}
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		if ended, err = session.EndOthers(ctx, tx, sess.Account.ID, sess.ID, session.EndedByPerson); err != nil {
			return err
		}
		return s.recordSession(ctx, tx, sess, "session.others_ended", map[string]any{"ended": ended})
	})
	return ended, err
}

// ListOperators returns all operators, those whose access has ended included.
func (s *Service) ListOperators(ctx context.Context) (people []operator.Person, err error) {
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		people, err = operator.ListPeople(ctx, tx)
		return err
	})
	return people, err
}
