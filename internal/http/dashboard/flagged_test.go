package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// severeScreener reports every sender as severe.
type severeScreener struct{}

func (severeScreener) Name() string { return "SCREENER" }

func (severeScreener) Covers(chain.Name) bool { return true }

func (severeScreener) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	score := 91
	return risk.Verdict{
		Provider: "SCREENER", Severity: risk.Severe, IsKnown: true, Score: &score, Entity: "A mixer <b>" + hostile,
		Categories: []string{"MIXING"}, GivenAt: time.Now(),
	}, nil
}

// flagDeposits makes flagged deposits of one dollar of the customer bob, and returns their ids. The sender
// may be a contract.
func (h *testEnv) flagDeposits(who tenant, n int, isContract bool) (ids []string) {
	h.t.Helper()
	counter := &deposit.AddressService{
		DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book, Actor: audit.APIKey(who.id),
	}
	issued, err := counter.IssueForCustomer(h.t.Context(), who.id, usdc, "bob", "")
	if err != nil {
		h.t.Fatal(err)
	}
	h.set(who, "screeningSeverityThreshold", `"HIGH"`)
	h.set(who, "screeningUsdThreshold", `"0.5"`)
	c := h.openWorld().chain
	if isContract {
		c.DeployContract(payer)
	}
	for range n {
		c.Pay(payer, issued.Address, contract, 1_000_000)
		c.Mine(1)
	}
	h.walk()
	err = h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		return deposit.ForEach(ctx, tx, who.id, flaggedFilter, false, func(d deposit.Deposit) error {
			ids = append(ids, d.ID)
			return nil
		})
	})
	if err != nil || len(ids) != n {
		h.t.Fatalf("got the flagged deposits %v, %v, want %d", ids, err, n)
	}
	return ids
}

// wantDeposit checks the status of a deposit, what bob has available, and the orders of returns.
func (h *testEnv) wantDeposit(who tenant, id string, status deposit.Status, available uint64, orders int) {
	h.t.Helper()
	var found deposit.Deposit
	var balance money.Amount
	var placed int
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) (err error) {
		if found, err = deposit.Load(ctx, tx, who.id, id); err != nil {
			return err
		}
		account := ledger.CustomerOwner("bob").SpendingAccount(who.id, usdc)
		if balance, err = ledger.Balance(ctx, tx, account); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM dispatch_orders WHERE org_id = $1`, who.id).Scan(&placed)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if found.Status != status || balance != money.Units(available) || placed != orders {
		h.t.Errorf("got %s, %v available and %d orders, want %s, %d and %d", found.Status, balance, placed, status,
			available, orders)
	}
}

// Rules DEP-29, PAGE-3 and PAGE-4.
func TestAnApprovalCreditsAFlaggedDepositOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.flagDeposits(h.one, 1, false)[0]
	path := Prefix + "/approvals/deposits/" + id
	token, colleague := h.signIn(h.one, identity.Approver), h.signIn(h.one, identity.Admin)
	h.get(token, Prefix+"/approvals/flagged").want(t, http.StatusOK, path, "Severe")
	shown := h.get(token, path).want(t, http.StatusOK, "Severe", "91", `\u{202e}`, "A mixer &lt;b&gt;", "MIXING",
		`data-copy="`+recipient+`"`, "Approve 1 USDC").body
	if strings.Contains(shown, "<script>alert") || strings.Contains(shown, "The return is risky") {
		t.Error("the page has markup of a stranger, or a warning that does not apply")
	}
	h.post(token, path+"/approve", "note", "known to us", "code", "000000").
		want(t, http.StatusUnauthorized, `value="known to us"`)
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
	// The second of two clicks has the same code. The colleague's tab is old by then.
	for _, sent := range []struct{ token, act, code string }{
		{token, "/approve", rightCode}, {token, "/approve", rightCode}, {colleague, "/approve", rightCode + "b"},
	} {
		got := h.post(sent.token, path+sent.act, "note", "known to us", "code", sent.code).want(t, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != path {
			t.Errorf("got a redirect to %q, want %q", to, path)
		}
		h.wantDeposit(h.one, id, deposit.Credited, 1_000_000, 0)
	}
	h.post(colleague, path+"/reject", "note", "", "code", rightCode+"c").want(t, http.StatusSeeOther)
	h.wantDeposit(h.one, id, deposit.Credited, 1_000_000, 0)
	h.get(colleague, path).
		want(t, http.StatusOK, "Approved by Approver Person", "known to us", "This deposit was decided.")
	h.get(token, path).want(t, http.StatusOK, "Approved by You")
	h.get(token, Prefix+"/approvals/history").want(t, http.StatusOK, path, "the customer's balance")
	h.get(token, Prefix+"/approvals/flagged").want(t, http.StatusOK, "No deposit is flagged")
}

// Rules DEP-31 and PAGE-3.
func TestARejectionOrdersTheReturnOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.flagDeposits(h.one, 1, false)[0]
	path := Prefix + "/approvals/deposits/" + id
	token := h.signIn(h.one, identity.Owner)
	long := strings.Repeat("ä", 501)
	h.post(token, path+"/reject", "note", long, "code", rightCode).
		want(t, http.StatusBadRequest, "500", `value="`+long+`"`)
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
	for _, code := range []string{rightCode + "b", rightCode + "b", rightCode + "c"} {
		h.post(token, path+"/reject", "note", "not ours", "code", code).want(t, http.StatusSeeOther)
		h.wantDeposit(h.one, id, deposit.Rejecting, 0, 1)
	}
	h.post(token, path+"/approve", "note", "", "code", rightCode+"d").want(t, http.StatusSeeOther)
	h.wantDeposit(h.one, id, deposit.Rejecting, 0, 1)
	h.get(token, path).want(t, http.StatusOK, "Being returned", "Rejected by You", "not ours", "Sent to",
		`data-copy="`+recipient+`"`)
}

// A risky return needs the tick at the warning that was shown. A forgotten tick uses no code up.
func TestARiskyReturnNeedsTheTick(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.flagDeposits(h.one, 1, true)[0]
	path := Prefix + "/approvals/deposits/" + id
	token := h.signIn(h.one, identity.Approver)
	h.get(token, path).want(t, http.StatusOK, "The return is risky", "The sender is a contract.", `value="CONTRACT"`)
	for _, fields := range [][]string{
		{"note", "", "code", rightCode},
		{"note", "", "returnRisk", "NONE", "code", rightCode}, // of another warning
	} {
		h.post(token, path+"/reject", fields...).
			want(t, http.StatusBadRequest, "Confirm that you have read why the return is risky.")
		h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
	}
	h.post(token, path+"/reject", "note", "", "returnRisk", "CONTRACT", "code", rightCode).
		want(t, http.StatusSeeOther)
	h.wantDeposit(h.one, id, deposit.Rejecting, 0, 1)
}

// Rules DEP-55, ROLE-1 and PAGE-6.
func TestFlaggedDepositsAreDecidedByFewAndSeenByOneOrganization(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.flagDeposits(h.one, 1, false)[0]
	path := Prefix + "/approvals/deposits/" + id
	for _, role := range roles {
		token := h.signIn(h.one, role)
		decides := role == identity.Owner || role == identity.Admin || role == identity.Approver
		body := h.get(token, path).want(t, http.StatusOK).body
		if got := strings.Contains(body, `action="`+path+`/approve"`); got != decides {
			t.Errorf("%s: got a form %v, want %v", role, got, decides)
		}
		if decides {
			continue
		}
		for _, act := range []string{"/approve", "/reject"} {
			h.post(token, path+act, "note", "", "code", rightCode).
				want(t, http.StatusForbidden, "Owner, Admin or Approver")
		}
	}
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, path).want(t, http.StatusNotFound)
	for _, act := range []string{"/approve", "/reject"} {
		h.post(stranger, path+act, "note", "", "code", rightCode).want(t, http.StatusNotFound)
	}
	for _, list := range []string{"/approvals/flagged", "/approvals/history", "/approvals/flagged.csv"} {
		if strings.Contains(h.get(stranger, Prefix+list).want(t, http.StatusOK).body, id) {
			t.Errorf("%s shows a deposit of another organization", list)
		}
	}
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
}
