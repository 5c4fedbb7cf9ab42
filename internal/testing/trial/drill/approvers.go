package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/signing"
)

// The units of a payment that needs people, and those below which none does.
const (
	bigPayment      = 600
	signedThreshold = 500
)

// The coolings-off of the drill. The last one has to be longer than a start of the service.
const (
	recoveryCoolingOff = 40 * time.Second
	adoptedCoolingOff  = 100 * time.Second
)

// approvers are the people of a drill who sign payments.
type approvers struct {
	h       *drillEnv
	org     *signing.Organization
	approve map[identity.Role]*signertest.Passkey // for payments
	enrol   map[identity.Role]*signertest.Passkey // for people and rules

	adoptedAt time.Time // of the signer's journal, or later
}

// openOrg opens the organization anew, for a database that was replaced.
func (a *approvers) openOrg(ctx context.Context) (err error) {
	if err := a.closeOrg(); err != nil {
		return err
	}
	a.org, err = signing.Open(ctx, a.h.conf, a.h.conf.Signer.Policy, a.h.world.Info.OrganizationID)
	return err
}

func (a *approvers) closeOrg() error {
	if a.org == nil {
		return nil
	}
	opened := a.org
	a.org = nil
	return opened.Close()
}

// setCoolingOff changes the signer's policy, which it reads when it starts.
func (a *approvers) setCoolingOff(usual, recovery time.Duration) error {
	file := a.h.conf.Signer.Policy
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var policy, section map[string]json.RawMessage
	if err := json.Unmarshal(text, &policy); err != nil {
		return err
	}
	if err := json.Unmarshal(policy["approvers"], &section); err != nil {
		return err
	}
	section["coolingOff"] = fmt.Appendf(nil, "%q", usual)
	section["recoveryCoolingOff"] = fmt.Appendf(nil, "%q", recovery)
	if policy["approvers"], err = json.Marshal(section); err != nil {
		return err
	}
	if text, err = json.Marshal(policy); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// addPasskey makes a passkey of a person, which waits to be admitted.
func (a *approvers) addPasskey(
	ctx context.Context, role identity.Role, right signer.Right,
) (*signertest.Passkey, error) {
	p := signing.Person{Email: a.h.person(role)}
	err := a.h.queryRow(ctx, `SELECT user_id FROM people WHERE org_id = $1 AND email = $2`,
		[]any{a.org.OrgID, p.Email}, &p.MemberID)
	if err != nil {
		return nil, err
	}
	made, err := a.org.Make(p, right)
	if err != nil {
		return nil, err
	}
	if err := a.org.Enrol(ctx, made); err != nil {
		return nil, err
	}
	if right == signer.RightApprove {
		a.approve[role] = made
	} else {
		a.enrol[role] = made
	}
	return made, nil
}

// found makes passkeys of people, and has a person at the signer's host admit each by its fingerprint.
func (a *approvers) found(ctx context.Context, roles ...identity.Role) error {
	for _, role := range roles {
		for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
			if err := a.foundOne(ctx, role, right); err != nil {
				return err
			}
		}
	}
	listed, err := a.h.runCoffer(ctx, 0, "signer", "approvers", "list")
	for _, role := range roles {
		if fingerprint := a.org.Fingerprint(a.approve[role]); err == nil && !strings.Contains(listed, fingerprint) {
			err = fmt.Errorf("coffer signer approvers list lacks %s:\n%s", fingerprint, listed)
		}
	}
	return err
}

// foundOne makes a passkey of a person, and has a person at the signer's host admit it by its fingerprint.
func (a *approvers) foundOne(ctx context.Context, role identity.Role, right signer.Right) error {
	made, err := a.addPasskey(ctx, role, right)
	if err != nil {
		return err
	}
	_, err = a.h.runCoffer(ctx, 0, "signer", "approvers", "found", made.OrgID, made.Email, string(right),
		a.org.Fingerprint(made), "--because", "read out by telephone")
	return err
}

// waitStatus waits until passkeys have a state.
func (a *approvers) waitStatus(ctx context.Context, want approver.Status, passkeys ...*signertest.Passkey) error {
	for _, p := range passkeys {
		err := retryUntilDone(ctx, p.ID+" is "+string(want), func(ctx context.Context) error {
			status, k, err := a.org.Status(ctx, p)
			if err == nil && status != want {
				err = fmt.Errorf("it is %s: %s%s", status, k.WaitsFor, k.Refusal)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waitUsable waits until the passkeys of people count.
func (a *approvers) waitUsable(ctx context.Context, roles ...identity.Role) error {
	for _, role := range roles {
		if err := a.waitStatus(ctx, approver.StatusUsable, a.approve[role], a.enrol[role]); err != nil {
			return err
		}
	}
	return nil
}

// replace makes a new passkey of a person in place of a lost one. Two colleagues admit it.
func (a *approvers) replace(ctx context.Context, role identity.Role, colleagues ...identity.Role) error {
	made, err := a.addPasskey(ctx, role, signer.RightApprove)
	if err != nil {
		return err
	}
	for n, colleague := range colleagues {
		if err := a.org.Admit(ctx, made, a.enrol[colleague]); err != nil {
			return err
		}
		if n == 0 {
			if status, _, err := a.org.Status(ctx, made); err != nil || status != approver.StatusWaiting {
				return fmt.Errorf("admitted by one of two people, it is %s, %w", status, err)
			}
		}
	}
	return a.waitStatus(ctx, approver.StatusUsable, made)
}

// request requests a payment that needs people.
func (a *approvers) request(ctx context.Context, key string) (*payment, error) {
	p, err := a.h.requestPayment(ctx, key, "ann", a.h.wholeUnits(bigPayment), false)
	if err != nil {
		return nil, err
	}
	return p, a.h.waitPaymentStatus(ctx, p, "AWAITING_APPROVAL")
}

// paySigned requests a payment, which people sign, and waits until it is completed.
func (a *approvers) paySigned(ctx context.Context, key string, roles ...identity.Role) error {
	p, err := a.request(ctx, key)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := a.org.Approve(ctx, p.id, a.approve[role]); err != nil {
			return err
		}
	}
	return a.h.waitPaymentStatus(ctx, p, "COMPLETED")
}

// checkRefused checks that the server takes no signature of a passkey.
func (a *approvers) checkRefused(ctx context.Context, p *payment, passkey *signertest.Passkey) error {
	if err := a.org.Approve(ctx, p.id, passkey); !fault.HasCode(err, fault.InvalidRequest) {
		return fmt.Errorf("the signature of %s over %s: got %w, want it refused", passkey.ID, p.key, orNone(err))
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// retire has a passkey retire others, and waits until the signer knows it.
func (a *approvers) retire(ctx context.Context, retirer *signertest.Passkey, ended ...*signertest.Passkey) error {
	for _, p := range ended {
		if err := a.org.Retire(ctx, p, retirer); err != nil {
			return err
		}
		err := retryUntilDone(ctx, "the signer has retired "+p.ID, func(ctx context.Context) error {
			var isThere bool
			err := a.h.queryRow(ctx, `SELECT retired_seq IS NOT NULL FROM approver_keys WHERE key_id = $1`,
				[]any{p.ID}, &isThere)
			if err == nil && !isThere {
				err = errors.New("it has not")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// playApprovers plays what docs/runbooks/approvers.md says: a lost passkey, an older backup in which a retired one
// counts, lost people, and a lost journal of the signer.
func playApprovers(ctx context.Context, h *drillEnv) (err error) {
	backup, journal := filepath.Join(h.dir, "backup"), h.conf.Signer.Journal
	a := &approvers{
		h: h, approve: map[identity.Role]*signertest.Passkey{}, enrol: map[identity.Role]*signertest.Passkey{},
	}
	defer func() { err = errors.Join(err, a.closeOrg()) }()
	var lost *signertest.Passkey
	rule := signer.ApprovalRule{Quorum: 2, Assets: []signer.AssetRule{{
		Chain: h.chainName, Contract: chain.Address(*h.mint.ContractAddress),
		Threshold: money.MustParse(h.wholeUnits(signedThreshold).String()),
		DayMax:    money.MustParse(h.wholeUnits(100_000).String()),
	}}}
	const ann, ben, cay, dan, eli = identity.Owner, identity.Admin, identity.Approver, identity.Finance,
		identity.Developer
	return h.playSteps(
		"a customer pays in; the signer's policy has a cooling-off for recoveries", func() error {
			return errors.Join(
				h.payIn(ctx, "ann", h.wholeUnits(9_000)), h.payAndWait(ctx, "early", "ann", h.wholeUnits(100)),
				h.waitDrained(ctx), h.world.StopService(), a.setCoolingOff(0, recoveryCoolingOff),
				h.world.RestartService(ctx), a.openOrg(ctx),
			)
		},
		"three people make passkeys, and a person at the signer's host founds them", func() error {
			return errors.Join(a.found(ctx, ann, ben, cay), a.waitUsable(ctx, ann, ben, cay))
		},
		"two of them set a rule, and sign a payment together", func() error {
			if err := a.org.SetRule(ctx, rule, a.enrol[ann], a.enrol[ben]); err != nil {
				return err
			}
			return errors.Join(
				retryUntilDone(ctx, "the rule holds", func(ctx context.Context) error {
					rule, err := a.org.LoadRule(ctx)
					if err == nil && rule == nil {
						err = errors.New("there is none")
					}
					return err
				}),
				a.paySigned(ctx, "signed", ann, ben), h.payAndWait(ctx, "small", "ann", h.wholeUnits(20)),
			)
		},
		"PostgreSQL is backed up", func() error {
			return errors.Join(h.waitDrained(ctx), baseBackup{}.backUpCluster(ctx, h, backup))
		},
		"a passkey is lost: its person makes another one, which the two others admit", func() error {
			lost = a.approve[ann]
			return a.replace(ctx, ann, ben, cay)
		},
		"a colleague retires the lost one, whose signature counts for nothing", func() error {
			if err := a.retire(ctx, a.enrol[ben], lost); err != nil {
				return err
			}
			p, err := a.request(ctx, "late")
			if err != nil {
				return err
			}
			if err := a.checkRefused(ctx, p, lost); err != nil {
				return err
			}
			return errors.Join(
				a.org.Approve(ctx, p.id, a.approve[ann]), a.org.Approve(ctx, p.id, a.approve[ben]),
				h.waitPaymentStatus(ctx, p, "COMPLETED"), h.waitDrained(ctx),
			)
		},
		"the older backup is restored, in which the retired passkey counts", func() error {
			if err := errors.Join(h.world.StopService(), h.restoreBackup(ctx, baseBackup{}, backup)); err != nil {
				return err
			}
			return errors.Join(
				h.checkStartRefused(ctx, notImported), h.importJournal(ctx), h.world.RestartService(ctx),
				a.openOrg(ctx),
			)
		},
		"the signer's journal ends it again, and no payment takes its signature", func() error {
			if err := a.waitStatus(ctx, approver.StatusRefused, lost); err != nil {
				return err
			}
			p, err := a.request(ctx, "restored")
			if err != nil {
				return err
			}
			if err := a.checkRefused(ctx, p, lost); err != nil {
				return err
			}
			if err := a.replace(ctx, ann, ben, cay); err != nil {
				return err
			}
			return errors.Join(
				a.org.Approve(ctx, p.id, a.approve[ann]), a.org.Approve(ctx, p.id, a.approve[ben]),
				h.waitPaymentStatus(ctx, p, "COMPLETED"),
			)
		},
		"everyone with a passkey is gone: others make passkeys, which a person at the signer's host founds",
		func() error {
			if err := a.found(ctx, dan, eli); err != nil {
				return err
			}
			if err := a.waitStatus(ctx, approver.StatusCoolingOff, a.approve[dan], a.enrol[eli]); err != nil {
				return err
			}
			p, err := a.request(ctx, "recovered")
			if err != nil {
				return err
			}
			if err := a.checkRefused(ctx, p, a.approve[dan]); err != nil {
				return fmt.Errorf("a recovery that cools off: %w", err)
			}
			if err := a.waitUsable(ctx, dan, eli); err != nil {
				return err
			}
			return errors.Join(
				a.org.Approve(ctx, p.id, a.approve[dan]), a.org.Approve(ctx, p.id, a.approve[eli]),
				h.waitPaymentStatus(ctx, p, "COMPLETED"),
				a.retire(ctx, a.enrol[dan], a.approve[ann], a.approve[ben], a.approve[cay], a.enrol[ann], a.enrol[ben],
					a.enrol[cay]),
				h.waitDrained(ctx),
			)
		},
		"a passkey that the rule needs is stolen: a person at the signer's host ends it, and founds another one",
		func() error {
			stolen := a.approve[dan]
			_, err := h.runCoffer(ctx, 0, "signer", "approvers", "retire", stolen.OrgID, stolen.ID, "--because",
				"stolen")
			if err != nil {
				return err
			}
			// The service compares its passkeys with the signer's when it starts.
			return errors.Join(
				h.world.StopService(), h.world.RestartService(ctx), a.openOrg(ctx),
				a.waitStatus(ctx, approver.StatusRetired, stolen), a.foundOne(ctx, dan, signer.RightApprove),
				a.waitStatus(ctx, approver.StatusUsable, a.approve[dan]),
			)
		},
		"the signer's journal is lost and adopted", func() error {
			return errors.Join(
				h.world.StopService(), os.Remove(journal), a.setCoolingOff(adoptedCoolingOff, adoptedCoolingOff),
				a.adopt(ctx), h.world.RestartService(ctx), a.openOrg(ctx),
			)
		},
		"each passkey cools off again: the signer sends what both signed back to people", func() error {
			p, err := a.request(ctx, "adopted")
			if err != nil {
				return err
			}
			err = a.signUntil(ctx, p, time.Time{}, func(round int) bool { return round > 0 })
			if err != nil {
				return err
			}
			return a.signUntil(ctx, p, a.adoptedAt.Add(adoptedCoolingOff), func(int) bool { return p.completed })
		},
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
	)
}

// adopt rebuilds the signer's journal from what the database has of it. It asks the chains, and is repeated when one
// does not answer.
func (a *approvers) adopt(ctx context.Context) error {
	err := retryUntilDone(ctx, "the journal is adopted", func(ctx context.Context) error {
		_, err := a.h.runCoffer(ctx, 0, "signer", "adopt", "--yes")
		return err
	})
	a.adoptedAt = time.Now()
	return err
}

// signUntil has both people sign a payment each time that it waits for them after a time, until a condition holds.
func (a *approvers) signUntil(
	ctx context.Context, p *payment, after time.Time, holds func(round int) bool,
) error {
	return retryUntilDone(ctx, p.key+" has got there", func(ctx context.Context) error {
		var status, tx string
		var round int
		err := a.h.queryRow(ctx, `SELECT status, coalesce(tx_hash, ''), approval_round FROM withdrawals
			WHERE withdrawal_id = $1`, []any{p.id}, &status, &tx, &round)
		if err != nil {
			return err
		}
		p.tx, p.completed = a.h.net.normalize(tx), status == "COMPLETED"
		if holds(round) {
			return nil
		}
		if status == "AWAITING_APPROVAL" && time.Now().After(after) {
			for _, role := range []identity.Role{identity.Finance, identity.Developer} {
				if err := a.org.Approve(ctx, p.id, a.approve[role]); err != nil &&
					!fault.HasCode(err, fault.InvalidState) {
					return err
				}
			}
		}
		return fmt.Errorf("it is %s in round %d", status, round)
	})
}
