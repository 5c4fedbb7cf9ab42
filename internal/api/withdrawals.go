package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// WithdrawRequest is the body of POST /withdraw. The booleans take no null: a null where true was
// meant must not count as false.
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

// EstimateRequest is the body of POST /withdraw/estimate: the body of POST /withdraw, of which only
// the mint is required.
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

// Estimate is the estimated cost of a withdrawal.
type Estimate struct {
	NetworkFee       string  `json:"networkFee"`
	NetworkFeeMintID *int    `json:"networkFeeMintId"`
	NetworkFeeUSD    *string `json:"networkFeeUsd"`
	MaxAmount        *string `json:"maxAmount"`

	CustomerCharge *webhook.CustomerCharge `json:"customerCharge,omitempty"`

	ExpiresAt webhook.Time `json:"expiresAt"`
}

// GateResult is the result of one rule, with the values that it checked.
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
	Explanation     string `json:"why,omitempty"`
}

// Preview is the outcome that a withdrawal would have.
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
	DecidedAt       webhook.Time             `json:"at"`
	Act             string                   `json:"act"`
	Actor           *webhook.Actor           `json:"actor"`
	Status          string                   `json:"status"`
	ApprovalReasons webhook.List[string]     `json:"approvalReasons"`
	Gates           webhook.List[GateResult] `json:"gates"`
	Note            *string                  `json:"note"`
}

// Decisions lists all decisions about a withdrawal.
type Decisions struct {
	Data []Decision `json:"data"`
}

// readWithdrawal reads the body of a withdrawal, for a request or a preview.
func (a *api) readWithdrawal(c *call) (withdrawal.Request, error) {
	var empty withdrawal.Request
	var body WithdrawRequest
	if err := decodeBody(c.body, &body); err != nil {
		return empty, err
	}
	if err := checkMintID(body.MintID); err != nil {
		return empty, err
	}
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return empty, err
	}
	r := withdrawal.Request{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		ToAddress: body.ToAddress, RequireApproval: body.RequireApproval, IdempotencyKey: key,
		Memo: body.Memo, MaxNetworkFee: body.MaxNetworkFee, Reference: body.Reference, Actor: c.auditActor(),
		Limit: func() error { return a.checkScopeAndRate(c) },
	}
	if r.FeeMode, err = readFeeMode(body.FeeMode); err != nil {
		return empty, err
	}
	if body.Metadata != nil {
		r.Metadata = *body.Metadata
	}
	if body.TravelRule != nil {
		r.TravelRule = *body.TravelRule
	}
	return r, nil
}

// readFeeMode reads who pays the fee. An empty text is refused.
func readFeeMode(text *string) (string, error) {
	if text == nil {
		return "", nil
	}
	if *text == "" {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"feeMode has to be ORGANIZATION or DEDUCTED.").
			WithAdvice("Leave feeMode out or send one of them.").WithParam("feeMode")
	}
	return *text, nil
}

// Rule WD-1.
func (a *api) createWithdrawal(c *call) (answer, error) {
	r, err := a.readWithdrawal(c)
	if err != nil {
		return answer{}, err
	}
	w, isReplay, err := a.conf.Withdrawals.Request(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	trace.LinkTo(c.Context(), w.WithdrawalID)
	if isReplay {
		c.header.Set("Idempotent-Replayed", "true")
	}
	return answer{status: http.StatusAccepted, body: w}, nil
}

func (a *api) previewWithdrawal(c *call) (answer, error) {
	r, err := a.readWithdrawal(c)
	if err != nil {
		return answer{}, err
	}
	p, err := a.conf.Withdrawals.Preview(c.Context(), c.org, r)
	if err != nil {
		return answer{}, err
	}
	body := Preview{
		WouldBe: string(p.WouldBe), ApprovalReasons: reasonTexts(p.Reasons), Gates: showGates(p.Gates),
		NetworkFeeMintID: p.NetworkFeeMintID,
		ExistingID:       optionalText(p.ExistingID), CustomerCharge: p.CustomerCharge,
	}
	if p.NetworkFee != nil {
		body.NetworkFee = pointerTo(p.NetworkFee.String())
	}
	return answer{status: http.StatusOK, body: body}, nil
}

func (a *api) estimateWithdrawal(c *call) (answer, error) {
	var body EstimateRequest
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	if err := checkMintID(body.MintID); err != nil {
		return answer{}, err
	}
	mode, err := readFeeMode(body.FeeMode)
	if err != nil {
		return answer{}, err
	}
	e, err := a.conf.Withdrawals.Estimate(c.Context(), c.org, withdrawal.EstimateRequest{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		ToAddress: body.ToAddress, FeeMode: mode,
	})
	if err != nil {
		return answer{}, err
	}
	shown := Estimate{
		NetworkFee: e.NetworkFee.String(), NetworkFeeMintID: e.NetworkFeeMintID, CustomerCharge: e.CustomerCharge,
		ExpiresAt: webhook.At(e.ExpiresAt),
	}
	if e.NetworkFeeUSD != nil {
		shown.NetworkFeeUSD = pointerTo(e.NetworkFeeUSD.String())
	}
	if e.MaxAmount != nil {
		shown.MaxAmount = pointerTo(e.MaxAmount.String())
	}
	return answer{status: http.StatusOK, body: shown}, nil
}

func reasonTexts(reasons []withdrawal.Reason) (texts webhook.List[string]) {
	for _, r := range reasons {
		texts = append(texts, string(r))
	}
	return texts
}

// showGates converts the results of the rules. It panics on a member that GateResult does not have,
// which is a bug.
func showGates(steps []withdrawal.Step) (results webhook.List[GateResult]) {
	raw, err := json.Marshal(withdrawal.FlattenSteps(steps))
	if err == nil {
		read := json.NewDecoder(bytes.NewReader(raw))
		read.DisallowUnknownFields()
		err = read.Decode(&results)
	}
	if err != nil {
		panic("api: cannot show the facts of a rule: " + err.Error())
	}
	return results
}

func (a *api) cancelWithdrawal(c *call) (answer, error) {
	w, err := a.conf.Withdrawals.Cancel(c.Context(), c.org, c.pathParam("withdrawalId"), c.auditActor())
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: w}, nil
}

func (a *api) listDecisions(c *call) (answer, error) {
	found, err := a.conf.Withdrawals.ListDecisions(c.Context(), c.org, c.pathParam("withdrawalId"))
	if err != nil {
		return answer{}, err
	}
	body := Decisions{Data: make([]Decision, 0, len(found))}
	for _, d := range found {
		show := Decision{
			DecidedAt: webhook.At(d.DecidedAt), Act: string(d.Act), Status: string(d.Status),
			ApprovalReasons: reasonTexts(d.Reasons), Gates: showGates(d.Gates), Note: optionalText(d.Note),
		}
		if d.Actor.Kind != "" {
			show.Actor = &webhook.Actor{Type: d.Actor.Kind, ID: d.Actor.ID}
		}
		body.Data = append(body.Data, show)
	}
	return answer{status: http.StatusOK, body: body}, nil
}

// idempotencyKey reads the key from the body and from its header. Rule IDEM-5.
func idempotencyKey(h http.Header, inBody *string) (*string, error) {
	values := h["Idempotency-Key"]
	if len(values) == 0 {
		return inBody, nil
	}
	for _, v := range values {
		if v != values[0] || inBody != nil && v != *inBody {
			return nil, fault.New(fault.Invalid, fault.IdempotencyKeyMismatch, fault.NothingWritten,
				"The request gives two different idempotency keys, in its body and in the header "+
					"Idempotency-Key.").
				WithAdvice("Give one.").
				WithParam("idempotencyKey")
		}
	}
	return &values[0], nil
}

var withdrawalStatuses = []string{
	string(withdrawal.AwaitingApproval), string(withdrawal.Processing), string(withdrawal.Broadcast),
	string(withdrawal.Completed), string(withdrawal.Failed), string(withdrawal.Rejected), string(withdrawal.Cancelled),
	string(withdrawal.Blocked),
}

var withdrawalTypes = []string{webhook.OfCustomer, webhook.OfOrganization}

var withdrawalColumns = []column[webhook.Withdrawal]{
	{"withdrawalId", func(w webhook.Withdrawal) string { return w.WithdrawalID }},
	{"createdAt", func(w webhook.Withdrawal) string { return w.CreatedAt.String() }},
	{"type", func(w webhook.Withdrawal) string { return w.Type }},
	{"idempotencyKey", func(w webhook.Withdrawal) string { return textOrEmpty(w.IdempotencyKey) }},
	{"reference", func(w webhook.Withdrawal) string { return textOrEmpty(w.Reference) }},
	{"customerId", func(w webhook.Withdrawal) string { return textOrEmpty(w.CustomerID) }},
	{"product", func(w webhook.Withdrawal) string { return textOrEmpty(w.Product) }},
	{"whitelistedAddressId", func(w webhook.Withdrawal) string { return textOrEmpty(w.WhitelistedAddressID) }},
	{"mintId", func(w webhook.Withdrawal) string { return strconv.Itoa(w.MintID) }},
	{"symbol", func(w webhook.Withdrawal) string { return w.Mint.Symbol }},
	{"chain", func(w webhook.Withdrawal) string { return w.Mint.Chain }},
	{"amount", func(w webhook.Withdrawal) string { return w.Amount }},
	{"amountDecimal", func(w webhook.Withdrawal) string { return w.AmountDecimal }},
	{"usdValue", func(w webhook.Withdrawal) string { return textOrEmpty(w.USDValue) }},
	{"toAddress", func(w webhook.Withdrawal) string { return w.ToAddress }},
	{"networkFee", func(w webhook.Withdrawal) string { return textOrEmpty(w.NetworkFee) }},
	{"networkFeeMintId", func(w webhook.Withdrawal) string { return numberOrEmpty(w.NetworkFeeMintID) }},
	{"feeMode", func(w webhook.Withdrawal) string { return w.FeeMode }},
	{"status", func(w webhook.Withdrawal) string { return w.Status }},
	{"chainStatus", func(w webhook.Withdrawal) string { return w.ChainStatus }},
	{"requiresApproval", func(w webhook.Withdrawal) string { return strconv.FormatBool(w.RequiresApproval) }},
	{"approvalReasons", func(w webhook.Withdrawal) string { return strings.Join(w.ApprovalReasons, " ") }},
	{"txHash", func(w webhook.Withdrawal) string { return textOrEmpty(w.TxHash) }},
	{"failureReason", func(w webhook.Withdrawal) string { return textOrEmpty(w.FailureReason) }},
	{"rejectedReason", func(w webhook.Withdrawal) string { return textOrEmpty(w.RejectedReason) }},
	{"approvedAt", func(w webhook.Withdrawal) string { return timeOrEmpty(w.ApprovedAt) }},
	{"broadcastAt", func(w webhook.Withdrawal) string { return timeOrEmpty(w.BroadcastAt) }},
	{"completedAt", func(w webhook.Withdrawal) string { return timeOrEmpty(w.CompletedAt) }},
	{"metadata", func(w webhook.Withdrawal) string { return metadataJSON(w.Metadata) }},
}

func (a *api) listWithdrawals(c *call) (answer, error) {
	f := withdrawal.Filter{
		Type: c.query["type"], CustomerID: c.query["customerId"], Status: c.query["status"],
		MintID: c.query.numberValue("mintId"), Chain: c.query["chain"],
		CreatedAfter:  timeOrZero(c.query.timeValue("createdAfter")),
		CreatedBefore: timeOrZero(c.query.timeValue("createdBefore")),
		TxHash:        canonicalHash(c.query["txHash"]), Address: c.query["address"], Reference: c.query["reference"],
		IdempotencyKey: c.query["idempotencyKey"],
	}
	if c.table {
		return csvExport(a, c, "withdrawals", withdrawalColumns,
			func(ctx context.Context, desc bool, row func(webhook.Withdrawal) error) error {
				return a.conf.Withdrawals.ForEach(ctx, c.org, f, desc, row)
			})
	}
	p, err := a.readPage(c, "withdrawals")
	if err != nil {
		return answer{}, err
	}
	found, err := a.conf.Withdrawals.List(c.Context(), c.org, f, p)
	if err != nil {
		return answer{}, err
	}
	identity := func(w webhook.Withdrawal) webhook.Withdrawal { return w }
	return answer{status: http.StatusOK, body: newPage(a, c, "withdrawals", found, identity)}, nil
}

func (a *api) getWithdrawal(c *call) (answer, error) {
	w, err := a.conf.Withdrawals.ByID(c.Context(), c.org, c.pathParam("withdrawalId"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: w}, nil
}
