package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/payerproof"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// PublicRefund is a refund with what its page shows besides, to the holder of its key.
type PublicRefund struct {
	Refund

	ShopName string
	Settings Settings
}

// PublicRefund returns a refund with what its page shows. Error: fault NOT_FOUND. Rule CO-93.
func (s *Service) PublicRefund(ctx context.Context, refundID, key string) (p PublicRefund, err error) {
	if p.Refund, err = s.ClaimableRefund(ctx, refundID, key); err != nil {
		return p, err
	}
	err = s.DB.ReadOrgBatch(ctx, p.OrgID, func(b *pgx.Batch) {
		queueSettings(b, p.OrgID, &p.Settings)
		b.Queue(`SELECT name FROM organizations WHERE org_id = $1`, p.OrgID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&p.ShopName)
		})
	})
	if err != nil {
		return p, fmt.Errorf("read what the page of refund %s shows: %w", refundID, err)
	}
	if p.Settings.ShopName != "" {
		p.ShopName = p.Settings.ShopName
	}
	return p, nil
}

// isClaimable reports whether a refund waits for an address, and its time is not over.
func (s *Service) isClaimable(r Refund) bool {
	return r.Status == RefundAwaitingAddress && s.DB.Clock()().Before(r.ExpiresAt)
}

// ReadRefundAddress returns an address for a refund in its canonical form, as the payer has to confirm it. It writes
// nothing. Errors: faults NOT_FOUND, INVALID_ADDRESS, INVALID_STATE.
func (s *Service) ReadRefundAddress(ctx context.Context, refundID, key, address string) (chain.Address, error) {
	r, err := s.ClaimableRefund(ctx, refundID, key)
	if err != nil {
		return "", err
	}
	if !s.isClaimable(r) {
		return "", newRefundState(r)
	}
	return s.parseRefundAddress(r.Mint, address)
}

// AddressRefusal says why an address or a signature is not accepted from a payer. It is in the details of the fault.
type AddressRefusal string

// Refusals of addresses.
const (
	ExchangeAddress AddressRefusal = "EXCHANGE" // a screening provider says that an exchange has it
	SharedAddress   AddressRefusal = "SHARED"   // several customers have paid from it
	SenderAddress   AddressRefusal = "SENDER"   // this payment came from it
	WrongProof      AddressRefusal = "PROOF"    // the signature is not one of the address over the text
	OldProof        AddressRefusal = "PROOF_EXPIRED"
	NoProof         AddressRefusal = "PROOF_IMPOSSIBLE" // addresses of this kind sign no message
	UndeployedProof AddressRefusal = "PROOF_UNDEPLOYED" // the contract that signs is not on the chain yet
	UnknownProof    AddressRefusal = "PROOF_UNKNOWN"    // the chain did not say whether the contract signed
)

func refuseAddress(refusal AddressRefusal, format string, args ...any) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingWritten, format, args...).
		WithParam("toAddress").WithDetail(RefusalDetail, string(refusal))
}

const (
	// sharedPayersLeast is of how many payers one address is no longer that of a person.
	sharedPayersLeast = 3
	// sharedPaymentsMax bounds how many payments of an address are looked at, the newest ones.
	sharedPaymentsMax = 200
	// claimScreeningMax is how long a payer waits for the providers.
	claimScreeningMax = 10 * time.Second
	// contractAnswerMax is how long a payer waits for what a contract says.
	contractAnswerMax = 10 * time.Second
)

// refuseExchange refuses an address that an exchange is known to have, unless its payer proved it. Money that is
// returned to the shared wallet of an exchange is lost to its payer. It stands in front of claims alone: an address
// that the organization gives is its own responsibility. Only what is known is refused: without an answer of the
// providers the payment is screened as every other one. Rule CO-97.
func (s *Service) refuseExchange(ctx context.Context, r Refund, address chain.Address) error {
	var isSender bool
	var payers int
	family := r.Mint.Chain.Family()
	var chains []string
	for name := range s.Chains {
		if name.Family() == family {
			chains = append(chains, string(name))
		}
	}
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The second part is bounded: an exchange may have paid a million times. A token that anyone made may name any
		// sender, so only those of the catalogue say who paid.
		return tx.QueryRow(ctx, `
			SELECT EXISTS (
				SELECT FROM checkout_payments p JOIN deposits d ON d.deposit_id = p.deposit_id
				WHERE p.checkout_id = $1 AND d.chain = ANY ($3) AND d.mint_id IS NOT NULL
					AND (d.from_address = $2 OR $2 = ANY (coalesce(d.senders, '{}')))),
				(SELECT count(*) FROM (
					SELECT DISTINCT o.org_id, coalesce(o.customer_id, c.customer_id, o.checkout_id) FROM (
						SELECT d.org_id, d.customer_id, d.checkout_id FROM deposits d
						WHERE d.from_address = $2 AND d.from_address <> '' AND d.chain = ANY ($3)
							AND d.mint_id IS NOT NULL
							AND num_nonnulls(d.customer_id, d.checkout_id) > 0
						ORDER BY d.created_at DESC LIMIT $4) o
					LEFT JOIN checkouts c ON c.checkout_id = o.checkout_id) payers)`,
			r.CheckoutID, address, chains, sharedPaymentsMax).Scan(&isSender, &payers)
	})
	if err != nil {
		return fmt.Errorf("look for the owner of the address of refund %s: %w", r.ID, err)
	}
	switch {
	case isSender:
		return refuseAddress(SenderAddress,
			"This payment came from the address. If an exchange shares it, money that is sent there is lost.").
			WithAdvice("Sign with the address, or give another one.")
	case payers >= sharedPayersLeast:
		return refuseAddress(SharedAddress,
			"%d or more customers have paid from this address, so it is the shared wallet of an exchange or a service.",
			sharedPayersLeast).WithAdvice("Give an address of your own.")
	case !s.Risk.Configured():
		return nil
	}
	screening, cancel := context.WithTimeout(ctx, claimScreeningMax)
	defer cancel()
	answer := s.Risk.ScreenProviders(screening, risk.Subject{
		Chain: r.Mint.Chain, Address: address, MintID: r.Mint.ID, Symbol: r.Mint.Symbol, Amount: r.Amount,
		Direction: risk.Outgoing,
	})
	if answer.Verdict != nil && answer.Verdict.IsExchange() {
		return refuseAddress(ExchangeAddress, "This address belongs to an exchange or a service.").
			WithAdvice("Give an address of your own.")
	}
	return nil
}

// RefundChallenge is a text that the payer's wallet signs with an address.
type RefundChallenge struct {
	Address   chain.Address
	ExpiresAt time.Time
	Text      string
}

// RefundChallenge returns the text that proves an address for a refund. It writes nothing. Errors: faults NOT_FOUND,
// INVALID_ADDRESS, INVALID_STATE, DESTINATION_NOT_ALLOWED. Rule CO-95.
func (s *Service) RefundChallenge(
	ctx context.Context, refundID, key, address string,
) (challenge RefundChallenge, err error) {
	p, err := s.PublicRefund(ctx, refundID, key)
	if err != nil {
		return challenge, err
	}
	if !s.isClaimable(p.Refund) {
		return challenge, newRefundState(p.Refund)
	}
	if challenge.Address, err = s.parseRefundAddress(p.Mint, address); err != nil {
		return challenge, err
	}
	c := s.Chains[p.Mint.Chain]
	if len(s.ProofSecret) == 0 || !payerproof.IsProvable(c.Network, c.Name, challenge.Address) {
		return challenge, refuseAddress(NoProof, "An address of this kind signs no message here.")
	}
	challenge.ExpiresAt = s.DB.Clock()().Add(payerproof.Lifetime).Truncate(time.Second)
	challenge.Text = s.newChallenge(p, challenge.Address, challenge.ExpiresAt).Text(s.ProofSecret)
	return challenge, nil
}

func (s *Service) newChallenge(p PublicRefund, address chain.Address, expiresAt time.Time) payerproof.Challenge {
	return payerproof.Challenge{
		RefundID: p.ID, Version: p.Version, Shop: p.ShopName, Host: s.PayerHost,
		CAIP2: s.Chains[p.Mint.Chain].CAIP2, Address: address, ExpiresAt: expiresAt,
	}
}

// RefundProof is an address with the signature of its challenge.
type RefundProof struct {
	RefundID, Key, Address string
	ExpiresAt              time.Time // of the challenge
	Signature              string
}

// ProveRefund claims a refund with an address that its payer holds, also if others pay from it. Errors: those of
// ClaimRefund, and the fault DESTINATION_NOT_ALLOWED with an AddressRefusal. Rules CO-95 and CO-96.
func (s *Service) ProveRefund(ctx context.Context, proof RefundProof) (Refund, error) {
	p, err := s.PublicRefund(ctx, proof.RefundID, proof.Key)
	if err != nil {
		return Refund{}, asWritten(err)
	}
	address, err := s.parseRefundAddress(p.Mint, proof.Address)
	if err != nil {
		return Refund{}, err
	}
	if p.Status != RefundAwaitingAddress && p.ToAddress == address {
		return p.Refund, nil // the same proof again
	}
	if !s.isClaimable(p.Refund) {
		return Refund{}, asWritten(newRefundState(p.Refund))
	}
	challenge := s.newChallenge(p, address, proof.ExpiresAt)
	if len(s.ProofSecret) == 0 {
		return Refund{}, refuseAddress(NoProof, "No address is proven here.")
	}
	if !challenge.IsOpen(s.DB.Clock()()) {
		return Refund{}, refuseAddress(OldProof, "The text was signed too late.").WithAdvice("Sign a new one.")
	}
	if err := s.verifyProof(ctx, p, address, challenge.Text(s.ProofSecret), proof.Signature); err != nil {
		return Refund{}, err
	}
	return s.ClaimRefund(ctx, RefundClaim{
		RefundID: proof.RefundID, Key: proof.Key, Address: string(address), IsAddressProven: true, version: p.Version,
	})
}

// verifyProof verifies the signature of an address over a text. Error: the fault DESTINATION_NOT_ALLOWED, or
// UNAVAILABLE while it is not known whether a contract signed, each with an AddressRefusal.
func (s *Service) verifyProof(
	ctx context.Context, p PublicRefund, address chain.Address, text, signature string,
) error {
	c := s.Chains[p.Mint.Chain]
	err := payerproof.Verify(c.Network, c.Name, address, text, signature)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, payerproof.ErrUnprovable):
		return refuseAddress(NoProof, "An address of this kind signs no message here.")
	}
	isSigned, err := s.isSignedByContract(ctx, c, address, text, signature)
	if err != nil {
		return err
	}
	if !isSigned {
		return refuseAddress(WrongProof, "The signature is not one of this address over this text.").
			WithAdvice("Sign with the address itself.")
	}
	return nil
}

// isSignedByContract asks the chain of a refund whether the contract at an address signed a text. Only what the
// providers agree on counts: without their answer the proof is neither taken nor refused for good. Rules CO-140 and
// CO-142.
func (s *Service) isSignedByContract(
	ctx context.Context, c chain.Chain, address chain.Address, text, signature string,
) (bool, error) {
	checker, canAsk := c.Reader.(chain.SignatureChecker)
	if c.Name.Family() != chain.EVM || !canAsk {
		return false, nil
	}
	question, isWellFormed := payerproof.AskContract(text, signature)
	if !isWellFormed {
		return false, nil
	}
	if question.IsUndeployed {
		return false, refuseAddress(UndeployedProof, "The contract of this wallet is not on the chain yet.").
			WithAdvice("Make a payment with the wallet on this chain first, or give another address.")
	}
	asking, cancel := context.WithTimeout(ctx, contractAnswerMax)
	defer cancel()
	isSigned, err := checker.IsContractSignature(asking, address, question.Digest, question.Signature)
	switch {
	case err == nil:
		return isSigned, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("ask the contract of a refund's address: %w", ctx.Err())
	}
	if s.Log != nil {
		s.Log.WarnContext(ctx, "The signature of a contract is unknown.", "chain", string(c.Name), "error", err)
	}
	return false, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
		"The chain did not say whether the contract at this address signed.").
		WithAdvice("Send the same signature again in a minute.").WithDetail(RefusalDetail, string(UnknownProof))
}

// RefundKeyOfCheckout gives the holder of a checkout's key the key of its refund that waits for an address, the oldest
// one first. The key that the refund had before is worthless then. A wrong key, an absent checkout and one without such
// a refund have the same answer. Error: fault NOT_FOUND. Rule CO-98.
func (s *Service) RefundKeyOfCheckout(
	ctx context.Context, checkoutID, pageKey string,
) (refundID, claimKey string, err error) {
	newGone := func() error {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"There is no refund that waits for an address.")
	}
	if s.IsPageKey == nil || !id.IsValid(checkoutPrefix, checkoutID) || !s.IsPageKey(checkoutID, pageKey) {
		return "", "", newGone()
	}
	var orgID string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT org_id, refund_id FROM refunds
			WHERE checkout_id = $1 AND status = 'AWAITING_ADDRESS' AND expires_at > $2
			ORDER BY created_at, refund_id LIMIT 1`, checkoutID, tx.Now).Scan(&orgID, &refundID)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", newGone()
	}
	if err != nil {
		return "", "", fmt.Errorf("look for the refund of checkout %s: %w", checkoutID, err)
	}
	_, claimKey, err = s.ReissueRefundKey(ctx, orgID, refundID, payer)
	if fault.HasCode(err, fault.InvalidState) {
		return "", "", newGone() // it got an address meanwhile
	}
	return refundID, claimKey, err
}

// ProblemKind says to a payer why an attempt paid nothing.
type ProblemKind string

// Kinds of problems.
const (
	NoProblem      ProblemKind = ""
	RiskProblem    ProblemKind = "RISK"    // screening refuses the address
	FailedProblem  ProblemKind = "FAILED"  // the chain refused the payment
	EndedProblem   ProblemKind = "ENDED"   // a person ended it
	AddressProblem ProblemKind = "ADDRESS" // the address cannot be paid, or not this amount
)

// Problems of attempts, as they are stored.
const (
	RiskRefuses   = "Risk screening refuses this address."
	PaymentFailed = "The payment failed on the chain."
	PaymentEnded  = "A person ended the payment."
)

// ProblemKind returns why the last attempt paid nothing, without the words of the service.
func (r Refund) ProblemKind() ProblemKind {
	switch r.Problem {
	case "":
		return NoProblem
	case RiskRefuses:
		return RiskProblem
	case PaymentFailed:
		return FailedProblem
	case PaymentEnded:
		return EndedProblem
	}
	return AddressProblem
}

// CanProve reports whether payers of a refund can prove their addresses.
func (s *Service) CanProve(r Refund) bool {
	switch r.Mint.Chain.Family() {
	case chain.EVM, chain.SolanaFamily, chain.BitcoinFamily:
		return len(s.ProofSecret) > 0
	}
	return false
}
