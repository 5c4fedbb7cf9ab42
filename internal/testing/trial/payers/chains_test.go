package payers

import (
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/localworld"
)

// chainTitles are the names of chains as pages write them.
var chainTitles = map[string]string{"ETHEREUM": "Ethereum", "SOLANA": "Solana", "BITCOIN": "Bitcoin"}

// head returns the newest block of Ethereum.
func (p *payer) head() *types.Header {
	p.Helper()
	head, err := p.EthereumNode().Eth.HeaderByNumber(p.ctx, nil)
	p.must(err)
	return head
}

// height returns the height of the newest block of a mint's chain.
func (p *payer) height(m localworld.Mint) int {
	p.Helper()
	switch m.Chain {
	case "ETHEREUM":
		return int(p.head().Number.Int64())
	case "SOLANA":
		return int(p.SolanaNode().CurrentSlot()) - 1
	}
	height, err := p.BitcoinNode().TipHeight(p.ctx)
	p.must(err)
	return height
}

// chainTime returns the time of the newest block of a mint's chain.
func (p *payer) chainTime(m localworld.Mint) time.Time {
	p.Helper()
	switch m.Chain {
	case "ETHEREUM":
		return time.Unix(int64(p.head().Time), 0)
	case "SOLANA":
		return p.SolanaNode().ChainTime()
	}
	hash, err := p.BitcoinNode().BlockHash(p.ctx, p.height(m))
	p.must(err)
	block, err := p.BitcoinNode().ReadBlock(p.ctx, hash)
	p.must(err)
	return block.Header.Timestamp
}

// waitBlock waits until what was sent before is in a block of the chain. It returns the later one of now and the time
// of the newest block: the times of Bitcoin's blocks may lie ahead, because the node made the first ones faster than a
// clock goes.
func (p *payer) waitBlock(m localworld.Mint) time.Time {
	p.Helper()
	start := p.height(m)
	p.waitUntil(m.Chain+" has two more blocks", func() bool { return p.height(m) >= start+2 })
	if newest := p.chainTime(m); newest.After(time.Now()) {
		return newest
	}
	return time.Now()
}

// surfpoolLagMax is by how much the time of a block may later be said to be earlier. Surfpool computes it from the
// number of the block and its clock, and on a busy machine blocks come at uneven intervals.
const surfpoolLagMax = 5 * time.Second

// waitChainTime waits until the next block of a chain has a time after a moment: blocks have whole seconds, and those
// of a busy chain lag. A time that lies ahead is not believed, so Bitcoin, which makes blocks only while a payment
// waits, needs no wait for a block.
func (p *payer) waitChainTime(m localworld.Mint, moment time.Time) {
	p.Helper()
	p.waitUntil("the time of "+m.Chain+" is past "+moment.String(), func() bool {
		newest := time.Now()
		switch m.Chain {
		case "ETHEREUM":
			newest = p.chainTime(m)
		case "SOLANA":
			newest = p.chainTime(m).Add(-surfpoolLagMax)
		}
		return newest.Unix() > moment.Unix()
	})
}

// holdBlocks keeps the clock of a chain and the faucet still while something is done with its blocks.
func (p *payer) holdBlocks(m localworld.Mint, act func()) {
	p.Helper()
	faucet := p.faucets[m.Chain]
	faucet.Lock()
	defer faucet.Unlock()
	switch m.Chain {
	case "BITCOIN":
		defer p.BitcoinNode().HoldClock()()
		act()
		return
	case "SOLANA":
		defer p.SolanaNode().HoldClock()()
		act()
		return
	}
	node := p.EthereumNode()
	interval, err := node.IntervalMining(p.ctx)
	p.must(err)
	p.must(node.SetIntervalMining(p.ctx, 0))
	defer func() { p.must(node.SetIntervalMining(p.ctx, interval)) }()
	act()
}

// mineBlock makes a block with what waits for one.
func (p *payer) mineBlock(m localworld.Mint) {
	p.Helper()
	switch m.Chain {
	case "BITCOIN":
		_, err := p.BitcoinNode().MineBlocks(p.ctx, 1)
		p.must(err)
	case "SOLANA":
		p.must(p.SolanaNode().MineBlocks(p.ctx, 1))
	default:
		p.must(p.EthereumNode().MineBlocks(p.ctx, 1))
	}
}

// replaceBlocks replaces the newest blocks by as many others without a payment. What the faucet paid in them never
// returns.
func (p *payer) replaceBlocks(m localworld.Mint, depth int) {
	p.Helper()
	if m.Chain == "BITCOIN" {
		p.must(p.BitcoinNode().ForkChain(p.ctx, depth))
		return
	}
	p.must(p.EthereumNode().ReplaceBlocks(p.ctx, depth))
}

// repoint decides that the service goes on with the chain that is final now, as an operator does with coffer chain
// repoint.
func (p *payer) repoint(m localworld.Mint) {
	p.Helper()
	conf, err := app.ReadConfig(p.Info.Config)
	p.must(err)
	tools, err := app.OpenTools(p.ctx, conf, slog.New(slog.DiscardHandler))
	p.must(err)
	defer func() { p.must(tools.Close()) }()
	walker := tools.Walker(chain.Name(m.Chain))
	p.waitUntil("the finality of "+m.Chain+" is broken and decided", func() bool {
		fork, err := walker.FindFork(p.ctx)
		if err != nil {
			return false
		}
		_, err = walker.Repoint(p.ctx, fork, settleBlocks, audit.Operator("trial"))
		return err == nil
	})
}
