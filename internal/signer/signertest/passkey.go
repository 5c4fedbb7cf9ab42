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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Passkey{
		Enrolment: signer.Enrolment{
			OrgID: org, ID: fmt.Sprintf("apk_%s_%s", person, right), Person: "PERSON " + person, Right: right,
			CredentialID: []byte("credential of " + org + person + string(right)), PublicKey: public,
			RPID: RPID, Origin: Origin,
		},
		Email: person + "@example.com", Key: key,
	}
}

// Sign signs a statement as the passkey does when its holder touches it.
func (p *Passkey) Sign(
	t testing.TB, installation string, notAfter time.Time, statement func(signer.StatementContext) signer.Statement,
) signer.KeySignature {
	t.Helper()
	end := signer.FormatMicros(notAfter)
	c := signer.StatementContext{Installation: installation, Approver: p.Person, NotAfter: end}
	return signer.KeySignature{KeyID: p.ID, NotAfter: end, Assertion: p.Assert(t, statement(c).Challenge())}
}

// Assert answers a challenge on the passkey's own site.
func (p *Passkey) Assert(t testing.TB, challenge assertion.Challenge) assertion.Assertion {
	t.Helper()
	client := fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":%q,"crossOrigin":false}`,
		base64.RawURLEncoding.EncodeToString(challenge[:]), p.Origin)
	rpHash := sha256.Sum256([]byte(p.RPID))
	data := append(rpHash[:], 1|4, 0, 0, 0, 0) // a person is present and verified, and there is no counter
	return p.SignBytes(t, data, []byte(client))
}

// SignBytes signs what an authenticator and a browser say, whatever that is.
func (p *Passkey) SignBytes(t testing.TB, authenticatorData, clientData []byte) assertion.Assertion {
	t.Helper()
	clientHash := sha256.Sum256(clientData)
	sum := sha256.Sum256(append(bytes.Clone(authenticatorData), clientHash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, p.Key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return assertion.Assertion{
		CredentialID: p.CredentialID, AuthenticatorData: authenticatorData, ClientDataJSON: clientData,
		Signature: signature,
	}
}

// Request returns the request that enrols the passkey, without those who admit it.
func (p *Passkey) Request(t testing.TB, installation string, notAfter time.Time) signer.EnrolRequest {
	t.Helper()
	request := signer.EnrolRequest{Enrolment: p.Enrolment, Email: p.Email}
	request.Possession = p.Sign(t, installation, notAfter, func(c signer.StatementContext) signer.Statement {
		return signer.EnrolStatement(request, c)
	})
	return request
}
