package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// OperatorConfig holds what the operator's interface depends on. Every field is required unless its
// comment says otherwise.
type OperatorConfig struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Deposits    *deposit.Service    // decides about flagged deposits
	Rescreens   *deposit.Rescreener // screens their senders again
	Whitelist   *whitelist.Service  // the whitelists of organizations
	// AllowedPrefixes are the addresses that may call, by the peer of the connection; no header is
	// read. An empty list admits no caller.
	AllowedPrefixes []netip.Prefix
	// Proxies are the proxies before this listener; X-Forwarded-For is read only from them.
	Proxies Proxies
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
	Limits    Limits       // per key; the zero value sets none; see UsualLimits
	Log       *slog.Logger // nil means the default
}

// NewOperator builds the handler of the operators' listener: their interface under /v1 and its
// document at /openapi.json. It has none of the organizations' routes and accepts none of their
// keys.
func NewOperator(conf OperatorConfig) http.Handler {
	if len(conf.CursorKey) == 0 {
		panic("api: cursors need a key")
	}
	handler := newAPI(&operators, Config{
		DB: conf.DB, Chains: conf.Chains, Withdrawals: conf.Withdrawals, Deposits: conf.Deposits,
		Rescreens: conf.Rescreens,
		CursorKey: conf.CursorKey, BaseURL: conf.BaseURL, Limits: conf.Limits, Proxies: conf.Proxies, Log: conf.Log,
	})
	handler.localRisk, handler.keyRolled = conf.LocalRisk, conf.KeyRolled
	handler.fourEyes, handler.whitelist = conf.FourEyes, conf.Whitelist
	return handler.middleware(handler.restrictAddresses(conf.AllowedPrefixes, handler.newRouter()))
}

// restrictAddresses refuses callers from other addresses before it looks at a key. A caller from
// elsewhere therefore cannot find out whether a key is valid. Rule OP-1.
func (a *api) restrictAddresses(listed []netip.Prefix, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		addr := peer.Addr().Unmap().WithZone("")
		if a.conf.Proxies.IsTrusted(addr) {
			addr = a.clientAddr(r)
		}
		if err != nil || !slices.ContainsFunc(listed, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			a.writeError(w, r, fault.New(fault.Forbidden, fault.IPNotAllowed, fault.NothingWritten,
				"The operator's interface accepts no calls from this address.").
				WithAdvice("Call from an address in operator.allow of the service's configuration."))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// operatorHeader is the header of an operator's key.
const operatorHeader = "X-Operator-Key"

// authenticateOperator finds the operator of the presented key. Rule OP-1.
func (a *api) authenticateOperator(w http.ResponseWriter, c *call) (err error) {
	c.operator, err = operator.Authenticate(c.Context(), a.conf.DB, presentedKey(c.Request, operatorHeader))
	if fault.HasCode(err, fault.CodeUnauthorized) {
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "refused the key of an operator",
			slog.String("requestId", requestID(c.Request)), slog.String("peer", c.RemoteAddr))
		if limited := a.checkFailureRate(c.Request, w.Header()); limited != nil {
			return limited
		}
		err = a.surface.explainKeyRefusal(c.Request, err)
	}
	if err != nil {
		return fmt.Errorf("authenticate an operator: %w", err)
	}
	return nil
}

// pathShownMax bounds the part of a path that the audit log stores.
const pathShownMax = 300

// recordCall records an operator's call in the audit log, whatever its result. A change that the
// call makes has a row of its own, in the transaction of the change. Rule OP-3.
func (a *api) recordCall(c *call, rt route) error {
	path := c.URL.EscapedPath()
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Actor: c.operator.Actor(), Action: "operator.called", ResourceKind: "CALL",
			ResourceID: requestID(c.Request),
			Detail: map[string]string{
				"call":   rt.name,
				"method": c.Method, "path": path[:min(len(path), pathShownMax)], "peer": c.RemoteAddr,
				"key": c.operator.Name,
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
	Name string `json:"name"`
}

// Organization is a tenant of this service.
type Organization struct {
	OrganizationID  string        `json:"organizationId"`
	Name            string        `json:"name"`
	Status          string        `json:"status"`
	APIKeyCreatedAt *webhook.Time `json:"apiKeyCreatedAt"`
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

func (a *api) createOrganization(c *call) (answer, error) {
	var body OrganizationRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	made, key, err := org.CreateBy(c.Context(), a.conf.DB, c.operator.Actor(), body.Name)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: OrganizationWithKey{
		showOrganization(org.View{Organization: made, KeyCreatedAt: &made.CreatedAt}), key.Reveal(),
	}}, nil
}

func (a *api) listOrganizations(c *call) (answer, error) {
	const list = "organizations"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[org.View]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.List(ctx, tx, org.Filter{
			Name: c.query["name"], CreatedAfter: timeOrZero(c.query.timeValue("createdAfter")),
			CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		}, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list, found, showOrganization)}, nil
}

// organizationID returns the organization that the path names.
func (c *call) organizationID() (string, error) {
	name := c.pathParam("organizationId")
	if !id.IsValid("org", name) {
		return "", fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This organization does not exist.").
			WithStep(fault.ListOrganizations)
	}
	return name, nil
}

func (a *api) getOrganization(c *call) (answer, error) {
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	var found org.View
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = org.LoadView(ctx, tx, name)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showOrganization(found)}, nil
}

func (a *api) rollKey(c *call) (answer, error) {
	name, err := c.organizationID()
	if err != nil {
		return answer{}, err
	}
	key, err := org.RollKey(c.Context(), a.conf.DB, c.operator.Actor(), name)
	if err != nil {
		return answer{}, err
	}
	if a.keyRolled != nil {
		a.keyRolled(c.Context(), name, key)
	}
	return answer{status: http.StatusCreated, body: APIKey{key.Reveal()}}, nil
}

// OwnedDeposit is a deposit with its organization.
type OwnedDeposit struct {
	OrganizationID string `json:"organizationId"`
	webhook.Deposit
}

func (a *api) listAllDeposits(c *call) (answer, error) {
	const list = "deposits of all"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	f := deposit.Filter{
		CustomerID: c.query["customerId"], Product: c.query["product"], Status: c.query["status"],
		Chain:         c.query["chain"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		TxHash:        c.query["txHash"], Address: c.query["address"], IsFlagged: c.query.flagValue("isFlagged"),
	}
	if n := c.query.numberValue("mintId"); n != nil {
		f.MintID = *n
	}
	var found pagination.Result[deposit.OrgDeposit]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.ListAcrossOrgs(ctx, tx, c.query["organizationId"], f, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(
		a, c, list, found, func(o deposit.OrgDeposit) OwnedDeposit { return OwnedDeposit{o.OrgID, o.Object} },
	)}, nil
}

// OwnedWithdrawal is a withdrawal with its organization.
type OwnedWithdrawal struct {
	OrganizationID string `json:"organizationId"`
	webhook.Withdrawal
}

func (a *api) listAllWithdrawals(c *call) (answer, error) {
	const list = "withdrawals of all"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	found, err := a.conf.Withdrawals.ListAcrossOrgs(c.Context(), c.query["organizationId"], withdrawal.Filter{
		Type: c.query["type"], CustomerID: c.query["customerId"], Status: c.query["status"],
		MintID: c.query.numberValue("mintId"), Chain: c.query["chain"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		TxHash:        c.query["txHash"], Address: c.query["address"], Reference: c.query["reference"],
	}, p)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(
		a, c, list, found,
		func(o withdrawal.OrgWithdrawal) OwnedWithdrawal { return OwnedWithdrawal{o.OrgID, o.Object} },
	)}, nil
}

// FreezeOrder is the body of POST /freezes.
type FreezeOrder struct {
	Scope          string  `json:"scope"`
	OrganizationID *string `json:"organizationId,omitempty"`
	CustomerID     *string `json:"customerId,omitempty"`
	Chain          *string `json:"chain,omitempty"`
	Reason         *string `json:"reason,omitempty"`
}

// Freeze is a stop of outgoing payments.
type Freeze struct {
	FreezeID       string        `json:"freezeId"`
	Scope          string        `json:"scope"`
	OrganizationID *string       `json:"organizationId"`
	CustomerID     *string       `json:"customerId"`
	Chain          *string       `json:"chain"`
	WalletID       *string       `json:"walletId"`
	Source         string        `json:"source"`
	Reason         string        `json:"reason"`
	CreatedAt      webhook.Time  `json:"createdAt"`
	LiftedAt       *webhook.Time `json:"liftedAt"`
	LiftedBy       *string       `json:"liftedBy"`
}

func showFreeze(f freeze.Freeze) Freeze {
	return Freeze{
		FreezeID: f.ID, Scope: string(f.Scope), OrganizationID: optionalText(f.OrgID),
		CustomerID: optionalText(f.CustomerID), Chain: optionalText(string(f.Chain)),
		WalletID: optionalText(f.WalletID), Source: string(f.Source), Reason: f.Reason,
		CreatedAt: webhook.At(f.CreatedAt),
		LiftedAt:  webhook.AtOrNil(f.LiftedAt), LiftedBy: optionalText(f.LiftedBy),
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
			clipText(string(f.Chain)))
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

func (a *api) createFreeze(c *call) (answer, error) {
	var body FreezeOrder
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	f, err := body.toFreeze(a.conf.Chains)
	if err != nil {
		return answer{}, err
	}
	f.Actor = c.operator.Actor()
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
		return answer{}, err
	}
	if !added {
		return answer{status: http.StatusOK, body: showFreeze(f)}, nil
	}
	return answer{status: http.StatusCreated, body: showFreeze(f)}, nil
}

// withParam adds the parameter at fault to a refusal.
func withParam(err error, param string) error {
	if f := fault.Find(err); f != nil {
		return f.WithParam(param)
	}
	return err
}

func (a *api) listFreezes(c *call) (answer, error) {
	const list = "freezes"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[freeze.Freeze]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = freeze.ListPage(ctx, tx, freeze.Filter{
			Scope: freeze.Scope(c.query["scope"]), Source: freeze.Source(c.query["source"]),
			OrgID: c.query["organizationId"], Chain: c.query["chain"],
			IsActive: c.query.flagValue("standing"), CreatedAfter: timeOrZero(c.query.timeValue("createdAfter")),
			CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		}, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list, found, showFreeze)}, nil
}

func (a *api) liftFreeze(c *call) (answer, error) {
	name := c.pathParam("freezeId")
	if !id.IsValid("frz", name) {
		return answer{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This freeze does not exist.").
			WithStep(fault.ListFreezes)
	}
	var lifted freeze.Freeze
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		lifted, err = freeze.LiftByOperator(ctx, tx, name, c.operator.Actor())
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showFreeze(lifted)}, nil
}

// Reserves compares the holdings with the liabilities.
type Reserves struct {
	AsOf webhook.Time `json:"asOf"`
	Data []Reserve    `json:"data"`
}

// Reserve holds the reserves of one mint.
type Reserve struct {
	MintID      int                `json:"mintId"`
	Symbol      string             `json:"symbol"`
	Chain       string             `json:"chain"`
	Decimals    int                `json:"decimals"`
	Block       *ReserveBlock      `json:"block"`
	Holdings    ReserveHoldings    `json:"holdings"`
	Liabilities ReserveLiabilities `json:"liabilities"`
	InTransit   ReserveInTransit   `json:"inTransit"`
	Difference  string             `json:"difference"`
	Quarantined bool               `json:"quarantined"`
}

// ReserveBlock is a block of the mint's chain.
type ReserveBlock struct {
	Height int64  `json:"height"`
	Hash   string `json:"hash"`
}

// ReserveHoldings are the amounts on our addresses.
type ReserveHoldings struct {
	DepositAddresses string `json:"depositAddresses"`
	Treasuries       string `json:"treasuries"`
	Total            string `json:"total"`
}

// ReserveLiabilities are the amounts owed, by kind.
type ReserveLiabilities struct {
	CustomersAvailable   string `json:"customersAvailable"`
	CustomersWithdrawing string `json:"customersWithdrawing"`
	Products             string `json:"products"`
	Gas                  string `json:"gas"`
	Suspense             string `json:"suspense"`
	PendingDeposits      string `json:"pendingDeposits"`
	BelowMinimum         string `json:"belowMinimum"`
	Total                string `json:"total"`
}

// ReserveInTransit are the amounts that transactions move that are not final.
type ReserveInTransit struct {
	Leaving string `json:"leaving"`
	Moving  string `json:"moving"`
}

func showReserve(r report.Reserve) (Reserve, error) {
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
			Products: r.Products.String(), Gas: r.Gas.String(),
			Suspense: r.Suspense.String(), PendingDeposits: r.Waiting.String(), BelowMinimum: r.Dust.String(),
			Total: owed.String(),
		},
		InTransit: ReserveInTransit{r.Leaving.String(), r.Moving.String()}, Difference: r.Difference,
	}
	if r.Block != nil {
		shown.Block = &ReserveBlock{int64(r.Block.Height), r.Block.Hash}
	}
	return shown, nil
}

func (a *api) listReserves(c *call) (answer, error) {
	body := Reserves{Data: []Reserve{}}
	var found []report.Reserve
	err := a.conf.DB.Snapshot(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		orgID := c.query["organizationId"]
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
		return answer{}, err
	}
	for _, r := range found {
		shown, err := showReserve(r)
		if err != nil {
			return answer{}, err
		}
		body.Data = append(body.Data, shown)
	}
	return answer{status: http.StatusOK, body: body}, nil
}
