package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// freeze freezes a customer in the name of a source.
func (h *testEnv) freeze(who tenant, customerID string, source freeze.Source, by audit.Actor, reason string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: who.id, CustomerID: customerID, Source: source, Reason: reason,
			Actor: by,
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// wantFreezes checks how many freezes of a customer are active, and how many ever were.
func (h *testEnv) wantFreezes(who tenant, customerID string, active, ever int) {
	h.t.Helper()
	var gotActive, gotEver int
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT count(*) FILTER (WHERE lifted_at IS NULL), count(*) FROM freezes WHERE org_id = $1 AND customer_id = $2`,
		who.id, customerID).Scan(&gotActive, &gotEver)
	if err != nil {
		h.t.Fatal(err)
	}
	if gotActive != active || gotEver != ever {
		h.t.Errorf("got %d active of %d freezes, want %d of %d", gotActive, gotEver, active, ever)
	}
}

// newCustomers creates customers of an organization.
func (h *testEnv) newCustomers(who tenant, ids ...string) {
	h.t.Helper()
	err := h.db.InOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		return customer.EnsureAll(ctx, tx, who.id, ids)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// Rule PAGE-13.
func TestADoubleClickFreezesOnceAndALiftIsShownOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	path := Prefix + "/customers/alice"
	first, second := h.signIn(h.one, identity.Finance), h.signIn(h.one, identity.Approver)
	h.get(first, path).want(t, http.StatusOK, "Active", path+"/freeze")

	h.post(first, path+"/freeze", "reason", "odd", "code", "000000").
		want(t, http.StatusUnauthorized, "This code is wrong or was used.", `value="odd"`)
	h.post(first, path+"/freeze", "reason", strings.Repeat("ä", 501), "code", rightCode).
		want(t, http.StatusBadRequest, "at most 500 characters")
	h.wantFreezes(h.one, "alice", 0, 0)
	// Two clicks have one code; the colleague's form is of an old tab.
	for range 2 {
		got := h.post(first, path+"/freeze", "reason", "A <b>reason</b>", "code", rightCode+"a").
			want(t, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != path {
			t.Errorf("got a redirect to %q, want %q", to, path)
		}
	}
	h.post(second, path+"/freeze", "reason", "another", "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.wantFreezes(h.one, "alice", 1, 1)
	h.get(second, path).want(t, http.StatusOK, "Frozen by your organization", "Finance Person", "A &lt;b&gt;reason",
		path+"/lift")
	// A freeze by finance is not lifted by finance.
	if body := h.get(first, path).want(t, http.StatusOK, "You").body; strings.Contains(body, path+"/lift") {
		t.Error("finance is offered to lift a freeze")
	}
	h.post(first, path+"/lift", "code", rightCode+"c").want(t, http.StatusForbidden, "Owner, Admin or Approver")
	h.wantFreezes(h.one, "alice", 1, 1)

	for range 2 {
		h.post(second, path+"/lift", "code", rightCode+"d").want(t, http.StatusSeeOther)
	}
	h.wantFreezes(h.one, "alice", 0, 1)
	h.get(second, path).want(t, http.StatusOK, "Active", path+"/freeze")
}

// An organization lifts its own freeze and no other, and does not read the operator's reason. Rule PAGE-13.
func TestAFreezeOfTheOperatorStays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	h.freeze(h.one, "alice", freeze.SourceOperator, audit.Operator("cli"), "reason for the operator")
	path, token := Prefix+"/customers/alice", h.signIn(h.one, identity.Owner)
	body := h.get(token, path).want(t, http.StatusOK, "Frozen by the operator of this service").body
	if strings.Contains(body, "reason for the operator") || strings.Contains(body, path+"/lift") {
		t.Error("the page shows the operator's reason, or offers to lift the freeze")
	}
	h.post(token, path+"/lift", "code", rightCode).want(t, http.StatusSeeOther)
	h.wantFreezes(h.one, "alice", 1, 1)
	h.post(token, path+"/freeze", "reason", "", "code", rightCode).want(t, http.StatusSeeOther)
	h.wantFreezes(h.one, "alice", 2, 2)
	h.post(token, path+"/lift", "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.wantFreezes(h.one, "alice", 1, 2)
	h.get(token, Prefix+"/customers?status=FROZEN").want(t, http.StatusOK, path)
}

// Every role sees customers; the forms are those of the roles, and a form by hand gets 403. Rule PAGE-6.
func TestTheFormsOfACustomerAreThoseOfTheRole(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	path := Prefix + "/customers/alice"
	for _, role := range roles {
		token := h.signIn(h.one, role)
		body := h.get(token, path).want(t, http.StatusOK, "50", "USDC").body
		for act, c := range map[string]struct {
			action identity.Action
			fields []string
		}{
			"freeze": {identity.FreezeCustomer, []string{"reason", "", "code", "000000"}},
			"email":  {identity.SetCustomerEmail, []string{"customerEmail", "a@example.test", "code", ""}},
		} {
			want := h.one.people[role].IsAllowed(c.action)
			if got := strings.Contains(body, `action="`+path+"/"+act+`"`); got != want {
				t.Errorf("%s: got a form to %s %v, want %v", role, act, got, want)
			}
			if !want {
				h.post(token, path+"/"+act, c.fields...).want(t, http.StatusForbidden, "This needs the role")
			}
		}
		want := http.StatusForbidden
		if h.one.people[role].IsAllowed(identity.ExportRecords) {
			want = http.StatusOK
		}
		h.get(token, Prefix+"/customers.csv").want(t, want)
		h.get(token, path+"/statement.csv").want(t, want)
	}
	h.wantFreezes(h.one, "alice", 0, 0)
}

// Rule PAGE-6.
func TestACustomerOfAnotherOrganizationIsNotThere(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	stranger, path := h.signIn(h.two, identity.Owner), Prefix+"/customers/alice"
	h.get(stranger, path).want(t, http.StatusNotFound)
	h.get(stranger, path+"/statement").want(t, http.StatusNotFound)
	h.get(stranger, path+"/statement.csv").want(t, http.StatusNotFound)
	h.post(stranger, path+"/freeze", "reason", "", "code", rightCode).want(t, http.StatusNotFound)
	h.post(stranger, path+"/lift", "code", rightCode).want(t, http.StatusNotFound)
	h.wantFreezes(h.one, "alice", 0, 0)
	h.get(stranger, Prefix+"/customers").want(t, http.StatusOK, "No customer yet")
	for _, list := range []string{"/customers?search=alice", "/customers.csv", "/customers.csv?search=alice"} {
		body := h.get(stranger, Prefix+list).want(t, http.StatusOK).body
		if strings.Contains(body, path) || strings.Contains(body, "alice,") {
			t.Errorf("%s shows a customer of another organization", list)
		}
	}
}

func TestTheEMailOfACustomerIsChangedWithAFreshFactor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	path, token := Prefix+"/customers/alice", h.signIn(h.one, identity.Admin)
	h.pass(sudoLasts + time.Minute)
	// Without a fresh factor the page asks for one, and keeps what was typed.
	h.post(token, path+"/email", "customerEmail", "a@example.test").
		want(t, http.StatusForbidden, "Confirm that it is you", `value="a@example.test"`)
	h.get(token, path).want(t, http.StatusOK, "not known")
	h.post(token, path+"/email", "customerEmail", "a@example.test", "code", rightCode).want(t, http.StatusSeeOther)
	h.get(token, path).want(t, http.StatusOK, "a@example.test")
	h.post(token, path+"/email", "customerEmail", "no address").
		want(t, http.StatusBadRequest, `aria-invalid="true"`, `value="no address"`)
	h.post(token, path+"/email", "customerEmail", "b@example.test").want(t, http.StatusSeeOther)
	h.get(token, path).want(t, http.StatusOK, "b@example.test", "No allowlist counts it until")
}

// Names that strangers choose are text, in the list, on the page, in links and in tables.
func TestTheIdOfACustomerIsText(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	odd := []string{`<script>alert("x")</script>Аlice`, "=HYPERLINK(1)", "a/b?c#d", "a%2Fb", "statement", "x.csv"}
	for _, id := range odd {
		h.fund(h.one, id, evil, 50_000_000)
	}
	token := h.signIn(h.one, identity.Owner)
	list := h.get(token, Prefix+"/customers").want(t, http.StatusOK).body
	for _, id := range odd {
		path := Prefix + "/customers/" + url.PathEscape(id)
		if !strings.Contains(list, `href="`+path+`"`) {
			t.Errorf("the list has no link to %s", path)
		}
		for _, page := range []string{path, path + "/statement"} {
			body := h.get(token, page).want(t, http.StatusOK).body
			for _, markup := range []string{"<script>alert", "Аlice", "<b>U</b>"} {
				if strings.Contains(body, markup) {
					t.Errorf("%s has %q as the stranger wrote it", page, markup)
				}
			}
		}
		h.post(token, path+"/freeze", "reason", "", "code", rightCode+id).want(t, http.StatusSeeOther)
		h.wantFreezes(h.one, id, 1, 1)
	}
	if !strings.Contains(list, "&lt;script&gt;") || !strings.Contains(list, ui.EscapeForeign("Аlice")) {
		t.Error("the list lacks the escaped id")
	}
	h.get(token, Prefix+"/customers.csv").want(t, http.StatusOK, "customerId,customerEmail,status", "'=HYPERLINK(1)")
	h.get(token, Prefix+"/customers/"+url.PathEscape("=HYPERLINK(1)")+"/statement.csv").
		want(t, http.StatusOK, "entryId,createdAt,customerId", "'=HYPERLINK(1)", "50")
}

// The list has pages of 50, a search by the beginning of the id, and a state.
func TestTheListOfCustomersHasPagesAndASearch(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var ids []string
	for n := range 51 {
		ids = append(ids, fmt.Sprintf("user_%02d", n))
	}
	h.newCustomers(h.one, append(ids, "user", "User_00", "other", "user_\U0010FFFD")...)
	token := h.signIn(h.one, identity.Viewer)
	link := regexp.MustCompile(`href="([^"]*cursor=[^"]*)"`)
	seen := map[string]int{}
	for path := Prefix + "/customers?search=user_&status="; path != ""; {
		body := h.get(token, path).want(t, http.StatusOK).body
		for _, m := range regexp.MustCompile(`href="/dashboard/customers/([^"/?]+)"`).FindAllStringSubmatch(body, -1) {
			seen[m[1]]++
		}
		path = ""
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 52 || seen["user_00"] != 1 || seen["user_50"] != 1 || seen["user"] != 0 || seen["User_00"] != 0 {
		t.Errorf("got %v, want the 52 customers whose ids begin with it, each once", seen)
	}
	first := h.get(token, Prefix+"/customers").want(t, http.StatusOK).body
	if n := strings.Count(first, `data-label="Customer"`); n != 50 || !link.MatchString(first) {
		t.Errorf("got %d customers on the first page, want 50 and a next page", n)
	}
	h.get(token, Prefix+"/customers?search=zz").want(t, http.StatusOK, "id begins with that")
	h.get(token, Prefix+"/customers?status=FROZEN").want(t, http.StatusOK, "No customer is frozen")
	h.get(token, Prefix+"/customers?status=GONE").want(t, http.StatusBadRequest)
	h.get(token, Prefix+"/customers?search=user&status=FROZEN").want(t, http.StatusBadRequest, "searched by id")
	h.get(token, Prefix+"/customers/"+ids[0]).want(t, http.StatusOK, "No movement yet")
	h.get(token, Prefix+"/customers/"+ids[0]+"/statement").want(t, http.StatusOK, "No movement yet")
	table := h.get(h.signIn(h.one, identity.Finance), Prefix+"/customers.csv?search=user_4").
		want(t, http.StatusOK).body
	if n := strings.Count(table, "\n"); n != 11 {
		t.Errorf("got a table of %d lines, want the head and ten customers", n)
	}
}

// A customer whose address has no valid proof is shown with an error of ours, and without the address.
// Rule DEP-2.
func TestAnAddressWithoutAProofIsNotShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	token := h.signIn(h.one, identity.Owner)
	h.get(token, Prefix+"/customers/alice").want(t, http.StatusOK, "Deposit addresses", "Polygon", `data-copy="0x`)
	d := &dashboard{Config{Deposits: &deposit.Service{Wallets: h.book}}}
	w, err := h.book.Treasury(t.Context(), h.one.id, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	w.Address = recipient
	if rows, err := d.listAddresses(nil, []wallet.Wallet{w}); err == nil {
		t.Errorf("got %v for an address that no key was proven for", rows)
	}
}
