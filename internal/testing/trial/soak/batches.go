package soak

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	payouts "github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// batchRequest is a batch payout as it was requested, or as a retry or a repetition of its list made it.
type batchRequest struct {
	n         int
	call      payouts.CreateRequest
	formerID  string // the batch that this one retries, or ""
	family    *batchFamily
	id        string
	approvers map[audit.Actor]bool // who approved it, or tried to
	// isBarred says that it ended before it was approved: it never pays anything.
	isBarred bool
}

// batchFamily is a list, with its retries and the batches that pay the whole of it again.
type batchFamily struct {
	n            int
	lines        []rowfile.Line
	payees       []*batchPayee
	acknowledged int // submissions that acknowledged an earlier one: each may pay the list once more
}

// batchPayee is an address that one list names. Nothing else is ever paid to it.
type batchPayee struct {
	family  *batchFamily
	address chain.Address
	mintID  int
	amount  money.Amount
	times   int // how often the list names it
}

// The people of batches: the makers submit, the others approve.
var (
	batchMakers    = []audit.Actor{audit.User(treasurer.ID), audit.APIKey(orgID)}
	batchApprovers = []audit.Actor{
		audit.User(approvers[0].ID), audit.User(approvers[1].ID), audit.User(approvers[2].ID),
	}
)

// newBatchStep returns the turn of the part of a process that carries batches to their end.
func (w *soakRun) newBatchStep(process *serviceProcess) harness.Step {
	return harness.Step{Name: "payouts", Loop: "payouts", Run: func(ctx context.Context) error {
		err := process.Payouts.WorkDue(ctx)
		if err != nil && isRefusal(err) {
			w.errs["payouts wait"]++ // a freeze, a price, a screening: the rows say so
			return nil
		}
		return err
	}}
}

// isRefusal reports whether an error consists of refusals alone.
func isRefusal(err error) bool {
	switch e := err.(type) {
	case nil:
		return false
	case *fault.Fault:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !isRefusal(err) })
	case interface{ Unwrap() error }:
		return isRefusal(e.Unwrap())
	}
	return false
}

// createBatch makes a batch of a list with rows of every kind, or repeats an earlier request under its key or another.
func (w *soakRun) createBatch() {
	if len(w.batches) > 0 && w.drawChance(15) {
		w.sendBatch(drawFrom(w, w.batches))
		return
	}
	if len(w.batches) > 0 && w.drawChance(12) { // the same list once more
		former := drawFrom(w, w.batches)
		w.sendBatch(w.newBatch(former.family, ""))
		return
	}
	balances := map[int]money.Amount{}
	isRich := false
	for _, mintID := range []int{tokenID, nativeID, limitedID} {
		balances[mintID] = w.loadBalance(ledger.BatchProduct, mintID)
		isRich = isRich || !balances[mintID].IsZero()
	}
	if !isRich || w.drawChance(20) {
		mintID := drawFrom(w, []int{tokenID, tokenID, nativeID, limitedID})
		amount := w.amountOf(mintID)
		hash := w.makePayment(sim.Move{
			Contract: tokens[mintID], To: w.addresses[ledger.BatchProduct], Amount: amount,
		})
		w.addTrace("pay %v of mint %d for batches %s", amount, mintID, hash[:12])
		if !isRich {
			return
		}
	}
	w.families++
	f := &batchFamily{n: w.families}
	for n := range 1 + w.drawNumber(6) {
		w.addBatchRow(f, n+1, balances)
	}
	w.sendBatch(w.newBatch(f, ""))
}

// addBatchRow adds a row to a list: most can be paid, some cannot be read, and some may not be paid.
func (w *soakRun) addBatchRow(f *batchFamily, number int, balances map[int]money.Amount) {
	mintID := drawFrom(w, []int{tokenID, tokenID, nativeID, limitedID})
	for range 4 {
		if !balances[mintID].IsZero() {
			break
		}
		mintID = drawFrom(w, []int{tokenID, nativeID, limitedID})
	}
	amount := w.part(balances[mintID], uint64(200+w.drawNumber(3000)))
	if amount.IsZero() || w.drawChance(4) {
		amount = w.amountOf(mintID) // perhaps more than there is
	}
	recipient := sim.Address(fmt.Sprintf("payee %d of list %d of %d", number, f.n, w.seed))
	values := []string{fmt.Sprintf("pay-%d-%d", f.n, number), "", strconv.Itoa(mintID), string(recipient), "", ""}
	isFree, isReadable := true, true
	switch kind := w.drawNumber(100); {
	case kind < 4:
		values[3], isReadable = string(recipient[:20]), false
	case kind < 7:
		values[2], isReadable = "99", false
	case kind < 10:
		isReadable = false // its amount is not a number
	case kind < 13:
		recipient, isFree = w.addresses[drawFrom(w, append([]string{""}, w.customers...))], false
	case kind < 15:
		recipient, isFree = tokens[tokenID], false
	case kind < 17:
		amount, isFree = money.Units(uint64(1+w.drawNumber(9))), false // less than the minimum
	case kind < 20 && len(f.payees) > 0: // the same payment again
		earlier := f.payees[len(f.payees)-1]
		recipient, mintID, amount = earlier.address, earlier.mintID, earlier.amount
		values[2] = strconv.Itoa(mintID)
	case kind < 24 && len(w.requests) > 0:
		recipient = lookalikeAddress(drawFrom(w, w.requests).recipient, 100+10*f.n+number)
	case kind < 30:
		values[1] = drawFrom(w, w.customers) // a label, whose customer may be frozen
	}
	if isReadable {
		values[3], values[5] = string(recipient), amount.String()
		if p := w.batchPayees[recipient]; p != nil && p.family == f {
			p.times++
		} else if isFree {
			p := &batchPayee{family: f, address: recipient, mintID: mintID, amount: amount, times: 1}
			w.batchPayees[recipient], f.payees = p, append(f.payees, p)
		}
	} else {
		values[5] = "1,000"
	}
	f.lines = append(f.lines, rowfile.NewLine(number, number+1, values))
}

// newBatch returns a request of the list of a family. A retry has no list of its own.
func (w *soakRun) newBatch(f *batchFamily, formerID string) *batchRequest {
	r := &batchRequest{n: len(w.batches) + 1, family: f, formerID: formerID, approvers: map[audit.Actor]bool{}}
	key := fmt.Sprintf("batch-%d", r.n)
	r.call = payouts.CreateRequest{
		Lines: f.lines, Mode: drawFrom(w, contenthash.Modes), IdempotencyKey: &key, Actor: drawFrom(w, batchMakers),
	}
	if w.drawChance(50) {
		r.call.Mode = contenthash.Partial // a STRICT batch with a bad row pays nothing
	}
	w.batches = append(w.batches, r)
	return r
}

// sendBatch makes a batch, perhaps not for the first time.
func (w *soakRun) sendBatch(r *batchRequest) {
	var made payouts.Batch
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		made, err = w.makeBatch(ctx, drawFrom(w, w.processes), r)
		return err
	})
	w.addTrace("batch #%d: list %d of %d rows, %s, retry %v: %s", r.n, r.family.n, len(r.family.lines), r.call.Mode,
		r.formerID != "", outcomeCode(s.err))
	w.recordBatch(r, made, s.err)
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("batch", s.err, w.isCalm() && !s.struck)
	}
}

func (w *soakRun) makeBatch(ctx context.Context, process *serviceProcess, r *batchRequest) (payouts.Batch, error) {
	if r.formerID != "" {
		return process.Payouts.Retry(ctx, orgID, r.formerID, r.call.IdempotencyKey, r.call.Actor)
	}
	return process.Payouts.Create(ctx, orgID, r.call)
}

func (w *soakRun) recordBatch(r *batchRequest, made payouts.Batch, err error) {
	switch {
	case err == nil && r.id != "" && r.id != made.ID:
		w.failRun("batch #%d is %s and %s", r.n, r.id, made.ID)
	case err == nil:
		if r.id == "" {
			w.batchesMade++
		}
		r.id = made.ID
	case fault.Find(err) != nil && r.id != "" && r.formerID == "":
		w.failRun("batch #%d was made as %s and its repetition is refused: %v", r.n, r.id, err)
	}
}

// batchByID returns the request of a batch, also of one whose answer was lost.
func (w *soakRun) batchByID(id string) *batchRequest {
	for _, r := range w.batches {
		if r.id == id {
			return r
		}
	}
	for _, r := range w.batches {
		if r.id == "" && len(w.queryColumn(
			`SELECT batch_id FROM payout_batches WHERE batch_id = $1 AND idempotency_key = $2`, id,
			*r.call.IdempotencyKey)) == 1 {
			r.id = id
			w.batchesMade++
			return r
		}
	}
	w.failRun("no one requested batch %s", id)
	return nil
}

const batchesIn = `SELECT batch_id FROM payout_batches WHERE status = ANY ($1) ORDER BY created_at, batch_id`

// drawBatch draws a batch in one of some states, and sometimes one in any state.
func (w *soakRun) drawBatch(anyState int, statuses ...payouts.Status) (r *batchRequest, b payouts.Batch, ok bool) {
	ids := w.queryColumn(batchesIn, statuses)
	if w.drawChance(anyState) {
		ids = w.queryColumn(`SELECT batch_id FROM payout_batches WHERE $1 ORDER BY created_at, batch_id`, true)
	}
	if len(ids) == 0 {
		return nil, b, false
	}
	id := drawFrom(w, ids)
	r = w.batchByID(id)
	b, err := w.processes[0].Payouts.ByID(w.ctx, orgID, id)
	w.mustSucceed(err, "read a batch")
	return r, b, true
}

// changeBatch makes a change of a batch, and remembers its answer.
func (w *soakRun) changeBatch(
	r *batchRequest, verb string, change func(ctx context.Context, s *payouts.Service) (payouts.Batch, error),
) error {
	var after payouts.Batch
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		after, err = change(ctx, drawFrom(w, w.processes).Payouts)
		return err
	})
	w.addTrace("%s batch #%d: %s %s", verb, r.n, outcomeCode(s.err), after.Status)
	if s.err == nil && after.ApprovedAt == nil && after.EndedAt != nil {
		r.isBarred = true
	}
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError(verb+" a batch", s.err, w.isCalm() && !s.struck)
	}
	return s.err
}

// submitBatch submits a draft, sometimes with another hash or without the ticks that it needs.
func (w *soakRun) submitBatch() {
	r, b, ok := w.drawBatch(8, payouts.Draft)
	if !ok {
		return
	}
	request := w.newSubmission(b, r)
	switch {
	case w.drawChance(5):
		request.ContentHash[0] ^= 1
	case w.drawChance(10):
		request.Ticked = nil
	}
	isWrong := request.ContentHash != b.ContentHash
	err := w.submitAs(r, request)
	switch {
	case err == nil && isWrong:
		w.failRun("batch #%d was submitted with another hash", r.n)
	case fault.HasCode(err, fault.DuplicateBatch) && w.drawChance(25):
		request.AcknowledgeDuplicateOf, _ = fault.Find(err).Extra["existingId"].(string)
		r.family.acknowledged++ // it may pay once more, also if the answer is lost
		_ = w.submitAs(r, request)
	}
}

func (w *soakRun) newSubmission(b payouts.Batch, r *batchRequest) payouts.SubmitRequest {
	request := payouts.SubmitRequest{ContentHash: b.ContentHash, Actor: r.call.Actor}
	warnings, err := w.processes[0].Payouts.Warnings(w.ctx, orgID, b.ID)
	w.mustSucceed(err, "read the warnings of a batch")
	for _, warning := range warnings {
		if warning.NeedsTick {
			request.Ticked = append(request.Ticked, warning.Row)
		}
	}
	return request
}

func (w *soakRun) submitAs(r *batchRequest, request payouts.SubmitRequest) error {
	return w.changeBatch(r, "submit", func(ctx context.Context, s *payouts.Service) (payouts.Batch, error) {
		return s.Submit(ctx, orgID, r.id, request)
	})
}

// approveBatch approves or rejects a batch that waits for that, as another person or as its maker, who may not.
func (w *soakRun) approveBatch() {
	r, b, ok := w.drawBatch(8, payouts.AwaitingApproval)
	if !ok {
		return
	}
	if w.drawChance(10) {
		_ = w.changeBatch(r, "reject", func(ctx context.Context, s *payouts.Service) (payouts.Batch, error) {
			return s.Reject(ctx, orgID, r.id, "by the soak", batchApprovers[0])
		})
		return
	}
	person, hash := drawFrom(w, batchApprovers), b.ContentHash
	if w.drawChance(10) {
		person = b.Maker
	}
	if w.drawChance(4) {
		hash[0] ^= 1
	}
	isMaker := person == b.Maker || b.Submitter != nil && person == *b.Submitter
	if !isMaker && hash == b.ContentHash {
		r.approvers[person] = true
	}
	err := w.changeBatch(r, "approve", func(ctx context.Context, s *payouts.Service) (payouts.Batch, error) {
		return s.Approve(ctx, orgID, r.id, hash, person)
	})
	if err == nil && (isMaker || hash != b.ContentHash) {
		w.failRun("batch #%d was approved by %v, who made it: %v, with its hash: %v", r.n, person, isMaker,
			hash == b.ContentHash)
	}
}

// steerBatch pauses, resumes or cancels a batch in any state.
func (w *soakRun) steerBatch() {
	r, _, ok := w.drawBatch(20, payouts.Processing)
	if !ok {
		return
	}
	verb := drawFrom(w, []string{"pause", "pause", "resume", "resume", "resume", "cancel"})
	actor := drawFrom(w, batchMakers)
	_ = w.changeBatch(r, verb, func(ctx context.Context, s *payouts.Service) (payouts.Batch, error) {
		return steer(ctx, s, verb, r.id, actor)
	})
}

func steer(
	ctx context.Context, s *payouts.Service, verb, id string, actor audit.Actor,
) (payouts.Batch, error) {
	switch verb {
	case "pause":
		return s.Pause(ctx, orgID, id, actor)
	case "resume":
		return s.Resume(ctx, orgID, id, actor)
	}
	return s.Cancel(ctx, orgID, id, actor)
}

// retryBatch makes a new draft of the rows that a batch did not pay.
func (w *soakRun) retryBatch() {
	r, _, ok := w.drawBatch(10, payouts.PartiallyCompleted, payouts.Failed, payouts.Invalid, payouts.Cancelled)
	if ok {
		w.sendBatch(w.newBatch(r.family, r.id))
	}
}

// settleBatches decides about all batches that a person has to decide about.
func (w *soakRun) settleBatches(cancelAll bool) {
	for _, id := range w.queryColumn(`SELECT batch_id FROM payout_batches WHERE ended_at IS NULL AND $1
		ORDER BY created_at, batch_id`, true) {
		r := w.batchByID(id)
		s := w.processes[0].Payouts
		b, err := s.ByID(w.ctx, orgID, id)
		w.mustSucceed(err, "read a batch")
		verb := "cancel"
		switch {
		case cancelAll || b.Status == payouts.Draft && w.drawChance(30):
			_, err = s.Cancel(w.ctx, orgID, id, batchMakers[0])
		case b.Status == payouts.Draft:
			verb = "submit"
			_, err = s.Submit(w.ctx, orgID, id, w.newSubmission(b, r))
		case b.Status == payouts.AwaitingApproval:
			verb = "approve"
			for _, person := range batchApprovers {
				r.approvers[person] = true
				if _, err = s.Approve(w.ctx, orgID, id, b.ContentHash, person); err != nil {
					break // other approvals were enough, or it has approved before
				}
			}
		case b.PausedAt != nil && b.StoppedAt == nil:
			verb = "resume"
			_, err = s.Resume(w.ctx, orgID, id, batchMakers[0])
		default:
			continue
		}
		w.addTrace("%s batch #%d at last: %s", verb, r.n, outcomeCode(err))
		if err != nil && fault.Find(err) == nil {
			w.failRun("%s batch #%d: %v", verb, r.n, err)
		}
	}
}

// openBatches says what of batches has not ended.
var openBatches = []openKind{
	{"batches", `SELECT count(*) FROM payout_batches WHERE ended_at IS NULL`},
}

// checkBatchPayee checks what left for a payee of a list, on every fork: nothing, or the amount of its row as often as
// the list may be paid. payments are all that left for the address.
func (w *soakRun) checkBatchPayee(p *batchPayee, payments []payout) {
	timesMax := p.times * (1 + p.family.acknowledged)
	for _, paid := range payments {
		switch {
		case len(payments) > timesMax:
			w.failRun("a payee of list %d was paid %d times, and its list names it %d times and was acknowledged %d "+
				"times: %v", p.family.n, len(payments), p.times, p.family.acknowledged, payments)
		case paid.contract != tokens[p.mintID] || paid.amount != p.amount:
			w.failRun("a payee of list %d received %v of %.10q, want %v of %.10q", p.family.n, paid.amount,
				paid.contract, p.amount, tokens[p.mintID])
		case severityOf(w.seed, p.address).Exceeds(risk.High):
			w.failRun("a payee of list %d was paid, and it is %s", p.family.n, severityOf(w.seed, p.address))
		}
	}
	if !slices.ContainsFunc(w.batches, func(r *batchRequest) bool {
		return r.family == p.family && !r.isBarred && len(r.approvers) > 0
	}) {
		w.failRun("a payee of list %d was paid, and no batch of the list was approved", p.family.n)
	}
}

// lookAtBatches checks after each step that what is held for batches is the sum of the included rows that have neither
// a withdrawal nor a refusal, that no batch goes on with too few approvals, and that one that has ended has ended as
// its rows did.
func (w *soakRun) lookAtBatches() {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT m.mint_id,
			coalesce((SELECT sum(b.balance) FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
				WHERE a.kind = 'BATCH_HELD' AND a.mint_id = m.mint_id), 0),
			coalesce((SELECT sum(i.amount) FROM payout_items i JOIN payout_batches b USING (batch_id)
				WHERE i.mint_id = m.mint_id AND b.status IN ('VALIDATING', 'AWAITING_APPROVAL', 'PROCESSING')
					AND i.included AND (b.status <> 'PROCESSING' OR i.refused IS NULL AND NOT EXISTS (
						SELECT FROM withdrawals w WHERE w.batch_id = i.batch_id AND w.batch_row = i.row_no
							AND w.status <> 'BLOCKED'))), 0)
		FROM mints m`)
	w.mustSucceed(err, "read what is held for batches")
	var mintID int
	var held, open money.Amount
	_, err = pgx.ForEachRow(rows, []any{&mintID, &held, &open}, func() error {
		if held != open {
			w.failRun("%v of mint %d is held for batches, and their open rows take %v", held, mintID, open)
		}
		return nil
	})
	w.mustSucceed(err, "read what is held for batches")

	rows, err = w.superPool.Query(w.ctx, `
		SELECT b.batch_id, b.status, coalesce(b.approvals_required, 0), b.approved_at IS NOT NULL,
			b.ended_at IS NOT NULL, count(*) FILTER (WHERE i.included),
			count(*) FILTER (WHERE x.status = 'COMPLETED'),
			count(*) FILTER (WHERE x.status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST')), count(x.status)
		FROM payout_batches b JOIN payout_items i USING (batch_id)
		LEFT JOIN withdrawals x ON x.batch_id = i.batch_id AND x.batch_row = i.row_no
		GROUP BY b.batch_id ORDER BY b.created_at, b.batch_id`)
	w.mustSucceed(err, "read the batches")
	type state struct {
		id, status                            string
		required                              int
		isApproved, hasEnded                  bool
		included, paid, underWay, withdrawals int
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s state, err error) {
		return s, row.Scan(&s.id, &s.status, &s.required, &s.isApproved, &s.hasEnded, &s.included, &s.paid,
			&s.underWay, &s.withdrawals)
	})
	w.mustSucceed(err, "read the batches")
	for _, s := range states {
		if !s.isApproved && !s.hasEnded && s.withdrawals == 0 {
			continue
		}
		r := w.batchByID(s.id)
		switch {
		case s.isApproved && (s.required < 1 || len(r.approvers) < s.required):
			w.failRun("batch #%d needs %d approvals and is paid after %d", r.n, s.required, len(r.approvers))
		case !s.isApproved && s.withdrawals > 0:
			w.failRun("batch #%d is %s, was never approved and has %d withdrawals", r.n, s.status, s.withdrawals)
		case s.hasEnded && s.underWay > 0:
			w.failRun("batch #%d is %s, and %d of its payments are under way", r.n, s.status, s.underWay)
		case s.hasEnded && (s.status == "COMPLETED") != (s.paid == s.included && s.isApproved),
			s.hasEnded && (s.status == "PARTIALLY_COMPLETED") != (s.paid > 0 && s.paid < s.included),
			r.isBarred && s.withdrawals > 0:
			w.failRun("batch #%d is %s with %d of %d rows paid, and ended before its approval: %v", r.n, s.status,
				s.paid, s.included, r.isBarred)
		}
	}
}

// checkBatches compares, when nothing is open, what each payee received with the payments that are COMPLETED: one for
// each row at most.
func (w *soakRun) checkBatches() {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT to_address, count(*) FILTER (WHERE status = 'COMPLETED') FROM withdrawals
		WHERE product = 'BATCH_PAYOUT' AND status <> 'BLOCKED' GROUP BY to_address`)
	w.mustSucceed(err, "read the payments of batches")
	completed := map[chain.Address]int{}
	var address chain.Address
	var n int
	_, err = pgx.ForEachRow(rows, []any{&address, &n}, func() error { completed[address] = n; return nil })
	w.mustSucceed(err, "read the payments of batches")
	for address, p := range w.batchPayees {
		want := new(big.Int).Mul(p.amount.Big(), big.NewInt(int64(completed[address])))
		if got := w.net.Received(address, tokens[p.mintID]); got.Big().Cmp(want) != 0 {
			w.failRun("a payee of list %d received %v, and %d payments of %v to it are COMPLETED", p.family.n, got,
				completed[address], p.amount)
		}
		w.rowsPaid += completed[address]
	}
	w.batchesPaid = w.queryCount(
		`SELECT count(*) FROM payout_batches WHERE status IN ('COMPLETED', 'PARTIALLY_COMPLETED')`)
	w.batchesUnpaid = w.queryCount(
		`SELECT count(*) FROM payout_batches WHERE status IN ('INVALID', 'REJECTED', 'CANCELLED', 'FAILED')`)
}

// netOfRow returns what a payment in this state has brought its payee.
func netOfRow(status string, amount, feeDeducted money.Amount) money.Amount {
	if status != "COMPLETED" {
		return money.Zero
	}
	return money.SubOrZero(amount, feeDeducted)
}
