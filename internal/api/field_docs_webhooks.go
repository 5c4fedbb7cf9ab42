package api

// webhookFieldDocs are the texts for the types of endpoints.go, in addition to those in field_docs.go.
var webhookFieldDocs = map[string]fieldDoc{
	"EndpointChange.":      {text: "Changes a webhook endpoint. Fields that are left out stay as they are."},
	"EndpointFilters.":     {text: "Limits the events of an endpoint. A filter that is left out limits nothing."},
	"Filters.":             {text: "Limits which events the endpoint receives."},
	"TestRequest.":         {text: "Asks for a sample event."},
	"DeliveryAttempt.":     {text: "One attempt to deliver an event to an endpoint."},
	"DeliveryAttemptPage.": {text: "A page of attempts."},
	"DeliveryRequest.":     {text: "The request of the attempt."},
	"DeliveryResponse.":    {text: "The answer of the receiver."},
	"ResendRequest.":       {text: "Asks the service to send an event again."},
	"RecoverRequest.":      {text: "Asks the service to send the events that an endpoint missed."},
	"WebhookJob.":          {text: "A job that sends events again, and its progress."},
	"RotatedSecret.":       {text: "An endpoint with a new secret, which only this answer shows."},
	"RotatedSecret.status": {
		text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"TestRequest.type":       {text: "The type of the event.", enum: eventTypes},
	"eventId":                {text: "The event.", example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"DeliveryAttempt.type":   {text: "The type of the event.", example: "CUSTOMER_DEPOSIT"},
	"test":                   {text: "Whether the event is a sample that was requested."},
	"attempt":                {text: "1, 2, …: the number of attempts to deliver this event to this endpoint."},
	"DeliveryAttempt.status": {text: "DELIVERED, or FAILED with the error.", enum: []string{"DELIVERED", "FAILED"}},
	"deliveryStatus": {
		text: "The status of the delivery to this endpoint: PENDING while the service tries, DELIVERED, FAILED after " +
			"the whole schedule, or CANCELLED with its endpoint.",
		enum: []string{"PENDING", "DELIVERED", "FAILED", "CANCELLED"},
	},
	"nextAttemptAt": {
		text: "The earliest time of the next attempt; null when there is none, or when there was a later attempt.",
	},
	"request":                   {text: "The request."},
	"DeliveryRequest.url":       {text: "The URL of the request.", format: "uri"},
	"headers":                   {text: "The headers, without webhook-signature."},
	"DeliveryRequest.body":      {text: "The body, byte for byte; null once the event is older than 90 days."},
	"response":                  {text: "The answer; null without an answer."},
	"statusCode":                {text: "The HTTP status.", example: 502},
	"DeliveryResponse.body":     {text: "The first 1024 bytes, as text."},
	"error":                     {text: "Why the attempt failed, in plain words; null when the event was delivered."},
	"durationMs":                {text: "How long the attempt took, in milliseconds."},
	"DeliveryAttempt.createdAt": {text: "When the attempt was made."},
	"ResendRequest.endpointId": {
		text:   "Only this endpoint. Leave it out for every endpoint that receives this event.",
		bounds: map[string]any{"minLength": 1}, example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"RecoverRequest.since": {
		text: "Only events of this time and later, by the time of the change.", format: "date-time",
		example: "2026-01-31T12:00:00.000Z",
	},
	"RecoverRequest.until": {text: "Only events before this time; left out: up to now.", format: "date-time"},
	"RecoverRequest.onlyFailed": {
		text: "true, the default: only events that were never delivered to the endpoint. false: all events again.",
	},
	"jobId":           {text: "The job.", example: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"WebhookJob.kind": {text: "RESEND or RECOVER.", enum: []string{"RESEND", "RECOVER"}},
	"WebhookJob.status": {
		text: "COMPLETED when the job has queued everything.", enum: []string{"RUNNING", "COMPLETED"},
	},
	"WebhookJob.endpointId": {text: "The endpoint; null for every endpoint that receives the event."},
	"WebhookJob.eventId":    {text: "The event of a RESEND."},
	"since":                 {text: "The start of a RECOVER: events of this time and later."},
	"until":                 {text: "The end of a RECOVER: events before this time; null without an end."},
	"onlyFailed":            {text: "Whether the job sends only events that were never delivered."},
	"examined":              {text: "The number of events that the job looked at and that the endpoint receives."},
	"queued": {text: "The number of them that the job queued. The others were already queued, or were " +
		"delivered."},
	"WebhookJob.pending": {
		text: "The number of queued events that have not ended yet. An event that a later job queued again counts " +
			"for that job.",
	},
	"delivered": {text: "The number of queued events that were delivered since."},
	"failed": {
		text: "The number of queued events that failed after the whole schedule, or that were cancelled with their " +
			"endpoint.",
	},
	"WebhookJob.completedAt": {text: "When the job had queued everything."},
	"formerSecretUntil":      {text: "Until when the former secret signs besides the new one."},
	"failingSince": {
		text: "The first failed attempt since the last success; null when the last attempt succeeded. After five " +
			"days of failures the endpoint is DISABLED_BY_FAILURE.",
	},
	"filters": {text: "Limits which events the endpoint receives."},
	"Filters.customerId": {
		text:    "Only events that concern this customer; of transfers, those that the customer pays; null: all.",
		example: "user_42",
	},
	"Filters.chain": {text: "Only events of this chain; null: all.", example: "ETHEREUM"},
	"EndpointFilters.customerId": {
		text: "Only events that concern this customer, compared byte for byte; of transfers, those that the " +
			"customer pays.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "user_42",
	},
	"EndpointFilters.chain": {text: "Only events of this chain.", enum: chainNames, example: "ETHEREUM"},
	"EndpointChange.url": {
		text:   "The new URL to which events are posted: HTTPS, and no address inside a private network.",
		bounds: map[string]any{"minLength": 1, "maxLength": 2048}, example: "https://example.com/hooks/coffer",
	},
	"EndpointChange.events": {
		text: "The events that the endpoint shall receive. Empty: the seven events of the interface and no " +
			"extension. * alone: all events, including later ones.",
		enum: endpointEvents,
	},
	"EndpointChange.description": {text: "A note for people.", bounds: map[string]any{"maxLength": 500}},
	"EndpointChange.status":      {text: "ENABLED or PAUSED.", enum: []string{"ENABLED", "PAUSED"}},
}
