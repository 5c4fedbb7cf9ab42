package soak

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
)

// trouble is a fault that lasts: what begins it, and what ends it.
type trouble struct {
	name  string
	begin func(w *world) (end func(), ok bool)
}

const payeeOfReturn = "payee of a return refuses"

var errDown = errors.New("connection refused")

// troubles are all that can go wrong for a while around the service.
var troubles = []trouble{
	{"provider: lags", func(w *world) (func(), bool) {
		p := w.net.Provider(w.pick(w.providers))
		p.Lag(uint64(1 + w.pick(8)))
		return func() { p.Lag(0) }, true
	}},
	{"provider: head goes backwards", func(w *world) (func(), bool) {
		p := w.net.Provider(w.pick(w.providers))
		height := w.net.Latest().Height
		p.PinHead(height - min(height, uint64(w.pick(12))))
		return p.UnpinHead, true
	}},
	{"provider: down", func(w *world) (func(), bool) {
		p := w.net.Provider(w.pick(w.providers))
		p.Down(errDown)
		return func() { p.Down(nil) }, true
	}},
	{"all providers down", func(w *world) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).Down(errDown)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).Down(nil)
			}
		}, true
	}},
	{"provider: lies about hashes", func(w *world) (func(), bool) {
		if !w.liars {
			return nil, false // believed, by configuration
		}
		return w.lie(w.pick(w.providers), true)
	}},
	{"provider: leaves out movements", func(w *world) (func(), bool) { return w.lie(w.pick(w.providers), false) }},
	{"provider: forgets old state", func(w *world) (func(), bool) {
		p := w.net.Provider(w.pick(w.providers))
		p.Prune(true)
		return func() { p.Prune(false) }, true
	}},
	{"provider: accepts and forgets", func(w *world) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).Swallow(true)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).Swallow(false)
			}
		}, true
	}},
	{"provider: answers lost", func(w *world) (func(), bool) {
		for i := range w.providers {
			w.net.Provider(i).LoseAnswers(true)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).LoseAnswers(false)
			}
		}, true
	}},
	{"provider: refuses to send", func(w *world) (func(), bool) {
		words := draw(w, []string{"nonce too low", "insufficient funds for gas * price + value", "replacement transaction underpriced", "internal error"})
		for i := range w.providers {
			w.net.Provider(i).RefuseSend(words)
		}
		return func() {
			for i := range w.providers {
				w.net.Provider(i).RefuseSend("")
			}
		}, true
	}},
	{"undecodable block", func(w *world) (func(), bool) {
		height := w.net.Latest().Height + uint64(w.pick(3))
		w.net.SetUndecodable(height, true)
		return func() { w.net.SetUndecodable(height, false) }, true
	}},
	{"fee spike", func(w *world) (func(), bool) {
		w.net.SetBaseFee(uint64(5+w.pick(120)) * 1_000_000_000)
		return func() { w.net.SetBaseFee(1_000_000_000) }, true
	}},
	{"token refuses a payee", func(w *world) (func(), bool) {
		to := w.addresses[""]
		if len(w.requests) > 0 && w.chance(80) {
			to = w.requests[len(w.requests)-1].to
		}
		contract := tokens[draw(w, []int{dollar, limited})]
		if out := w.column(`SELECT to_address || ' ' || contract FROM dispatch_orders
			WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST') AND contract <> '' AND $1 ORDER BY created_at`, true); len(out) > 0 {
			words := strings.Fields(draw(w, out)) // too late to be simulated: it reverts on the chain
			to, contract = chain.Address(words[0]), chain.Address(words[1])
		}
		h := chain.Holding{Address: to, Contract: contract}
		w.net.Refuse(contract, to, "blacklisted")
		w.refusals = append(w.refusals, h)
		return func() { w.net.Refuse(contract, to, "") }, true
	}},
	{payeeOfReturn, func(w *world) (func(), bool) {
		w.spite = true // until there is a return
		return func() {}, true
	}},
	{"mint: switched off", func(w *world) (func(), bool) {
		m := draw(w, []int{dollar, coin, limited})
		w.sync(m)
		return func() { w.sync(0) }, true
	}},
	{"signer: away", func(w *world) (func(), bool) {
		w.signer.be(true, false)
		return func() { w.signer.be(false, false) }, true
	}},
	{"signer: works and does not answer", func(w *world) (func(), bool) {
		w.signer.be(false, true)
		return func() { w.signer.be(false, false) }, true
	}},
	{screenerAway, func(w *world) (func(), bool) {
		w.outside.be(true, false)
		return func() { w.outside.be(false, false) }, true
	}},
	{priceAway, func(w *world) (func(), bool) {
		w.outside.be(false, true)
		return func() { w.outside.be(false, false) }, true
	}},
	{"receiver", func(w *world) (func(), bool) {
		w.hooks.be(draw(w, moods))
		return func() { w.hooks.be(well) }, true
	}},
}

// lie has one provider say something untrue of blocks now and to come.
func (w *world) lie(i int, hash bool) (func(), bool) {
	p := w.net.Provider(i)
	from := w.net.Latest().Height
	var heights []uint64
	for range 1 + w.pick(3) {
		heights = append(heights, from+uint64(w.pick(5))-min(from, 2))
	}
	tell := func(on bool) {
		for _, h := range heights {
			if hash {
				p.LieHash(h, on)
			} else {
				p.LieEmpty(h, on)
			}
		}
	}
	tell(true)
	return func() { tell(false) }, true
}

// misbehave begins a trouble that does not stand already.
func (w *world) misbehave() {
	t := draw(w, troubles)
	lasts := 3 + w.pick(40)
	if _, on := w.standing[t.name]; on {
		return
	}
	// Two liars may agree, and two stories about one provider would end each other.
	end, ok := t.begin(w)
	if !ok {
		return
	}
	w.standing[t.name] = standing{until: w.step + lasts, end: end}
	if t.name != "receiver" {
		w.faults.add(t.name)
	}
	w.note("%s, for %d steps", t.name, lasts)
}

// lurk has the payee of a return refuse as soon as that is too late to be simulated: it
// reverts on the chain.
func (w *world) lurk() {
	if !w.spite {
		return
	}
	rows, err := w.eye.Query(w.ctx, `
		SELECT o.to_address, o.contract, array(SELECT tx_hash FROM dispatch_attempts a WHERE a.order_id = o.order_id AND tx_hash IS NOT NULL) FROM dispatch_orders o
		WHERE purpose = 'RETURN' AND status IN ('SLOTTED', 'SIGNED', 'BROADCAST') ORDER BY created_at`)
	w.must(err, "look for returns that are out")
	var h chain.Holding
	var hashes []chain.TxHash
	waiting, found := w.net.Pool(), false
	_, err = pgx.ForEachRow(rows, []any{&h.Address, &h.Contract, &hashes}, func() error {
		mined := len(hashes) > 0 && !slices.ContainsFunc(hashes, func(hash chain.TxHash) bool { return slices.Contains(waiting, hash) })
		if !found && !mined {
			found = true
			w.refusals = append(w.refusals, h)
		}
		return nil
	})
	w.must(err, "look for returns that are out")
	if !found {
		return
	}
	h = w.refusals[len(w.refusals)-1]
	w.net.Refuse(h.Contract, h.Address, "it takes nothing")
	w.faults.add("a return is refused too late")
	w.note("%.8s takes nothing any more", h.Address)
	w.standing[payeeOfReturn] = standing{until: w.step + 40, end: func() { w.net.Refuse(h.Contract, h.Address, "") }}
	w.spite = false
}

// pass ends what has lasted long enough.
func (w *world) pass() {
	for _, name := range sortedKeys(w.standing) {
		if s := w.standing[name]; w.step >= s.until {
			s.end()
			delete(w.standing, name)
			w.note("%s no more", name)
		}
	}
}

// heal ends every trouble.
func (w *world) heal() {
	for _, name := range sortedKeys(w.standing) {
		w.standing[name].end()
		delete(w.standing, name)
	}
	for i := range w.providers {
		p := w.net.Provider(i)
		p.Down(nil)
		p.Lag(0)
		p.UnpinHead()
	}
	for _, h := range w.refusals {
		w.net.Refuse(h.Contract, h.Address, "")
	}
	w.note("%s", fmt.Sprintf("faults off after %d blocks", w.net.Latest().Height))
}
