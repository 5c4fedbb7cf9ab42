package kernel

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
)

// Surface is one interface: a table of routes, a credential, a document. Every surface has its own
// listener and its own keys. All of them use the same code to read, refuse, limit and describe
// requests, so they cannot drift apart.
type Surface struct {
	Title, Description string
	// Of the documentation at /docs: its title, and Markdown above the reference.
	Page, Guide string
	Pages       []string // further Markdown after the guide, each with a title
	Routes      []Route
	Forbidden   []Route // calls that are always refused, with a reason; no document has them
	Groups      []Group
	// Webhooks are the events that the document describes, and WebhookHeaders are their headers.
	Webhooks       []Webhook
	WebhookHeaders []Header

	Credential     string // its name in the document
	Header         string // the header that carries it, in canonical form
	CredentialText string // its description in the document
	// ForeignKeyPrefix begins the keys of another listener; ForeignKeyText refuses such a key.
	ForeignKeyPrefix identity.KeyPrefix
	ForeignKeyText   string
	HasScopes        bool // its keys have scopes
	// Admits reports whether a key of this listener may take an action with this permission.
	Admits func(identity.Permission) bool
	// CheckAddress refuses the address of a caller before its key and path are looked at; the address
	// is the zero one if it is unknown. CheckAddress may be nil.
	CheckAddress func(netip.Addr) error
	// Authenticate finds the caller who holds the key, or refuses it. It decides nothing else.
	Authenticate func(r *Request, key string) (Caller, error)
	// BeforeRead runs before any part of an admitted call is read; it may be nil.
	BeforeRead func(*http.Request, Caller, Route) error

	Faults []fault.Code // of every call, in addition to those that all surfaces have
	// Words are the sentences about the effect of a refusal and the next step.
	Words fault.Words
	// DescribeOutage returns why an error will pass, as the beginning of a sentence, and "" for other
	// errors.
	DescribeOutage func(error) string

	// The texts of the document.
	Problems map[fault.Code]ProblemDoc
	TypeDocs map[reflect.Type]string
	// FieldDocs are the texts about fields of the same name in several types, by that name, and what a
	// tag cannot hold, by type and name.
	FieldDocs map[string]FieldDoc
	// SchemaNames are the names of types in the document that differ from their names in Go.
	SchemaNames map[reflect.Type]string
}

// Group is a group of calls in the document.
type Group struct{ Name, Text string }

// Webhook is an event that the document describes.
type Webhook struct {
	Type, Text string
	Data       reflect.Type
}

// retryAdvice says how a caller finds out whether a call took effect that ended in an internal
// error. Only a payment has an idempotency key; the result of another call is in a GET.
func (s *Surface) retryAdvice(r Route) string {
	switch {
	case r.Path == "":
		return "Look up with a GET whether it took effect before you repeat it; repeat a payment with the same " +
			"idempotencyKey."
	case repeatMode(r) == "WITH_KEY":
		return "Repeat the request with the same idempotencyKey: it takes effect at most once, and the answer shows " +
			"the result."
	}
	if path := s.resultPath(r); path != "" {
		return "Look up with GET " + path + " whether it took effect before you repeat it."
	}
	return "Repeat the request: a repeated one has no further effect."
}

// resultPath returns the path of the GET that shows the result of a write, and "" without one.
func (s *Surface) resultPath(r Route) string {
	if r.ResultAt != "" {
		return r.ResultAt
	}
	for path := r.Path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
		if slices.ContainsFunc(s.Routes, func(candidate Route) bool {
			return candidate.Method == http.MethodGet && candidate.Path == path
		}) {
			return path
		}
	}
	return ""
}

// ScopeOf returns the scope that a key needs for a call, and "" where keys have no scopes.
func (s *Surface) ScopeOf(r Route) identity.Scope {
	if !s.HasScopes {
		return ""
	}
	return identity.PermissionOf(r.Action).Key
}

// FaultCodes returns all refusals of a call: its own and those of every call.
func (s *Surface) FaultCodes(r Route) []fault.Code {
	codes := append(routeFaultCodes(r), s.Faults...)
	if scope := s.ScopeOf(r); scope != "" && scope != identity.ScopeRead {
		codes = append(codes, fault.ScopeMissing)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

const keyBytesMax = 256

// presentedKey returns the key in the header of that name. It reads no other place, and refuses a
// header that is there twice, because it would be unclear which value counts. Rule AUTH-1.
func presentedKey(r *http.Request, header string) string {
	values := r.Header[header]
	if len(values) != 1 || len(values[0]) > keyBytesMax {
		return ""
	}
	return values[0]
}

// explainKeyRefusal explains a refused credential where the request itself shows the mistake: the
// header is absent, or the key belongs to the other listener. It does not distinguish malformed,
// unknown and rolled keys; for these it returns refused. Rule AUTH-1.
func (s *Surface) explainKeyRefusal(r *http.Request, refused error) error {
	header, values := strings.ToLower(s.Header), r.Header[s.Header]
	reason := ""
	switch {
	case len(values) == 0 && len(r.Header["Authorization"]) > 0:
		reason = fmt.Sprintf(
			"The header %s is missing, and Authorization is not read. Send the key alone in %s, without Bearer.",
			header, header,
		)
	case len(values) == 0 && keyInQuery(r):
		reason = fmt.Sprintf(
			"The header %s is missing, and a key in the query is not read: logs contain URLs. Roll that key, and "+
				"send the new one in %s.",
			header, header,
		)
	case len(values) == 0:
		reason = fmt.Sprintf("The header %s is missing. Send your key in it.", header)
	case len(values) == 1 && strings.HasPrefix(values[0], string(s.ForeignKeyPrefix)):
		reason = s.ForeignKeyText
	default:
		return refused
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.Unprocessed,
		"%s", reason)
}

// keyInQuery reports whether a query has a parameter with the name of a key.
func keyInQuery(r *http.Request) bool {
	if len(r.URL.RawQuery) > queryBytesMax {
		return false
	}
	for name := range r.URL.Query() {
		switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)) {
		case "xapikey", "apikey", "xoperatorkey", "operatorkey", "key", "token", "accesstoken":
			return true
		}
	}
	return false
}
