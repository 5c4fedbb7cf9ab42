package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// dustBelow is the smallest deposit that counts.
const dustBelow = 10

// act is something that can happen in a step; weight is its relative frequency.
type act struct {
	name   string
	weight int
	run    func(*soakRun)
}

// acts are all that can happen while faults are on.
var acts = []act{
	{"deposit", 12, (*soakRun).makeDeposit},
	{"withdraw", 12, (*soakRun).requestWithdrawal},
	{"repeat", 3, (*soakRun).repeatRequest},
	{"transfer", 7, (*soakRun).makeTransfer},
	{"swap", 14, (*soakRun).requestSwap},
	{"solver", 8, (*soakRun).actProvider},
	{"settle swaps", 4, (*soakRun).decideSwaps},
	{"own swap", 10, (*soakRun).requestOwnSwap},
	{"decide own swap", 6, (*soakRun).decideOwnSwap},
	{"remove entry", 1, (*soakRun).removeEntry},
	{"batch", 10, (*soakRun).createBatch},
	{"submit batch", 10, (*soakRun).submitBatch},
	{"approve batch", 12, (*soakRun).approveBatch},
	{"steer batch", 5, (*soakRun).steerBatch},
	{"retry batch", 3, (*soakRun).retryBatch},
	{"restore", 2, (*soakRun).restoreDatabase},
	{"deposit swap", 6, (*soakRun).requestDepositSwap},
	{"pay deposit swap", 7, (*soakRun).payDepositSwap},
	{"solver of deposit swaps", 6, (*soakRun).actFlex},
	{"checkout", 9, (*soakRun).requestCheckout},
	{"pay checkout", 16, (*soakRun).payCheckout},
	{"decide checkout", 2, (*soakRun).decideCheckout},
	{"refund", 6, (*soakRun).requestPayback},
	{"decide refund", 6, (*soakRun).decidePayback},
	{"unmatched", 3, (*soakRun).decideUnmatched},
	{"time", 1, (*soakRun).passTime},
	{"decide", 5, (*soakRun).decideWithdrawal},
	{"resolve", 7, (*soakRun).resolveDeposit},
	{"complete", 2, (*soakRun).completeResolution},
	{"rethink", 1, (*soakRun).changeScreening},
	{"freeze", 1, (*soakRun).addFreeze},
	{"lift", 4, (*soakRun).liftFreezes},
	{"cancel", 1, (*soakRun).cancelOrder},
	{"rescan", 1, (*soakRun).rewindWalk},
	{"threshold", 1, (*soakRun).changeThreshold},
	{"sweep", 1, (*soakRun).sweepAll},
	{"gas", 1, (*soakRun).payGas},
	{"customer", 1, (*soakRun).newCustomer},
	{"part", 46, (*soakRun).runPart},
	{"round", 3, (*soakRun).runRound},
	{"mine", 22, (*soakRun).mineBlocks},
	{"fork", 4, (*soakRun).forkChain},
	{"drop", 1, (*soakRun).dropTransaction},
	{"surface", 2, (*soakRun).deliverSwallowed},
	{"misbehave", 7, (*soakRun).startTrouble},
	{"restart", 1, (*soakRun).restartProcesses},
}

var actsWeight = func() (sum int) {
	for _, a := range acts {
		sum += a.weight
	}
	return sum
}()

// runAct runs one random act.
func (w *soakRun) runAct() {
	n := w.drawNumber(actsWeight)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			a.run(w)
			return
		}
	}
}

func (w *soakRun) amountOf(mintID int) money.Amount {
	if mintID == nativeID {
		return money.Units(uint64(1+w.drawNumber(500)) * wei / 1000)
	}
	return money.Units(uint64(dustBelow + w.drawNumber(400_000_000)))
}

// makeDeposit makes a payment, in one of the ways in which money arrives.
func (w *soakRun) makeDeposit() {
	payee := drawFrom(w, w.drawPayees())
	recipient := w.addresses[payee]
	internal := func() sim.Move {
		return sim.Move{Kind: chain.Internal, To: recipient, Amount: w.amountOf(nativeID)}
	}
	var moves []sim.Move
	kind := w.drawNumber(100)
	switch {
	case kind < 35:
		m := drawFrom(w, []int{tokenID, tokenID, limitedID})
		moves = append(moves, sim.Move{Contract: tokens[m], To: recipient, Amount: w.amountOf(m)})
	case kind < 48:
		moves = append(moves, sim.Move{To: recipient, Amount: w.amountOf(nativeID)})
	case kind < 58:
		moves = append(moves, internal())
	case kind < 63: // dust
		moves = append(moves, sim.Move{
			Contract: tokens[drawFrom(w, []int{tokenID, nativeID})], To: recipient,
			Amount: money.Units(uint64(1 + w.drawNumber(dustBelow-1))),
		})
	case kind < 68:
		moves = append(moves, sim.Move{Contract: unlistedToken, To: recipient, Amount: w.amountOf(tokenID)})
	case kind < 82: // several in one transaction
		for range 2 + w.drawNumber(4) {
			otherRecipient := w.addresses[drawFrom(w, w.drawPayees())]
			m := drawFrom(w, []int{tokenID, limitedID, nativeID})
			move := sim.Move{Contract: tokens[m], To: otherRecipient, Amount: w.amountOf(m)}
			if m == nativeID {
				move.Kind = chain.Internal
			}
			moves = append(moves, move)
		}
		moves = append(moves, sim.Move{Contract: unlistedToken, To: recipient, Amount: w.amountOf(tokenID)})
	case kind < 87: // to the treasury, for no customer
		moves = append(moves, sim.Move{Contract: tokens[tokenID], To: w.addresses[""], Amount: w.amountOf(tokenID)})
	case kind < 92: // a call that reverts inside a transaction that succeeds
		undone := internal()
		undone.Reverted = true
		moves = append(moves, undone, internal())
	case kind < 95: // through another address, in one transaction
		otherRecipient := w.addresses[drawFrom(w, w.drawPayees())]
		amount := w.amountOf(tokenID)
		middle := sim.Address("splitter")
		moves = append(moves, sim.Move{Contract: tokens[tokenID], To: middle, Amount: amount},
			sim.Move{Contract: tokens[tokenID], From: middle, To: otherRecipient, Amount: amount})
	default: // reverts as a whole
		w.payers++
		payer := sim.Address(fmt.Sprintf("payer %d", w.payers))
		w.net.Mint(payer, tokens[tokenID], money.Units(1000))
		hash := w.net.SubmitFailing(payer, sim.Move{
			Contract: tokens[tokenID], To: recipient, Amount: money.Units(1000),
		})
		w.addTrace("a payment to %s that reverts %s", payee, hash[:12])
		return
	}
	hash := w.makePayment(moves...)
	for _, m := range moves {
		w.addTrace("pay %v of %.8s to %.8s (%s) %s", m.Amount, m.Contract, m.To, m.Kind, hash[:12])
	}
}

// request is a withdrawal as it was requested.
type request struct {
	n         int
	call      withdrawal.Request
	recipient chain.Address
	mint      int
	amount    money.Amount
	bad       bool   // to a forbidden destination
	id        string // set once it is accepted
	refused   bool   // definitely refused
	blocked   bool   // refused by risk screening, for every repetition
}

// requestWithdrawal requests a withdrawal.
func (w *soakRun) requestWithdrawal() {
	r := &request{n: len(w.requests) + 1}
	var customer string
	var balance money.Amount
	for range 4 { // looks for a customer with a balance
		customer, r.mint = drawFrom(w, w.customers), drawFrom(w, []int{tokenID, tokenID, nativeID, limitedID})
		if balance = w.loadBalance(customer, r.mint); !balance.IsZero() {
			break
		}
	}
	switch n, small := balance.Uint64(); {
	case w.drawChance(10) || balance.IsZero():
		if w.drawChance(70) {
			return // no balance to request
		}
		r.amount = w.amountOf(r.mint)
	case w.drawChance(25):
		r.amount = balance // all of it
	case w.drawChance(5):
		r.amount = money.Units(uint64(1 + w.drawNumber(9))) // less than the minimum
	case small:
		r.amount = money.Units(1 + w.rng.Uint64N(n)/uint64(1+w.drawNumber(4)))
	default:
		r.amount = w.amountOf(r.mint)
	}
	r.recipient = sim.Address(fmt.Sprintf("destination %d of %d", r.n, w.seed))
	words := string(r.recipient)
	switch kind := w.drawNumber(100); {
	case kind < 3:
		r.bad, words = true, string(w.addresses[drawFrom(w, append([]string{""}, w.customers...))])
	case kind < 5:
		r.bad, words = true, string(tokens[tokenID])
	case kind < 6:
		r.bad, words = true, "0x0000000000000000000000000000000000000000"
	case kind < 7:
		r.bad, words = true, string(r.recipient[:20])
	case kind < 9 && len(w.requests) > 0:
		r.recipient = lookalikeAddress(drawFrom(w, w.requests).recipient, r.n)
		words = string(r.recipient)
	case kind < 30:
		words = strings.ToLower(words)
	}
	r.call = withdrawal.Request{
		MintID: r.mint, CustomerID: customer, Amount: r.amount.String(), ToAddress: words,
		RequireApproval: w.drawChance(15), Actor: audit.APIKey(orgID),
	}
	if w.drawChance(70) {
		key := fmt.Sprintf("key-%d", r.n)
		r.call.IdempotencyKey = &key
	}
	w.requests = append(w.requests, r)
	w.addTrace("#%d withdraw %v of mint %d for %s to %.10s", r.n, r.amount, r.mint, customer, words)
	w.sendRequest(r)
}

// lookalikeAddress returns another address with the same beginning and end.
func lookalikeAddress(a chain.Address, n int) chain.Address {
	b := common.HexToAddress(string(a))
	b[8], b[9] = b[8]^0x5a, byte(n)
	return evmtx.Canonical(b)
}

// sendRequest sends a request, perhaps not for the first time, and remembers the answer.
func (w *soakRun) sendRequest(r *request) {
	var replayed bool
	spoiled := w.runWithFaults(func(ctx context.Context) error {
		made, repeated, err := drawFrom(w, w.processes).Withdrawals.Request(ctx, orgID, r.call)
		replayed = repeated
		if err == nil {
			w.recordAccepted(r, made.ID)
		}
		return err
	})
	err := spoiled.err
	switch f := fault.Find(err); {
	case err == nil:
		w.addTrace("#%d accepted, replayed %v", r.n, replayed)
	case f != nil:
		w.addTrace("#%d refused: %s", r.n, f.Code)
		w.recordRefused(r, f)
	default:
		w.addTrace("#%d no answer", r.n)
		w.recordError("request", err, w.isCalm() && !spoiled.struck)
	}
}

// recordRefused remembers a refusal. A request that screening blocked once stays blocked under its
// key.
func (w *soakRun) recordRefused(r *request, f *fault.Fault) {
	isBlocked := f.Code == fault.WithdrawalRiskBlocked
	switch {
	case r.id != "":
		w.failRun("request #%d was accepted as %s and its repetition is refused: %v", r.n, r.id, f)
	case r.blocked && !isBlocked:
		w.failRun("request #%d was blocked, and now it is %v", r.n, f)
	}
	r.blocked = r.blocked || isBlocked
	r.refused = r.call.IdempotencyKey == nil
	w.refused++
}

func (w *soakRun) recordAccepted(r *request, id string) {
	switch {
	case r.blocked:
		w.failRun("request #%d was blocked and is accepted as %s", r.n, id)
	case r.bad:
		w.failRun("request #%d to %s was accepted as %s", r.n, r.call.ToAddress, id)
	case r.id != "" && r.id != id:
		w.failRun("request #%d was accepted as %s and as %s", r.n, r.id, id)
	case w.byID[id] != nil && w.byID[id] != r:
		w.failRun("requests #%d and #%d are both %s", w.byID[id].n, r.n, id)
	}
	if r.id == "" {
		w.withdrawals++
	}
	r.id, w.byID[id] = id, r
}

// repeatRequest sends an earlier request again, the same or another under its key.
func (w *soakRun) repeatRequest() {
	if len(w.requests) == 0 {
		return
	}
	r := drawFrom(w, w.requests)
	if r.call.IdempotencyKey == nil {
		return // without a key every call is its own payment
	}
	w.replays++
	if r.id == "" || w.drawChance(50) {
		w.addTrace("repeat #%d", r.n)
		w.sendRequest(r)
		return
	}
	changed := r.call
	switch w.drawNumber(4) {
	case 0:
		changed.ToAddress = string(sim.Address("another organization"))
	case 1:
		changed.Amount = "11"
	case 2:
		changed.CustomerID = "nobody"
	case 3:
		changed.RequireApproval = !changed.RequireApproval
	}
	w.addTrace("repeat #%d with another body", r.n)
	s := w.runWithFaults(func(ctx context.Context) error {
		_, _, err := drawFrom(w, w.processes).Withdrawals.Request(ctx, orgID, changed)
		return err
	})
	if s.err == nil || fault.Find(s.err) != nil && !fault.HasCode(s.err, fault.IdempotencyConflict) {
		w.failRun("request #%d under its key with another body: got %v, want %s", r.n, s.err, fault.IdempotencyConflict)
	}
}

// decideWithdrawal approves or removes a withdrawal that waits, or that has stopped waiting.
func (w *soakRun) decideWithdrawal() {
	ids := w.queryColumn(
		`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL' OR $1 ORDER BY created_at`,
		w.drawChance(15),
	)
	if len(ids) == 0 {
		return
	}
	id := drawFrom(w, ids)
	approved, person := w.drawChance(60), audit.User(drawFrom(w, []string{"usr_1", "usr_2", "usr_3"}))
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		process := drawFrom(w, w.processes)
		if approved {
			_, err = process.Withdrawals.Approve(ctx, orgID, id, person)
		} else {
			_, err = process.Withdrawals.Remove(ctx, orgID, id, person, "no")
		}
		return err
	})
	w.addTrace("approve %v %s: %s", approved, w.requestName(id), outcomeCode(s.err))
	if fault.Find(s.err) == nil {
		w.recordError("decide", s.err, w.isCalm() && !s.struck)
	}
}

// requestName names a withdrawal without its id, which differs in every run.
func (w *soakRun) requestName(id string) string {
	if r := w.byID[id]; r != nil {
		return fmt.Sprintf("#%d", r.n)
	}
	return "a withdrawal whose acceptance had no answer"
}

func outcomeCode(err error) string {
	switch f := fault.Find(err); {
	case err == nil:
		return "done"
	case f != nil:
		return string(f.Code)
	}
	return "no answer"
}

func (w *soakRun) addFreeze() {
	f := freeze.Freeze{Source: freeze.SourceOperator, Reason: "soak", Actor: audit.Operator("op_1")}
	switch w.drawNumber(7) {
	case 0:
		f.Scope = freeze.ScopeAll
	case 1:
		f.Scope, f.Chain = freeze.ScopeChain, chain.Ethereum
	case 2:
		f.Scope, f.OrgID = freeze.ScopeOrganization, orgID
	case 3:
		f.Scope, f.OrgID, f.Chain = freeze.ScopeWallet, orgID, chain.Ethereum
		wallets := w.queryColumn(`SELECT wallet_id FROM wallets WHERE $1 ORDER BY subject, purpose`, true)
		f.WalletID = drawFrom(w, wallets)
	case 4:
		f.Source, f.Actor = freeze.SourceOrganization, audit.User("usr_1")
		f.Scope, f.OrgID, f.CustomerID = freeze.ScopeCustomer, orgID, drawFrom(w, w.customers)
	default:
		f.Scope, f.OrgID, f.CustomerID = freeze.ScopeCustomer, orgID, drawFrom(w, w.customers)
	}
	w.addTrace("freeze %s %s", f.Scope, f.CustomerID)
	s := w.runWithFaults(func(ctx context.Context) error {
		return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
	})
	w.recordError("freeze", s.err, w.isCalm() && !s.struck)
	w.faults.addOne("freeze")
}

func (w *soakRun) liftFreezes() {
	for _, id := range w.queryColumn(
		`SELECT freeze_id FROM freezes WHERE lifted_at IS NULL AND $1 ORDER BY created_at`, true,
	) {
		w.addTrace("lift")
		s := w.runWithFaults(func(ctx context.Context) error {
			return w.db.InSystem(
				ctx,
				func(ctx context.Context, tx pg.Tx) error { return freeze.Lift(ctx, tx, id, audit.Operator("op_1")) },
			)
		})
		w.recordError("lift", s.err, w.isCalm() && !s.struck)
	}
}

// cancelOrder cancels an order that is broadcast, which fills its slot.
func (w *soakRun) cancelOrder() {
	ids := w.queryColumn(
		`SELECT order_id FROM dispatch_orders WHERE status IN ('SIGNED', 'BROADCAST') AND $1 ORDER BY created_at`, true,
	)
	if len(ids) == 0 {
		return
	}
	id := drawFrom(w, ids)
	var cancelled bool
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		cancelled, err = drawFrom(w, w.processes).DispatchWorker.CancelOrder(ctx, id, audit.Operator("soak"))
		return err
	})
	w.addTrace("cancel %s: %v", w.requestName(id), cancelled)
	if s.err != nil {
		w.errs["cancel"]++ // the cap may forbid it, or another process was quicker
	}
	w.faults.addOne("cancel of a sent payment")
}

// rewindWalk lets the final walk read blocks again that it has read.
func (w *soakRun) rewindWalk() {
	var lowest, highest uint64
	err := w.superPool.QueryRow(w.ctx, `
		SELECT coalesce(min(p.height), 0), coalesce(max(p.height), 0) FROM finality_proofs p, scan_cursors c WHERE p.height <= c.height`).Scan(&lowest, &highest)
	w.mustSucceed(err, "look for scanned blocks")
	if highest == 0 {
		return
	}
	height := lowest + w.rng.Uint64N(highest-lowest+1)
	s := w.runWithFaults(func(ctx context.Context) error {
		return drawFrom(w, w.processes).Walker.Rewind(ctx, height, audit.Operator("op_1"))
	})
	w.addTrace("scan again from block %d on%s", height, s.describeResult())
	w.recordError("rescan", s.err, w.isCalm() && !s.struck)
	w.faults.addOne("blocks read again")
}

// changeThreshold changes the amount from which a person has to approve a withdrawal.
func (w *soakRun) changeThreshold() {
	var usd *money.USD
	if w.drawChance(70) {
		usd = new(money.MustParseUSD(fmt.Sprint(20 + w.drawNumber(300))))
	}
	s := w.runWithFaults(func(ctx context.Context) error {
		return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), orgID, usd)
		})
	})
	w.addTrace("another threshold: %v%s", usd, s.describeResult())
	w.recordError("threshold", s.err, w.isCalm() && !s.struck)
}

func (w *soakRun) sweepAll() {
	w.addTrace("sweep everything")
	s := w.runWithFaults(
		func(ctx context.Context) error { _, err := drawFrom(w, w.processes).Sweeper.SweepAll(ctx); return err },
	)
	w.recordError("sweep", s.err, w.isCalm() && !s.struck)
}

// payGas pays the operator's coin to the treasury.
func (w *soakRun) payGas() {
	amount := money.Units(uint64(1+w.drawNumber(20)) * wei / 2000)
	w.addTrace("gas %v", amount)
	w.makePayment(sim.Move{To: w.addresses[""], Amount: amount})
}

func (w *soakRun) newCustomer() {
	if len(w.customers) < 8 && !w.signer.isAway() {
		w.addTrace("a new customer")
		w.addCustomer()
	}
}

// runPart runs one part of one of the processes once.
func (w *soakRun) runPart() {
	h := w.drawNumber(len(w.processes))
	process := w.processes[h]
	switch n := w.drawNumber(len(process.steps) + 3); n {
	case len(process.steps) + 2:
		w.runStep(
			h, "stuck returns",
			func(ctx context.Context) error { _, err := process.Deposits.MarkOverdueStuck(ctx); return err },
		)
	case len(process.steps):
		w.deliverDue(h)
	case len(process.steps) + 1:
		w.runStep(
			h, "mirror",
			func(ctx context.Context) error { return journal.Import(ctx, w.db, w.signer, process.Wallets) },
		)
	default:
		w.runStep(h, process.steps[n].Name, process.steps[n].Run)
	}
}

func (w *soakRun) runStep(h int, name string, step func(context.Context) error) {
	s := w.runWithFaults(step)
	w.addTrace("%s (%d)%s", name, h, s.describeResult())
	w.recordError(name, s.err, w.isCalm() && !s.struck)
}

// deliverDue delivers due events. The result depends on the time and on jitter that the seed does
// not determine, so the trace has only that it ran.
func (w *soakRun) deliverDue(h int) {
	s := w.runWithFaults(func(ctx context.Context) error { _, err := w.processes[h].Dispatcher.Step(ctx); return err })
	w.addTrace("deliveries (%d)", h)
	w.recordError("deliveries", s.err, w.isCalm() && !s.struck)
}

// runRound runs every part once.
func (w *soakRun) runRound() {
	h := w.drawNumber(len(w.processes))
	for _, step := range w.processes[h].steps {
		w.runStep(h, step.Name, step.Run)
		w.advanceClock(time.Second)
	}
	w.deliverDue(h)
}

// faultResult is the result of a task that the database may have disturbed.
type faultResult struct {
	err    error
	struck bool
}

func (s faultResult) describeResult() string {
	switch {
	case s.err != nil && s.struck:
		return " spoiled, fails"
	case s.struck:
		return " spoiled"
	case s.err != nil:
		return " fails"
	}
	return ""
}

// runWithFaults runs a task, and in some cases the database or the signer fails in the middle of
// it.
func (w *soakRun) runWithFaults(task func(context.Context) error) faultResult {
	const percent = 12 // of a hundred
	if !w.drawChance(percent) {
		return faultResult{err: task(w.ctx)}
	}
	kind := w.drawNumber(len(databaseFaults) + 2)
	passFirst := w.drawNumber(12)
	switch {
	case kind < len(databaseFaults):
		if kind := databaseFaults[kind]; kind == faultCommitAnswer || kind == faultCommitRequest {
			passFirst = w.drawNumber(3)
		}
		w.databaseProxy.armFault(databaseFaults[kind], passFirst)
	case kind == len(databaseFaults):
		w.signer.armLoss(1+w.drawNumber(2), 0)
	default:
		w.signer.armLoss(0, 1+w.drawNumber(2))
	}
	err := task(w.ctx)
	struck := w.databaseProxy.disarmFault()
	if kind >= len(databaseFaults) {
		struck = w.signer.disarmLoss()
	}
	return faultResult{err, struck}
}

// mineBlocks mines blocks: of all waiting transactions, of some of them in another order, or of
// none.
func (w *soakRun) mineBlocks() {
	waiting := w.net.Mempool()
	switch n := w.drawNumber(10); {
	case n < 6:
		w.net.Mine(1 + w.drawNumber(2))
	case n < 9 && len(waiting) > 1:
		w.rng.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		w.net.MineOnly(waiting[:1+w.drawNumber(len(waiting))]...)
	default:
		w.net.MineEmpty(1 + w.drawNumber(3))
	}
	w.recordBlock()
}

// forkChain replaces blocks that are not final. Sometimes it drops their transactions, or changes
// what they do when they are mined again.
func (w *soakRun) forkChain() {
	latest := w.net.Latest().Height
	deepest := int(latest) - int(w.highest-min(w.highest, w.finalLag))
	if deepest < 1 || latest < 2 {
		return
	}
	deep := 1 + w.drawNumber(deepest)
	var dropped []chain.TxHash
	visited := map[chain.TxHash]bool{}
	for h := latest - uint64(deep) + 1; h <= latest; h++ {
		for _, m := range w.net.BlockAt(h).Transfers {
			if !visited[m.Tx] && w.drawChance(15) {
				dropped = append(dropped, m.Tx)
			}
			visited[m.Tx] = true
		}
	}
	w.net.Fork(deep, dropped...)
	w.faults.addOne(fmt.Sprintf("fork %d deep", deep))
	w.addTrace("fork %d deep, %d dropped", deep, len(dropped))
	for _, hash := range dropped {
		w.faults.addOne("dropped by a fork")
		if w.drawChance(30) {
			w.replayPayment(hash)
		}
	}
	if w.drawChance(60) {
		w.mineBlocks()
	}
}

// replayPayment resubmits a dropped payment under its hash with other effects, as a contract may
// that depends on its block.
func (w *soakRun) replayPayment(hash chain.TxHash) {
	for i, p := range w.madePayments {
		if p.hash != hash {
			continue
		}
		moves := append([]sim.Move(nil), p.moves...)
		for j := range moves {
			if moves[j].From != "" {
				return
			}
			if w.drawChance(50) {
				moves[j].To = w.addresses[drawFrom(w, w.drawPayees())]
			} else if half := w.halveAmount(moves[j].Amount); !half.IsZero() {
				moves[j].Amount = half
			}
		}
		w.net.ResubmitTx(hash, p.payer, moves...)
		w.madePayments[i].moves = moves
		w.faults.addOne("makes another transfer on a fork")
		w.addTrace("%s again, with another content", hash[:12])
		return
	}
}

func (w *soakRun) halveAmount(a money.Amount) money.Amount {
	h, err := a.Bps(5000)
	w.mustSucceed(err, "halve an amount")
	return h
}

// dropTransaction removes a transaction from the mempool.
func (w *soakRun) dropTransaction() {
	waiting := w.net.Mempool()
	if len(waiting) == 0 {
		return
	}
	hash := drawFrom(w, waiting)
	w.net.DropTx(hash)
	w.faults.addOne("dropped from the pool")
	w.addTrace("%s dropped", hash[:12])
}

// deliverSwallowed lets a swallowed transaction reach the chain after all.
func (w *soakRun) deliverSwallowed() {
	for _, hash := range w.queryColumn(
		`SELECT tx_hash FROM dispatch_attempts WHERE tx_hash IS NOT NULL AND $1 ORDER BY created_at, version`, true,
	) {
		if w.net.DeliverSwallowed(chain.TxHash(hash)) {
			w.faults.addOne("provider: swallowed, late")
			w.addTrace("%s appears", hash[:12])
			return
		}
	}
}

// restartProcesses discards all memory of the processes.
func (w *soakRun) restartProcesses() {
	w.closeSigner()
	w.openProcesses()
	w.faults.addOne("processes restarted")
	w.faults.addOne(signerRestarts)
	w.addTrace("restart")
}

// queryColumn reads one column of text as the superuser.
func (w *soakRun) queryColumn(sql string, args ...any) []string {
	rows, err := w.superPool.Query(w.ctx, sql, args...)
	w.mustSucceed(err, "look")
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.mustSucceed(err, "look")
	return found
}

// loadBalance returns the balance of a customer, or of a product of the organization.
func (w *soakRun) loadBalance(owner string, mintID int) money.Amount {
	var a money.Amount
	kind := ledger.Customer
	if slices.Contains(ledger.Products, owner) {
		kind = ledger.Product
	}
	err := w.superPool.QueryRow(w.ctx, `
		SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id)
		WHERE a.kind = $4 AND a.org_id = $1 AND a.subject = $2 AND a.mint_id = $3`, orgID, owner, mintID, kind).Scan(&a)
	if !errors.Is(err, pgx.ErrNoRows) {
		w.mustSucceed(err, "read a balance")
	}
	return a
}
