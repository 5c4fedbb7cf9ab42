package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	totpPeriod      = 30 // seconds
	totpSkew        = 1  // steps either way
	totpSecretBytes = 20
	// totpWaits is how long a secret waits for its first code.
	totpWaits = 30 * time.Minute
)

var base32NoPadding = base32.StdEncoding.WithPadding(base32.NoPadding)

// TOTPSecret is a secret for an authenticator app.
type TOTPSecret struct {
	Secret seal.Secret // base32
	URL    seal.Secret // otpauth://…
}

// totpBinding binds a sealed secret to its account and its row.
func totpBinding(accountID, totpID string) seal.Binding {
	return seal.Binding{Kind: "totp_secret", ID: accountID + " " + totpID}
}

// StartTOTP stores a new secret, in place of one that waits for its first code.
func StartTOTP(ctx context.Context, tx pg.Tx, keys *seal.Keyset, a Account, issuer string) (TOTPSecret, error) {
	secret := make([]byte, totpSecretBytes)
	_, _ = rand.Read(secret) // never fails: the program ends when there is no randomness
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: issuer, AccountName: a.Email, Period: totpPeriod, Secret: secret, Digits: otp.DigitsSix,
		Algorithm: otp.AlgorithmSHA1,
	})
	if err != nil {
		return TOTPSecret{}, fmt.Errorf("make a TOTP secret for %s: %w", a.ID, err)
	}
	totpID := id.New("tot", tx.Now)
	sealed, err := keys.Seal(secret, totpBinding(a.ID, totpID))
	if err != nil {
		return TOTPSecret{}, err
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM account_totps WHERE account_id = $1 AND confirmed_at IS NULL`, a.ID)
	b.Queue(`INSERT INTO account_totps (totp_id, account_id, sealed, created_at) VALUES ($1, $2, $3, $4)`,
		totpID, a.ID, sealed, tx.Now)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return TOTPSecret{}, fmt.Errorf("store a TOTP secret of %s: %w", a.ID, err)
	}
	return TOTPSecret{seal.NewSecret(key.Secret()), seal.NewSecret(key.URL())}, nil
}

// ConfirmTOTP makes the waiting secret count if the code is one of it, and removes the one before. The
// code is used up.
func ConfirmTOTP(
	ctx context.Context, tx pg.Tx, keys *seal.Keyset, accountID string, code seal.Secret,
) (isRight bool, err error) {
	waiting, exists, err := loadTOTP(ctx, tx, accountID, false)
	if err != nil || !exists || !tx.Now.Before(waiting.createdAt.Add(totpWaits)) {
		return false, err
	}
	step, err := waiting.findStep(keys, tx.Now, code)
	if err != nil || step == 0 {
		return false, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM account_totps WHERE account_id = $1 AND confirmed_at IS NOT NULL`,
		accountID); err != nil {
		return false, fmt.Errorf("remove the TOTP secret of %s: %w", accountID, err)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE account_totps SET confirmed_at = $2, last_step = $3 WHERE totp_id = $1 AND confirmed_at IS NULL`,
		waiting.id, tx.Now, step)
	if err != nil {
		return false, fmt.Errorf("confirm the TOTP secret of %s: %w", accountID, err)
	}
	if tag.RowsAffected() == 0 {
		return false, errors.New("the TOTP secret was confirmed or replaced at the same time")
	}
	return true, nil
}

// UseTOTP reports whether a code is right, and uses it up: the last used step moves by
// compare-and-swap, so of two processes one gets true. Rule SIGN-4.
func UseTOTP(
	ctx context.Context, tx pg.Tx, keys *seal.Keyset, accountID string, code seal.Secret,
) (isRight bool, err error) {
	live, exists, err := loadTOTP(ctx, tx, accountID, true)
	if err != nil || !exists {
		return false, err
	}
	step, err := live.findStep(keys, tx.Now, code)
	if err != nil || step == 0 {
		return false, err
	}
	tag, err := tx.Exec(ctx, `UPDATE account_totps SET last_step = $2 WHERE totp_id = $1 AND last_step < $2`, live.id, step)
	if err != nil {
		return false, fmt.Errorf("use up a code of %s: %w", accountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// RemoveTOTP removes the secrets of an account, the waiting one included.
func RemoveTOTP(ctx context.Context, tx pg.Tx, accountID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM account_totps WHERE account_id = $1`, accountID); err != nil {
		return fmt.Errorf("remove the TOTP secret of %s: %w", accountID, err)
	}
	return nil
}

type storedTOTP struct {
	id, accountID string
	sealed        []byte
	createdAt     time.Time
	lastStep      int64
}

func loadTOTP(
	ctx context.Context, tx pg.Tx, accountID string, isConfirmed bool,
) (stored storedTOTP, exists bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT totp_id, account_id, sealed, created_at, last_step FROM account_totps
		WHERE account_id = $1 AND (confirmed_at IS NOT NULL) = $2`, accountID, isConfirmed).
		Scan(&stored.id, &stored.accountID, &stored.sealed, &stored.createdAt, &stored.lastStep)
	if errors.Is(err, pgx.ErrNoRows) {
		return storedTOTP{}, false, nil
	}
	if err != nil {
		return storedTOTP{}, false, fmt.Errorf("read the TOTP secret of %s: %w", accountID, err)
	}
	return stored, true, nil
}

// findStep returns the first unused step whose code it is, or 0. It computes all codes, so that its
// time does not say which one was near.
func (t storedTOTP) findStep(keys *seal.Keyset, now time.Time, code seal.Secret) (int64, error) {
	secret, err := keys.Unseal(t.sealed, totpBinding(t.accountID, t.id))
	if err != nil {
		return 0, err
	}
	encoded := base32NoPadding.EncodeToString(secret)
	presented := []byte(strings.ReplaceAll(strings.TrimSpace(code.Reveal()), " ", ""))
	present, found := now.Unix()/totpPeriod, int64(0)
	for step := present + totpSkew; step >= present-totpSkew; step-- {
		want, err := hotp.GenerateCodeCustom(encoded, uint64(step), hotp.ValidateOpts{
			Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1,
		})
		if err != nil {
			return 0, fmt.Errorf("compute a TOTP code of %s: %w", t.accountID, err)
		}
		if subtle.ConstantTimeCompare([]byte(want), presented) == 1 && step > t.lastStep {
			found = step
		}
	}
	return found, nil
}
