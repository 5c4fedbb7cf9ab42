package operatorapi

import (
	"reflect"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
)

// typeDocs are the texts about the types of this package.
var typeDocs = map[reflect.Type]string{
	reflect.TypeFor[Organization]():              "An organization that uses this service.",
	reflect.TypeFor[OrganizationWithKey]():       "A new organization with its API key, which only this answer shows.",
	reflect.TypeFor[OrganizationRequest]():       "Makes an organization.",
	reflect.TypeFor[kernel.Page[Organization]](): "A page of organizations.",
	reflect.TypeFor[APIKey]():                    "A new API key, which only this answer shows.",
	reflect.TypeFor[OrganizationSettings]():      "An organization's settings in force.",
	reflect.TypeFor[SettingsChange](): "Settings to change. Settings that are left out stay as they are. null " +
		"removes a threshold; without withdrawSeverityThreshold the threshold is HIGH.",
	reflect.TypeFor[ApprovalAllowed](): "Customers, by e-mail, whose withdrawals skip requireApproval and the " +
		"threshold.",
	reflect.TypeFor[ChangedValue]():                 "One change of a request.",
	reflect.TypeFor[ActingOperator]():               "An operator, by the key or as the person who signed in.",
	reflect.TypeFor[ChangeRequest]():                "A change that loosens a control and needs a second operator.",
	reflect.TypeFor[kernel.Page[ChangeRequest]]():   "A page of change requests.",
	reflect.TypeFor[SettingChange]():                "One change of a setting.",
	reflect.TypeFor[kernel.Page[SettingChange]]():   "A page of changes of settings.",
	reflect.TypeFor[Changer]():                      "Who changed it.",
	reflect.TypeFor[OwnedDeposit]():                 "A deposit with its organization.",
	reflect.TypeFor[kernel.Page[OwnedDeposit]]():    "A page of deposits.",
	reflect.TypeFor[OwnedWithdrawal]():              "A withdrawal with its organization.",
	reflect.TypeFor[kernel.Page[OwnedWithdrawal]](): "A page of withdrawals.",
	reflect.TypeFor[Freeze]():                       "A freeze, in force or lifted.",
	reflect.TypeFor[kernel.Page[Freeze]]():          "A page of freezes.",
	reflect.TypeFor[FreezeOrder]():                  "Freezes something.",
	reflect.TypeFor[Reserves]():                     "Reserves and liabilities, by mint.",
	reflect.TypeFor[Reserve]():                      "The reserves and liabilities of a mint, in atomic units.",
	reflect.TypeFor[ReserveBlock]():                 "A block of the mint's chain.",
	reflect.TypeFor[ReserveHoldings]():              "What the service's addresses hold by final blocks.",
	reflect.TypeFor[ReserveAtProvider]():            "What one swap provider has of the liabilities.",
	reflect.TypeFor[ReserveLiabilities]():           "What the service owes, by kind of owner.",
	reflect.TypeFor[ReserveInTransit](): "What transactions that are not final move. holdings and liabilities still " +
		"count it.",
	reflect.TypeFor[Redirection]():            "Where a flagged deposit goes, and why.",
	reflect.TypeFor[LocalRisk]():              "An entry of the local list.",
	reflect.TypeFor[kernel.Page[LocalRisk]](): "A page of the local list.",
	reflect.TypeFor[LocalRiskOrder](): "An entry for the local list: a severity with its " +
		"details, or an outage alone.",
	reflect.TypeFor[WhitelistedAddress](): "A whitelist entry: an address that an organization may pay its own money " +
		"to.",
	reflect.TypeFor[kernel.Page[WhitelistedAddress]](): "A page of whitelisted addresses.",
	reflect.TypeFor[WhitelistedAddressRequest]():       "A whitelist entry to add.",
	reflect.TypeFor[OwnedSwap]():                       "A swap with its organization and the claim on its provider.",
	reflect.TypeFor[kernel.Page[OwnedSwap]]():          "A page of swaps.",
	reflect.TypeFor[OwnedDepositSwap]():                "A deposit swap with its organization.",
	reflect.TypeFor[kernel.Page[OwnedDepositSwap]]():   "A page of deposit swaps.",
	reflect.TypeFor[SwapDetail]():                      "A swap with its addresses, reports and arrivals.",
	reflect.TypeFor[SwapReport]():                      "What a provider reported of a swap.",
	reflect.TypeFor[SwapArrival]():                     "A final arrival at an address of a swap.",
	reflect.TypeFor[kernel.Page[SwapArrival]]():        "A page of arrivals.",
	reflect.TypeFor[SwapNote]():                        "Why an operator decides about a swap.",
	reflect.TypeFor[OwnedInvoice]():                    "An invoice with its organization.",
	reflect.TypeFor[kernel.Page[OwnedInvoice]]():       "A page of invoices.",
	reflect.TypeFor[OwnedCreditNote]():                 "A credit note with its organization.",
	reflect.TypeFor[kernel.Page[OwnedCreditNote]]():    "A page of credit notes.",
	reflect.TypeFor[BillingRun]():                      "The month to bill.",
	reflect.TypeFor[BillingRunResult]():                "What a run of a month did.",
	reflect.TypeFor[UnbilledOrg]():                     "An organization without an invoice of a month.",
	reflect.TypeFor[FailedOrg]():                       "An organization whose invoice of a month could not be issued.",
	reflect.TypeFor[InvoicePayment]():                  "The payment of an invoice.",
	reflect.TypeFor[CreditOrder]():                     "A credit note to issue.",
	reflect.TypeFor[CreditedLine]():                    "What a credit note gives back of one fee.",
	reflect.TypeFor[BillingTerms]():                    "What invoices print about a party, and how they are made.",
	reflect.TypeFor[BillingTermsInForce]():             "Billing terms in force.",
	reflect.TypeFor[InvoiceVerification]():             "What an invoice is, computed again.",
	reflect.TypeFor[UnpricedFees]():                    "Fees that wait for a price.",
	reflect.TypeFor[PriceMark]():                       "A price of a moment, by an operator.",
	reflect.TypeFor[PriceMarkResult]():                 "What a stated price did.",
	reflect.TypeFor[SwapWriteOff]():                    "The result of a request to write a claim off.",
	reflect.TypeFor[ArrivalDecision]():                 "A decision about a stray arrival.",
	reflect.TypeFor[SwapProvider]():                    "A swap provider and what is with it.",
	reflect.TypeFor[SwapProviders]():                   "The swap providers.",
	reflect.TypeFor[ProviderReason]():                  "Why a provider is suspended or resumed.",
	reflect.TypeFor[OwnedFee]():                        "A fee with its organization.",
	reflect.TypeFor[kernel.Page[OwnedFee]]():           "A page of fees.",
}

// fieldDocs are the texts that differ from those of the same names for organizations, those about fields
// that several types here have, and what a tag cannot hold.
var fieldDocs = map[string]kernel.FieldDoc{
	"OwnedSwap.status": {
		Text: "The status of the swap, in the words of the organization's interface. AWAITING_APPROVAL, REJECTED and " +
			"CANCELLED are of organizations' own swaps alone.",
		Enum: resource.OrganizationSwapStatuses,
	},
	"Organization.organizationId": {Example: resource.ExampleOrganizationID},
	"apiKey": {
		Text: "The key, for the header x-api-key. It moves money, and the service does not show it " +
			"again.", Example: resource.ExampleKey,
	},
	"screeningSeverityThreshold": {
		Text: "The service flags deposits whose sender is above this severity; null for no " +
			"screening.", Enum: resource.Severities,
	},
	"screeningUsdThreshold": {
		Text:    "The service screens deposits above this many dollars; null for no screening.",
		Pattern: kernel.DecimalPattern,
	},
	"customerWithdrawUsdThreshold": {
		Text: "Customers' withdrawals strictly above this many dollars wait for an approval; null: no withdrawal " +
			"waits because of its value.",
		Pattern: kernel.DecimalPattern, Example: "10000.00",
	},
	"twoFactorUsdThreshold": {
		Text: "The organization's own withdrawals strictly above this many dollars, or without a price, wait for " +
			"approvals by people other than the requester; null: no withdrawal waits because of its value.",
		Pattern: kernel.DecimalPattern, Example: "10000.00",
	},
	"withdrawSeverityThreshold": {
		Text: "A withdrawal to a destination above this severity is refused with 451 WITHDRAWAL_RISK_BLOCKED; a " +
			"destination of exactly this severity passes. null means HIGH and does not switch screening off. On an " +
			"installation without risk providers, null lets every destination pass, and any severity makes every " +
			"withdrawal wait for an approval.",
		Enum: resource.Severities,
	},
	"approvalAllowlist": {
		Text: "Customers whose withdrawals skip requireApproval and the threshold.",
	},
	"approvalQuorum": {
		Text:   "How many people have to approve a withdrawal that waits.",
		Bounds: map[string]any{"minimum": 1, "maximum": org.ApprovalQuorumMax},
	},
	"ipAllowlist": {
		Text: "Addresses and networks from which the organization's keys may call; empty for all.",
	},
	"customerSwapsEnabled":     {Text: "Whether customers' balances may be swapped."},
	"organizationSwapsEnabled": {Text: "Whether the organization may swap its own balances."},
	"swappableMintIds":         {Text: "Which mints swaps may use."},
	"swapFeeBps": {
		Text:   "The fee of a swap in basis points, billed to the organization.",
		Bounds: map[string]any{"minimum": 0, "maximum": org.SwapFeeBpsMax},
	},
	"flaggedDepositApiEnabled": {Text: "Whether the organization's API key may decide about flagged deposits."},
	"autoRestoreFailedSwaps": {
		Text: "Whether the refund of a failed swap goes back to the customer automatically.",
	},
	"requireWithdrawIdempotency": {Text: "Whether POST /withdraw without an idempotencyKey is refused."},
	"customerFeeDayUsd": {
		Text: "The limit of network fees for one customer's withdrawals in 24 hours, in dollars. A withdrawal " +
			"that would exceed it waits for an approval as POLICY_LIMIT. The default is 50; null for no limit.",
		Pattern: kernel.DecimalPattern, Example: "50",
	},
	"chargeCustomerCosts": {
		Text: "Which costs of a withdrawal the customer pays, in the withdrawn token and as estimate and preview " +
			"show them: the rent of an account that is created for the payee, and the network fee of a payment that " +
			"failed because of its payee. A change affects requests from then on.",
		Enum: []string{"NONE", "RENT", "RENT_AND_FAILURES"},
	},
	"batchAutoApproveUsd": {
		Text: "Below how many dollars a batch payout of the organization needs no approval of a person. A batch " +
			"of which a price is missing or old, that has a look-alike or a first payment to an address, that pays " +
			"again what an earlier batch did not pay, or that is above twoFactorUsdThreshold always needs people. " +
			"The signer pays such a batch only as far as its own policy (unapprovedBatches) allows. Null: every " +
			"batch needs people.",
		Pattern: kernel.DecimalPattern, Example: "500",
	},
	"additionalApiKeys": {
		Text: "Whether the organization may have additional API keys, each with a scope and an expiry, and whether a " +
			"former value of the main key may work for an overlap after a roll. When it is off, all of these are " +
			"refused from the next request on and are SUSPENDED. They work again when it is on; revoke a key to end " +
			"it permanently.",
	},
	"changeRequestId": {
		Text: "The change request; null when no approval was needed.", Example: "chg_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	},
	"ChangeRequest.kind":              {Enum: changerequest.Kinds},
	"ChangeRequest.status":            {Enum: changerequest.Statuses},
	"setting":                         {Text: "The setting."},
	"Changer.type":                    {Enum: changerTypes},
	"freezeId":                        {Text: "The freeze.", Example: "frz_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"Freeze.scope":                    {Enum: freezeScopes},
	"FreezeOrder.scope":               {Enum: operatorFreezeScopes},
	"FreezeOrder.chain":               {Enum: resource.ChainNames},
	"Freeze.source":                   {Enum: freezeSources},
	"FreezeOrder.reason":              {Bounds: map[string]any{"maxLength": reasonBytesMax}},
	"Redirection.toAddress":           {Example: resource.ExampleHolder},
	"Redirection.reason":              {Enum: redirectReasons},
	"Redirection.reference":           {Bounds: map[string]any{"minLength": 1, "maxLength": deposit.NoteRunesMax}},
	"Redirection.note":                {Bounds: map[string]any{"maxLength": deposit.NoteRunesMax}},
	"LocalRisk.address":               {Example: exampleLocalRisk.Address},
	"LocalRisk.severity":              {Enum: localSeverities},
	"LocalRiskOrder.severity":         {Enum: localSeverities},
	"whitelistedAddressId":            {Text: "The id of the entry: wla_…", Example: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"},
	"WhitelistedAddress.chain":        {Enum: resource.ChainNames},
	"WhitelistedAddressRequest.chain": {Enum: resource.ChainNames},
	"WhitelistedAddressRequest.label": {Bounds: map[string]any{"minLength": 1, "maxLength": whitelist.LabelRunesMax}},
	"WhitelistedAddress.status":       {Enum: whitelistStatuses},
}
