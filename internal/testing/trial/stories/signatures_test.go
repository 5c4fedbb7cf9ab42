package stories

import (
	"context"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// playSignatures lets two people make passkeys, set a rule with them, and sign one payment, which is paid. A person at
// the signer's host founds the passkeys. Rules SA-1, SA-2 and SA-4.
func playSignatures(s *story) {
	s.payIn("sigrid", s.ether, wholeUnits(s.ether, 2))
	first, second := browser.Open(s), browser.Open(s)
	s.join(first, "ann@approvers.test", "Ann Admin", identity.Admin)
	s.join(second, "ben@approvers.test", "Ben Admin", identity.Admin)
	list := s.Info.DashboardURL + "/approvers"
	for _, tab := range []*browser.Page{first, second} {
		for _, display := range []string{"Approve payments", "Change who approves"} {
			tab.OpenURL(list+"/new", desk)
			tab.Click(fmt.Sprintf("form[data-display=%q] button", display))
			tab.Click("form[data-sign] button[type=submit]")
			s.wantText(tab, "Waits to be admitted", "coffer signer approvers found")
		}
	}
	if founded, err := s.Info.FoundApprovers(s.ctx); err != nil || len(founded) != 4 {
		s.Fatalf("got %d passkeys founded, %v, want 4", len(founded), err)
	}
	s.waitUntil("the signer has all passkeys", func() bool {
		var n int
		err := s.ServiceDB().ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM approver_keys WHERE usable_from <= $1`, tx.Now).Scan(&n)
		})
		if err != nil {
			s.Fatal(err)
		}
		return n == 4
	})
	first.OpenURL(list, desk)
	s.wantText(first, "Ann Admin", "Ben Admin", "Counts")

	// A rule needs both, because each of its payments will.
	first.OpenURL(list+"/rule", desk)
	first.Type("form[action$=propose] [name=quorum]", "2")
	first.Click("form[action$=propose] button[type=submit]")
	first.Click("form[action$=sign] button[type=submit]")
	s.wantText(first, "Version 1 is proposed")
	second.OpenURL(list+"/rule", desk)
	second.Click("form[action$=sign] button[type=submit]")
	s.wantText(second, "Version 1. A payment needs the signatures of 2 people.")

	to := s.newAddress()
	w := s.requestWithdrawal("sigrid", "1", to, false)
	if w.Status != "AWAITING_APPROVAL" {
		s.Errorf("got %s, want the payment held by the rule", w.Status)
	}
	page := s.Info.DashboardURL + "/approvals/withdrawals/" + w.WithdrawalID
	first.OpenURL(page, desk)
	s.wantText(first, "asks for the signatures of 2 people")
	browser.Evaluate[bool](first, `((group) => {
		group.textContent = group.textContent.slice(0, -1) + (group.textContent.endsWith('0') ? '1' : '0');
	})(document.querySelector('form[action$=sign] [data-word=to] b')), true`)
	first.Click("form[action$=sign] button[type=submit]")
	s.wantText(first, "it is of other words")
	s.wantApprovals(w.WithdrawalID, 0)

	first.OpenURL(page, desk)
	first.Click("form[action$=sign] button[type=submit]")
	s.wantText(first, "You approved it")
	s.wantApprovals(w.WithdrawalID, 1)
	second.OpenURL(page, desk)
	second.Click("form[action$=sign] button[type=submit]")
	s.wantText(second, "Approved and let go by You")
	s.newCaller(s.Info.APIKey).WaitCompleted(w.WithdrawalID)
	s.wantHolds(s.ether, to, wholeUnits(s.ether, 1))
	if got := s.loadWithdrawal(w.WithdrawalID); got.Approvals.Received != 2 ||
		!strings.EqualFold(got.ToAddress, to.Hex()) {
		s.Errorf("got %+v, want the payment of both", got)
	}
	s.wantQuiet(first, second)
}
