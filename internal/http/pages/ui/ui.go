// Package ui has the components of the pages: the frame around a page, tables, facts, forms, chips, and
// the functions that write amounts, addresses, times and the texts of strangers.
//
// A component is pure: it reads its parameters and nothing else. It never writes a value as markup, as a
// style or as a script; templ escapes each value by its position in the document. A crash leaves
// nothing.
package ui

import (
	"time"

	"github.com/a-h/templ"
)

// Frame is what stands around the content of a page.
type Frame struct {
	Product string // the name of the surface, such as "Coffer"
	Title   string
	Prefix  string // of every path of the surface
	Assets  Assets
	Menu    []MenuGroup // empty on pages without a session
	Person  *Person     // nil on pages without a session
	StepUp  *StepUp     // nil on pages without an act that needs a factor of the last ten minutes
	// RestrictedUntil is when the person may act again after the use of a recovery code; nil if nothing is
	// restricted.
	RestrictedUntil *Moment
	Notices         []StandingNotice // on every page of the surface
	Main            templ.Component
	// LivePath is the stream that says when Main is out of date; "" for a page that does not change.
	LivePath string
}

// StandingNotice says something on every page until it is over. It leads to the page that says more.
type StandingNotice struct{ Title, Text, Link, Path string }

// Assets are the paths of the files of the kit, with their hashes.
type Assets struct{ Style, Script, Icon string }

// MenuGroup is a part of the menu.
type MenuGroup struct {
	Name    string
	Entries []MenuEntry
}

// MenuEntry leads to a page.
type MenuEntry struct {
	Title, Path string
	Icon        string
	Shortcut    string // the letter after g
	Current     bool
}

// Person is the user of a page.
type Person struct {
	Name, Email, OrgName string
	Roles                string
	SecurityPath         string
	SignOutPath          string
}

// StepUp says whether the second factor of the last ten minutes counts.
type StepUp struct {
	IsFresh bool
	EndsAt  Moment // when it stops to count
}

// Form is the state of a form that was refused. The zero value is a form that was not sent.
type Form struct {
	// HasPasskey and IsCodeless say which second factors the person has: a passkey, and no authenticator
	// app.
	HasPasskey, IsCodeless bool

	Act    string            // the name of the refused act
	Typed  map[string]string // what the user typed, by field; it has no secret
	Errors map[string]string // what is wrong, by field
	// Refusal is what is wrong with the whole; nil if only fields are wrong.
	Refusal *Refusal
}

// IsRefused reports whether the act with this name was refused.
func (f Form) IsRefused(act string) bool {
	return f.Act == act && (len(f.Errors) > 0 || f.Refusal != nil)
}

// Value returns what the user typed into a field of an act.
func (f Form) Value(act, field string) string {
	if f.Act != act {
		return ""
	}
	return f.Typed[field]
}

// Error returns what is wrong with a field of an act, and "" for a good one.
func (f Form) Error(act, field string) string {
	if f.Act != act {
		return ""
	}
	return f.Errors[field]
}

// Refusal is the answer to a request that was not done. Money stands first: it is what a user asks first.
type Refusal struct {
	Heading   string
	Money     string // what happened to the money
	Reason    string
	NextStep  string // what to do
	RequestID string
	LinkPath  string // "" without a link
	LinkText  string
}

// Chip is a state as a user reads it. Its word says everything that its colour says.
type Chip struct {
	Kind ChipKind
	Word string
}

// ChipKind selects the colour and the icon of a chip.
type ChipKind string

// Kinds of chips.
const (
	Good  ChipKind = "good"
	Wait  ChipKind = "wait"
	Bad   ChipKind = "bad"
	Info  ChipKind = "info"
	Quiet ChipKind = "quiet"
)

// Input is a field of a form with its label.
type Input struct {
	Act, Name, Label string
	Type             string // text, email, password or hidden
	Hint             string
	Autocomplete     string
	InputMode        string
	Pattern          string
	MaxLength        int
	Optional         bool
	Focus            bool
	IsTimeZone       bool // while it is empty, the script fills in the reader's time zone
}

// Moment is a time with the time at which the page was written and the time zone of the reader. No zone
// is UTC.
type Moment struct {
	Time, Now time.Time
	Zone      *time.Location
}

// StepUpView is what the page shows that asks for a second factor before an act.
type StepUpView struct {
	Form     Form
	Path     string // to which the form is sent
	BackPath string
	Hidden   []Hidden // what the user typed
	Text     string   // what follows
	Button   string
}

// StepUpAct is the name of the form that asks for a second factor.
const StepUpAct = "step-up"

// Hidden is a value that a form carries.
type Hidden struct{ Name, Value string }

// Tab leads to a part of a page.
type Tab struct {
	Title, Path string
	Count       string // "" shows none
	Current     bool
}

// Fact is a line of a list of facts.
type Fact struct {
	Name string
	// Word is the name of the fact among the words of a payment; "" for other facts.
	Word  string
	Value templ.Component
}
