// Package limits says how much may be paid and spent on fees: by one payment, and by all of 24 hours of the
// journal's time. It also says how much a sweep has to leave.
//
// The sums follow from the journal's entries alone, and are kept with or without a limit. So a limit that is set
// later counts what was before. Payments to a swap provider have limits of their own.
package limits

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/window"
)

// Book holds the sums of admitted payments, and of what signed transactions may cost.
type Book struct {
	payments window.Totals[scope]
	fees     window.Totals[Account]
	// unapproved has what rows of batches pay that no person approved: in 24 hours, and of each batch permanently.
	unapproved window.Totals[asset]
	batches    map[batchAsset]money.Amount
	batchMints map[batchMint]money.Amount
}

// asset identifies an asset of a chain.
type asset struct {
	chain    chain.Name
	contract chain.Address
}

// batchAsset and batchMint identify what a batch pays of an asset, and of a mint of the service. A caller could name
// one asset as several mints.
type batchAsset struct {
	org, batchID string
	asset
}

type batchMint struct {
	org, batchID string
	mintID       int
}

// scope identifies a limit.
type scope struct {
	provider string // of swaps; "" for other payments, which count apart
	chain    chain.Name
	contract chain.Address
	org      string // "" for all organizations together
}

// Account identifies an account whose fees are counted.
type Account struct {
	Address chain.Address
	Chain   chain.Name
}

// NewBook returns the book of an empty journal.
func NewBook() *Book {
	return &Book{
		payments: window.Totals[scope]{}, fees: window.Totals[Account]{}, unapproved: window.Totals[asset]{},
		batches: map[batchAsset]money.Amount{}, batchMints: map[batchMint]money.Amount{},
	}
}

// Clear forgets everything that a window of time has, to be counted anew.
func (b *Book) Clear() {
	clear(b.payments)
	clear(b.fees)
	clear(b.unapproved)
}

func scopesOf(intent signer.Intent) [2]scope {
	overall := scope{chain: intent.Chain, contract: intent.Contract}
	if intent.Swap != nil {
		overall.provider = intent.Swap.Provider
	}
	ofOrganization := overall
	ofOrganization.org = intent.From.OrgID
	return [2]scope{ofOrganization, overall}
}

// CountPayment counts an admitted intent, if it leaves the installation.
func (b *Book) CountPayment(intent signer.Intent, paidAt time.Time) {
	if !intent.LeavesInstallation() {
		return
	}
	for _, s := range scopesOf(intent) {
		b.payments.Add(s, intent.Amount, paidAt)
	}
	if intent.IsUnapproved() {
		b.unapproved.Add(asset{intent.Chain, intent.Contract}, intent.Amount, paidAt)
	}
}

// CountAdmitted counts an intent that is admitted now. A row of a batch that no person approved counts in its batch,
// too, and no time ends that. Rule BP-61.
func (b *Book) CountAdmitted(intent signer.Intent, paidAt time.Time) {
	b.CountPayment(intent, paidAt)
	if !intent.IsUnapproved() {
		return
	}
	ofAsset, ofMint := batchKeys(intent)
	b.batches[ofAsset] = addUpTo(b.batches[ofAsset], intent.Amount)
	b.batchMints[ofMint] = addUpTo(b.batchMints[ofMint], intent.Amount)
}

func batchKeys(intent signer.Intent) (batchAsset, batchMint) {
	org, batchID := intent.From.OrgID, intent.Batch.BatchID
	return batchAsset{org, batchID, asset{intent.Chain, intent.Contract}}, batchMint{org, batchID, intent.MintID}
}

// addUpTo returns a sum, or the largest amount if the sum is beyond it.
func addUpTo(a, b money.Amount) money.Amount {
	sum, err := a.Add(b)
	if err != nil {
		return window.AmountMax
	}
	return sum
}

// CountFee counts what a signed transaction may cost.
func (b *Book) CountFee(account Account, amount money.Amount, chargedAt time.Time) {
	b.fees.Add(account, amount, chargedAt)
}

// CheckFee checks whether a wallet may sign for a further fee, without taking it.
func (b *Book) CheckFee(p signpolicy.Chain, account Account, added money.Amount, now time.Time) error {
	limit := p.FeeDayLimit()
	if limit == nil {
		return nil
	}
	spent := b.fees.SumWithin(account, now)
	if total, err := spent.Add(added); err != nil || limit.Less(total) {
		return signer.Refuse(signer.FeeLimit,
			"%s has signed for fees of %v on %s in 24 hours; %v more would exceed feeDayMax of the policy, %v: wait "+
				"until the day has passed, or find out what spends so much and raise it", account.Address, spent,
			account.Chain, added, *limit)
	}
	return nil
}

// find returns the limit of an intent that leaves the installation, and the section of the policy that has it. A
// nil limit means that there is none; ok is false if the policy does not allow the asset.
func find(p signpolicy.Policy, intent signer.Intent) (limit *signpolicy.Limit, section string, ok bool) {
	if intent.Swap == nil {
		limit, ok = p.Chains[intent.Chain].AssetLimit(intent.Contract)
		return limit, fmt.Sprintf("chains.%s.assets", intent.Chain), ok
	}
	provider := p.EffectiveSwaps().Providers[intent.Swap.Provider]
	limit, ok = provider.AssetLimit(intent.Chain, intent.Contract)
	return limit, fmt.Sprintf("swaps.providers.%s.limits", intent.Swap.Provider), ok
}

// DependOnTime reports whether a limit of a day applies to an intent.
func DependOnTime(p signpolicy.Policy, intent signer.Intent) bool {
	limit, _, _ := find(p, intent)
	return intent.LeavesInstallation() && limit != nil || intent.IsUnapproved()
}

// CheckCurrent checks one payment against the present policy. The limits that cover more than one
// payment were taken when it was admitted.
func CheckCurrent(p signpolicy.Policy, intent signer.Intent) *signer.Refusal {
	gasMax := p.Chains[intent.Chain].GasMax
	switch {
	case intent.LeavesInstallation():
		limit, section, ok := find(p, intent)
		if !ok {
			return signer.Refuse(signer.PolicyLimit, "the policy has no limit for asset %q on %s any more, under %s",
				intent.Contract, intent.Chain, section)
		}
		if limit != nil && limit.PaymentMax.Less(intent.Amount) {
			return signer.Refuse(signer.PolicyLimit, "one payment may be at most %v units of %q on %s now; this is %v",
				limit.PaymentMax, intent.Contract, intent.Chain, intent.Amount)
		}
		if intent.IsUnapproved() {
			return checkNamed(p, intent)
		}
	case intent.Kind().PaysGas && gasMax.Less(intent.Amount):
		return signer.Refuse(signer.PolicyLimit, "one gas top-up on %s may be at most %v now; this is %v", intent.Chain,
			gasMax, intent.Amount)
	}
	return nil // the cost of the others is a fee
}

// CheckPayment checks a payment against the limits, without taking them. inBatch is what checkUnapproved says.
func (b *Book) CheckPayment(p signpolicy.Policy, intent signer.Intent, inBatch money.Amount, now time.Time) error {
	if !intent.LeavesInstallation() {
		return nil
	}
	if err := b.checkUnapproved(p, intent, inBatch, now); err != nil {
		return err
	}
	limit, section, ok := find(p, intent)
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
	scopes := scopesOf(intent)
	for n, bound := range []struct {
		name  string
		limit money.Amount
	}{{"organization " + intent.From.OrgID, limit.OrganizationMax}, {"installation", limit.OverallMax}} {
		spent := b.payments.SumWithin(scopes[n], now)
		if total, err := spent.Add(intent.Amount); err != nil || bound.limit.Less(total) {
			return signer.Refuse(signer.PolicyLimit,
				"the %s may pay at most %v units of %q on %s in 24 hours; this is %v on top of %v",
				bound.name, bound.limit, intent.Contract, intent.Chain, intent.Amount, spent)
		}
	}
	return nil
}

// checkNamed refuses a row of a batch that no person approved if the policy does not name its asset for that, or if the
// row alone is more than a whole batch may pay.
func checkNamed(p signpolicy.Policy, intent signer.Intent) *signer.Refusal {
	limit, isNamed := p.Chains[intent.Chain].UnapprovedBatches[intent.Contract]
	switch {
	case !isNamed:
		return signer.Refuse(signer.PolicyLimit,
			"no person approved batch %s, and the policy pays nothing of %q on %s without one: cancel the batch, and "+
				"let people approve its retry, or add the asset under chains.%s.unapprovedBatches",
			intent.Batch.BatchID, intent.Contract, intent.Chain, intent.Chain)
	case limit.BatchMax.Less(intent.Amount):
		return signer.Refuse(signer.PolicyLimit,
			"no person approved batch %s, and such a batch may pay at most %v units of %q on %s; this row is %v",
			intent.Batch.BatchID, limit.BatchMax, intent.Contract, intent.Chain, intent.Amount)
	}
	return nil
}

// checkUnapproved checks a row of a batch that no person approved, without taking the limits: what the batch pays in
// all by its header, what it has been paid so far, and what all such batches have been paid in 24 hours. inBatch is
// what the header says of the row's mint. It asks nothing of any other intent. Rules BP-60 to BP-62.
func (b *Book) checkUnapproved(p signpolicy.Policy, intent signer.Intent, inBatch money.Amount, now time.Time) error {
	if !intent.IsUnapproved() {
		return nil
	}
	if refusal := checkNamed(p, intent); refusal != nil {
		return refusal
	}
	limit := p.Chains[intent.Chain].UnapprovedBatches[intent.Contract]
	ofAsset, ofMint := batchKeys(intent)
	if paid := b.batchMints[ofMint]; inBatch.Less(addUpTo(paid, intent.Amount)) {
		return signer.Refuse(signer.RefusedGrant,
			"batch %s pays %v units of mint %d by its header, and %v were admitted: %v more are not among them",
			intent.Batch.BatchID, inBatch, intent.MintID, paid, intent.Amount)
	}
	if limit.BatchMax.Less(inBatch) {
		return signer.Refuse(signer.PolicyLimit,
			"no person approved batch %s, and such a batch may pay at most %v units of %q on %s; it pays %v: cancel "+
				"it, and let people approve its retry", intent.Batch.BatchID, limit.BatchMax, intent.Contract,
			intent.Chain, inBatch)
	}
	if paid := b.batches[ofAsset]; limit.BatchMax.Less(addUpTo(paid, intent.Amount)) {
		return signer.Refuse(signer.PolicyLimit,
			"no person approved batch %s, and such a batch may pay at most %v units of %q on %s; this is %v on top "+
				"of %v", intent.Batch.BatchID, limit.BatchMax, intent.Contract, intent.Chain, intent.Amount, paid)
	}
	spent := b.unapproved.SumWithin(asset{intent.Chain, intent.Contract}, now)
	if limit.DayMax.Less(addUpTo(spent, intent.Amount)) {
		return signer.Refuse(signer.PolicyLimit,
			"batches that no person approved may pay at most %v units of %q on %s in 24 hours; this is %v on top of %v",
			limit.DayMax, intent.Contract, intent.Chain, intent.Amount, spent)
	}
	return nil
}

// CheckBalance refuses a sweep that leaves less than the flagged part of its wallet. Rule DEP-28.
func CheckBalance(intent signer.Intent) *signer.Refusal {
	kind, balance := intent.Kind(), intent.WalletBalance
	if balance == nil {
		if kind.NeedsBalance {
			return signer.Refuse(signer.RefusedMalformed,
				"holds: %s %s does not say what its wallet has and how much of it is flagged", kind.Noun, intent.ID)
		}
		return nil
	}
	if remaining, err := balance.Total.Sub(intent.Amount); err != nil || remaining.Less(balance.Flagged) {
		return signer.Refuse(signer.RefusedHeld, "%s %s takes %v of %v, and %v of it is flagged and has to stay",
			kind.Noun, intent.ID, intent.Amount, balance.Total, balance.Flagged)
	}
	return nil
}

// RefuseUnconfirmed returns the refusal of an intent that depends on a limit of time.
func RefuseUnconfirmed(ahead time.Duration) *signer.Refusal {
	return signer.Refuse(signer.RefusedClock,
		"the clock of the signer's host is %s ahead of the time that the signer has seen pass, and the daily limits "+
			"depend on it: nothing was admitted and this payment waits. Check that clock; when it is right, stop the "+
			"signer and run `coffer signer clock confirm` on its host",
		ahead.Round(time.Second))
}
