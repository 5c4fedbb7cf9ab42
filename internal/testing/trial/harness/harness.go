// Package harness builds the service on a trial's chain and signer, and lets a trial drive it one
// step at a time.
//
// It has no loop, no clock of its own and makes no decision. A crash leaves rows, from which
// another Harness on the same database continues; trials play a restart like that.
package harness

import (
	"context"
	"crypto/ed25519"
	"log/slog"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/sweep"
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
	// Swaps and SwapProviders are empty in a trial without swaps.
	Swaps         service.SwapConfig
	SwapProviders []provider.Member
	// OnTamperedDepositSwap is called for each deposit swap that is not shown; it may be nil.
	OnTamperedDepositSwap func(depositSwapID string)

	Sweep sweep.Config
	// Seal and WebhookKeys are nil in a trial that posts no webhooks. Posts may go to this machine.
	Seal        *seal.Keyset
	WebhookKeys []webhook.Key
	Log         *slog.Logger // nil: no log
}

// Harness is the service on one chain. It runs none of its loops.
type Harness struct {
	*service.Service
	Walker         *scan.Walker
	DispatchWorker *dispatch.Worker
	Sweeper        *sweep.Sweeper
}

// New builds the service on one chain.
func New(p Config) *Harness {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	name := p.Chain.Name
	s := service.New(service.Config{
		Environment: webhook.Test, DevelopmentWebhooks: true, Swaps: p.Swaps,
		Chains: map[chain.Name]service.ChainConfig{name: {Start: &p.Start, Dispatch: p.Dispatch, Sweep: p.Sweep}},
	}, service.Parts{
		DB: p.DB, Signer: p.Signer, AttestKey: p.AttestKey, Grants: p.Grants, Chains: chain.Chains{name: p.Chain},
		Prices: p.Prices, Risk: p.RiskPolicy, Seal: p.Seal, WebhookKeys: p.WebhookKeys, Log: p.Log,
		SwapProviders: p.SwapProviders, OnTamperedDepositSwap: p.OnTamperedDepositSwap,
	})
	return &Harness{
		Service: s, Walker: s.Walker(name), DispatchWorker: s.DispatchWorker(name), Sweeper: s.Sweeper(name),
	}
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
		{"arrivals", "arrivals", func(ctx context.Context) error {
			_, err := w.Deposits.SettleArrivals(ctx)
			return err
		}},
		{"deposit swaps", "deposit swaps", func(ctx context.Context) error {
			_, err := w.DepositSwaps.Follow(ctx)
			return err
		}},
		{"sweeps", "sweep", func(ctx context.Context) error { _, err := w.Sweeper.Plan(ctx); return err }},
		repeatStep("dispatch", "dispatch", w.DispatchWorker.RunRound),
		{"voids", "voids", func(ctx context.Context) error { return w.Voider.RunPass(ctx) }},
		{"sequencer", "sequencer", func(ctx context.Context) error { _, err := w.Sequencer.Step(ctx); return err }},
	}
}
