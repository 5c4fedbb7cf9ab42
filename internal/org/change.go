package org

import (
	"context"
	"net/netip"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
)

// To is a setting to write. Nil leaves the setting as it is.
type To[T any] struct{ Value T }

// Changes are settings to write, all or none.
type Changes struct {
	CustomerWithdrawUSDThreshold *To[*money.USD]
	RequireWithdrawIdempotency   *To[bool]
	IPAllowlist                  *To[[]netip.Prefix] // as ParseIPAllowlist reads it
}

// Change writes settings in a transaction of the system, each with its row in the
// audit log, and returns what then holds. It waits for whoever decides by the
// settings of before, and is seen by whoever decides later. Error: NOT_FOUND.
func Change(ctx context.Context, tx pg.Tx, by audit.Actor, org string, c Changes) (Settings, error) {
	var acts []func() error
	if to := c.CustomerWithdrawUSDThreshold; to != nil {
		acts = append(acts, func() error { return SetWithdrawThreshold(ctx, tx, by, org, to.Value) })
	}
	if to := c.RequireWithdrawIdempotency; to != nil {
		acts = append(acts, func() error { return SetRequireWithdrawIdempotency(ctx, tx, by, org, to.Value) })
	}
	if to := c.IPAllowlist; to != nil {
		acts = append(acts, func() error { return SetIPAllowlist(ctx, tx, by, org, to.Value) })
	}
	for _, act := range acts {
		if err := act(); err != nil {
			return Settings{}, err
		}
	}
	return SettingsOf(ctx, tx, org)
}

// Later are the settings that the interface names and this version cannot act on,
// each with what is missing. They stand at what switches them off, and are not
// stored otherwise: a limit that nothing looks at would be believed.
var Later = map[string]string{
	"screeningSeverityThreshold": "risk screening of deposits",
	"screeningUsdThreshold":      "risk screening of deposits",
	"withdrawSeverityThreshold":  "risk screening of destinations",
	"twoFactorUsdThreshold":      "the dashboard",
	"approvalAllowlist":          "the list of customers whose withdrawals need no approval",
	"approvalQuorum":             "more than one approval for a withdrawal",
	"customerSwapsEnabled":       "swaps",
	"organizationSwapsEnabled":   "swaps",
	"swappableMintIds":           "swaps",
	"swapFeeBps":                 "swaps",
	"autoRestoreFailedSwaps":     "swaps",
	"flaggedDepositApiEnabled":   "risk screening of deposits",
}

// NotYet refuses to set one of Later.
func NotYet(setting string) error {
	return fault.New(fault.Forbidden, fault.FeatureDisabled,
		"%s cannot be set: this version does not have %s, so the setting would have no effect. Nothing was changed and no money moved. Leave it out.",
		setting, Later[setting]).On(setting)
}
