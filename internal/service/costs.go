package service

import (
	"context"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	feesKept   = 30 * time.Second // for which an answer about fees is shown to payers
	feeTimeout = 2 * time.Second
)

// transferFees asks the chains what a transfer costs, and keeps the answers for a short time: pages that payers open do
// not make requests to providers.
type transferFees struct {
	clock   func() time.Time
	byChain map[chain.Name]*keptFee
}

// keptFee is the answer of one chain. Its lock is held during a question, so that a slow chain is asked once, and holds
// up no other chain.
type keptFee struct {
	sender chain.Sender

	mu      sync.Mutex
	fee     *money.Amount // nil: no provider said it
	askedAt time.Time
}

var _ checkout.Costs = (*transferFees)(nil)

func newTransferFees(chains chain.Chains, clock func() time.Time) *transferFees {
	f := &transferFees{clock: clock, byChain: map[chain.Name]*keptFee{}}
	for name, ch := range chains {
		if ch.Sender != nil {
			f.byChain[name] = &keptFee{sender: ch.Sender}
		}
	}
	return f
}

// TransferFee implements checkout.Costs.
func (f *transferFees) TransferFee(ctx context.Context, name chain.Name) *money.Amount {
	answer := f.byChain[name]
	if answer == nil {
		return nil
	}
	answer.mu.Lock()
	defer answer.mu.Unlock()
	now := f.clock()
	if !answer.askedAt.IsZero() && now.Sub(answer.askedAt) < feesKept {
		return answer.fee
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), feeTimeout)
	defer cancel()
	answer.fee, answer.askedAt = nil, now
	if fees, err := answer.sender.TransferFees(ctx); err == nil {
		if feeMax, err := fees.Max(); err == nil {
			answer.fee = &feeMax
		}
	}
	return answer.fee
}
