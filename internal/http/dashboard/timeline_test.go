package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// attempt records two attempts to deliver the first event of a resource: one that the receiver refused with
// a text of its own, and one that it took.
func (h *testEnv) attempt(who tenant, resourceID, answer string) {
	h.t.Helper()
	err := h.db.InOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO webhook_endpoints
			(endpoint_id, org_id, url, events, status, api_version, created_at, updated_at)
			VALUES ('we_' || $1, $1, 'https://shop.example/hook', '{}', 'ENABLED', '1', $2, $2)`, who.id, tx.Now)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			WITH made AS (
				INSERT INTO deliveries (
					org_id, endpoint_id, event_id, resource_id, resource_seq, status, attempts, created_at,
					attempt_after, ended_at)
				SELECT org_id, 'we_' || org_id, event_id, resource_id, resource_seq, 'DELIVERED', 2, $2, $2, $2
				FROM events WHERE org_id = $1 AND resource_id = $3 ORDER BY resource_seq LIMIT 1
				RETURNING delivery_id, endpoint_id)
			INSERT INTO delivery_attempts (
				delivery_id, attempt, org_id, at, status_code, response, duration_ms, endpoint_id, url)
			SELECT delivery_id, n, $1, $2, CASE n WHEN 1 THEN 500 ELSE 204 END, CASE n WHEN 1 THEN $4 END, 5,
				endpoint_id, 'https://shop.example/hook'
			FROM made, generate_series(1, 2) n`, who.id, tx.Now, resourceID, answer)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// sign records two signed transactions of a payment, of which the second replaces the first.
func (h *testEnv) sign(who tenant, withdrawalID string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for version, hash := range []string{firstHash, secondHash} {
			_, err := tx.Exec(ctx, `
				INSERT INTO dispatch_attempts (
					order_id, version, org_id, act, gas_limit, tip_cap, fee_cap, payload, raw, tx_hash,
					created_at, signed_at, sent_at, replace_reason)
				VALUES ($1, $2, $3, 'PAY', 21000, 1, 1, '\x01', '\x02', $4,
					$5, $5, $5, CASE $2::int WHEN 2 THEN 'FEE' END)`,
				withdrawalID, version+1, who.id, hash, tx.Now)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// wantInOrder checks that texts stand on a page one after another.
func wantInOrder(t *testing.T, body string, texts ...string) {
	t.Helper()
	rest := body
	for _, text := range texts {
		at := strings.Index(rest, text)
		if at < 0 {
			t.Fatalf("got no %q after the texts before it:\n%s", text, body)
		}
		rest = rest[at+len(text):]
	}
}

// The page of a withdrawal has everything that happened to it, in order: who asked, the rules and their
// inputs, votes, transactions, and each attempt of a webhook. What strangers chose is text.
// Rules PAGE-4 and PAGE-14.
func TestAWithdrawalHasATimeline(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, evil, 50_000_000)
	w := h.request(h.one, stranger, evil, "1000000")
	path := Prefix + "/transactions/withdrawals/" + w.ID
	approver := h.signIn(h.one, identity.Approver)
	h.get(approver, path).want(t, http.StatusOK, "It waits for a person.", "Review it",
		`href="`+Prefix+"/approvals/withdrawals/"+w.ID+`"`, "curl", "/v1/withdrawals/"+w.ID)
	review, digest := h.open(approver, w.ID)
	h.get(approver, review).want(t, http.StatusOK, `href="`+path+`"`)
	h.post(approver, review+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusSeeOther)
	h.sign(h.one, w.ID)
	h.attempt(h.one, w.ID, hostile)
	body := h.get(h.signIn(h.one, identity.Viewer), path).want(t, http.StatusOK,
		"It does not wait for a person.", "https://explorer.example/tx/"+secondHash, "noreferrer",
		templEscaped(ui.EscapeForeign(hostile)), "Held for withdrawals of the customer", "The amount was held",
		`resource=`+w.ID).body
	wantInOrder(t, body, "Requested", "Your backend, with an API key", "Approval asked for", "Approved and let go",
		"By Approver Person", "Signed", "Sent to the network", "Replaced by a new transaction",
		"The fee of the one before was too low", "attempt 1", "500", "Webhook taken by the receiver", "attempt 2")
	for _, markup := range []string{"<script>alert", "\u202e", "<b>U</b>", "script>Аlice"} {
		if strings.Contains(body, markup) {
			t.Errorf("the page has %q as the stranger wrote it", markup)
		}
	}
}

// The page of a deposit counts its confirmations, and loads itself again while it does. Rule PAGE-14.
func TestADepositHasATimeline(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	arrived := h.seeDeposits(h.one, stranger, evil, 1, firstHash)
	body := h.get(h.signIn(h.one, identity.Viewer), Prefix+"/transactions/deposits/"+arrived).want(t, http.StatusOK,
		"data-poll", " of 2 confirmations", "Seen on the chain", "In block 101",
		"https://explorer.example/tx/"+firstHash, "/v1/deposits/"+arrived, `resource=`+arrived).body
	for _, markup := range []string{"<script>alert", "<b>U</b>", "script>Аlice"} {
		if strings.Contains(body, markup) {
			t.Errorf("the page has %q as the stranger wrote it", markup)
		}
	}
}

// The page of a transfer has both sides and what it moved. Rule PAGE-14.
func TestATransferHasATimeline(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, evil, 50_000_000)
	moved := h.transfer(h.one, stranger, evil, "key-1", hostile)
	body := h.get(h.signIn(h.one, identity.Viewer), Prefix+"/transactions/transfers/"+moved.ID).want(t, http.StatusOK,
		"Custodial", templEscaped(ui.EscapeForeign(stranger)), templEscaped(ui.EscapeForeign(hostile)),
		"Balance of the customer", "Balance of your product", "taken", "added", `value="0.001"`).body
	for _, markup := range []string{"<script>alert", "\u202e", "<b>U</b>", "script>Аlice"} {
		if strings.Contains(body, markup) {
			t.Errorf("the page has %q as the stranger wrote it", markup)
		}
	}
}

// Every role opens the page of each kind, and another organization finds none of them. Rule PAGE-6.
func TestATransactionOfAnotherOrganizationIsNotThere(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	arrived := h.seeDeposits(h.one, "alice", usdc, 1, firstHash)
	asked := h.request(h.one, "alice", usdc, "1000000")
	moved := h.transfer(h.one, "alice", usdc, "key-1", "invoice 7")
	for _, path := range []string{"/deposits/" + arrived, "/withdrawals/" + asked.ID, "/transfers/" + moved.ID} {
		path = Prefix + "/transactions" + path
		for _, role := range roles {
			h.get(h.signIn(h.one, role), path).want(t, http.StatusOK)
		}
		body := h.get(h.signIn(h.two, identity.Owner), path).want(t, http.StatusNotFound).body
		if strings.Contains(body, "alice") {
			t.Errorf("%s: another organization sees the customer", path)
		}
		h.get(h.signIn(h.one, identity.Owner), path+"x").want(t, http.StatusNotFound)
		h.get("", path).want(t, http.StatusSeeOther)
	}
}
