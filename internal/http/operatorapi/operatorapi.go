// Package operatorapi is the operators' surface: their REST interface under /v1, with its own listener
// and its own keys. It registers routes, whose handlers translate a request for a feature and its
// result for the operator. It decides nothing about money.
package operatorapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// Config holds what the operator's interface depends on. Every field is required unless its
// comment says otherwise.
type Config struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Deposits    *deposit.Service    // decides about flagged deposits
	Rescreens   *deposit.Rescreener // screens their senders again
	Whitelist   *whitelist.Service  // the whitelists of organizations
	Swaps       *swap.Service
	Billing     *billing.Service
	// DepositSwaps has the deposit swaps of all organizations.
	DepositSwaps *depositswap.Service
	// AllowedPrefixes are the addresses that may call, by the peer of the connection; no header is
	// read. An empty list admits no caller.
	AllowedPrefixes []netip.Prefix
	// Proxies are the proxies before this listener; X-Forwarded-For is read only from them.
	Proxies kernel.Proxies
	// CursorKey signs the cursors of lists: 32 random bytes that outlive the process.
	CursorKey []byte
	// FourEyes says whether a change that loosens a control needs a second operator.
	FourEyes changerequest.Rule
	// BaseURL is the URL at which operators reach this interface, /v1 included, for the document.
	BaseURL string
	// LocalRisk says that screening uses the local list, so that its entries have an effect.
	LocalRisk bool
	// KeyRolled receives each new key of an organization; it may be nil.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	Limits    kernel.Limits // per key; the zero value sets none; see UsualLimits
	Log       *slog.Logger  // nil means the default
}

// caller is an operator's key.
type caller struct{ operator.Key }

// CallerID returns the key, which has its own rates.
func (k caller) CallerID() string { return k.ID }

// Tenant returns no organization: an operator sees all of them.
func (k caller) Tenant() string { return "" }

// Authorize allows every call of this listener; kernel.New checks that an operator may make it.
func (k caller) Authorize(identity.Action) *fault.Fault { return nil }

// decider returns the operator as one who decides about deposits.
func (k caller) decider() deposit.Actor { return deposit.Actor{Actor: k.Actor(), Name: k.Name} }

// call is a call by an operator.
type call = kernel.Call[caller]

type api struct {
	conf Config
	log  *slog.Logger
}

// New builds the handler of the operators' listener: their interface under /v1 and its document at
// /openapi.json. It has none of the organizations' routes and accepts none of their keys.
func New(conf Config) http.Handler {
	a := &api{conf: conf, log: conf.Log}
	if a.log == nil {
		a.log = slog.Default()
	}
	return kernel.New(a.surface(), kernel.Config{
		DB: conf.DB, CursorKey: conf.CursorKey, BaseURL: conf.BaseURL, Limits: conf.Limits, Proxies: conf.Proxies,
		Log: conf.Log,
	})
}

// Describe returns the surface without anything behind it, for its document.
func Describe() *kernel.Surface { return (&api{}).surface() }

// checkAddress refuses callers from addresses that the configuration does not list. Rule OP-1.
func (a *api) checkAddress(addr netip.Addr) error {
	if !slices.ContainsFunc(a.conf.AllowedPrefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fault.New(fault.Forbidden, fault.IPNotAllowed, fault.NothingWritten,
			"The operator's interface accepts no calls from this address.").
			WithAdvice("Call from an address in operator.allow of the service's configuration.")
	}
	return nil
}

// authenticate finds the operator of the presented key. Rule OP-1.
func (a *api) authenticate(c *kernel.Request, key string) (kernel.Caller, error) {
	found, err := operator.Authenticate(c.Context(), a.conf.DB, key)
	if fault.HasCode(err, fault.CodeUnauthorized) {
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "refused the key of an operator",
			slog.String("requestId", kernel.RequestID(c.Request)), slog.String("peer", c.RemoteAddr))
	}
	if err != nil {
		return nil, fmt.Errorf("authenticate an operator: %w", err)
	}
	return caller{found}, nil
}

// pathShownMax bounds the part of a path that the audit log stores.
const pathShownMax = 300

// recordCall records an operator's call in the audit log, whatever its result. A change that the
// call makes has a row of its own, in the transaction of the change. Rule OP-3.
func (a *api) recordCall(r *http.Request, presented kernel.Caller, rt kernel.Route) error {
	key, path := presented.(caller), r.URL.EscapedPath()
	err := a.conf.DB.InSystem(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Actor: key.Actor(), Action: "operator.called", ResourceKind: "CALL",
			ResourceID: kernel.RequestID(r),
			Detail: map[string]string{
				"call":   rt.Name,
				"method": r.Method, "path": path[:min(len(path), pathShownMax)], "peer": r.RemoteAddr,
				"key": key.Name,
			},
		})
	})
	if err != nil && !errors.Is(err, pg.ErrCommitUnknown) {
		return fmt.Errorf("write the call of an operator to the audit log: %w", err)
	}
	// An unknown commit is no reason to refuse: the row may be there, and the call has not begun.
	return nil
}

// OrganizationRequest is the body of POST /organizations.
type OrganizationRequest struct {
	Name string `json:"name" doc:"For people, 1 to 200 bytes without control characters." bounds:"minLength=1,maxLength=200" example:"Example Marketplace"`
}

// Organization is a tenant of this service.
type Organization struct {
	OrganizationID  string        `json:"organizationId" doc:"The organization."`
	Name            string        `json:"name" doc:"The name, for people."`
	Status          string        `json:"status" doc:"FROZEN: no money leaves the organization." enum:"ACTIVE,FROZEN"`
	APIKeyCreatedAt *webhook.Time `json:"apiKeyCreatedAt" doc:"When its live main API key was made; null when it has none, as after a restore."`
	CreatedAt       webhook.Time  `json:"createdAt"`
}

// OrganizationWithKey is a new organization. Its key is shown only here.
type OrganizationWithKey struct {
	Organization
	APIKey string `json:"apiKey"`
}

// APIKey is a new key. It is shown only here.
type APIKey struct {
	APIKey string `json:"apiKey"`
}

func showOrganization(s org.View) Organization {
	shown := Organization{
		OrganizationID: s.ID, Name: s.Name, Status: "ACTIVE", APIKeyCreatedAt: webhook.AtOrNil(s.KeyCreatedAt),
		CreatedAt: webhook.At(s.CreatedAt),
	}
	if s.Frozen {
		shown.Status = "FROZEN"
	}
	return shown
}

func (a *api) createOrganization(c *call, body OrganizationRequest) (OrganizationWithKey, error) {
	made, key, err := org.CreateBy(c.Context(), a.conf.DB, c.Caller.Actor(), body.Name)
	if err != nil {
		return OrganizationWithKey{}, err
	}
	return OrganizationWithKey{
		showOrganization(org.View{Organization: made, KeyCreatedAt: &made.CreatedAt}), key.Reveal(),
	}, nil
}

func (a *api) listOrganizations(c *call) (kernel.Page[Organization], error) {
	const list = "organizations"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[Organization]{}, err
	}
	var found pagination.Result[org.View]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.List(ctx, tx, org.Filter{
			Name: c.Query["name"], CreatedAfter: c.Query.TimeOrZero("createdAfter"),
			CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[Organization]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showOrganization), nil
}

// requireOrganization refuses a path that names no organization.
func requireOrganization(c *call) error {
	_, err := organizationID(c)
	return err
}

// organizationID returns the organization that the path names.
func organizationID(c *call) (string, error) {
	name := c.PathParam("organizationId")
	if !id.IsValid("org", name) {
		return "", fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This organization does not exist.").
			WithStep(fault.ListOrganizations)
	}
	return name, nil
}

func (a *api) getOrganization(c *call) (Organization, error) {
	name, err := organizationID(c)
	if err != nil {
		return Organization{}, err
	}
	var found org.View
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.LoadView(ctx, tx, name)
		return err
	})
	if err != nil {
		return Organization{}, err
	}
	return showOrganization(found), nil
}

func (a *api) rollKey(c *call) (APIKey, error) {
	name, err := organizationID(c)
	if err != nil {
		return APIKey{}, err
	}
	key, err := org.RollKey(c.Context(), a.conf.DB, c.Caller.Actor(), name)
	if err != nil {
		return APIKey{}, err
	}
	if a.conf.KeyRolled != nil {
		a.conf.KeyRolled(c.Context(), name, key)
	}
	return APIKey{key.Reveal()}, nil
}

// OwnedDeposit is a deposit with its organization.
type OwnedDeposit struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	webhook.Deposit
}

func (a *api) listAllDeposits(c *call) (kernel.Page[OwnedDeposit], error) {
	const list = "deposits of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedDeposit]{}, err
	}
	f := deposit.Filter{
		CustomerID: c.Query["customerId"], Product: c.Query["product"], Status: c.Query["status"],
		Chain:         c.Query["chain"],
		CreatedAfter:  c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		TxHash:        c.Query["txHash"], Address: c.Query["address"], IsFlagged: c.Query.FlagValue("isFlagged"),
	}
	if n := c.Query.NumberValue("mintId"); n != nil {
		f.MintID = *n
	}
	var found pagination.Result[deposit.OrgDeposit]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.ListAcrossOrgs(ctx, tx, c.Query["organizationId"], f, p)
		return err
	})
	if err != nil {
		return kernel.Page[OwnedDeposit]{}, err
	}
	return kernel.NewPage(c.Request, list, found,
		func(o deposit.OrgDeposit) OwnedDeposit { return OwnedDeposit{o.OrgID, wire.Deposit(o.Deposit)} }), nil
}

// OwnedWithdrawal is a withdrawal with its organization.
type OwnedWithdrawal struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	webhook.Withdrawal
}

func (a *api) listAllWithdrawals(c *call) (kernel.Page[OwnedWithdrawal], error) {
	const list = "withdrawals of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedWithdrawal]{}, err
	}
	found, err := a.conf.Withdrawals.ListAcrossOrgs(c.Context(), c.Query["organizationId"], withdrawal.Filter{
		Type: c.Query["type"], CustomerID: c.Query["customerId"], Status: c.Query["status"],
		MintID: c.Query.NumberValue("mintId"), Chain: c.Query["chain"],
		CreatedAfter:  c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		TxHash:        c.Query["txHash"], Address: c.Query["address"], Reference: c.Query["reference"],
	}, p)
	if err != nil {
		return kernel.Page[OwnedWithdrawal]{}, err
	}
	return kernel.NewPage(c.Request, list, found,
		func(o withdrawal.OrgWithdrawal) OwnedWithdrawal {
			return OwnedWithdrawal{o.OrgID, wire.Withdrawal(o.Withdrawal)}
		},
	), nil
}

// FreezeOrder is the body of POST /freezes.
type FreezeOrder struct {
	Scope          string  `json:"scope" doc:"How much to stop: a CUSTOMER of an organization, an ORGANIZATION, a CHAIN, or ALL."`
	OrganizationID *string `json:"organizationId,omitempty" doc:"The organization. Give it with ORGANIZATION and CUSTOMER only."`
	CustomerID     *string `json:"customerId,omitempty" doc:"The customer, which the organization has. Give it with CUSTOMER only." bounds:"minLength=1,maxLength=128"`
	Chain          *string `json:"chain,omitempty" doc:"The chain, which runs here. Give it with CHAIN only."`
	Reason         *string `json:"reason,omitempty" doc:"The reason, in a sentence, for the person who decides about lifting the freeze."`
}

// Freeze is a stop of outgoing payments.
type Freeze struct {
	FreezeID       string        `json:"freezeId"`
	Scope          string        `json:"scope" doc:"How much it stops. WALLET is one wallet on one chain; only the program creates such a freeze."`
	OrganizationID *string       `json:"organizationId" doc:"The organization; null for a scope without an organization."`
	CustomerID     *string       `json:"customerId" doc:"The customer of a freeze of scope CUSTOMER."`
	Chain          *string       `json:"chain" doc:"The chain of a freeze of scope CHAIN or WALLET."`
	WalletID       *string       `json:"walletId" doc:"The wallet of a freeze of scope WALLET."`
	Source         string        `json:"source" doc:"Who froze it. An ORGANIZATION lifts its own freezes, an operator all others."`
	Reason         string        `json:"reason" doc:"The reason, in a sentence."`
	CreatedAt      webhook.Time  `json:"createdAt"`
	LiftedAt       *webhook.Time `json:"liftedAt" doc:"When it was lifted; null while it is in force."`
	LiftedBy       *string       `json:"liftedBy" doc:"Who lifted it: the kind of actor and the id, which is of an operator's key (opk_…) or of an operator who signed in (opr_…)."`
}

func showFreeze(f freeze.Freeze) Freeze {
	return Freeze{
		FreezeID: f.ID, Scope: string(f.Scope), OrganizationID: resource.OptionalText(f.OrgID),
		CustomerID: resource.OptionalText(f.CustomerID), Chain: resource.OptionalText(string(f.Chain)),
		WalletID: resource.OptionalText(f.WalletID), Source: string(f.Source), Reason: f.Reason,
		CreatedAt: webhook.At(f.CreatedAt),
		LiftedAt:  webhook.AtOrNil(f.LiftedAt), LiftedBy: resource.OptionalText(f.LiftedBy),
	}
}

var (
	freezeScopes = []string{
		string(freeze.ScopeCustomer), string(freeze.ScopeOrganization), string(freeze.ScopeChain),
		string(freeze.ScopeAll), string(freeze.ScopeWallet),
	}
	operatorFreezeScopes = freezeScopes[:4] // only the program freezes a wallet
	freezeSources        = []string{
		string(freeze.SourceOrganization), string(freeze.SourceOperator), string(freeze.SourceVerify),
		string(freeze.SourceFinality), string(freeze.SourceDispatch), string(freeze.SourceSigner),
	}
)

// reasonBytesMax bounds an operator's reason for a freeze.
const reasonBytesMax = 500

// toFreeze returns the freeze that a request asks for. It refuses fields that the scope does not
// take: a request that names a customer must not freeze all of them.
func (r FreezeOrder) toFreeze(chains chain.Chains) (freeze.Freeze, error) {
	refuse := func(param, format string, args ...any) (freeze.Freeze, error) {
		return freeze.Freeze{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, format, args...).
			WithParam(param)
	}
	if !slices.Contains(operatorFreezeScopes, r.Scope) {
		return refuse("scope", "The scope has to be CUSTOMER, ORGANIZATION, CHAIN or ALL.")
	}
	f := freeze.Freeze{Scope: freeze.Scope(r.Scope), Source: freeze.SourceOperator}
	for _, m := range []struct {
		param string
		value *string
		of    []freeze.Scope
		into  *string
	}{
		{"organizationId", r.OrganizationID, []freeze.Scope{freeze.ScopeOrganization, freeze.ScopeCustomer}, &f.OrgID},
		{"customerId", r.CustomerID, []freeze.Scope{freeze.ScopeCustomer}, &f.CustomerID},
		{"chain", r.Chain, []freeze.Scope{freeze.ScopeChain}, (*string)(&f.Chain)},
	} {
		needed := slices.Contains(m.of, f.Scope)
		switch {
		case needed && (m.value == nil || *m.value == ""):
			return refuse(m.param, "A freeze of scope %s needs %s. Add it.", f.Scope, m.param)
		case !needed && m.value != nil:
			return refuse(
				m.param,
				"A freeze of scope %s takes no %s, and would stop more than that. Leave it out, or choose another "+
					"scope.",
				f.Scope, m.param,
			)
		case needed:
			*m.into = *m.value
		}
	}
	if _, runs := chains[f.Chain]; f.Scope == freeze.ScopeChain && !runs {
		return refuse("chain", "%s does not run here, so there is nothing to freeze. Check chain.",
			kernel.ClipText(string(f.Chain)))
	}
	if f.Scope == freeze.ScopeCustomer {
		if err := customer.CheckID(f.CustomerID); err != nil {
			return freeze.Freeze{}, err
		}
	}
	if r.Reason != nil {
		f.Reason = *r.Reason
	}
	if err := checkPlainText("reason", f.Reason, reasonBytesMax); err != nil {
		return freeze.Freeze{}, err
	}
	return f, nil
}

func (a *api) createFreeze(c *call, body FreezeOrder) (Freeze, error) {
	f, err := body.toFreeze(a.conf.Chains)
	if err != nil {
		return Freeze{}, err
	}
	f.Actor = c.Caller.Actor()
	var added bool
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		var err error
		wanted := f
		// An unknown id would be reported as frozen, while the one that was meant would not be.
		if wanted.OrgID != "" {
			if _, err = org.LoadView(ctx, tx, wanted.OrgID); err != nil {
				return withParam(err, "organizationId")
			}
		}
		if wanted.CustomerID != "" {
			if _, err = customer.ByID(ctx, tx, wanted.OrgID, wanted.CustomerID); err != nil {
				return withParam(err, "customerId")
			}
		}
		f, added, err = freeze.CreateOrFind(ctx, tx, wanted)
		return err
	})
	if err != nil {
		return Freeze{}, err
	}
	if !added {
		c.AnswerWith(http.StatusOK)
	}
	return showFreeze(f), nil
}

// withParam adds the parameter at fault to a refusal.
func withParam(err error, param string) error {
	if f := fault.Find(err); f != nil {
		return f.WithParam(param)
	}
	return err
}

func (a *api) listFreezes(c *call) (kernel.Page[Freeze], error) {
	const list = "freezes"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[Freeze]{}, err
	}
	var found pagination.Result[freeze.Freeze]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = freeze.ListPage(ctx, tx, freeze.Filter{
			Scope: freeze.Scope(c.Query["scope"]), Source: freeze.Source(c.Query["source"]),
			OrgID: c.Query["organizationId"], Chain: c.Query["chain"],
			IsActive: c.Query.FlagValue("standing"), CreatedAfter: c.Query.TimeOrZero("createdAfter"),
			CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[Freeze]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showFreeze), nil
}

func (a *api) liftFreeze(c *call) (Freeze, error) {
	name := c.PathParam("freezeId")
	if !id.IsValid("frz", name) {
		return Freeze{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This freeze does not exist.").
			WithStep(fault.ListFreezes)
	}
	var lifted freeze.Freeze
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		lifted, err = freeze.LiftByOperator(ctx, tx, name, c.Caller.Actor())
		return err
	})
	if err != nil {
		return Freeze{}, err
	}
	return showFreeze(lifted), nil
}

// Reserves compares the holdings with the liabilities.
type Reserves struct {
	AsOf webhook.Time `json:"asOf" doc:"The time of the snapshot."`
	Data []Reserve    `json:"data"`
}

// Reserve holds the reserves of one mint.
type Reserve struct {
	MintID      int                `json:"mintId"`
	Symbol      string             `json:"symbol"`
	Chain       string             `json:"chain"`
	Decimals    int                `json:"decimals"`
	Block       *ReserveBlock      `json:"block" doc:"The last final block that the service has read; null before the first."`
	Holdings    ReserveHoldings    `json:"holdings" doc:"What the service's addresses hold."`
	Liabilities ReserveLiabilities `json:"liabilities" doc:"What the service owes, by kind of owner."`
	// What the liabilities count and swap providers have.
	AtProviders webhook.List[ReserveAtProvider] `json:"atProviders" doc:"What swap providers have of the liabilities, by provider."`
	InTransit   ReserveInTransit                `json:"inTransit" doc:"What is in transactions that are not final."`
	Difference  string                          `json:"difference" doc:"holdings.total and atProviders less liabilities.total, with a sign. It is 0 unless a chain replaced final blocks after their amounts were spent." pattern:"^-?(0|[1-9][0-9]{0,77})$" example:"0"`
	Quarantined bool                            `json:"quarantined" doc:"Whether the mint is quarantined: its balances contradict its transfers."`
}

// ReserveBlock is a block of the mint's chain.
type ReserveBlock struct {
	Height int64  `json:"height" doc:"Its height."`
	Hash   string `json:"hash" doc:"Its hash."`
}

// ReserveHoldings are the amounts on our addresses.
type ReserveHoldings struct {
	DepositAddresses string `json:"depositAddresses" doc:"On deposit addresses." form:"amount"`
	Treasuries       string `json:"treasuries" doc:"On treasuries, from which withdrawals are paid." form:"amount"`
	Total            string `json:"total" doc:"depositAddresses + treasuries." form:"amount"`
}

// ReserveLiabilities are the amounts owed, by kind.
type ReserveLiabilities struct {
	CustomersAvailable   string `json:"customersAvailable" doc:"What customers can spend." form:"amount"`
	CustomersWithdrawing string `json:"customersWithdrawing" doc:"What is held for customers' withdrawals." form:"amount"`
	InSwap               string `json:"inSwap" doc:"What is held for customers' swaps, or came back from them and is not restored yet." form:"amount"`
	Products             string `json:"products" doc:"The organizations' own balances." form:"amount"`
	Gas                  string `json:"gas" doc:"Paid in for network fees." form:"amount"`
	Suspense             string `json:"suspense" doc:"On suspense accounts: arrived or restored, with an owner that is not decided yet." form:"amount"`
	PendingDeposits      string `json:"pendingDeposits" doc:"Final and not credited yet." form:"amount"`
	BelowMinimum         string `json:"belowMinimum" doc:"Below the minimum of the mint, and in no balance." form:"amount"`
	Total                string `json:"total" doc:"The sum of all of them." form:"amount"`
}

// ReserveAtProvider is what one swap provider has of ours.
type ReserveAtProvider struct {
	Provider string `json:"provider" doc:"The swap provider."`
	Amount   string `json:"amount" doc:"What the provider has of ours, with a sign. It is negative if the provider delivered or gave back more than it got." pattern:"^-?(0|[1-9][0-9]{0,77})$" example:"0"`
	// OldestClaimAgeSeconds is null if there is no open claim.
	OldestClaimAgeSeconds *int64 `json:"oldestClaimAgeSeconds" doc:"The age of the oldest swap with an open claim, in seconds; null without an open claim."`
}

// ReserveInTransit are the amounts that transactions move that are not final.
type ReserveInTransit struct {
	Leaving string `json:"leaving" doc:"Payments to external addresses." form:"amount"`
	Moving  string `json:"moving" doc:"Transfers between the service's own addresses." form:"amount"`
}

func showReserve(r report.Reserve, now time.Time) (Reserve, error) {
	held, err := r.HeldAmount()
	if err != nil {
		return Reserve{}, err
	}
	owed, err := r.SumLiabilities()
	if err != nil {
		return Reserve{}, err
	}
	shown := Reserve{
		MintID: r.Mint.ID, Symbol: r.Mint.Symbol, Chain: string(r.Mint.Chain), Decimals: r.Mint.Decimals,
		Quarantined: r.Mint.Quarantined,
		Holdings:    ReserveHoldings{r.DepositAddresses.String(), r.Treasuries.String(), held.String()},
		Liabilities: ReserveLiabilities{
			CustomersAvailable: r.Available.String(), CustomersWithdrawing: r.Withdrawing.String(),
			InSwap:   r.InSwap.String(),
			Products: r.Products.String(), Gas: r.Gas.String(),
			Suspense: r.Suspense.String(), PendingDeposits: r.Waiting.String(), BelowMinimum: r.Dust.String(),
			Total: owed.String(),
		},
		InTransit: ReserveInTransit{r.Leaving.String(), r.Moving.String()}, Difference: r.Difference,
	}
	for _, claim := range r.AtProviders {
		held := ReserveAtProvider{Provider: claim.Provider, Amount: claim.Amount}
		if claim.OldestAt != nil {
			held.OldestClaimAgeSeconds = new(max(0, int64(now.Sub(*claim.OldestAt).Seconds())))
		}
		shown.AtProviders = append(shown.AtProviders, held)
	}
	if r.Block != nil {
		shown.Block = &ReserveBlock{int64(r.Block.Height), r.Block.Hash}
	}
	return shown, nil
}

func (a *api) listReserves(c *call) (Reserves, error) {
	body := Reserves{Data: []Reserve{}}
	var found []report.Reserve
	err := a.conf.DB.Snapshot(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		orgID := c.Query["organizationId"]
		if orgID != "" {
			if _, err := org.LoadView(ctx, tx, orgID); err != nil {
				return withParam(err, "organizationId")
			}
		}
		body.AsOf = webhook.At(tx.Now)
		found, err = report.LoadReserves(ctx, tx, orgID)
		return err
	})
	if err != nil {
		return Reserves{}, err
	}
	for _, r := range found {
		shown, err := showReserve(r, body.AsOf.Time)
		if err != nil {
			return Reserves{}, err
		}
		body.Data = append(body.Data, shown)
	}
	return body, nil
}
