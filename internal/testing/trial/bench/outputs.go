package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

const (
	btcMint           = 1
	btcConfirmations  = 3
	depositSatoshi    = 1_000_000
	withdrawalSatoshi = 600_000
)

// benchOutputs lets the service pay withdrawals on a real node out of what customers paid in. It
// counts the virtual bytes that the node reports for its transactions. The naive way sweeps every
// deposit to the treasury first and pays from there.
func benchOutputs(ctx context.Context, w *benchEnv) error {
	naive, err := naiveOutputs(ctx)
	if err != nil {
		return fmt.Errorf("the naive way: %w", err)
	}
	for _, n := range []int{1, 10} {
		ownBytes, txs, err := w.benchOutputsOf(ctx, n)
		if err != nil {
			return fmt.Errorf("%d withdrawals: %w", n, err)
		}
		w.table.addRow(compareToNaive(fmt.Sprintf(
			"for a deposit that is withdrawn on Bitcoin, %d at once in %d transaction", n, txs,
		),
			n, "virtual bytes", ownBytes, naive*uint64(n), "less than the naive way"))
	}
	return nil
}

func txSize(ctx context.Context, n *btcd.Node, hash string) (uint64, error) {
	var tx struct{ Vsize uint64 }
	err := n.CallRPC(ctx, &tx, "getrawtransaction", hash, 1)
	return tx.Vsize, err
}

// benchOutputsOf returns the size of all transactions that the service sent until count deposits
// were withdrawn.
func (w *benchEnv) benchOutputsOf(ctx context.Context, count int) (sum uint64, txs int, err error) {
	n, err := btcd.Start(ctx, btcd.Config{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	u, err := url.Parse(n.URL)
	if err != nil {
		return 0, 0, err
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	chainConf, err := bitcoin.New(ctx, bitcoin.Config{
		Network: chain.Local, Endpoints: []string{u.String()}, Quorum: 1, Confirmations: btcConfirmations,
	})
	if err != nil {
		return 0, 0, err
	}
	start, err := n.TipHeight(ctx)
	if err != nil {
		return 0, 0, err
	}
	costMax := money.Units(bitcoin.CostMaxDefault)
	h, err := w.newServiceEnv(ctx, envConfig{
		name: fmt.Sprint("coins", count), chainConf: chainConf, startHeight: uint64(start),
		mineBlock: func(ctx context.Context) error { _, err := n.MineBlocks(ctx, 1); return err },
		policy: local.ChainPolicy{
			SignerID: chaincfg.RegressionNetParams.GenesisHash.String(), FeeMax: costMax, GasMax: costMax,
			Unlimited: true,
		},
		mints: []mint.Mint{{
			ID: btcMint, Kind: mint.Native, Symbol: "BTC", Name: "Bitcoin", Decimals: 8, Finality: "DEPTH",
			ConfirmationsRequired: btcConfirmations,
		}},
		prices: map[int]money.USD{btcMint: money.MustParseUSD("1")},
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.closeAll()) }()
	if _, err := n.PayAddress(ctx, h.treasury.Address, 100_000); err != nil { // for fees
		return 0, 0, err
	}
	for i := range count {
		a, err := h.createDepositAddress(ctx, fmt.Sprint("c", i))
		if err != nil {
			return 0, 0, err
		}
		if _, err := n.PayAddress(ctx, a.Address, depositSatoshi); err != nil {
			return 0, 0, err
		}
	}
	if err := h.stepUntil(
		ctx, count+1, "coins are there", `SELECT count(*) FROM utxos WHERE status = 'FREE'`,
	); err != nil {
		return 0, 0, err
	}
	for i := range count {
		k, err := btcd.NewKey()
		if err != nil {
			return 0, 0, err
		}
		if err := h.requestWithdrawal(
			ctx, fmt.Sprint("c", i), btcMint, withdrawalSatoshi, btcd.KeyAddress(k),
		); err != nil {
			return 0, 0, err
		}
	}
	if err := h.stepUntil(
		ctx, count, "withdrawals are paid", `SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`,
	); err != nil {
		return 0, 0, err
	}
	hashes, err := h.listTxHashes(ctx, signer.Payment)
	if err != nil {
		return 0, 0, err
	}
	for _, hash := range hashes {
		size, err := txSize(ctx, n, hash)
		if err != nil {
			return 0, 0, err
		}
		sum += size
	}
	return sum, len(hashes), nil
}

// naiveOutputs returns the virtual bytes that a withdrawn deposit costs the naive way: the deposit
// is swept to the treasury, whose output then pays and receives the change.
func naiveOutputs(ctx context.Context) (sum uint64, err error) {
	n, err := btcd.Start(ctx, btcd.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	const fee = 1_000
	key, err := btcd.NewKey()
	if err != nil {
		return 0, err
	}
	paid, err := n.PayAddress(ctx, btcd.KeyAddress(key), depositSatoshi)
	if err != nil {
		return 0, err
	}
	for _, satoshi := range []int64{depositSatoshi - fee, withdrawalSatoshi} { // to the treasury, and to the payee
		nextKey, err := btcd.NewKey()
		if err != nil {
			return 0, err
		}
		output, err := btcd.NewOutput(btcd.KeyAddress(nextKey), satoshi)
		if err != nil {
			return 0, err
		}
		if paid, err = n.BuildSpend(
			key, []btcd.Output{{OutPoint: wire.OutPoint{Hash: paid.TxHash()}, TxOut: *paid.TxOut[0]}}, fee, output,
		); err != nil {
			return 0, err
		}
		if err := n.SendTx(ctx, paid); err != nil {
			return 0, err
		}
		size, err := txSize(ctx, n, paid.TxHash().String())
		if err != nil {
			return 0, err
		}
		key, sum = nextKey, sum+size
		if _, err := n.MineBlocks(ctx, 1); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
