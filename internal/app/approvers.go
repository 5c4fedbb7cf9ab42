package app

import (
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
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
	return order, hostorders.Append(conf.Signer.Journal, order, time.Now())
}

// RetireApprover lets a passkey end although the rule needs it. The running signer reads that when the passkey is
// retired.
func RetireApprover(conf Config, org, keyID, reason string) error {
	order := ApproverOrder{OrgID: org, RetiredID: keyID, Reason: reason}
	return hostorders.Append(conf.Signer.Journal, order, time.Now())
}
