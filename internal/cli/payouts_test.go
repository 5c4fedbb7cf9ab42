package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
)

// What coffer payouts show prints has the hash that a person approves, and what became of each row.
func TestABatchIsShownWithItsHashAndItsRows(t *testing.T) {
	t.Parallel()
	mints := mint.NewCatalogue(mint.Mint{ID: 3, Chain: chain.Ethereum, Symbol: "USDC", Decimals: 6})
	b := payout.Batch{
		ID: "bp_1", Status: payout.Processing, Required: 2, Approvals: 2,
		Header: contenthash.Header{
			Mode: contenthash.Strict, Rows: 3, Included: 3,
			Totals: []contenthash.Total{{MintID: 3, Amount: money.Units(3_500_000)}},
		},
	}
	row := func(number int, amount uint64) payout.Item {
		return payout.Item{Row: contenthash.Row{
			Number: number, MintID: 3, ToAddress: "0xpayee", Amount: money.Units(amount), Reference: "inv",
			IsIncluded: true,
		}}
	}
	items := []payout.Item{row(1, 1_000_000), row(2, 1_000_000), row(3, 1_500_000)}
	items[0].WithdrawalID, items[0].WithdrawalStatus = "wd_1", "COMPLETED"
	items[2].Refused = "Screening refuses the address."
	var out bytes.Buffer
	if err := (batchView{batch: b, items: items, mints: mints}).write(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`bp_1 is PROCESSING: 3 rows, STRICT\.`, `sha256:0{64}`, `total 3\.5 USDC on ETHEREUM`, `2 of 2 approvals`,
		`1 +1 USDC +0xpayee +inv +wd_1 COMPLETED`, `2 +1 USDC +0xpayee +inv +WAITING`,
		`3 +1\.5 USDC +0xpayee +inv +REFUSED Screening refuses the address\.`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `\s*$`).MatchString(out.String()) {
			t.Errorf("got\n%s\nwant a line %s", out.String(), line)
		}
	}
}

// The name of a file says its form, and every problem stands in a line of its own.
func TestAListIsReadByTheNameOfItsFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"list.csv":  "mintId,toAddress,amount\n3,0xpayee,5\n",
		"list.JSON": `[{"mintId":3,"toAddress":"0xpayee","amount":"5"}]`,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := payoutListFlags{File: path}.read()
		if err != nil || len(lines) != 1 {
			t.Errorf("%s: got %d lines, %v", name, len(lines), err)
		}
	}
	path := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(path, []byte("iban\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := payoutListFlags{File: path}.read()
	if err == nil || !strings.Contains(err.Error(), "list.csv: Line 1") {
		t.Errorf("got %v, want the file and the line", err)
	}
	var out bytes.Buffer
	printProblems(streams{out: &out}, []rowfile.Problem{
		{Row: 2, Line: 3, Column: "amount", Message: "The amount is missing."},
		{Row: 3, Line: 4, Message: "The row is empty."},
	})
	want := "row 2 (line 3), amount: The amount is missing.\nrow 3 (line 4): The row is empty.\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A payee verifies a proof, and an organization its list, from a file alone. Rule BP-14.
func TestProofsAndListsAreVerifiedFromFilesAlone(t *testing.T) {
	t.Parallel()
	var rows []contenthash.Row
	for i := range 3 {
		rows = append(rows, contenthash.Row{
			Number: i + 1, Salt: bytes.Repeat([]byte{byte(i)}, contenthash.SaltBytes), MintID: 3, Chain: chain.Ethereum,
			ToAddress: "0xpayee", Amount: money.Units(uint64(7 + i)), IsIncluded: i != 1,
		})
	}
	h, err := contenthash.Seal("org_1", "bp_1", contenthash.Partial, "USER u", rows)
	if err != nil {
		t.Fatal(err)
	}
	list := contenthash.List{ContentHash: h.ComputeHash(), Header: h, Rows: rows}
	write := func(v any) string {
		text, err := json.Marshal(v)
		path := filepath.Join(t.TempDir(), "file.json")
		if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changed := list
	changed.Rows = slices.Clone(rows)
	changed.Rows[0].Amount = money.Units(8)
	proof := contenthash.NewRowProof(h, rows, 0)
	for name, c := range map[string]struct {
		run  func(std streams) error
		want string // in what is printed; "" for an error
	}{
		"a row":          {proofVerify{File: write(proof)}.Run, "pays row 1: 7 units of mint 3 to 0xpayee on ETHEREUM"},
		"a row left out": {proofVerify{File: write(contenthash.NewRowProof(h, rows, 1))}.Run, "leaves out row 2"},
		"another row":    {proofVerify{File: write(contenthash.NewRowProof(h, changed.Rows, 0))}.Run, ""},
		"another batch":  {proofVerify{File: write(proof), Hash: contenthash.Hash{}.String()}.Run, ""},
		"no proof":       {proofVerify{File: write(list)}.Run, ""},
		"a list": {func(std streams) error {
			return payoutHash{ID: "bp_1", File: write(list)}.Run(t.Context(), std)
		}, h.ComputeHash().String() + "\n3 rows lead to it, of which 2 are included."},
		"a changed list": {func(std streams) error {
			return payoutHash{ID: "bp_1", File: write(changed)}.Run(t.Context(), std)
		}, ""},
		"another list": {func(std streams) error {
			return payoutHash{ID: "bp_2", File: write(list)}.Run(t.Context(), std)
		}, ""},
	} {
		var out bytes.Buffer
		err := c.run(streams{out: &out})
		if (err == nil) != (c.want != "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, out.String(), err, c.want)
		}
	}
}
