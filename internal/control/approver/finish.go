package approver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	maintenanceInterval = 10 * time.Second
	recheckInterval     = 10 * time.Minute
	reasonMax           = 500
)

// FinishKey brings one passkey to the signer's state: recorded, or retired there. It runs its own transactions, and the
// call may be repeated after any error, as RunMaintenance does. A refusal is no error: it is stored in the row.
func (s *Service) FinishKey(ctx context.Context, keyID string) error {
	var k Key
	var now time.Time
	var admissions []signer.KeySignature
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		keys, err := listKeys(ctx, tx, `key_id = $1`, keyID)
		if err != nil {
			return err
		}
		if k, err = find(keys, keyID); err != nil {
			return err
		}
		now = tx.Now
		admissions, err = listSignatures(ctx, tx, `
			SELECT DISTINCT ON (a.by_key_id) a.signature
			FROM approver_admissions a JOIN approver_keys k ON k.key_id = a.by_key_id
			WHERE a.key_id = $1 AND a.not_after > $2 AND k.retired_at IS NULL ORDER BY a.by_key_id, a.not_after DESC`,
			keyID, tx.Now)
		return err
	})
	switch {
	case err != nil:
		return err
	case k.RetiredAt != nil:
		return s.retireKey(ctx, k)
	case k.Refusal != "":
		return nil
	}
	_ = s.VerifyKey(k) // it logs the error; the signer refuses other values
	return s.enrolKey(ctx, k, admissions, now)
}

func listSignatures(ctx context.Context, tx pg.Tx, sql string, args ...any) (found []signer.KeySignature, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list signatures of approvers: %w", err)
	}
	encoded, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("list signatures of approvers: %w", err)
	}
	for _, text := range encoded {
		var signature signer.KeySignature
		if err := json.Unmarshal(text, &signature); err != nil {
			return nil, fmt.Errorf("read a signature of an approver: %w", err)
		}
		found = append(found, signature)
	}
	return found, nil
}

func (s *Service) enrolKey(ctx context.Context, k Key, admissions []signer.KeySignature, now time.Time) error {
	request := k.Request()
	request.AdmittedBy = admissions
	failpoint.Hit("E01")
	enrolled, err := s.signer.EnrolKey(ctx, request)
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedApprover && k.UsableFrom == nil &&
		now.Before(k.PossessionUntil): // it may be founded or admitted yet
		return s.recordWait(ctx, k, refusal)
	// a clock error passes and says nothing about the passkey
	case errors.As(err, &refusal) && refusal.Code != signer.RefusedClock:
		return s.recordRefusal(ctx, k, refusal)
	case err != nil:
		return fmt.Errorf("ask the signer to enrol %s: %w", k.ID, err)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, enrolled.UsableFrom)
	if err == nil {
		err = enrolled.VerifyProof(s.conf.AttestKey)
	}
	if err != nil {
		return fmt.Errorf("ask the signer to enrol %s: %w", k.ID, err)
	}
	if !enrolled.Equal(k.Enrolment()) || enrolled.EmailHash != signer.HashEmail(k.OrgID, k.Email) {
		return fmt.Errorf("ask the signer to enrol %s: it answered for another passkey", k.ID)
	}
	if k.UsableFrom != nil {
		return s.followHost(ctx, k)
	}
	failpoint.Hit("E04")
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE approver_keys SET usable_from = $2, is_founded = $3, proof = $4, journal_id = $5, journal_seq = $6,
				waits_for = NULL
			WHERE key_id = $1 AND proof IS NULL AND refusal IS NULL AND retired_at IS NULL`,
			k.ID, usableFrom, enrolled.IsFounded, enrolled.Proof, enrolled.Entry.JournalID, int64(enrolled.Entry.Seq))
		if err != nil {
			return fmt.Errorf("write the record of passkey %s: %w", k.ID, err)
		}
		if err := journal.RecordEntry(ctx, tx, enrolled.Entry); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return nil // a concurrent call wrote it, or it was retired and the signer is told next
		}
		err = s.tell(ctx, tx, k.OrgID, "A passkey for approvals was admitted",
			"A passkey of "+k.Email+" for "+rightWords[k.Right]+" counts from "+
				usableFrom.UTC().Format("2 Jan 2006, 15:04 UTC")+" on. If you do not expect it, retire it before.")
		if err != nil {
			return err
		}
		err = audit.Record(ctx, tx, k.auditEntry(audit.System("approvers"), "approver.recorded", map[string]any{
			"usableFrom": enrolled.UsableFrom, "founded": enrolled.IsFounded, "entry": enrolled.Entry.Seq,
		}))
		failpoint.HitBeforeCommit("E05")
		return err
	})
	failpoint.Hit("E05")
	return err
}

// cutReason returns the words of a refusal as a row has them.
func cutReason(refusal *signer.Refusal) string {
	reason := refusal.Error()
	return strings.ToValidUTF8(reason[:min(len(reason), reasonMax)], "") // the cut may split a character
}

// recordWait stores what the signer waits for. The same words are stored once.
func (s *Service) recordWait(ctx context.Context, k Key, refusal *signer.Refusal) error {
	reason := cutReason(refusal)
	if k.WaitsFor == reason {
		return nil
	}
	return s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE approver_keys SET waits_for = $2
			WHERE key_id = $1 AND proof IS NULL AND refusal IS NULL AND retired_at IS NULL`, k.ID, reason)
		if err != nil {
			return fmt.Errorf("write what passkey %s waits for: %w", k.ID, err)
		}
		return nil
	})
}

// recordRefusal stores that the signer refuses the passkey as its row has it. Rule SA-12.
func (s *Service) recordRefusal(ctx context.Context, k Key, refusal *signer.Refusal) error {
	s.log.Error("the signer refuses a passkey of an approver", "passkey", k.ID, "org", k.OrgID, "code", refusal.Code,
		"why", refusal.Message)
	return s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE approver_keys SET refusal = $2, waits_for = NULL
			WHERE key_id = $1 AND refusal IS NULL AND retired_at IS NULL`, k.ID, cutReason(refusal))
		if err != nil {
			return fmt.Errorf("write the refusal of passkey %s: %w", k.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return audit.Record(ctx, tx, k.auditEntry(audit.System("approvers"), "approver.refused", map[string]any{
			"code": refusal.Code, "why": refusal.Message,
		}))
	})
}

// retireKey tells the signer of a retirement. A signer that keeps the passkey, because the rule needs it, is asked
// again: the passkey counts for nothing here meanwhile.
func (s *Service) retireKey(ctx context.Context, k Key) error {
	if k.retiredSeq != nil {
		return nil
	}
	retirement := signer.Retirement{OrgID: k.OrgID, ID: k.ID}
	request := signer.RetireRequest{Retirement: retirement, SignedBy: k.RetireSignature}
	if s.conf.GrantKey != nil {
		request.MAC = s.conf.GrantKey.RetirementMAC(retirement)
	}
	failpoint.Hit("E06")
	entry, err := s.signer.RetireKey(ctx, request)
	var refusal *signer.Refusal
	isRefused := errors.As(err, &refusal) && refusal.Code != signer.RefusedClock
	switch {
	case isRefused && k.RetireRefusal == cutReason(refusal):
		return nil
	case isRefused:
		s.log.Error("the signer keeps a passkey that was retired", "passkey", k.ID, "org", k.OrgID,
			"code", refusal.Code, "why", refusal.Message)
		return s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE approver_keys SET retire_refusal = $2
				WHERE key_id = $1 AND retired_at IS NOT NULL AND retired_seq IS NULL`, k.ID, cutReason(refusal))
			if err != nil {
				return fmt.Errorf("write why the signer keeps passkey %s: %w", k.ID, err)
			}
			return nil
		})
	case err != nil:
		return fmt.Errorf("ask the signer to retire %s: %w", k.ID, err)
	}
	failpoint.Hit("E08")
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE approver_keys SET retired_seq = $2, retire_refusal = NULL
			WHERE key_id = $1 AND retired_at IS NOT NULL AND retired_seq IS NULL`, k.ID, int64(entry.Seq))
		if err != nil {
			return fmt.Errorf("write the retirement of passkey %s: %w", k.ID, err)
		}
		err = journal.RecordEntry(ctx, tx, entry)
		failpoint.HitBeforeCommit("E09")
		return err
	})
	failpoint.Hit("E09")
	return err
}

// followHost writes the end of a passkey that a person ended at the signer's host, although the rule needs it. The
// request names no one who asks, so the signer agrees only to what the host ordered. Rule SA-3.
func (s *Service) followHost(ctx context.Context, k Key) error {
	entry, err := s.signer.RetireKey(ctx, signer.RetireRequest{Retirement: signer.Retirement{OrgID: k.OrgID, ID: k.ID}})
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil
	case err != nil:
		return fmt.Errorf("ask the signer whether its host retired %s: %w", k.ID, err)
	}
	host := audit.System("signer-host")
	return s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE approver_keys SET retired_at = $2, retired_by = $3, retired_seq = $4
			WHERE key_id = $1 AND retired_at IS NULL`, k.ID, tx.Now, PersonName(host), int64(entry.Seq))
		if err != nil {
			return fmt.Errorf("write the retirement of passkey %s: %w", k.ID, err)
		}
		if err := journal.RecordEntry(ctx, tx, entry); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return nil // a person retired it meanwhile, and the signer is told next
		}
		err = s.tell(ctx, tx, k.OrgID, "A passkey for approvals was retired",
			"A passkey of "+k.Email+" for "+rightWords[k.Right]+" was retired at the signer's host. It never counts "+
				"again. If the rule needs more people than have passkeys now, enrol others.")
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, k.auditEntry(host, "approver.retired", map[string]any{"entry": entry.Seq}))
	})
}

// FinishRule asks the signer for a rule that enough people have signed, and writes its answer. It runs its own
// transactions, and the call may be repeated after any error. A refusal is no error: it is stored in the row.
func (s *Service) FinishRule(ctx context.Context, proposalID string) error {
	var p Proposal
	var signatures []signer.KeySignature
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		found, err := listProposals(ctx, tx, `proposal_id = $2`, proposalID)
		if err != nil || len(found) == 0 {
			return err
		}
		p = found[0]
		signatures, err = listSignatures(ctx, tx, `
			SELECT DISTINCT ON (g.by_key_id) g.signature
			FROM approval_rule_signatures g JOIN approver_keys k ON k.key_id = g.by_key_id
			WHERE g.proposal_id = $1 AND g.not_after > $2 AND k.retired_at IS NULL
			ORDER BY g.by_key_id, g.not_after DESC`,
			proposalID, tx.Now)
		return err
	})
	if err != nil || p.AskedAt == nil || !p.IsOpen() {
		return err
	}
	failpoint.Hit("E10")
	recorded, err := s.signer.SetRule(ctx, signer.RuleRequest{ApprovalRule: p.Rule, SignedBy: signatures})
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code != signer.RefusedClock:
		if err := s.refuseRule(ctx, p, refusal); err != nil {
			return err
		}
		return s.readRefusedRules(ctx, p.Rule.OrgID)
	case err != nil:
		return fmt.Errorf("ask the signer for the rule %s: %w", p.ID, err)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, recorded.UsableFrom)
	if err == nil {
		err = recorded.VerifyProof(s.conf.AttestKey)
	}
	if err != nil {
		return fmt.Errorf("ask the signer for the rule %s: %w", p.ID, err)
	}
	if !recorded.ApprovalRule.Equal(p.Rule) {
		return fmt.Errorf("ask the signer for the rule %s: it answered for another rule", p.ID)
	}
	consents, err := json.Marshal(recorded.SignedBy)
	if err != nil {
		return fmt.Errorf("write the signatures of %s: %w", p.ID, err)
	}
	failpoint.Hit("E12")
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE approval_rules SET usable_from = $2, loosens = $3, consents = $4, proof = $5, journal_id = $6,
				journal_seq = $7
			WHERE proposal_id = $1 AND proof IS NULL AND refusal IS NULL AND withdrawn_at IS NULL`,
			p.ID, usableFrom, recorded.Loosens, consents, recorded.Proof, recorded.Entry.JournalID,
			int64(recorded.Entry.Seq))
		if err != nil {
			return fmt.Errorf("write the record of rule %s: %w", p.ID, err)
		}
		if err := journal.RecordEntry(ctx, tx, recorded.Entry); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return nil // a concurrent call wrote it
		}
		err = s.tell(ctx, tx, p.Rule.OrgID, "A new rule on approvals",
			fmt.Sprintf("Version %d of the rule on approvals holds from %s on. "+
				"If you do not expect it, tell the operator.",
				p.Rule.Version, usableFrom.UTC().Format("2 Jan 2006, 15:04 UTC")))
		if err != nil {
			return err
		}
		err = audit.Record(ctx, tx, p.auditEntry(audit.System("approvers"), "approval_rule.recorded", map[string]any{
			"usableFrom": recorded.UsableFrom, "loosens": recorded.Loosens, "entry": recorded.Entry.Seq,
		}))
		failpoint.HitBeforeCommit("E13")
		return err
	})
	failpoint.Hit("E13")
	return err
}

// readRefusedRules reads the rules that the signer recorded although the service took them for refused, as after a
// request that came late. Such a rule holds, and no other one can have its version. orgID may be "" for all
// organizations. The request has no signatures, so the signer agrees only to what it recorded. Rule SA-12.
func (s *Service) readRefusedRules(ctx context.Context, orgID string) error {
	var refused []Proposal
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		refused, err = listProposals(ctx, tx, `$2 IN ('', org_id) AND refusal IS NOT NULL AND NOT EXISTS (
			SELECT FROM approval_rules o WHERE o.org_id = r.org_id AND o.proof IS NOT NULL AND o.version >= r.version)
			ORDER BY proposal_id`, orgID)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range refused {
		_, err := s.signer.SetRule(ctx, signer.RuleRequest{ApprovalRule: p.Rule})
		var refusal *signer.Refusal
		switch {
		case errors.As(err, &refusal):
			continue
		case err != nil:
			return fmt.Errorf("ask the signer for the rule %s: %w", p.ID, err)
		}
		againID, err := s.proposeRecorded(ctx, p)
		if err == nil && againID != "" {
			err = s.FinishRule(ctx, againID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// proposeRecorded writes the proposal of a rule again that the signer recorded, with its signatures. One that was
// proposed meanwhile and not signed by enough people ends: the signer would refuse its version. It returns "" if
// another one is being asked for.
func (s *Service) proposeRecorded(ctx context.Context, refused Proposal) (againID string, err error) {
	actor := audit.System("approvers")
	err = s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		againID = ""
		orgID := refused.Rule.OrgID
		if _, err := s.lock(ctx, tx, orgID); err != nil {
			return err
		}
		open, err := listProposals(ctx, tx,
			`org_id = $2 AND withdrawn_at IS NULL AND refusal IS NULL AND (proof IS NULL OR version = $3)`, orgID,
			refused.Rule.Version)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(open, func(p Proposal) bool { return p.AskedAt != nil }) {
			return nil
		}
		// The foreign keys of the signatures would lock them after the proposal.
		_, err = tx.Exec(ctx, `SELECT 1 FROM approver_keys WHERE key_id IN (
			SELECT by_key_id FROM approval_rule_signatures WHERE proposal_id = $1) ORDER BY key_id FOR KEY SHARE`,
			refused.ID)
		if err != nil {
			return fmt.Errorf("lock the passkeys that signed %s: %w", refused.ID, err)
		}
		for _, p := range open {
			_, err := tx.Exec(ctx, `UPDATE approval_rules SET withdrawn_at = $2
				WHERE proposal_id = $1 AND asked_at IS NULL AND withdrawn_at IS NULL`, p.ID, tx.Now)
			if err != nil {
				return fmt.Errorf("withdraw proposal %s: %w", p.ID, err)
			}
			err = audit.Record(ctx, tx, p.auditEntry(actor, "approval_rule.withdrawn", map[string]any{
				"recorded": refused.ID,
			}))
			if err != nil {
				return err
			}
		}
		proposal := refused
		proposal.ID = id.New(proposalPrefix, tx.Now)
		encoded, err := json.Marshal(proposal.Rule)
		if err != nil {
			return fmt.Errorf("write a rule of %s: %w", orgID, err)
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at)
			VALUES ($1, $2, $3, $4, $5, $6)`,
			proposal.ID, orgID, proposal.Rule.Version, encoded, proposal.ProposedBy, proposal.ProposedAt)
		if err != nil {
			return fmt.Errorf("write the rule %s again: %w", refused.ID, err)
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO approval_rule_signatures (org_id, proposal_id, by_key_id, not_after, signature, at)
			SELECT org_id, $2, by_key_id, not_after, signature, at FROM approval_rule_signatures
			WHERE proposal_id = $1`,
			refused.ID, proposal.ID)
		if err != nil {
			return fmt.Errorf("write the signatures of rule %s again: %w", refused.ID, err)
		}
		_, err = tx.Exec(ctx, `UPDATE approval_rules SET asked_at = $2 WHERE proposal_id = $1`, proposal.ID, tx.Now)
		if err != nil {
			return fmt.Errorf("write the rule %s again: %w", refused.ID, err)
		}
		againID = proposal.ID
		return audit.Record(ctx, tx, proposal.auditEntry(actor, "approval_rule.proposed", map[string]any{
			"recorded": refused.ID,
		}))
	})
	return againID, err
}

func (s *Service) refuseRule(ctx context.Context, p Proposal, refusal *signer.Refusal) error {
	s.log.Error("the signer refuses a rule on approvals", "proposal", p.ID, "org", p.Rule.OrgID, "code", refusal.Code,
		"why", refusal.Message)
	return s.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE approval_rules SET refusal = $2
			WHERE proposal_id = $1 AND proof IS NULL AND refusal IS NULL AND withdrawn_at IS NULL`, p.ID,
			cutReason(refusal))
		if err != nil {
			return fmt.Errorf("write the refusal of rule %s: %w", p.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return audit.Record(ctx, tx, p.auditEntry(audit.System("approvers"), "approval_rule.refused", map[string]any{
			"code": refusal.Code, "why": refusal.Message,
		}))
	})
}

// RunMaintenance finishes what was interrupted, asks again for passkeys that wait, and compares every passkey with the
// signer's journal every ten minutes. One that was retired there and is back, as after an old backup, is refused.
func (s *Service) RunMaintenance(ctx context.Context) error {
	tick := time.NewTicker(maintenanceInterval)
	defer tick.Stop()
	var last time.Time
	for {
		now := time.Now()
		isFull := now.Sub(last) >= recheckInterval
		if err := s.RunPass(ctx, isFull); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot compare the approvers with the signer", "err", err)
		} else if isFull {
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// RunPass runs one round of RunMaintenance; with isFull it checks every passkey that counts. Rule SA-12.
func (s *Service) RunPass(ctx context.Context, isFull bool) error {
	condition := `retired_at IS NULL AND proof IS NULL AND refusal IS NULL
		OR retired_at IS NOT NULL AND retired_seq IS NULL`
	if isFull {
		condition = `retired_at IS NULL AND refusal IS NULL OR retired_at IS NOT NULL AND retired_seq IS NULL`
	}
	var keyIDs, proposalIDs []string
	err := s.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT key_id FROM approver_keys WHERE `+condition+` ORDER BY key_id`)
		if err != nil {
			return err
		}
		if keyIDs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT proposal_id FROM approval_rules
			WHERE asked_at IS NOT NULL AND proof IS NULL AND refusal IS NULL AND withdrawn_at IS NULL
			ORDER BY proposal_id`)
		if err != nil {
			return err
		}
		proposalIDs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("read the approvers about whom to ask the signer: %w", err)
	}
	var errs error
	if isFull || s.words.Load() == nil {
		errs = s.LoadWording(ctx)
	}
	for _, keyID := range keyIDs {
		errs = errors.Join(errs, s.FinishKey(ctx, keyID))
	}
	for _, proposalID := range proposalIDs {
		errs = errors.Join(errs, s.FinishRule(ctx, proposalID))
	}
	if isFull {
		errs = errors.Join(errs, s.readRefusedRules(ctx, ""))
	}
	return errs
}
