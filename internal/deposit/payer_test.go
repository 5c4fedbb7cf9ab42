package deposit_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
)

// paidFor decides about what is flagged where the treasury pays for it, and where no
// account has less than 100.
func (w *world) paidFor() *deposit.Resolutions {
	ch := w.c.Configured()
	ch.OthersPay, ch.Keeps = true, money.Units(100)
	return deposit.NewResolutions(w.db, chain.Chains{chain.Ethereum: ch}, w.book, slog.New(slog.DiscardHandler), deposit.Granted(grantKey()), deposit.Voiding(w.voids))
}

// Rule DEP-39.
func TestWhereTheTreasuryMayPayItPaysForEveryReturn(t *testing.T) {
	t.Parallel()
	paid := func(t *testing.T, w *world, n int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := w.count(t, `
			SELECT count(*) FROM dispatch_orders WHERE wallet_id = 'adr_treasury' AND from_wallet_id = 'adr_alice' AND to_address = $1 AND amount = 500`, string(payer)); got != n {
			t.Errorf("got %d orders that the treasury pays for, want %d", got, n)
		}
		if got := w.count(t, `SELECT count(*) FROM dispatch_orders`); got != n {
			t.Errorf("got %d orders, want %d", got, n)
		}
	}
	t.Run("rejected and, when that was refused, redirected", func(t *testing.T) {
		t.Parallel()
		w, o := thresholds(t)
		id := w.flagged(t, o, 500)
		_, err := w.paidFor().Reject(t.Context(), id, operator(), "")
		paid(t, w, 1, err)
		w.turnedAway(t)
		_, err = w.paidFor().Redirect(t.Context(), id, operator(), deposit.Redirection{To: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"})
		paid(t, w, 2, err)
	})
	t.Run("rejected and, when that had failed, completed", func(t *testing.T) {
		t.Parallel()
		w, o := thresholds(t)
		id := w.flagged(t, o, 500)
		_, err := w.paidFor().Reject(t.Context(), id, operator(), "")
		paid(t, w, 1, err)
		w.fails(t)
		_, err = w.paidFor().Complete(t.Context(), id, operator(), "")
		paid(t, w, 2, err)
	})
}

// Rule DEP-40.
func TestOfACoinThatGoesBackAsMuchStaysAsTheChainWants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		credited, dust uint64
		kept           uint64
	}{
		"nothing else is there": {0, 0, 0},
		"a little":              {0, 9, 91},
		"a little that counts":  {60, 0, 40},
		"both":                  {50, 9, 41},
		"enough":                {100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := thresholds(t)
			id := w.flaggedCoin(t, o, 500)
			w.holds(t, c.credited, c.dust)
			d, err := w.paidFor().Reject(t.Context(), id, operator(), "")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := *d.Resolution.Amount, money.Units(500-c.kept).String(); got != want {
				t.Errorf("got %s sent back, want %s", got, want)
			}
			if n := w.count(t, `SELECT count(*) FROM deposit_resolutions WHERE fee_kept = $1`, money.Units(c.kept)); n != 1 {
				t.Errorf("got no resolution that keeps %d, want it", c.kept)
			}
		})
	}
	w, o := thresholds(t)
	id := w.flaggedCoin(t, o, 90)
	w.holds(t, 0, 9)
	if _, err := w.paidFor().Reject(t.Context(), id, operator(), ""); !fault.Is(err, fault.InsufficientGas) {
		t.Errorf("less than has to stay: got %v, want INSUFFICIENT_GAS", err)
	}
	if d := w.the(t); d.Status != "FLAGGED" || len(d.ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it in the queue with its attempt", d)
	}
}

// flaggedCoin is flagged of the native coin.
func (w *world) flaggedCoin(t *testing.T, o *opinions, units uint64) string {
	t.Helper()
	w.asOwner(t, `UPDATE organization_settings SET screening_usd_threshold = 0.00001, updated_at = now()`)
	w.desk = deposit.New(w.db, w.book, price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("1000000000000")}},
		risk.Policy{Providers: o, UnknownAs: risk.UnknownHolds, Grace: time.Hour}, slog.New(slog.DiscardHandler), deposit.Bound(grantKey()))
	w.w = w.walker(w.desk)
	o.set(payer, risk.Severe)
	w.c.Pay(payer, alice, "", units)
	w.c.Mine(4)
	w.walk(t)
	got := w.list(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 {
		t.Fatalf("got %d flagged, want one", len(got))
	}
	return got[0].DepositID
}

// holds puts something beside what is flagged on alice's address.
func (w *world) holds(t *testing.T, credited, dust uint64) {
	t.Helper()
	w.asOwner(t, `UPDATE address_funds SET credited = credited + $1, dust = $2 WHERE wallet_id = 'adr_alice' AND mint_id = 1`, money.Units(credited), money.Units(dust))
}
