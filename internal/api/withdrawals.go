package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/trace"
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
	MaxNetworkFee   *string            `json:"maxNetworkFee,omitempty"`
	Reference       *string            `json:"reference,omitempty"`
	Metadata        *map[string]string `json:"metadata,omitempty"`
	TravelRule      *json.RawMessage   `json:"travelRule,omitempty"`
}

// EstimateRequest is the body of POST /withdraw/estimate: the body of POST /withdraw,
// of which only the mint has to be known.
type EstimateRequest struct {
	MintID          int                `json:"mintId"`
	CustomerID      *string            `json:"customerId,omitempty"`
	Amount          *string            `json:"amount,omitempty"`
	ToAddress       *string            `json:"toAddress,omitempty"`
	UseDecimal      bool               `json:"useDecimal,omitempty"`
	RequireApproval bool               `json:"requireApproval,omitempty"`
	IdempotencyKey  *string            `json:"idempotencyKey,omitempty"`
	Memo            *string            `json:"memo,omitempty"`
	FeeMode         *string            `json:"feeMode,omitempty"`
	MaxNetworkFee   *string            `json:"maxNetworkFee,omitempty"`
	Reference       *string            `json:"reference,omitempty"`
	Metadata        *map[string]string `json:"metadata,omitempty"`
	TravelRule      *json.RawMessage   `json:"travelRule,omitempty"`
}

// Estimate is what a withdrawal would cost.
type Estimate struct {
	NetworkFee       string  `json:"networkFee"`
	NetworkFeeMintID *int    `json:"networkFeeMintId"`
	NetworkFeeUSD    *string `json:"networkFeeUsd"`
	MaxAmount        *string `json:"maxAmount"`

	CustomerCharge *webhook.CustomerCharge `json:"customerCharge,omitempty"`

	ExpiresAt webhook.Time `json:"expiresAt"`
}

// GateResult is what one rule said, with what it looked at.
type GateResult struct {
	Gate   string `json:"gate"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`

	Severity        string `json:"severity,omitempty"`
	Provider        string `json:"provider,omitempty"`
	USDValue        string `json:"usdValue,omitempty"`
	Threshold       string `json:"threshold,omitempty"`
	Price           string `json:"price,omitempty"`
	PriceAt         string `json:"priceAt,omitempty"`
	PriceAgeSeconds string `json:"priceAgeSeconds,omitempty"`
	PriceSource     string `json:"priceSource,omitempty"`
	Minimum         string `json:"minimum,omitempty"`
	Available       string `json:"available,omitempty"`
	Liquid          string `json:"liquid,omitempty"`
	NetworkFee      string `json:"networkFee,omitempty"`
	MaxNetworkFee   string `json:"maxNetworkFee,omitempty"`
	CostsUSD        string `json:"costsUsd,omitempty"`
	RentMax         string `json:"rentMax,omitempty"`
	FailureMax      string `json:"failureMax,omitempty"`
	Resembles       string `json:"resembles,omitempty"`
	FailedID        string `json:"failedWithdrawalId,omitempty"`
	Freeze          string `json:"freeze,omitempty"`
	Scope           string `json:"scope,omitempty"`
	Code            string `json:"code,omitempty"`
	Why             string `json:"why,omitempty"`
}

// Preview is what would become of a withdrawal.
type Preview struct {
	WouldBe          string                   `json:"wouldBe"`
	ApprovalReasons  webhook.List[string]     `json:"approvalReasons"`
	Gates            webhook.List[GateResult] `json:"gates"`
	NetworkFee       *string                  `json:"networkFee"`
	NetworkFeeMintID *int                     `json:"networkFeeMintId"`
	CustomerCharge   *webhook.CustomerCharge  `json:"customerCharge,omitempty"`
	ExistingID       *string                  `json:"existingId,omitempty"`
}

// Decision is one decision about a withdrawal.
type Decision struct {
	At              webhook.Time             `json:"at"`
	Act             string                   `json:"act"`
	Actor           *webhook.Actor           `json:"actor"`
	Status          string                   `json:"status"`
	ApprovalReasons webhook.List[string]     `json:"approvalReasons"`
	Gates           webhook.List[GateResult] `json:"gates"`
	Note            *string                  `json:"note"`
}

// Decisions are all that was decided about a withdrawal.
type Decisions struct {
	Data []Decision `json:"data"`
}

// request reads the body of a withdrawal, whether it is to be made or only asked about.
func (a *api) request(c *call) (withdrawal.Request, error) {
	var none withdrawal.Request
	var body WithdrawRequest
	if err := decode(c.body, &body); err != nil {
		return none, err
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return none, err
	}
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return none, err
	}
	r := withdrawal.Request{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		ToAddress: body.ToAddress, RequireApproval: body.RequireApproval, IdempotencyKey: key,
		Memo: body.Memo, MaxNetworkFee: body.MaxNetworkFee, Reference: body.Reference, Actor: c.actor(),
		Limit: func() error { return a.pass(c) },
	}
	if r.FeeMode, err = feeMode(body.FeeMode); err != nil {
		return none, err
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	if body.TravelRule != nil {
		r.TravelRule = *body.TravelRule
	}
	return r, nil
}

// feeMode reads who pays the fee. Nothing at all is no mode.
func feeMode(given *string) (string, error) {
	if given == nil {
		return "", nil
	}
	if *given == "" {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, "feeMode is ORGANIZATION or DEDUCTED."+untouched+" Leave feeMode out or send one of them.").On("feeMode")
	}
	return *given, nil
}

func (a *api) createWithdrawal(c *call) (answer, error) {
	r, err := a.request(c)
	if err != nil {
		return answer{}, err
	}
	w, known, err := a.conf.Withdrawals.Request(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	trace.Note(c.Context(), w.WithdrawalID)
	if known {
		c.warn.Set("Idempotent-Replayed", "true")
	}
	return answer{status: http.StatusAccepted, body: w}, nil
}

func (a *api) previewWithdrawal(c *call) (answer, error) {
	r, err := a.request(c)
	if err != nil {
		return answer{}, err
	}
	p, err := a.conf.Withdrawals.Preview(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	body := Preview{
		WouldBe: string(p.WouldBe), ApprovalReasons: reasons(p.Reasons), Gates: gates(p.Gates), NetworkFeeMintID: p.NetworkFeeMintID,
		ExistingID: optional(p.ExistingID), CustomerCharge: p.CustomerCharge,
	}
	if p.NetworkFee != nil {
		body.NetworkFee = pointer(p.NetworkFee.String())
	}
	return answer{status: http.StatusOK, body: body}, nil
}

func (a *api) estimateWithdrawal(c *call) (answer, error) {
	var body EstimateRequest
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := mintIDPossible(body.MintID); err != nil {
		return answer{}, err
	}
	mode, err := feeMode(body.FeeMode)
	if err != nil {
		return answer{}, err
	}
	e, err := a.conf.Withdrawals.Estimate(c.Context(), c.org, withdrawal.Estimation{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal, ToAddress: body.ToAddress, FeeMode: mode,
	})
	if err != nil {
		return answer{}, err
	}
	out := Estimate{NetworkFee: e.NetworkFee.String(), NetworkFeeMintID: e.NetworkFeeMintID, CustomerCharge: e.CustomerCharge, ExpiresAt: webhook.At(e.ExpiresAt)}
	if e.NetworkFeeUSD != nil {
		out.NetworkFeeUSD = pointer(e.NetworkFeeUSD.String())
	}
	if e.MaxAmount != nil {
		out.MaxAmount = pointer(e.MaxAmount.String())
	}
	return answer{status: http.StatusOK, body: out}, nil
}

func reasons(of []withdrawal.Reason) (out webhook.List[string]) {
	for _, r := range of {
		out = append(out, string(r))
	}
	return out
}

// gates shows what the rules said. A member that GateResult does not have is a bug.
func gates(steps []withdrawal.Step) (out webhook.List[GateResult]) {
	raw, err := json.Marshal(withdrawal.Flat(steps))
	if err == nil {
		read := json.NewDecoder(bytes.NewReader(raw))
		read.DisallowUnknownFields()
		err = read.Decode(&out)
	}
	if err != nil {
		panic("api: what a gate looked at cannot be shown: " + err.Error())
	}
	return out
}

func (a *api) cancelWithdrawal(c *call) (answer, error) {
	w, err := a.conf.Withdrawals.Cancel(c.Context(), c.org, c.param("withdrawalId"), c.actor())
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: w}, nil
}

func (a *api) listDecisions(c *call) (answer, error) {
	found, err := a.conf.Withdrawals.Decisions(c.Context(), c.org, c.param("withdrawalId"))
	if err != nil {
		return answer{}, err
	}
	body := Decisions{Data: make([]Decision, 0, len(found))}
	for _, d := range found {
		show := Decision{
			At: webhook.At(d.At), Act: string(d.Act), Status: string(d.Status), ApprovalReasons: reasons(d.Reasons), Gates: gates(d.Gates), Note: optional(d.Note),
		}
		if d.Actor.Kind != "" {
			show.Actor = &webhook.Actor{Type: d.Actor.Kind, ID: d.Actor.ID}
		}
		body.Data = append(body.Data, show)
	}
	return answer{status: http.StatusOK, body: body}, nil
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
	string(withdrawal.Completed), string(withdrawal.Failed), string(withdrawal.Rejected), string(withdrawal.Cancelled), string(withdrawal.Blocked),
}

var withdrawalTypes = []string{webhook.OfCustomer, webhook.OfOrganization}

var withdrawalColumns = []column[webhook.Withdrawal]{
	{"withdrawalId", func(w webhook.Withdrawal) string { return w.WithdrawalID }},
	{"createdAt", func(w webhook.Withdrawal) string { return w.CreatedAt.String() }},
	{"type", func(w webhook.Withdrawal) string { return w.Type }},
	{"idempotencyKey", func(w webhook.Withdrawal) string { return text(w.IdempotencyKey) }},
	{"reference", func(w webhook.Withdrawal) string { return text(w.Reference) }},
	{"customerId", func(w webhook.Withdrawal) string { return text(w.CustomerID) }},
	{"product", func(w webhook.Withdrawal) string { return text(w.Product) }},
	{"whitelistedAddressId", func(w webhook.Withdrawal) string { return text(w.WhitelistedAddressID) }},
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
		Type: c.query["type"], CustomerID: c.query["customerId"], Status: c.query["status"], MintID: c.query.number("mintId"), Chain: c.query["chain"],
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
