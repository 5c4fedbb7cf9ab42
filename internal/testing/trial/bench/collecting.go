package main

import (
	"context"
	"errors"
	"fmt"
)

// What coins and fees are taken to cost. They move every day, so the rows name them: who has other ones multiplies.
const (
	etherDollars, solDollars, bitcoinDollars = 3000, 150, 60_000

	ethereumGwei, baseGwei = 1.0, 0.01
	satoshiPerVByte        = 5

	gweiPerEther, lamportsPerSOL, satoshiPerBitcoin = 1e9, 1e9, 1e8

	// sharedPayments is how many payments one sweep of a shared address moves in these rows.
	sharedPayments = 24
	// costShareMax is the share of its price up to which a checkout offers a way to pay, unless a shop sets another.
	// The service judges by the present fee of a transfer.
	costShareMax = 0.03
	// inputVBytes is what an output of the kind that Coffer receives adds to the payment that spends it.
	inputVBytes = 68
)

// checkoutPrices are the prices of the checkouts of the rows, in dollars.
var checkoutPrices = []float64{5, 25, 250}

// benchCollecting measures what it costs to move the payment of a checkout to where it can be spent, and compares that
// with the prices of checkouts. The service sweeps on real nodes, and the figures come from receipts and balances.
func benchCollecting(ctx context.Context, w *benchEnv) (err error) {
	token, err := w.benchGasOf(ctx, "collecttoken", gasTokenMint, 1, 1, 1, "1")
	if err != nil {
		return fmt.Errorf("collect a token on Ethereum: %w", err)
	}
	coin, err := w.benchGasOf(ctx, "collectcoin", gasNativeMint, 1, 1, 1, "1")
	if err != nil {
		return fmt.Errorf("collect ether: %w", err)
	}
	s, err := newSweepEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Stop()) }()
	_, lamports, err := s.sweepBatch(ctx, 1, 0)
	if err != nil {
		return fmt.Errorf("collect a token on Solana: %w", err)
	}
	ofGas := func(gas uint64, gwei float64) float64 { return float64(gas) * gwei / gweiPerEther * etherDollars }
	ofSolana := float64(lamports) / lamportsPerSOL * solDollars
	for _, c := range []struct {
		way, measured string
		dollars       float64
	}{
		{"USDC on Ethereum", fmt.Sprintf("%d gas at %g gwei", token, ethereumGwei), ofGas(token, ethereumGwei)},
		{"ETH on Ethereum", fmt.Sprintf("%d gas at %g gwei", coin, ethereumGwei), ofGas(coin, ethereumGwei)},
		{"USDC on Base", fmt.Sprintf("%d gas at %g gwei", token, baseGwei), ofGas(token, baseGwei)},
		{"ETH on Base", fmt.Sprintf("%d gas at %g gwei", coin, baseGwei), ofGas(coin, baseGwei)},
		{"USDC on Solana, by an address of its own", fmt.Sprintf("%d lamports", lamports), ofSolana},
		{
			"USDC on Solana, by the shared address",
			fmt.Sprintf("%d lamports for %d payments", lamports, sharedPayments), ofSolana / sharedPayments,
		},
		{
			"BTC",
			fmt.Sprintf("no sweep; %d vB at %d satoshi in the payment that spends it", inputVBytes, satoshiPerVByte),
			inputVBytes * satoshiPerVByte / satoshiPerBitcoin * bitcoinDollars,
		},
	} {
		shares := ""
		for _, price := range checkoutPrices {
			shares += fmt.Sprintf(", %.4f %% of %g", c.dollars/price*100, price)
		}
		w.table.addRow(row{
			figure: "to collect the payment of a checkout, " + c.way, result: fmt.Sprintf("%.5f dollars", c.dollars),
			compared: c.measured + shares, target: fmt.Sprintf("3 %% of %.3f", c.dollars/costShareMax),
		})
	}
	return nil
}
