package rowfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// byteOrderMark begins the files of some spreadsheets.
var byteOrderMark = []byte("\ufeff")

// separators of values. The header says which one a file has.
const separators = ",;\t"

// ReadCSV reads a list with a header line, by the rules of RFC 4180: values are separated by commas, semicolons or
// tabs, and a value in double quotes may have separators and line ends. The order of columns is free; mintId,
// toAddress and amount are there. The error is a *FileError.
func ReadCSV(data []byte) ([]Line, error) {
	if err := checkSize(data); err != nil {
		return nil, err
	}
	text := string(bytes.TrimPrefix(data, byteOrderMark))
	header, _, _ := strings.Cut(text, "\n")
	separator, err := findSeparator(header)
	if err != nil {
		return nil, err
	}
	c := &csvReader{text: text, line: 1, separator: separator}
	names, _, err := c.readRecord()
	if err != nil {
		return nil, err
	}
	columns, err := findColumns(names)
	if err != nil {
		return nil, err
	}
	named := make([]string, 0, len(columns))
	for _, column := range columns {
		named = append(named, Columns[column])
	}
	var lines []Line
	for !c.isAtEnd() {
		if len(lines) > RowsMax {
			break
		}
		start := c.line
		values, problem, err := c.readRecord()
		if err != nil {
			return nil, err
		}
		l := Line{Number: len(lines) + 1, Line: start, problem: problem, columns: named}
		switch {
		case problem != "":
		case len(values) != len(names):
			l.problem = fmt.Sprintf("The row has %d values, and the header names %d columns.", len(values), len(names))
			if len(values) == 1 && values[0] == "" {
				l.problem = "The row is empty. Remove it."
			}
		default:
			for i, column := range columns {
				l.values[column] = values[i]
			}
		}
		lines = append(lines, l)
	}
	return lines, checkCount(lines)
}

// findSeparator returns the one separator of a header.
func findSeparator(header string) (byte, error) {
	var found []byte
	for i := range len(separators) {
		if strings.IndexByte(header, separators[i]) >= 0 {
			found = append(found, separators[i])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, refuseFile(1, "The first line has to name the columns, separated by commas, semicolons or tabs: %s.",
			strings.Join(Columns, ","))
	}
	return 0, refuseFile(1, "The first line has several kinds of separators. Use commas, semicolons or tabs.")
}

// findColumns returns the index in Columns of each column of a header.
func findColumns(names []string) ([]int, error) {
	columns := make([]int, 0, len(names))
	for _, name := range names {
		column := slices.Index(Columns, name)
		switch {
		case column < 0:
			return nil, refuseFile(1, "%.80q is not the name of a column. The columns are %s.", name,
				strings.Join(Columns, ", "))
		case slices.Contains(columns, column):
			return nil, refuseFile(1, "The column %s is there twice.", name)
		}
		columns = append(columns, column)
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			return nil, refuseFile(1, "The column %s is missing.", name)
		}
	}
	return columns, nil
}

// csvReader reads the records of a text.
type csvReader struct {
	text      string
	offset    int
	line      int
	separator byte
}

func (c *csvReader) isAtEnd() bool { return c.offset >= len(c.text) }

// readRecord reads one record. problem says why its values cannot be told apart. An error is one after which no
// record can be told apart from the next one.
func (c *csvReader) readRecord() (values []string, problem string, err error) {
	for {
		value, found, err := c.readValue()
		if err != nil {
			return nil, "", err
		}
		if problem == "" {
			problem = found
		}
		values = append(values, value)
		if c.isAtEnd() {
			return values, problem, nil
		}
		c.offset++
		if c.text[c.offset-1] == '\n' {
			c.line++
			return values, problem, nil
		}
	}
}

// readValue reads up to the next separator, line end or end of the text.
func (c *csvReader) readValue() (value, problem string, err error) {
	if c.isAtEnd() || c.text[c.offset] != '"' {
		return c.readPlain()
	}
	start := c.line
	var b strings.Builder
	for c.offset++; ; c.offset++ {
		switch {
		case c.isAtEnd():
			return "", "", refuseFile(start, "A value begins with a double quote that is never closed.")
		case c.text[c.offset] == '\n':
			c.line++
			b.WriteByte('\n')
		case c.text[c.offset] != '"':
			b.WriteByte(c.text[c.offset])
		case c.offset+1 < len(c.text) && c.text[c.offset+1] == '"':
			b.WriteByte('"')
			c.offset++
		default:
			c.offset++
			rest, problem, err := c.readPlain()
			if err == nil && problem == "" && rest != "" {
				problem = "There are characters behind the closing quote of a value."
			}
			return b.String(), problem, err
		}
	}
}

func (c *csvReader) readPlain() (value, problem string, err error) {
	length := strings.IndexAny(c.text[c.offset:], string(c.separator)+"\n")
	if length < 0 {
		length = len(c.text) - c.offset
	}
	value = c.text[c.offset : c.offset+length]
	c.offset += length
	if isLineEnd := c.isAtEnd() || c.text[c.offset] == '\n'; isLineEnd {
		value = strings.TrimSuffix(value, "\r")
	}
	if strings.Contains(value, `"`) {
		problem = "A value has a double quote inside. Put the value in quotes and write each quote of it twice."
	}
	return value, problem, nil
}
