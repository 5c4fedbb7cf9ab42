package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/console"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Console configures the pages of operators on the operators' listener. Without an origin there are none.
type Console struct {
	Origin string `toml:"origin,omitempty" comment:"scheme and host at which operators' browsers reach the pages, such as https://ops.example.com; empty: no pages"`
	Domain string `toml:"site,omitempty" comment:"domain of passkeys: the host of origin or a parent domain of it; default: the host"`
}

// domain returns the domain of passkeys.
func (c Console) domain() string {
	if u, err := url.Parse(c.Origin); err == nil {
		return cmp.Or(c.Domain, u.Hostname())
	}
	return c.Domain
}

// checkConsole checks the origin as that of the dashboard, and that the operators have a listener.
func (c Console) checkConsole(listen string, errs *configErrors) {
	switch {
	case c.Origin == "" && c.Domain != "":
		errs.addProblem("console.origin", "is missing although console.site is there; set it, or remove the site")
	case c.Origin != "" && listen == "":
		errs.addProblem("operator.listen",
			"is missing although console.origin is there: the pages of operators are on the operators' listener; set "+
				"it to an address such as 127.0.0.1:8081, or remove the origin")
	case c.Origin != "":
		if err := signin.CheckOrigin(c.Origin, c.domain()); err != nil {
			errs.addProblem("console.origin", "%v", err)
		}
	}
}

// wireConsole adds the pages of operators to the operators' listener.
func (a *App) wireConsole(
	cursor []byte, trusted kernel.Proxies, allowed []netip.Prefix,
	keyRolled func(ctx context.Context, org string, key seal.Secret),
) error {
	if a.conf.Console.Origin == "" {
		return nil
	}
	origin, err := url.Parse(a.conf.Console.Origin)
	if err != nil {
		return fmt.Errorf("console.origin: %w", err)
	}
	conf := signin.Config{
		DB: a.parts.DB, Keys: a.parts.Seal, Hasher: a.passwordHasher(), Mailer: a.mailer(),
		Side: account.OperatorSide, Site: a.conf.Console.domain(), Origin: a.conf.Console.Origin, Issuer: consoleIssuer,
		InvitationURL: a.conf.Console.Origin + console.InvitationPath,
		DeviceURL:     a.conf.Console.Origin + console.DevicePath, Restriction: restriction,
	}
	if a.conf.Network == chain.Local {
		conf.Restriction = 0 // tests and demonstrations cannot wait a day
	}
	if a.OperatorSignIn, err = signin.NewService(conf); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	consoleConf := console.Config{
		DB: a.parts.DB, SignIn: a.OperatorSignIn, Chains: a.Chains, Withdrawals: a.Withdrawals, Deposits: a.Deposits,
		Rescreens: a.NewRescreener(), Whitelist: a.Whitelist, Approvers: a.Approvers, Swaps: a.Swaps,
		DepositSwaps: a.DepositSwaps,
		Billing:  a.Billing,
		FourEyes: a.FourEyes(), Worker: a.DispatchWorker,
		Prices: a.parts.Prices, PriceAge: a.conf.PriceAge(), KeyRolled: keyRolled, AllowedPrefixes: allowed,
		Origin: origin, CursorKey: cursor, Proxies: trusted, CountReport: a.metrics.CountPolicyReport,
		Changes: a.followChanges(),
		Limits:  a.conf.API.Limits.apiLimits(a.conf.Network),
		Observe: a.metrics.ObserveRequest, Log: a.log,
	}
	if slices.Contains(a.conf.Risk.Providers, riskOFAC) {
		consoleConf.LoadSanctions = a.loadSanctions
	}
	a.operatorHandler = splitConsole(console.New(consoleConf), a.operatorHandler)
	return nil
}

// riskOFAC is the provider that reads the imported list of sanctions.
const riskOFAC = "ofac"

// consoleIssuer names the operators' side in authenticator apps and passkeys.
const consoleIssuer = "Coffer console"

// loadSanctions returns the newest list of sanctions for the console.
func (a *App) loadSanctions(ctx context.Context) (console.SanctionsList, error) {
	list, maxAge, err := a.SanctionsList(ctx)
	return console.SanctionsList{
		ID: list.ID, PublishedAt: list.Published, ImportedAt: list.Imported, MaxAge: maxAge,
	}, err
}

// OperatorInvitationURL returns the link of an operator's invitation, and "" in an installation without
// a console.
func (a *App) OperatorInvitationURL(token seal.Secret) string {
	if a.conf.Console.Origin == "" {
		return ""
	}
	return a.conf.Console.Origin + console.InvitationPath + token.Reveal()
}

// splitConsole gives the paths of the pages to the pages and all others to the operators' interface, which
// has nothing at the root: a browser that opens it is led to the pages. Rule PAGE-40.
func splitConsole(pages, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == console.Prefix || strings.HasPrefix(r.URL.Path, console.Prefix+"/"):
			pages.ServeHTTP(w, r)
		case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			http.Redirect(w, r, console.Prefix, http.StatusTemporaryRedirect)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
