package customer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/request"
)

const (
	idBytesMax    = 128
	emailBytesMin = 3
	emailBytesMax = 254
)

// CheckID refuses an id that could be mistaken for another one or that cannot be shown safely. Ids
// are compared byte for byte, without folding: "a" and "A" are two customers. Error:
// INVALID_REQUEST on customerId.
func CheckID(s string) error {
	if problem := describeTextError(s, idBytesMax); problem != "" {
		return newInvalidID(problem)
	}
	return nil
}

// CheckNewID checks the id of a customer to be created like CheckID, and also refuses dot segments.
// A customer from before this rule keeps the id, the balances and the payments that name it.
// Rule CUS-8.
func CheckNewID(s string) error {
	if err := CheckID(s); err != nil {
		return err
	}
	if hasDotSegments(s) {
		return newInvalidID("has a dot segment of a URL (. or .., alone or between slashes), which URL libraries " +
			"remove from a path: the request would become another call, or concern another customer")
	}
	return nil
}

func newInvalidID(problem string) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"customerId %s.", problem).
		WithAdvice("Correct it and send the request again.").WithParam("customerId")
}

// pathUnescaper normalizes the characters of a path that matter to dot segments.
var pathUnescaper = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", "/", `\`, "/")

// hasDotSegments reports whether a URL library would change a path that contains the id (RFC 3986
// section 5.2.4):
//
//   - Browsers take %2e for a dot and a backslash for a slash (WHATWG URL, path state).
//   - The escaping functions of some languages leave slashes unescaped.
//   - Some proxies unescape the path.
func hasDotSegments(s string) bool {
	for segment := range strings.SplitSeq(pathUnescaper.Replace(strings.ToLower(s)), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// CheckEmail refuses what cannot be an e-mail address. It does not check whether mail arrives
// there. Error: INVALID_REQUEST on customerEmail.
func CheckEmail(s string) error {
	problem := describeTextError(s, emailBytesMax)
	atIndex := strings.LastIndexByte(s, '@')
	switch {
	case problem != "":
	case len(s) < emailBytesMin || atIndex < 1 || atIndex == len(s)-1 || strings.IndexByte(s, '@') != atIndex:
		problem = "is not an e-mail address: it needs one @ with text on both sides"
	case strings.ContainsFunc(s, unicode.IsSpace) || strings.ContainsAny(s, `<>",;:\()[]`):
		problem = "is not a plain e-mail address: no spaces, brackets or quotes"
	default:
		return nil
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"customerEmail %s.", problem).
		WithAdvice("Correct it and send the request again.").WithParam("customerEmail")
}

// CheckNewEmail checks an e-mail to be written like CheckEmail, and also refuses one that is not
// plain.
func CheckNewEmail(s string) error {
	if err := CheckEmail(s); err != nil {
		return err
	}
	if !PlainEmail(s) {
		return newNotPlain()
	}
	return nil
}

func newNotPlain() error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"customerEmail has a character that looks like another one or is not shown, such as a "+
			"full-width letter, so that two mailboxes could look the same.").
		WithAdvice("Write the address in plain letters and send the request again.").
		WithParam("customerEmail")
}

// PlainEmail reports whether folding an e-mail changes only the case of its letters, and every
// character of it is visible. Only plain e-mails are written and trusted. Any other one can equal
// another person's mailbox once folded, or look like it. The function email_is_plain of the schema
// applies the same rule. Rule CUS-7.
func PlainEmail(s string) bool {
	return norm.NFKC.IsNormalString(s) && norm.NFKC.IsNormalString(strings.ToLower(s)) &&
		!strings.ContainsFunc(s, func(r rune) bool {
			lower := unicode.ToLower(r)
			return lower != r && unicode.ToUpper(lower) != r || // U+0130 and i have the same lower case
				unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
				r == brailleBlank
		})
}

const brailleBlank = '\u2800'

// SameEmail reports whether two e-mails are the same mailbox: the same bytes, or both plain and the
// same except for their case. An e-mail that is not plain equals only itself.
func SameEmail(a, b string) bool {
	return a == b || PlainEmail(a) && PlainEmail(b) && FoldEmail(a) == FoldEmail(b)
}

// FoldEmail returns the form in which plain e-mails are compared: NFKC and lower case.
func FoldEmail(s string) string { return norm.NFKC.String(strings.ToLower(norm.NFKC.String(s))) }

func describeTextError(s string, bytesMax int) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > bytesMax:
		return "is too long"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case !norm.NFC.IsNormalString(s):
		return "is not in Unicode NFC: normalize it before you send it"
	case strings.TrimSpace(s) != s:
		return "begins or ends with a space"
	}
	for _, r := range s {
		// Cc are controls. Cf are invisible format characters, with the bidirectional ones. Zl and
		// Zp break lines. Co and Cs have no common meaning.
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) || request.IsInvisible(r) {
			return "contains a control, bidirectional or invisible character"
		}
	}
	return ""
}
