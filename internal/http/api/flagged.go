package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// requireDecisions refuses decisions about flagged deposits unless the operator has enabled them for
// the organization's keys. Rules DEP-33 and DEP-55.
func (a *api) requireDecisions(c *call) error {
	var settings org.Settings
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		settings, err = org.SettingsOf(ctx, tx, c.Caller.OrgID)
		return err
	})
	if err != nil {
		return err
	}
	if !settings.FlaggedDepositAPIEnabled {
		return fault.New(fault.Forbidden, fault.FeatureDisabled, fault.NothingWritten,
			"Your organization's API key may not decide about flagged deposits: flaggedDepositApiEnabled "+
				"is off.").
			WithAdvice("A person of your organization can decide, or the operator of this service can " +
				"switch the " +
				"setting on.")
	}
	return nil
}

// decideDeposit decides about a flagged deposit with an organization's key.
func (a *api) decideDeposit(resolve resource.ResolveFunc) func(*call, resource.DecisionNote) (webhook.Deposit, error) {
	return func(c *call, body resource.DecisionNote) (webhook.Deposit, error) {
		decided, err := resolve(a.conf.Deposits, c.Context(), c.PathParam("depositId"),
			deposit.Actor{Actor: c.Caller.Actor(), OrgID: c.Caller.OrgID}, resource.TextOrEmpty(body.Note))
		if err != nil {
			return webhook.Deposit{}, err
		}
		return wire.Deposit(decided), nil
	}
}

// refuseOperatorOnly refuses decisions that only the operator makes. Rule DEP-33.
func (a *api) refuseOperatorOnly(*call) error {
	return fault.New(fault.Forbidden, fault.OperatorOnly, fault.NothingWritten,
		"Only the operator of this service can redirect a flagged deposit or complete a stuck "+
			"resolution.").
		WithAdvice("Ask the operator of this service.")
}

func (a *api) flaggedRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/approve", Name: "approveDeposit",
			Action: identity.DecideFlaggedDeposit, Group: "Deposits",
			Summary: "Approve a flagged deposit",
			Text: "Credits the flagged deposit to your customer at once and sends CUSTOMER_DEPOSIT_APPROVED. It " +
				"sends " +
				"no second CUSTOMER_DEPOSIT. The call is available once the operator of this service switches " +
				"flaggedDepositApiEnabled on for your organization." + resource.DecidedOnceText + " The body may be " +
				"left out.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The deposit, now CREDITED."}},
			Faults:  append([]fault.Code{fault.FeatureDisabled}, resource.ApprovalFaults...),
			Before:  kernel.Check(a.requireDecisions),
			Handler: kernel.HandleBody(a.decideDeposit((*deposit.Service).Approve),
				resource.DecisionNote{Note: new("The source of funds is known.")},
				resource.ExampleApprovedDeposit,
			),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/reject", Name: "rejectDeposit",
			Action: identity.DecideFlaggedDeposit, Group: "Deposits",
			Summary: "Reject a flagged deposit",
			Text: "Sends the flagged deposit back to the address that it came from. The network fee comes out of a " +
				"native coin; of SOL the whole amount goes back, except what the network requires to stay on the " +
				"address. The deposit is REJECTING until the transfer is final. Then it is REJECTED, resolution has " +
				"the " +
				"hash, and the service sends CUSTOMER_DEPOSIT_REJECTED. If an attempt fails before anything can " +
				"reach " +
				"the chain, the deposit is FLAGGED again and resolutionAttempts has the attempt. After that point " +
				"only " +
				"the operator can complete it. Look at returnAddressRisk and flagReason first. The call is available " +
				"once the operator of this service switches flaggedDepositApiEnabled on for your " +
				"organization." + resource.DecidedOnceText + " " +
				"The body may be left out. Only the operator can redirect a deposit: POST " +
				"/deposits/{depositId}/redirect " +
				"answers 403 OPERATOR_ONLY.",
			Optional: true, Retryable: true,
			Answers: []kernel.Success{{Status: http.StatusAccepted, Text: "The deposit, now REJECTING."}},
			Faults:  append([]fault.Code{fault.FeatureDisabled, fault.OperatorOnly}, resource.ReturnFaults...),
			Before:  kernel.Check(a.requireDecisions),
			Handler: kernel.HandleBody(a.decideDeposit((*deposit.Service).Reject),
				resource.DecisionNote{Note: new("Not one of our customers' wallets.")},
				resource.ExampleRejecting,
			),
		},
	}
}

// forbiddenRoutes are operator-only calls, which organizations are refused.
func (a *api) forbiddenRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/redirect", Name: "redirectDeposit",
			Action:  identity.DecideFlaggedDeposit,
			Handler: kernel.HandleEmpty(a.refuseOperatorOnly),
		},
		{
			Method: http.MethodPost, Path: "/deposits/{depositId}/complete", Name: "completeDeposit",
			Action:  identity.DecideFlaggedDeposit,
			Handler: kernel.HandleEmpty(a.refuseOperatorOnly),
		},
	}
}
