package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	nameCharsMax = 200
	handleBytes  = 32
	tokenBytes   = 32
)

// NewToken makes a token of 256 bits and the hash that a table keeps.
func NewToken() (seal.Secret, []byte) {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends when there is no randomness
	token := seal.NewSecret(base64.RawURLEncoding.EncodeToString(b[:]))
	return token, HashToken(token)
}

// HashToken returns the hash of a presented token. A text that is too long is not hashed completely;
// it cannot be a token in any case.
func HashToken(token seal.Secret) []byte {
	text := token.Reveal()
	sum := sha256.Sum256([]byte(text[:min(len(text), 2*tokenBytes)]))
	return sum[:]
}

// FoldEmail returns an e-mail as accounts and persons store it. Error: INVALID_REQUEST.
func FoldEmail(email string) (string, error) {
	email = strings.TrimSpace(email)
	folded := customer.FoldEmail(email)
	atSign := strings.IndexByte(folded, '@')
	if !utf8.ValidString(email) || !customer.PlainEmail(email) || atSign < 1 || atSign == len(folded)-1 ||
		len(folded) > 254 ||
		strings.ContainsFunc(folded, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%+q is not an e-mail address in plain letters.", email).WithParam("email")
	}
	return folded, nil
}

// CleanName returns a person's name as it is stored. Error: INVALID_REQUEST.
func CleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > nameCharsMax || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool {
			return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)
		}) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A name has 1 to %d characters, without control characters.", nameCharsMax).WithParam("name")
	}
	return name, nil
}

// CheckTimeZone refuses what is no time zone of the IANA database. Error: INVALID_REQUEST.
func CheckTimeZone(zone string) error {
	if zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" || len(zone) > 64 {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%+q is not a time zone such as Europe/Berlin.", zone).WithParam("timeZone")
	}
	return nil
}

// Create makes an account. The name and the time zone are checked, the e-mail is folded. Error:
// INVALID_STATE if the side has an account with that e-mail.
func Create(
	ctx context.Context, tx pg.Tx, side Side, email, name, timeZone, passwordHash string,
) (Account, error) {
	a := Account{
		ID: id.New("acc", tx.Now), Side: side, Email: email, Name: name, TimeZone: timeZone, CreatedAt: tx.Now,
	}
	handle := make([]byte, handleBytes)
	_, _ = rand.Read(handle) // never fails: the program ends when there is no randomness
	_, err := tx.Exec(ctx, `
		INSERT INTO accounts (account_id, side, email, name, time_zone, password_hash, passkey_handle, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.ID, a.Side, a.Email, a.Name, a.TimeZone, passwordHash, handle, a.CreatedAt)
	if pg.ViolatesConstraint(err, "accounts_email_unique") {
		return Account{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s has an account already.", email).WithAdvice("Sign in with it, and open the invitation again.")
	}
	if err != nil {
		return Account{}, fmt.Errorf("make an account: %w", err)
	}
	return a, nil
}

const selectAccount = `
	SELECT account_id, side, email, name, time_zone, created_at, restricted_until, password_hash, passkey_handle,
		EXISTS (SELECT FROM account_totps t WHERE t.account_id = a.account_id AND t.confirmed_at IS NOT NULL)
			OR EXISTS (SELECT FROM account_passkeys k WHERE k.account_id = a.account_id)
	FROM accounts a`

// Stored is an account with what verifies its owner. It stays inside the packages of sign-in.
type Stored struct {
	Account
	PasswordHash    string // "" for an account that does not exist
	HasSecondFactor bool

	handle []byte
}

func scanStored(row pgx.CollectableRow) (a Stored, err error) {
	var restricted *time.Time
	err = row.Scan(&a.ID, &a.Side, &a.Email, &a.Name, &a.TimeZone, &a.CreatedAt, &restricted, &a.PasswordHash,
		&a.handle, &a.HasSecondFactor)
	if restricted != nil {
		a.RestrictedUntil = *restricted
	}
	return a, err
}

// LoadByEmail returns the account with a folded e-mail; exists is false if there is none.
func LoadByEmail(ctx context.Context, tx pg.Tx, side Side, email string) (a Stored, exists bool, err error) {
	return loadStored(ctx, tx, selectAccount+` WHERE side = $1 AND email = $2`, side, email)
}

// LoadByID returns an account. An account never disappears, so its absence is an error.
func LoadByID(ctx context.Context, tx pg.Tx, accountID string) (Stored, error) {
	a, exists, err := loadStored(ctx, tx, selectAccount+` WHERE account_id = $1`, accountID)
	if err == nil && !exists {
		return Stored{}, fmt.Errorf("account %s does not exist", accountID)
	}
	return a, err
}

func loadStored(ctx context.Context, tx pg.Tx, sql string, args ...any) (a Stored, exists bool, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return Stored{}, false, fmt.Errorf("look for an account: %w", err)
	}
	a, err = pgx.CollectExactlyOneRow(rows, scanStored)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Stored{}, false, nil
	case err != nil:
		return Stored{}, false, fmt.Errorf("look for an account: %w", err)
	}
	return a, true, nil
}

// LockUnchanged locks an account against a change of its password and factors until the transaction
// ends, and returns it as it is now. isSame is false if the password changed since.
func LockUnchanged(ctx context.Context, tx pg.Tx, a Stored) (locked Stored, isSame bool, err error) {
	if _, err := tx.Exec(ctx, `SELECT FROM accounts WHERE account_id = $1 FOR NO KEY UPDATE`, a.ID); err != nil {
		return Stored{}, false, fmt.Errorf("lock account %s: %w", a.ID, err)
	}
	locked, err = LoadByID(ctx, tx, a.ID)
	return locked, locked.PasswordHash == a.PasswordHash, err
}

// LockByID locks an account like LockUnchanged, and returns it.
func LockByID(ctx context.Context, tx pg.Tx, accountID string) (Stored, error) {
	locked, _, err := LockUnchanged(ctx, tx, Stored{Account: Account{ID: accountID}})
	return locked, err
}

// SetPassword replaces the password hash, unless it changed meanwhile: isSet is then false.
func SetPassword(ctx context.Context, tx pg.Tx, a Stored, hash string) (isSet bool, err error) {
	tag, err := tx.Exec(ctx, `UPDATE accounts SET password_hash = $3 WHERE account_id = $1 AND password_hash = $2`,
		a.ID, a.PasswordHash, hash)
	if err != nil {
		return false, fmt.Errorf("change the password of %s: %w", a.ID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// SetProfile changes the name and the time zone.
func SetProfile(ctx context.Context, tx pg.Tx, accountID, name, timeZone string) error {
	if _, err := tx.Exec(ctx, `UPDATE accounts SET name = $2, time_zone = $3 WHERE account_id = $1`,
		accountID, name, timeZone); err != nil {
		return fmt.Errorf("change the profile of %s: %w", accountID, err)
	}
	return nil
}

// AdoptTimeZone sets the time zone of an account that has none; isSet is false if it has one.
func AdoptTimeZone(ctx context.Context, tx pg.Tx, accountID, timeZone string) (isSet bool, err error) {
	tag, err := tx.Exec(ctx, `UPDATE accounts SET time_zone = $2 WHERE account_id = $1 AND time_zone = ''`,
		accountID, timeZone)
	if err != nil {
		return false, fmt.Errorf("set the time zone of %s: %w", accountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Restrict refuses acts of money and security until a time. It never shortens a restriction.
func Restrict(ctx context.Context, tx pg.Tx, accountID string, endsAt time.Time) error {
	if _, err := tx.Exec(ctx, `
		UPDATE accounts SET restricted_until = greatest(restricted_until, $2) WHERE account_id = $1`,
		accountID, endsAt); err != nil {
		return fmt.Errorf("restrict %s: %w", accountID, err)
	}
	return nil
}

// LoadFactors returns which factors an account has.
func LoadFactors(ctx context.Context, tx pg.Tx, accountID string) (Factors, error) {
	byAccount, err := LoadFactorsOf(ctx, tx, []string{accountID})
	return byAccount[accountID], err
}

// LoadFactorsOf returns which factors accounts have, by the account's id.
func LoadFactorsOf(ctx context.Context, tx pg.Tx, accountIDs []string) (map[string]Factors, error) {
	found := map[string]Factors{}
	rows, err := tx.Query(ctx, `
		SELECT a.account_id, t.confirmed_at,
			(SELECT count(*) FROM account_recovery_codes r WHERE r.account_id = a.account_id AND r.used_at IS NULL)
		FROM accounts a
		LEFT JOIN account_totps t ON t.account_id = a.account_id AND t.confirmed_at IS NOT NULL
		WHERE a.account_id = ANY ($1)`, accountIDs)
	if err != nil {
		return nil, fmt.Errorf("read the factors of %d accounts: %w", len(accountIDs), err)
	}
	var accountID string
	var confirmedAt *time.Time
	var left int
	if _, err := pgx.ForEachRow(rows, []any{&accountID, &confirmedAt, &left}, func() error {
		f := Factors{HasTOTP: confirmedAt != nil, RecoveryCodesLeft: left}
		if confirmedAt != nil {
			f.TOTPSince = *confirmedAt
		}
		found[accountID] = f
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the factors of %d accounts: %w", len(accountIDs), err)
	}
	rows, err = tx.Query(ctx, `
		SELECT account_id, passkey_id, name, created_at, last_used_at FROM account_passkeys
		WHERE account_id = ANY ($1) ORDER BY created_at, passkey_id`, accountIDs)
	if err != nil {
		return nil, fmt.Errorf("read the passkeys of %d accounts: %w", len(accountIDs), err)
	}
	var k Passkey
	var used *time.Time
	if _, err := pgx.ForEachRow(rows, []any{&accountID, &k.ID, &k.Name, &k.CreatedAt, &used}, func() error {
		k.LastUsedAt = time.Time{}
		if used != nil {
			k.LastUsedAt = *used
		}
		f := found[accountID]
		f.Passkeys = append(f.Passkeys, k)
		found[accountID] = f
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the passkeys of %d accounts: %w", len(accountIDs), err)
	}
	return found, nil
}
