package operatorapi

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

// LocalRiskOrder is the body of PUT /local-risk/{address}.
type LocalRiskOrder struct {
	Severity   *string  `json:"severity,omitempty" doc:"What screening shall answer. UNKNOWN: the provider does not know the address."`
	Score      *int     `json:"score,omitempty" doc:"From 0 to 100." bounds:"minimum=0,maximum=100"`
	Entity     *string  `json:"entity,omitempty" doc:"The owner of the address, 1 to 200 bytes of printable text." bounds:"minLength=1,maxLength=200"`
	Categories []string `json:"categories,omitempty" doc:"What the address is known for: at most 20 categories, each 1 to 100 bytes of printable text." bounds:"maxItems=20"`
	Outage     *bool    `json:"outage,omitempty" doc:"Whether screening shall have no answer for the address; then the entry has no other field."`
}

// LocalRisk is an entry of the local list for an address.
type LocalRisk struct {
	Address    string       `json:"address" doc:"The address, as the caller wrote it."`
	Outage     bool         `json:"outage" doc:"Whether screening has no answer for the address, as when a provider is down."`
	Severity   *string      `json:"severity" doc:"What screening answers; null with an outage. UNKNOWN: the provider does not know the address."`
	Score      *int         `json:"score" doc:"From 0 to 100; null without a score." bounds:"minimum=0,maximum=100"`
	Entity     *string      `json:"entity" doc:"The owner of the address; null when no owner is named."`
	Categories []string     `json:"categories" doc:"What the address is known for."`
	CreatedAt  webhook.Time `json:"createdAt" doc:"When the entry was made."`
	UpdatedAt  webhook.Time `json:"updatedAt" doc:"When the entry last changed."`
}

// localSeverities are the severities that the local list accepts: those that a provider can return.
var localSeverities = append([]string{string(risk.Unknown)}, resource.Severities...)

func showLocalRisk(e risk.LocalListEntry) LocalRisk {
	shown := LocalRisk{
		Address: e.Address, Outage: e.Outage, Severity: resource.OptionalText(string(e.Severity)), Score: e.Score,
		Entity: resource.OptionalText(e.Entity), Categories: e.Categories,
		CreatedAt: webhook.At(e.CreatedAt), UpdatedAt: webhook.At(e.UpdatedAt),
	}
	if shown.Categories == nil {
		shown.Categories = []string{}
	}
	return shown
}

func (a *api) setLocalRisk(c *call, body LocalRiskOrder) (LocalRisk, error) {
	if !a.conf.LocalRisk {
		return LocalRisk{}, fault.New(fault.Forbidden, fault.FeatureDisabled, fault.NothingWritten,
			"This installation does not use the local list, so an entry would have no effect.").
			WithAdvice("Add the local list to risk.providers in the configuration; a main network does not allow it.")
	}
	e := risk.LocalListEntry{Address: c.PathParam("address"), Score: body.Score, Categories: body.Categories}
	if body.Outage != nil {
		e.Outage = *body.Outage
	}
	if body.Severity != nil {
		e.Severity = risk.Severity(*body.Severity)
	}
	if body.Entity != nil {
		e.Entity = *body.Entity
	}
	var set risk.LocalListEntry
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		set, err = risk.SetLocalEntry(ctx, tx, a.conf.Chains, c.Caller.Actor(), e)
		return err
	})
	if err != nil {
		return LocalRisk{}, err
	}
	return showLocalRisk(set), nil
}

func (a *api) getLocalRisk(c *call) (LocalRisk, error) {
	var found risk.LocalListEntry
	err := a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = risk.LoadLocalEntry(ctx, tx, c.PathParam("address"))
		return err
	})
	if err != nil {
		return LocalRisk{}, err
	}
	return showLocalRisk(found), nil
}

func (a *api) clearLocalRisk(c *call) (LocalRisk, error) {
	var removed risk.LocalListEntry
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		removed, err = risk.DeleteLocalEntry(ctx, tx, c.Caller.Actor(), c.PathParam("address"))
		return err
	})
	if err != nil {
		return LocalRisk{}, err
	}
	return showLocalRisk(removed), nil
}

func (a *api) listLocalRisk(c *call) (kernel.Page[LocalRisk], error) {
	const list = "local risk"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[LocalRisk]{}, err
	}
	var found pagination.Result[risk.LocalListEntry]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = risk.ListLocalEntries(ctx, tx, p)
		return err
	})
	if err != nil {
		return kernel.Page[LocalRisk]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showLocalRisk), nil
}

// localRiskRoutes are the calls for the local list, which only networks without real money have.
func (a *api) localRiskRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPut, Path: "/local-risk/{address}", Name: "setLocalRisk", Action: identity.EditLocalRisk,
			Group:   "Screening",
			Summary: "Set what screening answers for an address",
			Text: "Adds an address to the local list, or replaces its entry: a severity with its details, or an " +
				"outage alone. From the next screening on, the list answers with this entry on every chain that has " +
				"addresses of this form. An installation that does not use the list answers 403 FEATURE_DISABLED; a " +
				"main " +
				"network never uses it. An address that no configured chain can parse is refused with 400 " +
				"INVALID_ADDRESS.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The entry."}},
			Faults:    []fault.Code{fault.FeatureDisabled, fault.InvalidAddress},
			Handler: kernel.HandleBody(a.setLocalRisk,
				LocalRiskOrder{
					Severity: new("SEVERE"), Score: new(98), Entity: new("OFAC SDN: Lazarus Group"),
					Categories: []string{"SANCTIONS"},
				},
				exampleLocalRisk,
			),
		},
		{
			Method: http.MethodGet, Path: "/local-risk", Name: "listLocalRisk", Action: identity.ReadInstallation,
			Group:   "Screening",
			Summary: "List the local list",
			Text:    "What screening answers, by address. An address without an entry is LOW.",
			Query:   kernel.ListParameters(),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of entries."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listLocalRisk, kernel.ExamplePage(exampleLocalRisk)),
		},
		{
			Method: http.MethodGet, Path: "/local-risk/{address}", Name: "getLocalRisk",
			Action:  identity.ReadInstallation,
			Group:   "Screening",
			Summary: "Read an entry of the local list",
			Text:    "One entry. For an address without an entry the call answers 404, and screening answers LOW.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The entry."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getLocalRisk, exampleLocalRisk),
		},
		{
			Method: http.MethodDelete, Path: "/local-risk/{address}", Name: "clearLocalRisk",
			Action: identity.EditLocalRisk, Group: "Screening",
			Summary: "Remove an address from the local list", Text: "From now on screening answers LOW for it.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The removed entry."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.clearLocalRisk, exampleLocalRisk),
		},
	}
}

var exampleLocalRisk = LocalRisk{
	Address: "0x098B716B8Aaf21512996dC57EB0615e2383E2f96", Severity: new("SEVERE"), Score: new(98),
	Entity:     new("OFAC SDN: Lazarus Group"),
	Categories: []string{"SANCTIONS"}, CreatedAt: resource.ExampleAt, UpdatedAt: resource.ExampleAt,
}
