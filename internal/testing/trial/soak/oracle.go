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

// movementID identifies a movement.
type movementID struct {
	tx       chain.TxHash
	kind     chain.Kind
	position string
}

// arrival is a movement to one of our addresses in a final block, read from the chain itself.
type arrival struct {
	sender, recipient chain.Address
	contract          chain.Address
	amount            money.Amount
}

// arrivalOracle is what the chain says, read without any code of the service.
type arrivalOracle struct {
	height   uint64                         // the height up to which this has followed the final walk
	expected map[movementID]arrival         // the arrivals that have to count
	received map[chain.Holding]money.Amount // what any address received in final blocks
}

func newOracle() arrivalOracle {
	return arrivalOracle{expected: map[movementID]arrival{}, received: map[chain.Holding]money.Amount{}}
}

// followChain reads the final blocks up to a height. Nothing changes them any more.
func (w *soakRun) followChain(height uint64) {
	for o := &w.arrivals; o.height < height; {
		o.height++
		for _, m := range w.net.BlockAt(o.height).Transfers {
			k := chain.Holding{Address: m.To, Contract: m.Contract}
			sum, err := o.received[k].Add(m.Amount)
			w.mustSucceed(err, "sum up what an address received")
			o.received[k] = sum
			counts := m.Contract == tokens[tokenID] || m.Contract == tokens[limitedID] || m.Contract == tokens[nativeID]
			if !w.ownAddresses[m.To] || w.ownAddresses[m.From] || !counts {
				continue
			}
			hasMinimum := m.To != w.addresses[""] && !w.swapAddresses[m.To] && w.flexAddresses[m.To] == nil
			if hasMinimum && m.Amount.Less(money.Units(dustBelow)) {
				continue
			}
			o.expected[movementID{m.Tx, m.Kind, m.Position}] = arrival{m.From, m.To, m.Contract, m.Amount}
		}
	}
}

// checkStep is the oracle's cheap check after every step.
func (w *soakRun) checkStep() {
	w.looks++
	var cursor uint64
	var negative, frozen int
	err := w.superPool.QueryRow(w.ctx, `
		SELECT (SELECT coalesce(max(height), 0) FROM scan_cursors),
			(SELECT count(*) FROM ledger_balances WHERE balance < 0)
				+ (SELECT count(*) FROM address_funds WHERE least(credited, held, reserved, swept, gas, gas_reserved, dust) < 0
					OR held + reserved + swept > credited OR gas_reserved > gas),
			(SELECT count(*) FROM freezes WHERE source NOT IN ('OPERATOR', 'ORGANIZATION'))`).Scan(
		&cursor, &negative, &frozen,
	)
	w.mustSucceed(err, "look")
	if negative > 0 {
		w.failRun("%d balances are negative", negative)
	}
	if frozen > 0 {
		w.failRun(
			"the service created a freeze: %v",
			w.queryColumn(
				`SELECT source || ': ' || reason FROM freezes WHERE source NOT IN ('OPERATOR', 'ORGANIZATION')`,
			),
		)
	}
	w.followChain(cursor)
	w.lookAtDeposits()
	w.lookAtFlags()
	w.lookAtDestinations()
	w.lookAtOwnSwaps()
	w.lookAtBatches()
	w.lookAtCheckouts()
}

// lookAtDeposits compares the credited deposits with the final arrivals.
func (w *soakRun) lookAtDeposits() {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT tx_hash, kind, position, from_address, address, contract, amount, status, is_flagged,
			coalesce(customer_id, ''), coalesce(deposit_swap_id, ''),
			coalesce((SELECT s.customer_id FROM deposit_swaps s WHERE s.wallet_id = deposits.wallet_id), '') FROM deposits
		WHERE status IN ('SCREENING', 'CREDITED', 'FLAGGED', 'REJECTING', 'REJECTED', 'REDIRECTING', 'REDIRECTED', 'RESOLUTION_STUCK')`)
	w.mustSucceed(err, "read the deposits")
	defer rows.Close()
	n := 0
	for rows.Next() {
		var p movementID
		var a arrival
		var status, customerID, depositSwapID, customerOfRow string
		var flagged bool
		w.mustSucceed(
			rows.Scan(&p.tx, &p.kind, &p.position, &a.sender, &a.recipient, &a.contract, &a.amount, &status, &flagged,
				&customerID, &depositSwapID, &customerOfRow),
			"read a deposit",
		)
		if want, ok := w.arrivals.expected[p]; !ok || want != a {
			w.failRun("a deposit counts without an arrival: %+v, %+v", p, a)
		}
		if r := w.flexAddresses[a.recipient]; r != nil {
			w.checkFlexOwner(r, status, customerID, depositSwapID, customerOfRow)
		}
		if status == "CREDITED" {
			w.checkCredited(p, a, flagged)
		}
		n++
	}
	w.mustSucceed(rows.Err(), "read the deposits")
	if n != len(w.arrivals.expected) {
		w.failRun("%d deposits count, and %d arrived up to block %d", n, len(w.arrivals.expected), w.arrivals.height)
	}
}

// lookAtDestinations checks that every destination has nothing or the amount that was accepted for
// it, on every fork. Every other payment that leaves must be a decision about a flagged deposit. It
// returns those other payments.
func (w *soakRun) lookAtDestinations() (others []payout) {
	got := map[chain.Address]money.Amount{}
	payouts := map[chain.Address][]payout{}
	for h := range w.net.Latest().Height {
		for _, m := range w.net.BlockAt(h + 1).Transfers {
			if !w.ownAddresses[m.From] || w.ownAddresses[m.To] {
				continue
			}
			sum, err := got[m.To].Add(m.Amount)
			w.mustSucceed(err, "sum up what a destination received")
			got[m.To] = sum
			payouts[m.To] = append(payouts[m.To], payout{m.To, m.Contract, m.Amount})
		}
	}
	requested := map[chain.Address]bool{}
	for _, r := range w.requests {
		requested[r.recipient] = true
		received := got[r.recipient]
		switch {
		case received.IsZero():
		case r.bad || r.refused:
			w.failRun("request #%d was refused and %v went to %s", r.n, received, r.recipient)
		case severityOf(w.seed, r.recipient).Exceeds(risk.High):
			w.failRun(
				"request #%d paid %v to %s, which is %s", r.n, received, r.recipient, severityOf(w.seed, r.recipient),
			)
		case received != r.amount:
			w.failRun("request #%d was for %v and %s received %v", r.n, r.amount, r.recipient, received)
		}
	}
	for _, r := range w.ownSwaps {
		requested[r.vault] = true
	}
	w.checkVaults(payouts)
	wishes := w.listDecisions()
	for recipient, payments := range payouts {
		if requested[recipient] {
			continue
		}
		if w.shop.goals[recipient] != "" {
			w.checkGoal(recipient, payments)
			continue
		}
		if p := w.batchPayees[recipient]; p != nil {
			w.checkBatchPayee(p, payments)
			continue
		}
		for _, p := range payments {
			if w.checkSwapPayout(p, got[recipient]) {
				continue
			}
			if !takeDecision(wishes, p) {
				w.failRun("%v of %.10q went to %s, which no request named", p.amount, p.contract, recipient)
			}
			others = append(others, p)
		}
	}
	return others
}

// auditIfWritten runs every check unless nothing was committed since the last one: its result still
// holds.
func (w *soakRun) auditIfWritten() {
	if n := w.databaseProxy.countCommits(); n != w.audited {
		w.audited = n
		w.checkBooks()
	}
}

// checkBooks runs every check of the service itself.
func (w *soakRun) checkBooks() {
	w.audits++
	r, err := verify.RunChecks(w.ctx, w.check, verify.WithGrants(w.grants), verify.WithQuotes(w.provider.verify),
		verify.WithoutSchema)
	w.mustSucceed(err, "verify")
	onChain := verify.Report{}
	if w.isCalm() { // it asks the providers
		onChain, err = verify.CompareWithChains(w.ctx, w.check, w.processes[0].Chains)
		w.mustSucceed(err, "verify on the chain")
	}
	for _, r := range []verify.Report{r, onChain} {
		w.checks += len(r.Outcomes)
		if !r.IsIntact() {
			var b bytes.Buffer
			_, _ = r.WriteTo(&b)
			w.failRun("%s", b.String())
		}
	}
}

// checkSettled is the last check: everything has ended as the chain says.
func (w *soakRun) checkSettled() {
	w.checkStep()
	w.checkBooks()
	ended, feesKept := w.checkResolved(w.lookAtDestinations())
	paid := map[string]*big.Int{} // by customer and mint, what left on the chain
	balanceKey := func(owner string, mintID int) string { return fmt.Sprintf("%s in mint %d", owner, mintID) }
	rows, err := w.superPool.Query(
		w.ctx,
		`SELECT withdrawal_id, coalesce(customer_id, product), mint_id, amount, to_address, status,
			coalesce(idempotency_key, ''), charged, coalesce(fee_deducted, 0) FROM withdrawals ORDER BY created_at`,
	)
	w.mustSucceed(err, "read the withdrawals")
	defer rows.Close()
	earned := map[string]*big.Int{} // by mint, what customers were charged
	withdrawalByAddress := map[chain.Address]string{}
	rowsOf := map[string]bool{}
	for rows.Next() {
		var id, owner, status, key string
		var address chain.Address
		var mintID int
		var amount, charged, feeDeducted money.Amount
		w.mustSucceed(rows.Scan(&id, &owner, &mintID, &amount, &address, &status, &key, &charged, &feeDeducted),
			"read a withdrawal")
		rowsOf[id] = true
		if status == "BLOCKED" {
			w.blocked++
			if r := w.byID[id]; r != nil {
				w.failRun("request #%d was accepted as %s, which is blocked", r.n, id)
			}
			if received := w.net.Received(address, tokens[mintID]); !received.IsZero() {
				w.failRun("withdrawal %s is blocked and %s received %v", id, address, received)
			}
			continue
		}
		received := w.net.Received(address, tokens[mintID])
		if w.batchPayees[address] != nil {
			received = netOfRow(status, amount, feeDeducted) // checkBatches compares the sum of what it received
		} else if earlier, ok := withdrawalByAddress[address]; ok {
			w.failRun("withdrawals %s and %s are one request", id, earlier)
		} else {
			withdrawalByAddress[address] = id
		}
		if !charged.IsZero() {
			if status != "FAILED" { // no account takes rent on this chain
				w.failRun(
					"withdrawal %s (%s) is %s and its customer was charged %v", id, w.requestName(id), status, charged,
				)
			}
			if amount.Less(charged) {
				w.failRun(
					"withdrawal %s (%s) held %v and its customer was charged %v", id, w.requestName(id), amount,
					charged,
				)
			}
			for _, k := range []struct {
				of map[string]*big.Int
				at string
			}{{paid, balanceKey(owner, mintID)}, {earned, balanceKey(chargesProduct, mintID)}} {
				if k.of[k.at] == nil {
					k.of[k.at] = new(big.Int)
				}
				k.of[k.at].Add(k.of[k.at], charged.Big())
			}
		}
		switch status {
		case "COMPLETED":
			w.payments++
			if net, err := amount.Sub(feeDeducted); err != nil || received != net {
				w.failRun(
					"withdrawal %s (%s) is COMPLETED for %v and %s received %v", id, w.requestName(id), amount, address,
					received,
				)
			}
			if paid[balanceKey(owner, mintID)] == nil {
				paid[balanceKey(owner, mintID)] = new(big.Int)
			}
			// The fee of a payout of coin comes out of it.
			paid[balanceKey(owner, mintID)].Add(paid[balanceKey(owner, mintID)], amount.Big())
		case "FAILED", "REJECTED", "CANCELLED":
			if status == "FAILED" {
				w.failed++
			}
			if !received.IsZero() {
				w.failRun(
					"withdrawal %s (%s) is %s and %s received %v", id, w.requestName(id), status, address, received,
				)
			}
		default:
			w.failRun("withdrawal %s (%s) is still %s", id, w.requestName(id), status)
		}
	}
	w.mustSucceed(rows.Err(), "read the withdrawals")
	for _, r := range w.requests {
		if r.id != "" && !rowsOf[r.id] {
			w.failRun("request #%d was accepted as %s, which does not exist", r.n, r.id)
		}
		if id, ok := withdrawalByAddress[r.recipient]; ok && (r.bad || r.refused || r.id != "" && r.id != id) {
			w.failRun("request #%d (refused: %v, accepted as %q) has withdrawal %s", r.n, r.refused || r.bad, r.id, id)
		}
	}

	// The balance of every customer and every product is what arrived less what left, with the
	// transfers.
	owners := append(slices.Clone(w.customers), ledger.Products...)
	arrived := map[string]*big.Int{}
	owner := map[chain.Address]string{}
	for _, c := range owners {
		owner[w.addresses[c]] = c
	}
	for address, r := range w.flexAddresses {
		owner[address] = r.call.CustomerID
	}
	w.checkDepositSwaps()
	w.checkBatches()
	w.checkCheckouts(ended)
	for _, s := range w.shop.sales {
		owner[s.address] = ledger.CheckoutProduct
	}
	owner[w.shop.lostAddress] = ledger.CheckoutProduct
	mintOf := map[chain.Address]int{}
	for id, contract := range tokens {
		mintOf[contract] = id
	}
	swapped := w.checkSwaps(balanceKey)
	for p, a := range w.arrivals.expected {
		if w.swapAddresses[a.recipient] {
			continue
		}
		if became, flagged := ended[p]; flagged && became != "CREDITED" {
			continue
		}
		k := balanceKey(owner[a.recipient], mintOf[a.contract])
		if arrived[k] == nil {
			arrived[k] = new(big.Int)
		}
		arrived[k].Add(arrived[k], a.amount.Big())
		w.credited++
	}
	handed := w.sumTransfers(balanceKey)
	for _, c := range owners {
		for mintID := range tokens {
			want := new(big.Int)
			if n := handed[balanceKey(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if n := arrived[balanceKey(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if n := swapped[balanceKey(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if n := earned[balanceKey(c, mintID)]; n != nil {
				want.Add(want, n)
			}
			if c == chargesProduct && mintID == nativeID {
				want.Add(want, feesKept)
			}
			if n := paid[balanceKey(c, mintID)]; n != nil {
				want.Sub(want, n)
			}
			if got := w.loadBalance(c, mintID); got.Big().Cmp(want) != 0 {
				w.failRun(
					"%s has %v, and by the chain and the transfers it should be %v", balanceKey(c, mintID), got, want,
				)
			}
		}
	}
	w.compareAddresses()
	w.checkEvents()
}

// compareAddresses compares the balance of every address with the chain, to the unit, and checks
// that nothing is still reserved.
func (w *soakRun) compareAddresses() {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT w.address, m.contract, coalesce(f.credited - f.swept + f.gas + f.dust, 0), coalesce(f.reserved + f.gas_reserved, 0)
		FROM wallets w CROSS JOIN mints m LEFT JOIN address_funds f ON f.wallet_id = w.wallet_id AND f.mint_id = m.mint_id`)
	w.mustSucceed(err, "read the funds of the addresses")
	defer rows.Close()
	for rows.Next() {
		var address, contract chain.Address
		var holds, promised money.Amount
		w.mustSucceed(rows.Scan(&address, &contract, &holds, &promised), "read the funds of an address")
		if balance := w.net.Balance(address, contract); balance != holds {
			w.failRun("%s has %v of %.10q on the chain, and %v in the books", address, balance, contract, holds)
		}
		if !promised.IsZero() {
			w.failRun("%s has %v of %.10q reserved, and nothing is open", address, promised, contract)
		}
	}
	w.mustSucceed(rows.Err(), "read the funds of the addresses")
	if n := w.queryCount(
		`SELECT count(*) FROM ledger_balances b JOIN ledger_accounts a USING (account_id) WHERE a.kind IN ('WITHDRAWING', 'PRODUCT_WITHDRAWING') AND b.balance <> 0`,
	); n > 0 {
		w.failRun("%d holds are left and nothing is open", n)
	}
}

// checkEvents compares the events with those that the receiver accepted.
func (w *soakRun) checkEvents() {
	rows, err := w.superPool.Query(w.ctx, `SELECT event_id, type, body FROM events`)
	w.mustSucceed(err, "read the events")
	defer rows.Close()
	w.hooks.mu.Lock()
	defer w.hooks.mu.Unlock()
	n := 0
	for rows.Next() {
		var id, kind string
		var body []byte
		w.mustSucceed(rows.Scan(&id, &kind, &body), "read an event")
		got, ok := w.hooks.taken[id]
		if !ok {
			w.failRun("event %s (%s) never reached the receiver", id, kind)
		}
		if !bytes.Equal(got, body) {
			w.failRun("event %s (%s) reached the receiver with another body", id, kind)
		}
		n++
	}
	w.mustSucceed(rows.Err(), "read the events")
	if len(w.hooks.first) != n {
		w.failRun("the receiver has %d events, and there are %d", len(w.hooks.first), n)
	}
	if len(w.hooks.trouble) > 0 {
		w.failRun("the receiver complains: %v", w.hooks.trouble)
	}
	w.events, w.posts = n, w.hooks.posts
}

func (w *soakRun) queryCount(sql string, args ...any) int {
	var n int
	w.mustSucceed(w.superPool.QueryRow(w.ctx, sql, args...).Scan(&n), "count")
	return n
}
