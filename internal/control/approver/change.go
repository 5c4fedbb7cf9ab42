package approver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	mailKind = "APPROVERS"
	askKind  = "APPROVAL"
	wordMax  = 300 // bytes of an RP id or an origin
)

func lockName(orgID string) string { return "approvers of " + orgID }

// lock waits for other changes of an organization's passkeys and rules, and returns its passkeys.
func (s *Service) lock(ctx context.Context, tx pg.Tx, orgID string) ([]Key, error) {
	if orgID != signer.Operators {
		if _, err := org.ByID(ctx, tx, orgID); err != nil {
			return nil, err
		}
	}
	if err := pg.LockExclusive(ctx, tx, lockName(orgID)); err != nil {
		return nil, err
	}
	return s.ListKeys(ctx, tx, orgID)
}

func invalid(param, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, format, args...).
		WithAdvice("Open the page again and correct it.").WithParam(param)
}

func conflict(advice, format string, args ...any) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, format, args...).WithAdvice("%s", advice)
}

// auditOrg returns the organization of an audit entry: those of the operators have none.
func auditOrg(orgID string) string {
	if orgID == signer.Operators {
		return ""
	}
	return orgID
}

func (k Key) auditEntry(actor audit.Actor, action string, extra map[string]any) audit.Entry {
	detail := map[string]any{"person": k.Person, "email": k.Email, "right": k.Right}
	for name, value := range extra {
		detail[name] = value
	}
	return audit.Entry{
		OrgID: auditOrg(k.OrgID), Actor: actor, Action: action, ResourceKind: "APPROVER_KEY", ResourceID: k.ID,
		Detail: detail,
	}
}

func (p Proposal) auditEntry(actor audit.Actor, action string, extra map[string]any) audit.Entry {
	detail := map[string]any{"version": p.Rule.Version, "quorum": p.Rule.Quorum}
	for name, value := range extra {
		detail[name] = value
	}
	return audit.Entry{
		OrgID: auditOrg(p.Rule.OrgID), Actor: actor, Action: action, ResourceKind: "APPROVAL_RULE", ResourceID: p.ID,
		Detail: detail,
	}
}

// Enrol adds the row of a passkey, in a system transaction. After the commit the caller calls FinishKey. The same
// request again changes nothing. Faults:
//
//   - NOT_FOUND for an unknown organization,
//   - INVALID_REQUEST for a malformed request, or a signature by another passkey or of other words,
//   - INVALID_STATE for a passkey that is enrolled, and for a person with another address or the reverse.
//
// Rule SA-9.
func (s *Service) Enrol(ctx context.Context, tx pg.Tx, actor audit.Actor, e signer.EnrolRequest) (Key, error) {
	keys, err := s.lock(ctx, tx, e.OrgID)
	if err != nil {
		return Key{}, err
	}
	email, err := NormalizeEmail(e.Email)
	switch {
	case err != nil:
		return Key{}, err
	case email != e.Email:
		return Key{}, invalid("email", "The address has to be %s, in lower case.", email)
	case !id.IsValid(keyPrefix, e.ID):
		return Key{}, invalid("keyId", "This is no id of a passkey.")
	case e.Person != PersonName(actor):
		return Key{}, invalid("person", "A person enrols only an own passkey.")
	case e.OrgID == signer.Operators && !id.IsValid(operatorPrefix, actor.ID):
		return Key{}, invalid("person", "Only operators who sign in to the console enrol passkeys of the operators.")
	case e.Right != signer.RightApprove && e.Right != signer.RightEnrol:
		return Key{}, invalid("right", "The right is %s or %s.", signer.RightApprove, signer.RightEnrol)
	case len(e.RPID) > wordMax || len(e.Origin) > wordMax:
		return Key{}, invalid("origin", "The page has a name of more than %d bytes.", wordMax)
	}
	for _, k := range keys {
		if k.ID == e.ID && k.Enrolment().Equal(e.Enrolment) && k.Email == e.Email {
			return k, nil
		}
		if err := checkTwice(k, e); err != nil {
			return Key{}, err
		}
	}
	var isTaken bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM approver_keys WHERE credential_id = $1 OR key_id = $2)`,
		e.CredentialID, e.ID).Scan(&isTaken)
	if err != nil {
		return Key{}, fmt.Errorf("look for passkey %s: %w", e.ID, err)
	}
	if isTaken {
		return Key{}, conflict("Make a new passkey.", "This passkey is already enrolled.")
	}
	statement := func(c signer.StatementContext) signer.Statement { return signer.EnrolStatement(e, c) }
	if err := s.verifyStatement(tx.Now, e.Enrolment, e.Possession, statement); err != nil {
		return Key{}, err
	}
	return s.insertKey(ctx, tx, actor, e)
}

// checkTwice refuses a passkey by which one person would count twice.
func checkTwice(k Key, e signer.EnrolRequest) error {
	switch {
	case k.RetiredAt != nil || k.Refusal != "":
	case k.Person == e.Person && k.Email != e.Email:
		return conflict("Retire the passkeys under the other address first.",
			"This person has passkeys under another e-mail address. A person counts once.")
	case k.Person != e.Person && k.Email == e.Email:
		return conflict("Retire the passkeys of the other person first.",
			"Another person has passkeys under this e-mail address. A person counts once.")
	case bytes.Equal(k.PublicKey, e.PublicKey):
		return conflict("Make a new passkey.", "This passkey is already enrolled.")
	}
	return nil
}

func (s *Service) insertKey(ctx context.Context, tx pg.Tx, actor audit.Actor, e signer.EnrolRequest) (Key, error) {
	endsAt, err := parseEnd(e.Possession)
	if err != nil {
		return Key{}, err
	}
	k := Key{
		ID: e.ID, OrgID: e.OrgID, Person: e.Person, Email: e.Email, Right: e.Right, CredentialID: e.CredentialID,
		PublicKey: e.PublicKey, RPID: e.RPID, Origin: e.Origin, Possession: e.Possession, PossessionUntil: endsAt,
		CreatedAt: tx.Now,
	}
	possession, err := json.Marshal(e.Possession)
	if err != nil {
		return k, fmt.Errorf("write the signature of passkey %s: %w", k.ID, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
			possession, possession_until, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		k.ID, k.OrgID, k.Person, k.Email, k.Right, k.CredentialID, k.PublicKey, k.RPID, k.Origin, possession, endsAt,
		k.CreatedAt)
	if err != nil {
		return k, fmt.Errorf("enrol passkey %s: %w", k.ID, err)
	}
	err = s.tell(ctx, tx, k.OrgID, "A new passkey for approvals",
		"A passkey of "+k.Email+" for "+rightWords[k.Right]+" was enrolled. It counts once colleagues or a person at "+
			"the signer's host admit it and it has cooled off. If you do not expect it, retire it.")
	if err != nil {
		return k, err
	}
	return k, audit.Record(ctx, tx, k.auditEntry(actor, "approver.enrolled", nil))
}

// Admit adds a colleague's signature of a passkey that waits, in a system transaction. After the commit the caller
// calls FinishKey. Faults: NOT_FOUND, INVALID_STATE, INVALID_REQUEST. Rule SA-2.
func (s *Service) Admit(
	ctx context.Context, tx pg.Tx, actor audit.Actor, orgID, keyID string, signature signer.KeySignature,
) error {
	keys, err := s.lock(ctx, tx, orgID)
	if err != nil {
		return err
	}
	k, err := find(keys, keyID)
	if err != nil {
		return err
	}
	if status := k.Status(tx.Now); status != StatusWaiting {
		return conflict("Look at its state.", "Passkey %s does not wait to be admitted: it is %s.", k.ID, status)
	}
	if k.Person == PersonName(actor) {
		return conflict("Ask a colleague.", "No one admits an own passkey.")
	}
	statement := func(c signer.StatementContext) signer.Statement { return signer.EnrolStatement(k.Request(), c) }
	enroller, err := s.checkSignature(ctx, tx, orgID, PersonName(actor), signer.RightEnrol, signature, statement)
	if err != nil {
		return err
	}
	if err := lockKeys(ctx, tx, k.ID, enroller.ID); err != nil {
		return err
	}
	added, err := insertSignature(ctx, tx, `
		INSERT INTO approver_admissions (org_id, key_id, by_key_id, not_after, signature, at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, orgID, k.ID, signature)
	if err != nil || !added {
		return err
	}
	return audit.Record(ctx, tx, k.auditEntry(actor, "approver.admitted", map[string]any{"with": enroller.ID}))
}

// lockKeys locks passkeys before a signature is inserted, whose foreign keys would lock them after it.
func lockKeys(ctx context.Context, tx pg.Tx, keyIDs ...string) error {
	_, err := tx.Exec(ctx, `SELECT 1 FROM approver_keys WHERE key_id = ANY ($1) ORDER BY key_id FOR KEY SHARE`, keyIDs)
	if err != nil {
		return fmt.Errorf("lock the passkeys %v: %w", keyIDs, err)
	}
	return nil
}

// insertSignature stores a signature that was checked, and reports whether it is new.
func insertSignature(
	ctx context.Context, tx pg.Tx, sql, orgID, subjectID string, signature signer.KeySignature,
) (bool, error) {
	notAfter, err := parseEnd(signature)
	if err != nil {
		return false, err
	}
	encoded, err := json.Marshal(signature)
	if err != nil {
		return false, fmt.Errorf("write a signature of %s: %w", subjectID, err)
	}
	tag, err := tx.Exec(ctx, sql, orgID, subjectID, signature.KeyID, notAfter, encoded, tx.Now)
	if err != nil {
		return false, fmt.Errorf("write a signature of %s: %w", subjectID, err)
	}
	return tag.RowsAffected() == 1, nil
}

func find(keys []Key, keyID string) (Key, error) {
	for _, k := range keys {
		if k.ID == keyID {
			return k, nil
		}
	}
	return Key{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This organization does not have this passkey.").WithParam("keyId")
}

// Retire ends a passkey permanently, in a system transaction. From the commit on its signatures count for nothing here,
// and after it the caller calls FinishKey, which tells the signer. Without a signature the server's key asks for it:
// the caller has checked that the actor may. A second call changes nothing. Faults: NOT_FOUND, INVALID_REQUEST, and
// INVALID_STATE if the rule needs the passkey. Rule SA-3.
func (s *Service) Retire(
	ctx context.Context, tx pg.Tx, actor audit.Actor, orgID, keyID string, signature *signer.KeySignature,
) error {
	keys, err := s.lock(ctx, tx, orgID)
	if err != nil {
		return err
	}
	k, err := find(keys, keyID)
	if err != nil || k.RetiredAt != nil {
		return err
	}
	var encoded []byte
	if signature != nil {
		if err := s.checkRetirer(ctx, tx, actor, k, *signature); err != nil {
			return err
		}
		if encoded, err = json.Marshal(signature); err != nil {
			return fmt.Errorf("write a signature of %s: %w", k.ID, err)
		}
	}
	if k.Status(tx.Now) == StatusUsable {
		if err := s.checkEnough(ctx, tx, keys, k); err != nil {
			return err
		}
	}
	tag, err := tx.Exec(ctx, `
		UPDATE approver_keys SET retired_at = $2, retired_by = $3, retire_signature = $4
		WHERE key_id = $1 AND retired_at IS NULL`, k.ID, tx.Now, PersonName(actor), encoded)
	if err != nil {
		return fmt.Errorf("retire passkey %s: %w", k.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("retire passkey %s: %d rows", k.ID, tag.RowsAffected())
	}
	err = s.tell(ctx, tx, orgID, "A passkey for approvals was retired",
		"A passkey of "+k.Email+" for "+rightWords[k.Right]+" was retired. It never counts again.")
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, k.auditEntry(actor, "approver.retired", nil))
}

// checkRetirer checks a signature as the signer does: by the same person, by one who may enrol, and for a passkey that
// cools off by anyone.
func (s *Service) checkRetirer(
	ctx context.Context, tx pg.Tx, actor audit.Actor, k Key, signature signer.KeySignature,
) error {
	retirement := signer.Retirement{OrgID: k.OrgID, ID: k.ID}
	enroller, err := s.checkSignature(ctx, tx, k.OrgID, PersonName(actor), "", signature,
		func(c signer.StatementContext) signer.Statement { return signer.RetireStatement(retirement, c) })
	if err != nil {
		return err
	}
	if enroller.Right != signer.RightEnrol && enroller.Person != k.Person && k.Status(tx.Now) != StatusCoolingOff {
		return refuseSignature("a passkey for payments ends only passkeys of its own person and those that cool off")
	}
	return nil
}

// checkEnough refuses the end of a passkey without which fewer people than a rule needs have its right.
func (s *Service) checkEnough(ctx context.Context, tx pg.Tx, keys []Key, k Key) error {
	effective, newest, err := s.loadRules(ctx, tx, k.OrgID)
	if err != nil {
		return err
	}
	for _, p := range []*Proposal{effective, newest} {
		if p != nil && countPeople(keys, k.Right, k.ID) < p.Rule.Quorum {
			return conflict("Enrol another one first, or have it retired at the signer's host.",
				"Without passkey %s fewer people than the rule needs have passkeys for %s.", k.ID, rightWords[k.Right])
		}
	}
	return nil
}

// countPeople counts the people who have a recorded passkey with a right, without the passkey skippedID.
func countPeople(keys []Key, right signer.Right, skippedID string) int {
	people := map[string]bool{}
	for _, k := range keys {
		if k.Right == right && k.ID != skippedID && k.UsableFrom != nil && k.Refusal == "" && k.RetiredAt == nil {
			people[k.Email] = true
		}
	}
	return len(people)
}

// ProposeRule adds a proposal of an organization's next rule, in a system transaction. The version of the argument is
// ignored. Faults: NOT_FOUND, INVALID_REQUEST for a rule that cannot be met or that the signer would refuse, and
// INVALID_STATE while another one is open. Rule SA-10.
func (s *Service) ProposeRule(
	ctx context.Context, tx pg.Tx, actor audit.Actor, rule signer.ApprovalRule,
) (Proposal, error) {
	keys, err := s.lock(ctx, tx, rule.OrgID)
	if err != nil {
		return Proposal{}, err
	}
	if rule.Quorum < 0 || rule.Quorum > signer.QuorumMax {
		return Proposal{}, invalid("quorum", "A rule asks for 0 to %d people.", signer.QuorumMax)
	}
	if rule.Quorum == 0 && (len(rule.Assets) > 0 || rule.OwnPayments || rule.Returns) {
		return Proposal{}, invalid("quorum", "A rule without people has nothing else.")
	}
	if rule.OrgID == signer.Operators && (len(rule.Assets) > 0 || rule.OwnPayments || rule.Returns) {
		return Proposal{}, invalid("assets", "The operators' rule has a number of people and nothing else.")
	}
	if err := s.checkAssets(rule.Assets); err != nil {
		return Proposal{}, err
	}
	for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
		if n := countPeople(keys, right, ""); n < rule.Quorum {
			return Proposal{}, invalid("quorum", "The rule asks for %d people, and %d have a passkey for %s.",
				rule.Quorum, n, rightWords[right])
		}
	}
	proposals, err := s.ListRules(ctx, tx, rule.OrgID)
	if err != nil {
		return Proposal{}, err
	}
	rule.Version = 1
	for _, p := range proposals {
		if p.IsOpen() {
			return Proposal{}, conflict("Sign it or withdraw it first.", "Another rule is proposed, as %s.", p.ID)
		}
		if p.UsableFrom != nil {
			rule.Version = max(rule.Version, p.Rule.Version+1)
		}
	}
	p := Proposal{
		ID: id.New(proposalPrefix, tx.Now), Rule: rule, ProposedBy: PersonName(actor), ProposedAt: tx.Now,
	}
	encoded, err := json.Marshal(rule)
	if err != nil {
		return p, fmt.Errorf("write a rule of %s: %w", rule.OrgID, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at)
		VALUES ($1, $2, $3, $4, $5, $6)`, p.ID, rule.OrgID, rule.Version, encoded, p.ProposedBy, p.ProposedAt)
	if err != nil {
		return p, fmt.Errorf("propose a rule of %s: %w", rule.OrgID, err)
	}
	err = s.tell(ctx, tx, rule.OrgID, "A new rule on approvals is proposed",
		"Version "+strconv.Itoa(rule.Version)+" of the rule on approvals is proposed. It holds once enough people who "+
			"may enrol have signed it, and after a cooling-off if it asks for less than the one before.")
	if err != nil {
		return p, err
	}
	return p, audit.Record(ctx, tx, p.auditEntry(actor, "approval_rule.proposed", nil))
}

// checkAssets refuses what the signer would refuse once people have signed it.
func (s *Service) checkAssets(assets []signer.AssetRule) error {
	if len(assets) > signer.RuleAssetsMax {
		return invalid("assets", "A rule names at most %d assets.", signer.RuleAssetsMax)
	}
	type asset struct {
		chain    chain.Name
		contract chain.Address
	}
	isNamed := map[asset]bool{}
	for n, a := range assets {
		param, name := fmt.Sprintf("assets[%d]", n), asset{a.Chain, a.Contract}
		ch, isRunning := s.conf.Chains[a.Chain]
		if !isRunning || ch.AddressCodec == nil {
			return invalid(param, "%.80q is no chain of this installation.", a.Chain)
		}
		if a.Contract != "" {
			canonical, err := ch.AddressCodec.ParseContract(string(a.Contract))
			if err != nil || canonical != a.Contract {
				return invalid(param, "%.80q is not a contract of %s in its canonical form.", a.Contract, a.Chain)
			}
		}
		switch {
		case a.Threshold.IsZero():
			return invalid(param, "An asset of which every payment needs people is left out of the list.")
		case isNamed[name]:
			return invalid(param, "The asset is named twice.")
		}
		isNamed[name] = true
	}
	return nil
}

func (s *Service) findProposal(ctx context.Context, tx pg.Tx, orgID, proposalID string) (Proposal, error) {
	found, err := listProposals(ctx, tx, `org_id = $2 AND proposal_id = $3`, orgID, proposalID)
	if err != nil {
		return Proposal{}, err
	}
	if len(found) == 0 {
		return Proposal{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This organization does not have this proposal.").WithParam("proposalId")
	}
	return found[0], nil
}

// SignRule adds a person's signature of a proposal, in a system transaction. With enough of them the signer is asked:
// after the commit the caller calls FinishRule. Faults: NOT_FOUND, INVALID_STATE, INVALID_REQUEST. Rule SA-4.
func (s *Service) SignRule(
	ctx context.Context, tx pg.Tx, actor audit.Actor, orgID, proposalID string, signature signer.KeySignature,
) error {
	keys, err := s.lock(ctx, tx, orgID)
	if err != nil {
		return err
	}
	p, err := s.findProposal(ctx, tx, orgID, proposalID)
	if err != nil {
		return err
	}
	if !p.IsOpen() {
		return conflict("Look at the rule.", "Proposal %s is closed.", p.ID)
	}
	enroller, err := s.checkSignature(ctx, tx, orgID, PersonName(actor), signer.RightEnrol, signature,
		func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(p.Rule, c) })
	if err != nil {
		return err
	}
	if err := lockKeys(ctx, tx, enroller.ID); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `SELECT 1 FROM approval_rules WHERE proposal_id = $1 FOR NO KEY UPDATE`, p.ID)
	if err != nil {
		return fmt.Errorf("lock proposal %s: %w", p.ID, err)
	}
	added, err := insertSignature(ctx, tx, `
		INSERT INTO approval_rule_signatures (org_id, proposal_id, by_key_id, not_after, signature, at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, orgID, p.ID, signature)
	if err != nil || !added {
		return err
	}
	if !slices.Contains(p.SignedBy, enroller.ID) {
		p.SignedBy = append(p.SignedBy, enroller.ID)
	}
	required, err := s.countRequired(ctx, tx, keys, p)
	if err != nil {
		return err
	}
	people := map[string]bool{}
	for _, k := range keys {
		if slices.Contains(p.SignedBy, k.ID) && k.Status(tx.Now) == StatusUsable {
			people[k.Email] = true
		}
	}
	if len(people) >= required {
		_, err := tx.Exec(ctx, `UPDATE approval_rules SET asked_at = $2
			WHERE proposal_id = $1 AND asked_at IS NULL AND withdrawn_at IS NULL`, p.ID, tx.Now)
		if err != nil {
			return fmt.Errorf("close proposal %s: %w", p.ID, err)
		}
	}
	return audit.Record(ctx, tx, p.auditEntry(actor, "approval_rule.signed", map[string]any{"with": enroller.ID}))
}

// countRequired returns how many people have to sign a proposal, as the signer counts.
func (s *Service) countRequired(ctx context.Context, tx pg.Tx, keys []Key, p Proposal) (int, error) {
	effective, _, err := s.loadRules(ctx, tx, p.Rule.OrgID)
	if err != nil {
		return 0, err
	}
	required := max(1, min(2, countPeople(keys, signer.RightEnrol, "")))
	if effective == nil || effective.Rule.Quorum == 0 {
		return max(required, p.Rule.Quorum), nil
	}
	return max(required, effective.Rule.Quorum), nil
}

// WithdrawProposal ends a proposal that too few people have signed, in a system transaction. Faults: NOT_FOUND, and
// INVALID_STATE once the signer may have recorded it. Rule SA-10.
func (s *Service) WithdrawProposal(
	ctx context.Context, tx pg.Tx, actor audit.Actor, orgID, proposalID string,
) error {
	if _, err := s.lock(ctx, tx, orgID); err != nil {
		return err
	}
	p, err := s.findProposal(ctx, tx, orgID, proposalID)
	if err != nil || p.WithdrawnAt != nil {
		return err
	}
	if !p.IsOpen() || p.AskedAt != nil {
		return conflict("Look at the rule.", "Enough people have signed proposal %s: it can no longer be withdrawn.",
			p.ID)
	}
	tag, err := tx.Exec(ctx, `UPDATE approval_rules SET withdrawn_at = $2
		WHERE proposal_id = $1 AND asked_at IS NULL AND withdrawn_at IS NULL`, p.ID, tx.Now)
	if err != nil {
		return fmt.Errorf("withdraw proposal %s: %w", p.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("withdraw proposal %s: %d rows", p.ID, tag.RowsAffected())
	}
	return audit.Record(ctx, tx, p.auditEntry(actor, "approval_rule.withdrawn", nil))
}

// tell mails everyone who has a passkey, and the owners of the organization or all operators. Rules SA-11 and SA-19.
func (s *Service) tell(ctx context.Context, tx pg.Tx, orgID, subject, text string) error {
	if s.conf.Mails == nil {
		return nil // This installation sends no mail.
	}
	keys, err := listKeys(ctx, tx, `org_id = $1 AND retired_at IS NULL AND refusal IS NULL ORDER BY key_id`, orgID)
	if err != nil {
		return err
	}
	addresses, err := listOwners(ctx, tx, orgID)
	if err != nil {
		return err
	}
	for _, k := range keys {
		addresses = append(addresses, k.Email)
	}
	return s.mailTo(ctx, tx, orgID, addresses, mail.Message{Kind: mailKind, Subject: subject, Text: text + "\n"})
}

// listOwners returns the addresses of the owners of an organization, or of all operators.
func listOwners(ctx context.Context, tx pg.Tx, orgID string) (addresses []string, _ error) {
	if orgID == signer.Operators {
		people, err := operator.ListPeople(ctx, tx)
		for _, p := range people {
			if p.EndedAt.IsZero() {
				addresses = append(addresses, p.Email)
			}
		}
		return addresses, err
	}
	people, err := member.ListByOrg(ctx, tx, orgID)
	for _, p := range people {
		if p.EndedAt.IsZero() && slices.Contains(p.Roles, identity.Owner) {
			addresses = append(addresses, p.Email)
		}
	}
	return addresses, err
}

// mailTo queues a message to each address once.
func (s *Service) mailTo(ctx context.Context, tx pg.Tx, orgID string, addresses []string, m mail.Message) error {
	slices.Sort(addresses)
	for _, address := range slices.Compact(addresses) {
		if mail.CheckAddress(address) != nil {
			continue // The page shows it to this person, too.
		}
		m.To = address
		if err := s.conf.Mails.Queue(ctx, tx, m); err != nil {
			return fmt.Errorf("tell %s of its approvers: %w", orgID, err)
		}
	}
	return nil
}

// AskToSign mails those whose passkeys approve payments now, without one person, who made the payment. Rule SA-15.
func (s *Service) AskToSign(ctx context.Context, tx pg.Tx, orgID, skippedPerson, subject, text string) error {
	if s.conf.Mails == nil {
		return nil // This installation sends no mail.
	}
	keys, err := listKeys(ctx, tx, `org_id = $1 AND key_right = $2 AND person <> $3 AND usable_from <= $4
		AND retired_at IS NULL AND refusal IS NULL ORDER BY key_id`, orgID, signer.RightApprove, skippedPerson, tx.Now)
	if err != nil {
		return err
	}
	addresses := make([]string, 0, len(keys))
	for _, k := range keys {
		addresses = append(addresses, k.Email)
	}
	return s.mailTo(ctx, tx, orgID, addresses, mail.Message{Kind: askKind, Subject: subject, Text: text + "\n"})
}
