package api

import (
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
)

// webhookFieldDocs are the texts for the types of endpoints.go, in addition to those in field_docs.go.
var webhookFieldDocs = map[string]kernel.FieldDoc{
	"EndpointChange.":      {Text: "Changes a webhook endpoint. Fields that are left out stay as they are."},
	"EndpointFilters.":     {Text: "Limits the events of an endpoint. A filter that is left out limits nothing."},
	"Filters.":             {Text: "Limits which events the endpoint receives."},
	"TestRequest.":         {Text: "Asks for a sample event."},
	"DeliveryAttempt.":     {Text: "One attempt to deliver an event to an endpoint."},
	"DeliveryAttemptPage.": {Text: "A page of attempts."},
	"DeliveryRequest.":     {Text: "The request of the attempt."},
	"DeliveryResponse.":    {Text: "The answer of the receiver."},
	"ResendRequest.":       {Text: "Asks the service to send an event again."},
	"RecoverRequest.":      {Text: "Asks the service to send the events that an endpoint missed."},
	"WebhookJob.":          {Text: "A job that sends events again, and its progress."},
	"RotatedSecret.":       {Text: "An endpoint with a new secret, which only this answer shows."},
	"RotatedSecret.status": {
		Text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		Enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"TestRequest.type":       {Text: "The type of the event.", Enum: resource.EventTypes},
	"eventId":                {Text: "The event.", Example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"DeliveryAttempt.type":   {Text: "The type of the event.", Example: "CUSTOMER_DEPOSIT"},
	"test":                   {Text: "Whether the event is a sample that was requested."},
	"attempt":                {Text: "1, 2, …: the number of attempts to deliver this event to this endpoint."},
	"DeliveryAttempt.status": {Text: "DELIVERED, or FAILED with the error.", Enum: []string{"DELIVERED", "FAILED"}},
	"deliveryStatus": {
		Text: "The status of the delivery to this endpoint: PENDING while the service tries, DELIVERED, FAILED after " +
			"the whole schedule, or CANCELLED with its endpoint.",
		Enum: []string{"PENDING", "DELIVERED", "FAILED", "CANCELLED"},
	},
	"nextAttemptAt": {
		Text: "The earliest time of the next attempt; null when there is none, or when there was a later attempt.",
	},
	"request":                   {Text: "The request."},
	"DeliveryRequest.url":       {Text: "The URL of the request.", Format: "uri"},
	"headers":                   {Text: "The headers, without webhook-signature."},
	"DeliveryRequest.body":      {Text: "The body, byte for byte; null once the event is older than 90 days."},
	"response":                  {Text: "The answer; null without an answer."},
	"statusCode":                {Text: "The HTTP status.", Example: 502},
	"DeliveryResponse.body":     {Text: "The first 1024 bytes, as text."},
	"error":                     {Text: "Why the attempt failed, in plain words; null when the event was delivered."},
	"durationMs":                {Text: "How long the attempt took, in milliseconds."},
	"DeliveryAttempt.createdAt": {Text: "When the attempt was made."},
	"ResendRequest.endpointId": {
		Text:   "Only this endpoint. Leave it out for every endpoint that receives this event.",
		Bounds: map[string]any{"minLength": 1}, Example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"RecoverRequest.since": {
		Text: "Only events of this time and later, by the time of the change.", Format: "date-time",
		Example: "2026-01-31T12:00:00.000Z",
	},
	"RecoverRequest.until": {Text: "Only events before this time; left out: up to now.", Format: "date-time"},
	"RecoverRequest.onlyFailed": {
		Text: "true, the default: only events that were never delivered to the endpoint. false: all events again.",
	},
	"jobId":           {Text: "The job.", Example: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"WebhookJob.kind": {Text: "RESEND or RECOVER.", Enum: []string{"RESEND", "RECOVER"}},
	"WebhookJob.status": {
		Text: "COMPLETED when the job has queued everything.", Enum: []string{"RUNNING", "COMPLETED"},
	},
	"WebhookJob.endpointId": {Text: "The endpoint; null for every endpoint that receives the event."},
	"WebhookJob.eventId":    {Text: "The event of a RESEND."},
	"since":                 {Text: "The start of a RECOVER: events of this time and later."},
	"until":                 {Text: "The end of a RECOVER: events before this time; null without an end."},
	"onlyFailed":            {Text: "Whether the job sends only events that were never delivered."},
	"examined":              {Text: "The number of events that the job looked at and that the endpoint receives."},
	"queued": {Text: "The number of them that the job queued. The others were already queued, or were " +
		"delivered."},
	"WebhookJob.pending": {
		Text: "The number of queued events that have not ended yet. An event that a later job queued again counts " +
			"for that job.",
	},
	"delivered": {Text: "The number of queued events that were delivered since."},
	"failed": {
		Text: "The number of queued events that failed after the whole schedule, or that were cancelled with their " +
			"endpoint.",
	},
	"WebhookJob.completedAt": {Text: "When the job had queued everything."},
	"formerSecretUntil":      {Text: "Until when the former secret signs besides the new one."},
	"failingSince": {
		Text: "The first failed attempt since the last success; null when the last attempt succeeded. After five " +
			"days of failures the endpoint is DISABLED_BY_FAILURE.",
	},
	"filters": {Text: "Limits which events the endpoint receives."},
	"Filters.customerId": {
		Text:    "Only events that concern this customer; of transfers, those that the customer pays; null: all.",
		Example: "user_42",
	},
	"Filters.chain": {Text: "Only events of this chain; null: all.", Example: "ETHEREUM"},
	"EndpointFilters.customerId": {
		Text: "Only events that concern this customer, compared byte for byte; of transfers, those that the " +
			"customer pays.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 128}, Example: "user_42",
	},
	"EndpointFilters.chain": {Text: "Only events of this chain.", Enum: resource.ChainNames, Example: "ETHEREUM"},
	"EndpointChange.url": {
		Text:   "The new URL to which events are posted: HTTPS, and no address inside a private network.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 2048}, Example: "https://example.com/hooks/coffer",
	},
	"EndpointChange.events": {
		Text: "The events that the endpoint shall receive. Empty: the seven events of the interface and no " +
			"extension. * alone: all events, including later ones.",
		Enum: resource.EndpointEvents,
	},
	"EndpointChange.description": {Text: "A note for people.", Bounds: map[string]any{"maxLength": 500}},
	"EndpointChange.status":      {Text: "ENABLED or PAUSED.", Enum: []string{"ENABLED", "PAUSED"}},
}
