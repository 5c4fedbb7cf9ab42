package drill

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// network is the chain of a drill. Everything else in a drill is the same on all chains.
type network interface {
	mineBlock(ctx context.Context) error // one block
	blockInterval() time.Duration
	// isTooFarAhead reports whether mining has to wait for the service: the node does not keep the
	// state that blocks are checked against for long.
	isTooFarAhead(ctx context.Context, h *drillEnv) bool
	// mintSymbol is the mint of all payments; baseUnit is what the drills count in.
	mintSymbol() string
	baseUnit() int64
	// unusedAddress returns an address that never received anything, the same for the same seed.
	unusedAddress(seed []byte) string
	// normalize returns an address or a hash in the oracle's form.
	normalize(text string) string
	openOracle() truth
	// waitFunded waits for the operator's funds once the world runs. operatorFunds returns what our
	// addresses have apart from deposits and payments, by the oracle after its walk.
	waitFunded(ctx context.Context, h *drillEnv) error
	operatorFunds(ownAddresses map[string]bool) *big.Int
}

// truth is the interface of an oracle.
type truth interface {
	Walk(ctx context.Context) (height uint64, err error)
	Judge(claims []oracle.Claim, ownAddresses map[string]bool) (wrong []string)
	// Holds returns a balance at the height that Walk returned.
	Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error)
}

func (h *drillEnv) newNetwork() network {
	switch h.chainName {
	case chain.Solana:
		node := h.world.SolanaNode()
		return &solana{node: node, oracle: oracle.OpenSolana(node.URL, node.CurrentSlot()-1)}
	case chain.Bitcoin:
		node := h.world.BitcoinNode()
		u, err := url.Parse(node.URL)
		if err != nil {
			panic("btcd answers at " + node.URL)
		}
		u.User = url.UserPassword(btcd.User, node.Password)
		return &bitcoin{node, oracle.OpenBitcoin(u.String(), btcd.Maturity), new(big.Int)}
	}
	return &ethereum{h: h}
}

// lag says how far the service's walk is behind a chain. Reading it costs a query, so it is kept for a moment.
type lag struct {
	readAt   time.Time
	exceeded bool
}

const lagReadInterval = time.Second

// exceeds reports whether the walk is more than max blocks behind the newest block. An error keeps the last answer.
func (l *lag) exceeds(
	ctx context.Context, h *drillEnv, name chain.Name, max uint64, newest func() (uint64, error),
) bool {
	if time.Since(l.readAt) < lagReadInterval {
		return l.exceeded
	}
	l.readAt = time.Now()
	var height uint64
	if h.queryRow(ctx, `SELECT height FROM scan_cursors WHERE chain = $1`, []any{string(name)}, &height) != nil {
		return l.exceeded
	}
	if head, err := newest(); err == nil {
		l.exceeded = head > height+max
	}
	return l.exceeded
}

// ethereum is anvil.
type ethereum struct {
	h   *drillEnv
	lag lag
}

func (*ethereum) blockInterval() time.Duration { return blockEvery }
func (e *ethereum) mineBlock(ctx context.Context) error {
	return e.h.world.EthereumNode().MineBlocks(ctx, 1)
}

// isTooFarAhead keeps a slow machine from falling ever further behind the chain.
func (e *ethereum) isTooFarAhead(ctx context.Context, h *drillEnv) bool {
	return e.lag.exceeds(ctx, h, chain.Ethereum, blocksAheadMax, func() (uint64, error) {
		return h.world.EthereumNode().Eth.BlockNumber(ctx)
	})
}

func (*ethereum) mintSymbol() string                          { return "USDC" }
func (*ethereum) baseUnit() int64                             { return 1_000_000 }
func (*ethereum) normalize(text string) string                { return toLower(text) }
func (e *ethereum) openOracle() truth                         { return e.h.oracle }
func (*ethereum) waitFunded(context.Context, *drillEnv) error { return nil }
func (*ethereum) operatorFunds(map[string]bool) *big.Int      { return new(big.Int) }
func (*ethereum) unusedAddress(seed []byte) string {
	return common.BytesToAddress(crypto.Keccak256(seed)).Hex()
}

// solana is surfpool, which keeps the state that blocks are checked against for some hundred
// blocks.
type solana struct {
	node   *surfpool.Node
	oracle *oracle.Solana
	lag    lag
}

// 31 blocks until one is final.
func (*solana) blockInterval() time.Duration                { return 60 * time.Millisecond }
func (s *solana) mineBlock(ctx context.Context) error       { return s.node.MineBlocks(ctx, 1) }
func (*solana) mintSymbol() string                          { return "USDC" }
func (*solana) baseUnit() int64                             { return 1_000_000 }
func (*solana) normalize(text string) string                { return text }
func (s *solana) openOracle() truth                         { return solanaTruth{s.oracle} }
func (*solana) waitFunded(context.Context, *drillEnv) error { return nil }
func (*solana) operatorFunds(map[string]bool) *big.Int      { return new(big.Int) }

func (s *solana) isTooFarAhead(ctx context.Context, h *drillEnv) bool {
	return s.lag.exceeds(ctx, h, chain.Solana, 4*surfpool.Finality, func() (uint64, error) {
		return s.node.CurrentSlot(), nil
	})
}

func (*solana) unusedAddress(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(surfpool.AddressOf(ed25519.NewKeyFromSeed(sum[:])))
}

// solanaTruth knows no past balances: nothing moves while a drill reads it.
type solanaTruth struct{ *oracle.Solana }

func (t solanaTruth) Holds(ctx context.Context, asset, holder string, _ uint64) (*big.Int, error) {
	return t.Solana.Holds(ctx, asset, holder)
}

// bitcoin is btcd, where the paid mint also pays the fees.
type bitcoin struct {
	node   *btcd.Node
	oracle *oracle.Bitcoin
	fuel   *big.Int // what the operator has put in
}

func (*bitcoin) blockInterval() time.Duration { return 2 * blockEvery }
func (b *bitcoin) mineBlock(ctx context.Context) error {
	_, err := b.node.MineBlocks(ctx, 1)
	return err
}
func (*bitcoin) isTooFarAhead(context.Context, *drillEnv) bool { return false }
func (*bitcoin) mintSymbol() string                            { return "BTC" }
func (*bitcoin) baseUnit() int64                               { return 10_000 }
func (*bitcoin) normalize(text string) string                  { return text }
func (b *bitcoin) openOracle() truth                           { return bitcoinTruth{b.oracle} }

func (*bitcoin) unusedAddress(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(bitcointx.KeyAddress(
		&chaincfg.RegressionNetParams, [bitcointx.KeyBytes]byte(append([]byte{2}, sum[:]...)),
	))
}

// waitFunded waits for the coin that the operator has put in.
func (b *bitcoin) waitFunded(ctx context.Context, h *drillEnv) error {
	return retryUntilDone(ctx, "the treasury has coins", func(ctx context.Context) error {
		var n int
		if err := h.queryRow(ctx, `SELECT count(*) FROM utxos WHERE status = 'FREE'`, nil, &n); err != nil {
			return err
		}
		ownAddresses, err := h.loadOwnAddresses(ctx)
		if err != nil {
			return err
		}
		if _, err := b.oracle.Walk(ctx); err != nil {
			return err
		}
		outputs, err := b.oracle.UnspentOutputs(ctx, ownAddresses)
		if err == nil && (n == 0 || len(outputs) != n) {
			err = fmt.Errorf("%d coins, and %d outputs on the chain", n, len(outputs))
		}
		if err != nil {
			return err
		}
		for _, output := range outputs {
			b.fuel.Add(b.fuel, output.Amount)
		}
		return nil
	})
}

// operatorFunds returns what the operator put in, less the cost of every transaction of ours.
func (b *bitcoin) operatorFunds(ownAddresses map[string]bool) *big.Int {
	left := new(big.Int).Set(b.fuel)
	for _, s := range b.oracle.SentBy(ownAddresses) {
		left.Sub(left, s.Fee)
	}
	return left
}

// bitcoinTruth knows no past balances: nothing moves while a drill reads it.
type bitcoinTruth struct{ *oracle.Bitcoin }

func (t bitcoinTruth) Holds(ctx context.Context, _, holder string, _ uint64) (*big.Int, error) {
	return t.Bitcoin.Holds(ctx, holder)
}
