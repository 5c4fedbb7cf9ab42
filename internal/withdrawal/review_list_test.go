package withdrawal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// newOrdinaryEnv has a larger payment to the address of the tests behind it, so nothing about the next ones is unusual.
func newOrdinaryEnv(t *testing.T) *signedEnv {
	t.Helper()
	e := newSignedEnv(t)
	e.alter(`UPDATE withdrawals SET status = 'COMPLETED', approved_at = now(), completed_at = now(), tx_hash = 'x'
		WHERE withdrawal_id = $1`, e.request("5000").ID)
	return e
}

// alter changes rows past every trigger.
func (e *signedEnv) alter(sql string, args ...any) {
	e.t.Helper()
	tx, err := pgtest.OwnerPool(e.t, e.DB).Begin(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(e.t.Context())) }()
	_, err = tx.Exec(e.t.Context(), `SET LOCAL session_replication_role = replica`)
	if err == nil {
		_, err = tx.Exec(e.t.Context(), sql, args...)
	}
	if err == nil {
		err = tx.Commit(e.t.Context())
	}
	if err != nil {
		e.t.Fatalf("%.80s: %v", sql, err)
	}
}

type shownPayments = []signer.PaymentWords

// show returns the withdrawals as the page shows them.
func (e *signedEnv) show(ids ...string) (shown []Shown, payments []signer.PaymentWords) {
	e.t.Helper()
	for _, id := range ids {
		r, err := e.LoadReview(e.t.Context(), e.org, id)
		if err != nil {
			e.t.Fatal(err)
		}
		shown = append(shown, Shown{id, r.Digest})
		if r.payment != nil {
			payments = append(payments, *r.payment)
		}
	}
	return shown, payments
}

func (e *signedEnv) signReviewList(p *signertest.Passkey, payments []signer.PaymentWords) signer.KeySignature {
	e.t.Helper()
	s := p.SignList(e.t, e.signer.Installation, time.Now().Add(time.Hour), payments, nil)
	s.List = nil // the server makes the list of what it shows
	return s
}

func (e *signedEnv) wantCount(id, want string) {
	e.t.Helper()
	w, err := e.ByID(e.t.Context(), e.org, id)
	if err != nil {
		e.t.Fatal(err)
	}
	if got := approvalCount(w); got != want {
		e.t.Errorf("withdrawal %s: got %s, want %s", id, got, want)
	}
}

// Rules SA-22 and SA-23.
func TestOneSignatureApprovesSeveralAndTheSignerPaysEach(t *testing.T) {
	t.Parallel()
	e := newOrdinaryEnv(t)
	ids := []string{e.request("900").ID, e.request("1000").ID, e.request("700").ID}
	for n := range 2 {
		shown, payments := e.show(ids...)
		signature := e.signReviewList(e.people[n], payments)
		done, err := e.ApproveReviewList(t.Context(), e.org, userActor(n+1), shown, signature)
		if err != nil || len(done) != len(ids) {
			t.Fatalf("person %d: got %v, %v", n+1, done, err)
		}
		for _, d := range done {
			if d.Err != nil {
				t.Errorf("person %d, %s: got %v", n+1, d.ID, d.Err)
			}
		}
	}
	var hashes []string
	for _, id := range ids {
		e.wantCount(id, "PROCESSING 2 of 2")
		if err := e.admits(id); err != nil {
			t.Errorf("the signer: got %v, want %s admitted", err, id)
		}
		var raw, logged []byte
		err := pgtest.OwnerPool(t, e.DB).QueryRow(t.Context(), `
			SELECT signature, (SELECT l.detail -> 'signed' FROM audit_log l
				WHERE l.resource_id = $1 AND l.action = 'withdrawal.approval_added')
			FROM withdrawal_approvals WHERE withdrawal_id = $1 AND approver_id = 'usr_1'`, id).Scan(&raw, &logged)
		if err != nil {
			t.Fatal(err)
		}
		var stored signer.KeySignature
		var signed signer.SignedStatement
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(logged, &signed); err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, stored.Hash())
		if stored.List == nil || len(stored.List.Challenges) != len(ids) || len(stored.List.Totals) != 1 ||
			!strings.HasPrefix(stored.List.Totals[0], "2600 units on ") {
			t.Errorf("%s: got the list %+v, want that of all three", id, stored.List)
		}
		if err := signed.VerifySignature(); err != nil || signed.Words.Find("id") != id {
			t.Errorf("the audit log of %s: got %v and the words of %s", id, err, signed.Words.Find("id"))
		}
	}
	if hashes[0] != hashes[1] || hashes[1] != hashes[2] {
		t.Errorf("got the signatures %v, want one", hashes)
	}
}

// Nothing is written unless all can be approved. Rule SA-23.
func TestSeveralAreRefusedTogetherInPlainWords(t *testing.T) {
	t.Parallel()
	e := newOrdinaryEnv(t)
	first, second := e.request("900").ID, e.request("1000").ID
	largest := e.request("6000").ID
	unpaid := func() Request {
		r := e.newRequest()
		r.ToAddress = "0x52908400098527886E0F7030069857D2E4169EE7"
		return r
	}()
	unknown := e.mustRequest(unpaid).ID
	returned := e.request("800").ID
	e.mustSign(returned, 1, 2)
	w, err := e.ByID(t.Context(), e.org, returned)
	if err != nil {
		t.Fatal(err)
	}
	e.returnOrder(w, &signer.Refusal{Code: signer.RefusedSignature})
	risky, priceless := e.request("810").ID, e.request("820").ID
	e.alter(`UPDATE withdrawals SET approval_reasons = approval_reasons || '{LOW_LIQUIDITY}' WHERE withdrawal_id = $1`,
		risky)
	e.alter(`UPDATE withdrawals SET usd_value = NULL WHERE withdrawal_id = $1`, priceless)
	decided := e.request("830").ID
	e.mustSign(decided, 1, 2)
	mine := e.request("840").ID
	e.mustSign(mine, 1)
	many := make([]string, signer.PaymentListMax+1)
	for n := range many {
		many[n] = fmt.Sprintf("wd_%d", n)
	}
	sign := func(s []Shown, p shownPayments) ([]Shown, signer.KeySignature) {
		return s, e.signReviewList(e.people[0], p)
	}
	for name, c := range map[string]struct {
		ids    []string
		change func([]Shown, shownPayments) ([]Shown, signer.KeySignature)
		want   string
	}{
		"one":             {[]string{first}, nil, "You chose 1 withdrawals"},
		"too many":        {many, nil, "You chose 21 withdrawals"},
		"twice":           {[]string{first, first}, nil, "named twice"},
		"of no one":       {[]string{first, "wd_unknown"}, nil, ""},
		"the largest":     {[]string{first, largest}, nil, "largest of its token"},
		"a first payment": {[]string{first, unknown}, nil, "never paid its address"},
		"returned":        {[]string{first, returned}, nil, "came back"},
		"another reason":  {[]string{first, risky}, nil, "another reason"},
		"without a price": {[]string{first, priceless}, nil, "value in dollars is not known"},
		"decided":         {[]string{first, decided}, nil, "does not wait any more"},
		"approved before": {[]string{first, mine}, sign, "already approved"},
		"shown differently": {[]string{first, second}, func(s []Shown, p shownPayments) ([]Shown, signer.KeySignature) {
			s[1].Digest = s[0].Digest
			return sign(s, p)
		}, "differs from what was shown"},
		"another list": {[]string{first, second}, func(s []Shown, p shownPayments) ([]Shown, signer.KeySignature) {
			p[0].Amount, p[1].Amount = p[1].Amount, p[0].Amount
			return sign(s, p)
		}, "other words"},
		"another order": {[]string{first, second}, func(s []Shown, p shownPayments) ([]Shown, signer.KeySignature) {
			p[0], p[1] = p[1], p[0]
			return sign(s, p)
		}, "other words"},
		"signed alone": {[]string{first, second}, func(s []Shown, _ shownPayments) ([]Shown, signer.KeySignature) {
			return s, *e.sign(e.people[0], first)
		}, "other words"},
		"by another person": {[]string{first, second}, func(s []Shown, p shownPayments) ([]Shown, signer.KeySignature) {
			return s, e.signReviewList(e.people[1], p)
		}, "not this person's"},
	} {
		var shown []Shown
		var signature signer.KeySignature
		if c.change == nil {
			for _, id := range c.ids {
				shown = append(shown, Shown{ID: id})
			}
		} else {
			shown, signature = c.change(e.show(c.ids...))
		}
		done, err := e.ApproveReviewList(t.Context(), e.org, userActor(1), shown, signature)
		if f := fault.Find(err); f == nil || !strings.Contains(f.Reason, c.want) || done != nil {
			t.Errorf("%s: got %v, %v, want a refusal with %q", name, done, err, c.want)
		}
		e.wantCount(first, "AWAITING_APPROVAL 0 of 2")
		e.wantCount(second, "AWAITING_APPROVAL 0 of 2")
	}
}

// Rule SA-23: what another person decides meanwhile is refused alone.
func TestOneOfSeveralThatWasRemovedMeanwhileIsRefusedAlone(t *testing.T) {
	t.Parallel()
	e := newOrdinaryEnv(t)
	ids := []string{e.request("900").ID, e.request("1000").ID}
	shown, payments := e.show(ids...)
	signature := e.signReviewList(e.people[0], payments)
	e.mirror.onCheck = func() { // the last of what is checked before anything is written
		e.mirror.onCheck = nil
		if _, err := e.Remove(t.Context(), e.org, ids[1], userActor(3), "no"); err != nil {
			t.Error(err)
		}
	}
	done, err := e.ApproveReviewList(t.Context(), e.org, userActor(1), shown, signature)
	if err != nil || len(done) != 2 || done[0].Err != nil || !fault.HasCode(done[1].Err, fault.InvalidState) {
		t.Fatalf("got %v, %v, want the first one approved and the second one refused", done, err)
	}
	e.wantCount(ids[0], "AWAITING_APPROVAL 1 of 2")
}
