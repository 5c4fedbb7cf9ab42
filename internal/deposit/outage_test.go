package deposit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/risktest"
)

// perAddressScreener behaves differently for each address.
type perAddressScreener struct {
	name string
	ways map[chain.Address]*risktest.Provider
}

func (s perAddressScreener) Name() string           { return s.name }
func (s perAddressScreener) Covers(chain.Name) bool { return true }
func (s perAddressScreener) Screen(ctx context.Context, of risk.Subject) (risk.Verdict, error) {
	return s.ways[of.Address].Screen(ctx, of)
}

// Rules RISK-2, RISK-4, RISK-8: rows of the table of package risk, through to the ledger.
func TestADepositWithoutARiskAnswerIsInNoBalance(t *testing.T) {
	t.Parallel()
	way := func(name string) risktest.Behavior {
		for _, w := range risktest.Behaviors {
			if w.Name == name {
				return w
			}
		}
		t.Fatalf("no way %s", name)
		return risktest.Behavior{}
	}
	a, b := perAddressScreener{"A", map[chain.Address]*risktest.Provider{}},
		perAddressScreener{"B", map[chain.Address]*risktest.Provider{}}
	panel := &risk.Panel{Members: []risk.Member{{Screener: a}, {Screener: b}}, Log: slog.New(slog.DiscardHandler)}
	w := newTestEnvWith(t, risk.Policy{Providers: panel, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour})
	if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		UPDATE organization_settings SET screening_severity_threshold = 'MEDIUM', screening_usd_threshold = 0.0001, updated_at = now()`); err != nil {
		t.Fatal(err)
	}
	type sent struct {
		units uint64
		want  string
	}
	want := map[chain.Address]sent{}
	pay := func(first, second string, units uint64, status string) {
		from := sim.Address(first + " and " + second + " " + status)
		w.c.Mint(from, usdcAt, money.Units(1000))
		a.ways[from], b.ways[from] = &risktest.Provider{ProviderName: "A", Behavior: way(first)},
			&risktest.Provider{ProviderName: "B", Behavior: way(second)}
		w.c.Pay(from, alice, usdcAt, units)
		want[from] = sent{units, status}
	}
	pay("LOW", "LOW", 500, "CREDITED")
	pay("LOW", "comes back at the third try", 500, "CREDITED")
	pay("LOW", "refuses the key", 500, "SCREENING")
	pay("talks nonsense", "LOW", 500, "SCREENING")
	pay("does not know it", "LOW", 500, "SCREENING")
	pay("breaks", "is down", 500, "SCREENING")
	pay("SEVERE", "is down", 500, "FLAGGED")
	pay("is down", "is down", 100, "CREDITED") // below the threshold: no provider is needed
	w.c.Mine(4)
	w.walkBlocks(t)

	// Without a fresh price, deposits below the threshold are screened too.
	old := w.newService(
		risk.Policy{Providers: panel, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour}, stalePrice{},
	)
	w.service, w.w = old, w.newWalker(old)
	pay("is down", "LOW", 100, "SCREENING")
	w.c.Mine(4)
	w.walkBlocks(t)
	total := uint64(0)
	all := w.listDeposits(t, deposit.Filter{})
	if len(all) != len(want) {
		t.Errorf("got %d deposits, want %d", len(all), len(want))
	}
	for _, d := range all {
		s := want[chain.Address(d.FromAddresses[0])]
		if d.Status != s.want {
			t.Errorf("%+v: got %s, want %s", d.FromAddresses, d.Status, s.want)
		}
		if s.want == "CREDITED" {
			total += s.units
		}
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(total) || total != 1100 {
		t.Errorf("alice: got %v, want the %d that were credited", got, total)
	}
}

// stalePrice gives a price that is an hour old.
type stalePrice struct{}

func (stalePrice) USD(context.Context, int) (price.Quote, error) {
	return price.Quote{Price: money.MustParseUSD("1"), QuotedAt: time.Now().Add(-time.Hour)}, nil
}
