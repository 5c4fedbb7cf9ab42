package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
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
type resolveFunc func(s *deposit.Service, ctx context.Context, depositID string, decider deposit.Actor,
	note string) (
	webhook.Deposit, error,
)

// decideAsOrg decides about a flagged deposit with an organization's key, if the operator has
// enabled that. Rules DEP-33 and DEP-55.
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
			return answer{}, fault.New(fault.Forbidden, fault.FeatureDisabled, fault.NothingWritten,
				"Your organization's API key may not decide about flagged deposits: flaggedDepositApiEnabled "+
					"is off.").
				WithAdvice("A person of your organization can decide, or the operator of this service can " +
					"switch the " +
					"setting on.")
		}
		var body DecisionNote
		if err := decodeBody(c.body, &body); err != nil {
			return answer{}, err
		}
		decided, err := resolve(a.conf.Deposits, c.Context(), c.pathParam("depositId"),
			deposit.Actor{Actor: c.auditActor(), OrgID: c.org}, textOrEmpty(body.Note))
		if err != nil {
			return answer{}, err
		}
		return answer{status: status, body: decided}, nil
	}
}

// refuseOperatorOnly refuses decisions that only the operator makes. Rule DEP-33.
func (a *api) refuseOperatorOnly(*call) (answer, error) {
	return answer{}, fault.New(fault.Forbidden, fault.OperatorOnly, fault.NothingWritten,
		"Only the operator of this service can redirect a flagged deposit or complete a stuck "+
			"resolution.").
		WithAdvice("Ask the operator of this service.")
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
			return resolve(a.conf.Deposits, c.Context(), c.pathParam("depositId"), c.depositDecider(),
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
		return a.conf.Deposits.Redirect(c.Context(), c.pathParam("depositId"), c.depositDecider(), deposit.Redirection{
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
	text: "true: only deposits that screening flagged, resolved or not. false: only deposits that it did not flag. " +
		"With status CREDITED, REJECTED or REDIRECTED, true lists the resolved ones.",
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

const decidedOnceText = " The first decision about a deposit wins. Repeating it returns the same answer; every other " +
	"decision is refused with 409 and currentStatus."

var flaggedRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/approve", name: "approveDeposit",
		action: identity.DecideFlaggedDeposit, group: "Deposits",
		summary: "Approve a flagged deposit",
		text: "Credits the flagged deposit to your customer at once and sends CUSTOMER_DEPOSIT_APPROVED. It sends " +
			"no second CUSTOMER_DEPOSIT. The call is available once the operator of this service switches " +
			"flaggedDepositApiEnabled on for your organization." + decidedOnceText + " The body may be left out.",
		body: DecisionNote{}, optional: true, retryable: true,
		answers: []success{
			{http.StatusOK, "The deposit, now CREDITED.", webhook.Deposit{}, exampleApprovedDeposit, nil},
		},
		faults: append([]fault.Code{fault.FeatureDisabled}, approvalFaults...),
		handle: decideAsOrg((*deposit.Service).Approve, http.StatusOK),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/reject", name: "rejectDeposit",
		action: identity.DecideFlaggedDeposit, group: "Deposits",
		summary: "Reject a flagged deposit",
		text: "Sends the flagged deposit back to the address that it came from. The network fee comes out of a " +
			"native coin; of SOL the whole amount goes back, except what the network requires to stay on the " +
			"address. The deposit is REJECTING until the transfer is final. Then it is REJECTED, resolution has the " +
			"hash, and the service sends CUSTOMER_DEPOSIT_REJECTED. If an attempt fails before anything can reach " +
			"the chain, the deposit is FLAGGED again and resolutionAttempts has the attempt. After that point only " +
			"the operator can complete it. Look at returnAddressRisk and flagReason first. The call is available " +
			"once the operator of this service switches flaggedDepositApiEnabled on for your " +
			"organization." + decidedOnceText + " " +
			"The body may be left out. Only the operator can redirect a deposit: POST /deposits/{depositId}/redirect " +
			"answers 403 OPERATOR_ONLY.",
		body: DecisionNote{}, optional: true, retryable: true,
		answers: []success{
			{http.StatusAccepted, "The deposit, now REJECTING.", webhook.Deposit{}, exampleRejecting, nil},
		},
		faults: append([]fault.Code{fault.FeatureDisabled, fault.OperatorOnly}, returnFaults...),
		handle: decideAsOrg((*deposit.Service).Reject, http.StatusAccepted),
	},
}

// forbiddenRoutes are operator-only calls, which organizations are refused.
var forbiddenRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/redirect", name: "redirectDeposit",
		action: identity.DecideFlaggedDeposit,
		handle: (*api).refuseOperatorOnly,
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/complete", name: "completeDeposit",
		action: identity.DecideFlaggedDeposit,
		handle: (*api).refuseOperatorOnly,
	},
}

var operatorFlaggedRoutes = []route{
	{
		method: http.MethodPost, path: "/deposits/{depositId}/approve", name: "approveDeposit",
		action: identity.DecideFlaggedDeposit, group: "Money",
		summary: "Approve a flagged deposit",
		text: "Credits the flagged deposit to the customer and sends CUSTOMER_DEPOSIT_APPROVED to the " +
			"organization." + decidedOnceText + " The body may be left out.",
		body: DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusOK, "The deposit, now CREDITED.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleApprovedDeposit},
			nil,
		}},
		faults: approvalFaults,
		handle: decideAsOperator((*deposit.Service).Approve, http.StatusOK),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/reject", name: "rejectDeposit",
		action: identity.DecideFlaggedDeposit, group: "Money",
		summary: "Reject a flagged deposit",
		text: "Sends the flagged deposit back to the address that it came from. The network fee comes out of a " +
			"native coin; of SOL the whole amount goes back, except what the network requires to stay on the " +
			"address. The organization receives CUSTOMER_DEPOSIT_REJECTED once the transfer is final. With " +
			"sanctioned_reject = \"BLOCK\" in the configuration, a deposit from an address on a sanctions list is " +
			"refused with 409 REJECT_BLOCKED_SANCTIONS. A deposit without a single sender is refused with 409 " +
			"INVALID_STATE: redirect it." + decidedOnceText + " The body may be left out.",
		body: DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit, now REJECTING.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRejecting},
			nil,
		}},
		faults: returnFaults,
		handle: decideAsOperator((*deposit.Service).Reject, http.StatusAccepted),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/redirect", name: "redirectDeposit",
		action: identity.RedirectFlaggedDeposit, group: "Money",
		summary: "Redirect a flagged deposit",
		text: "Sends the flagged deposit to another address, for a compliance hold or by order of law " +
			"enforcement, with the reference of the case. The deposit is REDIRECTING until the transfer is final. " +
			"Then it is REDIRECTED, resolution has the hash, and the organization receives " +
			"CUSTOMER_DEPOSIT_REDIRECTED." + decidedOnceText,
		body: Redirection{}, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit, now REDIRECTING.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRedirecting},
			nil,
		}},
		faults: redirectFaults,
		handle: (*api).redirectDeposit,
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/complete", name: "completeDeposit",
		action: identity.CompleteResolution, group: "Money",
		summary: "Complete a stuck resolution",
		text: "Sends the transfer again, to the same address, after the chain has proven that the previous one " +
			"failed. While an earlier transaction can still become final, the call is refused with 409 " +
			"RESOLUTION_IN_PROGRESS, so that nothing is sent twice. For a completed resolution the call returns the " +
			"deposit as it is. The body may be left out.",
		body: DecisionNote{}, optional: true, retryable: true,
		answers: []success{{
			http.StatusAccepted, "The deposit: REJECTING or REDIRECTING again, or resolved.",
			OwnedDeposit{},
			OwnedDeposit{exampleOrganizationID, exampleRedirecting},
			nil,
		}},
		faults: []fault.Code{
			fault.CodeNotFound, fault.DepositNotFlagged, fault.InvalidState, fault.ResolutionInProgress,
		},
		handle: decideAsOperator((*deposit.Service).Complete, http.StatusAccepted),
	},
	{
		method: http.MethodPost, path: "/deposits/{depositId}/rescreen", name: "rescreenDeposit",
		action: identity.RescreenSender, group: "Money",
		summary: "Screen the sender of a flagged deposit again",
		text: "Asks the risk providers about the sender now and shows the answer in freshScreening, next to the " +
			"screening that flagged the deposit. The call takes up to half a minute. It decides nothing, and no " +
			"decision waits for it.",
		retryable: true,
		answers: []success{{
			http.StatusOK, "The deposit, still FLAGGED.",
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
	"DecisionNote.": {text: "What the service records with a decision."},
	"DecisionNote.note": {
		text:   "The reason, in a sentence or two, for the record. resolution shows it.",
		bounds: map[string]any{"maxLength": deposit.NoteRunesMax},
	},
}

var operatorFlaggedFieldDocs = map[string]fieldDoc{
	"Redirection.": {text: "Where a flagged deposit goes, and why."},
	"Redirection.toAddress": {
		text: "An address on the deposit's chain that does not belong to this service.", example: exampleHolder,
	},
	"Redirection.reason": {text: "The reason for the redirection.", enum: redirectReasons},
	"Redirection.reference": {
		text:   "The reference of the case or of the order.",
		bounds: map[string]any{"minLength": 1, "maxLength": deposit.NoteRunesMax}, example: "case 77",
	},
	"Redirection.note": {text: "A note for the record.", bounds: map[string]any{"maxLength": deposit.NoteRunesMax}},
}

var operatorFlaggedExamples = map[string]any{
	"approveDeposit":  flaggedExamples["approveDeposit"],
	"rejectDeposit":   flaggedExamples["rejectDeposit"],
	"redirectDeposit": Redirection{ToAddress: exampleHolder, Reason: deposit.LawEnforcement, Reference: "case 77"},
	"completeDeposit": DecisionNote{Note: pointerTo("Its token was paused, and is not any more.")},
}
