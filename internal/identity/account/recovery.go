package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	recoveryCodes     = 10
	recoveryCodeBytes = 10 // 80 bits, which no attacker guesses, so SHA-256 is hash enough
	recoveryGroup     = 4  // characters between hyphens
)

// crockford is base32 without letters that look like digits.
var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// MakeRecoveryCodes makes ten codes in place of those before. They are shown once. Rule SIGN-6.
func MakeRecoveryCodes(ctx context.Context, tx pg.Tx, accountID string) ([]seal.Secret, error) {
	codes := make([]seal.Secret, recoveryCodes)
	hashes := make([][]byte, recoveryCodes)
	for i := range codes {
		var b [recoveryCodeBytes]byte
		_, _ = rand.Read(b[:]) // never fails: the program ends when there is no randomness
		text := crockford.EncodeToString(b[:])
		var groups []string
		for len(text) > 0 {
			groups = append(groups, text[:recoveryGroup])
			text = text[recoveryGroup:]
		}
		codes[i] = seal.NewSecret(strings.Join(groups, "-"))
		hashes[i] = hashRecoveryCode(codes[i])
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM account_recovery_codes WHERE account_id = $1`, accountID)
	b.Queue(`
		INSERT INTO account_recovery_codes (account_id, hash, created_at) SELECT $1, h, $3 FROM unnest($2::bytea[]) h`,
		accountID, hashes, tx.Now)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("store the recovery codes of %s: %w", accountID, err)
	}
	return codes, nil
}

// UseRecoveryCode reports whether a code is right and unused, and uses it up. Rule SIGN-6.
func UseRecoveryCode(ctx context.Context, tx pg.Tx, accountID string, code seal.Secret) (isRight bool, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE account_recovery_codes SET used_at = $3 WHERE account_id = $1 AND hash = $2 AND used_at IS NULL`,
		accountID, hashRecoveryCode(code), tx.Now)
	if err != nil {
		return false, fmt.Errorf("use up a recovery code of %s: %w", accountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// hashRecoveryCode hashes a code as people write it: in any case, with or without hyphens, and with
// the letters that look like digits.
func hashRecoveryCode(code seal.Secret) []byte {
	text := code.Reveal()
	text = strings.ToLower(text[:min(len(text), 100)])
	text = strings.NewReplacer("-", "", " ", "", "\t", "", "\n", "", "\r", "", "o", "0", "i", "1", "l", "1").Replace(text)
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
