package dispatch

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Both tables have the same purposes and agree on what both say. Each is written by hand: the signer
// decides by its own.
func TestTheKindsOfDispatchAndOfTheSignerAgree(t *testing.T) {
	t.Parallel()
	type shared struct {
		payee                                  string
		fromTreasury, needsGrant, needsBalance bool
		createsNonceAccount, createsAccount    bool
		closes, consolidates, movesGas         bool
		grantsAllowance, revokesAllowance      bool
	}
	theirs := map[signer.Purpose]shared{}
	for _, k := range signer.Kinds() {
		theirs[k.Purpose] = shared{
			string(k.Payee), k.Source == signer.FromTreasury, k.NeedsGrant, k.NeedsBalance,
			k.CreatesNonceAccount, k.CreatesTokenAccount, k.ClosesTokenAccount, k.Consolidates, k.PaysGas,
			k.GrantsAllowance, k.RevokesAllowance,
		}
	}
	seen := map[signer.Purpose]bool{}
	for _, k := range Kinds() {
		ours := shared{
			string(k.Payee), k.Source == FromTreasury, k.NeedsGrant, k.ReportsBalance,
			k.CreatesNonceAccount, k.CreatesTokenAccount, k.ClosesTokenAccount, k.Consolidates, k.movesGas(),
			k.GrantsAllowance, k.RevokesAllowance,
		}
		if their, ok := theirs[k.Purpose]; !ok || ours != their || seen[k.Purpose] {
			t.Errorf("%s: got %+v, and the signer has %+v (an entry: %v; listed twice: %v)",
				k.Purpose, ours, their, ok, seen[k.Purpose])
		}
		seen[k.Purpose] = true
	}
	for purpose := range theirs {
		if !seen[purpose] {
			t.Errorf("%s has no kind of order", purpose)
		}
	}
}

func TestEveryKindIsWhole(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		if k.AfterRecall == "" || k.failpoints.afterProof == "" || k.failpoints.afterEnd == "" {
			t.Errorf("%s lacks a sentence or a failpoint: %+v", k.Purpose, k)
		}
		for _, reason := range []string{k.NotReplaceable, k.NotCancellable} {
			if reason != "" && !strings.HasPrefix(reason, "Order %[1]s ") {
				t.Errorf("%s: the sentence %q does not name the order", k.Purpose, reason)
			}
		}
		if k.ReservedBySubmitter && k.Reserves == "" || k.MovesFlagged && k.Reserves != wallet.Reserved {
			t.Errorf("%s: nothing is reserved that a submitter could reserve or hold: %+v", k.Purpose, k)
		}
		// A cancel is another transaction in the slot, as a replacement is.
		if k.NotReplaceable != "" && k.NotCancellable == "" {
			t.Errorf("%s can be cancelled and not replaced", k.Purpose)
		}
	}
}
