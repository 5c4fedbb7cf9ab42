package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// In a browser one person uploads a list with a bad row, reads what is wrong, corrects it, reviews the draft and
// submits it. Another person approves it, and the page of the first one follows the payments by itself. The results
// are downloaded. Rules PAGE-9, PAGE-101, PAGE-102, PAGE-103 and PAGE-104.
func TestTwoPeoplePayAListInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 10_000_000)
	h.startLive()
	base := "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	maker, approver := browser.Open(t), browser.Open(t)
	token := h.signIn(h.one, identity.Finance)
	maker.SetCookie(base, pages.SessionCookie, token)
	approver.SetCookie(base, pages.SessionCookie, h.signIn(h.one, identity.Approver))
	list := filepath.Join(t.TempDir(), "salaries.csv")
	upload := func(text string) {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		maker.ChooseFile("#upload-file", list)
		maker.Click("form[action$=upload] button.primary")
	}

	maker.OpenURL(base+Prefix+"/payouts", desk)
	maker.Click(`main a[href$="/payouts/new"]`)
	upload(payList(2, "bonus,,1,"+payees[2]+`,"1,5"`))
	wantText(t, maker, "1 row cannot be read", "has a separator", "row 3", "1,5", "Correct these rows")
	maker.Click(`main a.button[href$="/payouts/new"]`)
	upload(payList(3))
	wantText(t, maker, "Payout of 3 rows", "Review and submit", "Nothing is held", "never paid before")
	maker.Type("#submit-code", rightCode)
	maker.DoubleClick("form[action$=submit] button.primary")
	wantText(t, maker, "Being checked", "Its sum is held")
	made := h.listPayouts(h.one)[0]
	browser.Evaluate[bool](maker, "window.notLoadedAgain = true")
	h.workPayouts()
	maker.WaitUntil(`document.querySelector('main').innerText.includes('Waits for approval')`)
	wantText(t, maker, "You made this payout, so another person has to approve it.")

	approver.OpenURL(base+Prefix+"/approvals", desk)
	approver.Click(`.tabs a[href$="/approvals/payouts"]`)
	approver.Click(`main a[href$="` + made.ID + `"]`)
	shown := browser.Evaluate[string](approver, `[...document.querySelectorAll('[data-word]')]
		.map((word) => word.dataset.word + (word.checkVisibility() ? '' : ' is hidden')).join(' ')`)
	if want := "act organization batch mode rows included total1 contentHash"; shown != want {
		t.Errorf("got the words %q, want %q, all visible", shown, want)
	}
	approver.Type("#approve-code", rightCode+"2")
	approver.Click("form[action$=approve] button.primary")
	wantText(t, approver, "Being paid")

	h.workPayouts()
	maker.WaitUntil(`document.querySelector('main').innerText.includes('3 on their way')`)
	h.endRows(made, "COMPLETED", "COMPLETED", "COMPLETED")
	h.workPayouts()
	maker.WaitUntil(`document.querySelector('main').innerText.includes('3 of 3 rows paid')`)
	maker.WaitUntil(`document.querySelector('progress').value === 3`)
	if !browser.Evaluate[bool](maker, "window.notLoadedAgain === true") {
		t.Error("the page was loaded again as a whole")
	}
	if b := h.payout(h.one, made.ID); b.Status != payout.Completed {
		t.Errorf("got %s, want COMPLETED", b.Status)
	}
	results := browser.Evaluate[string](maker, `document.querySelector('aside a[href$=".csv"]').getAttribute('href')`)
	h.get(token, results).want(t, http.StatusOK, "salary-3,employee 3,1,"+payees[2]+",3.5,wd_", "COMPLETED")
	for _, tab := range []*browser.Page{maker, approver} {
		for _, complaint := range tab.ListComplaints() {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}
