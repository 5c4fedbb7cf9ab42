package resource

import (
	"reflect"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/webhook"
)

// TypeDocs are the texts about types.
var TypeDocs = map[reflect.Type]string{
	reflect.TypeFor[webhook.Mint](): "A token on a chain, as other objects show it.",
	reflect.TypeFor[webhook.CustomerCharge](): "The part of the costs of a withdrawal that the customer pays, by the " +
		"setting and the prices at the time of the request.",
	reflect.TypeFor[webhook.Deposit](): "A transfer to an address of one of your customers, or of a product of your " +
		"own. Credit your user on CUSTOMER_DEPOSIT with isFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on " +
		"both.",
	reflect.TypeFor[webhook.Withdrawal](): "A payment to an address, from a customer's balance or from one of the " +
		"organization's own.",
	reflect.TypeFor[webhook.Transfer](): "A transfer between two balances of your organization. It has no states: it " +
		"is complete when it exists.",
	reflect.TypeFor[webhook.Party]():                 "One side of a transfer: a customer or a product.",
	reflect.TypeFor[kernel.Page[webhook.Transfer]](): "A page of transfers.",
	reflect.TypeFor[webhook.Screening]():             "The result of risk screening for the sender of a deposit.",
	reflect.TypeFor[webhook.WithdrawalScreening]():   "The result of risk screening for a destination.",
	reflect.TypeFor[webhook.FlagReason]():            "Why a deposit is flagged.",
	reflect.TypeFor[webhook.Resolution](): "How a flagged deposit was resolved, and the transfer " +
		"that carried it out.",
	reflect.TypeFor[webhook.ResolutionAttempt]():       "An attempt that failed before anything reached the chain.",
	reflect.TypeFor[webhook.Actor]():                   "The person or key that decided.",
	reflect.TypeFor[webhook.Approvals]():               "How many of the needed approvals it has.",
	reflect.TypeFor[webhook.SwapSummary]():             "A customer swap as events show it.",
	reflect.TypeFor[webhook.Envelope]():                "The body of a webhook, byte for byte.",
	reflect.TypeFor[kernel.Page[webhook.Deposit]]():    "A page of deposits.",
	reflect.TypeFor[kernel.Page[webhook.Withdrawal]](): "A page of withdrawals.",
	reflect.TypeFor[kernel.Page[webhook.Envelope]]():   "One page of the event feed.",
	reflect.TypeFor[webhook.FreshScreening](): "The latest answer of screening about the sender of a flagged " +
		"deposit. It decides nothing.",
	reflect.TypeFor[webhook.Reversal](): "How the service reversed a credit after the chain " +
		"replaced final blocks.",
	reflect.TypeFor[webhook.SwapFailed](): "A customer swap that failed after its creation, or what came back from " +
		"it.",
	reflect.TypeFor[webhook.SwapDelayed]():                   "A customer swap that takes long.",
	reflect.TypeFor[webhook.CustomerSwap]():                  "A customer swap.",
	reflect.TypeFor[webhook.OrganizationSwap]():              "A swap of your organization's own money.",
	reflect.TypeFor[kernel.Page[webhook.OrganizationSwap]](): "A page of organization swaps.",
	reflect.TypeFor[webhook.DepositSwap](): "An address of a swap provider that a customer pays in another token, to " +
		"be credited in USDC.",
	reflect.TypeFor[kernel.Page[webhook.DepositSwap]](): "A page of deposit swaps.",
	reflect.TypeFor[webhook.Product](): "What your organization sells through its checkout. A product is archived " +
		"and never deleted.",
	reflect.TypeFor[kernel.Page[webhook.Product]](): "A page of products.",
	reflect.TypeFor[webhook.PaymentLink](): "A reusable public page that sells one or several products. Each " +
		"purchase is a checkout.",
	reflect.TypeFor[kernel.Page[webhook.PaymentLink]](): "A page of payment links.",
	reflect.TypeFor[webhook.LinkItem]():                 "A product that a payment link sells.",
	reflect.TypeFor[webhook.Checkout](): "One sale: what its payer owes, how it can be paid, and what was paid. " +
		"Deliver on CHECKOUT_COMPLETED, once for each checkoutId.",
	reflect.TypeFor[kernel.Page[webhook.Checkout]](): "A page of checkouts.",
	reflect.TypeFor[webhook.CheckoutDetails]():       "More about the state of a checkout.",
	reflect.TypeFor[webhook.LineItem](): "One position of a checkout, as it was when the checkout was " +
		"made.",
	reflect.TypeFor[webhook.PaymentOption](): "How a checkout can be paid in one mint. Its address belongs to this " +
		"checkout permanently.",
	reflect.TypeFor[webhook.AddressProof](): "The signer's statement about an address: which organization, purpose " +
		"and checkout it belongs to.",
	reflect.TypeFor[webhook.CheckoutPayment](): "What arrived for a checkout: one deposit.",
	reflect.TypeFor[webhook.Refund](): "What is given back of one checkout, in the coin and on the network of the " +
		"payment. CHECKOUT_REFUNDED tells once that it was paid.",
	reflect.TypeFor[kernel.Page[webhook.Refund]](): "A page of refunds.",
	reflect.TypeFor[webhook.RefundPart]():          "What a refund takes of one payment.",
	reflect.TypeFor[UnmatchedPayment](): "A payment that arrived for your checkouts and named none of them, or " +
		"several.",
	reflect.TypeFor[kernel.Page[UnmatchedPayment]](): "A page of unmatched payments.",
	reflect.TypeFor[webhook.BatchPayout](): "A list of payments of your own money that people approve as a whole, by " +
		"its contentHash.",
	reflect.TypeFor[kernel.Page[webhook.BatchPayout]](): "A page of batch payouts.",
	reflect.TypeFor[webhook.BatchPayoutTotal]():         "What a batch payout pays of one mint.",
	reflect.TypeFor[webhook.BatchPayoutCounts]():        "What became of the rows that a batch payout pays.",
	reflect.TypeFor[webhook.Invoice](): "What an organization owes the operator for a month. INVOICE_ISSUED tells " +
		"that it was issued.",
	reflect.TypeFor[kernel.Page[webhook.Invoice]](): "A page of invoices.",
	reflect.TypeFor[webhook.InvoiceParty]():         "A party of an invoice or credit note.",
	reflect.TypeFor[webhook.InvoiceSection]():       "The sum of the fees of a kind in one mint.",
	reflect.TypeFor[webhook.CreditNote](): "Gives back a part of an invoice. CREDIT_NOTE_ISSUED tells that it was " +
		"issued.",
	reflect.TypeFor[kernel.Page[webhook.CreditNote]]():   "A page of credit notes.",
	reflect.TypeFor[FeeLine]():                           "A fee that an organization owes.",
	reflect.TypeFor[kernel.Page[FeeLine]]():              "A page of fees.",
	reflect.TypeFor[kernel.Page[webhook.CustomerSwap]](): "A page of customer swaps.",
	reflect.TypeFor[ScopedKey]():                         "An API key of the organization, without its value.",
	reflect.TypeFor[kernel.Page[ScopedKey]]():            "A page of API keys.",
	reflect.TypeFor[DecisionNote]():                      "What the service records with a decision.",
}

// FieldDocs are the texts about fields of the same name in several types, and what a tag cannot hold.
// Every other field has its text in its tag.
var FieldDocs = map[string]kernel.FieldDoc{
	"data": {Text: "The items, in order."},
	"EnvelopePage.nextCursor": {
		Text: "The cursor of the next page, with the same types; null on the last page. The last sequence, given as " +
			"after, leads to the same page.",
	},
	"batchPayoutId": {Text: "The id of the batch payout, bp_…", Example: "bp_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"row":           {Text: "The number of a row, from 1.", Example: 7},
	"id":            {Text: "The id of the mint. Other objects name it mintId.", Example: 1},
	"mintId":        {Text: "The mint: a token on a chain.", Example: 1},
	"decimals": {
		Text:   "The number of decimals of the atomic unit. Read it before you convert an amount.",
		Bounds: map[string]any{"minimum": 0, "maximum": 36},
	},
	"symbol": {
		Text: "The symbol, for people. It identifies nothing: two tokens may share it.", Example: "USDC",
	},
	"chain":           {Text: "The chain. Chains may be added without notice.", Example: "ETHEREUM"},
	"contractAddress": {Text: "The token's contract; null for the native coin of the chain."},
	"minDepositAmount": kernel.AmountDoc("The smallest deposit that is credited, in atomic units. A smaller one is " +
		"recorded only."),
	"confirmationsRequired": {Text: "How many confirmations to show to people until a deposit counts. The service " +
		"decides by finality."},
	"customerId": {
		Text: "Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared " +
			"byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also with " +
			"%2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in a path, and " +
			"a proxy that decodes it breaks the path.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 128}, Example: "user_42",
	},
	"Deposit.product": {Enum: transfer.Products},
	"metadata": {
		Text: "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
	},
	"createdAt": {Text: "When it was created."},
	"updatedAt": {Text: "When it last changed."},
	"pendingDeposit": kernel.AmountDoc("Deposits that are on the chain and not credited yet. The total does not " +
		"include them."),
	"usdValue": {
		Text: "The value in dollars, for display; null when there is no price.", Pattern: `^[0-9]+\.[0-9]{2}$`,
		Example: "5.00",
	},
	"depositId": {
		Text: "The id of the deposit. The same transfer on the chain always has the same " +
			"id.", Example: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"mint":          {Text: "The symbol of the mint, for people."},
	"amount":        kernel.AmountDoc("The amount in atomic units."),
	"amountDecimal": {Text: "The amount in whole tokens.", Pattern: kernel.DecimalPattern, Example: "5"},
	"address": {
		Text:    "The address, in the canonical form of its chain.",
		Example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"memo": {Text: "The memo that belongs to the address; null on a chain without memos."},
	"paymentUri": {
		Text: "A link that wallets can open, for a QR code.", Example: "ethereum:0xA0b8…@1/transfer?address=0x71C7…",
	},
	"txHash":         {Text: "The hash of the transaction; null until there is one."},
	"Deposit.status": {Enum: DepositStatuses},
	"screening":      {Text: "The result of risk screening."},
	"provider":       {Text: "The risk provider."},
	"severity": {
		Text: "NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order.",
	},
	"score":      {Text: "The provider's own score."},
	"screenedAt": {Text: "When the provider was asked."},
	"entity":     {Text: "The owner of the sending wallet, if the provider knows it."},
	"categories": {Text: "The provider's categories."},
	"reason":     {Text: "The reason."},
	"decidedAt":  {Text: "When it was decided."},
	"decidedBy":  {Text: "The person or key that decided."},
	"toAddress": {
		Text:    "The destination, in the canonical form of its chain.",
		Example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"networkFee": kernel.AmountDoc(
		"The network fee, in atomic units of the native coin; null until the transaction is final. With feeMode " +
			"DEDUCTED, the part that the customer pays, as soon as it is decided.",
	),
	"type":         {Text: "The kind of actor."},
	"at":           {Text: "When."},
	"withdrawalId": {Text: "The withdrawal.", Example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"idempotencyKey": {
		Text:    "Your name for this payment: 1 to 255 printable ASCII characters without a space. It never expires.",
		Pattern: "^[!-~]{1,255}$", Example: "payout-991",
	},
	"useDecimal":      {Text: "true: amount is in whole tokens."},
	"requireApproval": {Text: "true: a person has to approve the withdrawal before anything is sent."},
	"feeMode": {
		Text: "Who pays the network fee. ORGANIZATION: your organization is billed, and the destination receives the " +
			"whole amount. DEDUCTED, for the native coin of a chain only: the customer pays amount, and the " +
			"destination receives amount less networkFee. This networkFee is fixed when the payment is ordered; the " +
			"organization bears or keeps any difference to what the network takes.",
		Enum: []string{"ORGANIZATION", "DEDUCTED"},
	},
	"maxNetworkFee": kernel.AmountDoc(
		"The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal says. " +
			"While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and the service " +
			"makes no paying transaction above the limit.",
	),
	"travelRule": {
		Text: "Your statement about the parties: any object of up to 4096 bytes. The service stores it and shows " +
			"it with the withdrawal. It does not check it, and no event has it.",
		Bounds: map[string]any{"maxProperties": 200},
	},
	"swapId": {Text: "The customer swap.", Example: ExampleSwapID},
	"fromMintId": {
		Text: "The mint that the customer gives.", Bounds: map[string]any{"minimum": 1}, Example: 7,
	},
	"toMintId": {
		Text: "The mint that the customer receives.", Bounds: map[string]any{"minimum": 1}, Example: 1,
	},
	"amountIn": kernel.AmountDoc("The amount that the customer gives, in atomic units of the source mint."),
	"estimatedAmountOut": kernel.AmountDoc("The amount that the provider offers, less its fees and the cost of the " +
		"delivery, in atomic units of the destination mint."),
	"minAmountOut": kernel.AmountDoc("The least amount that the offer allows the provider to deliver, in atomic " +
		"units " +
		"of the destination mint."),
	"feeAmount": kernel.AmountDoc("The fee of the platform, in atomic units of the source mint. Your organization is " +
		"billed for it when the swap is completed, and it is never taken from the swap."),
	"feeBps":               {Text: "The rate of feeAmount, in basis points."},
	"estimatedTimeSeconds": {Text: "How long the provider expects the swap to take; null if it does not say."},
	"slippageBps": {
		Text: "How much less than the offer the provider may deliver, in basis points; 100 if it is left out. The " +
			"service asks providers for at most 300.",
		Bounds: map[string]any{"minimum": 1, "maximum": 1000}, Example: 100,
	},
	"CustomerSwap.status":       {Enum: SwapStatuses},
	"CustomerSwap.refundStatus": {Enum: RefundStatuses},

	"OrganizationSwap.status":        {Enum: OrganizationSwapStatuses},
	"OrganizationSwap.refundStatus":  {Enum: RefundStatuses},
	"OrganizationSwap.product":       {Enum: transfer.Products},
	"DepositSwap.status":             {Enum: DepositSwapStatuses},
	"Product.status":                 {Enum: ProductStatuses},
	"productId":                      {Text: "The product.", Example: ExampleProduct.ProductID},
	"PaymentLink.status":             {Enum: LinkStatuses},
	"linkId":                         {Text: "The payment link.", Example: ExampleLink.LinkID},
	"Checkout.status":                {Enum: CheckoutStatuses},
	"Checkout.exception":             {Enum: append(slices.Clone(CheckoutExceptions), "NONE")},
	"CheckoutDetails.exceptions":     {Enum: CheckoutExceptions},
	"CheckoutPayment.status":         {Enum: CheckoutPaymentStatuses},
	"Refund.status":                  {Enum: CheckoutRefundStatuses},
	"UnmatchedPayment.depositStatus": {Enum: DepositStatuses},
	"UnmatchedPayment.reason":        {Enum: unmatchedReasons},
	"Refund.kind":                    {Enum: checkoutRefundKinds},
	"Refund.feeMode":                 {Enum: checkout.FeeModes},
	"refundId":                       {Text: "The refund.", Example: ExampleRefund.RefundID},
	"invoiceId":                      {Text: "The invoice.", Example: "inv_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"checkoutId":                     {Text: "The checkout.", Example: ExampleCheckout.CheckoutID},
	"priceType": {
		Text: "FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice.",
		Enum: checkout.PriceTypes, Example: checkout.FixedPrice,
	},
	"currency": {
		Text: "The currency of the prices: USD, or the symbol of one of acceptedMintIds.", Example: checkout.USD,
	},
	"acceptedMintIds": {Text: "The mints in which it can be paid, in your order."},
	"settlementMintId": {
		Text: "Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps what is paid as it " +
			"is.",
	},
	"maxQuantity": {
		Text:   "How many pieces one checkout may have.",
		Bounds: map[string]any{"minimum": 1, "maximum": 1000}, Example: 10,
	},
	"underpaymentToleranceBps": {
		Text:   "How much less than the amount due counts as paid, in basis points.",
		Bounds: map[string]any{"minimum": 0, "maximum": 1000}, Example: 50,
	},
	"overpaymentPolicy": {
		Text: "What happens to a surplus. CREDIT: it stays in your balance. REFUND_LINK: a refund is made by " +
			"itself, once for each coin, and the payer claims it on the page of the checkout.",
		Enum: checkout.OverpaymentPolicies, Example: checkout.CreditSurplus,
	},
	"latePaymentPolicy": {
		Text: "What happens to a payment after the time for it. ACCEPT_IF_WITHIN_TOLERANCE: it counts if it is " +
			"enough at the price of its moment. HOLD: a person decides. REFUND_LINK: it does not count, and a " +
			"refund is made of it by itself, as of a part that was paid when the time was over.",
		Enum: checkout.LatePaymentPolicies, Example: checkout.AcceptLate,
	},
	"onePerReference": {
		Text: "Whether one reference of yours, such as the number of an order, is paid once.",
	},
	"depositSwapId": {Text: "The deposit swap.", Example: ExampleDepositSwap.DepositSwapID},
	"originTokenId": {
		Text:    "The token: GET /deposit-swap/tokens lists them.",
		Example: "ethereum:0x6b175474e89094c44da98b954eedeac495271d0f",
	},
	"customerCharge": {
		Text: "The costs of the payment that the customer pays, in the withdrawn token and in addition to the " +
			"amount. Absent when your organization charges nothing (chargeCustomerCosts).",
	},
	"gates":            {Text: "Every rule that was evaluated, in order."},
	"reference":        {Text: "Your own reference. The service shows it and can search for it.", Example: "order-77"},
	"networkFeeMintId": {Text: "The mint of networkFee: the chain's native coin."},
	"Withdrawal.type":  {Enum: withdrawalTypes},
	"whitelistedAddressId": {
		Text:    "The whitelist entry that is paid. A customer's withdrawal does not have it.",
		Example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"Withdrawal.product": {Enum: transfer.Products},
	"Withdrawal.status":  {Enum: WithdrawalStatuses},
	"approvalReasons": {
		Text: "Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW, " +
			"PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee), " +
			"DUPLICATE_KEY (the signer remembers another payment with this idempotency key; nothing was sent), " +
			"RESTORED (created again from the signer's journal after a restore; nothing was sent) or APPROVAL_RULE " +
			"(people sign it with their passkeys, by the organization's rule).",
	},
	"expiresAt": {Text: "When the wait ends; null when it does not end by itself."},
	"cause": {
		Text:    "What happened: " + strings.Join(ledgerCauses, ", ") + ". Causes may be added without notice.",
		Example: "TRANSFER",
	},
	"transferId":             {Text: "The transfer.", Example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"from":                   {Text: "Who pays."},
	"to":                     {Text: "Who receives."},
	"product":                {Text: "A balance of your own organization.", Enum: transfer.Products},
	"endpointId":             {Text: "The webhook endpoint.", Example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"description":            {Text: "A note for people."},
	"EndpointRequest.events": {Enum: EndpointEvents},
	"EndpointWithSecret.status": {
		Text: "ENABLED.", Enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"apiVersion": {Text: "The date of the payload version.", Example: "2026-01-31"},
	"secret": {
		Text:    "The secret that verifies v1 signatures. Only this answer shows it: store it.",
		Example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	},
	"organizationId":            {Text: "Your organization."},
	"apiKeyId":                  {Text: "The id of the key; key_main is the main key.", Example: exampleKeyID},
	"ScopedKey.scope":           {Enum: scopeNames},
	"ScopedKeyRequest.scope":    {Enum: scopeNames},
	"ScopedKeyWithValue.apiKey": {Example: ExampleKey},
	"KeyRoll.overlapSeconds":    {Bounds: map[string]any{"minimum": 0, "maximum": apikey.OverlapSecondsMax}},
	"DecisionNote.note":         {Bounds: map[string]any{"maxLength": deposit.NoteRunesMax}},
	"RotatedSecret.status": {
		Text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		Enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"TestRequest.type":      {Enum: EventTypes},
	"eventId":               {Text: "The event.", Example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"jobId":                 {Text: "The job.", Example: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"filters":               {Text: "Limits which events the endpoint receives."},
	"EndpointFilters.chain": {Enum: ChainNames},
	"EndpointChange.events": {Enum: EndpointEvents},
}

const nothingHeld = " Nothing was held and nothing was sent."

// Problems are the texts about refusals.
var Problems = map[fault.Code]kernel.ProblemDoc{
	fault.InvalidJSON: {
		Kind: fault.Invalid, Text: "the body is not one JSON document in UTF-8, or has the same name twice",
		Example: "The body is not one JSON document in UTF-8: there is an error at byte 12." + NothingWritten +
			" Correct it.",
		Extra: nil,
	},
	fault.InvalidRequest: {
		Kind: fault.Invalid, Text: "a field or parameter is missing or has an impossible value", Param: "mintId",
		Example: "The field mintId is missing." + NothingWritten + " Add it.",
	},
	fault.UnknownField: {
		Kind: fault.Invalid, Text: "a field or query parameter is not known here", Param: "requireAproval",
		Example: "The field \"requireAproval\" is not known here." + NothingWritten + " Did you mean " +
			"requireApproval?",
	},
	fault.InvalidAmount: {
		Kind: fault.Invalid, Text: "the amount is not in canonical form, is zero, or has too many decimals",
		Param: "amount",
		Example: "Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic " +
			"units, or set " +
			"useDecimal to true." + nothingHeld,
	},
	fault.AmountBelowMinimum: {
		Kind: fault.Invalid, Text: "the amount is below the mint's minimum", Param: "amount",
		Example: "The smallest withdrawal of USDC is 1000000 atomic units (1 USDC)." + nothingHeld +
			" Ask for at least this amount.",
	},
	fault.InvalidAddress: {
		Kind: fault.Invalid, Text: "the destination is not an address on the mint's chain", Param: "toAddress",
		Example: "This is not an address on ETHEREUM: its checksum is " +
			"wrong." + nothingHeld + " Check toAddress with your customer.",
	},
	fault.MintNotFound: {
		Kind: fault.Invalid, Text: "the mint does not exist", Param: "mintId",
		Example: "Mint 99 does not exist." + nothingHeld + " GET /mints lists the mints.",
	},
	fault.InvalidPair: {
		Kind: fault.Invalid,
		Text: "the mints cannot be swapped for each other; details.rule names the rule: a, both are the same " +
			"currency; b, USDC or USDT that is not on Solana; c, a mint is not swappable for your organization",
		Example: "A swap turns one currency into another one, and both mints are USDC." + nothingHeld +
			" GET /mints lists the mints.",
		Extra: map[string]any{"details": map[string]any{"rule": "a"}},
	},
	fault.InvalidCursor: {
		Kind: fault.Invalid, Text: "the cursor belongs to another list, order or filter, or was changed",
		Param:   "cursor",
		Example: "This cursor does not belong to this list: start again without a cursor.",
	},
	fault.IdempotencyKeyMismatch: {
		Kind: fault.Invalid, Text: "the body and the header give different keys", Param: "idempotencyKey",
		Example: "The request gives two different idempotency keys." + NothingWritten + " Send one.",
	},
	fault.SameAccount: {
		Kind: fault.Invalid, Text: "both sides of the transfer are the same balance", Param: "to",
		Example: "The transfer goes from a balance to itself." + NothingWritten + " Give two different ones.",
	},
	fault.StatusNotPatchable: {
		Kind: fault.Invalid, Text: "the change of a product or of a payment link names its status", Param: "status",
		Example: "A change leaves the status of a product as it is." + NothingWritten +
			" DELETE /products/{productId} archives it, and POST /products/{productId}/unarchive puts it on sale " +
			"again.",
	},
	fault.CodeUnauthorized: {
		Kind: fault.Unauthorized,
		Text: "the key is missing, malformed, unknown, rolled, expired or deleted; the answer says nothing about " +
			"earlier " +
			"attempts",
		Example: "The x-api-key header does not carry a valid key. This request did nothing; the answer says " +
			"nothing about " +
			"earlier attempts.",
	},
	fault.IPNotAllowed: {
		Kind: fault.Forbidden,
		Text: "the organization has an IP list, and the request came from another address; the answer says nothing " +
			"about " +
			"earlier attempts",
		Example: "The organization does not allow this key from the address of the request. This request did " +
			"nothing, and " +
			"this answer says nothing about any other request. Call from an address on your organization's list.",
	},
	fault.ScopeMissing: {
		Kind: fault.Forbidden,
		Text: "the API key does not have the scope that the call needs, or the person does not have the role; the " +
			"answer " +
			"says nothing about earlier attempts",
		Example: "This API key has the scope READ, and this call needs FULL. This request did nothing, and no money " +
			"moved. " +
			"Call with a key that has the scope.",
	},
	fault.CustomerFrozen: {
		Kind: fault.Forbidden, Text: "the customer is frozen", Param: "customerId",
		Example: "This customer is frozen, so no money can leave the balance." + nothingHeld +
			" The party that froze the customer has to lift the freeze first.",
	},
	fault.SwapsDisabled: {
		Kind: fault.Forbidden, Text: "customer swaps are not enabled for your organization",
		Example: "Customer swaps are not enabled for your organization." + nothingHeld +
			" Ask the operator of this service to switch them on.",
	},
	fault.OrgSwapsDisabled: {
		Kind: fault.Forbidden, Text: "swaps of the organization's own money are not enabled",
		Example: "Swaps of your organization's own money are not enabled." + nothingHeld +
			" Ask the operator of this service to switch them on.",
	},
	fault.OperatorOnly: {
		Kind: fault.Forbidden, Text: "only the operator of this service may do this",
		Example: "Your organization did not freeze this customer, so your organization cannot lift the " +
			"freeze." + NothingWritten +
			" Ask the operator of this service.",
	},
	fault.OrganizationFrozen: {
		Kind: fault.Forbidden, Text: "the organization is frozen",
		Example: "Your organization is frozen, so no money can leave its balances." + nothingHeld +
			" Ask the operator of this service.",
	},
	fault.CodeNotFound: {
		Kind: fault.NotFound, Text: "your organization does not have this resource",
		Example: "Your organization has nothing with this id. No money was moved.",
	},
	fault.NotAcceptable: {
		Kind: fault.Invalid, Text: "the request asks for text/csv, and this call answers in JSON only",
		Example: "This call returns JSON only, not a table. The call only reads, so nothing was changed. Leave the " +
			"header " +
			"Accept out, or send Accept: application/json.",
	},
	fault.BodyTooLarge: {
		Kind: fault.Invalid, Text: "the body is larger than 64 KB; a batch payout may have 2,000,000 bytes",
		Example: "The body is larger than 65536 bytes." + NothingWritten + " Send a smaller body.",
	},
	fault.UnsupportedMediaType: {
		Kind: fault.Invalid, Text: "the body is not sent as application/json; a batch payout may also be text/csv",
		Example: "The body has to be JSON, sent with Content-Type: application/json." + NothingWritten +
			" Send it in this " +
			"form.",
	},
	fault.IdempotencyConflict: {
		Kind: fault.Conflict, Text: "the key belongs to a request with other parameters", Param: "idempotencyKey",
		Example: "This idempotencyKey belongs to another withdrawal." + nothingHeld + " Use a new key for a new " +
			"payment.",
		Extra: map[string]any{"existingId": exampleWithdrawalID},
	},
	fault.ApprovalRefused: {
		Kind: fault.Conflict, Text: "contentHash is not that of the batch payout as it is now", Param: "contentHash",
		Example: "This contentHash is not that of batch payout " + ExampleBatchPayout.BatchPayoutID + "." +
			NothingWritten + " Look at the batch and its rows again, and name the hash that is shown with them.",
	},
	fault.DuplicateBatch: {
		Kind: fault.Conflict, Text: "the same list was submitted before; existingId names that batch payout",
		Param: "acknowledgeDuplicateOf",
		Example: "Batch payout " + ExampleBatchPayout.BatchPayoutID + " pays the same list and was submitted before." +
			nothingHeld + " Look at it first, and name it in acknowledgeDuplicateOf if the list has to be paid once " +
			"more.",
		Extra: map[string]any{"existingId": ExampleBatchPayout.BatchPayoutID},
	},
	fault.InvalidState: {
		Kind: fault.Conflict, Text: "the resource is in a state that does not allow the call; the sentence says in " +
			"which",
		Example: "Only a withdrawal that is AWAITING_APPROVAL can be cancelled, and this one is PROCESSING. This " +
			"call changed " +
			"nothing and moved no money.",
		Extra: map[string]any{"currentStatus": "PROCESSING"},
	},
	fault.ProductArchived: {
		Kind: fault.Conflict, Text: "the product is archived and takes no new checkout", Param: "productId",
		Example: "Product " + ExampleProduct.ProductID + " is archived and not for sale." + NothingWritten +
			" Put it on sale again, or sell another one.",
	},
	fault.ReferencePaid: {
		Kind: fault.Conflict, Text: "another checkout of the reference is open or paid, and one is allowed for each; " +
			"existingId names it", Param: "reference",
		Example: "Another checkout of this reference is open or paid, and one checkout is allowed for each." +
			NothingWritten + " Show the payer the existing checkout, or cancel it first.",
		Extra: map[string]any{"existingId": ExampleCheckout.CheckoutID},
	},
	fault.RefundExceedsPayment: {
		Kind: fault.Unprocessable, Text: "the refund is more than what was credited in this mint and is not refunded " +
			"yet; details.available has that, in atomic units", Param: "amount",
		Example: "Of what was paid in USDC, 10000000 atomic units are credited and not refunded yet." + NothingWritten +
			" Refund at most this amount.",
		Extra: map[string]any{"details": map[string]any{"available": "10000000"}},
	},
	fault.OptionUnavailable: {
		Kind: fault.Unprocessable,
		Text: "the checkout cannot be paid in this mint now; details.reason says why: CLOSED, NO_PRICE, OFF_PEG, " +
			"BELOW_MINIMUM or COST_TOO_HIGH", Param: "mintId",
		Example: "ETH on ETHEREUM has no price now." + NothingWritten + " Choose another coin, or try again later.",
		Extra:   map[string]any{"details": map[string]any{"reason": "NO_PRICE"}},
	},
	fault.InsufficientBalance: {
		Kind: fault.Unprocessable, Text: "the customer's balance is smaller than the amount, or the customer is not " +
			"known", Param: "amount",
		Example: "The customer's available balance is smaller than the amount." + nothingHeld +
			" Ask for less, or wait for a deposit.",
	},
	fault.QuoteRejected: {
		Kind: fault.Unprocessable,
		Text: "no swap provider offers the swap on these terms; providerMessage, if present, is what the provider " +
			"said",
		Example: "No provider offers this swap on these terms." + nothingHeld +
			" Ask for a quote and change the amount, minAmountOut or slippageBps.",
		Extra: map[string]any{"providerMessage": "Amount is too low for bridge, try at least 1000000"},
	},
	fault.DestinationNotAllowed: {
		Kind:  fault.Unprocessable,
		Text:  "the destination is an address of this service, a token's contract, or an address without a known key",
		Param: "toAddress",
		Example: "Withdrawals to this address are not allowed: its key has no holder, so the money would be " +
			"lost." + nothingHeld +
			" Give an address of your customer's own.",
	},
	fault.AddressNotWhitelisted: {
		Kind: fault.Unprocessable, Text: "the address is not on the organization's whitelist, or not usable yet",
		Param: "whitelistedAddressId",
		Example: "This whitelist entry is not usable yet: it cools off." + nothingHeld +
			" GET /whitelisted-addresses lists your whitelist.",
	},
	fault.DepositsSuspended: {
		Kind: fault.Unprocessable,
		Text: "the mint or its chain is stopped now: the service gives out no addresses and decides no flagged " +
			"deposit",
		Param: "mintId",
		Example: "Deposits of this mint are switched off. No address was given out and no money moved. Ask the " +
			"operator of " +
			"this service.",
	},
	fault.WithdrawalsSuspended: {
		Kind: fault.Unprocessable, Text: "withdrawals of this mint are stopped now", Param: "mintId",
		Example: "Outgoing payments are stopped now." + nothingHeld + " Try again later with the same idempotencyKey.",
		Extra:   nil,
	},
	fault.DepositNotFlagged: {
		Kind: fault.Conflict, Text: "the deposit is not flagged, or not any more; currentStatus has its status",
		Example: "This deposit is resolved: it is CREDITED. Nothing was changed.",
		Extra:   map[string]any{"currentStatus": "CREDITED"},
	},
	fault.ResolutionInProgress: {
		Kind: fault.Conflict, Text: "another decision was first, and the service may still be carrying it out",
		Example: "The service is carrying out another decision about this deposit: it is REJECTING. This decision " +
			"changed " +
			"nothing.",
		Extra: map[string]any{"currentStatus": "REJECTING"},
	},
	fault.ResolutionStuckCode: {
		Kind: fault.Conflict, Text: "the deposit was decided, and its transfer failed; the operator completes it",
		Example: "This deposit was decided, and its transfer failed. The operator of this service can complete it. " +
			"Nothing " +
			"was changed.",
		Extra: map[string]any{"currentStatus": "RESOLUTION_STUCK"},
	},
	fault.RefundNotReceived: {
		Kind: fault.Conflict, Text: "nothing of the failed swap has come back yet",
		Example: "Nothing of this swap has come back yet. Nothing was changed and no money moved. Restore it after " +
			"CUSTOMER_SWAP_REFUNDED.",
	},
	fault.RejectBlockedSanctions: {
		Kind: fault.Conflict, Text: "the sender is on a sanctions list, and the installation sends nothing back to " +
			"it",
		Example: "The sender is on a sanctions list, and this installation sends nothing back to it. Nothing was " +
			"decided, and " +
			"the deposit is still flagged. The operator of this service can redirect it.",
		Extra: map[string]any{"currentStatus": "FLAGGED"},
	},
	fault.InsufficientGas: {
		Kind: fault.Unprocessable, Text: "the deposit is smaller than the network fee for sending it; the service " +
			"records the " +
			"attempt",
		Example: "This deposit is smaller than the network fee for sending it, 21000000000000 units. The attempt is " +
			"recorded, " +
			"no money moved, and the deposit is still flagged.",
	},
	fault.FeatureDisabled: {
		Kind: fault.Forbidden, Text: "the feature is switched off here",
		Example: "This installation does not use the local list, so an entry would have no effect. Nothing was " +
			"changed and no " +
			"money moved.",
	},
	fault.WithdrawalRiskBlocked: {
		Kind: fault.Blocked, Text: "risk screening refuses the destination: no amount is held, and withdrawalId " +
			"names the " +
			"record",
		Example: "Withdrawal blocked by risk screening." + nothingHeld +
			" A repeated request with this destination gets the same answer: ask your customer for another address, " +
			"or ask the operator of this service.",
		Extra: map[string]any{
			"withdrawalId": exampleWithdrawalID,
			"details":      map[string]any{"severity": "SEVERE", "categories": []string{"SANCTIONS"}},
		},
	},
	fault.RateLimited: {
		Kind: fault.Limited,
		Text: "more requests than this organization may send, or too many wrong keys; the answer says nothing about " +
			"earlier attempts",
		Example: "Too many requests. This request did nothing, which says nothing about earlier attempts. Wait 1 " +
			"seconds and " +
			"repeat the request; repeat a withdrawal with the same idempotencyKey.",
	},
	fault.ProviderError: {
		Kind: fault.BadGateway, Text: "the answer of a swap provider cannot be read or trusted; whether the swap " +
			"exists is not known, and a repeated request with the same key shows it",
		Example: "The swap provider answered what is no answer. It is not known whether this call took effect. " +
			"Repeat the request shortly with the same idempotencyKey.",
	},
	fault.ProviderTimeout: {
		Kind: fault.GatewayTimeout, Text: "no swap provider answered in time; whether the swap exists is not known, " +
			"and a repeated request with the same key shows it",
		Example: "The swap provider did not answer in time. It is not known whether this call took effect. " +
			"Repeat the request shortly with the same idempotencyKey.",
	},
	fault.Internal: {
		Kind: kernel.KindInternal, Text: "an internal error; a GET changed nothing, and error says how to find out " +
			"whether a write took " +
			"effect",
		Example: "An internal error stopped this call. It is not known whether this call took effect. Repeat the " +
			"request " +
			"with the " +
			"same idempotencyKey: it takes effect at most once, and the answer shows the result.",
	},
	fault.CodeUnavailable: {
		Kind: fault.Unavailable,
		Text: "a part of the service is down, and the sentence says which; a GET changed nothing, and error says " +
			"how to " +
			"find out whether a write took effect",
		Example: "The database has no space left on its disk, so this call was not finished. Repeat the request " +
			"with the same " +
			"idempotencyKey: it takes effect at most once, and the answer shows the result.",
	},
}
