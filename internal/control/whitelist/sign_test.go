package whitelist_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// operatorsEnv is a testEnv with a rule of two operators.
type operatorsEnv struct {
	*testEnv
	mirror    *signertest.Mirror
	operators []*signertest.Passkey // for addresses
	eve       *signertest.Passkey   // of the organization
	enrol     []*signertest.Passkey
}

func newOperatorsEnv(t *testing.T) *operatorsEnv {
	t.Helper()
	h := newTestEnv(t)
	h.signer.Close()
	h.files.Policy.Approvers = &signpolicy.Approvers{
		RelyingParties: []signpolicy.RelyingParty{{ID: signertest.RPID, Origins: []string{signertest.Origin}}},
		CoolingOff:     "0s",
	}
	h.reopen(t)
	e := &operatorsEnv{testEnv: h, mirror: &signertest.Mirror{
		Installation: hex.EncodeToString(h.attest), Keys: map[string]*signertest.Passkey{},
	}}
	for n, name := range []string{"opr_1", "opr_2", "opr_3"} {
		e.operators = append(e.operators, e.found(t, signer.Operators, name, signer.RightApprove))
		if n < 2 {
			e.enrol = append(e.enrol, e.found(t, signer.Operators, name, signer.RightEnrol))
		}
	}
	e.eve = e.found(t, org, "opr_2", signer.RightApprove)
	rule := signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2}
	request := signer.RuleRequest{ApprovalRule: rule}
	for _, p := range e.enrol {
		request.SignedBy = append(request.SignedBy, e.sign(t, p,
			func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(rule, c) }))
	}
	if _, err := h.signer.SetRule(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	e.mirror.OperatorRule = &rule
	h.book = whitelist.New(h.db, h.signer, whitelist.Config{
		AttestKey: h.attest, GrantKey: h.files.Grants, CoolingOff: time.Hour, Approvers: e.mirror,
		Chains: chain.Chains{
			chain.Ethereum: {Name: chain.Ethereum, Network: chain.Local, AddressCodec: evmtx.AddressCodec{
				ChainID: signertest.ChainID,
			}},
		},
	}, slog.New(slog.DiscardHandler))
	return e
}

// found makes a passkey that a person at the signer's host founds, and that the database has.
func (e *operatorsEnv) found(t *testing.T, orgID, person string, right signer.Right) *signertest.Passkey {
	t.Helper()
	p := signertest.NewPasskey(t, orgID, person, right)
	p.ID, p.Person = p.ID+"_"+strings.ToLower(orgID), "OPERATOR "+person
	request := p.Request(t, e.mirror.Installation, e.clock().Add(time.Hour))
	err := hostorders.Append(e.files.Journal, hostorders.Order{
		OrgID: orgID, Email: p.Email, Right: right, Fingerprint: request.Fingerprint(e.mirror.Installation),
		Reason: "telephone",
	}, e.clock())
	if err == nil {
		_, err = e.signer.EnrolKey(t.Context(), request)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.exec(t, `
		INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
			possession, possession_until, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '{}', now() + interval '1 hour', now())`,
		p.ID, orgID, p.Person, p.Email, string(right), p.CredentialID, p.PublicKey, p.RPID, p.Origin)
	e.mirror.Keys[p.ID] = p
	return p
}

func (e *operatorsEnv) sign(
	t *testing.T, p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) signer.KeySignature {
	t.Helper()
	return p.Sign(t, e.mirror.Installation, e.clock().Add(20*time.Hour), statement)
}

func (e *operatorsEnv) review(t *testing.T, name string) (s whitelist.Signing) {
	t.Helper()
	err := e.inSystem(t, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = e.book.LoadSigning(ctx, tx, org, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signEntry makes operator n sign with a passkey what the page shows its holder, and asks the signer.
func (e *operatorsEnv) signEntry(t *testing.T, name string, n int, p *signertest.Passkey) error {
	t.Helper()
	s := e.review(t, name)
	signature := e.sign(t, p, func(c signer.StatementContext) signer.Statement {
		return s.Statement(c.Approver, c.NotAfter)
	})
	actor := audit.Operator(strings.TrimPrefix(e.operators[n-1].Person, "OPERATOR "))
	err := e.inSystem(t, func(ctx context.Context, tx pg.Tx) error {
		return e.book.SignEntry(ctx, tx, actor, org, name, signature)
	})
	if err != nil {
		return err
	}
	return e.book.FinishEntry(t.Context(), name)
}

func (e *operatorsEnv) wantStatus(t *testing.T, when, name string, want whitelist.Status) {
	t.Helper()
	if got := e.review(t, name).Entry; got.Status(e.clock()) != want {
		t.Errorf("%s: got %s (%s %s), want %s", when, got.Status(e.clock()), got.WaitsFor, got.Refusal, want)
	}
}

// Rule SA-18.
func TestAnEntryUnderTheOperatorsRuleWaitsForTheirSignatures(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	name := e.addEntry(t, org, newEntryRequest())
	e.wantStatus(t, "with no signature", name, whitelist.StatusWaiting)
	s := e.review(t, name)
	if s.People != 2 || !strings.Contains(s.Entry.WaitsFor, "2 operators") || !s.IsWanted("OPERATOR opr_1", e.clock()) {
		t.Errorf("got %d people and %q, want two and what the signer said", s.People, s.Entry.WaitsFor)
	}
	words := s.Statement("OPERATOR opr_1", "2026-11-30T12:00:00.000000Z")
	for word, want := range map[string]string{
		"act": signer.EndorseEntry, "to": string(signertest.Stranger), "network": "ETHEREUM", "label": "our exchange",
		"labelHash": signer.HashLabel("our exchange"), "id": name, "organization": org, "approver": "OPERATOR opr_1",
	} {
		if got := words.Find(word); got != want {
			t.Errorf("word %s: got %q, want %q", word, got, want)
		}
	}
	wantFault(t, "another operator's passkey", e.signEntry(t, name, 1, e.operators[1]), fault.InvalidRequest)
	wantFault(t, "an organization's approver", e.signEntry(t, name, 2, e.eve), fault.InvalidRequest)
	if err := e.signEntry(t, name, 1, e.operators[0]); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, "with one signature", name, whitelist.StatusWaiting)
	wantFault(t, "twice", e.signEntry(t, name, 1, e.operators[0]), fault.InvalidState)
	if err := e.signEntry(t, name, 2, e.operators[1]); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, "with two signatures", name, whitelist.StatusCoolingOff)
	wantFault(t, "after the last one", e.signEntry(t, name, 3, e.operators[2]), fault.InvalidState)
	e.advanceClock(25 * time.Hour)
	e.wantStatus(t, "a day later", name, whitelist.StatusUsable)
	if err := e.book.RunPass(t.Context(), true); err != nil {
		t.Errorf("asked again: got %v", err)
	}
	e.wantStatus(t, "asked again after the signatures ended", name, whitelist.StatusUsable)
}

// Rule SA-18: a server that believes every signature, or sends none, endorses nothing.
func TestTheSignerEndorsesNothingForACarelessServer(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	name := e.addEntry(t, org, newEntryRequest())
	e.mirror.IsCareless = true
	for n, p := range []*signertest.Passkey{e.operators[0], e.enrol[1], e.enrol[0]} {
		if err := e.signEntry(t, name, n+1, p); err != nil {
			t.Fatal(err)
		}
		e.wantStatus(t, "believed "+p.ID, name, whitelist.StatusWaiting)
	}
	e.book = e.serviceWith(e.signer)
	if err := e.book.FinishEntry(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, "without asking operators", name, whitelist.StatusWaiting)
}

// Rule SA-18: a passkey that was retired after it signed does not keep the address from being signed by others.
func TestASignatureOfARetiredPasskeyIsLeftOut(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	name := e.addEntry(t, org, newEntryRequest())
	if err := e.signEntry(t, name, 1, e.operators[0]); err != nil {
		t.Fatal(err)
	}
	retirement := signer.Retirement{OrgID: signer.Operators, ID: e.operators[0].ID}
	request := signer.RetireRequest{Retirement: retirement, MAC: e.files.Grants.RetirementMAC(retirement)}
	if _, err := e.signer.RetireKey(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	delete(e.mirror.Keys, e.operators[0].ID)
	if err := e.signEntry(t, name, 2, e.operators[1]); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, "with one that counts", name, whitelist.StatusWaiting)
	if err := e.signEntry(t, name, 3, e.operators[2]); err != nil {
		t.Fatal(err)
	}
	e.wantStatus(t, "with two that count", name, whitelist.StatusCoolingOff)
}

// The tables hold what the program does. Rules SA-18 and SA-20.
func TestTheTablesKeepTheSignaturesOfAnEntry(t *testing.T) {
	t.Parallel()
	e := newOperatorsEnv(t)
	name := e.addEntry(t, org, newEntryRequest())
	if err := e.signEntry(t, name, 1, e.operators[0]); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ sql, constraint string }{
		"another signature": {`UPDATE whitelist_signatures SET signature = '{}'`, "whitelist_signatures_append_only"},
		"no signature":      {`DELETE FROM whitelist_signatures`, "whitelist_signatures_append_only"},
		"an organization's passkey": {
			`INSERT INTO whitelist_signatures (org_id, whitelisted_address_id, by_key_id, signed_by, not_after,
				signature, at)
			SELECT org_id, whitelisted_address_id, '` + e.eve.ID + `', signed_by, not_after, signature, at
			FROM whitelist_signatures`, "whitelist_signatures_by",
		},
		"an address of another organization": {
			`INSERT INTO whitelist_signatures (org_id, whitelisted_address_id, by_key_id, signed_by, not_after,
				signature, at)
			SELECT '` + other + `', whitelisted_address_id, '` + e.operators[1].ID + `', signed_by, not_after,
				signature, at
			FROM whitelist_signatures`, "whitelist_signatures_address",
		},
		"an organization with the id of the operators": {
			`INSERT INTO organizations (org_id, name, created_at) VALUES ('OPERATORS', 'x', now())`,
			"organizations_not_operators",
		},
		"a passkey of no organization": {
			`INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id,
				origin, possession, possession_until, created_at)
			SELECT 'apk_x', 'org_x', person, email, key_right, '\x01', public_key, rp_id, origin, possession,
				possession_until, created_at FROM approver_keys LIMIT 1`, "approver_keys_organization",
		},
		"a rule of the operators with an asset": {
			`INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at)
			VALUES ('apr_x', 'OPERATORS', 1, '{"orgId": "OPERATORS", "version": 1, "quorum": 1, "ownPayments": false,
				"returns": false, "assets": [{}]}', 'x', now())`, "approval_rules_of_operators",
		},
		"a rule of the operators for returns": {
			`INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at)
			VALUES ('apr_x', 'OPERATORS', 1, '{"orgId": "OPERATORS", "version": 1, "quorum": 1, "ownPayments": false,
				"returns": true}', 'x', now())`, "approval_rules_of_operators",
		},
	} {
		if _, err := e.owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", what, err, c.constraint)
		}
	}
	err := e.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		var n int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM approver_keys WHERE org_id = 'OPERATORS'`).Scan(&n)
		if err != nil {
			return err
		}
		if n != 0 {
			t.Errorf("an organization sees %d passkeys of the operators", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wantFault(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}
