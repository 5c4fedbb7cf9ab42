package payerpages

import (
	"context"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
)

// refundStates are the words of the page for the statuses of a refund.
var refundStates = map[checkout.RefundStatus]RefundState{
	checkout.RefundAwaitingAddress: RefundWaits, checkout.RefundRequested: RefundRequested,
	checkout.RefundSent: RefundChecked, checkout.RefundCompleted: RefundCompleted,
	checkout.RefundCancelled: RefundCancelled, checkout.RefundExpired: RefundExpired,
}

// proofKinds are the ways to prove an address, by the family of its chain.
var proofKinds = map[chain.Family]ProofKind{
	chain.EVM: EVMProof, chain.SolanaFamily: SolanaProof, chain.BitcoinFamily: BitcoinProof,
}

// refundProblems are the words of the page for why an attempt paid nothing.
var refundProblems = map[checkout.ProblemKind]RefundProblem{
	checkout.RiskProblem: RiskRefundProblem, checkout.FailedProblem: FailedRefundProblem,
	checkout.EndedProblem: EndedRefundProblem, checkout.AddressProblem: AddressRefundProblem,
}

// addressRefusals are the words of the page for why an address is not accepted.
var addressRefusals = map[checkout.AddressRefusal]RefundRefusal{
	checkout.ExchangeAddress: AddressOfExchange, checkout.SharedAddress: AddressShared,
	checkout.SenderAddress: AddressOfSender, checkout.WrongProof: ProofWrong, checkout.OldProof: ProofExpired,
	checkout.NoProof: ProofImpossible, checkout.UndeployedProof: ProofUndeployed,
	checkout.UnknownProof: NetworkUnavailable,
}

// Refund implements Refunds.
func (s Source) Refund(ctx context.Context, refundID, key string) (RefundView, error) {
	p, err := s.Service.PublicRefund(ctx, refundID, key)
	if err != nil {
		return RefundView{}, err
	}
	v := RefundView{
		RefundID: p.ID, State: refundStates[p.Status], ShopName: p.ShopName, Accent: p.Settings.Accent,
		Symbol: p.Mint.Symbol, ChainName: s.chainName(p.Mint.Chain), Amount: p.Amount.Decimal(p.Mint.Decimals),
		IsFeeDeducted: p.FeeMode == checkout.FeeDeducted, ExpiresAt: p.ExpiresAt,
		Problem: refundProblems[p.ProblemKind()], Address: string(p.ToAddress), IsAddressProven: p.IsAddressProven,
		TxHash: string(p.Tx), IsLocal: s.IsLocal,
	}
	switch {
	case p.Status == checkout.RefundAwaitingAddress && !s.Clock().Before(p.ExpiresAt):
		v.State = RefundExpired
	case p.Status == checkout.RefundSent && p.Tx != "":
		v.State = RefundSent
	}
	if p.Tx != "" && s.ExplorerURL != nil {
		v.ExplorerURL = s.ExplorerURL(p.Mint.Chain, p.Tx)
	}
	if s.Service.CanProve(p.Refund) {
		v.Proof = proofKinds[p.Mint.Chain.Family()]
	}
	return v, nil
}

// refusalOf returns what a fault says about an address. Every other error stays one.
func refusalOf(err error) (RefundRefusal, error) {
	f := fault.Find(err)
	if f == nil {
		return "", err
	}
	detail, _ := f.Details[checkout.RefusalDetail].(string)
	if refusal := addressRefusals[checkout.AddressRefusal(detail)]; refusal != "" {
		return refusal, nil
	}
	switch f.Code {
	case fault.InvalidAddress:
		return AddressInvalid, nil
	case fault.InvalidState:
		return RefundMoved, nil
	case fault.WithdrawalsSuspended:
		return NetworkUnavailable, nil
	}
	return "", err
}

// ReadAddress implements Refunds.
func (s Source) ReadAddress(
	ctx context.Context, refundID, key, address string,
) (canonical string, refusal RefundRefusal, err error) {
	read, err := s.Service.ReadRefundAddress(ctx, refundID, key, address)
	refusal, err = refusalOf(err)
	return string(read), refusal, err
}

// Claim implements Refunds.
func (s Source) Claim(ctx context.Context, refundID, key, address string) (RefundRefusal, error) {
	_, err := s.Service.ClaimRefund(ctx, checkout.RefundClaim{RefundID: refundID, Key: key, Address: address})
	return refusalOf(err)
}

// Challenge implements Refunds.
func (s Source) Challenge(
	ctx context.Context, refundID, key, address string,
) (RefundChallenge, RefundRefusal, error) {
	c, err := s.Service.RefundChallenge(ctx, refundID, key, address)
	refusal, err := refusalOf(err)
	return RefundChallenge{Address: string(c.Address), ExpiresAt: c.ExpiresAt, Text: c.Text}, refusal, err
}

// Prove implements Refunds.
func (s Source) Prove(ctx context.Context, refundID, key string, proof RefundProof) (RefundRefusal, error) {
	_, err := s.Service.ProveRefund(ctx, checkout.RefundProof{
		RefundID: refundID, Key: key, Address: proof.Address, ExpiresAt: proof.ExpiresAt, Signature: proof.Signature,
	})
	return refusalOf(err)
}

// RefundKey implements Refunds.
func (s Source) RefundKey(ctx context.Context, checkoutID, pageKey string) (refundID, key string, err error) {
	return s.Service.RefundKeyOfCheckout(ctx, checkoutID, pageKey)
}
