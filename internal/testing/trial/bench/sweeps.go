package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// sweepEnv is a Solana chain with a treasury that has one nonce account and a token account.
type sweepEnv struct {
	node     *surfpool.Node
	chain    chain.Chain
	token    surfpool.Mint
	treasury chain.Address
	keys     map[chain.Address]ed25519.PrivateKey
	slots    uint64
}

// benchSweeps measures, for each family of chains, what it costs to sweep the balances of deposit
// addresses to the treasury or to pay them out.
func benchSweeps(ctx context.Context, w *benchEnv) error {
	for _, take := range []func(context.Context, *benchEnv) error{benchLamports, benchGas, benchOutputs} {
		if err := take(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// benchLamports lets a real node move the balances of deposit addresses to a treasury, with the
// worker's transactions and the naive way, in which each address pays its own fee. The figures come
// from the balances before and after.
func benchLamports(ctx context.Context, w *benchEnv) (err error) {
	s, err := newSweepEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Stop()) }()
	token, err := s.sweepNaively(ctx, s.token.Address)
	if err != nil {
		return err
	}
	coin, err := s.sweepNaively(ctx, "")
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what        string
		tokens, sol int
	}{{"USDC", 1, 0}, {"USDC", 99, 0}, {"SOL", 0, 99}, {"3 of USDC and 2 of SOL", 3, 2}} {
		ps, cost, err := s.sweepBatch(ctx, c.tokens, c.sol)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		n, naive := uint64(len(ps)), uint64(0)
		for _, p := range ps {
			if p.Contract == "" {
				naive += coin
			} else {
				naive += token
			}
		}
		r := row{
			figure:   fmt.Sprintf("lamports to sweep a deposit on Solana, %s, %d in a transaction", c.what, n),
			result:   fmt.Sprint(cost / n),
			compared: fmt.Sprintf("%.2f of the naive way, %d", float64(cost)/float64(naive), naive/n),
		}
		if n > 1 && c.tokens > 0 {
			r.target = formatTarget(cost < naive, "less than the naive way")
		}
		w.table.addRow(r)
	}
	return nil
}

func newSweepEnv(ctx context.Context) (s *sweepEnv, err error) {
	s = &sweepEnv{
		token: surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6},
		keys:  map[chain.Address]ed25519.PrivateKey{},
	}
	if s.node, err = surfpool.Start(ctx, surfpool.Config{}); err != nil {
		return nil, err
	}
	if err = s.prepareEnv(ctx); err != nil {
		return nil, errors.Join(err, s.node.Stop())
	}
	return s, nil
}

func (s *sweepEnv) prepareEnv(ctx context.Context) error {
	client, err := solana.New(ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{s.node.URL}, Quorum: 1,
		Mints: map[chain.Address]solana.Mint{s.token.Address: {Program: s.token.Program, Decimals: s.token.Decimals}},
	})
	if err != nil {
		return err
	}
	s.chain = client.Chain()
	if s.treasury, err = s.newAccount(); err != nil {
		return err
	}
	if err := s.node.SetLamports(ctx, s.treasury, 100*surfpool.LamportsPerSOL); err != nil {
		return err
	}
	if err := s.node.MintTo(ctx, s.token, s.treasury, 1); err != nil {
		return err
	}
	if err := s.node.MineBlocks(ctx, surfpool.Finality); err != nil {
		return err
	}
	p, err := s.chain.NonceAccounts.Creation(s.treasury, 0)
	if err != nil {
		return err
	}
	_, err = s.sendPayments(ctx, chain.Slot{Key: string(p.To)}, p)
	return err
}

func (s *sweepEnv) newAccount() (chain.Address, error) {
	k, err := surfpool.NewKey()
	if err != nil {
		return "", err
	}
	a := surfpool.AddressOf(k)
	s.keys[a] = k
	return a, nil
}

// newDeposit pays something to a new address, and returns the payment that sweeps it.
func (s *sweepEnv) newDeposit(ctx context.Context, contract chain.Address) (chain.Payment, error) {
	const units = 1_000_000_000
	depositAddress, err := s.newAccount()
	if err != nil {
		return chain.Payment{}, err
	}
	if contract == "" {
		err = s.node.SetLamports(ctx, depositAddress, units)
	} else {
		err = s.node.MintTo(ctx, s.token, depositAddress, units)
	}
	return chain.Payment{
		From: depositAddress, To: s.treasury, Payer: s.treasury, Contract: contract, Amount: money.Units(units),
	}, err
}

// sweepBatch sweeps, in one transaction, as many of the deposits as fit.
func (s *sweepEnv) sweepBatch(ctx context.Context, tokens, coin int) (ps []chain.Payment, cost uint64, err error) {
	for _, kind := range []struct {
		contract chain.Address
		n        int
	}{{s.token.Address, tokens}, {"", coin}} {
		for range kind.n {
			p, err := s.newDeposit(ctx, kind.contract)
			if err != nil {
				return nil, 0, err
			}
			if s.chain.Sender.BatchSize(append(ps, p)) == len(ps) {
				break
			}
			ps = append(ps, p)
		}
	}
	if err := s.node.MineBlocks(ctx, surfpool.Finality); err != nil {
		return nil, 0, err
	}
	cost, err = s.sendNext(ctx, ps...)
	return ps, cost, err
}

// sendNext makes payments with the next use of the treasury's nonce account.
func (s *sweepEnv) sendNext(ctx context.Context, ps ...chain.Payment) (cost uint64, err error) {
	acct, err := s.chain.Sender.Account(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	if len(acct.Slots) == 0 {
		return 0, errors.New("the treasury has no place")
	}
	return s.sendPayments(ctx, chain.Slot{Nonce: s.slots, Key: acct.Slots[0].Latest}, ps...)
}

// sendPayments does what the worker and the signer do. It returns how much more the treasury lost
// than the payments say, by its balance.
func (s *sweepEnv) sendPayments(ctx context.Context, slot chain.Slot, ps ...chain.Payment) (cost uint64, err error) {
	s.slots++
	balanceBefore, err := s.readLamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	fees, err := s.chain.Sender.Quote(ctx, ps...)
	if err != nil {
		return 0, err
	}
	payload, err := s.chain.Sender.Build(s.treasury, slot, fees, ps...)
	if err != nil {
		return 0, err
	}
	signers, err := solanatx.Signers(payload)
	if err != nil {
		return 0, err
	}
	var signatures [][ed25519.SignatureSize]byte
	for _, a := range signers {
		signatures = append(signatures, [ed25519.SignatureSize]byte(ed25519.Sign(s.keys[a], payload)))
	}
	raw, tx, err := solanatx.AttachSignatures(payload, signatures...)
	if err != nil {
		return 0, err
	}
	if a, answer := s.chain.Sender.Send(ctx, raw); a != chain.Accepted {
		return 0, fmt.Errorf("it was not taken: %s", answer)
	}
	if err := s.node.MineBlocks(ctx, surfpool.Finality); err != nil {
		return 0, err
	}
	o, err := s.chain.Sender.Outcome(ctx, []chain.TxHash{tx}, ps...)
	if err != nil {
		return 0, err
	}
	if o == nil || !o.Paid {
		return 0, fmt.Errorf("%s did not pay: %+v", tx, o)
	}
	balanceAfter, err := s.readLamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	for _, p := range ps {
		n, _ := p.Amount.Uint64()
		switch {
		case p.Contract == "" && p.To == s.treasury:
			balanceBefore += n
		case p.Contract == "" && p.From == s.treasury:
			balanceBefore -= n
		}
	}
	return balanceBefore - balanceAfter, nil
}

// sweepNaively returns what a deposit costs when its own address pays. For a token, coin is sent to
// the address for the fee and the minimum balance, and then the address pays. For SOL, the fee is
// taken from the deposit.
func (s *sweepEnv) sweepNaively(ctx context.Context, contract chain.Address) (uint64, error) {
	p, err := s.newDeposit(ctx, contract)
	if err != nil {
		return 0, err
	}
	units, _ := p.Amount.Uint64()
	balanceBefore, err := s.readLamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	sweep := surfpool.TransferLamports(p.From, s.treasury, units-solanatx.SignatureFee)
	if contract == "" {
		balanceBefore += units
	} else {
		const gas = solanatx.WalletRent + solanatx.SignatureFee
		if _, err := s.node.SendAndCheck(ctx, surfpool.Transaction{
			Keys:         []ed25519.PrivateKey{s.keys[s.treasury]},
			Instructions: []surfpool.Instruction{surfpool.TransferLamports(s.treasury, p.From, gas)},
		}); err != nil {
			return 0, err
		}
		sweep = s.token.TransferTokens(
			s.token.AssociatedAccount(p.From), s.token.AssociatedAccount(s.treasury), p.From, units,
		)
	}
	if _, err := s.node.SendAndCheck(ctx, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{s.keys[p.From]}, Instructions: []surfpool.Instruction{sweep},
	}); err != nil {
		return 0, err
	}
	balanceAfter, err := s.readLamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	left, err := s.readLamports(ctx, p.From)
	return balanceBefore - balanceAfter - left, err
}

func (s *sweepEnv) readLamports(ctx context.Context, address chain.Address) (uint64, error) {
	var response struct{ Value uint64 }
	err := s.node.RPC.CallContext(ctx, &response, "getBalance", address, map[string]string{"commitment": "processed"})
	return response.Value, err
}
