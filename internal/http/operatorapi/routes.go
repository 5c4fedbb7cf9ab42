package operatorapi

import (
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/webhook"
)

func (a *api) surface() *kernel.Surface {
	return &kernel.Surface{
		Title: "Coffer, for its operators", Description: aboutOperators, Page: "Coffer: the operator's interface",
		Guide: docs.Operator,
		Routes: slices.Concat(
			a.operatorRoutes(), a.operatorKeyRoutes(), a.operatorFlaggedRoutes(), a.localRiskRoutes(),
			a.whitelistRoutes(), a.operatorSwapRoutes(), a.depositSwapRoutes(),
			a.billingRoutes(),
		),
		Groups:     operatorGroups,
		Credential: "operatorKey", Header: "X-Operator-Key",
		CredentialText: "A key of an operator, made with the command coffer operator key create. It reads every " +
			"organization and decides what each may do: give it only to the people and programs that run the " +
			"service. " +
			"Organizations' calls do not accept it, and these calls do not accept an organization's key.",
		ForeignKeyPrefix: identity.APIKey,
		ForeignKeyText: "This is an organization's key, and operators' calls do not accept it. Send an operator's " +
			"key " +
			"in x-operator-key. To use this key, send it in x-api-key to the organizations' interface, which has " +
			"another " +
			"address.",
		Admits:       func(p identity.Permission) bool { return p.Operator },
		CheckAddress: a.checkAddress, Authenticate: a.authenticate, BeforeRead: a.recordCall,
		Faults: []fault.Code{fault.IPNotAllowed},
		Words:  resource.Words, DescribeOutage: resource.DescribeOutage,
		Problems:    resource.WithOwn(resource.Problems, problems),
		FieldDocs:   resource.WithOwn(resource.FieldDocs, fieldDocs),
		TypeDocs:    resource.WithOwn(resource.TypeDocs, typeDocs),
		SchemaNames: resource.SchemaNames,
	}
}

// problems are the texts about refusals that differ from those for organizations.
var problems = map[fault.Code]kernel.ProblemDoc{
	fault.InvalidRequest: {
		Kind: fault.Invalid, Text: "a field or parameter is missing or has an impossible value", Param: "name",
		Example: "The field name is missing." + resource.NothingWritten + " Add it.",
	},
	fault.UnknownField: {
		Kind: fault.Invalid, Text: "a field or query parameter is not known here", Param: "nmae",
		Example: "The field \"nmae\" is not known here." + resource.NothingWritten + " Did you mean name?",
	},
	fault.CodeUnauthorized: {
		Kind: fault.Unauthorized, Text: "the key is missing, malformed, unknown or revoked",
		Example: "Send a valid operator's key in the header x-operator-key. Nothing was done.",
	},
	fault.IPNotAllowed: {
		Kind: fault.Forbidden, Text: "the operator's interface accepts no calls from this address",
		Example: "The operator's interface accepts no calls from this address. Nothing was done. Call from an " +
			"address in " +
			"operator.allow of the service's configuration.",
	},
	fault.CodeNotFound: {
		Kind: fault.NotFound, Text: "the resource does not exist",
		Example: "This organization does not exist. Nothing was changed and no money moved. GET /organizations " +
			"lists the " +
			"organizations.",
	},
	fault.ApprovalRefused: {
		Kind: fault.Conflict, Text: "an operator cannot approve their own change request, and only they can " +
			"withdraw it",
		Example: "The operator who requests a change cannot approve it: another operator has to. Nothing was " +
			"changed. You " +
			"can withdraw your request.",
	},
	fault.InvalidState: {
		Kind: fault.Conflict, Text: "the resource is in another state, or another caller changed it at this moment",
		Example: "Freeze frz_01J9ZW3M8Q4S5T6V7W8X9YZABC was lifted before. Nothing was changed and no money moved.",
	},
	fault.RateLimited: {
		Kind: fault.Limited, Text: "more requests than this key may send, or too many wrong keys",
		Example: "Too many requests. This request did nothing, which says nothing about earlier attempts. Wait 1 " +
			"seconds " +
			"and repeat the request.",
	},
	fault.Internal: {
		Kind: kernel.KindInternal, Text: "an internal error; look the result up before you repeat a write",
		Example: "An internal error stopped this call. It is not known whether this call took effect. Look up with " +
			"a GET " +
			"whether it took effect before you repeat it.",
	},
	fault.CodeUnavailable: {
		Kind: fault.Unavailable, Text: "a part of the service is down, and the sentence says which; look the result " +
			"up " +
			"before you repeat a write",
		Example: "The database accepts no writes now, so this call was not finished. Look up with a GET whether it " +
			"took " +
			"effect before you repeat it.",
	},
}

const aboutOperators = `The interface for the operators of Coffer: organizations, their settings and keys, freezes, and reserves.

**Where.** The interface has its own listener, which accepts calls from the configured addresses with operators' keys. The audit log has every call with the id of its key.

**Units.** An amount is a string of whole atomic units of its mint. Dollar values are decimal strings.

**Strictness.** The service refuses unknown fields and query parameters. Names are case-sensitive. No value is converted from another type.

**Repeating.** After a 5xx or no answer to a write, look up with a GET whether it took effect. ` + "`error`" + ` names the GET.

**Growth.** Fields, values of open enumerations, and codes under the existing statuses may be added without notice. Ignore those that you do not know.`

var operatorGroups = []kernel.Group{
	{Name: "Organizations", Text: "The organizations that use this service, their keys and their settings."},
	{Name: "Money", Text: "Deposits and withdrawals of all organizations, and the reserves against the liabilities."},
	{Name: "Freezes", Text: "What is frozen, by whom and why."},
	{
		Name: "Four eyes",
		Text: "Changes that loosen a control and wait for a second operator, if operator.four_eyes in the " +
			"configuration is " +
			"on and two operators have keys. A change that tightens a control takes effect at once.",
	},
	{
		Name: "Whitelist",
		Text: "The addresses that organizations may pay their own money to: an operator adds them, the signer " +
			"endorses " +
			"them, and they are usable after a cooling-off.",
	},
	{
		Name: "Swaps",
		Text: "Swaps of customers and of organizations' own money, what is with which provider, arrivals that no " +
			"swap expects, deposit swaps, the providers, and the fees.",
	},
	{
		Name: "Billing",
		Text: "What organizations owe for a month: the terms of both parties, invoices, credit notes, and prices.",
	},
	{Name: "Screening", Text: "The answers of screening on networks without real money."},
	{Name: "Meta", Text: "About this interface."},
}

var organizationFilter = kernel.Parameter{
	Name: "organizationId", Kind: kernel.TextParameter, Max: 64, Text: "Only of this organization.",
}

func (a *api) operatorRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/organizations", Name: "createOrganization",
			Action: identity.CreateOrganization, Group: "Organizations",
			Summary: "Create an organization",
			Text: "Makes an organization with its first API key, which only this answer shows. The command coffer " +
				"org " +
				"create --owner adds its people. Until it has a person, its withdrawals that need an approval stay " +
				"waiting.",
			Answers: []kernel.Success{{Status: http.StatusCreated, Text: "The organization with its key."}},
			Handler: kernel.HandleBody(a.createOrganization,
				OrganizationRequest{Name: "Example Marketplace"},
				exampleOrganizationKey,
			),
		},
		{
			Method: http.MethodGet, Path: "/organizations", Name: "listOrganizations",
			Action:  identity.ReadInstallation,
			Group:   "Organizations",
			Summary: "List organizations", Text: "The organizations that use this service.",
			Query: kernel.ListParameters(
				kernel.Parameter{Name: "name", Kind: kernel.TextParameter, Max: 200, Text: "Only the organization " +
					"with exactly this " +
					"name."},
			),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of organizations."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listOrganizations, kernel.ExamplePage(exampleOrganization)),
		},
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}", Name: "getOrganization",
			Action: identity.ReadInstallation, Group: "Organizations",
			Summary: "Read an organization", Text: "One organization as it is now.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The organization."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getOrganization, exampleOrganization),
		},
		{
			Method: http.MethodPost, Path: "/organizations/{organizationId}/api-key/roll", Name: "rollApiKey",
			Action: identity.ReplaceOrganizationKey, Group: "Organizations",
			ResultAt: "/organizations/{organizationId}/api-keys",
			Summary:  "Roll an organization's API key",
			Text: "Makes a new main API key, which only this answer shows. Every request that starts after this " +
				"answer refuses the old key, and also an earlier one that still worked in its overlap. If the " +
				"answer is " +
				"lost, roll again.",
			Answers: []kernel.Success{{Status: http.StatusCreated, Text: "The new key."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.rollKey, APIKey{resource.ExampleKey}),
		},
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}/settings", Name: "getSettings",
			Action: identity.ReadInstallation, Group: "Organizations",
			Summary: "Read an organization's settings",
			Text: "The settings in force. The service stores those in unavailable and does not apply them yet: they " +
				"belong to features that this version does not have.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The settings."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getSettings, exampleSettings),
		},
		{
			Method: http.MethodPatch, Path: "/organizations/{organizationId}/settings", Name: "changeSettings",
			Action: identity.ChangeSettings, Group: "Organizations",
			Summary: "Change an organization's settings",
			Text: "Changes the settings that the body names, all or none, and returns the settings in force. Every " +
				"request that is decided after this answer follows them. The service stores a setting that " +
				"unavailable " +
				"names and does not apply it yet. If the installation requires four eyes, a change that loosens a " +
				"control is not in force yet: changeRequests has it, and it waits for a second operator.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The settings."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Before:  kernel.Check(requireOrganization),
			Handler: kernel.HandleBody(a.changeSettings,
				SettingsChange{CustomerWithdrawUSDThreshold: new("10000.00"), RequireWithdrawIdempotency: true},
				exampleSettings,
			),
		},
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}/settings/history",
			Name:   "listSettingsHistory",
			Action: identity.ReadInstallation, Group: "Organizations",
			Summary: "List changes of an organization's settings",
			Text: "Every change of a setting: the old value, the new value, who changed it and when. The call reads " +
				"the audit log, whose rows never change.",
			Query:   []kernel.Parameter{kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of changes."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
			Handler: kernel.Handle(a.settingsHistory, kernel.ExamplePage(exampleSettingChange)),
		},
		{
			Method: http.MethodGet, Path: "/change-requests", Name: "listChangeRequests",
			Action:  identity.ReadInstallation,
			Group:   "Four eyes",
			Summary: "List change requests", Text: "Change requests that wait for a second operator, and those that " +
				"have " +
				"ended.",
			Query: kernel.ListParameters(organizationFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: changerequest.Statuses,
					Text: "Only in this status.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of change requests."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listChanges, kernel.ExamplePage(exampleChange)),
		},
		{
			Method: http.MethodGet, Path: "/change-requests/{changeRequestId}", Name: "getChangeRequest",
			Action: identity.ReadInstallation, Group: "Four eyes",
			Summary: "Read a change request", Text: "One change request. It cannot be edited.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The change request."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getChange, exampleChange),
		},
		{
			Method: http.MethodPost, Path: "/change-requests/{changeRequestId}/approve", Name: "approveChangeRequest",
			Action: identity.ApproveChange, Group: "Four eyes",
			Summary: "Approve a change request",
			Text: "Makes the change that another operator requested. The requesting operator cannot approve it, " +
				"with any key. The call is refused with 409 INVALID_STATE after a decision, after the deadline, and " +
				"when " +
				"the resource has changed since the request.",
			Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The change request, now APPROVED: the change " +
				"is in " +
				"force."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused, fault.InvalidRequest},
			Handler: kernel.Handle(a.approveChange, exampleApproved),
		},
		{
			Method: http.MethodPost, Path: "/change-requests/{changeRequestId}/withdraw", Name: "withdrawChangeRequest",
			Action: identity.RetractChange, Group: "Four eyes",
			Summary: "Withdraw a change request",
			Text: "Ends a change request of your own. Only its requester can withdraw it. A request without " +
				"approval ends by itself after seven days.",
			Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The change request, now " +
				"WITHDRAWN."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused},
			Handler: kernel.Handle(a.retractChange, exampleWithdrawn),
		},
		{
			Method: http.MethodGet, Path: "/deposits", Name: "listDeposits", Action: identity.ReadInstallation,
			Group:   "Money",
			Summary: "List deposits of all organizations",
			Text: "Deposits to the addresses of customers and organizations, including those that are not final " +
				"yet.",
			Query: kernel.ListParameters(organizationFilter, resource.CustomerFilter,
				kernel.Parameter{
					Name: "product", Kind: kernel.WordParameter, Enum: transfer.Products,
					Text: "Only of this product of an organization.",
				},
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.DepositStatuses,
					Text: "Only in this status.",
				},
				resource.FlaggedFilter,
				resource.MintFilter, resource.ChainFilter, resource.TxHashFilter, resource.AddressFilter),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of deposits."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listAllDeposits,
				kernel.ExamplePage(OwnedDeposit{resource.ExampleOrganizationID, resource.ExampleDeposit})),
		},
		{
			Method: http.MethodGet, Path: "/withdrawals", Name: "listWithdrawals", Action: identity.ReadInstallation,
			Group:   "Money",
			Summary: "List withdrawals of all organizations",
			Text:    "Withdrawals of customers and of organizations' own balances, finished and unfinished.",
			Query: kernel.ListParameters(organizationFilter, resource.CustomerFilter, resource.TypeFilter,
				kernel.Parameter{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.WithdrawalStatuses,
					Text: "Only in this status.",
				},
				resource.MintFilter, resource.ChainFilter, resource.TxHashFilter, resource.AddressFilter,
				kernel.Parameter{
					Name: "reference", Kind: kernel.TextParameter, Max: 255,
					Text: "Only with this reference of the organization's.",
				}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of withdrawals."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listAllWithdrawals,
				kernel.ExamplePage(OwnedWithdrawal{resource.ExampleOrganizationID, resource.ExampleWithdrawal})),
		},
		{
			Method: http.MethodGet, Path: "/reserves", Name: "getReserves", Action: identity.ReadInstallation,
			Group:   "Money",
			Summary: "Read reserves and liabilities",
			Text: "For each mint: what the service's addresses hold by the final blocks that it has read, what it " +
				"owes to whom, and what of both is in transactions that are not final. All numbers come from one " +
				"snapshot of the books. The verifier compares this snapshot with the chain at the same block. While " +
				"it " +
				"finds a difference, a freeze of scope ALL by VERIFY is in force.",
			Query:   []kernel.Parameter{organizationFilter},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The reserves."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.listReserves, Reserves{AsOf: resource.ExampleAt, Data: []Reserve{exampleReserve}}),
		},
		{
			Method: http.MethodPost, Path: "/freezes", Name: "createFreeze", Action: identity.FreezePayments,
			Group:   "Freezes",
			Summary: "Freeze a customer, an organization, a chain or everything",
			Text: "Stops payments: the service accepts, signs and sends no withdrawal and makes no transfer. It " +
				"still " +
				"credits deposits. Transactions that were sent to the network before stay there. If a freeze by an " +
				"operator with the same scope is in force, the call returns it with its first reason.",
			Retryable: true,
			Answers: []kernel.Success{
				{Status: http.StatusCreated, Text: "The freeze."},
				{Status: http.StatusOK, Text: "The freeze that is already in force. Nothing was changed."},
			},
			Faults: []fault.Code{fault.CodeNotFound},
			Handler: kernel.HandleBody(a.createFreeze,
				FreezeOrder{
					Scope: "CUSTOMER", OrganizationID: new(resource.ExampleOrganizationID), CustomerID: new("user_42"),
					Reason: new("Asked for by the police, case 77."),
				},
				exampleFreeze,
			),
		},
		{
			Method: http.MethodGet, Path: "/freezes", Name: "listFreezes", Action: identity.ReadInstallation,
			Group:   "Freezes",
			Summary: "List freezes", Text: "Freezes in force and freezes that were lifted.",
			Query: kernel.ListParameters(
				kernel.Parameter{
					Name: "standing", Kind: kernel.FlagParameter, Text: "true: only freezes in force. false: only " +
						"lifted freezes.",
				},
				kernel.Parameter{
					Name: "scope", Kind: kernel.WordParameter, Enum: freezeScopes,
					Text: "Only of this scope.",
				},
				kernel.Parameter{
					Name: "source", Kind: kernel.WordParameter, Enum: freezeSources,
					Text: "Only by this source.",
				},
				organizationFilter, resource.ChainFilter),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of freezes."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listFreezes, kernel.ExamplePage(exampleFreeze)),
		},
		{
			Method: http.MethodDelete, Path: "/freezes/{freezeId}", Name: "liftFreeze", Action: identity.LiftFreeze,
			Group:   "Freezes",
			Summary: "Lift a freeze",
			Text: "Ends one freeze. Other freezes of the same scope stay in force. Only the organization can lift " +
				"its " +
				"own freeze. A freeze after a finality break can be lifted once the break is settled: until then 409 " +
				"says what is open.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The freeze, now lifted."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.liftFreeze, exampleLifted),
		},
		kernel.DocumentRoute,
	}
}

var (
	exampleOrganization = Organization{
		OrganizationID: resource.ExampleOrganizationID, Name: "Example Marketplace", Status: "ACTIVE",
		APIKeyCreatedAt: &resource.ExampleAt, CreatedAt: resource.ExampleAt,
	}
	exampleOrganizationKey = OrganizationWithKey{exampleOrganization, resource.ExampleKey}
	exampleSettings        = OrganizationSettings{
		OrganizationID: resource.ExampleOrganizationID, CustomerWithdrawUSDThreshold: new("10000"),
		ApprovalAllowlist: []ApprovalAllowed{}, ApprovalQuorum: 1,
		IPAllowlist: []string{}, SwappableMintIDs: []int{}, RequireWithdrawIdempotency: true,
		CustomerFeeDayUSD: new("50"), ChargeCustomerCosts: "NONE",
		Unavailable: listUnavailable(), ChangeRequests: []ChangeRequest{},
		UpdatedAt: resource.ExampleAt,
	}
	exampleChange = ChangeRequest{
		ChangeRequestID: "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC", OrganizationID: resource.ExampleOrganizationID,
		Kind:   "SETTINGS",
		Status: "PENDING",
		Changes: []ChangedValue{
			{
				"customerWithdrawUsdThreshold",
				kernel.AnyValue{RawMessage: []byte(`"10000"`)},
				kernel.AnyValue{RawMessage: []byte(`"20000"`)},
			},
		},
		RequestedBy: ActingOperator{"opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", new("ann")}, CreatedAt: resource.ExampleAt,
		ExpiresAt: resource.ExampleAt,
	}
	exampleApproved = func() ChangeRequest {
		r := exampleChange
		r.Status, r.DecidedBy, r.DecidedAt = "APPROVED",
			&ActingOperator{"opk_01J9ZW3M8Q4S5T6V7W8X9YZABD", new("bob")}, &resource.ExampleAt
		return r
	}()
	exampleWithdrawn = func() ChangeRequest {
		r := exampleChange
		r.Status, r.DecidedBy, r.DecidedAt = "WITHDRAWN", &r.RequestedBy, &resource.ExampleAt
		return r
	}()
	exampleSettingChange = SettingChange{
		Setting: "customerWithdrawUsdThreshold", From: kernel.AnyValue{RawMessage: []byte(`null`)},
		To:        kernel.AnyValue{RawMessage: []byte(`"10000"`)},
		ChangedBy: Changer{"OPERATOR", "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", new("ann")}, ChangedAt: resource.ExampleAt,
	}
	exampleFreeze = Freeze{
		FreezeID: "frz_01J9ZW3M8Q4S5T6V7W8X9YZABC", Scope: "CUSTOMER",
		OrganizationID: new(resource.ExampleOrganizationID),
		CustomerID:     new("user_42"),
		Source:         "OPERATOR", Reason: "Asked for by the police, case 77.", CreatedAt: resource.ExampleAt,
	}
	exampleLifted = func() Freeze {
		f := exampleFreeze
		f.LiftedAt, f.LiftedBy = &resource.ExampleAt, new("OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC")
		return f
	}()
	exampleReserve = Reserve{
		MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Decimals: 6, Block: &ReserveBlock{24356789, resource.ExampleHash},
		Holdings: ReserveHoldings{"1000000", "5000000", "6000000"},
		Liabilities: ReserveLiabilities{
			CustomersAvailable: "4000000", CustomersWithdrawing: "1000000", InSwap: "0", Products: "1000000", Gas: "0",
			Suspense: "0", PendingDeposits: "0", BelowMinimum: "0", Total: "6000000",
		},
		AtProviders: webhook.List[ReserveAtProvider]{}, InTransit: ReserveInTransit{"1000000", "0"}, Difference: "0",
	}
)
