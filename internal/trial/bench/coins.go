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
	coin        = 1
	coinFinal   = 3
	depositSats = 1_000_000
	paidSats    = 600_000
)

// coins has the service on a real node pay withdrawals out of what customers paid in, as
// it does by itself, and counts the virtual bytes that the node says its transactions
// have. The naive way sweeps every deposit to the treasury first and pays from there.
func coins(ctx context.Context, w *world) error {
	naive, err := naiveCoins(ctx)
	if err != nil {
		return fmt.Errorf("the naive way: %w", err)
	}
	for _, n := range []int{1, 10} {
		ours, txs, err := w.coinsOf(ctx, n)
		if err != nil {
			return fmt.Errorf("%d withdrawals: %w", n, err)
		}
		w.table.add(beside(fmt.Sprintf("for a deposit that is withdrawn on Bitcoin, %d at once in %d transaction", n, txs),
			n, "virtual bytes", ours, naive*uint64(n), "less than the naive way"))
	}
	return nil
}

func sizeOf(ctx context.Context, n *btcd.Node, hash string) (uint64, error) {
	var tx struct{ Vsize uint64 }
	err := n.Call(ctx, &tx, "getrawtransaction", hash, 1)
	return tx.Vsize, err
}

// coinsOf is the size of all that the service sent until so many deposits were withdrawn.
func (w *world) coinsOf(ctx context.Context, count int) (sum uint64, txs int, err error) {
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
	on, err := bitcoin.New(ctx, bitcoin.Config{Network: chain.Local, Endpoints: []string{u.String()}, Agree: 1, Confirmations: coinFinal})
	if err != nil {
		return 0, 0, err
	}
	start, err := n.Height(ctx)
	if err != nil {
		return 0, 0, err
	}
	most := money.Units(bitcoin.CostMaxDefault)
	h, err := w.build(ctx, plot{
		name: fmt.Sprint("coins", count), on: on, start: uint64(start), mine: func(ctx context.Context) error { _, err := n.Mine(ctx, 1); return err },
		policy: local.ChainPolicy{SignerID: chaincfg.RegressionNetParams.GenesisHash.String(), FeeMax: most, GasMax: most, Unlimited: true},
		mints:  []mint.Mint{{ID: coin, Kind: mint.Native, Symbol: "BTC", Name: "Bitcoin", Decimals: 8, Finality: "DEPTH", ConfirmationsRequired: coinFinal}},
		prices: map[int]money.USD{coin: money.MustParseUSD("1")},
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if _, err := n.Pay(ctx, h.treasury.Address, 100_000); err != nil { // for fees
		return 0, 0, err
	}
	for i := range count {
		a, err := h.address(ctx, fmt.Sprint("c", i))
		if err != nil {
			return 0, 0, err
		}
		if _, err := n.Pay(ctx, a.Address, depositSats); err != nil {
			return 0, 0, err
		}
	}
	if err := h.until(ctx, count+1, "coins are there", `SELECT count(*) FROM coins WHERE status = 'FREE'`); err != nil {
		return 0, 0, err
	}
	for i := range count {
		k, err := btcd.NewKey()
		if err != nil {
			return 0, 0, err
		}
		if err := h.withdraw(ctx, fmt.Sprint("c", i), coin, paidSats, btcd.KeyAddress(k)); err != nil {
			return 0, 0, err
		}
	}
	if err := h.until(ctx, count, "withdrawals are paid", `SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`); err != nil {
		return 0, 0, err
	}
	hashes, err := h.hashes(ctx, signer.Payment)
	if err != nil {
		return 0, 0, err
	}
	for _, hash := range hashes {
		size, err := sizeOf(ctx, n, hash)
		if err != nil {
			return 0, 0, err
		}
		sum += size
	}
	return sum, len(hashes), nil
}

// naiveCoins is what a deposit that is withdrawn costs the naive way: swept to the
// treasury, whose coin pays then and gets the rest back.
func naiveCoins(ctx context.Context) (sum uint64, err error) {
	n, err := btcd.Start(ctx, btcd.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	const fee = 1_000
	from, err := btcd.NewKey()
	if err != nil {
		return 0, err
	}
	paid, err := n.Pay(ctx, btcd.KeyAddress(from), depositSats)
	if err != nil {
		return 0, err
	}
	for _, satoshi := range []int64{depositSats - fee, paidSats} { // to the treasury, and to the payee
		next, err := btcd.NewKey()
		if err != nil {
			return 0, err
		}
		to, err := btcd.To(btcd.KeyAddress(next), satoshi)
		if err != nil {
			return 0, err
		}
		if paid, err = n.Spend(from, []btcd.Coin{{OutPoint: wire.OutPoint{Hash: paid.TxHash()}, TxOut: *paid.TxOut[0]}}, fee, to); err != nil {
			return 0, err
		}
		if err := n.Send(ctx, paid); err != nil {
			return 0, err
		}
		size, err := sizeOf(ctx, n, paid.TxHash().String())
		if err != nil {
			return 0, err
		}
		from, sum = next, sum+size
		if _, err := n.Mine(ctx, 1); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
