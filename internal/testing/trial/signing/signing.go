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

// Desk is where people of an organization sign.
type Desk struct {
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

// Open opens a desk beside the running service that a configuration belongs to. policy is the file of its signer's
// policy.
func Open(ctx context.Context, conf app.Config, policy, orgID string) (d *Desk, err error) {
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
	d = &Desk{OrgID: orgID, tools: tools, origin: conf.Dashboard.Origin}
	d.book = approver.New(tools.DB(), words, approver.Config{AttestKey: attest, Chains: tools.Chains}, log)
	tools.Withdrawals.Approvers = d.book
	if err := d.book.LoadWording(ctx); err != nil {
		return nil, errors.Join(err, tools.Close())
	}
	return d, nil
}

// Close closes the desk.
func (d *Desk) Close() error { return d.tools.Close() }

// Make makes a passkey of a person, of which no one has heard.
func (d *Desk) Make(p Person, right signer.Right) (*signertest.Passkey, error) {
	made, err := signertest.MakePasskey(d.OrgID, p.MemberID, right)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(d.origin)
	if err != nil {
		return nil, err
	}
	made.ID = approver.NewKeyID(time.Now())
	made.Person, made.Email = approver.PersonName(audit.User(p.MemberID)), p.Email
	made.CredentialID = []byte("credential of " + made.ID)
	made.RPID, made.Origin = origin.Hostname(), d.origin
	return made, nil
}

// Enrol has a passkey sign its own enrolment. It then waits to be founded or admitted.
func (d *Desk) Enrol(ctx context.Context, made *signertest.Passkey) error {
	request, err := made.MakeRequest(d.book.Installation(), time.Now().Add(signatureLasts))
	if err != nil {
		return err
	}
	return d.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := d.book.Enrol(ctx, tx, actorOf(made), request)
		return err
	})
}

func actorOf(p *signertest.Passkey) audit.Actor {
	return audit.User(strings.TrimPrefix(p.Person, "USER "))
}

func (d *Desk) write(ctx context.Context, fn func(ctx context.Context, tx pg.Tx) error) error {
	return d.tools.DB().InSystem(ctx, fn)
}

// Fingerprint returns what the owner of a passkey reads out.
func (d *Desk) Fingerprint(p *signertest.Passkey) string {
	return signer.EnrolRequest{Enrolment: p.Enrolment, Email: p.Email}.Fingerprint(d.book.Installation())
}

func (d *Desk) sign(
	p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) (signer.KeySignature, error) {
	return p.SignStatement(d.book.Installation(), time.Now().Add(signatureLasts), statement)
}

// Admit has a colleague's passkey admit one that waits.
func (d *Desk) Admit(ctx context.Context, added, by *signertest.Passkey) error {
	request := signer.EnrolRequest{Enrolment: added.Enrolment, Email: added.Email}
	signature, err := d.sign(by, func(c signer.StatementContext) signer.Statement {
		return signer.EnrolStatement(request, c)
	})
	if err != nil {
		return err
	}
	return d.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		return d.book.Admit(ctx, tx, actorOf(by), d.OrgID, added.ID, signature)
	})
}

// Retire has a passkey retire another one, or itself.
func (d *Desk) Retire(ctx context.Context, ended, by *signertest.Passkey) error {
	retirement := signer.Retirement{OrgID: d.OrgID, ID: ended.ID}
	signature, err := d.sign(by, func(c signer.StatementContext) signer.Statement {
		return signer.RetireStatement(retirement, c)
	})
	if err != nil {
		return err
	}
	return d.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		return d.book.Retire(ctx, tx, actorOf(by), d.OrgID, ended.ID, &signature)
	})
}

// SetRule proposes a rule, which passkeys sign. The service asks the signer for it.
func (d *Desk) SetRule(ctx context.Context, rule signer.ApprovalRule, by ...*signertest.Passkey) error {
	rule.OrgID = d.OrgID
	return d.write(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err := d.book.ProposeRule(ctx, tx, actorOf(by[0]), rule)
		if err != nil {
			return err
		}
		for _, key := range by {
			signature, err := d.sign(key, func(c signer.StatementContext) signer.Statement {
				return signer.RuleStatement(p.Rule, c)
			})
			if err != nil {
				return err
			}
			if err := d.book.SignRule(ctx, tx, actorOf(key), d.OrgID, p.ID, signature); err != nil {
				return err
			}
		}
		return nil
	})
}

// Status returns the state of a passkey: that of its row, or REFUSED if that is not what the signer recorded.
func (d *Desk) Status(ctx context.Context, p *signertest.Passkey) (status approver.Status, k approver.Key, err error) {
	err = d.tools.DB().ReadOrg(ctx, d.OrgID, func(ctx context.Context, tx pg.Tx) error {
		k, err = d.book.ByID(ctx, tx, d.OrgID, p.ID)
		status = k.Status(tx.Now)
		return err
	})
	return status, k, err
}

// LoadRule returns the rule that holds, or nil.
func (d *Desk) LoadRule(ctx context.Context) (rule *signer.ApprovalRule, err error) {
	err = d.tools.DB().ReadOrg(ctx, d.OrgID, func(ctx context.Context, tx pg.Tx) error {
		rule, err = d.book.LoadRule(ctx, tx, d.OrgID)
		return err
	})
	return rule, err
}

// Approve has a passkey sign a withdrawal as its page shows it.
func (d *Desk) Approve(ctx context.Context, withdrawalID string, by *signertest.Passkey) error {
	review, err := d.tools.Withdrawals.LoadReview(ctx, d.OrgID, withdrawalID)
	if err != nil {
		return err
	}
	if !review.NeedsSignature() {
		return fmt.Errorf("%s needs no signature", withdrawalID)
	}
	signature, err := d.sign(by, func(c signer.StatementContext) signer.Statement {
		return review.Statement(c.Approver, c.NotAfter)
	})
	if err != nil {
		return err
	}
	_, err = d.tools.Withdrawals.ApproveSigned(ctx, d.OrgID, withdrawalID, actorOf(by), review.Digest, &signature)
	return err
}
