package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// surface is one interface: a table of routes, a credential, a document. The operators' calls are
// in another table, behind another listener and another key. Both surfaces use the same code to
// read, refuse, limit and describe requests, so they cannot drift apart.
type surface struct {
	title, description string
	// Of the documentation at /docs: its title, and Markdown above the reference.
	page, guide string
	pages       []string // further Markdown after the guide, each with a title
	routes      []route
	forbidden   []route // calls that are always refused, with a reason; no document has them
	groups      []struct{ name, text string }
	events      []event.Type // described by the document as webhooks

	credential     string // its name in the document
	header         string // the header that carries it, in canonical form
	credentialText string // its description in the document
	// foreignKeyPrefix begins the keys of the other listener; foreignKeyText refuses such a key.
	foreignKeyPrefix identity.KeyPrefix
	foreignKeyText   string
	hasScopes        bool // its keys have scopes
	// admits reports whether a key of this listener may take an action with this permission.
	admits func(identity.Permission) bool
	// authenticate finds the caller or refuses it. It decides nothing else.
	authenticate func(*api, http.ResponseWriter, *call) error
	// beforeRead runs before any part of an admitted call is read; it may be nil.
	beforeRead func(*api, *call, route) error

	faults []fault.Code // of every call, in addition to those of both surfaces
	// The surface's own texts, which take precedence over the shared ones.
	problems  map[fault.Code]problemDoc
	fieldDocs map[string]fieldDoc
	examples  map[string]any // of bodies, by the name of the call
}

// findFieldDoc returns the text for a field of a type. typeNames has the type and the types
// embedded in it, the outermost first. It takes the text of the type, or else the text that the
// field has in every type. Without a field, it returns the text for the type.
func (s *surface) findFieldDoc(typeNames []string, field string) fieldDoc {
	for _, name := range append(typeNames, "") {
		key := field
		if name != "" {
			key = name + "." + field
		}
		if n, ok := s.fieldDocs[key]; ok {
			return n
		}
		if n, ok := fieldDocs[key]; ok {
			return n
		}
	}
	return fieldDoc{}
}

// retryAdvice says how a caller finds out whether a call took effect that ended in an internal
// error. Only a payment has an idempotency key; the result of another call is in a GET.
func (s *surface) retryAdvice(r route) string {
	switch {
	case r.path == "":
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
func (s *surface) resultPath(r route) string {
	if r.resultAt != "" {
		return r.resultAt
	}
	for path := r.path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
		if slices.ContainsFunc(s.routes, func(candidate route) bool {
			return candidate.method == http.MethodGet && candidate.path == path
		}) {
			return path
		}
	}
	return ""
}

// requestExample returns the document's example of a call's body.
func (s *surface) requestExample(call string) any {
	if v, ok := s.examples[call]; ok {
		return v
	}
	return requestExamples[call]
}

func (s *surface) findProblemDoc(code fault.Code) problemDoc {
	if p, ok := s.problems[code]; ok {
		return p
	}
	return problems[code]
}

// scopeOf returns the scope that a key needs for a call, and "" where keys have no scopes.
func (s *surface) scopeOf(r route) identity.Scope {
	if !s.hasScopes {
		return ""
	}
	return identity.PermissionOf(r.action).Key
}

// faultCodes returns all refusals of a call: its own and those of every call.
func (s *surface) faultCodes(r route) []fault.Code {
	codes := append(routeFaultCodes(r), s.faults...)
	if scope := s.scopeOf(r); scope != "" && scope != identity.ScopeRead {
		codes = append(codes, fault.ScopeMissing)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// organizations is the surface of the organizations.
var organizations = surface{
	title: "Coffer", description: aboutOrganizations, page: "Coffer: guide and API reference", guide: docs.Integrate,
	pages: []string{docs.Testing, docs.Errors, docs.Changelog}, routes: concatRoutes(routes, flaggedRoutes, keyRoutes),
	forbidden: forbiddenRoutes, groups: groups, events: event.AllTypes(),
	fieldDocs:  mergeMaps(webhookFieldDocs, flaggedFieldDocs, keyFieldDocs),
	examples:   mergeMaps(flaggedExamples, keyExamples),
	credential: "apiKey", header: keyHeader,
	credentialText: "An API key of the organization. The main key, and each key with the scope FULL, moves money: " +
		"keep it on your servers. The service does not read it from the query, and refuses a request that has the " +
		"header twice.",
	foreignKeyPrefix: identity.OperatorKey,
	foreignKeyText: "This is an operator's key, and organizations' calls do not accept it. Send an organization's " +
		"key in x-api-key. To use this key, send it in x-operator-key to the operator's interface, which has another " +
		"address.",
	hasScopes:    true,
	admits:       func(p identity.Permission) bool { return p.Key != "" },
	authenticate: (*api).authenticateOrg,
}
