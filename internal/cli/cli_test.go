package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/webhooks/event"
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

func TestAWrongArgumentIsAnsweredWithWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"status"}, []string{"The commands of coffer are serve,", "withdrawals"}},
		{
			[]string{"freezes", "status"},
			[]string{"The commands of coffer freezes are list, put, lift.", "Usage: coffer freezes list"},
		},
		{[]string{"withdrawals", "status"}, []string{"The commands of coffer withdrawals are list, approve, remove"}},
		{[]string{"withdrawals", "approve", "wd_1", "wd_2"}, []string{"Usage: coffer withdrawals approve <id>"}},
	} {
		code, _, err := run(t, c.args...)
		for _, want := range append(c.want, `--help" to see its usage`) {
			if code != 2 || !strings.Contains(err, want) {
				t.Errorf("coffer %v: got %d %q, want 2 and %q", c.args, code, err, want)
			}
		}
	}
	// Without a verb it lists, and so needs a world first.
	if code, _, err := run(t, "freezes"); code != 1 || !strings.Contains(err, "no local world runs here") {
		t.Errorf("coffer freezes: got %d %q, want its list", code, err)
	}
}

func TestTheProgramSaysWhichItIs(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		code, out, _ := run(t, args...)
		for _, want := range []string{"commit ", runtime.Version(), "API v1", event.APIVersion} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("coffer %v: got %d %q, want %q in it", args, code, out, want)
			}
		}
	}
}

// apiTerm matches what only a program that calls the interface understands.
var apiTerm = regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) ?/|\bPATCH\b|Retry-After|idempotencyKey|x-api-key`)

func TestTheTerminalHasWordsForEveryRefusal(t *testing.T) {
	t.Parallel()
	if effects, steps, codes := words.Missing(); len(effects)+len(steps)+len(codes) > 0 {
		t.Errorf("got no words for the effects %v, the steps %v and the codes %v", effects, steps, codes)
	}
	f := fault.New(fault.Conflict, fault.InvalidState, fault.StillStuck, "Order %s is STUCK.", "wd_1").
		WithStep(fault.ResolveOrder).WithSubject("wd_1")
	want := "Order wd_1 is STUCK. The order stays STUCK, its amount stays held, and nothing was booked. " +
		"`coffer dispatch resolve wd_1` checks its outcome on the chain."
	if got := words.Sentences(f); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A person at a terminal makes no calls of the interface.
func TestARefusalNamesNoReadOfTheInterface(t *testing.T) {
	t.Parallel()
	for kind, texts := range map[string][]string{
		"effect": slices.Collect(maps.Values(words.Effects)), "step": slices.Collect(maps.Values(words.Steps)),
		"code": slices.Collect(maps.Values(words.Codes)),
	} {
		for _, text := range texts {
			if apiTerm.MatchString(text) {
				t.Errorf("%s: got %q, want no call of the interface in it", kind, text)
			}
		}
	}
}

func TestOnlyChainsThatAreThereAreAskedFor(t *testing.T) {
	t.Parallel()
	if code, _, err := run(t, "local", "--chains", "TRON"); code == 0 ||
		!strings.Contains(err, "no local chain of it") {
		t.Errorf("got %d %q, want it refused", code, err)
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
		{[]string{"customerWithdrawUsdThreshold=-1"}, "amount of dollars"},
		{[]string{"customerWithdrawUsdThreshold="}, "amount of dollars"},
		{[]string{"requireWithdrawIdempotency=yes"}, "true or false"},
		{[]string{"requireWithdrawIdempotency=true", "nonsense=1"}, "no setting"},
		{[]string{"approvalQuorum=0"}, "from 1 to 10"},
		{[]string{"approvalQuorum=2.0"}, "from 1 to 10"},
		{[]string{"approvalQuorum=2 3"}, "from 1 to 10"},
		{[]string{"screeningSeverityThreshold=low"}, "SEVERE"},
		{[]string{"ipAllowlist=office"}, "Entry 1"},
		{[]string{"ipAllowlist="}, "Entry 1"},
		{[]string{"swappableMintIds=1,x"}, "ids of mints"},
		{[]string{"swappableMintIds=1],[2"}, "ids of mints"},
		{[]string{"approvalAllowlist=ann"}, "Entry 1"},
		{[]string{"approvalAllowlist=ann@example.com:"}, "approvalAllowlist"},
		{[]string{`approvalAllowlist=[{"email":"ann@example.com","note":"x"}]`}, "approvalAllowlist"},
		{[]string{"requireWithdrawIdempotency=true", "requireWithdrawIdempotency=false"}, "twice"},
		{[]string{"requireWithdrawIdempotency"}, "key=value"},
	} {
		if _, err := readChanges(c.words); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.words, err, c.want)
		}
	}
	changes, err := readChanges([]string{
		"customerWithdrawUsdThreshold=10000.00", "screeningSeverityThreshold=none", "requireWithdrawIdempotency=false",
		"approvalQuorum=2", "swappableMintIds=2,1",
		"withdrawSeverityThreshold=null", "twoFactorUsdThreshold=null", "ipAllowlist=none",
		"approvalAllowlist=ann@example.com,bob@example.com:user_42",
	})
	got, _ := json.Marshal(changes)
	if want := `{"approvalAllowlist":[{"email":"ann@example.com"},{"customerId":"user_42","email":"bob@example.com"}],"approvalQuorum":2,"customerWithdrawUsdThreshold":"10000.00","ipAllowlist":[],"requireWithdrawIdempotency":false,"screeningSeverityThreshold":null,"swappableMintIds":[2,1],"twoFactorUsdThreshold":null,"withdrawSeverityThreshold":null}`; err != nil ||
		string(got) != want {
		t.Errorf("got %s and %v, want %s", got, err, want)
	}
}

// Every flag and every argument that takes a customer's id takes it unchanged. A new one fails the
// test.
func TestTheCommandLineTakesNoCustomerForAnother(t *testing.T) {
	t.Parallel()
	root, err := Tree()
	if err != nil {
		t.Fatal(err)
	}
	const listed = "it is the filter of the interface's list: TestCustomersWithIdsAlikeShareNothing"
	// Each with the test that passes awkward ids through it, or the reason why it compares none.
	takes := map[string]string{
		"freezes put --customer":                 "it is the freeze of the operator's interface: TestCustomersWithIdsAlikeShareNothing",
		"withdrawals list --customer":            listed,
		"swaps list --customer":                  listed,
		"swaps deposit list --customer":          listed,
		"deposits list --customer":               listed,
		"customers list --customer":              listed,
		"local trigger failed-payout --customer": "it is a customer of the interface's, on a local chain",
		"local trigger reorg --customer":         "it is a customer of the interface's, on a local chain",
		"rescue --customers": "each names the wallet that the seed has for it: " +
			"TestTheSignerTakesNoIdForAnother",
	}
	var walk func(n *kong.Node, words string)
	walk = func(n *kong.Node, words string) {
		for _, f := range n.Flags {
			if name := strings.TrimSpace(words + " --" + f.Name); strings.Contains(f.Name, "customer") {
				if takes[name] == "" {
					t.Errorf("coffer %s takes a customer: show that it takes no id for another", name)
				}
				delete(takes, name)
			}
		}
		for _, c := range n.Children {
			walk(c, strings.TrimSpace(words+" "+c.Name))
		}
	}
	walk(root, "")
	for name := range takes {
		t.Errorf("coffer %s takes a customer no longer", name)
	}

	type entry struct {
		Email      string `json:"email"`
		CustomerID string `json:"customerId"`
	}
	for _, id := range idtest.Alike {
		listed, err := json.Marshal([]entry{{"ann@example.com", id}})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"ann@example.com:" + id, string(listed)} {
			var got []entry
			changes, err := readChanges([]string{"approvalAllowlist=" + word})
			if err == nil {
				err = json.Unmarshal(changes["approvalAllowlist"], &got)
			}
			if strings.Contains(id, ",") && word[0] != '[' {
				if err == nil {
					t.Errorf("%s: got %+v, want it refused: a comma begins another entry", word, got)
				}
				continue
			}
			if err != nil || len(got) != 1 || got[0] != (entry{"ann@example.com", id}) {
				t.Errorf("%s: got %+v %v, want the customer %q alone", word, got, err, id)
			}
		}
	}
}
