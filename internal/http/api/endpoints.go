package api

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// EndpointRequest is the body of POST /webhook-endpoints.
type EndpointRequest struct {
	URL         string           `json:"url" doc:"The URL to which events are posted: HTTPS, and no address inside a private network." bounds:"minLength=1,maxLength=2048" example:"https://example.com/hooks/coffer"`
	Events      *[]string        `json:"events,omitempty" doc:"The events that the endpoint shall receive. Empty or left out: the seven events of the interface and no extension. * alone: all events, including later ones."`
	Description *string          `json:"description,omitempty" bounds:"maxLength=500"`
	Filters     *EndpointFilters `json:"filters,omitempty"`
}

// EndpointChange is the body of PATCH /webhook-endpoints/{endpointId}.
type EndpointChange struct {
	URL         *string          `json:"url,omitempty" doc:"The new URL to which events are posted: HTTPS, and no address inside a private network." bounds:"minLength=1,maxLength=2048" example:"https://example.com/hooks/coffer"`
	Events      *[]string        `json:"events,omitempty" doc:"The events that the endpoint shall receive. Empty: the seven events of the interface and no extension. * alone: all events, including later ones."`
	Description *string          `json:"description,omitempty" bounds:"maxLength=500"`
	Filters     *EndpointFilters `json:"filters,omitempty"`
	Status      *string          `json:"status,omitempty" doc:"ENABLED or PAUSED." enum:"ENABLED,PAUSED"`
}

// EndpointFilters are an endpoint's filters in a request.
type EndpointFilters struct {
	CustomerID *string `json:"customerId,omitempty" doc:"Only events that concern this customer, compared byte for byte; of transfers, those that the customer pays." bounds:"minLength=1,maxLength=128" example:"user_42"`
	Chain      *string `json:"chain,omitempty" doc:"Only events of this chain." example:"ETHEREUM"`
}

// Filters are an endpoint's filters in an answer; they exclude events.
type Filters struct {
	CustomerID *string `json:"customerId" doc:"Only events that concern this customer; of transfers, those that the customer pays; null: all." example:"user_42"`
	Chain      *string `json:"chain" doc:"Only events of this chain; null: all." example:"ETHEREUM"`
}

// Endpoint is a URL to which events are sent.
type Endpoint struct {
	EndpointID   string        `json:"endpointId"`
	URL          string        `json:"url" doc:"The URL to which events are posted: HTTPS, and no address inside a private network." format:"uri" example:"https://example.com/hooks/coffer"`
	Events       []string      `json:"events" doc:"The events that the endpoint receives. Empty means the seven events of the interface and no extension. * alone means all events, including later ones."`
	Description  string        `json:"description"`
	Filters      Filters       `json:"filters"`
	Status       string        `json:"status" doc:"ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE." enum:"ENABLED,PAUSED,DISABLED_GONE,DISABLED_BY_FAILURE"`
	FailingSince *webhook.Time `json:"failingSince" doc:"The first failed attempt since the last success; null when the last attempt succeeded. After five days of failures the endpoint is DISABLED_BY_FAILURE."`
	APIVersion   string        `json:"apiVersion"`
	CreatedAt    webhook.Time  `json:"createdAt"`
	UpdatedAt    webhook.Time  `json:"updatedAt"`
}

// EndpointWithSecret is a new endpoint. Its secret is shown only here.
type EndpointWithSecret struct {
	Endpoint
	Secret string `json:"secret"`
}

// RotatedSecret is an endpoint with a new secret, which is shown only here.
type RotatedSecret struct {
	Endpoint
	Secret            string       `json:"secret"`
	FormerSecretUntil webhook.Time `json:"formerSecretUntil" doc:"Until when the former secret signs besides the new one."`
}

func showEndpoint(e delivery.Endpoint) Endpoint {
	shown := Endpoint{
		EndpointID: e.ID, URL: e.URL, Events: []string{}, Description: e.Description, Status: e.Status,
		FailingSince: webhook.AtOrNil(e.FailingSince), APIVersion: e.APIVersion, CreatedAt: webhook.At(e.CreatedAt),
		UpdatedAt: webhook.At(e.UpdatedAt),
	}
	for _, t := range e.Events {
		shown.Events = append(shown.Events, string(t))
	}
	if e.Filters.CustomerID != "" {
		shown.Filters.CustomerID = &e.Filters.CustomerID
	}
	if e.Filters.Chain != "" {
		shown.Filters.Chain = new(string(e.Filters.Chain))
	}
	return shown
}

func (f *EndpointFilters) readFilters() (delivery.Filters, error) {
	var filters delivery.Filters
	if f == nil {
		return filters, nil
	}
	// An empty text would count as no filter, which its sender did not mean.
	for name, value := range map[string]*string{"customerId": f.CustomerID, "chain": f.Chain} {
		if value != nil && *value == "" {
			return filters, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"The filter %s is empty.", name).
				WithAdvice("Leave it out to receive every event.").WithParam("filters." + name)
		}
	}
	if f.CustomerID != nil {
		filters.CustomerID = *f.CustomerID
	}
	if f.Chain != nil {
		filters.Chain = chain.Name(*f.Chain)
	}
	return filters, nil
}

func readEvents(names *[]string) []event.Type {
	var types []event.Type
	if names != nil {
		for _, name := range *names {
			types = append(types, event.Type(name))
		}
	}
	return types
}

func (a *api) createEndpoint(c *call, body EndpointRequest) (EndpointWithSecret, error) {
	wanted := delivery.NewEndpoint{URL: body.URL, Events: readEvents(body.Events)}
	if body.Description != nil {
		wanted.Description = *body.Description
	}
	var err error
	if wanted.Filters, err = body.Filters.readFilters(); err != nil {
		return EndpointWithSecret{}, err
	}
	var made delivery.Endpoint
	var secret seal.Secret
	err = a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		made, secret, err = a.conf.Endpoints.Create(ctx, tx, c.Caller.OrgID, c.Caller.Actor(), wanted)
		return err
	})
	if err != nil {
		return EndpointWithSecret{}, err
	}
	return EndpointWithSecret{showEndpoint(made), secret.Reveal()}, nil
}

func (a *api) changeEndpoint(c *call, body EndpointChange) (Endpoint, error) {
	change := delivery.Change{URL: body.URL, Description: body.Description, Status: body.Status}
	if body.Events != nil {
		change.Events = new(readEvents(body.Events))
	}
	if body.Filters != nil {
		filters, err := body.Filters.readFilters()
		if err != nil {
			return Endpoint{}, err
		}
		change.Filters = &filters
	}
	var changed delivery.Endpoint
	err := a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		changed, err = a.conf.Endpoints.Update(
			ctx, tx, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("endpointId"), change,
		)
		return err
	})
	if err != nil {
		return Endpoint{}, err
	}
	return showEndpoint(changed), nil
}

func (a *api) rotateSecret(c *call) (RotatedSecret, error) {
	var e delivery.Endpoint
	var secret seal.Secret
	var formerUntil time.Time
	err := a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		e, secret, formerUntil,
			err = a.conf.Endpoints.Rotate(ctx, tx, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("endpointId"))
		return err
	})
	if err != nil {
		return RotatedSecret{}, err
	}
	return RotatedSecret{showEndpoint(e), secret.Reveal(), webhook.At(formerUntil)}, nil
}

func (a *api) listEndpoints(c *call) (kernel.Page[Endpoint], error) {
	p, err := c.ReadPage("webhook-endpoints")
	if err != nil {
		return kernel.Page[Endpoint]{}, err
	}
	var found pagination.Result[delivery.Endpoint]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = a.conf.Endpoints.List(ctx, tx, c.Caller.OrgID, p)
		return err
	})
	if err != nil {
		return kernel.Page[Endpoint]{}, err
	}
	return kernel.NewPage(c.Request, "webhook-endpoints", found, showEndpoint), nil
}

func (a *api) getEndpoint(c *call) (Endpoint, error) {
	var found delivery.Endpoint
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = a.conf.Endpoints.ByID(ctx, tx, c.Caller.OrgID, c.PathParam("endpointId"))
		return err
	})
	if err != nil {
		return Endpoint{}, err
	}
	return showEndpoint(found), nil
}

func (a *api) deleteEndpoint(c *call) error {
	err := a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
		return a.conf.Endpoints.Delete(ctx, tx, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("endpointId"))
	})
	return err
}

// TestRequest is the body of POST /webhook-endpoints/{endpointId}/test.
type TestRequest struct {
	Type string `json:"type" doc:"The type of the event."`
}

// DeliveryAttempt is one post to an endpoint.
type DeliveryAttempt struct {
	EventID        string            `json:"eventId"`
	Type           string            `json:"type" doc:"The type of the event." example:"CUSTOMER_DEPOSIT"`
	Test           bool              `json:"test" doc:"Whether the event is a sample that was requested."`
	Attempt        int               `json:"attempt" doc:"1, 2, …: the number of attempts to deliver this event to this endpoint."`
	Status         string            `json:"status" doc:"DELIVERED, or FAILED with the error." enum:"DELIVERED,FAILED"`
	DeliveryStatus string            `json:"deliveryStatus" doc:"The status of the delivery to this endpoint: PENDING while the service tries, DELIVERED, FAILED after the whole schedule, or CANCELLED with its endpoint." enum:"PENDING,DELIVERED,FAILED,CANCELLED"`
	NextAttemptAt  *webhook.Time     `json:"nextAttemptAt" doc:"The earliest time of the next attempt; null when there is none, or when there was a later attempt."`
	Request        DeliveryRequest   `json:"request" doc:"The request."`
	Response       *DeliveryResponse `json:"response" doc:"The answer; null without an answer."`
	Error          *string           `json:"error" doc:"Why the attempt failed, in plain words; null when the event was delivered."`
	DurationMs     int64             `json:"durationMs" doc:"How long the attempt took, in milliseconds."`
	CreatedAt      webhook.Time      `json:"createdAt" doc:"When the attempt was made."`
}

// DeliveryRequest is the request of an attempt.
type DeliveryRequest struct {
	URL     string            `json:"url" doc:"The URL of the request." format:"uri"`
	Headers map[string]string `json:"headers" doc:"The headers, without webhook-signature."`
	Body    *string           `json:"body" doc:"The body, byte for byte; null once the event is older than 90 days."`
}

// DeliveryResponse is the receiver's answer to an attempt.
type DeliveryResponse struct {
	StatusCode int    `json:"statusCode" doc:"The HTTP status." example:"502"`
	Body       string `json:"body" doc:"The first 1024 bytes, as text."`
}

func showAttempt(attempt delivery.Attempt) DeliveryAttempt {
	shown := DeliveryAttempt{
		EventID: attempt.EventID, Type: string(attempt.Type), Test: attempt.Test, Attempt: attempt.Number,
		Status: attempt.Outcome(), DeliveryStatus: attempt.Delivery,
		NextAttemptAt: webhook.AtOrNil(attempt.NextAt),
		Request:       DeliveryRequest{URL: attempt.URL, Headers: attempt.Headers},
		DurationMs:    attempt.Duration.Milliseconds(), CreatedAt: webhook.At(attempt.SentAt),
	}
	if attempt.Body != nil {
		shown.Request.Body = new(string(attempt.Body))
	}
	if attempt.Status != 0 {
		shown.Response = &DeliveryResponse{StatusCode: attempt.Status, Body: attempt.Response}
	}
	if attempt.Error != "" {
		shown.Error = &attempt.Error
	}
	return shown
}

// testEndpoint answers 200 with the receiver's answer, and not 202: the caller wants to see whether
// the receiver accepts the sample.
func (a *api) testEndpoint(c *call, body TestRequest) (DeliveryAttempt, error) {
	made, err := a.conf.Endpoints.Test(
		c.Context(), a.conf.DB, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("endpointId"), event.Type(body.Type),
	)
	if err != nil {
		return DeliveryAttempt{}, err
	}
	return showAttempt(made), nil
}

func (a *api) listAttempts(c *call) (kernel.Page[DeliveryAttempt], error) {
	endpointID := c.PathParam("endpointId")
	list := "deliveries of " + endpointID
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[DeliveryAttempt]{}, err
	}
	filter := delivery.AttemptFilter{
		Outcome: c.Query["status"], EventID: c.Query["eventId"], Type: event.Type(c.Query["type"]),
		MadeSince: c.Query.TimeValue("since"),
	}
	var found pagination.Result[delivery.Attempt]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = a.conf.Endpoints.Log(ctx, tx, c.Caller.OrgID, endpointID, filter, p)
		return err
	})
	if err != nil {
		return kernel.Page[DeliveryAttempt]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showAttempt), nil
}

// ResendRequest is the body of POST /events/{eventId}/resend.
type ResendRequest struct {
	EndpointID *string `json:"endpointId,omitempty" doc:"Only this endpoint. Leave it out for every endpoint that receives this event." bounds:"minLength=1" example:"we_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
}

// RecoverRequest is the body of POST /webhook-endpoints/{endpointId}/recover.
type RecoverRequest struct {
	Since      string  `json:"since" doc:"Only events of this time and later, by the time of the change." format:"date-time" example:"2026-01-31T12:00:00.000Z"`
	Until      *string `json:"until,omitempty" doc:"Only events before this time; left out: up to now." format:"date-time"`
	OnlyFailed *bool   `json:"onlyFailed,omitempty" doc:"true, the default: only events that were never delivered to the endpoint. false: all events again."`
}

// WebhookJob is a request to send events again, with its progress.
type WebhookJob struct {
	JobID       string        `json:"jobId"`
	Kind        string        `json:"kind" doc:"RESEND or RECOVER." enum:"RESEND,RECOVER"`
	Status      string        `json:"status" doc:"COMPLETED when the job has queued everything." enum:"RUNNING,COMPLETED"`
	EndpointID  *string       `json:"endpointId" doc:"The endpoint; null for every endpoint that receives the event."`
	EventID     *string       `json:"eventId" doc:"The event of a RESEND."`
	Since       *webhook.Time `json:"since" doc:"The start of a RECOVER: events of this time and later."`
	Until       *webhook.Time `json:"until" doc:"The end of a RECOVER: events before this time; null without an end."`
	OnlyFailed  bool          `json:"onlyFailed" doc:"Whether the job sends only events that were never delivered."`
	Examined    int64         `json:"examined" doc:"The number of events that the job looked at and that the endpoint receives."`
	Queued      int64         `json:"queued" doc:"The number of them that the job queued. The others were already queued, or were delivered."`
	Pending     int64         `json:"pending" doc:"The number of queued events that have not ended yet. An event that a later job queued again counts for that job."`
	Delivered   int64         `json:"delivered" doc:"The number of queued events that were delivered since."`
	Failed      int64         `json:"failed" doc:"The number of queued events that failed after the whole schedule, or that were cancelled with their endpoint."`
	CreatedAt   webhook.Time  `json:"createdAt"`
	CompletedAt *webhook.Time `json:"completedAt" doc:"When the job had queued everything."`
}

func showJob(j delivery.Job) WebhookJob {
	shown := WebhookJob{
		JobID: j.ID, Kind: j.Kind, Status: j.Status, Since: webhook.AtOrNil(j.Since), Until: webhook.AtOrNil(j.Until),
		OnlyFailed: j.OnlyFailed,
		Examined:   j.Examined, Queued: j.Queued, Pending: j.Pending, Delivered: j.Delivered, Failed: j.Failed,
		CreatedAt: webhook.At(j.CreatedAt), CompletedAt: webhook.AtOrNil(j.EndedAt),
	}
	if j.EndpointID != "" {
		shown.EndpointID = &j.EndpointID
	}
	if j.EventID != "" {
		shown.EventID = &j.EventID
	}
	return shown
}

func (a *api) resendEvent(c *call, body ResendRequest) (WebhookJob, error) {
	endpointID := ""
	if body.EndpointID != nil {
		if endpointID = *body.EndpointID; endpointID == "" {
			return WebhookJob{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"The endpointId is empty.").
				WithAdvice("Leave it out to send the event to every endpoint whose events and filters include it.").
				WithParam("endpointId")
		}
	}
	return a.runWebhookJob(c, func(ctx context.Context, tx pg.Tx) (delivery.Job, error) {
		return a.conf.Endpoints.Resend(ctx, tx, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("eventId"), endpointID)
	})
}

func (a *api) recoverEndpoint(c *call, body RecoverRequest) (WebhookJob, error) {
	start, err := readTime("since", body.Since)
	if err != nil {
		return WebhookJob{}, err
	}
	var end *time.Time
	if body.Until != nil {
		parsed, err := readTime("until", *body.Until)
		if err != nil {
			return WebhookJob{}, err
		}
		end = &parsed
	}
	onlyFailed := body.OnlyFailed == nil || *body.OnlyFailed
	return a.runWebhookJob(c, func(ctx context.Context, tx pg.Tx) (delivery.Job, error) {
		return a.conf.Endpoints.Recover(ctx, tx, c.Caller.OrgID, c.Caller.Actor(), c.PathParam("endpointId"), start,
			end,
			onlyFailed)
	})
}

func (a *api) runWebhookJob(c *call, ask func(context.Context, pg.Tx) (delivery.Job, error)) (WebhookJob, error) {
	var job delivery.Job
	err := a.conf.DB.InOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		job, err = ask(ctx, tx)
		return err
	})
	if err != nil {
		return WebhookJob{}, err
	}
	return showJob(job), nil
}

func (a *api) getJob(c *call) (WebhookJob, error) {
	var job delivery.Job
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		job, err = a.conf.Endpoints.JobByID(ctx, tx, c.Caller.OrgID, c.PathParam("jobId"))
		return err
	})
	if err != nil {
		return WebhookJob{}, err
	}
	return showJob(job), nil
}

// readTime reads a time in a body as strictly as one in a query.
func readTime(name, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return t, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The field %s has to be a time such as 2026-01-31T12:00:00.000Z.", name).
			WithAdvice("Correct it.").WithParam(name)
	}
	return t, nil
}
