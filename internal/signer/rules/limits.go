package rules

import (
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// feeAccount returns the account that pays the fee of an intent.
func (x *journalIndex) feeAccount(intent signer.Intent) limits.Account {
	return limits.Account{Address: x.wallets[intent.Account()].address, Chain: intent.Chain}
}

// isTimeLimited reports whether a limit of time applies to an intent, as to each that pays a swap provider.
func (eng *Engine) isTimeLimited(policy signpolicy.Chain, intent signer.Intent) bool {
	isOwnPayment := intent.PaysOwnMoney() && !eng.conf.Rescue
	return policy.FeeDayLimit() != nil || intent.Swap != nil || limits.DependOnTime(eng.conf.Policy, intent) ||
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
