package document

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/platform/csvcell"
)

// columns are the cells of a line, each with the name of its JSON field.
var columns = []struct {
	name string
	cell func(i Invoice, l Line) string
}{
	{"number", func(i Invoice, _ Line) string { return i.Number }},
	{"month", func(i Invoice, _ Line) string { return i.Month }},
	{"feeLineId", func(_ Invoice, l Line) string { return l.FeeLineID }},
	{"kind", func(_ Invoice, l Line) string { return l.Kind }},
	{"sourceKind", func(_ Invoice, l Line) string { return l.SourceKind }},
	{"sourceId", func(_ Invoice, l Line) string { return l.SourceID }},
	{"incurredAt", func(_ Invoice, l Line) string { return moment(l.IncurredAt) }},
	{"txHash", func(_ Invoice, l Line) string { return l.TxHash }},
	{"chain", func(_ Invoice, l Line) string { return l.Chain }},
	{"symbol", func(_ Invoice, l Line) string { return l.Symbol }},
	{"amount", func(_ Invoice, l Line) string { return l.Amount }},
	{"usdExact", func(_ Invoice, l Line) string { return l.USDExact }},
	{"price", func(_ Invoice, l Line) string { return l.Price }},
	{"priceSource", func(_ Invoice, l Line) string { return l.PriceSource }},
	{"pricedAt", func(_ Invoice, l Line) string { return moment(l.PricedAt) }},
}

// WriteCSV writes the lines of a document as RFC 4180 has it, in the order in which they come. No cell is a formula.
// It fails if the lines are not as many as the sections say: what was written then is no complete table, and the
// caller breaks it off.
func WriteCSV(w io.Writer, i Invoice, lines iter.Seq2[Line, error]) error {
	if err := i.check(); err != nil {
		return err
	}
	writer := csv.NewWriter(w)
	writer.UseCRLF = true
	record := make([]string, len(columns))
	for n, column := range columns {
		record[n] = column.name
	}
	if err := writer.Write(record); err != nil {
		return fmt.Errorf("write the lines of document %s: %w", i.Number, err)
	}
	expected, written := 0, 0
	for _, s := range i.Sections {
		expected += s.Lines
	}
	for line, err := range lines {
		if err != nil {
			return fmt.Errorf("read the lines of document %s: %w", i.Number, err)
		}
		for n, column := range columns {
			record[n] = escapeCell(column.cell(i, line))
		}
		if err := writer.Write(record); err != nil {
			return fmt.Errorf("write the lines of document %s: %w", i.Number, err)
		}
		written++
	}
	if written != expected {
		return fmt.Errorf("write the lines of document %s: it has %d, and %d were read", i.Number, expected, written)
	}
	writer.Flush()
	if err := writer.Error(); err != nil {
		return fmt.Errorf("write the lines of document %s: %w", i.Number, err)
	}
	return nil
}

// escapeCell returns a cell of printable characters that is no formula.
func escapeCell(s string) string {
	if isDecimal(s) {
		return s
	}
	return csvcell.EscapeFormula(visible(s))
}

// isDecimal reports whether a cell is a figure. A minus sign before it begins no formula, and as text no spreadsheet
// would add it up.
func isDecimal(s string) bool {
	whole, fraction, hasPoint := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return hasDigits(whole) && (!hasPoint || hasDigits(fraction))
}

func hasDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// moment prints a time in UTC to the millisecond, and nothing for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
