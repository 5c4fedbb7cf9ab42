package soak

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/transfer"
)

// handOver is a transfer between two customers, or a product of the organization
// and a customer, as it was asked for.
type handOver struct {
	n        int
	ask      transfer.Request
	from, to string
	mint     int
	amount   money.Amount
	id       string // once it was made
	open     bool   // nobody knows whether it was
}

// transfer asks for a transfer, or for one that was asked for before.
func (w *world) transfer() {
	if len(w.handOvers) > 0 && w.chance(25) {
		w.replays++
		w.handOver(draw(w, w.handOvers))
		return
	}
	h := &handOver{n: len(w.handOvers) + 1, to: draw(w, w.payees())}
	var balance money.Amount
	for range 4 { // from somebody who has something, if that is found
		h.mint, h.from = draw(w, []int{dollar, dollar, coin, limited}), draw(w, w.payees())
		if balance = w.balance(h.from, h.mint); !balance.IsZero() {
			break
		}
	}
	for h.to == h.from { // there are two at least
		h.to = draw(w, w.payees())
	}
	if balance.IsZero() && w.chance(50) {
		return
	}
	switch n, small := balance.Uint64(); {
	case small && n > 0 && w.chance(60):
		h.amount = money.Units(1 + w.rng.Uint64N(n))
	case !balance.IsZero() && w.chance(60):
		h.amount = balance // all of it
	default:
		h.amount = w.amountOf(h.mint)
	}
	h.ask = transfer.Request{
		MintID: h.mint, Amount: h.amount.String(), From: party(h.from), To: party(h.to),
		IdempotencyKey: fmt.Sprintf("transfer-%d", h.n), Actor: audit.APIKey(orgID),
	}
	w.handOvers = append(w.handOvers, h)
	w.handOver(h)
}

func party(who string) transfer.Party {
	if slices.Contains(ledger.Products, who) {
		return transfer.Party{Product: &who}
	}
	return transfer.Party{CustomerID: &who}
}

func (w *world) handOver(h *handOver) {
	var made transfer.Outcome
	s := w.spoiled(func(ctx context.Context) (err error) {
		made, err = draw(w, w.houses).transfers.Request(ctx, orgID, h.ask)
		return err
	})
	w.note("transfer %d: %v of mint %d from %s to %s: %s", h.n, h.amount, h.mint, h.from, h.to, code(s.err))
	w.answered(h, made, s.err)
	if s.err != nil && fault.Of(s.err) == nil {
		w.heard("transfer", s.err, w.calm() && !s.struck)
	}
}

// answered keeps what became of a transfer.
func (w *world) answered(h *handOver, made transfer.Outcome, err error) {
	switch {
	case err == nil:
		if id := made.Transfer.TransferID; h.id != "" && h.id != id {
			w.fail("transfer %d is %s and %s", h.n, h.id, id)
		}
		h.id, h.open = made.Transfer.TransferID, false
	case fault.Of(err) == nil:
		h.open = h.id == ""
	case h.id != "":
		w.fail("transfer %d was made as %s and its repetition is refused: %v", h.n, h.id, err)
	default:
		h.open = false
	}
}

// askOpen asks for the transfers whose fate nobody knows.
func (w *world) askOpen() {
	for _, h := range w.handOvers {
		if h.open {
			made, err := w.houses[0].transfers.Request(w.ctx, orgID, h.ask)
			if err != nil && fault.Of(err) == nil {
				w.fail("transfer %d gets no answer: %v", h.n, err)
			}
			w.answered(h, made, err)
		}
	}
}

// handedOver compares the rows with what was answered, and adds what every
// customer got and gave, by customer and mint.
func (w *world) handedOver(at func(who string, mintID int) string) map[string]*big.Int {
	got := map[string]*big.Int{}
	add := func(k string, n *big.Int) {
		if got[k] == nil {
			got[k] = new(big.Int)
		}
		got[k].Add(got[k], n)
	}
	for _, h := range w.handOvers {
		if h.id == "" {
			continue
		}
		w.transfers++
		add(at(h.to, h.mint), h.amount.Big())
		add(at(h.from, h.mint), new(big.Int).Neg(h.amount.Big()))
	}
	if n := w.count(`SELECT count(*) FROM transfers`); n != w.transfers {
		w.fail("%d transfers were made, and %d were answered", n, w.transfers)
	}
	return got
}
