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
	chains chain.Chains
	clock  func() time.Time

	mu   sync.Mutex
	kept map[chain.Name]keptFee
}

type keptFee struct {
	fee     *money.Amount // nil: no provider said it
	askedAt time.Time
}

var _ checkout.Costs = (*transferFees)(nil)

func newTransferFees(chains chain.Chains, clock func() time.Time) *transferFees {
	return &transferFees{chains: chains, clock: clock, kept: map[chain.Name]keptFee{}}
}

// TransferFee implements checkout.Costs.
func (f *transferFees) TransferFee(ctx context.Context, name chain.Name) *money.Amount {
	now := f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if kept, isKept := f.kept[name]; isKept && now.Sub(kept.askedAt) < feesKept {
		return kept.fee
	}
	sender := f.chains[name].Sender
	if sender == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, feeTimeout)
	defer cancel()
	var fee *money.Amount
	if fees, err := sender.TransferFees(ctx); err == nil {
		if most, err := fees.Max(); err == nil {
			fee = &most
		}
	}
	f.kept[name] = keptFee{fee, now}
	return fee
}
