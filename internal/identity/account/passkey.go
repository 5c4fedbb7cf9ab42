package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	challengeLasts    = 5 * time.Minute
	passkeysMax       = 20 // of one account
	passkeyNameMax    = 100
	answerBytesMax    = 64 << 10
	transportsMax     = 8
	challengeBytesMax = 128
)

// Purpose is what a challenge is for. An answer to a challenge of another purpose is refused.
type Purpose string

// The purposes.
const (
	ForSignIn Purpose = "SIGN_IN"
	ForEnrol  Purpose = "ENROL"
	ForStepUp Purpose = "STEP_UP"
	ForAct    Purpose = "ACT"
)

// Ceremony is what a challenge is bound to.
type Ceremony struct {
	Purpose   Purpose
	SessionID string            // "" for ForSignIn
	Act       [sha256.Size]byte // of ForAct
}

func (c Ceremony) act() []byte {
	if c.Purpose != ForAct {
		return nil
	}
	return c.Act[:]
}

// RelyingParty makes and checks passkeys of one side. It is safe for concurrent use.
type RelyingParty struct {
	side  Side
	party *webauthn.WebAuthn
}

// NewRelyingParty makes one for a site and the only origin whose pages may use its passkeys.
func NewRelyingParty(side Side, site, origin, name string) (*RelyingParty, error) {
	party, err := webauthn.New(&webauthn.Config{
		RPID: site, RPDisplayName: name, RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("use passkeys of %s: %w", site, err)
	}
	return &RelyingParty{side, party}, nil
}

// passkeyUser is an account as the library wants it.
type passkeyUser struct {
	account     Stored
	credentials []webauthn.Credential
}

func (u passkeyUser) WebAuthnID() []byte                         { return u.account.handle }
func (u passkeyUser) WebAuthnName() string                       { return u.account.Email }
func (u passkeyUser) WebAuthnDisplayName() string                { return u.account.Name }
func (u passkeyUser) WebAuthnCredentials() []webauthn.Credential { return u.credentials }

// StartEnrolment returns the options of navigator.credentials.create, as JSON.
func (r *RelyingParty) StartEnrolment(ctx context.Context, tx pg.Tx, accountID, sessionID string) ([]byte, error) {
	user, err := loadPasskeyUser(ctx, tx, accountID)
	if err != nil {
		return nil, err
	}
	if len(user.credentials) >= passkeysMax {
		return nil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The account has %d passkeys.", len(user.credentials)).WithAdvice("Remove one that is not needed.")
	}
	exclude := webauthn.Credentials(user.credentials).CredentialDescriptors()
	options, data, err := r.party.BeginRegistration(user, webauthn.WithExclusions(exclude))
	if err != nil {
		return nil, fmt.Errorf("make the options of a passkey for %s: %w", accountID, err)
	}
	return r.storeChallenge(ctx, tx, Ceremony{Purpose: ForEnrol, SessionID: sessionID}, data.Challenge, options)
}

// StartAssertion returns the options of navigator.credentials.get, as JSON. Without an account any
// discoverable passkey of the site may answer.
func (r *RelyingParty) StartAssertion(ctx context.Context, tx pg.Tx, c Ceremony, accountID string) ([]byte, error) {
	var options *protocol.CredentialAssertion
	var data *webauthn.SessionData
	var err error
	if accountID == "" {
		options, data, err = r.party.BeginDiscoverableLogin()
	} else {
		var user passkeyUser
		if user, err = loadPasskeyUser(ctx, tx, accountID); err != nil {
			return nil, err
		}
		if len(user.credentials) == 0 {
			return nil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, "The account has no passkey.")
		}
		options, data, err = r.party.BeginLogin(user)
	}
	if err != nil {
		return nil, fmt.Errorf("make the options of a passkey: %w", err)
	}
	return r.storeChallenge(ctx, tx, c, data.Challenge, options)
}

func (r *RelyingParty) storeChallenge(
	ctx context.Context, tx pg.Tx, c Ceremony, challenge string, options any,
) ([]byte, error) {
	hash, isValid := hashChallenge(challenge)
	if !isValid {
		return nil, errors.New("the library made a challenge in another form")
	}
	var sessionID *string
	if c.SessionID != "" {
		sessionID = &c.SessionID
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO passkey_challenges (hash, side, purpose, session_id, act, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		hash, r.side, c.Purpose, sessionID, c.act(), tx.Now.Add(challengeLasts)); err != nil {
		return nil, fmt.Errorf("store a challenge: %w", err)
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("write the options of a passkey: %w", err)
	}
	return text, nil
}

func hashChallenge(challenge string) (hash []byte, isValid bool) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(challenge, "="))
	if err != nil || len(raw) == 0 || len(raw) > challengeBytesMax {
		return nil, false
	}
	sum := sha256.Sum256(raw)
	return sum[:], true
}

// takeChallenge deletes the challenge of an answer, and reports whether it was for this ceremony and
// in time. Rule SIGN-5.
func (r *RelyingParty) takeChallenge(ctx context.Context, tx pg.Tx, c Ceremony, challenge string) (bool, error) {
	hash, isValid := hashChallenge(challenge)
	if !isValid {
		return false, nil
	}
	var side Side
	var purpose Purpose
	var sessionID string
	var act []byte
	var expiresAt time.Time
	err := tx.QueryRow(ctx, `
		DELETE FROM passkey_challenges WHERE hash = $1
		RETURNING side, purpose, coalesce(session_id, ''), act, expires_at`, hash).
		Scan(&side, &purpose, &sessionID, &act, &expiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("use up a challenge: %w", err)
	}
	return side == r.side && purpose == c.Purpose && sessionID == c.SessionID && bytes.Equal(act, c.act()) &&
		tx.Now.Before(expiresAt), nil
}

// FinishEnrolment adds the passkey of an answer. isRight is false if the answer is not one to a
// challenge of this ceremony; the challenge is then used up all the same. Error: INVALID_STATE if the
// passkey is enrolled already.
func (r *RelyingParty) FinishEnrolment(
	ctx context.Context, tx pg.Tx, accountID, sessionID, name string, answer []byte,
) (added Passkey, isRight bool, err error) {
	name, err = cleanPasskeyName(name)
	if err != nil {
		return Passkey{}, false, err
	}
	if len(answer) > answerBytesMax {
		return Passkey{}, false, nil
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return Passkey{}, false, nil // the answer is wrong, whatever the library says about it
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	isOurs, err := r.takeChallenge(ctx, tx, Ceremony{Purpose: ForEnrol, SessionID: sessionID}, challenge)
	if err != nil || !isOurs {
		return Passkey{}, false, err
	}
	user, err := loadPasskeyUser(ctx, tx, accountID)
	if err != nil {
		return Passkey{}, false, err
	}
	credential, err := r.party.CreateCredential(user, webauthn.SessionData{
		Challenge: challenge, RelyingPartyID: r.party.Config.RPID, UserID: user.account.handle,
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersDefault(),
	}, parsed)
	if err != nil || len(user.credentials) >= passkeysMax {
		return Passkey{}, false, nil // the answer is wrong, as above
	}
	transports := []string{}
	for _, t := range credential.Transport[:min(len(credential.Transport), transportsMax)] {
		transports = append(transports, string(t)[:min(len(t), 20)])
	}
	added = Passkey{ID: id.New("pky", tx.Now), Name: name, CreatedAt: tx.Now}
	_, err = tx.Exec(ctx, `
		INSERT INTO account_passkeys (passkey_id, account_id, credential_id, public_key, flags, sign_count, aaguid,
			transports, name, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		added.ID, accountID, credential.ID, credential.PublicKey, int16(credential.Flags.ProtocolValue()),
		int64(credential.Authenticator.SignCount), credential.Authenticator.AAGUID, transports, name, tx.Now)
	if pg.ViolatesConstraint(err, "account_passkeys_credential_unique") {
		return Passkey{}, false, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This passkey is enrolled already.")
	}
	if err != nil {
		return Passkey{}, false, fmt.Errorf("add a passkey of %s: %w", accountID, err)
	}
	return added, true, nil
}

// FinishAssertion checks the answer of a passkey and uses its challenge up. With an account the
// passkey must be one of it. isRight is false for every answer that proves nothing.
func (r *RelyingParty) FinishAssertion(
	ctx context.Context, tx pg.Tx, c Ceremony, accountID string, answer []byte,
) (signer Stored, isRight bool, err error) {
	if len(answer) > answerBytesMax {
		return Stored{}, false, nil
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Stored{}, false, nil // the answer is wrong, whatever the library says about it
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	isOurs, err := r.takeChallenge(ctx, tx, c, challenge)
	if err != nil || !isOurs {
		return Stored{}, false, err
	}
	var owner string
	err = tx.QueryRow(ctx, `
		SELECT k.account_id FROM account_passkeys k JOIN accounts a USING (account_id)
		WHERE k.credential_id = $1 AND a.side = $2`, []byte(parsed.RawID), r.side).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, false, fmt.Errorf("look for a passkey: %w", err)
	}
	if accountID != "" && owner != accountID {
		return Stored{}, false, nil
	}
	user, err := loadPasskeyUser(ctx, tx, owner)
	if err != nil {
		return Stored{}, false, err
	}
	data := webauthn.SessionData{
		Challenge: challenge, RelyingPartyID: r.party.Config.RPID, UserVerification: protocol.VerificationRequired,
	}
	var credential *webauthn.Credential
	if accountID == "" {
		find := func(_, handle []byte) (webauthn.User, error) {
			if !bytes.Equal(handle, user.account.handle) {
				return nil, errors.New("the passkey names another account")
			}
			return user, nil
		}
		_, credential, err = r.party.ValidatePasskeyLogin(find, data, parsed)
	} else {
		data.UserID = user.account.handle
		credential, err = r.party.ValidateLogin(user, data, parsed)
	}
	if err != nil || credential.Authenticator.CloneWarning {
		return Stored{}, false, nil // the answer is wrong, as above
	}
	if _, err := tx.Exec(ctx, `
		UPDATE account_passkeys SET flags = $2, sign_count = $3, last_used_at = $4 WHERE credential_id = $1`,
		credential.ID, int16(credential.Flags.ProtocolValue()), int64(credential.Authenticator.SignCount), tx.Now,
	); err != nil {
		return Stored{}, false, fmt.Errorf("note the use of a passkey of %s: %w", owner, err)
	}
	return user.account, true, nil
}

// RemovePasskey removes a passkey of an account; isRemoved is false if the account has none with that
// id.
func RemovePasskey(ctx context.Context, tx pg.Tx, accountID, passkeyID string) (isRemoved bool, err error) {
	tag, err := tx.Exec(ctx, `DELETE FROM account_passkeys WHERE account_id = $1 AND passkey_id = $2`,
		accountID, passkeyID)
	if err != nil {
		return false, fmt.Errorf("remove passkey %s: %w", passkeyID, err)
	}
	return tag.RowsAffected() == 1, nil
}

func cleanPasskeyName(name string) (string, error) {
	cleaned, err := CleanName(name)
	if err != nil || len([]rune(cleaned)) > passkeyNameMax {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The name of a passkey has 1 to %d characters, without control characters.", passkeyNameMax).WithParam("name")
	}
	return cleaned, nil
}

func loadPasskeyUser(ctx context.Context, tx pg.Tx, accountID string) (passkeyUser, error) {
	a, err := LoadByID(ctx, tx, accountID)
	if err != nil {
		return passkeyUser{}, err
	}
	rows, err := tx.Query(ctx, `
		SELECT credential_id, public_key, flags, sign_count, aaguid, transports FROM account_passkeys
		WHERE account_id = $1 ORDER BY created_at, passkey_id`, accountID)
	if err != nil {
		return passkeyUser{}, fmt.Errorf("read the passkeys of %s: %w", accountID, err)
	}
	credentials, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c webauthn.Credential, err error) {
		var flags int16
		var signCount int64
		var transports []string
		err = row.Scan(&c.ID, &c.PublicKey, &flags, &signCount, &c.Authenticator.AAGUID, &transports)
		c.Flags = webauthn.NewCredentialFlags(protocol.AuthenticatorFlags(flags))
		c.Authenticator.SignCount = uint32(signCount)
		for _, t := range transports {
			c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
		}
		return c, err
	})
	if err != nil {
		return passkeyUser{}, fmt.Errorf("read the passkeys of %s: %w", accountID, err)
	}
	return passkeyUser{a, credentials}, nil
}
