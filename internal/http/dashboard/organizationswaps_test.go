package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// cold is another address than that of the withdrawals.
const cold = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"

// oneETH is in atomic units.
const oneETH = 1_000_000_000_000_000_000

// enableOwnSwaps lets an organization swap ETH and <b>U</b> of its own.
func (h *testEnv) enableOwnSwaps(who tenant) {
	h.t.Helper()
	h.set(who, "swappableMintIds", "[2,3]")
	h.set(who, "organizationSwapsEnabled", "true")
}

// requestOwnSwap makes a swap of a hundredth ETH of the organization's own, requested by its backend.
func (h *testEnv) requestOwnSwap(who tenant, key, entry string) swap.Swap {
	h.t.Helper()
	w, _, err := h.swaps.RequestOrganization(h.t.Context(), who.id, swap.OrganizationRequest{
		IdempotencyKey: key, Product: "CUSTODIAL", FromMintID: eth, ToMintID: evil,
		AmountIn: money.Units(oneETH / 20).String(), WhitelistedAddressID: entry, Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// listOwnSwaps returns the swaps of an organization's own money.
func (h *testEnv) listOwnSwaps(who tenant) []swap.Swap {
	h.t.Helper()
	found, err := h.swaps.ListOrganization(
		h.t.Context(), who.id, swap.OrganizationFilter{}, pagination.Page{Limit: 100},
	)
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// wantHeldETH checks what a product has available and held for swaps.
func (h *testEnv) wantHeldETH(who tenant, available, held uint64) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		for kind, want := range map[ledger.Kind]uint64{ledger.Product: available, ledger.ProductInSwap: held} {
			account := ledger.Account{OrgID: who.id, MintID: eth, Kind: kind, Subject: "CUSTODIAL"}
			got, err := ledger.Balance(ctx, tx, account)
			if err != nil {
				return err
			}
			if got != money.Units(want) {
				h.t.Errorf("got %v in %s, want %d", got, kind, want)
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// confirmSwap fills in the form of a swap and returns the path of the page that shows the offer, with its fields.
func (h *testEnv) confirmSwap(token, entry, amount string) (path string, fields []string) {
	h.t.Helper()
	form := Prefix + "/organization-swaps/new"
	sent := h.post(token, form+"/continue", "balance", "CUSTODIAL:3", "toMint", "2", "to", entry, "amount", amount).
		want(h.t, http.StatusSeeOther)
	path = sent.header.Get("Location")
	fields = hiddenFields(h.get(token, path).want(h.t, http.StatusOK).body)
	path, _, _ = strings.Cut(path, "?")
	return path, fields
}

// The offer is shown whole before a person confirms it with a second factor, and one form is one swap.
// Rules PAGE-15, PAGE-16 and PAGE-78.
func TestAnOwnSwapIsShownWithItsOfferAndCountsOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.fundProduct(h.one, "CUSTODIAL", eth, 2*oneETH)
	entry := h.allow(h.one, cold, "Exchange "+ui.EscapeForeign(`Аlice`))
	token := h.signIn(h.one, identity.Finance)
	h.get(token, Prefix+"/organization-swaps").want(t, http.StatusOK, "Swap your own money", "No swap of your own")
	h.get(token, Prefix+"/organization-swaps/new").want(t, http.StatusOK, "Custodial: 2 ETH on Ethereum", "Exchange")

	path, fields := h.confirmSwap(token, entry, "1")
	query := url.Values{"balance": {"CUSTODIAL:3"}, "toMint": {"2"}, "to": {entry}, "amount": {"1"}}.Encode()
	shown := h.get(token, path+"?"+query).want(t, http.StatusOK, "Swap 1 ETH</button>", "0.995", "ONE_CLICK",
		`data-copy="`+cold+`"`, "A provider will be paid at once", "985\u202f050 atomic units").body
	var words []string
	for _, m := range regexp.MustCompile(`data-word="(\w+)"`).FindAllStringSubmatch(shown, -1) {
		words = append(words, m[1])
	}
	const want = "amountIn product fromMint toMint minOut to whitelistEntry organization"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("got the words %q, want %q in this order", got, want)
	}
	if len(h.listOwnSwaps(h.one)) != 0 {
		t.Fatal("looking at a swap has made one")
	}
	wrong := h.post(token, path+"/request", append(fields, "code", "000000")...).want(t, http.StatusUnauthorized)
	if got := hiddenFields(wrong.body); strings.Join(got, " ") != strings.Join(fields, " ") {
		t.Errorf("got the fields %q after a wrong code, want %q", got, fields)
	}
	var results []string
	for _, code := range []string{rightCode, rightCode, rightCode + "b", "000000"} {
		got := h.post(token, path+"/request", append(fields, "code", code)...).want(t, http.StatusSeeOther)
		results = append(results, got.header.Get("Location"))
	}
	made := h.listOwnSwaps(h.one)
	if len(made) != 1 {
		t.Fatalf("got %d swaps, want one", len(made))
	}
	for _, to := range results {
		if want := Prefix + "/organization-swaps/" + made[0].ID; to != want {
			t.Errorf("got a redirect to %q, want %q", to, want)
		}
	}
	if made[0].Status != swap.Pending || made[0].MinOut != money.Units(985_050) {
		t.Errorf("got %s with at least %s, want PENDING with what was shown", made[0].Status, made[0].MinOut)
	}
	h.wantHeldETH(h.one, oneETH, oneETH)
	h.post(token, path+"/request", append(replaceField(fields, "shownAmount", "0.5"), "code", rightCode+"c")...).
		want(t, http.StatusConflict, "That first request stands", made[0].ID)
	h.get(token, results[0]).want(t, http.StatusOK, "The money is still here: 1 ETH are held in Custodial.",
		"Requested by", "You", "Held for swaps of your product")
	h.get(token, Prefix+"/organization-swaps.csv").want(t, http.StatusOK, made[0].ID, "PENDING")
	found := h.get(token, Prefix+"/transactions/search?q="+made[0].ID).want(t, http.StatusSeeOther)
	if to := found.header.Get("Location"); to != results[0] {
		t.Errorf("the search leads to %q, want %q", to, results[0])
	}
}

// An approver is shown exactly what the approval covers, whole and in a fixed order. The requester does not approve,
// and other terms than the shown ones are not approved. Rules PAGE-3, PAGE-4 and PAGE-79.
func TestAnOwnSwapIsApprovedAsItWasShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	h.fundProduct(h.one, "CUSTODIAL", eth, 2*oneETH)
	entry := h.allow(h.one, cold, "Exchange <b>")
	owner, approver := h.signIn(h.one, identity.Owner), h.signIn(h.one, identity.Approver)
	path, fields := h.confirmSwap(owner, entry, "1")
	made := h.post(owner, path+"/request", append(fields, "code", rightCode)...).
		want(t, http.StatusSeeOther).header.Get("Location")
	w := h.listOwnSwaps(h.one)[0]
	if w.Status != swap.AwaitingApproval {
		t.Fatalf("got %s, want AWAITING_APPROVAL", w.Status)
	}
	h.get(approver, Prefix).want(t, http.StatusOK, "1 swap of your own money to approve")
	h.get(approver, Prefix+"/approvals/organization-swaps").want(t, http.StatusOK, made, "0 of 1")
	own := h.get(owner, made).want(t, http.StatusOK, "another person has to approve it", "Cancel this swap").body
	if strings.Contains(own, `action="`+made+`/approve"`) {
		t.Error("the requester is offered the approval")
	}
	body := h.get(approver, made).want(t, http.StatusOK, "0 of 1 approvals", `data-copy="`+cold+`"`,
		"Exchange &lt;b&gt;", "Valid until", "Approve the swap of 1 ETH</button>").body
	var words []string
	for _, m := range regexp.MustCompile(`data-word="(\w+)"`).FindAllStringSubmatch(body, -1) {
		words = append(words, m[1])
	}
	const want = "amountIn product fromMint toMint minOut label to maxOut notAfter whitelistEntry act organization swap"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("got the words %q, want %q in this order", got, want)
	}
	digest, err := h.swaps.PayoutDigest(t.Context(), h.one.id, w.ID)
	if err != nil || !strings.Contains(body, `value="`+digest+`"`) ||
		!strings.Contains(body, digest[:fingerprintDigits]) {
		t.Errorf("the page has not the digest %s: %v", digest, err)
	}
	h.post(approver, made+"/approve", "digest", strings.Repeat("0", 64), "code", rightCode+"x").
		want(t, http.StatusConflict, "differs from what was shown")
	h.post(owner, made+"/approve", "digest", digest, "code", rightCode+"o").want(t, http.StatusConflict)
	h.post(approver, made+"/approve", "digest", digest, "code", "000000").want(t, http.StatusUnauthorized)
	for _, code := range []string{rightCode + "a", rightCode + "a", rightCode + "c"} {
		h.post(approver, made+"/approve", "digest", digest, "code", code).want(t, http.StatusSeeOther)
	}
	if got := h.listOwnSwaps(h.one)[0]; got.Status != swap.Pending || got.ApprovalCount != 1 {
		t.Errorf("got %s with %d approvals, want PENDING with one", got.Status, got.ApprovalCount)
	}
	h.get(owner, made).
		want(t, http.StatusOK, "Approved and let go", "Approver Person", "A provider is asked for a firm")
	h.get(approver, Prefix+"/approvals/organization-swaps").want(t, http.StatusOK, "No swap of your own money waits")
}

// A rejected and a cancelled swap release what was held, once. A rejection needs its reason. Rule PAGE-79.
func TestAnOwnSwapIsRejectedOrCancelled(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	h.fundProduct(h.one, "CUSTODIAL", eth, 2*oneETH)
	entry := h.allow(h.one, cold, "Exchange")
	finance, approver := h.signIn(h.one, identity.Finance), h.signIn(h.one, identity.Approver)
	for i, act := range []string{"reject", "cancel"} {
		code := rightCode + act
		w := h.requestOwnSwap(h.one, "key-"+act, entry)
		path := Prefix + "/organization-swaps/" + w.ID
		h.wantHeldETH(h.one, 2*oneETH-oneETH/20, oneETH/20)
		if i == 0 {
			h.post(approver, path+"/reject", "reason", "", "code", code).
				want(t, http.StatusUnprocessableEntity, "Enter why.")
			h.post(finance, path+"/reject", "reason", "x", "code", code).want(t, http.StatusForbidden)
			h.post(approver, path+"/reject", "reason", "too much "+hostile, "code", code).want(t, http.StatusSeeOther)
			h.post(approver, path+"/reject", "reason", "second thoughts", "code", code).want(t, http.StatusSeeOther)
			shown := h.get(finance, path).want(t, http.StatusOK, "Rejected", "too much", "By Approver Person").body
			if strings.Contains(shown, "<script>alert") || strings.Contains(shown, "second thoughts") {
				t.Error("the page has markup, or the reason of a second click")
			}
		} else {
			h.post(approver, path+"/cancel", "code", code).want(t, http.StatusForbidden)
			h.post(finance, path+"/cancel", "code", code).want(t, http.StatusSeeOther)
			h.get(approver, path).want(t, http.StatusOK, "It was cancelled.", "By Finance Person")
		}
		h.wantHeldETH(h.one, 2*oneETH, 0)
	}
}

// After a day a swap cannot be approved, and its page says what to do instead.
func TestAnOwnSwapIsNotApprovedTooLate(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	w := h.requestOwnSwap(h.one, "key", h.allow(h.one, cold, "Exchange"))
	h.pass(25 * time.Hour)
	path := Prefix + "/organization-swaps/" + w.ID
	approver := h.signIn(h.one, identity.Approver)
	body := h.get(approver, path).want(t, http.StatusOK, "The time for its approval is over").body
	if strings.Contains(body, `action="`+path+`/approve"`) {
		t.Error("the page offers an approval that comes too late")
	}
	digest, err := h.swaps.PayoutDigest(t.Context(), h.one.id, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.post(approver, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusConflict, "older")
}

// While they are switched off, the pages say so, and none of them offers or takes a swap. Rule PAGE-78.
func TestOwnSwapsThatAreSwitchedOffAreExplained(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	entry := h.allow(h.one, cold, "Exchange")
	token := h.signIn(h.one, identity.Owner)
	confirm := Prefix + "/organization-swaps/confirm?balance=CUSTODIAL:3&toMint=2&amount=1&to=" + entry
	for _, path := range []string{Prefix + "/organization-swaps", Prefix + "/organization-swaps/new", confirm} {
		body := h.get(token, path).want(t, http.StatusOK, "Swaps of your own money are switched off").body
		if strings.Contains(body, "Ask for an offer") || strings.Contains(body, "Swap 1 ETH</button>") ||
			strings.Contains(body, "organization-swaps/new\"") {
			t.Errorf("%s offers a swap", path)
		}
	}
	balance := Prefix + "/balances/CUSTODIAL/3"
	link := "/organization-swaps/new?balance=CUSTODIAL%3A3"
	if strings.Contains(h.get(token, balance).want(t, http.StatusOK).body, link) {
		t.Error("the balance leads to the form")
	}
	h.enableOwnSwaps(h.one)
	h.get(token, balance).want(t, http.StatusOK, link)
	h.get(token, confirm).want(t, http.StatusOK, "Swap 1 ETH</button>")
}

// What a person chooses wrong comes back at its field, and an offer that no provider makes is explained. Rule PAGE-2.
func TestMistakesInAnOwnSwapComeBackAtTheirField(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	entry, foreign := h.allow(h.one, cold, "Exchange"), h.allow(h.two, cold, "Another company's")
	token := h.signIn(h.one, identity.Finance)
	for name, c := range map[string]struct {
		balance, toMint, to, amount, text string
		status                            int
	}{
		"a comma":              {"CUSTODIAL:3", "2", entry, "1,5", "not a decimal number", 400},
		"above the balance":    {"CUSTODIAL:3", "2", entry, "1.1", "smaller than the amount", 422},
		"another organization": {"CUSTODIAL:3", "2", foreign, "1", "not on it", 422},
		"no such token":        {"CUSTODIAL:3", "02", entry, "1", "no such token", 400},
		"no such balance":      {"NONE:3", "2", entry, "1", "no such balance", 400},
	} {
		got := h.post(token, Prefix+"/organization-swaps/new/continue",
			"balance", c.balance, "toMint", c.toMint, "to", c.to, "amount", c.amount)
		if got.status != c.status || !strings.Contains(got.body, c.text) || !strings.Contains(got.body, "field-error") {
			t.Errorf("%s: got %d %s, want %d and %q at its field", name, got.status, got.body, c.status, c.text)
		}
	}
	confirm := Prefix + "/organization-swaps/confirm?balance=CUSTODIAL:3&toMint=2&amount=1&to="
	h.get(token, confirm+foreign).want(t, http.StatusNotFound)
	h.get(token, Prefix+"/organization-swaps/confirm").want(t, http.StatusSeeOther)
	h.scripted.Refuse(provider.Unavailable("the provider is closed"))
	refused := h.get(token, confirm+entry).want(t, http.StatusOK, "It would be refused").body
	if strings.Contains(refused, "Swap 1 ETH</button>") {
		t.Error("got a button for a swap that no provider makes")
	}
	if got := len(h.listOwnSwaps(h.one)); got != 0 {
		t.Errorf("got %d swaps, want none", got)
	}
}

// OWNER, ADMIN and FINANCE request; OWNER, ADMIN and APPROVER decide. Another organization sees nothing.
// Rules OW-7, ROLE-1 and PAGE-6.
func TestOwnSwapsFollowTheRolesAndBelongToOneOrganization(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	w := h.requestOwnSwap(h.one, "key", h.allow(h.one, cold, "Exchange"))
	path := Prefix + "/organization-swaps/" + w.ID
	for _, role := range roles {
		token := h.signIn(h.one, role)
		requests := role == identity.Owner || role == identity.Admin || role == identity.Finance
		decides := role == identity.Owner || role == identity.Admin || role == identity.Approver
		if got := h.get(token, Prefix+"/organization-swaps/new").status == http.StatusOK; got != requests {
			t.Errorf("%s: got the form %v, want %v", role, got, requests)
		}
		body := h.get(token, path).want(t, http.StatusOK).body
		for act, want := range map[string]bool{"approve": decides, "reject": decides, "cancel": requests} {
			if got := strings.Contains(body, `action="`+path+"/"+act+`"`); got != want {
				t.Errorf("%s: got the form to %s %v, want %v", role, act, got, want)
			}
		}
	}
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, path).want(t, http.StatusNotFound)
	for _, act := range []string{"/approve", "/reject", "/cancel"} {
		h.post(stranger, path+act, "digest", strings.Repeat("0", 64), "reason", "x", "code", rightCode+act)
	}
	h.post(stranger, path+"/cancel", "code", rightCode).want(t, http.StatusNotFound)
	for _, list := range []string{"/organization-swaps", "/organization-swaps.csv", "/approvals/organization-swaps"} {
		if strings.Contains(h.get(stranger, Prefix+list).want(t, http.StatusOK).body, w.ID) {
			t.Errorf("%s shows a swap of another organization", list)
		}
	}
	if got := h.listOwnSwaps(h.one)[0]; got.Status != swap.AwaitingApproval {
		t.Errorf("got %s, want a swap that waits", got.Status)
	}
}

// The pages of a payment lead to the swap whose output it pays, and those of every other withdrawal to none.
// Rule PAGE-14.
func TestThePagesOfAPayoutLeadToItsSwap(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.enableOwnSwaps(h.one)
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	h.fundProduct(h.one, "CUSTODIAL", evil, 5_000_000)
	entry := h.allow(h.one, cold, "Exchange")
	w := h.requestOwnSwap(h.one, "key", entry)
	payout, err := h.withdrawals.RequestSwapPayout(t.Context(), h.one.id, withdrawal.SwapPayoutRequest{
		SwapID: w.ID, Product: "CUSTODIAL", MintID: evil, Total: money.Units(1_000_000), WhitelistedID: entry,
		Key: "swap " + w.ID,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.fund(h.one, "alice", usdc, 2_000_000)
	other := h.request(h.one, "alice", usdc, "1000000")
	token := h.signIn(h.one, identity.Owner)
	for _, path := range []string{"/transactions/withdrawals/", "/approvals/withdrawals/"} {
		h.get(token, Prefix+path+payout.ID).want(t, http.StatusOK, `href="`+Prefix+"/organization-swaps/"+w.ID+`"`)
		body := h.get(token, Prefix+path+other.ID).want(t, http.StatusOK).body
		if strings.Contains(body, "Pays the output of") {
			t.Errorf("%s: the page of a customer's withdrawal leads to a swap", path)
		}
	}
}
