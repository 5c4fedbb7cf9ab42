// Package csvcell makes the cells of tables that people open in a spreadsheet.
//
// It does no I/O and keeps nothing, so a crash leaves nothing behind. It never removes a character from a cell.
package csvcell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeFormula keeps a spreadsheet from reading a cell as a formula. Some spreadsheets skip
// leading spaces, and some accept the full-width forms of the signs, so it handles both.
// Rules LIST-2 and BAL-3.
func EscapeFormula(cell string) string {
	if cell == "" {
		return cell
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(cell, unicode.IsSpace))
	if strings.ContainsRune("\t\r\n", rune(cell[0])) || strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
