package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/webhook"
)

// TransferRequest is the body of POST /transfers. The key is required, in the
// body or in its header.
type TransferRequest struct {
	IdempotencyKey *string            `json:"idempotencyKey,omitempty"`
	MintID         int                `json:"mintId"`
	Amount         string             `json:"amount"`
	UseDecimal     bool               `json:"useDecimal,omitempty"`
	From           TransferParty      `json:"from"`
	To             TransferParty      `json:"to"`
	Reference      *string            `json:"reference,omitempty"`
	Metadata       *map[string]string `json:"metadata,omitempty"`
}

// TransferParty is one side of a requested transfer.
type TransferParty struct {
	CustomerID *string `json:"customerId,omitempty"`
	Product    *string `json:"product,omitempty"`
}

func (a *api) createTransfer(c *call) (answer, error) {
	var body TransferRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := checkMintID(body.MintID); err != nil {
		return answer{}, err
	}
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return answer{}, err
	}
	if key == nil {
		return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A transfer needs an idempotencyKey, in the body or in the header Idempotency-Key.").
			WithAdvice("Send one key for each transfer.").
			WithParam("idempotencyKey")
	}
	r := transfer.Request{
		MintID: body.MintID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		From: transfer.Party(body.From), To: transfer.Party(body.To), IdempotencyKey: *key,
		Reference: body.Reference, Actor: c.auditActor(),
		Limit: func() error { return a.checkScopeAndRate(c) },
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	outcome, err := a.conf.Transfers.Request(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	trace.LinkTo(c.Context(), outcome.Transfer.TransferID)
	if outcome.Replayed {
		c.header.Set("Idempotent-Replayed", "true")
	}
	return answer{status: http.StatusCreated, body: outcome.Transfer}, nil
}

var transferColumns = []column[webhook.Transfer]{
	{"transferId", func(t webhook.Transfer) string { return t.TransferID }},
	{"createdAt", func(t webhook.Transfer) string { return t.CreatedAt.String() }},
	{"idempotencyKey", func(t webhook.Transfer) string { return t.IdempotencyKey }},
	{"reference", func(t webhook.Transfer) string { return textOrEmpty(t.Reference) }},
	{"mintId", func(t webhook.Transfer) string { return strconv.Itoa(t.MintID) }},
	{"symbol", func(t webhook.Transfer) string { return t.Mint.Symbol }},
	{"chain", func(t webhook.Transfer) string { return t.Mint.Chain }},
	{"amount", func(t webhook.Transfer) string { return t.Amount }},
	{"amountDecimal", func(t webhook.Transfer) string { return t.AmountDecimal }},
	{"fromCustomerId", func(t webhook.Transfer) string { return textOrEmpty(t.From.CustomerID) }},
	{"fromProduct", func(t webhook.Transfer) string { return textOrEmpty(t.From.Product) }},
	{"toCustomerId", func(t webhook.Transfer) string { return textOrEmpty(t.To.CustomerID) }},
	{"toProduct", func(t webhook.Transfer) string { return textOrEmpty(t.To.Product) }},
	{"metadata", func(t webhook.Transfer) string { return metadataJSON(t.Metadata) }},
}

func (a *api) listTransfers(c *call) (answer, error) {
	f := transfer.Filter{
		CustomerID: c.query["customerId"], Product: c.query["product"], MintID: c.query.numberValue("mintId"),
		Chain:     c.query["chain"],
		Reference: c.query["reference"], IdempotencyKey: c.query["idempotencyKey"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
	}
	if c.table {
		return csvExport(a, c, "transfers", transferColumns,
			func(ctx context.Context, desc bool, row func(webhook.Transfer) error) error {
				return a.conf.Transfers.ForEach(ctx, c.org, f, desc, row)
			})
	}
	p, err := a.readPage(c, "transfers")
	if err != nil {
		return answer{}, err
	}
	found, err := a.conf.Transfers.List(c.Context(), c.org, f, p)
	if err != nil {
		return answer{}, err
	}
	identity := func(t webhook.Transfer) webhook.Transfer { return t }
	return answer{status: http.StatusOK, body: newPage(a, c, "transfers", found, identity)}, nil
}

func (a *api) getTransfer(c *call) (answer, error) {
	t, err := a.conf.Transfers.ByID(c.Context(), c.org, c.pathParam("transferId"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: t}, nil
}
