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
	if n := h.count(`SELECT count(*) FROM approver_keys`); n != 0 {
		t.Errorf("got %d passkeys, want none", n)
	}
}
