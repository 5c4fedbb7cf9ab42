package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// AssignRequest is the body of POST /unmatched-payments/{depositId}/assign.
type AssignRequest struct {
	CheckoutID string `json:"checkoutId"`
}

// UnmatchedRefundRequest is the body of POST /unmatched-payments/{depositId}/refund.
type UnmatchedRefundRequest struct {
	ToAddress      *string `json:"toAddress,omitempty" doc:"Where it goes, on the chain of the payment. If it is left out, the answer has claimUrl, on which the payer says it. An exchange pays from addresses that are not its customer's, so ask the payer." bounds:"minLength=1,maxLength=128" example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	FeeMode        *string `json:"feeMode,omitempty" doc:"Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin of a chain only: the payer receives the amount less the fee." example:"ORGANIZATION"`
	Reason         *string `json:"reason,omitempty" doc:"Why, in your own words, which no payer sees. It is kept with the refund and in the audit log." bounds:"minLength=1,maxLength=1000" example:"No order belongs to it."`
	IdempotencyKey *string `json:"idempotencyKey,omitempty" doc:"Your name for this refund: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call refunds what is left." pattern:"^[!-~]{1,255}$" example:"refund-78"`
}

// unmatchedRoutes are the calls about payments that named no checkout. Rules CO-107 and CO-108.
func (a *api) unmatchedRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/unmatched-payments", Name: "listUnmatchedPayments",
			Action: identity.ReadOrganization, Group: "Checkouts",
			Summary: "List unmatched payments",
			Text: "What arrived for your checkouts and belongs to none of them. It is credited to your product " +
				"CHECKOUT all the same. An assigned one is a payment of its checkout and in this list no more. The " +
				"table has no suggestions." + csvText,
			Query:   kernel.ListParameters(),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of unmatched payments."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listUnmatched, kernel.ExamplePage(resource.ExampleUnmatched)),
			Table:   kernel.ExportTable("unmatched-payments", resource.UnmatchedColumns, a.exportUnmatched),
		},
		{
			Method: http.MethodGet, Path: "/unmatched-payments/{depositId}", Name: "getUnmatchedPayment",
			Action: identity.ReadOrganization, Group: "Checkouts",
			Summary: "Read an unmatched payment",
			Text:    "One payment that named no checkout, also once it is assigned.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The payment."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getUnmatched, resource.ExampleUnmatched),
		},
		{
			Method: http.MethodPost, Path: "/unmatched-payments/{depositId}/assign", Name: "assignUnmatchedPayment",
			Action: identity.DecideCheckout, Group: "Checkouts",
			Summary: "Assign an unmatched payment",
			Text: "Makes it a payment of a checkout, by your decision. It counts there by its own moment and its own " +
				"rate, as every payment does, and may complete the checkout, be late, or be too much. The checkout " +
				"may be in any status. It moves no money. A payment never goes from one checkout to another; the " +
				"same checkout again changes nothing.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The assigned payment."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.assignUnmatched,
				AssignRequest{CheckoutID: resource.ExampleCheckout.CheckoutID}, assignedExample()),
		},
		{
			Method: http.MethodPost, Path: "/unmatched-payments/{depositId}/refund", Name: "refundUnmatchedPayment",
			Action: identity.RefundCheckout, Group: "Refunds",
			Summary: "Refund an unmatched payment",
			Text: "Gives back a credited payment that named no checkout, as a whole, in the coin and on the network " +
				"of the payment. It gets a checkout of its own, which is CANCELLED and has " +
				"metadata.unmatchedDepositId, and the refund is one of this checkout in everything. With toAddress " +
				"it is paid there, with the " +
				"checks and approvals of your own withdrawals but without the whitelist. Without it the answer has " +
				"claimUrl once. With an idempotencyKey the same request returns the same refund as it is now, " +
				"without claimUrl, and the same key with other parameters is refused with 409 IDEMPOTENCY_CONFLICT; " +
				"reason is no parameter. A key never expires. A 4xx means that this request held and sent nothing; " +
				"after 422 INSUFFICIENT_BALANCE the payment has its checkout, and the same request goes on. After a " +
				"5xx or no answer, repeat with the same key, and get a new claimUrl from POST " +
				"/refunds/{refundId}/claim-key.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownUnmatchedRefund),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The refund. For a known key, the refund as it is now.",
				Headers: []kernel.Header{replayedRefundHeader},
			}},
			Faults: []fault.Code{
				fault.IdempotencyKeyMismatch, fault.IdempotencyConflict, fault.CodeNotFound, fault.InvalidState,
				fault.OrganizationFrozen, fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress,
				fault.RefundExceedsPayment, fault.InsufficientBalance, fault.WithdrawalsSuspended,
			},
			Handler: kernel.HandleBody(a.refundUnmatched,
				UnmatchedRefundRequest{Reason: new("No order belongs to it."), IdempotencyKey: new("refund-78")},
				unmatchedRefundExample()),
		},
	}
}

func assignedExample() resource.UnmatchedPayment {
	u := resource.ExampleUnmatched
	u.SuggestedCheckoutIDs = nil
	u.AssignedCheckoutID = &resource.ExampleCheckout.CheckoutID
	u.AssignedBy = &webhook.Actor{Type: "API_KEY", ID: resource.ExampleOrganizationID}
	u.AssignedAt = &resource.ExampleAt
	return u
}

func unmatchedRefundExample() webhook.Refund {
	r := resource.ExampleRefund
	r.Kind, r.Chain, r.Amount, r.IdempotencyKey = string(checkout.FullRefund), "SOLANA", "49990000", new("refund-78")
	r.Reason = new("No order belongs to it.")
	r.Parts = webhook.List[webhook.RefundPart]{{DepositID: resource.ExampleDeposit.DepositID, Amount: r.Amount}}
	return r
}

func showUnmatched(u checkout.Unmatched, err error) (resource.UnmatchedPayment, error) {
	if err != nil {
		return resource.UnmatchedPayment{}, err
	}
	return resource.ShowUnmatched(u), nil
}

func (a *api) getUnmatched(c *call) (resource.UnmatchedPayment, error) {
	return showUnmatched(a.conf.Checkouts.UnmatchedByID(c.Context(), c.Caller.OrgID, c.PathParam("depositId")))
}

func (a *api) assignUnmatched(c *call, body AssignRequest) (resource.UnmatchedPayment, error) {
	return showUnmatched(a.conf.Checkouts.AssignUnmatched(
		c.Context(), c.Caller.OrgID, c.PathParam("depositId"), body.CheckoutID, c.Caller.Actor(),
	))
}

func (a *api) listUnmatched(c *call) (kernel.Page[resource.UnmatchedPayment], error) {
	const list = "unmatched-payments"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[resource.UnmatchedPayment]{}, err
	}
	found, err := a.conf.Checkouts.ListUnmatched(c.Context(), c.Caller.OrgID, unmatchedFilter(c), p)
	if err != nil {
		return kernel.Page[resource.UnmatchedPayment]{}, err
	}
	return kernel.NewPage(c.Request, list, found, resource.ShowUnmatched), nil
}

func unmatchedFilter(c *call) checkout.UnmatchedFilter {
	return checkout.UnmatchedFilter{
		SeenAfter: c.Query.TimeOrZero("createdAfter"), SeenBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) exportUnmatched(c *call) (kernel.Rows[resource.UnmatchedPayment], error) {
	return func(ctx context.Context, desc bool, row func(resource.UnmatchedPayment) error) error {
		return a.conf.Checkouts.ForEachUnmatched(ctx, c.Caller.OrgID, unmatchedFilter(c), desc,
			func(found checkout.Unmatched) error { return row(resource.ShowUnmatched(found)) })
	}, nil
}

// readUnmatchedRefund translates the body of POST /unmatched-payments/{depositId}/refund. Error: fault INVALID_REQUEST.
func readUnmatchedRefund(c *call, body UnmatchedRefundRequest) (r checkout.UnmatchedRefund, err error) {
	r = checkout.UnmatchedRefund{
		DepositID: c.PathParam("depositId"), ToAddress: body.ToAddress, Reason: body.Reason,
		IdempotencyKey: body.IdempotencyKey, Actor: c.Caller.Actor(),
	}
	r.FeeMode, err = readFeeMode(body.FeeMode)
	return r, err
}

// answerKnownUnmatchedRefund is answerKnownRefund for an unmatched payment. Rules CO-108, IDEM-5.
func (a *api) answerKnownUnmatchedRefund(c *call) (shown webhook.Refund, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // refundUnmatched refuses two different keys
	}
	found, isKnown, err := a.conf.Checkouts.FindRefundByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body UnmatchedRefundRequest
	differs := c.DecodeBody(&body) != nil
	r, err := readUnmatchedRefund(c, body)
	if !differs && err == nil {
		differs, err = a.conf.Checkouts.DiffersUnmatched(c.Context(), c.Caller.OrgID, found, r)
	}
	shown, err = replayRefund(c, found, differs || err != nil)
	return shown, err == nil, err
}

func (a *api) refundUnmatched(c *call, body UnmatchedRefundRequest) (webhook.Refund, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.Refund{}, err
	}
	body.IdempotencyKey = key
	r, err := readUnmatchedRefund(c, body)
	if err != nil {
		return webhook.Refund{}, err
	}
	if err := a.checkClaimable(r.ToAddress); err != nil {
		return webhook.Refund{}, err
	}
	made, claimKey, isReplayed, err := a.conf.Checkouts.RefundUnmatched(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Refund{}, err
	}
	if isReplayed {
		differs, err := a.conf.Checkouts.DiffersUnmatched(c.Context(), c.Caller.OrgID, made, r)
		return replayRefund(c, made, differs || err != nil)
	}
	return wire.ClaimableRefund(made, a.conf.Checkouts.ClaimPage(made.ID, claimKey)), nil
}
