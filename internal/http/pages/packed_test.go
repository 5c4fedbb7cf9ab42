package pages

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A page that loads itself again has an address that another site may have chosen, so it is plain. Rule PAGE-62.
func TestAPageThatLoadsItselfIsNotCompressed(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/dashboard?q=chosen", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if !mayPack(r) {
		t.Error("got a plain page for the person, want it compressed")
	}
	r.Header.Set(LiveHeader, "1")
	if mayPack(r) {
		t.Error("got a compressed page that loads itself again, want it plain")
	}
}

// A page is compressed for the person and for the pages themselves. What another site caused is plain, also
// for a browser that does not say who asked; so is the answer to a form. Rules PAGE-61 and PAGE-62.
func TestAPageIsCompressedWhereNoOtherSiteAsked(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("<p>a row of a list</p>", 1000)
	for _, c := range []struct {
		method, site, accepts string
		isPacked              bool
	}{
		{http.MethodGet, "none", "gzip, deflate, br", true},
		{http.MethodGet, "same-origin", "gzip", true},
		{http.MethodHead, "same-origin", "gzip", true},
		{http.MethodGet, "same-origin", "br", false},
		{http.MethodGet, "same-site", "gzip", false},
		{http.MethodGet, "cross-site", "gzip", false},
		{http.MethodGet, "", "gzip", false},
		{http.MethodPost, "same-origin", "gzip", false},
	} {
		r := httptest.NewRequest(c.method, "/dashboard", nil)
		r.Header.Set("Accept-Encoding", c.accepts)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		writeDocument(w, r, http.StatusOK, []byte(body))
		got := w.Result()
		if isPacked := got.Header.Get("Content-Encoding") == "gzip"; isPacked != c.isPacked {
			t.Errorf("%+v: got an answer that is compressed: %t", c, isPacked)
		}
		if vary := got.Header.Get("Vary"); !strings.Contains(vary, "Sec-Fetch-Site") {
			t.Errorf("%+v: got Vary %q, want who asked in it", c, vary)
		}
		raw, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if c.method == http.MethodHead {
			if text != "" {
				t.Errorf("%+v: got a body", c)
			}
			continue
		}
		if c.isPacked {
			if len(raw) > len(body)/10 {
				t.Errorf("%+v: got %d bytes of %d", c, len(raw), len(body))
			}
			reader, err := gzip.NewReader(strings.NewReader(text))
			if err == nil {
				raw, err = io.ReadAll(reader)
			}
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		if text != body {
			t.Errorf("%+v: got another document", c)
		}
	}
}
