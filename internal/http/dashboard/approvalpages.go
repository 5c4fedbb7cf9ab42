package dashboard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/http/approverpages"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/signinpages"
	"github.com/cofferpay/coffer/internal/identity"
)

// ApprovalsDevicePath is the page of a mailed link of the pages of approvals. The token is appended.
const ApprovalsDevicePath = signinpages.DeviceLink

// NewApprovals builds the handler of the pages of approvals at an address of their own: sign-in, what waits for
// approval, its review with signatures, and the approvers with their rule. Nothing else is there. Rule PAGE-118.
func NewApprovals(conf Config) http.Handler {
	return pages.New((&dashboard{conf}).approvalsSurface(), conf.kitConfig())
}

// ListApprovalPages returns the table of the pages of approvals.
func ListApprovalPages(conf Config) []pages.Page { return (&dashboard{conf}).approvalsSurface().Pages }

func (d *dashboard) approvalsSurface() pages.Surface {
	shown := []pages.Page{
		d.approvalsHomePage(), d.approvalsPage(), d.reviewPage(), d.reviewListPage(), d.flaggedPage(),
		d.flaggedReviewPage(),
		d.ownSwapsToApprovePage(), decisionsOf(d.ownSwapPage()), d.payoutsToApprovePage(), decisionsOf(d.payoutPage()),
	}
	shown = append(shown, d.approvers().List()...)
	for i := range shown {
		shown[i].WriteCSV = nil // The dashboard has the tables.
	}
	return signinpages.MountForApprovals(pages.Surface{
		Name: "Coffer approvals", Groups: []string{"", "Organization"}, Pages: shown,
		ElsewhereURL: d.conf.DashboardURL, FindNotices: d.findNotices,
	}, d.conf.SignIn, d.conf.DashboardURL+signinpages.SecurityPath)
}

// decisionsOf leaves a page the acts of those who approve.
func decisionsOf(p pages.Page) pages.Page {
	p.Acts = slices.DeleteFunc(p.Acts, func(a pages.Act) bool { return a.Action != identity.DecideWithdrawal })
	return p
}

// isForApprovals reports whether these are the pages of approvals at an address of their own.
func (d *dashboard) isForApprovals() bool { return d.conf.DashboardURL != "" }

// approvalsHomePage shows what waits for approval at the address alone.
func (d *dashboard) approvalsHomePage() pages.Page {
	p := d.approvalsPage()
	p.Path, p.Icon, p.Shortcut, p.MenuPath, p.Acts = "/", "", "", p.Path, nil
	return p
}

// signingPages have no act where people sign at another address.
var signingPages = []string{approverpages.RulePath, approverpages.KeyPath}

// withoutSigning takes the acts with signatures away from pages where people sign at another address, and the page
// that makes passkeys. Rule PAGE-120.
func (d *dashboard) withoutSigning(list []pages.Page) []pages.Page {
	if d.conf.ApprovalsURL == "" {
		return list
	}
	list = slices.DeleteFunc(list, func(p pages.Page) bool {
		return p.Path == approverpages.NewPath || p.Path == reviewListPath
	})
	for i, p := range list {
		list[i].Acts = slices.DeleteFunc(p.Acts, func(a pages.Act) bool {
			return a.Name == signAct || a.Name == chooseAct || slices.Contains(signingPages, p.Path)
		})
	}
	return list
}

// signingURL returns the address of the same page where people sign, and "" if they sign here.
func (d *dashboard) signingURL(r *pages.Request) string {
	if d.conf.ApprovalsURL == "" {
		return ""
	}
	return d.conf.ApprovalsURL + strings.TrimPrefix(r.PagePath(), Prefix)
}
