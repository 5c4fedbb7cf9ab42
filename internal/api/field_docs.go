package api

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/transfer"
)

// This file has the texts of the published document. document.go draws its shapes from the Go
// types.

const aboutOrganizations = `Coffer holds balances for the customers of an organization and pays withdrawals from them.

**Units.** An amount is a string of whole atomic units of its mint: with 6 decimals, five tokens are "5000000". Dollar values are for display.

**Repeating.** Send an ` + "`idempotencyKey`" + ` with every withdrawal. A 4xx means that the request held nothing and sent nothing. After a 5xx or no answer, send the same request with the same key: it takes effect at most once, and the answer shows the result. A call without a key may have taken effect, too: ` + "`error`" + ` names the GET that shows the result.

**Strictness.** The service refuses unknown fields and query parameters. Names are case-sensitive. No value is converted from another type.

**Rates.** If an installation limits requests, answers have RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset (seconds), and a request above the limit is refused with 429 and Retry-After. The service always answers a replay of a known idempotencyKey.

**Keys.** Every call needs the main key, or an additional key with the scope that x-scope names. An additional key without this scope is refused with 403 SCOPE_MISSING.

**Growth.** Fields, values of open enumerations, events, and codes under the existing statuses may be added without notice. Ignore those that you do not know.`

var groups = []struct{ name, text string }{
	{"Mints", "The tokens of this installation."},
	{"Customers", "Your customers, under your own ids, and their balances."},
	{"Deposits", "Deposit addresses, and the deposits that arrive at them."},
	{"Withdrawals", "Payments from customers' balances."},
	{"Transfers", "Transfers between balances inside the service, without a chain."},
	{"API keys", "The API keys of your organization, for the holder of the main key."},
	{"Webhooks", "Webhook endpoints, the feed of all events, and the keys that sign events."},
	{"Meta", "About this interface."},
}

// fieldDoc is the document's text about a field.
type fieldDoc struct {
	text    string
	pattern string
	format  string
	enum    []string // closed: another value would be a breaking change
	bounds  map[string]any
	example any
}

func (n fieldDoc) applyTo(s *huma.Schema) {
	if s.Ref != "" || len(s.OneOf) > 0 {
		s.Description = n.text
		return
	}
	s.Description = n.text
	if n.pattern != "" {
		s.Pattern = n.pattern
	}
	if n.format != "" {
		s.Format = n.format
	}
	if len(n.enum) > 0 {
		switch {
		case s.Items != nil:
			s.Items.Enum = enumValues(n.enum)
		case s.Nullable:
			s.Enum = append(enumValues(n.enum), nil)
		default:
			s.Enum = enumValues(n.enum)
		}
	}
	if len(n.bounds) > 0 {
		s.Extensions = n.bounds
	}
	if n.example != nil {
		s.Examples = []any{n.example}
	}
}

const (
	amountPattern  = `^(0|[1-9][0-9]{0,77})$`
	decimalPattern = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`
)

var chainNames = []string{
	string(chain.Ethereum), string(chain.Base), string(chain.Arbitrum), string(chain.Optimism), string(chain.Polygon),
	string(chain.BSC), string(chain.Avalanche), string(chain.Solana), string(chain.Bitcoin), string(chain.Tron),
}

var depositStatuses = []string{
	"DETECTED", "CONFIRMING", "SCREENING", "CREDITED", "FLAGGED", "APPROVING", "REJECTING", "REDIRECTING",
	"RESOLUTION_STUCK", "REJECTED", "REDIRECTED", "ORPHANED", "UNSUPPORTED", "BELOW_MINIMUM",
	"REVERSED",
}

func amountDoc(text string) fieldDoc {
	return fieldDoc{text: text, pattern: amountPattern, example: "5000000"}
}

var fieldDocs = map[string]fieldDoc{
	"Mint.":         {text: "A token on a chain."},
	"EmbeddedMint.": {text: "A token on a chain, as other objects show it."},
	"Customer.":     {text: "One of your customers."},
	"CustomerCharge.": {
		text: "The part of the costs of a withdrawal that the customer pays, by the setting and the prices at the " +
			"time of the request.",
	},
	"Balance.":         {text: "A customer's balance of one mint."},
	"Balances.":        {text: "A customer's balances, by mint."},
	"CustomerChange.":  {text: "Changes a customer. Fields that are left out stay as they are."},
	"FreezeRequest.":   {text: "Says why the customer is frozen."},
	"UnfreezeRequest.": {text: "Has no fields."},
	"DepositRequest.":  {text: "Asks for a deposit address."},
	"DepositAddress.":  {text: "Where a customer pays in. The address belongs to the customer and the chain."},
	"Deposit.": {
		text: "A transfer to an address of one of your customers, or of a product of your own. Credit your user on " +
			"CUSTOMER_DEPOSIT with isFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on both.",
	},
	"ProductDepositRequest.": {text: "Asks for a deposit address of your own."},
	"ProductAddress.": {
		text: "Where your organization pays in for one of its products. The address belongs to the product and the " +
			"chain.",
	},
	"WithdrawRequest.": {text: "Asks for a payment from a customer's balance."},
	"Withdrawal.": {
		text: "A payment to an address, from a customer's balance or from one of the organization's own.",
	},
	"TransferRequest.": {text: "Asks for a transfer between two balances."},
	"TransferParty.":   {text: "One side of a transfer: either a customer or a product."},
	"Transfer.": {
		text: "A transfer between two balances of your organization. It has no states: it is complete when it exists.",
	},
	"Party.":               {text: "One side of a transfer: a customer or a product."},
	"TransferPage.":        {text: "A page of transfers."},
	"ProductBalance.":      {text: "Your organization's balance of one mint in one product."},
	"ProductBalances.":     {text: "Your organization's own balances, by mint and product."},
	"Entry.":               {text: "One movement of a balance, with its cause."},
	"EntryPage.":           {text: "A page of movements."},
	"Screening.":           {text: "The result of risk screening for the sender of a deposit."},
	"WithdrawalScreening.": {text: "The result of risk screening for a destination."},
	"FlagReason.":          {text: "Why a deposit is flagged."},
	"Resolution.":          {text: "How a flagged deposit was resolved, and the transfer that carried it out."},
	"ResolutionAttempt.":   {text: "An attempt that failed before anything reached the chain."},
	"Actor.":               {text: "The person or key that decided."},
	"Approvals.":           {text: "How many of the needed approvals it has."},
	"SwapSummary.":         {text: "A customer swap as events show it."},
	"EndpointRequest.":     {text: "Registers a webhook endpoint."},
	"Endpoint.":            {text: "A webhook endpoint."},
	"EndpointWithSecret.":  {text: "A new endpoint with its secret, which only this answer shows."},
	"WebhookKeys.":         {text: "The public keys that sign webhooks."},
	"Envelope.":            {text: "The body of a webhook, byte for byte."},
	"MintPage.":            {text: "A page of mints."},
	"CustomerPage.":        {text: "A page of customers."},
	"DepositPage.":         {text: "A page of deposits."},
	"WithdrawalPage.":      {text: "A page of withdrawals."},
	"EndpointPage.":        {text: "A page of webhook endpoints."},
	"EnvelopePage.":        {text: "One page of the event feed."},

	"EstimateRequest.": {
		text: "Asks what a withdrawal would cost. It has the body of POST /withdraw, of which only mintId is required.",
	},
	"Estimate.": {text: "What a withdrawal would cost, and how much the customer can withdraw."},
	"Preview.":  {text: "What POST /withdraw would do now."},
	"GateResult.": {
		text: "The result of one rule, with the facts that it used. Amounts are in atomic units, values in dollars.",
	},
	"Decision.":  {text: "One decision about a withdrawal. It cannot be changed."},
	"Decisions.": {text: "All decisions about a withdrawal, oldest first."},

	"data":       {text: "The items, in order."},
	"hasMore":    {text: "Whether there are more items."},
	"nextCursor": {text: "The cursor of the next page; null on the last page."},
	"EnvelopePage.nextCursor": {
		text: "The cursor of the next page, with the same types; null on the last page. The last sequence, given as " +
			"after, leads to the same page.",
	},

	"id":     {text: "The id of the mint. Other objects name it mintId.", example: 1},
	"mintId": {text: "The mint: a token on a chain.", example: 1},
	"decimals": {
		text:   "The number of decimals of the atomic unit. Read it before you convert an amount.",
		bounds: map[string]any{"minimum": 0, "maximum": 36},
	},
	"swappable": {text: "Whether customer swaps of this organization may use the mint."},
	"symbol":    {text: "The symbol, for people. It identifies nothing: two tokens may share it.", example: "USDC"},
	"chain":     {text: "The chain. Chains may be added without notice.", example: "ETHEREUM"},
	"caip2": {
		text: "The network by its CAIP-2 name; null for a chain that does not run here.", example: "eip155:1",
	},
	"contractAddress": {text: "The token's contract; null for the native coin of the chain."},
	"kind":            {text: "NATIVE is the native coin of the chain.", enum: []string{"NATIVE", "TOKEN"}},
	"network": {
		text: "The network of the chain that this installation uses.", enum: []string{"MAINNET", "TESTNET", "LOCAL"},
	},
	"logoUrl":           {text: "The address of a picture, or null.", format: "uri"},
	"Mint.name":         {text: "The name, for people.", example: "USD Coin"},
	"EmbeddedMint.name": {text: "The name, for people.", example: "USD Coin"},
	"depositEnabled":    {text: "Whether deposit addresses are available."},
	"withdrawEnabled":   {text: "Whether withdrawals are accepted."},
	"minDepositAmount": amountDoc("The smallest deposit that is credited, in atomic units. A smaller one is " +
		"recorded only."),
	"minWithdrawAmount": amountDoc("The smallest withdrawal, in atomic units."),
	"confirmationsRequired": {text: "How many confirmations to show to people until a deposit counts. The service " +
		"decides by finality."},
	"finality":     {text: "What makes a block final on this chain.", example: "FINALIZED"},
	"memoRequired": {text: "Whether a deposit needs a memo besides the address."},
	"usdPrice": {
		text: "The dollar price of one whole token, for display; null when it is not known.", pattern: decimalPattern,
		example: "0.9998",
	},
	"usdPriceAt": {text: "The time of the price."},

	"customerId": {
		text: "Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared " +
			"byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also with " +
			"%2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in a path, and " +
			"a proxy that decodes it breaks the path.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "user_42",
	},
	"customerEmail": {
		text:   "The customer's e-mail. This field sets it while none is known, and never changes it.",
		bounds: map[string]any{"maxLength": 254}, example: "a@example.com",
	},
	"Deposit.customerId": {
		text: "The customer whose address received the deposit; null for a deposit of your own, which has a " +
			"product.", example: "user_42",
	},
	"Deposit.product": {
		text: "The product of your own whose address received the deposit. Only a deposit of your own has it.",
		enum: transfer.Products,
	},
	"Deposit.customerEmail": {text: "The customer's e-mail, where one is known."},
	"Customer.status": {
		text: "FROZEN: deposits are credited as usual, and no money leaves.", enum: []string{"ACTIVE", "FROZEN"},
	},
	"metadata": {
		text: "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
	},
	"createdAt": {text: "When it was created."},
	"updatedAt": {text: "When it last changed."},

	"available": amountDoc("The amount that can be spent."),
	"pendingDeposit": amountDoc("Deposits that are on the chain and not credited yet. The total does not include " +
		"them."),
	"pendingWithdraw": amountDoc("Held for withdrawals that have not ended."),
	"inSwap":          amountDoc("Held for swaps that have not ended."),
	"held":            amountDoc("Deposits that risk screening flagged. The total does not include them."),
	"total":           amountDoc("available + pendingWithdraw + inSwap."),
	"usdValue": {
		text: "The value in dollars, for display; null when there is no price.", pattern: `^[0-9]+\.[0-9]{2}$`,
		example: "5.00",
	},

	"depositId": {
		text: "The id of the deposit. The same transfer on the chain always has the same " +
			"id.", example: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"mint":           {text: "The symbol of the mint, for people."},
	"Deposit.mintId": {text: "The mint; null for a token that the catalogue does not list.", example: 1},
	"amount":         amountDoc("The amount in atomic units."),
	"WithdrawRequest.amount": {
		text: "Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as " +
			"the mint has decimals. ASCII digits without sign, exponent and leading zero.",
		bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"amountDecimal": {text: "The amount in whole tokens.", pattern: decimalPattern, example: "5"},
	"address": {
		text:    "The address, in the canonical form of its chain.",
		example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"memo": {text: "The memo that belongs to the address; null on a chain without memos."},
	"WithdrawRequest.memo": {
		text: "Leave it out: no chain of this installation has memos.", bounds: map[string]any{"maxLength": 128},
	},
	"paymentUri": {
		text: "A link that wallets can open, for a QR code.", example: "ethereum:0xA0b8…@1/transfer?address=0x71C7…",
	},
	"fromAddresses": {
		text: "The senders. Empty when one of the senders is not known, or when there are more than 20.",
	},
	"txHash":         {text: "The hash of the transaction; null until there is one."},
	"Deposit.txHash": {text: "The hash of the transaction."},
	"outputIndex": {
		text: "The index of the output in the transaction, from 0. Only BITCOIN has it, where two outputs to one " +
			"customer are two deposits; null on every other chain.",
	},
	"Deposit.memo": {
		text: "The memo that the payer wrote into the transaction; null without a memo, before the service has read " +
			"it, and on every chain but SOLANA. It is text of a stranger and proves nothing about the payer: escape " +
			"it where you show it, and credit no customer by it. Several memos of a transaction are separated by " +
			"line breaks. The service replaces control characters by U+FFFD.",
	},
	"logIndex": {
		text: "The index of the token's log in its block; null for a transfer of the native coin. A reorganization " +
			"can change it.",
	},
	"blockNumber":   {text: "The number of the block. A reorganization can change it."},
	"confirmations": {text: "The number of confirmations."},
	"source": {
		text:    "EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources may be added without notice.",
		example: "EXTERNAL",
	},
	"Deposit.status": {text: "The status in the service's books.", enum: depositStatuses},
	"Deposit.chainStatus": {
		text: "The status on the chain.", enum: []string{"PENDING", "INCLUDED", "FINALIZED", "REORGED"},
	},
	"isFlagged": {
		text: "Whether risk screening flagged the deposit. It stays true after an approval: status says whether the " +
			"deposit is credited.",
	},
	"returnAddressRisk": {
		text: "Only of a flagged deposit: the risks of sending it back to its sender. With MULTIPLE_INPUTS there is " +
			"no single sender, and only the operator can reject the deposit. The other values are for the person who " +
			"decides.",
		enum: []string{"NONE", "MULTIPLE_INPUTS", "CONTRACT", "KNOWN_EXCHANGE", "SWAP_SOLVER"},
	},
	"sanctioned": {
		text: "Present and true when the sender itself is on a sanctions list. The law may forbid you to send " +
			"blocked property back: ask before you reject.",
	},
	"riskOfFunds": {text: "The severity that flagged the deposit.", example: "SEVERE"},
	"screening":   {text: "The result of risk screening."},
	"freshScreening": {
		text: "The latest answer of screening about the sender between the flag and the decision; null if screening " +
			"was not asked again. It decides nothing, and no decision waits for it.",
	},
	"FreshScreening.": {
		text: "The latest answer of screening about the sender of a flagged deposit. It decides nothing.",
	},
	"flagReason":         {text: "Why the deposit is flagged; null unless it is."},
	"resolution":         {text: "How it was resolved; null until it is."},
	"resolutionAttempts": {text: "Attempts that failed before anything reached the chain."},
	"swap":               {text: "The customer swap that this credit completes, or null."},
	"depositSwapId":      {text: "The deposit swap that this credit completes, or null."},
	"sweepTxHash":        {text: "The hash of the sweep to the treasury; null until the sweep."},
	"unsupportedReason": {
		text: "Why the deposit is not credited. Only an UNSUPPORTED deposit has it. If very many transfers use " +
			"tokens that the catalogue does not list, the service records only the first ones.",
	},
	"reversal": {
		text: "How the service reversed the credit. Only a REVERSED deposit has it: the chain replaced final blocks " +
			"and does not have the transfer any more.",
	},
	"Reversal.":  {text: "How the service reversed a credit after the chain replaced final blocks."},
	"reversedAt": {text: "When the credit was reversed."},
	"takenBack":  amountDoc("The amount that was taken from the customer's balance, in atomic units."),
	"loss": amountDoc(
		"The amount that was not in the customer's balance any more, in atomic units. Together with takenBack it is " +
			"the amount of the deposit.",
	),
	"detectedAt":  {text: "When the service first saw it."},
	"confirmedAt": {text: "When its block became final."},
	"creditedAt":  {text: "When it was credited."},

	"Screening.status": {text: "NOT_CONFIGURED, PENDING or PASSED, for example.", example: "PASSED"},
	"WithdrawalScreening.status": {
		text: "PASSED, BLOCKED, UNAVAILABLE when too few providers answered, or NOT_CONFIGURED when no provider " +
			"is configured.",
		example: "NOT_CONFIGURED",
	},
	"provider": {text: "The risk provider."},
	"severity": {
		text: "NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order.",
	},
	"score":      {text: "The provider's own score."},
	"screenedAt": {text: "When the provider was asked."},
	"code":       {text: "A code for programs."},
	"entity":     {text: "The owner of the sending wallet, if the provider knows it."},
	"categories": {text: "The provider's categories."},
	"decision":   {text: "APPROVED, REJECTED or REDIRECTED."},
	"reason":     {text: "The reason."},
	"note":       {text: "The note of the person who decided."},
	"decidedAt":  {text: "When it was decided."},
	"decidedBy":  {text: "The person or key that decided."},
	"toAddress": {
		text:    "The destination, in the canonical form of its chain.",
		example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"WithdrawRequest.toAddress": {
		text:   "Where the money goes. An EVM address with mixed case has to carry its EIP-55 checksum.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"networkFee": amountDoc(
		"The network fee, in atomic units of the native coin; null until the transaction is final. With feeMode " +
			"DEDUCTED, the part that the customer pays, as soon as it is decided.",
	),
	"type": {text: "The kind of actor."},
	"Actor.id": {
		text: "The id of the actor: of the key for an additional API key, of the organization for the main key.",
	},
	"Actor.name": {text: "The name of the actor."},
	"at":         {text: "When."},
	"action":     {text: "The decision that was attempted."},
	"message":    {text: "A sentence for a person."},

	"customerSwapId":     {text: "The customer swap."},
	"fromMint":           {text: "The amount and mint that the customer gave."},
	"toMint":             {text: "The amount and mint that the customer received."},
	"amountIn":           amountDoc("The amount in atomic units of the mint that was given."),
	"estimatedAmountOut": amountDoc("The estimate, in atomic units of the mint that was received."),
	"amountOut":          amountDoc("The amount that arrived; null until it has."),
	"originTxHash":       {text: "The hash of the transaction that paid the swap provider."},
	"destinationTxHash":  {text: "The hash of the transaction that delivered."},

	"SwapFailed.":     {text: "A customer swap that failed after its creation."},
	"SwapFailed.swap": {text: "The swap."},
	"refundedAmount": amountDoc(
		"The amount that had come back when the event was sent, in atomic units of the mint that was given; null " +
			"when nothing had.",
	),
	"CustomerChange.customerEmail": {
		text:   "The customer's new e-mail. If it differs from the known one, no allowlist counts it for 24 hours.",
		bounds: map[string]any{"minLength": 3, "maxLength": 254}, example: "b@example.com",
	},
	"CustomerChange.metadata": {
		text: "Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters, " +
			"values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},
	"FreezeRequest.reason": {
		text:   "For your own records: the audit log shows who froze the customer and why.",
		bounds: map[string]any{"maxLength": 500},
	},
	"WithdrawRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"DepositRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"DepositRequest.customerEmail": {
		text:   "The customer's e-mail. This call sets it while none is known, and never changes it.",
		bounds: map[string]any{"minLength": 3, "maxLength": 254}, example: "a@example.com",
	},

	"withdrawalId": {text: "The withdrawal.", example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"idempotencyKey": {
		text:    "Your name for this payment: 1 to 255 printable ASCII characters without a space. It never expires.",
		pattern: "^[!-~]{1,255}$", example: "payout-991",
	},
	"useDecimal":      {text: "true: amount is in whole tokens."},
	"requireApproval": {text: "true: a person has to approve the withdrawal before anything is sent."},
	"feeMode": {
		text: "Who pays the network fee. ORGANIZATION: your organization is billed, and the destination receives the " +
			"whole amount. DEDUCTED, for the native coin of a chain only: the customer pays amount, and the " +
			"destination receives amount less networkFee. This networkFee is fixed when the payment is ordered; the " +
			"organization bears or keeps any difference to what the network takes.",
		enum: []string{"ORGANIZATION", "DEDUCTED"},
	},
	"maxNetworkFee": amountDoc(
		"The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal says. " +
			"While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and the service " +
			"makes no paying transaction above the limit.",
	),
	"travelRule": {
		text: "Your statement about the parties: any object of up to 4096 bytes. The service stores it and shows " +
			"it with the withdrawal. It does not check it, and no event has it.",
		bounds: map[string]any{"maxProperties": 200},
	},
	"networkFeeUsd": {
		text: "The same in dollars, exactly; null without a recent price of the coin.", pattern: decimalPattern,
		example: "0.0125",
	},
	"maxAmount": amountDoc(
		"How much the customer can withdraw now; null when no customer was named. In either feeMode no fee is added " +
			"to it. It does not count what customerCharge holds.",
	),
	"customerCharge": {
		text: "The costs of the payment that the customer pays, in the withdrawn token and in addition to the " +
			"amount. Absent when your organization charges nothing (chargeCustomerCosts).",
	},
	"costs": {
		text: "Which costs: the rent of an account that is created for the payee, or the rent and the network fee of " +
			"a payment that failed because of its payee.",
		enum: []string{"RENT", "RENT_AND_FAILURES"},
	},
	"CustomerCharge.mintId": {text: "The mint of these amounts, which is the withdrawn one."},
	"rentMax": amountDoc(
		"What is held in addition to the amount for an account of the payee. The customer gets back what the payment " +
			"did not cost.",
	),
	"failureMax": amountDoc(
		"The most that the service takes out of the held amount when the payment fails because of its payee; null " +
			"when it takes nothing.",
	),
	"charged": amountDoc(
		"What was taken from the customer; null without a charge, and until the payment has ended.",
	),
	"GateResult.rentMax": amountDoc("What would be held in addition to the amount for an account of the payee."),
	"GateResult.failureMax": amountDoc("The most that the service charges for a payment that fails because of its " +
		"payee."),
	"Estimate.expiresAt":  {text: "The end of the estimate's validity: ask again after it."},
	"Estimate.networkFee": amountDoc("The highest network fee, in atomic units of the native coin."),
	"Preview.networkFee": amountDoc(
		"The highest network fee, in atomic units of the native coin; null when the chain does not say. With feeMode " +
			"DEDUCTED it comes out of the amount.",
	),
	"wouldBe": {
		text: "The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL. With a known " +
			"idempotencyKey, the status of the withdrawal that has the key.",
	},
	"gates": {text: "Every rule that was evaluated, in order."},
	"gate": {
		text: "The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL, " +
			"USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. " +
			"Rules may be added without notice.",
		example: "USD_THRESHOLD",
	},
	"result": {
		text: "PASS, HOLD, REFUSE, BLOCK (the call answers 451), SKIPPED (the rule would hold, and the approval " +
			"allowlist has the customer), or NOT_CONFIGURED when the rule has nothing to check. Results may be added " +
			"without notice.",
		example: "HOLD",
	},
	"GateResult.reason":   {text: "The approvalReason that the rule gave."},
	"GateResult.usdValue": {text: "The value of the amount."},
	"threshold":           {text: "The limit that the value was compared with."},
	"price":               {text: "The dollar price of one whole token."},
	"priceAt":             {text: "The time of the price, by its source."},
	"priceAgeSeconds":     {text: "The age of the price when the rule used it."},
	"priceSource":         {text: "The source of the price."},
	"minimum": {
		text: "The smallest amount that can be requested: the minimum of the mint, or the least amount that still " +
			"reaches the destination when the fee comes out of it.",
	},
	"GateResult.available":     {text: "What the customer could spend."},
	"liquid":                   {text: "What your addresses could pay, as far as the rule counted."},
	"GateResult.networkFee":    {text: "The highest network fee at the time."},
	"GateResult.maxNetworkFee": {text: "The highest network fee that the request accepted."},
	"resembles":                {text: "The known address that looks like the destination."},
	"failedWithdrawalId": {
		text: "The withdrawal to the same destination that the chain reverted. No approved withdrawal was paid to " +
			"it since.",
		example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"costsUsd": {
		text: "The network fees of the customer's other withdrawals in the last 24 hours, in dollars: what they " +
			"cost, or can cost at most.",
	},
	"freeze":              {text: "What is stopped."},
	"scope":               {text: "How far it reaches."},
	"why":                 {text: "A sentence for a person."},
	"GateResult.severity": {text: "The result of risk screening."},
	"GateResult.provider": {text: "The provider."},
	"GateResult.code":     {text: "The error of the signer or of the chain."},
	"act": {
		text: "REQUESTED, APPROVED, APPROVAL_ADDED (a person approved, and more approvals are needed), " +
			"APPROVAL_REFUSED (the rules refused it when they were evaluated again), RETURNED (the signer or the " +
			"chain sent it back), REMOVED or CANCELLED. Values may be added without notice.",
		example: "REQUESTED",
	},
	"actor":                    {text: "Who decided; null for a request from before the service recorded it."},
	"Decision.status":          {text: "The status of the withdrawal after the decision."},
	"Decision.note":            {text: "The note of the person, or the error of the signer; null without one."},
	"Decision.approvalReasons": {text: "Why the withdrawal waits for a person after this decision."},
	"existingId":               {text: "The withdrawal that already has the idempotencyKey. Present only then."},
	"EstimateRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"EstimateRequest.amount": {
		text: "As in POST /withdraw.", bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"reference": {text: "Your own reference. The service shows it and can search for it.", example: "order-77"},
	"WithdrawRequest.reference": {
		text:   "Your own reference. The service shows it and can search for it.",
		bounds: map[string]any{"minLength": 1, "maxLength": 255}, example: "order-77",
	},
	"WithdrawRequest.metadata": {
		text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},
	"networkFeeMintId": {text: "The mint of networkFee: the chain's native coin."},
	"Withdrawal.type": {
		text: "Whose balance pays: a customer's, or the organization's own by request of one of its people.",
		enum: withdrawalTypes,
	},
	"whitelistedAddressId": {
		text:    "The whitelist entry that is paid. A customer's withdrawal does not have it.",
		example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"Withdrawal.customerId": {
		text:   "Your own id of the customer; null for your organization's own withdrawal, which has a product.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "user_42",
	},
	"Withdrawal.product": {
		text: "The product whose balance pays. A customer's withdrawal does not have it.", enum: transfer.Products,
	},
	"Withdrawal.status": {text: "The status in the service's books.", enum: withdrawalStatuses},
	"Withdrawal.chainStatus": {
		text: "The status on the chain.",
		enum: []string{"NONE", "PENDING", "INCLUDED", "FINALIZED", "REVERTED", "DROPPED", "REPLACED"},
	},
	"requiresApproval": {text: "Whether a person has to approve it, or had to."},
	"approvalReasons": {
		text: "Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW, " +
			"PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee), " +
			"DUPLICATE_KEY (the signer remembers another payment with this idempotency key; nothing was sent) or " +
			"RESTORED (created again from the signer's journal after a restore; nothing was sent).",
	},
	"approvals":        {text: "How many of the needed approvals it has."},
	"required":         {text: "How many approvals it needs."},
	"received":         {text: "How many it has."},
	"expiresAt":        {text: "When the wait ends; null when it does not end by itself."},
	"replacedTxHashes": {text: "Earlier transactions for the same payment. At most one of all of them pays."},
	"explorerUrl":      {text: "A page that shows the transaction, if an explorer is configured."},
	"failureReason": {
		text: "Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered below it). " +
			"The money is back in the balance.",
		example: "REVERTED",
	},
	"rejectedReason": {text: "The note of the person who removed it."},
	"approvedAt":     {text: "When it was approved."},
	"broadcastAt":    {text: "When it was first sent to the network."},
	"completedAt":    {text: "When its outcome became final."},

	"owedToCustomers": amountDoc(
		"What your customers have of the mint, including what they are withdrawing. Only CUSTODIAL has it. It " +
			"belongs to the customers, and the total does not include it.",
	),
	"pending":                  amountDoc("Held for unfinished payments of the product."),
	"ProductBalance.total":     amountDoc("available + pending."),
	"ProductBalance.available": amountDoc("The amount that can be moved."),
	"entryId":                  {text: "The movement.", example: "le_4711_c"},
	"account":                  {text: "Whose balance moved."},
	"balance": {
		text: "The kind of balance: AVAILABLE, or PENDING_WITHDRAW for what is held for a customer's withdrawals.",
		enum: []string{"AVAILABLE", "PENDING_WITHDRAW"},
	},
	"direction": {
		text: "CREDIT increased the balance, DEBIT decreased it.", enum: []string{"CREDIT", "DEBIT"},
	},
	"cause": {
		text:    "What happened: " + strings.Join(ledgerCauses, ", ") + ". Causes may be added without notice.",
		example: "TRANSFER",
	},
	"resourceId": {
		text: "The deposit, withdrawal or transfer that caused the movement.", example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"transferId": {text: "The transfer.", example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"from":       {text: "Who pays."},
	"to":         {text: "Who receives."},
	"product":    {text: "A balance of your own organization.", enum: transfer.Products},
	"TransferRequest.idempotencyKey": {
		text: "Your name for this transfer: 1 to 255 printable ASCII characters without a space. It never " +
			"expires. Required, here or in the header Idempotency-Key.",
		pattern: "^[!-~]{1,255}$", example: "charge-991",
	},
	"TransferRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"TransferRequest.amount": {
		text: "Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point as " +
			"the mint has decimals. ASCII digits without sign, exponent and leading zero.",
		bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"TransferRequest.reference": {
		text:   "Your own reference. The service shows it and can search for it.",
		bounds: map[string]any{"minLength": 1, "maxLength": 255}, example: "order-77",
	},
	"TransferRequest.metadata": {
		text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},

	"endpointId": {text: "The webhook endpoint.", example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"url": {
		text: "The URL to which events are posted: HTTPS, and no address inside a private network.", format: "uri",
		example: "https://example.com/hooks/coffer",
	},
	"EndpointRequest.url": {
		text:   "The URL to which events are posted: HTTPS, and no address inside a private network.",
		bounds: map[string]any{"minLength": 1, "maxLength": 2048}, example: "https://example.com/hooks/coffer",
	},
	"events": {
		text: "The events that the endpoint receives. Empty means the seven events of the interface and no " +
			"extension. * alone means all events, including later ones.",
	},
	"description": {text: "A note for people."},
	"EndpointRequest.events": {
		text: "The events that the endpoint shall receive. Empty or left out: the seven events of the interface and " +
			"no extension. * alone: all events, including later ones.",
		enum: endpointEvents,
	},
	"EndpointRequest.description": {text: "A note for people.", bounds: map[string]any{"maxLength": 500}},
	"Endpoint.status": {
		text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"EndpointWithSecret.status": {
		text: "ENABLED.", enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"apiVersion": {text: "The date of the payload version.", example: "2026-01-31"},
	"secret": {
		text:    "The secret that verifies v1 signatures. Only this answer shows it: store it.",
		example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	},
	"keys": {text: "The keys, newest first."},

	"Envelope.id": {text: "The id of the event, which is the same in all " +
		"attempts.", example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Envelope.type": {text: "The type of the event. Types may be added without notice.", example: "CUSTOMER_DEPOSIT"},
	"timestamp":     {text: "When the change happened."},
	"environment": {
		text: "LIVE, or TEST for everything that moves no money of a main network.", enum: []string{"LIVE", "TEST"},
	},
	"organizationId": {text: "Your organization."},
	"sequence": {
		text: "1, 2, … within your organization, without gaps. Only requested samples do not have it.",
	},
	"Envelope.data": {
		text: "The object of the event: a deposit, a withdrawal, a transfer or a failed swap.",
	},
}

// problemDoc is the document's text about a code.
type problemDoc struct {
	kind    fault.Kind
	text    string
	param   string
	example string
	extra   map[string]any
}

const nothingHeld = " Nothing was held and nothing was sent."

var problems = map[fault.Code]problemDoc{
	fault.InvalidJSON: {
		fault.Invalid, "the body is not one JSON document in UTF-8, or has the same name twice", "",
		"The body is not one JSON document in UTF-8: there is an error at byte 12." + nothingWritten + " Correct it.",
		nil,
	},
	fault.InvalidRequest: {
		fault.Invalid, "a field or parameter is missing or has an impossible value", "mintId",
		"The field mintId is missing." + nothingWritten + " Add it.", nil,
	},
	fault.UnknownField: {
		fault.Invalid, "a field or query parameter is not known here", "requireAproval",
		"The field \"requireAproval\" is not known here." + nothingWritten + " Did you mean requireApproval?", nil,
	},
	fault.InvalidAmount: {
		fault.Invalid, "the amount is not in canonical form, is zero, or has too many decimals", "amount",
		"Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or set " +
			"useDecimal to true." + nothingHeld,
		nil,
	},
	fault.AmountBelowMinimum: {
		fault.Invalid, "the amount is below the mint's minimum", "amount",
		"The smallest withdrawal of USDC is 1000000 atomic units (1 USDC)." + nothingHeld +
			" Ask for at least this amount.",
		nil,
	},
	fault.InvalidAddress: {
		fault.Invalid, "the destination is not an address on the mint's chain", "toAddress",
		"This is not an address on ETHEREUM: its checksum is " +
			"wrong." + nothingHeld + " Check toAddress with your customer.",
		nil,
	},
	fault.MintNotFound: {
		fault.Invalid, "the mint does not exist", "mintId",
		"Mint 99 does not exist." + nothingHeld + " GET /mints lists the mints.", nil,
	},
	fault.InvalidCursor: {
		fault.Invalid, "the cursor belongs to another list, order or filter, or was changed", "cursor",
		"This cursor does not belong to this list: start again without a cursor.", nil,
	},
	fault.IdempotencyKeyMismatch: {
		fault.Invalid, "the body and the header give different keys", "idempotencyKey",
		"The request gives two different idempotency keys." + nothingWritten + " Send one.", nil,
	},
	fault.SameAccount: {
		fault.Invalid, "both sides of the transfer are the same balance", "to",
		"The transfer goes from a balance to itself." + nothingWritten + " Give two different ones.", nil,
	},
	fault.CodeUnauthorized: {
		fault.Unauthorized,
		"the key is missing, malformed, unknown, rolled, expired or deleted; the answer says nothing about earlier " +
			"attempts", "",
		"The x-api-key header does not carry a valid key. This request did nothing; the answer says nothing about " +
			"earlier attempts.",
		nil,
	},
	fault.IPNotAllowed: {
		fault.Forbidden,
		"the organization has an IP list, and the request came from another address; the answer says nothing about " +
			"earlier attempts",
		"",
		"The organization does not allow this key from the address of the request. This request did nothing, and " +
			"this answer says nothing about any other request. Call from an address on your organization's list.",
		nil,
	},
	fault.ScopeMissing: {
		fault.Forbidden,
		"the API key does not have the scope that the call needs, or the person does not have the role; the answer " +
			"says nothing about earlier attempts",
		"",
		"This API key has the scope READ, and this call needs FULL. This request did nothing, and no money moved. " +
			"Call with a key that has the scope.",
		nil,
	},
	fault.CustomerFrozen: {
		fault.Forbidden, "the customer is frozen", "customerId",
		"This customer is frozen, so no money can leave the balance." + nothingHeld +
			" The party that froze the customer has to lift the freeze first.",
		nil,
	},
	fault.OperatorOnly: {
		fault.Forbidden, "only the operator of this service may do this", "",
		"Your organization did not freeze this customer, so your organization cannot lift the " +
			"freeze." + nothingWritten +
			" Ask the operator of this service.",
		nil,
	},
	fault.OrganizationFrozen: {
		fault.Forbidden, "the organization is frozen", "",
		"Your organization is frozen, so no money can leave its balances." + nothingHeld +
			" Ask the operator of this service.",
		nil,
	},
	fault.CodeNotFound: {
		fault.NotFound, "your organization does not have this resource", "",
		"Your organization has nothing with this id. No money was moved.", nil,
	},
	fault.NotAcceptable: {
		fault.Invalid, "the request asks for text/csv, and this call answers in JSON only", "",
		"This call returns JSON only, not a table. The call only reads, so nothing was changed. Leave the header " +
			"Accept out, or send Accept: application/json.",
		nil,
	},
	fault.BodyTooLarge: {
		fault.Invalid, "the body is larger than 64 KB", "",
		"The body is larger than 65536 bytes." + nothingWritten + " Send a smaller body.", nil,
	},
	fault.UnsupportedMediaType: {
		fault.Invalid, "the body is not sent as application/json", "",
		"The body has to be JSON, sent with Content-Type: application/json." + nothingWritten + " Send it in this " +
			"form.", nil,
	},
	fault.IdempotencyConflict: {
		fault.Conflict, "the key belongs to a request with other parameters", "idempotencyKey",
		"This idempotencyKey belongs to another withdrawal." + nothingHeld + " Use a new key for a new payment.",
		map[string]any{"existingId": exampleWithdrawalID},
	},
	fault.InvalidState: {
		fault.Conflict, "the resource is in a state that does not allow the call; the sentence says in which", "",
		"Only a withdrawal that is AWAITING_APPROVAL can be cancelled, and this one is PROCESSING. This call changed " +
			"nothing and moved no money.",
		map[string]any{"currentStatus": "PROCESSING"},
	},
	fault.InsufficientBalance: {
		fault.Unprocessable, "the customer's balance is smaller than the amount, or the customer is not " +
			"known", "amount",
		"The customer's available balance is smaller than the amount." + nothingHeld +
			" Ask for less, or wait for a deposit.",
		nil,
	},
	fault.DestinationNotAllowed: {
		fault.Unprocessable,
		"the destination is an address of this service, a token's contract, or an address without a known key",
		"toAddress",
		"Withdrawals to this address are not allowed: its key has no holder, so the money would be " +
			"lost." + nothingHeld +
			" Give an address of your customer's own.",
		nil,
	},
	fault.DepositsSuspended: {
		fault.Unprocessable,
		"the mint or its chain is stopped now: the service gives out no addresses and decides no flagged deposit",
		"mintId",
		"Deposits of this mint are switched off. No address was given out and no money moved. Ask the operator of " +
			"this service.",
		nil,
	},
	fault.WithdrawalsSuspended: {
		fault.Unprocessable, "withdrawals of this mint are stopped now", "mintId",
		"Outgoing payments are stopped now." + nothingHeld + " Try again later with the same idempotencyKey.",
		nil,
	},
	fault.DepositNotFlagged: {
		fault.Conflict, "the deposit is not flagged, or not any more; currentStatus has its status", "",
		"This deposit is resolved: it is CREDITED. Nothing was changed.",
		map[string]any{"currentStatus": "CREDITED"},
	},
	fault.ResolutionInProgress: {
		fault.Conflict, "another decision was first, and the service may still be carrying it out", "",
		"The service is carrying out another decision about this deposit: it is REJECTING. This decision changed " +
			"nothing.",
		map[string]any{"currentStatus": "REJECTING"},
	},
	fault.ResolutionStuckCode: {
		fault.Conflict, "the deposit was decided, and its transfer failed; the operator completes it", "",
		"This deposit was decided, and its transfer failed. The operator of this service can complete it. Nothing " +
			"was changed.",
		map[string]any{"currentStatus": "RESOLUTION_STUCK"},
	},
	fault.RejectBlockedSanctions: {
		fault.Conflict, "the sender is on a sanctions list, and the installation sends nothing back to it", "",
		"The sender is on a sanctions list, and this installation sends nothing back to it. Nothing was decided, and " +
			"the deposit is still flagged. The operator of this service can redirect it.",
		map[string]any{"currentStatus": "FLAGGED"},
	},
	fault.InsufficientGas: {
		fault.Unprocessable, "the deposit is smaller than the network fee for sending it; the service records the " +
			"attempt", "",
		"This deposit is smaller than the network fee for sending it, 21000000000000 units. The attempt is recorded, " +
			"no money moved, and the deposit is still flagged.",
		nil,
	},
	fault.FeatureDisabled: {
		fault.Forbidden, "the feature is switched off here", "",
		"This installation does not use the local list, so an entry would have no effect. Nothing was changed and no " +
			"money moved.",
		nil,
	},
	fault.WithdrawalRiskBlocked: {
		fault.Blocked, "risk screening refuses the destination: no amount is held, and withdrawalId names the " +
			"record", "",
		"Withdrawal blocked by risk screening." + nothingHeld +
			" A repeated request with this destination gets the same answer: ask your customer for another address, " +
			"or ask the operator of this service.",
		map[string]any{
			"withdrawalId": exampleWithdrawalID,
			"details":      map[string]any{"severity": "SEVERE", "categories": []string{"SANCTIONS"}},
		},
	},
	fault.RateLimited: {
		fault.Limited,
		"more requests than this organization may send, or too many wrong keys; the answer says nothing about " +
			"earlier attempts",
		"",
		"Too many requests. This request did nothing, which says nothing about earlier attempts. Wait 1 seconds and " +
			"repeat the request; repeat a withdrawal with the same idempotencyKey.",
		nil,
	},
	fault.Internal: {
		kindInternal, "an internal error; a GET changed nothing, and error says how to find out whether a write took " +
			"effect", "",
		"An internal error stopped this call. It is not known whether this call took effect. Repeat the request " +
			"with the " +
			"same idempotencyKey: it takes effect at most once, and the answer shows the result.",
		nil,
	},
	fault.CodeUnavailable: {
		fault.Unavailable,
		"a part of the service is down, and the sentence says which; a GET changed nothing, and error says how to " +
			"find out whether a write took effect",
		"",
		"The database has no space left on its disk, so this call was not finished. Repeat the request with the same " +
			"idempotencyKey: it takes effect at most once, and the answer shows the result.",
		nil,
	},
}

// webhookHeaders are the headers of an event.
var webhookHeaders = []header{
	{"webhook-id", "The id of the event, which is the same in all attempts. A receiver ignores an event that it has " +
		"processed."},
	{"webhook-timestamp", "When this attempt was made, in seconds since 1970. A receiver refuses old messages."},
	{
		"webhook-signature",
		"v1 with HMAC-SHA256 and v1a with ed25519, over webhook-id, webhook-timestamp and the raw body, joined by " +
			"points. While a secret or key is being replaced, the header also has a signature of each kind by the " +
			"former one: one valid signature is enough.",
	},
	{"webhook-attempt", "1, 2, …: the number of attempts to deliver this event to this endpoint."},
}
