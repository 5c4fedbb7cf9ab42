package contenthash_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
)

// A payee verifies the row from the JSON of the proof alone, and nothing of it can be changed. Rule BP-14.
func TestAProofVerifiesAndNoPartOfItCanBeChanged(t *testing.T) {
	t.Parallel()
	rows := newRows(9)
	rows[4].IsIncluded = false
	h := mustSeal(t, rows)
	for i := range rows {
		text, err := json.Marshal(contenthash.NewRowProof(h, rows, i))
		if err != nil {
			t.Fatal(err)
		}
		read := func() (p contenthash.RowProof) {
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		if err := read().VerifyRow(); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
		for name, change := range map[string]func(*contenthash.RowProof){
			"the number":    func(p *contenthash.RowProof) { p.Row.Number = i%9 + 2 },
			"the amount":    func(p *contenthash.RowProof) { p.Row.Amount = money.Units(1) },
			"the address":   func(p *contenthash.RowProof) { p.Row.ToAddress += "0" },
			"the verdict":   func(p *contenthash.RowProof) { p.Row.IsIncluded = !p.Row.IsIncluded },
			"the salt":      func(p *contenthash.RowProof) { p.Row.Salt = p.Row.Salt[1:] },
			"the path":      func(p *contenthash.RowProof) { p.Path[0][0] ^= 1 },
			"a shorter one": func(p *contenthash.RowProof) { p.Path = p.Path[1:] },
			"the totals":    func(p *contenthash.RowProof) { p.Header.Totals[0].Amount = money.Units(1) },
			"the hash":      func(p *contenthash.RowProof) { p.ContentHash[3] ^= 1 },
		} {
			p := read()
			change(&p)
			if err := p.VerifyRow(); !errors.Is(err, contenthash.ErrPath) && !errors.Is(err, contenthash.ErrHeader) {
				t.Errorf("row %d, %s: got %v", i+1, name, err)
			}
		}
	}
}

// Whatever rows are left out, the list leads to one hash, the totals are those of the rest, and the hash is that of no
// other selection. Rule BP-8.
func TestEverySelectionOfRowsHasItsOwnHash(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rows := newRows(1 + draw.IntN(40))
		seen := map[contenthash.Hash]bool{}
		for range 3 {
			sum := uint64(0)
			selection := ""
			for i := range rows {
				rows[i].IsIncluded = draw.IntN(2) == 0
				if rows[i].IsIncluded {
					sum += uint64(1000 + rows[i].Number)
					selection += "1"
				} else {
					selection += "0"
				}
			}
			h, err := contenthash.Seal("org_1", "bp_1", contenthash.Partial, "USER u", rows)
			if err != nil {
				t.Fatal(err)
			}
			total := money.Zero
			if len(h.Totals) > 0 {
				total = h.Totals[0].Amount
			}
			if total != money.Units(sum) || h.Rows != len(rows) {
				t.Fatalf("%s: got %v of %d rows, want %d", selection, total, h.Rows, sum)
			}
			list := contenthash.List{ContentHash: h.ComputeHash(), Header: h, Rows: rows}
			if err := list.VerifyList(); err != nil {
				t.Fatalf("%s: %v", selection, err)
			}
			seen[list.ContentHash] = true
			i := draw.IntN(len(rows))
			rows[i].IsIncluded = !rows[i].IsIncluded
			if err := list.VerifyList(); !errors.Is(err, contenthash.ErrList) {
				t.Fatalf("%s with row %d changed: got %v", selection, i+1, err)
			}
		}
		if len(seen) == 0 {
			t.Fatal("no hash")
		}
	}
}
