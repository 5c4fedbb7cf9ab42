package api

import (
	"net/http"

	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
)

// surface is an interface of its own: a table of routes, a credential, a
// document. What is no organization's to call stands in another table, behind
// another listener and another key; how requests are read, refused, limited and
// described is the same code, so that the two cannot come apart.
type surface struct {
	title, about string
	routes       []route
	groups       []struct{ name, text string }
	events       []event.Type // that the document describes as webhooks

	credential string // its name in the document
	header     string // that carries it, in canonical form
	keeping    string // what the document says of it
	// admit finds out who calls, or refuses. It decides nothing else.
	admit func(*api, http.ResponseWriter, *call) error
	// begin is asked before anything of an admitted call is read; nil: nothing is.
	begin func(*api, *call, route) error

	problems map[fault.Code]problemNote // words of its own, before those that all share
	repeat   string                     // how to find out whether a call took effect that ended in an error of ours
}

func (s *surface) problem(code fault.Code) problemNote {
	if p, ok := s.problems[code]; ok {
		return p
	}
	return problems[code]
}

// organizations is what organizations call.
var organizations = surface{
	title: "Coffer", about: about, routes: routes, groups: groups, events: event.Types(),
	credential: "apiKey", header: keyHeader,
	keeping: "The organization's key. It moves money: keep it on your servers. It is never read from the query, and a request that has the header twice is refused.",
	admit:   (*api).authenticate,
	repeat:  "Repeat the request with the same idempotencyKey: it is done at most once, and the answer tells.",
}
