package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

// LocalRiskOrder is the body of PUT /local-risk/{address}.
type LocalRiskOrder struct {
	Severity   *string  `json:"severity,omitempty"`
	Score      *int     `json:"score,omitempty"`
	Entity     *string  `json:"entity,omitempty"`
	Categories []string `json:"categories,omitempty"`
	Outage     *bool    `json:"outage,omitempty"`
}

// LocalRisk is an entry of the local list for an address.
type LocalRisk struct {
	Address    string       `json:"address"`
	Outage     bool         `json:"outage"`
	Severity   *string      `json:"severity"`
	Score      *int         `json:"score"`
	Entity     *string      `json:"entity"`
	Categories []string     `json:"categories"`
	CreatedAt  webhook.Time `json:"createdAt"`
	UpdatedAt  webhook.Time `json:"updatedAt"`
}

// localSeverities are the severities that the local list accepts: those that a provider can return.
var localSeverities = append([]string{string(risk.Unknown)}, severities...)

func showLocalRisk(e risk.LocalListEntry) LocalRisk {
	shown := LocalRisk{
		Address: e.Address, Outage: e.Outage, Severity: optionalText(string(e.Severity)), Score: e.Score,
		Entity: optionalText(e.Entity), Categories: e.Categories,
		CreatedAt: webhook.At(e.CreatedAt), UpdatedAt: webhook.At(e.UpdatedAt),
	}
	if shown.Categories == nil {
		shown.Categories = []string{}
	}
	return shown
}

func (a *api) setLocalRisk(c *call) (answer, error) {
	var body LocalRiskOrder
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	if !a.localRisk {
		return answer{}, fault.New(fault.Forbidden, fault.FeatureDisabled, fault.NothingWritten,
			"This installation does not use the local list, so an entry would have no effect.").
			WithAdvice("Add the local list to risk.providers in the configuration; a main network does not allow it.")
	}
	e := risk.LocalListEntry{Address: c.pathParam("address"), Score: body.Score, Categories: body.Categories}
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
		set, err = risk.SetLocalEntry(ctx, tx, a.conf.Chains, c.operator.Actor(), e)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showLocalRisk(set)}, nil
}

func (a *api) getLocalRisk(c *call) (answer, error) {
	var found risk.LocalListEntry
	err := a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = risk.LoadLocalEntry(ctx, tx, c.pathParam("address"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showLocalRisk(found)}, nil
}

func (a *api) clearLocalRisk(c *call) (answer, error) {
	var removed risk.LocalListEntry
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		removed, err = risk.DeleteLocalEntry(ctx, tx, c.operator.Actor(), c.pathParam("address"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showLocalRisk(removed)}, nil
}

func (a *api) listLocalRisk(c *call) (answer, error) {
	const list = "local risk"
	p, err := a.readPage(c, list)
	if err != nil {
		return answer{}, err
	}
	var found pagination.Result[risk.LocalListEntry]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = risk.ListLocalEntries(ctx, tx, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: newPage(a, c, list, found, showLocalRisk)}, nil
}

// localRiskRoutes are the calls for the local list, which only networks without real money have.
var localRiskRoutes = []route{
	{
		method: http.MethodPut, path: "/local-risk/{address}", name: "setLocalRisk", action: identity.EditLocalRisk,
		group:   "Screening",
		summary: "Set what screening answers for an address",
		text: "Adds an address to the local list, or replaces its entry: a severity with its details, or an " +
			"outage alone. From the next screening on, the list answers with this entry on every chain that has " +
			"addresses of this form. An installation that does not use the list answers 403 FEATURE_DISABLED; a main " +
			"network never uses it. An address that no configured chain can parse is refused with 400 " +
			"INVALID_ADDRESS.",
		body: LocalRiskOrder{}, retryable: true,
		answers: []success{{http.StatusOK, "The entry.", LocalRisk{}, exampleLocalRisk, nil}},
		faults:  []fault.Code{fault.FeatureDisabled, fault.InvalidAddress},
		handle:  (*api).setLocalRisk,
	},
	{
		method: http.MethodGet, path: "/local-risk", name: "listLocalRisk", action: identity.ReadInstallation,
		group:   "Screening",
		summary: "List the local list",
		text:    "What screening answers, by address. An address without an entry is LOW.",
		query:   listParameters(),
		answers: []success{
			{http.StatusOK, "A page of entries.", Page[LocalRisk]{}, examplePage(exampleLocalRisk), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listLocalRisk,
	},
	{
		method: http.MethodGet, path: "/local-risk/{address}", name: "getLocalRisk", action: identity.ReadInstallation,
		group:   "Screening",
		summary: "Read an entry of the local list",
		text:    "One entry. For an address without an entry the call answers 404, and screening answers LOW.",
		answers: []success{{http.StatusOK, "The entry.", LocalRisk{}, exampleLocalRisk, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getLocalRisk,
	},
	{
		method: http.MethodDelete, path: "/local-risk/{address}", name: "clearLocalRisk",
		action: identity.EditLocalRisk, group: "Screening",
		summary: "Remove an address from the local list", text: "From now on screening answers LOW for it.",
		answers: []success{{http.StatusOK, "The removed entry.", LocalRisk{}, exampleLocalRisk, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).clearLocalRisk,
	},
}

var exampleLocalRisk = LocalRisk{
	Address: "0x098B716B8Aaf21512996dC57EB0615e2383E2f96", Severity: pointerTo("SEVERE"), Score: pointerTo(98),
	Entity:     pointerTo("OFAC SDN: Lazarus Group"),
	Categories: []string{"SANCTIONS"}, CreatedAt: exampleAt, UpdatedAt: exampleAt,
}

// localRiskFieldDocs are the document's texts about the local list.
var localRiskFieldDocs = map[string]fieldDoc{
	"LocalRisk.":     {text: "An entry of the local list."},
	"LocalRiskPage.": {text: "A page of the local list."},
	"LocalRiskOrder.": {
		text: "An entry for the local list: a severity with its details, or an outage alone.",
	},
	"LocalRisk.address": {text: "The address, as the caller wrote it.", example: exampleLocalRisk.Address},
	"LocalRisk.outage":  {text: "Whether screening has no answer for the address, as when a provider is down."},
	"LocalRiskOrder.outage": {text: "Whether screening shall have no answer for the address; then the entry has no " +
		"other field."},
	"LocalRisk.severity": {
		text: "What screening answers; null with an outage. UNKNOWN: the provider does not know the address.",
		enum: localSeverities,
	},
	"LocalRiskOrder.severity": {
		text: "What screening shall answer. UNKNOWN: the provider does not know the address.",
		enum: localSeverities,
	},
	"LocalRisk.score": {
		text: "From 0 to 100; null without a score.", bounds: map[string]any{"minimum": 0, "maximum": 100},
	},
	"LocalRiskOrder.score": {text: "From 0 to 100.", bounds: map[string]any{"minimum": 0, "maximum": 100}},
	"LocalRisk.entity":     {text: "The owner of the address; null when no owner is named."},
	"LocalRiskOrder.entity": {
		text:   "The owner of the address, 1 to 200 bytes of printable text.",
		bounds: map[string]any{"minLength": 1, "maxLength": 200},
	},
	"LocalRisk.categories": {text: "What the address is known for."},
	"LocalRiskOrder.categories": {
		text:   "What the address is known for: at most 20 categories, each 1 to 100 bytes of printable text.",
		bounds: map[string]any{"maxItems": 20},
	},
	"LocalRisk.createdAt": {text: "When the entry was made."},
	"LocalRisk.updatedAt": {text: "When the entry last changed."},
}

var localRiskExamples = map[string]any{
	"setLocalRisk": json.RawMessage(
		`{"severity":"SEVERE","score":98,"entity":"OFAC SDN: Lazarus Group","categories":["SANCTIONS"]}`,
	),
}
