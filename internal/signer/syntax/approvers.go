package syntax

import (
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/assertion"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
)

const (
	emailBytesMax  = 254
	originBytesMax = 300
	signaturesMax  = 3 * signer.QuorumMax // of one request
)

// CheckEnrolment checks the request of a passkey.
func CheckEnrolment(e signer.EnrolRequest) *signer.Refusal {
	if !IsWord(e.OrgID) || !IsWord(e.ID) || !IsWord(e.Person) {
		return malformed("orgId, id, person: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	if _, err := assertion.ParsePublicKey(e.PublicKey); err != nil {
		return malformed("publicKey: %v", err)
	}
	switch {
	case e.Right != signer.RightApprove && e.Right != signer.RightEnrol:
		return malformed("right: got %.80q, want %s or %s", e.Right, signer.RightApprove, signer.RightEnrol)
	case !isEmail(e.Email):
		return malformed("email: give an address in printable ASCII and lower case")
	case len(e.CredentialID) == 0 || len(e.CredentialID) > assertion.CredentialIDBytesMax:
		return malformed("credentialId: give 1 to %d bytes", assertion.CredentialIDBytesMax)
	case e.RPID == "" || len(e.RPID) > originBytesMax || e.Origin == "" || len(e.Origin) > originBytesMax:
		return malformed("rpId, origin: give 1 to %d bytes", originBytesMax)
	case len(e.AdmittedBy) > signaturesMax:
		return malformed("admittedBy: give at most %d signatures", signaturesMax)
	}
	return nil
}

// CheckFounding checks what a person types at the signer's host to admit a passkey.
func CheckFounding(org, email string, right signer.Right, fingerprint string) *signer.Refusal {
	isDigits := len(fingerprint) == signer.FingerprintDigits && strings.Trim(fingerprint, "0123456789abcdef") == ""
	switch {
	case !IsWord(org):
		return malformed("the organization has 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case !isEmail(email):
		return malformed("%.80q is no e-mail address in printable ASCII", email)
	case right != signer.RightApprove && right != signer.RightEnrol:
		return malformed("the right is %s or %s, not %.80q", signer.RightApprove, signer.RightEnrol, right)
	case !isDigits:
		return malformed("a fingerprint has %d hexadecimal digits, and %.80q has not", signer.FingerprintDigits,
			fingerprint)
	}
	return nil
}

// isEmail reports whether an address has the one form in which a person is counted.
func isEmail(email string) bool {
	name, host, ok := strings.Cut(email, "@")
	return ok && name != "" && host != "" && len(email) <= emailBytesMax && email == strings.ToLower(email) &&
		email == signer.EscapeText(email) && !strings.ContainsAny(email, " ")
}

// CheckRule checks the request of a rule.
func CheckRule(r signer.RuleRequest) *signer.Refusal {
	switch {
	case !IsWord(r.OrgID):
		return malformed("orgId: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case r.Version < 1:
		return malformed("version: the first one is 1")
	case r.Quorum < 0 || r.Quorum > signer.QuorumMax:
		return malformed("quorum: give 0 to %d people", signer.QuorumMax)
	case r.OrgID == signer.Operators && (len(r.Assets) > 0 || r.OwnPayments || r.Returns):
		return malformed("assets, ownPayments, returns: the operators' rule has a quorum and nothing else")
	case r.Quorum == 0 && (len(r.Assets) > 0 || r.OwnPayments || r.Returns):
		return malformed("quorum: a rule without people has nothing else")
	case len(r.Assets) > signer.RuleAssetsMax || len(r.SignedBy) > signaturesMax:
		return malformed("assets, signedBy: give at most %d and %d", signer.RuleAssetsMax, signaturesMax)
	}
	type assetName struct {
		chain    chain.Name
		contract chain.Address
	}
	isNamed := map[assetName]bool{}
	for n, a := range r.Assets {
		codec, name := txcodec.Find(a.Chain.Family()), assetName{a.Chain, a.Contract}
		switch {
		case codec == nil:
			return signer.Refuse(signer.RefusedNotConfigured, "assets[%d].chain: this signer has no keys for %.80q", n,
				a.Chain)
		case a.Contract != "" && !codec.IsCanonical(a.Contract):
			return malformed("assets[%d].contract: %.80q is not an address in its canonical form", n, a.Contract)
		case a.Threshold.IsZero():
			return malformed("assets[%d].threshold: leave the asset out if every payment of it needs people", n)
		case isNamed[name]:
			return malformed("assets[%d]: the asset is named twice", n)
		}
		isNamed[name] = true
	}
	return nil
}

// checkLists checks the lists of payments that were signed together.
func checkLists(intent signer.Intent) *signer.Refusal {
	if intent.Grant == nil {
		return nil
	}
	for n, a := range intent.Grant.Approvals {
		if a.Signature == nil || a.Signature.List == nil {
			continue
		}
		if err := a.Signature.List.CheckForm(); err != nil {
			return malformed("grant.approvals[%d].signature.list: %v", n, err)
		}
	}
	return nil
}
