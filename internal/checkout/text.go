package checkout

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/request"
)

const (
	nameRunesMax        = 200
	descriptionRunesMax = 2000
	urlBytesMax         = 2048
	// marksMax is how many combining marks may follow each other. Scripts need few; more of them draw over the
	// lines above.
	marksMax = 8
)

// describeTextProblem says why a text cannot be shown to payers, and returns "" for one that can.
func describeTextProblem(s string, runesMax int, mayBreakLines bool) string {
	switch {
	case s == "":
		return "is empty"
	case utf8.RuneCountInString(s) > runesMax:
		return "has more than " + strconv.Itoa(runesMax) + " characters"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.TrimSpace(s) != s:
		return "begins or ends with a space"
	}
	marks := 0
	for _, r := range s {
		switch {
		case mayBreakLines && r == '\n':
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) || request.IsInvisible(r):
			return "contains a control, bidirectional or invisible character"
		}
		if unicode.In(r, unicode.Mn, unicode.Me) {
			marks++
		} else {
			marks = 0
		}
		if marks > marksMax {
			return "has more than " + strconv.Itoa(marksMax) + " combining marks on one letter"
		}
	}
	return ""
}

// describeURLProblem says why a browser is not led to a URL, and nothing fetched from it; "" for one that can be
// used. A URL has no byte that readers of URLs take differently. Rule PROD-6.
func describeURLProblem(s string, isLocal bool) string {
	if s == "" || len(s) > urlBytesMax {
		return "has to have 1 to " + strconv.Itoa(urlBytesMax) + " bytes"
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}", r)
	}) {
		return "has a space, a line break or another character that a URL writes as %XX"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "":
		return "is not a URL: give something like https://example.com/thanks"
	case u.Scheme == "http" && !isLocal:
		return "has to be https"
	case u.Scheme != "https" && u.Scheme != "http":
		return "has to be https"
	case u.User != nil:
		return "must not contain a user name or password"
	case u.Hostname() == "" || strings.Contains(u.Hostname(), "%"):
		return "has to name a host"
	case !strings.HasPrefix(s, u.Scheme+"://"):
		return "has to begin with https:// in small letters"
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has a port that is not a number from 1 to 65535"
		}
	}
	return ""
}
