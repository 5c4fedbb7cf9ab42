package signertest

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// Approvers is a signer without limits whose policy names the site of the passkeys. Passkeys count at once, and those
// that are founded where a rule exists after three days.
type Approvers struct {
	*local.Signer
	AttestKey    []byte
	Installation string
	Log          *bytes.Buffer // what the signer logs
	journal      string
	now          func() time.Time
}

// OpenApprovers makes such a signer; it closes at the end of the test.
func OpenApprovers(t testing.TB, grants *signer.GrantKey) *Approvers {
	t.Helper()
	return OpenApproversAt(t, grants, nil)
}

// OpenApproversAt is OpenApprovers with the time of a test.
func OpenApproversAt(t testing.TB, grants *signer.GrantKey, now func() time.Time) *Approvers {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	policy := newUnlimitedPolicy()
	policy.Approvers = &signpolicy.Approvers{
		RelyingParties: []signpolicy.RelyingParty{{ID: RPID, Origins: []string{Origin}}}, CoolingOff: "0s",
	}
	logged := &bytes.Buffer{}
	conf := local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Policy: policy, Grants: grants, Clock: now,
		Log: slog.New(slog.NewTextHandler(logged, nil)),
	}
	if err := local.CreateJournal(conf, seed); err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(conf, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the signer: %v", err)
		}
	})
	attest := seed.AttestKey().PublicKey()
	a := &Approvers{
		Signer: s, AttestKey: attest, Installation: hex.EncodeToString(attest), Log: logged, journal: conf.Journal,
		now: now,
	}
	if now == nil {
		a.now = time.Now
	}
	return a
}

// Found makes a person at the host name the fingerprint of passkeys, and enrols them.
func (a *Approvers) Found(t testing.TB, passkeys ...*Passkey) {
	t.Helper()
	for _, p := range passkeys {
		request := p.Request(t, a.Installation, a.now().Add(time.Hour))
		order := hostorders.Order{
			OrgID: p.OrgID, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(a.Installation),
			Reason: "read out by telephone",
		}
		if err := hostorders.Append(a.journal, order, a.now()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.EnrolKey(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
}

// Set makes passkeys sign the next version of a rule.
func (a *Approvers) Set(t testing.TB, rule signer.ApprovalRule, signers ...*Passkey) {
	t.Helper()
	request := signer.RuleRequest{ApprovalRule: rule}
	for _, p := range signers {
		request.SignedBy = append(request.SignedBy, p.Sign(t, a.Installation, a.now().Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(rule, c) }))
	}
	if _, err := a.SetRule(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// Retire makes a passkey sign the end of another one, or of itself.
func (a *Approvers) Retire(t testing.TB, ended, signing *Passkey) {
	t.Helper()
	request := signer.RetireRequest{Retirement: signer.Retirement{OrgID: ended.OrgID, ID: ended.ID}}
	signature := signing.Sign(t, a.Installation, a.now().Add(time.Hour),
		func(c signer.StatementContext) signer.Statement { return signer.RetireStatement(request.Retirement, c) })
	request.SignedBy = &signature
	if _, err := a.RetireKey(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}
