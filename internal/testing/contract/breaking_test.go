package contract

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// at returns a part of a document by its keys.
func at(t *testing.T, v any, path ...string) map[string]any {
	t.Helper()
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok || m[key] == nil {
			t.Fatalf("the document has nothing at %q", path)
		}
		v = m[key]
	}
	return v.(map[string]any)
}

func schema(t *testing.T, d any, path ...string) map[string]any {
	t.Helper()
	return at(t, d, append([]string{"components", "schemas"}, path...)...)
}

func without(list any, name string) []any {
	return slices.DeleteFunc(slices.Clone(list.([]any)), func(v any) bool { return v == name })
}

// Every kind of change, made in the published document, and the expected message. An empty want is
// a change that breaks no client.
func TestBreakingChangesAreNamed(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../http/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = StripTexts(raw); err != nil { // most changes are in texts, and break no client
		t.Fatal(err)
	}
	before, err := ParseDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		plant func(t *testing.T, d map[string]any)
		want  string
	}{
		"nothing": {func(*testing.T, map[string]any) {}, ""},
		"a call goes": {
			func(t *testing.T, d map[string]any) { delete(at(t, d, "paths", "/transfers"), "post") },
			"POST /transfers was removed",
		},
		"a path goes": {
			func(t *testing.T, d map[string]any) { delete(at(t, d, "paths"), "/balances") },
			"GET /balances was removed",
		},
		"a call is renamed": {
			func(t *testing.T, d map[string]any) { at(t, d, "paths", "/withdraw", "post")["operationId"] = "pay" },
			"POST /withdraw is named pay now",
		},
		"an open call closes": {
			func(t *testing.T, d map[string]any) { delete(at(t, d, "paths", "/openapi.json", "get"), "security") },
			"GET /openapi.json needs a key now",
		},
		"a repeat is forbidden": {
			func(t *testing.T, d map[string]any) { at(t, d, "paths", "/deposit", "post")["x-repeat"] = "NEVER" },
			"POST /deposit may be repeated NEVER and was ALWAYS",
		},
		"a repeat is allowed": {
			func(t *testing.T, d map[string]any) { at(t, d, "paths", "/withdraw", "post")["x-repeat"] = "ALWAYS" }, "",
		},
		"a call comes": {func(t *testing.T, d map[string]any) {
			at(t, d, "paths")["/new"] = map[string]any{"get": at(t, d, "paths", "/balances", "get")}
		}, ""},
		"words come": {
			func(t *testing.T, d map[string]any) { schema(t, d, "Deposit")["description"] = "Other words." }, "",
		},

		"a parameter goes": {func(t *testing.T, d map[string]any) {
			op := at(t, d, "paths", "/deposits", "get")
			op["parameters"] = op["parameters"].([]any)[1:]
		}, "GET /deposits has no query parameter customerId any more: a request with it is refused"},
		"a parameter is required": {func(t *testing.T, d map[string]any) {
			at(t, d, "paths", "/deposits", "get")["parameters"].([]any)[0].(map[string]any)["required"] = true
		}, "GET /deposits requires the query parameter customerId now"},
		"a required parameter comes": {func(t *testing.T, d map[string]any) {
			op := at(t, d, "paths", "/balances", "get")
			op["parameters"] = []any{map[string]any{
				"name": "product", "in": "query", "required": true, "schema": map[string]any{"type": "string"},
			}}
		}, "GET /balances requires the new query parameter product"},
		"an optional parameter comes": {func(t *testing.T, d map[string]any) {
			op := at(t, d, "paths", "/balances", "get")
			op["parameters"] = []any{map[string]any{
				"name": "product", "in": "query", "schema": map[string]any{"type": "string"},
			}}
		}, ""},
		"a parameter's range shrinks": {func(t *testing.T, d map[string]any) {
			for _, p := range at(t, d, "paths", "/deposits", "get")["parameters"].([]any) {
				if p := p.(map[string]any); p["name"] == "limit" {
					p["schema"].(map[string]any)["maximum"] = 10
				}
			}
		}, "GET /deposits, query parameter limit has the maximum 10 and had 200"},
		"a parameter's range grows": {func(t *testing.T, d map[string]any) {
			for _, p := range at(t, d, "paths", "/deposits", "get")["parameters"].([]any) {
				if p := p.(map[string]any); p["name"] == "limit" {
					p["schema"].(map[string]any)["maximum"] = 1000
				}
			}
		}, ""},

		"a word is not taken": {func(t *testing.T, d map[string]any) {
			p := at(
				t, d, "paths", "/events", "get",
			)["parameters"].([]any)[1].(map[string]any)["schema"].(map[string]any)
			p["pattern"] = strings.ReplaceAll(p["pattern"].(string), "CUSTOMER_SWAP_FAILED|", "")
		}, "GET /events, query parameter types does not accept CUSTOMER_SWAP_FAILED any more"},
		"one more word is taken": {func(t *testing.T, d map[string]any) {
			p := at(
				t, d, "paths", "/events", "get",
			)["parameters"].([]any)[1].(map[string]any)["schema"].(map[string]any)
			p["pattern"] = strings.ReplaceAll(
				p["pattern"].(string), "CUSTOMER_SWAP_FAILED|", "CUSTOMER_SWAP_FAILED|NEW|",
			)
		}, ""},

		"one more event comes": {func(t *testing.T, d map[string]any) {
			for _, path := range [][]string{
				{"components", "schemas", "EndpointChange", "properties", "events", "items"},
				{"components", "schemas", "EndpointRequest", "properties", "events", "items"},
				{"components", "schemas", "TestRequest", "properties", "type"},
			} {
				s := at(t, d, path...)
				s["enum"] = append(slices.Clone(s["enum"].([]any)), "NEW")
			}
			for _, path := range []string{"/events", "/webhook-endpoints/{endpointId}/deliveries"} {
				for _, p := range at(t, d, "paths", path, "get")["parameters"].([]any) {
					s := p.(map[string]any)["schema"].(map[string]any)
					if pattern, ok := s["pattern"].(string); ok {
						s["pattern"] = strings.ReplaceAll(pattern, "CUSTOMER_SWAP_FAILED|", "CUSTOMER_SWAP_FAILED|NEW|")
					}
					if words, ok := s["enum"].([]any); ok && slices.Contains(words, any("CUSTOMER_SWAP_FAILED")) {
						s["enum"] = append(slices.Clone(words), "NEW")
					}
				}
			}
			at(t, d, "webhooks")["NEW"] = at(t, d, "webhooks", "CUSTOMER_SWAP_FAILED")
		}, ""},
		"any word is taken": {func(t *testing.T, d map[string]any) {
			p := at(
				t, d, "paths", "/events", "get",
			)["parameters"].([]any)[1].(map[string]any)["schema"].(map[string]any)
			delete(p, "pattern")
		}, ""},
		"certain words are taken alone": {func(t *testing.T, d map[string]any) {
			for _, p := range at(t, d, "paths", "/deposits", "get")["parameters"].([]any) {
				if p := p.(map[string]any); p["name"] == "customerId" {
					p["schema"].(map[string]any)["pattern"] = "^(A|B)(,(A|B))*$"
				}
			}
		}, "GET /deposits, query parameter customerId accepts only certain values now"},

		"a request's field goes": {func(t *testing.T, d map[string]any) {
			delete(schema(t, d, "WithdrawRequest", "properties"), "reference")
		}, "WithdrawRequest.reference is not accepted any more"},
		"a request's field is required": {func(t *testing.T, d map[string]any) {
			s := schema(t, d, "WithdrawRequest")
			s["required"] = append(s["required"].([]any), "idempotencyKey")
		}, "WithdrawRequest.idempotencyKey is required now"},
		"a required field comes": {func(t *testing.T, d map[string]any) {
			s := schema(t, d, "WithdrawRequest")
			s["required"] = append(s["required"].([]any), "purpose")
			s["properties"].(map[string]any)["purpose"] = map[string]any{"type": "string"}
		}, "WithdrawRequest.purpose is new and required"},
		"an optional field comes": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties")["purpose"] = map[string]any{"type": "string"}
		}, ""},
		"a request's field changes its type": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties", "amount")["type"] = "integer"
		}, "WithdrawRequest.amount is integer and was string"},
		"null is not taken": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties", "memo")["type"] = "string"
		}, "WithdrawRequest.memo may not be null any more"},
		"a request's field gets shorter": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties", "customerId")["maxLength"] = 64
		}, "WithdrawRequest.customerId has the maxLength 64 and had 128"},
		"a request's field gets longer": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties", "customerId")["maxLength"] = 256
		}, ""},
		"a request's field gets another pattern": {func(t *testing.T, d map[string]any) {
			schema(t, d, "WithdrawRequest", "properties", "idempotencyKey")["pattern"] = "^[a-z]+$"
		}, "WithdrawRequest.idempotencyKey has to fit"},
		"a value is not taken": {func(t *testing.T, d map[string]any) {
			p := schema(t, d, "TransferParty", "properties", "product")
			p["enum"] = without(p["enum"], "CHECKOUT")
		}, "TransferParty.product does not accept CHECKOUT any more"},
		"one more value is taken": {func(t *testing.T, d map[string]any) {
			p := schema(t, d, "TransferParty", "properties", "product")
			p["enum"] = append(slices.Clone(p["enum"].([]any)), "NEW")
		}, ""},

		"an answer's field goes": {
			func(t *testing.T, d map[string]any) { delete(schema(t, d, "Deposit", "properties"), "riskOfFunds") },
			"Deposit.riskOfFunds is missing from the answer now",
		},
		"an answer's field may miss": {func(t *testing.T, d map[string]any) {
			s := schema(t, d, "Deposit")
			s["required"] = without(s["required"], "txHash")
		}, "Deposit.txHash may be missing from the answer now"},
		"an answer's field comes": {func(t *testing.T, d map[string]any) {
			schema(t, d, "Deposit", "properties")["new"] = map[string]any{"type": "string"}
		}, ""},
		"an answer's field may be null": {func(t *testing.T, d map[string]any) {
			schema(t, d, "Deposit", "properties", "txHash")["type"] = []any{"string", "null"}
		}, "Deposit.txHash may be null now"},
		"an answer's field is never null": {func(t *testing.T, d map[string]any) {
			schema(t, d, "Deposit", "properties", "memo")["type"] = "string"
		}, ""},
		"an answer's field changes its type": {func(t *testing.T, d map[string]any) {
			schema(t, d, "Withdrawal", "properties", "amount")["type"] = "integer"
		}, "Withdrawal.amount is integer and was string"},
		"an amount is written otherwise": {func(t *testing.T, d map[string]any) {
			schema(t, d, "Balance", "properties", "available")["pattern"] = "^[0-9.]+$"
		}, "Balance.available has to fit"},
		"a closed value comes": {func(t *testing.T, d map[string]any) {
			p := schema(t, d, "Customer", "properties", "status")
			p["enum"] = append(slices.Clone(p["enum"].([]any)), "GONE")
		}, "Customer.status may be GONE now, and its values were closed"},
		"a closed value goes": {func(t *testing.T, d map[string]any) {
			p := schema(t, d, "Deposit", "properties", "status")
			p["enum"] = without(p["enum"], "ORPHANED")
		}, ""},
		"a status changes": {func(t *testing.T, d map[string]any) {
			r := at(t, d, "paths", "/withdraw", "post", "responses")
			r["200"] = r["202"]
			delete(r, "202")
		}, "POST /withdraw does not answer 202 any more"},
		"a table goes": {func(t *testing.T, d map[string]any) {
			delete(at(t, d, "paths", "/ledger/entries", "get", "responses", "200", "content"), "text/csv")
		}, "GET /ledger/entries, answer 200 does not have the form text/csv any more"},
		"a header goes": {func(t *testing.T, d map[string]any) {
			delete(at(t, d, "paths", "/withdraw", "post", "responses", "202", "headers"), "Idempotent-Replayed")
		}, "POST /withdraw answers 202 without the header Idempotent-Replayed"},

		"a code moves": {func(t *testing.T, d map[string]any) {
			r := at(t, d, "paths", "/withdraw", "post", "responses")
			code := func(status string) map[string]any {
				return at(
					t, r, status, "content", "application/json", "schema",
				)["allOf"].([]any)[1].(map[string]any)["properties"].(map[string]any)["code"].(map[string]any)
			}
			code("422")["x-extensible-enum"] = without(code("422")["x-extensible-enum"], "INSUFFICIENT_BALANCE")
			code("409")["x-extensible-enum"] = append(
				slices.Clone(code("409")["x-extensible-enum"].([]any)), "INSUFFICIENT_BALANCE",
			)
		}, "POST /withdraw answers INSUFFICIENT_BALANCE with 409 and did with 422"},
		"a code comes": {func(t *testing.T, d map[string]any) {
			code := at(
				t, d, "paths", "/withdraw", "post", "responses", "422", "content", "application/json", "schema",
			)["allOf"].([]any)[1].(map[string]any)["properties"].(map[string]any)["code"].(map[string]any)
			code["x-extensible-enum"] = append(slices.Clone(code["x-extensible-enum"].([]any)), "NEW_CODE")
		}, ""},
		"a status of others comes": {func(t *testing.T, d map[string]any) {
			r := at(t, d, "paths", "/balances", "get", "responses")
			r["404"] = at(t, d, "paths", "/deposits/{depositId}", "get", "responses", "404")
		}, ""},
		"a status that nobody knows comes": {func(t *testing.T, d map[string]any) {
			r := at(t, d, "paths", "/balances", "get", "responses")
			r["418"] = r["400"]
		}, "GET /balances answers 418, which clients do not know"},

		"an event goes": {
			func(t *testing.T, d map[string]any) { delete(at(t, d, "webhooks"), "CUSTOMER_DEPOSIT") },
			"the event CUSTOMER_DEPOSIT was removed",
		},
		"an event comes": {func(t *testing.T, d map[string]any) {
			at(t, d, "webhooks")["NEW"] = at(t, d, "webhooks", "CUSTOMER_DEPOSIT")
		}, ""},
		"an event's header goes": {func(t *testing.T, d map[string]any) {
			op := at(t, d, "webhooks", "CUSTOMER_DEPOSIT", "post")
			op["parameters"] = op["parameters"].([]any)[1:]
		}, "the event CUSTOMER_DEPOSIT has no header webhook-id any more"},
		"a field of events alone goes": {func(t *testing.T, d map[string]any) {
			delete(schema(t, d, "SwapFailed", "properties"), "refundedAmount")
		}, "SwapFailed.refundedAmount is missing from the answer now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d map[string]any
			if err := json.Unmarshal(raw, &d); err != nil {
				t.Fatal(err)
			}
			c.plant(t, d)
			changed, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			after, err := ParseDocument(changed)
			if err != nil {
				t.Fatal(err)
			}
			got := BreakingChanges(before, after)
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("got %q, want nothing that breaks", got)
				}
				return
			}
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The comparison misses changes of a keyword that it does not read. So a new keyword of the
// document has to be added here and to the comparison.
func TestNothingOfTheDocumentIsPassedOver(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../http/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := StripTexts(raw)
	if err != nil {
		t.Fatal(err)
	}
	known := []string{
		"$ref", "type", "format", "enum", "x-extensible-enum", "pattern", "minLength", "maxLength", "minimum",
		"maximum", "minItems", "maxItems",
		"maxProperties", "properties", "required", "additionalProperties", "items", "oneOf", "allOf",
	}
	var walk func(subject string, v any)
	walk = func(subject string, v any) {
		s, ok := v.(map[string]any)
		if !ok {
			return
		}
		for key, inner := range s {
			if !slices.Contains(known, key) {
				t.Errorf("%s: got the keyword %s, which Schema does not have", subject, key)
			}
			switch inner := inner.(type) {
			case map[string]any:
				if key == "properties" {
					for name, p := range inner {
						walk(subject+"."+name, p)
					}
				} else {
					walk(subject, inner)
				}
			case []any:
				for _, one := range inner {
					walk(subject, one)
				}
			}
		}
	}
	var d struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(bare, &d); err != nil {
		t.Fatal(err)
	}
	for name, s := range d.Components.Schemas {
		walk(name, s)
	}
}

// A list of words in one text follows the direction like one word: a request may have more of them,
// an answer only those that existed.
func TestAListOfWordsGrowsWhereItIsAsked(t *testing.T) {
	t.Parallel()
	doc := func(asked, answered string) *Document {
		t.Helper()
		d, err := ParseDocument([]byte(`{"paths": {"/x": {"get": {"operationId": "x",
			"parameters": [{"in": "query", "name": "types", "schema": {"type": "string", "pattern": "^(` + asked + `)(,(` + asked + `))*$"}}],
			"responses": {"200": {"content": {"application/json": {"schema": {"type": "string", "pattern": "^(` + answered + `)(,(` + answered + `))*$"}}}}}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := doc("A|B", "A|B")
	for _, c := range []struct{ asked, answered, want string }{
		{"A|B", "A|B", ""},
		{"A|B|C", "A|B", ""},
		{"A", "A|B", "GET /x, query parameter types does not accept B any more"},
		{"A|B", "A", ""},
		{"A|B", "A|B|C", "GET /x, answer 200 may be C now, and its values were closed"},
	} {
		if got := strings.Join(BreakingChanges(before, doc(c.asked, c.answered)), "; "); got != c.want {
			t.Errorf("asked %s, answered %s: got %q, want %q", c.asked, c.answered, got, c.want)
		}
	}
}
