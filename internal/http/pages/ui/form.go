package ui

import (
	"maps"
	"slices"
	"strings"
)

// CodeName is the name of the field of a second factor.
const CodeName = "code"

// PasskeyName is the name of the field into which the script writes the answer of a passkey.
const PasskeyName = "passkey"

// KeyName is the name of the field of an idempotency key.
const KeyName = "formKey"

// codeLength is the length of a recovery code with its hyphens, which the field also takes.
const codeLength = 24

func fieldID(input Input) string { return input.Act + "-" + input.Name }

// describedBy names the hint and the error of a field for screen readers.
func describedBy(f Form, input Input) string {
	var ids []string
	if input.Hint != "" {
		ids = append(ids, fieldID(input)+"-hint")
	}
	if f.Error(input.Act, input.Name) != "" {
		ids = append(ids, fieldID(input)+"-error")
	}
	return strings.Join(ids, " ")
}

func sortedFields(errors map[string]string) []string { return slices.Sorted(maps.Keys(errors)) }

// AreaInput is a field of several lines.
type AreaInput struct {
	Act, Name, Label, Hint string
	Text                   string // unless the user typed another one in the refused form
}

func (input AreaInput) id() string { return input.Act + "-" + input.Name }

func (input AreaInput) shown(f Form) string {
	if f.Act == input.Act {
		return f.Value(input.Act, input.Name)
	}
	return input.Text
}

// Filled returns a form that shows the present values of an act that was not refused.
func Filled(f Form, act string, values map[string]string) Form {
	if f.Act == act {
		return f
	}
	return Form{Act: act, Typed: values}
}

// DescribeField names the hint and the error of a field for screen readers.
func DescribeField(f Form, act, name, hint string) string {
	var ids []string
	if hint != "" {
		ids = append(ids, act+"-"+name+"-hint")
	}
	if f.Error(act, name) != "" {
		ids = append(ids, act+"-"+name+"-error")
	}
	return strings.Join(ids, " ")
}
