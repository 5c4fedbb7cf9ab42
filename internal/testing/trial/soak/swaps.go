package soak

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// dealPlan is what the provider does with a swap once it has the payment.
type dealPlan string

// The plans.
const (
	planDeliver    dealPlan = "deliver"
	planEarly      dealPlan = "deliver before the payment is final"
	planSplit      dealPlan = "deliver in parts"
	planShort      dealPlan = "deliver less than the minimum"
	planTwice      dealPlan = "deliver twice"
	planOver       dealPlan = "deliver far too much, then the amount"
	planOther      dealPlan = "deliver another asset, then the right one"
	planRefund     dealPlan = "refund"
	planPart       dealPlan = "refund a part"
	planBoth       dealPlan = "deliver and refund"
	planFail       dealPlan = "fail without a refund"
	planFailLate   dealPlan = "fail, then deliver"
	planLie        dealPlan = "report a delivery, and deliver at the end"
	refundFeeUnits          = 1000
)

// plans are drawn by their frequency in this list.
var plans = []dealPlan{
	planDeliver, planDeliver, planDeliver, planDeliver, planDeliver, planEarly, planSplit, planSplit, planShort,
	planTwice,
	planOver, planOther, planRefund, planRefund, planRefund, planPart, planBoth, planFail, planFailLate, planLie,
}

// deal is a firm quote of the provider, and what became of it.
type deal struct {
	n                   int
	depositAddress      chain.Address
	recipient, refundTo chain.Address
	origin, destination int // mints
	amountIn, out       money.Amount
	wish                dealPlan // what it will do; "" until the payment was seen in a block
	plan                dealPlan // what it does; "" until the wish may begin
	acted, late         bool     // it did what the plan says at once, and what it says of later
}

// swapProvider is the provider. It signs as 1Click does, and decides nothing by itself: the run has it act.
type swapProvider struct {
	t        testing.TB
	seed     uint64
	key      ed25519.PrivateKey
	clock    func() time.Time
	isAway   bool
	accounts int // from which it has paid
	deals    []*deal
	byPayee  map[chain.Address]*deal

	flexDeals   []*flexDeal // of deposit swaps
	flexByPayee map[chain.Address]*flexDeal
	afterFlex   func() // called for each firm quote of a deposit swap
}

func newSwapProvider(t testing.TB, seed uint64, clock func() time.Time) *swapProvider {
	digest := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("soak solver "), seed))
	return &swapProvider{
		t: t, seed: seed, key: ed25519.NewKeyFromSeed(digest[:]), clock: clock, byPayee: map[chain.Address]*deal{},
		flexByPayee: map[chain.Address]*flexDeal{}, afterFlex: func() {},
	}
}

// policy lets the signer pay the provider.
func (d *swapProvider) policy() *signpolicy.Swaps {
	p := signpolicy.SwapProvider{
		Scheme: signedquote.OneClickV0, Keys: []string{quotetest.FormatOneClickKey(d.key)}, Assets: map[string]string{},
		Limits: map[string]signpolicy.Limit{},
	}
	for _, contract := range tokens {
		name := signpolicy.TokenKey(chain.Ethereum, contract)
		p.Assets[name], p.Limits[name] = signertest.SwapAsset(chain.Ethereum, contract),
			signpolicy.Limit{Unlimited: true}
	}
	return &signpolicy.Swaps{Providers: map[string]signpolicy.SwapProvider{d.Name(): p}}
}

// verify verifies a quote for the checks of the books.
func (d *swapProvider) verify(name string, scheme signedquote.Scheme, raw []byte) (signedquote.Quote, error) {
	if name != d.Name() || scheme != signedquote.OneClickV0 {
		return signedquote.Quote{}, fmt.Errorf("there is no provider %s that signs %s", name, scheme)
	}
	return signedquote.VerifyOneClick(raw, []ed25519.PublicKey{d.key.Public().(ed25519.PublicKey)})
}

// Name implements provider.Provider.
func (d *swapProvider) Name() string { return signertest.SwapProvider }

// Assets implements provider.Provider.
func (d *swapProvider) Assets(context.Context) (assets []provider.Asset, err error) {
	for _, mintID := range []int{tokenID, nativeID, limitedID} {
		token := provider.Token{Chain: chain.Ethereum, Contract: tokens[mintID]}
		assets = append(assets, provider.Asset{
			Token: token.Canonical(), ID: signertest.SwapAsset(chain.Ethereum, tokens[mintID]), Accepts: true,
			Delivers: true, AcceptsAny: true, Symbol: fmt.Sprint("MINT", mintID), Decimals: decimalsOf(mintID),
			PriceUSD: pricesUSD[mintID],
		})
	}
	return append(assets, provider.Asset{
		Token: foreignToken.Canonical(), ID: signertest.SwapAsset(foreignToken.Chain, ""), Symbol: "NEAR", Decimals: 6,
		Accepts: true, AcceptsAny: true, PriceUSD: money.MustParseUSD("1"),
	}), nil
}

// mintOfToken returns the mint of a token of a question.
func mintOfToken(token provider.Token) int {
	for mintID, contract := range tokens {
		if token.Canonical() == (provider.Token{Chain: chain.Ethereum, Contract: contract}).Canonical() {
			return mintID
		}
	}
	return 0
}

// toDollars returns the value of an amount of a mint.
func toDollars(mintID int, amount money.Amount) *big.Rat {
	switch mintID {
	case nativeID:
		return new(big.Rat).SetFrac(new(big.Int).Mul(amount.Big(), big.NewInt(3000)), big.NewInt(wei))
	case limitedID:
		return new(big.Rat).SetFrac(new(big.Int).Mul(amount.Big(), big.NewInt(2)), big.NewInt(1_000_000))
	}
	return new(big.Rat).SetFrac(amount.Big(), big.NewInt(1_000_000))
}

// priceOut is the amount that the provider offers: half a percent less than the value.
func priceOut(origin, destination int, amountIn money.Amount) (money.Amount, error) {
	value := toDollars(origin, amountIn)
	value.Mul(value, big.NewRat(995, 1000)).Quo(value, toDollars(destination, money.Units(1)))
	return money.Parse(new(big.Int).Quo(value.Num(), value.Denom()).String())
}

var errProviderAway = errors.New("no answer")

// Quote implements provider.Provider.
func (d *swapProvider) Quote(_ context.Context, ask provider.Ask) (provider.Offer, error) {
	if d.isAway {
		return provider.Offer{}, provider.Unavailable("%w", errProviderAway)
	}
	origin, destination := mintOfToken(ask.Origin), mintOfToken(ask.Destination)
	out, err := priceOut(origin, destination, ask.AmountIn)
	if err != nil || out.IsZero() {
		return provider.Offer{}, provider.Malformed("it offers nothing: %v", err)
	}
	promised, err := out.Bps(uint64(10_000 - ask.SlippageBps))
	if err != nil || promised.IsZero() {
		return provider.Offer{}, provider.Malformed("it promises nothing: %v", err)
	}
	if !ask.IsFirm {
		return provider.Offer{
			Provider: d.Name(), AmountIn: ask.AmountIn, MinAmountIn: ask.AmountIn, AmountOut: out,
			MinAmountOut: promised,
			Estimate:     10 * time.Second,
		}, nil
	}
	if ask.IsFlexible {
		return d.quoteFlex(ask, origin, out, promised)
	}
	a := &deal{
		n: len(d.deals) + 1, recipient: ask.Recipient, refundTo: ask.RefundTo, origin: origin, destination: destination,
		amountIn: ask.AmountIn, out: out,
	}
	a.depositAddress = signertest.SwapDepositAddress(fmt.Sprintf("%d %s %d", d.seed, ask.Reference, a.n))
	d.deals = append(d.deals, a)
	d.byPayee[a.depositAddress] = a
	now := d.clock()
	fee := money.Zero
	if a.n%3 == 0 && !ask.AmountIn.Less(money.Units(10*refundFeeUnits)) {
		fee = money.Units(refundFeeUnits)
	}
	raw := quotetest.OneClick{
		DepositAddress: string(a.depositAddress), OriginAsset: signertest.SwapAsset(chain.Ethereum, tokens[origin]),
		DestinationAsset: signertest.SwapAsset(chain.Ethereum, tokens[destination]), AmountIn: ask.AmountIn,
		AmountOut:    out,
		MinAmountOut: promised, AmountInUSD: "10.00", AmountOutUSD: "9.90", Recipient: string(ask.Recipient),
		RefundTo: string(ask.RefundTo), RefundFee: fee, SlippageBps: ask.SlippageBps, SignedAt: now,
		Deadline: now.Add(12 * time.Hour),
	}.Sign(d.t, d.key)
	q, err := d.verify(d.Name(), signedquote.OneClickV0, raw)
	if err != nil {
		return provider.Offer{}, provider.CheckSigned(err)
	}
	return provider.NewFirmOffer(d.Name(), raw, q), nil
}

// Status implements provider.Provider.
func (d *swapProvider) Status(_ context.Context, ref provider.Ref, _ chain.TxHash) (provider.Report, error) {
	if d.isAway {
		return provider.Report{}, provider.Unavailable("%w", errProviderAway)
	}
	r := provider.Report{Provider: d.Name(), Status: provider.Waiting, Refund: provider.RefundNone, Raw: []byte(`{}`)}
	if f := d.flexByPayee[chain.Address(ref.DepositAddress)]; f != nil {
		return f.report(r), nil
	}
	a := d.byPayee[chain.Address(ref.DepositAddress)]
	if a == nil || a.plan == "" {
		r.Word = string(r.Status)
		return r, nil
	}
	r.Status = provider.Processing
	switch a.plan {
	case planRefund, planPart, planBoth:
		r.Status, r.Refund = provider.Refunded, provider.RefundPending
	case planFail, planFailLate:
		r.Status, r.Refund = provider.Failed, provider.RefundUnavailable
	case planDeliver, planEarly, planSplit, planShort, planTwice, planOver, planOther, planLie:
		if a.acted {
			r.Status = provider.Success
		}
	}
	r.Word = string(r.Status)
	return r, nil
}

// swapRequest is a swap as it was requested.
type swapRequest struct {
	n      int
	call   swap.Request
	mint   int // from which
	amount money.Amount
	id     string
}

// enableSwaps switches swaps on for the organization.
func (w *soakRun) enableSwaps() {
	w.mustSucceed(w.changeSettings(w.ctx, org.Changes{
		"customerSwapsEnabled": json.RawMessage(`true`), "swappableMintIds": json.RawMessage(`[1, 2, 3]`),
		"swapFeeBps":             json.RawMessage(drawFrom(w, []string{`0`, `25`, `100`})),
		"autoRestoreFailedSwaps": json.RawMessage(drawFrom(w, []string{`true`, `false`})),
	}), "enable swaps")
}

// requestSwap requests a swap of a part of a balance, or repeats a request.
func (w *soakRun) requestSwap() {
	w.provider.isAway = w.drawChance(8)
	defer func() { w.provider.isAway = false }()
	if len(w.swapRequests) > 0 && w.drawChance(20) {
		w.sendSwap(drawFrom(w, w.swapRequests))
		return
	}
	r := &swapRequest{n: len(w.swapRequests) + 1}
	var customer string
	var balance money.Amount
	for range 4 {
		customer, r.mint = drawFrom(w, w.customers), drawFrom(w, []int{tokenID, nativeID, limitedID})
		if balance = w.loadBalance(customer, r.mint); !balance.IsZero() {
			break
		}
	}
	part, err := balance.Bps(uint64(1000 + w.drawNumber(9001)))
	w.mustSucceed(err, "draw an amount")
	if r.amount = part; part.IsZero() {
		return
	}
	destination := drawFrom(w, []int{tokenID, nativeID, limitedID})
	r.call = swap.Request{
		IdempotencyKey: fmt.Sprintf("swap-%d", r.n), CustomerID: customer, FromMintID: r.mint, ToMintID: destination,
		AmountIn: r.amount.String(), Actor: audit.APIKey(orgID),
	}
	w.swapRequests = append(w.swapRequests, r)
	w.sendSwap(r)
}

func (w *soakRun) sendSwap(r *swapRequest) {
	var made swap.Swap
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		made, _, err = drawFrom(w, w.processes).Swaps.Request(ctx, orgID, r.call)
		return err
	})
	w.addTrace("swap #%d: %v of mint %d to mint %d for %s: %s", r.n, r.amount, r.call.FromMintID, r.call.ToMintID,
		r.call.CustomerID,
		outcomeCode(s.err))
	w.findSwapWallets()
	w.recordSwap(r, made, s.err)
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("swap", s.err, w.isCalm() && !s.struck)
	}
}

func (w *soakRun) recordSwap(r *swapRequest, made swap.Swap, err error) {
	switch {
	case err == nil && r.id != "" && r.id != made.ID:
		w.failRun("swap request #%d was accepted as %s and as %s", r.n, r.id, made.ID)
	case err == nil:
		if r.id == "" {
			w.swaps++
		}
		r.id = made.ID
	case fault.Find(err) != nil && r.id != "":
		w.failRun("swap request #%d was accepted as %s and its repetition is refused: %v", r.n, r.id, err)
	}
}

// findSwapWallets learns the addresses of the wallets of swaps.
func (w *soakRun) findSwapWallets() {
	for _, address := range w.queryColumn(
		`SELECT address FROM wallets WHERE purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') AND $1 ORDER BY subject,
			purpose`, true,
	) {
		w.ownAddresses[chain.Address(address)], w.swapAddresses[chain.Address(address)] = true, true
	}
	for _, r := range w.flexRequests {
		for _, address := range w.queryColumn(
			`SELECT address FROM wallets WHERE purpose = 'DEPOSIT_SWAP' AND subject = $1`, r.depositSwapID(),
		) {
			w.ownAddresses[chain.Address(address)], w.flexAddresses[chain.Address(address)] = true, r
		}
	}
}

// followSwaps has a process look at the swaps that are due, one after the other: the worker looks at several
// at once, in an order that the seed does not decide.
func (w *soakRun) followSwaps(ctx context.Context, process *serviceProcess) error {
	ids := w.queryColumn(`SELECT swap_id FROM swaps WHERE look_at <= $1 ORDER BY swap_id`,
		w.readClock().Add(time.Second))
	for _, id := range ids {
		if err := process.Swaps.Look(ctx, id); err != nil {
			return err
		}
	}
	_, err := process.Swaps.CollectOwed(ctx)
	return err
}

// payFromProvider has the provider pay an amount of a mint.
func (w *soakRun) payFromProvider(mintID int, recipient chain.Address, amount money.Amount) (hash chain.TxHash) {
	if amount.IsZero() {
		return ""
	}
	// Each payment has an account of its own: one that is dropped holds up no other.
	w.provider.accounts++
	account := sim.Address(fmt.Sprintf("solver %d", w.provider.accounts))
	w.net.Mint(account, tokens[mintID], amount)
	hash = w.net.SubmitTx(account, sim.Move{Contract: tokens[mintID], To: recipient, Amount: amount})
	w.addTrace("  the solver pays %v of mint %d to %.8s %s", amount, mintID, recipient, hash[:12])
	w.deposits++
	return hash
}

// actProvider has the provider look at its deposit addresses, and do what it plans.
func (w *soakRun) actProvider() {
	final := w.arrivals.height
	for _, a := range w.provider.deals {
		if a.plan == "" {
			if w.net.Received(a.depositAddress, tokens[a.origin]).Less(a.amountIn) {
				continue
			}
			if a.wish == "" {
				a.wish = drawFrom(w, plans)
			}
			if a.wish != planEarly && w.receivedUpTo(final, a.depositAddress).Less(a.amountIn) {
				continue
			}
			a.plan = a.wish
			w.addTrace("the solver plans for deal %d: %s", a.n, a.plan)
			w.faults.addOne("swap: " + string(a.plan))
		}
		if !a.acted && w.drawChance(60) {
			a.acted = true
			w.actDeal(a)
		}
	}
}

// receivedUpTo returns what an address received in blocks up to a height.
func (w *soakRun) receivedUpTo(height uint64, address chain.Address) money.Amount {
	sum := money.Zero
	for h := uint64(1); h <= height; h++ {
		for _, m := range w.net.BlockAt(h).Transfers {
			if m.To == address {
				var err error
				sum, err = sum.Add(m.Amount)
				w.mustSucceed(err, "sum up what a deposit address received")
			}
		}
	}
	return sum
}

// part returns basis points of an amount.
func (w *soakRun) part(amount money.Amount, bps uint64) money.Amount {
	part, err := amount.Bps(bps)
	w.mustSucceed(err, "take a part of an amount")
	return part
}

// actDeal does at once what the plan of a deal says.
func (w *soakRun) actDeal(a *deal) {
	deliver := func(amount money.Amount) { w.payFromProvider(a.destination, a.recipient, amount) }
	refund := func(amount money.Amount) { w.payFromProvider(a.origin, a.refundTo, amount) }
	switch a.plan {
	case planDeliver, planEarly:
		deliver(a.out)
	case planSplit:
		first := w.part(a.out, 4000)
		deliver(first)
		deliver(money.SubOrZero(a.out, first))
	case planShort:
		deliver(w.part(a.out, 5000))
	case planTwice:
		deliver(a.out)
		deliver(a.out)
	case planOver:
		deliver(w.part(a.out, 15_000))
		deliver(a.out)
	case planOther:
		for _, mintID := range []int{tokenID, nativeID, limitedID} {
			if mintID != a.destination {
				w.payFromProvider(mintID, a.recipient, money.Units(77_777))
				break
			}
		}
		deliver(a.out)
	case planRefund:
		refund(a.amountIn)
	case planPart:
		refund(w.part(a.amountIn, 5000))
	case planBoth:
		deliver(a.out)
		refund(a.amountIn)
	case planFail, planFailLate, planLie:
	}
}

// driveSwaps is what happens to swaps in the second phase.
func (w *soakRun) driveSwaps(round int) {
	if round < swapRounds {
		w.requestSwap()
		w.requestOwnSwap()
		w.payDepositSwap()
	}
	if round < providerRounds {
		w.actProvider()
		w.actFlex()
		return
	}
	w.endDeals(round > drainMax/4)
	w.endFlexDeals(round > drainMax/4)
}

// endDeals has the provider do what it said and what a fork took, once nothing is on its way. A swap ends by what
// arrives, so that no deal may stay as it is.
func (w *soakRun) endDeals(isLate bool) {
	if len(w.net.Mempool()) > 0 {
		return
	}
	for _, a := range w.provider.deals {
		if w.receivedUpTo(w.arrivals.height, a.depositAddress).IsZero() {
			continue
		}
		if a.plan == "" {
			a.plan = planDeliver
		}
		a.acted = true
		delivered, refunded := w.net.Received(a.recipient, tokens[a.destination]), w.net.Received(a.refundTo,
			tokens[a.origin])
		switch a.plan {
		case planDeliver, planEarly, planSplit, planTwice, planOver, planOther:
			if delivered.Less(a.out) {
				w.payFromProvider(a.destination, a.recipient, money.SubOrZero(a.out, delivered))
			}
		case planShort:
			if half := w.part(a.out, 5000); delivered.Less(half) {
				w.payFromProvider(a.destination, a.recipient, money.SubOrZero(half, delivered))
			}
		case planRefund, planPart, planBoth:
			if half := w.part(a.amountIn, 5000); refunded.Less(half) && delivered.IsZero() {
				w.payFromProvider(a.origin, a.refundTo, money.SubOrZero(half, refunded))
			}
		case planLie, planFailLate:
			if isLate && !a.late {
				a.late = true
				w.payFromProvider(a.destination, a.recipient, a.out)
			}
		case planFail:
		}
	}
}

// decideSwaps restores a failed swap, decides about a stray arrival, gives up a claim, or lets the provider make
// swaps again.
func (w *soakRun) decideSwaps() {
	operator := audit.Operator("op_1")
	process := drawFrom(w, w.processes)
	kind := w.drawNumber(10)
	var ids []string
	var decide func(ctx context.Context, id string) error
	switch {
	case kind < 5:
		ids = w.queryColumn(`SELECT swap_id FROM swaps WHERE status = 'FAILED' AND $1 ORDER BY swap_id`, true)
		decide = func(ctx context.Context, id string) error {
			_, err := process.Swaps.Restore(ctx, orgID, id, audit.APIKey(orgID))
			return err
		}
	case kind < 8:
		ids = w.queryColumn(`SELECT d.deposit_id FROM swap_arrivals a JOIN deposits d USING (deposit_id)
			WHERE a.role = 'STRAY' AND $1 ORDER BY d.tx_hash, d.position`, true)
		decision := drawFrom(w, []swap.ArrivalDecision{swap.CreditArrival, swap.CreditArrival, swap.KeepArrival})
		decide = func(ctx context.Context, id string) error {
			_, err := process.Swaps.DecideArrival(ctx, id, decision, "by the soak", operator)
			return err
		}
	case kind < 9:
		ids = w.queryColumn(`SELECT swap_id FROM swaps WHERE status = 'FAILED' AND refunded + short < amount_in
			AND $1 ORDER BY swap_id`, true)
		decide = func(ctx context.Context, id string) error {
			return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
				_, err := process.Swaps.WriteOff(ctx, tx, id, "by the soak", operator)
				return err
			})
		}
	default:
		ids = w.queryColumn(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED' AND $1`, true)
		decide = func(ctx context.Context, id string) error {
			return process.Swaps.ResumeProvider(ctx, id, "by the soak", operator)
		}
	}
	if len(ids) == 0 {
		return
	}
	id := drawFrom(w, ids)
	s := w.runWithFaults(func(ctx context.Context) error { return decide(ctx, id) })
	w.addTrace("decide about swaps (%d): %s", kind, outcomeCode(s.err))
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("decide about swaps", s.err, w.isCalm() && !s.struck)
	}
}

// settleSwaps restores everything, and decides about every stray.
func (w *soakRun) settleSwaps() {
	swaps, operator := w.processes[0].Swaps, audit.Operator("op_1")
	for _, id := range w.queryColumn(`SELECT swap_id FROM swaps WHERE status = 'FAILED' AND refunded > restored
		AND $1 ORDER BY swap_id`, true) {
		_, err := swaps.Restore(w.ctx, orgID, id, audit.APIKey(orgID))
		w.mustSucceed(err, "restore a swap")
	}
	for _, id := range w.queryColumn(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL
		AND $1`, true) {
		_, err := swaps.DecideArrival(w.ctx, id, swap.CreditArrival, "by the soak", operator)
		if err != nil && fault.Find(err) == nil {
			w.failRun("decide about a stray: %v", err)
		}
		if fault.Find(err) != nil { // no swap says whose it is
			_, err = swaps.DecideArrival(w.ctx, id, swap.KeepArrival, "by the soak", operator)
			w.mustSucceed(err, "keep a stray")
		}
	}
}

// checkSwapPayout checks what left for the provider: for each deal nothing, or what it was promised. It reports
// whether the payee is the provider.
func (w *soakRun) checkSwapPayout(p payout, sum money.Amount) bool {
	a := w.provider.byPayee[p.recipient]
	if a == nil {
		return false
	}
	if p.contract != tokens[a.origin] || sum != a.amountIn {
		w.failRun("deal %d was for %v of mint %d, and %v of %.10q left for it", a.n, a.amountIn, a.origin, sum,
			p.contract)
	}
	return true
}

// swapTotals are what swaps changed of balances, by customer and mint.
type swapTotals map[string]*big.Int

func (t swapTotals) add(key string, n *big.Int) {
	if t[key] == nil {
		t[key] = new(big.Int)
	}
	t[key].Add(t[key], n)
}

// checkSwaps compares every swap with the chain: what was paid, what arrived at its two wallets, and what of
// that its customer has. It returns what swaps changed of balances.
func (w *soakRun) checkSwaps(balanceKey func(owner string, mintID int) string) swapTotals {
	totals := swapTotals{}
	arrived := map[chain.Holding]*big.Int{} // by the final blocks
	byMovement := map[movementID]arrival{}
	for id, a := range w.arrivals.expected {
		if w.swapAddresses[a.recipient] {
			k := chain.Holding{Address: a.recipient, Contract: a.contract}
			if arrived[k] == nil {
				arrived[k] = new(big.Int)
			}
			arrived[k].Add(arrived[k], a.amount.Big())
			byMovement[id] = a
		}
	}
	amountAt := func(address chain.Address, mintID int) *big.Int {
		if n := arrived[chain.Holding{Address: address, Contract: tokens[mintID]}]; n != nil {
			return n
		}
		return new(big.Int)
	}
	rows, err := w.superPool.Query(w.ctx, `
		SELECT s.swap_id, s.kind = 'ORGANIZATION', coalesce(s.customer_id, s.product), s.from_mint_id, s.to_mint_id,
			s.amount_in, s.estimated_out, s.status, coalesce(s.deposit_address, ''), d.address, r.address,
			coalesce(s.amount_out, 0), s.refunded,
			s.restored, s.paid_at IS NOT NULL
		FROM swaps s
		JOIN wallets d ON d.wallet_id = s.delivery_wallet_id
		JOIN wallets r ON r.wallet_id = s.refund_wallet_id`)
	w.mustSucceed(err, "read the swaps")
	defer rows.Close()
	for rows.Next() {
		var id, owner, status string
		var isOwn bool
		var origin, destination int
		var amountIn, estimated, amountOut, refunded, restored money.Amount
		var deposit, delivery, refund chain.Address
		var isPaid bool
		w.mustSucceed(rows.Scan(
			&id, &isOwn, &owner, &origin, &destination, &amountIn, &estimated, &status, &deposit, &delivery, &refund,
			&amountOut,
			&refunded, &restored, &isPaid,
		), "read a swap")
		paid := w.receivedUpTo(w.arrivals.height, deposit)
		fail := func(format string, args ...any) {
			w.failRun("swap %s is %s, of %v, paid %v: %s", id, status, amountIn, paid, fmt.Sprintf(format, args...))
		}
		if isPaid && paid != amountIn || !isPaid && !paid.IsZero() && status != "PENDING" && status != "DEPOSITING" {
			fail("it counts as paid: %v", isPaid)
		}
		returned := amountAt(refund, origin)
		switch {
		case isPaid && refunded.Big().Cmp(returned) > 0, !isPaid && !refunded.IsZero() && refunded != amountIn,
			refunded.Less(restored):
			fail("%v was restored, %v counts as refunded and %v came back", restored, refunded, returned)
		case !isPaid && !refunded.IsZero() && !paid.IsZero():
			fail("%v counts as never paid", refunded)
		case w.part(estimated, 11_000).Less(amountOut):
			fail("%v was credited, and %v was expected", amountOut, estimated)
		}
		if delivered := amountAt(delivery, destination); amountOut.Big().Cmp(delivered) > 0 {
			fail("%v was credited and %v arrived", amountOut, delivered)
		}
		// The output of an own swap whose payout was ended stays in the product.
		if !amountOut.IsZero() && !restored.IsZero() || status == "COMPLETED" && amountOut.IsZero() ||
			status != "COMPLETED" && !amountOut.IsZero() && !(isOwn && status == "FAILED") {
			fail("%v was restored and %v delivered", restored, amountOut)
		}
		if status == "REJECTED" || status == "CANCELLED" {
			w.endedSwaps++
		}
		if (status == "REJECTED" || status == "CANCELLED") && (deposit != "" || restored != amountIn) {
			fail("its offer pays %q, and %v was restored", deposit, restored)
		}
		if status == "COMPLETED" && isOwn {
			w.payouts++
		}
		totals.add(balanceKey(owner, origin), new(big.Int).Neg(amountIn.Big()))
		totals.add(balanceKey(owner, origin), restored.Big())
		totals.add(balanceKey(owner, destination), amountOut.Big())
	}
	w.mustSucceed(rows.Err(), "read the swaps")

	// What was credited of the strays was decided, once. Everything else of the strays is in suspense.
	strays, err := w.superPool.Query(w.ctx, `
		SELECT d.tx_hash, d.kind, d.position, d.mint_id, coalesce(d.customer_id, d.product, ''),
			a.decision IS NOT DISTINCT FROM 'CREDITED'
		FROM swap_arrivals a JOIN deposits d USING (deposit_id) WHERE a.role = 'STRAY'`)
	w.mustSucceed(err, "read the strays")
	defer strays.Close()
	for strays.Next() {
		var id movementID
		var mintID int
		var owner string
		var isCredited bool
		w.mustSucceed(strays.Scan(&id.tx, &id.kind, &id.position, &mintID, &owner, &isCredited), "read a stray")
		a, isKnown := byMovement[id]
		if !isKnown {
			w.failRun("a stray arrival is on no block: %+v", id)
		}
		if isCredited {
			totals.add(balanceKey(owner, mintID), a.amount.Big())
		}
	}
	w.mustSucceed(strays.Err(), "read the strays")
	if n := w.queryCount(`SELECT count(*) FROM swap_arrivals`); n != len(byMovement) {
		w.failRun("%d arrivals are settled, and %d reached the wallets of swaps", n, len(byMovement))
	}
	return totals
}
