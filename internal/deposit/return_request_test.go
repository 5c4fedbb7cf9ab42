package deposit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// signedEnv is an environment with a flagged deposit of 500 and a rule of two people for every return.
type signedEnv struct {
	*testEnv
	t      *testing.T
	id     string // of the deposit
	signer *signertest.Approvers
	mirror *signertest.Mirror
	people []*signertest.Passkey // usr_1 to usr_4, for payments
	enrol  []*signertest.Passkey // usr_1 and usr_2, for passkeys and rules
}

func newSignedEnv(t *testing.T) *signedEnv {
	t.Helper()
	w, o := newScreenedEnv(t)
	s := signertest.OpenApprovers(t, grantKey())
	e := &signedEnv{testEnv: w, t: t, signer: s, mirror: s.NewMirror()}
	w.sign.Signer = s
	head, err := s.Head(t.Context())
	if err == nil {
		_, err = pgtest.OwnerPool(t, w.db).Exec(t.Context(),
			`UPDATE signer_identity SET journal_id = $1`, head.JournalID)
	}
	if err != nil {
		t.Fatal(err)
	}
	signertest.IssueAddress(t, s, signertest.Deposit(w.org, "alice"))
	e.id = w.flagDeposit(t, o, 500)
	w.service.Approvers = e.mirror
	w.service.ReturnPage = func(id string) string { return "https://pages.example.com/" + id }
	for n := 1; n <= 4; n++ {
		e.people = append(e.people, e.newPasskey(n, signer.RightApprove))
	}
	for n := 1; n <= 2; n++ {
		e.enrol = append(e.enrol, e.newPasskey(n, signer.RightEnrol))
	}
	s.Found(t, append(e.enrol, e.people...)...)
	e.set(signer.ApprovalRule{OrgID: w.org, Version: 1, Quorum: 2, Returns: true})
	return e
}

func (e *signedEnv) newPasskey(n int, right signer.Right) *signertest.Passkey {
	p := signertest.NewPasskey(e.t, e.org, fmt.Sprintf("usr_%d", n), right)
	p.Person = fmt.Sprintf("USER usr_%d", n)
	e.mirror.Keys[p.ID] = p
	return p
}

func (e *signedEnv) set(rule signer.ApprovalRule) {
	e.t.Helper()
	e.signer.Set(e.t, rule, e.enrol...)
	e.mirror.Rule = &rule
}

func (e *signedEnv) person(n int) deposit.Actor {
	return deposit.Actor{Actor: audit.User(fmt.Sprintf("usr_%d", n)), OrgID: e.org}
}

// review returns what the page of the deposit shows.
func (e *signedEnv) review() deposit.ReturnReview {
	e.t.Helper()
	r, err := e.service.LoadReturn(e.t.Context(), e.org, e.id)
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// ask makes a person ask for the return, and returns its id.
func (e *signedEnv) ask(n int) string {
	e.t.Helper()
	d, err := e.service.AskReturn(e.t.Context(), e.id, e.person(n), "not ours")
	if err != nil || d.Status != "FLAGGED" {
		e.t.Fatalf("ask for the return: got %s, %v, want it flagged still", d.Status, err)
	}
	if r := e.review(); r.Request != nil {
		return r.Request.ID
	}
	e.t.Fatal("no return waits for signatures")
	return ""
}

// sign returns the signature of a passkey over the words that the page shows its person.
func (e *signedEnv) sign(p *signertest.Passkey, lasts time.Duration) signer.KeySignature {
	e.t.Helper()
	r := e.review()
	return p.Sign(e.t, e.signer.Installation, time.Now().Add(lasts), func(c signer.StatementContext) signer.Statement {
		return r.Statement(c.Approver, c.NotAfter)
	})
}

func (e *signedEnv) signReturn(requestID string, n int, s signer.KeySignature) (deposit.Deposit, error) {
	return e.service.SignReturn(e.t.Context(), e.id, requestID, e.person(n), s)
}

func (e *signedEnv) mustSign(requestID string, people ...int) (d deposit.Deposit) {
	e.t.Helper()
	for _, n := range people {
		var err error
		if d, err = e.signReturn(requestID, n, e.sign(e.people[n-1], time.Hour)); err != nil {
			e.t.Fatalf("usr_%d: %v", n, err)
		}
	}
	return d
}

// admits asks the signer for the only return that is queued, as dispatch does.
func (e *signedEnv) admits() error {
	e.t.Helper()
	var o dispatch.Order
	err := e.db.ReadSystem(e.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT order_id, org_id, chain, to_address, mint_id, contract, amount, authority FROM dispatch_orders
			WHERE purpose = 'RETURN' AND status = 'QUEUED'`).
			Scan(&o.ID, &o.OrgID, &o.Chain, &o.To, &o.MintID, &o.Contract, &o.Amount, &o.Grant)
	})
	if err != nil {
		e.t.Fatal(err)
	}
	_, err = e.signer.AdmitIntent(e.t.Context(), signer.Intent{
		ID: o.ID, Purpose: signer.Return, Chain: o.Chain, From: signertest.Deposit(o.OrgID, "alice"), To: o.To,
		Contract: o.Contract, Amount: o.Amount, MintID: o.MintID, Grant: o.Grant,
	})
	return err
}

// refuseOrder ends the queued return as the signer's refusal does.
func (e *signedEnv) refuseOrder(refusal *signer.Refusal) {
	e.t.Helper()
	err := e.db.InSystem(e.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		err := tx.QueryRow(ctx, `
			UPDATE dispatch_orders SET status = 'REFUSED' WHERE purpose = 'RETURN' AND status = 'QUEUED'
			RETURNING order_id, org_id, wallet_id, mint_id, amount`).
			Scan(&o.ID, &o.OrgID, &o.WalletID, &o.MintID, &o.Amount)
		if err != nil {
			return err
		}
		return e.service.OnRefused(ctx, tx, o, refusal)
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// refusedSignature returns the signer's refusal for lack of signatures, or nil.
func refusedSignature(err error) *signer.Refusal {
	var refusal *signer.Refusal
	if errors.As(err, &refusal) && refusal.Code == signer.RefusedSignature {
		return refusal
	}
	return nil
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}

// Rules CO-145, CO-146 and SA-1.
func TestAReturnUnderTheRuleLeavesWithTwoSignatures(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	if r := e.review(); r.People != 2 || r.Request != nil || r.Statement("USER usr_1", "") != nil {
		t.Errorf("got %d people and %v, want two and no return that waits", r.People, r.Request)
	}
	requestID := e.ask(1)
	if again := e.ask(3); again != requestID {
		t.Errorf("asked again: got %s, want %s still", again, requestID)
	}
	r := e.review()
	words := r.Statement("USER usr_2", "2026-11-30T12:00:00.000000Z")
	for name, want := range map[string]string{
		"act": signer.ApprovePayment, "purpose": string(signer.Return), "to": string(payer), "units": "500",
		"id": requestID, "madeBy": "USER usr_1", "approver": "USER usr_2", "organization": e.org,
	} {
		if got := words.Find(name); got != want {
			t.Errorf("word %s: got %q, want %q", name, got, want)
		}
	}
	if n := e.queryCount(t, `SELECT count(*) FROM dispatch_orders`); n != 0 {
		t.Fatalf("got %d orders before anyone signed", n)
	}
	_, err := e.signReturn(requestID, 1, e.sign(e.people[0], time.Hour))
	wantCode(t, err, fault.InvalidState) // who asked for it
	_, err = e.signReturn(requestID, 3, e.sign(e.people[1], time.Hour))
	wantCode(t, err, fault.InvalidRequest) // another person's passkey
	_, err = e.signReturn("res_other", 2, e.sign(e.people[1], time.Hour))
	wantCode(t, err, fault.InvalidState) // another return
	if d := e.mustSign(requestID, 2); d.Status != "FLAGGED" {
		t.Errorf("with one signature: got %s, want it flagged", d.Status)
	}
	_, err = e.signReturn(requestID, 2, e.sign(e.people[1], 2*time.Hour))
	wantCode(t, err, fault.InvalidState) // twice
	if r := e.review(); !r.Request.IsSignedBy(audit.User("usr_2")) || r.Request.IsSignedBy(audit.User("usr_3")) {
		t.Errorf("signed by %v, want usr_2", r.Request.SignedBy)
	}
	if d := e.mustSign(requestID, 3); d.Status != "REJECTING" {
		t.Errorf("with two signatures: got %s, want REJECTING", d.Status)
	}
	if err := e.admits(); err != nil {
		t.Errorf("the signer: got %v, want it admitted", err)
	}
	d, err := e.signReturn(requestID, 4, signer.KeySignature{})
	if err != nil || d.Status != "REJECTING" {
		t.Errorf("after the last signature: got %s, %v, want the same answer", d.Status, err)
	}
	resolved := e.listDeposits(t, deposit.Filter{Status: "REJECTING"})
	if len(resolved) != 1 || resolved[0].Resolution.DecidedBy.ID != "usr_1" ||
		*resolved[0].Resolution.Note != "not ours" {
		t.Errorf("got %+v, want the decision of who asked for it", resolved)
	}
	if got := e.loadFunds(t, "adr_alice", usdc); got.Reserved != money.Units(500) || !got.Held.IsZero() {
		t.Errorf("got %+v, want it reserved for its return", got)
	}
}

// Who cannot sign is told where people do. Rule CO-147.
func TestARejectionUnderTheRuleByAProgramLeadsToThePage(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	for who, actor := range map[string]deposit.Actor{
		"the organization's key": {Actor: audit.APIKey("main"), OrgID: e.org},
		"a person at a terminal": e.person(1), "the operator": operatorActor(),
	} {
		_, err := e.service.Reject(t.Context(), e.id, actor, "")
		f := fault.Find(err)
		if f == nil || f.Code != fault.InvalidState || !strings.Contains(f.Advice, "https://pages.example.com/"+e.id) ||
			!strings.Contains(f.Reason, "2 people") {
			t.Errorf("%s: got %v, want the words of the rule and the page", who, err)
		}
	}
	if n := e.queryCount(t, `SELECT count(*) FROM return_requests`); n != 0 {
		t.Errorf("got %d returns that wait, want none", n)
	}
	// Without a rule nothing changes.
	e.mirror.Rule = nil
	if d, err := e.service.AskReturn(t.Context(), e.id, e.person(1), ""); err != nil || d.Status != "REJECTING" {
		t.Errorf("without a rule: got %s, %v, want REJECTING", d.Status, err)
	}
}

// Rule CO-145.
func TestADepositWhoseReturnWaitsIsDecidedOnlyAfterItIsTakenBack(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	requestID := e.ask(1)
	e.mustSign(requestID, 2)
	_, err := e.service.Approve(t.Context(), e.id, e.person(3), "")
	wantCode(t, err, fault.ResolutionInProgress)
	wantCode(t, e.redirectDeposit(e.id), fault.ResolutionInProgress)
	_, err = e.service.WithdrawReturn(t.Context(), e.id, "res_other", e.person(4))
	wantCode(t, err, fault.InvalidState)
	d, err := e.service.WithdrawReturn(t.Context(), e.id, requestID, e.person(4))
	if err != nil || d.Status != "FLAGGED" {
		t.Fatalf("take it back: got %s, %v", d.Status, err)
	}
	_, err = e.signReturn(requestID, 3, e.sign0(3))
	wantCode(t, err, fault.InvalidState)
	_, err = e.service.WithdrawReturn(t.Context(), e.id, requestID, e.person(4))
	wantCode(t, err, fault.InvalidState)
	if second := e.ask(2); second == requestID {
		t.Error("the next return has the id of the one that was taken back")
	} else if r := e.review(); len(r.Request.SignedBy) != 0 {
		t.Errorf("signed by %v, want no signature of the one before", r.Request.SignedBy)
	} else if _, err := e.service.WithdrawReturn(t.Context(), e.id, second, e.person(2)); err != nil {
		t.Fatal(err)
	}
	if d, err := e.service.Approve(t.Context(), e.id, e.person(3), ""); err != nil || d.Status != "CREDITED" {
		t.Errorf("after it was taken back: got %s, %v, want it credited", d.Status, err)
	}
}

// sign0 returns the signature of a passkey over no words.
func (e *signedEnv) sign0(n int) signer.KeySignature {
	return e.people[n-1].Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour),
		func(signer.StatementContext) signer.Statement { return nil })
}

// The tables hold what the program does. Rule CO-145.
func TestTheTablesKeepAReturnThatWaits(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	requestID := e.ask(1)
	e.mustSign(requestID, 2)
	for name, c := range map[string]struct{ sql, constraint string }{
		"another amount":     {`UPDATE return_requests SET sent = 1`, "return_requests_fixed"},
		"another address":    {`UPDATE return_requests SET to_address = 'thief'`, "return_requests_fixed"},
		"another maker":      {`UPDATE return_requests SET asked_by = 'usr_3'`, "return_requests_fixed"},
		"no row":             {`DELETE FROM return_requests`, "return_requests_append_only"},
		"another signature":  {`UPDATE return_signatures SET signature = '{}'`, "return_signatures_append_only"},
		"an earlier end":     {`UPDATE return_signatures SET not_after = now()`, "return_signatures_append_only"},
		"no signature":       {`DELETE FROM return_signatures`, "return_signatures_append_only"},
		"end without person": {`UPDATE return_requests SET status = 'WITHDRAWN'`, "return_requests_ended"},
		"by the maker": {
			`INSERT INTO return_signatures
			SELECT org_id, request_id, 'USER', 'usr_1', not_after, at, digest, mac, signature FROM return_signatures`,
			"return_signatures_not_by_maker",
		},
		"by an operator": {
			`INSERT INTO return_signatures
			SELECT org_id, request_id, 'OPERATOR', 'op', not_after, at, digest, mac, signature FROM return_signatures`,
			"return_signatures_by_people",
		},
		"a credit meanwhile": {
			`INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at,
				decided_by_kind, decided_by, chain, wallet_id, mint_id, ended_at)
			SELECT 'res_other', org_id, deposit_id, 'APPROVED', 'DONE', now(), 'USER', 'usr_3', chain, wallet_id,
				mint_id, now()
			FROM deposits WHERE is_flagged`, "deposit_resolutions_as_asked",
		},
		"a resolution of it that is unsigned": {
			`INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at,
				decided_by_kind, decided_by, chain, wallet_id, mint_id, to_address, sent)
			SELECT q.request_id, q.org_id, q.deposit_id, 'REJECTED', 'OPEN', now(), 'OPERATOR', 'restore', chain,
				wallet_id, mint_id, q.to_address, q.sent FROM return_requests q JOIN deposits USING (deposit_id)`,
			"deposit_resolutions_as_asked",
		},
		"a second return": {
			`INSERT INTO return_requests (request_id, org_id, deposit_id, status, to_address, sent, fee_kept, asked_at,
				asked_by_kind, asked_by)
			SELECT 'res_second', org_id, deposit_id, status, to_address, sent, fee_kept, asked_at, asked_by_kind,
				asked_by
			FROM return_requests`,
			"return_requests_one_open",
		},
		"a return of more": {
			`INSERT INTO return_requests (request_id, org_id, deposit_id, status, to_address, sent, fee_kept, asked_at,
				asked_by_kind, asked_by)
			SELECT 'res_second', org_id, deposit_id, status, to_address, sent + 1, fee_kept, asked_at, asked_by_kind,
				asked_by
			FROM return_requests`,
			"return_requests_begin",
		},
	} {
		_, err := pgtest.OwnerPool(t, e.db).Exec(t.Context(), c.sql)
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want it refused by %s", name, err, c.constraint)
		}
	}
}

// A server that believes everything returns nothing: the signer refuses, and the deposit waits for people again, with
// the reason. Rules CO-146, SA-1 and SA-7.
func TestTheSignerRefusesAReturnThatACarelessServerLetGo(t *testing.T) {
	t.Parallel()
	stranger := signertest.NewPasskey(t, "org_other", "usr_3", signer.RightApprove)
	stranger.ID, stranger.Person = "apk_stranger", "USER usr_3"
	for name, second := range map[string]func(e *signedEnv) signer.KeySignature{
		"other words":           func(e *signedEnv) signer.KeySignature { return e.sign0(3) },
		"another person":        func(e *signedEnv) signer.KeySignature { return e.sign(e.people[3], time.Hour) },
		"another organization":  func(e *signedEnv) signer.KeySignature { return e.sign(stranger, time.Hour) },
		"too long":              func(e *signedEnv) signer.KeySignature { return e.sign(e.people[2], 25*time.Hour) },
		"a passkey that enrols": func(e *signedEnv) signer.KeySignature { return e.sign(e.enrol[1], time.Hour) },
		"the same person twice": func(e *signedEnv) signer.KeySignature { return e.sign(e.people[1], time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newSignedEnv(t)
			e.mirror.IsCareless = true
			requestID := e.ask(1)
			e.mustSign(requestID, 2)
			if d, err := e.signReturn(requestID, 3, second(e)); err != nil || d.Status != "REJECTING" {
				t.Fatalf("got %s, %v", d.Status, err)
			}
			refusal := refusedSignature(e.admits())
			if refusal == nil {
				t.Fatal("the signer admits it")
			}
			e.refuseOrder(refusal)
			flagged := e.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
			if len(flagged) != 1 || len(flagged[0].ResolutionAttempts) != 1 ||
				flagged[0].ResolutionAttempts[0].Reason != signer.RefusedSignature {
				t.Fatalf("got %+v, want it flagged, with the reason", flagged)
			}
			// Also where the rule leaves the amount open: the signer asked for people.
			e.mirror.IsCareless = false
			if r := e.review(); r.People != 2 || r.Request != nil {
				t.Errorf("got %d people and %v, want two and a new return", r.People, r.Request)
			}
			again := e.ask(1)
			e.mustSign(again, 2, 3)
			if err := e.admits(); err != nil {
				t.Errorf("signed anew: got %v", err)
			}
		})
	}
}

// The signer refuses a return that the maker signed, whatever the server says. Rules CO-145 and SA-1.
func TestTheSignerRefusesTheSignatureOfWhoAskedForTheReturn(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	terms := signer.Terms{
		OrgID: e.org, WithdrawalID: "res_1", Chain: chain.Ethereum, MintID: usdc, Contract: usdcAt, To: payer,
		Amount: money.Units(500), MadeBy: "USER usr_1",
	}
	intent := signer.Intent{
		ID: terms.WithdrawalID, Purpose: signer.Return, Chain: terms.Chain, From: signertest.Deposit(e.org, "alice"),
		To: terms.To, Contract: terms.Contract, Amount: terms.Amount, MintID: terms.MintID,
	}
	grant := func(people ...int) *signer.Grant {
		var approvals []signer.Approval
		for _, n := range people {
			p := e.people[n-1]
			a := grantKey().MakeApproval(terms, 0, p.Person)
			words := signer.PaymentWords{Terms: terms, Purpose: signer.Return, Network: "31337"}
			s := p.Sign(t, e.signer.Installation, time.Now().Add(time.Hour),
				func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) })
			a.Signature = &s
			approvals = append(approvals, a)
		}
		return grantKey().MakeGrant(terms, money.Zero, 0, len(people), approvals)
	}
	intent.Grant = grant(1, 2)
	if _, err := e.signer.AdmitIntent(t.Context(), intent); refusedSignature(err) == nil {
		t.Errorf("with the maker: got %v, want it refused", err)
	}
	intent.Grant = grant(3)
	if _, err := e.signer.AdmitIntent(t.Context(), intent); refusedSignature(err) == nil {
		t.Errorf("with one person: got %v, want it refused", err)
	}
	intent.Grant = grant(2, 3)
	if _, err := e.signer.AdmitIntent(t.Context(), intent); err != nil {
		t.Errorf("with two others: got %v", err)
	}
}

// Below the rule a return needs no one, until the day is used up. Rule SA-1.
func TestAReturnBelowTheRuleNeedsNoOneWithinTheDay(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	open := func(version int, threshold, day uint64) signer.ApprovalRule {
		return signer.ApprovalRule{OrgID: e.org, Version: version, Quorum: 2, Assets: []signer.AssetRule{{
			Chain: chain.Ethereum, Contract: usdcAt, Threshold: money.Units(threshold), DayMax: money.Units(day),
		}}}
	}
	for name, c := range map[string]struct {
		threshold, day uint64
		people         int
	}{
		"below both": {501, 500, 0}, "at the threshold": {500, 500, 2}, "above the day": {501, 499, 2},
	} {
		rule := open(2, c.threshold, c.day)
		e.mirror.Rule = &rule
		if r := e.review(); r.People != c.people {
			t.Errorf("%s: got %d people, want %d", name, r.People, c.people)
		}
	}
	rule := open(2, 600, 600)
	e.mirror.Rule = &rule
	if d, err := e.service.Reject(t.Context(), e.id, operatorActor(), ""); err != nil || d.Status != "REJECTING" {
		t.Fatalf("below the rule: got %s, %v", d.Status, err)
	}
	// The signer still has the stricter rule.
	if refusal := refusedSignature(e.admits()); refusal == nil {
		t.Error("the signer admits it by a rule that it does not have")
	}
}

// A signature that ended counts no more, and its person signs again. Rule SA-7.
func TestASignatureOfAReturnThatEndedIsGivenAgain(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	requestID := e.ask(1)
	if _, err := e.signReturn(requestID, 2, e.sign(e.people[1], time.Minute)); err != nil {
		t.Fatal(err)
	}
	if d := e.mustSign(requestID, 3); d.Status != "FLAGGED" {
		t.Fatalf("got %s, want it waiting: the first signature is about to end", d.Status)
	}
	if r := e.review(); r.Request.IsSignedBy(audit.User("usr_2")) {
		t.Errorf("signed by %v, want usr_3 alone", r.Request.SignedBy)
	}
	if d := e.mustSign(requestID, 2); d.Status != "REJECTING" {
		t.Errorf("signed again: got %s, want REJECTING", d.Status)
	}
	if err := e.admits(); err != nil {
		t.Errorf("got %v", err)
	}
}

// A signature whose content was changed in the database counts for nothing. Rule SA-8.
func TestASignatureThatWasCopiedToAnotherPersonCountsForNothing(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	requestID := e.ask(1)
	e.mustSign(requestID, 2)
	_, err := pgtest.OwnerPool(t, e.db).Exec(t.Context(), `
		INSERT INTO return_signatures SELECT org_id, request_id, 'USER', 'usr_4', not_after, at, digest, mac, signature
		FROM return_signatures`)
	if err != nil {
		t.Fatal(err)
	}
	if r := e.review(); len(r.Request.SignedBy) != 1 {
		t.Errorf("signed by %v, want usr_2 alone", r.Request.SignedBy)
	}
	if !strings.Contains(e.logs.String(), "of another content") {
		t.Error("the log does not tell it")
	}
}

// While the signer has not said its words, the page tells that and nothing is signed.
func TestAReturnIsNotSignedBeforeTheSignerSaysItsWords(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	requestID := e.ask(1)
	signature := e.sign(e.people[1], time.Hour)
	e.mirror.IsSilent = true
	if r := e.review(); r.NoWords == nil || r.Request == nil || r.Statement("USER usr_2", "") != nil {
		t.Errorf("got %v, want the return without words", r.Request)
	}
	_, err := e.signReturn(requestID, 2, signature)
	wantCode(t, err, fault.CodeUnavailable)
	if n := e.queryCount(t, `SELECT count(*) FROM return_signatures`); n != 0 {
		t.Errorf("got %d signatures, want none", n)
	}
}
