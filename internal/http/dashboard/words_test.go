package dashboard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// declared returns the constants of a type in the sources of a package.
func declared(t *testing.T, folder, typeName string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == typeName && len(spec.Values) == 1 {
				if text, ok := spec.Values[0].(*ast.BasicLit); ok {
					values = append(values, strings.Trim(text.Value, `"`))
				}
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("found no constant of %s.%s", folder, typeName)
	}
	return values
}

// Each state, reason, rule, result and act has words, and no two states have the same.
func TestEveryStateHasWordsOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, machine := range []struct {
		folder, typeName string
		word             func(string) string
	}{
		{"withdrawal", "Status", func(s string) string { return withdrawalChip(withdrawal.Status(s)).Word }},
		{"control/whitelist", "Status", func(s string) string { return entryChip(whitelist.Status(s)).Word }},
		{"deposit", "Status", func(s string) string { return depositChip(deposit.Status(s)).Word }},
		{"withdrawal", "Reason", func(s string) string { return reasonText(withdrawal.Reason(s)) }},
		{"withdrawal", "Gate", func(s string) string { return gateText(withdrawal.Gate(s)) }},
		{"withdrawal", "Result", func(s string) string { return resultChip(withdrawal.Result(s)).Word }},
		{"withdrawal", "Act", func(s string) string { return actText(withdrawal.Act(s)) }},
		{"swap", "Status", func(s string) string { return swapChip(swap.Status(s)).Word }},
		{"depositswap", "Status", func(s string) string { return depositSwapChip(depositswap.Status(s)).Word }},
		{"swap", "FailureReason", func(s string) string { return failureText(swap.FailureReason(s)) }},
		{"checkout/outcome", "Status", func(s string) string { return checkoutChip(outcome.Status(s)).Word }},
		{"checkout/outcome", "Exception", func(s string) string { return exceptionChip(outcome.Exception(s)).Word }},
		{"checkout/outcome", "PaymentStatus", func(s string) string {
			return paymentChip(outcome.PaymentStatus(s)).Word
		}},
		{"checkout", "RefundStatus", func(s string) string { return refundChip(checkout.RefundStatus(s)).Word }},
		{"checkout", "RefundKind", func(s string) string { return refundKindText(checkout.RefundKind(s)) }},
		{"payout", "Status", func(s string) string { return payoutChip(payout.Status(s)).Word }},
		{"payout", "WarningKind", func(s string) string { return warningTitle(payout.WarningKind(s)) }},
		{"http/dashboard", "itemGroup", func(s string) string { return itemGroup(s).text() }},
		{"ledger", "CauseKind", func(s string) string { return causeText(ledger.CauseKind(s)) }},
		{"identity/apikey", "Status", func(s string) string { return keyChip(apikey.Status(s)).Word }},
		{"identity/memberchange", "Status", func(s string) string { return changeChip(memberchange.Status(s)).Word }},
	} {
		known := map[string]string{}
		for _, value := range declared(t, machine.folder, machine.typeName) {
			word := machine.word(value)
			if word == "" {
				t.Errorf("%s.%s %s has no words", machine.folder, machine.typeName, value)
			}
			if other := known[word]; other != "" {
				t.Errorf("%s and %s have the same words %q", value, other, word)
			}
			known[word] = value
		}
	}
}

// Each setting has words, and no two have the same.
func TestEverySettingHasWordsOfItsOwn(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for _, name := range org.SettingNames() {
		word := settingText(name)
		if word == "" || known[word] != "" {
			t.Errorf("%s has the words %q, as %q; want words of its own", name, word, known[word])
		}
		known[word] = name
	}
	for _, name := range memberchange.Controls {
		if memberchange.Label(name) == "" {
			t.Errorf("%s has no words for a mail", name)
		}
	}
}

func TestOneThingHasNoPlural(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 flagged deposit":   countNoun("flagged deposit", 1, false),
		"2 flagged deposits":  countNoun("flagged deposit", 2, false),
		"1+ flagged deposits": countNoun("flagged deposit", 1, true),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
