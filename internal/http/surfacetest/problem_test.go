package surfacetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// keyed is a body with an idempotency key, such as that of a payment.
type keyed struct {
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// Rules REQ-4 and REQ-14.
func TestErrorsOfOursSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	_, unconnected := pgconn.Connect(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	db := pgtest.New(t)
	full := fmt.Errorf("secret: %w", db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'secret' USING ERRCODE = 'disk_full'; END $$`)
		return err
	}))
	for _, c := range []struct {
		name, method string
		err          error
		status       int
		code, says   string
	}{
		{"read", "GET", errors.New("secret"), 500, "INTERNAL", "only reads"},
		{"write", "POST", errors.New("secret"), 500, "INTERNAL", "same idempotencyKey"},
		{
			"commit without an answer",
			"POST", fmt.Errorf("secret: %w", pg.ErrCommitUnknown), 500, "INTERNAL", "It is not known whether",
		},
		{
			"and then no database",
			"POST", errors.Join(pg.ErrCommitUnknown, unconnected), 500, "INTERNAL", "It is not known whether",
		},
		{
			"no database",
			"POST", fmt.Errorf("begin: %w", unconnected), 503, "UNAVAILABLE",
			"not finished. Repeat the request with the same idempotencyKey",
		},
		{
			"no database for a read",
			"GET", fmt.Errorf("begin: %w", unconnected), 503, "UNAVAILABLE", "not finished. The call only reads",
		},
		{
			"another signer",
			"POST", fmt.Errorf("issue: %w", journal.ErrForeign), 503, "UNAVAILABLE", "do not belong together",
		},
		{
			"a full disk",
			"POST", full, 503, "UNAVAILABLE",
			"no space left on its disk, so this call was not finished. Repeat the request with the same idempotencyKey",
		},
		{
			"a full disk for a read",
			"GET", full, 503, "UNAVAILABLE",
			"no space left on its disk, so this call was not finished. The call only reads, so nothing was changed " +
				"and no money moved.",
		},
		{"head", "HEAD", errors.New("secret"), 500, "INTERNAL", "only reads"},
		{
			"a commit without an answer on a full disk",
			"POST", errors.Join(pg.ErrCommitUnknown, full), 500, "INTERNAL", "It is not known whether",
		},
		{
			"a journal that cannot be written",
			"POST", fmt.Errorf("secret: %w", signer.ErrUnavailable), 503, "UNAVAILABLE", "cannot write its journal",
		},
	} {
		l := &logs{}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/withdraw", nil)
		answering(db, l, kernel.Route{
			Method: c.method, Path: "/withdraw", Optional: true, Handler: kernel.HandleBody(
				func(*kernel.Call[kernel.Caller], keyed) (struct{}, error) { return struct{}{}, c.err },
				keyed{}, struct{}{},
			),
		}).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), `"`+c.code+`"`) ||
			!strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: got %v %s, want %v %v saying %q", c.name, w.Code, w.Body, c.status, c.code, c.says)
		}
		if !strings.Contains(l.String(), "level=ERROR") {
			t.Errorf("%s: got the log %s, want the error in it", c.name, l)
		}
	}
}

// answering serves the organizations' surface with a single route, which needs no key.
func answering(db *pg.DB, log io.Writer, r kernel.Route) http.Handler {
	alone := *organizations
	r.NeedsNoKey = true
	alone.Routes, alone.Forbidden = []kernel.Route{r}, nil
	return kernel.New(&alone, kernel.Config{DB: db, CursorKey: []byte("a key"), Log: newLogger(log)})
}

// Rule REQ-4. Only a payment has an idempotency key: after an internal error of any other call, the
// text names the GET that shows the result.
func TestAnInternalErrorNamesWhatShowsTheResult(t *testing.T) {
	t.Parallel()
	const (
		repeat     = "Repeat the request: a repeated one has no further effect."
		key        = "Repeat the request with the same idempotencyKey"
		deliveries = "/webhook-endpoints/{endpointId}/deliveries"
		whitelist  = "/organizations/{organizationId}/whitelisted-addresses"
	)
	for face, wants := range map[*kernel.Surface]map[string]string{
		organizations: {
			"createDepositAddress": repeat, "createOrganizationDepositAddress": repeat,
			"createWithdrawal": key, "createTransfer": key,
			"quoteCustomerSwap": repeat, "createCustomerSwap": key,
			"quoteDepositSwap": repeat, "createDepositSwap": key,
			"quoteOrganizationSwap": repeat, "createOrganizationSwap": key,
			"restoreCustomerSwap": "/customer-swap/{swapId}",
			"estimateWithdrawal":  repeat, "previewWithdrawal": repeat,
			"cancelWithdrawal": "/withdrawals/{withdrawalId}",
			"approveDeposit":   "/deposits/{depositId}", "rejectDeposit": "/deposits/{depositId}",
			"updateCustomer": "/customers/{customerId}",
			"freezeCustomer": "/customers/{customerId}", "unfreezeCustomer": "/customers/{customerId}",
			"createWebhookEndpoint": "/webhook-endpoints",
			"updateWebhookEndpoint": "/webhook-endpoints/{endpointId}",
			"deleteWebhookEndpoint": "/webhook-endpoints/{endpointId}",
			"rotateWebhookSecret":   "/webhook-endpoints/{endpointId}",
			"testWebhookEndpoint":   deliveries, "recoverWebhookEndpoint": deliveries, "resendEvent": deliveries,
			"createProduct": key, "updateProduct": "/products/{productId}", "archiveProduct": "/products/{productId}",
			"unarchiveProduct":  "/products/{productId}",
			"createPaymentLink": key, "updatePaymentLink": "/payment-links/{linkId}",
			"pausePaymentLink":  "/payment-links/{linkId}",
			"resumePaymentLink": "/payment-links/{linkId}", "endPaymentLink": "/payment-links/{linkId}",
			"createCheckout": key, "openCheckoutOption": "/checkouts/{checkoutId}",
			"cancelCheckout": "/checkouts/{checkoutId}", "acceptCheckout": "/checkouts/{checkoutId}",
			"assignUnmatchedPayment": "/unmatched-payments/{depositId}", "refundUnmatchedPayment": key,
			"createRefund": key, "cancelRefund": "/refunds/{refundId}", "replaceClaimKey": "/refunds/{refundId}",
			"createBatchPayout": key, "retryBatchPayout": key,
			"submitBatchPayout": "/batch-payouts/{batchPayoutId}",
			"cancelBatchPayout": "/batch-payouts/{batchPayoutId}",
			"pauseBatchPayout":  "/batch-payouts/{batchPayoutId}",
			"resumeBatchPayout": "/batch-payouts/{batchPayoutId}",
			"createApiKey":      "/api-keys", "rollApiKey": "/api-keys", "deleteApiKey": "/api-keys",
		},
		operators: {
			"createOrganization": "/organizations", "rollApiKey": "/organizations/{organizationId}/api-keys",
			"revokeOrganizationApiKey": "/organizations/{organizationId}/api-keys",
			"changeSettings":           "/organizations/{organizationId}/settings",
			"approveChangeRequest":     "/change-requests/{changeRequestId}",
			"withdrawChangeRequest":    "/change-requests/{changeRequestId}",
			"createFreeze":             "/freezes", "liftFreeze": "/freezes",
			"approveDeposit": "/deposits", "rejectDeposit": "/deposits", "redirectDeposit": "/deposits",
			"completeDeposit": "/deposits", "rescreenDeposit": "/deposits",
			"lookAtSwap": "/swaps/{swapId}", "failSwap": "/swaps/{swapId}", "writeOffSwap": "/swaps/{swapId}",
			"decideSwapArrival": "/swap-arrivals",
			"runBilling":        "/billing/invoices", "markInvoicePaid": "/billing/invoices/{invoiceId}",
			"creditInvoice": key, "setBillingTerms": "/billing/terms",
			"setOrganizationBillingTerms": "/organizations/{organizationId}/billing-terms",
			"addPriceMark":                "/billing/unpriced",
			"suspendSwapProvider":         "/swap-providers", "resumeSwapProvider": "/swap-providers",
			"setLocalRisk": "/local-risk/{address}", "clearLocalRisk": "/local-risk/{address}",
			"addWhitelistedAddress": whitelist, "removeWhitelistedAddress": whitelist,
		},
	} {
		doc, err := published[face]()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range face.Routes {
			if r.Method == http.MethodGet {
				continue
			}
			want, ok := wants[r.Name]
			if strings.HasPrefix(want, "/") {
				want = "Look up with GET " + want + " whether it took effect"
			}
			answers := doc.Paths.Find(r.Path).Operations()[r.Method].Responses
			for status, code := range map[int]string{500: "INTERNAL", 503: "UNAVAILABLE"} {
				example := answers.Status(status).Value.Content["application/json"].Examples[code].Value.Value
				text, _ := example.(map[string]any)["error"].(string)
				if !ok || !strings.Contains(text, want) {
					t.Errorf("%s %s: got %q, want %q in it", r.Method, r.Path, text, want)
				}
			}
		}
	}
}
