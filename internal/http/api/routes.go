package api

import (
	"net/http"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
)

// csvText says that a list also comes as CSV.
const csvText = " With Accept: text/csv the call returns everything that the filters select as one table, as of one " +
	"moment, without limit and cursor. If the table breaks off, the connection ends without the end of the answer. A " +
	"cell that a spreadsheet would read as a formula has an apostrophe in front of it."

var (
	idempotencyKeyHeader = kernel.Header{
		Name: "Idempotency-Key", Text: "Another way to send idempotencyKey. If you send both, they have to be equal.",
	}
	replayedHeader = kernel.Header{
		Name: "Idempotent-Replayed",
		Text: "true when the key was known: the call did nothing and returns the withdrawal as it is now.",
	}
	replayedTransferHeader = kernel.Header{
		Name: "Idempotent-Replayed", Text: "true when the key was known: the call did nothing and returns the " +
			"transfer.",
	}
	warningHeader = kernel.Header{
		Name: "Warning", Text: "customerEmail ignored: another e-mail is known for this customer and stays.",
	}
	etagHeader  = kernel.Header{Name: "ETag", Text: "The version of the catalogue. Send it back as If-None-Match."}
	ifNoneMatch = kernel.Header{Name: "If-None-Match", Text: "The ETag of an earlier answer. If it is still valid, " +
		"the answer is 304."}
)

func (a *api) routes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/mints", Name: "listMints", Action: identity.ReadOrganization,
			Group:   "Mints",
			Summary: "List mints",
			Text: "The tokens of this installation, by id. Without limit the whole catalogue is one page. Read " +
				"decimals before you convert an amount, and swappable before you offer a swap.",
			Query: []kernel.Parameter{
				resource.ChainFilter,
				{Name: "symbol", Kind: kernel.TextParameter, Max: 32, Text: "Only mints with exactly this symbol."},
				{
					Name: "swappable", Kind: kernel.FlagParameter,
					Text: "true: only mints that your customers can swap. false: only those that they cannot.",
				},
				{
					Name: "depositEnabled", Kind: kernel.FlagParameter,
					Text: "true: only mints with deposit addresses. false: only those without.",
				},
				kernel.LimitParameter, kernel.CursorParameter,
			},
			Headers: []kernel.Header{ifNoneMatch},
			Answers: []kernel.Success{
				{Status: http.StatusOK, Text: "A page of mints.", Headers: []kernel.Header{etagHeader}},
				{Status: http.StatusNotModified, Text: "The catalogue has not changed since the answer with that " +
					"ETag.", Headers: []kernel.Header{etagHeader}},
			},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listMints, kernel.ExamplePage(exampleMint)),
		},
		{
			Method: http.MethodGet, Path: "/mints/{mintId}", Name: "getMint", Action: identity.ReadOrganization,
			Group:   "Mints",
			Summary: "Read a mint", Text: "One token of the catalogue.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The mint."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getMint, exampleMint),
		},
		{
			Method: http.MethodPost, Path: "/deposit", Name: "createDepositAddress",
			Action:  identity.CreateDepositAddress,
			Group:   "Deposits",
			Summary: "Get a deposit address",
			Text: "The address for a customer on the mint's chain. Every call returns the same address, for every " +
				"mint of that chain. The first call creates the customer. The service credits a deposit when its " +
				"block " +
				"is final, and sends CUSTOMER_DEPOSIT.",
			Retryable: true,
			Answers: []kernel.Success{{
				Status: http.StatusOK, Text: "The address.",
				Headers: []kernel.Header{warningHeader},
			}},
			Faults: []fault.Code{fault.MintNotFound, fault.DepositsSuspended},
			Handler: kernel.HandleBody(a.createDepositAddress,
				DepositRequest{MintID: 1, CustomerID: "user_42"},
				exampleAddress,
			),
		},
		{
			Method: http.MethodPost, Path: "/organization-deposit", Name: "createOrganizationDepositAddress",
			Action: identity.CreateDepositAddress, Group: "Deposits",
			Summary: "Get a deposit address of your own",
			Text: "The address of one of your products on the mint's chain. Every call returns the same address, for " +
				"every mint of that chain. Deposits to it belong to your organization. The service credits them to " +
				"the " +
				"product when their block is final, under the same guards as a customer's deposit, and sends " +
				"ORGANIZATION_DEPOSIT to endpoints that name it.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The address."}},
			Faults:  []fault.Code{fault.MintNotFound, fault.DepositsSuspended},
			Handler: kernel.HandleBody(a.createOrganizationDepositAddress,
				ProductDepositRequest{MintID: 1, Product: "CHECKOUT"},
				exampleProductAddress,
			),
		},
		{
			Method: http.MethodGet, Path: "/deposits", Name: "listDeposits", Action: identity.ReadOrganization,
			Group:   "Deposits",
			Summary: "List deposits",
			Text: "Deposits to the addresses of customers and of your own products, including those that are not " +
				"final yet. A deposit has either customerId or product." + csvText,
			Query: kernel.ListParameters(resource.CustomerFilter,
				kernel.Parameter{
					Name: "product", Kind: kernel.WordParameter, Enum: transfer.Products, Text: "Only deposits to " +
						"this product " +
						"of yours.",
				},
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.DepositStatuses,
					Text: "Only in this status.",
				},
				resource.FlaggedFilter,
				resource.MintFilter, resource.ChainFilter, resource.TxHashFilter, resource.AddressFilter),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of deposits."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listDeposits, kernel.ExamplePage(resource.ExampleDeposit)),
			Table:   kernel.ExportTable("deposits", resource.DepositColumns, a.exportDeposits),
		},
		{
			Method: http.MethodGet, Path: "/deposits/{depositId}", Name: "getDeposit",
			Action:  identity.ReadOrganization,
			Group:   "Deposits",
			Summary: "Read a deposit", Text: "One deposit.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The deposit."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getDeposit, resource.ExampleDeposit),
		},
		{
			Method: http.MethodPost, Path: "/withdraw", Name: "createWithdrawal", Action: identity.RequestWithdrawal,
			Group:   "Withdrawals",
			Summary: "Withdraw from a customer's balance",
			Text: "Holds the amount and pays it to an address, or waits for an approval. Send an idempotencyKey " +
				"for each payment: the same key with the same parameters returns the same withdrawal and pays " +
				"nothing " +
				"more. A key never expires. Every field except metadata is a parameter, including reference: another " +
				"value under a known key is refused with 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request " +
				"held " +
				"nothing and sent nothing. A 451 means that risk screening refuses the destination: no amount is " +
				"held, " +
				"the service records the withdrawal as BLOCKED, and the same key always gets this answer. After a " +
				"5xx or " +
				"no answer, repeat with the same key.",
			LimitsItself: true,
			Headers:      []kernel.Header{idempotencyKeyHeader},
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The withdrawal: PROCESSING, or " +
				"AWAITING_APPROVAL with the reasons. For a known key, the withdrawal as " +
				"it is now.", Headers: []kernel.Header{replayedHeader}}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress, fault.MintNotFound,
				fault.IdempotencyKeyMismatch,
				fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
				fault.InsufficientBalance, fault.DestinationNotAllowed, fault.WithdrawalsSuspended,
				fault.WithdrawalRiskBlocked,
			},
			Handler: kernel.HandleBody(a.createWithdrawal,
				WithdrawRequest{
					MintID: 1, CustomerID: "user_42", Amount: "5000000", ToAddress: resource.ExampleDestination,
					IdempotencyKey: new("payout-991"),
				},
				resource.ExampleWithdrawal,
			),
		},
		{
			Method: http.MethodGet, Path: "/withdrawals", Name: "listWithdrawals", Action: identity.ReadOrganization,
			Group:   "Withdrawals",
			Summary: "List withdrawals",
			Text: "The withdrawals of customers and of the organization itself, unless type selects one of them. " +
				"idempotencyKey selects the withdrawal with this key." + csvText,
			Query: kernel.ListParameters(resource.CustomerFilter, resource.TypeFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.WithdrawalStatuses,
					Text: "Only in this status.",
				},
				resource.MintFilter, resource.ChainFilter, resource.TxHashFilter, resource.AddressFilter,
				kernel.Parameter{Name: "reference", Kind: kernel.TextParameter, Max: 255, Text: "Only with this " +
					"reference of yours."},
				kernel.Parameter{
					Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255,
					Text: "Only the one with this key.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of withdrawals."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listWithdrawals, kernel.ExamplePage(resource.ExampleWithdrawal)),
			Table:   kernel.ExportTable("withdrawals", resource.WithdrawalColumns, a.exportWithdrawals),
		},
		{
			Method: http.MethodGet, Path: "/withdrawals/{withdrawalId}", Name: "getWithdrawal",
			Action: identity.ReadOrganization, Group: "Withdrawals",
			Summary: "Read a withdrawal", Text: "One withdrawal.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The withdrawal."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getWithdrawal, resource.ExampleWithdrawal),
		},
		{
			Method: http.MethodPost, Path: "/withdraw/estimate", Name: "estimateWithdrawal",
			Action: identity.QuoteWithdrawal, Group: "Withdrawals",
			Summary: "Ask what a withdrawal would cost",
			Text: "Returns the highest fee that the network would take now, and how much the customer could " +
				"withdraw. It takes the body of POST /withdraw, of which only mintId is required. customerId, " +
				"amount, " +
				"toAddress and feeMode make the answer more precise; the call ignores the other fields. It holds " +
				"nothing " +
				"and promises nothing: ask again after expiresAt.",
			CountsAsQuote: true,
			Retryable:     true,
			Answers:       []kernel.Success{{Status: http.StatusOK, Text: "The estimate."}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.InvalidAddress, fault.MintNotFound, fault.WithdrawalsSuspended,
			},
			Handler: kernel.HandleBody(a.estimateWithdrawal,
				EstimateRequest{MintID: 1, CustomerID: new("user_42")},
				exampleEstimate,
			),
		},
		{
			Method: http.MethodPost, Path: "/withdraw/preview", Name: "previewWithdrawal",
			Action:  identity.QuoteWithdrawal,
			Group:   "Withdrawals",
			Summary: "Ask what a withdrawal request would do",
			Text: "Takes the body of POST /withdraw, evaluates the same rules on the same facts and moves " +
				"nothing. The answer is what POST /withdraw would do now. A request that POST /withdraw would " +
				"refuse is " +
				"refused here with the same status and code; details.gates has the rules up to the one that refused. " +
				"Where POST /withdraw would answer 451, this call answers 200, wouldBe is BLOCKED and the rule RISK " +
				"says " +
				"BLOCK. The rule RISK is NOT_CONFIGURED, and passes, while this installation has no risk provider " +
				"and " +
				"your organization has no threshold. With a known idempotencyKey no withdrawal would be made: " +
				"wouldBe is " +
				"the status of the withdrawal that has the key.",
			Retryable:     true,
			CountsAsQuote: true,
			LimitsItself:  true,
			Headers:       []kernel.Header{idempotencyKeyHeader},
			Answers:       []kernel.Success{{Status: http.StatusOK, Text: "What POST /withdraw would do now."}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.AmountBelowMinimum, fault.InvalidAddress, fault.MintNotFound,
				fault.IdempotencyKeyMismatch,
				fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
				fault.InsufficientBalance, fault.DestinationNotAllowed, fault.WithdrawalsSuspended,
			},
			Handler: kernel.HandleBody(a.previewWithdrawal,
				WithdrawRequest{
					MintID: 1, CustomerID: "user_42", Amount: "12000000000", ToAddress: resource.ExampleDestination,
				},
				examplePreview,
			),
		},
		{
			Method: http.MethodPost, Path: "/withdrawals/{withdrawalId}/cancel", Name: "cancelWithdrawal",
			Action: identity.CancelWithdrawal, Group: "Withdrawals",
			Summary: "Cancel a withdrawal",
			Text: "Ends a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and waits before the signer " +
				"signs anything of it. The withdrawal becomes CANCELLED, its amount is available again, and the " +
				"service " +
				"sends CUSTOMER_WITHDRAW_CANCELLED, or ORGANIZATION_WITHDRAW_CANCELLED for a withdrawal of your " +
				"organization's own. If the withdrawal was released for payment, the signer first voids it. If the " +
				"signer does not answer, the call answers 503: the withdrawal will never be paid, and its amount " +
				"stays " +
				"held until it becomes CANCELLED, without another call. When a cancel, an approval and a removal " +
				"race, " +
				"one wins; the others are refused with 409 and currentStatus. So is a repeated cancel: currentStatus " +
				"CANCELLED says that the withdrawal is cancelled.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The withdrawal, now CANCELLED."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.cancelWithdrawal, exampleCancelled),
		},
		{
			Method: http.MethodGet, Path: "/withdrawals/{withdrawalId}/decisions", Name: "listWithdrawalDecisions",
			Action: identity.ReadOrganization, Group: "Withdrawals",
			Summary: "Read the decisions about a withdrawal",
			Text: "Every decision, oldest first: the request with all its rules and the facts that they used, " +
				"approvals, removal, cancellation, and what the signer or the chain sent back. The service wrote " +
				"each " +
				"decision together with its effect, and decisions cannot be changed.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The decisions."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.listDecisions, Decisions{Data: []Decision{exampleDecision}}),
		},
		{
			Method: http.MethodPost, Path: "/transfers", Name: "createTransfer", Action: identity.Transfer,
			Group:   "Transfers",
			Summary: "Move money between balances",
			Text: "Moves an amount between a customer and a product of yours, two customers or two products: at " +
				"once, without a chain. It creates an unknown customer who receives. The idempotencyKey is " +
				"required: the " +
				"same key with the same parameters returns the same transfer and moves nothing more. A key never " +
				"expires. Every field except metadata is a parameter, including reference: another value under a " +
				"known " +
				"key is refused with 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request moved nothing. After a " +
				"5xx " +
				"or no answer, repeat with the same key.",
			LimitsItself: true,
			Headers:      []kernel.Header{idempotencyKeyHeader},
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The transfer, which is complete.",
				Headers: []kernel.Header{replayedTransferHeader},
			}},
			Faults: []fault.Code{
				fault.InvalidAmount, fault.MintNotFound, fault.SameAccount, fault.IdempotencyKeyMismatch,
				fault.CustomerFrozen, fault.OrganizationFrozen, fault.IdempotencyConflict,
				fault.InsufficientBalance, fault.WithdrawalsSuspended,
			},
			Handler: kernel.HandleBody(a.createTransfer,
				TransferRequest{
					MintID: 1, Amount: "5000000", From: TransferParty{CustomerID: new("user_42")},
					To:             TransferParty{Product: new("CUSTODIAL")},
					IdempotencyKey: new("charge-991"),
				},
				exampleTransfer,
			),
		},
		{
			Method: http.MethodGet, Path: "/transfers", Name: "listTransfers", Action: identity.ReadOrganization,
			Group:   "Transfers",
			Summary: "List transfers",
			Text:    "The organization's transfers. idempotencyKey selects the transfer with this key." + csvText,
			Query: kernel.ListParameters(
				kernel.Parameter{
					Name: "customerId", Kind: kernel.TextParameter, Max: 128,
					Text: "Only from or to this customer, compared byte for byte.",
				},
				kernel.Parameter{
					Name: "product", Kind: kernel.WordParameter, Enum: transfer.Products, Text: "Only from or to " +
						"this product.",
				},
				resource.MintFilter, resource.ChainFilter,
				kernel.Parameter{Name: "reference", Kind: kernel.TextParameter, Max: 255, Text: "Only with this " +
					"reference of yours."},
				kernel.Parameter{
					Name: "idempotencyKey", Kind: kernel.TextParameter, Max: 255,
					Text: "Only the one with this key.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of transfers."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listTransfers, kernel.ExamplePage(exampleTransfer)),
			Table:   kernel.ExportTable("transfers", resource.TransferColumns, a.exportTransfers),
		},
		{
			Method: http.MethodGet, Path: "/transfers/{transferId}", Name: "getTransfer",
			Action:  identity.ReadOrganization,
			Group:   "Transfers",
			Summary: "Read a transfer", Text: "One transfer.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The transfer."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getTransfer, exampleTransfer),
		},
		{
			Method: http.MethodGet, Path: "/balances", Name: "listBalances", Action: identity.ReadOrganization,
			Group:   "Transfers",
			Summary: "Read your own balances",
			Text: "One row for each product and mint that had a movement. Customers' balances are not yours: " +
				"CUSTODIAL shows them as owedToCustomers, and no total includes them. total is available + pending.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The balances."}},
			Handler: kernel.Handle(a.listProductBalances,
				ProductBalances{Data: []ProductBalance{exampleProductBalance}}),
		},
		{
			Method: http.MethodGet, Path: "/ledger/entries", Name: "listLedgerEntries",
			Action:  identity.ReadOrganization,
			Group:   "Transfers",
			Summary: "Read the movements of balances",
			Text: "A statement: every movement of a customer's or product's balance, with the resource that caused " +
				"it. A transfer between two balances is two entries. A withdrawal first moves its amount from " +
				"AVAILABLE " +
				"to PENDING_WITHDRAW, and then out." + csvText,
			Query: kernel.ListParameters(resource.CustomerFilter,
				kernel.Parameter{
					Name: "product", Kind: kernel.WordParameter, Enum: transfer.Products,
					Text: "Only of this product.",
				},
				resource.MintFilter, resource.ChainFilter),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of entries."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listLedgerEntries, kernel.ExamplePage(exampleEntry)),
			Table:   kernel.ExportTable("ledger-entries", resource.EntryColumns, a.exportEntries),
		},
		{
			Method: http.MethodGet, Path: "/customers", Name: "listCustomers", Action: identity.ReadOrganization,
			Group:   "Customers",
			Summary: "List customers",
			Text: "The organization's customers. The first POST /deposit for a customer creates it, or a transfer " +
				"to it." +
				csvText,
			Query: kernel.ListParameters(resource.CustomerFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: customer.Statuses,
					Text: "Only in this status.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of customers."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listCustomers, kernel.ExamplePage(exampleCustomer)),
			Table:   kernel.ExportTable("customers", resource.CustomerColumns, a.exportCustomers),
		},
		{
			Method: http.MethodGet, Path: "/customers/{customerId}", Name: "getCustomer",
			Action:  identity.ReadOrganization,
			Group:   "Customers",
			Summary: "Read a customer", Text: "One customer, by your own id, escaped for a URL.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The customer."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getCustomer, exampleCustomer),
		},
		{
			Method: http.MethodPatch, Path: "/customers/{customerId}", Name: "updateCustomer",
			Action:       identity.UpdateCustomer,
			FieldActions: map[string]identity.Action{"customerEmail": identity.SetCustomerEmail}, Group: "Customers",
			Summary: "Change a customer",
			Text: "Changes the e-mail, the metadata or both. Fields that are left out stay as they are; metadata is " +
				"replaced as a whole. Allowlists go by the e-mail, so a changed e-mail does not count there for 24 " +
				"hours. The same e-mail in other letter case is no change.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The customer."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.editCustomer,
				CustomerChange{CustomerEmail: "b@example.com"},
				exampleCustomer,
			),
		},
		{
			Method: http.MethodPost, Path: "/customers/{customerId}/freeze", Name: "freezeCustomer",
			Action: identity.FreezeCustomer, Group: "Customers",
			Summary: "Freeze a customer",
			Text: "Stops payments from the customer's balances: withdrawals and transfers out are refused with 403 " +
				"CUSTOMER_FROZEN, and a payment that is not sent yet waits. The service still credits deposits and " +
				"sends " +
				"their events. A repeated call changes nothing. The body may be left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The customer, now FROZEN."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.freezeCustomer,
				FreezeRequest{Reason: new("reported by support")},
				exampleFrozen,
			),
		},
		{
			Method: http.MethodPost, Path: "/customers/{customerId}/unfreeze", Name: "unfreezeCustomer",
			Action: identity.UnfreezeCustomer, Group: "Customers",
			Summary: "Lift your freeze of a customer",
			Text: "Lifts the freeze that your organization put on the customer. A freeze by the operator, or by the " +
				"service after a finality break, is another freeze and stays: the customer is then still FROZEN. If " +
				"your " +
				"organization has no freeze on the customer, the call is refused with 403 OPERATOR_ONLY. A repeated " +
				"call " +
				"changes nothing. The body may be left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The customer."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.OperatorOnly},
			Handler: kernel.HandleBody(a.unfreezeCustomer,
				UnfreezeRequest{},
				exampleCustomer,
			),
		},
		{
			Method: http.MethodGet, Path: "/customers/{customerId}/balances", Name: "listCustomerBalances",
			Action: identity.ReadOrganization, Group: "Customers",
			Summary: "Read a customer's balances",
			Text: "One row for each mint of which the customer had a movement. total is available + pendingWithdraw " +
				"+ " +
				"inSwap; it does not include pendingDeposit and held.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The balances."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.customerBalances, Balances{Data: []Balance{exampleBalance}}),
		},
		{
			Method: http.MethodPost, Path: "/webhook-endpoints", Name: "createWebhookEndpoint",
			Action: identity.ManageWebhooks, Group: "Webhooks",
			Summary: "Register a webhook endpoint",
			Text: "The service sends events to this URL from now on, signed with a secret that only this answer " +
				"shows. Without events, the endpoint receives the seven events of the interface; it receives an " +
				"extension event only if it names it. With filters, it receives only events of that customer or of " +
				"that " +
				"chain. An organization can have 10 endpoints.",
			Answers: []kernel.Success{{Status: http.StatusCreated, Text: "The endpoint with its secret."}},
			Faults:  []fault.Code{fault.InvalidState},
			Handler: kernel.HandleBody(a.createEndpoint,
				EndpointRequest{URL: "https://example.com/hooks/coffer"},
				exampleEndpointSecret,
			),
		},
		{
			Method: http.MethodGet, Path: "/webhook-endpoints", Name: "listWebhookEndpoints",
			Action: identity.ReadOrganization, Group: "Webhooks",
			Summary: "List webhook endpoints", Text: "The webhook endpoints of this organization, without their " +
				"secrets.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of endpoints."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listEndpoints, kernel.ExamplePage(exampleEndpoint)),
		},
		{
			Method: http.MethodGet, Path: "/webhook-endpoints/{endpointId}", Name: "getWebhookEndpoint",
			Action: identity.ReadOrganization, Group: "Webhooks",
			Summary: "Read a webhook endpoint", Text: "One endpoint, without its secret.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The endpoint."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getEndpoint, exampleEndpoint),
		},
		{
			Method: http.MethodPatch, Path: "/webhook-endpoints/{endpointId}", Name: "updateWebhookEndpoint",
			Action: identity.ManageWebhooks, Group: "Webhooks",
			Summary: "Change a webhook endpoint",
			Text: "Changes the fields that the body has. filters are replaced as a whole, and {} removes them. While " +
				"the endpoint is PAUSED, its deliveries wait. With ENABLED, which also enables a disabled endpoint, " +
				"and " +
				"with another url, all waiting deliveries are due at once, in the order of each resource and with " +
				"the " +
				"whole schedule. New events and filters apply to changes from now on; waiting deliveries are still " +
				"sent. " +
				"The service queued nothing for the endpoint while it was disabled: ask for those events with recover.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The endpoint."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.changeEndpoint,
				EndpointChange{Status: new("PAUSED")},
				exampleEndpoint,
			),
		},
		{
			Method: http.MethodPost, Path: "/webhook-endpoints/{endpointId}/rotate-secret", Name: "rotateWebhookSecret",
			Action: identity.ReplaceWebhookSecret, Group: "Webhooks",
			Summary: "Give a webhook endpoint a new secret",
			Text: "Only this answer shows the new secret. From now on every message has a v1 signature by it and, " +
				"for " +
				"24 hours, one by the former secret: replace the secret at your receiver in this time. If the " +
				"answer is " +
				"lost, call again: each secret signs for 24 hours after its own replacement, at most 4 at once.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The endpoint with its new secret."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.rotateSecret, exampleRotated),
		},
		{
			Method: http.MethodPost, Path: "/webhook-endpoints/{endpointId}/test", Name: "testWebhookEndpoint",
			Action: identity.ManageWebhooks, Group: "Webhooks",
			ResultAt: "/webhook-endpoints/{endpointId}/deliveries",
			Summary:  "Send a sample to a webhook endpoint",
			Text: "Posts a realistic sample of that type to this endpoint alone, even while it is paused or " +
				"disabled, " +
				"and returns the answer if it comes within 15 seconds. The sample has environment TEST and no " +
				"sequence, " +
				"and describes nothing that happened. The service does not repeat it and does not count it for or " +
				"against the endpoint; the log of attempts has it.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The attempt. Look at status: DELIVERED, or " +
				"FAILED with the error."}},
			Faults: []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.testEndpoint,
				TestRequest{Type: "CUSTOMER_DEPOSIT"},
				exampleAttempt,
			),
		},
		{
			Method: http.MethodGet, Path: "/webhook-endpoints/{endpointId}/deliveries", Name: "listWebhookDeliveries",
			Action: identity.ReadOrganization, Group: "Webhooks",
			Summary: "Read the delivery attempts of a webhook endpoint",
			Text: "Every attempt with its request, without the signature, and the answer: the status and the first " +
				"1024 bytes. The service keeps attempts for 30 days.",
			Query: []kernel.Parameter{
				{
					Name: "status", Kind: kernel.WordParameter, Enum: []string{delivery.Delivered, delivery.Failed},
					Text: "Only attempts with this outcome.",
				},
				{Name: "eventId", Kind: kernel.TextParameter, Max: 64, Text: "Only attempts to send this event."},
				{Name: "type", Kind: kernel.WordParameter, Enum: resource.EventTypes, Text: "Only attempts to send " +
					"events of this type."},
				{Name: "since", Kind: kernel.TimeParameter, Text: "Only attempts of this time or later."},
				kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of attempts."}},
			Faults:  []fault.Code{fault.InvalidCursor, fault.CodeNotFound},
			Handler: kernel.Handle(a.listAttempts, kernel.ExamplePage(exampleAttempt)),
		},
		{
			Method: http.MethodPost, Path: "/webhook-endpoints/{endpointId}/recover", Name: "recoverWebhookEndpoint",
			Action: identity.ManageWebhooks, Group: "Webhooks",
			ResultAt: "/webhook-endpoints/{endpointId}/deliveries",
			Summary:  "Send a webhook endpoint the events that it missed",
			Text: "Queues the events since that time again, in their order. With onlyFailed, the default, it queues " +
				"only events that were never delivered to the endpoint, also because it was disabled or did not " +
				"exist; " +
				"otherwise it queues all events again. The present events and filters of the endpoint decide which " +
				"events it receives. The job runs after the answer. The same request within ten minutes returns the " +
				"same " +
				"job, and an endpoint has one running recovery at a time.",
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The job."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.recoverEndpoint,
				RecoverRequest{Since: "2026-01-31T12:00:00.000Z"},
				exampleJob,
			),
		},
		{
			Method: http.MethodPost, Path: "/events/{eventId}/resend", Name: "resendEvent",
			Action:   identity.ManageWebhooks,
			Group:    "Webhooks",
			ResultAt: "/webhook-endpoints/{endpointId}/deliveries",
			Summary:  "Send an event again",
			Text: "Sends the same bytes under the same webhook-id again: to the named endpoint, or to every endpoint " +
				"that receives the event. The same request within five seconds returns the same job, and an event " +
				"that " +
				"is already queued is not sent twice.",
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The job."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.resendEvent,
				ResendRequest{EndpointID: new("we_01J9ZW3M8Q4S5T6V7W8X9YZABC")},
				exampleResend,
			),
		},
		{
			Method: http.MethodGet, Path: "/webhook-jobs/{jobId}", Name: "getWebhookJob",
			Action:  identity.ReadOrganization,
			Group:   "Webhooks",
			Summary: "Read the progress of a resend or recovery",
			Text: "The job is COMPLETED when it has queued everything; pending, delivered and failed count the " +
				"outcomes since.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The job."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getJob, exampleJob),
		},
		{
			Method: http.MethodDelete, Path: "/webhook-endpoints/{endpointId}", Name: "deleteWebhookEndpoint",
			Action: identity.ManageWebhooks, Group: "Webhooks",
			Summary: "Delete a webhook endpoint",
			Text: "The service sends nothing more to the endpoint. GET /events still has the events that were not " +
				"delivered.",
			Answers: []kernel.Success{{Status: http.StatusNoContent, Text: "The endpoint is deleted."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleEmpty(a.deleteEndpoint),
		},
		{
			Method: http.MethodGet, Path: "/events", Name: "listEvents", Action: identity.ReadOrganization,
			Group:   "Webhooks",
			Summary: "Read the event feed",
			Text: "The bodies of webhooks, byte for byte, in the order of sequence, from after on, for 90 days. " +
				"Without types the feed has every event and the sequences have no gap, so a consumer can prove that " +
				"it " +
				"missed nothing. A first sequence above after + 1 means that older events have left the feed. " +
				"Continue " +
				"with the last sequence that you have seen.",
			Query: []kernel.Parameter{
				{
					Name: "after", Kind: kernel.NumberParameter, Max: sequenceMax,
					Text: "The last sequence that you have. The default 0 starts at the first.",
				},
				{
					Name: "types", Kind: kernel.WordsParameter, Enum: resource.EventTypes,
					Text: "Only events of these types, separated by commas.",
				},
				kernel.LimitParameter,
				{
					Name: "cursor", Kind: kernel.TextParameter, Max: 1024,
					Text: "The nextCursor of the previous page, with the same types. It takes precedence over after.",
				},
			},
			Faults:  []fault.Code{fault.InvalidCursor},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "One page of the feed."}},
			Handler: kernel.Handle(a.listEvents, kernel.EncodeRaw(kernel.ExamplePage(exampleEnvelope))),
		},
		{
			Method: http.MethodGet, Path: "/.well-known/webhook-keys", Name: "listWebhookKeys", Group: "Webhooks",
			Summary:    "Read the keys that sign webhooks",
			Text:       "The public keys of the v1a signatures, newest first. A signature by any of them is valid.",
			NeedsNoKey: true,
			Answers:    []kernel.Success{{Status: http.StatusOK, Text: "The keys."}},
			Handler: kernel.Handle(a.getWebhookKeys,
				WebhookKeys{Keys: []string{"whpk_MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="}}),
		},
		kernel.DocumentRoute,
	}
}
