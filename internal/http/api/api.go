// Package api is the organizations' surface: the REST interface under /v1 and its document. It
// registers routes, whose handlers translate a request for a feature and its result for the caller.
//
// The package rules out:
//   - a decision about money
//   - an answer that tells one organization about another
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/receipt"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// Config holds what the interface depends on. Every field is required unless its comment says
// otherwise.
type Config struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Transfers   *transfer.Service
	Deposits    *deposit.Service // decides about flagged deposits
	Swaps       *swap.Service
	// DepositSwaps lets customers pay in other tokens.
	DepositSwaps *depositswap.Service
	// Checkouts keeps products and checkouts.
	Checkouts *checkout.Service
	// Payouts keeps batch payouts.
	Payouts   *payout.Service
	Whitelist *whitelist.Service
	Wallets   withdrawal.AddressIssuer
	Prices    price.Source // may be nil: then no mint has a price
	// WebhookKeys are the public keys that sign webhooks, whpk_…, newest first.
	WebhookKeys []string
	// Receipts signs receipts of checkouts; without keys there are none. Environment is webhook.Live or webhook.Test.
	Receipts    receipt.Signer
	Environment string
	// Endpoints manages the webhook endpoints.
	Endpoints *delivery.Endpoints
	// CursorKey signs the cursors of lists: 32 random bytes that outlive the process.
	CursorKey []byte
	// BaseURL is the URL at which callers reach this interface, /v1 included, for the document.
	BaseURL string
	Limits  kernel.Limits  // the zero value sets no limits; see UsualLimits
	Proxies kernel.Proxies // may be empty: then the peer of the connection is the caller
	// TurnMax is how long a request waits while other requests of its caller use the caller's share
	// of the database's connections. Zero means the default of package kernel.
	TurnMax time.Duration
	// Observe is called when a request begins and returns the context with which it runs. The
	// returned function is called once the request is answered, with the pattern of its route, or
	// "" if there is none. Observe may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	// KeyRolled receives each new value of an organization's main key; it may be nil.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	Log       *slog.Logger // nil means the default
}

type api struct {
	conf          Config
	log           *slog.Logger
	authenticator *apikey.Authenticator
}

// New builds the handler of the public listener: the interface under /v1, the document at
// /openapi.json, the keys at /.well-known/webhook-keys, and the documentation pages at /docs.
func New(conf Config) http.Handler {
	a := &api{conf: conf, log: conf.Log, authenticator: apikey.NewAuthenticator(conf.DB)}
	if a.log == nil {
		a.log = slog.Default()
	}
	return kernel.New(a.surface(), kernel.Config{
		DB: conf.DB, CursorKey: conf.CursorKey, BaseURL: conf.BaseURL, Limits: conf.Limits, Proxies: conf.Proxies,
		TurnMax: conf.TurnMax, Observe: conf.Observe, Log: conf.Log,
	})
}

// Describe returns the surface without anything behind it, for its document.
func Describe() *kernel.Surface { return (&api{}).surface() }

func (a *api) surface() *kernel.Surface {
	return &kernel.Surface{
		Title: "Coffer", Description: aboutOrganizations, Page: "Coffer: guide and API reference",
		Guide: docs.Integrate,
		Pages: []string{docs.Testing, docs.Errors, docs.Changelog},
		Routes: slices.Concat(a.routes(), a.depositSwapRoutes(), a.swapRoutes(), a.organizationSwapRoutes(),
			a.payoutRoutes(), a.billingRoutes(),
			a.productRoutes(), a.linkRoutes(), a.checkoutRoutes(), a.refundRoutes(), a.unmatchedRoutes(),
			a.flaggedRoutes(), a.keyRoutes()),
		Forbidden: a.forbiddenRoutes(), Groups: groups, Webhooks: webhooks(), WebhookHeaders: webhookHeaders,
		Credential: "apiKey", Header: "X-Api-Key",
		CredentialText: "An API key of the organization. The main key, and each key with the scope FULL, moves " +
			"money: " +
			"keep it on your servers. The service does not read it from the query, and refuses a request that has " +
			"the " +
			"header twice.",
		ForeignKeyPrefix: identity.OperatorKey,
		ForeignKeyText: "This is an operator's key, and organizations' calls do not accept it. Send an " +
			"organization's " +
			"key in x-api-key. To use this key, send it in x-operator-key to the operator's interface, which has " +
			"another " +
			"address.",
		HasScopes:    true,
		Admits:       func(p identity.Permission) bool { return p.Key != "" },
		Authenticate: a.authenticate,
		Words:        resource.Words, DescribeOutage: resource.DescribeOutage,
		Problems:    resource.Problems,
		FieldDocs:   resource.FieldDocs,
		TypeDocs:    resource.WithOwn(resource.TypeDocs, typeDocs),
		SchemaNames: resource.SchemaNames,
	}
}

// authenticate finds the organization of the presented key.
func (a *api) authenticate(c *kernel.Request, key string) (kernel.Caller, error) {
	found, err := a.authenticator.Authenticate(c.Context(), key, c.ClientAddr())
	if err != nil {
		return nil, fmt.Errorf("authenticate: %w", err)
	}
	if err := a.authenticator.RecordUse(c.Context(), found); err != nil {
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "cannot write the last use of an API key",
			slog.String("requestId", kernel.RequestID(c.Request)), slog.Any("error", err))
	}
	return caller{found}, nil
}

// caller is an organization's key.
type caller struct{ apikey.Caller }

// CallerID returns the organization: its keys share its rates.
func (k caller) CallerID() string { return k.OrgID }

// Tenant returns the organization.
func (k caller) Tenant() string { return k.OrgID }

// Authorize refuses an action that needs another scope.
func (k caller) Authorize(action identity.Action) *fault.Fault {
	if k.IsAllowed(action) {
		return nil
	}
	needed := identity.PermissionOf(action).Key
	if needed == identity.ScopeMainKey {
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
			"Only the main API key of your organization manages API keys.").
			WithAdvice("Call with the main key.")
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
		"This API key has the scope %s, and this call needs %s.", k.Scope, needed).
		WithAdvice("Call with a key that has the scope.")
}

// call is a call by an organization.
type call = kernel.Call[caller]

const aboutOrganizations = `Coffer holds balances for the customers of an organization and pays withdrawals from them.

**Units.** An amount is a string of whole atomic units of its mint: with 6 decimals, five tokens are "5000000". Dollar values are for display.

**Repeating.** Send an ` + "`idempotencyKey`" + ` with every withdrawal, transfer and swap. A 4xx means that the request held nothing and sent nothing. After a 5xx or no answer, send the same request with the same key: it takes effect at most once, and the answer shows the result. A call without a key may have taken effect, too: ` + "`error`" + ` names the GET that shows the result.

**Strictness.** The service refuses unknown fields and query parameters. Names are case-sensitive. No value is converted from another type.

**Rates.** If an installation limits requests, answers have RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset (seconds), and a request above the limit is refused with 429 and Retry-After. The service always answers a replay of a known idempotencyKey.

**Keys.** Every call needs the main key, or an additional key with the scope that x-scope names. An additional key without this scope is refused with 403 SCOPE_MISSING.

**Growth.** Fields, values of open enumerations, events, and codes under the existing statuses may be added without notice. Ignore those that you do not know.`

var groups = []kernel.Group{
	{Name: "Mints", Text: "The tokens of this installation."},
	{Name: "Customers", Text: "Your customers, under your own ids, and their balances."},
	{Name: "Deposits", Text: "Deposit addresses, and the deposits that arrive at them."},
	{Name: "Withdrawals", Text: "Payments from customers' balances."},
	{Name: "Transfers", Text: "Transfers between balances inside the service, without a chain."},
	{
		Name: "Swaps", Text: "Customer swaps: a balance of a customer becomes another asset of the same customer.",
	},
	{
		Name: "Deposit swaps", Text: "Deposit swaps: a customer pays in almost any token, and is credited in USDC.",
	},
	{
		Name: "Organization swaps", Text: "Organization swaps: your own money becomes another asset and is paid to " +
			"a whitelisted address.",
	},
	{Name: "Products", Text: "Products: what you sell through your checkout."},
	{Name: "Payment links", Text: "Payment links: public pages on which everyone buys your products."},
	{Name: "Checkouts", Text: "Checkouts: what a payer owes, how it can be paid, and what was paid."},
	{Name: "Refunds", Text: "Refunds: what is given back of a checkout, to an address of its payer."},
	{Name: "Batch payouts", Text: "Batch payouts: many payments of your own money under one approval of people."},
	{Name: "Billing", Text: "Billing: what you owe the operator for fees, month by month."},
	{Name: "API keys", Text: "The API keys of your organization, for the holder of the main key."},
	{Name: "Webhooks", Text: "Webhook endpoints, the feed of all events, and the keys that sign events."},
	{Name: "Meta", Text: "About this interface."},
}
