package api

import (
	"net/http"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
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
	// action is what the call does in the table of permissions, which says whose key may make it.
	// fieldActions are what it does in addition if the body has a field. Only a call that needs no
	// key has no action.
	action       identity.Action
	fieldActions map[string]identity.Action
	limitsItself bool // checks its rate itself, because a replay is free
	// Counts as a quote: it asks chains or providers and stores nothing.
	countsAsQuote bool
	csv           bool // can also answer with a CSV table
	// A POST that may be repeated without a key: twice has the same effect as once.
	retryable bool
	// resultAt is the path of the GET that shows the result of a write, if neither its own path nor a
	// path above it does.
	resultAt string
	query    []parameter
	body     any  // a value of the request's type; nil: no body
	optional bool // the body may be left out
	headers  []header
	answers  []success
	faults   []fault.Code // in addition to those of every call
	handle   func(*api, *call) (answer, error)
}

// jsonOnly reports whether a read refuses a request for a table. A write does not refuse it: its
// answer is always JSON, and a refusal would wrongly say of a known payment that it was not made.
// Rule LIST-2.
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
const csvText = " With Accept: text/csv the call returns everything that the filters select as one table, as of one " +
	"moment, without limit and cursor. If the table breaks off, the connection ends without the end of the answer. A " +
	"cell that a spreadsheet would read as a formula has an apostrophe in front of it."

// header is a header of a request or of an answer.
type header struct{ name, text string }

var (
	idempotencyKeyHeader = header{
		"Idempotency-Key", "Another way to send idempotencyKey. If you send both, they have to be equal.",
	}
	replayedHeader = header{
		"Idempotent-Replayed",
		"true when the key was known: the call did nothing and returns the withdrawal as it is now.",
	}
	replayedTransferHeader = header{
		"Idempotent-Replayed", "true when the key was known: the call did nothing and returns the transfer.",
	}
	warningHeader = header{
		"Warning", "customerEmail ignored: another e-mail is known for this customer and stays.",
	}
	etagHeader  = header{"ETag", "The version of the catalogue. Send it back as If-None-Match."}
	ifNoneMatch = header{"If-None-Match", "The ETag of an earlier answer. If it is still valid, the answer is 304."}
)

var routes = []route{
	{
		method: http.MethodGet, path: "/mints", name: "listMints", action: identity.ReadOrganization, group: "Mints",
		summary: "List mints",
		text: "The tokens of this installation, by id. Without limit the whole catalogue is one page. Read " +
			"decimals before you convert an amount, and swappable before you offer a swap.",
		query: []parameter{
			chainFilter,
			{name: "symbol", kind: textParameter, max: 32, text: "Only mints with exactly this symbol."},
			{name: "swappable", kind: flagParameter, text: "true: only mints that can be swapped. false: only those " +
				"that cannot."},
			{
				name: "depositEnabled", kind: flagParameter,
				text: "true: only mints with deposit addresses. false: only those without.",
			},
			limitParameter, cursorParameter,
		},
		headers: []header{ifNoneMatch},
		answers: []success{
			{http.StatusOK, "A page of mints.", Page[Mint]{}, examplePage(exampleMint), []header{etagHeader}},
			{http.StatusNotModified, "The catalogue has not changed since the answer with that " +
				"ETag.", nil, nil, []header{etagHeader}},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listMints,
	},
	{
		method: http.MethodGet, path: "/mints/{mintId}", name: "getMint", action: identity.ReadOrganization,
		group:   "Mints",
		summary: "Read a mint", text: "One token of the catalogue.",
		answers: []success{{http.StatusOK, "The mint.", Mint{}, exampleMint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getMint,
	},
	{
		method: http.MethodPost, path: "/deposit", name: "createDepositAddress", action: identity.CreateDepositAddress,
		group:   "Deposits",
		summary: "Get a deposit address",
		text: "The address for a customer on the mint's chain. Every call returns the same address, for every " +
			"mint of that chain. The first call creates the customer. The service credits a deposit when its block " +
			"is final, and sends CUSTOMER_DEPOSIT.",
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
		action: identity.CreateDepositAddress, group: "Deposits",
		summary: "Get a deposit address of your own",
		text: "The address of one of your products on the mint's chain. Every call returns the same address, for " +
			"every mint of that chain. Deposits to it belong to your organization. The service credits them to the " +
			"product when their block is final, under the same guards as a customer's deposit, and sends " +
			"ORGANIZATION_DEPOSIT to endpoints that name it.",
		body:    ProductDepositRequest{},
		answers: []success{{http.StatusOK, "The address.", ProductAddress{}, exampleProductAddress, nil}},
		faults:  []fault.Code{fault.MintNotFound, fault.DepositsSuspended},
		handle:  (*api).createOrganizationDepositAddress,
	},
	{
		method: http.MethodGet, path: "/deposits", name: "listDeposits", action: identity.ReadOrganization,
		group:   "Deposits",
		summary: "List deposits",
		text: "Deposits to the addresses of customers and of your own products, including those that are not " +
			"final yet. A deposit has either customerId or product." + csvText,
		csv: true,
		query: listParameters(customerFilter,
			parameter{
				name: "product", kind: wordParameter, enum: transfer.Products, text: "Only deposits to this product " +
					"of yours.",
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
		method: http.MethodGet, path: "/deposits/{depositId}", name: "getDeposit", action: identity.ReadOrganization,
		group:   "Deposits",
		summary: "Read a deposit", text: "One deposit.",
		answers: []success{{http.StatusOK, "The deposit.", webhook.Deposit{}, exampleDeposit, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getDeposit,
	},
	{
		method: http.MethodPost, path: "/withdraw", name: "createWithdrawal", action: identity.RequestWithdrawal,
		group:   "Withdrawals",
		summary: "Withdraw from a customer's balance",
		text: "Holds the amount and pays it to an address, or waits for an approval. Send an idempotencyKey " +
			"for each payment: the same key with the same parameters returns the same withdrawal and pays nothing " +
			"more. A key never expires. Every field except metadata is a parameter, including reference: another " +
			"value under a known key is refused with 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request held " +
			"nothing and sent nothing. A 451 means that risk screening refuses the destination: no amount is held, " +
			"the service records the withdrawal as BLOCKED, and the same key always gets this answer. After a 5xx or " +
			"no answer, repeat with the same key.",
		body:         WithdrawRequest{},
		limitsItself: true,
		headers:      []header{idempotencyKeyHeader},
		answers: []success{{
			http.StatusAccepted,
			"The withdrawal: PROCESSING, or AWAITING_APPROVAL with the reasons. For a known key, the withdrawal as " +
				"it is now.",
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
		method: http.MethodGet, path: "/withdrawals", name: "listWithdrawals", action: identity.ReadOrganization,
		group:   "Withdrawals",
		summary: "List withdrawals",
		text: "The withdrawals of customers and of the organization itself, unless type selects one of them. " +
			"idempotencyKey selects the withdrawal with this key." + csvText,
		csv: true,
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
		method: http.MethodGet, path: "/withdrawals/{withdrawalId}", name: "getWithdrawal",
		action: identity.ReadOrganization, group: "Withdrawals",
		summary: "Read a withdrawal", text: "One withdrawal.",
		answers: []success{{http.StatusOK, "The withdrawal.", webhook.Withdrawal{}, exampleWithdrawal, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getWithdrawal,
	},
	{
		method: http.MethodPost, path: "/withdraw/estimate", name: "estimateWithdrawal",
		action: identity.QuoteWithdrawal, group: "Withdrawals",
		summary: "Ask what a withdrawal would cost",
		text: "Returns the highest fee that the network would take now, and how much the customer could " +
			"withdraw. It takes the body of POST /withdraw, of which only mintId is required. customerId, amount, " +
			"toAddress and feeMode make the answer more precise; the call ignores the other fields. It holds nothing " +
			"and promises nothing: ask again after expiresAt.",
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
		method: http.MethodPost, path: "/withdraw/preview", name: "previewWithdrawal", action: identity.QuoteWithdrawal,
		group:   "Withdrawals",
		summary: "Ask what a withdrawal request would do",
		text: "Takes the body of POST /withdraw, evaluates the same rules on the same facts and moves " +
			"nothing. The answer is what POST /withdraw would do now. A request that POST /withdraw would refuse is " +
			"refused here with the same status and code; details.gates has the rules up to the one that refused. " +
			"Where POST /withdraw would answer 451, this call answers 200, wouldBe is BLOCKED and the rule RISK says " +
			"BLOCK. The rule RISK is NOT_CONFIGURED, and passes, while this installation has no risk provider and " +
			"your organization has no threshold. With a known idempotencyKey no withdrawal would be made: wouldBe is " +
			"the status of the withdrawal that has the key.",
		body:          WithdrawRequest{},
		retryable:     true,
		countsAsQuote: true,
		limitsItself:  true,
		headers:       []header{idempotencyKeyHeader},
		answers:       []success{{http.StatusOK, "What POST /withdraw would do now.", Preview{}, examplePreview, nil}},
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
		action: identity.CancelWithdrawal, group: "Withdrawals",
		summary: "Cancel a withdrawal",
		text: "Ends a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and waits before the signer " +
			"signs anything of it. The withdrawal becomes CANCELLED, its amount is available again, and the service " +
			"sends CUSTOMER_WITHDRAW_CANCELLED, or ORGANIZATION_WITHDRAW_CANCELLED for a withdrawal of your " +
			"organization's own. If the withdrawal was released for payment, the signer first voids it. If the " +
			"signer does not answer, the call answers 503: the withdrawal will never be paid, and its amount stays " +
			"held until it becomes CANCELLED, without another call. When a cancel, an approval and a removal race, " +
			"one wins; the others are refused with 409 and currentStatus. So is a repeated cancel: currentStatus " +
			"CANCELLED says that the withdrawal is cancelled.",
		answers: []success{
			{http.StatusOK, "The withdrawal, now CANCELLED.", webhook.Withdrawal{}, exampleCancelled, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle: (*api).cancelWithdrawal,
	},
	{
		method: http.MethodGet, path: "/withdrawals/{withdrawalId}/decisions", name: "listWithdrawalDecisions",
		action: identity.ReadOrganization, group: "Withdrawals",
		summary: "Read the decisions about a withdrawal",
		text: "Every decision, oldest first: the request with all its rules and the facts that they used, " +
			"approvals, removal, cancellation, and what the signer or the chain sent back. The service wrote each " +
			"decision together with its effect, and decisions cannot be changed.",
		answers: []success{
			{http.StatusOK, "The decisions.", Decisions{}, Decisions{Data: []Decision{exampleDecision}}, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).listDecisions,
	},
	{
		method: http.MethodPost, path: "/transfers", name: "createTransfer", action: identity.Transfer,
		group:   "Transfers",
		summary: "Move money between balances",
		text: "Moves an amount between a customer and a product of yours, two customers or two products: at " +
			"once, without a chain. It creates an unknown customer who receives. The idempotencyKey is required: the " +
			"same key with the same parameters returns the same transfer and moves nothing more. A key never " +
			"expires. Every field except metadata is a parameter, including reference: another value under a known " +
			"key is refused with 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request moved nothing. After a 5xx " +
			"or no answer, repeat with the same key.",
		body:         TransferRequest{},
		limitsItself: true,
		headers:      []header{idempotencyKeyHeader},
		answers: []success{{
			http.StatusCreated, "The transfer, which is complete.",
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
		method: http.MethodGet, path: "/transfers", name: "listTransfers", action: identity.ReadOrganization,
		group:   "Transfers",
		summary: "List transfers",
		text:    "The organization's transfers. idempotencyKey selects the transfer with this key." + csvText,
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
		method: http.MethodGet, path: "/transfers/{transferId}", name: "getTransfer", action: identity.ReadOrganization,
		group:   "Transfers",
		summary: "Read a transfer", text: "One transfer.",
		answers: []success{{http.StatusOK, "The transfer.", webhook.Transfer{}, exampleTransfer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getTransfer,
	},
	{
		method: http.MethodGet, path: "/balances", name: "listBalances", action: identity.ReadOrganization,
		group:   "Transfers",
		summary: "Read your own balances",
		text: "One row for each product and mint that had a movement. Customers' balances are not yours: " +
			"CUSTODIAL shows them as owedToCustomers, and no total includes them. total is available + pending.",
		answers: []success{{
			http.StatusOK, "The balances.",
			ProductBalances{},
			ProductBalances{Data: []ProductBalance{exampleProductBalance}},
			nil,
		}},
		handle: (*api).listProductBalances,
	},
	{
		method: http.MethodGet, path: "/ledger/entries", name: "listLedgerEntries", action: identity.ReadOrganization,
		group:   "Transfers",
		summary: "Read the movements of balances",
		text: "A statement: every movement of a customer's or product's balance, with the resource that caused " +
			"it. A transfer between two balances is two entries. A withdrawal first moves its amount from AVAILABLE " +
			"to PENDING_WITHDRAW, and then out." + csvText,
		csv: true,
		query: listParameters(customerFilter,
			parameter{name: "product", kind: wordParameter, enum: transfer.Products, text: "Only of this product."},
			mintFilter, chainFilter),
		answers: []success{{http.StatusOK, "A page of entries.", Page[Entry]{}, examplePage(exampleEntry), nil}},
		faults:  []fault.Code{fault.InvalidCursor},
		handle:  (*api).listLedgerEntries,
	},
	{
		method: http.MethodGet, path: "/customers", name: "listCustomers", action: identity.ReadOrganization,
		group:   "Customers",
		summary: "List customers",
		text: "The organization's customers. The first POST /deposit for a customer creates it, or a transfer to it." +
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
		method: http.MethodGet, path: "/customers/{customerId}", name: "getCustomer", action: identity.ReadOrganization,
		group:   "Customers",
		summary: "Read a customer", text: "One customer, by your own id, escaped for a URL.",
		answers: []success{{http.StatusOK, "The customer.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getCustomer,
	},
	{
		method: http.MethodPatch, path: "/customers/{customerId}", name: "updateCustomer",
		action:       identity.UpdateCustomer,
		fieldActions: map[string]identity.Action{"customerEmail": identity.SetCustomerEmail}, group: "Customers",
		summary: "Change a customer",
		text: "Changes the e-mail, the metadata or both. Fields that are left out stay as they are; metadata is " +
			"replaced as a whole. Allowlists go by the e-mail, so a changed e-mail does not count there for 24 " +
			"hours. The same e-mail in other letter case is no change.",
		body:    CustomerChange{},
		answers: []success{{http.StatusOK, "The customer.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).editCustomer,
	},
	{
		method: http.MethodPost, path: "/customers/{customerId}/freeze", name: "freezeCustomer",
		action: identity.FreezeCustomer, group: "Customers",
		summary: "Freeze a customer",
		text: "Stops payments from the customer's balances: withdrawals and transfers out are refused with 403 " +
			"CUSTOMER_FROZEN, and a payment that is not sent yet waits. The service still credits deposits and sends " +
			"their events. A repeated call changes nothing. The body may be left out.",
		body: FreezeRequest{}, optional: true, retryable: true,
		answers: []success{{http.StatusOK, "The customer, now FROZEN.", Customer{}, exampleFrozen, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).freezeCustomer,
	},
	{
		method: http.MethodPost, path: "/customers/{customerId}/unfreeze", name: "unfreezeCustomer",
		action: identity.UnfreezeCustomer, group: "Customers",
		summary: "Lift your freeze of a customer",
		text: "Lifts the freeze that your organization put on the customer. A freeze by the operator, or by the " +
			"service after a finality break, is another freeze and stays: the customer is then still FROZEN. If your " +
			"organization has no freeze on the customer, the call is refused with 403 OPERATOR_ONLY. A repeated call " +
			"changes nothing. The body may be left out.",
		body: UnfreezeRequest{}, optional: true, retryable: true,
		answers: []success{{http.StatusOK, "The customer.", Customer{}, exampleCustomer, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.OperatorOnly},
		handle:  (*api).unfreezeCustomer,
	},
	{
		method: http.MethodGet, path: "/customers/{customerId}/balances", name: "listCustomerBalances",
		action: identity.ReadOrganization, group: "Customers",
		summary: "Read a customer's balances",
		text: "One row for each mint of which the customer had a movement. total is available + pendingWithdraw + " +
			"inSwap; it does not include pendingDeposit and held.",
		answers: []success{
			{http.StatusOK, "The balances.", Balances{}, Balances{Data: []Balance{exampleBalance}}, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).customerBalances,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints", name: "createWebhookEndpoint",
		action: identity.ManageWebhooks, group: "Webhooks",
		summary: "Register a webhook endpoint",
		text: "The service sends events to this URL from now on, signed with a secret that only this answer " +
			"shows. Without events, the endpoint receives the seven events of the interface; it receives an " +
			"extension event only if it names it. With filters, it receives only events of that customer or of that " +
			"chain. An organization can have 10 endpoints.",
		body: EndpointRequest{},
		answers: []success{
			{http.StatusCreated, "The endpoint with its secret.", EndpointWithSecret{}, exampleEndpointSecret, nil},
		},
		faults: []fault.Code{fault.InvalidState},
		handle: (*api).createEndpoint,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints", name: "listWebhookEndpoints",
		action: identity.ReadOrganization, group: "Webhooks",
		summary: "List webhook endpoints", text: "The webhook endpoints of this organization, without their secrets.",
		query: []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{
			{http.StatusOK, "A page of endpoints.", Page[Endpoint]{}, examplePage(exampleEndpoint), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listEndpoints,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints/{endpointId}", name: "getWebhookEndpoint",
		action: identity.ReadOrganization, group: "Webhooks",
		summary: "Read a webhook endpoint", text: "One endpoint, without its secret.",
		answers: []success{{http.StatusOK, "The endpoint.", Endpoint{}, exampleEndpoint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getEndpoint,
	},
	{
		method: http.MethodPatch, path: "/webhook-endpoints/{endpointId}", name: "updateWebhookEndpoint",
		action: identity.ManageWebhooks, group: "Webhooks",
		summary: "Change a webhook endpoint",
		text: "Changes the fields that the body has. filters are replaced as a whole, and {} removes them. While " +
			"the endpoint is PAUSED, its deliveries wait. With ENABLED, which also enables a disabled endpoint, and " +
			"with another url, all waiting deliveries are due at once, in the order of each resource and with the " +
			"whole schedule. New events and filters apply to changes from now on; waiting deliveries are still sent. " +
			"The service queued nothing for the endpoint while it was disabled: ask for those events with recover.",
		body:    EndpointChange{},
		answers: []success{{http.StatusOK, "The endpoint.", Endpoint{}, exampleEndpoint, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).changeEndpoint,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints/{endpointId}/rotate-secret", name: "rotateWebhookSecret",
		action: identity.ReplaceWebhookSecret, group: "Webhooks",
		summary: "Give a webhook endpoint a new secret",
		text: "Only this answer shows the new secret. From now on every message has a v1 signature by it and, for " +
			"24 hours, one by the former secret: replace the secret at your receiver in this time. If the answer is " +
			"lost, call again: each secret signs for 24 hours after its own replacement, at most 4 at once.",
		answers: []success{{http.StatusOK, "The endpoint with its new secret.", RotatedSecret{}, exampleRotated, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).rotateSecret,
	},
	{
		method: http.MethodPost, path: "/webhook-endpoints/{endpointId}/test", name: "testWebhookEndpoint",
		action: identity.ManageWebhooks, group: "Webhooks",
		resultAt: "/webhook-endpoints/{endpointId}/deliveries",
		summary:  "Send a sample to a webhook endpoint",
		text: "Posts a realistic sample of that type to this endpoint alone, even while it is paused or disabled, " +
			"and returns the answer if it comes within 15 seconds. The sample has environment TEST and no sequence, " +
			"and describes nothing that happened. The service does not repeat it and does not count it for or " +
			"against the endpoint; the log of attempts has it.",
		body: TestRequest{},
		answers: []success{{
			http.StatusOK, "The attempt. Look at status: DELIVERED, or FAILED with the error.",
			DeliveryAttempt{},
			exampleAttempt, nil,
		}},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).testEndpoint,
	},
	{
		method: http.MethodGet, path: "/webhook-endpoints/{endpointId}/deliveries", name: "listWebhookDeliveries",
		action: identity.ReadOrganization, group: "Webhooks",
		summary: "Read the delivery attempts of a webhook endpoint",
		text: "Every attempt with its request, without the signature, and the answer: the status and the first " +
			"1024 bytes. The service keeps attempts for 30 days.",
		query: []parameter{
			{
				name: "status", kind: wordParameter, enum: []string{delivery.Delivered, delivery.Failed},
				text: "Only attempts with this outcome.",
			},
			{name: "eventId", kind: textParameter, max: 64, text: "Only attempts to send this event."},
			{name: "type", kind: wordParameter, enum: eventTypes, text: "Only attempts to send events of this type."},
			{name: "since", kind: timeParameter, text: "Only attempts of this time or later."},
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
		action: identity.ManageWebhooks, group: "Webhooks",
		resultAt: "/webhook-endpoints/{endpointId}/deliveries",
		summary:  "Send a webhook endpoint the events that it missed",
		text: "Queues the events since that time again, in their order. With onlyFailed, the default, it queues " +
			"only events that were never delivered to the endpoint, also because it was disabled or did not exist; " +
			"otherwise it queues all events again. The present events and filters of the endpoint decide which " +
			"events it receives. The job runs after the answer. The same request within ten minutes returns the same " +
			"job, and an endpoint has one running recovery at a time.",
		body:    RecoverRequest{},
		answers: []success{{http.StatusAccepted, "The job.", WebhookJob{}, exampleJob, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).recoverEndpoint,
	},
	{
		method: http.MethodPost, path: "/events/{eventId}/resend", name: "resendEvent", action: identity.ManageWebhooks,
		group:    "Webhooks",
		resultAt: "/webhook-endpoints/{endpointId}/deliveries",
		summary:  "Send an event again",
		text: "Sends the same bytes under the same webhook-id again: to the named endpoint, or to every endpoint " +
			"that receives the event. The same request within five seconds returns the same job, and an event that " +
			"is already queued is not sent twice.",
		body:    ResendRequest{},
		answers: []success{{http.StatusAccepted, "The job.", WebhookJob{}, exampleResend, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).resendEvent,
	},
	{
		method: http.MethodGet, path: "/webhook-jobs/{jobId}", name: "getWebhookJob", action: identity.ReadOrganization,
		group:   "Webhooks",
		summary: "Read the progress of a resend or recovery",
		text: "The job is COMPLETED when it has queued everything; pending, delivered and failed count the " +
			"outcomes since.",
		answers: []success{{http.StatusOK, "The job.", WebhookJob{}, exampleJob, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getJob,
	},
	{
		method: http.MethodDelete, path: "/webhook-endpoints/{endpointId}", name: "deleteWebhookEndpoint",
		action: identity.ManageWebhooks, group: "Webhooks",
		summary: "Delete a webhook endpoint",
		text: "The service sends nothing more to the endpoint. GET /events still has the events that were not " +
			"delivered.",
		answers: []success{{http.StatusNoContent, "The endpoint is deleted.", nil, nil, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).deleteEndpoint,
	},
	{
		method: http.MethodGet, path: "/events", name: "listEvents", action: identity.ReadOrganization,
		group:   "Webhooks",
		summary: "Read the event feed",
		text: "The bodies of webhooks, byte for byte, in the order of sequence, from after on, for 90 days. " +
			"Without types the feed has every event and the sequences have no gap, so a consumer can prove that it " +
			"missed nothing. A first sequence above after + 1 means that older events have left the feed. Continue " +
			"with the last sequence that you have seen.",
		query: []parameter{
			{
				name: "after", kind: numberParameter, max: sequenceMax,
				text: "The last sequence that you have. The default 0 starts at the first.",
			},
			{
				name: "types", kind: wordsParameter, enum: eventTypes,
				text: "Only events of these types, separated by commas.",
			},
			limitParameter,
			{
				name: "cursor", kind: textParameter, max: 1024,
				text: "The nextCursor of the previous page, with the same types. It takes precedence over after.",
			},
		},
		faults: []fault.Code{fault.InvalidCursor},
		answers: []success{
			{http.StatusOK, "One page of the feed.", Page[webhook.Envelope]{}, examplePage(exampleEnvelope), nil},
		},
		handle: (*api).listEvents,
	},
	{
		method: http.MethodGet, path: "/.well-known/webhook-keys", name: "listWebhookKeys", group: "Webhooks",
		summary:    "Read the keys that sign webhooks",
		text:       "The public keys of the v1a signatures, newest first. A signature by any of them is valid.",
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
