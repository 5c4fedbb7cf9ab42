package local_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

func grantKey(t *testing.T, fill byte) *signer.GrantKey {
	t.Helper()
	k, err := signer.NewGrantKey(bytes.Repeat([]byte{fill}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// granted returns a payment with the grant of a payment that needed no approval.
func granted(k *signer.GrantKey, id string, units uint64) signer.Intent {
	i := payment(id, units)
	i.Grant = k.MakeGrant(signer.Terms{
		OrgID: org, WithdrawalID: i.ID, Chain: i.Chain, MintID: i.MintID, Contract: i.Contract, To: i.To,
		Amount: i.Amount, FeeMode: "ORGANIZATION",
	}, money.Zero, 0, 0, nil)
	return i
}

// A grant ends with its withdrawal: a withdrawal that people ended is never admitted with its
// former grant.
func TestAGrantEndsWhenItsWithdrawalIsVoided(t *testing.T) {
	t.Parallel()
	in, k := newInstallation(t, t.TempDir()), grantKey(t, 1)
	in.conf.Grants = k
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	admit := func(i signer.Intent, want string) {
		t.Helper()
		if _, err := s.AdmitIntent(t.Context(), i); refusal(err) != want {
			t.Errorf("%s: got %v, want %q", i.ID, err, want)
		}
	}
	admit(granted(k, "wd_1", 100), "")
	admit(granted(k, "wd_2", 100), "")
	third := granted(k, "wd_3", 100)
	admit(third, signer.PolicyLimit)
	first, err := s.VoidIntent(t.Context(), k.MakeVoid(org, "wd_3"))
	if err != nil {
		t.Fatal(err)
	}
	in.pass(25 * time.Hour)
	admit(third, signer.RefusedVoid)
	closeSigner(t, s)
	s = in.open(t)
	admit(third, signer.RefusedVoid)

	// The same void again gives the same entry, also after the key has changed.
	closeSigner(t, s)
	in.conf.Grants = grantKey(t, 2)
	s = in.open(t)
	if again, err := s.VoidIntent(t.Context(), k.MakeVoid(org, "wd_3")); err != nil || again.Hash != first.Hash {
		t.Errorf("again: got %v %v, want entry %d", again, err, first.Seq)
	}
	var r signer.Record
	if err := unmarshal(first.Body, &r); err != nil || r.Void == nil || len(r.Void.MAC) > 0 {
		t.Errorf("got %s, want the journal without the MAC", first.Body)
	}
}

func TestOnlyWhoHasTheKeyVoidsAndOnlyWithoutASlot(t *testing.T) {
	t.Parallel()
	in, k := newInstallation(t, t.TempDir()), grantKey(t, 1)
	in.conf.Grants = k
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	for _, i := range []signer.Intent{granted(k, "wd_1", 10), granted(k, "wd_2", 10)} {
		if _, err := s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	pay := func(id string) error { return trySign(t, s, payment(id, 10), signer.Pay, 0, 60_000) }
	if err := pay("wd_1"); err != nil {
		t.Fatal(err)
	}
	sweep := sweepOf(t, s, "sw_1", "alice")
	if _, err := s.AdmitIntent(t.Context(), sweep); err != nil {
		t.Fatal(err)
	}
	otherID := k.MakeVoid(org, "wd_2")
	otherID.ID = "wd_9"
	for what, c := range map[string]struct {
		v    signer.Void
		want string
	}{
		"nobody's word":              {signer.Void{OrgID: org, ID: "wd_2"}, signer.RefusedGrant},
		"another key's":              {grantKey(t, 2).MakeVoid(org, "wd_2"), signer.RefusedGrant},
		"that of another payment":    {otherID, signer.RefusedGrant},
		"another organization's":     {k.MakeVoid("org_2", "wd_2"), signer.RefusedIntent},
		"a payment that has a slot":  {k.MakeVoid(org, "wd_1"), signer.RefusedSlot},
		"a sweep, which pays nobody": {k.MakeVoid(org, "sw_1"), signer.RefusedIntent},
		"nothing":                    {signer.Void{}, signer.RefusedMalformed},
	} {
		before := headOf(t, s)
		if _, err := s.VoidIntent(t.Context(), c.v); refusal(err) != c.want {
			t.Errorf("%s: got %v, want %s", what, err, c.want)
		}
		if after := headOf(t, s); after != before {
			t.Errorf("%s: a refusal wrote something", what)
		}
	}
	// An intent that was admitted and has no slot is voided. Nothing that pays it is signed
	// afterwards: its slot can only be cancelled.
	if _, err := s.VoidIntent(t.Context(), k.MakeVoid(org, "wd_2")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.VoidIntent(t.Context(), k.MakeVoid("org_2", "wd_2")); refusal(err) != signer.RefusedVoid {
		t.Errorf("voided for another organization: got %v", err)
	}
	if got := refusal(trySign(t, s, payment("wd_2", 10), signer.Pay, 1, 60_000)); got != signer.RefusedVoid {
		t.Errorf("sign what was voided: got %q, want %s", got, signer.RefusedVoid)
	}
	if _, err := s.AdmitIntent(t.Context(), granted(k, "wd_2", 10)); refusal(err) != signer.RefusedVoid {
		t.Errorf("admit what was admitted and voided: got %v", err)
	}
	if err := trySign(t, s, payment("wd_2", 10), signer.Cancel, 1, 60_000); err != nil {
		t.Errorf("fill the slot of what was voided: got %v", err)
	}
	closeSigner(t, s)
	s = in.open(t) // the journal is the same for its readers
	if got := refusal(trySign(t, s, payment("wd_2", 10), signer.Pay, 1, 61_000)); got != signer.RefusedVoid {
		t.Errorf("after a restart: got %q, want %s", got, signer.RefusedVoid)
	}
}
