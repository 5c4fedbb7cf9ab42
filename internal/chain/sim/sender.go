package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// tipPerGas is the tip that a quote offers to the block's producer.
const tipPerGas = 1_000_000_000

// BatchSize implements chain.Sender. As on EVM chains a transaction makes one payment; on SOLANA,
// Config.PaymentsPerTx decides.
func (c *Chain) BatchSize(ps []chain.Payment) int {
	if c.isSolana() {
		return c.fittingCount(ps)
	}
	return 1
}

// Quote implements chain.Sender.
func (c *Chain) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, err
	}
	if len(ps) == 0 || len(ps) > max(1, c.fittingCount(ps)) {
		return chain.Fees{}, fmt.Errorf(
			"quote of %d payments, and a transaction makes %d", len(ps), c.conf.PaymentsPerTx,
		)
	}
	if _, err := c.onlineProviders(); err != nil {
		return chain.Fees{}, fmt.Errorf("quote a payment of %s: %w", ps[0].From, err)
	}
	var t tx
	after := c.tipBlock().state.cloneState()
	signers := map[chain.Address]bool{}
	for _, p := range ps {
		m := Move{Kind: chain.Native, Contract: p.Contract, From: p.From, To: p.To, Amount: p.Amount}
		if err := c.checkPayment(p); err != nil {
			return chain.Fees{}, err
		}
		if err := after.applyMove(m); err != nil {
			return chain.Fees{}, err
		}
		t.moves = append(t.moves, m)
		signers[p.From] = true
		if p.Payer != "" {
			signers[p.Payer] = true
		}
	}
	if c.isSolana() {
		return solanaFees(len(ps), len(signers)), nil
	}
	return c.newFees(t.gasUsed())
}

// MinNativePayment implements chain.MinPayment.
func (c *Chain) MinNativePayment(ctx context.Context, to chain.Address) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return money.Zero, err
	}
	if _, err := c.onlineProviders(); err != nil {
		return money.Zero, fmt.Errorf("smallest payment to %s: %w", to, err)
	}
	return c.minPayment(to), nil
}

func (c *Chain) minPayment(to chain.Address) money.Amount {
	if c.tipBlock().state.balances[chain.Holding{Address: to}].IsZero() {
		return money.Units(max(1, c.conf.MinPayment))
	}
	return money.Units(1)
}

// checkPayment refuses an amount below the payee's minimum. It also refuses an amount outside the
// limits of a token's transfers, and then gives no cause, as tokens do.
func (c *Chain) checkPayment(p chain.Payment) error {
	if maximum, limited := c.transferMaxs[p.Contract]; limited && maximum.Less(p.Amount) {
		return &chain.RevertedError{Reason: "more than a transfer may be"}
	}
	if p.Amount.Less(c.transferMins[p.Contract]) {
		return &chain.RevertedError{Reason: "less than a transfer may be"}
	}
	if c.conf.MinPayment > 0 && p.Contract == "" && p.From != p.To && p.Amount.Less(c.minPayment(p.To)) {
		return &chain.RevertedError{Reason: "less than an account may hold", Cause: chain.CauseAmount}
	}
	return nil
}

// SetTransferMax makes a token refuse a higher amount when it is quoted.
func (c *Chain) SetTransferMax(contract chain.Address, maximum money.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transferMaxs[contract] = maximum
}

// SetTransferMin makes a token refuse a lower amount when it is quoted.
func (c *Chain) SetTransferMin(contract chain.Address, minimum money.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transferMins[contract] = minimum
}

// TransferFees implements chain.Sender.
func (c *Chain) TransferFees(ctx context.Context) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, err
	}
	if _, err := c.onlineProviders(); err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer: %w", err)
	}
	if c.isSolana() {
		return solanaFees(1, 2), nil
	}
	return c.newFees(tokenGas)
}

// newFees returns fees at which the next blocks contain the transaction, within the cap.
func (c *Chain) newFees(gas uint64) (chain.Fees, error) {
	feeCap := money.Units(c.conf.FeeCap)
	tip := money.Units(min(tipPerGas, c.conf.FeeCap))
	perGas, err := money.Units(2 * c.baseFee).Add(tip)
	if err != nil {
		return chain.Fees{}, err
	}
	if feeCap.Less(perGas) {
		perGas = feeCap
	}
	return chain.Fees{GasLimit: gas, TipCap: tip, FeeCap: perGas}, nil
}

// Bump implements chain.Sender.
func (c *Chain) Bump(ctx context.Context, last chain.Fees) (chain.Fees, bool, error) {
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, false, err
	}
	if c.isSolana() {
		return bumpSolana(last)
	}
	tip, err := raisePercent(last.TipCap, 13)
	if err != nil {
		return chain.Fees{}, false, err
	}
	perGas, err := raisePercent(last.FeeCap, 13)
	if err != nil {
		return chain.Fees{}, false, err
	}
	if money.Units(c.conf.FeeCap).Less(perGas) {
		return chain.Fees{}, false, nil
	}
	return chain.Fees{GasLimit: last.GasLimit, TipCap: tip, FeeCap: perGas}, true, nil
}

// Send implements chain.Sender. It returns the best of the providers' answers.
func (c *Chain) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Unknown, err.Error()
	}
	best, bestText := chain.Unknown, ""
	for _, p := range c.providers {
		answer, words := p.receiveTx(raw)
		if bestText == "" || best == chain.Unknown && answer != chain.Unknown {
			best, bestText = answer, words
		}
	}
	return best, bestText
}

func (p *Provider) receiveTx(raw []byte) (chain.Answer, string) {
	c := p.c
	if p.downErr != nil {
		return chain.Unknown, p.downErr.Error()
	}
	read := func() (*tx, error) { return decodeTx(c.conf.ChainID, raw) }
	if c.isSolana() {
		read = func() (*tx, error) { return c.decodeSolana(raw) }
	}
	t, err := read()
	if err != nil {
		return chain.Unknown, err.Error()
	}
	switch {
	case p.sendRefusal != "":
		return chain.Unknown, p.sendRefusal
	case p.swallow:
		c.swallowed[t.hash] = t
		return chain.Accepted, "accepted"
	case c.hasTx(t.hash):
		return chain.Known, "already known"
	}
	if err := c.acceptTx(t); err != nil {
		return chain.Unknown, err.Error()
	}
	if p.losesAnswers {
		return chain.Unknown, "unexpected EOF"
	}
	return chain.Accepted, "accepted"
}

func (c *Chain) hasTx(h chain.TxHash) bool {
	return slices.ContainsFunc(c.mempool, func(t *tx) bool { return t.hash == h })
}

// acceptTx adds a transaction to the pool by the rules of real nodes.
func (c *Chain) acceptTx(t *tx) error {
	if t.nonceAccount != "" {
		switch s := c.tipBlock().state; {
		case !s.isNext(t):
			return errors.New("blockhash not found")
		case s.balances[chain.Holding{Address: t.from}].Less(t.costMax):
			return errors.New("attempt to debit an account but found no record of a prior credit")
		}
		c.mempool = append(c.mempool, t) // with others for its slot: the first that is mined uses it
		return nil
	}
	if t.nonce < c.tipBlock().state.nonces[t.from] {
		return errors.New("nonce too low")
	}
	for i, waiting := range c.mempool {
		if waiting.from != t.from || waiting.nonce != t.nonce {
			continue
		}
		if waiting.hash == t.hash {
			return nil
		}
		tip, err := raisePercent(waiting.tip, 10)
		if err != nil {
			return err
		}
		perGas, err := raisePercent(waiting.feeCap, 10)
		if err != nil {
			return err
		}
		if t.tip.Less(tip) || t.feeCap.Less(perGas) {
			return errors.New("replacement transaction underpriced")
		}
		c.mempool = slices.Delete(c.mempool, i, i+1)
		break
	}
	if queued := slices.DeleteFunc(
		slices.Clone(c.mempool), func(w *tx) bool { return w.from != t.from },
	); c.conf.MempoolSlots > 0 && len(queued) >= c.conf.MempoolSlots {
		return errors.New("txpool is full")
	}
	need, err := t.feeCap.Mul(t.gasLimit)
	if err != nil {
		return err
	}
	if c.tipBlock().state.balances[chain.Holding{Address: t.from}].Less(need) {
		return errors.New("insufficient funds for gas * price + value")
	}
	c.mempool = append(c.mempool, t)
	return nil
}

// onlineProviders returns the providers that answer, at least one.
func (c *Chain) onlineProviders() ([]*Provider, error) {
	var online []*Provider
	var problem error
	for _, p := range c.providers {
		if p.downErr != nil {
			problem = errors.Join(problem, p.downErr)
			continue
		}
		online = append(online, p)
	}
	if len(online) == 0 {
		return nil, problem
	}
	return online, nil
}

// Account implements chain.Sender.
func (c *Chain) Account(ctx context.Context, a chain.Address, _ ...chain.Slot) (chain.Account, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Account{}, err
	}
	online, err := c.onlineProviders()
	if err != nil {
		return chain.Account{}, fmt.Errorf("account %s: %w", a, err)
	}
	var acc chain.Account
	for i, p := range online {
		latest, final := c.blocks[p.latestHeight()].state.nonces[a], c.blocks[p.finalHeight()].state.nonces[a]
		if i == 0 || latest < acc.Latest {
			acc.Latest = latest
		}
		if i == 0 || final < acc.Final {
			acc.Final = final
		}
	}
	if c.isSolana() {
		acc = chain.Account{KeyedSlots: true}
		acc.Slots, err = c.slotStates(a, online[0].latestHeight(), online[0].finalHeight())
	}
	return acc, err
}

// Outcome implements chain.Sender.
func (c *Chain) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	online, err := c.onlineProviders()
	if err != nil {
		return nil, fmt.Errorf("outcome of %v: %w", txs, err)
	}
	height := uint64(0)
	for _, provider := range online {
		height = max(height, provider.latestHeight())
	}
	for _, b := range c.blocks[:height+1] {
		for _, h := range txs {
			r, ok := b.receipts[h]
			if !ok {
				continue
			}
			o := &chain.Outcome{Tx: h, Block: b.Block, Succeeded: r.succeeded, Fee: r.fee}
			o.Paid = chain.MakesPayments(r.transfers, ps, func(moved chain.Transfer, p chain.Payment) bool {
				return moved.From == p.From && moved.To == p.To && moved.Contract == p.Contract &&
					moved.Amount == p.Amount
			})
			return o, nil
		}
	}
	return nil, nil
}
