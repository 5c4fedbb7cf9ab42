package rules

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// limitScope identifies a limit.
type limitScope struct {
	provider string // of swaps; "" for other payments, which count apart
	chain    chain.Name
	contract chain.Address
	org      string // "" for all organizations together
}

func limitScopes(intent signer.Intent) [2]limitScope {
	scope := limitScope{chain: intent.Chain, contract: intent.Contract}
	if intent.Swap != nil {
		scope.provider = intent.Swap.Provider
	}
	ofOrganization := scope
	ofOrganization.org = intent.From.OrgID
	return [2]limitScope{ofOrganization, scope}
}

// findLimit returns the limit of an intent that leaves the installation, and the section of the policy that has
// it. A nil limit means that there is none; ok is false if the policy does not allow the asset.
func (eng *Engine) findLimit(
	c signpolicy.Chain, intent signer.Intent,
) (limit *signpolicy.Limit, section string, ok bool) {
	if intent.Swap == nil {
		limit, ok = c.AssetLimit(intent.Contract)
		return limit, fmt.Sprintf("chains.%s.assets", intent.Chain), ok
	}
	provider := eng.conf.Policy.EffectiveSwaps().Providers[intent.Swap.Provider]
	limit, ok = provider.AssetLimit(intent.Chain, intent.Contract)
	return limit, fmt.Sprintf("swaps.providers.%s.limits", intent.Swap.Provider), ok
}

// feeAccount identifies an account whose fees are counted.
type feeAccount struct {
	address chain.Address
	chain   chain.Name
}

// feeAccount returns the account that pays the fee of an intent.
func (x *journalIndex) feeAccount(intent signer.Intent) feeAccount {
	return feeAccount{x.wallets[intent.Account()].address, intent.Chain}
}

// checkFee checks whether a wallet may sign for a further fee, without taking it.
func (x *journalIndex) checkFee(p signpolicy.Chain, account feeAccount, added money.Amount, now time.Time) error {
	limit := p.FeeDayLimit()
	if limit == nil {
		return nil
	}
	spent := x.feeTotals.SumWithin(account, now)
	if total, err := spent.Add(added); err != nil || limit.Less(total) {
		return signer.Refuse(signer.FeeLimit,
			"%s has signed for fees of %v on %s in 24 hours; %v more would exceed feeDayMax of the policy, %v: wait "+
				"until the day has passed, or find out what spends so much and raise it", account.address, spent,
			account.chain, added, *limit)
	}
	return nil
}

// checkCurrent checks one payment against the present policy. The limits that cover more than one
// payment were taken when it was admitted.
func (eng *Engine) checkCurrent(c signpolicy.Chain, intent signer.Intent) *signer.Refusal {
	switch {
	case intent.LeavesInstallation():
		limit, section, ok := eng.findLimit(c, intent)
		if !ok {
			return signer.Refuse(signer.PolicyLimit, "the policy has no limit for asset %q on %s any more, under %s",
				intent.Contract, intent.Chain, section)
		}
		if limit != nil && limit.PaymentMax.Less(intent.Amount) {
			return signer.Refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s now; this is %v",
				limit.PaymentMax, intent.Contract, intent.Chain, intent.Amount)
		}
	case intent.Kind().PaysGas && c.GasMax.Less(intent.Amount):
		return signer.Refuse(signer.PolicyLimit, "one gas top-up on %s may be at most %v now; this is %v", intent.Chain,
			c.GasMax, intent.Amount)
	}
	return nil // the cost of the others is a fee
}

// checkPayment checks a payment against the limits, without taking them.
func (eng *Engine) checkPayment(p signpolicy.Chain, intent signer.Intent, now time.Time) error {
	if !intent.LeavesInstallation() {
		return nil
	}
	limit, section, ok := eng.findLimit(p, intent)
	if !ok {
		return signer.Refuse(signer.RefusedNotConfigured,
			"the policy has no limit for asset %q on %s: add it under %s", intent.Contract, intent.Chain, section)
	}
	if limit == nil {
		return nil
	}
	if limit.PaymentMax.Less(intent.Amount) {
		return signer.Refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s; this is %v",
			limit.PaymentMax, intent.Contract, intent.Chain, intent.Amount)
	}
	scopes := limitScopes(intent)
	for n, bound := range []struct {
		name  string
		limit money.Amount
	}{{"organization " + intent.From.OrgID, limit.OrganizationMax}, {"installation", limit.OverallMax}} {
		spent := eng.index.paymentTotals.SumWithin(scopes[n], now)
		if total, err := spent.Add(intent.Amount); err != nil || bound.limit.Less(total) {
			return signer.Refuse(signer.PolicyLimit,
				"the %s may pay at most %v units of %q on %s in 24 hours; this is %v on top of %v",
				bound.name, bound.limit, intent.Contract, intent.Chain, intent.Amount, spent)
		}
	}
	return nil
}

// isTimeLimited reports whether a limit of time applies to an intent.
func (eng *Engine) isTimeLimited(policy signpolicy.Chain, intent signer.Intent) bool {
	if intent.Swap != nil {
		return true // until it has to be signed
	}
	limit, _ := policy.AssetLimit(intent.Contract)
	isOwnPayment := intent.PaysOwnMoney() && !eng.conf.Rescue
	return policy.FeeDayLimit() != nil || intent.IsOutgoing() && limit != nil ||
		isOwnPayment && eng.conf.Policy.CoolingOff() > 0
}

// refuseUnconfirmed returns the refusal of an intent that depends on a limit of time.
func refuseUnconfirmed(ahead time.Duration) *signer.Refusal {
	return signer.Refuse(signer.RefusedClock,
		"the clock of the signer's host is %s ahead of the time that the signer has seen pass, and the daily limits "+
			"depend on it: nothing was admitted and this payment waits. Check that clock; when it is right, stop the "+
			"signer and run `coffer signer clock confirm` on its host",
		ahead.Round(time.Second))
}
