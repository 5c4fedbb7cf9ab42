package checkout

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	claimKeyBytes = 16 // 128 bits, which cannot be guessed
	claimDomain   = "coffer-refund-claim-1 "
)

// claimKeyPair is a key with which a payer claims a refund, and the hash that is stored in its place. The zero value is
// no key.
type claimKeyPair struct {
	text string
	hash []byte
}

func newClaimKey() (claimKeyPair, error) {
	secret := make([]byte, claimKeyBytes)
	if _, err := rand.Read(secret); err != nil {
		return claimKeyPair{}, fmt.Errorf("make the key of a refund: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(secret)
	return claimKeyPair{text: text, hash: claimHash(text)}, nil
}

// version returns the number of a refund's first key, or 0 without one.
func (k claimKeyPair) version() int {
	if k.hash == nil {
		return 0
	}
	return 1
}

func claimHash(key string) []byte {
	sum := sha256.Sum256([]byte(claimDomain + key))
	return sum[:]
}

// payer is the actor of what a payer does with the key of a refund.
var payer = audit.System("payer")

// RefundClaim says where a refund is to go, by the holder of its key.
type RefundClaim struct {
	RefundID, Key, Address string
	IsAddressProven        bool // the page checked a signature of the address

	version int64 // of the refund whose address was checked; 0: any
}

// newClaimRefused returns the one answer to a key that is wrong or old, and to a refund that does not exist.
func newClaimRefused() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"There is no refund with this key.").
		WithAdvice("Open the whole address that the shop gave you. A new one makes the one before it worthless.")
}

// ownerOfClaim returns the organization of a refund, if the key is its present one. A wrong key, an old one and a
// refund that does not exist have the same answer, after the same look-up and the same comparison.
func (s *Service) ownerOfClaim(ctx context.Context, refundID, key string) (orgID string, err error) {
	stored := make([]byte, sha256.Size) // the hash of no key
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT org_id, coalesce(key_hash, $2) FROM refunds WHERE refund_id = $1`, refundID, stored).
			Scan(&orgID, &stored)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // Both ways end with the same commit, so no clock tells them apart.
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look for the organization of a refund: %w", err)
	}
	if !hmac.Equal(stored, claimHash(key)) || !id.IsValid(refundPrefix, refundID) {
		return "", newClaimRefused()
	}
	return orgID, nil
}

// ClaimableRefund returns a refund to the holder of its key. Error: fault NOT_FOUND. Rule CO-87.
func (s *Service) ClaimableRefund(ctx context.Context, refundID, key string) (Refund, error) {
	orgID, err := s.ownerOfClaim(ctx, refundID, key)
	if err != nil {
		return Refund{}, err
	}
	return s.RefundByID(ctx, orgID, refundID)
}

// ClaimRefund says where a refund goes, with its key. It accepts one address; the same one again changes nothing. Until
// an address is paid, an attempt that ended without paying lets the key give another one. Errors: faults NOT_FOUND,
// INVALID_ADDRESS, INVALID_STATE, and DESTINATION_NOT_ALLOWED with an AddressRefusal. Rules CO-87, CO-88 and CO-97.
func (s *Service) ClaimRefund(ctx context.Context, claim RefundClaim) (refund Refund, err error) {
	orgID, err := s.ownerOfClaim(ctx, claim.RefundID, claim.Key)
	if err != nil {
		return refund, err
	}
	if !claim.IsAddressProven {
		if claim.version, err = s.refuseUnproven(ctx, orgID, claim); err != nil {
			return refund, err
		}
	}
	hash := claimHash(claim.Key)
	err = s.giveAddress(ctx, orgID, claim, payer, func(ctx context.Context, tx pg.Tx) error {
		var isPresent bool // the key may have been replaced since
		err := tx.QueryRow(ctx, `SELECT key_hash IS NOT DISTINCT FROM $2 FROM refunds WHERE refund_id = $1`,
			claim.RefundID, hash).Scan(&isPresent)
		if err != nil {
			return fmt.Errorf("compare the key of refund %s: %w", claim.RefundID, err)
		}
		if !isPresent {
			return newClaimRefused()
		}
		return nil
	})
	if err != nil {
		return Refund{}, err
	}
	failpoint.Hit("C12")
	return s.RefundByID(ctx, orgID, claim.RefundID)
}

// refuseUnproven refuses an address that a payer typed and that an exchange is known to have, before the transaction of
// the claim: it may ask providers. It returns the version of the refund for which the address was checked.
func (s *Service) refuseUnproven(ctx context.Context, orgID string, claim RefundClaim) (version int64, err error) {
	r, err := s.RefundByID(ctx, orgID, claim.RefundID)
	if err != nil || r.Status != RefundAwaitingAddress {
		return r.Version, asWritten(err) // The transaction says which address it has.
	}
	address, err := s.parseRefundAddress(r.Mint, claim.Address)
	if err != nil {
		return 0, err
	}
	return r.Version, s.refuseExchange(ctx, r, address)
}

// GiveRefundAddress says where a refund goes, by the organization. Errors: faults NOT_FOUND, INVALID_ADDRESS,
// INVALID_STATE.
func (s *Service) GiveRefundAddress(
	ctx context.Context, orgID, refundID, address string, requester audit.Actor,
) (Refund, error) {
	err := s.giveAddress(ctx, orgID, RefundClaim{RefundID: refundID, Address: address}, requester,
		func(context.Context, pg.Tx) error { return nil })
	if err != nil {
		return Refund{}, err
	}
	return s.RefundByID(ctx, orgID, refundID)
}

// giveAddress begins the next attempt of a refund that waits for an address. check is called with the row locked.
func (s *Service) giveAddress(
	ctx context.Context, orgID string, claim RefundClaim, requester audit.Actor,
	check func(ctx context.Context, tx pg.Tx) error,
) error {
	if !id.IsValid(refundPrefix, claim.RefundID) {
		return asWritten(newRefundGone())
	}
	return asWritten(s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefund(ctx, tx, claim.RefundID)
		if err != nil {
			return err
		}
		if err := check(ctx, tx); err != nil {
			return err
		}
		address, err := s.parseRefundAddress(r.Mint, claim.Address)
		if err != nil {
			return err
		}
		switch {
		case r.Status != RefundAwaitingAddress && r.ToAddress == address:
			return nil
		case r.Status != RefundAwaitingAddress:
			return newRefundState(r)
		case !tx.Now.Before(r.ExpiresAt):
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The time of this refund is over.").WithAdvice("Ask the shop for another one.").
				WithDetail("status", string(RefundExpired))
		case claim.version != 0 && r.Version != claim.version:
			// An attempt ended meanwhile, so the address was not checked, or its signature is of before.
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"This refund has just changed.").WithAdvice("Load the page again, and give the address anew.").
				WithExtra("currentStatus", string(r.Status))
		}
		if err := checkJustified(ctx, tx, r); err != nil {
			return err
		}
		err = setRefund(ctx, tx, r, RefundRequested,
			`to_address = $5, address_proven = $6, attempt = attempt + 1, look_at = $4`, address, claim.IsAddressProven)
		if err != nil {
			return err
		}
		failpoint.HitBeforeCommit("C12")
		return audit.Record(ctx, tx, newRefundEntry(r, requester, "addressed", map[string]any{
			"toAddress": address, "proven": claim.IsAddressProven, "attempt": r.Attempt + 1,
		}))
	}))
}

// ReissueRefundKey gives a refund that waits for an address another key, and makes the one before worthless. The key is
// returned once. Errors: faults NOT_FOUND, INVALID_STATE. Rule CO-87.
func (s *Service) ReissueRefundKey(
	ctx context.Context, orgID, refundID string, requester audit.Actor,
) (refund Refund, claimKey string, err error) {
	key, err := newClaimKey()
	if err != nil {
		return refund, "", err
	}
	if !id.IsValid(refundPrefix, refundID) {
		return refund, "", asWritten(newRefundGone())
	}
	err = asWritten(s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefundAlone(ctx, tx, refundID)
		if err != nil {
			return err
		}
		if r.Status != RefundAwaitingAddress || !tx.Now.Before(r.ExpiresAt) {
			return newRefundState(r)
		}
		err = setRefund(ctx, tx, r, r.Status, `key_hash = $5, key_version = key_version + 1`, key.hash)
		if err != nil {
			return err
		}
		if err := audit.Record(ctx, tx, newRefundEntry(r, requester, "key_replaced", nil)); err != nil {
			return err
		}
		refund, err = loadRefund(ctx, tx, `r.refund_id = $1`, refundID)
		return err
	}))
	if err != nil {
		return Refund{}, "", err
	}
	return refund, key.text, nil
}
