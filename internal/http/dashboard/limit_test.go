package dashboard

import (
	"net/http"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
)

// A member who asks too often gets a page that says when to come back, and a colleague none. An act above the
// rate does nothing. Rule PAGE-46.
func TestAMemberHasALimitOfRequests(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	few := func(n int) kernel.Rate { return kernel.Rate{Count: 1, Period: time.Hour, Burst: n} }
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	waiting := h.request(h.one, "alice", usdc, "12500000")
	h.kit.Limits = kernel.Limits{Reads: few(2), Writes: few(1), Exports: few(1)}
	h.server.Config.Handler = pages.New(h.surface, h.kit)
	first, second := h.signIn(h.one, identity.Approver), h.signIn(h.one, identity.Approver)
	path, _ := h.open(first, waiting.ID)
	h.get(second, Prefix+"/approvals").want(t, http.StatusOK)
	got := h.get(first, Prefix+"/approvals").want(t, http.StatusTooManyRequests, "There were too many requests.")
	if got.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After, want when to come back")
	}
	h.post(first, path+"/remove", "reason", "", "code", "wrong").want(t, http.StatusUnauthorized)
	h.post(first, path+"/remove", "reason", "", "code", rightCode).want(t, http.StatusTooManyRequests)
	h.wantWithdrawal(h.one, waiting.ID, "AWAITING_APPROVAL", 0)
	h.get(h.signIn(h.one, identity.Admin), Prefix+"/approvals").want(t, http.StatusOK)
}
