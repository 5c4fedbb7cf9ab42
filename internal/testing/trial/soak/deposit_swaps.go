package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// foreignToken is a token of a chain that the service does not read. What is said of its payers is the provider's
// word. Its mint is 0, and a unit is a millionth of a dollar.
var foreignToken = provider.Token{Chain: "NEAR"}

// pricesUSD are what the provider says that its tokens are worth.
var pricesUSD = map[int]money.USD{
	tokenID: money.MustParseUSD("1"), nativeID: money.MustParseUSD("3000"), limitedID: money.MustParseUSD("2"),
}

func decimalsOf(mintID int) int {
	if mintID == nativeID {
		return 18
	}
	return 6
}

// flexPlan is what the provider does with a deposit swap once it has been paid.
type flexPlan string

// The plans.
const (
	flexDeliver flexPlan = "deliver"
	flexTwice   flexPlan = "deliver twice"
	flexParts   flexPlan = "deliver in parts"
	flexLate    flexPlan = "deliver very late"
	flexOther   flexPlan = "deliver another mint"
	flexBoth    flexPlan = "deliver another mint, then the right one"
	flexRefund  flexPlan = "refund to the payer"
	flexFail    flexPlan = "fail"
	flexDespite flexPlan = "report a refund, and deliver"
	flexUnpaid  flexPlan = "deliver without a payment"
)

var flexPlans = []flexPlan{
	flexDeliver, flexDeliver, flexDeliver, flexDeliver, flexDeliver, flexTwice, flexTwice, flexParts, flexLate,
	flexLate,
	flexOther, flexBoth, flexRefund, flexRefund, flexFail, flexDespite,
}

// flexDeal is a firm quote of the provider for a deposit swap, and what became of it.
type flexDeal struct {
	n                   int
	depositAddress      chain.Address
	recipient, refundTo chain.Address
	origin              int // mint, 0: the foreign token
	asked, out          money.Amount
	isPaid              bool // with the foreign token
	payments            []chain.TxHash
	payers              []chain.Address
	refunds             []chain.TxHash
	isSilent            bool // the provider names no payer
	namedFalsely        []chain.TxHash
	plan                flexPlan
	acted, late         bool
}

// quoteFlex makes the firm quote of a deposit swap.
func (d *swapProvider) quoteFlex(ask provider.Ask, origin int, out, promised money.Amount) (provider.Offer, error) {
	f := &flexDeal{
		n: len(d.flexDeals) + 1, recipient: ask.Recipient, refundTo: ask.RefundTo, origin: origin, asked: ask.AmountIn,
		out: out,
	}
	f.depositAddress = signertest.SwapDepositAddress(fmt.Sprintf("%d flexible %s %d", d.seed, ask.Reference, f.n))
	f.isSilent = f.n%4 == 0
	d.afterFlex()
	d.flexDeals = append(d.flexDeals, f)
	d.flexByPayee[f.depositAddress] = f
	now := d.clock()
	raw := quotetest.OneClick{
		DepositAddress:   string(f.depositAddress),
		OriginAsset:      signertest.SwapAsset(ask.Origin.Chain, ask.Origin.Contract),
		DestinationAsset: signertest.SwapAsset(ask.Destination.Chain, ask.Destination.Contract), AmountIn: ask.AmountIn,
		AmountOut: out, MinAmountOut: promised, AmountInUSD: "10.00", AmountOutUSD: "9.90",
		Recipient: string(ask.Recipient), RefundTo: string(ask.RefundTo), SlippageBps: ask.SlippageBps,
		IsFlexible: true, SignedAt: now, Deadline: now.Add(24 * time.Hour),
	}.Sign(d.t, d.key)
	q, err := d.VerifyQuote(raw)
	if err != nil {
		return provider.Offer{}, err
	}
	return provider.NewFirmOffer(d.Name(), raw, q), nil
}

// VerifyQuote implements provider.Provider.
func (d *swapProvider) VerifyQuote(raw []byte) (signedquote.Quote, error) {
	q, err := d.verify(d.Name(), signedquote.OneClickV0, raw)
	return q, provider.CheckSigned(err)
}

// report says what the provider says of a deposit swap.
func (f *flexDeal) report(r provider.Report) provider.Report {
	if len(f.payments) > 0 || f.isPaid {
		r.Status = provider.Processing
		switch {
		case f.isSilent:
			r.OriginTxs = f.namedFalsely
		case f.origin == 0:
			r.Payers = f.payers
		default:
			r.OriginTxs = f.payments
		}
	}
	switch f.plan {
	case flexRefund, flexDespite:
		r.Status, r.Refund, r.RefundTxs = provider.Refunded, provider.RefundPending, f.refunds
	case flexFail:
		r.Status, r.Refund = provider.Failed, provider.RefundUnavailable
	case flexDeliver, flexTwice, flexParts, flexLate, flexOther, flexBoth, flexUnpaid:
		if f.acted {
			r.Status = provider.Success
		}
	}
	r.Word = string(r.Status)
	return r
}

// flexRequest is a deposit swap as it was requested.
type flexRequest struct {
	n    int
	call depositswap.Request
	id   string
}

func (r *flexRequest) depositSwapID() string { return depositswap.ID(orgID, *r.call.IdempotencyKey) }

// requestDepositSwap requests a deposit swap, or repeats a request.
func (w *soakRun) requestDepositSwap() {
	w.provider.isAway = w.drawChance(8)
	defer func() { w.provider.isAway = false }()
	if len(w.flexRequests) > 0 && w.drawChance(25) {
		w.sendDepositSwap(drawFrom(w, w.flexRequests))
		return
	}
	r := &flexRequest{n: len(w.flexRequests) + 1}
	key := fmt.Sprintf("deposit-swap-%d", r.n)
	refundTo := string(sim.Address(fmt.Sprintf("refund of deposit swap %d", r.n)))
	originTokenID := drawFrom(w, []string{
		"ethereum:native", "ethereum:" + string(tokens[limitedID]), "near:native",
	})
	r.call = depositswap.Request{
		IdempotencyKey: &key, CustomerID: drawFrom(w, w.customers), OriginTokenID: originTokenID,
		RefundAddress: refundTo, Actor: audit.APIKey(orgID),
	}
	if w.drawChance(50) {
		amount := w.amountOf(tokenID)
		if originTokenID == "ethereum:native" {
			amount = w.amountOf(nativeID)
		}
		r.call.AmountIn = new(amount.String())
	}
	w.flexRequests = append(w.flexRequests, r)
	w.sendDepositSwap(r)
}

func (w *soakRun) sendDepositSwap(r *flexRequest) {
	var made depositswap.DepositSwap
	hasCrash := w.drawChance(25)
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		if hasCrash { // right after the provider has learned the wallet
			var crash context.CancelFunc
			ctx, crash = context.WithCancel(ctx)
			defer crash()
			w.provider.afterFlex = crash
			defer func() { w.provider.afterFlex = func() {} }()
		}
		made, _, _, err = drawFrom(w, w.processes).DepositSwaps.Request(ctx, orgID, r.call)
		return err
	})
	w.addTrace("deposit swap #%d of %s for %s: %s", r.n, r.call.OriginTokenID, r.call.CustomerID, outcomeCode(s.err))
	w.findSwapWallets()
	w.recordDepositSwap(r, made, s.err)
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("deposit swap", s.err, w.isCalm() && !s.struck)
	}
}

func (w *soakRun) recordDepositSwap(r *flexRequest, made depositswap.DepositSwap, err error) {
	switch {
	case err == nil && made.ID != r.depositSwapID():
		w.failRun("deposit swap #%d is %s, and its key says %s", r.n, made.ID, r.depositSwapID())
	case err == nil && w.provider.flexByPayee[chain.Address(made.DepositAddress)] == nil:
		w.failRun("deposit swap #%d shows %s, which is no address of the provider", r.n, made.DepositAddress)
	case err == nil:
		if r.id == "" {
			w.depositSwaps++
		}
		r.id = made.ID
	case fault.Find(err) != nil && r.id != "":
		w.failRun("deposit swap #%d was accepted as %s and its repetition is refused: %v", r.n, r.id, err)
	}
}

// repeatDepositSwaps repeats the requests without an answer: what arrived for them waits until then.
func (w *soakRun) repeatDepositSwaps() {
	for _, r := range w.flexRequests {
		if r.id != "" {
			continue
		}
		made, _, _, err := w.processes[0].DepositSwaps.Request(w.ctx, orgID, r.call)
		w.findSwapWallets()
		if err != nil && fault.Find(err) == nil {
			w.failRun("deposit swap #%d has no answer: %v", r.n, err)
		}
		w.addTrace("deposit swap #%d again: %s", r.n, outcomeCode(err))
		w.recordDepositSwap(r, made, err)
	}
}

// followDepositSwaps has a process look at the deposit swaps that are due, one after the other, like followSwaps.
func (w *soakRun) followDepositSwaps(ctx context.Context, process *serviceProcess) error {
	ids := w.queryColumn(`SELECT deposit_swap_id FROM deposit_swaps WHERE look_at <= $1 ORDER BY deposit_swap_id`,
		w.readClock().Add(time.Second))
	for _, id := range ids {
		if err := process.DepositSwaps.Look(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// payDepositSwap has a customer pay the provider: the quoted amount, or another one.
func (w *soakRun) payDepositSwap() {
	if len(w.provider.flexDeals) == 0 {
		return
	}
	f := drawFrom(w, w.provider.flexDeals)
	amount := f.asked
	switch w.drawNumber(6) {
	case 0:
		amount = w.part(amount, 5000)
	case 1:
		amount = w.part(amount, 20_000)
	}
	if amount.IsZero() || w.isDepositSwapUnknown(f) && !w.drawChance(70) {
		return
	}
	if f.isSilent && len(f.namedFalsely) == 0 && len(w.madePayments) > 0 {
		f.namedFalsely = []chain.TxHash{w.madePayments[len(w.madePayments)-1].hash}
	}
	if f.origin == 0 {
		f.isPaid = true
		f.payers = append(f.payers, sim.Address(fmt.Sprintf("foreign payer %d of %d", f.n, len(f.payers))))
		w.addTrace("deal %d of deposit swaps is paid on another chain", f.n)
		return
	}
	hash := w.makePayment(sim.Move{Contract: tokens[f.origin], To: f.depositAddress, Amount: amount})
	f.payments = append(f.payments, hash)
	f.payers = append(f.payers, w.madePayments[len(w.madePayments)-1].payer)
	w.addTrace("pay %v of mint %d for deal %d of deposit swaps %s", amount, f.origin, f.n, hash[:12])
}

// isDepositSwapUnknown reports whether the caller has no answer for the deposit swap of a deal.
func (w *soakRun) isDepositSwapUnknown(f *flexDeal) bool {
	r := w.flexAddresses[f.recipient]
	return r == nil || r.id == ""
}

// payFlex has the provider pay an amount of a mint to the wallet of a deposit swap.
func (w *soakRun) payFlex(f *flexDeal, mintID int, amount money.Amount) {
	w.payFromProvider(mintID, f.recipient, amount)
}

// actFlex has the provider do what it plans with what it was paid.
func (w *soakRun) actFlex() {
	for _, f := range w.provider.flexDeals {
		if f.plan == "" {
			isPaid := f.isPaid || f.origin != 0 && !w.net.Received(f.depositAddress, tokens[f.origin]).IsZero()
			switch {
			case isPaid:
				f.plan = drawFrom(w, flexPlans)
			case w.drawChance(1):
				f.plan = flexUnpaid
			default:
				continue
			}
			w.addTrace("the solver plans for deal %d of deposit swaps: %s", f.n, f.plan)
			w.faults.addOne("deposit swap: " + string(f.plan))
		}
		if !f.acted && w.drawChance(50) {
			f.acted = true
			w.actFlexDeal(f)
		}
	}
}

func (w *soakRun) actFlexDeal(f *flexDeal) {
	switch f.plan {
	case flexDeliver, flexUnpaid, flexDespite:
		w.payFlex(f, tokenID, f.out)
	case flexTwice:
		w.payFlex(f, tokenID, f.out)
		w.payFlex(f, tokenID, f.out)
	case flexParts:
		first := w.part(f.out, 3000)
		w.payFlex(f, tokenID, first)
		w.payFlex(f, tokenID, money.SubOrZero(f.out, first))
	case flexOther:
		w.payFlex(f, limitedID, w.part(f.out, 5000))
	case flexBoth:
		w.payFlex(f, nativeID, money.Units(wei/1000))
		w.payFlex(f, tokenID, f.out)
	case flexRefund:
		if f.origin != 0 {
			f.refunds = append(f.refunds, w.payFromProvider(f.origin, f.refundTo, f.asked))
		}
	case flexFail, flexLate:
	}
}

// endFlexDeals has the provider do at the end what it does very late.
func (w *soakRun) endFlexDeals(isLate bool) {
	for _, f := range w.provider.flexDeals {
		if isLate && f.plan == flexLate && !f.late {
			f.late = true
			w.payFlex(f, tokenID, f.out)
		}
	}
}

// checkFlexOwner checks whose an arrival for a deposit swap is: it counts only for the customer of the row, and
// waits while there is none.
func (w *soakRun) checkFlexOwner(r *flexRequest, status, customerID, depositSwapID, customerOfRow string) {
	if customerOfRow != "" && customerOfRow != r.call.CustomerID {
		w.failRun("deposit swap #%d is of %s, and its row says %s", r.n, r.call.CustomerID, customerOfRow)
	}
	if status == "SCREENING" && customerID == "" {
		return
	}
	if customerOfRow == "" && status != "SCREENING" {
		w.failRun("an arrival for deposit swap #%d is %s without a row", r.n, status)
	}
	if customerID != r.call.CustomerID || depositSwapID != r.depositSwapID() {
		w.failRun("an arrival for deposit swap #%d of %s is %s, of %q and deposit swap %s", r.n, r.call.CustomerID,
			status, customerID, depositSwapID)
	}
	if status == "REJECTING" || status == "REJECTED" {
		w.failRun("an arrival for deposit swap #%d is %s: the solver is not who paid", r.n, status)
	}
}

// checkPayers checks an arrival that was credited without a person: in a strict run someone who is known paid for it,
// and not only severe addresses.
func (w *soakRun) checkPayers(r *flexRequest, id movementID, a arrival, wasFlagged bool) {
	if wasFlagged || !w.strict || w.dollarValue(a) <= dollarsMax {
		return
	}
	var payers []chain.Address
	for _, f := range w.provider.flexDeals {
		if f.recipient == a.recipient && !f.isSilent {
			payers = append(payers, f.payers...)
		}
	}
	if len(payers) == 0 {
		w.failRun("an arrival of %v for deposit swap #%d is credited, and no one knows who paid: %+v", a.amount, r.n,
			id)
	}
	if !slices.ContainsFunc(payers, func(payer chain.Address) bool {
		return !severityOf(w.seed, payer).Exceeds(risk.High)
	}) {
		w.failRun("an arrival of %v for deposit swap #%d is credited, and %v paid, all of them severe: %+v", a.amount,
			r.n, payers, id)
	}
}

// checkDepositSwaps is the last check of deposit swaps: each row is of an answered request, and says what final blocks
// say.
func (w *soakRun) checkDepositSwaps() {
	arrived := map[chain.Address]money.Amount{} // of the mint that providers deliver
	for _, a := range w.arrivals.expected {
		if w.flexAddresses[a.recipient] == nil {
			continue
		}
		w.flexArrivals++
		if a.contract == tokens[tokenID] {
			sum, err := arrived[a.recipient].Add(a.amount)
			w.mustSucceed(err, "sum up what a deposit swap brought")
			arrived[a.recipient] = sum
		}
	}
	rows, err := w.superPool.Query(w.ctx, `
		SELECT s.deposit_swap_id, w.address, s.deposit_address, s.refund_address, s.status, coalesce(s.amount_out, 0),
			coalesce(s.received_amount, 0), coalesce(s.refunded_amount, 0)
		FROM deposit_swaps s JOIN wallets w USING (wallet_id)`)
	w.mustSucceed(err, "read the deposit swaps")
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id, status string
		var receiver, deposit, refund chain.Address
		var amountOut, received, refunded money.Amount
		w.mustSucceed(rows.Scan(&id, &receiver, &deposit, &refund, &status, &amountOut, &received, &refunded),
			"read a deposit swap")
		n++
		r, f := w.flexAddresses[receiver], w.provider.flexByPayee[deposit]
		if r == nil || r.id != id || f == nil || f.recipient != receiver {
			w.failRun("deposit swap %s at %s with the address %s is none that was answered", id, receiver, deposit)
		}
		if (status == "COMPLETED") != !arrived[receiver].IsZero() || amountOut != arrived[receiver] {
			w.failRun("deposit swap #%d is %s with %v, and %v arrived", r.n, status, amountOut, arrived[receiver])
		}
		paid, returned := money.Zero, money.Zero
		if f.origin != 0 {
			paid = w.arrivals.received[chain.Holding{Address: deposit, Contract: tokens[f.origin]}]
			returned = w.arrivals.received[chain.Holding{Address: refund, Contract: tokens[f.origin]}]
		}
		if paid.Less(received) || returned.Less(refunded) {
			w.failRun("deposit swap #%d says %v received and %v refunded, and final blocks %v and %v", r.n, received,
				refunded, paid, returned)
		}
	}
	w.mustSucceed(rows.Err(), "read the deposit swaps")
	if n != w.depositSwaps {
		w.failRun("there are %d deposit swaps, and %d were answered", n, w.depositSwaps)
	}
}
