package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// paymentCost is what each payment of a transaction costs.
type paymentCost struct {
	name     string // of the coin and the payee
	unit     string
	payments int    // of the transaction
	amount   uint64 // of each payment
	goal     uint64 // 0 for none
}

// paymentCosts measure the payments of the families, each kind of payment alone first: the naive method pays each row
// of a list in a transaction of its own.
var paymentCosts = []struct {
	title   string
	measure func(ctx context.Context) ([]paymentCost, error)
}{
	{"gas of each payment on Ethereum, alone and together", measureTokenPayments},
	{"virtual bytes of each payment on Bitcoin, alone and together", measureOutputPayments},
	{"lamports of each payment on Solana, alone and together", measureLamportPayments},
}

// benchPayments measures what a payment costs alone and with others.
func benchPayments(ctx context.Context, w *benchEnv) error {
	for _, family := range paymentCosts {
		costs, err := family.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", family.title, err)
		}
		alone := map[string]uint64{}
		for _, c := range costs {
			r := row{
				figure: fmt.Sprintf("%s of a payment, %s, %d together", c.unit, c.name, c.payments),
				result: fmt.Sprint(c.amount),
			}
			if c.payments == 1 {
				alone[c.name] = c.amount
				r.figure, r.compared = fmt.Sprintf("%s of a payment, %s, alone", c.unit, c.name), "the naive way"
			} else {
				r.compared = formatRatio(float64(c.amount), float64(alone[c.name]), "the naive way")
			}
			if c.goal > 0 {
				r.target = formatTarget(c.amount <= c.goal, fmt.Sprintf("at most %d", c.goal))
			}
			w.table.addRow(r)
		}
	}
	return nil
}

// measureTokenPayments reads the gas in the receipts of a real node.
func measureTokenPayments(ctx context.Context) (costs []paymentCost, err error) {
	node, err := anvil.Start(ctx, anvil.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	measured, err := node.MeasurePayments(ctx, 1, 2, 8, evmtx.PaymentsMax)
	if err != nil {
		return nil, err
	}
	goals := map[string][2]uint64{anvil.ProxiedToken: {32_100, 14_600}, anvil.PlainToken: {28_400, 10_800}}
	for k, payee := range []string{"a new payee", "a known payee"} {
		for _, m := range measured {
			c := paymentCost{name: m.Token + ", " + payee, unit: "gas", payments: m.Payments, amount: m.NewPayee}
			if k == 1 {
				c.amount = m.KnownPayee
			}
			if m.Payments == evmtx.PaymentsMax {
				c.goal = goals[m.Token][k]
			}
			costs = append(costs, c)
		}
	}
	return costs, nil
}

// measureOutputPayments builds transactions of two inputs with change. A payee costs the same whether it is known or
// new.
func measureOutputPayments(context.Context) (costs []paymentCost, err error) {
	addresses := make([]chain.Address, 3+bitcointx.PayeesMax)
	for i := range addresses {
		key, err := btcd.NewKey()
		if err != nil {
			return nil, err
		}
		addresses[i] = btcd.KeyAddress(key)
	}
	var inputs []chain.Output
	for n := range 2 {
		inputs = append(inputs, chain.Output{
			Outpoint: bitcointx.FormatOutpoint(chain.TxHash(fmt.Sprintf("%064x", n+1)), 0), Owner: addresses[n],
			Amount: money.Units(50_000_000),
		})
	}
	slot, err := bitcointx.NewSlotKey(chain.Local, inputs, addresses[2])
	if err != nil {
		return nil, err
	}
	for _, count := range []int{1, 2, 8, 24, bitcointx.PayeesMax} {
		payments := make([]chain.Payment, count)
		for i := range payments {
			payments[i] = chain.Payment{To: addresses[3+i], Amount: money.Units(10_000)}
		}
		fees, err := bitcointx.FitFees(chain.Local, slot, payments, chain.Fees{TipCap: money.Units(1000)})
		if err != nil {
			return nil, err
		}
		c := paymentCost{
			name: "Bitcoin", unit: "virtual bytes", payments: count,
			amount: (fees.GasLimit + uint64(count) - 1) / uint64(count),
		}
		if count == 24 || count == bitcointx.PayeesMax {
			c.goal = 40
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// measureLamportPayments has a real node make payments of a treasury with the transactions that the service builds.
// Their cost is what the treasury has less. As many go together as the adapter says, and none of them creates an
// account.
func measureLamportPayments(ctx context.Context) (costs []paymentCost, err error) {
	s, err := newSweepEnv(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.node.Stop()) }()
	if err := s.node.MintTo(ctx, s.token, s.treasury, 1_000_000_000); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name     string
		contract chain.Address
		isKnown  bool
	}{
		{"USDC on Solana, a new payee", s.token.Address, false},
		{"USDC on Solana, a known payee", s.token.Address, true},
		{"SOL, a new payee", "", false},
		{"SOL, a known payee", "", true},
	} {
		for _, count := range []int{1, 2, 8, 24} {
			ps, err := s.newPayments(ctx, c.contract, c.isKnown, count)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if len(ps) == 1 && count > 1 {
				break // they are made alone
			}
			cost, err := s.sendNext(ctx, ps...)
			if err != nil {
				return nil, fmt.Errorf("%s, %d payments: %w", c.name, len(ps), err)
			}
			n := uint64(len(ps))
			costs = append(costs, paymentCost{
				name: c.name, unit: "lamports", payments: len(ps), amount: (cost + n - 1) / n,
			})
		}
	}
	return costs, nil
}

// newPayments returns payments of the treasury to as many payees as fit in a transaction, and at most count.
func (s *sweepEnv) newPayments(
	ctx context.Context, contract chain.Address, isKnown bool, count int,
) (ps []chain.Payment, err error) {
	const units = 1_000_000 // more than the minimum balance of an account
	for range count {
		payee, err := s.newAccount()
		if err != nil {
			return nil, err
		}
		switch {
		case isKnown && contract == "":
			err = s.node.SetLamports(ctx, payee, units)
		case isKnown:
			err = s.node.MintTo(ctx, s.token, payee, 1)
		}
		if err != nil {
			return nil, err
		}
		ps = append(ps, chain.Payment{From: s.treasury, To: payee, Contract: contract, Amount: money.Units(units)})
	}
	if contract != "" && !isKnown {
		ps = ps[:1] // each creates the account of its payee
	}
	return ps[:s.chain.Sender.BatchSize(ps)], s.node.MineBlocks(ctx, surfpool.Finality)
}
