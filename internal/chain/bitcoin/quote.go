package bitcoin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// Rates are in satoshi per thousand virtual bytes.
const (
	RateMinDefault   = 1_000 // the least that nodes relay
	RateMaxDefault   = 500_000
	UsualRateDefault = 10_000
	CostMaxDefault   = 5_000_000 // satoshi
	TargetDefault    = 3         // blocks
	TargetMax        = 1008      // the greatest target that nodes estimate for

	// typicalInputs is how many outputs a usual payment spends, for a fee before they are selected.
	typicalInputs = 2
)

// The weights of an input and an output of a usual transaction: native SegWit of a key.
const (
	typicalInputWeight  = 272
	typicalOutputWeight = 124
)

// BatchSize returns how many payments one transaction makes. They are in bitcoin, of one account
// with one fee payer, and at most the payees that a transaction may have.
func (a *adapter) BatchSize(ps []chain.Payment) int {
	n := 1
	for n < min(len(ps), bitcointx.PayeesMax) && ps[n].Contract == "" && feePayer(ps[n]) == feePayer(ps[0]) &&
		ps[n].From == ps[0].From {
		n++
	}
	return min(n, len(ps))
}

func feePayer(p chain.Payment) chain.Address {
	if p.Payer != "" {
		return p.Payer
	}
	return p.From
}

// Quote proposes the fees of payments: the estimate of the first node that answers, within the
// configured bounds, for a transaction with the usual number of inputs. UTXOModel returns the cost
// with the selected inputs. Quote does not check whether the outputs suffice.
//
// A payment of nothing from an account to itself is a cancel.
func (a *adapter) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	weight := bitcointx.EmptyWeight + typicalInputs*typicalInputWeight + typicalOutputWeight
	sum := money.Zero
	for i, p := range ps {
		if len(ps) == 1 && p.Contract == "" && p.Amount.IsZero() && p.From == p.To {
			break
		}
		w, err := a.checkPayment(p)
		if err == nil {
			if sum, err = sum.Add(p.Amount); err != nil || money.Units(satoshiSupply).Less(sum) {
				err = newRefusal(chain.CauseAmount, "it pays more bitcoins than there are")
			}
		}
		var reverted *chain.RevertedError
		if errors.As(err, &reverted) {
			return chain.Fees{}, reverted
		}
		if err != nil {
			return chain.Fees{}, fmt.Errorf("quote on %s: payment %d: %w", chain.Bitcoin, i, err)
		}
		weight += w
	}
	if n := a.BatchSize(ps); n < len(ps) {
		return chain.Fees{}, fmt.Errorf("quote on %s: a transaction makes %d of these %d payments", chain.Bitcoin, n,
			len(ps))
	}
	return a.quoteSize(ctx, bitcointx.VirtualSize(weight))
}

func newRefusal(cause chain.Cause, format string, args ...any) error {
	return &chain.RevertedError{Reason: fmt.Sprintf(format, args...), Cause: cause}
}

// MinNativePayment returns the smallest output to an address that nodes relay. Its value has to be
// worth spending it, which depends on the address's form.
func (a *adapter) MinNativePayment(_ context.Context, to chain.Address) (money.Amount, error) {
	script, err := bitcointx.Script(a.Network, to)
	if err != nil {
		return money.Zero, fmt.Errorf("smallest payment to %s: %w", to, err)
	}
	return bitcointx.Dust(script), nil
}

// checkPayment returns the weight that a payment adds to a transaction, or why the network refuses
// it.
func (a *adapter) checkPayment(p chain.Payment) (int, error) {
	if p.Contract != "" {
		return 0, fmt.Errorf("there is no token %.100q", string(p.Contract))
	}
	script, err := bitcointx.Script(a.Network, p.To)
	if err != nil {
		return 0, err
	}
	if minimum := bitcointx.Dust(script); p.Amount.Less(minimum) {
		return 0, newRefusal(chain.CauseAmount, "%v satoshi are dust: the network relays no output to %s below %v",
			p.Amount, p.To, minimum)
	}
	return bitcointx.PayWeight(a.Network, p.To)
}

// TransferFees returns the fees of a usual payment to one payee.
func (a *adapter) TransferFees(ctx context.Context) (chain.Fees, error) {
	return a.quoteSize(ctx,
		bitcointx.VirtualSize(bitcointx.EmptyWeight+typicalInputs*typicalInputWeight+2*typicalOutputWeight))
}

func (a *adapter) quoteSize(ctx context.Context, size uint64) (chain.Fees, error) {
	rate, err := a.marketRate(ctx, a.Target)
	if err != nil {
		return chain.Fees{}, fmt.Errorf("price of a transaction on %s: %w", chain.Bitcoin, err)
	}
	fee := money.Units(bitcointx.FeeAtRate(size, rate))
	if a.CostMax.Less(fee) {
		return chain.Fees{},
			fmt.Errorf("price of a transaction on %s: it would cost %v satoshi, and at most %v are allowed",
				chain.Bitcoin, fee, a.CostMax)
	}
	return chain.Fees{GasLimit: size, TipCap: money.Units(rate), NonGas: fee}, nil
}

// marketRate returns the rate at which nodes expect a transaction to be mined in time, within the
// bounds. A node without an estimate, because it has seen too little or never estimates (btcd),
// does not prevent a payment: the least rate is used then, and a payment that waits too long is
// bumped.
func (a *adapter) marketRate(ctx context.Context, target int) (uint64, error) {
	rate, err := a.estimateRate(ctx, target)
	return min(max(rate, a.RateMin), a.RateMax), err
}

// estimateRate returns the estimate of the first node that answers, and 0 if it has none.
func (a *adapter) estimateRate(ctx context.Context, target int) (uint64, error) {
	return quorum.FirstAnswer(ctx, a.providersByTrust(), func(ctx context.Context, p *provider) (uint64, error) {
		var got struct {
			Rate *btc `json:"feerate"` // bitcoins for a thousand virtual bytes
		}
		err := p.callBatch(ctx, newCall(&got, "estimatesmartfee", target))
		if hasErrorCode(err, codeNoMethod) || err == nil && got.Rate == nil {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return uint64(*got.Rate), nil
	})
}

// incrementalRelayRate is the least increase of a replacement's rate. Nodes require a thousand,
// which pays for relaying it (BIP-125); the rest covers rounding.
const incrementalRelayRate = 1_100

// Bump offers a quarter more, and at least the increase that nodes require of a replacement by
// BIP-125. Each virtual byte of it pays for relaying it, in addition to all that the replaced
// transaction paid. The increase comes out of the change; Build returns an error if there is not
// enough. A cancel is smaller and costs as much, since it has to replace as much.
func (a *adapter) Bump(_ context.Context, last chain.Fees) (chain.Fees, bool, error) {
	rate, ok := last.TipCap.Uint64()
	if !ok || rate > bitcointx.RateMax || last.GasLimit == 0 || last.GasLimit > weightMax || !last.FeeCap.IsZero() {
		return chain.Fees{}, false, fmt.Errorf("bump on %s: %+v are not fees of this chain", chain.Bitcoin, last)
	}
	higher := min(max(rate+rate/4, rate+incrementalRelayRate), a.RateMax)
	if higher < rate+incrementalRelayRate {
		return chain.Fees{}, false, nil
	}
	bumped := last
	bumped.TipCap = money.Units(higher)
	// What the replaced transaction paid beyond its rate, having no change, is kept.
	var err error
	step := bitcointx.FeeAtRate(last.GasLimit, higher) - bitcointx.FeeAtRate(last.GasLimit, rate)
	if bumped.NonGas, err = last.NonGas.Add(money.Units(step)); err != nil {
		return chain.Fees{}, false, fmt.Errorf("bump on %s: %w", chain.Bitcoin, err)
	}
	if a.CostMax.Less(bumped.NonGas) {
		return chain.Fees{}, false, nil
	}
	return bumped, true, nil
}

// weightMax is the greatest weight that nodes relay, and above any size.
const weightMax = 400_000

// Build encodes the transaction of payments in a slot; it asks no node. The slot key has all that
// payments lack. Errors: *chain.InsufficientOutputsError if its inputs do not pay for that much.
func (a *adapter) Build(account chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	payload, err := a.buildPayload(account, s, fees, ps)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", chain.Bitcoin, err)
	}
	return payload, nil
}

func (a *adapter) buildPayload(
	account chain.Address, s chain.Slot, fees chain.Fees, ps []chain.Payment,
) ([]byte, error) {
	slotKey, err := bitcointx.ParseSlotKey(a.Network, s.Key)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(ps, func(p chain.Payment) bool { return feePayer(p) != account }); i >= 0 {
		return nil, fmt.Errorf("%s is the payer of payment %d, not %s", feePayer(ps[i]), i, account)
	}
	if rate, ok := fees.TipCap.Uint64(); !ok || rate > a.RateMax {
		return nil, fmt.Errorf("the rate of %v is above the configured %d", fees.TipCap, a.RateMax)
	}
	if a.CostMax.Less(fees.NonGas) {
		return nil, fmt.Errorf("it can cost %v, which is above the configured %v", fees.NonGas, a.CostMax)
	}
	tx, err := bitcointx.Build(a.Network, slotKey, ps, fees)
	if err != nil {
		return nil, err
	}
	return tx.Payload()
}
