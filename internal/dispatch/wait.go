package dispatch

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// WaitReason names what a queued order waits for, or an ended order whose proof is no longer live.
type WaitReason string

// The wait reasons. The table waitCauses says of each whom it concerns and what ends it.
const (
	WaitNone          WaitReason = ""           // its turn
	WaitFunds         WaitReason = "FUNDS"      // the source wallet does not hold the amount yet
	WaitGas           WaitReason = "GAS"        // the wallet cannot pay the fee yet
	WaitOutputs       WaitReason = "COINS"      // the wallet has the amount, and too few outputs can be spent
	WaitConsolidation WaitReason = "MERGE"      // the amount is in more outputs than one transaction spends
	WaitSlot          WaitReason = "SLOT"       // the wallet has no free slot on the chain
	WaitFreeze        WaitReason = "FREEZE"     // a freeze stops the order
	WaitQuarantine    WaitReason = "QUARANTINE" // the quarantine of its token stops the order
	WaitPaused        WaitReason = "PAUSED"     // the token lets the wallet pay no amount to anyone
	WaitSimulation    WaitReason = "SIMULATION" // the transaction would revert, or end otherwise than the books
	WaitProviders     WaitReason = "CHAIN"      // the providers do not answer
	WaitSigner        WaitReason = "SIGNER"     // the signer does not answer
	WaitClock         WaitReason = "CLOCK"      // the signer's clock has to be confirmed
	WaitFeeLimit      WaitReason = "FEE_LIMIT"  // a limit of the signer for fees, or for rows of batches
	WaitError         WaitReason = "ERROR"      // an error that the service does not know stopped it
	WaitBlock         WaitReason = "BLOCK"      // its transaction was sent again, or its block is not proven yet
	WaitEarlierNonce  WaitReason = "EARLIER"    // an earlier nonce of its wallet cannot be sent again yet
	WaitOperator      WaitReason = "PERSON"     // the chain has ended its slot in another way than the books
)

// Concern is whom a cause concerns. Orders of others do not wait for it.
type Concern string

// The concerns, from the smallest to the largest.
const (
	ConcernsOrder        Concern = "ORDER"
	ConcernsPayee        Concern = "PAYEE"
	ConcernsCustomer     Concern = "CUSTOMER"
	ConcernsWallet       Concern = "WALLET"
	ConcernsMint         Concern = "MINT" // at one wallet, or at all
	ConcernsFrozen       Concern = "FROZEN"
	ConcernsChain        Concern = "CHAIN"
	ConcernsInstallation Concern = "INSTALLATION"
)

// Ending is what ends a wait. The order then goes on by itself.
type Ending string

// The endings.
const (
	EndsAtTurn         Ending = "TURN"          // dispatch looks at the order again
	EndsWithFunds      Ending = "FUNDS"         // the missing funds arrive
	EndsWithOutputs    Ending = "OUTPUTS"       // outputs become final
	EndsWithSlot       Ending = "SLOT"          // a transaction ends, or a nonce account is created
	EndsWithFreeze     Ending = "FREEZE_LIFTED" // an operator lifts the freeze
	EndsWithQuarantine Ending = "RELEASE"       // an operator releases the mint
	EndsWithToken      Ending = "TOKEN"         // the chain would let the transaction pass
	EndsWithProviders  Ending = "PROVIDERS"     // the providers answer
	EndsWithSigner     Ending = "SIGNER"        // the signer answers
	EndsWithClock      Ending = "CLOCK"         // a person confirms the clock at the signer's host
	EndsWithDay        Ending = "DAY"           // the fees of a day are no longer counted, or the limit is raised
	EndsWithBlock      Ending = "BLOCK"         // the block is proven final
	EndsWithEarlier    Ending = "EARLIER"       // the earlier order goes on
	EndsWithPerson     Ending = "PERSON"        // a person settles it, or the chain returns to the books
)

// Remedy is the internal order that brings what a waiting order lacks. The service plans it because
// of the wait.
type Remedy string

// The remedies.
const (
	RemedySweep         Remedy = "SWEEP"
	RemedyTopUp         Remedy = "TOP_UP"
	RemedyNonceAccount  Remedy = "NONCE_ACCOUNT" // the service plans its number beforehand
	RemedyConsolidation Remedy = "CONSOLIDATION"
)

// Missing says whether an order that waits in the queue has a missing amount, and of what.
type Missing string

// Values of Missing.
const (
	MissingNothing Missing = ""
	MissingAmount  Missing = "AMOUNT"  // units of its mint, always known
	MissingGas     Missing = "GAS"     // native units, always known
	MissingOutputs Missing = "OUTPUTS" // native units, if that is known
)

// WaitCause describes a wait reason. Code and statements ask for the property that they need, never
// for the reason.
type WaitCause struct {
	Reason   WaitReason
	Concerns Concern
	EndedBy  Ending
	// Queued and Ended say which orders wait for it: those in the queue, and those that ended on a
	// proof that is no longer live.
	Queued, Ended bool

	Missing Missing
	Remedy  Remedy // "" if no order of the service ends it
	// StoppedByPeople says that people or checks of the service stopped the order. It needs nothing
	// until then, so it delays no consolidation and is no demand for gas.
	StoppedByPeople bool
	// WouldRevert says that the chain would let the order fail. Its amount is not on its way, and no
	// payment may count on it.
	WouldRevert bool
	// LacksOutputs says that a consolidation in progress may delay the order.
	LacksOutputs bool
	// IsAlone says that the order is looked at without others of its transaction: it may be the one
	// that fails.
	IsAlone bool
	// HoldsUpLater says that the later orders of the wallet wait for the ended order. No wait of a
	// queued order holds up another order.
	HoldsUpLater bool

	RetryMin time.Duration // the order is not looked at sooner
	RetryMax time.Duration // the pause grows with the age of the order up to this; 0: it does not grow

	Sentence string // what a queued order waits for; "" if none waits for it
}

// waitCauses has one entry for each wait reason.
var waitCauses = []WaitCause{
	{
		Reason: WaitNone, Concerns: ConcernsWallet, EndedBy: EndsAtTurn, Queued: true, Ended: true,
		HoldsUpLater: true,
		Sentence:     "its turn",
	},
	{
		Reason: WaitFunds, Concerns: ConcernsWallet, EndedBy: EndsWithFunds, Queued: true,
		Missing: MissingAmount, Remedy: RemedySweep,
		Sentence: "funds on its wallet",
	},
	{
		Reason: WaitGas, Concerns: ConcernsWallet, EndedBy: EndsWithFunds, Queued: true, Ended: true,
		HoldsUpLater: true,
		Missing:      MissingGas, Remedy: RemedyTopUp,
		Sentence: "gas on its wallet",
	},
	{
		// The change of earlier payments is not final yet, or another Worker is choosing outputs.
		Reason: WaitOutputs, Concerns: ConcernsWallet, EndedBy: EndsWithOutputs, Queued: true,
		Missing: MissingOutputs, LacksOutputs: true,
		Sentence: "outputs that can be spent",
	},
	{
		// The consolidation is made at once, at the fee rate of payments; see
		// docs/design/bitcoin.md#consolidation-on-demand.
		Reason: WaitConsolidation, Concerns: ConcernsOrder, EndedBy: EndsWithOutputs, Queued: true,
		Missing: MissingOutputs, Remedy: RemedyConsolidation, LacksOutputs: true,
		Sentence: "a consolidation, because it needs more outputs than one transaction can spend",
	},
	{
		Reason: WaitSlot, Concerns: ConcernsWallet, EndedBy: EndsWithSlot, Queued: true, Remedy: RemedyNonceAccount,
		Sentence: "a free nonce account of its wallet on the chain",
	},
	{
		Reason: WaitFreeze, Concerns: ConcernsFrozen, EndedBy: EndsWithFreeze, Queued: true, Ended: true,
		HoldsUpLater: true, StoppedByPeople: true,
		Sentence: "an operator who lifts what stops it",
	},
	{
		Reason: WaitQuarantine, Concerns: ConcernsMint, EndedBy: EndsWithQuarantine, Queued: true,
		StoppedByPeople: true,
		Sentence:        "an operator who ends the quarantine",
	},
	{
		Reason: WaitPaused, Concerns: ConcernsMint, EndedBy: EndsWithToken, Queued: true, WouldRevert: true,
		RetryMax: 2 * time.Minute, // the cause may last for days
		Sentence: "the token, which lets its wallet pay no one",
	},
	{
		Reason: WaitSimulation, Concerns: ConcernsOrder, EndedBy: EndsWithToken, Queued: true, Ended: true,
		HoldsUpLater: true, WouldRevert: true, RetryMax: 2 * time.Minute,
		Sentence: "the chain, which says that it would revert",
	},
	{
		Reason: WaitProviders, Concerns: ConcernsChain, EndedBy: EndsWithProviders, Queued: true, Ended: true,
		HoldsUpLater: true,
		Sentence:     "the providers",
	},
	{
		Reason: WaitSigner, Concerns: ConcernsInstallation, EndedBy: EndsWithSigner, Queued: true,
		Sentence: "the signer",
	},
	{
		Reason: WaitClock, Concerns: ConcernsInstallation, EndedBy: EndsWithClock, Queued: true,
		Sentence: "a person who confirms the clock at the signer's host",
	},
	{
		Reason: WaitFeeLimit, Concerns: ConcernsWallet, EndedBy: EndsWithDay, Queued: true,
		Sentence: "the signer, whose limits let its wallet pay no more at present",
	},
	{
		Reason: WaitError, Concerns: ConcernsOrder, EndedBy: EndsAtTurn, Queued: true, IsAlone: true,
		RetryMax: 2 * time.Minute, // the cause may need a person
		Sentence: "another attempt after an error",
	},
	{Reason: WaitBlock, Concerns: ConcernsOrder, EndedBy: EndsWithBlock, Ended: true, HoldsUpLater: true},
	{Reason: WaitEarlierNonce, Concerns: ConcernsWallet, EndedBy: EndsWithEarlier, Ended: true, HoldsUpLater: true},
	{
		// The wallet is frozen. A person who lifts the freeze lets its later orders go on.
		Reason: WaitOperator, Concerns: ConcernsOrder, EndedBy: EndsWithPerson, Ended: true,
		RetryMin: time.Minute, // the chain may still return to the end that the books have
	},
}

// WaitCauses returns the causes, one for each wait reason.
func WaitCauses() []WaitCause { return slices.Clone(waitCauses) }

// Cause returns the cause of a wait. It panics on a reason without one, which no row can have.
func (r WaitReason) Cause() WaitCause {
	for i := range waitCauses {
		if waitCauses[i].Reason == r {
			return waitCauses[i]
		}
	}
	panic(fmt.Sprintf("dispatch: %q is no wait reason", string(r)))
}

// ageDivisor makes a pause that grows a fraction of the order's age.
const ageDivisor = 16

// pause returns how long an order of an age is not looked at.
func (c WaitCause) pause(usual, age time.Duration) time.Duration {
	return max(usual, c.RetryMin, min(age/ageDivisor, c.RetryMax))
}

// selectReasons returns the reasons of the causes that have a property, for a statement.
func selectReasons(isSelected func(WaitCause) bool) (reasons []WaitReason) {
	for _, c := range waitCauses {
		if isSelected(c) {
			reasons = append(reasons, c.Reason)
		}
	}
	return reasons
}

// ReasonsOf returns the wait reasons that a remedy ends.
func ReasonsOf(r Remedy) []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.Remedy == r })
}

// ReasonsStopped returns the wait reasons of the orders that people or checks of the service stopped.
func ReasonsStopped() []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.StoppedByPeople })
}

// ReasonsNotOnTheirWay returns the wait reasons of the orders whose amounts no other order may count
// on: the chain would let them fail, or they fail for a reason of their own.
func ReasonsNotOnTheirWay() []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.WouldRevert || c.IsAlone })
}

// ReasonsReverting returns the wait reasons of the orders that the chain would let fail.
func ReasonsReverting() []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.WouldRevert })
}

// ReasonsLimited returns the wait reasons of the orders that a limit of the signer holds up.
func ReasonsLimited() []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.EndedBy == EndsWithDay })
}

func reasonsLackingOutputs() []WaitReason {
	return selectReasons(func(c WaitCause) bool { return c.LacksOutputs })
}

// PayeeRefused is the code of a refusal that does not come from the signer: at present, the chain
// accepts the payment for another payee and refuses it for this one.
const PayeeRefused = "PAYEE"

// AmountRefused is the code of a refusal that does not come from the signer: at present, the chain
// accepts another amount for this payee and refuses this one.
const AmountRefused = "AMOUNT"

// FeeRefused is the code of a refusal because the chain asks for more than the order's FeeMax.
const FeeRefused = "FEE_MAX"

// NonceAccountTaken is the code of a refusal because another account already exists, finally, at
// the address where the order would create a nonce account.
const NonceAccountTaken = "PLACE_TAKEN"

// ConsolidationRefused is the code of a refusal that does not come from the signer: at present
// there is nothing to consolidate, or it would cost too much.
const ConsolidationRefused = "MERGE_NOT"

// The codes of a Reviewer's refusals.
const (
	// PayeeFailed says that a payment to the same destination has failed since this one was
	// ordered.
	PayeeFailed = "PAYEE_FAILED"
	// CustomerCostLimit says that the customer's withdrawals reached the costs that they may cause
	// in a day.
	CustomerCostLimit = "CUSTOMER_COSTS"
	// RentNotHeld says that the payment would create an account for its payee at the customer's
	// expense, and that no hold was made for its rent when the payment was requested.
	RentNotHeld = "RENT_NOT_HELD"
)

// RefusalCause describes a refusal. Waiting would not end its cause, so the order leaves the queue: a
// payment or return goes back to people, and an internal order ends.
type RefusalCause struct {
	Code     string
	Concerns Concern
	level    slog.Level
	sentence string // for the log
}

// refusalCauses has one entry for each code that the service gives, and for those of the signer that
// say nothing against the order.
var refusalCauses = []RefusalCause{
	{PayeeRefused, ConcernsPayee, slog.LevelWarn, "the chain would refuse a payment because of its payee"},
	{AmountRefused, ConcernsOrder, slog.LevelWarn, "the chain would refuse a payment because of its amount"},
	{FeeRefused, ConcernsOrder, slog.LevelInfo, "an order is returned because of its fee"},
	{
		NonceAccountTaken, ConcernsOrder, slog.LevelWarn,
		"cannot create a nonce account: its address is in use, and its number is permanently left out",
	},
	{ConsolidationRefused, ConcernsOrder, slog.LevelInfo, "outputs are not consolidated now"},
	{PayeeFailed, ConcernsPayee, slog.LevelWarn, "a payment is returned to a person before it is signed"},
	{CustomerCostLimit, ConcernsCustomer, slog.LevelWarn, "a payment is returned to a person before it is signed"},
	{RentNotHeld, ConcernsOrder, slog.LevelWarn, "a payment is returned to a person before it is signed"},
	{signer.PolicyLimit, ConcernsOrder, slog.LevelWarn, "the signer's policy refuses an order"},
	{signer.CoolingOff, ConcernsPayee, slog.LevelWarn, "the signer's policy refuses an order"},
	{signer.RefusedSignature, ConcernsOrder, slog.LevelWarn, "a payment needs signatures of people that it lacks"},
}

// causeOfRefusal returns the cause of a refusal. Every other code of the signer says that the order
// contradicts what the signer knows.
func causeOfRefusal(code string) RefusalCause {
	for _, c := range refusalCauses {
		if c.Code == code {
			return c
		}
	}
	return RefusalCause{code, ConcernsOrder, slog.LevelError, "the signer refuses a contradictory order"}
}

// RefusalCauses returns the causes of refusals that are known by their codes.
func RefusalCauses() []RefusalCause { return slices.Clone(refusalCauses) }
