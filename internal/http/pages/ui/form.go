package ui

import (
	"maps"
	"slices"
	"strings"
)

// CodeName is the name of the field of a second factor.
const CodeName = "code"

// codeLength is the length of a recovery code with its hyphens, which the field also takes.
const codeLength = 24

func fieldID(in Input) string { return in.Act + "-" + in.Name }

// describedBy names the hint and the error of a field for screen readers.
func describedBy(f Form, in Input) string {
	var ids []string
	if in.Hint != "" {
		ids = append(ids, fieldID(in)+"-hint")
	}
	if f.Error(in.Act, in.Name) != "" {
		ids = append(ids, fieldID(in)+"-error")
	}
	return strings.Join(ids, " ")
}

func sortedFields(errors map[string]string) []string { return slices.Sorted(maps.Keys(errors)) }
