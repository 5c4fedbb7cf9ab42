// Package dashboard has the pages of an organization's people. Each page is one Go file and one templ
// file: the Go file calls the reads and verbs of features and turns what they return into what the page
// shows.
//
// The package has no SQL and decides nothing. It never shows data of an organization other than that of
// the session: every call names the organization of the session and runs under row level security. A
// crash leaves nothing behind.
package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/signinpages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/memberchange"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// Prefix begins the path of every page.
const Prefix = "/dashboard"

// The pages of mailed links. The token is appended.
const (
	InvitationPath = Prefix + signinpages.InvitationLink
	DevicePath     = Prefix + signinpages.DeviceLink
)

// Config holds what the pages depend on. Every field is required unless its comment says otherwise.
type Config struct {
	DB          *pg.DB
	SignIn      *signin.Service // of the members' side
	Withdrawals *withdrawal.Service
	Deposits    *deposit.Service
	Transfers   *transfer.Service
	Swaps       *swap.Service
	// DepositSwaps are read only: customers' backends make them.
	DepositSwaps *depositswap.Service
	Checkouts    *checkout.Service
	Payouts      *payout.Service
	Whitelist    *whitelist.Service
	// Approvers keeps the passkeys with which people sign approvals; nil: this installation has none.
	Approvers *approver.Service
	Wallets   *wallet.Service
	Chains    chain.Chains
	Prices    price.Source // may be nil: then no balance has a value
	Endpoints *delivery.Endpoints
	// SettingChanges makes the changes of settings that people of the organization may make.
	SettingChanges *memberchange.Service
	// APIURL begins the address of each call of the interface.
	APIURL string
	// KeyRolled receives each new value of a main key; it may be nil.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	// ExplorerURL returns the address of a transaction's page at an explorer, and "" if none is known; it may
	// be nil.
	ExplorerURL func(name chain.Name, tx chain.TxHash) string
	// Origin is the scheme, host and port at which browsers reach the pages.
	Origin *url.URL
	// ApprovalsURL begins the addresses of the pages on which people sign approvals, if they are at an address of their
	// own; "": people sign on these pages.
	ApprovalsURL string
	// RelyingParty is the host name for which passkeys of approvers are made; "": that of Origin.
	RelyingParty string
	// DashboardURL begins the addresses of the other pages. Only the pages of approvals need it.
	DashboardURL string

	CursorKey []byte
	Proxies   kernel.Proxies  // may be empty
	Limits    kernel.Limits   // per person; the zero value sets none
	Changes   *audit.Follower // may be nil: then no page changes by itself
	// CountReport counts a report of the browsers' policy; it may be nil.
	CountReport func()
	// Observe is called when a request begins; see kernel.Config. It may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	Log     *slog.Logger // nil means the default
}

// relyingParty returns the host name for which passkeys of approvers are made.
func (c Config) relyingParty() string { return cmp.Or(c.RelyingParty, c.Origin.Hostname()) }

// dashboard has the functions of the pages.
type dashboard struct{ conf Config }

// New builds the handler of all paths under Prefix.
func New(conf Config) http.Handler {
	return pages.New((&dashboard{conf}).surface(), conf.kitConfig())
}

// ListPages returns the table of the pages, for tests and benchmarks that look at all of them.
func ListPages(conf Config) []pages.Page { return (&dashboard{conf}).surface().Pages }

func (c Config) kitConfig() pages.Config {
	return pages.Config{
		DB: c.DB, Origin: c.Origin, CursorKey: c.CursorKey, Proxies: c.Proxies, CountReport: c.CountReport,
		Changes: c.Changes, Limits: c.Limits, Observe: c.Observe, Log: c.Log,
	}
}

// surface is the table of the pages.
func (d *dashboard) surface() pages.Surface {
	return signinpages.Mount(pages.Surface{
		Name: "Coffer", Prefix: Prefix, Groups: []string{"", "Organization"}, TableAction: identity.ExportRecords,
		ElsewhereURL: d.conf.ApprovalsURL, FindNotices: d.findNotices, ReadsReplica: true,
		Pages: d.withoutSigning(slices.Concat([]pages.Page{
			d.homePage(),
			d.approvalsPage(), d.reviewPage(), d.reviewListPage(), d.flaggedPage(),
			d.flaggedReviewPage(), d.restorePage(),
			d.ownSwapsToApprovePage(), d.payoutsToApprovePage(), d.historyPage(),
			d.transactionsPage(), d.searchPage(),
			d.depositPage(), d.withdrawalPage(), d.transferTimelinePage(),
			d.swapsPage(), d.swapPage(), d.depositSwapsPage(), d.depositSwapPage(),
			d.checkoutsPage(), d.checkoutsToDecidePage(), d.unmatchedPage(), d.unmatchedPaymentPage(),
			d.checkoutSettingsPage(), d.checkoutPage(),
			d.refundsPage(), d.refundPage(),
			d.productsPage(), d.productFormPage(), d.productPage(),
			d.linksPage(), d.linkFormPage(), d.linkPage(),
			d.ownSwapsPage(), d.ownSwapPage(), d.swapFormPage(), d.swapConfirmPage(),
			d.withdrawPage(), d.withdrawFormPage(), d.withdrawConfirmPage(),
			d.payoutsPage(), d.payoutFormPage(), d.payoutPage(), d.payoutRowPage(),
			d.balancesPage(), d.balancePage(), d.transferConfirmPage(), d.transfersPage(),
			d.teamPage(), d.personPage(),
		}, d.approvers().List(), []pages.Page{
			d.settingsPage(), d.changePage(), d.settingsHistoryPage(),
			d.developersPage(), d.keyPage(), d.tokensPage(), d.webhooksPage(), d.webhookPage(), d.deliveriesPage(),
			d.deliveryPage(), d.jobPage(), d.eventsPage(), d.eventPage(),
			d.customersPage(), d.customerPage(), d.statementPage(),
			d.billingPage(), d.invoicesPage(), d.invoicePage(), d.creditNotesPage(), d.creditNotePage(),
			d.auditPage(),
		})),
	}, d.conf.SignIn)
}

// actor returns the person of a request as an actor of the audit log.
func actor(r *pages.Request) audit.Actor { return r.Session.Member.Actor() }

// people are the names of an organization's people by id.
type people map[string]string

// loadPeople returns the names of the people of the organization of a request.
func (d *dashboard) loadPeople(r *pages.Request) (people, error) {
	names := people{}
	err := d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		found, err := member.ListByOrg(ctx, tx, r.Session.OrgID)
		for _, m := range found {
			names[m.ID] = m.Name
		}
		return err
	})
	return names, err
}

// nameOf writes an actor for people.
func (p people) nameOf(a audit.Actor, self *session.Session) string {
	switch a.Kind {
	case "USER":
		if self != nil && a.ID == self.Member.ID {
			return "You"
		}
		if name := p[a.ID]; name != "" {
			return name
		}
		return "A former member of your organization"
	case "API_KEY":
		return "Your backend, with an API key"
	case "OPERATOR":
		return "The operator of this service"
	case "SYSTEM":
		return "The service itself"
	}
	return "Not recorded"
}
