package operatorapi

import (
	"context"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// OwnedSwap is a swap with its organization and what the provider has of it. A swap of an organization's own
// money has the fields of a customer's swap, without a fee, and those of the payment of its output.
type OwnedSwap struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	Kind           string `json:"kind" doc:"CUSTOMER: of a balance of a customer. ORGANIZATION: of the organization's own money, paid to a whitelisted address. Kinds may be added without notice." example:"CUSTOMER"`
	webhook.CustomerSwap
	CustomerID           *string       `json:"customerId" doc:"The organization's id of the customer; null of a swap of the organization's own money." example:"user_42"`
	Product              *string       `json:"product" doc:"The product of the organization whose balance pays; null of a customer's swap." example:"CUSTODIAL"`
	WhitelistedAddressID *string       `json:"whitelistedAddressId" doc:"The whitelist entry that the output is paid to; null of a customer's swap."`
	ToAddress            *string       `json:"toAddress" doc:"The address of that entry when the swap was requested; null of a customer's swap."`
	WithdrawalID         *string       `json:"withdrawalId" doc:"The withdrawal that pays the output; null until it is requested, and of a customer's swap." example:"wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	OpenClaim            string        `json:"openClaim" doc:"What the provider has of the payment and still owes, in atomic units of the source mint." form:"amount"`
	WrittenOff           string        `json:"writtenOff" doc:"What the provider keeps for good, in atomic units of the source mint: the fee of a refund, and what an operator wrote off." form:"amount"`
	PaidAt               *webhook.Time `json:"paidAt" doc:"When the payment to the provider was final; null before."`
	PayBy                *webhook.Time `json:"payBy" doc:"The signer signs no payment after this time; null before an offer is taken."`
	ExpiresAt            *webhook.Time `json:"expiresAt" doc:"Until when the provider takes the payment, as it signed; null before an offer is taken."`
	NextLookAt           *webhook.Time `json:"nextLookAt" doc:"When the service looks at the swap next; null when nothing is expected any more."`
}

// SwapDetail is a swap with what an operator needs to talk to its provider.
type SwapDetail struct {
	OwnedSwap
	DepositAddress  string        `json:"depositAddress" doc:"The provider's deposit address, as the provider writes it: it names the swap to the provider; empty before an offer is taken." example:"0x71C7656EC7ab88b098defB751B7401B5f6d8976F"`
	DeliveryAddress string        `json:"deliveryAddress" doc:"The address of this service to which the provider delivers." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	RefundAddress   string        `json:"refundAddress" doc:"The address of this service to which the provider refunds." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	Reports         []SwapReport  `json:"reports" doc:"What the provider reported, oldest first. A report that repeats the one before is left out."`
	Arrivals        []SwapArrival `json:"arrivals" doc:"What arrived at both addresses by final blocks, oldest first."`
}

// SwapReport is what a provider reported of a swap. Nothing of it moves money by itself.
type SwapReport struct {
	Number     int          `json:"number" doc:"Its number, from 1."`
	Status     string       `json:"status" doc:"The status in the words of this service." enum:"WAITING,INCOMPLETE,PROCESSING,SUCCESS,REFUNDED,FAILED"`
	Word       string       `json:"word" doc:"The provider's own status."`
	Refund     string       `json:"refund" doc:"What the provider says of a refund." example:"NONE"`
	Reason     string       `json:"reason" doc:"The provider's reason; empty without one."`
	TxHashes   []string     `json:"txHashes" doc:"The transactions that the provider names."`
	ReportedAt webhook.Time `json:"reportedAt" doc:"When the provider was asked."`
}

// SwapArrival is a final arrival at an address of a swap.
type SwapArrival struct {
	DepositID      string        `json:"depositId" doc:"The id of the deposit. The organization does not see it before it is credited." example:"dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	OrganizationID string        `json:"organizationId" doc:"The organization."`
	SwapID         string        `json:"swapId"`
	CustomerID     *string       `json:"customerId" doc:"The customer of the swap; null of an organization's own swap, and if this database does not have the swap." example:"user_42"`
	Product        *string       `json:"product" doc:"The product of an organization's own swap; null otherwise." example:"CUSTODIAL"`
	Role           string        `json:"role" doc:"DELIVERY and REFUND belong to the swap. STRAY: no open swap expects it, so it is in suspense until a person decides." enum:"DELIVERY,REFUND,STRAY"`
	StrayReason    *string       `json:"strayReason" doc:"Why it is a STRAY; null otherwise. Reasons may be added without notice."`
	MintID         int           `json:"mintId"`
	Symbol         string        `json:"symbol"`
	Decimals       int           `json:"decimals"`
	Chain          string        `json:"chain"`
	Amount         string        `json:"amount"`
	Address        string        `json:"address"`
	TxHash         string        `json:"txHash" doc:"The hash of its transaction."`
	CreatedAt      webhook.Time  `json:"createdAt" doc:"When the service settled it."`
	Decision       *string       `json:"decision" doc:"CREDITED: to the customer or the product of the swap. KEPT: it stays in suspense. null: no person has decided, or none has to."`
	Note           *string       `json:"note" doc:"Why the operator decided so; null before."`
	DecidedBy      *string       `json:"decidedBy" doc:"The kind and the id of the operator who decided; null before." example:"OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	DecidedAt      *webhook.Time `json:"decidedAt" doc:"When it was decided; null before."`
}

// SwapNote is the body of a decision about a swap.
type SwapNote struct {
	Note string `json:"note" doc:"Why, for the audit log: 1 to 1000 bytes." bounds:"minLength=1,maxLength=1000" example:"The provider confirmed that it refunds by hand, ticket 4711."`
}

// ArrivalDecision is the body of a decision about a stray arrival.
type ArrivalDecision struct {
	Decision string `json:"decision" doc:"CREDITED credits it to the customer or the product of the swap. KEPT leaves it in suspense for good." enum:"CREDITED,KEPT"`
	Note     string `json:"note" doc:"Why, for the audit log: 1 to 1000 bytes." bounds:"minLength=1,maxLength=1000" example:"The late delivery of this swap."`
}

// SwapWriteOff is the result of a request to write a claim off.
type SwapWriteOff struct {
	Status          string    `json:"status" doc:"WRITTEN_OFF: it is done. AWAITING_APPROVAL: another operator has to approve changeRequestId." enum:"WRITTEN_OFF,AWAITING_APPROVAL"`
	ChangeRequestID *string   `json:"changeRequestId"`
	Swap            OwnedSwap `json:"swap" doc:"The swap as it is now."`
}

// SwapProvider is a provider of swaps.
type SwapProvider struct {
	Provider     string        `json:"provider" doc:"The swap provider." example:"ONE_CLICK"`
	State        string        `json:"state" doc:"SUSPENDED: it gets no new swaps until a person resumes it. Its open swaps go on." enum:"ACTIVE,SUSPENDED"`
	Reason       *string       `json:"reason" doc:"Why it was suspended or resumed last; null if it never was."`
	StateAt      *webhook.Time `json:"since" doc:"Since when it is in this state; null if it never changed."`
	ChangedBy    *string       `json:"changedBy" doc:"The kind and the id of who changed it last; null if it never changed." example:"OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	BreakerSince *webhook.Time `json:"breakerSince" doc:"Since when the process that answers does not ask it because it failed too often; null while it does. It recovers by itself."`
	OpenClaims   int           `json:"openClaims" doc:"How many swaps have value with it."`
	OldestPaidAt *webhook.Time `json:"oldestPaidAt" doc:"When the oldest of these was paid; null without one."`

	OutstandingUSD      string  `json:"outstandingUsd" doc:"What is with it, or is about to be paid to it, in dollars by prices of the moment. A claim without a price counts with the value that its swaps had when they were made." form:"decimal" example:"18250.40"`
	OutstandingUnvalued int     `json:"outstandingUnvalued" doc:"How many swaps have no value that could be in outstandingUsd. With a limit, the provider gets no new swaps while there is one."`
	OutstandingUSDMax   *string `json:"outstandingUsdMax" doc:"The limit of the configuration: a swap that would exceed it goes to another provider. Null without a limit." form:"decimal" example:"50000"`
}

// SwapProviders are the providers of swaps.
type SwapProviders struct {
	Data []SwapProvider `json:"data"`
}

// ProviderReason is the body of a suspension or its end.
type ProviderReason struct {
	Reason string `json:"reason" doc:"Why, for the next person: 1 to 500 characters." bounds:"minLength=1,maxLength=500" example:"It reports deliveries that did not arrive."`
}

// OwnedFee is a fee with its organization.
type OwnedFee struct {
	OrganizationID string `json:"organizationId" doc:"The organization that owes it."`
	resource.FeeLine
}

func showSwap(w swap.Swap) OwnedSwap {
	return OwnedSwap{
		OrganizationID: w.OrgID, Kind: string(w.Kind), CustomerSwap: wire.CustomerSwap(w),
		CustomerID: resource.OptionalText(w.CustomerID), Product: resource.OptionalText(w.Product),
		WhitelistedAddressID: resource.OptionalText(w.WhitelistedID),
		ToAddress:            resource.OptionalText(string(w.PayoutAddress)), WithdrawalID: w.PayoutID,
		OpenClaim: w.OpenClaim().String(), WrittenOff: w.Short.String(), PaidAt: webhook.AtOrNil(w.PaidAt),
		PayBy: timeOrNil(w.PayBy), ExpiresAt: timeOrNil(w.ExpiresAt), NextLookAt: webhook.AtOrNil(w.LookAt),
	}
}

// timeOrNil returns nil for no time.
func timeOrNil(t time.Time) *webhook.Time {
	if t.IsZero() {
		return nil
	}
	return new(webhook.At(t))
}

func showSwapDetail(d swap.Detail) SwapDetail {
	shown := SwapDetail{
		OwnedSwap: showSwap(d.Swap), DepositAddress: d.ProviderAddress, DeliveryAddress: string(d.DeliveryAddress),
		RefundAddress: string(d.RefundAddress), Reports: []SwapReport{}, Arrivals: []SwapArrival{},
	}
	for _, r := range d.Reports {
		shown.Reports = append(shown.Reports, SwapReport{
			Number: r.Number, Status: string(r.Status), Word: r.Word, Refund: string(r.Refund), Reason: r.Reason,
			TxHashes: append([]string{}, r.TxHashes...), ReportedAt: webhook.At(r.CreatedAt),
		})
	}
	for _, arrival := range d.Arrivals {
		shown.Arrivals = append(shown.Arrivals, showArrival(arrival))
	}
	return shown
}

func showArrival(a swap.Arrival) SwapArrival {
	return SwapArrival{
		DepositID: a.DepositID, OrganizationID: a.OrgID, SwapID: a.SwapID,
		CustomerID: resource.OptionalText(a.CustomerID), Product: resource.OptionalText(a.Product), Role: a.Role,
		StrayReason: resource.OptionalText(string(a.Reason)), MintID: a.MintID, Symbol: a.Symbol,
		Decimals: a.Decimals, Chain: string(a.Chain), Amount: a.Amount.String(), Address: string(a.Address),
		TxHash: string(a.TxHash), CreatedAt: webhook.At(a.CreatedAt), Decision: a.Decision, Note: a.Note,
		DecidedBy: a.DecidedBy, DecidedAt: webhook.AtOrNil(a.DecidedAt),
	}
}

func showProvider(p swap.ProviderState) SwapProvider {
	shown := SwapProvider{
		Provider: p.Name, State: "ACTIVE", Reason: resource.OptionalText(p.Reason),
		StateAt:   webhook.AtOrNil(p.ChangedAt),
		ChangedBy: resource.OptionalText(p.ChangedBy), BreakerSince: webhook.AtOrNil(p.BrokenSince),
		OpenClaims: p.OpenSwaps, OldestPaidAt: webhook.AtOrNil(p.OldestAt),
		OutstandingUSD: p.Outstanding.USD.String(), OutstandingUnvalued: p.Outstanding.Unvalued,
	}
	if p.OutstandingUSDMax != nil {
		shown.OutstandingUSDMax = new(p.OutstandingUSDMax.String())
	}
	if p.IsSuspended {
		shown.State = "SUSPENDED"
	}
	return shown
}

func (a *api) listAllSwaps(c *call) (kernel.Page[OwnedSwap], error) {
	const list = "swaps of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedSwap]{}, err
	}
	f := swap.OperatorFilter{
		Filter: swap.Filter{
			CustomerID: c.Query["customerId"], Status: c.Query["status"],
			CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		},
		OrgID: c.Query["organizationId"], Provider: c.Query["provider"], Kind: swap.Kind(c.Query["kind"]),
	}
	if open := c.Query.FlagValue("openClaims"); open != nil {
		f.OpenClaims = *open
	}
	found, err := a.conf.Swaps.ListAll(c.Context(), f, p)
	if err != nil {
		return kernel.Page[OwnedSwap]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showSwap), nil
}

func (a *api) getAnySwap(c *call) (SwapDetail, error) {
	d, err := a.conf.Swaps.ByIDForOperator(c.Context(), c.PathParam("swapId"))
	if err != nil {
		return SwapDetail{}, err
	}
	return showSwapDetail(d), nil
}

func (a *api) lookAtSwap(c *call) (OwnedSwap, error) {
	w, err := a.conf.Swaps.LookNow(c.Context(), c.PathParam("swapId"), c.Caller.Actor())
	if err != nil {
		return OwnedSwap{}, err
	}
	return showSwap(w), nil
}

func (a *api) failSwap(c *call, body SwapNote) (OwnedSwap, error) {
	w, err := a.conf.Swaps.Fail(c.Context(), c.PathParam("swapId"), body.Note, c.Caller.Actor())
	if err != nil {
		return OwnedSwap{}, err
	}
	return showSwap(w), nil
}

func (a *api) writeOffSwap(c *call, body SwapNote) (SwapWriteOff, error) {
	var outcome swap.WriteOffOutcome
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = a.conf.Swaps.RequestWriteOff(ctx, tx, c.Caller.Key, a.conf.FourEyes, c.PathParam("swapId"),
			body.Note)
		return err
	})
	if err != nil {
		return SwapWriteOff{}, err
	}
	shown := SwapWriteOff{Status: "WRITTEN_OFF", Swap: showSwap(outcome.Swap)}
	if outcome.PendingChange != nil {
		shown.Status, shown.ChangeRequestID = awaitingApproval, &outcome.PendingChange.ID
	}
	return shown, nil
}

func (a *api) listStrays(c *call) (kernel.Page[SwapArrival], error) {
	const list = "stray arrivals"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[SwapArrival]{}, err
	}
	open := c.Query.FlagValue("open")
	found, err := a.conf.Swaps.ListStrays(c.Context(), open != nil && *open, p)
	if err != nil {
		return kernel.Page[SwapArrival]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showArrival), nil
}

func (a *api) decideArrival(c *call, body ArrivalDecision) (SwapArrival, error) {
	decided, err := a.conf.Swaps.DecideArrival(c.Context(), c.PathParam("depositId"),
		swap.ArrivalDecision(body.Decision), body.Note, c.Caller.Actor())
	if err != nil {
		return SwapArrival{}, err
	}
	return showArrival(decided), nil
}

func (a *api) listProviders(c *call) (SwapProviders, error) {
	shown := SwapProviders{Data: []SwapProvider{}}
	found, err := a.conf.Swaps.ListProviders(c.Context())
	for _, p := range found {
		shown.Data = append(shown.Data, showProvider(p))
	}
	return shown, err
}

// changeProvider suspends or resumes the provider that the path names, and answers with it.
func (a *api) changeProvider(
	change func(s *swap.Service, ctx context.Context, name, reason string, operator audit.Actor) error,
) func(*call, ProviderReason) (SwapProvider, error) {
	return func(c *call, body ProviderReason) (SwapProvider, error) {
		name := c.PathParam("provider")
		if err := change(a.conf.Swaps, c.Context(), name, body.Reason, c.Caller.Actor()); err != nil {
			return SwapProvider{}, err
		}
		found, err := a.conf.Swaps.ListProviders(c.Context())
		for _, p := range found {
			if p.Name == name {
				return showProvider(p), nil
			}
		}
		return SwapProvider{Provider: name}, err
	}
}

func (a *api) listAllFees(c *call) (kernel.Page[OwnedFee], error) {
	const list = "fees of all"
	f, err := resource.ReadFeeFilter(c.Query, c.Query["organizationId"])
	if err != nil {
		return kernel.Page[OwnedFee]{}, err
	}
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedFee]{}, err
	}
	var found pagination.Result[fee.Line]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = fee.List(ctx, tx, f, p)
		return err
	})
	if err != nil {
		return kernel.Page[OwnedFee]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showFee), nil
}

func showFee(l fee.Line) OwnedFee { return OwnedFee{l.OrgID, resource.ShowFee(l)} }

func (a *api) exportFees(c *call) (kernel.Rows[OwnedFee], error) {
	f, err := resource.ReadFeeFilter(c.Query, c.Query["organizationId"])
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, desc bool, row func(OwnedFee) error) error {
		return a.conf.DB.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
			return fee.ForEach(ctx, tx, f, desc, func(l fee.Line) error { return row(showFee(l)) })
		})
	}, nil
}

// feeColumns are the columns of the operator's table of fees.
var feeColumns = func() []kernel.Column[OwnedFee] {
	columns := []kernel.Column[OwnedFee]{
		{Name: "organizationId", Cell: func(l OwnedFee) string { return l.OrganizationID }},
	}
	for _, column := range resource.FeeColumns {
		columns = append(columns, kernel.Column[OwnedFee]{
			Name: column.Name, Cell: func(l OwnedFee) string { return column.Cell(l.FeeLine) },
		})
	}
	return columns
}()

func (a *api) operatorSwapRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/swaps", Name: "listSwaps", Action: identity.ReadInstallation,
			Group:   "Swaps",
			Summary: "List swaps of all organizations",
			Text: "Swaps of customers, and swaps of organizations' own money, finished and unfinished, each with " +
				"what its provider still owes.",
			Query: kernel.ListParameters(organizationFilter, resource.CustomerFilter,
				kernel.Parameter{
					Name: "kind", Kind: kernel.WordParameter,
					Enum: []string{string(swap.CustomerSwap), string(swap.OrganizationSwap)},
					Text: "Only swaps of customers, or only those of organizations' own money.",
				},
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.OrganizationSwapStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "provider", Kind: kernel.TextParameter, Max: 64, Text: "Only through this swap provider.",
				},
				kernel.Parameter{
					Name: "openClaims", Kind: kernel.FlagParameter,
					Text: "true: only swaps of which the provider has value that is neither delivered, refunded nor " +
						"written off.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of swaps."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listAllSwaps, kernel.ExamplePage(exampleOwnedSwap)),
		},
		{
			Method: http.MethodGet, Path: "/swaps/{swapId}", Name: "getSwap", Action: identity.ReadInstallation,
			Group:   "Swaps",
			Summary: "Read a swap",
			Text: "One swap of any organization, with the addresses that its provider knows, what the provider " +
				"reported and what arrived. The service checks that the signer attested both of its own addresses.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The swap."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getAnySwap, exampleSwapDetail),
		},
		{
			Method: http.MethodPost, Path: "/swaps/{swapId}/look", Name: "lookAtSwap", Action: identity.LookAtSwap,
			Group:   "Swaps",
			Summary: "Look at a swap now",
			Text: "Has the service ask the provider about the swap at once, instead of at nextLookAt. It decides " +
				"nothing. GET /swaps/{swapId} shows a new report some seconds later.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The swap."}},
			Faults:    []fault.Code{fault.CodeNotFound},
			Handler:   kernel.Handle(a.lookAtSwap, exampleOwnedSwap),
		},
		{
			Method: http.MethodPost, Path: "/swaps/{swapId}/fail", Name: "failSwap", Action: identity.FailSwap,
			Group:   "Swaps",
			Summary: "End a swap as failed",
			Text: "Ends a swap that makes no progress, and sends CUSTOMER_SWAP_FAILED, or ORGANIZATION_SWAP_FAILED " +
				"for a swap of an organization's own money. It is refused before " +
				"expiresAt, and while the payment is final for less than swaps.stuck_after of the configuration. The " +
				"claim on the provider stays open: a refund that arrives later is counted, and a later delivery is a " +
				"stray arrival.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The swap, now FAILED."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.failSwap, exampleSwapNote, exampleFailedSwap),
		},
		{
			Method: http.MethodPost, Path: "/swaps/{swapId}/write-off", Name: "writeOffSwap",
			Action: identity.WriteOffSwap, Group: "Swaps",
			Summary: "Write off what a provider owes",
			Text: "Gives up the open claim of a failed swap. The amount that is held for the customer ends with it, " +
				"and the customer gets nothing: the organization may pay its customer from a balance of its own. If " +
				"the installation requires four eyes, the claim stays until another operator approves " +
				"changeRequestId. A repeated call returns the request that waits.",
			Answers: []kernel.Success{{
				Status: http.StatusOK, Text: "The result, or the change request that waits for a second operator.",
			}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused},
			Handler: kernel.HandleBody(a.writeOffSwap, exampleSwapNote, exampleWriteOff),
		},
		{
			Method: http.MethodGet, Path: "/swap-arrivals", Name: "listSwapArrivals",
			Action: identity.ReadInstallation, Group: "Swaps",
			Summary: "List stray arrivals",
			Text: "Final arrivals at addresses of swaps that no open swap expects: a delivery after the failure, " +
				"another asset, too much. They are in suspense until a person decides.",
			Query: []kernel.Parameter{
				{
					Name: "open", Kind: kernel.FlagParameter,
					Text: "true: only those about which no person has decided.",
				},
				kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of stray arrivals."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listStrays, kernel.ExamplePage(exampleArrival)),
		},
		{
			Method: http.MethodPost, Path: "/swap-arrivals/{depositId}/decide", Name: "decideSwapArrival",
			Action: identity.DecideSwapArrival, Group: "Swaps",
			Summary: "Decide about a stray arrival",
			Text: "CREDITED credits the arrival to the customer of its swap, and CUSTOMER_DEPOSIT announces it; " +
				"that of an organization's own swap to the product of the swap, and ORGANIZATION_DEPOSIT announces " +
				"it. If it is the late delivery of a failed swap of which nothing came back, it also ends the " +
				"claim on the provider. KEPT leaves it in suspense. The decision is final.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The arrival, with the decision."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.decideArrival,
				ArrivalDecision{"CREDITED", "The late delivery of this swap."}, exampleDecidedArrival),
		},
		{
			Method: http.MethodGet, Path: "/swap-providers", Name: "listSwapProviders",
			Action: identity.ReadInstallation, Group: "Swaps",
			Summary: "List the swap providers",
			Text:    "Every provider that the configuration names or that has swaps, and what is with it.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The providers."}},
			Handler: kernel.Handle(a.listProviders, SwapProviders{[]SwapProvider{exampleProvider}}),
		},
		{
			Method: http.MethodPost, Path: "/swap-providers/{provider}/suspend", Name: "suspendSwapProvider",
			Action: identity.ManageSwapProviders, Group: "Swaps",
			Summary: "Suspend a swap provider",
			Text: "Gives the provider no new swaps until a person resumes it. Its open swaps go on. A provider that " +
				"is suspended keeps its first reason.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The provider, now SUSPENDED."}},
			Faults:    []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.changeProvider((*swap.Service).SuspendProvider),
				ProviderReason{"It reports deliveries that did not arrive."}, exampleSuspended),
		},
		{
			Method: http.MethodPost, Path: "/swap-providers/{provider}/resume", Name: "resumeSwapProvider",
			Action: identity.ManageSwapProviders, Group: "Swaps",
			Summary: "Resume a swap provider",
			Text: "Gives the provider new swaps again. The service suspends a provider by itself when an answer of " +
				"it cannot be trusted: find out why before you resume it.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The provider, now ACTIVE."}},
			Faults:    []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.changeProvider((*swap.Service).ResumeProvider),
				ProviderReason{"Its key was rolled, and the configuration has the new one."}, exampleProvider),
		},
		{
			Method: http.MethodGet, Path: "/billing/fees", Name: "listFees", Action: identity.ReadInstallation,
			Group:   "Swaps",
			Summary: "List the fees that organizations owe",
			Text: "One row for each completed swap and for each network fee, with its value in dollars at that " +
				"time. A failed swap has no row, and no balance pays a fee. " +
				"With Accept: text/csv the call returns all rows of the " +
				"filters as one table, as of one moment, without limit and cursor. If the table breaks off, the " +
				"connection ends without the end of the answer.",
			Query:   resource.FeeParameters(organizationFilter),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of fees."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listAllFees,
				kernel.ExamplePage(OwnedFee{resource.ExampleOrganizationID, resource.ExampleFee})),
			Table: kernel.ExportTable("fees", feeColumns, a.exportFees),
		},
	}
}

var (
	exampleSwapNote  = SwapNote{"The provider confirmed that it refunds by hand, ticket 4711."}
	exampleOwnedSwap = OwnedSwap{
		OrganizationID: resource.ExampleOrganizationID, Kind: string(swap.CustomerSwap),
		CustomerSwap: resource.ExampleSwap, CustomerID: &resource.ExampleSwap.CustomerID, OpenClaim: "0",
		WrittenOff: "0", PayBy: &resource.ExampleAt, ExpiresAt: &resource.ExampleAt, NextLookAt: &resource.ExampleAt,
	}
	exampleFailedSwap = func() OwnedSwap {
		w := exampleOwnedSwap
		w.Status, w.FailureReason = "FAILED", new("UNKNOWN")
		w.FailureMessage, w.OriginTxHash = new("The operator of this service ended it."), new(resource.ExampleHash)
		w.PaidAt, w.OpenClaim = &resource.ExampleAt, w.AmountIn
		return w
	}()
	exampleWriteOff = func() SwapWriteOff {
		w := exampleFailedSwap
		w.OpenClaim, w.WrittenOff, w.NextLookAt = "0", w.AmountIn, nil
		return SwapWriteOff{Status: "WRITTEN_OFF", Swap: w}
	}()
	exampleSwapDetail = SwapDetail{
		OwnedSwap: exampleOwnedSwap, DepositAddress: resource.ExampleHolder,
		DeliveryAddress: resource.ExampleDestination, RefundAddress: resource.ExampleDestination,
		Reports: []SwapReport{{
			Number: 1, Status: "WAITING", Word: "PENDING_DEPOSIT", Refund: "NONE", TxHashes: []string{},
			ReportedAt: resource.ExampleAt,
		}},
		Arrivals: []SwapArrival{},
	}
	exampleArrival = SwapArrival{
		DepositID: resource.ExampleDeposit.DepositID, OrganizationID: resource.ExampleOrganizationID,
		SwapID: resource.ExampleSwapID, CustomerID: new("user_42"), Role: "STRAY",
		StrayReason: new(string(swap.AfterEnd)),
		MintID:      1, Symbol: "USDC", Decimals: 6, Chain: "ETHEREUM", Amount: "149250000",
		Address: resource.ExampleDestination, TxHash: resource.ExampleHash, CreatedAt: resource.ExampleAt,
	}
	exampleDecidedArrival = func() SwapArrival {
		a := exampleArrival
		a.Decision, a.Note = new("CREDITED"), new("The late delivery of this swap.")
		a.DecidedBy, a.DecidedAt = new("OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"), &resource.ExampleAt
		return a
	}()
	exampleProvider = SwapProvider{
		Provider: "ONE_CLICK", State: "ACTIVE", OpenClaims: 3, OutstandingUSD: "18250.40",
		OutstandingUSDMax: new("50000"),
	}
	exampleSuspended = SwapProvider{
		Provider: "ONE_CLICK", State: "SUSPENDED", Reason: new("It reports deliveries that did not arrive."),
		StateAt: &resource.ExampleAt, ChangedBy: new("OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"), OutstandingUSD: "0",
	}
)
