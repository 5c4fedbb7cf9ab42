package contenthash_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
)

func newRow(number int) contenthash.Row {
	return contenthash.Row{
		Number: number, Salt: bytes.Repeat([]byte{byte(number)}, contenthash.SaltBytes), MintID: 3, Chain: "ETHEREUM",
		Contract: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", ToAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		Amount: money.Units(uint64(1000 + number)), CustomerID: "c1", Reference: fmt.Sprintf("inv-%d", number),
		IsIncluded: true,
	}
}

func newRows(count int) []contenthash.Row {
	rows := make([]contenthash.Row, 0, count)
	for i := range count {
		rows = append(rows, newRow(i+1))
	}
	return rows
}

func mustSeal(t *testing.T, rows []contenthash.Row) contenthash.Header {
	t.Helper()
	h, err := contenthash.Seal("org_1", "bp_1", contenthash.Strict, "API_KEY key_1", rows)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The hash changes with every field of every row, and with every word of the header. Rule BP-2.
func TestTheHashCoversEveryField(t *testing.T) {
	t.Parallel()
	want := mustSeal(t, newRows(3)).ComputeHash()
	for name, change := range map[string]func(*contenthash.Row){
		"salt":     func(r *contenthash.Row) { r.Salt = bytes.Repeat([]byte{9}, contenthash.SaltBytes) },
		"mint":     func(r *contenthash.Row) { r.MintID = 4 },
		"chain":    func(r *contenthash.Row) { r.Chain = "BASE" },
		"contract": func(r *contenthash.Row) { r.Contract = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" },
		"address":  func(r *contenthash.Row) { r.ToAddress = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48" },
		"amount":   func(r *contenthash.Row) { r.Amount = money.Units(1) },
		"memo":     func(r *contenthash.Row) { r.Memo = "m" },
		"customer": func(r *contenthash.Row) { r.CustomerID = "c2" },
		"label":    func(r *contenthash.Row) { r.Reference = "inv-9" },
		"included": func(r *contenthash.Row) { r.IsIncluded = false },
		"words that moved": func(r *contenthash.Row) {
			r.CustomerID, r.Reference = r.CustomerID+r.Reference[:1], r.Reference[1:]
		},
	} {
		for i := range 3 {
			rows := newRows(3)
			change(&rows[i])
			h, err := contenthash.Seal("org_1", "bp_1", contenthash.Strict, "API_KEY key_1", rows)
			if err != nil || h.ComputeHash() == want {
				t.Errorf("%s of row %d: got %v, %v, want another hash than %v", name, i+1, h.ComputeHash(), err, want)
			}
		}
	}
	for name, change := range map[string]func(*contenthash.Header){
		"organization": func(h *contenthash.Header) { h.OrgID = "org_2" },
		"batch":        func(h *contenthash.Header) { h.BatchID = "bp_2" },
		"mode":         func(h *contenthash.Header) { h.Mode = contenthash.Partial },
		"maker":        func(h *contenthash.Header) { h.MadeBy = "USER usr_1" },
		"rows":         func(h *contenthash.Header) { h.Rows++ },
		"included":     func(h *contenthash.Header) { h.Included-- },
		"total":        func(h *contenthash.Header) { h.Totals[0].Amount = money.Units(1) },
		"mint":         func(h *contenthash.Header) { h.Totals[0].MintID++ },
		"no totals":    func(h *contenthash.Header) { h.Totals = nil },
		"root":         func(h *contenthash.Header) { h.Root[31] ^= 1 },
	} {
		h := mustSeal(t, newRows(3))
		change(&h)
		if h.ComputeHash() == want {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}

func TestASealCountsAndAddsTheIncludedRows(t *testing.T) {
	t.Parallel()
	rows := newRows(4)
	rows[1].IsIncluded = false
	rows[2].MintID = 1
	h := mustSeal(t, rows)
	want := []contenthash.Total{{MintID: 1, Amount: money.Units(1003)}, {MintID: 3, Amount: money.Units(2005)}}
	if h.Rows != 4 || h.Included != 3 || !slices.Equal(h.Totals, want) {
		t.Errorf("got %+v, want 4 rows of which 3 count, and %+v", h, want)
	}
}

func TestASealRefusesWhatIsNoList(t *testing.T) {
	t.Parallel()
	largest, _ := money.Parse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	type list = []contenthash.Row
	for name, c := range map[string]struct {
		change func(list) list
		want   error
	}{
		"no rows":  {func(r list) list { return nil }, contenthash.ErrRows},
		"too many": {func(r list) list { return newRows(contenthash.RowsMax + 1) }, contenthash.ErrRows},
		"a gap":    {func(r list) list { return slices.Delete(r, 1, 2) }, contenthash.ErrRows},
		"no salt":  {func(r list) list { r[2].Salt = nil; return r }, contenthash.ErrSalt},
		"too much": {func(r list) list { r[2].Amount = largest; return r }, money.ErrRange},
	} {
		_, err := contenthash.Seal("org_1", "bp_1", contenthash.Strict, "USER u", c.change(newRows(3)))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// Every row of every size of list leads to the root by its path, and by no other.
func TestAPathLeadsToTheRootFromItsRowAlone(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 70; size++ {
		leaves := make([]contenthash.Hash, size)
		for i := range leaves {
			leaves[i] = newRow(i + 1).ComputeLeaf()
		}
		root := contenthash.ComputeRoot(leaves)
		for i, leaf := range leaves {
			path := contenthash.ComputePath(leaves, i)
			if got, ok := contenthash.ComputeRootFrom(leaf, i, size, path); !ok || got != root {
				t.Fatalf("row %d of %d: got %v, %v, want %v", i, size, got, ok, root)
			}
			for other := range leaves {
				if other == i {
					continue
				}
				if got, ok := contenthash.ComputeRootFrom(leaf, other, size, path); ok && got == root {
					t.Fatalf("row %d of %d is proven at index %d", i, size, other)
				}
				if got, ok := contenthash.ComputeRootFrom(leaves[other], i, size, path); ok && got == root {
					t.Fatalf("row %d of %d is proven in place of row %d", other, size, i)
				}
			}
			for k := range path {
				changed := slices.Clone(path)
				changed[k][0] ^= 1
				if got, ok := contenthash.ComputeRootFrom(leaf, i, size, changed); ok && got == root {
					t.Fatalf("row %d of %d: a changed path leads to the root", i, size)
				}
				if got, ok := contenthash.ComputeRootFrom(leaf, i, size, path[:k]); ok && got == root {
					t.Fatalf("row %d of %d: a shorter path leads to the root", i, size)
				}
			}
			if _, ok := contenthash.ComputeRootFrom(leaf, i, size, append(slices.Clone(path), root)); ok {
				t.Fatalf("row %d of %d: a longer path is accepted", i, size)
			}
		}
		for _, index := range []int{-1, size} {
			if _, ok := contenthash.ComputeRootFrom(leaves[0], index, size, nil); ok {
				t.Fatalf("index %d of %d is accepted", index, size)
			}
		}
	}
}

func TestThePathOfTheLargestListHasItsBound(t *testing.T) {
	t.Parallel()
	leaves := make([]contenthash.Hash, contenthash.RowsMax)
	if got := len(contenthash.ComputePath(leaves, 0)); got != contenthash.PathMax {
		t.Errorf("got %d hashes, want %d", got, contenthash.PathMax)
	}
}

func decodeHex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors are those of the reference implementation of RFC 6962 (certificate-transparency, merkletree tests).
func TestTheTreeIsThatOfRFC6962(t *testing.T) {
	t.Parallel()
	var leaves []contenthash.Hash
	for _, data := range []string{
		"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
	} {
		leaves = append(leaves, sha256.Sum256(append([]byte{0}, decodeHex(t, data)...)))
	}
	for i, want := range []string{
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	} {
		if got := contenthash.ComputeRoot(leaves[:i+1]); hex.EncodeToString(got[:]) != want {
			t.Errorf("root of %d: got %x, want %s", i+1, got, want)
		}
	}
	if got := contenthash.ComputeRoot(nil); hex.EncodeToString(got[:]) !=
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("root of nothing: got %x", got)
	}
	for _, c := range []struct {
		index, size int
		path        []string
	}{
		{0, 1, nil},
		{0, 8, []string{
			"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
			"5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
			"6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
		}},
		{5, 8, []string{
			"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
			"ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
			"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		}},
		{2, 3, []string{"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"}},
		{1, 5, []string{
			"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
			"5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
			"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
		}},
	} {
		var got []string
		for _, h := range contenthash.ComputePath(leaves[:c.size], c.index) {
			got = append(got, hex.EncodeToString(h[:]))
		}
		if !slices.Equal(got, c.path) {
			t.Errorf("path of %d in %d: got %v, want %v", c.index, c.size, got, c.path)
		}
	}
}

func TestAHashHasOneText(t *testing.T) {
	t.Parallel()
	h := mustSeal(t, newRows(2)).ComputeHash()
	if got, err := contenthash.Parse(h.String()); err != nil || got != h {
		t.Errorf("got %v, %v, want %v", got, err, h)
	}
	digits := h.String()[len("sha256:"):]
	for _, text := range []string{
		"", "sha256:", digits, "SHA256:" + digits, "sha256:" + digits[1:], h.String() + "0",
		"sha256:" + strings.ToUpper(digits), "sha256:" + digits[:63] + "g",
	} {
		if _, err := contenthash.Parse(text); !errors.Is(err, contenthash.ErrSyntax) {
			t.Errorf("%q: got %v, want %v", text, err, contenthash.ErrSyntax)
		}
	}
}

// The same list has the same hash in any order and under other salts, and a changed one has not.
func TestAListIsFoundAgainInAnotherOrder(t *testing.T) {
	t.Parallel()
	rows := newRows(3)
	want := contenthash.ComputeListHash(rows)
	slices.Reverse(rows)
	for i := range rows {
		rows[i].Number, rows[i].Salt = i+1, nil
	}
	if got := contenthash.ComputeListHash(rows); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	rows[0].Amount = money.Units(1)
	if contenthash.ComputeListHash(rows) == want {
		t.Error("another amount has the same hash")
	}
	if contenthash.ComputeListHash(append(newRows(3), newRow(3))) == want {
		t.Error("a row that is there twice has the same hash")
	}
}

// No path but that of the tree leads from a row to the root.
func FuzzComputeRootFrom(f *testing.F) {
	leaves := make([]contenthash.Hash, 11)
	for i := range leaves {
		leaves[i] = newRow(i + 1).ComputeLeaf()
	}
	root := contenthash.ComputeRoot(leaves)
	for i := range leaves {
		var raw []byte
		for _, h := range contenthash.ComputePath(leaves, i) {
			raw = append(raw, h[:]...)
		}
		f.Add(i, i, len(leaves), raw)
	}
	f.Fuzz(func(t *testing.T, row, index, size int, raw []byte) {
		if row < 0 || row >= len(leaves) || len(raw) > 32*64 {
			return
		}
		var path []contenthash.Hash
		for part := range slices.Chunk(raw, sha256.Size) {
			var h contenthash.Hash
			copy(h[:], part)
			path = append(path, h)
		}
		got, ok := contenthash.ComputeRootFrom(leaves[row], index, size, path)
		if !ok || got != root || size != len(leaves) {
			return
		}
		if index != row || !slices.Equal(path, contenthash.ComputePath(leaves, row)) {
			t.Errorf("row %d is proven at %d of %d by %x", row, index, size, raw)
		}
	})
}
