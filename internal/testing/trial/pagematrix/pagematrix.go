// Package pagematrix looks at every page of a surface of pages: in each theme and width, as each role, as
// another organization, with scripts off, and at the bytes of a first visit. The pages are those of the
// kit's table, so a new page is in the matrix by its line. A parameter of a path that has no value yet fails
// the test that should look at the page.
//
// The short form runs in make test: Check, which needs no browser, and Browse in two looks. make pages runs
// the whole. A crash leaves nothing behind.
package pagematrix

import (
	"compress/gzip"
	"context"
	"flag"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
)

var (
	wholeFlag   = flag.Bool("pages.whole", false, "look at each page in every theme and width, with full lists")
	screensFlag = flag.String("pages.screens", "", "folder for pictures of each page; nothing else is checked then")
	onlyFlag    = flag.String("pages.only", "", "only pages whose path has this text")
)

// IsWhole reports whether the whole matrix is asked for.
func IsWhole() bool { return *wholeFlag }

// House is a surface that is served, with what its pages need.
type House struct {
	Name    string
	Surface pages.Surface
	Base    string // the scheme, host and port at which a browser reaches it
	// People have one role each. The first one has the most rights.
	People []Person
	// OwnToken is of a person who signed in by the pages themselves and has an account.
	OwnToken string
	// OldToken is of the first person, whose second factor does not count any more.
	OldToken string
	// Tokens are the sessions that look at pages in place of these, by the path in the table.
	Tokens map[string]string
	// Stranger has the most rights in another organization; nil where a surface shows all organizations.
	Stranger *Person
	// Values are those of the parameters of paths. OwnValues are what one page needs in their place, by its path
	// in the table.
	Values    map[string]string
	OwnValues map[string]map[string]string
	// Shared are the parameters that name no thing of one organization, such as a product.
	Shared []string
	// Queries are what a page needs in its address, by its path in the table.
	Queries map[string]string
	// States are further states of pages, which only a browser looks at.
	States []State
	// Marks are texts of the first organization that no other one may see.
	Marks []string
	// CountReports returns how many reports of the policy arrived.
	CountReports func() int64
}

// Person is a session with one role.
type Person struct {
	Role      string // as pages write it
	Token     string
	Allows    func(identity.Action) bool
	AllowsOwn func(identity.Action) bool // for the person's own acts alone; nil: never
}

// State is a state of a page that its line in the table does not have by itself.
type State struct {
	Name, Path, Token string
	IsMissing         bool // the answer is 404
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// valuesOf returns the values of the parameters of a page.
func (h House) valuesOf(p pages.Page) map[string]string {
	values := maps.Clone(h.Values)
	maps.Copy(values, h.OwnValues[p.Path])
	return values
}

// fillPath returns the path of a page with values of its parameters, without its query.
func (h House) fillPath(t testing.TB, p pages.Page, values map[string]string) string {
	t.Helper()
	path := pathParameter.ReplaceAllStringFunc(p.Path, func(name string) string {
		value := values[strings.Trim(name, "{}")]
		if value == "" {
			t.Fatalf("the page %s needs a value of %s: add it to Values", p.Path, name)
		}
		return url.PathEscape(value)
	})
	if path = strings.TrimSuffix(h.Surface.Prefix+path, "/"); path == "" {
		return "/"
	}
	return path
}

// addQuery appends what a page needs in its address.
func (h House) addQuery(p pages.Page, path string) string {
	if query := h.Queries[p.Path]; query != "" {
		return path + "?" + query
	}
	return path
}

// foreignParameters are the parameters of a page that name a thing of one organization.
func (h House) foreignParameters(p pages.Page) (names []string) {
	for _, found := range pathParameter.FindAllStringSubmatch(p.Path, -1) {
		if !slices.Contains(h.Shared, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// mayOpen reports whether a person may open a page.
func (p Person) mayOpen(page pages.Page) bool {
	return p.Allows(page.Action) || page.OwnActs && p.AllowsOwn != nil && p.AllowsOwn(page.Action)
}

// mayExport reports whether a person may have the table of a page.
func (p Person) mayExport(page pages.Page, action identity.Action) bool {
	return p.mayOpen(page) && (action == "" || p.Allows(action) ||
		page.OwnActs && p.AllowsOwn != nil && p.AllowsOwn(action))
}

// tokenFor returns the session that looks at a page: the first one that may open it.
func (h House) tokenFor(p pages.Page) string {
	if token, ok := h.Tokens[p.Path]; ok || p.Access == pages.Everyone {
		return token
	}
	if p.Access == pages.SignedIn {
		return h.OwnToken
	}
	for _, person := range h.People {
		if person.mayOpen(p) {
			return person.Token
		}
	}
	return ""
}

// chosenPages are the pages of the table that were asked for.
func (h House) chosenPages() (chosen []pages.Page) {
	for _, p := range h.Surface.Pages {
		if strings.Contains(p.Path, *onlyFlag) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

// answer is an answer of the server.
type answer struct {
	status         int
	kind, location string
	body           string
	wireBytes      int // of the body, as it was sent
}

// dial reaches names below localhost at this machine, as a browser does.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".localhost") {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// fetchPath requests a path as a browser does when its user gave it the address.
func (h House) fetchPath(t testing.TB, token, path string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.Base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	r.Header.Set("Sec-Fetch-Site", "none")
	if token != "" {
		r.Header.Set("Cookie", h.Surface.SessionCookie+"="+token)
	}
	client := &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{
		status: got.StatusCode, kind: got.Header.Get("Content-Type"), location: got.Header.Get("Location"),
		body: string(raw), wireBytes: len(raw),
	}
	if got.Header.Get("Content-Encoding") == "gzip" {
		reader, err := gzip.NewReader(strings.NewReader(a.body))
		if err == nil {
			raw, err = io.ReadAll(reader)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.body = string(raw)
	}
	return a
}
