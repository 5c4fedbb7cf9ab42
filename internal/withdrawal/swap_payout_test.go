package withdrawal

import (
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
)

// The record of a blocked payout has the whole output of its swap, also of a coin of which the network fee would come
// out: the swap knows its payout by that amount. The key returns it again.
func TestABlockedPayoutOfCoinIsOfTheWholeOutput(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	const out = 1_000_000 * gwei
	o.fundProduct("CHECKOUT", eth, out)
	o.Risk = risk.Policy{Providers: &fakeScreener{severity: risk.Severe}, UnknownAs: risk.TreatUnknownAsHold}
	o.setSetting("withdrawSeverityThreshold", `"LOW"`)
	r := SwapPayoutRequest{
		SwapID: "os_1", Product: "CHECKOUT", MintID: eth, Total: money.Units(out), WhitelistedID: vault,
		Key: "swap os_1",
	}
	first, err := o.RequestSwapPayout(t.Context(), o.org, r)
	if err != nil {
		t.Fatal(err)
	}
	if first.Status != Blocked || first.Amount != money.Units(out) {
		t.Errorf("the payout is %s of %s, want BLOCKED of %d", first.Status, first.Amount, uint64(out))
	}
	again, err := o.RequestSwapPayout(t.Context(), o.org, r)
	if err != nil || again.ID != first.ID {
		t.Errorf("the key returns %s %v, want %s", again.ID, err, first.ID)
	}
	o.wantProduct(eth, "CHECKOUT", money.Units(out).String(), "0")
}
