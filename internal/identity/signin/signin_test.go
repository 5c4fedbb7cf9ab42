package signin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Rules SIGN-2 and SIGN-7.
func TestAPersonIsInvitedAndEntersOnlyWithASecondFactor(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.add(e.org.ID, "Ann@Example.com", identity.Owner)
	i, token, err := signin.InviteFromTerminal(ctx, e.db, terminal, e.org.ID, "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a mail scanner opens the link
		found, err := e.LookAtInvitation(ctx, token)
		if err != nil || found.ID != i.ID || found.MemberID != p.ID || found.OrgName != "Acme" || found.HasAccount {
			t.Fatalf("got %+v, %v, want the invitation", found, err)
		}
	}
	made, err := e.AcceptInvitation(ctx, client(1), token, "Ann", "Europe/Berlin", seal.NewSecret(goodPass))
	if err != nil {
		t.Fatal(err)
	}
	sess := must[session.Session](t)(e.Authenticate(ctx, made.Token))
	if sess.State != session.MustEnrol || sess.Member.ID != "" || sess.IsOpen() {
		t.Errorf("got %+v, want a session that must enrol and shows no organization", sess)
	}
	if _, err := e.ListOrganizations(ctx, sess); !session.IsRefusal(err) {
		t.Errorf("got %v, want no look without a second factor", err)
	}
	if _, err := e.MakeRecoveryCodes(ctx, sess); !session.IsRefusal(err) {
		t.Errorf("got %v, want no recovery codes without a second factor", err)
	}
	// The link works once.
	if _, err := e.LookAtInvitation(ctx, token); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want %v", err, fault.CodeNotFound)
	}
	_, err = e.AcceptInvitation(ctx, client(2), token, "Mallory", "", seal.NewSecret(goodPass))
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("used twice: got %v, want %v", err, fault.CodeNotFound)
	}
	enrolment := must[signin.TOTPEnrolment](t)(e.StartTOTP(ctx, sess))
	if !strings.HasPrefix(enrolment.URL.Reveal(), "otpauth://totp/Coffer:ann@example.com?") {
		t.Errorf("got %v, want the URL of the account", enrolment.URL.Reveal())
	}
	if _, err := e.ConfirmTOTP(ctx, client(1), sess, seal.NewSecret("000000")); !signin.IsRefused(err) {
		t.Errorf("a wrong code: got %v, want a refusal", err)
	}
	opened := must[signin.Result](t)(e.ConfirmTOTP(ctx, client(1), sess, e.code(enrolment.Secret)))
	if !opened.Session.IsOpen() || opened.Session.Member.ID != p.ID || opened.Session.OrgName != "Acme" ||
		opened.Device.IsEmpty() || opened.Token.IsEmpty() {
		t.Errorf("got %+v, want an open session of the person", opened)
	}
	if _, err := e.Authenticate(ctx, made.Token); !session.IsRefusal(err) {
		t.Errorf("the token of before: got %v, want a refusal", err)
	}
	factors := must[account.Factors](t)(e.ListFactors(ctx, opened.Session))
	if !factors.HasTOTP || !factors.IsEnough() {
		t.Errorf("got %+v, want TOTP", factors)
	}
}

// Rule SIGN-2: not even a statement of the program opens a session without a factor.
func TestTheDatabaseOpensNoSessionWithoutASecondFactor(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	e.add(e.org.ID, "ann@example.com", identity.Owner)
	made := e.accept(e.org.ID, "ann@example.com", client(1))
	err := e.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE sessions SET state = 'OPEN', hash = sha256('x') WHERE session_id = $1`,
			made.Session.ID)
		return err
	})
	if !pg.ViolatesConstraint(err, "sessions_open_with_factor") {
		t.Errorf("got %v, want the constraint", err)
	}
}

// Rule SIGN-4.
func TestACodeCountsOnceAlsoForTwoProcesses(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	d := pgtest.NewDatabase(t)
	e := newEnvOn(t, pgtest.Open(t, d, c.Now), c)
	ctx := t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	second, err := signin.NewService(signin.Config{
		DB: pgtest.Open(t, d, c.Now), Keys: e.keys, Hasher: e.hasher, Mailer: e.mails, Side: account.MemberSide,
		Site: site, Origin: origin, Issuer: "Coffer", InvitationURL: origin + "/i/", DeviceURL: origin + "/d/",
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		code := p.code()
		var right, refused atomic.Int32
		var wg sync.WaitGroup
		for i, service := range []*signin.Service{e.Service, second, e.Service, second} {
			wg.Go(func() {
				act := signin.Act{Action: "withdrawal.decide", Resource: fmt.Sprint("wd_", i)}
				switch _, err := service.ConfirmAct(ctx, p.client, p.open, act, signin.Proof{Code: code}); {
				case err == nil:
					right.Add(1)
				case signin.IsRefused(err):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if right.Load() != 1 || refused.Load() != 3 {
			t.Fatalf("round %d: got %d accepted and %d refused, want 1 and 3", round, right.Load(), refused.Load())
		}
		e.clock.advance(30 * time.Second)
		// The right code of the next step sets the count of wrong ones back.
		p.take(must[signin.Result](t)(e.StepUp(ctx, p.client, p.open, signin.Proof{Code: p.code()})))
		e.clock.advance(30 * time.Second)
	}
	// One step either way, and no further.
	code := p.code()
	e.clock.advance(60 * time.Second)
	if _, err := e.StepUp(ctx, p.client, p.open, signin.Proof{Code: code}); !signin.IsRefused(err) {
		t.Errorf("a code of two steps ago: got %v, want a refusal", err)
	}
	e.clock.advance(-90 * time.Second)
	if _, err := e.StepUp(ctx, p.client, p.open, signin.Proof{Code: seal.NewSecret(code.Reveal()[:3] + " " +
		code.Reveal()[3:])}); err != nil {
		t.Errorf("a code of the next step, with a space: got %v", err)
	}
}

// Rule SIGN-4.
func TestTheDatabaseTakesNoStepTwice(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	e.person("ann@example.com", 1, identity.Owner)
	for name, sql := range map[string]string{
		"the same step":  `UPDATE account_totps SET last_step = last_step`,
		"a former step":  `UPDATE account_totps SET last_step = last_step - 1`,
		"another secret": `UPDATE account_totps SET sealed = '\x00', last_step = last_step + 1`,
	} {
		_, err := pgtest.OwnerPool(t, e.db).Exec(ctx, sql)
		if !pg.ViolatesConstraint(err, "account_totps_fixed") {
			t.Errorf("%s: got %v, want account_totps_fixed", name, err)
		}
	}
}

// Rule SIGN-1: known and unknown e-mails take one path to one answer. The hash function runs once for
// each, and the audit log says the same of both.
func TestAFailedSignInSaysNothing(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	e.person("ann@example.com", 1, identity.Owner)
	var first *fault.Fault
	for i, attempt := range []struct{ email, pass string }{
		{"ann@example.com", "wrong wrong wrong"},
		{"unknown@example.com", goodPass},
		{"unknown@example.com", ""},
		{"no e-mail", goodPass},
		{"", ""},
		{"ann@example.com", goodPass + "x"},
		{strings.Repeat("x", 5000), goodPass},
		{"ann@example.com", strings.Repeat("x", 100_000)},
		{"\x00\xff@example.com", goodPass},
	} {
		before := e.hasher.Count()
		_, err := e.StartWithPassword(ctx, client(100+i), attempt.email, seal.NewSecret(attempt.pass))
		f := fault.Find(err)
		if !signin.IsRefused(err) || f == nil {
			t.Fatalf("%.20q: got %v, want a refusal", attempt.email, err)
		}
		if got := e.hasher.Count() - before; got != 1 {
			t.Errorf("%.20q: got %d hashes, want 1", attempt.email, got)
		}
		if first == nil {
			first = f
		}
		if f.Error() != first.Error() || f.Kind != first.Kind || f.Advice != first.Advice || len(f.Details) != 1 {
			t.Errorf("%.20q: got %v, want %v", attempt.email, f, first)
		}
	}
	if got := e.query(`SELECT count(*)::text FROM audit_log WHERE action = 'sign_in.failed'`); got != "9" {
		t.Errorf("got %v failures in the audit log, want 9", got)
	}
	if got := e.query(`
		SELECT count(*)::text FROM audit_log
		WHERE detail::text LIKE '%unknown@%' OR detail::text LIKE '%horse%'`); got != "0" {
		t.Errorf("got %v rows with what was typed, want none", got)
	}
}

// Rules SIGN-8 and SIGN-9: ten thousand wrong passwords from elsewhere keep no owner out and cost few
// hashes.
func TestTenThousandWrongPasswordsLockNoOwnerOut(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	before := e.hasher.Count()
	var links atomic.Int32
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < 10_000; i += 4 {
				_, err := e.StartWithPassword(ctx, client(1000+i%250), p.email,
					seal.NewSecret(fmt.Sprint("guess number ", i)))
				switch {
				case signin.NeedsLink(err):
					links.Add(1)
				case !signin.IsRefused(err):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if computed := e.hasher.Count() - before; computed != 30 || links.Load() != 9970 {
		t.Errorf("got %d hashes and %d answers that ask for a link, want 30 and 9970", computed, links.Load())
	}
	// The owner's own device has its own budget.
	made, err := p.signIn(p.client)
	if err != nil || !made.Session.IsOpen() {
		t.Fatalf("the owner's device: got %v, want an open session", err)
	}
	e.clock.advance(time.Minute)
	// An unknown device of the owner needs the mailed link in addition to the password.
	fresh := client(2)
	if _, err := p.signIn(fresh); !signin.NeedsLink(err) {
		t.Fatalf("an unknown device: got %v, want a link needed", err)
	}
	if err := e.SendDeviceLink(ctx, fresh, p.email); err != nil {
		t.Fatal(err)
	}
	if got := e.mails.last(t).To; got != p.email {
		t.Errorf("got a mail to %v, want %v", got, p.email)
	}
	link := e.mails.link(t, origin+"/device/")
	confirmed := must[signin.Result](t)(e.ConfirmDevice(ctx, fresh, link))
	if !confirmed.Token.IsEmpty() || confirmed.Device.IsEmpty() {
		t.Errorf("got %+v, want a device and no session", confirmed)
	}
	if _, err := e.ConfirmDevice(ctx, client(3), link); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("a link used twice: got %v, want %v", err, fault.CodeNotFound)
	}
	fresh.Device = confirmed.Device
	if made, err := p.signIn(fresh); err != nil || !made.Session.IsOpen() {
		t.Errorf("with the link: got %v, want an open session", err)
	}
	// Another person from the attacker's networks signs in.
	e.clock.advance(time.Minute)
	other := e.person("bob@example.com", 1001, identity.Viewer)
	if _, err := other.signIn(client(1001)); err != nil {
		t.Errorf("another person: got %v", err)
	}
}

// Rule SIGN-9.
func TestAKnownDeviceHasABudgetOfItsOwn(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	for i := range 10 {
		if _, err := e.StartWithPassword(ctx, p.client, p.email,
			seal.NewSecret("wrong wrong wrong")); !signin.IsRefused(err) {
			t.Fatalf("attempt %d: got %v, want a refusal", i, err)
		}
	}
	// Its own budget is used up: it is like an unknown device now, and not locked.
	if made, err := p.signIn(p.client); err != nil || !made.Session.IsOpen() {
		t.Errorf("got %v, want an open session by the budget of the network", err)
	}
	// A stranger's device cookie, known for another account, is unknown for this one.
	other := e.person("bob@example.com", 2, identity.Viewer)
	for i := range 31 {
		c := client(500 + i%4)
		c.Device = other.client.Device
		_, err := e.StartWithPassword(ctx, c, p.email, seal.NewSecret("wrong wrong wrong"))
		if want := i >= 29; signin.NeedsLink(err) != want && i != 29 {
			t.Fatalf("attempt %d with another's device: got %v", i, err)
		}
	}
	// After a day the account's budget is whole.
	e.clock.advance(25 * time.Hour)
	if _, err := p.signIn(client(77)); err != nil {
		t.Errorf("a day later: got %v", err)
	}
	// A sign-in gives the device another token, and the one of before is unknown.
	made := must[signin.Result](t)(p.signInLater())
	if made.Device.Equal(p.client.Device) {
		t.Error("got the device token of before, want a new one")
	}
}

// A sign-in of a known device gives the budgets of its network nothing back, since it took nothing from them.
// Rule SIGN-9.
func TestAKnownDeviceGivesItsNetworkNothingBack(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	stranger := client(1) // of the same network, and no known device
	for i := range 4 {
		if _, err := e.StartWithPassword(ctx, stranger, p.email,
			seal.NewSecret("wrong wrong wrong")); !signin.IsRefused(err) {
			t.Fatalf("attempt %d: got %v, want a refusal", i, err)
		}
	}
	countFailures := func() (n int) {
		err := pgtest.OwnerPool(t, e.db).
			QueryRow(ctx, `SELECT coalesce(sum(failures), 0) FROM sign_in_failures`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := countFailures()
	if made, err := p.signIn(p.client); err != nil || !made.Session.IsOpen() {
		t.Fatalf("got %v, want an open session", err)
	}
	if got := countFailures(); got != before || before == 0 {
		t.Errorf("got %d failures that count after a sign-in of a known device, want the %d of before", got, before)
	}
}

func (p *person) signInLater() (signin.Result, error) {
	p.e.clock.advance(time.Minute)
	return p.signIn(p.client)
}

// Rule SIGN-9: a link is mailed to the owner alone, rarely, and the answer is the same for every e-mail.
func TestLinksAreRareAndSayNothing(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	before := e.mails.count()
	for range 3 {
		for _, email := range []string{p.email, "unknown@example.com", "no e-mail"} {
			if err := e.SendDeviceLink(ctx, client(5), email); err != nil {
				t.Fatalf("%s: got %v, want the same answer for all", email, err)
			}
		}
	}
	if got := e.mails.count() - before; got != 1 {
		t.Errorf("got %d mails, want 1", got)
	}
	link := e.mails.link(t, origin+"/device/")
	e.clock.advance(31 * time.Minute)
	if _, err := e.ConfirmDevice(ctx, client(5), link); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("an old link: got %v, want %v", err, fault.CodeNotFound)
	}
	var limited error
	for range 30 {
		if limited = e.SendDeviceLink(ctx, client(5), "unknown@example.com"); limited != nil {
			break
		}
	}
	if !fault.HasCode(limited, fault.RateLimited) {
		t.Errorf("got %v, want %v", limited, fault.RateLimited)
	}
}

// Rule SIGN-5.
func TestAPasskeyIsSufficientAlone(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	e.add(e.org.ID, "ann@example.com", identity.Owner)
	made := e.accept(e.org.ID, "ann@example.com", client(1))
	sess := must[session.Session](t)(e.Authenticate(ctx, made.Token))
	key := newAuthenticator(t)
	options := must[signin.PasskeyOptions](t)(e.StartPasskeyEnrolment(ctx, sess))
	answer := key.create(t, options)
	opened, err := e.FinishPasskeyEnrolment(ctx, client(1), sess, "My phone", answer)
	if err != nil || !opened.Session.IsOpen() {
		t.Fatalf("got %+v %v, want an open session", opened, err)
	}
	if _, err := e.FinishPasskeyEnrolment(ctx, client(1), opened.Session, "My phone", answer); !signin.IsRefused(err) {
		t.Errorf("the answer again: got %v, want a refusal", err)
	}
	// Any number of wrong passwords is no obstacle.
	for range 15 {
		_, _ = e.StartWithPassword(ctx, client(7), "ann@example.com", seal.NewSecret("wrong wrong wrong"))
	}
	start := func() []byte { return must[signin.PasskeyOptions](t)(e.StartPasskey(ctx, client(7))) }
	signed := key.get(t, start())
	in, err := e.FinishPasskey(ctx, client(7), signed)
	if err != nil || !in.Session.IsOpen() || in.Session.Factor != account.PasskeyFactor || in.Session.Member.ID == "" {
		t.Fatalf("got %+v %v, want an open session", in, err)
	}
	refused := func(name string, answer []byte) {
		t.Helper()
		if _, err := e.FinishPasskey(ctx, client(7), answer); !signin.IsRefused(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	refused("the same answer again", signed)
	refused("nothing", nil)
	refused("no answer", []byte(`{"id":"x"}`))
	late := key.get(t, start())
	e.clock.advance(5 * time.Minute)
	refused("too late", late)
	key.flags = userPresent
	refused("without user verification", key.get(t, start()))
	key.flags, key.origin = userPresent|userVerified, "http://localhost:9999"
	refused("another origin", key.get(t, start()))
	key.origin = origin
	stranger := newAuthenticator(t)
	stranger.id, stranger.handle = key.id, key.handle
	refused("another key", stranger.get(t, start()))
	handle := key.handle
	key.handle = []byte("another account")
	refused("another user", key.get(t, start()))
	key.handle = handle
	counter := key.counter
	key.counter = 1
	refused("a cloned authenticator", key.get(t, start()))
	key.counter = counter
	opts, err := e.operators.StartPasskey(ctx, client(7))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.operators.FinishPasskey(ctx, client(7), key.get(t, opts)); !signin.IsRefused(err) {
		t.Errorf("on the operators' side: got %v, want a refusal", err)
	}
	refused("a challenge of the other side", key.get(t, must[signin.PasskeyOptions](t)(e.operators.StartPasskey(ctx,
		client(7)))))
	if in, err := e.FinishPasskey(ctx, client(7), key.get(t, start())); err != nil || !in.Session.IsOpen() {
		t.Errorf("after all of these: got %v, want an open session", err)
	}
}

// Rules SIGN-5 and SIGN-10.
func TestAnAssertionConfirmsTheActThatWasSeen(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	key := newAuthenticator(t)
	p.take(must[signin.Result](t)(e.FinishPasskeyEnrolment(ctx, p.client, p.open, "Key",
		key.create(t, must[signin.PasskeyOptions](t)(e.StartPasskeyEnrolment(ctx, p.open))))))
	act := signin.Act{Action: "withdrawal.decide", Resource: "wd_1", Digest: []byte("100 USDC")}
	for name, other := range map[string]signin.Act{
		"another resource": {Action: act.Action, Resource: "wd_2", Digest: act.Digest},
		"another digest":   {Action: act.Action, Resource: act.Resource, Digest: []byte("900 USDC")},
		"another action":   {Action: "freeze.lift", Resource: act.Resource, Digest: act.Digest},
	} {
		signed := key.get(t, must[signin.PasskeyOptions](t)(e.StepUpOptions(ctx, p.open, act)))
		if _, err := e.ConfirmAct(ctx, p.client, p.open, other,
			signin.Proof{Assertion: signed}); !signin.IsRefused(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if _, err := e.ConfirmAct(ctx, p.client, p.open, act, signin.Proof{Assertion: signed}); !signin.IsRefused(err) {
			t.Errorf("%s: the challenge was not used up: got %v", name, err)
		}
		p.take(must[signin.Result](t)(e.StepUp(ctx, p.client, p.open, signin.Proof{
			Assertion: key.get(t, must[signin.PasskeyOptions](t)(e.StepUpOptions(ctx, p.open, signin.Act{}))),
		})))
	}
	signed := key.get(t, must[signin.PasskeyOptions](t)(e.StepUpOptions(ctx, p.open, act)))
	made, err := e.ConfirmAct(ctx, p.client, p.open, act, signin.Proof{Assertion: signed})
	if err != nil || made.Factor != account.PasskeyFactor || made.Act.Resource != "wd_1" {
		t.Errorf("got %+v %v, want the act confirmed", made, err)
	}
	if _, err := e.ConfirmAct(ctx, p.client, p.open, act, signin.Proof{Assertion: signed}); !signin.IsRefused(err) {
		t.Errorf("again: got %v, want a refusal", err)
	}
	// Another person's passkey confirms nothing in this session.
	bob := e.person("bob@example.com", 2, identity.Owner)
	opts := must[signin.PasskeyOptions](t)(e.StepUpOptions(ctx, p.open, act))
	if _, err := e.ConfirmAct(ctx, bob.client, bob.open, act, signin.Proof{Assertion: key.get(t,
		opts)}); !signin.IsRefused(err) {
		t.Errorf("in another session: got %v, want a refusal", err)
	}
}

// Rules SIGN-6 and SIGN-10.
func TestARecoveryCodeOpensOnceAndRestricts(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	p.take(must[signin.Result](t)(e.StepUp(ctx, p.client, p.open, signin.Proof{Code: p.code()})))
	codes := must[[]seal.Secret](t)(e.MakeRecoveryCodes(ctx, p.open))
	if len(codes) != 10 || len(codes[0].Reveal()) != 19 {
		t.Fatalf("got %d codes of %d characters, want 10 of 16 and hyphens", len(codes), len(codes[0].Reveal()))
	}
	use := func(code string) (signin.Result, error) {
		started, err := e.StartWithPassword(ctx, client(3), p.email, seal.NewSecret(goodPass))
		if err != nil {
			t.Fatal(err)
		}
		return e.UseRecoveryCode(ctx, client(3), started.Session, seal.NewSecret(code))
	}
	if _, err := use("0000-0000-0000-0000"); !signin.IsRefused(err) {
		t.Errorf("a wrong code: got %v, want a refusal", err)
	}
	opened, err := use(" " + strings.ToUpper(strings.ReplaceAll(codes[3].Reveal(), "-", " ")))
	if err != nil || !opened.Session.IsOpen() {
		t.Fatalf("got %v, want an open session", err)
	}
	if _, err := e.Authenticate(ctx, p.token); !session.IsRefusal(err) {
		t.Errorf("the other session: got %v, want a refusal", err)
	}
	if got := e.mails.last(t).Subject; got != "Coffer: A recovery code was used" {
		t.Errorf("got %q, want a mail about the code", got)
	}
	if _, err := use(codes[3].Reveal()); !signin.IsRefused(err) {
		t.Errorf("used twice: got %v, want a refusal", err)
	}
	sess := must[session.Session](t)(e.Authenticate(ctx, opened.Token))
	if !sess.IsRestricted(e.clock.Now()) || sess.IsSudo(e.clock.Now()) || !sess.HasFreshFactor(e.clock.Now()) {
		t.Errorf("got %+v, want a fresh factor and no sudo", sess)
	}
	_, err = e.ConfirmAct(ctx, client(3), sess, signin.Act{Action: "withdrawal.decide"}, signin.Proof{Code: p.code()})
	if !signin.IsRestricted(err) {
		t.Errorf("an act of money: got %v, want a restriction", err)
	}
	if _, err := e.InviteMember(ctx, sess, "eve@example.com", "Eve",
		[]identity.Role{identity.Admin}); !signin.IsRestricted(err) {
		t.Errorf("the team: got %v, want a restriction", err)
	}
	if _, err := e.RemoveTOTP(ctx, client(3), sess); !signin.IsRestricted(err) {
		t.Errorf("removal of a factor: got %v, want a restriction", err)
	}
	// A new authenticator app may be enrolled at once, and the restriction stays.
	enrolment := must[signin.TOTPEnrolment](t)(e.StartTOTP(ctx, sess))
	again := must[signin.Result](t)(e.ConfirmTOTP(ctx, client(3), sess, e.code(enrolment.Secret)))
	p.secret = enrolment.Secret
	e.clock.advance(time.Minute)
	sess = must[session.Session](t)(e.Authenticate(ctx, again.Token))
	_, err = e.ConfirmAct(ctx, client(3), sess, signin.Act{Action: "withdrawal.decide"}, signin.Proof{Code: p.code()})
	if !signin.IsRestricted(err) {
		t.Errorf("with the new app: got %v, want a restriction", err)
	}
	e.clock.advance(24 * time.Hour)
	in := must[signin.Result](t)(p.signIn(client(3)))
	e.clock.advance(time.Minute)
	if _, err := e.ConfirmAct(ctx, client(3), in.Session, signin.Act{Action: "withdrawal.decide"},
		signin.Proof{Code: p.code()}); err != nil {
		t.Errorf("a day later: got %v", err)
	}
}

// Rule SIGN-11.
func TestAChangeOfRolesEndsThePersonsSessions(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	owner := e.person("ann@example.com", 1, identity.Owner)
	bob := e.person("bob@example.com", 2, identity.Finance)
	owner.take(must[signin.Result](t)(e.StepUp(ctx, owner.client, owner.open, signin.Proof{Code: owner.code()})))
	changed, err := e.ChangeRoles(ctx, owner.open, bob.member.ID, []identity.Role{identity.Viewer})
	if err != nil || changed.IsAllowed(identity.WithdrawOwnMoney) {
		t.Fatalf("got %+v %v, want a viewer", changed, err)
	}
	if _, err := e.Authenticate(ctx, bob.token); !session.IsRefusal(err) {
		t.Errorf("got %v, want the session ended", err)
	}
	// A step that had begun in it writes nothing.
	if _, err := e.StepUp(ctx, bob.client, bob.open, signin.Proof{Code: bob.code()}); !session.IsRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
	again := must[signin.Result](t)(bob.signInLater())
	if len(again.Session.Member.Roles) != 1 || again.Session.Member.Roles[0] != identity.Viewer {
		t.Errorf("got %v, want a viewer", again.Session.Member.Roles)
	}
	if err := e.EndAccess(ctx, owner.open, bob.member.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, again.Token); !session.IsRefusal(err) {
		t.Errorf("got %v, want the session ended", err)
	}
	e.clock.advance(time.Minute)
	in := must[signin.Result](t)(bob.signIn(bob.client))
	if in.Session.OrgID != "" || in.Session.Member.ID != "" {
		t.Errorf("got %+v, want an account without an organization", in.Session)
	}
	if _, err := e.ChooseOrganization(ctx, bob.client, in.Session, e.org.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want %v", err, fault.CodeNotFound)
	}
	// The row stays, the command line finds no such person, and only a new invitation brings access back.
	err = e.db.ReadOrg(ctx, e.org.ID, func(ctx context.Context, tx pg.Tx) error {
		_, err := member.ByEmail(ctx, tx, bob.email)
		return err
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want %v", err, fault.CodeNotFound)
	}
	owner.take(must[signin.Result](t)(e.StepUp(ctx, owner.client, owner.open, signin.Proof{Code: owner.code()})))
	back, err := e.InviteMember(ctx, owner.open, bob.email, "Bob", []identity.Role{identity.Approver})
	if err != nil || back.ID != bob.member.ID || back.AccountID != "" {
		t.Fatalf("got %+v %v, want the person without an account", back, err)
	}
	if _, err := e.ChooseOrganization(ctx, bob.client, in.Session, e.org.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("before the invitation is accepted: got %v, want %v", err, fault.CodeNotFound)
	}
	link := e.mails.link(t, origin+"/invitation/")
	if _, err := e.AcceptInvitation(ctx, client(8), link, "Bob", "", seal.NewSecret(goodPass)); !fault.HasCode(err,
		fault.InvalidState) {
		t.Errorf("with a new password: got %v, want %v: the owner of the account signs in", err, fault.InvalidState)
	}
	if err := e.JoinInvitation(ctx, owner.open,
		link); fault.Find(err) == nil || fault.Find(err).Kind != fault.Forbidden {
		t.Errorf("another person's account: got %v, want Forbidden", err)
	}
	if err := e.JoinInvitation(ctx, in.Session, link); err != nil {
		t.Fatal(err)
	}
	chosen := must[signin.Result](t)(e.ChooseOrganization(ctx, bob.client, in.Session, e.org.ID))
	if !chosen.Session.Member.IsAllowed(identity.DecideWithdrawal) || chosen.Token.IsEmpty() {
		t.Errorf("got %+v, want an approver and a new token", chosen.Session.Member)
	}
}

// Rule SIGN-11: a statement that changes roles and leaves a session is refused at the COMMIT.
func TestTheDatabaseLeavesNoSessionWithFormerRoles(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	_, _, op := e.operator("op@example.com", operator.RoleOperator)
	for name, change := range map[string]struct{ sql, id, constraint string }{
		"roles":    {`UPDATE people SET roles = '{VIEWER}' WHERE user_id = $1`, p.member.ID, "people_sessions_ended"},
		"access":   {`UPDATE people SET ended_at = now() WHERE user_id = $1`, p.member.ID, "people_sessions_ended"},
		"operator": {`UPDATE operators SET ended_at = now() WHERE operator_id = $1`, op.ID, "operators_sessions_ended"},
	} {
		err := e.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, change.sql, change.id)
			return err
		})
		if !pg.ViolatesConstraint(err, change.constraint) {
			t.Errorf("%s: got %v, want %s", name, err, change.constraint)
		}
	}
}

// Rule SIGN-11.
func TestAChangeOfPasswordOrFactorsEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	second := must[signin.Result](t)(p.signIn(client(2)))
	e.clock.advance(time.Minute)
	if all, err := e.ListSessions(ctx, p.open); err != nil || len(all) != 2 || all[0].ID != second.Session.ID ||
		all[0].Device != "Browser/2" || all[0].Addr != client(2).Addr {
		t.Errorf("got %+v %v, want two sessions, the latest first", all, err)
	}
	p.take(must[signin.Result](t)(e.StepUp(ctx, p.client, p.open, signin.Proof{Code: p.code()})))
	newPass := seal.NewSecret("another long password")
	if _, err := e.ChangePassword(ctx, p.client, p.open, seal.NewSecret("wrong wrong wrong"),
		newPass); !signin.IsRefused(err) {
		t.Errorf("wrong present password: got %v, want a refusal", err)
	}
	if _, err := e.ChangePassword(ctx, p.client, p.open, seal.NewSecret(goodPass),
		seal.NewSecret("short")); !fault.HasCode(err, fault.InvalidRequest) {
		t.Errorf("a short password: got %v, want %v", err, fault.InvalidRequest)
	}
	former := p.token
	p.take(must[signin.Result](t)(e.ChangePassword(ctx, p.client, p.open, seal.NewSecret(goodPass), newPass)))
	for name, token := range map[string]seal.Secret{"the other session": second.Token, "the former token": former} {
		if _, err := e.Authenticate(ctx, token); !session.IsRefusal(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	if _, err := p.signIn(p.client); !signin.IsRefused(err) {
		t.Errorf("the former password: got %v, want a refusal", err)
	}
	if got := e.mails.last(t).Subject; got != "Coffer: Your password was changed" {
		t.Errorf("got %q, want a mail about the password", got)
	}
	if _, err := e.RemoveTOTP(ctx, p.client, p.open); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("the last factor: got %v, want %v", err, fault.InvalidState)
	}
	started := must[signin.Result](t)(e.StartWithPassword(ctx, client(2), p.email, newPass))
	key := newAuthenticator(t)
	p.take(must[signin.Result](t)(e.FinishPasskeyEnrolment(ctx, p.client, p.open, "Key",
		key.create(t, must[signin.PasskeyOptions](t)(e.StartPasskeyEnrolment(ctx, p.open))))))
	if _, err := e.Authenticate(ctx, started.Token); !session.IsRefusal(err) {
		t.Errorf("a sign-in in progress: got %v, want it ended", err)
	}
	p.take(must[signin.Result](t)(e.RemoveTOTP(ctx, p.client, p.open)))
	factors := must[account.Factors](t)(e.ListFactors(ctx, p.open))
	if factors.HasTOTP || len(factors.Passkeys) != 1 || factors.Passkeys[0].Name != "Key" {
		t.Errorf("got %+v, want one passkey", factors)
	}
	if _, err := e.RemovePasskey(ctx, p.client, p.open, factors.Passkeys[0].ID); !fault.HasCode(err,
		fault.InvalidState) {
		t.Errorf("the last factor: got %v, want %v", err, fault.InvalidState)
	}
	e.clock.advance(11 * time.Minute)
	p.open = must[session.Session](t)(e.Authenticate(ctx, p.token))
	if _, err := e.ChangePassword(ctx, p.client, p.open, newPass, seal.NewSecret(goodPass)); !signin.NeedsSudo(err) {
		t.Errorf("after ten minutes: got %v, want a factor needed", err)
	}
}

// Rule SIGN-2: an attacker who knows the password and began before the owner enrolled replaces no factor.
func TestASessionThatMustEnrolReplacesNoFactor(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	e.add(e.org.ID, "ann@example.com", identity.Owner)
	made := e.accept(e.org.ID, "ann@example.com", client(1))
	mallory := must[signin.Result](t)(e.StartWithPassword(ctx, client(2), "ann@example.com", seal.NewSecret(goodPass)))
	hers := must[signin.TOTPEnrolment](t)(e.StartTOTP(ctx, mallory.Session))
	// The database is told that the session lives on, as a race would leave it.
	own := must[signin.TOTPEnrolment](t)(e.StartTOTP(ctx, made.Session))
	if _, err := e.ConfirmTOTP(ctx, client(2), mallory.Session, e.code(hers.Secret)); !signin.IsRefused(err) {
		t.Errorf("a secret that was replaced: got %v, want a refusal", err)
	}
	must[signin.Result](t)(e.ConfirmTOTP(ctx, client(1), made.Session, e.code(own.Secret)))
	if _, err := e.StartTOTP(ctx, mallory.Session); !session.IsRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := e.StartPasskeyEnrolment(ctx, mallory.Session); !session.IsRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// Rule SIGN-13.
func TestASessionEndsWhenIdleOrTooOld(t *testing.T) {
	t.Parallel()
	for _, side := range []struct {
		name           string
		idle, absolute time.Duration
	}{{"member", 30 * time.Minute, 12 * time.Hour}, {"operator", 15 * time.Minute, 8 * time.Hour}} {
		t.Run(side.name, func(t *testing.T) {
			t.Parallel()
			e, ctx := newEnv(t), t.Context()
			service, p := e.Service, (*person)(nil)
			var open func() seal.Secret
			if side.name == "member" {
				p = e.person("ann@example.com", 1, identity.Owner)
				open = func() seal.Secret { return must[signin.Result](t)(p.signInLater()).Token }
			} else {
				service = e.operators
				_, secret, _ := e.operator("op@example.com", operator.RoleOperator)
				open = func() seal.Secret {
					e.clock.advance(time.Minute)
					started := must[signin.Result](t)(service.StartWithPassword(ctx, client(9), "op@example.com",
						seal.NewSecret(goodPass)))
					return must[signin.Result](t)(
						service.ConfirmFactor(ctx, client(9), started.Session,
							signin.Proof{Code: e.code(secret)})).Token
				}
			}
			token := open()
			begun := e.clock.Now()
			e.clock.advance(side.idle - time.Second)
			if _, err := service.Authenticate(ctx, token); err != nil {
				t.Errorf("before the idle limit: got %v", err)
			}
			e.clock.advance(side.idle)
			if _, err := service.Authenticate(ctx, token); !session.IsRefusal(err) {
				t.Errorf("after the idle limit: got %v, want a refusal", err)
			}
			token, begun = open(), e.clock.Now()
			for e.clock.Now().Before(begun.Add(side.absolute - 2*time.Minute)) {
				e.clock.advance(time.Minute)
				if _, err := service.Authenticate(ctx, token); err != nil {
					t.Fatalf("%v after it began: got %v", e.clock.Now().Sub(begun), err)
				}
			}
			e.clock.advance(2 * time.Minute)
			if _, err := service.Authenticate(ctx, token); !session.IsRefusal(err) {
				t.Errorf("after the absolute limit: got %v, want a refusal", err)
			}
			if err := service.Prune(ctx); err != nil {
				t.Fatal(err)
			}
			if got := e.query(`
				SELECT string_agg(DISTINCT end_reason, ' ' ORDER BY end_reason) FROM sessions
				WHERE state = 'ENDED'`); got != "IDLE TOO_OLD" {
				t.Errorf("got the reasons %q, want IDLE and TOO_OLD", got)
			}
			e.clock.advance(91 * 24 * time.Hour)
			if err := service.Prune(ctx); err != nil {
				t.Fatal(err)
			}
			if got := e.query(`SELECT count(*)::text FROM sessions`); got != "0" {
				t.Errorf("got %v sessions, want none after 90 days", got)
			}
		})
	}
}

// Rule SIGN-13: a use is written at most once a minute.
func TestAUseIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	must[session.Session](t)(e.Authenticate(ctx, p.token))
	version := func() string { return e.query(`SELECT xmin::text FROM sessions WHERE session_id = $1`, p.open.ID) }
	before := version()
	for range 5 {
		e.clock.advance(10 * time.Second)
		must[session.Session](t)(e.Authenticate(ctx, p.token))
	}
	if after := version(); after != before {
		t.Error("the row was written within a minute")
	}
	e.clock.advance(10 * time.Second)
	must[session.Session](t)(e.Authenticate(ctx, p.token))
	if after := version(); after == before {
		t.Error("the row was not written after a minute")
	}
}

// Rule SIGN-12.
func TestEveryIncreaseOfRightsHasANewToken(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	started := must[signin.Result](t)(e.StartWithPassword(ctx, p.client, p.email, seal.NewSecret(goodPass)))
	opened := must[signin.Result](t)(e.ConfirmFactor(ctx, p.client, started.Session, signin.Proof{Code: p.code()}))
	if _, err := e.Authenticate(ctx, started.Token); !session.IsRefusal(err) {
		t.Errorf("the token before the factor: got %v, want a refusal", err)
	}
	e.clock.advance(time.Minute)
	up := must[signin.Result](t)(e.StepUp(ctx, p.client, opened.Session, signin.Proof{Code: p.code()}))
	if _, err := e.Authenticate(ctx, opened.Token); !session.IsRefusal(err) {
		t.Errorf("the token before step-up: got %v, want a refusal", err)
	}
	sess := must[session.Session](t)(e.Authenticate(ctx, up.Token))
	if !sess.IsSudo(e.clock.Now()) || sess.SudoUntil.Sub(e.clock.Now()) != 10*time.Minute {
		t.Errorf("got sudo until %v, want ten minutes", sess.SudoUntil)
	}
	// The former session value writes nothing any more.
	if _, err := e.EndOtherSessions(ctx, opened.Session); !session.IsRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
	if n, err := e.EndOtherSessions(ctx, sess); err != nil || n != 1 {
		t.Errorf("got %d %v, want the first session ended", n, err)
	}
	if err := e.SignOut(ctx, sess); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, up.Token); !session.IsRefusal(err) {
		t.Errorf("after sign-out: got %v, want a refusal", err)
	}
	err := e.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx,
			`UPDATE sessions SET state = 'OPEN', ended_at = NULL, end_reason = NULL WHERE session_id = $1`, sess.ID)
		return err
	})
	if !pg.ViolatesConstraint(err, "sessions_fixed") {
		t.Errorf("got %v, want an ended session to stay so", err)
	}
}

// Rule SIGN-4: a session ends with the fifth wrong code, its owner gets a mail, and the account stays.
func TestWrongCodesEndTheSessionAndNotTheAccount(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	started := must[signin.Result](t)(e.StartWithPassword(ctx, client(5), p.email, seal.NewSecret(goodPass)))
	before := e.mails.count()
	for range 5 {
		if _, err := e.ConfirmFactor(ctx, client(5), started.Session,
			signin.Proof{Code: seal.NewSecret("123")}); !signin.IsRefused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
	if _, err := e.ConfirmFactor(ctx, client(5), started.Session,
		signin.Proof{Code: p.code()}); !session.IsRefusal(err) {
		t.Errorf("the right code afterwards: got %v, want a refusal", err)
	}
	if e.mails.count() != before+1 || e.mails.last(t).Subject != "Coffer: Wrong codes" {
		t.Errorf("got %d mails, want one about the codes", e.mails.count()-before)
	}
	if made, err := p.signIn(p.client); err != nil || !made.Session.IsOpen() {
		t.Errorf("the owner: got %v, want an open session", err)
	}
}

// Rules SIGN-8 and AUTH-2.
func TestAnotherOrganizationsPeopleAreInvisible(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	owner := e.person("ann@example.com", 1, identity.Owner)
	other, _, err := org.Create(ctx, e.db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	stranger := e.add(other.ID, "bob@example.com", identity.Owner)
	theirs := e.accept(other.ID, "bob@example.com", client(2))
	owner.take(must[signin.Result](t)(e.StepUp(ctx, owner.client, owner.open, signin.Proof{Code: owner.code()})))
	team := must[[]signin.TeamMember](t)(e.ListTeam(ctx, owner.open))
	if len(team) != 1 || team[0].Member.ID != owner.member.ID || !team[0].Factors.HasTOTP ||
		len(team[0].Sessions) != 1 {
		t.Errorf("got %+v, want the owner alone", team)
	}
	for name, err := range map[string]error{
		"roles":   second(e.ChangeRoles(ctx, owner.open, stranger.ID, []identity.Role{identity.Viewer})),
		"access":  e.EndAccess(ctx, owner.open, stranger.ID),
		"resend":  e.ResendInvitation(ctx, owner.open, stranger.ID),
		"session": e.EndSessionOf(ctx, owner.open, theirs.Session.ID),
		"own":     e.EndSession(ctx, owner.open, theirs.Session.ID),
		"choose":  second(e.ChooseOrganization(ctx, owner.client, owner.open, other.ID)),
	} {
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%s: got %v, want %v", name, err, fault.CodeNotFound)
		}
	}
	// No transaction of an organization sees a row of sign-in.
	for _, table := range []string{
		"accounts", "account_totps", "account_recovery_codes", "account_passkeys", "operators", "invitations",
		"sessions",
		"passkey_challenges", "known_devices", "device_links", "sign_in_failures",
	} {
		err := e.db.ReadOrg(ctx, e.org.ID, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `SELECT FROM `+table)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: got %v, want no right", table, err)
		}
	}
	// Reports read no hash, no secret and no token.
	for _, column := range []string{
		"accounts.password_hash", "accounts.passkey_handle", "account_totps.sealed", "account_recovery_codes.hash",
		"invitations.hash", "sessions.hash", "passkey_challenges.hash", "known_devices.hash", "device_links.hash",
		"sign_in_failures.key", "account_passkeys.public_key",
	} {
		table, name, _ := strings.Cut(column, ".")
		err := e.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `SELECT `+name+` FROM `+table)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: got %v, want no right", column, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Rule SIGN-14.
func TestWhoGivesWhichRoles(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	people := map[identity.Role]*person{}
	for i, role := range []identity.Role{identity.Owner, identity.Admin, identity.Approver, identity.Viewer} {
		people[role] = e.person(fmt.Sprintf("p%d@example.com", i), i+1, role)
	}
	for _, p := range people {
		p.take(must[signin.Result](t)(e.StepUp(ctx, p.client, p.open, signin.Proof{Code: p.code()})))
	}
	isForbidden := func(err error) bool { f := fault.Find(err); return f != nil && f.Kind == fault.Forbidden }
	n := 0
	for _, c := range []struct {
		by    identity.Role
		gives identity.Role
		may   bool
	}{
		{identity.Owner, identity.Owner, true},
		{identity.Owner, identity.Viewer, true},
		{identity.Admin, identity.Viewer, true},
		{identity.Admin, identity.Approver, true},
		{identity.Admin, identity.Admin, false},
		{identity.Admin, identity.Owner, false},
		{identity.Approver, identity.Viewer, false},
		{identity.Viewer, identity.Viewer, false},
	} {
		n++
		_, err := e.InviteMember(ctx, people[c.by].open, fmt.Sprintf("new%d@example.com", n), "New",
			[]identity.Role{c.gives})
		if c.may && err != nil || !c.may && !isForbidden(err) {
			t.Errorf("%s invites %s: got %v, want allowed %v", c.by, c.gives, err, c.may)
		}
	}
	if err := e.EndAccess(ctx, people[identity.Admin].open, people[identity.Owner].member.ID); !isForbidden(err) {
		t.Errorf("an administrator ends an owner: got %v, want Forbidden", err)
	}
	if err := e.EndSessionOf(ctx, people[identity.Admin].open, people[identity.Owner].open.ID); !isForbidden(err) {
		t.Errorf("an administrator ends an owner's session: got %v, want Forbidden", err)
	}
	if err := e.EndSessionOf(ctx, people[identity.Admin].open, people[identity.Viewer].open.ID); err != nil {
		t.Errorf("an administrator ends a viewer's session: got %v", err)
	}
	if err := e.EndAccess(ctx, people[identity.Owner].open, people[identity.Owner].member.ID); !fault.HasCode(err,
		fault.InvalidState) {
		t.Errorf("the last owner: got %v, want %v", err, fault.InvalidState)
	}
	e.clock.advance(11 * time.Minute)
	if err := e.EndAccess(ctx, people[identity.Owner].open, people[identity.Viewer].member.ID); !signin.NeedsSudo(err) {
		t.Errorf("after ten minutes: got %v, want a factor needed", err)
	}
}

// Rule SIGN-15.
func TestOperatorsHaveAccountsOfTheirOwn(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	sess, _, op := e.operator("ann@example.com", operator.RoleAuditor)
	if sess.Operator.ID != op.ID || sess.Member.ID != "" || sess.Account.ID == p.open.Account.ID {
		t.Errorf("got %+v, want the operator", sess)
	}
	if !sess.Operator.IsAllowed(identity.ReadInstallation) || sess.Operator.IsAllowed(identity.FreezePayments) ||
		sess.Operator.IsAllowed(identity.ManageOperatorKeys) {
		t.Error("an auditor reads and does nothing else")
	}
	if _, err := e.operators.Authenticate(ctx, p.token); !session.IsRefusal(err) {
		t.Errorf("a member's token on the operators' side: got %v, want a refusal", err)
	}
	second, _, other := e.operator("op@example.com", operator.RoleOperator)
	if !second.Operator.IsAllowed(identity.FreezePayments) {
		t.Error("an operator freezes")
	}
	if err := e.operators.EndOperator(ctx, terminal, other.ID); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("the last operator: got %v, want %v", err, fault.InvalidState)
	}
	changed, err := e.operators.ChangeOperatorRoles(ctx, terminal, op.ID, []operator.Role{operator.RoleOperator})
	if err != nil || !changed.IsAllowed(identity.FreezePayments) {
		t.Errorf("got %+v %v, want an operator", changed, err)
	}
	if err := e.operators.EndOperator(ctx, terminal, other.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.operators.SignOut(ctx, second); err != nil {
		t.Error(err)
	}
	started := must[signin.Result](t)(e.operators.StartWithPassword(ctx, client(9), "op@example.com",
		seal.NewSecret(goodPass)))
	if started.Session.Operator.ID != "" {
		t.Error("a session without a factor has no operator")
	}
	all := must[[]operator.Person](t)(e.operators.ListOperators(ctx))
	if len(all) != 2 || all[1].EndedAt.IsZero() {
		t.Errorf("got %+v, want two, the second ended", all)
	}
}

// A COMMIT whose answer is lost leaves a step that is continued or begun again: nothing is half done,
// and no code or link counts twice.
func TestALostCommitBetweenStepsLosesNothing(t *testing.T) {
	t.Parallel()
	for name, lost := range pgtest.CommitLosses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, ctx := newEnv(t), t.Context()
			proxy := &pgtest.Proxy{}
			d := pgtest.DatabaseOf(t, e.db)
			d.URL = proxy.Start(t, d.URL)
			through, err := signin.NewService(signin.Config{
				DB: pgtest.Open(t, d, e.clock.Now), Keys: e.keys, Hasher: e.hasher, Mailer: e.mails,
				Side: account.MemberSide,
				Site: site, Origin: origin, Issuer: "Coffer", InvitationURL: origin + "/i/", DeviceURL: origin + "/d/",
			})
			if err != nil {
				t.Fatal(err)
			}
			isDone := lost == pgtest.AnswerLost
			lose := func(commits int, step func() error) {
				t.Helper()
				proxy.LoseNext(pgtest.Loss{Action: lost, Nth: commits})
				if err := step(); !errors.Is(err, pg.ErrCommitUnknown) {
					t.Fatalf("got %v, want an unknown outcome", err)
				}
				proxy.Restore()
			}
			e.add(e.org.ID, "ann@example.com", identity.Owner)
			_, link, err := signin.InviteFromTerminal(ctx, e.db, terminal, e.org.ID, "ann@example.com")
			if err != nil {
				t.Fatal(err)
			}
			accept := func(s *signin.Service) error {
				_, err := s.AcceptInvitation(ctx, client(1), link, "Ann", "", seal.NewSecret(goodPass))
				return err
			}
			lose(2, func() error { return accept(through) }) // the first COMMIT is that of the look
			if err := accept(e.Service); fault.HasCode(err, fault.CodeNotFound) != isDone {
				t.Errorf("accepted again: got %v, want refused: %v", err, isDone)
			}
			if got := e.query(`SELECT count(*)::text FROM accounts`); got != "1" {
				t.Errorf("got %v accounts, want 1", got)
			}
			// The session that was lost is not needed: the password makes another one.
			sess := must[signin.Result](t)(e.StartWithPassword(ctx, client(1), "ann@example.com",
				seal.NewSecret(goodPass))).Session
			secret := must[signin.TOTPEnrolment](t)(e.StartTOTP(ctx, sess)).Secret
			lose(1, func() error { _, err := through.ConfirmTOTP(ctx, client(1), sess, e.code(secret)); return err })
			again := must[signin.Result](t)(e.StartWithPassword(ctx, client(1), "ann@example.com",
				seal.NewSecret(goodPass)))
			if isDone != (again.Session.State == session.AwaitingFactor) {
				t.Errorf("got %v, want the factor enrolled: %v", again.Session.State, isDone)
			}
			if !isDone {
				return
			}
			e.clock.advance(time.Minute)
			code := e.code(secret)
			lose(1, func() error {
				_, err := through.ConfirmFactor(ctx, client(1), again.Session, signin.Proof{Code: code})
				return err
			})
			// The code was used up, and the session that opened has a token that was never shown.
			if _, err := e.ConfirmFactor(ctx, client(1), again.Session,
				signin.Proof{Code: code}); !session.IsRefusal(err) {
				t.Errorf("got %v, want a refusal", err)
			}
			if _, err := e.Authenticate(ctx, again.Token); !session.IsRefusal(err) {
				t.Errorf("got %v, want the former token refused", err)
			}
			p := &person{e: e, email: "ann@example.com", secret: secret}
			if made, err := p.signIn(client(1)); !signin.IsRefused(err) {
				t.Errorf("the same code in another session: got %v %v, want a refusal", made.Session.State, err)
			}
			e.clock.advance(time.Minute)
			if made, err := p.signIn(client(1)); err != nil || !made.Session.IsOpen() {
				t.Errorf("the next code: got %v, want an open session", err)
			}
		})
	}
}

// The browser says a time zone once, and never replaces what a person chose. Rule PAGE-33.
func TestABrowserSaysTheTimeZoneOnce(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	zone := func() string {
		t.Helper()
		return e.query(`SELECT time_zone FROM accounts`)
	}
	change := func(chosen string) {
		t.Helper()
		if err := e.ChangeProfile(ctx, p.open, "Ann", chosen); err != nil {
			t.Fatal(err)
		}
		p.open = must[session.Session](t)(e.Authenticate(ctx, p.token))
	}
	change("")
	for _, c := range []struct{ said, want string }{
		{"Mars/Olympus_Mons", ""},
		{"", ""},
		{"Local", ""},
		{"America/New_York", "America/New_York"},
		{"Asia/Tokyo", "America/New_York"},
	} {
		// The session is that of before: only the row decides.
		if err := e.AdoptTimeZone(ctx, p.open, c.said); err != nil {
			t.Fatal(err)
		}
		if got := zone(); got != c.want {
			t.Errorf("%q: got the zone %q, want %q", c.said, got, c.want)
		}
	}
	change("Europe/Berlin")
	if err := e.AdoptTimeZone(ctx, p.open, "Asia/Tokyo"); err != nil {
		t.Fatal(err)
	}
	if got := zone(); got != "Europe/Berlin" {
		t.Errorf("got the zone %q, want what the person chose", got)
	}
	if got := e.query(`SELECT count(*)::text FROM audit_log WHERE action = 'profile.changed'`); got != "3" {
		t.Errorf("got %s rows in the audit log, want one for each change", got)
	}
	started := must[signin.Result](t)(e.StartWithPassword(ctx, p.client, p.email, seal.NewSecret(goodPass)))
	if err := e.AdoptTimeZone(ctx, started.Session, "Asia/Tokyo"); !session.IsRefusal(err) {
		t.Errorf("before the second factor: got %v, want a refusal", err)
	}
}

// A session says which factors its account has, so that a page offers what works.
func TestASessionSaysWhichFactorsThereAre(t *testing.T) {
	t.Parallel()
	e, ctx := newEnv(t), t.Context()
	p := e.person("ann@example.com", 1, identity.Owner)
	if !p.open.HasTOTP || p.open.HasPasskey {
		t.Errorf("got %+v, want an authenticator app alone", p.open)
	}
	key := newAuthenticator(t)
	options := must[signin.PasskeyOptions](t)(e.StartPasskeyEnrolment(ctx, p.open))
	p.take(must[signin.Result](t)(e.FinishPasskeyEnrolment(ctx, p.client, p.open, "Phone", key.create(t, options))))
	if !p.open.HasTOTP || !p.open.HasPasskey {
		t.Errorf("got %+v, want both", p.open)
	}
	p.take(must[signin.Result](t)(e.RemoveTOTP(ctx, p.client, p.open)))
	if p.open.HasTOTP || !p.open.HasPasskey {
		t.Errorf("got %+v, want a passkey alone", p.open)
	}
}
