// Package assertion verifies WebAuthn assertions: that the holder of a passkey confirmed a challenge on one site, with
// a PIN or a fingerprint.
//
// It needs the standard library alone, because it runs in the process that holds keys. It keeps no state and trusts
// nothing that the browser says without the passkey's signature. Counters are not compared: passkeys that are synced
// between devices have none.
package assertion

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// Assertion is what a browser answers when a person confirms a challenge with a passkey.
type Assertion struct {
	CredentialID      []byte `json:"credentialId"`
	AuthenticatorData []byte `json:"authenticatorData"`
	ClientDataJSON    []byte `json:"clientDataJSON"`
	Signature         []byte `json:"signature"`
}

// Passkey is what an assertion is verified against.
type Passkey struct {
	CredentialID []byte
	PublicKey    []byte // PKIX, as the browser's getPublicKey returns it
	RPID         string // the RP id, a host name
	Origin       string // where the page stands, such as https://approve.example.com
}

// Challenge is what a person confirms.
type Challenge [sha256.Size]byte

// The flags of the authenticator's data.
const (
	userPresent    = 1 << 0
	userVerified   = 1 << 2
	backupEligible = 1 << 3
	backedUp       = 1 << 4
	hasCredential  = 1 << 6 // only where a passkey is created
	hasExtensions  = 1 << 7
	reservedFlags  = 1<<1 | 1<<5
)

// The bounds of what is read.
const (
	// CredentialIDBytesMax is the longest credential id by the standard.
	CredentialIDBytesMax = 1023
	publicKeyBytesMax    = 1200
	dataBytesMax         = 2048
	signatureBytesMax    = 1024
	authDataBytes        = sha256.Size + 1 + 4 // hash of the site, flags, counter
	rsaBitsMin           = 2048
	rsaBitsMax           = 8192
)

// clientData is what the browser says about the ceremony. Browsers add members, which are ignored.
type clientData struct {
	Type        string `json:"type"`
	Challenge   string `json:"challenge"`
	Origin      string `json:"origin"`
	CrossOrigin bool   `json:"crossOrigin"`
	TopOrigin   string `json:"topOrigin"`
}

// Verify returns nil if the holder of the passkey confirmed the challenge on its site and was verified by it. The
// error says which part differs. Rule SA-7.
func (a Assertion) Verify(key Passkey, challenge Challenge) error {
	switch {
	case len(a.CredentialID) == 0 || len(a.CredentialID) > CredentialIDBytesMax:
		return errors.New("the id of its passkey is missing or too long")
	case !bytes.Equal(a.CredentialID, key.CredentialID):
		return errors.New("it is of another passkey")
	case len(a.ClientDataJSON) > dataBytesMax || len(a.AuthenticatorData) > dataBytesMax ||
		len(a.Signature) > signatureBytesMax:
		return errors.New("it is too long")
	}
	var client clientData
	if err := json.Unmarshal(a.ClientDataJSON, &client); err != nil {
		return errors.New("what the browser says is not JSON, or has a member twice")
	}
	switch {
	case client.Type != "webauthn.get":
		return fmt.Errorf("it is for %.40q and not for a confirmation", client.Type)
	case client.Challenge != base64.RawURLEncoding.EncodeToString(challenge[:]):
		return errors.New("it is of other words")
	case client.Origin != key.Origin:
		return fmt.Errorf("it is from a page of %.200q and not of %s", client.Origin, key.Origin)
	case client.CrossOrigin || client.TopOrigin != "":
		return errors.New("it is from a page inside another page")
	}
	if err := checkAuthenticatorData(a.AuthenticatorData, key.RPID); err != nil {
		return err
	}
	publicKey, err := ParsePublicKey(key.PublicKey)
	if err != nil {
		return err
	}
	clientHash := sha256.Sum256(a.ClientDataJSON)
	signed := append(bytes.Clone(a.AuthenticatorData), clientHash[:]...)
	if !verifySignature(publicKey, signed, a.Signature) {
		return errors.New("its signature is not that of the passkey")
	}
	return nil
}

func checkAuthenticatorData(data []byte, rpID string) error {
	if len(data) < authDataBytes {
		return errors.New("what the passkey says is too short")
	}
	rpHash := sha256.Sum256([]byte(rpID))
	flags := data[sha256.Size]
	switch {
	case !bytes.Equal(data[:sha256.Size], rpHash[:]):
		return fmt.Errorf("it is for another site than %s", rpID)
	case flags&userPresent == 0:
		return errors.New("no one touched the passkey")
	case flags&userVerified == 0:
		return errors.New("the passkey did not verify its holder")
	case flags&backedUp != 0 && flags&backupEligible == 0, flags&reservedFlags != 0, flags&hasCredential != 0:
		return errors.New("the passkey says what no passkey says at a confirmation")
	case flags&hasExtensions == 0 && len(data) != authDataBytes:
		return errors.New("what the passkey says is too long")
	}
	return nil
}

// ParsePublicKey reads a public key of one of the three kinds that passkeys have: ECDSA on P-256, Ed25519 and RSA. A
// key has one encoding: another one of the same key is refused.
func ParsePublicKey(pkix []byte) (crypto.PublicKey, error) {
	if len(pkix) == 0 || len(pkix) > publicKeyBytesMax {
		return nil, errors.New("the public key of the passkey is missing or too long")
	}
	key, err := x509.ParsePKIXPublicKey(pkix)
	if err != nil {
		return nil, errors.New("the public key of the passkey cannot be read")
	}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, errors.New("the public key of the passkey is not on P-256")
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < rsaBitsMin || bits > rsaBitsMax {
			return nil, fmt.Errorf("the public key of the passkey has %d bits, and %d to %d are needed", bits,
				rsaBitsMin, rsaBitsMax)
		}
	default:
		return nil, errors.New("the public key of the passkey is of a kind that is not supported")
	}
	if canonical, err := x509.MarshalPKIXPublicKey(key); err != nil || !bytes.Equal(canonical, pkix) {
		return nil, errors.New("the public key of the passkey is not in its one encoding")
	}
	return key, nil
}

func verifySignature(key crypto.PublicKey, signed, signature []byte) bool {
	sum := sha256.Sum256(signed)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(k, signed, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
