package verify

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// addOperators adds a rule of two operators, a redirect that they signed, and an address that they endorsed.
func (e *signedEnv) addOperators() (operators []*signertest.Passkey) {
	e.t.Helper()
	e.exec(`DELETE FROM signer_journal WHERE seq > $1`, int64(e.seq)) // what the signer's journal does not have
	var enrol []*signertest.Passkey
	for _, person := range []string{"olga", "oleg"} {
		for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
			p := signertest.NewPasskey(e.t, signer.Operators, person, right)
			p.Person = "OPERATOR opr_" + person
			if right == signer.RightApprove {
				operators = append(operators, p)
			} else {
				enrol = append(enrol, p)
			}
		}
	}
	e.signer.Found(e.t, append(enrol, operators...)...)
	e.signer.Set(e.t, signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2}, enrol...)
	signertest.IssueAddress(e.t, e.signer, signertest.Deposit(e.org, "ann"))
	e.redirect(operators)
	e.endorse(operators)
	e.copyJournal()
	return operators
}

// redirect makes operators sign a redirect that the signer admits.
func (e *signedEnv) redirect(operators []*signertest.Passkey) {
	e.t.Helper()
	intent := signer.Intent{
		ID: "res_2", Purpose: signer.Return, Chain: chain.Ethereum, From: signertest.Deposit(e.org, "ann"),
		To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(800), MintID: 1,
	}
	intent.Grant = &signer.Grant{MadeBy: "OPERATOR opr_otto", Redirect: &signer.RedirectOf{
		DepositID: "dep_2", Reason: "LAW_ENFORCEMENT", Reference: "order 7",
	}}
	terms := intent.Terms()
	e.exec(`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "tx_2"}')).*
		FROM deposits d WHERE deposit_id = 'dep_1'`)
	e.exec(`
		INSERT INTO return_requests (request_id, org_id, deposit_id, status, to_address, sent, fee_kept, asked_at,
			asked_by_kind, asked_by, decision, reason, reference, ended_at, ended_by_kind, ended_by)
		VALUES ('res_2', $1, 'dep_2', 'SIGNED', $2, 800, 0, now(), 'OPERATOR', 'opr_otto', 'REDIRECTED',
			'LAW_ENFORCEMENT', 'order 7', now(), 'OPERATOR', 'opr_oleg')`, e.org, signertest.Stranger)
	e.exec(`INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at,
			decided_by_kind, decided_by, to_address, sent, chain, wallet_id, mint_id, reason, reference)
		VALUES ('res_2', $1, 'dep_2', 'REDIRECTED', 'OPEN', now(), 'OPERATOR', 'opr_otto', $2, 800, 'ETHEREUM', 'we_1',
			1, 'LAW_ENFORCEMENT', 'order 7')`, e.org, signertest.Stranger)
	var approvals []signer.Approval
	for _, p := range operators {
		approval := e.grants.MakeApproval(terms, 0, p.Person)
		words := func(c signer.StatementContext) signer.Statement { return intent.Statement("31337", nil, c) }
		signed := e.sign(p, words)
		approval.Signature = &signed.Signature
		approvals = append(approvals, approval)
		actor := audit.Operator(p.Person[len("OPERATOR "):])
		e.exec(`INSERT INTO return_signatures VALUES ($1, 'res_2', 'OPERATOR', $2,
			($3::jsonb ->> 'notAfter')::timestamptz, now(), '', '', $3)`, e.org, actor.ID, signed.Signature)
		e.log(actor, "deposit.redirect_signed", "DEPOSIT", "dep_2", map[string]any{
			"resolution": "res_2", "signed": signed,
		})
	}
	intent.Grant = e.grants.MakeGrant(terms, money.Zero, 0, 2, approvals)
	if _, err := e.signer.AdmitIntent(e.t.Context(), intent); err != nil {
		e.t.Fatal(err)
	}
}

// endorse makes operators sign an address that the signer endorses.
func (e *signedEnv) endorse(operators []*signertest.Passkey) {
	e.t.Helper()
	address := signer.Endorsement{
		OrgID: e.org, ID: "wla_1", Chain: chain.Ethereum, Address: signertest.Stranger,
		LabelHash: signer.HashLabel("our exchange"), NotBefore: signer.FormatMicros(time.Now()), Label: "our exchange",
	}
	address.MAC = e.grants.EndorsementMAC(address)
	for _, p := range operators {
		address.SignedBy = append(address.SignedBy, p.Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.EndorseStatement(address, c) }))
	}
	if _, err := e.signer.EndorseAddress(e.t.Context(), address); err != nil {
		e.t.Fatal(err)
	}
}

// insertOperatorKey writes the row of an operator's passkey, with its audit entries of no organization.
func (e *signedEnv) insertOperatorKey(p *signertest.Passkey) {
	e.t.Helper()
	k := e.entries().enrolled[p.ID][0]
	e.exec(`
		INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
			possession, possession_until, created_at, usable_from, is_founded, proof, journal_id, journal_seq)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '{}', now() + interval '1 hour', now(), $10, true, $11, $12, $13)`,
		p.ID, p.OrgID, p.Person, p.Email, p.Right, p.CredentialID, p.PublicKey, p.RPID, p.Origin, k.usableFrom, k.Proof,
		k.place.journal, int64(k.place.seq))
	e.system(func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Actor: audit.System("approvers"), Action: "approver.enrolled", ResourceKind: "APPROVER_KEY",
			ResourceID: p.ID,
		}, audit.Entry{
			Actor: audit.System("approvers"), Action: "approver.recorded", ResourceKind: "APPROVER_KEY",
			ResourceID: p.ID,
		})
	})
}

// Rules SA-14, SA-17 and SA-18.
func TestEveryTamperingWithWhatOperatorsSignedIsSeen(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	for _, p := range e.addOperators() {
		e.insertOperatorKey(p)
	}
	if found := e.find(""); len(found) > 0 {
		t.Fatalf("untouched: got %+v, want no breach", found)
	}
	unsigned := signer.Record{
		Kind: signer.RecordEndorse, RecordedAt: signer.FormatTime(time.Now()), Endorse: &signer.EndorseBody{
			Endorsement: signer.Endorsement{OrgID: e.org, ID: "wla_2", Chain: chain.Ethereum},
		},
	}
	body, err := json.Marshal(unsigned)
	if err != nil {
		t.Fatal(err)
	}
	insertUnsigned := `INSERT INTO signer_journal SELECT max(journal_id), 900, '', '', convert_to('` + string(body) +
		`', 'UTF8'), now() FROM signer_journal`
	for _, c := range []struct{ check, name, sql string }{
		{"I-40-approvers", "a passkey removed", `DELETE FROM approver_keys WHERE key_id = 'apk_olga_APPROVE'`},
		{
			"I-91-keys", "another person",
			`UPDATE approver_keys SET person = 'OPERATOR x' WHERE key_id = 'apk_olga_APPROVE'`,
		},
		{
			"I-91", "a redirect that one operator signed",
			replaceInJournal(signer.RecordAdmit, "apk_oleg_A", "apk_olga_A"),
		},
		{"I-91", "a redirect that people signed", replaceInJournal(signer.RecordAdmit, "apk_oleg_A", "apk_ann_A")},
		{
			"I-91", "a signature of a redirect removed",
			`DELETE FROM return_signatures WHERE approver_id = 'opr_olga'`,
		},
		{
			"I-91", "a redirect to another address",
			`UPDATE return_requests SET to_address = '0xother' WHERE request_id = 'res_2'`,
		},
		{
			"I-91", "a redirect for another reason",
			`UPDATE return_requests SET reference = 'order 8' WHERE request_id = 'res_2'`,
		},
		{
			"I-91", "a redirect that someone else signed",
			`UPDATE return_signatures SET approver_id = 'opr_olaf' WHERE approver_id = 'opr_olga'`,
		},
		{
			"I-91", "an address that one operator signed",
			replaceInJournal(signer.RecordEndorse, "apk_oleg_A", "apk_olga_A"),
		},
		{"I-91", "an address that people signed", replaceInJournal(signer.RecordEndorse, "apk_oleg_A", "apk_ann_A")},
		{"I-91", "an address that no one signed", insertUnsigned},
	} {
		found := e.find(c.check, c.sql)
		if !slices.ContainsFunc(found, func(b Breach) bool { return b.Subject != "" && b.Detail != "" }) {
			t.Errorf("%s, %s: got no breach", c.check, c.name)
		}
	}
}
