package console

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// pathOf returns the path of a page with things that exist, and "" for a page of sign-in.
func (h *testEnv) pathOf(p pages.Page, depositID, freezeID, changeID string) string {
	path := strings.NewReplacer(
		"{organizationId}", h.orgID, "{setting}", "approvalQuorum", "{depositId}", depositID, "{freezeId}", freezeID,
		"{changeRequestId}", changeID, "{swapId}", cmp.Or(h.swapID, "{swapId}"), "{provider}", "ONE_CLICK",
	).Replace(p.Path)
	if strings.Contains(path, "{") || p.Access != pages.Members {
		return ""
	}
	return strings.TrimSuffix(Prefix+path, "/")
}

// surface is the table of the pages.
func surface(h *testEnv) pages.Surface {
	return (&console{Config{
		SignIn: h.signIn, Chains: h.deposits.Chains, Origin: &url.URL{Scheme: "http", Host: "localhost"},
	}}).surface()
}

// freezeOrg freezes the organization and returns the freeze.
func (h *testEnv) freezeOrg() string {
	h.t.Helper()
	var made freeze.Freeze
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		made, _, err = freeze.CreateOrFind(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: h.orgID, Source: freeze.SourceOperator, Reason: hostile,
			Actor: audit.Operator("cli"),
		})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made.ID
}

// requestChange has ann request a change that loosens a control, and returns the request.
func (h *testEnv) requestChange(token string) string {
	h.t.Helper()
	path := Prefix + "/organizations/" + h.orgID + "/settings/flaggedDepositApiEnabled"
	to := h.post(token, path+"/change", "value", "on", "before", "false").location(h.t)
	if !strings.HasPrefix(to, Prefix+"/changes/chg_") {
		h.t.Fatalf("got %s, want the page of a change request", to)
	}
	return strings.TrimPrefix(to, Prefix+"/changes/")
}

// Each page is shown to operators and to auditors, and to no member, visitor or stranger. Each act of it is
// refused to an auditor with the role that has it, before its form is read, and changes nothing.
// Rules PAGE-40, PAGE-41, ROLE-5.
func TestEachPageAndActHasItsRoles(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, eve := h.signInAs(h.ann), h.signInAs(h.eve)
	member := h.open(session.Session{OrgID: h.orgID, Member: h.memberOf, SudoUntil: h.now().AddDate(0, 0, 1)})
	depositID, freezeID, strayID := h.flag(), h.freezeOrg(), ""
	changeID := h.requestChange(ann)
	h.swapID, strayID = h.fillSwaps(1)
	rows := h.count(`SELECT count(*) FROM audit_log`)
	seen := 0
	for _, p := range surface(h).Pages {
		path := h.pathOf(p, depositID, freezeID, changeID)
		if p.Path == "/swap-arrivals/{depositId}" {
			path = h.pathOf(p, strayID, freezeID, changeID)
		}
		if path == "" {
			continue
		}
		seen++
		for name, token := range map[string]string{"operator": ann, "auditor": eve} {
			got := h.get(token, path)
			if got.status != http.StatusOK || strings.Contains(
				got.body, "<script>alert",
			) || strings.Contains(got.body, "\u202e") {
				t.Errorf(
					"%s, %s: got %d %s, want the page without markup of strangers", path, name, got.status, got.body,
				)
			}
		}
		if got := h.get(member, path); got.status != http.StatusForbidden || !strings.Contains(
			got.body, "This needs the role",
		) {
			t.Errorf("%s, a member: got %d %s, want 403", path, got.status, got.body)
		}
		if to := h.get("", path).header.Get("Location"); !strings.HasPrefix(to, Prefix+"/sign-in?next=") {
			t.Errorf("%s, a visitor: got %q, want sign-in", path, to)
		}
		if p.WriteCSV != nil {
			got := h.get(eve, path+".csv")
			if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/csv") {
				t.Errorf("%s.csv: got %d %s, want a table", path, got.status, got.body)
			}
		}
		for _, act := range p.Acts {
			isSigned := slices.ContainsFunc(act.Fields, func(f pages.Field) bool { return f.Name == ui.SignatureName })
			if act.StepUp == pages.NoStepUp && !isSigned || !identity.PermissionOf(act.Action).Operator {
				t.Errorf("%s/%s: got no step-up, or an action that operators do not take", path, act.Name)
			}
			want := map[identity.StepUp]pages.StepUp{
				identity.ActFactor: pages.ActStepUp, identity.SudoFactor: pages.SudoStepUp,
			}[identity.PermissionOf(act.Action).StepUp]
			if act.StepUp != want && !isSigned {
				t.Errorf(
					"%s/%s: got the step-up %v, want that of the table of roles, %v", path, act.Name, act.StepUp, want,
				)
			}
			got := h.post(eve, path+"/"+act.Name, "code", rightCode+"eve")
			if got.status != http.StatusForbidden || !strings.Contains(got.body, "Operator") {
				t.Errorf("%s/%s, an auditor: got %d %s, want 403 with the role", path, act.Name, got.status, got.body)
			}
			got = h.post(member, path+"/"+act.Name, "code", rightCode+"member")
			if got.status != http.StatusForbidden {
				t.Errorf("%s/%s, a member: got %d, want 403", path, act.Name, got.status)
			}
		}
	}
	if seen < 25 {
		t.Errorf("got %d pages, want all", seen)
	}
	if now := h.count(`SELECT count(*) FROM audit_log`); now != rows {
		t.Errorf("got %d rows of the audit log more, want none: nothing was done", now-rows)
	}
}

// The pages answer only the addresses of the operators' listener, before anything else is read. Rule PAGE-40.
func TestThePagesAnswerOnlyTheListedAddresses(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.get(h.signInAs(h.ann), Prefix).want(t, http.StatusOK)
	closed := Config{AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	h.server.Config.Handler = closed.guard(h.server.Config.Handler)
	h.get(h.signInAs(h.ann), Prefix).want(t, http.StatusForbidden, "operator.allow")
	h.get("", Prefix+"/sign-in").want(t, http.StatusForbidden)
}

// Each cause of attention has a page and words, and the first page shows what needs an operator, the most
// urgent first. A link of a runbook leads to a page that exists. Rule PAGE-45.
func TestTheFirstPageShowsWhatNeedsAnOperator(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.signInAs(h.ann)
	h.get(ann, Prefix).want(t, http.StatusOK, "Nothing needs an operator")
	for _, cause := range report.AttentionCauses {
		shown, ok := attentions[cause]
		if !ok || shown.Text == "" || shown.Noun == "" {
			t.Errorf("%s has no words", cause)
			continue
		}
		if got := h.get(ann, Prefix+shown.Path+shown.Filter); got.status != http.StatusOK {
			t.Errorf("%s: got %d for %s%s, want a page", cause, got.status, shown.Path, shown.Filter)
		}
	}
	if len(attentions) != len(report.AttentionCauses) {
		t.Errorf("got %d causes with words, want %d", len(attentions), len(report.AttentionCauses))
	}
	h.flag()
	h.freezeOrg()
	h.requestChange(ann)
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(
			ctx, tx, freeze.Freeze{Scope: freeze.ScopeAll, Source: freeze.SourceVerify, Reason: "a row differs"},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	body := h.get(ann, Prefix).want(
		t, http.StatusOK, "1 freeze of the checker", "1 change request", "1 flagged deposit",
		"1 freeze by operators").body
	last := -1
	for _, text := range []string{"freeze of the checker", "change request", "flagged deposit", "freeze by operators"} {
		at := strings.Index(body, "1 "+text)
		if at < last {
			t.Errorf("%s stands above something more urgent", text)
		}
		last = at
	}
	h.get(ann, Prefix+"/checker").want(t, http.StatusOK, "The books and a chain differ", "a row differs")
}

// Every setting of the interface has a form, and its values pass through the form unchanged.
func TestEachSettingHasAForm(t *testing.T) {
	t.Parallel()
	for _, name := range org.SettingNames() {
		if settingForms[name].Title == "" {
			t.Errorf("%s has no form", name)
		}
	}
	if len(settingForms) != len(org.SettingNames()) {
		t.Errorf("got %d forms, want %d", len(settingForms), len(org.SettingNames()))
	}
	for _, c := range []struct {
		kind        settingKind
		value, text string
	}{
		{wordSetting, `"HIGH"`, "HIGH"},
		{wordSetting, `null`, ""},
		{dollarSetting, `"10000"`, "10000"},
		{dollarSetting, `null`, ""},
		{numberSetting, `3`, "3"},
		{switchSetting, `true`, "on"},
		{switchSetting, `false`, "off"},
		{numbersSetting, `[1,2]`, "1, 2"},
		{numbersSetting, `[]`, ""},
		{addressesSetting, `["10.0.0.0/8","203.0.113.7/32"]`, "10.0.0.0/8, 203.0.113.7/32"},
		{
			entriesSetting,
			`[{"email":"a@example.test","active":true},{"email":"b@example.test","customerId":"c 1","active":false}]`,
			"a@example.test, -b@example.test c 1",
		},
	} {
		if got := formatSetting(c.kind, []byte(c.value)); got != c.text {
			t.Errorf("%s: got the text %q, want %q", c.value, got, c.text)
		}
		if got, err := parseSetting(c.kind, c.text); err != nil || string(got) != c.value {
			t.Errorf("%q: got %s, %v, want %s", c.text, got, err, c.value)
		}
	}
	for kind, text := range map[settingKind]string{
		numberSetting: "many", switchSetting: "maybe", numbersSetting: "1, x",
	} {
		if _, err := parseSetting(kind, text); err == nil {
			t.Errorf("%q: got no refusal", text)
		}
	}
}

// Every state that a page shows has words of its own.
func TestEveryStateHasWords(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, status := range orderStatuses {
		words[orderChip(status).Word] = true
	}
	for _, status := range withdrawalStatuses {
		words[withdrawalChip(status).Word] = true
	}
	if words[""] {
		t.Error("a state has no words")
	}
	for _, chip := range []ui.Chip{
		depositChip("?"), orderChip("?"), withdrawalChip("?"), changeChip("?"), jobChip("?"),
	} {
		if chip.Word != "" {
			t.Errorf("an unknown state has the words %q", chip.Word)
		}
	}
}
