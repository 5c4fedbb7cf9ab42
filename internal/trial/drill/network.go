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
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

// network is the chain of a drill. Everything else of a drill is the same on all.
type network interface {
	mine(ctx context.Context) error // a block
	every() time.Duration
	// tooFar says that blocks have to wait for the service: what they are checked against
	// is not kept for ever.
	tooFar(ctx context.Context, h *house) bool
	// symbol and unit are what is paid: the mint, and what the drills count in.
	symbol() string
	unit() int64
	// nobody is an address that nothing was ever sent to, the same for the same seed.
	nobody(seed []byte) string
	// written is an address or a hash as the oracle has it.
	written(text string) string
	truth() truth
	// beside is what our addresses have beside what was paid in and out, as the oracle says
	// that has walked. begin is called when the world stands.
	begin(ctx context.Context, h *house) error
	beside(ours map[string]bool) *big.Int
}

// truth is what an oracle is asked.
type truth interface {
	Walk(ctx context.Context) (height uint64, err error)
	Judge(claims []oracle.Claim, ours map[string]bool) (wrong []string)
	// Holds is asked at the height that Walk stands at.
	Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error)
}

func (h *house) network() network {
	switch h.on {
	case chain.Solana:
		node := h.world.Solana()
		return &solana{node: node, oracle: oracle.OpenSolana(node.URL, node.Slot()-1)}
	case chain.Bitcoin:
		node := h.world.Bitcoin()
		u, err := url.Parse(node.URL)
		if err != nil {
			panic("btcd answers at " + node.URL)
		}
		u.User = url.UserPassword(btcd.User, node.Password)
		return &bitcoin{node, oracle.OpenBitcoin(u.String(), btcd.Maturity), new(big.Int)}
	}
	return ethereum{h}
}

// ethereum is anvil.
type ethereum struct{ h *house }

func (ethereum) every() time.Duration                { return blockEvery }
func (e ethereum) mine(ctx context.Context) error    { return e.h.world.Chain().Mine(ctx, 1) }
func (ethereum) tooFar(context.Context, *house) bool { return false }
func (ethereum) symbol() string                      { return "USDC" }
func (ethereum) unit() int64                         { return 1_000_000 }
func (ethereum) written(text string) string          { return lower(text) }
func (e ethereum) truth() truth                      { return e.h.oracle }
func (ethereum) begin(context.Context, *house) error { return nil }
func (ethereum) beside(map[string]bool) *big.Int     { return new(big.Int) }
func (ethereum) nobody(seed []byte) string {
	return common.BytesToAddress(crypto.Keccak256(seed)).Hex()
}

// solana is surfpool, which keeps what a block is checked against for some hundred blocks.
type solana struct {
	node   *surfpool.Node
	oracle *oracle.Solana
	asked  time.Time // as of which far is
	far    bool
}

func (*solana) every() time.Duration                { return 60 * time.Millisecond } // 31 blocks until one is final
func (s *solana) mine(ctx context.Context) error    { return s.node.Mine(ctx, 1) }
func (*solana) symbol() string                      { return "USDC" }
func (*solana) unit() int64                         { return 1_000_000 }
func (*solana) written(text string) string          { return text }
func (s *solana) truth() truth                      { return solanaTruth{s.oracle} }
func (*solana) begin(context.Context, *house) error { return nil }
func (*solana) beside(map[string]bool) *big.Int     { return new(big.Int) }

func (s *solana) tooFar(ctx context.Context, h *house) bool {
	if time.Since(s.asked) < 250*time.Millisecond {
		return s.far
	}
	s.asked = time.Now()
	var at uint64
	if h.query(ctx, `SELECT height FROM scan_cursors WHERE chain = 'SOLANA'`, nil, &at) == nil {
		s.far = s.node.Slot() > at+4*surfpool.Finality
	}
	return s.far
}

func (*solana) nobody(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(surfpool.AddressOf(ed25519.NewKeyFromSeed(sum[:])))
}

// solanaTruth knows no past balances: nothing moves while it is asked.
type solanaTruth struct{ *oracle.Solana }

func (t solanaTruth) Holds(ctx context.Context, asset, holder string, _ uint64) (*big.Int, error) {
	return t.Solana.Holds(ctx, asset, holder)
}

// bitcoin is btcd, where fees are paid in what is paid.
type bitcoin struct {
	node   *btcd.Node
	oracle *oracle.Bitcoin
	fuel   *big.Int // that the operator has put in
}

func (*bitcoin) every() time.Duration                { return 2 * blockEvery }
func (b *bitcoin) mine(ctx context.Context) error    { _, err := b.node.Mine(ctx, 1); return err }
func (*bitcoin) tooFar(context.Context, *house) bool { return false }
func (*bitcoin) symbol() string                      { return "BTC" }
func (*bitcoin) unit() int64                         { return 10_000 }
func (*bitcoin) written(text string) string          { return text }
func (b *bitcoin) truth() truth                      { return bitcoinTruth{b.oracle} }

func (*bitcoin) nobody(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(bitcointx.KeyAddress(&chaincfg.RegressionNetParams, [bitcointx.KeyBytes]byte(append([]byte{2}, sum[:]...))))
}

// begin waits for the coin that the operator has put in.
func (b *bitcoin) begin(ctx context.Context, h *house) error {
	return until(ctx, "the treasury has coins", func(ctx context.Context) error {
		var n int
		if err := h.query(ctx, `SELECT count(*) FROM coins WHERE status = 'FREE'`, nil, &n); err != nil {
			return err
		}
		ours, err := h.ours(ctx)
		if err != nil {
			return err
		}
		if _, err := b.oracle.Walk(ctx); err != nil {
			return err
		}
		all, err := b.oracle.Unspent(ctx, ours)
		if err == nil && (n == 0 || len(all) != n) {
			err = fmt.Errorf("%d coins, and %d outputs on the chain", n, len(all))
		}
		if err != nil {
			return err
		}
		for _, is := range all {
			b.fuel.Add(b.fuel, is.Amount)
		}
		return nil
	})
}

// beside is what the operator put in, less what every transaction of ours has cost.
func (b *bitcoin) beside(ours map[string]bool) *big.Int {
	left := new(big.Int).Set(b.fuel)
	for _, s := range b.oracle.Sent(ours) {
		left.Sub(left, s.Fee)
	}
	return left
}

// bitcoinTruth knows no past balances: nothing moves while it is asked.
type bitcoinTruth struct{ *oracle.Bitcoin }

func (t bitcoinTruth) Holds(ctx context.Context, _, holder string, _ uint64) (*big.Int, error) {
	return t.Bitcoin.Holds(ctx, holder)
}
