package stories

import (
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/webhook"
)

// People use the pages of a running service, from the invitation to the chain, with their mistakes. Rules
// PAGE-3, PAGE-7, PAGE-15, PAGE-17, PAGE-21 and PAGE-34. The tracer belongs to the process, so no other test runs
// beside this one.
func TestPeopleUseThePagesOfAWorld(t *testing.T) {
	n := newScenario(t)
	t.Run("stories", func(t *testing.T) {
		for name, play := range map[string]func(*story){
			"a person is invited and signs in":       playInvitation,
			"two people approve, another is removed": playApprovals,
			"a flagged deposit is rejected":          playRejection,
			"a flagged deposit is redirected":        playRedirect,
			"own money is withdrawn with Max":        playOwnWithdrawal,
			"a secret is rotated":                    playRotation,
			"a customer is frozen and let go":        playFreeze,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(n.newStory(t))
			})
		}
	})
	// The organization gets a rule, under which the other stories would need signatures.
	t.Run("two people sign a payment", func(t *testing.T) { playSignatures(n.newStory(t)) })
	// The key of the organization changes, which the other stories use.
	t.Run("the key is rolled", func(t *testing.T) { playKey(n.newStory(t)) })
}

// playApprovals lets two people approve one withdrawal, and one of them remove another one.
func playApprovals(s *story) {
	s.payIn("bella", s.ether, wholeUnits(s.ether, 2))
	to := s.newAddress()
	paid, removed := s.requestWithdrawal("bella", "1", to, true), s.requestWithdrawal("bella", "0.5", to, true)
	list := s.Info.DashboardURL + "/approvals"

	// The code of the sign-in does not approve anything: a code counts once.
	first := browser.Open(s)
	used := s.signIn(first, list, s.user("APPROVER"))
	s.wantText(first, "Transactions to approve")
	first.Click(`main a[href$="` + paid.WithdrawalID + `"]`)
	s.wantText(first, "Your organization has never paid this address before.", "Approve 1 ETH")
	first.Type("#approve-code", used)
	first.Click("form[action$=approve] button")
	s.wantApprovals(paid.WithdrawalID, 0)
	first.Type("#approve-code", s.code(s.user("APPROVER")))
	first.Click("form[action$=approve] button")
	s.wantText(first, "You approved it", "Another person has to approve it")
	s.wantApprovals(paid.WithdrawalID, 1)

	// While the first person types, the page stays as it is.
	first.Type("#remove-code", wrongCode)

	// The second person has a passkey alone, and first looks away from the device.
	second := browser.Open(s)
	device := s.join(second, "bob@example.test", "Bob Admin", identity.Admin)
	second.OpenURL(list+"/withdrawals/"+paid.WithdrawalID, desk)
	s.cancelPasskey(second, device, "form[action$=approve] button.primary")
	s.wantApprovals(paid.WithdrawalID, 1)
	second.Click("form[action$=approve] button.primary")
	s.wantText(second, "Approved and let go by You")
	s.wantApprovals(paid.WithdrawalID, 2)

	// The old tab of the first person removes nothing, and shows what the colleague did.
	s.waitText(first, "Something on this page changed since you opened it.")
	first.Click("form[action$=remove] button")
	s.wantText(first, "Bob Admin", "No decision is needed")

	second.OpenURL(list+"/withdrawals/"+removed.WithdrawalID, desk)
	second.Type("#remove-reason", "Not a customer of ours")
	second.Click("form[action$=remove] button.danger")
	s.wantText(second, "Removed by You", "Not a customer of ours")
	s.goBack(second, "Removed by You")
	if w := s.loadWithdrawal(removed.WithdrawalID); w.Status != "REJECTED" || w.RejectedReason == nil ||
		*w.RejectedReason != "Not a customer of ours" {
		s.Errorf("got %s %v, want it removed with the reason", w.Status, w.RejectedReason)
	}
	s.newCaller(s.Info.APIKey).WaitCompleted(paid.WithdrawalID)
	s.wantHolds(s.ether, to, wholeUnits(s.ether, 1))
	s.wantQuiet(first, second)
	s.wantTrace("POST", "/approvals/withdrawals/{withdrawalId}", paid.WithdrawalID)
}

func (s *story) wantApprovals(id string, want int) {
	s.Helper()
	if w := s.loadWithdrawal(id); w.Approvals.Received != want {
		s.Errorf("got %d approvals of %s, which is %s, want %d", w.Approvals.Received, id, w.Status, want)
	}
}

// playRejection lets a person reject a flagged deposit, whose return is on the chain.
func playRejection(s *story) {
	id, thief := s.flagDeposit("carol")
	tab := browser.Open(s)
	device := s.join(tab, "rita@example.test", "Rita Approver", identity.Approver)
	tab.OpenURL(s.Info.DashboardURL+"/approvals/flagged", desk)
	s.wantText(tab, "carol", "Severe")
	tab.Click(`main a[href$="` + id + `"]`)
	s.wantText(tab, "Deposit of 400 USDC", "A rejection returns it to the sender.", "<b>A thief</b>")
	tab.Type("#reject-note", "The police asked")
	s.cancelPasskey(tab, device, "form[action$=reject] button.danger")
	if d := s.loadDeposit(id); d.Status != "FLAGGED" {
		s.Errorf("got %s without a passkey, want no decision", d.Status)
	}
	tab.Press("form[action$=reject] button.danger", 2)
	s.wantText(tab, "This deposit was decided.", "The police asked")

	d := s.waitDeposit(id, "REJECTED")
	s.waitText(tab, "Returned") // The page changes by itself.
	s.waitText(tab, "Transaction of the return")
	if r := d.Resolution; r == nil || r.TxHash == nil || r.ToAddress == nil || *r.ToAddress != thief.Hex() {
		s.Fatalf("got the resolution %+v, want a return to %s", r, thief)
	}
	receipt, err := s.eth.TransactionReceipt(s.ctx, common.HexToHash(*d.Resolution.TxHash))
	if err != nil || receipt.Status != 1 {
		s.Fatalf("look for the return %s on the chain: %+v, %v", *d.Resolution.TxHash, receipt, err)
	}
	s.wantHolds(s.usdc, thief, wholeUnits(s.usdc, 400))

	// The way back and the list show the decision, and a second one is not possible.
	s.goBack(tab, "This deposit was decided.")
	s.sendOldForm(tab, "/dashboard/approvals/deposits/"+id+"/approve", "note", "", "code", wrongCode)
	s.wantText(tab, "This deposit was decided.", "Returned")
	tab.OpenURL(s.Info.DashboardURL+"/approvals/history", desk)
	s.wantText(tab, "carol", "Rejected", "You")
	s.wantHolds(s.usdc, thief, wholeUnits(s.usdc, 400))
	s.wantQuiet(tab)
}

// playRedirect lets an operator redirect a flagged deposit, which an auditor only sees.
func playRedirect(s *story) {
	id, thief := s.flagDeposit("dave")
	page, to := s.Info.ConsoleURL+"/flagged/"+id, s.newAddress()
	auditor := browser.Open(s)
	s.signIn(auditor, page, s.user("AUDITOR"))
	s.wantText(auditor, "400 USDC", "does not decide about it")
	s.sendOldForm(auditor, "/console/flagged/"+id+"/redirect", "toAddress", to.Hex(), "reason", "LAW_ENFORCEMENT",
		"reference", "case 77", "note", "", "code", wrongCode)
	s.wantText(auditor, "This needs the role Operator")
	if d := s.loadDeposit(id); d.Status != "FLAGGED" {
		s.Errorf("got %s from an auditor, want no decision", d.Status)
	}

	// The operator makes a passkey first, because an act takes a code of its own.
	tab := browser.Open(s)
	tab.AddAuthenticator()
	s.signIn(tab, s.Info.ConsoleURL+"/security", s.user("OPERATOR"))
	tab.Type("#add-passkey-name", "Laptop")
	tab.Click("form[action$=add-passkey] button")
	s.wantText(tab, "Passkey Laptop")
	tab.OpenURL(page, desk)
	tab.Type("#redirect-toAddress", "0x1")
	tab.Type("#redirect-reference", "case 77")
	tab.Click("form[action$=redirect] [data-use-passkey]")
	if typed := readField(tab, "#redirect-reference"); typed != "case 77" {
		s.Errorf("got the reference %q, want what the operator typed", typed)
	}
	tab.Type("#redirect-toAddress", to.Hex())
	tab.Click("form[action$=redirect] [data-use-passkey]")
	s.wantText(tab, "Otto Operator", "case 77")

	d := s.waitDeposit(id, "REDIRECTED")
	if r := d.Resolution; r == nil || r.ToAddress == nil || *r.ToAddress != to.Hex() || r.TxHash == nil {
		s.Errorf("got the resolution %+v, want one to %s", r, to)
	}
	s.wantHolds(s.usdc, to, wholeUnits(s.usdc, 400))
	s.wantHolds(s.usdc, thief, wholeUnits(s.usdc, 0))
	s.sendOldForm(tab, "/console/flagged/"+id+"/redirect", "toAddress", thief.Hex(), "reason", "LAW_ENFORCEMENT",
		"reference", "case 78", "note", "", "code", wrongCode)
	s.wantText(tab, "Redirected", "case 77")
	s.wantQuiet(tab, auditor)
}

// playOwnWithdrawal lets a person withdraw all of an own balance.
func playOwnWithdrawal(s *story) {
	s.payIn("erin", s.usdc, wholeUnits(s.usdc, 50))
	s.call(http.MethodPost, "/transfers", map[string]any{
		"mintId": s.usdc.ID, "amount": wholeUnits(s.usdc, 50).String(), "from": map[string]any{"customerId": "erin"},
		"to": map[string]any{"product": "CUSTODIAL"}, "idempotencyKey": "fees-of-erin",
	}, http.StatusCreated, nil)
	to := s.newAddress()
	path := "/organizations/" + s.Info.OrganizationID + "/whitelisted-addresses"
	s.callOperator(http.MethodPost, path, map[string]any{
		"chain": "ETHEREUM", "address": to.Hex(), "label": "Cold wallet",
	}, nil)
	s.waitUntil("the address is usable", func() bool {
		var list struct{ Data []struct{ Status string } }
		s.callOperator(http.MethodGet, path, nil, &list)
		return len(list.Data) == 1 && list.Data[0].Status == "USABLE"
	})
	tab := browser.Open(s)
	s.signIn(tab, s.Info.DashboardURL+"/withdraw", s.user("FINANCE"))
	s.wantText(tab, "Choose Token and Network", "USDC", "Cold wallet")
	tab.Click(`main a[href*="/withdraw/CUSTODIAL/"]`)
	tab.Type("#continue-amount", "500")
	tab.Click("form[action$=continue] button.primary")
	s.wantText(tab, "smaller than the amount")
	if typed := readField(tab, "#continue-amount"); typed != "500" {
		s.Errorf("got the amount %q, want what the person typed", typed)
	}
	tab.Click("button[name=max]")
	if most := readField(tab, "#continue-amount"); most != "50" {
		s.Errorf("got the amount %q from Max, want 50", most)
	}
	tab.Click("form[action$=continue] button.primary")
	s.wantText(tab, "It will be paid at once", "Withdraw 50 USDC")
	tab.Type("#request-code", wrongCode)
	tab.Click("form[action$=request] button")
	if got := s.listOwnWithdrawals(); len(got) != 0 {
		s.Fatalf("got %d withdrawals after a wrong code, want none", len(got))
	}
	form := browser.Evaluate[string](tab, "document.querySelector('form[action$=request]').getAttribute('action')")
	sent := readHidden(tab, "form[action$=request]")
	tab.Type("#request-code", s.code(s.user("FINANCE")))
	tab.Press("form[action$=request] button", 2)
	made := s.listOwnWithdrawals()
	if len(made) != 1 {
		s.Fatalf("got %d withdrawals after a double click, want one", len(made))
	}
	s.newCaller(s.Info.APIKey).WaitCompleted(made[0].WithdrawalID)
	s.wantHolds(s.usdc, to, wholeUnits(s.usdc, 50))
	// The same form once more, of an old tab, leads to the same withdrawal.
	s.sendOldForm(tab, form, append(sent, "code", wrongCode)...)
	s.wantText(tab, "Withdrawal of 50 USDC", "Paid")
	if got := s.listOwnWithdrawals(); len(got) != 1 {
		s.Errorf("got %d withdrawals after the form of an old tab, want one", len(got))
	}
	tab.OpenURL(s.Info.DashboardURL+"/withdraw", desk)
	s.wantText(tab, "There is nothing to withdraw")
	s.wantQuiet(tab)
	s.wantTrace("POST", "/withdraw/{product}/{mintId}/confirm", made[0].WithdrawalID)
}

func (s *story) listOwnWithdrawals() []webhook.Withdrawal {
	s.Helper()
	var list struct{ Data []webhook.Withdrawal }
	s.call(http.MethodGet, "/withdrawals?type=ORGANIZATION", nil, http.StatusOK, &list)
	return list.Data
}

// playFreeze lets one person freeze a customer, and another one lift that.
func playFreeze(s *story) {
	s.payIn("frank", s.ether, wholeUnits(s.ether, 1))
	to := s.newAddress()
	request := map[string]any{
		"mintId": s.ether.ID, "customerId": "frank", "amount": "0.25", "useDecimal": true, "toAddress": to.Hex(),
		"idempotencyKey": "a-payment-of-frank",
	}
	page := s.Info.DashboardURL + "/customers/frank"
	tab := browser.Open(s)
	device := s.join(tab, "fay@example.test", "Fay Finance", identity.Finance)
	tab.OpenURL(page, desk)
	tab.Type("#freeze-reason", "Wrong identity")
	s.cancelPasskey(tab, device, "form[action$=freeze] button.danger")
	if n := s.countFreezes(); n != 0 {
		s.Errorf("got %d freezes without a passkey, want none", n)
	}
	tab.Press("form[action$=freeze] button.danger", 2)
	s.wantText(tab, "No money leaves the customer's balances", "Wrong identity")
	if n := s.countFreezes(); n != 1 {
		s.Errorf("got %d freezes after a double click, want one", n)
	}
	var refusal struct{ Code string }
	s.call(http.MethodPost, "/withdraw", request, http.StatusForbidden, &refusal)
	if refusal.Code != "CUSTOMER_FROZEN" {
		s.Errorf("got %s for a withdrawal of a frozen customer", refusal.Code)
	}
	// A role that freezes does not lift, neither by the page nor by a form made by hand.
	s.wantText(tab, "An owner, an admin or an approver can lift that.")
	s.sendOldForm(tab, "/dashboard/customers/frank/lift", "code", wrongCode)
	s.wantText(tab, "Owner, Admin or Approver")
	if n := s.countFreezes(); n != 1 {
		s.Errorf("got %d freezes after the lift of a role without the right, want one", n)
	}

	other := browser.Open(s)
	s.join(other, "greg@example.test", "Greg Approver", identity.Approver)
	other.OpenURL(page, desk)
	s.wantText(other, "Wrong identity", "Fay Finance")
	other.Click("form[action$=lift] button.primary")
	s.waitText(other, "Freeze this customer")
	s.waitText(tab, "Owner, Admin or Approver") // The refusal stays until the person goes on.
	tab.OpenURL(page, desk)
	s.wantText(tab, "Freeze this customer")
	var w webhook.Withdrawal
	s.call(http.MethodPost, "/withdraw", request, http.StatusAccepted, &w)
	s.newCaller(s.Info.APIKey).WaitCompleted(w.WithdrawalID)
	if got := s.chainBalance(s.ether, to); got.Sign() == 0 {
		s.Error("the withdrawal after the freeze did not arrive")
	}
	s.wantQuiet(tab, other)
}

// countFreezes counts the freezes of customers that are in force.
func (s *story) countFreezes() int {
	s.Helper()
	var list struct{ Data []struct{ Scope string } }
	s.callOperator(http.MethodGet, "/freezes?standing=true&scope=CUSTOMER", nil, &list)
	return len(list.Data)
}

// playKey lets a person roll the key. The old value is refused from then on.
func playKey(s *story) {
	old := s.Info.APIKey
	tab := browser.Open(s)
	s.join(tab, "kim@example.test", "Kim Admin", identity.Admin)
	tab.OpenURL(s.Info.DashboardURL+"/developers", desk)
	tab.Click(`main a[href$="/developers/keys/key_main"]`)
	seen := readField(tab, "form[action$=roll] [name=seen]")
	tab.Press("form[action$=roll] button.primary", 2)
	s.wantText(tab, "This is shown once")
	value := browser.Evaluate[string](tab, "document.querySelector('.secret').textContent.trim()")
	if value == "" || value == old {
		s.Fatal("the page shows no new key")
	}
	for key, want := range map[string]int{old: http.StatusUnauthorized, value: http.StatusOK} {
		if got := s.newCaller(key).CallAPI(http.MethodGet, "/mints", nil, new(any)); got != want {
			s.Errorf("the old and the new key: got %d, want %d", got, want)
		}
	}
	// The way back shows no key, and a tab of before the roll gives the programs no third one.
	s.goBack(tab, "Give it a new value")
	if browser.Evaluate[bool](tab, "document.querySelector('.secret') !== null") {
		s.Error("the way back shows the key again")
	}
	s.sendOldForm(tab, "/dashboard/developers/keys/key_main/roll", "seen", seen, "overlapSeconds", "0")
	s.wantText(tab, "rolled after this page was loaded")
	if got := s.newCaller(value).CallAPI(http.MethodGet, "/mints", nil, new(any)); got != http.StatusOK {
		s.Errorf("the new key after a form of an old tab: got %d, want 200", got)
	}
	kept, err := localworld.ReadInfo(s.dir)
	if err != nil || kept.APIKey != value {
		s.Errorf("the description of the world has another key than the page (%v)", err)
	}
	s.wantQuiet(tab)
}
