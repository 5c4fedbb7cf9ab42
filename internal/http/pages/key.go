package pages

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/request"
)

const (
	// keyPrefix begins the idempotency keys of forms, so people can tell them from those of programs.
	keyPrefix   = "form"
	keyMACBytes = 16
	keyBytesMax = 128
)

// keyField is the field of an idempotency key. The kit reads it and checks to whom it belongs.
var keyField = Field{Name: ui.KeyName, BytesMax: keyBytesMax, Missing: "Open the page again."}

// FormKey returns the idempotency key for the form of an act. A refused form keeps its key: a refusal does
// not use a key up, and the outcome may be unknown. Rule PAGE-15.
func (r *Request) FormKey(act string) string {
	if key := r.Form.Value(act, ui.KeyName); key != "" {
		return key
	}
	return r.server.signKey(r, act, id.New(keyPrefix, r.Now))
}

// Key returns the idempotency key of the form that was sent. It belongs to the person, the organization
// and the act.
func (r *Request) Key() string { return r.key }

// TermsDigest identifies what a form with a key shows: its values on its page. A second factor is bound to
// it.
func (r *Request) TermsDigest() []byte {
	parts := []string{"coffer-form-terms-1", strings.TrimSuffix(r.URL.EscapedPath(), optionsSuffix)}
	for _, name := range kernel.SortedKeys(r.Values) {
		if value := r.Values[name]; value != "" {
			parts = append(parts, name, value)
		}
	}
	return request.Digest(parts...)
}

// NewKeyConflict refuses a form whose key was used with other values. made says what its first use made,
// and path is the page that shows it. Rule PAGE-15.
func (r *Request) NewKeyConflict(made, path string) *fault.Fault {
	r.firstPath = path
	return fault.New(fault.Conflict, fault.IdempotencyConflict, fault.Unprocessed,
		"This form was sent before with other values. That first request stands: %s.", made)
}

// signKey binds a key to the person, the organization and the act of a form. A key of another person's
// form would find no act of this person, and both could act.
func (s *server) signKey(r *Request, act, text string) string {
	mac := hmac.New(sha256.New, s.conf.CursorKey)
	for _, part := range []string{
		"coffer-form-key-1", s.surface.Prefix, r.Session.OrgID, r.Session.Member.ID, r.Session.Operator.ID,
		r.page.Path, act, text,
	} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:keyMACBytes])
}

// takeKey moves the key of a form out of its values. It refuses a key that FormKey did not make for this
// person, organization and act.
func (s *server) takeKey(r *Request, act Act) error {
	r.key = r.Values[ui.KeyName]
	delete(r.Values, ui.KeyName)
	text, _, _ := strings.Cut(r.key, ".")
	if id.IsValid(keyPrefix, text) && hmac.Equal([]byte(s.signKey(r, act.Name, text)), []byte(r.key)) {
		return nil
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"This form was opened by another person, for another organization or on another page.").
		WithAdvice("Open the page again and look at it before you send it.")
}
