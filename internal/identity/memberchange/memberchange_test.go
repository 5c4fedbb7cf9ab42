package memberchange_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// testEnv is an organization on a real database, with a clock of the test.
type testEnv struct {
	t       *testing.T
	db      *pg.DB
	service *memberchange.Service
	orgID   string

	mu    sync.Mutex
	at    time.Time
	mails []mail.Message
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	h := &testEnv{t: t, at: time.Now().UTC().Truncate(time.Millisecond)}
	h.db = pgtest.NewWithClock(t, h.now)
	made, _, err := org.Create(t.Context(), h.db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	h.orgID = made.ID
	h.service = &memberchange.Service{
		DB: h.db, Mails: h, Delay: memberchange.DelayDefault, URL: "https://pay.example.com/settings/changes/",
	}
	return h
}

func (h *testEnv) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *testEnv) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// Queue keeps the mails.
func (h *testEnv) Queue(_ context.Context, _ pg.Tx, m mail.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mails = append(h.mails, m)
	return nil
}

// told returns the recipients of the mails since the last call.
func (h *testEnv) told() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var recipients []string
	for _, m := range h.mails {
		recipients = append(recipients, m.To)
	}
	h.mails = nil
	return strings.Join(recipients, " ")
}

// add adds a person who can sign in.
func (h *testEnv) add(email string, roles ...identity.Role) member.Member {
	h.t.Helper()
	var p member.Member
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if p, err = member.Add(ctx, tx, audit.System("test"), h.orgID, email, "Ada", roles...); err != nil {
			return err
		}
		const hash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA"
		a, err := account.Create(ctx, tx, account.MemberSide, email, "Ada", "", hash)
		if err != nil {
			return err
		}
		_, err = member.JoinAccount(ctx, tx, p.ID, a.ID)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.pass(memberchange.DelayDefault) // The person has had the roles for a day.
	return p
}

func (h *testEnv) settings() org.Settings {
	h.t.Helper()
	var s org.Settings
	err := h.db.ReadOrg(h.t.Context(), h.orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = org.SettingsOf(ctx, tx, h.orgID)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *testEnv) request(requestID string) memberchange.Request {
	h.t.Helper()
	var r memberchange.Request
	err := h.db.ReadOrg(h.t.Context(), h.orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = memberchange.ByID(ctx, tx, h.orgID, requestID)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// change changes a setting with the settings that hold now as those that were seen.
func (h *testEnv) change(m member.Member, name, value string) (memberchange.Outcome, error) {
	h.t.Helper()
	return h.service.Change(h.t.Context(), m, org.Changes{name: []byte(value)}, h.settings().UpdatedAt)
}

// mustWait requests a change that has to wait, and returns it.
func (h *testEnv) mustWait(m member.Member, name, value string) memberchange.Request {
	h.t.Helper()
	outcome, err := h.change(m, name, value)
	if err != nil {
		h.t.Fatal(err)
	}
	if outcome.Waiting == nil {
		h.t.Fatalf("got %s %s in force, want it to wait", name, value)
	}
	return *outcome.Waiting
}

func (h *testEnv) mustHold(m member.Member, name, value string) {
	h.t.Helper()
	outcome, err := h.change(m, name, value)
	if err != nil {
		h.t.Fatal(err)
	}
	if outcome.Waiting != nil {
		h.t.Fatalf("got %s %s waiting, want it in force", name, value)
	}
}

func (h *testEnv) wantQuorum(want int) {
	h.t.Helper()
	if got := h.settings().ApprovalQuorum; got != want {
		h.t.Errorf("got a quorum of %d, want %d", got, want)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}

// audited returns the acts of the audit log about a request.
func (h *testEnv) audited(requestID string) string {
	h.t.Helper()
	var acts string
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT coalesce(string_agg(replace(action, 'member_change.', ''), ' ' ORDER BY audit_id), '') FROM audit_log
		WHERE resource_id = $1`, requestID).Scan(&acts)
	if err != nil {
		h.t.Fatal(err)
	}
	return acts
}

// What loosens a control waits for another person, what tightens one holds at once, and both are in the audit
// log. Rules PAGE-24, PAGE-26, PAGE-27.
func TestLooseningWaitsForAnotherPersonAndTighteningHolds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, ben := h.add("ann@example.com", identity.Owner), h.add("ben@example.com", identity.Admin)
	h.add("dev@example.com", identity.Developer)
	h.mustHold(ann, "approvalQuorum", "3")
	h.wantQuorum(3)
	if got := h.told(); got != "" {
		t.Errorf("got mails to %q about a change that holds, want none", got)
	}

	r := h.mustWait(ann, "approvalQuorum", "2")
	h.wantQuorum(3)
	if r.TakesEffectAt != nil {
		t.Errorf("got a change that takes effect at %v, want one that waits for a person", r.TakesEffectAt)
	}
	if got := h.told(); got != "ben@example.com" {
		t.Errorf("got mails to %q, want one to the other person with the right", got)
	}
	// The second of two clicks, also that of a colleague, is the same request.
	if again := h.mustWait(ann, "approvalQuorum", "2"); again.ID != r.ID {
		t.Errorf("got the request %s, want %s again", again.ID, r.ID)
	}
	if again := h.mustWait(ben, "approvalQuorum", "2"); again.ID != r.ID {
		t.Errorf("got the request %s of a colleague, want %s again", again.ID, r.ID)
	}
	h.pass(2 * memberchange.DelayDefault)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wantQuorum(3)

	if _, err := h.service.Approve(t.Context(), ben, r.ID); err != nil {
		t.Fatal(err)
	}
	h.wantQuorum(2)
	if got := h.told(); got != "ann@example.com" {
		t.Errorf("got mails to %q, want one to the requester", got)
	}
	_, err := h.service.Approve(t.Context(), ben, r.ID)
	wantCode(t, err, fault.InvalidState)
	if got := h.audited(r.ID); got != "requested approved" {
		t.Errorf("got %q in the audit log, want the request and the approval", got)
	}
	var history int
	err = pgtest.OwnerPool(t, h.db).QueryRow(t.Context(), `
		SELECT count(*) FROM audit_log WHERE action = 'settings.changed' AND detail ->> 'memberChange' = $1
			AND actor_id = $2`, r.ID, ben.ID).Scan(&history)
	if err != nil || history != 1 {
		t.Errorf("got %d rows of the setting by the approver, %v, want one", history, err)
	}
}

// The requester never approves, by no way. Rule PAGE-24.
func TestTheRequesterNeverApproves(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, ben := h.add("ann@example.com", identity.Owner), h.add("ben@example.com", identity.Admin)
	dev := h.add("dev@example.com", identity.Developer)
	h.mustHold(ann, "approvalQuorum", "2")
	r := h.mustWait(ann, "approvalQuorum", "1")
	_, err := h.service.Approve(t.Context(), ann, r.ID)
	wantCode(t, err, fault.ApprovalRefused)
	_, err = h.service.Reject(t.Context(), ann, r.ID)
	wantCode(t, err, fault.ApprovalRefused)
	_, err = h.service.Retract(t.Context(), ben, r.ID)
	wantCode(t, err, fault.ApprovalRefused)
	_, err = h.service.Approve(t.Context(), dev, r.ID)
	wantCode(t, err, fault.ScopeMissing)
	_, err = h.change(dev, "approvalQuorum", "1")
	wantCode(t, err, fault.ScopeMissing)
	_, err = h.change(ann, "ipAllowlist", "[]")
	wantCode(t, err, fault.OperatorOnly)

	owner := pgtest.OwnerPool(t, h.db)
	for constraint, sql := range map[string]string{
		"member_changes_two_persons": `SET status = 'APPROVED', decided_by = requested_by, decided_at = now()`,
		"member_changes_own": `SET status = 'RETRACTED', decided_by = '` + ben.ID + `',
			decided_at = now()`,
		"member_changes_in_time": `SET status = 'EFFECTIVE', decided_at = now()`,
		"member_changes_decider": `SET status = 'APPROVED', decided_by = 'usr_x', decided_at = now()`,
		"member_changes_written_once": `
			SET wanted = '{"approvalQuorum": 1, "twoFactorUsdThreshold": null}'`,
	} {
		if _, err := owner.Exec(t.Context(), `UPDATE member_changes `+sql); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want a refusal by the database", constraint, err)
		}
	}
	if _, err := h.service.Retract(t.Context(), ann, r.ID); err != nil {
		t.Fatal(err)
	}
	h.wantQuorum(2)
	_, err = h.service.Approve(t.Context(), ben, r.ID)
	wantCode(t, err, fault.InvalidState)
	if got := h.audited(r.ID); got != "requested retracted" {
		t.Errorf("got %q in the audit log, want the request and its retraction", got)
	}
}

// The change of a person who is alone with the right takes effect after a day, and not before. Rule PAGE-25.
func TestTheChangeOfALonePersonTakesEffectAfterADay(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Owner)
	h.add("dev@example.com", identity.Developer)
	h.mustHold(ann, "customerWithdrawUsdThreshold", `"100"`)
	r := h.mustWait(ann, "customerWithdrawUsdThreshold", `"100000"`)
	if r.TakesEffectAt == nil || !r.TakesEffectAt.Equal(h.now().Add(memberchange.DelayDefault)) {
		t.Fatalf("got it in effect at %v, want a day from now", r.TakesEffectAt)
	}
	if got := h.told(); got != "ann@example.com" {
		t.Errorf("got mails to %q, want one to the person, whose session may be in other hands", got)
	}
	h.pass(memberchange.DelayDefault - time.Second)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.settings().CustomerWithdrawUSDThreshold.String(); got != "100" {
		t.Errorf("got a threshold of %s before the day is over, want 100", got)
	}
	h.pass(time.Second)
	for range 2 {
		if err := h.service.ApplyDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.settings().CustomerWithdrawUSDThreshold.String(); got != "100000" {
		t.Errorf("got a threshold of %s after the day, want 100000", got)
	}
	if got := h.audited(r.ID); got != "requested effective" {
		t.Errorf("got %q in the audit log, want it once", got)
	}

	// Retracted in time, it takes no effect.
	r = h.mustWait(ann, "customerWithdrawUsdThreshold", `null`)
	if _, err := h.service.Retract(t.Context(), ann, r.ID); err != nil {
		t.Fatal(err)
	}
	h.pass(memberchange.DelayDefault)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.settings().CustomerWithdrawUSDThreshold; got == nil {
		t.Error("got no threshold, want the retracted change without effect")
	}
}

// A delay of 0, as in the local world, lets the change of a lone person hold at once.
func TestWithoutADelayTheChangeOfALonePersonHolds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.service.Delay = 0
	ann := h.add("ann@example.com", identity.Owner)
	h.mustHold(ann, "approvalQuorum", "2")
	h.mustHold(ann, "approvalQuorum", "1")
	h.wantQuorum(1)
}

// Settings or roles that changed meanwhile stop a change, and a request without a decision ends. Rules PAGE-25
// and PAGE-26.
func TestAnOutdatedChangeIsNotWritten(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Owner)
	h.mustHold(ann, "approvalQuorum", "3")
	lone := h.mustWait(ann, "approvalQuorum", "2")
	h.mustHold(ann, "approvalQuorum", "4")
	ben := h.add("ben@example.com", identity.Owner)
	_, err := h.service.Approve(t.Context(), ben, lone.ID)
	wantCode(t, err, fault.InvalidState)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wantQuorum(4)
	if got := h.request(lone.ID).Status; got != memberchange.Outdated {
		t.Errorf("got the request %s, want %s", got, memberchange.Outdated)
	}

	// Of two persons with pages of the same moment, the later does not overwrite what the earlier wrote.
	seen := h.settings().UpdatedAt
	h.pass(time.Minute)
	if _, err := h.service.Change(t.Context(), ann, org.Changes{"approvalQuorum": []byte("5")}, seen); err != nil {
		t.Fatal(err)
	}
	_, err = h.service.Change(t.Context(), ben, org.Changes{"approvalQuorum": []byte("6")}, seen)
	wantCode(t, err, fault.InvalidState)
	h.wantQuorum(5)

	expired := h.mustWait(ann, "approvalQuorum", "1")
	h.pass(memberchange.PendingPeriod)
	if got := h.request(expired.ID).Status; got != memberchange.Expired {
		t.Errorf("got the request %s, want %s before a job has written that", got, memberchange.Expired)
	}
	_, err = h.service.Approve(t.Context(), ben, expired.ID)
	wantCode(t, err, fault.InvalidState)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.audited(expired.ID); got != "requested expired" {
		t.Errorf("got %q in the audit log, want the request and its end", got)
	}
	h.wantQuorum(5)
}

// A person who lost the right meanwhile changes nothing.
func TestTheRightIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Admin)
	h.mustHold(ann, "approvalQuorum", "3")
	r := h.mustWait(ann, "approvalQuorum", "1")
	if _, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), `UPDATE people SET roles = '{VIEWER}'`); err != nil {
		t.Fatal(err)
	}
	_, err := h.change(ann, "approvalQuorum", "4")
	wantCode(t, err, fault.ScopeMissing)
	h.pass(memberchange.DelayDefault)
	if err := h.service.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wantQuorum(3)
	if got := h.request(r.ID).Status; got != memberchange.Outdated {
		t.Errorf("got the request %s, want %s", got, memberchange.Outdated)
	}
}

// A stolen session of a lone owner shortens the day by no accomplice: neither by one who is invited before the
// request nor by one who is invited after it. Rule PAGE-24.
func TestAnAccompliceShortensNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Owner)
	h.mustHold(ann, "approvalQuorum", "3")
	eve := h.add("eve@example.com", identity.Owner)
	h.pass(time.Minute - memberchange.DelayDefault) // Eve has the role for a minute.
	r := h.mustWait(ann, "approvalQuorum", "1")
	if r.TakesEffectAt == nil || !r.TakesEffectAt.Equal(h.now().Add(memberchange.DelayDefault)) {
		t.Fatalf("got it in effect at %v, want a day from now", r.TakesEffectAt)
	}
	if got := h.told(); got != "eve@example.com ann@example.com" {
		t.Errorf("got mails to %q, want one to each person with the right", got)
	}
	_, err := h.service.Approve(t.Context(), eve, r.ID)
	wantCode(t, err, fault.ApprovalRefused)
	h.wantQuorum(3)
	if _, err := h.service.Reject(t.Context(), eve, r.ID); err != nil {
		t.Errorf("a rejection, which tightens: got %v", err)
	}
}

// A person who comes back is as new as one who is invited: the access that ended long ago counts for nothing.
// Rule PAGE-24.
func TestARestoredPersonShortensNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, eve := h.add("ann@example.com", identity.Owner), h.add("eve@example.com", identity.Owner)
	h.pass(memberchange.DelayDefault)
	h.mustHold(ann, "approvalQuorum", "3")
	restore := func(ctx context.Context, tx pg.Tx) error {
		a, _, err := account.LoadByEmail(ctx, tx, account.MemberSide, eve.Email)
		if err != nil {
			return err
		}
		if err := member.EndAccess(ctx, tx, audit.System("test"), eve); err != nil {
			return err
		}
		if eve, err = member.RestoreAccess(
			ctx, tx, audit.System("test"), eve, "Ada", []identity.Role{identity.Owner},
		); err != nil {
			return err
		}
		_, err = member.JoinAccount(ctx, tx, eve.ID, a.ID)
		return err
	}
	if err := h.db.InSystem(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Minute)
	r := h.mustWait(ann, "approvalQuorum", "1")
	_, err := h.service.Approve(t.Context(), eve, r.ID)
	wantCode(t, err, fault.ApprovalRefused)
	h.wantQuorum(3)
}

// Two persons who decide at once decide once.
func TestTwoPersonsDecideOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Owner)
	others := []member.Member{h.add("ben@example.com", identity.Owner), h.add("cal@example.com", identity.Admin)}
	h.mustHold(ann, "approvalQuorum", "2")
	r := h.mustWait(ann, "approvalQuorum", "1")
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, m := range others {
		wg.Go(func() { _, errs[i] = h.service.Approve(t.Context(), m, r.ID) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("got %v and %v, want one approval and one refusal", errs[0], errs[1])
	}
	if got := h.audited(r.ID); got != "requested approved" {
		t.Errorf("got %q in the audit log, want one approval", got)
	}
	h.wantQuorum(1)
}

// Another organization sees and decides nothing.
func TestAnotherOrganizationHasNoRequest(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.add("ann@example.com", identity.Owner)
	h.add("ben@example.com", identity.Owner)
	h.mustHold(ann, "approvalQuorum", "2")
	r := h.mustWait(ann, "approvalQuorum", "1")
	other, _, err := org.Create(t.Context(), h.db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	h.orgID = other.ID
	eve := h.add("eve@example.com", identity.Owner)
	_, err = h.service.Approve(t.Context(), eve, r.ID)
	wantCode(t, err, fault.CodeNotFound)
	err = h.db.ReadOrg(t.Context(), other.ID, func(ctx context.Context, tx pg.Tx) error {
		_, err := memberchange.ByID(ctx, tx, ann.OrgID, r.ID)
		return err
	})
	wantCode(t, err, fault.CodeNotFound)
}
