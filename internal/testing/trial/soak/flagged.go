package soak

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
)

// externalServices answers what the service asks the outside world: the severity of an address,
// which follows from the seed, and the price of a token. Either may be unavailable.
type externalServices struct {
	seed   uint64
	prices price.Fixed
	faults *counter

	mu              sync.Mutex
	deaf, penniless bool
}

// The faults of the external services.
const (
	screenerAway = "screening: no answer"
	priceAway    = "price: none"
)

// Name returns the provider's name.
func (o *externalServices) Name() string { return "SEED" }

// Covers reports every chain as covered.
func (o *externalServices) Covers(chain.Name) bool { return true }

// Screen answers from the seed.
func (o *externalServices) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf {
		o.faults.addOne(screenerAway)
		return risk.Verdict{}, risk.Unavailable("no one is there")
	}
	return risk.Verdict{
		Provider: o.Name(), Severity: severityOf(o.seed, s.Address), IsKnown: true, GivenAt: o.prices.Clock(),
	}, nil
}

// USD returns the price.
func (o *externalServices) USD(ctx context.Context, mintID int) (price.Quote, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.penniless {
		o.faults.addOne(priceAway)
		return price.Quote{}, price.ErrUnavailable
	}
	return o.prices.USD(ctx, mintID)
}

func (o *externalServices) setAway(deaf, penniless bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf, o.penniless = deaf, penniless
}

// severityOf returns the severity of an address in the run of a seed.
func severityOf(seed uint64, a chain.Address) risk.Severity {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), strings.ToLower(string(a))...))
	switch n := int(sum[0]) * 100 / 256; {
	case n < 45:
		return risk.None
	case n < 60:
		return risk.Low
	case n < 75:
		return risk.Medium
	case n < 88:
		return risk.High
	}
	return risk.Severe
}

// The thresholds of a strict run are always among these, so that the oracle knows what has to be
// flagged under any of them.
var (
	severities = []string{`"LOW"`, `"MEDIUM"`, `"HIGH"`}
	dollars    = []string{`"0"`, `"10"`, `"100"`}
)

const dollarsMax = 100

// drawScreening draws the amounts from which a deposit is screened and a withdrawal is refused, and
// how many people have to approve one.
func (w *soakRun) drawScreening() org.Changes {
	c := org.Changes{
		"screeningSeverityThreshold": json.RawMessage(drawFrom(w, severities)),
		"screeningUsdThreshold":      json.RawMessage(drawFrom(w, dollars)),
		"withdrawSeverityThreshold":  json.RawMessage(drawFrom(w, []string{`null`, `"LOW"`, `"MEDIUM"`, `"HIGH"`})),
		"approvalQuorum":             json.RawMessage(drawFrom(w, []string{`1`, `1`, `2`})),
		"chargeCustomerCosts":        json.RawMessage(drawFrom(w, []string{`"NONE"`, `"RENT"`, `"RENT_AND_FAILURES"`})),
	}
	if !w.strict && w.drawChance(40) {
		c["screeningSeverityThreshold"], c["screeningUsdThreshold"] = json.RawMessage(`null`), json.RawMessage(`null`)
	}
	return c
}

func (w *soakRun) changeSettings(ctx context.Context, c org.Changes) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op_1"), orgID, c)
		return err
	})
}

// changeScreening changes those settings.
func (w *soakRun) changeScreening() {
	c := w.drawScreening()
	s := w.runWithFaults(func(ctx context.Context) error { return w.changeSettings(ctx, c) })
	w.addTrace("screening of deposits above %s and %s, of withdrawals above %s, %s approve, customers pay %s%s",
		c["screeningSeverityThreshold"], c["screeningUsdThreshold"],
		c["withdrawSeverityThreshold"], c["approvalQuorum"], c["chargeCustomerCosts"], s.describeResult())
	w.recordError("screening", s.err, w.isCalm() && !s.struck)
}

// flaggedDeposit is a flagged deposit in the database.
type flaggedDeposit struct {
	id, status string
	movement   movementID
	address    chain.Address // where it arrived
	contract   chain.Address
	amount     money.Amount
	returnTo   chain.Address
	risk       string
}

// listFlagged lists the deposits that were ever flagged, in the order of the chain.
func (w *soakRun) listFlagged(statuses ...string) (deposits []flaggedDeposit) {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT deposit_id, status, tx_hash, kind, position, address, contract, amount, coalesce(return_to, ''), coalesce(risk_of_funds, '') FROM deposits
		WHERE is_flagged AND (status = ANY ($1) OR $1 = '{}') ORDER BY height, tx_hash, position`,
		append([]string{}, statuses...))
	w.mustSucceed(err, "look at flagged deposits")
	defer rows.Close()
	for rows.Next() {
		var h flaggedDeposit
		w.mustSucceed(
			rows.Scan(
				&h.id, &h.status, &h.movement.tx, &h.movement.kind, &h.movement.position, &h.address, &h.contract,
				&h.amount, &h.returnTo, &h.risk,
			),
			"look at flagged deposits",
		)
		deposits = append(deposits, h)
	}
	w.mustSucceed(rows.Err(), "look at flagged deposits")
	return deposits
}

// decidedPayout is a decision that a deposit goes to an address, whether or not it took effect.
type decidedPayout struct {
	movement  movementID
	recipient chain.Address
	contract  chain.Address
	amount    money.Amount
}

// The decisions.
const (
	approve  = "approve"
	reject   = "reject"
	redirect = "redirect"
)

var operatorOfFlags = deposit.Actor{Actor: audit.Operator("op_1")}

var personOfFlags = deposit.Actor{Actor: audit.User("usr_1"), OrgID: orgID}

// decideAbout decides about a flagged deposit in one of the processes.
func (w *soakRun) decideAbout(
	ctx context.Context, process *serviceProcess, d flaggedDeposit, verb string, decider deposit.Actor,
	recipient chain.Address,
) (deposit.Deposit, error) {
	switch verb {
	case approve:
		return process.Deposits.Approve(ctx, d.id, decider, "")
	case reject:
		return process.Deposits.Reject(ctx, d.id, decider, "")
	}
	return process.Deposits.Redirect(ctx, d.id, decider, deposit.Redirection{
		ToAddress: string(recipient), Reason: deposit.ComplianceHold, Reference: "case 1",
	})
}

// resolveDeposit decides about a deposit that is flagged, or was. Sometimes another actor decides
// about the same one, in the other process, right after.
func (w *soakRun) resolveDeposit() {
	candidates := w.listFlagged("FLAGGED")
	if w.drawChance(15) {
		candidates = w.listFlagged()
	}
	if len(candidates) == 0 {
		return
	}
	d := drawFrom(w, candidates)
	first := w.drawNumber(len(w.processes))
	w.resolveAs(w.processes[first], d)
	if w.drawChance(35) {
		w.resolveAs(w.processes[(first+1)%len(w.processes)], d)
	}
}

func (w *soakRun) resolveAs(process *serviceProcess, d flaggedDeposit) {
	verb, decider := drawFrom(w, []string{approve, approve, reject, reject, reject, redirect}), drawFrom(
		w, []deposit.Actor{operatorOfFlags, personOfFlags},
	)
	var recipient chain.Address
	var countBefore int
	switch verb {
	case approve:
		w.approvals[d.movement] = true
	case reject:
		w.decisions[decidedPayout{d.movement, d.returnTo, d.contract, d.amount}] = true
	case redirect:
		recipient = sim.Address(fmt.Sprintf("court %d of %d", len(w.decisions), w.seed))
		if decider.OrgID == "" {
			w.decisions[decidedPayout{d.movement, recipient, d.contract, d.amount}] = true
		} else {
			countBefore = w.queryCount(`SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1`, d.id)
		}
	}
	s := w.runWithFaults(func(ctx context.Context) error {
		_, err := w.decideAbout(ctx, process, d, verb, decider, recipient)
		return err
	})
	w.addTrace("%s %v of %.8s, %s, as %s: %s", verb, d.amount, d.contract, d.status, decider.Kind, outcomeCode(s.err))
	if fault.Find(s.err) == nil {
		w.recordError("resolve", s.err, w.isCalm() && !s.struck)
	}
	if verb == redirect && decider.OrgID != "" {
		countAfter := w.queryCount(`SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1`, d.id)
		if s.err == nil || countAfter != countBefore {
			w.failRun("an organization redirects: %v, and %d resolutions became %d", s.err, countBefore, countAfter)
		}
	}
}

// completeResolution sends a return that failed on the chain again, as the operator.
func (w *soakRun) completeResolution() {
	candidates := w.listFlagged("RESOLUTION_STUCK")
	if len(candidates) == 0 {
		return
	}
	d := drawFrom(w, candidates)
	s := w.runWithFaults(func(ctx context.Context) error {
		_, err := drawFrom(w, w.processes).Deposits.Complete(ctx, d.id, operatorOfFlags, "")
		return err
	})
	w.addTrace("complete %v of %.8s: %s", d.amount, d.contract, outcomeCode(s.err))
	if fault.Find(s.err) == nil {
		w.recordError("complete", s.err, w.isCalm() && !s.struck)
	}
}

// resolveAll decides about every deposit that waits for a person.
func (w *soakRun) resolveAll(approveAll bool) {
	for _, d := range w.listFlagged("FLAGGED") {
		verb := drawFrom(w, []string{approve, reject, redirect})
		if approveAll {
			verb = approve
		}
		recipient := d.returnTo
		switch verb {
		case approve:
			w.approvals[d.movement] = true
		case redirect:
			recipient = sim.Address(fmt.Sprintf("court %d of %d", len(w.decisions), w.seed))
			fallthrough
		default:
			w.decisions[decidedPayout{d.movement, recipient, d.contract, d.amount}] = true
		}
		_, err := w.decideAbout(w.ctx, w.processes[0], d, verb, operatorOfFlags, recipient)
		w.addTrace("%s %v of %.8s at last: %s", verb, d.amount, d.contract, outcomeCode(err))
		if err != nil && fault.Find(err) == nil {
			w.failRun("%s of a flagged deposit: %v", verb, err)
		}
	}
	for _, d := range w.listFlagged("RESOLUTION_STUCK") {
		_, err := w.processes[0].Deposits.Complete(w.ctx, d.id, operatorOfFlags, "")
		w.addTrace("complete %v of %.8s at last: %s", d.amount, d.contract, outcomeCode(err))
		if err != nil && !fault.HasCode(err, fault.ResolutionInProgress) {
			w.failRun("complete a stuck resolution: %v", err)
		}
	}
}

// lookAtFlags compares flagged deposits with the chain. Each is whole and still at its address, and
// its sender is the chain's. In a strict run none is flagged without a reason.
func (w *soakRun) lookAtFlags() {
	sums := map[chain.Holding]money.Amount{}
	for _, d := range w.listFlagged("FLAGGED") {
		a := w.arrivals.expected[d.movement]
		if w.flexAddresses[d.address] == nil && d.returnTo != a.sender {
			w.failRun("a flagged deposit is of %s, and %s sent it", d.returnTo, a.sender)
		}
		if w.strict && w.flexAddresses[d.address] == nil && d.risk != "UNKNOWN" &&
			!severityOf(w.seed, a.sender).Exceeds(risk.Low) {
			w.failRun("a deposit of %s is flagged as %s, and no provider says so", a.sender, d.risk)
		}
		k := chain.Holding{Address: d.address, Contract: d.contract}
		sum, err := sums[k].Add(d.amount)
		w.mustSucceed(err, "sum up flagged deposits")
		sums[k] = sum
	}
	for k, want := range sums {
		if balance := w.net.Balance(k.Address, k.Contract); balance.Less(want) {
			w.failRun("%s has %v of %.10q, and %v of it is flagged", k.Address, balance, k.Contract, want)
		}
	}
}

// checkCredited checks a credited deposit: its sender has no high severity, or a person has
// approved it.
func (w *soakRun) checkCredited(id movementID, a arrival, wasFlagged bool) {
	switch {
	case wasFlagged && !w.approvals[id]:
		w.failRun("a flagged deposit is credited, and no person has approved it: %+v", id)
	case w.flexAddresses[a.recipient] != nil:
		w.checkPayers(w.flexAddresses[a.recipient], id, a, wasFlagged)
	case w.swapAddresses[a.recipient]: // the solver's other customers say nothing of this one
	case wasFlagged || !w.strict || a.recipient == w.addresses[""]:
	case severityOf(w.seed, a.sender).Exceeds(risk.High) && w.dollarValue(a) > dollarsMax:
		w.failRun(
			"a deposit of %v from %s is credited, and its sender is %s",
			a.amount, a.sender, severityOf(w.seed, a.sender),
		)
	}
}

// dollarValue returns an amount in whole dollars, rounded down.
func (w *soakRun) dollarValue(a arrival) uint64 {
	n := a.amount.Big()
	switch a.contract {
	case tokens[nativeID]:
		n.Mul(n, big.NewInt(3000)).Div(n, big.NewInt(wei))
	case tokens[limitedID]:
		n.Mul(n, big.NewInt(2)).Div(n, big.NewInt(1_000_000))
	default:
		n.Div(n, big.NewInt(1_000_000))
	}
	return n.Uint64()
}

// payout is what one of our addresses sent to an external one.
type payout struct {
	recipient, contract chain.Address
	amount              money.Amount
}

// keptMax is more than the largest network fee that a return of coin keeps.
const keptMax = wei / 50

// takeDecision removes from wishes one decision that a payout may carry out; false if there is
// none.
func takeDecision(wishes map[chain.Holding][]money.Amount, p payout) bool {
	k := chain.Holding{Address: p.recipient, Contract: p.contract}
	i := slices.IndexFunc(wishes[k], func(amountMax money.Amount) bool {
		if p.contract != tokens[nativeID] {
			return amountMax == p.amount
		}
		fee, err := amountMax.Sub(p.amount)
		return err == nil && fee.Less(money.Units(keptMax))
	})
	if i < 0 {
		return false
	}
	wishes[k] = slices.Delete(wishes[k], i, i+1)
	return true
}

// listDecisions returns the amounts that were decided for each address, in ascending order.
func (w *soakRun) listDecisions() map[chain.Holding][]money.Amount {
	amountsByHolding := map[chain.Holding][]money.Amount{}
	for i := range w.decisions {
		k := chain.Holding{Address: i.recipient, Contract: i.contract}
		amountsByHolding[k] = append(amountsByHolding[k], i.amount)
	}
	for _, amounts := range amountsByHolding {
		slices.SortFunc(amounts, func(a, b money.Amount) int { return a.Cmp(b) })
	}
	return amountsByHolding
}

// checkResolved is the last check of flagged deposits. Each belongs to the customer or was sent
// once, to its sender or to the operator's address. It returns the status of each, and what was
// kept of the coin that was sent.
func (w *soakRun) checkResolved(payouts []payout) (status map[movementID]string, feesKept *big.Int) {
	status, feesKept = map[movementID]string{}, new(big.Int)
	wanted, sent := map[chain.Holding]*big.Int{}, map[chain.Holding]*big.Int{}
	times := map[chain.Holding]int{}
	add := func(target map[chain.Holding]*big.Int, k chain.Holding, n money.Amount, times1 int) {
		if target[k] == nil {
			target[k] = new(big.Int)
		}
		target[k].Add(target[k], n.Big())
		times[k] += times1
	}
	for _, d := range w.listFlagged() {
		w.held++
		status[d.movement] = d.status
		switch d.status {
		case "CREDITED":
			w.approved++
		case "REJECTED":
			w.sentBack++
			add(
				wanted, chain.Holding{Address: w.arrivals.expected[d.movement].sender, Contract: d.contract}, d.amount,
				1,
			)
		case "REDIRECTED":
			w.sentElsewhere++
			target := chain.Address(w.queryColumn(
				`SELECT to_address FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'DONE'`, d.id,
			)[0])
			if !w.decisions[decidedPayout{d.movement, target, d.contract, d.amount}] {
				w.failRun("a deposit was redirected to %s without a decision", target)
			}
			add(wanted, chain.Holding{Address: target, Contract: d.contract}, d.amount, 1)
		default:
			w.failRun("a flagged deposit is still %s", d.status)
		}
	}
	for _, p := range payouts {
		add(sent, chain.Holding{Address: p.recipient, Contract: p.contract}, p.amount, -1)
	}
	for k, n := range times {
		if n != 0 {
			w.failRun("%s: %d more deposits were sent there than payments of %.10q arrived", k.Address, n, k.Contract)
		}
	}
	for k, want := range wanted {
		left := new(big.Int).Sub(want, sent[k])
		if k.Contract == tokens[nativeID] {
			feesKept.Add(feesKept, left)
		} else if left.Sign() != 0 {
			w.failRun("%s received %v of %.10q, want %v", k.Address, sent[k], k.Contract, want)
		}
	}
	w.stuck = w.queryCount(`SELECT count(*) FROM deposit_resolutions WHERE failure = 'REVERTED'`)
	return status, feesKept
}

// chargesProduct is the product that receives what a return of coin keeps, and what customers are
// charged.
const chargesProduct = "CUSTODIAL"
