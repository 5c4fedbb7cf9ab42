package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// DecisionNote is the optional body of a decision about a flagged deposit.
type DecisionNote struct {
	Note *string `json:"note,omitempty"`
}

// Redirection is the body of POST /deposits/{depositId}/redirect.
type Redirection struct {
	ToAddress string  `json:"toAddress"`
	Reason    string  `json:"reason"`
	Reference string  `json:"reference"`
	Note      *string `json:"note,omitempty"`
}

var redirectReasons = []string{deposit.ComplianceHold, deposit.LawEnforcement}

// resolveFunc is a decision about a flagged deposit that takes a note.
type resolveFunc func(r *deposit.Resolutions, ctx context.Context, depositID string, decider deposit.Actor,
	note string) (
	webhook.Deposit, error,
)

// decideAsOrg decides about a flagged deposit with an organization's key, if the operator has
// enabled that.
func decideAsOrg(resolve resolveFunc, status int) func(*api, *call) (answer, error) {
	return func(a *api, c *call) (answer, error) {
		var settings org.Settings
		err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
			settings, err = org.SettingsOf(ctx, tx, c.org)
			return err
		})
		if err != nil {
			return answer{}, err
		}
		if !settings.FlaggedDepositAPIEnabled {
			return answer{}, fault.New(fault.Forbidden, fault.FeatureDisabled,
				"Your organization's key may not decide about flagged deposits: flaggedDepositApiEnabled is off."+nothingWritten+" People of your organization decide, or ask the operator of this service to switch it on.")
		}
		var body DecisionNote
		if err := decodeBody(c.body, &body); err != nil {
			return answer{}, err
		}
		decided, err := resolve(a.conf.Flagged, c.Context(), c.pathParam("depositId"),
			deposit.Actor{Actor: c.auditActor(), OrgID: c.org}, textOrEmpty(body.Note))
		if err != nil {
			return answer{}, err
		}
		return answer{status: status, body: decided}, nil
	}
}

// refuseOperatorOnly refuses decisions that only the operator makes.
func (a *api) refuseOperatorOnly(*call) (answer, error) {
	return answer{}, fault.New(fault.Forbidden, fault.OperatorOnly,
		"Only the operator of this service sends a flagged deposit elsewhere, or completes one that is stuck."+nothingWritten+" Ask the operator of this service.")
}

// depositDecider returns the calling operator.
func (c *call) depositDecider() deposit.Actor {
	return deposit.Actor{Actor: c.operator.Actor(), Name: c.operator.Name}
}

// decideAsOperator decides about a flagged deposit as an operator.
func decideAsOperator(resolve resolveFunc, status int) func(*api, *call) (answer, error) {
	return func(a *api, c *call) (answer, error) {
		var body DecisionNote
		if err := decodeBody(c.body, &body); err != nil {
			return answer{}, err
		}
		return a.answerOwnedDeposit(c, status, func() (webhook.Deposit, error) {
			return resolve(a.conf.Flagged, c.Context(), c.pathParam("depositId"), c.depositDecider(),
				textOrEmpty(body.Note))
		})
	}
}

// rescreenDeposit screens the sender of a flagged deposit again.
func (a *api) rescreenDeposit(c *call) (answer, error) {
	return a.answerOwnedDeposit(c, http.StatusOK, func() (webhook.Deposit, error) {
		return a.conf.Rescreens.RescreenDeposit(c.Context(), c.pathParam("depositId"), c.depositDecider())
	})
}

func (a *api) redirectDeposit(c *call) (answer, error) {
	var body Redirection
	if err := decodeBody(c.body, &body); err != nil {
		return answer{}, err
	}
	return a.answerOwnedDeposit(c, http.StatusAccepted, func() (webhook.Deposit, error) {
		return a.conf.Flagged.Redirect(c.Context(), c.pathParam("depositId"), c.depositDecider(), deposit.Redirection{
			ToAddress: body.ToAddress, Reason: body.Reason, Reference: body.Reference, Note: textOrEmpty(body.Note),
		})
	})
}

// answerOwnedDeposit answers with a deposit after a decision. It reads the owner first: the owner
// never changes, and after the decision nothing is left that could fail.
func (a *api) answerOwnedDeposit(c *call, status int, resolve func() (webhook.Deposit, error)) (answer, error) {
	var owner string
	err := a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		owner, err = deposit.OwnerOf(ctx, tx, c.pathParam("depositId"))
		return err
	})
	if err != nil {
		return answer{}, err
	}
	d, err := resolve()
	if err != nil {
		return answer{}, err
	}
	return answer{status: status, body: OwnedDeposit{owner, d}}, nil
}

var flaggedFilter = parameter{
	name: "isFlagged", kind: flagParameter,
	text: "Only what was, or was not, held by risk screening, resolved or not. With status CREDITED, REJECTED or REDIRECTED it is the history of what was decided.",
}

// The refusals of decisions about a flagged deposit.
var (
	approvalFaults = []fault.Code{
		fault.CodeNotFound, fault.InvalidState, fault.DepositNotFlagged, fault.ResolutionInProgress,
		fault.ResolutionStuckCode, fault.DepositsSuspended,
	}
	returnFaults = append(
		[]fault.Code{fault.RejectBlockedSanctions, fault.InsufficientGas, fault.DestinationNotAllowed},
		approvalFaults...,
	)
	redirectFaults = append([]fault.Code{fault.InvalidAddress, fault.InsufficientGas, fault.DestinationNotAllowed},
		approvalFaults...)
)

const decidedOnceText = " Of all decisions about a deposit one comes about; the same one again is answered the same, every other 409 with currentStatus."

var flaggedRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/approve", name: "approveDeposit", scope: org.ScopeFull,
		group:   "Deposits",
		summary: "Approve a flagged deposit",
		text:    "Credits what screening holds: it is your customer's at once, and CUSTOMER_DEPOSIT_APPROVED is sent. No second CUSTOMER_DEPOSIT is. Off until the operator of this service switches flaggedDepositApiEnabled on for your organization." + decidedOnceText + " The body may be left out.",
		body:    DecisionNote{}, optional: true, retryable: true,
		answers: []success{
			{http.StatusOK, "The deposit. It is CREDITED.", webhook.Deposit{}, exampleApprovedDeposit, nil},
		},
		faults: append([]fault.Code{fault.FeatureDisabled}, approvalFaults...),
		handle: decideAsOrg((*deposit.Resolutions).Approve, http.StatusOK),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/reject", name: "rejectDeposit", scope: org.ScopeFull,
		group:   "Deposits",
		summary: "Reject a flagged deposit",
		text:    "Sends what screening holds back to the address that it came from, a native coin less the network's fee (SOL whole, but for what the network wants to stay on the address). It is REJECTING until the transfer is final; then it is REJECTED, resolution has the hash, and CUSTOMER_DEPOSIT_REJECTED is sent. An attempt that fails before anything could reach the chain is kept in resolutionAttempts, and the deposit is FLAGGED again; after that only the operator completes it. Look at returnAddressRisk and flagReason first. Off until the operator of this service switches flaggedDepositApiEnabled on for your organization." + decidedOnceText + " The body may be left out. To send it elsewhere is the operator's alone: POST /deposits/{depositId}/redirect is 403 OPERATOR_ONLY.",
		body:    DecisionNote{}, optional: true, retryable: true,
		answers: []success{
			{http.StatusAccepted, "The deposit. It is REJECTING.", webhook.Deposit{}, exampleRejecting, nil},
		},
		faults: append([]fault.Code{fault.FeatureDisabled, fault.OperatorOnly}, returnFaults...),
		handle: decideAsOrg((*deposit.Resolutions).Reject, http.StatusAccepted),
	},
}

// forbiddenRoutes are operator-only calls, which organizations are refused.
var forbiddenRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/redirect", name: "redirectDeposit", scope: org.ScopeFull,
		handle: (*api).refuseOperatorOnly,
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/complete", name: "completeDeposit", scope: org.ScopeFull,
		handle: (*api).refuseOperatorOnly,
	},
}

var operatorFlaggedRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/approve", name: "approveDeposit", group: "Money",
		summary: "Approve a flagged deposit",
		text:    "Credits what screening holds to the customer, and tells the organization with CUSTOMER_DEPOSIT_APPROVED." + decidedOnceText + " The body may be left out.",
		body:    DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusOK, "The deposit. It is CREDITED.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleApprovedDeposit},
			nil,
		}},
		faults: approvalFaults,
		handle: decideAsOperator((*deposit.Resolutions).Approve, http.StatusOK),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/reject", name: "rejectDeposit", group: "Money",
		summary: "Reject a flagged deposit",
		text:    "Sends what screening holds back to the address that it came from, a native coin less the network's fee (SOL whole, but for what the network wants to stay on the address), and tells the organization with CUSTOMER_DEPOSIT_REJECTED once the transfer is final. With sanctioned_reject = \"BLOCK\" in the configuration, what came from an address on a list of sanctions is 409 REJECT_BLOCKED_SANCTIONS. A deposit without a single sender is 409 INVALID_STATE: redirect it." + decidedOnceText + " The body may be left out.",
		body:    DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit. It is REJECTING.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRejecting},
			nil,
		}},
		faults: returnFaults,
		handle: decideAsOperator((*deposit.Resolutions).Reject, http.StatusAccepted),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/redirect", name: "redirectDeposit", group: "Money",
		summary: "Send a flagged deposit elsewhere",
		text:    "Sends what screening holds to another address, under a hold of compliance or by order of law enforcement, with the reference of the case. It is REDIRECTING until the transfer is final; then it is REDIRECTED, resolution has the hash, and the organization is told with CUSTOMER_DEPOSIT_REDIRECTED." + decidedOnceText,
		body:    Redirection{}, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit. It is REDIRECTING.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRedirecting},
			nil,
		}},
		faults: redirectFaults,
		handle: (*api).redirectDeposit,
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/complete", name: "completeDeposit", group: "Money",
		summary: "Complete a resolution that is stuck",
		text:    "Has a transfer sent again, to the same address, of which the chain has proven that it failed. While what is out may still become final it is 409 RESOLUTION_IN_PROGRESS: nothing may be sent twice. A resolution that is done is answered as it is. The body may be left out.",
		body:    DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit. It is REJECTING or REDIRECTING again, or done.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRedirecting},
			nil,
		}},
		faults: []fault.Code{
			fault.CodeNotFound, fault.DepositNotFlagged, fault.InvalidState, fault.ResolutionInProgress,
		},
		handle: decideAsOperator((*deposit.Resolutions).Complete, http.StatusAccepted),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/rescreen", name: "rescreenDeposit", group: "Money",
		summary:   "Ask now about a flagged deposit's sender",
		text:      "Asks the providers what they say of the sender today, and shows it in freshScreening, beside what flagged the deposit. It takes up to half a minute, decides nothing, and no decision waits for it.",
		retryable: true,
		answers: []success{{
			http.StatusOK, "The deposit. It is FLAGGED.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRescreened},
			nil,
		}},
		faults: []fault.Code{fault.CodeNotFound, fault.DepositNotFlagged, fault.CodeUnavailable},
		handle: (*api).rescreenDeposit,
	},
}

var (
	exampleFlagged = func() webhook.Deposit {
		d := exampleDeposit
		d.Status, d.IsFlagged, d.RiskOfFunds, d.CreditedAt, d.ReturnAddressRisk = "FLAGGED", true, pointerTo("SEVERE"),
			nil, pointerTo("NONE")
		d.Screening = webhook.Screening{
			Status: "FLAGGED", Provider: pointerTo("TRM"), Severity: pointerTo("SEVERE"), Score: pointerTo(98),
			ScreenedAt: &exampleAt,
		}
		d.FlagReason = &webhook.FlagReason{
			Code: "SEVERITY_ABOVE_THRESHOLD", Score: pointerTo(98), Severity: pointerTo("SEVERE"),
			Entity:     pointerTo("a mixer"),
			Categories: webhook.List[string]{"MIXING"}, Provider: pointerTo("TRM"),
		}
		return d
	}()
	exampleRescreened = func() webhook.Deposit {
		d := exampleFlagged
		d.FreshScreening = &webhook.FreshScreening{
			Severity: "LOW", Score: pointerTo(12), Categories: webhook.List[string]{}, Provider: "TRM",
			ScreenedAt: exampleAt,
		}
		return d
	}()
	exampleApprovedDeposit = func() webhook.Deposit {
		d := exampleFlagged
		d.Status, d.CreditedAt = "CREDITED", &exampleAt
		d.Resolution = &webhook.Resolution{
			Decision: "APPROVED", Note: pointerTo("The source of funds is known."), DecidedAt: exampleAt,
			DecidedBy: webhook.Actor{Type: "API_KEY", ID: exampleOrganizationID},
		}
		return d
	}()
	exampleRejecting = func() webhook.Deposit {
		d := exampleFlagged
		d.Status = "REJECTING"
		d.Resolution = &webhook.Resolution{
			Decision: "REJECTED", DecidedAt: exampleAt,
			DecidedBy: webhook.Actor{Type: "API_KEY", ID: exampleOrganizationID},
			ToAddress: pointerTo(exampleDestination), Amount: pointerTo("5000000"),
		}
		return d
	}()
	exampleRedirecting = func() webhook.Deposit {
		d := exampleFlagged
		d.Status = "REDIRECTING"
		d.Resolution = &webhook.Resolution{
			Decision: "REDIRECTED", Reason: pointerTo("LAW_ENFORCEMENT"), Reference: pointerTo("case 77"),
			DecidedAt: exampleAt,
			DecidedBy: webhook.Actor{Type: "OPERATOR", ID: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", Name: pointerTo("Ann")},
			ToAddress: pointerTo(exampleHolder), Amount: pointerTo("5000000"),
		}
		return d
	}()
)

var flaggedExamples = map[string]any{
	"approveDeposit": DecisionNote{Note: pointerTo("The source of funds is known.")},
	"rejectDeposit":  DecisionNote{Note: pointerTo("Not one of our customers' wallets.")},
}

var flaggedFieldDocs = map[string]fieldDoc{
	"DecisionNote.": {text: "What is kept with a decision."},
	"DecisionNote.note": {
		text:   "Why, in a sentence or two, for the record. It stands in resolution.",
		bounds: map[string]any{"maxLength": deposit.NoteRunesMax},
	},
}

var operatorFlaggedFieldDocs = map[string]fieldDoc{
	"Redirection.": {text: "Where a flagged deposit goes, and why."},
	"Redirection.toAddress": {
		text: "An address on the deposit's chain, and none of this service's.", example: exampleHolder,
	},
	"Redirection.reason": {text: "Why it goes there.", enum: redirectReasons},
	"Redirection.reference": {
		text:   "Of the case or the order that it follows.",
		bounds: map[string]any{"minLength": 1, "maxLength": deposit.NoteRunesMax}, example: "case 77",
	},
	"Redirection.note": {text: "For the record.", bounds: map[string]any{"maxLength": deposit.NoteRunesMax}},
}

var operatorFlaggedExamples = map[string]any{
	"approveDeposit":  flaggedExamples["approveDeposit"],
	"rejectDeposit":   flaggedExamples["rejectDeposit"],
	"redirectDeposit": Redirection{ToAddress: exampleHolder, Reason: deposit.LawEnforcement, Reference: "case 77"},
	"completeDeposit": DecisionNote{Note: pointerTo("Its token was paused, and is not any more.")},
}
