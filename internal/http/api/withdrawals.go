package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// WithdrawRequest is the body of POST /withdraw. The booleans take no null: a null where true was
// meant must not count as false.
type WithdrawRequest struct {
	MintID          int                `json:"mintId" bounds:"minimum=1"`
	CustomerID      string             `json:"customerId"`
	Amount          string             `json:"amount" doc:"Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as the mint has decimals. ASCII digits without sign, exponent and leading zero." bounds:"minLength=1" example:"5000000"`
	ToAddress       string             `json:"toAddress" doc:"Where the money goes. An EVM address with mixed case has to carry its EIP-55 checksum." bounds:"minLength=1,maxLength=128" example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	UseDecimal      bool               `json:"useDecimal,omitempty"`
	RequireApproval bool               `json:"requireApproval,omitempty"`
	IdempotencyKey  *string            `json:"idempotencyKey,omitempty"`
	Memo            *string            `json:"memo,omitempty" doc:"Leave it out: no chain of this installation has memos." bounds:"maxLength=128"`
	FeeMode         *string            `json:"feeMode,omitempty"`
	MaxNetworkFee   *string            `json:"maxNetworkFee,omitempty"`
	Reference       *string            `json:"reference,omitempty" bounds:"minLength=1,maxLength=255"`
	Metadata        *map[string]string `json:"metadata,omitempty" bounds:"maxProperties=20"`
	TravelRule      *json.RawMessage   `json:"travelRule,omitempty"`
}

// EstimateRequest is the body of POST /withdraw/estimate: the body of POST /withdraw, of which only
// the mint is required.
type EstimateRequest struct {
	MintID          int                `json:"mintId" bounds:"minimum=1"`
	CustomerID      *string            `json:"customerId,omitempty"`
	Amount          *string            `json:"amount,omitempty" doc:"As in POST /withdraw." bounds:"minLength=1" example:"5000000"`
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
	NetworkFee       string  `json:"networkFee" doc:"The highest network fee, in atomic units of the native coin." form:"amount"`
	NetworkFeeMintID *int    `json:"networkFeeMintId"`
	NetworkFeeUSD    *string `json:"networkFeeUsd" doc:"The same in dollars, exactly; null without a recent price of the coin." form:"decimal" example:"0.0125"`
	MaxAmount        *string `json:"maxAmount" doc:"How much the customer can withdraw now; null when no customer was named. In either feeMode no fee is added to it. It does not count what customerCharge holds." form:"amount"`

	CustomerCharge *webhook.CustomerCharge `json:"customerCharge,omitempty"`

	ExpiresAt webhook.Time `json:"expiresAt" doc:"The end of the estimate's validity: ask again after it."`
}

// GateResult is the result of one rule, with the values that it checked.
type GateResult struct {
	Gate   string `json:"gate" doc:"The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL, USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. Rules may be added without notice." example:"USD_THRESHOLD"`
	Result string `json:"result" doc:"PASS, HOLD, REFUSE, BLOCK (the call answers 451), SKIPPED (the rule would hold, and the approval allowlist has the customer), or NOT_CONFIGURED when the rule has nothing to check. Results may be added without notice." example:"HOLD"`
	Reason string `json:"reason,omitempty" doc:"The approvalReason that the rule gave."`

	Severity        string `json:"severity,omitempty" doc:"The result of risk screening."`
	Provider        string `json:"provider,omitempty" doc:"The provider."`
	USDValue        string `json:"usdValue,omitempty" doc:"The value of the amount."`
	Threshold       string `json:"threshold,omitempty" doc:"The limit that the value was compared with."`
	Price           string `json:"price,omitempty" doc:"The dollar price of one whole token."`
	PriceAt         string `json:"priceAt,omitempty" doc:"The time of the price, by its source."`
	PriceAgeSeconds string `json:"priceAgeSeconds,omitempty" doc:"The age of the price when the rule used it."`
	PriceSource     string `json:"priceSource,omitempty" doc:"The source of the price."`
	Minimum         string `json:"minimum,omitempty" doc:"The smallest amount that can be requested: the minimum of the mint, or the least amount that still reaches the destination when the fee comes out of it."`
	Available       string `json:"available,omitempty" doc:"What the customer could spend."`
	Liquid          string `json:"liquid,omitempty" doc:"What your addresses could pay, as far as the rule counted."`
	NetworkFee      string `json:"networkFee,omitempty" doc:"The highest network fee at the time."`
	MaxNetworkFee   string `json:"maxNetworkFee,omitempty" doc:"The highest network fee that the request accepted."`
	CostsUSD        string `json:"costsUsd,omitempty" doc:"The network fees of the customer's other withdrawals in the last 24 hours, in dollars: what they cost, or can cost at most."`
	RentMax         string `json:"rentMax,omitempty" doc:"What would be held in addition to the amount for an account of the payee." form:"amount"`
	FailureMax      string `json:"failureMax,omitempty" doc:"The most that the service charges for a payment that fails because of its payee." form:"amount"`
	Resembles       string `json:"resembles,omitempty" doc:"The known address that looks like the destination."`
	FailedID        string `json:"failedWithdrawalId,omitempty" doc:"The withdrawal to the same destination that the chain reverted. No approved withdrawal was paid to it since." example:"wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Freeze          string `json:"freeze,omitempty" doc:"What is stopped."`
	Scope           string `json:"scope,omitempty" doc:"How far it reaches."`
	Code            string `json:"code,omitempty" doc:"The error of the signer or of the chain."`
	Explanation     string `json:"why,omitempty" doc:"A sentence for a person."`
}

// Preview is the outcome that a withdrawal would have.
type Preview struct {
	WouldBe          string                   `json:"wouldBe" doc:"The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL. With a known idempotencyKey, the status of the withdrawal that has the key."`
	ApprovalReasons  webhook.List[string]     `json:"approvalReasons"`
	Gates            webhook.List[GateResult] `json:"gates"`
	NetworkFee       *string                  `json:"networkFee" doc:"The highest network fee, in atomic units of the native coin; null when the chain does not say. With feeMode DEDUCTED it comes out of the amount." form:"amount"`
	NetworkFeeMintID *int                     `json:"networkFeeMintId"`
	CustomerCharge   *webhook.CustomerCharge  `json:"customerCharge,omitempty"`
	ExistingID       *string                  `json:"existingId,omitempty" doc:"The withdrawal that already has the idempotencyKey. Present only then."`
}

// Decision is one decision about a withdrawal.
type Decision struct {
	DecidedAt       webhook.Time             `json:"at"`
	Act             string                   `json:"act" doc:"REQUESTED, APPROVED, APPROVAL_ADDED (a person approved, and more approvals are needed), APPROVAL_REFUSED (the rules refused it when they were evaluated again), RETURNED (the signer or the chain sent it back), REMOVED or CANCELLED. Values may be added without notice." example:"REQUESTED"`
	Actor           *webhook.Actor           `json:"actor" doc:"Who decided; null for a request from before the service recorded it."`
	Status          string                   `json:"status" doc:"The status of the withdrawal after the decision."`
	ApprovalReasons webhook.List[string]     `json:"approvalReasons" doc:"Why the withdrawal waits for a person after this decision."`
	Gates           webhook.List[GateResult] `json:"gates"`
	Note            *string                  `json:"note" doc:"The note of the person, or the error of the signer; null without one."`
}

// Decisions lists all decisions about a withdrawal.
type Decisions struct {
	Data []Decision `json:"data"`
}

// readWithdrawal translates the body of a withdrawal, for a request or a preview.
func (a *api) readWithdrawal(c *call, body WithdrawRequest) (withdrawal.Request, error) {
	var empty withdrawal.Request
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
		Memo: body.Memo, MaxNetworkFee: body.MaxNetworkFee, Reference: body.Reference, Actor: c.Caller.Actor(),
		Limit: func() error { return c.CheckScopeAndRate() },
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
func (a *api) createWithdrawal(c *call, body WithdrawRequest) (webhook.Withdrawal, error) {
	r, err := a.readWithdrawal(c, body)
	if err != nil {
		return webhook.Withdrawal{}, err
	}
	w, isReplay, err := a.conf.Withdrawals.Request(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return webhook.Withdrawal{}, err
	}
	trace.LinkTo(c.Context(), w.ID)
	if isReplay {
		c.AnswerHeader.Set("Idempotent-Replayed", "true")
	}
	return wire.Withdrawal(w), nil
}

func (a *api) previewWithdrawal(c *call, body WithdrawRequest) (Preview, error) {
	r, err := a.readWithdrawal(c, body)
	if err != nil {
		return Preview{}, err
	}
	p, err := a.conf.Withdrawals.Preview(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return Preview{}, err
	}
	shown := Preview{
		WouldBe: string(p.WouldBe), ApprovalReasons: reasonTexts(p.Reasons), Gates: showGates(p.Gates),
		NetworkFeeMintID: p.NetworkFeeMintID,
		ExistingID:       resource.OptionalText(p.ExistingID), CustomerCharge: wire.CustomerCharge(p.CustomerCharge),
	}
	if p.NetworkFee != nil {
		shown.NetworkFee = new(p.NetworkFee.String())
	}
	return shown, nil
}

func (a *api) estimateWithdrawal(c *call, body EstimateRequest) (Estimate, error) {
	if err := checkMintID(body.MintID); err != nil {
		return Estimate{}, err
	}
	mode, err := readFeeMode(body.FeeMode)
	if err != nil {
		return Estimate{}, err
	}
	e, err := a.conf.Withdrawals.Estimate(c.Context(), c.Caller.OrgID, withdrawal.EstimateRequest{
		MintID: body.MintID, CustomerID: body.CustomerID, Amount: body.Amount, UseDecimal: body.UseDecimal,
		ToAddress: body.ToAddress, FeeMode: mode,
	})
	if err != nil {
		return Estimate{}, err
	}
	shown := Estimate{
		NetworkFee: e.NetworkFee.String(), NetworkFeeMintID: e.NetworkFeeMintID,
		CustomerCharge: wire.CustomerCharge(e.CustomerCharge),
		ExpiresAt:      webhook.At(e.ExpiresAt),
	}
	if e.NetworkFeeUSD != nil {
		shown.NetworkFeeUSD = new(e.NetworkFeeUSD.String())
	}
	if e.MaxAmount != nil {
		shown.MaxAmount = new(e.MaxAmount.String())
	}
	return shown, nil
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

func (a *api) cancelWithdrawal(c *call) (webhook.Withdrawal, error) {
	w, err := a.conf.Withdrawals.Cancel(c.Context(), c.Caller.OrgID, c.PathParam("withdrawalId"), c.Caller.Actor())
	if err != nil {
		return webhook.Withdrawal{}, err
	}
	return wire.Withdrawal(w), nil
}

func (a *api) listDecisions(c *call) (Decisions, error) {
	found, err := a.conf.Withdrawals.ListDecisions(c.Context(), c.Caller.OrgID, c.PathParam("withdrawalId"))
	if err != nil {
		return Decisions{}, err
	}
	body := Decisions{Data: make([]Decision, 0, len(found))}
	for _, d := range found {
		show := Decision{
			DecidedAt: webhook.At(d.DecidedAt), Act: string(d.Act), Status: string(d.Status),
			ApprovalReasons: reasonTexts(d.Reasons), Gates: showGates(d.Gates), Note: resource.OptionalText(d.Note),
		}
		if d.Actor.Kind != "" {
			show.Actor = &webhook.Actor{Type: d.Actor.Kind, ID: d.Actor.ID}
		}
		body.Data = append(body.Data, show)
	}
	return body, nil
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

func withdrawalFilter(c *call) withdrawal.Filter {
	return withdrawal.Filter{
		Type: c.Query["type"], CustomerID: c.Query["customerId"], Status: c.Query["status"],
		MintID: c.Query.NumberValue("mintId"), Chain: c.Query["chain"],
		CreatedAfter: c.Query.TimeOrZero("createdAfter"), CreatedBefore: c.Query.TimeOrZero("createdBefore"),
		TxHash: resource.CanonicalHash(c.Query["txHash"]), Address: c.Query["address"], Reference: c.Query["reference"],
		IdempotencyKey: c.Query["idempotencyKey"],
	}
}

func (a *api) exportWithdrawals(c *call) (kernel.Rows[webhook.Withdrawal], error) {
	return func(ctx context.Context, desc bool, row func(webhook.Withdrawal) error) error {
		return a.conf.Withdrawals.ForEach(ctx, c.Caller.OrgID, withdrawalFilter(c), desc,
			func(w withdrawal.Withdrawal) error { return row(wire.Withdrawal(w)) })
	}, nil
}

func (a *api) listWithdrawals(c *call) (kernel.Page[webhook.Withdrawal], error) {
	p, err := c.ReadPage("withdrawals")
	if err != nil {
		return kernel.Page[webhook.Withdrawal]{}, err
	}
	found, err := a.conf.Withdrawals.List(c.Context(), c.Caller.OrgID, withdrawalFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.Withdrawal]{}, err
	}
	return kernel.NewPage(c.Request, "withdrawals", found, wire.Withdrawal), nil
}

func (a *api) getWithdrawal(c *call) (webhook.Withdrawal, error) {
	w, err := a.conf.Withdrawals.ByID(c.Context(), c.Caller.OrgID, c.PathParam("withdrawalId"))
	if err != nil {
		return webhook.Withdrawal{}, err
	}
	return wire.Withdrawal(w), nil
}
