package api

import (
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/operator"
)

// surface is an interface of its own: a table of routes, a credential, a
// document. What is no organization's to call stands in another table, behind
// another listener and another key; how requests are read, refused, limited and
// described is the same code, so that the two cannot come apart.
type surface struct {
	title, description string
	page, guide        string   // for people, at /docs: its title, and Markdown above the reference
	pages              []string // further Markdown, each with a title, that follows the guide
	routes             []route
	forbidden          []route // calls that are always refused, with why; no document has them
	groups             []struct{ name, text string }
	events             []event.Type // that the document describes as webhooks

	credential     string // its name in the document
	header         string // that carries it, in canonical form
	credentialText string // what the document says of it
	// foreignKeyPrefix begins the keys of the other listener, and foreign says so of one.
	foreignKeyPrefix, foreignKeyText string
	// authenticate finds out who calls, or refuses. It decides nothing else.
	authenticate func(*api, http.ResponseWriter, *call) error
	// beforeRead is asked before anything of an admitted call is read; nil: nothing is.
	beforeRead func(*api, *call, route) error

	faults []fault.Code // that every call may answer, beside those of both surfaces
	// Words of its own, before those that both share.
	problems    map[fault.Code]problemDoc
	fieldDocs   map[string]fieldDoc
	examples    map[string]any // of bodies, by the name of the call
	retryAdvice string         // how to find out whether a call took effect that ended in an error of ours
}

// findFieldDoc finds the words for a field of a type, which may have others in it, the
// outermost first: those of the type, or those that the field has wherever it
// stands. Without a field, the words for the type.
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

// requestExample is what the document shows of a call's body.
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

// faultCodes are all the refusals of a call: its own and those of every call.
func (s *surface) faultCodes(r route) []fault.Code {
	codes := append(routeFaultCodes(r), s.faults...)
	slices.Sort(codes)
	return slices.Compact(codes)
}

// organizations is what organizations call.
var organizations = surface{
	title: "Coffer", description: aboutOrganizations, page: "Coffer: guide and API reference", guide: docs.Integrate, pages: []string{docs.Testing, docs.Errors, docs.Changelog}, routes: concatRoutes(routes, flaggedRoutes, keyRoutes), forbidden: forbiddenRoutes, groups: groups, events: event.AllTypes(), fieldDocs: mergeMaps(webhookFieldDocs, flaggedFieldDocs, keyFieldDocs), examples: mergeMaps(flaggedExamples, keyExamples),
	credential: "apiKey", header: keyHeader,
	credentialText:   "An API key of the organization. The main key, and each with the scope FULL, moves money: keep it on your servers. It is never read from the query, and a request that has the header twice is refused.",
	foreignKeyPrefix: operator.KeyPrefix, foreignKeyText: "This is an operator's key, and organizations' calls do not take it. Send an organization's key in x-api-key, or call the operator's interface, which has another address, with this one in x-operator-key.",
	authenticate: (*api).authenticateOrg,
	retryAdvice:  "Repeat the request with the same idempotencyKey: it is done at most once, and the answer tells.",
}
