package approver_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
)

const org = "org_1"

// testEnv is a database, a signer with its files, and the service between them.
type testEnv struct {
	*testing.T
	db           *pg.DB
	owner        *pgxpool.Pool
	files        local.Config
	signer       *local.Signer
	installation string
	book         *approver.Service
	config       approver.Config
	now          time.Time
	mails        []mail.Message
}

func (h *testEnv) Queue(_ context.Context, _ pg.Tx, m mail.Message) error {
	h.mails = append(h.mails, m)
	return nil
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	h := &testEnv{T: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return h.now }
	h.db = pgtest.NewWithClock(t, clock)
	h.owner = pgtest.OwnerPool(t, h.db)
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	policy := signertest.NewPolicy()
	policy.Approvers = &signpolicy.Approvers{
		RelyingParties: []signpolicy.RelyingParty{{ID: signertest.RPID, Origins: []string{signertest.Origin}}},
		CoolingOff:     "1h", RecoveryCoolingOff: "2h",
	}
	h.files = local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Policy: policy, Grants: grants, Clock: clock,
	}
	if err := local.CreateJournal(h.files, seed); err != nil {
		t.Fatal(err)
	}
	if h.signer, err = local.Open(h.files, seed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.signer.Close() })
	attest := seed.AttestKey().PublicKey()
	h.installation = hex.EncodeToString(attest)
	h.config = approver.Config{AttestKey: attest, GrantKey: grants, Mails: h, Chains: chain.Chains{
		signertest.Chain: {Name: signertest.Chain, Network: chain.Local, AddressCodec: evmtx.AddressCodec{
			ChainID: signertest.ChainID,
		}},
	}}
	h.book = h.serviceWith(h.signer)
	h.exec(`INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'one', now())`, org)
	if err := journal.Import(t.Context(), h.db, h.signer, wallet.New(h.db, h.signer, attest)); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *testEnv) serviceWith(s signer.Signer) *approver.Service {
	return approver.New(h.db, s, h.config, slog.New(slog.DiscardHandler))
}

// exec writes past every right and trigger, as the owner of the database can.
func (h *testEnv) exec(sql string, args ...any) {
	h.Helper()
	tx, err := h.owner.Begin(h.Context())
	if err == nil {
		defer tx.Rollback(context.Background())
		if _, err = tx.Exec(h.Context(), `SET LOCAL session_replication_role = replica`); err == nil {
			_, err = tx.Exec(h.Context(), sql, args...)
		}
	}
	if err == nil {
		err = tx.Commit(h.Context())
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *testEnv) passkey(person string, right signer.Right) *signertest.Passkey {
	h.Helper()
	p := signertest.NewPasskey(h.T, org, person, right)
	p.ID, p.Person = id.New("apk", h.now), approver.PersonName(audit.User("usr_"+person))
	return p
}

func actorOf(p *signertest.Passkey) audit.Actor {
	return audit.User(strings.TrimPrefix(p.Person, "USER "))
}

func (h *testEnv) do(f func(ctx context.Context, tx pg.Tx) error) error {
	h.Helper()
	return h.db.InSystem(h.Context(), f)
}

func (h *testEnv) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *testEnv) enrol(p *signertest.Passkey) error {
	h.Helper()
	return h.do(func(ctx context.Context, tx pg.Tx) error {
		_, err := h.book.Enrol(ctx, tx, actorOf(p), p.Request(h.T, h.installation, h.now.Add(6*time.Hour)))
		return err
	})
}

// order founds a passkey at the signer's host.
func (h *testEnv) order(p *signertest.Passkey) {
	h.Helper()
	request := p.Request(h.T, h.installation, h.now.Add(time.Hour))
	h.must(hostorders.Append(h.files.Journal, hostorders.Order{
		OrgID: org, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(h.installation),
		Reason: "telephone",
	}, h.now))
}

func (h *testEnv) found(people ...*signertest.Passkey) {
	h.Helper()
	for _, p := range people {
		h.must(h.enrol(p))
		h.order(p)
		h.must(h.book.FinishKey(h.Context(), p.ID))
	}
}

func (h *testEnv) load(p *signertest.Passkey) (k approver.Key) {
	h.Helper()
	h.must(h.do(func(ctx context.Context, tx pg.Tx) (err error) {
		k, err = h.book.ByID(ctx, tx, org, p.ID)
		return err
	}))
	return k
}

func (h *testEnv) wantStatus(p *signertest.Passkey, want approver.Status) {
	h.Helper()
	if k := h.load(p); k.Status(h.now) != want {
		h.Errorf("got %s of %s (%s %s), want %s", k.Status(h.now), p.Email, k.Refusal, k.WaitsFor, want)
	}
}

func (h *testEnv) sign(p *signertest.Passkey, f func(signer.StatementContext) signer.Statement) signer.KeySignature {
	h.Helper()
	return p.Sign(h.T, h.installation, h.now.Add(time.Hour), f)
}

func (h *testEnv) admit(by, p *signertest.Passkey) error {
	h.Helper()
	request := h.load(p).Request()
	signature := h.sign(by, func(c signer.StatementContext) signer.Statement {
		return signer.EnrolStatement(request, c)
	})
	return h.do(func(ctx context.Context, tx pg.Tx) error {
		return h.book.Admit(ctx, tx, actorOf(by), org, p.ID, signature)
	})
}

func (h *testEnv) retire(by audit.Actor, p *signertest.Passkey, signature *signer.KeySignature) error {
	h.Helper()
	return h.do(func(ctx context.Context, tx pg.Tx) error { return h.book.Retire(ctx, tx, by, org, p.ID, signature) })
}

func (h *testEnv) propose(by *signertest.Passkey, rule signer.ApprovalRule) (p approver.Proposal, err error) {
	h.Helper()
	rule.OrgID = org
	err = h.do(func(ctx context.Context, tx pg.Tx) error {
		p, err = h.book.ProposeRule(ctx, tx, actorOf(by), rule)
		return err
	})
	return p, err
}

func (h *testEnv) signRule(p approver.Proposal, by *signertest.Passkey) error {
	h.Helper()
	signature := h.sign(by, func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(p.Rule, c) })
	return h.do(func(ctx context.Context, tx pg.Tx) error {
		return h.book.SignRule(ctx, tx, actorOf(by), org, p.ID, signature)
	})
}

// setRule proposes a rule and has everyone sign it.
func (h *testEnv) setRule(rule signer.ApprovalRule, by ...*signertest.Passkey) approver.Proposal {
	h.Helper()
	p, err := h.propose(by[0], rule)
	h.must(err)
	for _, person := range by {
		h.must(h.signRule(p, person))
	}
	h.must(h.book.FinishRule(h.Context(), p.ID))
	return p
}

func (h *testEnv) rule() (effective *signer.ApprovalRule, pending *approver.Proposal, err error) {
	h.Helper()
	err = h.do(func(ctx context.Context, tx pg.Tx) (err error) {
		if effective, err = h.book.LoadRule(ctx, tx, org); err == nil {
			pending, err = h.book.LoadPendingRule(ctx, tx, org)
		}
		return err
	})
	return effective, pending, err
}

// founders returns the passkeys of two people with both rights, who were founded and have cooled off.
func (h *testEnv) founders() (approve, enrol []*signertest.Passkey) {
	h.Helper()
	for _, person := range []string{"ann", "ben"} {
		approve = append(approve, h.passkey(person, signer.RightApprove))
		enrol = append(enrol, h.passkey(person, signer.RightEnrol))
	}
	h.found(slices.Concat(approve, enrol)...)
	h.now = h.now.Add(time.Hour)
	return approve, enrol
}

func (h *testEnv) wantRefused(what string, err error, words string) {
	h.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		h.Errorf("%s: got %v, want it refused with %q", what, err, words)
	}
}

// lossy loses the answers of a signer.
type lossy struct{ signer.Signer }

var errLost = errors.New("the connection broke")

func (l lossy) EnrolKey(ctx context.Context, e signer.EnrolRequest) (signer.EnrolledKey, error) {
	_, _ = l.Signer.EnrolKey(ctx, e)
	return signer.EnrolledKey{}, errLost
}

func (l lossy) RetireKey(ctx context.Context, r signer.RetireRequest) (signer.Entry, error) {
	_, _ = l.Signer.RetireKey(ctx, r)
	return signer.Entry{}, errLost
}

func (l lossy) SetRule(ctx context.Context, r signer.RuleRequest) (signer.RecordedRule, error) {
	_, _ = l.Signer.SetRule(ctx, r)
	return signer.RecordedRule{}, errLost
}

// belated says that a rule is refused, and lets the request reach the signer later.
type belated struct {
	signer.Signer
	requests []signer.RuleRequest
}

func (b *belated) SetRule(_ context.Context, r signer.RuleRequest) (signer.RecordedRule, error) {
	b.requests = append(b.requests, r)
	return signer.RecordedRule{}, signer.Refuse(signer.RefusedApprover, "a signature is not valid: it has ended")
}

// A request that comes late is recorded after the service took it for refused. The rule is read, so that the next
// version can be set. Rule SA-12.
func TestARuleThatTheServiceTookForRefusedIsRead(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(h *testEnv, enrol []*signertest.Passkey){
		"by the next pass": func(h *testEnv, _ []*signertest.Passkey) {
			h.must(h.book.RunPass(h.Context(), true))
		},
		"by a pass while another one is proposed": func(h *testEnv, enrol []*signertest.Passkey) {
			p, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 1})
			h.must(err)
			h.must(h.signRule(p, enrol[0]))
			h.must(h.book.RunPass(h.Context(), true))
		},
		"by the refusal of the next version": func(h *testEnv, enrol []*signertest.Passkey) {
			h.setRule(signer.ApprovalRule{Quorum: 2, Returns: true}, enrol...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			_, enrol := h.founders()
			proposal, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2})
			h.must(err)
			h.must(h.signRule(proposal, enrol[0]))
			h.must(h.signRule(proposal, enrol[1]))
			late := &belated{Signer: h.signer}
			h.must(h.serviceWith(late).FinishRule(t.Context(), proposal.ID))
			h.must(h.book.RunPass(t.Context(), true))
			if rule, pending, err := h.rule(); err != nil || rule != nil || pending != nil {
				t.Fatalf("got %v %v %v, want it refused", rule, pending, err)
			}
			if _, err := h.signer.SetRule(t.Context(), late.requests[0]); err != nil {
				t.Fatal(err)
			}
			next(h, enrol)
			if rule, pending, err := h.rule(); err != nil || rule == nil || rule.Quorum != 2 || rule.Returns ||
				pending != nil {
				t.Fatalf("got %v %v %v, want the rule that the signer has", rule, pending, err)
			}
			h.setRule(signer.ApprovalRule{Quorum: 2, Returns: true}, enrol...)
			if rule, _, err := h.rule(); err != nil || rule == nil || rule.Version != 2 || !rule.Returns {
				t.Errorf("got %v %v, want version 2", rule, err)
			}
		})
	}
}

// Rules SA-2, SA-11 and SA-12.
func TestAPasskeyWaitsUntilItIsFoundedAndThenCoolsOff(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.passkey("ann", signer.RightApprove)
	h.must(h.enrol(p))
	h.must(h.book.RunPass(t.Context(), false))
	h.wantStatus(p, approver.StatusWaiting)
	if k := h.load(p); !strings.Contains(k.WaitsFor, "not founded") {
		t.Errorf("got %q, want what it waits for", k.WaitsFor)
	}
	h.order(p)
	h.must(h.book.RunPass(t.Context(), false))
	h.wantStatus(p, approver.StatusCoolingOff)
	if k := h.load(p); !k.IsFounded || k.WaitsFor != "" {
		t.Errorf("got %v %q, want a passkey that was founded and waits for nothing", k.IsFounded, k.WaitsFor)
	}
	h.now = h.now.Add(time.Hour)
	h.wantStatus(p, approver.StatusUsable)
	if len(h.mails) != 2 || h.mails[0].To != p.Email {
		t.Errorf("got %d mails, want one of the row and one of the record", len(h.mails))
	}
}

func TestAPasskeyThatNoOneAdmitsIsRefusedWhenItsSignatureEnds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.passkey("ann", signer.RightApprove)
	h.must(h.enrol(p))
	h.now = h.now.Add(6 * time.Hour)
	h.must(h.book.RunPass(t.Context(), false))
	h.wantStatus(p, approver.StatusRefused)
	h.must(h.book.RunPass(t.Context(), true))
	var n int
	h.must(h.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'approver.refused'`).Scan(&n))
	if n != 1 {
		t.Errorf("got %d entries of one refusal", n)
	}
	again := h.passkey("ann", signer.RightApprove)
	again.CredentialID = []byte("another one")
	h.must(h.enrol(again))
}

// Rule SA-9.
func TestOnePersonHasOneAddress(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.must(h.enrol(h.passkey("ann", signer.RightApprove)))
	twin := h.passkey("ann", signer.RightEnrol)
	twin.Email = "other@example.com"
	h.wantRefused("a second address", h.enrol(twin), "under another e-mail address")
	stranger := h.passkey("eve", signer.RightApprove)
	stranger.Email = "ann@example.com"
	h.wantRefused("the address of another", h.enrol(stranger), "Another person has passkeys")
	upper := h.passkey("ben", signer.RightApprove)
	upper.Email = "Ben@example.com"
	h.wantRefused("another form of an address", h.enrol(upper), "lower case")
	stolen := h.passkey("ben", signer.RightApprove)
	request := stolen.Request(t, h.installation, h.now.Add(time.Hour))
	h.wantRefused("the passkey of another person", h.do(func(ctx context.Context, tx pg.Tx) error {
		_, err := h.book.Enrol(ctx, tx, audit.User("usr_eve"), request)
		return err
	}), "own passkey")
	request.Right = signer.RightEnrol
	h.wantRefused("a right that was not signed", h.do(func(ctx context.Context, tx pg.Tx) error {
		_, err := h.book.Enrol(ctx, tx, actorOf(stolen), request)
		return err
	}), "other words")
	var n int
	h.must(h.owner.QueryRow(t.Context(), `SELECT count(*) FROM approver_keys`).Scan(&n))
	if n != 1 {
		t.Errorf("got %d passkeys, want that of ann alone", n)
	}
}

// Rules SA-2, SA-3, SA-4 and SA-10.
func TestColleaguesAdmitRetireAndChangeTheRule(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	approve, enrol := h.founders()
	proposal, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2})
	h.must(err)
	_, err = h.propose(enrol[1], signer.ApprovalRule{Quorum: 1})
	h.wantRefused("a second open proposal", err, "Another rule is proposed")
	h.wantRefused("a passkey for payments", h.signRule(proposal, approve[0]), "for payments and not for people")
	h.must(h.do(func(ctx context.Context, tx pg.Tx) error {
		return h.book.WithdrawProposal(ctx, tx, actorOf(enrol[0]), org, proposal.ID)
	}))
	_, err = h.propose(enrol[1], signer.ApprovalRule{Quorum: 3})
	h.wantRefused("a quorum that cannot be met", err, "2 have a passkey")
	set := h.setRule(signer.ApprovalRule{Quorum: 2, Returns: true}, enrol...)
	if rule, pending, err := h.rule(); err != nil || rule == nil || rule.Quorum != 2 || pending != nil {
		t.Fatalf("got %v %v %v, want version 1 with two people at once", rule, pending, err)
	}
	h.wantRefused("withdrawing a rule that holds", h.do(func(ctx context.Context, tx pg.Tx) error {
		return h.book.WithdrawProposal(ctx, tx, actorOf(enrol[0]), org, set.ID)
	}), "can no longer be withdrawn")
	h.wantRefused("a retirement that leaves too few", h.retire(actorOf(approve[0]), approve[0], nil), "fewer people")

	cleo := h.passkey("cleo", signer.RightApprove)
	h.must(h.enrol(cleo))
	h.wantRefused("an admission by a passkey for payments", h.admit(approve[0], cleo),
		"for payments and not for people")
	h.must(h.admit(enrol[0], cleo))
	h.must(h.book.FinishKey(t.Context(), cleo.ID))
	h.wantStatus(cleo, approver.StatusWaiting)
	h.must(h.admit(enrol[1], cleo))
	h.must(h.book.FinishKey(t.Context(), cleo.ID))
	h.wantStatus(cleo, approver.StatusCoolingOff)
	h.now = h.now.Add(time.Hour)

	h.must(h.retire(actorOf(approve[0]), approve[0], nil))
	h.must(h.book.FinishKey(t.Context(), approve[0].ID))
	h.wantStatus(approve[0], approver.StatusRetired)
	request := approve[0].Request(t, h.installation, h.now.Add(time.Hour))
	if _, err := h.signer.EnrolKey(t.Context(), request); err == nil {
		t.Error("the signer still has a passkey that was retired")
	}
	h.setRule(signer.ApprovalRule{Quorum: 2, Returns: true, OwnPayments: true}, enrol...)
	if rule, _, err := h.rule(); err != nil || rule == nil || rule.Version != 2 {
		t.Errorf("a tighter rule: got %v %v, want it at once", rule, err)
	}
	h.setRule(signer.ApprovalRule{Quorum: 1}, enrol...)
	rule, pending, err := h.rule()
	if err != nil || rule == nil || rule.Version != 2 || pending == nil || pending.Rule.Version != 3 {
		t.Errorf("a looser rule: got %v %v %v, want it to cool off", rule, pending, err)
	}
	h.now = h.now.Add(time.Hour)
	if rule, _, err := h.rule(); err != nil || rule == nil || rule.Version != 3 {
		t.Errorf("a looser rule after its cooling-off: got %v %v", rule, err)
	}
}

// Rule SA-8.
func TestARowWithoutTheProofOfTheSignerCountsForNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders()
	set := h.setRule(signer.ApprovalRule{Quorum: 2}, enrol...)
	eve := h.passkey("eve", signer.RightEnrol)
	h.must(h.enrol(eve))
	check := func() error {
		words := func(c signer.StatementContext) signer.Statement {
			return signer.RetireStatement(signer.Retirement{OrgID: org, ID: "x"}, c)
		}
		signature := h.sign(eve, words)
		return h.do(func(ctx context.Context, tx pg.Tx) error {
			return h.book.CheckSignature(ctx, tx, org, eve.Person, signer.RightEnrol, signature, words)
		})
	}
	h.wantRefused("a passkey that waits", check(), "not admitted yet")
	h.exec(`UPDATE approver_keys k SET (usable_from, proof, journal_id, journal_seq, is_founded) =
		(SELECT o.usable_from, o.proof, o.journal_id, o.journal_seq, o.is_founded
			FROM approver_keys o WHERE o.key_id = $2)
		WHERE k.key_id = $1`, eve.ID, enrol[0].ID)
	if err := check(); !errors.Is(err, approver.ErrProof) {
		t.Errorf("the proof of another passkey: got %v, want it not accepted", err)
	}
	h.wantStatus(eve, approver.StatusRefused)
	h.exec(`UPDATE approver_keys SET email = 'eve@example.com' WHERE key_id = $1`, enrol[1].ID)
	h.wantStatus(enrol[1], approver.StatusRefused)
	h.exec(`UPDATE approval_rules SET rule = jsonb_set(rule, '{quorum}', '1') WHERE proposal_id = $1`, set.ID)
	if _, _, err := h.rule(); !errors.Is(err, approver.ErrProof) {
		t.Errorf("a rule that was changed: got %v, want it not accepted", err)
	}
}

// Rule SA-12.
func TestAnAnswerThatWasLostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	whole, broken := h.book, h.serviceWith(lossy{h.signer})
	_, enrol := h.founders()
	p := h.passkey("cleo", signer.RightEnrol)
	h.must(h.enrol(p))
	h.order(p)
	if err := broken.FinishKey(t.Context(), p.ID); !errors.Is(err, errLost) {
		t.Errorf("got %v, want the lost answer", err)
	}
	h.wantStatus(p, approver.StatusWaiting)
	h.now = h.now.Add(7 * time.Hour) // the signature of the enrolment ended meanwhile
	h.must(whole.RunPass(t.Context(), false))
	h.wantStatus(p, approver.StatusUsable)

	proposal, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2})
	h.must(err)
	h.must(h.signRule(proposal, enrol[0]))
	h.must(h.signRule(proposal, enrol[1]))
	if err := broken.FinishRule(t.Context(), proposal.ID); !errors.Is(err, errLost) {
		t.Errorf("got %v, want the lost answer", err)
	}
	if rule, pending, err := h.rule(); err != nil || rule != nil || pending == nil {
		t.Errorf("got %v %v %v, want a rule without an answer", rule, pending, err)
	}
	h.now = h.now.Add(2 * time.Hour)
	h.must(whole.RunPass(t.Context(), false))
	if rule, _, err := h.rule(); err != nil || rule == nil {
		t.Errorf("got %v %v, want the rule", rule, err)
	}
	h.must(h.retire(actorOf(p), p, nil))
	if err := broken.FinishKey(t.Context(), p.ID); !errors.Is(err, errLost) {
		t.Errorf("got %v, want the lost answer", err)
	}
	h.must(whole.RunPass(t.Context(), false))
	var open int
	h.must(h.owner.QueryRow(t.Context(),
		`SELECT count(*) FROM approver_keys WHERE retired_at IS NOT NULL AND retired_seq IS NULL`).Scan(&open))
	if open != 0 {
		t.Errorf("got %d retirements of which the signer has not heard", open)
	}
}

// A passkey that the rule needs ends by the order of a person at the signer's host, and the server learns of it. Rule
// SA-3.
func TestTheHostEndsAPasskeyThatTheRuleNeeds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	approve, enrol := h.founders()
	h.setRule(signer.ApprovalRule{Quorum: 2}, enrol...)
	h.wantRefused("without the host", h.retire(actorOf(approve[0]), approve[0], nil), "fewer people")
	h.must(h.book.RunPass(t.Context(), true))
	h.wantStatus(approve[0], approver.StatusUsable)

	h.must(hostorders.Append(h.files.Journal, hostorders.Order{
		OrgID: org, RetiredID: approve[0].ID, Reason: "stolen",
	}, h.now))
	h.mails = nil
	h.must(h.book.RunPass(t.Context(), true))
	h.must(h.book.RunPass(t.Context(), true))
	h.wantStatus(approve[0], approver.StatusRetired)
	h.wantStatus(approve[1], approver.StatusUsable)
	if k := h.load(approve[0]); k.RetiredBy != "SYSTEM signer-host" {
		t.Errorf("got it retired by %q, want the host", k.RetiredBy)
	}
	if len(h.mails) != 2 { // ann and ben
		t.Errorf("got %d mails, want each person told once", len(h.mails))
	}
	var told int
	h.must(h.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'approver.retired'
		AND resource_id = $1 AND (actor_kind, actor_id) = ('SYSTEM', 'signer-host')`, approve[0].ID).Scan(&told))
	if told != 1 {
		t.Errorf("got %d entries of the audit log, want one", told)
	}
	request := approve[0].Request(t, h.installation, h.now.Add(time.Hour))
	if _, err := h.signer.EnrolKey(t.Context(), request); err == nil {
		t.Error("the signer still has the passkey")
	}
}

// Rule SA-12.
func TestAnOldBackupBringsNoRetiredPasskeyBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	approve, _ := h.founders()
	h.must(h.retire(actorOf(approve[0]), approve[0], nil))
	h.must(h.book.FinishKey(t.Context(), approve[0].ID))
	h.exec(`UPDATE approver_keys SET retired_at = NULL, retired_by = NULL, retired_seq = NULL WHERE key_id = $1`,
		approve[0].ID)
	h.wantStatus(approve[0], approver.StatusUsable)
	h.must(h.book.RunPass(t.Context(), true))
	h.wantStatus(approve[0], approver.StatusRefused)
	h.wantStatus(approve[1], approver.StatusUsable)
}

// Rule SA-8.
func TestTheDatabaseKeepsWhatWasAskedAndAnswered(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders()
	h.setRule(signer.ApprovalRule{Quorum: 2}, enrol...)
	h.must(h.enrol(h.passkey("dan", signer.RightApprove)))
	superuser := func(sql string) error {
		_, err := h.owner.Exec(t.Context(), sql)
		return err
	}
	for _, sql := range []string{
		`UPDATE approver_keys SET key_right = 'ENROL'`, `UPDATE approver_keys SET public_key = 'x'`,
		`UPDATE approver_keys SET person = 'USER x'`, `UPDATE approver_keys SET email = 'x@y'`,
		`UPDATE approver_keys SET possession = '{}'`, `UPDATE approver_keys SET usable_from = now()`,
		`UPDATE approver_keys SET proof = 'x' WHERE proof IS NOT NULL`, `DELETE FROM approver_keys`,
		`TRUNCATE approver_keys CASCADE`, `UPDATE approval_rules SET rule = '{}'`,
		`UPDATE approval_rules SET refusal = 'x'`,
		`UPDATE approval_rules SET proof = 'x'`, `DELETE FROM approval_rules`,
		`UPDATE approval_rule_signatures SET signature = '{}'`, `DELETE FROM approval_rule_signatures`,
		`UPDATE approver_admissions SET signature = '{}'`, `DELETE FROM approver_admissions`,
	} {
		if err := superuser(sql); err == nil {
			t.Errorf("%s: got no error", sql)
		}
		err := h.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("%s in a transaction of the organization: got no error", sql)
		}
	}
	h.must(h.db.InOrg(t.Context(), "org_2", func(ctx context.Context, tx pg.Tx) error {
		keys, err := h.book.ListKeys(ctx, tx, org)
		if len(keys) != 0 {
			t.Errorf("another organization sees %d passkeys", len(keys))
		}
		return err
	}))
}

// Rule SA-10.
func TestARuleThatTheSignerWouldRefuseIsNotProposed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders()
	token := signer.AssetRule{
		Chain: signertest.Chain, Contract: signertest.Token, Threshold: money.Units(50), DayMax: money.Units(100),
	}
	other := func(change func(a *signer.AssetRule)) signer.AssetRule {
		a := token
		change(&a)
		return a
	}
	for what, c := range map[string]struct {
		asset signer.AssetRule
		words string
	}{
		"the same asset again": {token, "named twice"},
		"a zero threshold": {other(func(a *signer.AssetRule) {
			a.Contract, a.Threshold = "", money.Zero
		}), "left out"},
		"a contract in small letters": {other(func(a *signer.AssetRule) {
			a.Contract = chain.Address(strings.ToLower(string(a.Contract)))
		}), "canonical form"},
		"no contract":            {other(func(a *signer.AssetRule) { a.Contract = "USDC" }), "canonical form"},
		"a chain that is absent": {other(func(a *signer.AssetRule) { a.Chain = "DOGE" }), "no chain"},
	} {
		_, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2, Assets: []signer.AssetRule{token, c.asset}})
		h.wantRefused(what, err, c.words)
	}
	_, err := h.propose(enrol[0], signer.ApprovalRule{
		Quorum: 2, Assets: slices.Repeat([]signer.AssetRule{token}, signer.RuleAssetsMax+1),
	})
	h.wantRefused("too many assets", err, "at most")
	coin := other(func(a *signer.AssetRule) { a.Contract = "" })
	h.setRule(signer.ApprovalRule{Quorum: 2, Assets: []signer.AssetRule{token, coin}}, enrol...)
	if rule, _, err := h.rule(); err != nil || rule == nil || len(rule.Assets) != 2 {
		t.Errorf("got %v %v, want the rule with a token and the coin", rule, err)
	}
}

// A crash between the commit of a row and the call of the signer. Rule SA-12.
func TestAPassAsksTheSignerForWhatItNeverHeardOf(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders()
	dan := h.passkey("dan", signer.RightApprove)
	h.found(dan)
	p := h.passkey("cleo", signer.RightApprove)
	h.must(h.enrol(p))
	h.order(p)
	proposal, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2})
	h.must(err)
	h.must(h.signRule(proposal, enrol[0]))
	h.must(h.signRule(proposal, enrol[1]))
	h.must(h.retire(actorOf(dan), dan, nil))
	h.must(h.book.RunPass(t.Context(), false))
	h.wantStatus(p, approver.StatusCoolingOff)
	var open int
	h.must(h.owner.QueryRow(t.Context(),
		`SELECT count(*) FROM approver_keys WHERE retired_at IS NOT NULL AND retired_seq IS NULL`).Scan(&open))
	if open != 0 {
		t.Errorf("got %d retirements of which the signer has not heard", open)
	}
	if rule, _, err := h.rule(); err != nil || rule == nil {
		t.Errorf("got %v %v, want the rule", rule, err)
	}
}

// Rule SA-8.
func TestNoRoleOfTheServiceChangesWhatTheSignerAnswered(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders()
	h.setRule(signer.ApprovalRule{Quorum: 2}, enrol...)
	for _, sql := range []string{
		`UPDATE approver_keys SET key_right = 'ENROL'`, `UPDATE approver_keys SET public_key = 'x'`,
		`UPDATE approver_keys SET usable_from = '2020-01-01'`, `UPDATE approver_keys SET proof = 'x'`,
		`UPDATE approver_keys SET is_founded = NOT is_founded`, `DELETE FROM approver_keys`,
		`UPDATE approval_rules SET rule = '{}'`, `UPDATE approval_rules SET usable_from = '2020-01-01'`,
		`UPDATE approval_rules SET withdrawn_at = now()`, `DELETE FROM approval_rules`,
		`UPDATE approval_rule_signatures SET signature = '{}'`, `DELETE FROM approval_rule_signatures`,
		`DELETE FROM approver_admissions`,
	} {
		for role, in := range map[string]func(context.Context, func(context.Context, pg.Tx) error) error{
			"coffer_system": h.db.InSystem, "coffer_reader": h.db.Snapshot,
		} {
			err := in(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			})
			if err == nil {
				t.Errorf("%s as %s: got no error", sql, role)
			}
		}
	}
	if rule, _, err := h.rule(); err != nil || rule == nil || rule.Quorum != 2 {
		t.Errorf("got %v %v, want the rule as it was", rule, err)
	}
}

// Rule SA-11.
func TestOwnersAndPeopleWithPasskeysGetEachMailOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, enrol := h.founders() // ann and ben have two passkeys each
	gone := h.passkey("gone", signer.RightApprove)
	h.found(gone)
	h.must(h.retire(actorOf(gone), gone, nil))
	h.must(h.do(func(ctx context.Context, tx pg.Tx) error {
		for email, role := range map[string]identity.Role{
			enrol[0].Email: identity.Owner, "zoe@example.com": identity.Owner, "max@example.com": identity.Finance,
		} {
			if _, err := member.Add(ctx, tx, audit.System("test"), org, email, "One", role); err != nil {
				return err
			}
		}
		return nil
	}))
	h.mails = nil
	_, err := h.propose(enrol[0], signer.ApprovalRule{Quorum: 2})
	h.must(err)
	var got []string
	for _, m := range h.mails {
		got = append(got, m.To)
	}
	if want := []string{enrol[0].Email, enrol[1].Email, "zoe@example.com"}; !slices.Equal(got, want) {
		t.Errorf("got mails to %v, want %v", got, want)
	}
}
