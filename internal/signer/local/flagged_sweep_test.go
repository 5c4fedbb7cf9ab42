package local_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// Rule DEP-28: the signer compares what a sweep leaves with the flagged amount, and refuses a sweep
// that leaves less.
func TestASweepThatLeavesLessThanIsFlaggedIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := signertest.Open(t, signpolicy.Policy{Chains: signertest.NewPolicy().Chains}, nil)
	for _, c := range []struct {
		name         string
		has, flagged uint64
		want         string
	}{
		{"leaves all that is flagged", 12, 7, ""},
		{"takes one unit of it", 12, 8, signer.RefusedHeld},
		{"takes more than there is", 4, 0, signer.RefusedHeld},
	} {
		i := sweepOf(t, s, "sw_"+c.name, "ann")
		i.WalletBalance = &signer.WalletBalance{Total: money.Units(c.has), Flagged: money.Units(c.flagged)}
		_, err := s.AdmitIntent(t.Context(), i)
		if got := refusal(err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	// An amount that was flagged after the first admission counts when the intent is admitted
	// again.
	i := sweepOf(t, s, "sw_again", "ann")
	i.WalletBalance = &signer.WalletBalance{Total: money.Units(12), Flagged: money.Units(7)}
	if _, err := s.AdmitIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	i.WalletBalance = &signer.WalletBalance{Total: money.Units(12), Flagged: money.Units(8)}
	if _, err := s.AdmitIntent(t.Context(), i); refusal(err) != signer.RefusedHeld {
		t.Errorf("asked again: got %v, want it refused", err)
	}
}
