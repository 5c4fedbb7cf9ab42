package webhook

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// The purposes of the addresses of checkouts.
const (
	CheckoutPurpose       = "CHECKOUT"
	CheckoutSharedPurpose = "CHECKOUT_SHARED"
)

// ErrAddress says that an address is not proven to belong to a checkout. Do not show it.
var ErrAddress = errors.New("webhook: the address is not proven to belong to the checkout")

const (
	attestVersion   = "coffer-address-1"
	referenceDomain = "coffer-checkout-reference-1"
	sharedSubject   = "CHECKOUT"
)

// VerifyAddress checks without a call that an opened option pays the checkout of an organization: the signer attested
// its address for it, and what its link and its reference name belongs to the same checkout. A shop that shows an
// address on a page of its own calls it before it does, so that an address that was replaced on the way is never paid.
//
// attestKey is the installation's attestation key, and both ids are those that the shop knows, not those of an answer.
// An option that is not opened has no address and is refused. Error: ErrAddress.
func VerifyAddress(attestKey ed25519.PublicKey, organizationID, checkoutID string, option PaymentOption) error {
	if len(attestKey) != ed25519.PublicKeySize || option.Address == nil || option.AddressProof == nil {
		return fmt.Errorf("%w: the option has no address, or the key is no ed25519 key", ErrAddress)
	}
	err := verifyProof(attestKey, organizationID, CheckoutPurpose, checkoutID, *option.Address, *option.AddressProof)
	if err != nil {
		return err
	}
	if (option.SharedAddress == nil) != (option.Reference == nil) ||
		(option.SharedAddress == nil) != (option.SharedAddressProof == nil) {
		return fmt.Errorf("%w: a shared address needs a reference and a proof", ErrAddress)
	}
	payee := *option.Address
	if option.SharedAddress != nil {
		payee = *option.SharedAddress
		proof := *option.SharedAddressProof
		err = verifyProof(attestKey, organizationID, CheckoutSharedPurpose, sharedSubject, payee, proof)
		if err != nil {
			return err
		}
		if *option.Reference != referenceOf(organizationID, checkoutID, option.MintID) {
			return fmt.Errorf("%w: the reference is that of another checkout", ErrAddress)
		}
	}
	if option.PaymentURI != nil && !isPaidBy(*option.PaymentURI, payee, option.Reference) {
		return fmt.Errorf("%w: the link pays another address", ErrAddress)
	}
	return nil
}

// verifyProof checks the signature of one address.
func verifyProof(key ed25519.PublicKey, organizationID, purpose, subject, address string, proof AddressProof) error {
	signature, err := base64.StdEncoding.DecodeString(proof.Signature)
	if err != nil || proof.Purpose != purpose {
		return fmt.Errorf("%w: the proof is for another purpose, or no base64", ErrAddress)
	}
	attested := attestedBytes(organizationID, purpose, subject, proof.Family, proof.Path, address)
	if !ed25519.Verify(key, attested, signature) {
		return fmt.Errorf("%w: the signature does not hold", ErrAddress)
	}
	return nil
}

// attestedBytes returns what the signer signs: every field preceded by its length.
func attestedBytes(fields ...string) []byte {
	var b []byte
	for _, field := range append([]string{attestVersion}, fields...) {
		b = fmt.Appendf(b, "%d:%s", len(field), field)
	}
	return b
}

// referenceOf returns the key that names a checkout in a payment to the shared address.
func referenceOf(organizationID, checkoutID string, mintID int) string {
	h := sha256.New()
	for _, part := range []string{referenceDomain, organizationID, checkoutID, strconv.Itoa(mintID)} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return base58(h.Sum(nil))
}

// base58 writes bytes as Solana does.
func base58(b []byte) string {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	var digits []byte
	base, remainder := big.NewInt(int64(len(alphabet))), new(big.Int)
	for n := new(big.Int).SetBytes(b); n.Sign() > 0; {
		n.QuoRem(n, base, remainder)
		digits = append(digits, alphabet[remainder.Int64()])
	}
	var text strings.Builder
	for _, leading := range b {
		if leading != 0 {
			break
		}
		text.WriteByte(alphabet[0])
	}
	for i := len(digits) - 1; i >= 0; i-- {
		text.WriteByte(digits[i])
	}
	return text.String()
}

// isPaidBy reports whether a link pays an address, and names the reference if there is one.
func isPaidBy(uri, address string, reference *string) bool {
	scheme, rest, _ := strings.Cut(uri, ":")
	target, query, _ := strings.Cut(rest, "?")
	named := map[string]string{}
	for _, parameter := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if _, isTwice := named[name]; isTwice {
			return false
		}
		named[name] = value
	}
	switch scheme {
	case "bitcoin":
		return target == address && reference == nil
	case "solana":
		if reference == nil {
			return target == address && named["reference"] == ""
		}
		return target == address && named["reference"] == *reference
	case "ethereum":
		if before, isToken := strings.CutSuffix(target, "/transfer"); isToken {
			return before != "" && named["address"] == address && reference == nil
		}
		payee, _, hasNetwork := strings.Cut(target, "@")
		return hasNetwork && payee == address && reference == nil
	}
	return false
}
