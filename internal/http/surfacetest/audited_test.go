package surfacetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// desks is what the calls of the list below need: a queue of flagged deposits, an endpoint that
// listens, and a second operators' listener that requires dual control.
type desks struct {
	*queue
	ear, event string
	eyes       *testEnv
	bob        tenant // a second operator
	bobKey     operator.Key
	next       int // of the flagged deposits
	// swaps are made before a call stops the payments of the chain.
	swaps map[string]string
}

// flagged returns a deposit without a decision.
func (d *desks) flagged() string {
	d.next++
	return d.held[d.next-1]
}

// waits returns a change request of ann's.
func (d *desks) waits() string {
	d.t.Helper()
	path := "/organizations/" + d.one.id + "/settings"
	d.desk.wantStatus(d.desk.call(d.ann, "PATCH", path, map[string]any{"approvalQuorum": 3}), 200)
	got := waiting(d.eyes.wantStatus(d.eyes.call(d.ann, "PATCH", path, map[string]any{"approvalQuorum": 2}), 200))
	if len(got) != 1 {
		d.t.Fatalf("got %v, want a change that waits", got)
	}
	return got[0]["changeRequestId"].(string)
}

// act is one call of the table and the rows that it writes into the audit log.
type act struct {
	id   func(d *desks) string // for the placeholder of the path; nil: it has none
	body func(d *desks) any    // nil: none
	// Each row is "ACTOR action RESOURCE_KIND subject". An actor is caller, or the part of the
	// program that acts by itself. A subject is id, a field of the answer, an organization's id
	// as ORG, freeze for one of the customer in the path, or * where only the program knows it.
	// No row: the call writes nothing.
	rows   []string
	why    string // why there is no row
	status int    // 0: any below 300
	eyes   string // who calls the listener with dual control: ann or bob; "": the other listener
}

func of(id string) func(*desks) string { return func(*desks) string { return id } }

func said(body any) func(*desks) any { return func(*desks) any { return body } }

const elsewhereTo = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"

// acts has what each mutating call writes into the audit log, by the surface and the call. A new
// call needs a line.
var acts = map[string]act{
	"organization createDepositAddress": {
		body: said(map[string]any{"mintId": usdc, "customerId": "new"}),
		rows: []string{"caller customer.created CUSTOMER new", "SYSTEM/wallet wallet.issued WALLET *"},
	},
	"organization createOrganizationDepositAddress": {
		body: said(map[string]any{"mintId": usdc, "product": "CHECKOUT"}),
		rows: []string{"SYSTEM/wallet wallet.issued WALLET *"},
	},
	"organization createWithdrawal": {
		body: said(payment()),
		rows: []string{"caller withdrawal.requested WITHDRAWAL withdrawalId"},
	},
	"organization estimateWithdrawal": {
		body: said(map[string]any{"mintId": usdc, "toAddress": stranger}), why: "it asks the chain and keeps nothing",
	},
	"organization previewWithdrawal": {body: said(payment()), why: "it decides as a request would and keeps nothing"},
	"organization cancelWithdrawal": {
		id: func(d *desks) string {
			return d.wantStatus(d.call(d.one, "POST", "/withdraw", payment("requireApproval", true)), 202).
				text("withdrawalId")
		},
		rows: []string{"caller withdrawal.cancelled WITHDRAWAL id"},
	},
	"organization createTransfer": {
		body: said(charge("audited")), rows: []string{"caller transfer.made TRANSFER transferId"},
	},
	"organization quoteCustomerSwap": {
		body: said(map[string]any{"fromMintId": dai, "toMintId": eth, "amountIn": "7"}),
		why:  "it asks the providers and keeps nothing",
	},
	"organization createCustomerSwap": {
		body: said(swapBody("audited")),
		rows: []string{
			"SYSTEM/wallet wallet.issued WALLET *", "SYSTEM/wallet wallet.issued WALLET *",
			"caller swap.requested SWAP swapId",
		},
	},
	"organization quoteDepositSwap": {
		body: said(map[string]any{"originTokenId": daiToken, "amountIn": "7000"}),
		why:  "it asks the providers and keeps nothing",
	},
	"organization createDepositSwap": {
		body: said(depositSwapBody("audited")),
		rows: []string{
			"SYSTEM/wallet wallet.issued WALLET *", "caller deposit_swap.requested DEPOSIT_SWAP depositSwapId",
		},
	},
	"organization createProduct": {
		body: said(productBody("audited")), rows: []string{"caller product.created PRODUCT productId"},
	},
	"organization updateProduct": {
		id:   func(d *desks) string { return d.makeProduct(d.one, "changed") },
		body: said(map[string]any{"maxQuantity": 7}), rows: []string{"caller product.changed PRODUCT id"},
	},
	"organization archiveProduct": {
		id:   func(d *desks) string { return d.makeProduct(d.one, "archived") },
		rows: []string{"caller product.archived PRODUCT id"},
	},
	"organization unarchiveProduct": {
		id: func(d *desks) string {
			id := d.makeProduct(d.one, "reactivated")
			d.wantStatus(d.call(d.one, "DELETE", "/products/"+id, nil), 200)
			return id
		},
		rows: []string{"caller product.unarchived PRODUCT id"},
	},
	"organization createPaymentLink": {
		body: func(d *desks) any { return linkBody("audited", d.makeProduct(d.one, "sold")) },
		rows: []string{"caller payment_link.created PAYMENT_LINK linkId"},
	},
	"organization updatePaymentLink": {
		id:   func(d *desks) string { return d.makeLink(d.one, "changed") },
		body: said(map[string]any{"maxCompleted": 7}), rows: []string{"caller payment_link.changed PAYMENT_LINK id"},
	},
	"organization pausePaymentLink": {
		id:   func(d *desks) string { return d.makeLink(d.one, "paused") },
		rows: []string{"caller payment_link.paused PAYMENT_LINK id"},
	},
	"organization resumePaymentLink": {
		id: func(d *desks) string {
			id := d.makeLink(d.one, "resumed")
			d.wantStatus(d.call(d.one, "POST", "/payment-links/"+id+"/pause", nil), 200)
			return id
		},
		rows: []string{"caller payment_link.resumed PAYMENT_LINK id"},
	},
	"organization endPaymentLink": {
		id:   func(d *desks) string { return d.makeLink(d.one, "ended") },
		rows: []string{"caller payment_link.ended PAYMENT_LINK id"},
	},
	"organization createCheckout": {
		body: said(checkoutBody("audited")), rows: []string{"caller checkout.created CHECKOUT checkoutId"},
	},
	"organization openCheckoutOption": {
		id:   func(d *desks) string { return d.makeCheckout(d.one, "opened") },
		body: said(map[string]any{"mintId": usdc}),
		rows: []string{"SYSTEM/wallet wallet.issued WALLET *", "SYSTEM/checkout checkout.option_opened CHECKOUT id"},
	},
	"organization cancelCheckout": {
		id:   func(d *desks) string { return d.makeCheckout(d.one, "cancelled") },
		rows: []string{"caller checkout.cancelled CHECKOUT id"},
	},
	"organization acceptCheckout": {
		id: func(d *desks) string {
			id := d.makeCheckout(d.one, "accepted")
			d.openOption(d.one, id, usdc)
			d.payCheckout(d.one, id, 20_000_000, outcome.PaymentCredited)
			return id
		},
		body: said(map[string]any{"reason": "case 5"}), rows: []string{"caller checkout.changed CHECKOUT id"},
	},
	"organization assignUnmatchedPayment": {
		id:   func(d *desks) string { return d.strayPayment(d.one, "audited", 10_000_000) },
		body: func(d *desks) any { return map[string]any{"checkoutId": d.makeCheckout(d.one, "given")} },
		rows: []string{
			"SYSTEM/wallet wallet.issued WALLET *", "caller checkout.payment_assigned CHECKOUT assignedCheckoutId",
		},
	},
	"organization refundUnmatchedPayment": {
		id:   func(d *desks) string { return d.strayPayment(d.one, "audited-back", 20_000_000) },
		body: said(map[string]any{}),
		rows: []string{
			"caller checkout.created CHECKOUT checkoutId", "caller checkout.cancelled CHECKOUT checkoutId",
			"SYSTEM/wallet wallet.issued WALLET *", "caller checkout.payment_assigned CHECKOUT checkoutId",
			"caller refund.requested REFUND refundId",
		},
	},
	"organization createRefund": {
		id:   func(d *desks) string { return d.paidCheckout(d.one, "refunded", 60_000_000) },
		body: said(map[string]any{"amount": "FULL"}), rows: []string{"caller refund.requested REFUND refundId"},
	},
	"organization cancelRefund": {
		id: func(d *desks) string {
			return d.makeRefund(d.one, d.paidCheckout(d.one, "taken back", 60_000_000), "cancelled").text("refundId")
		},
		rows: []string{"caller refund.cancelled REFUND id"},
	},
	"organization createBatchPayout": {
		body: said(batchBody("audited-batch")), rows: []string{"caller payout.created BATCH_PAYOUT batchPayoutId"},
	},
	"organization submitBatchPayout": {
		id: func(d *desks) string {
			d.fundBatches(d.one, 50_000)
			return d.makeBatch(d.one, "audited-submit").text("batchPayoutId")
		},
		body: func(d *desks) any {
			return map[string]any{"contentHash": d.makeBatch(d.one, "audited-submit").body["contentHash"]}
		},
		rows: []string{"caller payout.submitted BATCH_PAYOUT id"},
	},
	"organization cancelBatchPayout": {
		id:   func(d *desks) string { return d.makeBatch(d.one, "audited-cancel").text("batchPayoutId") },
		rows: []string{"caller payout.cancelled BATCH_PAYOUT id"},
	},
	"organization pauseBatchPayout": {
		id:   func(d *desks) string { return d.approvedBatch(d.one, "audited-pause") },
		rows: []string{"caller payout.paused BATCH_PAYOUT id"},
	},
	"organization resumeBatchPayout": {
		id: func(d *desks) string {
			id := d.approvedBatch(d.one, "audited-resume")
			d.wantStatus(d.call(d.one, "POST", "/batch-payouts/"+id+"/pause", nil), 200)
			return id
		},
		rows: []string{"caller payout.resumed BATCH_PAYOUT id"},
	},
	"organization retryBatchPayout": {
		id: func(d *desks) string {
			id := d.makeBatch(d.one, "audited-retry").text("batchPayoutId")
			d.wantStatus(d.call(d.one, "POST", "/batch-payouts/"+id+"/cancel", nil), 200)
			return id
		},
		body: said(map[string]any{"idempotencyKey": "audited-again"}),
		rows: []string{"caller payout.created BATCH_PAYOUT batchPayoutId"},
	},
	"organization replaceClaimKey": {
		id: func(d *desks) string {
			return d.makeRefund(d.one, d.paidCheckout(d.one, "claimed", 60_000_000), "replaced").text("refundId")
		},
		rows: []string{"caller refund.key_replaced REFUND id"},
	},
	"organization quoteOrganizationSwap": {
		body: said(map[string]any{"fromMintId": dai, "toMintId": eth, "amountIn": "8"}),
		why:  "it asks the providers and keeps nothing",
	},
	"organization createOrganizationSwap": {
		body: said(ownSwapBody("audited")),
		rows: []string{
			"SYSTEM/wallet wallet.issued WALLET *", "SYSTEM/wallet wallet.issued WALLET *",
			"caller swap.requested SWAP swapId",
		},
	},
	"organization restoreCustomerSwap": {
		id: func(d *desks) string {
			id := d.makeSwap(d.one, "failed")
			d.fail(id, "900000")
			return id
		},
		rows: []string{"caller swap.restored SWAP id"},
	},
	"organization updateCustomer": {
		id: of(alice), body: said(map[string]any{"customerEmail": "alice@example.com"}),
		rows: []string{"caller customer.email_added CUSTOMER id"},
	},
	"organization freezeCustomer": {
		id: of("bob"), body: said(map[string]any{"reason": "case 1"}),
		rows: []string{"caller freeze.put FREEZE freeze"},
	},
	"organization unfreezeCustomer": {
		id: func(d *desks) string {
			d.deposit(d.one, "carol", 1000)
			d.wantStatus(d.call(d.one, "POST", "/customers/carol/freeze", map[string]any{"reason": "case 2"}), 200)
			return "carol"
		},
		rows: []string{"caller freeze.lifted FREEZE freeze"},
	},
	"organization createWebhookEndpoint": {
		body: said(map[string]any{"url": "https://example.com/hook"}),
		rows: []string{"caller webhook_endpoint.created WEBHOOK_ENDPOINT endpointId"},
	},
	"organization updateWebhookEndpoint": {
		id: func(d *desks) string { return d.ear }, body: said(map[string]any{"description": "shop"}),
		rows: []string{"caller webhook_endpoint.changed WEBHOOK_ENDPOINT id"},
	},
	"organization rotateWebhookSecret": {
		id:   func(d *desks) string { return d.ear },
		rows: []string{"caller webhook_endpoint.secret_rotated WEBHOOK_ENDPOINT id"},
	},
	"organization testWebhookEndpoint": {
		id: func(d *desks) string { return d.ear }, body: said(map[string]any{"type": "CUSTOMER_DEPOSIT"}),
		rows: []string{"caller webhook_endpoint.tested WEBHOOK_ENDPOINT id"},
	},
	"organization recoverWebhookEndpoint": {
		id: func(d *desks) string { return d.ear }, body: said(map[string]any{"since": "2026-01-01T00:00:00Z"}),
		rows: []string{"caller webhook.recover WEBHOOK_ENDPOINT id"},
	},
	"organization resendEvent": {
		id: func(d *desks) string { return d.event }, body: said(map[string]any{}),
		rows: []string{"caller webhook.resend EVENT id"},
	},
	"organization deleteWebhookEndpoint": {
		id: func(d *desks) string {
			return d.wantStatus(
				d.call(d.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/gone"}), 201,
			).text("endpointId")
		},
		rows: []string{"caller webhook_endpoint.deleted WEBHOOK_ENDPOINT id"},
	},
	"organization approveDeposit": {id: (*desks).flagged, rows: []string{"caller deposit.approved DEPOSIT id"}},
	"organization rejectDeposit":  {id: (*desks).flagged, rows: []string{"caller deposit.rejecting DEPOSIT id"}},
	"organization redirectDeposit": {
		id: func(d *desks) string { return d.held[0] }, why: "only the operator redirects",
		status: http.StatusForbidden,
		body:   said(map[string]any{"toAddress": elsewhereTo, "reason": "LAW_ENFORCEMENT", "reference": "case 77"}),
	},
	"organization completeDeposit": {
		id: func(d *desks) string { return d.held[0] }, why: "only the operator completes",
		status: http.StatusForbidden,
	},
	"organization createApiKey": {
		body: said(map[string]any{"name": "shop", "scope": "READ"}),
		rows: []string{"caller api_key.created API_KEY apiKeyId"},
	},
	"organization rollApiKey":   {id: (*desks).otherKey, rows: []string{"caller api_key.rolled API_KEY id"}},
	"organization deleteApiKey": {id: (*desks).otherKey, rows: []string{"caller api_key.deleted API_KEY id"}},

	"operator revokeOrganizationApiKey": {id: (*desks).otherKey, rows: []string{"caller api_key.revoked API_KEY id"}},
	"operator createOrganization": {
		body: said(map[string]any{"name": "Third"}),
		rows: []string{"caller organization.created ORGANIZATION organizationId"},
	},
	"operator rollApiKey": {
		id: func(d *desks) string { return d.two.id }, rows: []string{"caller api_key.rolled ORGANIZATION id"},
	},
	"operator changeSettings": {
		id: func(d *desks) string { return d.one.id }, body: said(map[string]any{"swapFeeBps": 7}),
		rows: []string{"caller settings.changed ORGANIZATION id"},
	},
	"operator approveChangeRequest": {
		id: (*desks).waits, eyes: "bob",
		rows: []string{"caller settings.changed ORGANIZATION ORG", "caller change.approved CHANGE_REQUEST id"},
	},
	"operator withdrawChangeRequest": {
		id: (*desks).waits, eyes: "ann", rows: []string{"caller change.withdrawn CHANGE_REQUEST id"},
	},
	"operator createFreeze": {
		body: said(map[string]any{"scope": "CHAIN", "chain": "ETHEREUM", "reason": "case 3"}),
		rows: []string{"caller freeze.put FREEZE freezeId"},
	},
	"operator liftFreeze": {
		id: func(d *desks) string {
			return d.desk.wantStatus(
				d.desk.call(d.ann, "POST", "/freezes", map[string]any{"scope": "ALL", "reason": "case 4"}), 201,
			).text("freezeId")
		},
		rows: []string{"caller freeze.lifted FREEZE id"},
	},
	"operator approveDeposit": {id: (*desks).flagged, rows: []string{"caller deposit.approved DEPOSIT id"}},
	"operator rejectDeposit":  {id: (*desks).flagged, rows: []string{"caller deposit.rejecting DEPOSIT id"}},
	"operator redirectDeposit": {
		id:   (*desks).flagged,
		body: said(map[string]any{"toAddress": elsewhereTo, "reason": "LAW_ENFORCEMENT", "reference": "case 77"}),
		rows: []string{"caller deposit.redirecting DEPOSIT id"},
	},
	"operator completeDeposit": {
		id: func(d *desks) string {
			id := d.flagged()
			d.desk.wantStatus(d.desk.call(d.ann, "POST", "/deposits/"+id+"/reject", nil), 202)
			d.stuck(id)
			return id
		},
		rows: []string{"caller deposit.rejecting DEPOSIT id"}, // sent again, by its own order
	},
	"operator rescreenDeposit": {
		id:  func(d *desks) string { d.later.severity = risk.Low; return d.flagged() },
		why: "it asks the providers and decides nothing; the answer is kept beside the deposit",
	},
	"operator setLocalRisk": {
		id: of(lazarus), body: said(map[string]any{"severity": "SEVERE"}),
		rows: []string{"caller local_risk.set ADDRESS id"},
	},
	"operator clearLocalRisk": {
		id: func(d *desks) string {
			d.desk.wantStatus(d.desk.call(d.ann, "PUT", "/local-risk/"+elsewhereTo, map[string]any{"severity": "LOW"}),
				200)
			return elsewhereTo
		},
		rows: []string{"caller local_risk.cleared ADDRESS id"},
	},
	"operator lookAtSwap": {
		id:   func(d *desks) string { return d.swaps["looked at"] },
		rows: []string{"caller swap.looked_at SWAP id"},
	},
	"operator failSwap": {
		id:   func(d *desks) string { return d.swaps["paid"] },
		body: said(swapNote), rows: []string{"caller swap.failed SWAP id"},
	},
	"operator writeOffSwap": {
		id: func(d *desks) string { return d.swaps["owed"] }, body: said(swapNote),
		rows: []string{"caller swap.written_off SWAP id"},
	},
	"operator decideSwapArrival": {
		id:   func(d *desks) string { return d.stray(d.swaps["owed"]) },
		body: said(map[string]any{"decision": "KEPT", "note": "case 8"}),
		rows: []string{"caller swap.arrival_decided SWAP swapId"},
	},
	"operator runBilling": {
		body: func(d *desks) any { return map[string]any{"month": d.insertBillableFee(d.one)} },
		rows: []string{"caller invoice.issued INVOICE *"},
	},
	"operator markInvoicePaid": {
		id: func(d *desks) string { return d.issueInvoice(d.one) }, body: said(map[string]any{"reference": "case 11"}),
		rows: []string{"caller invoice.paid INVOICE id"},
	},
	"operator creditInvoice": {
		id:   func(d *desks) string { return d.issueInvoice(d.one) },
		body: said(map[string]any{"idempotencyKey": "audited", "reason": "case 12"}),
		rows: []string{"caller credit_note.issued CREDIT_NOTE creditNoteId"},
	},
	"operator setBillingTerms": {
		body: said(map[string]any{"legalName": "Seller", "address": []string{"1 Street"}}),
		rows: []string{"caller billing_terms.saved BILLING_TERMS installation"},
	},
	"operator setOrganizationBillingTerms": {
		id:   func(d *desks) string { return d.two.id },
		body: said(map[string]any{"legalName": "Buyer", "address": []string{"2 Street"}}),
		rows: []string{"caller billing_terms.saved BILLING_TERMS id"},
	},
	"operator addPriceMark": {
		body: said(map[string]any{
			"mintId": eth, "price": "3000", "source": "case 13", "at": "2025-01-10T12:00:00.000Z",
		}),
		rows: []string{"caller price_mark.added MINT *"},
	},
	"operator suspendSwapProvider": {
		id: of("ONE_CLICK"), body: said(map[string]any{"reason": "case 6"}),
		rows: []string{"caller swap_provider.suspended SWAP_PROVIDER id"},
	},
	"operator resumeSwapProvider": {
		id: func(d *desks) string {
			d.desk.wantStatus(d.desk.call(d.ann, "POST", "/swap-providers/ONE_CLICK/suspend",
				map[string]any{"reason": "case 6"}), 200)
			return "ONE_CLICK"
		},
		body: said(map[string]any{"reason": "case 7"}),
		rows: []string{"caller swap_provider.resumed SWAP_PROVIDER id"},
	},
	"operator addWhitelistedAddress": {
		id: func(d *desks) string { return d.one.id }, body: said(adding(stranger, "our exchange")),
		rows: []string{
			"caller whitelist.added WHITELISTED_ADDRESS whitelistedAddressId",
			"SYSTEM/whitelist whitelist.endorsed WHITELISTED_ADDRESS whitelistedAddressId",
		},
	},
	"operator removeWhitelistedAddress": {
		id: func(d *desks) string {
			return d.desk.wantStatus(d.desk.call(
				d.ann, "POST", "/organizations/"+d.one.id+"/whitelisted-addresses", adding(lazarus, "another"),
			), 201).text("whitelistedAddressId")
		},
		rows: []string{"caller whitelist.removed WHITELISTED_ADDRESS id"},
	},
}

// otherKey is an additional API key of the first organization.
func (d *desks) otherKey() string {
	d.t.Helper()
	return d.wantStatus(d.call(d.one, "POST", "/api-keys", map[string]any{"name": "other", "scope": "READ"}), 201).
		text("apiKeyId")
}

// stuck changes a deposit's transfer to one that ended without paying.
func (d *desks) stuck(id string) {
	d.t.Helper()
	if _, err := pgtest.OwnerPool(d.t, d.db).Exec(d.t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE dispatch_orders SET status = 'FAILED', fee = 0, tx_hash = 'tx_stuck', proof_id = (SELECT max(proof_id) FROM finality_live), ended_at = now() WHERE order_id = (SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = '`+id+`');
		UPDATE deposit_resolutions SET status = 'STUCK' WHERE deposit_id = '`+id+`';
		UPDATE deposits SET status = 'RESOLUTION_STUCK' WHERE deposit_id = '`+id+`'; COMMIT`); err != nil {
		d.t.Fatal(err)
	}
}

// froze reports whether a freeze is of a customer.
func (d *desks) froze(freezeID, customerID string) (of bool) {
	d.t.Helper()
	if err := pgtest.OwnerPool(
		d.t, d.db,
	).QueryRow(d.t.Context(),
		`SELECT EXISTS (SELECT FROM freezes WHERE freeze_id = $1 AND org_id = $2 AND customer_id = $3)`,
		freezeID, d.one.id, customerID).Scan(&of); err != nil {
		d.t.Fatal(err)
	}
	return of
}

// logged returns the audit log after a row, each row as a line, without the row of each operator's
// call; and the last row's number.
func (d *desks) logged(after int64) (rows []audit.Row, last int64) {
	d.t.Helper()
	found, err := pgtest.OwnerPool(d.t, d.db).Query(d.t.Context(), `
		SELECT audit_id, coalesce(org_id, ''), actor_kind, actor_id, action, resource_kind, resource_id FROM audit_log WHERE audit_id > $1 ORDER BY audit_id`,
		after)
	if err != nil {
		d.t.Fatal(err)
	}
	var r audit.Row
	last = after
	if _, err := pgx.ForEachRow(found,
		[]any{&r.ID, &r.OrgID, &r.Actor.Kind, &r.Actor.ID, &r.Action, &r.ResourceKind, &r.ResourceID}, func() error {
			rows, last = append(rows, r), r.ID
			return nil
		}); err != nil {
		d.t.Fatal(err)
	}
	return rows, last
}

// TestEveryMutatingCallLeavesItsRowInTheAuditLog makes every call that is no GET and compares
// what the audit log gained with the list: who, what and on what, and nothing else.
func TestEveryMutatingCallLeavesItsRowInTheAuditLog(t *testing.T) {
	t.Parallel()
	d := &desks{queue: newQueue(t, 7)}
	d.setting(d.one, "flaggedDepositApiEnabled", true)
	d.setting(d.one, "additionalApiKeys", true)
	d.openOwnSwaps(d.one)
	d.swaps = map[string]string{
		"looked at": d.makeSwap(d.one, "looked-at"), "paid": d.makeSwap(d.one, "paid"), "owed": d.claim(d.one, "owed"),
	}
	d.paySwap(d.swaps["paid"])
	d.ear, _ = d.endpoint(newWebhookReceiver(t).URL, map[string]any{"events": []string{"TRANSFER_COMPLETED"}})
	d.testEnv.transfer("told")
	d.deliverEvents()
	for _, e := range d.wantStatus(d.call(d.one, "GET", "/events?types=TRANSFER_COMPLETED", nil), 200).list() {
		d.event = e["id"].(string)
	}
	eyes := *d.desk
	eyes.server = httptest.NewServer(operatorapi.New(operatorapi.Config{
		DB: d.db, Chains: d.conf.Chains, Withdrawals: d.conf.Withdrawals, Whitelist: d.white, Swaps: d.conf.Swaps,
		Billing:         newBilling(d.db),
		AllowedPrefixes: here, CursorKey: d.conf.CursorKey,
		BaseURL: "http://127.0.0.1/v1", FourEyes: changerequest.Rule{Enabled: true}, Log: newLogger(d.logs),
	}))
	t.Cleanup(eyes.server.Close)
	d.eyes = &eyes
	key, secret, err := operator.CreateKey(t.Context(), d.db, audit.Operator("test"), "bob")
	if err != nil {
		t.Fatal(err)
	}
	d.bob, d.bobKey = tenant{key: secret.Reveal()}, key

	left := map[string]bool{}
	for name := range acts {
		left[name] = true
	}
	for _, face := range []struct {
		name   string
		routes []kernel.Route
	}{
		{"organization", slices.Concat(organizations.Routes, organizations.Forbidden)},
		{"operator", operators.Routes},
	} {
		for _, r := range face.routes {
			if r.Method == http.MethodGet {
				continue
			}
			name := face.name + " " + r.Name
			a, known := acts[name]
			if !known {
				t.Errorf("%s (%s %s) stands nowhere in acts: say what it leaves in the audit log", name, r.Method,
					r.Path)
				continue
			}
			delete(left, name)
			if (len(a.rows) == 0) == (a.why == "") {
				t.Errorf("%s: it leaves rows, or says why it leaves none", name)
			}
			d.performed(name, r, a)
		}
	}
	for name := range left {
		t.Errorf("%s stands in acts and is no call", name)
	}
}

// performed makes one call and compares.
func (d *desks) performed(name string, r kernel.Route, a act) {
	d.t.Helper()
	at, who, caller := d.testEnv, d.one, audit.APIKey(d.one.id)
	operators := strings.HasPrefix(name, "operator ")
	if operators {
		at, who, caller = d.desk, d.ann, audit.Operator(d.key.ID)
	}
	switch a.eyes {
	case "ann":
		at = d.eyes
	case "bob":
		at, who, caller = d.eyes, d.bob, audit.Operator(d.bobKey.ID)
	}
	path, id := r.Path, ""
	if a.id != nil {
		id = a.id(d)
		names := placeholder.FindAllString(path, -1)
		if len(names) == 2 && names[0] == "{organizationId}" {
			path = strings.Replace(path, names[0], d.one.id, 1)
			names = names[1:]
		}
		if len(names) != 1 {
			d.t.Fatalf("%s: got the placeholders %v, want one", name, names)
		}
		path = strings.Replace(path, names[0], id, 1)
	}
	var body any
	if a.body != nil {
		body = a.body(d)
	}
	_, before := d.logged(0)
	got := at.call(who, r.Method, path, body)
	if a.status == 0 && got.status >= 300 || a.status != 0 && got.status != a.status {
		d.t.Errorf("%s: got %v %s, want it done", name, got.status, got.raw)
		return
	}
	rows, _ := d.logged(before)
	calls := 0
	rows = slices.DeleteFunc(rows, func(row audit.Row) bool {
		called := operators && row.Action == "operator.called" && row.Actor == caller &&
			row.ResourceID == got.header.Get("X-Request-Id")
		if called {
			calls++
		}
		return called
	})
	if want := map[bool]int{true: 1}[operators]; calls != want {
		d.t.Errorf("%s: got %d rows of the call itself, want %d", name, calls, want)
	}
	var lines []string
	for i, row := range rows {
		actor := row.Actor.Kind + "/" + row.Actor.ID
		if row.Actor == caller {
			actor = "caller"
		}
		subject := row.ResourceID
		if i < len(a.rows) {
			want := a.rows[i][strings.LastIndex(a.rows[i], " ")+1:]
			if want == "*" && subject != "" || want == "freeze" && d.froze(subject, id) || want == "id" &&
				subject == id || want == "ORG" && subject == d.one.id || got.text(want) == subject && subject != "" {
				subject = want
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", actor, row.Action, row.ResourceKind, subject))
		if owner := map[bool]string{true: got.text("organizationId")}[strings.HasSuffix(
			name, "createOrganization",
		)]; owner == "" && row.OrgID != d.one.id && row.OrgID != id && row.OrgID != "" {
			d.t.Errorf("%s: %s is of organization %q", name, lines[i], row.OrgID)
		}
	}
	if !slices.Equal(lines, a.rows) {
		d.t.Errorf("%s: the audit log gained\n\t%s\nwant\n\t%s", name, strings.Join(lines, "\n\t"),
			strings.Join(a.rows, "\n\t"))
	}
}
