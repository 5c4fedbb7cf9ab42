package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// retirementLate is how long a passkey may count here after the signer's host retired it: the service compares each
// passkey with the journal within it.
const retirementLate = time.Hour

// approverChecks are those of passkeys and rules. Invariant I-91.
var approverChecks = []Check{
	{
		ID:        "I-40-approvers",
		Promise:   "passkeys of approvers and rules on approvals are those that the audit log tells of",
		breachSQL: approverAuditSQL,
	},
	{
		ID:      "I-91-keys",
		Promise: "every passkey of an approver is what the signer recorded, and counts until it was retired",
		inspect: checkApproverKeys,
	},
	{
		ID:      "I-91-rules",
		Promise: "every rule on approvals is what the signer recorded, with the signatures that it names",
		inspect: checkApprovalRules,
	},
}

// approverAuditSQL compares what a row says that happened with what the audit log says, each way. The entries of the
// operators have no organization.
const approverAuditSQL = `
	WITH happened AS (
		SELECT org_id, 'passkey ' AS kind, key_id COLLATE "default" AS id, e.action
		FROM approver_keys CROSS JOIN LATERAL (VALUES
			('approver.enrolled', true), ('approver.recorded', proof IS NOT NULL),
			('approver.refused', refusal IS NOT NULL),
			('approver.retired', retired_at IS NOT NULL)) AS e (action, is_so)
		WHERE e.is_so
		UNION ALL
		SELECT org_id, 'rule ', proposal_id COLLATE "default", e.action
		FROM approval_rules CROSS JOIN LATERAL (VALUES
			('approval_rule.proposed', true), ('approval_rule.recorded', proof IS NOT NULL),
			('approval_rule.refused', refusal IS NOT NULL),
			('approval_rule.withdrawn', withdrawn_at IS NOT NULL)) AS e (action, is_so)
		WHERE e.is_so),
	told AS (
		SELECT DISTINCT coalesce(org_id, 'OPERATORS') AS org_id,
			CASE resource_kind WHEN 'APPROVER_KEY' THEN 'passkey ' ELSE 'rule ' END AS kind,
			resource_id AS id, action
		FROM audit_log WHERE action IN ('approver.enrolled', 'approver.recorded', 'approver.refused',
			'approver.retired',
			'approval_rule.proposed', 'approval_rule.recorded', 'approval_rule.refused', 'approval_rule.withdrawn'))
	SELECT coalesce(h.org_id, t.org_id), coalesce(h.kind, t.kind) || coalesce(h.id, t.id),
		CASE WHEN t.id IS NULL THEN format('has %s behind it, and the audit log does not say so', h.action)
			ELSE format('has %s in the audit log, and its row does not say so', t.action) END
	FROM happened h FULL JOIN told t ON t.org_id = h.org_id AND t.kind = h.kind AND t.id = h.id AND t.action = h.action
	WHERE h.id IS NULL OR t.id IS NULL`

// place is the position of an entry in a journal.
type place struct {
	journal string
	seq     uint64
}

func (p place) String() string { return fmt.Sprintf("entry %d of %s", p.seq, p.journal) }

// precedes reports whether the entry comes before another one of its journal. A journal that continues a lost one
// repeats all its entries, so an entry is judged by what its own journal says.
func (p place) precedes(later place) bool { return p.journal == later.journal && p.seq < later.seq }

// approverEntries are the records about passkeys and rules in the database's copy of the journals. A journal that
// continues a lost one repeats those of the lost one.
type approverEntries struct {
	enrolled map[string][]enrolledKey  // by the id of the passkey
	retired  map[string][]retiredKey   // by the id of the passkey
	rules    map[string][]recordedRule // by organization, the newest version first
}

type enrolledKey struct {
	signer.EnrolBody
	place      place
	usableFrom time.Time
}

type retiredKey struct {
	signer.Retirement
	place     place
	retiredAt time.Time
}

type recordedRule struct {
	signer.RuleBody
	place      place
	usableFrom time.Time
}

// loadApproverEntries reads the copy, and reports what cannot be read.
func loadApproverEntries(ctx context.Context, tx pg.Tx) (e approverEntries, found []Breach, err error) {
	e = approverEntries{
		enrolled: map[string][]enrolledKey{}, retired: map[string][]retiredKey{}, rules: map[string][]recordedRule{},
	}
	rows, err := tx.Query(ctx, `
		SELECT journal_id, seq, body FROM signer_journal
		WHERE substr(body, 1, 15) = '{"kind":"ENROL"' OR substr(body, 1, 16) = '{"kind":"RETIRE"'
			OR substr(body, 1, 14) = '{"kind":"RULE"'
		ORDER BY journal_id, seq`)
	if err != nil {
		return e, nil, err
	}
	var entry place
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&entry.journal, &seq, &body}, func() error {
		entry.seq = uint64(seq)
		if err := e.add(entry, body); err != nil {
			found = append(found, Breach{Subject: entry.String(), Detail: "cannot be read: " + err.Error()})
		}
		return nil
	})
	for _, rules := range e.rules {
		slices.SortStableFunc(rules, func(a, b recordedRule) int { return cmp.Compare(b.Version, a.Version) })
	}
	return e, found, err
}

func (e approverEntries) add(entry place, body []byte) error {
	var r signer.Record
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	var moment string
	switch {
	case r.Enrol != nil:
		moment = r.Enrol.UsableFrom
	case r.Rule != nil:
		moment = r.Rule.UsableFrom
	case r.Retire != nil:
		moment = r.RecordedAt
	default:
		return nil
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, moment)
	if err != nil {
		return err
	}
	switch {
	case r.Enrol != nil:
		e.enrolled[r.Enrol.ID] = append(e.enrolled[r.Enrol.ID], enrolledKey{*r.Enrol, entry, usableFrom})
	case r.Retire != nil:
		e.retired[r.Retire.ID] = append(e.retired[r.Retire.ID], retiredKey{*r.Retire, entry, usableFrom})
	case r.Rule != nil:
		e.rules[r.Rule.OrgID] = append(e.rules[r.Rule.OrgID], recordedRule{*r.Rule, entry, usableFrom})
	}
	return nil
}

// findEnrolled returns the first record of a passkey that matches, or its last one. There is none of a passkey that was
// never enrolled.
func (e approverEntries) findEnrolled(id string, matches func(enrolledKey) bool) (k enrolledKey, isEnrolled bool) {
	for _, k = range e.enrolled[id] {
		if matches(k) {
			break
		}
	}
	return k, len(e.enrolled[id]) > 0
}

// checkApproverKeys compares every passkey with the copy of the signer's journal. The signer's own proof is checked
// by who has the attestation key, see WithApprovers. Rule SA-14.
func checkApproverKeys(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	entries, found, err := loadApproverEntries(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin, is_founded,
			coalesce(usable_from, created_at), coalesce(proof, ''), coalesce(journal_id, ''), coalesce(journal_seq, 0),
			proof IS NOT NULL, refusal IS NOT NULL, retired_at IS NOT NULL, coalesce(retired_seq, 0)
		FROM approver_keys ORDER BY key_id`)
	if err != nil {
		return nil, err
	}
	var row signer.EnrolBody
	var entry place
	var email string
	var usableFrom time.Time
	var isRecorded, isRefused, isRetired bool
	var seq, retiredSeq int64
	_, err = pgx.ForEachRow(rows, []any{
		&row.ID, &row.OrgID, &row.Person, &email, &row.Right, &row.CredentialID, &row.PublicKey, &row.RPID, &row.Origin,
		&row.IsFounded, &usableFrom, &row.Proof, &entry.journal, &seq, &isRecorded, &isRefused, &isRetired, &retiredSeq,
	}, func() error {
		entry.seq, row.EmailHash, row.UsableFrom = uint64(seq), signer.HashEmail(row.OrgID, email),
			signer.FormatMicros(usableFrom)
		add := func(format string, args ...any) {
			found = append(found, Breach{
				OrgID: row.OrgID, Subject: "passkey " + row.ID, Detail: fmt.Sprintf(format, args...),
			})
		}
		isSame := func(k enrolledKey) bool { return k.place == entry && isSameKey(k.EnrolBody, row) }
		if isRecorded && !slices.ContainsFunc(entries.enrolled[row.ID], isSame) {
			add("differs from what the signer recorded in %v", entry)
		}
		for _, retired := range entries.retired[row.ID] {
			switch {
			case retired.OrgID != row.OrgID:
				add("was retired for %s in %v", retired.OrgID, retired.place)
			case !isRetired && !isRefused && tx.Now.Sub(retired.retiredAt) > retirementLate:
				add("counts here, and the signer has retired it in %v", retired.place)
			}
		}
		isNoted := func(k retiredKey) bool { return k.place.seq == uint64(retiredSeq) }
		if isRetired && retiredSeq > 0 && !slices.ContainsFunc(entries.retired[row.ID], isNoted) {
			add("is retired, and entry %d of the signer's journal is not that", retiredSeq)
		}
		return nil
	})
	return found, err
}

// isSameKey reports whether two records of a passkey have the same fields and the same proof.
func isSameKey(a, b signer.EnrolBody) bool {
	return bytes.Equal(a.SignedBytes(), b.SignedBytes()) && bytes.Equal(a.Proof, b.Proof)
}

// checkApprovalRules compares every rule with the copy of the signer's journal, and the signatures that it names with
// those that are stored. Rule SA-14.
func checkApprovalRules(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	entries, _, err := loadApproverEntries(ctx, tx) // what cannot be read is a breach of I-91-keys
	if err != nil {
		return nil, err
	}
	signatures, err := loadRuleSignatures(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT proposal_id, org_id, rule, consents, loosens, usable_from, proof, journal_id, journal_seq
		FROM approval_rules WHERE proof IS NOT NULL ORDER BY proposal_id`)
	if err != nil {
		return nil, err
	}
	var entry place
	var id, orgID string
	var seq int64
	var usableFrom time.Time
	var rule, consents, proof []byte
	var loosens bool
	_, err = pgx.ForEachRow(rows, []any{
		&id, &orgID, &rule, &consents, &loosens, &usableFrom, &proof, &entry.journal, &seq,
	}, func() error {
		entry.seq = uint64(seq)
		add := func(format string, args ...any) {
			found = append(found, Breach{OrgID: orgID, Subject: "rule " + id, Detail: fmt.Sprintf(format, args...)})
		}
		row := signer.RuleBody{Loosens: loosens, UsableFrom: signer.FormatMicros(usableFrom), Proof: proof}
		if json.Unmarshal(rule, &row.ApprovalRule) != nil || json.Unmarshal(consents, &row.SignedBy) != nil {
			add("cannot be read")
			return nil
		}
		if n := slices.IndexFunc(entries.rules[orgID], func(r recordedRule) bool { return r.place == entry }); n < 0 ||
			!isSameRule(entries.rules[orgID][n].RuleBody, row) {
			add("differs from what the signer recorded in %v", entry)
		}
		for _, c := range row.SignedBy {
			if !slices.Contains(signatures[id], c) {
				add("was signed with passkey %s, and that signature is not stored", c.KeyID)
			}
		}
		return nil
	})
	return found, err
}

// loadRuleSignatures returns what identifies the stored signatures, by their proposal.
func loadRuleSignatures(ctx context.Context, tx pg.Tx) (map[string][]signer.Consent, error) {
	rows, err := tx.Query(ctx, `SELECT proposal_id, by_key_id, signature FROM approval_rule_signatures`)
	if err != nil {
		return nil, err
	}
	signatures := map[string][]signer.Consent{}
	var proposalID, keyID string
	var signature signer.KeySignature
	_, err = pgx.ForEachRow(rows, []any{&proposalID, &keyID, &signature}, func() error {
		signatures[proposalID] = append(signatures[proposalID],
			signer.Consent{KeyID: keyID, SignatureHash: signature.Hash()})
		signature = signer.KeySignature{}
		return nil
	})
	return signatures, err
}

func isSameRule(a, b signer.RuleBody) bool {
	return bytes.Equal(a.SignedBytes(), b.SignedBytes()) && bytes.Equal(a.Proof, b.Proof)
}

// WithApprovers adds the checks that need the public attestation key: they verify the signer's proof of every passkey
// and rule, and the signatures of every payment and every address that needed people by a rule. Without a key it
// changes nothing.
func WithApprovers(key ed25519.PublicKey) Option {
	return func(checks *[]Check) {
		if len(key) == ed25519.PublicKeySize {
			*checks = append(*checks, newApproverProofCheck(key), newSignedPaymentCheck(key))
		}
	}
}

// newApproverProofCheck checks what the journal's copy says by the proofs that it includes.
func newApproverProofCheck(key ed25519.PublicKey) Check {
	return Check{
		ID:      "I-91-proofs",
		Promise: "every passkey and every rule in the copy of the signer's journal has the signer's own proof",
		inspect: func(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
			entries, _, err := loadApproverEntries(ctx, tx)
			if err != nil {
				return nil, err
			}
			for _, id := range slices.Sorted(maps.Keys(entries.enrolled)) {
				for _, k := range entries.enrolled[id] {
					if k.VerifyProof(key) != nil {
						found = append(found, Breach{
							OrgID: k.OrgID, Subject: "passkey " + id,
							Detail: "was not recorded so by the signer: " + k.place.String(),
						})
					}
				}
			}
			for _, org := range slices.Sorted(maps.Keys(entries.rules)) {
				for _, r := range entries.rules[org] {
					if r.VerifyProof(key) != nil {
						found = append(found, Breach{
							OrgID: org, Subject: fmt.Sprintf("version %d of the rule", r.Version),
							Detail: "was not recorded so by the signer: " + r.place.String(),
						})
					}
				}
			}
			return found, nil
		},
	}
}
