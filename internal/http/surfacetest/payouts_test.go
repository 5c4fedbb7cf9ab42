package surfacetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service"
)

func (h *testEnv) newPayouts(db *pg.DB) *payout.Service {
	return service.NewPayouts(db, h.conf.Chains, h.conf.Withdrawals, nil, newLogger(h.logs))
}

const (
	otherPayee = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
	listHeader = "reference,customerId,mintId,toAddress,memo,amount\n"
)

// batchRow is a row of a list in JSON.
func batchRow(reference, to, amount string) map[string]any {
	return map[string]any{"reference": reference, "mintId": usdc, "toAddress": to, "amount": amount}
}

// batchBody is a list of two rows in JSON, with some members changed; nil removes one.
func batchBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"rows": []any{batchRow(key+"-1", stranger, "1000"), batchRow(key+"-2", otherPayee, "2000")}, "idempotencyKey": key,
	}
	for i := 0; i < len(change); i += 2 {
		if body[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(body, change[i].(string))
		}
	}
	return body
}

// makeBatch makes a draft of two rows, and returns the answer.
func (h *testEnv) makeBatch(who tenant, key string, change ...any) reply {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/batch-payouts", batchBody(key, change...)), 201)
}

// upload makes a draft of a list in CSV.
func (h *testEnv) upload(who tenant, query, text string, headers ...string) reply {
	h.t.Helper()
	return h.call(who, "POST", "/batch-payouts"+query, text, append([]string{"Content-Type", "text/csv"}, headers...)...)
}

// fundBatches gives the product BATCH_PAYOUT money.
func (h *testEnv) fundBatches(who tenant, units uint64) {
	h.t.Helper()
	h.deposit(who, "payer-of-batches", units)
	h.wantStatus(h.call(who, "POST", "/transfers", charge("fund-batches", "amount", strconv.FormatUint(units, 10),
		"from", map[string]any{"customerId": "payer-of-batches"}, "to", map[string]any{"product": "BATCH_PAYOUT"})), 201)
}

// submitBatch submits a batch by the hash in an answer.
func (h *testEnv) submitBatch(who tenant, made reply, change ...any) reply {
	h.t.Helper()
	body := map[string]any{"contentHash": made.body["contentHash"]}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return h.call(who, "POST", "/batch-payouts/"+made.text("batchPayoutId")+"/submit", body)
}

// approveBatch checks a submitted batch and approves it as a person.
func (h *testEnv) approveBatch(who tenant, batchID string) {
	h.t.Helper()
	if err := h.conf.Payouts.Validate(h.t.Context(), who.id, batchID); err != nil {
		h.t.Fatal(err)
	}
	b, err := h.conf.Payouts.ByID(h.t.Context(), who.id, batchID)
	if err == nil {
		_, err = h.conf.Payouts.Approve(h.t.Context(), who.id, batchID, b.ContentHash, audit.User("usr_batches"))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// approvedBatch returns a batch of two rows that people approved. It pays for it.
func (h *testEnv) approvedBatch(who tenant, key string) (batchID string) {
	h.t.Helper()
	h.deposit(who, "payer-"+key, 3000)
	h.wantStatus(h.call(who, "POST", "/transfers", charge("fund-"+key, "amount", "3000",
		"from", map[string]any{"customerId": "payer-" + key}, "to", map[string]any{"product": "BATCH_PAYOUT"})), 201)
	made := h.makeBatch(who, key)
	h.wantStatus(h.submitBatch(who, made), 202)
	h.approveBatch(who, made.text("batchPayoutId"))
	return made.text("batchPayoutId")
}

// processingBatch returns a batch whose rows have their withdrawals.
func (h *testEnv) processingBatch(who tenant, key string) (batchID string) {
	h.t.Helper()
	made := h.makeBatch(who, key)
	batchID = made.text("batchPayoutId")
	h.wantStatus(h.submitBatch(who, made), 202)
	h.approveBatch(who, batchID)
	if err := h.conf.Payouts.Expand(h.t.Context(), who.id, batchID); err != nil {
		h.t.Fatal(err)
	}
	return batchID
}

func (h *testEnv) getBatch(who tenant, batchID string) reply {
	h.t.Helper()
	return h.wantStatus(h.call(who, "GET", "/batch-payouts/"+batchID, nil), 200)
}

// batchEvents are the types and statuses of the events of a batch.
func (h *testEnv) batchEvents(who tenant, batchID string) (told []string) {
	h.t.Helper()
	h.sequenced()
	for _, e := range h.wantStatus(h.call(who, "GET", "/events?limit=200", nil), 200).list() {
		data, _ := e["data"].(map[string]any)
		if data["batchPayoutId"] == batchID && strings.HasPrefix(e["type"].(string), "BATCH_PAYOUT_") {
			told = append(told, fmt.Sprint(e["type"], " ", data["status"]))
		}
	}
	return told
}

// batchRows shows all rows that a call about batches could have written.
func (h *testEnv) batchRows() (rows string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('batches [%s], rows %s, postings %s, events %s, audit %s',
			(SELECT string_agg(b::text, ' ' ORDER BY batch_id) FROM payout_batches b), (SELECT count(*) FROM payout_items),
			(SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM events), (SELECT count(*) FROM audit_log))`).
		Scan(&rows)
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

// A list becomes a draft, is submitted, approved and paid, and each answer, list and event shows it. The withdrawals of
// its rows name batch and row and are the organization's own. Rules BP-16, BP-18 and BP-19.
func TestABatchPayoutIsMadeSubmittedAndShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundBatches(h.one, 10_000)
	made := h.makeBatch(h.one, "salaries")
	id := made.text("batchPayoutId")
	want := map[string]any{
		"batchPayoutId": id, "status": "DRAFT", "mode": "STRICT", "contentHash": made.body["contentHash"],
		"itemCount": 2.0, "validCount": 2.0, "invalidCount": 0.0,
		"counts":                 map[string]any{"waiting": 2.0, "processing": 0.0, "paid": 0.0, "unpaid": 0.0},
		"totals":                 []any{map[string]any{"mintId": 1.0, "amount": "3000", "usdValue": "0.00"}},
		"estimatedNetworkFeeUsd": nil, "approvals": map[string]any{"required": 0.0, "received": 0.0, "expiresAt": nil},
		"paused": false, "pausedAt": nil, "pauseReason": nil, "stoppedAt": nil, "problem": nil, "retryOf": nil,
		"idempotencyKey": "salaries", "createdAt": made.body["createdAt"], "submittedAt": nil, "approvedAt": nil,
		"endedAt": nil, "problems": []any{}, "warnings": made.body["warnings"],
	}
	if !strings.HasPrefix(id, "bp_") || !sameJSON(t, made.body, want) {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	warnings, _ := made.body["warnings"].([]any)
	if len(warnings) != 2 || warnings[0].(map[string]any)["kind"] != "FIRST_PAYMENT" {
		t.Errorf("got the warnings %v, want one of each address that was never paid", warnings)
	}
	delete(want, "problems")
	delete(want, "warnings")
	if listed := h.wantStatus(h.call(h.one, "GET", "/batch-payouts?status=DRAFT", nil), 200).list(); len(listed) != 1 ||
		!sameJSON(t, listed[0], want) {
		t.Errorf("got %v, want the batch", listed)
	}
	if rows := h.cells(h.one, "/batch-payouts"); len(rows) != 1 || rows[0]["batchPayoutId"] != id ||
		rows[0]["contentHash"] != want["contentHash"] {
		t.Errorf("table: got %v, want the batch", rows)
	}

	submitted := h.wantStatus(h.submitBatch(h.one, made), 202)
	again := h.wantStatus(h.submitBatch(h.one, made), 202)
	if submitted.text("status") != "VALIDATING" || !sameJSON(t, submitted.body, again.body) {
		t.Errorf("got %s, then %s, want it submitted once", submitted.raw, again.raw)
	}
	h.approveBatch(h.one, id)
	if err := h.conf.Payouts.Expand(t.Context(), h.one.id, id); err != nil {
		t.Fatal(err)
	}
	shown := h.getBatch(h.one, id)
	if shown.text("status") != "PROCESSING" || shown.body["approvedAt"] == nil {
		t.Errorf("got %s, want it approved", shown.raw)
	}
	items := h.wantStatus(h.call(h.one, "GET", "/batch-payouts/"+id+"/items?limit=1", nil), 200)
	next := h.wantStatus(h.call(h.one, "GET",
		"/batch-payouts/"+id+"/items?limit=1&cursor="+items.text("nextCursor"), nil), 200)
	rows := slices.Concat(items.list(), next.list())
	if len(rows) != 2 || items.body["hasMore"] != true || next.body["hasMore"] != false {
		t.Fatalf("got %s and %s, want a row on each page", items.raw, next.raw)
	}
	for i, row := range rows {
		withdrawalID, _ := row["withdrawalId"].(string)
		w := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+withdrawalID, nil), 200)
		if row["row"] != float64(i+1) || row["position"] != float64(i+1) || row["included"] != true ||
			row["reference"] != fmt.Sprintf("salaries-%d", i+1) || w.text("batchPayoutId") != id ||
			w.body["row"] != float64(i+1) || w.text("type") != "ORGANIZATION" || w.text("product") != "BATCH_PAYOUT" ||
			w.body["customerId"] != nil || w.body["status"] != row["status"] {
			t.Errorf("got the row %v with the withdrawal %s", row, w.raw)
		}
	}
	if none := h.wantStatus(h.call(h.one, "GET", "/batch-payouts/"+id+"/items?status=UNREADABLE", nil), 200); len(
		none.list()) != 0 {
		t.Errorf("got %s, want no row that cannot be read", none.raw)
	}
	if told := h.batchEvents(h.one, id); !slices.Equal(told, []string{
		"BATCH_PAYOUT_AWAITING_APPROVAL AWAITING_APPROVAL", "BATCH_PAYOUT_PROCESSING PROCESSING",
	}) {
		t.Errorf("got the events %q", told)
	}
}

// A list in CSV is the same list in JSON: the key finds it, and every column has its place. items.csv has the columns of
// the list in its order. Rule BP-17.
func TestAListInCSVIsTheSameList(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := h.wantStatus(h.upload(h.one, "?useDecimal=true&mode=PARTIAL",
		"\ufeffamount;toAddress;mintId;reference\r\n0.001;"+stranger+";1;a-1\r\n0,002;"+otherPayee+";1;a-2\r\n",
		"Idempotency-Key", "csv", "Content-Type", "text/csv; charset=utf-8"), 201)
	id := made.text("batchPayoutId")
	problems, _ := made.body["problems"].([]any)
	if made.text("mode") != "PARTIAL" || made.body["itemCount"] != 2.0 || made.body["validCount"] != 1.0 ||
		made.body["invalidCount"] != 1.0 || len(problems) != 1 {
		t.Fatalf("got %s, want one row and one problem", made.raw)
	}
	if p := problems[0].(map[string]any); p["position"] != 2.0 || p["line"] != 3.0 || p["column"] != "amount" ||
		!strings.Contains(p["message"].(string), `"0,002" has a separator`) {
		t.Errorf("got the problem %v", p)
	}
	items := h.wantStatus(h.call(h.one, "GET", "/batch-payouts/"+id+"/items", nil), 200).list()
	if len(items) != 2 || items[0]["status"] != "WAITING" || items[0]["amount"] != "1000" ||
		items[1]["status"] != "UNREADABLE" || items[1]["amount"] != "0,002" || items[1]["row"] != nil ||
		items[1]["position"] != 2.0 {
		t.Errorf("got the rows %v", items)
	}
	table := string(h.file(h.one, "/batch-payouts/"+id+"/items.csv", 200))
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "amount,toAddress,mintId,reference,") ||
		!strings.HasPrefix(lines[1], "0.001,"+stranger+",1,a-1,") ||
		!strings.HasPrefix(lines[2], `"0,002",`+otherPayee+",1,a-2,") {
		t.Errorf("got the table %s", table)
	}
	before := h.batchRows()
	replayed := h.wantStatus(h.upload(h.one, "?mode=PARTIAL&useDecimal=true",
		"reference,mintId,toAddress,amount\na-1,1,"+stranger+",0.0010\na-2,1,"+otherPayee+",\"0,002\"\n",
		"Idempotency-Key", "csv"), 201)
	if replayed.text("batchPayoutId") != id || replayed.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, want the same batch", replayed.raw)
	}
	for name, got := range map[string]reply{
		"another mode":   h.upload(h.one, "?useDecimal=true", listHeader+"a-1,,1,"+stranger+",,0.001\n", "Idempotency-Key", "csv"),
		"another amount": h.upload(h.one, "?useDecimal=true&mode=PARTIAL", listHeader+"a-1,,1,"+stranger+",,9\n", "Idempotency-Key", "csv"),
		"no list":        h.upload(h.one, "", "nothing", "Idempotency-Key", "csv"),
		"JSON":           h.call(h.one, "POST", "/batch-payouts", batchBody("csv")),
	} {
		h.wantRefusal(name, got, 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
		if got.text("existingId") != id {
			t.Errorf("%s: got %s, want the id of the batch", name, got.raw)
		}
	}
	if after := h.batchRows(); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// A text that is no list is refused as a whole, and nothing is written. Rule BP-17.
func TestATextThatIsNoListMakesNoBatch(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	row := "a,,1," + stranger + ",,1000\n"
	many := make([]any, rowfile.RowsMax+1)
	for i := range many {
		many[i] = map[string]any{"mintId": usdc}
	}
	before := h.batchRows()
	for name, c := range map[string]struct {
		got    reply
		status int
		code   string
		param  string
		words  string
	}{
		"nothing": {h.upload(h.one, "", ""), 400, "INVALID_REQUEST", "rows", "has to name the columns"},
		"an open quote": {
			h.upload(h.one, "", listHeader+row+"\"open,,1\n"+row), 400, "INVALID_REQUEST", "rows", "Line 3",
		},
		"a column twice": {
			h.upload(h.one, "", "mintId,toAddress,amount,amount\n"), 400, "INVALID_REQUEST", "rows", "is there twice",
		},
		"a missing column": {
			h.upload(h.one, "", "mintId,toAddress\n"), 400, "INVALID_REQUEST", "rows", "amount is missing",
		},
		"an unknown column": {
			h.upload(h.one, "", "mintId,toAddress,amount,iban\n"), 400, "INVALID_REQUEST", "rows", `"iban" is not`,
		},
		"other bytes": {h.upload(h.one, "", listHeader+"\xe9"+row), 400, "INVALID_REQUEST", "rows", "not in UTF-8"},
		"another character set": {
			h.call(h.one, "POST", "/batch-payouts", listHeader+row, "Content-Type", "text/csv; charset=iso-8859-1"),
			415, "UNSUPPORTED_MEDIA_TYPE", "", "JSON or CSV",
		},
		"5,001 rows": {
			h.upload(h.one, "", listHeader+strings.Repeat(row, rowfile.RowsMax+1)), 400, "INVALID_REQUEST", "rows",
			"more than 5000 rows",
		},
		"2 MB and one byte": {
			h.upload(h.one, "", listHeader+strings.Repeat(" ", rowfile.BytesMax+1-len(listHeader))), 413,
			"BODY_TOO_LARGE", "", "larger than 2000000 bytes",
		},
		"no row can be read": {
			h.upload(h.one, "", listHeader+"a\x00b,,1,"+stranger+",,1000\n"), 400, "INVALID_REQUEST", "",
			"U+0000",
		},
		"an unknown mode": {
			h.upload(h.one, "?mode=strict", listHeader+row), 400, "INVALID_REQUEST", "mode", "STRICT",
		},
		"5,001 objects": {
			h.call(h.one, "POST", "/batch-payouts", map[string]any{"rows": many}), 400, "INVALID_REQUEST", "rows",
			"more than 5000 rows",
		},
		"no objects": {
			h.call(h.one, "POST", "/batch-payouts", map[string]any{"rows": []any{}}), 400, "INVALID_REQUEST", "rows",
			"has no rows",
		},
		"no rows": {
			h.call(h.one, "POST", "/batch-payouts", map[string]any{}), 400, "INVALID_REQUEST", "rows", "is missing",
		},
		"a number as a text": {
			h.call(h.one, "POST", "/batch-payouts", map[string]any{"rows": []any{map[string]any{"mintId": "1"}}}), 400,
			"INVALID_REQUEST", "rows[0].mintId", "whole JSON number",
		},
		"an unknown member": {
			h.call(h.one, "POST", "/batch-payouts", map[string]any{"rows": []any{map[string]any{"iban": "DE"}}}), 400,
			"UNKNOWN_FIELD", "rows[0].iban", "iban",
		},
		"an unknown mode in JSON": {
			h.call(h.one, "POST", "/batch-payouts", batchBody("m", "mode", "strict")), 400, "INVALID_REQUEST", "mode",
			"STRICT or PARTIAL",
		},
		"a parameter of CSV with JSON": {
			h.call(h.one, "POST", "/batch-payouts?useDecimal=true", batchBody("p")), 400, "INVALID_REQUEST",
			"useDecimal", "member of the body",
		},
		"two keys": {
			h.call(h.one, "POST", "/batch-payouts", batchBody("k"), "Idempotency-Key", "other"), 400,
			"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey", "two different",
		},
		"a key with a space": {
			h.call(h.one, "POST", "/batch-payouts", batchBody("a key")), 400, "INVALID_REQUEST", "idempotencyKey",
			"printable ASCII",
		},
	} {
		h.wantRefusal(name, c.got, c.status, c.code, c.param)
		if !strings.Contains(c.got.text("error"), c.words) {
			t.Errorf("%s: got %s, want %q", name, c.got.raw, c.words)
		}
	}
	if after := h.batchRows(); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// One answer has every problem of every row, and the rows that can be read. Rule BP-17.
func TestEveryProblemOfEveryRowIsInOneAnswer(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	customer := h.wantStatus(h.call(h.one, "POST", "/deposit",
		map[string]any{"mintId": usdc, "customerId": alice}), 200).text("address")
	bad := []struct{ row, column, words string }{
		{"=1+1,,1," + stranger + ",,1000", "reference", "formula"},
		{"@sum,,1," + stranger + ",,1000", "reference", "formula"},
		{"a,,1," + stranger + ",,1E+06", "amount", "exponent"},
		{"a,,1," + stranger + ",,\"1,000\"", "amount", "separator"},
		{"a,,1," + stranger + ",,1.000.000", "amount", "several points"},
		{"a,,1," + stranger + ",,-1000", "amount", "sign"},
		{"a,,1," + stranger + ",, 1000", "amount", "spaces around"},
		{"a,,1," + stranger + ",,0", "amount", ""},
		{"a,,1," + stranger + ",,0.5", "amount", ""},
		{"a,,1," + stranger + ",,1" + strings.Repeat("0", 80), "amount", ""},
		{"a,,1," + stranger + ",,", "amount", "missing"},
		{"a,,1,bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq,,1000", "toAddress", "is not an address on ETHEREUM"},
		{"a,,1," + strings.ToUpper(stranger[2:]) + ",,1000", "toAddress", "is not an address"},
		{"a,,1,,,1000", "toAddress", "missing"},
		{"a,,99," + stranger + ",,1000", "mintId", "There is no mint 99"},
		{"a,,USDC," + stranger + ",,1000", "mintId", "is not the number of a mint"},
		{"a,,1," + stranger + ",memo,1000", "memo", "no memo"},
		{"a\u200bb,,1," + stranger + ",,1000", "reference", "U+200B"},
		{"a,b\x00,1," + stranger + ",,1000", "customerId", "U+0000"},
		{"a,,1," + stranger, "", "4 values"},
	}
	text := listHeader + "good,,1," + stranger + ",,1000\n"
	for _, b := range bad {
		text += b.row + "\n"
	}
	made := h.wantStatus(h.upload(h.one, "", text), 201)
	problems, _ := made.body["problems"].([]any)
	if made.body["validCount"] != 1.0 || made.body["invalidCount"] != float64(len(bad)) || len(problems) != len(bad) {
		t.Fatalf("got %s, want a problem of each of %d rows", made.raw, len(bad))
	}
	for i, b := range bad {
		p := problems[i].(map[string]any)
		column, _ := p["column"].(string)
		if p["position"] != float64(i+2) || p["line"] != float64(i+3) || column != b.column ||
			!strings.Contains(p["message"].(string), b.words) {
			t.Errorf("%q: got %v, want %q of %s", b.row, p, b.words, b.column)
		}
	}
	refused := h.submitBatch(h.one, made)
	h.wantRefusal("a STRICT batch with them", refused, 409, "INVALID_STATE", "")

	// What only the withdrawal of a row knows is found after the submission.
	h.fundBatches(h.one, 10_000)
	for name, c := range map[string]struct {
		to    string
		words string
	}{
		"an address of the service": {customer, ""}, "the token": {string(usdcAddress), ""},
	} {
		b := h.makeBatch(h.one, strings.ReplaceAll(name, " ", "-"), "rows", []any{batchRow("r-"+c.to, c.to, "1000")})
		h.wantStatus(h.submitBatch(h.one, b), 202)
		id := b.text("batchPayoutId")
		if err := h.conf.Payouts.Validate(t.Context(), h.one.id, id); err != nil {
			t.Fatal(err)
		}
		shown := h.getBatch(h.one, id)
		if shown.text("status") != "INVALID" || shown.text("problem") == "" {
			t.Errorf("%s: got %s, want it invalid", name, shown.raw)
		}
		if told := h.batchEvents(h.one, id); !slices.Equal(told, []string{"BATCH_PAYOUT_FAILED INVALID"}) {
			t.Errorf("%s: got the events %q", name, told)
		}
	}
	// A disabled and a quarantined coin.
	shut := h.makeBatch(h.one, "shut", "rows",
		[]any{map[string]any{"mintId": closed, "toAddress": stranger, "amount": "1000"}})
	h.wantRefusal("a coin of which there is nothing", h.submitBatch(h.one, shut), 422, "INSUFFICIENT_BALANCE", "")
	held := h.makeBatch(h.one, "quarantined")
	_, err := pgtest.Superuser(t, h.db).Exec(t.Context(), `
		UPDATE mints SET quarantined_at = now(), quarantine_reason = 'BALANCE_DELTA' WHERE mint_id = $1`, usdc)
	if err != nil {
		t.Fatal(err)
	}
	h.wantStatus(h.submitBatch(h.one, held), 202)
	id := held.text("batchPayoutId")
	_ = h.conf.Payouts.Validate(t.Context(), h.one.id, id) // whether it waits or is invalid, nothing is paid
	if s := h.getBatch(h.one, id).text("status"); s != "INVALID" && s != "VALIDATING" {
		t.Errorf("a quarantined coin: got %s, want nothing that can be approved", s)
	}
}

// A hash of another version, the same list twice, and too little money are refused with what a caller needs to go on,
// and nothing is held. Rules BP-4, BP-9 and BP-16.
func TestASubmissionThatIsWrongHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := h.makeBatch(h.one, "one")
	id := made.text("batchPayoutId")
	poor := h.submitBatch(h.one, made)
	h.wantRefusal("nothing to pay with", poor, 422, "INSUFFICIENT_BALANCE", "")
	details, _ := poor.body["details"].(map[string]any)
	if !sameJSON(t, details["shortfall"], []any{map[string]any{
		"mintId": 1.0, "needed": "3000", "available": "0", "missing": "3000",
	}}) {
		t.Errorf("got %s, want what is missing", poor.raw)
	}
	older := h.makeBatch(h.one, "older", "rows", []any{batchRow("x", stranger, "7000")})
	path := "/batch-payouts/" + id
	h.wantRefusal("the hash of another batch",
		h.call(h.one, "POST", path+"/submit", map[string]any{"contentHash": older.body["contentHash"]}), 409,
		"APPROVAL_REFUSED", "contentHash")
	for _, hash := range []string{"", "sha256:", strings.ToUpper(made.text("contentHash")), made.text("contentHash")[7:]} {
		h.wantRefusal("no hash", h.call(h.one, "POST", path+"/submit", map[string]any{"contentHash": hash}), 400,
			"INVALID_REQUEST", "contentHash")
	}
	h.fundBatches(h.one, 10_000)
	first := h.wantStatus(h.submitBatch(h.one, made), 202)
	same := h.makeBatch(h.one, "two", "rows", batchBody("one")["rows"])
	duplicate := h.submitBatch(h.one, same)
	h.wantRefusal("the same list", duplicate, 409, "DUPLICATE_BATCH", "acknowledgeDuplicateOf")
	if duplicate.text("existingId") != first.text("batchPayoutId") {
		t.Errorf("got %s, want the id of the first batch", duplicate.raw)
	}
	acknowledged := h.submitBatch(h.one, same, "acknowledgeDuplicateOf", id)
	h.wantStatus(acknowledged, 202)
	for _, p := range []string{"/pause", "/resume", "/retry"} {
		got := h.call(h.one, "POST", path+p, nil)
		h.wantRefusal(p, got, 409, "INVALID_STATE", "")
		if got.text("currentStatus") != "VALIDATING" {
			t.Errorf("%s: got %s, want the status", p, got.raw)
		}
	}
	cancelled := h.wantStatus(h.call(h.one, "POST", path+"/cancel", nil), 200)
	again := h.wantStatus(h.call(h.one, "POST", path+"/cancel", nil), 200)
	if cancelled.text("status") != "CANCELLED" || !sameJSON(t, cancelled.body, again.body) {
		t.Errorf("got %s, then %s, want it cancelled once", cancelled.raw, again.raw)
	}
	if told := h.batchEvents(h.one, id); len(told) != 0 {
		t.Errorf("got the events %q of a batch that was cancelled before anyone looked at it", told)
	}
}

// A batch that is being paid is paused, resumed and cancelled, each once. Its unpaid rows make another batch. Rules
// BP-16 and BP-18.
func TestABatchPayoutIsPausedResumedAndRetried(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundBatches(h.one, 10_000)
	id := h.processingBatch(h.one, "paused")
	path := "/batch-payouts/" + id
	paused := h.wantStatus(h.call(h.one, "POST", path+"/pause", nil), 200)
	again := h.wantStatus(h.call(h.one, "POST", path+"/pause", nil), 200)
	if paused.body["paused"] != true || paused.body["pausedAt"] == nil || !sameJSON(t, paused.body, again.body) {
		t.Errorf("got %s, then %s, want it paused once", paused.raw, again.raw)
	}
	resumed := h.wantStatus(h.call(h.one, "POST", path+"/resume", nil), 200)
	if resumed.body["paused"] != false || resumed.body["pausedAt"] != nil {
		t.Errorf("got %s, want it going on", resumed.raw)
	}
	if told := h.batchEvents(h.one, id); !slices.Equal(told, []string{
		"BATCH_PAYOUT_AWAITING_APPROVAL AWAITING_APPROVAL", "BATCH_PAYOUT_PROCESSING PROCESSING",
	}) {
		t.Errorf("got the events %q, want none of the pause", told)
	}
	rejected := h.makeBatch(h.one, "rejected", "rows", []any{batchRow("r", stranger, "500")})
	rejectedID := rejected.text("batchPayoutId")
	h.wantStatus(h.submitBatch(h.one, rejected), 202)
	if err := h.conf.Payouts.Validate(t.Context(), h.one.id, rejectedID); err != nil {
		t.Fatal(err)
	}
	_, err := h.conf.Payouts.Reject(t.Context(), h.one.id, rejectedID, "The list is of last month.",
		audit.User("usr_batches"))
	if err != nil {
		t.Fatal(err)
	}
	if told := h.batchEvents(h.one, rejectedID); !slices.Equal(told, []string{
		"BATCH_PAYOUT_AWAITING_APPROVAL AWAITING_APPROVAL", "BATCH_PAYOUT_REJECTED REJECTED",
	}) {
		t.Errorf("got the events %q", told)
	}
	retry := func() reply {
		return h.wantStatus(h.call(h.one, "POST", "/batch-payouts/"+rejectedID+"/retry",
			map[string]any{"idempotencyKey": "again"}), 201)
	}
	draft, same := retry(), retry()
	if draft.text("status") != "DRAFT" || draft.text("retryOf") != rejectedID ||
		draft.text("contentHash") == rejected.text("contentHash") ||
		draft.text("batchPayoutId") != same.text("batchPayoutId") {
		t.Errorf("got %s, then %s, want one draft of the unpaid rows", draft.raw, same.raw)
	}
}

// The proof of a row verifies without the service, and it says nothing of another row.
func TestAPayeeVerifiesTheProofOfARow(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := h.makeBatch(h.one, "proven")
	path := "/batch-payouts/" + made.text("batchPayoutId") + "/items/"
	got := h.wantStatus(h.call(h.one, "GET", path+"2/proof", nil), 200)
	var p contenthash.RowProof
	if err := json.Unmarshal(got.raw, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.VerifyRow(); err != nil || p.ContentHash.String() != made.text("contentHash") ||
		p.Row.Amount.String() != "2000" || strings.Contains(string(got.raw), stranger) {
		t.Errorf("got %s (%v), want the proof of the second row", got.raw, err)
	}
	for _, row := range []string{"0", "3", "02", "-1", "x", "99999999999999999999"} {
		h.wantRefusal("row "+row, h.call(h.one, "GET", path+row+"/proof", nil), 404, "NOT_FOUND", "")
	}
	h.wantRefusal("another organization's", h.call(h.two, "GET", path+"2/proof", nil), 404, "NOT_FOUND", "")
	h.file(h.two, "/batch-payouts/"+made.text("batchPayoutId")+"/items.csv", http.StatusNotFound)
}

// Every event of a batch is one that an endpoint has to name. Rule BP-18.
func TestTheEventsOfABatchAreExtensions(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundBatches(h.one, 10_000)
	id := h.processingBatch(h.one, "told")
	h.sequenced()
	types := map[string]bool{}
	for _, e := range h.wantStatus(h.call(h.one, "GET", "/events?limit=200", nil), 200).list() {
		types[e["type"].(string)] = true
		data, _ := e["data"].(map[string]any)
		if data["batchPayoutId"] == id && strings.HasPrefix(e["type"].(string), "CUSTOMER_") {
			t.Errorf("got %v, want no event of a customer", e)
		}
	}
	if !types["BATCH_PAYOUT_PROCESSING"] {
		t.Errorf("got %v, want the event of the batch", slices.Sorted(maps.Keys(types)))
	}
}
