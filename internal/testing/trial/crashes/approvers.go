package crashes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/signing"
)

// signers is an organization of one cell with a person whose passkeys count. Its rule is none of the scenario's
// organization, whose payments need no one.
type signers struct {
	s              *cellRun
	org            *signing.Organization
	approve, enrol *signertest.Passkey
}

// playSigners plays a scene with a new organization.
func (s *cellRun) playSigners(ctx context.Context, play func(ctx context.Context, g *signers) error) (err error) {
	made, _, err := org.Create(ctx, s.tools.DB(), s.name)
	if err != nil {
		return err
	}
	person := signing.Person{Email: strings.ToLower(s.name) + "@approvers.test"}
	err = s.tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		m, err := member.Add(ctx, tx, audit.Operator("trial"), made.ID, person.Email, "Ann", identity.Owner)
		person.MemberID = m.ID
		return err
	})
	if err != nil {
		return err
	}
	g := &signers{s: s}
	if g.org, err = signing.Open(ctx, s.conf, s.conf.Signer.Policy, made.ID); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.org.Close()) }()
	if g.approve, err = g.makeFounded(person, signer.RightApprove); err != nil {
		return err
	}
	if g.enrol, err = g.makeFounded(person, signer.RightEnrol); err != nil {
		return err
	}
	return play(ctx, g)
}

// makeFounded makes a passkey that a person at the signer's host admits before it is enrolled.
func (g *signers) makeFounded(p signing.Person, right signer.Right) (*signertest.Passkey, error) {
	made, err := g.org.Make(p, right)
	if err != nil {
		return nil, err
	}
	_, err = app.FoundApprover(g.s.conf, made.OrgID, made.Email, string(right), g.org.Fingerprint(made), "a trial")
	return made, err
}

// enrolBoth enrols both passkeys and waits until they count.
func (g *signers) enrolBoth(ctx context.Context) error {
	for _, p := range []*signertest.Passkey{g.approve, g.enrol} {
		if err := g.org.Enrol(ctx, p); err != nil {
			return err
		}
	}
	return errors.Join(
		g.waitStatus(ctx, approver.StatusUsable, g.approve), g.waitStatus(ctx, approver.StatusUsable, g.enrol),
	)
}

func (g *signers) waitStatus(ctx context.Context, want approver.Status, p *signertest.Passkey) error {
	return waitUntil(ctx, p.ID+" is "+string(want), sceneMax, func(ctx context.Context) (bool, error) {
		status, k, err := g.org.Status(ctx, p)
		if err == nil && status != want {
			err = fmt.Errorf("it is %s: %s%s", status, k.WaitsFor, k.Refusal)
		}
		return err == nil, err
	})
}

// checkMeanwhile runs a check after a process was killed and before it starts again. After the other faults the
// database may be down.
func (s *cellRun) checkMeanwhile(check func(ctx context.Context) error) {
	if s.fault == Kill || s.fault == Signer {
		s.afterFault = check
	}
}

// checkJournaled checks that the signer's journal has one record of a kind that names an id.
func (g *signers) checkJournaled(kind signer.RecordKind, id string) error {
	text, err := os.ReadFile(g.s.conf.Signer.Journal)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, fmt.Sprintf("%q", kind)) && strings.Contains(line, fmt.Sprintf("%q", id)) {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("the journal has %d records %s of %s, want one", n, kind, id)
	}
	return nil
}

// playEnrolment plays a passkey that was founded. Without the stored proof of the signer it counts for nothing, and
// the service finishes it by itself.
func playEnrolment(ctx context.Context, s *cellRun) error {
	return s.playSigners(ctx, func(ctx context.Context, g *signers) error {
		s.checkMeanwhile(func(ctx context.Context) error {
			status, k, err := g.org.Status(ctx, g.approve)
			if err == nil && !s.point.commit && (status != approver.StatusWaiting || k.UsableFrom != nil) {
				err = fmt.Errorf("before the proof is stored, the passkey is %s", status)
			}
			return err
		})
		begin := func(ctx context.Context) error { return g.org.Enrol(ctx, g.approve) }
		if err := s.playThrough(ctx, s.point.sourceName(), begin); err != nil {
			return err
		}
		return errors.Join(
			g.waitStatus(ctx, approver.StatusUsable, g.approve), g.checkJournaled(signer.RecordEnrol, g.approve.ID),
		)
	})
}

// playRetirement plays the end of a passkey. It counts for nothing from the commit of the row on, and the signer hears
// of it in the end.
func playRetirement(ctx context.Context, s *cellRun) error {
	return s.playSigners(ctx, func(ctx context.Context, g *signers) error {
		if err := g.enrolBoth(ctx); err != nil {
			return err
		}
		s.checkMeanwhile(func(ctx context.Context) error {
			status, _, err := g.org.Status(ctx, g.approve)
			if err == nil && status != approver.StatusRetired {
				err = fmt.Errorf("after the commit of its end, the passkey is %s", status)
			}
			return err
		})
		begin := func(ctx context.Context) error { return g.org.Retire(ctx, g.approve, g.enrol) }
		if err := s.playThrough(ctx, s.point.sourceName(), begin); err != nil {
			return err
		}
		err := waitUntil(ctx, "the signer has ended "+g.approve.ID, sceneMax,
			func(ctx context.Context) (isEnded bool, err error) {
				err = s.queryRow(ctx, `SELECT retired_seq IS NOT NULL AND retire_refusal IS NULL FROM approver_keys
					WHERE key_id = $1`, []any{g.approve.ID}, &isEnded)
				return isEnded, err
			})
		return errors.Join(
			err, g.waitStatus(ctx, approver.StatusRetired, g.approve),
			g.waitStatus(ctx, approver.StatusUsable, g.enrol), g.checkJournaled(signer.RecordRetire, g.approve.ID),
		)
	})
}

// playRule plays a rule with its last signature. Without the stored proof of the signer there is none here, and the
// service finishes it by itself.
func playRule(ctx context.Context, s *cellRun) error {
	return s.playSigners(ctx, func(ctx context.Context, g *signers) error {
		if err := g.enrolBoth(ctx); err != nil {
			return err
		}
		s.checkMeanwhile(func(ctx context.Context) error {
			rule, err := g.org.LoadRule(ctx)
			if err == nil && !s.point.commit && rule != nil {
				err = errors.New("before the proof is stored, the rule holds")
			}
			return err
		})
		begin := func(ctx context.Context) error {
			return g.org.SetRule(ctx, signer.ApprovalRule{Quorum: 1}, g.enrol)
		}
		if err := s.playThrough(ctx, s.point.sourceName(), begin); err != nil {
			return err
		}
		err := waitUntil(ctx, "the rule holds", sceneMax, func(ctx context.Context) (bool, error) {
			rule, err := g.org.LoadRule(ctx)
			return err == nil && rule != nil && rule.Version == 1 && rule.Quorum == 1, err
		})
		return errors.Join(err, g.checkJournaled(signer.RecordRule, g.org.OrgID))
	})
}
