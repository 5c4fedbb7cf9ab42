package withdrawal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// available returns what a customer can spend of the token.
func (h *testEnv) available(customerID string) string {
	h.t.Helper()
	var a money.Amount
	err := h.DB.ReadOrg(h.t.Context(), h.org, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = ledger.Balance(
			ctx, tx, ledger.Account{OrgID: h.org, MintID: usdc, Kind: ledger.Customer, Subject: customerID},
		)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a.String()
}

// The limit of a day counts the costs of a customer's own withdrawals, and not those of a customer
// with a similar id. Rules WD-53, IDEM-1.
func TestTheCostsOfCustomersWithIdsAlikeAreCountedApart(t *testing.T) {
	t.Parallel()
	h, _ := newCostEnv(t)
	h.setSetting("customerFeeDayUsd", `"60"`) // the cost of one withdrawal
	of := func(customerID string) Request {
		r := h.newRequest()
		r.CustomerID = customerID
		return r
	}
	for _, customerID := range idtest.Alike {
		h.creditDeposit(customerID, usdc, 10_000)
		if w := h.mustRequest(of(customerID)); w.Status != "PROCESSING" {
			t.Errorf(
				"%q: got %s %v, want its first withdrawal of the day within its limit", customerID, w.Status,
				w.ApprovalReasons,
			)
		}
	}
	for _, customerID := range idtest.Alike {
		if w := h.mustRequest(of(customerID)); w.Status != "AWAITING_APPROVAL" {
			t.Errorf("%q: got %s, want its second withdrawal of the day above its limit", customerID, w.Status)
		}
	}
}

// A restored withdrawal belongs to the customer that the signer's journal names, with its key and
// the debt that later deposits pay. Rule IDEM-1.
func TestARestoreTakesNoCustomerForAnotherWithAnIdAlike(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	restored := map[string]string{} // by customer
	keyed := func(i int) *string {  // the id itself if it is a valid key
		key := idtest.Alike[i]
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			key = fmt.Sprint("key-", i)
		}
		return &key
	}
	keys := map[string]*string{}
	var orders []dispatch.RestoredOrder
	for i, customerID := range idtest.Alike {
		if i%2 == 1 {
			h.creditDeposit(customerID, usdc, 5_000)
			continue
		}
		h.creditDeposit(customerID, usdc, 500)
		w := id.New("wd", h.DB.Clock()())
		restored[customerID], keys[customerID] = w, keyed(i)
		orders = append(orders, dispatch.RestoredOrder{IsNew: true, Order: dispatch.Order{
			ID: w, OrgID: h.org, Purpose: signer.Payment, Chain: chain.Ethereum, To: stranger, MintID: usdc,
			Contract: usdcAddress,
			Amount:   money.Units(700), CustomerID: customerID, KeyHash: keyHash(keys[customerID]),
			CreatedAt: h.DB.Clock()(),
		}})
	}
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		postings, err := h.OnRestored(ctx, tx, orders)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
	ask := func(customerID, amount string, key *string) (string, error) {
		r := h.newRequest()
		r.CustomerID, r.Amount, r.IdempotencyKey = customerID, amount, key
		w, _, err := h.Request(t.Context(), h.org, r)
		return w.ID, err
	}
	for i, customerID := range idtest.Alike {
		if i%2 == 1 {
			if got := h.available(customerID); got != "5000" {
				t.Errorf("%q: got %s available, want 5000, for nothing of it was restored", customerID, got)
			}
			continue
		}
		w, err := h.ByID(t.Context(), h.org, restored[customerID])
		if err != nil || w.Owner != ledger.CustomerOwner(customerID) || w.Amount.String() != "700" {
			t.Errorf("%q: got %+v %v, want its restored withdrawal", customerID, w, err)
		}
		if got, err := ask(customerID, "700", keys[customerID]); err != nil || got != restored[customerID] {
			t.Errorf("%q with its key again: got %q %v, want %s", customerID, got, err, restored[customerID])
		}
		h.creditDeposit(customerID, usdc, 300) // of which 200 are owed
	}
	for i, customerID := range idtest.Alike {
		if i%2 == 1 {
			if _, err := ask(customerID, "5000", nil); err != nil {
				t.Errorf("%q: got %v, want it to owe nothing", customerID, err)
			}
			continue
		}
		_, err := ask(customerID, "101", nil)
		wantFault(t, err, fault.InsufficientBalance)
	}
	if n, err := h.CollectOwed(t.Context()); err != nil || n != len(orders) {
		t.Errorf("collect: got %d %v, want %d", n, err, len(orders))
	}
	for i, customerID := range idtest.Alike {
		want := "100"
		if i%2 == 1 {
			want = "0"
		}
		if got := h.available(customerID); got != want {
			t.Errorf("%q: got %s available after the debts are paid, want %s", customerID, got, want)
		}
	}
}
