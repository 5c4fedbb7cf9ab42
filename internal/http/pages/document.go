package pages

import "io"

// The suffixes of the files of a document, behind the path of its page.
const (
	PDFSuffix  = ".pdf"
	HTMLSuffix = ".html"
)

// Document is what a page offers to download and to print. It writes the same bytes whenever it is asked.
type Document interface {
	PDF(w io.Writer) error
	HTML(w io.Writer) error
}

// DocumentFiles are the files of the document that a page shows, by the name that load returns. The policy is that of
// its HTML, which carries its style in itself. Rule PAGE-97.
func DocumentFiles(policy string, load func(*Request) (name string, d Document, err error)) []File {
	file := func(suffix, contentType, policy string, write func(Document, io.Writer) error) File {
		return File{
			Suffix: suffix, ContentType: contentType, Policy: policy,
			Load: func(r *Request) (string, func(io.Writer) error, error) {
				name, d, err := load(r)
				return name, func(w io.Writer) error { return write(d, w) }, err
			},
		}
	}
	return []File{
		file(PDFSuffix, "application/pdf", "", Document.PDF),
		file(HTMLSuffix, "text/html; charset=utf-8", policy, Document.HTML),
	}
}
