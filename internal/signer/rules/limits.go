package rules

import (
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// feeAccount returns the account that pays the fee of an intent.
func (x *journalIndex) feeAccount(intent signer.Intent) limits.Account {
	return limits.Account{Address: x.wallets[intent.Account()].address, Chain: intent.Chain}
}

// isTimeLimited reports whether a limit of time applies to an intent, as to each that pays a swap provider or what a
// swap brought.
func (eng *Engine) isTimeLimited(policy signpolicy.Chain, intent signer.Intent) bool {
	isOwnPayment := intent.PaysOwnMoney() && !eng.conf.Rescue
	return policy.FeeDayLimit() != nil || intent.Swap != nil || limits.DependOnTime(eng.conf.Policy, intent) ||
		intent.SwapPayout() != nil ||
		isOwnPayment && eng.conf.Policy.CoolingOff() > 0
}
