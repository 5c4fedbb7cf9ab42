package soak

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/transfer"
)

// transferRequest is a requested transfer between two customers, or between a product of the
// organization and a customer.
type transferRequest struct {
	n                 int
	ask               transfer.Request
	sender, recipient string
	mint              int
	amount            money.Amount
	id                string // set once it was made
	open              bool   // the answer was lost
}

// makeTransfer requests a transfer, or repeats an earlier request.
func (w *soakRun) makeTransfer() {
	if len(w.transferRequests) > 0 && w.drawChance(25) {
		w.replays++
		w.sendTransfer(drawFrom(w, w.transferRequests))
		return
	}
	h := &transferRequest{n: len(w.transferRequests) + 1, recipient: drawFrom(w, w.drawPayees())}
	var balance money.Amount
	for range 4 { // looks for a sender with a balance
		h.mint, h.sender = drawFrom(w, []int{tokenID, tokenID, nativeID, limitedID}), drawFrom(w, w.drawPayees())
		if balance = w.loadBalance(h.sender, h.mint); !balance.IsZero() {
			break
		}
	}
	for h.recipient == h.sender { // there are at least two
		h.recipient = drawFrom(w, w.drawPayees())
	}
	if balance.IsZero() && w.drawChance(50) {
		return
	}
	switch n, small := balance.Uint64(); {
	case small && n > 0 && w.drawChance(60):
		h.amount = money.Units(1 + w.rng.Uint64N(n))
	case !balance.IsZero() && w.drawChance(60):
		h.amount = balance // all of it
	default:
		h.amount = w.amountOf(h.mint)
	}
	h.ask = transfer.Request{
		MintID: h.mint, Amount: h.amount.String(), From: transferParty(h.sender), To: transferParty(h.recipient),
		IdempotencyKey: fmt.Sprintf("transfer-%d", h.n), Actor: audit.APIKey(orgID),
	}
	w.transferRequests = append(w.transferRequests, h)
	w.sendTransfer(h)
}

func transferParty(subject string) transfer.Party {
	if slices.Contains(ledger.Products, subject) {
		return transfer.Party{Product: &subject}
	}
	return transfer.Party{CustomerID: &subject}
}

func (w *soakRun) sendTransfer(h *transferRequest) {
	var made transfer.Outcome
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		made, err = drawFrom(w, w.processes).Transfers.Request(ctx, orgID, h.ask)
		return err
	})
	w.addTrace(
		"transfer %d: %v of mint %d from %s to %s: %s", h.n, h.amount, h.mint, h.sender, h.recipient,
		outcomeCode(s.err),
	)
	w.recordAnswer(h, made, s.err)
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("transfer", s.err, w.isCalm() && !s.struck)
	}
}

// recordAnswer records the answer to a transfer request.
func (w *soakRun) recordAnswer(h *transferRequest, made transfer.Outcome, err error) {
	switch {
	case err == nil:
		if id := made.Transfer.ID; h.id != "" && h.id != id {
			w.failRun("transfer %d is %s and %s", h.n, h.id, id)
		}
		h.id, h.open = made.Transfer.ID, false
	case fault.Find(err) == nil:
		h.open = h.id == ""
	case h.id != "":
		w.failRun("transfer %d was made as %s and its repetition is refused: %v", h.n, h.id, err)
	default:
		h.open = false
	}
}

// askOpen repeats the requests whose answer was lost.
func (w *soakRun) askOpen() {
	for _, h := range w.transferRequests {
		if h.open {
			made, err := w.processes[0].Transfers.Request(w.ctx, orgID, h.ask)
			if err != nil && fault.Find(err) == nil {
				w.failRun("transfer %d has no answer: %v", h.n, err)
			}
			w.recordAnswer(h, made, err)
		}
	}
}

// sumTransfers compares the rows with the answers, and adds up what every customer got and gave, by
// customer and mint.
func (w *soakRun) sumTransfers(balanceKey func(owner string, mintID int) string) map[string]*big.Int {
	got := map[string]*big.Int{}
	add := func(k string, n *big.Int) {
		if got[k] == nil {
			got[k] = new(big.Int)
		}
		got[k].Add(got[k], n)
	}
	for _, h := range w.transferRequests {
		if h.id == "" {
			continue
		}
		w.transfers++
		add(balanceKey(h.recipient, h.mint), h.amount.Big())
		add(balanceKey(h.sender, h.mint), new(big.Int).Neg(h.amount.Big()))
	}
	if n := w.queryCount(`SELECT count(*) FROM transfers`); n != w.transfers {
		w.failRun("%d transfers were made, and %d were answered", n, w.transfers)
	}
	return got
}
