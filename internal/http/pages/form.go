package pages

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// errFields says that a form has fields that are empty or too long; Form.Errors names them.
var errFields = errors.New("fields of the form are wrong")

// CodeField and PasskeyField are the fields of a second factor. The kit reads those of a step-up and never
// sends them back. A passkey's answer takes the place of the code.
var (
	CodeField = Field{
		Name: ui.CodeName, BytesMax: 64, Secret: true, Optional: true, Scripted: true,
		Missing: "Enter the code that your authenticator app shows now.",
	}
	PasskeyField = Field{Name: ui.PasskeyName, BytesMax: 16 << 10, Secret: true, Optional: true, Scripted: true}
)

// fieldsOf returns the fields of an act, with the key and those of the second factor if it needs them.
func fieldsOf(act Act) []Field {
	fields := slices.Clone(act.Fields)
	if act.Keyed {
		fields = append(fields, keyField)
	}
	if act.StepUp == NoStepUp {
		return fields
	}
	code := CodeField
	code.Scripted = act.StepUp != ActStepUp
	return append(fields, code, PasskeyField)
}

func hasField(act Act, name string) bool {
	return name != "" && slices.ContainsFunc(fieldsOf(act), func(f Field) bool { return f.Name == name })
}

// readForm reads the form of an act: exactly its fields, each once. The error refuses a form that no
// page of this version wrote. A field that is empty or too long is in r.Form.Errors. It returns the
// second factor. Rule PAGE-2.
func (s *server) readForm(w http.ResponseWriter, r *Request, act Act) (proof signin.Proof, err error) {
	values, err := parseForm(w, r.Request, act)
	if err != nil {
		return signin.Proof{}, err
	}
	fields := fieldsOf(act)
	for _, name := range kernel.SortedKeys(values) {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			return signin.Proof{}, newStrangeForm(
				"It has the field %q, which this form does not have.", kernel.ClipText(name),
			)
		}
	}
	r.Values = map[string]string{}
	r.Form.Typed, r.Form.Errors = map[string]string{}, map[string]string{}
	for _, f := range fields {
		entries := values[f.Name]
		switch {
		case len(entries) == 0 &&
			(f.Checkbox || f.HasBoxes || f.Scripted || f.Name == ui.CodeName && r.Form.IsCodeless):
			entries = []string{""} // A browser sends a box only if it is ticked.
		case len(entries) == 0:
			return signin.Proof{}, newStrangeForm("It lacks the field %q.", f.Name)
		case f.HasBoxes:
			joined, err := joinTicked(f, entries)
			if err != nil {
				return signin.Proof{}, err
			}
			entries = []string{joined}
		case len(entries) > 1:
			return signin.Proof{}, newStrangeForm("It has the field %q twice.", f.Name)
		case !f.IsFile && !utf8.ValidString(entries[0]):
			return signin.Proof{}, newStrangeForm("The field %q is not text.", f.Name)
		}
		value := entries[0]
		if !f.IsFile && !f.IsVerbatim && (!f.Secret || f.Name == ui.CodeName) {
			value = strings.TrimSpace(value)
		}
		if value == "" && !f.Optional {
			r.Form.Errors[f.Name] = f.Missing
		} else if len(value) > f.BytesMax {
			r.Form.Errors[f.Name] = "This is too long."
		}
		if !f.Secret && !f.IsFile {
			r.Form.Typed[f.Name] = value
		}
		r.Values[f.Name] = value
	}
	if act.StepUp != NoStepUp {
		proof = r.TakeProof()
		if act.StepUp == ActStepUp && proof.Code.IsEmpty() && len(proof.Assertion) == 0 {
			r.Form.Errors[ui.CodeName] = CodeField.Missing
		}
	}
	if act.Keyed {
		return proof, s.takeKey(r, act)
	}
	return proof, nil
}

// tickedSeparator stands between the values of the ticked boxes of a list. None of them has it.
const tickedSeparator = ","

// joinTicked makes one text of the values of a field with many boxes. A browser sends each box at most once.
func joinTicked(f Field, entries []string) (string, error) {
	for i, entry := range entries {
		if entry == "" || strings.Contains(entry, tickedSeparator) || !utf8.ValidString(entry) {
			return "", newStrangeForm("A value of the field %q is not one of this page.", f.Name)
		}
		if slices.Contains(entries[:i], entry) {
			return "", newStrangeForm("It has a value of the field %q twice.", f.Name)
		}
	}
	return strings.Join(entries, tickedSeparator), nil
}

// ListTicked returns the values of the boxes of a list that were ticked, in the order of the page.
func (r *Request) ListTicked(name string) []string {
	return strings.FieldsFunc(r.Values[name], func(c rune) bool { return string(c) == tickedSeparator })
}

// TakeProof removes the second factor from the values of a form and returns it. A passkey's answer comes
// before a code.
func (r *Request) TakeProof() (proof signin.Proof) {
	if answer := r.Values[ui.PasskeyName]; answer != "" {
		proof.Assertion = []byte(answer)
	} else {
		proof.Code = seal.NewSecret(r.Values[ui.CodeName])
	}
	delete(r.Values, ui.PasskeyName)
	delete(r.Values, ui.CodeName)
	return proof
}

// parseForm reads a body that a browser sent for the form of an act.
func parseForm(w http.ResponseWriter, r *http.Request, act Act) (url.Values, error) {
	types := r.Header.Values("Content-Type")
	kind, boundary := "", ""
	if len(types) == 1 {
		if parsed, parameters, err := mime.ParseMediaType(types[0]); err == nil {
			kind, boundary = parsed, parameters["boundary"]
		}
	}
	bytesMax := cmp.Or(act.BodyBytesMax, kernel.BodyBytesMax)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bytesMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.Invalid, fault.BodyTooLarge, fault.NothingWritten,
			"This form is larger than %d bytes.", bytesMax)
	case err != nil:
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The form did not arrive completely.")
	case kind == "" && len(body) == 0:
		return url.Values{}, nil
	case kind == multipartType && slices.ContainsFunc(act.Fields, func(f Field) bool { return f.IsFile }):
		return parseMultipart(body, boundary)
	case kind != "application/x-www-form-urlencoded":
		return nil, newStrangeForm("It has another type than the forms of these pages.")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, newStrangeForm("It cannot be read.")
	}
	return values, nil
}

const (
	multipartType = "multipart/form-data"
	// partsMax bounds the parts of a form with a file: no form of the pages has as many fields.
	partsMax = 100
)

// parseMultipart reads the parts of a form with a file. The name of the file, which the user's machine chose, counts
// for nothing.
func parseMultipart(body []byte, boundary string) (url.Values, error) {
	values := url.Values{}
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil || n == partsMax {
			return nil, newStrangeForm("It cannot be read.")
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, newStrangeForm("It cannot be read.")
		}
		values.Add(part.FormName(), string(text))
	}
}

// newStrangeForm refuses a form that a page of this version did not write.
func newStrangeForm(reason string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"This form is not one of this page. "+reason, args...)
}

// fieldError returns the message at a field.
func fieldError(f *fault.Fault) string {
	return strings.TrimSpace(f.Reason + " " + f.Advice)
}
