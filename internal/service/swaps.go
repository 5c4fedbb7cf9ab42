package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// swapOwner hands what arrives at the wallets of swaps to the swaps.
type swapOwner struct {
	deposit.ArrivalOwner
	swaps *swap.Service
}

var _ deposit.Settler = swapOwner{}

// SettleArrivals implements deposit.Settler.
func (o swapOwner) SettleArrivals(
	ctx context.Context, tx pg.Tx, w wallet.Wallet, waiting []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	arrivals := make([]swap.WaitingArrival, len(waiting))
	for i, a := range waiting {
		arrivals[i] = swap.WaitingArrival(a)
	}
	settled, err := o.swaps.SettleArrivals(ctx, tx, w, arrivals)
	if err != nil {
		return deposit.Settlement{}, err
	}
	result := deposit.Settlement{Postings: settled.Postings, Events: settled.Events, Audit: settled.Audit}
	for _, a := range settled.Arrivals {
		result.Arrivals = append(result.Arrivals, deposit.SettledArrival{
			DepositID: a.DepositID, Role: deposit.ArrivalRole(a.Role), CustomerID: a.CustomerID, Product: a.Product,
			Completes: a.Completes, Credit: a.Credit,
		})
	}
	return result, nil
}

// depositSwapOwner owns what arrives at the wallets of deposit swaps.
type depositSwapOwner struct {
	deposit.DepositSwapOwner
	depositSwaps *depositswap.Service
}

// OnUpdates implements deposit.Owner.
func (o depositSwapOwner) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	arrivals := make([]depositswap.Arrival, len(updates))
	for i, u := range updates {
		arrivals[i] = depositswap.Arrival{
			DepositSwapID: u.DepositSwapID, DepositID: u.DepositID, MintID: u.MintID, Amount: u.Amount, Tx: u.Tx,
			IsFinal: u.To == deposit.Screening, IsDecided: !u.From.IsDecided() && u.To.IsDecided(),
		}
	}
	return o.depositSwaps.OnArrivals(ctx, tx, arrivals)
}

// strayCreditor credits stray arrivals for the swaps.
type strayCreditor struct{ deposits *deposit.Service }

// CreditStray implements swap.StrayCreditor.
func (c strayCreditor) CreditStray(
	ctx context.Context, tx pg.Tx, depositID string, actor audit.Actor,
) (swap.CreditedStray, error) {
	credited, err := c.deposits.CreditStray(ctx, tx, depositID, actor)
	return swap.CreditedStray{Posting: credited.Posting, Event: credited.Event, Audit: credited.Audit}, err
}

// swapPayouts pays what organizations' swaps bring, as ordinary withdrawals of their own money.
type swapPayouts struct{ withdrawals *withdrawal.Service }

var _ swap.Payouts = swapPayouts{}

// RequestPayout implements swap.Payouts.
func (p swapPayouts) RequestPayout(ctx context.Context, r swap.Payout) (string, error) {
	wanted := withdrawal.SwapPayoutRequest{
		SwapID: r.SwapID, Product: r.Product, MintID: r.MintID, Total: r.Amount, WhitelistedID: r.WhitelistedID,
		Key: r.Key, Requester: r.Requester,
	}
	if r.Approved != nil {
		approved := withdrawal.SwapApprovals(*r.Approved)
		wanted.Approved = &approved
	}
	w, err := p.withdrawals.RequestSwapPayout(ctx, r.OrgID, wanted)
	return w.ID, err
}

// FindPayout implements swap.Payouts.
func (p swapPayouts) FindPayout(ctx context.Context, tx pg.Tx, org, key string) (string, bool, error) {
	return p.withdrawals.FindSwapPayout(ctx, tx, org, key)
}

// PayoutState implements swap.Payouts.
func (p swapPayouts) PayoutState(
	ctx context.Context, org, payoutID string,
) (state swap.PayoutState, message string, err error) {
	w, err := p.withdrawals.ByID(ctx, org, payoutID)
	if err != nil {
		return "", "", err
	}
	switch w.Status {
	case withdrawal.Completed:
		return swap.PayoutPaid, "", nil
	case withdrawal.Failed:
		return swap.PayoutEnded, "The payment of the output failed on the chain.", nil
	case withdrawal.Blocked:
		return swap.PayoutEnded, "Risk screening refuses the destination of the output.", nil
	case withdrawal.Rejected, withdrawal.Cancelled:
		return swap.PayoutEnded, "The payment of the output was ended by a person.", nil
	}
	return swap.PayoutOpen, "", nil
}

// swapWhitelist adapts the whitelist to the swaps of organizations.
type swapWhitelist struct{ whitelistAdapter }

// Usable implements swap.Whitelist.
func (l swapWhitelist) Usable(ctx context.Context, tx pg.Tx, org, listedID string) (swap.WhitelistEntry, error) {
	entry, err := l.whitelistAdapter.Usable(ctx, tx, org, listedID)
	return swap.WhitelistEntry(entry), err
}

// buildSwaps builds the swaps, which other features refer to: what arrives for them, and the payments
// that they submit.
func (s *Service) buildSwaps() {
	conf, parts := s.conf.Swaps, s.parts
	limits := swap.Config{
		PayWindow: conf.PayWindow, PayWindowBitcoin: conf.PayWindowBitcoin, WithoutPrices: conf.WithoutPrices,
		DelayedAfter: conf.DelayedAfter, StuckAfter: conf.StuckAfter, RefundGrace: conf.RefundGrace,
	}
	if conf != (SwapConfig{}) {
		limits.MaxLossBps = &conf.MaxLossBps
	}
	s.Swaps = swap.NewService(limits)
	s.Swaps.DB, s.Swaps.Chains, s.Swaps.Wallets = parts.DB, s.Chains, s.Wallets
	s.Swaps.Prices, s.Swaps.PriceAge, s.Swaps.Events = parts.Prices, s.conf.PriceAge, wire.NewRecorder()
	s.Swaps.GrantKey, s.Swaps.Voider, s.Swaps.Seal = parts.Grants, s.Voider, parts.Seal
	if parts.Log != nil {
		s.Swaps.Log = parts.Log
	}
	s.Swaps.Panel = provider.NewPanel(parts.SwapProviders, swap.Suspensions{DB: parts.DB}, parts.clock(), parts.Log)
}

// buildDepositSwaps builds the deposit swaps, which ask the providers of swaps.
func (s *Service) buildDepositSwaps() {
	s.DepositSwaps = &depositswap.Service{
		DB: s.parts.DB, Chains: s.Chains, Wallets: s.Wallets, Panel: s.Swaps.Panel, Prices: s.parts.Prices,
		PriceAge: s.conf.PriceAge, GrantKey: s.parts.Grants, OnTampered: s.parts.OnTamperedDepositSwap,
		Log: s.Swaps.Log,
	}
}
