package rowfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
)

const payee = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

var mints = mint.NewCatalogue(
	mint.Mint{ID: 1, Chain: chain.Ethereum, Kind: mint.Native, Symbol: "ETH", Decimals: 18},
	mint.Mint{ID: 3, Chain: chain.Ethereum, Kind: mint.Token, Contract: "0xA0b8", Symbol: "USDC", Decimals: 6},
)

const header = "reference,customerId,mintId,toAddress,memo,amount\n"

func readRow(t *testing.T, row string, isDecimal bool) ([]rowfile.Row, []rowfile.Problem) {
	t.Helper()
	lines, err := rowfile.ReadCSV([]byte(header + row))
	if err != nil {
		t.Fatalf("%q: %v", row, err)
	}
	return rowfile.Check(lines, mints, isDecimal)
}

// The same three rows are read from every form that is allowed.
func TestAListIsReadFromEveryForm(t *testing.T) {
	t.Parallel()
	objects := `[{"reference":"a, \"b\"","customerId":"c1","mintId":3,"toAddress":"` + payee + `","amount":"5"},
		{"mintId":3,"toAddress":"` + payee + `","memo":null,"amount":"6"},
		{"amount":"7","toAddress":"` + payee + `","mintId":1}]`
	first := `"a, ""b""",c1,3,` + payee + ",,5\n"
	list := header + first + ",,3," + payee + ",,6\n,,1," + payee + ",,7\n"
	// Every comma but the one within quotes.
	separate := func(separator string) string {
		return strings.ReplaceAll(strings.ReplaceAll(list, ",", separator), "a"+separator+" ", "a, ")
	}
	for name, text := range map[string]string{
		"commas":           list,
		"semicolons":       separate(";"),
		"tabs":             separate("\t"),
		"no last line end": strings.TrimSuffix(list, "\n"),
		"Windows":          "\ufeff" + strings.ReplaceAll(list, "\n", "\r\n"),
		"another order": "amount,toAddress,reference,customerId,mintId\n5," + payee + `,"a, ""b""",c1,3` +
			"\n6," + payee + ",,,3\n7," + payee + ",,,1\n",
		"quotes anywhere": strings.Replace(list, ",c1,3,"+payee+",,5", `,"c1","3","`+payee+`","","5"`, 1),
		"JSON":            objects,
	} {
		read := rowfile.ReadCSV
		if name == "JSON" {
			read = rowfile.ReadJSON
		}
		lines, err := read([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows, problems := rowfile.Check(lines, mints, false)
		if len(problems) > 0 || len(rows) != 3 {
			t.Errorf("%s: got %d rows and %v, want 3 and no problems", name, len(rows), problems)
			continue
		}
		first := rows[0]
		if first.Reference != `a, "b"` || first.CustomerID != "c1" || first.Mint.ID != 3 || first.ToAddress != payee ||
			first.Memo != "" || first.Amount.String() != "5" || first.Number != 1 {
			t.Errorf("%s: got %+v", name, first)
		}
		if rows[2].Mint.ID != 1 || rows[2].Amount.String() != "7" || rows[2].Number != 3 {
			t.Errorf("%s: got %+v", name, rows[2])
		}
	}
}

// What a spreadsheet does to numbers is a problem of its row, and is never guessed. Rule BP-1.
func TestNoAmountIsGuessed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"1,000"`:                "has a separator",
		`"1,000.50"`:             "has a separator",
		`"1.000,50"`:             "has a separator",
		"1.000.000":              "has several points",
		"1E+06":                  "exponent",
		"1e6":                    "exponent",
		"1 000":                  "has a separator",
		"1\u00a0000":             "has a separator",
		"1'000":                  "has a separator",
		"1_000":                  "has a separator",
		"-5":                     "has a sign",
		"+5":                     "has a sign",
		"":                       "is missing",
		"0":                      "zero",
		"0.0":                    "zero",
		"007":                    "leading zero",
		"1.":                     "decimal number",
		".5":                     "decimal number",
		"1.2345678":              "6 decimals",
		"five":                   "decimal number",
		"0x10":                   "decimal number",
		"\u0661\u0662":           "decimal number",
		"1\u200b0":               "cannot be seen",
		" 5":                     "spaces around",
		"5 ":                     "spaces around",
		"=5+5":                   "formula",
		strings.Repeat("9", 100): "larger than the largest",
	} {
		rows, problems := readRow(t, ",,3,"+payee+",,"+text, true)
		if len(rows) != 0 || len(problems) != 1 || problems[0].Column != "amount" || problems[0].Row != 1 ||
			problems[0].Line != 2 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%q: got %v, %v, want one problem of the amount with %q", text, rows, problems, want)
		}
	}
	for text, want := range map[string]string{"1.5": "1500000", "1": "1000000", "0.000001": "1"} {
		rows, problems := readRow(t, ",,3,"+payee+",,"+text, true)
		if len(problems) != 0 || rows[0].Amount.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, rows, problems, want)
		}
	}
	if _, problems := readRow(t, ",,3,"+payee+",,1.5", false); len(problems) != 1 ||
		!strings.Contains(problems[0].Message, "atomic units") {
		t.Errorf("a point in atomic units: got %v", problems)
	}
}

func TestEveryProblemOfARowIsSaid(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		"\u202er,,9,,,x":                                  "reference: be seen; mintId: no mint 9; toAddress: missing",
		",,3," + payee + ",memo,1":                        "memo: have no memo",
		",,three," + payee + ",,1":                        "mintId: is not the number of a mint",
		",,03," + payee + ",,1":                           "mintId: is not the number of a mint",
		",,," + payee + ",,1":                             "mintId: is missing",
		"=HYPERLINK(1),,3," + payee + ",,1":               "reference: formula",
		"@ref,,3," + payee + ",,1":                        "reference: formula",
		"a\x00b,,3," + payee + ",,1":                      "reference: control character U+0000",
		"a\tb,,3," + payee + ",,1":                        "reference: control character U+0009",
		"\"a\nb\",,3," + payee + ",,1":                    "reference: control character U+000A",
		strings.Repeat("r", 256) + ",,3," + payee + ",,1": "reference: 256 bytes",
		",,3," + payee + ",1":                             ": has 5 values, and the header names 6 columns",
		",,3," + payee + ",,1,":                           ": has 7 values",
		"\n":                                              ": is empty",
		`a"b,,3,` + payee + ",,1":                         ": double quote inside",
		`"a"b,,3,` + payee + ",,1":                        ": behind the closing quote",
	} {
		rows, problems := readRow(t, row, false)
		parts := strings.Split(want, "; ")
		if len(rows) != 0 || len(problems) != len(parts) {
			t.Errorf("%q: got %v, %v, want the problems %q", row, rows, problems, want)
			continue
		}
		for i, part := range parts {
			column, sentence, _ := strings.Cut(part, ": ")
			if column == "" {
				sentence = strings.TrimPrefix(part, ": ")
			}
			if problems[i].Column != column || !strings.Contains(problems[i].Message, sentence) {
				t.Errorf("%q: got %+v, want %q", row, problems[i], part)
			}
		}
	}
}

// A bad row hides no other one, and each keeps its number and its line.
func TestAllRowsAreRead(t *testing.T) {
	t.Parallel()
	lines, err := rowfile.ReadCSV([]byte(header + "\"two\nlines\",,3," + payee + ",,1\n,,3," + payee + ",,1\n" +
		"bad\n,,3," + payee + ",,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := rowfile.Check(lines, mints, false)
	if len(rows) != 2 || rows[0].Number != 2 || rows[0].Line != 4 || rows[1].Number != 4 || rows[1].Line != 6 {
		t.Errorf("got %+v, want rows 2 and 4 of lines 4 and 6", rows)
	}
	if len(problems) != 2 || problems[0].Line != 2 || problems[1].Row != 3 || problems[1].Line != 5 {
		t.Errorf("got %+v, want problems of rows 1 and 3 in lines 2 and 5", problems)
	}
}

func TestATextThatIsNoListIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	row := ",,3," + payee + ",,1\n"
	for _, c := range []struct {
		name, text, want string
		read             func([]byte) ([]rowfile.Line, error)
	}{
		{"nothing", "", "has to name the columns", rowfile.ReadCSV},
		{"no rows", header, "has no rows", rowfile.ReadCSV},
		{"no header", row, "is not the name of a column", rowfile.ReadCSV},
		{"an unknown column", "mintId,toAddress,amount,iban\n", `"iban" is not the name`, rowfile.ReadCSV},
		{"another case", "mintid,toAddress,amount\n", `"mintid" is not the name`, rowfile.ReadCSV},
		{"a missing column", "mintId,toAddress\n", "amount is missing", rowfile.ReadCSV},
		{"a column twice", "mintId,toAddress,amount,amount\n", "is there twice", rowfile.ReadCSV},
		{"two separators", "mintId,toAddress;amount\n", "several kinds of separators", rowfile.ReadCSV},
		{"an open quote", header + row + "\"open,,3\n" + row, "Line 3: A value begins", rowfile.ReadCSV},
		{"other bytes", header + "\xff" + row, "not in UTF-8", rowfile.ReadCSV},
		{"too many rows", header + strings.Repeat(row, rowfile.RowsMax+1), "more than 5000 rows", rowfile.ReadCSV},
		{"too many bytes", header + strings.Repeat(" ", rowfile.BytesMax), "at most 2000000", rowfile.ReadCSV},
		{"no array", `{"mintId":3}`, "JSON array", rowfile.ReadJSON},
		{"no objects", `[]`, "has no rows", rowfile.ReadJSON},
		{"an open array", `[{"mintId":3}`, "Row 2 is not JSON", rowfile.ReadJSON},
		{"more behind it", `[{"mintId":3}] []`, "more behind", rowfile.ReadJSON},
		{"no JSON", `[{"mintId":3},x]`, "Row 2 is not JSON", rowfile.ReadJSON},
		{"too many objects", "[" + strings.Repeat(`{},`, rowfile.RowsMax) + "{}]", "more than 5000", rowfile.ReadJSON},
	} {
		lines, err := c.read([]byte(c.text))
		var refused *rowfile.FileError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %d lines, %v, want a refusal with %q", c.name, len(lines), err, c.want)
		}
	}
}

func TestTheLargestListIsRead(t *testing.T) {
	t.Parallel()
	lines, err := rowfile.ReadCSV([]byte(header + strings.Repeat(",,3,"+payee+",,1\n", rowfile.RowsMax)))
	if err != nil || len(lines) != rowfile.RowsMax {
		t.Errorf("got %d, %v, want %d rows", len(lines), err, rowfile.RowsMax)
	}
}

func TestAMemberOfAnObjectHasOneForm(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{"mintId":"3"}`:             "mintId has to be a JSON number",
		`{"mintId":3,"amount":5}`:    `amount has to be a JSON string, such as "5"`,
		`{"mintId":3,"toAddress":5}`: "toAddress has to be a JSON string",
		`{"mintId":3,"iban":"DE"}`:   `"iban" is not a member`,
		`{"mintId":3,"mintId":4}`:    "twice",
		`{"mintId":{"a":1}}`:         "mintId has to be a JSON number",
		`5`:                          "not a JSON object",
		`null`:                       "not a JSON object",
		`{"mintId":3.5,"amount":"1","toAddress":"x"}`: `"3.5" is not the number of a mint`,
	} {
		lines, err := rowfile.ReadJSON([]byte("[" + object + "]"))
		if err != nil {
			t.Errorf("%s: %v", object, err)
			continue
		}
		rows, problems := rowfile.Check(lines, mints, false)
		if len(rows) != 0 || len(problems) == 0 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: got %v, %v, want %q", object, rows, problems, want)
		}
	}
}

// fuzzed checks what holds for every text.
func fuzzed(t *testing.T, lines []rowfile.Line, err error) {
	var refused *rowfile.FileError
	if err != nil {
		if !errors.As(err, &refused) || refused.Message == "" || !utf8.ValidString(err.Error()) {
			t.Errorf("got the error %v", err)
		}
		return
	}
	for _, isDecimal := range []bool{false, true} {
		rows, problems := rowfile.Check(lines, mints, isDecimal)
		seen := map[int]bool{}
		for _, r := range rows {
			if r.Amount.IsZero() || r.ToAddress == "" || r.Mint.ID == 0 ||
				strings.TrimSpace(r.Reference) != r.Reference {
				t.Errorf("got the row %+v", r)
			}
			seen[r.Number] = true
		}
		for _, p := range problems {
			if seen[p.Row] || p.Message == "" || p.Line < 1 || !utf8.ValidString(p.Message) {
				t.Errorf("got the problem %+v", p)
			}
		}
		bad := map[int]bool{}
		for _, p := range problems {
			bad[p.Row] = true
		}
		if len(seen)+len(bad) != len(lines) {
			t.Errorf("got %d good and %d bad rows of %d", len(seen), len(bad), len(lines))
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add([]byte(header + ",,3," + payee + ",,1\n"))
	f.Add([]byte("mintId;amount;toAddress\r\n3;\"1\";\"a\"\"b\nc\"\r\n"))
	f.Add([]byte("\ufeffmintId\tamount\ttoAddress\n3\t1E6\t\u200b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := rowfile.ReadCSV(data)
		fuzzed(t, lines, err)
	})
}

func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`[{"mintId":3,"amount":"1","toAddress":"` + payee + `"}]`))
	f.Add([]byte(`[{"mintId":{},"memo":null},5,{"a":"\u0000"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := rowfile.ReadJSON(data)
		fuzzed(t, lines, err)
	})
}

// What any value holds, it reads back from CSV as it was.
func FuzzReadBackCSV(f *testing.F) {
	f.Add("a\"b", "c,d")
	f.Fuzz(func(t *testing.T, reference, customerID string) {
		quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		row := quote(reference) + "," + quote(customerID) + ",3," + payee + ",,1"
		fromCSV, err := rowfile.ReadCSV([]byte(header + row))
		if err != nil {
			return
		}
		object, err := json.Marshal(map[string]string{"reference": reference, "customerId": customerID})
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := rowfile.ReadJSON(fmt.Appendf(nil, `[{"mintId":3,"toAddress":%q,"amount":"1",%s]`, payee,
			object[1:]))
		if err != nil {
			t.Fatal(err)
		}
		a, problems := rowfile.Check(fromCSV, mints, false)
		b, others := rowfile.Check(fromJSON, mints, false)
		if len(a) != len(b) || len(problems) != len(others) {
			t.Fatalf("CSV: %v, %v; JSON: %v, %v", a, problems, b, others)
		}
		if len(a) == 1 && (a[0].Reference != b[0].Reference || a[0].CustomerID != b[0].CustomerID) {
			t.Errorf("CSV: %+v, JSON: %+v", a[0], b[0])
		}
	})
}
