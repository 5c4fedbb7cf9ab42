package checkout_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
)

// Of changes that saw the same settings one counts, also of the first ones. Rule PAGE-87.
func TestOneOfManyChangesOfTheSameSettingsCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	for seen := range int64(3) {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = e.service.SaveSettings(t.Context(), e.one, checkout.SettingsDraft{
					ShopName: "Shop " + strconv.FormatInt(seen, 10) + " " + strconv.Itoa(i), UnderUSD: "0.50",
					CostMaxBps: 1 + i, SeenVersion: seen,
				}, audit.APIKey(e.one))
			})
		}
		wg.Wait()
		saved := -1
		for i, err := range errs {
			switch {
			case err == nil && saved < 0:
				saved = i
			case !fault.HasCode(err, fault.InvalidState):
				t.Errorf("change %d of version %d: got %v, want one change and refusals", i, seen, err)
			}
		}
		got, err := e.service.LoadSettings(t.Context(), e.one)
		want := checkout.Settings{
			Version: seen + 1, ShopName: "Shop " + strconv.FormatInt(seen, 10) + " " + strconv.Itoa(saved),
			UnderUSD: money.MustParseUSD("0.5"), CostMaxBps: 1 + saved,
		}
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if n := e.countRows(`SELECT count(*) FROM audit_log WHERE action = 'checkout_settings.changed'`); n != 3 {
		t.Errorf("got %d rows in the audit log, want one for each version", n)
	}
	if other, err := e.service.LoadSettings(t.Context(), e.two); err != nil || other.Version != 0 {
		t.Errorf("got %+v, %v, want the defaults of another organization", other, err)
	}
}
