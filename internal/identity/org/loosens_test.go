package org

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/risk"
)

// scale has values of a setting, the tightest first. Values with the same effect share a group, and
// null is in the group of its effect.
type scale [][]string

func (s scale) place(value string) int {
	return slices.IndexFunc(s, func(group []string) bool { return slices.Contains(group, value) })
}

// A setting without a scale controls nothing. For one with two scales the installation decides
// which applies: a change that loosens the control by either is one that loosens it.
// Rules OP-7, OP-10.
func TestEveryPairOfValuesOfASettingIsComparedByItsEffect(t *testing.T) {
	t.Parallel()
	entry := func(customer, active string) string {
		return `[{"email":"eve@example.com"` + customer + `,"active":` + active + `}]`
	}
	dollars := []scale{{{`"0"`}, {`"9.99"`}, {`"10"`, `"10.00"`}, {`"999999999999"`}, {`null`}}}
	scales := map[string][]scale{
		// Unset, no deposit is screened.
		"screeningSeverityThreshold":   {{{`"NONE"`}, {`"LOW"`}, {`"MEDIUM"`}, {`"HIGH"`}, {`"SEVERE"`}, {`null`}}},
		"screeningUsdThreshold":        dollars,
		"customerWithdrawUsdThreshold": dollars,
		"twoFactorUsdThreshold":        dollars,
		"withdrawSeverityThreshold": {
			// Unset, HIGH applies where the installation screens: SEVERE destinations are refused.
			{{`"NONE"`}, {`"LOW"`}, {`"MEDIUM"`}, {`"HIGH"`, `null`}, {`"SEVERE"`}},
			// Where it does not screen, a threshold holds every withdrawal and null holds none.
			{{`"NONE"`, `"LOW"`, `"MEDIUM"`, `"HIGH"`, `"SEVERE"`}, {`null`}},
		},
		"approvalAllowlist":          {{{`[]`, entry("", "false")}, {entry("", "true")}}},
		"approvalQuorum":             {{{`10`}, {`2`}, {`1`}}},
		"ipAllowlist":                {{{`["127.0.0.1"]`, `["127.0.0.1/32"]`}, {`["127.0.0.0/8"]`}, {`[]`}}},
		"flaggedDepositApiEnabled":   {{{`false`}, {`true`}}},
		"requireWithdrawIdempotency": {{{`true`}, {`false`}}},
		"customerFeeDayUsd":          dollars,
		"chargeCustomerCosts":        {{{`"RENT_AND_FAILURES"`}, {`"RENT"`}, {`"NONE"`}}},
		"additionalApiKeys":          {{{`false`}, {`true`}}},
		"batchAutoApproveUsd":        {{{`null`, `"0"`}, {`"0.01"`}, {`"500"`, `"500.00"`}}},
		"customerSwapsEnabled":       {{{`false`}, {`true`}}},
		"organizationSwapsEnabled":   {{{`false`}, {`true`}}},
		"swappableMintIds":           {{{`[]`}, {`[1]`}, {`[1,2]`, `[2,1]`}}},
		"swapFeeBps":                 nil,
		"autoRestoreFailedSwaps":     nil,
	}
	if string(withdrawDefault) != string(risk.WithdrawalThreshold) {
		t.Errorf("got %s where no threshold is set, want %s, by which withdrawals are decided", withdrawDefault,
			risk.WithdrawalThreshold)
	}
	fresh := Settings{ApprovalQuorum: 1}
	for _, item := range settings {
		field, known := scales[item.name]
		if !known {
			t.Errorf("%s is not in this table: add its values, the tightest first", item.name)
			continue
		}
		if (field == nil) != (item.loosens == nil) {
			t.Errorf("%s: got a control %v, want %v", item.name, item.loosens != nil, field != nil)
			continue
		}
		if field == nil {
			continue
		}
		if began, err := json.Marshal(item.show(fresh)); err != nil || field[0].place(string(began)) < 0 {
			t.Errorf("%s: the table does not have %s, the value of a new organization (%v)", item.name, began, err)
		}
		values := slices.Concat(field[0]...)
		for _, from := range values {
			for _, next := range values {
				before, err := Changes{item.name: json.RawMessage(from)}.applyTo(fresh)
				if err != nil {
					t.Fatalf("%s: %s: %v", item.name, from, err)
				}
				after, err := Changes{item.name: json.RawMessage(next)}.applyTo(before)
				if err != nil {
					t.Fatalf("%s: %s: %v", item.name, next, err)
				}
				got := slices.ContainsFunc(findDifferences(before, after), func(d Difference) bool {
					return d.Loosening
				})
				want := slices.ContainsFunc(field, func(s scale) bool { return s.place(next) > s.place(from) })
				if got != want {
					t.Errorf("%s from %s to %s: got loosening %v, want %v", item.name, from, next, got, want)
				}
			}
		}
	}
}
