package swapdesk

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// phase says how far a swap is.
type phase string

const (
	phaseWaiting phase = "WAITS" // for its deposit
	phaseHeld    phase = "HELD"  // the deposit is taken; Stall and Late wait
	phasePaying  phase = "PAYS"  // payments are planned or on their way
	phaseEnded   phase = "ENDED" // all payments have ended
)

// The statuses of the API.
const (
	statusPending    = "PENDING_DEPOSIT"
	statusSubmitted  = "KNOWN_DEPOSIT_TX"
	statusIncomplete = "INCOMPLETE_DEPOSIT"
	statusProcessing = "PROCESSING"
	statusSuccess    = "SUCCESS"
	statusRefunded   = "REFUNDED"
	statusFailed     = "FAILED"
)

// The reasons of refunds, as the status names them.
const (
	reasonShort    = "PARTIAL_DEPOSIT"
	reasonLate     = "DEADLINE_EXCEEDED"
	reasonExcess   = "EXCESS_DEPOSIT"
	reasonFailed   = "DELIVERY_FAILED"
	reasonUnfilled = "NO_FILL"
)

// swap is a firm quote with what happened to it.
type swap struct {
	DepositAddress string    `json:"depositAddress"`
	Wallet         uint32    `json:"wallet"`
	CorrelationID  string    `json:"correlationId"`
	Answer         answer    `json:"answer"` // as it was signed
	Origin         Asset     `json:"origin"`
	Destination    Asset     `json:"destination"`
	Behaviour      Behaviour `json:"behaviour"`

	AmountIn     money.Amount `json:"amountIn"`
	MinAmountIn  money.Amount `json:"minAmountIn"`
	AmountOut    money.Amount `json:"amountOut"`
	MinAmountOut money.Amount `json:"minAmountOut"`
	RefundFee    money.Amount `json:"refundFee"`
	IsFlexible   bool         `json:"isFlexible"`
	Recipient    string       `json:"recipient"`
	RefundTo     string       `json:"refundTo"`
	RefundsFrom  time.Time    `json:"refundsFrom"` // the deadline that the buyer asked for
	Deadline     time.Time    `json:"deadline"`    // of the answer

	Phase       phase     `json:"phase"`
	IsSubmitted bool      `json:"isSubmitted"` // the buyer told of a deposit
	IsReleased  bool      `json:"isReleased"`
	DueAt       time.Time `json:"dueAt"`             // of Late
	Says        string    `json:"says,omitempty"`    // a status that is reported whatever happens
	Outcome     string    `json:"outcome,omitempty"` // the status that the payments lead to
	Reason      string    `json:"reason,omitempty"`  // of the first refund
	IsReported  bool      `json:"isReported"`        // the outcome was reached once
	UpdatedAt   time.Time `json:"updatedAt"`

	Deposits []deposit     `json:"deposits,omitempty"`
	Payments []swapPayment `json:"payments,omitempty"`
	Claimed  *money.Amount `json:"claimed,omitempty"` // the refund that LieRefunded reports
}

// deposit is an arrival at the deposit address, and whether the desk has decided about it.
type deposit struct {
	Arrival
	IsDecided bool `json:"isDecided"`
}

// paymentKind says why the desk pays.
type paymentKind string

const (
	kindDelivery paymentKind = "DELIVERY"
	kindRefund   paymentKind = "REFUND"
)

// paymentState says how far a payment is.
type paymentState string

const (
	paymentPlanned  paymentState = "PLANNED"
	paymentSigned   paymentState = "SIGNED"
	paymentPaid     paymentState = "PAID" // final
	paymentReverted paymentState = "REVERTED"
)

// swapPayment is a payment of the desk for a swap.
type swapPayment struct {
	Kind      paymentKind  `json:"kind"`
	State     paymentState `json:"state"`
	Asset     Asset        `json:"asset"`
	Recipient string       `json:"recipient"`
	Amount    money.Amount `json:"amount"`
	Signed    Signed       `json:"signed"`
}

func (p swapPayment) hasEnded() bool { return p.State == paymentPaid || p.State == paymentReverted }

// paymentID names a payment of a swap.
func (s *swap) paymentID(i int) string { return fmt.Sprintf("%s/%d", s.DepositAddress, i) }

// addDeposit adds an arrival, and reports whether it was new.
func (s *swap) addDeposit(a Arrival) bool {
	for _, d := range s.Deposits {
		if d.Hash == a.Hash && d.Index == a.Index {
			return false
		}
	}
	s.Deposits = append(s.Deposits, deposit{Arrival: a})
	return true
}

// hasWork reports whether anything remains to be decided or paid.
func (s *swap) hasWork() bool {
	if s.Phase == phaseHeld || s.Phase == phasePaying {
		return true
	}
	for _, d := range s.Deposits {
		if !d.IsDecided {
			return true
		}
	}
	return false
}

// deposited returns the sum of all deposits.
func (s *swap) deposited() money.Amount {
	var amounts []money.Amount
	for _, d := range s.Deposits {
		amounts = append(amounts, d.Amount)
	}
	return sumAmounts(amounts...)
}

// status returns the status that the desk reports.
func (s *swap) status() string {
	switch {
	case s.Says != "":
		return s.Says
	case s.IsReported:
		return s.Outcome
	case s.Phase != phaseWaiting:
		return statusProcessing
	case len(s.Deposits) > 0:
		return statusIncomplete
	case s.IsSubmitted:
		return statusSubmitted
	}
	return statusPending
}

// sumAmounts adds amounts of a local chain, which never overflow.
func sumAmounts(amounts ...money.Amount) money.Amount {
	total := money.Zero
	for _, a := range amounts {
		var err error
		if total, err = total.Add(a); err != nil {
			panic("swapdesk: a local chain has more than 2^256 units")
		}
	}
	return total
}

// decideSwap decides what follows from a swap's deposits, its behaviour and the time. It plans payments and
// makes none. It reports whether the swap changed. The caller holds the lock.
func (d *Server) decideSwap(s *swap, now time.Time) bool {
	hasChanged := false
	onTime := money.Zero
	for i := range s.Deposits {
		switch arrival := &s.Deposits[i]; {
		case arrival.IsDecided:
		case s.Phase == phaseWaiting && !arrival.Time.After(s.Deadline):
			onTime = sumAmounts(onTime, arrival.Amount)
		default: // after the deadline, or after the deposit that was taken
			arrival.IsDecided, hasChanged = true, true
			d.refundAmount(s, arrival.Amount, reasonLate)
		}
	}
	switch s.Phase {
	case phaseWaiting:
		switch {
		case onTime.IsZero():
			if hasChanged {
				s.Phase, s.Outcome = phasePaying, statusRefunded
			}
		case !onTime.Less(s.MinAmountIn):
			s.decideDeposits()
			d.takeDeposit(s, onTime, now)
			return true
		case now.After(s.RefundsFrom) || s.IsReleased: // too little came
			s.decideDeposits()
			s.Phase, s.Outcome = phasePaying, statusRefunded
			d.refundAmount(s, onTime, reasonShort)
			return true
		}
	case phaseHeld:
		isDue := s.Behaviour.Mode == ModeLate && !now.Before(s.DueAt)
		if s.IsReleased || isDue {
			s.Phase, s.Outcome = phasePaying, statusSuccess
			s.planPayment(kindDelivery, s.Destination, s.Recipient, s.AmountOut)
			return true
		}
	case phasePaying, phaseEnded:
		if hasChanged {
			s.Phase = phasePaying
		}
		return d.endSwap(s) || hasChanged
	}
	return hasChanged
}

// decideDeposits marks all deposits as decided.
func (s *swap) decideDeposits() {
	for i := range s.Deposits {
		s.Deposits[i].IsDecided = true
	}
}

// endSwap ends a swap whose payments have ended. A delivery that the chain refused becomes a refund.
func (d *Server) endSwap(s *swap) bool {
	if s.Phase != phasePaying {
		return false
	}
	hasRefund, hasReverted := false, false
	for _, p := range s.Payments {
		if !p.hasEnded() {
			return false
		}
		hasRefund = hasRefund || p.Kind == kindRefund
		hasReverted = hasReverted || p.Kind == kindDelivery && p.State == paymentReverted
	}
	if hasReverted && s.Outcome == statusSuccess {
		s.Outcome = statusRefunded
		d.refundAmount(s, s.AmountIn, reasonFailed)
		return true
	}
	if s.Outcome == statusRefunded && !hasRefund {
		s.Outcome = statusFailed // the fee of the refund was more than the deposit
	}
	s.Phase, s.IsReported = phaseEnded, true
	if s.Behaviour.Mode == ModeLate {
		s.Says = "" // the failure that it reported was none
	}
	return true
}

// takeDeposit accepts a deposit and plans what the swap's mode does with it.
func (d *Server) takeDeposit(s *swap, amount money.Amount, now time.Time) {
	if s.IsFlexible {
		s.AmountOut = scaleAmount(s.AmountOut, amount, s.AmountIn)
		s.MinAmountOut = scaleAmount(s.MinAmountOut, amount, s.AmountIn)
		s.AmountIn = amount
	}
	excess := money.SubOrZero(amount, s.AmountIn)
	s.Phase, s.Outcome = phasePaying, statusSuccess
	deliver := func(amounts ...money.Amount) {
		for _, a := range amounts {
			s.planPayment(kindDelivery, s.Destination, s.Recipient, a)
		}
	}
	switch mode := s.Behaviour.Mode; mode {
	case ModeRefund:
		s.Outcome = statusRefunded
		d.refundAmount(s, amount, reasonUnfilled)
		return
	case ModeFail:
		s.Says, s.Outcome, s.Reason = statusFailed, statusFailed, reasonUnfilled
		return
	case ModeLieSuccess:
		s.Says = statusSuccess
		return
	case ModeLieRefunded:
		claimed := money.SubOrZero(amount, s.RefundFee)
		s.Says, s.Outcome, s.Reason, s.Claimed = statusRefunded, statusRefunded, reasonUnfilled, &claimed
		return
	case ModeRefundOther:
		s.Outcome, s.Reason = statusRefunded, reasonUnfilled
		substitute := d.otherAsset(s.Origin)
		net := money.SubOrZero(amount, s.RefundFee)
		s.planPayment(kindRefund, substitute, s.RefundTo, d.convertAmount(net, s.Origin, substitute))
		return
	case ModeStall:
		s.Phase = phaseHeld
	case ModeLate:
		s.Phase, s.Says = phaseHeld, statusFailed
		s.DueAt = now.Add(s.Behaviour.Delay.orUsual(usualLateDelay))
	case ModeShort:
		deliver(scaleAmount(s.MinAmountOut, money.Units(9), money.Units(10)))
	case ModeSplit:
		half := scaleAmount(s.AmountOut, money.Units(1), money.Units(2))
		deliver(half, money.SubOrZero(s.AmountOut, half))
	case ModeDouble:
		deliver(s.AmountOut, s.AmountOut)
	case ModeOver:
		deliver(scaleAmount(s.AmountOut, money.Units(6), money.Units(5)))
	case ModeOtherToken:
		substitute := d.otherAsset(s.Destination)
		s.planPayment(kindDelivery, substitute, s.Recipient, d.convertAmount(s.AmountOut, s.Destination, substitute))
	case ModeOtherChain:
		substitute, recipient, _ := d.otherChain(s.Origin, s.Destination, s.Recipient, s.RefundTo)
		s.planPayment(kindDelivery, substitute, recipient, d.convertAmount(s.AmountOut, s.Destination, substitute))
	default: // None, and the modes whose departure was in the quote
		deliver(s.AmountOut)
	}
	if s.RefundFee.Less(excess) {
		d.refundAmount(s, excess, reasonExcess)
	}
}

// planPayment plans a payment.
func (s *swap) planPayment(kind paymentKind, a Asset, recipient string, amount money.Amount) {
	s.Payments = append(s.Payments, swapPayment{
		Kind: kind, State: paymentPlanned, Asset: a, Recipient: recipient, Amount: amount,
	})
}

// refundAmount plans a refund less its fee. An amount that is not worth its fee is kept.
func (d *Server) refundAmount(s *swap, amount money.Amount, reason string) {
	if s.Reason == "" {
		s.Reason = reason
	}
	net := money.SubOrZero(amount, s.RefundFee)
	if net.IsZero() || net.Less(d.chains[s.Origin.Chain].MinPayment(s.Origin.Contract)) {
		return
	}
	s.planPayment(kindRefund, s.Origin, s.RefundTo, net)
}

// otherAsset returns another asset of the same chain, or the zero asset.
func (d *Server) otherAsset(a Asset) Asset {
	for _, listed := range d.cfg.Assets {
		if listed.Chain == a.Chain && listed.Contract != a.Contract {
			priced, _ := d.asset(listed.ID())
			return priced
		}
	}
	return Asset{}
}

// otherChain returns where OtherChain delivers: at the recipient on another chain that has such addresses,
// or at the refund address, in an asset that is not the origin's, so that it cannot be a refund.
func (d *Server) otherChain(origin, destination Asset, recipient, refundTo string) (Asset, string, bool) {
	for _, a := range d.cfg.Assets {
		if a.Chain != destination.Chain && d.chains[a.Chain].CheckAddress(recipient) == nil {
			priced, _ := d.asset(a.ID())
			return priced, recipient, true
		}
	}
	if origin.Chain == destination.Chain {
		return Asset{}, "", false
	}
	substitute := d.otherAsset(origin)
	return substitute, refundTo, substitute.Chain != ""
}
