package dashboard

import (
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/platform/id"
)

const (
	onceName = "form" // the field with the id of a form
	seenName = "seen" // the field with the time of what the page showed
)

// onceField has the id of a form that creates something. What is created has an id that follows from it, so
// one form creates one thing.
var onceField = pages.Field{Name: onceName, BytesMax: 64, Missing: "Open the page again."}

// seenField has the time of the last change that the page showed; empty for none.
var seenField = pages.Field{Name: seenName, BytesMax: 64, Optional: true}

// formID returns the id of the form of an act: a new one, or that of the form that was refused.
func formID(r *pages.Request, act string) string {
	if typed := r.Form.Value(act, onceName); typed != "" {
		return typed
	}
	return id.New("frm", r.Now)
}

// writeSeen writes a time for the field seenName.
func writeSeen(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// readSeen reads the field seenName.
func readSeen(r *pages.Request) (*time.Time, error) {
	text := r.Values[seenName]
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"This form is not one of this page.")
	}
	return &t, nil
}

// option is a choice of a field.
type option struct{ Value, Text string }

// optionInput is a field with choices.
type optionInput struct {
	Act, Name, Label, Hint string
	Options                []option
	Chosen                 string // unless the user chose another one in the refused form
}

func (input optionInput) id() string { return input.Act + "-" + input.Name }

// isChosen reports whether an option is the present one.
func (input optionInput) isChosen(f ui.Form, value string) bool {
	if f.Act == input.Act {
		return f.Value(input.Act, input.Name) == value
	}
	return input.Chosen == value
}

// quoteShell writes a text as one word of a shell.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// curl writes a call of the interface that does what a page does.
func (d *dashboard) curl(method, path, body string) string {
	call := "curl"
	if method != "GET" {
		call += " -X " + method
	}
	call += " " + quoteShell(d.conf.APIURL+path) + ` -H "x-api-key: $COFFER_API_KEY"`
	if body != "" {
		call += " -H 'content-type: application/json' -d " + quoteShell(body)
	}
	return call
}
