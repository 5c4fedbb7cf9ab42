package service

import (
	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/sweep"
)

// buildChain builds the walker, the dispatch worker and the sweeper of a chain. Every chain has all
// three: a sweeper also plans what a chain without sweeps needs, such as consolidations.
func (s *Service) buildChain(name chain.Name, ch chain.Chain) {
	conf := s.conf.Chains[name]
	walks := scan.Config{
		Chain: name, Reader: ch.Reader, Matcher: s.Matcher, Start: conf.Start,
		PollInterval: conf.ScanInterval, FinalityListeners: s.finalityListeners(),
	}
	if report := s.parts.OnScanError; report != nil {
		walks.OnError = func(walk string, err error) { report(name, walk, err) }
	}
	s.walkers[name] = scan.New(s.parts.DB, walks, s.Deposits, s.parts.Log)
	s.dispatchWorkers[name] = dispatch.New(
		s.parts.DB, ch, s.parts.Signer, journal.RecordEntry, s.orderListeners(), conf.Dispatch, s.parts.Log,
		dispatch.WithChangeWallets(s.Wallets), dispatch.WithVoider(s.Voider),
	)
	s.sweepers[name] = sweep.New(s.parts.DB, ch, s.Wallets, s.parts.Prices, conf.Sweep, s.parts.Log)
}

// finalityListeners returns the parts that rely on final blocks, in the order in which they are
// notified of removed blocks.
func (s *Service) finalityListeners() []finality.Listener {
	return []finality.Listener{s.Deposits}
}

// Walker returns the walker of a chain, or nil if the chain is not configured.
func (s *Service) Walker(name chain.Name) *scan.Walker { return s.walkers[name] }

// DispatchWorker returns the dispatch worker of a chain, or nil if the chain is not configured.
// Without a signer it assigns transactions to slots; the running service has them signed and
// broadcasts them.
func (s *Service) DispatchWorker(name chain.Name) *dispatch.Worker { return s.dispatchWorkers[name] }

// feeReader returns what reads the fees of a chain, or nil if the chain is not configured.
func (s *Service) feeReader(name chain.Name) billing.FeeReader {
	worker := s.dispatchWorkers[name]
	if worker == nil {
		return nil
	}
	return worker
}

// Sweeper returns the sweeper of a chain, or nil if the chain is not configured.
func (s *Service) Sweeper(name chain.Name) *sweep.Sweeper { return s.sweepers[name] }
