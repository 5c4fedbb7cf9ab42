package surfacetest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
)

// everybodys are parameters that do not identify a resource of an organization.
var everybodys = []string{"mintId", "row"}

// absentID has the form of an id and identifies nothing.
func absentID(of string) string {
	prefix, _, ok := strings.Cut(of, "_")
	if !ok {
		return "nobody"
	}
	return prefix + "_01J9ZW3M8Q4S5T6V7W8X9YZABC"
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// Rule AUTH-2 (I-41): in every call of the table and for every kind of id, a resource of another
// organization is answered like one that does not exist, and is in no list. A call with a parameter
// for which this test has no id fails it.
func TestNothingOfAnotherOrganizationIsThereInAnyCall(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 2)
	for _, who := range []tenant{q.one, q.two} {
		q.setting(who, "flaggedDepositApiEnabled", true)
	}
	q.sequenced()
	endpoint := q.wantStatus(
		q.call(q.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 201,
	).text("endpointId")
	events := q.wantStatus(q.call(q.one, "GET", "/events", nil), 200).list()
	if len(events) == 0 {
		t.Fatal("got no events")
	}
	eventID, _ := events[0]["id"].(string)
	waits := q.wantStatus(q.call(q.one, "POST", "/withdraw", payment("requireApproval", true)), 202).
		text("withdrawalId")
	moved := q.wantStatus(q.call(q.one, "POST", "/transfers", map[string]any{
		"mintId": usdc, "amount": "5", "from": map[string]any{"customerId": alice},
		"to": map[string]any{"customerId": "bob"}, "idempotencyKey": "k",
	}), 201).text("transferId")
	for _, who := range []tenant{q.one, q.two} {
		q.allowKeys(who, true)
	}
	q.openSwaps(q.two)
	q.openOwnSwaps(q.one)
	swapID, depositSwapID := q.makeSwap(q.one, "s"), q.makeDepositSwap(q.one, "s")
	ownSwapID := q.makeOwnSwap(q.one, "s")
	productID, checkoutID := q.makeProduct(q.one, "s"), q.makeCheckout(q.one, "s")
	linkID := q.makeLink(q.one, "l")
	refundID := q.makeRefund(q.one, q.paidCheckout(q.one, "refunded", 60_000_000), "r").text("refundId")
	_, keyID := q.testEnv.key(q.one, "READ")
	job := q.wantStatus(q.call(
		q.one, "POST", "/webhook-endpoints/"+endpoint+"/recover", map[string]any{"since": "2026-01-01T00:00:00Z"},
	), 202).text("jobId")
	ids := map[string]string{
		"depositId": q.held[0], "withdrawalId": waits, "transferId": moved, "endpointId": endpoint, "eventId": eventID,
		"jobId": job, "customerId": alice, "apiKeyId": keyID, "swapId": swapID,
		"depositSwapId": depositSwapID, "productId": productID, "checkoutId": checkoutID, "linkId": linkID,
		"batchPayoutId": q.makeBatch(q.one, "s").text("batchPayoutId"),
		"refundId":      refundID, "invoiceId": q.issueInvoice(q.one),
		"the swapId of an organization swap": ownSwapID,
	}
	for name, v := range ids {
		if v == "" {
			t.Fatalf("%s: there is none", name)
		}
	}
	before := q.rowCounts() + q.decided()
	for _, r := range slices.Concat(organizations.Routes, organizations.Forbidden) {
		names := placeholder.FindAllStringSubmatch(r.Path, -1)
		body := r.RequestExample()
		if r.Method == http.MethodGet || r.Method == http.MethodDelete {
			body = nil
		}
		for _, n := range names {
			own, known := ids[n[1]]
			if slices.Contains(everybodys, n[1]) {
				continue
			}
			if !known {
				t.Errorf("%s %s: this test has no %s of another organization", r.Method, r.Path, n[1])
				continue
			}
			// The kind of the parameter, and every other.
			for kind, id := range ids {
				foreign := q.call(q.two, r.Method, strings.Replace(r.Path, n[0], url.PathEscape(id), 1), body)
				absent := q.call(q.two, r.Method, strings.Replace(r.Path, n[0], url.PathEscape(absentID(id)), 1), body)
				if id == own && foreign.status != 404 &&
					(foreign.status != 403 || foreign.text("code") != string(fault.OperatorOnly)) {
					t.Errorf("%s %s: another's %s: got %v %s, want 404", r.Method, r.Path, kind, foreign.status,
						foreign.raw)
				}
				if a, b := bare404(foreign, id), bare404(absent, absentID(id)); foreign.status != absent.status ||
					a != b {
					t.Errorf("%s %s: another's %s is answered %v %s, and an id that does not exist %v %s", r.Method, r.Path, kind,
						foreign.status, a, absent.status, b)
				}
			}
		}
		if r.Method != http.MethodGet || len(names) > 0 {
			continue
		}
		// Lists, and each of their filters that takes an id.
		paths := []string{r.Path}
		for _, p := range r.Query {
			if id, ok := ids[p.Name]; ok {
				paths = append(paths, r.Path+"?"+url.Values{p.Name: {id}}.Encode())
			}
		}
		for _, path := range paths {
			got := q.call(q.two, "GET", path, nil)
			if got.status != 200 {
				t.Errorf("%s: got %v %s, want 200", path, got.status, got.raw)
			}
			if r.NeedsNoKey {
				continue // the document itself, and resources that all organizations read
			}
			for kind, id := range ids {
				if strings.Contains(string(got.raw), `"`+id+`"`) {
					t.Errorf("%s: got another's %s in %s", path, kind, got.raw)
				}
			}
		}
	}
	if after := q.rowCounts() + q.decided(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
}

// bare404 returns an answer without the request's own values.
func bare404(r reply, id string) string {
	return strings.NewReplacer(r.text("requestId"), "", id, "").Replace(string(r.raw))
}

// Rule OP-1 (I-41). No key of an organization reaches a call of the operators.
func TestNoOrganizationReachesACallOfTheOperators(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.sequenced()
	frozen := q.desk.wantStatus(q.desk.call(
		q.ann, "POST", "/freezes",
		map[string]any{"scope": "CUSTOMER", "organizationId": q.one.id, "customerId": alice, "reason": "test"},
	), 201).text("freezeId")
	fill := strings.NewReplacer("{organizationId}", q.two.id, "{depositId}", q.held[0], "{freezeId}", frozen,
		"{changeRequestId}", "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC", "{address}", stranger)
	before := q.written() + q.decided()
	for _, r := range operators.Routes {
		if r.NeedsNoKey {
			continue
		}
		path := fill.Replace(r.Path)
		if strings.Contains(path, "{") && !strings.Contains(path, "%7B") {
			path = placeholder.ReplaceAllString(path, "x")
		}
		body := r.RequestExample()
		if r.Method == http.MethodGet || r.Method == http.MethodDelete {
			body = nil
		}
		q.desk.wantRefusal(r.Method+" "+path+" with an organization's key",
			q.desk.call(tenant{key: q.two.key}, r.Method, path, body), 401, "UNAUTHORIZED", "")
		if slices.ContainsFunc(
			slices.Concat(organizations.Routes, organizations.Forbidden),
			func(o kernel.Route) bool { return o.Method == r.Method && o.Path == r.Path },
		) {
			continue // another call of the same name, with an organization's own
		}
		if got := q.testEnv.call(q.two, r.Method, path, body); got.status != 404 && got.status != 405 {
			t.Errorf("%s %s at the organizations' listener: got %v %s, want nothing there", r.Method, path, got.status,
				got.raw)
		}
	}
	if after := q.written() + q.decided(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
}
