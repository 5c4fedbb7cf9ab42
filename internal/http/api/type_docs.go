package api

import (
	"reflect"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// typeDocs are the texts about the types of this package.
var typeDocs = map[reflect.Type]string{
	reflect.TypeFor[Mint]():            "A token on a chain.",
	reflect.TypeFor[ReceiptFile]():     "A signed receipt, as a payer keeps it in a file.",
	reflect.TypeFor[Customer]():        "One of your customers.",
	reflect.TypeFor[Balance]():         "A customer's balance of one mint.",
	reflect.TypeFor[Balances]():        "A customer's balances, by mint.",
	reflect.TypeFor[CustomerChange]():  "Changes a customer. Fields that are left out stay as they are.",
	reflect.TypeFor[FreezeRequest]():   "Says why the customer is frozen.",
	reflect.TypeFor[UnfreezeRequest](): "Has no fields.",
	reflect.TypeFor[DepositRequest]():  "Asks for a deposit address.",
	reflect.TypeFor[DepositAddress](): "Where a customer pays in. The address belongs to the " +
		"customer and the chain.",
	reflect.TypeFor[ProductDepositRequest](): "Asks for a deposit address of your own.",
	reflect.TypeFor[ProductAddress](): "Where your organization pays in for one of its products. The address belongs " +
		"to the product and the chain.",
	reflect.TypeFor[WithdrawRequest]():         "Asks for a payment from a customer's balance.",
	reflect.TypeFor[SwapRequest]():             "Asks for a customer swap.",
	reflect.TypeFor[SwapQuoteRequest]():        "Asks what a customer swap would bring.",
	reflect.TypeFor[SwapQuote]():               "What a swap would bring now. It binds no one.",
	reflect.TypeFor[DepositSwapToken]():        "A token that a customer can pay a deposit swap in.",
	reflect.TypeFor[DepositSwapTokens]():       "The tokens of deposit swaps, by chain and symbol.",
	reflect.TypeFor[DepositSwapQuoteRequest](): "Asks what a deposit swap would bring.",
	reflect.TypeFor[DepositSwapQuote]():        "What a deposit swap would bring now. It binds no one.",
	reflect.TypeFor[DepositSwapRequest]():      "Asks for a deposit swap.",
	reflect.TypeFor[ProductRequest]():          "Makes a product.",
	reflect.TypeFor[ProductChange]():           "Changes a product. Fields that are left out stay as they are.",
	reflect.TypeFor[LinkRequest]():             "Makes a payment link.",
	reflect.TypeFor[LinkItemRequest]():         "One product of a payment link.",
	reflect.TypeFor[LinkChange]():              "Changes a payment link. Fields that are left out stay as they are.",
	reflect.TypeFor[BatchPayoutRequest]():      "Makes a batch payout of a list of payments.",
	reflect.TypeFor[BatchPayoutRow]():          "A payment of a list.",
	reflect.TypeFor[BatchPayoutReport](): "A batch payout with what is wrong with its rows, and what a person should " +
		"look at.",
	reflect.TypeFor[BatchPayoutProblem]():           "What is wrong with one value of one row.",
	reflect.TypeFor[BatchPayoutWarning]():           "Something about one row that a person should look at.",
	reflect.TypeFor[BatchPayoutItem]():              "A row of a batch payout, with what became of it.",
	reflect.TypeFor[kernel.Page[BatchPayoutItem]](): "A page of rows.",
	reflect.TypeFor[BatchPayoutSubmission]():        "Submits a batch payout by its contentHash.",
	reflect.TypeFor[BatchPayoutRetry]():             "Makes a batch payout of the unpaid rows of another one.",
	reflect.TypeFor[BatchPayoutProof]():             "Proves that people approved a row of a batch payout.",
	reflect.TypeFor[BatchPayoutProofHeader]():       "What the rows of a batch payout have in common.",
	reflect.TypeFor[BatchPayoutProofTotal]():        "What a batch payout pays of one mint.",
	reflect.TypeFor[BatchPayoutProofRow]():          "A row as its hash covers it.",
	reflect.TypeFor[CheckoutRequest](): "Makes a checkout of lineItems, of one productId, or of a name with " +
		"a price.",
	reflect.TypeFor[LineItemRequest]():              "One position of a checkout.",
	reflect.TypeFor[OptionRequest]():                "Names the mint in which a checkout is to be paid.",
	reflect.TypeFor[AcceptRequest]():                "Says why what was paid is enough.",
	reflect.TypeFor[RefundRequest]():                "Asks for a refund of a checkout.",
	reflect.TypeFor[AssignRequest]():                "Names the checkout whose payment it is.",
	reflect.TypeFor[UnmatchedRefundRequest]():       "Asks for a refund of a payment that named no checkout.",
	reflect.TypeFor[OrganizationSwapQuoteRequest](): "Asks what a swap of your own money would bring.",
	reflect.TypeFor[OrganizationSwapRequest]():      "Asks for a swap of your own money.",
	reflect.TypeFor[WhitelistedAddress](): "An address that your organization's own money may be " +
		"paid to.",
	reflect.TypeFor[kernel.Page[WhitelistedAddress]](): "A page of whitelisted addresses.",
	reflect.TypeFor[TransferRequest]():                 "Asks for a transfer between two balances.",
	reflect.TypeFor[TransferParty]():                   "One side of a transfer: either a customer or a product.",
	reflect.TypeFor[ProductBalance]():                  "Your organization's balance of one mint in one product.",
	reflect.TypeFor[ProductBalances]():                 "Your organization's own balances, by mint and product.",
	reflect.TypeFor[Entry]():                           "One movement of a balance, with its cause.",
	reflect.TypeFor[kernel.Page[Entry]]():              "A page of movements.",
	reflect.TypeFor[EndpointRequest]():                 "Registers a webhook endpoint.",
	reflect.TypeFor[Endpoint]():                        "A webhook endpoint.",
	reflect.TypeFor[EndpointWithSecret]():              "A new endpoint with its secret, which only this answer shows.",
	reflect.TypeFor[WebhookKeys]():                     "The public keys that sign webhooks.",
	reflect.TypeFor[kernel.Page[Mint]]():               "A page of mints.",
	reflect.TypeFor[kernel.Page[Customer]]():           "A page of customers.",
	reflect.TypeFor[kernel.Page[Endpoint]]():           "A page of webhook endpoints.",
	reflect.TypeFor[EstimateRequest](): "Asks what a withdrawal would cost. It has the body of POST /withdraw, of " +
		"which only mintId is required.",
	reflect.TypeFor[Estimate](): "What a withdrawal would cost, and how much the customer can withdraw.",
	reflect.TypeFor[Preview]():  "What POST /withdraw would do now.",
	reflect.TypeFor[GateResult](): "The result of one rule, with the facts that it used. Amounts are in atomic " +
		"units, values in dollars.",
	reflect.TypeFor[Decision]():  "One decision about a withdrawal. It cannot be changed.",
	reflect.TypeFor[Decisions](): "All decisions about a withdrawal, oldest first.",
	reflect.TypeFor[ScopedKeyWithValue](): "An API key with its value for the header x-api-key, which only this " +
		"answer shows.",
	reflect.TypeFor[ScopedKeyRequest](): "Makes an additional API key.",
	reflect.TypeFor[KeyRoll]():          "Says how long the former value of a key works after a roll.",
	reflect.TypeFor[EndpointChange](): "Changes a webhook endpoint. Fields that are left out " +
		"stay as they are.",
	reflect.TypeFor[EndpointFilters](): "Limits the events of an endpoint. A filter that is left " +
		"out limits nothing.",
	reflect.TypeFor[Filters]():                      "Limits which events the endpoint receives.",
	reflect.TypeFor[TestRequest]():                  "Asks for a sample event.",
	reflect.TypeFor[DeliveryAttempt]():              "One attempt to deliver an event to an endpoint.",
	reflect.TypeFor[kernel.Page[DeliveryAttempt]](): "A page of attempts.",
	reflect.TypeFor[DeliveryRequest]():              "The request of the attempt.",
	reflect.TypeFor[DeliveryResponse]():             "The answer of the receiver.",
	reflect.TypeFor[CurrentBill]():                  "What the next invoice would have, as of now.",
	reflect.TypeFor[ResendRequest]():                "Asks the service to send an event again.",
	reflect.TypeFor[RecoverRequest]():               "Asks the service to send the events that an endpoint missed.",
	reflect.TypeFor[WebhookJob]():                   "A job that sends events again, and its progress.",
	reflect.TypeFor[RotatedSecret]():                "An endpoint with a new secret, which only this answer shows.",
}
