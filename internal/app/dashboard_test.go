package app

import (
	"strings"
	"testing"
)

// An origin at which pages would not work is refused at the start, with the fix.
func TestAnOriginAtWhichPagesDoNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		conf Dashboard
		fix  string // "" for a sound one
	}{
		{Dashboard{}, ""},
		{Dashboard{Origin: "https://pay.example.com"}, ""},
		{Dashboard{Origin: "https://pay.example.com:8443", Domain: "example.com"}, ""},
		{Dashboard{Origin: "http://localhost:8080"}, ""},
		{Dashboard{Origin: "https://203.0.113.7"}, "give it a host name"},
		{Dashboard{Origin: "http://127.0.0.1:8080"}, "use http://localhost"},
		{Dashboard{Origin: "http://pay.example.com"}, "use https"},
		{Dashboard{Origin: "https://pay.example.com/dashboard"}, "is not of the form https://host"},
		{Dashboard{Origin: "pay.example.com"}, "is not of the form https://host"},
		{Dashboard{Origin: "https://pay.example.com", Domain: "other.com"}, `use "pay.example.com"`},
		{Dashboard{Domain: "example.com"}, "set it, or remove the site"},
	} {
		var errs configErrors
		c.conf.checkDashboard(&errs)
		err := errs.joinProblems()
		switch {
		case c.fix == "" && err != nil:
			t.Errorf("%+v: got %v, want no problem", c.conf, err)
		case c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix) ||
			!strings.Contains(err.Error(), "dashboard.origin")):
			t.Errorf("%+v: got %v, want the setting and %q", c.conf, err, c.fix)
		}
	}
}
