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

const aboutOrganizations = `Coffer keeps money for the customers of an organization and pays it out.

**Units.** An amount is a string of whole atomic units of its mint: with 6 decimals, five tokens are "5000000". Dollar values are for display.

**Repeating.** Give ` + "`idempotencyKey`" + ` with every withdrawal. A 4xx means that the request held nothing and sent nothing. After a 5xx or no answer, send the same request with the same key: it is done at most once, and the answer tells how it stands.

**Strictness.** Unknown fields and query parameters are refused, names are case-sensitive, and no value is converted from another type.

**Rates.** Where an installation limits requests, answers carry RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset (seconds), and one too many is 429 with Retry-After. Replaying a known idempotencyKey is always answered.

**Keys.** Every call needs the main key or an additional one with the scope that x-scope names. An additional key without it is refused with 403 SCOPE_MISSING.

**Growth.** Fields, values of open enumerations, events and codes under the statuses that there are may be added without notice. Ignore what you do not know.`

var groups = []struct{ name, text string }{
	{"Mints", "The tokens of this installation."},
	{"Customers", "Your customers, by your own ids, and what they have."},
	{"Deposits", "Addresses, and what arrived there."},
	{"Withdrawals", "Payments from customers' balances."},
	{"Transfers", "Money that moves between balances, without a chain."},
	{"API keys", "The keys of your organization, for the one who has the main key."},
	{"Webhooks", "Where events go, the feed of all events, and the keys that sign them."},
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
	"EmbeddedMint.": {text: "A token on a chain, as it stands in other objects."},
	"Customer.":     {text: "One of your customers."},
	"CustomerCharge.": {
		text: "What a customer pays of what a withdrawal costs your organization, by the setting and the prices of its request.",
	},
	"Balance.":         {text: "What a customer has of one mint."},
	"Balances.":        {text: "A customer's balances, by mint."},
	"CustomerChange.":  {text: "Changes a customer. What is not named stays."},
	"FreezeRequest.":   {text: "Says why a customer is frozen."},
	"UnfreezeRequest.": {text: "Has no fields."},
	"DepositRequest.":  {text: "Asks for a deposit address."},
	"DepositAddress.":  {text: "Where a customer pays in. The address belongs to the customer and the chain."},
	"Deposit.": {
		text: "A transfer to an address of one of your customers, or of a product of your own. Credit your user on CUSTOMER_DEPOSIT with isFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on both.",
	},
	"ProductDepositRequest.": {text: "Asks for a deposit address of your own."},
	"ProductAddress.": {
		text: "Where your organization pays in for one of its products. The address belongs to the product and the chain.",
	},
	"WithdrawRequest.": {text: "Asks for a payment from a customer's balance."},
	"Withdrawal.": {
		text: "A payment to an address: from a customer's balance, or from a balance of the organization's own.",
	},
	"TransferRequest.": {text: "Asks for money to move between two balances."},
	"TransferParty.":   {text: "One side: exactly one of a customer and a product."},
	"Transfer.": {
		text: "Money that moved between two balances of your organization. It has no states: it is done.",
	},
	"Party.":               {text: "One side of a transfer: a customer or a product."},
	"TransferPage.":        {text: "A page of transfers."},
	"ProductBalance.":      {text: "What your organization has of one mint in one product."},
	"ProductBalances.":     {text: "Your organization's own balances, by mint and product."},
	"Entry.":               {text: "One movement of a balance, with what caused it."},
	"EntryPage.":           {text: "A page of movements."},
	"Screening.":           {text: "What risk screening said of where a deposit came from."},
	"WithdrawalScreening.": {text: "What risk screening said of a destination."},
	"FlagReason.":          {text: "Why a deposit is held."},
	"Resolution.":          {text: "How a held deposit was decided, and the transfer that carried it out."},
	"ResolutionAttempt.":   {text: "An attempt that failed before anything reached the chain."},
	"Actor.":               {text: "Who decided."},
	"Approvals.":           {text: "How far the approval has come."},
	"SwapSummary.":         {text: "A customer swap as events carry it."},
	"EndpointRequest.":     {text: "Registers a webhook endpoint."},
	"Endpoint.":            {text: "Where events are sent."},
	"EndpointWithSecret.":  {text: "A new endpoint with its secret, which is shown this once."},
	"WebhookKeys.":         {text: "The public keys that sign webhooks."},
	"Envelope.":            {text: "What a webhook carries, byte for byte."},
	"MintPage.":            {text: "A page of mints."},
	"CustomerPage.":        {text: "A page of customers."},
	"DepositPage.":         {text: "A page of deposits."},
	"WithdrawalPage.":      {text: "A page of withdrawals."},
	"EndpointPage.":        {text: "A page of webhook endpoints."},
	"EnvelopePage.":        {text: "A stretch of the event feed."},

	"EstimateRequest.": {
		text: "Asks what a withdrawal would cost: the body of POST /withdraw, of which only mintId is needed.",
	},
	"Estimate.": {text: "What a withdrawal would cost, and how much could be asked for."},
	"Preview.":  {text: "What would become of a withdrawal."},
	"GateResult.": {
		text: "What one rule said, with what it looked at. Amounts are in atomic units, values in dollars.",
	},
	"Decision.":  {text: "One decision about a withdrawal. Nobody can change it."},
	"Decisions.": {text: "What was decided about a withdrawal, oldest first."},

	"data":       {text: "The items, in order."},
	"hasMore":    {text: "Whether something follows."},
	"nextCursor": {text: "What to give as cursor for the next page; null at the end."},
	"EnvelopePage.nextCursor": {
		text: "What to give as cursor for the next page, with the same types; null at the end. The last sequence as after leads to the same place.",
	},

	"id":     {text: "The mint's id: mintId elsewhere.", example: 1},
	"mintId": {text: "The mint: a token on a chain.", example: 1},
	"decimals": {
		text:   "Decimals of the atomic unit. Read it before converting an amount.",
		bounds: map[string]any{"minimum": 0, "maximum": 36},
	},
	"swappable": {text: "Whether the mint takes part in customer swaps of this organization."},
	"symbol":    {text: "For people. It identifies nothing: two tokens may share it.", example: "USDC"},
	"chain":     {text: "The chain. Chains are added without notice.", example: "ETHEREUM"},
	"caip2": {
		text: "The network by its CAIP-2 name; null for a chain that is not running here.", example: "eip155:1",
	},
	"contractAddress": {text: "The token's contract; null for the chain's own coin."},
	"kind":            {text: "NATIVE is the chain's own coin.", enum: []string{"NATIVE", "TOKEN"}},
	"network": {
		text: "Which network of the chain this installation talks to.", enum: []string{"MAINNET", "TESTNET", "LOCAL"},
	},
	"logoUrl":               {text: "A picture for people, or null.", format: "uri"},
	"Mint.name":             {text: "For people.", example: "USD Coin"},
	"EmbeddedMint.name":     {text: "For people.", example: "USD Coin"},
	"depositEnabled":        {text: "Whether deposit addresses are given out."},
	"withdrawEnabled":       {text: "Whether withdrawals are taken."},
	"minDepositAmount":      amountDoc("Less is recorded and not credited. In atomic units."),
	"minWithdrawAmount":     amountDoc("The smallest withdrawal, in atomic units."),
	"confirmationsRequired": {text: "How many confirmations to show people until a deposit counts; finality decides."},
	"finality":              {text: "What makes a block final here.", example: "FINALIZED"},
	"memoRequired":          {text: "Whether deposits need a memo beside the address."},
	"usdPrice": {
		text: "Dollars for one whole token, for display; null when unknown.", pattern: decimalPattern,
		example: "0.9998",
	},
	"usdPriceAt": {text: "When that was the price."},

	"customerId": {
		text:   "Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and does not work behind a proxy that decodes it.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "user_42",
	},
	"customerEmail": {
		text:   "The customer's e-mail. It is written when none is known and never changed by this field.",
		bounds: map[string]any{"maxLength": 254}, example: "a@example.com",
	},
	"Deposit.customerId": {
		text: "Whose address received it; null for a deposit of your own, which has a product.", example: "user_42",
	},
	"Deposit.product": {
		text: "The product of your own whose address received it. Only a deposit of your own has it.",
		enum: transfer.Products,
	},
	"Deposit.customerEmail": {text: "The customer's e-mail, where one is known."},
	"Customer.status": {
		text: "FROZEN: deposits are credited as usual, nothing leaves.", enum: []string{"ACTIVE", "FROZEN"},
	},
	"metadata": {
		text: "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
	},
	"createdAt": {text: "When it was made."},
	"updatedAt": {text: "When it last changed."},

	"available":       amountDoc("May be spent."),
	"pendingDeposit":  amountDoc("Seen on the chain and not credited yet; stands outside the total."),
	"pendingWithdraw": amountDoc("Held for withdrawals that have not ended."),
	"inSwap":          amountDoc("Held for swaps that have not ended."),
	"held":            amountDoc("Arrived and held by risk screening; stands outside the total."),
	"total":           amountDoc("available + pendingWithdraw + inSwap."),
	"usdValue": {
		text: "Its value in dollars, for display; null when there is no price.", pattern: `^[0-9]+\.[0-9]{2}$`,
		example: "5.00",
	},

	"depositId": {
		text: "The deposit. The same transfer has the same id for ever.", example: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"mint":           {text: "The mint, for people."},
	"Deposit.mintId": {text: "The mint; null for a token that is not in the catalogue.", example: 1},
	"amount":         amountDoc("Atomic units."),
	"WithdrawRequest.amount": {
		text:   "Whole atomic units; whole tokens with useDecimal, with no more digits after the point than the mint has decimals. ASCII digits, no sign, no exponent, no leading zero.",
		bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"amountDecimal": {text: "The amount in whole tokens.", pattern: decimalPattern, example: "5"},
	"address": {
		text:    "The address, in the canonical spelling of its chain.",
		example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
	},
	"memo": {text: "A memo that belongs to the address; null where the chain has none."},
	"WithdrawRequest.memo": {
		text: "Leave it out: no chain of this installation has memos.", bounds: map[string]any{"maxLength": 128},
	},
	"paymentUri": {
		text: "A link that wallets open, for a QR code.", example: "ethereum:0xA0b8…@1/transfer?address=0x71C7…",
	},
	"fromAddresses": {
		text: "Who sent it: several where several did, and none where one of them cannot be named or they are more than 20.",
	},
	"txHash":         {text: "The transaction; null until there is one."},
	"Deposit.txHash": {text: "The transaction."},
	"outputIndex": {
		text: "Which output of the transaction it is, from 0; null except on BITCOIN, where two outputs to one customer are two deposits.",
	},
	"Deposit.memo": {
		text: "What the payer wrote into the transaction as memo; null where there is none, before it is read, and on every chain but SOLANA. It is text of a stranger and proves nothing about who paid: escape it where you show it, and credit no customer by it. Several memos of a transaction stand one below the other. Control characters are replaced by U+FFFD.",
	},
	"logIndex": {
		text: "Index of the token's log in its block; null for a transfer of the native coin. An attribute: a reorganization may change it.",
	},
	"blockNumber":   {text: "The block it is in. An attribute: a reorganization may change it."},
	"confirmations": {text: "How many blocks have seen it."},
	"source": {
		text:    "EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources are added without notice.",
		example: "EXTERNAL",
	},
	"Deposit.status": {text: "What the books say.", enum: depositStatuses},
	"Deposit.chainStatus": {
		text: "What the chain says.", enum: []string{"PENDING", "INCLUDED", "FINALIZED", "REORGED"},
	},
	"isFlagged": {
		text: "Whether risk screening held it. Stays true after an approval: status says what the books say.",
	},
	"returnAddressRisk": {
		text: "Only of a flagged deposit: what speaks against sending it back to where it came from. With MULTIPLE_INPUTS there is no one sender, and only the operator rejects it. The others are for whoever decides to weigh.",
		enum: []string{"NONE", "MULTIPLE_INPUTS", "CONTRACT", "KNOWN_EXCHANGE", "SWAP_SOLVER"},
	},
	"sanctioned": {
		text: "Present and true when the sender itself is on a list of sanctions. To send blocked property back may be forbidden where you are: ask before you reject.",
	},
	"riskOfFunds": {text: "The severity that flagged it.", example: "SEVERE"},
	"screening":   {text: "What risk screening said."},
	"freshScreening": {
		text: "What screening says of the sender since it was flagged, until it was decided; null unless it was asked about again. It decides nothing, and no decision waits for it.",
	},
	"FreshScreening.": {
		text: "What screening says now of the sender of a deposit that is held. Nothing follows from it.",
	},
	"flagReason":         {text: "Why it is held; null unless flagged."},
	"resolution":         {text: "How it was decided; null until it is."},
	"resolutionAttempts": {text: "Attempts that failed before anything reached the chain."},
	"swap":               {text: "The customer swap that this credit completes, or null."},
	"depositSwapId":      {text: "The deposit swap that this credit completes, or null."},
	"sweepTxHash":        {text: "The transaction that moved it to the treasury; null until it has."},
	"unsupportedReason": {
		text: "Why it is not credited. Present only for what is UNSUPPORTED. Of very many transfers of tokens that are not in the catalogue only the first are recorded.",
	},
	"reversal": {
		text: "How the credit was taken back. Present only for what is REVERSED: the chain's finality itself broke, and the transfer is not on it any more.",
	},
	"Reversal.":  {text: "How a credit was taken back because the chain's finality itself broke."},
	"reversedAt": {text: "When it was taken back."},
	"takenBack":  amountDoc("What was taken from the customer's balance, in atomic units."),
	"loss": amountDoc(
		"What the customer did not have any more, in atomic units. With takenBack it is the deposit's amount.",
	),
	"detectedAt":  {text: "When it was first seen."},
	"confirmedAt": {text: "When its block became final."},
	"creditedAt":  {text: "When it was credited."},

	"Screening.status": {text: "Such as NOT_CONFIGURED, PENDING or PASSED.", example: "PASSED"},
	"WithdrawalScreening.status": {
		text:    "PASSED, BLOCKED, UNAVAILABLE where nobody could say enough, or NOT_CONFIGURED where nobody is asked.",
		example: "NOT_CONFIGURED",
	},
	"provider": {text: "Who was asked."},
	"severity": {
		text: "NONE, LOW, MEDIUM, HIGH or SEVERE, or UNKNOWN, which stands outside the order.",
	},
	"score":      {text: "The provider's own number."},
	"screenedAt": {text: "When it was asked."},
	"code":       {text: "A name for a program."},
	"entity":     {text: "Who is behind the sending wallet, where the provider knows."},
	"categories": {text: "The provider's categories."},
	"decision":   {text: "APPROVED, REJECTED or REDIRECTED."},
	"reason":     {text: "The reason."},
	"note":       {text: "What the person wrote."},
	"decidedAt":  {text: "When it was decided."},
	"decidedBy":  {text: "Who decided."},
	"toAddress": {
		text:    "The destination, in the canonical spelling of its chain.",
		example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"WithdrawRequest.toAddress": {
		text:   "Where the money goes. An EVM address with mixed case has to carry its EIP-55 checksum.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	},
	"networkFee": amountDoc(
		"What the network took, in atomic units of its native coin; null until it is final. With feeMode DEDUCTED what the customer pays of it, from the moment it is decided.",
	),
	"type": {text: "What it is."},
	"Actor.id": {
		text: "The id of who decided: of an additional API key the key, of the main one the organization.",
	},
	"Actor.name": {text: "The name of who decided."},
	"at":         {text: "When."},
	"action":     {text: "What was attempted."},
	"message":    {text: "A sentence for a person."},

	"customerSwapId":     {text: "The customer swap."},
	"fromMint":           {text: "What was given."},
	"toMint":             {text: "What was received."},
	"amountIn":           amountDoc("Atomic units of the mint that was given."),
	"estimatedAmountOut": amountDoc("The estimate, in atomic units of the mint that was received."),
	"amountOut":          amountDoc("What arrived; null until it has."),
	"originTxHash":       {text: "The transaction that paid the provider."},
	"destinationTxHash":  {text: "The transaction that delivered."},

	"SwapFailed.":     {text: "A customer swap that failed after it was made."},
	"SwapFailed.swap": {text: "The swap."},
	"refundedAmount": amountDoc(
		"What had come back when the event was sent, in atomic units of the mint that was given; null when nothing had.",
	),
	"CustomerChange.customerEmail": {
		text:   "The customer's e-mail from now on. One that is not the known one does not count for an allowlist for 24 hours.",
		bounds: map[string]any{"minLength": 3, "maxLength": 254}, example: "b@example.com",
	},
	"CustomerChange.metadata": {
		text:   "Your own keys and values from now on, in place of all there were: at most 20 keys of up to 40 characters, values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},
	"FreezeRequest.reason": {
		text:   "For your own records: who did it and why stands in the audit log.",
		bounds: map[string]any{"maxLength": 500},
	},
	"WithdrawRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"DepositRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"DepositRequest.customerEmail": {
		text:   "The customer's e-mail. It is written when none is known and never changed by this call.",
		bounds: map[string]any{"minLength": 3, "maxLength": 254}, example: "a@example.com",
	},

	"withdrawalId": {text: "The withdrawal.", example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"idempotencyKey": {
		text:    "Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It never expires.",
		pattern: "^[!-~]{1,255}$", example: "payout-991",
	},
	"useDecimal":      {text: "Reads amount as whole tokens."},
	"requireApproval": {text: "Waits for a person before anything is sent."},
	"feeMode": {
		text: "Who pays the network fee. ORGANIZATION is billed for it, and the destination receives the whole amount. DEDUCTED, for a chain's own coin only: the customer pays amount and the destination receives amount less networkFee, which is decided when the payment is ordered and stays; what the network takes more or less than that is the organization's.",
		enum: []string{"ORGANIZATION", "DEDUCTED"},
	},
	"maxNetworkFee": amountDoc(
		"The most that the network may take, in atomic units of the chain's own coin, whatever useDecimal says. While the network asks for more the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and no transaction that pays is made above it.",
	),
	"travelRule": {
		text:   "What you have to say of the parties: any object of up to 4096 bytes. It is kept and shown with the withdrawal, is not checked, and no event carries it.",
		bounds: map[string]any{"maxProperties": 200},
	},
	"networkFeeUsd": {
		text: "The same in dollars, exactly; null without a fresh price of the coin.", pattern: decimalPattern,
		example: "0.0125",
	},
	"maxAmount": amountDoc(
		"What the customer could withdraw now; null when no customer was named. With either feeMode the fee comes not on top of it; what customerCharge holds is left out.",
	),
	"customerCharge": {
		text: "What the customer pays of what the payment costs, in the token that is withdrawn and beside the amount. Absent where your organization charges nothing (chargeCustomerCosts).",
	},
	"costs": {
		text: "Which costs: the rent of an account that is made for the payee, or that and the network fee of a payment that failed because of its payee.",
		enum: []string{"RENT", "RENT_AND_FAILURES"},
	},
	"CustomerCharge.mintId": {text: "The mint of the amounts: the one that is withdrawn."},
	"rentMax": amountDoc(
		"What is held beside the amount for an account of the payee. What the payment did not cost is given back.",
	),
	"failureMax": amountDoc(
		"The most that is taken out of what is held when the payment fails because of its payee; null when nothing is.",
	),
	"charged": amountDoc(
		"What was taken from the customer; null while the payment has not ended, or there is none yet.",
	),
	"GateResult.rentMax":    amountDoc("What is held beside the amount for an account of the payee."),
	"GateResult.failureMax": amountDoc("The most that a payment which fails because of its payee is charged."),
	"Estimate.expiresAt":    {text: "Ask again after this."},
	"Estimate.networkFee":   amountDoc("The most that the network would take, in atomic units of its own coin."),
	"Preview.networkFee": amountDoc(
		"The most that the network would take, in atomic units of its own coin; null when the chain does not say. With feeMode DEDUCTED it comes out of the amount.",
	),
	"wouldBe": {
		text: "The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL, or that of the one that has the idempotencyKey.",
	},
	"gates": {text: "Every rule that was asked, in order."},
	"gate": {
		text:    "The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL, USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. Rules are added without notice.",
		example: "USD_THRESHOLD",
	},
	"result": {
		text:    "PASS, HOLD, REFUSE, BLOCK (answered 451), SKIPPED (it would hold, and the approval allowlist has the customer), or NOT_CONFIGURED where nothing is set for the rule to ask. Results are added without notice.",
		example: "HOLD",
	},
	"GateResult.reason":   {text: "The approvalReason that it gave."},
	"GateResult.usdValue": {text: "What the amount was worth."},
	"threshold":           {text: "What it was compared with."},
	"price":               {text: "Dollars for one whole token."},
	"priceAt":             {text: "When that was the price, by its source."},
	"priceAgeSeconds":     {text: "How old that was when it was asked."},
	"priceSource":         {text: "Who said so."},
	"minimum": {
		text: "The smallest amount that may be asked for: the mint's, or what reaches the destination with the fee that comes out of it.",
	},
	"GateResult.available":     {text: "What the customer could spend."},
	"liquid":                   {text: "What your addresses could pay, as far as it was counted."},
	"GateResult.networkFee":    {text: "The most that the network would have taken."},
	"GateResult.maxNetworkFee": {text: "What the request allowed it to take."},
	"resembles":                {text: "The known address that the destination could be mistaken for."},
	"failedWithdrawalId": {
		text:    "The withdrawal to the same destination that the chain reverted, since which no approved one was paid.",
		example: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"costsUsd": {
		text: "What the network takes at most, or took, for the customer's other withdrawals of the last 24 hours, in dollars.",
	},
	"freeze":              {text: "What is stopped."},
	"scope":               {text: "How far that reaches."},
	"why":                 {text: "A sentence for a person."},
	"GateResult.severity": {text: "What risk screening said."},
	"GateResult.provider": {text: "Who said it."},
	"GateResult.code":     {text: "The refusal of the signer or of the chain."},
	"act": {
		text:    "REQUESTED, APPROVED, APPROVAL_ADDED (a person approves, and it needs more of them), APPROVAL_REFUSED (what was asked again spoke against it), RETURNED (the signer or the chain sent it back), REMOVED or CANCELLED. Acts are added without notice.",
		example: "REQUESTED",
	},
	"actor":                    {text: "Who decided; null for a request that was made before this was kept."},
	"Decision.status":          {text: "What the withdrawal became by it."},
	"Decision.note":            {text: "What the person wrote, or the signer said; null without one."},
	"Decision.approvalReasons": {text: "Why it waits for a person by this decision."},
	"existingId":               {text: "The withdrawal that has the idempotencyKey already. Present only then."},
	"EstimateRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"EstimateRequest.amount": {
		text: "As in POST /withdraw.", bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"reference": {text: "Your own reference, shown again and searchable.", example: "order-77"},
	"WithdrawRequest.reference": {
		text:   "Your own reference, shown again and searchable.",
		bounds: map[string]any{"minLength": 1, "maxLength": 255}, example: "order-77",
	},
	"WithdrawRequest.metadata": {
		text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},
	"networkFeeMintId": {text: "The mint of networkFee: the chain's native coin."},
	"Withdrawal.type": {
		text: "Whose money it is: a customer's, or the organization's own, which a person of it asked for.",
		enum: withdrawalTypes,
	},
	"whitelistedAddressId": {
		text:    "The entry of the organization's list of addresses that is paid. Absent from a customer's.",
		example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"Withdrawal.customerId": {
		text:   "Your own id of the customer; null for your organization's own, which has a product.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128}, example: "user_42",
	},
	"Withdrawal.product": {
		text: "Which balance of your organization's own pays. Absent from a customer's.", enum: transfer.Products,
	},
	"Withdrawal.status": {text: "What the books say.", enum: withdrawalStatuses},
	"Withdrawal.chainStatus": {
		text: "What the chain says.",
		enum: []string{"NONE", "PENDING", "INCLUDED", "FINALIZED", "REVERTED", "DROPPED", "REPLACED"},
	},
	"requiresApproval": {text: "Whether a person has, or had, to approve it."},
	"approvalReasons": {
		text: "Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW, PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee), DUPLICATE_KEY (the signer remembers another payment with its idempotency key; nothing was sent) or RESTORED (made again from the signer's journal after a restore; nothing was sent).",
	},
	"approvals":        {text: "How far the approval has come."},
	"required":         {text: "How many approvals it needs."},
	"received":         {text: "How many it has."},
	"expiresAt":        {text: "When the wait ends; null when it does not."},
	"replacedTxHashes": {text: "Earlier transactions for the same payment. At most one of all of them pays."},
	"explorerUrl":      {text: "The transaction for people to look at, where an explorer is configured."},
	"failureReason": {
		text:    "Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered under it). The money is back in the balance.",
		example: "REVERTED",
	},
	"rejectedReason": {text: "What the person who removed it wrote."},
	"approvedAt":     {text: "When it was approved."},
	"broadcastAt":    {text: "When it was first sent."},
	"completedAt":    {text: "When its end became final."},

	"owedToCustomers": amountDoc(
		"What your customers have of the mint, available or being withdrawn. Present for CUSTODIAL alone; it is theirs, and stands outside the total.",
	),
	"pending":                  amountDoc("Of the product, held for payments of its own that have not ended."),
	"ProductBalance.total":     amountDoc("available + pending."),
	"ProductBalance.available": amountDoc("May be moved."),
	"entryId":                  {text: "The movement.", example: "le_4711_c"},
	"account":                  {text: "Whose balance moved."},
	"balance": {
		text: "Which of the balances: AVAILABLE, or PENDING_WITHDRAW for what is held for a customer's withdrawals.",
		enum: []string{"AVAILABLE", "PENDING_WITHDRAW"},
	},
	"direction": {
		text: "CREDIT raised the balance, DEBIT lowered it.", enum: []string{"CREDIT", "DEBIT"},
	},
	"cause": {
		text:    "What happened: " + strings.Join(ledgerCauses, ", ") + ". Causes are added without notice.",
		example: "TRANSFER",
	},
	"resourceId": {
		text: "The deposit, withdrawal or transfer that moved it.", example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"transferId": {text: "The transfer.", example: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"from":       {text: "Who pays."},
	"to":         {text: "Who receives."},
	"product":    {text: "A balance of your own organization.", enum: transfer.Products},
	"TransferRequest.idempotencyKey": {
		text:    "Your name for the transfer you mean: 1 to 255 printable ASCII characters without a space. It never expires. Required, here or in the header Idempotency-Key.",
		pattern: "^[!-~]{1,255}$", example: "charge-991",
	},
	"TransferRequest.mintId": {
		text: "The mint: a token on a chain.", bounds: map[string]any{"minimum": 1}, example: 1,
	},
	"TransferRequest.amount": {
		text:   "Whole atomic units; whole tokens with useDecimal, with no more digits after the point than the mint has decimals. ASCII digits, no sign, no exponent, no leading zero.",
		bounds: map[string]any{"minLength": 1}, example: "5000000",
	},
	"TransferRequest.reference": {
		text:   "Your own reference, shown again and searchable.",
		bounds: map[string]any{"minLength": 1, "maxLength": 255}, example: "order-77",
	},
	"TransferRequest.metadata": {
		text:   "Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500.",
		bounds: map[string]any{"maxProperties": 20},
	},

	"endpointId": {text: "The webhook endpoint.", example: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"url": {
		text: "Where events are posted: HTTPS, and no address inside a private network.", format: "uri",
		example: "https://example.com/hooks/coffer",
	},
	"EndpointRequest.url": {
		text:   "Where events are posted: HTTPS, and no address inside a private network.",
		bounds: map[string]any{"minLength": 1, "maxLength": 2048}, example: "https://example.com/hooks/coffer",
	},
	"events": {
		text: "Which events it receives. Empty means the seven events of the interface and no extension; * alone means all, also those that are added later.",
	},
	"description": {text: "For people."},
	"EndpointRequest.events": {
		text: "Which events it receives. Leave it out, or empty, for the seven events of the interface and no extension; * alone is all of them, also those that are added later.",
		enum: endpointEvents,
	},
	"EndpointRequest.description": {text: "For people.", bounds: map[string]any{"maxLength": 500}},
	"Endpoint.status": {
		text: "ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.",
		enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"EndpointWithSecret.status": {
		text: "ENABLED.", enum: []string{"ENABLED", "PAUSED", "DISABLED_GONE", "DISABLED_BY_FAILURE"},
	},
	"apiVersion": {text: "The date of the version that payloads follow.", example: "2026-01-31"},
	"secret": {
		text:    "Verifies the v1 signatures. Shown this once; keep it.",
		example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	},
	"keys": {text: "The keys, newest first."},

	"Envelope.id":   {text: "The event: the same over all attempts.", example: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Envelope.type": {text: "What it tells. Types are added without notice.", example: "CUSTOMER_DEPOSIT"},
	"timestamp":     {text: "When the change happened."},
	"environment": {
		text: "LIVE, or TEST for everything that moves no money of a main network.", enum: []string{"LIVE", "TEST"},
	},
	"organizationId": {text: "Your organization."},
	"sequence": {
		text: "1, 2, … within your organization, without gaps. Absent only from samples that were asked for.",
	},
	"Envelope.data": {
		text: "The object that the event tells of: a deposit, a withdrawal, a transfer or a failed swap.",
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
		fault.Invalid, "the body is not one JSON document in UTF-8, or names something twice", "",
		"The body is not one JSON document in UTF-8: at byte 12 something is wrong." + nothingWritten + " Correct it.",
		nil,
	},
	fault.InvalidRequest: {
		fault.Invalid, "a field or parameter is missing or has no possible value", "mintId",
		"The field mintId is missing." + nothingWritten + " Add it.", nil,
	},
	fault.UnknownField: {
		fault.Invalid, "a field or query parameter is not known here", "requireAproval",
		"There is no field \"requireAproval\" here." + nothingWritten + " Did you mean requireApproval?", nil,
	},
	fault.InvalidAmount: {
		fault.Invalid, "the amount is not in canonical form, is zero, or has too many decimals", "amount",
		"Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or set useDecimal to true." + nothingHeld,
		nil,
	},
	fault.AmountBelowMinimum: {
		fault.Invalid, "the amount is below the mint's minimum", "amount",
		"The smallest withdrawal of USDC is 1000000 atomic units (1 USDC)." + nothingHeld +
			" Ask for at least that much.",
		nil,
	},
	fault.InvalidAddress: {
		fault.Invalid, "the destination is no address on the mint's chain", "toAddress",
		"This is no address on ETHEREUM: its checksum is wrong." + nothingHeld + " Check toAddress with your customer.",
		nil,
	},
	fault.MintNotFound: {
		fault.Invalid, "there is no such mint", "mintId",
		"There is no mint 99." + nothingHeld + " GET /mints lists the ones there are.", nil,
	},
	fault.InvalidCursor: {
		fault.Invalid, "the cursor belongs to another list, order or filter, or was changed", "cursor",
		"This cursor does not belong to this list: start again without a cursor.", nil,
	},
	fault.IdempotencyKeyMismatch: {
		fault.Invalid, "the body and the header give different keys", "idempotencyKey",
		"The request gives two different idempotency keys." + nothingWritten + " Give one.", nil,
	},
	fault.SameAccount: {
		fault.Invalid, "both sides of the transfer are the same balance", "to",
		"The transfer goes from a balance to itself. Nothing was moved. Give two different ones.", nil,
	},
	fault.CodeUnauthorized: {
		fault.Unauthorized,
		"the key is missing, malformed, unknown, rolled, expired or deleted; says nothing about earlier attempts", "",
		"The x-api-key header does not carry a valid key. Nothing was done; this says nothing about earlier attempts.",
		nil,
	},
	fault.IPNotAllowed: {
		fault.Forbidden,
		"the organization has an IP list, and the request came from an address that is not on it; says nothing about earlier attempts",
		"",
		"This key is not taken from the address that the request came from. Nothing was done by this request, and this answer says nothing about any other. Call from an address on your organization's list.",
		nil,
	},
	fault.ScopeMissing: {
		fault.Forbidden,
		"the API key does not have the scope that the call needs, or a person not the role; says nothing about earlier attempts",
		"",
		"This API key has the scope READ, and this call needs FULL. Nothing was done by this request, and no money moved. Call with a key that has the scope.",
		nil,
	},
	fault.CustomerFrozen: {
		fault.Forbidden, "the customer is frozen", "customerId",
		"This customer is frozen, so nothing may leave the balance." + nothingHeld +
			" Whoever froze the customer has to lift it first.",
		nil,
	},
	fault.OperatorOnly: {
		fault.Forbidden, "only the operator of this service may do it", "",
		"This customer was not frozen by your organization, so your organization cannot lift it." + nothingWritten +
			" Ask the operator of this service.",
		nil,
	},
	fault.OrganizationFrozen: {
		fault.Forbidden, "the organization is frozen", "",
		"Your organization is frozen, so nothing may leave its balances." + nothingHeld +
			" Ask the operator of this service.",
		nil,
	},
	fault.CodeNotFound: {
		fault.NotFound, "there is no such thing in your organization", "",
		"Your organization has nothing with this id. No money was touched.", nil,
	},
	fault.NotAcceptable: {
		fault.Invalid, "the request asks for text/csv and this call has no table", "",
		"This call has no table, only JSON. You only read, so nothing was changed. Leave Accept out, or send Accept: application/json.",
		nil,
	},
	fault.BodyTooLarge: {
		fault.Invalid, "the body is larger than 64 KB", "",
		"A body has at most 65536 bytes." + nothingWritten + " Send a smaller one.", nil,
	},
	fault.UnsupportedMediaType: {
		fault.Invalid, "the body is not sent as application/json", "",
		"The body has to be JSON, sent with Content-Type: application/json." + nothingWritten + " Send it so.", nil,
	},
	fault.IdempotencyConflict: {
		fault.Conflict, "the key belongs to a request with other parameters", "idempotencyKey",
		"This idempotencyKey belongs to another withdrawal." + nothingHeld + " Use a new key for a new payment.",
		map[string]any{"existingId": exampleWithdrawalID},
	},
	fault.InvalidState: {
		fault.Conflict, "it is in a state that does not allow this; the sentence says which", "",
		"Only a withdrawal that is AWAITING_APPROVAL can be cancelled, and this one is PROCESSING. This call changed nothing and moved no money.",
		map[string]any{"currentStatus": "PROCESSING"},
	},
	fault.InsufficientBalance: {
		fault.Unprocessable, "the customer has less than the amount, or is not known", "amount",
		"The customer's available balance is smaller than the amount." + nothingHeld +
			" Ask for less, or wait for a deposit.",
		nil,
	},
	fault.DestinationNotAllowed: {
		fault.Unprocessable,
		"the destination is an address of this service, a token's contract, or an address without a known key",
		"toAddress",
		"Withdrawals to this address are not allowed: nobody holds its key, so the money would be lost." + nothingHeld +
			" Give an address of your customer's own.",
		nil,
	},
	fault.DepositsSuspended: {
		fault.Unprocessable,
		"the mint or its chain is stopped at the moment: no addresses are given out, and no flagged deposit is decided",
		"mintId",
		"Deposits of that mint are switched off. No address was given out and no money moved. Ask the operator of this service.",
		nil,
	},
	fault.WithdrawalsSuspended: {
		fault.Unprocessable, "withdrawals of this mint are stopped at the moment", "mintId",
		"Outgoing payments are stopped at the moment." + nothingHeld + " Try again later with the same idempotencyKey.",
		nil,
	},
	fault.DepositNotFlagged: {
		fault.Conflict, "the deposit is not held, or not any more; currentStatus says how it stands", "",
		"This deposit was resolved: it is CREDITED. Nothing was changed.",
		map[string]any{"currentStatus": "CREDITED"},
	},
	fault.ResolutionInProgress: {
		fault.Conflict, "another decision is being carried out, or was first", "",
		"Another decision about this deposit is being carried out: it is REJECTING. This one changed nothing.",
		map[string]any{"currentStatus": "REJECTING"},
	},
	fault.ResolutionStuckCode: {
		fault.Conflict, "it was decided, and its transfer did not come about; the operator completes it", "",
		"This deposit was decided, and its transfer did not come about. The operator of the service completes it. Nothing was changed.",
		map[string]any{"currentStatus": "RESOLUTION_STUCK"},
	},
	fault.RejectBlockedSanctions: {
		fault.Conflict, "its sender is on a list of sanctions, and nothing is sent back there", "",
		"Its sender is on a list of sanctions, and this installation sends nothing back there. Nothing was decided, and the deposit is still flagged. The operator of the service can redirect it.",
		map[string]any{"currentStatus": "FLAGGED"},
	},
	fault.InsufficientGas: {
		fault.Unprocessable, "the deposit is smaller than the network's fee for sending it; the attempt is kept", "",
		"This deposit is smaller than the network's fee for sending it, 21000000000000 units. The attempt is kept, nothing moved, and the deposit is still flagged.",
		nil,
	},
	fault.FeatureDisabled: {
		fault.Forbidden, "it is not switched on here", "",
		"The local list is not asked by this installation, so an entry would have no effect. Nothing was changed and no money moved.",
		nil,
	},
	fault.WithdrawalRiskBlocked: {
		fault.Blocked, "risk screening refuses the destination: nothing is held, and withdrawalId names the record", "",
		"Withdrawal blocked by risk screening." + nothingHeld +
			" Repeating it with this destination does not help: ask your customer for another address, or ask the operator of this service.",
		map[string]any{
			"withdrawalId": exampleWithdrawalID,
			"details":      map[string]any{"severity": "SEVERE", "categories": []string{"SANCTIONS"}},
		},
	},
	fault.RateLimited: {
		fault.Limited,
		"more requests than this organization may send, or too many wrong keys; says nothing about earlier attempts",
		"",
		"Too many requests. Nothing was done, which says nothing about earlier attempts. Wait 1 seconds and repeat the request, a withdrawal with the same idempotencyKey.",
		nil,
	},
	fault.Internal: {
		kindInternal, "something of ours failed; a GET changed nothing, repeat a POST with the same key", "",
		"Something of ours failed before we could tell whether this took effect. Repeat the request with the same idempotencyKey: it is done at most once, and the answer tells.",
		nil,
	},
	fault.CodeUnavailable: {
		fault.Unavailable,
		"something we need is down, and the sentence says what; a GET changed nothing, repeat a POST with the same key",
		"",
		"The database has no space left on its disk, so this call was not finished. Repeat the request with the same idempotencyKey: it is done at most once, and the answer tells.",
		nil,
	},
}

// webhookHeaders are the headers of an event.
var webhookHeaders = []header{
	{"webhook-id", "The event: the same over all attempts. A receiver drops what it has seen."},
	{"webhook-timestamp", "When this attempt was made, in seconds since 1970. A receiver refuses what is old."},
	{
		"webhook-signature",
		"v1 with HMAC-SHA256 and v1a with ed25519 over webhook-id, webhook-timestamp and the raw body, joined by points. While a secret or key is being replaced there is one of each kind for the former, too: one that verifies is enough.",
	},
	{"webhook-attempt", "1, 2, …: how often this event was sent to this endpoint."},
}
