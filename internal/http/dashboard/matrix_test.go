package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

// fullList is more than one page of a list has.
const fullList = 52

// fill gives the first organization at least n things of each kind, and texts of strangers in each. It
// returns the pages with a thing for each.
func (h *testEnv) fill(n int) pagematrix.House {
	h.t.Helper()
	h.setQuorum(h.one, "2")
	h.setSetting(h.one, "additionalApiKeys", "true")
	h.fund(h.one, "alice", usdc, 500_000_000_000)
	h.fund(h.one, "<script>Аlice", evil, 500_000_000_000)
	first := h.request(h.one, "alice", usdc, "12500000000")
	var second string
	for i := range n {
		h.newCustomers(h.one, fmt.Sprintf("customer-%d-of-one %s", i, hostile[:8]))
		h.request(h.one, "alice", usdc, "1000000")
		second = h.request(h.one, "<script>Аlice", evil, "999999999").ID
	}
	arrived := h.seeDeposits(h.one, "<script>Аlice", evil, n, firstHash)
	var moved string
	for i := range n {
		moved = h.transfer(h.one, "<script>Аlice", evil, fmt.Sprint("key-", i), hostile).ID
	}
	h.fundProduct(h.one, "CHECKOUT", usdc, 12_500_000_000)
	h.fundProduct(h.one, "BATCH_PAYOUT", evil, 7_000_000)
	payouts := h.addShownPayouts(n)
	entry := h.allow(h.one, recipient, "Cold wallet <b>")
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	counter := &deposit.AddressService{DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book}
	if _, err := counter.IssueForProduct(h.t.Context(), h.one.id, usdc, "CHECKOUT"); err != nil {
		h.t.Fatal(err)
	}
	shownSwaps := h.listSwapRows(h.one, "<script>Аlice")
	for i := range n {
		r := h.newSwapRow(h.one, "<script>Аlice", fmt.Sprint("failed-", i), "FAILED")
		r.FailureReason, r.EndedAt, r.Refunded = "DEADLINE_EXPIRED", after(r, time.Hour), r.AmountIn
		h.addSwaps(r)
	}
	for _, r := range shownSwaps {
		h.addSwaps(r)
	}
	var paidCheckout string
	openOne := h.openCheckout(h.one, h.addCheckout(h.one, hostile[:20]).ID)
	completed := h.addPaid(h.one, "order-completed", contract, 12*dollar)
	for i := range n {
		paidCheckout = h.addPaid(h.one, fmt.Sprintf("order-%d %s", i, hostile[:8]), "", tenthEther).ID
		h.addUnmatched(h.one, dollar)
	}
	h.walk()
	h.settle()
	refund, _, _, err := h.checkouts.RequestRefund(h.t.Context(), h.one.id, checkout.RefundRequest{
		CheckoutID: completed.ID, Kind: checkout.OverpaidRefund, Reason: new(hostile[:20]), Actor: audit.APIKey("<i>"),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	unmatched := h.listUnmatched(h.one)[0].DepositID
	flagged := h.flagDeposits(h.one, n, true)[0]
	h.enableOwnSwaps(h.one)
	h.fundProduct(h.one, "CUSTODIAL", eth, 9_000_000_000_000_000_000)
	ethEntry := h.allow(h.one, cold, "Exchange <b>")
	var ownSwap, depositSwap, product string
	var link checkout.Link
	for i := range n {
		ownSwap = h.requestOwnSwap(h.one, fmt.Sprint("own-", i), ethEntry).ID
		depositSwap = h.addDepositSwap(h.one, "<script>Аlice", fmt.Sprint("top-up-", i)).ID
		product = h.addProduct(h.one, fmt.Sprint("product-", i)).ID
		link = h.addLink(h.one, product)
	}

	invoice, creditNote := h.fillBilling(h.one, n)

	owner, finance := h.signIn(h.one, identity.Owner), h.signIn(h.one, identity.Finance)
	confirm, fields := h.confirmWithdrawal(finance, Prefix+"/withdraw/CHECKOUT/1", entry, "5")
	h.post(finance, confirm+"/request", append(fields, "code", rightCode+"own")...)
	approver := h.signIn(h.one, identity.Approver)
	path, digest := h.open(approver, first.ID)
	h.post(approver, path+"/approve", "digest", digest, "code", rightCode)
	h.freeze(h.one, "<script>Аlice", freeze.SourceOrganization, h.one.people[identity.Owner].Actor(), "<b>odd</b>")

	endpoint := h.register(h.one, h.receiver(http.StatusBadGateway, hostile))
	var sample string // the event of a delivery that was attempted
	for range n {
		sample = h.post(owner, Prefix+"/developers/webhooks/"+endpoint+"/"+testEndpointAct, "type", "CUSTOMER_DEPOSIT").
			want(h.t, http.StatusSeeOther).header.Get("Location")
	}
	h.numberEvents()
	h.attempt(h.one, second, hostile)
	var event string
	err = pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(),
		`SELECT max(event_id) FROM events WHERE org_id = $1 AND resource_id = $2`, h.one.id, second).Scan(&event)
	if err != nil {
		h.t.Fatal(err)
	}
	job := h.post(owner, Prefix+"/developers/events/"+event+"/"+resendAct).
		want(h.t, http.StatusSeeOther).header.Get("Location")
	seen := h.get(owner, Prefix+"/settings").hidden(h.t, seenName)
	change := h.post(owner, Prefix+"/settings/"+changeSettingsAct, settingValues(seen)...).header.Get("Location")

	old := h.signIn(h.one, identity.Owner)
	h.mu.Lock()
	stale := h.sessions[old]
	stale.SudoUntil = stale.SudoUntil.Add(-2 * sudoLasts)
	h.sessions[old] = stale
	h.mu.Unlock()
	stranger := h.personOf(h.two, identity.Owner)
	_, invitation, err := signin.InviteFromTerminal(
		h.t.Context(), h.db, audit.System("test"), h.two.id, h.two.people[identity.Viewer].Email,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	signerKey := h.addApprover(h.one, identity.Approver, signer.RightApprove)
	own := h.join(h.two, identity.Owner)
	house := pagematrix.House{
		Name: "dashboard", Surface: h.surface,
		Base:     "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1],
		OwnToken: own.cookies[pages.SessionCookie], OldToken: old, Stranger: &stranger,
		Values: map[string]string{
			"product": "CHECKOUT", "mintId": "1", "customerId": "alice", "withdrawalId": second, "depositId": flagged,
			"transferId": moved, "swapId": shownSwaps["back"].ID(), "depositSwapId": depositSwap,
			"productId": product, "checkoutId": paidCheckout, "linkId": link.ID, "refundId": refund.ID,
			"batchId": payouts["paid"], "row": "1",
			"invoiceId": invoice.ID, "creditNoteId": creditNote.ID,
			"approverKeyId": signerKey,
			"memberId":      h.one.people[identity.Viewer].ID, "keyId": "key_main",
			"endpointId": endpoint, "eventId": event,
			"jobId":    job[strings.LastIndexByte(job, '/')+1:],
			"changeId": change[strings.LastIndexByte(change, '/')+1:],
		},
		OwnValues: map[string]map[string]string{
			"/organization-swaps/{swapId}":    {"swapId": ownSwap},
			"/unmatched-payments/{depositId}": {"depositId": unmatched},
			"/developers/webhooks/{endpointId}/deliveries/{eventId}": {
				"eventId": sample[strings.LastIndexByte(sample, '/')+1:],
			},
		},
		Shared: []string{"product", "mintId", "keyId"},
		Queries: map[string]string{
			"/balances/{product}/{mintId}/transfer": "to=CUSTODIAL&amount=12000.5",
			"/withdraw/{product}/{mintId}/confirm":  "amount=12000.5&to=" + entry,
			"/organization-swaps/confirm":           "balance=CUSTODIAL:3&toMint=2&amount=0.5&to=" + ethEntry,
			"/transactions/search":                  "q=alice",
			"/invitation":                           "token=" + invitation.Reveal(),
		},
		Marks: []string{
			h.one.id, "-of-one", "Cold wallet", second, first.ID, flagged, arrived, shownSwaps["back"].ID(), moved,
			endpoint, ownSwap, depositSwap, product, paidCheckout, openOne.ID, link.ID, refund.ID, unmatched,
			h.one.people[identity.Viewer].ID, firstHash, payouts["paid"], payouts["waiting"], "salary-1",
			invoice.ID, creditNote.ID, signerKey,
		},
		CountReports: h.reports.Load,
	}
	for _, role := range roles {
		house.People = append(house.People, h.personOf(h.one, role))
	}
	house.States = []pagematrix.State{
		{Name: "withdrawals", Path: "/transactions?kind=WITHDRAWAL&customerId=alice", Token: approver},
		{Name: "transfers-list", Path: "/transactions?kind=TRANSFER", Token: approver},
		{Name: "deposit-steps", Path: "/transactions/deposits/" + arrived, Token: approver},
		{Name: "review-own-vote", Path: "/approvals/withdrawals/" + first.ID, Token: approver},
		{Name: "review-to-decide", Path: "/approvals/withdrawals/" + second, Token: approver},
		{
			Name: "not-found", Path: "/approvals/withdrawals/wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", Token: approver,
			IsMissing: true,
		},
		{Name: "customers-none", Path: "/customers?search=zz", Token: approver},
		{Name: "customer-frozen", Path: "/customers/" + url.PathEscape("<script>Аlice"), Token: approver},
		{Name: "audit-empty", Path: "/audit?action=none", Token: approver},
		{Name: "withdraw-filled", Path: "/withdraw/CHECKOUT/1?amount=12&to=" + entry, Token: finance},
		{Name: "withdraw-unusable", Path: "/withdraw/BATCH_PAYOUT/2", Token: finance},
		{Name: "withdraw-forbidden", Path: "/withdraw/CHECKOUT/1/confirm?amount=90000&to=" + entry, Token: finance},
		{Name: "swaps-completed", Path: "/swaps/" + shownSwaps["completed"].ID(), Token: finance},
		{Name: "swaps-delayed", Path: "/swaps/" + shownSwaps["delayed"].ID(), Token: finance},
		{Name: "swaps-pending", Path: "/swaps/" + shownSwaps["pending"].ID(), Token: finance},
		{Name: "swaps-held", Path: "/swaps/" + shownSwaps["held"].ID(), Token: finance},
		{Name: "swaps-restored", Path: "/swaps/" + shownSwaps["restored"].ID(), Token: finance},
		{Name: "swaps-none", Path: "/swaps?idempotencyKey=none", Token: finance},
		{Name: "swaps-queue-empty", Path: "/approvals/swaps", Token: stranger.Token},
		{Name: "own-swaps-off", Path: "/organization-swaps", Token: stranger.Token},
		{Name: "own-swap-form-off", Path: "/organization-swaps/new", Token: stranger.Token},
		{Name: "own-swaps-queue-empty", Path: "/approvals/organization-swaps", Token: stranger.Token},
		{Name: "own-swap-to-decide", Path: "/organization-swaps/" + ownSwap, Token: approver},
		{
			Name: "own-swap-form-filled", Token: finance,
			Path: "/organization-swaps/new?balance=CUSTODIAL:3&toMint=2&amount=0.5",
		},
		{Name: "deposit-swaps-none", Path: "/deposit-swaps?idempotencyKey=none", Token: finance},
		{Name: "products-empty", Path: "/products", Token: stranger.Token},
		{Name: "links-empty", Path: "/payment-links", Token: stranger.Token},
		{Name: "links-ended", Path: "/payment-links?status=ENDED", Token: owner},
		{Name: "link-form-empty", Path: "/payment-links/new", Token: stranger.Token},
		{Name: "checkouts-empty", Path: "/checkouts", Token: stranger.Token},
		{Name: "refunds-empty", Path: "/refunds", Token: stranger.Token},
		{Name: "refunds-none", Path: "/refunds?status=SENT", Token: finance},
		{Name: "checkouts-none", Path: "/checkouts?reference=none", Token: finance},
		{Name: "checkouts-decisions-empty", Path: "/checkouts/decisions", Token: stranger.Token},
		{Name: "checkouts-unmatched-empty", Path: "/checkouts/unmatched", Token: stranger.Token},
		{Name: "checkouts-settings-read", Path: "/checkouts/settings", Token: finance},
		{Name: "checkout-open", Path: "/checkouts/" + openOne.ID, Token: owner},
		{Name: "checkout-completed", Path: "/checkouts/" + completed.ID, Token: owner},
		{Name: "products-archived", Path: "/products?status=ARCHIVED", Token: owner},
		{Name: "deposit-swaps-empty", Path: "/deposit-swaps", Token: stranger.Token},
		{Name: "billing-empty", Path: "/billing", Token: stranger.Token},
		{Name: "billing-invoices-empty", Path: "/billing/invoices", Token: stranger.Token},
		{Name: "billing-invoices-none", Path: "/billing/invoices?status=PAID", Token: finance},
		{Name: "billing-credit-notes-empty", Path: "/billing/credit-notes", Token: stranger.Token},
		{Name: "empty-home", Token: stranger.Token},
		{Name: "payouts-empty", Path: "/payouts", Token: stranger.Token},
		{Name: "payouts-none", Path: "/payouts?status=FAILED", Token: finance},
		{Name: "payouts-queue-empty", Path: "/approvals/payouts", Token: stranger.Token},
		{Name: "payout-unreadable", Path: "/payouts/" + payouts["unreadable"], Token: finance},
		{Name: "payout-draft", Path: "/payouts/" + payouts["draft"], Token: finance},
		{Name: "payout-to-approve", Path: "/payouts/" + payouts["waiting"], Token: approver},
		{Name: "payout-running", Path: "/payouts/" + payouts["running"], Token: finance},
		{Name: "payout-row-unproven", Path: "/payouts/" + payouts["waiting"] + "/rows/1", Token: finance},
	}
	return house
}

// personOf is a session with one role in the matrix.
func (h *testEnv) personOf(who tenant, role identity.Role) pagematrix.Person {
	m := who.people[role]
	return pagematrix.Person{
		Role: pages.RoleName(role), Token: h.signIn(who, role), Allows: m.IsAllowed, AllowsOwn: m.IsAllowedForOwn,
	}
}

// Each page of the table opens for its roles alone, and for the others it names them; so does its table. An
// unknown id and that of another organization are 404, and no list or table shows another organization
// anything. The first visit of a page with full lists is small. Rules PAGE-6, PAGE-61 and PAGE-62.
func TestEachPageHasItsRolesAndIsSmall(t *testing.T) {
	t.Parallel()
	pagematrix.Check(t, newTestEnv(t).fill(fullList))
}
