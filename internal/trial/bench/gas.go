package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

const (
	gasCoin  = 1
	gasToken = 2
	// What a deposit is of. One of dollars is worth no sweep, several are: a sweep moves
	// ten times its fee.
	depositDollars = 50_000_000 // units
	depositWei     = params.Ether / 10
)

// gas has the service on a real node take what customers pay to their addresses to the
// treasury, as it does by itself, and counts the gas in the receipts of all its
// transactions, those that bring gas to addresses among them. The naive way has a
// transaction bring gas for every deposit, and another one move it.
func gas(ctx context.Context, w *world) (err error) {
	for i, c := range []struct {
		what                    string
		mintID                  int
		addresses, each, rounds int
		dollars                 string // of the coin: what makes a sweep dear or cheap
	}{
		{"USDC, each on an address of its own", gasToken, 5, 1, 1, "1"},
		{"USDC, 24 to each address", gasToken, 5, 4, 6, "300000"},
		{"ETH, each on an address of its own", gasCoin, 5, 1, 1, "1"},
		{"ETH, 24 to each address", gasCoin, 5, 4, 6, "1"},
	} {
		ours, err := w.gasOf(ctx, fmt.Sprint("gas", i), c.mintID, c.addresses, c.each, c.rounds, c.dollars)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		naive, err := naiveGas(ctx, c.mintID)
		if err != nil {
			return fmt.Errorf("%s, the naive way: %w", c.what, err)
		}
		n, target := c.addresses*c.each*c.rounds, ""
		if c.each > 1 {
			target = "less than the naive way"
		}
		w.table.add(beside("to sweep a deposit on Ethereum, "+c.what, n, "gas", ours, naive*uint64(n), target))
	}
	return nil
}

// street is a chain with a token.
type street struct {
	*anvil.Node
	token common.Address
}

func newStreet(ctx context.Context) (s street, err error) {
	if s.Node, err = anvil.Start(ctx, anvil.Config{SlotsInEpoch: 1}); err != nil {
		return s, err
	}
	if s.token, err = s.Deploy(ctx, evmtoken.Token, "A token", "TOK", uint8(6)); err == nil {
		_, err = s.Do(ctx, s.token, nil, evmtoken.Token.Call("mint", s.FaucetAddress(), big.NewInt(params.Ether)))
	}
	if err != nil {
		return s, errors.Join(err, s.Stop())
	}
	return s, nil
}

// pay is a deposit.
func (s street) pay(ctx context.Context, mintID int, to chain.Address) (err error) {
	at := common.HexToAddress(string(to))
	if mintID == gasCoin {
		_, err = s.Pay(ctx, at, big.NewInt(depositWei))
	} else {
		_, err = s.PayToken(ctx, s.token, at, big.NewInt(depositDollars))
	}
	return err
}

// gasOf is the gas of all that the service sent until everything was at the treasury.
func (w *world) gasOf(ctx context.Context, name string, mintID, addresses, each, rounds int, dollars string) (sum uint64, err error) {
	s, err := newStreet(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	on, err := evm.New(ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{s.URL}, Agree: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	if err != nil {
		return 0, err
	}
	start, err := s.Eth.BlockNumber(ctx)
	if err != nil {
		return 0, err
	}
	h, err := w.build(ctx, plot{
		name: name, on: on, start: start, mine: func(ctx context.Context) error { return s.Mine(ctx, 1) },
		policy: local.ChainPolicy{SignerID: fmt.Sprint(anvil.DefaultChainID), FeeMax: money.Units(params.Ether / 100), GasMax: money.Units(params.Ether), Unlimited: true},
		mints: []mint.Mint{
			{ID: gasCoin, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18, Finality: "FINALIZED"},
			{ID: gasToken, Kind: mint.Token, Contract: evmtx.Canonical(s.token), Symbol: "USDC", Name: "USD Coin", Decimals: 6, Finality: "FINALIZED"},
		},
		prices: map[int]money.USD{gasCoin: money.MustParseUSD(dollars), gasToken: money.MustParseUSD("1")},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	treasury := common.HexToAddress(string(h.treasury.Address))
	if _, err := s.Pay(ctx, treasury, big.NewInt(params.Ether)); err != nil {
		return 0, err
	}
	if _, err := s.PayToken(ctx, s.token, treasury, big.NewInt(1)); err != nil { // as every treasury but a new one
		return 0, err
	}
	var to []chain.Address
	for i := range addresses {
		a, err := h.address(ctx, fmt.Sprint("c", i))
		if err != nil {
			return 0, err
		}
		to = append(to, a.Address)
	}
	for round := 1; round <= rounds; round++ {
		for range each {
			for _, a := range to {
				if err := s.pay(ctx, mintID, a); err != nil {
					return 0, err
				}
			}
		}
		err := h.until(ctx, addresses*round, "sweeps are done", `SELECT count(*) FROM sweeps WHERE status = 'DONE'`)
		if err != nil {
			return 0, err
		}
	}
	hashes, err := h.hashes(ctx, signer.Sweep, signer.Gas)
	if err != nil {
		return 0, err
	}
	for _, hash := range hashes {
		r, err := s.Receipt(ctx, common.HexToHash(hash))
		if err != nil {
			return 0, err
		}
		sum += r.GasUsed
	}
	return sum, nil
}

// naiveGas is what one deposit costs the naive way.
func naiveGas(ctx context.Context, mintID int) (sum uint64, err error) {
	s, err := newStreet(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	treasury, err := anvil.NewKey()
	if err != nil {
		return 0, err
	}
	from, err := anvil.NewKey()
	if err != nil {
		return 0, err
	}
	at, home := crypto.PubkeyToAddress(from.PublicKey), crypto.PubkeyToAddress(treasury.PublicKey)
	if _, err := s.Pay(ctx, home, big.NewInt(params.Ether)); err != nil {
		return 0, err
	}
	if _, err := s.PayToken(ctx, s.token, home, big.NewInt(1)); err != nil {
		return 0, err
	}
	if err := s.pay(ctx, mintID, evmtx.Canonical(at)); err != nil {
		return 0, err
	}
	brings, err := s.Pay(ctx, at, big.NewInt(params.Ether)) // more than it needs: what counts is the gas
	if err != nil {
		return 0, err
	}
	to, value, data := home, big.NewInt(depositWei), []byte(nil)
	if mintID == gasToken {
		to, value, data = s.token, nil, evmtoken.Token.Call("transfer", home, big.NewInt(depositDollars))
	}
	hash, err := s.SendFrom(ctx, from, &to, value, data)
	if err != nil {
		return 0, err
	}
	moves, err := s.Receipt(ctx, hash)
	if err != nil {
		return 0, err
	}
	return brings.GasUsed + moves.GasUsed, nil
}
