package approvers

import (
	"slices"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// FindRule returns the record of a rule that was set before. It refuses another content of its version.
func (b *Book) FindRule(r signer.ApprovalRule) (body signer.RuleBody, seq uint64, ok bool, _ *signer.Refusal) {
	for _, existing := range b.rules[r.OrgID] {
		if existing.Version != r.Version {
			continue
		}
		if !existing.Equal(r) {
			return body, 0, false, refuse("version %d of the rule was set with another content in entry %d", r.Version,
				existing.seq)
		}
		return existing.RuleBody, existing.seq, true, nil
	}
	return body, 0, false, nil
}

// CheckRule refuses a rule that may not be set, and returns its record without the proof. A rule that tightens holds
// at once, one that loosens after the cooling-off. Rule SA-4.
func (b *Book) CheckRule(r signer.RuleRequest, s Situation) (signer.RuleBody, *signer.Refusal) {
	body := signer.RuleBody{ApprovalRule: r.ApprovalRule, UsableFrom: signer.FormatMicros(s.Now)}
	newest, effective := b.newest(r.OrgID), b.effective(r.OrgID, s)
	version := 1
	if newest != nil {
		version = newest.Version + 1
	}
	if r.Version != version {
		return body, refuse("the next version of the rule of %s is %d, not %d", r.OrgID, version, r.Version)
	}
	atLeast := 0
	if effective == nil || effective.Quorum == 0 {
		atLeast = r.Quorum
	}
	refusal := b.checkEnrollers(r.OrgID, r.SignedBy, atLeast, s, func(c signer.StatementContext) signer.Statement {
		return signer.RuleStatement(r.ApprovalRule, c)
	})
	if refusal != nil {
		return body, refusal
	}
	for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
		if n := len(b.people(r.OrgID, right, "")); n < r.Quorum {
			return body, refuse("the rule asks for %d people, and %d have a passkey with the right %s: enrol more "+
				"first", r.Quorum, n, right)
		}
	}
	if effective != nil && loosens(effective.ApprovalRule, r.ApprovalRule) ||
		newest != nil && loosens(newest.ApprovalRule, r.ApprovalRule) {
		body.Loosens, body.UsableFrom = true, signer.FormatMicros(s.Now.Add(s.coolingOff()))
	}
	for _, signature := range r.SignedBy {
		body.SignedBy = append(body.SignedBy, signer.Consent{KeyID: signature.KeyID, SignatureHash: signature.Hash()})
	}
	return body, nil
}

// loosens reports whether a payment exists that needs fewer people by the second rule than by the first.
func loosens(before, after signer.ApprovalRule) bool {
	if before.Quorum == 0 {
		return false
	}
	if after.Quorum < before.Quorum || before.OwnPayments && !after.OwnPayments || before.Returns && !after.Returns {
		return true
	}
	for _, a := range after.Assets {
		threshold, dayMax := money.Zero, money.Zero
		found := slices.IndexFunc(before.Assets, func(o signer.AssetRule) bool {
			return o.Chain == a.Chain && o.Contract == a.Contract
		})
		if found >= 0 {
			threshold, dayMax = before.Assets[found].Threshold, before.Assets[found].DayMax
		}
		if threshold.Less(a.Threshold) || dayMax.Less(a.DayMax) {
			return true
		}
	}
	return false
}
