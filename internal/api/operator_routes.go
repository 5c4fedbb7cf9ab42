package api

import (
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/transfer"
)

// operators is the surface of the operators: all their routes, and the texts that only their
// document has.
var operators = surface{
	title: "Coffer, for its operators", description: aboutOperators, page: "Coffer: the operator's interface",
	guide:      docs.Operator,
	routes:     concatRoutes(operatorRoutes, operatorKeyRoutes, operatorFlaggedRoutes, localRiskRoutes, whitelistRoutes),
	groups:     operatorGroups,
	credential: "operatorKey", header: operatorHeader,
	credentialText: "A key of an operator, made with the command coffer operator key create. It reads every " +
		"organization and decides what each may do: give it only to the people and programs that run the service. " +
		"Organizations' calls do not accept it, and these calls do not accept an organization's key.",
	foreignKeyPrefix: identity.APIKey,
	foreignKeyText: "This is an organization's key, and operators' calls do not accept it. Send an operator's key " +
		"in x-operator-key. To use this key, send it in x-api-key to the organizations' interface, which has another " +
		"address.",
	admits:       func(p identity.Permission) bool { return p.Operator },
	authenticate: (*api).authenticateOperator,
	beforeRead:   (*api).recordCall,
	faults:       []fault.Code{fault.IPNotAllowed},
	fieldDocs: mergeMaps(
		operatorFieldDocs, keyFieldDocs, flaggedFieldDocs, operatorFlaggedFieldDocs, localRiskFieldDocs,
		whitelistFieldDocs,
	), examples: mergeMaps(operatorExamples, operatorFlaggedExamples, localRiskExamples, whitelistExamples),
	problems: map[fault.Code]problemDoc{
		fault.InvalidRequest: {
			fault.Invalid, "a field or parameter is missing or has an impossible value", "name",
			"The field name is missing." + nothingWritten + " Add it.", nil,
		},
		fault.UnknownField: {
			fault.Invalid, "a field or query parameter is not known here", "nmae",
			"The field \"nmae\" is not known here." + nothingWritten + " Did you mean name?", nil,
		},
		fault.CodeUnauthorized: {
			fault.Unauthorized, "the key is missing, malformed, unknown or revoked", "",
			"Send a valid operator's key in the header x-operator-key. Nothing was done.", nil,
		},
		fault.IPNotAllowed: {
			fault.Forbidden, "the operator's interface accepts no calls from this address", "",
			"The operator's interface accepts no calls from this address. Nothing was done. Call from an address in " +
				"operator.allow of the service's configuration.",
			nil,
		},
		fault.CodeNotFound: {
			fault.NotFound, "the resource does not exist", "",
			"This organization does not exist. Nothing was changed and no money moved. GET /organizations lists the " +
				"organizations.",
			nil,
		},
		fault.ApprovalRefused: {
			fault.Conflict, "an operator cannot approve their own change request, and only they can withdraw it", "",
			"The operator who requests a change cannot approve it: another operator has to. Nothing was changed. You " +
				"can withdraw your request.",
			nil,
		},
		fault.InvalidState: {
			fault.Conflict, "the resource is in another state, or another caller changed it at this moment", "",
			"Freeze frz_01J9ZW3M8Q4S5T6V7W8X9YZABC was lifted before. Nothing was changed and no money moved.", nil,
		},
		fault.RateLimited: {
			fault.Limited, "more requests than this key may send, or too many wrong keys", "",
			"Too many requests. This request did nothing, which says nothing about earlier attempts. Wait 1 seconds " +
				"and repeat the request.",
			nil,
		},
		fault.Internal: {
			kindInternal, "an internal error; look the result up before you repeat a write", "",
			"An internal error stopped this call. It is not known whether this call took effect. Look up with a GET " +
				"whether it took effect before you repeat it.",
			nil,
		},
		fault.CodeUnavailable: {
			fault.Unavailable, "a part of the service is down, and the sentence says which; look the result up " +
				"before you repeat a write",
			"",
			"The database accepts no writes now, so this call was not finished. Look up with a GET whether it took " +
				"effect before you repeat it.",
			nil,
		},
	},
}

// concatRoutes joins several lists of routes.
func concatRoutes(lists ...[]route) []route { return slices.Concat(lists...) }

// mergeMaps joins several maps; a key in two of them is a mistake.
func mergeMaps[V any](maps ...map[string]V) map[string]V {
	merged := map[string]V{}
	for _, m := range maps {
		for k, v := range m {
			if _, twice := merged[k]; twice {
				panic("api: two texts for the same name: " + k)
			}
			merged[k] = v
		}
	}
	return merged
}

const aboutOperators = `The interface for the operators of Coffer: organizations, their settings and keys, freezes, and reserves.

**Where.** The interface has its own listener, which accepts calls from the configured addresses with operators' keys. The audit log has every call with the id of its key.

**Units.** An amount is a string of whole atomic units of its mint. Dollar values are decimal strings.

**Strictness.** The service refuses unknown fields and query parameters. Names are case-sensitive. No value is converted from another type.

**Repeating.** After a 5xx or no answer to a write, look up with a GET whether it took effect. ` + "`error`" + ` names the GET.

**Growth.** Fields, values of open enumerations, and codes under the existing statuses may be added without notice. Ignore those that you do not know.`

var operatorGroups = []struct{ name, text string }{
	{"Organizations", "The organizations that use this service, their keys and their settings."},
	{"Money", "Deposits and withdrawals of all organizations, and the reserves against the liabilities."},
	{"Freezes", "What is frozen, by whom and why."},
	{
		"Four eyes",
		"Changes that loosen a control and wait for a second operator, if operator.four_eyes in the configuration is " +
			"on and two operators have keys. A change that tightens a control takes effect at once.",
	},
	{
		"Whitelist",
		"The addresses that organizations may pay their own money to: an operator adds them, the signer endorses " +
			"them, and they are usable after a cooling-off.",
	},
	{"Screening", "The answers of screening on networks without real money."},
	{"Meta", "About this interface."},
}

var organizationFilter = parameter{
	name: "organizationId", kind: textParameter, max: 64, text: "Only of this organization.",
}

var operatorRoutes = []route{
	{
		method: http.MethodPost, path: "/organizations", name: "createOrganization",
		action: identity.CreateOrganization, group: "Organizations",
		summary: "Create an organization",
		text: "Makes an organization with its first API key, which only this answer shows. The command coffer org " +
			"create --owner adds its people. Until it has a person, its withdrawals that need an approval stay " +
			"waiting.",
		body: OrganizationRequest{},
		answers: []success{
			{http.StatusCreated, "The organization with its key.", OrganizationWithKey{}, exampleOrganizationKey, nil},
		},
		handle: (*api).createOrganization,
	},
	{
		method: http.MethodGet, path: "/organizations", name: "listOrganizations", action: identity.ReadInstallation,
		group:   "Organizations",
		summary: "List organizations", text: "The organizations that use this service.",
		query: listParameters(
			parameter{name: "name", kind: textParameter, max: 200, text: "Only the organization with exactly this " +
				"name."},
		),
		answers: []success{
			{http.StatusOK, "A page of organizations.", Page[Organization]{}, examplePage(exampleOrganization), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listOrganizations,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}", name: "getOrganization",
		action: identity.ReadInstallation, group: "Organizations",
		summary: "Read an organization", text: "One organization as it is now.",
		answers: []success{{http.StatusOK, "The organization.", Organization{}, exampleOrganization, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getOrganization,
	},
	{
		method: http.MethodPost, path: "/organizations/{organizationId}/api-key/roll", name: "rollApiKey",
		action: identity.ReplaceOrganizationKey, group: "Organizations",
		resultAt: "/organizations/{organizationId}/api-keys",
		summary:  "Roll an organization's API key",
		text: "Makes a new main API key, which only this answer shows. Every request that starts after this " +
			"answer refuses the old key, and also an earlier one that still worked in its overlap. If the answer is " +
			"lost, roll again.",
		answers: []success{{http.StatusCreated, "The new key.", APIKey{}, APIKey{exampleKey}, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).rollKey,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/settings", name: "getSettings",
		action: identity.ReadInstallation, group: "Organizations",
		summary: "Read an organization's settings",
		text: "The settings in force. The service stores those in unavailable and does not apply them yet: they " +
			"belong to features that this version does not have.",
		answers: []success{{http.StatusOK, "The settings.", OrganizationSettings{}, exampleSettings, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getSettings,
	},
	{
		method: http.MethodPatch, path: "/organizations/{organizationId}/settings", name: "changeSettings",
		action: identity.ChangeSettings, group: "Organizations",
		summary: "Change an organization's settings",
		text: "Changes the settings that the body names, all or none, and returns the settings in force. Every " +
			"request that is decided after this answer follows them. The service stores a setting that unavailable " +
			"names and does not apply it yet. If the installation requires four eyes, a change that loosens a " +
			"control is not in force yet: changeRequests has it, and it waits for a second operator.",
		body: SettingsChange{},
		answers: []success{
			{http.StatusOK, "The settings.", OrganizationSettings{}, exampleSettings, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle: (*api).changeSettings,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/settings/history", name: "listSettingsHistory",
		action: identity.ReadInstallation, group: "Organizations",
		summary: "List changes of an organization's settings",
		text: "Every change of a setting: the old value, the new value, who changed it and when. The call reads " +
			"the audit log, whose rows never change.",
		query: []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{
			{http.StatusOK, "A page of changes.", Page[SettingChange]{}, examplePage(exampleSettingChange), nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
		handle: (*api).settingsHistory,
	},
	{
		method: http.MethodGet, path: "/change-requests", name: "listChangeRequests", action: identity.ReadInstallation,
		group:   "Four eyes",
		summary: "List change requests", text: "Change requests that wait for a second operator, and those that have " +
			"ended.",
		query: listParameters(organizationFilter,
			parameter{name: "status", kind: wordParameter, enum: changerequest.Statuses, text: "Only in this status."}),
		answers: []success{
			{http.StatusOK, "A page of change requests.", Page[ChangeRequest]{}, examplePage(exampleChange), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listChanges,
	},
	{
		method: http.MethodGet, path: "/change-requests/{changeRequestId}", name: "getChangeRequest",
		action: identity.ReadInstallation, group: "Four eyes",
		summary: "Read a change request", text: "One change request. It cannot be edited.",
		answers: []success{{http.StatusOK, "The change request.", ChangeRequest{}, exampleChange, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getChange,
	},
	{
		method: http.MethodPost, path: "/change-requests/{changeRequestId}/approve", name: "approveChangeRequest",
		action: identity.ApproveChange, group: "Four eyes",
		summary: "Approve a change request",
		text: "Makes the change that another operator requested. The requesting operator cannot approve it, " +
			"with any key. The call is refused with 409 INVALID_STATE after a decision, after the deadline, and when " +
			"the resource has changed since the request.",
		retryable: true,
		answers: []success{
			{http.StatusOK, "The change request, now APPROVED: the change is in " +
				"force.", ChangeRequest{}, exampleApproved, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused, fault.InvalidRequest},
		handle: (*api).approveChange,
	},
	{
		method: http.MethodPost, path: "/change-requests/{changeRequestId}/withdraw", name: "withdrawChangeRequest",
		action: identity.RetractChange, group: "Four eyes",
		summary: "Withdraw a change request",
		text: "Ends a change request of your own. Only its requester can withdraw it. A request without " +
			"approval ends by itself after seven days.",
		retryable: true,
		answers: []success{{http.StatusOK, "The change request, now " +
			"WITHDRAWN.", ChangeRequest{}, exampleWithdrawn, nil}},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused},
		handle: (*api).retractChange,
	},
	{
		method: http.MethodGet, path: "/deposits", name: "listDeposits", action: identity.ReadInstallation,
		group:   "Money",
		summary: "List deposits of all organizations",
		text:    "Deposits to the addresses of customers and organizations, including those that are not final yet.",
		query: listParameters(organizationFilter, customerFilter,
			parameter{
				name: "product", kind: wordParameter, enum: transfer.Products,
				text: "Only of this product of an organization.",
			},
			parameter{name: "status", kind: wordParameter, enum: depositStatuses, text: "Only in this status."},
			flaggedFilter,
			mintFilter, chainFilter, txHashFilter, addressFilter),
		answers: []success{{
			http.StatusOK, "A page of deposits.",
			Page[OwnedDeposit]{},
			examplePage(OwnedDeposit{exampleOrganizationID, exampleDeposit}), nil,
		}},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listAllDeposits,
	},
	{
		method: http.MethodGet, path: "/withdrawals", name: "listWithdrawals", action: identity.ReadInstallation,
		group:   "Money",
		summary: "List withdrawals of all organizations",
		text:    "Withdrawals of customers and of organizations' own balances, finished and unfinished.",
		query: listParameters(organizationFilter, customerFilter, typeFilter,
			parameter{name: "status", kind: wordParameter, enum: withdrawalStatuses, text: "Only in this status."},
			mintFilter, chainFilter, txHashFilter, addressFilter,
			parameter{
				name: "reference", kind: textParameter, max: 255,
				text: "Only with this reference of the organization's.",
			}),
		answers: []success{{
			http.StatusOK, "A page of withdrawals.",
			Page[OwnedWithdrawal]{},
			examplePage(OwnedWithdrawal{exampleOrganizationID, exampleWithdrawal}), nil,
		}},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listAllWithdrawals,
	},
	{
		method: http.MethodGet, path: "/reserves", name: "getReserves", action: identity.ReadInstallation,
		group:   "Money",
		summary: "Read reserves and liabilities",
		text: "For each mint: what the service's addresses hold by the final blocks that it has read, what it " +
			"owes to whom, and what of both is in transactions that are not final. All numbers come from one " +
			"snapshot of the books. The verifier compares this snapshot with the chain at the same block. While it " +
			"finds a difference, a freeze of scope ALL by VERIFY is in force.",
		query: []parameter{organizationFilter},
		answers: []success{{
			http.StatusOK, "The reserves.", Reserves{}, Reserves{AsOf: exampleAt, Data: []Reserve{exampleReserve}}, nil,
		}},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).listReserves,
	},
	{
		method: http.MethodPost, path: "/freezes", name: "createFreeze", action: identity.FreezePayments,
		group:   "Freezes",
		summary: "Freeze a customer, an organization, a chain or everything",
		text: "Stops payments: the service accepts, signs and sends no withdrawal and makes no transfer. It still " +
			"credits deposits. Transactions that were sent to the network before stay there. If a freeze by an " +
			"operator with the same scope is in force, the call returns it with its first reason.",
		body: FreezeOrder{}, retryable: true,
		answers: []success{
			{http.StatusCreated, "The freeze.", Freeze{}, exampleFreeze, nil},
			{http.StatusOK, "The freeze that is already in force. Nothing was changed.", Freeze{}, exampleFreeze, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).createFreeze,
	},
	{
		method: http.MethodGet, path: "/freezes", name: "listFreezes", action: identity.ReadInstallation,
		group:   "Freezes",
		summary: "List freezes", text: "Freezes in force and freezes that were lifted.",
		query: listParameters(
			parameter{
				name: "standing", kind: flagParameter, text: "true: only freezes in force. false: only lifted freezes.",
			},
			parameter{name: "scope", kind: wordParameter, enum: freezeScopes, text: "Only of this scope."},
			parameter{name: "source", kind: wordParameter, enum: freezeSources, text: "Only by this source."},
			organizationFilter, chainFilter),
		answers: []success{{http.StatusOK, "A page of freezes.", Page[Freeze]{}, examplePage(exampleFreeze), nil}},
		faults:  []fault.Code{fault.InvalidCursor},
		handle:  (*api).listFreezes,
	},
	{
		method: http.MethodDelete, path: "/freezes/{freezeId}", name: "liftFreeze", action: identity.LiftFreeze,
		group:   "Freezes",
		summary: "Lift a freeze",
		text: "Ends one freeze. Other freezes of the same scope stay in force. Only the organization can lift its " +
			"own freeze. A freeze after a finality break can be lifted once the break is settled: until then 409 " +
			"says what is open.",
		answers: []success{{http.StatusOK, "The freeze, now lifted.", Freeze{}, exampleLifted, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).liftFreeze,
	},
	{
		method: http.MethodGet, path: "/openapi.json", name: "getOpenAPI", group: "Meta",
		summary: "Read this document", text: "This description of every call, OpenAPI 3.1.",
		needsNoKey: true,
		answers:    []success{{http.StatusOK, "The document.", map[string]any{}, nil, nil}},
		handle:     (*api).getOpenAPI,
	},
}

const (
	exampleOrganizationID = "org_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	exampleKey            = "ck_a3Jl8sPq0TzVbN5mXyW2cR7uKd1EoG4hFi6LjM9nQv0"
)

var (
	exampleOrganization = Organization{
		OrganizationID: exampleOrganizationID, Name: "Example Marketplace", Status: "ACTIVE",
		APIKeyCreatedAt: &exampleAt, CreatedAt: exampleAt,
	}
	exampleOrganizationKey = OrganizationWithKey{exampleOrganization, exampleKey}
	exampleSettings        = OrganizationSettings{
		OrganizationID: exampleOrganizationID, CustomerWithdrawUSDThreshold: pointerTo("10000"),
		ApprovalAllowlist: []ApprovalAllowed{}, ApprovalQuorum: 1,
		IPAllowlist: []string{}, SwappableMintIDs: []int{}, RequireWithdrawIdempotency: true,
		CustomerFeeDayUSD: pointerTo("50"), ChargeCustomerCosts: "NONE",
		Unavailable: sortedKeys(org.UnavailableSettings), ChangeRequests: []ChangeRequest{}, UpdatedAt: exampleAt,
	}
	exampleChange = ChangeRequest{
		ChangeRequestID: "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC", OrganizationID: exampleOrganizationID, Kind: "SETTINGS",
		Status: "PENDING",
		Changes: []ChangedValue{
			{"customerWithdrawUsdThreshold", anyValue{[]byte(`"10000"`)}, anyValue{[]byte(`"20000"`)}},
		},
		RequestedBy: ActingOperator{"opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", pointerTo("ann")}, CreatedAt: exampleAt,
		ExpiresAt: exampleAt,
	}
	exampleApproved = func() ChangeRequest {
		r := exampleChange
		r.Status, r.DecidedBy, r.DecidedAt = "APPROVED",
			&ActingOperator{"opk_01J9ZW3M8Q4S5T6V7W8X9YZABD", pointerTo("bob")}, &exampleAt
		return r
	}()
	exampleWithdrawn = func() ChangeRequest {
		r := exampleChange
		r.Status, r.DecidedBy, r.DecidedAt = "WITHDRAWN", &r.RequestedBy, &exampleAt
		return r
	}()
	exampleSettingChange = SettingChange{
		Setting: "customerWithdrawUsdThreshold", From: anyValue{[]byte(`null`)}, To: anyValue{[]byte(`"10000"`)},
		ChangedBy: Changer{"OPERATOR", "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", pointerTo("ann")}, ChangedAt: exampleAt,
	}
	exampleFreeze = Freeze{
		FreezeID: "frz_01J9ZW3M8Q4S5T6V7W8X9YZABC", Scope: "CUSTOMER", OrganizationID: pointerTo(exampleOrganizationID),
		CustomerID: pointerTo("user_42"),
		Source:     "OPERATOR", Reason: "Asked for by the police, case 77.", CreatedAt: exampleAt,
	}
	exampleLifted = func() Freeze {
		f := exampleFreeze
		f.LiftedAt, f.LiftedBy = &exampleAt, pointerTo("OPERATOR opk_01J9ZW3M8Q4S5T6V7W8X9YZABC")
		return f
	}()
	exampleReserve = Reserve{
		MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Decimals: 6, Block: &ReserveBlock{24356789, exampleHash},
		Holdings: ReserveHoldings{"1000000", "5000000", "6000000"},
		Liabilities: ReserveLiabilities{
			CustomersAvailable: "4000000", CustomersWithdrawing: "1000000", Products: "1000000", Gas: "0",
			Suspense: "0", PendingDeposits: "0", BelowMinimum: "0", Total: "6000000",
		},
		InTransit: ReserveInTransit{"1000000", "0"}, Difference: "0",
	}
)

// operatorFieldDocs are the texts that only the operators' document has.
var operatorFieldDocs = map[string]fieldDoc{
	"Organization.":               {text: "An organization that uses this service."},
	"OrganizationWithKey.":        {text: "A new organization with its API key, which only this answer shows."},
	"OrganizationRequest.":        {text: "Makes an organization."},
	"OrganizationPage.":           {text: "A page of organizations."},
	"APIKey.":                     {text: "A new API key, which only this answer shows."},
	"Organization.organizationId": {text: "The organization.", example: exampleOrganizationID},
	"Organization.name":           {text: "The name, for people."},
	"OrganizationRequest.name": {
		text:   "For people, 1 to 200 bytes without control characters.",
		bounds: map[string]any{"minLength": 1, "maxLength": 200}, example: "Example Marketplace",
	},
	"Organization.status": {text: "FROZEN: no money leaves the organization.", enum: []string{"ACTIVE", "FROZEN"}},
	"apiKeyCreatedAt": {
		text: "When its live main API key was made; null when it has none, as after a restore.",
	},
	"apiKey": {
		text: "The key, for the header x-api-key. It moves money, and the service does not show it " +
			"again.", example: exampleKey,
	},
	"OrganizationSettings.": {text: "An organization's settings in force."},
	"SettingsChange.": {
		text: "Settings to change. Settings that are left out stay as they are. null removes a threshold; without " +
			"withdrawSeverityThreshold the threshold is HIGH.",
	},
	"ApprovalAllowed.": {
		text: "Customers, by e-mail, whose withdrawals skip requireApproval and the threshold.",
	},
	"ApprovalAllowed.email": {text: "The e-mail. The service stores and compares it in lower case and " +
		"Unicode NFKC."},
	"ApprovalAllowed.active":         {text: "Whether the entry counts; true when it is left out."},
	"OrganizationSettings.updatedAt": {text: "When one of the settings last changed."},
	"screeningSeverityThreshold": {
		text: "The service flags deposits whose sender is above this severity; null for no " +
			"screening.", enum: severities,
	},
	"screeningUsdThreshold": {
		text: "The service screens deposits above this many dollars; null for no screening.", pattern: decimalPattern,
	},
	"customerWithdrawUsdThreshold": {
		text: "Customers' withdrawals strictly above this many dollars wait for an approval; null: no withdrawal " +
			"waits because of its value.",
		pattern: decimalPattern, example: "10000.00",
	},
	"twoFactorUsdThreshold": {
		text: "The organization's own withdrawals strictly above this many dollars, or without a price, wait for " +
			"approvals by people other than the requester; null: no withdrawal waits because of its value.",
		pattern: decimalPattern, example: "10000.00",
	},
	"withdrawSeverityThreshold": {
		text: "A withdrawal to a destination above this severity is refused with 451 WITHDRAWAL_RISK_BLOCKED; a " +
			"destination of exactly this severity passes. null means HIGH and does not switch screening off. On an " +
			"installation without risk providers, null lets every destination pass, and any severity makes every " +
			"withdrawal wait for an approval.",
		enum: severities,
	},
	"approvalAllowlist": {
		text: "Customers whose withdrawals skip requireApproval and the threshold.",
	},
	"approvalQuorum": {
		text:   "How many people have to approve a withdrawal that waits.",
		bounds: map[string]any{"minimum": 1, "maximum": org.ApprovalQuorumMax},
	},
	"ipAllowlist": {
		text: "Addresses and networks from which the organization's keys may call; empty for all.",
	},
	"customerSwapsEnabled":     {text: "Whether customers' balances may be swapped."},
	"organizationSwapsEnabled": {text: "Whether the organization may swap its own balances."},
	"swappableMintIds":         {text: "Which mints swaps may use."},
	"swapFeeBps": {
		text:   "The fee of a swap in basis points, billed to the organization.",
		bounds: map[string]any{"minimum": 0, "maximum": org.SwapFeeBpsMax},
	},
	"flaggedDepositApiEnabled": {text: "Whether the organization's API key may decide about flagged deposits."},
	"autoRestoreFailedSwaps": {
		text: "Whether the refund of a failed swap goes back to the customer automatically.",
	},
	"requireWithdrawIdempotency": {text: "Whether POST /withdraw without an idempotencyKey is refused."},
	"customerFeeDayUsd": {
		text: "The limit of network fees for one customer's withdrawals in 24 hours, in dollars. A withdrawal " +
			"that would exceed it waits for an approval as POLICY_LIMIT. The default is 50; null for no limit.",
		pattern: decimalPattern, example: "50",
	},
	"chargeCustomerCosts": {
		text: "Which costs of a withdrawal the customer pays, in the withdrawn token and as estimate and preview " +
			"show them: the rent of an account that is created for the payee, and the network fee of a payment that " +
			"failed because of its payee. A change affects requests from then on.",
		enum: []string{"NONE", "RENT", "RENT_AND_FAILURES"},
	},
	"additionalApiKeys": {
		text: "Whether the organization may have additional API keys, each with a scope and an expiry, and whether a " +
			"former value of the main key may work for an overlap after a roll. When it is off, all of these are " +
			"refused from the next request on and are SUSPENDED. They work again when it is on; revoke a key to end " +
			"it permanently.",
	},
	"unavailable": {
		text: "Settings that the service stores and does not apply yet: they belong to features that this version " +
			"does not have.",
	},
	"ChangedValue.":      {text: "One change of a request."},
	"ActingOperator.":    {text: "An operator, identified by the key."},
	"ChangeRequest.":     {text: "A change that loosens a control and needs a second operator."},
	"ChangeRequestPage.": {text: "A page of change requests."},
	"SettingChange.":     {text: "One change of a setting."},
	"SettingChangePage.": {text: "A page of changes of settings."},
	"Changer.":           {text: "Who changed it."},
	"changeRequestId": {
		text: "The change request; null when no approval was needed.", example: "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"ChangeRequest.organizationId": {text: "The organization whose control changes."},
	"ChangeRequest.kind":           {text: "The subject of the change.", enum: changerequest.Kinds},
	"ChangeRequest.status": {
		text: "PENDING: it waits for another operator. EXPIRED: it was not approved in " +
			"time.", enum: changerequest.Statuses,
	},
	"changeRequests": {
		text: "Changes that loosen a control of this organization and wait for a second operator. They are not in " +
			"force yet.",
	},
	"changes":     {text: "The changes."},
	"setting":     {text: "The setting."},
	"from":        {text: "The old value, in the form in which it is set."},
	"to":          {text: "The new value, in the form in which it is set."},
	"requestedBy": {text: "The operator who requested it."},
	"expiresAt":   {text: "The deadline of the approval."},
	"decidedBy": {
		text: "The operator who approved or withdrew it; null while it waits, and after it expired.",
	},
	"decidedAt":           {text: "When it ended; null while it waits."},
	"ActingOperator.id":   {text: "The key: opk_…", example: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"ActingOperator.name": {text: "The holder of the key. After a roll the holder is the same."},
	"changedBy":           {text: "Who changed it."},
	"changedAt":           {text: "When."},
	"Changer.type":        {text: "The kind of actor.", enum: changerTypes},
	"Changer.id": {
		text: "The id of the actor: an additional key, the organization for the main key, a person, or a part of the " +
			"program.",
	},
	"Changer.name":                   {text: "The holder of an operator's key; null for every other actor."},
	"OwnedDeposit.":                  {text: "A deposit with its organization."},
	"OwnedDepositPage.":              {text: "A page of deposits."},
	"OwnedDeposit.organizationId":    {text: "The organization."},
	"OwnedWithdrawal.":               {text: "A withdrawal with its organization."},
	"OwnedWithdrawalPage.":           {text: "A page of withdrawals."},
	"OwnedWithdrawal.organizationId": {text: "The organization."},
	"Freeze.":                        {text: "A freeze, in force or lifted."},
	"FreezePage.":                    {text: "A page of freezes."},
	"FreezeOrder.":                   {text: "Freezes something."},
	"freezeId":                       {text: "The freeze.", example: "frz_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Freeze.scope": {
		text: "How much it stops. WALLET is one wallet on one chain; only the program creates such a " +
			"freeze.", enum: freezeScopes,
	},
	"FreezeOrder.scope": {
		text: "How much to stop: a CUSTOMER of an organization, an ORGANIZATION, a CHAIN, or ALL.",
		enum: operatorFreezeScopes,
	},
	"Freeze.organizationId":      {text: "The organization; null for a scope without an organization."},
	"FreezeOrder.organizationId": {text: "The organization. Give it with ORGANIZATION and CUSTOMER only."},
	"Freeze.customerId":          {text: "The customer of a freeze of scope CUSTOMER."},
	"FreezeOrder.customerId": {
		text:   "The customer, which the organization has. Give it with CUSTOMER only.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128},
	},
	"Freeze.chain": {text: "The chain of a freeze of scope CHAIN or WALLET."},
	"FreezeOrder.chain": {
		text: "The chain, which runs here. Give it with CHAIN only.", enum: chainNames,
	},
	"walletId": {text: "The wallet of a freeze of scope WALLET."},
	"Freeze.source": {
		text: "Who froze it. An ORGANIZATION lifts its own freezes, an operator all others.", enum: freezeSources,
	},
	"Freeze.reason": {text: "The reason, in a sentence."},
	"FreezeOrder.reason": {
		text:   "The reason, in a sentence, for the person who decides about lifting the freeze.",
		bounds: map[string]any{"maxLength": reasonBytesMax},
	},
	"liftedAt":            {text: "When it was lifted; null while it is in force."},
	"liftedBy":            {text: "Who lifted it: the kind of actor and the id."},
	"Reserves.":           {text: "Reserves and liabilities, by mint."},
	"asOf":                {text: "The time of the snapshot."},
	"Reserve.":            {text: "The reserves and liabilities of a mint, in atomic units."},
	"ReserveBlock.":       {text: "A block of the mint's chain."},
	"ReserveHoldings.":    {text: "What the service's addresses hold by final blocks."},
	"ReserveLiabilities.": {text: "What the service owes, by kind of owner."},
	"ReserveInTransit.": {
		text: "What transactions that are not final move. holdings and liabilities still count it.",
	},
	"block": {
		text: "The last final block that the service has read; null before the first.",
	},
	"height":                {text: "Its height."},
	"hash":                  {text: "Its hash."},
	"holdings":              {text: "What the service's addresses hold."},
	"liabilities":           {text: "What the service owes, by kind of owner."},
	"inTransit":             {text: "What is in transactions that are not final."},
	"depositAddresses":      amountDoc("On deposit addresses."),
	"treasuries":            amountDoc("On treasuries, from which withdrawals are paid."),
	"ReserveHoldings.total": amountDoc("depositAddresses + treasuries."),
	"customersAvailable":    amountDoc("What customers can spend."),
	"customersWithdrawing":  amountDoc("What is held for customers' withdrawals."),
	"products":              amountDoc("The organizations' own balances."),
	"gas":                   amountDoc("Paid in for network fees."),
	"suspense": amountDoc("On suspense accounts: arrived or restored, with an owner that is not " +
		"decided yet."),
	"pendingDeposits":          amountDoc("Final and not credited yet."),
	"belowMinimum":             amountDoc("Below the minimum of the mint, and in no balance."),
	"ReserveLiabilities.total": amountDoc("The sum of all of them."),
	"leaving":                  amountDoc("Payments to external addresses."),
	"moving":                   amountDoc("Transfers between the service's own addresses."),
	"difference": {
		text: "holdings.total less liabilities.total, with a sign. It is 0 unless a chain replaced final blocks " +
			"after their amounts were spent.",
		pattern: `^-?(0|[1-9][0-9]{0,77})$`, example: "0",
	},
	"quarantined": {
		text: "Whether the mint is quarantined: its balances contradict its transfers.",
	},
	"OrganizationSettings.organizationId": {text: "The organization."},
}

var operatorExamples = map[string]any{
	"createOrganization": OrganizationRequest{Name: "Example Marketplace"},
	"changeSettings": map[string]any{
		"customerWithdrawUsdThreshold": "10000.00", "requireWithdrawIdempotency": true,
	},
	"createFreeze": FreezeOrder{
		Scope: "CUSTOMER", OrganizationID: pointerTo(exampleOrganizationID), CustomerID: pointerTo("user_42"),
		Reason: pointerTo("Asked for by the police, case 77."),
	},
}
