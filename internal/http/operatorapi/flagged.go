package operatorapi

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// Redirection is the body of POST /deposits/{depositId}/redirect.
type Redirection struct {
	ToAddress string  `json:"toAddress" doc:"An address on the deposit's chain that does not belong to this service."`
	Reason    string  `json:"reason" doc:"The reason for the redirection."`
	Reference string  `json:"reference" doc:"The reference of the case or of the order." example:"case 77"`
	Note      *string `json:"note,omitempty" doc:"A note for the record."`
}

var redirectReasons = []string{deposit.ComplianceHold, deposit.LawEnforcement}

// decideDeposit decides about a flagged deposit as an operator.
func (a *api) decideDeposit(resolve resource.ResolveFunc) func(*call, resource.DecisionNote) (OwnedDeposit, error) {
	return func(c *call, body resource.DecisionNote) (OwnedDeposit, error) {
		return a.answerOwnedDeposit(c, func() (deposit.Deposit, error) {
			return resolve(a.conf.Deposits, c.Context(), c.PathParam("depositId"), c.Caller.decider(),
				resource.TextOrEmpty(body.Note))
		})
	}
}

// rescreenDeposit screens the sender of a flagged deposit again.
func (a *api) rescreenDeposit(c *call) (OwnedDeposit, error) {
	return a.answerOwnedDeposit(c, func() (deposit.Deposit, error) {
		return a.conf.Rescreens.RescreenDeposit(c.Context(), c.PathParam("depositId"), c.Caller.decider())
	})
}

func (a *api) redirectDeposit(c *call, body Redirection) (OwnedDeposit, error) {
	return a.answerOwnedDeposit(c, func() (deposit.Deposit, error) {
		return a.conf.Deposits.Redirect(c.Context(), c.PathParam("depositId"), c.Caller.decider(), deposit.Redirection{
			ToAddress: body.ToAddress, Reason: body.Reason, Reference: body.Reference,
			Note: resource.TextOrEmpty(body.Note),
		})
	})
}

// answerOwnedDeposit answers with a deposit after a decision. It reads the owner first: the owner
// never changes, and after the decision nothing is left that could fail.
func (a *api) answerOwnedDeposit(c *call, resolve func() (deposit.Deposit, error)) (OwnedDeposit, error) {
	var owner string
	err := a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		owner, err = deposit.OwnerOf(ctx, tx, c.PathParam("depositId"))
		return err
	})
	if err != nil {
		return OwnedDeposit{}, err
	}
	d, err := resolve()
	if err != nil {
		return OwnedDeposit{}, err
	}
	return OwnedDeposit{owner, wire.Deposit(d)}, nil
}

var redirectFaults = append([]fault.Code{fault.InvalidAddress, fault.InsufficientGas, fault.DestinationNotAllowed},
	resource.ApprovalFaults...)

func (a *api) operatorFlaggedRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/approve", Name: "approveDeposit",
			Action: identity.DecideFlaggedDeposit, Group: "Money",
			Summary: "Approve a flagged deposit",
			Text: "Credits the flagged deposit to the customer and sends CUSTOMER_DEPOSIT_APPROVED to the " +
				"organization." + resource.DecidedOnceText + " The body may be left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The deposit, now CREDITED."}},
			Faults:  resource.ApprovalFaults,
			Handler: kernel.HandleBody(a.decideDeposit((*deposit.Service).Approve),
				resource.DecisionNote{Note: new("The source of funds is known.")},
				OwnedDeposit{resource.ExampleOrganizationID, resource.ExampleApprovedDeposit},
			),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/reject", Name: "rejectDeposit",
			Action: identity.DecideFlaggedDeposit, Group: "Money",
			Summary: "Reject a flagged deposit",
			Text: "Sends the flagged deposit back to the address that it came from. The network fee comes out of a " +
				"native coin; of SOL the whole amount goes back, except what the network requires to stay on the " +
				"address. The organization receives CUSTOMER_DEPOSIT_REJECTED once the transfer is final. With " +
				"sanctioned_reject = \"BLOCK\" in the configuration, a deposit from an address on a sanctions list " +
				"is " +
				"refused with 409 REJECT_BLOCKED_SANCTIONS. A deposit without a single sender is refused with 409 " +
				"INVALID_STATE: redirect it." + resource.DecidedOnceText + " The body may be left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The deposit, now REJECTING."}},
			Faults:  resource.ReturnFaults,
			Handler: kernel.HandleBody(a.decideDeposit((*deposit.Service).Reject),
				resource.DecisionNote{Note: new("Not one of our customers' wallets.")},
				OwnedDeposit{resource.ExampleOrganizationID, resource.ExampleRejecting},
			),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/redirect", Name: "redirectDeposit",
			Action: identity.RedirectFlaggedDeposit, Group: "Money",
			Summary: "Redirect a flagged deposit",
			Text: "Sends the flagged deposit to another address, for a compliance hold or by order of law " +
				"enforcement, with the reference of the case. The deposit is REDIRECTING until the transfer is " +
				"final. " +
				"Then it is REDIRECTED, resolution has the hash, and the organization receives " +
				"CUSTOMER_DEPOSIT_REDIRECTED. Where the operators have a rule, the call is refused with 409 " +
				"INVALID_STATE and nothing is written: they ask for the redirect and sign it in the console." +
				resource.DecidedOnceText,
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusAccepted, Text: "The deposit, now REDIRECTING."}},
			Faults:    redirectFaults,
			Handler: kernel.HandleBody(a.redirectDeposit,
				Redirection{ToAddress: resource.ExampleHolder, Reason: deposit.LawEnforcement, Reference: "case 77"},
				OwnedDeposit{resource.ExampleOrganizationID, exampleRedirecting},
			),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/complete", Name: "completeDeposit",
			Action: identity.CompleteResolution, Group: "Money",
			Summary: "Complete a stuck resolution",
			Text: "Sends the transfer again, to the same address, after the chain has proven that the previous one " +
				"failed. While an earlier transaction can still become final, the call is refused with 409 " +
				"RESOLUTION_IN_PROGRESS, so that nothing is sent twice. For a completed resolution the call returns " +
				"the " +
				"deposit as it is. The body may be left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The deposit: REJECTING or REDIRECTING " +
				"again, or resolved."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.DepositNotFlagged, fault.InvalidState, fault.ResolutionInProgress,
			},
			Handler: kernel.HandleBody(a.decideDeposit((*deposit.Service).Complete),
				resource.DecisionNote{Note: new("Its token was paused, and is not any more.")},
				OwnedDeposit{resource.ExampleOrganizationID, exampleRedirecting},
			),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/rescreen", Name: "rescreenDeposit",
			Action: identity.RescreenSender, Group: "Money",
			Summary: "Screen the sender of a flagged deposit again",
			Text: "Asks the risk providers about the sender now and shows the answer in freshScreening, next to the " +
				"screening that flagged the deposit. The call takes up to half a minute. It decides nothing, and no " +
				"decision waits for it.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The deposit, still FLAGGED."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.DepositNotFlagged, fault.CodeUnavailable},
			Handler: kernel.Handle(a.rescreenDeposit,
				OwnedDeposit{resource.ExampleOrganizationID, exampleRescreened}),
		},
	}
}

var (
	exampleRescreened = func() webhook.Deposit {
		d := resource.ExampleFlagged
		d.FreshScreening = &webhook.FreshScreening{
			Severity: "LOW", Score: new(12), Categories: webhook.List[string]{}, Provider: "TRM",
			ScreenedAt: resource.ExampleAt,
		}
		return d
	}()

	exampleRedirecting = func() webhook.Deposit {
		d := resource.ExampleFlagged
		d.Status = "REDIRECTING"
		d.Resolution = &webhook.Resolution{
			Decision: "REDIRECTED", Reason: new("LAW_ENFORCEMENT"), Reference: new("case 77"),
			DecidedAt: resource.ExampleAt,
			DecidedBy: webhook.Actor{Type: "OPERATOR", ID: "opk_01J9ZW3M8Q4S5T6V7W8X9YZABC", Name: new("Ann")},
			ToAddress: new(resource.ExampleHolder), Amount: new("5000000"),
		}
		return d
	}()
)
