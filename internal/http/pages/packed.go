package pages

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// packers are the writers that compress documents. One takes a megabyte, so they are used again.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic("pages: the level is one of the package: " + err.Error())
	}
	return w
}}

// mayPack reports whether the answer to a request may be compressed. The length of a compressed page tells
// what a page and a text in its address have in common, so a request that another site caused is answered
// plainly: only the person chooses the texts of the compressed ones. So is a page that loads itself again,
// whose address another site may have chosen, and the answer to a form, which may show a new secret.
// Rule PAGE-62.
func mayPack(r *http.Request) bool {
	cause := r.Header.Get("Sec-Fetch-Site")
	return isRead(r.Method) && r.Header.Get(LiveHeader) == "" && (cause == "none" || cause == "same-origin") &&
		strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// writeDocument writes a page, compressed where that is safe. Rule PAGE-61.
func writeDocument(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if mayPack(r) {
		h.Set("Content-Encoding", "gzip")
		body = PackDocument(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // The browser is gone.
	}
}

// PackDocument compresses a page.
func PackDocument(body []byte) []byte {
	packer, ok := packers.Get().(*gzip.Writer)
	if !ok {
		panic("pages: the pool has writers alone")
	}
	defer packers.Put(packer)
	var out bytes.Buffer
	packer.Reset(&out)
	_, err := packer.Write(body)
	if err == nil {
		err = packer.Close()
	}
	if err != nil {
		panic("pages: cannot compress a page: " + err.Error())
	}
	return out.Bytes()
}
