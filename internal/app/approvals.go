package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/inbound"
	"github.com/cofferpay/coffer/internal/signer"
)

// Approvals configures the pages on which people sign approvals, at an address of their own: the role approvals serves
// them. Without an origin people sign in the dashboard.
type Approvals struct {
	Origin string `toml:"origin,omitempty" comment:"scheme and host of the pages; empty: people sign in the dashboard"`
	// RelyingParty is the host of Origin or a parent domain of it that no other page has. The default is the host.
	RelyingParty string `toml:"relying_party,omitempty" comment:"host name of passkeys; default: the host of origin"`
	Listen       string `toml:"listen,omitempty" comment:"address and port, such as 127.0.0.1:8083"`
	// TrustedProxies are addresses and networks, as for the API.
	TrustedProxies []string `toml:"trusted_proxies,omitempty" comment:"proxies whose X-Forwarded-For counts; default: none"`
}

// relyingParty returns the host name for which passkeys are made.
func (a Approvals) relyingParty() string {
	if u, err := url.Parse(a.Origin); err == nil {
		return cmp.Or(a.RelyingParty, u.Hostname())
	}
	return a.RelyingParty
}

// approvalsURL begins the addresses of the pages on which people sign, and is "" without pages.
func (c Config) approvalsURL() string {
	switch {
	case c.Approvals.Origin != "":
		return c.Approvals.Origin
	case c.Dashboard.Origin != "":
		return c.Dashboard.Origin + dashboard.Prefix
	}
	return ""
}

// approvalsConnections returns the limits of the listener, from a checked configuration.
func (c Config) approvalsConnections() inbound.Limits {
	limits := c.API.connectionLimits()
	limits.Proxy = func(addr netip.Addr) bool {
		trusted, err := parseProxies(c.Approvals.TrustedProxies)
		return addr.IsLoopback() || err == nil && trusted.IsTrusted(addr)
	}
	return limits
}

// checkApprovals reports what is wrong with the section. Pages of another address must not be able to ask for the
// passkeys, and a browser shares cookies between the ports of a host. Rule PAGE-121.
func (c Config) checkApprovals(errs *configErrors) {
	a := c.Approvals
	isServed := c.hasRole(RoleApprovals)
	if a.Origin == "" {
		if isServed || a.RelyingParty != "" || a.Listen != "" || len(a.TrustedProxies) > 0 {
			errs.addProblem("approvals.origin", "is missing although this process has the role approvals or the "+
				"section has other settings; set it to an address such as https://approve.example.com, or remove them")
		}
		return
	}
	if err := signin.CheckOrigin(a.Origin, a.relyingParty()); err != nil {
		errs.addProblem("approvals.origin", "%v", err)
		return
	}
	if c.Dashboard.Origin == "" {
		errs.addProblem("dashboard.origin", "is missing although approvals.origin is there; the pages of approvals "+
			"lead to the dashboard for everything else")
	}
	c.checkApprovalsHost(errs)
	if _, err := parseProxies(a.TrustedProxies); err != nil {
		errs.addProblem("approvals.trusted_proxies",
			"%v; name the addresses or networks of the proxies of this listener, such as 10.0.0.0/8", err)
	}
	if !isServed {
		return
	}
	if a.Listen == "" {
		errs.addProblem("approvals.listen", "is missing although this process has the role approvals: its pages have "+
			"a listener of their own; set it to an address such as 127.0.0.1:8083")
		return
	}
	if _, _, err := net.SplitHostPort(a.Listen); err != nil {
		errs.addProblem("approvals.listen", "%q is not an address with a port, such as 127.0.0.1:8083", a.Listen)
	}
	for setting, listen := range map[string]string{
		"api.listen": c.API.Listen, "operator.listen": c.Operator.Listen, "ops.listen": c.Ops.Listen,
	} {
		if listen == a.Listen {
			errs.addProblem("approvals.listen", "is the address of %s; give the pages of approvals another one",
				setting)
		}
	}
}

// checkApprovalsHost refuses a host or a relying party that other pages share.
func (c Config) checkApprovalsHost(errs *configErrors) {
	address, err := url.Parse(c.Approvals.Origin)
	if err != nil {
		return // CheckOrigin reported it.
	}
	for _, page := range []struct{ setting, url string }{
		{"dashboard.origin", c.Dashboard.Origin},
		{"console.origin", c.Console.Origin},
		{"checkout.origin", c.Checkout.Origin},
		{"api.url", c.API.URL},
	} {
		u, err := url.Parse(page.url)
		if err != nil || page.url == "" {
			continue
		}
		host, party := strings.ToLower(u.Hostname()), c.Approvals.relyingParty()
		switch {
		case host == address.Hostname():
			errs.addProblem("approvals.origin", "has the host of %s, so browsers share cookies and passkeys between "+
				"the two; give the pages of approvals a host name of their own", page.setting)
			return
		case host == party || strings.HasSuffix(host, "."+party):
			errs.addProblem("approvals.relying_party", "%q is also of %s, whose pages could ask for the passkeys of "+
				"approvers; use %q", party, page.setting, address.Hostname())
			return
		}
	}
}

// wireApprovals builds the pages of approvals and their listener.
func (a *App) wireApprovals(ctx context.Context) error {
	settings := a.conf.Approvals
	origin, err := url.Parse(settings.Origin)
	if err != nil {
		return fmt.Errorf("approvals.origin: %w", err)
	}
	if err := a.checkRelyingParty(ctx); err != nil {
		return err
	}
	cursor, err := readCursorKey(a.conf.Keys.Cursor)
	if err != nil {
		return err
	}
	trusted, err := parseProxies(settings.TrustedProxies)
	if err != nil {
		return fmt.Errorf("approvals.trusted_proxies: %w", err)
	}
	conf := a.signInConfig(settings.Origin, settings.relyingParty())
	conf.Audience, conf.DeviceURL = session.ForApprovals, settings.Origin+dashboard.ApprovalsDevicePath
	people, err := signin.NewService(conf)
	if err != nil {
		return fmt.Errorf("approvals: %w", err)
	}
	shown := a.dashboardConfig(origin, people, cursor, trusted)
	shown.RelyingParty, shown.DashboardURL = settings.relyingParty(), a.conf.Dashboard.Origin+dashboard.Prefix
	a.approvalsHandler = dashboard.NewApprovals(shown)
	if a.approvalsListener, err = net.Listen("tcp", settings.Listen); err != nil {
		return fmt.Errorf("approvals.listen: %w", err)
	}
	return nil
}

// checkRelyingParty refuses pages whose signatures the signer would not take.
func (a *App) checkRelyingParty(ctx context.Context) error {
	words, err := a.parts.Signer.Wording(ctx)
	if err != nil {
		return fmt.Errorf("ask the signer for the pages of approvals that its policy names: %w", err)
	}
	party, origin := a.conf.Approvals.relyingParty(), a.conf.Approvals.Origin
	if slices.ContainsFunc(words.RelyingParties, func(p signer.RelyingParty) bool {
		return p.ID == party && slices.Contains(p.Origins, origin)
	}) {
		return nil
	}
	return fmt.Errorf("approvals.origin: the signer's policy does not name %s with the relying party %s, so the "+
		"signer takes no passkey of these pages; add {\"id\": %q, \"origins\": [%q]} to approvers.relyingParties of "+
		"the policy, and start the signer again", origin, party, party, origin)
}
