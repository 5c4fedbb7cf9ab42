package signertest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/assertion"
)

// The site of the passkeys of the tests.
const (
	RPID   = "approve.example.com"
	Origin = "https://approve.example.com"
)

// Passkey is an authenticator and the browser in front of it: its key and what it says.
type Passkey struct {
	signer.Enrolment
	Email string
	Key   *ecdsa.PrivateKey
}

// NewPasskey makes a passkey of a person with a right. Its id names both.
func NewPasskey(t testing.TB, org, person string, right signer.Right) *Passkey {
	t.Helper()
	p, err := MakePasskey(org, person, right)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// MakePasskey is NewPasskey for a trial, which is no test.
func MakePasskey(org, person string, right signer.Right) (*Passkey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a passkey of %s: %w", person, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("make a passkey of %s: %w", person, err)
	}
	return &Passkey{
		Enrolment: signer.Enrolment{
			OrgID: org, ID: fmt.Sprintf("apk_%s_%s", person, right), Person: "PERSON " + person, Right: right,
			CredentialID: []byte("credential of " + org + person + string(right)), PublicKey: public,
			RPID: RPID, Origin: Origin,
		},
		Email: person + "@example.com", Key: key,
	}, nil
}

// Sign signs a statement as the passkey does when its holder touches it.
func (p *Passkey) Sign(
	t testing.TB, installation string, notAfter time.Time, statement func(signer.StatementContext) signer.Statement,
) signer.KeySignature {
	t.Helper()
	signature, err := p.SignStatement(installation, notAfter, statement)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// SignStatement is Sign for a trial.
func (p *Passkey) SignStatement(
	installation string, notAfter time.Time, statement func(signer.StatementContext) signer.Statement,
) (signer.KeySignature, error) {
	end := signer.FormatMicros(notAfter)
	c := signer.StatementContext{Installation: installation, Approver: p.Person, NotAfter: end}
	answer, err := p.answer(statement(c).Challenge())
	return signer.KeySignature{KeyID: p.ID, NotAfter: end, Assertion: answer}, err
}

// SignList signs several payments at once. change may change the list before that; it may be nil.
func (p *Passkey) SignList(
	t testing.TB, installation string, notAfter time.Time, payments []signer.PaymentWords,
	change func(*signer.PaymentList),
) signer.KeySignature {
	t.Helper()
	end := signer.FormatMicros(notAfter)
	c := signer.StatementContext{Installation: installation, Approver: p.Person, NotAfter: end}
	list, err := signer.NewPaymentList(payments, c)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&list)
	}
	statement := list.Statement(signer.PaymentStatement(payments[0], c))
	return signer.KeySignature{
		KeyID: p.ID, NotAfter: end, Assertion: p.Assert(t, statement.Challenge()), List: &list,
	}
}

// Assert answers a challenge on the passkey's own site.
func (p *Passkey) Assert(t testing.TB, challenge assertion.Challenge) assertion.Assertion {
	t.Helper()
	answer, err := p.answer(challenge)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (p *Passkey) answer(challenge assertion.Challenge) (assertion.Assertion, error) {
	client := fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":%q,"crossOrigin":false}`,
		base64.RawURLEncoding.EncodeToString(challenge[:]), p.Origin)
	rpHash := sha256.Sum256([]byte(p.RPID))
	data := append(rpHash[:], 1|4, 0, 0, 0, 0) // a person is present and verified, and there is no counter
	return p.signBytes(data, []byte(client))
}

// SignBytes signs what an authenticator and a browser say, whatever that is.
func (p *Passkey) SignBytes(t testing.TB, authenticatorData, clientData []byte) assertion.Assertion {
	t.Helper()
	answer, err := p.signBytes(authenticatorData, clientData)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (p *Passkey) signBytes(authenticatorData, clientData []byte) (assertion.Assertion, error) {
	clientHash := sha256.Sum256(clientData)
	sum := sha256.Sum256(append(bytes.Clone(authenticatorData), clientHash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, p.Key, sum[:])
	if err != nil {
		return assertion.Assertion{}, fmt.Errorf("sign with passkey %s: %w", p.ID, err)
	}
	return assertion.Assertion{
		CredentialID: p.CredentialID, AuthenticatorData: authenticatorData, ClientDataJSON: clientData,
		Signature: signature,
	}, nil
}

// Request returns the request that enrols the passkey, without those who admit it.
func (p *Passkey) Request(t testing.TB, installation string, notAfter time.Time) signer.EnrolRequest {
	t.Helper()
	request, err := p.MakeRequest(installation, notAfter)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// MakeRequest is Request for a trial.
func (p *Passkey) MakeRequest(installation string, notAfter time.Time) (signer.EnrolRequest, error) {
	request := signer.EnrolRequest{Enrolment: p.Enrolment, Email: p.Email}
	possession, err := p.SignStatement(installation, notAfter, func(c signer.StatementContext) signer.Statement {
		return signer.EnrolStatement(request, c)
	})
	request.Possession = possession
	return request, err
}
