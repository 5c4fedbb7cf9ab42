package deposit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// paidFor returns a service on a chain where the treasury pays the fee of a return, and where the
// minimum balance is 100.
func (w *testEnv) paidFor() *deposit.Service {
	ch := w.c.ToChain()
	ch.SeparateFeePayer, ch.MinBalance = true, money.Units(100)
	s := w.newService(risk.Policy{}, price.Fixed{})
	s.Chains = chain.Chains{chain.Ethereum: ch}
	return s
}

// Rule DEP-39.
func TestWhereTheTreasuryMayPayItPaysForEveryReturn(t *testing.T) {
	t.Parallel()
	paid := func(t *testing.T, w *testEnv, n int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := w.queryCount(t, `
			SELECT count(*) FROM dispatch_orders WHERE wallet_id = 'adr_treasury' AND from_wallet_id = 'adr_alice' AND to_address = $1 AND amount = 500`,
			string(payer)); got != n {
			t.Errorf("got %d orders that the treasury pays for, want %d", got, n)
		}
		if got := w.queryCount(t, `SELECT count(*) FROM dispatch_orders`); got != n {
			t.Errorf("got %d orders, want %d", got, n)
		}
	}
	t.Run("rejected and, when that was refused, redirected", func(t *testing.T) {
		t.Parallel()
		w, o := newScreenedEnv(t)
		id := w.flagDeposit(t, o, 500)
		_, err := w.paidFor().Reject(t.Context(), id, operatorActor(), "")
		paid(t, w, 1, err)
		w.turnedAway(t)
		_, err = w.paidFor().Redirect(
			t.Context(), id, operatorActor(),
			deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"},
		)
		paid(t, w, 2, err)
	})
	t.Run("rejected and, when that had failed, completed", func(t *testing.T) {
		t.Parallel()
		w, o := newScreenedEnv(t)
		id := w.flagDeposit(t, o, 500)
		_, err := w.paidFor().Reject(t.Context(), id, operatorActor(), "")
		paid(t, w, 1, err)
		w.wantStuck(t)
		_, err = w.paidFor().Complete(t.Context(), id, operatorActor(), "")
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
			w, o := newScreenedEnv(t)
			id := w.flagNative(t, o, 500)
			w.wantFunds(t, c.credited, c.dust)
			d, err := w.paidFor().Reject(t.Context(), id, operatorActor(), "")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := *d.Resolution.Amount, money.Units(500-c.kept).String(); got.String() != want {
				t.Errorf("got %s sent back, want %s", got, want)
			}
			if n := w.queryCount(
				t, `SELECT count(*) FROM deposit_resolutions WHERE fee_kept = $1`, money.Units(c.kept),
			); n != 1 {
				t.Errorf("got no resolution that keeps %d, want it", c.kept)
			}
		})
	}
	w, o := newScreenedEnv(t)
	id := w.flagNative(t, o, 90)
	w.wantFunds(t, 0, 9)
	if _, err := w.paidFor().Reject(t.Context(), id, operatorActor(), ""); !fault.HasCode(err, fault.InsufficientGas) {
		t.Errorf("less than has to stay: got %v, want INSUFFICIENT_GAS", err)
	}
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" || len(d.ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it in the queue with its attempt", d)
	}
}

// Rule DEP-45.
func TestOfACoinThatGoesBackAsMuchHasToReachItsSender(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagNative(t, o, 90)
	least := fixedMinimum(91)
	ch := w.c.ToChain()
	ch.SeparateFeePayer, ch.MinPayment = true, &least
	flags := w.newService(risk.Policy{}, price.Fixed{})
	flags.Chains = chain.Chains{chain.Ethereum: ch}
	if _, err := flags.Reject(t.Context(), id, operatorActor(), ""); !fault.HasCode(err, fault.InsufficientGas) {
		t.Errorf("less than reaches it: got %v, want INSUFFICIENT_GAS", err)
	}
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" || len(d.ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it in the queue with its attempt", d)
	}
	least = 90
	d, err := flags.Reject(t.Context(), id, operatorActor(), "")
	if err != nil || d.Resolution.Amount.String() != "90" {
		t.Fatalf("as much as reaches it: got %+v, %v, want it sent back", d.Resolution, err)
	}
	// The operator recalls the transfer before it has a slot, and another decision is possible.
	var order string
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT order_id FROM dispatch_orders WHERE purpose = 'RETURN'`).Scan(&order)
	})
	desk := dispatch.New(
		w.db, ch, nil, nil, map[signer.Purpose]dispatch.Listener{signer.Return: flags}, dispatch.Config{},
		slog.New(slog.DiscardHandler),
	)
	if ended, err := desk.CancelOrder(t.Context(), order, audit.Operator("op")); err != nil || !ended {
		t.Fatalf("end: got %v, %v, want it ended", ended, err)
	}
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" || len(d.ResolutionAttempts) != 2 {
		t.Errorf("got %+v, want it in the queue with both attempts", d)
	}
	if _, err := flags.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Errorf("again: got %v, want it sent back", err)
	}
}

// fixedMinimum is the least amount that every address has to receive.
type fixedMinimum uint64

func (s *fixedMinimum) MinNativePayment(context.Context, chain.Address) (money.Amount, error) {
	return money.Units(uint64(*s)), nil
}

// flagNative is flagDeposit for the native coin.
func (w *testEnv) flagNative(t *testing.T, o *fakeScreener, units uint64) string {
	t.Helper()
	w.execAsTableOwner(t, `UPDATE organization_settings SET screening_usd_threshold = 0.00001, updated_at = now()`)
	w.service = w.newService(
		risk.Policy{Providers: o, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour},
		price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("1000000000000")}},
	)
	w.w = w.newWalker(w.service)
	o.setSeverity(payer, risk.Severe)
	w.c.Pay(payer, alice, "", units)
	w.c.Mine(4)
	w.walkBlocks(t)
	got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 {
		t.Fatalf("got %d flagged, want one", len(got))
	}
	return got[0].DepositID
}

// wantFunds adds other funds to alice's address.
func (w *testEnv) wantFunds(t *testing.T, credited, dust uint64) {
	t.Helper()
	w.execAsTableOwner(
		t,
		`UPDATE address_funds SET credited = credited + $1, dust = $2 WHERE wallet_id = 'adr_alice' AND mint_id = 1`,
		money.Units(credited), money.Units(dust),
	)
}
