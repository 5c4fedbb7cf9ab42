package deposit

import (
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
)

// Facts hold everything that decides about a final deposit that is to leave SCREENING.
type Facts struct {
	deposit      storedDeposit
	record       *risk.DepositRecord // what screening decided; nil: it was not screened
	usd          *money.USD          // what the deposit is worth; nil: no fresh price
	isKeyAccount bool                // the chain reports that the sender is a key account

	isMintUsable     bool // the mint is in the catalogue and not in quarantine
	isFinalityBroken bool // the finality of the chain is in question
	isWalletProven   bool // the signer attested the address for this owner
	isUnchanged      bool // the deposit is the one that was checked
	areSettingsKept  bool // the settings are those that screening decided by
	isDeep           bool // its block is as deep as its tier asks for
	hasCreditWallet  bool // its organization has the wallet that the chain credits
	isOperators      bool // it belongs to the operator and is not screened

	now time.Time
}

// Plan says what a deposit becomes: CREDITED or FLAGGED.
type Plan struct{ After storedDeposit }

// Rejection says why a deposit stays in SCREENING: nothing is written about it.
type Rejection string

// Reasons why a deposit stays.
const (
	rejectedMintUnusable    Rejection = "its mint is in quarantine or has left the catalogue"
	rejectedFinalityBroken  Rejection = "the finality of its chain is in question"
	rejectedWalletUnproven  Rejection = "its wallet is not proven to belong to this service"
	rejectedChanged         Rejection = "it changed since it was checked"
	rejectedSettingsChanged Rejection = "the settings of its organization changed since it was decided"
	rejectedTooShallow      Rejection = "its block has too few confirmations"
	rejectedWithoutTreasury Rejection = "its organization has no treasury on this chain"
	rejectedUndecided       Rejection = "no decision says that it is credited or flagged"
)

// Decide decides about a final deposit, with its block or after it was screened. It is pure: it
// reads the facts and nothing else. Only an explicit decision of screening credits or flags a
// deposit that is screened. A deposit that is rejected is decided again later. Rules DEP-3, DEP-15
// and RISK-4.
func Decide(f Facts) (Plan, Rejection) {
	switch {
	case !f.isMintUsable:
		return Plan{}, rejectedMintUnusable
	case f.isFinalityBroken:
		return Plan{}, rejectedFinalityBroken
	case !f.isWalletProven:
		return Plan{}, rejectedWalletUnproven
	case !f.isUnchanged:
		return Plan{}, rejectedChanged
	case !f.areSettingsKept:
		return Plan{}, rejectedSettingsChanged
	case !f.isDeep:
		return Plan{}, rejectedTooShallow
	case !f.hasCreditWallet:
		return Plan{}, rejectedWithoutTreasury
	}
	after := f.deposit
	after.usd, after.screening = f.usd, screeningNotConfigured
	if f.record != nil {
		after.screening = encodeScreening(*f.record)
	}
	switch {
	case f.record == nil && f.isOperators, f.record != nil && f.record.Decision.Outcome == risk.Credit:
		after.status, after.creditedAt = Credited, &f.now
	case f.record != nil && f.record.Decision.Outcome == risk.Flag:
		after.status, after.flag = Flagged, newFlag(after, *f.record, f.isKeyAccount, f.now)
	default:
		return Plan{}, rejectedUndecided
	}
	return Plan{After: after}, ""
}
