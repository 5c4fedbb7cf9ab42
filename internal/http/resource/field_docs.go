package resource

import (
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/transfer"
)

// FieldDocs are the texts about fields, by type and name, or by name alone for every type.
var FieldDocs = map[string]kernel.FieldDoc{
	"Mint.":         {Text: "A token on a chain."},
	"EmbeddedMint.": {Text: "A token on a chain, as other objects show it."},
	"Customer.":     {Text: "One of your customers."},
	"CustomerCharge.": {
		Text: "The part of the costs of a withdrawal that the customer pays, by the setting and the prices at the " +
			"time of the request.",
	},
	"Balance.":         {Text: "A customer's balance of one mint."},
	"Balances.":        {Text: "A customer's balances, by mint."},
	"CustomerChange.":  {Text: "Changes a customer. Fields that are left out stay as they are."},
	"FreezeRequest.":   {Text: "Says why the customer is frozen."},
	"UnfreezeRequest.": {Text: "Has no fields."},
	"DepositRequest.":  {Text: "Asks for a deposit address."},
	"DepositAddress.":  {Text: "Where a customer pays in. The address belongs to the customer and the chain."},
	"Deposit.": {
		Text: "A transfer to an address of one of your customers, or of a product of your own. Credit your user on " +
			"CUSTOMER_DEPOSIT with isFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on both.",
	},
	"ProductDepositRequest.": {Text: "Asks for a deposit address of your own."},
	"ProductAddress.": {
		Text: "Where your organization pays in for one of its products. The address belongs to the product and the " +
			"chain.",
	},
	"WithdrawRequest.": {Text: "Asks for a payment from a customer's balance."},
	"Withdrawal.": {
		Text: "A payment to an address, from a customer's balance or from one of the organization's own.",
	},
	"TransferRequest.": {Text: "Asks for a transfer between two balances."},
	"TransferParty.":   {Text: "One side of a transfer: either a customer or a product."},
	"Transfer.": {
		Text: "A transfer between two balances of your organization. It has no states: it is complete when it exists.",
	},
	"Party.":               {Text: "One side of a transfer: a customer or a product."},
	"TransferPage.":        {Text: "A page of transfers."},
	"ProductBalance.":      {Text: "Your organization's balance of one mint in one product."},
	"ProductBalances.":     {Text: "Your organization's own balances, by mint and product."},
	"Entry.":               {Text: "One movement of a balance, with its cause."},
	"EntryPage.":           {Text: "A page of movements."},
	"Screening.":           {Text: "The result of risk screening for the sender of a deposit."},
	"WithdrawalScreening.": {Text: "The result of risk screening for a destination."},
	"FlagReason.":          {Text: "Why a deposit is flagged."},
	"Resolution.":          {Text: "How a flagged deposit was resolved, and the transfer that carried it out."},
	"ResolutionAttempt.":   {Text: "An attempt that failed before anything reached the chain."},
	"Actor.":               {Text: "The person or key that decided."},
	"Approvals.":           {Text: "How many of the needed approvals it has."},
	"SwapSummary.":         {Text: "A customer swap as events show it."},
	"EndpointRequest.":     {Text: "Registers a webhook endpoint."},
	"Endpoint.":            {Text: "A webhook endpoint."},
	"EndpointWithSecret.":  {Text: "A new endpoint with its secret, which only this answer shows."},
	"WebhookKeys.":         {Text: "The public keys that sign webhooks."},
	"Envelope.":            {Text: "The body of a webhook, byte for byte."},
	"MintPage.":            {Text: "A page of mints."},
	"CustomerPage.":        {Text: "A page of customers."},
	"DepositPage.":         {Text: "A page of deposits."},
	"WithdrawalPage.":      {Text: "A page of withdrawals."},
	"EndpointPage.":        {Text: "A page of webhook endpoints."},
	"EnvelopePage.":        {Text: "One page of the event feed."},

	"EstimateRequest.": {
		Text: "Asks what a withdrawal would cost. It has the body of POST /withdraw, of which only mintId is required.",
	},
	"Estimate.": {Text: "What a withdrawal would cost, and how much the customer can withdraw."},
	"Preview.":  {Text: "What POST /withdraw would do now."},
	"GateResult.": {
		Text: "The result of one rule, with the facts that it used. Amounts are in atomic units, values in dollars.",
	},
	"Decision.":  {Text: "One decision about a withdrawal. It cannot be changed."},
	"Decisions.": {Text: "All decisions about a withdrawal, oldest first."},

	"data":       {Text: "The items, in order."},
	"hasMore":    {Text: "Whether there are more items."},
	"nextCursor": {Text: "The cursor of the next page; null on the last page."},
	"EnvelopePage.nextCursor": {
		Text: "The cursor of the next page, with the same types; null on the last page. The last sequence, given as " +
			"after, leads to the same page.",
	},

	"id":     {Text: "The id of the mint. Other objects name it mintId.", Example: 1},
	"mintId": {Text: "The mint: a token on a chain.", Example: 1},
	"decimals": {
		Text:   "The number of decimals of the atomic unit. Read it before you convert an amount.",
		Bounds: map[string]any{"minimum": 0, "maximum": 36},
	},
	"swappable": {Text: "Whether customer swaps of this organization may use the mint."},
	"symbol":    {Text: "The symbol, for people. It identifies nothing: two tokens may share it.", Example: "USDC"},
	"chain":     {Text: "The chain. Chains may be added without notice.", Example: "ETHEREUM"},
	"caip2": {
		Text: "The network by its CAIP-2 name; null for a chain that does not run here.", Example: "eip155:1",
	},
	"contractAddress": {Text: "The token's contract; null for the native coin of the chain."},
	"kind":            {Text: "NATIVE is the native coin of the chain.", Enum: []string{"NATIVE", "TOKEN"}},
	"network": {
		Text: "The network of the chain that this installation uses.", Enum: []string{"MAINNET", "TESTNET", "LOCAL"},
	},
	"logoUrl":           {Text: "The address of a picture, or null.", Format: "uri"},
	"Mint.name":         {Text: "The name, for people.", Example: "USD Coin"},
	"EmbeddedMint.name": {Text: "The name, for people.", Example: "USD Coin"},
	"depositEnabled":    {Text: "Whether deposit addresses are available."},
	"withdrawEnabled":   {Text: "Whether withdrawals are accepted."},
	"minDepositAmount": AmountDoc("The smallest deposit that is credited, in atomic units. A smaller one is " +
		"recorded only."),
	"minWithdrawAmount": AmountDoc("The smallest withdrawal, in atomic units."),
	"confirmationsRequired": {Text: "How many confirmations to show to people until a deposit counts. The service " +
		"decides by finality."},
	"finality":     {Text: "What makes a block final on this chain.", Example: "FINALIZED"},
	"memoRequired": {Text: "Whether a deposit needs a memo besides the address."},
	"usdPrice": {
		Text: "The dollar price of one whole token, for display; null when it is not known.", Pattern: DecimalPattern,
		Example: "0.9998",
	},
	"usdPriceAt": {Text: "The time of the price."},

	"customerId": {
		Text: "Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared " +
			"byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also with " +
			"%2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in a path, and " +
			"a proxy that decodes it breaks the path.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 128}, Example: "user_42",
	},
	"customerEmail": {
		Text:   "The customer's e-mail. This field sets it while none is known, and never changes it.",
		Bounds: map[string]any{"maxLength": 254}, Example: "a@example.com",
	},
	"Deposit.customerId": {
		Text: "The customer whose address received the deposit; null for a deposit of your own, which has a " +
			"product.", Example: "user_42",
	},
	"Deposit.product": {
		Text: "The product of your own whose address received the deposit. Only a deposit of your own has it.",
		Enum: transfer.Products,
	},
	"Deposit.customerEmail": {Text: "The customer's e-mail, where one is known."},
	"Customer.status": {
		Text: "FROZEN: deposits are credited as usual, and no money leaves.", Enum: []string{"ACTIVE", "FROZEN"},
	},
	"metadata": {
		Text: "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
	},
	"createdAt": {Text: "When it was created."},
	"updatedAt": {Text: "When it last changed."},

	"available": AmountDoc("The amount that can be spent."),
	"pendingDeposit": AmountDoc("Deposits that are on the chain and not credited yet. The total does not include " +
		"them."),
	"pendingWithdraw": AmountDoc("Held for withdrawals that have not ended."),
	"inSwap":          AmountDoc("Held for swaps that have not ended."),
	"held":            AmountDoc("Deposits that risk screening flagged. The total does not include them."),
	"total":           AmountDoc("available + pendingWithdraw + inSwap."),
	"usdValue": {
		Text: "The value in dollars, for display; null when there is no price.", Pattern: `^[0-9]+\.[0-9]{2}$`,
		Example: "5.00",
	},

	"depositId": {
		Text: "The id of the deposit. The same transfer on the chain always has the same " +
			"id.", Example: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"mint":           {Text: "The symbol of the mint, for people."},
	"Deposit.mintId": {Text: "The mint; null for a token that the catalogue does not list.", Example: 1},
	"amount":         AmountDoc("The amount in atomic units."),
	"WithdrawRequest.amount": {
		Text: "Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as " +
			"the mint has decimals. ASCII digits without sign, exponent and leading zero.",
		Bounds: map[string]any{"minLength": 1}, Example: "5000000",
	},
	"amountDecimal": {Text: "The amount in whole tokens.", Pattern: DecimalPattern, Example: "5"},
	"address": {
		Text:    "The address, in the canonical form of its chain.",
		Example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"memo": {Text: "The memo that belongs to the address; null on a chain without memos."},
	"WithdrawRequest.memo": {
		Text: "Leave it out: no chain of this installation has memos.", Bounds: map[string]any{"maxLength": 128},
	},
	"paymentUri": {
		Text: "A link that wallets can open, for a QR code.", Example: "ethereum:0xA0b8…@1/transfer?address=0x71C7…",
	},
	"fromAddresses": {
		Text: "The senders. Empty when one of the senders is not known, or when there are more than 20.",
	},
	"txHash":         {Text: "The hash of the transaction; null until there is one."},
	"Deposit.txHash": {Text: "The hash of the transaction."},
	"outputIndex": {
		Text: "The index of the output in the transaction, from 0. Only BITCOIN has it, where two outputs to one " +
			"customer are two deposits; null on every other chain.",
	},
	"Deposit.memo": {
		Text: "The memo that the payer wrote into the transaction; null without a memo, before the service has read " +
			"it, and on every chain but SOLANA. It is text of a stranger and proves nothing about the payer: escape " +
			"it where you show it, and credit no customer by it. Several memos of a transaction are separated by " +
			"line breaks. The service replaces control characters by U+FFFD.",
	},
	"logIndex": {
		Text: "The index of the token's log in its block; null for a transfer of the native coin. A reorganization " +
			"can change it.",
	},
	"blockNumber":   {Text: "The number of the block. A reorganization can change it."},
	"confirmations": {Text: "The number of confirmations."},
	"source": {
		Text:    "EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources may be added without notice.",
		Example: "EXTERNAL",
	},
	"Deposit.status": {Text: "The status in the service's books.", Enum: DepositStatuses},
	"Deposit.chainStatus": {
		Text: "The status on the chain.", Enum: []string{"PENDING", "INCLUDED", "FINALIZED", "REORGED"},
	},
	"isFlagged": {
		Text: "Whether risk screening flagged the deposit. It stays true after an approval: status says whether the " +
			"deposit is credited.",
	},
	"returnAddressRisk": {
		Text: "Only of a flagged deposit: the risks of sending it back to its sender. With MULTIPLE_INPUTS there is " +
			"no single sender, and only the operator can reject the deposit. The other values are for the person who " +
			"decides.",
		Enum: []string{"NONE", "MULTIPLE_INPUTS", "CONTRACT", "KNOWN_EXCHANGE", "SWAP_SOLVER"},
	},
	"sanctioned": {
		Text: "Present and true when the sender itself is on a sanctions list. The law may forbid you to send " +
			"blocked property back: ask before you reject.",
	},
	"riskOfFunds": {Text: "The severity that flagged the deposit.", Example: "SEVERE"},
	"screening":   {Text: "The result of risk screening."},
	"freshScreening": {
		Text: "The latest answer of screening about the sender between the flag and the decision; null if screening " +
			"was not asked again. It decides nothing, and no decision waits for it.",
	},
	"FreshScreening.": {
		Text: "The latest answer of screening about the sender of a flagged deposit. It decides nothing.",
	},
	"flagReason":         {Text: "Why the deposit is flagged; null unless it is."},
	"resolution":         {Text: "How it was resolved; null until it is."},
	"resolutionAttempts": {Text: "Attempts that failed before anything reached the chain."},
	"swap":               {Text: "The customer swap that this credit completes, or null."},
	"depositSwapId":      {Text: "The deposit swap that this credit completes, or null."},
	"sweepTxHash":        {Text: "The hash of the sweep to the treasury; null until the sweep."},
	"unsupportedReason": {
		Text: "Why the deposit is not credited. Only an UNSUPPORTED deposit has it. If very many transfers use " +
			"tokens that the catalogue does not list, the service records only the first ones.",
	},
	"reversal": {
		Text: "How the service reversed the credit. Only a REVERSED deposit has it: the chain replaced final blocks " +
			"and does not have the transfer any more.",
	},
	"Reversal.":  {Text: "How the service reversed a credit after the chain replaced final blocks."},
	"reversedAt": {Text: "When the credit was reversed."},
	"takenBack":  AmountDoc("The amount that was taken from the customer's balance, in atomic units."),
	"loss": AmountDoc(
		"The amount that was not in the customer's balance any more, in atomic units. Together with takenBack it is " +
			"the amount of the deposit.",
	),
	"detectedAt":  {Text: "When the service first saw it."},
	"confirmedAt": {Text: "When its block became final."},
	"creditedAt":  {Text: "When it was credited."},

	"Screening.status": {Text: "NOT_CONFIGURED, PENDING or PASSED, for example.", Example: "PASSED"},
	"WithdrawalScreening.status": {
		Text: "PASSED, BLOCKED, UNAVAILABLE when too few providers answered, or NOT_CONFIGURED when no provider " +
			"is configured.",
		Example: "NOT_CONFIGURED",
	},
	"provider": {Text: "The risk provider."},
	"severity": {
		Text: "NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order.",
	},
	"score":      {Text: "The provider's own score."},
	"screenedAt": {Text: "When the provider was asked."},
	"code":       {Text: "A code for programs."},
	"entity":     {Text: "The owner of the sending wallet, if the provider knows it."},
	"categories": {Text: "The provider's categories."},
	"decision":   {Text: "APPROVED, REJECTED or REDIRECTED."},
	"reason":     {Text: "The reason."},
	"note":       {Text: "The note of the person who decided."},
	"decidedAt":  {Text: "When it was decided."},
	"decidedBy":  {Text: "The person or key that decided."},
	"toAddress": {
		Text:    "The destination, in the canonical form of its chain.",
		Example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"WithdrawRequest.toAddress": {
		Text:   "Where the money goes. An EVM address with mixed case has to carry its EIP-55 checksum.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 128}, Example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"networkFee": AmountDoc(
		"The network fee, in atomic units of the native coin; null until the transaction is final. With feeMode " +
			"DEDUCTED, the part that the customer pays, as soon as it is decided.",
	),
	"type": {Text: "The kind of actor."},
	"Actor.id": {
		Text: "The id of the actor: of the key for an additional API key, of the organization for the main key.",
	},
	"Actor.name": {Text: "The name of the actor."},
	"at":         {Text: "When."},
	"action":     {Text: "The decision that was attempted."},
	"message":    {Text: "A sentence for a person."},

	"customerSwapId":     {Text: "The customer swap."},
	"fromMint":           {Text: "The amount and mint that the customer gave."},
	"toMint":             {Text: "The amount and mint that the customer received."},
	"amountIn":           AmountDoc("The amount in atomic units of the mint that was given."),
	"estimatedAmountOut": AmountDoc("The estimate, in atomic units of the mint that was received."),
	"amountOut":          AmountDoc("The amount that arrived; null until it has."),
	"originTxHash":       {Text: "The hash of the transaction that paid the swap provider."},
	"destinationTxHash":  {Text: "The hash of the transaction that delivered."},

	"SwapFailed.":     {Text: "A customer swap that failed after its creation."},
	"SwapFailed.swap": {Text: "The swap."},
	"refundedAmount": AmountDoc(
		"The amount that had come back when the event was sent, in atomic units of the mint that was given; null " +
			"when nothing had.",
	),
	"CustomerChange.customerEmail": {
		Text:   "The customer's new e-mail. If it differs from the known one, no allowlist counts it for 24 hours.",
		Bounds: map[string]any{"minLength": 3, "maxLength": 254}, Example: "b@example.com",
	},
	"CustomerChange.metadata": {
		Text: "Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters, " +
			"values of up to 500.",
		Bounds: map[string]any{"maxProperties": 20},
	},
	"FreezeRequest.reason": {
		Text:   "For your own records: the audit log shows who froze the customer and why.",
		Bounds: map[string]any{"maxLength": 500},
	},
	"WithdrawRequest.mintId": {
		Text: "The mint: a token on a chain.", Bounds: map[string]any{"minimum": 1}, Example: 1,
	},
	"DepositRequest.mintId": {
		Text: "The mint: a token on a chain.", Bounds: map[string]any{"minimum": 1}, Example: 1,
	},
	"DepositRequest.customerEmail": {
		Text:   "The customer's e-mail. This call sets it while none is known, and never changes it.",
		Bounds: map[string]any{"minLength": 3, "maxLength": 254}, Example: "a@example.com",
	},

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
	"maxNetworkFee": AmountDoc(
		"The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal says. " +
			"While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and the service " +
			"makes no paying transaction above the limit.",
	),
	"travelRule": {
		Text: "Your statement about the parties: any object of up to 4096 bytes. The service stores it and shows " +
			"it with the withdrawal. It does not check it, and no event has it.",
		Bounds: map[string]any{"maxProperties": 200},
	},
	"networkFeeUsd": {
		Text: "The same in dollars, exactly; null without a recent price of the coin.", Pattern: DecimalPattern,
		Example: "0.0125",
	},
	"maxAmount": AmountDoc(
		"How much the customer can withdraw now; null when no customer was named. In either feeMode no fee is added " +
			"to it. It does not count what customerCharge holds.",
	),
	"customerCharge": {
		Text: "The costs of the payment that the customer pays, in the withdrawn token and in addition to the " +
			"amount. Absent when your organization charges nothing (chargeCustomerCosts).",
	},
	"costs": {
		Text: "Which costs: the rent of an account that is created for the payee, or the rent and the network fee of " +
			"a payment that failed because of its payee.",
		Enum: []string{"RENT", "RENT_AND_FAILURES"},
	},
	"CustomerCharge.mintId": {Text: "The mint of these amounts, which is the withdrawn one."},
	"rentMax": AmountDoc(
		"What is held in addition to the amount for an account of the payee. The customer gets back what the payment " +
			"did not cost.",
	),
	"failureMax": AmountDoc(
		"The most that the service takes out of the held amount when the payment fails because of its payee; null " +
			"when it takes nothing.",
	),
	"charged": AmountDoc(
		"What was taken from the customer; null without a charge, and until the payment has ended.",
	),
	"GateResult.rentMax": AmountDoc("What would be held in addition to the amount for an account of the payee."),
	"GateResult.failureMax": AmountDoc("The most that the service charges for a payment that fails because of its " +
		"payee."),
	"Estimate.expiresAt":  {Text: "The end of the estimate's validity: ask again after it."},
	"Estimate.networkFee": AmountDoc("The highest network fee, in atomic units of the native coin."),
	"Preview.networkFee": AmountDoc(
		"The highest network fee, in atomic units of the native coin; null when the chain does not say. With feeMode " +
			"DEDUCTED it comes out of the amount.",
	),
	"wouldBe": {
		Text: "The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL. With a known " +
			"idempotencyKey, the status of the withdrawal that has the key.",
	},
	"gates": {Text: "Every rule that was evaluated, in order."},
	"gate": {
		Text: "The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL, " +
			"USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. " +
			"Rules may be added without notice.",
		Example: "USD_THRESHOLD",
	},
	"result": {
		Text: "PASS, HOLD, REFUSE, BLOCK (the call answers 451), SKIPPED (the rule would hold, and the approval " +
			"allowlist has the customer), or NOT_CONFIGURED when the rule has nothing to check. Results may be added " +
			"without notice.",
		Example: "HOLD",
	},
	"GateResult.reason":   {Text: "The approvalReason that the rule gave."},
	"GateResult.usdValue": {Text: "The value of the amount."},
	"threshold":           {Text: "The limit that the value was compared with."},
	"price":               {Text: "The dollar price of one whole token."},
	"priceAt":             {Text: "The time of the price, by its source."},
	"priceAgeSeconds":     {Text: "The age of the price when the rule used it."},
	"priceSource":         {Text: "The source of the price."},
	"minimum": {
		Text: "The smallest amount that can be requested: the minimum of the mint, or the least amount that still " +
			"reaches the destination when the fee comes out of it.",
	},
	"GateResult.available":     {Text: "What the customer could spend."},
	"liquid":                   {Text: "What your addresses could pay, as far as the rule counted."},
	"GateResult.networkFee":    {Text: "The highest network fee at the time."},
	"GateResult.maxNetworkFee": {Text: "The highest network fee that the request accepted."},
	"resembles":                {Text: "The known address that looks like the destination."},
	"failedWithdrawalId": {
		Text: "The withdrawal to the same destination that the chain reverted. No approved withdrawal was paid to " +
			"it since.",
		Example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"costsUsd": {
		Text: "The network fees of the customer's other withdrawals in the last 24 hours, in dollars: what they " +
			"cost, or can cost at most.",
	},
	"freeze":              {Text: "What is stopped."},
	"scope":               {Text: "How far it reaches."},
	"why":                 {Text: "A sentence for a person."},
	"GateResult.severity": {Text: "The result of risk screening."},
	"GateResult.provider": {Text: "The provider."},
	"GateResult.code":     {Text: "The error of the signer or of the chain."},
	"act": {
		Text: "REQUESTED, APPROVED, APPROVAL_ADDED (a person approved, and more approvals are needed), " +
			"APPROVAL_REFUSED (the rules refused it when they were evaluated again), RETURNED (the signer or the " +
			"chain sent it back), REMOVED or CANCELLED. Values may be added without notice.",
		Example: "REQUESTED",
	},
	"actor":                    {Text: "Who decided; null for a request from before the service recorded it."},
	"Decision.status":          {Text: "The status of the withdrawal after the decision."},
	"Decision.note":            {Text: "The note of the person, or the error of the signer; null without one."},
	"Decision.approvalReasons": {Text: "Why the withdrawal waits for a person after this decision."},
	"existingId":               {Text: "The withdrawal that already has the idempotencyKey. Present only then."},
	"EstimateRequest.mintId": {
		Text: "The mint: a token on a chain.", Bounds: map[string]any{"minimum": 1}, Example: 1,
	},
	"EstimateRequest.amount": {
		Text: "As in POST /withdraw.", Bounds: map[string]any{"minLength": 1}, Example: "5000000",
	},
	"reference": {Text: "Your own reference. The service shows it and can search for it.", Example: "order-77"},
	"WithdrawRequest.reference": {
		Text:   "Your own reference. The service shows it and can search for it.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 255}, Example: "order-77",
	},
	"WithdrawRequest.metadata": {
		Text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		Bounds: map[string]any{"maxProperties": 20},
	},
	"networkFeeMintId": {Text: "The mint of networkFee: the chain's native coin."},
	"Withdrawal.type": {
		Text: "Whose balance pays: a customer's, or the organization's own by request of one of its people.",
		Enum: withdrawalTypes,
	},
	"whitelistedAddressId": {
		Text:    "The whitelist entry that is paid. A customer's withdrawal does not have it.",
		Example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"Withdrawal.customerId": {
		Text:   "Your own id of the customer; null for your organization's own withdrawal, which has a product.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 128}, Example: "user_42",
	},
	"Withdrawal.product": {
		Text: "The product whose balance pays. A customer's withdrawal does not have it.", Enum: transfer.Products,
	},
	"Withdrawal.status": {Text: "The status in the service's books.", Enum: WithdrawalStatuses},
	"Withdrawal.chainStatus": {
		Text: "The status on the chain.",
		Enum: []string{"NONE", "PENDING", "INCLUDED", "FINALIZED", "REVERTED", "DROPPED", "REPLACED"},
	},
	"requiresApproval": {Text: "Whether a person has to approve it, or had to."},
	"approvalReasons": {
		Text: "Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW, " +
			"PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee), " +
			"DUPLICATE_KEY (the signer remembers another payment with this idempotency key; nothing was sent) or " +
			"RESTORED (created again from the signer's journal after a restore; nothing was sent).",
	},
	"approvals":        {Text: "How many of the needed approvals it has."},
	"required":         {Text: "How many approvals it needs."},
	"received":         {Text: "How many it has."},
	"expiresAt":        {Text: "When the wait ends; null when it does not end by itself."},
	"replacedTxHashes": {Text: "Earlier transactions for the same payment. At most one of all of them pays."},
	"explorerUrl":      {Text: "A page that shows the transaction, if an explorer is configured."},
	"failureReason": {
		Text: "Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered below it). " +
			"The money is back in the balance.",
		Example: "REVERTED",
	},
	"rejectedReason": {Text: "The note of the person who removed it."},
	"approvedAt":     {Text: "When it was approved."},
	"broadcastAt":    {Text: "When it was first sent to the network."},
	"completedAt":    {Text: "When its outcome became final."},

	"owedToCustomers": AmountDoc(
		"What your customers have of the mint, including what they are withdrawing. Only CUSTODIAL has it. It " +
			"belongs to the customers, and the total does not include it.",
	),
	"pending":                  AmountDoc("Held for unfinished payments of the product."),
	"ProductBalance.total":     AmountDoc("available + pending."),
	"ProductBalance.available": AmountDoc("The amount that can be moved."),
	"entryId":                  {Text: "The movement.", Example: "le_4711_c"},
	"account":                  {Text: "Whose balance moved."},
	"balance": {
		Text: "The kind of balance: AVAILABLE, or PENDING_WITHDRAW for what is held for a customer's withdrawals.",
		Enum: []string{"AVAILABLE", "PENDING_WITHDRAW"},
	},
	"direction": {
		Text: "CREDIT increased the balance, DEBIT decreased it.", Enum: []string{"CREDIT", "DEBIT"},
	},
	"cause": {
		Text:    "What happened: " + strings.Join(ledgerCauses, ", ") + ". Causes may be added without notice.",
		Example: "TRANSFER",
	},
	"resourceId": {
		Text: "The deposit, withdrawal or transfer that caused the movement.", Example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"transferId": {Text: "The transfer.", Example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"from":       {Text: "Who pays."},
	"to":         {Text: "Who receives."},
	"product":    {Text: "A balance of your own organization.", Enum: transfer.Products},
	"TransferRequest.idempotencyKey": {
		Text: "Your name for this transfer: 1 to 255 printable ASCII characters without a space. It never " +
			"expires. Required, here or in the header Idempotency-Key.",
		Pattern: "^[!-~]{1,255}$", Example: "charge-991",
	},
	"TransferRequest.mintId": {
		Text: "The mint: a token on a chain.", Bounds: map[string]any{"minimum": 1}, Example: 1,
	},
	"TransferRequest.amount": {
		Text: "Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as " +
			"the mint has decimals. ASCII digits without sign, exponent and leading zero.",
		Bounds: map[string]any{"minLength": 1}, Example: "5000000",
	},
	"TransferRequest.reference": {
		Text:   "Your own reference. The service shows it and can search for it.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 255}, Example: "order-77",
	},
	"TransferRequest.metadata": {
		Text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		Bounds: map[string]any{"maxProperties": 20},
	},

	"endpointId": {Text: "The webhook endpoint.", Example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"url": {
		Text: "The URL to which events are posted: HTTPS, and no address inside a private network.", Format: "uri",
		Example: "https://example.com/hooks/coffer",
	},
	"EndpointRequest.url": {
		Text:   "The URL to which events are posted: HTTPS, and no address inside a private network.",
		Bounds: map[string]any{"minLength": 1, "maxLength": 2048}, Example: "https://example.com/hooks/coffer",
	},
	"events": {
		Text: "The events that the endpoint receives. Empty means the seven events of the interface and no " +
			"extension. * alone means all events, including later ones.",
	},
	"description": {Text: "A note for people."},
	"EndpointRequest.events": {
		Text: "The events that the endpoint shall receive. Empty or left out: the seven events of the interface and " +
			"no extension. * alone: all events, including later ones.",
		Enum: EndpointEvents,
	},
	"EndpointRequest.description": {Text: "A note for people.", Bounds: map[string]any{"maxLength": 500}},
	"Endpoint.status": {
		Text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		Enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"EndpointWithSecret.status": {
		Text: "ENABLED.", Enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"apiVersion": {Text: "The date of the payload version.", Example: "2026-01-31"},
	"secret": {
		Text:    "The secret that verifies v1 signatures. Only this answer shows it: store it.",
		Example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	},
	"keys": {Text: "The keys, newest first."},

	"Envelope.id": {Text: "The id of the event, which is the same in all " +
		"attempts.", Example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Envelope.type": {Text: "The type of the event. Types may be added without notice.", Example: "CUSTOMER_DEPOSIT"},
	"timestamp":     {Text: "When the change happened."},
	"environment": {
		Text: "LIVE, or TEST for everything that moves no money of a main network.", Enum: []string{"LIVE", "TEST"},
	},
	"organizationId": {Text: "Your organization."},
	"sequence": {
		Text: "1, 2, … within your organization, without gaps. Only requested samples do not have it.",
	},
	"Envelope.data": {
		Text: "The object of the event: a deposit, a withdrawal, a transfer or a failed swap.",
	},
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
		Kind: fault.Invalid, Text: "the body is larger than 64 KB",
		Example: "The body is larger than 65536 bytes." + NothingWritten + " Send a smaller body.",
	},
	fault.UnsupportedMediaType: {
		Kind: fault.Invalid, Text: "the body is not sent as application/json",
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
	fault.InvalidState: {
		Kind: fault.Conflict, Text: "the resource is in a state that does not allow the call; the sentence says in " +
			"which",
		Example: "Only a withdrawal that is AWAITING_APPROVAL can be cancelled, and this one is PROCESSING. This " +
			"call changed " +
			"nothing and moved no money.",
		Extra: map[string]any{"currentStatus": "PROCESSING"},
	},
	fault.InsufficientBalance: {
		Kind: fault.Unprocessable, Text: "the customer's balance is smaller than the amount, or the customer is not " +
			"known", Param: "amount",
		Example: "The customer's available balance is smaller than the amount." + nothingHeld +
			" Ask for less, or wait for a deposit.",
	},
	fault.DestinationNotAllowed: {
		Kind:  fault.Unprocessable,
		Text:  "the destination is an address of this service, a token's contract, or an address without a known key",
		Param: "toAddress",
		Example: "Withdrawals to this address are not allowed: its key has no holder, so the money would be " +
			"lost." + nothingHeld +
			" Give an address of your customer's own.",
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
