package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// record writes an act of a person of an organization into the audit log.
func (h *testEnv) record(who tenant, role identity.Role, action, resource string, detail any) {
	h.t.Helper()
	err := h.db.InOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: who.id, Actor: who.people[role].Actor(), Action: action, ResourceKind: "THING",
			ResourceID: resource, Detail: detail,
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// seal gives every entry its place in the chain.
func (h *testEnv) seal() {
	h.t.Helper()
	for sealer := (&audit.Sealer{DB: h.db}); ; {
		n, err := sealer.Step(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// Owners and admins read everything; the other roles their own acts, and a viewer exports nothing.
// Rule PAGE-12.
func TestTheAuditLogShowsWhatTheRoleMayRead(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, role := range roles {
		h.record(h.one, role, "thing.done", "thing_of_"+string(role), nil)
	}
	h.record(h.two, identity.Owner, "thing.done", "thing_elsewhere", nil)
	h.fund(h.one, "alice", usdc, 50_000_000) // acts of the backend
	for _, role := range roles {
		token := h.signIn(h.one, role)
		isAll := role == identity.Owner || role == identity.Admin
		check := func(what, body string) {
			for _, of := range roles {
				want := isAll || of == role
				if got := strings.Contains(body, "thing_of_"+string(of)+"<") ||
					strings.Contains(body, "thing_of_"+string(of)+","); got != want {
					t.Errorf("%s, %s: got the act of %s %v, want %v", what, role, of, got, want)
				}
			}
			if got := strings.Contains(body, "customer.created"); got != isAll {
				t.Errorf("%s, %s: got an act of the backend %v, want %v", what, role, got, isAll)
			}
			if strings.Contains(body, "thing_elsewhere") {
				t.Errorf("%s, %s: got an act of another organization", what, role)
			}
		}
		page := h.get(token, Prefix+"/audit").want(t, http.StatusOK, "Thing done", "You").body
		check("page", page)
		if got := strings.Contains(page, "Your own acts"); got == isAll {
			t.Errorf("%s: the page says that it shows own acts: %v", role, got)
		}
		// A filter widens nothing.
		filtered := h.get(token, Prefix+"/audit?resource=thing_of_OWNER").want(t, http.StatusOK).body
		if got := strings.Contains(filtered, "Thing done"); got != isAll {
			t.Errorf("%s: a filter shows the act of the owner: %v", role, got)
		}
		table := h.get(token, Prefix+"/audit.csv")
		if role == identity.Viewer {
			table.want(t, http.StatusForbidden, "Owner, Admin, Approver or Finance")
			if strings.Contains(page, "audit.csv") {
				t.Error("the page offers a table that is refused")
			}
			continue
		}
		check("table", table.want(t, http.StatusOK, "recordedAt,actorKind,actorId,action").body)
	}
}

// Rule PAGE-12.
func TestTheAuditLogSaysHowFarItIsSealed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Owner)
	h.get(token, Prefix+"/audit").want(t, http.StatusOK, "Nothing is sealed yet", "Not yet")
	h.seal()
	body := h.get(token, Prefix+"/audit").want(t, http.StatusOK, "the signer has not signed it yet").body
	if strings.Contains(body, "Not yet") || !strings.Contains(body, "Sealed") ||
		!regexp.MustCompile(`[0-9a-f]{64}`).MatchString(body) {
		t.Error("got a page without the seal of its entries")
	}
	h.record(h.one, identity.Owner, "thing.done", "thing_1", nil)
	h.get(token, Prefix+"/audit").want(t, http.StatusOK, "Not yet", "Sealed")
}

// The log has pages of 50 and filters that stay in the address. A cursor of other filters is refused.
func TestTheAuditLogHasPagesAndFilters(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Owner)
	h.get(h.signIn(h.two, identity.Viewer), Prefix+"/audit").want(t, http.StatusOK, "No entry yet")
	for n := range 51 {
		h.record(h.one, identity.Owner, "thing.done", fmt.Sprintf("thing_%02d", n), nil)
	}
	h.record(h.one, identity.Owner, "thing.broken", "thing_00", nil)
	link := regexp.MustCompile(`href="([^"]*cursor=[^"]*)"`)
	first := h.get(token, Prefix+"/audit?action=thing.done&resource=").
		want(t, http.StatusOK, "thing_50", "thing_01").body
	if strings.Contains(first, ">thing_00<") || strings.Contains(first, "thing.broken") {
		t.Error("the first page shows more than 50 entries, or another action")
	}
	found := link.FindStringSubmatch(first)
	if found == nil {
		t.Fatal("got no next page")
	}
	next := strings.ReplaceAll(found[1], "&amp;", "&")
	last := h.get(token, next).want(t, http.StatusOK, "thing_00", "First page").body
	if link.MatchString(last) || strings.Contains(last, "thing_01") {
		t.Error("the last page leads on, or repeats an entry")
	}
	h.get(token, strings.Replace(next, "thing.done", "thing.broken", 1)).want(t, http.StatusBadRequest)
	h.get(token, Prefix+"/audit?resource=thing_00").want(t, http.StatusOK, "thing.done", "thing.broken")
	h.get(token, Prefix+"/audit?action=thing.none").want(t, http.StatusOK, "No entry matches")
	h.get(token, Prefix+"/audit?action="+strings.Repeat("a", 61)).want(t, http.StatusBadRequest, "at most 60 bytes")
	h.get(token, Prefix+"/audit?unknown=1").want(t, http.StatusBadRequest, "not known here")
}

// What strangers wrote into an entry is neither markup nor hidden, and no formula in the table.
func TestTheAuditLogShowsForeignTextAsText(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.record(h.one, identity.Owner, "thing.done", hostile, map[string]any{
		"reason": hostile, hostile: "x", "long": strings.Repeat("y", 400), "formula": "=1+1", "none": nil,
		"nested": map[string]string{"a": hostile},
	})
	h.record(h.one, identity.Owner, "thing.done", "=HYPERLINK(1)", nil)
	token := h.signIn(h.one, identity.Owner)
	body := h.get(token, Prefix+"/audit").
		want(t, http.StatusOK, `\u{202e}`, "&lt;script&gt;", strings.Repeat("y", 300)+"...").body
	for _, markup := range []string{"<script>alert", "\u202e", "Аlice", strings.Repeat("y", 301)} {
		if strings.Contains(body, markup) {
			t.Errorf("the page has %q as the stranger wrote it", markup)
		}
	}
	if !strings.Contains(body, ui.EscapeForeign("Аlice")) {
		t.Error("the page lacks the escaped name")
	}
	h.get(token, Prefix+"/audit.csv").want(t, http.StatusOK, "'=HYPERLINK(1)", strings.Repeat("y", 400))
}

// The reason of a freeze by the operator is for the operator, in the list and in the table.
func TestTheAuditLogKeepsTheReasonOfTheOperator(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	h.freeze(h.one, "alice", freeze.SourceOperator, audit.Operator("cli"), "reason for the operator")
	h.freeze(h.one, "alice", freeze.SourceOrganization, h.one.people[identity.Owner].Actor(), "reason for colleagues")
	token := h.signIn(h.one, identity.Owner)
	for _, path := range []string{"/audit", "/audit.csv"} {
		body := h.get(token, Prefix+path).want(t, http.StatusOK, "freeze.put", "reason for colleagues").body
		if strings.Contains(body, "reason for the operator") {
			t.Errorf("%s shows the reason of the operator", path)
		}
	}
}
