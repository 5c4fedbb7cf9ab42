package surfacetest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// paySwap makes the payment of a swap final two days ago, and the provider's deadline a day ago.
func (h *testEnv) paySwap(swapID string) {
	h.t.Helper()
	owner := pgtest.OwnerPool(h.t, h.db)
	if _, err := owner.Exec(h.t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE dispatch_orders SET status = 'PAID', fee = 0, tx_hash = '0xpaid',
			proof_id = (SELECT max(proof_id) FROM finality_proofs), ended_at = now() WHERE order_id = '`+swapID+`';
		UPDATE swaps SET status = 'PROCESSING', paid_at = now() - interval '2 days',
			expires_at = now() - interval '1 day', origin_tx_hash = '0xpaid',
			look_at = now() + interval '1 hour' WHERE swap_id = '`+swapID+`';
		COMMIT`); err != nil {
		h.t.Fatal(err)
	}
	var orgID, provider string
	var amount money.Amount
	if err := owner.QueryRow(h.t.Context(), `SELECT org_id, provider, amount_in FROM swaps WHERE swap_id = $1`,
		swapID).Scan(&orgID, &provider, &amount); err != nil {
		h.t.Fatal(err)
	}
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.SwapPaid, ID: swapID},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: orgID, MintID: dai, Kind: ledger.AtProvider, Subject: provider},
				Credit: ledger.Account{OrgID: orgID, MintID: dai, Kind: ledger.Custody}, Amount: amount,
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// claim makes a failed swap of which its provider owes everything.
func (h *testEnv) claim(who tenant, key string, change ...any) string {
	h.t.Helper()
	id := h.makeSwap(who, key, change...)
	h.paySwap(id)
	h.fail(id, "0")
	return id
}

// stray adds an arrival of DAI at the refund wallet of a swap that no open swap expects.
func (h *testEnv) stray(swapID string) string {
	h.t.Helper()
	depositID := "dep_" + strings.TrimPrefix(swapID, "cs_")
	if _, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), fmt.Sprintf(`
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, mint_id, chain, contract, amount, address,
			from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status,
			created_at, credited_at, swap_id, arrival_role, is_hidden)
		SELECT '%[2]s', s.org_id, w.wallet_id, w.purpose, %[3]d, 'ETHEREUM', '%[4]s', 700, w.address,
			'0xpayer', '%[2]s', 'TOKEN', '1', 1, 0, 'h', p.proof_id, 'CREDITED', 'FINALIZED',
			now(), now(), s.swap_id, 'STRAY', true
		FROM swaps s JOIN wallets w ON w.wallet_id = s.refund_wallet_id,
			(SELECT max(proof_id) AS proof_id FROM finality_proofs) p
		WHERE s.swap_id = '%[1]s';
		INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at)
			SELECT '%[2]s', org_id, swap_id, 'STRAY', 'AFTER_END', now() FROM swaps WHERE swap_id = '%[1]s';
		COMMIT`, swapID, depositID, dai, daiAddress)); err != nil {
		h.t.Fatal(err)
	}
	return depositID
}

// newSwapOffice returns an office whose first organization swaps.
func newSwapOffice(t *testing.T) *office {
	t.Helper()
	o := newOffice(t)
	o.openSwaps(o.one)
	o.fund(o.one, alice, 1_000_000_000)
	o.desk = o.opened(t, here, kernel.Limits{})
	return o
}

var swapNote = map[string]any{"note": "case 9"}

// An operator finds the swaps whose value is with a provider, and sees of one what to tell the provider.
// Rule SWAP-27.
func TestOperatorsSeeWhatIsWithAProvider(t *testing.T) {
	t.Parallel()
	o := newSwapOffice(t)
	fresh, open := o.makeSwap(o.one, "fresh"), o.makeSwap(o.one, "open")
	o.paySwap(open)
	for query, want := range map[string][]string{
		"": {open, fresh}, "?openClaims=true": {open}, "?status=PENDING": {fresh}, "?provider=RELAY": {},
		"?provider=ONE_CLICK&order=asc": {fresh, open}, "?customerId=bob": {},
		"?organizationId=" + o.two.id: {}, "?organizationId=" + o.one.id: {open, fresh},
	} {
		got := []string{}
		for _, w := range o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swaps"+query, nil), 200).list() {
			got = append(got, w["swapId"].(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("/swaps%s: got %v, want %v", query, got, want)
		}
	}
	shown := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swaps/"+open, nil), 200)
	if shown.text("organizationId") != o.one.id || shown.text("openClaim") != "1000000" || shown.text("paidAt") == "" {
		t.Errorf("got %s, want the claim of its organization", shown.raw)
	}
	var deposit, delivery, refund string
	if err := pgtest.OwnerPool(t, o.db).QueryRow(t.Context(), `
		SELECT o.deposit_address, d.address, r.address FROM swaps s JOIN swap_offers o USING (swap_id)
			JOIN wallets d ON d.wallet_id = s.delivery_wallet_id JOIN wallets r ON r.wallet_id = s.refund_wallet_id
		WHERE s.swap_id = $1`, open).Scan(&deposit, &delivery, &refund); err != nil {
		t.Fatal(err)
	}
	if shown.text("depositAddress") != deposit || shown.text("deliveryAddress") != delivery ||
		shown.text("refundAddress") != refund {
		t.Errorf("got %s, want %s, %s and %s", shown.raw, deposit, delivery, refund)
	}
	o.desk.wantRefusal("no swap", o.desk.call(o.ann, "GET", "/swaps/cs_01J9ZW3M8Q4S5T6V7W8X9YZABC", nil), 404,
		"NOT_FOUND", "")
	looked := o.desk.wantStatus(o.desk.call(o.ann, "POST", "/swaps/"+open+"/look", nil), 200)
	if looked.text("nextLookAt") >= shown.text("nextLookAt") || looked.text("status") != "PROCESSING" {
		t.Errorf("got %s, want it looked at before %s, and nothing decided", looked.raw, shown.text("nextLookAt"))
	}

	// An address that the signer did not attest is told to no provider.
	if _, err := pgtest.OwnerPool(t, o.db).Exec(t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE wallets SET address = '0x0000000000000000000000000000000000000bad' WHERE address = '`+refund+`';
		COMMIT`); err != nil {
		t.Fatal(err)
	}
	o.desk.fails = true
	if got := o.desk.call(o.ann, "GET", "/swaps/"+open, nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("another address in the row: got %v %s, want it refused", got.status, got.raw)
	}
}

// A swap is ended by an operator only past its deadline and its time with the provider. The customer's
// amount and the claim stay, until the claim is written off, once. Rules SWAP-24 and SWAP-25.
func TestAnOperatorEndsASwapAndGivesItsClaimUp(t *testing.T) {
	t.Parallel()
	o := newSwapOffice(t)
	id := o.makeSwap(o.one, "stuck")
	held := o.daiOf(o.one, alice)["inSwap"]
	fail, writeOff := "/swaps/"+id+"/fail", "/swaps/"+id+"/write-off"
	o.desk.wantRefusal("no payment", o.desk.call(o.ann, "POST", fail, swapNote), 409, "INVALID_STATE", "")
	o.paySwap(id)
	o.desk.wantRefusal("no note", o.desk.call(o.ann, "POST", fail, map[string]any{"note": ""}), 400, "INVALID_REQUEST",
		"note")
	o.desk.wantRefusal("open", o.desk.call(o.ann, "POST", writeOff, swapNote), 409, "INVALID_STATE", "")
	failed := o.desk.wantStatus(o.desk.call(o.ann, "POST", fail, swapNote), 200)
	if failed.text("status") != "FAILED" || failed.text("openClaim") != "1000000" {
		t.Errorf("got %s, want it failed and its claim open", failed.raw)
	}
	if got := o.daiOf(o.one, alice)["inSwap"]; got != held {
		t.Errorf("in swap: got %v, want %v as before", got, held)
	}
	o.desk.wantRefusal("twice", o.desk.call(o.ann, "POST", fail, swapNote), 409, "INVALID_STATE", "")
	done := o.desk.wantStatus(o.desk.call(o.ann, "POST", writeOff, swapNote), 200)
	if left := done.body["swap"].(map[string]any); done.text("status") != "WRITTEN_OFF" || left["openClaim"] != "0" ||
		left["writtenOff"] != "1000000" {
		t.Errorf("got %s, want nothing owed", done.raw)
	}
	if got := o.daiOf(o.one, alice)["inSwap"]; got != "0" {
		t.Errorf("in swap: got %v, want 0", got)
	}
	o.desk.wantRefusal("twice", o.desk.call(o.ann, "POST", writeOff, swapNote), 409, "INVALID_STATE", "")
}

// Where dual control applies, a claim is written off when a second operator approves it, and not after a
// part came back. Rules OP-7, OP-9 and SWAP-25.
func TestAWriteOffWaitsForASecondOperator(t *testing.T) {
	t.Parallel()
	o, others := watched(t, "bob")
	o.openSwaps(o.one)
	o.fund(o.one, alice, 1_000_000_000)
	eyes, bob := o.desk, others[0]
	id := o.claim(o.one, "owed")
	first := eyes.wantStatus(eyes.call(o.ann, "POST", "/swaps/"+id+"/write-off", swapNote), 200)
	change := first.text("changeRequestId")
	if first.text("status") != "AWAITING_APPROVAL" || first.body["swap"].(map[string]any)["openClaim"] != "1000000" {
		t.Errorf("got %s, want it to wait", first.raw)
	}
	again := eyes.wantStatus(eyes.call(o.ann, "POST", "/swaps/"+id+"/write-off", swapNote), 200)
	if again.text("changeRequestId") != change {
		t.Errorf("got %s, want the request %s again", again.raw, change)
	}
	approve := "/change-requests/" + change + "/approve"
	eyes.wantRefusal("its author", eyes.call(o.ann, "POST", approve, nil), 409, "APPROVAL_REFUSED", "")
	refund := func(amount string) {
		t.Helper()
		if _, err := pgtest.OwnerPool(t, o.db).Exec(t.Context(), `
			BEGIN; SET LOCAL session_replication_role = replica;
			UPDATE swaps SET refunded = `+amount+` WHERE swap_id = '`+id+`'; COMMIT`); err != nil {
			t.Fatal(err)
		}
	}
	refund("400000")
	eyes.wantRefusal("a part came back", eyes.call(bob, "POST", approve, nil), 409, "INVALID_STATE", "")
	refund("0")
	approved := eyes.wantStatus(eyes.call(bob, "POST", approve, nil), 200)
	if approved.text("status") != "APPROVED" || approved.text("kind") != "SWAP_WRITE_OFF" {
		t.Errorf("got %s, want it approved", approved.raw)
	}
	if got := eyes.wantStatus(eyes.call(o.ann, "GET", "/swaps/"+id, nil), 200); got.text("openClaim") != "0" {
		t.Errorf("got %s, want nothing owed", got.raw)
	}
	eyes.wantRefusal("nothing is left", eyes.call(o.ann, "POST", "/swaps/"+id+"/write-off", swapNote), 409,
		"INVALID_STATE", "")
}

// An arrival that no swap expects waits for a decision, which is made once. Rule SWAP-26.
func TestAnOperatorDecidesAboutAStrayArrivalOnce(t *testing.T) {
	t.Parallel()
	o := newSwapOffice(t)
	id := o.stray(o.claim(o.one, "late"))
	listed := func(query string) int {
		t.Helper()
		return len(o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swap-arrivals"+query, nil), 200).list())
	}
	if listed("") != 1 || listed("?open=true") != 1 {
		t.Errorf("got %d and %d open, want one", listed(""), listed("?open=true"))
	}
	decide := func(decision, note string) reply {
		return o.desk.call(o.ann, "POST", "/swap-arrivals/"+id+"/decide",
			map[string]any{"decision": decision, "note": note})
	}
	o.desk.wantRefusal("no word", decide("SENT_BACK", "case"), 400, "INVALID_REQUEST", "decision")
	o.desk.wantRefusal("no note", decide("KEPT", ""), 400, "INVALID_REQUEST", "note")
	kept := o.desk.wantStatus(decide("KEPT", "case 10"), 200)
	if kept.text("decision") != "KEPT" || kept.text("note") != "case 10" ||
		kept.text("decidedBy") != "OPERATOR "+o.key.ID || kept.text("decidedAt") == "" {
		t.Errorf("got %s, want the decision", kept.raw)
	}
	o.desk.wantRefusal("twice", decide("KEPT", "case 10"), 409, "INVALID_STATE", "")
	if listed("") != 1 || listed("?open=true") != 0 {
		t.Errorf("got %d and %d open, want it decided", listed(""), listed("?open=true"))
	}
}

// A provider that is suspended gets no quote and no swap, until a person resumes it. Rule SWAP-28.
func TestASuspendedProviderGetsNoNewSwaps(t *testing.T) {
	t.Parallel()
	o := newSwapOffice(t)
	because := func(reason string) map[string]any { return map[string]any{"reason": reason} }
	suspend, resume := "/swap-providers/ONE_CLICK/suspend", "/swap-providers/ONE_CLICK/resume"
	o.desk.wantRefusal("no reason", o.desk.call(o.ann, "POST", suspend, because("")), 400, "INVALID_REQUEST", "reason")
	o.desk.wantRefusal("unknown", o.desk.call(o.ann, "POST", "/swap-providers/MISSING/suspend", because("x")), 404,
		"NOT_FOUND", "")
	o.desk.wantStatus(o.desk.call(o.ann, "POST", suspend, because("first")), 200)
	got := o.desk.wantStatus(o.desk.call(o.ann, "POST", suspend, because("second")), 200)
	if got.text("state") != "SUSPENDED" || got.text("reason") != "first" ||
		got.text("changedBy") != "OPERATOR "+o.key.ID {
		t.Errorf("got %s, want the first reason", got.raw)
	}
	list := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swap-providers", nil), 200).list()
	if len(list) != 1 || list[0]["provider"] != "ONE_CLICK" || list[0]["state"] != "SUSPENDED" ||
		list[0]["outstandingUsd"] != "0" || list[0]["outstandingUsdMax"] != nil {
		t.Errorf("got %v, want the one suspended", list)
	}
	got = o.desk.wantStatus(o.desk.call(o.ann, "POST", resume, because("fixed")), 200)
	if got.text("state") != "ACTIVE" || got.text("reason") != "fixed" {
		t.Errorf("got %s, want it active", got.raw)
	}
}

// An organization sees its own fees, and an operator those of all, of a month in UTC. Rule SWAP-29.
func TestFeesAreListedByMonthAndByTheirOwner(t *testing.T) {
	t.Parallel()
	o := newSwapOffice(t)
	id := o.makeSwap(o.one, "billed")
	if _, err := pgtest.OwnerPool(t, o.db).Exec(t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
			VALUES (`+fmt.Sprint(dai)+`, 1.5, 'TEST', '2026-01-31T23:59:58Z', now());
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
				usd_value, price_mark_id, incurred_at)
			SELECT 'fee_1', org_id, 'SWAP_FEE', 'SWAP', swap_id, from_mint_id, 2500, 25, 0.00375,
				(SELECT max(price_mark_id) FROM price_marks), '2026-01-31T23:59:59Z'
			FROM swaps WHERE swap_id = '`+id+`';
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
				incurred_at)
			SELECT 'fee_2', '`+o.two.id+`', 'SWAP_FEE', 'SWAP', 'cs_other', from_mint_id, 5, 1, '2026-02-01T00:00:00Z'
			FROM swaps WHERE swap_id = '`+id+`';
		COMMIT`); err != nil {
		t.Fatal(err)
	}
	count := func(face *testEnv, who tenant, query string) int {
		t.Helper()
		return len(face.wantStatus(face.call(who, "GET", "/billing/fees"+query, nil), 200).list())
	}
	for query, want := range map[string][3]int{
		"": {2, 1, 1}, "?month=2026-01": {1, 1, 0}, "?month=2026-02": {1, 0, 1}, "?month=2025-12": {0, 0, 0},
	} {
		got := [3]int{count(o.desk, o.ann, query), count(o.testEnv, o.one, query), count(o.testEnv, o.two, query)}
		if got != want {
			t.Errorf("%s: got %v of all, of one and of the other, want %v", query, got, want)
		}
	}
	if got := count(o.desk, o.ann, "?organizationId="+o.two.id); got != 1 {
		t.Errorf("got %d, want those of the organization alone", got)
	}
	row := o.testEnv.wantStatus(o.testEnv.call(o.one, "GET", "/billing/fees?month=2026-01", nil), 200).list()[0]
	for name, want := range map[string]any{
		"kind": "SWAP_FEE", "swapId": id, "fromMintId": float64(dai), "feeAmount": "2500", "feeBps": 25.0,
		"usdValue": "0.00375", "price": "1.5", "priceSource": "TEST", "pricedAt": "2026-01-31T23:59:58.000Z",
		"completedAt": "2026-01-31T23:59:59.000Z",
	} {
		if row[name] != want {
			t.Errorf("%s: got %v, want %v", name, row[name], want)
		}
	}
	for _, month := range []string{"2026", "2026-13", "01-2026"} {
		o.desk.wantRefusal(month, o.desk.call(o.ann, "GET", "/billing/fees?month="+month, nil), 400, "INVALID_REQUEST",
			"month")
	}
	if len(fee.MonthLayout) != len("2026-01") {
		t.Errorf("got the form %s of a month, want that of the document", fee.MonthLayout)
	}
}
