package audit

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// retirementSlack is how much earlier than a signature a retirement may be that its transaction did not see.
const retirementSlack = time.Minute

// signedRows follows the signatures of approvals in an export. A row with one has the words and the passkey, so it is
// verified without a database. Rule SA-13.
type signedRows struct {
	key     ed25519.PublicKey // the attestation key; nil: who admitted the passkeys is not verified
	people  map[string]map[string]bool
	retired map[string]time.Time // by the id of the passkey
	count   int64
}

func newSignedRows(key ed25519.PublicKey) *signedRows {
	return &signedRows{key: key, people: map[string]map[string]bool{}, retired: map[string]time.Time{}}
}

// signedDetail is what the detail of an approval says of its signature and of the payment.
type signedDetail struct {
	Signed      *signer.SignedStatement `json:"signed"`
	People      int                     `json:"people"` // who had to sign, by the rule
	Round       int                     `json:"round"`
	ToAddress   string                  `json:"toAddress"`
	Amount      string                  `json:"amount"`
	ContentHash string                  `json:"contentHash"`
	// Of the signature of a return or a redirect: its id, and how many people have signed it of those who have to.
	Resolution          string `json:"resolution"`
	Approvals, Required any
}

// The actions of signatures of returns and of redirects, whose rows are about their deposits. Operators sign redirects.
const (
	returnSigned   = "deposit.return_signed"
	redirectSigned = "deposit.redirect_signed"
)

// isOfDeposit reports whether a row is about a signature of what becomes of a flagged deposit.
func isOfDeposit(l Line) bool { return l.Action == returnSigned || l.Action == redirectSigned }

// subject returns the id of what the signature is about.
func (d signedDetail) subject(l Line) string {
	if isOfDeposit(l) {
		return d.Resolution
	}
	return l.ResourceID
}

// isLast reports whether a row lets its payment go.
func (d signedDetail) isLast(l Line) bool {
	return strings.HasSuffix(l.Action, ".approved") ||
		isOfDeposit(l) && fmt.Sprint(d.Approvals) == fmt.Sprint(d.Required)
}

// follow returns why the signatures up to a row are not those that its payment needs, or "".
func (s *signedRows) follow(l Line) string {
	recordedAt, err := time.Parse(timeLayout, l.RecordedAt)
	if err != nil {
		return ""
	}
	if l.Action == "approver.retired" {
		s.retired[l.ResourceID] = recordedAt
		return ""
	}
	if !strings.Contains(l.Detail, `"signed"`) && !strings.Contains(l.Detail, `"people"`) {
		return ""
	}
	problem := s.check(l, recordedAt)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("row %d (id %d, %s of %s %s) %s", l.Position, l.AuditID, l.Action, l.ResourceKind, l.ResourceID,
		problem)
}

func (s *signedRows) check(l Line, recordedAt time.Time) string {
	var d signedDetail
	if err := json.Unmarshal([]byte(l.Detail), &d); err != nil {
		if isApproval(l) {
			return "has a detail that cannot be read"
		}
		return "" // the detail of another act has members of these names
	}
	subject := fmt.Sprintf("%s %d", d.subject(l), d.Round)
	if d.Signed != nil {
		s.count++
		if err := s.verify(l, d, recordedAt); err != nil {
			return fmt.Sprintf("has a signature by %.80q that is not valid: %v", d.Signed.Passkey.Person, err)
		}
		if s.people[subject] == nil {
			s.people[subject] = map[string]bool{}
		}
		s.people[subject][d.Signed.Passkey.EmailHash] = true
	}
	if !d.isLast(l) {
		return ""
	}
	signed := len(s.people[subject])
	delete(s.people, subject)
	if signed < d.People {
		return fmt.Sprintf("needed the signatures of %d people and has those of %d", d.People, signed)
	}
	return ""
}

func isApproval(l Line) bool {
	return strings.HasSuffix(l.Action, ".approved") || strings.HasSuffix(l.Action, ".approval_added") ||
		isOfDeposit(l)
}

func (s *signedRows) verify(l Line, d signedDetail, recordedAt time.Time) error {
	signed := *d.Signed
	if s.key != nil {
		if err := signed.VerifyPasskey(s.key); err != nil {
			return err
		}
	}
	words := signed.Words
	usableFrom, err := time.Parse(time.RFC3339Nano, signed.Passkey.UsableFrom)
	if err != nil {
		return fmt.Errorf("its passkey counts from no time on: %w", err)
	}
	notAfter, err := time.Parse(time.RFC3339Nano, signed.Signature.NotAfter)
	if err != nil {
		return fmt.Errorf("it has no end: %w", err)
	}
	retiredAt, isRetired := s.retired[signed.Passkey.ID]
	isOfRow := words.Find("act") == signer.ApproveBatch && l.ResourceKind != "BATCH_PAYOUT" // it signs its batch
	switch {
	case l.OrgID == nil || l.Action != redirectSigned && *l.OrgID != signed.Passkey.OrgID ||
		l.Action == redirectSigned && signed.Passkey.OrgID != signer.Operators:
		return fmt.Errorf("its passkey is of %s", signed.Passkey.OrgID)
	case l.ActorKind+" "+l.ActorID != signed.Passkey.Person:
		return fmt.Errorf("its row is about %s %.80q", l.ActorKind, l.ActorID)
	case recordedAt.Before(usableFrom):
		return fmt.Errorf("its passkey counts from %s on", signed.Passkey.UsableFrom)
	case !recordedAt.Before(notAfter):
		return fmt.Errorf("it ended at %s", signed.Signature.NotAfter)
	case isRetired && recordedAt.Sub(retiredAt) > retirementSlack:
		return fmt.Errorf("its passkey was retired at %s", formatTime(retiredAt))
	case !isOfRow && (words.Find("id") != d.subject(l) || differs(words, "to", d.ToAddress) ||
		differs(words, "units", d.Amount) || differs(words, "contentHash", d.ContentHash)):
		return fmt.Errorf("its words are of another payment: %s of %s to %s", words.Find("id"), words.Find("amount"),
			words.Find("to"))
	}
	return signed.VerifySignature()
}

// differs reports whether a word of a statement is not what the row says; a row may lack it.
func differs(words signer.Statement, name, text string) bool {
	return text != "" && words.Find(name) != signer.EscapeText(text)
}
