// Package remotetest makes the certificates of both sides of a signer on the network, for tests.
//
// They are not for production: the keys are in the same folder as their authority. A crash leaves
// files in a test's folder.
package remotetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer/remote"
)

// Authority signs certificates and writes them to its folder.
type Authority struct {
	Dir         string
	Certificate *x509.Certificate
	key         ed25519.PrivateKey
}

// NewAuthority makes an authority that is valid for an hour.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a := &Authority{t.TempDir(), c, key}
	WritePEM(t, a.CertificatePath(), "CERTIFICATE", der)
	return a
}

// CertificatePath returns the path of the authority's own certificate.
func (a *Authority) CertificatePath() string { return filepath.Join(a.Dir, "ca.pem") }

// IssueLeaf makes a certificate for a name, valid from an hour ago until notAfter.
func (a *Authority) IssueLeaf(t testing.TB, name string, use x509.ExtKeyUsage, notAfter time.Time) remote.TLSFiles {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: notAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.Certificate, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := remote.TLSFiles{
		Certificate: filepath.Join(a.Dir, name+".pem"), Key: filepath.Join(a.Dir, name+".key"),
		CA: a.CertificatePath(),
	}
	WritePEM(t, f.Key, "PRIVATE KEY", private)
	WritePEM(t, f.Certificate, "CERTIFICATE", der)
	return f
}

// WritePEM puts a PEM block in place in one step, as a renewal would.
func WritePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// PinOf returns the pin of a certificate that IssueLeaf made.
func PinOf(t testing.TB, f remote.TLSFiles) string {
	t.Helper()
	text, err := os.ReadFile(f.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return remote.PinOf(c)
}
