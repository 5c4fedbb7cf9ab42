package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
)

// settingValues are the fields of the form of the settings, with some of them changed.
func settingValues(seen string, changed ...string) []string {
	values := map[string]string{"approvalQuorum": "1"}
	for i := 0; i < len(changed); i += 2 {
		values[changed[i]] = changed[i+1]
	}
	fields := []string{seenName, seen}
	for _, name := range memberchange.Controls {
		fields = append(fields, name, values[name])
	}
	return fields
}

// Every role sees all settings, and only owners and admins change those that are theirs. Rules ROLE-4, PAGE-6.
func TestOnlyManagersChangeTheSettings(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := Prefix + "/settings"
	for _, role := range roles {
		token := h.signIn(h.one, role)
		isManager := role == identity.Owner || role == identity.Admin
		page := h.get(token, path).want(t, http.StatusOK, "not set: holds none", "Further API keys",
			"Only the operator of this service changes these")
		if got := strings.Contains(page.body, "Change the settings"); got != isManager {
			t.Errorf("%s: got the form %v, want %v", role, got, isManager)
		}
		if !isManager {
			h.post(token, path+"/"+changeSettingsAct, settingValues("2026-01-01T00:00:00Z", "approvalQuorum", "2")...).
				want(t, http.StatusForbidden, "Owner or Admin")
		}
	}
	h.post(h.signIn(h.one, identity.Owner), path+"/"+changeSettingsAct,
		append(settingValues("2026-01-01T00:00:00Z"), "ipAllowlist", "")...).want(t, http.StatusBadRequest)
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'settings.changed'`); n != 0 {
		t.Errorf("got %d changes, want none", n)
	}
}

// What tightens holds at once; what loosens waits for another person, who sees who asks for what. Rules
// PAGE-24, PAGE-26.
func TestTwoPeopleLoosenASetting(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.exec(`ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only`)
	h.exec(`UPDATE audit_log SET at = at - interval '1 day' WHERE action = 'person.added'`)
	owner, admin := h.join(h.one, identity.Owner), h.join(h.one, identity.Admin)
	path := Prefix + "/settings"
	seen := owner.get(path).want(t, http.StatusOK, "waits until another owner or admin approves it").hidden(t, seenName)
	for _, bad := range [][]string{
		{"approvalQuorum", "many"},
		{"approvalQuorum", "11"},
		{"customerWithdrawUsdThreshold", "1e9"},
		{"approvalAllowlist", "no address"},
	} {
		owner.post(path+"/"+changeSettingsAct, settingValues(seen, bad...)...).
			want(t, http.StatusBadRequest, `aria-invalid="true"`, bad[1])
	}
	owner.post(path+"/"+changeSettingsAct, settingValues(seen, "withdrawSeverityThreshold", "SOME")...).
		want(t, http.StatusBadRequest, `aria-invalid="true"`, "Choose one of the list.")
	tight := settingValues(seen, "customerWithdrawUsdThreshold", "100", "approvalQuorum", "2")
	for range 2 { // The second click changes nothing more.
		if to := owner.post(path+"/"+changeSettingsAct, tight...).want(t, http.StatusSeeOther).
			header.Get("Location"); to != path {
			t.Errorf("got a redirect to %q, want the settings", to)
		}
	}
	// An old tab overwrites nothing.
	admin.post(path+"/"+changeSettingsAct, settingValues(seen, "approvalQuorum", "3")...).
		want(t, http.StatusConflict, "changed after this page was loaded")

	seen = owner.get(path).want(t, http.StatusOK, "$100").hidden(t, seenName)
	const line = "ann@example.com user <b>7</b>"
	loose := settingValues(
		seen, "customerWithdrawUsdThreshold", "100000", "approvalQuorum", "2", "approvalAllowlist", line,
	)
	change := owner.post(path+"/"+changeSettingsAct, loose...).want(t, http.StatusSeeOther).header.Get("Location")
	if again := owner.post(path+"/"+changeSettingsAct, loose...).want(t, http.StatusSeeOther).
		header.Get("Location"); again != change {
		t.Errorf("got the change %s for the second click, want %s", again, change)
	}
	owner.get(path).want(t, http.StatusOK, "Changes that are not in force yet", "$100")
	body := owner.get(change).want(t, http.StatusOK, "$100\u202f000", "You requested this change",
		"Retract this change", "user &lt;b&gt;7&lt;/b&gt;").body
	if strings.Contains(body, "Approve this change") || strings.Contains(body, "<b>7") {
		t.Error("the requester is offered the approval, or the page has an id of a customer as markup")
	}
	owner.post(change+"/"+approveChangeAct).
		want(t, http.StatusConflict, "It was not approved.", "another person has to decide")
	viewer := h.signIn(h.one, identity.Viewer)
	h.get(viewer, change).want(t, http.StatusOK, "Your roles show this change")
	h.post(viewer, change+"/"+approveChangeAct).want(t, http.StatusForbidden, "Owner or Admin")
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, change).want(t, http.StatusNotFound)
	h.post(stranger, change+"/"+approveChangeAct).want(t, http.StatusNotFound)
	if n := h.mailsTo("admin@example.test"); n == 0 {
		t.Error("got no mail to the person who can approve")
	}
	for range 2 {
		admin.post(change+"/"+approveChangeAct).want(t, http.StatusSeeOther)
	}
	owner.post(change+"/"+retractChangeAct).want(t, http.StatusSeeOther) // The old tab shows the decision.
	owner.get(change).want(t, http.StatusOK, "Approved", "It does not wait any more.")
	owner.get(path).want(t, http.StatusOK, "$100\u202f000", "ann@example.com")
	owner.get(path+"/history").want(t, http.StatusOK, "The request", "Hold withdrawals of customers above this value")
	owner.get(path+"/history.csv").want(t, http.StatusOK, "setting,from,to", "customerWithdrawUsdThreshold")
	if body := h.get(stranger, path+"/history").body; !strings.Contains(body, "No setting was changed yet") {
		t.Error("the history shows changes of another organization")
	}
}

// The change of a lone person takes effect after a day. Rule PAGE-25.
func TestALonePersonWaitsADay(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setQuorum(h.one, "3")
	owner, path := h.join(h.one, identity.Owner), Prefix+"/settings"
	seen := owner.get(path).want(t, http.StatusOK, "it takes effect after 24 hours.").hidden(t, seenName)
	change := owner.post(path+"/"+changeSettingsAct, settingValues(seen, "approvalQuorum", "2")...).
		want(t, http.StatusSeeOther).header.Get("Location")
	owner.get(change).want(t, http.StatusOK, "takes effect by itself", "Retract this change")
	h.pass(memberchange.DelayDefault)
	if err := h.settingChanges.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	token := h.signIn(h.one, identity.Viewer)
	h.get(token, change).want(t, http.StatusOK, "Took effect", "By the service itself")
}
