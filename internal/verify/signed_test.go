package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// signedEnv is a database with a rule of two people, a payment and a batch that they signed, and a payment that needed
// none. A signer with the same rule admitted the payments.
type signedEnv struct {
	*testEnv
	signer *signertest.Approvers
	grants *signer.GrantKey
	people []*signertest.Passkey // ann, ben and cay, for payments
	enrol  []*signertest.Passkey // ann and ben, for passkeys and rules
	made   []Check
	seq    uint64 // of the journal's last entry in the copy
}

func newSignedEnv(t *testing.T) *signedEnv {
	t.Helper()
	db := pgtest.New(t)
	h := &testEnv{t: t, db: db, owner: pgtest.OwnerPool(t, db)}
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	h.org = o.ID
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		Finality: "FINALIZED",
	}
	if err := mint.Sync(t.Context(), db, []mint.Mint{token}); err != nil {
		t.Fatal(err)
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	e := &signedEnv{testEnv: h, grants: grants, signer: signertest.OpenApprovers(t, grants)}
	e.made = slices.Clone(approverChecks)
	WithApprovers(e.signer.AttestKey)(&e.made)
	signertest.IssueAddress(t, e.signer, signertest.Treasury(h.org))
	for _, person := range []string{"ann", "ben", "cay"} {
		e.people = append(e.people, e.newPasskey(person, signer.RightApprove))
	}
	for _, person := range []string{"ann", "ben"} {
		e.enrol = append(e.enrol, e.newPasskey(person, signer.RightEnrol))
	}
	e.signer.Found(t, append(e.enrol, e.people...)...)
	e.setRule(signer.ApprovalRule{OrgID: h.org, Version: 1, Quorum: 2, Assets: []signer.AssetRule{{
		Chain: chain.Ethereum, Contract: signertest.Token, Threshold: money.Units(500), DayMax: money.Units(600),
	}}})
	for _, p := range append(e.enrol, e.people...) {
		e.insertKey(p)
	}
	e.insertRule()
	e.pay("wd_small", 400, e.grants.MakeGrant(e.terms("wd_small", 400), money.Zero, 0, 0, nil))
	e.approve("wd_signed", 700, e.people[0], e.people[1])
	e.approveBatch()
	e.approveReturn()
	e.approveSwap()
	return e
}

func (e *signedEnv) newPasskey(person string, right signer.Right) *signertest.Passkey {
	p := signertest.NewPasskey(e.t, e.org, person, right)
	p.Person = "USER usr_" + person
	return p
}

// setRule sets a rule at the signer, and keeps the signatures as the database does.
func (e *signedEnv) setRule(rule signer.ApprovalRule) {
	e.t.Helper()
	request := signer.RuleRequest{ApprovalRule: rule}
	for _, p := range e.enrol {
		signature := p.Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(rule, c) })
		request.SignedBy = append(request.SignedBy, signature)
		e.exec(`INSERT INTO approval_rule_signatures VALUES ($1, $2, $3, $4, $5, now())`, e.org,
			fmt.Sprintf("apr_%d", rule.Version), p.ID, time.Now().Add(time.Hour), signature)
	}
	if _, err := e.signer.SetRule(e.t.Context(), request); err != nil {
		e.t.Fatal(err)
	}
}

// copyJournal copies the signer's new entries, and returns the records by their positions.
func (e *signedEnv) copyJournal() {
	e.t.Helper()
	entries, err := e.signer.EntriesAfter(e.t.Context(), e.seq, 100)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, entry := range entries {
		e.seq = entry.Seq
		e.exec(`INSERT INTO signer_journal VALUES ($1, $2, $3, $4, $5, now())`, entry.JournalID, int64(entry.Seq),
			entry.Prev, entry.Hash, []byte(entry.Body))
	}
}

// entries returns the records of the copy.
func (e *signedEnv) entries() approverEntries {
	e.t.Helper()
	e.copyJournal()
	var entries approverEntries
	e.system(func(ctx context.Context, tx pg.Tx) (err error) {
		entries, _, err = loadApproverEntries(ctx, tx)
		return err
	})
	return entries
}

func (e *signedEnv) log(actor audit.Actor, action, kind, id string, detail any) {
	e.t.Helper()
	e.system(func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: e.org, Actor: actor, Action: action, ResourceKind: kind, ResourceID: id, Detail: detail,
		})
	})
}

func (e *signedEnv) insertKey(p *signertest.Passkey) {
	e.t.Helper()
	k := e.entries().enrolled[p.ID][0]
	e.exec(`
		INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
			possession, possession_until, created_at, usable_from, is_founded, proof, journal_id, journal_seq)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '{}', now() + interval '1 hour', now(), $10, true, $11, $12, $13)`,
		p.ID, p.OrgID, p.Person, p.Email, p.Right, p.CredentialID, p.PublicKey, p.RPID, p.Origin, k.usableFrom, k.Proof,
		k.place.journal, int64(k.place.seq))
	for _, action := range []string{"approver.enrolled", "approver.recorded"} {
		e.log(audit.System("approvers"), action, "APPROVER_KEY", p.ID, nil)
	}
}

func (e *signedEnv) insertRule() {
	e.t.Helper()
	r := e.entries().rules[e.org][0]
	rule, err := json.Marshal(r.ApprovalRule)
	if err != nil {
		e.t.Fatal(err)
	}
	consents, err := json.Marshal(r.SignedBy)
	if err != nil {
		e.t.Fatal(err)
	}
	e.exec(`
		INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at, asked_at, usable_from,
			loosens, consents, proof, journal_id, journal_seq)
		VALUES ('apr_1', $1, 1, $2, 'USER usr_ann', now(), now(), $3, $4, $5, $6, $7, $8)`,
		e.org, rule, r.usableFrom, r.Loosens, consents, r.Proof, r.place.journal, int64(r.place.seq))
	for _, action := range []string{"approval_rule.proposed", "approval_rule.recorded"} {
		e.log(audit.System("approvers"), action, "APPROVAL_RULE", "apr_1", nil)
	}
}

func (e *signedEnv) terms(id string, amount uint64) signer.Terms {
	return signer.Terms{
		OrgID: e.org, WithdrawalID: id, Chain: chain.Ethereum, MintID: 1, Contract: signertest.Token,
		To: signertest.Stranger, Amount: money.Units(amount), FeeMode: "ORGANIZATION",
	}
}

// pay makes a withdrawal that the signer admits.
func (e *signedEnv) pay(id string, amount uint64, grant *signer.Grant) {
	e.t.Helper()
	e.exec(`
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest,
			status, requires_approval, approval_reasons, decision, created_at)
		VALUES ($1, $2, 'ann', 1, 'ETHEREUM', $3, $4, '', 'PROCESSING', false, '{}', '{}', now())`,
		id, e.org, amount, signertest.Stranger)
	_, err := e.signer.AdmitIntent(e.t.Context(), signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: chain.Ethereum, From: signertest.Treasury(e.org),
		To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(amount), CustomerID: "ann", MintID: 1,
		IdempotencyKeyHash: signertest.KeyHash(id), Grant: grant,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.copyJournal()
}

// sign returns the signature of a passkey with what the audit log has of it.
func (e *signedEnv) sign(
	p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) signer.SignedStatement {
	e.t.Helper()
	signature := p.Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour), statement)
	anyRecord := func(enrolledKey) bool { return true }
	enrolled, _ := e.entries().findEnrolled(p.ID, anyRecord)
	return signer.SignedStatement{
		Words: statement(signer.StatementContext{
			Installation: e.signer.Installation, Approver: p.Person, NotAfter: signature.NotAfter,
		}),
		Signature: signature, Passkey: enrolled.EnrolBody,
	}
}

// approve makes people sign a payment, and pays it.
func (e *signedEnv) approve(id string, amount uint64, people ...*signertest.Passkey) {
	e.t.Helper()
	terms := e.terms(id, amount)
	words := signer.PaymentWords{Terms: terms, Purpose: signer.Payment, CustomerID: "ann", Network: "31337"}
	var approvals []signer.Approval
	for _, p := range people {
		signed := e.sign(p, func(c signer.StatementContext) signer.Statement {
			return signer.PaymentStatement(words, c)
		})
		approval := e.grants.MakeApproval(terms, 0, p.Person)
		approval.Signature = &signed.Signature
		approvals = append(approvals, approval)
		actor := audit.User(p.Person[len("USER "):])
		e.exec(`INSERT INTO withdrawal_approvals VALUES ($1, $2, 0, 'USER', $3, now(), '', '', $4)`, e.org, id,
			actor.ID, signed.Signature)
		e.log(actor, "withdrawal.approval_added", "WITHDRAWAL", id, map[string]any{"round": 0, "signed": signed})
	}
	e.pay(id, amount, e.grants.MakeGrant(terms, money.Zero, 0, 2, approvals))
}

// approveBatch makes ann and ben sign a batch of one row, which the copy of the journal has as admitted.
func (e *signedEnv) approveBatch() {
	e.t.Helper()
	header := contenthash.Header{
		OrgID: e.org, BatchID: "bp_1", Mode: contenthash.Strict, MadeBy: "USER usr_cay", Rows: 1, Included: 1,
		Totals: []contenthash.Total{{MintID: 1, Amount: money.Units(900)}},
	}
	hash := header.ComputeHash()
	e.exec(`
		INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
			request_digest, maker_kind, maker_id, created_at, status, submitter_kind, submitter_id, submitted_at,
			approvals_required, request_mac, look_at, updated_at)
		VALUES ('bp_1', $1, 2, 'STRICT', 1, $2, $2, '{}', '', 'USER', 'usr_cay', now(), 'VALIDATING', 'USER', 'usr_cay',
			now(), 2, 'mac', now(), now())`, e.org, hash[:])
	var consents []signer.Consent
	for _, p := range e.people[:2] {
		signed := e.sign(p, func(c signer.StatementContext) signer.Statement {
			return signer.BatchStatement(header, c)
		})
		consents = append(consents, signer.Consent{KeyID: p.ID, SignatureHash: signed.Signature.Hash()})
		actor := audit.User(p.Person[len("USER "):])
		e.exec(`INSERT INTO payout_approvals VALUES ($1, 'bp_1', 'USER', $2, now(), $3, '', $4)`, e.org, actor.ID,
			hash[:], signed.Signature)
		e.log(actor, "payout.approval_added", "BATCH_PAYOUT", "bp_1", map[string]any{"signed": signed})
	}
	id := signer.BatchWithdrawalID(e.org, "bp_1", 1)
	e.exec(`
		INSERT INTO withdrawals (withdrawal_id, org_id, product, batch_id, batch_row, mint_id, chain, amount,
			to_address, request_digest, status, requires_approval, approval_reasons, decision, created_at)
		VALUES ($1, $2, 'BATCH_PAYOUT', 'bp_1', 1, 1, 'ETHEREUM', 900, $3, '', 'PROCESSING', false, '{}', '{}', now())`,
		id, e.org, signertest.Stranger)
	e.insertRecord(1, signer.Record{
		Kind: signer.RecordAdmit, RecordedAt: signer.FormatTime(time.Now()), Admit: &signer.Intent{
			ID: id, Purpose: signer.Payment, Chain: chain.Ethereum, From: signertest.Treasury(e.org),
			To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(900), Product: signer.BatchProduct,
			MintID: 1, Batch: &signer.BatchRow{BatchID: "bp_1", Row: 1, ContentHash: hash},
			Grant: &signer.Grant{Consents: consents},
		},
	})
}

// insertSigned makes ann and ben sign, stores each signature with sql, and returns what the signer would record.
// The arguments of sql are the organization, the person and the signature.
func (e *signedEnv) insertSigned(
	sql string, statement func(signer.StatementContext) signer.Statement, action, kind, id string,
	detail map[string]any,
) (consents []signer.Consent) {
	e.t.Helper()
	for _, p := range e.people[:2] {
		signed := e.sign(p, statement)
		consents = append(consents, signer.Consent{KeyID: p.ID, SignatureHash: signed.Signature.Hash()})
		actor := audit.User(p.Person[len("USER "):])
		e.exec(sql, e.org, actor.ID, signed.Signature)
		row := map[string]any{"signed": signed}
		maps.Copy(row, detail)
		e.log(actor, action, kind, id, row)
	}
	return consents
}

// approveReturn makes ann and ben sign the return of a flagged deposit, which cay asked for. The copy of the journal
// has it as admitted.
func (e *signedEnv) approveReturn() {
	e.t.Helper()
	e.exec(`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount,
			address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
			chain_status, created_at, credited_at)
		VALUES ('dep_1', $1, 'we_1', 'CUSTOMER_DEPOSIT', 'ann', 1, 'ETHEREUM', $2, 800, '0xours', $3, 'tx_1', 'TOKEN',
			'', 0, 1, 'h1', 1, 'CREDITED', 'FINALIZED', now(), now())`, e.org, signertest.Token, signertest.Stranger)
	e.exec(`INSERT INTO return_requests (request_id, org_id, deposit_id, status, to_address, sent, fee_kept, asked_at,
			asked_by_kind, asked_by, ended_at, ended_by_kind, ended_by)
		VALUES ('res_1', $1, 'dep_1', 'SIGNED', $2, 800, 0, now(), 'USER', 'usr_cay', now(), 'USER', 'usr_ben')`,
		e.org, signertest.Stranger)
	e.exec(`INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at,
			decided_by_kind, decided_by, to_address, sent, chain, wallet_id, mint_id)
		VALUES ('res_1', $1, 'dep_1', 'REJECTED', 'OPEN', now(), 'USER', 'usr_cay', $2, 800, 'ETHEREUM', 'we_1', 1)`,
		e.org, signertest.Stranger)
	words := signer.PaymentWords{Purpose: signer.Return, Network: "31337", Terms: signer.Terms{
		OrgID: e.org, WithdrawalID: "res_1", Chain: chain.Ethereum, MintID: 1, Contract: signertest.Token,
		To: signertest.Stranger, Amount: money.Units(800), MadeBy: "USER usr_cay",
	}}
	consents := e.insertSigned(`INSERT INTO return_signatures VALUES ($1, 'res_1', 'USER', $2,
			($3::jsonb ->> 'notAfter')::timestamptz, now(), '', '', $3)`,
		func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) },
		"deposit.return_signed", "DEPOSIT", "dep_1", map[string]any{"resolution": "res_1"})
	e.insertRecord(2, signer.Record{
		Kind: signer.RecordAdmit, RecordedAt: signer.FormatTime(time.Now()), Admit: &signer.Intent{
			ID: "res_1", Purpose: signer.Return, Chain: chain.Ethereum, From: signertest.Treasury(e.org),
			To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(800), MintID: 1,
			Grant: &signer.Grant{Consents: consents},
		},
	})
}

// approveSwap makes ann and ben sign a swap of the organization's own money. The copy of the journal has the payment of
// its output as admitted.
func (e *signedEnv) approveSwap() {
	e.t.Helper()
	until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Microsecond)
	payout := signer.SwapPayout{
		OrgID: e.org, SwapID: "os_1", Product: "CUSTODIAL", FromMintID: 2, ToMintID: 1, AmountIn: money.Units(900),
		MinOut: money.Units(600), MaxOut: money.Units(1000), WhitelistedID: "wla_1", To: signertest.Stranger,
		NotAfter: signer.FormatMicros(until),
	}
	e.exec(`INSERT INTO swaps (swap_id, org_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
			from_chain, to_chain, amount_in, estimated_out, min_out, delivery_wallet_id, refund_wallet_id, fee_bps,
			fee_amount, status, created_at, updated_at, kind, product, whitelisted_address_id, payout_address,
			payout_max, payout_until, slippage_bps, approvals_required, request_mac, requester_kind, requester_id)
		VALUES ('os_1', $1, 'os_1', encode(sha256('os_1'), 'hex'), '', 2, 1, 'ETHEREUM', 'ETHEREUM', 900, 700, 600,
			'we_dl', 'we_rf', 0, 0, 'AWAITING_APPROVAL', now(), now(), 'ORGANIZATION', 'CUSTODIAL', 'wla_1', $2, 1000,
			$3, 100, 2, 'mac', 'USER', 'usr_cay')`, e.org, signertest.Stranger, until)
	consents := e.insertSigned(`INSERT INTO swap_approvals VALUES ($1, 'os_1', 'USER', $2, now(), '', '', $3)`,
		func(c signer.StatementContext) signer.Statement { return signer.SwapStatement(payout, c) },
		"swap.approval_added", "SWAP", "os_1", nil)
	e.exec(`INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address, request_digest,
			status, requires_approval, approval_reasons, decision, created_at, whitelisted_address_id)
		VALUES ('wd_swap', $1, 'CUSTODIAL', 1, 'ETHEREUM', 700, $2, '', 'PROCESSING', false, '{}', '{}', now(),
			'wla_1')`,
		e.org, signertest.Stranger)
	e.insertRecord(3, signer.Record{
		Kind: signer.RecordAdmit, RecordedAt: signer.FormatTime(time.Now()), Admit: &signer.Intent{
			ID: "wd_swap", Purpose: signer.Payment, Chain: chain.Ethereum, From: signertest.Treasury(e.org),
			To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(700), Product: "CUSTODIAL",
			MintID: 1, WhitelistedID: "wla_1", Grant: &signer.Grant{Consents: consents, Payout: &payout},
		},
	})
}

// insertRecord adds an entry to the copy that the signer's journal does not have, so many after its last one.
func (e *signedEnv) insertRecord(after uint64, r signer.Record) {
	e.t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		e.t.Fatal(err)
	}
	e.exec(`INSERT INTO signer_journal SELECT max(journal_id), $1, '', '', $2, now() FROM signer_journal`,
		int64(e.seq+after), body)
}

// find runs the checks after a change, which it takes back, and returns the breaches of one of them.
func (e *signedEnv) find(check string, sql ...string) []Breach {
	e.t.Helper()
	made := slices.DeleteFunc(slices.Clone(e.made), func(c Check) bool { return check != "" && c.ID != check })
	if len(made) == 0 {
		e.t.Fatalf("there is no check %s", check)
	}
	r, err := e.runTamperedFor(made, sql...)
	if err != nil {
		e.t.Error(err)
	}
	return r.Breaches
}

// forge returns a statement that replaces the signature of ann's approval, also in the audit log.
func (e *signedEnv) forge(signed signer.SignedStatement) []string {
	e.t.Helper()
	signature, err := json.Marshal(signed.Signature)
	if err != nil {
		e.t.Fatal(err)
	}
	whole, err := json.Marshal(signed)
	if err != nil {
		e.t.Fatal(err)
	}
	return []string{
		fmt.Sprintf(`UPDATE withdrawal_approvals SET signature = '%s' WHERE approver_id = 'usr_ann'`, signature),
		fmt.Sprintf(`UPDATE audit_log SET detail = jsonb_build_object('round', 0, 'signed', '%s'::jsonb)
			WHERE resource_id = 'wd_signed' AND actor_id = 'usr_ann'`, whole),
	}
}

// signAgain returns statements that add an earlier signature of ann, which counted no more, to that of a withdrawal.
// The audit log has it.
func (e *signedEnv) signAgain() []string {
	e.t.Helper()
	words := signer.PaymentWords{
		Terms: e.terms("wd_signed", 700), Purpose: signer.Payment, CustomerID: "ann", Network: "31337",
	}
	signature := e.people[0].Sign(e.t, e.signer.Installation, time.Now().Add(time.Minute),
		func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) })
	first, err := json.Marshal(signature)
	if err != nil {
		e.t.Fatal(err)
	}
	signed := e.sign(e.people[0], func(c signer.StatementContext) signer.Statement {
		return signer.PaymentStatement(words, c)
	})
	signed.Signature, signed.Words = signature, signer.PaymentStatement(words, signer.StatementContext{
		Installation: e.signer.Installation, Approver: e.people[0].Person, NotAfter: signature.NotAfter,
	})
	e.log(audit.User("usr_ann"), "withdrawal.approval_added", "WITHDRAWAL", "wd_signed",
		map[string]any{"round": 0, "signed": signed})
	return []string{
		`UPDATE withdrawal_approvals SET nth = 1 WHERE approver_id = 'usr_ann'`,
		fmt.Sprintf(`INSERT INTO withdrawal_approvals SELECT org_id, withdrawal_id, round, approver_kind, approver_id,
			at, digest, mac, '%s', 0 FROM withdrawal_approvals WHERE approver_id = 'usr_ann'`, first),
	}
}

// replaceInJournal returns a statement that replaces a word in the copied records of a kind.
func replaceInJournal(kind signer.RecordKind, before, after string) string {
	start := fmt.Sprintf(`{"kind":"%s"`, kind)
	return fmt.Sprintf(`UPDATE signer_journal
		SET body = convert_to(replace(convert_from(body, 'UTF8'), '%s', '%s'), 'UTF8')
		WHERE substr(body, 1, %d) = '%s'`, before, after, len(start), start)
}

// retireInJournal returns a statement that adds the end of a passkey to the copy of the journal.
func (e *signedEnv) retireInJournal(seq int, keyID string, retiredAt time.Time) string {
	return fmt.Sprintf(`INSERT INTO signer_journal SELECT max(journal_id), %d, '', '',
		convert_to('{"kind":"RETIRE","at":"%s","retire":{"orgId":"%s","id":"%s"}}', 'UTF8'), now()
		FROM signer_journal`, seq, signer.FormatTime(retiredAt), e.org, keyID)
}

// continueJournal is a statement that adds the journal which continues the copied one: it repeats all its entries, and
// one that was lost moves the others up.
const continueJournal = `INSERT INTO signer_journal
	SELECT 'jrn_zz', row_number() OVER (ORDER BY seq), prev, hash, body, now() FROM signer_journal`

// Rule SA-14.
func TestEveryTamperingWithSignedApprovalsIsSeen(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	if found := e.find(""); len(found) > 0 {
		t.Fatalf("untouched: got %+v, want no breach", found)
	}
	words := func(change func(*signer.PaymentWords)) func(signer.StatementContext) signer.Statement {
		p := signer.PaymentWords{
			Terms: e.terms("wd_signed", 700), Purpose: signer.Payment, CustomerID: "ann", Network: "31337",
		}
		if change != nil {
			change(&p)
		}
		return func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(p, c) }
	}
	outsider := e.newPasskey("ann", signer.RightApprove)
	outsider.ID = "apk_outsider"
	stolen := e.sign(outsider, words(nil))
	stolen.Passkey = signer.EnrolBody{Enrolment: outsider.Enrolment, UsableFrom: signer.FormatMicros(time.Now())}
	swapped := e.sign(e.people[0], words(nil))
	swapped.Passkey.PublicKey = outsider.PublicKey
	elsewhere := e.sign(e.people[0], words(nil))
	elsewhere.Words = words(nil)(signer.StatementContext{
		Installation: "00", Approver: e.people[0].Person, NotAfter: elsewhere.Signature.NotAfter,
	})
	elsewhere.Signature.Assertion = e.people[0].Assert(t, elsewhere.Words.Challenge())
	untouched := e.sign(e.people[0], words(nil))
	untouched.Signature.Assertion.Signature[8] ^= 1
	longAgo := time.Now().AddDate(0, -1, 0)
	nthOfSigned := `(SELECT min(approver_id) FROM withdrawal_approvals)`
	for _, c := range []struct {
		check, name string
		sql         []string
	}{
		{"I-40-approvers", "a passkey that no one enrolled", []string{
			`INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id,
				origin, possession, possession_until, created_at)
			SELECT 'apk_lie', org_id, person, email, key_right, '\x6c6965', public_key, rp_id, origin, possession,
				possession_until, created_at FROM approver_keys LIMIT 1`,
		}},
		{"I-40-approvers", "a passkey removed", []string{`DELETE FROM approver_keys WHERE key_id = 'apk_cay_APPROVE'`}},
		{"I-40-approvers", "a passkey retired by no one", []string{
			`UPDATE approver_keys SET retired_at = now(), retired_by = 'x' WHERE key_id = 'apk_cay_APPROVE'`,
		}},
		{"I-40-approvers", "a passkey refused by no one", []string{
			`UPDATE approver_keys SET refusal = 'x' WHERE key_id = 'apk_cay_APPROVE'`,
		}},
		{"I-40-approvers", "a rule removed", []string{`DELETE FROM approval_rules`}},
		{"I-40-approvers", "a record of a rule removed", []string{
			`UPDATE approval_rules SET usable_from = NULL, loosens = NULL, consents = NULL, proof = NULL,
				journal_id = NULL, journal_seq = NULL`,
		}},
		{"I-91-keys", "another public key", []string{
			`UPDATE approver_keys SET public_key = 'x' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "another person", []string{
			`UPDATE approver_keys SET person = 'USER usr_eve' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "another address", []string{
			`UPDATE approver_keys SET email = 'eve@example.com' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "another right", []string{
			`UPDATE approver_keys SET key_right = 'APPROVE' WHERE key_id = 'apk_ann_ENROL'`,
		}},
		{"I-91-keys", "usable earlier", []string{
			`UPDATE approver_keys SET usable_from = usable_from - interval '1 day' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "another proof", []string{
			`UPDATE approver_keys SET proof = 'x' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "another organization", []string{
			`UPDATE approver_keys SET org_id = 'org_eve' WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "an entry of another passkey", []string{
			`UPDATE approver_keys SET journal_seq = journal_seq + 1 WHERE key_id = 'apk_ann_APPROVE'`,
		}},
		{"I-91-keys", "an end that the signer does not have", []string{
			`UPDATE approver_keys SET retired_at = now(), retired_by = 'x', retired_seq = 3
				WHERE key_id = 'apk_cay_APPROVE'`,
		}},
		{"I-91-keys", "a retired passkey that is back", []string{e.retireInJournal(900, "apk_cay_APPROVE", longAgo)}},
		{"I-91-keys", "an entry that is none", []string{
			`UPDATE signer_journal SET body = '{"kind":"ENROL"' WHERE substr(body, 1, 15) = '{"kind":"ENROL"'`,
		}},
		{"I-91-rules", "fewer people", []string{`UPDATE approval_rules SET rule = jsonb_set(rule, '{quorum}', '1')`}},
		{"I-91-rules", "a rule that holds later", []string{
			`UPDATE approval_rules SET usable_from = usable_from + interval '1 year'`,
		}},
		{"I-91-rules", "another proof", []string{`UPDATE approval_rules SET proof = 'x'`}},
		{"I-91-rules", "an entry of no rule", []string{`UPDATE approval_rules SET journal_seq = 1`}},
		{"I-91-rules", "a signature removed", []string{
			`DELETE FROM approval_rule_signatures WHERE by_key_id = 'apk_ann_ENROL'`,
		}},
		{"I-91-rules", "a signature replaced", []string{`UPDATE approval_rule_signatures
			SET signature = jsonb_set(signature, '{notAfter}', '"2030-01-01T00:00:00Z"')`}},
		{"I-91-proofs", "a passkey in the copy alone", []string{
			replaceInJournal(signer.RecordEnrol, `usr_cay`, `usr_eve`),
		}},
		{"I-91-proofs", "a rule in the copy alone", []string{
			replaceInJournal(signer.RecordRule, `"quorum":2`, `"quorum":1`),
		}},
		{"I-91", "a signature removed", []string{
			`UPDATE withdrawal_approvals SET signature = NULL WHERE approver_id = ` + nthOfSigned,
		}},
		{"I-91", "an approval removed", []string{`DELETE FROM withdrawal_approvals WHERE approver_id = 'usr_ann'`}},
		{"I-91", "an approval by another person", []string{
			`UPDATE withdrawal_approvals SET approver_id = 'usr_eve' WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "a signature by another one's passkey", []string{`UPDATE withdrawal_approvals
			SET signature = (SELECT signature FROM withdrawal_approvals WHERE approver_id = 'usr_ben')`}},
		{"I-91", "its words removed", []string{
			`UPDATE audit_log SET detail = detail - 'signed' WHERE resource_id = 'wd_signed' AND actor_id = 'usr_ann'`,
		}},
		{"I-91", "a payment to another address", []string{
			`UPDATE withdrawals SET to_address = '0xMallory' WHERE withdrawal_id = 'wd_signed'`,
		}},
		{"I-91", "a payment of more", []string{
			`UPDATE withdrawals SET amount = 701 WHERE withdrawal_id = 'wd_signed'`,
		}},
		{"I-91", "a payment for another customer", []string{
			`UPDATE withdrawals SET customer_id = 'eve' WHERE withdrawal_id = 'wd_signed'`,
		}},
		{"I-91", "an approval before the passkey counted", []string{
			`UPDATE withdrawal_approvals SET at = at - interval '1 day' WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "a valid signature that the signer did not see", e.forge(e.sign(e.people[0], words(nil)))},
		{"I-91", "a signature of a passkey that was never enrolled", e.forge(stolen)},
		{"I-91", "a signature of another public key", e.forge(swapped)},
		{"I-91", "a signature for another installation", e.forge(elsewhere)},
		{"I-91", "a changed signature", e.forge(untouched)},
		{"I-91", "a signature of another amount", e.forge(e.sign(e.people[0], words(func(p *signer.PaymentWords) {
			p.Amount = money.Units(7)
		})))},
		{"I-91", "a signature of another round", e.forge(e.sign(e.people[0], words(func(p *signer.PaymentWords) {
			p.Round = 1
		})))},
		{"I-91", "a signature of misleading decimals", e.forge(e.sign(e.people[0], words(func(p *signer.PaymentWords) {
			p.Token = &signer.Token{Symbol: "USDC", Decimals: 9}
		})))},
		{"I-91", "a batch of another content", []string{
			`UPDATE payout_batches SET content_hash = sha256('x')`,
		}},
		{"I-91", "a signature of a batch removed", []string{
			`UPDATE payout_approvals SET signature = NULL WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "a return to another address", []string{`UPDATE return_requests SET to_address = '0xMallory'`}},
		{"I-91", "a return of less", []string{`UPDATE return_requests SET sent = 7`}},
		{"I-91", "a return that another one asked for", []string{`UPDATE return_requests SET asked_by = 'usr_eve'`}},
		{"I-91", "a return signed by another person", []string{
			`UPDATE return_signatures SET approver_id = 'usr_eve' WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "a signature of a return removed", []string{
			`DELETE FROM return_signatures WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "the words of a return removed", []string{
			`UPDATE audit_log SET detail = detail - 'signed' WHERE resource_id = 'dep_1' AND actor_id = 'usr_ann'`,
		}},
		{"I-91", "a swap to another address", []string{`UPDATE swaps SET payout_address = '0xMallory'`}},
		{"I-91", "a swap of wider bounds", []string{`UPDATE swaps SET min_out = 1`}},
		{"I-91", "a swap of more", []string{`UPDATE swaps SET amount_in = 901`}},
		{"I-91", "a swap that may be paid later", []string{
			`UPDATE swaps SET payout_until = payout_until + interval '1 day'`,
		}},
		{"I-91", "a signature of a swap removed", []string{
			`UPDATE swap_approvals SET signature = NULL WHERE approver_id = 'usr_ann'`,
		}},
		{"I-91", "the words of a swap removed", []string{
			`UPDATE audit_log SET detail = detail - 'signed' WHERE resource_id = 'os_1' AND actor_id = 'usr_ann'`,
		}},
		{"I-91", "a payment without the people of the rule", []string{
			replaceInJournal(signer.RecordAdmit, `"amount":"400"`, `"amount":"500"`),
		}},
		{"I-91", "payments beyond the day without people", []string{`
			INSERT INTO signer_journal SELECT journal_id, 800, '', '',
				convert_to(replace(convert_from(body, 'UTF8'), 'wd_small', 'wd_more'), 'UTF8'), now()
			FROM signer_journal WHERE position('wd_small' IN convert_from(body, 'UTF8')) > 0`}},
		{"I-91", "a passkey that was retired before", []string{e.retireInJournal(0, "apk_ann_APPROVE", longAgo)}},
		{"I-91", "a person who counts twice", []string{
			replaceInJournal(signer.RecordAdmit, `apk_ben_APPROVE`, `apk_ann_APPROVE`),
		}},
	} {
		found := e.find(c.check, c.sql...)
		if !slices.ContainsFunc(found, func(b Breach) bool { return b.Subject != "" && b.Detail != "" }) {
			t.Errorf("%s, %s: got no breach", c.check, c.name)
		}
	}
	if found := e.find(""); len(found) > 0 {
		t.Errorf("untouched, again: got %+v, want no breach", found)
	}
}

// A restored database lacks approvals that came after its backup, and the signer may retire a passkey before the
// service has noticed. A journal that continues a lost one repeats payments from before the end of a passkey. None of
// this stops all payments. Rule SA-14.
func TestWhatARestoreOrALateAnswerLeavesIsNoBreachOfSignedApprovals(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	for name, sql := range map[string][]string{
		"restored": {
			`DELETE FROM withdrawal_approvals`, `DELETE FROM payout_approvals`,
			`UPDATE withdrawals SET restored_at = now()`,
			`DELETE FROM return_signatures`, `UPDATE return_requests SET status = 'RESTORED'`,
			`DELETE FROM swap_approvals`, `UPDATE swaps SET adopted_at = now()`,
		},
		// A person whose signature was about to end signed again.
		"signed again":                       e.signAgain(),
		"retired a moment ago":               {e.retireInJournal(900, "apk_ann_APPROVE", time.Now())},
		"retired, and the journal continued": {e.retireInJournal(900, "apk_ann_APPROVE", time.Now()), continueJournal},
	} {
		if found := e.find("", sql...); len(found) > 0 {
			t.Errorf("%s: got %+v, want no breach", name, found)
		}
	}
}

// A journal that continues a lost one records a passkey again, with another cooling-off. What was signed and admitted
// before is judged by the first record, and the row of the passkey may be of either one.
func TestAPasskeyHasARecordInEachJournal(t *testing.T) {
	t.Parallel()
	e := approverEntries{
		enrolled: map[string][]enrolledKey{}, retired: map[string][]retiredKey{}, rules: map[string][]recordedRule{},
	}
	enrol := func(usableFrom string) []byte {
		body, err := json.Marshal(signer.Record{
			Kind:  signer.RecordEnrol,
			Enrol: &signer.EnrolBody{Enrolment: signer.Enrolment{ID: "apk_1"}, UsableFrom: usableFrom},
		})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for journal, usableFrom := range map[string]string{
		"jrn_1": "2026-11-01T00:00:00Z", "jrn_2": "2026-11-09T00:00:00Z",
	} {
		if err := e.add(place{journal, 3}, enrol(usableFrom)); err != nil {
			t.Fatal(err)
		}
	}
	for _, journal := range []string{"jrn_1", "jrn_2"} {
		k, isEnrolled := e.findEnrolled("apk_1", func(k enrolledKey) bool { return k.place.journal == journal })
		if !isEnrolled || k.place.journal != journal {
			t.Errorf("got %v %v, want the record of %s", k.place, isEnrolled, journal)
		}
	}
	if _, isEnrolled := e.findEnrolled("apk_2", func(enrolledKey) bool { return true }); isEnrolled {
		t.Error("a passkey without a record is enrolled")
	}
}
