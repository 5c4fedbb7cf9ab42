package stories

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// playInvitation lets an owner invite a person, who signs in with a code and with a passkey. A change of the
// roles ends the session of the person.
func playInvitation(s *story) {
	owner := browser.Open(s)
	team := s.Info.DashboardURL + "/team"
	owner.OpenURL(team, desk)
	owner.Type("#password-email", s.user("OWNER").Email)
	owner.Type("#password-password", "not the password")
	owner.Click("main button.primary")
	s.wantText(owner, "That did not match.")
	s.giveFactors(owner, s.user("OWNER"))
	owner.Type("#invite-email", "nina@example.test")
	owner.Type("#invite-name", "Nina <i>New</i>")
	owner.Press("form[action$=invite] button.primary", 1)
	s.wantText(owner, "Tick at least one role.")
	if typed := readField(owner, "#invite-email"); typed != "nina@example.test" {
		s.Errorf("got the e-mail %q, want what the owner typed", typed)
	}
	browser.Evaluate[bool](owner, "(document.querySelector('#invite-APPROVER').click(), true)")
	owner.Press("form[action$=invite] button.primary", 2)
	s.wantText(owner, "Nina <i>New</i>", "Invited")
	person := browser.Evaluate[string](owner, "location.pathname")

	// A scanner of mail opens the link before the person does.
	link := s.waitLink("nina@example.test")
	if got := s.get(link); got != http.StatusOK {
		s.Errorf("the link: got %d for a scanner, want a page", got)
	}
	tab := browser.Open(s)
	tab.OpenURL(link, desk)
	tab.Type("#accept-name", "Nina")
	tab.Type("#accept-password", "short")
	tab.Click("main button.primary")
	s.wantText(tab, "12 to 128 characters")
	tab.Type("#accept-password", goodPassword)
	tab.Click("main button.primary")
	// Before the second factor, no page shows anything.
	tab.OpenURL(s.Info.DashboardURL+"/approvals", desk)
	s.wantText(tab, "Set up your second factor")
	tab.Click("form[action$=start] button")
	nina := localworld.User{
		Email: "nina@example.test", Password: goodPassword,
		TOTPSecret: browser.Evaluate[string](tab, "document.querySelector('.secret').textContent.trim()"),
	}
	tab.Type("#confirm-code", wrongCode)
	tab.Click("form[action$=confirm] button.primary")
	used := s.code(nina)
	tab.Type("#confirm-code", used)
	tab.Click("form[action$=confirm] button.primary")
	s.wantText(tab, "You have no recovery codes.")
	if got := s.get(link); got != http.StatusNotFound {
		s.Errorf("the link: got %d after it was used, want 404", got)
	}

	// The code of the enrolment does not sign in.
	tab.Click("form[action$=sign-out] button")
	tab.OpenURL(s.Info.DashboardURL+"/approvals", desk)
	tab.Type("#password-email", nina.Email)
	tab.Type("#password-password", nina.Password)
	tab.Click("main button.primary")
	tab.Type("#confirm-code", used)
	tab.Click("main button.primary")
	s.wantText(tab, "Second factor")
	tab.Type("#confirm-code", s.code(nina))
	tab.Click("main button.primary")
	s.wantText(tab, "Transactions to approve", "Approver")

	device := tab.AddAuthenticator()
	tab.OpenURL(s.Info.DashboardURL+"/security", desk)
	tab.Type("#add-passkey-name", "Phone")
	s.cancelPasskey(tab, device, "form[action$=add-passkey] button")
	tab.Click("form[action$=add-passkey] button")
	s.wantText(tab, "Passkey Phone", "Never used")
	device.SetVerified(false) // The page of sign-in asks for a passkey by itself, to which the device would answer.
	tab.Click("form[action$=sign-out] button")
	s.signInWithPasskey(tab, device, s.Info.DashboardURL+"/approvals")
	s.wantText(tab, "Transactions to approve", "Approver")

	// The owner makes an observer of the approver. The open page of the person leads to sign-in.
	owner.OpenURL(strings.TrimSuffix(team, "/dashboard/team")+person, desk)
	for _, role := range []string{"APPROVER", "VIEWER"} {
		browser.Evaluate[bool](owner, "(document.querySelector('#roles-"+role+"').click(), true)")
	}
	owner.Press("form[action$=roles] button.primary", 1)
	s.wantText(owner, "Viewer")
	device.SetVerified(false)
	tab.OpenURL(s.Info.DashboardURL+"/security", desk)
	s.wantText(tab, "Sign in")
	s.signInWithPasskey(tab, device, s.Info.DashboardURL+"/approvals")
	s.wantText(tab, "Transactions to approve", "Viewer")
	s.wantQuiet(owner, tab)
}

// signInWithPasskey signs in without a password. The person looks away from the device before, and once more
// when the device asks.
func (s *story) signInWithPasskey(tab *browser.Page, device *browser.Authenticator, url string) {
	s.Helper()
	tab.OpenURL(url, desk)
	s.cancelPasskey(tab, device, "form[data-needs-passkey] button")
	tab.Click("form[data-needs-passkey] button")
}

// get requests a URL without a browser and returns the status.
func (s *story) get(url string) int {
	s.Helper()
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

var linkText = regexp.MustCompile(`http://localhost:\d+/dashboard/\S+`)

// waitLink waits for the mail to an address and returns its link.
func (s *story) waitLink(address string) (link string) {
	s.Helper()
	s.waitUntil("the mail arrives", func() bool {
		files, err := filepath.Glob(filepath.Join(s.dir, localworld.MailFolder, "*.eml"))
		if err != nil {
			s.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				s.Fatal(err)
			}
			if strings.Contains(string(text), address) {
				link = linkText.FindString(string(text))
			}
		}
		return link != ""
	})
	return link
}
