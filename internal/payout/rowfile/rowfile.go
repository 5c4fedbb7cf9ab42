// Package rowfile reads the list of a batch payout, as JSON or as CSV, and says what is wrong with each row.
//
// It guesses nothing. A number with separators of thousands, a sign or an exponent, a character that cannot be
// seen, and a space around a value are errors of their row: a spreadsheet that rewrote an amount must not decide
// what is paid. All rows are read, and one answer has every problem, in sentences that a bookkeeper understands.
//
// The package is pure. It knows the catalogue of mints, and neither customers nor addresses of chains: whether an
// address is one of its chain is decided by the batch.
package rowfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/request"
)

// Limits of a list.
const (
	RowsMax  = 5000
	BytesMax = 2_000_000
	// textBytesMax bounds each value of a row.
	textBytesMax = 255
)

// Columns are the names of the values of a row, in the order of exports.
var Columns = []string{"reference", "customerId", "mintId", "toAddress", "memo", "amount"}

// required are the columns that every list has.
var required = []string{"mintId", "toAddress", "amount"}

// Line is a row as it was written.
type Line struct {
	Number int // of the row, from 1
	Line   int // in the text; the header of a CSV is line 1
	// values has the value of each column, by the index in Columns.
	values [6]string
	// problem says why the values of the row could not be told apart; "" otherwise.
	problem string
	// columns are those that the list names, in its order. All lines of a list share them.
	columns []string
}

// Values returns the values as they were given, in the order of Columns. Those of a row that could not be told apart
// are empty.
func (l Line) Values() []string { return slices.Clone(l.values[:]) }

// NewLine returns a row with values in the order of Columns, as Values returned them.
func NewLine(number, line int, values []string) Line {
	l := Line{Number: number, Line: line}
	copy(l.values[:], values)
	return l
}

// NamedColumns returns the columns that a list names, in its order. A JSON list names all columns.
func NamedColumns(lines []Line) []string {
	if len(lines) == 0 || len(lines[0].columns) == 0 {
		return slices.Clone(Columns)
	}
	return slices.Clone(lines[0].columns)
}

// Row is a row whose values are known.
type Row struct {
	Number, Line                           int
	Reference, CustomerID, ToAddress, Memo string
	Mint                                   mint.Mint
	Amount                                 money.Amount
}

// Problem is what is wrong with one value of one row.
type Problem struct {
	Row     int    `json:"row"`
	Line    int    `json:"line"`
	Column  string `json:"column"` // "" for the row as a whole
	Message string `json:"message"`
}

// FileError says why a text is no list at all, so that nothing can be said about its rows.
type FileError struct {
	Line    int // 0: the text as a whole
	Message string
}

// Error returns the sentence.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("Line %d: %s", e.Line, e.Message)
}

func refuseFile(line int, format string, args ...any) error {
	return &FileError{Line: line, Message: fmt.Sprintf(format, args...)}
}

// checkSize refuses texts that are no list by their size or bytes.
func checkSize(data []byte) error {
	switch {
	case len(data) > BytesMax:
		return refuseFile(0, "The list has %d bytes, and a batch may have at most %d. Split it into several batches.",
			len(data), BytesMax)
	case !utf8.Valid(data):
		return refuseFile(0, "The list is not in UTF-8. Save it as \"CSV UTF-8\" and upload it again.")
	}
	return nil
}

// checkCount refuses lists without rows and with too many.
func checkCount(lines []Line) error {
	switch {
	case len(lines) == 0:
		return refuseFile(0, "The list has no rows.")
	case len(lines) > RowsMax:
		return refuseFile(0, "The list has more than %d rows. Split it into several batches.", RowsMax)
	}
	return nil
}

// Check returns the rows that are well formed, and every problem of the others. isDecimal says that amounts are in
// whole tokens instead of atomic units. Rule BP-1.
func Check(lines []Line, mints mint.Catalogue, isDecimal bool) (rows []Row, problems []Problem) {
	for _, l := range lines {
		row, found := l.check(mints, isDecimal)
		if len(found) == 0 {
			rows = append(rows, row)
		}
		problems = append(problems, found...)
	}
	return rows, problems
}

func (l Line) check(mints mint.Catalogue, isDecimal bool) (row Row, problems []Problem) {
	add := func(column, format string, args ...any) {
		problems = append(problems, Problem{
			Row: l.Number, Line: l.Line, Column: column, Message: fmt.Sprintf(format, args...),
		})
	}
	if l.problem != "" {
		add("", "%s", l.problem)
		return row, problems
	}
	isBad := map[string]bool{}
	for i, column := range Columns {
		if sentence := describeText(l.values[i]); sentence != "" {
			add(column, "%s", sentence)
			isBad[column] = true
		}
	}
	row = Row{
		Number: l.Number, Line: l.Line, Reference: l.values[0], CustomerID: l.values[1], ToAddress: l.values[3],
		Memo: l.values[4],
	}
	hasMint := false
	if mintID, sentence := parseMintID(l.values[2]); isBad["mintId"] {
	} else if sentence != "" {
		add("mintId", "%s", sentence)
	} else if row.Mint, hasMint = mints.ByID(mintID); !hasMint {
		add("mintId", "There is no mint %d. List the mints to see which coins can be paid.", mintID)
	}
	if row.ToAddress == "" {
		add("toAddress", "The address is missing.")
	}
	if row.Memo != "" && hasMint && !isBad["memo"] {
		add("memo", "Payments on %s have no memo. Leave it empty.", row.Mint.Chain)
	}
	if isBad["amount"] || !hasMint {
		return row, problems // what an amount means depends on the mint
	}
	var err error
	if row.Amount, err = request.ParseAmount(l.values[5], isDecimal, row.Mint, fault.NothingWritten); err != nil {
		add("amount", "%s", describeAmount(l.values[5], isDecimal, row.Mint, err))
	}
	return row, problems
}

// parseMintID reads the number of a mint: digits alone, without leading zeros. The sentence says why it cannot.
func parseMintID(text string) (mintID int, sentence string) {
	mintID, err := strconv.Atoi(text)
	switch {
	case text == "":
		return 0, "The number of the mint is missing."
	case err != nil || mintID <= 0 || strconv.Itoa(mintID) != text:
		return 0, fmt.Sprintf("%q is not the number of a mint. Write a whole number such as 3.", text)
	}
	return mintID, ""
}

// describeAmount says what is wrong with an amount, with the word for what a spreadsheet does to numbers.
func describeAmount(text string, isDecimal bool, m mint.Mint, err error) string {
	example := "such as 1500000"
	if isDecimal {
		example = "such as 1234.5"
	}
	switch {
	case text == "":
		return "The amount is missing."
	case strings.ContainsAny(text, "eE") && strings.Trim(text, "0123456789.,+-eE") == "":
		return fmt.Sprintf("%q is written with an exponent, which hides digits. Format the column as text and write "+
			"the whole number, %s.", text, example)
	case strings.ContainsAny(text, ",'_ \u00a0\u2009\u202f"):
		return fmt.Sprintf("%q has a separator, and it is not clear whether it separates thousands or decimals. Write "+
			"digits without one, %s.", text, example)
	case strings.Count(text, ".") > 1:
		return fmt.Sprintf("%q has several points. Write digits without separators of thousands, %s.", text, example)
	case strings.HasPrefix(text, "-"), strings.HasPrefix(text, "+"):
		return fmt.Sprintf("%q has a sign. Write digits alone, %s.", text, example)
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Reason
	}
	return fmt.Sprintf("%q is not an amount of %s. Write digits, %s.", text, m.Symbol, example)
}

// describeText says why a value cannot be read safely, or "".
func describeText(text string) string {
	switch {
	case text == "":
		return ""
	case len(text) > textBytesMax:
		return fmt.Sprintf("The value has %d bytes and may have at most %d.", len(text), textBytesMax)
	case strings.TrimSpace(text) != text:
		return "The value has spaces around it. Remove them."
	case strings.ContainsRune("=+-@", rune(text[0])) && !isNumeric(text):
		return fmt.Sprintf("The value begins with %q, which makes a formula of it in a spreadsheet. Write it without.",
			text[:1])
	}
	for _, r := range text {
		switch {
		case unicode.IsControl(r):
			return fmt.Sprintf("The value has the control character U+%04X. Remove it.", r)
		case request.IsInvisible(r), r == '\u200c', r == '\u200d', r == unicode.ReplacementChar,
			unicode.In(r, unicode.Bidi_Control, unicode.Variation_Selector, unicode.Co, unicode.Cn):
			return fmt.Sprintf("The value has the character U+%04X, which cannot be seen. Type the value again.", r)
		}
	}
	return ""
}

// isNumeric reports whether a text consists of what numbers are written with: a sign before digits is no formula.
func isNumeric(text string) bool { return strings.Trim(text, "0123456789.,+-eE") == "" }
