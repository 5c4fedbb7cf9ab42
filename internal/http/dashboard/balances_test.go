package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
)

// listTransfers returns the transfers between products of an organization.
func (h *testEnv) listTransfers(who tenant) (between []transfer.Transfer) {
	h.t.Helper()
	found, err := h.transfers.List(h.t.Context(), who.id, transfer.Filter{}, pagination.Page{Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, item := range found.Items {
		if item.From.Product != nil {
			between = append(between, item)
		}
	}
	return between
}

func (h *testEnv) countWallets() (n int) {
	h.t.Helper()
	if err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `SELECT count(*) FROM wallets`).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// A page shows a deposit address where the API has created it, and creates none. Rule PAGE-18.
func TestADepositAddressIsShownAndNeverCreated(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Viewer)
	before := h.countWallets()
	h.get(token, Prefix+"/balances").want(t, http.StatusOK, "No money and no deposit address", "Batch Payout")
	h.get(token, Prefix+"/balances/CHECKOUT/1").want(t, http.StatusOK, "There is none yet.", "Pages create none.")
	if got := h.countWallets(); got != before {
		t.Errorf("got %d wallets after looking, want %d", got, before)
	}
	counter := &deposit.AddressService{DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book}
	issued, err := counter.IssueForProduct(t.Context(), h.one.id, usdc, "CHECKOUT")
	if err != nil {
		t.Fatal(err)
	}
	h.get(token, Prefix+"/balances").want(t, http.StatusOK, "has a deposit address", Prefix+"/balances/CHECKOUT/1")
	shown := h.get(token, Prefix+"/balances/CHECKOUT/1").want(t, http.StatusOK,
		`data-copy="`+string(issued.Address)+`"`, "QR code of the address above", `<path d="M`,
		"on Ethereum only.").body
	if strings.Contains(shown, "There is none yet.") {
		t.Error("the page says that there is no address")
	}
	// The address of a product is that of no other product and of no other organization.
	for token, path := range map[string]string{
		token: "/balances/CUSTODIAL/1", h.signIn(h.two, identity.Owner): "/balances/CHECKOUT/1",
	} {
		body := h.get(token, Prefix+path).want(t, http.StatusOK).body
		if strings.Contains(body, string(issued.Address)) {
			t.Errorf("%s shows the address of another one", path)
		}
	}
	if got := h.countWallets(); got != before+1 {
		t.Errorf("got %d wallets, want the one that the API created", got-before)
	}
	h.get(token, Prefix+"/balances/CHECKOUT/99").want(t, http.StatusNotFound)
}

// Rules PAGE-15, PAGE-19 and TR-4.
func TestATransferBetweenProductsIsShownWholeAndCountsOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "CHECKOUT", usdc, 12_500_000_000)
	token := h.signIn(h.one, identity.Finance)
	form := Prefix + "/balances/CHECKOUT/1"
	h.get(token, form).want(t, http.StatusOK, "12\u202f500", `value="CUSTODIAL"`, `value="BATCH_PAYOUT"`)
	for name, c := range map[string]struct {
		to, amount, text string
		status           int
	}{
		"too many decimals":  {"CUSTODIAL", "1.0000001", "USDC has 6 decimals", 400},
		"above the balance":  {"CUSTODIAL", "12500.000001", "smaller than the amount", 422},
		"the same product":   {"CHECKOUT", "1", "from a balance to itself", 400},
		"an unknown product": {"CUSTOMER", "1", "The products are", 400},
		"a minus":            {"CUSTODIAL", "-1", "not a decimal number", 400},
		"no amount":          {"CUSTODIAL", "", "Enter an amount.", 422},
	} {
		got := h.post(token, form+"/continue", "to", c.to, "amount", c.amount)
		if got.status != c.status || !strings.Contains(got.body, c.text) || !strings.Contains(got.body, "field-error") {
			t.Errorf("%s: got %d %s, want %d and %q at its field", name, got.status, got.body, c.status, c.text)
		}
	}
	confirm := h.post(token, form+"/continue", "to", "CUSTODIAL", "amount", "12500").
		want(t, http.StatusSeeOther).header.Get("Location")
	fields := hiddenFields(h.get(token, confirm).want(t, http.StatusOK, "Transfer 12\u202f500 USDC</button>",
		"Available afterwards", "It moves at once", "$12\u202f497.50").body)
	path, _, _ := strings.Cut(confirm, "?")
	if len(h.listTransfers(h.one)) != 0 {
		t.Fatal("looking at a transfer has made one")
	}
	h.post(token, path+"/request", append(fields, "code", "000000")...).want(t, http.StatusUnauthorized)

	other := httptest.NewServer(pages.New(h.surface, h.kit))
	defer other.Close()
	twin := &testEnv{t: t, logs: h.logs, server: other}
	var both sync.WaitGroup
	replies := make([]reply, 6)
	for i := range replies {
		at := h
		if i%2 == 1 {
			at = twin
		}
		both.Go(func() {
			replies[i] = at.post(token, path+"/request", append(fields, "code", rightCode+string(rune('a'+i)))...)
		})
	}
	both.Wait()
	made := h.listTransfers(h.one)
	if len(made) != 1 || made[0].Amount != money.Units(12_500_000_000) || *made[0].To.Product != "CUSTODIAL" {
		t.Fatalf("got %+v, want one transfer of all of it", made)
	}
	result := Prefix + "/transactions/transfers/" + made[0].ID
	for _, got := range replies {
		if to := got.header.Get("Location"); got.status != http.StatusSeeOther || to != result {
			t.Errorf("got %d to %q, want a redirect to %q", got.status, to, result)
		}
	}
	h.get(token, result).want(t, http.StatusOK, "Checkout", "Custodial", "Moved")
	h.post(token, path+"/request", append(replaceField(fields, "shownTo", "BATCH_PAYOUT"), "code", rightCode+"z")...).
		want(t, http.StatusConflict, "That first request stands", "from Checkout to Custodial", made[0].ID)
	h.get(token, Prefix+"/balances/CUSTODIAL/1").want(t, http.StatusOK, "12\u202f500")
	if got := len(h.listTransfers(h.one)); got != 1 {
		t.Errorf("got %d transfers, want one", got)
	}
}

// Rules PAGE-6, PAGE-19 and BAL-3.
func TestTransfersAreListedForEveryRoleAndMadeByFew(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "=HYPERLINK(1)", usdc, 50_000_000)
	customer, product := "=HYPERLINK(1)", "CHECKOUT"
	outcome, err := h.transfers.Request(t.Context(), h.one.id, transfer.Request{
		MintID: usdc, Amount: "20000000", From: transfer.Party{CustomerID: &customer},
		To: transfer.Party{Product: &product}, IdempotencyKey: "charge", Actor: audit.APIKey(h.one.id),
		Metadata: map[string]string{"note": hostile},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := outcome.Transfer.ID
	confirm := Prefix + "/balances/CHECKOUT/1/transfer?to=CUSTODIAL&amount=5"
	fields := hiddenFields(h.get(h.signIn(h.one, identity.Finance), confirm).want(t, http.StatusOK).body)
	for _, role := range roles {
		token := h.signIn(h.one, role)
		h.get(token, Prefix+"/balances/transfers").want(t, http.StatusOK, id, "=HYPERLINK(1)")
		h.get(token, Prefix+"/transactions/transfers/"+id).want(t, http.StatusOK, `\u{202e}`, "&lt;script&gt;")
		may := role == identity.Owner || role == identity.Admin || role == identity.Finance
		body := h.get(token, Prefix+"/balances/CHECKOUT/1").want(t, http.StatusOK).body
		if got := strings.Contains(body, "/balances/CHECKOUT/1/continue"); got != may {
			t.Errorf("%s: got a form %v, want %v", role, got, may)
		}
		if !may {
			h.get(token, confirm).want(t, http.StatusForbidden, "Owner, Admin or Finance")
			h.post(token, Prefix+"/balances/CHECKOUT/1/continue", "to", "CUSTODIAL", "amount", "5").
				want(t, http.StatusForbidden)
			h.post(token, Prefix+"/balances/CHECKOUT/1/transfer/request", append(fields, "code", rightCode)...).
				want(t, http.StatusForbidden)
		}
	}
	token := h.signIn(h.one, identity.Finance)
	h.get(token, Prefix+"/balances/transfers?product=CUSTODIAL").want(t, http.StatusOK, "No transfer is here")
	h.get(token, Prefix+"/balances/transfers?product=CHECKOUT").want(t, http.StatusOK, id)
	h.get(token, Prefix+"/balances/transfers.csv?product=CHECKOUT").
		want(t, http.StatusOK, id, "'=HYPERLINK(1)", "transferId,createdAt,idempotencyKey")
	h.get(token, Prefix+"/balances.csv").
		want(t, http.StatusOK, "product,mintId,symbol,chain,available", "CHECKOUT,1,USDC")
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, Prefix+"/transactions/transfers/"+id).want(t, http.StatusNotFound)
	for _, path := range []string{"/balances/transfers", "/balances/transfers.csv", "/balances.csv"} {
		if body := h.get(stranger, Prefix+path).want(t, http.StatusOK).body; strings.Contains(body, id) ||
			strings.Contains(body, "20000000") {
			t.Errorf("%s shows something of another organization", path)
		}
	}
	if got := len(h.listTransfers(h.one)); got != 0 {
		t.Errorf("got %d transfers between products, want none", got)
	}
}
