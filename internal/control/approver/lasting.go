package approver

import (
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// SignatureMargin is how long before its end a signature counts no more: the signer verifies it when it admits the
// payment, which comes later.
const SignatureMargin = 2 * time.Minute

// HasTimeLeft reports whether a signature ends later than a margin from now. None has no time left.
func HasTimeLeft(signature *signer.KeySignature, now time.Time, margin time.Duration) bool {
	if signature == nil {
		return false
	}
	end, err := time.Parse(time.RFC3339Nano, signature.NotAfter)
	return err == nil && now.Add(margin).Before(end)
}

// FindLasting returns the approvals whose signatures have time left.
func FindLasting(approvals []signer.Approval, now time.Time, margin time.Duration) (lasting []signer.Approval) {
	for _, a := range approvals {
		if HasTimeLeft(a.Signature, now, margin) {
			lasting = append(lasting, a)
		}
	}
	return lasting
}
