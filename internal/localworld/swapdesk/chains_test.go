package swapdesk_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
)

const waitMax = 60 * time.Second

// liveDesk is a desk on real local chains, with the client of bench.
type liveDesk struct {
	*bench
	conf swapdesk.Config
}

// startLive starts a desk with its listeners.
func startLive(t *testing.T, conf swapdesk.Config) *liveDesk {
	t.Helper()
	conf.State, conf.Interval = filepath.Join(t.TempDir(), "swaps.json"), 20*time.Millisecond
	l := &liveDesk{bench: &bench{t: t, now: time.Now()}, conf: conf}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *liveDesk) start() {
	l.t.Helper()
	var err error
	if l.desk, err = swapdesk.Start(l.t.Context(), l.conf); err != nil {
		l.t.Fatal(err)
	}
	l.api, l.ctl = newURL(l.desk.URL()), newURL(l.desk.ControlURL())
}

func (l *liveDesk) stop() {
	if err := l.desk.Stop(); err != nil {
		l.t.Error(err)
	}
}

// waitStatus waits until a swap has a status.
func (l *liveDesk) waitStatus(address, want string) status {
	l.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitMax); ; <-tick.C {
		s := l.status(address)
		if s.Status == want {
			return s
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("got %+v, want %s in time; transfers %+v", s, want, l.transfers())
		}
	}
}

// soon is a deadline that passes within the test.
func soon() string { return time.Now().Add(3 * time.Second).Format(time.RFC3339) }

func newEVMAddress(t *testing.T) common.Address {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return crypto.PubkeyToAddress(key.PublicKey)
}

func evmAssets(tokens anvil.Tokens) []swapdesk.Asset {
	dollar := money.MustParseUSD("1.00")
	return []swapdesk.Asset{
		{1, chain.Ethereum, "eth", tokens.USDC.Address.Hex(), "USDC", 6, dollar},
		{2, chain.Ethereum, "eth", tokens.USDT.Address.Hex(), "USDT", 6, dollar},
		{4, chain.Ethereum, "eth", "", "ETH", 18, money.MustParseUSD("3000.00")},
	}
}

// fundEVM pays from the faucet without waiting for a block.
func fundEVM(
	ctx context.Context, n *anvil.Node, contract string, recipient common.Address, units *big.Int,
) error {
	target, value, data := recipient, units, []byte(nil)
	if contract != "" {
		target, value, data = common.HexToAddress(contract), nil, evmtoken.Token.CallData("transfer", recipient, units)
	}
	_, err := n.SendTx(ctx, &target, value, data)
	return err
}

func tokenUnits(t *testing.T, n *anvil.Node, token anvil.Token, owner common.Address) string {
	t.Helper()
	values, err := n.CallContract(t.Context(), token.Address, token.Contract, "balanceOf", owner)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(values[0])
}

func TestSwapsOnEthereum(t *testing.T) {
	t.Parallel()
	n, tokens := anviltest.StartWithTokens(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1})
	l := startLive(t, swapdesk.Config{
		Assets: evmAssets(tokens),
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			c, err := swapdesk.DialEVM(t.Context(), chain.Ethereum, n.URL, seed)
			return []swapdesk.Chain{c}, err
		},
		Fund: func(ctx context.Context, a swapdesk.Asset, recipient string, amount money.Amount) error {
			return fundEVM(ctx, n, a.Contract, common.HexToAddress(recipient), amount.Big())
		},
	})
	recipient, refundTo := newEVMAddress(t), newEVMAddress(t)
	usdcID := swapdesk.AssetID(chain.Ethereum, tokens.USDC.Address.Hex())
	usdtID := swapdesk.AssetID(chain.Ethereum, tokens.USDT.Address.Hex())
	ask := func(origin, destination, amount, deadline string) map[string]any {
		return map[string]any{
			"originAsset": origin, "destinationAsset": destination, "amount": amount, "deadline": deadline,
			"recipient": recipient.Hex(), "refundTo": refundTo.Hex(),
		}
	}
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	coin := l.verified(ask("local:ethereum:native", usdcID, oneETH, later))
	token := l.verified(ask(usdtID, "local:ethereum:native", "6000000000", later))
	short := l.verified(ask("local:ethereum:native", usdcID, oneETH, soon()))
	unpaid := l.verified(ask("local:ethereum:native", usdcID, oneETH, later))
	for _, deposit := range []struct {
		contract, address string
		units             *big.Int
	}{
		{"", coin.DepositAddress, big.NewInt(params.Ether)},
		{tokens.USDT.Address.Hex(), token.DepositAddress, big.NewInt(6_000_000_000)},
		{"", short.DepositAddress, big.NewInt(params.Ether / 2)},
		// Another asset than the quoted one is no deposit.
		{tokens.USDC.Address.Hex(), unpaid.DepositAddress, big.NewInt(6_000_000_000)},
	} {
		recipient := common.HexToAddress(deposit.address)
		if err := fundEVM(t.Context(), n, deposit.contract, recipient, deposit.units); err != nil {
			t.Fatal(err)
		}
	}
	// The desk ends in the middle and goes on from its file.
	l.waitStatus(coin.DepositAddress, "PROCESSING")
	l.stop()
	l.start()
	s := l.waitStatus(coin.DepositAddress, "SUCCESS")
	if got := tokenUnits(t, n, tokens.USDC, recipient); got != quotedUSDC || *s.SwapDetails.AmountOut != got {
		t.Errorf("got %s USDC and %+v, want %s", got, s, quotedUSDC)
	}
	l.waitStatus(token.DepositAddress, "SUCCESS")
	balance, err := n.Eth.BalanceAt(t.Context(), recipient, nil)
	if err != nil || balance.String() != token.AmountOut.String() {
		t.Errorf("got %v, %v, want %s", balance, err, token.AmountOut)
	}
	l.waitStatus(short.DepositAddress, "REFUNDED")
	if balance, err = n.Eth.BalanceAt(t.Context(), refundTo, nil); err != nil ||
		balance.String() != "499916666666666667" {
		t.Errorf("got %v, %v as the refund", balance, err)
	}
	if s := l.status(unpaid.DepositAddress); s.Status != "PENDING_DEPOSIT" {
		t.Errorf("got %+v, want no deposit", s)
	}
	if got := l.transfers(); len(got.Transfers) != 6 || got.Totals[0].Delivered.String() != quotedUSDC ||
		got.Totals[2].Received.String() != "1500000000000000000" {
		t.Errorf("got %+v", got)
	}
}

func TestADeliveryThatAnEVMTokenRefusesIsRefunded(t *testing.T) {
	t.Parallel()
	n, tokens := anviltest.StartWithTokens(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1})
	l := startLive(t, swapdesk.Config{
		Assets: evmAssets(tokens),
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			c, err := swapdesk.DialEVM(t.Context(), chain.Ethereum, n.URL, seed)
			return []swapdesk.Chain{c}, err
		},
		Fund: func(ctx context.Context, a swapdesk.Asset, recipient string, amount money.Amount) error {
			return fundEVM(ctx, n, a.Contract, common.HexToAddress(recipient), amount.Big())
		},
	})
	recipient, refundTo := newEVMAddress(t), newEVMAddress(t)
	if _, err := n.SendAndWait(
		t.Context(), tokens.USDC.Address, nil, tokens.USDC.Contract.CallData("blacklist", recipient),
	); err != nil {
		t.Fatal(err)
	}
	q := l.verified(map[string]any{
		"originAsset": "local:ethereum:native", "recipient": recipient.Hex(), "refundTo": refundTo.Hex(),
		"destinationAsset": swapdesk.AssetID(chain.Ethereum, tokens.USDC.Address.Hex()),
	})
	if err := fundEVM(
		t.Context(), n, "", common.HexToAddress(q.DepositAddress), big.NewInt(params.Ether),
	); err != nil {
		t.Fatal(err)
	}
	l.waitStatus(q.DepositAddress, "REFUNDED")
	if balance, err := n.Eth.BalanceAt(t.Context(), refundTo, nil); err != nil || balance.String() != netRefund {
		t.Errorf("got %v, %v as the refund", balance, err)
	}
}

func TestSwapsOnSolana(t *testing.T) {
	t.Parallel()
	n := surfpooltest.Start(t, surfpool.Config{SlotTime: 50 * time.Millisecond})
	l := startLive(t, swapdesk.Config{
		Assets: []swapdesk.Asset{
			{5, chain.Solana, "sol", string(surfpool.USDC), "USDC", 6, money.MustParseUSD("1.00")},
			{7, chain.Solana, "sol", "", "SOL", 9, money.MustParseUSD("150.00")},
		},
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			c, err := swapdesk.DialSolana(t.Context(), n.URL, seed)
			return []swapdesk.Chain{c}, err
		},
		Fund: func(ctx context.Context, a swapdesk.Asset, recipient string, amount money.Amount) (err error) {
			units, _ := amount.Uint64()
			if a.Contract == "" {
				_, err = n.PayLamports(ctx, chain.Address(recipient), units)
			} else {
				_, err = n.PayToken(ctx, chain.Address(a.Contract), chain.Address(recipient), units)
			}
			return err
		},
	})
	newAddress := func() chain.Address {
		key, err := surfpool.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return surfpool.AddressOf(key)
	}
	recipient, refundTo := newAddress(), newAddress()
	usdcID := swapdesk.AssetID(chain.Solana, string(surfpool.USDC))
	ask := func(origin, destination, amount, deadline string) map[string]any {
		return map[string]any{
			"originAsset": origin, "destinationAsset": destination, "amount": amount, "deadline": deadline,
			"recipient": recipient, "refundTo": refundTo,
		}
	}
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	coin := l.verified(ask("local:solana:native", usdcID, "2000000000", later))
	token := l.verified(ask(usdcID, "local:solana:native", "300000000", later))
	short := l.verified(ask(usdcID, "local:solana:native", "300000000", soon()))
	_, coinErr := n.PayLamports(t.Context(), chain.Address(coin.DepositAddress), 2_000_000_000)
	_, tokenErr := n.PayToken(t.Context(), surfpool.USDC, chain.Address(token.DepositAddress), 300_000_000)
	_, shortErr := n.PayToken(t.Context(), surfpool.USDC, chain.Address(short.DepositAddress), 100_000_000)
	if err := errors.Join(coinErr, tokenErr, shortErr); err != nil {
		t.Fatal(err)
	}
	tokenUnits := func(owner chain.Address) string {
		var got struct{ Value struct{ Amount string } }
		m := surfpool.Mint{Address: surfpool.USDC, Program: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"}
		account := m.AssociatedAccount(owner)
		if err := n.RPC.CallContext(t.Context(), &got, "getTokenAccountBalance", account); err != nil {
			t.Error(err)
		}
		return got.Value.Amount
	}
	l.waitStatus(coin.DepositAddress, "SUCCESS")
	if got := tokenUnits(recipient); got != coin.AmountOut.String() {
		t.Errorf("got %s USDC, want %s", got, coin.AmountOut)
	}
	l.stop()
	l.start()
	l.waitStatus(token.DepositAddress, "SUCCESS")
	var balance struct{ Value uint64 }
	if err := n.RPC.CallContext(t.Context(), &balance, "getBalance", recipient); err != nil ||
		money.Units(balance.Value) != token.AmountOut {
		t.Errorf("got %d, %v, want %s lamports", balance.Value, err, token.AmountOut)
	}
	l.waitStatus(short.DepositAddress, "REFUNDED")
	if got := tokenUnits(refundTo); got != "99750000" {
		t.Errorf("got %s USDC as the refund", got)
	}
}

func TestSwapsBetweenBitcoinAndEthereum(t *testing.T) {
	t.Parallel()
	bitcoin := btcdtest.Start(t, btcd.Config{BlockTime: 100 * time.Millisecond})
	ethereum := anviltest.Start(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1})
	l := startLive(t, swapdesk.Config{
		Assets: []swapdesk.Asset{
			{4, chain.Ethereum, "eth", "", "ETH", 18, money.MustParseUSD("3000.00")},
			{8, chain.Bitcoin, "btc", "", "BTC", 8, money.MustParseUSD("60000.00")},
		},
		Chains: func(seed swapdesk.Seed) ([]swapdesk.Chain, error) {
			c, err := swapdesk.DialEVM(t.Context(), chain.Ethereum, ethereum.URL, seed)
			return []swapdesk.Chain{c, swapdesk.DialBitcoin(bitcoin.URL, bitcoin.Password, seed)}, err
		},
		Fund: func(ctx context.Context, a swapdesk.Asset, recipient string, amount money.Amount) error {
			if a.Chain == chain.Ethereum {
				return fundEVM(ctx, ethereum, "", common.HexToAddress(recipient), amount.Big())
			}
			satoshi, _ := amount.Uint64()
			_, err := bitcoin.PayAddress(ctx, chain.Address(recipient), int64(satoshi))
			return err
		},
	})
	newAddress := func() chain.Address {
		key, err := btcd.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return btcd.KeyAddress(key)
	}
	onBitcoin, refundTo, onEthereum := newAddress(), newAddress(), newEVMAddress(t)
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	fromBitcoin := func(deadline string) map[string]any {
		return map[string]any{
			"originAsset": "local:bitcoin:native", "destinationAsset": "local:ethereum:native", "amount": "10000000",
			"recipient": onEthereum.Hex(), "refundTo": refundTo, "deadline": deadline,
		}
	}
	paid, short := l.verified(fromBitcoin(later)), l.verified(fromBitcoin(soon()))
	var toBitcoin []string
	for range 3 { // several payments of one wallet at once
		q := l.verified(map[string]any{
			"originAsset": "local:ethereum:native", "destinationAsset": "local:bitcoin:native", "amount": oneETH,
			"recipient": onBitcoin, "refundTo": onEthereum.Hex(), "deadline": later,
		})
		toBitcoin = append(toBitcoin, q.DepositAddress)
		if err := fundEVM(
			t.Context(), ethereum, "", common.HexToAddress(q.DepositAddress), big.NewInt(params.Ether),
		); err != nil {
			t.Fatal(err)
		}
	}
	for address, satoshi := range map[string]int64{paid.DepositAddress: 10_000_000, short.DepositAddress: 1_000_000} {
		if _, err := bitcoin.PayAddress(t.Context(), chain.Address(address), satoshi); err != nil {
			t.Fatal(err)
		}
	}
	l.waitStatus(paid.DepositAddress, "SUCCESS")
	if balance, err := ethereum.Eth.BalanceAt(t.Context(), onEthereum, nil); err != nil ||
		balance.String() != paid.AmountOut.String() {
		t.Errorf("got %v, %v, want %s", balance, err, paid.AmountOut)
	}
	l.stop()
	l.start()
	hashes := map[string]bool{}
	for _, address := range toBitcoin {
		s := l.waitStatus(address, "SUCCESS")
		hashes[s.SwapDetails.DestinationChainTxHashes[0].Hash] = true
	}
	s := l.waitStatus(short.DepositAddress, "REFUNDED")
	if *s.SwapDetails.RefundedAmount != "999584" { // less a quarter of a dollar
		t.Errorf("got %s satoshi as the refund", *s.SwapDetails.RefundedAmount)
	}
	if len(hashes) != 3 {
		t.Errorf("got the transactions %v, want three", hashes)
	}
	// Each payment is on the chain, once.
	got := map[chain.Address]int64{}
	height, err := bitcoin.TipHeight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for h := 1; h <= height; h++ {
		hash, err := bitcoin.BlockHash(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		block, err := bitcoin.ReadBlock(t.Context(), hash)
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range block.Transactions {
			for _, output := range tx.TxOut {
				for _, address := range []chain.Address{onBitcoin, refundTo} {
					want, err := btcd.NewOutput(address, output.Value)
					if err == nil && string(want.PkScript) == string(output.PkScript) {
						got[address] += output.Value
					}
				}
			}
		}
	}
	// 0.05 BTC less 20 basis points and a quarter of a dollar, three times.
	if got[onBitcoin] != 3*4_989_584 || got[refundTo] != 999_584 {
		t.Errorf("got %v", got)
	}
}
