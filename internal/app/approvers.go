package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

// ApproverOrder is what a person decided at the signer's host about an approver's passkey.
type ApproverOrder = hostorders.Order

// ApproverOrders returns what was decided at the signer's host, in that order.
func ApproverOrders(conf Config) ([]ApproverOrder, error) {
	return hostorders.Read(conf.Signer.Journal)
}

// FoundApprover admits a passkey by its fingerprint. The running signer reads that when the passkey is enrolled.
func FoundApprover(conf Config, org, email, right, fingerprint, reason string) (ApproverOrder, error) {
	order := ApproverOrder{
		OrgID: org, Email: strings.ToLower(strings.TrimSpace(email)), Right: signer.Right(strings.ToUpper(right)),
		Fingerprint: strings.ToLower(strings.Join(strings.Fields(fingerprint), "")), Reason: reason,
	}
	if refusal := syntax.CheckFounding(order.OrgID, order.Email, order.Right, order.Fingerprint); refusal != nil {
		return order, fmt.Errorf("nothing was decided: %s", refusal.Message)
	}
	if refusal := syntax.CheckReason(reason); refusal != nil {
		return order, fmt.Errorf("nothing was decided: %s", refusal.Message)
	}
	return order, hostorders.Append(conf.Signer.Journal, order, time.Now())
}

// RetireApprover lets a passkey end although the rule needs it. The running signer reads that when the passkey is
// retired.
func RetireApprover(conf Config, org, keyID, reason string) error {
	if refusal := syntax.CheckIDs(org, keyID); refusal != nil {
		return fmt.Errorf("nothing was decided: %s", refusal.Message)
	}
	if refusal := syntax.CheckReason(reason); refusal != nil {
		return fmt.Errorf("nothing was decided: %s", refusal.Message)
	}
	return hostorders.Append(conf.Signer.Journal, ApproverOrder{OrgID: org, RetiredID: keyID, Reason: reason}, time.Now())
}
