package signin

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// TOTPEnrolment is a secret that counts only after ConfirmTOTP.
type TOTPEnrolment struct {
	Secret seal.Secret // base32, for typing
	URL    seal.Secret // otpauth://…, for a QR code
}

// ListFactors returns which factors the account has.
func (s *Service) ListFactors(ctx context.Context, sess session.Session) (factors account.Factors, err error) {
	err = s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		factors, err = account.LoadFactors(ctx, tx, sess.Account.ID)
		return err
	})
	return factors, err
}

// checkEnrolling refuses an enrolment of a session that may not make one. A session that must enrol
// may do so only while the account has no factor: otherwise one that an attacker began with the
// password would replace the factor of the owner. It locks the account.
func (s *Service) checkEnrolling(ctx context.Context, tx pg.Tx, sess session.Session) error {
	if err := session.CheckLive(ctx, tx, sess); err != nil {
		return err
	}
	a, err := account.LockByID(ctx, tx, sess.Account.ID)
	if err != nil {
		return err
	}
	if sess.State == session.MustEnrol && a.HasSecondFactor {
		return session.Refusal()
	}
	return nil
}

// StartTOTP makes a TOTP secret, in place of one that waits for its first code. It needs a session
// that is MUST_ENROL or has a fresh factor.
func (s *Service) StartTOTP(ctx context.Context, sess session.Session) (TOTPEnrolment, error) {
	if err := s.requireFresh(sess); err != nil {
		return TOTPEnrolment{}, err
	}
	var made account.TOTPSecret
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return err
		}
		made, err = account.StartTOTP(ctx, tx, s.conf.Keys, sess.Account, s.conf.Issuer)
		return err
	})
	if err != nil {
		return TOTPEnrolment{}, err
	}
	return TOTPEnrolment{made.Secret, made.URL}, nil
}

// ConfirmTOTP switches TOTP on, in place of the secret before. It ends the account's other sessions.
// A session that is MUST_ENROL opens. Error: UNAUTHORIZED for a wrong code (IsRefused).
func (s *Service) ConfirmTOTP(ctx context.Context, c Client, sess session.Session, code seal.Secret) (Result, error) {
	if err := s.requireFresh(sess); err != nil {
		return Result{}, err
	}
	var made Result
	err := s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return "", false, err
		}
		isRight, err := account.ConfirmTOTP(ctx, tx, s.conf.Keys, sess.Account.ID, code)
		return account.TOTPFactor, isRight, err
	}, func(ctx context.Context, tx pg.Tx, factor account.FactorKind) (err error) {
		made, err = s.factorAdded(ctx, tx, c, sess, factor, "totp.enrolled",
			"The authenticator app of your account was set.")
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// factorAdded opens a session that had to enrol, or gives an open one a new token, ends the other
// sessions, and tells the person. Rule SIGN-11.
func (s *Service) factorAdded(
	ctx context.Context, tx pg.Tx, c Client, sess session.Session, factor account.FactorKind, action, sentence string,
) (made Result, err error) {
	if sess.State == session.MustEnrol {
		made, err = s.openSession(ctx, tx, c, sess, factor)
	} else {
		made, err = s.rotateToken(ctx, tx, sess, factor)
	}
	if err != nil {
		return Result{}, err
	}
	return made, s.factorsChanged(ctx, tx, sess, action, sentence)
}

func (s *Service) rotateToken(
	ctx context.Context, tx pg.Tx, sess session.Session, factor account.FactorKind,
) (made Result, err error) {
	if made.Token, err = session.Rotate(ctx, tx, sess, factor); err != nil {
		return Result{}, err
	}
	made.Session, err = session.Load(ctx, tx, sess.ID)
	return made, err
}

func (s *Service) factorsChanged(ctx context.Context, tx pg.Tx, sess session.Session, action, sentence string) error {
	ended, err := session.EndOthers(ctx, tx, sess.Account.ID, sess.ID, session.FactorsChanged)
	if err != nil {
		return err
	}
	if err := s.mail(ctx, tx, "SIGN_IN_CHANGED", sess.Account.Email, "Your sign-in was changed",
		sentence+" Your other sessions have ended.\n\nIf it was not you, ask an owner of your organization, or your "+
			"operator, to end your access at once.\n"); err != nil {
		return err
	}
	return s.record(ctx, tx, sess.Account, action, map[string]any{"sessionsEnded": ended})
}

// RemoveTOTP switches TOTP off and ends the other sessions. Errors: INVALID_STATE if it is the last
// second factor; Forbidden while a recovery code restricts the account (IsRestricted).
func (s *Service) RemoveTOTP(ctx context.Context, _ Client, sess session.Session) (Result, error) {
	return s.removeFactor(ctx, sess, "totp.removed", "The authenticator app of your account was removed.",
		func(ctx context.Context, tx pg.Tx, f account.Factors) error {
			if f.HasTOTP && len(f.Passkeys) == 0 {
				return lastFactor()
			}
			return account.RemoveTOTP(ctx, tx, sess.Account.ID)
		})
}

// RemovePasskey removes a passkey and ends the other sessions. Errors: NOT_FOUND, INVALID_STATE if it
// is the last second factor; Forbidden while a recovery code restricts the account (IsRestricted).
func (s *Service) RemovePasskey(
	ctx context.Context, _ Client, sess session.Session, passkeyID string,
) (Result, error) {
	return s.removeFactor(ctx, sess, "passkey.removed", "A passkey of your account was removed.",
		func(ctx context.Context, tx pg.Tx, f account.Factors) error {
			isRemoved, err := account.RemovePasskey(ctx, tx, sess.Account.ID, passkeyID)
			switch {
			case err != nil:
				return err
			case !isRemoved:
				return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
					"The account has no passkey %s.", passkeyID)
			case !f.HasTOTP && len(f.Passkeys) == 1:
				return lastFactor()
			}
			return nil
		})
}

func lastFactor() error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"It is the account's last second factor.").WithAdvice("Add another one first.")
}

func (s *Service) removeFactor(
	ctx context.Context, sess session.Session, action, sentence string,
	remove func(context.Context, pg.Tx, account.Factors) error,
) (Result, error) {
	switch {
	case !sess.IsOpen():
		return Result{}, session.Refusal()
	case sess.IsRestricted(s.now()):
		return Result{}, restricted(sess.Account.RestrictedUntil)
	case !sess.HasFreshFactor(s.now()):
		return Result{}, sudoNeeded()
	}
	var made Result
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return err
		}
		factors, err := account.LoadFactors(ctx, tx, sess.Account.ID)
		if err != nil {
			return err
		}
		if err := remove(ctx, tx, factors); err != nil {
			return err
		}
		if made, err = s.rotateToken(ctx, tx, sess, ""); err != nil {
			return err
		}
		return s.factorsChanged(ctx, tx, sess, action, sentence)
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// StartPasskeyEnrolment makes the options of navigator.credentials.create. It needs a session that
// is MUST_ENROL or has a fresh factor.
func (s *Service) StartPasskeyEnrolment(ctx context.Context, sess session.Session) (options PasskeyOptions, err error) {
	if err := s.requireFresh(sess); err != nil {
		return nil, err
	}
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return err
		}
		options, err = s.party.StartEnrolment(ctx, tx, sess.Account.ID, sess.ID)
		return err
	})
	return options, err
}

// FinishPasskeyEnrolment adds a passkey and ends the other sessions. A session that is MUST_ENROL
// opens. Errors: UNAUTHORIZED for an answer to no challenge of the session (IsRefused), INVALID_REQUEST
// for the name.
func (s *Service) FinishPasskeyEnrolment(
	ctx context.Context, c Client, sess session.Session, name string, attestation []byte,
) (Result, error) {
	if err := s.requireFresh(sess); err != nil {
		return Result{}, err
	}
	var made Result
	isWrong := false
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		made, isWrong = Result{}, false
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return err
		}
		added, isRight, err := s.party.FinishEnrolment(ctx, tx, sess.Account.ID, sess.ID, name, attestation)
		if err != nil {
			return err
		}
		if isWrong = !isRight; isWrong {
			return nil // commits, because the challenge is used up
		}
		made, err = s.factorAdded(ctx, tx, c, sess, account.PasskeyFactor, "passkey.enrolled",
			fmt.Sprintf("The passkey %q was added to your account.", added.Name))
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

// MakeRecoveryCodes makes ten codes in place of those before, and ends the other sessions. They are
// shown once. It needs a fresh factor.
func (s *Service) MakeRecoveryCodes(ctx context.Context, sess session.Session) (codes []seal.Secret, err error) {
	if err := s.requireFresh(sess); err != nil {
		return nil, err
	}
	if !sess.IsOpen() {
		return nil, session.Refusal()
	}
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := s.checkEnrolling(ctx, tx, sess); err != nil {
			return err
		}
		if codes, err = account.MakeRecoveryCodes(ctx, tx, sess.Account.ID); err != nil {
			return err
		}
		return s.factorsChanged(ctx, tx, sess, "recovery_codes.made", "Your account has new recovery codes.")
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// ChangePassword needs the present password and a fresh factor, and ends all other sessions. Errors:
// UNAUTHORIZED (IsRefused) for a wrong present password, INVALID_REQUEST with the parameter
// newPassword for a password that is too short, too long or among the commonest.
func (s *Service) ChangePassword(
	ctx context.Context, c Client, sess session.Session, currentPass, newPass seal.Secret,
) (Result, error) {
	switch {
	case !sess.IsOpen():
		return Result{}, session.Refusal()
	case !sess.HasFreshFactor(s.now()):
		return Result{}, sudoNeeded()
	}
	if err := password.Check(newPass, "newPassword"); err != nil {
		return Result{}, err
	}
	var a account.Stored
	if err := s.conf.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = account.LoadByID(ctx, tx, sess.Account.ID)
		return err
	}); err != nil {
		return Result{}, err
	}
	isRight, err := s.conf.Hasher.Verify(ctx, a.PasswordHash, currentPass)
	if err != nil {
		return Result{}, err
	}
	var hash string
	if isRight {
		if hash, err = s.conf.Hasher.Hash(ctx, newPass); err != nil {
			return Result{}, err
		}
	}
	var made Result
	err = s.withFactor(ctx, c, sess, func(ctx context.Context, tx pg.Tx) (account.FactorKind, bool, error) {
		if !isRight {
			return "", false, nil
		}
		isSet, err := account.SetPassword(ctx, tx, a, hash)
		return "", isSet, err
	}, func(ctx context.Context, tx pg.Tx, _ account.FactorKind) (err error) {
		if made, err = s.rotateToken(ctx, tx, sess, ""); err != nil {
			return err
		}
		ended, err := session.EndOthers(ctx, tx, sess.Account.ID, sess.ID, session.PasswordChanged)
		if err != nil {
			return err
		}
		if err := s.mail(ctx, tx, "PASSWORD_CHANGED", sess.Account.Email, "Your password was changed",
			"The password of your account was changed. Your other sessions have ended.\n\nIf it was not you, ask an "+
				"owner of your organization, or your operator, to end your access at once.\n"); err != nil {
			return err
		}
		return s.record(ctx, tx, sess.Account, "password.changed", map[string]any{"sessionsEnded": ended})
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// AdoptTimeZone sets the time zone that the browser says, if the account has none. It never replaces what
// the person chose, and ignores a zone that is not known.
func (s *Service) AdoptTimeZone(ctx context.Context, sess session.Session, timeZone string) error {
	if !sess.IsOpen() {
		return session.Refusal()
	}
	if timeZone == "" || sess.Account.TimeZone != "" || account.CheckTimeZone(timeZone) != nil {
		return nil
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isSet, err := account.AdoptTimeZone(ctx, tx, sess.Account.ID, timeZone)
		if err != nil || !isSet {
			return err
		}
		return s.record(ctx, tx, sess.Account, "profile.changed", map[string]any{"timeZone": timeZone})
	})
}

// ChangeProfile changes the name and the time zone, which shows times on pages. Error:
// INVALID_REQUEST.
func (s *Service) ChangeProfile(ctx context.Context, sess session.Session, name, timeZone string) error {
	if !sess.IsOpen() {
		return session.Refusal()
	}
	name, err := account.CleanName(name)
	if err != nil {
		return err
	}
	if err := account.CheckTimeZone(timeZone); err != nil {
		return err
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := session.CheckLive(ctx, tx, sess); err != nil {
			return err
		}
		if err := account.SetProfile(ctx, tx, sess.Account.ID, name, timeZone); err != nil {
			return err
		}
		return s.record(ctx, tx, sess.Account, "profile.changed", map[string]any{"name": name, "timeZone": timeZone})
	})
}
