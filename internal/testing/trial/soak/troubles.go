package soak

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
)

// trouble is a fault that lasts: begin starts it and returns what ends it.
type trouble struct {
	name  string
	begin func(w *soakRun) (end func(), ok bool)
}

const payeeOfReturn = "payee of a return refuses"

var errDown = errors.New("connection refused")

// troubles are all lasting faults around the service.
var troubles = []trouble{
	{"provider: lags", func(w *soakRun) (func(), bool) {
		p := w.net.Provider(w.drawNumber(w.providers))
		p.SetLag(uint64(1 + w.drawNumber(8)))
		return func() { p.SetLag(0) }, true
	}},
	{"provider: head goes backwards", func(w *soakRun) (func(), bool) {
		p := w.net.Provider(w.drawNumber(w.providers))
		height := w.net.Latest().Height
		p.PinHead(height - min(height, uint64(w.drawNumber(12))))
		return p.UnpinHead, true
	}},
	{"provider: down", func(w *soakRun) (func(), bool) {
		p := w.net.Provider(w.drawNumber(w.providers))
		p.SetDown(errDown)
		return func() { p.SetDown(nil) }, true
	}},
	{"all providers down", func(w *soakRun) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).SetDown(errDown)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).SetDown(nil)
			}
		}, true
	}},
	{"provider: lies about hashes", func(w *soakRun) (func(), bool) {
		if !w.liars {
			return nil, false // believed, by configuration
		}
		return w.startLie(w.drawNumber(w.providers), true)
	}},
	{
		"provider: omits transfers",
		func(w *soakRun) (func(), bool) { return w.startLie(w.drawNumber(w.providers), false) },
	},
	{"provider: forgets old state", func(w *soakRun) (func(), bool) {
		p := w.net.Provider(w.drawNumber(w.providers))
		p.Prune(true)
		return func() { p.Prune(false) }, true
	}},
	{"provider: accepts and forgets", func(w *soakRun) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).Swallow(true)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).Swallow(false)
			}
		}, true
	}},
	{"provider: answers lost", func(w *soakRun) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).LoseAnswers(true)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).LoseAnswers(false)
			}
		}, true
	}},
	{"provider: refuses to send", func(w *soakRun) (func(), bool) {
		words := drawFrom(w, []string{
			"nonce too low", "insufficient funds for gas * price + value", "replacement transaction underpriced",
			"internal error",
		})
		for i := range w.providers {
			w.net.Provider(i).RefuseSend(words)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).RefuseSend("")
			}
		}, true
	}},
	{"undecodable block", func(w *soakRun) (func(), bool) {
		height := w.net.Latest().Height + uint64(w.drawNumber(3))
		w.net.SetUndecodable(height, true)
		return func() { w.net.SetUndecodable(height, false) }, true
	}},
	{"fee spike", func(w *soakRun) (func(), bool) {
		w.net.SetBaseFee(uint64(5+w.drawNumber(120)) * 1_000_000_000)
		return func() { w.net.SetBaseFee(1_000_000_000) }, true
	}},
	{"token refuses a payee", func(w *soakRun) (func(), bool) {
		recipient := w.addresses[""]
		if len(w.requests) > 0 && w.drawChance(80) {
			recipient = w.requests[len(w.requests)-1].recipient
		}
		contract := tokens[drawFrom(w, []int{tokenID, limitedID})]
		if orders := w.queryColumn(`SELECT to_address || ' ' || contract FROM dispatch_orders
			WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST') AND contract <> '' AND $1 ORDER BY created_at`,
			true); len(orders) > 0 {
			words := strings.Fields(drawFrom(w, orders)) // after the simulation: it reverts on the chain
			recipient, contract = chain.Address(words[0]), chain.Address(words[1])
		}
		h := chain.Holding{Address: recipient, Contract: contract}
		w.net.RefuseTransfers(contract, recipient, "blacklisted")
		w.refusals = append(w.refusals, h)
		return func() { w.net.RefuseTransfers(contract, recipient, "") }, true
	}},
	{payeeOfReturn, func(w *soakRun) (func(), bool) {
		w.spite = true // until there is a return
		return func() {}, true
	}},
	{"mint: switched off", func(w *soakRun) (func(), bool) {
		m := drawFrom(w, []int{tokenID, nativeID, limitedID})
		w.syncMints(m)
		return func() { w.syncMints(0) }, true
	}},
	{"signer: away", func(w *soakRun) (func(), bool) {
		w.signer.setAway(true, false)
		return func() { w.signer.setAway(false, false) }, true
	}},
	{"signer: works without an answer", func(w *soakRun) (func(), bool) {
		w.signer.setAway(false, true)
		return func() { w.signer.setAway(false, false) }, true
	}},
	{screenerAway, func(w *soakRun) (func(), bool) {
		w.external.setAway(true, false)
		return func() { w.external.setAway(false, false) }, true
	}},
	{priceAway, func(w *soakRun) (func(), bool) {
		w.external.setAway(false, true)
		return func() { w.external.setAway(false, false) }, true
	}},
	{"receiver", func(w *soakRun) (func(), bool) {
		w.hooks.setMood(drawFrom(w, receiverModes))
		return func() { w.hooks.setMood(modeOK) }, true
	}},
}

// startLie lets one provider give false answers about present and future blocks.
func (w *soakRun) startLie(i int, hash bool) (func(), bool) {
	p := w.net.Provider(i)
	latest := w.net.Latest().Height
	var heights []uint64
	for range 1 + w.drawNumber(3) {
		heights = append(heights, latest+uint64(w.drawNumber(5))-min(latest, 2))
	}
	tell := func(enabled bool) {
		for _, h := range heights {
			if hash {
				p.LieHash(h, enabled)
			} else {
				p.LieEmpty(h, enabled)
			}
		}
	}
	tell(true)
	return func() { tell(false) }, true
}

// startTrouble starts a trouble that is not active.
func (w *soakRun) startTrouble() {
	t := drawFrom(w, troubles)
	lasts := 3 + w.drawNumber(40)
	if _, active := w.standing[t.name]; active {
		return
	}
	// Two false providers may agree, and two troubles of one provider would end each other.
	end, ok := t.begin(w)
	if !ok {
		return
	}
	w.standing[t.name] = lastingFault{endStep: w.step + lasts, end: end}
	if t.name != "receiver" {
		w.faults.addOne(t.name)
	}
	w.addTrace("%s, for %d steps", t.name, lasts)
}

// refuseReturn lets the payee of a return refuse it after its simulation: it reverts on the chain.
func (w *soakRun) refuseReturn() {
	if !w.spite {
		return
	}
	rows, err := w.superPool.Query(w.ctx, `
		SELECT o.to_address, o.contract, array(SELECT tx_hash FROM dispatch_attempts a WHERE a.order_id = o.order_id AND tx_hash IS NOT NULL) FROM dispatch_orders o
		WHERE purpose = 'RETURN' AND status IN ('SLOTTED', 'SIGNED', 'BROADCAST') ORDER BY created_at`)
	w.mustSucceed(err, "look for returns in progress")
	var h chain.Holding
	var hashes []chain.TxHash
	waiting, found := w.net.Mempool(), false
	_, err = pgx.ForEachRow(rows, []any{&h.Address, &h.Contract, &hashes}, func() error {
		mined := len(hashes) > 0 &&
			!slices.ContainsFunc(hashes, func(hash chain.TxHash) bool { return slices.Contains(waiting, hash) })
		if !found && !mined {
			found = true
			w.refusals = append(w.refusals, h)
		}
		return nil
	})
	w.mustSucceed(err, "look for returns in progress")
	if !found {
		return
	}
	h = w.refusals[len(w.refusals)-1]
	w.net.RefuseTransfers(h.Contract, h.Address, "it accepts nothing")
	w.faults.addOne("a return is refused too late")
	w.addTrace("%.8s accepts nothing any more", h.Address)
	w.standing[payeeOfReturn] = lastingFault{
		endStep: w.step + 40, end: func() { w.net.RefuseTransfers(h.Contract, h.Address, "") },
	}
	w.spite = false
}

// endDueTroubles ends the troubles whose time is over.
func (w *soakRun) endDueTroubles() {
	for _, name := range sortedKeys(w.standing) {
		if s := w.standing[name]; w.step >= s.endStep {
			s.end()
			delete(w.standing, name)
			w.addTrace("%s no more", name)
		}
	}
}

// endAllTroubles ends every trouble.
func (w *soakRun) endAllTroubles() {
	for _, name := range sortedKeys(w.standing) {
		w.standing[name].end()
		delete(w.standing, name)
	}
	for i := range w.providers {
		p := w.net.Provider(i)
		p.SetDown(nil)
		p.SetLag(0)
		p.UnpinHead()
	}
	for _, h := range w.refusals {
		w.net.RefuseTransfers(h.Contract, h.Address, "")
	}
	w.addTrace("%s", fmt.Sprintf("faults off after %d blocks", w.net.Latest().Height))
}
