package approver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// operator is an operator with a passkey for each right.
type operator struct {
	actor          audit.Actor
	approve, enrol *signertest.Passkey
}

func (h *testEnv) operatorPasskey(actor audit.Actor, email string, right signer.Right) *signertest.Passkey {
	h.Helper()
	p := signertest.NewPasskey(h.T, signer.Operators, email, right)
	p.ID, p.Person = id.New("apk", h.now), approver.PersonName(actor)
	return p
}

// newOperator makes an operator whose passkeys a person at the signer's host founds.
func (h *testEnv) newOperator(email string) operator {
	h.Helper()
	o := operator{actor: audit.Operator(id.New("opr", h.now))}
	h.exec(`INSERT INTO operators (operator_id, email, name, roles, created_at)
		VALUES ($1, $2, $2, '{OPERATOR}', now())`, o.actor.ID, email+"@example.com")
	o.approve = h.operatorPasskey(o.actor, email, signer.RightApprove)
	o.enrol = h.operatorPasskey(o.actor, email, signer.RightEnrol)
	for _, p := range []*signertest.Passkey{o.approve, o.enrol} {
		request := p.Request(h.T, h.installation, h.now.Add(6*time.Hour))
		h.must(h.do(func(ctx context.Context, tx pg.Tx) error {
			_, err := h.book.Enrol(ctx, tx, o.actor, request)
			return err
		}))
		h.must(hostorders.Append(h.files.Journal, hostorders.Order{
			OrgID: signer.Operators, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(h.installation),
			Reason: "telephone",
		}, h.now))
		h.must(h.book.FinishKey(h.Context(), p.ID))
	}
	return o
}

// Rules SA-19 and SA-20: the operators' passkeys and rule are kept like those of an organization, and no organization
// sees them.
func TestTheOperatorsHavePasskeysAndARule(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.exec(`INSERT INTO operators (operator_id, email, name, roles, created_at, ended_at) VALUES
		('opr_watches', 'watches@example.com', 'w', '{AUDITOR}', now(), NULL),
		('opr_left', 'left@example.com', 'l', '{AUDITOR}', now(), now())`)
	ann, ben := h.newOperator("ann"), h.newOperator("ben")
	h.now = h.now.Add(time.Hour)
	rule := signer.ApprovalRule{OrgID: signer.Operators, Quorum: 2}
	for what, change := range map[string]func(*signer.ApprovalRule){
		"own payments": func(r *signer.ApprovalRule) { r.OwnPayments = true },
		"returns":      func(r *signer.ApprovalRule) { r.Returns = true },
		"an asset": func(r *signer.ApprovalRule) {
			r.Assets = []signer.AssetRule{{Chain: signertest.Chain, Contract: signertest.Token}}
		},
	} {
		more := rule
		change(&more)
		h.wantRefused("a rule with "+what, h.do(func(ctx context.Context, tx pg.Tx) error {
			_, err := h.book.ProposeRule(ctx, tx, ann.actor, more)
			return err
		}), "nothing else")
	}
	var p approver.Proposal
	h.must(h.do(func(ctx context.Context, tx pg.Tx) (err error) {
		p, err = h.book.ProposeRule(ctx, tx, ann.actor, rule)
		return err
	}))
	for _, o := range []operator{ann, ben} {
		signature := h.sign(o.enrol, func(c signer.StatementContext) signer.Statement {
			return signer.RuleStatement(p.Rule, c)
		})
		h.must(h.do(func(ctx context.Context, tx pg.Tx) error {
			return h.book.SignRule(ctx, tx, o.actor, signer.Operators, p.ID, signature)
		}))
	}
	h.must(h.book.FinishRule(t.Context(), p.ID))
	h.must(h.do(func(ctx context.Context, tx pg.Tx) error {
		held, err := h.book.LoadRule(ctx, tx, signer.Operators)
		if err == nil && (held == nil || held.Quorum != 2) {
			t.Errorf("got %+v, want a rule of two operators", held)
		}
		return err
	}))
	h.must(h.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		keys, err := h.book.ListKeys(ctx, tx, signer.Operators)
		if err != nil {
			return err
		}
		rules, err := h.book.ListRules(ctx, tx, signer.Operators)
		if len(keys) != 0 || len(rules) != 0 {
			t.Errorf("an organization sees %d passkeys and %d rules of the operators", len(keys), len(rules))
		}
		return err
	}))
	var inOrg, entries int
	h.must(h.owner.QueryRow(t.Context(), `SELECT count(org_id), count(*) FROM audit_log
		WHERE resource_kind IN ('APPROVER_KEY', 'APPROVAL_RULE')`).Scan(&inOrg, &entries))
	if inOrg != 0 || entries == 0 {
		t.Errorf("got %d of %d audit entries in an organization, want none", inOrg, entries)
	}
	var told []string
	for _, m := range h.mails {
		told = append(told, m.To)
	}
	for email, want := range map[string]bool{
		"ann@example.com": true, "watches@example.com": true, "left@example.com": false,
	} {
		if slices.Contains(told, email) != want {
			t.Errorf("%s: told %v, want %v", email, !want, want)
		}
	}
}

// Rule SA-20: a key of the API and its holder would count as two.
func TestOnlyOperatorsWhoSignInHavePasskeysOfTheOperators(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, actor := range []audit.Actor{
		audit.Operator(id.New("opk", h.now)), audit.Operator("cli"), audit.User(id.New("usr", h.now)),
	} {
		p := h.operatorPasskey(actor, "ann", signer.RightApprove)
		err := h.do(func(ctx context.Context, tx pg.Tx) error {
			_, err := h.book.Enrol(ctx, tx, actor, p.Request(t, h.installation, h.now.Add(time.Hour)))
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "sign in to the console") {
			t.Errorf("%s: got %v, want it refused", actor.ID, err)
		}
	}
}
