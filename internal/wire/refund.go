package wire

import (
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/webhook"
)

// Refund returns the object of a refund, without the address of its page: the key of it is stored nowhere.
func Refund(r checkout.Refund) webhook.Refund {
	o := webhook.Refund{
		RefundID: r.ID, CheckoutID: r.CheckoutID, Status: string(r.Status), Kind: string(r.Kind), MintID: r.Mint.ID,
		Symbol: r.Mint.Symbol, Chain: string(r.Mint.Chain), Amount: r.Amount.String(), FeeMode: r.FeeMode,
		Reason: r.Reason, ToAddress: textOrNil(string(r.ToAddress)), AddressProven: r.IsAddressProven,
		Attempt: r.Attempt, WithdrawalID: textOrNil(r.WithdrawalID), TxHash: textOrNil(string(r.Tx)),
		Problem: textOrNil(r.Problem), IdempotencyKey: textOrNil(r.IdempotencyKey), CreatedAt: webhook.At(r.CreatedAt),
		UpdatedAt: webhook.At(r.UpdatedAt), ExpiresAt: webhook.At(r.ExpiresAt),
		CompletedAt: webhook.AtOrNil(r.CompletedAt),
	}
	for _, part := range r.Parts {
		o.Parts = append(o.Parts, webhook.RefundPart{DepositID: part.DepositID, Amount: part.Amount.String()})
	}
	return o
}

// ClaimableRefund returns the object of a refund in the one answer that has the address of its page; page is "" where
// there is none.
func ClaimableRefund(r checkout.Refund, page string) webhook.Refund {
	o := Refund(r)
	o.ClaimURL = textOrNil(page)
	return o
}
