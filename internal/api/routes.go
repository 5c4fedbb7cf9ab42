package api

import (
	"net/http"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/webhook"
)

// route describes one call, with all that the document says about it.
type route struct {
	method, path string
	name         string // operationId
	group        string
	summary      string
	text         string
	needsNoKey   bool // served without a key, and also without the prefix
	// scope is the scope that an organization's key needs for the call. fieldScopes are the scopes
	// that it needs if the body has a field. Every call of an organization has a scope; a call
	// without one needs the main key. Operators' calls have none.
	scope        org.Scope
	fieldScopes  map[string]org.Scope
	limitsItself bool // checks its rate itself, because a replay is free
	// Counts as a quote: it asks chains or providers and stores nothing.
	countsAsQuote bool
	csv           bool // can also answer with a CSV table
	// A POST that may be repeated without a key: twice has the same effect as once.
	retryable bool
	query     []parameter
	body      any  // a value of the request's type; nil: no body
	optional  bool // the body may be left out
	headers   []header
	answers   []success
	faults    []fault.Code // in addition to those of every call
	handle    func(*api, *call) (answer, error)
}

// jsonOnly reports whether a read refuses a request for a table. A write does not refuse it: its
// answer is always JSON, and a refusal would wrongly say of a known payment that it was not made.
func (r route) jsonOnly() bool { return r.method == http.MethodGet && !r.csv }

// success is an answer that is not a problem.
type success struct {
	status  int
	text    string
	body    any // a value of the answer's type; nil: no body
	example any
	headers []header
}

// csvText says that a list also comes as CSV.
const csvText = " With Accept: text/csv everything that the filters leave comes as one table, as of one moment, without limit and cursor; one that breaks off is cut, never ended. A cell that a spreadsheet would take for a formula has an apostrophe before it."

// header is a header of a request or of an answer.
type header struct{ name, text string }

var (
	idempotencyKeyHeader = header{
		"Idempotency-Key", "Another way to give idempotencyKey. Given both ways, both have to be the same.",
	}
	replayedHeader = header{
		"Idempotent-Replayed",
		"true when the key was known: nothing was done, and the withdrawal is shown as it is now.",
	}
	replayedTransferHeader = header{
		"Idempotent-Replayed", "true when the key was known: nothing was done, and the transfer is shown again.",
	}
	warningHeader = header{
		"Warning", "customerEmail ignored: another e-mail is known for this customer and stays.",
	}
	etagHeader  = header{"ETag", "Changes when the catalogue does. Send it back as If-None-Match."}
	ifNoneMatch = header{"If-None-Match", "An ETag of an earlier answer: 304 when it still holds."}
)

var routes = []route{
	{
		method: http.MethodGet, path: "/mints", name: "listMints", scope: org.ScopeRead, group: "Mints",
		summary: "List mints",
		text:    "The tokens of this installation, by id. Without limit the whole catalogue is one page. Read decimals before converting an amount, and swappable before offering a swap.",
		query: []parameter{
			chainFilter,
			{name: "symbol", kind: textParameter, max: 32, text: "Only with exactly this symbol."},
			{name: "swappable", kind: flagParameter, text: "Only mints that can, or cannot, be swapped."},
			{
				name: "depositEnabled", kind: flagParameter,
				text: "Only mints for which addresses are, or are not, given out.",
			},
			limitParameter, cursorParameter,
		},
		headers: []header{ifNoneMatch},
		answers: []success{
			{http.StatusOK, "A page of mints.", Page[Mint]{}, examplePage(exampleMint), []header{etagHeader}},
			{http.StatusNotModified, "The catalogue is still the one with that ETag.", nil, nil, []header{etagHeader}},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listMints,
	},
	{
		method: http.MethodGet, path: "/mints/{mintId}", name: "getMint", scope: org.ScopeRead, group: "Mints",
		summary: "Read a mint", text: "One token of the catalogue.",
		answers: []success{{http.StatusOK, "The mint.", Mint{}, exampleMint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getMint,
	},
	{
		method: http.MethodPost, path: "/deposit", name: "createDepositAddress", scope: org.ScopeNoMoneyOut,
		group:     "Deposits",
		summary:   "Get a deposit address",
		text:      "The address for a customer on the mint's chain: the same one on every call, for every mint of that chain. The customer is made on first use. What arrives is credited when its block is final, and told with CUSTOMER_DEPOSIT.",
		body:      DepositRequest{},
		retryable: true,
		answers: []success{
			{http.StatusOK, "The address.", DepositAddress{}, exampleAddress, []header{warningHeader}},
		},
		faults: []fault.Code{fault.MintNotFound, fault.DepositsSuspended},
		handle: (*api).createDepositAddress,
	},
	{
		method: http.MethodPost, path: "/organization-deposit", name: "createOrganizationDepositAddress",
		scope: org.ScopeNoMoneyOut, group: "Deposits",
		summary: "Get an address of your own",
		text:    "The address of one of your products on the mint's chain: the same one on every call, for every mint of that chain. What arrives there is your organization's own. It is credited to the product when its block is final, under the same guards as a customer's deposit, and told with ORGANIZATION_DEPOSIT to endpoints that name it.",
		body:    ProductDepositRequest{},
		answers: []success{{http.StatusOK, "The address.", ProductAddress{}, exampleProductAddress, nil}},
		faults:  []fault.Code{fault.MintNotFound, fault.DepositsSuspended},
		handle:  (*api).createOrganizationDepositAddress,
	},
	{
		method: http.MethodGet, path: "/deposits", name: "listDeposits", scope: org.ScopeRead, group: "Deposits",
		summary: "List deposits",
		text:    "What arrived at the addresses of customers and of your own products, also what is not final yet. A deposit has one of customerId and product." + csvText,
		csv:     true,
		query: listParameters(customerFilter,
			parameter{
				name: "product", kind: wordParameter, enum: transfer.Products, text: "Only to this product of yours.",
			},
			parameter{name: "status", kind: wordParameter, enum: depositStatuses, text: "Only in this status."},
			flaggedFilter,
			mintFilter, chainFilter, txHashFilter, addressFilter),
		answers: []success{
			{http.StatusOK, "A page of deposits.", Page[webhook.Deposit]{}, examplePage(exampleDeposit), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listDeposits,
	},
	{
		method: http.MethodGet, path: "/deposits/{depositId}", name: "getDeposit", scope: org.ScopeRead,
		group:   "Deposits",
		summary: "Read a deposit", text: "One deposit as it is now.",
		answers: []success{{http.StatusOK, "The deposit.", webhook.Deposit{}, exampleDeposit, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getDeposit,
	},
	{
		method: http.MethodPost, path: "/withdraw", name: "createWithdrawal", scope: org.ScopeFull,
		group:        "Withdrawals",
		summary:      "Withdraw from a customer's balance",
		text:         "Holds the amount and pays it to an address, or waits for a person to approve. Give an idempotencyKey for each payment you mean: the same key and parameters again show the same withdrawal and pay nothing more. A key never expires. Every field but metadata is such a parameter, also reference: another value under a known key is 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request held nothing and sent nothing. A 451 says that risk screening refuses the destination: nothing is held, a record that is BLOCKED is kept, and the same key always gets that answer. After a 5xx or no answer, repeat with the same key.",
		body:         WithdrawRequest{},
		limitsItself: true,
		headers:      []header{idempotencyKeyHeader},
		answers: []success{{
			http.StatusAccepted,
			"The withdrawal: PROCESSING, or AWAITING_APPROVAL with the reasons. A known key shows it as it is now.",
			webhook.Withdrawal{},
			exampleWithdrawal,
			[]header{replayedHeader},
		}},
		faults: []fault.Code{
			fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress, fault.MintNotFound,
			fault.IdempotencyKeyMismatch,
			fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
			fault.InsufficientBalance, fault.DestinationNotAllowed, fault.WithdrawalsSuspended,
			fault.WithdrawalRiskBlocked,
		},
		handle: (*api).createWithdrawal,
	},
	{
		method: http.MethodGet, path: "/withdrawals", name: "listWithdrawals", scope: org.ScopeRead,
		group:   "Withdrawals",
		summary: "List withdrawals",
		text:    "The organization's withdrawals: its customers' and its own, unless type says which. With idempotencyKey the one that has the key." + csvText,
		csv:     true,
		query: listParameters(customerFilter, typeFilter,
			parameter{name: "status", kind: wordParameter, enum: withdrawalStatuses, text: "Only in this status."},
			mintFilter, chainFilter, txHashFilter, addressFilter,
			parameter{name: "reference", kind: textParameter, max: 255, text: "Only with this reference of yours."},
			parameter{name: "idempotencyKey", kind: textParameter, max: 255, text: "Only the one with this key."}),
		answers: []success{
			{http.StatusOK, "A page of withdrawals.", Page[webhook.Withdrawal]{}, examplePage(exampleWithdrawal), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listWithdrawals,
	},
	{
		method: http.MethodGet, path: "/withdrawals/{withdrawalId}", name: "getWithdrawal", scope: org.ScopeRead,
		group:   "Withdrawals",
		summary: "Read a withdrawal", text: "One withdrawal as it is now.",
		answers: []success{{http.StatusOK, "The withdrawal.", webhook.Withdrawal{}, exampleWithdrawal, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getWithdrawal,
	},
	{
		method: http.MethodPost, path: "/withdraw/estimate", name: "estimateWithdrawal", scope: org.ScopeNoMoneyOut,
		group:         "Withdrawals",
		summary:       "Ask what a withdrawal would cost",
		text:          "What the network would take at most, as the chain stands, and how much the customer could withdraw. Takes the body of POST /withdraw, of which only mintId is needed; customerId, amount, toAddress and feeMode make the answer better, the other fields are read over. It holds nothing and promises nothing: ask again after expiresAt.",
		countsAsQuote: true,
		body:          EstimateRequest{},
		retryable:     true,
		answers:       []success{{http.StatusOK, "The estimate.", Estimate{}, exampleEstimate, nil}},
		faults: []fault.Code{
			fault.InvalidAmount, fault.InvalidAddress, fault.MintNotFound, fault.WithdrawalsSuspended,
		},
		handle: (*api).estimateWithdrawal,
	},
	{
		method: http.MethodPost, path: "/withdraw/preview", name: "previewWithdrawal", scope: org.ScopeNoMoneyOut,
		group:         "Withdrawals",
		summary:       "Ask what would become of a withdrawal",
		text:          "Takes the body of POST /withdraw, asks the same gates on the same facts and moves nothing: the answer is what POST /withdraw would make of it now. What POST /withdraw would refuse is refused here with the same status and code; details.gates has the gates up to the one that refused. What it would answer 451 is 200 here, wouldBe is BLOCKED and the gate RISK says BLOCK. The gate RISK is NOT_CONFIGURED, and passes, as long as this installation screens nobody and your organization has set no threshold. With a known idempotencyKey nothing would be made: wouldBe is then the status of the withdrawal that has it.",
		body:          WithdrawRequest{},
		retryable:     true,
		countsAsQuote: true,
		limitsItself:  true,
		headers:       []header{idempotencyKeyHeader},
		answers:       []success{{http.StatusOK, "What would become of it.", Preview{}, examplePreview, nil}},
		faults: []fault.Code{
			fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress, fault.MintNotFound,
			fault.IdempotencyKeyMismatch,
			fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
			fault.InsufficientBalance, fault.DestinationNotAllowed, fault.WithdrawalsSuspended,
		},
		handle: (*api).previewWithdrawal,
	},
	{
		method: http.MethodPost, path: "/withdrawals/{withdrawalId}/cancel", name: "cancelWithdrawal",
		scope: org.ScopeNoMoneyOut, group: "Withdrawals",
		summary: "Take a withdrawal back",
		text:    "Ends a withdrawal that is AWAITING_APPROVAL, or PROCESSING and waits before anything of it is signed: it is CANCELLED, its amount may be spent again, and CUSTOMER_WITHDRAW_CANCELLED is sent, or ORGANIZATION_WITHDRAW_CANCELLED for one of your organization's own. One that had been let go is first voided by the signer: while that does not answer, 503 says that the withdrawal is taken back, is never paid, and has its amount held until it is CANCELLED without another call. Of a cancel, an approval and a removal that race one wins; the others are answered 409 with currentStatus. So is a repetition: currentStatus CANCELLED says that it is done.",
		answers: []success{
			{http.StatusOK, "The withdrawal. It is CANCELLED.", webhook.Withdrawal{}, exampleCancelled, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle: (*api).cancelWithdrawal,
	},
	{
		method: http.MethodGet, path: "/withdrawals/{withdrawalId}/decisions", name: "listWithdrawalDecisions",
		scope: org.ScopeRead, group: "Withdrawals",
		summary: "Read what was decided about a withdrawal",
		text:    "Every decision, oldest first: the request with all its gates and what they looked at, approval, removal, cancellation, and what the signer or the chain sent back. Each was written with what it decided, and nobody can change it.",
		answers: []success{
			{http.StatusOK, "The decisions.", Decisions{}, Decisions{Data: []Decision{exampleDecision}}, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).listDecisions,
	},
	{
		method: http.MethodPost, path: "/transfers", name: "createTransfer", scope: org.ScopeFull, group: "Transfers",
		summary:      "Move money between balances",
		text:         "Moves an amount between a customer and a product of yours, two customers or two products: at once, without a chain. An unknown customer who receives is made. The idempotencyKey is required: the same key and parameters again show the same transfer and move nothing more. A key never expires. Every field but metadata is such a parameter, also reference: another value under a known key is 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request moved nothing. After a 5xx or no answer, repeat with the same key.",
		body:         TransferRequest{},
		limitsItself: true,
		headers:      []header{idempotencyKeyHeader},
		answers: []success{{
			http.StatusCreated, "The transfer. It is done.",
			webhook.Transfer{},
			exampleTransfer,
			[]header{replayedTransferHeader},
		}},
		faults: []fault.Code{
			fault.InvalidAmount, fault.MintNotFound, fault.SameAccount, fault.IdempotencyKeyMismatch,
			fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
			fault.InsufficientBalance, fault.WithdrawalsSuspended,
		},
		handle: (*api).createTransfer,
	},
	{
		method: http.MethodGet, path: "/transfers", name: "listTransfers", scope: org.ScopeRead, group: "Transfers",
		summary: "List transfers",
		text:    "The organization's transfers. With idempotencyKey the one that has the key." + csvText,
		csv:     true,
		query: listParameters(
			parameter{
				name: "customerId", kind: textParameter, max: 128,
				text: "Only from or to this customer, compared byte for byte.",
			},
			parameter{
				name: "product", kind: wordParameter, enum: transfer.Products, text: "Only from or to this product.",
			},
			mintFilter, chainFilter,
			parameter{name: "reference", kind: textParameter, max: 255, text: "Only with this reference of yours."},
			parameter{name: "idempotencyKey", kind: textParameter, max: 255, text: "Only the one with this key."}),
		answers: []success{
			{http.StatusOK, "A page of transfers.", Page[webhook.Transfer]{}, examplePage(exampleTransfer), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listTransfers,
	},
	{
		method: http.MethodGet, path: "/transfers/{transferId}", name: "getTransfer", scope: org.ScopeRead,
		group:   "Transfers",
		summary: "Read a transfer", text: "One transfer.",
		answers: []success{{http.StatusOK, "The transfer.", webhook.Transfer{}, exampleTransfer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getTransfer,
	},
	{
		method: http.MethodGet, path: "/balances", name: "listBalances", scope: org.ScopeRead, group: "Transfers",
		summary: "Read your own balances",
		text:    "One row for each product and mint that anything has touched. What customers have is not yours: it stands beside CUSTODIAL as owedToCustomers and in no total. total is available + pending.",
		answers: []success{{
			http.StatusOK, "The balances.",
			ProductBalances{},
			ProductBalances{Data: []ProductBalance{exampleProductBalance}},
			nil,
		}},
		handle: (*api).listProductBalances,
	},
	{
		method: http.MethodGet, path: "/ledger/entries", name: "listLedgerEntries", scope: org.ScopeRead,
		group:   "Transfers",
		summary: "Read what moved balances",
		text:    "Every movement of a customer's or product's balance with the resource that caused it: a statement. A transfer between two of them is two entries, a withdrawal moves from AVAILABLE to PENDING_WITHDRAW and then away." + csvText,
		csv:     true,
		query: listParameters(customerFilter,
			parameter{name: "product", kind: wordParameter, enum: transfer.Products, text: "Only of this product."},
			mintFilter, chainFilter),
		answers: []success{{http.StatusOK, "A page of entries.", Page[Entry]{}, examplePage(exampleEntry), nil}},
		faults:  []fault.Code{fault.InvalidCursor},
		handle:  (*api).listLedgerEntries,
	},
	{
		method: http.MethodGet, path: "/customers", name: "listCustomers", scope: org.ScopeRead, group: "Customers",
		summary: "List customers",
		text: "The organization's customers. They are made by their first POST /deposit, or by a transfer to them." +
			csvText,
		csv: true,
		query: listParameters(customerFilter,
			parameter{name: "status", kind: wordParameter, enum: customer.Statuses, text: "Only in this status."}),
		answers: []success{
			{http.StatusOK, "A page of customers.", Page[Customer]{}, examplePage(exampleCustomer), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listCustomers,
	},
	{
		method: http.MethodGet, path: "/customers/{customerId}", name: "getCustomer", scope: org.ScopeRead,
		group:   "Customers",
		summary: "Read a customer", text: "One customer, by your own id of it, escaped for a URL.",
		answers: []success{{http.StatusOK, "The customer.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getCustomer,
	},
	{
		method: http.MethodPatch, path: "/customers/{customerId}", name: "updateCustomer", scope: org.ScopeNoMoneyOut,
		fieldScopes: map[string]org.Scope{"customerEmail": org.ScopeFull}, group: "Customers",
		summary: "Change a customer",
		text:    "Changes the e-mail, the metadata or both; what is not named stays, and metadata is replaced whole. An e-mail decides whose withdrawals an allowlist lets pass, so a changed one does not count there for 24 hours. The same e-mail in other letters is no change.",
		body:    CustomerChange{},
		answers: []success{{http.StatusOK, "The customer as it is now.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).editCustomer,
	},
	{
		method: http.MethodPost, path: "/customers/{customerId}/freeze", name: "freezeCustomer",
		scope: org.ScopeNoMoneyOut, group: "Customers",
		summary: "Freeze a customer",
		text:    "Nothing leaves the customer's balances from now on: withdrawals and transfers out are 403 CUSTOMER_FROZEN, and a payment that is not on its way yet waits. What arrives is credited and told as usual. Again it changes nothing. The body may be left out.",
		body:    FreezeRequest{}, optional: true, retryable: true,
		answers: []success{{http.StatusOK, "The customer, FROZEN.", Customer{}, exampleFrozen, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).freezeCustomer,
	},
	{
		method: http.MethodPost, path: "/customers/{customerId}/unfreeze", name: "unfreezeCustomer",
		scope: org.ScopeFull, group: "Customers",
		summary: "Lift your freeze of a customer",
		text:    "Lifts the freeze that your organization put on the customer. A freeze of the operator's, or of the service itself after the finality of a chain broke, is another one and stays: the customer is then still FROZEN, and 403 OPERATOR_ONLY when there was none of yours. Again it changes nothing. The body may be left out.",
		body:    UnfreezeRequest{}, optional: true, retryable: true,
		answers: []success{{http.StatusOK, "The customer as it is now.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.OperatorOnly},
		handle:  (*api).unfreezeCustomer,
	},
	{
		method: http.MethodGet, path: "/customers/{customerId}/balances", name: "listCustomerBalances",
		scope: org.ScopeRead, group: "Customers",
		summary: "Read a customer's balances",
		text:    "One row for each mint that anything of the customer's has touched. total is available + pendingWithdraw + inSwap; pendingDeposit and held stand outside it.",
		answers: []success{
			{http.StatusOK, "The balances.", Balances{}, Balances{Data: []Balance{exampleBalance}}, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).customerBalances,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints", name: "createWebhookEndpoint", scope: org.ScopeNoMoneyOut,
		group:   "Webhooks",
		summary: "Register a webhook endpoint",
		text:    "Events are sent to this URL from now on, signed with a secret that is shown in this answer and never again. Without events it receives the seven events of the interface; extension events are sent only where they are named. With filters only what concerns that customer, or happened on that chain, is sent. At most 10 endpoints.",
		body:    EndpointRequest{},
		answers: []success{
			{http.StatusCreated, "The endpoint with its secret.", EndpointWithSecret{}, exampleEndpointSecret, nil},
		},
		faults: []fault.Code{fault.InvalidState},
		handle: (*api).createEndpoint,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints", name: "listWebhookEndpoints", scope: org.ScopeRead,
		group:   "Webhooks",
		summary: "List webhook endpoints", text: "Where this organization's events go, without the secrets.",
		query: []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{
			{http.StatusOK, "A page of endpoints.", Page[Endpoint]{}, examplePage(exampleEndpoint), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listEndpoints,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints/{endpointId}", name: "getWebhookEndpoint",
		scope: org.ScopeRead, group: "Webhooks",
		summary: "Read a webhook endpoint", text: "One endpoint, without its secret.",
		answers: []success{{http.StatusOK, "The endpoint.", Endpoint{}, exampleEndpoint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getEndpoint,
	},
	{
		method: http.MethodPatch, path: "/webhook-endpoints/{endpointId}", name: "updateWebhookEndpoint",
		scope: org.ScopeNoMoneyOut, group: "Webhooks",
		summary: "Change a webhook endpoint",
		text:    "Changes what is given and nothing else; filters are replaced as a whole, and {} takes them away. While PAUSED its deliveries wait. With ENABLED, which also brings a disabled endpoint back, and with another url, everything that waits is due at once, in the order of each resource and with the whole schedule before it. Other events and filters decide about what happens from now on; what waits is still sent. What happened while an endpoint was disabled was not queued for it: ask for that with recover.",
		body:    EndpointChange{},
		answers: []success{{http.StatusOK, "The endpoint as it is now.", Endpoint{}, exampleEndpoint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).changeEndpoint,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints/{endpointId}/rotate-secret", name: "rotateWebhookSecret",
		scope: org.ScopeFull, group: "Webhooks",
		summary: "Give a webhook endpoint a new secret",
		text:    "The new secret is shown in this answer and never again. Every message carries a v1 signature by it from now on, and beside it one by the former secret for 24 hours: replace it at your receiver meanwhile. If the answer is lost, ask again: every secret signs on for 24 hours from its own replacement, at most 4 at once.",
		answers: []success{{http.StatusOK, "The endpoint with its new secret.", RotatedSecret{}, exampleRotated, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).rotateSecret,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints/{endpointId}/test", name: "testWebhookEndpoint",
		scope: org.ScopeNoMoneyOut, group: "Webhooks",
		summary: "Send a sample to a webhook endpoint",
		text:    "Posts a realistic sample of that type to this endpoint alone, also while it is paused or disabled, and answers what came back within 15 seconds. The sample has environment TEST, no sequence, and tells of nothing that happened. It is not tried again, does not count for or against the endpoint, and stands in the log.",
		body:    TestRequest{},
		answers: []success{{
			http.StatusOK, "What came back. Look at status: DELIVERED, or FAILED with the error.",
			DeliveryAttempt{},
			exampleAttempt, nil,
		}},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).testEndpoint,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints/{endpointId}/deliveries", name: "listWebhookDeliveries",
		scope: org.ScopeRead, group: "Webhooks",
		summary: "Read what was sent to a webhook endpoint",
		text:    "Every attempt with its request, without the signature, and what came back: the status and the first 1024 bytes. Attempts are kept for 30 days.",
		query: []parameter{
			{
				name: "status", kind: wordParameter, enum: []string{delivery.Delivered, delivery.Failed},
				text: "Only attempts with this outcome.",
			},
			{name: "eventId", kind: textParameter, max: 64, text: "Only attempts to send this event."},
			{name: "type", kind: wordParameter, enum: eventTypes, text: "Only attempts to send events of this type."},
			{name: "since", kind: timeParameter, text: "Only attempts made at this time or later."},
			orderParameter, limitParameter, cursorParameter,
		},
		answers: []success{
			{http.StatusOK, "A page of attempts.", Page[DeliveryAttempt]{}, examplePage(exampleAttempt), nil},
		},
		faults: []fault.Code{fault.InvalidCursor, fault.CodeNotFound},
		handle: (*api).listAttempts,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints/{endpointId}/recover", name: "recoverWebhookEndpoint",
		scope: org.ScopeNoMoneyOut, group: "Webhooks",
		summary: "Send a webhook endpoint what it missed",
		text:    "Makes the events since that time due again, in their order: with onlyFailed, which is the default, those that were never delivered there, also because the endpoint was disabled or did not exist; without it all of them once more. What the endpoint wants is decided by its events and filters as they are now. The job runs behind the answer; the same request within ten minutes answers the same job, and one recovery of an endpoint runs at a time.",
		body:    RecoverRequest{},
		answers: []success{{http.StatusAccepted, "The job.", WebhookJob{}, exampleJob, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).recoverEndpoint,
	},
	{
		method: http.MethodPost, path: "/events/{eventId}/resend", name: "resendEvent", scope: org.ScopeNoMoneyOut,
		group:   "Webhooks",
		summary: "Send an event again",
		text:    "Sends the same bytes under the same webhook-id again: to the endpoint that is named, or to every one that wants the event. The same request within five seconds answers the same job, and what is on its way is not sent twice.",
		body:    ResendRequest{},
		answers: []success{{http.StatusAccepted, "The job.", WebhookJob{}, exampleResend, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).resendEvent,
	},
	{
		method: http.MethodGet, path: "/webhook-jobs/{jobId}", name: "getWebhookJob", scope: org.ScopeRead,
		group:   "Webhooks",
		summary: "Read how far a resend or recovery has come",
		text:    "It is COMPLETED when everything has been made due; pending, delivered and failed tell what came of it since.",
		answers: []success{{http.StatusOK, "The job.", WebhookJob{}, exampleJob, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getJob,
	},
	{
		method: http.MethodDelete, path: "/webhook-endpoints/{endpointId}", name: "deleteWebhookEndpoint",
		scope: org.ScopeNoMoneyOut, group: "Webhooks",
		summary: "Delete a webhook endpoint",
		text:    "Nothing more is sent there. What was not delivered stays readable with GET /events.",
		answers: []success{{http.StatusNoContent, "It is gone.", nil, nil, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).deleteEndpoint,
	},
	{
		method: http.MethodGet, path: "/events", name: "listEvents", scope: org.ScopeRead, group: "Webhooks",
		summary: "Read the event feed",
		text:    "The bodies that webhooks carry, byte for byte, in sequence from after on, for 90 days. Without types it has every event and the sequences have no gap, so that a consumer can prove that it missed nothing; a first sequence above after + 1 tells that something older has left the feed. Continue with the last sequence you have seen.",
		query: []parameter{
			{
				name: "after", kind: numberParameter, max: sequenceMax,
				text: "The last sequence that you have; 0, unless given, starts at the first.",
			},
			{
				name: "types", kind: wordsParameter, enum: eventTypes,
				text: "Only events of these types, separated by commas.",
			},
			limitParameter,
			{
				name: "cursor", kind: textParameter, max: 1024,
				text: "Where to continue: the nextCursor of the page before, with the same types. It goes before after.",
			},
		},
		faults: []fault.Code{fault.InvalidCursor},
		answers: []success{
			{http.StatusOK, "A stretch of the feed.", Page[webhook.Envelope]{}, examplePage(exampleEnvelope), nil},
		},
		handle: (*api).listEvents,
	},
	{
		method: http.MethodGet, path: "/.well-known/webhook-keys", name: "listWebhookKeys", group: "Webhooks",
		summary:    "Read the keys that sign webhooks",
		text:       "The public keys of the v1a signatures, newest first. A signature by any of them is good.",
		needsNoKey: true,
		answers: []success{{
			http.StatusOK, "The keys.",
			WebhookKeys{},
			WebhookKeys{Keys: []string{"whpk_MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="}},
			nil,
		}},
		handle: (*api).getWebhookKeys,
	},
	{
		method: http.MethodGet, path: "/openapi.json", name: "getOpenAPI", group: "Meta",
		summary: "Read this document", text: "This description of every call, OpenAPI 3.1.",
		needsNoKey: true,
		answers:    []success{{http.StatusOK, "The document.", map[string]any{}, nil, nil}},
		handle:     (*api).getOpenAPI,
	},
}
