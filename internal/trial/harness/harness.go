// Package harness wires everything that moves money, real except for a trial's chain and signer, and
// lets a trial drive it one step at a time.
//
// It has no loop, no clock of its own and makes no decision. A crash leaves rows, from which
// another Harness on the same database continues; trials play a restart like that.
package harness

import (
	"context"
	"crypto/ed25519"
	"log/slog"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// Config configures a Harness.
type Config struct {
	DB         *pg.DB
	Chain      chain.Chain
	Start      uint64 // the block after which the first walk begins
	Signer     signer.Signer
	AttestKey  ed25519.PublicKey // checks the signer's attestations of addresses
	Prices     price.Source
	RiskPolicy risk.Policy
	Grants     *signer.GrantKey // nil: none
	Dispatch   dispatch.Config
	Sweep      sweep.Config
	Log        *slog.Logger // nil: no log
}

// Harness has the parts of the service. It runs none of them by itself.
type Harness struct {
	Chains         chain.Chains
	Wallets        *wallet.Service
	Withdrawals    *withdrawal.Service
	Deposits       *deposit.Service
	Walker         *scan.Walker
	DispatchWorker *dispatch.Worker
	Sweeper        *sweep.Sweeper
	Sequencer      *event.Sequencer
}

// New wires the parts of one chain.
func New(p Config) *Harness {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	w := &Harness{Chains: chain.Chains{p.Chain.Name: p.Chain}, Wallets: wallet.New(p.DB, p.Signer, p.AttestKey)}
	w.Withdrawals = &withdrawal.Service{
		DB: p.DB, Chains: w.Chains, Wallets: w.Wallets, Prices: p.Prices, Risk: p.RiskPolicy, GrantKey: p.Grants,
	}
	w.Withdrawals.Voider = &dispatch.Voider{DB: p.DB, Signer: p.Signer, Grants: p.Grants, Log: p.Log}
	w.Deposits = &deposit.Service{
		DB: p.DB, Chains: w.Chains, Wallets: w.Wallets, Prices: p.Prices, Risk: p.RiskPolicy, GrantKey: p.Grants,
		Voider: w.Withdrawals.Voider, Log: p.Log,
	}
	w.Withdrawals.Voider.Listeners = app.VoidListeners(w.Withdrawals, w.Deposits)
	w.Walker = scan.New(p.DB, scan.Config{
		Chain: p.Chain.Name, Reader: p.Chain.Reader, Start: &p.Start,
		FinalityListeners: []finality.Listener{w.Deposits},
	}, w.Deposits, p.Log)
	w.DispatchWorker = dispatch.New(
		p.DB, p.Chain, p.Signer, mirror.RecordEntry, app.OrderListeners(w.Withdrawals, w.Deposits), p.Dispatch, p.Log,
		dispatch.WithChangeWallets(w.Wallets), dispatch.WithVoider(w.Withdrawals.Voider),
	)
	w.Sweeper = sweep.New(p.DB, p.Chain, w.Wallets, p.Prices, p.Sweep, p.Log)
	w.Sequencer = &event.Sequencer{DB: p.DB, Environment: webhook.Test, Listener: delivery.FanOut{}, Log: p.Log}
	return w
}

// Step is one turn of one part.
type Step struct {
	Name string
	// Loop is the loop of the service that takes this step, by its name in app.App.LoopNames
	// without the chain. A step that the service never takes would prove nothing.
	Loop string
	Run  func(context.Context) error
}

// turnsMax bounds how often a part is called while it reports more work.
const turnsMax = 100

// ListSteps lists a turn of every part, in the order in which money passes through them.
// betweenMoves, unless nil, is called between the moves inside a long turn.
func (w *Harness) ListSteps(betweenMoves func(name string)) []Step {
	repeatStep := func(name, loop string, step func(context.Context) (bool, error)) Step {
		return Step{name, loop, func(ctx context.Context) error {
			for range turnsMax {
				if hasMore, err := step(ctx); err != nil || !hasMore {
					return err
				}
				if betweenMoves != nil {
					betweenMoves(name)
				}
			}
			return nil
		}}
	}
	return []Step{
		repeatStep("head walk", "scan", w.Walker.StepHead),
		repeatStep("final walk", "scan", w.Walker.StepFinal),
		repeatStep("traces", "scan", w.Walker.StepTraces),
		{"memos", "memos", func(ctx context.Context) error { _, err := w.Deposits.ReadMemos(ctx); return err }},
		{"credits", "deposit", func(ctx context.Context) error { _, err := w.Deposits.CreditWaiting(ctx); return err }},
		{"sweeps", "sweep", func(ctx context.Context) error { _, err := w.Sweeper.Plan(ctx); return err }},
		repeatStep("dispatch", "dispatch", w.DispatchWorker.RunRound),
		{"voids", "voids", func(ctx context.Context) error { return w.Withdrawals.Voider.RunPass(ctx) }},
		{"sequencer", "sequencer", func(ctx context.Context) error { _, err := w.Sequencer.Step(ctx); return err }},
	}
}
