package dashboard

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
)

// Hashes of the transactions of a swap.
const (
	originHash      = "0x00000000000000000000000000000000000000000000000000000000000000b1"
	destinationHash = "0x00000000000000000000000000000000000000000000000000000000000000b2"
	refundHash      = "0x00000000000000000000000000000000000000000000000000000000000000b3"
)

// newSwapRow returns a swap of 300 USDC into the token with an odd name.
func (h *testEnv) newSwapRow(who tenant, customerID, key, status string) swaptest.Row {
	return swaptest.Row{
		OrgID: who.id, CustomerID: customerID, IdempotencyKey: key, FromMintID: usdc, ToMintID: evil, Chain: "ETHEREUM",
		AmountIn: 300_000_000, EstimatedOut: 298_500_000, Provider: "ONE_CLICK", Status: status,
		Metadata: map[string]string{"order": hostile}, CreatedAt: h.now().Add(-2 * time.Hour),
	}
}

// after returns a time after the creation of a swap.
func after(r swaptest.Row, d time.Duration) *time.Time { return new(r.CreatedAt.Add(d)) }

// The states of a swap as its page shows them.
func (h *testEnv) listSwapRows(who tenant, customerID string) map[string]swaptest.Row {
	rows := map[string]swaptest.Row{}
	add := func(name, status string, change func(r *swaptest.Row)) {
		r := h.newSwapRow(who, customerID, "swap-"+name, status)
		if change != nil {
			change(&r)
		}
		rows[name] = r
	}
	paid := func(r *swaptest.Row) { r.OriginTx, r.PaidAt = originHash, after(*r, time.Minute) }
	failed := func(r *swaptest.Row, reason string) {
		paid(r)
		r.FailureReason, r.EndedAt = reason, after(*r, time.Hour)
	}
	add("pending", "PENDING", nil)
	add("depositing", "DEPOSITING", func(r *swaptest.Row) { r.OriginTx = originHash })
	add("processing", "PROCESSING", paid)
	add("delayed", "PROCESSING", func(r *swaptest.Row) { paid(r); r.DelayedAt = after(*r, time.Hour) })
	add("completed", "COMPLETED", func(r *swaptest.Row) {
		paid(r)
		r.AmountOut, r.DestinationTx, r.EndedAt = 298_600_000, destinationHash, after(*r, 2*time.Minute)
	})
	add("back", "FAILED", func(r *swaptest.Row) {
		failed(r, "PROVIDER_REFUNDED")
		r.Refunded, r.Short, r.RefundTx = 299_000_000, 1_000_000, refundHash
	})
	add("restored", "FAILED", func(r *swaptest.Row) {
		failed(r, "PROVIDER_REFUNDED")
		r.Refunded, r.Restored, r.RefundTx = 300_000_000, 300_000_000, refundHash
		r.RestoredAt = after(*r, 90*time.Minute)
	})
	add("held", "FAILED", func(r *swaptest.Row) {
		failed(r, "PROVIDER_COMPLIANCE")
		r.RefundReport, r.FailureMessage = "MANUAL", "A person looks at it. "+hostile
	})
	add("kept", "FAILED", func(r *swaptest.Row) {
		failed(r, "PROVIDER_FAILED")
		r.RefundReport, r.Short = "UNAVAILABLE", 300_000_000
	})
	return rows
}

// addSwaps inserts swaps, each with the entries that the service writes into the log.
func (h *testEnv) addSwaps(rows ...swaptest.Row) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error { return swaptest.Insert(ctx, tx, rows...) })
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for _, r := range rows {
			if err := audit.Record(ctx, tx, logOfSwap(r)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// logOfSwap returns the entries of the log of a swap.
func logOfSwap(r swaptest.Row) (entries []audit.Entry) {
	add := func(by audit.Actor, verb string, detail map[string]any) {
		entries = append(entries, audit.Entry{
			OrgID: r.OrgID, Actor: by, Action: "swap." + verb, ResourceKind: "SWAP", ResourceID: r.ID(), Detail: detail,
		})
	}
	service := audit.System("swap")
	add(audit.APIKey(r.OrgID), "requested", map[string]any{"provider": r.Provider})
	if r.OriginTx != "" {
		add(service, "depositing", map[string]any{"originTxHash": r.OriginTx})
	}
	if r.PaidAt != nil {
		add(service, "paid", map[string]any{"originTxHash": r.OriginTx})
		add(service, "processing", map[string]any{"word": "KNOWN_DEPOSIT_TX " + hostile})
	}
	if r.DelayedAt != nil {
		add(service, "delayed", nil)
	}
	switch {
	case r.Status == "COMPLETED":
		add(service, "completed", map[string]any{
			"amountOut": money.Units(r.AmountOut), "destinationTxHash": r.DestinationTx,
		})
	case r.Status == "FAILED":
		add(service, "failed", map[string]any{"reason": r.FailureReason})
	}
	if r.RefundTx != "" {
		add(service, "refunded", map[string]any{"refunded": money.Units(r.Refunded)})
	}
	if r.Restored > 0 {
		add(audit.APIKey(r.OrgID), "restored", map[string]any{"restored": money.Units(r.Restored)})
	}
	add(service, "stray_arrival", map[string]any{"amount": "7"})
	return entries
}

// failUnpaid makes a failed swap of a customer whose provider was never paid, with its hold in the books: all
// of it came back and nothing is restored.
func (h *testEnv) failUnpaid(who tenant, customerID, key string) swaptest.Row {
	h.t.Helper()
	r := h.newSwapRow(who, customerID, key, "FAILED")
	r.FailureReason, r.EndedAt, r.Refunded = "DEADLINE_EXPIRED", after(r, time.Hour), r.AmountIn
	h.addSwaps(r)
	account := func(kind ledger.Kind) ledger.Account {
		return ledger.Account{OrgID: who.id, MintID: usdc, Kind: kind, Subject: customerID}
	}
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.SwapHold, ID: r.ID()},
			Legs: []ledger.Leg{{
				Debit: account(ledger.Customer), Credit: account(ledger.InSwap), Amount: money.Units(r.AmountIn),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// wantInSwap checks what a customer has available and in swaps.
func (h *testEnv) wantInSwap(who tenant, customerID string, available, inSwap uint64) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		for kind, want := range map[ledger.Kind]uint64{ledger.Customer: available, ledger.InSwap: inSwap} {
			account := ledger.Account{OrgID: who.id, MintID: usdc, Kind: kind, Subject: customerID}
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

// The page of a swap says where its money is and what happens next, in every state. Rule PAGE-74.
func TestThePageOfASwapSaysWhereItsMoneyIs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 1_000_000_000)
	rows := h.listSwapRows(h.one, "alice")
	for _, r := range rows {
		h.addSwaps(r)
	}
	token := h.signIn(h.one, identity.Viewer)
	for name, texts := range map[string][]string{
		"pending":    {"Not paid yet", "The money is still here", "If it is not paid until then"},
		"depositing": {"Payment on its way", "on its way to the provider", originHash},
		"processing": {"With the provider", "The money is with the provider.", "The payment is final"},
		"delayed":    {"for longer than usual", "does not fail because of its age", "It takes longer than usual"},
		"completed":  {"The customer has what the provider delivered.", "298.6", destinationHash, "received"},
		"back":       {"299 \\u{3c}", "came back and is held for the customer", "kept 1", refundHash, "Restore it"},
		"restored":   {"The customer has 300", "Nothing is left to do.", "Restored to the customer", "By Your backend"},
		"held":       {"has not given it back", "A person at the provider decides", "MANUAL"},
		"kept":       {"The provider kept the money", "by a transfer"},
	} {
		if name == "back" {
			texts[0] = "299 USDC came back"
		}
		if name == "held" {
			texts = texts[:2]
		}
		body := h.get(token, Prefix+"/swaps/"+rows[name].ID()).want(t, http.StatusOK, texts...).body
		for _, hidden := range []string{"<script>alert", "adr_", "Restore 299", "stray"} {
			if strings.Contains(body, hidden) {
				t.Errorf("%s: the page shows %q", name, hidden)
			}
		}
	}
	shown := h.get(token, Prefix+"/swaps/"+rows["completed"].ID()).body
	if !strings.Contains(shown, `href="https://explorer.example/tx/`+destinationHash+`"`) {
		t.Error("the page leads to no explorer")
	}
}

// A restore moves what came back once: a second click, an old tab and a slower colleague get the page with who
// restored it. A wrong code restores nothing. Rules PAGE-3, PAGE-75 and SWAP-30.
func TestAFailedSwapIsRestoredOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 1_000_000_000)
	r := h.failUnpaid(h.one, "alice", "swap-1")
	path := Prefix + "/swaps/" + r.ID()
	finance, colleague := h.signIn(h.one, identity.Finance), h.signIn(h.one, identity.Owner)
	h.get(finance, Prefix).want(t, http.StatusOK, "1 failed swap to restore")
	h.get(finance, Prefix+"/approvals/swaps").want(t, http.StatusOK, path, "Came back, not restored")
	h.get(finance, Prefix+"/customers/alice").want(t, http.StatusOK, "300 held for swaps", path)
	h.get(finance, path).want(t, http.StatusOK, "Restore 300 USDC", "The provider was not paid in time")
	h.post(finance, path+"/restore", "code", "000000").want(t, http.StatusUnauthorized)
	h.wantInSwap(h.one, "alice", 700_000_000, 300_000_000)
	for _, sent := range []struct{ token, code string }{
		{finance, rightCode}, {finance, rightCode}, {colleague, rightCode + "b"},
	} {
		got := h.post(sent.token, path+"/restore", "code", sent.code).want(t, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != path {
			t.Errorf("got a redirect to %q, want %q", to, path)
		}
		h.wantInSwap(h.one, "alice", 1_000_000_000, 0)
	}
	h.get(colleague, path).want(t, http.StatusOK, "By Finance Person", "The failed swap was restored")
	h.get(finance, path).want(t, http.StatusOK, "By You", "The customer has 300 USDC again.")
	h.get(finance, Prefix+"/approvals/swaps").want(t, http.StatusOK, "No failed swap waits")
	h.get(finance, Prefix).want(t, http.StatusOK, "Nothing waits for a person")
}

// Nothing is restored of a swap that goes on, or of which nothing came back: the form says so.
func TestASwapOfWhichNothingCameBackIsNotRestored(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	rows := h.listSwapRows(h.one, "alice")
	h.addSwaps(rows["processing"], rows["held"])
	token := h.signIn(h.one, identity.Owner)
	for i, name := range []string{"processing", "held"} {
		path := Prefix + "/swaps/" + rows[name].ID()
		if strings.Contains(h.get(token, path).want(t, http.StatusOK).body, "/restore\"") {
			t.Errorf("%s: the page has the form", name)
		}
		h.post(token, path+"/restore", "code", fmt.Sprint(rightCode, i)).want(t, http.StatusConflict)
	}
}

// OWNER, ADMIN and FINANCE restore. Another organization sees nothing. Rules ROLE-1 and PAGE-6.
func TestSwapsAreRestoredByFewAndSeenByOneOrganization(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 1_000_000_000)
	r := h.failUnpaid(h.one, "alice", "swap-1")
	path := Prefix + "/swaps/" + r.ID()
	for _, role := range roles {
		token := h.signIn(h.one, role)
		restores := role == identity.Owner || role == identity.Admin || role == identity.Finance
		body := h.get(token, path).want(t, http.StatusOK).body
		if got := strings.Contains(body, `action="`+path+`/restore"`); got != restores {
			t.Errorf("%s: got a form %v, want %v", role, got, restores)
		}
		if !restores {
			h.post(token, path+"/restore", "code", rightCode).want(t, http.StatusForbidden, "Owner, Admin or Finance")
		}
	}
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, path).want(t, http.StatusNotFound)
	h.post(stranger, path+"/restore", "code", rightCode).want(t, http.StatusNotFound)
	for _, list := range []string{
		"/swaps", "/swaps.csv", "/approvals/swaps", "/approvals/swaps.csv", "/swaps?customerId=alice",
	} {
		if strings.Contains(h.get(stranger, Prefix+list).want(t, http.StatusOK).body, r.ID()) {
			t.Errorf("%s shows a swap of another organization", list)
		}
	}
	h.wantInSwap(h.one, "alice", 700_000_000, 300_000_000)
}

// The list shows what its filters select, and its table has the same rows in the columns of the interface.
// Rules PAGE-10 and PAGE-11.
func TestTheListOfSwapsShowsWhatItsFiltersSelect(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	rows := h.listSwapRows(h.one, "alice")
	other := h.newSwapRow(h.one, stranger, "odd <b>", "PENDING")
	h.addSwaps(rows["pending"], rows["completed"], rows["back"], rows["restored"], other)
	token := h.signIn(h.one, identity.Owner)
	for query, want := range map[string][]string{
		"":              {"pending", "completed", "back", "restored", "other"},
		"status=FAILED": {"back", "restored"},
		"customerId=" + url.QueryEscape(stranger):         {"other"},
		"idempotencyKey=" + url.QueryEscape("odd <b>"):    {"other"},
		"idempotencyKey=swap-completed&customerId=alice":  {"completed"},
		"idempotencyKey=swap-completed&customerId=bob":    nil,
		"status=PENDING&customerId=alice&idempotencyKey=": {"pending"},
	} {
		page := h.get(token, Prefix+"/swaps?"+query).want(t, http.StatusOK).body
		table, err := csv.NewReader(strings.NewReader(
			h.get(token, Prefix+"/swaps.csv?"+query).want(t, http.StatusOK, "swapId,createdAt").body)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if len(table)-1 != len(want) {
			t.Errorf("%q: got %d rows in the table, want %d", query, len(table)-1, len(want))
		}
		for name, r := range map[string]swaptest.Row{
			"pending": rows["pending"], "completed": rows["completed"], "back": rows["back"],
			"restored": rows["restored"],
			"other":    other,
		} {
			isWanted := false
			for _, wanted := range want {
				isWanted = isWanted || wanted == name
			}
			if got := strings.Contains(page, "/swaps/"+r.ID()); got != isWanted {
				t.Errorf("%q: the page has %s: %v, want %v", query, name, got, isWanted)
			}
		}
	}
	h.get(token, Prefix+"/swaps?status=DONE").want(t, http.StatusBadRequest)
	queue := h.get(token, Prefix+"/approvals/swaps").want(t, http.StatusOK, "/swaps/"+rows["back"].ID()).body
	if strings.Contains(queue, "/swaps/"+rows["restored"].ID()) {
		t.Error("the queue has a swap that is restored")
	}
	found := h.get(token, Prefix+"/transactions/search?q="+rows["back"].ID()).want(t, http.StatusSeeOther)
	if to := found.header.Get("Location"); to != Prefix+"/swaps/"+rows["back"].ID() {
		t.Errorf("the search leads to %q", to)
	}
}

// The deposit of a delivery leads to its swap, and the swap to the deposit.
func TestADeliveryAndItsSwapLeadToEachOther(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r := h.listSwapRows(h.one, "alice")["completed"]
	h.addSwaps(r)
	depositID := h.addArrival(r, "DELIVERY", "")
	token := h.signIn(h.one, identity.Viewer)
	deposit, page := Prefix+"/transactions/deposits/"+depositID, Prefix+"/swaps/"+r.ID()
	h.get(token, deposit).want(t, http.StatusOK, `href="`+page+`"`, "Completes the swap")
	h.get(token, page).want(t, http.StatusOK, `href="`+deposit+`"`)
}

// addArrival inserts an arrival at a wallet of a swap.
func (h *testEnv) addArrival(r swaptest.Row, role, reason string) (depositID string) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) (err error) {
		depositID, err = swaptest.InsertArrival(
			ctx, tx, r, role, reason, destinationHash, r.ToMintID, r.AmountOut, *r.EndedAt,
		)
		return err
	})
	return depositID
}

// insertRows runs a function that inserts rows that no verb made.
func (h *testEnv) insertRows(insert func(ctx context.Context, tx pgx.Tx) error) {
	h.t.Helper()
	err := pgx.BeginFunc(h.t.Context(), pgtest.OwnerPool(h.t, h.db), func(tx pgx.Tx) error {
		if err := swaptest.DisableTriggers(h.t.Context(), tx); err != nil {
			return err
		}
		return insert(h.t.Context(), tx)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}
