package withdrawal

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/webhook"
)

// renderSteps returns steps in a comparable form.
func renderSteps(t *testing.T, steps []Step) string {
	t.Helper()
	flat := FlattenSteps(steps)
	for _, m := range flat {
		delete(m, "priceAgeSeconds") // time passes between two requests
	}
	raw, err := json.Marshal(flat)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every row is previewed and then requested in the same environment. The answers are the same, gate
// by gate, and the preview writes nothing. Rule WD-28.
func TestAPreviewSaysWhatTheRequestDoes(t *testing.T) {
	t.Parallel()
	h, _ := newPricedEnv(t)
	h.Prices = fixedPrices(h.DB.Clock()())
	text := func(s string) *string { return &s }
	known := h.mustRequest(h.newRequest()).ToAddress // a known destination that another may look like
	alike := known[:6] + "00000000000000000000000000000000" + known[38:]
	threshold := func(usd string) func() {
		return func() {
			var limit *money.USD
			if usd != "" {
				v := money.MustParseUSD(usd)
				limit = &v
			}
			h.inSystem(func(ctx context.Context, tx pg.Tx) error {
				return org.SetWithdrawThreshold(ctx, tx, audit.Operator("test"), h.org, limit)
			})
		}
	}
	required := func(on bool) func() {
		return func() {
			h.inSystem(func(ctx context.Context, tx pg.Tx) error {
				return org.SetRequireWithdrawIdempotency(ctx, tx, audit.Operator("test"), h.org, on)
			})
		}
	}
	frozen := func(f freeze.Freeze) func() {
		return func() {
			f.Source, f.Reason, f.Actor = freeze.SourceOperator, "test", audit.Operator("test")
			h.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
		}
	}
	thaw := func() {
		h.execAsOwner(`UPDATE freezes SET lifted_at = now(), lifted_by = 'test' WHERE lifted_at IS NULL`)
	}
	for _, c := range []struct {
		name   string
		change func(*Request)
		before func()
		after  func()
		want   string // a status, or the code of a refusal
	}{
		{name: "nothing against it", want: "PROCESSING"},
		{name: "approval asked for", change: func(r *Request) { r.RequireApproval = true }, want: "AWAITING_APPROVAL"},
		{name: "above the threshold", before: threshold("0.0009"), want: "AWAITING_APPROVAL"},
		{name: "at the threshold", before: threshold("0.001"), want: "PROCESSING"},
		{name: "no price", before: func() { h.Prices = nil }, want: "AWAITING_APPROVAL"},
		{
			name:   "an old price",
			before: func() { h.Prices = agedPrice{fixedPrices(h.DB.Clock()()), priceAgeMax * 2} },
			want:   "AWAITING_APPROVAL",
		},
		{
			name: "approval and no price", change: func(r *Request) { r.RequireApproval = true },
			after: func() { threshold("")(); h.Prices = fixedPrices(h.DB.Clock()()) },
			want:  "AWAITING_APPROVAL",
		},
		{
			name:   "looks like a known address",
			change: func(r *Request) { r.ToAddress = strings.ToLower(string(alike)) }, want: "AWAITING_APPROVAL",
		},
		{
			name: "not enough to pay with", change: func(r *Request) { r.Amount = "5000" },
			before: func() { h.execAsOwner(`UPDATE address_funds SET held = credited WHERE mint_id = 1`) },
			after:  func() { h.execAsOwner(`UPDATE address_funds SET held = 0 WHERE mint_id = 1`) },
			want:   "AWAITING_APPROVAL",
		},
		{name: "decimal", change: func(r *Request) { r.Amount, r.UseDecimal = "0.001", true }, want: "PROCESSING"},
		{name: "coin", change: func(r *Request) { r.MintID = eth }, want: "PROCESSING"},
		{
			name:   "coin, its fee deducted",
			change: func(r *Request) { r.MintID, r.Amount, r.FeeMode = eth, "500000000000000", FeeDeducted },
			want:   "PROCESSING",
		},
		{name: "coin, its fee above the limit", change: func(r *Request) {
			r.MintID, r.Amount, r.FeeMode, r.MaxNetworkFee = eth, "100000000000000", FeeDeducted, text("1")
		}, want: "AWAITING_APPROVAL"},
		{
			name: "a fee above the limit", change: func(r *Request) { r.MaxNetworkFee = text("1") },
			want: "AWAITING_APPROVAL",
		},
		{
			name:   "a fee within the limit",
			change: func(r *Request) { r.MaxNetworkFee = text("1000000000000000000") }, want: "PROCESSING",
		},
		{name: "new key", change: func(r *Request) { r.IdempotencyKey = text("k-1") }, want: "PROCESSING"},

		{
			name: "less than the fee", change: func(r *Request) { r.MintID, r.FeeMode = eth, FeeDeducted },
			want: "AMOUNT_BELOW_MINIMUM",
		},
		{name: "a token's fee deducted", change: func(r *Request) { r.FeeMode = FeeDeducted }, want: "INVALID_REQUEST"},
		{
			name: "a limit that is none", change: func(r *Request) { r.MaxNetworkFee = text("x") },
			want: "INVALID_AMOUNT",
		},
		{
			name:   "the key of another",
			change: func(r *Request) { r.IdempotencyKey, r.Amount = text("k-1"), "2000" },
			want:   "IDEMPOTENCY_CONFLICT",
		},
		{name: "malformed key", change: func(r *Request) { r.IdempotencyKey = text("k 1") }, want: "INVALID_REQUEST"},
		{name: "no key where one is demanded", before: required(true), after: required(false), want: "INVALID_REQUEST"},
		{name: "unknown mint", change: func(r *Request) { r.MintID = 99 }, want: "MINT_NOT_FOUND"},
		{name: "malformed amount", change: func(r *Request) { r.Amount = "1e3" }, want: "INVALID_AMOUNT"},
		{name: "below the minimum", change: func(r *Request) { r.Amount = "9" }, want: "AMOUNT_BELOW_MINIMUM"},
		{name: "malformed address", change: func(r *Request) { r.ToAddress = "0x0" }, want: "INVALID_ADDRESS"},
		{
			name:   "nobody's address",
			change: func(r *Request) { r.ToAddress = "0x0000000000000000000000000000000000000000" },
			want:   "DESTINATION_NOT_ALLOWED",
		},
		{
			name: "the token itself", change: func(r *Request) { r.ToAddress = string(usdcAddress) },
			want: "DESTINATION_NOT_ALLOWED",
		},
		{name: "more than the " +
			"balance", change: func(r *Request) { r.Amount = "100000000" }, want: "INSUFFICIENT_BALANCE"},
		{name: "unknown customer", change: func(r *Request) { r.CustomerID = "nobody" }, want: "INSUFFICIENT_BALANCE"},
		{name: "memo", change: func(r *Request) { r.Memo = text("7") }, want: "INVALID_REQUEST"},
		{name: "quarantined", before: func() {
			h.inSystem(func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, usdc, "test") })
		}, after: func() {
			h.execAsOwner(
				`UPDATE mints SET quarantined_at = NULL, quarantine_reason = NULL`,
			)
		}, want: "WITHDRAWALS_SUSPENDED"},
		{
			name:   "chain stopped",
			before: frozen(freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum}), after: thaw,
			want: "WITHDRAWALS_SUSPENDED",
		},
		{
			name:   "customer frozen",
			before: frozen(freeze.Freeze{Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: alice}),
			after:  thaw, want: "CUSTOMER_FROZEN",
		},
		{
			name:   "organization frozen",
			before: frozen(freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: h.org}), after: thaw,
			want: "ORGANIZATION_FROZEN",
		},
	} {
		if c.before != nil {
			c.before()
		}
		r := h.newRequest()
		if c.change != nil {
			c.change(&r)
		}
		rows := h.dumpRows()
		told, err := h.Preview(t.Context(), h.org, r)
		if got := h.dumpRows(); got != rows {
			t.Fatalf("%s: rows after asking: got %v, want %v", c.name, got, rows)
		}
		done, replayed, doneErr := h.Request(t.Context(), h.org, r)
		if replayed {
			t.Fatalf("%s: got a replay", c.name)
		}
		switch f, g := fault.Find(err), fault.Find(doneErr); {
		case (err == nil) != (doneErr == nil):
			t.Errorf("%s: the preview said %v, the request %v", c.name, err, doneErr)
		case err != nil && (f == nil || g == nil):
			t.Errorf("%s: got %v and %v, want refusals", c.name, err, doneErr)
		case err != nil:
			said := maps.Clone(f.Details)
			delete(said, "gates")
			if f.Code != g.Code || f.Kind != g.Kind || f.Effect != g.Effect || f.Reason != g.Reason ||
				f.Advice != g.Advice || f.Param != g.Param ||
				len(said) != len(g.Details) || string(f.Code) != c.want {
				t.Errorf(
					"%s: the preview said %v on %q, the request %v on %q, want %s", c.name, f, f.Param, g,
					g.Param, c.want,
				)
			}
		default:
			reasons := make([]string, 0, len(told.Reasons))
			for _, reason := range told.Reasons {
				reasons = append(reasons, string(reason))
			}
			if string(told.WouldBe) != string(done.Status) || string(done.Status) != c.want ||
				strings.Join(reasons, " ") != strings.Join(reasonTexts(done.ApprovalReasons), " ") {
				t.Errorf(
					"%s: the preview said %s %v, it became %s %v, want %s", c.name, told.WouldBe, reasons,
					done.Status, done.ApprovalReasons, c.want,
				)
			}
			if a, b := renderSteps(t, told.Gates), renderSteps(t, h.loadDecisions(done.ID)[0].Gates); a != b {
				t.Errorf("%s: the preview's gates\n%s\nthe record's\n%s", c.name, a, b)
			}
			if told.NetworkFee == nil || *told.NetworkFeeMintID != eth || told.ExistingID != "" {
				t.Errorf("%s: got %+v, want the fee of the coin", c.name, told)
			}
			if done.FeeMode == FeeDeducted && done.Status == "PROCESSING" &&
				done.NetworkFee.String() != told.NetworkFee.String() {
				t.Errorf("%s: the preview said a fee of %v, it became %v", c.name, told.NetworkFee, *done.NetworkFee)
			}
		}
		if c.after != nil {
			c.after()
		}
	}

	// A known key creates nothing.
	r := h.newRequest()
	r.IdempotencyKey = text("k-1")
	first, replayed, err := h.Request(t.Context(), h.org, r)
	if err != nil || !replayed {
		t.Fatalf("got %v %v, want the first one again", replayed, err)
	}
	told, err := h.Preview(t.Context(), h.org, r)
	if err != nil || told.ExistingID != first.ID || string(told.WouldBe) != string(first.Status) ||
		len(told.Gates) != 0 {
		t.Errorf("got %+v %v, want the withdrawal that has the key", told, err)
	}
}

// A preview for an organization that never paid creates no wallet.
func TestAPreviewMakesNoTreasury(t *testing.T) {
	t.Parallel()
	h, _ := newPricedEnv(t)
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	before := h.dumpRows()
	_, err = h.Preview(t.Context(), other.ID, h.newRequest())
	wantFault(t, err, fault.InsufficientBalance)
	if got := h.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// The digest of a request without the newer fields is what it was when its key was taken. Rule
// IDEM-1.
func TestKeysFromBeforeTheNewFieldsAreKnown(t *testing.T) {
	t.Parallel()
	p := parsed{mint: newMints()[0], amount: money.Units(1000), destination: stranger}
	r := Request{CustomerID: alice, RequireApproval: true}
	const before = "abb42ca6903d8fae7bede7ad49222f83c5047342e580b7bc3c2fc2ec6d1ca9e9"
	if got := hex.EncodeToString(requestDigest(r, p)); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
	rule := `{"a":"b"}`
	seen := map[string]string{}
	for name, change := range map[string]func(*parsed){
		"as before":    func(*parsed) {},
		"fee deducted": func(p *parsed) { p.deductsFee = true },
		"fee limited":  func(p *parsed) { p.feeMax = amountPointer(7) },
		"other limit":  func(p *parsed) { p.feeMax = amountPointer(8) },
		"travel rule":  func(p *parsed) { p.travelRule = &rule },
	} {
		q := p
		change(&q)
		d := hex.EncodeToString(requestDigest(r, q))
		if other, there := seen[d]; there {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[d] = name
	}
}

// Rule WD-29.
func TestWhatTheCallerGivesAlongComesBackAndTheEventsCarryItsHandles(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key, reference := "payout-1", "order-77"
	r := h.newRequest()
	r.RequireApproval, r.IdempotencyKey, r.Reference = true, &key, &reference
	r.Metadata = map[string]string{"tier": "gold"}
	r.TravelRule = json.RawMessage("{\"beneficiary\": {\"name\": \"Ann\"},\n \"amounts\": [1, null]}")
	w := h.mustRequest(r)
	if got := string(w.TravelRule); !strings.Contains(got, `"name"`) || !strings.Contains(got, `null`) {
		t.Errorf("got %s, want what was said of the parties", got)
	}
	r.TravelRule = json.RawMessage(`{"amounts":[1,null],"beneficiary":{"name":"Ann"}}`)
	if again, replayed, err := h.Request(t.Context(), h.org, r); err != nil || !replayed ||
		again.ID != w.ID {
		t.Errorf("spelled otherwise: got %v %v, want a replay", replayed, err)
	}
	r.TravelRule = nil
	_, _, err := h.Request(t.Context(), h.org, r)
	wantFault(t, err, fault.IdempotencyConflict)
	if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
		t.Fatal(err)
	}
	var told []webhook.Withdrawal
	rows, err := pgtest.OwnerPool(t, h.DB).Query(
		t.Context(), `SELECT data FROM events WHERE resource_id = $1 ORDER BY resource_seq`, w.ID,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		var e webhook.Withdrawal
		if err := rows.Scan(&raw); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "travelRule") || strings.Contains(string(raw), "Ann") {
			t.Errorf("an event names the parties: %s", raw)
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		told = append(told, e)
	}
	if len(told) != 2 {
		t.Fatalf("got %d events, want 2", len(told))
	}
	for _, e := range told {
		if e.IdempotencyKey == nil || *e.IdempotencyKey != key || e.Reference == nil ||
			*e.Reference != reference || e.Metadata["tier"] != "gold" {
			t.Errorf("got %+v, want the caller's handles", e)
		}
	}

	for name, raw := range map[string]string{
		"a list": `[]`, "a text": `"x"`, "null": `null`, "no JSON": `{`, "two members of one name": `{"a":1,"a":2}`,
		"a zero character": `{"a":"\u0000"}`, "too long": `{"a":"` + strings.Repeat("x", 4096) + `"}`,
		"a lone surrogate": `{"a":"\ud800"}`,
	} {
		r := h.newRequest()
		r.TravelRule = json.RawMessage(raw)
		_, _, err := h.Request(t.Context(), h.org, r)
		if f := fault.Find(err); f == nil || f.Code != fault.InvalidRequest || f.Param != "travelRule" {
			t.Errorf("%s: got %v, want %v on travelRule", name, err, fault.InvalidRequest)
		}
	}
}

func TestAKeyFindsAPaymentOfWhichOnlyItsHashIsLeft(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := "payout-1"
	w := h.requestHeld()
	h.execAsOwner(`UPDATE withdrawals SET restored_at = now(), restored_key_hash = '` + keyHash(&key) + `'`)
	found, err := h.List(t.Context(), h.org, Filter{IdempotencyKey: key}, pagination.Page{})
	if err != nil || len(found.Items) != 1 || found.Items[0].ID != w.ID {
		t.Errorf("got %+v %v, want the payment", found.Items, err)
	}
	found, err = h.List(t.Context(), h.org, Filter{IdempotencyKey: "payout"}, pagination.Page{})
	if err != nil || len(found.Items) != 0 {
		t.Errorf("another key: got %+v %v, want nothing", found.Items, err)
	}
}

// The gates of a refused preview are those of the refusal, the last one being the one that refused.
func TestTheGatesOfARefusedPreviewAreRead(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 999)
	_, err := o.PreviewOrganization(t.Context(), o.ann, newOrgRequest())
	refusal := fault.Find(err)
	if refusal == nil || refusal.Code != fault.InsufficientBalance {
		t.Fatalf("got %v, want too small a balance", err)
	}
	steps := RefusedSteps(refusal)
	if len(steps) < 2 {
		t.Fatalf("got %v, want every gate that ran", steps)
	}
	last := steps[len(steps)-1]
	if last.Gate != GateBalance || last.Result != ResultRefuse || last.Inputs["available"] != "999" {
		t.Errorf("got %+v, want the balance", last)
	}
	if got, want := FlattenSteps(steps), refusal.Details["gates"].([]map[string]string); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// A refusal before the gates has none.
	missing := newOrgRequest()
	missing.Amount = "x"
	_, err = o.PreviewOrganization(t.Context(), o.ann, missing)
	if steps := RefusedSteps(fault.Find(err)); steps != nil {
		t.Errorf("got %v, want no gates", steps)
	}
}
