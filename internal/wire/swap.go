package wire

import (
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/webhook"
)

// CustomerSwap returns the object of a customer swap as the API answers it.
func CustomerSwap(w swap.Swap) webhook.CustomerSwap {
	return webhook.CustomerSwap{
		SwapID: w.ID, IdempotencyKey: w.IdempotencyKey, CustomerID: w.CustomerID, FromMintID: w.From.ID,
		ToMintID: w.To.ID,

		AmountIn: w.AmountIn.String(), EstimatedAmountOut: w.EstimatedOut.String(), MinAmountOut: w.MinOut.String(),
		AmountOut: amount(w.AmountOut), OriginTxHash: text(w.OriginTxHash),
		DestinationTxHash: text(w.DestinationTxHash), FailureReason: w.FailureReason,
		FailureMessage: w.FailureMessage, CompletedAt: webhook.AtOrNil(w.CompletedAt), Status: string(w.Status),

		FeeAmount: w.FeeAmount.String(), FeeBps: w.FeeBps, USDValue: cents(w.USDValue),
		EstimatedTimeSeconds: w.EstimatedSeconds,

		RefundStatus: string(w.RefundStatus()), RefundedAmount: amount(w.RefundedAmount()),
		RefundTxHash: text(w.RefundTxHash), RestoredAt: webhook.AtOrNil(w.RestoredAt),

		DepositID: w.DepositID, Provider: w.Provider, Metadata: w.Metadata,
		CreatedAt: webhook.At(w.CreatedAt), UpdatedAt: webhook.At(w.UpdatedAt),
	}
}

// SwapSummary returns the object of a customer swap as events carry it. It has neither a status nor a
// failure reason. Rule SWAP-60.
func SwapSummary(w swap.Swap) webhook.SwapSummary {
	return webhook.SwapSummary{
		CustomerSwapID: w.ID, IdempotencyKey: w.IdempotencyKey, FromMint: Mint(w.From), ToMint: Mint(w.To),
		AmountIn: w.AmountIn.String(), EstimatedAmountOut: w.EstimatedOut.String(), AmountOut: amount(w.AmountOut),
		OriginTxHash: text(w.OriginTxHash), DestinationTxHash: text(w.DestinationTxHash),
		CreatedAt: webhook.At(w.CreatedAt),
	}
}

// SwapFailed returns the object of the event that a swap failed, or that a refund of it arrived later.
func SwapFailed(f swap.Failed) webhook.SwapFailed {
	return webhook.SwapFailed{
		CustomerID: f.Swap.CustomerID, Swap: SwapSummary(f.Swap), RefundedAmount: amount(f.Refunded),
	}
}

// SwapDelayed returns the object of the event that a swap takes long.
func SwapDelayed(w swap.Swap) webhook.SwapDelayed {
	return webhook.SwapDelayed{CustomerID: w.CustomerID, Swap: SwapSummary(w)}
}

// OrganizationSwap returns the object of a swap of the organization's own money, as the API answers it and
// events carry it.
func OrganizationSwap(w swap.Swap) webhook.OrganizationSwap {
	return webhook.OrganizationSwap{
		SwapID: w.ID, Type: webhook.OfOrganization, IdempotencyKey: w.IdempotencyKey, Product: w.Product,
		FromMintID: w.From.ID, ToMintID: w.To.ID,

		AmountIn: w.AmountIn.String(), EstimatedAmountOut: w.EstimatedOut.String(), MinAmountOut: w.MinOut.String(),
		WhitelistedAddressID: w.WhitelistedID, ToAddress: string(w.PayoutAddress), AmountOut: amount(w.AmountOut),
		OriginTxHash: text(w.OriginTxHash), DestinationTxHash: text(w.DestinationTxHash), WithdrawalID: w.PayoutID,

		Status: string(w.Status),
		Approvals: webhook.Approvals{
			Required: w.ApprovalsRequired, Received: w.ApprovalCount, ExpiresAt: webhook.AtOrNil(w.ApprovableUntil()),
		},
		PayoutUntil: webhook.AtOrNil(w.PayoutUntil), RejectedReason: w.RejectedNote,
		FailureReason: w.FailureReason, FailureMessage: w.FailureMessage,

		USDValue: cents(w.USDValue), EstimatedTimeSeconds: w.EstimatedSeconds,

		RefundStatus: string(w.RefundStatus()), RefundedAmount: amount(w.RefundedAmount()),
		RefundTxHash: text(w.RefundTxHash), RestoredAt: webhook.AtOrNil(w.RestoredAt),

		Provider:  textOrNil(w.Provider),
		CreatedAt: webhook.At(w.CreatedAt), UpdatedAt: webhook.At(w.UpdatedAt),
		DeliveredAt: webhook.AtOrNil(w.DeliveredAt), CompletedAt: webhook.AtOrNil(w.CompletedAt),
	}
}

// DepositSwap returns the object of a deposit swap.
func DepositSwap(d depositswap.DepositSwap) webhook.DepositSwap {
	o := webhook.DepositSwap{
		DepositSwapID: d.ID, IdempotencyKey: textOrNil(d.IdempotencyKey), CustomerID: d.CustomerID,
		OriginTokenID: d.Token.ID, OriginChain: string(d.Token.Chain), OriginSymbol: d.Token.Symbol,
		OriginDecimals: d.Token.Decimals, ToMintID: d.To.ID,

		DepositAddress: d.DepositAddress, AmountIn: amount(d.AmountIn), EstimatedAmountOut: d.EstimatedOut.String(),
		MinAmountOut: d.MinOut.String(), Mode: "FLEXIBLE", ExpiresAt: webhook.At(d.ExpiresAt),
		RefundAddress: d.RefundAddress, Status: string(d.Status),

		ReceivedAmount: amount(d.Received), AmountOut: amount(d.AmountOut), RefundedAmount: amount(d.Refunded),
		OriginTxHash: text(d.OriginTxHash), DestinationTxHash: text(d.DestinationTxHash),
		FailureReason: d.FailureReason, DepositIDs: texts(d.DepositIDs), Provider: d.Provider,

		CreatedAt: webhook.At(d.CreatedAt), UpdatedAt: webhook.At(d.UpdatedAt),
		CompletedAt: webhook.AtOrNil(d.CompletedAt),
	}
	if len(d.DepositIDs) > 0 {
		o.DepositID = &d.DepositIDs[0]
	}
	return o
}
