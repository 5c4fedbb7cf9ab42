package cli

import (
	"bytes"
	"strings"
	"testing"
)

// run runs a command line in a folder without a local world.
func run(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAMisusedCommandSaysWhereItsHelpIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"frobnicate"}, `Run "coffer --help"`},
		{[]string{"withdrawals"}, `Run "coffer withdrawals --help"`},
		{[]string{"withdrawals", "approve"}, `Run "coffer withdrawals approve --help"`},
		{[]string{"local", "faucet"}, `Run "coffer local faucet --help"`},
		{[]string{"settings", "set"}, `Run "coffer settings set --help"`},
	} {
		if code, _, err := run(t, c.args...); code != 2 || !strings.Contains(err, c.hint) {
			t.Errorf("coffer %v: got %d %q, want 2 and %q", c.args, code, err, c.hint)
		}
	}
}

func TestNoCommandIsAnsweredWithTheHelp(t *testing.T) {
	t.Parallel()
	if code, out, _ := run(t); code != 0 || !strings.Contains(out, "withdrawals approve") {
		t.Errorf("got %d %q, want 0 and the commands", code, out)
	}
}

func TestSettingsAreReadWholeBeforeOneIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []string
		want  string
	}{
		{nil, "nothing to set"},
		{[]string{"customerWithdrawUsdThreshold=-1"}, "give dollars"},
		{[]string{"customerWithdrawUsdThreshold="}, "give dollars"},
		{[]string{"requireWithdrawIdempotency=yes"}, "true or false"},
		{[]string{"requireWithdrawIdempotency=true", "nonsense=1"}, "no setting"},
		{[]string{"requireWithdrawIdempotency=true", "customerSwapsEnabled=true"}, "does not have swaps"},
		{[]string{"requireWithdrawIdempotency=true", "requireWithdrawIdempotency=false"}, "twice"},
		{[]string{"requireWithdrawIdempotency"}, "key=value"},
	} {
		if _, err := readChanges(c.words); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.words, err, c.want)
		}
	}
	if changes, err := readChanges([]string{"customerWithdrawUsdThreshold=10000.00", "requireWithdrawIdempotency=false"}); err != nil || changes.CustomerWithdrawUSDThreshold == nil || changes.RequireWithdrawIdempotency == nil {
		t.Errorf("got %+v and %v, want both", changes, err)
	}
}
