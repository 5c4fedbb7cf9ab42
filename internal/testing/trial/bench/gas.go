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
	gasNativeMint = 1
	gasTokenMint  = 2
	// The amount of a deposit. A deposit of dollars is worth no sweep, several are: a sweep moves
	// ten times its fee.
	depositDollars = 50_000_000 // units
	depositWei     = params.Ether / 10
)

// benchGas lets the service on a real node sweep what customers pay to their addresses to the
// treasury. It counts the gas in the receipts of all its transactions, gas top-ups among them. The
// naive way sends a gas top-up for every deposit, and sweeps it with another transaction.
func benchGas(ctx context.Context, w *benchEnv) (err error) {
	for i, c := range []struct {
		what                    string
		mintID                  int
		addresses, each, rounds int
		dollars                 string // the price of the coin: it makes a sweep expensive or cheap
	}{
		{"USDC, each on an address of its own", gasTokenMint, 5, 1, 1, "1"},
		{"USDC, 24 to each address", gasTokenMint, 5, 4, 6, "300000"},
		{"ETH, each on an address of its own", gasNativeMint, 5, 1, 1, "1"},
		{"ETH, 24 to each address", gasNativeMint, 5, 4, 6, "1"},
	} {
		ownGas, err := w.benchGasOf(ctx, fmt.Sprint("gas", i), c.mintID, c.addresses, c.each, c.rounds, c.dollars)
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
		w.table.addRow(compareToNaive(
			"to sweep a deposit on Ethereum, "+c.what, n, "gas", ownGas, naive*uint64(n), target,
		))
	}
	return nil
}

// tokenChain is a chain with a token.
type tokenChain struct {
	*anvil.Node
	token common.Address
}

func newTokenChain(ctx context.Context) (s tokenChain, err error) {
	if s.Node, err = anvil.Start(ctx, anvil.Config{SlotsInEpoch: 1}); err != nil {
		return s, err
	}
	if s.token, err = s.DeployContract(ctx, evmtoken.Token, "A token", "TOK", uint8(6)); err == nil {
		_, err = s.SendAndWait(
			ctx, s.token, nil, evmtoken.Token.CallData("mint", s.FaucetAddress(), big.NewInt(params.Ether)),
		)
	}
	if err != nil {
		return s, errors.Join(err, s.Stop())
	}
	return s, nil
}

// payDeposit pays one deposit.
func (s tokenChain) payDeposit(ctx context.Context, mintID int, recipient chain.Address) (err error) {
	address := common.HexToAddress(string(recipient))
	if mintID == gasNativeMint {
		_, err = s.PayCoin(ctx, address, big.NewInt(depositWei))
	} else {
		_, err = s.PayToken(ctx, s.token, address, big.NewInt(depositDollars))
	}
	return err
}

// benchGasOf returns the gas of all that the service sent until everything was at the treasury.
func (w *benchEnv) benchGasOf(
	ctx context.Context, name string, mintID, addresses, perAddress, rounds int, dollars string,
) (sum uint64, err error) {
	s, err := newTokenChain(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	chainConf, err := evm.New(ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{s.URL},
		Quorum: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	if err != nil {
		return 0, err
	}
	start, err := s.Eth.BlockNumber(ctx)
	if err != nil {
		return 0, err
	}
	h, err := w.newServiceEnv(ctx, envConfig{
		name: name, chainConf: chainConf, startHeight: start,
		mineBlock: func(ctx context.Context) error { return s.MineBlocks(ctx, 1) },
		policy: local.ChainPolicy{
			SignerID: fmt.Sprint(anvil.DefaultChainID), FeeMax: money.Units(params.Ether / 100),
			GasMax: money.Units(params.Ether), Unlimited: true,
		},
		mints: []mint.Mint{
			{ID: gasNativeMint, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18, Finality: "FINALIZED"},
			{
				ID: gasTokenMint, Kind: mint.Token, Contract: evmtx.Canonical(s.token), Symbol: "USDC",
				Name: "USD Coin", Decimals: 6, Finality: "FINALIZED",
			},
		},
		prices: map[int]money.USD{gasNativeMint: money.MustParseUSD(dollars), gasTokenMint: money.MustParseUSD("1")},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.closeAll()) }()
	treasury := common.HexToAddress(string(h.treasury.Address))
	if _, err := s.PayCoin(ctx, treasury, big.NewInt(params.Ether)); err != nil {
		return 0, err
	}
	if _, err := s.PayToken(ctx, s.token, treasury, big.NewInt(1)); err != nil { // as at every treasury but a new one
		return 0, err
	}
	var depositAddresses []chain.Address
	for i := range addresses {
		a, err := h.createDepositAddress(ctx, fmt.Sprint("c", i))
		if err != nil {
			return 0, err
		}
		depositAddresses = append(depositAddresses, a.Address)
	}
	for round := 1; round <= rounds; round++ {
		for range perAddress {
			for _, a := range depositAddresses {
				if err := s.payDeposit(ctx, mintID, a); err != nil {
					return 0, err
				}
			}
		}
		err := h.stepUntil(ctx, addresses*round, "sweeps are done", `SELECT count(*) FROM sweeps WHERE status = 'DONE'`)
		if err != nil {
			return 0, err
		}
	}
	hashes, err := h.listTxHashes(ctx, signer.Sweep, signer.GasTopUp)
	if err != nil {
		return 0, err
	}
	for _, hash := range hashes {
		r, err := s.WaitReceipt(ctx, common.HexToHash(hash))
		if err != nil {
			return 0, err
		}
		sum += r.GasUsed
	}
	return sum, nil
}

// naiveGas returns the gas that one deposit costs the naive way.
func naiveGas(ctx context.Context, mintID int) (sum uint64, err error) {
	s, err := newTokenChain(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	treasury, err := anvil.NewKey()
	if err != nil {
		return 0, err
	}
	depositor, err := anvil.NewKey()
	if err != nil {
		return 0, err
	}
	depositAddress, home := crypto.PubkeyToAddress(depositor.PublicKey), crypto.PubkeyToAddress(treasury.PublicKey)
	if _, err := s.PayCoin(ctx, home, big.NewInt(params.Ether)); err != nil {
		return 0, err
	}
	if _, err := s.PayToken(ctx, s.token, home, big.NewInt(1)); err != nil {
		return 0, err
	}
	if err := s.payDeposit(ctx, mintID, evmtx.Canonical(depositAddress)); err != nil {
		return 0, err
	}
	// More than it needs: the bench counts the gas.
	topUp, err := s.PayCoin(ctx, depositAddress, big.NewInt(params.Ether))
	if err != nil {
		return 0, err
	}
	target, value, data := home, big.NewInt(depositWei), []byte(nil)
	if mintID == gasTokenMint {
		target, value, data = s.token, nil, evmtoken.Token.CallData("transfer", home, big.NewInt(depositDollars))
	}
	hash, err := s.SendTxFrom(ctx, depositor, &target, value, data)
	if err != nil {
		return 0, err
	}
	sweep, err := s.WaitReceipt(ctx, hash)
	if err != nil {
		return 0, err
	}
	return topUp.GasUsed + sweep.GasUsed, nil
}
