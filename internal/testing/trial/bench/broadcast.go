package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const (
	broadcastCount = 300
	broadcastGoal  = 100 // a second
)

// benchBroadcast measures withdrawals of one treasury from accepted to broadcast and to paid, on a local chain that
// mines a block for each turn of the service.
func benchBroadcast(ctx context.Context, w *benchEnv) (err error) {
	s, err := newTokenChain(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	chainConf, err := evm.New(ctx, evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{s.URL},
		Quorum: 1, FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	if err != nil {
		return err
	}
	start, err := s.Eth.BlockNumber(ctx)
	if err != nil {
		return err
	}
	h, err := w.newServiceEnv(ctx, envConfig{
		name: "broadcast", chainConf: chainConf, startHeight: start,
		mineBlock: func(ctx context.Context) error { return s.MineBlocks(ctx, 1) },
		policy: signpolicy.Chain{
			SignerID: fmt.Sprint(anvil.DefaultChainID), FeeMax: money.Units(params.Ether / 100),
			GasMax: money.Units(params.Ether), Unlimited: true,
		},
		mints: []mint.Mint{
			{ID: gasNativeMint, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18, Finality: "FINALIZED"},
		},
		prices: map[int]money.USD{gasNativeMint: money.MustParseUSD("2000")},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.closeAll()) }()
	treasury := common.HexToAddress(string(h.treasury.Address))
	if _, err := s.PayCoin(ctx, treasury, big.NewInt(params.Ether)); err != nil {
		return err
	}
	depositAddress, err := h.createDepositAddress(ctx, "c0")
	if err != nil {
		return err
	}
	if err := s.payDeposit(ctx, gasNativeMint, depositAddress.Address); err != nil {
		return err
	}
	if err := h.stepUntil(ctx, 1, "deposit is swept", `SELECT count(*) FROM sweeps WHERE status = 'DONE'`); err != nil {
		return err
	}
	for range broadcastCount {
		key, err := anvil.NewKey()
		if err != nil {
			return err
		}
		payee := evmtx.Canonical(crypto.PubkeyToAddress(key.PublicKey))
		err = h.requestWithdrawal(ctx, "c0", gasNativeMint, uint64(depositWei)/(2*broadcastCount), payee)
		if err != nil {
			return err
		}
	}
	before, began := w.readWork(), time.Now()
	if err := h.stepUntil(ctx, broadcastCount, "withdrawals are broadcast", `
		SELECT count(*) FROM dispatch_orders
		WHERE purpose = 'PAYMENT' AND status IN ('BROADCAST', 'PAID')`); err != nil {
		return err
	}
	rate, spent := perSecond(broadcastCount, time.Since(began)), w.readWork().subtract(before)
	if err := h.stepUntil(ctx, broadcastCount, "withdrawals are paid", `
		SELECT count(*) FROM withdrawals WHERE status = 'COMPLETED'`); err != nil {
		return err
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("%d withdrawals of one treasury from accepted to broadcast on anvil", broadcastCount),
		result: fmt.Sprintf("%.0f/s; to paid %.0f/s", rate, perSecond(broadcastCount, time.Since(began))),
		compared: joinParts(formatRatio(rate, w.table.tpcb8, "pgbench at 8 clients"),
			spent.formatEach(broadcastCount)+", without the node"),
		target: formatTarget(rate >= broadcastGoal, fmt.Sprintf("%d/s", broadcastGoal)),
	})
	return nil
}
