package dashboard

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

var hiddenInputs = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`)

// hiddenFields returns the hidden fields of the forms of a page, as names and values in turn.
func hiddenFields(body string) (fields []string) {
	for _, found := range hiddenInputs.FindAllStringSubmatch(body, -1) {
		fields = append(fields, found[1], html.UnescapeString(found[2]))
	}
	return slices.Clip(fields)
}

// replaceField returns fields with another value of one of them.
func replaceField(fields []string, name, value string) []string {
	changed := slices.Clip(slices.Clone(fields))
	for i := 0; i < len(changed); i += 2 {
		if changed[i] == name {
			changed[i+1] = value
		}
	}
	return changed
}

// listOwn returns the withdrawals of an organization's own money.
func (h *testEnv) listOwn(who tenant) []withdrawal.Withdrawal {
	h.t.Helper()
	found, err := h.withdrawals.List(
		h.t.Context(), who.id, withdrawal.Filter{Type: "ORGANIZATION"}, pagination.Page{Limit: 100},
	)
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// confirmWithdrawal fills in the form of a withdrawal and returns the path of the page that asks for the
// second factor, with the fields of its form.
func (h *testEnv) confirmWithdrawal(token, form, to, amount string) (path string, fields []string) {
	h.t.Helper()
	sent := h.post(token, form+"/continue", "to", to, "amount", amount, "filled", "").want(h.t, http.StatusSeeOther)
	path = sent.header.Get("Location")
	fields = hiddenFields(h.get(token, path).want(h.t, http.StatusOK).body)
	path, _, _ = strings.Cut(path, "?")
	return path, fields
}

// Rules OW-1, OW-2, PAGE-4, PAGE-15 and PAGE-16.
func TestAnOwnWithdrawalIsShownWholeAndCountsOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 15_000_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet "+ui.EscapeForeign(`Аlice`))
	token := h.signIn(h.one, identity.Finance)
	h.get(token, Prefix+"/withdraw").want(t, http.StatusOK, "15\u202f000", "Cold wallet", "Usable",
		"Nothing was withdrawn yet", `data-copy="`+recipient+`"`)
	form := Prefix + "/withdraw/CHECKOUT/1"
	h.get(token, form).want(t, http.StatusOK, "Cold wallet", `value="`+entry+`"`, "Billed to your organization", "ETH")

	path, fields := h.confirmWithdrawal(token, form, entry, "12500.000001")
	shown := h.get(token, path+"?"+url.Values{"to": {entry}, "amount": {"12500.000001"}}.Encode()).want(t,
		http.StatusOK, "12\u202f500.000001", `data-copy="`+recipient+`"`, "$12\u202f497.50", "Whitelist", "Balance",
		"Network fee", "It will be paid at once", "Withdraw 12\u202f500.000001 USDC</button>").body
	var words []string
	for _, m := range regexp.MustCompile(`data-word="(\w+)"`).FindAllStringSubmatch(shown, -1) {
		words = append(words, m[1])
	}
	const want = "amount to network token contract feeMode product whitelistEntry organization"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("got the words %q, want %q in this order", got, want)
	}
	if len(h.listOwn(h.one)) != 0 {
		t.Fatal("looking at a withdrawal has made one")
	}

	// A wrong code writes nothing. The form keeps its key.
	wrong := h.post(token, path+"/request", append(fields, "code", "000000")...).
		want(t, http.StatusUnauthorized, "This code is wrong or was used.")
	if got := hiddenFields(wrong.body); strings.Join(got, " ") != strings.Join(fields, " ") {
		t.Errorf("got the fields %q after a wrong code, want %q", got, fields)
	}
	// Of a double click, a reload and the back button each send the same form.
	var results []string
	for _, code := range []string{rightCode, rightCode, rightCode + "b", "000000", ""} {
		got := h.post(token, path+"/request", append(fields, "code", code)...).want(t, http.StatusSeeOther)
		results = append(results, got.header.Get("Location"))
	}
	made := h.listOwn(h.one)
	if len(made) != 1 {
		t.Fatalf("got %d withdrawals, want one", len(made))
	}
	for _, to := range results {
		if want := Prefix + "/approvals/withdrawals/" + made[0].ID; to != want {
			t.Errorf("got a redirect to %q, want %q", to, want)
		}
	}
	if made[0].Amount != money.Units(12_500_000_001) || string(made[0].ToAddress) != recipient {
		t.Errorf("got %v to %s, want what was shown", made[0].Amount, made[0].ToAddress)
	}

	// The same form with other values moves nothing, and leads to the first request.
	h.post(token, path+"/request", append(replaceField(fields, "shownAmount", "1"), "code", rightCode+"c")...).
		want(t, http.StatusConflict, "That first request stands", "12500.000001 USDC", made[0].ID,
			"What you did before is not affected")
	if got := len(h.listOwn(h.one)); got != 1 {
		t.Errorf("got %d withdrawals, want one", got)
	}
	// A new form is a new request.
	path, fields = h.confirmWithdrawal(token, form, entry, "1")
	h.post(token, path+"/request", append(fields, "code", rightCode+"d")...).want(t, http.StatusSeeOther)
	if got := len(h.listOwn(h.one)); got != 2 {
		t.Errorf("got %d withdrawals, want two", got)
	}
	h.get(token, Prefix+"/withdraw").want(t, http.StatusOK, "Being paid", made[0].ID)
	h.get(token, Prefix+"/withdraw.csv").want(t, http.StatusOK, made[0].ID, "PROCESSING")
}

// Two processes get the same form at the same time, each with a code that is right. Rule PAGE-15.
func TestOneFormAtTwoProcessesIsOneWithdrawal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token := h.signIn(h.one, identity.Finance)
	path, fields := h.confirmWithdrawal(token, Prefix+"/withdraw/CHECKOUT/1", entry, "7")
	other := httptest.NewServer(pages.New(h.surface, h.kit))
	defer other.Close()
	twin := &testEnv{t: t, logs: h.logs, server: other}
	var both sync.WaitGroup
	replies := make([]reply, 8)
	for i := range replies {
		at := h
		if i%2 == 1 {
			at = twin
		}
		both.Go(func() {
			code := rightCode + string(rune('a'+i))
			replies[i] = at.post(token, path+"/request", append(fields, "code", code)...)
		})
	}
	both.Wait()
	made := h.listOwn(h.one)
	if len(made) != 1 {
		t.Fatalf("got %d withdrawals, want one", len(made))
	}
	for _, got := range replies {
		want := Prefix + "/approvals/withdrawals/" + made[0].ID
		if to := got.header.Get("Location"); got.status != http.StatusSeeOther || to != want {
			t.Errorf("got %d to %q, want a redirect to %q", got.status, to, want)
		}
	}
}

// A key belongs to the person, the organization and the form for which it was made. Rule PAGE-15.
func TestTheKeyOfAFormBelongsToOnePerson(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	h.fundProduct(h.two, "CHECKOUT", usdc, 100_000_000)
	entry, foreign := h.allow(h.one, recipient, "Cold wallet"), h.allow(h.two, recipient, "Cold wallet")
	owner := h.signIn(h.one, identity.Finance)
	path, fields := h.confirmWithdrawal(owner, Prefix+"/withdraw/CHECKOUT/1", entry, "7")
	key := fields[1]
	for name, c := range map[string]struct {
		token string
		form  []string
	}{
		"a colleague":          {h.signIn(h.one, identity.Owner), fields},
		"another organization": {h.signIn(h.two, identity.Finance), replaceField(fields, "shownTo", foreign)},
		"a changed key":        {owner, replaceField(fields, "formKey", key[:len(key)-1]+"!")},
		"a key by hand":        {owner, replaceField(fields, "formKey", "my-own-key")},
		"no key":               {owner, replaceField(fields, "formKey", "")},
	} {
		got := h.post(c.token, path+"/request", append(c.form, "code", rightCode)...)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "opened by another person") {
			t.Errorf("%s: got %d %s, want a refusal", name, got.status, got.body)
		}
	}
	transferForm := append(replaceField(fields, "shownTo", "CUSTODIAL")[:6:6], "code", rightCode)
	h.post(h.signIn(h.one, identity.Finance), Prefix+"/balances/CHECKOUT/1/transfer/request", transferForm...).
		want(t, http.StatusBadRequest, "opened by another person")
	if got := len(h.listOwn(h.one)) + len(h.listOwn(h.two)); got != 0 {
		t.Errorf("got %d withdrawals, want none", got)
	}
}

// What a person types wrong comes back at its field, and nothing is written. Rules PAGE-2 and OW-2.
func TestMistakesInAWithdrawalComeBackAtTheirField(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	foreign := h.allow(h.two, recipient, "Another company's")
	token := h.signIn(h.one, identity.Finance)
	form := Prefix + "/withdraw/CHECKOUT/1"
	for name, c := range map[string]struct {
		to, amount, text string
		status           int
	}{
		"too many decimals":    {entry, "1.0000001", "USDC has 6 decimals and the amount has more", 400},
		"a comma":              {entry, "1,5", "not a decimal number", 400},
		"no amount":            {entry, "", "Enter an amount, or press Max.", 400},
		"zero":                 {entry, "0", "The amount is zero", 400},
		"above the balance":    {entry, "100.000001", "smaller than the amount", 422},
		"below the minimum":    {entry, "0.000001", "The smallest withdrawal", 400},
		"another organization": {foreign, "1", "not on it", 422},
		"an address":           {recipient, "1", "not on it", 422},
	} {
		got := h.post(token, form+"/continue", "to", c.to, "amount", c.amount, "filled", "")
		if got.status != c.status || !strings.Contains(got.body, c.text) ||
			!strings.Contains(got.body, `value="`+c.amount+`"`) || !strings.Contains(got.body, "field-error") {
			t.Errorf("%s: got %d %s, want %d and %q at its field", name, got.status, got.body, c.status, c.text)
		}
	}
	h.post(token, form+"/continue", "amount", "1", "filled", "").
		want(t, http.StatusUnprocessableEntity, "Choose a Withdraw Address.")
	h.get(token, form+"/confirm?amount=1&to="+foreign).want(t, http.StatusNotFound)
	h.get(token, form+"/confirm?amount=1.0000001&to="+entry).want(t, http.StatusBadRequest, "6 decimals")
	for _, path := range []string{"/withdraw/CHECKOUT/99", "/withdraw/CHECKOUT/01", "/withdraw/NONE/1"} {
		h.get(token, Prefix+path).want(t, http.StatusNotFound)
	}
	// Sign-in leads back from a form to its page without the values.
	h.get(token, form+"/confirm").want(t, http.StatusSeeOther)
	if got := len(h.listOwn(h.one)); got != 0 {
		t.Errorf("got %d withdrawals, want none", got)
	}
}

// Max is the whole balance of a token, and of the coin of the network what remains of it after the fee.
// Rules OW-4 and PAGE-17.
func TestMaxIsExactlyWhatCanBePaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_001)
	h.fundProduct(h.one, "CUSTODIAL", eth, 1_000_000_000_000_000_001)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token := h.signIn(h.one, identity.Finance)
	for form, mintID := range map[string]int{"/withdraw/CHECKOUT/1": usdc, "/withdraw/CUSTODIAL/3": eth} {
		product := strings.Split(form, "/")[2]
		e, err := h.withdrawals.EstimateOrganization(
			t.Context(), h.one.people[identity.Finance], product, mintID, entry,
		)
		if err != nil {
			t.Fatal(err)
		}
		sent := h.post(token, Prefix+form+"/continue", "to", entry, "amount", "", "max", "yes", "filled", "").
			want(t, http.StatusSeeOther)
		decimals := map[int]int{usdc: 6, eth: 18}[mintID]
		most := e.MaxAmount.Decimal(decimals)
		h.get(token, sent.header.Get("Location")).want(t, http.StatusOK, `value="`+most+`"`)
		confirm := h.post(token, Prefix+form+"/continue", "to", entry, "amount", most, "filled", most).
			want(t, http.StatusSeeOther).header.Get("Location")
		fields := hiddenFields(h.get(token, confirm).want(t, http.StatusOK, ui.GroupDigits(most)).body)
		path, _, _ := strings.Cut(confirm, "?")
		h.post(token, path+"/request", append(fields, "code", rightCode+product)...).want(t, http.StatusSeeOther)
		// Nothing remains, and one unit more was impossible.
		h.post(token, Prefix+form+"/continue", "to", entry, "amount", "", "max", "yes", "filled", "").
			want(t, http.StatusUnprocessableEntity, "Nothing can be withdrawn of this balance now")
	}
	got := map[int]money.Amount{}
	for _, w := range h.listOwn(h.one) {
		got[w.Mint.ID] = w.Amount
	}
	if got[usdc] != money.Units(100_000_001) || !got[eth].Less(money.Units(1_000_000_000_000_000_001)) ||
		got[eth].IsZero() {
		t.Errorf("got %v, want the whole balance, less the fee of the coin", got)
	}
}

// Where the balance or the fee changed since Max was pressed, the page shows the new maximum.
func TestTheMaximumIsThatOfTheMoment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token := h.signIn(h.one, identity.Finance)
	confirm := Prefix + "/withdraw/CHECKOUT/1/confirm?amount=250&to=" + entry
	h.get(token, confirm+"&max=true").want(t, http.StatusOK, "Withdraw 100 USDC</button>")
	// What a person typed is not replaced.
	refused := h.get(token, confirm).want(t, http.StatusOK, "It would be refused", "smaller than the amount",
		"Refuses it").body
	if strings.Contains(refused, "Withdraw 250 USDC</button>") {
		t.Error("got a button for a withdrawal that would be refused")
	}
}

// Rules OW-5 and PAGE-16: the page says that another person has to approve, and the requester never does.
func TestTheRequesterDoesNotApproveTheOwnWithdrawal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.set(h.one, "twoFactorUsdThreshold", `"5"`)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token, second := h.signIn(h.one, identity.Owner), h.signIn(h.one, identity.Approver)
	path, fields := h.confirmWithdrawal(token, Prefix+"/withdraw/CHECKOUT/1", entry, "50")
	h.get(token, path+"?amount=50&to="+entry).want(t, http.StatusOK, "It will wait for another person",
		"Above your threshold in dollars.", "You cannot approve it yourself.", "Holds it")
	result := h.post(token, path+"/request", append(fields, "code", rightCode)...).
		want(t, http.StatusSeeOther).header.Get("Location")
	made := h.listOwn(h.one)[0]
	h.wantWithdrawal(h.one, made.ID, withdrawal.AwaitingApproval, 0)
	body := h.get(token, result).want(t, http.StatusOK, "another person has to approve it").body
	if strings.Contains(body, result+"/approve") {
		t.Error("the requester is offered the approval")
	}
	_, digest := h.open(second, made.ID)
	h.post(token, result+"/approve", "digest", digest, "code", rightCode+"b").want(t, http.StatusConflict)
	h.wantWithdrawal(h.one, made.ID, withdrawal.AwaitingApproval, 0)
	h.post(second, result+"/approve", "digest", digest, "code", rightCode+"c").want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, made.ID, withdrawal.Processing, 1)
}

// An address that was removed while its page was open is paid no more. Rules OW-2 and PAGE-16.
func TestAnAddressThatWasRemovedIsNotPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token := h.signIn(h.one, identity.Finance)
	path, fields := h.confirmWithdrawal(token, Prefix+"/withdraw/CHECKOUT/1", entry, "50")
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := h.whitelist.Remove(ctx, tx, operator.Key{ID: "opk_test"}, h.one.id, entry)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := h.post(token, path+"/request", append(fields, "code", rightCode)...).
		want(t, http.StatusUnprocessableEntity, "removed from the whitelist",
			"Nothing was held and nothing was sent.").body
	if strings.Contains(refused, "Withdraw 50 USDC</button>") {
		t.Error("got a button for a withdrawal that would be refused")
	}
	h.get(token, Prefix+"/withdraw").
		want(t, http.StatusOK, "No address can be paid now", "The operator of this service")
	h.get(token, Prefix+"/withdraw/CHECKOUT/1").want(t, http.StatusOK, "No address on Ethereum can be paid now")
	if got := len(h.listOwn(h.one)); got != 0 {
		t.Errorf("got %d withdrawals, want none", got)
	}
}

// Rules OW-7 and PAGE-6.
func TestOnlyRolesThatWithdrawOpenThePages(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	form := Prefix + "/withdraw/CHECKOUT/1"
	path, fields := h.confirmWithdrawal(h.signIn(h.one, identity.Finance), form, entry, "50")
	for _, role := range roles {
		token := h.signIn(h.one, role)
		may := role == identity.Owner || role == identity.Admin || role == identity.Finance
		for _, page := range []string{Prefix + "/withdraw", form, path + "?amount=50&to=" + entry} {
			got := h.get(token, page)
			if may && got.status != http.StatusOK ||
				!may && (got.status != http.StatusForbidden || !strings.Contains(got.body, "Owner, Admin or Finance")) {
				t.Errorf("%s, %s: got %d, want it open: %v", role, page, got.status, may)
			}
		}
		menu := h.get(token, Prefix+"/balances").want(t, http.StatusOK).body
		if got := strings.Contains(menu, `href="`+Prefix+`/withdraw"`); got != may {
			t.Errorf("%s: got a link to Withdraw %v, want %v", role, got, may)
		}
		if !may {
			h.post(token, path+"/request", append(fields, "code", rightCode)...).want(t, http.StatusForbidden)
			h.post(token, form+"/continue", "to", entry, "amount", "1", "filled", "").want(t, http.StatusForbidden)
		}
	}
	for _, page := range []string{"/withdraw/CHECKOUT/1", "/withdraw", "/balances"} {
		body := h.get(h.signIn(h.two, identity.Owner), Prefix+page).want(t, http.StatusOK).body
		if strings.Contains(body, "Cold wallet") || strings.Contains(body, ">100<") {
			t.Errorf("%s shows something of another organization", page)
		}
	}
	if got := len(h.listOwn(h.one)); got != 0 {
		t.Errorf("got %d withdrawals, want none", got)
	}
}

// The options with which a passkey confirms a form need the key of the form, too. Rule PAGE-15.
func TestOptionsOfAPasskeyBelongToTheForm(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	h.fundProduct(h.one, "CHECKOUT", usdc, 100_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet")
	token := h.join(h.one, identity.Finance).cookies[pages.SessionCookie]
	path, fields := h.confirmWithdrawal(token, Prefix+"/withdraw/CHECKOUT/1", entry, "7")
	h.post(token, path+"/request/options", replaceField(fields, "formKey", "my-own-key")...).
		want(t, http.StatusBadRequest, "opened by another person")
	h.post(token, path+"/request/options", fields...).want(t, http.StatusConflict, "The account has no passkey.")
}
