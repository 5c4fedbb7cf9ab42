package signer

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
)

// SignedStatement is a statement with the signature of a person, and with the person's passkey as the signer recorded
// it. The audit log has one of each signed approval, so who has the public attestation key can verify it later.
type SignedStatement struct {
	Words     Statement    `json:"words"`
	Signature KeySignature `json:"signature"`
	Passkey   EnrolBody    `json:"passkey"`
}

// VerifySignature checks that the passkey may sign the act, and that it signed exactly these words. Who admitted the
// passkey is checked by VerifyPasskey. The error says which part differs. Rule SA-13.
func (s SignedStatement) VerifySignature() error {
	right, org := RightEnrol, s.Words.Find("organization")
	switch s.Words.Find("act") {
	case ApprovePayment, ApproveSwap, ApproveBatch:
		right = RightApprove
	case RedirectDeposit, EndorseEntry:
		right, org = RightApprove, Operators
	}
	switch {
	case s.Signature.KeyID != s.Passkey.ID:
		return fmt.Errorf("it is of passkey %.80q and not of %.80q", s.Signature.KeyID, s.Passkey.ID)
	case s.Passkey.Right != right:
		return fmt.Errorf("passkey %s has the right %s and not %s", s.Passkey.ID, s.Passkey.Right, right)
	case s.Words.Find("approver") != EscapeText(s.Passkey.Person):
		return errors.New("its words name another person than its passkey")
	case org != s.Passkey.OrgID:
		return errors.New("its passkey is of another organization")
	case s.Words.Find("notAfter") != s.Signature.NotAfter:
		return errors.New("its words end at another time than the signature")
	case s.Words.Find("madeBy") == EscapeText(s.Passkey.Person):
		return fmt.Errorf("it is by %.80q, who made what is approved", s.Passkey.Person)
	}
	return s.Signature.Verify(s.Passkey.Passkey(), s.Words)
}

// VerifyPasskey checks that the signer of the key recorded the passkey, and that the words are for this signer. Error:
// ErrEnrolment, and another one for words of another installation.
func (s SignedStatement) VerifyPasskey(key ed25519.PublicKey) error {
	if err := s.Passkey.VerifyProof(key); err != nil {
		return err
	}
	if s.Words.Find("installation") != hex.EncodeToString(key) {
		return errors.New("its words name another installation")
	}
	return nil
}
