package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/trace"
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

// TransferParty is one side of a transfer that is asked for.
type TransferParty struct {
	CustomerID *string `json:"customerId,omitempty"`
	Product    *string `json:"product,omitempty"`
}

func (a *api) createTransfer(c *call) (answer, error) {
	var body TransferRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return answer{}, err
	}
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return answer{}, err
	}
	if key == nil {
		return answer{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A transfer needs an idempotencyKey, in the body or in the header Idempotency-Key."+untouched+" Send one key for each transfer you mean.").On("idempotencyKey")
	}
	r := transfer.Request{
		MintID: body.MintID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		From: transfer.Party(body.From), To: transfer.Party(body.To), IdempotencyKey: *key,
		Reference: body.Reference, Actor: c.actor(),
		Limit: func() error { return a.pass(c) },
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	out, err := a.conf.Transfers.Request(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	trace.Note(c.Context(), out.Transfer.TransferID)
	if out.Replayed {
		c.warn.Set("Idempotent-Replayed", "true")
	}
	return answer{status: http.StatusCreated, body: out.Transfer}, nil
}

var transferColumns = []column[webhook.Transfer]{
	{"transferId", func(t webhook.Transfer) string { return t.TransferID }},
	{"createdAt", func(t webhook.Transfer) string { return t.CreatedAt.String() }},
	{"idempotencyKey", func(t webhook.Transfer) string { return t.IdempotencyKey }},
	{"reference", func(t webhook.Transfer) string { return text(t.Reference) }},
	{"mintId", func(t webhook.Transfer) string { return strconv.Itoa(t.MintID) }},
	{"symbol", func(t webhook.Transfer) string { return t.Mint.Symbol }},
	{"chain", func(t webhook.Transfer) string { return t.Mint.Chain }},
	{"amount", func(t webhook.Transfer) string { return t.Amount }},
	{"amountDecimal", func(t webhook.Transfer) string { return t.AmountDecimal }},
	{"fromCustomerId", func(t webhook.Transfer) string { return text(t.From.CustomerID) }},
	{"fromProduct", func(t webhook.Transfer) string { return text(t.From.Product) }},
	{"toCustomerId", func(t webhook.Transfer) string { return text(t.To.CustomerID) }},
	{"toProduct", func(t webhook.Transfer) string { return text(t.To.Product) }},
	{"metadata", func(t webhook.Transfer) string { return handles(t.Metadata) }},
}

func (a *api) listTransfers(c *call) (answer, error) {
	f := transfer.Filter{
		CustomerID: c.query["customerId"], Product: c.query["product"], MintID: c.query.number("mintId"), Chain: c.query["chain"],
		Reference: c.query["reference"], IdempotencyKey: c.query["idempotencyKey"],
		CreatedAfter: c.query.time("createdAfter"), CreatedBefore: c.query.time("createdBefore"),
	}
	if c.table {
		return exported(a, c, "transfers", transferColumns, func(ctx context.Context, desc bool, row func(webhook.Transfer) error) error {
			return a.conf.Transfers.Each(ctx, c.org, f, desc, row)
		})
	}
	p, err := a.place(c, "transfers")
	if err != nil {
		return answer{}, err
	}
	found, err := a.conf.Transfers.List(c.Context(), c.org, f, p)
	if err != nil {
		return answer{}, err
	}
	same := func(t webhook.Transfer) webhook.Transfer { return t }
	return answer{status: http.StatusOK, body: listed(a, c, "transfers", found, same)}, nil
}

func (a *api) getTransfer(c *call) (answer, error) {
	t, err := a.conf.Transfers.ByID(c.Context(), c.org, c.param("transferId"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: t}, nil
}
