package surfacetest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

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
			"POST", fmt.Errorf("issue: %w", mirror.ErrForeign), 503, "UNAVAILABLE", "do not belong together",
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
		a := &api{surface: &api.Organizations, log: newLogger(l)}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/withdraw", nil)
		ctx := context.WithValue(r.Context(), kernel.RouteKey, findRoute(t, "createWithdrawal"))
		a.writeError(w, r.WithContext(ctx), c.err)
		if w.Code != c.status || !strings.Contains(w.Body.String(), `"`+c.code+`"`) ||
			!strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: got %v %s, want %v %v saying %q", c.name, w.Code, w.Body, c.status, c.code, c.says)
		}
		if !strings.Contains(l.String(), "level=ERROR") {
			t.Errorf("%s: got the log %s, want the error in it", c.name, l)
		}
	}
}

func findRoute(t *testing.T, name string) *kernel.Route {
	t.Helper()
	for _, r := range api.Organizations.Routes {
		if r.Name == name {
			return &r
		}
	}
	t.Fatalf("there is no route %s", name)
	return nil
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
		&api.Organizations: {
			"createDepositAddress": repeat, "createOrganizationDepositAddress": repeat,
			"createWithdrawal": key, "createTransfer": key,
			"estimateWithdrawal": repeat, "previewWithdrawal": repeat,
			"cancelWithdrawal": "/withdrawals/{withdrawalId}",
			"approveDeposit":   "/deposits/{depositId}", "rejectDeposit": "/deposits/{depositId}",
			"updateCustomer": "/customers/{customerId}",
			"freezeCustomer": "/customers/{customerId}", "unfreezeCustomer": "/customers/{customerId}",
			"createWebhookEndpoint": "/webhook-endpoints",
			"updateWebhookEndpoint": "/webhook-endpoints/{endpointId}",
			"deleteWebhookEndpoint": "/webhook-endpoints/{endpointId}",
			"rotateWebhookSecret":   "/webhook-endpoints/{endpointId}",
			"testWebhookEndpoint":   deliveries, "recoverWebhookEndpoint": deliveries, "resendEvent": deliveries,
			"createApiKey": "/api-keys", "rollApiKey": "/api-keys", "deleteApiKey": "/api-keys",
		},
		&operatorapi.Operators: {
			"createOrganization": "/organizations", "rollApiKey": "/organizations/{organizationId}/api-keys",
			"revokeOrganizationApiKey": "/organizations/{organizationId}/api-keys",
			"changeSettings":           "/organizations/{organizationId}/settings",
			"approveChangeRequest":     "/change-requests/{changeRequestId}",
			"withdrawChangeRequest":    "/change-requests/{changeRequestId}",
			"createFreeze":             "/freezes", "liftFreeze": "/freezes",
			"approveDeposit": "/deposits", "rejectDeposit": "/deposits", "redirectDeposit": "/deposits",
			"completeDeposit": "/deposits", "rescreenDeposit": "/deposits",
			"setLocalRisk": "/local-risk/{address}", "clearLocalRisk": "/local-risk/{address}",
			"addWhitelistedAddress": whitelist, "removeWhitelistedAddress": whitelist,
		},
	} {
		for _, r := range face.Routes {
			if kernel.IsRead(r.Method) {
				continue
			}
			want, ok := wants[r.Name]
			if strings.HasPrefix(want, "/") {
				want = "Look up with GET " + want + " whether it took effect"
			}
			for _, f := range []*fault.Fault{
				kernel.NewInternalFault(r.Method, nil, face.RetryAdvice(r)),
				kernel.NewUnavailable(r.Method, "The database cannot be reached", face.RetryAdvice(r)),
			} {
				if !ok || !strings.Contains(resource.Words.Sentences(f), want) {
					t.Errorf("%s %s: got %q, want %q in it", r.Method, r.Path, resource.Words.Sentences(f), want)
				}
			}
		}
	}
}
