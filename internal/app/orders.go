package app

import (
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// orderFeature is a feature that submits orders of one kind.
type orderFeature interface {
	dispatch.Listener
	dispatch.RestoreListener
}

// orderFeatures maps each purpose to the feature that submits its orders and is notified of their
// end.
func orderFeatures(w *withdrawal.Service, d *deposit.Service) map[signer.Purpose]orderFeature {
	return map[signer.Purpose]orderFeature{
		signer.Payment: w, signer.Return: d,
		signer.Sweep: sweep.SweepListener{}, signer.GasTopUp: sweep.TopUpListener{},
		signer.CreateNonceAccount: sweep.NonceAccountListener{}, signer.CloseTokenAccount: sweep.CloseListener{},
		signer.Consolidate: sweep.ConsolidationListener{},
	}
}

// OrderListeners returns the listeners of a dispatch.Worker.
func OrderListeners(w *withdrawal.Service, d *deposit.Service) map[signer.Purpose]dispatch.Listener {
	listeners := map[signer.Purpose]dispatch.Listener{}
	for purpose, feature := range orderFeatures(w, d) {
		listeners[purpose] = feature
	}
	return listeners
}

// VoidListeners returns the listeners of a dispatch.Voider: the features whose orders have grants.
func VoidListeners(w *withdrawal.Service, d *deposit.Service) map[signer.Purpose]dispatch.VoidListener {
	return map[signer.Purpose]dispatch.VoidListener{signer.Payment: w, signer.Return: d}
}

// restoreListeners returns the listeners of a dispatch.JournalRestorer.
func restoreListeners(w *withdrawal.Service) map[signer.Purpose]dispatch.RestoreListener {
	listeners := map[signer.Purpose]dispatch.RestoreListener{}
	for purpose, feature := range orderFeatures(w, &deposit.Service{}) {
		listeners[purpose] = feature
	}
	return listeners
}
