package kernel

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
)

// Route describes one call, with all that the document says about it.
type Route struct {
	Method, Path string
	Name         string // operationId
	Group        string
	Summary      string
	Text         string
	NeedsNoKey   bool // served without a key, and also without the prefix
	// Action is what the call does in the table of permissions, which says whose key may make it.
	// FieldActions are what it does in addition if the body has a field. Only a call that needs no
	// key has no action.
	Action       identity.Action
	FieldActions map[string]identity.Action
	LimitsItself bool // checks its rate itself, because a replay is free
	// Counts as a quote: it asks chains or providers and stores nothing.
	CountsAsQuote bool
	// A POST that may be repeated without a key: twice has the same effect as once.
	Retryable bool
	// ResultAt is the path of the GET that shows the result of a write, if neither its own path nor a
	// path above it does.
	ResultAt string
	Query    []Parameter
	Optional bool // the body may be left out
	// BodyBytesMax bounds the body; 0: the bound of every other call.
	BodyBytesMax int
	Headers      []Header
	Answers      []Success    // the first is the usual one
	Faults       []fault.Code // in addition to those of every call
	// Answered answers a call whose idempotency key is known, before everything but the key and the
	// address of the caller can refuse it. AnswerKnown makes one; nil: the handler looks keys up.
	Answered func(*Request) (result answer, isKnown bool, err error)
	// BeforeRead refuses a call before its query and body are read, and after its rate was checked; it
	// may be nil. Check makes one.
	BeforeRead func(*Request) error
	// Before refuses a call before the fields of its body are read; it may be nil. Check makes one.
	Before  func(*Request) error
	Handler Handler
	// Table answers instead of Handler where the caller asks for CSV; nil: only JSON. ExportTable
	// makes one.
	Table func(*Request) (answer, error)
	// Files are further forms of the answer, each by the end of the path. ExportFile makes one.
	Files []File
}

// File is a form of an answer that is a file. Its path is that of the route with the suffix.
type File struct {
	Suffix, ContentType string
	open                func(*Request) (answer, error)
}

// ExportFile makes a file of a route's Files. find returns its name without the suffix, and what writes it.
func ExportFile[C Caller](
	suffix, contentType string, find func(*Call[C]) (name string, write func(io.Writer) error, err error),
) File {
	return File{suffix, contentType, func(r *Request) (answer, error) {
		name, write, err := find(callOf[C](r))
		if err != nil {
			return answer{}, err
		}
		release, err := r.server.tables.Acquire(r.caller.Tenant())
		if err != nil {
			return answer{}, err
		}
		r.AnswerHeader.Set("Content-Disposition", `attachment; filename="`+name+suffix+`"`)
		return answer{contentType: contentType, stream: func(w io.Writer) error {
			defer release()
			return write(w)
		}}, nil
	}}
}

// fileOf returns the file that a path asks for, or nil.
func (r Route) fileOf(path string) *File {
	for i := range r.Files {
		if strings.HasSuffix(path, r.Files[i].Suffix) {
			return &r.Files[i]
		}
	}
	return nil
}

// paths are the paths of the call: its own and, where that ends with a word, those of its files. The path of a file
// behind a parameter is one of the route already.
func (r Route) paths() []string {
	paths := []string{r.Path}
	if strings.HasSuffix(r.Path, "}") {
		return paths
	}
	for _, f := range r.Files {
		paths = append(paths, r.Path+f.Suffix)
	}
	return paths
}

func (r Route) hasTable() bool { return r.Table != nil }

// jsonOnly reports whether a read refuses a request for a table. A write does not refuse it: its
// answer is always JSON, and a refusal would wrongly say of a known payment that it was not made.
// Rule LIST-2.
func (r Route) jsonOnly() bool { return r.Method == http.MethodGet && !r.hasTable() }

// HasBody reports whether the call has a body.
func (r Route) HasBody() bool { return r.Handler.request != nil }

// RequestExample returns the document's example of the body; nil without a body.
func (r Route) RequestExample() any { return r.Handler.requestExample }

func (r Route) firstStatus() int {
	if len(r.Answers) == 0 {
		return http.StatusOK
	}
	return r.Answers[0].Status
}

// Success is an answer that is not a problem. Its body is the result of the route's handler.
type Success struct {
	Status  int
	Text    string
	Headers []Header
}

// hasBody reports whether an answer with this status has a body.
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// Header is a header of a request or of an answer.
type Header struct{ Name, Text string }

// Handler is a function of a surface behind a route, with the types that it takes and returns. The
// types are those that the document describes.
type Handler struct {
	request, response               reflect.Type // nil: no body
	requestExample, responseExample any
	serve                           func(*Request) (answer, error)
	// serveTable answers a request whose body is CSV; nil: the body is JSON.
	serveTable func(*Request) (answer, error)
}

// Handle makes the handler of a call without a body. The result is the body of the answer.
func Handle[C Caller, Resp any](handle func(*Call[C]) (Resp, error), example Resp) Handler {
	return Handler{
		response: shapeOf[Resp](), responseExample: exampleOf(example),
		serve: func(r *Request) (answer, error) { return encode(handle(callOf[C](r))) },
	}
}

// HandleBody makes the handler of a call with a body, which it reads strictly.
func HandleBody[C Caller, Req, Resp any](
	handle func(*Call[C], Req) (Resp, error), request Req, example Resp,
) Handler {
	return Handler{
		request: reflect.TypeFor[Req](), requestExample: request,
		response: shapeOf[Resp](), responseExample: exampleOf(example),
		serve: func(r *Request) (answer, error) {
			var body Req
			if err := decodeBody(r.Body, &body); err != nil {
				return answer{}, err
			}
			return encode(handle(callOf[C](r), body))
		},
	}
}

// HandleBodyOrTable makes the handler of a call whose body is JSON, which it reads strictly, or a table as CSV, which
// the second function reads itself.
func HandleBodyOrTable[C Caller, Req, Resp any](
	handle func(*Call[C], Req) (Resp, error), handleTable func(*Call[C]) (Resp, error), request Req, example Resp,
) Handler {
	h := HandleBody(handle, request, example)
	h.serveTable = func(r *Request) (answer, error) { return encode(handleTable(callOf[C](r))) }
	return h
}

// HandleEmpty makes the handler of a call whose answer has no body.
func HandleEmpty[C Caller](handle func(*Call[C]) error) Handler {
	return Handler{serve: func(r *Request) (answer, error) { return answer{}, handle(callOf[C](r)) }}
}

// AnswerKnown makes a route's Answered. The body is complete and nothing of it is checked.
func AnswerKnown[C Caller, Resp any](
	find func(*Call[C]) (body Resp, isKnown bool, err error),
) func(*Request) (answer, bool, error) {
	return func(r *Request) (answer, bool, error) {
		body, isKnown, err := find(callOf[C](r))
		if err != nil || !isKnown {
			return answer{}, false, err
		}
		result, err := encode(body, nil)
		return result, true, err
	}
}

// Check makes a route's Before or BeforeRead.
func Check[C Caller](check func(*Call[C]) error) func(*Request) error {
	return func(r *Request) error { return check(callOf[C](r)) }
}

// Raw is a body that is encoded already and has the shape of T.
type Raw[T any] []byte

// EncodeRaw encodes a value as its own JSON.
func EncodeRaw[T any](value T) Raw[T] {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("kernel: cannot encode a body: " + err.Error())
	}
	return raw
}

// MarshalJSON returns the bytes as they are.
func (r Raw[T]) MarshalJSON() ([]byte, error) { return r, nil }

func (r Raw[T]) encoded() []byte        { return r }
func (Raw[T]) shapeOfRaw() reflect.Type { return reflect.TypeFor[T]() }

func encode[Resp any](body Resp, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if raw, ok := any(body).(interface{ encoded() []byte }); ok {
		return answer{raw: raw.encoded()}, nil
	}
	return answer{body: body}, nil
}

func shapeOf[Resp any]() reflect.Type {
	var body Resp
	if raw, ok := any(body).(interface{ shapeOfRaw() reflect.Type }); ok {
		return raw.shapeOfRaw()
	}
	return reflect.TypeFor[Resp]()
}

// exampleOf returns nil for an empty raw body, which is no example.
func exampleOf[Resp any](example Resp) any {
	if raw, ok := any(example).(interface{ encoded() []byte }); ok && len(raw.encoded()) == 0 {
		return nil
	}
	return example
}

// DocumentRoute serves the document of its own surface.
var DocumentRoute = Route{
	Method: http.MethodGet, Path: "/openapi.json", Name: "getOpenAPI", Group: "Meta",
	Summary: "Read this document", Text: "This description of every call, OpenAPI 3.1.",
	NeedsNoKey: true,
	Answers:    []Success{{http.StatusOK, "The document.", nil}},
	Handler: Handler{
		response: reflect.TypeFor[map[string]any](),
		serve: func(r *Request) (answer, error) {
			r.AnswerHeader.Set("Cache-Control", "public, max-age=300")
			return answer{raw: r.server.document()}, nil
		},
	},
}
