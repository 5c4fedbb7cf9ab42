package dashboard

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// openSigner opens a signer without limits that admits passkeys of the pages.
func (h *testEnv) openSigner(origin, approvalsOrigin string) (*local.Signer, ed25519.PublicKey) {
	h.t.Helper()
	parties := []signpolicy.RelyingParty{{ID: "localhost", Origins: []string{origin}}}
	if approvalsOrigin != "" {
		parties = append(parties, signpolicy.RelyingParty{ID: approvalsName, Origins: []string{approvalsOrigin}})
	}
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
		Approvers: &signpolicy.Approvers{RelyingParties: parties, CoolingOff: "24h"},
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

func (h *testEnv) newGrants() *signer.GrantKey {
	h.t.Helper()
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		h.t.Fatal(err)
	}
	return grants
}

// browse opens a browser in which a person is signed in.
func (h *testEnv) browse(role identity.Role) *browser.Page {
	h.t.Helper()
	tab := browser.Open(h.t)
	tab.SetCookie(h.base(), pages.SessionCookie, h.signIn(h.one, role))
	return tab
}

func (h *testEnv) base() string {
	return "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
}

// enrol makes a passkey on the page, has it sign its enrolment, and returns the path of its page.
func (h *testEnv) enrol(tab *browser.Page, right signer.Right) string {
	h.t.Helper()
	tab.OpenURL(h.base()+Prefix+"/approvers/new", desk)
	tab.Click(fmt.Sprintf("form[data-display=%q] button", approverWords.RightText(right)))
	tab.Click("form[data-sign] button[type=submit]")
	return browser.Evaluate[string](tab, "location.pathname")
}

// found does at the signer's host what the page of a passkey says.
func (h *testEnv) found(tab *browser.Page) {
	h.t.Helper()
	command := strings.Fields(browser.Evaluate[string](tab, "document.querySelector('.code.block').innerText"))
	if len(command) != 8 || strings.Join(command[:4], " ") != "coffer signer approvers found" {
		h.t.Fatalf("got the command %q", command)
	}
	err := hostorders.Append(h.journal, hostorders.Order{
		OrgID: command[4], Email: command[5], Right: signer.Right(command[6]), Fingerprint: command[7],
		Reason: "read out",
	}, h.now())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.approvers.RunPass(h.t.Context(), true); err != nil {
		h.t.Fatal(err)
	}
}

// A passkey is founded by the fingerprint on its page, everyone is told while it cools off, and one who objects
// retires it. Rules PAGE-108 and PAGE-109.
func TestPeopleEnrolAPasskeyAndObjectToOne(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner, approverTab := h.browse(identity.Owner), h.browse(identity.Approver)
	owner.AddAuthenticator()
	approverTab.AddAuthenticator()
	owner.OpenURL(h.base()+Prefix+"/approvers", desk)
	wantText(t, owner, "No payment needs a signature.", "No one has a passkey for approvals yet")

	first := h.enrol(owner, signer.RightEnrol)
	wantText(t, owner, "Waits to be admitted", "Until your organization has its first rule")
	h.found(owner)
	owner.OpenURL(h.base()+first, desk)
	wantText(t, owner, "Cools off", "A person at the signer's host")
	owner.OpenURL(h.base()+Prefix+"/approvers", desk)
	wantText(t, owner, "An approver is being added: owner@example.test", "One lost device would take these away")

	h.pass(12 * time.Hour)
	h.refreshSudo()
	second := h.enrol(approverTab, signer.RightApprove)
	owner.OpenURL(h.base()+second, desk)
	wantText(t, owner, "Until your organization has its first rule", "Who retires a passkey needs an own one")
	h.found(approverTab)
	h.pass(13 * time.Hour)

	// A word that was changed on the screen: the server takes no signature of other words, and nothing ends.
	owner.OpenURL(h.base()+second, desk)
	browser.Evaluate[bool](owner,
		`(document.querySelector('form[action$=retire] [data-word=id]').textContent += 'x', true)`)
	owner.Click("form[action$=retire] button[type=submit]")
	wantText(t, owner, "it is of other words")
	owner.OpenURL(h.base()+second, desk)
	wantText(t, owner, "Cools off")
	owner.Click("form[action$=retire] button[type=submit]")
	wantText(t, owner, "Retired")

	// A retired passkey signs nothing: its page offers it no button.
	approverTab.OpenURL(h.base()+first, desk)
	wantText(t, approverTab, "Who retires a passkey needs an own one")
	owner.OpenURL(h.base()+Prefix+"/approvers", desk)
	wantText(t, owner, "Passkeys that have ended", "Approver Person, Approve payments")
}

// foundByHost has a person at the signer's host found a passkey.
func (h *testEnv) foundByHost(p *signertest.Passkey) {
	h.t.Helper()
	request := p.Request(h.t, h.approvers.Installation(), h.now().Add(time.Hour))
	err := hostorders.Append(h.journal, hostorders.Order{
		OrgID: p.OrgID, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(h.approvers.Installation()),
		Reason: "read out",
	}, h.now())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.approvers.RunPass(h.t.Context(), true); err != nil {
		h.t.Fatal(err)
	}
}

// setRule sets the rule of an organization with the signatures of passkeys.
func (h *testEnv) setRule(who tenant, rule signer.ApprovalRule, by ...*signertest.Passkey) {
	h.t.Helper()
	rule.OrgID = who.id
	var p approver.Proposal
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if p, err = h.approvers.ProposeRule(ctx, tx, who.people[identity.Owner].Actor(), rule); err != nil {
			return err
		}
		for _, key := range by {
			signature := key.Sign(h.t, h.approvers.Installation(), h.now().Add(time.Hour),
				func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(p.Rule, c) })
			actor := audit.User(strings.TrimPrefix(key.Person, "USER "))
			if err := h.approvers.SignRule(ctx, tx, actor, who.id, p.ID, signature); err != nil {
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

// An approval is signed on the page of the withdrawal, and one of other words than the server's counts for nothing.
// Rule PAGE-110.
func TestAPasskeyApprovesAWithdrawalAndNotOneWithAnotherAddress(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab, other := h.browse(identity.Approver), h.browse(identity.Admin)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	page := h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	path := Prefix + "/approvals/withdrawals/" + w.ID

	// Without a passkey the page says why, and an approval with a code alone is refused.
	other.OpenURL(h.base()+path, desk)
	wantText(t, other, "asks for the signatures of one person", "You have no passkey for “Approve payments”",
		"Make a passkey for approvals")
	if browser.Evaluate[bool](other, "document.querySelector('form[action$=approve], form[action$=sign]') !== null") {
		t.Error("the page has a form for a person without a passkey")
	}
	review, err := h.withdrawals.LoadReview(t.Context(), h.one.id, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := h.post(h.signIn(h.one, identity.Admin), path+"/approve", "digest", review.Digest, "code", rightCode+"1")
	if got.status != http.StatusConflict || !strings.Contains(got.body, "this approval has none") {
		t.Errorf("a code alone: got %d, want a refusal that asks for a signature", got.status)
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)

	// The page shows each word of the statement, in its order.
	tab.OpenURL(h.base()+path, desk)
	var want []string
	for _, word := range review.Statement("USER x", "2026-01-01T00:00:00.000000Z") {
		want = append(want, word.Name)
	}
	names := browser.Evaluate[[]string](tab,
		"[...document.querySelectorAll('form[action$=sign] [data-word]')].map((word) => word.dataset.word)")
	if !slices.Equal(names, want) || len(names) == 0 {
		t.Errorf("got the words %q, want %q", names, want)
	}

	// One character of the address is changed on the screen before the touch.
	browser.Evaluate[bool](tab, `((group) => {
		group.textContent = group.textContent.slice(0, -1) + (group.textContent.endsWith('0') ? '1' : '0');
	})(document.querySelector('form[action$=sign] [data-word=to] b')), true`)
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "it is of other words")
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)

	tab.OpenURL(h.base()+path, desk)
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "Approved and let go by You")
	h.wantWithdrawal(h.one, w.ID, withdrawal.Processing, 1)
	var keyID string
	err = h.db.ReadOrg(t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, "SELECT signature->>'keyId' FROM withdrawal_approvals WHERE withdrawal_id = $1", w.ID).
			Scan(&keyID)
	})
	if err != nil || !strings.HasSuffix(page, "/"+keyID) {
		t.Errorf("got the signature of %q, %v, want that of the passkey at %s", keyID, err, page)
	}
}

// A batch payout is signed as a whole on its page. Rule PAGE-110.
func TestAPasskeyApprovesABatchPayout(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := h.browse(identity.Approver)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 1_000_000_000)
	b := h.submitPayout(h.one, identity.Finance, h.addPayout(h.one, identity.Finance, payList(3), contenthash.Strict))
	path := Prefix + "/payouts/" + b.ID

	tab.OpenURL(h.base()+path, desk)
	wantText(t, tab, "asks for the signatures of one person")
	browser.Evaluate[bool](tab,
		`(document.querySelector('form[action$=sign] [data-word=payments]').textContent = '2', true)`)
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "it is of other words")
	if got := h.payout(h.one, b.ID); got.Status != payout.AwaitingApproval || got.Approvals != 0 {
		t.Errorf("got %s with %d approvals after a signature of other words", got.Status, got.Approvals)
	}
	tab.OpenURL(h.base()+path, desk)
	tab.Click("form[action$=sign] button[type=submit]")
	if got := h.payout(h.one, b.ID); got.Status != payout.Processing || got.Approvals != 1 {
		t.Errorf("got %s with %d approvals, want it to be paid after one signature", got.Status, got.Approvals)
	}
}

// The return of a flagged deposit is asked for by one person and signed by another on the page of the deposit. Rules
// CO-145 and PAGE-112.
func TestAPasskeySignsTheReturnOfAFlaggedDeposit(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := h.browse(identity.Approver)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1, Returns: true}, enroller)
	id := h.flagDeposits(h.one, 1, false)[0]
	path := Prefix + "/approvals/deposits/" + id
	token := h.signIn(h.one, identity.Admin)

	h.get(token, path).want(t, http.StatusOK, "asks for the signatures of one person", "Ask for the return")
	h.post(token, path+"/reject", "note", "not ours", "code", rightCode).want(t, http.StatusSeeOther)
	h.post(token, path+"/reject", "note", "not ours", "code", rightCode).want(t, http.StatusSeeOther)
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
	h.get(token, path).want(t, http.StatusOK, "The return waits for signatures", "Asked for by You",
		"You asked for this return", "0 of 1 signatures")
	got := h.post(token, path+"/approve", "note", "", "code", rightCode+"1")
	if got.status != http.StatusConflict || !strings.Contains(got.body, "the return waits for signatures") {
		t.Errorf("an approval meanwhile: got %d, want it refused until the return is taken back", got.status)
	}

	// One character of the address is changed on the screen before the touch.
	tab.OpenURL(h.base()+path, desk)
	wantText(t, tab, "Sign and return this deposit")
	browser.Evaluate[bool](tab, `((group) => {
		group.textContent = group.textContent.slice(0, -1) + (group.textContent.endsWith('0') ? '1' : '0');
	})(document.querySelector('form[action$=sign] [data-word=to] b')), true`)
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "it is of other words")
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)

	tab.OpenURL(h.base()+path, desk)
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "Rejected by Admin Person")
	h.wantDeposit(h.one, id, deposit.Rejecting, 0, 1)
}

// A return that waits is taken back, and a form without a signature changes nothing. Rule PAGE-112.
func TestAReturnThatWaitsIsTakenBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	payer := h.addPasskey(h.one, identity.Approver, signer.RightApprove)
	h.foundByHost(enroller)
	h.foundByHost(payer)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1, Returns: true}, enroller)
	id := h.flagDeposits(h.one, 1, false)[0]
	path := Prefix + "/approvals/deposits/" + id
	admin, approverToken := h.signIn(h.one, identity.Admin), h.signIn(h.one, identity.Approver)
	h.post(admin, path+"/reject", "note", "", "code", rightCode).want(t, http.StatusSeeOther)
	review, err := h.deposits.LoadReturn(t.Context(), h.one.id, id)
	if err != nil || review.Request == nil {
		t.Fatalf("got %v, %v, want a return that waits", review.Request, err)
	}
	h.get(approverToken, path).want(t, http.StatusOK, `data-word="madeBy"`, review.Request.ID)
	got := h.post(approverToken, path+"/sign", "return", review.Request.ID, "keyId", payer.ID, "notAfter", "",
		"credentialId", "", "authenticatorData", "", "clientDataJSON", "", "signature", "")
	if got.status == http.StatusSeeOther {
		t.Errorf("a form without a signature: got %d, want it refused", got.status)
	}
	h.post(h.signIn(h.one, identity.Finance), path+"/withdraw", "return", review.Request.ID, "code", rightCode).
		want(t, http.StatusForbidden)
	h.post(h.signIn(h.two, identity.Owner), path+"/withdraw", "return", review.Request.ID, "code", rightCode).
		want(t, http.StatusNotFound)
	h.post(approverToken, path+"/withdraw", "return", review.Request.ID, "code", rightCode+"1").
		want(t, http.StatusSeeOther)
	h.get(admin, path).want(t, http.StatusOK, "Ask for the return")
	h.wantDeposit(h.one, id, deposit.Flagged, 0, 0)
}

// A swap of the organization's own money is signed on its page. Rules CO-148 and PAGE-113.
func TestAPasskeySignsAnOwnSwap(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := h.browse(identity.Approver)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1, OwnPayments: true}, enroller)
	h.enableOwnSwaps(h.one)
	h.swaps.Approvers = h.approvers
	h.fundProduct(h.one, "CUSTODIAL", eth, oneETH)
	w := h.requestOwnSwap(h.one, "key", h.allow(h.one, cold, "Exchange"))
	if w.Status != swap.AwaitingApproval {
		t.Fatalf("got %s, want it held by the rule", w.Status)
	}
	tab.OpenURL(h.base()+Prefix+"/organization-swaps/"+w.ID, desk)
	wantText(t, tab, "asks for the signatures of one person")
	tab.Click("form[action$=sign] button[type=submit]")
	if got := h.listOwnSwaps(h.one)[0]; got.Status != swap.Pending || got.ApprovalCount != 1 {
		t.Errorf("got %s with %d approvals, want it let go", got.Status, got.ApprovalCount)
	}
}

// A rule is proposed and signed on its page, and a proposal can be withdrawn. Rule PAGE-111.
func TestARuleIsProposedSignedAndWithdrawn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := h.browse(identity.Owner)
	tab.AddAuthenticator()
	h.foundByHost(h.addPasskey(h.one, identity.Approver, signer.RightApprove))
	h.enrol(tab, signer.RightEnrol)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	propose := func(quorum, assets string) {
		t.Helper()
		tab.OpenURL(h.base()+Prefix+"/approvers/rule", desk)
		browser.Evaluate[bool](tab, fmt.Sprintf(`((form) => {
			form.elements.quorum.value = %q;
			form.elements.assets.value = %q;
		})(document.querySelector('form[action$=propose]')), true`, quorum, assets))
		tab.Click("form[action$=propose] button[type=submit]")
	}
	propose("2", "")
	wantText(t, tab, "The rule asks for 2 people")
	propose("1", "1 500 2000.0000001")
	wantText(t, tab, "at most 6 decimals")
	propose("1", "1 500 2000.5")
	wantText(t, tab, "Version 1 is proposed",
		"Of USDC on Ethereum, payments below 500 need none, up to 2000.5 in a day.",
		"No payment needs a signature.")

	tab.Click("form[action$=withdraw] button[type=submit]")
	wantText(t, tab, "Propose another rule")
	propose("1", "1 600 700")
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "Version 1. A payment needs the signatures of one person.",
		"Of USDC on Ethereum, payments below 600 need none, up to 700 in a day.")

	// A rule that asks for less cools off, and the one before holds meanwhile.
	propose("0", "")
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "Version 2 is signed and cools off", "It holds from",
		"Version 1. A payment needs the signatures of one person.")
	rule := h.loadRule(h.one)
	if rule == nil || rule.Version != 1 || rule.Assets[0].Threshold != money.Units(600_000_000) {
		t.Errorf("got the rule %+v, want version 1", rule)
	}
	h.pass(25 * time.Hour)
	if rule := h.loadRule(h.one); rule != nil {
		t.Errorf("got the rule %+v after the cooling-off, want none", rule)
	}
}

func (h *testEnv) loadRule(who tenant) (rule *signer.ApprovalRule) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) (err error) {
		rule, err = h.approvers.LoadRule(ctx, tx, who.id)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return rule
}

// addApprover enrols a passkey of a person, which waits to be admitted, and returns its id.
func (h *testEnv) addApprover(who tenant, role identity.Role, right signer.Right) string {
	h.t.Helper()
	return h.addPasskey(who, role, right).ID
}

// addPasskey enrols a passkey of a person, which waits to be admitted.
func (h *testEnv) addPasskey(who tenant, role identity.Role, right signer.Right) *signertest.Passkey {
	h.t.Helper()
	return h.addPasskeyNamed(who, role, right, who.people[role].ID)
}

// addPasskeyNamed is addPasskey for one of several passkeys of a person.
func (h *testEnv) addPasskeyNamed(who tenant, role identity.Role, right signer.Right, name string) *signertest.Passkey {
	h.t.Helper()
	m := who.people[role]
	p := signertest.NewPasskey(h.t, who.id, name, right)
	p.ID, p.Person, p.Email = approver.NewKeyID(h.now()), approver.PersonName(m.Actor()), m.Email
	p.RPID, p.Origin = "localhost", h.base()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		request := p.Request(h.t, h.approvers.Installation(), h.now().Add(time.Hour))
		_, err := h.approvers.Enrol(ctx, tx, m.Actor(), request)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// refreshSudo lets the second factor of every session count again.
func (h *testEnv) refreshSudo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for token, s := range h.sessions {
		s.SudoUntil = time.Now().Add(h.ahead + sudoLasts)
		h.sessions[token] = s
	}
}

// A form without a signature, of a role that decides nothing, and of another organization changes nothing. Rule
// PAGE-108.
func TestAPasskeyIsNotEnrolledByAFormAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner, viewer := h.signIn(h.one, identity.Owner), h.signIn(h.one, identity.Viewer)
	h.get(viewer, Prefix+"/approvers").want(t, http.StatusOK, "Approvers and rule")
	h.get(viewer, Prefix+"/approvers/new").want(t, http.StatusForbidden)
	got := h.post(owner, Prefix+"/approvers/new/"+"enrol", "right", "APPROVE", "publicKey", "", "keyId", "apk_1",
		"notAfter", "", "credentialId", "", "authenticatorData", "", "clientDataJSON", "", "signature", "")
	if got.status < 400 || !strings.Contains(got.body, "without the signature of a passkey") {
		t.Errorf("got %d %s, want the reason", got.status, got.body)
	}
	h.get(owner, Prefix+"/approvers/"+url.PathEscape("apk_01J9ZW3M8Q4S5T6V7W8X9YZABC")).want(t, http.StatusNotFound)
	h.get(owner, Prefix+"/approvers").want(t, http.StatusOK, "No one has a passkey for approvals yet")
}
