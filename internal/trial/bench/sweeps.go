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

// sweeping is a chain of Solana with a treasury that has one place and an account for
// the token.
type sweeping struct {
	node     *surfpool.Node
	chain    chain.Chain
	token    surfpool.Mint
	treasury chain.Address
	keys     map[chain.Address]ed25519.PrivateKey
	slots    uint64
}

// sweeps tells on each family of chains what it costs to have at the treasury, or to pay
// out, what lies on deposit addresses.
func sweeps(ctx context.Context, w *world) error {
	for _, take := range []func(context.Context, *world) error{lamports, gas, coins} {
		if err := take(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// lamports has a real node take what lies on deposit addresses to a treasury, as the desk's
// transactions do it and the naive way, in which each address pays for itself. The figures
// are of the balances before and after.
func lamports(ctx context.Context, w *world) (err error) {
	s, err := newSweeping(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Stop()) }()
	token, err := s.naive(ctx, s.token.Address)
	if err != nil {
		return err
	}
	coin, err := s.naive(ctx, "")
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what        string
		tokens, sol int
	}{{"USDC", 1, 0}, {"USDC", 99, 0}, {"SOL", 0, 99}, {"3 of USDC and 2 of SOL", 3, 2}} {
		ps, cost, err := s.together(ctx, c.tokens, c.sol)
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
			figure: fmt.Sprintf("lamports to sweep a deposit on Solana, %s, %d in a transaction", c.what, n), here: fmt.Sprint(cost / n),
			compared: fmt.Sprintf("%.2f of the naive way, %d", float64(cost)/float64(naive), naive/n),
		}
		if n > 1 && c.tokens > 0 {
			r.target = reached(cost < naive, "less than the naive way")
		}
		w.table.add(r)
	}
	return nil
}

func newSweeping(ctx context.Context) (s *sweeping, err error) {
	s = &sweeping{token: surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}, keys: map[chain.Address]ed25519.PrivateKey{}}
	if s.node, err = surfpool.Start(ctx, surfpool.Config{}); err != nil {
		return nil, err
	}
	if err = s.furnish(ctx); err != nil {
		return nil, errors.Join(err, s.node.Stop())
	}
	return s, nil
}

func (s *sweeping) furnish(ctx context.Context) error {
	client, err := solana.New(ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{s.node.URL}, Agree: 1,
		Mints: map[chain.Address]solana.Mint{s.token.Address: {Program: s.token.Program, Decimals: s.token.Decimals}},
	})
	if err != nil {
		return err
	}
	s.chain = client.Chain()
	if s.treasury, err = s.account(); err != nil {
		return err
	}
	if err := s.node.SetLamports(ctx, s.treasury, 100*surfpool.LamportsPerSOL); err != nil {
		return err
	}
	if err := s.node.MintTo(ctx, s.token, s.treasury, 1); err != nil {
		return err
	}
	if err := s.node.Mine(ctx, surfpool.Finality); err != nil {
		return err
	}
	p, err := s.chain.Places.Place(s.treasury, 0)
	if err != nil {
		return err
	}
	_, err = s.send(ctx, chain.Slot{Lease: string(p.To)}, p)
	return err
}

func (s *sweeping) account() (chain.Address, error) {
	k, err := surfpool.NewKey()
	if err != nil {
		return "", err
	}
	a := surfpool.AddressOf(k)
	s.keys[a] = k
	return a, nil
}

// deposit is a new address with something on it, and what sweeps it.
func (s *sweeping) deposit(ctx context.Context, contract chain.Address) (chain.Payment, error) {
	const units = 1_000_000_000
	from, err := s.account()
	if err != nil {
		return chain.Payment{}, err
	}
	if contract == "" {
		err = s.node.SetLamports(ctx, from, units)
	} else {
		err = s.node.MintTo(ctx, s.token, from, units)
	}
	return chain.Payment{From: from, To: s.treasury, Payer: s.treasury, Contract: contract, Amount: money.Units(units)}, err
}

// together sweeps as many deposits as fit of so many.
func (s *sweeping) together(ctx context.Context, tokens, coin int) (ps []chain.Payment, cost uint64, err error) {
	for _, of := range []struct {
		contract chain.Address
		n        int
	}{{s.token.Address, tokens}, {"", coin}} {
		for range of.n {
			p, err := s.deposit(ctx, of.contract)
			if err != nil {
				return nil, 0, err
			}
			if s.chain.Sender.Fits(append(ps, p)) == len(ps) {
				break
			}
			ps = append(ps, p)
		}
	}
	if err := s.node.Mine(ctx, surfpool.Finality); err != nil {
		return nil, 0, err
	}
	acct, err := s.chain.Sender.Account(ctx, s.treasury)
	if err != nil {
		return nil, 0, err
	}
	if len(acct.Leases) == 0 {
		return nil, 0, errors.New("the treasury has no place")
	}
	cost, err = s.send(ctx, chain.Slot{Nonce: s.slots, Lease: acct.Leases[0].Latest}, ps...)
	return ps, cost, err
}

// send does what the desk and the signer do, and tells by the balance what the treasury
// has less for it than the payments say.
func (s *sweeping) send(ctx context.Context, at chain.Slot, ps ...chain.Payment) (cost uint64, err error) {
	s.slots++
	before, err := s.lamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	fees, err := s.chain.Sender.Quote(ctx, ps...)
	if err != nil {
		return 0, err
	}
	payload, err := s.chain.Sender.Build(s.treasury, at, fees, ps...)
	if err != nil {
		return 0, err
	}
	by, err := solanatx.Signers(payload)
	if err != nil {
		return 0, err
	}
	var signatures [][ed25519.SignatureSize]byte
	for _, a := range by {
		signatures = append(signatures, [ed25519.SignatureSize]byte(ed25519.Sign(s.keys[a], payload)))
	}
	raw, tx, err := solanatx.Attach(payload, signatures...)
	if err != nil {
		return 0, err
	}
	if a, said := s.chain.Sender.Send(ctx, raw); a != chain.Accepted {
		return 0, fmt.Errorf("it was not taken: %s", said)
	}
	if err := s.node.Mine(ctx, surfpool.Finality); err != nil {
		return 0, err
	}
	o, err := s.chain.Sender.Outcome(ctx, []chain.TxHash{tx}, ps...)
	if err != nil {
		return 0, err
	}
	if o == nil || !o.Paid {
		return 0, fmt.Errorf("%s did not pay: %+v", tx, o)
	}
	after, err := s.lamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	for _, p := range ps {
		if p.Contract == "" && p.To == s.treasury {
			n, _ := p.Amount.Uint64()
			before += n
		}
	}
	return before - after, nil
}

// naive is what a deposit costs where its own address has to pay. Of a token: coin is sent
// there, enough for the fee and for what has to stay, and then it pays. Of SOL: the fee is
// taken from it.
func (s *sweeping) naive(ctx context.Context, contract chain.Address) (uint64, error) {
	p, err := s.deposit(ctx, contract)
	if err != nil {
		return 0, err
	}
	units, _ := p.Amount.Uint64()
	before, err := s.lamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	sweep := surfpool.Transfer(p.From, s.treasury, units-solanatx.SignatureFee)
	if contract == "" {
		before += units
	} else {
		const gas = solanatx.WalletRent + solanatx.SignatureFee
		if _, err := s.node.Do(ctx, surfpool.Transaction{
			Keys: []ed25519.PrivateKey{s.keys[s.treasury]}, Instructions: []surfpool.Instruction{surfpool.Transfer(s.treasury, p.From, gas)},
		}); err != nil {
			return 0, err
		}
		sweep = s.token.Transfer(s.token.Account(p.From), s.token.Account(s.treasury), p.From, units)
	}
	if _, err := s.node.Do(ctx, surfpool.Transaction{Keys: []ed25519.PrivateKey{s.keys[p.From]}, Instructions: []surfpool.Instruction{sweep}}); err != nil {
		return 0, err
	}
	after, err := s.lamports(ctx, s.treasury)
	if err != nil {
		return 0, err
	}
	left, err := s.lamports(ctx, p.From)
	return before - after - left, err
}

func (s *sweeping) lamports(ctx context.Context, of chain.Address) (uint64, error) {
	var got struct{ Value uint64 }
	err := s.node.RPC.CallContext(ctx, &got, "getBalance", of, map[string]string{"commitment": "processed"})
	return got.Value, err
}
