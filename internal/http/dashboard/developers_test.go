package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// numberEvents numbers the events, as the service does all the time.
func (h *testEnv) numberEvents() {
	h.t.Helper()
	s := &event.Sequencer{DB: h.db, Environment: "TEST", Listener: delivery.FanOut{}}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// exec runs a statement as the owner of the database.
func (h *testEnv) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) count(sql string, args ...any) (n int) {
	h.t.Helper()
	if err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), sql, args...).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *testEnv) setSetting(who tenant, name, value string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("test"), who.id, org.Changes{name: []byte(value)})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// receiver is a receiver of webhooks that answers with a fixed body.
func (h *testEnv) receiver(status int, answer string) string {
	h.t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	h.t.Cleanup(s.Close)
	return s.URL
}

// register registers a webhook for an organization and returns its id.
func (h *testEnv) register(who tenant, url string) string {
	h.t.Helper()
	var made delivery.Endpoint
	err := h.db.InOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) (err error) {
		made, _, err = h.endpoints.Create(ctx, tx, who.id, audit.APIKey(who.id), delivery.NewEndpoint{
			URL: url, Description: hostile, Events: []event.Type{event.EveryType},
		})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made.ID
}

// hidden returns the value of a hidden field of a page.
func (r reply) hidden(t testing.TB, name string) string {
	t.Helper()
	found := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("got a page without the hidden field %q", name)
	}
	return found[1]
}

var shownSecret = regexp.MustCompile(`<span class="secret" translate="no">([^<]+)</span>`)

// endpointValues are the fields of the form of an endpoint.
func endpointValues(first, value, url string) []string {
	return []string{
		first, value, "url", url, "description", "shop", "events", standardEvents, "customerId", "", "chain", "",
	}
}

// Only the roles of the table are offered an act, a form by hand is refused with the roles that may, and an old
// second factor does not count. Rules PAGE-6 and PAGE-20.
func TestOnlyTheRolesOfTheTableChangeWhatDevelopersUse(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setSetting(h.one, "additionalApiKeys", "true")
	endpoint := Prefix + "/developers/webhooks/" + h.register(h.one, h.receiver(http.StatusOK, ""))
	for _, role := range roles {
		token := h.signIn(h.one, role)
		isManager := role == identity.Owner || role == identity.Admin
		for _, page := range []struct {
			path, act string
			may       bool
			roles     string
			fields    []string
		}{
			{
				Prefix + "/developers", createKeyAct, isManager, "Owner or Admin",
				[]string{onceName, "frm_1", "name", "", "scope", "READ", expiryField, ""},
			},
			{
				Prefix + "/developers/keys/key_main", rollKeyAct, isManager, "Owner or Admin",
				[]string{seenName, "", overlapField, "x"},
			},
			{
				Prefix + "/developers/webhooks", createEndpointAct, isManager || role == identity.Developer,
				"Owner, Admin or Developer", endpointValues(onceName, "frm_2", "http://evil.example"),
			},
			{
				endpoint, rotateSecretAct, isManager || role == identity.Developer, "Owner, Admin or Developer",
				[]string{seenName, "7"},
			},
			{
				endpoint, recoverAct, isManager || role == identity.Developer, "Owner, Admin or Developer",
				[]string{"since", "never", "until", ""},
			},
		} {
			body := h.get(token, page.path).want(t, http.StatusOK).body
			if got := strings.Contains(body, `action="`+page.path+"/"+page.act+`"`); got != page.may {
				t.Errorf("%s: %s: got a form %v, want %v", role, page.act, got, page.may)
			}
			got := h.post(token, page.path+"/"+page.act, page.fields...)
			if !page.may {
				got.want(t, http.StatusForbidden, page.roles)
			} else if got.status == http.StatusSeeOther || got.status == http.StatusForbidden {
				t.Errorf("%s: %s: got %d, want the form back with what is wrong", role, page.act, got.status)
			}
		}
	}
	token := h.signIn(h.one, identity.Owner)
	h.pass(sudoLasts + sudoLasts)
	got := h.post(token, Prefix+"/developers/keys/key_main/"+rollKeyAct, seenName, "", overlapField, "0")
	if got.status == http.StatusOK || shownSecret.MatchString(got.body) {
		t.Errorf("got %d with an old factor, want no new value", got.status)
	}
	if n := h.count(`SELECT count(*) FROM api_keys WHERE org_id = $1`, h.one.id); n != 1 {
		t.Errorf("got %d values of the main key, want one", n)
	}
}

// Rules PAGE-20 and PAGE-21.
func TestAKeyIsMadeRolledAndDeletedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token, path := h.signIn(h.one, identity.Owner), Prefix+"/developers"
	h.get(token, path).want(t, http.StatusOK, "Main key", "Your organization has one key",
		"The keys work from every address")
	h.setSetting(h.one, "additionalApiKeys", "true")
	h.setSetting(h.one, "ipAllowlist", `["192.0.2.0/24"]`)
	page := h.get(token, path).
		want(t, http.StatusOK, "192.0.2.0/24", "Only the operator of this service changes this list")
	create := []string{
		onceName, page.hidden(t, onceName), "name", "reports " + hostile[:8], "scope", "READ",
		expiryField, "2031-05-06",
	}
	bad := append([]string{}, create...)
	bad[7] = "tomorrow"
	h.post(token, path+"/"+createKeyAct, bad...).
		want(t, http.StatusBadRequest, "not a day such as", `value="tomorrow"`)
	shown := h.post(token, path+"/"+createKeyAct, create...).want(t, http.StatusOK, "This is shown once")
	value := shownSecret.FindStringSubmatch(shown.body)
	if value == nil || !strings.HasPrefix(value[1], "ck_") {
		t.Fatalf("got %q, want the value of the key", value)
	}
	if got := shown.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("got Cache-Control %q of a secret, want no-store", got)
	}
	// The second click makes no second key.
	h.post(token, path+"/"+createKeyAct, create...).want(t, http.StatusConflict, "has made its key already")
	if n := h.count(`SELECT count(*) FROM additional_api_keys`); n != 1 {
		t.Fatalf("got %d keys, want one", n)
	}
	list := h.get(token, path).want(t, http.StatusOK, "not yet", "read, and change nothing")
	if strings.Contains(list.body, value[1]) || strings.Contains(list.body, "<script>") {
		t.Error("the list shows the value of the key, or markup of its name")
	}
	keyPath := regexp.MustCompile(Prefix + `/developers/keys/key_[0-9A-Z]{26}`).FindString(list.body)

	detail := h.get(token, keyPath).want(t, http.StatusOK, "Made", "for 24 more hours", "curl")
	roll := []string{seenName, detail.hidden(t, seenName), overlapField, "3600"}
	rolled := h.post(token, keyPath+"/"+rollKeyAct, roll...).want(t, http.StatusOK, "The old value works until")
	if second := shownSecret.FindStringSubmatch(rolled.body); second == nil || second[1] == value[1] {
		t.Errorf("got the value %q, want another one", second)
	}
	h.post(token, keyPath+"/"+rollKeyAct, roll...).want(t, http.StatusConflict, "rolled after this page was loaded")

	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, keyPath).want(t, http.StatusNotFound)
	h.post(stranger, keyPath+"/"+rollKeyAct, roll...).want(t, http.StatusNotFound)
	h.post(stranger, keyPath+"/"+deleteKeyAct).want(t, http.StatusNotFound)
	for range 2 { // The second click shows the list, too.
		h.post(token, keyPath+"/"+deleteKeyAct).want(t, http.StatusSeeOther)
	}
	h.post(stranger, keyPath+"/"+deleteKeyAct).want(t, http.StatusNotFound)
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'api_key.deleted' AND actor_id = $1`,
		h.one.people[identity.Owner].ID); n != 1 {
		t.Errorf("got %d deletions by the person in the audit log, want one", n)
	}
	csv := h.get(token, path+".csv").want(t, http.StatusOK, "apiKeyId,name,scope,status")
	if !strings.Contains(csv.body, "key_main") {
		t.Errorf("got %q, want the main key", csv.body)
	}
	if strings.Contains(h.logs.String(), value[1]) {
		t.Error("the log has the value of a key")
	}
}

// The main key's new value reaches what keeps it.
func TestARollOfTheMainKeyIsTold(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token, path := h.signIn(h.one, identity.Admin), Prefix+"/developers/keys/key_main"
	page := h.get(token, path).want(t, http.StatusOK)
	shown := h.post(token, path+"/"+rollKeyAct, seenName, page.hidden(t, seenName), overlapField, "0").
		want(t, http.StatusOK)
	value := shownSecret.FindStringSubmatch(shown.body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if value == nil || h.rolled[h.one.id] != value[1] {
		t.Errorf("got %q told, want the value that was shown", h.rolled[h.one.id])
	}
}

// Rules PAGE-4, PAGE-21.
func TestAWebhookIsRegisteredChangedTestedAndDeleted(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token, list := h.signIn(h.one, identity.Developer), Prefix+"/developers/webhooks"
	page := h.get(token, list).want(t, http.StatusOK, "No webhook is registered", "curl -X POST")
	once := page.hidden(t, onceName)
	refused := endpointValues(onceName, once, "https://127.0.0.1/x")
	h.post(token, list+"/"+createEndpointAct, refused...).
		want(t, http.StatusBadRequest, "must lead to a public address", `value="https://127.0.0.1/x"`, once)
	url := h.receiver(http.StatusBadGateway, "<script>alert(1)</script>\u202eoops\nsecond line")
	values := endpointValues(onceName, once, url)
	shown := h.post(token, list+"/"+createEndpointAct, values...).want(t, http.StatusOK, "This is shown once")
	if secret := shownSecret.FindStringSubmatch(shown.body); secret == nil || !strings.HasPrefix(secret[1], "whsec_") {
		t.Fatalf("got %q, want the secret", secret)
	}
	h.post(token, list+"/"+createEndpointAct, values...).want(t, http.StatusConflict, "registered its webhook already")
	path := regexp.MustCompile(list + `/we_[0-9A-Z]{26}`).FindString(h.get(token, list).body)

	// A sample shows the request and the answer, of which nothing is markup or hidden.
	to := h.post(token, path+"/"+testEndpointAct, "type", "CUSTOMER_DEPOSIT").want(t, http.StatusSeeOther).
		header.Get("Location")
	body := h.get(token, to).want(t, http.StatusOK, "answer 502", "&lt;script&gt;", `\u{202e}oops`+"\nsecond line",
		"webhook-id", "Sample").body
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "\u202e") {
		t.Error("the page has the answer of the receiver as it was written")
	}
	h.get(token, path+"/deliveries?status=FAILED&type=&eventId=").want(t, http.StatusOK, "sample")
	h.get(token, path+"/deliveries?status=DELIVERED").want(t, http.StatusOK, "Nothing fits the filter")
	h.get(token, path+"/deliveries/evt_%00").want(t, http.StatusNotFound)
	h.get(token, path+"/deliveries.csv").want(t, http.StatusForbidden, "Owner, Admin, Approver or Finance")
	h.get(h.signIn(h.one, identity.Admin), path+"/deliveries.csv").
		want(t, http.StatusOK, "eventId,type,test", "CUSTOMER_DEPOSIT")

	// A change by an old page is refused, and the second click is not.
	detail := h.get(token, path).want(t, http.StatusOK, "Pause it")
	change := endpointValues(seenName, detail.hidden(t, seenName), url+"/new")
	for range 2 {
		h.post(token, path+"/"+changeEndpointAct, change...).want(t, http.StatusSeeOther)
	}
	h.post(token, path+"/"+changeEndpointAct, endpointValues(seenName, detail.hidden(t, seenName), url+"/old")...).
		want(t, http.StatusConflict, "changed after this page was loaded")
	h.post(token, path+"/"+pauseEndpointAct).want(t, http.StatusSeeOther)
	h.get(token, path).want(t, http.StatusOK, "Paused", "Enable it", "/new")
	h.post(token, path+"/"+enableEndpointAct).want(t, http.StatusSeeOther)

	rotate := regexp.MustCompile(`/rotate">\s*<input type="hidden" name="seen" value="(\d+)"`)
	version := rotate.FindStringSubmatch(h.get(token, path).body)
	if version == nil {
		t.Fatal("got no form that replaces the secret")
	}
	h.post(token, path+"/"+rotateSecretAct, seenName, version[1]).want(t, http.StatusOK, "The old secret signs, too")
	h.post(token, path+"/"+rotateSecretAct, seenName, version[1]).
		want(t, http.StatusConflict, "replaced after this page was loaded")

	stranger := h.signIn(h.two, identity.Owner)
	for _, p := range []string{path, path + "/deliveries", to} {
		h.get(stranger, p).want(t, http.StatusNotFound)
	}
	h.post(stranger, path+"/"+deleteEndpointAct).want(t, http.StatusNotFound)
	h.post(stranger, path+"/"+testEndpointAct, "type", "CUSTOMER_DEPOSIT").want(t, http.StatusNotFound)
	var wg sync.WaitGroup
	colleague := h.signIn(h.one, identity.Admin)
	for _, who := range []string{token, colleague} {
		wg.Go(func() {
			if got := h.post(who, path+"/"+deleteEndpointAct); got.status != http.StatusSeeOther {
				t.Errorf("got %d for one of two deletions at once, want the list", got.status)
			}
		})
	}
	wg.Wait()
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'webhook_endpoint.deleted'`); n != 1 {
		t.Errorf("got %d deletions, want one", n)
	}
	h.post(stranger, path+"/"+deleteEndpointAct).want(t, http.StatusNotFound)
}

// Failures that disabled an endpoint are on the first page and on those for developers. Rule PAGE-22.
func TestABannerNamesADisabledWebhook(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Developer)
	id := h.register(h.one, h.receiver(http.StatusOK, ""))
	const banner = "Failures have disabled a webhook"
	paths := []string{Prefix, Prefix + "/developers", Prefix + "/developers/webhooks"}
	for _, path := range paths {
		if strings.Contains(h.get(token, path).body, banner) {
			t.Errorf("%s: got the banner without a disabled webhook", path)
		}
	}
	h.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_BY_FAILURE' WHERE endpoint_id = $1`, id)
	stranger := h.signIn(h.two, identity.Owner)
	for _, path := range paths {
		h.get(token, path).want(t, http.StatusOK, banner, "/webhooks/"+id)
		if strings.Contains(h.get(stranger, path).body, banner) {
			t.Errorf("%s: got the banner of another organization", path)
		}
	}
	h.get(token, Prefix+"/developers/webhooks/"+id).
		want(t, http.StatusOK, "Failures have disabled this webhook", "Enable it")
	h.post(token, Prefix+"/developers/webhooks/"+id+"/"+recoverAct, "since", "2026-01-31T12:00", "until", "").
		want(t, http.StatusConflict)
	h.post(token, Prefix+"/developers/webhooks/"+id+"/"+enableEndpointAct).want(t, http.StatusSeeOther)
	h.get(token, Prefix).want(t, http.StatusOK)
}

// An event is found, shown as it was signed and sent again, with its progress.
func TestAnEventIsShownAndSentAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token, list := h.signIn(h.one, identity.Developer), Prefix+"/developers/events"
	h.get(token, list).want(t, http.StatusOK, "Nothing has happened yet")
	endpointID := h.register(h.one, h.receiver(http.StatusOK, ""))
	customer := strings.ReplaceAll(hostile, "\u202e", "")
	h.fund(h.one, customer, usdc, 50_000_000)
	h.request(h.one, customer, usdc, "1000000")
	h.numberEvents()
	page := h.get(token, list).want(t, http.StatusOK, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL", "&lt;script&gt;")
	if strings.Contains(page.body, "<script>alert") {
		t.Error("the feed has the id of a customer as markup")
	}
	path := regexp.MustCompile(list + `/evt_[0-9A-Z]{26}`).FindString(page.body)
	h.get(token, list+"?type=CUSTOMER_SWAP_FAILED").want(t, http.StatusOK, "No event of this type")
	h.get(h.signIn(h.one, identity.Finance), list+".csv").want(t, http.StatusOK, "sequence,id,type")
	h.get(token, path).want(t, http.StatusOK, "&#34;type&#34;:&#34;CUSTOMER_WITHDRAW_AWAITING_APPROVAL&#34;")
	var first string
	for range 2 { // The second click is the same job.
		to := h.post(token, path+"/"+resendAct).want(t, http.StatusSeeOther).header.Get("Location")
		if first == "" {
			first = to
		} else if to != first {
			t.Errorf("got the job %s for the second click, want %s", to, first)
		}
	}
	h.get(token, first).want(t, http.StatusOK, "Looking for the events", "Look again")
	since := h.now().UTC().AddDate(0, 0, -1).Format("2006-01-02T15:04")
	to := h.post(token, Prefix+"/developers/webhooks/"+endpointID+"/"+recoverAct, "since", since, "until", "").
		want(t, http.StatusSeeOther).header.Get("Location")
	h.get(token, to).want(t, http.StatusOK, "those that were never delivered")
	h.post(token, Prefix+"/developers/webhooks/"+endpointID+"/"+recoverAct, "since", "yesterday", "until", "").
		want(t, http.StatusBadRequest, "This is not a time such as", `value="yesterday"`)

	stranger := h.signIn(h.two, identity.Owner)
	for _, p := range []string{path, first, to} {
		h.get(stranger, p).want(t, http.StatusNotFound)
	}
	h.post(stranger, path+"/"+resendAct).want(t, http.StatusNotFound)
	h.post(h.signIn(h.one, identity.Viewer), path+"/"+resendAct).
		want(t, http.StatusForbidden, "Owner, Admin or Developer")
	if body := h.get(stranger, list).body; !strings.Contains(body, "Nothing has happened yet") {
		t.Error("the feed shows events of another organization")
	}
}
