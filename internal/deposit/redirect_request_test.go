package deposit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// operatorsEnv is a signedEnv with a rule of two operators.
type operatorsEnv struct {
	*signedEnv
	operators []*signertest.Passkey // for redirects
}

func newOperatorsEnv(t *testing.T) *operatorsEnv {
	t.Helper()
	e := &operatorsEnv{signedEnv: newSignedEnv(t)}
	var enrol []*signertest.Passkey
	for n := range 3 {
		operatorID := id.New("opr", time.Now())
		for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
			p := signertest.NewPasskey(t, signer.Operators, operatorID, right)
			p.Person, p.Email = "OPERATOR "+operatorID, strings.ToLower(p.Email)
			e.mirror.Keys[p.ID] = p
			if right == signer.RightApprove {
				e.operators = append(e.operators, p)
			} else if n < 2 {
				enrol = append(enrol, p)
			}
		}
	}
	e.signer.Found(t, append(enrol, e.operators...)...)
	rule := signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2}
	e.signer.Set(t, rule, enrol...)
	e.mirror.OperatorRule = &rule
	e.service.RedirectPage = func(id string) string { return "https://console.example.com/" + id }
	return e
}

func (e *operatorsEnv) operator(n int) deposit.Actor {
	return deposit.Actor{Actor: audit.Operator(strings.TrimPrefix(e.operators[n-1].Person, "OPERATOR "))}
}

// court is where the operators send the deposit.
var court = sim.Address("court")

func newRedirection() deposit.Redirection {
	return deposit.Redirection{ToAddress: string(court), Reason: deposit.LawEnforcement, Reference: "order 7"}
}

func (e *operatorsEnv) reviewRedirect() deposit.ReturnReview {
	e.t.Helper()
	r, err := e.service.LoadRedirect(e.t.Context(), e.id)
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// askRedirect makes an operator ask for the redirect, and returns its id.
func (e *operatorsEnv) askRedirect(n int) string {
	e.t.Helper()
	d, err := e.service.AskRedirect(e.t.Context(), e.id, e.operator(n), newRedirection())
	if err != nil || d.Status != "FLAGGED" {
		e.t.Fatalf("ask for the redirect: got %s, %v, want it flagged still", d.Status, err)
	}
	if r := e.reviewRedirect(); r.Request != nil {
		return r.Request.ID
	}
	e.t.Fatal("no redirect waits for signatures")
	return ""
}

// signAs makes an operator sign with a passkey what the page shows its holder.
func (e *operatorsEnv) signAs(requestID string, n int, p *signertest.Passkey) (deposit.Deposit, error) {
	e.t.Helper()
	r := e.reviewRedirect()
	signature := p.Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour),
		func(c signer.StatementContext) signer.Statement { return r.Statement(c.Approver, c.NotAfter) })
	return e.service.SignRedirect(e.t.Context(), e.id, requestID, e.operator(n), signature)
}

// Rule SA-17.
func TestARedirectUnderTheOperatorsRuleLeavesWithTheirSignatures(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	requestID := e.askRedirect(1)
	if again := e.askRedirect(3); again != requestID {
		t.Errorf("asked again: got %s, want %s still", again, requestID)
	}
	r := e.reviewRedirect()
	words := r.Statement(e.operators[1].Person, "2026-11-30T12:00:00.000000Z")
	for name, want := range map[string]string{
		"act": signer.RedirectDeposit, "to": string(court), "units": "500", "id": requestID, "deposit": e.id,
		"reason": deposit.LawEnforcement, "reference": "order 7", "madeBy": e.operators[0].Person,
		"approver": e.operators[1].Person, "organization": e.org, "mint": "2", "networkId": "31337",
	} {
		if got := words.Find(name); got != want {
			t.Errorf("word %s: got %q, want %q", name, got, want)
		}
	}
	if n := e.queryCount(t, `SELECT count(*) FROM dispatch_orders`); n != 0 || r.People != 2 {
		t.Fatalf("got %d orders before anyone signed, and %d people, want none and two", n, r.People)
	}
	_, err := e.signAs(requestID, 1, e.operators[0])
	wantCode(t, err, fault.InvalidState) // who asked for it
	_, err = e.signAs(requestID, 3, e.operators[1])
	wantCode(t, err, fault.InvalidRequest) // another operator's passkey
	_, err = e.signAs(requestID, 2, e.people[1])
	wantCode(t, err, fault.InvalidRequest) // an organization's approver
	_, err = e.service.SignRedirect(t.Context(), e.id, requestID, e.person(2), e.sign0(2))
	wantCode(t, err, fault.OperatorOnly)
	_, err = e.signReturn(requestID, 2, e.sign0(2))
	wantCode(t, err, fault.InvalidState) // a redirect is no return
	if d, err := e.signAs(requestID, 2, e.operators[1]); err != nil || d.Status != "FLAGGED" {
		t.Fatalf("with one signature: got %s, %v, want it flagged", d.Status, err)
	}
	_, err = e.signAs(requestID, 2, e.operators[1])
	wantCode(t, err, fault.InvalidState) // twice
	if d, err := e.signAs(requestID, 3, e.operators[2]); err != nil || d.Status != "REDIRECTING" {
		t.Fatalf("with two signatures: got %s, %v, want REDIRECTING", d.Status, err)
	}
	if err := e.admits(); err != nil {
		t.Errorf("the signer: got %v, want it admitted", err)
	}
	resolved := e.listDeposits(t, deposit.Filter{Status: "REDIRECTING"})
	if len(resolved) != 1 || "OPERATOR "+resolved[0].Resolution.DecidedBy.ID != e.operators[0].Person {
		t.Errorf("got %+v, want the decision of who asked for it", resolved)
	}
}

// Who cannot sign is told where operators do, and nothing is written. Rule SA-17.
func TestARedirectUnderTheOperatorsRuleByAProgramLeadsToThePage(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	refused := func(who string, err error) {
		t.Helper()
		f := fault.Find(err)
		if f == nil || f.Code != fault.InvalidState || f.Effect != fault.NothingWritten ||
			!strings.Contains(f.Advice, "https://console.example.com/"+e.id) ||
			!strings.Contains(f.Reason, "2 operators") {
			t.Errorf("%s: got %v, want the words of the rule and the page", who, err)
		}
	}
	_, err := e.service.Redirect(t.Context(), e.id, operatorActor(), newRedirection())
	refused("a key of the API", err)
	_, err = e.service.Redirect(t.Context(), e.id, e.operator(1), newRedirection())
	refused("an operator without the page", err)
	_, err = e.service.AskRedirect(t.Context(), e.id, operatorActor(), newRedirection())
	refused("a key on the page", err)
	if n := e.queryCount(t, `
		SELECT (SELECT count(*) FROM return_requests) + (SELECT count(*) FROM deposit_resolutions)`); n != 0 {
		t.Errorf("got %d rows, want none", n)
	}
	// Without their rule, and without one of the organization, nothing changes.
	e.mirror.OperatorRule, e.mirror.Rule = nil, nil
	if d, err := e.service.AskRedirect(t.Context(), e.id, operatorActor(), newRedirection()); err != nil ||
		d.Status != "REDIRECTING" {
		t.Errorf("without a rule: got %s, %v, want REDIRECTING", d.Status, err)
	}
}

// Rule SA-17: a server that asks no one for signatures, or believes all of them, sends nothing.
func TestTheSignerRefusesARedirectThatACarelessServerLetGo(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	rule := e.mirror.OperatorRule
	e.mirror.OperatorRule = nil
	if _, err := e.service.Redirect(t.Context(), e.id, operatorActor(), newRedirection()); err != nil {
		t.Fatal(err)
	}
	refusal := refusedSignature(e.admits())
	if refusal == nil {
		t.Fatal("a redirect without signatures was admitted")
	}
	e.refuseOrder(refusal)
	if got := e.listDeposits(t, deposit.Filter{Status: "FLAGGED"}); len(got) != 1 {
		t.Fatalf("got %d flagged deposits, want it flagged again", len(got))
	}
	e.mirror.OperatorRule, e.mirror.IsCareless = rule, true
	requestID := e.askRedirect(1)
	if _, err := e.signAs(requestID, 2, e.operators[1]); err != nil {
		t.Fatal(err)
	}
	if d, err := e.signAs(requestID, 3, e.people[0]); err != nil || d.Status != "REDIRECTING" {
		t.Fatalf("a careless server: got %s, %v, want it let go", d.Status, err)
	}
	if refusedSignature(e.admits()) == nil {
		t.Error("a redirect with the signature of an organization's approver was admitted")
	}
}

// Rule SA-17: a deposit whose redirect waits is decided otherwise only after an operator took it back.
func TestOnlyOperatorsTakeARedirectBack(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	requestID := e.askRedirect(1)
	_, err := e.service.Approve(t.Context(), e.id, e.person(3), "")
	wantCode(t, err, fault.ResolutionInProgress)
	_, err = e.service.AskReturn(t.Context(), e.id, e.person(3), "")
	wantCode(t, err, fault.ResolutionInProgress)
	if r := e.review(); r.Request != nil {
		t.Errorf("the organization's page has %+v, want no return that waits", r.Request)
	}
	other := newRedirection()
	other.Reference = "order 8"
	_, err = e.service.AskRedirect(t.Context(), e.id, e.operator(2), other)
	wantCode(t, err, fault.ResolutionInProgress)
	_, err = e.service.WithdrawReturn(t.Context(), e.id, requestID, e.person(3))
	wantCode(t, err, fault.OperatorOnly)
	if _, err := e.service.WithdrawReturn(t.Context(), e.id, requestID, e.operator(2)); err != nil {
		t.Fatal(err)
	}
	if d, err := e.service.Approve(t.Context(), e.id, e.person(3), ""); err != nil || d.Status != "CREDITED" {
		t.Errorf("after it was taken back: got %s, %v, want it credited", d.Status, err)
	}
}

// The tables hold what the program does. Rule SA-17.
func TestTheTablesKeepARedirectThatWaits(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	requestID := e.askRedirect(1)
	if _, err := e.signAs(requestID, 2, e.operators[1]); err != nil {
		t.Fatal(err)
	}
	const resolve = `INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, reason,
			reference, decided_at, decided_by_kind, decided_by, chain, wallet_id, mint_id, to_address, sent)
		SELECT q.request_id, q.org_id, q.deposit_id, 'REDIRECTED', 'OPEN', q.reason, q.reference, now(), 'OPERATOR',
			'op', d.chain, d.wallet_id, d.mint_id, q.to_address, q.sent
		FROM return_requests q JOIN deposits d USING (deposit_id)`
	for name, c := range map[string]struct{ sql, constraint string }{
		"another address":   {`UPDATE return_requests SET to_address = 'thief'`, "return_requests_fixed"},
		"another reference": {`UPDATE return_requests SET reference = 'order 8'`, "return_requests_fixed"},
		"a return of it":    {`UPDATE return_requests SET decision = 'REJECTED'`, "return_requests_fixed"},
		"by a person": {
			`INSERT INTO return_signatures
			SELECT org_id, request_id, 'USER', 'usr_3', not_after, at, digest, mac, signature FROM return_signatures`,
			"return_signatures_by_people",
		},
		"by the maker": {
			`INSERT INTO return_signatures
			SELECT g.org_id, request_id, 'OPERATOR', asked_by, not_after, at, digest, mac, signature
			FROM return_signatures g JOIN return_requests USING (request_id)`,
			"return_signatures_not_by_maker",
		},
		"decided before it is signed": {resolve, "deposit_resolutions_as_asked"},
		"decided with another reason": {
			`UPDATE return_requests SET status = 'SIGNED', ended_at = now(), ended_by_kind = 'OPERATOR',
				ended_by = 'op';` +
				strings.Replace(resolve, "q.reason,", "'COMPLIANCE_HOLD',", 1), "deposit_resolutions_as_asked",
		},
	} {
		_, err := pgtest.OwnerPool(t, e.db).Exec(t.Context(), c.sql)
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", name, err, c.constraint)
		}
	}
}
