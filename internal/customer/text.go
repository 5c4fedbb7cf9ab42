package customer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/cofferpay/coffer/internal/fault"
)

const (
	idBytesMax    = 128
	emailBytesMin = 3
	emailBytesMax = 254
)

// CheckID refuses an id that could be mistaken for another one or that cannot
// be shown safely. What passes is compared byte for byte, without folding: "a"
// and "A" are two customers. The refusal is INVALID_REQUEST on customerId.
func CheckID(s string) error {
	if problem := describeTextError(s, idBytesMax); problem != "" {
		return newInvalidID(problem)
	}
	return nil
}

// CheckNewID is CheckID for a customer that is to be made on a caller's word: it refuses
// dot segments as well. A customer from before this rule keeps the id, the balances and
// the payments that name it.
func CheckNewID(s string) error {
	if err := CheckID(s); err != nil {
		return err
	}
	if hasDotSegments(s) {
		return newInvalidID("has a dot segment of a URL (. or .., alone or between slashes), which URL libraries take out of a path: the call would be another one, or another customer's")
	}
	return nil
}

func newInvalidID(problem string) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, "customerId %s. Nothing was written and no money moved. Correct it and send the request again.", problem).WithParam("customerId")
}

// pathUnescaper are the characters of a path that matter to dot segments.
var pathUnescaper = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", "/", `\`, "/")

// hasDotSegments tells whether a URL library changes a path that has the id in it (RFC 3986
// section 5.2.4): browsers take %2e for a dot and a backslash for a slash (WHATWG URL, path
// state), some languages' functions for escaping leave slashes as they are, and some
// proxies unescape what came escaped.
func hasDotSegments(s string) bool {
	for segment := range strings.SplitSeq(pathUnescaper.Replace(strings.ToLower(s)), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// CheckEmail refuses what cannot be an e-mail address. It does not find out
// whether mail arrives there. The refusal is INVALID_REQUEST on customerEmail.
func CheckEmail(s string) error {
	problem := describeTextError(s, emailBytesMax)
	atIndex := strings.LastIndexByte(s, '@')
	switch {
	case problem != "":
	case len(s) < emailBytesMin || atIndex < 1 || atIndex == len(s)-1 || strings.IndexByte(s, '@') != atIndex:
		problem = "is not an e-mail address: one @ with something on both sides"
	case strings.ContainsFunc(s, unicode.IsSpace) || strings.ContainsAny(s, `<>",;:\()[]`):
		problem = "is not a plain e-mail address: no spaces, brackets or quotes"
	default:
		return nil
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, "customerEmail %s. Nothing was written and no money moved. Correct it and send the request again.", problem).WithParam("customerEmail")
}

// CheckNewEmail is CheckEmail for an e-mail that is to be written: it refuses one that is
// not plain as well.
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
	return fault.New(fault.Invalid, fault.InvalidRequest, "customerEmail has a character that looks like another one or is not shown, such as a full-width letter, "+
		"so that two mailboxes could be taken for one. Nothing was written and no money moved. Write the address in plain letters and send the request again.").WithParam("customerEmail")
}

// PlainEmail tells whether folding an e-mail changes nothing but the case of its letters,
// and every character of it is shown. Only plain e-mails are written and trusted: any
// other one can be equal to somebody else's mailbox once folded, or look equal to it.
// The function email_is_plain of the schema says the same.
func PlainEmail(s string) bool {
	return norm.NFKC.IsNormalString(s) && norm.NFKC.IsNormalString(strings.ToLower(s)) && !strings.ContainsFunc(s, func(r rune) bool {
		lower := unicode.ToLower(r)
		return lower != r && unicode.ToUpper(lower) != r || // U+0130 and i have one lower case
			unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == brailleBlank
	})
}

const brailleBlank = '\u2800'

// SameEmail tells whether two e-mails are the same mailbox: the same bytes, or plain and
// the same but for their case. What is not plain equals nothing but itself.
func SameEmail(a, b string) bool {
	return a == b || PlainEmail(a) && PlainEmail(b) && FoldEmail(a) == FoldEmail(b)
}

// FoldEmail is the form in which plain e-mails are compared: NFKC and lower case.
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
		// Cc are controls, Cf the invisible format characters, the bidirectional
		// ones among them, Zl and Zp break lines. Co and Cs mean nothing to others.
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) || isInvisible(r) {
			return "contains a control, bidirectional or invisible character"
		}
	}
	return ""
}

// isInvisible are format characters that no script needs to be written: they make
// two ids look the same. Joiners (U+200C, U+200D) and tags of emoji are needed.
func isInvisible(r rune) bool {
	switch r {
	case '\u00ad', '\u180e', '\u200b', '\u2060', '\u2061', '\u2062', '\u2063', '\u2064', '\ufeff', '\ufff9', '\ufffa', '\ufffb':
		return true
	}
	return false
}
