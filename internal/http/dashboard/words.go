package dashboard

import (
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// withdrawalChip writes the status of a withdrawal for people.
func withdrawalChip(status withdrawal.Status) ui.Chip {
	switch status {
	case withdrawal.AwaitingApproval:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for approval"}
	case withdrawal.Processing:
		return ui.Chip{Kind: ui.Info, Word: "Being paid"}
	case withdrawal.Broadcast:
		return ui.Chip{Kind: ui.Info, Word: "Sent, not final"}
	case withdrawal.Completed:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case withdrawal.Failed:
		return ui.Chip{Kind: ui.Bad, Word: "Failed"}
	case withdrawal.Rejected:
		return ui.Chip{Kind: ui.Quiet, Word: "Removed"}
	case withdrawal.Cancelled:
		return ui.Chip{Kind: ui.Quiet, Word: "Cancelled"}
	case withdrawal.Blocked:
		return ui.Chip{Kind: ui.Bad, Word: "Blocked"}
	}
	return ui.Chip{}
}

// entryChip writes the status of an entry of the whitelist for people.
func entryChip(status whitelist.Status) ui.Chip {
	switch status {
	case whitelist.StatusWaiting:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for the signer"}
	case whitelist.StatusCoolingOff:
		return ui.Chip{Kind: ui.Wait, Word: "Not usable yet"}
	case whitelist.StatusUsable:
		return ui.Chip{Kind: ui.Good, Word: "Usable"}
	case whitelist.StatusRefused:
		return ui.Chip{Kind: ui.Bad, Word: "Refused"}
	case whitelist.StatusRemoved:
		return ui.Chip{Kind: ui.Quiet, Word: "Removed"}
	}
	return ui.Chip{}
}

// depositChip writes the status of a deposit for people.
func depositChip(status deposit.Status) ui.Chip {
	switch status {
	case deposit.Confirming:
		return ui.Chip{Kind: ui.Info, Word: "Confirming"}
	case deposit.Screening:
		return ui.Chip{Kind: ui.Info, Word: "Being screened"}
	case deposit.Credited:
		return ui.Chip{Kind: ui.Good, Word: "Credited"}
	case deposit.Reversed:
		return ui.Chip{Kind: ui.Bad, Word: "Taken back"}
	case deposit.Orphaned:
		return ui.Chip{Kind: ui.Quiet, Word: "No longer on the chain"}
	case deposit.Unsupported:
		return ui.Chip{Kind: ui.Quiet, Word: "Unknown token"}
	case deposit.BelowMinimum:
		return ui.Chip{Kind: ui.Quiet, Word: "Below the minimum"}
	case deposit.Flagged:
		return ui.Chip{Kind: ui.Wait, Word: "Waits for a decision"}
	case deposit.Rejecting:
		return ui.Chip{Kind: ui.Info, Word: "Being returned"}
	case deposit.Redirecting:
		return ui.Chip{Kind: ui.Info, Word: "Being redirected"}
	case deposit.ResolutionStuck:
		return ui.Chip{Kind: ui.Bad, Word: "Return is stuck"}
	case deposit.Rejected:
		return ui.Chip{Kind: ui.Good, Word: "Returned"}
	case deposit.Redirected:
		return ui.Chip{Kind: ui.Good, Word: "Redirected"}
	}
	return ui.Chip{}
}

// reasonText says why a withdrawal waits for a person.
func reasonText(reason withdrawal.Reason) string {
	switch reason {
	case withdrawal.ReasonRequireApproval:
		return "Your backend asked for an approval"
	case withdrawal.ReasonUSDThreshold:
		return "Above your threshold in dollars"
	case withdrawal.ReasonPriceUnavailable:
		return "No recent price to compare with your threshold"
	case withdrawal.ReasonRiskReview:
		return "Screening gave no clear answer"
	case withdrawal.ReasonDestinationAddress:
		return "The address needs a look"
	case withdrawal.ReasonLowLiquidity:
		return "Your wallets cannot pay it now"
	case withdrawal.ReasonPolicyLimit:
		return "Above a limit of the signer or of the day"
	case withdrawal.ReasonDuplicateKey:
		return "Its key was used for another payment"
	case withdrawal.ReasonNetworkFee:
		return "The network fee is above the limit of the request"
	case withdrawal.ReasonRestored:
		return "Restored from the journal of the signer"
	case withdrawal.ReasonApprovalRule:
		return "Your rule asks for signatures of people"
	}
	return ""
}

// gateText names a rule that looked at a withdrawal.
func gateText(gate withdrawal.Gate) string {
	switch gate {
	case withdrawal.GateFreeze:
		return "Freezes"
	case withdrawal.GateApprovalRule:
		return "Rule on approvals"
	case withdrawal.GateIdempotencyKey:
		return "Idempotency key"
	case withdrawal.GateMinimum:
		return "Smallest amount"
	case withdrawal.GateSuspended:
		return "Token and chain"
	case withdrawal.GateWhitelist:
		return "Whitelist"
	case withdrawal.GateAddress:
		return "Address"
	case withdrawal.GateBalance:
		return "Balance"
	case withdrawal.GateRisk:
		return "Risk screening"
	case withdrawal.GateApproval:
		return "Approval asked for"
	case withdrawal.GateUSDThreshold:
		return "Threshold in dollars"
	case withdrawal.GateDestination:
		return "Known destinations"
	case withdrawal.GateLiquidity:
		return "Liquidity"
	case withdrawal.GateNetworkFee:
		return "Network fee"
	case withdrawal.GateCustomerCosts:
		return "Costs of the customer today"
	case withdrawal.GateCustomerCharge:
		return "Charge to the customer"
	case withdrawal.GateSigner:
		return "Signer"
	}
	return ""
}

// resultChip writes the result of a rule for people.
func resultChip(result withdrawal.Result) ui.Chip {
	switch result {
	case withdrawal.ResultPass:
		return ui.Chip{Kind: ui.Good, Word: "Passed"}
	case withdrawal.ResultHold:
		return ui.Chip{Kind: ui.Wait, Word: "Holds it"}
	case withdrawal.ResultRefuse:
		return ui.Chip{Kind: ui.Bad, Word: "Refuses it"}
	case withdrawal.ResultBlock:
		return ui.Chip{Kind: ui.Bad, Word: "Blocks it"}
	case withdrawal.ResultSkipped:
		return ui.Chip{Kind: ui.Quiet, Word: "Skipped"}
	case withdrawal.ResultNotConfigured:
		return ui.Chip{Kind: ui.Quiet, Word: "Not set"}
	}
	return ui.Chip{}
}

// actText says what a decision about a withdrawal was.
func actText(act withdrawal.Act) string {
	switch act {
	case withdrawal.ActRequested:
		return "Requested"
	case withdrawal.ActApprovalAdded:
		return "Approved, and another approval is needed"
	case withdrawal.ActApproved:
		return "Approved and let go"
	case withdrawal.ActApprovalRefused:
		return "The approval was refused by a rule"
	case withdrawal.ActReturned:
		return "Sent back for approval"
	case withdrawal.ActRemoved:
		return "Removed"
	case withdrawal.ActCancelled:
		return "Cancelled"
	}
	return ""
}

// inputNames name the inputs of rules that have a name for people. The others are shown by their name of
// the interface.
var inputNames = map[string]string{
	"usdValue": "Value", "threshold": "Threshold", "price": "Price", "priceSource": "Source of the price",
	"priceAgeSeconds": "Age of the price in seconds", "severity": "Severity", "provider": "Provider",
	"resembles": "Looks like", "failedWithdrawalId": "Failed before", "liquid": "Your wallets can pay",
	"available": "Available", "minimum": "Minimum", "networkFee": "Network fee", "maxNetworkFee": "Limit of the fee",
	"why": "Because", "freeze": "Freeze", "scope": "Scope", "costsUsd": "Costs in dollars", "code": "Code",
}

// inputName names an input of a rule.
func inputName(name string) string {
	if text := inputNames[name]; text != "" {
		return text
	}
	return name
}

// networkName writes a chain for people.
func networkName(name chain.Name) string {
	if name == chain.BSC {
		return "BNB Smart Chain"
	}
	text := strings.ToLower(string(name))
	return strings.ToUpper(text[:1]) + text[1:]
}

// balanceText names a balance of the ledger.
func balanceText(kind ledger.Kind) string {
	switch kind {
	case ledger.Customer:
		return "Balance of the customer"
	case ledger.Withdrawing:
		return "Held for withdrawals of the customer"
	case ledger.InSwap:
		return "Held for swaps of the customer"
	case ledger.Product:
		return "Balance of your product"
	case ledger.ProductWithdrawing:
		return "Held for withdrawals of your product"
	case ledger.ProductInSwap:
		return "Held for swaps of your product"
	case ledger.RefundOwed:
		return "Owed to payers of your checkouts"
	case ledger.BatchHeld:
		return "Held for your batch payouts"
	}
	return string(kind)
}

// causeText says why the ledger moved an amount.
func causeText(cause ledger.CauseKind) string {
	switch cause {
	case ledger.Deposit:
		return "The deposit was credited"
	case ledger.DepositHold:
		return "The deposit was held"
	case ledger.DepositRelease:
		return "The held deposit was decided"
	case ledger.DepositFee:
		return "The fee of the return"
	case ledger.DepositReversal:
		return "The deposit was taken back"
	case ledger.WithdrawalHold:
		return "The amount was held"
	case ledger.WithdrawalEnd:
		return "The hold ended"
	case ledger.WithdrawalFee:
		return "The network fee"
	case ledger.WithdrawalCharge:
		return "The charge for costs was held"
	case ledger.WithdrawalChargeReturn:
		return "A charge that was not needed came back"
	case ledger.FeePrepaid:
		return "A network fee was paid in advance"
	case ledger.Transfer:
		return "The transfer"
	case ledger.NetworkFee:
		return "The fee of a payment"
	case ledger.FeeChange:
		return "A network fee changed"
	case ledger.Restore:
		return "Restored from the journal of the signer"
	case ledger.SwapHold:
		return "The amount was held for the swap"
	case ledger.SwapPaid:
		return "The swap provider was paid"
	case ledger.SwapEnd:
		return "The swap ended"
	case ledger.SwapFee:
		return "The fee of the swap"
	case ledger.SwapRestore:
		return "The failed swap was restored"
	case ledger.SwapShort:
		return "The swap provider kept a part"
	case ledger.Arrival:
		return "The deposit was credited by the operator"
	case ledger.RefundHold:
		return "The refund was promised to the payer"
	case ledger.RefundRelease:
		return "The refund ended without a payment"
	case ledger.BatchHold:
		return "The batch payout was submitted"
	case ledger.BatchRelease:
		return "The batch payout did not pay this"
	case ledger.InvoicePaid:
		return "The invoice was paid"
	case ledger.CreditNote:
		return "A credit note lowered what is due"
	}
	return ""
}
