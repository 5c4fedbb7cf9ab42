package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/identity"
)

// The page of a deposit swap shows the address of the provider with the token and the network for which it counts, as
// long as the provider takes a payment. What strangers named is text. Rules PAGE-4 and PAGE-77.
func TestThePageOfADepositSwapShowsWhereTheCustomerPays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, usdc, 1_000_000)
	s := h.addDepositSwap(h.one, stranger, "top-up-1")
	token := h.signIn(h.one, identity.Viewer)
	path := Prefix + "/deposit-swaps/" + s.ID
	h.get(token, Prefix+"/deposit-swaps").want(t, http.StatusOK, path, "Waits for a payment", "4.975",
		`href="`+Prefix+`/swaps" aria-current="page"`)
	body := h.get(token, path).want(t, http.StatusOK, "Where the customer pays", `data-copy="`+s.DepositAddress+`"`,
		"&lt;b&gt;N&lt;/b&gt; on Near", "The provider has seen no payment yet.", "refunds.near", "near:native",
		"None yet.", "By Your backend").body
	if strings.Contains(body, "<b>N") || strings.Contains(body, "<script>alert") {
		t.Error("the page has markup of a stranger")
	}
	h.pass(4 * time.Hour)
	late := h.get(token, path).want(t, http.StatusOK, "not to be paid any more").body
	if strings.Contains(late, "Where the customer pays") {
		t.Error("the page asks for a payment that comes too late")
	}
	found := h.get(token, Prefix+"/transactions/search?q="+s.ID).want(t, http.StatusSeeOther)
	if to := found.header.Get("Location"); to != path {
		t.Errorf("the search leads to %q, want %q", to, path)
	}
	h.get(token, Prefix+"/customers/"+url.PathEscape(stranger)).
		want(t, http.StatusOK, "/deposit-swaps?customerId=")
}

// An address whose row was changed is not shown, on no page and in no table. Rule PAGE-77, invariant I-71.
func TestAnAddressOfAChangedRowIsNotShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s := h.addDepositSwap(h.one, "alice", "top-up-1")
	const forged = "0x00000000000000000000000000000000000000ff"
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposit_swaps SET deposit_address = $2 WHERE deposit_swap_id = $1`, s.ID, forged)
		return err
	})
	token := h.signIn(h.one, identity.Owner)
	quiet := &testEnv{t: discard{t}, logs: h.logs, server: h.server}
	for _, path := range []string{"/deposit-swaps/" + s.ID, "/deposit-swaps"} {
		got := quiet.get(token, Prefix+path)
		if got.status != http.StatusInternalServerError || strings.Contains(got.body, forged) ||
			strings.Contains(got.body, s.DepositAddress) {
			t.Errorf("%s: got %d, want 500 without an address", path, got.status)
		}
	}
}

// discard is a test that does not fail because of an answer that the test wants.
type discard struct{ testing.TB }

// Errorf implements testing.TB.
func (discard) Errorf(string, ...any) {}

// The list shows what its filters select, and its table has the same rows. Another organization sees nothing.
// Rules PAGE-6, PAGE-10 and PAGE-11.
func TestTheListOfDepositSwapsShowsWhatItsFiltersSelect(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	first, second := h.addDepositSwap(h.one, "alice", "one"), h.addDepositSwap(h.one, "bob", "two")
	token, other := h.signIn(h.one, identity.Owner), h.signIn(h.two, identity.Owner)
	for query, want := range map[string][]string{
		"":                         {first.ID, second.ID},
		"customerId=bob":           {second.ID},
		"idempotencyKey=one":       {first.ID},
		"status=AWAITING_DEPOSIT":  {first.ID, second.ID},
		"status=COMPLETED":         nil,
		"customerId=bob&status=":   {second.ID},
		"idempotencyKey=elsewhere": nil,
	} {
		for _, list := range []string{"/deposit-swaps?", "/deposit-swaps.csv?"} {
			body := h.get(token, Prefix+list+query).want(t, http.StatusOK).body
			for _, s := range []depositswap.DepositSwap{first, second} {
				isWanted := false
				for _, id := range want {
					isWanted = isWanted || id == s.ID
				}
				if got := strings.Contains(body, s.ID); got != isWanted {
					t.Errorf("%s%s: has %s: %v, want %v", list, query, s.CustomerID, got, isWanted)
				}
			}
			if strings.Contains(h.get(other, Prefix+list+query).want(t, http.StatusOK).body, first.ID) {
				t.Errorf("%s shows a deposit swap of another organization", list)
			}
		}
	}
	h.get(other, Prefix+"/deposit-swaps/"+first.ID).want(t, http.StatusNotFound)
	h.get(token, Prefix+"/deposit-swaps?status=DONE").want(t, http.StatusBadRequest)
}

// The pages of a deposit lead to the deposit swap for which it arrived. Rule PAGE-77.
func TestADepositLeadsToItsDepositSwap(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s := h.addDepositSwap(h.one, "alice", "top-up-1")
	depositID := h.flagDeposits(h.one, 1, false)[0]
	token, link := h.signIn(h.one, identity.Viewer), `href="`+Prefix+"/deposit-swaps/"+s.ID+`"`
	paths := []string{Prefix + "/transactions/deposits/" + depositID, Prefix + "/approvals/deposits/" + depositID}
	for _, path := range paths {
		if strings.Contains(h.get(token, path).want(t, http.StatusOK).body, link) {
			t.Errorf("%s: the page of another deposit leads to the deposit swap", path)
		}
	}
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposits SET purpose = 'DEPOSIT_SWAP', deposit_swap_id = $2
			WHERE deposit_id = $1`, depositID, s.ID)
		return err
	})
	for _, path := range paths {
		h.get(token, path).want(t, http.StatusOK, link)
	}
}

// Rule DEP-56: the pages of a deposit of a checkout name the checkout, and what was flagged waits there as every other
// deposit.
func TestADepositNamesItsCheckout(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	depositID := h.flagDeposits(h.one, 1, false)[0]
	token, paths := h.signIn(h.one, identity.Viewer), []string{
		Prefix + "/transactions/deposits/" + depositID, Prefix + "/approvals/deposits/" + depositID,
	}
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposits SET purpose = 'CHECKOUT', checkout_id = 'co_seen', product = 'CHECKOUT',
			customer_id = NULL WHERE deposit_id = $1`, depositID)
		return err
	})
	for _, path := range paths {
		h.get(token, path).want(t, http.StatusOK, "co_seen")
	}
	h.get(token, Prefix+"/approvals/flagged").want(t, http.StatusOK, depositID)
}

// Every status of a deposit swap says what is known and what happens next.
func TestEveryStatusOfADepositSwapIsExplained(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, status := range depositswap.Statuses {
		now := describeDepositSwap(depositswap.DepositSwap{Status: status})
		if now.Whereabouts == "" || now.NextStep == "" || seen[now.Whereabouts] {
			t.Errorf("%s: got %+v, want words of its own", status, now)
		}
		seen[now.Whereabouts] = true
	}
}
