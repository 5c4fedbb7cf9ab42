package pages

import (
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

// SessionCookie holds the token of a session. A browser accepts a name with __Host- only from the host
// itself, over a secure connection, for every path: no neighbouring host can set it.
const SessionCookie = "__Host-coffer_session"

// OperatorSessionCookie is that of operators. Cookies do not tell ports apart, so with one name a person
// who signs in on one side of a machine would lose the session of the other.
const OperatorSessionCookie = "__Host-coffer_operator_session"

// SetCookie stores a secret in the browser for a duration; zero means until the browser ends.
func (r *Request) SetCookie(name string, value seal.Secret, lasts time.Duration) {
	r.answer.Add("Set-Cookie", (&http.Cookie{
		Name: name, Value: value.Reveal(), Path: "/", MaxAge: int(lasts / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}).String())
}

// ClearCookie removes a cookie from the browser.
func (r *Request) ClearCookie(name string) {
	r.answer.Add("Set-Cookie", (&http.Cookie{
		Name: name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}).String())
}

// ReadCookie returns a cookie, and "" if it is absent or there twice.
func (r *Request) ReadCookie(name string) string { return readCookie(r.Request, name) }

const cookieBytesMax = 512

func readCookie(r *http.Request, name string) string {
	found := r.CookiesNamed(name)
	if len(found) != 1 || len(found[0].Value) > cookieBytesMax {
		return ""
	}
	return found[0].Value
}

// ClearBrowser has the browser forget what it stored of the pages, except cookies: the one that makes it a
// known device stays.
func (r *Request) ClearBrowser() { r.answer.Set("Clear-Site-Data", `"cache", "storage"`) }
