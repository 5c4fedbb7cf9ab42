package document

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
)

//go:embed page.css
var pageStyle string

// PagePolicy is the content security policy of the page. It allows the page's own style and nothing else, from
// nowhere. The page states it too, so that it holds for a saved file; a server that sends the page has to send it
// instead of a policy that forbids styles in a page.
var PagePolicy = makePagePolicy()

func makePagePolicy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'"
}

// HTML writes the document as one page that needs no other file, for the screen and for printing.
func (i Invoice) HTML(w io.Writer) error {
	if err := i.check(); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page(i, findWords(i.Language)).Render(context.Background(), &text); err != nil {
		return fmt.Errorf("render document %s as HTML: %w", i.Number, err)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write document %s as HTML: %w", i.Number, err)
	}
	return nil
}

// tableHeads are the heads of the columns of the table of sections.
func (w words) tableHeads() []string {
	return []string{w.Service, w.Lines, w.Amount, w.Exact, w.Rounded}
}
