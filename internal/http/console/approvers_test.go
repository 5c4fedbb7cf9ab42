package console

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// openSigner opens a signer without limits that admits passkeys of the pages.
func (h *testEnv) openSigner(origin string) (*local.Signer, ed25519.PublicKey) {
	h.t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		h.t.Fatal(err)
	}
	h.journal = filepath.Join(h.t.TempDir(), "journal")
	conf := local.Config{Journal: h.journal, Clock: h.now, Policy: signpolicy.Policy{
		WhitelistCoolingOff: "0s",
		Swaps: signertest.NewSwaps(map[chain.Name][]chain.Address{
			signertest.Chain: {"", signertest.Token, signertest.LimitedToken},
		}),
		Chains: map[chain.Name]signpolicy.Chain{signertest.Chain: {
			SignerID: "31337", FeeMax: signertest.FeeMax, GasMax: signertest.GasMax, Unlimited: true,
		}},
		Approvers: &signpolicy.Approvers{
			RelyingParties: []signpolicy.RelyingParty{{ID: "localhost", Origins: []string{origin}}}, CoolingOff: "24h",
		},
	}}
	if err := local.CreateJournal(conf, seed); err != nil {
		h.t.Fatal(err)
	}
	s, err := local.Open(conf, seed)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return s, seed.AttestKey().PublicKey()
}

func (h *testEnv) base() string { return strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1) }

// browse opens a browser with an authenticator in which an operator is signed in.
func (h *testEnv) browse(p operator.Person) *browser.Page {
	h.t.Helper()
	tab := browser.Open(h.t)
	tab.SetCookie(h.base(), pages.OperatorSessionCookie, h.signInAs(p))
	tab.AddAuthenticator()
	return tab
}

// enrol makes a passkey on the page, has it sign its enrolment, and returns the path of its page.
func (h *testEnv) enrol(tab *browser.Page, right signer.Right) string {
	h.t.Helper()
	tab.OpenURL(h.base()+Prefix+"/approvers/new", looks["light"])
	tab.Click(fmt.Sprintf("form[data-display=%q] button", approverWords.RightText(right)))
	tab.Click("form[data-sign] button[type=submit]")
	return browser.Evaluate[string](tab, "location.pathname")
}

// found does at the signer's host what the page of a passkey says.
func (h *testEnv) found(tab *browser.Page) {
	h.t.Helper()
	command := strings.Fields(browser.Evaluate[string](tab, "document.querySelector('.code.block').innerText"))
	if len(command) != 8 || strings.Join(command[:5], " ") != "coffer signer approvers found "+signer.Operators {
		h.t.Fatalf("got the command %q", command)
	}
	h.foundByHost(hostorders.Order{
		OrgID: command[4], Email: command[5], Right: signer.Right(command[6]), Fingerprint: command[7],
	})
}

// foundByHost has a person at the signer's host found a passkey.
func (h *testEnv) foundByHost(order hostorders.Order) {
	h.t.Helper()
	order.Reason = "read out"
	if err := hostorders.Append(h.journal, order, h.now()); err != nil {
		h.t.Fatal(err)
	}
	if err := h.approvers.RunPass(h.t.Context(), true); err != nil {
		h.t.Fatal(err)
	}
}

// addPasskey enrols a passkey of an operator, and has it founded.
func (h *testEnv) addPasskey(person operator.Person, right signer.Right) *signertest.Passkey {
	h.t.Helper()
	p := signertest.NewPasskey(h.t, signer.Operators, person.ID, right)
	p.ID, p.Person, p.Email = approver.NewKeyID(h.now()), approver.PersonName(person.Actor()), person.Email
	p.RPID, p.Origin = "localhost", h.base()
	request := p.Request(h.t, h.approvers.Installation(), h.now().Add(time.Hour))
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := h.approvers.Enrol(ctx, tx, person.Actor(), request)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.foundByHost(hostorders.Order{
		OrgID: p.OrgID, Email: p.Email, Right: p.Right,
		Fingerprint: request.Fingerprint(h.approvers.Installation()),
	})
	return p
}

// setRule sets the operators' rule with the signatures of passkeys.
func (h *testEnv) setRule(quorum int, by ...*signertest.Passkey) {
	h.t.Helper()
	var p approver.Proposal
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		rule := signer.ApprovalRule{OrgID: signer.Operators, Quorum: quorum}
		if p, err = h.approvers.ProposeRule(ctx, tx, h.ann.Actor(), rule); err != nil {
			return err
		}
		for _, key := range by {
			signature := key.Sign(h.t, h.approvers.Installation(), h.now().Add(time.Hour),
				func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(p.Rule, c) })
			person := h.ann
			if key.Person == approver.PersonName(h.bob.Actor()) {
				person = h.bob
			}
			if err := h.approvers.SignRule(ctx, tx, person.Actor(), signer.Operators, p.ID, signature); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = h.approvers.FinishRule(h.t.Context(), p.ID)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// refreshSudo lets the second factor of every session count again.
func (h *testEnv) refreshSudo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for token, s := range h.sessions {
		s.SudoUntil = time.Now().Add(h.ahead + 10*time.Minute)
		h.sessions[token] = s
	}
}

// An operator enrols passkeys, which are founded at the signer's host and cool off; the rule is proposed and signed on
// its page, and a colleague's passkey is retired. Rules PAGE-114, PAGE-115 and PAGE-116.
func TestOperatorsEnrolPasskeysAndSetTheirRule(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, bob := h.browse(h.ann), h.browse(h.bob)
	ann.OpenURL(h.base()+Prefix+"/approvers", looks["light"])
	wantText(t, ann, "No redirect and no address needs a signature.", "No one has a passkey for approvals yet")

	h.enrol(ann, signer.RightEnrol)
	wantText(t, ann, "Waits to be admitted", "Until the operators have their first rule")
	h.found(ann)
	ann.OpenURL(h.base()+Prefix+"/approvers", looks["light"])
	wantText(t, ann, "An approver is being added: ann@example.test", "One lost device would take these away")
	signing := h.enrol(bob, signer.RightApprove)
	h.found(bob)
	h.pass(25 * time.Hour)
	h.refreshSudo()

	ann.OpenURL(h.base()+Prefix+"/approvers/rule", looks["light"])
	if browser.Evaluate[bool](ann, "document.querySelector('[name=assets], [name=returns]') !== null") {
		t.Error("got a rule of operators that names assets or returns, want people alone")
	}
	ann.Type("form[action$=propose] [name=quorum]", "2")
	ann.Click("form[action$=propose] button[type=submit]")
	wantText(t, ann, "The rule asks for 2 people")
	browser.Evaluate[bool](ann, "(document.querySelector('form[action$=propose] [name=quorum]').value = '', true)")
	ann.Type("form[action$=propose] [name=quorum]", "1")
	ann.Click("form[action$=propose] button[type=submit]")
	wantText(t, ann, "Version 1 is proposed", "No redirect and no address needs a signature.")
	ann.Click("form[action$=withdraw] button[type=submit]")
	wantText(t, ann, "Propose another rule")
	browser.Evaluate[bool](ann, "(document.querySelector('form[action$=propose] [name=quorum]').value = '1', true)")
	ann.Click("form[action$=propose] button[type=submit]")
	browser.Evaluate[bool](ann,
		"(document.querySelector('form[action$=sign] [data-word=quorum]').textContent = '2', true)")
	ann.Click("form[action$=sign] button[type=submit]")
	wantText(t, ann, "it is of other words")
	ann.OpenURL(h.base()+Prefix+"/approvers/rule", looks["light"])
	ann.Click("form[action$=sign] button[type=submit]")
	wantText(t, ann,
		"A redirect of a flagged deposit and an address of a whitelist need the signatures of one person.")

	// The rule needs bob's passkey, so it stays until there is another one.
	ann.OpenURL(h.base()+signing, looks["light"])
	wantText(t, ann, "Counts", "Bob Operator")
	ann.Click("form[action$=retire] button[type=submit]")
	wantText(t, ann, "fewer people than the rule needs")
	for _, complaint := range append(ann.ListComplaints(), bob.ListComplaints()...) {
		if !strings.Contains(complaint, "status of 4") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// An auditor sees passkeys and rule and makes nothing, and a form without a signature changes nothing. Rule PAGE-114.
func TestAnAuditorReadsTheOperatorsPasskeys(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, eve := h.signInAs(h.ann), h.signInAs(h.eve)
	h.get(eve, Prefix+"/approvers").want(t, http.StatusOK, "Approvers and rule", "No redirect and no address")
	h.get(eve, Prefix+"/approvers/rule").want(t, http.StatusOK, "The rule that holds")
	h.get(eve, Prefix+"/approvers/new").want(t, http.StatusOK, "Your role shows this page and makes no passkey.")
	h.post(eve, Prefix+"/approvers/rule/propose", "quorum", "0").want(t, http.StatusForbidden)
	got := h.post(ann, Prefix+"/approvers/new/enrol", "right", "APPROVE", "publicKey", "", "keyId", "apk_1", "notAfter",
		"", "credentialId", "", "authenticatorData", "", "clientDataJSON", "", "signature", "")
	if got.status < 400 || !strings.Contains(got.body, "without the signature of a passkey") {
		t.Errorf("got %d %s, want the reason", got.status, got.body)
	}
	if !h.approvers.TakesKeysOf("localhost", h.base()) || h.approvers.TakesKeysOf("localhost", "http://localhost:1") {
		t.Error("got a page that the signer's policy does not name, or not the one that it names")
	}
	if n := h.count(`SELECT count(*) FROM approver_keys`); n != 0 {
		t.Errorf("got %d passkeys, want none", n)
	}
}

// wantFlagged checks the state of a deposit, and how many orders there are.
func (h *testEnv) wantFlagged(id string, status deposit.Status, orders int) {
	h.t.Helper()
	got := h.count(`SELECT count(*) FROM deposits WHERE deposit_id = $1 AND status = $2`, id, status)
	if n := h.count(`SELECT count(*) FROM dispatch_orders`); got != 1 || n != orders {
		h.t.Errorf("got %d deposits that are %s and %d orders, want one and %d", got, status, n, orders)
	}
}

// Where the operators have a rule, one asks for a redirect and another one signs its words on the page of the deposit.
// Until then nothing leaves, and the redirect is listed with who has signed. Rules SA-17, PAGE-117 and PAGE-123.
func TestASecondOperatorSignsARedirect(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	bob := h.browse(h.bob)
	enroller := h.addPasskey(h.ann, signer.RightEnrol)
	h.enrol(bob, signer.RightApprove)
	h.found(bob)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(1, enroller)
	id := h.flag()
	ann, eve := h.signInAs(h.ann), h.signInAs(h.eve)
	path := Prefix + "/flagged/" + id
	h.get(ann, path).want(t, http.StatusOK, "Ask for the redirect of", "asks for the signatures of one person")
	ask := []string{"toAddress", elsewhere, "reason", "LAW_ENFORCEMENT", "reference", "case 77", "note", ""}
	h.post(ann, path+"/redirect", append(ask, "code", rightCode)...).want(t, http.StatusSeeOther)
	h.post(ann, path+"/redirect", append(ask, "code", rightCode+"1")...).want(t, http.StatusSeeOther)
	h.wantFlagged(id, deposit.Flagged, 0)
	h.get(ann, path).want(t, http.StatusOK, "A redirect waits for signatures", "You asked for this redirect",
		"Asked for by You", "0 of 1 signatures")
	h.get(eve, path).want(t, http.StatusOK, "Your role shows this redirect and does not sign it.")
	h.get(eve, Prefix+"/signatures").want(t, http.StatusOK, "need the signatures of one person", "no one yet", path)
	got := h.post(ann, path+"/approve", "note", "", "code", rightCode+"2")
	if got.status != http.StatusConflict || !strings.Contains(got.body, "waits for signatures") {
		t.Errorf("an approval meanwhile: got %d, want it refused until the redirect is taken back", got.status)
	}

	// One character of the address is changed on the screen before the touch.
	bob.OpenURL(h.base()+path, looks["light"])
	wantText(t, bob, "Sign and redirect this deposit", "Ann Operator", "case 77")
	browser.Evaluate[bool](bob, `((group) => {
		group.textContent = group.textContent.slice(0, -1) + (group.textContent.endsWith('0') ? '1' : '0');
	})(document.querySelector('form[action$=sign] [data-word=to] b')), true`)
	bob.Click("form[action$=sign] button[type=submit]")
	wantText(t, bob, "it is of other words")
	h.wantFlagged(id, deposit.Flagged, 0)

	bob.OpenURL(h.base()+path, looks["phone-dark"])
	if problems := bob.ListAccessibilityProblems(); len(problems) > 0 {
		t.Errorf("got %q, want an accessible page", problems)
	}
	bob.Click("form[action$=sign] button[type=submit]")
	wantText(t, bob, "Being redirected", "Ann Operator")
	h.wantFlagged(id, deposit.Redirecting, 1)
	h.get(eve, Prefix+"/signatures").want(t, http.StatusOK, "No redirect waits")
}

// A redirect that waits is taken back, and a form without a signature changes nothing. An operator without a passkey
// reads why. Rule PAGE-117.
func TestARedirectThatWaitsIsTakenBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	enroller := h.addPasskey(h.ann, signer.RightEnrol)
	h.addPasskey(h.ann, signer.RightApprove)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(1, enroller)
	id := h.flag()
	ann, bob, eve := h.signInAs(h.ann), h.signInAs(h.bob), h.signInAs(h.eve)
	path := Prefix + "/flagged/" + id
	h.post(ann, path+"/redirect", "toAddress", elsewhere, "reason", "COMPLIANCE_HOLD", "reference", "case 78", "note",
		hostile, "code", rightCode).want(t, http.StatusSeeOther)
	review, err := h.deposits.LoadRedirect(t.Context(), id)
	if err != nil || review.Request == nil {
		t.Fatalf("got %v, %v, want a redirect that waits", review.Request, err)
	}
	h.get(bob, path).want(t, http.StatusOK, "You have no passkey for “Approve as an operator”",
		Prefix+"/approvers/new")
	got := h.post(bob, path+"/sign", "redirect", review.Request.ID, "keyId", "apk_1", "notAfter", "",
		"credentialId", "", "authenticatorData", "", "clientDataJSON", "", "signature", "")
	if got.status < 400 || !strings.Contains(got.body, "without the signature of a passkey") {
		t.Errorf("a form without a signature: got %d, want it refused", got.status)
	}
	h.post(eve, path+"/withdraw", "redirect", review.Request.ID, "code", rightCode+"e").want(t, http.StatusForbidden)
	h.post(bob, path+"/withdraw", "redirect", review.Request.ID, "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.post(bob, path+"/withdraw", "redirect", review.Request.ID, "code", rightCode+"c").want(t, http.StatusSeeOther)
	h.get(ann, path).want(t, http.StatusOK, "Ask for the redirect of")
	h.wantFlagged(id, deposit.Flagged, 0)
}

// Where the operators have a rule, an address of a whitelist waits for signatures of its words, and is endorsed with
// the last one. Rules SA-18 and PAGE-124.
func TestOperatorsSignAnAddressOfAWhitelist(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	bob := h.browse(h.bob)
	enroller := h.addPasskey(h.ann, signer.RightEnrol)
	h.enrol(bob, signer.RightApprove)
	h.found(bob)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(1, enroller)
	ann, eve := h.signInAs(h.ann), h.signInAs(h.eve)
	list := Prefix + "/organizations/" + h.orgID + "/addresses"
	change := h.post(ann, list+"/add", "chain", "ETHEREUM", "address", elsewhere, "label", "Bank <b>").location(t)
	h.post(h.signInAs(h.bob), change+"/approve").want(t, http.StatusSeeOther)
	var id string
	err := h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT whitelisted_address_id FROM whitelisted_addresses`).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	path := list + "/" + id
	h.get(ann, list).want(t, http.StatusOK, "Waits for signatures", path)
	h.get(eve, Prefix+"/signatures").want(t, http.StatusOK, "no one yet", path)
	h.get(eve, path).want(t, http.StatusOK, "Your role shows this address and does not sign it.", "0 of 1 signatures")
	h.get(ann, path).want(t, http.StatusOK, "You have no passkey for")
	h.get(ann, Prefix+"/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC/addresses/"+id).want(t, http.StatusNotFound)

	bob.OpenURL(h.base()+path, looks["light"])
	wantText(t, bob, "Sign this address", "Bank <b>")
	browser.Evaluate[bool](bob,
		"(document.querySelector('form[action$=sign] [data-word=label]').textContent = 'Bank', true)")
	bob.Click("form[action$=sign] button[type=submit]")
	wantText(t, bob, "it is of other words")
	bob.OpenURL(h.base()+path, looks["light"])
	bob.Click("form[action$=sign] button[type=submit]")
	wantText(t, bob, "Cools off")
	if n := h.count(
		`SELECT count(*) FROM whitelisted_addresses WHERE proof IS NOT NULL AND waits_for IS NULL`,
	); n != 1 {
		t.Errorf("got %d endorsed addresses, want the one that bob signed", n)
	}
	h.get(eve, Prefix+"/signatures").want(t, http.StatusOK, "No address waits")
}

// A passkey with which operators sign enters no session and confirms no act: a form for a second factor lists none of
// it, and the answer of one is refused at sign-in. Rule PAGE-116.
func TestASigningPasskeySignsNoOperatorIn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.enter("carl@example.test", "Carl Operator")
	var carl operator.Person
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		carl, err = operator.PersonByEmail(ctx, tx, "carl@example.test")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.addPasskey(carl, signer.RightApprove)
	sessions := h.count(`SELECT count(*) FROM sessions`)
	bob := h.browse(h.bob)
	h.enrol(bob, signer.RightApprove)
	h.found(bob)
	got := h.post(token, Prefix+"/freezes/create/options", "organizationId", h.orgID, "reason", "a test")
	if got.status != http.StatusConflict || strings.Contains(got.body, "allowCredentials") {
		t.Errorf("got %d %s, want no passkey that could confirm an act", got.status, got.body)
	}

	bob.ClearCookies()
	bob.OpenURL(h.base()+Prefix+"/sign-in", looks["light"])
	bob.Click("form[data-needs-passkey] button")
	if path := browser.Evaluate[string](bob, "location.pathname"); !strings.HasPrefix(path, Prefix+"/sign-in") {
		t.Errorf("got %s, want the page of sign-in", path)
	}
	if n := h.count(`SELECT count(*) FROM sessions`); n != sessions {
		t.Errorf("got %d sessions, want no more than %d", n, sessions)
	}
}
