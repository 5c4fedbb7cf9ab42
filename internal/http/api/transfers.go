package api

import (
	"context"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// TransferRequest is the body of POST /transfers. The key is required, in the
// body or in its header.
type TransferRequest struct {
	IdempotencyKey *string            `json:"idempotencyKey,omitempty" doc:"Your name for this transfer: 1 to 255 printable ASCII characters without a space. It never expires. Required, here or in the header Idempotency-Key." pattern:"^[!-~]{1,255}$" example:"charge-991"`
	MintID         int                `json:"mintId" bounds:"minimum=1"`
	Amount         string             `json:"amount" doc:"Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as the mint has decimals. ASCII digits without sign, exponent and leading zero." bounds:"minLength=1" example:"5000000"`
	UseDecimal     bool               `json:"useDecimal,omitempty"`
	From           TransferParty      `json:"from"`
	To             TransferParty      `json:"to"`
	Reference      *string            `json:"reference,omitempty" bounds:"minLength=1,maxLength=255"`
	Metadata       *map[string]string `json:"metadata,omitempty" bounds:"maxProperties=20"`
}

// TransferParty is one side of a requested transfer.
type TransferParty struct {
	CustomerID *string `json:"customerId,omitempty"`
	Product    *string `json:"product,omitempty"`
}

func (a *api) createTransfer(c *call, body TransferRequest) (webhook.Transfer, error) {
	if err := checkMintID(body.MintID); err != nil {
		return webhook.Transfer{}, err
	}
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.Transfer{}, err
	}
	if key == nil {
		return webhook.Transfer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A transfer needs an idempotencyKey, in the body or in the header Idempotency-Key.").
			WithAdvice("Send one key for each transfer.").
			WithParam("idempotencyKey")
	}
	r := transfer.Request{
		MintID: body.MintID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		From: transfer.Party(body.From), To: transfer.Party(body.To), IdempotencyKey: *key,
		Reference: body.Reference, Actor: c.Caller.Actor(),
		Limit: func() error { return c.CheckScopeAndRate() }, Unlimit: func() { c.UncountRate() },
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	outcome, err := a.conf.Transfers.Request(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Transfer{}, err
	}
	trace.LinkTo(c.Context(), outcome.Transfer.ID)
	if outcome.Replayed {
		c.AnswerHeader.Set("Idempotent-Replayed", "true")
	}
	return wire.Transfer(outcome.Transfer), nil
}

func transferFilter(c *call) transfer.Filter {
	return transfer.Filter{
		CustomerID: c.Query["customerId"], Product: c.Query["product"], MintID: c.Query.NumberValue("mintId"),
		Chain:     c.Query["chain"],
		Reference: c.Query["reference"], IdempotencyKey: c.Query["idempotencyKey"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) exportTransfers(c *call) (kernel.Rows[webhook.Transfer], error) {
	return func(ctx context.Context, desc bool, row func(webhook.Transfer) error) error {
		return a.conf.Transfers.ForEach(
			ctx, c.Caller.OrgID, transferFilter(c), desc,
			func(t transfer.Transfer) error { return row(wire.Transfer(t)) },
		)
	}, nil
}

func (a *api) listTransfers(c *call) (kernel.Page[webhook.Transfer], error) {
	p, err := c.ReadPage("transfers")
	if err != nil {
		return kernel.Page[webhook.Transfer]{}, err
	}
	found, err := a.conf.Transfers.List(c.Context(), c.Caller.OrgID, transferFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.Transfer]{}, err
	}
	return kernel.NewPage(c.Request, "transfers", found, wire.Transfer), nil
}

func (a *api) getTransfer(c *call) (webhook.Transfer, error) {
	t, err := a.conf.Transfers.ByID(c.Context(), c.Caller.OrgID, c.PathParam("transferId"))
	if err != nil {
		return webhook.Transfer{}, err
	}
	return wire.Transfer(t), nil
}
