package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/sweep"
)

// orderFeature is a feature that owns the orders of a purpose: dispatch reports to it what became
// of them, also of those that a restore finds in the signer's journal.
type orderFeature interface {
	dispatch.Listener
	dispatch.RestoreListener
}

// orderFeatures maps each purpose to the feature that owns its orders.
func (s *Service) orderFeatures() map[signer.Purpose]orderFeature {
	return map[signer.Purpose]orderFeature{
		signer.Payment: s.Withdrawals, signer.Sweep: sweep.SweepListener{}, signer.GasTopUp: sweep.TopUpListener{},
		signer.CreateNonceAccount: sweep.NonceAccountListener{}, signer.CloseTokenAccount: sweep.Listener{},
		signer.CreateTokenAccount: sweep.Listener{}, signer.GrantAllowance: sweep.Listener{},
		signer.RevokeAllowance: sweep.Listener{},
		signer.Consolidate:     sweep.Listener{}, signer.Return: s.Deposits, signer.SwapPayment: s.Swaps,
	}
}

func (s *Service) orderListeners() map[signer.Purpose]dispatch.Listener {
	listeners := map[signer.Purpose]dispatch.Listener{}
	for purpose, feature := range s.orderFeatures() {
		listeners[purpose] = feature
	}
	return listeners
}

// voidListeners maps each purpose whose orders have grants to the feature that owns them.
func (s *Service) voidListeners() map[signer.Purpose]dispatch.VoidListener {
	return map[signer.Purpose]dispatch.VoidListener{
		signer.Payment: s.Withdrawals, signer.Return: s.Deposits, signer.SwapPayment: s.Swaps,
	}
}

// DecideStuck ends a stuck payment, sweep or top-up as a person has found it on the chain: paid or
// not paid. Error: dispatch.ErrNotStuck.
func (s *Service) DecideStuck(ctx context.Context, orderID string, paid bool, actor audit.Actor, reason string) error {
	return dispatch.DecideStuck(ctx, s.parts.DB, s.orderListeners(), orderID, paid, actor, reason)
}
