package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// WithdrawRequest is the body of POST /withdraw. The booleans take no null: a
// null where true was meant must not pass for false.
type WithdrawRequest struct {
	MintID          int                `json:"mintId"`
	CustomerID      string             `json:"customerId"`
	Amount          string             `json:"amount"`
	ToAddress       string             `json:"toAddress"`
	UseDecimal      bool               `json:"useDecimal,omitempty"`
	RequireApproval bool               `json:"requireApproval,omitempty"`
	IdempotencyKey  *string            `json:"idempotencyKey,omitempty"`
	Memo            *string            `json:"memo,omitempty"`
	FeeMode         *string            `json:"feeMode,omitempty"`
	Reference       *string            `json:"reference,omitempty"`
	Metadata        *map[string]string `json:"metadata,omitempty"`
}

func (a *api) createWithdrawal(c *call) (answer, error) {
	var body WithdrawRequest
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
	r := withdrawal.Request{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		ToAddress: body.ToAddress, RequireApproval: body.RequireApproval, IdempotencyKey: key,
		Memo: body.Memo, Reference: body.Reference, Actor: audit.APIKey(c.org),
		Limit: func() error { return a.limit(c) },
	}
	if body.FeeMode != nil {
		if r.FeeMode = *body.FeeMode; r.FeeMode == "" {
			return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, "The only feeMode is ORGANIZATION."+untouched+" Leave feeMode out or send ORGANIZATION.").On("feeMode")
		}
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	w, known, err := a.conf.Withdrawals.Request(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	if known {
		c.warn.Set("Idempotent-Replayed", "true")
	}
	return answer{status: http.StatusAccepted, body: w}, nil
}

// idempotencyKey reads the key from the body and from its header.
func idempotencyKey(h http.Header, inBody *string) (*string, error) {
	values := h["Idempotency-Key"]
	if len(values) == 0 {
		return inBody, nil
	}
	for _, v := range values {
		if v != values[0] || inBody != nil && v != *inBody {
			return nil, fault.New(fault.Invalid, fault.IdempotencyKeyMismatch,
				"The request gives two different idempotency keys, in its body and in the header Idempotency-Key."+untouched+" Give one.").On("idempotencyKey")
		}
	}
	return &values[0], nil
}

var withdrawalStatuses = []string{
	string(withdrawal.AwaitingApproval), string(withdrawal.Processing), string(withdrawal.Broadcast),
	string(withdrawal.Completed), string(withdrawal.Failed), string(withdrawal.Rejected), string(withdrawal.Cancelled), "BLOCKED",
}

var withdrawalColumns = []column[webhook.Withdrawal]{
	{"withdrawalId", func(w webhook.Withdrawal) string { return w.WithdrawalID }},
	{"createdAt", func(w webhook.Withdrawal) string { return w.CreatedAt.String() }},
	{"idempotencyKey", func(w webhook.Withdrawal) string { return text(w.IdempotencyKey) }},
	{"reference", func(w webhook.Withdrawal) string { return text(w.Reference) }},
	{"customerId", func(w webhook.Withdrawal) string { return w.CustomerID }},
	{"mintId", func(w webhook.Withdrawal) string { return strconv.Itoa(w.MintID) }},
	{"symbol", func(w webhook.Withdrawal) string { return w.Mint.Symbol }},
	{"chain", func(w webhook.Withdrawal) string { return w.Mint.Chain }},
	{"amount", func(w webhook.Withdrawal) string { return w.Amount }},
	{"amountDecimal", func(w webhook.Withdrawal) string { return w.AmountDecimal }},
	{"usdValue", func(w webhook.Withdrawal) string { return text(w.USDValue) }},
	{"toAddress", func(w webhook.Withdrawal) string { return w.ToAddress }},
	{"networkFee", func(w webhook.Withdrawal) string { return text(w.NetworkFee) }},
	{"networkFeeMintId", func(w webhook.Withdrawal) string { return number(w.NetworkFeeMintID) }},
	{"feeMode", func(w webhook.Withdrawal) string { return w.FeeMode }},
	{"status", func(w webhook.Withdrawal) string { return w.Status }},
	{"chainStatus", func(w webhook.Withdrawal) string { return w.ChainStatus }},
	{"requiresApproval", func(w webhook.Withdrawal) string { return strconv.FormatBool(w.RequiresApproval) }},
	{"approvalReasons", func(w webhook.Withdrawal) string { return strings.Join(w.ApprovalReasons, " ") }},
	{"txHash", func(w webhook.Withdrawal) string { return text(w.TxHash) }},
	{"failureReason", func(w webhook.Withdrawal) string { return text(w.FailureReason) }},
	{"rejectedReason", func(w webhook.Withdrawal) string { return text(w.RejectedReason) }},
	{"approvedAt", func(w webhook.Withdrawal) string { return moment(w.ApprovedAt) }},
	{"broadcastAt", func(w webhook.Withdrawal) string { return moment(w.BroadcastAt) }},
	{"completedAt", func(w webhook.Withdrawal) string { return moment(w.CompletedAt) }},
	{"metadata", func(w webhook.Withdrawal) string { return handles(w.Metadata) }},
}

func (a *api) listWithdrawals(c *call) (answer, error) {
	f := withdrawal.Filter{
		CustomerID: c.query["customerId"], Status: c.query["status"], MintID: c.query.number("mintId"), Chain: c.query["chain"],
		CreatedAfter: c.query.time("createdAfter"), CreatedBefore: c.query.time("createdBefore"),
		TxHash: sameHash(c.query["txHash"]), Address: c.query["address"], Reference: c.query["reference"], IdempotencyKey: c.query["idempotencyKey"],
	}
	if c.table {
		return exported(a, c, "withdrawals", withdrawalColumns, func(ctx context.Context, desc bool, row func(webhook.Withdrawal) error) error {
			return a.conf.Withdrawals.Each(ctx, c.org, f, desc, row)
		})
	}
	p, err := a.place(c, "withdrawals")
	if err != nil {
		return answer{}, err
	}
	found, err := a.conf.Withdrawals.List(c.Context(), c.org, f, p)
	if err != nil {
		return answer{}, err
	}
	same := func(w webhook.Withdrawal) webhook.Withdrawal { return w }
	return answer{status: http.StatusOK, body: listed(a, c, "withdrawals", found, same)}, nil
}

func (a *api) getWithdrawal(c *call) (answer, error) {
	w, err := a.conf.Withdrawals.ByID(c.Context(), c.org, c.param("withdrawalId"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: w}, nil
}
