package rowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadJSON reads a list as a JSON array of objects, whose members are the columns. mintId is a number and all
// others are texts; an amount that is a JSON number is a problem of its row, because programs round such numbers.
// Error: a *FileError.
func ReadJSON(data []byte) ([]Line, error) {
	if err := checkSize(data); err != nil {
		return nil, err
	}
	// A member that is there twice is a problem of its row.
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '[' {
		return nil, refuseFile(0, "The rows have to be a JSON array of objects.")
	}
	var lines []Line
	line, counted := 1, int64(0)
	for d.PeekKind() != ']' && len(lines) <= RowsMax {
		number, offset := len(lines)+1, d.InputOffset()
		line, counted = line+bytes.Count(data[counted:offset], []byte("\n")), offset
		value, err := d.ReadValue()
		if err != nil {
			return nil, refuseFile(line, "Row %d is not JSON: %v.", number, err)
		}
		l := Line{Number: number, Line: line}
		l.problem = l.readObject(value)
		lines = append(lines, l)
	}
	if len(lines) <= RowsMax {
		_, _ = d.ReadToken() // the bracket
		if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
			return nil, refuseFile(0, "There is more behind the JSON array of rows.")
		}
	}
	return lines, checkCount(lines)
}

// readObject reads the members of a row and says why it cannot, or "".
func (l *Line) readObject(value jsontext.Value) string {
	if value.Kind() != '{' {
		return "The row is not a JSON object."
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	_, _ = d.ReadToken() // the brace of a value that was read as an object
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return "The row names a member twice."
		}
		member := name.String()
		column := slices.Index(Columns, member)
		if column < 0 {
			return fmt.Sprintf("%.80q is not a member of a row.", member)
		}
		token, err := d.ReadToken()
		switch kind := token.Kind(); {
		case err != nil:
			return fmt.Sprintf("The value of %s is not JSON.", member)
		case kind == 'n':
		case member == "mintId" && kind == '0':
			l.values[column] = token.String()
		case member != "mintId" && kind == '"':
			l.values[column] = token.String()
		case member == "mintId":
			return "mintId has to be a JSON number."
		case member == "amount" && kind == '0':
			return fmt.Sprintf("amount has to be a JSON string, such as %s: programs round numbers.",
				strconv.Quote(token.String()))
		default:
			return fmt.Sprintf("%s has to be a JSON string.", member)
		}
	}
	return ""
}
