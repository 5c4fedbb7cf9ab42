package payerpages

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
)

// errBadForm refuses a form that none of the pages has.
var errBadForm = errors.New("form of another page")

// Names in queries and forms.
const (
	mintName  = "mint"
	hashName  = "hash"
	stillName = "still" // the page does not load itself again without scripts
)

// hashBytesMax is longer than every hash of a chain.
const hashBytesMax = 200

// readMint reads the id of a mint, and returns 0 for every other text.
func readMint(text string) int {
	const digitsMax = 9
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || len(text) > digitsMax {
		return 0
	}
	return n
}

func (s *server) showCheckout(r *request) error {
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	s.writeCheckout(r, http.StatusOK, view, readMint(r.URL.Query().Get(mintName)), "")
	return nil
}

// writeCheckout writes the page of a checkout. With a refusal it says why the option of a mint cannot be chosen.
func (s *server) writeCheckout(r *request, status int, view View, mintID int, refusal string) {
	p := newCheckoutPage(r, view, mintID)
	p.Refusal, p.Cases = refusal, s.listCases()
	s.write(r, status, p.frame(), checkoutMain(p))
}

// openOption opens the option that a payer chose and leads to its panel. A second click finds it open. An option that
// is not offered any more is refused on the page itself, which has the others.
func (s *server) openOption(r *request) error {
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	mintID := readMint(r.PostForm.Get(mintName))
	if mintID == 0 {
		return errBadForm
	}
	openErr := s.conf.Checkouts.Open(r.Context(), r.checkoutID, mintID)
	if openErr == nil {
		http.Redirect(r.w, r.Request, r.link("", mintName, strconv.Itoa(mintID)), http.StatusSeeOther)
		return nil
	}
	status := http.StatusUnprocessableEntity
	switch {
	case fault.HasCode(openErr, fault.OptionUnavailable):
	case fault.HasCode(openErr, fault.InvalidState):
		status = http.StatusConflict // The page says what state that is.
	case fault.HasCode(openErr, fault.MintNotFound):
		return errBadForm
	default:
		return openErr
	}
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	refusal := ""
	for _, option := range view.Options {
		if option.MintID == mintID && status == http.StatusUnprocessableEntity {
			refusal = r.language.text("options.refused", "symbol", option.Symbol, "chain", option.ChainName)
			if option.Reason != Available {
				refusal += " " + r.language.reason(option)
			}
		}
	}
	s.writeCheckout(r, status, view, 0, refusal)
	return nil
}

func (s *server) showFind(r *request) error {
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	s.writeFind(r, http.StatusOK, newFindPage(r, view))
	return nil
}

func (s *server) writeFind(r *request, status int, p findPage) {
	s.write(r, status, p.frame(), findMain(p))
}

// find looks for a transaction. It reads and changes nothing; it is a POST so that the hash of a payer stands in no
// address. Rule CO-47.
func (s *server) find(r *request) error {
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	p := newFindPage(r, view)
	p.Hash = strings.TrimSpace(r.PostForm.Get(hashName))
	if p.Hash == "" || len(p.Hash) > hashBytesMax {
		p.Hash, p.IsInvalid = "", true
		s.writeFind(r, http.StatusBadRequest, p)
		return nil
	}
	found, err := s.conf.Checkouts.Find(r.Context(), r.checkoutID, p.Hash)
	switch {
	case fault.HasCode(err, fault.InvalidRequest):
		p.IsInvalid = true
		s.writeFind(r, http.StatusBadRequest, p)
		return nil
	case err != nil:
		return err
	}
	p.Finding = &found
	s.writeFind(r, http.StatusOK, p)
	return nil
}

// showImage serves an image of an item. A browser takes it for nothing else and runs nothing of it.
func (s *server) showImage(r *request) error {
	mediaType, content, err := s.conf.Checkouts.Image(r.Context(), r.checkoutID, chi.URLParam(r.Request, "imageId"))
	if err != nil {
		return err
	}
	return writeImage(r, mediaType, content)
}

// writeImage writes an image of a product.
func writeImage(r *request, mediaType string, content []byte) error {
	if mediaType != "image/png" && mediaType != "image/jpeg" {
		return errNoPage
	}
	h := r.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Security-Policy", imagePolicy)
	h.Set("Cache-Control", "private, max-age=86400, immutable")
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = r.w.Write(content) // The browser is gone.
	return nil
}

// link returns a path of the page with a query, in the language that the payer chose. The values are pairs of a
// name and a value.
func (r *request) link(suffix string, values ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		query.Set(values[i], values[i+1])
	}
	if r.isNamed {
		query.Set(languageParameter, r.language.tag)
	}
	path := r.base + suffix
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// refuse answers with a page that says what happened, in the language of the payer.
func (s *server) refuse(r *request, status int, key string, values ...string) {
	if r.isJSON {
		s.writeMessage(r, status, r.language.text(key)+". "+r.language.text(key+".text", values...))
		return
	}
	f := frame{Language: r.language, Title: r.language.text(key)}
	// The address of a form has no page to read, and a path of another kind is no path of ours to link.
	path := r.URL.EscapedPath()
	if (strings.HasPrefix(path, prefix) || strings.HasPrefix(path, LinkPrefix) ||
		strings.HasPrefix(path, RefundPrefix)) && isRead(r.Method) {
		f.LanguageLinks = languageLinks(r, path, nil)
	}
	s.write(r, status, f, refusedMain(f.Title, r.language.text(key+".text", values...)))
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// write writes a page. It is compressed: nothing on it is a secret from a holder of its path, so its length gives
// nothing away. A page with a key in it is not.
func (s *server) write(r *request, status int, f frame, main templ.Component) {
	f.Assets, f.Main = s.assets, main
	var body bytes.Buffer
	if err := document(f).Render(r.Context(), &body); err != nil {
		panic("payerpages: cannot write a page: " + err.Error())
	}
	content := body.Bytes()
	h := r.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", r.language.tag)
	if len(f.EmbedOrigins) > 0 {
		h.Set("Content-Security-Policy", framedPolicy(f.EmbedOrigins, f.IsLocal))
	}
	h.Set("Vary", "Accept-Encoding, Accept-Language")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && !f.HoldsKey {
		h.Set("Content-Encoding", "gzip")
		content = pages.PackDocument(content)
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(content) // The browser is gone.
	}
}
