package local_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

func (in *installation) endorsement(id string) signer.Endorsement {
	return signer.Endorsement{
		OrgID: org, ID: id, Chain: signertest.Chain, Address: signertest.Stranger,
		LabelHash: signer.HashLabel("our exchange"), NotBefore: signer.FormatMicros(in.conf.Clock()),
	}
}

func orgPayment(id, whitelisted string) signer.Intent {
	i := payment(id, 7)
	i.CustomerID, i.WhitelistedID = "", whitelisted
	return i
}

// The server asks for no cooling-off. The signer's own policy demands a day, by its own clock.
func TestTheSignerCoolsOffByItsOwnPolicyAndClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		after  time.Duration
	}{"by default": {"", 24 * time.Hour}, "as the policy says": {"1h30m", 90 * time.Minute}, "not at all": {"0s", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newInstallation(t, t.TempDir())
			in.conf.Policy.WhitelistCoolingOff = c.policy
			s := in.open(t)
			signertest.IssueAddress(t, s, signertest.Treasury(org))
			done, err := s.EndorseAddress(t.Context(), in.endorsement("wla_1"))
			if err != nil {
				t.Fatal(err)
			}
			if want := signer.FormatMicros(in.conf.Clock().Add(c.after)); done.UsableFrom != want {
				t.Errorf("got usable from %s, want %s", done.UsableFrom, want)
			}
			if c.after > 0 {
				in.pass(c.after - time.Nanosecond)
				if _, err := s.AdmitIntent(t.Context(),
					orgPayment("wd_1", "wla_1")); refusal(err) != signer.CoolingOff {
					t.Errorf("a moment before: got %v, want %s", err, signer.CoolingOff)
				}
				in.pass(time.Nanosecond)
			}
			if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); err != nil {
				t.Errorf("when it is over: got %v", err)
			}
		})
	}
}

// An address that was removed and is added again is new to the signer: its cooling-off begins
// again, however long it was on the list before.
func TestAnAddressThatIsAddedAgainCoolsOffAgain(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	in.conf.Policy.WhitelistCoolingOff = "24h"
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	if _, err := s.EndorseAddress(t.Context(), in.endorsement("wla_1")); err != nil {
		t.Fatal(err)
	}
	in.pass(48 * time.Hour)
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); err != nil {
		t.Fatalf("before it is removed: got %v", err)
	}
	if _, err := s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org, ID: "wla_1"}); err != nil {
		t.Fatal(err)
	}
	done, err := s.EndorseAddress(t.Context(), in.endorsement("wla_2"))
	if err != nil {
		t.Fatal(err)
	}
	if want := signer.FormatMicros(in.conf.Clock().Add(24 * time.Hour)); done.UsableFrom != want {
		t.Errorf("added again: got usable from %s, want %s", done.UsableFrom, want)
	}
	for i, when := range []string{"at once", "after a restart"} {
		if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_2", "wla_2")); refusal(err) != signer.CoolingOff {
			t.Errorf("%s: got %v, want %s", when, err, signer.CoolingOff)
		}
		if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_3", "wla_1")); refusal(err) != signer.RefusedWhitelist {
			t.Errorf("%s, by the id that was removed: got %v, want %s", when, err, signer.RefusedWhitelist)
		}
		if i == 0 {
			closeSigner(t, s)
			s = in.open(t)
		}
	}
	in.pass(24*time.Hour - time.Nanosecond)
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_2", "wla_2")); refusal(err) != signer.CoolingOff {
		t.Errorf("a moment before it is over: got %v, want %s", err, signer.CoolingOff)
	}
	in.pass(time.Nanosecond)
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_2", "wla_2")); err != nil {
		t.Errorf("when it is over: got %v", err)
	}
}

// A later policy with a longer cooling-off also applies to earlier endorsements. One with a shorter
// cooling-off does not shorten what was announced.
func TestALongerCoolingOffHoldsForWhatIsEndorsed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	in.conf.Policy.WhitelistCoolingOff = "2h"
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	if _, err := s.EndorseAddress(t.Context(), in.endorsement("wla_1")); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	in.pass(90 * time.Minute)
	for policy, want := range map[string]string{
		"0s": signer.CoolingOff, "2h": signer.CoolingOff,
		"3h": signer.CoolingOff,
	} {
		in.conf.Policy.WhitelistCoolingOff = policy
		s := in.open(t)
		if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); refusal(err) != want {
			t.Errorf("with %s after 90 minutes: got %v, want %s", policy, err, want)
		}
		closeSigner(t, s)
	}
	in.pass(time.Hour)
	for _, c := range []struct{ policy, want string }{{"3h", signer.CoolingOff}, {"1h", ""}} {
		in.conf.Policy.WhitelistCoolingOff = c.policy
		s := in.open(t)
		if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); refusal(err) != c.want {
			t.Errorf("with %s after 150 minutes: got %v, want %q", c.policy, err, c.want)
		}
		closeSigner(t, s)
	}
}

func TestAPolicyRefusesACoolingOffThatIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "-1h", "24", "721h"} {
		p := signertest.NewPolicy()
		p.WhitelistCoolingOff = text
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "whitelistCoolingOff") {
			t.Errorf("%q: got %v, want it refused", text, err)
		}
	}
}

// An endorsement needs the MAC that the service makes when an operator asks for it: a row is not
// enough.
func TestOnlyWhatAnOperatorAskedForIsEndorsed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	key, err := signer.NewGrantKey(make([]byte, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	in.conf.Grants = key
	s := in.open(t)
	e := in.endorsement("wla_1")
	if _, err := s.EndorseAddress(t.Context(), e); refusal(err) != signer.RefusedGrant {
		t.Errorf("without a MAC: got %v, want %s", err, signer.RefusedGrant)
	}
	e.MAC = key.EndorsementMAC(e)
	changed := e
	changed.Address = signertest.Token
	if _, err := s.EndorseAddress(t.Context(), changed); refusal(err) != signer.RefusedGrant {
		t.Errorf("with that of another address: got %v, want %s", err, signer.RefusedGrant)
	}
	done, err := s.EndorseAddress(t.Context(), e)
	if err != nil || len(done.MAC) != 0 || strings.Contains(string(done.Entry.Body), "mac") {
		t.Errorf("got %+v %v, want it endorsed and the MAC forgotten", done, err)
	}
}

// forge returns a copy with another text in its entries, whose hashes fit.
func forge(copied []signer.Entry, old, replacement string) []signer.Entry {
	forged := slices.Clone(copied)
	prev := signer.Head{}
	for n, e := range forged {
		e.Body = json.RawMessage(strings.ReplaceAll(string(e.Body), old, replacement))
		e.Prev = prev.Hash
		e.Hash = e.ComputeHash()
		forged[n], prev = e, e.Head()
	}
	return forged
}

// A lost journal that is rebuilt from its copy takes over what this seed endorsed, and nothing that
// was written into the copy. Every entry cools off again: the copy may lack the removal of an
// address.
func TestAnAdoptedJournalHasOnlyEndorsementsOfItsSeed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, t.TempDir())
	s := in.open(t)
	signertest.IssueAddress(t, s, signertest.Treasury(org))
	for _, id := range []string{"wla_1", "wla_2"} {
		if _, err := s.EndorseAddress(t.Context(), in.endorsement(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: org, ID: "wla_2"}); err != nil {
		t.Fatal(err)
	}
	copied, err := s.EntriesAfter(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)

	adopt := func(copied []signer.Entry) (*installation, error) {
		to := newInstallation(t, t.TempDir())
		to.seed, to.now = in.seed, in.now.Add(3*time.Hour)
		to.conf.Journal += ".adopted"
		to.conf.Policy.WhitelistCoolingOff = "2h"
		return to, local.AdoptJournal(to.conf, in.seed, copied, nil)
	}
	forged := forge(copied, string(signertest.Stranger), string(signertest.Token))
	if _, err := adopt(forged); err == nil || !strings.Contains(err.Error(), signer.ErrEndorsement.Error()) {
		t.Errorf("another address: got %v, want %v", err, signer.ErrEndorsement)
	}
	without := slices.DeleteFunc(slices.Clone(copied), func(e signer.Entry) bool {
		return strings.Contains(string(e.Body), `"endorse":`)
	})
	if _, err := adopt(without); err == nil || !strings.Contains(err.Error(), signer.RefusedWhitelist) {
		t.Errorf("a payment without its endorsement: got %v, want %s", err, signer.RefusedWhitelist)
	}

	next, err := adopt(copied)
	if err != nil {
		t.Fatal(err)
	}
	s = next.open(t)
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); err != nil {
		t.Errorf("what was admitted: got %v", err)
	}
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_2", "wla_2")); refusal(err) != signer.RefusedWhitelist {
		t.Errorf("what was removed: got %v, want %s", err, signer.RefusedWhitelist)
	}
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_3", "wla_1")); refusal(err) != signer.CoolingOff {
		t.Errorf("what was usable before: got %v, want %s", err, signer.CoolingOff)
	}
	next.pass(2 * time.Hour)
	if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_3", "wla_1")); err != nil {
		t.Errorf("two hours later: got %v", err)
	}
}
