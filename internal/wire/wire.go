// Package wire turns the structs of the features into the objects that leave the installation:
// those of package webhook, in answers of the API and in events. A feature knows no object and no
// name of a JSON member. Which members an object has, and how an amount, a time or a missing value
// is printed, is decided here only.
//
// The package is pure: it reads no row and changes nothing, so a crash leaves nothing of it. It
// decides nothing about money. An object of a struct is always the same, and the bytes of an event
// are frozen in the transaction of its change, so an object that is made differently later changes
// no event that exists.
package wire

import (
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// Mint returns a mint as it is embedded in other objects.
func Mint(m mint.Mint) webhook.Mint {
	return webhook.Mint{
		ID: m.ID, Symbol: m.Symbol, Name: m.Name, Chain: string(m.Chain), Decimals: m.Decimals,
		ContractAddress: textOrNil(m.Contract),
	}
}

// Deposit returns the object of a deposit.
func Deposit(d deposit.Deposit) webhook.Deposit {
	blockNumber, detectedAt := int64(d.BlockNumber), webhook.At(d.CreatedAt)
	o := webhook.Deposit{
		DepositID: d.ID, CustomerID: d.CustomerID, Product: d.Product, CustomerEmail: d.CustomerEmail,
		Chain: string(d.Chain), Amount: d.Amount.String(), USDValue: cents(d.USDValue),
		Address: string(d.Address), Memo: d.Memo,

		FromAddresses: texts(d.FromAddresses), TxHash: string(d.TxHash), OutputIndex: d.OutputIndex,
		BlockNumber: &blockNumber, Confirmations: int64(d.Confirmations),
		ConfirmationsRequired: int64(d.ConfirmationsRequired),

		Source: d.Source, Status: string(d.Status), ChainStatus: d.ChainStatus,
		UnsupportedReason: textOrNil(d.UnsupportedReason), ContractAddress: textOrNil(d.Contract),
		Swap: swapSummary(d.Swap), DepositSwapID: textOrNil(d.DepositSwapID),
		CheckoutID: textOrNil(d.CheckoutID), SweepTxHash: text(d.SweepTxHash),

		Screening: webhook.Screening{
			Status: d.Screening.Status, Provider: d.Screening.Provider, Severity: d.Screening.Severity,
			Score: d.Screening.Score, ScreenedAt: webhook.AtOrNil(d.Screening.ScreenedAt),
			Reference: d.Screening.Reference,
		},
		IsFlagged: d.IsFlagged, FreshScreening: freshScreening(d.FreshScreening), Resolution: resolution(d.Resolution),

		DetectedAt: &detectedAt, ConfirmedAt: webhook.AtOrNil(d.ConfirmedAt),
		CreditedAt: webhook.AtOrNil(d.CreditedAt), CreatedAt: webhook.At(d.CreatedAt),
	}
	if d.Mint != nil {
		embedded, decimal := Mint(*d.Mint), d.Amount.Decimal(d.Mint.Decimals)
		o.MintID, o.Mint, o.AmountDecimal = &d.Mint.ID, &embedded, &decimal
	}
	if d.LogIndex != nil {
		logIndex := int64(*d.LogIndex)
		o.LogIndex = &logIndex
	}
	if d.IsFlagged {
		o.RiskOfFunds, o.ReturnAddressRisk = &d.RiskOfFunds, &d.ReturnAddressRisk
	}
	if r := d.FlagReason; r != nil {
		o.FlagReason = &webhook.FlagReason{
			Code: r.Code, Score: r.Score, Severity: r.Severity, Entity: r.Entity, Categories: r.Categories,
			Provider: r.Provider, Sanctioned: r.Sanctioned,
		}
	}
	for _, a := range d.ResolutionAttempts {
		o.ResolutionAttempts = append(o.ResolutionAttempts, webhook.ResolutionAttempt{
			At: webhook.At(a.EndedAt), Action: a.Action, Reason: a.Reason, Message: a.Message,
		})
	}
	if r := d.Reversal; r != nil {
		o.Reversal = &webhook.Reversal{
			ReversedAt: webhook.At(r.ReversedAt), TakenBack: r.TakenBack.String(), Loss: r.Loss.String(),
		}
	}
	return o
}

// swapSummary returns the summary of the swap that a deposit completes; nil stays nil.
func swapSummary(c *deposit.SwapCredit) *webhook.SwapSummary {
	if c == nil {
		return nil
	}
	summary := SwapSummary(swap.Swap{
		ID: c.ID, IdempotencyKey: c.IdempotencyKey, From: c.FromMint, To: c.ToMint, AmountIn: c.AmountIn,
		EstimatedOut: c.EstimatedOut, AmountOut: c.AmountOut, OriginTxHash: c.OriginTxHash,
		DestinationTxHash: c.DestinationTxHash, CreatedAt: c.CreatedAt,
	})
	return &summary
}

func freshScreening(s *deposit.FreshScreening) *webhook.FreshScreening {
	if s == nil {
		return nil
	}
	return &webhook.FreshScreening{
		Severity: s.Severity, Score: s.Score, Entity: s.Entity, Categories: s.Categories, Provider: s.Provider,
		Reference: s.Reference, ScreenedAt: webhook.At(s.ScreenedAt),
	}
}

func resolution(r *deposit.Resolution) *webhook.Resolution {
	if r == nil {
		return nil
	}
	return &webhook.Resolution{
		Decision: r.Decision, Reason: r.Reason, Reference: r.Reference, Note: r.Note,
		DecidedAt: webhook.At(r.DecidedAt),
		DecidedBy: webhook.Actor{Type: r.DecidedBy.Kind, ID: r.DecidedBy.ID, Name: r.DecidedByName},
		ToAddress: text(r.ToAddress), TxHash: text(r.TxHash), Amount: amount(r.Amount),
		NetworkFee: amount(r.NetworkFee),
	}
}

// Withdrawal returns the object of a withdrawal.
func Withdrawal(w withdrawal.Withdrawal) webhook.Withdrawal {
	return webhook.Withdrawal{
		WithdrawalID: w.ID, Type: withdrawalType(w.Owner), IdempotencyKey: w.IdempotencyKey,
		CustomerID: textOrNil(w.Owner.CustomerID()), Product: textOrNil(w.Owner.Product()),
		WhitelistedAddressID: w.WhitelistedAddressID, OrganizationSwapID: textOrNil(w.SwapID),
		RefundID: textOrNil(w.RefundID),
		// Rule BP-19.
		BatchPayoutID: textOrNil(w.BatchID), Row: numberOrNil(w.BatchRow),

		MintID: w.Mint.ID, Mint: Mint(w.Mint), Amount: w.Amount.String(),
		AmountDecimal: w.Amount.Decimal(w.Mint.Decimals), USDValue: cents(w.USDValue), ToAddress: string(w.ToAddress),

		NetworkFee: amount(w.NetworkFee), NetworkFeeMintID: w.NetworkFeeMintID, FeeMode: w.FeeMode,
		MaxNetworkFee: amount(w.MaxNetworkFee), CustomerCharge: CustomerCharge(w.CustomerCharge),

		Status: string(w.Status), ChainStatus: w.ChainStatus, RequiresApproval: w.RequiresApproval,
		ApprovalReasons: texts(w.ApprovalReasons),
		Approvals:       webhook.Approvals{Required: w.Approvals.Required, Received: w.Approvals.Received},
		Screening:       webhook.WithdrawalScreening(w.Screening),

		ApprovalFingerprint: w.ApprovalFingerprint,

		TxHash: text(w.TxHash), ReplacedTxHashes: texts(w.ReplacedTxHashes), FailureReason: w.FailureReason,
		RejectedReason: w.RejectedReason, Reference: w.Reference, Metadata: w.Metadata, TravelRule: w.TravelRule,

		CreatedAt: webhook.At(w.CreatedAt), ApprovedAt: webhook.AtOrNil(w.ApprovedAt),
		BroadcastAt: webhook.AtOrNil(w.BroadcastAt), CompletedAt: webhook.AtOrNil(w.CompletedAt),
	}
}

func withdrawalType(o ledger.Owner) string {
	if o.IsOrganization() {
		return webhook.OfOrganization
	}
	return webhook.OfCustomer
}

// CustomerCharge returns the object of what a customer may be charged; nil stays nil.
func CustomerCharge(c *withdrawal.CustomerCharge) *webhook.CustomerCharge {
	if c == nil {
		return nil
	}
	return &webhook.CustomerCharge{
		Costs: string(c.Costs), MintID: c.MintID, RentMax: c.RentMax.String(), FailureMax: amount(c.FailureMax),
		Charged: amount(c.Charged),
	}
}

// Transfer returns the object of a transfer.
func Transfer(t transfer.Transfer) webhook.Transfer {
	return webhook.Transfer{
		TransferID: t.ID, IdempotencyKey: t.IdempotencyKey, MintID: t.Mint.ID, Mint: Mint(t.Mint),
		Amount: t.Amount.String(), AmountDecimal: t.Amount.Decimal(t.Mint.Decimals),
		From: webhook.Party(t.From), To: webhook.Party(t.To), Reference: t.Reference, Metadata: t.Metadata,
		CreatedAt: webhook.At(t.CreatedAt),
	}
}

// textOrNil returns nil for an empty text.
func textOrNil[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	return text(&s)
}

// numberOrNil returns nil for zero.
func numberOrNil(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// text returns a typed text as a plain one; nil stays nil.
func text[T ~string](s *T) *string {
	if s == nil {
		return nil
	}
	plain := string(*s)
	return &plain
}

func texts[T ~string](values []T) webhook.List[string] {
	plain := make(webhook.List[string], 0, len(values))
	for _, v := range values {
		plain = append(plain, string(v))
	}
	return plain
}

func amount(a *money.Amount) *string {
	if a == nil {
		return nil
	}
	units := a.String()
	return &units
}

func cents(v *money.USD) *string {
	if v == nil {
		return nil
	}
	printed := v.Cents()
	return &printed
}
