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

// RefundRequest is the body of POST /checkouts/{checkoutId}/refunds.
type RefundRequest struct {
	Amount         string  `json:"amount" doc:"What is given back: whole atomic units in ASCII digits without sign, exponent and leading zero, or one of two words. FULL: all that is credited in the mint and not refunded. OVERPAID: what is credited above the amount due, at the price of each payment." bounds:"minLength=1" example:"OVERPAID"`
	MintID         *int    `json:"mintId,omitempty" doc:"The mint that is given back, one that was paid. Needed where several can be refunded." bounds:"minimum=1"`
	ToAddress      *string `json:"toAddress,omitempty" doc:"Where it goes, on the chain of the payment. If it is left out, the answer has claimUrl, on which the payer says it. An exchange pays from addresses that are not its customer's, so ask the payer." bounds:"minLength=1,maxLength=128" example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	FeeMode        *string `json:"feeMode,omitempty" doc:"Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin of a chain only: the payer receives the amount less the fee." example:"ORGANIZATION"`
	Reason         *string `json:"reason,omitempty" doc:"Why, in your own words, which no payer sees. It is kept with the refund and in the audit log." bounds:"minLength=1,maxLength=1000" example:"The parcel came back."`
	IdempotencyKey *string `json:"idempotencyKey,omitempty" doc:"Your name for this refund: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"refund-77"`
}

var replayedRefundHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call made no other refund and returns the refund as it is now.",
}

// refundRoutes are the calls about refunds of checkouts. Rules CO-90 to CO-92.
func (a *api) refundRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/checkouts/{checkoutId}/refunds", Name: "createRefund",
			Action: identity.RefundCheckout, Group: "Refunds",
			Summary: "Refund a checkout",
			Text: "Gives back what was credited for a checkout, in the coin and on the network of the payment. The " +
				"amount leaves the balance of your product CHECKOUT at once and is owed to the payer. With toAddress " +
				"it is paid there, with the checks and approvals of your own withdrawals but without the whitelist. " +
				"Without it the answer has claimUrl once: the payer says there where it goes, within 30 days. An " +
				"address that cannot be paid brings the refund back to AWAITING_ADDRESS, and problem says why. " +
				"CHECKOUT_REFUNDED announces the paid refund to endpoints that name it. With an idempotencyKey the " +
				"same request returns the same refund as it is now, without claimUrl, and the same key with other " +
				"parameters is refused with 409 IDEMPOTENCY_CONFLICT; reason is no parameter. A key never expires. " +
				"Without a key every call makes another refund. A 4xx means that this request held and sent nothing. " +
				"After a 5xx or no answer, repeat with the same key, and get a new claimUrl from POST " +
				"/refunds/{refundId}/claim-key.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownRefund),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The refund. For a known key, the refund as it is now.",
				Headers: []kernel.Header{replayedRefundHeader},
			}},
			Faults: []fault.Code{
				fault.IdempotencyKeyMismatch, fault.IdempotencyConflict, fault.CodeNotFound, fault.OrganizationFrozen,
				fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress, fault.RefundExceedsPayment,
				fault.InsufficientBalance, fault.WithdrawalsSuspended,
			},
			Handler: kernel.HandleBody(a.createRefund,
				RefundRequest{Amount: string(checkout.OverpaidRefund), IdempotencyKey: new("refund-77")},
				resource.ExampleRefund,
			),
		},
		{
			Method: http.MethodGet, Path: "/refunds", Name: "listRefunds",
			Action: identity.ReadOrganization, Group: "Refunds",
			Summary: "List refunds",
			Text:    "The organization's refunds of checkouts. The table has no parts." + csvText,
			Query: kernel.ListParameters(
				kernel.Parameter{
					Name: "checkoutId", Kind: kernel.TextParameter, Max: 40, Text: "Only of this checkout.",
				},
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.CheckoutRefundStatuses,
					Text: "Only in this status.",
				},
			),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of refunds."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listRefunds, kernel.ExamplePage(paidRefundExample())),
			Table:   kernel.ExportTable("refunds", resource.RefundColumns, a.exportRefunds),
		},
		{
			Method: http.MethodGet, Path: "/refunds/{refundId}", Name: "getRefund",
			Action: identity.ReadOrganization, Group: "Refunds",
			Summary: "Read a refund",
			Text:    "One refund of a checkout. claimUrl is null: the service does not know the key of it.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The refund."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getRefund, paidRefundExample()),
		},
		{
			Method: http.MethodPost, Path: "/refunds/{refundId}/cancel", Name: "cancelRefund",
			Action: identity.CancelRefund, Group: "Refunds",
			Summary: "Cancel a refund",
			Text: "Takes a refund back before a withdrawal pays it. Its amount is in the balance of your product " +
				"CHECKOUT again, and its claimUrl is worth nothing. A cancelled one stays as it is. 409 " +
				"INVALID_STATE says what became of the money of any other.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The cancelled refund."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.Handle(a.cancelRefund, cancelledRefundExample()),
		},
		{
			Method: http.MethodPost, Path: "/refunds/{refundId}/claim-key", Name: "replaceClaimKey",
			Action: identity.RefundCheckout, Group: "Refunds",
			Summary: "Give a refund a new claim key",
			Text: "Makes a new claimUrl for a refund that is AWAITING_ADDRESS, and makes the one before worthless. " +
				"Only this answer has it. If the answer is lost, call again.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The refund with its new claimUrl."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.replaceClaimKey, resource.ExampleRefund),
		},
	}
}

func paidRefundExample() webhook.Refund {
	r := resource.ExampleRefund
	r.Status, r.Attempt, r.ClaimURL = string(checkout.RefundCompleted), 1, nil
	r.ToAddress, r.AddressProven = new(resource.ExampleDestination), true
	r.WithdrawalID, r.TxHash = new(resource.ExampleWithdrawal.WithdrawalID), resource.ExampleWithdrawal.TxHash
	r.CompletedAt = &resource.ExampleAt
	return r
}

func cancelledRefundExample() webhook.Refund {
	r := resource.ExampleRefund
	r.Status, r.ClaimURL = string(checkout.RefundCancelled), nil
	return r
}

// readRefund translates the body of POST /checkouts/{checkoutId}/refunds. Error: fault INVALID_REQUEST.
func readRefund(c *call, body RefundRequest) (r checkout.RefundRequest, err error) {
	r = checkout.RefundRequest{
		CheckoutID: c.PathParam("checkoutId"), MintID: body.MintID, ToAddress: body.ToAddress, Reason: body.Reason,
		IdempotencyKey: body.IdempotencyKey, Actor: c.Caller.Actor(),
	}
	switch kind := checkout.RefundKind(body.Amount); kind {
	case checkout.FullRefund, checkout.OverpaidRefund:
		r.Kind = kind
	default:
		r.Amount = &body.Amount
	}
	r.FeeMode, err = readFeeMode(body.FeeMode)
	return r, err
}

// answerKnownRefund looks the key of a request up, before anything else of it can refuse it. Rules CO-92, IDEM-5.
func (a *api) answerKnownRefund(c *call) (shown webhook.Refund, isKnown bool, err error) {
	key, err := idempotencyKey(c.Header, resource.OptionalText(c.TextMember("idempotencyKey")))
	if err != nil || key == nil {
		return shown, false, nil // createRefund refuses two different keys
	}
	found, isKnown, err := a.conf.Checkouts.FindRefundByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	var body RefundRequest
	differs := c.DecodeBody(&body) != nil
	r, err := readRefund(c, body)
	shown, err = replayRefund(c, found, differs || err != nil || found.Differs(r))
	return shown, err == nil, err
}

// replayRefund answers with a refund that another request made, without its claim key.
func replayRefund(c *call, found checkout.Refund, differs bool) (webhook.Refund, error) {
	if differs {
		return webhook.Refund{}, newKeyConflict("refund", found.ID)
	}
	c.AnswerHeader.Set("Idempotent-Replayed", "true")
	return wire.Refund(found), nil
}

func (a *api) createRefund(c *call, body RefundRequest) (webhook.Refund, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.Refund{}, err
	}
	body.IdempotencyKey = key
	r, err := readRefund(c, body)
	if err != nil {
		return webhook.Refund{}, err
	}
	if err := a.checkClaimable(r.ToAddress); err != nil {
		return webhook.Refund{}, err
	}
	made, claimKey, isReplayed, err := a.conf.Checkouts.RequestRefund(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Refund{}, err
	}
	if isReplayed {
		return replayRefund(c, made, made.Differs(r))
	}
	return wire.ClaimableRefund(made, a.conf.Checkouts.ClaimPage(made.ID, claimKey)), nil
}

// checkClaimable refuses a refund without an address where no page asks the payer for it.
func (a *api) checkClaimable(toAddress *string) error {
	if toAddress != nil || a.conf.Checkouts.ClaimURL != nil {
		return nil
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"This installation has no pages on which a payer could say where the refund goes.").
		WithAdvice("Ask the payer for an address, and send it as toAddress.").WithParam("toAddress")
}

func showRefund(r checkout.Refund, err error) (webhook.Refund, error) {
	if err != nil {
		return webhook.Refund{}, err
	}
	return wire.Refund(r), nil
}

func (a *api) getRefund(c *call) (webhook.Refund, error) {
	return showRefund(a.conf.Checkouts.RefundByID(c.Context(), c.Caller.OrgID, c.PathParam("refundId")))
}

func (a *api) cancelRefund(c *call) (webhook.Refund, error) {
	return showRefund(a.conf.Checkouts.CancelRefund(
		c.Context(), c.Caller.OrgID, c.PathParam("refundId"), c.Caller.Actor(),
	))
}

// replaceClaimKey gives a refund a new page for its payer. Rule CO-91.
func (a *api) replaceClaimKey(c *call) (webhook.Refund, error) {
	if a.conf.Checkouts.ClaimURL == nil {
		return webhook.Refund{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"This installation has no pages on which a payer could say where the refund goes.").
			WithAdvice("Cancel the refund, and make another one with toAddress.")
	}
	r, claimKey, err := a.conf.Checkouts.ReissueRefundKey(
		c.Context(), c.Caller.OrgID, c.PathParam("refundId"), c.Caller.Actor(),
	)
	if err != nil {
		return webhook.Refund{}, err
	}
	return wire.ClaimableRefund(r, a.conf.Checkouts.ClaimPage(r.ID, claimKey)), nil
}

func refundFilter(c *call) checkout.RefundFilter {
	return checkout.RefundFilter{
		CheckoutID: c.Query["checkoutId"], Status: c.Query["status"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listRefunds(c *call) (kernel.Page[webhook.Refund], error) {
	const list = "refunds"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.Refund]{}, err
	}
	found, err := a.conf.Checkouts.ListRefunds(c.Context(), c.Caller.OrgID, refundFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.Refund]{}, err
	}
	return kernel.NewPage(c.Request, list, found, wire.Refund), nil
}

func (a *api) exportRefunds(c *call) (kernel.Rows[webhook.Refund], error) {
	return func(ctx context.Context, desc bool, row func(webhook.Refund) error) error {
		return a.conf.Checkouts.ForEachRefund(ctx, c.Caller.OrgID, refundFilter(c), desc,
			func(found checkout.Refund) error { return row(wire.Refund(found)) })
	}, nil
}
