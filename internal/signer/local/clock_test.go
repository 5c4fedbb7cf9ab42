package local_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/clock"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// clockEnv is an installation whose host has a clock that can be set, and one that is monotonic:
// pass moves both, set only the first.
type clockEnv struct {
	*installation
	passed time.Duration
}

func newClockEnv(t *testing.T) *clockEnv {
	t.Helper()
	h := &clockEnv{installation: newInstallation(t, t.TempDir())}
	h.conf.Elapsed = h.elapsed
	return h
}

func (h *clockEnv) elapsed() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passed
}

func (h *clockEnv) pass(d time.Duration) {
	h.installation.pass(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passed += d
}

func (h *clockEnv) set(d time.Duration) { h.installation.pass(d) }

func wantAdmitted(t *testing.T, s signer.Signer, id string, units uint64, want string) {
	t.Helper()
	if _, err := s.AdmitIntent(t.Context(), payment(id, units)); refusal(err) != want {
		t.Errorf("%s of %d: got %v, want %q", id, units, err, want)
	}
}

// spent opens a signer that has paid 200 of its 250 a day.
func (h *clockEnv) spent(t *testing.T) *local.Signer {
	t.Helper()
	s := h.open(t)
	pay(t, s, payment("wd_1", 100), 0)
	pay(t, s, payment("wd_2", 100), 1)
	return s
}

func (h *clockEnv) confirm(t *testing.T, s *local.Signer) *local.Signer {
	t.Helper()
	if _, err := s.ConfirmClock(h.conf.Clock(), "read on another clock"); err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	return h.open(t)
}

// H-79: a clock that is set forward while the signer runs releases no limit. Payments with limits
// by time are refused until the clock is right again.
func TestAClockThatJumpsWhileTheSignerRunsFreesNoLimit(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.spent(t)
	for _, jump := range []time.Duration{25 * time.Hour, 10 * 365 * 24 * time.Hour} {
		h.set(jump)
		before := headOf(t, s)
		wantAdmitted(t, s, "wd_3", 51, signer.RefusedClock)
		if after := headOf(t, s); after != before {
			t.Errorf("head: got %+v, want %+v: a refusal takes nothing", after, before)
		}
		// Addresses are issued, and their entries do not advance the signer's time.
		signertest.IssueAddress(t, s, signertest.Deposit(org, jump.String()))
		h.set(-jump)
		wantAdmitted(t, s, "wd_3", 51, signer.PolicyLimit)
	}
	h.set(50 * time.Minute) // less than the signer accepts
	wantAdmitted(t, s, "wd_3", 51, signer.PolicyLimit)
	signertest.IssueAddress(t, s, signertest.Deposit(org, "early"))
	h.set(-50 * time.Minute)
	signertest.IssueAddress(t, s, signertest.Deposit(org, "late")) // not before the entry above it
	closeSigner(t, s)
	s = h.open(t)
	h.pass(24 * time.Hour)
	wantAdmitted(t, s, "wd_3", 100, "")
}

// The signer was stopped, and the clock shows a longer stop than the signer has noted.
func TestAClockThatJumpsWhileTheSignerIsStoppedIsConfirmedByAPerson(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.spent(t)
	closeSigner(t, s)
	h.set(25 * time.Hour)
	s = h.open(t)
	wantAdmitted(t, s, "wd_3", 51, signer.RefusedClock)
	if now := s.ClockStatus(); now.AheadBy != 25*time.Hour || now.BehindBy != 0 {
		t.Errorf("got %+v, want 25 hours ahead", now)
	}
	// A transaction that was signed before is signed again.
	pay(t, s, payment("wd_1", 100), 0)
	if _, err := s.ConfirmClock(h.conf.Clock().Add(-6*time.Minute), "why"); err == nil ||
		!strings.Contains(err.Error(), "set the clock first") {
		t.Errorf("a person who reads another time: got %v, want it refused", err)
	}
	if _, err := s.ConfirmClock(h.conf.Clock(), ""); refusal(err) != signer.RefusedMalformed {
		t.Errorf("without a reason: got %v", err)
	}
	s = h.confirm(t, s)
	if _, err := s.ConfirmClock(h.conf.Clock(), "again"); err == nil ||
		!strings.Contains(err.Error(), "nothing to confirm") {
		t.Errorf("a clock that agrees: got %v, want it refused", err)
	}
	wantAdmitted(t, s, "wd_3", 100, "")
	wantAdmitted(t, s, "wd_4", 100, "")
	wantAdmitted(t, s, "wd_5", 100, signer.PolicyLimit)
}

// An idle signer writes no entries. It notes its time, so a restart needs no confirmation.
func TestAnIdleSignerThatIsRestartedAsksNobody(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.spent(t)
	h.pass(30 * time.Hour)
	closeSigner(t, s)
	h.set(10 * time.Minute) // duration of the stop
	s = h.open(t)
	wantAdmitted(t, s, "wd_3", 100, "")

	// A note of another journal, or of more entries than there are, is ignored.
	h.pass(30 * time.Hour)
	closeSigner(t, s)
	file := clock.NotePath(h.conf.Journal)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var noted map[string]any
	if err := json.Unmarshal(text, &noted); err != nil {
		t.Fatal(err)
	}
	seq := noted["seq"].(float64)
	for what, change := range map[string]func(){
		"of another journal": func() { noted["journalId"] = "jrn_x" },
		"of more entries":    func() { noted["seq"] = seq + 1 },
	} {
		change()
		if err := os.WriteFile(file, marshal(t, noted), 0o600); err != nil {
			t.Fatal(err)
		}
		s = h.open(t)
		if got := s.ClockStatus(); got.AheadBy != 30*time.Hour {
			t.Errorf("a note %s: got %+v, want it passed over", what, got)
		}
		closeSigner(t, s)
		if err := json.Unmarshal(text, &noted); err != nil {
			t.Fatal(err)
		}
	}
}

// The clock was wrong and a person confirmed it, or an older program used it: entries are dated ten
// years ahead. Their amounts count for a day, and cooling-offs continue.
func TestTimesThatWereWrongAreRepairedByAPerson(t *testing.T) {
	t.Parallel()
	const years = 10 * 365 * 24 * time.Hour
	h := newClockEnv(t)
	s := h.spent(t)
	closeSigner(t, s)
	h.set(years)
	s = h.confirm(t, h.open(t))
	wantAdmitted(t, s, "wd_3", 40, "") // one entry in ten years
	h.set(-years)
	h.pass(time.Hour)

	if now := s.ClockStatus(); now.BehindBy < years-2*time.Hour {
		t.Errorf("got %+v, want ten years behind", now)
	}
	closeSigner(t, s)
	s = h.open(t)
	head := headOf(t, s).Seq
	s = h.confirm(t, s)
	if got := headOf(t, s).Seq; got != head+1 {
		t.Errorf("head: got %d, want the repair in entry %d", got, head+1)
	}
	// 100 and 100 of an hour ago, which the jump had released, and 40 that count from now on.
	wantAdmitted(t, s, "wd_4", 11, signer.PolicyLimit)
	wantAdmitted(t, s, "wd_4", 10, "")
	closeSigner(t, s)
	s = h.open(t) // the same after a restart
	wantAdmitted(t, s, "wd_5", 1, signer.PolicyLimit)
	h.pass(23 * time.Hour)
	wantAdmitted(t, s, "wd_5", 100, "")
	wantAdmitted(t, s, "wd_6", 100, "")
	wantAdmitted(t, s, "wd_7", 1, signer.PolicyLimit)
	h.pass(time.Hour)
	wantAdmitted(t, s, "wd_7", 50, "")
	at, err := time.Parse(time.RFC3339Nano, lastRecord(t, s).RecordedAt)
	if err != nil || !at.Equal(h.conf.Clock()) {
		t.Errorf("last entry: got %v %v, want the clock's %v", at, err, h.conf.Clock())
	}
}

func lastRecord(t *testing.T, s signer.Signer) (r signer.Record) {
	t.Helper()
	entries, err := s.EntriesAfter(t.Context(), headOf(t, s).Seq-1, 1)
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %v %v, want the last entry", entries, err)
	}
	if err := unmarshal(entries[0].Body, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The limits also end without a repair: the signer's time advances although the clock is behind.
func TestAClockThatIsBehindHoldsNoLimitForEver(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.spent(t)
	h.set(-300 * 24 * time.Hour)
	h.pass(23 * time.Hour)
	wantAdmitted(t, s, "wd_3", 51, signer.PolicyLimit)
	closeSigner(t, s)
	s = h.open(t)
	wantAdmitted(t, s, "wd_3", 51, signer.PolicyLimit)
	h.pass(time.Hour)
	wantAdmitted(t, s, "wd_3", 100, "")
}

// A journal with a repair is adopted, with the limits that the repair left.
func TestAJournalWithARepairIsAdopted(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	s := h.spent(t)
	closeSigner(t, s)
	h.set(10000 * time.Hour)
	s = h.confirm(t, h.open(t))
	pay(t, s, payment("wd_3", 40), 2)
	h.set(-10000 * time.Hour)
	s = h.confirm(t, s)
	copied, err := s.EntriesAfter(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeSigner(t, s)
	h.conf.Journal += ".adopted"
	if err := local.AdoptJournal(h.conf, h.seed, copied,
		[]adopt.ChainNonce{{Wallet: signertest.Treasury(org), Chain: signertest.Chain, NextNonce: 3}}); err != nil {
		t.Fatal(err)
	}
	s = h.open(t)
	wantAdmitted(t, s, "wd_4", 11, signer.PolicyLimit)
	wantAdmitted(t, s, "wd_4", 10, "")
}

// A clock that is set forward ends no cooling-off and releases no daily fees, whatever else is
// limited. What depends on the time waits for a person.
func TestEachLimitOfTimeWaitsForAClockThatJumped(t *testing.T) {
	t.Parallel()
	unlimited := func(c *signpolicy.Chain) {
		*c = signpolicy.Chain{SignerID: c.SignerID, FeeMax: c.FeeMax, GasMax: c.GasMax, Unlimited: true}
	}
	for name, c := range map[string]struct {
		limit func(c *signpolicy.Chain)
		off   string // cooling-off
		want  string
	}{
		"the cooling-off alone": {unlimited, "24h", signer.RefusedClock},
		"the fees of a day alone": {func(c *signpolicy.Chain) {
			unlimited(c)
			c.FeeDayMax = c.FeeMax
		}, "0s", signer.RefusedClock},
		"nothing that depends on it": {unlimited, "0s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newClockEnv(t)
			policy := h.conf.Policy.Chains[signertest.Chain]
			c.limit(&policy)
			h.conf.Policy.Chains = map[chain.Name]signpolicy.Chain{signertest.Chain: policy}
			h.conf.Policy.WhitelistCoolingOff = c.off
			s := h.open(t)
			signertest.IssueAddress(t, s, signertest.Treasury(org))
			if _, err := s.EndorseAddress(t.Context(), h.endorsement("wla_1")); err != nil {
				t.Fatal(err)
			}
			h.set(25 * time.Hour)
			if _, err := s.AdmitIntent(t.Context(), orgPayment("wd_1", "wla_1")); refusal(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
