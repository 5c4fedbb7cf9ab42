package depositswap

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

// The drawing is the table, and the table lets every status but the end be completed.
func TestTheStatesAreDrawn(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, tr := range transitions {
		moves = append(moves, statediagram.Transition{
			From: string(tr.From), To: string(tr.To), Cause: tr.Cause, Event: string(tr.Event),
		})
	}
	statediagram.CheckDiagram(t, "states.md", "a deposit swap", moves)
	for _, from := range Statuses {
		if got := isAllowed(from, Completed); got != (from != Completed) {
			t.Errorf("%s can be completed: %v", from, got)
		}
	}
}

// No report completes a deposit swap or moves a completed one, and what a report moves is in the table. Rule DSW-8.
func TestNoReportCompletesADepositSwap(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, from := range Statuses {
		for _, reported := range provider.Statuses {
			for _, expiresAt := range []time.Time{now.Add(time.Hour), now.Add(-time.Hour)} {
				d := DepositSwap{Status: from, ExpiresAt: expiresAt}
				got := nextStatus(d, provider.Report{Status: reported}, now)
				switch {
				case got == from:
				case got == Completed || from == Completed || !isAllowed(from, got):
					t.Errorf("%s after the report %s: got %s", from, reported, got)
				}
			}
		}
	}
}

// A deposit swap without an end is looked at, and one with nothing to expect is not.
func TestADepositSwapIsLookedAtWhileSomethingMayCome(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, status := range Statuses {
		d := DepositSwap{Status: status, CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour)}
		if got := nextLook(d, true, now); got == nil || got.Sub(now) > time.Minute {
			t.Errorf("%s with an arrival that waits for its payers: got %v", status, got)
		}
		if got := nextLook(d, false, now); (got == nil) != (status == Completed) {
			t.Errorf("%s: got %v", status, got)
		}
		d.ExpiresAt = now.Add(-lookLast - time.Minute)
		if got := nextLook(d, false, now); got != nil {
			t.Errorf("%s long after its end: got %v, want never", status, got)
		}
	}
}

// The name of a token in the API is its chain in lower case and its contract.
func TestATokenHasOneName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bitcoin:native": "bitcoin:native", "BITCOIN:native": "bitcoin:native",
		"Near:usdt.tether-token.near":                         "near:usdt.tether-token.near",
		"ethereum:0xDAC17F958D2ee523a2206206994597C13D831ec7": "ethereum:0xdac17f958d2ee523a2206206994597c13d831ec7",
	} {
		token, err := parseTokenID(text)
		if err != nil || tokenID(token) != want {
			t.Errorf("%s: got %s and %v, want %s", text, tokenID(token), err, want)
		}
	}
	for _, text := range []string{"", "bitcoin", "bitcoin:", ":native"} {
		if token, err := parseTokenID(text); err == nil {
			t.Errorf("%q: got %v", text, token)
		}
	}
}

// On a chain whose addresses the service does not know, hexadecimal ones alone have several spellings.
func TestAnAddressOfAnUnknownChainIsCompared(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]chain.Address{
		"0xDAC17F958D2ee523a2206206994597C13D831ec7": "0xdac17f958d2ee523a2206206994597c13d831ec7",
		"0xdac17f958d2ee523a2206206994597c13d831ec7": "0xdac17f958d2ee523a2206206994597c13d831ec7",
		"TJRabPrwbZy45sbavfcjinPJC18kjpRTv8":         "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
	} {
		if got, err := parseProviderAddress(nil, text); err != nil || got != want {
			t.Errorf("%s: got %s and %v, want %s", text, got, err, want)
		}
	}
}
