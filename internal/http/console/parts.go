package console

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

const (
	idBytesMax     = 128
	noteBytesMax   = 2000
	textBytesMax   = 512
	addressMax     = 128
	chainBytesMax  = 32
	valueBytesMax  = 40_000
	filterBytesMax = 128
	// rowsMax bounds the rows of a page that has no further pages.
	rowsMax = 200
)

// table is rows of cells under the titles of columns.
type table struct {
	Caption string
	Columns []column
	Rows    [][]templ.Component
}

// column is the title of a column. The title of an unseen one is for screen readers alone.
type column struct {
	Title              string
	IsNumber, IsUnseen bool
}

// label is what stands before a cell on a phone.
func (c column) label() string {
	if c.IsUnseen {
		return ""
	}
	return c.Title
}

// textColumns returns columns with these titles.
func textColumns(titles ...string) (columns []column) {
	for _, title := range titles {
		columns = append(columns, column{Title: title})
	}
	return columns
}

// addRow adds a row. It has a cell for each column.
func (t *table) addRow(cells ...templ.Component) { t.Rows = append(t.Rows, cells) }

// actView is a form of a page.
type actView struct {
	Path, Act, Text, Button string
	Form                    ui.Form
	Inputs                  []ui.Input
	Choices                 []choice
	Shown                   []ui.Fact // what the act will do, above its fields
	Warning                 string    // why the act is risky
	Ticks                   []tick
	Hidden                  []hiddenField
	TakesCode               bool // a second factor with the act
	IsDanger, IsPrimary     bool
}

type hiddenField struct{ Name, Value string }

// tick is a box that a person has to tick. It is never ticked for them, also not when a form comes back.
type tick struct{ Name, Value, Label string }

// choice is a list of which one entry is chosen.
type choice struct {
	Act, Name, Label, Value string
	Options                 []option
}

// chosen returns what the user chose, or the value that stands.
func (c choice) chosen(f ui.Form) string {
	if typed := f.Value(c.Act, c.Name); typed != "" {
		return typed
	}
	return c.Value
}

type option struct{ Value, Text string }

// optionsOf returns options whose values are their texts.
func optionsOf(values ...string) (options []option) {
	for _, value := range values {
		options = append(options, option{value, value})
	}
	return options
}

// filter is a filter of a list.
type filter struct {
	Name, Label, Value string
	Options            []option // without options the user types a text
}

// filtersOf returns the filters of a list with the values of the request.
func filtersOf(r *pages.Request, filters ...filter) []filter {
	for i := range filters {
		filters[i].Value = r.Query[filters[i].Name]
	}
	return filters
}

// textFilter is the parameter of a filter that the user types or chooses. An empty one does not filter.
func textFilter(name string) kernel.Parameter {
	return kernel.Parameter{Name: name, Kind: kernel.TextParameter, Max: filterBytesMax}
}

// note is the optional note of a decision.
func noteField() pages.Field {
	return pages.Field{Name: "note", BytesMax: noteBytesMax, Optional: true}
}

func noteInput(act string) ui.Input {
	return ui.Input{
		Act: act, Name: "note", Label: "Note", Type: "text", Optional: true, MaxLength: 500, Autocomplete: "off",
		Hint: "Other operators see it, and the organization.",
	}
}

// whenOrNothing shows a time that may be absent.
func whenOrNothing(r *pages.Request, moment *time.Time, absent string) templ.Component {
	if moment == nil {
		return nothing(absent)
	}
	return ui.When(r.Moment(*moment))
}

// codeOrNothing shows an id that may be absent.
func codeOrNothing(text, absent string) templ.Component {
	if text == "" {
		return nothing(absent)
	}
	return ui.Code(text)
}

// foreignOrNothing shows a text of a stranger that may be absent.
func foreignOrNothing(text, absent string) templ.Component {
	if text == "" {
		return nothing(absent)
	}
	return ui.Foreign(text)
}

// join shows components one after another.
func join(parts ...templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		for _, part := range parts {
			if err := part.Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

func textOrEmpty[S ~string](text *S) string {
	if text == nil {
		return ""
	}
	return string(*text)
}

// wordOf writes a constant of the interface, such as COOLING_OFF, for people.
func wordOf[S ~string](constant S) string {
	text := strings.ToLower(strings.ReplaceAll(string(constant), "_", " "))
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
