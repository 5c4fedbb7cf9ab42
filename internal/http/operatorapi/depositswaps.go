package operatorapi

import (
	"net/http"

	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// OwnedDepositSwap is a deposit swap with its organization.
type OwnedDepositSwap struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	webhook.DepositSwap
	Payers      []string `json:"payers" doc:"Who paid the provider, as far as it is known. Screening asks about them."`
	PayerSource *string  `json:"payerSource" doc:"OWN_NODE: a node of this service read them from the origin transaction. PROVIDER: the provider reported them. null while they are not known." example:"OWN_NODE"`
}

func showDepositSwap(d depositswap.DepositSwap) OwnedDepositSwap {
	payers, source := d.Payers()
	shown := OwnedDepositSwap{
		OrganizationID: d.OrgID, DepositSwap: wire.DepositSwap(d), Payers: []string{},
		PayerSource: resource.OptionalText(string(source)),
	}
	for _, payer := range payers {
		shown.Payers = append(shown.Payers, string(payer))
	}
	return shown
}

func (a *api) depositSwapRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/deposit-swaps", Name: "listDepositSwaps",
			Action: identity.ReadInstallation, Group: "Swaps",
			Summary: "List deposit swaps of all organizations",
			Text: "Addresses of swap providers that customers pay in other tokens. A deposit swap puts nothing of " +
				"this service at risk: what arrives is a deposit, and what does not arrive was never here.",
			Query: kernel.ListParameters(organizationFilter, resource.CustomerFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.DepositSwapStatuses,
					Text: "Only in this status.",
				},
				kernel.Parameter{
					Name: "provider", Kind: kernel.TextParameter, Max: 64, Text: "Only through this swap provider.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of deposit swaps."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listDepositSwaps, kernel.ExamplePage(exampleOwnedDepositSwap)),
		},
		{
			Method: http.MethodGet, Path: "/deposit-swaps/{depositSwapId}", Name: "getDepositSwap",
			Action: identity.ReadInstallation, Group: "Swaps",
			Summary: "Read a deposit swap",
			Text: "One deposit swap of any organization. The service checks the provider's signature of the " +
				"address, and that the signer attested the wallet to which the provider delivers.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The deposit swap."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getDepositSwap, exampleOwnedDepositSwap),
		},
	}
}

func (a *api) listDepositSwaps(c *call) (kernel.Page[OwnedDepositSwap], error) {
	const list = "deposit swaps of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedDepositSwap]{}, err
	}
	found, err := a.conf.DepositSwaps.ListAll(c.Context(), depositswap.OperatorFilter{
		Filter: depositswap.Filter{
			CustomerID: c.Query["customerId"], Status: c.Query["status"],
			CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		},
		OrgID: c.Query["organizationId"], Provider: c.Query["provider"],
	}, p)
	if err != nil {
		return kernel.Page[OwnedDepositSwap]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showDepositSwap), nil
}

func (a *api) getDepositSwap(c *call) (OwnedDepositSwap, error) {
	d, err := a.conf.DepositSwaps.ByIDForOperator(c.Context(), c.PathParam("depositSwapId"))
	if err != nil {
		return OwnedDepositSwap{}, err
	}
	return showDepositSwap(d), nil
}

var exampleOwnedDepositSwap = OwnedDepositSwap{
	OrganizationID: resource.ExampleOrganizationID, DepositSwap: resource.ExampleDepositSwap, Payers: []string{},
}
