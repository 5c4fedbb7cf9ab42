package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
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
	Origin string `toml:"origin,omitempty" comment:"scheme and host at which payers reach the pages, such as https://checkout.example.com; a host of their own on MAINNET; empty: no pages"`
}

// checkCheckout reports what is wrong with the section. A page that strangers open shares no host with the pages of
// people who sign in: a mistake in it could otherwise use their cookies.
func (c Config) checkCheckout(errs *configErrors) {
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
	limits := payerpages.UsualLimits
	if a.conf.Network == chain.Local {
		limits = payerpages.Limits{} // a development network has no limits by default
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
		Checkouts: source, Links: source, Refunds: source, Proxies: trusted, Limits: limits,
		IsSecure: origin.Scheme == "https", Observe: a.metrics.ObserveRequest, Log: a.log, Stopped: a.stopped,
		Changes: a.followChanges(),
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
