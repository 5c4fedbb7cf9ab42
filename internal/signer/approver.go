package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/assertion"
)

// Right says what a passkey may sign. A passkey has one right, and its name at the system's own prompt says which.
// So a false page for a payment cannot obtain the touch that adds a person.
type Right string

// The rights.
const (
	RightApprove Right = "APPROVE" // payments, swaps and batches
	RightEnrol   Right = "ENROL"   // which passkeys exist, and the rule
)

// Operators stands in the journal where an organization's id does, for the passkeys and the rule of the operators of
// this installation. No organization has this id. Their rule has a quorum and nothing else.
const Operators = "OPERATORS"

// People says whether the payments of a kind need signatures of people.
type People string

// By a rule, people sign what pays a third party. What ends at an address that the signer derives itself or that a
// pinned provider signed has limits of its own.
const (
	PeopleByRule People = "BY_RULE"
	PeopleNever  People = "NEVER"
)

// KeySignature is the signature of a statement by an enrolled passkey.
type KeySignature struct {
	KeyID     string              `json:"keyId"` // of the enrolment
	NotAfter  string              `json:"notAfter"`
	Assertion assertion.Assertion `json:"assertion"`
	// List is that of the payments that were signed together; nil: the statement was signed alone.
	List *PaymentList `json:"list,omitempty"`
}

// Hash returns the hex SHA-256 of a signature, by which the journal remembers it.
func (s KeySignature) Hash() string {
	words := []string{
		s.KeyID, s.NotAfter, string(s.Assertion.CredentialID), string(s.Assertion.AuthenticatorData),
		string(s.Assertion.ClientDataJSON), string(s.Assertion.Signature),
	}
	if s.List != nil {
		// A signature of one payment keeps the hash that it had before several could be signed together.
		words = append(append(words, "SEVERAL", strconv.Itoa(len(s.List.Totals))), s.List.Totals...)
		words = append(words, s.List.Challenges...)
	}
	sum := sha256.Sum256(encodeWords(words...))
	return hex.EncodeToString(sum[:])
}

// Consent is what the journal has of the signature of a payment.
type Consent struct {
	KeyID         string `json:"keyId"`
	SignatureHash string `json:"signatureHash"` // see KeySignature.Hash
}

// Enrolment asks for a passkey of a person to be added.
type Enrolment struct {
	OrgID        string `json:"orgId"`
	ID           string `json:"id"`     // of the row; its fields never change
	Person       string `json:"person"` // as Approval.Approver has it
	Right        Right  `json:"right"`
	CredentialID []byte `json:"credentialId"`
	PublicKey    []byte `json:"publicKey"` // PKIX
	RPID         string `json:"rpId"`
	Origin       string `json:"origin"`
}

// EnrolRequest is an enrolment with what proves it. The journal has neither the address nor the signatures.
type EnrolRequest struct {
	Enrolment
	Email string `json:"email"` // of the person, as those who admit the passkey read it
	// Possession is the signature of the passkey itself.
	Possession KeySignature `json:"possession"`
	// AdmittedBy are signatures of the people who admit the passkey. Without them the signer needs a founding at its
	// own host.
	AdmittedBy []KeySignature `json:"admittedBy,omitempty"`
}

// EnrolBody records an enrolment. It includes the proof, so that a copy of the journal cannot invent one.
type EnrolBody struct {
	Enrolment
	// EmailHash identifies the person whom the signer counts: see HashEmail.
	EmailHash string `json:"emailHash"`
	// IsFounded says that a person at the signer's host admitted the passkey.
	IsFounded bool `json:"founded,omitempty"`
	// UsableFrom is the end of the cooling-off, see FormatMicros.
	UsableFrom string `json:"usableFrom"`
	Proof      []byte `json:"proof"` // ed25519 by the attestation key, see SignedBytes
}

// EnrolledKey is an enrolment as the signer recorded it.
type EnrolledKey struct {
	EnrolBody
	Entry Entry `json:"entry"`
}

// Retirement ends a passkey permanently.
type Retirement struct {
	OrgID string `json:"orgId"`
	ID    string `json:"id"` // of the enrolment
}

// RetireRequest is a retirement with the signature of an enrolled person, or with a MAC of the server.
type RetireRequest struct {
	Retirement
	SignedBy *KeySignature `json:"signedBy,omitempty"`
	MAC      []byte        `json:"mac,omitempty"`
}

// ApprovalRule says which payments of an organization need signatures of people, and how many.
type ApprovalRule struct {
	OrgID   string `json:"orgId"`
	Version int    `json:"version"` // from 1, without gaps
	Quorum  int    `json:"quorum"`  // people for a payment; 0 ends the rule
	// Assets are the assets of which a part may be paid without people. Every payment of another asset needs them.
	Assets []AssetRule `json:"assets,omitempty"`
	// OwnPayments and Returns need people at any amount.
	OwnPayments bool `json:"ownPayments"`
	Returns     bool `json:"returns"`
}

// AssetRule says how much of an asset may be paid without people.
type AssetRule struct {
	Chain     chain.Name    `json:"chain"`
	Contract  chain.Address `json:"contract,omitempty"` // "" for the coin
	Threshold money.Amount  `json:"threshold"`          // a payment of this much or more needs people
	DayMax    money.Amount  `json:"dayMax"`             // all payments without people in 24 hours
}

// RuleRequest is a rule with the signatures of those who change it.
type RuleRequest struct {
	ApprovalRule
	SignedBy []KeySignature `json:"signedBy"`
}

// RuleBody records a rule.
type RuleBody struct {
	ApprovalRule
	// Loosens says that the rule asks for less than the one before, so that it has a cooling-off.
	Loosens    bool      `json:"loosens,omitempty"`
	UsableFrom string    `json:"usableFrom"`
	SignedBy   []Consent `json:"signedBy"`
	Proof      []byte    `json:"proof"` // ed25519 by the attestation key, see SignedBytes
}

// RecordedRule is a rule as the signer recorded it.
type RecordedRule struct {
	RuleBody
	Entry Entry `json:"entry"`
}

const (
	enrolVersion       = "coffer-approver-1"
	ruleVersion        = "coffer-approval-rule-1"
	fingerprintVersion = "coffer-approver-fingerprint-1"
	emailVersion       = "coffer-approver-email-1"
	retireVersion      = "coffer-approver-retire-1"

	// QuorumMax is the most people that a rule can ask for.
	QuorumMax = 10
	// RuleAssetsMax is the most assets that a rule can name.
	RuleAssetsMax = 200
	// FingerprintDigits are 80 bits. The server chooses nothing that is hashed, so it would have to find a second key
	// with the fingerprint of a given one.
	FingerprintDigits = 20
)

// HashEmail returns the hash by which the journal knows a person. Package approver has the one form of an address.
func HashEmail(orgID, email string) string {
	sum := sha256.Sum256(encodeWords(emailVersion, orgID, email))
	return hex.EncodeToString(sum[:])
}

// Fingerprint is what two people compare over another channel before a passkey is founded. It covers what the person
// at the signer's host types, and the key.
func (e EnrolRequest) Fingerprint(installation string) string {
	sum := sha256.Sum256(encodeWords(fingerprintVersion, installation, e.OrgID, e.Email, string(e.Right),
		string(e.PublicKey)))
	return hex.EncodeToString(sum[:])[:FingerprintDigits]
}

// words returns the fields as a proof covers them.
func (e Enrolment) words() []string {
	return []string{
		e.OrgID, e.ID, e.Person, string(e.Right), string(e.CredentialID), string(e.PublicKey), e.RPID, e.Origin,
	}
}

// Equal reports whether two enrolments have the same fields.
func (e Enrolment) Equal(o Enrolment) bool { return slices.Equal(e.words(), o.words()) }

// Passkey returns what signatures of the enrolled passkey are verified against.
func (e Enrolment) Passkey() assertion.Passkey {
	return assertion.Passkey{CredentialID: e.CredentialID, PublicKey: e.PublicKey, RPID: e.RPID, Origin: e.Origin}
}

// EnrolStatement returns what a person signs who adds a passkey: the passkey itself, and each person who admits it.
func EnrolStatement(e EnrolRequest, c StatementContext) Statement {
	publicKey := sha256.Sum256(e.PublicKey)
	return Statement{}.add("act", EnrolKey).
		add("email", e.Email).
		add("person", e.Person).
		add("right", string(e.Right)).
		add("fingerprint", e.Fingerprint(c.Installation)).
		add("publicKey", hex.EncodeToString(publicKey[:])).
		add("credential", base64.RawURLEncoding.EncodeToString(e.CredentialID)).
		add("rpId", e.RPID).
		add("origin", e.Origin).
		add("id", e.ID).
		finish(e.OrgID, c)
}

// RetireStatement returns what a person signs who ends a passkey.
func RetireStatement(r Retirement, c StatementContext) Statement {
	return Statement{}.add("act", RetireKey).add("id", r.ID).finish(r.OrgID, c)
}

// RuleStatement returns what a person signs who changes a rule.
func RuleStatement(r ApprovalRule, c StatementContext) Statement {
	s := Statement{}.add("act", ChangeRule).add("quorum", strconv.Itoa(r.Quorum))
	if r.OrgID != Operators {
		s = s.add("ownPayments", yesNo(r.OwnPayments)).add("returns", yesNo(r.Returns))
	}
	for _, a := range r.Assets {
		s = s.add("asset", fmt.Sprintf("%s: without people below %v units, and at most %v units in a day",
			asset(a.Chain, a.Contract), a.Threshold, a.DayMax))
	}
	return s.add("version", strconv.Itoa(r.Version)).finish(r.OrgID, c)
}

func yesNo(b bool) string {
	if b {
		return "always"
	}
	return "by amount"
}

// SignedBytes returns the bytes that Proof signs: every field preceded by its length.
func (b EnrolBody) SignedBytes() []byte {
	return encodeWords(append([]string{enrolVersion, b.EmailHash, strconv.FormatBool(b.IsFounded), b.UsableFrom},
		b.words()...)...)
}

// VerifyProof checks that the proof covers these fields. Error: ErrEnrolment.
func (b EnrolBody) VerifyProof(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, b.SignedBytes(), b.Proof) {
		return fmt.Errorf("%s of %s: %w", b.ID, b.OrgID, ErrEnrolment)
	}
	return nil
}

// PeopleFor returns how many people have to sign a payment: 0 for one that may be paid without them. unsigned is what
// was paid of its asset without people in the last 24 hours. A nil rule asks for no one. Rule SA-1.
func (r *ApprovalRule) PeopleFor(intent Intent, unsigned money.Amount) int {
	if r == nil || r.Quorum == 0 || intent.Kind().People == PeopleNever {
		return 0
	}
	if intent.PaysOwnMoney() && r.OwnPayments || intent.Purpose == Return && r.Returns {
		return r.Quorum
	}
	found := slices.IndexFunc(r.Assets, func(a AssetRule) bool {
		return a.Chain == intent.Chain && a.Contract == intent.Contract
	})
	if found < 0 {
		return r.Quorum
	}
	paid, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil {
		return r.Quorum
	}
	sum, err := unsigned.Add(paid)
	if err == nil && paid.Less(r.Assets[found].Threshold) && !r.Assets[found].DayMax.Less(sum) {
		return 0
	}
	return r.Quorum
}

// Equal reports whether two rules have the same fields.
func (r ApprovalRule) Equal(o ApprovalRule) bool {
	return r.OrgID == o.OrgID && r.Version == o.Version && r.Quorum == o.Quorum && slices.Equal(r.Assets, o.Assets) &&
		r.OwnPayments == o.OwnPayments && r.Returns == o.Returns
}

// SignedBytes returns the bytes that Proof signs: every field preceded by its length.
func (b RuleBody) SignedBytes() []byte {
	words := []string{
		ruleVersion, b.OrgID, strconv.Itoa(b.Version), strconv.Itoa(b.Quorum), strconv.FormatBool(b.OwnPayments),
		strconv.FormatBool(b.Returns), strconv.FormatBool(b.Loosens), b.UsableFrom, strconv.Itoa(len(b.Assets)),
	}
	for _, a := range b.Assets {
		words = append(words, string(a.Chain), string(a.Contract), a.Threshold.String(), a.DayMax.String())
	}
	for _, c := range b.SignedBy {
		words = append(words, c.KeyID, c.SignatureHash)
	}
	return encodeWords(words...)
}

// VerifyProof checks that the proof covers these fields. Error: ErrEnrolment.
func (b RuleBody) VerifyProof(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, b.SignedBytes(), b.Proof) {
		return fmt.Errorf("version %d of the rule of %s: %w", b.Version, b.OrgID, ErrEnrolment)
	}
	return nil
}

// RetirementMAC returns the MAC with which the server retires a passkey.
func (k *GrantKey) RetirementMAC(r Retirement) []byte {
	return k.computeMAC(retireVersion, r.OrgID, r.ID)
}

// VerifyRetirement reports whether a holder of the key asked for the retirement. Without a key no one did: a passkey
// then ends by a signature.
func (k *GrantKey) VerifyRetirement(r RetireRequest) bool {
	return k != nil && hmac.Equal(k.RetirementMAC(r.Retirement), r.MAC)
}
