// Package works wires everything that moves money, real but for what a trial puts
// in place of the chain and the signer, and lets it be driven one step at a time.
//
// What never happens here: a loop, a clock of its own, a decision. What a crash
// leaves: rows, from which other works on the same database go on; that is how
// trials play a restart.
package works

import (
	"context"
	"crypto/ed25519"
	"log/slog"

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

// Plan is what the works stand on.
type Plan struct {
	DB       *pg.DB
	Chain    chain.Chain
	Start    uint64 // the block after which the first walk begins
	Signer   signer.Signer
	Attest   ed25519.PublicKey // checks the signer's addresses
	Prices   price.Source
	Screens  risk.Policy
	Grants   *signer.GrantKey // nil: none
	Dispatch dispatch.Config
	Sweep    sweep.Config
	Log      *slog.Logger // nil: nobody listens
}

// Works are the parts of the service, made by Wire and run by nobody.
type Works struct {
	Chains    chain.Chains
	Book      *wallet.Book
	Pay       *withdrawal.Service
	Deposits  *deposit.Desk
	Flags     *deposit.Resolutions
	Walk      *scan.Walker
	Out       *dispatch.Desk
	Sweeper   *sweep.Sweeper
	Sequencer *event.Sequencer
}

// Wire makes the works of one chain.
func Wire(p Plan) *Works {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	w := &Works{Chains: chain.Chains{p.Chain.Name: p.Chain}, Book: wallet.New(p.DB, p.Signer, p.Attest)}
	w.Pay = &withdrawal.Service{DB: p.DB, Chains: w.Chains, Wallets: w.Book, Prices: p.Prices, Risk: p.Screens, Grants: p.Grants}
	w.Pay.Voids = &dispatch.Voider{DB: p.DB, Signer: p.Signer, Grants: p.Grants, Log: p.Log}
	w.Deposits = deposit.New(p.DB, w.Book, p.Prices, p.Screens, p.Log, deposit.Bound(p.Grants), deposit.Senders(w.Chains))
	w.Flags = deposit.NewResolutions(p.DB, w.Chains, w.Book, p.Log, deposit.Granted(p.Grants), deposit.Voiding(w.Pay.Voids))
	w.Pay.Voids.Listeners = map[signer.Purpose]dispatch.VoidListener{signer.Payment: w.Pay, signer.Return: w.Flags}
	w.Walk = scan.New(p.DB, scan.Config{
		Chain: p.Chain.Name, Reader: p.Chain.Reader, Start: &p.Start, Concerned: []finality.Concerned{w.Deposits},
	}, w.Deposits, p.Log)
	w.Out = dispatch.New(p.DB, p.Chain, p.Signer, mirror.Record, map[signer.Purpose]dispatch.Listener{
		signer.Payment: w.Pay, signer.Sweep: sweep.Sweeps{}, signer.Gas: sweep.TopUps{}, signer.Place: sweep.Places{}, signer.Close: sweep.Closes{}, signer.Merge: sweep.Merges{}, signer.Return: w.Flags,
	}, p.Dispatch, p.Log, dispatch.Rests(w.Book), dispatch.Voiding(w.Pay.Voids))
	w.Sweeper = sweep.New(p.DB, p.Chain, w.Book, p.Prices, p.Sweep, p.Log)
	w.Sequencer = &event.Sequencer{DB: p.DB, Environment: webhook.Test, Listener: delivery.Fan{}, Log: p.Log}
	return w
}

// Step is one turn of one part.
type Step struct {
	Name string
	// Loop is the loop of the service that takes this step, by its name in app.App.Loops
	// without the chain. A step that the service takes nowhere would prove nothing.
	Loop string
	Do   func(context.Context) error
}

// turnsMax bounds how often a part is asked on while it says that there is more.
const turnsMax = 100

// Steps are a turn of every part, in the order in which money passes through
// them. amid, unless nil, is called between the moves inside a long turn.
func (w *Works) Steps(amid func(name string)) []Step {
	until := func(name, loop string, do func(context.Context) (bool, error)) Step {
		return Step{name, loop, func(ctx context.Context) error {
			for range turnsMax {
				if more, err := do(ctx); err != nil || !more {
					return err
				}
				if amid != nil {
					amid(name)
				}
			}
			return nil
		}}
	}
	return []Step{
		until("head walk", "scan", w.Walk.Head),
		until("final walk", "scan", w.Walk.Final),
		until("traces", "scan", w.Walk.Traces),
		{"memos", "memos", func(ctx context.Context) error { _, err := w.Deposits.ReadMemos(ctx); return err }},
		{"credits", "deposit", func(ctx context.Context) error { _, err := w.Deposits.Credit(ctx); return err }},
		{"sweeps", "sweep", func(ctx context.Context) error { _, err := w.Sweeper.Plan(ctx); return err }},
		until("dispatch", "dispatch", w.Out.Round),
		{"voids", "voids", func(ctx context.Context) error { return w.Pay.Voids.Pass(ctx) }},
		{"sequencer", "sequencer", func(ctx context.Context) error { _, err := w.Sequencer.Step(ctx); return err }},
	}
}
