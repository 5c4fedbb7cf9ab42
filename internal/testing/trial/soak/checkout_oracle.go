package soak

import (
	"math/big"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
)

// lookAtCheckouts compares the checkouts with what was done about them, after every step: none is completed, cancelled
// or decided by itself, and none stops being completed.
func (w *soakRun) lookAtCheckouts() {
	var checkoutID, status, decided, cancelled string
	var isCovered bool
	var completions int
	columns := []any{&checkoutID, &status, &decided, &cancelled, &isCovered, &completions}
	w.scanRows("read the checkouts", columns, func() {
		s := w.shop.saleByID[checkoutID]
		if s == nil {
			return // no answer told it yet
		}
		switch {
		case status == "COMPLETED" && decided == "" && !isCovered:
			w.failRun("checkout #%d is completed with less than it needs", s.n)
		case s.isCompleted && status != "COMPLETED":
			w.failRun("checkout #%d was completed and is %s", s.n, status)
		case decided != "" && !s.isAcceptTried:
			w.failRun("checkout #%d is decided by %s, who was not asked", s.n, decided)
		case cancelled != "" && !s.isCancelTried:
			w.failRun("checkout #%d is cancelled, and no person did that", s.n)
		case completions > 1 || (completions == 1) != (status == "COMPLETED"):
			w.failRun("checkout #%d is %s, and %d events say that it is completed", s.n, status, completions)
		}
		s.isCompleted = status == "COMPLETED"
	}, `
		SELECT c.checkout_id, c.status, coalesce(c.decided_by, ''), coalesce(c.cancelled_at::text, ''),
			c.completed_with IS NULL OR c.completed_with >= c.need,
			(SELECT count(*) FROM events e WHERE e.resource_id = c.checkout_id AND e.type = 'CHECKOUT_COMPLETED')::int
		FROM checkouts c`)
	if n := w.queryCount(`
		SELECT count(*) FROM mints m WHERE (
			SELECT coalesce(sum(r.amount), 0) FROM refunds r
			WHERE r.mint_id = m.mint_id AND r.status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT') AND NOT EXISTS (
				SELECT FROM withdrawals w WHERE w.refund_id = r.refund_id
					AND w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED'))
		) <> (
			SELECT coalesce(sum(b.balance), 0) FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.kind = 'REFUND_OWED' AND a.mint_id = m.mint_id)`); n > 0 {
		w.failRun("in %d mints the books owe payers another amount than the refunds say", n)
	}
}

// checkGoal checks what the address of an attempt of a refund received: nothing, or its refund.
func (w *soakRun) checkGoal(recipient chain.Address, payments []payout) {
	if severityOf(w.seed, recipient).Exceeds(risk.High) {
		w.failRun("a refund went to %s, which is %s", recipient, severityOf(w.seed, recipient))
	}
	var amount money.Amount
	var contract chain.Address
	var isDeducted bool
	found := 0
	w.scanRows("read the refund of an address", []any{&amount, &contract, &isDeducted}, func() { found++ }, `
		SELECT r.amount, m.contract, r.fee_mode = 'DEDUCTED' FROM refunds r JOIN mints m USING (mint_id)
		WHERE r.to_address = $1 AND r.status IN ('REQUESTED', 'SENT', 'COMPLETED')`, string(recipient))
	if found != 1 || len(payments) != 1 || payments[0].contract != contract {
		w.failRun("%s received %v, and %d refunds go there", recipient, payments, found)
	}
	fee, err := amount.Sub(payments[0].amount)
	if err != nil || !fee.IsZero() && !(isDeducted && fee.Less(money.Units(keptMax))) {
		w.failRun("%s received %v of a refund of %v", recipient, payments[0].amount, amount)
	}
}

// soldPayment is a payment of a checkout in the tables.
type soldPayment struct {
	movement             movementID
	checkoutID, status   string
	amount               money.Amount
	counted              string // in 10^-18 of the currency
	currency             string
	isAccepted, isInTime bool
	isCounting, isLive   bool
	seenAt, pricedAt     time.Time
	refunding, refunded  money.Amount
}

// soldCheckout is a checkout in the tables.
type soldCheckout struct {
	status, decidedBy, latePolicy string
	amountDue, need, counted      string // in 10^-18 of the currency
	exceptions                    []string
	createdAt, expiresAt          time.Time
	cancelledAt                   *time.Time
	isExclusive                   bool
}

// checkCheckouts is the last check of checkouts: each is what the chain, the prices and the decisions say. ended are
// the ends of the deposits that were flagged.
func (w *soakRun) checkCheckouts(ended map[movementID]string) {
	payments := w.loadSoldPayments()
	owners := map[chain.Address]string{w.shop.lostAddress: w.shop.lostID}
	for _, s := range w.shop.sales {
		if s.address != "" {
			owners[s.address] = s.id
		}
	}
	found := map[movementID]bool{}
	for _, p := range payments {
		found[p.movement] = true
	}
	for m, a := range w.arrivals.expected {
		owner, isOfShop := owners[a.recipient]
		if isOfShop && !found[m] && (owner != w.shop.lostID || len(w.shop.assigned[m]) > 0 && ended[m] == "") {
			w.failRun("%v arrived for a checkout, and none has it", a)
		}
	}
	byCheckout := map[string][]soldPayment{}
	for _, p := range payments {
		if p.status == "ORPHANED" || p.status == "UNUSABLE" {
			continue
		}
		a, isKnown := w.arrivals.expected[p.movement]
		if owner := owners[a.recipient]; !isKnown || a.amount != p.amount || owner != p.checkoutID &&
			!(owner == w.shop.lostID && w.shop.assigned[p.movement][p.checkoutID]) {
			w.failRun("payment %+v is not what arrived: %+v for %s", p, a, owner)
		}
		w.checkSoldPayment(p, a, ended[p.movement])
		byCheckout[p.checkoutID] = append(byCheckout[p.checkoutID], p)
	}
	checkouts := w.loadSoldCheckouts()
	for checkoutID, c := range checkouts {
		s := w.shop.saleByID[checkoutID]
		if s == nil {
			if checkoutID != w.shop.lostID {
				w.failRun("checkout %s exists, and no answer named it", checkoutID)
			}
			s = &sale{id: checkoutID, isCancelTried: true, isRefundTried: true}
		}
		w.checkSoldCheckout(s, c, byCheckout[checkoutID])
	}
	for _, s := range w.shop.sales {
		if _, exists := checkouts[s.id]; s.id != "" && !exists {
			w.failRun("checkout #%d was made as %s, which does not exist", s.n, s.id)
		}
	}
	w.checkPaybacks()
}

func (w *soakRun) loadSoldPayments() (payments []soldPayment) {
	var p soldPayment
	w.scanRows("read the payments of checkouts", []any{
		&p.movement.tx, &p.movement.kind, &p.movement.position, &p.checkoutID, &p.status, &p.amount, &p.counted,
		&p.isAccepted, &p.isInTime, &p.isCounting, &p.isLive, &p.seenAt, &p.pricedAt, &p.refunding, &p.refunded,
		&p.currency,
	}, func() { payments = append(payments, p) }, `
		SELECT d.tx_hash, d.kind, d.position, p.checkout_id, p.status, p.amount,
			coalesce((p.counted * 1e18)::numeric(78,0)::text, ''), coalesce(p.is_accepted, false),
			coalesce(p.in_time, false), p.counts, p.was_live, p.seen_at, coalesce(p.priced_at, p.seen_at), p.refunding,
			p.refunded, c.currency
		FROM checkout_payments p JOIN deposits d USING (deposit_id)
		JOIN checkouts c ON c.checkout_id = p.checkout_id ORDER BY d.height, d.tx_hash, d.position`)
	return payments
}

func (w *soakRun) loadSoldCheckouts() map[string]soldCheckout {
	found := map[string]soldCheckout{}
	var checkoutID string
	var c soldCheckout
	w.scanRows("read the checkouts", []any{
		&checkoutID, &c.status, &c.decidedBy, &c.latePolicy, &c.amountDue, &c.need, &c.counted, &c.exceptions,
		&c.createdAt, &c.expiresAt, &c.cancelledAt, &c.isExclusive,
	}, func() { found[checkoutID] = c }, `
		SELECT checkout_id, status, coalesce(decided_by, ''), late_policy, (due * 1e18)::numeric(78,0)::text,
			(need * 1e18)::numeric(78,0)::text, (counted * 1e18)::numeric(78,0)::text, exceptions, created_at,
			expires_at,
			cancelled_at, one_per_reference
		FROM checkouts`)
	return found
}

// dollarsOf are the prices of the mints in dollars. They stay; only answers about them are lost.
var dollarsOf = map[chain.Address]int64{tokens[tokenID]: 1, tokens[nativeID]: 3000, tokens[limitedID]: 2}

// contractOf are the mints that are a currency: an unmatched payment that is given back is its own amount due.
var contractOf = map[string]chain.Address{"DAI": tokens[tokenID], "ETH": tokens[nativeID], "LIM": tokens[limitedID]}

// worth returns what an arrival is worth in 10^-18 of a currency.
func worth(a arrival, currency string) *big.Int {
	n := new(big.Int).Mul(a.amount.Big(), big.NewInt(dollarsOf[a.contract]))
	if a.contract != tokens[nativeID] {
		n.Mul(n, big.NewInt(1_000_000_000_000)) // six decimals
	}
	if currency != checkout.USD {
		n.Div(n, big.NewInt(dollarsOf[contractOf[currency]]))
	}
	return n
}

// checkSoldPayment compares a payment with its arrival.
func (w *soakRun) checkSoldPayment(p soldPayment, a arrival, ended string) {
	switch want := ended; {
	case p.status == "CREDITED" && (want == "" || want == "CREDITED"),
		p.status == "RETURNED" && (want == "REJECTED" || want == "REDIRECTED"):
	default:
		w.failRun("payment %+v is %s, and its deposit ended as %q", p.movement, p.status, want)
	}
	if p.status != "CREDITED" {
		if p.isCounting || !p.refunding.IsZero() || !p.refunded.IsZero() {
			w.failRun("payment %+v is %s, and counts %v, and is refunded", p.movement, p.status, p.isCounting)
		}
		return
	}
	if p.counted != worth(a, p.currency).String() {
		w.failRun("payment %+v of %v counts %s, want %v", p.movement, a.amount, p.counted,
			worth(a, p.currency))
	}
	if !p.refunding.IsZero() {
		w.failRun("payment %+v has an open refund of %v", p.movement, p.refunding)
	}
}

// checkSoldCheckout compares a checkout with its payments.
func (w *soakRun) checkSoldCheckout(s *sale, c soldCheckout, payments []soldPayment) {
	counting, refunded := new(big.Int), false
	allBack, isCredited, hasOther := true, false, false
	for _, p := range payments {
		if p.status != "CREDITED" {
			continue
		}
		isCredited = true
		counted, _ := new(big.Int).SetString(p.counted, 10)
		refunded = refunded || !p.refunded.IsZero()
		allBack = allBack && p.refunded == p.amount
		hasOther = hasOther || !p.isAccepted
		isLateOK := c.latePolicy == "ACCEPT_IF_WITHIN_TOLERANCE" && (c.cancelledAt == nil || c.status == "COMPLETED")
		if want := c.decidedBy != "" || p.isAccepted && (p.isInTime || isLateOK); p.isCounting != want {
			w.failRun("a payment of checkout #%d counts %v, want %v: %+v in %+v", s.n, p.isCounting, want, p, c)
		}
		if p.isCounting {
			counting.Add(counting, counted)
		}
		w.checkTime(s, c, p)
	}
	need, _ := new(big.Int).SetString(c.need, 10)
	if counting.String() != c.counted {
		w.failRun("checkout #%d counts %s, and its payments %v", s.n, c.counted, counting)
	}
	isCovered := counting.Cmp(need) >= 0
	switch {
	case c.status == "COMPLETED" && c.decidedBy == "" && !isCovered:
		w.failRun("checkout #%d is COMPLETED with %v of %v", s.n, counting, need)
	case c.status != "COMPLETED" && isCovered && !refunded && !c.isExclusive && !s.isRefundTried:
		w.failRun("checkout #%d is %s with %v of %v", s.n, c.status, counting, need)
	case c.status == "CANCELLED" && !s.isCancelTried:
		w.failRun("checkout #%d is cancelled, and no person did that", s.n)
	case c.status != "COMPLETED" && c.status != "EXPIRED" && c.status != "CANCELLED":
		w.failRun("checkout #%d is still %s", s.n, c.status)
	}
	for exception, want := range map[string]bool{
		"FLAGGED": false, "REVERSED": false, "WRONG_TOKEN": hasOther, "REFUNDED": isCredited && allBack,
		"UNDERPAID": false,
	} {
		if exception == "UNDERPAID" && (c.status != "COMPLETED" || counting.Sign() == 0) {
			continue
		}
		if slices.Contains(c.exceptions, exception) != want {
			w.failRun("checkout #%d says %v, and %s is %v", s.n, c.exceptions, exception, want)
		}
	}
	if c.status == "COMPLETED" {
		w.sold++
	}
}

// checkTime compares whether a payment is in time with what was seen when. What the service saw before the end is in
// time, and what it saw at once and long after the end is late.
func (w *soakRun) checkTime(s *sale, c soldCheckout, p soldPayment) {
	if s.call.ExpiresIn == nil {
		return
	}
	firstEnd := c.createdAt.Add(time.Duration(*s.call.ExpiresIn) * time.Second)
	if c.cancelledAt != nil && c.cancelledAt.Before(firstEnd) {
		firstEnd = *c.cancelledAt
	}
	lastEnd := c.expiresAt
	if c.cancelledAt != nil && c.cancelledAt.Before(lastEnd) {
		lastEnd = *c.cancelledAt
	}
	const oldPrice = 10 * time.Minute // a payment that waited longer for a price may be judged as a late one
	switch {
	case !p.seenAt.After(firstEnd) && !p.isInTime && p.pricedAt.Sub(p.seenAt) < oldPrice:
		w.failRun("a payment of checkout #%d was seen at %v, before %v, and is late", s.n, p.seenAt, firstEnd)
	case p.isLive && p.seenAt.Add(-3*time.Minute).After(lastEnd) && p.isInTime:
		w.failRun("a payment of checkout #%d was seen at %v, after %v, and is in time", s.n, p.seenAt, lastEnd)
	}
}

// checkPaybacks compares the refunds with what their addresses received.
func (w *soakRun) checkPaybacks() {
	made := map[string]bool{}
	var refundID, status string
	var address, contract chain.Address
	var amount money.Amount
	var isDeducted bool
	w.scanRows("read the refunds", []any{&refundID, &status, &address, &contract, &amount, &isDeducted}, func() {
		made[refundID] = true
		switch status {
		case "COMPLETED":
			w.paidBack++
			received := w.net.Received(address, contract)
			if fee, err := amount.Sub(received); w.shop.goals[address] == "" || err != nil ||
				!fee.IsZero() && !(isDeducted && fee.Less(money.Units(keptMax))) {
				w.failRun("refund %s is COMPLETED for %v, and %s received %v", refundID, amount, address, received)
			}
		case "CANCELLED", "EXPIRED":
		default:
			w.failRun("refund %s is still %s", refundID, status)
		}
	}, `
		SELECT r.refund_id, r.status, coalesce(r.to_address, ''), m.contract, r.amount, r.fee_mode = 'DEDUCTED'
		FROM refunds r JOIN mints m USING (mint_id)`)
	for _, b := range w.shop.paybacks {
		if b.id != "" && !made[b.id] {
			w.failRun("refund #%d was made as %s, which does not exist", b.n, b.id)
		}
	}
	if n := w.queryCount(`SELECT count(*) FROM (
			SELECT p.deposit_id FROM checkout_payments p LEFT JOIN refund_parts t ON t.deposit_id = p.deposit_id
			LEFT JOIN refunds r ON r.refund_id = t.refund_id AND r.status = 'COMPLETED'
			GROUP BY p.deposit_id, p.refunded
			HAVING coalesce(sum(t.amount) FILTER (WHERE r.refund_id IS NOT NULL), 0) <> p.refunded) x`); n > 0 {
		w.failRun("%d payments are refunded by another amount than their refunds paid", n)
	}
}
