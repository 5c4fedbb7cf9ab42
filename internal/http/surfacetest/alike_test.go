package surfacetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// similarCustomers is an environment whose first organization has a customer for each id that is
// easily mistaken for another one, each with its own balance. The second has the same customers,
// with nothing.
type similarCustomers struct {
	*queue
	ids    []string
	owns   map[string]int    // available balance of each
	at     map[string]string // its deposit address
	ear    *webhookReceiver
	listen string // the endpoint of the address
	owner  *pgxpool.Pool
	last   int // of keys that say nothing
}

func (x *similarCustomers) keys() int { x.last++; return x.last }

const mailbox = "same@example.com" // of all of them

func newSimilarCustomers(t *testing.T) *similarCustomers {
	t.Helper()
	x := &similarCustomers{
		queue: newQueue(t, 1), ids: idtest.Alike, owns: map[string]int{}, at: map[string]string{},
		ear: newWebhookReceiver(t),
	}
	x.owner = pgtest.OwnerPool(t, x.db)
	x.openSwaps(x.one)
	for i, id := range x.ids {
		body := map[string]any{"mintId": usdc, "customerId": id, "customerEmail": mailbox}
		x.at[id] = x.wantStatus(x.call(x.one, "POST", "/deposit", body), 200).text("address")
		x.wantStatus(x.call(x.two, "POST", "/deposit", body), 200)
		x.owns[id] = 10_000 + 100*i
		x.deposit(x.one, id, uint64(x.owns[id]))
		// A row of the list of deposits, next to the posting.
		if _, err := x.owner.Exec(t.Context(), `
			WITH off AS (SELECT set_config('session_replication_role', 'replica', true))
			INSERT INTO deposits SELECT (jsonb_populate_record(d, jsonb_build_object('deposit_id', 'dep_' || lpad($1::text, 26, '0'), 'customer_id', $2::text, 'tx_hash', 'tx' || $1,
				'status', 'BELOW_MINIMUM', 'is_flagged', false, 'flagged_at', NULL, 'risk_of_funds', NULL, 'flag_reason', NULL))).* FROM deposits d, off WHERE deposit_id = $3`,
			strconv.Itoa(i), id, x.held[0]); err != nil {
			t.Fatal(err)
		}
	}
	x.listen, _ = x.endpoint(x.ear.URL, map[string]any{"events": []string{"TRANSFER_COMPLETED"}})
	return x
}

// near returns the ids before and after one in the list, which are the most easily mistaken for it.
func (x *similarCustomers) near(i int) []string {
	n := len(x.ids)
	return []string{x.ids[(i+n-1)%n], x.ids[(i+1)%n]}
}

// key returns an id as an idempotency key, or another key if it cannot be one.
func (x *similarCustomers) key(i int) string {
	if strings.ContainsFunc(x.ids[i], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprint("key-", i)
	}
	return x.ids[i]
}

func atCustomer(path, id string) string {
	return strings.Replace(path, "{customerId}", url.PathEscape(id), 1)
}

// pay makes a transfer to a product.
func (x *similarCustomers) pay(id, key string, more ...any) {
	x.t.Helper()
	x.wantStatus(x.call(
		x.one, "POST", "/transfers",
		charge(key, append([]any{"amount", "1", "from", map[string]any{"customerId": id}}, more...)...),
	), 201)
	x.owns[id]--
}

// only calls a list with each id as a filter: the answer has items, and all have that id.
func (x *similarCustomers) only(at *testEnv, who tenant, list, filter string, of func(item map[string]any) []any) {
	x.t.Helper()
	for i, id := range x.ids {
		if filter == "idempotencyKey" {
			id = x.key(i)
		}
		got := at.wantStatus(at.call(who, "GET", list+url.Values{filter: {id}}.Encode(), nil), 200).list()
		if len(got) == 0 {
			x.t.Errorf("%s%s=%q: got nothing, want what is of it", list, filter, id)
		}
		for _, item := range got {
			if !slices.Contains(of(item), any(id)) {
				x.t.Errorf("%s%s=%q: got %v of another", list, filter, id, of(item))
			}
		}
		if at != x.testEnv {
			continue // an operator's list has no table
		}
		rows := at.cells(who, list+url.Values{filter: {id}}.Encode())
		if len(rows) < len(got) { // a page of the list may be less
			x.t.Errorf("%s%s=%q: got %d rows of a table, want the %d of the list", list, filter, id, len(rows),
				len(got))
		}
		for _, row := range rows {
			if !slices.ContainsFunc(
				headings[filter], func(name string) bool { return row[name] == id || row[name] == "'"+id },
			) {
				x.t.Errorf("%s%s=%q: got the row %v of another", list, filter, id, row)
			}
		}
	}
}

// headings maps filters to the columns of tables that show what they compare.
var headings = map[string][]string{
	"customerId":     {"customerId", "fromCustomerId", "toCustomerId"},
	"reference":      {"reference"},
	"idempotencyKey": {"idempotencyKey"},
}

// fieldsOf returns the members of an item, the inner ones with a dot.
func fieldsOf(names ...string) func(map[string]any) []any {
	return func(item map[string]any) (all []any) {
		for _, name := range names {
			at := item
			outer, inner, nested := strings.Cut(name, ".")
			if nested {
				at, _ = item[outer].(map[string]any)
				outer = inner
			}
			all = append(all, at[outer])
		}
		return all
	}
}

// balances compares every balance with the expected one.
func (x *similarCustomers) balances(when string) {
	x.t.Helper()
	for _, id := range x.ids {
		if got, want := x.available(id), strconv.Itoa(x.owns[id]); got != want {
			x.t.Errorf("%s: %q has %s, want %s", when, id, got, want)
		}
	}
}

func (x *similarCustomers) available(id string) string {
	x.t.Helper()
	for _, b := range x.wantStatus(
		x.call(x.one, "GET", atCustomer("/customers/{customerId}/balances", id), nil), 200,
	).list() {
		return b["available"].(string)
	}
	return ""
}

// frozen returns the customers that the list of an organization shows as frozen.
func (x *similarCustomers) frozen(who tenant) (ids []string) {
	x.t.Helper()
	for _, c := range x.wantStatus(x.call(who, "GET", "/customers?status=FROZEN&limit=200", nil), 200).list() {
		ids = append(ids, c["customerId"].(string))
	}
	return ids
}

// stopped checks who is stopped while one customer is frozen: that one, and no other of either
// organization.
func (x *similarCustomers) stopped(i int) {
	x.t.Helper()
	id := x.ids[i]
	if got := x.frozen(x.one); !slices.Equal(got, []string{id}) {
		x.t.Errorf("%q is frozen: got %q", id, got)
	}
	if got := x.frozen(x.two); len(got) != 0 {
		x.t.Errorf("%q of another organization is frozen: got %q", id, got)
	}
	x.wantRefusal(id, x.call(x.one, "POST", "/withdraw/preview", payment("customerId", id)), 403, "CUSTOMER_FROZEN",
		"customerId")
	for _, other := range x.near(i) {
		x.wantStatus(x.call(x.one, "POST", "/withdraw/preview", payment("customerId", other)), 200)
		x.pay(other, fmt.Sprint("beside-", x.keys()))
	}
}

// places lists where a call takes a customer's id, and what shows that it takes no other customer
// for it. The test finds the calls; one that is missing here fails it.
var places = map[string]func(x *similarCustomers){
	"organization createDepositAddress body customerId": func(x *similarCustomers) {
		seen := map[string]string{}
		for _, who := range []tenant{x.one, x.two} {
			for _, id := range x.ids {
				got := x.wantStatus(x.call(who, "POST", "/deposit", map[string]any{"mintId": eth, "customerId": id}),
					200)
				if got.text("customerId") != id || who == x.one && got.text("address") != x.at[id] {
					x.t.Errorf("%q: got %s, want its own address again: %s", id, got.raw, x.at[id])
				}
				if other, taken := seen[got.text("address")]; taken {
					x.t.Errorf("%q has the address of %q", id, other)
				}
				seen[got.text("address")] = id
			}
		}
		before := x.rowCounts()
		for _, id := range idtest.Refused {
			if raw, err := json.Marshal(id); err != nil || strings.Contains(string(raw), `\ufffd`) {
				continue // JSON cannot say it
			}
			x.wantRefusal(
				fmt.Sprintf("%q", id),
				x.call(x.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": id}), 400,
				"INVALID_REQUEST", "customerId",
			)
		}
		if after := x.rowCounts(); after != before {
			x.t.Errorf("rows: got %s, want %s", after, before)
		}
	},
	"organization listDeposits query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/deposits?", "customerId", fieldsOf("customerId"))
	},
	"operator listDeposits query customerId": func(x *similarCustomers) {
		x.only(x.desk, x.ann, "/deposits?", "customerId", fieldsOf("customerId"))
	},
	"organization createWithdrawal body customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			body := payment("customerId", id, "amount", strconv.Itoa(x.owns[id]+1), "idempotencyKey",
				fmt.Sprint("too-much-", i))
			x.wantRefusal(id, x.call(x.one, "POST", "/withdraw", body), 422, "INSUFFICIENT_BALANCE", "amount")
			body = payment("customerId", id, "amount", strconv.Itoa(10+i), "idempotencyKey", x.key(i), "reference", id)
			for range 2 { // a repetition returns the same one
				if got := x.wantStatus(x.call(x.one, "POST", "/withdraw", body), 202); got.text("customerId") != id ||
					got.text("idempotencyKey") != x.key(i) {
					x.t.Errorf("%q: got %s, want its own withdrawal", id, got.raw)
				}
			}
			x.owns[id] -= 10 + i
		}
		x.balances("withdrawn")
	},
	"organization listWithdrawals query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/withdrawals?", "customerId", fieldsOf("customerId"))
	},
	"operator listWithdrawals query customerId": func(x *similarCustomers) {
		x.only(x.desk, x.ann, "/withdrawals?", "customerId", fieldsOf("customerId"))
	},
	"organization listWithdrawals query reference": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/withdrawals?", "reference", fieldsOf("reference"))
	},
	"operator listWithdrawals query reference": func(x *similarCustomers) {
		x.only(x.desk, x.ann, "/withdrawals?", "reference", fieldsOf("reference"))
	},
	"organization listWithdrawals query idempotencyKey": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/withdrawals?", "idempotencyKey", fieldsOf("idempotencyKey"))
	},
	"organization previewWithdrawal body customerId": func(x *similarCustomers) {
		for _, id := range x.ids {
			x.wantStatus(x.call(
				x.one, "POST", "/withdraw/preview", payment("customerId", id, "amount", strconv.Itoa(x.owns[id])),
			), 200)
			x.wantRefusal(id, x.call(
				x.one, "POST", "/withdraw/preview", payment("customerId", id, "amount", strconv.Itoa(x.owns[id]+1)),
			), 422, "INSUFFICIENT_BALANCE", "amount")
		}
	},
	"organization estimateWithdrawal body customerId": func(x *similarCustomers) {
		for _, id := range x.ids {
			got := x.wantStatus(
				x.call(x.one, "POST", "/withdraw/estimate", map[string]any{"mintId": usdc, "customerId": id}), 200,
			)
			if got.text("maxAmount") != strconv.Itoa(x.owns[id]) {
				x.t.Errorf("%q: got %s, want at most %d", id, got.raw, x.owns[id])
			}
		}
	},
	"organization createTransfer body from.customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			x.pay(id, x.key(i), "reference", id)
			// Another body with the same key is refused, and a look-alike key is another key.
			x.wantRefusal(id, x.call(
				x.one, "POST", "/transfers",
				charge(x.key(i), "amount", "1", "from", map[string]any{"customerId": x.near(i)[0]}, "reference", id),
			), 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
			x.wantRefusal(id, x.call(x.one, "POST", "/transfers", charge(
				fmt.Sprint("too-much-", i), "amount", strconv.Itoa(x.owns[id]+1), "from",
				map[string]any{"customerId": id},
			)), 422, "INSUFFICIENT_BALANCE", "amount")
		}
		x.balances("charged")
	},
	"organization createTransfer body to.customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			payer := x.near(i)[0]
			x.pay(payer, fmt.Sprint("to-", i), "to", map[string]any{"customerId": id})
			x.owns[id]++
		}
		x.balances("given")
	},
	"organization listTransfers query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/transfers?", "customerId", fieldsOf("from.customerId", "to.customerId"))
	},
	"organization listTransfers query reference": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/transfers?", "reference", fieldsOf("reference"))
	},
	"organization listTransfers query idempotencyKey": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/transfers?", "idempotencyKey", fieldsOf("idempotencyKey"))
	},
	"organization quoteCustomerSwap body customerId": func(x *similarCustomers) {
		quote := func(id string) reply {
			return x.call(x.one, "POST", "/customer-swap/quote", map[string]any{
				"customerId": id, "fromMintId": dai, "toMintId": eth, "amountIn": "1000",
			})
		}
		for i, id := range x.ids {
			x.wantStatus(x.call(
				x.one, "POST", atCustomer("/customers/{customerId}/freeze", id), map[string]any{"reason": "case"},
			), 200)
			x.wantRefusal(id, quote(id), 403, "CUSTOMER_FROZEN", "customerId")
			for _, other := range x.near(i) {
				x.wantStatus(quote(other), 200)
			}
			x.wantStatus(x.call(x.one, "POST", atCustomer("/customers/{customerId}/unfreeze", id), nil), 200)
		}
	},
	"organization createCustomerSwap body customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			x.fund(x.one, id, uint64(100+i))
		}
		for i, id := range x.ids {
			body := swapBody(fmt.Sprint("too-much-", i), "customerId", id, "amountIn", strconv.Itoa(101+i))
			x.wantRefusal(id, x.call(x.one, "POST", "/customer-swap", body), 422, "INSUFFICIENT_BALANCE", "amountIn")
			body = swapBody(x.key(i), "customerId", id, "amountIn", strconv.Itoa(50+i))
			for range 2 { // a repetition returns the same one
				got := x.wantStatus(x.call(x.one, "POST", "/customer-swap", body), 202)
				if got.text("customerId") != id || got.text("idempotencyKey") != x.key(i) {
					x.t.Errorf("%q: got %s, want its own swap", id, got.raw)
				}
			}
		}
		for i, id := range x.ids {
			if got := x.daiOf(x.one, id); got["available"] != "50" || got["inSwap"] != strconv.Itoa(50+i) {
				x.t.Errorf("%q: got %v, want 50 available and %d in a swap", id, got, 50+i)
			}
		}
	},
	"organization createDepositSwap body customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			body := depositSwapBody(x.key(i), "customerId", id)
			for range 2 { // a repetition returns the same one
				got := x.wantStatus(x.call(x.one, "POST", "/deposit-swap", body), 201)
				if got.text("customerId") != id || got.text("idempotencyKey") != x.key(i) {
					x.t.Errorf("%q: got %s, want its own deposit swap", id, got.raw)
				}
			}
		}
	},
	"organization createCheckout body customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			body := checkoutBody(x.key(i), "customerId", id, "reference", id)
			for range 2 { // a repetition returns the same one
				got := x.wantStatus(x.call(x.one, "POST", "/checkouts", body), 201)
				if got.text("customerId") != id || got.text("reference") != id ||
					got.text("idempotencyKey") != x.key(i) {
					x.t.Errorf("%q: got %s, want its own checkout", id, got.raw)
				}
			}
		}
	},
	"organization createBatchPayout body rows.customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			row := batchRow("r", stranger, "1000")
			row["customerId"] = id
			got := x.call(x.one, "POST", "/batch-payouts", map[string]any{
				"rows": []any{row}, "idempotencyKey": fmt.Sprint("alike-", i),
			})
			if got.status == 400 {
				continue // a label that a list cannot have is refused whole, and never changed
			}
			items := x.wantStatus(x.call(x.one, "GET",
				"/batch-payouts/"+x.wantStatus(got, 201).text("batchPayoutId")+"/items", nil), 200).list()
			if len(items) != 1 || items[0]["customerId"] != id {
				x.t.Errorf("%q: got %v, want its own label", id, items)
			}
		}
	},
	"organization listCheckouts query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/checkouts?", "customerId", fieldsOf("customerId"))
	},
	"organization listCheckouts query reference": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/checkouts?", "reference", fieldsOf("reference"))
	},
	"organization listDepositSwaps query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/deposit-swaps?", "customerId", fieldsOf("customerId"))
	},
	"operator listDepositSwaps query customerId": func(x *similarCustomers) {
		x.only(x.desk, x.ann, "/deposit-swaps?", "customerId", fieldsOf("customerId"))
	},
	"organization listDepositSwaps query idempotencyKey": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/deposit-swaps?", "idempotencyKey", fieldsOf("idempotencyKey"))
	},
	"organization listOrganizationSwaps query idempotencyKey": func(x *similarCustomers) {
		x.openOwnSwaps(x.one)
		for i := range x.ids {
			x.makeOwnSwap(x.one, x.key(i))
		}
		x.only(x.testEnv, x.one, "/organization-swaps?", "idempotencyKey", fieldsOf("idempotencyKey"))
	},
	"organization listCustomerSwaps query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/customer-swaps?", "customerId", fieldsOf("customerId"))
	},
	"operator listSwaps query customerId": func(x *similarCustomers) {
		x.only(x.desk, x.ann, "/swaps?", "customerId", fieldsOf("customerId"))
	},
	"organization listCustomerSwaps query idempotencyKey": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/customer-swaps?", "idempotencyKey", fieldsOf("idempotencyKey"))
	},
	"organization listLedgerEntries query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/ledger/entries?", "customerId", fieldsOf("account.customerId"))
	},
	"organization listCustomers query customerId": func(x *similarCustomers) {
		x.only(x.testEnv, x.one, "/customers?", "customerId", fieldsOf("customerId"))
		// Page by page each is listed once.
		seen := map[string]int{}
		for path := "/customers?limit=1&order=asc"; ; {
			page := x.wantStatus(x.call(x.one, "GET", path, nil), 200)
			for _, c := range page.list() {
				seen[c["customerId"].(string)]++
			}
			if page.body["hasMore"] != true {
				break
			}
			path = "/customers?limit=1&order=asc&cursor=" + page.text("nextCursor")
		}
		for _, id := range x.ids {
			if seen[id] != 1 {
				x.t.Errorf("%q: got it %d times over the pages, want once", id, seen[id])
			}
		}
	},
	"organization getCustomer path customerId": func(x *similarCustomers) {
		for _, id := range x.ids {
			if got := x.wantStatus(
				x.call(x.one, "GET", atCustomer("/customers/{customerId}", id), nil), 200,
			); got.text("customerId") != id {
				x.t.Errorf("%q: got %s", id, got.raw)
			}
		}
		for _, id := range idtest.Refused {
			if customer.CheckNewID(id) == nil {
				x.t.Errorf("%q: got it taken, want it refused", id)
			}
			if id == "" || strings.Contains(id, "..") ||
				strings.Trim(strings.ReplaceAll(strings.ToLower(id), "%2e", "."), ".") == "" {
				continue // not an id of a path
			}
			x.wantRefusal(id, x.call(x.one, "GET", atCustomer("/customers/{customerId}", id), nil), 404, "NOT_FOUND",
				"")
		}
	},
	"organization updateCustomer path customerId": func(x *similarCustomers) {
		for _, id := range x.ids {
			x.wantStatus(x.call(
				x.one, "PATCH", atCustomer("/customers/{customerId}", id),
				map[string]any{"metadata": map[string]any{"of": id}},
			), 200)
		}
		for _, id := range x.ids {
			got := x.wantStatus(x.call(x.one, "GET", atCustomer("/customers/{customerId}", id), nil), 200)
			if m, _ := got.body["metadata"].(map[string]any); m["of"] != id {
				x.t.Errorf("%q: got %s, want what was written of it", id, got.raw)
			}
		}
	},
	"organization freezeCustomer path customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			x.wantStatus(x.call(
				x.one, "POST", atCustomer("/customers/{customerId}/freeze", id), map[string]any{"reason": "case"},
			), 200)
			x.stopped(i)
			x.wantStatus(x.call(x.one, "POST", atCustomer("/customers/{customerId}/unfreeze", id), nil), 200)
		}
	},
	"organization unfreezeCustomer path customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			other := x.near(i)[1]
			for _, c := range []string{id, other} {
				x.wantStatus(x.call(
					x.one, "POST", atCustomer("/customers/{customerId}/freeze", c), map[string]any{"reason": "case"},
				), 200)
			}
			x.wantStatus(x.call(x.one, "POST", atCustomer("/customers/{customerId}/unfreeze", other), nil), 200)
			x.stopped(i)
			x.wantStatus(x.call(x.one, "POST", atCustomer("/customers/{customerId}/unfreeze", id), nil), 200)
		}
	},
	"organization listCustomerBalances path customerId": func(x *similarCustomers) { x.balances("at last") },
	"organization createWebhookEndpoint body filters.customerId": func(x *similarCustomers) {
		x.fanOutEvents()
		for i, id := range x.ids {
			made := x.wantStatus(x.call(x.one, "POST", "/webhook-endpoints", map[string]any{
				"url":    "https://example.com/hook",
				"events": []string{"TRANSFER_COMPLETED"}, "filters": map[string]any{"customerId": id},
			}), 201)
			path := "/webhook-endpoints/" + made.text("endpointId")
			x.pay(id, fmt.Sprint("heard-at-first-", i))
			x.pay(x.near(i)[0], fmt.Sprint("not-heard-at-first-", i))
			x.fanOutEvents()
			var told, others int
			if err := x.owner.QueryRow(x.t.Context(), `
				SELECT count(*) FILTER (WHERE e.customer_id = $2), count(*) FILTER (WHERE e.customer_id IS DISTINCT FROM $2)
				FROM deliveries d JOIN events e USING (event_id) WHERE d.endpoint_id = $1`,
				made.text("endpointId"), id).Scan(&told, &others); err != nil || told != 1 || others != 0 {
				x.t.Errorf("%q: got %d and %d of others %v, want 1 and none", id, told, others, err)
			}
			x.wantStatus(x.call(x.one, "DELETE", path, nil), 204)
		}
	},
	"organization updateWebhookEndpoint body filters.customerId": func(x *similarCustomers) {
		x.deliverEvents()
		for i, id := range x.ids {
			x.wantStatus(x.call(
				x.one, "PATCH", "/webhook-endpoints/"+x.listen,
				map[string]any{"filters": map[string]any{"customerId": id}},
			), 200)
			before := len(x.ear.bodies())
			for _, payer := range append(x.near(i), id) {
				x.pay(payer, fmt.Sprint("heard-", x.keys()))
			}
			x.deliverEvents()
			got := x.ear.bodies()[before:]
			var told struct {
				Data struct {
					From struct{ CustomerID string }
				}
			}
			if len(got) != 1 || json.Unmarshal([]byte(got[0]), &told) != nil || told.Data.From.CustomerID != id {
				x.t.Errorf("%q: got %v, want what it paid alone", id, got)
			}
		}
	},
	"operator createFreeze body customerId": func(x *similarCustomers) {
		for i, id := range x.ids {
			put := map[string]any{"scope": "CUSTOMER", "organizationId": x.one.id, "customerId": id, "reason": "case"}
			made := x.desk.wantStatus(x.desk.call(x.ann, "POST", "/freezes", put), 201)
			if made.text("customerId") != id {
				x.t.Errorf("%q: got %s", id, made.raw)
			}
			x.stopped(i)
			x.desk.wantStatus(x.desk.call(x.ann, "DELETE", "/freezes/"+made.text("freezeId"), nil), 200)
		}
		if got := x.frozen(x.one); len(got) != 0 {
			x.t.Errorf("lifted: got %q frozen", got)
		}
	},
	"operator changeSettings body approvalAllowlist.customerId": func(x *similarCustomers) {
		x.setting(x.one, "customerWithdrawUsdThreshold", "0.0005")
		for i, id := range x.ids {
			x.setting(x.one, "approvalAllowlist", []any{map[string]any{"email": mailbox, "customerId": id}})
			for _, c := range append(x.near(i), id) {
				got := x.wantStatus(
					x.call(x.one, "POST", "/withdraw/preview", payment("customerId", c, "amount", "600")), 200,
				).text("wouldBe")
				if want := map[bool]string{true: "PROCESSING", false: "AWAITING_APPROVAL"}[c == id]; got != want {
					x.t.Errorf("%q while %q is on the list: got %s, want %s", c, id, got, want)
				}
			}
		}
		x.setting(x.one, "approvalAllowlist", []any{})
		x.setting(x.one, "customerWithdrawUsdThreshold", nil)
	},
}

// TestCustomersWithIdsAlikeShareNothing finds every call that takes a customer's id, or an
// organization's own text that filters a list, and passes the awkward ids through it. Rule IDEM-1.
func TestCustomersWithIdsAlikeShareNothing(t *testing.T) {
	t.Parallel()
	x := newSimilarCustomers(t)
	left := maps.Clone(places)
	var order []string
	for _, p := range taking() {
		if p.name != "customerId" && p.name != "reference" && p.name != "idempotencyKey" ||
			p.where == "body" && p.name != "customerId" {
			continue
		}
		if left[p.String()] == nil {
			t.Errorf("%s stands nowhere in places: show that it takes no id for another", p)
			continue
		}
		delete(left, p.String())
		order = append(order, p.String())
	}
	for name := range left {
		t.Errorf("%s stands in places and in no call", name)
	}
	// Writes come before reads, and the balances last.
	slices.SortStableFunc(order, func(a, b string) int {
		rank := func(s string) int {
			switch {
			case strings.HasSuffix(s, "listCustomerBalances path customerId"):
				return 2
			case strings.Contains(s, " list"):
				return 1
			}
			return 0
		}
		return cmp.Compare(rank(a), rank(b))
	})
	for _, name := range order {
		places[name](x)
	}
	// A cursor of one list continues that list alone.
	for i, id := range x.ids {
		page := x.wantStatus(x.call(x.one, "GET", "/transfers?limit=1&"+url.Values{"customerId": {id}}.Encode(), nil),
			200)
		for _, other := range x.near(i) {
			path := "/transfers?limit=1&" + url.Values{
				"customerId": {other}, "cursor": {page.text("nextCursor")},
			}.Encode()
			x.wantRefusal(path, x.call(x.one, "GET", path, nil), 400, "INVALID_CURSOR", "cursor")
		}
	}
}

// taker is a place of a call that takes an id.
type taker struct {
	face, call, where, name, path string
	r                             kernel.Route
}

func (p taker) String() string {
	return p.face + " " + p.call + " " + p.where + " " + cmp.Or(p.path, p.name)
}

// taking lists every place of both interfaces that takes an id or another text that is compared.
func taking() (all []taker) {
	for _, face := range []struct {
		name   string
		routes []kernel.Route
	}{{"organization", organizations.Routes}, {"operator", operators.Routes}} {
		for _, r := range face.routes {
			if r.NeedsNoKey {
				continue
			}
			for _, m := range placeholder.FindAllStringSubmatch(r.Path, -1) {
				all = append(all, taker{face.name, r.Name, "path", m[1], "", r})
			}
			for _, p := range r.Query {
				if p.Kind == kernel.TextParameter && p.Name != "cursor" {
					all = append(all, taker{face.name, r.Name, "query", p.Name, "", r})
				}
			}
			if r.HasBody() {
				eachText(reflect.TypeOf(r.RequestExample()), "", func(path string) {
					name := path[strings.LastIndex(path, ".")+1:]
					all = append(all, taker{face.name, r.Name, "body", name, path, r})
				})
			}
		}
	}
	return all
}

// eachText names the members of a body that are ids.
func eachText(of reflect.Type, at string, found func(path string)) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "":
			eachText(f.Type, at, found)
		case inner.Kind() == reflect.String && strings.HasSuffix(name, "Id"):
			found(strings.TrimPrefix(at+"."+name, "."))
		case name != "":
			eachText(f.Type, strings.TrimPrefix(at+"."+name, "."), found)
		}
	}
}

// spelled returns other spellings of an id that the service made, none of which is an id.
func spelled(id string) (all []string) {
	for _, s := range []string{
		strings.ToLower(id), strings.ToUpper(id), strings.Replace(id, "_", "%", 1), strings.Replace(id, "_", "X", 1),
		id[:len(id)-1] + "%", id[:len(id)-1] + "_", id[:len(id)-1], id + "0", id + " ", "%", "_%", "*",
	} {
		if s != id {
			all = append(all, s)
		}
	}
	return all
}

// otherTexts are places of texts other than a customer's id, with the reason why other spellings
// may find the same row.
var otherTexts = map[string]string{
	"address":       "an address is read by the grammar of its chain, and one in hexadecimal has several spellings",
	"txHash":        "a hash in hexadecimal is the same in either case",
	"taxId":         "a tax id is printed as it is given, and names no row",
	"search":        "a search is in any case of letters",
	"chain":         "a chain of a token, which may run nowhere here, is named in any case of letters",
	"originTokenId": "the chain is read in any case of letters, and the contract as its chain writes it",
}

// TestAnotherSpellingOfAnIdFindsNothing passes other spellings of each kind of id that the
// service makes through every place of every call that takes one.
func TestAnotherSpellingOfAnIdFindsNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 2)
	q.setting(q.one, "flaggedDepositApiEnabled", true)
	q.setting(q.one, "additionalApiKeys", true)
	q.testEnv.transfer("one")
	q.openOwnSwaps(q.one)
	q.sequenced()
	endpoint := q.wantStatus(
		q.call(q.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 201,
	).text("endpointId")
	told, _ := q.wantStatus(q.call(q.one, "GET", "/events", nil), 200).list()[0]["id"].(string)
	swapID, depositSwapID := q.makeSwap(q.one, "one"), q.makeDepositSwap(q.one, "one")
	q.bill(swapID)
	checkoutID := q.paidCheckout(q.one, "one", 60_000_000)
	invoiceID := q.issueInvoice(q.one)
	var feeLineID string
	if err := pgtest.Superuser(t, q.db).QueryRow(t.Context(),
		`SELECT fee_line_id FROM fee_lines WHERE invoice_id = $1`, invoiceID).Scan(&feeLineID); err != nil {
		t.Fatal(err)
	}
	// Something is left to be credited.
	q.desk.wantStatus(q.desk.call(q.ann, "POST", "/billing/invoices/"+invoiceID+"/credit", map[string]any{
		"idempotencyKey": "one", "reason": "case", "lines": []any{
			map[string]any{"feeLineId": feeLineID, "amount": "400000000000000"},
		},
	}), 200)
	ids := map[string]string{
		"organizationId": q.one.id, "depositId": q.held[0], "endpointId": endpoint, "eventId": told, "mintId": "1",
		"symbol": "USDC", "name": "house", "swapId": swapID, "depositSwapId": depositSwapID,
		"productId": q.makeProduct(q.one, "one"), "checkoutId": checkoutID,
		"linkId":        q.sellLink(q.one, q.makeLink(q.one, "one")),
		"refundId":      q.makeRefund(q.one, checkoutID, "one").text("refundId"),
		"batchPayoutId": q.makeBatch(q.one, "one").text("batchPayoutId"), "row": "1",
		"provider": "ONE_CLICK", "month": "2026-01", "invoiceId": invoiceID,
		"feeLineId": feeLineID,
		"withdrawalId": q.wantStatus(q.call(q.one, "POST", "/withdraw", payment("requireApproval", true)), 202).
			text("withdrawalId"),
		"apiKeyId": q.wantStatus(
			q.call(q.one, "POST", "/api-keys", map[string]any{"name": "other", "scope": "READ"}), 201,
		).text("apiKeyId"),
		"transferId": q.wantStatus(q.call(q.one, "GET", "/transfers", nil), 200).
			list()[0]["transferId"].(string),
		"jobId": q.wantStatus(q.call(
			q.one, "POST", "/webhook-endpoints/"+endpoint+"/recover", map[string]any{"since": "2026-01-01T00:00:00Z"},
		), 202).text("jobId"),
		"freezeId": q.desk.wantStatus(q.desk.call(
			q.ann, "POST", "/freezes",
			map[string]any{"scope": "CUSTOMER", "organizationId": q.one.id, "customerId": alice, "reason": "case"},
		), 201).text("freezeId"),
		"whitelistedAddressId": q.desk.wantStatus(
			q.desk.call(q.ann, "POST", "/organizations/"+q.one.id+"/whitelisted-addresses", adding(stranger, "x")), 201,
		).text("whitelistedAddressId"),
		"changeRequestId": "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC", // the row does not exist, so it is not found
	}
	written := q.written() + q.decided()
	for _, p := range taking() {
		own, known := ids[p.name]
		switch {
		case p.name == "customerId" || p.name == "reference" || p.name == "idempotencyKey" || otherTexts[p.name] != "":
			continue
		case !known:
			t.Errorf("%s: this test has no %s", p, p.name)
			continue
		}
		at, who := q.testEnv, q.one
		if p.face == "operator" {
			at, who = q.desk, q.ann
		}
		body := p.r.RequestExample()
		if p.r.Method == http.MethodGet || p.r.Method == http.MethodDelete {
			body = nil
		}
		path := placeholder.ReplaceAllStringFunc(p.r.Path, func(s string) string {
			name := strings.Trim(s, "{}")
			if p.where == "path" && name == p.name {
				return s
			}
			return url.PathEscape(ids[name])
		})
		others := spelled(own)
		if p.name == "mintId" {
			others = []string{"01", "+1", "1.0", "1e0", "0x1", "１", " 1"}
		}
		for _, other := range others {
			switch p.where {
			case "path":
				got := at.call(who, p.r.Method, strings.Replace(path, "{"+p.name+"}", url.PathEscape(other), 1), body)
				if got.status != 404 {
					t.Errorf("%s with %q for %q: got %v %s, want 404", p, other, own, got.status, got.raw)
				}
			case "query":
				got := at.call(who, "GET", path+"?"+url.Values{p.name: {other}}.Encode(), nil)
				if !(got.status == 200 && len(got.list()) == 0 || got.status == 400 || got.status == 404) {
					t.Errorf("%s with %q for %q: got %v %s, want nothing", p, other, own, got.status, got.raw)
				}
			case "body":
				raw, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				filled := map[string]any{}
				if err := json.Unmarshal(raw, &filled); err != nil {
					t.Fatal(err)
				}
				filled[p.path] = other
				if got := at.call(who, p.r.Method, path, filled); got.status != 404 && got.status != 400 &&
					got.text("code") != string(fault.AddressNotWhitelisted) {
					t.Errorf("%s with %q for %q: got %v %s, want it refused", p, other, own, got.status, got.raw)
				}
			}
		}
		if p.where == "query" {
			if got := at.wantStatus(
				at.call(who, "GET", path+"?"+url.Values{p.name: {own}}.Encode(), nil), 200,
			); len(got.list()) == 0 && p.call != "listWebhookDeliveries" && p.call != "listChangeRequests" {
				t.Errorf("%s with %q: got %s, want what there is", p, own, got.raw)
			}
		}
	}
	if got := q.written() + q.decided(); got != written {
		t.Errorf("rows: got %s, want %s", got, written)
	}
}

// fanOutEvents numbers the events and creates their deliveries, without sending one.
func (h *testEnv) fanOutEvents() {
	h.t.Helper()
	s := &event.Sequencer{DB: h.db, Environment: webhook.Test, Listener: delivery.FanOut{}}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}
