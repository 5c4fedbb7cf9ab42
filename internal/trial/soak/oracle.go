package soak

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/verify"
)

// place names a movement for ever.
type place struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

// arrival is a movement to an address of ours in a final block, found by looking at
// the chain itself.
type arrival struct {
	from, to chain.Address
	contract chain.Address
	amount   money.Amount
}

// oracle is what the chain says, read without any code of the service.
type oracle struct {
	height   uint64            // up to where the final walk has come and this has followed
	expected map[place]arrival // what has to count
}

func newOracle() oracle { return oracle{expected: map[place]arrival{}} }

// follow takes in the final blocks up to a height. Nothing changes them any more.
func (w *world) follow(to uint64) {
	for o := &w.arrivals; o.height < to; {
		o.height++
		for _, m := range w.net.At(o.height).Transfers {
			counts := m.Contract == tokens[dollar] || m.Contract == tokens[limited] || m.Contract == tokens[coin]
			if !w.ours[m.To] || w.ours[m.From] || !counts {
				continue
			}
			if m.To != w.addresses[""] && m.Amount.Less(money.Units(dustBelow)) {
				continue
			}
			o.expected[place{m.Tx, m.Kind, m.Position}] = arrival{m.From, m.To, m.Contract, m.Amount}
		}
	}
}

// look is the oracle's cheap look after every step.
func (w *world) look() {
	w.looks++
	var cursor uint64
	var negative, frozen int
	err := w.eye.QueryRow(w.ctx, `
		SELECT (SELECT coalesce(max(height), 0) FROM scan_cursors),
			(SELECT count(*) FROM ledger_balances WHERE balance < 0)
				+ (SELECT count(*) FROM address_funds WHERE least(credited, held, reserved, swept, gas, gas_reserved, dust) < 0
					OR held + reserved + swept > credited OR gas_reserved > gas),
			(SELECT count(*) FROM freezes WHERE source NOT IN ('OPERATOR', 'ORGANIZATION'))`).Scan(&cursor, &negative, &frozen)
	w.must(err, "look")
	if negative > 0 {
		w.fail("%d balances are below nothing", negative)
	}
	if frozen > 0 {
		w.fail("the service froze itself: %v", w.column(`SELECT source || ': ' || reason FROM freezes WHERE source NOT IN ('OPERATOR', 'ORGANIZATION')`))
	}
	w.follow(cursor)
	w.lookAtDeposits()
	w.lookAtFlags()
	w.lookAtDestinations()
}

// lookAtDeposits compares what counts with what arrived for good.
func (w *world) lookAtDeposits() {
	rows, err := w.eye.Query(w.ctx, `
		SELECT tx_hash, kind, position, from_address, address, contract, amount, status, is_flagged FROM deposits
		WHERE status IN ('SCREENING', 'CREDITED', 'FLAGGED', 'REJECTING', 'REJECTED', 'REDIRECTING', 'REDIRECTED', 'RESOLUTION_STUCK')`)
	w.must(err, "read the deposits")
	defer rows.Close()
	n := 0
	for rows.Next() {
		var p place
		var a arrival
		var status string
		var flagged bool
		w.must(rows.Scan(&p.tx, &p.kind, &p.position, &a.from, &a.to, &a.contract, &a.amount, &status, &flagged), "read a deposit")
		if want, ok := w.arrivals.expected[p]; !ok || want != a {
			w.fail("a deposit counts that did not arrive: %+v, %+v", p, a)
		}
		if status == "CREDITED" {
			w.passed(p, a, flagged)
		}
		n++
	}
	w.must(rows.Err(), "read the deposits")
	if n != len(w.arrivals.expected) {
		w.fail("%d deposits count, and %d arrived up to block %d", n, len(w.arrivals.expected), w.arrivals.height)
	}
}

// lookAtDestinations holds every destination to nothing or the amount that was
// accepted for it, on whatever fork the chain is, and whatever else leaves to what
// somebody decided about a flagged deposit. It returns what those received.
func (w *world) lookAtDestinations() (out []payout) {
	got := map[chain.Address]money.Amount{}
	of := map[chain.Address][]payout{}
	for h := range w.net.Latest().Height {
		for _, m := range w.net.At(h + 1).Transfers {
			if !w.ours[m.From] || w.ours[m.To] {
				continue
			}
			sum, err := got[m.To].Add(m.Amount)
			w.must(err, "add up what a destination received")
			got[m.To] = sum
			of[m.To] = append(of[m.To], payout{m.To, m.Contract, m.Amount})
		}
	}
	known := map[chain.Address]bool{}
	for _, r := range w.requests {
		known[r.to] = true
		have := got[r.to]
		switch {
		case have.IsZero():
		case r.bad || r.refused:
			w.fail("request #%d was refused and %v went to %s", r.n, have, r.to)
		case thinks(w.seed, r.to).Above(risk.High):
			w.fail("request #%d paid %v to %s, who is %s", r.n, have, r.to, thinks(w.seed, r.to))
		case have != r.amount:
			w.fail("request #%d was for %v and %s received %v", r.n, r.amount, r.to, have)
		}
	}
	wishes := w.wished()
	for to, all := range of {
		if known[to] {
			continue
		}
		for _, p := range all {
			if !granted(wishes, p) {
				w.fail("%v of %.10q went to %s, which nobody named", p.amount, p.contract, to)
			}
			out = append(out, p)
		}
	}
	return out
}

// auditIfWritten makes every check unless nothing was committed since the last: what
// was found then is so still.
func (w *world) auditIfWritten() {
	if n := w.line.committed(); n != w.audited {
		w.audited = n
		w.audit()
	}
}

// audit makes every check that the service has itself.
func (w *world) audit() {
	w.seen++
	r, err := verify.Run(w.ctx, w.check, verify.WithGrants(w.grants), verify.WithoutSchema)
	w.must(err, "verify")
	onChain := verify.Report{}
	if w.calm() { // it asks the providers
		onChain, err = verify.OnChain(w.ctx, w.check, w.houses[0].Chains)
		w.must(err, "verify on the chain")
	}
	for _, r := range []verify.Report{r, onChain} {
		w.checks += len(r.Outcomes)
		if !r.OK() {
			var b bytes.Buffer
			_, _ = r.WriteTo(&b)
			w.fail("%s", b.String())
		}
	}
}

// settled is the last look: everything has ended, and it ended as the chain says.
func (w *world) settled() {
	w.look()
	w.audit()
	ended, kept := w.resolved(w.lookAtDestinations())
	paid := map[string]*big.Int{} // by customer and mint, what left by the chain
	at := func(who string, mintID int) string { return fmt.Sprintf("%s in mint %d", who, mintID) }
	rows, err := w.eye.Query(w.ctx, `SELECT withdrawal_id, coalesce(customer_id, product), mint_id, amount, to_address, status, coalesce(idempotency_key, ''), charged FROM withdrawals ORDER BY created_at`)
	w.must(err, "read the withdrawals")
	defer rows.Close()
	earned := map[string]*big.Int{} // by mint, what customers were charged
	to := map[chain.Address]string{}
	rowsOf := map[string]bool{}
	for rows.Next() {
		var id, who, status, key string
		var address chain.Address
		var mintID int
		var amount, charged money.Amount
		w.must(rows.Scan(&id, &who, &mintID, &amount, &address, &status, &key, &charged), "read a withdrawal")
		rowsOf[id] = true
		if status == "BLOCKED" {
			w.blocked++
			if r := w.byID[id]; r != nil {
				w.fail("request #%d was accepted as %s, which is blocked", r.n, id)
			}
			if received := w.net.Received(address, tokens[mintID]); !received.IsZero() {
				w.fail("withdrawal %s is blocked and %s received %v", id, address, received)
			}
			continue
		}
		if other, ok := to[address]; ok {
			w.fail("withdrawals %s and %s are one request", id, other)
		}
		to[address] = id
		received := w.net.Received(address, tokens[mintID])
		if !charged.IsZero() {
			if status != "FAILED" { // no account here takes rent
				w.fail("withdrawal %s (%s) is %s and its customer was charged %v", id, w.name(id), status, charged)
			}
			if amount.Less(charged) {
				w.fail("withdrawal %s (%s) held %v and its customer was charged %v", id, w.name(id), amount, charged)
			}
			for _, k := range []struct {
				of map[string]*big.Int
				at string
			}{{paid, at(who, mintID)}, {earned, at(keeps, mintID)}} {
				if k.of[k.at] == nil {
					k.of[k.at] = new(big.Int)
				}
				k.of[k.at].Add(k.of[k.at], charged.Big())
			}
		}
		switch status {
		case "COMPLETED":
			w.payments++
			if received != amount {
				w.fail("withdrawal %s (%s) is COMPLETED for %v and %s received %v", id, w.name(id), amount, address, received)
			}
			if paid[at(who, mintID)] == nil {
				paid[at(who, mintID)] = new(big.Int)
			}
			paid[at(who, mintID)].Add(paid[at(who, mintID)], received.Big())
		case "FAILED", "REJECTED":
			if status == "FAILED" {
				w.failed++
			}
			if !received.IsZero() {
				w.fail("withdrawal %s (%s) is %s and %s received %v", id, w.name(id), status, address, received)
			}
		default:
			w.fail("withdrawal %s (%s) is still %s", id, w.name(id), status)
		}
	}
	w.must(rows.Err(), "read the withdrawals")
	for _, r := range w.requests {
		if r.id != "" && !rowsOf[r.id] {
			w.fail("request #%d was accepted as %s, which is not there", r.n, r.id)
		}
		if id, ok := to[r.to]; ok && (r.bad || r.refused || r.id != "" && r.id != id) {
			w.fail("request #%d (refused: %v, accepted as %q) has withdrawal %s", r.n, r.refused || r.bad, r.id, id)
		}
	}

	// What every customer and every product has is what arrived for good less what
	// left, and what was handed over.
	owners := append(slices.Clone(w.customers), ledger.Products...)
	arrived := map[string]*big.Int{}
	who := map[chain.Address]string{}
	for _, c := range owners {
		who[w.addresses[c]] = c
	}
	mintOf := map[chain.Address]int{}
	for id, contract := range tokens {
		mintOf[contract] = id
	}
	for p, a := range w.arrivals.expected {
		if became, flagged := ended[p]; flagged && became != "CREDITED" {
			continue
		}
		k := at(who[a.to], mintOf[a.contract])
		if arrived[k] == nil {
			arrived[k] = new(big.Int)
		}
		arrived[k].Add(arrived[k], a.amount.Big())
		w.credited++
	}
	handed := w.handedOver(at)
	for _, c := range owners {
		for mintID := range tokens {
			want := new(big.Int)
			if n := handed[at(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if n := arrived[at(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if n := earned[at(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if c == keeps && mintID == coin {
				want.Add(want, kept)
			}
			if n := paid[at(c, mintID)]; n != nil {
				want.Sub(want, n)
			}
			if got := w.balance(c, mintID); got.Big().Cmp(want) != 0 {
				w.fail("%s has %v, and by the chain and the transfers it should be %v", at(c, mintID), got, want)
			}
		}
	}
	w.books()
	w.told()
}

// books compares every address with the chain, to the unit, and asks for nothing
// that is still promised.
func (w *world) books() {
	rows, err := w.eye.Query(w.ctx, `
		SELECT w.address, m.contract, coalesce(f.credited - f.swept + f.gas + f.dust, 0), coalesce(f.reserved + f.gas_reserved, 0)
		FROM wallets w CROSS JOIN mints m LEFT JOIN address_funds f ON f.wallet_id = w.wallet_id AND f.mint_id = m.mint_id`)
	w.must(err, "read what the addresses hold")
	defer rows.Close()
	for rows.Next() {
		var address, contract chain.Address
		var holds, promised money.Amount
		w.must(rows.Scan(&address, &contract, &holds, &promised), "read what an address holds")
		if have := w.net.Balance(address, contract); have != holds {
			w.fail("%s has %v of %.10q on the chain, and %v in the books", address, have, contract, holds)
		}
		if !promised.IsZero() {
			w.fail("%s has %v of %.10q promised, and nothing is open", address, promised, contract)
		}
	}
	w.must(rows.Err(), "read what the addresses hold")
	if n := w.count(`SELECT count(*) FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind IN ('WITHDRAWING', 'PRODUCT_WITHDRAWING') AND b.balance <> 0`); n > 0 {
		w.fail("%d holds are left and nothing is open", n)
	}
}

// told compares the events with what the receiver took.
func (w *world) told() {
	rows, err := w.eye.Query(w.ctx, `SELECT event_id, type, body FROM events`)
	w.must(err, "read the events")
	defer rows.Close()
	w.hooks.mu.Lock()
	defer w.hooks.mu.Unlock()
	n := 0
	for rows.Next() {
		var id, kind string
		var body []byte
		w.must(rows.Scan(&id, &kind, &body), "read an event")
		got, ok := w.hooks.taken[id]
		if !ok {
			w.fail("event %s (%s) never reached the receiver", id, kind)
		}
		if !bytes.Equal(got, body) {
			w.fail("event %s (%s) reached the receiver with another body", id, kind)
		}
		n++
	}
	w.must(rows.Err(), "read the events")
	if len(w.hooks.first) != n {
		w.fail("the receiver knows %d events, and there are %d", len(w.hooks.first), n)
	}
	if len(w.hooks.trouble) > 0 {
		w.fail("the receiver complains: %v", w.hooks.trouble)
	}
	w.events, w.posts = n, w.hooks.posts
}

func (w *world) count(sql string, args ...any) int {
	var n int
	w.must(w.eye.QueryRow(w.ctx, sql, args...).Scan(&n), "count")
	return n
}
