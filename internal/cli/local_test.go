package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/localworld"
)

// The last lines of a world that has started say where people sign in to both sides, and with what.
func TestAWorldEndsWithWhereToSignIn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printWorld(streams{out: &out}, localworld.Info{
		DashboardURL: "http://localhost:8080/dashboard", ConsoleURL: "http://localhost:8081/console",
		Users:     []localworld.User{{Email: "owner@example.test", Password: "a password", TOTPSecret: "MEMBERSECRET"}},
		Operators: []localworld.User{{Email: "operator@example.test", TOTPSecret: "OPERATORSECRET"}},
	}, time.Second)
	_, last, isFound := strings.Cut(out.String(), "Sign in at ")
	if !isFound {
		t.Fatalf("got %s, want where to sign in", out.String())
	}
	for _, text := range []string{
		"http://localhost:8080/dashboard as owner@example.test", `"a password"`, "MEMBERSECRET",
		"http://localhost:8081/console as operator@example.test", "OPERATORSECRET", localworld.MailFolder,
	} {
		if !strings.Contains(last, text) {
			t.Errorf("got %q at the end, want %q in it", last, text)
		}
	}
}
