package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/seal"
	"github.com/cofferpay/coffer/webhook"
)

// EndpointRequest is the body of POST /webhook-endpoints.
type EndpointRequest struct {
	URL         string    `json:"url"`
	Events      *[]string `json:"events,omitempty"`
	Description *string   `json:"description,omitempty"`
}

// Endpoint is where events are sent.
type Endpoint struct {
	EndpointID  string       `json:"endpointId"`
	URL         string       `json:"url"`
	Events      []string     `json:"events"`
	Description string       `json:"description"`
	Status      string       `json:"status"`
	APIVersion  string       `json:"apiVersion"`
	CreatedAt   webhook.Time `json:"createdAt"`
	UpdatedAt   webhook.Time `json:"updatedAt"`
}

// EndpointWithSecret is a new endpoint: the only time its secret is shown.
type EndpointWithSecret struct {
	Endpoint
	Secret string `json:"secret"`
}

func showEndpoint(e delivery.Endpoint) Endpoint {
	out := Endpoint{
		EndpointID: e.ID, URL: e.URL, Events: []string{}, Description: e.Description, Status: e.Status,
		APIVersion: e.APIVersion, CreatedAt: webhook.At(e.CreatedAt), UpdatedAt: webhook.At(e.UpdatedAt),
	}
	for _, t := range e.Events {
		out.Events = append(out.Events, string(t))
	}
	return out
}

func (a *api) createEndpoint(c *call) (answer, error) {
	var body EndpointRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	wanted := delivery.New{URL: body.URL}
	if body.Description != nil {
		wanted.Description = *body.Description
	}
	if body.Events != nil {
		for _, name := range *body.Events {
			wanted.Events = append(wanted.Events, event.Type(name))
		}
	}
	var made delivery.Endpoint
	var secret seal.Secret
	err := a.conf.DB.InOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		made, secret, err = a.conf.Endpoints.Create(ctx, tx, c.org, audit.APIKey(c.org), wanted)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: EndpointWithSecret{showEndpoint(made), secret.Reveal()}}, nil
}

func (a *api) listEndpoints(c *call) (answer, error) {
	p, err := a.place(c, "webhook-endpoints")
	if err != nil {
		return answer{}, err
	}
	var found page.Result[delivery.Endpoint]
	err = a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = a.conf.Endpoints.List(ctx, tx, c.org, p)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: listed(a, c, "webhook-endpoints", found, showEndpoint)}, nil
}

func (a *api) getEndpoint(c *call) (answer, error) {
	var found delivery.Endpoint
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = a.conf.Endpoints.ByID(ctx, tx, c.org, c.param("endpointId"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showEndpoint(found)}, nil
}

func (a *api) deleteEndpoint(c *call) (answer, error) {
	err := a.conf.DB.InOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) error {
		return a.conf.Endpoints.Delete(ctx, tx, c.org, audit.APIKey(c.org), c.param("endpointId"))
	})
	return answer{status: http.StatusNoContent}, err
}
