package dashboard

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const otherRecipient = "0xde709f2102306220921060314715629080e2fb77"

// available returns what an organization may spend of its own balance.
func (h *testEnv) available(who tenant, product string, mintID int) (balance money.Amount) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) (err error) {
		balance, err = ledger.Balance(ctx, tx, ledger.ProductOwner(product).SpendingAccount(who.id, mintID))
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return balance
}

// A person withdraws all of the organization's own balance with Max, with the mistakes that people make:
// an amount above the balance, an address that the operator has removed meanwhile, wrong codes, a double
// click, and the browser's way back. Rules PAGE-15, PAGE-16 and PAGE-17.
func TestAPersonWithdrawsTheMaximumInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	h.fundProduct(h.one, "CUSTODIAL", eth, 1_500_000_000_000_000_000)
	entry, gone := h.allow(h.one, recipient, "Cold wallet"), h.allow(h.one, otherRecipient, "Old exchange")
	ann := h.join(h.one, identity.Finance)
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)

	tab := browser.Open(t)
	tab.OpenURL(base+Prefix+"/withdraw", desk)
	ann.signInWith(tab, "finance@example.test")
	wantText(t, tab, "Choose Token and Network", "ETH", "Custodial", "Cold wallet")
	tab.Click(`a[href$="/withdraw/CUSTODIAL/3"]`)
	wantText(t, tab, "Withdraw ETH", "Held on top, from the same balance")
	choose := func(id string) {
		browser.Evaluate[bool](tab, `document.querySelector('input[value="`+id+`"]').click() === undefined`)
	}

	// More than there is comes back at the field, with what was typed, and the summary has the focus.
	choose(entry)
	tab.Type("#continue-amount", "15")
	tab.Click("form[action$=continue] button.primary")
	wantText(t, tab, "smaller than the amount")
	if got := browser.Evaluate[string](tab, "document.querySelector('#continue-amount').value"); got != "15" {
		t.Errorf("got the amount %q, want what the user typed", got)
	}
	if !browser.Evaluate[bool](tab, "document.activeElement.hasAttribute('data-focus')") {
		t.Error("the summary of what was wrong does not have the focus")
	}
	// The operator removes an address while the page shows it.
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := h.whitelist.Remove(ctx, tx, operator.Key{ID: "opk_test"}, h.one.id, gone)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	choose(gone)
	tab.Click("button[name=max]")
	wantText(t, tab, "removed from the whitelist")

	choose(entry)
	tab.Click("button[name=max]")
	e, err := h.withdrawals.EstimateOrganization(
		t.Context(), h.one.people[identity.Finance], "CUSTODIAL", eth, entry,
	)
	if err != nil {
		t.Fatal(err)
	}
	most := e.MaxAmount.Decimal(18)
	if got := browser.Evaluate[string](tab, "document.querySelector('#continue-amount').value"); got != most {
		t.Errorf("got the amount %q, want %q: the balance less the fee", got, most)
	}
	tab.Click("form[action$=continue] button.primary")
	wantText(t, tab, "It will be paid at once", "Rules that look at it", "Withdraw "+ui.GroupDigits(most)+" ETH")
	address := browser.Evaluate[string](
		tab, `document.querySelector('[data-word=to] .address-text').textContent.replaceAll(/\s/g, '')`,
	)
	if address != recipient {
		t.Errorf("got the address %q, want the whole one", address)
	}

	confirm := browser.Evaluate[string](tab, "location.href")
	tab.Type("#request-code", "000000")
	tab.Click("form[action$=request] button")
	wantText(t, tab, "Your decision", "It will be paid at once")
	if got := h.listOwn(h.one); len(got) != 0 {
		t.Fatalf("got %d withdrawals after a wrong code, want none", len(got))
	}
	key := browser.Evaluate[string](tab, "document.querySelector('[name=formKey]').value")
	tab.Type("#request-code", ann.code())
	tab.DoubleClick("form[action$=request] button")
	wantText(t, tab, "Being paid")
	made := h.listOwn(h.one)
	if len(made) != 1 || made[0].Amount.Decimal(18) != most {
		t.Fatalf("got %+v, want one of %s", made, most)
	}
	h.wantWithdrawal(h.one, made[0].ID, withdrawal.Processing, 0)

	// The way back shows the form that was sent. Sent again, it leads to the same withdrawal.
	for _, code := range []string{"000000", ann.code()} {
		tab.OpenURL(confirm, desk)
		browser.Evaluate[bool](tab, `(() => {
			const form = document.createElement('form');
			form.method = 'post'; form.action = location.pathname + '/request';
			for (const [name, value] of Object.entries({
				formKey: '`+key+`', shownTo: '`+entry+`', shownAmount: '`+most+`', shownMax: 'true',
				code: '`+code+`'})) {
				const input = document.createElement('input');
				input.name = name; input.value = value; form.append(input);
			}
			const button = document.createElement('button');
			button.className = 'again'; button.textContent = 'Again'; form.append(button);
			document.querySelector('main').prepend(form);
			return true;
		})()`)
		tab.Click("button.again")
		wantText(t, tab, "Being paid", "Custodial")
	}
	if got := len(h.listOwn(h.one)); got != 1 {
		t.Errorf("got %d withdrawals, want one", got)
	}
	tab.OpenURL(base+Prefix+"/withdraw", desk)
	wantText(t, tab, "There is nothing to withdraw", "Being paid")
	if left := h.available(h.one, "CUSTODIAL", eth); !left.IsZero() {
		t.Errorf("got %v left, want nothing", left)
	}
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 4") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}
