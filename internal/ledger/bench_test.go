package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// BenchmarkPost posts deposits whose rows exist, in transactions of one and of many, with and
// without the look-up of causes: it measures what the look-up costs.
func BenchmarkPost(b *testing.B) {
	for _, asked := range []bool{false, true} {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("asked=%v/size=%d", asked, size), func(b *testing.B) {
				db := newBooks(b, "org_a")
				what := "DISABLE"
				if asked {
					what = "ENABLE"
				}
				for _, sql := range []string{
					`ALTER TABLE ledger_transfers ` + what + ` TRIGGER ledger_transfers_of_cause`,
					`ALTER TABLE deposits DISABLE TRIGGER deposits_posted`,
				} {
					if _, err := pgtest.OwnerPool(b, db).Exec(b.Context(), sql); err != nil {
						b.Fatal(err)
					}
				}
				var all [][]ledger.Posting
				for i := range b.N {
					var batch []ledger.Posting
					for k := range size {
						batch = append(batch, ledger.Posting{
							Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprintf("%d_%d", i, k)},
							Legs: []ledger.Leg{{
								Debit:  custodyAccount("org_a"),
								Credit: customerAccount("org_a", fmt.Sprint("customer ", k)),
								Amount: money.Units(1),
							}},
						})
					}
					all = append(all, batch)
					if err := db.InSystem(
						b.Context(),
						func(ctx context.Context, tx pg.Tx) error { return ledgertest.InsertCauses(ctx, tx, batch...) },
					); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for _, batch := range all {
					if err := db.InSystem(
						b.Context(),
						func(ctx context.Context, tx pg.Tx) error { return ledger.Post(ctx, tx, batch...) },
					); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
