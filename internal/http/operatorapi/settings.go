package operatorapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// OrganizationSettings are an organization's settings in force. Unavailable names those that are
// stored but have no effect in this version.
type OrganizationSettings struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`

	ScreeningSeverityThreshold   *string           `json:"screeningSeverityThreshold"`
	ScreeningUSDThreshold        *string           `json:"screeningUsdThreshold"`
	CustomerWithdrawUSDThreshold *string           `json:"customerWithdrawUsdThreshold"`
	TwoFactorUSDThreshold        *string           `json:"twoFactorUsdThreshold"`
	WithdrawSeverityThreshold    *string           `json:"withdrawSeverityThreshold"`
	ApprovalAllowlist            []ApprovalAllowed `json:"approvalAllowlist"`
	ApprovalQuorum               int               `json:"approvalQuorum"`
	IPAllowlist                  []string          `json:"ipAllowlist"`
	CustomerSwapsEnabled         bool              `json:"customerSwapsEnabled"`
	OrganizationSwapsEnabled     bool              `json:"organizationSwapsEnabled"`
	SwappableMintIDs             []int             `json:"swappableMintIds"`
	SwapFeeBps                   int               `json:"swapFeeBps"`
	FlaggedDepositAPIEnabled     bool              `json:"flaggedDepositApiEnabled"`
	AutoRestoreFailedSwaps       bool              `json:"autoRestoreFailedSwaps"`
	RequireWithdrawIdempotency   bool              `json:"requireWithdrawIdempotency"`
	CustomerFeeDayUSD            *string           `json:"customerFeeDayUsd"`
	ChargeCustomerCosts          string            `json:"chargeCustomerCosts"`
	AdditionalAPIKeys            bool              `json:"additionalApiKeys"`
	BatchAutoApproveUSD          *string           `json:"batchAutoApproveUsd"`

	Unavailable    []string        `json:"unavailable" doc:"Settings that the service stores and does not apply yet: they belong to features that this version does not have."`
	ChangeRequests []ChangeRequest `json:"changeRequests" doc:"Changes that loosen a control of this organization and wait for a second operator. They are not in force yet."`
	UpdatedAt      webhook.Time    `json:"updatedAt" doc:"When one of the settings last changed."`
}

// ApprovalAllowed is an entry of the approval allowlist.
type ApprovalAllowed struct {
	Email      string  `json:"email" doc:"The e-mail. The service stores and compares it in lower case and Unicode NFKC."`
	CustomerID *string `json:"customerId,omitempty"`
	Active     *bool   `json:"active,omitempty" doc:"Whether the entry counts; true when it is left out."`
}

// SettingsChange is the body of PATCH /organizations/{organizationId}/settings. Settings that it
// does not name stay. Only a threshold takes null, which switches it off.
type SettingsChange struct {
	ScreeningSeverityThreshold   *string           `json:"screeningSeverityThreshold,omitempty"`
	ScreeningUSDThreshold        *string           `json:"screeningUsdThreshold,omitempty"`
	CustomerWithdrawUSDThreshold *string           `json:"customerWithdrawUsdThreshold,omitempty"`
	TwoFactorUSDThreshold        *string           `json:"twoFactorUsdThreshold,omitempty"`
	WithdrawSeverityThreshold    *string           `json:"withdrawSeverityThreshold,omitempty"`
	ApprovalAllowlist            []ApprovalAllowed `json:"approvalAllowlist,omitempty"`
	ApprovalQuorum               int               `json:"approvalQuorum,omitempty"`
	IPAllowlist                  []string          `json:"ipAllowlist,omitempty"`
	CustomerSwapsEnabled         bool              `json:"customerSwapsEnabled,omitempty"`
	OrganizationSwapsEnabled     bool              `json:"organizationSwapsEnabled,omitempty"`
	SwappableMintIDs             []int             `json:"swappableMintIds,omitempty"`
	SwapFeeBps                   int               `json:"swapFeeBps,omitempty"`
	FlaggedDepositAPIEnabled     bool              `json:"flaggedDepositApiEnabled,omitempty"`
	AutoRestoreFailedSwaps       bool              `json:"autoRestoreFailedSwaps,omitempty"`
	RequireWithdrawIdempotency   bool              `json:"requireWithdrawIdempotency,omitempty"`
	CustomerFeeDayUSD            *string           `json:"customerFeeDayUsd,omitempty"`
	ChargeCustomerCosts          *string           `json:"chargeCustomerCosts,omitempty"`
	AdditionalAPIKeys            bool              `json:"additionalApiKeys,omitempty"`
	BatchAutoApproveUSD          *string           `json:"batchAutoApproveUsd,omitempty"`
}

func showSettings(orgID string, s org.Settings, waiting []changerequest.Request) OrganizationSettings {
	shown := OrganizationSettings{
		OrganizationID:               orgID,
		ScreeningSeverityThreshold:   resource.OptionalText(string(s.ScreeningSeverityThreshold)),
		ScreeningUSDThreshold:        usdText(s.ScreeningUSDThreshold),
		CustomerWithdrawUSDThreshold: usdText(s.CustomerWithdrawUSDThreshold),
		TwoFactorUSDThreshold:        usdText(s.TwoFactorUSDThreshold),
		WithdrawSeverityThreshold:    resource.OptionalText(string(s.WithdrawSeverityThreshold)),
		ApprovalAllowlist:            []ApprovalAllowed{}, ApprovalQuorum: s.ApprovalQuorum,
		IPAllowlist: []string{}, CustomerSwapsEnabled: s.CustomerSwapsEnabled,
		OrganizationSwapsEnabled: s.OrganizationSwapsEnabled,
		SwappableMintIDs:         append([]int{}, s.SwappableMintIDs...), SwapFeeBps: s.SwapFeeBps,
		FlaggedDepositAPIEnabled: s.FlaggedDepositAPIEnabled,
		AutoRestoreFailedSwaps:   s.AutoRestoreFailedSwaps, RequireWithdrawIdempotency: s.RequireWithdrawIdempotency,
		CustomerFeeDayUSD:   usdText(s.CustomerFeeDayUSD),
		ChargeCustomerCosts: string(cmp.Or(s.ChargeCustomerCosts, org.ChargeNone)),
		AdditionalAPIKeys:   s.AdditionalAPIKeys,
		BatchAutoApproveUSD: usdText(s.BatchAutoApproveUSD),
		Unavailable:         listUnavailable(), ChangeRequests: []ChangeRequest{},
		UpdatedAt: webhook.At(s.UpdatedAt),
	}
	for _, r := range waiting {
		shown.ChangeRequests = append(shown.ChangeRequests, showChange(r))
	}
	for _, e := range s.ApprovalAllowlist {
		shown.ApprovalAllowlist = append(shown.ApprovalAllowlist,
			ApprovalAllowed{e.Email, resource.OptionalText(e.CustomerID), &e.Active})
	}
	for _, p := range s.IPAllowlist {
		shown.IPAllowlist = append(shown.IPAllowlist, p.String())
	}
	return shown
}

func usdText(v *money.USD) *string {
	if v == nil {
		return nil
	}
	return new(v.String())
}

// readChanges reads the changes from a decoded body, so that null and absent settings are
// distinguished.
func readChanges(body []byte) (wanted org.Changes, err error) {
	if err := json.Unmarshal(body, &wanted); err != nil {
		return nil, fmt.Errorf("read decoded settings: %w", err)
	}
	return wanted, wanted.Check()
}

func (a *api) getSettings(c *call) (OrganizationSettings, error) {
	name, err := organizationID(c)
	if err != nil {
		return OrganizationSettings{}, err
	}
	var s org.Settings
	var waiting []changerequest.Request
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if s, err = org.SettingsOf(ctx, tx, name); err == nil {
			waiting, err = changerequest.ListPending(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return OrganizationSettings{}, err
	}
	return showSettings(name, s, waiting), nil
}

func (a *api) changeSettings(c *call, body SettingsChange) (OrganizationSettings, error) {
	name, err := organizationID(c)
	if err != nil {
		return OrganizationSettings{}, err
	}

	wanted, err := readChanges(c.Body)
	if err != nil {
		return OrganizationSettings{}, err
	}
	var outcome org.Outcome
	var waiting []changerequest.Request
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if outcome, err = org.RequestChange(ctx, tx, c.Caller.Key, a.conf.FourEyes, name, wanted); err == nil {
			waiting, err = changerequest.ListPending(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return OrganizationSettings{}, err
	}
	return showSettings(name, outcome.Settings, waiting), nil
}

// checkPlainText refuses text that is too long or has control characters.
func checkPlainText(name, s string, bytesMax int) error {
	if len(s) > bytesMax || strings.ContainsFunc(s, unicode.IsControl) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%s may have at most %d bytes and no control characters.", name, bytesMax).
			WithAdvice("Correct it.").WithParam(name)
	}
	return nil
}

// listUnavailable returns the settings that have no effect in this version; never nil, which would be null.
func listUnavailable() []string {
	return append([]string{}, kernel.SortedKeys(org.UnavailableSettings)...)
}
