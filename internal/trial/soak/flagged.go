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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

// outside is whom the service asks about the world: what somebody thinks of an address,
// which follows from the seed, and what a token is worth. Either may be away.
type outside struct {
	seed   uint64
	prices price.Fixed
	faults *tally

	mu              sync.Mutex
	deaf, penniless bool
}

// The faults of whom the service asks.
const (
	screenerAway = "screening: no answer"
	priceAway    = "price: none"
)

// Name is the provider's.
func (o *outside) Name() string { return "SEED" }

// Covers says that every chain is known.
func (o *outside) Covers(chain.Name) bool { return true }

// Screen answers from the seed.
func (o *outside) Screen(_ context.Context, s risk.Subject) (risk.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf {
		o.faults.add(screenerAway)
		return risk.Verdict{}, risk.Unavailable("nobody is there")
	}
	return risk.Verdict{Provider: o.Name(), Severity: thinks(o.seed, s.Address), Known: true, At: o.prices.Clock()}, nil
}

// USD is the price.
func (o *outside) USD(ctx context.Context, mintID int) (price.Quote, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.penniless {
		o.faults.add(priceAway)
		return price.Quote{}, price.ErrUnavailable
	}
	return o.prices.USD(ctx, mintID)
}

func (o *outside) be(deaf, penniless bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf, o.penniless = deaf, penniless
}

// thinks is what is thought of an address on the day of a seed.
func thinks(seed uint64, a chain.Address) risk.Severity {
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

// The thresholds of a strict day are always among these, so that the oracle knows what
// has to be flagged whichever of them holds.
var (
	severities = []string{`"LOW"`, `"MEDIUM"`, `"HIGH"`}
	dollars    = []string{`"0"`, `"10"`, `"100"`}
)

const dollarsMax = 100

// screening draws from where on a deposit is looked at and a withdrawal is refused, and
// how many have to approve one.
func (w *world) screening() org.Changes {
	c := org.Changes{
		"screeningSeverityThreshold": json.RawMessage(draw(w, severities)),
		"screeningUsdThreshold":      json.RawMessage(draw(w, dollars)),
		"withdrawSeverityThreshold":  json.RawMessage(draw(w, []string{`null`, `"LOW"`, `"MEDIUM"`, `"HIGH"`})),
		"approvalQuorum":             json.RawMessage(draw(w, []string{`1`, `1`, `2`})),
		"chargeCustomerCosts":        json.RawMessage(draw(w, []string{`"NONE"`, `"RENT"`, `"RENT_AND_FAILURES"`})),
	}
	if !w.strict && w.chance(40) {
		c["screeningSeverityThreshold"], c["screeningUsdThreshold"] = json.RawMessage(`null`), json.RawMessage(`null`)
	}
	return c
}

func (w *world) change(ctx context.Context, c org.Changes) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("op_1"), orgID, c)
		return err
	})
}

// rethink changes those settings.
func (w *world) rethink() {
	c := w.screening()
	s := w.spoiled(func(ctx context.Context) error { return w.change(ctx, c) })
	w.note("screening of deposits above %s and %s, of withdrawals above %s, %s approve, customers pay %s%s", c["screeningSeverityThreshold"], c["screeningUsdThreshold"],
		c["withdrawSeverityThreshold"], c["approvalQuorum"], c["chargeCustomerCosts"], s.said())
	w.heard("screening", s.err, w.calm() && !s.struck)
}

// held is a deposit that was flagged, as the database has it.
type held struct {
	id, status string
	at         place
	to         chain.Address // where it arrived
	contract   chain.Address
	amount     money.Amount
	returnTo   chain.Address
	risk       string
}

// flagged are the deposits that ever were, in the order of the chain.
func (w *world) flagged(statuses ...string) (all []held) {
	rows, err := w.eye.Query(w.ctx, `
		SELECT deposit_id, status, tx_hash, kind, position, address, contract, amount, coalesce(return_to, ''), coalesce(risk_of_funds, '') FROM deposits
		WHERE is_flagged AND (status = ANY ($1) OR $1 = '{}') ORDER BY height, tx_hash, position`, append([]string{}, statuses...))
	w.must(err, "look at what is flagged")
	defer rows.Close()
	for rows.Next() {
		var h held
		w.must(rows.Scan(&h.id, &h.status, &h.at.tx, &h.at.kind, &h.at.position, &h.to, &h.contract, &h.amount, &h.returnTo, &h.risk), "look at what is flagged")
		all = append(all, h)
	}
	w.must(rows.Err(), "look at what is flagged")
	return all
}

// wish is that a deposit goes to an address: somebody decided so, whether it came about
// or not.
type wish struct {
	at       place
	to       chain.Address
	contract chain.Address
	amount   money.Amount
}

// The decisions.
const (
	approve  = "approve"
	reject   = "reject"
	redirect = "redirect"
)

var operatorOfFlags = deposit.Decider{Actor: audit.Operator("op_1")}

var personOfFlags = deposit.Decider{Actor: audit.User("usr_1"), OrgID: orgID}

// decideAbout has somebody decide about a flagged deposit, in one of the processes.
func (w *world) decideAbout(ctx context.Context, house *house, d held, verb string, by deposit.Decider, to chain.Address) (webhook.Deposit, error) {
	switch verb {
	case approve:
		return house.Flags.Approve(ctx, d.id, by, "")
	case reject:
		return house.Flags.Reject(ctx, d.id, by, "")
	}
	return house.Flags.Redirect(ctx, d.id, by, deposit.Redirection{To: string(to), Reason: deposit.ComplianceHold, Reference: "case 1"})
}

// resolve has somebody decide about something that is flagged, or was, and sometimes
// somebody else about the same, in the other process, right after.
func (w *world) resolve() {
	all := w.flagged("FLAGGED")
	if w.chance(15) {
		all = w.flagged()
	}
	if len(all) == 0 {
		return
	}
	d := draw(w, all)
	first := w.pick(len(w.houses))
	w.resolveAs(w.houses[first], d)
	if w.chance(35) {
		w.resolveAs(w.houses[(first+1)%len(w.houses)], d)
	}
}

func (w *world) resolveAs(house *house, d held) {
	verb, by := draw(w, []string{approve, approve, reject, reject, reject, redirect}), draw(w, []deposit.Decider{operatorOfFlags, personOfFlags})
	var to chain.Address
	var before int
	switch verb {
	case approve:
		w.approvals[d.at] = true
	case reject:
		w.wishes[wish{d.at, d.returnTo, d.contract, d.amount}] = true
	case redirect:
		to = sim.Address(fmt.Sprintf("court %d of %d", len(w.wishes), w.seed))
		if by.OrgID == "" {
			w.wishes[wish{d.at, to, d.contract, d.amount}] = true
		} else {
			before = w.count(`SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1`, d.id)
		}
	}
	s := w.spoiled(func(ctx context.Context) error { _, err := w.decideAbout(ctx, house, d, verb, by, to); return err })
	w.note("%s %v of %.8s, %s, as %s: %s", verb, d.amount, d.contract, d.status, by.Kind, code(s.err))
	if fault.Of(s.err) == nil {
		w.heard("resolve", s.err, w.calm() && !s.struck)
	}
	if verb == redirect && by.OrgID != "" {
		after := w.count(`SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1`, d.id)
		if s.err == nil || after != before {
			w.fail("an organization redirects: %v, and %d resolutions became %d", s.err, before, after)
		}
	}
}

// complete has the operator send again what failed on the chain.
func (w *world) complete() {
	all := w.flagged("RESOLUTION_STUCK")
	if len(all) == 0 {
		return
	}
	d := draw(w, all)
	s := w.spoiled(func(ctx context.Context) error {
		_, err := draw(w, w.houses).Flags.Complete(ctx, d.id, operatorOfFlags, "")
		return err
	})
	w.note("complete %v of %.8s: %s", d.amount, d.contract, code(s.err))
	if fault.Of(s.err) == nil {
		w.heard("complete", s.err, w.calm() && !s.struck)
	}
}

// resolveAll ends every wait for a person's decision about a deposit.
func (w *world) resolveAll(approveAll bool) {
	for _, d := range w.flagged("FLAGGED") {
		verb := draw(w, []string{approve, reject, redirect})
		if approveAll {
			verb = approve
		}
		to := d.returnTo
		switch verb {
		case approve:
			w.approvals[d.at] = true
		case redirect:
			to = sim.Address(fmt.Sprintf("court %d of %d", len(w.wishes), w.seed))
			fallthrough
		default:
			w.wishes[wish{d.at, to, d.contract, d.amount}] = true
		}
		_, err := w.decideAbout(w.ctx, w.houses[0], d, verb, operatorOfFlags, to)
		w.note("%s %v of %.8s at last: %s", verb, d.amount, d.contract, code(err))
		if err != nil && fault.Of(err) == nil {
			w.fail("%s of what is flagged: %v", verb, err)
		}
	}
	for _, d := range w.flagged("RESOLUTION_STUCK") {
		_, err := w.houses[0].Flags.Complete(w.ctx, d.id, operatorOfFlags, "")
		w.note("complete %v of %.8s at last: %s", d.amount, d.contract, code(err))
		if err != nil && !fault.Is(err, fault.ResolutionInProgress) {
			w.fail("complete what is stuck: %v", err)
		}
	}
}

// lookAtFlags holds what is flagged to what the chain says: it is still where it arrived,
// whole; its sender is who sent it; and on a strict day it is not flagged for nothing.
func (w *world) lookAtFlags() {
	sums := map[chain.Holding]money.Amount{}
	for _, d := range w.flagged("FLAGGED") {
		a := w.arrivals.expected[d.at]
		if d.returnTo != a.from {
			w.fail("a flagged deposit is of %s, and %s sent it", d.returnTo, a.from)
		}
		if w.strict && d.risk != "UNKNOWN" && !thinks(w.seed, a.from).Above(risk.Low) {
			w.fail("a deposit of %s is flagged as %s, and nobody thinks so", a.from, d.risk)
		}
		k := chain.Holding{Address: d.to, Contract: d.contract}
		sum, err := sums[k].Add(d.amount)
		w.must(err, "add up what is flagged")
		sums[k] = sum
	}
	for k, want := range sums {
		if have := w.net.Balance(k.Address, k.Contract); have.Less(want) {
			w.fail("%s has %v of %.10q, and %v of it is flagged", k.Address, have, k.Contract, want)
		}
	}
}

// passed judges a deposit that is credited: nobody may think ill of who sent it, or a
// person has approved it.
func (w *world) passed(at place, a arrival, wasFlagged bool) {
	switch {
	case wasFlagged && !w.approvals[at]:
		w.fail("a flagged deposit is credited, and nobody has approved it: %+v", at)
	case wasFlagged || !w.strict || a.to == w.addresses[""]:
	case thinks(w.seed, a.from).Above(risk.High) && w.worth(a) > dollarsMax:
		w.fail("a deposit of %v from %s is credited, who is %s", a.amount, a.from, thinks(w.seed, a.from))
	}
}

// worth is an amount in whole dollars, rounded down.
func (w *world) worth(a arrival) uint64 {
	n := a.amount.Big()
	switch a.contract {
	case tokens[coin]:
		n.Mul(n, big.NewInt(3000)).Div(n, big.NewInt(wei))
	case tokens[limited]:
		n.Mul(n, big.NewInt(2)).Div(n, big.NewInt(1_000_000))
	default:
		n.Div(n, big.NewInt(1_000_000))
	}
	return n.Uint64()
}

// payout is what an address of ours sent to somebody else.
type payout struct {
	to, contract chain.Address
	amount       money.Amount
}

// keptMax is more than the network's fee ever is, which is kept of a coin.
const keptMax = wei / 50

// granted takes from wishes one that a payout may be; false when there is none.
func granted(wishes map[chain.Holding][]money.Amount, p payout) bool {
	k := chain.Holding{Address: p.to, Contract: p.contract}
	i := slices.IndexFunc(wishes[k], func(most money.Amount) bool {
		if p.contract != tokens[coin] {
			return most == p.amount
		}
		kept, err := most.Sub(p.amount)
		return err == nil && kept.Less(money.Units(keptMax))
	})
	if i < 0 {
		return false
	}
	wishes[k] = slices.Delete(wishes[k], i, i+1)
	return true
}

// wished are the amounts that somebody decided to send to an address, in ascending order.
func (w *world) wished() map[chain.Holding][]money.Amount {
	all := map[chain.Holding][]money.Amount{}
	for i := range w.wishes {
		k := chain.Holding{Address: i.to, Contract: i.contract}
		all[k] = append(all[k], i.amount)
	}
	for _, amounts := range all {
		slices.SortFunc(amounts, func(a, b money.Amount) int { return a.Cmp(b) })
	}
	return all
}

// resolved is the last look at what was flagged: each is the customer's or was sent, once,
// to where it came from or where the operator said. It returns what became of each, and
// what was kept of the coin that was sent.
func (w *world) resolved(out []payout) (status map[place]string, kept *big.Int) {
	status, kept = map[place]string{}, new(big.Int)
	due, sent := map[chain.Holding]*big.Int{}, map[chain.Holding]*big.Int{}
	times := map[chain.Holding]int{}
	add := func(to map[chain.Holding]*big.Int, k chain.Holding, n money.Amount, times1 int) {
		if to[k] == nil {
			to[k] = new(big.Int)
		}
		to[k].Add(to[k], n.Big())
		times[k] += times1
	}
	for _, d := range w.flagged() {
		w.held++
		status[d.at] = d.status
		switch d.status {
		case "CREDITED":
			w.approved++
		case "REJECTED":
			w.sentBack++
			add(due, chain.Holding{Address: w.arrivals.expected[d.at].from, Contract: d.contract}, d.amount, 1)
		case "REDIRECTED":
			w.sentElsewhere++
			to := chain.Address(w.column(`SELECT to_address FROM deposit_resolutions WHERE deposit_id = $1 AND status = 'DONE'`, d.id)[0])
			if !w.wishes[wish{d.at, to, d.contract, d.amount}] {
				w.fail("a deposit was redirected to %s, and nobody said so", to)
			}
			add(due, chain.Holding{Address: to, Contract: d.contract}, d.amount, 1)
		default:
			w.fail("a flagged deposit is still %s", d.status)
		}
	}
	for _, p := range out {
		add(sent, chain.Holding{Address: p.to, Contract: p.contract}, p.amount, -1)
	}
	for k, n := range times {
		if n != 0 {
			w.fail("%s: %d more deposits were sent there than payments of %.10q arrived", k.Address, n, k.Contract)
		}
	}
	for k, want := range due {
		left := new(big.Int).Sub(want, sent[k])
		if k.Contract == tokens[coin] {
			kept.Add(kept, left)
		} else if left.Sign() != 0 {
			w.fail("%s received %v of %.10q, want %v", k.Address, sent[k], k.Contract, want)
		}
	}
	w.stuck = w.count(`SELECT count(*) FROM deposit_resolutions WHERE failure = 'REVERTED'`)
	return status, kept
}

// keeps is the product that gets what is kept of a coin that is sent back, and what customers
// are charged.
const keeps = "CUSTODIAL"
