package api

import (
	"net/http"
	"slices"

	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/org"
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
	credentialText:   "A key of the operator, made with the command coffer operator key create. It reads every organization and decides what they may do: keep it where only the people and programs who run the service read it. It opens nothing of an organization's, and no organization's key opens anything here.",
	foreignKeyPrefix: org.KeyPrefix,
	foreignKeyText:   "This is an organization's key, and it opens nothing here. Send an operator's key in x-operator-key, or call the organizations' interface, which has another address, with this one in x-api-key.",
	authenticate:     (*api).authenticateOperator,
	beforeRead:       (*api).recordCall,
	faults:           []fault.Code{fault.IPNotAllowed},
	fieldDocs: mergeMaps(
		operatorFieldDocs, keyFieldDocs, flaggedFieldDocs, operatorFlaggedFieldDocs, localRiskFieldDocs,
		whitelistFieldDocs,
	), examples: mergeMaps(operatorExamples, operatorFlaggedExamples, localRiskExamples, whitelistExamples),
	retryAdvice: "Look with a GET whether it took effect before you repeat it.",
	problems: map[fault.Code]problemDoc{
		fault.InvalidRequest: {
			fault.Invalid, "a field or parameter is missing or has no possible value", "name",
			"The field name is missing." + nothingWritten + " Add it.", nil,
		},
		fault.UnknownField: {
			fault.Invalid, "a field or query parameter is not known here", "nmae",
			"There is no field \"nmae\" here." + nothingWritten + " Did you mean name?", nil,
		},
		fault.CodeUnauthorized: {
			fault.Unauthorized, "the key is missing, malformed, unknown or revoked", "",
			"Send a valid operator's key in the header x-operator-key. Nothing was done.", nil,
		},
		fault.IPNotAllowed: {
			fault.Forbidden, "calls are not taken from this address", "",
			"The operator's interface does not take calls from this address. Nothing was done. Call from an address on its list: operator.allow in the service's configuration.",
			nil,
		},
		fault.CodeNotFound: {
			fault.NotFound, "there is no such thing", "",
			"There is no such organization. Nothing was changed and no money moved. GET /organizations lists the ones there are.",
			nil,
		},
		fault.ApprovalRefused: {
			fault.Conflict, "who asks cannot approve, and nobody else withdraws", "",
			"Who asks for a change cannot approve it: another operator does. Nothing was changed. You may withdraw it.",
			nil,
		},
		fault.InvalidState: {
			fault.Conflict, "it is in another state, or somebody else changed it at this moment", "",
			"Freeze frz_01J9ZW3M8Q4S5T6V7W8X9YZABC was lifted before. Nothing was changed and no money moved.", nil,
		},
		fault.RateLimited: {
			fault.Limited, "more requests than this key may send, or too many wrong keys", "",
			"Too many requests. Nothing was done, which says nothing about earlier attempts. Wait 1 seconds and repeat the request.",
			nil,
		},
		fault.Internal: {
			kindInternal, "something of ours failed; look before you repeat a write", "",
			"Something of ours failed before we could tell whether this took effect. Look with a GET whether it did before you repeat it.",
			nil,
		},
		fault.CodeUnavailable: {
			fault.Unavailable, "something we need is down, and the sentence says what; look before you repeat a write",
			"",
			"The database takes no writes at the moment, so this call was not finished. Look with a GET whether it took effect before you repeat it.",
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
				panic("api: said twice: " + k)
			}
			merged[k] = v
		}
	}
	return merged
}

const aboutOperators = `What those who run Coffer call: the organizations, their settings and keys, what is stopped, and what there is.

**Where.** On a listener of its own, for the addresses that its configuration lists, with keys that no organization has. Every call is in the audit log with the id of its key.

**Units.** An amount is a string of whole atomic units of its mint. Dollar values are decimal strings.

**Strictness.** Unknown fields and query parameters are refused, names are case-sensitive, and no value is converted from another type.

**Repeating.** After a 5xx or no answer to a write, look with a GET whether it took effect.

**Growth.** Fields, values of open enumerations and codes under the statuses that there are may be added without notice. Ignore what you do not know.`

var operatorGroups = []struct{ name, text string }{
	{"Organizations", "Who uses this service, their keys and their settings."},
	{"Money", "Deposits and withdrawals of all organizations, and what there is against what is owed."},
	{"Freezes", "What is stopped, by whom and why."},
	{
		"Four eyes",
		"What loosens a control and waits for a second operator, where the installation wants that: operator.four_eyes in its configuration, and two operators who have keys. What tightens one holds at once.",
	},
	{
		"Whitelist",
		"The addresses that organizations may be paid out to: added by an operator, usable after a cooling-off, endorsed by the signer.",
	},
	{"Screening", "What screening says on networks without real money."},
	{"Meta", "About this interface."},
}

var organizationFilter = parameter{
	name: "organizationId", kind: textParameter, max: 64, text: "Only of this organization.",
}

var operatorRoutes = []route{
	{
		method: http.MethodPost, path: "/organizations", name: "createOrganization", group: "Organizations",
		summary: "Create an organization",
		text:    "Makes an organization with its first API key, which is shown in this answer and never again. Its people are added with the command coffer org create --owner; until it has one, nobody can approve what waits for a person.",
		body:    OrganizationRequest{},
		answers: []success{
			{http.StatusCreated, "The organization with its key.", OrganizationWithKey{}, exampleOrganizationKey, nil},
		},
		handle: (*api).createOrganization,
	},
	{
		method: http.MethodGet, path: "/organizations", name: "listOrganizations", group: "Organizations",
		summary: "List organizations", text: "Who uses this service.",
		query: listParameters(
			parameter{name: "name", kind: textParameter, max: 200, text: "Only with exactly this name."},
		),
		answers: []success{
			{http.StatusOK, "A page of organizations.", Page[Organization]{}, examplePage(exampleOrganization), nil},
		},
		faults: []fault.Code{fault.InvalidCursor},
		handle: (*api).listOrganizations,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}", name: "getOrganization",
		group:   "Organizations",
		summary: "Read an organization", text: "One organization as it is now.",
		answers: []success{{http.StatusOK, "The organization.", Organization{}, exampleOrganization, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getOrganization,
	},
	{
		method: http.MethodPost, path: "/organizations/{organizationId}/api-key/roll", name: "rollApiKey",
		group:   "Organizations",
		summary: "Roll an organization's API key",
		text:    "Makes a new main API key, which is shown in this answer and never again. The old one, and one before it that works on in its overlap, is refused by every request that starts after this one is answered. A lost answer is repaired by rolling again.",
		answers: []success{{http.StatusCreated, "The new key.", APIKey{}, APIKey{exampleKey}, nil}},
		faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle:  (*api).rollKey,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/settings", name: "getSettings",
		group:   "Organizations",
		summary: "Read an organization's settings",
		text:    "The settings as they are in force. Those in unavailable are kept as they were set and change nothing yet: they belong to what this version does not have.",
		answers: []success{{http.StatusOK, "The settings.", OrganizationSettings{}, exampleSettings, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getSettings,
	},
	{
		method: http.MethodPatch, path: "/organizations/{organizationId}/settings", name: "changeSettings",
		group:   "Organizations",
		summary: "Change an organization's settings",
		text:    "Changes what is named, all or nothing, and answers what holds then: a request that is decided after this answer is decided by it. A setting that unavailable names is kept and changes nothing yet. Where the installation wants four eyes, what loosens a control does not hold yet: it stands in changeRequests and waits for a second operator.",
		body:    SettingsChange{},
		answers: []success{
			{http.StatusOK, "The settings.", OrganizationSettings{}, exampleSettings, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState},
		handle: (*api).changeSettings,
	},
	{
		method: http.MethodGet, path: "/organizations/{organizationId}/settings/history", name: "listSettingsHistory",
		group:   "Organizations",
		summary: "List changes of an organization's settings",
		text:    "Every change of a setting: what it was, what it became, who changed it and when. It is read from the audit log, whose rows are never changed.",
		query:   []parameter{orderParameter, limitParameter, cursorParameter},
		answers: []success{
			{http.StatusOK, "A page of changes.", Page[SettingChange]{}, examplePage(exampleSettingChange), nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
		handle: (*api).settingsHistory,
	},
	{
		method: http.MethodGet, path: "/change-requests", name: "listChangeRequests", group: "Four eyes",
		summary: "List change requests", text: "What waits for a second operator, and what did.",
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
		group:   "Four eyes",
		summary: "Read a change request", text: "One change request as it is now. It is never edited.",
		answers: []success{{http.StatusOK, "The change request.", ChangeRequest{}, exampleChange, nil}},
		faults:  []fault.Code{fault.CodeNotFound},
		handle:  (*api).getChange,
	},
	{
		method: http.MethodPost, path: "/change-requests/{changeRequestId}/approve", name: "approveChangeRequest",
		group:     "Four eyes",
		summary:   "Approve a change request",
		text:      "Makes the change that another operator asked for. Who asked cannot, whatever key they have. It is refused with 409 INVALID_STATE when it was decided, when its time is over, and when what it changes was changed since.",
		retryable: true,
		answers: []success{
			{http.StatusOK, "The change request, APPROVED: the change holds.", ChangeRequest{}, exampleApproved, nil},
		},
		faults: []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused, fault.InvalidRequest},
		handle: (*api).approveChange,
	},
	{
		method: http.MethodPost, path: "/change-requests/{changeRequestId}/withdraw", name: "withdrawChangeRequest",
		group:     "Four eyes",
		summary:   "Withdraw a change request",
		text:      "Ends a change request of your own. Nobody else withdraws it; what nobody approves within seven days ends by itself.",
		retryable: true,
		answers:   []success{{http.StatusOK, "The change request, WITHDRAWN.", ChangeRequest{}, exampleWithdrawn, nil}},
		faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused},
		handle:    (*api).retractChange,
	},
	{
		method: http.MethodGet, path: "/deposits", name: "listDeposits", group: "Money",
		summary: "List deposits of all organizations",
		text:    "What arrived at the addresses of customers and of organizations, also what is not final yet.",
		query: listParameters(organizationFilter, customerFilter,
			parameter{
				name: "product", kind: wordParameter, enum: transfer.Products,
				text: "Only of this product of organizations.",
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
		method: http.MethodGet, path: "/withdrawals", name: "listWithdrawals", group: "Money",
		summary: "List withdrawals of all organizations",
		text:    "What customers were paid, or will be, and what organizations took out of their own balances.",
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
		method: http.MethodGet, path: "/reserves", name: "getReserves", group: "Money",
		summary: "Read what there is and whose it is",
		text:    "For each mint: what our addresses hold by the final blocks that were walked, what of it is owed to whom, and what of both is in transactions that are not final. All of it is one snapshot of the books, which the verifier compares with the chain at the same block; while it finds a difference, a freeze of scope ALL by VERIFY stands.",
		query:   []parameter{organizationFilter},
		answers: []success{{
			http.StatusOK, "The reserves.", Reserves{}, Reserves{AsOf: exampleAt, Data: []Reserve{exampleReserve}}, nil,
		}},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).listReserves,
	},
	{
		method: http.MethodPost, path: "/freezes", name: "createFreeze", group: "Freezes",
		summary: "Freeze a customer, an organization, a chain or everything",
		text:    "Nothing leaves what is frozen: no withdrawal is accepted, signed or sent, and no transfer made. Deposits are credited as usual. What was handed to the network before stays there. While a freeze of the operator's with the same scope stands, it is answered again and its first reason stays.",
		body:    FreezeOrder{}, retryable: true,
		answers: []success{
			{http.StatusCreated, "The freeze.", Freeze{}, exampleFreeze, nil},
			{http.StatusOK, "The freeze that stands already. Nothing was changed.", Freeze{}, exampleFreeze, nil},
		},
		faults: []fault.Code{fault.CodeNotFound},
		handle: (*api).createFreeze,
	},
	{
		method: http.MethodGet, path: "/freezes", name: "listFreezes", group: "Freezes",
		summary: "List freezes", text: "What is stopped, and what was.",
		query: listParameters(
			parameter{
				name: "standing", kind: flagParameter, text: "Only what is stopped now, or only what was lifted.",
			},
			parameter{name: "scope", kind: wordParameter, enum: freezeScopes, text: "Only of this scope."},
			parameter{name: "source", kind: wordParameter, enum: freezeSources, text: "Only by this source."},
			organizationFilter, chainFilter),
		answers: []success{{http.StatusOK, "A page of freezes.", Page[Freeze]{}, examplePage(exampleFreeze), nil}},
		faults:  []fault.Code{fault.InvalidCursor},
		handle:  (*api).listFreezes,
	},
	{
		method: http.MethodDelete, path: "/freezes/{freezeId}", name: "liftFreeze", group: "Freezes",
		summary: "Lift a freeze",
		text:    "Ends one freeze; others that stand on the same stay. A freeze by an organization only that organization lifts, and that of a chain whose finality broke not before the break is settled: then 409 says what is open.",
		answers: []success{{http.StatusOK, "The freeze, lifted.", Freeze{}, exampleLifted, nil}},
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
	"Organization.":               {text: "A user of this service."},
	"OrganizationWithKey.":        {text: "A new organization with its API key, which is shown this once."},
	"OrganizationRequest.":        {text: "Makes an organization."},
	"OrganizationPage.":           {text: "A page of organizations."},
	"APIKey.":                     {text: "A new API key, which is shown this once."},
	"Organization.organizationId": {text: "The organization.", example: exampleOrganizationID},
	"Organization.name":           {text: "For people."},
	"OrganizationRequest.name": {
		text:   "For people, 1 to 200 bytes without control characters.",
		bounds: map[string]any{"minLength": 1, "maxLength": 200}, example: "Example Marketplace",
	},
	"Organization.status": {text: "FROZEN: nothing leaves it.", enum: []string{"ACTIVE", "FROZEN"}},
	"apiKeyCreatedAt": {
		text: "When its live main API key was made; null when it has none, as after a restore.",
	},
	"apiKey": {
		text: "The key, for the header x-api-key. It moves money, and is not shown again.", example: exampleKey,
	},
	"OrganizationSettings.": {text: "An organization's settings as they are in force."},
	"SettingsChange.": {
		text: "Settings to change. What is not named stays; null takes a threshold away; without withdrawSeverityThreshold, HIGH is the threshold.",
	},
	"ApprovalAllowed.": {
		text: "Customers whose withdrawals skip requireApproval and the threshold, by their e-mail.",
	},
	"ApprovalAllowed.email":          {text: "The e-mail, compared in lower case and Unicode NFKC, and kept so."},
	"ApprovalAllowed.active":         {text: "Whether it counts; true when it is left out."},
	"OrganizationSettings.updatedAt": {text: "When one of them last changed."},
	"screeningSeverityThreshold": {
		text: "Deposits whose sender is above this severity are held; null for no screening.", enum: severities,
	},
	"screeningUsdThreshold": {
		text: "Deposits above this many dollars are screened; null for no screening.", pattern: decimalPattern,
	},
	"customerWithdrawUsdThreshold": {
		text:    "Customers' withdrawals strictly above this many dollars wait for a person; null when none waits for its value.",
		pattern: decimalPattern, example: "10000.00",
	},
	"twoFactorUsdThreshold": {
		text:    "The organization's own withdrawals strictly above this many dollars, or without a price, wait for approvals of others than the requester; null when none waits for its value.",
		pattern: decimalPattern, example: "10000.00",
	},
	"withdrawSeverityThreshold": {
		text: "A withdrawal to a destination above this severity is refused with 451 WITHDRAWAL_RISK_BLOCKED; a destination of exactly this severity passes. null means HIGH and does not switch screening off. On an installation without screening providers, null lets every destination pass, and a severity holds every withdrawal for a person.",
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
		text: "Addresses and networks that the organization's keys may call from; empty for all.",
	},
	"customerSwapsEnabled":     {text: "Whether customers' balances may be swapped."},
	"organizationSwapsEnabled": {text: "Whether the organization may swap what it has."},
	"swappableMintIds":         {text: "Which mints take part in swaps."},
	"swapFeeBps": {
		text:   "The fee of a swap in basis points, billed to the organization.",
		bounds: map[string]any{"minimum": 0, "maximum": org.SwapFeeBpsMax},
	},
	"flaggedDepositApiEnabled": {text: "Whether the organization's key may decide about held deposits."},
	"autoRestoreFailedSwaps": {
		text: "Whether what comes back from a failed swap returns to the customer by itself.",
	},
	"requireWithdrawIdempotency": {text: "Whether POST /withdraw without an idempotencyKey is refused."},
	"customerFeeDayUsd": {
		text:    "What the network may cost you for one customer's withdrawals of the last 24 hours, in dollars: a further withdrawal above it waits for a person as POLICY_LIMIT. 50 unless it is set; null for no limit.",
		pattern: decimalPattern, example: "50",
	},
	"chargeCustomerCosts": {
		text: "Which costs of their withdrawals your customers pay, in the token that is withdrawn and as estimate and preview show it: the rent of accounts that are made for payees, and the network fees of payments that failed because of their payee. A change counts for requests from then on.",
		enum: []string{"NONE", "RENT", "RENT_AND_FAILURES"},
	},
	"additionalApiKeys": {
		text: "Whether the organization may have API keys beside its main one, with a scope and an expiry each, and a former value of the main one may work on in an overlap after its roll. Off: all of these are refused from the next request on, are kept as SUSPENDED, and work again when it is on; revoke a key to end it for good.",
	},
	"unavailable": {
		text: "The settings that are kept and change nothing yet: they belong to what this version does not have.",
	},
	"ChangedValue.":      {text: "One thing that a request changes."},
	"ActingOperator.":    {text: "An operator, by the key that was used."},
	"ChangeRequest.":     {text: "A change that loosens a control and needs a second operator."},
	"ChangeRequestPage.": {text: "A page of change requests."},
	"SettingChange.":     {text: "A change of a setting that was made."},
	"SettingChangePage.": {text: "A page of changes of settings."},
	"Changer.":           {text: "Who changed it."},
	"changeRequestId": {
		text: "The change request; null where nobody else had to agree.", example: "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"ChangeRequest.organizationId": {text: "Whose control it is."},
	"ChangeRequest.kind":           {text: "What it is that changes.", enum: changerequest.Kinds},
	"ChangeRequest.status": {
		text: "PENDING waits for another operator. EXPIRED: nobody agreed in time.", enum: changerequest.Statuses,
	},
	"changeRequests": {
		text: "What loosens a control of this organization and waits for a second operator. It does not hold yet.",
	},
	"changes":     {text: "What it changes."},
	"setting":     {text: "Which setting."},
	"from":        {text: "What it was, in the form in which it is set."},
	"to":          {text: "What it becomes, in the form in which it is set."},
	"requestedBy": {text: "Who asked for it."},
	"expiresAt":   {text: "Until when it can be approved."},
	"decidedBy": {
		text: "Who approved or withdrew it; null while it waits, and when its time was over.",
	},
	"decidedAt":           {text: "When it ended; null while it waits."},
	"ActingOperator.id":   {text: "The key: opk_…", example: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"ActingOperator.name": {text: "Whose key it is. A holder whose key is rolled is the same one."},
	"changedBy":           {text: "Who changed it."},
	"changedAt":           {text: "When."},
	"Changer.type":        {text: "What they are.", enum: changerTypes},
	"Changer.id": {
		text: "The key (an additional one; the main key stands here as its organization), the person, the organization of a key or the part of the program.",
	},
	"Changer.name":                   {text: "The holder of an operator's key; null for everybody else."},
	"OwnedDeposit.":                  {text: "A deposit with its organization."},
	"OwnedDepositPage.":              {text: "A page of deposits."},
	"OwnedDeposit.organizationId":    {text: "Whose it is."},
	"OwnedWithdrawal.":               {text: "A withdrawal with its organization."},
	"OwnedWithdrawalPage.":           {text: "A page of withdrawals."},
	"OwnedWithdrawal.organizationId": {text: "Whose it is."},
	"Freeze.":                        {text: "Something that is stopped, or was."},
	"FreezePage.":                    {text: "A page of freezes."},
	"FreezeOrder.":                   {text: "Stops something."},
	"freezeId":                       {text: "The freeze.", example: "frz_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Freeze.scope": {
		text: "How much it stops. WALLET is one wallet on one chain, and put by the program alone.", enum: freezeScopes,
	},
	"FreezeOrder.scope": {
		text: "How much to stop: a CUSTOMER of an organization, an ORGANIZATION, a CHAIN, or ALL.",
		enum: operatorFreezeScopes,
	},
	"Freeze.organizationId":      {text: "Whose; null where the scope names no organization."},
	"FreezeOrder.organizationId": {text: "With ORGANIZATION and CUSTOMER, and with nothing else."},
	"Freeze.customerId":          {text: "With CUSTOMER: who."},
	"FreezeOrder.customerId": {
		text:   "With CUSTOMER, and with nothing else: a customer that the organization has.",
		bounds: map[string]any{"minLength": 1, "maxLength": 128},
	},
	"Freeze.chain": {text: "With CHAIN and WALLET: which."},
	"FreezeOrder.chain": {
		text: "With CHAIN, and with nothing else: a chain that runs here.", enum: chainNames,
	},
	"walletId": {text: "With WALLET: which."},
	"Freeze.source": {
		text: "Who stopped it. ORGANIZATION lifts its own, an operator everything else.", enum: freezeSources,
	},
	"Freeze.reason": {text: "Why, in a sentence."},
	"FreezeOrder.reason": {
		text:   "Why, in a sentence, for whoever has to decide about lifting it.",
		bounds: map[string]any{"maxLength": reasonBytesMax},
	},
	"liftedAt":            {text: "When it was lifted; null while it stands."},
	"liftedBy":            {text: "Who lifted it: the kind of actor and its id."},
	"Reserves.":           {text: "What there is and whose it is, by mint."},
	"asOf":                {text: "The moment of the snapshot."},
	"Reserve.":            {text: "What there is of a mint. Amounts are atomic units."},
	"ReserveBlock.":       {text: "A block of the mint's chain."},
	"ReserveHoldings.":    {text: "What our addresses hold by final blocks."},
	"ReserveLiabilities.": {text: "Whose it is."},
	"ReserveInTransit.": {
		text: "What transactions that are not final move. It is still counted in holdings and liabilities.",
	},
	"block": {
		text: "The final block up to which the chain was walked; null before the first.",
	},
	"height":                   {text: "Its height."},
	"hash":                     {text: "Its hash."},
	"holdings":                 {text: "What our addresses hold."},
	"liabilities":              {text: "Whose it is."},
	"inTransit":                {text: "What is on its way."},
	"depositAddresses":         amountDoc("On addresses that customers pay to."),
	"treasuries":               amountDoc("On treasuries, from which withdrawals are paid."),
	"ReserveHoldings.total":    amountDoc("depositAddresses + treasuries."),
	"customersAvailable":       amountDoc("Customers', to be spent."),
	"customersWithdrawing":     amountDoc("Customers', held for withdrawals."),
	"products":                 amountDoc("The organizations' own."),
	"gas":                      amountDoc("Put in for network fees."),
	"suspense":                 amountDoc("Arrived or restored, and its owner not settled."),
	"pendingDeposits":          amountDoc("Final and not credited yet."),
	"belowMinimum":             amountDoc("Below the mint's minimum: credited to nobody."),
	"ReserveLiabilities.total": amountDoc("All of them."),
	"leaving":                  amountDoc("Payments to others."),
	"moving":                   amountDoc("Between our own addresses."),
	"difference": {
		text:    "holdings.total less liabilities.total, with a sign. It is 0 unless a chain took back what had been spent.",
		pattern: `^-?(0|[1-9][0-9]{0,77})$`, example: "0",
	},
	"quarantined": {
		text: "Whether the mint is under quarantine: its token does not do what it says.",
	},
	"OrganizationSettings.organizationId": {text: "Whose they are."},
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
