package signin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/invitation"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// LookAtInvitation reads an invitation and changes nothing: mail scanners open links. Error:
// NOT_FOUND for one that is unknown, used, revoked or older than 72 hours. Rule SIGN-7.
func (s *Service) LookAtInvitation(ctx context.Context, token seal.Secret) (found invitation.Invitation, err error) {
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = invitation.Find(ctx, tx, s.conf.Side, token)
		return err
	})
	return found, err
}

// AcceptInvitation makes the account and consumes the invitation, by POST alone. The session is
// MUST_ENROL. Errors: NOT_FOUND as above, INVALID_REQUEST with the parameters password, name or
// timeZone, INVALID_STATE if an account with that e-mail exists: its owner signs in and calls
// JoinInvitation.
func (s *Service) AcceptInvitation(
	ctx context.Context, c Client, token seal.Secret, name, timeZone string, pass seal.Secret,
) (Result, error) {
	name, err := account.CleanName(name)
	if err != nil {
		return Result{}, err
	}
	if err := account.CheckTimeZone(timeZone); err != nil {
		return Result{}, err
	}
	if err := password.Check(pass, "password"); err != nil {
		return Result{}, err
	}
	found, err := s.LookAtInvitation(ctx, token)
	if err != nil {
		return Result{}, err
	}
	if found.HasAccount {
		return Result{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s has an account already.", found.Email).WithAdvice("Sign in with it, and open the invitation again.")
	}
	hash, err := s.conf.Hasher.Hash(ctx, pass)
	if err != nil {
		return Result{}, err
	}
	var made Result
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		i, err := invitation.Find(ctx, tx, s.conf.Side, token)
		if err != nil {
			return err
		}
		a, err := account.Create(ctx, tx, s.conf.Side, i.Email, name, timeZone, hash)
		if err != nil {
			return err
		}
		if err := invitation.Accept(ctx, tx, i, a.ID); err != nil {
			return err
		}
		sessionID, token, err := session.Create(ctx, tx, a, session.MustEnrol, "", s.newBrowser(c))
		if err != nil {
			return err
		}
		made.Token = token
		if made.Session, err = session.Load(ctx, tx, sessionID); err != nil {
			return err
		}
		return s.recordAccepted(ctx, tx, i, a)
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

func (s *Service) recordAccepted(ctx context.Context, tx pg.Tx, i invitation.Invitation, a account.Account) error {
	actor := audit.User(i.MemberID)
	if i.OperatorID != "" {
		actor = audit.Operator(i.OperatorID)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: i.OrgID, Actor: actor, Action: "invitation.accepted", ResourceKind: "INVITATION", ResourceID: i.ID,
		Detail: map[string]any{"account": a.ID, "email": a.Email},
	})
}

// JoinInvitation accepts an invitation with an account that exists, in an OPEN session of that
// account. Errors: NOT_FOUND, Forbidden if the invitation is for another e-mail.
func (s *Service) JoinInvitation(ctx context.Context, sess session.Session, token seal.Secret) error {
	if !sess.IsOpen() {
		return session.Refusal()
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		i, err := invitation.Find(ctx, tx, s.conf.Side, token)
		if err != nil {
			return err
		}
		if i.Email != sess.Account.Email {
			return roleMissing("The invitation is for another e-mail than that of your account.")
		}
		if err := invitation.Accept(ctx, tx, i, sess.Account.ID); err != nil {
			return err
		}
		return s.recordAccepted(ctx, tx, i, sess.Account)
	})
}

// TeamMember is a person of an organization as its team page shows them.
type TeamMember struct {
	Member       member.Member
	Factors      account.Factors   // without an account: none
	LastSeenAt   time.Time         // in a live session of this organization; zero: in none
	InvitedUntil time.Time         // zero: no invitation is open
	Sessions     []session.Session // those in this organization, for an owner or an administrator
}

// ListTeam returns the people of the session's organization, those whose access has ended included.
func (s *Service) ListTeam(ctx context.Context, sess session.Session) (team []TeamMember, err error) {
	if sess.Member.ID == "" {
		return nil, session.Refusal()
	}
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		team = nil
		people, err := member.ListByOrg(ctx, tx, sess.OrgID)
		if err != nil {
			return err
		}
		var accountIDs []string
		for _, p := range people {
			if p.AccountID != "" {
				accountIDs = append(accountIDs, p.AccountID)
			}
		}
		factors, err := account.LoadFactorsOf(ctx, tx, accountIDs)
		if err != nil {
			return err
		}
		sessions, err := session.ListLive(ctx, tx, accountIDs...)
		if err != nil {
			return err
		}
		invited, err := invitation.ListOpen(ctx, tx, sess.OrgID)
		if err != nil {
			return err
		}
		for _, p := range people {
			m := TeamMember{Member: p, Factors: factors[p.AccountID], InvitedUntil: invited[p.ID]}
			for _, live := range sessions {
				if live.Member.ID != p.ID {
					continue // of another organization, about which this one knows nothing
				}
				if live.LastSeenAt.After(m.LastSeenAt) {
					m.LastSeenAt = live.LastSeenAt
				}
				if sess.Member.MayGrant() {
					m.Sessions = append(m.Sessions, live)
				}
			}
			team = append(team, m)
		}
		return nil
	})
	return team, err
}

// requireTeamRight refuses a session that may not give or take roles. Rules SIGN-10 and SIGN-14.
func (s *Service) requireTeamRight(sess session.Session, roles ...identity.Role) error {
	if err := s.requireSudo(sess); err != nil {
		return err
	}
	if sess.Member.ID == "" || !sess.Member.MayGrant(roles...) {
		return roleMissing("An owner gives and takes every role, an administrator all but OWNER and ADMIN, " +
			"and no other person any.")
	}
	return nil
}

// InviteMember adds a person to the session's organization, or gives one whose access has ended a new
// one, and mails the invitation. It needs sudo. Errors: Forbidden (the roles that the person may not
// give, or no sudo: NeedsSudo), INVALID_REQUEST, INVALID_STATE.
func (s *Service) InviteMember(
	ctx context.Context, sess session.Session, email, name string, roles []identity.Role,
) (member.Member, error) {
	if err := s.requireTeamRight(sess, roles...); err != nil {
		return member.Member{}, err
	}
	folded, err := account.FoldEmail(email)
	if err != nil {
		return member.Member{}, err
	}
	if name, err = account.CleanName(name); err != nil {
		return member.Member{}, err
	}
	var added member.Member
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		before, exists, err := member.FindByOrgEmail(ctx, tx, sess.OrgID, folded)
		if err != nil {
			return err
		}
		switch {
		case exists && !before.EndedAt.IsZero():
			if !sess.Member.MayGrant(before.Roles...) {
				return roleMissing("Only an owner brings an owner or an administrator back.")
			}
			added, err = member.RestoreAccess(ctx, tx, actorOf(sess), before, name, roles)
		default:
			added, err = member.Add(ctx, tx, actorOf(sess), sess.OrgID, folded, name, roles...)
		}
		if err != nil {
			return err
		}
		return s.mailInvitation(ctx, tx, sess, added)
	})
	if err != nil {
		return member.Member{}, err
	}
	return added, nil
}

func (s *Service) mailInvitation(ctx context.Context, tx pg.Tx, sess session.Session, p member.Member) error {
	i, token, err := invitation.CreateForMember(ctx, tx, p)
	if err != nil {
		return err
	}
	if err := s.mail(ctx, tx, "INVITATION", p.Email, "Invitation", s.invitationText(
		fmt.Sprintf("%s (%s) invites you to %s.", sess.Member.Name, sess.Account.Email, sess.OrgName), token,
	)); err != nil {
		return err
	}
	return recordInvited(ctx, tx, actorOf(sess), i)
}

func (s *Service) invitationText(sentence string, token seal.Secret) string {
	return fmt.Sprintf("%s\n\nThe link works once, within 72 hours:\n\n%s\n\n"+
		"You will choose a password and set up a second factor: a passkey, or an authenticator app.\n",
		sentence, s.conf.InvitationURL+token.Reveal())
}

func recordInvited(ctx context.Context, tx pg.Tx, actor audit.Actor, i invitation.Invitation) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: i.OrgID, Actor: actor, Action: "invitation.created", ResourceKind: "INVITATION", ResourceID: i.ID,
		Detail: map[string]any{"email": i.Email, "person": i.MemberID + i.OperatorID, "expiresAt": i.ExpiresAt},
	})
}

// ResendInvitation replaces a person's open invitation by a new one and mails it. It needs sudo.
func (s *Service) ResendInvitation(ctx context.Context, sess session.Session, memberID string) error {
	if err := s.requireTeamRight(sess); err != nil {
		return err
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := s.lockMember(ctx, tx, sess, memberID)
		if err != nil {
			return err
		}
		return s.mailInvitation(ctx, tx, sess, p)
	})
}

// lockMember returns a person of the session's organization whose roles the session may give and take.
func (s *Service) lockMember(
	ctx context.Context, tx pg.Tx, sess session.Session, memberID string,
) (member.Member, error) {
	if err := session.CheckLive(ctx, tx, sess); err != nil {
		return member.Member{}, err
	}
	p, err := member.ByID(ctx, tx, sess.OrgID, memberID)
	if err != nil {
		return member.Member{}, err
	}
	if !sess.Member.MayGrant(p.Roles...) {
		return member.Member{}, roleMissing("Only an owner decides about an owner or an administrator.")
	}
	return p, nil
}

// ChangeRoles replaces a person's roles and ends the person's sessions in the organization. It needs
// sudo. Errors: Forbidden, NOT_FOUND, INVALID_STATE for the last owner. Rules SIGN-11 and SIGN-14.
func (s *Service) ChangeRoles(
	ctx context.Context, sess session.Session, memberID string, roles []identity.Role,
) (member.Member, error) {
	return s.changeRoles(ctx, sess, memberID, roles, func(member.Member) error { return nil })
}

// ChangeRolesAsSeen does what ChangeRoles does, if the person still has the roles that the caller saw: a later
// change is not overwritten. Error: INVALID_STATE in addition. Rule PAGE-21.
func (s *Service) ChangeRolesAsSeen(
	ctx context.Context, sess session.Session, memberID string, seenRoles, roles []identity.Role,
) (member.Member, error) {
	return s.changeRoles(ctx, sess, memberID, roles, func(before member.Member) error {
		if !slices.Equal(slices.Sorted(slices.Values(before.Roles)), slices.Sorted(slices.Values(seenRoles))) {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The roles were changed after this page was loaded.").
				WithAdvice("Look at the present roles, and change them again if that is still needed.")
		}
		return nil
	})
}

func (s *Service) changeRoles(
	ctx context.Context, sess session.Session, memberID string, roles []identity.Role,
	checkSeen func(before member.Member) error,
) (member.Member, error) {
	if err := s.requireTeamRight(sess, roles...); err != nil {
		return member.Member{}, err
	}
	var changed member.Member
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := s.lockMember(ctx, tx, sess, memberID)
		if err != nil {
			return err
		}
		if err := checkSeen(p); err != nil {
			return err
		}
		if changed, err = member.SetRoles(ctx, tx, actorOf(sess), p, roles); err != nil {
			return err
		}
		_, err = session.EndOfMember(ctx, tx, p.ID, session.RolesChanged)
		return err
	})
	if err != nil {
		return member.Member{}, err
	}
	return changed, nil
}

// EndAccess ends a person's access, invitations and sessions in the organization. The person's row
// stays, because approvals name it. It needs sudo. Errors as of ChangeRoles.
func (s *Service) EndAccess(ctx context.Context, sess session.Session, memberID string) error {
	if err := s.requireTeamRight(sess); err != nil {
		return err
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := s.lockMember(ctx, tx, sess, memberID)
		if err != nil {
			return err
		}
		if err := member.EndAccess(ctx, tx, actorOf(sess), p); err != nil {
			return err
		}
		if _, err := invitation.End(ctx, tx, invitation.Invitation{MemberID: p.ID}, "REVOKED"); err != nil {
			return err
		}
		_, err = session.EndOfMember(ctx, tx, p.ID, session.AccessEnded)
		return err
	})
}

// EndSessionOf ends a session of another person of the organization, or of another operator. It needs
// sudo. Error: NOT_FOUND.
func (s *Service) EndSessionOf(ctx context.Context, sess session.Session, sessionID string) error {
	if err := s.requireSudo(sess); err != nil {
		return err
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		ended, err := session.Load(ctx, tx, sessionID)
		switch {
		case session.IsRefusal(err):
			return noSession(sessionID)
		case err != nil:
			return err
		case !ended.IsOpen() || ended.Account.Side != s.conf.Side:
			return noSession(sessionID)
		case s.conf.Side == account.OperatorSide:
			if !slices.Contains(sess.Operator.Roles, operator.RoleOperator) {
				return roleMissing("An auditor only reads.")
			}
		case ended.OrgID != sess.OrgID || ended.OrgID == "":
			return noSession(sessionID)
		case !sess.Member.MayGrant(ended.Member.Roles...):
			return roleMissing("Only an owner ends the sessions of an owner or an administrator.")
		}
		if _, err := session.End(ctx, tx, ended.Account.ID, sessionID, session.EndedByOther); err != nil {
			return err
		}
		return s.recordSession(ctx, tx, sess, "session.ended", map[string]any{
			"session": sessionID, "reason": session.EndedByOther,
		})
	})
}

// InviteFromTerminal makes an invitation of a person that member.Add has added, for a command of the
// terminal: it is printed and not mailed. It replaces the person's invitation before. Error: NOT_FOUND.
func InviteFromTerminal(
	ctx context.Context, db *pg.DB, actor audit.Actor, orgID, email string,
) (made invitation.Invitation, token seal.Secret, err error) {
	folded, err := account.FoldEmail(email)
	if err != nil {
		return invitation.Invitation{}, seal.Secret{}, err
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, exists, err := member.FindByOrgEmail(ctx, tx, orgID, folded)
		if err != nil {
			return err
		}
		if !exists {
			return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
				"No person of this organization has the e-mail %s.", folded)
		}
		if made, token, err = invitation.CreateForMember(ctx, tx, p); err != nil {
			return err
		}
		return recordInvited(ctx, tx, actor, made)
	})
	return made, token, err
}

// InviteOperatorFromTerminal adds an operator and makes the invitation, or makes a new invitation of an
// operator who has not accepted one, for a command of the terminal: it is printed and not mailed. Errors:
// INVALID_REQUEST, INVALID_STATE if the operator has an account.
func InviteOperatorFromTerminal(
	ctx context.Context, db *pg.DB, actor audit.Actor, email, name string, roles []operator.Role,
) (made invitation.Invitation, token seal.Secret, err error) {
	folded, err := account.FoldEmail(email)
	if err != nil {
		return invitation.Invitation{}, seal.Secret{}, err
	}
	isWaiting := false
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isWaiting = false
		p, err := operator.PersonByEmail(ctx, tx, folded)
		if fault.HasCode(err, fault.CodeNotFound) {
			return nil
		}
		if err != nil || !p.EndedAt.IsZero() {
			return err
		}
		isWaiting = true
		if made, token, err = invitation.CreateForOperator(ctx, tx, p); err != nil {
			return err
		}
		return recordInvited(ctx, tx, actor, made)
	})
	if err != nil || isWaiting {
		return made, token, err
	}
	return (&Service{conf: Config{DB: db}}).InviteOperator(ctx, actor, folded, name, roles, false)
}

// InviteOperator adds an operator and makes the invitation, for a command of the terminal and for the
// console. It is mailed as well when mailed is true.
func (s *Service) InviteOperator(
	ctx context.Context, actor audit.Actor, email, name string, roles []operator.Role, mailed bool,
) (made invitation.Invitation, token seal.Secret, err error) {
	folded, err := account.FoldEmail(email)
	if err != nil {
		return invitation.Invitation{}, seal.Secret{}, err
	}
	if name, err = account.CleanName(name); err != nil {
		return invitation.Invitation{}, seal.Secret{}, err
	}
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := operator.AddPerson(ctx, tx, actor, folded, name, roles)
		if err != nil {
			return err
		}
		if made, token, err = invitation.CreateForOperator(ctx, tx, p); err != nil {
			return err
		}
		if mailed {
			if err := s.mail(ctx, tx, "INVITATION", p.Email, "Invitation", s.invitationText(
				"You are invited as an operator of this installation.", token)); err != nil {
				return err
			}
		}
		return recordInvited(ctx, tx, actor, made)
	})
	return made, token, err
}

// ChangeOperatorRoles replaces an operator's roles and ends the operator's sessions.
func (s *Service) ChangeOperatorRoles(
	ctx context.Context, actor audit.Actor, operatorID string, roles []operator.Role,
) (changed operator.Person, err error) {
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := operator.PersonByID(ctx, tx, operatorID)
		if err != nil {
			return err
		}
		if changed, err = operator.SetRoles(ctx, tx, actor, p, roles); err != nil {
			return err
		}
		_, err = session.EndOthers(ctx, tx, p.AccountID, "", session.RolesChanged)
		return err
	})
	return changed, err
}

// EndOperator ends an operator's access, invitations and sessions.
func (s *Service) EndOperator(ctx context.Context, actor audit.Actor, operatorID string) error {
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := operator.PersonByID(ctx, tx, operatorID)
		if err != nil {
			return err
		}
		if err := operator.EndPerson(ctx, tx, actor, p); err != nil {
			return err
		}
		if _, err := invitation.End(ctx, tx, invitation.Invitation{OperatorID: p.ID}, "REVOKED"); err != nil {
			return err
		}
		_, err = session.EndOthers(ctx, tx, p.AccountID, "", session.AccessEnded)
		return err
	})
}
