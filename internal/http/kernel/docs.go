package kernel

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// Renderer is Scalar's API reference, stored compressed as it is served. NOTICE and decision 0031
// name its origin.
const Renderer = "scalar-1.72.1.js"

//go:embed docs
var docsFiles embed.FS

var docsPage = template.Must(template.ParseFS(docsFiles, "docs/page.html"))

// docsPolicy lets the page load only from this service and run only script files of ours. The
// renderer sets styles on the elements that it draws, so inline styles are allowed here and nowhere
// else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveDocs serves the documentation pages of a surface: its guide above the reference of its
// calls, drawn in the browser from the document. The pages need no key, ask for none, and load
// nothing from other hosts. Rule DOC-3.
func (s *server) serveDocs(mux *chi.Mux) {
	guided := sync.OnceValue(func() http.HandlerFunc {
		return serveAsset("application/json", insertGuide(s.document(), s.surface.Guide, s.surface.Pages...))
	})
	for path, serve := range map[string]http.HandlerFunc{
		"/docs":              s.serveDocsPage,
		"/docs/":             s.serveDocsPage,
		"/docs/openapi.json": func(w http.ResponseWriter, r *http.Request) { guided()(w, r) },
		"/docs/start.js":     serveAsset("text/javascript; charset=utf-8", docsFile("start.js")),
		"/docs/" + Renderer:  serveAsset("text/javascript; charset=utf-8", docsFile(Renderer+".gz")),
	} {
		mux.Get(path, serve)
		mux.Head(path, serve)
	}
}

// redirectBrowser redirects a browser to the documentation pages. A program gets the fallback,
// which says that there is no such path. Rule REQ-10.
func redirectBrowser(fallback http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			fallback(w, r)
			return
		}
		http.Redirect(w, r, "/docs", http.StatusFound)
	}
}

func docsFile(name string) []byte {
	raw, err := docsFiles.ReadFile("docs/" + name)
	if err != nil {
		panic("kernel: a page of the documentation is missing: " + err.Error())
	}
	return raw
}

// pageLink matches a link from one page of the documentation to another; /docs has them all on one
// page.
var pageLink = regexp.MustCompile(`\[([^\]]+)\]\((?:testing|errors|CHANGELOG|integrate)\.md\)`)

// insertGuide returns the document with the guide and further pages in place of its introduction.
func insertGuide(document []byte, guide string, pages ...string) []byte {
	var d map[string]json.RawMessage
	var info map[string]any
	err := json.Unmarshal(document, &d)
	if err == nil {
		err = json.Unmarshal(d["info"], &info)
	}
	if err == nil {
		_, text, _ := strings.Cut(guide, "\n") // the reference has its own title
		text = strings.Join(append([]string{text}, pages...), "\n\n")
		info["description"] = pageLink.ReplaceAllString(text, "$1")
		d["info"], err = json.Marshal(info)
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(d)
	}
	if err != nil {
		panic("kernel: cannot read the document that was drawn: " + err.Error())
	}
	return raw
}

func (s *server) serveDocsPage(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // Never fails: the program ends when there is no randomness.
	if err := docsPage.Execute(&page, map[string]string{
		"Title": s.surface.Page, "Renderer": Renderer, "Nonce": base64.RawURLEncoding.EncodeToString(nonce),
	}); err != nil {
		panic("kernel: cannot draw the page: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	_, _ = w.Write(page.Bytes())
}

// serveAsset serves bytes that do not change while the process lives. It decompresses compressed
// bytes for clients that do not accept gzip.
func serveAsset(kind string, raw []byte) http.HandlerFunc {
	sum := sha256.Sum256(raw)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	packed := bytes.HasPrefix(raw, []byte{0x1f, 0x8b})
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("ETag", tag)
		h.Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if !packed {
			_, _ = w.Write(raw)
			return
		}
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			_, _ = w.Write(raw)
			return
		}
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			panic("kernel: a file of the documentation is damaged: " + err.Error())
		}
		_, _ = io.Copy(w, reader)
	}
}
