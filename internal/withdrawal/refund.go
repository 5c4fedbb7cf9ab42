package withdrawal

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
)

// RefundRequest asks for the payment of a refund of a checkout, out of what is owed to payers.
type RefundRequest struct {
	RefundID   string
	CheckoutID string
	Attempt    int // counts the addresses of the refund
	MintID     int
	Amount     money.Amount // what is owed; with DeductsFee the network fee comes out of it
	ToAddress  string
	DeductsFee bool // of a native coin
	// Requester asked for the refund, so this person does not approve its payment.
	Requester audit.Actor
}

// key returns the idempotency key of a refund's payment to one address. It has a space, so no caller can take it. An
// attempt has one withdrawal, in every process and in a restored database: the signer admits one intent with a key.
func (r RefundRequest) key() string { return "refund " + r.RefundID + ":" + strconv.Itoa(r.Attempt) }

// withdrawalID returns the id of the payment. It follows from the attempt, as the key does.
func (r RefundRequest) withdrawalID(org string) string { return id.Derive("wd", org, r.key()) }

// signed returns what the signer is told of the refund, or nil for no refund.
func (r *RefundRequest) signed() *signer.RefundOf {
	if r == nil {
		return nil
	}
	return &signer.RefundOf{RefundID: r.RefundID, CheckoutID: r.CheckoutID}
}

// refundID returns the refund that a withdrawal pays, or "".
func (r storedWithdrawal) refundID() string {
	if r.refund == nil {
		return ""
	}
	return r.refund.RefundID
}

// RequestRefund accepts the payment of a refund, with the gates of a withdrawal of the organization's own money, except
// for the whitelist: it goes to the payer. An attempt that is known has its withdrawal, which may be one that screening
// blocked. Errors: the faults of RequestOrganization. Rules CO-84 and CO-85.
func (s *Service) RequestRefund(ctx context.Context, org string, r RefundRequest) (w Withdrawal, err error) {
	key := r.key()
	w, _, err = s.Request(ctx, org, Request{
		MintID: r.MintID, Amount: r.Amount.String(), ToAddress: r.ToAddress, IdempotencyKey: &key, Actor: r.Requester,
		owner: ledger.RefundOwner(), refund: &r,
	})
	return w, err
}

// parseRefund parses the request of a refund's payment.
func parseRefund(r Request, mints mint.Catalogue, chains chain.Chains) (p parsed, err error) {
	p = parsed{owner: r.owner, isTotal: r.refund.DeductsFee}
	if p.mint, err = request.ParseMint(r.MintID, mints, fault.NothingHeld); err != nil {
		return p, err
	}
	if p.amount, err = request.ParseAmount(r.Amount, false, p.mint, fault.NothingHeld); err != nil {
		return p, err
	}
	p.deductsFee = r.refund.DeductsFee && p.mint.Kind == mint.Native
	if p.destination, p.chainRuns, err = parseAddress(r.ToAddress, p.mint, chains); err != nil {
		return p, err
	}
	p.digest = refundDigest(r.refund.RefundID, p.mint.ID, p.destination, p.amount)
	p.restorableDigest = p.digest
	return p, nil
}

// refundDigest hashes what makes the payment of a refund another one; the signer's journal knows all of it.
func refundDigest(refundID string, mintID int, address chain.Address, amount money.Amount) []byte {
	return request.Digest("coffer-refund-1", refundID, fmt.Sprint(mintID), string(address), amount.String())
}

// RestoredRefund is the payment of a refund as the signer's journal has it.
type RestoredRefund struct {
	OrgID, RefundID, KeyHash string
	MintID                   int
	ToAddress                chain.Address
	Amount, FeeDeducted      money.Amount
}

// RefundRestorer finds the refund of a payment that the database lacks, because it was restored from a backup.
type RefundRestorer interface {
	// RestoreRefund makes the refund wait for exactly this payment, and reports whether it does: its amount is owed
	// then. The database may lack the refund, or know that it ended: then the payment takes the balance of the
	// product.
	RestoreRefund(ctx context.Context, tx pg.Tx, r RestoredRefund) (isOwed bool, err error)
}

// RefundKeyHash returns the hash by which a journal knows the payment of an attempt.
func RefundKeyHash(refundID string, attempt int) string {
	key := RefundRequest{RefundID: refundID, Attempt: attempt}.key()
	return keyHash(&key)
}

// latestOfRefunds returns the payment of each refund that was admitted last. The ones before it ended without paying.
func latestOfRefunds(orders []dispatch.RestoredOrder) map[string]string {
	latest := map[string]dispatch.RestoredOrder{}
	for _, o := range orders {
		if o.Refund == nil {
			continue
		}
		if former, isKnown := latest[o.Refund.RefundID]; !isKnown || former.CreatedAt.Before(o.CreatedAt) {
			latest[o.Refund.RefundID] = o
		}
	}
	ids := map[string]string{}
	for refundID, o := range latest {
		ids[refundID] = o.ID
	}
	return ids
}
