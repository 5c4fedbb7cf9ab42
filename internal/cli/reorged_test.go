package cli

import (
	"testing"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/report"
)

func TestAnOrderInQuestionIsShownWithWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	q := report.ReorgedOrder{
		OrderID: "wd_1", Purpose: "PAYMENT", Owner: "eve of org_1", MintID: 7, Amount: money.Units(5), Status: "PAID",
		TxHash: "0xabc",
	}
	const first = "question  PAYMENT wd_1  5 units of mint 7  for eve of org_1, PAID by 0xabc\n  "
	if got, want := formatReorged(mint.Catalogue{}, q), first+"was not processed yet"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	q.WaitsFor, q.LastError = "FREEZE", "frozen (CUSTOMER): lost a deposit"
	if got, want := formatReorged(mint.Catalogue{}, q),
		first+"waits for FREEZE: frozen (CUSTOMER): lost a deposit"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
