// Package console has the pages of the operators of the service. Each page is one Go file and one templ
// file: the Go file calls the reads and verbs of features that the operators' interface and the commands
// call, and turns what they return into what the page shows.
//
// The package has no SQL and decides nothing. It shows all organizations, so it is on the operators'
// listener alone and answers only the addresses of that listener's list. An operator with the role AUDITOR
// sees every page and may take none of the acts. A crash leaves nothing behind.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/signinpages"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// Prefix begins the path of every page.
const Prefix = "/console"

// Groups of the menu.
const (
	moneyGroup   = "Money"
	networkGroup = "Networks"
	controlGroup = "Control"
	systemGroup  = "System"
)

// SanctionsList is the newest imported list of sanctions.
type SanctionsList struct {
	ID                      string
	PublishedAt, ImportedAt time.Time
	MaxAge                  time.Duration // after which screening refuses to use it
}

// Config holds what the pages depend on. Every field is required unless its comment says otherwise.
type Config struct {
	DB          *pg.DB
	SignIn      *signin.Service // of the operators' side
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Deposits    *deposit.Service
	Swaps       *swap.Service
	Billing     *billing.Service
	// DepositSwaps are read only.
	DepositSwaps *depositswap.Service
	Rescreens    *deposit.Rescreener
	Whitelist    *whitelist.Service
	// Approvers keeps the passkeys with which operators sign; nil: this installation has none.
	Approvers *approver.Service
	FourEyes  changerequest.Rule
	// Worker returns the dispatch worker of a chain, or nil for a chain that does not run here.
	Worker func(chain.Name) *dispatch.Worker
	Prices price.Source // may be nil: then no price is shown
	// PriceAge returns how old the price of a mint may be.
	PriceAge func(mintID int) time.Duration
	// LoadSanctions returns the newest list of sanctions; nil where screening uses none.
	LoadSanctions func(ctx context.Context) (SanctionsList, error)
	// KeyRolled receives each new key of an organization; it may be nil.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	// AllowedPrefixes are the addresses that may call. An empty list admits none.
	AllowedPrefixes []netip.Prefix
	// Origin is the scheme, host and port at which browsers reach the pages.
	Origin    *url.URL
	CursorKey []byte
	Proxies   kernel.Proxies // may be empty
	Limits    kernel.Limits  // per person; the zero value sets none
	// Changes tells open pages what changed in any organization. It may be nil: then no page changes by itself.
	Changes *audit.Follower
	// CountReport counts a report of the browsers' policy; it may be nil.
	CountReport func()
	// Observe is called when a request begins; see kernel.Config. It may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	Log     *slog.Logger // nil means the default
}

// console has the functions of the pages.
type console struct{ conf Config }

// New builds the handler of all paths under Prefix.
func New(conf Config) http.Handler {
	return conf.guard(pages.New((&console{conf}).surface(), conf.kitConfig()))
}

// guard answers only the addresses of the operators' listener. Rules OP-1 and PAGE-40.
func (c Config) guard(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr := c.Proxies.ClientAddr(r)
		if !slices.ContainsFunc(c.AllowedPrefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			http.Error(w, "The operators' pages are not shown at your address. The list is operator.allow of the "+
				"service's configuration.", http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// ListPages returns the table of the pages, for tests and benchmarks that look at all of them.
func ListPages(conf Config) []pages.Page { return (&console{conf}).surface().Pages }

func (c Config) kitConfig() pages.Config {
	return pages.Config{
		DB: c.DB, Origin: c.Origin, CursorKey: c.CursorKey, Proxies: c.Proxies, CountReport: c.CountReport,
		Changes: c.Changes, Limits: c.Limits, Observe: c.Observe, Log: c.Log,
	}
}

// surface is the table of the pages.
func (c *console) surface() pages.Surface {
	return signinpages.Mount(pages.Surface{
		Name: "Coffer console", Prefix: Prefix,
		Groups: []string{"", moneyGroup, networkGroup, controlGroup, systemGroup},
		Pages: withAlerts(append([]pages.Page{
			c.nowPage(),
			c.organizationsPage(), c.organizationPage(), c.settingPage(), c.addressesPage(), c.addressPage(),
			c.flaggedPage(), c.depositPage(),
			c.withdrawalsPage(), c.withdrawalPage(),
			c.swapsPage(), c.swapPage(), c.depositSwapsPage(), c.depositSwapPage(), c.arrivalsPage(), c.arrivalPage(),
			c.billingPage(), c.invoicesPage(), c.invoicePage(), c.creditPage(), c.creditNotesPage(), c.creditNotePage(),
			c.unpricedPage(), c.sellerTermsPage(), c.orgTermsPage(),
			c.chainsPage(), c.ordersPage(), c.orderPage(), c.gasPage(), c.gasStationPage(),
			c.providersPage(), c.providerPage(),
			c.reservesPage(), c.walletsPage(),
			c.freezesPage(), c.freezePage(), c.changesPage(), c.changePage(), c.signaturesPage(),
			c.jobsPage(), c.webhooksPage(), c.screeningPage(), c.checkerPage(), c.signerPage(), c.auditPage(),
		}, c.approvers().List()...)),
	}, c.conf.SignIn)
}

// holder returns the operator of a request as the holder of a key.
func holder(r *pages.Request) operator.Key { return r.Session.Operator.Holder() }

// actor returns the operator of a request as an actor of the audit log.
func actor(r *pages.Request) audit.Actor { return r.Session.Operator.Actor() }

// decider returns the operator of a request as one who decides about deposits.
func decider(r *pages.Request) deposit.Actor {
	return deposit.Actor{Actor: actor(r), Name: r.Session.Operator.Name}
}

// read runs a read over all organizations.
func (c *console) read(r *pages.Request, work func(ctx context.Context, tx pg.Tx) error) error {
	return c.conf.DB.ReadSystem(r.Context(), work)
}

// holders are the names of operators by the ids of their keys and accounts.
type holders map[string]string

// loadHolders returns the names of all operators, those without access included.
func loadHolders(ctx context.Context, tx pg.Tx) (holders, error) {
	names := holders{}
	people, err := operator.ListPeople(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, p := range people {
		names[p.ID] = p.Name
	}
	keys, err := operator.ListKeys(ctx, tx)
	for _, k := range keys {
		names[k.ID] = k.Name + " (key)"
	}
	return names, err
}

// operatorKind is the kind of operators among the actors of the audit log.
const operatorKind = "OPERATOR"

// nameOf writes an actor for operators.
func (h holders) nameOf(a audit.Actor) string {
	if name := h[a.ID]; a.Kind == operatorKind && name != "" {
		return name
	}
	switch {
	case a.Kind == operatorKind && a.ID == "cli":
		return "The terminal"
	case a.Kind == "API_KEY":
		return "API key " + a.ID
	case a.Kind == "USER":
		return "Member " + a.ID
	case a.Kind == "SYSTEM":
		return "The service: " + a.ID
	}
	return a.ID
}
