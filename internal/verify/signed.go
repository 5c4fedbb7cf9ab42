package verify

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// ruleDay is how long what was paid without people counts.
const ruleDay = 24 * time.Hour

// newSignedPaymentCheck verifies the signatures of people again: the stored ones, each over the words of its own
// payment, and those with which the signer admitted payments, each against the stored ones and against the rule of
// then. Invariant I-91. Rule SA-14.
func newSignedPaymentCheck(key ed25519.PublicKey) Check {
	return Check{
		ID: "I-91",
		Promise: "every payment that needed people by a rule has the valid signatures of as many different people, " +
			"over its own words, and every redirect and address those of operators",
		inspect: func(ctx context.Context, tx pg.Tx) ([]Breach, error) {
			entries, _, err := loadApproverEntries(ctx, tx)
			if err != nil {
				return nil, err
			}
			c := signedPayments{
				key: key, entries: entries, stored: map[string][]signer.Consent{},
				withdrawals: map[string]paidWithdrawal{}, letGo: map[string]bool{},
			}
			for _, check := range []func(context.Context, pg.Tx) error{
				c.checkWithdrawals, c.checkBatches, c.checkReturns, c.checkSwaps, c.checkAdmissions,
				c.checkEndorsements,
			} {
				if err := check(ctx, tx); err != nil {
					return nil, err
				}
			}
			return c.found, nil
		},
	}
}

// signedPayments is one run of the check.
type signedPayments struct {
	key         ed25519.PublicKey
	entries     approverEntries
	stored      map[string][]signer.Consent // what identifies stored signatures, by what they approve
	withdrawals map[string]paidWithdrawal   // those that were admitted
	letGo       map[string]bool             // swaps and returns that were let go, and whether a restore made them
	found       []Breach
}

func (c *signedPayments) add(orgID, subject, format string, args ...any) {
	c.found = append(c.found, Breach{OrgID: orgID, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

// storedSignature is a signature in an approval, with what the audit log says about it.
type storedSignature struct {
	orgID, id, person string // id is of the withdrawal, the batch, the swap, the return or the redirect
	signers           string // of whom the passkey is; "": of the organization
	approvedAt        time.Time
	signature         signer.KeySignature
	logged            []byte // a signer.SignedStatement, or nothing
}

// verify checks a stored signature; build makes the words of its payment from what the logged words say of the policy.
func (c *signedPayments) verify(s storedSignature, subject string, build func(signer.Statement) signer.Statement) {
	c.stored[s.id] = append(c.stored[s.id], signer.Consent{KeyID: s.signature.KeyID, SignatureHash: s.signature.Hash()})
	invalid := func(format string, args ...any) {
		c.add(s.orgID, subject, "has a signature by %.80q that is not valid: %s", s.person,
			fmt.Sprintf(format, args...))
	}
	var logged signer.SignedStatement
	if len(s.logged) == 0 || json.Unmarshal(s.logged, &logged) != nil || logged.Signature.Hash() != s.signature.Hash() {
		invalid("the audit log does not have it with its words")
		return
	}
	enrolled, ok := c.entries.findEnrolled(s.signature.KeyID, func(k enrolledKey) bool {
		return isSameKey(k.EnrolBody, logged.Passkey)
	})
	switch {
	case !ok:
		invalid("passkey %.80q was never enrolled", s.signature.KeyID)
		return
	case !isSameKey(enrolled.EnrolBody, logged.Passkey):
		invalid("passkey %s is not the one of %v", enrolled.ID, enrolled.place)
		return
	case enrolled.OrgID != cmp.Or(s.signers, s.orgID) || enrolled.Person != s.person:
		invalid("passkey %s is of %.80q of %s", enrolled.ID, enrolled.Person, enrolled.OrgID)
		return
	case s.approvedAt.Before(enrolled.usableFrom):
		invalid("passkey %s is usable from %s on", enrolled.ID, enrolled.UsableFrom)
		return
	}
	if err := logged.VerifyPasskey(c.key); err != nil {
		invalid("%v", err)
		return
	}
	if words := build(logged.Words); !slices.Equal(words, logged.Words) {
		invalid("it is over other words: %s", describeDifference(logged.Words, words))
		return
	}
	if err := logged.VerifySignature(); err != nil {
		invalid("%v", err)
	}
}

// describeDifference names the first word in which two statements differ.
func describeDifference(signed, stored signer.Statement) string {
	for n := range max(len(signed), len(stored)) {
		var a, b signer.Word
		if n < len(signed) {
			a = signed[n]
		}
		if n < len(stored) {
			b = stored[n]
		}
		if a != b {
			return fmt.Sprintf("%s %q was signed, and the payment has %s %q", a.Name, a.Text, b.Name, b.Text)
		}
	}
	return "none"
}

// newContext returns what the words of a statement say beside what it is about.
func newContext(words signer.Statement, person string) signer.StatementContext {
	return signer.StatementContext{
		Installation: words.Find("installation"), Approver: person, NotAfter: words.Find("notAfter"),
	}
}

// findToken returns how the words write amounts, with the decimals of the mint; nil: in atomic units. A symbol is the
// policy's, so that its change does not invalidate what was signed before.
func findToken(words signer.Statement, decimals int) *signer.Token {
	_, symbol, _ := strings.Cut(words.Find("amount"), " ")
	if symbol == "units" {
		return nil
	}
	return &signer.Token{Symbol: symbol, Decimals: decimals}
}

// findSignedWords selects what the audit log has of the signature of an approval a of resource id.
func findSignedWords(id, condition string) string {
	return `LEFT JOIN LATERAL (
			SELECT l.detail -> 'signed' AS signed FROM audit_log l
			WHERE l.resource_id = ` + id + ` AND l.org_id = a.org_id
				AND (l.actor_kind, l.actor_id) = (a.approver_kind, a.approver_id) AND ` + condition + `
			-- A person who signed again has an entry for each signature.
			ORDER BY l.detail #>> '{signed,signature,notAfter}' = a.signature ->> 'notAfter' DESC NULLS LAST,
				l.audit_id DESC LIMIT 1) l ON true`
}

// checkWithdrawals verifies the stored signatures of withdrawals. A person signs a row of a batch that was held over
// the words of its batch.
func (c *signedPayments) checkWithdrawals(ctx context.Context, tx pg.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT a.org_id, a.withdrawal_id, a.approver_kind || ' ' || a.approver_id, a.at, a.signature, l.signed, a.round,
			w.chain, w.mint_id, m.contract, m.decimals, w.to_address, w.amount, w.fee_mode,
			coalesce(w.max_network_fee, 0), coalesce(w.customer_id, ''), coalesce(w.product, ''),
			coalesce(w.whitelisted_address_id, ''), coalesce(w.made_by, ''), coalesce(w.refund_id, ''),
			coalesce((SELECT f.checkout_id FROM refunds f WHERE f.refund_id = w.refund_id), ''),
			coalesce(w.batch_id, ''),
			coalesce((SELECT b.content_hash FROM payout_batches b WHERE b.batch_id = w.batch_id), '')
		FROM withdrawal_approvals a JOIN withdrawals w ON w.withdrawal_id = a.withdrawal_id
			JOIN mints m ON m.mint_id = w.mint_id
			`+findSignedWords("a.withdrawal_id", `l.action IN ('withdrawal.approval_added', 'withdrawal.approved')
				AND l.detail ->> 'round' = a.round::text`)+`
		WHERE a.signature IS NOT NULL ORDER BY a.withdrawal_id, a.round, a.approver_kind, a.approver_id`)
	if err != nil {
		return err
	}
	var s storedSignature
	var p signer.PaymentWords
	var feeMax money.Amount
	var decimals int
	var refundID, checkoutID, batchID string
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{
		&s.orgID, &s.id, &s.person, &s.approvedAt, &s.signature, &s.logged, &p.Round, &p.Chain, &p.MintID, &p.Contract,
		&decimals, &p.To, &p.Amount, &p.FeeMode, &feeMax, &p.CustomerID, &p.Product, &p.WhitelistedID, &p.MadeBy,
		&refundID, &checkoutID, &batchID, &hash,
	}, func() error {
		p.OrgID, p.WithdrawalID, p.FeeMax, p.Purpose, p.Refund = s.orgID, s.id, feeMax, signer.Payment, nil
		if refundID != "" {
			p.Refund = &signer.RefundOf{RefundID: refundID, CheckoutID: checkoutID}
		}
		c.verify(s, "withdrawal "+s.id, func(words signer.Statement) signer.Statement {
			if batchID != "" {
				return checkBatchWords(words, s.orgID, batchID, hash)
			}
			payment := p
			payment.Network, payment.Token = words.Find("networkId"), findToken(words, decimals)
			return signer.PaymentStatement(payment, newContext(words, s.person))
		})
		s.signature, s.logged = signer.KeySignature{}, nil
		return nil
	})
	return err
}

// checkBatchWords returns the words if they are of a batch with this content, which its hash covers, else none.
func checkBatchWords(words signer.Statement, orgID, batchID string, hash []byte) signer.Statement {
	var content contenthash.Hash
	copy(content[:], hash)
	if words.Find("act") != signer.ApproveBatch || words.Find("id") != batchID || words.Find("organization") != orgID ||
		words.Find("contentHash") != content.String() {
		return nil
	}
	return words
}

// checkBatches verifies the stored signatures of batches.
func (c *signedPayments) checkBatches(ctx context.Context, tx pg.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT a.org_id, a.batch_id, a.approver_kind || ' ' || a.approver_id, a.at, a.signature, l.signed,
			b.content_hash
		FROM payout_approvals a JOIN payout_batches b ON b.batch_id = a.batch_id
			`+findSignedWords("a.batch_id", `l.action IN ('payout.approval_added', 'payout.approved')`)+`
		WHERE a.signature IS NOT NULL ORDER BY a.batch_id, a.approver_kind, a.approver_id`)
	if err != nil {
		return err
	}
	var s storedSignature
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{
		&s.orgID, &s.id, &s.person, &s.approvedAt, &s.signature, &s.logged, &hash,
	}, func() error {
		c.verify(s, "batch "+s.id, func(words signer.Statement) signer.Statement {
			return checkBatchWords(words, s.orgID, s.id, hash)
		})
		s.signature, s.logged = signer.KeySignature{}, nil
		return nil
	})
	return err
}

// checkReturns verifies the stored signatures of returns and redirects of flagged deposits. The audit log has them with
// the deposits.
func (c *signedPayments) checkReturns(ctx context.Context, tx pg.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT a.org_id, a.request_id, a.approver_kind || ' ' || a.approver_id, a.at, a.signature, l.signed, m.chain,
			m.mint_id, m.contract, m.decimals, q.to_address, q.sent, q.asked_by_kind || ' ' || q.asked_by,
			q.decision = 'REDIRECTED', q.deposit_id, coalesce(q.reason, ''), coalesce(q.reference, '')
		FROM return_signatures a JOIN return_requests q ON q.request_id = a.request_id
			JOIN deposits d ON d.deposit_id = q.deposit_id JOIN mints m ON m.mint_id = d.mint_id
			`+findSignedWords("q.deposit_id", `l.action IN ('deposit.return_signed', 'deposit.redirect_signed')
				AND l.detail ->> 'resolution' = a.request_id`)+`
		ORDER BY a.request_id, a.approver_kind, a.approver_id, a.not_after`)
	if err != nil {
		return err
	}
	var s storedSignature
	var p signer.PaymentWords
	var redirect signer.RedirectOf
	var isRedirect bool
	var decimals int
	_, err = pgx.ForEachRow(rows, []any{
		&s.orgID, &s.id, &s.person, &s.approvedAt, &s.signature, &s.logged, &p.Chain, &p.MintID, &p.Contract, &decimals,
		&p.To, &p.Amount, &p.MadeBy, &isRedirect, &redirect.DepositID, &redirect.Reason, &redirect.Reference,
	}, func() error {
		p.OrgID, p.WithdrawalID, p.Purpose = s.orgID, s.id, signer.Return
		noun, newStatement := "return ", signer.PaymentStatement
		s.signers, p.Redirect = "", nil
		if isRedirect {
			s.signers, p.Redirect = signer.Operators, &redirect
			noun, newStatement = "redirect ", signer.RedirectStatement
		}
		c.verify(s, noun+s.id, func(words signer.Statement) signer.Statement {
			payment := p
			payment.Network, payment.Token = words.Find("networkId"), findToken(words, decimals)
			return newStatement(payment, newContext(words, s.person))
		})
		s.signature, s.logged = signer.KeySignature{}, nil
		return nil
	})
	return err
}

// checkSwaps verifies the stored signatures of swaps of organizations.
func (c *signedPayments) checkSwaps(ctx context.Context, tx pg.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT a.org_id, a.swap_id, a.approver_kind || ' ' || a.approver_id, a.at, a.signature, l.signed, s.product,
			s.from_mint_id, s.to_mint_id, s.amount_in, s.min_out, s.payout_max, s.whitelisted_address_id,
			s.payout_address, s.payout_until
		FROM swap_approvals a JOIN swaps s ON s.swap_id = a.swap_id
			`+findSignedWords("a.swap_id", `l.action IN ('swap.approval_added', 'swap.approved')`)+`
		WHERE a.signature IS NOT NULL ORDER BY a.swap_id, a.approver_kind, a.approver_id, a.nth`)
	if err != nil {
		return err
	}
	var s storedSignature
	var p signer.SwapPayout
	var payableUntil time.Time
	_, err = pgx.ForEachRow(rows, []any{
		&s.orgID, &s.id, &s.person, &s.approvedAt, &s.signature, &s.logged, &p.Product, &p.FromMintID, &p.ToMintID,
		&p.AmountIn, &p.MinOut, &p.MaxOut, &p.WhitelistedID, &p.To, &payableUntil,
	}, func() error {
		p.OrgID, p.SwapID, p.NotAfter = s.orgID, s.id, signer.FormatMicros(payableUntil)
		c.verify(s, "swap "+s.id, func(words signer.Statement) signer.Statement {
			return signer.SwapStatement(p, newContext(words, s.person))
		})
		s.signature, s.logged = signer.KeySignature{}, nil
		return nil
	})
	return err
}

// paidWithdrawal is a withdrawal that the signer admitted.
type paidWithdrawal struct {
	batchID    string // "" for one that is no row of a batch
	isRestored bool   // from the journal, which has no approvals
}

// unsignedOf is what an organization pays of an asset without people.
type unsignedOf struct {
	org      string
	chain    chain.Name
	contract chain.Address
}

type unsignedPayment struct {
	admittedAt time.Time
	amount     money.Amount
}

// checkAdmissions compares each payment that the signer admitted while its organization had a rule with the rule of
// then, and its signatures with the stored ones.
func (c *signedPayments) checkAdmissions(ctx context.Context, tx pg.Tx) error {
	if len(c.entries.rules) == 0 {
		return nil
	}
	if err := c.loadWithdrawals(ctx, tx); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT journal_id, seq, body FROM signer_journal
		WHERE substr(body, 1, 15) IN ('{"kind":"ADMIT"', '{"kind":"CLOCK"') ORDER BY journal_id, seq`)
	if err != nil {
		return err
	}
	unsigned := map[unsignedOf][]unsignedPayment{}
	var entry place
	var journal string
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&entry.journal, &seq, &body}, func() error {
		entry.seq = uint64(seq)
		var r signer.Record
		if err := json.Unmarshal(body, &r); err != nil {
			c.add("", entry.String(), "cannot be read: %v", err)
			return nil
		}
		if r.Clock != nil || entry.journal != journal { // the signer counts anew, and no less than what is counted here
			journal = entry.journal
			clear(unsigned)
		}
		if r.Admit != nil && (len(c.entries.rules[r.Admit.From.OrgID]) > 0 || r.Admit.Redirect() != nil) {
			c.checkAdmission(entry, r, unsigned)
		}
		return nil
	})
	return err
}

// loadWithdrawals loads what the admitted payments of organizations with a rule were.
func (c *signedPayments) loadWithdrawals(ctx context.Context, tx pg.Tx) error {
	orgs := make([]string, 0, len(c.entries.rules))
	for org := range c.entries.rules {
		orgs = append(orgs, org)
	}
	rows, err := tx.Query(ctx, `
		SELECT w.withdrawal_id, coalesce(w.batch_id, ''), w.restored_at IS NOT NULL OR EXISTS (
			SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id AND d.act = 'APPROVED'
				AND (d.actor_kind, d.actor_id) = ('SYSTEM', 'restore'))
		FROM withdrawals w
		WHERE w.org_id = ANY ($1) AND w.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')`, orgs)
	if err != nil {
		return err
	}
	var id string
	var w paidWithdrawal
	_, err = pgx.ForEachRow(rows, []any{&id, &w.batchID, &w.isRestored}, func() error {
		c.withdrawals[id] = w
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `
		SELECT s.swap_id, num_nonnulls(s.imported_at, s.adopted_at) > 0 FROM swaps s
		WHERE s.org_id = ANY ($1) AND s.kind = 'ORGANIZATION'
		UNION ALL
		SELECT r.resolution_id, (r.decided_by_kind, r.decided_by) = ('OPERATOR', 'restore')
			OR coalesce(q.status = 'RESTORED', false)
		FROM deposit_resolutions r LEFT JOIN return_requests q ON q.request_id = r.resolution_id
		WHERE r.org_id = ANY ($1) OR r.decision = 'REDIRECTED'`, orgs)
	if err != nil {
		return err
	}
	var isRestored bool
	_, err = pgx.ForEachRow(rows, []any{&id, &isRestored}, func() error {
		c.letGo[id] = isRestored
		return nil
	})
	return err
}

func (c *signedPayments) checkAdmission(entry place, r signer.Record, unsigned map[unsignedOf][]unsignedPayment) {
	intent := *r.Admit
	orgID, subject := intent.From.OrgID, "payment "+intent.ID
	admittedAt, err := time.Parse(time.RFC3339Nano, r.RecordedAt)
	if err != nil || intent.Kind().People == signer.PeopleNever {
		return
	}
	var consents []signer.Consent
	if intent.Grant != nil {
		consents = intent.Grant.Consents
	}
	asset := unsignedOf{orgID, intent.Chain, intent.Contract}
	sum := sumUnsigned(unsigned[asset], admittedAt)
	if len(consents) == 0 {
		unsigned[asset] = append(unsigned[asset], unsignedPayment{admittedAt, intent.Total()})
	}
	signers, required := orgID, c.findRule(orgID, entry, admittedAt).PeopleFor(intent, sum)
	if r := c.findRule(signer.Operators, entry, admittedAt); intent.Redirect() != nil && r != nil && r.Quorum > 0 {
		signers, required = signer.Operators, r.Quorum
	}
	report := func(format string, args ...any) {
		c.add(orgID, subject, "was admitted in %v with "+format, append([]any{entry}, args...)...)
	}
	people := c.countPeople(consents, signers, entry, admittedAt, report, func(consent signer.Consent) {
		c.checkStored(entry, intent, consent)
	})
	if people < required {
		report("the signatures of %d people, and the rule asked for %d", people, required)
	}
}

// countPeople counts the people whose passkeys could sign when an entry was written, and reports the others. signers is
// their organization.
func (c *signedPayments) countPeople(
	consents []signer.Consent, signers string, entry place, writtenAt time.Time, report func(string, ...any),
	visit func(signer.Consent),
) int {
	people := map[string]bool{}
	for _, consent := range consents {
		k, ok := c.entries.findEnrolled(consent.KeyID, func(k enrolledKey) bool {
			return k.place.precedes(entry) && !writtenAt.Before(k.usableFrom)
		})
		ended := c.entries.retired[consent.KeyID]
		n := slices.IndexFunc(ended, func(k retiredKey) bool { return k.place.precedes(entry) })
		switch {
		case !ok || !k.place.precedes(entry):
			report("passkey %.80q, which was not enrolled then", consent.KeyID)
		case k.OrgID != signers || k.Right != signer.RightApprove || writtenAt.Before(k.usableFrom):
			report("passkey %s, which may not approve it", k.ID)
		case n >= 0:
			report("passkey %s, which was retired in %v", k.ID, ended[n].place)
		default:
			people[k.EmailHash] = true
			visit(consent)
		}
	}
	return len(people)
}

// checkEndorsements compares each address that the signer endorsed with the operators' rule of then. Rule SA-18.
func (c *signedPayments) checkEndorsements(ctx context.Context, tx pg.Tx) error {
	if len(c.entries.rules[signer.Operators]) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT journal_id, seq, body FROM signer_journal
		WHERE substr(body, 1, 17) = '{"kind":"ENDORSE"' ORDER BY journal_id, seq`)
	if err != nil {
		return err
	}
	var entry place
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&entry.journal, &seq, &body}, func() error {
		entry.seq = uint64(seq)
		var r signer.Record
		if err := json.Unmarshal(body, &r); err != nil || r.Endorse == nil {
			return nil // it is a breach of the check of the whitelist
		}
		endorsedAt, err := time.Parse(time.RFC3339Nano, r.RecordedAt)
		rule := c.findRule(signer.Operators, entry, endorsedAt)
		if err != nil || rule == nil {
			return nil
		}
		report := func(format string, args ...any) {
			c.add(r.Endorse.OrgID, "whitelisted address "+r.Endorse.ID, "was endorsed in %v with "+format,
				append([]any{entry}, args...)...)
		}
		people := c.countPeople(r.Endorse.Consents, signer.Operators, entry, endorsedAt, report,
			func(signer.Consent) {})
		if people < rule.Quorum {
			report("the signatures of %d operators, and their rule asked for %d", people, rule.Quorum)
		}
		return nil
	})
	return err
}

// checkStored reports a signature of an admitted payment that its approvals do not have.
func (c *signedPayments) checkStored(entry place, intent signer.Intent, consent signer.Consent) {
	id := intent.ID
	switch payout := intent.SwapPayout(); {
	case intent.Purpose == signer.Return:
		if isRestored, ok := c.letGo[id]; !ok || isRestored {
			return
		}
	case intent.Purpose != signer.Payment:
		return // its approvals are stored nowhere yet
	default:
		w, ok := c.withdrawals[id]
		if !ok || w.isRestored {
			return
		}
		if w.batchID != "" {
			id = w.batchID
		}
		if payout != nil {
			if isRestored, ok := c.letGo[payout.SwapID]; !ok || isRestored {
				return
			}
			id = payout.SwapID
		}
	}
	if !slices.Contains(c.stored[id], consent) {
		c.add(intent.From.OrgID, "payment "+intent.ID,
			"was admitted in %v with a signature of passkey %s, which its approvals do not have", entry, consent.KeyID)
	}
}

// findRule returns the rule that held when an entry was written, or nil.
func (c *signedPayments) findRule(orgID string, entry place, admittedAt time.Time) *signer.ApprovalRule {
	for _, r := range c.entries.rules[orgID] {
		if r.place.precedes(entry) && !admittedAt.Before(r.usableFrom) {
			return &r.ApprovalRule
		}
	}
	return nil
}

// sumUnsigned sums what was paid without people in the day before a time.
func sumUnsigned(payments []unsignedPayment, now time.Time) money.Amount {
	sum := money.Zero
	for _, p := range payments {
		if now.Sub(p.admittedAt) >= ruleDay {
			continue
		}
		if total, err := sum.Add(p.amount); err == nil {
			sum = total
		}
	}
	return sum
}
