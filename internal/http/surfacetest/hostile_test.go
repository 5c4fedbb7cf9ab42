package surfacetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The rows of the list of hostile inputs that these calls can meet, H-01 to
// H-43: each is refused with its code on its field, and writes nothing.
// Rules REQ-1, REQ-2, REQ-3, WD-11, WD-14.
func TestHostileBodiesAreRefusedAndWriteNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	// with replaces one member of a good body by JSON text.
	with := func(name, value string) string {
		body := map[string]string{
			"mintId": "1", "customerId": `"alice"`, "amount": `"1000"`, "toAddress": `"` + stranger + `"`,
		}
		body[name] = value
		var b strings.Builder
		for i, k := range slices.Sorted(maps.Keys(body)) {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", k, body[k])
		}
		return "{" + b.String() + "}"
	}
	const good = `"mintId":1,"customerId":"alice","toAddress":"` + stranger + `"`
	before := h.rowCounts()
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		param      string
	}{
		{"H-01 number", with("amount", `5`), 400, "INVALID_AMOUNT", "amount"},
		{"H-01 null", with("amount", `null`), 400, "INVALID_AMOUNT", "amount"},
		{"H-03 negative", with("amount", `"-5"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-03 plus", with("amount", `"+5"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-03 minus zero", with("amount", `"-0"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-04", with("amount", `"007"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-06", with("amount", `"1.0"`), 400, "INVALID_AMOUNT", "amount"},
		{"exponent", with("amount", `"1e3"`), 400, "INVALID_AMOUNT", "amount"},
		{"hexadecimal", with("amount", `"0x10"`), 400, "INVALID_AMOUNT", "amount"},
		{"separator", with("amount", `"1,000"`), 400, "INVALID_AMOUNT", "amount"},
		{"space", with("amount", `" 1000"`), 400, "INVALID_AMOUNT", "amount"},
		{"empty", with("amount", `""`), 400, "INVALID_AMOUNT", "amount"},
		{"zero", with("amount", `"0"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-09 Arabic-Indic", with("amount", `"٥"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-09 full width", with("amount", `"５"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-09 zero width", with("amount", `"1\u200b0"`), 400, "INVALID_AMOUNT", "amount"},
		{
			"H-10 2^256",
			with("amount", `"115792089237316195423570985008687907853269984665640564039457584007913129639936"`), 400,
			"INVALID_AMOUNT", "amount",
		},
		{"H-10 79 digits", with("amount", `"1`+strings.Repeat("0", 78)+`"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-10 60 KB", with("amount", `"`+strings.Repeat("9", 60_000)+`"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-10 1 MB", with("amount", `"`+strings.Repeat("9", 1<<20)+`"`), 413, "BODY_TOO_LARGE", ""},
		{"H-12", with("amount", `"1000001"`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"H-13", with("amount", `"9"`), 400, "AMOUNT_BELOW_MINIMUM", "amount"},
		{"H-07", `{` + good + `,"useDecimal":true,"amount":"1.0000000"}`, 400, "INVALID_AMOUNT", "amount"},
		{"decimal with a sign", `{` + good + `,"useDecimal":true,"amount":"+1.5"}`, 400, "INVALID_AMOUNT", "amount"},
		{"decimal without digits", `{` + good + `,"useDecimal":true,"amount":"."}`, 400, "INVALID_AMOUNT", "amount"},

		{"H-15 other casing", `{` + good + `,"amount":"1000","Amount":"9"}`, 400, "UNKNOWN_FIELD", "Amount"},
		{"H-15 long s", with("toAddreſſ", `"x"`), 400, "UNKNOWN_FIELD", "toAddreſſ"},
		{"typo", with("requireAproval", `true`), 400, "UNKNOWN_FIELD", "requireAproval"},
		{"twice", `{` + good + `,"amount":"1000","amount":"9"}`, 400, "INVALID_JSON", "amount"},
		{"twice, escaped", `{` + good + `,"amount":"1000","\u0061mount":"9"}`, 400, "INVALID_JSON", "amount"},
		{"twice inside", with("metadata", `{"a":"1","a":"2"}`), 400, "INVALID_JSON", "a"},
		{"H-16 two documents", with("mintId", "1") + `{}`, 400, "INVALID_JSON", ""},
		{"H-16 trailing comma", `{` + good + `,"amount":"1000",}`, 400, "INVALID_JSON", ""},
		{"H-16 byte order mark", "\xef\xbb\xbf" + with("mintId", "1"), 400, "INVALID_JSON", ""},
		{"H-16 invalid UTF-8", with("customerId", "\"\xff\""), 400, "INVALID_JSON", ""},
		{"H-16 lone surrogate", with("customerId", `"\ud800"`), 400, "INVALID_JSON", ""},
		{"comment", `{/**/` + good + `,"amount":"1000"}`, 400, "INVALID_JSON", ""},
		{"single quotes", `{'mintId':1}`, 400, "INVALID_JSON", ""},
		{"NaN", with("mintId", "NaN"), 400, "INVALID_JSON", ""},
		{"nothing", ``, 400, "INVALID_JSON", ""},
		{"spaces", `  `, 400, "INVALID_JSON", ""},
		{"array", `[]`, 400, "INVALID_REQUEST", ""},
		{"null", `null`, 400, "INVALID_REQUEST", ""},
		{"text", `"x"`, 400, "INVALID_REQUEST", ""},
		{"deep", strings.Repeat("[", 30_000), 400, "INVALID_REQUEST", ""},
		{
			"deep and closed",
			with("metadata", strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000)), 400, "INVALID_REQUEST", "metadata",
		},
		{"H-18 text for a flag", with("useDecimal", `"true"`), 400, "INVALID_REQUEST", "useDecimal"},
		{"H-18 number for a flag", with("useDecimal", `1`), 400, "INVALID_REQUEST", "useDecimal"},
		{"null for a flag", with("requireApproval", `null`), 400, "INVALID_REQUEST", "requireApproval"},
		{"H-19 1.0", with("mintId", `1.0`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 text", with("mintId", `"1"`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 -1", with("mintId", `-1`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 0", with("mintId", `0`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 2^63", with("mintId", `9223372036854775808`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 1e0", with("mintId", `1e0`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 null", with("mintId", `null`), 400, "INVALID_REQUEST", "mintId"},
		{"H-19 unknown", with("mintId", `99`), 400, "MINT_NOT_FOUND", "mintId"},
		{"H-22 status", with("status", `"COMPLETED"`), 400, "UNKNOWN_FIELD", "status"},
		{"H-22 orgId", with("orgId", `"org_1"`), 400, "UNKNOWN_FIELD", "orgId"},
		{"H-22 fee", with("fee", `"0"`), 400, "UNKNOWN_FIELD", "fee"},
		{"long name", with(strings.Repeat("x", 300), `1`), 400, "UNKNOWN_FIELD", strings.Repeat("x", 64) + "…"},
		{"H-24 Cyrillic", with("customerId", `"аlice"`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"H-24 casing", with("customerId", `"Alice"`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"customer of a zero byte", with("customerId", `"a\u0000"`), 400, "INVALID_REQUEST", "customerId"},
		{
			"customer of 129 bytes",
			with("customerId", `"`+strings.Repeat("a", 129)+`"`), 400, "INVALID_REQUEST", "customerId",
		},
		{"customer with a bidirectional mark", with("customerId", `"a\u202eb"`), 400, "INVALID_REQUEST", "customerId"},
		{"customer not in NFC", with("customerId", `"e\u0301"`), 400, "INVALID_REQUEST", "customerId"},
		{"customer missing", `{"mintId":1,"amount":"1","toAddress":"x"}`, 400, "INVALID_REQUEST", "customerId"},

		{
			"H-36",
			with("toAddress", `"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"`), 400, "INVALID_ADDRESS", "toAddress",
		},
		{
			"H-39 0X",
			with("toAddress", `"0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`), 400, "INVALID_ADDRESS", "toAddress",
		},
		{"H-39 39 digits", with("toAddress", `"`+stranger[:41]+`"`), 400, "INVALID_ADDRESS", "toAddress"},
		{"H-39 41 digits", with("toAddress", `"`+stranger+`0"`), 400, "INVALID_ADDRESS", "toAddress"},
		{"H-39 no 0x", with("toAddress", `"`+stranger[2:]+`"`), 400, "INVALID_ADDRESS", "toAddress"},
		{"H-39 name", with("toAddress", `"vitalik.eth"`), 400, "INVALID_ADDRESS", "toAddress"},
		{"H-39 ICAP", with("toAddress", `"XE7338O073KYGTWWZN0F2WZ0R8PX5ZPPZS"`), 400, "INVALID_ADDRESS", "toAddress"},
		{
			"H-42 Bitcoin",
			with("toAddress", `"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"`), 400, "INVALID_ADDRESS", "toAddress",
		},
		{
			"H-43 Solana",
			with("toAddress", `"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"`), 400, "INVALID_ADDRESS", "toAddress",
		},
		{"address with a space", with("toAddress", `" `+stranger+`"`), 400, "INVALID_ADDRESS", "toAddress"},
		{"address of nothing", with("toAddress", `""`), 400, "INVALID_ADDRESS", "toAddress"},
		{"address of a zero byte", with("toAddress", `"\u0000"`), 400, "INVALID_ADDRESS", "toAddress"},
		{
			"H-40 zero",
			with("toAddress", `"0x0000000000000000000000000000000000000000"`), 422, "DESTINATION_NOT_ALLOWED",
			"toAddress",
		},
		{
			"H-40 precompile",
			with("toAddress", `"0x0000000000000000000000000000000000000011"`), 422, "DESTINATION_NOT_ALLOWED",
			"toAddress",
		},
		{"H-40 the token", with("toAddress", `"`+string(usdcAddress)+`"`), 422, "DESTINATION_NOT_ALLOWED", "toAddress"},

		{"memo", with("memo", `"7"`), 400, "INVALID_REQUEST", "memo"},
		{"feeMode", with("feeMode", `"DEDUCTED"`), 400, "INVALID_REQUEST", "feeMode"},
		{"feeMode in other case", with("feeMode", `"Deducted"`), 400, "INVALID_REQUEST", "feeMode"},
		{"maxNetworkFee that is a number", with("maxNetworkFee", `5`), 400, "INVALID_AMOUNT", "maxNetworkFee"},
		{"maxNetworkFee of zero", with("maxNetworkFee", `"0"`), 400, "INVALID_AMOUNT", "maxNetworkFee"},
		{"maxNetworkFee with a point", with("maxNetworkFee", `"1.5"`), 400, "INVALID_AMOUNT", "maxNetworkFee"},
		{
			"maxNetworkFee of 2^256",
			with("maxNetworkFee", `"115792089237316195423570985008687907853269984665640564039457584007913129639936"`),
			400, "INVALID_AMOUNT", "maxNetworkFee",
		},
		{"travelRule that is a list", with("travelRule", `[]`), 400, "INVALID_REQUEST", "travelRule"},
		{"travelRule that is text", with("travelRule", `"x"`), 400, "INVALID_REQUEST", "travelRule"},
		{"travelRule with a zero byte", with("travelRule", `{"a":"\u0000"}`), 400, "INVALID_REQUEST", "travelRule"},
		{
			"travelRule of 5000 bytes",
			with("travelRule", `{"a":"`+strings.Repeat("x", 5000)+`"}`), 400, "INVALID_REQUEST", "travelRule",
		},
		{"twice in travelRule", with("travelRule", `{"a":"1","a":"2"}`), 400, "INVALID_JSON", "a"},
		{"feeMode of nothing", with("feeMode", `""`), 400, "INVALID_REQUEST", "feeMode"},
		{"key with a space", with("idempotencyKey", `"a b"`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"key of nothing", with("idempotencyKey", `""`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{
			"key of 256",
			with("idempotencyKey", `"`+strings.Repeat("k", 256)+`"`), 400, "INVALID_REQUEST", "idempotencyKey",
		},
		{"key that is a number", with("idempotencyKey", `7`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"metadata of numbers", with("metadata", `{"a":1}`), 400, "INVALID_REQUEST", "metadata"},
		{"metadata of nulls", with("metadata", `{"a":null}`), 400, "INVALID_REQUEST", "metadata"},
		{"metadata with a zero byte", with("metadata", `{"a":"\u0000"}`), 400, "INVALID_REQUEST", "metadata"},
		{"metadata that is a list", with("metadata", `[]`), 400, "INVALID_REQUEST", "metadata"},
		{"reference with a zero byte", with("reference", `"\u0000"`), 400, "INVALID_REQUEST", "reference"},
		{"closed mint", with("mintId", `3`), 422, "WITHDRAWALS_SUSPENDED", "mintId"},
	} {
		h.wantRefusal(c.name, h.call(h.one, "POST", "/withdraw", c.body), c.status, c.code, c.param)
		h.wantRefusal("preview, "+c.name, h.call(h.one, "POST", "/withdraw/preview", c.body), c.status, c.code, c.param)
	}
	for _, c := range []struct {
		name, body  string
		code, param string
	}{
		{"no mint", `{}`, "INVALID_REQUEST", "mintId"},
		{"unknown mint", `{"mintId":99}`, "MINT_NOT_FOUND", "mintId"},
		{"mint that is text", `{"mintId":"1"}`, "INVALID_REQUEST", "mintId"},
		{"typo", `{"mintId":1,"custmerId":"alice"}`, "UNKNOWN_FIELD", "custmerId"},
		{"customer of nothing", `{"mintId":1,"customerId":""}`, "INVALID_REQUEST", "customerId"},
		{"customer of a zero byte", `{"mintId":1,"customerId":"a\u0000"}`, "INVALID_REQUEST", "customerId"},
		{"amount of nothing", `{"mintId":1,"amount":""}`, "INVALID_AMOUNT", "amount"},
		{"amount that is a number", `{"mintId":1,"amount":5}`, "INVALID_AMOUNT", "amount"},
		{"amount with a point", `{"mintId":1,"amount":"1.5"}`, "INVALID_AMOUNT", "amount"},
		{"name for an address", `{"mintId":1,"toAddress":"vitalik.eth"}`, "INVALID_ADDRESS", "toAddress"},
		{"address of nothing", `{"mintId":1,"toAddress":""}`, "INVALID_ADDRESS", "toAddress"},
		{"a token's fee deducted", `{"mintId":1,"feeMode":"DEDUCTED"}`, "INVALID_REQUEST", "feeMode"},
		{"feeMode of nothing", `{"mintId":1,"feeMode":""}`, "INVALID_REQUEST", "feeMode"},
		{"flag that is null", `{"mintId":1,"useDecimal":null}`, "INVALID_REQUEST", "useDecimal"},
		{"travelRule that is a list", `{"mintId":1,"travelRule":[]}`, "INVALID_REQUEST", "travelRule"},
		{"list", `[]`, "INVALID_REQUEST", ""},
		{"nothing", ``, "INVALID_JSON", ""},
	} {
		h.wantRefusal("estimate, "+c.name, h.call(h.one, "POST", "/withdraw/estimate", c.body), 400, c.code, c.param)
	}
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		param      string
	}{
		{"unknown mint", `{"mintId":99,"customerId":"new"}`, 400, "MINT_NOT_FOUND", "mintId"},
		{"closed mint", `{"mintId":3,"customerId":"new"}`, 422, "DEPOSITS_SUSPENDED", "mintId"},
		{"no mint", `{"customerId":"new"}`, 400, "INVALID_REQUEST", "mintId"},
		{"no customer", `{"mintId":1}`, 400, "INVALID_REQUEST", "customerId"},
		{"empty customer", `{"mintId":1,"customerId":""}`, 400, "INVALID_REQUEST", "customerId"},
		{
			"no e-mail",
			`{"mintId":1,"customerId":"new","customerEmail":"nothing"}`, 400, "INVALID_REQUEST", "customerEmail",
		},
		{"empty e-mail", `{"mintId":1,"customerId":"new","customerEmail":""}`, 400, "INVALID_REQUEST", "customerEmail"},
		{
			"unknown field",
			`{"mintId":1,"customerId":"new","custmerEmail":"a@example.com"}`, 400, "UNKNOWN_FIELD", "custmerEmail",
		},
	} {
		h.wantRefusal("deposit, "+c.name, h.call(h.one, "POST", "/deposit", c.body), c.status, c.code, c.param)
	}
	for _, c := range []struct{ name, body, code, param string }{
		{"http", `{"url":"http://example.com"}`, "INVALID_REQUEST", "url"},
		{"loopback", `{"url":"https://127.0.0.1/"}`, "INVALID_REQUEST", "url"},
		{"no url", `{}`, "INVALID_REQUEST", "url"},
		{"unknown event", `{"url":"https://example.com","events":["NOTHING"]}`, "INVALID_REQUEST", "events"},
		{"events of nulls", `{"url":"https://example.com","events":[null]}`, "INVALID_REQUEST", "events"},
		{"events of numbers", `{"url":"https://example.com","events":[1]}`, "INVALID_REQUEST", "events"},
		{"filters that are a list", `{"url":"https://example.com","filters":[]}`, "INVALID_REQUEST", "filters"},
		{
			"filter of a zero byte",
			`{"url":"https://example.com","filters":{"customerId":"\u0000"}}`, "INVALID_REQUEST", "filters.customerId",
		},
		{
			"empty filter",
			`{"url":"https://example.com","filters":{"customerId":""}}`, "INVALID_REQUEST", "filters.customerId",
		},
		{"filter by number", `{"url":"https://example.com","filters":{"chain":1}}`, "INVALID_REQUEST", "filters.chain"},
		{
			"unknown chain",
			`{"url":"https://example.com","filters":{"chain":"ETHERIUM"}}`, "INVALID_REQUEST", "filters.chain",
		},
		{
			"unknown filter",
			`{"url":"https://example.com","filters":{"customer":"a"}}`, "UNKNOWN_FIELD", "filters.customer",
		},
	} {
		h.wantRefusal("endpoint, "+c.name, h.call(h.one, "POST", "/webhook-endpoints", c.body), 400, c.code, c.param)
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	hint := h.call(h.one, "POST", "/withdraw", with("requireAproval", `true`))
	if !strings.Contains(hint.text("error"), "requireApproval?") {
		t.Errorf("got %q, want the field that was meant", hint.text("error"))
	}
	if got := h.call(
		h.one, "POST", "/withdraw", with("amount", `"1.0"`),
	); !strings.Contains(got.text("error"), "useDecimal") {
		t.Errorf("got %q, want useDecimal named", got.text("error"))
	}
}

// H-40: an address of this installation, of any owner. Rule WD-11.
func TestOwnAddressesAreNoDestination(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, who := range []tenant{h.one, h.two} {
		address := h.wantStatus(
			h.call(who, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": alice}), 200,
		).text("address")
		for _, spelled := range []string{address, strings.ToLower(address)} {
			h.wantRefusal(spelled, h.call(h.one, "POST", "/withdraw", payment("toAddress", spelled)), 422,
				"DESTINATION_NOT_ALLOWED", "toAddress")
		}
	}
}

// H-21.
func TestOnlyJSONIsTaken(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, kind := range []string{
		"text/plain",
		"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1",
		"application/jsonx", "json", "*/*", "application/json, text/plain", "",
	} {
		h.wantRefusal(kind, h.call(h.one, "POST", "/withdraw", payment(), "Content-Type", kind), 415,
			"UNSUPPORTED_MEDIA_TYPE", "")
	}
	h.wantRefusal("compressed", h.call(h.one, "POST", "/withdraw", payment(), "Content-Encoding", "gzip"), 415,
		"UNSUPPORTED_MEDIA_TYPE", "")
	for _, kind := range []string{
		"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8",
	} {
		h.wantStatus(h.call(h.one, "POST", "/withdraw", payment(), "Content-Type", kind), 202)
	}
}

// Rule REQ-5.
func TestHostileQueriesAreRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for query, c := range map[string][2]string{
		"limit=0":                             {"INVALID_REQUEST", "limit"},
		"limit=201":                           {"INVALID_REQUEST", "limit"},
		"limit=-1":                            {"INVALID_REQUEST", "limit"},
		"limit=%2B5":                          {"INVALID_REQUEST", "limit"},
		"limit=05":                            {"INVALID_REQUEST", "limit"},
		"limit=5.0":                           {"INVALID_REQUEST", "limit"},
		"limit=99999999999999999999":          {"INVALID_REQUEST", "limit"},
		"limit=1&limit=2":                     {"INVALID_REQUEST", "limit"},
		"limit=":                              {"INVALID_REQUEST", "limit"},
		"Limit=5":                             {"UNKNOWN_FIELD", "Limit"},
		"lmit=5":                              {"UNKNOWN_FIELD", "lmit"},
		"order=up":                            {"INVALID_REQUEST", "order"},
		"status=completed":                    {"INVALID_REQUEST", "status"},
		"chain=ETHERIUM":                      {"INVALID_REQUEST", "chain"},
		"mintId=0":                            {"INVALID_REQUEST", "mintId"},
		"mintId=2147483648":                   {"INVALID_REQUEST", "mintId"},
		"createdAfter=yesterday":              {"INVALID_REQUEST", "createdAfter"},
		"createdAfter=2026-01-31":             {"INVALID_REQUEST", "createdAfter"},
		"createdAfter=0000-01-01T00:00:00Z":   {"INVALID_REQUEST", "createdAfter"},
		"customerId=%00":                      {"INVALID_REQUEST", "customerId"},
		"customerId=%FF":                      {"INVALID_REQUEST", "customerId"},
		"reference=%0A":                       {"INVALID_REQUEST", "reference"},
		"cursor=x":                            {"INVALID_CURSOR", "cursor"},
		"cursor=%27":                          {"INVALID_CURSOR", "cursor"},
		"cursor=" + strings.Repeat("A", 1025): {"INVALID_REQUEST", "cursor"},
		"a=1;b=2":                             {"INVALID_REQUEST", ""},
		"a=%zz":                               {"INVALID_REQUEST", ""},
		"customerId=" + strings.Repeat("a", 5000): {"INVALID_REQUEST", ""},
	} {
		h.wantRefusal(query, h.call(h.one, "GET", "/withdrawals?"+query, nil), 400, c[0], c[1])
	}
	h.wantRefusal("after", h.call(h.one, "GET", "/events?after=-1", nil), 400, "INVALID_REQUEST", "after")
	for _, bad := range []string{"x", "-1", "1", "9007199254740992"} {
		h.wantRefusal("feed cursor "+bad, h.call(h.one, "GET", "/events?cursor="+bad, nil), 400, "INVALID_CURSOR",
			"cursor")
	}
	h.wantRefusal("types", h.call(h.one, "GET", "/events?types=CUSTOMER_DEPOSIT,", nil), 400, "INVALID_REQUEST",
		"types")
	h.wantRefusal("flag", h.call(h.one, "GET", "/mints?swappable=1", nil), 400, "INVALID_REQUEST", "swappable")
	h.wantRefusal("on a post", h.call(h.one, "POST", "/withdraw?dryRun=true", payment()), 400, "UNKNOWN_FIELD",
		"dryRun")
	h.wantStatus(h.call(h.one, "GET", "/withdrawals?createdAfter=2026-01-31T12:00:00%2B02:00&customerId=%27--", nil),
		200)
	h.wantStatus(h.call(h.one, "GET", "/events?after=9007199254740991", nil), 200)
}
