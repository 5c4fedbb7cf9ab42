package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

const signedOrg = "org_1"

// signedLog writes exports with signed approvals. No database has them.
type signedLog struct {
	*testing.T
	signer *signertest.Approvers
	keys   map[string]signer.EnrolBody
	ann    *signertest.Passkey
	ben    *signertest.Passkey
}

func newSignedLog(t *testing.T) *signedLog {
	t.Helper()
	s := signertest.OpenApprovers(t, nil)
	l := &signedLog{T: t, signer: s, keys: map[string]signer.EnrolBody{}}
	for _, p := range []**signertest.Passkey{&l.ann, &l.ben} {
		person := []string{"ann", "ben"}[len(l.keys)]
		*p = signertest.NewPasskey(t, signedOrg, person, signer.RightApprove)
		(*p).Person = "USER usr_" + person
		s.Found(t, *p)
		entries, err := s.EntriesAfter(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var r signer.Record
		if err := json.Unmarshal(entries[len(entries)-1].Body, &r); err != nil || r.Enrol == nil {
			t.Fatalf("got %s, %v, want an enrolment", entries[len(entries)-1].Body, err)
		}
		l.keys[(*p).ID] = *r.Enrol
	}
	return l
}

// approval returns the row of an approval of a payment of 700 by a person, after a change of its signature.
func (l *signedLog) approval(p *signertest.Passkey, action string, change func(*signer.SignedStatement)) Line {
	l.Helper()
	words := signer.PaymentWords{
		Terms: signer.Terms{
			OrgID: signedOrg, WithdrawalID: "wd_1", Chain: chain.Ethereum, MintID: 1, To: signertest.Stranger,
			Amount: money.Units(700), FeeMode: "ORGANIZATION",
		},
		Purpose: signer.Payment, CustomerID: "cay", Network: "31337",
	}
	statement := func(c signer.StatementContext) signer.Statement { return signer.PaymentStatement(words, c) }
	signed := l.sign(p, statement)
	if change != nil {
		change(signed)
	}
	return l.row(strings.TrimPrefix(p.Person, "USER "), action, "WITHDRAWAL", "wd_1", map[string]any{
		"round": 0, "people": 2, "signed": signed, "toAddress": signertest.Stranger, "amount": money.Units(700),
	})
}

func (l *signedLog) row(actor, action, kind, id string, detail any) Line {
	l.Helper()
	text, err := json.Marshal(detail)
	if err != nil {
		l.Fatal(err)
	}
	org := signedOrg
	return Line{
		OrgID: &org, RecordedAt: formatTime(time.Now()), ActorKind: "USER", ActorID: actor, Action: action,
		ResourceKind: kind, ResourceID: id, Detail: string(text),
	}
}

// check writes the rows with their chain, as someone does who can build it again, and checks the export.
func (l *signedLog) check(key ed25519.PublicKey, rows ...Line) Findings {
	l.Helper()
	var export bytes.Buffer
	encoder := json.NewEncoder(&export)
	h := Header{Format: exportFormat, Chain: "aud_1", ExportedAt: formatTime(time.Now())}
	head := genesisHash(h.Chain)
	for n := range rows {
		rows[n].Position, rows[n].AuditID = int64(n+1), int64(n+1)
		head = rows[n].chainHash(head)
		rows[n].Hash = head.String()
	}
	h.Position, h.Hash = int64(len(rows)), head.String()
	for _, line := range append([]any{h}, toAny(rows)...) {
		if err := encoder.Encode(line); err != nil {
			l.Fatal(err)
		}
	}
	if err := encoder.Encode(trailer{End: true, Sealed: int64(len(rows))}); err != nil {
		l.Fatal(err)
	}
	f, err := CheckExport(&export, nil, false, key)
	if err != nil {
		l.Fatal(err)
	}
	return f
}

// checkReturnsAndSwaps checks rows of returns, which are about their deposits, and of swaps.
func (l *signedLog) checkReturnsAndSwaps(key ed25519.PublicKey) {
	l.Helper()
	words := signer.PaymentWords{Purpose: signer.Return, Network: "31337", Terms: signer.Terms{
		OrgID: signedOrg, WithdrawalID: "res_1", Chain: chain.Ethereum, MintID: 1, To: signertest.Stranger,
		Amount: money.Units(800), MadeBy: "USER usr_cay",
	}}
	swap := signer.SwapPayout{
		OrgID: signedOrg, SwapID: "os_1", Product: "CUSTODIAL", FromMintID: 2, ToMintID: 1, AmountIn: money.Units(9),
		MinOut: money.Units(6), MaxOut: money.Units(10), WhitelistedID: "wla_1", To: signertest.Stranger,
		NotAfter: "2030-01-01T00:00:00Z",
	}
	returned := func(p *signertest.Passkey, count string, to chain.Address) Line {
		return l.row(p.Person[len("USER "):], returnSigned, "DEPOSIT", "dep_1", map[string]any{
			"resolution": "res_1", "toAddress": to, "amount": "800", "approvals": count, "required": "2", "people": 2,
			"signed": l.sign(p, func(c signer.StatementContext) signer.Statement {
				return signer.PaymentStatement(words, c)
			}),
		})
	}
	swapped := func(p *signertest.Passkey, verb, id string) Line {
		return l.row(p.Person[len("USER "):], "swap."+verb, "SWAP", id, map[string]any{
			"approvals": 2, "required": 2, "people": 2,
			"signed": l.sign(p, func(c signer.StatementContext) signer.Statement {
				return signer.SwapStatement(swap, c)
			}),
		})
	}
	to := chain.Address(signertest.Stranger)
	for name, c := range map[string]struct {
		isIntact bool
		rows     []Line
	}{
		"a return":                    {true, []Line{returned(l.ann, "1", to), returned(l.ben, "2", to)}},
		"a return, one person twice":  {false, []Line{returned(l.ann, "1", to), returned(l.ann, "2", to)}},
		"a return, a row removed":     {false, []Line{returned(l.ben, "2", to)}},
		"a return to another address": {false, []Line{returned(l.ann, "1", "0xMallory"), returned(l.ben, "2", to)}},
		"a swap": {true, []Line{
			swapped(l.ann, "approval_added", "os_1"), swapped(l.ben, "approved", "os_1"),
		}},
		"a swap, a row removed": {false, []Line{swapped(l.ben, "approved", "os_1")}},
		"another swap": {false, []Line{
			swapped(l.ann, "approval_added", "os_2"), swapped(l.ben, "approved", "os_2"),
		}},
	} {
		if f := l.check(key, c.rows...); f.IsIntact() != c.isIntact {
			l.Errorf("%s: got %v, want it intact: %v", name, f.Breaks, c.isIntact)
		}
	}
}

// sign returns a signature of a passkey with its words.
func (l *signedLog) sign(
	p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) *signer.SignedStatement {
	l.Helper()
	signature := p.Sign(l.T, l.signer.Installation, time.Now().Add(time.Hour), statement)
	return &signer.SignedStatement{
		Words: statement(signer.StatementContext{
			Installation: l.signer.Installation, Approver: p.Person, NotAfter: signature.NotAfter,
		}),
		Signature: signature, Passkey: l.keys[p.ID],
	}
}

func toAny(rows []Line) (values []any) {
	for _, r := range rows {
		values = append(values, r)
	}
	return values
}

// An export proves who signed each payment, without a database, also to a reader whose chain was built again. Rule
// SA-13.
func TestTheSignaturesOfAnExportAreVerifiedWithoutADatabase(t *testing.T) {
	t.Parallel()
	l := newSignedLog(t)
	key := ed25519.PublicKey(l.signer.AttestKey)
	other := signertest.NewPasskey(t, signedOrg, "ann", signer.RightApprove)
	foreignKey, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	first := func(change func(*signer.SignedStatement)) []Line {
		return []Line{
			l.approval(l.ann, "withdrawal.approval_added", change), l.approval(l.ben, "withdrawal.approved", nil),
		}
	}
	if f := l.check(key, first(nil)...); !f.IsIntact() || f.Signatures != 2 {
		t.Fatalf("untouched: got %v and %d signatures, want 2", f.Breaks, f.Signatures)
	}
	if f := l.check(nil, first(nil)...); !f.IsIntact() || f.Signatures != 2 || !f.NoKey {
		t.Errorf("without the key: got %v, want the signatures alone verified", f.Breaks)
	}
	if f := l.check(foreignKey, first(nil)...); f.IsIntact() {
		t.Error("the key of another installation: got no break")
	}
	moved := func(change func(*Line)) []Line {
		rows := first(nil)
		change(&rows[0])
		return rows
	}
	for name, rows := range map[string][]Line{
		"a signature removed": first(nil)[1:],
		"one person twice": {
			l.approval(l.ann, "withdrawal.approval_added", nil), l.approval(l.ann, "withdrawal.approved", nil),
		},
		"a changed signature": first(func(s *signer.SignedStatement) { s.Signature.Assertion.Signature[9] ^= 1 }),
		"other words":         first(func(s *signer.SignedStatement) { s.Words[1].Text = "7 units" }),
		"a word added": first(func(s *signer.SignedStatement) {
			s.Words = append(s.Words, signer.Word{Name: "memo", Text: "x"})
		}),
		"another public key": first(func(s *signer.SignedStatement) { s.Passkey.PublicKey = other.PublicKey }),
		"a passkey of no one": first(func(s *signer.SignedStatement) {
			s.Passkey.PublicKey = other.PublicKey
			s.Signature.Assertion = other.Assert(t, s.Words.Challenge())
		}),
		"another proof":  first(func(s *signer.SignedStatement) { s.Passkey.Proof = []byte("x") }),
		"another person": moved(func(r *Line) { r.ActorID = "usr_eve" }),
		"another payment": moved(func(r *Line) {
			r.ResourceID = "wd_2"
		}),
		"another organization": moved(func(r *Line) { *r.OrgID = "org_2" }),
		"after its end":        moved(func(r *Line) { r.RecordedAt = formatTime(time.Now().Add(2 * time.Hour)) }),
		"before the passkey":   moved(func(r *Line) { r.RecordedAt = formatTime(time.Now().Add(-time.Hour)) }),
		"another address": moved(func(r *Line) {
			r.Detail = strings.Replace(r.Detail, `"toAddress":"0x5a`, `"toAddress":"0x6a`, 1)
		}),
		"another amount": moved(func(r *Line) {
			r.Detail = strings.Replace(r.Detail, `"amount":"700"`, `"amount":"7"`, 1)
		}),
		"a retired passkey": append([]Line{func() Line {
			r := l.row("usr_ben", "approver.retired", "APPROVER_KEY", l.ann.ID, map[string]any{})
			r.RecordedAt = formatTime(time.Now().Add(-time.Hour))
			return r
		}()}, first(nil)...),
		"a detail that cannot be read": {l.row("usr_ann", "withdrawal.approved", "WITHDRAWAL", "wd_1",
			map[string]any{"people": "two"})},
	} {
		if f := l.check(key, rows...); f.IsIntact() || !strings.Contains(fmt.Sprint(f.Breaks), "row") {
			t.Errorf("%s: got %v, want a break", name, f.Breaks)
		}
	}
	l.checkReturnsAndSwaps(key)
	unsigned := l.row("usr_ann", "withdrawal.approved", "WITHDRAWAL", "wd_3", map[string]any{"round": 0})
	if f := l.check(key, unsigned); !f.IsIntact() || f.Signatures != 0 {
		t.Errorf("without a rule: got %v, want it intact", f.Breaks)
	}
}
