package withdrawal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// newGrantedEnv returns an environment whose signer requires grants.
func newGrantedEnv(t *testing.T) (*testEnv, signer.Signer) {
	t.Helper()
	key, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return newTestEnvWith(t, key)
}

// newIntent returns the intent that dispatch would have admitted for a withdrawal: its order as it
// is.
func (h *testEnv) newIntent(withdrawalID string) signer.Intent {
	h.t.Helper()
	i := signer.Intent{
		ID: withdrawalID, Purpose: signer.Payment, Chain: chain.Ethereum,
		From: signer.WalletRef{OrgID: h.org, Family: chain.EVM, Purpose: wallet.Treasury},
	}
	err := pgtest.OwnerPool(h.t, h.DB).QueryRow(h.t.Context(), `
		SELECT coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), to_address, contract, amount, mint_id, fee_deducted, coalesce(fee_max, 0), authority FROM dispatch_orders WHERE order_id = $1`,
		withdrawalID).
		Scan(
			&i.CustomerID, &i.Product, &i.WhitelistedID, &i.To, &i.Contract, &i.Amount, &i.MintID,
			&i.FeeDeducted, &i.FeeMax, &i.Grant,
		)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

func userActor(n int) audit.Actor { return audit.User(fmt.Sprintf("usr_%d", n)) }

func (h *testEnv) requestApproved(withdrawalID string, people ...audit.Actor) (w Withdrawal) {
	h.t.Helper()
	for _, p := range people {
		var err error
		if w, err = h.Approve(h.t.Context(), h.org, withdrawalID, p); err != nil {
			h.t.Fatal(err)
		}
	}
	return w
}

func approvalCount(w Withdrawal) string {
	return fmt.Sprintf("%s %d of %d", w.Status, w.Approvals.Received, w.Approvals.Required)
}

// Rule WD-35.
func TestAHeldWithdrawalGoesOutWithTheApprovalsOfEnoughPeople(t *testing.T) {
	t.Parallel()
	h, s := newGrantedEnv(t)
	h.setSetting("approvalQuorum", "3")
	held := h.requestHeld()
	if got := approvalCount(held); got != "AWAITING_APPROVAL 0 of 3" {
		t.Errorf("got %s, want it to need three", got)
	}
	h.setSetting("approvalQuorum", "1") // for the following withdrawals
	for i := range 2 {
		if got := approvalCount(
			h.requestApproved(held.ID, userActor(i)),
		); got != fmt.Sprintf("AWAITING_APPROVAL %d of 3", i+1) {
			t.Errorf("got %s, want %d of 3", got, i+1)
		}
		_, err := h.Approve(t.Context(), h.org, held.ID, userActor(i))
		wantFault(t, err, fault.InvalidState)
		if fault.Find(err).Extra["currentStatus"] != "AWAITING_APPROVAL" {
			t.Errorf("got %v, want the state", fault.Find(err).Extra)
		}
	}
	for _, nobody := range []audit.Actor{audit.APIKey(h.org), audit.System("scan")} {
		_, err := h.Approve(t.Context(), h.org, held.ID, nobody)
		wantFault(t, err, fault.ApprovalRefused)
	}
	if got := h.orderStatus(held.ID); got != "none" {
		t.Errorf("order: got %v, want none", got)
	}
	if got := approvalCount(h.requestApproved(held.ID, userActor(2))); got != "PROCESSING 3 of 3" {
		t.Errorf("got %s, want it to go", got)
	}
	if _, err := s.AdmitIntent(t.Context(), h.newIntent(held.ID)); err != nil {
		t.Errorf("the signer: got %v, want it admitted", err)
	}
	var acts []Act
	for _, d := range h.loadDecisions(held.ID) {
		acts = append(acts, d.Act)
	}
	if !slices.Equal(acts, []Act{ActRequested, ActApprovalAdded, ActApprovalAdded, ActApproved}) {
		t.Errorf("record: got %v, want each approval", acts)
	}
	h.wantEvents(
		held.ID, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL",
		"CUSTOMER_WITHDRAW_APPROVED PROCESSING",
	)
	pgtest.ExpectLockException(t, h.DB, "withdrawal.Service.writeApproval")
}

// Rule WD-35.
func TestWhoeverAskedForAWithdrawalCannotApproveIt(t *testing.T) {
	t.Parallel()
	h, _ := newGrantedEnv(t)
	r := h.newRequest()
	r.RequireApproval, r.Actor = true, userActor(1)
	held := h.mustRequest(r)
	_, err := h.Approve(t.Context(), h.org, held.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
	if got := approvalCount(h.requestApproved(held.ID, userActor(2))); got != "PROCESSING 1 of 1" {
		t.Errorf("got %s, want it approved by another", got)
	}
}

// A withdrawal that the signer returned needs new approvals, and as many of them. Rule WD-35.
func TestWhatTheSignerSentBackNeedsNewApprovals(t *testing.T) {
	t.Parallel()
	h, s := newGrantedEnv(t)
	h.setSetting("approvalQuorum", "2")
	sendBack := func(w Withdrawal) {
		h.inSystem(func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = $1`, w.ID,
			); err != nil {
				return err
			}
			return h.OnRefused(ctx, tx, h.loadOrder(w), &signer.Refusal{Code: signer.PolicyLimit})
		})
		now, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || approvalCount(now) != "AWAITING_APPROVAL 0 of 2" {
			t.Errorf("got %s %v, want none of two", approvalCount(now), err)
		}
	}
	held, free := h.requestHeld(), h.mustRequest(h.newRequest())
	h.requestApproved(held.ID, userActor(1), userActor(2))
	for _, w := range []Withdrawal{held, free} {
		sendBack(w)
		if got := approvalCount(
			h.requestApproved(w.ID, userActor(2), userActor(1)),
		); got != "PROCESSING 2 of 2" {
			t.Errorf("got %s, want the same two again", got)
		}
		if _, err := s.AdmitIntent(t.Context(), h.newIntent(w.ID)); err != nil {
			t.Errorf("the signer: got %v, want it admitted", err)
		}
	}
}

// One write of an attacker who can write every row is not enough. Both approved payments and
// payments that need no approval reach the signer with a MAC that only the service can make. Rules
// WD-36, I-19.
func TestTheSignerPaysOnlyWhatWasLetGoInTheseWords(t *testing.T) {
	t.Parallel()
	h, s := newGrantedEnv(t)
	const mine = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	both := func(set string) []string {
		return []string{`UPDATE withdrawals SET ` + set, `UPDATE dispatch_orders SET ` + set}
	}
	other := h.requestHeld()
	h.requestApproved(other.ID, userActor(1))
	free := h.mustRequest(h.newRequest())
	for name, c := range map[string]struct {
		held bool
		sql  []string
	}{
		"approved, another payee":  {true, both(`to_address = '` + mine + `'`)},
		"approved, another amount": {true, both(`amount = amount * 10`)},
		"approved, another token":  {true, []string{`UPDATE dispatch_orders SET mint_id = 2, contract = ''`}},
		"approved, a fee kept": {
			true, []string{`UPDATE dispatch_orders SET amount = amount - 1, fee_deducted = 1, contract = ''`},
		},
		"approved, another limit": {true, []string{`UPDATE dispatch_orders SET fee_max = 7`}},
		"approved, fewer had to": {
			true,
			[]string{`UPDATE dispatch_orders SET authority = jsonb_set(authority, '{required}', '0') - 'approvals'`},
		},
		"approved, approvals gone": {
			true, []string{`UPDATE dispatch_orders SET authority = authority - 'approvals'`},
		},
		"approved, approver renamed": {
			true,
			[]string{`UPDATE dispatch_orders SET authority = jsonb_set(authority, '{approvals,0,by}', '"USER usr_9"')`},
		},
		"approved, one counted twice": {
			true,
			[]string{`UPDATE dispatch_orders SET authority = jsonb_set(authority, '{approvals}', jsonb_build_array(authority->'approvals'->0, authority->'approvals'->0))`},
		},
		"approved, another's grant": {
			true,
			[]string{`UPDATE dispatch_orders SET authority = (SELECT authority FROM dispatch_orders o WHERE o.order_id = '` + other.ID + `')`},
		},
		"approved, the grant of a free one": {
			true,
			[]string{`UPDATE dispatch_orders SET authority = (SELECT authority FROM dispatch_orders o WHERE o.order_id = '` + free.ID + `')`},
		},
		"free, another payee":  {false, both(`to_address = '` + mine + `'`)},
		"free, another amount": {false, both(`amount = amount * 10`)},
		"free, no grant":       {false, []string{`UPDATE dispatch_orders SET authority = NULL`}},
		"free, a grant of zeros": {
			false,
			[]string{`UPDATE dispatch_orders SET authority = '{"feeMode":"ORGANIZATION","round":0,"required":0,"mac":""}'`},
		},
	} {
		var w Withdrawal
		if c.held {
			h.setSetting("approvalQuorum", "2")
			w = h.requestHeld()
			h.requestApproved(w.ID, userActor(1), userActor(2))
			h.setSetting("approvalQuorum", "1")
		} else {
			w = h.mustRequest(h.newRequest())
		}
		good := h.newIntent(w.ID)
		for _, sql := range c.sql {
			id := "withdrawal_id"
			if strings.HasPrefix(sql, "UPDATE dispatch_orders") {
				id = "order_id"
			}
			h.execAsOwner(sql + ` WHERE ` + id + ` = '` + w.ID + `'`)
		}
		_, err := s.AdmitIntent(t.Context(), h.newIntent(w.ID))
		if no := new(signer.Refusal); !errors.As(err, &no) || no.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want it refused with %s", name, err, signer.RefusedGrant)
		}
		if _, err := s.AdmitIntent(t.Context(), good); err != nil {
			t.Errorf("%s: as it was: got %v, want it admitted", name, err)
		}
	}

	// A held withdrawal that is changed to look as if it needed no approval.
	held := h.requestHeld()
	h.execAsOwner(
		`UPDATE withdrawals SET status = 'PROCESSING', requires_approval = false, approval_reasons = '{}', approvals_required = 0 WHERE withdrawal_id = '` + held.ID + `'`,
	)
	forged := h.newIntent(free.ID)
	forged.ID = held.ID
	_, err := s.AdmitIntent(t.Context(), forged)
	if no := new(signer.Refusal); !errors.As(err, &no) || no.Code != signer.RefusedGrant {
		t.Errorf("flipped: got %v, want it refused", err)
	}
}

// Nothing can become another payment between the display and the approval. Rule WD-36, crash point
// A06.
func TestWhatIsApprovedIsWhatWasShown(t *testing.T) {
	t.Parallel()
	h, _ := newGrantedEnv(t)
	held := h.requestHeld()
	seen, err := h.TermsDigest(t.Context(), h.org, held.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.execAsOwner(`UPDATE withdrawals SET amount = amount * 10 WHERE withdrawal_id = '` + held.ID + `'`)
	_, err = h.ApproveTerms(t.Context(), h.org, held.ID, userActor(1), seen)
	wantFault(t, err, fault.ApprovalRefused)
	// An approver who looks only now sees a payment that was not requested.
	_, err = h.Approve(t.Context(), h.org, held.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
	h.execAsOwner(`UPDATE withdrawals SET amount = amount / 10 WHERE withdrawal_id = '` + held.ID + `'`)
	if _, err := h.ApproveTerms(t.Context(), h.org, held.ID, userActor(1), seen); err != nil {
		t.Errorf("got %v, want it approved as it was requested", err)
	}
	unsigned := h.requestHeld()
	h.execAsOwner(`UPDATE withdrawals SET request_mac = NULL WHERE withdrawal_id = '` + unsigned.ID + `'`)
	_, err = h.Approve(t.Context(), h.org, unsigned.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
}

// The database itself refuses a held payment with too few approvals, for every role. Rule WD-37.
func TestTheDatabaseRefusesAHeldPaymentWithTooFewApprovals(t *testing.T) {
	t.Parallel()
	h, _ := newGrantedEnv(t)
	h.setSetting("approvalQuorum", "2")
	w := h.requestHeld()
	h.requestApproved(w.ID, userActor(1))
	treasury, err := h.wallets.Treasury(t.Context(), h.org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql ...string) func(context.Context, pg.Tx) error {
		return func(ctx context.Context, tx pg.Tx) error {
			for _, s := range sql {
				if _, err := tx.Exec(ctx, s, w.ID); err != nil {
					return err
				}
			}
			return nil
		}
	}
	goes := func(ctx context.Context, tx pg.Tx) error {
		r, err := loadRow(ctx, tx, h.org, w.ID)
		if err != nil {
			return err
		}
		var f Facts
		if err := f.loadMint(ctx, tx, r); err != nil {
			return err
		}
		if err := setStatus(
			ctx, tx, h.org, w.ID, AwaitingApproval, Processing, "approved_at = $5", tx.Now,
		); err != nil {
			return err
		}
		return dispatch.Submit(ctx, tx, h.Service.newOrder(h.org, r, f.mint, treasury, 0, nil))
	}
	const insert = `INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		SELECT org_id, withdrawal_id, `
	for name, c := range map[string]struct {
		fn         func(context.Context, pg.Tx) error
		constraint string
	}{
		"one of two": {goes, "withdrawals_approved_by_enough"},
		"a lower quorum": {
			exec(`UPDATE withdrawals SET approvals_required = 1 WHERE withdrawal_id = $1`), "withdrawals_quorum_kept",
		},
		"an earlier round": {
			exec(`UPDATE withdrawals SET approval_round = -1 WHERE withdrawal_id = $1`), "withdrawals_quorum_kept",
		},
		"none needed": {
			exec(`UPDATE withdrawals SET requires_approval = false WHERE withdrawal_id = $1`),
			"withdrawals_quorum_kept",
		},
		"another request": {
			exec(`UPDATE withdrawals SET request_mac = NULL WHERE withdrawal_id = $1`), "withdrawals_quorum_kept",
		},
		"the same person": {
			exec(insert + `0, 'USER', 'usr_1', now(), '', '' FROM withdrawals WHERE withdrawal_id = $1`),
			"withdrawal_approvals_pkey",
		},
		"another round": {
			exec(insert + `1, 'USER', 'usr_2', now(), '', '' FROM withdrawals WHERE withdrawal_id = $1`),
			"withdrawal_approvals_waited_for",
		},
		"a program": {
			exec(insert + `0, 'SYSTEM', 'scan', now(), '', '' FROM withdrawals WHERE withdrawal_id = $1`),
			"withdrawal_approvals_by_people",
		},
		"the organization's": {
			exec(insert + `0, 'API_KEY', org_id, now(), '', '' FROM withdrawals WHERE withdrawal_id = $1`),
			"withdrawal_approvals_not_by_maker",
		},
	} {
		if err := h.DB.InSystem(t.Context(), c.fn); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	for _, sql := range []string{
		`UPDATE withdrawal_approvals SET approver_id = 'usr_2'`, `DELETE FROM withdrawal_approvals`,
		`TRUNCATE withdrawal_approvals`,
	} {
		if _, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: got no error, want it refused", sql)
		}
	}
	if got := approvalCount(h.requestApproved(w.ID, userActor(2))); got != "PROCESSING 2 of 2" {
		t.Errorf("got %s, want it to go with the second", got)
	}
}

// Crash points A03 and A04 are races: all verbs and many people at once. Rule WD-6.
func TestOfApprovalsRemovalsAndCancelsAtOnceOneDecides(t *testing.T) {
	t.Parallel()
	h, s := newGrantedEnv(t)
	h.setSetting("approvalQuorum", "3")
	for round := range 4 {
		held := h.requestHeld()
		verbs := 3
		if round%2 == 0 {
			verbs = 1 // approvals alone
		}
		ended := make([]string, 64)
		runParallel(len(ended), func(i int) {
			var w Withdrawal
			var err error
			switch i % verbs {
			case 0:
				// Each of 16 people approves several times.
				w, err = h.Approve(t.Context(), h.org, held.ID, userActor(i/verbs%16))
			case 1:
				w, err = h.Remove(t.Context(), h.org, held.ID, userActor(i), "")
			case 2:
				w, err = h.Cancel(t.Context(), h.org, held.ID, audit.APIKey(h.org))
			}
			switch {
			case err == nil && w.Status != AwaitingApproval:
				ended[i] = string(w.Status)
			case err == nil:
			case !fault.HasCode(err, fault.InvalidState):
				t.Errorf("loser: got %v, want %v", err, fault.InvalidState)
			case fault.Find(err).Extra["currentStatus"] == nil:
				t.Errorf("loser: got %v, want the state", fault.Find(err).Extra)
			}
		})
		ended = slices.DeleteFunc(ended, func(s string) bool { return s == "" })
		now, err := h.ByID(t.Context(), h.org, held.ID)
		if err != nil || len(ended) != 1 || ended[0] != string(now.Status) {
			t.Fatalf("winners: got %v and it is %s %v, want one", ended, now.Status, err)
		}
		if verbs == 1 && approvalCount(now) != "PROCESSING 3 of 3" {
			t.Errorf("got %s, want exactly three to count", approvalCount(now))
		}
		if now.Status == Processing {
			if _, err := s.AdmitIntent(t.Context(), h.newIntent(held.ID)); err != nil {
				t.Errorf("the signer: got %v, want it admitted", err)
			}
		}
	}
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("deadlocks: got %v, want 0", n)
	}
}

// Rule WD-38.
func TestAFreezeStopsApprovalsAtOnce(t *testing.T) {
	t.Parallel()
	h, _ := newGrantedEnv(t)
	w := h.requestHeld()
	for name, c := range map[string]struct {
		freeze freeze.Freeze
		want   fault.Code
	}{
		"customer": {
			freeze.Freeze{Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: alice}, fault.CustomerFrozen,
		},
		"organization": {freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: h.org}, fault.OrganizationFrozen},
		"chain":        {freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum}, fault.WithdrawalsSuspended},
		"everything":   {freeze.Freeze{Scope: freeze.ScopeAll}, fault.WithdrawalsSuspended},
	} {
		c.freeze.Source, c.freeze.Reason, c.freeze.Actor = freeze.SourceOperator, "test", audit.Operator("ann")
		h.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, c.freeze) })
		_, err := h.Approve(t.Context(), h.org, w.ID, userActor(1))
		if !fault.HasCode(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		now, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || approvalCount(now) != "AWAITING_APPROVAL 0 of 1" {
			t.Errorf("%s: got %s %v, want it to wait with no approval", name, approvalCount(now), err)
		}
		var told int
		if err := pgtest.OwnerPool(t, h.DB).QueryRow(
			t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'freeze.put' AND actor_id = 'ann'`,
		).Scan(&told); err != nil || told == 0 {
			t.Errorf("%s: got %d rows of the audit log %v, want the freeze there", name, told, err)
		}
		h.execAsOwner(`UPDATE freezes SET lifted_at = now(), lifted_by = 'test' WHERE lifted_at IS NULL`)
	}
	if got := approvalCount(h.requestApproved(w.ID, userActor(1))); got != "PROCESSING 1 of 1" {
		t.Errorf("got %s, want it to go once nothing is frozen", got)
	}
}
