package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity"
)

// An owner invites, changes and ends the access of a person, each once. Rules SIGN-14, PAGE-21.
func TestAnOwnerManagesThePeople(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner, list := h.join(h.one, identity.Owner), Prefix+"/team"
	owner.get(list).want(t, http.StatusOK, "owner@example.test", "you", "Invite a person", "Invitation is over")
	name := "Zo\u202eë <b>x</b>"
	owner.post(list+"/"+inviteAct, "email", "zoe@example.test", "name", name, "VIEWER", "on").
		want(t, http.StatusBadRequest, `aria-invalid="true"`)
	name = "Zoë <b>x</b>"
	owner.post(list+"/"+inviteAct, "email", "zoe@example.test", "name", name).
		want(t, http.StatusBadRequest, "Tick at least one role.")
	var path string
	for range 2 { // The second click leads to the same person.
		path = owner.post(list+"/"+inviteAct, "email", "Zoe@example.test", "name", name, "VIEWER", "on").
			want(t, http.StatusSeeOther).header.Get("Location")
	}
	if n := h.mailsTo("zoe@example.test"); n != 1 {
		t.Errorf("got %d mails, want one invitation", n)
	}
	body := owner.get(path).
		want(t, http.StatusOK, "Invited", `Zo\u{eb} &lt;b&gt;x&lt;/b&gt;`, "Send a new invitation").body
	if strings.Contains(body, "<b>x</b>") {
		t.Error("the page has a name as markup")
	}
	seen := owner.get(path).hidden(t, seenName)
	for range 2 {
		owner.post(path+"/"+resendInvitationAct, seenName, seen).want(t, http.StatusSeeOther)
	}
	if n := h.mailsTo("zoe@example.test"); n != 2 {
		t.Errorf("got %d mails, want one more after the first of two clicks", n)
	}
	for range 2 {
		owner.post(path+"/"+changeRolesAct, seenName, "VIEWER", "FINANCE", "on", "VIEWER", "on").
			want(t, http.StatusSeeOther)
	}
	owner.post(path+"/"+changeRolesAct, seenName, "VIEWER", "APPROVER", "on").
		want(t, http.StatusConflict, "changed after this page was loaded")
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'person.roles_changed'`); n != 1 {
		t.Errorf("got %d changes of roles, want one", n)
	}
	for range 2 {
		owner.post(path+"/"+endAccessAct).want(t, http.StatusSeeOther)
	}
	owner.get(path).want(t, http.StatusOK, "Access ended", "Invite again")
	for range 2 {
		owner.post(path+"/"+inviteAct, "VIEWER", "on").want(t, http.StatusSeeOther)
	}
	owner.get(path).want(t, http.StatusOK, "Invited", "Viewer")
	own := list + "/" + h.one.people[identity.Owner].ID
	owner.get(own).want(t, http.StatusOK, "Your own access", "This browser")
	owner.post(own+"/"+endAccessAct).want(t, http.StatusForbidden, "your own access")
	owner.get(list+".csv").want(t, http.StatusOK, "memberId,email,name,roles", "zoe@example.test")
}

// Who may not manage a person is offered nothing, and a form by hand is refused. Rules ROLE-3, PAGE-6.
func TestOnlyManagersManageThePeople(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	list := Prefix + "/team"
	viewer, owner := h.one.people[identity.Viewer].ID, h.one.people[identity.Owner].ID
	for _, role := range roles {
		token := h.signIn(h.one, role)
		isManager := role == identity.Owner || role == identity.Admin
		body := h.get(token, list).want(t, http.StatusOK, "viewer@example.test").body
		if got := strings.Contains(body, "Invite a person"); got != isManager {
			t.Errorf("%s: got the form of an invitation %v, want %v", role, got, isManager)
		}
		if got := strings.Contains(body, `name="OWNER"`); got != (role == identity.Owner) {
			t.Errorf("%s: got the role of an owner offered %v", role, got)
		}
		if got := strings.Contains(h.get(token, list+"/"+viewer).body, "End the access"); got != isManager {
			t.Errorf("%s: got the forms of a viewer %v, want %v", role, got, isManager)
		}
		if got := strings.Contains(h.get(token, list+"/"+owner).body, "End the access"); got {
			t.Errorf("%s: got the forms of the owner", role)
		}
		if !isManager {
			h.post(token, list+"/"+viewer+"/"+endAccessAct).want(t, http.StatusForbidden, "Owner or Admin")
			h.post(token, list+"/"+inviteAct, "email", "x@example.test", "name", "X", "VIEWER", "on").
				want(t, http.StatusForbidden, "Owner or Admin")
		}
	}
	admin := h.join(h.one, identity.Admin)
	admin.post(list+"/"+owner+"/"+endAccessAct).want(t, http.StatusForbidden, "Only an owner")
	admin.post(list+"/"+inviteAct, "email", "x@example.test", "name", "X", "OWNER", "on").want(t, http.StatusForbidden)
	stranger := h.join(h.two, identity.Owner)
	stranger.get(list+"/"+viewer).want(t, http.StatusNotFound)
	for act, fields := range map[string][]string{
		endAccessAct: nil, changeRolesAct: {seenName, "VIEWER", "FINANCE", "on"}, resendInvitationAct: {seenName, "x"},
		inviteAct: {"VIEWER", "on"},
	} {
		stranger.post(list+"/"+viewer+"/"+act, fields...).want(t, http.StatusNotFound)
	}
}

// An owner ends a session of another person, and no person of another organization does.
func TestAnOwnerEndsASession(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	dev, owner := h.join(h.one, identity.Developer), h.join(h.one, identity.Owner)
	path := Prefix + "/team/" + h.one.people[identity.Developer].ID
	body := owner.get(path).want(t, http.StatusOK, "Sessions")
	sessionID := body.hidden(t, "session")
	h.join(h.two, identity.Admin).post(path+"/"+endPersonSessionAct, "session", sessionID).want(t, http.StatusNotFound)
	dev.get(Prefix).want(t, http.StatusOK)
	owner.post(path+"/"+endPersonSessionAct, "session", sessionID).want(t, http.StatusSeeOther)
	dev.get(Prefix).want(t, http.StatusSeeOther)
	owner.post(path+"/"+endPersonSessionAct, "session", sessionID).want(t, http.StatusNotFound)
}
