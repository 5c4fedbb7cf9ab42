package service

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// restorer restores the entries of the journal in every package that has a part in it.
type restorer struct {
	dispatch.JournalRestorer
	actor audit.Actor
}

// NewRestorer returns the features' part of journal.RestoreDatabase.
func (s *Service) NewRestorer(actor audit.Actor) journal.Restorer {
	return restorer{s.newJournalRestorer(), actor}
}

func (s *Service) newJournalRestorer() dispatch.JournalRestorer {
	features := map[signer.Purpose]dispatch.RestoreListener{}
	for purpose, feature := range s.orderFeatures() {
		features[purpose] = feature
	}
	return dispatch.JournalRestorer{
		Features: features,
		ReadFees: ReadFees,
		ReadInputs: func(name chain.Name, slotKey string) ([]chain.Output, error) {
			model := s.Chains[name].UTXO
			if model == nil {
				return nil, fmt.Errorf("%s is not configured to send", name)
			}
			return model.Inputs(slotKey)
		},
	}
}

// ReadFees reads the fees of an unsigned transaction.
func ReadFees(name chain.Name, payload []byte) (chain.Fees, error) {
	switch name.Family() {
	case chain.EVM:
		tx, err := evmtx.Decode(payload)
		return chain.Fees{GasLimit: tx.Gas, TipCap: tx.TipCap, FeeCap: tx.FeeCap}, err
	case chain.SolanaFamily:
		if made, err := solanatx.DecodeNonceCreation(payload); err == nil {
			return chain.Fees{NonGas: made.MaxCost()}, nil
		}
		tx, err := solanatx.Decode(payload)
		if err != nil {
			return chain.Fees{}, err
		}
		return chain.Fees{GasLimit: uint64(tx.Limit), TipCap: money.Units(tx.Price), NonGas: tx.MaxCost()}, nil
	}
	if name.Family() == chain.BitcoinFamily {
		tx, err := bitcointx.Decode(payload)
		if err != nil {
			return chain.Fees{}, err
		}
		// The rate is that of the whole fee: a replacement has to pay more than that.
		fee, size := tx.Fee(), tx.VirtualSize()
		paid, _ := fee.Uint64()
		rate := min(paid*1000/max(size, 1), bitcointx.RateMax)
		return chain.Fees{GasLimit: size, TipCap: money.Units(rate), NonGas: fee}, nil
	}
	return chain.Fees{}, fmt.Errorf("cannot read transactions of %s", name)
}

// RestoreOrganizations implements journal.Restorer.
func (restorer) RestoreOrganizations(ctx context.Context, tx pg.Tx, ids []string) error {
	return org.RestoreOrganizations(ctx, tx, ids)
}

// RestoreOrders implements journal.Restorer.
func (r restorer) RestoreOrders(ctx context.Context, tx pg.Tx, intents []journal.Intent) error {
	return r.Restore(ctx, tx, intents)
}

// ResumeOperation implements journal.Restorer. Events continue after every number that the lost
// database may have given. Freezes that were set because the database was older than the journal
// are lifted. Batch payouts that are being paid wait for a person. Rule BP-32.
func (r restorer) ResumeOperation(ctx context.Context, tx pg.Tx, last time.Time) error {
	resumedAt := tx.Now
	if resumedAt.Before(last) {
		resumedAt = last // the clock was set back
	}
	if err := event.SkipSequences(ctx, tx, resumedAt); err != nil {
		return err
	}
	if err := payout.PauseRestored(ctx, tx, r.actor); err != nil {
		return err
	}
	standing, err := freeze.List(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range standing {
		if f.Source == freeze.SourceSigner {
			if err := freeze.Lift(ctx, tx, f.ID, r.actor); err != nil {
				return err
			}
		}
	}
	return audit.Record(ctx, tx, audit.Entry{
		Actor: r.actor, Action: "journal.imported", ResourceKind: "JOURNAL", ResourceID: "signer",
		Detail: map[string]any{"resumedAt": resumedAt.UnixMicro()},
	})
}
