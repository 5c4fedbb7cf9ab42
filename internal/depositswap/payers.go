package depositswap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// PayerSource says how it is known who paid a provider.
type PayerSource string

// The sources.
const (
	OwnNode     PayerSource = "OWN_NODE" // a final block of a chain that this installation reads
	ProviderSay PayerSource = "PROVIDER" // the provider says so: the installation does not read the chain
)

// payersMax bounds what is stored of the payers of one deposit swap. More than screening asks about are unknown.
const payersMax = 200

// findings are what a look found out about the payments to the provider and its refunds.
type findings struct {
	source    PayerSource
	payers    []chain.Address
	payments  []chain.TxHash // whose payers are known now
	received  money.Amount   // by these payments
	refunds   []chain.TxHash
	refunded  money.Amount
	isWhole   bool // the payers of every payment that the provider names are known
	hasReader bool // this installation reads the chain
}

// findPayers finds who made the payments that a provider names. On a chain that this installation reads, only a
// final block counts that pays the quoted address: another transaction that the provider names says nothing. On
// any other chain the provider's word is taken, and marked as that. Rule DSW-7.
func (s *Service) findPayers(ctx context.Context, d DepositSwap, r provider.Report) (found findings, err error) {
	reader, locator := s.readerFor(d.Token.Chain)
	if locator == nil {
		found.source, found.payers = ProviderSay, r.Payers
		found.isWhole = len(r.Payers) > 0
		return found, nil
	}
	found.source, found.hasReader = OwnNode, true
	found.isWhole = len(r.OriginTxs) > 0
	var errs []error
	for _, hash := range r.OriginTxs {
		if slices.Contains(d.stored.knownPayments, hash) {
			continue
		}
		transfers, senders, err := s.readTransfers(ctx, reader, locator, d, hash, d.DepositAddress)
		if err != nil {
			errs = append(errs, fmt.Errorf("payment %s: %w", hash, err))
		}
		if len(transfers) == 0 || len(senders) == 0 {
			found.isWhole = false
			continue
		}
		found.payments, found.payers = append(found.payments, hash), append(found.payers, senders...)
		if found.received, err = sum(found.received, transfers); err != nil {
			errs = append(errs, err)
		}
	}
	for _, hash := range r.RefundTxs {
		if slices.Contains(d.stored.knownRefunds, hash) {
			continue
		}
		transfers, _, err := s.readTransfers(ctx, reader, locator, d, hash, d.RefundAddress)
		if err != nil {
			errs = append(errs, fmt.Errorf("refund %s: %w", hash, err))
		}
		if len(transfers) == 0 {
			continue
		}
		found.refunds = append(found.refunds, hash)
		if found.refunded, err = sum(found.refunded, transfers); err != nil {
			errs = append(errs, err)
		}
	}
	return found, errors.Join(errs...)
}

func sum(total money.Amount, transfers []chain.Transfer) (money.Amount, error) {
	for _, t := range transfers {
		var err error
		if total, err = total.Add(t.Amount); err != nil {
			return total, err
		}
	}
	return total, nil
}

// readerFor returns what reads a chain; locator is nil if this installation does not read it.
func (s *Service) readerFor(name chain.Name) (reader chain.Reader, locator chain.TxLocator) {
	ch, isRunning := s.Chains[name]
	if !isRunning || ch.Reader == nil {
		return nil, nil
	}
	locator, _ = ch.Reader.(chain.TxLocator)
	return ch.Reader, locator
}

// readTransfers returns the transfers of the origin token in a final transaction that pay an address, and who sent
// them. No transfers: the transaction is not final yet, or pays something else. No senders: one of them cannot be
// named.
func (s *Service) readTransfers(
	ctx context.Context, reader chain.Reader, locator chain.TxLocator, d DepositSwap, hash chain.TxHash, text string,
) (transfers []chain.Transfer, senders []chain.Address, err error) {
	payee, err := s.Chains[d.Token.Chain].AddressCodec.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the address %s: %w", provider.CleanText(text), err)
	}
	height, isFound, err := locator.LocateTx(ctx, hash)
	if err != nil || !isFound {
		return nil, nil, err
	}
	block, err := reader.Final(ctx, height)
	if errors.Is(err, chain.ErrNotYet) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if block.Height != height {
		return nil, nil, fmt.Errorf("block %d has no final contents", height)
	}
	pays := func(t chain.Transfer) bool {
		token := provider.Token{Chain: d.Token.Chain, Contract: t.Contract}.Canonical()
		return strings.EqualFold(string(t.Tx), string(hash)) && t.To == payee && token == d.Token.Token.Canonical()
	}
	for _, t := range block.Transfers {
		if pays(t) {
			transfers = append(transfers, t)
		}
	}
	// A contract may pay the coin of its chain inside of a transaction, which only a trace shows.
	if tracer, isTracer := reader.(chain.Tracer); isTracer && len(transfers) == 0 && d.Token.Contract == "" {
		internal, err := tracer.InternalTransfers(ctx, chain.InternalTransfersQuery{
			Block: block.Block, Tx: hash, Recipients: []chain.Address{payee}, Providers: chain.QuorumOfProviders,
		})
		if err != nil {
			return nil, nil, err
		}
		for _, t := range internal {
			if pays(t) {
				transfers = append(transfers, t)
			}
		}
		return transfers, collectSenders(chain.Senders(transfers)), nil
	}
	if len(transfers) == 0 {
		return nil, nil, nil
	}
	lists, err := reader.Senders(ctx, block.Block, transfers)
	if err != nil {
		return transfers, nil, err
	}
	return transfers, collectSenders(lists), nil
}

// collectSenders returns all senders, sorted and each once; none if one of the transfers has no known sender.
func collectSenders(lists [][]chain.Address) (senders []chain.Address) {
	for _, list := range lists {
		if len(list) == 0 {
			return nil
		}
		senders = append(senders, list...)
	}
	slices.Sort(senders)
	return slices.Compact(senders)
}
