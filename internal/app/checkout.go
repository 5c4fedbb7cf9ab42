package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/capability"
	"github.com/cofferpay/coffer/internal/checkout/payerproof"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/payerpages"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/webhook"
)

// Checkout configures the pages on which payers pay, on the organizations' listener. Without an origin there are none.
type Checkout struct {
	Origin string         `toml:"origin,omitempty" comment:"scheme and host at which payers reach the pages, such as https://checkout.example.com; a host of their own on MAINNET; empty: no pages"`
	Limits CheckoutLimits `toml:"limits,omitempty" comment:"limits of payers; one that is left out has its default, and none on network LOCAL"`
}

// CheckoutLimits are the limits of the pages of payers. A count of 0 means no limit.
type CheckoutLimits struct {
	// Of one client, which is an IPv4 address or the /64 network of an IPv6 address.
	Views   *Rate `toml:"views,omitempty" comment:"pages of one client"`
	Opens   *Rate `toml:"opens,omitempty" comment:"options that it opens, and transactions for its wallets"`
	Finds   *Rate `toml:"finds,omitempty" comment:"its searches for a transaction"`
	Claims  *Rate `toml:"claims,omitempty" comment:"its claims of refunds"`
	Forms   *Rate `toml:"forms,omitempty" comment:"its forms of payment links"`
	Images  *Rate `toml:"images,omitempty" comment:"images of products that it loads"`
	Streams *int  `toml:"streams,omitempty" comment:"its live pages at the same time"`

	Actions       *Rate `toml:"actions,omitempty" comment:"what all clients together do on the page of one checkout, besides reading it"`
	Openings      *Rate `toml:"openings,omitempty" comment:"options of one organization that payers open"`
	LinkCheckouts *int  `toml:"link_checkouts,omitempty" comment:"open checkouts without a payment from the payment links of one organization"`
}

// linkCheckoutsDefault is the default of LinkCheckouts. Rule CO-68.
const linkCheckoutsDefault = 20_000

// usualOpenings is the default of Openings. Rule CO-123.
var usualOpenings = kernel.Rate{Count: 600, Period: time.Minute, Burst: 600}

// pageLimits returns the limits of the pages on a network: the configured ones, or the defaults. Rule CO-122.
func (l CheckoutLimits) pageLimits(network chain.Network) payerpages.Limits {
	limits := payerpages.UsualLimits
	if network == chain.Local {
		limits = payerpages.Limits{} // a development network has no limits by default
	}
	for _, line := range []struct {
		configured *Rate
		rate       *kernel.Rate
	}{
		{l.Views, &limits.Views},
		{l.Opens, &limits.Opens},
		{l.Finds, &limits.Finds},
		{l.Claims, &limits.Claims},
		{l.Forms, &limits.Buys},
		{l.Images, &limits.Images},
		{l.Actions, &limits.Actions},
	} {
		overwriteRate(line.rate, line.configured)
	}
	if l.Streams != nil {
		limits.Streams = *l.Streams
	}
	return limits
}

// orgLimits returns the limits of an organization.
func (l CheckoutLimits) orgLimits(network chain.Network) (openings kernel.Rate, linkCheckouts int) {
	if network != chain.Local {
		openings, linkCheckouts = usualOpenings, linkCheckoutsDefault
	}
	overwriteRate(&openings, l.Openings)
	if l.LinkCheckouts != nil {
		linkCheckouts = *l.LinkCheckouts
	}
	return openings, linkCheckouts
}

// overwriteRate replaces a rate by the configured one, if there is one.
func overwriteRate(rate *kernel.Rate, configured *Rate) {
	if configured != nil {
		*rate = kernel.Rate{
			Count: configured.Count, Period: time.Duration(configured.Period), Burst: configured.Burst,
		}
	}
}

func (l CheckoutLimits) checkLimits(errs *configErrors) {
	for setting, r := range map[string]*Rate{
		"views": l.Views, "opens": l.Opens, "finds": l.Finds, "claims": l.Claims, "forms": l.Forms, "images": l.Images,
		"actions": l.Actions, "openings": l.Openings,
	} {
		if r != nil {
			r.Check("checkout.limits."+setting, errs.addProblem)
		}
	}
	for setting, n := range map[string]*int{"streams": l.Streams, "link_checkouts": l.LinkCheckouts} {
		if n != nil && *n < 0 {
			errs.addProblem("checkout.limits."+setting, "is %d: it has to be 0 for no limit, or more", *n)
		}
	}
}

// checkCheckout reports what is wrong with the section. A page that strangers open shares no host with the pages of
// people who sign in: a mistake in it could otherwise use their cookies.
func (c Config) checkCheckout(errs *configErrors) {
	c.Checkout.Limits.checkLimits(errs)
	if c.Checkout.Origin == "" {
		return
	}
	u, err := url.Parse(c.Checkout.Origin)
	switch {
	case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != c.Checkout.Origin ||
		u.Scheme != "https" && u.Scheme != "http":
		errs.addProblem("checkout.origin", "%q is not of the form https://host or https://host:port", c.Checkout.Origin)
		return
	case u.Scheme != "https" && c.Network != chain.Local:
		errs.addProblem("checkout.origin", "has to be https: payers read there where to pay")
	}
	if c.Network != chain.Mainnet {
		return
	}
	for setting, origin := range map[string]string{
		"api.url": c.API.URL, "dashboard.origin": c.Dashboard.Origin, "console.origin": c.Console.Origin,
	} {
		if o, err := url.Parse(origin); err == nil && origin != "" && strings.EqualFold(o.Hostname(), u.Hostname()) {
			errs.addProblem("checkout.origin", "has the host of %s; give the pages of payers a host name of their own",
				setting)
		}
	}
}

// addCheckoutPages adds what makes the addresses of pages for payers: that of a refund with its claim key, that of a
// checkout with the key that allows actions, that of a payment link, and the secrets of its forms and of the texts that
// payers sign. There is none without pages. A process without the key of cursors shows the address of a refund alone,
// whose key is its own.
func (c Config) addCheckoutPages(conf *service.Config) error {
	openings, linkCheckouts := c.Checkout.Limits.orgLimits(c.Network)
	conf.LinkCheckoutsMax = linkCheckouts
	limiter := kernel.NewLimiter(openings, time.Now)
	conf.CountOpening = func(orgID string) bool { return limiter.CountRequest(orgID) == 0 }
	if c.Checkout.Origin == "" {
		return nil
	}
	conf.ClaimURL = func(refundID, claimKey string) string {
		return c.Checkout.Origin + payerpages.RefundPrefix + refundID + "#k=" + claimKey
	}
	if c.Keys.Cursor == "" {
		return nil
	}
	cursor, err := readCursorKey(c.Keys.Cursor)
	if err != nil {
		return err
	}
	secret, err := capability.DeriveSecret(cursor)
	if err != nil {
		return fmt.Errorf("keys.cursor: %w", err)
	}
	if conf.NonceSecret, err = capability.DeriveNonceSecret(cursor); err != nil {
		return fmt.Errorf("keys.cursor: %w", err)
	}
	if conf.ProofSecret, err = payerproof.DeriveSecret(cursor); err != nil {
		return fmt.Errorf("keys.cursor: %w", err)
	}
	origin, err := url.Parse(c.Checkout.Origin)
	if err != nil {
		return fmt.Errorf("checkout.origin: %w", err)
	}
	conf.PayerHost = origin.Host
	conf.IsPageKey = func(checkoutID, key string) bool { return capability.Check(secret, checkoutID, key) }
	conf.CheckoutURL = func(checkoutID string) string {
		return c.Checkout.Origin + payerpages.Prefix + checkoutID + "#k=" + capability.Key(secret, checkoutID)
	}
	conf.LinkURL = func(slug string) string { return c.Checkout.Origin + payerpages.LinkPrefix + slug }
	return nil
}

// wireCheckout adds the pages of payers to the organizations' listener.
func (a *App) wireCheckout(trusted kernel.Proxies) error {
	if a.conf.Checkout.Origin == "" {
		return nil
	}
	origin, err := url.Parse(a.conf.Checkout.Origin)
	if err != nil {
		return fmt.Errorf("checkout.origin: %w", err)
	}
	environment := webhook.Test
	if a.conf.Network == chain.Mainnet {
		environment = webhook.Live
	}
	signer := receipt.Signer{Keys: a.parts.WebhookKeys}
	source := payerpages.Source{
		Service: a.Checkouts, Chains: a.Chains, IsLocal: a.conf.Network == chain.Local, Clock: a.parts.DB.Clock(),
		Log: a.log, Receipts: signer, Environment: environment,
		ChainTitle: func(name chain.Name) string {
			network, isKnown := a.conf.knownNetwork(name)
			if !isKnown { // of a local network
				network, _ = catalogue.Find(chain.Mainnet, name)
			}
			return network.Name
		},
		ExplorerURL: func(name chain.Name, tx chain.TxHash) string {
			network, _ := a.conf.knownNetwork(name)
			return network.ExplorerURL(tx)
		},
		ReturnURL: func(c checkout.Checkout, now time.Time) (string, error) {
			return signer.ReturnURL(*c.SuccessURL, receipt.Return{
				CheckoutID: c.ID, OrgID: c.OrgID, Environment: environment, Status: string(c.Status),
				Currency: c.Currency, AmountDue: c.AmountDue.Text(), AmountPaid: c.SeenSum.Text(),
			}, now)
		},
	}
	pages := payerpages.New(payerpages.Config{
		Checkouts: source, Links: source, Refunds: source, Proxies: trusted,
		Limits:   a.conf.Checkout.Limits.pageLimits(a.conf.Network),
		IsSecure: origin.Scheme == "https", Origin: a.conf.Checkout.Origin, Cases: a.payerCases(),
		Observe: a.metrics.ObserveRequest, Log: a.log, Stopped: a.stopped, Changes: a.followChanges(),
	})
	apiHandler := a.apiHandler
	hasOwnHost := a.conf.Network == chain.Mainnet
	a.apiHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isOwnHost := strings.EqualFold(r.Host, origin.Host)
		isPage := strings.HasPrefix(r.URL.Path, payerpages.Prefix) ||
			strings.HasPrefix(r.URL.Path, payerpages.LinkPrefix) ||
			strings.HasPrefix(r.URL.Path, payerpages.RefundPrefix)
		if isPage && (isOwnHost || !hasOwnHost) || isOwnHost && hasOwnHost {
			pages.ServeHTTP(w, r)
			return
		}
		apiHandler.ServeHTTP(w, r)
	})
	return nil
}

// PlayPayers lets the pages of payers play payers, from now on. It does nothing on every network but LOCAL.
func (a *App) PlayPayers(cases payerpages.Cases) { a.cases.Store(&cases) }

// payerCases returns what plays payers; nil on every network but LOCAL. Rule CO-124.
func (a *App) payerCases() payerpages.Cases {
	if a.conf.Network != chain.Local {
		return nil
	}
	return laterCases{&a.cases}
}

// laterCases are cases that the local world adds after the pages were made.
type laterCases struct {
	cases *atomic.Pointer[payerpages.Cases]
}

// List implements payerpages.Cases.
func (l laterCases) List() []string {
	if cases := l.cases.Load(); cases != nil {
		return (*cases).List()
	}
	return nil
}

// Play implements payerpages.Cases.
func (l laterCases) Play(ctx context.Context, checkoutID string, mintID int, name string) error {
	return (*l.cases.Load()).Play(ctx, checkoutID, mintID, name)
}
