package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/service"
)

// Dashboard configures the pages of organizations' people on the organizations' listener. Without an
// origin there are none.
type Dashboard struct {
	Origin string `toml:"origin,omitempty" comment:"scheme and host at which browsers reach the pages, such as https://pay.example.com; empty: no pages"`
	Domain string `toml:"site,omitempty" comment:"domain of passkeys: the host of origin or a parent domain of it; default: the host"`
}

// domain returns the domain of passkeys.
func (d Dashboard) domain() string {
	if u, err := url.Parse(d.Origin); err == nil {
		return cmp.Or(d.Domain, u.Hostname())
	}
	return d.Domain
}

func (d Dashboard) checkDashboard(errs *configErrors) {
	switch {
	case d.Origin == "" && d.Domain != "":
		errs.addProblem("dashboard.origin", "is missing although dashboard.site is there; set it, or remove the site")
	case d.Origin != "":
		if err := signin.CheckOrigin(d.Origin, d.domain()); err != nil {
			errs.addProblem("dashboard.origin", "%v", err)
		}
	}
}

const (
	// restriction is how long a person who used a recovery code decides nothing about money.
	restriction = 24 * time.Hour
	// pruneInterval is the time between two deletions of what sign-in does not need any more.
	pruneInterval = time.Hour
	issuer        = "Coffer"
)

// wireDashboard adds the pages to the organizations' listener.
func (a *App) wireDashboard(
	cursor []byte, trusted kernel.Proxies, keyRolled func(ctx context.Context, org string, key seal.Secret),
) error {
	if a.conf.Dashboard.Origin == "" {
		return nil
	}
	origin, err := url.Parse(a.conf.Dashboard.Origin)
	if err != nil {
		return fmt.Errorf("dashboard.origin: %w", err)
	}
	people := a.signInConfig(a.conf.Dashboard.Origin, a.conf.Dashboard.domain())
	people.InvitationURL = a.conf.Dashboard.Origin + dashboard.InvitationPath
	people.DeviceURL = a.conf.Dashboard.Origin + dashboard.DevicePath
	if a.SignIn, err = signin.NewService(people); err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	conf := a.dashboardConfig(origin, a.SignIn, cursor, trusted)
	conf.KeyRolled, conf.ApprovalsURL = keyRolled, a.conf.Approvals.Origin
	a.apiHandler = splitPaths(dashboard.New(conf), a.apiHandler)
	return nil
}

// signInConfig returns what sign-in of members has in common for all pages.
func (a *App) signInConfig(origin, domain string) signin.Config {
	conf := signin.Config{
		DB: a.parts.DB, Keys: a.parts.Seal, Hasher: a.passwordHasher(), Mailer: a.mailer(),
		Side: account.MemberSide, Site: domain, Origin: origin, Issuer: issuer, Restriction: restriction,
	}
	if a.conf.Network == chain.Local {
		conf.Restriction = 0 // tests and demonstrations cannot wait a day
	}
	return conf
}

// dashboardConfig returns what the dashboard and the pages of approvals share.
func (a *App) dashboardConfig(
	origin *url.URL, people *signin.Service, cursor []byte, trusted kernel.Proxies,
) dashboard.Config {
	return dashboard.Config{
		ExplorerURL: func(name chain.Name, tx chain.TxHash) string {
			network, _ := a.conf.knownNetwork(name)
			return network.ExplorerURL(tx)
		},
		DB: a.parts.DB, SignIn: people, Withdrawals: a.Withdrawals, Deposits: a.Deposits,
		Transfers: a.Transfers, Swaps: a.Swaps, DepositSwaps: a.DepositSwaps, Checkouts: a.Checkouts,
		Payouts:   a.Payouts,
		Whitelist: a.Whitelist, Approvers: a.Approvers, Wallets: a.Wallets, Chains: a.Chains, Prices: a.parts.Prices,
		Endpoints: a.Endpoints, SettingChanges: a.Service.Changes, APIURL: a.conf.API.URL + "/v1",
		Origin: origin, CursorKey: cursor, Proxies: trusted, CountReport: a.metrics.CountPolicyReport,
		Changes: a.followChanges(),
		Limits:  a.conf.API.Limits.apiLimits(a.conf.Network),
		Observe: a.metrics.ObserveRequest, Log: a.log,
	}
}

// followChanges returns the follower that tells the open pages of both sides what changed. A process has one
// of them.
func (a *App) followChanges() *audit.Follower {
	if a.changes == nil {
		a.changes = audit.NewFollower(a.parts.DB, a.log)
		a.loops = append(a.loops, service.Loop{Name: "live updates", Run: a.changes.Run})
	}
	return a.changes
}

// InvitationURL returns the link of an invitation, and "" in an installation without pages.
func (a *App) InvitationURL(token seal.Secret) string {
	if a.conf.Dashboard.Origin == "" {
		return ""
	}
	return a.conf.Dashboard.Origin + dashboard.InvitationPath + token.Reveal()
}

// splitPaths gives the paths of the pages to the pages, and all others to the interface.
func splitPaths(pages, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == dashboard.Prefix || strings.HasPrefix(r.URL.Path, dashboard.Prefix+"/") {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// passwordHasher returns the hasher of both sides: its limit is that of the process.
func (a *App) passwordHasher() *password.Hasher {
	if a.hasher == nil {
		a.hasher = password.NewHasher(password.Params{})
	}
	return a.hasher
}

// pruneSignIn deletes what sign-in does not need any more, until ctx ends. One side deletes for both.
func (a *App) pruneSignIn(ctx context.Context) error {
	people := cmp.Or(a.SignIn, a.OperatorSignIn)
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		if err := people.Prune(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "cannot delete what sign-in does not need any more", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// mailer returns the outbox, or what stands for it where no process sends mails.
func (a *App) mailer() signin.Mailer {
	if a.conf.Mail.IsEnabled() {
		return a.Outbox
	}
	return noMailer{a.log}
}

// noMailer stands for an outbox in an installation that sends no mail. What the mail tells about is done.
type noMailer struct{ log *slog.Logger }

// Queue records that a mail is not sent, without its text, which may have a link.
func (m noMailer) Queue(ctx context.Context, _ pg.Tx, message mail.Message) error {
	m.log.WarnContext(ctx, "this installation sends no mail, so a person does not get one", "subject", message.Subject)
	return nil
}
