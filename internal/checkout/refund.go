package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/request"
)

const (
	refundPrefix = "ref"
	// refundTime is how long a refund waits for the address of its payer.
	refundTime      = 30 * 24 * time.Hour
	addressBytesMax = 128
)

// RefundStatus says where a refund is.
type RefundStatus string

// The statuses of a refund.
const (
	RefundAwaitingAddress RefundStatus = "AWAITING_ADDRESS" // no one has said yet where it goes
	RefundRequested       RefundStatus = "REQUESTED"        // it has an address, and no payment yet
	RefundSent            RefundStatus = "SENT"             // a withdrawal pays it
	RefundCompleted       RefundStatus = "COMPLETED"        // the payment is final
	RefundCancelled       RefundStatus = "CANCELLED"        // the organization took it back
	RefundExpired         RefundStatus = "EXPIRED"          // no one claimed it in time
)

// RefundStatuses lists all statuses of a refund.
var RefundStatuses = []RefundStatus{
	RefundAwaitingAddress, RefundRequested, RefundSent, RefundCompleted, RefundCancelled, RefundExpired,
}

// isOpen reports whether the amount of a refund is still owed.
func (s RefundStatus) isOpen() bool {
	return s == RefundAwaitingAddress || s == RefundRequested || s == RefundSent
}

// RefundKind says how much a refund is meant to be.
type RefundKind string

// The kinds of a refund.
const (
	FullRefund     RefundKind = "FULL"     // everything that was credited in its mint and is not refunded
	OverpaidRefund RefundKind = "OVERPAID" // what was credited above the amount due
	AmountRefund   RefundKind = "AMOUNT"
)

// Who pays the network for a refund.
const (
	FeeOrganization = "ORGANIZATION" // the payer receives the amount
	FeeDeducted     = "DEDUCTED"     // of a native coin: the payer receives the amount less the fee
)

// FeeModes are the words of their field.
var FeeModes = []string{FeeOrganization, FeeDeducted}

// Refund is what is given back of one checkout in one mint, as its organization sees it.
type Refund struct {
	ID              string
	OrgID           string
	Version         int64 // counts the changes
	CheckoutID      string
	Mint            mint.Mint
	Amount          money.Amount
	Kind            RefundKind
	FeeMode         string
	Reason          *string // the organization's own words, which no payer sees
	Status          RefundStatus
	ToAddress       chain.Address // "" while it waits for one
	IsAddressProven bool          // the payer signed with the address
	IsClaimable     bool          // it has a key, so its payer may give the address
	Attempt         int           // counts the addresses
	WithdrawalID    string        // pays the present attempt; "" before
	Tx              chain.TxHash  // of that payment; "" before
	Problem         string        // why the last attempt paid nothing; "" if none ended so
	IdempotencyKey  string        // "" if the caller gave none
	Requester       audit.Actor
	Parts           []RefundPart
	Cause           outcome.Exception // for which a policy made it by itself; "": a person or a program asked for it

	CreatedAt, UpdatedAt, ExpiresAt time.Time
	CompletedAt                     *time.Time

	digest []byte
}

// RefundPart is what a refund takes of a payment.
type RefundPart struct {
	DepositID string
	Amount    money.Amount
}

// RefundRequest asks for a refund of a checkout.
type RefundRequest struct {
	CheckoutID string
	// Kind is FullRefund or OverpaidRefund; "" with Amount, in atomic units.
	Kind           RefundKind
	Amount         *string
	MintID         *int    // nil: the only mint that can be refunded
	ToAddress      *string // nil: the payer gives it, with a key
	FeeMode        string  // "" means FeeOrganization
	Reason         *string
	IdempotencyKey *string // nil: every call makes another refund
	Actor          audit.Actor

	depositID string // the only payment of which it takes; "": of all
}

// takesOf reports whether the refund may take of a payment.
func (r RefundRequest) takesOf(p Payment) bool {
	return r.depositID == "" || r.depositID == p.DepositID
}

// digest hashes every parameter that makes a request another refund.
func (r RefundRequest) digest() []byte {
	parts := []string{"coffer-checkout-refund-1", r.CheckoutID, string(r.Kind), r.feeMode()}
	if r.Amount != nil {
		parts = append(parts, "amount", *r.Amount)
	}
	if r.MintID != nil {
		parts = append(parts, "mintId", strconv.Itoa(*r.MintID))
	}
	if r.ToAddress != nil {
		parts = append(parts, "toAddress", *r.ToAddress)
	}
	if r.depositID != "" {
		parts = append(parts, "depositId", r.depositID)
	}
	return request.Digest(parts...)
}

func (r RefundRequest) feeMode() string {
	if r.FeeMode == "" {
		return FeeOrganization
	}
	return r.FeeMode
}

// ClaimPage returns the address of the page on which a payer claims a refund, with its key behind #; "" without a key,
// and without pages. Rule CO-91.
func (s *Service) ClaimPage(refundID, claimKey string) string {
	if s.ClaimURL == nil || claimKey == "" {
		return ""
	}
	return s.ClaimURL(refundID, claimKey)
}

// Differs reports whether a request has other parameters than the one that made the refund.
func (r Refund) Differs(request RefundRequest) bool {
	return string(r.digest) != string(request.digest())
}

// resourceKindRefund names refunds in the audit log.
const resourceKindRefund = "REFUND"

func newRefundEntry(r Refund, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: r.OrgID, Actor: requester, Action: "refund." + verb, ResourceKind: resourceKindRefund, ResourceID: r.ID,
		Detail: detail,
	}
}

// RequestRefund makes a refund: its amount leaves the balance of the product and is owed to the payer. Without an
// address it returns a key with which the payer claims it; the key is stored nowhere and is returned once.
// isReplayed is true when the idempotency key was known; r is then the refund as it is now, without its claim key.
// After a fault none was written. Errors: faults NOT_FOUND, ORGANIZATION_FROZEN, INVALID_REQUEST, INVALID_AMOUNT,
// INVALID_ADDRESS, AMOUNT_BELOW_MINIMUM, REFUND_EXCEEDS_PAYMENT, INSUFFICIENT_BALANCE, WITHDRAWALS_SUSPENDED. Rules
// CO-80, CO-81 and CO-82.
func (s *Service) RequestRefund(
	ctx context.Context, orgID string, r RefundRequest,
) (refund Refund, claimKey string, isReplayed bool, err error) {
	if r.IdempotencyKey != nil {
		if !request.IsKey(*r.IdempotencyKey) {
			return refund, "", false, refuse("idempotencyKey",
				"idempotencyKey has to be 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
				WithAdvice("Send one key for each refund that you intend.")
		}
		if refund, isReplayed, err = s.FindRefundByKey(ctx, orgID, *r.IdempotencyKey); err != nil || isReplayed {
			return refund, "", isReplayed, err
		}
	}
	if err := r.checkForm(); err != nil {
		return refund, "", false, err
	}
	claim, err := newClaimKey()
	if err != nil {
		return refund, "", false, err
	}
	if r.ToAddress != nil {
		claim = claimKeyPair{}
	}
	refundID := s.newID(refundPrefix)
	err = s.inCheckout(ctx, orgID, r.CheckoutID, func(ctx context.Context, tx pg.Tx, c Checkout) error {
		// No lock keeps a freeze out that begins now: the payment looks again, and nothing leaves before it.
		active, err := freeze.Active(ctx, tx, freeze.Target{OrgID: orgID})
		if err != nil {
			return err
		}
		if refusal := policy.CheckFrozen(active, "", fault.NothingWritten); refusal != nil {
			return refusal
		}
		if refund, err = s.planRefund(c, r); err != nil {
			return err
		}
		refund.ID, refund.CreatedAt, refund.ExpiresAt = refundID, tx.Now, tx.Now.Add(refundTime)
		if err := writeRefund(ctx, tx, refund, claim); err != nil {
			return err
		}
		// A read after the commit could fail, and its error would say that nothing was done.
		refund, err = loadRefund(ctx, tx, `r.refund_id = $1`, refundID)
		return err
	})
	switch {
	case err == nil:
		failpoint.Hit("C11")
		return refund, claim.text, false, nil
	case errors.Is(err, ledger.ErrOverdraft):
		return Refund{}, "", false, fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingWritten,
			"The balance of CHECKOUT in %s on %s is smaller than the refund.", refund.Mint.Symbol, refund.Mint.Chain).
			WithStep(fault.LookAtBalances).WithParam("amount")
	case pg.ViolatesConstraint(err, "refunds_key_unique"):
		refund, isReplayed, err = s.FindRefundByKey(ctx, orgID, *r.IdempotencyKey) // another request was first
		return refund, "", isReplayed, err
	}
	return Refund{}, "", false, fmt.Errorf("refund of checkout %s: %w", r.CheckoutID, err)
}

// checkForm checks what needs no database.
func (r RefundRequest) checkForm() error {
	switch {
	case (r.Amount != nil) == (r.Kind == FullRefund || r.Kind == OverpaidRefund),
		r.Kind != "" && r.Kind != AmountRefund && r.Kind != FullRefund && r.Kind != OverpaidRefund:
		return refuse("amount", "A refund is of an amount in atomic units, FULL or OVERPAID.")
	case !slices.Contains(FeeModes, r.feeMode()):
		return refuse("feeMode", "feeMode has to be ORGANIZATION or DEDUCTED.").
			WithAdvice("Leave feeMode out or send one of them.")
	}
	if r.Reason != nil {
		if problem := describeTextProblem(*r.Reason, reasonRunesMax, true); problem != "" {
			return refuse("reason", "reason %s.", problem)
		}
	}
	return nil
}

// planRefund decides what a refund takes of which payments of a locked checkout. Rules CO-80 and CO-81.
func (s *Service) planRefund(c Checkout, r RefundRequest) (Refund, error) {
	m, err := c.refundMint(r)
	if err != nil {
		return Refund{}, err
	}
	refund := Refund{
		OrgID: c.OrgID, CheckoutID: c.ID, Version: 1, Mint: m, Kind: r.Kind, FeeMode: r.feeMode(), Reason: r.Reason,
		Status: RefundAwaitingAddress, Requester: r.Actor, digest: r.digest(),
	}
	if r.IdempotencyKey != nil {
		refund.IdempotencyKey = *r.IdempotencyKey
	}
	if refund.FeeMode == FeeDeducted && m.Kind != mint.Native {
		return refund, refuse("feeMode",
			"The network takes its fee in the native coin, so it cannot be deducted from %s.", m.Symbol).
			WithAdvice("Use ORGANIZATION, which bills the fee to your organization.")
	}
	payments := slices.DeleteFunc(c.refundable(m.ID), func(p Payment) bool { return !r.takesOf(p) })
	available := sumAvailable(payments)
	wanted := available
	switch {
	case r.Amount != nil:
		refund.Kind = AmountRefund
		if wanted, err = request.ParseAmount(*r.Amount, false, m, fault.NothingWritten); err != nil {
			return refund, err
		}
	case r.Kind == OverpaidRefund:
		refund.Parts, wanted = c.takeSurplus(payments)
	}
	if wanted.IsZero() || available.Less(wanted) {
		reason := fmt.Sprintf("Of what was paid in %s, %s atomic units are credited and not refunded yet.", m.Symbol,
			available)
		if r.Kind == OverpaidRefund {
			reason = fmt.Sprintf("No more than the amount due is credited in %s, without what is refunded.", m.Symbol)
		}
		return refund, fault.New(fault.Unprocessable, fault.RefundExceedsPayment, fault.NothingWritten, "%s", reason).
			WithAdvice("Refund at most what is left.").WithParam("amount").
			WithDetail("available", available.String())
	}
	if wanted.Less(m.MinWithdraw) {
		return refund, fault.New(fault.Invalid, fault.AmountBelowMinimum, fault.NothingWritten,
			"The smallest payment of %s is %s atomic units, and the refund would be %s.", m.Symbol, m.MinWithdraw,
			wanted).
			WithParam("amount").WithDetail("minWithdrawAmount", m.MinWithdraw.String())
	}
	refund.Amount = wanted
	if refund.Parts == nil {
		refund.Parts = take(payments, wanted)
	}
	if r.ToAddress != nil {
		if refund.ToAddress, err = s.parseRefundAddress(m, *r.ToAddress); err != nil {
			return refund, err
		}
		refund.Status, refund.Attempt = RefundRequested, 1
	}
	return refund, nil
}

// available returns what of a payment is credited and not refunded.
func (p Payment) available() money.Amount {
	if p.Status != outcome.PaymentCredited {
		return money.Zero
	}
	return money.SubOrZero(money.SubOrZero(p.Amount, p.Refunding), p.Refunded)
}

// refundable returns the payments in a mint of which something can be refunded, the newest first.
func (c Checkout) refundable(mintID int) (payments []Payment) {
	for _, p := range c.Payments {
		if p.Mint != nil && p.Mint.ID == mintID && !p.available().IsZero() {
			payments = append(payments, p)
		}
	}
	slices.SortStableFunc(payments, func(a, b Payment) int { return b.PaidAt().Compare(a.PaidAt()) })
	return payments
}

// refundMint returns the mint of a refund: the one that the request names, or the only one that can be refunded.
func (c Checkout) refundMint(r RefundRequest) (m mint.Mint, err error) {
	found := map[int]mint.Mint{}
	for _, p := range c.Payments {
		if p.Mint != nil && !p.available().IsZero() && r.takesOf(p) {
			found[p.Mint.ID] = *p.Mint
		}
	}
	switch {
	case r.MintID != nil:
		for _, p := range c.Payments {
			if p.Mint != nil && p.Mint.ID == *r.MintID {
				return *p.Mint, nil
			}
		}
		return m, refuse("mintId", "Nothing was paid in mint %d.", *r.MintID).
			WithAdvice("A refund is in the coin and on the network of the payment.")
	case len(found) > 1:
		return m, refuse("mintId", "This checkout was paid in several coins.").
			WithAdvice("Say with mintId which one is refunded. A refund is in one coin.")
	}
	for _, m := range found {
		return m, nil
	}
	return m, fault.New(fault.Unprocessable, fault.RefundExceedsPayment, fault.NothingWritten,
		"Nothing of this checkout is credited and not refunded yet.").WithParam("amount").
		WithDetail("available", "0")
}

// Leftover is what can still be refunded of a checkout in one mint.
type Leftover struct {
	Mint   mint.Mint
	Amount money.Amount
}

// Refundable returns what can still be refunded, in the order of the newest payments.
func (c Checkout) Refundable() (left []Leftover) {
	for _, group := range c.groupByMint("", takeAll(c.newestAvailable(), func(Payment) bool { return true })) {
		left = append(left, Leftover{group.mint, group.amount})
	}
	return left
}

func sumAvailable(payments []Payment) (sum money.Amount) {
	for _, p := range payments {
		added, err := sum.Add(p.available())
		if err != nil {
			return sum // more than any amount: the rest waits for another refund
		}
		sum = added
	}
	return sum
}

// take takes an amount of payments, the first ones first.
func take(payments []Payment, wanted money.Amount) (parts []RefundPart) {
	for _, p := range payments {
		part := p.available()
		if wanted.Less(part) {
			part = wanted
		}
		if part.IsZero() {
			break
		}
		parts = append(parts, RefundPart{p.DepositID, part})
		wanted = money.SubOrZero(wanted, part)
	}
	return parts
}

// takeSurplus takes what was credited above the amount due and is not refunded, at the price of each payment, the
// newest first. A part is rounded down, so the checkout stays paid.
func (c Checkout) takeSurplus(payments []Payment) (parts []RefundPart, sum money.Amount) {
	surplus := c.Surplus()
	for _, p := range c.Payments {
		if p.Counts && p.Counted != nil && p.Status == outcome.PaymentCredited {
			surplus = pricing.SubOrZero(surplus, pricing.Worth(p.Refunding, p.Amount, *p.Counted))
			surplus = pricing.SubOrZero(surplus, pricing.Worth(p.Refunded, p.Amount, *p.Counted))
		}
	}
	for _, p := range payments {
		if !p.Counts || p.Counted == nil || surplus.IsZero() {
			continue
		}
		part := pricing.PartOf(p.Amount, *p.Counted, surplus)
		if p.available().Less(part) {
			part = p.available()
		}
		added, err := sum.Add(part)
		if err != nil || part.IsZero() {
			continue
		}
		parts, sum = append(parts, RefundPart{p.DepositID, part}), added
		surplus = pricing.SubOrZero(surplus, pricing.Worth(part, p.Amount, *p.Counted))
	}
	return parts, sum
}

// isRefunded reports whether everything that was credited was given back.
func (c Checkout) isRefunded() bool {
	isPaid := false
	for _, p := range c.Payments {
		if p.Status != outcome.PaymentCredited {
			continue
		}
		if p.Refunded != p.Amount {
			return false
		}
		isPaid = true
	}
	return isPaid
}

// parseRefundAddress returns the canonical form of an address. Whether it may be paid is decided with the payment.
func (s *Service) parseRefundAddress(m mint.Mint, text string) (chain.Address, error) {
	newInvalid := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingWritten, format, args...).
			WithParam("toAddress")
	}
	text = strings.TrimSpace(text)
	codec := s.Chains.AddressCodec(m.Chain.Family())
	if _, isRunning := s.Chains[m.Chain]; !isRunning || codec == nil {
		return "", fault.New(fault.Unprocessable, fault.WithdrawalsSuspended, fault.NothingWritten,
			"%s does not run on this installation.", m.Chain)
	}
	if len(text) > addressBytesMax {
		return "", newInvalid("An address may have at most %d characters.", addressBytesMax)
	}
	address, err := codec.Parse(text)
	if err != nil {
		return "", newInvalid("This is not an address on %s: %v.", m.Chain, err)
	}
	return address, nil
}

// writeRefund writes a refund: the payments, the row with its parts, the posting and the audit row. The checkout is
// locked.
func writeRefund(ctx context.Context, tx pg.Tx, r Refund, claim claimKeyPair) error {
	if err := noteParts(ctx, tx, r, "refunding = refunding + $2::numeric", "AND status = 'CREDITED'"); err != nil {
		return err
	}
	lookAt := r.ExpiresAt
	if r.Status == RefundRequested {
		lookAt = tx.Now
	}
	var key, hash *string
	if r.IdempotencyKey != "" {
		key, hash = &r.IdempotencyKey, new(keyHash(r.IdempotencyKey))
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO refunds (refund_id, org_id, version, checkout_id, mint_id, amount, kind, fee_mode, reason,
			idempotency_key, idempotency_key_hash, request_digest, requester_kind, requester_id, created_at, expires_at,
			status, to_address, attempt, key_hash, key_version, look_at, updated_at)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, nullif($17, ''), $18, $19,
			$20, $21, $14)`,
		r.ID, r.OrgID, r.CheckoutID, r.Mint.ID, r.Amount, r.Kind, r.FeeMode, r.Reason, key, hash, r.digest,
		r.Requester.Kind, r.Requester.ID, tx.Now, r.ExpiresAt, r.Status, r.ToAddress, r.Attempt, claim.hash,
		claim.version(), lookAt)
	if err != nil {
		return fmt.Errorf("insert refund %s: %w", r.ID, err)
	}
	for _, part := range r.Parts {
		_, err := tx.Exec(ctx,
			`INSERT INTO refund_parts (refund_id, deposit_id, org_id, amount) VALUES ($1, $2, $3, $4)`,
			r.ID, part.DepositID, r.OrgID, part.Amount)
		if err != nil {
			return fmt.Errorf("insert the part of payment %s in refund %s: %w", part.DepositID, r.ID, err)
		}
	}
	if r.Cause != "" {
		_, err := tx.Exec(ctx, `
			INSERT INTO automatic_refunds (checkout_id, mint_id, cause, org_id, refund_id) VALUES ($1, $2, $3, $4, $5)`,
			r.CheckoutID, r.Mint.ID, r.Cause, r.OrgID, r.ID)
		if err != nil {
			return fmt.Errorf("insert the cause of refund %s: %w", r.ID, err)
		}
	}
	owner, product := ledger.RefundOwner(), ledger.ProductOwner(ledger.CheckoutProduct)
	err = ledger.Post(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.RefundHold, ID: r.ID},
		Legs: []ledger.Leg{{
			Debit: product.SpendingAccount(r.OrgID, r.Mint.ID), Credit: owner.SpendingAccount(r.OrgID, r.Mint.ID),
			Amount: r.Amount,
		}},
	})
	if err != nil {
		return fmt.Errorf("hold for refund %s: %w", r.ID, err)
	}
	failpoint.HitBeforeCommit("C11")
	return audit.Record(ctx, tx, newRefundEntry(r, r.Requester, "requested", map[string]any{
		"checkout": r.CheckoutID, "mint": r.Mint.ID, "amount": r.Amount, "kind": r.Kind, "toAddress": r.ToAddress,
		"reason": r.Reason, "cause": r.Cause,
	}))
}

// noteParts notes on payments what a refund takes of them, in the order of their ids.
func noteParts(ctx context.Context, tx pg.Tx, r Refund, set, condition string) error {
	parts := slices.SortedFunc(slices.Values(r.Parts), func(a, b RefundPart) int {
		return strings.Compare(a.DepositID, b.DepositID)
	})
	for _, part := range parts {
		tag, err := tx.Exec(ctx, `UPDATE checkout_payments SET `+set+` WHERE deposit_id = $1 `+condition,
			part.DepositID, part.Amount)
		if err == nil && tag.RowsAffected() != 1 {
			err = errLostRace
		}
		if err != nil {
			return fmt.Errorf("note what refund %s takes of payment %s: %w", r.ID, part.DepositID, err)
		}
	}
	return nil
}

// CancelRefund takes a refund back that has no payment: its amount returns to the balance of the product, and its
// key is worth nothing. A cancelled one stays as it is. Errors: faults NOT_FOUND, INVALID_STATE. Rule CO-83.
func (s *Service) CancelRefund(
	ctx context.Context, orgID, refundID string, requester audit.Actor,
) (refund Refund, err error) {
	refund, err = s.changeRefund(ctx, orgID, refundID, func(ctx context.Context, tx pg.Tx, r Refund) error {
		switch r.Status {
		case RefundCancelled:
			return nil
		case RefundAwaitingAddress, RefundRequested:
			return endRefund(ctx, tx, r, RefundCancelled, "cancelled", requester)
		}
		return newRefundState(r)
	})
	if pg.ViolatesConstraint(err, "refunds_unpaid") {
		err = newRefundState(Refund{Status: RefundSent}) // its withdrawal was requested a moment ago
	}
	if err != nil {
		return Refund{}, err
	}
	return refund, nil
}

// newRefundState refuses a change of a refund by what became of its money. Payers read it, too.
func newRefundState(r Refund) error {
	var whereabouts string
	advice := "Wait for what becomes of it."
	switch r.Status {
	case RefundAwaitingAddress:
		whereabouts, advice = "its time is over, and its amount returns to the balance", "Make another refund."
	case RefundRequested:
		whereabouts = "it has an address and is about to be paid"
	case RefundSent:
		whereabouts, advice = "a payment of it is under way",
			"Wait until it is COMPLETED, or AWAITING_ADDRESS again because the payment ended without paying."
	case RefundCompleted:
		whereabouts, advice = "the payer has the money", "Look at its transaction."
	case RefundCancelled, RefundExpired:
		whereabouts, advice = "its amount is in the balance of CHECKOUT again", "Make another refund."
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, "This refund is %s: %s.", r.Status,
		whereabouts).WithAdvice("%s", advice).WithExtra("currentStatus", string(r.Status))
}

// endRefund ends a locked refund without a payment. What it took is in the product's balance again.
func endRefund(
	ctx context.Context, tx pg.Tx, r Refund, end RefundStatus, verb string, requester audit.Actor,
) error {
	if err := setRefund(ctx, tx, r, end, `to_address = NULL, address_proven = false, look_at = NULL`); err != nil {
		return err
	}
	if err := noteParts(ctx, tx, r, "refunding = refunding - $2::numeric", ""); err != nil {
		return err
	}
	// What it took covers the need again, so the checkout is settled.
	_, err := tx.Exec(ctx, `
		UPDATE checkout_payments SET try_at = $2, tries = 0
		WHERE deposit_id IN (SELECT deposit_id FROM refund_parts WHERE refund_id = $1)`, r.ID, tx.Now)
	if err != nil {
		return fmt.Errorf("settle checkout %s again: %w", r.CheckoutID, err)
	}
	owner, product := ledger.RefundOwner(), ledger.ProductOwner(ledger.CheckoutProduct)
	err = ledger.Post(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.RefundRelease, ID: r.ID},
		Legs: []ledger.Leg{{
			Debit: owner.SpendingAccount(r.OrgID, r.Mint.ID), Credit: product.SpendingAccount(r.OrgID, r.Mint.ID),
			Amount: r.Amount,
		}},
	})
	if err != nil {
		return fmt.Errorf("release the hold of refund %s: %w", r.ID, err)
	}
	return audit.Record(ctx, tx, newRefundEntry(r, requester, verb, map[string]any{"amount": r.Amount}))
}

// setRefund changes the status of a refund by compare-and-swap. set continues the UPDATE; its parameters start at $5.
func setRefund(ctx context.Context, tx pg.Tx, r Refund, status RefundStatus, set string, args ...any) error {
	if status != r.Status && !isRefundTransition(r.Status, status) {
		panic(fmt.Sprintf("checkout: no way of a refund from %q to %s", r.Status, status))
	}
	tag, err := tx.Exec(ctx, `
		UPDATE refunds SET version = version + 1, status = $3, updated_at = greatest(updated_at, $4), `+set+`
		WHERE refund_id = $1 AND version = $2`, append([]any{r.ID, r.Version, status, tx.Now}, args...)...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil {
		return fmt.Errorf("refund %s from %s to %s: %w", r.ID, r.Status, status, err)
	}
	return nil
}

// changeRefund runs fn with a locked refund of an organization, whose checkout is locked before it. It returns the
// refund as it is afterwards. Error: fault NOT_FOUND.
func (s *Service) changeRefund(
	ctx context.Context, orgID, refundID string, fn func(ctx context.Context, tx pg.Tx, r Refund) error,
) (after Refund, err error) {
	if !id.IsValid(refundPrefix, refundID) {
		return after, asWritten(newRefundGone())
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefund(ctx, tx, refundID)
		if err != nil {
			return err
		}
		if err := fn(ctx, tx, r); err != nil {
			return err
		}
		after, err = loadRefund(ctx, tx, `r.refund_id = $1`, refundID)
		return err
	})
	return after, asWritten(err)
}

// lockRefund locks the checkout of a refund and then the refund. Error: fault NOT_FOUND.
func lockRefund(ctx context.Context, tx pg.Tx, refundID string) (Refund, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM checkouts WHERE checkout_id = (SELECT f.checkout_id FROM refunds f WHERE f.refund_id = $1)
		FOR NO KEY UPDATE`, refundID)
	if err != nil {
		return Refund{}, fmt.Errorf("lock the checkout of refund %s: %w", refundID, err)
	}
	return lockRefundAlone(ctx, tx, refundID)
}

// lockRefundAlone locks a refund, in a transaction that changes nothing of its payments.
func lockRefundAlone(ctx context.Context, tx pg.Tx, refundID string) (Refund, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM refunds WHERE refund_id = $1 FOR NO KEY UPDATE`, refundID); err != nil {
		return Refund{}, fmt.Errorf("lock refund %s: %w", refundID, err)
	}
	r, err := loadRefund(ctx, tx, `r.refund_id = $1`, refundID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, newRefundGone()
	}
	return r, err
}
