// Package signing is people with passkeys in a running world: they enrol and retire passkeys, set rules and sign
// payments, as the pages of the dashboard have them do it. The service of the world asks the signer afterwards.
//
// It keeps nothing: a trial that ends leaves the rows of its people in its world.
package signing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const signatureLasts = time.Hour

// Organization is one whose people sign.
type Organization struct {
	OrgID  string
	tools  *app.App
	book   *approver.Service
	origin string
}

// Person is one of them.
type Person struct {
	MemberID, Email string
}

// policyWords is a signer that only says how its policy writes payments.
type policyWords struct {
	signer.Signer
	policy signpolicy.Policy
}

// Wording implements signer.Signer.
func (p policyWords) Wording(context.Context) (signer.Wording, error) { return p.policy.Wording(), nil }

// Open opens an organization beside the running service that a configuration belongs to. policy is the file of the
// policy of its signer.
func Open(ctx context.Context, conf app.Config, policy, orgID string) (o *Organization, err error) {
	text, err := os.ReadFile(policy)
	if err != nil {
		return nil, err
	}
	words := policyWords{}
	if words.policy, err = signpolicy.Parse(text); err != nil {
		return nil, err
	}
	attest, err := keys.ReadAttestKey(conf.Keys.Attest)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	tools, err := app.OpenTools(ctx, conf, log)
	if err != nil {
		return nil, err
	}
	o = &Organization{OrgID: orgID, tools: tools, origin: conf.Dashboard.Origin}
	o.book = approver.New(tools.DB(), words, approver.Config{AttestKey: attest, Chains: tools.Chains}, log)
	tools.Withdrawals.Approvers = o.book
	if err := o.book.LoadWording(ctx); err != nil {
		return nil, errors.Join(err, tools.Close())
	}
	return o, nil
}

// Close releases what Open opened.
func (o *Organization) Close() error { return o.tools.Close() }

// Make makes a passkey of a person, of which no one has heard.
func (o *Organization) Make(p Person, right signer.Right) (*signertest.Passkey, error) {
	made, err := signertest.MakePasskey(o.OrgID, p.MemberID, right)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(o.origin)
	if err != nil {
		return nil, err
	}
	made.ID = approver.NewKeyID(time.Now())
	made.Person, made.Email = approver.PersonName(audit.User(p.MemberID)), p.Email
	made.CredentialID = []byte("credential of " + made.ID)
	made.RPID, made.Origin = origin.Hostname(), o.origin
	return made, nil
}

// Enrol has a passkey sign its own enrolment. It then waits to be founded or admitted.
func (o *Organization) Enrol(ctx context.Context, made *signertest.Passkey) error {
	request, err := made.MakeRequest(o.book.Installation(), time.Now().Add(signatureLasts))
	if err != nil {
		return err
	}
	return o.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := o.book.Enrol(ctx, tx, actorOf(made), request)
		return err
	})
}

func actorOf(p *signertest.Passkey) audit.Actor {
	return audit.User(strings.TrimPrefix(p.Person, "USER "))
}

func (o *Organization) write(ctx context.Context, fn func(ctx context.Context, tx pg.Tx) error) error {
	return o.tools.DB().InSystem(ctx, fn)
}

// Fingerprint returns what the owner of a passkey reads out.
func (o *Organization) Fingerprint(p *signertest.Passkey) string {
	return signer.EnrolRequest{Enrolment: p.Enrolment, Email: p.Email}.Fingerprint(o.book.Installation())
}

func (o *Organization) sign(
	p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) (signer.KeySignature, error) {
	return p.SignStatement(o.book.Installation(), time.Now().Add(signatureLasts), statement)
}

// Admit has a colleague's passkey admit one that waits.
func (o *Organization) Admit(ctx context.Context, added, colleague *signertest.Passkey) error {
	request := signer.EnrolRequest{Enrolment: added.Enrolment, Email: added.Email}
	signature, err := o.sign(colleague, func(c signer.StatementContext) signer.Statement {
		return signer.EnrolStatement(request, c)
	})
	if err != nil {
		return err
	}
	return o.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		return o.book.Admit(ctx, tx, actorOf(colleague), o.OrgID, added.ID, signature)
	})
}

// Retire has a passkey retire another one, or itself.
func (o *Organization) Retire(ctx context.Context, ended, retirer *signertest.Passkey) error {
	retirement := signer.Retirement{OrgID: o.OrgID, ID: ended.ID}
	signature, err := o.sign(retirer, func(c signer.StatementContext) signer.Statement {
		return signer.RetireStatement(retirement, c)
	})
	if err != nil {
		return err
	}
	return o.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		return o.book.Retire(ctx, tx, actorOf(retirer), o.OrgID, ended.ID, &signature)
	})
}

// SetRule proposes a rule, which passkeys sign. The service asks the signer for it.
func (o *Organization) SetRule(ctx context.Context, rule signer.ApprovalRule, signers ...*signertest.Passkey) error {
	rule.OrgID = o.OrgID
	return o.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := o.book.ProposeRule(ctx, tx, actorOf(signers[0]), rule)
		if err != nil {
			return err
		}
		for _, key := range signers {
			signature, err := o.sign(key, func(c signer.StatementContext) signer.Statement {
				return signer.RuleStatement(p.Rule, c)
			})
			if err != nil {
				return err
			}
			if err := o.book.SignRule(ctx, tx, actorOf(key), o.OrgID, p.ID, signature); err != nil {
				return err
			}
		}
		return nil
	})
}

// Status returns the state of a passkey: that of its row, or REFUSED if that is not what the signer recorded.
func (o *Organization) Status(
	ctx context.Context, p *signertest.Passkey,
) (status approver.Status, k approver.Key, err error) {
	err = o.tools.DB().ReadOrg(ctx, o.OrgID, func(ctx context.Context, tx pg.Tx) error {
		k, err = o.book.ByID(ctx, tx, o.OrgID, p.ID)
		status = k.Status(tx.Now)
		return err
	})
	return status, k, err
}

// LoadRule returns the rule that holds, or nil.
func (o *Organization) LoadRule(ctx context.Context) (rule *signer.ApprovalRule, err error) {
	err = o.tools.DB().ReadOrg(ctx, o.OrgID, func(ctx context.Context, tx pg.Tx) error {
		rule, err = o.book.LoadRule(ctx, tx, o.OrgID)
		return err
	})
	return rule, err
}

// Approve has a passkey sign a withdrawal as its page shows it.
func (o *Organization) Approve(ctx context.Context, withdrawalID string, passkey *signertest.Passkey) error {
	review, err := o.tools.Withdrawals.LoadReview(ctx, o.OrgID, withdrawalID)
	if err != nil {
		return err
	}
	if !review.NeedsSignature() {
		return fmt.Errorf("%s needs no signature", withdrawalID)
	}
	signature, err := o.sign(passkey, func(c signer.StatementContext) signer.Statement {
		return review.Statement(c.Approver, c.NotAfter)
	})
	if err != nil {
		return err
	}
	_, err = o.tools.Withdrawals.ApproveSigned(ctx, o.OrgID, withdrawalID, actorOf(passkey), review.Digest, &signature)
	return err
}
