package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// sale is a checkout as it was requested, and what was done about it.
type sale struct {
	n       int
	call    checkout.CheckoutRequest
	mints   []int
	id      string
	address chain.Address // "" until an option was opened

	// What was tried, also without an answer: nothing else may explain the state of the checkout.
	isCancelTried, isAcceptTried, isRefundTried bool
	isCompleted                                 bool // it was seen completed, and stays so
}

// payback is a refund as a person asked for it.
type payback struct {
	n    int
	call checkout.RefundRequest
	id   string
	key  string // with which its payer claims it; "" if the answer was lost
}

// shopState is what the generator remembers of checkouts.
type shopState struct {
	products    []product
	sales       []*sale
	saleByID    map[string]*sale
	paybacks    []*payback
	lostID      string        // a checkout that the database lacks, as after the restore of an old backup
	lostAddress chain.Address // its address, of which the journal knows
	// goals are the addresses to which refunds were to go, each of one attempt of one refund.
	goals map[chain.Address]string
	// assigned are the checkouts to which a person gave an unmatched payment, or tried to.
	assigned map[movementID]map[string]bool
	ids      *rand.ChaCha8
}

// product is what the shop sells.
type product struct {
	id          string
	cents       int
	mints       []int
	isExclusive bool // one paid checkout for each reference
}

func newShopState(seed uint64) shopState {
	var start [32]byte
	copy(start[:], binary.BigEndian.AppendUint64([]byte("checkouts "), seed))
	return shopState{
		saleByID: map[string]*sale{}, goals: map[chain.Address]string{}, assigned: map[movementID]map[string]bool{},
		ids: rand.NewChaCha8(start),
	}
}

// newShopID makes the ids of checkouts and refunds: addresses, and so transactions, follow from them.
func (w *soakRun) newShopID(prefix string, createdAt time.Time) string {
	return prefix + "_" + ulid.MustNew(ulid.Timestamp(createdAt), w.shop.ids).String()
}

// openShop creates the products, and the address of a checkout that the database lacks.
func (w *soakRun) openShop() {
	for i := range 3 {
		d := checkout.NewDraft()
		p := product{
			cents: 1000 * (1 + w.drawNumber(30)), mints: drawFrom(w, [][]int{
				{tokenID, nativeID}, {tokenID}, {nativeID, limitedID}, {tokenID, nativeID, limitedID},
			}),
		}
		d.Name, d.PriceType, d.Price = fmt.Sprintf("product %d", i+1), checkout.FixedPrice, new(fmt.Sprint(p.cents/100))
		d.AcceptedMintIDs, d.MaxQuantity = p.mints, 3
		d.UnderpaymentToleranceBps = drawFrom(w, []int{0, 0, 100})
		d.OverpaymentPolicy = drawFrom(w, []string{checkout.CreditSurplus, checkout.RefundLinkSurplus})
		d.LatePaymentPolicy = drawFrom(w, []string{checkout.AcceptLate, checkout.HoldLate, checkout.RefundLinkLate})
		d.OnePerReference = w.drawChance(30)
		made, _, err := w.processes[0].Checkouts.Create(w.ctx, orgID, checkout.Request{
			Draft: d, Actor: audit.APIKey(orgID),
		})
		w.mustSucceed(err, "create a product")
		p.id, p.isExclusive = made.ID, d.OnePerReference
		w.shop.products = append(w.shop.products, p)
	}
	w.shop.lostID = id.Derive("co", "lost", fmt.Sprint(w.seed))
	issued, err := w.processes[0].Wallets.Address(w.ctx, signer.WalletRef{
		OrgID: orgID, Family: chain.EVM, Purpose: wallet.Checkout, Subject: w.shop.lostID,
	})
	w.mustSucceed(err, "issue the address of a checkout that the database lacks")
	w.shop.lostAddress = issued.Address
	w.ownAddresses[issued.Address] = true
}

// requestCheckout requests a checkout and opens options of it, or repeats a request.
func (w *soakRun) requestCheckout() {
	if len(w.shop.sales) > 0 && w.drawChance(25) {
		s := drawFrom(w, w.shop.sales)
		if s.id == "" || w.drawChance(30) {
			w.replays++
			w.sendCheckout(s)
		}
		w.openOption(s)
		return
	}
	p := drawFrom(w, w.shop.products)
	s := &sale{n: len(w.shop.sales) + 1, mints: p.mints}
	s.call = checkout.CheckoutRequest{
		Items:          []checkout.ItemRequest{{ProductID: p.id, Quantity: 1 + w.drawNumber(3)}},
		ExpiresIn:      new(300 + w.drawNumber(600)),
		IdempotencyKey: new(fmt.Sprintf("checkout-%d", s.n)), Actor: audit.APIKey(orgID),
	}
	if p.isExclusive || w.drawChance(50) {
		s.call.Reference = new(fmt.Sprintf("order-%d", w.drawNumber(8)))
	}
	w.shop.sales = append(w.shop.sales, s)
	w.sendCheckout(s)
	w.openOption(s)
}

func (w *soakRun) sendCheckout(s *sale) {
	var made checkout.Checkout
	r := w.runWithFaults(func(ctx context.Context) (err error) {
		made, _, err = drawFrom(w, w.processes).Checkouts.CreateCheckout(ctx, orgID, s.call)
		return err
	})
	w.addTrace("checkout #%d: %s", s.n, outcomeCode(r.err))
	w.recordCheckout(s, made, r.err)
	switch f := fault.Find(r.err); {
	case f == nil:
		w.recordError("checkout", r.err, w.isCalm() && !r.struck)
	case f.Code != fault.ReferencePaid:
		w.failRun("checkout #%d is refused: %v", s.n, f)
	}
}

func (w *soakRun) recordCheckout(s *sale, made checkout.Checkout, err error) {
	switch {
	case err == nil && s.id != "" && s.id != made.ID:
		w.failRun("checkout #%d was made as %s and as %s", s.n, s.id, made.ID)
	case err == nil && w.shop.saleByID[made.ID] != nil && w.shop.saleByID[made.ID] != s:
		w.failRun("checkouts #%d and #%d are both %s", w.shop.saleByID[made.ID].n, s.n, made.ID)
	case err == nil:
		if s.id == "" {
			w.checkouts++
		}
		s.id, w.shop.saleByID[made.ID] = made.ID, s
	case fault.Find(err) != nil && s.id != "":
		w.failRun("checkout #%d was made as %s and its repetition is refused: %v", s.n, s.id, err)
	}
}

// openOption opens an option of a checkout, or renews its quotes.
func (w *soakRun) openOption(s *sale) {
	mintID := drawFrom(w, s.mints)
	if s.id == "" {
		return
	}
	r := w.runWithFaults(func(ctx context.Context) error {
		_, err := drawFrom(w, w.processes).Checkouts.OpenOption(ctx, orgID, s.id, mintID)
		return err
	})
	w.addTrace("open mint %d of checkout #%d: %s", mintID, s.n, outcomeCode(r.err))
	w.findCheckoutAddress(s)
	if fault.Find(r.err) == nil {
		w.recordError("option", r.err, w.isCalm() && !r.struck)
	}
}

// findCheckoutAddress learns the address of a checkout: the answer may be lost.
func (w *soakRun) findCheckoutAddress(s *sale) {
	for _, found := range w.queryColumn(
		`SELECT address FROM wallets WHERE purpose = 'CHECKOUT' AND subject = $1`, s.id,
	) {
		if a := chain.Address(found); s.address != "" && s.address != a {
			w.failRun("checkout #%d has the addresses %s and %s", s.n, s.address, a)
		} else {
			s.address, w.ownAddresses[a] = a, true
		}
	}
}

// payCheckout pays a checkout: as it asks, or in one of the ways in which payers do not.
func (w *soakRun) payCheckout() {
	if w.drawChance(12) {
		w.payLostCheckout()
		return
	}
	if len(w.shop.sales) == 0 {
		return
	}
	s := drawFrom(w, w.shop.sales[max(0, len(w.shop.sales)-4):])
	if w.drawChance(15) {
		s = drawFrom(w, w.shop.sales) // most of the older ones are over
	}
	if s.address == "" {
		w.openOption(s)
		return
	}
	mintID := drawFrom(w, s.mints)
	if w.drawChance(12) {
		mintID = drawFrom(w, []int{tokenID, nativeID, limitedID}) // perhaps another coin than it asks for
	}
	amount := w.amountOf(mintID)
	quoted := w.queryColumn(`SELECT amount::text FROM checkout_quotes WHERE checkout_id = $1 AND mint_id = $2
		ORDER BY seq DESC LIMIT 1`, s.id, mintID)
	if len(quoted) > 0 {
		amount = money.MustParse(quoted[0])
	}
	times, kind := 1, w.drawNumber(20)
	switch {
	case kind < 3: // a part
		amount = w.part(amount, uint64(1000+w.drawNumber(8000)))
	case kind < 5: // too much
		amount = w.part(amount, uint64(10_500+w.drawNumber(10_000)))
	case kind < 7:
		times = 2
	case kind < 8: // dust
		amount = money.Units(uint64(1 + w.drawNumber(dustBelow-1)))
	case kind < 9:
		hash := w.makePayment(sim.Move{Contract: unlistedToken, To: s.address, Amount: w.amountOf(tokenID)})
		w.addTrace("pay an unlisted token to checkout #%d %s", s.n, hash[:12])
		return
	}
	if amount.IsZero() {
		return
	}
	for range times {
		hash := w.makePayment(sim.Move{Contract: tokens[mintID], To: s.address, Amount: amount})
		w.addTrace("pay %v of mint %d to checkout #%d %s", amount, mintID, s.n, hash[:12])
	}
}

// payLostCheckout pays the address of the checkout that the database lacks: no checkout is asked for that.
func (w *soakRun) payLostCheckout() {
	mintID := drawFrom(w, []int{tokenID, tokenID, nativeID, limitedID})
	amount := w.amountOf(mintID)
	hash := w.makePayment(sim.Move{Contract: tokens[mintID], To: w.shop.lostAddress, Amount: amount})
	w.addTrace("pay %v of mint %d to a checkout that is lost %s", amount, mintID, hash[:12])
}

// decideCheckout has a person cancel a checkout or accept what was paid, in whatever state it is.
func (w *soakRun) decideCheckout() {
	if len(w.shop.sales) == 0 {
		return
	}
	s := drawFrom(w, w.shop.sales)
	accepted, person := w.drawChance(60), audit.User(drawFrom(w, []string{"usr_1", "usr_2"}))
	if s.id == "" {
		return
	}
	s.isAcceptTried, s.isCancelTried = s.isAcceptTried || accepted, s.isCancelTried || !accepted
	r := w.runWithFaults(func(ctx context.Context) (err error) {
		process := drawFrom(w, w.processes)
		if accepted {
			_, err = process.Checkouts.AcceptCheckout(ctx, orgID, s.id, "so be it", person)
		} else {
			_, err = process.Checkouts.CancelCheckout(ctx, orgID, s.id, person)
		}
		return err
	})
	w.addTrace("accept %v checkout #%d: %s", accepted, s.n, outcomeCode(r.err))
	if fault.Find(r.err) == nil {
		w.recordError("decide checkout", r.err, w.isCalm() && !r.struck)
	}
}

// requestPayback asks for a refund of a checkout of which something is credited, or repeats a request.
func (w *soakRun) requestPayback() {
	if len(w.shop.paybacks) > 0 && w.drawChance(20) {
		w.replays++
		w.sendPayback(drawFrom(w, w.shop.paybacks))
		return
	}
	ids := w.queryColumn(`SELECT checkout_id FROM checkouts c WHERE EXISTS (
			SELECT FROM checkout_payments p WHERE p.checkout_id = c.checkout_id AND p.status = 'CREDITED'
				AND (p.refunding + p.refunded < p.amount OR $1)) ORDER BY created_at, checkout_id`, w.drawChance(10))
	if len(ids) == 0 {
		return
	}
	b := &payback{n: len(w.shop.paybacks) + 1}
	b.call = checkout.RefundRequest{
		CheckoutID:     drawFrom(w, ids),
		Kind:           drawFrom(w, []checkout.RefundKind{checkout.FullRefund, checkout.OverpaidRefund}),
		IdempotencyKey: new(fmt.Sprintf("refund-%d", b.n)), Actor: audit.APIKey(orgID),
	}
	mintID := drawFrom(w, []int{tokenID, nativeID, limitedID})
	if paid := w.queryColumn(`SELECT DISTINCT mint_id::text FROM checkout_payments WHERE checkout_id = $1
			AND status = 'CREDITED' ORDER BY 1`, b.call.CheckoutID); len(paid) > 0 && w.drawChance(90) {
		_, err := fmt.Sscan(drawFrom(w, paid), &mintID)
		w.mustSucceed(err, "read the number of a mint")
	}
	b.call.MintID = &mintID
	if w.drawChance(40) {
		b.call.Kind, b.call.Amount = "", new(w.amountOf(mintID).String())
	}
	if mintID == nativeID && w.drawChance(40) {
		b.call.FeeMode = checkout.FeeDeducted
	}
	if w.drawChance(40) {
		b.call.ToAddress = new(string(w.newGoal(fmt.Sprintf("of refund %d", b.n))))
	}
	w.shop.paybacks = append(w.shop.paybacks, b)
	w.sendPayback(b)
}

// newGoal returns an address to which an attempt of a refund is to go. Sometimes it is one that no refund is paid to.
func (w *soakRun) newGoal(name string) chain.Address {
	switch n := w.drawNumber(100); {
	case n < 4:
		return w.addresses[""]
	case n < 7:
		return tokens[tokenID]
	}
	goal := sim.Address(fmt.Sprintf("payer %d of %d", len(w.shop.goals)+1, w.seed))
	w.shop.goals[goal] = name
	return goal
}

func (w *soakRun) sendPayback(b *payback) {
	var made checkout.Refund
	var key string
	if s := w.shop.saleByID[b.call.CheckoutID]; s != nil {
		s.isRefundTried = true
	}
	r := w.runWithFaults(func(ctx context.Context) (err error) {
		made, key, _, err = drawFrom(w, w.processes).Checkouts.RequestRefund(ctx, orgID, b.call)
		return err
	})
	w.addTrace("refund #%d of %s in mint %d: %s", b.n, w.saleName(b.call.CheckoutID), *b.call.MintID,
		outcomeCode(r.err))
	switch {
	case r.err == nil && b.id != "" && b.id != made.ID:
		w.failRun("refund #%d was made as %s and as %s", b.n, b.id, made.ID)
	case r.err == nil:
		if b.id == "" {
			w.refunds++
		}
		b.id = made.ID
		if key != "" {
			b.key = key
		}
	case fault.Find(r.err) != nil && b.id != "":
		w.failRun("refund #%d was made as %s and its repetition is refused: %v", b.n, b.id, r.err)
	}
	if fault.Find(r.err) == nil {
		w.recordError("refund", r.err, w.isCalm() && !r.struck)
	}
}

func (w *soakRun) saleName(checkoutID string) string {
	if s := w.shop.saleByID[checkoutID]; s != nil {
		return fmt.Sprintf("checkout #%d", s.n)
	}
	return "a checkout of its own"
}

// decidePayback has a payer claim a refund, or the organization give it an address, another key or its end.
func (w *soakRun) decidePayback() {
	ids := w.queryColumn(`SELECT refund_id FROM refunds WHERE status = 'AWAITING_ADDRESS' OR $1
		ORDER BY created_at, refund_id`, w.drawChance(20))
	if len(ids) == 0 {
		return
	}
	w.decideRefund(drawFrom(w, ids), w.drawNumber(10))
}

// decideRefund decides about a refund: kind below 2 cancels it, 2 gives it another key, below 7 claims it, and every
// other one gives it an address.
func (w *soakRun) decideRefund(refundID string, kind int) {
	person, name := audit.User("usr_1"), ""
	var b *payback
	for _, asked := range w.shop.paybacks {
		if asked.id == refundID {
			b, name = asked, fmt.Sprintf("#%d", asked.n)
		}
	}
	if b == nil {
		name, kind = "of a policy", max(kind, 7)*min(kind, 1) // a policy gives no key
	}
	var goal chain.Address
	if kind > 2 {
		goal = w.newGoal(refundID)
	}
	r := w.runWithFaults(func(ctx context.Context) (err error) {
		process := drawFrom(w, w.processes)
		switch {
		case kind < 2:
			_, err = process.Checkouts.CancelRefund(ctx, orgID, refundID, person)
		case kind == 2:
			var key string
			if _, key, err = process.Checkouts.ReissueRefundKey(ctx, orgID, refundID, person); err == nil {
				b.key = key
			}
		case kind < 7:
			_, err = process.Checkouts.ClaimRefund(ctx, checkout.RefundClaim{
				RefundID: refundID, Key: b.key, Address: string(goal),
			})
		default:
			_, err = process.Checkouts.GiveRefundAddress(ctx, orgID, refundID, string(goal), person)
		}
		return err
	})
	w.addTrace("decision %d about refund %s: %s", kind, name, outcomeCode(r.err))
	if fault.Find(r.err) == nil {
		w.recordError("decide refund", r.err, w.isCalm() && !r.struck)
	}
}

// decideUnmatched gives a payment that names no checkout to one, or gives it back. Sometimes another person decides
// about the same one right after.
func (w *soakRun) decideUnmatched() {
	deposits := w.queryColumn(`SELECT u.deposit_id FROM checkout_unmatched u JOIN deposits d USING (deposit_id)
		WHERE u.assigned_to IS NULL OR $1 ORDER BY d.height, d.tx_hash, d.position`, w.drawChance(20))
	if len(deposits) == 0 {
		return
	}
	depositID := drawFrom(w, deposits)
	for range 1 + w.drawNumber(2) {
		w.settleUnmatched(depositID, w.drawChance(60))
	}
}

// settleUnmatched assigns an unmatched payment or, if no checkout is to have it, gives it back.
func (w *soakRun) settleUnmatched(depositID string, assigns bool) {
	var m movementID
	w.mustSucceed(w.superPool.QueryRow(w.ctx, `SELECT tx_hash, kind, position FROM deposits WHERE deposit_id = $1`,
		depositID).Scan(&m.tx, &m.kind, &m.position), "read an unmatched payment")
	checkoutID, person := w.shop.lostID, audit.User("usr_1")
	var made []*sale
	for _, s := range w.shop.sales {
		if s.id != "" {
			made = append(made, s)
		}
	}
	if assigns = assigns && len(made) > 0; assigns {
		checkoutID = drawFrom(w, made).id
	}
	if w.shop.assigned[m] == nil {
		w.shop.assigned[m] = map[string]bool{}
	}
	w.shop.assigned[m][checkoutID] = true
	goal := chain.Address("")
	if !assigns {
		goal = w.newGoal("of an unmatched payment")
	}
	r := w.runWithFaults(func(ctx context.Context) (err error) {
		process := drawFrom(w, w.processes)
		if assigns {
			_, err = process.Checkouts.AssignUnmatched(ctx, orgID, depositID, checkoutID, person)
			return err
		}
		_, _, _, err = process.Checkouts.RefundUnmatched(ctx, orgID, checkout.UnmatchedRefund{
			DepositID: depositID, ToAddress: new(string(goal)), Actor: audit.APIKey(orgID),
		})
		return err
	})
	w.addTrace("assign %v unmatched %s: %s", assigns, m.tx[:12], outcomeCode(r.err))
	for _, s := range made {
		w.findCheckoutAddress(s)
	}
	if fault.Find(r.err) == nil {
		w.recordError("unmatched", r.err, w.isCalm() && !r.struck)
	}
}

// passTime lets minutes pass, in which the time of some checkouts ends.
func (w *soakRun) passTime() {
	d := time.Duration(2+w.drawNumber(9)) * time.Minute
	w.advanceClock(d)
	w.net.SkipTime(d)
	w.addTrace("%v pass", d)
}

// followCheckouts has a process take the steps of checkouts that are due, one after the other: the worker settles
// several at once, in an order that the seed does not decide.
func (w *soakRun) followCheckouts(ctx context.Context, process *serviceProcess) error {
	shop, horizon := process.Checkouts, w.readClock().Add(time.Second)
	waiting := w.queryColumn(
		`SELECT DISTINCT checkout_id FROM checkout_payments WHERE try_at <= $1 ORDER BY checkout_id`, horizon,
	)
	ended := w.queryColumn(`SELECT checkout_id FROM checkouts WHERE status = 'OPEN' AND expires_at <= $1
		ORDER BY expires_at, checkout_id`, horizon)
	if len(waiting) == 1 {
		waiting = nil
		if _, err := shop.SettleDue(ctx); err != nil {
			return err
		}
	}
	if len(ended) == 1 {
		ended = nil
		if err := shop.ExpireDue(ctx); err != nil {
			return err
		}
	}
	for _, checkoutID := range append(waiting, ended...) {
		if err := shop.Settle(ctx, checkoutID); err != nil {
			return err
		}
	}
	if err := shop.RefundAutomatically(ctx); err != nil && fault.Find(err) == nil {
		return err
	}
	return shop.FollowRefunds(ctx)
}

// settleShop ends what waits for a person about checkouts.
func (w *soakRun) settleShop(isLast bool) {
	for _, depositID := range w.queryColumn(`
		SELECT u.deposit_id FROM checkout_unmatched u JOIN deposits d USING (deposit_id)
		WHERE u.assigned_to IS NULL AND d.status = 'CREDITED' AND $1 ORDER BY d.height, d.tx_hash, d.position`, true) {
		w.settleUnmatched(depositID, isLast || w.drawChance(50))
	}
	for _, refundID := range w.queryColumn(`SELECT refund_id FROM refunds WHERE status = 'AWAITING_ADDRESS' AND $1
		ORDER BY created_at, refund_id`, true) {
		kind := 7
		if isLast {
			kind = 0
		}
		w.decideRefund(refundID, kind)
	}
}

// openShop lists what has not ended of checkouts.
var openShop = []openKind{
	{"checkouts", `SELECT count(*) FROM checkouts WHERE status IN ('OPEN', 'PROCESSING')`},
	{"payments of checkouts", `SELECT count(*) FROM checkout_payments
		WHERE told_status IS DISTINCT FROM status OR try_at IS NOT NULL`},
	{"refunds", `SELECT count(*) FROM refunds WHERE status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT')`},
	{"unmatched payments", `SELECT count(*) FROM checkout_unmatched u JOIN deposits d USING (deposit_id)
		WHERE u.assigned_to IS NULL AND d.status = 'CREDITED'`},
}

// scanRows calls fn for each row of a question that the oracle asks.
func (w *soakRun) scanRows(act string, targets []any, fn func(), sql string, args ...any) {
	rows, err := w.superPool.Query(w.ctx, sql, args...)
	w.mustSucceed(err, act)
	_, err = pgx.ForEachRow(rows, targets, func() error { fn(); return nil })
	w.mustSucceed(err, act)
}
